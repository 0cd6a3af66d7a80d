"""Exercise 23: find the bug. A ring in which two workers get the right sum, and three do not.

Its author tried it with two workers, with short vectors and with long ones, and found no mistake.
Run the file. It shows which workers' numbers are in each chunk after each step, as lesson 23 does
in section 4. Which chunk did each worker send, and which should it have sent? Correct `ring`: one
character, in two places. Then explain why a test with two workers cannot find the mistake.

Judge it:  python lessons/exercises/23_find_the_bug.py
"""

import numpy as np


def ring(vectors, show=lambda: None):
    """vectors: one (n,) for each worker; all become the sum of all, in place"""
    N = len(vectors)
    chunks = [np.array_split(vector, N) for vector in vectors]
    for step in range(2 * (N - 1)):
        in_transit = [chunks[r][(r + step) % N].copy() for r in range(N)]
        for r in range(N):
            here = chunks[(r + 1) % N][(r + step) % N]
            here[...] = here + in_transit[r] if step < N - 1 else in_transit[r]
        show()


if __name__ == "__main__":
    for N in (2, 3, 4):
        workers, pages = [np.full(N, 10**r) for r in range(N)], []

        def show(workers=workers, pages=pages):
            pages.append(np.array(workers))

        show()
        ring(workers, show)
        if not all((vector == int("1" * N)).all() for vector in workers):
            for r in range(N):
                print("    ".join(" ".join(f"{x:0{N}}" for x in page[r]) for page in pages))
            raise SystemExit(f"not yet: with {N} workers, not all have {'1' * N} everywhere")
        print(f"{N} workers: right")
    for N, n in ((3, 7), (5, 3), (8, 64)):
        numbers = np.random.default_rng(0).integers(100, size=(N, n))
        workers = [row.copy() for row in numbers]
        ring(workers)
        if not all((vector == numbers.sum(axis=0)).all() for vector in workers):
            raise SystemExit(f"not yet: {N} workers with {n} numbers do not all have the sum")
    print("right: every worker has the sum of all")
