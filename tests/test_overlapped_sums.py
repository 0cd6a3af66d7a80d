"""Between GPUs a bucket of gradients is summed while the backward pass still computes others.

Stand-ins for NCCL and for streams (`nccl_on_cpu`, `streams_on_cpu`) see a sum that could begin before its gradients are
computed, processes that send different things, and an update that could begin before all sums are there.
"""

import contextlib
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import nccl_on_cpu
import numpy as np
import pytest
from nccl_on_cpu import of_gpus, on_gpu
from ranks import together
from streams_on_cpu import Event, Streams

from minigpt.device import gpu
from minigpt.device.overlapped_sums import OverlappedSums
from minigpt.errors import InputError
from minigpt.jobs.pretrain import step as pretraining
from minigpt.nn import Parameter, accumulate

SHAPES = {"wte": (40, 8), "h.0": (8, 8), "h.1": (8, 8), "ln": (8,), "frozen": (4,)}  # the last one never learns
BACKWARD = ("wte", "ln", "h.1", "h.0", "wte")  # the sequence in which gradients arrive: the head's are those of wte


@pytest.fixture
def nccl(monkeypatch) -> nccl_on_cpu.Nccl:
    """A machine with two GPUs, and NCCL."""
    return nccl_on_cpu.install(monkeypatch)


@pytest.fixture
def streams(nccl, constants) -> Streams:
    """Two GPUs whose streams are watched; the buckets are ln and h.1, h.0, wte."""
    constants.set(gradient_bucket=8 * 8 * 8)
    made = Streams()
    gpu.cupy.cuda.Stream = made.stream
    gpu.cupy.cuda.Event = Event
    gpu.cupy.cuda.get_current_stream = made.get

    def watch(ptr: int) -> None:
        stream = made.get()
        assert stream.ptr == ptr, "it is sent on another stream than the current one"
        assert stream.done[1] == made.current[0].done[1], "a sum may begin before its gradients are computed"
        stream.work()

    nccl.watch = watch
    return made


def backward(
    parameters: dict[str, Parameter], streams: Streams, step: int, rank: int, parts: int = 2, arriving=BACKWARD
) -> Iterator[None]:
    """Gradients arrive, as of a batch in parts; yields after each."""
    rng = np.random.default_rng([step, rank])
    gradients = {name: [rng.normal(size=shape) for _ in range(4)] for name, shape in SHAPES.items()}
    for parameter in parameters.values():
        parameter.grad = None
    for name in arriving * parts:
        streams.get().work()
        accumulate(parameters[name], on_gpu(gradients[name].pop()))
        yield


def parameters_of_a_model() -> dict[str, Parameter]:
    return {name: Parameter(on_gpu(np.zeros(shape))) for name, shape in SHAPES.items()}


def gradients_of(parameters: dict[str, Parameter]) -> dict[str, np.ndarray]:
    """By name; without those that there are not."""
    return {name: np.array(p.grad) for name, p in parameters.items() if p.grad is not None}


def same_gradients(ours: dict, theirs: dict) -> bool:
    return ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


class Step(NamedTuple):
    """What one process did in one step. sent: how many buckets had been sent after each arrival."""

    gradients: dict[str, np.ndarray]
    sent: list[int]
    log: list


