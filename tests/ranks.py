"""Several ranks without mpirun: threads of this process, with the calls of an mpi4py communicator that we use.

    python tests/ranks.py FOLDER TEXT     # the other way round: what mpirun is asked to run, in float64

Results are compared to 1e-10, so models are float64 here.
"""

import dataclasses
import json
import sys
import threading
from pathlib import Path

import numpy as np

from minigpt.device.parallel import Ranks, started
from minigpt.device.threads import threads
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare_on
from minigpt.models import registry


class Communicator:
    """One of several between threads; all of them wait in `allgather` until each has come."""

    def __init__(self, rank: int, slots: list, barrier: threading.Barrier):
        self.rank, self.slots, self.barrier = rank, slots, barrier

    def Get_rank(self):  # noqa: N802 - mpi4py's names
        return self.rank

    def Get_size(self):  # noqa: N802
        return len(self.slots)

    def allgather(self, value):
        self.slots[self.rank] = value
        self.barrier.wait()
        values = list(self.slots)
        self.barrier.wait()
        return values

    def Allreduce(self, mine, total):  # noqa: N802
        total[...] = sum(self.allgather(mine.copy()))


def together(size: int, function) -> list:
    """[function(ranks) of each process]. What one raises is raised here, and no other one waits for it."""
    slots, barrier, results = [None] * size, threading.Barrier(size, timeout=60), [None] * size
    errors = []

    def run(rank):
        try:
            results[rank] = function(Ranks(Communicator(rank, slots, barrier)))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def in_float64(kind):
    """The same class of models, whose parameters are float64 unless one asks for something else."""

    class Double(kind):
        def __init__(self, config, seed=0, dtype=np.float64):
            super().__init__(config, seed, dtype)

    return Double


def models_in_float64() -> dict:
    """What `registry.CARDS` is to be, for a while."""
    return tuple(card._replace(model=in_float64(card.model)) for card in registry.CARDS)


def run(ranks: Ranks, options: PretrainOptions, until: int | None = None):
    """A job to its end, or to a step: the job."""
    job = prepare_on(ranks, dataclasses.replace(options))
    loop(job, lambda: until is not None and job.step >= until)
    return job


OPTIONS = {"layers": 1, "heads": 2, "embd": 16, "context": 16, "tokenizer": "char", "batch": 8, "steps": 8,
           "eval_every": 4, "dropout": 0.2, "model": "gpt2"}  # fmt: skip


if __name__ == "__main__":
    registry.CARDS = models_in_float64()
    with started() as found:
        done = run(found, PretrainOptions(**OPTIONS, data=sys.argv[2], out=sys.argv[1]))
        print("threads", threads())
        Path(sys.argv[1], "rows.json").write_text(json.dumps(done.run.rows), encoding="utf-8")
