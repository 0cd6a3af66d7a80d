"""Mistakes in one term of a gradient whose rows are sums of terms, such as `x_hat * mean(...)` of LayerNorm.

Where what is missing is, in every row, a multiple of a known array, that term may be absent, or it may be there with a
wrong factor. The other terms tell the two apart: with the right guess, what is left of the gradient has no part of it.
"""

import numpy as np

from minigpt.gradcheck.evidence import same


def wrong_term_of_each_row(mine, true, e):
    """A term that is left out, or that has a wrong factor such as rstd**2 for rstd**3."""
    missing = true - mine
    for what, base in _bases(true, e):
        if made_of(missing, base):
            return f"What is missing is, in every row, {what}: {_cause(missing, true, base, e)}"


def direct_part_missing(mine, true, e):
    """The part in which every entry depends on its own dout, overwritten by the parts that depend on the whole row."""
    others = _as_large(true, e)
    if others.pop("dout", None) is None:
        return None
    ones = np.ones_like(true)
    if not any(made_of(mine, [other, ones]) for other in others.values()):
        return None
    for name, factor in {"": 1, **e.floats}.items():
        direct = _product(e.dout, factor)
        for base in ([direct], [direct, ones]):
            if made_of(true - mine, base):
                says = "does a second line overwrite a first (`=` for `+=`)?"
                return (
                    f"What is missing is the direct part, in every row a multiple of {f'dout {name}'.strip()}: {says}"
                )


def sum_not_zero_before_a_product(mine, true, e):
    """A sum that the derivative of a softmax subtracts, before a product with another input."""
    for name in e.others:
        factor = e.arrays[name]
        if factor.ndim < 2 or factor.shape[:-2] + factor.shape[-1:] != true.shape[:-2] + true.shape[-1:]:
            continue
        inverse = np.linalg.pinv(factor)
        before, of_mine = true @ inverse, mine @ inverse
        if factor.shape[-2] > factor.shape[-1] or not (same(before @ factor, true) and same(of_mine @ factor, mine)):
            continue
        if abs(before.sum(axis=-1)).max() < 1e-7 * abs(before).max() < abs(of_mine.sum(axis=-1)).max():
            says = "a softmax has a sum over the row that is subtracted: is it missing, or over another axis?"
            return f"Before the product with {name}, each row of the true one sums to 0, yours does not: {says}"


def made_of(x, base):
    """Whether every row of x is a sum of multiples of the same row of the arrays in base; False for short rows."""
    if x.ndim == 0 or x.shape[-1] < 4:
        return False
    x = x[..., None]
    a = np.stack(base, axis=-1)
    if not np.isfinite(a).all():
        return False
    multiples = np.linalg.pinv(a) @ x
    return same(a @ multiples, x)


def _bases(true, e):
    """Pairs of words and arrays, of which what is missing in each row may be a sum of multiples."""
    known = _as_large(true, e)
    known.pop("dout", None)
    ones = np.ones_like(true)
    yield "the same number for the whole row", [ones]
    for name, array in known.items():
        yield f"a multiple of {name}", [array]
    for name, array in known.items():
        mean = array.mean(axis=-1, keepdims=True)
        yield f"a multiple of {name} normalised", [array - mean]
    for name, array in known.items():
        yield f"a number, and a multiple of {name}", [ones, array]


def _as_large(true, e):
    """The known arrays of the shape of the gradient."""
    found = {}
    for name, array in e.floats.items():
        if array.shape == true.shape:
            found[name] = array
    return found


def _cause(missing, true, base, e):
    """What is wrong with the term: mine has `share` of it, so missing = (1 - share) term."""
    for share, says in _shares(true, e):
        term = missing / (1 - share)
        if _is_free_of(base, true - term, e):
            return says
    return "has the term with it a wrong factor, or is its mean or sum a wrong one?"


def _shares(true, e):
    """Pairs of a share of the term, a number or one for each row, and what it means."""
    n = true.shape[-1]
    one_less = n - 1
    yield 0, "is a mean or sum over the row left out?"
    yield -1, "the term with it has the wrong sign."
    for name, factor in _factors_of_rows(true, e).items():
        yield 1 / factor, f"in the term with it one factor {name} is missing."
        yield factor, f"in the term with it is one factor {name} too many."
        yield 1 / factor**2, f"in the term with it two factors {name} are missing."
        yield factor**2, f"in the term with it are two factors {name} too many."
    yield 2, "the term with it is there twice: is a factor 1/2 missing, or is it counted twice?"
    yield 1 / 2, "only half of the term with it is there: is a factor 2 missing, or one of two equal parts?"
    yield n, f"the term with it is {n} times too large: is it a sum over the row where it must be a mean?"
    yield 1 / n, f"the term with it is {n} times too small: is it a mean over the row where it must be a sum?"
    yield one_less / n, f"in the term with it is a division by {n} where the forward pass divides by {one_less}."
    yield n / one_less, f"in the term with it is a division by {one_less} where the forward pass divides by {n}."


def _factors_of_rows(true, e):
    """The known arrays that have one number for each row."""
    found = {}
    rows = true.shape[:-1]
    for name, array in e.floats.items():
        if array.shape == (*rows, 1):
            found[name] = array
        elif array.shape == rows != ():
            found[name] = array[..., None]
    return found


def _is_free_of(base, rest, e):
    """Whether every row of rest is a multiple of dout, or of dout times something known, and has no part of base.

    Besides dout it may have one other part: a number for the whole row, or a multiple of a known array.
    """
    if e.dout.shape != rest.shape:
        return False
    allowed = [[]]
    for other in [np.ones_like(rest), *_as_large(rest, e).values()]:
        if not made_of(other, base):
            allowed.append([other])
    for factor in [1, *e.floats.values()]:
        direct = _product(e.dout, factor)
        for other in allowed:
            parts = [direct, *other]
            if made_of(rest, parts) and not made_of(base[0], parts):
                return True
    return False


def _product(x, factor):
    """x times the factor; NaN where the two do not fit."""
    try:
        product = x * factor
    except ValueError:
        return np.nan * x
    return product if product.shape == x.shape else np.nan * x
