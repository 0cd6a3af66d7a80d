"""Exercise 26: the backward of BERT's second task, line by line.

Does the second text follow the first? BERT answers from the state of the first token alone: a linear map and a tanh
(the "pooler"), and a linear map to two scores (BERT section 3.1). The forward pass stands below, one operation a line.
Write the backward pass. The new piece: what is the gradient of the states that were not read? Replace every `...`.

Judge it:  python lessons/exercises/26_next_sentence.py
"""

import numpy as np

from minigpt import ops


def pairs_forward(h, w, b, w_scores, b_scores, follows):
    """h (B,T,C), follows (B,) int: 0 or 1 -> out (), the loss"""
    first = h[:, 0]
    x = first @ w + b
    pooled = np.tanh(x)
    scores = pooled @ w_scores + b_scores
    out, ce = ops.cross_entropy_forward(scores, follows)
    return out


def pairs_backward(dout, v):
    # out = cross_entropy(scores, follows)
    dscores = ...  # your turn: (B,2); ops has it
    # scores = pooled @ w_scores + b_scores
    dw_scores = ...  # your turn: (C,2)
    db_scores = ...  # your turn: (2,)
    dpooled = ...  # your turn: (B,C)
    # pooled = np.tanh(x)
    dx = ...  # your turn: (B,C)
    # x = first @ w + b
    dw = ...  # your turn: (C,C)
    db = ...  # your turn: (C,)
    dfirst = ...  # your turn: (B,C)
    # first = h[:, 0]
    dh = ...  # your turn: (B,T,C)
    return dh, dw, db, dw_scores, db_scores


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    B, T, C = 5, 3, 4
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((B, T, C), (C, C), C, (C, 2), 2)]
    results = lines.check(pairs_forward, pairs_backward, *arrays, rng.integers(0, 2, size=B))
    raise SystemExit(lines.exit_status(results))
