"""Clipping and Adam for a list of tensors: kernels in adam.cu."""

import functools
from collections.abc import Sequence

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, launch

CHUNK = 1 << 14  # numbers of one block
THREADS = 256  # of a block: WARPS warps


Tensors = Sequence[tuple[Array, Array, Array, Array]]


def adam_update_supports(tensors: Tensors, **settings) -> str | None:
    """Contiguous CuPy arrays of one dtype."""
    arrays = [array for tensor in tensors for array in tensor]
    if not all(array.flags.c_contiguous for array in arrays):
        return "it takes contiguous arrays"
    return accepts(*arrays)


def adam_update(
    tensors: Tensors, *, copies: Sequence[Array | None], decays: Sequence[bool], rate: float, eps: float, decay: float,
    betas: tuple[float, float], max_norm: float | None = None,
) -> Array | float:
    """tensors: as for the reference, in three launches, but the gradients are not written to

    The norm that is returned is an array (), or 0.0 where max_norm is None: nothing waits for the GPU.
    """
    if not tensors:
        return 0.0
    p = tensors[0][0]
    xp, dtype = array_module(p), p.dtype
    columns = [*zip(*tensors, strict=True), copies]
    addresses = np.array([[0 if a is None else kernels.address(a) for a in column] for column in columns], np.uint64)
    sizes = tuple(p.size for p, *_ in tensors)
    *tables, decaying = _tables(xp, sizes, tuple(decays), dtype, CHUNK)
    where = _sent(xp, addresses.tobytes()), *tables, len(tensors), CHUNK
    n = len(tables[1])
    clip = None
    if max_norm is not None:
        squares = xp.empty(n, dtype)
        clip = xp.empty(2, dtype)
        launch("adam", "adam_squares", (n, 1, 1), (THREADS, 1, 1), squares, *where)
        launch("adam", "adam_clip", (1, 1, 1), (THREADS, 1, 1), clip, squares, n, max_norm)
    numbers = rate, eps, decay, 1 - betas[0], 1 - betas[1]
    launch("adam", "adam", (n, 1, 1), (THREADS, 1, 1), clip, *where, decaying, *numbers)
    return 0.0 if clip is None else clip[1]


@functools.lru_cache(maxsize=4)  # of a recorded step everything lies where it was
def _sent(xp, addresses):
    return xp.asarray(np.frombuffer(addresses, np.uint64).reshape(5, -1))


@functools.lru_cache(maxsize=4)
def _tables(xp, sizes, decaying, dtype, chunk):
    """On the GPU: sizes; for each block its tensor and the first number there; which tensors decay."""
    blocks = [(t, first) for t, size in enumerate(sizes) for first in range(0, size, chunk)]
    tensor, start = np.array(blocks, np.int64).reshape(-1, 2).T
    tables = np.array(sizes, np.int64), tensor.astype(np.int32), start.copy(), np.array(decaying, dtype)
    return [xp.asarray(a) for a in tables]
