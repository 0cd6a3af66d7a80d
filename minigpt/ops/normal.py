"""The normal distribution: Φ(x), the probability of a number below x, and its density φ(x), to nearly the last digit.

NumPy has no error function. With y = |x| and t = (y - 4) / (y + 4), a number from -1 up to 1,

    Φ(-y) = e^(-y²/2) P(t) / (y + 4),   Φ(y) = 1 - Φ(-y),

where P is so smooth that one polynomial gives it for every y (Shepherd and Laframboise 1981, Mathematics of Computation
36; they write it for e^(z²) erfc z). So Φ keeps its digits where it is tiny: 1/2 (1 + erf(x/√2)) has none left at -9.

SciPy's ndtr is Φ too. It would be 35 MB more to download, 113 MB on disk and 0.2 s at every start (SciPy 1.17); it
takes as long as this in float32, and less than half in float64.
"""

import math

import numpy as np

from minigpt.device.arrays import array_module

SHIFT = 4
STEP = 1 / 16  # squares of its multiples are exact
FOR_FLOAT64 = (  # of P, the constant first: from its values at 23 points of Chebyshev, where y is below 40
    0.7552851304157515, -0.6078966419718917, 0.38713740074221936, -0.1865218579596934, 0.06039657489067665,
    -0.007540188965625017, -0.0034796923618040597, 0.0016308184424805887, 0.00013334424978358428,
    -0.00023109482414997105, -1.9078434059248706e-06, 3.51442149682578e-05, 7.149308325478401e-07,
    -5.919013186154044e-06, -6.249906995369785e-07, 1.0200713392568465e-06, 2.6354310560684456e-07,
    -1.546196819122192e-07, -7.634712843441086e-08, 1.4842390072751344e-08, 1.3976528155950821e-08,
    -1.015295717649618e-11, -9.990624160023276e-10,
)  # fmt: skip
FOR_FLOAT32 = (  # the same at 10 points, where y is below 15
    0.755285138596193, -0.6078965941450818, 0.38713668307040544, -0.18652330675776782, 0.06040618551429179,
    -0.007525402418208545, -0.003520972823986374, 0.0015668816877809047, 0.00018899651942026397,
    -0.0001255583856022561,
)  # fmt: skip
FARTHEST = {"float64": 40, "float32": 15}  # Φ(-y) and φ(y) are 0 from there on


def cdf_and_density(x):
    """x (*) -> Φ(x) (*), φ(x) (*). What has 16 bits is computed in float32, and longdouble as exactly as float64."""
    xp = array_module(x)
    dtype = np.result_type(x.dtype, np.float32)
    is_float32 = dtype == np.float32
    y = abs(x.astype(dtype, copy=False))
    y = xp.minimum(y, FARTHEST["float32" if is_float32 else "float64"])
    bell = _bell(y, xp)
    r = 1 / (y + SHIFT)
    t = (y - SHIFT) * r
    p = 0 * t
    for coefficient in reversed(FOR_FLOAT32 if is_float32 else FOR_FLOAT64):
        p *= t
        p += coefficient
    below = bell * r * p
    cdf = xp.where(x < 0, below, 1 - below)
    density = bell * (1 / math.sqrt(2 * math.pi))
    return cdf.astype(x.dtype, copy=False), density.astype(x.dtype, copy=False)


def _bell(y, xp):
    """y (*) -> e^(-y²/2) (*). A rounding error of y² would be one of the result: so y² is taken as two exact parts."""
    near = xp.floor(y / STEP) * STEP
    rest = (y - near) * (y + near)
    return xp.exp(-0.5 * near * near) * xp.exp(-0.5 * rest)