def steps(nccl, streams, overlapped: bool, parts: int = 2, count: int = 3) -> list[list[Step]]:
    """Of each process, its steps."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        found = []
        for number in range(count):
            log = nccl.process.log
            log.clear()
            sent = []
            with sums.during_backward() if overlapped else contextlib.nullcontext():
                for _ in backward(parameters, streams, number, one.rank, parts):
                    sent.append(log.count("end"))
            if overlapped:
                first, second = streams.current[0], sums.stream
                assert {entry[2] for entry in log if isinstance(entry, tuple)} == {second.ptr}
                assert first.done[second.ptr] == second.done[second.ptr], "the update may begin too early"
            else:
                one.sum([p.grad for p in parameters.values() if p.grad is not None])
            groups = [(entry[0], entry[1]) if isinstance(entry, tuple) else entry for entry in log]
            found.append(Step(gradients_of(parameters), sent, groups))
        return found

    return of_gpus(nccl, run)


def one_step(sums: OverlappedSums, parameters: dict[str, Parameter], streams, number: int = 0, **how) -> None:
    with sums.during_backward():
        for _ in backward(parameters, streams, number, sums.ranks.rank, **how):
            pass


# ------------------------------------------------------------------------------------------------------ the same sums


@pytest.mark.parametrize("parts", [1, 2])
def test_the_sums_have_the_bits_of_those_at_the_end(parts, nccl, streams):
    """And the same groups are sent: NCCL may add in another sequence where other arrays are in the group."""
    ours, theirs = (steps(nccl, streams, overlapped, parts) for overlapped in (True, False))
    for process, other in zip(ours, theirs, strict=True):
        for one, wanted in zip(process, other, strict=True):
            assert same_gradients(one.gradients, wanted.gradients)
            assert one.log == wanted.log
            assert [entry if isinstance(entry, str) else entry[0] for entry in one.log] == [
                "start", 8, 64, "end", "start", 64, "end", "start", 320, "end",
            ]  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2])
def test_a_bucket_is_sent_as_soon_as_its_gradients_are_complete(parts, nccl, streams):
    """Not in the first step, in which nothing is known; and never before the last part of the batch."""
    n_arrivals = len(BACKWARD) * parts
    for process in steps(nccl, streams, True, parts):
        first, *later = [one.sent for one in process]
        assert first == [0] * n_arrivals
        assert later == [[0] * (n_arrivals - 3) + [1, 2, 3]] * 2


def test_fewer_gradients_than_before_are_sent_at_the_end(nccl, streams):
    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        one_step(sums, parameters, streams, parts=2)
        one_step(sums, parameters, streams, parts=1)
        return gradients_of(parameters)

    wanted = steps(nccl, streams, False, parts=1, count=1)[0][0].gradients
    assert all(same_gradients(found, wanted) for found in of_gpus(nccl, run))


# ------------------------------------------------------------------------------------------- no process waits for ever


def test_processes_whose_gradients_arrive_in_another_sequence_send_the_same(nccl, streams):
    """The stand-in for NCCL refuses processes that send different things."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        for number in range(2):
            arriving = BACKWARD if one.rank == 0 else BACKWARD[::-1]
            one_step(sums, parameters, streams, number, arriving=arriving)
        return gradients_of(parameters)

    wanted = steps(nccl, streams, False, count=2)[0][1].gradients
    assert all(same_gradients(found, wanted) for found in of_gpus(nccl, run))


def test_processes_with_gradients_for_other_parameters_are_told_so(nccl, streams):
    """All of them, before anything is sent."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        arriving = BACKWARD if one.rank == 0 else tuple(name for name in BACKWARD if name != "h.1")
        with pytest.raises(InputError, match=r"h\.1 has a gradient is True in process 0 and False in process 1"):
            one_step(sums, parameters, streams, arriving=arriving)
        return nccl.process.log.count("start")

    assert of_gpus(nccl, run) == [0, 0]


@pytest.mark.parametrize(
    ("arriving", "name"), [(("ln", "h.1", "wte"), "h.0"), ((*BACKWARD, "frozen"), "frozen")]
)
def test_a_gradient_that_is_not_there_in_every_step_is_an_error(arriving, name, nccl, streams):
    """Other processes would wait for it, or it would stay without a sum."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        one_step(sums, parameters, streams)
        with pytest.raises(RuntimeError, match=f"{name} has a gradient in one step and none in another"):
            one_step(sums, parameters, streams, arriving=arriving)

    of_gpus(nccl, run)


