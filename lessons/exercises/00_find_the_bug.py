"""Exercise 00: find the bug. Every formula here is right, and still the gradients can be wrong.

GELU, x times a soft switch between 0 and 1 (lesson 05 tells its story), written by somebody who wanted a small cache.
Whoever calls forward, then backward, and looks at the result is content. A training step is not so tidy, and neither
is this file: run it, read what it says, and mend the pair. (Lesson 00, section 3.)

Judge it:  python lessons/exercises/00_find_the_bug.py
"""

import math

import numpy as np

C, A = math.sqrt(2 / math.pi), 0.044715
last = {}


def gelu_forward(x):
    """x (*) -> out (*)"""
    last["t"] = np.tanh(C * (x + A * x**3))
    out = 0.5 * x * (1 + last["t"])
    return out, (x,)


def gelu_backward(dout, cache):
    """dout (*) -> dx (*)"""
    (x,) = cache
    t = last["t"]
    # out = 0.5 * x * (1 + t)
    dt = dout * 0.5 * x
    dx = dout * 0.5 * (1 + t)
    # t = tanh(C * (x + A * x**3))
    dx = dx + dt * (1 - t * t) * C * (1 + 3 * A * x * x)
    return dx


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    training, validation, dout = rng.normal(size=(3, 2, 5))
    out, cache = gelu_forward(training)
    alone = gelu_backward(dout, cache)
    out, cache = gelu_forward(training)
    gelu_forward(validation)  # a look at the validation loss, between forward and backward
    after_a_look = gelu_backward(dout, cache)
    difference = np.abs(alone - after_a_look).max()
    if difference:
        raise SystemExit(f"not yet: one and the same cache gave two gradients, which differ by {difference:.2f}")
    print("right: the gradient depends on the cache, and on nothing else")
