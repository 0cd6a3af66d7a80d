"""A layer of long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class LstmCache(NamedTuple):
    x: Array
    w: Array
    u: Array
    state: Array
    gates: Array
    out: Array


def lstm_forward(x, w, u, b, state):
    """x (B,T,I), w (I,4H), u (H,4H), b (4H,), state (B,2H) -> out (B,T,2H)

    out[t] = [h, c]: the two that step t hands to step t + 1. With z = x[t] w + h[t-1] u + b, four parts of H each:
    i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),   g = tanh(z_g),   in the order i, f, g, o;
    c[t] = f c[t-1] + i g,   h[t] = o tanh(c[t]).

    state: [h, c] before the first step: zeros, or the out[:, -1] of what was read before, to go on from there.
    """
    xp = array_module(x, w, u, b, state)
    z = (x.reshape(-1, x.shape[-1]) @ w + b).reshape(*x.shape[:-1], -1)  # what x says, for all steps at once
    gates, out = xp.empty_like(z), xp.empty_like(z, shape=(*x.shape[:-1], state.shape[-1]))
    h, c = xp.split(state, 2, axis=-1)
    for t in range(x.shape[1]):
        i, f, g, o = xp.split(z[:, t] + h @ u, 4, axis=-1)
        i, f, g, o = _sigmoid(i, xp), _sigmoid(f, xp), xp.tanh(g), _sigmoid(o, xp)
        c = f * c + i * g
        h = o * xp.tanh(c)
        gates[:, t], out[:, t] = xp.concatenate([i, f, g, o], axis=-1), xp.concatenate([h, c], axis=-1)
    return out, LstmCache(x, w, u, state, gates, out)


def lstm_backward(dout, cache: LstmCache):
    """dout (B,T,2H) -> dx (B,T,I), dw (I,4H), du (H,4H), db (4H,), dstate (B,2H)

    Backward through time, the last step first: h and c hear from the out of their own step, and from the step after
    it, which read them. The weights hear from every step.
    """
    x, w, u, state, gates, out = cache
    xp = array_module(x)
    before = xp.concatenate([state[:, None], out[:, :-1]], axis=1)  # [h, c] as each step found them
    dz, later, u_t = xp.empty_like(gates), xp.zeros_like(state), xp.ascontiguousarray(u.T)  # quicker, as a copy
    for t in reversed(range(x.shape[1])):
        i, f, g, o = xp.split(gates[:, t], 4, axis=-1)
        c_before, tanh_c = (xp.split(both[:, t], 2, axis=-1)[1] for both in (before, out))
        # out[:, t] = [h, c], which the next step reads too
        dh, dc = xp.split(dout[:, t] + later, 2, axis=-1)
        # h = o * tanh(c)
        tanh_c = xp.tanh(tanh_c)
        do = dh * tanh_c
        dc = dc + dh * o * (1 - tanh_c * tanh_c)
        # c = f * c + i * g
        di, df, dg = dc * g, dc * c_before, dc * i
        # i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of z
        dz[:, t] = xp.concatenate([di * i * (1 - i), df * f * (1 - f), dg * (1 - g * g), do * o * (1 - o)], axis=-1)
        # z = x w + h u + b: h is that of the step before, and so is the c in f * c
        later = xp.concatenate([dz[:, t] @ u_t, dc * f], axis=-1)
    # the same line, for all steps at once
    rows, drows = x.reshape(-1, x.shape[-1]), dz.reshape(-1, dz.shape[-1])
    h_before = xp.split(before, 2, axis=-1)[0].reshape(-1, len(u))
    dx = (drows @ w.T).reshape(x.shape)
    return dx, rows.T @ drows, h_before.T @ drows, drows.sum(axis=0), later


def _sigmoid(z, xp):
    """1 / (1 + exp(-z)), in a form that cannot overflow."""
    return (1 + xp.tanh(z / 2)) / 2
