"""The same operations for CuPy arrays: kernels in .cu files, launched by the .py beside, and products (products.py).

What costs time on a GPU beside the matrix products is reading and writing memory. Kernels do less of it, and products
take biases and GELU along. Nothing is added up by atomics: every sum has its fixed order, and two runs have the same
bits. Nothing is compiled before it is needed. What a kernel was not made for is NotImplemented, and the reference
answers.
"""

from minigpt.ops.cuda.attention import self_attention_backward, self_attention_forward
from minigpt.ops.cuda.cross_entropy import linear_cross_entropy_backward, linear_cross_entropy_forward
from minigpt.ops.cuda.dropout import dropout_backward, dropout_forward
from minigpt.ops.cuda.embedding import embedding_backward, embedding_forward
from minigpt.ops.cuda.gelu import gelu_backward, gelu_forward
from minigpt.ops.cuda.layernorm import layernorm_backward, layernorm_forward
from minigpt.ops.cuda.linear import linear_backward, linear_forward
from minigpt.ops.cuda.mlp import mlp_backward, mlp_forward

__all__ = [name for name in dir() if name.endswith(("_forward", "_backward"))]
