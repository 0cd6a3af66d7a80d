"""GPT-2 (Radford, Wu, Child, Luan, Amodei and Sutskever 2019): a decoder whose blocks normalise before they compute.

Parameter names and shapes are those of the published checkpoint in its Hugging Face form.
"""

import math
from dataclasses import dataclass

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.files import nanogpt
from minigpt.models.card import Card
from minigpt.models.gpt_config import GPT2Variants
from minigpt.models.gpt_model import GPTModel
from minigpt.nn import MLP, Attention, Cache, Embedding, LayerNorm, Module, Past, PositionEmbedding
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT2Tokenizer


@dataclass(frozen=True, kw_only=True)
class GPT2Config(GPT2Variants):
    """Sizes and rates, with the keys of a Hugging Face config.json; the defaults are those of the smallest release."""

    model_type: str = "gpt2"
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    activation_function: str = "gelu_new"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02


class Block(Module):
    """x = x + Attn(LN1(x)),   x = x + MLP(LN2(x)): the residual stream x is only ever added to (section 2.3)."""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        eps = config.layer_norm_epsilon
        std = config.initializer_range / math.sqrt(2 * config.n_layer)
        self.ln_1 = LayerNorm(c, eps, dtype)
        self.attn = Attention(config, rng, std, dtype)
        self.ln_2 = LayerNorm(c, eps, dtype)
        self.mlp = MLP(config, rng, std, dtype)

    def forward(
        self,
        x: Array,
        past: Past | None = None,
        key: Key | None = None,
        grad: bool = True,
        mask: Array | None = None,
    ) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C). past, mask: see `Attention`. key: switches dropout on."""
        cache = Cache(self, grad)
        a = cache.keep("ln_1", self.ln_1.forward(x))
        a = cache.keep("attn", self.attn.forward(a, past, key, grad, mask))
        x = ops.add(x, a)
        m = cache.keep("ln_2", self.ln_2.forward(x))
        m = cache.keep("mlp", self.mlp.forward(m, key, grad))
        x = ops.add(x, m)
        return x, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dm = self.mlp.backward(dout, cache.pop("mlp"))
        dm = self.ln_2.backward(dm, cache.pop("ln_2"))
        dx = ops.add(dout, dm)
        da = self.attn.backward(dx, cache.pop("attn"))
        da = self.ln_1.backward(da, cache.pop("ln_1"))
        return ops.add(dx, da)


class GPT2(GPTModel):
    """The Transformer decoder of GPT-2: token and position embeddings, n_layer blocks, a norm, the embedding as head.

    seed: of the initial weights, N(0, 0.02), of which the projections that end on the residual stream are scaled by
    1/sqrt(2 n_layer) (section 2.3); None leaves them zero, to be filled from a file.
    """

    Config = GPT2Config
    release = nanogpt

    def __init__(self, config, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        c = config.n_embd
        std = config.initializer_range
        self.wte = Embedding(config.vocab_size, c, rng, std, dtype)
        self.wpe = PositionEmbedding(config.n_positions, c, rng, std, dtype)
        self.h = [Block(config, rng, dtype) for _ in range(config.n_layer)]
        self.ln_f = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.build_heads(rng, dtype)
        config.scale_scores(self.h)

    @property
    def embeddings(self) -> tuple[Embedding, PositionEmbedding]:
        """Of tokens, and of positions."""
        return self.wte, self.wpe

    def hidden(
        self,
        ids: Array,
        past: list[Past] | None = None,
        key: Key | None = None,
        grad: bool = True,
        *,
        mask: Array | None = None,
        positions: Array | None = None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C), the normalised output of the last block"""
        cache = Cache(self, grad)
        ids, positions = self.place(ids, past, positions)
        of_tokens, of_positions = self.embeddings
        x = cache.keep("tokens", of_tokens.forward(ids))
        p = cache.keep("positions", of_positions.forward(positions))
        dropout = ops.dropout_forward(x + p, rate=self.config.embd_pdrop, key=fold(key, 0))
        x = cache.keep("dropout", dropout)
        for i, block in enumerate(self.h):
            past_of_block = past[i] if past else None
            through = self.through(block, x, past_of_block, fold(key, i + 1), grad, mask)
            x = cache.keep(f"h.{i}", through)
        x = cache.keep("ln_f", self.ln_f.forward(x))
        return x, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh = self.ln_f.backward(dh, cache.pop("ln_f"))
        for i in reversed(range(len(self.h))):
            dh = self.h[i].backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        of_tokens, of_positions = self.embeddings
        of_positions.backward(dh, cache.pop("positions"))
        of_tokens.backward(dh, cache.pop("tokens"))


SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "small": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024},
    "medium": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "n_positions": 1024},
    "large": {"n_layer": 36, "n_head": 20, "n_embd": 1280, "n_positions": 1024},
    "xl": {"n_layer": 48, "n_head": 25, "n_embd": 1600, "n_positions": 1024},
}

# The paper names no optimiser: AdamW is today's usual one.
CARD = Card("gpt2", GPT2, SIZES, usual_size="small", tokenizer=GPT2Tokenizer, optimizer=AdamW)
