"""Clipping and Adam for a list of tensors: kernels in adam.cu."""

import functools
from collections.abc import Sequence

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import launch, ours

CHUNK = 1 << 14  # numbers of one block
THREADS = 256  # of a block: WARPS warps


def takes(tensors: Sequence[tuple[Array, Array, Array, Array]]) -> bool:
    """Are there tensors, and are all of them CuPy's, contiguous, and of one dtype?"""
    arrays = [array for tensor in tensors for array in tensor]
    return bool(arrays) and ours(*arrays) and all(a.flags.c_contiguous for a in arrays)


def update(
    tensors: Sequence[tuple[Array, Array, Array, Array]], lows: Sequence[Array | None], decaying: Sequence[bool],
    rule: tuple[float, float, float], betas: tuple[float, float], max_norm: float | None
) -> Array | float:
    """Update every (p, g, m, v) in place: p -= rate m / (sqrt(v) + eps) + decay p, after m and v; in three launches.

    lows: for each p its copy in bfloat16, which gets the new values too, or None. decaying: which p decay. rule: rate,
    eps and decay. max_norm: the gradients are taken times min(1, max_norm / norm), and where the norm is not finite
    nothing is changed; None takes them as they are. Returns the norm (), or 0.0 if nobody wants it, and waits for
    nothing.
    """
    xp, dtype = array_module(tensors[0][0]), tensors[0][0].dtype
    columns = [*zip(*tensors, strict=True), lows]
    addresses = np.array([[0 if a is None else kernels.address(a) for a in column] for column in columns], np.uint64)
    *tables, decaying = _tables(xp, tuple(p.size for p, *_ in tensors), tuple(decaying), dtype, CHUNK)
    where, n, clip = (_sent(xp, addresses.tobytes()), *tables, len(tensors), CHUNK), len(tables[1]), None
    if max_norm is not None:
        squares, clip = xp.empty(n, dtype), xp.empty(2, dtype)
        launch("adam", "adam_squares", (n, 1, 1), (THREADS, 1, 1), squares, *where)
        launch("adam", "adam_clip", (1, 1, 1), (THREADS, 1, 1), clip, squares, n, max_norm)
    numbers = *rule, 1 - betas[0], 1 - betas[1]
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
