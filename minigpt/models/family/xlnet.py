"""XLNet (Yang et al. 2019): every token is predicted from any subset of the others, without covering one.

Two streams run through the same blocks (section 2.3). The content stream is an encoder's. The query stream starts from
one learned vector, knows where it stands but not which token stands there, and reads keys and values of the content
stream: words are told from it. Scores compare contents, distances and segments as in Transformer-XL (section 2.4 and
appendix A.2). The memory of earlier texts is left out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt import ops
from minigpt.data.input_transformations import DELIMITER, START
from minigpt.data.objectives import Objective, permuted
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.config_file import ONLY
from minigpt.models.family.encoder import SMALL, Encoder, between_ends, encoder_card, real_tokens
from minigpt.models.family.forms import Form, Layout, in_layers
from minigpt.models.family.heads import BiasHead
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.two_streams import TwoStreamBlock
from minigpt.models.family.xlnet_blocks import Places, RelativeAttention
from minigpt.models.token_ids import as_array, last_state
from minigpt.nn import Cache, Embedding, accumulate, normal
from minigpt.nn.layers import inner_width
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import Tokenizer

INTO_HEADS = (".rel_attn.q", ".rel_attn.k", ".rel_attn.v", ".rel_attn.r")  # endings of tensors (C,NH,D)
OUT_OF_HEADS = (".rel_attn.o",)

BLOCK = {  # modules and parameters of a block here -> in a layer of Hugging Face's XLNet
    "attn.c_attn.weight": ["rel_attn.q", "rel_attn.k", "rel_attn.v"],
    "attn.c_proj.weight": "rel_attn.o",
    "attn.key_of_distance.weight": "rel_attn.r",
    "attn.u": "rel_attn.r_w_bias",
    "attn.v": "rel_attn.r_r_bias",
    "attn.w": "rel_attn.r_s_bias",
    "attn.segments": "rel_attn.seg_embed",
    "ln_1": "rel_attn.layer_norm",
    "mlp.c_fc": "ff.layer_1",
    "mlp.c_proj": "ff.layer_2",
    "ln_2": "ff.layer_norm",
}
TABLES = {"tokens_embed": "word_embedding", "mask_emb": "mask_emb"}
LABELS = Form(dense="sequence_summary.summary", scores="logits_proj")

LAYOUT = Layout("XLNet", "transformer", TABLES, in_layers("layer.{}", BLOCK), "lm_loss", {
    "LMHeadModel": Form(words={"words.bias": "lm_loss.bias"}),
    "ForSequenceClassification": LABELS,
    "ForMultipleChoice": LABELS._replace(n=1),
    "ForTokenClassification": Form(places="classifier"),
    "ForQuestionAnsweringSimple": Form(places="qa_outputs", n=2),
    "Model": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(PublishedConfig):
    """Sizes and rates, under Hugging Face's keys for XLNet; the defaults are those of XLNet-base.

    n_positions: the longest text here; XLNet itself has no table of positions and no limit.
    """

    keys: ClassVar[dict[str, str]] = {
        "n_embd": "d_model",
        "resid_pdrop": "dropout",
        "layer_norm_epsilon": "layer_norm_eps",
        "hidden_act": "ff_activation",
    }
    architecture: ClassVar[str] = "XLNetLMHeadModel"
    layout: ClassVar[Layout | None] = LAYOUT
    inner_key: ClassVar[str] = "d_inner"
    own: ClassVar[dict[str, Any]] = {
        "untie_r": True, "attn_type": "bi", "bi_data": False, "clamp_len": -1, "same_length": False,
    }  # fmt: skip
    only: ClassVar[dict[str, Any]] = ONLY | own
    of_scores: ClassVar[dict[str, tuple]] = {"summary_type": ("last", "cls_index"), "summary_activation": ("tanh",)}
    left_out: ClassVar[dict[str, Any]] = {"ff_activation": "gelu", "d_inner": 4096}

    model_type: str = "xlnet"
    vocab_size: int = 32000
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_segments: int = 2

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json, which need not limit the length. Raises InputError as BERT's does, and for odd heads."""
        config = super().from_dict({"n_positions": cls.n_positions} | values)
        size = config.n_embd // config.n_head
        if values.get("d_head") not in (None, size):
            given = f"config.json has d_head {values['d_head']!r}"
            raise InputError(f"{given}: only d_model / n_head, {size}, is built here, as in all published XLNets")
        return config

    def to_dict(self) -> dict:
        """For a config.json."""
        return super().to_dict() | self.own


