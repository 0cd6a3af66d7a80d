"""`minigpt train --recipe paper`: the published settings, and a word where they are not taken."""

import dataclasses
import re

import pytest

from minigpt import models
from minigpt.cli.main import main
from minigpt.jobs.pretrain import PretrainOptions, prepare
from minigpt.jobs.pretrain.recipe import recipes, settle
from minigpt.models import gpt1, gpt2

TINY = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 16}
SHORT = ["--data", "stories:20", "--tokenizer", "char", "--steps", "2", "--threads", "1"]


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The published sizes are tiny, and runs are kept here."""
    monkeypatch.setitem(gpt1.SIZES, "paper", TINY)
    monkeypatch.setitem(gpt2.SIZES, "small", TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(words, capsys) -> str:
    assert main(["train", *SHORT, *words]) == 0
    return capsys.readouterr().out


def test_the_settings_are_those_of_the_papers():
    values = {name: {one.option: one.value for one in recipe.settings} for name, recipe in recipes().items()}
    assert values == {
        "gpt1": {
            "batch": 64, "lr": 2.5e-4, "warmup": 2000, "dropout": 0.1, "init_std": 0.02, "weight_decay": 0.01,
            "beta2": 0.999, "clip": 1.0,
        },
        "gpt2": {"batch": 512},
    }  # fmt: skip
    assert recipes()["gpt1"].epochs == 100 and recipes()["gpt2"].epochs is None
    fields = {field.name: field for field in dataclasses.fields(PretrainOptions)}
    for model, recipe in recipes().items():
        assert set(recipe.sizes) == set(models.card(model).sizes) - set(models.common_sizes())
        for one in recipe.settings:  # a default of another value would hide that nothing was given
            assert fields[one.option].default in (None, one.value) and one.source


def test_the_recipe_fills_in_what_was_not_given(tmp_path):
    taken = settle(PretrainOptions(recipe="paper"))
    assert (taken.size, taken.batch, taken.lr, taken.warmup, taken.dropout) == ("paper", 64, 2.5e-4, 2000, 0.1)
    assert taken.min_lr is None  # GPT-1's cosine, down to 0
    assert settle(taken) == taken
    given = settle(PretrainOptions(recipe="paper", size="mini", batch=12, lr=1e-3))
    assert (given.size, given.batch, given.lr, given.warmup) == ("mini", 12, 1e-3, 2000)
    of_gpt2 = settle(PretrainOptions(model="gpt2", recipe="paper"))
    assert (of_gpt2.size, of_gpt2.batch, of_gpt2.lr, of_gpt2.dropout) == ("small", 512, None, None)
    assert settle(PretrainOptions()) == PretrainOptions()
    going_on = settle(PretrainOptions(model="gpt1", recipe="paper", init=str(tmp_path)))
    assert (going_on.size, going_on.init_std, going_on.batch) == (None, None, 64)  # they are those of that model


def test_a_run_with_the_recipe_tells_each_setting_and_what_was_given_instead(tiny, capsys):
    told = shown(["--recipe", "paper", "--batch", "12"], capsys)
    assert "GPT1: 1 layer, 2 heads, 8 wide" in told
    for line in (
        "--batch 64: GPT-1 section 4.1; here --batch 12",
        "--lr 0.00025: GPT-1 section 4.1\n",
        "--warmup 2000: GPT-1 section 4.1; then a cosine down to 0; here --warmup 2",
        "--init-std 0.02: GPT-1 section 4.1\n",
        "the warm-up is as long as the run: the rate never falls",
    ):
        assert f"         {line}" in told
    n_train = int(re.search(r"([\d,]+) training", told)[1].replace(",", ""))
    assert f"100 epochs, {-(-100 * n_train // (12 * 16)):,} updates with this text: here --steps 2" in told
    assert "in brackets" not in told
    assert "is finished" in shown(["--recipe", "paper", "--batch", "12"], capsys)  # the same command once more
    assert main(["train", *SHORT, "--recipe", "paper", "--out", "runs/gpt1-stories-paper"]) == 2
    assert "a finished run with --batch 12, this command says --batch 64" in capsys.readouterr().err


def test_without_it_a_published_size_says_what_the_paper_has_otherwise(tiny, capsys):
    told = shown(["--size", "paper"], capsys)
    assert told.count("recipe   ") == 1
    assert "the paper has other settings, in brackets: --batch 12 (64), --lr 0.016 (0.00025), --warmup 0 (2000)" in told
    assert ", --init-std 0.05 (0.02): --recipe paper takes them" in told
    assert "--batch 12 (512): --recipe paper takes them" in shown(["--model", "gpt2", "--size", "small"], capsys)
    for words in (["--size", "paper", "--layers", "2"], ["--model", "lstm"]):
        told = shown([*words, "--embd", "8", "--context", "16", "--out", words[1]], capsys)
        assert "recipe   " not in told


def test_what_has_no_recipe_is_refused(tiny, capsys):
    assert main(["train", *SHORT, "--model", "bert", "--recipe", "paper"]) == 2
    told = capsys.readouterr().err
    assert told == (
        "minigpt: --recipe paper: here are the published settings of gpt1 and gpt2, none of bert: leave it out\n"
    )
    assert not list(tiny.iterdir())


def test_a_library_user_gets_the_recipe_too(tiny):
    job = prepare(PretrainOptions(recipe="paper", data="stories:20", tokenizer="char", steps=3000))
    assert (job.options.batch, job.options.lr, job.options.warmup) == (64, 2.5e-4, 2000)
    assert job.model.config.initializer_range == 0.02 and job.model.config.resid_pdrop == 0.1
