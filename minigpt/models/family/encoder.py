"""The body that BERT and its relatives share: GPT-1's blocks, and every position sees both sides.

What differs from GPT-1: the mask, a table of segments and a LayerNorm on the embeddings, and a transform and a bias
before the tied head (Devlin, Chang, Lee and Toutanova 2019, section 3). Whoever builds on it says what differs again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.data.input_transformations import DELIMITER, START
from minigpt.data.objectives import Batch, Objective, between, masked
from minigpt.device.arrays import Array, array_module, device_of, to_device
from minigpt.errors import InputError
from minigpt.models.card import Card, as_wide_as_the_paper
from minigpt.models.family.heads import WordHead
from minigpt.models.family.published import PublishedConfig
from minigpt.models.family.published_model import PublishedModel
from minigpt.models.gpt1 import Block
from minigpt.models.token_ids import as_array, check_range, first_places
from minigpt.nn import Cache, Embedding, LayerNorm, Linear, Module, PositionEmbedding, accumulate
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer, Tokenizer

MASK = "_mask_"  # the token that covers a word
SMALL = {  # what this library trains in minutes and in hours, which no paper has
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256},
}
SPECIAL = (MASK, START, DELIMITER)  # what the vocabulary of an encoder has beside its text
MASK_RATE = 0.3  # which part of the tokens is covered; the paper's 0.15 learns from half as many in the same time


def covered_words(text: Tokenizer, rate: float) -> Objective:
    """The objective of BERT's first task for this vocabulary: tell the tokens that are covered (section 3.1)."""
    return between_ends(text, lambda ends: masked(text.ids[MASK], text.vocab_size, rate, ends))


def covered_words_and_all(text: Tokenizer, rate: float) -> Objective:
    """The same, of a model that learns something of every token beside: a mean over all of them."""
    cover = covered_words(text, rate)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        return cover(ids, rng)._replace(share=1.0)

    return objective


def between_ends(text: Tokenizer, of: Callable[[tuple[int, ...]], Objective]) -> Objective:
    """An objective on texts that stand between the start and the delimiter, as they do in fine-tuning.

    of: gives the objective that never predicts these ids. A vocabulary that has none, as those of earlier versions,
    goes on without.
    """
    if START not in text.ids or DELIMITER not in text.ids:
        return of(())
    ends = text.ids[START], text.ids[DELIMITER]
    return between(*ends, of(ends))


