"""GPT-1 (Radford, Narasimhan, Salimans and Sutskever 2018): a decoder whose blocks normalise after each addition.

Parameter names and shapes are those of the published checkpoint in its Hugging Face form.
"""

from dataclasses import dataclass

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.files import openai_release
from minigpt.models.card import Card, as_wide_as_the_paper
from minigpt.models.gpt_config import GPT1Variants
from minigpt.models.gpt_model import GPTModel
from minigpt.nn import MLP, Attention, Cache, Embedding, LayerNorm, Module, Past, PositionEmbedding
from minigpt.nn.optim import GPT1Adam
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer


@dataclass(frozen=True, kw_only=True)
class GPT1Config(GPT1Variants):
    """Sizes and rates, with the keys of a Hugging Face config.json; the defaults are the paper's (section 4.1)."""

    model_type: str = "openai-gpt"
    vocab_size: int = 40478
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    afn: str = "gelu"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02


class Block(Module):
    """x = LN1(x + Attn(x)),   x = LN2(x + MLP(x)): the residual stream x is normalised after each addition."""

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        eps = config.layer_norm_epsilon
        std = config.initializer_range
        self.attn = Attention(config, rng, std, dtype)
        self.ln_1 = LayerNorm(c, eps, dtype)
        self.mlp = MLP(config, rng, std, dtype)
        self.ln_2 = LayerNorm(c, eps, dtype)

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
        a = cache.keep("attn", self.attn.forward(x, past, key, grad, mask))
        x = ops.add(x, a)
        x = cache.keep("ln_1", self.ln_1.forward(x))
        m = cache.keep("mlp", self.mlp.forward(x, key, grad))
        x = ops.add(x, m)
        x = cache.keep("ln_2", self.ln_2.forward(x))
        return x, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dx = self.ln_2.backward(dout, cache.pop("ln_2"))
        dm = self.mlp.backward(dx, cache.pop("mlp"))
        dx = ops.add(dx, dm)
        dx = self.ln_1.backward(dx, cache.pop("ln_1"))
        da = self.attn.backward(dx, cache.pop("attn"))
        return ops.add(dx, da)


class GPT1(GPTModel):
    """The Transformer decoder of GPT-1: token and position embeddings, n_layer blocks, and the embedding as head.

    seed: of the initial weights, N(0, 0.02) as in section 4.1; None leaves them zero, to be filled from a file.
    """

    Config = GPT1Config
    release = openai_release

    def __init__(self, config, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        c = config.n_embd
        std = config.initializer_range
        self.tokens_embed = Embedding(config.vocab_size, c, rng, std, dtype)
        self.positions_embed = PositionEmbedding(config.n_positions, c, rng, std, dtype)
        self.h = [Block(config, rng, dtype) for _ in range(config.n_layer)]
        self.build_heads(rng, dtype)

    @property
    def embeddings(self) -> tuple[Embedding, PositionEmbedding]:
        """Of tokens, and of positions."""
        return self.tokens_embed, self.positions_embed

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
        """ids (B,T) int -> h (B,T,C), the output of the last block"""
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
        return x, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        for i in reversed(range(len(self.h))):
            dh = self.h[i].backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        of_tokens, of_positions = self.embeddings
        of_positions.backward(dh, cache.pop("positions"))
        of_tokens.backward(dh, cache.pop("tokens"))


SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "paper": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 512},
}

CARD = Card("gpt1", GPT1, SIZES, "paper", GPT1Tokenizer, GPT1Adam, init_std=as_wide_as_the_paper)
