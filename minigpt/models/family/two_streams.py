"""Attention and a block whose queries may come from another stream than their keys and values.

That stream knows where a word stands, and not which one (Yang et al. 2019, section 2.3): XLNet's query stream, and what
DeBERTa's last block starts from where words are told. What scores know of distances, a subclass says.
"""

from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.models.family.published import PublishedConfig
from minigpt.nn import MLP, Cache, LayerNorm, Linear, Module
from minigpt.ops.random_keys import Key, fold


class TwoStreamAttention(Module):
    """Self-attention with a bias of its scores that a subclass computes: see `compare`.

    config: as for `nn.Attention`. c_attn, c_proj: the projections, which a subclass builds. scale: of the scores.
    """

    config: Any
    c_attn: Linear
    c_proj: Linear
    scale: float

    def forward(
        self, x: Array, query: Array | None = None, key: Key | None = None, grad: bool = True, mask=None,
        places: Any = None,
    ) -> tuple[Array, Cache]:
        """x (B,T,C), [query (B,T,C)] -> out (B,T,C)

        query: from which queries are made, where it is not x. places: what all blocks know of where the words stand.
        """
        config = self.config
        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        q, k, v = array_module(x).split(qkv, 3, axis=-1)
        if query is not None:
            q = cache.keep("query", self.c_attn.forward(query))
            q = q[..., : config.n_embd]
        q, k, v = (ops.split_heads(part, config.n_head) for part in (q, k, v))
        q, bias = self.compare(q, k, places, cache)
        heads = cache.keep("attention", ops.attention_forward(
            q, k, v, bias, mask=mask, scale=self.scale, rate=config.attn_pdrop, key=fold(key, 0),
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
        dq, dk = self.compare_backward(dq, dk, dbias, cache)
        dq, dk, dv = (ops.merge_heads(part) for part in (dq, dk, dv))
        if "query" not in cache:
            dqkv = xp.concatenate([dq, dk, dv], axis=-1)
            return self.c_attn.backward(dqkv, cache.pop("qkv")), None
        nothing = xp.zeros_like(dq)
        dquery = self.c_attn.backward(xp.concatenate([dq, nothing, nothing], axis=-1), cache.pop("query"))
        dx = self.c_attn.backward(xp.concatenate([nothing, dk, dv], axis=-1), cache.pop("qkv"))
        return dx, dquery

    def compare(self, q: Array, k: Array, places: Any, cache: Cache) -> tuple[Array, Array | None]:
        """q, k (B,NH,T,D) -> the queries of the contents (B,NH,T,D), and what is added to their scores (B,NH,T,T)"""
        raise NotImplementedError

    def compare_backward(self, dq: Array, dk: Array, dbias: Array, cache: Cache) -> tuple[Array, Array]:
        """The gradients of the queries of the contents, of k, and of the bias -> dq, dk (B,NH,T,D)"""
        raise NotImplementedError


class TwoStreamBlock(Module):
    """GPT-1's block with such an attention. The stream of the queries is the residual stream."""

    def __init__(self, attn: TwoStreamAttention, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        self.attn = attn
        self.ln_1 = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.mlp = MLP(config, rng, config.initializer_range, dtype)
        self.ln_2 = LayerNorm(c, config.layer_norm_epsilon, dtype)

    def forward(
        self, x: Array, past=None, key: Key | None = None, grad: bool = True, mask=None, places: Any = None
    ) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        return self._forward(x, None, key, grad, mask, places)

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dstream, dx, _ = self._backward(dout, cache)
        return ops.add(dstream, dx)

    def forward_apart(
        self, x: Array, query: Array, key: Key | None, grad: bool, mask, places: Any = None
    ) -> tuple[Array, Cache]:
        """x (B,T,C), from which keys and values are made, and query (B,T,C), the residual stream -> out (B,T,C)"""
        return self._forward(x, query, key, grad, mask, places)

    def backward_apart(self, dout: Array, cache: Cache) -> tuple[Array, Array]:
        """dout (B,T,C) -> dx, dquery (B,T,C)"""
        dstream, dx, dquery = self._backward(dout, cache)
        return dx, ops.add(dstream, dquery)

    def _forward(
        self, x: Array, query: Array | None, key: Key | None, grad: bool, mask, places: Any
    ) -> tuple[Array, Cache]:
        cache = Cache(self, grad)
        stream = x if query is None else query
        a = cache.keep("attn", self.attn.forward(x, query, key, grad, mask, places))
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
