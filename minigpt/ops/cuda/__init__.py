"""The same operations for CuPy arrays: kernels in .cu files, launched by the .py files of the same name, and products.

Besides the matrix products, a GPU spends its time on reading and writing memory. Kernels do less of it, and products
add biases and apply GELU before they write. The gradient of a bias is a sum of columns: cuBLASLt can give it beside a
product, perhaps by a kernel of its own, and products.py takes the faster way. No sum uses atomics: each adds its
numbers in a fixed sequence, so two runs have the same bits, if they choose the same algorithms for their products
(algorithms.py). Nothing is compiled before it is needed. `name_supports` tells which calls of an operation run here.
"""

from minigpt.ops.cuda.activations import (
    gelu_backward,
    gelu_exact_backward,
    gelu_exact_forward,
    gelu_forward,
    relu_backward,
    relu_forward,
    silu_backward,
    silu_forward,
)
from minigpt.ops.cuda.adam import adam_update, adam_update_supports
from minigpt.ops.cuda.attention import (
    cross_attention_backward,
    cross_attention_forward,
    cross_attention_supports,
    self_attention_backward,
    self_attention_forward,
    self_attention_supports,
)
from minigpt.ops.cuda.cosine_loss import cosine_loss_backward, cosine_loss_forward, cosine_loss_supports
from minigpt.ops.cuda.cross_entropy import (
    linear_cross_entropy_backward,
    linear_cross_entropy_forward,
    linear_cross_entropy_supports,
)
from minigpt.ops.cuda.dropout import dropout_backward, dropout_forward, dropout_supports
from minigpt.ops.cuda.embedding import (
    embedding_backward,
    embedding_forward,
    embedding_supports,
    sum_rows,
    sum_rows_supports,
)
from minigpt.ops.cuda.kernels import accepts
from minigpt.ops.cuda.layernorm import layernorm_backward, layernorm_forward, layernorm_supports
from minigpt.ops.cuda.linear import linear_backward, linear_forward
from minigpt.ops.cuda.mlp import mlp_backward, mlp_forward
from minigpt.ops.cuda.residual import add, add_supports
from minigpt.ops.cuda.rmsnorm import rmsnorm_backward, rmsnorm_forward, rmsnorm_supports
from minigpt.ops.cuda.rope import rope_backward, rope_forward
from minigpt.ops.cuda.soft_cross_entropy import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    soft_cross_entropy_supports,
)
from minigpt.ops.cuda.widened import (
    attention_backward,
    attention_forward,
    attention_supports,
    batched_product,
    batched_product_supports,
    cross_entropy_backward,
    cross_entropy_forward,
    cross_entropy_supports,
    softmax_backward,
    softmax_forward,
    softmax_supports,
)

DEVICE = "cuda"

__all__ = [name for name in dir() if name.endswith(("_forward", "_backward"))]
