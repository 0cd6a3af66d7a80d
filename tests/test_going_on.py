"""Runs that are not lost: ended by a signal, a kill, a full disk or a removed folder, and gone on with."""

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from minigpt import GPT1, models, tokenizer
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.files.lock import locked
from minigpt.jobs import interrupt, pretrain
from minigpt.jobs.interrupt import interruptible
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen, train, training_loop

TINY = {"layers": 1, "heads": 2, "embd": 16, "context": 16, "batch": 4, "dropout": 0.1, "tokenizer": "char"}
WORDS = "--layers 1 --heads 2 --embd 16 --context 16 --batch 4 --dropout 0.1 --tokenizer char".split()
LONG = {"steps": 24, "eval_every": 8}
pytestmark = pytest.mark.usefixtures("hangup_ends", "quick_runs")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not send these signals")


@pytest.fixture(scope="module", autouse=True)
def lines():
    """A table has a line for every fourth of 24 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain.job, "LINES", 6)
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """A file of 6,000 characters."""
    rng = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "."]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(rng.choice(words) for _ in range(1700)), encoding="utf-8")
    return str(path)


def options(text: str, folder: Path, **changes) -> PretrainOptions:
    return PretrainOptions(**TINY | {"data": text, "out": str(folder), "steps": 12, "eval_every": 4} | changes)


def contents(folder: Path) -> dict:
    """Every file of a run, but for the speeds in its table."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    rows = list(csv.DictReader(found.pop("loss.csv").decode().splitlines()))
    return found | {"rows": [{key: value for key, value in row.items() if key != "tokens_per_second"} for row in rows]}


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory) -> dict:
    """The files of an undisturbed run of 24 steps."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(options(text, folder, **LONG))
    return contents(folder)


def stopped(text: str, folder: Path, step: int, **changes):
    """A run of 24 steps, stopped and kept after this one."""
    job = prepare(options(text, folder, **LONG, **changes))
    loop(job, lambda: job.step >= step)
    return job


# ------------------------------------------------------------------------------------------ the same command goes on


@pytest.mark.parametrize("step", [1, 6, 8])
def test_the_same_command_goes_on_to_the_same_bytes(step, text, whole, tmp_path, capsys):
    """Also between two lines of the table, whose mean needs the losses from before."""
    stopped(text, tmp_path / "run", step)
    capsys.readouterr()
    job = train(options(text, tmp_path / "run", **LONG))
    assert capsys.readouterr().out.startswith(f"going on with the run in {tmp_path / 'run'} at step {step}\n")
    assert job.finished and contents(tmp_path / "run") == whole


def test_a_default_and_the_same_value_by_name_agree(text, tmp_path):
    """Sizes, rate, warm-up, evaluations and the tokenizer depend on others; the run has their values."""
    sizes = {"layers": None, "heads": None, "embd": None, "context": None, "size": "nano", "tokenizer": None}
    job = prepare(options(text, tmp_path, **sizes, eval_every=None, dropout=None))
    job.save()
    kept = job.options
    by_name = {"layers": kept.layers, "heads": kept.heads, "embd": kept.embd, "context": kept.context, "size": None}
    by_name |= {
        "init_std": job.model.config.initializer_range,
        "lr": kept.lr,
        "min_lr": kept.min_lr,
        "warmup": kept.warmup,
        "eval_every": kept.eval_every,
        "dropout": 0.0,
        "model": "gpt1",
    }
    agreeing = options(text, tmp_path, **by_name)
    from minigpt.jobs.pretrain.agreement import names_of

    assert reopen(agreeing, named=names_of(agreeing)).step == 0
    again = PretrainOptions(out=str(tmp_path), resume=True, size="nano")
    assert reopen(again, named={"size", "resume", "out"}).step == 0
    with pytest.raises(InputError, match="--layers"):
        reopen(PretrainOptions(out=str(tmp_path), resume=True, size="mini"), named={"size"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--steps", "300"], "an unfinished run with --steps 24, this command says --steps 300: go on with"),
        (["--seed", "1"], "with --seed 0, this command says --seed 1"),
        (["--batch", "12"], "with --batch 4, this command says --batch 12, the default"),
        (["--model", "gpt2"], "with --model gpt1, this command says --model gpt2"),
        (["--tokenizer", "bpe:60"], "with --tokenizer char, this command says --tokenizer bpe:60"),
        (["--init", "elsewhere"], "with no --init, this command says --init elsewhere"),
        (["--resume", "--steps", "2000"], "--steps 24, this command says --steps 2000, the default: leave --steps out"),
        (["--resume", "--lr", "0.5"], r"with --lr 0\.008, this command says --lr 0\.5: leave --lr out, .* --init"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_both_values(given, message, text, tmp_path, capsys):
    stopped(text, tmp_path / "run", 3)
    before = contents(tmp_path / "run")
    words = ["--data", text, "--out", str(tmp_path / "run")]
    if "--resume" not in given:
        words += [*WORDS, "--steps", "24", "--eval-every", "8"]
    assert main(["train", *words, *given]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert contents(tmp_path / "run") == before


def test_resume_takes_what_agrees(text, whole, tmp_path):
    stopped(text, tmp_path / "run", 3)
    words = ["--batch", "4", "--steps", "24", "--tokenizer", "char", "--lr", "0.008", "--layers", "1"]
    assert main(["train", "--resume", "--out", str(tmp_path / "run"), *words]) == 0
    assert contents(tmp_path / "run") == whole


def test_resume_finds_the_folder_that_the_command_uses_itself(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = prepare(options(text, None, out=None, size="nano", layers=None, heads=None, embd=None, context=None))
    assert job.options.out == "runs/gpt1-words-nano"
    job.save()
    with pytest.raises(InputError, match="is not the text that the run in runs/gpt1-words-nano began with"):
        Path("words.txt").write_text("the cat sat " * 400, encoding="utf-8")
        train(PretrainOptions(resume=True, data="words.txt"))
    monkeypatch.setattr(training_loop, "loop", lambda job, *args, **more: None)
    assert train(PretrainOptions(resume=True, data=text)).run.folder == Path("runs/gpt1-words-nano")


def test_another_text_under_the_same_command_is_refused(text, tmp_path):
    stopped(text, tmp_path / "run", 3)
    other = tmp_path / "other.txt"
    other.write_text("another text " * 400, encoding="utf-8")
    with pytest.raises(InputError, match=r"the run in .* cannot go on with .*other.txt: the character 'r'"):
        train(options(str(other), tmp_path / "run", **LONG))
    other.write_text("the cat sat " * 400, encoding="utf-8")
    with pytest.raises(InputError, match=r"other.txt is not the text that the run in .* began with"):
        train(options(str(other), tmp_path / "run", **LONG))


def test_a_run_of_an_earlier_version_goes_on(text, whole, tmp_path):
    """It has no files in it, no losses, and does not say which line of the table is the last."""
    stopped(text, tmp_path / "run", 8)
    path = tmp_path / "run" / "resume.safetensors"
    tensors, metadata = checkpoint.load_tensors(path)
    state = json.loads(metadata["run"])
    for name in ("logged", "losses", "losses_dtype"):
        del state[name]
    state["options"]["tokenizer"] = None  # earlier versions kept defaults that only the data decides
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("file.")}
    checkpoint.save_tensors(path, tensors, {"run": json.dumps(state)})
    train(options(text, tmp_path / "run", **LONG))
    found = contents(tmp_path / "run")
    assert {name: found[name] for name in found if name != "resume.safetensors"} == {
        name: whole[name] for name in whole if name != "resume.safetensors"
    }


# -------------------------------------------------------------------------------------------------------- signals


def start(*words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "minigpt", "train", "--threads", "1", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@POSIX
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_saves_like_ctrl_c(name, status, text, tmp_path):
    process = start(*WORDS, "--steps", "100000", "--eval-every", "10", "--data", text, "--out", str(tmp_path / "run"))
    deadline = time.monotonic() + 300
    table = tmp_path / "run" / "loss.csv"
    while time.monotonic() < deadline and not (table.exists() and table.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, out + err
    assert f"{name}: finishing this update, then saving\n" in err and "everything is kept" in out
    assert reopen(PretrainOptions(out=str(tmp_path / "run"))).step > 0
    assert not list((tmp_path / "run").glob(".*"))


@POSIX
def test_signals_that_were_ignored_stay_ignored():
    """As `nohup` does it with SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(speaks=False) as number:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            assert number() == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@POSIX
