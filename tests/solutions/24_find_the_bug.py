import math

import numpy as np


def loss(N, D, E, A, B, alpha, beta):
    return E + A / N**alpha + B / D**beta


def best_split(budget, A, B, alpha, beta):
    """N and D with 6 N D = budget for which the loss is smallest."""
    q = budget / 6
    ratio = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    N = ratio * q ** (beta / (alpha + beta))
    D = q / N
    return N, D
