"""The attention of XLNet, through which two streams run: its scores know distances and segments."""

from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, scaled
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.relative_attention import (
    distances_between,
    far_scores,
    far_scores_backward,
    table_columns,
    table_heads,
)
from minigpt.models.family.two_streams import TwoStreamAttention
from minigpt.nn import Cache, Linear, Parameter, accumulate, normal


class BiasCache(NamedTuple):
    to_far: Array
    to_segment: Array
    k_far: Array
    where: Array
    differs: Array


class Places(NamedTuple):
    """What all blocks know of a text: a vector (2T,C) of each distance -T to T - 1; (B,1,T,T): do segments differ?"""

    far: Array
    differs: Array


class RelativeAttention(TwoStreamAttention):
    """Scores ((q_i + u) k_j + (q_i + v) K_d + (q_i + w) S) / sqrt(D) of heads of size D (appendix A.2).

    d: the distance i - j; K: a projection of its vector; S: one of two vectors, for equal and for different segments;
    u, v, w: numbers of each head.
    """

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        heads = config.n_head, c // config.n_head
        self.c_attn = Linear(c, 3 * c, rng, std, dtype, bias=False)
        self.c_proj = Linear(c, c, rng, std, dtype, bias=False)
        self.key_of_distance = Linear(c, c, rng, std, dtype, bias=False)
        self.u = normal(rng, heads, std, dtype)
        self.v = normal(rng, heads, std, dtype)
        self.w = normal(rng, heads, std, dtype)
        self.segments = normal(rng, (2, *heads), std, dtype)
        self.config = config
        self.scale = heads[1] ** -0.5

    def compare(self, q: Array, k: Array, places: Places, cache: Cache) -> tuple[Array, Array]:
        """q, k (B,NH,T,D) -> q + u (B,NH,T,D), and what distances and segments add to the scores (B,NH,T,T)"""
        far = cache.keep("far", self.key_of_distance.forward(places.far))
        k_far = table_heads(far, self.config.n_head)
        t = q.shape[2]
        xp = array_module(q)
        where = distances_between(t, t, xp)
        to_far = q + _of_heads(self.v)
        to_segment = q + _of_heads(self.w)
        of_segments = ops.batched_product(to_segment, self.segments.value.transpose(1, 2, 0))  # (B,NH,T,2)
        bias = far_scores(to_far, k_far, where)
        bias = bias + xp.where(places.differs, of_segments[..., 1:], of_segments[..., :1])
        bias = scaled(bias.astype(q.dtype, copy=False), self.scale)
        saved = BiasCache(to_far, to_segment, k_far, where, places.differs)
        return q + _of_heads(self.u), cache.keep("bias", (bias, saved))

    def compare_backward(self, dq: Array, dk: Array, dbias: Array, cache: Cache) -> tuple[Array, Array]:
        """The gradients of q + u, of k, and of the bias -> dq, dk (B,NH,T,D); those of what is learned arrive there"""
        to_far, to_segment, k_far, where, differs = cache.pop("bias")
        dbias = scaled(dbias, self.scale)
        # bias = bias + where(differs, of_segments[1], of_segments[0])
        different = (dbias * differs).sum(axis=-1)
        equal = dbias.sum(axis=-1) - different
        dof_segments = array_module(dq).stack([equal, different], axis=-1)
        # of_segments = to_segment @ segments
        dto_segment = ops.batched_product(dof_segments, self.segments.value.transpose(1, 0, 2))
        dsegments = ops.batched_product(dof_segments.swapaxes(-1, -2), to_segment).sum(axis=0)  # (NH,2,D)
        accumulate(self.segments, array_module(dq).ascontiguousarray(dsegments.swapaxes(0, 1)))
        # bias = far_scores(to_far, k_far, where)
        dto_far, dk_far = far_scores_backward(dbias, to_far, k_far, where)
        self.key_of_distance.backward(table_columns(dk_far), cache.pop("far"))  # the vectors of distances are fixed
        # q goes three ways, with u, v or w added
        for numbers, d in ((self.u, dq), (self.v, dto_far), (self.w, dto_segment)):
            accumulate(numbers, d.sum(axis=(0, 2)))
        return dq + (dto_segment + dto_far), dk


def _of_heads(numbers: Parameter) -> Array:
    """(NH,D) -> (1,NH,1,D), to be added to the queries of each head"""
    return numbers.value[None, :, None, :]
