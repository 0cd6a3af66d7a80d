"""`minigpt train --compare`: a sound run is normal; a wrong one is told, from which step on and why it may be so."""

import contextlib
import dataclasses
import functools
import json
import random
import runpy
import types
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from minigpt import ops, plot
from minigpt.cli import main
from minigpt.data.corpus import default_tokenizer
from minigpt.errors import InputError
from minigpt.jobs.pretrain import Job, PretrainOptions, band, compare, loop, prepare, reopen, train, training_loop
from minigpt.jobs.pretrain.band import LASTING, Band
from minigpt.jobs.pretrain.comparison import Comparison
from minigpt.jobs.pretrain.settings import new_config, resolve
from minigpt.learn.museum.pieces import pieces
from minigpt.ops import reference

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "benchmarks" / "bands.py"
RESULTS = SCRIPT.with_name("results") / "bands.json"
STEPS = 50
DRAW = plot.loss_curve
pytestmark = pytest.mark.usefixtures("quick_runs")
OPTIONS = {
    "model": "gpt1", "layers": 1, "heads": 2, "embd": 16, "context": 16, "batch": 8, "tokenizer": "char",
    "steps": STEPS, "eval_every": STEPS, "lr": 0.04, "warmup": 20, "device": "cpu",
}  # fmt: skip
LETTERS = {"model": "gpt2", "context": 2, "batch": 64, "steps": 60, "eval_every": 60, "lr": 0.03, "warmup": 10}
SEEDS = range(5)  # of a band: their runs are inside it on every processor, that of another seed only most likely


def options(data: str, folder: Path, **changes) -> PretrainOptions:
    return PretrainOptions(**OPTIONS | {"data": data, "out": str(folder), "seed": 7, "compare": True} | changes)


def band_of(runs: list[PretrainOptions]) -> Band:
    """The band of these runs, called `words`."""
    for one in runs:
        loop(prepare(one))
    return script()["band_of"]([Path(one.out) for one in runs], "words")


@functools.cache
def script() -> dict:
    """What `benchmarks/bands.py` defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        return runpy.run_path(str(SCRIPT))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Files are not waited for, to make tests short."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> str:
    """Two words in random order: the letters inside a word can be known, the next word cannot.

    A sound run learns them in a few updates, and all seeds alike: a wrong run is outside by many times the reach.
    """
    drawn = random.Random(0).choices(["abcd ", "efgh "], k=1500)
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("".join(drawn), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def sound(words, tmp_path_factory) -> Band:
    """The band of five seeds."""
    folder = tmp_path_factory.mktemp("sound")
    return band_of([options(words, folder / str(seed), seed=seed) for seed in SEEDS])


@pytest.fixture(scope="module")
def sound_on_letters(tmp_path_factory) -> Band:
    """The band of a text in which each letter is drawn by itself: a sound run learns frequencies and no more."""
    folder = tmp_path_factory.mktemp("letters")
    text = folder / "letters.txt"
    drawn = random.Random(0).choices("abcdefgh", weights=range(1, 9), k=6000)
    text.write_text("".join(drawn), encoding="utf-8")
    return band_of([options(str(text), folder / str(seed), seed=seed, **LETTERS) for seed in SEEDS])


@pytest.fixture
def known(sound, monkeypatch) -> Band:
    """The band of these tests is the only one that there is."""
    monkeypatch.setattr(band, "every_band", lambda: [sound])
    return sound


def compared(text: str) -> list[str]:
    """The lines of a run's output that compare it."""
    return [line for line in text.splitlines() if line.startswith("compare ") or ": abnormal from" in line]


# ------------------------------------------------------------------------------------------------------ sound runs


def test_a_sound_run_is_normal(words, tmp_path, capsys, known):
    job = train(options(words, tmp_path, seed=SEEDS[1]))
    first, last = compared(capsys.readouterr().out)
    assert first == "compare  with the band words of 5 seeds"
    low, high = known.range_of(known.last)
    assert last == (
        f"compare  normal: inside the band of 5 seeds. Final validation loss {job.best:.3f}, "
        f"inside the expected {low:.3f} to {high:.3f}"
    )
    assert low < known.last.min() and known.last.max() < high


