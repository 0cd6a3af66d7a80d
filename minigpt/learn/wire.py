"""How the judge and a learner's process talk: messages of JSON with arrays behind it, and no pickle.

A message is its two lengths (of the JSON and of the numbers, 8 bytes each), the JSON, and the numbers of its arrays one
after the other. In the JSON an array is {"array": [dtype, shape]}, and a tuple or list is {"tuple": [...]}.
"""

import json
import math
import struct
from typing import Any, BinaryIO

import numpy as np

from minigpt.ops.random_keys import Key

LENGTHS = struct.Struct("<QQ")
MAX_BYTES = 64 * 2**20  # of one message: the arrays of a case have a few kilobytes
KINDS = "biufc"  # dtypes of numbers, which need no pickle


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message. Raises TypeError for a value that is neither number, text, array, tuple nor dict."""
    arrays = []
    text = json.dumps(_packed(message, arrays)).encode()
    numbers = b"".join(array.tobytes() for array in arrays)
    stream.write(LENGTHS.pack(len(text), len(numbers)) + text + numbers)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises EOFError where the stream has ended, and ValueError for what is no message."""
    n_text, n_numbers = LENGTHS.unpack(_exactly(stream, LENGTHS.size))
    if n_text + n_numbers > MAX_BYTES:
        raise ValueError(f"a message of {n_text + n_numbers} bytes")
    text = _exactly(stream, n_text)
    numbers = _Numbers(_exactly(stream, n_numbers))
    try:
        message = _unpacked(json.loads(text), numbers)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from error
    if numbers.at != n_numbers:
        raise ValueError("numbers that belong to no array")
    return message


def _exactly(stream, n):
    data = stream.read(n)
    if len(data) < n:
        raise EOFError
    return data


def _packed(value, arrays):
    """The value as JSON has it; its arrays are appended to the list."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic):
        return value
    if value is ...:
        return {"gap": True}
    if isinstance(value, Key):
        return {"key": [_packed(part, arrays) for part in value]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in KINDS:
        arrays.append(np.asarray(value))
        kind = "number" if isinstance(value, np.generic) else "array"
        return {kind: [value.dtype.str, list(value.shape)]}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_packed(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": {str(name): _packed(part, arrays) for name, part in value.items()}}
    raise TypeError(f"a {type(value).__name__}: expected an array of numbers")


class _Numbers:
    """The numbers of a message, from which arrays are taken one after the other."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, dtype, shape):
        dtype = np.dtype(dtype)
        sizes = [int(size) for size in shape]
        count = math.prod(sizes)
        if dtype.kind not in KINDS or min(sizes, default=0) < 0:
            raise ValueError(f"an array of {dtype} {shape}")
        array = np.frombuffer(self.data, dtype, count, self.at) if count else np.zeros(0, dtype)
        self.at += array.nbytes
        return array.reshape(sizes).copy()  # a copy can be written to


def _unpacked(value, numbers):
    """The value that was packed."""
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind == "gap":
        return ...
    if kind == "key":
        return Key(*[_unpacked(part, numbers) for part in inside])
    if kind == "array":
        return numbers.take(*inside)
    if kind == "number":
        return numbers.take(*inside)[()]
    if kind == "tuple":
        return tuple(_unpacked(part, numbers) for part in inside)
    if kind == "dict":
        return {name: _unpacked(part, numbers) for name, part in inside.items()}
    raise ValueError(f"a value of kind {kind}")
