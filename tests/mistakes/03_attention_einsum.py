import numpy as np


def attention_forward(q, k, v, *, mask=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)"""
    n_q, d = q.shape[-2:]
    n_k = k.shape[-2]
    scale = float(d) ** -0.5
    q = q * scale
    att = np.einsum("...td,...sd->...ts", q, k)
    if mask is None:
        mask = np.arange(n_k)[None, :] <= np.arange(n_q)[:, None] + (n_k - n_q)
    att = np.where(mask, att, -np.inf)
    biggest = np.max(att, axis=-1, keepdims=True)
    biggest[biggest == -np.inf] = 0
    weights = np.exp(att - biggest)
    norm = np.sum(weights, axis=-1, keepdims=True)
    norm[norm == 0] = 1
    weights = weights / norm
    out = np.einsum("...ts,...sd->...td", weights, v)
    return out, (q, k, v, weights, scale)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)"""
    q, k, v, weights, scale = cache
    dv = np.einsum("...ts,...td->...sd", weights, dout)
    dweights = np.einsum("...td,...sd->...ts", dout, v)
    dot = np.sum(dweights * weights, axis=-1, keepdims=True)
    datt = weights * (dweights - dot)
    dq = np.einsum("...ts,...sd->...td", datt, k) * scale
    dk = np.einsum("...ts,...td->...sd", datt, q)
    return dq, dk, dv
