"""BERT (Devlin, Chang, Lee and Toutanova 2019): GPT-1's blocks, and every position sees both sides.

What differs from GPT-1: the mask, a table of segments and a LayerNorm on the embeddings, a transform and a bias before
the tied head, and a second head that tells whether two sentences belong together (section 3.1).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.objectives import Objective, masked
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.card import Card, as_wide_as_the_paper
from minigpt.models.config import Config
from minigpt.models.config_file import ONLY, TANH_FORMS
from minigpt.models.gpt1 import Block
from minigpt.models.language_model import LanguageModel
from minigpt.models.token_ids import as_array, check_range
from minigpt.nn import Cache, Embedding, LayerNorm, Linear, Module, Parameter, PositionEmbedding, accumulate
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer, Tokenizer

KEYS = {  # key here -> that of a Hugging Face config.json of BERT
    "n_positions": "max_position_embeddings",
    "n_segments": "type_vocab_size",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}


@dataclass(frozen=True, kw_only=True)
class BERTConfig(Config):
    """Sizes and rates; the defaults are those of BERT-base. In a config.json they have Hugging Face's keys for BERT."""

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {key: (name,) for key, name in KEYS.items()}
    only: ClassVar[dict[str, Any]] = ONLY | {"is_decoder": False, "position_embedding_type": "absolute"}

    model_type: str = "bert"
    vocab_size: int = 30522
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_segments: int = 2
    hidden_act: str = "gelu_new"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02

    def __post_init__(self):
        super().__post_init__()
        self._check_size("n_segments")
        if self.hidden_act not in TANH_FORMS:
            forms = " or ".join(map(repr, TANH_FORMS))
            raise InputError(f"hidden_act is {self.hidden_act!r}: only GELU in its tanh form is built here, {forms}")

    @classmethod
    def from_dict(cls, values: dict) -> "BERTConfig":
        """From a config.json. Raises InputError as every model's does, and for an inner width that is not 4 times C."""
        if "hidden_dropout_prob" in values:
            values = {"embd_pdrop": values["hidden_dropout_prob"]} | values
        config = super().from_dict(values)
        inner = values.get("intermediate_size", 4 * config.n_embd)
        if inner != 4 * config.n_embd:
            wanted = 4 * config.n_embd
            raise InputError(f"intermediate_size is {inner}: only 4 times hidden_size, {wanted}, is built here")
        return config

    def to_dict(self) -> dict:
        """For a config.json, under Hugging Face's keys."""
        values = super().to_dict()
        values |= {name: values.pop(key) for key, name in KEYS.items()}
        values["intermediate_size"] = 4 * self.n_embd
        values["architectures"] = ["BertForPreTraining"]
        return values


class PredictionHead(Module):
    """What stands before the tied head: LN(gelu(h W + b)), and a bias for each word behind it (section 3.1)."""

    def __init__(self, config: BERTConfig, rng: np.random.Generator | None, dtype):
        self.dense = Linear(config.n_embd, config.n_embd, rng, config.initializer_range, dtype)
        self.ln = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype)
        self.bias = Parameter(np.zeros(config.vocab_size, dtype))

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> out (B,T,C)"""
        cache = Cache(self)
        x = cache.keep("dense", self.dense.forward(h))
        x = cache.keep("gelu", ops.gelu_forward(x))
        out = cache.keep("ln", self.ln.forward(x))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dh (B,T,C)"""
        cache = self.own(cache)
        dx = self.ln.backward(dout, cache.pop("ln"))
        dx = ops.gelu_backward(dx, cache.pop("gelu"))
        return self.dense.backward(dx, cache.pop("dense"))


class PoolCache(NamedTuple):
    shape: tuple[int, ...]
    pooled: Array


class SentenceHead(Module):
    """Do two sentences belong together? tanh(h[:, 0] W + b), and two scores (section 3.1, next sentence prediction)."""

    def __init__(self, config: BERTConfig, rng: np.random.Generator | None, dtype):
        self.pooler = Linear(config.n_embd, config.n_embd, rng, config.initializer_range, dtype)
        self.scores = Linear(config.n_embd, 2, rng, config.initializer_range, dtype)

    def forward(self, h: Array) -> tuple[Array, Cache]:
        """h (B,T,C) -> scores (B,2)"""
        cache = Cache(self)
        x = cache.keep("pooler", self.pooler.forward(h[:, 0]))
        pooled = array_module(x).tanh(x)
        cache["tanh"] = PoolCache(h.shape, pooled)
        out = cache.keep("scores", self.scores.forward(pooled))
        return out, cache

    def backward(self, dscores: Array, cache: Cache) -> Array:
        """dscores (B,2) -> dh (B,T,C), which is 0 but for the first position"""
        cache = self.own(cache)
        dpooled = self.scores.backward(dscores, cache.pop("scores"))
        # pooled = tanh(x), whose slope is 1 - pooled^2
        shape, pooled = cache.pop("tanh")
        dx = dpooled * (1 - pooled * pooled)
        # x = pooler(h[:, 0])
        dh = array_module(dx).zeros(shape, dx.dtype)
        dh[:, 0] = self.pooler.backward(dx, cache.pop("pooler"))
        return dh


