"""`minigpt train --compare`: a sound run is normal, a wrong one is named with its first abnormal step and likely cause."""

import contextlib
import dataclasses
import json
import random
import runpy
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from minigpt import ops
from minigpt.cli import main
from minigpt.jobs import run_folder
from minigpt.jobs.pretrain import PretrainOptions, band, causes, compare, loop, prepare, reopen, train
from minigpt.jobs.pretrain import comparison as comparing
from minigpt.jobs.pretrain.band import LASTING, REACH, Band
from minigpt.jobs.pretrain.comparison import Comparison
from minigpt.jobs.pretrain.settings import resolve
from minigpt.models import registry
from minigpt.ops import reference

HERE = Path(__file__).parent
STEPS = 120
OPTIONS = {
    "model": "gpt1", "layers": 4, "heads": 2, "embd": 16, "context": 16, "batch": 8, "tokenizer": "char",
    "steps": STEPS, "eval_every": STEPS, "lr": 0.04, "warmup": 40, "device": "cpu",
}  # fmt: skip
SEEDS = range(5)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Files are not waited for, to make tests short."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> str:
    """Ten words in random order: the letters inside a word can be known, the next word cannot."""
    rng = random.Random(0)
    known = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "."]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(rng.choice(known) for _ in range(1700)), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def sound(words, tmp_path_factory) -> Band:
    """The band of five seeds."""
    folder = tmp_path_factory.mktemp("sound")
    jobs = [train(PretrainOptions(**OPTIONS, data=words, seed=s, out=str(folder / str(s)))) for s in SEEDS]
    runs = [run_folder.look(job.run.folder) for job in jobs]
    return band.from_runs("words", runs, jobs[0].entropy)


@pytest.fixture
def known(sound, monkeypatch) -> Band:
    """The band of these tests is the only one that there is."""
    monkeypatch.setattr(band, "every_band", lambda: [sound])
    return sound


def options(words: str, folder: Path, **changes) -> PretrainOptions:
    return PretrainOptions(**OPTIONS | {"data": words, "out": str(folder), "seed": 7, "compare": True} | changes)


def compared(text: str) -> list[str]:
    """The lines of a run's output that compare it."""
    return [line for line in text.splitlines() if line.startswith("compare ") or "abnormal from" in line]


# ------------------------------------------------------------------------------------------------------ sound runs


def test_a_sound_run_of_a_new_seed_is_normal(words, tmp_path, capsys, known):
    job = train(options(words, tmp_path))
    first, last = compared(capsys.readouterr().out)
    assert first == "compare  with the band words of 5 seeds"
    low, high = known.range_of(known.last)
    assert last == (
        f"compare  normal: inside the band of 5 seeds. Final validation loss {job.best:.3f}, "
        f"inside the expected {low:.3f} to {high:.3f}"
    )
    assert low < known.last.min() and known.last.max() < high


def test_a_run_that_evaluates_more_often_is_compared_row_by_row(words, tmp_path, known):
    """Its rows are at other steps; the means over the band's rows are those of the same updates."""
    loop(prepare(options(words, tmp_path / "seldom", seed=0, steps=STEPS)))
    often = prepare(options(words, tmp_path / "often", seed=0, eval_every=25))
    loop(often)
    coarse = dataclasses.replace(known, steps=known.steps[9::10], losses=known.losses[:, 9::10])
    _, rows = run_folder.look(tmp_path / "seldom")
    losses, rates = known.on_my_rows(rows)
    assert losses == pytest.approx(known.losses[0], abs=1e-6) and rates == pytest.approx(known.rates)
    tens = known.losses[0].reshape(-1, 10).mean(axis=1)
    assert coarse.on_my_rows(rows)[0] == pytest.approx(tens, abs=1e-5), "a row of the band holds ten of the run"
    assert known.on_my_rows(often.run.rows)[0] == pytest.approx(known.losses[0], abs=1e-5)


def test_the_band_is_drawn_with_and_without_the_option(words, tmp_path, monkeypatch, known):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", lambda self, **more: drawn.append(more))
    monkeypatch.setattr("matplotlib.axes.Axes.legend", mock.Mock())
    job = prepare(options(words, tmp_path, compare=False))
    loop(job, lambda: job.step >= 3)
    train(options(words, tmp_path, compare=False))
    assert [one["label"] for one in drawn] == ["5 normal runs"]
    assert np.array_equal(drawn[0]["y2"], known.mean + REACH * known.spread) and (drawn[0]["y1"] < known.mean).all()


# ------------------------------------------------------------------------------------------------------ wrong runs


class Leaks:
    """Every query sees every key: the mask is missing."""

    @staticmethod
    def attention_forward(q, k, v, bias=None, **more):
        everything = np.ones((q.shape[-2], k.shape[-2]), bool)
        return reference.attention_forward(q, k, v, bias, **more | {"mask": everything})

    attention_backward = staticmethod(reference.attention_backward)


def museum(room: str, piece: str) -> type:
    return runpy.run_path(str(HERE / "museum" / f"{room}.py"))[piece]


def slower(step_rate):
    """A schedule with a mistake: a tenth of what the options say."""
    return lambda options, step: step_rate(options, step) / 10


WRONG = {
    "rate x 10": ({"lr": 0.4}, None, "above", "the rate is too high"),
    "rate / 10": ({"lr": 0.004}, None, "above", "the rate is too low"),
    "no warm-up": ({"warmup": 0}, None, "above", "the warm-up is missing"),
    "mask missing": ({}, Leaks, "below", "the targets are seen: a mask that is missing"),
    "wrong backward": ({}, ("gelu_layernorm", "SumForTheMean"), "above", "a gradient is wrong: minigpt check"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_run_is_named_with_its_cause(wrong, words, tmp_path, capsys, known):
    changes, override, side, cause = WRONG[wrong]
    if isinstance(override, tuple):
        override = museum(*override)
    with ops.using(override) if override else contextlib.nullcontext():
        job = train(options(words, tmp_path, **changes))
    lines = compared(capsys.readouterr().out)
    told = [line for line in lines if line.startswith("step ")]
    assert told and f"{side} the band" in lines[-1] and "normal:" not in lines[-1]
    finding = next(one for one in job.comparison.findings(job.run.rows) if one.side == side)
    assert finding.causes[0].startswith(cause), finding.causes
    assert f"abnormal from step {finding.step} on" in lines[-1] and "likely: " in lines[-1]
    assert finding.told_at == finding.step + LASTING - 1 < STEPS, "a row for each step here"
