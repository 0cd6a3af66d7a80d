"""Layer normalisation: kernels in layernorm.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts_beside_gains, blocks, column_sums, launch_rows, stripe_of


class LayernormCache(NamedTuple):
    x: Array
    mean: Array
    rstd: Array
    g: Array


def layernorm_supports(x, g, b, *, eps=1e-5) -> str | None:
    """Gains and biases of the dtype that numbers are computed in: float32 beside an x of bfloat16."""
    return accepts_beside_gains(x, g, b)


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)

    The cache keeps x, which is in memory already, and not x_hat.
    """
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    g = xp.ascontiguousarray(g)
    b = xp.ascontiguousarray(b)
    columns = len(g)
    rows = x.size // max(1, columns)
    out = xp.empty_like(x)
    mean = xp.empty(rows, g.dtype)
    rstd = xp.empty(rows, g.dtype)
    grid = blocks(rows, kernels.WARPS)
    sizes = (rows, columns)
    launch_rows("layernorm", "layernorm_forward", grid, (out, x, b, g), out, mean, rstd, x, g, b, eps, *sizes)
    return out, LayernormCache(x, mean, rstd, g)


def layernorm_backward(dout, cache: LayernormCache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    A block computes dx for a stripe of rows, and the part of dg and db that comes from them.
    """
    x, mean, rstd, g = cache
    xp = array_module(x)
    dout = xp.ascontiguousarray(dout)
    dx = xp.empty_like(x)
    rows = len(mean)
    columns = len(g)
    stripe = stripe_of(rows, kernels.WARPS)
    stripes = blocks(rows, stripe)
    parts = xp.empty((2, stripes, columns), g.dtype)
    arguments = (dx, parts, dout, x, mean, rstd, g, rows, columns, stripe)
    launch_rows("layernorm", "layernorm_backward", stripes, (dx, dout, x, g), *arguments)
    dg, db = column_sums(parts)
    return dx, dg, db
