"""Training runs: what they write, that they go on exactly where they stopped, and that nothing is ever lost."""

import contextlib
import csv
import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from helpers import is_rounded, repeat_steps, same, snapshot

from minigpt import GPT1, data, models, ops, plot
from minigpt.device import arrays, gpu
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs.pretrain import (
    PretrainOptions,
    announcement,
    evaluate,
    loop,
    prepare,
    rate,
    reopen,
    step,
    train,
    training_loop,
    update,
    validation_batches,
)
from minigpt.jobs.run_folder import COLUMNS
from minigpt.models import costs
from minigpt.nn import Parameter

SIZES = {"layers": 1, "heads": 2, "embd": 16, "context": 16}
pytestmark = pytest.mark.usefixtures("quick_runs")
DRAW = plot.loss_curve
TINY = SIZES | {"batch": 4, "steps": 12, "eval_every": 4, "tokenizer": "char"}


def valid_loss(model, tokens, batch, starts=None):
    """The loss over all of these tokens, in nats."""
    return evaluate(model, validation_batches(tokens, model.config.n_positions, batch, starts))


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """A file of 6,000 characters, which a small model can learn something about."""
    rng = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "."]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(rng.choice(words) for _ in range(1700)), encoding="utf-8")
    return str(path)


def options(text: str, folder: Path, **changes) -> PretrainOptions:
    return PretrainOptions(**TINY | {"data": text, "out": str(folder)} | changes)


def weights(folder: Path) -> dict[str, bytes]:
    """The bytes of the best model and of the end of the run."""
    return {name: (folder / name).read_bytes() for name in ("model.safetensors",)} | {
        name: tensor.tobytes() for name, tensor in checkpoint.load_tensors(folder / "resume.safetensors")[0].items()
    }


def stop_after(job, steps: int):
    return lambda: job.step >= steps


