"""Layer normalisation."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast import spared
from minigpt.ops.fast.pieces import column_sums, row_sums, share_over


class LayernormCache(NamedTuple):
    x_hat: Array
    rstd: Array
    g: Array


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    c = x.shape[-1]
    rows = x.reshape(-1, c)
    out = np.empty_like(rows)
    x_hat = np.empty_like(rows)
    rstd = np.empty((len(rows), 1), x.dtype)

    def piece(i):
        mean = row_sums(rows[i]) / c
        h = np.subtract(rows[i], mean, out=x_hat[i])
        squares = np.vecdot(h, h)[:, None]
        rstd[i] = 1 / np.sqrt(squares / c + eps)
        h *= rstd[i]
        y = np.multiply(h, g, out=out[i])
        y += b

    share_over(piece, *rows.shape)
    x_hat = x_hat.reshape(x.shape)
    out = out.reshape(x.shape)
    spared.remember(out, x_hat, g, b)
    return out, LayernormCache(x_hat, rstd, g)


def layernorm_backward(dout, cache: LayernormCache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    The means of dout g and of dout g x_hat over a row are products with g, which need no pass over an array of their
    own.
    """
    x_hat, rstd, g = cache
    c = len(g)
    x_hat = x_hat.reshape(-1, c)
    drows = dout.reshape(-1, c)
    dx = np.empty_like(x_hat)

    def piece(i):
        d = drows[i]
        h = x_hat[i]
        product = d * h
        dg = column_sums(product)
        db = column_sums(d)
        shift = (d @ g)[:, None] / c
        stretch = (product @ g)[:, None] / c
        y = np.multiply(d, g, out=dx[i])
        y -= shift
        y -= np.multiply(h, stretch, out=product)
        y *= rstd[i]
        return dg, db

    dg = np.zeros_like(g)
    db = np.zeros_like(g)
    for dg_piece, db_piece in share_over(piece, *x_hat.shape):
        dg += dg_piece
        db += db_piece
    return dx.reshape(dout.shape), dg, db
