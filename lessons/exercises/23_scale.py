"""Exercise 23: your rows, one half of the ring, what a step costs, and a law (lesson 23, sections 1 to 5).

Five functions of one to six lines.

Judge it:  python lessons/exercises/23_scale.py
"""

import numpy as np


def my_rows(batch, rank, size):
    """The slice of a batch's rows that belongs to worker `rank` of `size`: one after the other, nearly equally many"""
    ...  # your turn


def reduce_scatter(vectors):
    """N vectors (N,) -> (N, N): what each of the N workers has after the first N-1 steps of the ring

    One chunk is one number here. In step s worker r sends number r - s, counted around the ring, to worker r + 1, who
    adds it; all send at the same time. The vectors themselves stay as they are.
    """
    ...  # your turn


def seconds_of_a_step(workers, compute, update, exchange):
    """As in section 4, but for any number of workers: exchange is what adding up takes with two.

    Only what is sent counts, at 2 (N-1)/N gradients for each worker; a single worker sends nothing.
    """
    ...  # your turn


def power_law(N, loss, floor=0.0):
    """Arrays (S,) of sizes and losses -> (alpha, a) of loss = floor + a N^(-alpha), by least squares on the logs"""
    ...  # your turn


def larger_by(alpha, factor):
    """How many times as large a model must be for its loss (above the floor) to be divided by `factor`"""
    ...  # your turn


def judge():
    """Yields what is asked, your answer, the right one."""
    for batch, size in ((8, 2), (7, 3), (2, 4)):
        rows = [my_rows(batch, rank, size) for rank in range(size)]
        if None not in rows:
            rows = [list(range(batch)[part]) for part in rows]
            yield f"my_rows({batch}, rank, {size}), put together", sum(rows, []), list(range(batch))
            yield "the largest part less the smallest", max(map(len, rows)) - min(map(len, rows)) <= 1, True
        else:
            yield "my_rows", None, 0
    vectors = [np.full(3, 10**r) for r in range(3)]
    right = np.array([[1, 111, 101], [11, 10, 111], [111, 110, 100]])
    yield "reduce_scatter", reduce_scatter(vectors), right
    yield "the vectors it was given", np.array(vectors), np.array([[1] * 3, [10] * 3, [100] * 3])
    yield "seconds_of_a_step, one worker", seconds_of_a_step(1, 8.0, 0.5, 0.25), 8.5
    yield "seconds_of_a_step, two workers", seconds_of_a_step(2, 8.0, 0.5, 0.25), 4.75
    yield "seconds_of_a_step, eight workers", seconds_of_a_step(8, 8.0, 0.5, 0.25), 1.9375
    N = np.array([1e3, 1e4, 1e5, 1e6])
    yield "power_law", power_law(N, 5 * N**-0.1), (0.1, 5.0)
    yield "power_law with a floor", power_law(N, 1.5 + 40 * N**-0.3, floor=1.5), (0.3, 40.0)
    yield "larger_by", larger_by(0.5, 2), 4.0
    yield "larger_by", larger_by(0.076, 2), 2 ** (1 / 0.076)


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        if np.shape(yours) != np.shape(right) or not np.allclose(yours, right):
            raise SystemExit(f"{what}:\nyours is {yours}\nright is {right}")
        print(f"{what}: right")
    print("all right")
