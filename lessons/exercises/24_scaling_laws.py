"""Exercise 24: the gradient of a scaling law, and a fit with it (lesson 24, section 6).

Hoffmann et al. fit the constants of L = E + A / N^alpha + B / D^beta in logarithms. With e = log E,
a = log A, b = log B, the law is

    log L = log( exp(e) + exp(a - alpha log N) + exp(b - beta log D) )

`forward` computes it, one operation a line, for S trainings at once; the constants have the shape
(1,), log_n and log_d have (S,). Write `backward`: five gradients of shape (1,), and those of log_n
and log_d. You know the derivative of the log of a sum of exponentials: lesson 02 met it.

When all lines are right, your backward fits the constants to 40 losses (a few seconds).

Judge it:  python lessons/exercises/24_scaling_laws.py
"""

import types

import numpy as np


def forward(e, a, b, alpha, beta, log_n, log_d):
    size_term = a - alpha * log_n
    text_term = b - beta * log_d
    loss = np.exp(e) + np.exp(size_term) + np.exp(text_term)
    out = np.log(loss)
    return out


def backward(dout, v):
    """dout (S,); v.loss, v.size_term, … are the values of the forward pass.

    A gradient has the shape of its value: where (1,) was used S times, add up with keepdims=True.
    """
    # out = np.log(loss)
    dloss = ...  # your turn
    # loss = np.exp(e) + np.exp(size_term) + np.exp(text_term)
    dtext_term = ...
    dsize_term = ...
    de = ...
    # text_term = b - beta * log_d
    db = ...
    dbeta = ...
    dlog_d = ...
    # size_term = a - alpha * log_n
    da = ...
    dalpha = ...
    dlog_n = ...
    return de, da, db, dalpha, dbeta, dlog_n, dlog_d


def values(e, a, b, alpha, beta, log_n, log_d):
    """Given: the values of a forward pass by name, without a table."""
    size_term, text_term = a - alpha * log_n, b - beta * log_d
    loss = np.exp(e) + np.exp(size_term) + np.exp(text_term)
    return types.SimpleNamespace(**locals())


def fit(log_n, log_d, log_loss, steps=4000):
    """Given: e, a, b, alpha, beta that make the mean squared error of log L small, by Adam and your backward.

    log_n and log_d are centred: their means are 0, so that a and alpha hardly depend on each other.
    """
    constants = np.array([[0.0], [0.0], [0.0], [0.3], [0.3]])
    first, second = np.zeros((2, 5, 1))  # Adam's two moments, with betas 0.9 and 0.99
    for step in range(steps):
        v = values(*constants, log_n, log_d)
        dout = 2 * (np.log(v.loss) - log_loss) / len(log_n)
        slope = np.array(backward(dout, v)[:5])
        first += 0.1 * (slope - first)
        second += 0.01 * (slope * slope - second)
        size = np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-8
        constants -= 0.03 * (1 - step / steps) * first / (1 - 0.9 ** (step + 1)) / size
    return constants[:, 0].tolist()


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    rng = np.random.default_rng(0)
    log_n = rng.uniform(np.log(1e7), np.log(1e10), 40)
    log_d = rng.uniform(np.log(1e9), np.log(1e12), 40)
    constants = [np.array([value]) for value in (0.5, 6.2, 7.6, 0.35, 0.37)]
    results = lines.check(forward, backward, *constants, log_n[:4], log_d[:4])
    if lines.exit_status(results):
        raise SystemExit(1)
    log_loss = forward(*constants, log_n, log_d)
    e, a, b, alpha, beta = fit(log_n - log_n.mean(), log_d - log_d.mean(), log_loss)
    print(f"fitted to 40 losses: e {e:.3f}, alpha {alpha:.3f}, beta {beta:.3f}")
    print("they were made with: e 0.500, alpha 0.350, beta 0.370")
    right = abs(alpha - 0.35) < 0.02 and abs(beta - 0.37) < 0.02
    raise SystemExit(0 if right else "not yet: the fit does not find the exponents")
