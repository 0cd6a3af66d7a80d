"""The same operations as CUDA kernels, for CuPy arrays. One .cu file for each operation, its launches in the .py beside.

What costs time on a GPU beside the matrix products, which are CuPy's, is reading and writing memory, and so it is what
each kernel does least of. Nothing is added up by atomics: every sum has its fixed order, and two runs have the same bits.
Nothing is compiled before it is needed. What a kernel was not made for is NotImplemented, and the reference answers.
"""

from minigpt.fast.cuda.layernorm import layernorm_backward, layernorm_forward

__all__ = [
    "layernorm_forward", "layernorm_backward",
]  # fmt: skip
