"""The tied head and its loss: the kernel between the products stands in cross_entropy.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, blocks, column_sums, launch, launch_each, pack_of, wide
from minigpt.ops.cuda.products import padded, product
from minigpt.ops.cuda.row_shares import row_shares
from minigpt.ops.targets import IGNORED

LOGITS = 1 << 28  # about how many exist at once in float32: 1 GB; in bfloat16 twice as many, in float64 half as many
WARPS = 32  # that take a row, at most


class LinearCrossEntropyCache(NamedTuple):
    dh: Array
    dw: Array
    dbias: Array | None


def linear_cross_entropy_supports(
    h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True
) -> str | None:
    """Targets are not looked at, for that would wait for the GPU: a wrong one gives NaN."""
    if targets.shape != h.shape[:-1] or not h.size:
        return "it takes one target for each row, and one row or more"
    if array_module(h) is not array_module(targets):
        return "its targets must be where the other arrays are"
    if bias is None:
        return accepts(h, w)
    if bias.shape != (len(w),):
        return "it takes a bias of one number for each word"
    return accepts(h, w, bias)


def linear_cross_entropy_forward(h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int, [bias (V,)] -> loss ()

    Some rows at a time: their logits become their own gradient in place, for dloss = 1, and give dh, dw and dbias at
    once. As few times as memory allows: each time all of dw is read and written again. Some words at a time would do
    with less memory still, but each logit would have to be computed twice. A target that is no word gives NaN.

    Logits have the dtype of h: products sum in float32, and in bfloat16 each logit is rounded once, when it is written.
    The largest logit of a row, the sum of exponentials and the loss are float32. (PyTorch's autocast rounds the same
    way: its head writes bfloat16 logits, and its cross-entropy computes in float32.) Beside float32 logits and a
    gradient in bfloat16 this saves 4 of 10 bytes that are moved for each of 823 million logits (GPT-2 small, 16 times
    1,024 tokens): 3.3 GB, and as dw is added to in 2 passes and not in 4, 0.6 GB more. Predicted: 0.9 ms less a step
    at 4.3 TB/s (90 % of an H200's data sheet), and 1.1 GB of memory in the place of 1.6; not yet measured on a GPU.
    """
    xp = array_module(h)
    dtype = wide(h.dtype)
    rows = h.reshape(-1, h.shape[-1])
    y, share = _targets_and_shares(targets, weights, normalizer, len(w), dtype)
    loss = xp.empty(len(rows), dtype)
    dh = dw = dbias = None
    times = blocks(len(rows) * len(w) * h.itemsize, LOGITS * 4)
    step = blocks(len(rows), times)
    logits = padded(xp, step, len(w), h.dtype)
    if grad:
        dh = xp.empty_like(rows)
        dw = xp.empty(w.shape, dtype)
    if bias is not None:
        bias = xp.ascontiguousarray(bias)
    slopes = logits if grad else None
    constants = _constants(logits, bias, len(w))
    block = 32 * constants["WARPS"], 1, 1
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        n = len(rows[part])
        z = logits[:n, : len(w)]
        product(rows[part], w.T, out=z)
        of_rows = loss[part], y[part], share[part]
        arguments = slopes, logits, bias, *of_rows, len(w), logits.shape[1]
        launch("cross_entropy", "cross_entropy", (n, 1, 1), block, *arguments, **constants)
        if not grad:
            continue
        dz = z  # the kernel has put it in the place of the logits
        product(dz, w, out=dh[part])
        product(dz.T, rows[part], out=dw, add=first > 0)
        if bias is not None:
            sums = column_sums(logits[None, :n])
            sums = sums[0, : len(w)]
            dbias = sums if first == 0 else dbias + sums
    if not grad:
        return loss.sum(), None
    return loss.sum(), LinearCrossEntropyCache(dh.reshape(h.shape), dw, dbias)


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C), [dbias (V,)]

    Where dloss is the number 1 these are the arrays of the cache, and nothing is computed. Whoever adds to them in
    place, as `accumulate` does, must not use the cache again: that of a module can be used only once. Otherwise dw of
    GPT-2 small would be read and written, and dh of 16,384 tokens: 309 and 50 MB, which take 0.08 ms at 4.3 TB/s
    (predicted, not yet measured), and the GPU would hold a second dw.
    """
    dh, dw, dbias = cache
    dbias = None if dbias is None else _times(dbias, dloss)
    return _times(dh, dloss), _times(dw, dloss), dbias


def _targets_and_shares(targets, weights, normalizer, vocabulary, dtype):
    """Targets (N,) that are words, and what part of the loss each row is (N,): NaN where the target is no word."""
    xp = array_module(targets)
    y = targets.reshape(-1).astype(np.int64)
    ignored = y == IGNORED
    weights = 1 if weights is None else weights.reshape(-1)
    share = xp.where(ignored, 0, weights).astype(dtype)
    share = row_shares(share, normalizer)
    is_word = (y >= 0) & (y < vocabulary)
    share = xp.where(ignored | is_word, share, np.nan).astype(dtype)
    y = xp.where(ignored, 0, y)
    return y.clip(0, vocabulary - 1), share


def _constants(logits, bias, vocabulary) -> dict[str, int]:
    """What the compiler of the kernel knows. A row has fewer warps where a thread would have less than 8 words."""
    pack = pack_of(logits.shape[1], logits)
    warps = min(WARPS, blocks(vocabulary, 8 * 32))
    return {"WARPS": warps, "PACK": pack, "BIASED": int(bias is not None)}


def _times(gradient, dloss):
    """The gradient times dloss in a new array; where dloss is the number 1, the gradient itself.

    The number in an array on the GPU is not known here: the kernel reads it there.
    """
    if isinstance(dloss, kernels.ARRAY):
        in_memory = dloss.astype(wide(gradient.dtype))
        factor = 1.0
    elif dloss == 1:
        return gradient
    else:
        in_memory = None
        factor = float(dloss)
    out = array_module(gradient).empty_like(gradient)
    return launch_each("scale", "scale", out, gradient, in_memory, factor, gradient.size)
