"""The cosine loss: kernels in cosine_loss.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, blocks, launch, pack_of, wide
from minigpt.ops.cuda.row_shares import row_shares, times_dloss, weights_of_rows


class CosineLossCache(NamedTuple):
    a: Array
    b: Array
    cosine: Array
    a_square: Array
    b_square: Array
    share: Array


def cosine_loss_supports(a, b, *, weights=None, normalizer=None, eps=1e-12) -> str | None:
    """Two arrays of one dtype that are not empty."""
    if not a.size:
        return "it takes vectors of one number or more, and one vector or more"
    return accepts(a, b)


def cosine_loss_forward(a, b, *, weights=None, normalizer=None, eps=1e-12):
    """a (*,C), b (*,C) -> loss ()

    Sums, cosines and the loss have the dtype that numbers are computed in: float32 for vectors of bfloat16.
    """
    xp = array_module(a)
    dtype = wide(a.dtype)
    a = xp.ascontiguousarray(a)
    b = xp.ascontiguousarray(b)
    columns = a.shape[-1]
    rows = a.size // columns
    share = row_shares(weights_of_rows(a, weights, dtype), normalizer)
    cosine = xp.empty(rows, dtype)
    a_square = xp.empty(rows, dtype)
    b_square = xp.empty(rows, dtype)
    sums = (cosine, a_square, b_square)
    _launch("cosine_loss_forward", pack_of(columns, a, b), *sums, a, b, eps, rows, columns)
    losses = share * (1 - cosine)
    return losses.sum(), CosineLossCache(a, b, *sums, share)


def cosine_loss_backward(dloss, cache: CosineLossCache):
    """dloss () -> da (*,C), db (*,C)"""
    a, b, *sums, share = cache
    xp = array_module(a)
    da = xp.empty_like(a)
    db = xp.empty_like(b)
    columns = a.shape[-1]
    pack = pack_of(columns, a, b, da, db)
    sizes = (len(share), columns)
    share, factor = times_dloss(share, dloss)
    _launch("cosine_loss_backward", pack, da, db, a, b, *sums, share, factor, *sizes)
    return da, db


def _launch(kernel, pack, *arguments):
    """The last arguments: rows, and columns. A warp takes a row."""
    warps = kernels.WARPS
    grid = blocks(arguments[-2], warps)
    launch("cosine_loss", kernel, (grid, 1, 1), (32, warps, 1), *arguments, PACK=pack, WARPS=warps)
