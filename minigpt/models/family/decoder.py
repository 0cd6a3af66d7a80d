"""The decoders after GPT-3: GPT-2's body without a table of positions, whose queries and keys turn with their place.

What LLaMA changed of GPT-2, and Mistral and GPT-NeoX in their own way, stands in their files: a configuration, a block,
and how they stand in files of Hugging Face transformers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError, check_number
from minigpt.models.family import rotary, token_step
from minigpt.models.family.forms import Form
from minigpt.models.family.layers import RMSNorm
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.published_model import PublishedModel
from minigpt.models.family.rotary import Turns
from minigpt.models.family.token_step import TokenStep
from minigpt.models.token_ids import as_array, check_ids, last_state, text_places
from minigpt.nn import Cache, Embedding, Module, Past
from minigpt.ops.random_keys import Key, fold

SHARED_KEYS = {  # key here -> that of a Hugging Face config.json
    "n_positions": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "attn_pdrop": "attention_dropout",
}
FORMS = {  # what stands on a decoder in files: words, nothing, or labels read from the last state
    "ForCausalLM": Form(words={}),
    "ForSequenceClassification": Form(scores="score", bias=False),
    "Model": Form(),
}


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(PublishedConfig):
    """What the configurations of these decoders share.

    n_kv_head: heads of keys and values, each for n_head / n_kv_head heads of queries; None: n_head. head_size: columns
    of a head; None: n_embd / n_head. rope_theta, rope_scaling: see `rotary.frequencies`. rotary_share: which part of a
    head's columns turns. qkv_bias, proj_bias: have the two projections of attention a bias?
    """

    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0
    resid_pdrop: float = 0.0
    hidden_act: str = "silu"
    n_kv_head: int = None  # type: ignore[assignment]  # filled in below
    head_size: int = None  # type: ignore[assignment]
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rotary_share: float = 1.0
    qkv_bias: bool = False
    proj_bias: bool = False
    tie_word_embeddings: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.n_kv_head is None:
            object.__setattr__(self, "n_kv_head", self.n_head)
        if self.head_size is None:
            self._check_division()
            object.__setattr__(self, "head_size", self.n_embd // self.n_head)
        for name in ("n_kv_head", "head_size"):
            self._check_size(name)
        if self.n_head % self.n_kv_head:
            raise InputError(f"n_head {self.n_head} is not a multiple of n_kv_head {self.n_kv_head}: choose a divisor")
        check_number("rope_theta", self.rope_theta, "a number above 0, such as 10000", above=0)
        check_number("rotary_share", self.rotary_share, "a part of a head, above 0 and at most 1", above=0)
        if not 2 <= self.n_turned_columns <= self.head_size:
            given = f"rotary_share is {self.rotary_share}, and a head has {self.head_size} columns"
            raise InputError(f"{given}: columns turn in pairs, so give a share of one pair or more, and of all at most")
        rotary.check_scaling(self.rope_scaling)

    def _check_heads(self) -> None:
        """A head may have a size of its own; without one the heads share the width, see `_check_division`."""

    def _check_division(self) -> None:
        super()._check_heads()

    @property
    def n_turned_columns(self) -> int:
        """How many columns of a head turn: an even number."""
        return 2 * math.ceil(self.rotary_size / 2)

    @property
    def rotary_size(self) -> int:
        """From how many columns the angles are computed."""
        return int(self.head_size * self.rotary_share)

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as every model's does, and as `rotary.scaling_in` does."""
        turns = values.get("rope_parameters") or {}
        if not isinstance(turns, dict):
            raise InputError(f"config.json has rope_parameters {turns!r}: give an object")
        own = {key: value for key, value in values.items() if key != "rope_parameters"}
        for key, name in (("rope_theta", "rope_theta"), ("partial_rotary_factor", "rotary_share")):
            if turns.get(key) is not None:
                own[name] = turns[key]
        own["rope_scaling"] = rotary.scaling_in(values)
        optional = ("n_kv_head", "head_size")
        names = {name for name in optional for name in (name, cls.keys.get(name, name))}
        own = {key: value for key, value in own.items() if value is not None or key not in names}
        return super().from_dict(own)

    def to_dict(self) -> dict:
        """For a config.json, with the angles as transformers 5 and as older programs have them."""
        values = super().to_dict()
        share = values.pop("rotary_share")
        values["rope_parameters"] = {"rope_type": "default", "rope_theta": self.rope_theta, **(self.rope_scaling or {})}
        if share != 1:
            values["rope_parameters"]["partial_rotary_factor"] = share
        return values


