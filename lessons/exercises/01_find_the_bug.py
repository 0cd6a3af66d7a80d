"""Exercise 01: find the bug. A linear layer, and every shape in it is right.

One of its three gradients is wrong, but not always: a test with a single row would pass, and so would a test in which
all entries of x are equal. Which entry does the wrong line put into which place? Change one line.

Judge it:  minigpt check lessons/exercises/01_find_the_bug.py
"""


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w
    if b is not None:
        out = out + b
    return out.reshape(*x.shape[:-1], w.shape[1]), (x, w, b)


def linear_backward(dout, cache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b"""
    x, w, b = cache
    n_in, n_out = w.shape
    rows, drows = x.reshape(-1, n_in), dout.reshape(-1, n_out)
    # out = out + b
    db = None if b is None else drows.sum(axis=0)
    # out = rows @ w
    dw = rows.reshape(n_in, -1) @ drows
    dx = drows @ w.T
    return dx.reshape(x.shape), dw, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))
