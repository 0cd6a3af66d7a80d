"""Layers: linear, embedding, layer normalisation, and the position-wise network.

Every backward here raises ValueError for a cache of another module, and for a cache that has been used.
"""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.nn.module import Cache, Module, Parameter, accumulate, normal
from minigpt.ops.random_keys import Key, fold


class Linear(Module):
    """out = x weight + bias, with weight (I,O): the layout of the released models, where checkpoints call it Conv1D.

    std: standard deviation of the initial weights; rng=None leaves them zero. bias=False: without the second term.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        rng: np.random.Generator | None,
        std: float = 0.02,
        dtype=np.float32,
        bias: bool = True,
    ):
        self.weight = normal(rng, (n_in, n_out), std, dtype)
        self.bias = Parameter(np.zeros(n_out, dtype)) if bias else None

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,I) -> out (*,O)"""
        cache = Cache(self)
        bias = None if self.bias is None else self.bias.value
        out = cache.keep("", ops.linear_forward(x, self.weight.value, bias))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,O) -> dx (*,I)"""
        cache = self.own(cache)
        dx, dw, db = ops.linear_backward(dout, cache.pop(""))
        accumulate(self.weight, dw)
        if db is not None:
            accumulate(self.bias, db)
        return dx


class Embedding(Module):
    """One row for each token: weight (V,C). std: standard deviation of the initial weights; rng=None: zeros."""

    def __init__(self, n_rows: int, n_embd: int, rng: np.random.Generator | None, std: float = 0.02, dtype=np.float32):
        self.weight = normal(rng, (n_rows, n_embd), std, dtype)

    def forward(self, ids: Array) -> tuple[Array, Cache]:
        """ids (*) int -> out (*,C)"""
        cache = Cache(self)
        out = cache.keep("", ops.embedding_forward(self.weight.value, ids))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> None:
        """dout (*,C) -> nothing: ids have no gradient"""
        cache = self.own(cache)
        dw = ops.embedding_backward(dout, cache.pop(""))
        accumulate(self.weight, dw)


class PositionEmbedding(Embedding):
    """One row for each position: weight (n_positions,C). All rows of a batch may share their positions."""

    def forward(self, positions: Array) -> tuple[Array, Cache]:
        """positions (T,) or (B,T) int -> out (T,C) or (B,T,C)"""
        out, cache = super().forward(positions)
        cache.shared = positions.ndim == 1
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> None:
        """dout (B,T,C) -> nothing. A position that all rows of the batch share gets the sum of their gradients."""
        if cache.shared:
            dout = dout.sum(axis=0, dtype=self.weight.data.dtype)
        super().backward(dout, cache)


class LayerNorm(Module):
    """Layer normalisation with gain weight (C,) and bias (C,) (Ba, Kiros and Hinton 2016).

    eps: added to the variance. Both parameters stay in float32 where other layers compute in bfloat16.
    """

    def __init__(self, n_embd: int, eps: float = 1e-5, dtype=np.float32):
        self.weight = Parameter(np.ones(n_embd, dtype), always_wide=True)
        self.bias = Parameter(np.zeros(n_embd, dtype), always_wide=True)
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,C) -> out (*,C)"""
        cache = Cache(self)
        g = self.weight.value
        b = self.bias.value
        out = cache.keep("", ops.layernorm_forward(x, g, b, eps=self.eps))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,C) -> dx (*,C)"""
        cache = self.own(cache)
        dx, dg, db = ops.layernorm_backward(dout, cache.pop(""))
        accumulate(self.weight, dg)
        accumulate(self.bias, db)
        return dx


class MLP(Module):
    """The position-wise network (Vaswani et al. 2017, section 3.3, with GELU).

    config: n_embd, resid_pdrop (dropout on the output), initializer_range; and, where it has them, n_inner, the width
    inside (None: four times n_embd), and activation, the name of the operation there ("gelu" elsewhere). proj_std:
    standard deviation of the output projection's initial weights. bias=False: both linear maps are without.
    """

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32, bias=True):
        c = config.n_embd
        inner = inner_width(config)
        self.c_fc = Linear(c, inner, rng, config.initializer_range, dtype, bias)
        self.c_proj = Linear(inner, c, rng, proj_std, dtype, bias)
        self.config = config

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        cache = Cache(self, grad)
        activation = getattr(self.config, "activation", "gelu")
        values = [None if parameter is None else parameter.value for parameter in self._parts]
        mlp = ops.mlp_forward(x, *values, activation=activation, grad=grad)
        out = cache.keep("", mlp)
        dropout = ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2))
        out = cache.keep("dropout", dropout)
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dx, *gradients = ops.mlp_backward(dout, cache.pop(""))
        for parameter, gradient in zip(self._parts, gradients, strict=True):
            if gradient is not None:
                accumulate(parameter, gradient)
        return dx

    @property
    def _parts(self) -> tuple[Parameter | None, ...]:
        """Weights and biases as the operation takes them; None for a bias that is not there."""
        return self.c_fc.weight, self.c_fc.bias, self.c_proj.weight, self.c_proj.bias


def inner_width(config) -> int:
    """The width inside an MLP of this configuration: its n_inner, and 4 n_embd where it is None or there is none."""
    return getattr(config, "n_inner", None) or 4 * config.n_embd
