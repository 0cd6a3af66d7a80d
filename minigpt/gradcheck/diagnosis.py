"""What is likely wrong with a gradient: it is compared with the true one and with everything at hand.

Nothing here knows an operation. Each test looks for one kind of mistake (a factor, a sign, a dropped term, ...); the
first that fits gives one sentence. `mine` is the gradient (or output) under test, `true` the right one.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigpt.device.arrays import to_numpy


@dataclass
class Evidence:
    """Everything that a wrong gradient may be compared with, under the names that a sentence calls it by.

    arrays: inputs, array constants, out, dout and what the cache holds; constants: also those that are no arrays; name:
    the input whose gradient it is; gradients: the true ones; again(dout, **changes): the true one for other arguments.
    """

    arrays: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    gradients: dict[str, Any] = field(default_factory=dict)
    again: Callable | None = None

    def __post_init__(self):
        self.arrays = {name: to_numpy(array) for name, array in self.arrays.items()}
        self.floats = {name: array for name, array in self.arrays.items() if array.dtype.kind == "f"}
        self.ids = {name: array for name, array in self.arrays.items() if array.dtype.kind in "iu"}
        self.others = {name: to_numpy(array) for name, array in self.gradients.items() if name != self.name}
        moved = self.floats["out"] * self.floats["dout"] if "dout" in self.floats else 0.0
        self.scale = max(float(np.max(np.abs(array))) for array in [moved, *self.others.values()])
        arrays = [*self.arrays.values(), *self.others.values()]
        sizes = {n for array in arrays for n in (*array.shape, math.prod(array.shape[:-1]))}
        self.sizes = sorted(sizes | {int((ids >= 0).sum()) for ids in self.ids.values()} - {0, 1})

    def true_for(self, *dout, **changes) -> np.ndarray:
        """What would be true for other arguments; empty where they make no sense."""
        try:
            return to_numpy(self.again(*dout, **changes))
        except Exception:  # a forward pass may need what was taken away
            return np.zeros(0)


def explain(mine: np.ndarray, true: np.ndarray, evidence: Evidence) -> str:
    """One sentence about a gradient (or an output) that is not the true one."""
    if not np.isfinite(mine).all():
        return f"{(~np.isfinite(mine)).sum()} of its {mine.size} entries are NaN or infinite."
    if not mine.any():
        return "It is zero everywhere: this part of the derivative is missing."
    with np.errstate(all="ignore"):
        fits = (says for says, x, y in _sentences(mine, true, evidence) if same(x, y))
        if mine.shape != true.shape:
            return f"{next(fits, '')} It has shape {mine.shape}, expected {true.shape}.".strip()
        tests = (test(mine, true, evidence) for test in (_rows, _dropped, _zeros, _zero_sum, _slope, _where))
        return _factor(mine, true, evidence) or next(itertools.chain(fits, filter(None, tests)))


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal up to what a numeric gradient can tell, measured by the largest entry, and not zero."""
    largest = max(abs(x).max(initial=0), abs(y).max(initial=0))
    return x.shape == y.shape and largest > 0 and bool(abs(x - y).max() <= 1e-6 * largest)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The arrays in a value of dicts, tuples and lists, each once, by their paths."""
    if hasattr(value, "dtype"):
        return {path: value}
    if isinstance(value, (tuple, list)):
        value = dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    found = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        inside = leaves(item, f"{path}.{key}".lstrip("."))
        found |= {name: array for name, array in inside.items() if not any(array is other for other in found.values())}
    return found


def _factor(mine, true, e: Evidence) -> str:
    ratio = (true * mine).sum() / (mine * mine).sum()
    if not same(mine * ratio, true):
        return ""
    if math.isclose(ratio, -1, rel_tol=1e-5):
        return "The sign is wrong: the true one is -1 times yours."
    known = (text for value, text in _known_factors(e) if math.isclose(ratio, value, rel_tol=1e-5))
    meanings = " Or it is ".join(itertools.islice(known, 3))
    return f"The true one is {ratio:.4g} times yours{f', which is {meanings}' if meanings else ': a constant factor.'}"


def _known_factors(e: Evidence) -> Iterator[tuple[float, str]]:
    for name, value in (e.arrays | e.constants).items():
        if name == "rate":
            yield 1 / (1 - value), "1/(1 - rate): is the division by 1 - rate missing?"
            yield 1 - value, "1 - rate: is it divided by 1 - rate once too often?"
        elif isinstance(value, (int, float)) and value:
            yield value, f"{name}: is the factor {name} missing?"
            yield 1 / value, f"1/{name}: is the division by {name} missing?"
    yield 2, "2: is one of two terms missing, or does a second pass overwrite the first (`=` for `+=`)?"
    yield 1 / 2, "1/2: is something counted twice?"
    for n in e.sizes:
        yield n**-0.5, f"1/sqrt({n}): is the scale missing?"
        yield n**0.5, f"sqrt({n}): is the scale applied once too often?"
        yield 1 / n, f"1 in {n}: is it summed where the forward pass takes a mean over {n}?"
        yield n, f"the size {n}: is it a mean over {n} where it must be a sum?"


def _sentences(mine, true, e: Evidence) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Sentences, each with two arrays that are the same where the sentence is true; what takes time comes last."""
    yield "It is transposed.", mine.T, true
    for name, gradient in e.others.items():
        yield f"This is the gradient of {name}: are two gradients swapped?", mine, gradient
    for name, array in e.floats.items():
        yield f"This is {name} itself: the step of this operation is missing.", mine, array
    if mine.shape != true.shape:
        yield "The numbers are right: reshape it.", mine.reshape(-1), true.reshape(-1)
        for name, array in {"": mine, **e.floats}.items():
            for axes in (c for n in range(1, array.ndim + 1) for c in itertools.combinations(range(array.ndim), n)):
                if not name:
                    yield f"It is not summed over axes {axes}.", mine.sum(axes), true
                yield f"This is {name} summed over axes {axes}: are they the wrong ones?", mine, array.sum(axes)
        return
    missing, dout = true - mine, e.floats.get("dout")
    rows = missing.reshape(-1, *missing.shape[-1:]).sum(axis=0)
    for name, gradient in e.others.items():
        for what, x in (("", missing), (", summed over its rows,", rows)):
            says = f"is the gradient of {name}: what flows into a branch also flows past it, once. A residual?"
            yield f"What is missing{what} {says}", x, gradient
            yield f"What it has once too often{what} {says}", -x, gradient
    for name, array in e.floats.items():
        if array.ndim and array.shape == np.shape(dout):
            says = f"This is dout {name} (1 - {name}), as for a sigmoid: here every output depends on the whole row."
            yield says, mine, dout * array * (1 - array)
            says = f"This is the sum of dout {name} over the rows: is {name} the wrong factor?"
            yield says, mine, (dout * array).reshape(-1, array.shape[-1]).sum(axis=0)
        for factor in (array, array[..., None]):
            if _fits(factor, true):
                yield f"What is missing is exactly {name}.", missing, factor + 0 * true
                yield f"What it has once too often is {name}.", -missing, factor + 0 * true
                yield f"The true one is yours times {name}: is that factor missing?", mine * factor, true
                yield f"Yours is the true one times {name}: that is one factor too many.", mine, true * factor
    for n in (n for n in (2, 3, 4) if true.ndim and true.shape[-1] % n == 0):
        for order in itertools.permutations(range(n)):
            says = f"The {n} parts of its last axis are swapped: {[i + 1 for i in order]} is the right order."
            yield says, np.concatenate([np.split(mine, n, axis=-1)[i] for i in order], axis=-1), true
    says = "The right numbers stand in wrong places: is it a reshape where axes must be swapped?"
    yield says, np.sort(mine, axis=None), np.sort(true, axis=None)
    if e.again:
        yield from _other_arguments(mine, true, e)


