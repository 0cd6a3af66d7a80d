"""One of the processes that train a model together. Lesson 23 starts them, and tells what it does.

Each holds the whole model and a part of every batch. What is sent, and to whom, is the ring of section 3: to the right
neighbour, from the left one. Nobody is in charge.
"""

import json
import sys
import time
from multiprocessing.connection import Client, Listener

import numpy as np

from minigpt import GPT2, GPT2Config, data
from minigpt.device.threads import set_threads
from minigpt.nn.optim import AdamW, clip_by_global_norm
from minigpt.ops.random_keys import Key


def all_reduce(vector, rank, size, left, right):
    """The ring, seen by one worker: `vector` becomes the sum of everyone's, in place. Returns how many it sent."""
    chunks, sent = np.array_split(vector, size), 0
    for step in range(2 * (size - 1)):
        give, take = chunks[(rank - step) % size], chunks[(rank - 1 - step) % size]
        arrived = np.empty_like(take)
        if rank % 2:  # if all of them spoke first, nobody would listen
            left.recv_bytes_into(arrived)
            right.send_bytes(give)
        else:
            right.send_bytes(give)
            left.recv_bytes_into(arrived)
        take[...] = take + arrived if step < size - 1 else arrived
        sent += len(give)
    return sent


def work(rank, size, batch, steps, config, tokens, left, right):
    """Train; returns the losses, and for each step the seconds of computing, of adding up, of updating."""
    model = GPT2(GPT2Config(**config), seed=0, dtype=np.float64)
    parameters = list(model.parameters())
    optimizer, tokens, losses, seconds = AdamW(model.named_parameters()), np.load(tokens), [], []
    rows = slice(rank * batch // size, (rank + 1) * batch // size)  # the rows of the batch that are mine
    for step in range(steps):
        clock = [time.perf_counter()]
        ids, targets = data.batch(tokens, batch, config["n_positions"], seed=0, step=step)
        model.zero_grad()
        key = Key.of(0, step)._replace(row=rows.start)
        loss, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size, key=key)
        model.loss_backward(cache)
        clock.append(time.perf_counter())
        vector = np.concatenate([loss[None], *(p.grad.ravel() for p in parameters)])
        all_reduce(vector, rank, size, left, right)
        clock.append(time.perf_counter())
        at = 1
        for p in parameters:
            p.grad, at = vector[at : at + p.data.size].reshape(p.data.shape), at + p.data.size
        clip_by_global_norm(model.named_parameters(), 1.0)  # of the sum: the length of a part says nothing
        optimizer.step(1e-3)
        clock.append(time.perf_counter())
        losses.append(vector[0])
        seconds.append(np.diff(clock).tolist())
    return {"losses": losses, "seconds": seconds}


if __name__ == "__main__":
    set_threads(1)  # one worker, one core
    job, left, right = json.loads(sys.argv[1]), None, None
    if job["size"] > 1:
        with Listener() as ear:
            print(ear.address, flush=True)
            right = Client(sys.stdin.readline().strip())
            left = ear.accept()
    print(json.dumps(work(**job, left=left, right=right)))
