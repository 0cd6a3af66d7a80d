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
    *leading, inputs = x.shape
    rows = x.reshape(-1, inputs)
    out = rows @ w
    if b is not None:
        out = out + b
    out = out.reshape(*leading, w.shape[1])
    return out, LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b

    With rows n: out[n,o] = sum_i x[n,i] w[i,o] + b[o].
    """
    x, w, b = cache
    # out = out.reshape(...)
    drows = dout.reshape(-1, dout.shape[-1])
    # out = out + b: b is added to every row, so its gradient is the sum over the rows
    db = None
    if b is not None:
        db = drows.sum(axis=0)
    # out = rows @ w
    rows = x.reshape(-1, x.shape[-1])
    dw = rows.T @ drows
    dx = drows @ w.T
    # rows = x.reshape(...)
    dx = dx.reshape(x.shape)
    return dx, dw, db
