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
    dw = rows.T @ drows
    dx = drows @ w.T
    return dx.reshape(x.shape), dw, db
