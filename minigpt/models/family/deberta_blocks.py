"""The blocks of DeBERTa: GPT-1's, with an attention that compares contents and distances apart (He et al. 2021)."""

import math
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.models.config import Config
from minigpt.models.family.relative_attention import (
    distances_between,
    put_distances,
    table_columns,
    table_heads,
    take_distances,
)
from minigpt.nn import MLP, Cache, Embedding, LayerNorm, Linear, Module, accumulate
from minigpt.ops.random_keys import Key, fold

C2P, P2C = "c2p", "p2c"  # content to position: a query with a distance; position to content: a distance with a key


class Distances(Embedding):
    """A vector for each distance (2k,C), which all blocks share; in version 3 it is normalised."""

    def __init__(self, config: Config, rng: np.random.Generator | None, dtype):
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
    scale: float


class DisentangledAttention(Module):
    """Self-attention whose scores compare contents and distances apart (equation 4).

    Of heads of size D: score[i, j] = (q_i k_j + q_i K_d + k_j Q_d) / sqrt(3 D), where d is the distance i - j, and K
    and Q are projections of one table of distances: by maps of their own, or by those of the keys and queries. A model
    may be without one of the products or both; then 3 is smaller. distances: None where the model has no such table.
    """

    def __init__(self, config: Config, distances: Distances | None, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        own_maps = () if distances is None or config.share_att_key else config.pos_att_type
        self.c_attn = Linear(c, 3 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, std, dtype)
        self.key_of_distance = Linear(c, c, rng, std, dtype) if C2P in own_maps else None
        self.query_of_distance = Linear(c, c, rng, std, dtype) if P2C in own_maps else None
        self.distances = distances
        self.config = config

    def forward(
        self, x: Array, query: Array | None = None, key: Key | None = None, grad: bool = True, mask=None
    ) -> tuple[Array, Cache]:
        """x (B,T,C), [query (B,T,C)] -> out (B,T,C). query: from which queries are made, where it is not x."""
        xp = array_module(x)
        config = self.config
        n_head = config.n_head
        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        q, k, v = xp.split(qkv, 3, axis=-1)
        if query is not None:
            q = cache.keep("query", self.c_attn.forward(query))
            q = q[..., : config.n_embd]
        q, k, v = (ops.split_heads(part, n_head) for part in (q, k, v))
        n_products = 1 + len(config.pos_att_type)
        scale = 1 / math.sqrt(n_products * q.shape[-1])
        bias = None
        if self.distances is not None and config.pos_att_type:
            bias = cache.keep("bias", self._bias(q, k, scale, cache))
        heads = cache.keep("attention", ops.attention_forward(
            q, k, v, bias, mask=mask, scale=scale, rate=config.attn_pdrop, key=fold(key, 0),
        ))  # fmt: skip
        out = cache.keep("proj", self.c_proj.forward(ops.merge_heads(heads)))
        out = cache.keep("dropout", ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Array | None]:
        """dout (B,T,C) -> dx (B,T,C), and dquery (B,T,C), None where queries were made from x"""
        xp = array_module(dout)
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dheads = self.c_proj.backward(dout, cache.pop("proj"))
        dheads = ops.split_heads(dheads, self.config.n_head)
        dq, dk, dv, dbias = ops.attention_backward(dheads, cache.pop("attention"))
        if "bias" in cache:
            dq_far, dk_far = self._bias_backward(dbias, cache.pop("bias"), cache)
            dq, dk = dq + dq_far, dk + dk_far
        dq, dk, dv = (ops.merge_heads(part) for part in (dq, dk, dv))
        if "query" not in cache:
            dqkv = xp.concatenate([dq, dk, dv], axis=-1)
            return self.c_attn.backward(dqkv, cache.pop("qkv")), None
        nothing = xp.zeros_like(dq)
        dquery = self.c_attn.backward(xp.concatenate([dq, nothing, nothing], axis=-1), cache.pop("query"))
        dx = self.c_attn.backward(xp.concatenate([nothing, dk, dv], axis=-1), cache.pop("qkv"))
        return dx, dquery

    def _bias(self, q: Array, k: Array, scale: float, cache: Cache) -> tuple[Array, DistanceCache]:
        """q, k (B,NH,T,D) -> bias (B,NH,T,T): what the distances add to the scores"""
        config = self.config
        where = distances_between(q.shape[2], config.n_distances, array_module(q), config.max_distance)
        k_far, q_far = self._projected(cache.keep("table", self.distances.forward()), cache)
        bias = 0
        if k_far is not None:
            content_to_distance = q @ k_far.swapaxes(-1, -2)
            bias = take_distances(content_to_distance, where)
        if q_far is not None:
            distance_to_content = k @ q_far.swapaxes(-1, -2)
            of_keys = take_distances(distance_to_content, where.T)
            bias = bias + of_keys.swapaxes(-1, -2)
        return bias * scale, DistanceCache(q, k, k_far, q_far, where, scale)

    def _bias_backward(self, dbias: Array, saved: DistanceCache, cache: Cache) -> tuple[Array, Array]:
        """dbias (B,NH,T,T) -> dq, dk (B,NH,T,D), and the gradients of the table and its projections arrive there"""
        q, k, k_far, q_far, where, scale = saved
        n_rows = 2 * self.config.n_distances
        n_alone = self.config.n_distances if self.config.max_distance is None else self.config.n_distances // 2
        dbias = dbias * scale
        dq = dk = 0
        dk_far = dq_far = None
        if q_far is not None:
            # of_keys = take_distances(distance_to_content, where.T), transposed
            d_of_keys = put_distances(dbias.swapaxes(-1, -2), where.T, n_rows, n_alone)
            # distance_to_content = k q_far^T; all texts share the table
            dk = d_of_keys @ q_far
            dq_far = (d_of_keys.swapaxes(-1, -2) @ k).sum(axis=0)
        if k_far is not None:
            # bias = take_distances(content_to_distance, where)
            d_of_queries = put_distances(dbias, where, n_rows, n_alone)
            # content_to_distance = q k_far^T
            dq = d_of_queries @ k_far
            dk_far = (d_of_queries.swapaxes(-1, -2) @ q).sum(axis=0)
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


class Block(Module):
    """GPT-1's block with this attention. In the decoder its queries and the residual stream are apart from its keys."""

    def __init__(self, config: Config, distances: Distances | None, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        self.attn = DisentangledAttention(config, distances, rng, dtype)
        self.ln_1 = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.mlp = MLP(config, rng, config.initializer_range, dtype)
        self.ln_2 = LayerNorm(c, config.layer_norm_epsilon, dtype)

    def forward(self, x: Array, past=None, key: Key | None = None, grad: bool = True, mask=None) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        return self._forward(x, None, key, grad, mask)

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dstream, dx, _ = self._backward(dout, cache)
        return ops.add(dstream, dx)

    def decode(self, x: Array, query: Array, key: Key | None, grad: bool, mask) -> tuple[Array, Cache]:
        """x (B,T,C), from which keys and values are made, and query (B,T,C), the residual stream -> out (B,T,C)"""
        return self._forward(x, query, key, grad, mask)

    def decode_backward(self, dout: Array, cache: Cache) -> tuple[Array, Array]:
        """dout (B,T,C) -> dx, dquery (B,T,C)"""
        dstream, dx, dquery = self._backward(dout, cache)
        return dx, ops.add(dstream, dquery)

    def _forward(self, x: Array, query: Array | None, key: Key | None, grad: bool, mask) -> tuple[Array, Cache]:
        cache = Cache(self, grad)
        stream = x if query is None else query
        a = cache.keep("attn", self.attn.forward(x, query, key, grad, mask))
        x = ops.add(stream, a)
        x = cache.keep("ln_1", self.ln_1.forward(x))
        m = cache.keep("mlp", self.mlp.forward(x, key, grad))
        x = ops.add(x, m)
        out = cache.keep("ln_2", self.ln_2.forward(x))
        return out, cache

    def _backward(self, dout: Array, cache: Cache) -> tuple[Array, Array, Array | None]:
        """dout (B,T,C) -> the gradients of the residual stream, of x, and of the queries where they are apart"""
        cache = self.own(cache)
        dx = self.ln_2.backward(dout, cache.pop("ln_2"))
        dm = self.mlp.backward(dx, cache.pop("mlp"))
        dx = ops.add(dx, dm)
        dstream = self.ln_1.backward(dx, cache.pop("ln_1"))
        dx, dquery = self.attn.backward(dstream, cache.pop("attn"))
        return dstream, dx, dquery
