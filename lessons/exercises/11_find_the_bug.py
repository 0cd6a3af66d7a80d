"""Exercise 11: find the bug. An evaluation that does not report the loss that it promises.

It promises the mean loss over tokens[1:], each of them predicted once. For a long text its number
looks right, and nothing crashes. Two things are wrong. Run the file: it tests `evaluate` with
models whose loss on each token is known beforehand, because they look only one token back.

1. How many of the tokens are predicted at all?
2. With the same loss on every token but the last few, what should those few count?

Judge it:  python lessons/exercises/11_find_the_bug.py
"""

import numpy as np


def loss(model, inputs, targets):
    """The mean loss in one window, as models give it.

    model (places,V,V): at each place of a window, the surprisal of a token (last axis) after another one.
    inputs, targets (n,) int. Without any target, or with more inputs than the model has places: nan.
    """
    if not 0 < len(inputs) <= len(model):
        return np.nan
    return model[np.arange(len(inputs)), inputs, targets].mean()


def evaluate(model, tokens, context):
    """The mean loss over tokens[1:], each predicted once, from windows that do not overlap. context: its places."""
    losses = []
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context]
        losses.append(loss(model, window[:-1], window[1:]))
    return np.mean(losses)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def fault_of(length: int) -> str:
    """What is wrong with an evaluation of so many tokens, context 8; "" if nothing is."""
    rng = np.random.default_rng(length)
    tokens = rng.permutation(length)  # each token once, so each pair once
    weights = []
    for given, target in zip(tokens[:-1], tokens[1:], strict=True):
        model = np.zeros((8, length, length))
        model[:, given, target] = 1  # a model that is surprised by this target only
        weights.append(float(evaluate(model, tokens, 8)))
    if np.isnan(weights).any():
        return "a window without a target, or with more inputs than the model has room for, reached the model"
    if never := weights.count(0):
        return f"{never} of the {length - 1} targets are never predicted"
    if not np.allclose(weights, 1 / (length - 1), rtol=1e-9):
        return "every target is predicted; which of them count for more than others?"
    model = rng.exponential(size=(8, length, length))
    promised = model[np.arange(length - 1) % 8, tokens[:-1], tokens[1:]].mean()
    yours = evaluate(model, tokens, 8)
    if abs(yours - promised) > 1e-12:
        return f"yours {yours:.6f}, promised {promised:.6f}: each window should begin where the one before ends"
    return ""


if __name__ == "__main__":
    for length in (8 * 6 + 4, 8 * 6, 8 * 6 + 1, 8 * 6 + 2, 5):
        if fault := fault_of(length):
            raise SystemExit(f"not yet: {length} tokens, context 8: {fault}")
        print(f"{length} tokens: right")
    print("right: every token once, and every token with the same weight")
    raise SystemExit(0)
