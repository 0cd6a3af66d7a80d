"""Attention of a decoder to what its encoder has read, and the past of a decoder, which holds that too."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.nn import Cache, Linear, Module, Past
from minigpt.ops.random_keys import Key, fold


class DecoderPast(Past):
    """The key-value cache of one layer of a decoder: of the positions that were written, and of the source.

    source_kv (B or 1,S,2C): packed keys and values of the source, the same at every step. source_mask (B or 1,1,1,S):
    False where the source is padding; None: it is all text. capacity, padding: see `Past`.
    """

    def __init__(self, capacity: int, padding: Array | None, source_kv: Array, source_mask: Array | None):
        super().__init__(capacity, padding)
        self.source_kv = source_kv
        self.source_mask = source_mask


class CrossAttention(Module):
    """Multi-head attention with queries of one text, and keys and values of another (Vaswani et al. 2017, section
    3.2.3), each with its projection. Names are those of Hugging Face's GPT-2 with cross-attention.

    config: as for `nn.Attention`.
    """

    scale: float | None = None  # of the scores; None is 1/sqrt(D)

    def __init__(self, config, rng: np.random.Generator | None, dtype=np.float32):
        c = config.n_embd
        std = config.initializer_range
        self.q_attn = Linear(c, c, rng, std, dtype)
        self.c_attn = Linear(c, 2 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, std, dtype)
        self.config = config

    def keys_and_values(self, states: Array) -> Array:
        """states (B,S,C) -> kv (B,S,2C), for a past; nothing is kept for a backward."""
        kv, _ = self.c_attn.forward(states)
        return kv

    def forward(
        self, x: Array, states: Array | None, past: DecoderPast | None = None, key: Key | None = None,
        grad: bool = True, mask: Array | None = None,
    ) -> tuple[Array, Cache]:
        """x (B,T,C), states (B,S,C) -> out (B,T,C)

        past: has the keys and values of the states, so states are not read. mask: broadcast to (B,NH,T,S); None: every
        query sees every key.
        """
        config = self.config
        cache = Cache(self, grad)
        q = cache.keep("q", self.q_attn.forward(x))
        if past is None:
            kv = cache.keep("kv", self.c_attn.forward(states))
        else:
            _, s, columns = past.source_kv.shape
            kv = array_module(x).broadcast_to(past.source_kv, (len(x), s, columns))
        heads = cache.keep("heads", ops.cross_attention_forward(
            q, kv, config.n_head, mask=mask, scale=self.scale,
            rate=config.attn_pdrop, key=fold(key, 3), grad=grad,
        ))  # fmt: skip
        out = cache.keep("proj", self.c_proj.forward(heads))
        out = cache.keep("dropout", ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 4)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Array]:
        """dout (B,T,C) -> dx (B,T,C), dstates (B,S,C)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dheads = self.c_proj.backward(dout, cache.pop("proj"))
        dq, dkv, _ = ops.cross_attention_backward(dheads, cache.pop("heads"))
        dstates = self.c_attn.backward(dkv, cache.pop("kv"))
        dx = self.q_attn.backward(dq, cache.pop("q"))
        return dx, dstates
