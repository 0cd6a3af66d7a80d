import numpy as np

from minigpt import ops


def preferred(z_w, z_l, y_w, y_l, *, start, beta):
    """z_w (N,V), z_l (M,V): logits of both answers; y_w (N,) and y_l (M,) int: their tokens -> out (), the loss"""
    nll_w, ce_w = ops.cross_entropy_forward(z_w, y_w, normalizer=1.0)  # -log p_w, the sum over its tokens
    nll_l, ce_l = ops.cross_entropy_forward(z_l, y_l, normalizer=1.0)
    margin = nll_l - nll_w - start
    scaled = beta * margin
    e = np.exp(-scaled)
    out = np.log1p(e)
    return out


def preferred_backward(dout, v):
    # out = np.log1p(e)
    de = dout / (1 + v.e)
    # e = np.exp(-scaled)
    dscaled = -de * v.e
    # scaled = beta * margin
    dmargin = dscaled * v.beta
    # margin = nll_l - nll_w - start
    dnll_l = dmargin
    dnll_w = -dmargin
    # nll_l, ce_l = cross_entropy(z_l, y_l)
    dz_l = ops.cross_entropy_backward(dnll_l, v.ce_l)
    # nll_w, ce_w = cross_entropy(z_w, y_w)
    dz_w = ops.cross_entropy_backward(dnll_w, v.ce_w)
    return dz_w, dz_l
