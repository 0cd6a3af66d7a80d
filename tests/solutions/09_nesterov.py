import numpy as np


def corrected(gradients, betas):
    """The average after each update, corrected for its start at 0: a list as long as the gradients."""
    m, averages, share = 0.0, [], 1.0
    for g, beta in zip(gradients, betas, strict=True):
        m = beta * m + (1 - beta) * g
        share = share * beta  # of the zero from which m started
        averages.append(m / (1 - share))
    return averages


def nesterov(p, g, m, lr, mu):
    """One update, p being the point ahead: the new p and the new m."""
    old, m = m, mu * m + g
    return p + lr * mu * old - lr * m - lr * mu * m, m