def test_a_run_that_evaluates_more_often_is_compared_row_by_row():
    """It has rows at other steps, too; the mean of a row of the band is that of the same updates."""
    each = np.random.default_rng(0).uniform(1, 3, size=400)  # the loss of each update
    ends = sorted({*range(10, 401, 10), *range(25, 401, 25)})
    rows = [{"step": 0, "train_loss": None, "val_loss": 5.0, "lr": None}]
    for begin, end in zip([0, *ends], ends, strict=False):
        rows.append({"step": end, "train_loss": each[begin:end].mean(), "val_loss": None, "lr": end / 1000})
    losses, rates = flat().on_my_rows(rows)
    assert losses == pytest.approx(each.reshape(40, 10).mean(axis=1))
    assert rates == pytest.approx(np.arange(10, 401, 10) / 1000)
    coarse = flat(steps=np.arange(50, 401, 50), losses=flat().losses[:, :8])
    assert coarse.on_my_rows(rows)[0] == pytest.approx(each.reshape(8, 50).mean(axis=1))
    begun = [row for row in rows if row["step"] <= 25]
    assert flat().on_my_rows(begun)[0] == pytest.approx(each[:20].reshape(2, 10).mean(axis=1)), "whole rows only"
    assert flat().on_my_rows(rows[:1])[0].shape == flat().on_my_rows(rows[:1])[1].shape == (0,)


def test_the_band_is_drawn_with_and_without_the_option(words, tmp_path, monkeypatch, known):
    drawn = []
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", lambda self, **more: drawn.append(more))
    monkeypatch.setattr("matplotlib.axes.Axes.legend", mock.Mock())
    job = prepare(options(words, tmp_path, compare=False))
    loop(job, lambda: job.step >= 3)
    train(options(words, tmp_path, compare=False))
    assert [one["label"] for one in drawn] == ["band of 5 seeds"]
    assert np.array_equal(drawn[0]["y2"], known.mean + 5.4 * known.spread) and (drawn[0]["y1"] < known.mean).all()


# ------------------------------------------------------------------------------------------------------ wrong runs


class Leaks:
    """Every query sees every key: the mask is missing."""

    @staticmethod
    def attention_forward(q, k, v, bias=None, **more):
        everything = np.ones((q.shape[-2], k.shape[-2]), bool)
        return reference.attention_forward(q, k, v, bias, **more | {"mask": everything})

    attention_backward = staticmethod(reference.attention_backward)


def museum(name: str) -> types.ModuleType:
    """The piece of this name, as an implementation."""
    (piece,) = [piece for piece in pieces() if piece.name == name]
    return piece.module()


