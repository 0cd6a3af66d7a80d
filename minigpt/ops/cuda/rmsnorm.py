"""RMSNorm: kernels in rmsnorm.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts_beside_gains, blocks, column_sums, launch_rows, stripe_of


class RmsnormCache(NamedTuple):
    x: Array
    r: Array
    g: Array


def rmsnorm_supports(x, g, *, eps=1e-6) -> str | None:
    """Gains of the dtype that numbers are computed in: float32 beside an x of bfloat16."""
    return accepts_beside_gains(x, g)


def rmsnorm_forward(x, g, *, eps=1e-6):
    """x (*,C), g (C,) -> out (*,C)

    The cache keeps x, which is in memory already, and not x_hat.
    """
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    g = xp.ascontiguousarray(g)
    columns = len(g)
    rows = x.size // max(1, columns)
    out = xp.empty_like(x)
    r = xp.empty(rows, g.dtype)
    grid = blocks(rows, kernels.WARPS)
    launch_rows("rmsnorm", "rmsnorm_forward", grid, (out, x, g), out, r, x, g, eps, rows, columns)
    return out, RmsnormCache(x, r, g)


def rmsnorm_backward(dout, cache: RmsnormCache):
    """dout (*,C) -> dx (*,C), dg (C,)

    A block computes dx for a stripe of rows, and the part of dg that comes from them.
    """
    x, r, g = cache
    xp = array_module(x)
    dout = xp.ascontiguousarray(dout)
    dx = xp.empty_like(x)
    rows = len(r)
    columns = len(g)
    stripe = stripe_of(rows, kernels.WARPS)
    stripes = blocks(rows, stripe)
    parts = xp.empty((1, stripes, columns), g.dtype)
    sizes = (rows, columns, stripe)
    launch_rows("rmsnorm", "rmsnorm_backward", stripes, (dx, dout, x, g), dx, parts, dout, x, r, g, *sizes)
    dg = column_sums(parts)
    return dx, dg[0]