def test_a_gradient_that_comes_too_late_is_an_error(nccl, streams):
    """Its sum has been sent without it."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        one_step(sums, parameters, streams, parts=1)
        with pytest.raises(RuntimeError, match=r"h\.1 got a gradient after its sum was sent"):
            one_step(sums, parameters, streams, parts=1, arriving=(*BACKWARD[:-1], "h.1"))

    of_gpus(nccl, run)


@pytest.mark.parametrize("arrivals", [1, 2, 3])
def test_after_a_step_that_failed(arrivals, nccl, streams):
    """If none of its gradients were sent the next step is a step like any other; otherwise there can be none."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        one_step(sums, parameters, streams, 0, parts=1)
        with pytest.raises(ZeroDivisionError), sums.during_backward():
            for number, _ in enumerate(backward(parameters, streams, 1, one.rank, parts=1), start=1):
                if number == arrivals:
                    raise ZeroDivisionError
        assert all(parameter.gradient_hook is None for parameter in parameters.values())
        if arrivals == 3:  # ln and h.1 are complete
            with pytest.raises(RuntimeError, match="a step failed after some of its gradients were sent"):
                one_step(sums, parameters, streams, 1, parts=1)
            return None
        one_step(sums, parameters, streams, 1, parts=1)
        return gradients_of(parameters)

    wanted = steps(nccl, streams, False, parts=1, count=2)[0][1].gradients
    for found in of_gpus(nccl, run):
        assert found is None if arrivals == 3 else same_gradients(found, wanted)


def test_after_a_bucket_that_could_not_be_sent_there_is_no_other_step(nccl, streams):
    """Some of its sums may have begun."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        sums.all_reduce = lambda gradients: 1 / 0
        with pytest.raises(ZeroDivisionError):
            one_step(sums, parameters, streams)
        with pytest.raises(RuntimeError, match="a step failed"):
            one_step(sums, parameters, streams)

    of_gpus(nccl, run)


# ----------------------------------------------------------------------------------- no memory is used again too early


@pytest.mark.parametrize("fails", [False, True])
def test_a_gradient_that_was_sent_is_held_until_its_sum_is_waited_for(fails, nccl, streams):
    """CuPy would give its memory to the next array, while the second stream still reads it."""

    def run(one):
        parameters = parameters_of_a_model()
        sums = OverlappedSums(one, parameters.items())
        one_step(sums, parameters, streams, parts=1)
        with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext(), sums.during_backward():
            for _ in backward(parameters, streams, 1, one.rank, parts=1):
                if sums.sent == 1:
                    gradient = weakref.ref(parameters["h.1"].grad)
                    parameters["h.1"].grad = on_gpu(np.zeros(SHAPES["h.1"]))
                    assert gradient() is not None
                    if fails:
                        raise ZeroDivisionError
        return gradient() is not None

    assert of_gpus(nccl, run) == [fails] * 2


# ------------------------------------------------------------------------------------------------------ in pre-training


@pytest.mark.parametrize("repeats", [True, False])
def test_an_update_sums_what_its_backward_computes(repeats, nccl, streams):
    """During the backward pass, from the second step on, where a step is always the same work; otherwise at its end."""

    def run(one):
        parameters = parameters_of_a_model()
        model = SimpleNamespace(
            device="cuda",
            repeats_its_step=repeats,
            parameters=parameters.values,
            named_parameters=parameters.items,
        )
        job = SimpleNamespace(ranks=one, model=model, sums=None)
        before_the_end = []
        for number in range(2):
            with pretraining._summed(job):
                for _ in backward(parameters, streams, number, one.rank):
                    pass
                before_the_end.append(nccl.process.log.count("end"))
            nccl.process.log.clear()
        return gradients_of(parameters), before_the_end

    wanted = steps(nccl, streams, overlapped=False)[0][1].gradients
    for found, before_the_end in of_gpus(nccl, run):
        assert same_gradients(found, wanted)
        assert before_the_end == [0, 3 if repeats else 0]


# ------------------------------------------------------------------------------------------------------------ on a GPU


def test_the_check_on_a_gpu_sums_on_a_second_stream(nccl, streams, monkeypatch):
    """`benchmarks/gpu.py nccl`, which one GPU can run: played here, in one process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from gpu_parts import checks

    nccl.get_version = lambda: 22800
    notes = {}
    bench = SimpleNamespace(
        on_gpu=True,
        normal=lambda *shape: on_gpu(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)),
        note=lambda name, **values: notes.update(values),
    )

    def run(one):
        nccl.slots[0] = one.comm
        checks.nccl(bench)
        return [entry[2] for entry in nccl.process.log if isinstance(entry, tuple)]

    (used,) = together(1, run)
    assert used == [2, 2], "not the first stream"
    assert notes == {"version": 22800, "right": True}
