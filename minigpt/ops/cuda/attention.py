"""Causal self-attention in tiles: kernels in attention.cu, and for bfloat16 on tensor cores in attention_mma.cu."""

import functools
import math
from typing import NamedTuple

from minigpt.device import gpu
from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.dropout import chance
from minigpt.ops.cuda.kernels import accepts, blocks, launch, wide
from minigpt.ops.keys import Key

QUERIES = 64  # of a block, a thread for each
KEYS = 16  # of a tile
LARGEST = 128  # head: a thread holds three rows of one
SHARED = 48 << 10  # bytes of shared memory that every GPU gives to a block
ROWS = 64  # of a block on tensor cores, 16 for each of its warps


class SelfAttentionCache(NamedTuple):
    qkv: Array
    out: Array
    lse: Array
    n_head: int
    rate: float
    key: Key | None


def self_attention_supports(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True) -> str | None:
    """Causal masks, no past, and heads of which a tile fits into shared memory."""
    if mask is not None or past is not None:
        return "it takes causal masks only, and no past"
    return accepts(qkv) or _why_too_large(qkv, n_head)


def self_attention_forward(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True):
    """qkv (B,T,3C) -> out (B,T,C)

    Kept are qkv and out, and lse, the logarithm of each row's sum of exponentials (on tensor cores, to base 2): from
    these the backward pass computes the probabilities of a tile again.
    """
    xp, qkv = array_module(qkv), _aligned(qkv)
    b, t, c = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    out, lse = xp.empty((b, t, c), qkv.dtype), xp.empty((b, n_head, t), wide(qkv.dtype))
    _run("attention_forward", (out, lse, qkv), qkv.shape, n_head, rate, key)
    return out, SelfAttentionCache(qkv, out, lse, n_head, rate, key) if grad else None


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C)"""
    qkv, out, lse, n_head, rate, key = cache
    xp = array_module(qkv)
    dout, dqkv, delta = _aligned(dout), xp.empty_like(qkv), xp.empty_like(lse)
    run = functools.partial(_run, shape=qkv.shape, n_head=n_head, rate=rate, key=key)
    run("attention_backward_q", (dqkv, delta, dout, out, lse, qkv))
    run("attention_backward_kv", (dqkv, delta, dout, lse, qkv))
    return dqkv


def _run(kernel, arrays, shape, n_head, rate, key):
    b, t, c = shape[0], shape[1], shape[2] // 3
    size = c // n_head
    file, rows, threads, constants = plan(size, arrays[0].dtype, key is not None and rate > 0)
    numbers = t, n_head, 1 / math.sqrt(size), *chance(rate, key, (b, n_head, t, t))
    launch(file, kernel, (blocks(t, rows), b * n_head, 1), (threads, 1, 1), *arrays, *numbers, **constants)


def plan(size: int, dtype, drops: bool = False) -> tuple[str, int, int, dict]:
    """(file, rows of a block, its threads, constants of the file) for heads of this size, with or without dropout.

    On tensor cores each 16 rows have a warp of 32 threads, and four tiles stand in shared memory at once, two of which
    are on their way.
    """
    if kernels.name_of(dtype) == "bfloat16" and size % 16 == 0 and gpu.tensor_cores():
        return "attention_mma", ROWS, 2 * ROWS, {"HEAD": size, "TILE": 64 if size <= 80 else 32, "DROPS": int(drops)}
    queries = tile(size, wide(dtype).itemsize)
    return "attention", queries, queries, {"HEAD": size, "QUERIES": queries, "KEYS": KEYS}


def tile(size: int, itemsize: int) -> int | None:
    """How many queries a block can take, for heads of this size: QUERIES, or half or a quarter of it; or None.

    The third kernel holds most in shared memory: keys and values of a block, queries and gradients of a tile.
    """
    tiles = QUERIES, QUERIES // 2, QUERIES // 4
    return next((n for n in tiles if (2 * n * (size + 1) + 2 * KEYS * size) * itemsize <= SHARED), None)


def _why_too_large(qkv, n_head) -> str | None:
    """None where a tile fits into shared memory and all heads into a grid; otherwise the reason."""
    size = qkv.shape[2] // 3 // n_head
    if not 0 < size <= LARGEST:
        return f"it takes heads of 1 to {LARGEST} numbers, not {size}"
    if tile(size, wide(qkv.dtype).itemsize) is None:
        return f"heads of {size} numbers do not fit into shared memory"
    if qkv.shape[0] * n_head >= 1 << 16:
        return f"{qkv.shape[0]} texts of {n_head} heads are more blocks than a grid has"
    return None


def _aligned(array):
    """In one piece, and from a multiple of 16 bytes on: attention_mma.cu reads 16 bytes at once."""
    array = array_module(array).ascontiguousarray(array)
    return array.copy() if kernels.address(array) % 16 else array