def test_ctrl_c_twice_leaves_at_once_and_a_second_sigterm_does_not():
    with interruptible(speaks=False) as number:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert number() == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_main_thread_no_signal_is_caught():
    found = []

    def work():
        with interruptible(speaks=False) as number:
            found.append(number())

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0] and signal.getsignal(signal.SIGINT) == before


@POSIX
def test_a_closed_terminal_ends_the_run_whole(text, tmp_path):
    """What is printed then would raise an error."""
    import pty

    words = [*WORDS, "--steps", "100000", "--eval-every", "10", "--data", text, "--out", str(tmp_path / "run")]
    process, terminal = pty.fork()
    if process == 0:
        os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
        os.execv(sys.executable, [sys.executable, "-m", "minigpt", "train", "--threads", "1", *words])
    table = tmp_path / "run" / "loss.csv"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not (table.exists() and table.read_bytes().count(b"\n") >= 3):
        os.read(terminal, 100_000)
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    assert reopen(PretrainOptions(out=str(tmp_path / "run"))).step > 0


def test_a_signal_in_an_evaluation_does_not_wait_for_its_end(text, whole, tmp_path, monkeypatch):
    job = prepare(options(text, tmp_path / "run", **LONG))
    seen = []
    evaluate = training_loop.evaluate

    def watched(model, batches, ranks):
        return evaluate(model, (seen.append(job.step) or batch for batch in batches), ranks)

    monkeypatch.setattr(training_loop, "evaluate", watched)
    loop(job, lambda: signal.SIGTERM if seen[-3:] == [16] * 3 else 0, patient=False)
    assert job.step == 16 and seen.count(16) == 3 and not job.finished and job.stopped_by == signal.SIGTERM
    with (tmp_path / "run" / "loss.csv").open("a", encoding="utf-8") as table:
        table.write("16,1.5,,0.001,100\n")  # as if it had gone on, and had been killed before it was kept
    assert reopen(PretrainOptions(out=str(tmp_path / "run"))).run.rows[-1]["step"] == 12
    train(options(text, tmp_path / "run", **LONG))
    assert contents(tmp_path / "run") == whole


