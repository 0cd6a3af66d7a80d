"""Exercise 38: the second half of attention in a band (lesson 38, section 4).

The lesson computes the scores of the w keys that a query sees. Behind a softmax they are weights. Here these weights
read the values: each query adds up the w values that it sees, each times its weight. Write the forward pass and its
backward, with arrays of T w numbers: no array of (T,T). Replace what is marked "your turn".

Judge it:  python lessons/exercises/38_read_near.py
"""

import numpy as np


def forward(p, v, at):
    """p (T,w), v (T,D), at (T,w) -> out (T,D)

    at[t, j] is the place of the value that has the weight p[t, j]. Below 0 it is before the text: it counts for
    nothing, whatever p says.
    """
    return None  # your turn


def backward(dout, p, v, at):
    """dout (T,D) -> dp (T,w), dv (T,D)"""
    return None  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def dense(p, at):
    """The same weights as a table (T,T)."""
    table = np.zeros((len(p), len(p)))
    for t, j in np.ndindex(at.shape):
        if at[t, j] >= 0:
            table[t, at[t, j]] += p[t, j]
    return table


def by_differences(given, dout, name):
    """The gradient of (out dout) summed, by central differences."""
    found = np.zeros_like(given[name])
    for place in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = given[name].copy()
            moved[place] += step
            now = given | {name: moved}
            ends.append((dense(now["p"], now["at"]) @ now["v"] * dout).sum())
        found[place] = (ends[0] - ends[1]) / 2e-5
    return found


def verdict():
    """What is missing or wrong, in one sentence; "" where all is right."""
    for t, w, size in ((7, 3, 4), (5, 5, 2), (6, 1, 3)):
        rng = np.random.default_rng([t, w])
        at = np.arange(t)[:, None] - np.arange(w)
        given = {"p": rng.normal(size=(t, w)), "v": rng.normal(size=(t, size)), "at": at}
        out = forward(**given)
        if out is None:
            return "forward returns nothing yet"
        expected = dense(given["p"], at) @ given["v"]
        if np.shape(out) != expected.shape or np.abs(out - expected).max() > 1e-9:
            return f"forward: T = {t}, w = {w}: not the sum of the values that are seen, each times its weight"
        dout = rng.normal(size=expected.shape)
        gradients = backward(dout, **given)
        if gradients is None:
            return "backward returns nothing yet"
        for name, gradient in zip(("p", "v"), gradients, strict=True):
            true = by_differences(given, dout, name)
            if np.shape(gradient) != true.shape:
                return f"d{name} has the shape {np.shape(gradient)}, and {name} has {true.shape}"
            error = np.abs(gradient - true).max()
            if error > 1e-6:
                return f"T = {t}, w = {w}: d{name} is wrong: the largest difference is {error:.2g}"
    return ""


def main() -> int:
    """Judge both passes; the exit status."""
    problem = verdict()
    print(problem or "values read within a band, forward and backward: right")
    return 1 if problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