class Encoder(PublishedModel):
    """Embeddings, blocks that see both sides, and a head that tells the word at each place. seed: as for GPT1.

    It fills in words that are covered, and cannot go on from a text. A subclass has a `Config`, which is a
    `PublishedConfig`; it overrides the parts that differ.
    """

    can_generate = False
    positions_embed: PositionEmbedding | None
    segments_embed: Embedding | None
    adds_positions = True  # to the rows of the tokens
    learns_the_next_token = False
    last_segment = 1  # that of the second text
    word_head: Callable[..., Module] = WordHead

    def __init__(self, config: PublishedConfig, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        self.build_embeddings(rng, dtype)
        self.h = self.build_blocks(rng, dtype)
        if config.heads.words is not None:
            self.words = self.build_word_head(rng, dtype)
        self.build_heads(seed, rng, dtype)

    # ------------------------------------------------------------------------------------------ parts, for subclasses

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """Tables of tokens, positions and segments, their LayerNorm, and what widens them to the blocks' width."""
        config = self.config
        width = config.table_width
        std = config.initializer_range
        n_segments = getattr(config, "n_segments", 0)
        self.tokens_embed = Embedding(config.vocab_size, width, rng, std, dtype)
        self.positions_embed = PositionEmbedding(config.position_rows, width, rng, std, dtype)
        self.segments_embed = Embedding(n_segments, width, rng, std, dtype) if n_segments else None
        self.ln_embed = LayerNorm(width, config.layer_norm_epsilon, dtype)
        self.widen = None if width == config.n_embd else Linear(width, config.n_embd, rng, std, dtype)

    def build_blocks(self, rng: np.random.Generator | None, dtype) -> list[Module]:
        """The blocks: n_layer of GPT-1's."""
        return [Block(self.config, rng, dtype) for _ in range(self.config.n_layer)]

    def build_word_head(self, rng: np.random.Generator | None, dtype) -> Module:
        """What stands before the tied head; it has a `bias` for each word."""
        return self.word_head(self.config, rng, dtype)

    def states_for_words(self, ids: Array, key: Key | None = None, grad: bool = True, **inputs) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C), from which words are told: the last hidden states"""
        return self.hidden(ids, None, key, grad, **inputs)

    def states_for_words_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        self.hidden_backward(dh, cache)

    @property
    def embeddings(self) -> tuple[Embedding, ...]:
        """Of tokens, of positions, and of segments where there are any."""
        tables = self.tokens_embed, self.positions_embed, self.segments_embed
        return tuple(table for table in tables if table is not None)

    # --------------------------------------------------------------------------------------------------- hidden states

    def hidden(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, *, mask=None, positions=None,
        segments=None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C)

        mask: (B,T) boolean, False where a row is padding, or any mask of `LanguageModel.hidden`; None: every position
        sees every other. segments: (B,T) int, 0 for the first sentence and 1 for the second; None: 0 everywhere.
        Raises InputError for a past, and for segments of another shape or out of range.
        """
        self.check_past(past)
        cache = Cache(self, grad)
        ids, positions = self.place(ids, None, positions)
        segments = self.place_segments(segments, ids)
        mask = self.place_mask(mask, ids)
        x = self.embed(ids, positions, segments, key, cache)
        for i, block in enumerate(self.h):
            x = cache.keep(f"h.{i}", self.through(block, x, None, fold(key, i + 1), grad, mask))
        return x, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        self.embed_backward(dh, cache)

    def embed(self, ids: Array, positions: Array, segments: Array | None, key: Key | None, cache: Cache) -> Array:
        """ids, positions, segments (B,T) -> x (B,T,C): the sum of the tables' rows, normalised, and dropout"""
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        if self.adds_positions:
            x = x + cache.keep("positions", self.positions_embed.forward(positions))
        if self.segments_embed is not None:
            x = x + cache.keep("segments", self.segments_embed.forward(segments))
        x = cache.keep("ln_embed", self.ln_embed.forward(x))
        x = cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0)))
        if self.widen is not None:
            x = cache.keep("widen", self.widen.forward(x))
        return x

    def embed_backward(self, dx: Array, cache: Cache) -> None:
        """dx (B,T,C) -> nothing: the gradients arrive in the tables"""
        if self.widen is not None:
            dx = self.widen.backward(dx, cache.pop("widen"))
        dx = ops.dropout_backward(dx, cache.pop("dropout"))
        dx = self.ln_embed.backward(dx, cache.pop("ln_embed"))
        if self.segments_embed is not None:
            self.segments_embed.backward(dx, cache.pop("segments"))
        if self.adds_positions:
            self.positions_embed.backward(dx, cache.pop("positions"))
        self.tokens_embed.backward(dx, cache.pop("tokens"))

    # ----------------------------------------------------------------------------------------------- logits and loss

    def forward(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, **inputs
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): the scores of the word at each position itself"""
        self.check_past(past)
        self.need("words")
        h, cache = self.states_for_words(ids, key, grad, **inputs)
        return self.word_scores(h, cache), cache

    def word_scores(self, h: Array, cache: Cache) -> Array:
        """h (B,T,C) -> logits (B,T,V): what the word head tells from these states"""
        x = cache.keep("words", self.words.forward(h))
        return cache.keep("head", ops.linear_forward(x, self.head.value.T, self.words.bias.value))

    def word_scores_backward(self, dlogits: Array, cache: Cache) -> Array:
        """dlogits (B,T,V) -> dh (B,T,C)"""
        dx, dw_t, dbias = ops.linear_backward(dlogits, cache.pop("head"))
        accumulate(self.head, dw_t.T)
        accumulate(self.words.bias, dbias)
        return self.words.backward(dx, cache.pop("words"))

    def scores_of(self, h: Array) -> Array:
        """h (B,T,C), hidden states -> scores (B,T,V): what the word head tells from them"""
        return self.word_scores(h, Cache(self, grad=False))

    def scores_at(self, ids: Array, places: list[int], **inputs) -> Array:
        """ids (T,) int, in which words are covered at these N places -> scores (N,V) of the word at each"""
        logits, _ = self.forward(as_array(ids, "ids are")[None], grad=False, **inputs)
        return logits[0, places]

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh = self.word_scores_backward(dlogits, cache)
        self.states_for_words_backward(dh, cache)

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, **inputs,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int with covered words, targets (B,T) int with the words that were covered, else -100 -> loss ()

        The mean cross-entropy of the covered words, in nats. normalizer, weights, key, grad: as in
        `LanguageModel.loss`. inputs: mask, positions, segments, see `hidden`.
        """
        h, cache = self.states_for_words(ids, key, grad, **inputs)
        loss = self.word_loss(h, targets, weights, normalizer, cache)
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        dh = self.word_loss_backward(dloss, cache)
        self.states_for_words_backward(dh, cache)

    def word_loss(self, h: Array, targets: Array, weights, normalizer: float | None, cache: Cache) -> Array:
        """h (B,T,C), targets (B,T) -> loss (): the mean cross-entropy of the words at the places with a target"""
        x = cache.keep("words", self.need("words").forward(h))
        return self.head_loss(x, targets, weights, normalizer, cache, "head")

    def word_loss_backward(self, dloss: float, cache: Cache) -> Array:
        """dloss () -> dh (B,T,C)"""
        dx = self.head_loss_backward(dloss, cache, "head")
        return self.words.backward(dx, cache.pop("words"))

    def head_loss(self, x: Array, targets: Array, weights, normalizer: float | None, cache: Cache, name: str) -> Array:
        """x (B,T,E), as wide as the tied head -> loss (), as in `word_loss`. name: in the cache."""
        targets, weights = self.place_targets(targets, weights, x.shape[:2])
        return cache.keep(name, ops.linear_cross_entropy_forward(
            x, self.head.value, targets, self.words.bias.value,
            weights=weights, normalizer=normalizer, grad=cache.grad,
        ))  # fmt: skip

    def head_loss_backward(self, dloss: float, cache: Cache, name: str) -> Array:
        """dloss () -> dx (B,T,E)"""
        dx, dw, dbias = ops.linear_cross_entropy_backward(dloss, cache.pop(name))
        accumulate(self.head, dw)
        accumulate(self.words.bias, dbias)
        return dx

    # ----------------------------------------------------------------------------------------------------- what it sees

    def check_past(self, past) -> None:
        """Raises InputError for a past: a model that sees both sides cannot go on from one."""
        if past is not None:
            kind = type(self).__name__
            raise InputError(f"{kind} sees both sides of a word, so it cannot go on from a past: use gpt1 or gpt2")

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None):
        """Raises InputError: text cannot be generated from left to right by a model that sees both sides."""
        kind = type(self).__name__
        raise InputError(f"{kind} fills in covered words and cannot continue a text: take gpt2 or llama")

    @property
    def tells_words(self) -> bool:
        """Has it a head for words? That of a file with a body alone, such as a sentence model, is missing."""
        return self.words is not None

    @property
    def n_segments(self) -> int:
        """How many segments it tells apart; 0: it has none."""
        return getattr(self.config, "n_segments", 0)

    def place_segments(self, segments: Array | None, ids: Array) -> Array | None:
        """Segments (B,T) on the model's device, 0 everywhere where none are given; None for a model without a table.

        Raises InputError for segments of another shape or out of range, and for those of a model without a table.
        """
        n = self.n_segments
        if segments is None:
            return array_module(ids).zeros_like(ids) if n else None
        if not n:
            raise InputError(f"{type(self).__name__} has no segments: leave them out, and part the texts by a token")
        segments = as_array(segments, "segments are")
        if segments.shape != ids.shape:
            raise InputError(f"segments have shape {segments.shape}, and the ids {ids.shape}: give one for each id")
        check_range(segments, n, f"segment {{}} is out of range: this model has {n}")
        return to_device(segments, self.device)

    def place_mask(self, mask: Array | None, ids: Array) -> Array:
        """The mask on the model's device: all is seen where none is given, and (B,T) hides padding from every query."""
        if mask is None:
            return array_module(ids).ones((1, ids.shape[1]), bool)
        mask = to_device(as_array(mask, "mask is"), self.device)
        if mask.shape == ids.shape:
            return mask[:, None, None, :]
        return mask

    def inputs_of(self, ids: Array, lengths: Array, delimiter: int | None = None) -> dict[str, Array]:
        """A mask that hides what fills up a row, and segments: 1 for what stands behind the first delimiter."""
        xp = array_module(ids)
        inputs = {"mask": first_places(lengths, ids.shape[1])}
        if self.n_segments > 1 and delimiter is not None:
            n_before = xp.cumsum(ids == delimiter, axis=1) - (ids == delimiter)
            inputs["segments"] = xp.minimum(n_before, self.last_segment)
        return inputs

    def place_of_state(self, lengths: Array) -> Array:
        """At the first token, which sees all others (BERT section 3.2)."""
        return array_module(lengths).zeros_like(lengths)


