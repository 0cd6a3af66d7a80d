"""What stands on the last hidden states of an encoder: what predicts words, and what judges a text or a token."""

from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.models.family.forms import Form
from minigpt.models.family.layers import Activation, Chain
from minigpt.models.family.published import PublishedConfig
from minigpt.nn import Cache, Embedding, LayerNorm, Linear, Module, Parameter

PLACES = 10  # tokens in SpanBERT's longest span
PLACE_WIDTH = 200  # of the vector for a place in a span, at most (SpanBERT section 4.2)


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

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        self.bias = Parameter(np.zeros(config.vocab_size, dtype))

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


class ReplacedHead(Chain):
    """Is a word the text's own? One score for each position: gelu(h W + b) w + c (ELECTRA section 3)."""

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        dense = Linear(c, c, rng, std, dtype)
        super().__init__(dense=dense, act=Activation(config.activation), score=Linear(c, 1, rng, std, dtype))

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> scores (B,T), above 0 where a word was probably replaced"""
        scores, cache = super().forward(h)
        return scores[..., 0], cache

    def backward(self, dscores: Array, cache: Cache) -> Array:
        """dscores (B,T) -> dh (B,T,C)"""
        return super().backward(dscores[..., None], cache)


class EdgeCache(NamedTuple):
    shape: tuple[int, ...]
    rows: Array
    left: Array
    right: Array


class BoundaryHead(Chain):
    """A span's token from its edges: y = f(f([h_left; h_right; p])) with f(x) = LN(gelu(x W + b)) (SpanBERT 3.2)."""

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        width = min(PLACE_WIDTH, c)
        std = config.initializer_range
        self.places_embed = Embedding(PLACES, width, rng, std, dtype)
        super().__init__(
            first=Linear(2 * c + width, c, rng, std, dtype),
            act_first=Activation("gelu"),
            ln_first=LayerNorm(c, config.layer_norm_epsilon, dtype),
            second=Linear(c, c, rng, std, dtype),
            act_second=Activation("gelu"),
            ln_second=LayerNorm(c, config.layer_norm_epsilon, dtype),
        )

    def forward(self, h: Array, edges: Array, places: Array) -> tuple[Array, Cache]:
        """h (B,T,C), edges (B,T,2) int, places (B,T) int -> out (B,T,C)"""
        xp = array_module(h)
        rows = xp.arange(len(h))[:, None]
        left, right = edges[..., 0], edges[..., 1]
        p, of_places = self.places_embed.forward(places)
        x = xp.concatenate([h[rows, left], h[rows, right], p], axis=-1)
        out, cache = super().forward(x)
        cache["edges"] = EdgeCache(h.shape, rows, left, right)
        cache["places"] = of_places
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dh (B,T,C): what comes back through the edges"""
        xp = array_module(dout)
        dx = super().backward(dout, cache)
        # x = [h[left]; h[right]; p]: one position can be an edge of many tokens, whose gradients are added
        shape, rows, left, right = cache.pop("edges")
        c = shape[-1]
        self.places_embed.backward(dx[..., 2 * c :], cache.pop("places"))
        edges = xp.stack([left, right]) + rows * shape[1]  # (2,B,T): rows of h (B T,C)
        of_edges = xp.stack([dx[..., :c], dx[..., c : 2 * c]])
        dh = ops.sum_rows(of_edges.reshape(-1, c), edges.reshape(-1), shape[0] * shape[1])
        return dh.astype(dx.dtype, copy=False).reshape(shape)


def as_pairs(scores: Array) -> Array:
    """scores (*) -> (*,2): with the constant 0 before each, so that softmax of a pair is the sigmoid of the score"""
    xp = array_module(scores)
    return xp.stack([xp.zeros_like(scores), scores], axis=-1)