class DecoderBlock(Module):
    """x = x + Attn(Norm(x)),   x = x + MLP(Norm(x)): GPT-2's block. norm, mlp: what a model has for them."""

    norm: Callable[..., Any] = RMSNorm
    mlp_of: Callable[..., Module]

    def __init__(self, config: DecoderConfig, rng: np.random.Generator | None, dtype):
        c, eps = config.n_embd, config.layer_norm_epsilon
        std = config.initializer_range / (2 * config.n_layer) ** 0.5
        self.ln_1 = self.norm(c, eps, dtype)
        self.attn = rotary.RotaryAttention(config, rng, std, dtype)
        self.ln_2 = self.norm(c, eps, dtype)
        self.mlp = self.mlp_of(config, rng, std, dtype)

    def forward(
        self, x: Array, past: Past | None = None, key: Key | None = None, grad: bool = True, mask: Array | None = None,
        *, turns: Turns,
    ) -> tuple[Array, Cache]:  # fmt: skip
        """x (B,T,C) -> out (B,T,C). turns: see `rotary.turns_at`."""
        cache = Cache(self, grad)
        a = cache.keep("ln_1", self.ln_1.forward(x))
        a = cache.keep("attn", self.attn.forward(a, past, key, grad, mask, turns=turns))
        x = ops.add(x, a)
        m = cache.keep("ln_2", self.ln_2.forward(x))
        m = cache.keep("mlp", self.mlp.forward(m, key, grad))
        return ops.add(x, m), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dm = self.mlp.backward(dout, cache.pop("mlp"))
        dx = ops.add(dout, self.ln_2.backward(dm, cache.pop("ln_2")))
        da = self.attn.backward(dx, cache.pop("attn"))
        return ops.add(dx, self.ln_1.backward(da, cache.pop("ln_1")))


