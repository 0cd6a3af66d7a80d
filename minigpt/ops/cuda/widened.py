"""Operations without a kernel, of arrays of bfloat16: the same operation in float32, rounded at the end.

CuPy (up to 14.2) multiplies no more than two matrices of bfloat16 at a time, and a formula in bfloat16 would be rounded
after each step. In float32, as in all dtypes but bfloat16, the table gives these operations to the reference.
"""

from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, wide
from minigpt.ops.table import table as ops


class AttentionCache(NamedTuple):
    saved: Any  # what the operation keeps in float32
    dtypes: tuple  # of q, k, v and bias


class SoftmaxCache(NamedTuple):
    saved: Any
    dtype: np.dtype


class CrossEntropyCache(NamedTuple):
    saved: Any
    dtype: np.dtype


def attention_supports(q, k, v, bias=None, *, mask=None, scale=None, rate=0.0, key=None) -> str | None:
    """Takes q, k and v of bfloat16; the bias may be of another dtype."""
    return _why_not(q, k, v)


def attention_forward(q, k, v, bias=None, *, mask=None, scale=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D), [bias (*,T,S)] -> out (*,T,D)"""
    given = q, k, v, bias
    dtypes = tuple(None if x is None else x.dtype for x in given)
    out, saved = ops.attention_forward(*map(widened, given), mask=mask, scale=scale, rate=rate, key=key)
    return out.astype(q.dtype), AttentionCache(saved, dtypes)


def attention_backward(dout, cache: AttentionCache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D), [dbias (*,T,S)]"""
    gradients = ops.attention_backward(widened(dout), cache.saved)
    pairs = zip(gradients, cache.dtypes, strict=True)
    return tuple(None if d is None else d.astype(dtype, copy=False) for d, dtype in pairs)


def softmax_supports(x) -> str | None:
    """Takes an x of bfloat16."""
    return _why_not(x)


def softmax_forward(x):
    """x (*,N) -> p (*,N)"""
    p, saved = ops.softmax_forward(widened(x))
    return p.astype(x.dtype), SoftmaxCache(saved, x.dtype)


def softmax_backward(dp, cache: SoftmaxCache):
    """dp (*,N) -> dx (*,N)"""
    return ops.softmax_backward(widened(dp), cache.saved).astype(cache.dtype)


def cross_entropy_supports(logits, targets, *, weights=None, normalizer=None) -> str | None:
    """Takes logits of bfloat16."""
    return _why_not(logits)


def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
    """logits (*,V), targets (*) int -> loss (), in float32"""
    loss, saved = ops.cross_entropy_forward(widened(logits), targets, weights=weights, normalizer=normalizer)
    return loss, CrossEntropyCache(saved, logits.dtype)


def cross_entropy_backward(dloss, cache: CrossEntropyCache):
    """dloss () -> dlogits (*,V)"""
    return ops.cross_entropy_backward(dloss, cache.saved).astype(cache.dtype)


def batched_product_supports(a: Array, b: Array) -> str | None:
    """Takes two CuPy arrays of one dtype."""
    return accepts(a, b)


def batched_product(a: Array, b: Array) -> Array:
    """The product of each matrix of a (*,M,K) with that of b (*,K,N): (*,M,N), in the dtype of both"""
    return (widened(a) @ widened(b)).astype(a.dtype, copy=False)


def widened(x: Array | None) -> Any:
    """An array in the dtype that its numbers are computed in; None stays None."""
    return None if x is None else x.astype(wide(x.dtype), copy=False)


def _why_not(*arrays) -> str | None:
    if kernels.name_of(arrays[0].dtype) != "bfloat16":
        return "it has no kernel: the reference computes all dtypes but bfloat16"
    return accepts(*arrays)
