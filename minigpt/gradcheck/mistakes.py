"""Kinds of mistakes in a gradient: each function looks for one, which its docstring names.

No function knows an operation. All take `mine`, the gradient (or output) under test, `true`, the right one, and the
evidence `e`; each returns one sentence, or None where this is not the mistake.
"""

import itertools
import math

import numpy as np

from minigpt.gradcheck.evidence import CLOSE, same
from minigpt.gradcheck.terms import made_of

# --- all of it -------------------------------------------------------------------------------------------------------


def not_finite(mine, true, e):
    """NaN or infinity."""
    wrong = ~np.isfinite(mine)
    if wrong.any():
        return f"{wrong.sum()} of its {mine.size} entries are NaN or infinite."


def right_but_for_digits(mine, true, e):
    """So near to the true one that nothing else can be told."""
    if same(mine, true):
        return nearly_right(mine, true, e)


def zero_everywhere(mine, true, e):
    """No gradient at all."""
    if not mine.any():
        return "It is zero everywhere: this part of the derivative is missing."


def constant_factor(mine, true, e):
    """A factor that is the same everywhere, such as a sign, a scale, or a mean in place of a sum."""
    ratio = _ratio(mine, true)
    if not same(mine * ratio, true):
        return None
    if same(-mine, true):
        return "The sign is wrong: the true one is -1 times yours."
    meanings = [text for value, text in _known_factors(e) if math.isclose(ratio, value, rel_tol=1e-5)]
    if not meanings:
        return f"The true one is {ratio:.4g} times yours: a constant factor."
    return f"The true one is {ratio:.4g} times yours, which is {' Or it is '.join(meanings[:3])}"


def _ratio(mine, true):
    """The factor that brings mine nearest to true."""
    return (true * mine).sum() / (mine * mine).sum()


def _known_factors(e):
    """Pairs of a factor and what it may mean."""
    for name, value in (e.arrays | e.constants).items():
        if name == "rate":
            yield 1 / (1 - value), "1/(1 - rate): is the division by 1 - rate missing?"
            yield 1 - value, "1 - rate: is it divided by 1 - rate once too often?"
        elif isinstance(value, (int, float)) and value:
            yield value, f"{name}: is the factor {name} missing?"
            yield 1 / value, f"1/{name}: is the division by {name} missing?"
    yield 2, "2: is one of two terms missing, or does a second pass overwrite the first (`=` for `+=`)?"
    yield 1 / 2, "1/2: is something counted twice?"
    for name, ids in e.ids.items():
        counted = (ids >= 0).sum()
        if 0 < counted < ids.size:
            yield ids.size / counted, f"{ids.size}/{counted}: is it a mean over all {name}, also those of -100?"
    for n in e.sizes:
        yield n**-0.5, f"1/sqrt({n}): is the scale missing?"
        yield n**0.5, f"sqrt({n}): is the scale applied once too often?"
        yield 1 / n, f"1 in {n}: is it summed where the forward pass takes a mean over {n}?"
        yield n, f"the size {n}: is it a mean over {n} where it must be a sum?"
    for n, m in itertools.permutations(e.sizes, 2):
        yield math.sqrt(n / m), f"sqrt({n})/sqrt({m}): is it divided by sqrt({n}) in place of sqrt({m})?"


# --- the right numbers in another place, or other numbers ------------------------------------------------------------


def transposed(mine, true, e):
    """Rows for columns."""
    if same(mine.T, true):
        return "It is transposed."


def swapped_gradients(mine, true, e):
    """The gradient of another input."""
    for name, gradient in e.others.items():
        if same(mine, gradient):
            return f"This is the gradient of {name}: are two gradients swapped?"


def step_left_out(mine, true, e):
    """Something that is known already, such as dout, is handed on as it is."""
    for name, array in e.floats.items():
        if same(mine, array):
            return f"This is {name} itself: the step of this operation is missing."


