"""What stands on the last hidden states of an encoder: what predicts words, and what judges a text."""

import numpy as np

from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.models.family.forms import Form
from minigpt.models.family.layers import Activation, Chain
from minigpt.models.family.published import PublishedConfig
from minigpt.nn import Cache, LayerNorm, Linear, Module, Parameter


class WordHead(Chain):
    """What stands before the tied head: LN(gelu(h W + b)), and a bias for each word behind it (BERT section 3.1).

    The transform ends in the width of the token table, E, which may be smaller than that of the blocks.
    """

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        width = config.table_width
        super().__init__(
            dense=Linear(config.n_embd, width, rng, config.initializer_range, dtype),
            act=Activation(config.head_activation),
            ln=LayerNorm(width, config.layer_norm_epsilon, dtype),
        )
        self.bias = Parameter(np.zeros(config.vocab_size, dtype))


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


class StateHead(Module):
    """Scores of a text from one of its states: act(state W + b) V + c (BERT section 3.1). W or V may be missing."""

    def __init__(self, config: PublishedConfig, form: Form, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        self.pooler = Linear(c, c, rng, std, dtype) if form.dense else None
        self.act = Activation(form.act)
        self.scores = Linear(c, config.n_scores, rng, std, dtype, bias=form.bias) if form.scores else None

    def pooled(self, states: Array) -> tuple[Array, Cache]:
        """states (B,C) -> (B,C), what the scores are made from"""
        cache = Cache(self)
        if self.pooler is None:
            return states, cache
        x = cache.keep("pooler", self.pooler.forward(states))
        return cache.keep("act", self.act.forward(x)), cache

    def forward(self, states: Array) -> tuple[Array, Cache]:
        """states (B,C) -> scores (B,K). Raises InputError where there is a pooler alone."""
        if self.scores is None:
            raise InputError("this model's file has a pooler, and no scores of a text: take a file with that head")
        x, cache = self.pooled(states)
        return cache.keep("scores", self.scores.forward(x)), cache

    def backward(self, dscores: Array, cache: Cache) -> Array:
        """dscores (B,K) -> dstates (B,C)"""
        cache = self.own(cache)
        dx = self.scores.backward(dscores, cache.pop("scores"))
        if self.pooler is None:
            return dx
        dx = self.act.backward(dx, cache.pop("act"))
        return self.pooler.backward(dx, cache.pop("pooler"))
