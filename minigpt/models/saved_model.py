"""What every model does with files: saving, and opening what was written here, by transformers, or published."""

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt import tokenizer
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError, check_folder
from minigpt.files import checkpoint
from minigpt.models.config import Config as ModelConfig
from minigpt.nn import Embedding, Module, Parameter
from minigpt.nn.layers import inner_width

SPARE_LAYERS = 1000  # layers, and numbers, that cost nothing to build before the tensors are compared one by one
SPARE_NUMBERS = 1 << 20
TABLES = ("vocab_size", "n_positions", "n_segments", "n_distances")  # configuration values that are rows of a table
PADDING = (8, 16, 32, 64, 128, 256, 512)  # rows of an embedding are filled up to a multiple of one of these


class SavedModel(Module):
    """A module with a configuration, which a folder can hold. A subclass has `config`, `head` and `embeddings`.

    release: a module that reads another form in which the model was published, or None.
    """

    Config: ClassVar[type[ModelConfig]]
    config: Any
    head: Parameter
    embeddings: tuple[Embedding, ...]
    release: Any = None
    prefix = "transformer."  # what other programs may put before the names of tensors
    tied_heads: tuple[str, ...] = ("lm_head.weight",)  # under which names they store the head once more

    def __init__(self, config: ModelConfig, seed: int | None = 0, dtype=np.float32):
        raise TypeError(f"{type(self).__name__} does not say how it is built")

    def save(self, folder: str | Path, overwrite: bool = False, dtype: str | None = None) -> None:
        """Write config.json and model.safetensors: a directory that Hugging Face transformers opens too.

        overwrite: also in the folder of a training run, and beside a tokenizer of another size. Without it raises
        InputError there, for the folder would no longer hold what belongs together; and so does, in any case, a model
        with adapters (see `lora`), which is no usual model before they are merged. dtype: None keeps that of the
        model; "bfloat16" rounds each weight to 8 binary digits, two bytes, which `load` widens again.
        """
        check_folder(folder)
        if dtype not in (None, "bfloat16"):
            raise InputError(f"dtype is {dtype!r}: give bfloat16, or leave it out to keep that of the model")
        if not overwrite:
            self.check_folder(Path(folder))
        tensors = {}
        for name, parameter in self.named_parameters():
            if name.endswith(".lora_A"):
                raise InputError("this model has adapters: merge_lora(model) first, or save_adapter(model, folder)")
            tensors[name] = to_numpy(parameter.data)
        published = self.to_published(tensors)
        checkpoint.save_model(folder, self.config.to_dict(), published, dtype)

    def checksum(self) -> str:
        """The sha256 of the configuration and of all parameters, in hexadecimal."""
        digest = hashlib.sha256(json.dumps(self.config.to_dict(), sort_keys=True).encode())
        for _, parameter in self.named_parameters():
            digest.update(to_numpy(parameter.data).tobytes())
        return digest.hexdigest()

    def check_folder(self, folder: Path) -> None:
        """Raises InputError where saving in this folder would part what belongs together."""
        instead = "give another folder, or overwrite=True"
        if (folder / checkpoint.RESUME).exists():
            raise InputError(f"{folder} holds a training run, whose best model would be lost: {instead}")
        if not any((folder / name).exists() for name in tokenizer.FILES):
            return
        with contextlib.suppress(InputError):  # a config.json that cannot be read says nothing
            if checkpoint.load_config(folder).get("vocab_size") == self.config.vocab_size:
                return
        n_tokens = tokenizer.load(folder).vocab_size
        if n_tokens != self.config.vocab_size:
            sizes = f"of {n_tokens} tokens, and this model has {self.config.vocab_size}"
            raise InputError(f"{folder} holds a tokenizer {sizes}: {instead}")

    @classmethod
    def load(cls, folder: str | Path, dtype=np.float32, **changes) -> Self:
        """Open a model directory, written here or by transformers.

        changes: configuration values to replace, such as resid_pdrop=0.0. Raises InputError for a missing, damaged or
        foreign file, for a tensor that is missing or misshapen, and for a change of what the configuration has not.
        """
        cls.Config.check_names(changes)
        check_folder(folder)
        folder = Path(folder)
        config = dataclasses.replace(cls.config_in(folder), **changes)
        try:
            model = cls(config, seed=None, dtype=dtype)
            tensors = model.read_tensors(folder)
        except MemoryError as error:
            raise InputError(f"{folder}: this machine has not enough memory for this model") from error
        parameters = dict(model.named_parameters())
        checkpoint.fill(parameters, tensors, folder)
        return model

    @classmethod
    def config_in(cls, folder: Path) -> ModelConfig:
        """The configuration in a folder, which was compared with the weights before memory is taken for them.

        Raises InputError for another type of model, for a configuration that cannot be, and as `check_size` does.
        """
        values = cls.read_config(folder)
        own_type, *other_types = cls.Config.types()
        if values["model_type"] not in (own_type, *other_types):
            expected = f"expected {own_type!r}"
            raise InputError(f"{folder} holds a model of type {values['model_type']!r}; {expected}")
        if not cls._is_release(folder) and checkpoint.saved_config(folder) is None:
            values = cls.Config.left_out | values
        config = cls.Config.from_dict(values)
        shapes = None if cls._is_release(folder) else checkpoint.shapes(folder)
        if shapes is not None:
            config = cls.fitted(config, shapes, values)
            cls.check_size(config, shapes, folder)
            checkpoint.check_config(folder, values)
        return config

    @classmethod
    def fitted(cls, config: ModelConfig, names: Iterable[str], values: dict) -> ModelConfig:
        """The configuration for a file with tensors of these names. values: what its config.json says."""
        return config

    @classmethod
    def check_size(cls, config: ModelConfig, shapes: dict[str, tuple[int, ...]], source: Path) -> None:
        """Raises InputError for a model that is far larger than its weights, before memory is taken for it.

        What is a little too large is left to `checkpoint.fill`, which names the tensor that does not fit.
        """
        n_numbers = sum(map(math.prod, shapes.values()))
        least = cls.least_size(config)
        if config.n_layer > len(shapes) + SPARE_LAYERS:
            given = f"n_layer is {config.n_layer:,}, and the weights are {len(shapes):,} tensors in all"
        elif least > max(4 * n_numbers, SPARE_NUMBERS):
            given = f"a model of these sizes has {least:,} numbers or more, and the weights are {n_numbers:,}"
        else:
            return
        names = [name for name in (*TABLES, "n_embd") if hasattr(config, name)]
        sizes = ", ".join(f"{name} {getattr(config, name)}" for name in names)
        raise InputError(f"{source}: {given} ({sizes}): the configuration does not belong to these weights")

    @classmethod
    def least_size(cls, config: ModelConfig) -> int:
        """The numbers in the matrices of a model: its tables, and in each block 4 C^2 and 2 C times the inner width."""
        c = config.n_embd
        rows = sum(getattr(config, name, 0) for name in TABLES)
        block = (4 * c + 2 * inner_width(config)) * c
        return rows * getattr(config, "table_width", c) + config.n_layer * block

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Does this folder hold a model of this class?"""
        if cls._is_release(folder):
            return True
        if not (folder / checkpoint.CONFIG).is_file():
            return False
        return checkpoint.load_config(folder)["model_type"] in cls.Config.types()

    @classmethod
    def read_config(cls, folder: Path) -> dict:
        """The configuration in a folder, as config.json writes it; "model_type" says which model it is."""
        if cls._is_release(folder):
            return cls.release.config(folder)
        return checkpoint.load_config(folder)

    @classmethod
    def _is_release(cls, folder: Path) -> bool:
        """Does this folder hold the model in the other form, that of `release`?"""
        return cls.release is not None and cls.release.is_in(folder)

    def read_tensors(self, folder: Path) -> dict[str, np.ndarray]:
        """The tensors in a folder, under the names that parameters have here.

        Raises InputError for a damaged file, and where neither the embedding nor a head tied to it is there.
        """
        if self._is_release(folder):
            return self.from_published(self.release.tensors(folder), folder)
        published = checkpoint.load_weights(folder)
        plain = self.from_published(published, folder)
        untied = checkpoint.load_config(folder).get("tie_word_embeddings") is False
        may_be_untied = hasattr(self.config, "tie_word_embeddings")  # then a missing head is named as any other tensor
        if untied and not may_be_untied and not self._plain_names(published) >= {self._name_of_the_head()}:
            raise InputError(f"{folder}: tensor {self._name_of_the_head()} is missing, and its head is not tied to it")
        return plain

    def _plain_names(self, names: Iterable[str]) -> set[str]:
        """The names without the prefix of other programs."""
        return {name.removeprefix(self.prefix) for name in names}

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """Tensors under the published names -> under the names of the parameters here.

        The prefix of other programs is dropped, and so are stored causal masks. A stored head must be the token
        embedding again, and takes its place where only the head was stored. Rows of the embedding that were added
        behind the vocabulary, up to a multiple of 8, are left out. Raises InputError for a head that differs.
        """
        plain = {}
        for name, tensor in tensors.items():
            name = name.removeprefix(self.prefix)
            if name in plain:
                raise InputError(f"{folder}: a tensor is there twice, with and without the prefix {self.prefix}")
            if not _is_mask(name, tensor):
                plain[name] = tensor
        head_name = self._name_of_the_head()
        for name in self.tied_heads:
            if name == head_name or name not in plain:  # a head of its own, or none that is stored again
                continue
            head = plain.pop(name)
            embedding = plain.setdefault(head_name, head)
            if not np.array_equal(head, embedding):
                raise InputError(f"{folder}: {name} differs from the token embedding: {self._own_head_advice()}")
        for name in (self._name_of(self.embeddings[0].weight), head_name):
            if name in plain:
                plain[name] = _without_padding(plain[name], self.config.vocab_size)
        return plain

    def _own_head_advice(self) -> str:
        """What to do with a head that differs from the token embedding."""
        if hasattr(self.config, "tie_word_embeddings"):
            return 'for a head of its own config.json must say "tie_word_embeddings": false'
        return "only tied heads are built here"

    def _name_of_the_head(self) -> str:
        """The name of the token embedding, which is the head, or of the head that a model has beside it."""
        return self._name_of(self.head)

    def _name_of(self, wanted: Parameter) -> str:
        """The name of a parameter."""
        for name, parameter in self.named_parameters():
            if parameter is wanted:
                return name
        raise AssertionError("this is no parameter of this model")

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Tensors under the names of the parameters here -> under the published ones: for GPT they are the same."""
        return tensors


def is_padded(n_rows: int, vocab_size: int) -> bool:
    """Is it a vocabulary whose rows were filled up to a multiple of 8, 16, ... 512, for the sake of speed?"""
    if n_rows <= vocab_size:
        return False
    return any(n_rows == math.ceil(vocab_size / step) * step for step in PADDING)


def _without_padding(embedding: np.ndarray, vocab_size: int) -> np.ndarray:
    """embedding (R,C) -> the rows of the vocabulary (V,C), where R is V filled up; else as it is"""
    if embedding.ndim == 2 and is_padded(len(embedding), vocab_size):
        return embedding[:vocab_size]
    return embedding


def _is_mask(name: str, tensor: np.ndarray) -> bool:
    """Is this tensor a causal mask, which other programs store beside the weights?"""
    if name.endswith(".attn.masked_bias"):
        return True
    return name.endswith(".attn.bias") and tensor.ndim == 4
