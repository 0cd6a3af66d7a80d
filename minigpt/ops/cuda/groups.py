"""Heads of keys and values that several heads of queries share: kernels in groups.cu.

The kernels of attention read a head of keys for each head of queries. So keys and values are copied for the heads of
their group first, and their gradients are summed afterwards: a pass over arrays that are small beside the scores.
"""

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import THREADS, blocks, launch, pack_of


def widen(qkv: Array, n_head: int, n_kv_head: int) -> Array:
    """qkv (B,T,(NH+2G)D) -> (B,T,3C): a head of keys and of values for each head of queries"""
    if n_kv_head == n_head:
        return qkv
    return _changed("widen", qkv, 3 * n_head, n_head, n_kv_head)


def narrow(dqkv: Array, n_head: int, n_kv_head: int) -> Array:
    """dqkv (B,T,3C) -> (B,T,(NH+2G)D): what `widen` has copied gets the sum of its gradients"""
    if n_kv_head == n_head:
        return dqkv
    return _changed("narrow", dqkv, n_head + 2 * n_kv_head, n_head, n_kv_head)


def _changed(kernel: str, x: Array, heads: int, n_head: int, n_kv_head: int) -> Array:
    """An array with so many heads, made by a kernel from x, whose heads have the same size."""
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    b, t, width = x.shape
    of_x = n_head + 2 * n_kv_head if kernel == "widen" else 3 * n_head
    size = width // of_x
    out = xp.empty((b, t, heads * size), x.dtype)
    pack = pack_of(size, out, x)
    grid = blocks(out.size, pack * THREADS), 1, 1
    launch("groups", kernel, grid, (THREADS, 1, 1), out, x, out.size, n_head, n_kv_head, size, PACK=pack)
    return out
