"""What every language model here has in common: logits, a loss with its backward pass, saving, loading, generating."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, device_of, to_device
from minigpt.errors import InputError, check_whole, is_whole, shown
from minigpt.models import generation, mixed_precision
from minigpt.models.config import Config, check_dtype
from minigpt.models.saved_model import SavedModel
from minigpt.models.task_body import TaskBody
from minigpt.models.token_ids import check_ids, check_positions, check_range, check_targets, check_weights
from minigpt.nn import Cache, Embedding, Module, Parameter, Past, Recomputed, accumulate
from minigpt.ops.random_keys import Key


class LanguageModel(SavedModel, TaskBody):
    """A model of the next token. A subclass has `config`, `embeddings`, `h`, `hidden` and `hidden_backward`.

    embeddings: the first one of tokens. h: the blocks, a list of modules. lm_head: a table of its own for the output,
    which few models have; None: it is that of the tokens. labels: of a task, whose head its file has.
    checkpoint_blocks: keep only the input of each block, and run it once more in the backward pass (Chen et al. 2016):
    the same bits, less memory, more time.
    """

    embeddings: tuple[Embedding, ...]
    h: Sequence[Module]
    lm_head: Embedding | None = None
    labels: tuple[str, ...] = ()
    label_scores: Callable[..., Array]  # of a model with labels
    token_labels: tuple[str, ...] = ()  # the same of a head that gives each token a label
    token_scores: Callable[..., Array]  # of a model with these
    checkpoint_blocks = False
    can_checkpoint_blocks = True
    can_generate = True
    reads_a_source = False  # does it write beside a text of its own, the source, as an encoder-decoder does?
    tells_words = True  # has it a head for words? a published body alone has none
    n_segments = 0  # how many kinds of segments an encoder tells apart, where a row holds two texts
    computes_in_bfloat16 = True
    repeats_its_step = True  # is a training step always the same work, so that a GPU can record it?
    dropout_sites = 3  # places of dropout in a block
    learns_the_next_token = True  # does each position predict the next token, also while another task is learned?

    def begin(self, config: Config, seed: int | None, dtype) -> np.random.Generator | None:
        """Keep the configuration; returns the generator of the initial weights, None where seed is None.

        Raises InputError for the configuration of another model, a seed that is no whole number of 0 or more, and a
        dtype whose numbers cannot be learned.
        """
        kind = type(self).__name__
        if not isinstance(config, self.Config):
            given = type(config).__name__ if isinstance(config, Config) else shown(config)
            raise InputError(f"config is {given}: a {kind} takes a {self.Config.__name__}(n_layer=…, n_embd=…)")
        check_dtype(dtype)
        self.config = config
        if seed is None:
            return None
        check_whole("seed", seed, "a whole number of 0 or more, or None for weights of zero", least=0)
        return np.random.default_rng(seed)

    @property
    def sizes(self) -> str:
        """For `repr`: "12 layers, 12 heads, 768 wide, ...: 124,439,808 parameters, float32 on cpu"."""
        n_parameters = sum(parameter.data.size for parameter in self.parameters())
        where = f"{self.head.data.dtype} on {self.device}"
        return f"{self.config.sizes}: {n_parameters:,} parameters, {where}"

    @property
    def head(self) -> Parameter:
        """The output matrix (V,C): the token embedding itself (GPT-1 equation 2), or a head of its own."""
        if self.lm_head is not None:
            return self.lm_head.weight
        return self.embeddings[0].weight

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
        """ids (B,T) int -> h (B,T,C)

        past: what the model has read before, of `new_past`; the ids are added to it. key: switches dropout on.
        mask: boolean, broadcast to (B,NH,T,T), True where a position may see another; None is causal. positions: (T,)
        or (B,T) int; None counts from 0, or goes on from the past. Raises InputError for arguments of other shapes,
        types and ranges.
        """
        raise TypeError(f"{type(self).__name__} does not say how to compute hidden states")

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        raise TypeError(f"{type(self).__name__} does not say how to go back through its hidden states")

    # ----------------------------------------------------------------------------------------------- logits and loss

    def forward(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, **inputs
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): logits[:, t] are the scores of token t + 1. inputs: see `hidden`.

        Raises InputError as `hidden` does.
        """
        h, cache = self.hidden(ids, past, key, grad, **inputs)
        logits = cache.keep("head", ops.linear_forward(h, self.head.value.T))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh, dw_t, _ = ops.linear_backward(dlogits, cache.pop("head"))
        accumulate(self.head, dw_t.T)
        self.hidden_backward(dh, cache)

    def loss(
        self,
        ids: Array,
        targets: Array,
        normalizer: float | None = None,
        weights: Array | None = None,
        key: Key | None = None,
        grad: bool = True,
        **inputs,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int, targets (B,T) int -> loss (), in nats per token (GPT-1 equation 1, averaged)

        A target of -100 is not predicted. normalizer: the number of targets of the whole batch, where this is a part
        of it. weights: (B,T), one for each target. key: switches dropout on. grad=False keeps nothing for a backward.
        inputs: mask and positions, see `hidden`. Raises InputError as `hidden` does, for targets and weights of another
        shape than the ids or out of range, and for a normalizer of 0 or less.
        """
        h, cache = self.hidden(ids, None, key, grad, **inputs)
        targets, weights = self.place_targets(targets, weights, h.shape[:2])
        head = ops.linear_cross_entropy_forward(
            h,
            self.head.value,
            targets,
            weights=weights,
            normalizer=normalizer,
            grad=grad,
        )
        loss = cache.keep("head", head)
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        dh, dw, _ = ops.linear_cross_entropy_backward(dloss, cache.pop("head"))
        accumulate(self.head, dw)
        self.hidden_backward(dh, cache)

    def next_logits(self, ids: Array, past: Any, **inputs) -> Array:
        """ids (B,T) int -> logits (B,V) of the token that follows; past: of `new_past`, to which the ids are added

        inputs: mask and positions, see `hidden`.
        """
        h, _ = self.hidden(ids, past, grad=False, **inputs)
        last = h[:, -1]
        logits, _ = ops.linear_forward(last, self.head.value.T)
        return logits

    def token_step(self, past: list[Past]) -> Any:
        """A quicker `next_logits` for one token of one text, which goes on with this past; or the reason why not

        `takes(ids)` of it says whether it computes the logits of a call.
        """
        return f"{type(self).__name__} has no quicker step"

    def scores_of(self, h: Array) -> Array:
        """h (B,T,C), hidden states -> scores (B,T,V): what the head tells from them"""
        logits, _ = ops.linear_forward(h, self.head.value.T)
        return logits

    def scores_at(self, ids: Array, places: list[int], **inputs) -> Array:
        """ids (T,) int, in which words are covered at these N places -> scores (N,V) of the word at each

        inputs: segments, of an encoder that has them.
        Raises InputError for a model that learned the next token: it fills in nothing.
        """
        advice = "minigpt sample continues a text with it" if self.can_generate else "take another, such as bert"
        raise InputError(f"{type(self).__name__} predicts the next token and fills in no words: {advice}")

    # ------------------------------------------------------------------------------------------------- mixed precision

    def compute_in(self, low: str | None) -> None:
        """Let layers compute with copies of the parameters in this dtype, "bfloat16"; None: with the parameters."""
        mixed_precision.make_copies(self.parameters(), low)

    def exact(self) -> contextlib.AbstractContextManager:
        """`with model.exact(): ...`: layers compute with the parameters themselves, whatever copies there are."""
        return mixed_precision.without_copies(self.parameters())

    # --------------------------------------------------------------------------------------------------- for subclasses

    def through(
        self, block: Module, x: Array, past: Past | None, key: Key | None, grad: bool, mask: Array | None = None, **more
    ) -> tuple[Array, Cache]:
        """block.forward(x, past, key, grad, mask, **more), whose cache is x alone with `checkpoint_blocks`.

        A block that is given a past is not run again: it would store the same positions twice.
        """
        recompute = self.checkpoint_blocks and grad and past is None
        if not recompute:
            return block.forward(x, past, key, grad, mask, **more)
        forward = functools.partial(block.forward, key=key, mask=mask, **more)
        out, _ = forward(x)
        return out, Recomputed(block, forward, x)

    @property
    def blocks(self) -> Sequence[Module]:
        """All blocks, also those that are not in `h`."""
        return self.h

    def trial(self, ids: Array) -> Cache:
        """What a step with these ids (B,T) keeps, where each predicts anything: the cache of its loss

        Of a model that tells no words it is what its hidden states keep.
        """
        if not self.tells_words:
            _, cache = self.hidden(ids)
            return cache
        _, cache = self.loss(ids, ids, **self.trial_inputs(ids))
        return cache

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """What a whole loss has beside ids and targets, for a trial with these ids (B,T): nothing."""
        return {}

    @property
    def device(self) -> str:
        """ "cpu" or "cuda": where the parameters are."""
        return device_of(self.head.data)

    def place(self, ids: Array, past: list | None = None, positions: Array | None = None) -> tuple[Array, Array]:
        """ids (B,T) -> the same on the model's device, and their positions, (T,) or (B,T)

        Where no positions are given they go on from those of the past; with padding in the past each row counts from
        its own first token. Raises InputError for ids of another shape or type, for more of them than the model has
        positions, for positions of another shape or out of range, and for a past that is not of `new_past`.
        """
        ids = check_ids(ids)
        self._check_past(past)
        start = past[0].length if past else 0
        end = start + ids.shape[1]
        n_positions = self.config.n_positions
        if end > n_positions:
            raise InputError(f"{end} tokens are more than the {n_positions} positions of this model")
        size = self.config.vocab_size
        check_range(ids, size, f"token id {{}} is out of range: the table has {size} rows")
        if positions is not None:
            positions = check_positions(positions, ids.shape, n_positions)
            return to_device(ids, self.device), to_device(positions, self.device)
        ids = to_device(ids, self.device)
        xp = array_module(ids)
        positions = xp.arange(start, end)
        if past and past[0].padding is not None:
            positions = xp.maximum(positions - past[0].padding[:, None], 0)
        return ids, positions

    def _check_past(self, past: Any) -> None:
        if not past and not is_whole(past):
            return
        is_list = isinstance(past, list) and len(past) == len(self.h)
        if not is_list or not all(hasattr(one, "padding") for one in past):
            raise InputError(f"past is {shown(past)}: give what new_past() of this model returned, or None")

    def place_targets(
        self, targets: Array, weights: Array | None, shape: tuple[int, int]
    ) -> tuple[Array, Array | None]:
        """Targets and their weights on the model's device.

        shape: (B,T), that of the ids. Raises InputError for targets of another shape, type or range, and for weights
        of another shape, or below 0.
        """
        targets = check_targets(targets, shape, self.config.vocab_size)
        if weights is not None:
            weights = to_device(check_weights(weights, shape), self.device)
        return to_device(targets, self.device), weights

    # ------------------------------------------------------------------------------------------------------ generating

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None) -> list[Past]:
        """An empty key-value cache, a `Past` for each layer: `hidden` and `forward` fill it and go on from it.

        A past with padding is for grad=False only.

        capacity: room for so many positions (default: all that the model has). padding: (B,) int, how many of the
        first ids of each row are padding. Raises InputError for a capacity that is no whole number of 1 or more.
        """
        if capacity is None:
            capacity = self.config.n_positions
        check_whole("capacity", capacity, "for how many positions there is to be room, 1 or more", least=1)
        if padding is not None:
            padding = to_device(padding, self.device) if padding.any() else None
        return [Past(capacity, padding) for _ in self.h]

    def continuing(self, prompts: np.ndarray, mask: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
        """prompts (B,T) -> what writes on, and the ids that it begins with: this model, and the prompts."""
        return self, prompts

    def generate(self, ids: Any, n_tokens: int, **options) -> np.ndarray | list[np.ndarray]:
        """ids (B,T) -> (B,T+N): the prompts and what follows them. See `generation.generate`."""
        return generation.generate(self, ids, n_tokens, **options)

    def stream(self, ids: Any, n_tokens: int, **options) -> Iterator[np.ndarray]:
        """Yields the next token of each row, (B,) int, n_tokens times. See `generation.stream`."""
        return generation.stream(self, ids, n_tokens, **options)
