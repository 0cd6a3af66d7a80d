"""What part of a loss each row is."""

import numpy as np

from minigpt.device.arrays import Array


def row_shares(n: int, weights: Array | None, normalizer: float | None, dtype: np.dtype) -> Array:
    """(n,): the weight of each row, 1 by default, divided by the normalizer, by default the sum of the weights"""
    if weights is None:
        weights = np.ones(n, dtype)
    weights = weights.reshape(-1).astype(dtype)
    if normalizer is None:
        normalizer = weights.sum()
    return weights / dtype.type(normalizer or 1)
