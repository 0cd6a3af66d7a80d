"""The body that MASS, BART and T5 share: an encoder reads a source, and a decoder writes beside it.

What differs from GPT-1: a second stack of blocks, whose positions see all of the source (Vaswani et al. 2017, section
3.1), and in each block of the decoder an attention to what that stack has read (section 3.2.3). A decoder together with
the states of one source is a causal language model: see `Reading`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError, shown
from minigpt.models.card import Card, as_wide_as_the_paper, ids_of
from minigpt.models.family.cross_attention import DecoderPast
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.published_model import PublishedModel
from minigpt.models.family.reading import Reading
from minigpt.models.family.stacks import DecoderBlock, EncoderBlock, Stack
from minigpt.models.token_ids import as_array, first_places, pad_right
from minigpt.nn import Cache, Embedding, Module
from minigpt.nn.layers import inner_width
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer

PAD = "_pad_"  # fills up the shorter rows of a batch
END = "_end_"  # ends what a decoder writes

SMALL = {  # what this library trains in minutes and in hours, which no paper has
    "nano": {"n_layer": 2, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 3, "n_head": 6, "n_embd": 384, "n_positions": 256},
}

BOTH_SIDES = {"layers": "n_layer", "attention_heads": "n_head"}  # what a file says of the encoder and of the decoder


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(PublishedConfig):
    """Sizes and rates. In a config.json they have the keys that Hugging Face has for BART. n_layer: of each side."""

    keys: ClassVar[dict[str, str]] = {
        "n_positions": "max_position_embeddings",
        "n_embd": "d_model",
        "n_layer": "encoder_layers",
        "n_head": "encoder_attention_heads",
        "hidden_act": "activation_function",
        "resid_pdrop": "dropout",
        "attn_pdrop": "attention_dropout",
        "initializer_range": "init_std",
    }
    inner_key: ClassVar[str] = "encoder_ffn_dim"
    only: ClassVar[dict[str, Any]] = {
        "is_encoder_decoder": True, "scale_embedding": False, "normalize_before": False, "add_final_layer_norm": False,
        "normalize_embedding": True, "static_position_embeddings": False, "add_bias_logits": False,
        "quantization_config": None,
    }  # fmt: skip

    vocab_size: int = 50265
    layer_norm_epsilon: float = 1e-5
    decoder_start_token_id: int | None = None

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as every model's does, and for a decoder of another size."""
        config = super().from_dict(values)
        expected = {f"decoder_{name}": getattr(config, key) for name, key in BOTH_SIDES.items()}
        expected["decoder_ffn_dim"] = inner_width(config)
        for key, wanted in expected.items():
            if values.get(key, wanted) != wanted:
                what = f"{key} is {values[key]}, and that of the encoder {wanted}"
                raise InputError(f"{what}: only an encoder and a decoder of one size are built here")
        return config

    def to_dict(self) -> dict:
        """For a config.json, under Hugging Face's keys."""
        values = super().to_dict()
        values |= {f"decoder_{name}": getattr(self, key) for name, key in BOTH_SIDES.items()}
        values["decoder_ffn_dim"] = inner_width(self)
        values |= {"is_encoder_decoder": True, "scale_embedding": False, "forced_eos_token_id": None}
        return values


