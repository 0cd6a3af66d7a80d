"""Exercise 00: find the bug. Every formula here is right, and still the gradients can be wrong.

A softmax whose author wanted to save memory: for each shape of input there is one array, which is made once and then
used again. If you call forward, then backward, the gradient is right. Run this file: it does one thing more, as every
training run does. Read what it prints, and mend the pair. (Lesson 00, section 4.)

Judge it:  python lessons/exercises/00_find_the_bug.py
"""

import numpy as np

arrays = {}


def array_for(x):
    """The array for results of this shape."""
    if x.shape not in arrays:
        arrays[x.shape] = np.empty_like(x)
    return arrays[x.shape]


def softmax_forward(x):
    """x (*,N) -> p (*,N)"""
    p = array_for(x)
    np.exp(x - x.max(axis=-1, keepdims=True), out=p)  # the result is written into p
    np.divide(p, p.sum(axis=-1, keepdims=True), out=p)
    return p.copy(), (p,)


def softmax_backward(dp, cache):
    """dp (*,N) -> dx (*,N)"""
    (p,) = cache
    average = (p * dp).sum(axis=-1, keepdims=True)
    return p * (dp - average)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    training, validation, dout = rng.normal(size=(3, 2, 5))
    out, cache = softmax_forward(training)
    alone = softmax_backward(dout, cache)
    softmax_forward(validation)  # the validation loss, between forward and backward
    later = softmax_backward(dout, cache)
    difference = np.abs(alone - later).max()
    if difference:
        raise SystemExit(f"not yet: one and the same cache gave two gradients, which differ by {difference:.2f}")
    moved = training.copy()
    moved[0, 0] += 1e-6
    slope = ((softmax_forward(moved)[0] - out) * dout).sum() / 1e-6
    if abs(slope - later[0, 0]) > 1e-4:
        raise SystemExit(f"not yet: dx[0, 0] is {later[0, 0]:.4f}, and the slope is {slope:.4f}")
    print("right: the gradient depends on the cache, and on nothing else")
