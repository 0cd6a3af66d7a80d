"""An MLP with a gate: its two first products side by side, and what lies between the products in the cache.

As in mlp.py, a thread computes all of it for some of the rows; where arrays are large, the function of the gate and its
slope are computed once more in the backward pass.
"""

from typing import NamedTuple

import numpy as np

from minigpt.device import memory
from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces, spared
from minigpt.ops.fast.activations import ACTIVATIONS, activate, activate_again
from minigpt.ops.fast.pieces import accepts, product, products


class GatedMlpCache(NamedTuple):
    x: Array | spared.Normalised
    w_gate: Array
    w_up: Array
    w_down: Array
    activation: str
    u: Array  # (N,F): x w_up
    g: Array | None  # (N,F): x w_gate, where it is large; or else the next two
    a: Array | None  # (N,F): act(g)
    slope: Array | None  # (N,F): the derivative of act there


def gated_mlp_supports(x, w_gate, w_up, w_down, *, activation="silu", rate=0.0, key=None, grad=True) -> str | None:
    """Dropout inside is left to the reference."""
    if rate and key:
        return "it takes no dropout"
    return accepts(x, w_gate, w_up, w_down)


def gated_mlp_forward(x, w_gate, w_up, w_down, *, activation="silu", rate=0.0, key=None, grad=True):
    """x (*,C), w_gate (C,F), w_up (C,F), w_down (F,C) -> out (*,C)"""
    *leading, inputs = x.shape
    inner, outputs = w_down.shape
    rows = x.reshape(-1, inputs)
    n_rows = len(rows)
    if not grad and n_rows < pieces.TALL:
        out = _by_units(rows, w_gate, w_up, w_down, activation)
        return out.reshape(*leading, outputs), None
    g = np.empty((n_rows, inner), x.dtype)
    u = np.empty_like(g)
    large = grad and rows.size >= memory.LARGE
    a = np.empty_like(g)
    slope = np.empty_like(g) if grad and not large else None
    out = np.empty((n_rows, outputs), x.dtype)

    def for_rows(n):
        np.matmul(rows[n], w_gate, out=g[n])
        np.matmul(rows[n], w_up, out=u[n])
        activate(activation, g[n], None, a[n], None if slope is None else slope[n])
        np.matmul(a[n] * u[n], w_down, out=out[n])

    share(for_rows, n_rows, work=products(n_rows, w_gate, w_up, w_down))
    out = out.reshape(*leading, outputs)
    if not grad:
        return out, None
    kept = (g, None, None) if large else (None, a, slope)
    return out, GatedMlpCache(spared.spare(x), w_gate, w_up, w_down, activation, u, *kept)


def _by_units(x, w_gate, w_up, w_down, activation):
    """The same for a few rows: a thread takes some of the F inner units, and reads only their weights."""

    def for_units(f):
        a = np.empty((len(x), f.stop - f.start), x.dtype)
        u = np.empty_like(a)
        product(x, w_gate[:, f], a)
        product(x, w_up[:, f], u)
        activate(activation, a, None, a)
        a *= u
        out = np.empty((len(x), w_down.shape[1]), x.dtype)
        return product(a, w_down[f], out)

    if len(x) == 1:  # BLAS divides each product among its threads
        a = x @ w_gate
        ACTIVATIONS[activation](a, a, None)
        a *= x @ w_up
        return a @ w_down
    return sum(share(for_units, len(w_down), work=products(len(x), w_gate, w_up, w_down)))


def gated_mlp_backward(dout, cache: GatedMlpCache):
    """dout (*,C) -> dx (*,C), dw_gate (C,F), dw_up (C,F), dw_down (F,C)

    First a thread computes dx, and the gradients of g, u and h = a u, for some of the rows; then the weights' gradients
    for some of their rows.
    """
    kept, w_gate, w_up, w_down, activation, u, g, a, slope = cache
    x = spared.again(kept)
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    if slope is None:
        a = np.empty_like(g)
    h = np.empty_like(u)
    dg = np.empty_like(u)
    du = np.empty_like(u)
    dx = np.empty_like(rows)
    dw_gate = np.empty(w_gate.shape, w_gate.dtype)
    dw_up = np.empty(w_up.shape, w_up.dtype)
    dw_down = np.empty(w_down.shape, w_down.dtype)

    def for_rows(n):
        dh = drows[n] @ w_down.T
        np.multiply(dh, u[n], out=dg[n])
        if slope is None:
            activate_again(activation, g[n], a[n], dg[n])
        else:
            dg[n] *= slope[n]
        np.multiply(dh, a[n], out=du[n])
        np.multiply(a[n], u[n], out=h[n])
        np.matmul(dg[n], w_gate.T, out=dx[n])
        dx[n] += du[n] @ w_up.T

    def for_weights(i, j):
        np.matmul(rows.T[i], dg, out=dw_gate[i])
        np.matmul(rows.T[i], du, out=dw_up[i])
        np.matmul(h.T[j], drows, out=dw_down[j])

    work = products(len(rows), w_gate, w_up, w_down)
    share(for_rows, len(rows), work=work)
    share(for_weights, *w_down.shape[::-1], work=work)
    return dx.reshape(x.shape), dw_gate, dw_up, dw_down
