"""Kinds of mistakes that an output shows: another mask, a softmax over another axis, a variance or an eps that differs.

As in mistakes.py, no function knows an operation, and each returns one sentence, or None where this is not the mistake.
"""

import math

import numpy as np

from minigpt.gradcheck.evidence import CLOSE, same
from minigpt.gradcheck.terms import made_of

NEARLY = 1e-5  # relative: what a formula that is right but for an eps may differ by


def right_but_for_eps(mine, true, e):
    """An eps that is left out, is another one, or stands in another place."""
    far = abs(mine - true).max()
    if not far < 1e-2 * abs(true).max():
        return None
    for name in dict.fromkeys([*[name for name in e.constants if "eps" in name], "eps"]):
        without = e.true_with(name, 0.0)
        effect = abs(without - true).max() if without.shape == true.shape else 0.0
        if effect and abs(mine - without).max() < far / 100:
            return f"This is right for {name} = 0: is {name} left out?"
        if effect / 10 < far < 10 * effect:
            error = far / abs(true).max()
            return (
                f"It is right to {error:.0e}, and leaving {name} out would change about as much: "
                f"is {name} outside the root, or is it another one?"
            )


def another_mask(mine, true, e):
    """A causal mask that begins elsewhere, that is the opposite, or that is not there."""
    if e.gradients or true.ndim < 2:
        return None
    queries = true.shape[-2]
    lengths = {array.shape[-2] for array in e.floats.values() if array.ndim > 1}
    for keys in sorted(lengths):
        for mask, says in _masks(queries, keys):
            if same(mine, e.true_with("mask", mask)):
                return says


def _masks(queries, keys):
    """Masks that are taken by mistake, and what they are."""
    from_end = keys - queries
    begins = f"the last query sees all {keys} keys, so it is counted from the end"
    yield np.tri(queries, keys, dtype=bool), f"This is right for a causal mask counted from the first key: {begins}."
    yield np.ones((queries, keys), bool), "This is right without a mask: a query sees keys that come after it."
    sees = np.tri(queries, keys, from_end, dtype=bool)
    yield ~sees, "This is right for the opposite of the causal mask: is it read upside down?"
    yield np.tri(queries, keys, from_end - 1, dtype=bool), "This is right for a mask by which no query sees itself."
    yield np.tri(queries, keys, from_end + 1, dtype=bool), "This is right for a mask that shows one key too many."


def softmax_over_another_axis(mine, true, e):
    """Probabilities in the cache, or in the output, that sum to 1 along another axis than the last."""
    if e.gradients:
        return None
    for name, array in _weights({"out": mine} | e.saved):
        if _sums_to_one(array, -1).all():
            continue
        several = [tuple(range(first, array.ndim)) for first in range(array.ndim - 1)]
        for axes in [*range(array.ndim - 1), *several]:
            if _sums_to_one(array, axes).all():
                where = f"along axis {axes}" if isinstance(axes, int) else f"over axes {axes} together"
                says = "is the softmax taken over the wrong axis?"
                return f"{name} sums to 1 {where}, and not along its last axis: {says}"


def weights_that_do_not_sum_to_one(mine, true, e):
    """Probabilities from which a mask has taken some after the softmax."""
    if e.gradients or not made_of(true, [mine]):
        return None
    for name, array in _weights(e.saved):
        fits = array.shape[:-1] == true.shape[:-1]
        sums = array.sum(axis=-1)
        taken = (array == 0).any() and (sums < 1 - CLOSE).any()
        if fits and taken and sums.max() < 1 + CLOSE:
            says = f"those of {name} sum to less than 1: is something set to 0 after the softmax?"
            return f"Each row is off by a factor of its own, and {says}"


def rows_that_see_nothing(mine, true, e):
    """Rows that must be 0, since a mask leaves nothing for them to see."""
    if true.ndim < 2:
        return None
    empty = ~true.any(axis=-1) | (abs(true).max(axis=-1) < CLOSE * 1e-3 * abs(true).max())
    rest = np.where(empty[..., None], 0, mine)
    if not empty.any() or not same(rest, true):
        return None
    for name, array in _weights(e.saved):
        if array.shape[:-1] == true.shape[:-1] and array[empty].any():
            says = "a softmax of equal numbers, such as -1e9, is not 0"
            return f"Only rows that may see nothing are wrong, they must be 0. In {name} they have weights: {says}."


def _weights(arrays):
    """Those of the arrays that may be probabilities: none is negative, and they are not only zeros and ones."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.ndim > 1 and array.size and (array >= 0).all():
            if ((array > 0) & (array < 1)).any():
                yield name, array


def _sums_to_one(array, axis):
    return abs(array.sum(axis=axis) - 1) < CLOSE


def variance_with_one_less(mine, true, e):
    """A variance that divides by one less than the length of the row."""
    if e.gradients or true.ndim == 0 or true.shape[-1] < 3:
        return None
    largest = abs(true).max()
    if abs(mine - true).max() < 100 * NEARLY * largest:
        return None
    n = true.shape[-1]
    for name, array in e.floats.items():
        smaller = e.true_with(name, array * math.sqrt((n - 1) / n))
        if smaller.shape == true.shape and abs(mine - smaller).max() < NEARLY * largest:
            says = f"does the variance divide by {n - 1}, that is C - 1, in place of {n}?"
            return f"This is right for {name} sqrt({n - 1}/{n}): {says}"