class EncoderDecoder(PublishedModel):
    """An encoder, a decoder, and one table of tokens for both, which is the head too. seed: as for GPT1.

    `hidden`, and with it `forward` and `loss`, takes the decoder's ids, and as `source` those of the encoder. A
    subclass has a `Config` with `decoder_start_token_id`; it overrides the parts that differ.
    """

    reads_a_source = True
    repeats_its_step = False  # the sources of one batch are longer than those of another
    dropout_sites = 5
    normalises_embeddings = False

    def __init__(self, config, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        self.tokens_embed = Embedding(config.vocab_size, config.n_embd, rng, config.initializer_range, dtype)
        self.encoder = self.build_encoder(rng, dtype)
        self.decoder = self.build_decoder(rng, dtype)

    def build_encoder(self, rng: np.random.Generator | None, dtype) -> Stack:
        """The stack that reads."""
        return Stack(self.config, EncoderBlock, rng, dtype, self.normalises_embeddings)

    def build_decoder(self, rng: np.random.Generator | None, dtype) -> Stack:
        """The stack that writes."""
        return Stack(self.config, DecoderBlock, rng, dtype, self.normalises_embeddings)

    @property
    def embeddings(self) -> tuple[Embedding, ...]:
        """Of tokens."""
        return (self.tokens_embed,)

    @property
    def h(self) -> Sequence[Module]:
        """The blocks of the decoder: those that a past is for."""
        return self.decoder.h

    @property
    def blocks(self) -> list[Module]:
        """Those of both sides."""
        return [*self.encoder.h, *self.decoder.h]

    def layers_of(self, name: str) -> int:
        """As `LanguageModel.layers_of`, on both sides: what is behind the blocks belongs to the last one."""
        _, _, of_stack = name.partition(".")
        if of_stack.startswith("h."):
            return super().layers_of(of_stack)
        is_last = of_stack.startswith("ln_f.") or name.startswith("lm_head.")
        return self.config.n_layer if is_last else 0

    # --------------------------------------------------------------------------------------------------- hidden states

    def hidden(
        self, ids: Array, past: list[DecoderPast] | None = None, key: Key | None = None, grad: bool = True, *,
        source: Array | None = None, source_mask: Array | None = None, mask=None, positions=None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int, source (B,S) int -> h (B,T,C), the output of the decoder

        source_mask: (B,S) boolean, False where the source is padding; None: it is all text. mask: (B,T) boolean, False
        where the ids are padding, or any mask of `LanguageModel.hidden`; positions: those of the ids. past: of
        `Reading.new_past`, which stands in place of the source. Raises InputError for a source that is missing or has
        other rows, for masks of another shape, and as `LanguageModel.hidden` does.
        """
        cache = Cache(self, grad)
        ids, positions = self.place(ids, past, positions)
        if past:
            states, source_mask = None, past[0].source_mask
        else:
            self._check_source(source, ids)
            source_mask = self.place_source_mask(source_mask, source)
            states = cache.keep("encoder", self._encoded(source, source_mask, fold(key, 0), grad))
            cache.keep("states", (states, states))  # every block of the decoder reads them: in a ledger they come once
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        h = cache.keep("decoder", self.decoder.forward(
            x, positions, past, fold(key, 1), grad, self._placed_mask(mask, ids), self.through,
            states=states, source_mask=source_mask,
        ))  # fmt: skip
        return h, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        cache.pop("states")
        dx, gradients = self.decoder.backward(dh, cache.pop("decoder"))
        self.tokens_embed.backward(dx, cache.pop("tokens"))
        encoder = cache.pop("encoder")
        dx, _ = self.encoder.backward(gradients["states"], encoder.pop("stack"))
        self.tokens_embed.backward(dx, encoder.pop("tokens"))

    def encode(self, source: Array, source_mask: Array | None = None) -> Array:
        """source (B,S) int -> states (B,S,C), what the encoder has read; source_mask: see `hidden`.

        Raises InputError as `hidden` does. Nothing is kept for a backward.
        """
        states, _ = self._encoded(source, self.place_source_mask(source_mask, source), None, grad=False)
        return states

    def states(self, ids: Array, lengths: Array) -> Array:
        """As `LanguageModel.states`: what the encoder has read"""
        ids = to_device(ids, self.device)
        return self.encode(ids, first_places(to_device(lengths, self.device), ids.shape[1]))

    def scores_at(self, ids: Array, places: list[int]) -> Array:
        """Raises InputError: the decoder writes what a source lacks, and tells no word at a place."""
        kind = type(self).__name__
        raise InputError(f"{kind} writes what its source lacks, by tokens of its own: use minigpt sample --prompt")

    def _encoded(self, source: Array, mask: Array | None, key: Key | None, grad: bool) -> tuple[Array, Cache]:
        """source (B,S), mask (B,1,1,S) or None -> states (B,S,C)"""
        cache = Cache(self, grad)
        source, positions = self.place(source)
        if mask is None:
            mask = array_module(source).ones((1, source.shape[1]), bool)  # without a mask it would be causal
        x = cache.keep("tokens", self.tokens_embed.forward(source))
        states = cache.keep("stack", self.encoder.forward(x, positions, None, key, grad, mask, self.through))
        return states, cache

    def _check_source(self, source: Array | None, ids: Array) -> None:
        if source is None:
            name = type(self).__name__
            raise InputError(f"{name} reads a source and writes beside it: give source=ids of shape (batch, time)")
        n = len(as_array(source, "source is"))
        if n != len(ids):
            raise InputError(f"there are {n} sources for {len(ids)} rows of ids: give one source for each row")

    def place_source_mask(self, mask: Array | None, source: Array) -> Array | None:
        """(B,S) -> (B,1,1,S) on the model's device: every query sees what is text. None stays None.

        Raises InputError for a mask that is not boolean, or of another shape than the source.
        """
        if mask is None:
            return None
        mask = as_array(mask, "source_mask is")
        shape = as_array(source, "source is").shape
        if mask.shape != shape or mask.dtype != bool:
            given = f"source_mask is {mask.dtype} of shape {mask.shape}"
            raise InputError(f"{given}: give a boolean for each token of the source, {shape}")
        return to_device(mask, self.device)[:, None, None, :]

    def _placed_mask(self, mask: Array | None, ids: Array) -> Array | None:
        """The decoder's mask on the model's device: of (B,T), what is text and no later than the query."""
        if mask is None:
            return None
        mask = to_device(as_array(mask, "mask is"), self.device)
        if mask.shape != ids.shape:
            return mask
        t = ids.shape[1]
        return mask[:, None, None, :] & ops.causal_mask(t, t, array_module(ids))

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """For a trial the source may be anything."""
        return {"source": ids}

    # ------------------------------------------------------------------------------------------------------ generating

    def reading(self, source: Any, source_mask: Array | None = None) -> Reading:
        """This model beside a source (1,S), or one for each row that will be written, (B,S): a causal language model.

        Sources may be B lists of different lengths. Raises InputError as `hidden` does.
        """
        if source_mask is None:
            source, source_mask = pad_right(source)
        return Reading(self, source, source_mask)

    def continuing(self, prompts: Array, mask: Array | None = None) -> tuple[Reading, np.ndarray]:
        """The prompts are sources: a reading of them, and the token that the decoder starts with, (B,1).

        Raises InputError where the configuration does not say which token that is.
        """
        start = self.config.decoder_start_token_id
        if start is None:
            raise InputError("the configuration has no decoder_start_token_id: say which token a decoder starts with")
        return self.reading(prompts, mask), np.full((len(prompts), 1), start)

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None):
        """Raises InputError: a decoder writes beside a source."""
        raise InputError(f"{type(self).__name__} writes beside a source: take model.reading(source).generate(ids, …)")

    def _check_past(self, past: Any) -> None:
        super()._check_past(past)
        if past and not isinstance(past[0], DecoderPast):
            raise InputError(f"past is {shown(past)}: give what new_past() of model.reading(source) returned, or None")

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def least_size(cls, config: EncoderDecoderConfig) -> int:
        """The numbers in its matrices: the tables, and in each layer three attentions and two MLPs."""
        c = config.n_embd
        layer = 12 * c * c + 4 * c * inner_width(config)
        return (config.vocab_size + 2 * config.n_positions) * c + config.n_layer * layer


def encoder_decoder_card(
    name: str, model: type[EncoderDecoder], sizes: dict[str, dict[str, Any]], start: str, **differs
) -> Card:
    """The card of an encoder-decoder. start: the token with which its decoder starts; differs: as in `encoder_card`."""
    usual: dict[str, Any] = {
        "tokenizer": GPT1Tokenizer,
        "optimizer": AdamW,
        "init_std": as_wide_as_the_paper,
        "token_settings": ids_of(pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=start),
    }
    return Card(name, model, sizes, **usual | differs)
