"""Attention with its two projections, and the key-value cache."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.nn.layers import Linear
from minigpt.nn.module import Cache, Module
from minigpt.ops.keys import Key, fold


class Past:
    """What one attention has read: the keys and values of earlier positions, so that nothing is read twice.

    The key-value cache of one layer. It belongs to the caller; an attention that is given one reads it and writes its
    new keys and values behind it, in place: k, v (B,NH,capacity,D), of which `length` positions are filled.
    padding: (B,), how many places at the left of each row hold nothing, where rows have different lengths; or None.
    """

    def __init__(self, capacity: int, padding: Array | None = None):
        self.capacity, self.padding, self.length = capacity, padding, 0
        self.k = self.v = None

    def read(self) -> tuple[Array, Array] | None:
        """(k, v), each (B,NH,length,D), views and no copies; None as long as nothing was read."""
        return (self.k[:, :, : self.length], self.v[:, :, : self.length]) if self.length else None

    def extend(self, k: Array, v: Array) -> None:
        """k, v (B,NH,T,D): of the T positions that follow. Raises InputError where there is no room for them."""
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise InputError(f"{end} positions do not fit into a past of {self.capacity}: give it a larger capacity")
        if self.k is None:
            shape = (*k.shape[:2], self.capacity, k.shape[3])
            self.k, self.v = (array_module(k).empty(shape, k.dtype) for _ in "kv")
        self.k[:, :, self.length : end], self.v[:, :, self.length : end] = k, v
        self.length = end

    def mask(self, t: int) -> Array | None:
        """(B,1,T,S), True where the next T positions see the S so far, themselves included; None is plain causal."""
        if self.padding is None:
            return None
        key = array_module(self.padding).arange(self.length + t)
        return (key <= key[-t:, None]) & (key >= self.padding[:, None, None, None])


class Attention(Module):
    """Causal multi-head self-attention with its packed input projection and its output projection.

    config: n_embd, n_head, attn_pdrop (dropout on the probabilities), resid_pdrop (on the output).
    proj_std: standard deviation of the output projection's initial weights.
    """

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, std = config.n_embd, config.initializer_range
        self.c_attn = Linear(c, 3 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, proj_std, dtype)
        self.config = config

    def forward(self, x: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C). past: a Past, to which x is added; a constant for the backward."""
        cache, config = Cache(grad), self.config
        qkv = cache.keep(self.c_attn.forward(x))
        options = {"rate": config.attn_pdrop, "key": fold(key, 0), "grad": grad}
        if past is not None:
            options |= {"past": past.read(), "mask": past.mask(x.shape[1])}
        heads = cache.keep(ops.self_attention_forward(qkv, config.n_head, **options))
        if past is not None:
            c = config.n_embd
            past.extend(*(ops.split_heads(qkv[..., i : i + c], config.n_head) for i in (c, 2 * c)))
        out = cache.keep(self.c_proj.forward(heads))
        out = cache.keep(ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dout = ops.dropout_backward(dout, cache.pop())
        dheads = self.c_proj.backward(dout, cache.pop())
        dqkv = ops.self_attention_backward(dheads, cache.pop())
        return self.c_attn.backward(dqkv, cache.pop())
