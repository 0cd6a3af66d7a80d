"""A training step that a GPU records and repeats has the bits of one that is launched kernel by kernel.

A stand-in for CuPy records: a number that was given by value, such as the row at which a part begins, is repeated as it
was. What has no memory is a step of its own, which launches its kernels one by one.
"""

import weakref

import numpy as np
import pytest
import recorded_graph
import strict_cupy
from helpers import same, snapshot
from recorded_graph import OutOfMemoryError, Pool

from minigpt.device import gpu
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, step, update
from minigpt.ops.cuda.cuda_graph import Recorded

pytestmark = pytest.mark.usefixtures("no_pictures")
SIZES = {"layers": 1, "heads": 2, "embd": 16, "context": 8}
TINY = SIZES | {"batch": 4, "steps": 3, "eval_every": 3, "tokenizer": "char", "device": "cuda"}


@pytest.fixture(autouse=True)
def a_gpu_that_records(monkeypatch):
    """The stand-in for CuPy, with graphs. The reference runs on it, without its checks, which read what they check."""
    monkeypatch.setattr("minigpt.ops.reference.embedding.check_ids", lambda w, ids: None)
    monkeypatch.setattr("minigpt.ops.reference.cross_entropy.check_targets", lambda logits, targets: None)
    monkeypatch.setattr(gpu, "cupy", strict_cupy.cupy)
    monkeypatch.setattr(gpu, "_cupy_wheels", lambda: ["strict-cupy"])
    recorded_graph.install(monkeypatch.setattr)


@pytest.fixture
def text(tmp_path) -> str:
    path = tmp_path / "text"
    path.write_text("the cat sat on a mat. " * 40, encoding="utf-8")
    return str(path)


def trained(text, folder, **changes):
    """A job at its end, and its weights."""
    job = prepare(PretrainOptions(data=text, out=str(folder), **TINY | changes))
    loop(job)
    return job, snapshot([to_numpy(p.data) for p in job.model.parameters()])


# ---------------------------------------------------------------------------------------------- accumulated in parts


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_recorded_parts_have_the_bits_of_parts_that_are_not(accumulate, dropout, text, tmp_path, constants):
    """Each part drops what its rows drop in the whole batch, the first gradient is assigned, the others are added."""
    given = {"accumulate": accumulate, "dropout": dropout}
    recorded, ours = trained(text, tmp_path / "recorded", **given)
    assert recorded.recorded.graph.launches == recorded.options.steps
    constants.set(recorded_operations=0)
    not_recorded, theirs = trained(text, tmp_path / "not", **given)
    assert not_recorded.recorded is None
    assert same(ours, theirs)
    losses = [[row["train_loss"] for row in job.run.rows] for job in (recorded, not_recorded)]
    assert losses[0] == losses[1]


def test_it_is_the_work_of_a_part_that_decides(text, tmp_path, constants):
    """A launch takes as long in each part: small parts are recorded, however many there are."""
    job = prepare(PretrainOptions(data=text, out=str(tmp_path / "run"), **TINY | {"accumulate": 4}))
    _, flops = step._flops_per_token(type(job.model), job.model.config)
    operations_of_a_part = flops * job.model.config.n_positions
    batch = step.batch_of(job, 0)
    constants.set(recorded_operations=operations_of_a_part * 1.01)
    assert step._is_recorded(job, batch)
    constants.set(recorded_operations=operations_of_a_part)
    assert not step._is_recorded(job, batch)


def test_batches_with_different_numbers_of_targets_are_not_recorded(text, tmp_path):
    """The number that the loss is divided by would be that of the first batch for ever."""
    job = prepare(PretrainOptions(data=text, out=str(tmp_path / "run"), **TINY))
    batch = step.batch_of(job, 0)
    assert step._is_recorded(job, batch)
    targets = batch.targets.copy()
    targets[0, 0] = -100
    assert not step._is_recorded(job, batch._replace(targets=targets))


def test_a_step_of_gpt2_small_with_eleven_rows_is_recorded_and_one_with_twelve_is_not():
    """8.5e8 operations a token, 1024 tokens a row: up to 1e13."""
    from minigpt import GPT2

    _, flops = step._flops_per_token(GPT2, GPT2.Config())
    rows = step.SMALL / (flops * 1024)
    assert 11 < rows < 12


# ------------------------------------------------------------------------------------------------ no memory to record


FULL = "Out of memory allocating\n4,294,967,296 bytes."


@pytest.mark.parametrize("calls", [0, 1, 2], ids=["at the first try", "at the second", "while it is recorded"])
def test_where_there_is_no_memory_to_record_kernels_are_launched_one_by_one(calls):
    """The warning is one line, the memory is given back before the step is tried again, and no second try is made."""
    pools, left = [], []

    def function(a):
        pools.append(Pool.alive)
        held = a * 2  # what a step holds when it fails
        if len(pools) == calls + 1:
            left.append(weakref.ref(held._array))
            raise OutOfMemoryError(FULL)
        return held

    before = Pool.alive
    recorded = Recorded(function)
    with pytest.warns(UserWarning) as warned:
        result = recorded(np.ones(2))
    message = str(warned[0].message)
    assert len(warned) == 1 and "\n" not in message
    assert "launched one by one: Out of memory allocating 4,294,967,296 bytes" in message
    assert to_numpy(result).tolist() == [2, 2]
    assert pools == [before + 1] * (calls + 1) + [before], "the pool is given back before the last call"
    assert left[0]() is None, "an array that the error has left lives on"
    assert strict_cupy.tape is None
    assert to_numpy(recorded(np.full(2, 3.0))).tolist() == [6, 6] and len(pools) == calls + 3


def test_where_there_is_no_memory_at_all_the_usual_error_comes():
    def function(a):
        raise OutOfMemoryError(FULL)

    with pytest.raises(InputError, match="out of GPU memory: use a smaller --batch"), gpu.readable_errors():
        with pytest.warns(UserWarning, match="cannot be recorded"):
            Recorded(function)(np.ones(2))


def test_a_step_goes_on_where_it_cannot_be_recorded(text, tmp_path, monkeypatch, constants):
    """The weights are those of a run that was never recorded."""
    real = step._gradients
    calls = []

    def full(job, *arguments):
        calls.append(None)
        loss = real(job, *arguments)
        if len(calls) == 2:
            raise OutOfMemoryError(FULL)
        return loss

    with monkeypatch.context() as patched:
        patched.setattr(step, "_gradients", full)
        with pytest.warns(UserWarning, match="cannot be recorded.*Out of memory"):
            job, ours = trained(text, tmp_path / "full", accumulate=2, dropout=0.3)
    assert job.recorded.graph is None
    constants.set(recorded_operations=0)
    _, theirs = trained(text, tmp_path / "not", accumulate=2, dropout=0.3)
    assert same(ours, theirs)


def test_what_another_pool_holds_unused_is_given_back_before_a_step_is_recorded(monkeypatch):
    given_back = []
    monkeypatch.setattr(gpu, "free_memory", lambda: given_back.append(Pool.alive))
    before = Pool.alive
    Recorded(lambda a: a * 2)(np.ones(2))
    assert given_back == [before]


def test_an_update_reads_nothing_while_it_is_recorded(text, tmp_path):
    """The stand-in refuses it, as CUDA does."""
    job = prepare(PretrainOptions(data=text, out=str(tmp_path / "run"), **TINY))
    update(job, 0.1)
    assert job.recorded.graph is not None
    with pytest.warns(UserWarning, match="cannot be recorded.*capturing"):
        Recorded(lambda a: float(a[0]))(np.ones(2))
