"""Exercise 22: find the bug (lesson 22).

Training with gradients in float16, loss scaling, master weights in float32, and clipping by the global norm (lesson
09). Nothing overflows, the gradients are right, and the loss falls; but after 300 updates it has hardly moved. Without
clipping the same code learns well, and the gradients of this model are never longer than LIMIT. Move one line.

    python lessons/exercises/22_find_the_bug.py

On paper: how much too short were the updates at first? Does the factor stay the same during the training?
"""

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
        dw = clip(dw, limit)
        dw = dw / SCALE
        master = master - rate * dw
    return losses


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


RECORDED = {20.0: 0.0085, 0.1: 1.076}  # limit: the loss after 300 updates where the line stands in the right place


def main() -> int:
    """Judge the training; the exit status."""
    right = True
    for limit, recorded in RECORDED.items():
        losses = train(limit)
        print(f"limit {limit:4}: loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end; recorded {recorded:.4f}")
        right = right and np.isclose(losses[-1], recorded, rtol=0.04)
    print("mended: it learns" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
