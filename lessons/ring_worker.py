"""One of the processes that train a model together. Lesson 23 starts them and explains them.

Each holds the whole model and takes a part of every batch. A process sends only to its right
neighbour and receives only from its left one: the ring of section 4. No process leads the others.
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
    """`vector` becomes the sum of all workers' vectors, in place -> how many numbers were sent"""
    chunks, sent = np.array_split(vector, size), 0
    for step in range(2 * (size - 1)):
        give = chunks[(rank - step) % size]
        take = chunks[(rank - 1 - step) % size]
        arrived = np.empty_like(take)
        if rank % 2:  # if all sent first, all would wait for a neighbour that receives
            left.recv_bytes_into(arrived)
            right.send_bytes(give)
        else:
            right.send_bytes(give)
            left.recv_bytes_into(arrived)
        take[...] = take + arrived if step < size - 1 else arrived
        sent += len(give)
    return sent


def work(rank, size, batch, steps, config, tokens, left, right):
    """Train; returns the losses, and for each step the seconds of computing, adding up, updating."""
    model = GPT2(GPT2Config(**config), seed=0, dtype=np.float64)
    parameters = list(model.parameters())
    optimizer, tokens = AdamW(model.named_parameters()), np.load(tokens)
    losses, seconds = [], []
    rows = slice(rank * batch // size, (rank + 1) * batch // size)  # my rows of the batch
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
            p.grad = vector[at : at + p.data.size].reshape(p.data.shape)
            at += p.data.size
        clip_by_global_norm(model.named_parameters(), 1.0)  # of the sum, not of a part
        optimizer.step(1e-3)
        clock.append(time.perf_counter())

        losses.append(vector[0])
        seconds.append(np.diff(clock).tolist())
    return {"losses": losses, "seconds": seconds}


if __name__ == "__main__":
    set_threads(1)  # one worker, one core
    job, left, right = json.loads(sys.argv[1]), None, None
    if job["size"] > 1:
        with Listener() as listener:
            print(listener.address, flush=True)
            right = Client(sys.stdin.readline().strip())
            left = listener.accept()
    print(json.dumps(work(**job, left=left, right=right)))
