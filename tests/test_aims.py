"""What a model learns to predict can be chosen by name: `minigpt train --objective`."""

import functools
import re

import numpy as np
import pytest

from minigpt import models, ops
from minigpt.data.objectives import masked, n_grams
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, train

AIMS = [(card.name, aim.name) for card in models.CARDS for aim in card.other_aims]
SMALL = {"data": "stories:40", "tokenizer": "bpe:300", "layers": 1, "heads": 2, "embd": 16, "context": 32, "batch": 6}
PAIRS = {"data": "pairs:40", "tokenizer": "bpe:1100", "context": 64}

pytestmark = pytest.mark.usefixtures("no_pictures")


def job_with(model, objective, folder, **options):
    """The job of a few updates."""
    return train(PretrainOptions(model=model, objective=objective, steps=2, out=str(folder), **SMALL | options))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, no_pictures):
    """The job of a model and an objective, which all tests share."""

    @functools.cache
    def trained(model, objective):
        pairs = PAIRS if objective == "translation" else {}
        return job_with(model, objective, tmp_path_factory.mktemp(model) / "run", **pairs)

    return trained


@pytest.mark.parametrize(("model", "objective"), AIMS)
def test_each_objective_trains_and_the_run_goes_on_with_it(model, objective, trained):
    job = trained(model, objective)
    assert job.step == 2 and np.isfinite(job.run.rows[-1]["val_loss"])
    assert job.options.mask_rate == models.card(model).aim(objective).mask_rate
    again = train(PretrainOptions(resume=True, out=str(job.run.folder)))
    assert again.options.objective == objective


@pytest.mark.parametrize(
    ("objective", "same_length", "same_tokens"),
    [("masking", True, False), ("deletion", False, False), ("infilling", False, False), ("permutation", True, True),
     ("rotation", True, True)],
)  # fmt: skip
def test_the_noises_of_bart_are_what_they_are_called(trained, objective, same_length, same_tokens):
    job = trained("bart", objective)
    batch = job.objective(job.train[: 17 * 40].reshape(40, 17), np.random.default_rng(0))
    texts = batch.targets[:, :-1]
    lengths = batch.source_mask.sum(axis=1)
    assert (lengths == texts.shape[1]).all() == same_length
    is_mask = batch.source == job.text.ids["_mask_"]
    assert is_mask.any() == (objective in ("masking", "infilling"))
    rows = list(zip(batch.source, lengths, texts, strict=True))
    sorted_alike = [np.array_equal(np.sort(row[:n]), np.sort(text)) for row, n, text in rows]
    assert all(sorted_alike) == same_tokens
    moved = [not np.array_equal(row[:n], text) for row, n, text in rows]
    assert any(moved)


@pytest.mark.parametrize("model", ["bart", "mass", "t5"])
def test_a_translation_is_written_after_its_sentence(model, trained):
    job = trained(model, "translation")
    batch = job.objective(job.train[: 65 * 20].reshape(20, 65), np.random.default_rng(0))
    sources = [job.text.decode(row[mask]) for row, mask in zip(batch.source, batch.source_mask, strict=True)]
    targets = [job.text.decode(row[row != ops.IGNORED][:-1]) for row in batch.targets]
    assert any(targets) and not any("=" in text for text in sources + targets)
    for source, target in zip(sources, targets, strict=True):
        if target:
            assert re.fullmatch(r"[ -~]+", source) and re.search("[가-힣]", target) and not re.search("[a-z]", target)


def test_xlm_covers_words_of_both_languages(trained):
    job = trained("xlm", "translation")
    batch = job.objective(job.train[: 65 * 20].reshape(20, 65), np.random.default_rng(0))
    covered = batch.targets != ops.IGNORED
    in_language = [covered & (batch.segments == one) for one in (0, 1)]
    assert all(found.sum() > 20 for found in in_language)
    assert (batch.positions[:, 0] == 0).all() and (batch.positions == 0).sum() > len(batch.ids)


