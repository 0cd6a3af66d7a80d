"""A layer of long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class LstmCache(NamedTuple):
    x: Array  # (B,T,I)
    w: Array
    u: Array
    state: Array  # (B,2H): [h, c] before the first step
    gates: Array  # (B,T,4H): i, f, g, o
    out: Array  # (B,T,2H): [h, c]


def lstm_forward(x, w, u, b, state):
    """x (B,T,I), w (I,4H), u (H,4H), b (4H,), state (B,2H) -> out (B,T,2H)

    With z = x[t] w + h[t-1] u + b, which has four parts of width H, one for each gate, in the order i, f, g, o:
    i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),   g = tanh(z_g),
    c[t] = f c[t-1] + i g,   h[t] = o tanh(c[t]),   out[t] = [h[t], c[t]].

    state: [h, c] before the first step. Zeros start a sequence; out[:, -1] of an earlier call continues that one.
    """
    xp = array_module(x, w, u, b, state)
    *batch_time, inputs = x.shape
    rows = x.reshape(-1, inputs)
    z_x = rows @ w + b  # the part of z that needs no earlier step
    z_x = z_x.reshape(*batch_time, len(b))
    gates = xp.empty_like(z_x)
    out = xp.empty_like(z_x, shape=(*batch_time, state.shape[-1]))
    h, c = _halves(state, xp)
    for t in range(x.shape[1]):
        z_h = h @ u
        z = z_x[:, t] + z_h
        z_i, z_f, z_g, z_o = _quarters(z, xp)
        i = _sigmoid(z_i, xp)
        f = _sigmoid(z_f, xp)
        g = xp.tanh(z_g)
        o = _sigmoid(z_o, xp)
        c = f * c + i * g
        tanh_c = xp.tanh(c)
        h = o * tanh_c
        gates[:, t] = _join(xp, i, f, g, o)
        out[:, t] = _join(xp, h, c)
    return out, LstmCache(x, w, u, state, gates, out)


def lstm_backward(dout, cache: LstmCache):
    """dout (B,T,2H) -> dx (B,T,I), dw (I,4H), du (H,4H), db (4H,), dstate (B,2H)

    Backpropagation through time, the last step first: h[t] and c[t] get a gradient from out[t], and one from step
    t + 1, which reads them. The weights are used by every step, so their gradients are sums over all steps.
    """
    x, w, u, state, gates, out = cache
    xp = array_module(x)
    state_before = xp.concatenate([state[:, None], out[:, :-1]], axis=1)  # [h, c] as each step found them
    h_before, c_before = _halves(state_before, xp)
    _, c = _halves(out, xp)
    u_t = xp.ascontiguousarray(u.T)  # a copy, which is multiplied faster
    dz = xp.empty_like(gates)
    dstate = xp.zeros_like(state)
    for t in reversed(range(x.shape[1])):
        i, f, g, o = _quarters(gates[:, t], xp)
        # out[:, t] = [h, c], which are also the state that step t + 1 starts from
        dstate = dout[:, t] + dstate
        dh, dc = _halves(dstate, xp)
        # h = o * tanh_c
        tanh_c = xp.tanh(c[:, t])
        do = dh * tanh_c
        dtanh_c = dh * o
        # tanh_c = tanh(c)
        dc = dc + _tanh_backward(dtanh_c, tanh_c)
        # c = f * c_before + i * g
        df = dc * c_before[:, t]
        di = dc * g
        dg = dc * i
        dc_before = dc * f
        # o = sigmoid(z_o)
        dz_o = _sigmoid_backward(do, o)
        # g = tanh(z_g)
        dz_g = _tanh_backward(dg, g)
        # f = sigmoid(z_f)
        dz_f = _sigmoid_backward(df, f)
        # i = sigmoid(z_i)
        dz_i = _sigmoid_backward(di, i)
        # z_i, z_f, z_g, z_o = quarters of z
        dz[:, t] = _join(xp, dz_i, dz_f, dz_g, dz_o)
        # z = z_x + h_before @ u
        dh_before = dz[:, t] @ u_t
        # h_before, c_before = halves of the state
        dstate = _join(xp, dh_before, dc_before)
    # z = rows @ w + h_before @ u + b, for all steps at once
    rows = x.reshape(-1, x.shape[-1])
    h_rows = h_before.reshape(-1, len(u))
    drows = dz.reshape(-1, dz.shape[-1])
    dx = drows @ w.T
    dx = dx.reshape(x.shape)
    dw = rows.T @ drows
    du = h_rows.T @ drows
    db = drows.sum(axis=0)
    return dx, dw, du, db, dstate


def _sigmoid(z, xp):
    """1 / (1 + exp(-z)), in a form that cannot overflow."""
    return (1 + xp.tanh(z / 2)) / 2


def _sigmoid_backward(ds, s):
    """The gradient of z, where s = sigmoid(z): the slope of the sigmoid is s (1 - s)."""
    return ds * s * (1 - s)


def _tanh_backward(dy, y):
    """The gradient of z, where y = tanh(z): the slope of tanh is 1 - y^2."""
    return dy * (1 - y * y)


def _halves(array, xp):
    return xp.split(array, 2, axis=-1)


def _quarters(array, xp):
    return xp.split(array, 4, axis=-1)


def _join(xp, *parts):
    return xp.concatenate(parts, axis=-1)
