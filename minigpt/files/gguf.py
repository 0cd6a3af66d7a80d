"""GGUF files, in which llama.cpp and Ollama keep a model: what a file says of it, and its tensors, unpacked.

One file holds everything: settings by their names (architecture, sizes, vocabulary, template of a chat), then for each
tensor its name, its sizes and where its numbers begin, then the numbers. Most tensors are *quantised*: blocks of 32 or
256 numbers share a scale and are kept in 2 to 8 bits each. What a block means knows the package `gguf` (extra `gguf`).

    header = gguf.read_header("SmolLM2.gguf")
    header.settings["llama.block_count"], header.tensors["token_embd.weight"].shape
    gguf.unpack(header, "token_embd.weight")           # float32

The header is read here: every length in it is compared with the file before it is believed, and a vocabulary of 100,000
tokens takes a fraction of a second.
"""

import functools
import math
import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from minigpt.errors import InputError, shown
from minigpt.files.disk import reason

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # version 1 counted in 32 bits, and was in use for three weeks of 2023
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9  # the types of a setting that are no numbers
ALIGNMENT = 32  # tensors begin at a multiple of it, in bytes, where the settings name no other
MOST_AXES = 4


class Tensor(NamedTuple):
    """Where a tensor lies. shape: as in NumPy; kind: the number of its quantisation; start: in bytes, in the file."""

    shape: tuple[int, ...]
    kind: int
    start: int


class Header(NamedTuple):
    """What a file says of itself. settings {name: value}; tensors {name: where it lies}; size: of the file, in bytes.
    """

    path: Path
    settings: dict[str, Any]
    tensors: dict[str, Tensor]
    size: int


class _Damaged(ValueError):
    """What was read is no header."""


# --------------------------------------------------------------------------------------------------------- the header


