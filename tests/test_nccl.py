"""Between GPUs NCCL adds the gradients: in place, all in one group, on the stream that computed them.

Threads stand for the processes, see `nccl_on_cpu`. Where NCCL cannot add them the first process says why, once.
"""

import itertools
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from nccl_on_cpu import Nccl, OnGpu, on_gpu
from ranks import together

from minigpt.device import gpu, parallel

STREAM = 5


@pytest.fixture
def nccl(monkeypatch) -> Nccl:
    """A machine with two GPUs, and NCCL. Each process sees one of them alone, as number 0."""
    made = Nccl()
    seen = itertools.count()
    cuda = SimpleNamespace(
        nccl=made,
        runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        Device=lambda: SimpleNamespace(pci_bus_id=f"0000:0{next(seen)}:00.0"),
        get_current_stream=lambda: SimpleNamespace(ptr=STREAM),
    )
    cupy = SimpleNamespace(
        cuda=cuda,
        ndarray=OnGpu,
        asarray=on_gpu,
        asnumpy=np.array,
        ascontiguousarray=lambda a: a if a.flags.c_contiguous else on_gpu(a),
        concatenate=lambda arrays: on_gpu(np.concatenate(arrays)),
    )
    monkeypatch.setattr(gpu, "cupy", cupy)
    monkeypatch.setattr(gpu, "_cupy_wheels", lambda: ["cupy-cuda13x"])
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return made


def of_gpus(nccl: Nccl, function):
    """function(ranks) of two processes, which meet for NCCL too."""

    def run(one):
        nccl.slots[one.rank] = one.comm
        one.comm.bcast = lambda value: one.comm.allgather(value)[0]
        one.gather(None)
        return function(one)

    return together(2, run)


def gradients(rank: int) -> list[OnGpu]:
    """Large and small ones, of two dtypes."""
    rng = np.random.default_rng(rank)
    shapes = [((300, 200), "f"), ((5,), "f"), ((3, 4), "d"), ((7,), "f"), ((1,), "f"), ((300, 100), "d")]
    return [on_gpu(rng.normal(size=shape).astype(dtype)) for shape, dtype in shapes]


def test_sums_are_made_in_place_in_one_group_on_the_stream_that_computed_them(nccl):
    def run(one):
        arrays = gradients(one.rank)
        one.sum(arrays)
        in_place = [(a.size, a.dtype.name, STREAM, a.data.ptr, a.data.ptr) for a in arrays]
        return [np.array(array) for array in arrays], list(nccl.process.log), in_place

    both = of_gpus(nccl, run)
    wanted = [a + b for a, b in zip(gradients(0), gradients(1), strict=True)]
    for sums, log, in_place in both:
        assert all((a == b).all() for a, b in zip(sums, wanted, strict=True))
        assert log == ["start", *in_place, "end"]


def test_an_array_that_is_not_in_one_piece_is_summed_too(nccl):
    def run(one):
        whole = on_gpu(np.full((3, 4), one.rank + 1.0))
        one.sum([whole[:, :2]])
        return np.array(whole).tolist()

    assert of_gpus(nccl, run) == [[[3.0, 3.0, rank + 1.0, rank + 1.0]] * 3 for rank in (0, 1)]


def test_an_error_ends_the_group(nccl):
    """Otherwise nothing would be sent ever after."""

    def run(one):
        with pytest.raises(KeyError):
            one.sum([on_gpu(np.ones(2)), on_gpu(np.ones(2, np.int64))])
        return nccl.process.depth

    assert of_gpus(nccl, run) == [0, 0]


def test_arrays_of_a_processor_are_summed_without_it(nccl):
    def run(one):
        here = np.full(3, one.rank + 1.0)
        there = on_gpu(np.full(2, one.rank + 1.0))
        one.sum([here, there])
        return here.tolist(), np.array(there).tolist(), len(nccl.process.log)

    assert of_gpus(nccl, run) == [([3.0] * 3, [3.0] * 2, 3)] * 2


@pytest.mark.parametrize(
    ("available", "gpus", "reason"),
    [
        (False, 2, "NCCL is not installed: pip install nvidia-nccl-cu13"),
        (True, 1, "NCCL needs a GPU for each process, and 2 processes share 1"),
    ],
)
def test_without_nccl_the_first_process_says_it_once(available, gpus, reason, nccl, monkeypatch):
    nccl.available = available
    if gpus == 1:
        gpu.cupy.cuda.Device = lambda: SimpleNamespace(pci_bus_id="0000:00:00.0")
    said = []
    monkeypatch.setattr(warnings, "warn", lambda message, **how: said.append(message))

    def run(one):
        for _ in range(2):
            arrays = gradients(one.rank)
            one.sum(arrays)
        return [np.array(array) for array in arrays], list(nccl.process.log)

    both = of_gpus(nccl, run)
    wanted = [a + b for a, b in zip(gradients(0), gradients(1), strict=True)]
    for sums, log in both:
        assert all((a == b).all() for a, b in zip(sums, wanted, strict=True)) and log == []
    assert said == [f"gradients are added by the processors, which takes long, and not between the GPUs: {reason}"]


def test_the_package_of_nccl_is_that_of_the_cuda_in_use(nccl, monkeypatch):
    nccl.available = False
    for wheel, package in {"cupy-cuda12x": "nvidia-nccl-cu12", "cupy-cuda13x": "nvidia-nccl-cu13"}.items():
        monkeypatch.setattr(gpu, "_cupy_wheels", lambda wheel=wheel: [wheel])
        assert gpu.nccl_problem().endswith(f"pip install {package}")


def test_the_stand_in_sees_processes_that_send_different_things(nccl):
    def run(one):
        one.sum([on_gpu(np.ones(2 + one.rank))])

    with pytest.raises(AssertionError, match="different things"):
        of_gpus(nccl, run)


def test_small_messages_still_go_together_without_a_gpu(monkeypatch):
    """Three arrays below the limit are one message."""
    sent = []
    monkeypatch.setattr(parallel.Ranks, "_all_reduce", lambda self, array: sent.append(array.size) or array)
    together(1, lambda one: None)
    one = parallel.Ranks()
    one.size = 2
    one.sum([np.ones(3), np.ones(4), np.ones((2, 2)), np.ones(parallel.SMALL // 8)])
    assert sorted(sent) == [11, parallel.SMALL // 8]
