"""Exercise 22: stochastic rounding (lesson 22).

A weight of 1 in bfloat16 never changes if its updates are 0.001, because every result is rounded back. Round at random
instead: to the next bfloat16 number above or below (towards 0), with probabilities such that the average is exact. If x
lies at three quarters of the way from `low` to `high`, it becomes `high` in three of four cases.

bfloat16 is the upper half of a float32. So the number below is what is left when the lower 16 bits are cut off; and the
lower 16 bits, as a number from 0 to 65,535, say how far x lies on the way to the next one. Replace what is marked "your
turn". Run this file: it compares averages with the exact numbers, and trains with your rounding:

    python lessons/exercises/22_stochastic_rounding.py
"""

import numpy as np


def stochastic(x, u):
    """x float32 -> float32 numbers whose lower 16 bits are 0

    u, as large as x: random numbers, uniform from 0 (included) to 1 (excluded).
    """
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    result = None  # your turn: add something random to the bits, then set the lower 16 bits to 0
    if result is None:
        return None
    return result.astype(np.uint32).view(np.float32)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def learn(steps=2000, rate=0.004):
    """The last loss of section 4's training, with weights that are rounded after each update."""
    chance = np.random.default_rng(2)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((128, 64), dtype=np.float32)
    y = x @ rng.standard_normal((64, 1), dtype=np.float32)
    w = np.zeros((64, 1), np.float32)
    for _ in range(steps):
        error = x @ w - y
        w = stochastic(w - np.float32(rate) * 2 * x.T @ error / len(x), chance.random(w.shape))
    return float((error * error).mean())


def main() -> int:
    """Judge the rounding; the exit status."""
    if stochastic(np.ones(1, np.float32), np.zeros(1)) is None:
        print("stochastic returns nothing yet: your turn")
        return 1
    happy = True
    for number in (1.0, 0.999, -0.999, 1.001, 3.14159, 1e-20):
        found = stochastic(np.full(200_000, number, np.float32), np.random.default_rng(1).random(200_000))
        values = np.unique(found)
        short = not (values.view(np.uint32) & 0xFFFF).any()
        step = abs(number) / 128
        near = abs(float(found.astype(float).mean()) - float(np.float32(number))) < 0.005 * step
        right = short and near and len(values) <= 2
        happy = happy and right
        print(
            f"{number:9.6g}: values {values}, average {found.astype(float).mean():.6g}:", "right" if right else "wrong"
        )
    loss = learn()
    print(f"loss after 2,000 updates: {loss:.4f}; rounded to the nearest it is 4.139, in float32 0.009")
    happy = happy and loss < 0.1
    print("solved: rounded weights learn" if happy else "not solved yet")
    return 0 if happy else 1


if __name__ == "__main__":
    raise SystemExit(main())
