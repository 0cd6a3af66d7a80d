"""DeBERTa (He, Liu, Gao and Chen 2021): where a word stands is no part of its vector; distances are compared apart.

A score is the sum of three products: content with content, content with distance, and distance with content (equation
4). Absolute positions enter only at the end, where covered words are told: the last block runs twice, its queries start
from the positions, and its keys and values are the states before it (section 3.2, the enhanced mask decoder).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import check_whole
from minigpt.models.card import Card, as_wide_as_the_paper
from minigpt.models.config_file import ONLY
from minigpt.models.family import published
from minigpt.models.family.bert import BERTConfig
from minigpt.models.family.encoder import MASK, MASK_RATE, Encoder, covered_words
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.relative_attention import (
    distances_between,
    put_distances,
    table_columns,
    table_heads,
    take_distances,
)
from minigpt.nn import MLP, Cache, Embedding, LayerNorm, Linear, Module, PositionEmbedding, accumulate
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer


@dataclass(frozen=True, kw_only=True)
class DeBERTaConfig(PublishedConfig):
    """Sizes and rates; the defaults are those of DeBERTa-base, in the layout of Hugging Face's DeBERTa-v2.

    n_distances: k, so that distances from -k to k - 1 are told apart, and farther ones are taken for these.
    decoder_passes: how often the last block runs where words are told; 0, as in transformers: there is no such decoder.
    """

    keys: ClassVar[dict[str, str]] = {key: name for key, name in BERTConfig.keys.items() if key != "n_segments"}
    architecture: ClassVar[str] = "DebertaV2ForMaskedLM"
    own: ClassVar[dict[str, Any]] = {
        "relative_attention": True, "position_biased_input": False, "share_att_key": False, "position_buckets": -1,
        "norm_rel_ebd": "none", "type_vocab_size": 0, "legacy": True,
    }  # fmt: skip
    only: ClassVar[dict[str, Any]] = ONLY | own

    model_type: str = "deberta-v2"
    vocab_size: int = 50265
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_distances: int = 512
    decoder_passes: int = 0
    layer_norm_epsilon: float = 1e-7

    def __post_init__(self):
        super().__post_init__()
        self._check_size("n_distances")
        what = "0 for no decoder, or how often the last block runs"
        check_whole("decoder_passes", self.decoder_passes, what, least=0)

    @classmethod
    def from_dict(cls, values: dict) -> "DeBERTaConfig":
        """From a config.json. Raises InputError as BERT's does."""
        distances = values.get("max_relative_positions", -1)
        if isinstance(distances, int) and distances < 1:
            distances = values.get(cls.keys["n_positions"])
        return super().from_dict({"n_distances": distances} | values)

    def to_dict(self) -> dict:
        """For a config.json."""
        distances = {"max_relative_positions": self.n_distances, "pos_att_type": ["c2p", "p2c"]}
        return super().to_dict() | self.own | distances


class DistanceCache(NamedTuple):
    q: Array
    k: Array
    k_far: Array
    q_far: Array
    where: Array
    scale: float


