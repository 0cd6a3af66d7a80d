"""Every model that overlaps sums with its backward pass learns what it learns without: the same bits.

A sum is made in place, as early as a GPU may make it, at the moment when it is sent, or as late, when it is waited for.
So a gradient that is still computed after it was handed over would be seen, and one whose numbers are read before.
"""

import contextlib
import threading

import pytest
import ranks
from ranks import OPTIONS, together

from minigpt.device import gpu
from minigpt.device.overlapped_sums import OverlappedSums
from minigpt.device.parallel import Ranks
from minigpt.jobs.pretrain import PretrainOptions, step
from minigpt.models import registry

pytestmark = pytest.mark.usefixtures("no_pictures")
MODELS = [card.name for card in registry.CARDS if card.model.repeats_its_step and not hasattr(card.model, "student_of")]


class SumsOfThreads:
    """In the place of NCCL and of its stream. sent_early: of each step, how many buckets its backward pass has sent."""

    def __init__(self, late: bool):
        self.late = late
        self.waiting = threading.local()
        self.sent_early = []

    def install(self, put) -> None:
        """put: pytest's monkeypatch."""
        put.setattr(Ranks, "nccl", lambda one: lambda arrays: self.sum(one, arrays))
        put.setattr(gpu, "second_stream", lambda: None)
        put.setattr(gpu, "on_stream", lambda stream: contextlib.nullcontext())
        put.setattr(gpu, "wait_for", lambda stream: self.make())
        put.setattr(step, "_overlaps", lambda job: True)
        finish = OverlappedSums._finish
        put.setattr(OverlappedSums, "_finish", lambda sums: self.sent_early.append(sums.sent) or finish(sums))

    def sum(self, one: Ranks, arrays: list) -> None:
        """Sum these arrays, now or later."""
        self.pending().append((one, arrays))
        if not self.late:
            self.make()

    def pending(self) -> list:
        """The sums of this process that are not made yet."""
        if not hasattr(self.waiting, "sums"):
            self.waiting.sums = []
        return self.waiting.sums

    def make(self) -> None:
        """Make the sums that are pending."""
        for one, arrays in self.pending():
            for array in arrays:
                array[...] = one._all_reduce(array)
        self.pending().clear()


def weights(text: str, folder, **changes) -> list[bytes]:
    """Of each of two processes, after a few steps."""
    options = PretrainOptions(**OPTIONS | {"data": text, "out": str(folder), "steps": 3, "eval_every": 3} | changes)
    jobs = together(2, lambda one: ranks.run(one, options))
    return [b"".join(p.data.tobytes() for p in job.model.parameters()) for job in jobs]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("the cat sat on a mat and saw a dog. " * 60, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns_the_same(model, accumulate, text, tmp_path, monkeypatch, constants, set_threads):
    set_threads(1)
    constants.set(gradient_bucket=1000)
    changes = {"model": model, "accumulate": accumulate, "checkpoint_blocks": model == "gpt2"}
    wanted = weights(text, tmp_path / "at the end", **changes)
    n_processes, n_steps = 2, 3
    for late in (False, True):
        sums = SumsOfThreads(late)
        with monkeypatch.context() as put:
            sums.install(put)
            assert weights(text, tmp_path / f"overlapped, {late}", **changes) == wanted, f"late: {late}"
        assert len(sums.sent_early) == n_processes * n_steps
        assert sorted(sums.sent_early)[:2] == [0, 0], "the first step shows how many there are"
        assert min(sorted(sums.sent_early)[2:]) > 2
