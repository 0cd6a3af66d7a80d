"""From logits to a token: temperature, top-k, nucleus, one draw. The same lines on every device, but for `_columns`.

Logits on a GPU stay there: only the tokens that were drawn, and the largest logit of each row, are copied to the
processor.
"""

import numpy as np

from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.errors import INFINITY, InputError, is_number, is_whole, shown


class NotFinite(InputError):
    """Logits from which no token can be drawn."""


def next_tokens(
    logits: Array,
    uniform: np.ndarray,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> np.ndarray:
    """logits (B,V), uniform (B,) in [0, 1) -> tokens (B,) int, in NumPy

    The steps of GPT-2's own sampler: divide by the temperature, keep the top_k, keep the nucleus, draw. The draw is the
    first token at which the cumulative probability exceeds the uniform number. temperature=0 is greedy: the likeliest
    token, without a draw. Raises InputError for options outside their range and for arrays of another shape,
    and its subclass NotFinite for logits that hold NaN, or infinity in place of a largest number.

    On a GPU all kernels are launched before the program waits for a result. Sums are added in another sequence there: a
    uniform number within a rounding error of the edge between two tokens may draw the other one.
    """
    check_options(temperature, top_k, top_p)
    _check_arrays(logits, uniform)
    largest = logits.max(axis=-1, keepdims=True)
    if temperature == 0:
        tokens = logits.argmax(axis=-1)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # far below the largest: -inf; NaN is refused below
            tokens = _drawn(logits, largest, array_module(logits).asarray(uniform), temperature, top_k, top_p)
    if not np.isfinite(to_numpy(largest)).all():
        raise NotFinite("logits hold NaN, or infinity in place of a largest number: nothing can be drawn from them")
    return to_numpy(tokens)


def _drawn(logits, largest, uniform, temperature, top_k, top_p):
    """The tokens (B,) for a temperature above 0."""
    logits = (logits.astype(np.float64) - largest) / temperature
    tokens = slice(None)
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_nucleus(logits, top_p)
    if top_k is not None or top_p is not None:
        tokens = _columns(logits != -np.inf)
    cumulative = probabilities(logits[:, tokens]).cumsum(axis=-1)
    total = cumulative[:, -1:]  # 1, but for rounding
    threshold = uniform[:, None] * total
    place = (cumulative <= threshold).sum(axis=-1)
    return place if isinstance(tokens, slice) else tokens[place]


def _columns(wanted: Array) -> Array | slice:
    """wanted (B,V) boolean -> the columns that any row wants: the others cost time, and change nothing

    On a GPU all of them: the program would have to wait until it knows how many there are.
    """
    if array_module(wanted) is np:
        return np.flatnonzero(wanted.any(axis=0))
    return slice(None)


def probabilities(logits: Array) -> Array:
    """logits (B,V) -> p (B,V), the softmax"""
    largest = logits.max(axis=-1, keepdims=True)
    e = array_module(logits).exp(logits - largest)
    return e / e.sum(axis=-1, keepdims=True)


def keep_top_k(logits: Array, k: int) -> Array:
    """logits (B,V) -> (B,V): all below the k-th largest become -inf; those equal to it stay (Fan et al. 2018)"""
    xp = array_module(logits)
    k = min(k, logits.shape[-1])
    partly_sorted = xp.partition(logits, -k, axis=-1)
    threshold = partly_sorted[:, -k, None]
    return xp.where(logits < threshold, -np.inf, logits)


def keep_nucleus(logits: Array, p: float) -> Array:
    """logits (B,V) -> (B,V): the likeliest tokens whose probabilities together are at most p stay, and at least one

    This is GPT-2's released code. The paper on nucleus sampling (Holtzman et al. 2019) keeps the smallest set that
    *reaches* p: one token more.
    """
    if p >= 1:
        return logits  # rounding may take the sum above 1, and the unlikeliest token would be lost
    xp = array_module(logits)
    p_token = probabilities(logits)
    least = (1 - p) / logits.shape[-1]  # all tokens below this hold less than 1 - p together: none is in the nucleus
    outside = p_token < least
    inside = xp.where(outside, 0, p_token)[:, _columns(~outside)]
    descending = -xp.sort(-inside, axis=-1)
    n_inside = (descending.cumsum(axis=-1) <= p).sum(axis=-1)
    last = xp.maximum(n_inside - 1, 0)
    threshold = xp.take_along_axis(descending, last[:, None], axis=-1)
    return xp.where(p_token < threshold, -np.inf, logits)


def check_options(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raises InputError for a temperature below 0, a top_k below 1, a top_p outside (0, 1], and for other types."""
    if not is_number(temperature) or not 0 <= temperature < INFINITY:
        raise InputError(f"temperature {shown(temperature)}: give 0 (always the likeliest token) or a number above it")
    if top_k is not None and (not is_whole(top_k) or top_k < 1):
        raise InputError(f"top-k {shown(top_k)}: give 1 or more, a whole number, or leave it out to keep every token")
    if top_p is not None and (not is_number(top_p) or not 0 < top_p <= 1):
        raise InputError(f"top-p {shown(top_p)}: give a probability above 0 and up to 1")


def _check_arrays(logits: Array, uniform: np.ndarray) -> None:
    if getattr(logits, "ndim", None) != 2:
        raise InputError(f"logits are {shown(logits)}: give an array (B,V)")
    if np.shape(uniform) != (len(logits),):
        raise InputError(f"uniform is {shown(uniform)}: give one number for each of the {len(logits)} rows of logits")
