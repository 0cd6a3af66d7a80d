"""Exercise 37: LoRA beside a layer with a bias (lesson 37, section 8).

Write the forward pass of a linear layer with its two small matrices, the backward pass (no gradient for w and bias:
they stay as they are), and the one matrix that gives the same output. Replace what is marked "your turn".

Judge it:  python lessons/exercises/37_lora.py
"""

import numpy as np


def forward(x, w, bias, a, b, scale):
    """x (N,I), w (I,O), bias (O,), a (I,R), b (R,O) -> out (N,O) = x w + bias + scale x a b"""
    return None  # your turn


def backward(dout, x, w, a, b, scale):
    """dout (N,O) -> dx (N,I), da (I,R), db (R,O)"""
    return None  # your turn


def merged(w, a, b, scale):
    """-> (I,O): the weight of a plain layer that computes the same"""
    return None  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def example(seed):
    """Arguments of sizes that are all different."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (4, 6), "w": (6, 5), "bias": (5,), "a": (6, 2), "b": (2, 5)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()} | {"scale": 1.5}


def by_differences(given, dout, name):
    """The gradient of (out dout) summed, by central differences."""
    found = np.zeros_like(given[name])
    for place in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = given[name].copy()
            moved[place] += step
            ends.append((forward(**given | {name: moved}) * dout).sum())
        found[place] = (ends[0] - ends[1]) / 2e-5
    return found


def verdict():
    """What is missing or wrong, in one sentence; "" where all is right."""
    given = example(0)
    out = forward(**given)
    if out is None:
        return "forward returns nothing yet"
    expected = given["x"] @ (given["w"] + 1.5 * (given["a"] @ given["b"])) + given["bias"]
    if np.shape(out) != expected.shape or np.abs(out - expected).max() > 1e-9:
        return "forward: the output is not x w + bias + scale x a b"
    dout = np.random.default_rng(1).normal(size=expected.shape)
    gradients = backward(dout, *(given[name] for name in ("x", "w", "a", "b", "scale")))
    if gradients is None:
        return "backward returns nothing yet"
    for name, gradient in zip(("x", "a", "b"), gradients, strict=True):
        true = by_differences(given, dout, name)
        if np.shape(gradient) != true.shape:
            return f"d{name} has the shape {np.shape(gradient)}, and {name} has {true.shape}"
        if np.abs(gradient - true).max() > 1e-6:
            return f"d{name} is wrong: the largest difference is {np.abs(gradient - true).max():.2g}"
    one = merged(*(given[name] for name in ("w", "a", "b", "scale")))
    if one is None:
        return "merged returns nothing yet"
    if np.abs(given["x"] @ one + given["bias"] - expected).max() > 1e-9:
        return "merged: a plain layer with this weight computes something else"
    return ""


def main() -> int:
    """Judge the three functions; the exit status."""
    problem = verdict()
    print(problem or "LoRA forward, backward and merged: right")
    return 1 if problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
