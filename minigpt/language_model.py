"""What every language model here has in common: logits, a loss with its backward pass, saving, loading, generating."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt import checkpoint, ops, sampling
from minigpt.backend import Array, array_module, device_of, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.key import Key
from minigpt.nn import Cache, Module, Parameter, accumulate


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is common to all configurations. Keys are those of a Hugging Face config.json."""

    model_type: str
    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int

    def __post_init__(self):
        for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is {value!r}: give a whole number, 1 or more")
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
        known = {field.name for field in fields(cls)}
        missing = {field.name for field in fields(Config)} - set(values)
        if missing:
            raise InputError(f"config.json has no {', '.join(sorted(missing))}: is it one of {cls.__name__}?")
        return cls(**{key: value for key, value in values.items() if key in known})

    def to_dict(self) -> dict:
        """For a config.json."""
        return asdict(self)


def as_array(values: Any) -> Array:
    """A list as a NumPy array; an array as it is, wherever it lives."""
    return np.asarray(values) if isinstance(values, (list, tuple)) else values


def check_ids(ids: Any) -> Array:
    """ids (B,T) int, as an array. Raises InputError for another shape or type, and where there are none."""
    ids = as_array(ids)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        raise InputError(f"ids are {ids.dtype} of shape {ids.shape}: give whole numbers of shape (batch, time)")
    return ids


class LanguageModel(Module):
    """A model of the next token. A subclass has `config`, `head`, `hidden` and `hidden_backward`."""

    Config: ClassVar[type[Config]]
    config: Any
    head: Parameter

    def hidden(self, ids: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C)"""
        raise TypeError(f"{type(self).__name__} does not say how to compute hidden states")

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        raise TypeError(f"{type(self).__name__} does not say how to go back through its hidden states")

    def forward(self, ids: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): logits[:, t] are the scores of token t + 1"""
        cache = Cache(grad)
        h = cache.keep(self.hidden(ids, past, key, grad))
        logits = cache.keep(ops.linear_forward(h, self.head.data.T))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        dh, dw_t, _ = ops.linear_backward(dlogits, cache.pop())
        accumulate(self.head, dw_t.T)
        self.hidden_backward(dh, cache.pop())

    def loss(
        self,
        ids: Array,
        targets: Array,
        normalizer: float | None = None,
        weights: Array | None = None,
        key: Key | None = None,
        grad: bool = True,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int, targets (B,T) int -> loss (), in nats per token (GPT-1 equation 1, averaged)

        A target of -100 is not predicted. normalizer: the number of targets of the whole batch, where this is a part
        of it. weights: (B,T), one for each target. key: switches dropout on. grad=False keeps nothing for a backward.
        """
        cache = Cache(grad)
        h = cache.keep(self.hidden(ids, None, key, grad))
        targets = to_device(as_array(targets), self.device)
        weights = None if weights is None else to_device(as_array(weights), self.device)
        scale = {"normalizer": normalizer, "weights": weights}
        loss = cache.keep(ops.linear_cross_entropy_forward(h, self.head.data, targets, **scale, grad=grad))
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        dh, dw = ops.linear_cross_entropy_backward(dloss, cache.pop())
        accumulate(self.head, dw)
        self.hidden_backward(dh, cache.pop())

    @property
    def device(self) -> str:
        """"cpu" or "cuda": where the parameters are."""
        return device_of(self.head.data)

    def place(self, ids: Array, past=None) -> tuple[Array, Array]:
        """ids (B,T) -> the same on the model's device, positions (T,) that continue those of the past

        Raises InputError for ids of another shape or type, or more of them than the model has positions.
        """
        ids = check_ids(ids)
        start = past[0][0].shape[-2] if past else 0
        end = start + ids.shape[1]
        if end > self.config.n_positions:
            raise InputError(f"{end} tokens are more than the {self.config.n_positions} positions of this model")
        ids = to_device(ids, self.device)
        return ids, array_module(ids).arange(start, end)

    def generate(
        self, ids: Array, n_tokens: int, *, temperature=1.0, top_k=None, top_p=None, seed: int = 0, stop=None
    ) -> np.ndarray:
        """ids (B,T) -> (B,T+N): the prompts and what follows them. Options: see `stream`."""
        options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "stop": stop}
        steps = [step[:, None] for step in self.stream(ids, n_tokens, **options)]
        return np.concatenate([to_numpy(check_ids(ids)), *steps], axis=1)

    def stream(
        self, ids: Array, n_tokens: int, *, temperature=1.0, top_k=None, top_p=None, seed: int = 0, stop=None
    ) -> Iterator[np.ndarray]:
        """ids (B,T) -> yields the next token of each row, (B,) int, at most n_tokens times

        temperature, top_k, top_p: see `sampling.next_tokens`; seed: the draws are the same on every device. stop: a
        token id after which a row is finished; its later tokens are that id again. Past the context the oldest tokens
        slide out of the window.
        """
        ids, rng = to_numpy(check_ids(ids)).astype(np.int64), np.random.default_rng(seed)
        done = np.zeros(len(ids), bool)
        for _ in range(n_tokens):
            window = ids[:, -self.config.n_positions :]
            h, _ = self.hidden(window, grad=False)
            logits, _ = ops.linear_forward(h[:, -1], self.head.data.T)
            uniform = rng.random(len(ids))
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
