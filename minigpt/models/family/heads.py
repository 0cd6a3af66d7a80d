"""What stands on the last hidden states of an encoder: what predicts words, and what judges two sentences."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.models.family.layers import Activation
from minigpt.models.family.published import PublishedConfig
from minigpt.nn import Cache, LayerNorm, Linear, Module, Parameter


class WordHead(Module):
    """What stands before the tied head: LN(gelu(h W + b)), and a bias for each word behind it (BERT section 3.1).

    The transform ends in the width of the token table, E, which may be smaller than that of the blocks.
    """

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        width = config.table_width
        self.dense = Linear(config.n_embd, width, rng, config.initializer_range, dtype)
        self.act = Activation(config.head_activation)
        self.ln = LayerNorm(width, config.layer_norm_epsilon, dtype)
        self.bias = Parameter(np.zeros(config.vocab_size, dtype))

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> out (B,T,E)"""
        cache = Cache(self)
        x = cache.keep("dense", self.dense.forward(h))
        x = cache.keep("gelu", self.act.forward(x))
        out = cache.keep("ln", self.ln.forward(x))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,E) -> dh (B,T,C)"""
        cache = self.own(cache)
        dx = self.ln.backward(dout, cache.pop("ln"))
        dx = self.act.backward(dx, cache.pop("gelu"))
        return self.dense.backward(dx, cache.pop("dense"))


class BiasHead(Module):
    """Nothing stands before the tied head of XLM and XLNet: only the bias for each word behind it."""

    def __init__(self, vocab_size: int, dtype):
        self.bias = Parameter(np.zeros(vocab_size, dtype))

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> h"""
        return h, Cache(self)

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dh (B,T,C)"""
        self.own(cache)
        return dout


class PoolCache(NamedTuple):
    shape: tuple[int, ...]
    pooled: Array


class PairHead(Module):
    """Do two sentences belong together? tanh(h[:, 0] W + b), and two scores (BERT section 3.1)."""

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        self.pooler = Linear(config.n_embd, config.n_embd, rng, config.initializer_range, dtype)
        self.scores = Linear(config.n_embd, 2, rng, config.initializer_range, dtype)

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> scores (B,2)"""
        cache = Cache(self)
        x = cache.keep("pooler", self.pooler.forward(h[:, 0]))
        pooled = array_module(x).tanh(x)
        cache["tanh"] = PoolCache(h.shape, pooled)
        out = cache.keep("scores", self.scores.forward(pooled))
        return out, cache

    def backward(self, dscores: Array, cache: Cache) -> Array:
        """dscores (B,2) -> dh (B,T,C), which is 0 but for the first position"""
        cache = self.own(cache)
        dpooled = self.scores.backward(dscores, cache.pop("scores"))
        # pooled = tanh(x), whose slope is 1 - pooled^2
        shape, pooled = cache.pop("tanh")
        dx = dpooled * (1 - pooled * pooled)
        # x = pooler(h[:, 0])
        dh = array_module(dx).zeros(shape, dx.dtype)
        dh[:, 0] = self.pooler.backward(dx, cache.pop("pooler"))
        return dh
