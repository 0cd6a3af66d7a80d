"""How the judge and a learner's process talk: messages of JSON with raw numbers behind it, and no pickle.

A message is its two lengths (of the JSON and of the numbers, 8 bytes each), the JSON, and the numbers of its arrays one
after the other. What Python's JSON has itself stands there as it is, NaN and long integers too; a list is a list.
Everything else is a pair {kind: what is in it}: {"tuple": [...]}, {"dict": [[key, value], ...]}, {"bytes": how many},
{"array": [dtype, shape]}, and so on.

This file needs the standard library and NumPy only: the learner's process loads it by its path.
"""

import json
import math
import re
import struct
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

LENGTHS = struct.Struct("<QQ")
MAX_TEXT = 4 * 2**20  # bytes of the JSON of one message
MAX_NUMBERS = 64 * 2**20  # bytes of its arrays
MAX_DEPTH = 40  # of values in values
MAX_AXES = 32
MAX_KEYS = 5_000  # of all dicts and sets of one message: keys that are chosen to collide take the square of the time
KINDS = "biufc"  # dtypes of numbers, which need no pickle
DTYPE = re.compile(f"[<>|][{KINDS}][0-9]{{1,2}}")  # what NumPy would read in another text is not of interest
PLAIN = (type(None), bool, str, int, float)
ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode  # made once: half the time of dumps


class Key(NamedTuple):
    """The key of a draw of random bits, as a process without minigpt has it."""

    bits: Any
    row: int = 0


class Borrowed:
    """The cache of a borrowed operation: what its forward pass was called with, from which the judge computes again.

    Of a cache that the judge gave to the process: no name, and in args the judge's number of it.
    """

    def __init__(self, op: str, args: tuple, constants: dict[str, Any]):
        self.op = op
        self.args = args
        self.constants = constants

    def __repr__(self):
        return "<the cache of a borrowed operation>"