# ------------------------------------------------------------------------------------ kept by the clock, kills, disks


def test_a_run_is_kept_by_the_clock_too(text, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(interrupt, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(interrupt, "SHARE", 1e9)
    job = prepare(options(text, tmp_path / "run", **LONG))
    real = training_loop.update

    def ended(job, lr):
        if job.step == 13:
            raise KeyboardInterrupt  # saves nothing, as a kill
        return real(job, lr)

    with monkeypatch.context() as patch:
        patch.setattr(training_loop, "update", ended)
        with pytest.raises(KeyboardInterrupt):
            loop(job)
    assert reopen(PretrainOptions(out=str(tmp_path / "run"))).step == 13
    train(options(text, tmp_path / "run", **LONG))
    assert contents(tmp_path / "run") == whole


def test_keeping_that_takes_long_happens_less_often(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now[0])
    timer = interrupt.Timer()
    assert not timer.due
    now[0] += interrupt.KEEP_SECONDS
    assert timer.due
    with timer.keeping():
        now[0] += 60  # a twentieth of 20 minutes
    now[0] += 1199
    assert not timer.due
    now[0] += 1
    assert timer.due


def test_a_full_disk_says_what_is_kept(text, whole, tmp_path, monkeypatch, capsys):
    words = ["train", *WORDS, "--steps", "24", "--eval-every", "8", "--data", text, "--out", str(tmp_path / "run")]
    sync = os.fsync

    def full(handle):
        if "\n16," in (tmp_path / "run" / "loss.csv").read_text(encoding="utf-8"):
            raise OSError(28, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patch:
        stopped(text, tmp_path / "run", 5)
        patch.setattr(os, "fsync", full)
        assert main(words) == 2
    error = capsys.readouterr().err
    assert "resume.safetensors: the disk is full; what was there before is untouched. " in error
    assert error.endswith("The run is kept as it was at step 8: once that is put right, the same command goes on\n")
    assert main(words) == 0
    assert contents(tmp_path / "run") == whole


def test_a_second_writer_is_refused(text, tmp_path, capsys):
    with locked(tmp_path / "run"):
        words = [*WORDS, "--data", text, "--out", str(tmp_path / "run")]
        assert main(["train", *words]) == 2
        assert "another process is writing to" in capsys.readouterr().err
        assert main(["tokenizer", "train", "--data", text, "--out", str(tmp_path / "run")]) == 2
        assert "another process is writing to" in capsys.readouterr().err


def test_a_folder_that_is_removed_during_the_run_is_noticed(text, tmp_path):
    job = prepare(options(text, tmp_path / "run"))
    loop(job, lambda: job.step >= 5)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(InputError, match=r"was removed or emptied during the run: the run .* at step 8 is kept there"):
        loop(job)
    assert train(options(text, tmp_path / "run")).finished
    train(options(text, tmp_path / "whole"))
    found, expected = contents(tmp_path / "run"), contents(tmp_path / "whole")
    assert {name for name in found if found[name] != expected[name]} == set()
    models.open_both(tmp_path / "run")


def test_where_the_best_model_is_lost_the_next_one_is_the_best(text, tmp_path):
    job = prepare(options(text, tmp_path))
    loop(job, lambda: job.step >= 5)
    job.best = 0.0  # which no other will reach
    job.save()
    (tmp_path / "model.safetensors").unlink()
    assert train(options(text, tmp_path)).best > 1
    models.open_both(tmp_path)


def test_where_the_model_of_a_finished_run_is_lost_the_last_one_takes_its_place(text, tmp_path, capsys):
    run = tmp_path / "run"
    job = train(options(text, run))
    (run / "model.safetensors").unlink()
    capsys.readouterr()
    again = train(options(text, run))
    assert "its best model was lost: the last one is there in its place" in capsys.readouterr().out
    assert again.best == job.run.rows[-1]["val_loss"]
    kept = dict(job.model.named_parameters())
    for name, parameter in models.open_model(run).named_parameters():
        assert np.array_equal(parameter.data, kept[name].data)
    assert "lost" not in (train(options(text, run)), capsys.readouterr().out)[1]


@pytest.mark.parametrize("name", ["vocab.json", "tokenizer.json", "merges.txt"])
def test_a_lost_file_of_the_tokenizer_comes_back(name, text, tmp_path):
    kind = "char" if name == "tokenizer.json" else "bpe:60"
    job = prepare(options(text, tmp_path, tokenizer=kind))
    loop(job, lambda: job.step >= 5)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    reopen(PretrainOptions(out=str(tmp_path)))
    assert (tmp_path / name).read_bytes() == content


def test_what_an_earlier_version_left_of_a_start_does_not_block(text, tmp_path):
    """An empty table, and the tokenizer of this very run. Another tokenizer does."""
    job = prepare(options(text, tmp_path / "run"))
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "loss.csv").touch()
    job.text.save(tmp_path / "run")
    assert train(options(text, tmp_path / "run")).finished
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run" / "loss.csv").touch()
    (tmp_path / "run" / "tokenizer.json").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="already holds a tokenizer.json, with another content"):
        train(options(text, tmp_path / "run"))
    assert (tmp_path / "run" / "tokenizer.json").read_text(encoding="utf-8") == "mine"


def test_a_vocabulary_without_its_merges_is_completed(text, tmp_path, capsys):
    words = ["tokenizer", "train", "--data", text, "--vocab", "60", "--out", str(tmp_path / "words")]
    assert main(words) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "words").iterdir()}
    (tmp_path / "words" / "merges.txt").unlink()
    (tmp_path / "words" / ".vocab.json.0a1b2c3d.part").touch()
    assert main(words) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "words").iterdir()} == before


# -------------------------------------------------------------------------------------------------- model.save


def test_a_model_is_not_saved_over_a_run(text, tmp_path):
    job = prepare(options(text, tmp_path))
    loop(job, lambda: job.step >= 5)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="holds a training run, whose best model would be lost: give another folder"):
        job.model.save(tmp_path)
    assert contents(tmp_path) == before
    job.model.save(tmp_path, overwrite=True)
    assert contents(tmp_path) != before


def test_a_model_is_not_saved_beside_a_tokenizer_of_another_size(tmp_path):
    text = tokenizer.CharTokenizer.train("abc")
    text.save(tmp_path)
    wrong, right = (GPT1(GPT1.Config(vocab_size=n, n_positions=4, n_embd=4, n_layer=1, n_head=1))
                    for n in (50, text.vocab_size))  # fmt: skip
    with pytest.raises(InputError, match=f"a tokenizer of {text.vocab_size} tokens, and this model has 50"):
        wrong.save(tmp_path)
    right.save(tmp_path)
    right.save(tmp_path)
    with pytest.raises(InputError, match="and this model has 50"):
        wrong.save(tmp_path)
    wrong.save(tmp_path, overwrite=True)
    wrong.save(tmp_path)  # nothing is parted that was together