def _other_arguments(mine, true, e: Evidence) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What would be true without a constant, for an input of ones, for a scaled input."""
    for name, value in e.constants.items():
        if value is not None and not isinstance(value, (bool, int, float)):
            change = np.ones_like(value) if name in e.arrays and e.arrays[name].dtype.kind == "b" else None
            yield f"This is right without {name}: {name} is forgotten.", mine, e.true_for(**{name: change})
    for name in e.others if len(e.others) < 5 else ():
        for_ones, factor = e.true_for(**{name: np.ones_like(e.arrays[name])}), e.arrays[name]
        yield f"This is right for {name} = 1: {name} is forgotten.", mine, for_ones
        if _fits(factor, for_ones):
            says = f"{name} is multiplied in at the end: it belongs inside, before the sums over the row."
            yield says, mine, for_ones * factor
    for (name, array), n in itertools.product(e.floats.items(), () if e.gradients else e.sizes):
        says = f"This is right for sqrt({n}) {name}: is the scale 1/sqrt({n}) missing?"
        yield says, mine, e.true_for(**{name: array * math.sqrt(n)})


def _fits(factor: np.ndarray, true: np.ndarray) -> bool:
    """Whether true can be multiplied by factor, entry by entry, and keeps its shape."""
    sizes = zip(factor.shape[::-1], true.shape[::-1], strict=False)
    return 0 < factor.ndim <= true.ndim and all(n in (1, m) for n, m in sizes)


def _off(mine, true) -> np.ndarray:
    return abs(mine - true) > 1e-6 * abs(true).max()


def _rows(mine, true, e: Evidence) -> str | None:
    """Mistakes that show in which ids, or which targets, are hit."""
    off = _off(mine, true)
    rows = off.any(axis=-1)
    for name, ids in e.ids.items():
        if true.ndim == 2 and ids.shape != rows.shape and ids.max() < len(true):
            count = np.bincount(ids[ids >= 0], minlength=len(true))
            if (count[rows] > 1).all():
                return f"Only rows of repeated {name} are wrong: `dw[ids] = ` keeps the last one, np.add.at adds all."
            if (rows == (count > 0)).all():
                return f"Exactly the rows of {name} that occur are wrong: what the lookup adds is missing."
            unused, true_unused = mine[count == 0], true[count == 0]
            times = (unused * true_unused).sum() / (true_unused**2).sum()
            if not _off(unused, times * true_unused).any():
                says = "the output head, which uses every row, must be counted once"
                return f"Rows of {name} that do not occur are {times:.3g} times the true ones: {says}."
        if ids.shape == rows.shape:
            if (ids[rows] < 0).all():
                return f"Only rows where {name} is ignored (-100) are wrong: their gradient is 0."
            if not (off & (np.arange(true.shape[-1]) != ids[..., None])).any():
                return f"It is wrong only at the entry that {name} names: look at the one-hot term and its sign."
    return None


def _dropped(mine, true, e: Evidence) -> str | None:
    """A dropped term such as `x_hat * mean(...)`: in every row a multiple of something known."""
    if true.ndim == 0 or true.shape[-1] < 4:
        return None
    columns, one = true.shape[-1], np.ones_like(true)

    def spanned(x, base) -> bool:  # is every row of x made of the same rows of the arrays in base?
        a, x = np.stack([array.reshape(-1, columns) for array in base], axis=-1), x.reshape(-1, columns, 1)
        return same(a @ (np.linalg.pinv(a) @ x), x)

    if spanned(true, [mine]):
        return "Each row is off by a factor of its own: something that belongs to the row is missing, or is too much."
    known = {name: array for name, array in e.floats.items() if array.shape == true.shape and name != "dout"}
    known |= {f"{name} normalised": array - array.mean(axis=-1, keepdims=True) for name, array in known.items()}
    bases = {"the same number for the whole row": [one]} | {f"a multiple of {name}": [x] for name, x in known.items()}
    bases |= {f"a number, and a multiple of {name}": [one, array] for name, array in known.items()}
    for what in (what for what, base in bases.items() if spanned(true - mine, base)):
        return f"What is missing is, in every row, {what}: is a mean or sum over the row left out?"
    return None


def _zeros(mine, true, e: Evidence) -> str | None:
    zero, true_zero = mine == 0, abs(true) < 1e-8 * abs(true).max()
    if (zero & ~true_zero).any() and (true_zero & ~zero).any():
        return "It is zero in other places than the true one: is it another mask, or another key?"
    if true_zero.any() and same(np.where(true_zero, 0, mine), true):
        return f"It is not zero at {true_zero.sum()} entries where the true one is: is a mask or dropout missing here?"
    return None


def _zero_sum(mine, true, e: Evidence) -> str | None:
    for axis in reversed(range(true.ndim)):
        if abs(true.sum(axis)).max() < 1e-7 * abs(true).max() < abs(mine.sum(axis)).max():
            says = f"The true one sums to 0 along axis {axis}, yours does not"
            return f"{says}: a mean or sum that is subtracted is missing, or runs over another axis."
    return None


def _slope(mine, true, e: Evidence) -> str | None:
    """An operation that works entry by entry, whose slope is wrong; and whatever is nearly right."""
    i, dout = np.unravel_index(abs(mine - true).argmax(), mine.shape), e.arrays.get("dout", np.zeros(()))
    far = abs(mine - true)[i] / abs(true).max()
    if far < 1e-5:
        return f"It is right to {far:.0e}: is something computed in float32, or an eps in another place?"
    if far < 1e-2:
        return f"It is nearly right, to {far:.0e}: another form of the same function, or another eps?"
    if e.again and e.name in e.gradients and dout.shape == true.shape and same(dout * e.true_for(1.0), true):
        x, slope, yours = e.arrays[e.name][i], true[i] / dout[i], mine[i] / dout[i]
        says = "is the derivative of an inner function missing, or a term of the product rule?"
        return f"The slope at {x:.3g} is {slope:.4g}, yours is {yours:.4g}: {says}"
    return None


def _where(mine, true, e: Evidence) -> str:
    off = _off(mine, true)
    for axis in reversed(range(off.ndim)):
        hit = off.any(axis=tuple(i for i in range(off.ndim) if i != axis)).nonzero()[0]
        if 0 < len(hit) < off.shape[axis]:
            together = hit[-1] - hit[0] == len(hit) - 1 > 0
            where = f"{hit[0]} to {hit[-1]}" if together else ", ".join(map(str, hit))
            return f"It is wrong only at {where} of axis {axis} (which has {off.shape[axis]}); the rest is right."
    return f"{off.sum()} of {off.size} entries are wrong, and no simple pattern fits."