def not_reshaped(mine, true, e):
    """Another shape."""
    if not same(mine.reshape(-1), true.reshape(-1)):
        return None
    if mine.ndim > true.ndim and mine.squeeze().shape == true.squeeze().shape:
        return "The numbers are right, but an axis of length 1 is left: is a keepdims=True left in?"
    return "The numbers are right: reshape it."


def not_summed(mine, true, e):
    """An axis along which the forward pass repeats the input."""
    stays = mine.ndim == true.ndim  # an axis that is summed becomes one of length 1
    for axes in _choices_of_axes(mine):
        if same(mine.sum(axes, keepdims=stays), true):
            return f"It is not summed over axes {axes}."


def summed_over_wrong_axes(mine, true, e):
    """A sum along other axes than those along which the forward pass repeats the input."""
    for name, array in e.floats.items():
        for axes in _choices_of_axes(array):
            if same(mine, array.sum(axes)):
                return f"This is {name} summed over axes {axes}: are they the wrong ones?"


def _choices_of_axes(array):
    for n in range(1, array.ndim + 1):
        yield from itertools.combinations(range(array.ndim), n)


def swapped_parts(mine, true, e):
    """Queries, keys and values, or the gates of a cell, in another order."""
    for n in (2, 3, 4):
        if true.ndim == 0 or true.shape[-1] % n:
            continue
        parts = np.split(mine, n, axis=-1)
        for order in itertools.permutations(range(n)):
            swapped = np.concatenate([parts[i] for i in order], axis=-1)
            if same(swapped, true):
                numbers = [i + 1 for i in order]
                return f"The {n} parts of its last axis are swapped: {numbers} is the right order."


def wrong_places(mine, true, e):
    """A reshape in place of a transpose."""
    sorted_mine = np.sort(mine, axis=None)
    sorted_true = np.sort(true, axis=None)
    if same(sorted_mine, sorted_true):
        return "The right numbers stand in wrong places: is it a reshape where axes must be swapped?"


# --- a term or a factor that is left out, or is there twice ----------------------------------------------------------


def wrong_branch(mine, true, e):
    """A residual: a branch that is left out, or counted twice."""
    missing = true - mine
    rows = missing.reshape(-1, *missing.shape[-1:]).sum(axis=0)
    for name, gradient in e.others.items():
        says = f"is the gradient of {name}: what flows into a branch also flows past it, once. A residual?"
        for where, difference in (("", missing), (", summed over its rows,", rows)):
            if same(difference, gradient):
                return f"What is missing{where} {says}"
            if same(-difference, gradient):
                return f"What it has once too often{where} {says}"


def sigmoid_for_softmax(mine, true, e):
    """A derivative entry by entry where each output depends on the whole row; the wrong factor before a sum."""
    for name, array in e.floats.items():
        if array.ndim == 0 or array.shape != e.dout.shape:
            continue
        as_for_a_sigmoid = e.dout * array * (1 - array)
        if same(mine, as_for_a_sigmoid) and not _works_entry_by_entry(e):
            return f"This is dout {name} (1 - {name}), as for a sigmoid: here every output depends on the whole row."
        rows = (e.dout * array).reshape(-1, array.shape[-1])
        if same(mine, rows.sum(axis=0)):
            return f"This is the sum of dout {name} over the rows: is {name} the wrong factor?"


def _works_entry_by_entry(e):
    """Does what comes back to the first column leave the other columns without a gradient?"""
    first = np.zeros_like(e.dout)
    first[..., 0] = e.dout[..., 0]
    return not e.true_with("dout", first)[..., 1:].any()


def wrong_term(mine, true, e):
    """A term that is known, left out or added once too often."""
    for name, term in _fitting(e, true):
        if same(true - mine, term):
            return f"What is missing is exactly {name}."
        if same(mine - true, term):
            return f"What it has once too often is {name}."


def wrong_factor(mine, true, e):
    """A factor that is known, left out or there once too often."""
    for name, factor in _fitting(e, true):
        if same(mine * factor, true):
            return f"The true one is yours times {name}: is that factor missing?"
        if same(mine, true * factor):
            return f"Yours is the true one times {name}: that is one factor too many."