class BERT(LanguageModel):
    """The encoder of BERT with both heads of its pre-training. seed: as for GPT1.

    It fills in words that are covered, and cannot go on from a text.
    """

    Config = BERTConfig
    can_generate = False

    def __init__(self, config: BERTConfig, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        std = config.initializer_range
        self.tokens_embed = Embedding(config.vocab_size, config.n_embd, rng, std, dtype)
        self.positions_embed = PositionEmbedding(config.n_positions, config.n_embd, rng, std, dtype)
        self.segments_embed = Embedding(config.n_segments, config.n_embd, rng, std, dtype)
        self.ln_embed = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype)
        self.h = [Block(config, rng, dtype) for _ in range(config.n_layer)]
        self.predictions = PredictionHead(config, rng, dtype)
        self.sentences = SentenceHead(config, rng, dtype)

    @property
    def embeddings(self) -> tuple[Embedding, ...]:
        """Of tokens, of positions, and of segments."""
        return self.tokens_embed, self.positions_embed, self.segments_embed

    def hidden(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, *, mask=None, positions=None,
        segments=None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C)

        mask: (B,T) boolean, False where a row is padding, or any mask of `LanguageModel.hidden`; None: every position
        sees every other. segments: (B,T) int, 0 for the first sentence and 1 for the second; None: 0 everywhere.
        Raises InputError for a past, and for segments of another shape or out of range.
        """
        if past is not None:
            raise InputError("BERT sees both sides of a word, so it cannot go on from a past: use gpt1 or gpt2")
        cache = Cache(self, grad)
        ids, positions = self.place(ids, None, positions)
        segments = self._placed_segments(segments, ids)
        mask = self._placed_mask(mask, ids)
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        x = x + cache.keep("positions", self.positions_embed.forward(positions))
        x = x + cache.keep("segments", self.segments_embed.forward(segments))
        x = cache.keep("ln_embed", self.ln_embed.forward(x))
        x = cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0)))
        for i, block in enumerate(self.h):
            x = cache.keep(f"h.{i}", self.through(block, x, None, fold(key, i + 1), grad, mask))
        return x, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        dh = self.ln_embed.backward(dh, cache.pop("ln_embed"))
        self.segments_embed.backward(dh, cache.pop("segments"))
        self.positions_embed.backward(dh, cache.pop("positions"))
        self.tokens_embed.backward(dh, cache.pop("tokens"))

    # ----------------------------------------------------------------------------------------------- logits and loss

    def forward(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, **inputs
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): the scores of the word at each position itself"""
        h, cache = self.hidden(ids, past, key, grad, **inputs)
        x = cache.keep("predictions", self.predictions.forward(h))
        logits = cache.keep("head", ops.linear_forward(x, self.head.value.T, self.predictions.bias.value))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dx, dw_t, dbias = ops.linear_backward(dlogits, cache.pop("head"))
        accumulate(self.head, dw_t.T)
        accumulate(self.predictions.bias, dbias)
        dh = self.predictions.backward(dx, cache.pop("predictions"))
        self.hidden_backward(dh, cache)

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *, sentence_labels: Array | None = None, share: float = 1.0, **inputs
    ) -> tuple[Array, Cache]:
        """ids (B,T) int with covered words, targets (B,T) int with the words that were covered, else -100 -> loss ()

        The mean cross-entropy of the covered words, in nats; with sentence_labels (B,) int, 0 where the second sentence
        follows the first and 1 where it does not, plus the mean cross-entropy of these (section 3.1), times share:
        the part of a whole batch that these rows are. normalizer, weights, key, grad: as in `LanguageModel.loss`.
        inputs: mask, positions, segments, see `hidden`.
        """
        h, cache = self.hidden(ids, None, key, grad, **inputs)
        targets, weights = self.place_targets(targets, weights, h.shape[:2])
        x = cache.keep("predictions", self.predictions.forward(h))
        loss = cache.keep("head", ops.linear_cross_entropy_forward(
            x, self.head.value, targets, self.predictions.bias.value, weights=weights, normalizer=normalizer, grad=grad,
        ))  # fmt: skip
        if sentence_labels is not None:
            labels = to_device(as_array(sentence_labels, "sentence_labels are"), self.device)
            scores = cache.keep("sentences", self.sentences.forward(h))
            loss = loss + cache.keep("sentence_loss", ops.cross_entropy_forward(
                scores, labels, normalizer=len(labels) / share,
            ))  # fmt: skip
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        dx, dw, dbias = ops.linear_cross_entropy_backward(dloss, cache.pop("head"))
        accumulate(self.head, dw)
        accumulate(self.predictions.bias, dbias)
        dh = self.predictions.backward(dx, cache.pop("predictions"))
        if "sentences" in cache:
            dscores = ops.cross_entropy_backward(dloss, cache.pop("sentence_loss"))
            dh = dh + self.sentences.backward(dscores, cache.pop("sentences"))
        self.hidden_backward(dh, cache)

    def sentence_scores(self, ids: Array, **inputs) -> Array:
        """ids (B,T) int -> scores (B,2): the second sentence follows the first, or it does not"""
        h, _ = self.hidden(ids, grad=False, **inputs)
        return self.sentences.forward(h)[0]

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None):
        """Raises InputError: text cannot be generated from left to right by a model that sees both sides."""
        raise InputError("BERT fills in covered words and cannot continue a text: use gpt1, gpt2 or lstm")

    def _placed_segments(self, segments: Array | None, ids: Array) -> Array:
        if segments is None:
            return array_module(ids).zeros_like(ids)
        segments = as_array(segments, "segments are")
        if segments.shape != ids.shape:
            raise InputError(f"segments have shape {segments.shape}, and the ids {ids.shape}: give one for each id")
        n = self.config.n_segments
        check_range(segments, n, f"segment {{}} is out of range: this model has {n}")
        return to_device(segments, self.device)

    def _placed_mask(self, mask: Array | None, ids: Array) -> Array:
        if mask is None:
            return array_module(ids).ones((1, ids.shape[1]), bool)
        mask = to_device(as_array(mask, "mask is"), self.device)
        if mask.shape == ids.shape:
            return mask[:, None, None, :]
        return mask

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def least_size(cls, config: BERTConfig) -> int:
        """The numbers in its matrices: as for GPT, and the table of segments and the two heads."""
        c = config.n_embd
        return super().least_size(config) + config.n_segments * c + 2 * c * c

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Hugging Face's names for BertForPreTraining, whose matrices are (out,in), and q, k and v apart."""
        published = {}
        for name, names in published_names(self.config.n_layer).items():
            tensor = tensors[name]
            parts = np.split(tensor, len(names), axis=-1) if len(names) > 1 else [tensor]
            for published_name, part in zip(names, parts, strict=True):
                published[published_name] = part.T.copy() if _is_turned(published_name) else part.copy()
        return published

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round. The head that is stored once more, and the numbers of positions, are left out.

        Raises InputError for a tensor that is missing.
        """
        plain = {}
        for name, names in published_names(self.config.n_layer).items():
            parts = []
            for published_name in names:
                if published_name not in tensors:
                    raise InputError(f"{folder}: tensor {published_name} is missing")
                part = tensors[published_name]
                parts.append(part.T if _is_turned(published_name) else part)
            plain[name] = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
        return plain


def _is_turned(name: str) -> bool:
    """Is this one of the matrices that Hugging Face's BERT stores as (out,in)?"""
    return name.endswith(".weight") and "LayerNorm" not in name and "_embeddings" not in name


