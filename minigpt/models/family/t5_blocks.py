"""The blocks of T5 (Raffel et al. 2020, section 2.1): normalised before, by the root mean square, without biases."""

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, scaled
from minigpt.models.family.cross_attention import CrossAttention, DecoderPast
from minigpt.models.family.layers import GatedMLP, RMSNorm
from minigpt.models.family.relative import RelativeAttention, RelativeBias
from minigpt.models.family.stacks import Gradients, Stack
from minigpt.nn import Cache, Linear, Module
from minigpt.ops.random_keys import Key, fold


class FeedForward(Module):
    """out = max(x wi, 0) wo, with dropout inside and behind: Vaswani et al. (2017), equation 2, without biases.

    config.activation: the operation in the place of max.
    """

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c, f = config.n_embd, config.d_ff
        factor = config.initializer_range
        self.wi = Linear(c, f, rng, factor * c**-0.5, dtype, bias=False)
        self.wo = Linear(f, c, rng, factor * f**-0.5, dtype, bias=False)
        self.config = config

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        rate = self.config.resid_pdrop
        act_forward = getattr(ops, f"{self.config.activation}_forward")
        cache = Cache(self, grad)
        f = cache.keep("wi", self.wi.forward(x))
        a = cache.keep("act", act_forward(f))
        a = cache.keep("inside", ops.dropout_forward(a, rate=rate, key=fold(key, 5)))
        out = cache.keep("wo", self.wo.forward(a))
        return cache.keep("dropout", ops.dropout_forward(out, rate=rate, key=fold(key, 2))), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        act_backward = getattr(ops, f"{self.config.activation}_backward")
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        da = self.wo.backward(dout, cache.pop("wo"))
        da = ops.dropout_backward(da, cache.pop("inside"))
        df = act_backward(da, cache.pop("act"))
        return self.wi.backward(df, cache.pop("wi"))


class GatedFeedForward(GatedMLP):
    """The network with a gate of version 1.1: with dropout inside too, and T5's initial weights."""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c, f = config.n_embd, config.d_ff
        factor = config.initializer_range
        self.gate = Linear(c, f, rng, factor * c**-0.5, dtype, bias=False)
        self.up = Linear(c, f, rng, factor * c**-0.5, dtype, bias=False)
        self.down = Linear(f, c, rng, factor * f**-0.5, dtype, bias=False)
        self.config = config
        self.rate_inside = config.resid_pdrop


class T5CrossAttention(CrossAttention):
    """Without biases and without a scale, as T5's self-attention is; and no bias for distances between two texts."""

    scale = 1.0

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        inner = config.n_head * config.d_kv
        factor = config.initializer_range
        self.q_attn = Linear(c, inner, rng, factor * (c * config.d_kv) ** -0.5, dtype, bias=False)
        self.c_attn = Linear(c, 2 * inner, rng, factor * c**-0.5, dtype, bias=False)
        self.c_proj = Linear(inner, c, rng, factor * inner**-0.5, dtype, bias=False)
        self.config = config


class EncoderBlock(Module):
    """x = x + Attn(RMS(x)),   x = x + FF(RMS(x)): the residual stream x itself is never normalised."""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c, eps = config.n_embd, config.layer_norm_epsilon
        self.ln_1 = RMSNorm(c, eps, dtype)
        self.attn = RelativeAttention(config, rng, dtype)
        self.ln_2 = RMSNorm(c, eps, dtype)
        network = GatedFeedForward if config.is_gated else FeedForward
        self.mlp = network(config, rng, dtype)

    def forward(
        self, x: Array, past: DecoderPast | None = None, key: Key | None = None, grad: bool = True, mask=None, *,
        bias: Array, **source,
    ) -> tuple[Array, Cache]:
        """x (B,T,C), bias (1,NH,T,S) -> out (B,T,C). source: what a block of the decoder reads beside."""
        cache = Cache(self, grad)
        n = cache.keep("ln_1", self.ln_1.forward(x))
        a = cache.keep("attn", self.attn.forward(n, past, key, grad, mask, bias=bias))
        x = self.read(ops.add(x, a), past, key, cache, **source)
        n = cache.keep("ln_2", self.ln_2.forward(x))
        m = cache.keep("mlp", self.mlp.forward(n, key, grad))
        return ops.add(x, m), cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dout (B,T,C) -> dx (B,T,C), and dbias (1,NH,T,S)"""
        cache = self.own(cache)
        dn = self.mlp.backward(dout, cache.pop("mlp"))
        dx = ops.add(dout, self.ln_2.backward(dn, cache.pop("ln_2")))
        dx, gradients = self.read_backward(dx, cache)
        dn, dbias = self.attn.backward(dx, cache.pop("attn"))
        dx = ops.add(dx, self.ln_1.backward(dn, cache.pop("ln_1")))
        return dx, gradients | {"bias": dbias}

    def read(self, x: Array, past: DecoderPast | None, key: Key | None, cache: Cache) -> Array:
        """x (B,T,C) -> x (B,T,C): an encoder reads nothing beside."""
        return x

    def read_backward(self, dx: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dx (B,T,C) -> dx (B,T,C), and nothing beside"""
        return dx, {}


