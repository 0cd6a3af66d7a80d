"""The LSTM with time as the first axis, so that the numbers of one step lie together in memory.

What needs no earlier step is computed for all steps at once.
"""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import products_of
from minigpt.ops.fast.pieces import column_sums, products


class LstmCache(NamedTuple):
    x: Array  # (T,B,I)
    w: Array
    u: Array
    gates: Array  # (T,B,4,H): i, f, g, o
    h: Array  # (T+1,B,H): h[t] is what step t starts from, and h[T] what the last step gives
    c: Array  # (T+1,B,H)


def lstm_forward(x, w, u, b, state):
    """x (B,T,I), w (I,4H), u (H,4H), b (4H,), state (B,2H) -> out (B,T,2H)

    sigmoid(z) = 1/2 + tanh(z/2)/2. So with the weights of i, f and o halved, one tanh serves all four gates.
    """
    batch, time, _ = x.shape
    size = len(u)
    scale = np.array([[0.5], [0.5], [1], [0.5]], x.dtype)  # (4,1): of i, f, g, o
    shift = 1 - scale
    half = np.repeat(scale, size)
    w_half = w * half
    u_half = u * half
    b_half = b * half
    x = x.swapaxes(0, 1).copy()
    rows = x.reshape(time * batch, x.shape[-1])
    with products_of(products(len(rows), w)):
        gates = rows @ w_half
    gates += b_half  # until step t overwrites gates[t] with i, f, g, o: what tanh takes, without h u
    gates = gates.reshape(time, batch, 4, size)
    h = np.empty((time + 1, batch, size), x.dtype)
    c = np.empty_like(h)
    h[0] = state[:, :size]
    c[0] = state[:, size:]
    z_h = np.empty((batch, 4, size), x.dtype)
    z_h_rows = z_h.reshape(batch, 4 * size)
    product = np.empty((batch, size), x.dtype)
    with products_of(products(batch, u)):
        for t in range(time):
            a = gates[t]
            np.matmul(h[t], u_half, out=z_h_rows)
            a += z_h
            np.tanh(a, out=a)
            a *= scale
            a += shift
            i, f, g, o = a.swapaxes(0, 1)
            # c = f * c_before + i * g
            c_after = c[t + 1]
            np.multiply(f, c[t], out=c_after)
            np.multiply(i, g, out=product)
            c_after += product
            # h = o * tanh(c)
            np.tanh(c_after, out=product)
            np.multiply(o, product, out=h[t + 1])
    out = np.concatenate([h[1:], c[1:]], axis=-1)
    out = out.swapaxes(0, 1).copy()
    return out, LstmCache(x, w, u, gates, h, c)


def lstm_backward(dout, cache: LstmCache):
    """dout (B,T,2H) -> dx (B,T,I), dw (I,4H), du (H,4H), db (4H,), dstate (B,2H)

    The gradient of z is dc, or dh for the gate o, times a factor that the forward pass alone decides:
    dz_i = dc g i (1 - i),   dz_f = dc c_before f (1 - f),   dz_g = dc i (1 - g^2),   dz_o = dh tanh(c) o (1 - o).
    All factors are computed at once, before the first step is undone.
    """
    x, w, u, gates, h, c = cache
    time, batch, _, size = gates.shape
    dz, dc_dh = _factors(gates, c)
    u_t = np.ascontiguousarray(u.T)
    douts = dout.reshape(batch, time, 2, size)
    douts = douts.transpose(2, 1, 0, 3)
    dh_out, dc_out = np.ascontiguousarray(douts)  # (T,B,H) each: the two halves of dout
    dh = np.zeros((batch, size), dout.dtype)
    dc = np.zeros_like(dh)
    with products_of(products(batch, u)):
        for t in reversed(range(time)):
            dh += dh_out[t]
            dc += dc_out[t]
            # h = o * tanh(c)
            through_h = dc_dh[t]
            through_h *= dh
            dc += through_h
            # i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of z: the factors become dz
            dz_t = dz[t]
            dz_t[:, :3] *= dc[:, None]
            dz_t[:, 3] *= dh
            # z = z_x + h_before @ u
            np.matmul(dz_t.reshape(batch, 4 * size), u_t, out=dh)
            # c = f * c_before + i * g
            f = gates[t, :, 1]
            dc *= f
    # z_x = x @ w + b, for all steps at once
    h_before = h[:-1]
    rows = x.reshape(time * batch, x.shape[-1])
    h_rows = h_before.reshape(time * batch, size)
    drows = dz.reshape(time * batch, 4 * size)
    with products_of(products(len(rows), w)):
        dx = drows @ w.T
        dw = rows.T @ drows
        du = h_rows.T @ drows
        db = column_sums(drows)
    dx = dx.reshape(x.shape).swapaxes(0, 1).copy()
    dstate = np.concatenate([dh, dc], axis=-1)
    return dx, dw, du, db, dstate


def _factors(gates, c):
    """gates (T,B,4,H), c (T+1,B,H) -> (T,B,4,H), the factors of dc, dc, dc and dh in dz; (T,B,H), those of dh in dc"""
    i, f, g, o = np.moveaxis(gates, 2, 0)
    c_before = c[:-1]
    tanh_c = np.tanh(c[1:])
    of_i = g * i * (1 - i)
    of_f = c_before * f * (1 - f)
    of_g = i * (1 - g * g)
    of_o = tanh_c * o * (1 - o)
    dc_dh = o * (1 - tanh_c * tanh_c)
    return np.stack([of_i, of_f, of_g, of_o], axis=2), dc_dh
