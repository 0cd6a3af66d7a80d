"""Numbers as a GPU computes them: rounded once, and the smallest flushed to zero where PTX says so.

Every function takes and returns arrays.
"""

import numpy as np

TINY = np.float32(2.0**-126)  # the smallest float32 that is not subnormal


def flush(x: np.ndarray) -> np.ndarray:
    """.ftz: a subnormal float32 becomes a zero of its sign."""
    return x * (np.abs(x) >= TINY)


def two_sum(a, b):
    """The rounded sum of two float64, and exactly what rounding took away (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def two_product(a, b):
    """The rounded product of two float64, and exactly what rounding took away (Dekker, Veltkamp)."""

    def halves(x):
        scaled = x * 134217729.0  # 2^27 + 1
        upper = scaled - (scaled - x)
        return upper, x - upper

    product = a * b
    a_upper, a_lower = halves(a)
    b_upper, b_lower = halves(b)
    off = ((a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper) + a_lower * b_lower
    return product, off


def fma32(a, b, c, down=False):
    """a b + c of float32, rounded once: to the nearest, or down.

    In float64 the product is exact. The sum is rounded to float64 and then to float32; this differs from one rounding
    only where the first one ends in the middle between two float32.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    if down:
        return _rounded_down(*two_sum(product, c.astype(np.float64)))
    middle = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == 0x10000000
    if middle.any():
        total, off = two_sum(product, c.astype(np.float64))
        beside = np.nextafter(total, np.copysign(np.inf, off))
        total = np.where(middle & (off != 0) & np.isfinite(total), beside, total)
    return total.astype(np.float32)


def _rounded_down(total, off):
    nearest = total.astype(np.float32)
    too_large = (nearest > total) | ((nearest == total) & (off < 0))
    return np.where(too_large, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def fma64(a, b, c):
    """a b + c of float64, with at most the last bit off; where a part of it is not finite, as computed in two steps."""
    product, off = two_product(a, b)
    total, lost = two_sum(product, c)
    once = total + (lost + off)
    return np.where(np.isfinite(once), once, a * b + c)


def upper_half(a, b):
    """Of the product of two whole numbers, of twice as many bits, the upper half."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wider = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return (a.astype(wider) * b.astype(wider) >> wider.type(bits)).astype(a.dtype)
    assert a.dtype.kind == "u", "of signed numbers of 64 bits"
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_upper, a_lower, b_upper, b_lower = a >> half, a & low, b >> half, b & low
    middle = a_upper * b_lower + (a_lower * b_lower >> half)
    return a_upper * b_upper + (middle >> half) + ((middle & low) + a_lower * b_upper >> half)


def divide(a, b):
    """Whole numbers: the quotient without its fraction, as in C. By zero: 0, where PTX says nothing."""
    quotient = np.floor_divide(a, b)
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def remainder(a, b):
    """Of divide: it has the sign of a."""
    return a - divide(a, b) * b


def to_whole(x, dtype):
    """A float that is whole already. Beyond the ends of the type: its ends; what is not a number: 0."""
    ends = np.iinfo(dtype)
    above, below = x >= float(ends.max), x <= float(ends.min)
    inside = np.where(above | below | np.isnan(x), 0, x).astype(dtype)
    return np.where(above, ends.max, np.where(below, ends.min, inside)).astype(dtype)


def to_bfloat16(x):
    """The 16 bits of the nearest bfloat16, and of two that are equally near of the even one."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def from_bfloat16(bits):
    """bfloat16, as bits, to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_tf32(x):
    """.rna: the nearest float32 whose last 13 bits are 0, and of two that are equally near the larger one."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    rounded = np.where(np.isinf(x), bits, rounded)
    return np.where(np.isnan(x), np.uint32(0x7FFFE000), rounded).astype(np.uint32)


def approximate(function, x):
    """What the units for exp2, log2, 1/x and 1/sqrt(x) give, which err in the last bits, is computed in float64."""
    return function(x.astype(np.float64)).astype(x.dtype)
