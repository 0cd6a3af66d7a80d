"""The blocks of an encoder-decoder, and a stack of them for each side: what `encoder_decoder` puts together."""

from collections.abc import Callable

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.models.family.cross_attention import CrossAttention, DecoderPast
from minigpt.models.family.published import PublishedConfig
from minigpt.models.gpt1 import Block
from minigpt.nn import Cache, LayerNorm, Module, PositionEmbedding
from minigpt.ops.random_keys import Key, fold

Gradients = dict[str, Array]  # of what all blocks of a stack share, by name


class EncoderBlock(Block):
    """GPT-1's block, whose positions see both sides by their mask."""

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dout (B,S,C) -> dx (B,S,C), and nothing beside"""
        return super().backward(dout, cache), {}


class DecoderBlock(Block):
    """x = LN1(x + Attn(x)),   x = LN(x + CrossAttn(x, states)),   x = LN2(x + MLP(x))"""

    def __init__(self, config: PublishedConfig, rng: np.random.Generator | None, dtype):
        super().__init__(config, rng, dtype)
        self.crossattention = CrossAttention(config, rng, dtype)
        self.ln_cross_attn = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype)

    def forward(
        self, x: Array, past: DecoderPast | None = None, key: Key | None = None, grad: bool = True, mask=None, *,
        states: Array | None = None, source_mask: Array | None = None,
    ) -> tuple[Array, Cache]:
        """x (B,T,C), states (B,S,C) -> out (B,T,C). A past has the keys and values of the states already."""
        cache = Cache(self, grad)
        a = cache.keep("attn", self.attn.forward(x, past, key, grad, mask))
        x = cache.keep("ln_1", self.ln_1.forward(ops.add(x, a)))
        read = self.crossattention.forward(x, states, past, key, grad, source_mask)
        c = cache.keep("crossattention", read)
        x = cache.keep("ln_cross_attn", self.ln_cross_attn.forward(ops.add(x, c)))
        m = cache.keep("mlp", self.mlp.forward(x, key, grad))
        x = cache.keep("ln_2", self.ln_2.forward(ops.add(x, m)))
        return x, cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dout (B,T,C) -> dx (B,T,C), and dstates (B,S,C)"""
        cache = self.own(cache)
        dx = self.ln_2.backward(dout, cache.pop("ln_2"))
        dx = ops.add(dx, self.mlp.backward(dx, cache.pop("mlp")))
        dx = self.ln_cross_attn.backward(dx, cache.pop("ln_cross_attn"))
        dc, dstates = self.crossattention.backward(dx, cache.pop("crossattention"))
        dx = self.ln_1.backward(ops.add(dx, dc), cache.pop("ln_1"))
        dx = ops.add(dx, self.attn.backward(dx, cache.pop("attn")))
        return dx, {"states": dstates}


class Stack(Module):
    """The blocks of one side, and what stands before and behind them: positions, and a LayerNorm if `normalises`."""

    def __init__(
        self, config: PublishedConfig, block: Callable[..., Module], rng: np.random.Generator | None, dtype,
        normalises: bool,
    ):  # fmt: skip
        c = config.n_embd
        self.positions_embed = PositionEmbedding(config.n_positions, c, rng, config.initializer_range, dtype)
        self.ln_embed = LayerNorm(c, config.layer_norm_epsilon, dtype) if normalises else None
        self.h = [block(config, rng, dtype) for _ in range(config.n_layer)]
        self.config = config

    def forward(
        self, x: Array, positions: Array, past: list[DecoderPast] | None, key: Key | None, grad: bool, mask, through,
        **shared,
    ) -> tuple[Array, Cache]:
        """x (B,T,C), the rows of the tokens -> out (B,T,C)

        through: how a block is run, `LanguageModel.through`. shared: what every block is given beside x.
        """
        cache = Cache(self, grad)
        x = self.enter(x, positions, fold(key, 0), cache)
        for i, block in enumerate(self.h):
            past_of_block = past[i] if past else None
            x = cache.keep(f"h.{i}", through(block, x, past_of_block, fold(key, i + 1), grad, mask, **shared))
        x = self.leave(x, fold(key, len(self.h) + 1), cache)
        return x, cache

    def backward(self, dout: Array, cache: Cache) -> tuple[Array, Gradients]:
        """dout (B,T,C) -> dx (B,T,C), and the gradients of what the blocks share, each the sum over all blocks"""
        cache = self.own(cache)
        sums = {}
        dx = self.leave_backward(dout, cache)
        for i, block in reversed(list(enumerate(self.h))):
            dx, gradients = block.backward(dx, cache.pop(f"h.{i}"))
            for name, gradient in gradients.items():
                sums[name] = sums[name] + gradient if name in sums else gradient
        dx = self.enter_backward(dx, cache)
        return dx, sums

    def enter(self, x: Array, positions: Array, key: Key | None, cache: Cache) -> Array:
        """x (B,T,C), positions (T,) or (B,T) -> x (B,T,C): what stands before the first block"""
        x = x + cache.keep("positions", self.positions_embed.forward(positions))
        if self.ln_embed is not None:
            x = cache.keep("ln_embed", self.ln_embed.forward(x))
        return cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=key))

    def enter_backward(self, dx: Array, cache: Cache) -> Array:
        """dx (B,T,C) -> dx (B,T,C), the gradient of the rows of the tokens"""
        dx = ops.dropout_backward(dx, cache.pop("dropout"))
        if self.ln_embed is not None:
            dx = self.ln_embed.backward(dx, cache.pop("ln_embed"))
        self.positions_embed.backward(dx, cache.pop("positions"))
        return dx

    def leave(self, x: Array, key: Key | None, cache: Cache) -> Array:
        """x (B,T,C) -> out (B,T,C): what stands behind the last block, here nothing, for its LayerNorm is the end"""
        return x

    def leave_backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        return dout