class _Reader:
    """Takes values of a file, one after the other, never beyond its end."""

    def __init__(self, file: BinaryIO, size: int):
        self.file = file
        self.left = size

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        if count > self.left:
            raise _Damaged("it ends in the middle of its header")
        self.left -= count
        return self.file.read(count)

    def number(self, letter: str) -> Any:
        """A number; letter: its type, as `struct` calls it."""
        return struct.unpack(f"<{letter}", self.bytes(struct.calcsize(letter)))[0]

    def text(self) -> str:
        """A text: its length, and its bytes in UTF-8."""
        return self.bytes(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        """A number, a text, or a list of one of these."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            raise _Damaged(f"a setting is of the type {kind}, which GGUF does not have")
        kind = self.number("I")
        count = self.number("Q")
        if kind == TEXT:
            return [self.text() for _ in range(count)]
        if kind not in NUMBERS:
            raise _Damaged(f"a list holds values of the type {kind}, which is not built")
        letter = NUMBERS[kind]
        content = self.bytes(count * struct.calcsize(letter))
        return np.frombuffer(content, f"<{letter}").tolist()


def read_header(path: str | Path) -> Header:
    """The settings and the tensors of a GGUF file, whose numbers are not read.

    Raises InputError for a missing, truncated, damaged or foreign file, and for another version of the format.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is no file: give a GGUF file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _header(_Reader(file, size), path, size)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no whole GGUF file ({reason(error)}): it is damaged or cut off") from error


def _header(read: _Reader, path: Path, size: int) -> Header:
    if read.bytes(4) != MAGIC:
        raise InputError(f"{path} is no GGUF file: it does not begin with GGUF")
    version = read.number("I")
    if version and version & 0xFFFF == 0:
        raise InputError(f"{path} was written for a processor that keeps the high byte first, which is not built")
    if version not in VERSIONS:
        built = " and ".join(map(str, VERSIONS))
        raise InputError(f"{path} is of version {version} of the format: built are {built}; convert the model again")
    n_tensors = read.number("Q")
    n_settings = read.number("Q")
    settings = {}
    for _ in range(n_settings):
        name = read.text()
        if name in settings:
            raise _Damaged(f"its setting {name[:60]!r} is there twice")
        settings[name] = read.value(read.number("I"))
    places = {}
    for _ in range(n_tensors):
        name = read.text()
        if name in places:
            raise _Damaged(f"its tensor {name[:60]!r} is there twice")
        places[name] = _place(read)
    step = settings.get("general.alignment", ALIGNMENT)
    if not isinstance(step, int) or step < 1:
        raise _Damaged(f"its general.alignment is {shown(step)}")
    end = size - read.left
    start = -(-end // step) * step
    tensors = {name: place._replace(start=start + place.start) for name, place in places.items()}
    return Header(path, settings, tensors, size)


def _place(read: _Reader) -> Tensor:
    """What stands behind the name of a tensor: its sizes, the last one first, its type, and its start in the numbers.
    """
    n_axes = read.number("I")
    if n_axes > MOST_AXES:
        raise _Damaged(f"a tensor has {n_axes} axes, and {MOST_AXES} at most are possible")
    sizes = [read.number("Q") for _ in range(n_axes)]
    return Tensor(tuple(reversed(sizes)), read.number("I"), read.number("Q"))


# ------------------------------------------------------------------------------------------------------------ tensors


def library() -> Any:
    """The package `gguf`. Raises InputError where it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise InputError("GGUF files are unpacked by the package gguf: pip install gguf") from error
    return gguf


class Quantisation(NamedTuple):
    """How numbers are kept: in blocks of `numbers`, each of `bytes`."""

    name: str
    numbers: int
    bytes: int


@functools.cache
def quantisation(kind: int) -> Quantisation:
    """The quantisation with this number. Raises InputError for one that the package does not know or cannot unpack."""
    package = library()
    try:
        known = package.GGMLQuantizationType(kind)
    except ValueError as error:
        raise InputError(f"the quantisation {kind} is not known to the package gguf: install a newer one") from error
    numbers, size = package.GGML_QUANT_SIZES[known]
    try:
        package.dequantize(np.zeros((1, size), np.uint8), known)
    except NotImplementedError as error:
        raise InputError(f"the quantisation {known.name} cannot be unpacked by the package gguf: "
                         "convert the model to another one, such as Q8_0") from error  # fmt: skip
    return Quantisation(known.name, numbers, size)


def check(header: Header, name: str) -> Quantisation:
    """How a tensor is kept. Raises InputError where it is missing, cannot be unpacked, or is not whole in the file."""
    if name not in header.tensors:
        raise InputError(f"{header.path}: the tensor {name} is missing")
    tensor = header.tensors[name]
    try:
        kept = quantisation(tensor.kind)
    except InputError as error:
        raise InputError(f"{header.path}: the tensor {name}: {error}") from error
    if not tensor.shape or tensor.shape[-1] % kept.numbers:
        raise InputError(f"{header.path}: the tensor {name} has the shape {tensor.shape}, and {kept.name} keeps "
                         f"{kept.numbers} numbers together: the file is damaged")  # fmt: skip
    end = tensor.start + _size(tensor, kept)
    if end > header.size:
        raise InputError(f"{header.path} ends at byte {header.size:,}, and the tensor {name} at {end:,}: "
                         "the file is cut off or damaged")  # fmt: skip
    return kept


def _size(tensor: Tensor, kept: Quantisation) -> int:
    return math.prod(tensor.shape) // kept.numbers * kept.bytes


def unpack(header: Header, name: str) -> np.ndarray:
    """A tensor as float32, of its shape.

    Raises InputError as `check` does, where the file cannot be read, and for numbers that are not finite.
    """
    kept = check(header, name)
    package = library()
    tensor = header.tensors[name]
    *rows, columns = tensor.shape
    try:
        content = np.fromfile(header.path, np.uint8, _size(tensor, kept), offset=tensor.start)
    except OSError as error:
        raise InputError(f"{header.path} cannot be read: {reason(error)}") from error
    blocks = content.reshape(*rows, columns // kept.numbers * kept.bytes)
    with np.errstate(all="ignore"):  # damaged scales; what comes of them is looked at below
        numbers = package.dequantize(blocks, package.GGMLQuantizationType(tensor.kind))
    if not np.isfinite(numbers).all():
        raise InputError(f"{header.path}: the tensor {name} holds numbers that are not finite: the file is damaged")
    return numbers