def real_tokens(mask: Array | None, like: Array) -> Array:
    """(B,T) boolean: False at padding. mask: as in `Encoder.hidden`; like: an array (B,T,...) on the model's device."""
    xp = array_module(like)
    shape = like.shape[:2]
    if mask is None or mask.shape != shape:
        return xp.ones(shape, bool)
    return to_device(as_array(mask, "mask is"), device_of(like))


def encoder_card(name: str, model: type[Encoder], sizes: dict[str, dict[str, Any]], **differs) -> Card:
    """The card of an encoder. differs: what is not as with most of them, by the names of `Card`."""
    usual: dict[str, Any] = {
        "usual_size": "base",
        "tokenizer": GPT1Tokenizer,
        "optimizer": AdamW,
        "objective": covered_words,
        "special_tokens": SPECIAL,
        "init_std": as_wide_as_the_paper,
        "mask_rate": MASK_RATE,
    }
    return Card(name, model, sizes, **usual | differs)


class PairEncoder(Encoder):
    """An encoder that also judges two sentences, from the state of the first token (BERT section 3.1)."""

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *,
        sentence_labels: Array | None = None, share: float = 1.0, **inputs,
    ) -> tuple[Array, Cache]:
        """As `Encoder.loss`, and with sentence_labels (B,) int, 0 or 1, plus the mean cross-entropy of these.

        The second term is multiplied by share: the part of a whole batch that these rows are.
        """
        h, cache = self.hidden(ids, None, key, grad, **inputs)
        loss = self.word_loss(h, targets, weights, normalizer, cache)
        if sentence_labels is not None:
            labels = to_device(as_array(sentence_labels, "sentence_labels are"), self.device)
            scores = cache.keep("sentences", self.need("sentences").forward(self.state_of_text(h, ids, None)))
            whole = len(labels) / share
            loss = loss + cache.keep("judged", ops.cross_entropy_forward(scores, labels, normalizer=whole))
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        dh = self.word_loss_backward(dloss, cache)
        if "sentences" in cache:
            dscores = ops.cross_entropy_backward(dloss, cache.pop("judged"))
            dh = dh.copy()
            dh[:, 0] += self.sentences.backward(dscores, cache.pop("sentences"))
        self.hidden_backward(dh, cache)

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """A label for each row, where its file has a head that judges two sentences."""
        if self.sentences is None:
            return {}
        return {"sentence_labels": array_module(ids).arange(len(ids)) % 2}

    def sentence_scores(self, ids: Array, **inputs) -> Array:
        """ids (B,T) int -> scores (B,2): label 0, or label 1"""
        head = self.need("sentences")
        h, _ = self.hidden(ids, grad=False, **inputs)
        return head.forward(self.state_of_text(h, ids, None))[0]
