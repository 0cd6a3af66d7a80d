"""What is common to the configurations of all models."""

import textwrap
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.errors import InputError, check_number, check_whole, shown
from minigpt.models import config_file

LONGEST_LIST = 200  # letters of a list in a message
LARGEST = 1 << 31  # sizes are below this: they are 32-bit numbers in kernels


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes that every model has. Keys are those of a Hugging Face config.json.

    Raises InputError for a size that is no whole number of 1 or more, for a width that the heads cannot share, for
    rates and other numbers outside their range, and for the type of another model.

    aliases: {key: the other names that it has in files}. only: {key: the only value that is built here}. other_types:
    what files call a model of the same kind, which is opened as this one. left_out: {key in a file: what other
    programs take where a file of theirs leaves it out}, if it is not the default here.
    """

    aliases: ClassVar[dict[str, tuple[str, ...]]] = config_file.ALIASES
    only: ClassVar[dict[str, Any]] = config_file.ONLY
    other_types: ClassVar[tuple[str, ...]] = ()
    left_out: ClassVar[dict[str, Any]] = {}

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
            self._check_size(name)
        self._check_heads()
        inner = getattr(self, "n_inner", None)
        if inner is not None:
            self._check_size("n_inner")
            if inner == 4 * self.n_embd:
                object.__setattr__(self, "n_inner", None)  # so that equal models have equal configurations
        for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop"):
            rate = getattr(self, name, 0.0)
            check_number(name, rate, "a dropout rate from 0 up to, but not including, 1", least=0, below=1)
        for name in ("layer_norm_epsilon", "initializer_range"):
            check_number(name, getattr(self, name, 1.0), "a number above 0", above=0)
        for name in ("bos_token_id", "eos_token_id"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), "a token id, or None", least=-LARGEST)
        for name in self.flags():
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {shown(getattr(self, name))}: give True or False")
        own_type, *_ = self.types()
        if self.model_type != own_type:
            raise InputError(f"model_type is {self.model_type!r}: a {type(self).__name__} is of type {own_type!r}")

    @property
    def sizes(self) -> str:
        """In words: "12 layers, 12 heads, 768 wide, 1,024 positions, vocabulary 50,257"."""
        layers = "layer" if self.n_layer == 1 else "layers"
        heads = "head" if self.n_head == 1 else "heads"
        shape = f"{self.n_layer:,} {layers}, {self.n_head:,} {heads}, {self.n_embd:,} wide"
        return f"{shape}, {self.n_positions:,} positions, vocabulary {self.vocab_size:,}"

    def _check_heads(self) -> None:
        c = self.n_embd
        heads = self.n_head
        if c % heads == 0:
            return
        smaller = max(1, c // heads) * heads
        larger = (c // heads + 1) * heads
        choices = f"{larger}" if smaller == larger else f"{smaller} or {larger}"
        raise InputError(f"n_embd {c} is not a multiple of n_head {heads}: choose {choices}")

    def _check_size(self, name: str) -> None:
        value = getattr(self, name)
        check_whole(name, value, f"a whole number from 1 to {LARGEST - 1:,}", least=1, below=LARGEST)
        object.__setattr__(self, name, int(value))  # also of a NumPy number, which no config.json can hold

    @classmethod
    def flags(cls) -> set[str]:
        """The names of the values that are True or False."""
        return {field.name for field in fields(cls) if field.type is bool}

    @classmethod
    def types(cls) -> tuple[str, ...]:
        """What the model_type of a file may be, its own first."""
        return (cls.model_type, *cls.other_types)  # type: ignore[misc]  # the default, which every subclass gives

    @classmethod
    def check_names(cls, names) -> None:
        """Raises InputError for a name that is none of a configuration value, with the first that there are."""
        known = [field.name for field in fields(cls)]
        there_are = textwrap.shorten(", ".join(known), LONGEST_LIST, placeholder=" and others")
        for name in names:
            if name not in known:
                raise InputError(f"{cls.__name__} has no {shown(name)}: there are {there_are}")

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json; keys that this class does not know are left out.

        Raises InputError where a size is missing, where two keys contradict each other, for a value of a wrong type,
        and for a variant of the model that is not built here.
        """
        values = config_file.translated(values, cls.aliases)
        required = [field.name for field in fields(Config) if field.default is MISSING]
        missing = sorted(set(required) - set(values))
        if missing:
            raise InputError(f"config.json has no {', '.join(missing)}: is it one of {cls.__name__}?")
        config_file.check_variant(values, cls.only)
        own_type, *other_types = cls.types()
        if values.get("model_type") in other_types:
            values["model_type"] = own_type
        known = config_file.known_values(values, {field.name for field in fields(cls)}, cls.flags())
        return cls(**known)

    def to_dict(self) -> dict:
        """For a config.json."""
        return asdict(self)


def check_dtype(dtype: Any) -> None:
    """Raises InputError for a dtype that is not one of floats."""
    try:
        is_float = dtype is not None and np.issubdtype(np.dtype(dtype), np.floating)
    except TypeError:
        is_float = False
    if not is_float:
        given = getattr(dtype, "__name__", None) or shown(dtype)
        raise InputError(f"dtype is {given}: give np.float32 or np.float64")
