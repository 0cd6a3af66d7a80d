"""Layers of the family: RMS normalisation, a function that a configuration names, a chain, and an MLP with a gate."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.nn import Cache, Linear, Module, Parameter, accumulate
from minigpt.nn.layers import inner_width
from minigpt.ops.random_keys import Key, fold


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


class Chain(Module):
    """Modules one after the other, each an attribute of its own: the backward goes through them in reverse."""

    def __init__(self, **modules: Module):
        for name, module in modules.items():
            setattr(self, name, module)
        self.names = tuple(modules)

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,I) -> out (*,O)"""
        cache = Cache(self)
        for name in self.names:
            x = cache.keep(name, getattr(self, name).forward(x))
        return x, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,O) -> dx (*,I)"""
        cache = self.own(cache)
        for name in reversed(self.names):
            dout = getattr(self, name).backward(dout, cache.pop(name))
        return dout


class GatedMLP(Module):
    """out = (act(x gate) * (x up)) down, without biases (Shazeer 2020, equation 6; SwiGLU where act is SiLU).

    config: n_embd, n_inner, activation (the name of an operation), resid_pdrop (dropout on the output),
    initializer_range. proj_std: standard deviation of the initial weights of `down`. rate_inside: dropout on its input.
    """

    rate_inside = 0.0

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, inner, std = config.n_embd, inner_width(config), config.initializer_range
        self.gate = Linear(c, inner, rng, std, dtype, bias=False)
        self.up = Linear(c, inner, rng, std, dtype, bias=False)
        self.down = Linear(inner, c, rng, proj_std, dtype, bias=False)
        self.config = config

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        cache = Cache(self, grad)
        out = cache.keep("gated", ops.gated_mlp_forward(
            x, self.gate.weight.value, self.up.weight.value, self.down.weight.value,
            activation=self.config.activation, rate=self.rate_inside, key=fold(key, 5), grad=grad,
        ))  # fmt: skip
        dropout = ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2))
        return cache.keep("dropout", dropout), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dx, dgate, dup, ddown = ops.gated_mlp_backward(dout, cache.pop("gated"))
        accumulate(self.gate.weight, dgate)
        accumulate(self.up.weight, dup)
        accumulate(self.down.weight, ddown)
        return dx