class XLNet(Encoder):
    """Both streams of XLNet and the head of its pre-training. seed: as for GPT1. `hidden` is the content stream."""

    Config = XLNetConfig
    word_head = BiasHead
    can_checkpoint_blocks = False
    last_segment = 2  # `a <sep> b <sep> <cls>`: the token for both texts has a segment of its own
    n_segments = 5  # two texts, that token, <sep>, padding, as its authors number them; they are only compared

    h: list[TwoStreamBlock]

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """A table of tokens, and the vector that the query stream starts from at every place."""
        config = self.config
        self.tokens_embed = Embedding(config.vocab_size, config.n_embd, rng, config.initializer_range, dtype)
        self.mask_emb = normal(rng, (config.n_embd,), config.initializer_range, dtype)
        self.positions_embed = None
        self.segments_embed = None

    def build_blocks(self, rng: np.random.Generator | None, dtype) -> list[TwoStreamBlock]:
        """Blocks for both streams."""
        blocks = []
        for _ in range(self.config.n_layer):
            attn = RelativeAttention(self.config, rng, dtype)
            blocks.append(TwoStreamBlock(attn, self.config, rng, dtype))
        return blocks

    def hidden(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, *, mask=None, segments=None,
        positions=None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C), the content stream, as `Encoder.hidden`. Raises InputError for positions too."""
        self.check_past(past)
        if positions is not None:
            raise InputError("XLNet knows distances and no positions: leave them out")
        return self._streams(ids, key, grad, mask, None, segments)

    def states_for_words(
        self, ids: Array, key: Key | None = None, grad: bool = True, *, mask=None, query_mask=None, segments=None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) -> g (B,T,C), the query stream; without query_mask the content stream

        mask, query_mask: (B,1,T,T) boolean, what each place may see with its own token and without it.
        """
        return self._streams(ids, key, grad, mask, query_mask, segments)

    def _streams(self, ids, key, grad, mask, query_mask, segments) -> tuple[Array, Cache]:
        """The query stream where there is a mask for it, else the content stream."""
        cache = Cache(self, grad)
        ids, _ = self.place(ids)
        xp = array_module(ids)
        mask = self.place_mask(mask, ids)
        places = self._places(self.place_segments(segments, ids))
        if grad:
            cache["places"] = places  # here, because all blocks share them
        h = cache.keep("tokens", self.tokens_embed.forward(ids))
        h = cache.keep("dropout", ops.dropout_forward(h, rate=self.config.embd_pdrop, key=fold(key, 0)))
        g = None
        if query_mask is not None:
            query_mask = to_device(query_mask, self.device)
            start = xp.broadcast_to(self.mask_emb.value, h.shape)
            g = cache.keep("dropout_g", ops.dropout_forward(start, rate=self.config.embd_pdrop, key=fold(key, 0, 1)))
        for i, block in enumerate(self.h):
            of_block = fold(key, i + 1)
            next_h = None
            if g is None or i < len(self.h) - 1:  # of the last block only the query stream is used
                next_h = cache.keep(f"h.{i}", block.forward(h, None, of_block, grad, mask, places))
            if g is not None:
                of_query = fold(key, i + 1, 3)
                g = cache.keep(f"h.{i}.g", block.forward_apart(h, g, of_query, grad, query_mask, places))
            h = next_h
        return h if g is None else g, cache

    def scores_at(self, ids: Array, places: list[int], **inputs) -> Array:
        """ids (T,) int, N places -> scores (N,V) of the word at each, from all words at other places"""
        ids = as_array(ids, "ids are")[None]
        t = ids.shape[1]
        seen = np.ones((1, 1, t, t), bool)
        seen[..., places] = False
        logits, _ = self.forward(ids, grad=False, mask=to_device(seen, self.device), query_mask=seen, **inputs)
        return logits[0, places]

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C), of the stream that was given -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        cache.pop("places")
        two_streams = "dropout_g" in cache
        dg = dh if two_streams else None
        dh = None if two_streams else dh
        for i, block in reversed(list(enumerate(self.h))):
            dbelow = 0
            if f"h.{i}" in cache:
                dbelow = block.backward(dh, cache.pop(f"h.{i}"))
            if two_streams:
                dkeys, dg = block.backward_apart(dg, cache.pop(f"h.{i}.g"))
                dbelow = dbelow + dkeys
            dh = dbelow
        if two_streams:
            dstart = ops.dropout_backward(dg, cache.pop("dropout_g"))
            accumulate(self.mask_emb, dstart.sum(axis=(0, 1)))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        self.tokens_embed.backward(dh, cache.pop("tokens"))

    def _places(self, segments: Array) -> Places:
        """Vectors of the distances, sines and cosines as in Transformer-XL, and whether segments differ."""
        xp = array_module(segments)
        t = segments.shape[1]
        c = self.config.n_embd
        distance = xp.arange(-t, t, dtype=float)[:, None]
        rates = 10000.0 ** (-xp.arange(0, c, 2, dtype=float) / c)
        far = xp.concatenate([xp.sin(distance * rates), xp.cos(distance * rates)], axis=-1)[:, :c]
        differs = segments[:, None, :, None] != segments[:, None, None, :]
        return Places(far.astype(self.head.value.dtype), differs)

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """From left to right, in both streams."""
        xp = array_module(ids)
        place = xp.arange(ids.shape[1])
        masks = {"mask": place <= place[:, None], "query_mask": place < place[:, None]}
        return {name: xp.broadcast_to(mask, (len(ids), 1, *mask.shape)) for name, mask in masks.items()}

    def state_of_text(self, h: Array, ids: Array, mask: Array | None) -> Array:
        """h (B,T,C) -> (B,C): the last state of each text"""
        return last_state(h, real_tokens(mask, h))

    def place_of_state(self, lengths: Array) -> Array:
        """At the last token: XLNet's token for a whole text stands at its end."""
        return lengths - 1

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def least_size(cls, config: XLNetConfig) -> int:
        """The numbers in its matrices: the table of tokens, and in each block five of C^2 and the MLP."""
        c = config.n_embd
        return config.vocab_size * c + config.n_layer * (5 * c + 2 * inner_width(config)) * c

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The published layout: the projections of attention are (C,NH,D)."""
        c = self.config.n_embd
        apart = c, self.config.n_head, c // self.config.n_head
        found = {}
        for name, tensor in super().to_published(tensors).items():
            if name.endswith("mask_emb"):
                tensor = tensor.reshape(1, 1, -1)
            elif name.endswith(INTO_HEADS):
                tensor = tensor.T.reshape(apart)
            elif name.endswith(OUT_OF_HEADS):
                tensor = tensor.reshape(apart)
            found[name] = tensor.copy()
        return found

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round. Raises InputError as every relative does."""
        plain = {}
        for name, tensor in tensors.items():
            if name.endswith("mask_emb"):
                tensor = tensor.reshape(-1)
            elif name.endswith((*INTO_HEADS, *OUT_OF_HEADS)) and tensor.ndim == 3:
                tensor = tensor.reshape(len(tensor), -1)
                tensor = tensor.T if name.endswith(INTO_HEADS) else tensor
            plain[name] = tensor
        return super().from_published(plain, folder)


SIZES = SMALL | {
    "base": {},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024},
}


def some_tokens_last(text: Tokenizer, rate: float) -> Objective:
    """The objective of XLNet for this vocabulary: this share of the tokens is predicted."""
    return between_ends(text, lambda ends: permuted(rate, ends))


CARD = encoder_card(
    "xlnet", XLNet, SIZES,
    objective=some_tokens_last,
    special_tokens=(START, DELIMITER),
    mask_rate=1 / 6,
)
