"""Exercise 09: find the bug. An AdamW that trains every model well, and decays its weights wrongly.

With decay=0 it is right. With decay, weights that the data say little about go to zero far too fast, and others keep
their size. Mend it and run it again. (Lesson 09, section 4.)

Judge it:  python lessons/exercises/09_find_the_bug.py
"""

import numpy as np

B1, B2, EPS = 0.9, 0.999, 1e-8


def adamw_step(p, g, m, v, t, lr, decay):
    """One update: the new p, m and v. t counts from 1."""
    g = g + decay * p
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    m_hat = m / (1 - B1**t)
    v_hat = v / (1 - B2**t)
    return p - lr * m_hat / (np.sqrt(v_hat) + EPS), m, v


if __name__ == "__main__":
    from minigpt.nn import Parameter
    from minigpt.nn.optim import AdamW

    for decay in (0.0, 0.1):
        rng = np.random.default_rng(0)
        start, scales = np.ones((3, 100)), np.array([[0.01], [1.0], [100.0]])
        parameter, (p, m, v) = Parameter(start.copy()), (start, np.zeros((3, 100)), np.zeros((3, 100)))
        optimizer = AdamW([("p", parameter)], weight_decay=decay)
        for t in range(1, 101):
            g = parameter.grad = scales * rng.normal(size=(3, 100))
            p, m, v = adamw_step(p, g, m, v, t, 0.01, decay)
            optimizer.step(0.01)
        for row, scale in enumerate(scales.ravel()):
            mine, theirs = p[row].mean(), parameter.data[row].mean()
            if abs(mine - theirs) > 1e-9:
                what = f"decay {decay}, gradients of size {scale}, mean weight after 100 updates"
                raise SystemExit(f"not yet: {what} {mine:.3f}, expected {theirs:.3f}")
    print("right: with and without decay, for quiet and for loud gradients")
