"""Attention with its two projections, and the key-value cache."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.nn.layers import Linear
from minigpt.nn.module import Cache, Module
from minigpt.ops.random_keys import Key, fold


class Past:
    """What one attention has read: the keys and values of earlier positions, so that nothing is read twice.

    The key-value cache of one layer. It belongs to the caller; an attention that is given one reads it and writes its
    new keys and values behind it, in place: k, v (B,NH,capacity,D), of which `length` positions are filled.
    padding: (B,), how many places at the left of each row hold nothing, where rows have different lengths; or None.
    """

    def __init__(self, capacity: int, padding: Array | None = None):
        self.capacity = capacity
        self.padding = padding
        self.length = 0
        self.k = self.v = None

    def read(self) -> tuple[Array, Array] | None:
        """(k, v), each (B,NH,length,D), views and no copies; None as long as nothing was read."""
        if self.length == 0:
            return None
        return self.k[:, :, : self.length], self.v[:, :, : self.length]

    def extend(self, k: Array, v: Array) -> None:
        """k, v (B,NH,T,D): of the T positions that follow. Raises InputError where there is no room for them."""
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise InputError(f"{end} positions do not fit into a past of {self.capacity}: give it a larger capacity")
        if self.k is None:
            b, n_head, _, size = k.shape
            xp = array_module(k)
            self.k = xp.empty((b, n_head, self.capacity, size), k.dtype)
            self.v = xp.empty((b, n_head, self.capacity, size), k.dtype)
        self.k[:, :, self.length : end] = k
        self.v[:, :, self.length : end] = v
        self.length = end

    def mask(self, t: int) -> Array | None:
        """(B,1,T,S), True where the next T positions see the S so far, themselves included; None is plain causal."""
        if self.padding is None:
            return None
        key = array_module(self.padding).arange(self.length + t)
        query = key[-t:, None]
        return (key <= query) & (key >= self.padding[:, None, None, None])


class Attention(Module):
    """Multi-head self-attention with its packed input projection and its output projection; causal without a mask.

    config: n_embd, n_head, attn_pdrop (dropout on the probabilities), resid_pdrop (on the output), initializer_range.
    proj_std: standard deviation of the output projection's initial weights.
    """

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c = config.n_embd
        self.c_attn = Linear(c, 3 * c, rng, config.initializer_range, dtype)
        self.c_proj = Linear(c, c, rng, proj_std, dtype)
        self.config = config

    def forward(
        self, x: Array, past: Past | None = None, key: Key | None = None, grad: bool = True, mask: Array | None = None
    ) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)

        past: the positions before, to which x is added; a constant for the backward. mask: boolean, broadcast to
        (B,NH,T,S), True where a query may see a key; None is causal.
        """
        config = self.config
        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        before = None
        if past is not None:
            before = past.read()
            mask = past.mask(x.shape[1]) if mask is None else mask
        heads = cache.keep("heads", ops.self_attention_forward(
            qkv, config.n_head, mask=mask, rate=config.attn_pdrop, key=fold(key, 0), past=before, grad=grad,
        ))  # fmt: skip
        if past is not None:
            _, k, v = (ops.split_heads(part, config.n_head) for part in array_module(qkv).split(qkv, 3, axis=-1))
            past.extend(k, v)
        out = cache.keep("proj", self.c_proj.forward(heads))
        out = cache.keep("dropout", ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dheads = self.c_proj.backward(dout, cache.pop("proj"))
        dqkv, _ = ops.self_attention_backward(dheads, cache.pop("heads"))
        return self.c_attn.backward(dqkv, cache.pop("qkv"))
