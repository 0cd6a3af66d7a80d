import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    C = x.shape[-1]
    mean = np.sum(x, axis=-1, keepdims=True) / C
    xc = x - mean
    var = np.sum(xc * xc, axis=-1, keepdims=True) / C
    rstd = (var + eps) ** -0.5
    xhat = xc * rstd
    return xhat * g + b, (xc, rstd, xhat, g)


def layernorm_backward(dout, cache):
    xc, rstd, xhat, g = cache
    C = dout.shape[-1]
    lead = tuple(range(dout.ndim - 1))
    # out = xhat * g + b
    db = dout.sum(axis=lead)
    dg = (dout * xhat).sum(axis=lead)
    dxhat = dout * g
    # xhat = xc * rstd
    dxc = dxhat * rstd
    drstd = (dxhat * xc).sum(axis=-1, keepdims=True)
    # rstd = (var + eps) ** -0.5
    dvar = -0.5 * rstd**3 * drstd
    # var = sum(xc * xc) / C
    dxc = dxc + 2 * xc * dvar / C
    # xc = x - mean
    dx = dxc
    dmean = -dxc.sum(axis=-1, keepdims=True)
    # mean = sum(x) / C
    dx = dx + dmean / C
    return dx, dg, db
