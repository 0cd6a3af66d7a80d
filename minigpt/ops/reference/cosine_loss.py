"""The cosine loss: a student's vectors point where a teacher's do (DistilBERT, Sanh et al. 2019, section 2)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.reference.cross_entropy import row_shares


class CosineLossCache(NamedTuple):
    a: Array
    b: Array
    a_square: Array
    b_square: Array
    length: Array
    cosine: Array
    share: Array
    shape: tuple[int, ...]


def cosine_loss_forward(a, b, *, weights=None, normalizer=None, eps=1e-12):
    """a (*,C), b (*,C) -> loss ()

    loss = sum_n share[n] (1 - cos(a[n], b[n])),   cos(a, b) = a.b / sqrt((a.a + eps) (b.b + eps)): 0 for equal
    directions, 2 for opposite ones; a vector of zeros has the loss 1 and no gradient that is not finite.

    weights: (*), 1 by default; normalizer: the sum of the weights by default.
    """
    xp = array_module(a, b)
    shape = a.shape
    c = shape[-1]
    a = a.reshape(-1, c)
    b = b.reshape(-1, c)
    none_ignored = xp.zeros(len(a), bool)
    share = row_shares(none_ignored, weights, normalizer, a.dtype, xp)

    a_square = _product(a, a) + eps
    b_square = _product(b, b) + eps
    length = xp.sqrt(a_square * b_square)
    cosine = _product(a, b) / length
    losses = 1 - cosine[:, 0]
    weighted = share * losses
    loss = weighted.sum()
    cache = CosineLossCache(a, b, a_square, b_square, length, cosine, share, shape)
    return loss, cache


def cosine_loss_backward(dloss, cache: CosineLossCache):
    """dloss () -> da (*,C), db (*,C)

    Stretching a does not change the cosine, so the part of its gradient along a is subtracted; the same for b.
    """
    a, b, a_square, b_square, length, cosine, share, shape = cache
    # loss = sum(share * losses)
    dlosses = share * dloss
    dlosses = dlosses.astype(a.dtype)
    # losses = 1 - cosine
    dcosine = -dlosses[:, None]
    # cosine = a.b / length: by the product, and by the length, which stretches with a and with b
    along_a = cosine * a / a_square
    da = dcosine * (b / length - along_a)
    along_b = cosine * b / b_square
    db = dcosine * (a / length - along_b)
    da = da.reshape(shape)
    db = db.reshape(shape)
    return da, db


def _product(a, b):
    """a, b (N,C) -> (N,1), the scalar product of each row"""
    products = a * b
    return products.sum(axis=-1, keepdims=True)
