"""The same operations, quick on a CPU. Signatures, results and tests are the reference's; only the clock differs.

What costs time beside the matrix products is reading and writing memory, so everything here does less of it:
- passes over an array are made in pieces that stay in the cache, and in place wherever the array is our own;
- sums over rows or columns are products with a vector, which BLAS makes at the speed of memory;
- what the causal mask hides is not computed, and neither probabilities nor logits ever exist whole;
- where a text is continued token by token, weights and past are read once, each part by one thread, and never copied.

A forward returns NotImplemented for what it was not made for (arrays that are not NumPy's float32 or float64, masks
other than the causal one, except when going on from a past) and for mistakes of the caller: the reference answers, and
finds the words. Derivations are not repeated here either.
"""

from minigpt.device.threads import keep_freed_memory
from minigpt.ops.fast.attention import self_attention_backward, self_attention_forward
from minigpt.ops.fast.dense import embedding_backward, embedding_forward, linear_backward, linear_forward
from minigpt.ops.fast.head import linear_cross_entropy_backward, linear_cross_entropy_forward
from minigpt.ops.fast.lstm import lstm_backward, lstm_forward
from minigpt.ops.fast.mlp import mlp_backward, mlp_forward
from minigpt.ops.fast.rowwise import dropout_backward, dropout_forward, layernorm_backward, layernorm_forward

__all__ = [name for name in dir() if name.endswith(("_forward", "_backward"))]

keep_freed_memory()
