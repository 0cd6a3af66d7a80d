"""What every language model here has in common: logits, a loss with its backward pass, saving, loading, generating."""

import functools
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.models import sampling
from minigpt.nn import Cache, Embedding, Module, Parameter, Past, Recomputed, accumulate
from minigpt.ops.keys import Key


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is common to all configurations. Keys are those of a Hugging Face config.json."""

    model_type: str
    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    bos_token_id: int | None = None  # begins and ends a text, if there is such a token: for other programs
    eos_token_id: int | None = None

    def __post_init__(self):
        for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value < 1 << 31:
                raise InputError(f"{name} is {value!r}: give a whole number from 1 to 2,147,483,647")
        c, heads = self.n_embd, self.n_head
        if c % heads:
            near = sorted({max(1, c // heads) * heads, (c // heads + 1) * heads})
            choices = " or ".join(map(str, near))
            raise InputError(f"n_embd {c} is not a multiple of n_head {heads}: choose {choices}")
        for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop"):
            rate = getattr(self, name, 0.0)
            if not isinstance(rate, (int, float)) or not 0 <= rate < 1:
                raise InputError(f"{name} is {rate}: give a dropout rate from 0 up to, but not including, 1")
        for name in ("layer_norm_epsilon", "initializer_range"):
            value = getattr(self, name, 1.0)
            if not isinstance(value, (int, float)) or not value > 0:
                raise InputError(f"{name} is {value!r}: give a number above 0")

    @classmethod
    def from_dict(cls, values: dict) -> "Config":
        """From a config.json; keys that this class does not know are left out."""
        several = {key for key in values if key.endswith("_token_id") and isinstance(values[key], list)}
        known = {field.name for field in fields(cls)} - several
        missing = {field.name for field in fields(Config) if field.default is MISSING} - set(values)
        if missing:
            raise InputError(f"config.json has no {', '.join(sorted(missing))}: is it one of {cls.__name__}?")
        for key, usual in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
            if values.get(key, usual) != usual:
                raise InputError(f"config.json has {key} {values[key]!r}: only models with {usual!r} are built here")
        return cls(**{key: value for key, value in values.items() if key in known})

    def to_dict(self) -> dict:
        """For a config.json."""
        return asdict(self)


def as_array(values: Any) -> Array:
    """A list as a NumPy array; an array as it is, wherever it lives."""
    return np.asarray(values) if isinstance(values, (list, tuple)) else values


def check_range(ids: Array, size: int, message: str, other: int = 0) -> None:
    """Raises InputError where ids are neither 0..size-1 nor `other`. Ids that are on a GPU already give NaN instead."""
    if type(ids) is np.ndarray:
        wrong = ids[(ids != other) & ((ids < 0) | (ids >= size))]
        if wrong.size:
            raise InputError(message.format(wrong[0]))


def check_ids(ids: Any) -> Array:
    """ids (B,T) int, as an array. Raises InputError for another shape or type, and where there are none."""
    ids = as_array(ids)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        raise InputError(f"ids are {ids.dtype} of shape {ids.shape}: give whole numbers of shape (batch, time)")
    return ids


def pad_left(prompts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Prompts (B,T), or a list of B prompts of different lengths -> ids (B,T) int64, padding (B,) int

    The last tokens stand below each other; what shorter prompts lack on the left is padding, here the id 0, which
    nothing ever sees. Raises InputError for a prompt without tokens, and for anything that is not a whole number.
    """
    if not isinstance(prompts, (list, tuple)) or len({np.shape(row) for row in prompts}) < 2:
        ids = to_numpy(check_ids(prompts)).astype(np.int64)
        return ids, np.zeros(len(ids), np.int64)
    rows = [to_numpy(as_array(row)) for row in prompts]
    for i, row in enumerate(rows):
        if row.ndim != 1 or row.size == 0 or row.dtype.kind not in "iu":
            what = "holds no token" if row.size == 0 else f"is {row.dtype} of shape {row.shape}"
            raise InputError(f"prompt number {i}, counted from 0, {what}: give a list of token ids, one or more")
    padding = max(map(len, rows)) - np.array([len(row) for row in rows])
    return np.stack([np.pad(row.astype(np.int64), (n, 0)) for row, n in zip(rows, padding, strict=True)]), padding


