import numpy as np


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def lstm_forward(x, w, u, b, state):
    h, c = np.split(state, 2, axis=-1)
    outs, saved = [], []
    for t in range(x.shape[1]):
        z = x[:, t] @ w + h @ u + b
        i, f, g, o = np.split(z, 4, axis=-1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        before = h, c
        c = f * c + i * g
        bend = np.tanh(c)
        h = o * bend
        saved.append((i, f, g, o, bend, *before))
        outs.append(np.concatenate([h, c], axis=-1))
    return np.stack(outs, axis=1).astype(x.dtype), (x, w, u, saved)


def lstm_backward(dout, cache):
    x, w, u, saved = cache
    dx, dw, du = np.zeros_like(x), np.zeros_like(w), np.zeros_like(u)
    db = np.zeros(w.shape[1], w.dtype)
    dh_next = dc_next = 0
    for t in reversed(range(x.shape[1])):
        i, f, g, o, bend, h, c = saved[t]
        dh, dc = np.split(dout[:, t], 2, axis=-1)
        dh, dc = dh + dh_next, dc + dc_next
        dc = dc + dh * o * (1 - bend**2)
        gates = [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g**2), dh * bend * o * (1 - o)]
        dz = np.concatenate(gates, axis=-1)
        dx[:, t] = dz @ w.T
        dw += x[:, t].T @ dz
        du += h.T @ dz
        db += dz.sum(axis=0)
        dh_next, dc_next = dz @ u.T, dc * f
    return dx, dw, du, db, np.concatenate([dh_next, dc_next], axis=-1)
