"""A run that rests at the entropy of its token frequencies is told so, with what helps; a sound run is not."""

import json
import math
import random
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from minigpt import plot
from minigpt.jobs.pretrain import PretrainOptions, loop, plateau, prepare, reopen, train
from minigpt.jobs.pretrain.settings import resolve, usual_eval_every
from minigpt.models import registry

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "defaults.json"
SIZES = {"layers": 1, "heads": 2, "embd": 16, "context": 16, "batch": 12, "tokenizer": "char", "device": "cpu"}
STEPS = 80
DRAW = plot.loss_curve
pytestmark = pytest.mark.usefixtures("quick_runs")


@pytest.fixture(scope="module")
def letters(tmp_path_factory) -> str:
    """A text in which each letter is drawn by itself: there is nothing to learn of it but frequencies."""
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "letters.txt"
    path.write_text("".join(rng.choices("abcdefgh", weights=range(1, 9), k=6000)), encoding="utf-8")
    return str(path)


@pytest.fixture
def soon(monkeypatch, constants):
    """A plateau is told after 20 updates, and files are not waited for, to make tests short."""
    constants.set(plateau_updates=20)
    monkeypatch.setattr("os.fsync", lambda file: None)


def resting(letters: str, folder: Path, **changes) -> PretrainOptions:
    usual = {"data": letters, "out": str(folder), "steps": STEPS, "eval_every": STEPS, "lr": 0.01}
    return PretrainOptions(**SIZES | usual | changes)


def rows_of(losses: list[float], every: int = 10) -> list[dict]:
    return [{"step": every * (i + 1), "train_loss": loss} for i, loss in enumerate(losses)]


def test_a_text_of_one_character_has_no_level_to_rest_at(tmp_path):
    """Its entropy is 0, and so is the loss that a table of frequencies reaches: nothing is left to learn."""
    text = tmp_path / "one.txt"
    text.write_text("a" * 2000, encoding="utf-8")
    job = train(resting(str(text), tmp_path / "run", steps=4, eval_every=2))
    assert job.finished and not job.at_plateau
    assert not plateau.is_at_plateau(rows_of([0.0] * 10), job.entropy, 100)


def test_the_entropy_of_frequencies(constants):
    tokens = np.array([0, 0, 1, 3], np.uint16)
    assert plateau.unigram_entropy(tokens, 5) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    rng = np.random.default_rng(0)
    tokens = rng.integers(7, size=1000)
    whole = plateau.unigram_entropy(tokens, 9)
    constants.set(counted_tokens=64)
    assert plateau.unigram_entropy(tokens, 9) == whole, "in pieces, too"
    shares = np.bincount(tokens) / 1000
    assert whole == pytest.approx(np.mean([-math.log(shares[token]) for token in tokens])), "a table's mean loss"


@pytest.mark.parametrize(
    ("losses", "rests"),
    [
        ([5.0] * 100, True),
        ([5.14] * 100, True),
        ([5.16] * 100, False),
        ([4.96] * 100, True),
        ([4.94] * 100, False),  # it uses what stands before
        ([7.0] * 82 + [5.0] * 18, False),  # not long enough
        ([7.0] * 80 + [5.0] * 20, True),
        ([7.0] * 80 + [5.1] * 10 + [5.0] * 10, False),  # it falls
        (list(np.linspace(7, 3, 100)), False),
        ([7.0] * 80 + [6.0] * 10 + [4.0] * 10, False),  # it passed: only the mean of all is near
    ],
)
def test_what_a_plateau_is(losses, rests):
    """In a run of 2,000 updates, of which 1,000 are made."""
    assert plateau.is_at_plateau(rows_of(losses), 5.0, steps=2000) == rests


@pytest.mark.parametrize(("end", "rests"), [(5.0, True), (5.14, True), (5.16, False), (4.86, True), (4.84, False)])
def test_what_a_plateau_is_at_the_end(end, rests):
    """The last tenth of the run is enough."""
    assert plateau.is_at_plateau(rows_of([7.0] * 89 + [end] * 11), 5.0, steps=1000) == rests
    assert not plateau.is_at_plateau(rows_of([7.0] * 93 + [end] * 7), 5.0, steps=1000)


