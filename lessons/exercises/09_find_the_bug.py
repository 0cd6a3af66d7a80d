"""Exercise 09: find the bug. An AdamW that is right for one tensor, to the last digit, and wrong for a model.

Its author tested it with one matrix: a hundred updates, equal to the library's. In a model, every tensor goes another
way than it should, though all of them train. Run this file, read the table, and mend `step`. (Lesson 09, sections 2
and 3.)

Judge it:  python lessons/exercises/09_find_the_bug.py
"""

import numpy as np

B1, B2, EPS = 0.9, 0.999, 1e-8


def step(parameters, gradients, state, lr, decay):
    """One update of a list of arrays -> the new list, and the new state

    state: {"m": a list of arrays, "v": a list of arrays, "t": how many updates there were}; at first all are 0.
    """
    new, m, v, t = [], [], [], state["t"]
    for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        t += 1
        m.append(B1 * state["m"][i] + (1 - B1) * g)
        v.append(B2 * state["v"][i] + (1 - B2) * g * g)
        m_hat = m[i] / (1 - B1**t)
        v_hat = v[i] / (1 - B2**t)
        new.append(p - lr * (m_hat / (np.sqrt(v_hat) + EPS) + decay * p))
    return new, {"m": m, "v": v, "t": t}


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def errors_of(count: int):
    """Yields update by update the relative errors of so many tensors, against the library's AdamW."""
    from minigpt.nn import Parameter, optim

    rng = np.random.default_rng(0)
    start = [rng.normal(size=(3, 5)) for _ in range(count)]
    mine = [array.copy() for array in start]
    state = {"m": [np.zeros((3, 5))] * count, "v": [np.zeros((3, 5))] * count, "t": 0}
    parameters = [Parameter(array.copy()) for array in start]
    library = optim.AdamW([(str(i), p) for i, p in enumerate(parameters)], weight_decay=0.1)
    for _ in range(100):
        gradients = [rng.normal(size=(3, 5)) for _ in range(count)]
        mine, state = step(mine, gradients, state, 0.01, 0.1)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        library.step(0.01)
        yield [
            np.linalg.norm(a - b.data) / np.linalg.norm(b.data - c)
            for a, b, c in zip(mine, parameters, start, strict=True)
        ]


if __name__ == "__main__":
    wrong = set()
    for count in (1, 4):
        print(f"tensors: {count}\n   update   relative error of the distance gone, tensor by tensor")
        for t, errors in enumerate(errors_of(count), start=1):
            if t in (1, 10, 100):
                print(f"   {t:6}   " + "  ".join(f"{error:.0e}" for error in errors))
            wrong |= {i for i, error in enumerate(errors) if not error < 1e-9}
    if wrong:
        raise SystemExit(f"not yet: with several tensors, tensors {sorted(wrong)} go other ways than they should")
    print("right: with one tensor and with four")
    raise SystemExit(0)