def _fitting(e, true):
    """Names and arrays of the shape of true, made from those that fit it, also with an axis added at their end."""
    for name, array in e.floats.items():
        yield name, _broadcast(array, true)
        yield name, _broadcast(array[..., None], true)


def _broadcast(array, true):
    """The array in the shape of true; NaN where it does not fit."""
    try:
        return np.broadcast_to(array, true.shape)
    except ValueError:
        return np.nan * true


def forgotten_constant(mine, true, e):
    """A mask, weights, a key or a scale that is left out, or a mask that is read upside down."""
    for name, value in e.constants.items():
        if value is None:
            continue
        is_mask = name in e.arrays and e.arrays[name].dtype.kind == "b"
        without = np.ones_like(value) if is_mask else None
        if same(mine, e.true_with(name, without)):
            return f"This is right without {name}: {name} is forgotten."
        if is_mask and same(mine, e.true_with(name, ~value)):
            return f"This is right for the opposite of {name}: is it read upside down?"


def forgotten_input(mine, true, e):
    """An input, such as a gain, that is left out, or is multiplied in too late."""
    if len(e.others) > 4:
        return None  # as for a whole model: each of them would take a numeric gradient
    for name in e.others:
        factor = e.arrays[name]
        for_ones = e.true_with(name, np.ones_like(factor))
        if same(mine, for_ones):
            return f"This is right for {name} = 1: {name} is forgotten."
        if same(mine, for_ones * _broadcast(factor, for_ones)):
            return f"{name} is multiplied in at the end: it belongs inside, before the sums over the row."


def forgotten_scale(mine, true, e):
    """An output for which an input must be divided by the square root of a size, or must not be."""
    if e.gradients:
        return None
    for name, array in e.floats.items():
        for n in e.sizes:
            root = math.sqrt(n)
            if _nearly(e.true_with(name, array * root), true):
                continue  # as of x in a LayerNorm, which any scale of x leaves as it is
            if same(mine, e.true_with(name, array * root)):
                return f"This is right for sqrt({n}) {name}: is the scale 1/sqrt({n}) missing?"
            if same(mine, e.true_with(name, array / root)):
                return f"This is right for {name} / sqrt({n}): is the scale 1/sqrt({n}) applied once too often?"
    for name, array in e.floats.items():
        for n, m in itertools.permutations(e.sizes, 2):
            if same(mine, e.true_with(name, array * math.sqrt(n / m))):
                question = f"is it divided by sqrt({m}) in place of sqrt({n})?"
                return f"This is right for {name} sqrt({n})/sqrt({m}): {question}"


def _nearly(x, y):
    return x.shape == y.shape and abs(x - y).max() < 1e-4 * abs(y).max()


# --- wrong in some rows, or in each row in its own way ---------------------------------------------------------------


def wrong_rows_of_a_table(mine, true, e):
    """An embedding: rows of ids that repeat, that occur, or that do not occur."""
    for name, ids in e.ids.items():
        if true.ndim != 2 or ids.shape == true.shape[:1] or ids.max() >= len(true):
            continue
        wrong_rows = _off(mine, true).any(axis=-1)
        count = np.bincount(ids[ids >= 0], minlength=len(true))
        repeated = count > 1
        if repeated[wrong_rows].all():
            if same(mine * np.maximum(count, 1)[:, None], true):
                return f"Rows of repeated {name} are divided by how often they occur: it must be a sum, not a mean."
            return f"Only rows of repeated {name} are wrong: `dw[ids] = ` keeps the last one, np.add.at adds all."
        used = count > 0
        if (wrong_rows == used).all():
            return f"Exactly the rows of {name} that occur are wrong: what the lookup adds is missing."
        unused = ~used
        times = _ratio(true[unused], mine[unused])
        off_by_more = _off(mine, times * true)[unused]
        if unused.any() and not off_by_more.any():
            says = "the output head, which uses every row, must be counted once"
            return f"Rows of {name} that do not occur are {times:.3g} times the true ones: {says}."