def test_a_short_run_has_time_to_pass():
    """A sound run is at the level for dozens of updates; only at the end is a tenth of a short run enough."""
    losses = rows_of([5.0] * 50, every=1)
    assert not plateau.is_at_plateau(losses, 5.0, steps=100)
    assert plateau.is_at_plateau(losses, 5.0, steps=50)
    long = rows_of([7.0] * 10 + [5.0] * 90, every=1)
    told = [n for n in range(101) if plateau.is_at_plateau(long[:n], 5.0, steps=300)]
    assert plateau.LEAST <= told[0] <= plateau.LEAST + 15, "as soon as it can be known"


def test_rows_without_a_training_loss_are_left_out():
    rows = [{"step": 0, "train_loss": None}, *rows_of([5.0] * 20)]
    assert plateau.is_at_plateau(rows, 5.0, steps=2000) and plateau.is_at_plateau(rows, 5.0, steps=200)
    assert not plateau.is_at_plateau([{"step": 0, "train_loss": None}], 5.0, steps=1000)
    assert not plateau.is_at_plateau([], 5.0, steps=1000)


def test_a_resting_run_is_told_in_the_run_in_the_picture_and_at_the_end(
    letters, tmp_path, capsys, monkeypatch, soon
):
    titles, bars = [], []
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    monkeypatch.setattr("matplotlib.axes.Axes.set_title", lambda self, label, **more: titles.append(label))
    monkeypatch.setattr("tqdm.tqdm.set_postfix_str", lambda self, text, **more: bars.append(text))
    job = train(resting(letters, tmp_path, warmup=1))
    out = capsys.readouterr().out
    assert f"{job.entropy:.2f} a table of token frequencies" in out, "said before the run"
    told = [line for line in out.splitlines() if "the training loss stays at" in line]
    assert len(told) == 2 and told[0].startswith("step ") and told[1].startswith("warning: ")
    assert all("--warmup 16" in line for line in told)
    assert int(told[0].split()[1].rstrip(":")) <= 50
    assert titles == ["warning: the model knows token frequencies and no more"]
    assert f"(token frequencies: {job.entropy:.2f})" in bars[-1] and "frequencies" not in bars[0]


def test_a_learning_run_is_told_nothing(tmp_path, capsys, monkeypatch):
    rng = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "."]
    text = tmp_path / "words.txt"
    text.write_text(" ".join(rng.choice(words) for _ in range(1700)), encoding="utf-8")
    titles = []
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    monkeypatch.setattr("matplotlib.axes.Axes.set_title", lambda self, label, **more: titles.append(label))
    job = train(PretrainOptions(**SIZES, data=str(text), out=str(tmp_path / "run"), steps=120))
    assert job.best < 0.8 * job.entropy
    assert "stays at" not in capsys.readouterr().out and titles == [f"best validation loss {job.best:.3f}"]


def test_a_resumed_run_says_the_same(letters, tmp_path, capsys, soon):
    def told(folder: str, stops: list[int]) -> list[str]:
        job = prepare(resting(letters, tmp_path / folder))
        for stop in stops:
            loop(job, lambda job=job, stop=stop: job.step >= stop)
            job = reopen(PretrainOptions(out=str(tmp_path / folder)))
        loop(job)
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if "stays at" in line]

    whole = told("whole", [])
    assert len(whole) == 1
    assert told("before", [15]) == whole
    assert told("after", [70]) == whole, "and only once"


def test_the_cure_names_what_differs_from_the_defaults(letters, tmp_path):
    def cure(**changes) -> str:
        return plateau.cure(prepare(resting(letters, tmp_path, **changes)).options)

    assert cure(steps=700, lr=None, warmup=70) == "--warmup 140"
    assert cure(steps=700, lr=1.0) == "--lr 0.016"
    assert cure(steps=700, lr=1.0, warmup=0) == "--warmup 140 --lr 0.016"
    assert cure(steps=700, lr=None) == "--lr 0.008, or with more --steps"


def test_the_picture_has_both_levels(tmp_path, monkeypatch):
    levels = mock.Mock()
    monkeypatch.setattr("matplotlib.axes.Axes.axhline", lambda self, y, **more: levels(y, more["label"]))
    monkeypatch.setattr("matplotlib.axes.Axes.legend", mock.Mock())
    DRAW([{"step": 1, "train_loss": 2.0, "val_loss": None}], 20, tmp_path / "loss.png", 1.5)
    assert levels.call_args_list == [
        mock.call(math.log(20), "guessing: ln 20 = 3.00"),
        mock.call(1.5, "token frequencies: 1.50"),
    ]


