"""Exercise 17: find the bug. Attention with a past, tried by its author in the two ways in which a model writes.

A prompt is read at once, with an empty past. Then tokens come one at a time. Both are right, so he was content. Then
somebody's prompt was long, and was read in two pieces to save memory. Run the file. Which pairs of positions does the
mask get wrong, and why did neither of his checks meet them? Mend `attend`; one line is enough. (Lesson 17, section 5.)

Judge it:  python lessons/exercises/17_find_the_bug.py
"""

import numpy as np


def attend(q, k, v):
    """q (NH,T,D), k, v (NH,S,D) -> out (NH,T,D): the queries are those of the last T of S positions"""
    t, s = q.shape[1], k.shape[1]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if t > 1:  # a single query is the last position, and sees all
        visible = np.tri(t, s, dtype=bool)
        scores = np.where(visible, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 8, 4))
    right = np.empty_like(q)
    for i in range(8):  # position by position, straight from the definition
        e = np.exp((q[:, i, None] * k[:, : i + 1]).sum(axis=-1) / 2)
        right[:, i] = (e[..., None] * v[:, : i + 1]).sum(axis=1) / e.sum(axis=-1, keepdims=True)
    for pieces in [8], [5, 1, 1, 1], [1] * 8, [5, 3], [2, 2, 4]:
        at = 0
        for n in pieces:
            end = at + n
            off = np.abs(attend(q[:, at:end], k[:, :end], v[:, :end]) - right[:, at:end]).max(axis=(0, 2))
            if off.max() > 1e-12:
                i = at + int((off > 1e-12).argmax())
                raise SystemExit(f"not yet: read in pieces of {pieces}, position {i} is off by {off.max():.2f}")
            at = end
        print(f"pieces of {pieces}: right")
    print("right: however the text is cut, each position sees what stands before it, and itself")
    raise SystemExit(0)
