"""Attention in tiles: kernels in attention.cu and, causal on tensor cores (bfloat16, tf32), in attention_mma.cu."""

import functools
import math
from typing import NamedTuple

from minigpt.device import gpu
from minigpt.device.arrays import Array, array_module, named_dtype
from minigpt.ops import masks
from minigpt.ops.cuda import attention_past, kernels
from minigpt.ops.cuda.dropout import chance
from minigpt.ops.cuda.kernels import accepts, blocks, column_sums, launch, wide
from minigpt.ops.random_keys import Key

SIDE = 8  # on ordinary cores a block has SIDE x SIDE threads
EACH = 4  # each of them computes EACH x EACH scores: so a block, and a tile, has SIDE * EACH rows
LARGEST = 128  # numbers of a head: tiles must fit into shared memory in float64, and keys of a past into registers
SHARED = 48 << 10  # bytes of shared memory that every GPU gives to a block
WARPS = 4  # of a block on tensor cores; each has 16 or 32 rows
SMALLEST_SCALE = 1e-30  # on tensor cores, where a hidden score is the lowest float: times the scale it must stay low
ROWS_OF = {"attention_forward": "ROWS_FORWARD", "attention_backward_q": "ROWS_Q", "attention_backward_kv": "ROWS_KV"}
WIDEST = {  # with larger heads, 32 rows of a warp do not fit into registers, in each kernel on tensor cores
    "bfloat16": {"ROWS_FORWARD": 96, "ROWS_Q": 80, "ROWS_KV": 48},
    "float32": {"ROWS_FORWARD": 64, "ROWS_Q": 48, "ROWS_KV": 32},
}


class Rules(NamedTuple):
    """How the scores of a call are computed. mask, bias: None, or with four axes, (B or 1, NH or 1, T or 1, S or 1).

    group: how many heads of queries share one head of keys and values.
    tf32: may factors of float32 be rounded to tf32? The backward pass does the same as the forward pass.
    """

    n_head: int
    group: int
    causal: bool
    mask: Array | None
    bias: Array | None
    scale: float
    rate: float
    key: Key | None
    tf32: bool


class SelfAttentionCache(NamedTuple):
    qkv: Array
    out: Array
    lse: Array
    rules: Rules
    bias_shape: tuple[int, ...] | None


def self_attention_supports(
    qkv, n_head, bias=None, *, n_kv_head=None, mask=None, scale=None, rate=0.0, key=None, past=None, grad=True
) -> str | None:
    """Takes heads whose tiles fit into shared memory, and a past without gradients. Wrong masks: the reference."""
    size = _head_size(qkv, n_head, n_kv_head)
    b, t, _ = qkv.shape
    if past is None:
        return _why_not([qkv], mask, bias, (b, n_head, t, t), size)
    scores = b, n_head, t, past[0].shape[2] + t
    return attention_past.why_not(t, rate, key, grad) or _why_not([qkv, *past], mask, bias, scores, size)


