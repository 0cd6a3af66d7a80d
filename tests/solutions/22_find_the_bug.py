import numpy as np

SCALE = 1024  # of the loss
LIMIT = 20.0  # of the norm of all gradients


def gradients(x, y, w, scale):
    """The gradient of scale times the loss, in float16, and the loss."""
    error = x @ w - y
    dout = (scale * 2 * error / len(x)).astype(np.float16)  # the backward pass begins with the scaled loss
    dw = (x.T @ dout.astype(np.float32)).astype(np.float16)
    return dw, float((error * error).mean())


def clip(dw, limit):
    """A gradient that is longer than the limit is shortened to it."""
    norm = float(np.sqrt((dw.astype(np.float64) ** 2).sum()))
    return dw * np.float32(limit / norm) if norm > limit else dw


def train(limit=LIMIT, steps=300, rate=0.05):
    """The loss before each update."""
    rng = np.random.default_rng(22)
    x = rng.standard_normal((64, 16), dtype=np.float32)
    y = x @ rng.standard_normal((16, 1), dtype=np.float32) + 0.1 * rng.standard_normal((64, 1), dtype=np.float32)
    master = np.zeros((16, 1), np.float32)
    losses = []
    for _ in range(steps):
        w = master.astype(np.float16).astype(np.float32)  # what the forward and the backward pass use
        dw, loss = gradients(x, y, w, SCALE)
        losses.append(loss)
        dw = dw.astype(np.float32)
        dw = dw / SCALE
        dw = clip(dw, limit)
        master = master - rate * dw
    return losses
