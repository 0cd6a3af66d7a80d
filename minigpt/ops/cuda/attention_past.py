"""Attention of new positions to a past, for a model that generates token by token: kernels in attention_past.cu."""

import functools

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import blocks, launch, pack_of, wide
from minigpt.ops.random_keys import Key

THREADS = 128  # of a block
KEYS = 8  # how many keys a group of lanes reads at once
WARP = 32
MOST = 64  # new positions: each of them reads the whole past

Past = tuple[Array, Array]


def why_not(t: int, rate: float, key: Key | None, grad: bool) -> str | None:
    """None if these kernels can compute t new positions; otherwise the reason. attention.py looks at the arrays."""
    if grad or (rate and key is not None):
        return "it takes a past only without gradients and without dropout"
    if t > MOST:
        return f"it takes up to {MOST} new positions beside a past, not {t}"
    return None


def forward(qkv: Array, n_head: int, size: int, past: Past, scores: tuple) -> Array:
    """qkv (B,T,C+2G), past k and v, each (B,NKV,P,D) -> out (B,T,C)

    The past is read in place, not copied. size: D, the numbers of a head. scores: the scale, the mask and its axes, the
    bias and its axes, as attention.cu takes them: in one piece with four axes, or None.
    """
    xp = array_module(qkv)
    b, t, _ = qkv.shape
    k = _behind_each_other(past[0])
    v = _behind_each_other(past[1])
    if k.strides != v.strides:  # the kernel gets one head_stride for both
        k = xp.ascontiguousarray(k)
        v = xp.ascontiguousarray(v)
    p = k.shape[2]
    head_stride = k.strides[1] // k.itemsize
    k = _as_a_row(k)
    v = _as_a_row(v)
    pack = pack_of(size, qkv, k, v)
    constants = plan(size, pack, n_head // past[0].shape[1])
    part = KEYS * (THREADS // constants["LANES"])
    n_parts = blocks(p, part) + blocks(t, part)
    parts = xp.empty((b * n_head * t, n_parts, size + 2), wide(qkv.dtype))
    out = xp.empty((b, t, n_head * size), qkv.dtype)
    grid = n_parts, b * n_head, t
    block = constants["LANES"], THREADS // constants["LANES"], 1
    launch(
        "attention_past", "past_parts", grid, block,
        parts, qkv, k, v, p, head_stride, t, n_head, *scores,
        PACK=pack, **constants,
    )  # fmt: skip
    grid = blocks(out.size, THREADS), 1, 1
    block = THREADS, 1, 1
    launch(
        "attention_past", "past_join", grid, block,
        out, parts, n_parts, t, n_head, out.size,
        PACK=pack, **constants,
    )  # fmt: skip
    return out


def plan(size: int, pack: int, group: int = 1) -> dict[str, int]:
    """The constants of attention_past.cu for heads of this size, of which a thread reads `pack` numbers at once.

    group: how many heads of queries share one head of keys and values.
    """
    return _plan(size, pack, group, THREADS, KEYS)


@functools.cache
def _plan(size, pack, group, threads, keys):
    """A key is read by as many lanes as it has packs, or by the next power of two of them, up to a warp."""
    packs = blocks(size, pack)
    lanes = 1
    while lanes < packs and lanes < min(WARP, threads):
        lanes *= 2
    return {
        "HEAD": size, "KV_GROUP": group, "PLAIN": 0,
        "THREADS": threads, "LANES": lanes, "KEYS": keys, "PACKS": blocks(packs, lanes),
    }  # fmt: skip


def _behind_each_other(array: Array) -> Array:
    """k or v (B,NH,P,D) as the kernel reads it: the keys of a head without gaps, and the same stride between all heads.

    A `Past` stores them so, perhaps with room behind the keys of each head. Other arrays are copied.
    """
    b, n_head, p, size = array.shape
    itemsize = array.itemsize
    text, head, key, number = array.strides
    is_row = number == itemsize and key == size * itemsize
    whole_rows = is_row and head % key == 0  # so packs of every head begin where those of the first one do
    if whole_rows and head >= p * key and text == n_head * head:
        return array
    return array_module(array).ascontiguousarray(array)


def _as_a_row(array: Array) -> Array:
    """All memory from the first number of an array to its last as one row, since kernels take arrays in one piece."""
    if array.flags.c_contiguous or not array.size:
        return array
    b, n_head, p, size = array.shape
    head_stride = array.strides[1] // array.itemsize
    n = (b * n_head - 1) * head_stride + p * size
    xp = array_module(array)
    return xp.lib.stride_tricks.as_strided(array, (n,), (array.itemsize,))
