"""How an array was made from known arrays: "dcode (1 - code²)", "dup @ w_up.T", "dshifted summed over axis 1"."""

from collections.abc import Iterator

import numpy as np

from minigpt.device.arrays import Array
from minigpt.gradcheck.evidence import same

FACTORS = (  # what a slope may be made of, beside the value itself
    ("(1 - {0})", lambda a: 1 - a),
    ("(1 - {0}²)", lambda a: 1 - a * a),
    ("(1 + {0})", lambda a: 1 + a),
    ("{0}²", lambda a: a * a),
    ("(1 - {0})²", lambda a: (1 - a) ** 2),
    ("(1 + {0}²)", lambda a: 1 + a * a),
    ("1/{0}", lambda a: 1 / a),
    ("1/{0}²", lambda a: 1 / (a * a)),
    ("(1 - tanh({0})²)", lambda a: 1 - np.tanh(a) ** 2),
    ("exp({0})", np.exp),
    ("({0} > 0)", lambda a: (a > 0) * 1.0),
)


def recipe(x: Array, known: dict[str, Array]) -> str | None:
    """The first product of known arrays that gives x, in words; None where none does.

    known: gradients, whose names begin with d, and values of the forward pass.
    """
    if not x.size or not np.isfinite(x).all():
        return None
    with np.errstate(all="ignore"):
        for kind in (_themselves, _matrix_products, _slopes, _sums):
            for words, array in kind(x, known):
                if same(x, array):
                    return words
    return None


def _gradients(known):
    return {name: array for name, array in known.items() if name.startswith("d")}


def _themselves(x, known) -> Iterator[tuple[str, Array]]:
    yield from known.items()


def _matrix_products(x, known):
    """Products of a gradient and another array, each as it is or transposed."""
    if x.ndim != 2:
        return
    ways = {f"{name}{mark}": (name, array if not mark else array.T)
            for name, array in known.items() if array.ndim == 2 for mark in ("", ".T")}  # fmt: skip
    for left, (one, a) in ways.items():
        for right, (other, b) in ways.items():
            has_gradient = one.startswith("d") or other.startswith("d")
            fits = a.shape[1] == b.shape[0] and (a.shape[0], b.shape[1]) == x.shape
            if has_gradient and fits:
                yield f"{left} @ {right}", a @ b


def _slopes(x, known):
    """A gradient, or none, times one factor or two."""
    factors = _factors(x, known)
    gradients = {name: array for name, array in _gradients(known).items() if _fits(array, x)}
    for upstream, array in {**gradients, "": np.ones(())}.items():
        for words, factor in factors.items():
            yield f"{upstream} {words}".strip(), array * factor
    for upstream, array in {**gradients, "": np.ones(())}.items():
        for one, factor in factors.items():
            if one in known:
                for two, other in factors.items():
                    yield f"{upstream} {one} {two}".strip(), array * factor * other


def _factors(x, known):
    """The values of the forward pass, and simple functions of each, that fit x."""
    found = {name: array for name, array in known.items() if not name.startswith("d") and _fits(array, x)}
    for words, function in FACTORS:
        found |= {words.format(name): function(known[name]) for name in list(found) if name in known}
    return found


def _fits(array, x):
    """Can it be multiplied with an array of the shape of x?"""
    try:
        return np.broadcast_shapes(array.shape, x.shape) == x.shape
    except ValueError:
        return False


def _sums(x, known):
    """A gradient summed, or averaged, over one axis."""
    for name, array in _gradients(known).items():
        for axis in range(array.ndim):
            yield f"{name} summed over axis {axis}", array.sum(axis)
            yield f"the mean of {name} over axis {axis}", array.mean(axis)
