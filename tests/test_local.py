"""Processes of one machine: they meet in shared memory, add the same bits, and end together."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from minigpt.cli.main import main
from minigpt.device import local, parallel
from minigpt.errors import InputError

ROOT = Path(__file__).parent.parent
SMALL = ["--data", "stories:60", "--layers", "1", "--heads", "2", "--embd", "16", "--context", "16", "--batch", "8"]


def together(size: int, body, path: Path) -> list:
    """What body(one) returns for each of `size` places; each runs in a thread of its own. An error is raised here."""
    path.write_bytes(bytes((size + 1) * local.LINE + 2 * size * local.SLOT))
    results = [None] * size

    def run(rank):
        try:
            results[rank] = body(local.Local(path, rank, size))
        except BaseException as error:
            results[rank] = error

    ranks = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
        assert not rank.is_alive(), "it waits for ever"
    return results


@pytest.fixture(autouse=True)
def short_messages(monkeypatch):
    monkeypatch.setattr(local, "SLOT", 64)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_values_of_every_length_arrive_everywhere_in_order(size, tmp_path):
    def body(one):
        return [one.allgather({str(one.rank): "x" * length * (1 + one.rank)}) for length in (0, 1, 9, 40, 64, 65, 200)]

    for result in together(size, body, tmp_path / "memory"):
        expected = [
            [{str(rank): "x" * length * (1 + rank)} for rank in range(size)] for length in (0, 1, 9, 40, 64, 65, 200)
        ]
        assert result == expected


@pytest.mark.parametrize("value", [6, 0.1, float("inf"), None, "word", True, (1, 2, 200)])
def test_one_value_goes_to_all(value, tmp_path):
    """Also what names a group of NCCL: a tuple of numbers."""
    given = [None, value, "another"]
    assert together(3, lambda one: one.bcast(given[one.rank], root=1), tmp_path / "memory") == [value] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 3), (64,), (5, 7, 11)])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sum_has_the_same_bits_everywhere(size, shape, dtype, tmp_path):
    given = [np.asarray(100 * np.random.default_rng(rank).standard_normal(shape), dtype) for rank in range(size)]

    def body(one):
        total = np.empty(shape, dtype)
        one.Allreduce(given[one.rank], total)
        return total

    totals = together(size, body, tmp_path / "memory")
    assert np.allclose(totals[0], sum(given), rtol=1e-5)
    assert len({total.tobytes() for total in totals}) == 1


def test_many_rounds_of_ranks_that_are_not_equally_fast(tmp_path):
    def body(one):
        ranks = parallel.Ranks(one)
        total = 0.0
        for turn in range(30):
            if turn % 3 == one.rank:
                time.sleep(0.005)
            arrays = [np.full(3, one.rank + turn, "f"), np.full((20, 2), one.rank * 1.0), np.ones(1, "f")]
            ranks.sum(arrays)
            total += arrays[0][0] + arrays[1][3, 1] + arrays[2][0]
        return total

    expected = sum(3 * turn + 3 + 3 + 3 for turn in range(30))
    assert together(3, body, tmp_path / "memory") == [expected] * 3


def test_small_arrays_go_as_one_message(tmp_path):
    def body(one):
        calls = []
        reduce = one.Allreduce
        one.Allreduce = lambda mine, total: (calls.append(mine.size), reduce(mine, total))
        parallel.Ranks(one).sum([np.ones(3), np.ones((2, 2)), np.ones(parallel.SMALL // 8), np.ones(5, "f")])
        return calls

    assert together(2, body, tmp_path / "memory") == [[parallel.SMALL // 8, 7, 5]] * 2


def test_when_one_aborts_the_others_end_with_its_status(tmp_path):
    ended = together(2, lambda one: one.Abort(2) if one.rank else one.allgather(None), tmp_path / "memory")
    assert type(ended[0]) is SystemExit and ended[0].code == 2


def test_the_first_notices_that_another_is_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "CHECK", 0.01)
    path = tmp_path / "memory"
    path.write_bytes(bytes(3 * local.LINE + 4 * local.SLOT))
    dead = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    with pytest.raises(InputError, match=r"process 1 of 2 has ended \(status 7\)"):
        local.Local(path, 0, 2, [dead]).allgather(None)


def test_where_there_is_no_room(monkeypatch, tmp_path):
    def refuse(**given):
        raise OSError("full")

    monkeypatch.setattr(local.tempfile, "mkstemp", refuse)
    with pytest.raises(InputError, match="--processes 2: no room for a file of"), local.started([], 2):
        raise AssertionError("not reached")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_folder_that_is_full_keeps_no_part_of_a_file(monkeypatch, tmp_path):
    name = tmp_path / "minigpt-memory"
    name.touch()
    monkeypatch.setattr(local.tempfile, "mkstemp", lambda **given: (os.open("/dev/full", os.O_WRONLY), str(name)))
    with pytest.raises(InputError, match="no room"):
        local.meeting_place(2)
    assert not name.exists()


@pytest.mark.parametrize("size", [0, -3])
def test_a_number_below_one(size, capsys):
    assert main(["train", *SMALL, "--processes", str(size)]) == 2
    assert capsys.readouterr().err == f"minigpt: --processes {size}: give 1 or more\n"


def test_it_belongs_to_training(capsys):
    assert main(["sample", "runs/x", "--processes", "2"]) == 2
    assert "sample has no option --processes: it belongs to minigpt train" in capsys.readouterr().err


def test_not_under_mpirun(monkeypatch):
    monkeypatch.setattr(parallel, "_world", lambda: None)
    monkeypatch.setattr(parallel, "processes", lambda: 2)
    with pytest.raises(InputError, match="leave out --processes 2"), parallel.started(size=2):
        raise AssertionError("not reached")


@pytest.mark.parametrize("words", [["--threads", "3"], ["--processes", "2", "--threads", "2"], ["--processes", "4"]])
def test_more_than_the_cores_is_said(words, monkeypatch, capsys, tmp_path):
    """And then it is done: here as far as to a batch that three or four processes cannot share, or a missing file."""
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    assert main(["train", *words, "--data", str(tmp_path / "missing.txt"), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert f"minigpt: {' '.join(words)} on 2 cores: they take turns, which is slower\n" in said


def minigpt(*words, **options) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "minigpt", *words]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **options
    )


def losses(folder: Path) -> list:
    rows = (folder / "loss.csv").read_text(encoding="utf-8").splitlines()
    return [row.split(",")[1:3] for row in rows[1:]]


def left_behind() -> set:
    """The files that processes meet in, without those that a running process holds."""
    found = {path for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("minigpt-*") if path.is_file()}
    held = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # a process that has just ended, or is another user's
            held += maps.read_text(encoding="utf-8", errors="replace")
    return {path for path in found if str(path) not in held}


def test_two_processes_train_as_one_does(tmp_path, set_threads, no_pictures):
    before = left_behind()
    words = ["train", *SMALL, "--steps", "6", "--dropout", "0.1", "--out"]
    run = minigpt(*words, "both", "--processes", "2", cwd=tmp_path)
    assert main([*words, str(tmp_path / "alone")]) == 0
    said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert "each of 2 processes has 1 thread" in said[0] and said[0].count("best validation loss") == 1
    alone, both = losses(tmp_path / "alone"), losses(tmp_path / "both")
    assert len(alone) == len(both) > 1
    for one, two in zip(alone, both, strict=True):
        for a, b in zip(one, two, strict=True):
            assert (a == b == "") or abs(float(a) - float(b)) < 1e-4
    assert left_behind() <= before


def test_a_mistake_is_told_once(tmp_path):
    run = minigpt("train", *SMALL, "--batch", "9", "--steps", "6", "--processes", "2", "--out", "run", cwd=tmp_path)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 2
    assert said.count("--batch 9 cannot be shared by 2 processes: choose 8 or 10") == 1 and "Traceback" not in said


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the other process in /proc")
@pytest.mark.slow
@pytest.mark.parametrize("whom", ["first", "other"])
def test_both_end_when_one_is_ended(whom, tmp_path):
    """SIGTERM to the first: all is kept, and the run goes on. A killed other one: the first says so, in one line."""
    words = ["--steps", "100000", "--processes", "2", "--out", "run"]
    run = minigpt("train", *SMALL, *words, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "loss.csv").exists() or len(losses(tmp_path / "run")) < 2:
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    (other,) = _children(run.pid)
    if whom == "first":
        run.terminate()
    else:
        os.kill(other, signal.SIGKILL)
    printed, said = run.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)
    assert "Traceback" not in said
    if whom == "first":
        assert run.returncode == 143 and printed.count("everything is kept. Go on: minigpt train --resume") == 1
        assert minigpt("sample", "run", "--tokens", "2", cwd=tmp_path).wait(60) == 0
    else:
        assert run.returncode == 2 and "process 1 of 2 has ended (status -9)" in said


def _children(pid: int) -> list[int]:
    """The processes that this one has started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that has just ended
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(file.parent.name))
    return found
