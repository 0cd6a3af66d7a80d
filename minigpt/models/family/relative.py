"""Attention by distance: a number for each head and each bucket of distances is added to the scores, and no position is
needed (Raffel et al. 2020, section 2.1).
"""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.nn import Attention, Cache, Embedding, Linear


def buckets(distances: np.ndarray, n_buckets: int, max_distance: int, both_sides: bool) -> np.ndarray:
    """distances (*) int, from a query to a key: below 0 for a key before it -> the bucket of each (*) int

    Half of the buckets are for one distance each, 0, 1, 2, ...; the others are wider and wider, evenly on a scale of
    logarithms, up to max_distance, and the last one holds all that is further away. both_sides: the second half of the
    buckets is for keys that follow; otherwise these, which a causal mask hides, are in bucket 0.
    """
    first = np.zeros_like(distances)
    if both_sides:
        n_buckets //= 2
        first = np.where(distances > 0, n_buckets, 0)
        far = np.abs(distances)
    else:
        far = np.maximum(-distances, 0)
    exact = n_buckets // 2
    wide = n_buckets - exact
    logs = np.log(np.maximum(far, exact) / exact) / np.log(max_distance / exact)
    wider = exact + np.floor(logs * wide + ROUNDING).astype(far.dtype)
    return first + np.where(far < exact, far, np.minimum(wider, n_buckets - 1))


ROUNDING = 1e-6  # where a logarithm should be a whole number, such as log 16 / log 4, rounding decides nothing


class RelativeBias(Embedding):
    """A table (n_buckets,NH) of what is added to the scores: a number for each head and bucket of distances.

    Adam moves a number by about the rate in an update. So in a short training these numbers stay far below the size of
    a score, and the model hardly knows the order of its words (lessons 30 and 34).

    config: n_buckets, max_distance, n_head, n_embd, initializer_range.
    """

    def __init__(self, config, both_sides: bool, rng: np.random.Generator | None, dtype):
        std = config.initializer_range * config.n_embd**-0.5
        super().__init__(config.n_buckets, config.n_head, rng, std, dtype)
        self.config = config
        self.both_sides = both_sides

    def forward(self, t: int, s: int) -> tuple[Array, Cache]:
        """How many queries there are, the last of s keys -> bias (1,NH,T,S)"""
        table = self.weight.value
        query = np.arange(s - t, s)[:, None]
        distances = np.arange(s) - query
        places = buckets(distances, self.config.n_buckets, self.config.max_distance, self.both_sides)
        xp = array_module(table)
        rows, cache = super().forward(xp.asarray(places))
        bias = xp.ascontiguousarray(rows.transpose(2, 0, 1)[None])
        return bias, cache

    def backward(self, dbias: Array, cache: Cache) -> None:
        """dbias (1,NH,T,S) -> nothing: a bucket gets the sum over all places at its distances"""
        xp = array_module(dbias)
        drows = xp.ascontiguousarray(dbias[0].transpose(1, 2, 0))
        super().backward(drows, cache)


class RelativeAttention(Attention):
    """Self-attention with a bias (1,NH,T,S) for distances, without a scale and without biases in its projections.

    Heads have a size of their own, d_kv. What the scale would do is done by the initial weights of the queries.
    """

    scale = 1.0

    def __init__(self, config, rng: np.random.Generator | None, dtype=np.float32):
        c = config.n_embd
        inner = config.n_head * config.d_kv
        factor = config.initializer_range
        self.c_attn = Linear(c, 3 * inner, rng, factor * c**-0.5, dtype, bias=False)
        self.c_attn.weight.data[:, :inner] *= config.d_kv**-0.5
        self.c_proj = Linear(inner, c, rng, factor * inner**-0.5, dtype, bias=False)
        self.config = config

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Array]:
        """dout (B,T,C) -> dx (B,T,C), dbias (1,NH,T,S)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dheads = self.c_proj.backward(dout, cache.pop("proj"))
        dqkv, dbias = ops.self_attention_backward(dheads, cache.pop("heads"))
        return self.c_attn.backward(dqkv, cache.pop("qkv")), dbias
