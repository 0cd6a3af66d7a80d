"""Exercise 17: a file of weights, and attention with a past (lesson 17, sections 2 and 4).

Write the two functions. `open_by_hand` needs json and NumPy and nothing else. `step` is attention for whatever is new:
one token, or several, behind a past or behind nothing. No loop over positions is needed.

Judge it:  python lessons/exercises/17_weights_and_the_cache.py
"""

import json

import numpy as np


def open_by_hand(raw):
    """The bytes of a safetensors file -> a dict of float32 arrays by name

    8 bytes: the length of the header, low byte first. The header: JSON, for each name {"dtype": ..., "shape": ...,
    "data_offsets": [begin, end]}, counted from the end of the header; the name "__metadata__" is no tensor. A dtype is
    "F32" or "BF16": the upper half of a float32.
    """
    ...  # your turn


def step(q, k, v, past=None):
    """q, k, v (NH,T,D) of the T positions that follow the past -> out (NH,T,D), past

    past: None, or what the last step gave back: (keys, values), each (NH,S,D). The past that comes back holds the new
    keys and values too. Each new position sees all of the past, the new ones before it, and itself. The past that was
    given must stay as it is: somebody else may go on from it.
    """
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def judge_files():
    """Yields what is asked, your answer, the right one."""
    cat = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    dog, in_file = [1.5, -2.0, 0.15625, 3.0, -96.0], bytes.fromhex("c03f 00c0 203e 4040 c0c2")
    header = {
        "__metadata__": {"format": "pt"},
        "dog": {"dtype": "BF16", "shape": [5], "data_offsets": [48, 58]},
        "cat": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
    }
    text = json.dumps(header).encode()
    for spaces in 0, 3:
        length = (len(text) + spaces).to_bytes(8, "little")
        yours = open_by_hand(length + text + b" " * spaces + cat.tobytes() + in_file)
        yield "open_by_hand: which names", yours and sorted(yours), ["cat", "dog"]
        yield "open_by_hand: cat, in float32", yours["cat"], cat
        yield "open_by_hand: dog, from bfloat16", yours["dog"], np.array(dog)
        yield "open_by_hand: types", [str(yours[name].dtype) for name in ("cat", "dog")], ["float32", "float32"]


def by_positions(q, k, v):
    """Causal attention from its definition, one position after the other"""
    out = np.empty_like(q)
    for i in range(q.shape[1]):
        e = np.exp((q[:, i, None] * k[:, : i + 1]).sum(axis=-1) / q.shape[-1] ** 0.5)
        out[:, i] = (e[..., None] * v[:, : i + 1]).sum(axis=1) / e.sum(axis=-1, keepdims=True)
    return out


def judge_steps():
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(3, 2, 9, 4)) * 2
    right = by_positions(q, k, v)
    for pieces in [9], [1] * 9, [6, 1, 1, 1], [4, 5], [2, 3, 3, 1]:
        past, at = None, 0
        for n in pieces:
            new, before = slice(at, at + n), past and [part.copy() for part in past]
            given, answer = past, step(q[:, new], k[:, new], v[:, new], past)
            what = f"step: positions {at} to {at + n - 1}, in pieces of {pieces}"
            yield what, answer and answer[0], right[:, new]
            past, at = answer[1], at + n
            yield f"{what}: keys of the past", past[0], k[:, :at]
            yield f"{what}: values of the past", past[1], v[:, :at]
            if given:
                yield f"{what}: the past that was given", given, before


if __name__ == "__main__":
    done = []
    for judge in judge_files, judge_steps:
        for what, yours, right in judge():
            if yours is None:
                raise SystemExit(f"{what}: returns nothing yet")
            if np.asarray(right).dtype.kind == "U":
                fits = yours == right
            else:
                fits = np.shape(yours) == np.shape(right) and np.allclose(yours, right, rtol=1e-12, atol=1e-12)
            if not fits:
                raise SystemExit(f"{what}:\nyours is\n{yours}\nright is\n{right}")
            done.append(what)
        print(f"{judge.__name__.removeprefix('judge_')}: right ({len(done)} questions so far)")
    print("all of it is right")
    raise SystemExit(0)
