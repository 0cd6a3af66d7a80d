"""Exercise 11: find the bug. An evaluation that does not report the loss that it promises.

It promises the mean loss over tokens[1:], each of them predicted once. For a long text its number
looks right, and nothing crashes. Two things are wrong. Run the file: it tests `evaluate` with a
model whose loss on each token is known beforehand, because it looks only one token back.

1. How many of the tokens are predicted at all?
2. With the same loss on every token but the last few, what should those few count?

Judge it:  python lessons/exercises/11_find_the_bug.py
"""

import numpy as np


def evaluate(model, tokens, context):
    """The mean loss over tokens[1:], each predicted once, from windows that do not overlap."""
    losses = []
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context]
        loss, _ = model.loss(window[None, :-1], window[None, 1:], grad=False)
        losses.append(float(loss))
    return np.mean(losses)


class Pairs:
    """A model that looks one token back. It counts how often each pair of tokens was predicted."""

    def __init__(self, surprisal):
        self.surprisal = surprisal  # (V,V): of the second token after the first
        self.longest = self.predicted = 0

    def loss(self, ids, targets, normalizer=None, grad=True):
        """As the library's models have it."""
        if ids.size == 0:
            raise SystemExit("not yet: a window without any target reached the model")
        self.longest = max(self.longest, ids.shape[1])
        self.predicted += targets.size
        return self.surprisal[ids, targets].sum() / (normalizer or targets.size), None


def judge():
    """What is still wrong, or "" if nothing is."""
    rng = np.random.default_rng(2)
    for length in (8 * 6 + 4, 8 * 6, 8 * 6 + 1, 5):
        model = Pairs(rng.exponential(size=(5, 5)))
        tokens = rng.integers(5, size=length)
        promised = model.surprisal[tokens[:-1], tokens[1:]].mean()
        yours = evaluate(model, tokens, 8)
        said = f"{length} tokens, context 8: yours {yours:.6f}, promised {promised:.6f}"
        if model.predicted != length - 1:
            return f"{said}. {model.predicted} targets were predicted, and there are {length - 1}"
        if model.longest > 8:
            return f"{said}. A window has {model.longest} inputs, and the model has room for 8"
        if abs(yours - promised) > 1e-12:
            return f"{said}. Every target was predicted once; which of them count for more than others?"
        print(f"{length} tokens: right")
    return ""


if __name__ == "__main__":
    if wrong := judge():
        raise SystemExit(f"not yet: {wrong}")
    print("right: every token once, and every token with the same weight")