class Decoder(PublishedModel):
    """Token embeddings, blocks, a norm, and a head, which may be the embedding. seed: as for GPT1.

    A subclass has a `Config`, which is a `DecoderConfig`, and a `block`.
    """

    block: type[DecoderBlock]  # of which `norm` is the class
    tied_heads = ()  # published.check_others looks at a stored copy of the embedding

    def __init__(self, config: DecoderConfig, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        c = config.n_embd
        std = config.initializer_range
        self.tokens_embed = Embedding(config.vocab_size, c, rng, std, dtype)
        self.h = [self.block(config, rng, dtype) for _ in range(config.n_layer)]
        self.ln_f = self.block.norm(c, config.layer_norm_epsilon, dtype)
        self.build_heads(seed, rng, dtype)
        if config.heads.words is not None and not config.tie_word_embeddings:
            self.lm_head = Embedding(config.vocab_size, c, rng, std, dtype)
        self.frequencies = rotary.frequencies(config.rotary_size, config.rope_theta, config.rope_scaling)

    @property
    def embeddings(self) -> tuple[Embedding]:
        """Of tokens: places have no table."""
        return (self.tokens_embed,)

    def hidden(
        self, ids: Array, past: list[Past] | None = None, key: Key | None = None, grad: bool = True, *,
        mask: Array | None = None, positions: Array | None = None,
    ) -> tuple[Array, Cache]:  # fmt: skip
        """ids (B,T) int -> h (B,T,C), the normalised output of the last block"""
        cache = Cache(self, grad)
        ids, positions = self.place(ids, past, positions)
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        turns = rotary.turns_at(positions, self.frequencies, self.ln_f.weight.data.dtype)
        if mask is None:
            mask = self.seen(ids.shape[1], past)
        x = cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0)))
        for i, block in enumerate(self.h):
            past_of_block = past[i] if past else None
            through = self.through(block, x, past_of_block, fold(key, i + 1), grad, mask, turns=turns)
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
        self.tokens_embed.backward(dh, cache.pop("tokens"))

    def seen(self, t: int, past: list[Past] | None) -> Array | None:
        """(*,T,S) boolean, which keys the next T positions see where no mask is given; None: all up to their own."""
        return None

    # ---------------------------------------------------------------------------------------------------------- heads

    def forward(self, ids: Array, past=None, key: Key | None = None, grad: bool = True, **inputs):
        """As `LanguageModel.forward`. Raises InputError for a file without its head too."""
        self.check_words()
        return super().forward(ids, past, key, grad, **inputs)

    def loss(self, ids: Array, targets: Array, *args, **inputs):
        """As `LanguageModel.loss`. Raises InputError for a file without its head too."""
        self.check_words()
        return super().loss(ids, targets, *args, **inputs)

    def next_logits(self, ids: Array, past: Any, **inputs) -> Array:
        """As `LanguageModel.next_logits`. Raises InputError for a file without its head too."""
        self.check_words()
        return super().next_logits(ids, past, **inputs)

    def token_step(self, past: list[Past]) -> TokenStep | str:
        """As `LanguageModel.token_step`."""
        return token_step.problem(self, past) or TokenStep(self, past)

    @property
    def tells_words(self) -> bool:
        """Has its file a head for words, or shares it with the embedding?"""
        return self.config.heads.words is not None or self.config.tie_word_embeddings

    def check_words(self) -> None:
        """Raises InputError for a model whose file has no head for words, nor shares it with the embedding."""
        if not self.tells_words:
            advice = "take its hidden states, or a file with that head"
            raise InputError(f"{self.opened_as}, which predicts no words: {advice}")

    def state_of_text(self, h: Array, ids: Array, mask: Array | None) -> Array:
        """h (B,T,C), ids (B,T) -> (B,C): the state of the last token that is no padding

        mask: (B,T), False at padding; without one the token `config.pad_token_id` is padding, where there is one.
        """
        ids = to_device(as_array(ids), self.device)
        return last_state(h, text_places(ids, mask, self.config.pad_token_id))

    def label_scores(self, ids: Array, mask: Array | None = None, **inputs) -> Array:
        """As `PublishedModel.label_scores`; padding at the right needs no mask for a model that sees the left."""
        self.check_labels()
        pairs = None
        if mask is not None:
            ids = to_device(check_ids(ids), self.device)
            t = ids.shape[1]
            before = self.seen(t, None)
            if before is None:
                before = ops.causal_mask(t, t, array_module(ids))
            pairs = before & text_places(ids, mask)[:, None, None, :]
        h, _ = self.hidden(ids, grad=False, mask=pairs, **inputs)
        return self.sentences.forward(self.state_of_text(h, ids, mask))[0]

    # ---------------------------------------------------------------------------------------------------------- files

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        """How wide queries, keys and values are, which files have apart."""
        config = self.config
        of_keys = config.n_kv_head * config.head_size
        return config.n_head * config.head_size, of_keys, of_keys

    @classmethod
    def least_size(cls, config: DecoderConfig) -> int:
        """The numbers in its matrices: the table, and of a block two of attention and two of the MLP or more."""
        c = config.n_embd
        of_attention = 2 * (config.n_head + config.n_kv_head) * config.head_size
        block = (of_attention + 2 * (config.n_inner or 4 * c)) * c
        return config.vocab_size * c + config.n_layer * block
