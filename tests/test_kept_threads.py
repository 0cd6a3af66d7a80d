"""A run that is stopped and goes on computes with as many threads as before: other numbers of them give other bits."""

import dataclasses
import json
from pathlib import Path

import pytest
from test_finetune import lines, pretrained, write  # noqa: F401  (fixtures)

from minigpt.cli import main
from minigpt.device.threads import threads
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs import finetune, run_state
from minigpt.jobs.finetune import FinetuneOptions
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen
from minigpt.jobs.run_state import use_kept_threads, workers

pytestmark = pytest.mark.usefixtures("quick_runs")
PATH = Path("resume.safetensors")


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(run_state, "cores", lambda: 4)


def edit_state(folder: Path, key: str, change) -> None:
    """Change the state that a run in this folder has kept."""
    path = folder / PATH
    tensors, metadata = checkpoint.load_tensors(path)
    state = json.loads(metadata[key])
    change(state)
    checkpoint.save_tensors(path, tensors, metadata | {key: json.dumps(state)})


@pytest.mark.parametrize(
    ("kept", "given", "processes", "expected", "told"),
    [
        (None, False, 1, 2, ""),  # an earlier version
        ({"processes": 1, "threads": 2}, False, 1, 2, ""),
        ({"processes": 1, "threads": 3}, False, 1, 3, "threads  3, as the run had before"),
        ({"processes": 1, "threads": 4}, False, 1, 4, "threads  4, as the run had before"),
        ({"processes": 1, "threads": 5}, False, 1, 2, "workers  2 threads, before 5: sums are"),  # 4 cores
        ({"processes": 1, "threads": 3}, True, 1, 2, "workers  2 threads, before 3: sums are"),
        ({"processes": 2, "threads": 3}, False, 2, 3, "threads  3, as the run had before"),
        ({"processes": 2, "threads": 2}, False, 1, 2, "workers  1 processes, before 2: sums are"),
        ({"processes": 2, "threads": 1}, False, 1, 2, "workers  1 processes, before 2 and 2 threads, before 1: sums"),
    ],
)  # fmt: skip
def test_the_kept_number_holds_unless_another_is_given(set_threads, capsys, kept, given, processes, expected, told):
    set_threads(2)
    use_kept_threads(kept, PATH, processes, given)
    said = capsys.readouterr().out
    assert threads() == expected and said.startswith(told) and said.count("\n") == bool(told)


@pytest.mark.parametrize("kept", [3, {}, {"threads": 2}, {"processes": 1, "threads": 0},
                                  {"processes": 1, "threads": "2"}, {"processes": 1, "threads": True}])  # fmt: skip
def test_a_number_that_no_run_has_is_refused(kept):
    with pytest.raises(InputError, match="resume.safetensors: its workers are .*, which no run has"):
        use_kept_threads(kept, PATH)


@pytest.fixture
def stopped(tmp_path, set_threads) -> Path:
    """A run of three threads that was stopped; now there are two."""
    set_threads(3)
    sizes = {"layers": 1, "heads": 2, "embd": 8, "context": 16, "batch": 2, "steps": 4}
    job = prepare(PretrainOptions(**sizes, data="stories:20", tokenizer="char", out=str(tmp_path / "run")))
    loop(job, lambda: job.step >= 2)
    set_threads(2)
    return tmp_path / "run"


def test_training_goes_on_with_the_threads_of_the_run(stopped, capsys):
    job = reopen(PretrainOptions(out=str(stopped)))
    assert threads() == 3 and "threads  3, as the run had before" in capsys.readouterr().out
    assert job.state["workers"] == {"processes": 1, "threads": 3}


def test_the_command_line_may_give_another_number(stopped, capsys):
    assert main(["train", "--resume", "--out", str(stopped), "--threads", "2"]) == 0
    assert threads() == 2 and "workers  2 threads, before 3: sums are" in capsys.readouterr().out
    assert main(["train", "--resume", "--out", str(stopped)]) == 0  # it is finished: nothing is computed
    assert threads() == 2 and "threads" not in capsys.readouterr().out


def test_the_command_line_takes_the_kept_number(stopped, capsys):
    assert main(["train", "--resume", "--out", str(stopped)]) == 0
    assert threads() == 3 and "threads  3, as the run had before" in capsys.readouterr().out


def test_a_run_of_an_earlier_version_goes_on(stopped):
    edit_state(stopped, "run", lambda state: state.pop("workers"))
    reopen(PretrainOptions(out=str(stopped)))
    assert threads() == 2


def stop_at_update_2(monkeypatch, words: list[str]) -> None:
    """Run a fine-tuning that somebody stops."""
    real = finetune.Tuning.update

    def update(tuning):
        if tuning.step == 2:
            raise KeyboardInterrupt
        real(tuning)

    with monkeypatch.context() as patch:
        patch.setattr(finetune.Tuning, "update", update)
        main(words)


def test_fine_tuning_goes_on_with_the_threads_of_the_run(pretrained, tmp_path, set_threads, monkeypatch, capsys):  # noqa: F811
    train = write(tmp_path / "train.tsv", lines("classification", 20))
    out = tmp_path / "out"
    words = ["finetune", pretrained, "--task", "classification", "--train", train, "--epochs", "1", "--batch", "4"]
    words += ["--out", str(out)]
    for given, number, told in (([], 3, "threads  3, as"), (["--threads", "2"], 2, "workers  2 threads, before 3")):
        stop_at_update_2(monkeypatch, [*words, "--threads", "3"])
        set_threads(2)
        edit_state(out, "finetune", lambda state: state["workers"])  # it is there
        capsys.readouterr()
        assert main([*words, *given]) == 0
        assert threads() == number and told in capsys.readouterr().out
        for path in sorted(out.iterdir()):
            path.unlink()
    stop_at_update_2(monkeypatch, [*words, "--threads", "3"])
    set_threads(2)
    edit_state(out, "finetune", lambda state: state.pop("workers"))  # an earlier version
    assert main(words) == 0 and threads() == 2


def test_what_is_kept_is_the_number_at_work(set_threads):
    set_threads(3)
    assert workers() == {"processes": 1, "threads": 3} and workers(2)["processes"] == 2
    assert "threads" not in {field.name for field in dataclasses.fields(FinetuneOptions)}
