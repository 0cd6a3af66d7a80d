"""Exercise 33: the backward of a loss that learns from comparisons without a reward model, line by line.

Lesson 33 trains a reward model on comparisons, and then a language model on its score. DPO (Rafailov et al. 2023,
equation 7) does both in one step: the language model's own log-probability takes the place of the score. Of two
answers to one prompt, one was preferred. Its log-probability shall grow more, against that of the tuned model, than
that of the other:

    loss = log(1 + exp(-beta ((log p_w - log p0_w) - (log p_l - log p0_l))))

p0 is the tuned model. It does not learn, so its part is one given number, start = log p0_w - log p0_l. The forward
pass stands below, one operation a line. Write the backward pass: replace every `...`. The new piece: one of the two
answers is learned as in lesson 02. What happens to the other?

Judge it:  python lessons/exercises/33_preferences.py
"""

import numpy as np

from minigpt import ops


def preferred(z_w, z_l, y_w, y_l, *, start, beta):
    """z_w (N,V), z_l (M,V): logits of both answers; y_w (N,) and y_l (M,) int: their tokens -> out (), the loss"""
    nll_w, ce_w = ops.cross_entropy_forward(z_w, y_w, normalizer=1.0)  # -log p_w, the sum over its tokens
    nll_l, ce_l = ops.cross_entropy_forward(z_l, y_l, normalizer=1.0)
    margin = nll_l - nll_w - start
    scaled = beta * margin
    e = np.exp(-scaled)
    out = np.log1p(e)
    return out


def preferred_backward(dout, v):
    # out = np.log1p(e)
    de = ...  # your turn: ()
    # e = np.exp(-scaled)
    dscaled = ...  # your turn: ()
    # scaled = beta * margin
    dmargin = ...  # your turn: ()
    # margin = nll_l - nll_w - start
    dnll_l = ...  # your turn: ()
    dnll_w = ...  # your turn: ()
    # nll_l, ce_l = cross_entropy(z_l, y_l)
    dz_l = ...  # your turn: (M,V); ops has it
    # nll_w, ce_w = cross_entropy(z_w, y_w)
    dz_w = ...  # your turn: (N,V)
    return dz_w, dz_l


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    N, M, V = 3, 4, 5
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(length, V)) for length in (N, M)]
    tokens = [rng.integers(V, size=length) for length in (N, M)]
    results = lines.check(preferred, preferred_backward, *logits, *tokens, start=0.7, beta=0.5)
    raise SystemExit(lines.exit_status(results))
