"""What part of a loss each row is, for the losses of this folder."""

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels


def row_shares(weights: Array, normalizer: float | None) -> Array:
    """weights (N,) -> (N,): divided by the normalizer, by default their sum; weights that are all 0 stay 0."""
    xp = array_module(weights)
    if normalizer is None:
        total = weights.sum()
        return weights / xp.where(total == 0, 1, total)
    # A number: as an array it would be copied from the host, which a recorded graph cannot do.
    return weights / (float(normalizer) or 1.0)


def weights_of_rows(x: Array, weights: Array | None, dtype) -> Array:
    """x (*,C), weights (*) or None, for weights of 1 -> (N,), of the dtype"""
    xp = array_module(x)
    if weights is None:
        return xp.ones(x.size // x.shape[-1], dtype)
    return weights.reshape(-1).astype(dtype)


def times_dloss(share: Array, dloss: Array | float) -> tuple[Array, float]:
    """share (N,), dloss () -> (N,) and a number: what is to be multiplied by both would be by share and dloss.

    A number is passed on as it is. One in an array on the GPU would have to be waited for: the shares are multiplied by
    it, there.
    """
    if isinstance(dloss, kernels.ARRAY):
        return share * dloss.astype(share.dtype), 1.0
    return share, float(dloss)
