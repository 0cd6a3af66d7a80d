import numpy as np

SENT = [0]  # how many numbers worker 0 has sent


def reduce_scatter(vectors):
    """N arrays (n,), changed in place: afterwards each has one chunk that is the sum of all."""
    _pass_on(vectors, 0, lambda old, arrived: old + arrived)


def all_gather(vectors):
    """N arrays (n,), changed in place: the chunks that are complete are copied to all."""
    _pass_on(vectors, len(vectors) - 1, lambda old, arrived: arrived)


def _pass_on(vectors, first_step, combined):
    N = len(vectors)
    chunks = [np.array_split(vector, N) for vector in vectors]
    for step in range(first_step, first_step + N - 1):
        in_transit = [chunks[r][(r - step) % N].copy() for r in range(N)]
        for r in range(N):
            here = chunks[(r + 1) % N][(r - step) % N]
            here[...] = combined(here, in_transit[r])
        SENT[0] += len(in_transit[0])


def complete_chunk(rank, size):
    """The number (0 to size-1) of the chunk that worker `rank` has complete after reduce_scatter"""
    return (rank + 1) % size


def adam(weights, gradient, m, v, t, lr):
    """Adam's update number t = 1, 2, … (lesson 09) of arrays of one length -> the new weights, m and v

    Betas 0.9 and 0.999, eps 1e-8, both moments corrected, no weight decay.
    """
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return weights - lr * m_hat / (np.sqrt(v_hat) + 1e-8), m, v


def step(weights, gradients, moments, t, lr):
    """One update by all workers together -> the new weights, a list of N arrays (n,), and the new moments

    weights: N arrays (n,), all equal. gradients: N arrays (n,), a part of the sum each. Both may be
    changed. moments: N pairs (m, v), each as long as the worker's chunk. Only `reduce_scatter` and
    `all_gather` carry numbers between workers.
    """
    N = len(weights)
    reduce_scatter(gradients)
    new = []
    for r in range(N):
        c = complete_chunk(r, N)
        mine = np.array_split(weights[r], N)[c]
        mine[...], m, v = adam(mine, np.array_split(gradients[r], N)[c], *moments[r], t, lr)
        new.append((m, v))
    all_gather(weights)
    return weights, new


def bytes_of_a_worker(n, size, divided):
    """Bytes in float32 of weights, gradient and both moments in one worker; size divides n.

    divided: are the moments divided among the workers?
    """
    return 4 * (n + n + (2 * n // size if divided else 2 * n))


def scattered(vectors):
    """Given, for the judge: the vectors after `reduce_scatter`."""
    reduce_scatter(vectors)
    return vectors


def counted_step(weights, gradients, moments, t, lr):
    """Given, for the judge: what `step` returns, and how many numbers worker 0 has sent."""
    SENT[0] = 0
    made = step(weights, gradients, moments, t, lr)
    return None if made is None else (*made, SENT[0])
