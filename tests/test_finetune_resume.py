"""Fine-tuning is not lost: stopped, killed, or out of disk at any moment, the same command ends with the same bytes."""

import contextlib
import errno
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_finetune import lines, pretrained, write  # noqa: F401  (a fixture)

import minigpt
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs import finetune, interrupt
from minigpt.jobs.finetune import FinetuneOptions, job, kept

OUT = "run"  # relative, because a run remembers its own options
UPDATES = 6  # of a seed
pytestmark = pytest.mark.usefixtures("hangup_ends", "quick_runs")


@pytest.fixture(scope="module")
def options(pretrained, tmp_path_factory) -> dict:  # noqa: F811
    """Two seeds of two epochs with three updates each, with dropout."""
    folder = tmp_path_factory.mktemp("labels")
    train, valid = (write(folder / f"{name}.tsv", lines("classification", 20, seed))
                    for seed, name in enumerate(("train", "valid")))  # fmt: skip
    return {"model": pretrained, "task": "classification", "train": train, "valid": valid, "epochs": 2, "batch": 6,
            "seeds": 2, "dropout": 0.2, "lr": 0.01, "out": OUT}  # fmt: skip


def slow(*values) -> list:
    """Further values of a parameter, tried where there is time."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


PROGRAM = "import sys; from minigpt.cli import main; sys.exit(main(sys.argv[1:]))"


def command(options: dict) -> list[str]:
    words = ["finetune", options["model"]]
    for name, value in options.items():
        if name != "model":
            words += [f"--{name}", str(value)]
    return words


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory) -> dict[str, bytes]:
    """What a run that nothing disturbs leaves."""
    with contextlib.chdir(tmp_path_factory.mktemp("whole")):
        assert finetune.finetune(FinetuneOptions(**options)).stopped_by == 0
        return files(Path(OUT))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The folder of a run that is disturbed; the working folder is the one that it lies in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / OUT


class Killed(BaseException):
    """The process is gone: nothing runs after it that would run for a mistake."""


def counted(monkeypatch, owner, name: str, stops_at: int, error: BaseException | None, after: bool = False) -> list:
    """Let call number `stops_at` of a function raise an error, before or after it has done its work."""
    real, calls = getattr(owner, name), []

    def call(*args, **options):
        calls.append(args)
        if len(calls) == stops_at and not after:
            raise error
        found = real(*args, **options)
        if len(calls) == stops_at:
            raise error
        return found

    monkeypatch.setattr(owner, name, call)
    return calls


def keep_every(monkeypatch, seconds: float) -> None:
    """Keep a run that often, however long it takes."""
    monkeypatch.setattr(interrupt, "KEEP_SECONDS", seconds)
    monkeypatch.setattr(interrupt, "SHARE", math.inf)


def test_a_whole_run_leaves_what_it_should(whole):
    in_seed = {"config.json", "model.safetensors", "classifier.safetensors", "vocab.json", "merges.txt"}
    expected = {"finetune.csv", "finetune.png", "results.json", "resume.safetensors"}
    expected |= {f"seed-{seed}/{name}" for seed in (0, 1) for name in (*in_seed, "tokenizer_config.json")}
    assert set(whole) == expected
    assert len(whole["resume.safetensors"]) < 5000, "a finished run keeps no weights twice"


REPLACES = 38  # files that a whole run writes


def test_how_many_files_a_run_writes(options, here, monkeypatch):
    calls = counted(monkeypatch, os, "replace", 0, None)
    finetune.finetune(FinetuneOptions(**options))
    assert len(calls) == REPLACES
    assert Path(calls[0][1]).name == "resume.safetensors", "the first file marks the folder as a run"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 9, 18, 27, REPLACES, *slow(4, 17, 19, 28, REPLACES - 1)])
def test_killed_at_a_file_the_same_command_ends_with_the_same_bytes(options, whole, here, monkeypatch, number, after):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        counted(patch, os, "replace", number, Killed(), after)
        finetune.finetune(FinetuneOptions(**options))
    assert finetune.finetune(FinetuneOptions(**options)).stopped_by == 0
    assert files(here) == whole


@pytest.mark.parametrize("every", [0, *slow(1e9)])
@pytest.mark.parametrize("number", [2, UPDATES, UPDATES + 2, *slow(1, 3, 4, UPDATES + 1, 2 * UPDATES - 1)])
def test_killed_at_an_update(options, whole, here, monkeypatch, number, every):
    """Kept after every update, or at the ends of epochs alone."""
    keep_every(monkeypatch, every)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        counted(patch, finetune.Tuning, "update", number, Killed(), after=True)
        finetune.finetune(FinetuneOptions(**options))
    with monkeypatch.context() as patch:
        calls = counted(patch, finetune.Tuning, "update", 0, None)
        assert main(["finetune", "--resume", "--out", OUT]) == (0 if here.exists() else 2)
    if every == 0:
        assert len(calls) == 2 * UPDATES - (number - 1), "nothing that was kept is done again"
    assert files(here) == whole


@pytest.mark.parametrize(("number", "name"), [(2, "INT"), (3, "TERM"), (UPDATES + 1, "HUP"), (UPDATES + 2, "INT")])
def test_stopped_by_a_signal_it_goes_on_to_the_same_bytes(options, whole, here, monkeypatch, capsys, number, name):
    number_of_signal = getattr(signal, f"SIG{name}")
    real = finetune.Tuning.update

    def update(tuning):
        real(tuning)
        if len(tuning.losses) + tuning.seed * UPDATES + tuning.epoch * 3 == number:
            os.kill(os.getpid(), number_of_signal)

    with monkeypatch.context() as patch:
        patch.setattr(finetune.Tuning, "update", update)
        assert main(command(options)) == 128 + number_of_signal
    seed, step = divmod(number, UPDATES)
    said = capsys.readouterr().out
    assert f"stopped at update {step} of seed {seed}; everything is kept. Go on: the same command, or minigpt" in said
    calls = counted(monkeypatch, finetune.Tuning, "update", 0, None)
    assert main(command(options)) == 0
    assert f"going on with the run in {OUT} at update {step} of seed {seed}\n" in capsys.readouterr().out
    assert len(calls) == 2 * UPDATES - number and files(here) == whole


def test_stopped_during_an_evaluation(options, whole, here, monkeypatch):
    arrived = []
    real = finetune.tuning.evaluate

    def evaluate(*args):
        arrived.append(signal.SIGINT)
        return real(*args)

    @contextlib.contextmanager
    def interruptible(speaks):
        yield lambda: arrived[0] if arrived else 0

    with monkeypatch.context() as patch:
        patch.setattr(finetune.tuning, "evaluate", evaluate)
        patch.setattr(job, "interruptible", interruptible)
        assert finetune.finetune(FinetuneOptions(**options)).stopped_by == signal.SIGINT
    assert kept.Kept.load(here).tuning["step"] == 3 and kept.Kept.load(here).tuning["epoch"] == 0
    finetune.finetune(FinetuneOptions(out=OUT, resume=True))
    assert files(here) == whole


@pytest.mark.parametrize("number", [1, 4, 30, *slow(2, 3, 8, 12, 60, 75)])
def test_a_full_disk_loses_nothing(options, whole, here, monkeypatch, capsys, number):
    with monkeypatch.context() as patch:
        counted(patch, os, "fsync", number, OSError(errno.ENOSPC, "No space left on device"))
        status = main(command(options))
    error = capsys.readouterr().err
    assert status == 0 or "the disk is full; what was there before is untouched" in error
    assert not list(here.rglob(".*.part"))
    assert main(command(options)) == 0
    assert files(here) == whole


def test_other_labels_or_another_model_are_not_gone_on_with(options, here, tmp_path, monkeypatch, capsys):
    keep_every(monkeypatch, 0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        counted(patch, finetune.Tuning, "update", 3, Killed())
        finetune.finetune(FinetuneOptions(**options))
    before = files(here)
    moved = tmp_path / "moved.tsv"
    moved.write_bytes(Path(options["train"]).read_bytes().replace(b"mia", b"tom").replace(b"tom", b"mia"))
    model = str(other_model(options, tmp_path))
    for change, message in (({"train": str(moved)}, "--train are not what"), ({"lr": 0.5}, "says --lr 0.5"),
                            ({"model": model}, "weights of MODEL are not what the run in run began with")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            finetune.finetune(FinetuneOptions(**options | change))
        assert main(["finetune", "--resume", *command(options | change)[1:]]) == 2
    assert files(here) == before
    moved.write_bytes(Path(options["train"]).read_bytes())
    again = finetune.finetune(FinetuneOptions(**options | {"train": str(moved)}))
    assert again.stopped_by == 0, "only the place of the file is another"


def test_a_folder_that_is_removed_during_the_run_is_told(options, whole, here, monkeypatch, capsys):
    real = finetune.Tuning.update

    def update(tuning):
        real(tuning)
        if tuning.seed == 0 and tuning.step == 4:
            shutil.rmtree(here)

    with monkeypatch.context() as patch:
        patch.setattr(finetune.Tuning, "update", update)
        assert main(command(options)) == 2
    assert "run was removed or emptied during the run: the seed at work is kept there again" in capsys.readouterr().err
    assert main(command(options)) == 0 and files(here) == whole
    (here / "seed-0" / "model.safetensors").unlink()
    assert main(command(options)) == 2
    assert "run/seed-0 no longer holds the model of a finished seed: remove" in capsys.readouterr().err


def other_model(options: dict, tmp_path: Path) -> Path:
    from minigpt import models

    model, text = models.open_both(options["model"])
    model.h[0].mlp.c_fc.weight.data[0, 0] += 1
    model.save(tmp_path / "other")
    text.save(tmp_path / "other")
    return tmp_path / "other"


@pytest.mark.slow
def test_killed_at_random_moments_until_it_ends(options, tmp_path, monkeypatch):
    """Real processes and SIGKILL: twenty times, or fewer where a quick machine is at the end before."""
    long = options | {"epochs": 60}
    for name, most, least in (("whole", 0, 0), ("killed", 20, 10)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        kills = run_and_kill(command(long), most)
        assert least <= kills <= most
    left, expected = files(tmp_path / "killed" / OUT), files(tmp_path / "whole" / OUT)
    assert left == expected, [name for name in expected if left.get(name) != expected[name]]


def run_and_kill(words: list[str], times: int) -> int:
    """Run a command in processes of which so many are killed at random moments, until one ends; how many were killed.

    Every eighth is killed while it still reads its model and its examples.
    """
    rng, kills = random.Random(0), 0
    program = [sys.executable, "-c", PROGRAM, *words]
    place = os.environ | {"PYTHONPATH": str(Path(minigpt.__file__).parents[1])}
    while True:
        process = subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=place
        )
        at_start = kills % 8 == 7
        while not at_start and not process.stdout.readline().startswith(("folder", "this run is finished")):
            assert process.poll() is None
        try:
            process.wait(rng.uniform(0, 1.5 if at_start else 0.2) if kills < times else None)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.stdout.close()
        if process.wait() == 0:
            return kills
