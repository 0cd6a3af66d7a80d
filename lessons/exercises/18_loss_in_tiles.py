"""Exercise 18: the loss of a language model, in tiles of its vocabulary (lesson 18).

The head of a language model makes logits = h w^T, N positions x V tokens. For GPT-2's 50,257 tokens and 8 texts of
1,024 positions this table has 1.6 GB in float32, and the backward pass makes another one. The loss of a position is
lse - logits[target] (lesson 02). So the table can come in tiles of WIDTH tokens, and only lse is kept for each row.

Replace what is marked "your turn". Run this file: it compares your loss with a loop in plain Python, your gradients
with finite differences, and it looks for arrays that are too large:

    python lessons/exercises/18_loss_in_tiles.py
"""

import tracemalloc

import numpy as np

WIDTH = 2  # tokens of a tile: small, so that a small check crosses every edge


def loss_forward(h, w, targets):
    """h (N,C), w (V,C), targets (N,) int -> loss (), the mean over the positions"""
    n = len(h)
    m = np.full((n, 1), -np.inf, h.dtype)  # the largest logit so far
    z = np.zeros((n, 1), h.dtype)  # the sum of exp(logit - m)
    of_target = np.zeros((n, 1), h.dtype)  # the logit of the target
    for first in range(0, len(w), WIDTH):
        logits = h @ w[first : first + WIDTH].T  # (N, WIDTH), the last tile may be narrower
        ...  # your turn: what m and z become
        here = (targets >= first) & (targets < first + WIDTH)  # positions whose target is in this tile
        of_target[here, 0] = logits[here, targets[here] - first]
    lse = None  # your turn, (N,1)
    if lse is None:
        return None
    return (lse - of_target).mean(), (h, w, targets, lse)


def loss_backward(dloss, cache):
    """dloss () -> dh (N,C), dw (V,C)"""
    h, w, targets, lse = cache
    dh, dw = np.zeros_like(h), np.zeros_like(w)
    for first in range(0, len(w), WIDTH):
        logits = h @ w[first : first + WIDTH].T  # computed again
        here = (targets >= first) & (targets < first + WIDTH)
        dlogits = None  # your turn, (N, WIDTH): of this tile, from lse and the targets; lesson 02 has the formula
        if dlogits is None:
            return None
        ...  # your turn: what dh and dw get from this tile
    return dh, dw


def bytes_in_use(h, w, targets):
    """Given, for the judge: the bytes that both passes have in use at most, beyond what there was before."""
    tracemalloc.start()
    _, cache = loss_forward(h, w, targets)
    loss_backward(1.0, cache)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge both functions; the exit status."""
    from minigpt import gradcheck

    rng = np.random.default_rng(18)
    n, c, v = 3, 4, 7
    h, w, targets = rng.normal(size=(n, c)), rng.normal(size=(v, c)), rng.integers(v, size=n)
    made = loss_forward(h, w, targets)
    if made is None:
        print("loss_forward returns nothing yet: your turn")
        return 1
    by_loop = 0.0
    for row, target in zip(h, targets, strict=True):
        logits = [sum(a * b for a, b in zip(row, token, strict=True)) for token in w]
        by_loop += (np.log(sum(np.exp(logits))) - logits[target]) / n
    print(f"loss: yours {made[0]:.10f}, by a loop {by_loop:.10f}")
    if abs(made[0] - by_loop) > 1e-9:
        return 1
    if loss_backward(1.0, made[1]) is None:
        print("the forward is right; loss_backward returns nothing yet: your turn")
        return 1
    results = gradcheck.check(loss_forward, loss_backward, (h, w, targets))
    print(gradcheck.table(results))
    large = loss_forward(h * 1000, w, targets)[0]
    print(f"logits times 1000: loss {large:.3f}, which must be a number")
    many_h, many_w = rng.normal(size=(200, 2)), rng.normal(size=(1000, 2))
    used = bytes_in_use(many_h, many_w, rng.integers(1000, size=200))
    print(f"200 positions, 1,000 tokens: at most {used:,} bytes in use; the whole table has 1,600,000")
    right = all(result.word == "happy" for result in results) and np.isfinite(large) and used < 400_000
    print("solved: the loss in tiles" if right else "not solved yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
