"""DeBERTa (He, Liu, Gao and Chen 2021): where a word stands is no part of its vector; distances are compared apart.

A score is the sum of three products: content with content, content with distance, and distance with content (equation
4). Absolute positions enter only at the end, where covered words are told: the last block runs twice, its queries start
from the positions, and its keys and values are the states before it (section 3.2, the enhanced mask decoder).
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.models.family.deberta_blocks import DisentangledAttention, Distances
from minigpt.models.family.deberta_config import DeBERTaConfig
from minigpt.models.family.deberta_files import in_usual_layout, usual_name
from minigpt.models.family.encoder import Encoder, encoder_card
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.two_streams import TwoStreamBlock
from minigpt.nn import Cache, Embedding, LayerNorm, PositionEmbedding
from minigpt.ops.random_keys import Key, fold


class DeBERTa(Encoder):
    """The encoder of DeBERTa with the head of its pre-training. seed: as for GPT1."""

    Config = DeBERTaConfig

    h: list[TwoStreamBlock]

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """Tables of tokens and of distances; one of positions for the decoder, or for the input."""
        config = self.config
        c = config.n_embd
        std = config.initializer_range
        self.tokens_embed = Embedding(config.vocab_size, c, rng, std, dtype)
        self.distances_embed = Distances(config, rng, dtype) if config.relative_attention else None
        self.positions_embed = None
        if config.decoder_passes or config.position_biased_input:
            self.positions_embed = PositionEmbedding(config.n_positions, c, rng, std, dtype)
        self.segments_embed = Embedding(config.n_segments, c, rng, std, dtype) if config.n_segments else None
        self.ln_embed = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.widen = None
        self.adds_positions = config.position_biased_input  # else tokens are what they are, wherever they stand

    def build_blocks(self, rng: np.random.Generator | None, dtype) -> list[TwoStreamBlock]:
        """Blocks that share the table of distances."""
        blocks = []
        for _ in range(self.config.n_layer):
            attn = DisentangledAttention(self.config, self.distances_embed, rng, dtype)
            blocks.append(TwoStreamBlock(attn, self.config, rng, dtype))
        return blocks

    def states_for_words(
        self, ids: Array, key: Key | None = None, grad: bool = True, *, mask=None, positions=None, segments=None
    ) -> tuple[Array, Cache]:
        """ids (B,T) -> h (B,T,C): the states of the decoder, if there is one"""
        passes = self.config.decoder_passes
        if not passes:
            return self.hidden(ids, None, key, grad, mask=mask, positions=positions, segments=segments)
        cache = Cache(self, grad)
        ids, positions = self.place(ids, None, positions)
        segments = self.place_segments(segments, ids)
        mask = self.place_mask(mask, ids)
        x = self.embed(ids, positions, segments, key, cache)
        *below, last = self.h
        for i, block in enumerate(below):
            x = cache.keep(f"h.{i}", self.through(block, x, None, fold(key, i + 1), grad, mask))
        query = x + cache.keep("positions", self.positions_embed.forward(positions))
        for i in range(passes):
            of_pass = fold(key, len(self.h) + i)
            query = cache.keep(f"decoder.{i}", last.forward_apart(x, query, of_pass, grad, mask))
        return query, cache

    def states_for_words_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        passes = self.config.decoder_passes
        if not passes:
            self.hidden_backward(dh, cache)
            return
        cache = self.own(cache)
        *below, last = self.h
        dquery = dh
        dx = array_module(dh).zeros_like(dh)
        for i in reversed(range(passes)):
            dkeys, dquery = last.backward_apart(dquery, cache.pop(f"decoder.{i}"))
            dx = dx + dkeys
        # query = x + positions
        self.positions_embed.backward(dquery, cache.pop("positions"))
        dx = dx + dquery
        for i, block in reversed(list(enumerate(below))):
            dx = block.backward(dx, cache.pop(f"h.{i}"))
        self.embed_backward(dx, cache)

    @classmethod
    def fitted(cls, config: DeBERTaConfig, names: Iterable[str], values: dict) -> PublishedConfig:
        """As of every relative; the head of version 3 has another name."""
        return super().fitted(config, [usual_name(name) for name in names], values)

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """Tensors under the published names of any version -> under the names here.

        Raises InputError for a tensor that is missing.
        """
        usual = in_usual_layout(tensors, self.config, self.positions_embed is not None, folder)
        return super().from_published(usual, folder)


SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64, "n_distances": 64, "decoder_passes": 2},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256, "n_distances": 256, "decoder_passes": 2},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "decoder_passes": 2},
}

CARD = encoder_card(
    "deberta", DeBERTa, SIZES,
    differs="this is the layout of DeBERTa-v2; the released DeBERTa-base, version 1, has 139,244,121 parameters: no "
    "table of 512 positions, and 1,536 biases fewer in each block",
)
