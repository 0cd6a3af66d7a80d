"""The blocks of XLNet: attention whose scores know distances and segments, through which two streams run."""

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
from minigpt.nn import MLP, Cache, LayerNorm, Linear, Module, Parameter, accumulate, normal
from minigpt.ops.random_keys import Key, fold


class BiasCache(NamedTuple):
    to_far: Array
    to_segment: Array
    k_far: Array
    where: Array
    differs: Array
    scale: float


class Places(NamedTuple):
    """What all blocks know of a text: a vector (2T,C) of each distance -T to T - 1; (B,1,T,T): do segments differ?"""

    far: Array
    differs: Array


class RelativeAttention(Module):
    """Scores ((q_i + u) k_j + (q_i + v) K_d + (q_i + w) S) / sqrt(D) of heads of size D (appendix A.2).

    d: the distance i - j; K: a projection of its vector; S: one of two vectors, for equal and for different segments;
    u, v, w: numbers of each head.
    """

    def __init__(self, config: Config, rng: np.random.Generator | None, dtype):
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

    def forward(
        self, x: Array, places: Places, query: Array | None = None, key: Key | None = None, grad: bool = True, mask=None
    ) -> tuple[Array, Cache]:
        """x (B,T,C), [query (B,T,C)] -> out (B,T,C). query: from which queries are made, where it is not x."""
        xp = array_module(x)
        config = self.config
        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        q, k, v = xp.split(qkv, 3, axis=-1)
        if query is not None:
            q = cache.keep("query", self.c_attn.forward(query))
            q = q[..., : config.n_embd]
        q, k, v = (ops.split_heads(part, config.n_head) for part in (q, k, v))
        scale = q.shape[-1] ** -0.5
        bias = cache.keep("bias", self._bias(q, places, scale, cache))
        heads = cache.keep("attention", ops.attention_forward(
            q + _of_heads(self.u), k, v, bias, mask=mask, scale=scale, rate=config.attn_pdrop, key=fold(key, 0),
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
        accumulate(self.u, dq.sum(axis=(0, 2)))
        dq = dq + self._bias_backward(dbias, cache.pop("bias"), cache)
        dq, dk, dv = (ops.merge_heads(part) for part in (dq, dk, dv))
        if "query" not in cache:
            dqkv = xp.concatenate([dq, dk, dv], axis=-1)
            return self.c_attn.backward(dqkv, cache.pop("qkv")), None
        nothing = xp.zeros_like(dq)
        dquery = self.c_attn.backward(xp.concatenate([dq, nothing, nothing], axis=-1), cache.pop("query"))
        dx = self.c_attn.backward(xp.concatenate([nothing, dk, dv], axis=-1), cache.pop("qkv"))
        return dx, dquery

    def _bias(self, q: Array, places: Places, scale: float, cache: Cache) -> tuple[Array, BiasCache]:
        """q (B,NH,T,D) -> bias (B,NH,T,T): what distances and segments add to the scores"""
        xp = array_module(q)
        t = q.shape[2]
        far = cache.keep("far", self.key_of_distance.forward(places.far))
        k_far = table_heads(far, self.config.n_head)
        where = distances_between(t, t, xp)
        to_far = q + _of_heads(self.v)
        bias = take_distances(to_far @ k_far.swapaxes(-1, -2), where)
        to_segment = q + _of_heads(self.w)
        of_segments = to_segment @ self.segments.value.transpose(1, 2, 0)  # (B,NH,T,2)
        bias = bias + xp.where(places.differs, of_segments[..., 1:], of_segments[..., :1])
        return bias * scale, BiasCache(to_far, to_segment, k_far, where, places.differs, scale)

    def _bias_backward(self, dbias: Array, saved: BiasCache, cache: Cache) -> Array:
        """dbias (B,NH,T,T) -> dq (B,NH,T,D); the gradients of what is learned arrive there"""
        xp = array_module(dbias)
        to_far, to_segment, k_far, where, differs, scale = saved
        dbias = dbias * scale
        # bias = where(differs, of_segments[1], of_segments[0])
        different = (dbias * differs).sum(axis=-1)
        equal = dbias.sum(axis=-1) - different
        dof_segments = xp.stack([equal, different], axis=-1)
        dto_segment = dof_segments @ self.segments.value.transpose(1, 0, 2)
        dsegments = (dof_segments.swapaxes(-1, -2) @ to_segment).sum(axis=0)  # (NH,2,D)
        accumulate(self.segments, dsegments.swapaxes(0, 1))
        accumulate(self.w, dto_segment.sum(axis=(0, 2)))
        # bias = take_distances(to_far @ k_far^T, where)
        dproducts = put_distances(dbias, where, k_far.shape[1])
        dto_far = dproducts @ k_far
        dk_far = (dproducts.swapaxes(-1, -2) @ to_far).sum(axis=0)
        accumulate(self.v, dto_far.sum(axis=(0, 2)))
        self.key_of_distance.backward(table_columns(dk_far), cache.pop("far"))  # the vectors of distances are fixed
        return dto_segment + dto_far


class Block(Module):
    """GPT-1's block with this attention, through which both streams run."""

    def __init__(self, config: Config, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        self.attn = RelativeAttention(config, rng, dtype)
        self.ln_1 = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.mlp = MLP(config, rng, config.initializer_range, dtype)
        self.ln_2 = LayerNorm(c, config.layer_norm_epsilon, dtype)

    def forward(
        self, x: Array, places: Places, query: Array | None = None, key: Key | None = None, grad: bool = True, mask=None
    ) -> tuple[Array, Cache]:
        """x (B,T,C), [query (B,T,C)] -> out (B,T,C), of the stream from which queries are made"""
        cache = Cache(self, grad)
        stream = x if query is None else query
        a = cache.keep("attn", self.attn.forward(x, places, query, key, grad, mask))
        y = ops.add(stream, a)
        y = cache.keep("ln_1", self.ln_1.forward(y))
        m = cache.keep("mlp", self.mlp.forward(y, key, grad))
        y = ops.add(y, m)
        out = cache.keep("ln_2", self.ln_2.forward(y))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Array | None]:
        """dout (B,T,C) -> dx (B,T,C), and dquery (B,T,C), None where there was one stream"""
        cache = self.own(cache)
        dy = self.ln_2.backward(dout, cache.pop("ln_2"))
        dm = self.mlp.backward(dy, cache.pop("mlp"))
        dy = ops.add(dy, dm)
        dstream = self.ln_1.backward(dy, cache.pop("ln_1"))
        dx, dquery = self.attn.backward(dstream, cache.pop("attn"))
        if dquery is None:
            return ops.add(dstream, dx), None
        return dx, ops.add(dstream, dquery)


def _of_heads(numbers: Parameter) -> Array:
    """(NH,D) -> (1,NH,1,D), to be added to the queries of each head"""
    return numbers.value[None, :, None, :]
