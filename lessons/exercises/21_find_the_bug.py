"""Exercise 21: find the bug (lesson 21).

LayerNorm as a warp would do it, with 4 lanes instead of 32. All lanes run the same instruction, so the author adds
zeros at the end of each row until its length is a multiple of 4. "Zeros add nothing to a sum", he said, and tried rows
of 8, of 64 and of 768: right to the last digit. For 7 columns it is wrong. Mend one line, and keep the zeros.

    minigpt check lessons/exercises/21_find_the_bug.py

On paper: by what factor is the variance off, for a row of 7 whose mean is 100 and whose deviations are about 1? Why
is it not seen where the mean is near 0? Which words of the library's
kernel take the place of your line?
"""

import numpy as np

WARP = 4


def warp_sum(value):
    """value (N,4) -> (N,1): the sum over the lanes, exchanged in pairs"""
    lanes = np.arange(WARP)
    for apart in (2, 1):
        value = value + value[:, lanes ^ apart]
    return value[:, :1]


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    rows, columns = x.reshape(-1, len(g)), len(g)
    filled = np.zeros((len(rows), -(-columns // WARP) * WARP), x.dtype)  # up to the next multiple of WARP
    filled[:, :columns] = rows
    steps = [slice(c, c + WARP) for c in range(0, filled.shape[1], WARP)]

    total = np.zeros((len(rows), WARP), x.dtype)
    for step in steps:
        total += filled[:, step]
    mean = warp_sum(total) / columns
    deviation = filled - mean
    squares = np.zeros((len(rows), WARP), x.dtype)
    for step in steps:
        squares += deviation[:, step] * deviation[:, step]
    rstd = 1 / np.sqrt(warp_sum(squares) / columns + eps)
    x_hat = (deviation * rstd)[:, :columns].reshape(x.shape)
    return g * x_hat + b, (x_hat, rstd.reshape(*x.shape[:-1], 1), g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))
    dx_hat = dout * g
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    return rstd * (dx_hat - shift - x_hat * stretch), (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))
