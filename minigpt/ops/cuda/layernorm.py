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
    """Gains and biases are as wide as numbers are computed with: float32 beside bfloat16."""
    if g.dtype != wide(x.dtype):
        return f"it takes gains of {wide(x.dtype)} beside {x.dtype}, not of {g.dtype}"
    return accepts(x) or accepts(g, b)


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)

    Kept is x, which lies in memory already, and not x_hat.
    """
    xp = array_module(x)
    x, g, b = (xp.ascontiguousarray(a) for a in (x, g, b))
    columns = len(g)
    rows = x.size // max(1, columns)
    out, mean, rstd = xp.empty_like(x), xp.empty(rows, g.dtype), xp.empty(rows, g.dtype)
    arrays = out, mean, rstd, x, g, b
    _launch("layernorm_forward", blocks(rows, kernels.WARPS), (out, x, b, g), *arrays, eps, rows, columns)
    return out, LayernormCache(x, mean, rstd, g)


def layernorm_backward(dout, cache: LayernormCache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    x, mean, rstd, g = cache
    xp = array_module(x)
    dout, dx = xp.ascontiguousarray(dout), xp.empty_like(x)
    rows, columns, stripe = len(mean), len(g), stripe_of(len(mean), kernels.WARPS)
    parts = xp.empty((2, blocks(rows, stripe), columns), g.dtype)
    arrays = dx, parts, dout, x, mean, rstd, g
    _launch("layernorm_backward", blocks(rows, stripe), (dx, dout, x, g), *arrays, rows, columns, stripe)
    dg, db = column_sums(parts)
    return dx, dg, db


def _launch(kernel, grid, in_packs, *arguments):
    """in_packs: the arrays that are read or written in packs, the last of them g"""
    columns = in_packs[-1].size
    pack = pack_of(columns, *in_packs)
    constants = {"PACK": pack, "PACKS": blocks(columns, 32 * pack), "WARPS": kernels.WARPS}
    launch("layernorm", kernel, (grid, 1, 1), (32, kernels.WARPS, 1), *arguments, **constants)