class DecoderBlock(EncoderBlock):
    """The same, and between the two   x = x + CrossAttn(RMS(x), states)"""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        super().__init__(config, rng, dtype)
        self.ln_cross_attn = RMSNorm(config.n_embd, config.layer_norm_epsilon, dtype)
        self.crossattention = T5CrossAttention(config, rng, dtype)

    def read(
        self, x: Array, past: DecoderPast | None, key: Key | None, cache: Cache, *, states=None, source_mask=None
    ) -> Array:
        """x (B,T,C), states (B,S,C) -> x (B,T,C)"""
        n = cache.keep("ln_cross_attn", self.ln_cross_attn.forward(x))
        read = self.crossattention.forward(n, states, past, key, cache.grad, source_mask)
        return ops.add(x, cache.keep("crossattention", read))

    def read_backward(self, dx: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dx (B,T,C) -> dx (B,T,C), and dstates (B,S,C)"""
        dn, dstates = self.crossattention.backward(dx, cache.pop("crossattention"))
        dx = ops.add(dx, self.ln_cross_attn.backward(dn, cache.pop("ln_cross_attn")))
        return dx, {"states": dstates}


class T5Stack(Stack):
    """The blocks of one side, the table of distances that they share, and a normalisation behind them.

    both_sides: do queries see keys on both sides, as in the encoder? scale: of the output.
    """

    def __init__(
        self, config, block: type[EncoderBlock], rng: np.random.Generator | None, dtype, both_sides: bool, scale: float
    ):
        self.distances_embed = RelativeBias(config, both_sides, rng, dtype)
        self.h = [block(config, rng, dtype) for _ in range(config.n_layer)]
        self.ln_f = RMSNorm(config.n_embd, config.layer_norm_epsilon, dtype)
        self.config = config
        self.scale = scale

    def forward(
        self, x: Array, positions: Array, past: list[DecoderPast] | None, key: Key | None, grad: bool, mask, through,
        **shared,
    ) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C). The bias for distances is computed once, for all blocks."""
        cache = Cache(self, grad)
        t = x.shape[1]
        n_past = past[0].length if past else 0
        bias = cache.keep("distances", self.distances_embed.forward(t, n_past + t))
        cache.keep("bias", (bias, bias))  # in a ledger it comes once
        blocks = super().forward(x, positions, past, key, grad, mask, through, bias=bias, **shared)
        return cache.keep("blocks", blocks), cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dout (B,T,C) -> dx (B,T,C), and the gradients of what the blocks share"""
        cache = self.own(cache)
        cache.pop("bias")
        dx, gradients = super().backward(dout, cache.pop("blocks"))
        self.distances_embed.backward(gradients.pop("bias"), cache.pop("distances"))
        return dx, gradients

    def enter(self, x: Array, positions: Array, key: Key | None, cache: Cache) -> Array:
        """x (B,T,C) -> x (B,T,C): dropout"""
        return cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=key))

    def enter_backward(self, dx: Array, cache: Cache) -> Array:
        """dx (B,T,C) -> dx (B,T,C)"""
        return ops.dropout_backward(dx, cache.pop("dropout"))

    def leave(self, x: Array, key: Key | None, cache: Cache) -> Array:
        """x (B,T,C) -> out (B,T,C): normalised, dropout, times the scale"""
        x = cache.keep("ln_f", self.ln_f.forward(x))
        x = cache.keep("last", ops.dropout_forward(x, rate=self.config.resid_pdrop, key=key))
        return scaled(x, self.scale)

    def leave_backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dx = ops.dropout_backward(scaled(dout, self.scale), cache.pop("last"))
        return self.ln_f.backward(dx, cache.pop("ln_f"))
