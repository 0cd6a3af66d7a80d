"""Safetensors files: arrays by name. Those that are written here carry a checksum over every bit that they have.

The checksum is the sha256 of the whole file, in which the 64 digits of the checksum itself are read as zeros. It stands
in the metadata, at the beginning of the header, where other programs do not look. Files of other programs have none.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors

from minigpt.errors import InputError
from minigpt.files.disk import each_key_once, in_place_of, reason

SUM = "sha256"  # the key of the checksum
WRITER = {"written_by": "minigpt"}  # a second mark, so that a damaged key of the checksum is noticed too
BLANK = "0" * 64  # stands for the checksum while it is computed
BEGIN = b'{"__metadata__": {"sha256": "'  # how the header of every file that is written here begins
CHUNK = 1 << 20  # bytes that are read at a time
NARROW = np.dtype("V2")  # an element of bfloat16, for which NumPy has no type: two bytes


class Header(NamedTuple):
    """What a file says of itself: an entry for each tensor, its metadata, and where its numbers begin, in bytes."""

    entries: dict[str, dict]
    metadata: dict[str, str]
    start: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return {name: tuple(entry["shape"]) for name, entry in self.entries.items()}


class Deferred:
    """A tensor that is computed when it is written, so that one of a file is in memory at a time.

    compute(): an array of this shape and dtype.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, compute: Callable[[], np.ndarray]):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize
        self.nbytes = math.prod(shape) * self.itemsize
        self.compute = compute

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.compute()


def save_tensors(path: str | Path, tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file with its checksum, so that at every moment either the old one or the new one is whole.

    tensors {name: an array, or one that is `Deferred`}.
    Raises InputError where it cannot be written (a full disk, no permission); the old file is then still there.
    """
    with in_place_of(Path(path)) as beside:
        _write(beside, tensors, metadata or {})


def load_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read a safetensors file: its arrays by name, and its metadata. bfloat16 comes back as float32.

    Raises InputError for a missing, truncated, damaged or foreign file.
    """
    path = Path(path)
    header = read_header(path)
    try:
        _check_sum(path, header)
        tensors = _numbers(path, header)
    except InputError:
        raise
    except (OSError, safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {reason(error)}") from error
    except TypeError as error:
        raise InputError(f"{path}: {error}, which NumPy has no type for: save it in float32") from error
    except MemoryError as error:
        raise InputError(f"{path}: this machine has not enough memory for its numbers") from error
    metadata = {key: value for key, value in header.metadata.items() if key not in (SUM, *WRITER)}
    return tensors, metadata


def read_header(path: str | Path) -> Header:
    """The header of a safetensors file, whose numbers are not read. It promises no more than the file holds.

    Raises InputError for a missing, truncated, damaged or foreign file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    try:
        with safetensors.safe_open(path, framework="numpy"):  # the library compares the header with the file
            return _parsed(path)
    except (OSError, safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {reason(error)}") from error


def _parsed(path: Path) -> Header:
    """The header of a file that the library found whole.

    Two rules of the format the library does not check: the header begins with a brace, and no name stands in it twice.
    Raises ValueError where one of them is broken.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length)
    if text[:1] != b"{":
        raise ValueError("its header does not begin with {")
    entries = json.loads(text.decode("utf-8"), object_pairs_hook=each_key_once)
    metadata = entries.pop("__metadata__", None) or {}
    return Header(entries, metadata, 8 + length)


def _check_sum(path: Path, header: Header) -> None:
    """Raises InputError where a file that was written here is not what was written."""
    marked = SUM in header.metadata or WRITER.items() <= header.metadata.items()
    with path.open("rb") as file:
        length = file.read(8)
        text = file.read(header.start - 8)
        if not marked and not text.startswith(BEGIN):
            return
        end = len(BEGIN) + len(BLANK)
        said = text[len(BEGIN) : end].decode("utf-8", errors="replace")
        digest = hashlib.sha256(length + BEGIN + BLANK.encode() + text[end:])
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    found = digest.hexdigest()
    if not text.startswith(BEGIN) or said != found:
        sums = f"its checksum is {found[:16]}..., the file says {said[:16]!r}"
        advice = "take another copy of it, or save it without this metadata if another program changed it"
        raise InputError(f"{path}: {sums}: it is damaged; {advice}")


def _numbers(path: Path, header: Header) -> dict[str, np.ndarray]:
    """The tensors by name. Raises TypeError for a dtype that NumPy does not have."""
    tensors = {}
    with safetensors.safe_open(path, framework="numpy") as file:
        for name in list(file.keys()):
            entry = header.entries[name]
            kind = entry["dtype"]
            if kind.startswith(("F4", "F6_", "F8")):
                raise TypeError(f"{name} holds {kind}")
            if kind == "BF16":
                tensors[name] = _widen(path, header.start, entry)
            else:
                tensors[name] = file.get_tensor(name)
    return tensors


def _widen(path: Path, start: int, entry: dict[str, Any]) -> np.ndarray:
    """A bfloat16 tensor as float32, of which it is the upper half."""
    begin, end = entry["data_offsets"]
    n_numbers = (end - begin) // 2
    upper = np.fromfile(path, "<u2", n_numbers, offset=start + begin)
    bits = upper.astype(np.uint32) << 16
    return bits.view(np.float32).reshape(entry["shape"])


def narrow(tensor: np.ndarray) -> np.ndarray:
    """Floats rounded to the nearest bfloat16, of two the even one: arrays of two bytes that `save_tensors` can write.

    bfloat16 is the upper half of a float32: its range, with 8 binary digits in place of 24.
    """
    bits = np.ascontiguousarray(tensor, dtype=np.float32).view(np.uint32).reshape(tensor.shape)
    lowest_kept = (bits >> 16) & 1
    rounded = (bits + 0x7FFF + lowest_kept) >> 16
    return rounded.astype("<u2").view(NARROW)


def _write(path: Path, tensors: Mapping[str, Any], metadata: dict[str, str]) -> None:
    """The safetensors format: the length of a header, the header in JSON, the numbers of one tensor after the other.

    Written here, because the library's own writer leaves a hidden file of full size behind whenever it is killed. The
    checksum grows with what is written, and takes its place in the header at the end: nothing is held twice.
    """
    text = _header_text(tensors, {SUM: BLANK, "format": "pt"} | WRITER | metadata)
    begin = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(begin)
    with path.open("wb") as file:
        file.write(begin)
        for tensor in tensors.values():
            numbers = np.asarray(tensor, order="C").reshape(-1).view(np.uint8)
            file.write(numbers.data)
            digest.update(numbers.data)
        file.seek(8 + len(BEGIN))
        file.write(digest.hexdigest().encode())


def _header_text(tensors: Mapping[str, Any], metadata: dict[str, str]) -> bytes:
    """The header in JSON; the numbers after it begin at a multiple of 8."""
    header: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.nbytes
        letter = {"f": "F", "i": "I", "u": "U", NARROW.kind: "BF"}[tensor.dtype.kind]
        bits = 8 * tensor.itemsize
        header[name] = {"dtype": f"{letter}{bits}", "shape": tensor.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode("utf-8")
    return text + b" " * (-len(text) % 8)
