"""A layer of the family: RMS normalisation."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.nn import Cache, Module, Parameter, accumulate


class RMSNorm(Module):
    """Normalisation by the root mean square, with gain weight (C,) and nothing else (Zhang and Sennrich 2019).

    eps: added to the mean square. The gain stays in float32 where other layers compute in bfloat16.
    """

    def __init__(self, n_embd: int, eps: float = 1e-6, dtype=np.float32):
        self.weight = Parameter(np.ones(n_embd, dtype), always_wide=True)
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,C) -> out (*,C)"""
        cache = Cache(self)
        out = cache.keep("", ops.rmsnorm_forward(x, self.weight.value, eps=self.eps))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,C) -> dx (*,C)"""
        cache = self.own(cache)
        dx, dg = ops.rmsnorm_backward(dout, cache.pop(""))
        accumulate(self.weight, dg)
        return dx
