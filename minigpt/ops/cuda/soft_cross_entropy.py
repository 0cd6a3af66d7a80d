"""Cross-entropy with soft targets: kernels in soft_cross_entropy.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import accepts, blocks, launch, pack_of, wide
from minigpt.ops.cuda.row_shares import row_shares, times_dloss, weights_of_rows


class SoftCrossEntropyCache(NamedTuple):
    logits: Array
    target_logits: Array
    losses: Array
    student: Array
    teacher: Array
    share: Array
    temperature: float


def soft_cross_entropy_supports(
    logits, target_logits, *, temperature=1.0, weights=None, normalizer=None
) -> str | None:
    """Two arrays of one dtype that are not empty."""
    if not logits.size:
        return "it takes rows of one logit or more, and one row or more"
    return accepts(logits, target_logits)


def soft_cross_entropy_forward(logits, target_logits, *, temperature=1.0, weights=None, normalizer=None):
    """logits (*,V), target_logits (*,V) -> loss ()

    The cache keeps the logits, which are in memory already, and five numbers of each row: no probabilities. The loss
    has the dtype that numbers are computed in: float32 for logits of bfloat16.
    """
    xp = array_module(logits)
    dtype = wide(logits.dtype)
    temperature = float(temperature)
    logits = xp.ascontiguousarray(logits)
    target_logits = xp.ascontiguousarray(target_logits)
    share = row_shares(weights_of_rows(logits, weights, dtype), normalizer)
    losses = xp.empty(len(share), dtype)
    student = xp.empty((len(share), 2), dtype)
    teacher = xp.empty((len(share), 2), dtype)
    results = (losses, student, teacher)
    _launch("soft_cross_entropy_forward", (logits, target_logits), *results, logits, target_logits, temperature)
    weighted = share * losses
    loss = weighted.sum() * temperature**2
    return loss, SoftCrossEntropyCache(logits, target_logits, *results, share, temperature)


def soft_cross_entropy_backward(dloss, cache: SoftCrossEntropyCache):
    """dloss () -> dlogits (*,V), dtarget_logits (*,V)"""
    logits, target_logits, losses, student, teacher, share, temperature = cache
    xp = array_module(logits)
    dlogits = xp.empty_like(logits)
    dtarget_logits = xp.empty_like(target_logits)
    in_packs = (dlogits, dtarget_logits, logits, target_logits)
    share, factor = times_dloss(share, dloss)
    slope = factor * temperature
    kept = (losses, student, teacher, share)
    _launch("soft_cross_entropy_backward", in_packs, *in_packs, *kept, temperature, slope)
    return dlogits, dtarget_logits


def _launch(kernel, in_packs, *arguments):
    """in_packs: the arrays (*,V) that are read or written several numbers at a time. A block takes a row.

    It has fewer warps where a thread would have less than 8 words.
    """
    columns = in_packs[0].shape[-1]
    rows = in_packs[0].size // columns
    pack = pack_of(columns, *in_packs)
    warps = min(kernels.WARPS, blocks(columns, 8 * 32))
    grid = (rows, 1, 1)
    block = (32 * warps, 1, 1)
    launch("soft_cross_entropy", kernel, grid, block, *arguments, columns, PACK=pack, WARPS=warps)
