"""Token ids as they come from callers: checked, and padded where texts have different lengths."""

from typing import Any

import numpy as np

from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.errors import InputError, shown
from minigpt.ops.targets import IGNORED


def as_array(values: Any, subject: str = "ids are") -> Array:
    """A list, or an array of another library, as a NumPy array; one of NumPy or CuPy as it is, on whatever device.

    Raises InputError for what is none of these or cannot be read, and for lists of different lengths; subject: how the
    message begins.
    """
    is_list = isinstance(values, (list, tuple))
    if not is_list and (not hasattr(values, "dtype") or not hasattr(values, "shape")):
        raise InputError(f"{subject} {shown(values)}: give an array or a list")
    if not is_list and isinstance(values.dtype, np.dtype):
        return values
    try:
        return np.asarray(values)
    except Exception as error:  # whatever another library raises for what NumPy cannot read
        if is_list and isinstance(error, ValueError):
            raise InputError(f"{subject} lists of different lengths: give rows of one length") from None
        given = f"a {type(values).__name__} that NumPy cannot read ({' '.join(str(error).split())[:120]})"
        raise InputError(f"{subject} {given}: give a NumPy array or a list of numbers") from error


def check_range(ids: Array, size: int, message: str, other: int = 0) -> None:
    """Raises InputError with this message, {} filled in, for ids that are neither 0 to size - 1 nor `other`.

    Ids that are on a GPU already are not checked: there an id out of range gives NaN.
    """
    if not isinstance(ids, np.ndarray):
        return
    out_of_range = (ids < 0) | (ids >= size)
    wrong = ids[out_of_range & (ids != other)]
    if wrong.size:
        raise InputError(message.format(wrong[0]))


def check_ids(ids: Any) -> Array:
    """ids (B,T) int, as an array. Raises InputError for another shape or type, and where there are none."""
    if isinstance(ids, str):
        raise InputError(f"ids are a text, {shown(ids)}: give token ids, such as [tokenizer.encode(text)]")
    ids = as_array(ids)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        raise InputError(f"ids are {ids.dtype} of shape {ids.shape}: give whole numbers of shape (batch, time)")
    return ids


def check_positions(positions: Any, shape: tuple[int, int], size: int) -> Array:
    """positions (T,) or (B,T) int, as an array. shape: (B,T), that of the ids; size: rows of the table of positions.

    Raises InputError for another shape or type, and for a position that is not 0 to size - 1.
    """
    positions = as_array(positions, "positions are")
    if positions.shape not in (shape, shape[1:]) or positions.dtype.kind not in "iu":
        given = f"positions are {positions.dtype} of shape {positions.shape}"
        raise InputError(f"{given}: give whole numbers of shape {shape[1:]} or {shape}")
    check_range(positions, size, f"position {{}} is out of range: the table has {size} rows")
    return positions


def check_targets(targets: Any, shape: tuple[int, int], size: int) -> Array:
    """targets (B,T) int, as an array. shape: that of the ids; size: of the vocabulary.

    Raises InputError for another shape or type, and for a target that is neither 0 to size - 1 nor -100.
    """
    targets = as_array(targets, "targets are")
    is_whole = targets.dtype.kind in "iu"
    if targets.shape != shape or not is_whole:
        given = f"targets are {targets.dtype} of shape {targets.shape}"
        raise InputError(f"{given}: give whole numbers of the shape of the ids, {shape}")
    check_range(targets, size, f"targets must be -100 or 0 to {size - 1}: got {{}}", IGNORED)
    return targets


def check_weights(weights: Any, shape: tuple[int, int]) -> Array:
    """Weights of the targets, as an array of this shape (B,T).

    Raises InputError for another shape or type, and for a weight below 0. What is on a GPU already is not read.
    """
    weights = as_array(weights, "weights are")
    is_number = weights.dtype.kind in "iuf"
    if weights.shape != shape or not is_number:
        given = f"weights are {weights.dtype} of shape {weights.shape}"
        raise InputError(f"{given}: give one number for each target, {shape}")
    if isinstance(weights, np.ndarray) and not weights.min() >= 0:
        raise InputError(f"weights begin at {weights.min()}: give numbers of 0 or more")
    return weights


def text_places(ids: Array, mask: Any = None, pad: int | None = None) -> Array:
    """ids (B,T) -> (B,T) boolean, where they are text: as the mask says, or without one where the id is not `pad`

    Raises InputError for a mask of another shape.
    """
    if mask is None:
        return array_module(ids).ones(ids.shape, bool) if pad is None else ids != pad
    mask = to_device(as_array(mask, "mask is"), device_of(ids))
    if mask.shape != ids.shape:
        raise InputError(f"mask is of shape {mask.shape}: give one of shape {ids.shape}, that of the ids")
    return mask != 0


def first_places(lengths: Array, t: int) -> Array:
    """lengths (N,) int -> (N,T) boolean: where rows are text that are filled up at their right"""
    return array_module(lengths).arange(t) < lengths[:, None]


def last_state(h: Array, is_text: Array) -> Array:
    """h (B,T,C), is_text (B,T) boolean -> (B,C): the state at the last place of each row's text"""
    xp = array_module(h)
    last = (xp.arange(h.shape[1]) * is_text).argmax(axis=1)
    return h[xp.arange(len(h)), last]


def pad_right(texts: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Texts (B,S), or a list of B texts of different lengths -> ids (B,S) int64, and where they are text, (B,S) bool

    All texts begin in the first column; shorter ones are filled up with the id 0. The second is None where all have one
    length. Raises InputError as `pad_left` does.
    """
    if not _have_different_lengths(texts):
        return to_numpy(check_ids(texts)).astype(np.int64), None
    rows = [_checked_prompt(i, text) for i, text in enumerate(texts)]
    lengths = np.array([len(row) for row in rows])
    padded = [np.pad(row, (0, lengths.max() - len(row))) for row in rows]
    return np.stack(padded), first_places(lengths, lengths.max())


def pad_left(prompts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Prompts (B,T), or a list of B prompts of different lengths -> ids (B,T) int64, padding (B,) int

    All prompts end in the last column. Shorter prompts are filled on the left with padding, here the id 0, which no
    position ever sees. Raises InputError for a prompt without tokens, and for anything that is not a whole number.
    """
    if not _have_different_lengths(prompts):
        ids = to_numpy(check_ids(prompts)).astype(np.int64)
        return ids, np.zeros(len(ids), np.int64)
    rows = [_checked_prompt(i, prompt) for i, prompt in enumerate(prompts)]
    lengths = np.array([len(row) for row in rows])
    padding = lengths.max() - lengths
    padded = []
    for row, n in zip(rows, padding, strict=True):
        padded.append(np.pad(row, (n, 0)))
    return np.stack(padded), padding


def _have_different_lengths(prompts: Any) -> bool:
    if not isinstance(prompts, (list, tuple)):
        return False
    lengths = set()
    for row in prompts:
        length = len(row) if hasattr(row, "__len__") else None
        lengths.add(length)
    return len(lengths) > 1


def _checked_prompt(i: int, prompt: Any) -> np.ndarray:
    """Prompt number i as an array (T,) int64. Raises InputError where it is none."""
    row = to_numpy(as_array(prompt, f"prompt number {i}, counted from 0, is"))
    if row.ndim == 1 and row.size and row.dtype.kind in "iu":
        return row.astype(np.int64)
    problem = "holds no token" if row.size == 0 else f"is {row.dtype} of shape {row.shape}"
    raise InputError(f"prompt number {i}, counted from 0, {problem}: give a list of token ids, one or more")