WRONG = {
    "rate x 10": ({"lr": 0.4}, None, "above", "the rate is too high"),
    "rate / 10": ({"lr": 0.004}, None, "above", "the rate is too low"),
    "no warm-up": ({"warmup": 0}, None, "below", "the warm-up is missing"),
    "wrong backward": ({}, "SumForTheMean", "above", "a gradient is wrong: minigpt check"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_run_is_named_with_its_cause(wrong, words, tmp_path, capsys, known):
    changes, piece, side, cause = WRONG[wrong]
    with ops.using(museum(piece)) if piece else contextlib.nullcontext():
        job = train(options(words, tmp_path, **changes))
    check_finding(job, capsys.readouterr().out, side, cause)


def test_a_mask_that_is_missing_is_too_good_to_be_true(sound_on_letters, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(band, "every_band", lambda: [sound_on_letters])
    data = sound_on_letters.setting["data"]
    with ops.using(Leaks):
        job = train(options(data, tmp_path / "leaks", **LETTERS))
    check_finding(job, capsys.readouterr().out, "below", "the targets are seen: a mask that is missing")


def check_finding(job: Job, text: str, side: str, cause: str) -> None:
    """The run has told it, once, as its rows came; and at the end."""
    (finding,) = [one for one in job.comparison.findings(job.run.rows) if one.side == side]
    assert any(one.startswith(cause) for one in finding.causes), finding.causes
    assert finding.told_at == finding.step + LASTING - 1 < job.step, "a row for each step here"
    lines = compared(text)
    (told,) = [line for line in lines if line.startswith("step ") and f"{side} the band" in line]
    assert told.startswith(f"step {finding.told_at}: abnormal from step {finding.step} on, ") and "likely: " in told
    assert f"{side} the band from step {finding.step} on" in lines[-1] and cause in lines[-1].split("likely: ")[1]


def test_a_schedule_with_a_mistake_is_seen_in_its_rates(words, tmp_path, monkeypatch, known):
    """The options are those of the band; the rate in loss.csv is not."""
    right = training_loop.rate
    monkeypatch.setattr(training_loop, "rate", lambda options, step: right(options, step) / 10)
    job = train(options(words, tmp_path))
    (finding,) = job.comparison.findings(job.run.rows)
    assert finding.causes[0].startswith("the rate is too low"), finding.causes


def test_a_finding_that_was_told_is_not_told_again_when_the_run_goes_on(words, tmp_path, capsys, known):
    wrong = options(words, tmp_path, lr=0.004)
    job = prepare(wrong)
    loop(job, lambda: job.step >= 40)
    (before,) = compared(capsys.readouterr().out)
    assert before.startswith("step ")
    job = train(PretrainOptions(out=str(tmp_path), resume=True, compare=True))
    opening, *again, closing = compared(capsys.readouterr().out)
    assert "which is tuned in another way: this run has --lr 0.004 (0.04)" in opening
    assert len(again) == 1 and again[0].startswith("compare  abnormal from step "), "what the stopped run has shown"
    assert again[0].split(" (")[0].removeprefix("compare  ") in before and "likely: the rate is too low" in closing


# --------------------------------------------------------------------------------------------- beside which band


def test_a_run_that_no_band_fits_says_so_and_goes_on(words, tmp_path, capsys, monkeypatch, known):
    drawn = []
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", lambda self, **more: drawn.append(more))
    job = train(options(words, tmp_path, steps=3, eval_every=3, batch=4))
    assert job.finished and drawn == []
    assert compared(capsys.readouterr().out) == [
        "compare  no band fits this run. It differs from words: --steps 3 (50), --batch 4 (8)"
    ]


def test_a_band_of_another_tuning_is_drawn_only_where_it_was_asked_for(words, tmp_path, monkeypatch, known):
    drawn = []
    monkeypatch.setattr(plot, "loss_curve", DRAW)
    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", lambda self, **more: drawn.append(more))
    wrong = options(words, tmp_path, lr=0.02, compare=False)
    assert prepare(wrong).comparison is None
    assert prepare(dataclasses.replace(wrong, compare=True)).comparison.band is known
    assert prepare(dataclasses.replace(wrong, lr=0.04)).comparison.band is known


def test_what_is_another_task(known):
    setting = dict(known.setting)
    assert band.that_fits(setting) is known and known.other_task(setting) == []
    moved = setting | {"data": "elsewhere.txt", "tokenizer": "a folder"}
    assert band.that_fits(moved) is known, "the same tokens"
    assert known.other_task(setting | {"text": "0"}) == ["another text"]
    assert known.other_task(moved | {"text": "0"})[0].startswith("--data elsewhere.txt (")
    assert known.other_task(setting | {"model": "gpt2", "init": "x"}) == ["--model gpt2 (gpt1)", "--init x (none)"]
    for name in band.SAME:
        if name not in ("data", "tokenizer"):
            assert band.nearest(setting | {name: "another"}) is None, name
    for name in band.TUNED:
        other = setting | {name: 0.5}
        assert band.that_fits(other) is None and band.nearest(other) is known, name
    many = {"model": "x", "layers": 2, "heads": 1, "embd": 1, "context": 1, "text": "0"}
    assert band.none_fits(setting | many).endswith(", --embd 1 (16) and 1 more")


def test_every_option_is_known_to_change_the_losses_or_not_to():
    """A new option of `minigpt train` belongs to one of these three."""
    changes_nothing = {
        "out", "resume", "compare", "size", "recipe", "accumulate", "checkpoint_blocks", "seed", "eval_every", "device",
    }  # fmt: skip
    every = [*band.SAME, *band.TUNED, *changes_nothing]
    assert len(every) == len(set(every)) and set(every) == {field.name for field in dataclasses.fields(PretrainOptions)}


def test_a_kept_run_does_not_depend_on_the_option(words, tmp_path, known):
    for compares in (False, True):
        job = prepare(options(words, tmp_path / str(compares), compare=compares, steps=4, eval_every=2))
        loop(job, lambda job=job: job.step >= 2)
    kept = [(tmp_path / name / "resume.safetensors").read_bytes() for name in ("False", "True")]
    assert kept[0] == kept[1]
    assert reopen(PretrainOptions(out=str(tmp_path / "False"), compare=True)).options.compare


# ------------------------------------------------------------------------------------------- a run that is there


def test_a_run_is_looked_at_without_training(words, tmp_path, capsys, known):
    job = prepare(options(words, tmp_path, seed=3))
    loop(job, lambda: job.step >= 30)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert compare(tmp_path).splitlines() == [
        "compare  with the band words of 5 seeds",
        "compare  normal: inside the band of 5 seeds, up to step 30",
    ]
    assert files == {path: path.read_bytes() for path in tmp_path.iterdir()}, "nothing is written"
    capsys.readouterr()
    assert main(["info", str(tmp_path), "--compare"]) == 0
    assert capsys.readouterr().out == compare(tmp_path) + "\n"
    assert main(["info", "--compare"]) == 2
    assert "give the folder of a run" in capsys.readouterr().err
    assert main(["info", words, "--compare"]) == 2
    assert "there is no resume.safetensors in" in capsys.readouterr().err


def test_a_finished_run_that_is_resumed_is_compared(words, tmp_path, capsys, known):
    train(options(words, tmp_path, seed=2, compare=False))
    capsys.readouterr()
    (tmp_path / "loss.png").unlink()
    train(PretrainOptions(out=str(tmp_path), resume=True, compare=True))
    (line,) = compared(capsys.readouterr().out)
    assert line.startswith("compare  normal: ") and (tmp_path / "loss.png").is_file()


# ------------------------------------------------------------------------------------------- the rule, by numbers


def flat(**changes) -> Band:
    """Five seeds, 40 rows, a loss of 2 with a spread of 0.1."""
    losses = 2 + 0.1 * np.random.default_rng(0).normal(size=(5, 40))
    usual = {
        "name": "flat", "setting": dict.fromkeys((*band.SAME, *band.TUNED, "text")) | {"steps": 400, "warmup": 0},
        "entropy": None, "seeds": [0, 1, 2, 3, 4], "steps": np.arange(10, 401, 10), "rates": np.ones(40),
        "losses": losses, "first": np.array([5.0, 5.1, 4.9, 5.0, 5.0]), "last": losses[:, -1],
    }  # fmt: skip
    return Band(**usual | changes)


def rows_of(losses, first: float = 5.0, rate: float = 1.0, valid: float = 2.0) -> list[dict]:
    rows = [{"step": 0, "train_loss": None, "val_loss": first, "lr": None}]
    for i, loss in enumerate(losses):
        rows.append({"step": 10 * (i + 1), "train_loss": loss, "val_loss": None, "lr": rate})
    rows[-1]["val_loss"] = valid
    return rows


def findings_of(losses, sound: Band | None = None, **more) -> list:
    sound = sound or flat()
    return Comparison(sound, sound.setting).findings(rows_of(losses, **more))


def test_three_rows_outside_are_abnormal_and_two_are_not():
    losses = np.full(40, 2.0)
    losses[[5, 6, 20, 21]] = 3.0
    assert findings_of(losses) == []
    losses[22] = 3.0
    (finding,) = findings_of(losses)
    assert (finding.side, finding.step, finding.told_at, finding.loss) == ("above", 210, 230, 3.0)
    assert finding.low < 2 < finding.high < 3
    comparison = Comparison(flat(), flat().setting)
    rows = rows_of(losses)
    news = [row["step"] for n, row in enumerate(rows[1:], 2) if comparison.news(rows[:n])]
    assert news == [230], "told at one row"
    losses[22] = 2 - 10 * 0.2
    assert findings_of(losses) == [], "not on the same side"


def test_the_spread_has_a_least_value_and_grows_where_seeds_are_few():
    same = np.full((5, 40), 2.0)
    assert flat(losses=same).spread == pytest.approx(band.LEAST * 2.0)
    of_all = np.sqrt(flat().losses.var(axis=0, ddof=1)[12:29].mean() * (1 + 1 / 5))  # row 20 and eight on each side
    assert flat().spread[20] == pytest.approx(of_all) and of_all == pytest.approx(0.11, abs=0.02)
    edge = np.vstack([same] * 2) + np.outer(np.tile([1, -1], 5), np.eye(40)[0])
    wide = dataclasses.replace(flat(losses=edge), seeds=list(range(10))).spread
    assert wide[0] > wide[20] == pytest.approx(0.01), "an outlier counts near by"
    reaches = [dataclasses.replace(flat(), seeds=list(range(n))).reach for n in (3, 6, 20)]
    assert reaches == pytest.approx([7, 5, 3.6])
    assert (flat().high - flat().mean) == pytest.approx(5.4 * flat().spread)


def test_causes_that_are_seen_in_the_rows():
    low, high = np.full(40, 1.0), np.full(40, 3.0)

    def causes_of(losses, **more) -> list[str]:
        return findings_of(losses, **more)[0].causes

    assert causes_of(high)[0].startswith("a gradient is wrong")
    assert causes_of(high, rate=2.0)[0].startswith("the rate is too high: 2 at step 10, the band has 1")
    assert causes_of(high, rate=0.5)[0].startswith("the rate is too low")
    assert causes_of(high, first=6.0)[0].startswith("new weights, a tokenizer or a loss of another kind: 6.000")
    assert causes_of(np.where(np.arange(40) % 4, 3.0, 9.0))[0].startswith("the rate is too high, or nothing is clipped")
    assert causes_of(low, valid=1.0) == [
        "the targets are seen: a mask that is missing, or targets that are not shifted"
    ]
    assert causes_of(low, valid=2.0)[0].startswith("the training text is another, shorter or repeated one")
    both = np.where(np.arange(40) < 20, 1.0, 3.0)
    assert causes_of(both)[0].startswith("data in another order")
    resting = flat(entropy=3.0, losses=flat().losses)
    assert causes_of(high, sound=resting)[0].startswith("it rests at the loss of token frequencies, 3.00")
    tuned = Comparison(flat(), flat().setting | {"clip": 0.0})
    assert tuned.findings(rows_of(high))[0].causes == ["--clip 0 (none)"]
    closing = Comparison(flat(), flat().setting).closing(rows_of(both, valid=9.0))
    assert closing.startswith(
        "compare  abnormal: below the band from step 10 on, then above the band from step 210 on; "
    )
    assert "likely: data in another order" in closing and "Final validation loss 9.000, above the expected " in closing


def test_a_warm_up_that_is_too_short_is_told_from_a_rate_that_is_too_high():
    rates = np.minimum(np.arange(1, 41) / 20, 1)
    setting = flat().setting | {"warmup": 200}
    rising = flat(rates=rates, setting=setting)
    rows = rows_of(np.full(40, 3.0))
    for row, rate in zip(rows[1:], rates, strict=True):
        row["lr"] = 4 * rate
    assert Comparison(rising, setting).findings(rows)[0].causes[0].startswith("the rate is too high")
    for row, rate in zip(rows[1:], rates, strict=True):
        row["lr"] = min(1, 4 * rate)
    assert Comparison(rising, setting).findings(rows)[0].causes[0].startswith("the warm-up is missing or too short")


def test_a_band_is_made_of_finished_runs_of_one_setting():
    state = {"options": dict.fromkeys((*band.SAME, *band.TUNED)) | {"steps": 40}, "config": {}, "text": "0"}
    rows = rows_of(np.full(4, 2.0))

    def runs(seeds, **last) -> list:
        made = [(state | {"options": state["options"] | {"seed": seed}}, rows) for seed in seeds]
        made[-1] = (made[-1][0] | {"options": made[-1][0]["options"] | last}, rows)
        return made

    made = band.from_runs("x", runs(range(5)), 3.0)
    assert made.losses.shape == (5, 4) and made.first.tolist() == [5.0] * 5 and made.last.tolist() == [2.0] * 5
    for wrong, words in (
        (runs(range(2)), "at least 3 runs"),
        (runs([0, 1, 2, 3, 3]), "a --seed of its own"),
        (runs(range(5), lr=0.5), "the run of seed 4 has other options"),
        ([(one, rows[:-1]) for one, _ in runs(range(5))], "not finished"),
    ):
        with pytest.raises(InputError, match=words):
            band.from_runs("x", wrong, 3.0)


# ------------------------------------------------------------------------------------------------ what is shipped


def test_a_band_file_holds_the_band(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(band, "HOME", tmp_path)
    script()["write"](sound, 1)
    (again,) = band.every_band()
    assert again.setting == sound.setting and again.seeds == sound.seeds == list(SEEDS)
    assert again.entropy == sound.entropy == pytest.approx(2.164, abs=0.01)
    for name in ("steps", "rates", "losses", "first", "last"):
        assert getattr(again, name) == pytest.approx(getattr(sound, name), rel=1e-4, abs=1e-4), name
    about = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))["measured"]
    assert {"date", "processor", "threads", "versions"} <= set(about)


def shipped(model: str):
    """A parameter: skipped, with a reason, where its band has not been made yet."""
    name = f"{model}-stories-nano"
    missing = not (band.HOME / f"{name}.json").is_file()
    skip = pytest.mark.skipif(missing, reason=f"bands/{name}.json: run benchmarks/bands.py {name}")
    return pytest.param(model, marks=skip)


shipped_bands = pytest.mark.parametrize("model", [shipped("gpt1"), shipped("gpt2")])


@shipped_bands
def test_the_defaults_have_a_band(model):
    """Of the tokens themselves `test_the_text_of_the_bands` says that they are still the same."""
    (found,) = [one for one in band.every_band() if one.setting["model"] == model]
    assert found.name == f"{model}-stories-nano" and len(found.seeds) >= band.FEWEST
    assert len(found.steps) == 100 and found.losses.shape == (len(found.seeds), 100)
    defaults = PretrainOptions(model=model)
    vocabulary = {"vocab_size": 1500}
    config = new_config(defaults, **vocabulary)
    resolve(defaults, config)
    defaults.init_std = config.initializer_range
    defaults.tokenizer = default_tokenizer(defaults.data)
    for name in (*band.SAME, *band.TUNED):
        assert getattr(defaults, name) == found.setting[name], name


@shipped_bands
def test_no_seed_of_a_band_is_abnormal_beside_the_others(model):
    functions = script()
    (found,) = [one for one in band.every_band() if one.setting["model"] == model]
    row = functions["alarms"](found, functions["leave_one_out"](len(found.seeds)))
    assert row["trials"] == len(found.seeds) and row["flagged"] == 0 and row["furthest"] < found.reach


@shipped_bands
def test_a_recorded_run_of_a_new_seed_is_normal(model):
    """Each run of the band, beside the band of the others: no row of it is told, and the last line says so."""
    functions = script()
    (found,) = [one for one in band.every_band() if one.setting["model"] == model]
    for seed, others in functions["leave_one_out"](len(found.seeds)):
        the_others, rows = functions["without"](found, seed, others)
        comparison = Comparison(the_others, found.setting)
        assert not any(comparison.news(rows[:n]) for n in range(len(rows) + 1)), seed
        last = f"Final validation loss {found.last[seed]:.3f}, "
        said = f"compare  normal: inside the band of {len(others)} seeds. {last}"
        assert comparison.closing(rows).startswith(said), seed


@pytest.mark.slow
@shipped_bands
def test_the_text_of_the_bands(model, tmp_path):
    job = prepare(PretrainOptions(model=model, device="cpu", out=str(tmp_path / "run")))
    assert job.comparison is not None, "the stories or the vocabulary have changed: run benchmarks/bands.py"
    assert job.comparison.band.entropy == pytest.approx(job.entropy, abs=1e-5)


@pytest.mark.skipif(not RESULTS.is_file(), reason="results/bands.json: run benchmarks/bands.py --false-alarms")
def test_the_recorded_false_alarms():
    """At most 1 of 20 sound runs is ever flagged."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    assert len(rows) >= 2
    for name, row in rows.items():
        assert row["flagged"] <= row["trials"] / 20, name
        assert row["rule"] == f"{band.REACH:g} + {band.UNCERTAIN:g} / seeds times the spread, {LASTING} rows", (
            "measure them again"
        )
