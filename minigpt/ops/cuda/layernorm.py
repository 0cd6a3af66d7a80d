"""Layer normalisation: kernels in layernorm.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, blocks, column_sums, launch, pack_of, stripe_of, wide


class LayernormCache(NamedTuple):
    x: Array
    mean: Array
    rstd: Array
    g: Array


def layernorm_supports(x, g, b, *, eps=1e-5) -> str | None:
    """Gains and biases of the dtype that numbers are computed in: float32 beside an x of bfloat16."""
    if g.dtype != wide(x.dtype):
        return f"it takes gains of {wide(x.dtype)} beside {x.dtype}, not of {g.dtype}"
    return accepts(x) or accepts(g, b)


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
    _launch("layernorm_forward", grid, (out, x, b, g), out, mean, rstd, x, g, b, eps, rows, columns)
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
    sizes = (rows, columns, stripe)
    _launch("layernorm_backward", stripes, (dx, dout, x, g), dx, parts, dout, x, mean, rstd, g, *sizes)
    dg, db = column_sums(parts)
    return dx, dg, db


def _launch(kernel, grid, in_packs, *arguments):
    """in_packs: the arrays that are read or written several numbers at a time, the last of them g (C,)."""
    columns = in_packs[-1].size
    pack = pack_of(columns, *in_packs)
    packs = blocks(columns, 32 * pack)
    warps = kernels.WARPS
    block = (32, warps, 1)
    launch("layernorm", kernel, (grid, 1, 1), block, *arguments, PACK=pack, PACKS=packs, WARPS=warps)
