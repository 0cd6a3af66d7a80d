"""Token ids as they come from callers: checked, and padded where texts have different lengths."""

from typing import Any

import numpy as np

from minigpt.device.arrays import Array, to_numpy
from minigpt.errors import InputError


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

    The last tokens stand below each other. What shorter prompts lack on the left is padding, here the id 0, which no
    position ever sees. Raises InputError for a prompt without tokens, and for anything that is not a whole number.
    """
    different = isinstance(prompts, (list, tuple)) and len({np.shape(row) for row in prompts}) > 1
    if not different:
        ids = to_numpy(check_ids(prompts)).astype(np.int64)
        return ids, np.zeros(len(ids), np.int64)
    rows = [to_numpy(as_array(row)) for row in prompts]
    for i, row in enumerate(rows):
        if row.ndim != 1 or row.size == 0 or row.dtype.kind not in "iu":
            what = "holds no token" if row.size == 0 else f"is {row.dtype} of shape {row.shape}"
            raise InputError(f"prompt number {i}, counted from 0, {what}: give a list of token ids, one or more")
    lengths = np.array([len(row) for row in rows])
    padding = lengths.max() - lengths
    padded = [np.pad(row.astype(np.int64), (n, 0)) for row, n in zip(rows, padding, strict=True)]
    return np.stack(padded), padding
