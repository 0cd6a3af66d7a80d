"""Exercise 09: find the bug. An AdamW that is right for one tensor, to the last digit, and wrong for a model.

Its author tested it with one matrix: a hundred updates, equal to the library's. In a model, every tensor goes another
way than it should, though all of them train. Run this file, read the table, and mend `step`. (Lesson 09, sections 2
and 3.)

Judge it:  python lessons/exercises/09_find_the_bug.py
"""

import numpy as np

B1, B2, EPS = 0.9, 0.999, 1e-8


class AdamW:
    """parameters: a list of arrays, which `step` changes in place."""

    def __init__(self, parameters, decay):
        self.parameters = parameters
        self.decay = decay
        self.m = [np.zeros_like(p) for p in parameters]
        self.v = [np.zeros_like(p) for p in parameters]
        self.t = 0

    def step(self, gradients, lr):
        """One update. gradients: a list of arrays, in the order of the parameters."""
        for i, (p, g) in enumerate(zip(self.parameters, gradients, strict=True)):
            self.t += 1
            self.m[i] = B1 * self.m[i] + (1 - B1) * g
            self.v[i] = B2 * self.v[i] + (1 - B2) * g * g
            m_hat = self.m[i] / (1 - B1**self.t)
            v_hat = self.v[i] / (1 - B2**self.t)
            p -= lr * (m_hat / (np.sqrt(v_hat) + EPS) + self.decay * p)


if __name__ == "__main__":
    from minigpt.nn import Parameter, optim

    wrong = []
    for count in (1, 4):
        rng = np.random.default_rng(0)
        start = [rng.normal(size=(3, 5)) for _ in range(count)]
        mine = [array.copy() for array in start]
        ours = AdamW(mine, decay=0.1)
        parameters = [Parameter(array.copy()) for array in start]
        library = optim.AdamW([(str(i), p) for i, p in enumerate(parameters)], weight_decay=0.1)
        print(f"tensors: {count}\n   update   relative error of the distance gone, tensor by tensor")
        for t in range(1, 101):
            gradients = [rng.normal(size=(3, 5)) for _ in range(count)]
            ours.step(gradients, 0.01)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            library.step(0.01)
            if t in (1, 10, 100):
                errors = []
                for a, b, c in zip(mine, parameters, start, strict=True):
                    errors.append(np.linalg.norm(a - b.data) / np.linalg.norm(b.data - c))
                print(f"   {t:6}   " + "  ".join(f"{error:.0e}" for error in errors))
                wrong += [i for i, error in enumerate(errors) if error > 1e-9]
    if wrong:
        raise SystemExit(f"not yet: with several tensors, tensors {sorted(set(wrong))} go other ways than they should")
    print("right: with one tensor and with four")
