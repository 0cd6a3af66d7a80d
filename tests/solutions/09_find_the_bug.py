import numpy as np

B1, B2, EPS = 0.9, 0.999, 1e-8


def step(parameters, gradients, state, lr, decay):
    """One update of a list of arrays -> the new list, and the new state

    state: {"m": a list of arrays, "v": a list of arrays, "t": how many updates there were}; at first all are 0.
    """
    new, m, v, t = [], [], [], state["t"] + 1
    for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        m.append(B1 * state["m"][i] + (1 - B1) * g)
        v.append(B2 * state["v"][i] + (1 - B2) * g * g)
        m_hat = m[i] / (1 - B1**t)
        v_hat = v[i] / (1 - B2**t)
        new.append(p - lr * (m_hat / (np.sqrt(v_hat) + EPS) + decay * p))
    return new, {"m": m, "v": v, "t": t}
