"""Exercise 23: Adam's moments divided among the workers (lesson 23, section 4).

In the lesson every worker keeps the whole of Adam's two moments, m and v, and all make the same
update. That is N times the same work and N times the same memory. The ring offers more: after
reduce-scatter each worker has the complete sum for one chunk. It can update the weights of this
chunk, with the moments of this chunk only. Then all-gather carries weights instead of gradients.
Each worker sends as many numbers as before. (Rajbhandari et al. 2020, arXiv 1910.02054, stage 1.)

`reduce_scatter` and `all_gather` are the two halves of the lesson's ring; do not change them.
Write the four functions below.

Judge it:  python lessons/exercises/23_several_workers.py
"""

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
    ...  # your turn


def adam(weights, gradient, m, v, t, lr):
    """Adam's update number t = 1, 2, … (lesson 09) of arrays of one length -> the new weights, m and v

    Betas 0.9 and 0.999, eps 1e-8, both moments corrected, no weight decay.
    """
    ...  # your turn


def step(weights, gradients, moments, t, lr):
    """One update by all workers together -> the new weights, a list of N arrays (n,), and the new moments

    weights: N arrays (n,), all equal. gradients: N arrays (n,), a part of the sum each. Both may be
    changed. moments: N pairs (m, v), each as long as the worker's chunk. Only `reduce_scatter` and
    `all_gather` carry numbers between workers.
    """
    ...  # your turn


def bytes_of_a_worker(n, size, divided):
    """Bytes in float32 of weights, gradient and both moments in one worker; size divides n.

    divided: are the moments divided among the workers?
    """
    ...  # your turn


def scattered(vectors):
    """Given, for the judge: the vectors after `reduce_scatter`."""
    reduce_scatter(vectors)
    return vectors


def counted_step(weights, gradients, moments, t, lr):
    """Given, for the judge: what `step` returns, and how many numbers worker 0 has sent."""
    SENT[0] = 0
    made = step(weights, gradients, moments, t, lr)
    return None if made is None else (*made, SENT[0])


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def of_one_worker(n, steps, lr):
    """The weights after each step, by the library's AdamW, from the whole gradient."""
    from minigpt.nn.module import Parameter
    from minigpt.nn.optim import AdamW

    weights = Parameter(np.linspace(-1, 1, n))
    optimizer = AdamW([("w", weights)], betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    for t in range(1, steps + 1):
        weights.grad = sum(parts(n, 3, t))
        optimizer.step(lr)
        yield weights.data.copy()


def parts(n, size, t):
    """The gradients of so many workers at step t."""
    return list(np.random.default_rng([n, t]).normal(size=(size, n)))


def judge_places():
    """Yields what is compared, yours, and what it should be."""
    for size in (2, 3, 5):
        vectors = scattered([np.full(size, 10**r) for r in range(size)])
        for rank, vector in enumerate(vectors):
            place = complete_chunk(rank, size)
            found = None if place is None else dict(enumerate(vector)).get(place, -1)
            yield f"complete_chunk({rank}, {size}): what stands there", found, int("1" * size)


def judge_steps():
    """The same for updates by three workers."""
    n, N, lr = 13, 3, 0.01
    lengths = [len(chunk) for chunk in np.array_split(np.zeros(n), N)]
    moments = [tuple(np.zeros((2, lengths[complete_chunk(rank, N)]))) for rank in range(N)]
    weights = [np.linspace(-1, 1, n) for _ in range(N)]
    m, v, alone = np.zeros(n), np.zeros(n), weights[0].copy()
    for t, right in enumerate(of_one_worker(n, 4, lr), start=1):
        updated = adam(alone, sum(parts(n, N, t)), m, v, t, lr)
        yield f"adam, one worker, update {t}", updated and updated[0], right
        alone, m, v = updated
        made = counted_step(weights, parts(n, N, t), moments, t, lr)
        for rank in range(N):
            yield f"step {t}: the weights of worker {rank}", made and made[0][rank], right
            sizes = [len(moment) for moment in made[1][rank]]
            yield f"step {t}: the lengths of the moments of worker {rank}", sizes, [len(moments[rank][0])] * 2
        weights, moments, sent = made
        right_number = 2 * (N - 1) * 4 <= sent <= 2 * (N - 1) * 5  # a chunk has 4 or 5 numbers
        yield f"step {t}: worker 0 has sent 2 (N-1) chunks, by the two halves of the ring", right_number, True


def judge():
    """All of it, one after the other."""
    yield from judge_places()
    yield from judge_steps()
    whole, divided = bytes_of_a_worker(1 << 20, 8, False), bytes_of_a_worker(1 << 20, 8, True)
    yield "bytes_of_a_worker, all of it in each", whole, 16 << 20
    yield "bytes_of_a_worker, moments divided by 8", divided, 9 << 20


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet: your turn")
        same_shape = np.shape(yours) == np.shape(right)
        if not same_shape or not np.allclose(yours, right, rtol=1e-9, atol=1e-12):
            raise SystemExit(f"{what}:\nyours is   {yours}\nit should be {right}")
        print(f"{what}: right")
    print("all right: N workers, one set of moments, and the same weights as one worker")
    raise SystemExit(0)
