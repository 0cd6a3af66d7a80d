"""RMSNorm."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import TINY
from minigpt.ops.fast.pieces import column_sums, share_over


class RmsnormCache(NamedTuple):
    x_hat: Array
    r: Array
    g: Array


def rmsnorm_forward(x, g, *, eps=1e-6):
    """x (*,C), g (C,) -> out (*,C)"""
    c = x.shape[-1]
    rows = x.reshape(-1, c)
    if rows.size < TINY:
        r = 1 / np.sqrt(np.vecdot(rows, rows)[:, None] / c + eps)
        x_hat = rows * r
        return (x_hat * g).reshape(x.shape), RmsnormCache(x_hat.reshape(x.shape), r, g)
    out = np.empty_like(rows)
    x_hat = np.empty_like(rows)
    r = np.empty((len(rows), 1), x.dtype)

    def piece(i):
        squares = np.vecdot(rows[i], rows[i])[:, None]
        r[i] = 1 / np.sqrt(squares / c + eps)
        h = np.multiply(rows[i], r[i], out=x_hat[i])
        np.multiply(h, g, out=out[i])

    share_over(piece, *rows.shape)
    x_hat = x_hat.reshape(x.shape)
    return out.reshape(x.shape), RmsnormCache(x_hat, r, g)


def rmsnorm_backward(dout, cache: RmsnormCache):
    """dout (*,C) -> dx (*,C), dg (C,)

    The mean of dout g x_hat over a row is a product with g, which needs no pass over an array of its own.
    """
    x_hat, r, g = cache
    c = len(g)
    x_hat = x_hat.reshape(-1, c)
    drows = dout.reshape(-1, c)
    dx = np.empty_like(x_hat)

    def piece(i):
        d = drows[i]
        h = x_hat[i]
        product = d * h
        dg = column_sums(product)
        stretch = (product @ g)[:, None] / c
        y = np.multiply(d, g, out=dx[i])
        y -= np.multiply(h, stretch, out=product)
        y *= r[i]
        return dg

    dg = np.zeros_like(g)
    for dg_piece in share_over(piece, *x_hat.shape):
        dg += dg_piece
    return dx.reshape(dout.shape), dg