def published_names(n_layer: int) -> dict[str, list[str]]:
    """{name here: Hugging Face's names, three of them for a packed projection}, for BertForPreTraining."""
    pairs = [
        ("tokens_embed", ["bert.embeddings.word_embeddings"]),
        ("positions_embed", ["bert.embeddings.position_embeddings"]),
        ("segments_embed", ["bert.embeddings.token_type_embeddings"]),
        ("ln_embed", ["bert.embeddings.LayerNorm"]),
        ("predictions.dense", ["cls.predictions.transform.dense"]),
        ("predictions.ln", ["cls.predictions.transform.LayerNorm"]),
        ("sentences.pooler", ["bert.pooler.dense"]),
        ("sentences.scores", ["cls.seq_relationship"]),
    ]
    for i in range(n_layer):
        layer = f"bert.encoder.layer.{i}"
        attention = f"{layer}.attention"
        pairs += [
            (f"h.{i}.attn.c_attn", [f"{attention}.self.{part}" for part in ("query", "key", "value")]),
            (f"h.{i}.attn.c_proj", [f"{attention}.output.dense"]),
            (f"h.{i}.ln_1", [f"{attention}.output.LayerNorm"]),
            (f"h.{i}.mlp.c_fc", [f"{layer}.intermediate.dense"]),
            (f"h.{i}.mlp.c_proj", [f"{layer}.output.dense"]),
            (f"h.{i}.ln_2", [f"{layer}.output.LayerNorm"]),
        ]
    names = {"predictions.bias": ["cls.predictions.bias"]}
    for module, published in pairs:
        names[f"{module}.weight"] = [f"{name}.weight" for name in published]
        if not module.endswith("s_embed"):
            names[f"{module}.bias"] = [f"{name}.bias" for name in published]
    return names


SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 512},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "n_positions": 512},
}

MASK = "_mask_"  # the token that covers a word


def covered_words(text: Tokenizer) -> Objective:
    """BERT's objective for this vocabulary: fill in the 15 % of the tokens that are covered (section 3.1)."""
    return masked(text.ids[MASK], text.vocab_size)


CARD = Card(
    "bert",
    BERT,
    SIZES,
    usual_size="base",
    tokenizer=GPT1Tokenizer,
    optimizer=AdamW,
    objective=covered_words,
    special_tokens=(MASK,),
    init_std=as_wide_as_the_paper,
)
