"""DPO (Rafailov et al. 2023): a language model learns from comparisons, without a reward model and without drawing.

    log_p_w, won = answers_forward(model, ids_w, targets_w)
    log_p_l, lost = answers_forward(model, ids_l, targets_l)
    loss, cache = dpo_forward(log_p_w, log_p_l, ref_w=ref_w, ref_l=ref_l, beta=0.1)
    dlog_p_w, dlog_p_l = dpo_backward(1.0, cache)
    answers_backward(dlog_p_w, won)
    answers_backward(dlog_p_l, lost)

ref_w and ref_l are the log-probabilities of the same answers under the model that it began as: computed once.
"""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError, check_number


class DpoCache(NamedTuple):
    margin: Array
    beta: float


def dpo_forward(log_p_w, log_p_l, *, ref_w, ref_l, beta: float):
    """log_p_w (N,), log_p_l (N,) -> loss ()

    loss = mean of -log sigmoid(margin),   margin = beta ((log_p_w - ref_w) - (log_p_l - ref_l))   (equation 7)

    Of each pair w was preferred to l. beta log (p / ref) takes the place of a reward: a larger beta is content with a
    smaller step away from the model that it began as. Raises InputError for arrays of different shapes, and for a beta
    of 0 or less.
    """
    check_number("beta", beta, "a number above 0, such as 0.1", above=0)
    given = {"log_p_w": log_p_w, "log_p_l": log_p_l, "ref_w": ref_w, "ref_l": ref_l}
    shapes = {name: value.shape for name, value in given.items()}
    if len(set(shapes.values())) > 1 or log_p_w.ndim != 1 or not len(log_p_w):
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"the shapes are {told}: give one number for each pair, and one pair or more")
    xp = array_module(log_p_w)
    gain_w = log_p_w - ref_w
    gain_l = log_p_l - ref_l
    margin = beta * (gain_w - gain_l)
    # -log sigmoid(m) = log(1 + exp(-m)), which logaddexp computes without overflow
    losses = xp.logaddexp(0, -margin)
    loss = losses.mean()
    return loss, DpoCache(margin, beta)


def dpo_backward(dloss, cache: DpoCache):
    """dloss () -> dlog_p_w (N,), dlog_p_l (N,): most where the order is still wrong"""
    margin, beta = cache
    xp = array_module(margin)
    # loss = losses.mean()
    dlosses = xp.full_like(margin, dloss / len(margin))
    # losses = log(1 + exp(-margin)): its slope is -sigmoid(-margin)
    share_wrong = xp.exp(-xp.logaddexp(0, margin))
    dmargin = -dlosses * share_wrong
    # margin = beta * (gain_w - gain_l)
    dgain_w = beta * dmargin
    dgain_l = -dgain_w
    # gain = log_p - ref, and ref is a constant
    return dgain_w, dgain_l
