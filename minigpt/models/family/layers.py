"""A layer of the family: RMS normalisation."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.nn import Cache, Module, Parameter, accumulate


class RMSNormCache(NamedTuple):
    x_hat: Array
    rstd: Array


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
        xp = array_module(x)
        rstd = 1 / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps)
        x_hat = x * rstd
        cache[""] = RMSNormCache(x_hat, rstd)
        return self.weight.value * x_hat, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,C) -> dx (*,C)"""
        cache = self.own(cache)
        x_hat, rstd = cache.pop("")
        dg = (dout * x_hat).sum(axis=tuple(range(dout.ndim - 1)))
        accumulate(self.weight, dg)
        dx_hat = dout * self.weight.value
        stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
        return rstd * (dx_hat - x_hat * stretch)
