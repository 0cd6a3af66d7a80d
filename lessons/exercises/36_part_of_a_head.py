"""Exercise 36: turn a part of a head (lesson 36, section 3), as Pythia does with the first quarter.

`forward` turns the first 2 R of D columns of each query, and leaves the others as they are; `backward` is its gradient.
With "halves" pair i is columns i and i + R, with "neighbours" 2 i and 2 i + 1. Replace what is marked "your turn".

Judge it:  python lessons/exercises/36_part_of_a_head.py
"""

import numpy as np


def forward(x, angles, pairing):
    """x (T,D), angles (T,R) with 2 R <= D -> out (T,D)"""
    return None  # your turn


def backward(dout, angles, pairing):
    """dout (T,D) -> dx (T,D)"""
    return None  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def expected(x, angles, pairing):
    """Each pair as a complex number that is multiplied by cos + i sin."""
    out = np.array(x)
    r = angles.shape[1]
    for place, pair in np.ndindex(*angles.shape):
        a, b = (pair, pair + r) if pairing == "halves" else (2 * pair, 2 * pair + 1)
        z = complex(x[place, a], x[place, b]) * np.exp(1j * angles[place, pair])
        out[place, a], out[place, b] = z.real, z.imag
    return out


def verdict(pairing):
    """What is missing or wrong, in one sentence; "" where all is right."""
    rng = np.random.default_rng(0)
    x, angles, dout = rng.normal(size=(5, 9)), rng.uniform(0, 6, size=(5, 3)), rng.normal(size=(5, 9))
    out, dx = forward(x, angles, pairing), backward(dout, angles, pairing)
    if out is None or dx is None:
        return "something returns nothing yet"
    if np.shape(out) != x.shape or np.abs(out - expected(x, angles, pairing)).max() > 1e-9:
        return "forward is wrong: turn one pair by hand, and look at the columns behind the turned ones"
    true = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-5
        true[place] = ((expected(x + step, angles, pairing) - expected(x - step, angles, pairing)) * dout).sum() / 2e-5
    if np.shape(dx) != x.shape or np.abs(dx - true).max() > 1e-6:
        wrong = np.flatnonzero(np.abs(np.broadcast_to(dx, true.shape) - true).max(axis=0) > 1e-6)
        return f"backward is wrong in the columns {', '.join(map(str, wrong))}"
    return ""


def main() -> int:
    """Judge both functions; the exit status."""
    problems = {pairing: verdict(pairing) for pairing in ("halves", "neighbours")}
    for pairing, problem in problems.items():
        print(f"{pairing:11} {problem or 'right, forward and backward'}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