def test_a_run_writes_a_model_a_table_and_a_picture(text, tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    job = train(options(text, tmp_path))
    rows = list(csv.DictReader((tmp_path / "loss.csv").open(encoding="utf-8")))
    assert tuple(rows[0]) == COLUMNS
    evaluated = [int(row["step"]) for row in rows if row["val_loss"]]
    assert evaluated == [0, 4, 8, 12]
    assert abs(float(rows[0]["val_loss"]) - math.log(job.model.config.vocab_size)) < 0.1, "loss at chance is ln V"
    assert float(rows[-1]["val_loss"]) < float(rows[0]["val_loss"]) - 0.1
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    model, text_of = models.open_both(tmp_path)
    assert valid_loss(model, job.valid, 4) == pytest.approx(job.best, rel=1e-6), "the export is the best model"
    assert text_of.decode(text_of.encode("the cat")) == "the cat"


def test_the_export_is_the_best_model_not_the_last(text, tmp_path):
    job = prepare(options(text, tmp_path, steps=8, eval_every=4))
    loop(job, stop_after(job, 4))
    best = (tmp_path / "model.safetensors").read_bytes()
    for parameter in job.model.parameters():
        parameter.data *= 3  # from here on it can only be worse
    loop(job)
    assert (tmp_path / "model.safetensors").read_bytes() == best


def test_stopped_and_resumed_is_the_same_run_to_the_bit(text, tmp_path):
    changes = {"dropout": 0.2}
    train(options(text, tmp_path / "whole", **changes))
    job = prepare(options(text, tmp_path / "parts", **changes))
    loop(job, stop_after(job, 5))  # not at an evaluation
    job = reopen(PretrainOptions(out=str(tmp_path / "parts")))
    assert job.step == 5
    loop(job)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    whole, parts = (list(csv.DictReader((tmp_path / name / "loss.csv").open())) for name in ("whole", "parts"))
    assert [row["step"] for row in whole] == [row["step"] for row in parts]


def test_lines_of_the_table_after_the_kept_state_are_forgotten(text, tmp_path):
    job = prepare(options(text, tmp_path))
    loop(job, stop_after(job, 6))
    with (tmp_path / "loss.csv").open("a") as file:
        file.write("9,1.5,,0.001,100\n")
    job = reopen(PretrainOptions(out=str(tmp_path)))
    assert max(row["step"] for row in job.run.rows) == 6


def test_a_batch_in_parts_is_the_same_batch(text, tmp_path):
    gradients = []
    for accumulate in (1, 2, 4):
        job = prepare(options(text, tmp_path / str(accumulate), accumulate=accumulate, dropout=0.3, clip=0.0))
        before = [p.data.copy() for p in job.model.parameters()]
        loss = update(job, lr=0.0)
        assert all((p.data == b).all() for p, b in zip(job.model.parameters(), before, strict=True)), "the rate was 0"
        gradients.append((float(loss), [p.grad for p in job.model.parameters()]))
    for loss, parts in gradients[1:]:
        assert loss == pytest.approx(gradients[0][0], rel=1e-6)
        for whole, part in zip(gradients[0][1], parts, strict=True):
            np.testing.assert_allclose(part, whole, rtol=2e-4, atol=2e-6)


def test_another_seed_is_another_run(text, tmp_path):
    losses = [train(options(text, tmp_path / str(seed), seed=seed)).best for seed in (0, 1)]
    assert losses[0] != losses[1]


def test_going_on_from_a_model_keeps_its_weights_and_tokenizer(text, tmp_path):
    first = train(options(text, tmp_path / "a"))
    job = prepare(PretrainOptions(data=text, init=str(tmp_path / "a"), out=str(tmp_path / "b"), steps=4, dropout=0.25))
    assert valid_loss(job.model, job.valid, 4) == pytest.approx(first.best, rel=1e-6)
    assert job.model.config.resid_pdrop == 0.25
    assert job.options.lr == 0.256 / 16
    with pytest.raises(InputError, match="--layers"):
        prepare(PretrainOptions(data=text, init=str(tmp_path / "a"), out=str(tmp_path / "c"), layers=2))


def test_evaluation_predicts_every_token_once(text, tmp_path):
    job = prepare(options(text, tmp_path))
    tokens = job.valid[:75]  # windows of 16: four whole ones and a rest
    expected, start = [], 0
    while start < len(tokens) - 1:
        window = tokens[start : start + 17].astype(int)
        logits, _ = job.model.forward(window[None, :-1], grad=False)
        log_p = logits[0] - np.log(np.exp(logits[0]).sum(axis=-1, keepdims=True))
        expected += [-log_p[i, token] for i, token in enumerate(window[1:])]
        start += 16
    assert len(expected) == 74
    for batch in (1, 3, 4):
        assert valid_loss(job.model, tokens, batch) == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_finished_run_says_so_and_is_left_alone(text, tmp_path, capsys):
    train(options(text, tmp_path))
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    for again in (options(text, tmp_path), PretrainOptions(out=str(tmp_path), resume=True)):
        capsys.readouterr()
        assert train(again).finished
        said = capsys.readouterr().out
        assert said.startswith(f"the run in {tmp_path} is finished, after 12 steps") and "best validation" in said
    with pytest.raises(InputError, match=r"holds a finished run with --steps 12, .* --steps 24: .* --init"):
        train(options(text, tmp_path, steps=24))
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_nan_stops_the_run_and_keeps_the_last_good_state(text, tmp_path):
    job = prepare(options(text, tmp_path))
    loop(job, stop_after(job, 4))
    kept = (tmp_path / "resume.safetensors").read_bytes()
    job.model.h[0].mlp.c_fc.weight.data[0, 0] = np.nan
    with pytest.raises(InputError, match=r"step 5: the gradient of tokens_embed.weight is not finite"):
        loop(job)
    assert (tmp_path / "resume.safetensors").read_bytes() == kept
    assert all(np.isfinite(p.data).all() for p in reopen(PretrainOptions(out=str(tmp_path))).model.parameters())


def test_a_rate_that_explodes_is_reported(text, tmp_path):
    with pytest.raises(InputError, match=r"not finite.*a rate below 1e\+38"), np.errstate(all="ignore"):
        train(options(text, tmp_path, lr=1e38, warmup=0, clip=0.0))


def test_a_norm_that_is_not_finite_shows_in_the_loss(text, tmp_path, monkeypatch):
    """Where a GPU has found it nothing was raised: the number had not been waited for."""
    job = prepare(options(text, tmp_path))
    loop(job, stop_after(job, 4))
    kept = (tmp_path / "resume.safetensors").read_bytes()
    monkeypatch.setattr(job.optimizer, "step", lambda lr, max_norm: np.float32("inf"))
    with pytest.raises(InputError, match=r"the loss or the gradient is not finite"), np.errstate(invalid="ignore"):
        loop(job)
    assert (tmp_path / "resume.safetensors").read_bytes() == kept


def gpu_of(monkeypatch, capability):
    """A CuPy whose GPU has this compute capability, and computes on the processor."""
    cuda = SimpleNamespace(Device=lambda: SimpleNamespace(compute_capability=capability), runtime=mock.MagicMock())
    monkeypatch.setattr(gpu, "cupy", SimpleNamespace(cuda=cuda, ndarray=()))


def test_a_dtype_that_the_device_has_not_is_refused(text, tmp_path, monkeypatch):
    for name in ("tf32", "bfloat16"):
        with pytest.raises(InputError, match=f"--dtype {name} needs a GPU: leave it out"):
            prepare(options(text, tmp_path / "a", device="cpu", dtype=name))
    assert not (tmp_path / "a").exists()
    gpu_of(monkeypatch, "75")
    with pytest.raises(InputError, match=r"compute capability 8.0, and .* has 7.5: give --dtype float32"):
        arrays.check_precision("bfloat16", "cuda")
    arrays.check_precision("float32", "cuda")
    gpu_of(monkeypatch, "90")
    arrays.check_precision("bfloat16", "cuda")
    monkeypatch.setattr(arrays, "ml_dtypes", None)
    with pytest.raises(InputError, match="pip install ml_dtypes"):
        arrays.check_precision("bfloat16", "cuda")
    arrays.check_precision("tf32", "cuda")
    with pytest.raises(InputError, match="--dtype int8: choose float32, tf32, bfloat16"):
        prepare(options(text, tmp_path / "a", dtype="int8"))


@pytest.mark.parametrize(("changes", "why"), [
    ({"model": "lstm", "heads": 1}, "--model lstm has an LSTM, which needs float32"),
    ({"model": "elmo", "heads": 1}, "--model elmo has an LSTM, which needs float32"),
    ({"heads": 1, "embd": 129}, "heads above 128 numbers need float32"),
])  # fmt: skip
def test_what_is_not_made_for_bfloat16_is_refused(changes, why, text, tmp_path, monkeypatch):
    """Cells, and heads too large for the kernels of attention: CuPy cannot multiply stacks of matrices of bfloat16."""
    monkeypatch.setattr("minigpt.jobs.pretrain.preparation.check_precision", lambda name, device: None)
    with pytest.raises(InputError, match=f"--dtype bfloat16: {why}"):
        prepare(options(text, tmp_path / "a", dtype="bfloat16", **changes))


@pytest.mark.slow
def test_a_run_in_bfloat16(tmp_path, monkeypatch, kernels_on_cpu):
    """Weights and moments are kept in float32, and the copies come back with them when it goes on."""
    pytest.importorskip("ml_dtypes")
    (tmp_path / "text").write_text("the cat sat on a mat. " * 20, encoding="utf-8")
    monkeypatch.setattr("minigpt.jobs.pretrain.preparation.check_precision", lambda name, device: None)
    with ops.using("cuda"):
        job = prepare(options(str(tmp_path / "text"), tmp_path, dtype="bfloat16", steps=4, eval_every=2, context=8))
        loop(job, stop_after(job, 2))
        again = reopen(PretrainOptions(out=str(tmp_path)))
        assert all(is_rounded(p) for p in again.model.parameters())
        loop(again)
    assert job.step == 2 and again.step == again.options.steps and again.options.dtype == "bfloat16"
    for p in again.model.parameters():
        assert p.data.dtype == np.float32 and is_rounded(p)
    for name, p in GPT1.load(tmp_path).named_parameters():
        assert p.data.dtype == np.float32, name


@pytest.mark.parametrize(
    ("changes", "repeats"),
    [({}, True), ({"dropout": 0.1}, True), ({"accumulate": 2}, True), ({"model": "lstm", "heads": 1}, False)],
)
def test_which_steps_a_gpu_repeats(changes, repeats, text, tmp_path, monkeypatch, constants):
    """Those that are always the same work, and little; no step makes a second model to count its operations again."""
    job = prepare(options(text, tmp_path, **changes))
    monkeypatch.setattr(step, "Recorded", mock.Mock(side_effect=Repeats))
    monkeypatch.setattr(job.model, "loss", mock.Mock(side_effect=DoesNotRepeat))
    assert way_of_a_step(job) is DoesNotRepeat, "never on a processor"
    monkeypatch.setattr(type(job.model), "device", "cuda")
    assert way_of_a_step(job) is (Repeats if repeats else DoesNotRepeat)
    monkeypatch.setattr(type(job.model), "__init__", mock.Mock(side_effect=AssertionError("a second model")))
    assert way_of_a_step(job) is (Repeats if repeats else DoesNotRepeat)
    constants.set(recorded_operations=0)
    assert way_of_a_step(job) is DoesNotRepeat


class Repeats(Exception):
    """A step would be recorded, or repeated."""


class DoesNotRepeat(Exception):
    """A step would launch its kernels one by one."""


def way_of_a_step(job) -> type:
    """Which of the two the next update does."""
    with pytest.raises((Repeats, DoesNotRepeat)) as raised:
        update(job, 0.1)
    return raised.type


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_repeated_step_is_the_step_itself(dropout, text, tmp_path, monkeypatch):
    """Another mask at every step, too: its key is an input."""
    ends = []
    for repeats in (False, True):
        repeat_steps(monkeypatch, repeats)
        job = prepare(options(text, tmp_path / str(repeats), dropout=dropout, steps=3))
        loop(job)
        assert bool(job.recorded) == repeats and (not repeats or len(job.recorded.inputs) == 2 + (dropout > 0))
        ends.append(snapshot([p.data for p in job.model.parameters()]))
    assert same(*ends)


def test_a_full_disk_loses_nothing(text, tmp_path, monkeypatch):
    job = prepare(options(text, tmp_path))
    loop(job, stop_after(job, 4))
    kept = (tmp_path / "resume.safetensors").read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full; what was there before is untouched"):
        loop(job)
    assert (tmp_path / "resume.safetensors").read_bytes() == kept
    assert not list(tmp_path.glob(".*.part"))


def test_a_step_that_does_not_fit_into_the_memory_says_which_batch_does(text, tmp_path, monkeypatch):
    job = prepare(options(text, tmp_path / "a", batch=8))
    kind, config = type(job.model), job.model.config
    eight = costs.memory(kind, config, 8).total
    assert job.memory.total == eight
    for available, fits in ((eight - 1, 7), (costs.memory(kind, config, 3).total, 3)):
        assert costs.largest_batch(kind, config, available) == fits
        assert costs.largest_batch(kind, config, available, False, True) > fits, "short numbers leave room for more"
        monkeypatch.setattr(
            "minigpt.jobs.pretrain.memory.available_memory", lambda device, available=available: available
        )
        with pytest.raises(InputError, match=f"8 rows at a time need about .* free: {fits} fit: give --batch {fits}"):
            prepare(options(text, tmp_path / "b", batch=8))
    monkeypatch.setattr("minigpt.jobs.pretrain.memory.available_memory", lambda device: 1000)
    with pytest.raises(InputError, match="1000 B are free: choose a smaller model.*--checkpoint-blocks"):
        prepare(options(text, tmp_path / "b"))
    assert not (tmp_path / "b").exists()
    monkeypatch.setattr("minigpt.jobs.pretrain.memory.available_memory", lambda device: eight)
    prepare(options(text, tmp_path / "b", batch=8))


def test_a_run_finds_its_memory_once(text, tmp_path, monkeypatch):
    """A small model is traced for it, which takes longer than an update of such a run."""
    real, calls, counts = costs.activations, [], []
    monkeypatch.setattr(costs, "activations", lambda *given, **more: calls.append(given) or real(*given, **more))
    for steps in (2, 6):
        train(options(text, tmp_path / str(steps), steps=steps, eval_every=2))
        counts.append(len(calls))
        calls.clear()
    assert counts[0] == counts[1]


def test_other_text_on_resume_is_refused(text, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text(Path(text).read_text(), encoding="utf-8")
    job = prepare(options(str(own), tmp_path / "run"))
    loop(job, stop_after(job, 4))
    own.write_text("the cat " * 700, encoding="utf-8")
    with pytest.raises(InputError, match="is not the text that the run"):
        reopen(PretrainOptions(out=str(tmp_path / "run")))


def test_batches_are_a_function_of_seed_and_step(text, tmp_path):
    job = prepare(options(text, tmp_path))
    first = data.batch(job.train, 4, 16, 0, 7)
    again = data.batch(job.train, 4, 16, 0, 7)
    other = data.batch(job.train, 4, 16, 0, 8)
    assert (first[0] == again[0]).all() and (first[0] != other[0]).any()
    assert (first[0][:, 1:] == first[1][:, :-1]).all(), "a target is the next id"


def test_aligned_windows_begin_at_line_ends(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat sat on the mat .\n" * 120, encoding="utf-8")
    job = prepare(options(str(lines), tmp_path / "first", align=1.0))
    ids, _ = data.batch(job.train, 50, 16, 0, 0, job.starts[0], job.options.align)
    newline = job.text.newline_id
    assert set(ids[:, 0]) == {newline, job.text.ids["t"]} and (ids[ids[:, 0] == newline, 1] == job.text.ids["t"]).all()
    losses = []
    for align in (0.0, 1.0):
        job.options.align = align
        losses.append(float(update(job, 0.0)))
        job.step = 0
    assert losses[0] != losses[1], "update draws its batch as the options say"
    job = train(options(str(lines), tmp_path / "run", align=1.0, steps=40, eval_every=40))
    assert job.best == pytest.approx(valid_loss(job.model, job.valid, 4, job.starts[1]), rel=1e-6)
    assert job.best < valid_loss(job.model, job.valid, 4) - 0.05, "it is judged on windows that begin a line"
    lines.write_text("the cat sat on the mat . " * 120, encoding="utf-8")
    with pytest.raises(InputError, match="no line of .* begins a whole window"):
        prepare(options(str(lines), tmp_path / "other", align=0.5))
    with pytest.raises(InputError, match="--align 1.5"):
        prepare(options(str(lines), tmp_path / "third", align=1.5))


def test_the_rate_follows_the_chosen_schedule(text, tmp_path):
    ours = prepare(options(text, tmp_path / "a", steps=100, warmup=10, lr=1e-2)).options
    floor = prepare(options(text, tmp_path / "b", steps=100, warmup=10, lr=1e-2, min_lr=1e-3)).options
    assert [rate(ours, step) for step in (0, 5, 10)] == [rate(floor, step) for step in (0, 5)] + [1e-2]
    assert rate(ours, 100) == pytest.approx(0, abs=1e-12) and rate(floor, 100) == pytest.approx(1e-3)
    with pytest.raises(InputError, match="--min-lr 0.1 --lr 0.008: give a rate"):
        prepare(options(text, tmp_path / "c", min_lr=0.1))


def test_a_resumed_run_keeps_the_configuration_that_it_began_with(text, tmp_path):
    job = train(options(text, tmp_path / "first"))
    config = dataclasses.replace(job.model.config, layer_norm_epsilon=0.5, embd_pdrop=0.3)
    checkpoint.save_model(tmp_path / "first", config.to_dict(), {
        name: parameter.data for name, parameter in job.model.named_parameters()
    })
    folders = {"init": str(tmp_path / "first"), "out": str(tmp_path / "second")}
    going = prepare(PretrainOptions(data=text, **folders, steps=8, batch=4, eval_every=4))
    loop(going, stop_after(going, 4))
    assert reopen(PretrainOptions(out=str(tmp_path / "second"))).model.config == config


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer.json", "loss.csv"])
def test_a_run_overwrites_no_file_of_somebody_else(text, tmp_path, name):
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=f"already holds a {name}"):
        prepare(options(text, tmp_path))
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("run", ["{}", "x", "[]"])
def test_a_resume_file_without_its_state(text, tmp_path, run):
    train(options(text, tmp_path))
    tensors, _ = checkpoint.load_tensors(tmp_path / "resume.safetensors")
    checkpoint.save_tensors(tmp_path / "resume.safetensors", tensors, {"run": run})
    with pytest.raises(InputError, match="was not written by this version"):
        reopen(PretrainOptions(out=str(tmp_path)))


@pytest.mark.parametrize("damage", [lambda s: s.replace("step", "update"), lambda s: s + "x,y\n", lambda s: s + ",1\n",
                                    lambda s: s + "inf,1\n", lambda s: s + "1" * 200_000 + "\n"])  # fmt: skip
def test_a_damaged_table_of_losses_is_named(text, tmp_path, damage):
    train(options(text, tmp_path))
    table = tmp_path / "loss.csv"
    table.write_text(damaged := damage(table.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InputError, match=r"loss.csv is damaged: expected numbers under step,"):
        reopen(PretrainOptions(out=str(tmp_path)))
    assert table.read_text(encoding="utf-8") == damaged


def test_beta2_reaches_the_optimizer(text, tmp_path):
    assert prepare(options(text, tmp_path / "a", beta2=0.9)).optimizer.betas == (0.9, 0.9)
    with pytest.raises(InputError, match="--beta2 1"):
        prepare(options(text, tmp_path / "b", beta2=1.0))


# ------------------------------------------------------------------------------------- killed, as a process can be


def start(arguments: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-m", "minigpt", "train", "--threads", "1", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def arguments(text: str, folder: Path, steps: int) -> list[str]:
    sizes = "--layers 1 --heads 2 --embd 16 --context 16 --batch 4 --eval-every 10 --tokenizer char --dropout 0.1"
    return [*sizes.split(), "--steps", str(steps), "--data", text, "--out", str(folder)]


def wait_for(path: Path, process: subprocess.Popen, lines: int = 0) -> None:
    """Until the file is there, with at least so many lines."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)


def killed_and_resumed(text: str, folder: Path, steps: int, kills: int, seed: int) -> dict[str, bytes]:
    rng = random.Random(seed)
    process = start(arguments(text, folder, steps))
    for _ in range(kills):
        wait_for(folder / "resume.safetensors", process)
        time.sleep(rng.uniform(0, 1.2))
        process.kill()
        process.communicate()
        process = start(["--resume", "--out", str(folder)])
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    return weights(folder)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 10])
def test_killed_at_random_moments_ends_with_the_same_bytes(text, tmp_path, kills):
    process = start(arguments(text, tmp_path / "whole", 400))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert killed_and_resumed(text, tmp_path / "killed", 400, kills, seed=kills) == weights(tmp_path / "whole")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a single process")
def test_ctrl_c_saves_and_says_how_to_go_on(text, tmp_path):
    process = start(arguments(text, tmp_path, 100_000))
    wait_for(tmp_path / "loss.csv", process, lines=3)  # the columns, step 0, and some updates
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, out + err
    assert f"Go on: minigpt train --resume --out {tmp_path}" in out
    job = reopen(PretrainOptions(out=str(tmp_path)))
    assert job.step > 0
    assert isinstance(next(job.model.parameters()), Parameter)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a single process")
def test_a_run_whose_reader_has_gone_is_kept(text, tmp_path):
    """`minigpt train | tee log`, and a Ctrl-C that ends tee at once."""
    process = start(arguments(text, tmp_path, 100_000))
    wait_for(tmp_path / "loss.csv", process, lines=3)
    process.stdout.close()
    logged = (tmp_path / "loss.csv").read_bytes().count(b"\n")
    wait_for(tmp_path / "loss.csv", process, lines=logged + 2)
    process.send_signal(signal.SIGINT)
    err = process.stderr.read()
    assert process.wait(timeout=300) == 141 and "Traceback" not in err, err
    assert reopen(PretrainOptions(out=str(tmp_path))).step > 0


def test_a_run_whose_reader_goes_while_it_speaks_is_kept(text, tmp_path, monkeypatch):
    job = prepare(options(text, tmp_path))
    spoken = mock.Mock(side_effect=[None, BrokenPipeError])
    monkeypatch.setattr(training_loop, "assess", lambda job, *args: spoken())
    monkeypatch.setattr(training_loop, "prepare_on", lambda *args: job)
    with pytest.raises(BrokenPipeError):
        train(job.options)
    assert reopen(PretrainOptions(out=str(tmp_path))).step == 4


def test_nothing_is_written_before_the_first_step_was_tried(text, tmp_path, monkeypatch):
    monkeypatch.setattr(announcement, "measure", mock.Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        train(options(text, tmp_path / "run"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("during", ["evaluate", "update"])
def test_killed_before_its_first_update_is_kept_a_run_can_be_resumed(text, tmp_path, monkeypatch, during):
    with monkeypatch.context() as patch:
        patch.setattr(training_loop, during, mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(options(text, tmp_path / "broken"))
    train(options(text, tmp_path / "broken", resume=True))
    train(options(text, tmp_path / "whole"))
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
    with (tmp_path / "broken" / "loss.csv").open(encoding="utf-8") as table:
        assert [row["step"] for row in csv.DictReader(table)] == [str(step) for step in range(13)]


def test_a_folder_without_a_run_is_not_offered_to_resume(text, tmp_path):
    (tmp_path / "vocab.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="another --out$"):
        prepare(options(text, tmp_path))


def test_a_text_that_was_moved_is_named_anew(text, tmp_path):
    here, there = tmp_path / "here.txt", tmp_path / "there.txt"
    here.write_bytes(Path(text).read_bytes())
    loop(job := prepare(options(str(here), tmp_path / "run")), lambda: job.step >= 4)
    here.rename(there)
    with pytest.raises(InputError, match="does not exist"):
        reopen(PretrainOptions(out=job.options.out))
    assert reopen(PretrainOptions(out=job.options.out, data=str(there))).step == 4
    there.write_text(there.read_text(encoding="utf-8")[::-1], encoding="utf-8")
    with pytest.raises(InputError, match="is not the text"):
        reopen(PretrainOptions(out=job.options.out, data=str(there)))


def test_a_run_of_another_version_is_refused(text, tmp_path):
    train(options(text, tmp_path))
    tensors, metadata = checkpoint.load_tensors(tmp_path / "resume.safetensors")
    state = json.loads(metadata["run"])
    state["options"]["momentum"] = 0.9
    checkpoint.save_tensors(tmp_path / "resume.safetensors", tensors, {"run": json.dumps(state)})
    with pytest.raises(InputError, match="another version.*momentum"):
        reopen(PretrainOptions(out=str(tmp_path)))


@pytest.mark.parametrize(("model", "vocabulary"), [("gpt2", "bpe:270"), ("gpt1", "bpe:60")])
def test_the_configuration_names_the_token_that_ends_a_text(text, tmp_path, model, vocabulary):
    train(options(text, tmp_path, model=model, tokenizer=vocabulary))
    config, end = checkpoint.load_config(tmp_path), models.open_both(tmp_path)[1].end_of_text_id
    assert (config["bos_token_id"], config["eos_token_id"]) == (end, end)
    assert end == (269 if model == "gpt2" else None)


def test_memory_is_asked_for_the_rows_of_one_process(text, tmp_path, monkeypatch):
    two, job = SimpleNamespace(size=2, here=2, first=True), prepare(options(text, tmp_path / "a", batch=8))
    for rows, given in ((4, None), (3, "4 rows at a time .* 3 fit: give --batch 6")):
        available = costs.memory(type(job.model), job.model.config, rows).total
        monkeypatch.setattr(
            "minigpt.jobs.pretrain.memory.available_memory", lambda device, available=available: available
        )
        with pytest.raises(InputError, match=given) if given else contextlib.nullcontext():
            prepare(options(text, tmp_path / "b", batch=8), two)


def test_what_is_measured_beforehand_is_a_part_of_the_batch(text, tmp_path, monkeypatch):
    job = prepare(options(text, tmp_path, batch=8, accumulate=4))
    rows, real = [], job.model.loss
    monkeypatch.setattr(job.model, "loss", lambda ids, *args, **options: rows.append(len(ids)) or real(ids, *args))
    update, evaluation = announcement.measure(job)
    assert set(rows) == {2} and update > 0 < evaluation


def test_of_two_runs_that_begin_together_one_gets_the_folder(text, tmp_path):
    first, second = (prepare(options(text, tmp_path / "run", seed=seed)) for seed in (1, 2))
    first.save()
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match="another run has just begun"):
        second.save()
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    first.save()


def test_evaluations_are_counted(text, tmp_path, capsys):
    job = prepare(options(text, tmp_path, steps=13))
    for done, count in ((0, 5), (4, 3), (5, 3), (12, 1), (13, 0)):
        job.step = done
        announcement.announce(job)
        assert f"{13 - done} updates of 64 tokens and {count} evaluations" in capsys.readouterr().out
