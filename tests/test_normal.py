"""Φ and φ of the normal distribution, and GELU in its exact form, against Python's erfc and exp: to the last digits.

x/√2 and x² are rounded before erfc and exp see them, which costs more digits than are tested here: so both are given
the exact argument, in two parts.
"""

import math

import numpy as np
import pytest
from helpers import each

from minigpt import ops
from minigpt.ops.normal import cdf_and_density

EPS = np.finfo(np.float64).eps
SPLIT = 2.0**27 + 1
POINTS = np.concatenate([np.linspace(-37.5, 9, 900_000), np.random.default_rng(0).standard_normal(100_000)])
EDGES = [0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 1e-160, -1e-160, 9.0, -9.0, 40.0, -40.0, 1e10, -1e10]


def square_in_two_parts(x):
    """(x² rounded, what the rounding left out), by Veltkamp's split."""
    high = x * SPLIT
    high = high - (high - x)
    low = x - high
    whole = x * x
    return whole, ((high * high - whole) + 2 * high * low) + low * low


def true_density(x):
    whole, left = square_in_two_parts(x)
    exp = np.vectorize(math.exp, otypes=[float])
    return exp(-0.5 * whole) * (1 - 0.5 * left) / math.sqrt(2 * math.pi)


def true_cdf(x):
    """erfc(z) / 2, with the slope of erfc times what is missing in z = -x/√2."""
    z = -x / math.sqrt(2)
    (x_whole, x_left), (z_whole, z_left) = square_in_two_parts(x), square_in_two_parts(z)
    missing = ((x_whole - 2 * z_whole) + (x_left - 2 * z_left)) / np.where(z == 0, 1, 4 * z)
    erfc = np.vectorize(math.erfc, otypes=[float])
    return erfc(z) / 2 - missing * np.exp(-z * z) / math.sqrt(math.pi)


def test_a_million_points_have_every_digit():
    x = POINTS
    cdf, density = cdf_and_density(x)
    right_cdf, right_density = true_cdf(x), true_density(x)
    assert len(x) == 1_000_000
    assert abs(cdf / right_cdf - 1).max() < 8 * EPS
    assert abs(density / right_density - 1).max() < 8 * EPS
    out, cache = ops.gelu_exact_forward(x)
    assert abs(out / (x * right_cdf) - 1).max() < 8 * EPS
    slope = ops.gelu_exact_backward(np.ones_like(x), cache)
    terms = np.maximum(right_cdf, abs(x) * right_density)  # the slope is 0 at -0.75, where they cancel
    assert (abs(slope - (right_cdf + x * right_density)) / terms).max() < 8 * EPS


def test_the_judge_sees_a_digit_less():
    """What the tests above are for: the plain formula, and a square that is rounded, are seen to be wrong."""
    x = POINTS[::100]
    plain = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    assert abs(plain / true_cdf(x) - 1).max() > 0.99
    rounded = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    assert abs(rounded / true_density(x) - 1).max() > 50 * EPS


def test_where_the_result_itself_has_few_digits():
    """Below -37.5 Φ is smaller than the least number with all its digits, and below -38.6 it is 0."""
    x = np.linspace(-39, -37.5, 10_001)
    cdf, _ = cdf_and_density(x)
    assert abs(cdf - true_cdf(x)).max() <= 4 * 5e-324 and (cdf[x < -38.6] == 0).all() and cdf[-1] > 0


@each("dtype", [np.float64, np.float32])
def test_the_edges(dtype):
    x = np.array(EDGES, dtype)
    out, cache = ops.gelu_exact_forward(x)
    slope = ops.gelu_exact_backward(np.ones_like(x), cache)
    small, large = abs(x) < 1e-9, x >= 9
    assert (cdf_and_density(x)[0][small] == 0.5).all() and (out[small] == x[small] * dtype(0.5)).all()
    assert np.signbit(out[1]) and not np.signbit(out[0]) and (abs(slope[small] - 0.5) <= 1e-9).all()
    assert (out[large] == x[large]).all() and (slope[large] == 1).all()
    assert (out[x <= -40] == 0).all() and (slope[x <= -40] == 0).all() and np.isfinite(slope).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_not_hidden():
    """0 times infinity is not a number, in this form as in the tanh form and in torch."""
    x = np.array([math.inf, -math.inf, math.nan])
    cdf, density = cdf_and_density(x)
    assert cdf[:2].tolist() == [1, 0] and density[:2].tolist() == [0, 0] and np.isnan([cdf[2], density[2]]).all()
    for op in ("gelu", "gelu_exact"):
        out, _ = getattr(ops, f"{op}_forward")(x)
        assert out[0] == math.inf and np.isnan(out[1:]).all(), op


def test_float32_has_every_digit_of_its_own():
    x = np.concatenate([np.linspace(-12.5, 6, 100_000), POINTS[-100_000:]]).astype(np.float32)
    for found, right in zip(cdf_and_density(x), cdf_and_density(x.astype(np.float64)), strict=True):
        assert found.dtype == np.float32
        assert abs(found / right - 1).max() < 8 * np.finfo(np.float32).eps


@each("name", ["float16", "bfloat16"])
def test_sixteen_bits_are_rounded_once(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = np.linspace(-5, 5, 1001).astype(dtype)
    for found, right in zip(cdf_and_density(x), cdf_and_density(x.astype(np.float32)), strict=True):
        assert found.dtype == dtype and (found == right.astype(dtype)).all()


def test_the_halves_add_up_to_one():
    x = np.linspace(0, 12, 100_001)
    assert (cdf_and_density(x)[0] + cdf_and_density(-x)[0] == 1).all()
    assert (cdf_and_density(x)[1] == cdf_and_density(-x)[1]).all()


def test_numbers_without_axes_and_arrays_of_any_shape():
    for shape in ((), (0,), (2, 0, 3), (2, 3, 4)):
        x = np.full(shape, 1.25)
        for found in cdf_and_density(x):
            assert found.shape == shape and found.dtype == np.float64
    assert math.isclose(cdf_and_density(np.array(1.0))[0], 0.841344746068543, rel_tol=1e-15)
