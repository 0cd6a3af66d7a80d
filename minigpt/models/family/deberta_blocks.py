"""The attention of DeBERTa, which compares contents and distances apart (He et al. 2021)."""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module, scaled
from minigpt.models.family.relative_attention import (
    distances_between,
    far_scores,
    far_scores_backward,
    table_columns,
    table_heads,
)
from minigpt.models.family.two_streams import TwoStreamAttention
from minigpt.nn import Cache, Embedding, LayerNorm, Linear, accumulate

C2P, P2C = "c2p", "p2c"  # content to position: a query with a distance; position to content: a distance with a key


class Distances(Embedding):
    """A vector for each distance (2k,C), which all blocks share; in version 3 it is normalised."""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        super().__init__(2 * config.n_distances, c, rng, config.initializer_range, dtype)
        self.ln = LayerNorm(c, config.layer_norm_epsilon, dtype) if config.norm_rel_ebd == "layer_norm" else None

    def forward(self) -> tuple[Array, Cache]:
        """-> rows (2k,C)"""
        cache = Cache(self)
        rows = self.weight.value
        if self.ln is not None:
            rows = cache.keep("ln", self.ln.forward(rows))
        return rows, cache

    def backward(self, drows: Array, cache: Cache) -> None:
        """drows (2k,C) -> nothing: the gradient arrives in the table"""
        cache = self.own(cache)
        if self.ln is not None:
            drows = self.ln.backward(drows, cache.pop("ln"))
        accumulate(self.weight, drows)


class DistanceCache(NamedTuple):
    q: Array
    k: Array
    k_far: Array | None
    q_far: Array | None
    where: Array


class DisentangledAttention(TwoStreamAttention):
    """Self-attention whose scores compare contents and distances apart (equation 4).

    Of heads of size D: score[i, j] = (q_i k_j + q_i K_d + k_j Q_d) / sqrt(3 D), where d is the distance i - j, and K
    and Q are projections of one table of distances: by maps of their own, or by those of the keys and queries. A model
    may be without one of the products or both; then 3 is smaller. distances: None where the model has no such table.
    """

    def __init__(self, config, distances: Distances | None, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        own_maps = () if distances is None or config.share_att_key else config.pos_att_type
        self.c_attn = Linear(c, 3 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, std, dtype)
        self.key_of_distance = Linear(c, c, rng, std, dtype) if C2P in own_maps else None
        self.query_of_distance = Linear(c, c, rng, std, dtype) if P2C in own_maps else None
        self.distances = distances
        self.config = config
        n_products = 1 + len(config.pos_att_type)
        self.scale = 1 / math.sqrt(n_products * (c // config.n_head))

    def compare(self, q: Array, k: Array, places: None, cache: Cache) -> tuple[Array, Array | None]:
        """q, k (B,NH,T,D) -> q, and what the distances add to the scores (B,NH,T,T), None where there are none"""
        config = self.config
        if self.distances is None or not config.pos_att_type:
            return q, None
        where = distances_between(q.shape[2], config.n_distances, array_module(q), config.max_distance)
        k_far, q_far = self._projected(cache.keep("table", self.distances.forward()), cache)
        bias = 0
        if k_far is not None:
            bias = far_scores(q, k_far, where)
        if q_far is not None:
            of_keys = far_scores(k, q_far, where.T)
            bias = bias + of_keys.swapaxes(-1, -2)
        return q, cache.keep("bias", (scaled(bias, self.scale), DistanceCache(q, k, k_far, q_far, where)))

    def compare_backward(self, dq: Array, dk: Array, dbias: Array | None, cache: Cache) -> tuple[Array, Array]:
        """The gradients of q and k by the contents, and of the bias -> dq, dk (B,NH,T,D); the table gets its own"""
        if "bias" not in cache:
            return dq, dk
        q, k, k_far, q_far, where = cache.pop("bias")
        n = self.config.n_distances
        n_alone = n if self.config.max_distance is None else n // 2
        dbias = scaled(dbias, self.scale)
        dk_far = dq_far = None
        if q_far is not None:
            # of_keys = far_scores(k, q_far, where.T), transposed
            dk_more, dq_far = far_scores_backward(dbias.swapaxes(-1, -2), k, q_far, where.T, n_alone)
            dk = dk + dk_more
        if k_far is not None:
            # bias = far_scores(q, k_far, where)
            dq_more, dk_far = far_scores_backward(dbias, q, k_far, where, n_alone)
            dq = dq + dq_more
        self.distances.backward(self._projected_backward(dk_far, dq_far, cache), cache.pop("table"))
        return dq, dk

    def _projected(self, table: Array, cache: Cache) -> tuple[Array | None, Array | None]:
        """table (2k,C) -> keys and queries of the distances, each (NH,2k,D), None where the scores have none"""
        n_head = self.config.n_head
        keys = queries = None
        if self.config.share_att_key:
            queries, keys, _ = array_module(table).split(cache.keep("far", self.c_attn.forward(table)), 3, axis=-1)
        if self.key_of_distance is not None:
            keys = cache.keep("keys", self.key_of_distance.forward(table))
        if self.query_of_distance is not None:
            queries = cache.keep("queries", self.query_of_distance.forward(table))
        k_far = table_heads(keys, n_head) if C2P in self.config.pos_att_type else None
        q_far = table_heads(queries, n_head) if P2C in self.config.pos_att_type else None
        return k_far, q_far

    def _projected_backward(self, dk_far: Array | None, dq_far: Array | None, cache: Cache) -> Array:
        """dk_far, dq_far (NH,2k,D) or None -> dtable (2k,C)"""
        dkeys = None if dk_far is None else table_columns(dk_far)
        dqueries = None if dq_far is None else table_columns(dq_far)
        if self.config.share_att_key:
            some = dkeys if dqueries is None else dqueries
            xp = array_module(some)
            parts = [xp.zeros_like(some) if part is None else part for part in (dqueries, dkeys, None)]
            return self.c_attn.backward(xp.concatenate(parts, axis=-1), cache.pop("far"))
        dtable = 0
        if dkeys is not None:
            dtable = self.key_of_distance.backward(dkeys, cache.pop("keys"))
        if dqueries is not None:
            dtable = dtable + self.query_of_distance.backward(dqueries, cache.pop("queries"))
        return dtable
