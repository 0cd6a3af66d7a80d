"""Wrong LSTMs: what a step hears from the step after it, and the slopes of its gates."""

import numpy as np

from minigpt.ops import reference


class Lstm:
    lstm_forward = staticmethod(reference.lstm_forward)


def backward(dout, cache, dh_carried=1.0, dc_carried=1.0, g_slope=True, in_place=False):
    """Backward through time, with what may go wrong as switches."""
    x, w, u, state, gates, out = cache
    n = len(u)
    before = np.concatenate([state[:, None], out[:, :-1]], axis=1)
    dz, later = np.empty_like(gates), np.zeros_like(state)
    for t in reversed(range(x.shape[1])):
        i, f, g, o = np.split(gates[:, t], 4, axis=-1)
        tanh_c = np.tanh(out[:, t, n:])
        here = dout[:, t] if in_place else dout[:, t].copy()
        here += later
        dh, dc = here[:, :n], here[:, n:] + here[:, :n] * o * (1 - tanh_c**2)
        di, df, dg, do = dc * g, dc * before[:, t, n:], dc * i, dh * tanh_c
        dg = dg * (1 - g * g) if g_slope else dg
        dz[:, t] = np.concatenate([di * i * (1 - i), df * f * (1 - f), dg, do * o * (1 - o)], axis=-1)
        later = np.concatenate([dh_carried * dz[:, t] @ u.T, dc_carried * dc * f], axis=-1)
    rows, drows, h_before = x.reshape(-1, x.shape[-1]), dz.reshape(-1, 4 * n), before[..., :n].reshape(-1, n)
    return (drows @ w.T).reshape(x.shape), rows.T @ drows, h_before.T @ drows, drows.sum(axis=0), later


class NothingHeardFromTheNextCell(Lstm):
    """dc_next is dropped: a cell hears only of its own step, and of later ones through h. The last step is right."""

    expects = "wrong only at 0 to 2 of axis 1 (which has 4)"

    @staticmethod
    def lstm_backward(dout, cache):
        return backward(dout, cache, dc_carried=0.0)


class NothingHeardThroughTheWeights(Lstm):
    """dh_next is dropped: u is learnt, but nothing is sent back through it."""

    expects = "wrong only at 0 to 2 of axis 1 (which has 4)"

    @staticmethod
    def lstm_backward(dout, cache):
        return backward(dout, cache, dh_carried=0.0)


class CandidateWithoutItsSlope(Lstm):
    """(1 - g^2) is missing: the tanh of the candidate is taken for a straight line."""

    expects = "inner function"

    @staticmethod
    def lstm_backward(dout, cache):
        return backward(dout, cache, g_slope=False)


class AddsToDout(Lstm):
    """What the next step sends back is added with +=: dout[:, t] is a view of the caller's array."""

    expects = "writes into dout"

    @staticmethod
    def lstm_backward(dout, cache):
        return backward(dout, cache, in_place=True)
