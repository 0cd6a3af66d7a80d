"""Adam for a list of tensors in one launch: kernel in adam.cu."""

import functools
from collections.abc import Sequence

import numpy as np

from minigpt.backend import Array, array_module
from minigpt.fast.cuda import kernels
from minigpt.fast.cuda.kernels import launch, ours

CHUNK = 1 << 14  # numbers of one block
THREADS = 256


def adam_update(
    tensors: Sequence[tuple[Array, Array, Array, Array]],
    lows: Sequence[Array | None],
    decays: Sequence[float],
    *,
    rate: float,
    eps: float,
    betas: tuple[float, float],
) -> bool:
    """Update every (p, g, m, v) in place: p -= rate m / (sqrt(v) + eps) + decay p, after m and v. One launch.

    lows: for each p its copy in bfloat16, which gets the new values too, or None.
    Returns False, and does nothing, where there are arrays that are not CuPy's, contiguous, and of one dtype.
    """
    arrays = [array for tensor in tensors for array in tensor]
    if not arrays or not ours(*arrays) or not all(a.flags.c_contiguous for a in arrays):
        return False
    xp, dtype = array_module(arrays[0]), arrays[0].dtype
    size, tensor, start = (xp.asarray(a) for a in _chunks(tuple(p.size for p, *_ in tensors), CHUNK))
    columns = [*(arrays[i::4] for i in range(4)), lows]
    addresses = np.array([[0 if a is None else kernels.address(a) for a in column] for column in columns], np.uint64)
    tables = xp.asarray(addresses), size, xp.asarray(decays, dtype=dtype), tensor, start
    numbers = len(tensors), CHUNK, rate, eps, 1 - betas[0], 1 - betas[1]
    launch("adam", "adam", (len(tensor), 1, 1), (THREADS, 1, 1), *tables, *numbers)
    return True


@functools.lru_cache
def _chunks(sizes, chunk):
    """The size of each tensor; and for each block its tensor and the first number there."""
    blocks = [(t, first) for t, size in enumerate(sizes) for first in range(0, size, chunk)]
    tensor, start = np.array(blocks, np.int64).reshape(-1, 2).T
    return np.array(sizes, np.int64), tensor.astype(np.int32), start.copy()
