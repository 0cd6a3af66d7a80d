"""The same operations, quick on a processor. Signatures, results and tests are the reference's; only the time differs.

Besides the matrix products, time is spent on reading and writing memory, so everything here does less of it:
- passes over an array are made in pieces that stay in the cache, and in place wherever the array is new;
- sums over rows or columns are products with a vector, which BLAS makes at the speed of memory;
- what the mask hides is not computed where that can be known, and neither probabilities nor logits ever exist whole;
- where a text is continued token by token, weights and past are read once, each part by one thread, and never copied.

`name_supports` says which calls of an operation are made here: NumPy arrays of float32 or float64, without a mistake of
the caller. All others go to the reference, which raises the errors. Derivations are not repeated here either.
"""

from minigpt.device.threads import keep_freed_memory
from minigpt.ops.fast.adam import adam_update, adam_update_supports
from minigpt.ops.fast.attention import self_attention_backward, self_attention_forward, self_attention_supports
from minigpt.ops.fast.dense import (
    embedding_backward,
    embedding_forward,
    embedding_supports,
    linear_backward,
    linear_forward,
)
from minigpt.ops.fast.head import (
    linear_cross_entropy_backward,
    linear_cross_entropy_forward,
    linear_cross_entropy_supports,
)
from minigpt.ops.fast.lstm import lstm_backward, lstm_forward
from minigpt.ops.fast.mlp import mlp_backward, mlp_forward
from minigpt.ops.fast.pieces import accepts
from minigpt.ops.fast.rowwise import (
    dropout_backward,
    dropout_forward,
    dropout_supports,
    layernorm_backward,
    layernorm_forward,
)

DEVICE = "cpu"

__all__ = [name for name in dir() if name.endswith(("_forward", "_backward"))]

keep_freed_memory()
