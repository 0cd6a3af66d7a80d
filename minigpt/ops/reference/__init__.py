"""The reference: the mathematics of every operation, written to be read. One file for each primitive; it runs on NumPy
and on CuPy arrays, for any floating-point dtype.

The rules that every pair keeps:
- `name_forward(arrays..., constants) -> out, cache`; `name_backward(dout, cache) ->` one gradient for each positional
  float input, in that order, a single one bare. `dv` is the gradient of `v`, `dout` the incoming one.
- The first line of a docstring gives the shapes; `*` stands for any leading axes.
- Pure: no state, and neither inputs nor cache are ever written to. The dtype that comes in goes out.
"""

from minigpt.device.rows_and_batches import batched_product, sum_rows
from minigpt.ops.reference.adam import adam_update, clip_gradients
from minigpt.ops.reference.attention import attention_backward, attention_forward
from minigpt.ops.reference.composites import (
    cross_attention_backward,
    cross_attention_forward,
    linear_cross_entropy_backward,
    linear_cross_entropy_forward,
    mlp_backward,
    mlp_forward,
    self_attention_backward,
    self_attention_forward,
)
from minigpt.ops.reference.cosine_loss import cosine_loss_backward, cosine_loss_forward
from minigpt.ops.reference.cross_entropy import cross_entropy_backward, cross_entropy_forward
from minigpt.ops.reference.dropout import dropout_backward, dropout_forward
from minigpt.ops.reference.embedding import embedding_backward, embedding_forward
from minigpt.ops.reference.gated_mlp import gated_mlp_backward, gated_mlp_forward
from minigpt.ops.reference.gelu import gelu_backward, gelu_forward
from minigpt.ops.reference.gelu_exact import gelu_exact_backward, gelu_exact_forward
from minigpt.ops.reference.layernorm import layernorm_backward, layernorm_forward
from minigpt.ops.reference.linear import linear_backward, linear_forward
from minigpt.ops.reference.lstm import lstm_backward, lstm_forward
from minigpt.ops.reference.relu import relu_backward, relu_forward
from minigpt.ops.reference.residual import add
from minigpt.ops.reference.rmsnorm import rmsnorm_backward, rmsnorm_forward
from minigpt.ops.reference.rope import rope_backward, rope_forward
from minigpt.ops.reference.silu import silu_backward, silu_forward
from minigpt.ops.reference.soft_cross_entropy import soft_cross_entropy_backward, soft_cross_entropy_forward
from minigpt.ops.reference.softmax import softmax_backward, softmax_forward

DEVICE = None  # any: arrays of NumPy and of CuPy

COMPOSITES = ("mlp", "gated_mlp", "self_attention", "cross_attention", "linear_cross_entropy")
# Entries that are no pairs: nothing flows back through them.
FUNCTIONS = ("add", "adam_update", "batched_product", "clip_gradients", "sum_rows")


def accepts(*arrays) -> None:
    """The reference takes all arrays."""


__all__ = [  # in the order of the book
    "linear_forward", "linear_backward",
    "embedding_forward", "embedding_backward",
    "softmax_forward", "softmax_backward",
    "attention_forward", "attention_backward",
    "gelu_forward", "gelu_backward",
    "gelu_exact_forward", "gelu_exact_backward",
    "relu_forward", "relu_backward",
    "silu_forward", "silu_backward",
    "layernorm_forward", "layernorm_backward",
    "dropout_forward", "dropout_backward",
    "cross_entropy_forward", "cross_entropy_backward",
    "lstm_forward", "lstm_backward",
    "rmsnorm_forward", "rmsnorm_backward",
    "rope_forward", "rope_backward",
    "soft_cross_entropy_forward", "soft_cross_entropy_backward",
    "cosine_loss_forward", "cosine_loss_backward",
    "mlp_forward", "mlp_backward",
    "gated_mlp_forward", "gated_mlp_backward",
    "self_attention_forward", "self_attention_backward",
    "cross_attention_forward", "cross_attention_backward",
    "linear_cross_entropy_forward", "linear_cross_entropy_backward",
    "add", "adam_update", "batched_product", "clip_gradients", "sum_rows",
]  # fmt: skip
