"""Linear layer: every output is a weighted sum of the inputs."""

from typing import NamedTuple

from minigpt.device.arrays import Array


class LinearCache(NamedTuple):
    x: Array
    w: Array
    b: Array | None


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)

    out = x w + b, without the last term where b is None. All leading axes count as rows of one matrix: that is
    clearer, and the only form that is fast everywhere.
    """
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w
    if b is not None:
        out = out + b
    return out.reshape(*x.shape[:-1], w.shape[1]), LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b

    With rows n: out[n,o] = sum_i x[n,i] w[i,o] + b[o].
    """
    x, w, b = cache
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    # out = out + b: b is added to every row, so it hears from every row
    db = None if b is None else drows.sum(axis=0)
    # out = rows @ w
    dw = rows.T @ drows
    dx = drows @ w.T
    return dx.reshape(x.shape), dw, db
