"""Layer normalisation and dropout."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts, column_sums, row_sums, share_over
from minigpt.ops.keys import Key, keep_part


class LayernormCache(NamedTuple):
    x_hat: Array
    rstd: Array
    g: Array


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    rows, c = x.reshape(-1, x.shape[-1]), x.shape[-1]
    out, x_hat, rstd = np.empty_like(rows), np.empty_like(rows), np.empty((len(rows), 1), x.dtype)

    def piece(i):
        h = np.subtract(rows[i], row_sums(rows[i]) / c, out=x_hat[i])
        rstd[i] = 1 / np.sqrt(np.vecdot(h, h)[:, None] / c + eps)
        h *= rstd[i]
        y = np.multiply(h, g, out=out[i])
        y += b

    share_over(piece, *rows.shape)
    return out.reshape(x.shape), LayernormCache(x_hat.reshape(x.shape), rstd, g)


def layernorm_backward(dout, cache: LayernormCache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    The means of dout g and of dout g x_hat over a row are products with g: no pass of their own.
    """
    c = len(cache.g)
    x_hat, rstd, g = cache.x_hat.reshape(-1, c), cache.rstd, cache.g
    drows, dx = dout.reshape(-1, c), np.empty_like(x_hat)

    def piece(i):
        d, h = drows[i], x_hat[i]
        product = d * h
        dg_db = column_sums(product), column_sums(d)
        shift, stretch = (d @ g)[:, None] / c, (product @ g)[:, None] / c
        y = np.multiply(d, g, out=dx[i])
        y -= shift
        y -= np.multiply(h, stretch, out=product)
        y *= rstd[i]
        return dg_db

    parts = share_over(piece, *x_hat.shape)
    dg, db = (sum(part, np.zeros_like(g)) for part in zip(*parts, strict=True)) if parts else np.zeros((2, c), g.dtype)
    return dx.reshape(dout.shape), dg, db


class DropoutCache(NamedTuple):
    rate: float
    key: Key | None


def dropout_supports(x, *, rate, key) -> str | None:
    """Rates out of range are left to the reference, which raises the error."""
    return accepts(x) if 0 <= rate < 1 else "it takes rates from 0 up to 1"


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    return _drop(x, rate, key), DropoutCache(rate, key)


def dropout_backward(dout, cache: DropoutCache):
    """dout (*) -> dx (*)"""
    return _drop(dout, cache.rate, cache.key)


def _drop(x, rate, key):
    if key is None or rate == 0:
        return x
    flat = x.reshape(-1)
    out = np.empty_like(flat)

    def piece(i):
        y = np.multiply(flat[i], keep_part(key, rate, x.shape, i, np), out=out[i])
        y *= 1 / (1 - rate)

    share_over(piece, x.size, 1)
    return out.reshape(x.shape)
