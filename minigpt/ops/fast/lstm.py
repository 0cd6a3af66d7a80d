"""The LSTM, time before batch: what a step reads lies together, and all that needs no step before is done at once."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import column_sums


class LstmCache(NamedTuple):
    x: Array  # (T,B,I)
    w: Array
    u: Array
    gates: Array  # (T,B,4,H): i, f, g, o
    h: Array  # (T+1,B,H): what each step found, and what the last one left
    c: Array


def lstm_forward(x, w, u, b, state):
    """x (B,T,I), w (I,4H), u (H,4H), b (4H,), state (B,2H) -> out (B,T,2H)

    sigmoid(z) = 1/2 + tanh(z/2)/2: with halved weights one tanh serves all four gates.
    """
    (n, t, _), size = x.shape, len(u)
    half = np.repeat(np.array([0.5, 0.5, 1, 0.5], x.dtype), size)
    scale, shift = half.reshape(4, size), (1 - half).reshape(4, size)
    steps, w_half, u_half = x.swapaxes(0, 1).copy(), w * half, u * half
    gates = (steps.reshape(t * n, -1) @ w_half + b * half).reshape(t, n, 4, size)
    h, c = np.empty((2, t + 1, n, size), x.dtype)
    h[0], c[0] = state[:, :size], state[:, size:]
    said, product = np.empty((n, 4 * size), x.dtype), np.empty((n, size), x.dtype)
    for k in range(t):
        a = gates[k]
        a += np.matmul(h[k], u_half, out=said).reshape(a.shape)
        np.tanh(a, out=a)
        a *= scale
        a += shift
        i, f, g, o = (a[:, j] for j in range(4))
        np.multiply(f, c[k], out=c[k + 1])
        c[k + 1] += np.multiply(i, g, out=product)
        np.tanh(c[k + 1], out=product)
        np.multiply(o, product, out=h[k + 1])
    out = np.concatenate([h[1:], c[1:]], axis=-1).swapaxes(0, 1).copy()
    return out, LstmCache(steps, w, u, gates, h, c)


def lstm_backward(dout, cache: LstmCache):
    """dout (B,T,2H) -> dx (B,T,I), dw (I,4H), du (H,4H), db (4H,), dstate (B,2H)

    dz = [g, c_before, i, tanh c] * [dc, dc, dc, dh] * slope of the gate: all but dh and dc is known before the first
    step is undone.
    """
    x, w, u, gates, h, c = cache
    t, n, _, size = gates.shape
    i, f, g, o = (gates[:, :, j] for j in range(4))
    tanh_c = np.tanh(c[1:])
    known = np.stack([g * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - g * g), tanh_c * o * (1 - o)], axis=2)
    through = o * (1 - tanh_c * tanh_c)  # dc / dh
    douts = dout.reshape(n, t, 2, size).transpose(1, 2, 0, 3).copy()
    u_t, dz = np.ascontiguousarray(u.T), known  # what is known becomes dz, step by step
    dh, dc = np.zeros((2, n, size), dout.dtype)
    for k in reversed(range(t)):
        dh += douts[k, 0]
        dc += douts[k, 1]
        dc += np.multiply(dh, through[k], out=through[k])
        dz[k, :, :3] *= dc[:, None]
        dz[k, :, 3] *= dh
        np.matmul(dz[k].reshape(n, -1), u_t, out=dh)
        dc *= f[k]
    rows, drows = x.reshape(t * n, -1), dz.reshape(t * n, -1)
    dx = (drows @ w.T).reshape(x.shape).swapaxes(0, 1).copy()
    du = h[:-1].reshape(t * n, -1).T @ drows
    return dx, rows.T @ drows, du, column_sums(drows), np.concatenate([dh, dc], axis=-1)
