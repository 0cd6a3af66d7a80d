"""GELU in its exact form, with the normal distribution itself (Hendrycks and Gimpel 2016, section 2)."""

from typing import NamedTuple

from minigpt.device.arrays import Array
from minigpt.ops.normal import cdf_and_density


class GeluExactCache(NamedTuple):
    x: Array
    cdf: Array
    density: Array


def gelu_exact_forward(x):
    """x (*) -> out (*)

    out = x Φ(x),   Φ(x) = (1 + erf(x / sqrt(2))) / 2: the probability that a normal number is below x.
    """
    cdf, density = cdf_and_density(x)
    out = x * cdf
    return out, GeluExactCache(x, cdf, density)


def gelu_exact_backward(dout, cache: GeluExactCache):
    """dout (*) -> dx (*)

    dx = dout (Φ(x) + x φ(x)),   φ(x) = exp(-x^2 / 2) / sqrt(2 pi), which is the slope of Φ.
    """
    x, cdf, density = cache
    # out = x * cdf: out depends on x as a factor, and through cdf
    dx = dout * (cdf + x * density)
    return dx