# ------------------------------------------------------------------------------------------------- the defaults


def options_of(steps: int, **changes) -> PretrainOptions:
    config = registry.card("gpt1").model.Config(vocab_size=30, n_positions=64, n_embd=128, n_head=4)
    options = PretrainOptions(steps=steps, **changes)
    resolve(options, config)
    return options


@pytest.mark.parametrize(
    ("steps", "lr", "min_lr", "warmup"),
    [
        (50, 0.001, 0.001, 0),
        (100, 0.001, 0.001, 0),
        (200, 0.001, 0.0005, 0),
        (249, 0.001, 0.1 / 249, 0),
        (250, 0.002, None, 50),
        (1000, 0.002, None, 200),
        (2000, 0.002, None, 200),  # from here on as it has always been
        (30_000, 0.002, None, 2000),
    ],
)
def test_the_schedule_of_a_run_of_this_length(steps, lr, min_lr, warmup):
    found = options_of(steps)
    assert (found.lr, found.min_lr, found.warmup) == pytest.approx((lr, min_lr, warmup))


def test_a_model_that_rests_nowhere_has_the_usual_warm_up():
    assert options_of(1000, model="gpt2").warmup == 100 and options_of(300, model="gpt2").warmup == 30


def test_a_schedule_that_is_given_is_kept():
    given = options_of(100, lr=0.004)
    assert (given.lr, given.min_lr, given.warmup) == (0.004, None, 20)
    assert options_of(100, warmup=50).warmup == 50 and options_of(100, min_lr=1e-5).min_lr == 1e-5
    going_on = options_of(100, init="a model")
    assert (going_on.lr, going_on.warmup) == (0.002, 20), "no sudden step for weights that know something"


@pytest.mark.parametrize(("model", "std"), [("gpt1", 0.049), ("bert", 0.049), ("gpt2", 0.02)])
def test_new_weights_of_a_narrow_post_ln_model_are_wider(model, std, letters, tmp_path):
    sizes = {"embd": 128, "heads": 2, "layers": 1, "context": 16, "tokenizer": "bpe:40", "device": "cpu"}
    if model == "gpt2":
        sizes["tokenizer"] = "bpe:270"
    for given, expected in ((None, std), (0.03, 0.03)):
        job = prepare(PretrainOptions(**sizes, data=letters, model=model, init_std=given, out=str(tmp_path / "run")))
        assert job.model.config.initializer_range == pytest.approx(expected, rel=0.03)
        assert job.model.h[0].mlp.c_fc.weight.data.std() == pytest.approx(expected, rel=0.03)


def test_evaluations_take_a_share_of_the_time():
    """Each reads all validation tokens forward, which takes 0.4 of the time of an update with as many."""
    batch = {"batch": 12, "context": 64}
    assert usual_eval_every(PretrainOptions(**batch, steps=2000), 100_000) == 2000 // 8
    assert usual_eval_every(PretrainOptions(**batch, steps=200), 100_000) == 200
    assert usual_eval_every(PretrainOptions(**batch, steps=200), 5_000) == 200 // 8
    for steps in (50, 200, 500, 1000, 3000):
        every = usual_eval_every(PretrainOptions(**batch, steps=steps), 100_000)
        cost = steps // every * (100_000 / (12 * 64)) * 0.4
        assert every == steps or cost <= steps / 3
    assert usual_eval_every(PretrainOptions(**batch, steps=1), 100) == 1


@pytest.mark.skipif(not RESULTS.is_file(), reason="results/defaults.json: run benchmarks/defaults.py")
def test_the_recorded_grid():
    """What `benchmarks/defaults.py` has measured: no GPT with today's defaults rests, or is told that it does."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    now = {name: row for name, row in rows.items() if name.startswith("gpt") and name.endswith(", now")}
    others = {name: row for name, row in rows.items() if name not in now}
    for name, row in now.items():
        assert row["ratio"] < 1 - plateau.NEAR and not row["told"], name
    for name, row in others.items():
        if row["ratio"] > 1 - plateau.NEAR:
            assert row["told"], name
    assert len(now) >= 12 and any(row["told"] for row in others.values())
