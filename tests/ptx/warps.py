"""The instructions of a whole warp: its 32 lanes bring something together, and each takes something away.

Values come as arrays (warps, lanes): 32 lanes, or, where a block ends within a warp, with gaps. The drawings of the
fragments are in "PTX ISA": "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k8", and "ldmatrix".
"""

import numpy as np

from . import arithmetic
from .faults import blame

LANES = 32
# Of a fragment, lane l has the rows or columns of its group l // 4, at the place l % 4 in it.
GROUPS, IN_GROUP = 8, 4


def whole_warps(threads, lanes) -> int:
    """How many warps these lanes are; all 32 lanes of each must be there."""
    numbers = threads.numbers(lanes)
    missing = len(numbers) % LANES != 0 or (threads.lane[numbers].reshape(-1, LANES) != np.arange(LANES)).any()
    if missing:
        blame(threads, lanes, np.ones(len(numbers), bool), "the others of the warp wait for ever: it has no 32 lanes")
    return len(numbers) // LANES


def exchange(threads, lanes, values, apart):
    """shfl.sync.bfly: each lane takes the value of the lane whose number differs in the bits of `apart`."""
    warp, lane = threads.pick(threads.warp_here, lanes), threads.pick(threads.lane, lanes)
    table = np.zeros((threads.warps, LANES), values.dtype)
    there = np.zeros(table.shape, bool)
    table[warp, lane], there[warp, lane] = values, True
    other = lane ^ apart.astype(lane.dtype)
    missing = ~there[warp, other]
    if missing.any():
        blame(threads, lanes, missing, "takes the value of a lane that is not there")
    return table[warp, other]


def matrices(threads, lanes, rows: list[np.ndarray], transposed: bool) -> list[np.ndarray]:
    """ldmatrix: lanes 8 i to 8 i + 7 have read the rows of matrix i, 8 numbers of 16 bits each.

    Word i of a lane holds two numbers of matrix i: of its group's row, or, transposed, of its group's column.
    """
    all_rows = np.stack(rows, axis=1).reshape(-1, 4, 8, 8)
    if transposed:
        all_rows = all_rows.swapaxes(2, 3)
    low, high = all_rows[..., ::2].astype(np.uint32), all_rows[..., 1::2].astype(np.uint32)
    words = low | high << np.uint32(16)  # (warps, matrices, groups, in a group)
    return [np.ascontiguousarray(words[:, i].reshape(-1)) for i in range(4)]


def multiply_bfloat16(warps: int, a: list, b: list, c: list) -> list[np.ndarray]:
    """mma.m16n8k16: c (16,8) + a (16,16) b (16,8). A word of a or b holds two numbers."""
    left = _pairs(warps, a).reshape(warps, GROUPS, IN_GROUP, 2, 2, 2)  # (right half, lower half, one of two)
    left = left.transpose(0, 4, 1, 3, 2, 5).reshape(warps, 16, 16)
    right = _pairs(warps, b)  # (warps, groups, in a group, lower half, one of two)
    right = right.transpose(0, 3, 2, 4, 1).reshape(warps, 16, 8)
    return _sums(warps, left @ right, c)


def multiply_tf32(threads, lanes, warps: int, a: list, b: list, c: list) -> list[np.ndarray]:
    """mma.m16n8k8: c (16,8) + a (16,8) b (8,8). A GPU does not look at the last 13 bits of a factor: they must be 0."""
    for words in (*a, *b):
        bad = (words & np.uint32(0x1FFF)) != 0
        if bad.any():
            blame(threads, lanes, bad, "a factor of a product in tf32 that is not rounded")
    left = _fragment(warps, a).view(np.float32).reshape(warps, GROUPS, IN_GROUP, 2, 2)  # (right half, lower half)
    left = left.transpose(0, 4, 1, 3, 2).reshape(warps, 16, 8).astype(np.float64)
    right = _fragment(warps, b).view(np.float32)  # (warps, groups, in a group, lower half)
    right = right.transpose(0, 3, 2, 1).reshape(warps, 8, 8).astype(np.float64)
    return _sums(warps, left @ right, c)


def _fragment(warps: int, words: list) -> np.ndarray:
    """(warps, groups, in a group, words of a lane)"""
    return np.stack(words, axis=1).reshape(warps, GROUPS, IN_GROUP, len(words))


def _pairs(warps: int, words: list) -> np.ndarray:
    """The two numbers of each word, in float64, along a last axis."""
    return (
        arithmetic.from_bfloat16(_fragment(warps, words).view(np.uint16))
        .astype(np.float64)
        .reshape(warps, GROUPS, IN_GROUP, len(words), 2)
    )


def _sums(warps: int, products: np.ndarray, c: list) -> list[np.ndarray]:
    """products (warps,16,8) added to the fragments c, rounded once. In which sequence a GPU adds is not documented."""
    products = products.reshape(warps, 2, GROUPS, IN_GROUP, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
    return [(products[:, i] + c[i]).astype(np.float32) for i in range(4)]