class LanguageModel(Module):
    """A model of the next token. A subclass has `config`, `embeddings`, `hidden` and `hidden_backward`.

    checkpoint_blocks: keep only the input of each block, and run it once more in the backward pass (Chen et al. 2016).
    The same bits, less memory, more time.
    """

    Config: ClassVar[type[Config]]
    config: Any
    embeddings: tuple[Embedding, ...]  # the first one of tokens
    checkpoint_blocks = False

    @property
    def head(self) -> Parameter:
        """The output matrix (V,C): the token embedding itself (GPT-1 equation 2)."""
        return self.embeddings[0].weight

    def hidden(self, ids: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C). past: what the model has read before, of `new_past`; the ids are added to it."""
        raise TypeError(f"{type(self).__name__} does not say how to compute hidden states")

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        raise TypeError(f"{type(self).__name__} does not say how to go back through its hidden states")

    def forward(self, ids: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): logits[:, t] are the scores of token t + 1"""
        cache = Cache(grad)
        h = cache.keep(self.hidden(ids, past, key, grad))
        logits = cache.keep(ops.linear_forward(h, self.head.value.T))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        dh, dw_t, _ = ops.linear_backward(dlogits, cache.pop())
        accumulate(self.head, dw_t.T)
        self.hidden_backward(dh, cache.pop())

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True
    ) -> tuple[Array, Cache]:
        """ids (B,T) int, targets (B,T) int -> loss (), in nats per token (GPT-1 equation 1, averaged)

        A target of -100 is not predicted. normalizer: the number of targets of the whole batch, where this is a part
        of it. weights: (B,T), one for each target. key: switches dropout on. grad=False keeps nothing for a backward.
        """
        cache = Cache(grad)
        h = cache.keep(self.hidden(ids, None, key, grad))
        size = self.config.vocab_size
        check_range(as_array(targets), size, f"targets must be -100 or 0 to {size - 1}: got {{}}", ops.IGNORED)
        targets = to_device(as_array(targets), self.device)
        weights = None if weights is None else to_device(as_array(weights), self.device)
        scale = {"normalizer": normalizer, "weights": weights}
        loss = cache.keep(ops.linear_cross_entropy_forward(h, self.head.value, targets, **scale, grad=grad))
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        dh, dw = ops.linear_cross_entropy_backward(dloss, cache.pop())
        accumulate(self.head, dw)
        self.hidden_backward(dh, cache.pop())

    def through(self, block: Module, x: Array, past: Past | None, key: Key | None, grad: bool) -> tuple[Array, Cache]:
        """block.forward(x, past, key, grad), whose cache is x alone if `checkpoint_blocks` says so.

        A block that reads a past is run once: it would write into it again.
        """
        if not grad or past is not None or not self.checkpoint_blocks:
            return block.forward(x, past, key, grad)
        forward = functools.partial(block.forward, key=key)
        return forward(x)[0], Recomputed(forward, x)

    @property
    def device(self) -> str:
        """"cpu" or "cuda": where the parameters are."""
        return device_of(self.head.data)

    def place(self, ids: Array, past: list[Past] | None = None) -> tuple[Array, Array]:
        """ids (B,T) -> the same on the model's device, positions (T,) that continue those of the past

        With padding in the past positions are (B,T): each row counts from its own first token. Raises InputError for
        ids of another shape or type, or more of them than the model has positions.
        """
        ids = check_ids(ids)
        start = past[0].length if past else 0
        end = start + ids.shape[1]
        if end > self.config.n_positions:
            raise InputError(f"{end} tokens are more than the {self.config.n_positions} positions of this model")
        size = self.config.vocab_size
        check_range(ids, size, f"token id {{}} is out of range: the table has {size} rows")
        ids = to_device(ids, self.device)
        xp = array_module(ids)
        positions = xp.arange(start, end)
        if past and past[0].padding is not None:
            positions = xp.maximum(positions - past[0].padding[:, None], 0)
        return ids, positions

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None) -> list[Past]:
        """An empty key-value cache, a `Past` for each layer: `hidden` and `forward` fill it and go on from it.

        A past with padding is for grad=False only.

        capacity: room for so many positions (default: all that the model has). padding: (B,) int, how many of the
        first ids of each row are padding.
        """
        padding = None if padding is None or not padding.any() else to_device(padding, self.device)
        return [Past(capacity or self.config.n_positions, padding) for _ in range(self.config.n_layer)]

    def generate(self, ids: Any, n_tokens: int, **options) -> np.ndarray | list[np.ndarray]:
        """ids (B,T) -> (B,T+N): the prompts and what follows them. Options: see `stream`.

        Prompts of different lengths, a list of B lists, come back as a list of B arrays (T_i+N,).
        """
        prompts, padding = pad_left(ids)
        steps = [step[:, None] for step in self.stream(ids, n_tokens, **options)]
        out = np.concatenate([prompts, *steps], axis=1)
        return [row[n:] for row, n in zip(out, padding, strict=True)] if padding.any() else out

    def stream(
        self, ids: Any, n_tokens: int, *, temperature=1.0, top_k=None, top_p=None, seed=0, stop=None, cache=True
    ) -> Iterator[np.ndarray]:
        """ids (B,T), or B lists of different lengths -> yields the next token of each row, (B,) int, n_tokens times

        temperature, top_k, top_p: see `sampling.next_tokens`. seed: row i draws from a generator of its own, seeded
        with (seed, i), on every device and among any number of rows. stop: a token id after which a row is finished;
        its later tokens are that id again, and the stream ends with the last row. Past the context the window slides:
        the oldest token is forgotten. cache=False reads everything again for each token: the same numbers, slowly.
        Raises InputError for a prompt without tokens and for options outside their range.
        """
        ids, padding = pad_left(ids)
        if n_tokens < 1 or seed < 0:
            raise InputError(f"n_tokens {n_tokens}, seed {seed}: give 1 token or more, and a seed of 0 or more")
        chance = [np.random.default_rng([seed, i]) for i in range(len(ids))]
        context, done, past = self.config.n_positions, np.zeros(len(ids), bool), None
        room = min(context, ids.shape[1] + n_tokens - 1)
        for _ in range(n_tokens):
            seen, slid = ids[:, -context:], max(0, ids.shape[1] - context)
            if past and cache and not slid:
                seen = ids[:, -1:]
            else:
                # Once the window slides, each of its tokens has a new position, on which all keys and values depend:
                # with absolute positions nothing of the past can be kept.
                past = self.new_past(room, np.maximum(padding - slid, 0))
            with self.exact():
                h, _ = self.hidden(seen, past, grad=False)
                logits, _ = ops.linear_forward(h[:, -1], self.head.value.T)
            uniform = np.array([rng.random() for rng in chance])
            chosen = sampling.next_tokens(to_numpy(logits), uniform, temperature, top_k, top_p)
            if stop is not None:
                chosen = np.where(done, stop, chosen)
                done |= chosen == stop
            yield chosen
            if done.all():
                return
            ids = np.concatenate([ids, chosen[:, None]], axis=1)

    def save(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors: a directory that Hugging Face transformers opens too."""
        tensors = {name: to_numpy(parameter.data) for name, parameter in self.named_parameters()}
        checkpoint.save_model(folder, self.config.to_dict(), tensors)

    @classmethod
    def load(cls, folder: str | Path, dtype=np.float32, **changes) -> "LanguageModel":
        """Open a model directory, written here or by transformers.

        changes: configuration values to replace, such as resid_pdrop=0.0. Raises InputError for a missing, damaged or
        foreign file, and for a tensor that is missing or misshapen.
        """
        values = checkpoint.load_config(folder, cls.Config.model_type)
        config = cls.Config.from_dict(values | changes)
        model = cls(config, seed=None, dtype=dtype)
        checkpoint.fill(dict(model.named_parameters()), checkpoint.load_weights(folder), Path(folder))
        return model