class Wire:
    """Turns values into messages and back.

    key: the class of keys on this side, with the fields bits and row. as_borrowed: returns a Borrowed for a value that
    is a cache of the library, and every other value as it is.
    """

    def __init__(self, key: type = Key, as_borrowed: Callable[[Any], Any] | None = None):
        self.key = key
        self.as_borrowed = as_borrowed or (lambda value: value)

    def pack(self, value: Any) -> bytes:
        """The bytes of one message.

        Raises TypeError for what is none of None, bool, int, float, text, bytes, Ellipsis, array or number of NumPy,
        key, tuple, list, set and dict, and ValueError for what is too large or too deep.
        """
        blocks: list[bytes] = []
        text = ENCODE(self._packed(value, blocks, MAX_DEPTH)).encode()
        n_numbers = sum(map(len, blocks))
        _check_lengths(len(text), n_numbers)
        return b"".join([LENGTHS.pack(len(text), n_numbers), text, *blocks])

    def unpack(self, text: bytes, numbers: bytes) -> Any:
        """The value of a message, from its two parts. Raises ValueError for what is no message."""
        reader = _Reader(self.key, numbers)
        try:
            value = reader.value(json.loads(text), MAX_DEPTH)
        except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise ValueError(f"no message: {error}") from error
        if reader.at != len(numbers):
            raise ValueError("numbers that belong to no array")
        return value

    def _packed(self, value, blocks, depth):
        """The value as JSON has it; the bytes of its arrays are appended to the blocks."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return _packed_array(value, blocks)
        if value is ...:
            return {"gap": True}
        if isinstance(value, bytes):
            blocks.append(value)
            return {"bytes": len(value)}
        if depth == 0:
            raise ValueError(f"values that lie more than {MAX_DEPTH} deep in each other")
        return self._packed_group(value, blocks, depth - 1)

    def _packed_group(self, value, blocks, depth):
        value = self.as_borrowed(value)
        if isinstance(value, Borrowed):
            parts = (value.op, value.args, value.constants)
            return {"borrowed": [self._packed(part, blocks, depth) for part in parts]}
        if isinstance(value, types.SimpleNamespace):
            return {"names": self._packed(vars(value), blocks, depth)}
        if isinstance(value, dict):
            pairs = []
            for key, part in value.items():
                pairs.append([self._packed(key, blocks, depth), self._packed(part, blocks, depth)])
            return {"dict": pairs}
        if not isinstance(value, (tuple, list, set, frozenset)):
            return self._packed_subclass(value, blocks, depth)
        parts = [self._packed(part, blocks, depth) for part in value]
        if isinstance(value, list):
            return parts
        if isinstance(value, self.key):
            return {"key": parts}
        return {"tuple" if isinstance(value, tuple) else "set": parts}

    def _packed_subclass(self, value, blocks, depth):
        """What is a number or text by a class of its own, such as a member of an IntEnum."""
        for kind in (int, float, str):
            if isinstance(value, kind):
                return self._packed(kind(value), blocks, depth)
        raise TypeError(f"a {type(value).__name__}: expected an array of numbers, or numbers and text in plain groups")


def _packed_array(value, blocks):
    if value.dtype.kind not in KINDS:
        raise TypeError(f"a {type(value).__name__}: expected an array of numbers, this one has dtype {value.dtype}")
    blocks.append(np.asarray(value).tobytes())  # a class of its own may have another tobytes
    kind = "number" if isinstance(value, np.generic) else "array"
    return {kind: [value.dtype.str, list(value.shape)]}


def lengths(head: bytes) -> tuple[int, int]:
    """(bytes of JSON, bytes of numbers) of the message that begins so. Raises ValueError where these are too many."""
    n_text, n_numbers = LENGTHS.unpack(head)
    _check_lengths(n_text, n_numbers)
    return n_text, n_numbers


def split(message: bytes) -> tuple[bytes, bytes]:
    """The two parts of a whole message: JSON and numbers."""
    n_text, _ = lengths(message[: LENGTHS.size])
    middle = LENGTHS.size + n_text
    return message[LENGTHS.size : middle], message[middle:]


def _check_lengths(n_text, n_numbers):
    if n_text > MAX_TEXT or n_numbers > MAX_NUMBERS:
        raise ValueError(f"too much for one message: {n_text} bytes of text and {n_numbers} bytes of numbers")


class _Reader:
    """Takes a message apart. at: how many of the bytes of its numbers were taken."""

    def __init__(self, key, numbers):
        self.key = key
        self.numbers = numbers
        self.at = 0
        self.keys = 0

    def value(self, found, depth):
        if depth < 0:
            raise ValueError("a message that is too deep")
        if isinstance(found, list):
            return self.parts(found, depth)
        if not isinstance(found, dict):
            return found
        ((kind, inside),) = found.items()
        if kind == "array":
            return self.array(*inside)
        if kind == "tuple":
            return tuple(self.parts(inside, depth))
        if kind == "dict":
            return self.dictionary(inside, depth)
        if kind == "number":
            return self.array(*inside)[()]
        return self.rare(kind, inside, depth)

    def rare(self, kind, inside, depth):
        if kind == "gap":
            return ...
        if kind == "bytes":
            return self.take(inside)
        if kind == "key":
            return self.key(*self.parts(inside, depth))
        if kind == "borrowed":
            return Borrowed(*self.parts(inside, depth))
        if kind == "names":
            return self.names(inside, depth)
        if kind == "set":
            return {self.key_of(part) for part in self.parts(inside, depth)}
        raise ValueError(f"a value of kind {kind}")

    def parts(self, inside, depth):
        return [self.value(part, depth - 1) for part in inside]

    def dictionary(self, inside, depth):
        found = {}
        for pair in inside:
            key, value = pair
            found[self.key_of(self.value(key, depth - 1))] = self.value(value, depth - 1)
        return found

    def names(self, inside, depth):
        """A namespace. NumPy takes one with __array_interface__ for an array, at any place of this process's memory."""
        found = self.value(inside, depth - 1)
        if any(name.startswith("_") for name in found):
            raise ValueError("a name that begins with _")
        return types.SimpleNamespace(**found)

    def key_of(self, value):
        self.keys += 1
        if self.keys > MAX_KEYS:
            raise ValueError(f"more than {MAX_KEYS:,} keys")
        return value

    def take(self, n):
        if type(n) is not int or not 0 <= n <= len(self.numbers) - self.at:
            raise ValueError(f"{n} bytes, which are not there")
        part = self.numbers[self.at : self.at + n]
        self.at += n
        return part

    def array(self, dtype, shape):
        if not DTYPE.fullmatch(dtype) or len(shape) > MAX_AXES:
            raise ValueError("an array of another kind")
        if not all(type(size) is int and 0 <= size < 2**32 for size in shape):
            raise ValueError("an array of another shape")
        dtype = np.dtype(dtype)
        data = self.take(math.prod(shape) * dtype.itemsize)
        if dtype.kind == "b":
            array = np.frombuffer(data, np.uint8) != 0
        else:
            array = np.frombuffer(data, dtype).copy()  # a copy can be written to
        return array.reshape(shape)
