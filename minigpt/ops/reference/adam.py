"""One update of the weights by Adam (Kingma and Ba 2015, algorithm 1), with clipping and decoupled weight decay."""

import math
from collections.abc import Sequence

from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.ops.table import table as ops

Tensors = Sequence[tuple[Array, Array, Array, Array]]


def adam_update(
    tensors: Tensors, *, copies: Sequence[Array | None], decays: Sequence[bool], rate: float, eps: float, decay: float,
    betas: tuple[float, float], max_norm: float | None = None,
) -> float | Array:
    """Update every (p, g, m, v), four arrays of one shape, in place. Returns the norm of all gradients together.

    m += (1 - beta1) (g - m),   v += (1 - beta2) (g^2 - v),   p -= rate m / (sqrt(v) + eps) + decay p.

    copies: for each p an array of fewer bits that gets the new values too, or None. decays: does this p decay?
    max_norm: the gradients are first scaled by min(1, max_norm / norm), in place (Pascanu et al. 2013, algorithm 1);
    where the norm is not finite nothing is changed. None: no clipping, and 0 is returned. Not a pair: nothing flows
    back through an update.
    """
    norm = 0.0
    if max_norm is not None:
        norm = ops.clip_gradients([g for _, g, _, _ in tensors], max_norm)
        if not math.isfinite(norm):
            return norm
    for (p, g, m, v), copy, decaying in zip(tensors, copies, decays, strict=True):
        update_one(p, g, m, v, rate, eps, decay if decaying else 0.0, betas)
        if copy is not None:
            copy[...] = p
    return norm


def update_one(
    p: Array, g: Array, m: Array, v: Array, rate: float, eps: float, decay: float, betas: tuple[float, float]
) -> None:
    """The three lines of the formula, for one tensor."""
    xp = array_module(p)
    beta1, beta2 = betas
    m += (g - m) * (1 - beta1)
    v += (g * g - v) * (1 - beta2)
    if decay:
        p *= 1 - decay
    p -= m / (xp.sqrt(v) + eps) * rate


def clip_gradients(gradients: Sequence[Array], max_norm: float | None) -> float:
    """Scale all gradients in place by min(1, max_norm / norm), where norm is their length as one vector; returns it.

    max_norm None or 0 only measures. A norm that is NaN or infinite leaves every gradient as it is.
    """
    if not gradients:
        return 0.0
    xp = array_module(*gradients)
    squares = [g.reshape(-1) @ g.reshape(-1) for g in gradients]
    squares = to_numpy(xp.stack(squares)).tolist()  # all of them come back at once: a GPU is waited for one time
    norm = math.sqrt(sum(squares))
    if max_norm and math.isfinite(norm) and norm > max_norm:
        for g in gradients:
            g *= max_norm / norm
    return norm