def self_attention_forward(
    qkv, n_head, bias=None, *, n_kv_head=None, mask=None, scale=None, rate=0.0, key=None, past=None, grad=True
):  # fmt: skip
    """qkv (B,T,3C), [bias (B,NH,T,T)] -> out (B,T,C)

    Kept are qkv and out, and lse, the logarithm of each row's sum of exponentials: two numbers, the largest score and
    what comes on top of it (on tensor cores one, to base 2). From these the backward pass computes the probabilities of
    a tile again.
    """
    qkv = kernels.aligned(qkv)
    size = _head_size(qkv, n_head, n_kv_head)
    group = n_head // (n_kv_head or n_head)
    rules = _rules(n_head, group, mask is None, mask, bias, scale, size, rate, key)
    if past is not None:
        scores = rules.scale, rules.mask, _axes(rules.mask), rules.bias, _axes(rules.bias)
        return attention_past.forward(qkv, n_head, size, past, scores), None
    out, lse = _forward(qkv, qkv, rules)
    cache = SelfAttentionCache(qkv, out, lse, rules, _shape_of(bias))
    return out, cache if grad else None


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C), [dbias (B,NH,T,T)]"""
    qkv, out, lse, rules, bias_shape = cache
    dqkv = array_module(qkv).empty_like(qkv)
    dbias = _backward(dqkv, dqkv, dout, out, lse, qkv, qkv, rules)
    return dqkv, _in_shape(dbias, bias_shape)


class CrossAttentionCache(NamedTuple):
    q: Array
    kv: Array
    out: Array
    lse: Array
    rules: Rules
    bias_shape: tuple[int, ...] | None


def cross_attention_supports(
    q, kv, n_head, bias=None, *, mask=None, scale=None, rate=0.0, key=None, grad=True
) -> str | None:
    """Takes heads whose tiles fit into shared memory. Wrong masks are left to the reference."""
    b, t, c = q.shape
    if kv.shape[0] != b or not kv.size:
        return "it takes keys and values of as many texts as queries"
    scores = b, n_head, t, kv.shape[1]
    return _why_not([q, kv], mask, bias, scores, c // n_head)


def cross_attention_forward(
    q, kv, n_head, bias=None, *, mask=None, scale=None, rate=0.0, key=None, grad=True
):  # fmt: skip
    """q (B,T,C), kv (B,S,2C), [bias (B,NH,T,S)] -> out (B,T,C)"""
    q = kernels.aligned(q)
    kv = kernels.aligned(kv)
    size = q.shape[2] // n_head
    rules = _rules(n_head, 1, False, mask, bias, scale, size, rate, key)
    out, lse = _forward(q, kv, rules)
    cache = CrossAttentionCache(q, kv, out, lse, rules, _shape_of(bias))
    return out, cache if grad else None


def cross_attention_backward(dout, cache: CrossAttentionCache):
    """dout (B,T,C) -> dq (B,T,C), dkv (B,S,2C), [dbias (B,NH,T,S)]"""
    q, kv, out, lse, rules, bias_shape = cache
    dq = array_module(q).empty_like(q)
    dkv = array_module(kv).empty_like(kv)
    dbias = _backward(dq, dkv, dout, out, lse, q, kv, rules)
    return dq, dkv, _in_shape(dbias, bias_shape)


def _forward(q, kv, rules):
    """q and kv: the same array (B,T,C+2G), or (B,T,C) and (B,S,2C) -> out (B,T,C), lse (B,NH,T,2)

    On tensor cores, where nothing is added to scores, lse is one number (B,NH,T).
    """
    xp = array_module(q)
    b, t, c, _ = _sizes(q, kv, rules)
    out = xp.empty((b, t, c), q.dtype)
    file, *_ = _plan("attention_forward", q, c, rules)
    rows = b, rules.n_head, t
    lse = xp.empty(rows if file == "attention_mma" else (*rows, 2), wide(q.dtype))
    _run("attention_forward", t, rules.n_head, (out, lse, q), q, kv, rules)
    return out, lse


def _backward(dq, dkv, dout, out, lse, q, kv, rules):
    """Fills dq and dkv; returns dbias, with four axes, or None."""
    xp = array_module(q)
    b, t, _, s = _sizes(q, kv, rules)
    dout = kernels.aligned(dout)
    delta = xp.empty((b, rules.n_head, t), wide(q.dtype))
    ds = None
    if rules.bias is not None:
        ds = xp.zeros((b, rules.n_head, t, s), wide(q.dtype))
    n_kv_head = rules.n_head // rules.group
    _run("attention_backward_q", t, rules.n_head, (dq, delta, dout, out, lse, q), q, kv, rules, ds)
    _run("attention_backward_kv", s, n_kv_head, (dkv, delta, dout, lse, q), q, kv, rules)
    if ds is None:
        return None
    return _sum_to(ds, rules.bias)


def _run(kernel, n, heads, arrays, q, kv, rules, *ds):
    """Launch a kernel with threads for n queries or keys of each of these heads. ds: for attention_backward_q."""
    b, t, c, s = _sizes(q, kv, rules)
    n_head = rules.n_head
    file, rows, threads, constants = _plan(kernel, q, c, rules)
    arguments = [*arrays, t, n_head, rules.scale]
    arguments += chance(rules.rate, rules.key, (b, n_head, t, s))
    if file == "attention":
        packed = q is kv
        arguments += [kv, s, int(packed), int(rules.causal)]
        arguments += [rules.mask, _axes(rules.mask)]
        arguments += [rules.bias, _axes(rules.bias)]
        arguments += ds
    grid = blocks(n, rows), b * heads, 1
    block = threads, 1, 1
    launch(file, kernel, grid, block, *arguments, **constants)


def _plan(kernel, q, c, rules):
    """The plan of a kernel for queries of c columns under these rules."""
    drops = rules.key is not None and rules.rate > 0
    size = c // rules.n_head
    return plan(size, q.dtype, drops, _is_plain(rules), kernel, rules.tf32, rules.scale, rules.group)


def plan(
    size: int, dtype, drops: bool = False, plain: bool = True, kernel: str = "attention_forward", tf32: bool = False,
    scale: float = 1.0, group: int = 1,
) -> tuple[str, int, int, dict]:
    """(file, rows of a block of this kernel, its threads, constants of the file) for heads of this size.

    drops: is there a dropout? plain: causal, without a mask and a bias. tf32: of float32, products may be in tf32.
    On ordinary cores a square of threads shares the work; on tensor cores a warp has 16 or 32 rows. scale: of the
    scores. On tensor cores it must be above 0. group: how many heads of queries share one head of keys.
    """
    name = kernels.name_of(dtype)
    fits = size % 16 == 0 and (name == "bfloat16" or (name == "float32" and tf32))
    if plain and fits and scale >= SMALLEST_SCALE and gpu.tensor_cores():
        constants = constants_on_tensor_cores(size, name, drops, group)
        return "attention_mma", WARPS * constants[ROWS_OF[kernel]], WARPS * 32, constants
    each = square(size, wide(dtype).itemsize)
    assert each is not None, "such heads are not supported"
    constants = {"HEAD": size, "KV_GROUP": group, "SIDE": SIDE, "EACH": each, "PLAIN": int(plain)}
    return "attention", SIDE * each, SIDE * SIDE, constants


@functools.cache
def constants_on_tensor_cores(size: int, name: str, drops: bool, group: int = 1) -> dict[str, int]:
    """The constants of attention_mma.cu, for heads of this size in the dtype of this name.

    TILE: the most rows, 64, 32 or 16, with which four tiles fit into shared memory at once, two of them on their way,
    and beside them two numbers for each row of two tiles. A row of a tile has 16 bytes more than a head. Heads of more
    than 64 numbers get 32 rows at most: a forward pass holds a score for each of them in registers.
    """
    constants = {"HEAD": size, "KV_GROUP": group, "TILE": 64 if size <= 64 else 32, "DROPS": int(drops)}
    row = size * named_dtype(name).itemsize + 16
    while constants["TILE"] * (4 * row + 16) > SHARED:
        constants["TILE"] //= 2
    for rows, widest in WIDEST[name].items():
        constants[rows] = 32 if size <= widest else 16
    return constants


def square(size: int, itemsize: int) -> int | None:
    """The side of the square of scores that a thread computes, for heads of this size: EACH, or half or a quarter.

    None where not even that fits into shared memory.
    """
    for each in (EACH, EACH // 2, EACH // 4):
        if each and shared_bytes(size, itemsize, each) <= SHARED:
            return each
    return None


def shared_bytes(size: int, itemsize: int, each: int) -> int:
    """What the backward pass needs: a block's rows in two arrays, a tile's in two, and scores, padded."""
    rows = SIDE * each
    piece = max(numbers for numbers in (1, 2, 16 // itemsize) if size % numbers == 0)
    row = piece * (size // piece | 1)
    scores = rows * (SIDE | 1) * each
    return (4 * rows * row + scores) * itemsize


def _why_not(given, mask, bias, scores, size) -> str | None:
    """None where a call can be made, of given arrays; otherwise the reason. scores: (B,NH,T,S); size: of a head."""
    if mask is not None and not isinstance(mask, kernels.ARRAY):
        return f"it takes a mask in a CuPy array, not in a {type(mask).__name__}"
    if bias is not None:
        given = [*given, bias]
    reason = accepts(*given) or masks.problem(mask, bias, scores)
    if reason:
        return reason
    if not 0 < size <= LARGEST:
        return f"it takes heads of 1 to {LARGEST} numbers, not {size}"
    b, n_head, _, _ = scores
    if b * n_head > kernels.MOST_ON_Y:
        return f"{b} texts of {n_head} heads are more blocks than a grid has"
    return None


def _rules(n_head, group, causal, mask, bias, scale, size, rate, key) -> Rules:
    if scale is None:
        scale = 1 / math.sqrt(size)
    mask = _with_four_axes(mask)
    bias = _with_four_axes(bias)
    return Rules(n_head, group, causal, mask, bias, float(scale), rate, key, gpu.products_are_tf32())


def _is_plain(rules) -> bool:
    return rules.causal and rules.mask is None and rules.bias is None


def _head_size(qkv, n_head, n_kv_head) -> int:
    """How many numbers a head has, of which those of q, k and v are packed in one array."""
    return qkv.shape[2] // (n_head + 2 * (n_kv_head or n_head))


def _sizes(q, kv, rules) -> tuple[int, int, int, int]:
    """B, T, C, S of queries and of keys and values, which may be packed in the same array."""
    b, t, columns = q.shape
    if q is kv:
        size = _head_size(q, rules.n_head, rules.n_head // rules.group)
        return b, t, rules.n_head * size, t
    return b, t, columns, kv.shape[1]


def _with_four_axes(array):
    """The same numbers in one piece, with axes of one number in front; None stays None."""
    if array is None:
        return None
    ones = (1,) * (4 - array.ndim)
    whole = array_module(array).ascontiguousarray(array)
    return whole.reshape(ones + array.shape)


def _axes(array) -> int:
    """Which of the four axes are more than a single number that stands for all: 8, 4, 2 and 1, added up."""
    if array is None:
        return 0
    axes = 0
    for size in array.shape:
        axes = 2 * axes + (size > 1)
    return axes


def _shape_of(bias):
    return None if bias is None else bias.shape


def _in_shape(dbias, shape):
    """The gradient without the axes that _with_four_axes has put in front; None stays None."""
    return None if dbias is None else dbias.reshape(shape)


def _sum_to(ds, bias):
    """ds (B,NH,T,S) -> dbias in the shape of bias: sums in a fixed order over the axes along which it was broadcast."""
    for axis in range(3):
        shape = list(ds.shape)
        if bias.shape[axis] > 1 or shape[axis] == 1:
            continue
        groups = math.prod(shape[:axis])
        sums = column_sums(ds.reshape(groups, shape[axis], -1))
        shape[axis] = 1
        ds = sums.reshape(shape)
    if bias.shape[3] == 1:
        ds = ds.sum(axis=3, keepdims=True)
    return ds.astype(bias.dtype, copy=False)
