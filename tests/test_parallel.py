"""Several processes are one: the same losses, the same weights, the same files, and one voice.

Ranks are threads here (see `ranks`); the tests at the end start real processes, where there is an mpirun.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import ranks
from helpers import repeat_steps
from ranks import OPTIONS, together

from minigpt import cli, data
from minigpt.device import parallel
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, assess
from minigpt.models import registry

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    words = np.random.default_rng(0).choice(["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "."], 1000)
    path.write_text(" ".join(words), encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def float64(monkeypatch, set_threads):
    monkeypatch.setattr(registry, "CARDS", ranks.models_in_float64())
    set_threads(1)


def options(text: str, folder: Path, **changes) -> PretrainOptions:
    return PretrainOptions(**OPTIONS | {"data": text, "out": str(folder)} | changes)


def assert_same_run(job, other):
    for one, two in zip(job.run.rows, other.run.rows, strict=True):
        for column in ("step", "train_loss", "val_loss", "lr"):
            assert (one[column] is None) == (two[column] is None)
            assert one[column] is None or abs(one[column] - two[column]) < 1e-10, (column, one, two)
    for one, two in zip(job.model.parameters(), other.model.parameters(), strict=True):
        assert one.data.dtype == np.float64 and np.abs(one.data - two.data).max() < 1e-10


SLOW = pytest.mark.slow
CASES = [
    (4, {}), (2, {"accumulate": 2}), (2, {"model": "gpt1"}), pytest.param(2, {"dropout": 0.0}, marks=SLOW),
    pytest.param(4, {"dropout": 0.0}, marks=SLOW), pytest.param(2, {"checkpoint_blocks": True}, marks=SLOW),
    pytest.param(4, {"accumulate": 2, "model": "gpt1", "checkpoint_blocks": True}, marks=SLOW),
]  # fmt: skip


@pytest.mark.parametrize(("size", "changes"), CASES)
def test_several_processes_do_what_one_does(size, changes, text, tmp_path):
    alone = ranks.run(ALONE, options(text, tmp_path / "alone", **changes))
    jobs = together(size, lambda one: ranks.run(one, options(text, tmp_path / "many", **changes)))
    for job in jobs:
        assert_same_run(alone, job)
    same_bits = [b"".join(p.data.tobytes() for p in job.model.parameters()) for job in jobs]
    assert len(set(same_bits)) == 1, "every process holds the same model"


def test_processes_that_repeat_their_steps_are_one_too(text, tmp_path, monkeypatch):
    """What each drops depends on which rows it has."""
    alone = ranks.run(ALONE, options(text, tmp_path / "alone"))
    assert alone.recorded is None and alone.options.dropout > 0
    repeat_steps(monkeypatch)
    for job in together(2, lambda one: ranks.run(one, options(text, tmp_path / "many"))):
        assert job.recorded
        assert_same_run(alone, job)


@pytest.mark.parametrize("sizes", [(4, 2), pytest.param((2, 4), marks=SLOW), pytest.param((4, 1), marks=SLOW)])
def test_resumed_with_another_number_of_processes(sizes, text, tmp_path):
    whole = ranks.run(ALONE, options(text, tmp_path / "whole"))
    together(sizes[0], lambda one: ranks.run(one, options(text, tmp_path / "parts"), until=5))
    again = PretrainOptions(out=str(tmp_path / "parts"), resume=True)
    jobs = together(sizes[1], lambda one: ranks.run(one, again))
    assert jobs[0].step == whole.step
    for one, two in zip(whole.model.parameters(), jobs[0].model.parameters(), strict=True):
        assert np.abs(one.data - two.data).max() < 1e-10


def test_only_the_first_process_writes(text, tmp_path):
    jobs = together(2, lambda one: ranks.run(one, options(text, tmp_path), until=5))
    assert [job.run.writes for job in jobs] == [True, False]
    shutil.rmtree(tmp_path)
    jobs[1].best = float("inf")
    jobs[1].ranks = ALONE
    assess(jobs[1], None, None, None, write=lambda line: None)
    jobs[1].run.draw(30, 2.0)
    assert not tmp_path.exists()


def test_when_one_is_interrupted_all_stop_at_the_same_step(text, tmp_path):
    def run(one):
        job = ranks.prepare_on(one, options(text, tmp_path))
        ranks.loop(job, lambda: one.rank == 1 and job.step >= 3)
        return job.step

    assert together(2, run) == [3, 3]


# ------------------------------------------------------------------------------------------------- the parts


def test_rows_cover_the_batch():
    class Comm:
        def __init__(self, rank):
            self.Get_rank, self.Get_size, self.allgather = lambda: rank, lambda: 3, lambda value: 3 * [value]

    slices = [Ranks(Comm(rank)).rows(12) for rank in range(3)]
    assert [list(range(12))[rows] for rows in slices] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    with pytest.raises(InputError, match="--batch 10 cannot be shared by 3 processes: choose 9 or 12"):
        Ranks(Comm(0)).rows(10)
    with pytest.raises(InputError, match="3 processes, each in --accumulate 2 parts: choose 6 or 12"):
        Ranks(Comm(0)).rows(9, 2)
    with pytest.raises(InputError, match="--batch 2 cannot be shared by 3 processes: choose 3$"):
        Ranks(Comm(0)).rows(2)


def test_sums_of_arrays_of_any_layout():
    def run(one):
        arrays = [np.full((2, 3), one.rank + 1.0).T, np.array(one.rank, np.float32), np.ones((4, 6))[::2, ::3]]
        one.sum(arrays)
        return arrays

    for arrays in together(3, run):
        assert [a.tolist() for a in arrays] == [[[6.0, 6.0]] * 3, 3.0, [[3.0, 3.0]] * 2]
        assert [a.dtype for a in arrays] == [np.float64, np.float32, np.float64]


def test_alone_nothing_is_sent_and_nothing_changes():
    x = np.ones(3)
    ALONE.sum([x])
    ALONE.agree({"anything": 1})
    assert x.tolist() == [1, 1, 1] and ALONE.total(2.5) == 2.5 and ALONE.gather("x") == ["x"]
    assert ALONE.rows(7) == slice(0, 7)


# ------------------------------------------------------------------------------------------------- mistakes


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_is_written(text, tmp_path):
    with pytest.raises(InputError, match="--batch 7 cannot be shared by 2 processes: choose 6 or 8"):
        together(2, lambda one: ranks.run(one, options(text, tmp_path / "x", batch=7)))
    assert not (tmp_path / "x").exists()
    ranks.run(ALONE, options(text, tmp_path / "x", batch=7), until=3)
    with pytest.raises(InputError, match="--batch 7 cannot be shared by 2"):
        together(2, lambda one: ranks.prepare_on(one, PretrainOptions(out=str(tmp_path / "x"), resume=True)))


def test_processes_that_were_told_different_things(text, tmp_path):
    with pytest.raises(InputError, match="disagree: --batch is 8 in process 0 and 16 in process 1"):
        together(2, lambda one: ranks.run(one, options(text, tmp_path / "x", batch=8 * (1 + one.rank))))
    assert not (tmp_path / "x").exists()


def test_weights_that_have_drifted_apart(text, tmp_path):
    def run(one):
        job = ranks.prepare_on(one, options(text, tmp_path))
        if one.rank == 1:
            next(job.model.parameters()).data[0, 0] += 1e-3
        ranks.loop(job)

    with pytest.raises(InputError, match="disagree: the sum of the weights is"):
        together(2, run)


def test_another_text_in_another_process(text, tmp_path, monkeypatch):
    """As on two machines that only seem to share a folder."""
    other = tmp_path / "other.txt"
    other.write_text(Path(text).read_text(encoding="utf-8").replace("cat", "cow"), encoding="utf-8")

    def see(source):
        return load(str(other) if threading.current_thread().name == "rank 1" else source)

    load = data.load
    monkeypatch.setattr(data, "load", see)
    with pytest.raises(InputError, match="is not the text that the run in .* began with"):
        together(2, lambda one: ranks.run(one, options(text, tmp_path / "run")))


def test_mpirun_without_mpi4py(monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert cli.main(["train", "--steps", "1"]) == 2
    assert "pip install mpi4py" in capsys.readouterr().err


def test_only_training_runs_as_several_processes(monkeypatch, capsys):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    assert cli.main(["info"]) == 2
    assert "minigpt info runs as one process" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- real processes

MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
mpi = [
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None or MPIRUN is None, reason="no mpi4py or no mpirun"),
    pytest.mark.slow,
]


def mpirun(size: int, *command, **changes) -> subprocess.CompletedProcess:
    home = Path(parallel.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(home), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OPENBLAS_NUM_THREADS": "1",
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy":
                                ":oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe": "1"} | changes  # fmt: skip
    whole = [MPIRUN, "-n", str(size), sys.executable, *map(str, command)]
    return subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=180)


@pytest.mark.parametrize("size", [2, pytest.param(4, id="4")])
class TestWithMpirun:
    pytestmark = mpi

    def test_the_losses_of_one_process(self, size, text, tmp_path):
        alone = ranks.run(ALONE, options(text, tmp_path / "alone"))
        done = mpirun(size, Path(ranks.__file__), tmp_path / "many", text)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = json.loads((tmp_path / "many/rows.json").read_text(encoding="utf-8"))
        for one, two in zip(alone.run.rows, rows, strict=True):
            for column in ("train_loss", "val_loss"):
                assert one[column] is None or abs(one[column] - two[column]) < 1e-10
        assert done.stdout.count("validation loss") == 3 and done.stdout.count("threads 1") == 1, "one voice"

    def test_the_command(self, size, text, tmp_path):
        sizes = "--layers 1 --heads 2 --embd 16 --context 16 --batch 8 --tokenizer char --steps 6 --eval-every 3"
        arguments = ["-m", "minigpt", "train", *sizes.split(), "--data", text, "--out", tmp_path / "run"]
        done = mpirun(size, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("best validation loss") == 1 and f"each of {size} processes" in done.stdout
        assert (tmp_path / "run/model.safetensors").exists()

    def test_a_mistake_is_one_line(self, size, text, tmp_path):
        done = mpirun(size, "-m", "minigpt", "train", "--batch", "7", "--data", text, "--out", tmp_path / "run")
        assert done.returncode == 2, done
        assert done.stderr.count("--batch 7 cannot be shared") == 1 and "Traceback" not in done.stderr
        assert not (tmp_path / "run").exists()

    def test_one_that_fails_ends_all(self, size, text, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import ranks, sys\nfrom minigpt.errors import InputError\nfrom minigpt.device.parallel import started\n"
            "with started() as found:\n    if found.rank == 1:\n        raise InputError('no room here')\n"
            "    found.gather(None)\n", encoding="utf-8",
        )  # fmt: skip
        home = os.pathsep.join([str(Path(parallel.__file__).parents[1]), str(Path(__file__).parent)])
        done = mpirun(size, script, PYTHONPATH=home)
        assert done.returncode != 0 and "in process 1:" in done.stderr and "no room here" in done.stderr


