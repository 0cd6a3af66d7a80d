"""Numbers of 16 bits as text for a page: in planes, deflated, in base64, which `js/weights.js` reads.

The low bytes of all numbers come first, and then all high bytes: these hold sign and exponent, which are similar from
number to number, so that they can be deflated.
"""

import base64
import zlib

import numpy as np

from minigpt.files.tensors import narrow

DTYPES = ("bfloat16", "float16")
LARGEST = float(np.finfo(np.float16).max)


def pack(numbers: np.ndarray, dtype: str) -> str:
    """numbers (N,) float -> text: each rounded to 16 bits, of one of `DTYPES`."""
    bits = to_bits(numbers, dtype)
    raw = bits.view(np.uint8).reshape(-1, 2)
    planes = raw[:, 0].tobytes() + raw[:, 1].tobytes()
    deflated = zlib.compress(planes, 9)
    return base64.b64encode(deflated).decode("ascii")


def to_bits(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """numbers (N,) float -> (N,) uint16, little endian, of one of `DTYPES`."""
    numbers = np.ascontiguousarray(numbers, np.float32).reshape(-1)
    if dtype == "bfloat16":
        return narrow(numbers).view("<u2")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, as in any rounding to float16
        return numbers.astype("<f2").view("<u2")


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """bits (N,) uint16 -> (N,) float32, the same numbers. dtype: one of `DTYPES`."""
    if dtype == "float16":
        return bits.view("<f2").astype(np.float32)
    wide = bits.astype(np.uint32) << 16
    return wide.view(np.float32)


def best_dtype(tensors: list[np.ndarray]) -> str:
    """The kind of 16 bits that keeps most of these float32 numbers.

    "bfloat16" where nothing is lost by it, and where a number is too large for float16; else "float16", which has more
    digits.
    """
    largest = 0.0
    exact = True
    for tensor in tensors:
        numbers = np.asarray(tensor, np.float32).reshape(-1)
        largest = max(largest, float(np.abs(numbers).max(initial=0)))
        exact = exact and np.array_equal(from_bits(to_bits(numbers, "bfloat16"), "bfloat16"), numbers)
    return "bfloat16" if exact or not largest <= LARGEST else "float16"