def wrong_rows_of_targets(mine, true, e):
    """A loss: rows that are ignored, or the entries that the targets name."""
    off = _off(mine, true)
    for name, ids in e.ids.items():
        if true.ndim == 0 or ids.shape != true.shape[:-1]:
            continue
        wrong_rows = off.any(axis=-1)
        if (ids[wrong_rows] < 0).all():
            return f"Only rows where {name} is ignored (-100) are wrong: their gradient is 0."
        target = np.arange(true.shape[-1]) == ids[..., None]
        if not (off & ~target).any():
            return f"It is wrong only at the entry that {name} names: look at the one-hot term and its sign."
        named = np.isin(np.arange(true.shape[-1]), ids)
        if (off == named & ~target)[ids >= 0].all():
            says = f"`[:, {name}]` takes all of them in every row, where each row has its own"
            return f"Every row is wrong at the {name} of the other rows: {says}."


def _off(mine, true):
    return abs(mine - true) > CLOSE * abs(true).max()


def factor_of_each_row(mine, true, e):
    """Each row has a factor of its own."""
    if made_of(true, [mine]):
        return "Each row is off by a factor of its own: something that belongs to the row is missing, or is too much."


# --- wrong zeros, wrong sums, wrong slopes ---------------------------------------------------------------------------


def other_zeros(mine, true, e):
    """Another mask than that of the forward pass, or none."""
    zero = mine == 0
    true_zero = abs(true) < 1e-8 * abs(true).max()
    only_mine = zero & ~true_zero
    only_true = true_zero & ~zero
    if only_mine.any() and only_true.any():
        return "It is zero in other places than the true one: is it another mask, or another key?"
    if true_zero.any() and same(np.where(true_zero, 0, mine), true):
        return f"It is not zero at {true_zero.sum()} entries where the true one is: is a mask or dropout missing here?"


def sum_not_zero(mine, true, e):
    """A mean that must be subtracted."""
    for axis in reversed(range(true.ndim)):
        largest_sum = abs(true.sum(axis)).max()
        largest_of_mine = abs(mine.sum(axis)).max()
        if largest_sum < 1e-7 * abs(true).max() < largest_of_mine:
            says = "a mean or sum that is subtracted is missing, or runs over another axis"
            return f"The true one sums to 0 along axis {axis}, yours does not: {says}."


def nearly_right(mine, true, e):
    """Too few digits, or another form of the function."""
    far = abs(mine - true).max() / abs(true).max()
    if far < 1e-5:
        says = "or is a small number added, in a log or a root, or in another place?"
        return f"It is right to {far:.0e}: is something computed in float32, {says}"
    if far < 1e-2:
        return f"It is nearly right, to {far:.0e}: another form of the same function, or another eps?"


def wrong_slope(mine, true, e):
    """An operation that works entry by entry, whose slope is wrong."""
    if e.name not in e.gradients or e.dout.shape != true.shape:
        return None
    slopes = e.true_with("dout", 1.0)
    if same(e.dout * slopes, true):
        worst = abs(mine - true).argmax()
        i = np.unravel_index(worst, mine.shape)
        x = e.arrays[e.name][i]
        slope = mine[i] / e.dout[i]
        at = f"The slope at {x:.3g} is {slopes[i]:.4g}, yours is {slope:.4g}"
        return f"{at}: is the derivative of an inner function missing, or a term of the product rule?"


def where_it_is_wrong(mine, true, e):
    """No kind that is known: the places, where only some indices of an axis are wrong."""
    off = _off(mine, true)
    for axis in reversed(range(off.ndim)):
        wrong = np.unique(off.nonzero()[axis])
        length = off.shape[axis]
        if len(wrong) < length:
            places = _places(wrong)
            return f"It is wrong only at {places} of axis {axis} (which has {length}); the rest is right."
    return f"{off.sum()} of {off.size} entries are wrong, and no simple pattern fits."


def _places(numbers):
    """Increasing whole numbers in words: "2 to 5", or "2, 4"."""
    first = numbers[0]
    last = numbers[-1]
    if len(numbers) > 1 and len(numbers) == last - first + 1:
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))
