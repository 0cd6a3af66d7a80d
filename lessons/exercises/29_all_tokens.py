"""Exercise 29: the backward of a masked model that predicts every word, line by line.

ELECTRA's paper compares itself with a masked model that has a loss at every word, the "All-Tokens MLM" (section 3.5).
Most words are in its input, so it may copy: at each place a gate, the sigmoid of a score s, is the probability that
the word is copied, and the softmax has the rest. The probability of the text's own word is then a sum of two. The
forward pass stands below, one operation a line. Write the backward pass. Each of p_word and gate is used how often?
Replace every `...`.

Judge it:  python lessons/exercises/29_all_tokens.py
"""

import numpy as np

from minigpt import ops


def take(p, words):
    """p (T,V), words (T,) -> (T,): the probability of each place's word"""
    return p[np.arange(len(words)), words]


def all_tokens_forward(z, s, words, same):
    """z (T,V), s (T,), words (T,) int, same (T,) int: 1 where the input has the text's own word -> out (), the loss"""
    p, soft = ops.softmax_forward(z)
    p_word = take(p, words)
    gate = 1 / (1 + np.exp(-s))
    chance = gate * same + (1 - gate) * p_word
    out = -np.log(chance).mean()
    return out


def all_tokens_backward(dout, v):
    # out = -np.log(chance).mean()
    dchance = ...  # your turn: (T,)
    # chance = gate * same + (1 - gate) * p_word
    dgate = ...  # your turn: (T,)
    dp_word = ...  # your turn: (T,)
    # gate = 1 / (1 + np.exp(-s))
    ds = ...  # your turn: (T,)
    # p_word = take(p, words)
    dp = ...  # your turn: (T,V)
    # p, soft = softmax_forward(z)
    dz = ...  # your turn: (T,V); ops has it
    return dz, ds


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    T, V = 6, 5
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(T, V)), rng.normal(size=T), rng.integers(V, size=T), np.array([1, 1, 0, 1, 0, 1])
    results = lines.check(all_tokens_forward, all_tokens_backward, *inputs)
    raise SystemExit(lines.exit_status(results))
