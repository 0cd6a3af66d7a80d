"""Gradients are summed over the GPUs of several processes while the backward pass still computes others.

A GPU that computes and a connection that carries sums need not wait for each other. The backward pass reaches the last
block first; its gradients are complete while those of the first block do not exist yet. So parameters are put into
buckets, the last ones of the model first, and a bucket is sent as soon as it is complete: on a second stream, which
waits for the first one up to here and no further (Li et al. 2020, "PyTorch Distributed", section 3.2).

Three things must hold, whatever happens:

The same sums. `Ranks.sum` sends the same buckets, so that the sums have the same bits with and without overlap.

No process waits for ever. NCCL begins a sum when all processes have called it, and takes sums in the sequence in
which each process has called them. So the buckets, and their sequence, are fixed after the first step; they do not
depend on which gradient comes first. What does not fit them raises an error, which ends the run in all processes.

No memory is used again too early. CuPy gives the memory of a freed array to the next one of the same stream, and knows
nothing of a second stream that still reads it. So a gradient that was sent is held until the first stream waits for
the second one.
"""

import collections
import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from minigpt.device import gpu
from minigpt.device.arrays import Array
from minigpt.device.parallel import Ranks, buckets_of


class OverlappedSums:
    """Sums the gradients of one model, a step at a time: `with sums.during_backward(): ...`.

    In a step a parameter may get several gradients, one for each part of a batch and for each place where it is used.
    How many, the first step shows: it sends everything at its end. named_parameters: (name, parameter), whose fields
    `grad` and `gradient_hook` are those of `nn.Parameter`.
    """

    def __init__(self, ranks: Ranks, named_parameters: Iterable[tuple[str, Any]]):
        self.ranks = ranks
        self.all_reduce = ranks.nccl()
        self.parameters = dict(named_parameters)
        self.stream = gpu.second_stream()
        self.buckets: list[list[str]] = []  # names of parameters, in the sequence in which they are sent
        self.bucket_of: dict[str, int] = {}  # name of a parameter -> the number of its bucket
        self.expected = collections.Counter()  # name -> how many gradients it got in the step before
        self.arrivals = collections.Counter()  # name -> how many it has got in this step
        self.sent = 0  # how many buckets of this step have been sent
        self.in_flight: list[Array] = []  # the gradients in them

    @contextlib.contextmanager
    def during_backward(self) -> Iterator[None]:
        """Inside, gradients are computed and sent; afterwards the current stream finds all sums in the parameters.

        Raises RuntimeError where this step is not the same work as the one before, and where that one has failed after
        some of its gradients were sent. Raises InputError where the processes have gradients for other parameters.
        """
        if self.sent:
            problem = "a step failed after some of its gradients were sent"
            raise RuntimeError(f"{problem}: the other processes wait for the rest, so end all of them")
        self.arrivals.clear()
        for name, parameter in self.parameters.items():
            parameter.gradient_hook = functools.partial(self._arrived, name)
        try:
            yield
        finally:
            for parameter in self.parameters.values():
                parameter.gradient_hook = None
        self._finish()

    def _arrived(self, name: str) -> None:
        """A gradient has been assigned to this parameter, or added to its gradient."""
        self.arrivals[name] += 1
        if self.bucket_of.get(name, self.sent) < self.sent:
            raise RuntimeError(f"{name} got a gradient after its sum was sent: more came than in the step before")
        while self.sent < len(self.buckets) and self._is_complete(self.buckets[self.sent]):
            self._send()

    def _finish(self) -> None:
        """Send what has not been sent; what the current stream does from here on waits for all sums."""
        if not self.buckets:
            self._make_buckets()
        self._check_gradients()
        while self.sent < len(self.buckets):
            self._send()
        gpu.wait_for(self.stream)
        self.in_flight.clear()
        self.sent = 0
        self.expected = self.arrivals.copy()

    def _make_buckets(self) -> None:
        """Those of the parameters that have gradients; the same ones in all processes."""
        found = {name: parameter.grad is not None for name, parameter in self.parameters.items()}
        self.ranks.agree({f"whether {name} has a gradient": has for name, has in found.items()})
        names = [name for name, has in found.items() if has]
        sizes = [self.parameters[name].grad.nbytes for name in names]
        for number, places in enumerate(buckets_of(sizes)):
            bucket = [names[place] for place in places]
            self.buckets.append(bucket)
            self.bucket_of |= dict.fromkeys(bucket, number)

    def _check_gradients(self) -> None:
        """Other processes send the buckets of the first step: this one must have the same gradients again."""
        for name, parameter in self.parameters.items():
            if (parameter.grad is not None) != (name in self.bucket_of):
                raise RuntimeError(f"{name} has a gradient in one step and none in another, so it cannot be summed")

    def _is_complete(self, bucket: list[str]) -> bool:
        return all(self.arrivals[name] == self.expected[name] for name in bucket)

    def _send(self) -> None:
        """Sum the next bucket on the second stream, once the current one has computed what it was given so far."""
        gradients = [self.parameters[name].grad for name in self.buckets[self.sent]]
        self.sent += 1  # also where sending fails: others may have been sent a part
        self.in_flight += gradients
        with gpu.on_stream(self.stream):
            self.all_reduce(gradients)
