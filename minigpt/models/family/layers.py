"""Layers of the family: RMS normalisation, and a function that a configuration names."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
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


class Activation(Module):
    """A function by the name of its operation: "gelu", "gelu_exact", "relu", "silu"; and "tanh", which is none."""

    def __init__(self, name: str):
        self.name = name

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*) -> out (*)"""
        cache = Cache(self)
        if self.name == "tanh":
            out = array_module(x).tanh(x)
            cache[""] = out
            return out, cache
        forward = getattr(ops, f"{self.name}_forward")
        return cache.keep("", forward(x)), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*) -> dx (*)"""
        saved = self.own(cache).pop("")
        if self.name == "tanh":
            return dout * (1 - saved * saved)
        backward = getattr(ops, f"{self.name}_backward")
        return backward(dout, saved)