def test_fixed_tokens_are_covered_again_and_drawn_ones_are_not(trained):
    windows = np.random.default_rng(0).integers(5, 300, size=(8, 17))
    covered = {}
    for objective in ("fixed", None):
        job = trained("roberta", objective)
        batches = [job.objective(windows, np.random.default_rng(seed)) for seed in (1, 2)]
        covered[objective] = [batch.targets != ops.IGNORED for batch in batches]
    assert np.array_equal(*covered["fixed"]) and not np.array_equal(*covered[None])


def test_a_word_is_covered_whole(trained):
    job = trained("bert", "whole-words")
    ends = np.array([token.endswith("</w>") for token in job.text.tokens])
    batch = job.objective(job.train[: 33 * 60].reshape(60, 33), np.random.default_rng(0))
    covered = batch.targets != ops.IGNORED
    tokens = np.where(covered, batch.targets, batch.ids)
    inside = ~ends[tokens[:, :-1]]  # of one word with the token after it
    n_special = len(job.text.tokens) - 3
    inside &= (tokens[:, :-1] < n_special) & (tokens[:, 1:] < n_special)
    both = covered[:, :-1] & covered[:, 1:]
    one = covered[:, :-1] ^ covered[:, 1:]
    assert both[inside].sum() > 20 and not one[inside].any()


def test_stretches_of_three_are_a_third_as_frequent_as_single_tokens():
    """ALBERT section 4.1: chances 6/11, 3/11 and 2/11. Of one stretch in a row, nothing is cut and nothing touches."""
    draw = n_grams(3)
    ids = np.ones((6_000, 40), int)
    rng = np.random.default_rng(0)
    drawn = draw(ids, 3, rng)
    assert (drawn.sum(axis=1) == 3).all()
    runs = (np.diff(np.pad(drawn, ((0, 0), (1, 1))).astype(int), axis=1) == 1).sum(axis=1)
    # one run: 3; or 2 + 1, 1 + 2, 1 + 1 + 1 that touch: about (2/11 + small) of the rows
    assert 2 / 11 - 0.02 < (runs == 1).mean() < 2 / 11 + 0.09
    assert drawn.mean(axis=0).std() < 0.02, "every place is covered about as often"
    free = np.where(np.arange(40) % 2, 1, -1)[None].repeat(50, axis=0)
    assert not draw(free, 30, rng)[:, ::2].any(), "a special token is never covered"
    assert (draw(free, 30, rng).sum(axis=1) == 20).all(), "all that are free, where more are wanted"


def test_n_grams_cover_neighbours_more_often_than_single_tokens():
    ids = np.random.default_rng(0).integers(5, 99, size=(500, 41))
    neighbours = {}
    for name, places in (("single", None), ("n-grams", n_grams())):
        covered = masked(0, 99, 0.15, places=places)(ids, np.random.default_rng(1)).targets != ops.IGNORED
        assert (covered.sum(axis=1) == 6).all()
        neighbours[name] = (covered[:, 1:] & covered[:, :-1]).sum()
    assert neighbours["n-grams"] > 2 * neighbours["single"]


@pytest.mark.parametrize("longest", [0, 1.5, "x"])
def test_a_stretch_has_a_length(longest):
    with pytest.raises(InputError, match="longest"):
        n_grams(longest)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("gpt1", {"objective": "masking"}, "gpt1 has a single objective: leave --objective out"),
        ("bart", {"objective": "spans"}, "bart has none of that name: choose masking or deletion or"),
        ("t5", {"objective": "translation"}, "no token for '='"),
        ("bart", {"objective": "rotation", "mask_rate": 0.2}, "--objective rotation covers no tokens"),
    ],
)
def test_an_objective_that_a_model_has_not_is_refused(model, options, words, tmp_path):
    with pytest.raises(InputError, match=words):
        job_with(model, folder=tmp_path / "run", **{"objective": None} | options)
    assert not (tmp_path / "run").exists()
