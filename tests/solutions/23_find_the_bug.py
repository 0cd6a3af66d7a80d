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
        in_transit = [chunks[r][(r - step) % N].copy() for r in range(N)]
        for r in range(N):
            here = chunks[(r + 1) % N][(r - step) % N]
            here[...] = here + in_transit[r] if step < N - 1 else in_transit[r]
        pages.append(workers.copy())
    return np.array(pages)
