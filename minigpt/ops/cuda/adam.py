"""Clipping and Adam for a list of tensors: kernels in adam.cu."""

import functools
from collections.abc import Sequence

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, launch

CHUNK = 1 << 14  # numbers that one block updates
THREADS = 256  # of a block

Tensors = Sequence[tuple[Array, Array, Array, Array]]


def adam_update_supports(tensors: Tensors, **settings) -> str | None:
    """None for contiguous CuPy arrays of float32, or all of float64; otherwise the reason why not."""
    arrays = []
    for tensor in tensors:
        arrays += tensor
    for array in arrays:
        if not array.flags.c_contiguous:
            return "it takes contiguous arrays"
        if kernels.name_of(array.dtype) == "bfloat16":  # most updates are smaller than half of a weight's last digit
            return "it takes weights of float32 or float64, which may have copies in bfloat16"
    return accepts(*arrays)


def adam_update(
    tensors: Tensors, *, copies: Sequence[Array | None], decays: Sequence[bool], rate: float, eps: float, decay: float,
    betas: tuple[float, float], max_norm: float | None = None,
) -> Array | float:
    """Update every (p, g, m, v), four arrays of one shape, in place. Returns the norm of all gradients together.

    Arguments are the reference's; the gradients are not written to. Three launches are enough for all tensors. The norm
    is an array (), or 0.0 where max_norm is None: nothing waits for the GPU.
    """
    if not tensors:
        return 0.0
    p = tensors[0][0]
    xp = array_module(p)
    places = _on_gpu(xp, _addresses(tensors, copies))
    sizes = tuple(p.size for p, *_ in tensors)
    sizes, tensor, start, decaying = _tables(xp, sizes, tuple(decays), p.dtype, CHUNK)
    where = places, sizes, tensor, start, len(tensors), CHUNK
    blocks = len(start)
    clip = None
    if max_norm is not None:
        clip = _clip(xp, where, blocks, max_norm, p.dtype)
    beta1, beta2 = betas
    numbers = rate, eps, decay, 1 - beta1, 1 - beta2
    _launch("adam", blocks, p.dtype, clip, *where, decaying, *numbers)
    return 0.0 if clip is None else clip[1]


def _clip(xp, where, blocks, max_norm, dtype):
    """(2,): the factor that all gradients are to be multiplied by, and their norm."""
    squares = xp.empty(blocks, dtype)
    clip = xp.empty(2, dtype)
    _launch("adam_squares", blocks, dtype, squares, *where)
    _launch("adam_clip", 1, dtype, clip, squares, blocks, max_norm)
    return clip


def _launch(kernel, blocks, dtype, *arguments):
    """Run a kernel of adam.cu, in which a thread takes 16 bytes at once where a tensor allows it."""
    launch("adam", kernel, (blocks, 1, 1), (THREADS, 1, 1), *arguments, PACK=16 // dtype.itemsize)


def _addresses(tensors, copies) -> bytes:
    """The addresses of every p, every g, every m, every v and every copy, 0 where there is none: as bytes of uint64."""
    addresses = []
    for arrays in (*zip(*tensors, strict=True), copies):
        for array in arrays:
            addresses.append(0 if array is None else kernels.address(array))
    return np.array(addresses, np.uint64).tobytes()


@functools.lru_cache(maxsize=4)  # in a recorded step every array keeps its address
def _on_gpu(xp, addresses):
    """The addresses in an array on the GPU: uint64 (5,number of tensors)"""
    table = np.frombuffer(addresses, np.uint64)
    return xp.asarray(table.reshape(5, -1))


@functools.lru_cache(maxsize=4)
def _tables(xp, sizes, decays, dtype, chunk):
    """On the GPU: sizes; for each block its tensor and the first number that it updates there; which tensors decay."""
    tensor = []
    start = []
    for t, size in enumerate(sizes):
        for first in range(0, size, chunk):
            tensor.append(t)
            start.append(first)
    sizes = np.array(sizes, np.int64)
    tensor = np.array(tensor, np.int32)
    start = np.array(start, np.int64)
    decaying = np.array(decays, dtype)
    return [xp.asarray(table) for table in (sizes, tensor, start, decaying)]
