"""The cosine loss."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts, share_over
from minigpt.ops.fast.row_shares import row_shares


class CosineLossCache(NamedTuple):
    a: Array
    b: Array
    a_square: Array
    b_square: Array
    cosine: Array
    share: Array
    shape: tuple[int, ...]


def cosine_loss_supports(a, b, *, weights=None, normalizer=None, eps=1e-12) -> str | None:
    """Two arrays of one dtype that are not empty."""
    if not a.size:
        return "it takes vectors of one number or more, and one vector or more"
    return accepts(a, b)


def cosine_loss_forward(a, b, *, weights=None, normalizer=None, eps=1e-12):
    """a (*,C), b (*,C) -> loss ()"""
    shape = a.shape
    c = shape[-1]
    a = a.reshape(-1, c)
    b = b.reshape(-1, c)
    share = row_shares(len(a), weights, normalizer, a.dtype)
    a_square, b_square, cosine = np.empty((3, len(a)), a.dtype)

    def piece(i):
        a_square[i] = np.vecdot(a[i], a[i]) + eps
        b_square[i] = np.vecdot(b[i], b[i]) + eps
        cosine[i] = np.vecdot(a[i], b[i]) / np.sqrt(a_square[i] * b_square[i])

    share_over(piece, *a.shape)
    loss = np.sum(share * (1 - cosine))
    return loss, CosineLossCache(a, b, a_square, b_square, cosine, share, shape)


def cosine_loss_backward(dloss, cache: CosineLossCache):
    """dloss () -> da (*,C), db (*,C)

    Each is a sum of a and b, with two factors for each row.
    """
    a, b, a_square, b_square, cosine, share, shape = cache
    dcosine = -share * share.dtype.type(dloss)
    other = dcosine / np.sqrt(a_square * b_square)
    other = other[:, None]
    along = dcosine * cosine
    along_a = (along / a_square)[:, None]
    along_b = (along / b_square)[:, None]
    da = np.empty_like(a)
    db = np.empty_like(b)

    def piece(i):
        d = np.multiply(b[i], other[i], out=da[i])
        product = a[i] * along_a[i]
        d -= product
        d = np.multiply(a[i], other[i], out=db[i])
        d -= np.multiply(b[i], along_b[i], out=product)

    share_over(piece, *a.shape)
    return da.reshape(shape), db.reshape(shape)
