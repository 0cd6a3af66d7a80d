"""Exercise 23: find the bug. A ring in which two workers get the right sum, and three do not.

Its author tried it with two workers, with short vectors and with long ones, and found no mistake.
Run the file. It shows which workers' numbers are in each chunk after each step, as lesson 23 does
in section 4. Which chunk did each worker send, and which should it have sent? Correct `ring`: one
character, in two places. Then explain why a test with two workers cannot find the mistake.

Judge it:  python lessons/exercises/23_find_the_bug.py
"""

import numpy as np


def ring(vectors):
    """vectors (N,n), one for each worker -> pages (2N-1,N,n): the vectors at first, and after each step

    On the last page all of them are the sum of all.
    """
    workers = np.array(vectors)
    N = len(workers)
    chunks = [np.array_split(worker, N) for worker in workers]  # views: parts of the vectors themselves
    pages = [workers.copy()]
    for step in range(2 * (N - 1)):
        in_transit = [chunks[r][(r + step) % N].copy() for r in range(N)]
        for r in range(N):
            here = chunks[(r + 1) % N][(r + step) % N]
            here[...] = here + in_transit[r] if step < N - 1 else in_transit[r]
        pages.append(workers.copy())
    return np.array(pages)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def check_traffic(pages, N, n):
    """In one step a worker receives one chunk, and no more."""
    changed = (pages[1:] != pages[:-1]).sum(axis=-1).max()
    if np.shape(pages) != (2 * N - 1, N, n) or changed > -(-n // N):
        raise SystemExit(f"not yet: each of {2 * N - 2} steps changes {-(-n // N)} numbers of a worker at most")


if __name__ == "__main__":
    for N in (2, 3, 4):
        pages = ring(np.array([np.full(N, 10**r) for r in range(N)]))
        if not (pages[-1] == int("1" * N)).all():
            for r in range(N):
                print("    ".join(" ".join(f"{x:0{N}}" for x in page[r]) for page in pages))
            raise SystemExit(f"not yet: with {N} workers, not all have {'1' * N} everywhere")
        check_traffic(pages, N, N)
        print(f"{N} workers: right")
    for N, n in ((3, 7), (5, 3), (8, 64)):
        numbers = np.random.default_rng(0).integers(1, 100, size=(N, n))
        pages = ring(numbers)
        if not (pages[-1] == numbers.sum(axis=0)).all():
            raise SystemExit(f"not yet: {N} workers with {n} numbers do not all have the sum")
        check_traffic(pages, N, n)
    print("right: every worker has the sum of all")
    raise SystemExit(0)