class DisentangledAttention(Module):
    """Self-attention whose scores compare contents and distances apart (equation 4).

    Of heads of size D: score[i, j] = (q_i k_j + q_i K_d + k_j Q_d) / sqrt(3 D), where d is the distance i - j, and K
    and Q are projections of one table of distances, which all blocks share.
    """

    def __init__(self, config: DeBERTaConfig, distances: Embedding, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        std = config.initializer_range
        self.c_attn = Linear(c, 3 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, std, dtype)
        self.key_of_distance = Linear(c, c, rng, std, dtype)
        self.query_of_distance = Linear(c, c, rng, std, dtype)
        self.distances = distances
        self.config = config

    def forward(
        self, x: Array, query: Array | None = None, key: Key | None = None, grad: bool = True, mask=None
    ) -> tuple[Array, Cache]:
        """x (B,T,C), [query (B,T,C)] -> out (B,T,C). query: from which queries are made, where it is not x."""
        xp = array_module(x)
        config = self.config
        n_head = config.n_head
        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        q, k, v = xp.split(qkv, 3, axis=-1)
        if query is not None:
            q = cache.keep("query", self.c_attn.forward(query))
            q = q[..., : config.n_embd]
        q, k, v = (ops.split_heads(part, n_head) for part in (q, k, v))
        scale = 1 / math.sqrt(3 * q.shape[-1])
        bias = cache.keep("bias", self._bias(q, k, scale, cache))
        heads = cache.keep("attention", ops.attention_forward(
            q, k, v, bias, mask=mask, scale=scale, rate=config.attn_pdrop, key=fold(key, 0),
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
        dq_far, dk_far = self._bias_backward(dbias, cache.pop("bias"), cache)
        dq, dk, dv = (ops.merge_heads(part) for part in (dq + dq_far, dk + dk_far, dv))
        if "query" not in cache:
            dqkv = xp.concatenate([dq, dk, dv], axis=-1)
            return self.c_attn.backward(dqkv, cache.pop("qkv")), None
        nothing = xp.zeros_like(dq)
        dquery = self.c_attn.backward(xp.concatenate([dq, nothing, nothing], axis=-1), cache.pop("query"))
        dx = self.c_attn.backward(xp.concatenate([nothing, dk, dv], axis=-1), cache.pop("qkv"))
        return dx, dquery

    def _bias(self, q: Array, k: Array, scale: float, cache: Cache) -> tuple[Array, DistanceCache]:
        """q, k (B,NH,T,D) -> bias (B,NH,T,T): what the distances add to the scores"""
        xp = array_module(q)
        table = self.distances.weight.value
        k_far = table_heads(cache.keep("keys", self.key_of_distance.forward(table)), self.config.n_head)
        q_far = table_heads(cache.keep("queries", self.query_of_distance.forward(table)), self.config.n_head)
        where = distances_between(q.shape[2], self.config.n_distances, xp)
        content_to_distance = q @ k_far.swapaxes(-1, -2)
        distance_to_content = k @ q_far.swapaxes(-1, -2)
        bias = take_distances(content_to_distance, where)
        of_keys = take_distances(distance_to_content, where.T)
        bias = (bias + of_keys.swapaxes(-1, -2)) * scale
        return bias, DistanceCache(q, k, k_far, q_far, where, scale)

    def _bias_backward(self, dbias: Array, saved: DistanceCache, cache: Cache) -> tuple[Array, Array]:
        """dbias (B,NH,T,T) -> dq, dk (B,NH,T,D), and the gradients of the table and its projections arrive there"""
        q, k, k_far, q_far, where, scale = saved
        dbias = dbias * scale
        # of_keys = take_distances(distance_to_content, where.T), transposed
        d_of_keys = put_distances(dbias.swapaxes(-1, -2), where.T, 2 * self.config.n_distances)
        # bias = take_distances(content_to_distance, where)
        d_of_queries = put_distances(dbias, where, 2 * self.config.n_distances)
        # content_to_distance = q k_far^T, distance_to_content = k q_far^T; all texts share the table
        dq = d_of_queries @ k_far
        dk = d_of_keys @ q_far
        dk_far = (d_of_queries.swapaxes(-1, -2) @ q).sum(axis=0)
        dq_far = (d_of_keys.swapaxes(-1, -2) @ k).sum(axis=0)
        dtable = self.key_of_distance.backward(table_columns(dk_far), cache.pop("keys"))
        dtable = dtable + self.query_of_distance.backward(table_columns(dq_far), cache.pop("queries"))
        accumulate(self.distances.weight, dtable)
        return dq, dk


class Block(Module):
    """GPT-1's block with this attention. In the decoder its queries and the residual stream are apart from its keys."""

    def __init__(self, config: DeBERTaConfig, distances: Embedding, rng: np.random.Generator | None, dtype):
        c = config.n_embd
        self.attn = DisentangledAttention(config, distances, rng, dtype)
        self.ln_1 = LayerNorm(c, config.layer_norm_epsilon, dtype)
        self.mlp = MLP(config, rng, config.initializer_range, dtype)
        self.ln_2 = LayerNorm(c, config.layer_norm_epsilon, dtype)

    def forward(self, x: Array, past=None, key: Key | None = None, grad: bool = True, mask=None) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        return self._forward(x, None, key, grad, mask)

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dstream, dx, _ = self._backward(dout, cache)
        return ops.add(dstream, dx)

    def decode(self, x: Array, query: Array, key: Key | None, grad: bool, mask) -> tuple[Array, Cache]:
        """x (B,T,C), from which keys and values are made, and query (B,T,C), the residual stream -> out (B,T,C)"""
        return self._forward(x, query, key, grad, mask)

    def decode_backward(self, dout: Array, cache: Cache) -> tuple[Array, Array]:
        """dout (B,T,C) -> dx, dquery (B,T,C)"""
        dstream, dx, dquery = self._backward(dout, cache)
        return dx, ops.add(dstream, dquery)

    def _forward(self, x: Array, query: Array | None, key: Key | None, grad: bool, mask) -> tuple[Array, Cache]:
        cache = Cache(self, grad)
        stream = x if query is None else query
        a = cache.keep("attn", self.attn.forward(x, query, key, grad, mask))
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


class DeBERTa(Encoder):
    """The encoder of DeBERTa with the head of its pre-training. seed: as for GPT1."""

    Config = DeBERTaConfig

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """Tables of tokens and of distances; one of positions only for the decoder."""
        config = self.config
        c = config.n_embd
        std = config.initializer_range
        self.tokens_embed = Embedding(config.vocab_size, c, rng, std, dtype)
        self.distances_embed = Embedding(2 * config.n_distances, c, rng, std, dtype)
        self.positions_embed = None
        if config.decoder_passes:
            self.positions_embed = PositionEmbedding(config.n_positions, c, rng, std, dtype)
        self.segments_embed = None
        self.ln_embed = LayerNorm(c, config.layer_norm_epsilon, dtype)

    def build_blocks(self, rng: np.random.Generator | None, dtype) -> list[Module]:
        """Blocks that share the table of distances."""
        return [Block(self.config, self.distances_embed, rng, dtype) for _ in range(self.config.n_layer)]

    def embed(self, ids: Array, positions: Array, segments: Array | None, key: Key | None, cache: Cache) -> Array:
        """ids (B,T) -> x (B,T,C): what the tokens are, and not where they stand"""
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        x = cache.keep("ln_embed", self.ln_embed.forward(x))
        return cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0)))

    def embed_backward(self, dx: Array, cache: Cache) -> None:
        """dx (B,T,C) -> nothing: the gradients arrive in the table"""
        dx = ops.dropout_backward(dx, cache.pop("dropout"))
        dx = self.ln_embed.backward(dx, cache.pop("ln_embed"))
        self.tokens_embed.backward(dx, cache.pop("tokens"))

    def states_for_words(
        self, ids: Array, key: Key | None = None, grad: bool = True, *, mask=None, positions=None, segments=None
    ) -> tuple[Array, Cache]:
        """ids (B,T) -> h (B,T,C): the states of the decoder, if there is one"""
        passes = self.config.decoder_passes
        if not passes:
            return self.hidden(ids, None, key, grad, mask=mask, positions=positions, segments=segments)
        cache = Cache(self, grad)
        ids, positions = self.place(ids, None, positions)
        self.place_segments(segments, ids)
        mask = self.place_mask(mask, ids)
        x = self.embed(ids, positions, None, key, cache)
        *below, last = self.h
        for i, block in enumerate(below):
            x = cache.keep(f"h.{i}", self.through(block, x, None, fold(key, i + 1), grad, mask))
        query = x + cache.keep("positions", self.positions_embed.forward(positions))
        for i in range(passes):
            of_pass = fold(key, len(self.h) + i)
            query = cache.keep(f"decoder.{i}", last.decode(x, query, of_pass, grad, mask))
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
            dkeys, dquery = last.decode_backward(dquery, cache.pop(f"decoder.{i}"))
            dx = dx + dkeys
        # query = x + positions
        self.positions_embed.backward(dquery, cache.pop("positions"))
        dx = dx + dquery
        for i, block in reversed(list(enumerate(below))):
            dx = block.backward(dx, cache.pop(f"h.{i}"))
        self.embed_backward(dx, cache)

    def published_names(self) -> published.Names:
        """Those of DebertaV2ForMaskedLM, and for the decoder's positions the authors' own."""
        pairs = [("tokens_embed", ["deberta.embeddings.word_embeddings"]),
                 ("distances_embed", ["deberta.encoder.rel_embeddings"])]  # fmt: skip
        if self.positions_embed is not None:
            pairs.append(("positions_embed", ["deberta.embeddings.position_embeddings"]))
        pairs.append(("ln_embed", ["deberta.embeddings.LayerNorm"]))
        for i in range(self.config.n_layer):
            pairs += published.of_block(f"h.{i}", f"deberta.encoder.layer.{i}", BLOCK)
        pairs += [
            ("words.dense", ["cls.predictions.transform.dense"]),
            ("words.ln", ["cls.predictions.transform.LayerNorm"]),
        ]
        return published.of_modules(pairs) | {"words.bias": ["cls.predictions.bias"]}


BLOCK = {  # modules of a block here -> in a layer of Hugging Face's DeBERTa
    "attn.c_attn": ["attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"],
    "attn.c_proj": "attention.output.dense",
    "attn.key_of_distance": "attention.self.pos_key_proj",
    "attn.query_of_distance": "attention.self.pos_query_proj",
    "ln_1": "attention.output.LayerNorm",
    "mlp.c_fc": "intermediate.dense",
    "mlp.c_proj": "output.dense",
    "ln_2": "output.LayerNorm",
}

SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64, "n_distances": 64, "decoder_passes": 2},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256, "n_distances": 256, "decoder_passes": 2},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "decoder_passes": 2},
}

CARD = Card(
    "deberta",
    DeBERTa,
    SIZES,
    usual_size="base",
    tokenizer=GPT1Tokenizer,
    optimizer=AdamW,
    objective=covered_words,
    special_tokens=(MASK,),
    init_std=as_wide_as_the_paper,
    mask_rate=MASK_RATE,
    differs="this is the layout of DeBERTa-v2; the released DeBERTa-base, version 1, has 139,244,121 parameters: no "
    "table of 512 positions, and 1,536 biases fewer in each block",
)
