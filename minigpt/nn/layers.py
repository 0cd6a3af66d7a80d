"""Layers: linear, embedding, layer normalisation, and the position-wise network."""

from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.nn.module import Cache, Module, Parameter, accumulate, normal
from minigpt.ops.keys import Key, fold


class Linear(Module):
    """out = x weight + bias, with weight (I,O): the layout of the released models, where checkpoints call it Conv1D."""

    def __init__(self, n_in: int, n_out: int, rng: np.random.Generator | None, std: float = 0.02, dtype=np.float32):
        self.weight = normal(rng, (n_in, n_out), std, dtype)
        self.bias = Parameter(np.zeros(n_out, dtype))

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x (*,I) -> out (*,O)"""
        return ops.linear_forward(x, self.weight.value, self.bias.value)

    def backward(self, dout: Array, cache: Any) -> Array:
        """dout (*,O) -> dx (*,I)"""
        dx, dw, db = ops.linear_backward(dout, cache)
        accumulate(self.weight, dw)
        accumulate(self.bias, db)
        return dx


class Embedding(Module):
    """One row for each token, or for each position: weight (V,C)."""

    def __init__(self, n_rows: int, n_embd: int, rng: np.random.Generator | None, std: float = 0.02, dtype=np.float32):
        self.weight = normal(rng, (n_rows, n_embd), std, dtype)

    def forward(self, ids: Array) -> tuple[Array, Any]:
        """ids (*) int -> out (*,C)"""
        return ops.embedding_forward(self.weight.value, ids)

    def backward(self, dout: Array, cache: Any) -> None:
        """dout (*,C) -> nothing: ids have no gradient"""
        accumulate(self.weight, ops.embedding_backward(dout, cache))


class LayerNorm(Module):
    """Layer normalisation with gain weight (C,) and bias (C,)."""

    def __init__(self, n_embd: int, eps: float = 1e-5, dtype=np.float32):
        self.weight = Parameter(np.ones(n_embd, dtype))
        self.bias = Parameter(np.zeros(n_embd, dtype))
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x (*,C) -> out (*,C). Gains are never short: there are few of them, and each meets every row."""
        return ops.layernorm_forward(x, self.weight.data, self.bias.data, eps=self.eps)

    def backward(self, dout: Array, cache: Any) -> Array:
        """dout (*,C) -> dx (*,C)"""
        dx, dg, db = ops.layernorm_backward(dout, cache)
        accumulate(self.weight, dg)
        accumulate(self.bias, db)
        return dx


class MLP(Module):
    """The position-wise network, four times as wide inside. config, proj_std: as for Attention."""

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, std = config.n_embd, config.initializer_range
        self.c_fc = Linear(c, 4 * c, rng, std, dtype)
        self.c_proj = Linear(4 * c, c, rng, proj_std, dtype)
        self.config = config

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        cache = Cache(grad)
        weights = [parameter.value for parameter in self.parameters()]
        out = cache.keep(ops.mlp_forward(x, *weights, grad=grad))
        out = cache.keep(ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dout = ops.dropout_backward(dout, cache.pop())
        dx, *gradients = ops.mlp_backward(dout, cache.pop())
        for parameter, gradient in zip(self.parameters(), gradients, strict=True):
            accumulate(parameter, gradient)
        return dx
