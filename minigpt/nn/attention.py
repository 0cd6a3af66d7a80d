"""Attention with its two projections, and the key-value cache."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.nn.layers import Linear
from minigpt.nn.module import Cache, Module
from minigpt.ops.random_keys import Key, fold


class Past:
    """The key-value cache of one attention: the keys and values of the positions that it has read.

    It belongs to the caller. An attention that is given a past reads it, and then stores its new keys and values after
    the earlier ones, in place.

    k, v: (B,NH,capacity,D), of which the first `length` positions are filled; None before the first ones are stored.
    padding: (B,) int, the number of positions at the left of each row that hold no token, where rows have different
    lengths; None where they have the same.
    """

    def __init__(self, capacity: int, padding: Array | None = None):
        self.capacity = capacity
        self.padding = padding
        self.length = 0
        self.k: Array = None
        self.v: Array = None

    def __repr__(self) -> str:
        return f"Past({self.length} of {self.capacity} positions)"

    def read(self) -> tuple[Array, Array] | None:
        """(k, v), each (B,NH,length,D), views and no copies; None as long as nothing is stored."""
        if self.length == 0:
            return None
        k = self.k[:, :, : self.length]
        v = self.v[:, :, : self.length]
        return k, v

    def extend(self, k: Array, v: Array) -> None:
        """Store k, v (B,NH,T,D), of the next T positions. Raises InputError where there is no room for them."""
        start = self.length
        end = start + k.shape[2]
        if end > self.capacity:
            raise InputError(f"{end} positions do not fit into a past of {self.capacity}: give it a larger capacity")
        if self.k is None:
            self._allocate(k)
        self.k[:, :, start:end] = k
        self.v[:, :, start:end] = v
        self.length = end

    def _allocate(self, k: Array) -> None:
        """Make room for keys such as these, and for values of the same shape."""
        xp = array_module(k)
        batch, n_head, _, head_size = k.shape
        shape = (batch, n_head, self.capacity, head_size)
        # Zeros: attention with a mask may read the room that is not filled, and multiply it by 0: NaN would stay NaN.
        self.k = xp.zeros(shape, k.dtype)
        self.v = xp.zeros(shape, k.dtype)

    def mask(self, t: int) -> Array | None:
        """(B,1,T,S) boolean, True where the next T positions see the S so far, themselves included; None is causal."""
        if self.padding is None:
            return None
        xp = array_module(self.padding)
        key = xp.arange(self.length + t)
        query = key[-t:, None]
        first_token = self.padding[:, None, None, None]
        return (key <= query) & (key >= first_token)


class Attention(Module):
    """Multi-head self-attention with its packed input projection and its output projection; causal without a mask.

    config: n_embd, n_head, attn_pdrop (dropout on the probabilities), resid_pdrop (on the output), initializer_range.
    proj_std: standard deviation of the output projection's initial weights. (Vaswani et al. 2017, section 3.2.)
    """

    scale: float | None = None  # of the scores; None is 1/sqrt(D)

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c = config.n_embd
        self.c_attn = Linear(c, 3 * c, rng, config.initializer_range, dtype)
        self.c_proj = Linear(c, c, rng, proj_std, dtype)
        self.config = config

    def forward(
        self,
        x: Array,
        past: Past | None = None,
        key: Key | None = None,
        grad: bool = True,
        mask: Array | None = None,
        bias: Array | None = None,
    ) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)

        past: the positions before x, to which those of x are added; a constant for the backward. mask: boolean,
        broadcast to (B,NH,T,S), True where a query may see a key; None is causal. bias: added to the scores, of a
        subclass that has one. Raises InputError where the past has no room.
        """
        config = self.config
        before = None
        if past is not None:
            before = past.read()
            if mask is None:
                mask = past.mask(x.shape[1])

        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        attention = ops.self_attention_forward(
            qkv,
            config.n_head,
            bias=bias,
            mask=mask,
            scale=self.scale,
            past=before,
            rate=config.attn_pdrop,
            key=fold(key, 0),
            grad=grad,
        )
        heads = cache.keep("heads", attention)
        out = cache.keep("proj", self.c_proj.forward(heads))
        dropout = ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1))
        out = cache.keep("dropout", dropout)

        if past is not None:
            b, t, _ = x.shape
            packed = qkv.reshape(b, t, 3, config.n_head, -1)
            _, k, v = packed.transpose(2, 0, 3, 1, 4)  # each (B,NH,T,D)
            past.extend(k, v)
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C). Raises ValueError for a cache of another module, and for one that was used."""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dheads = self.c_proj.backward(dout, cache.pop("proj"))
        dqkv, _ = ops.self_attention_backward(dheads, cache.pop("heads"))
        return self.c_attn.backward(dqkv, cache.pop("qkv"))
