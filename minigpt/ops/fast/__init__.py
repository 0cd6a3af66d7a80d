"""The same operations, fast on a CPU. Signatures, results and tests are the reference's; only the time differs.

Besides the matrix products, time is spent on reading and writing memory, so everything here does less of it:
- passes over an array are made in pieces that stay in the cache, and in place wherever the array is new;
- sums over rows or columns are products with a vector, which BLAS computes at the speed of memory;
- scores that a mask is known to hide are not computed, and probabilities and logits are never all in memory at once;
- where a text is continued token by token, weights and past are read once, each part by one thread, and never copied.

`name_supports` tells which calls of an operation run here: NumPy arrays of float32 or float64, and valid arguments. All
other calls go to the reference, which raises the errors. Derivations stand in the reference too.
"""

from minigpt.device.threads import keep_freed_memory
from minigpt.ops.fast.adam import (
    adam_update,
    adam_update_supports,
    clip_gradients,
    clip_gradients_supports,
)
from minigpt.ops.fast.cosine_loss import cosine_loss_backward, cosine_loss_forward, cosine_loss_supports
from minigpt.ops.fast.dropout import dropout_backward, dropout_forward, dropout_supports
from minigpt.ops.fast.embedding import embedding_backward, embedding_forward, embedding_supports
from minigpt.ops.fast.gated_mlp import gated_mlp_backward, gated_mlp_forward, gated_mlp_supports
from minigpt.ops.fast.layernorm import layernorm_backward, layernorm_forward
from minigpt.ops.fast.linear import linear_backward, linear_forward
from minigpt.ops.fast.linear_cross_entropy import (
    linear_cross_entropy_backward,
    linear_cross_entropy_forward,
    linear_cross_entropy_supports,
)
from minigpt.ops.fast.lstm import lstm_backward, lstm_forward
from minigpt.ops.fast.mlp import mlp_backward, mlp_forward
from minigpt.ops.fast.pieces import accepts
from minigpt.ops.fast.rmsnorm import rmsnorm_backward, rmsnorm_forward
from minigpt.ops.fast.rope import rope_backward, rope_forward
from minigpt.ops.fast.self_attention import (
    cross_attention_backward,
    cross_attention_forward,
    cross_attention_supports,
    self_attention_backward,
    self_attention_forward,
    self_attention_supports,
)
from minigpt.ops.fast.soft_cross_entropy import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    soft_cross_entropy_supports,
)

DEVICE = "cpu"

__all__ = [name for name in dir() if name.endswith(("_forward", "_backward"))]

keep_freed_memory()
