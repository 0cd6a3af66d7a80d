"""BERT: one model of logits and loss, what it refuses, and that it learns covered words. The rest: test_family.py."""

import json

import numpy as np
import pytest
from helpers import (
    check_along,
    error,
    learn_by_heart,
    small_model,
    snapshot,
)

from minigpt import models, ops
from minigpt.data.objectives import masked, sentence_pairs
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, prepare, train
from minigpt.models.family.bert import BERT, BERTConfig

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}

pytestmark = pytest.mark.usefixtures("no_pictures")


def small(dtype=np.float64, dropout=0.0, **sizes) -> BERT:
    return small_model(BERT, SIZES | sizes, dtype, dropout)


def inputs(rows=3, length=5, seed=0) -> dict:
    """Ids, targets of which some are not predicted, segments, padding at the right of the last row, and labels."""
    rng = np.random.default_rng(seed)
    ids, targets = rng.integers(11, size=(2, rows, length))
    targets[rng.random(targets.shape) < 0.5] = ops.IGNORED
    targets[0, 0] = 3
    mask = np.ones((rows, length), bool)
    mask[-1, -2:] = False
    segments = (np.arange(length) >= 3).astype(int) * np.ones((rows, 1), int)
    return {"ids": ids, "targets": targets, "mask": mask, "segments": segments, "sentence_labels": np.array([0, 1, 1])}


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_blocks", [False, True])
def test_every_gradient_without_dropout(checkpoint_blocks):
    model = small()
    model.checkpoint_blocks = checkpoint_blocks
    check_along(model, **inputs())


def test_logits_and_loss_are_one_model():
    model, given = small(), inputs()
    given.pop("sentence_labels")
    targets = given.pop("targets")
    logits, cache = model.forward(**given)
    loss, by_logits = ops.cross_entropy_forward(logits, targets)
    model.zero_grad()
    model.backward(ops.cross_entropy_backward(1.0, by_logits), cache)
    expected = snapshot([p.grad for _, p in model.named_parameters() if p.grad is not None])
    model.zero_grad()
    whole, cache = model.loss(targets=targets, **given)
    model.loss_backward(cache)
    assert error(loss, whole) < 1e-12
    found = [p.grad for _, p in model.named_parameters() if p.grad is not None]
    assert max(error(a, b) for a, b in zip(found, expected, strict=True)) < 1e-9


def test_its_mask_never_falls_back_to_the_reference():
    model, given = small(np.float32), inputs()
    with ops.tracing() as calls:
        _, cache = model.loss(**given)
    model.loss_backward(cache)
    attention = [call for call in calls if call.op == "self_attention"]
    assert len(attention) == 2 and {call.implementation for call in attention} == {"fast"}


def test_saved_with_the_published_keys(tmp_path):
    small(np.float32).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["hidden_size"] == 6 and config["type_vocab_size"] == 2 and "n_embd" not in config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu', as in CLIP: built here are gelu_new, "),
        ({"intermediate_size": 0}, "n_inner is 0"),
        ({"position_embedding_type": "relative_key"}, "'relative_key', as BERTs with relative positions have it: only"),
        ({"n_segments": 0}, "n_segments is 0"),
    ],
)
def test_what_is_not_built_is_refused(values, words):
    with pytest.raises(InputError, match=words):
        BERTConfig.from_dict({"model_type": "bert", **SIZES, **values})


def test_wrong_calls_have_one_clear_line():
    model, ids = small(), np.arange(5)[None]
    with pytest.raises(InputError, match="covered words and cannot continue a text: take gpt2 or llama"):
        model.generate(ids, 3)
    with pytest.raises(InputError, match=r"segments have shape \(1, 4\), and the ids \(1, 5\)"):
        model.hidden(ids, segments=ids[:, :4])
    with pytest.raises(InputError, match="segment 2 is out of range: this model has 2"):
        model.hidden(ids, segments=ids)
    with pytest.raises(InputError, match="so it cannot go on from a past"):
        model.hidden(ids, past=[])


def test_it_learns_the_covered_tokens_of_one_batch():
    """One batch, overfitted: every gradient that is needed for it arrives, and has the right sign."""
    windows = np.random.default_rng(0).integers(10, size=(4, 8))
    batch = masked(10, 11)(windows, np.random.default_rng(0))
    model = BERT(BERTConfig(**(SIZES | {"n_embd": 16})), seed=0)
    loss = learn_by_heart(model, 150, batch.ids, batch.targets, **batch.inputs)
    assert loss < 0.05, f"{batch.n_targets} covered tokens are not learnt by heart: the loss is {loss:.3f}"


def test_it_trains_by_the_same_pipeline_as_gpt(tmp_path):
    """The run does better than chance, and ends in a folder that opens and that --resume finds finished."""
    options = PretrainOptions(
        model="bert", data="stories:60", tokenizer="bpe:300", layers=1, heads=2, embd=32, context=16, steps=30,
        batch=8, lr=3e-3, out=str(tmp_path / "run"),
    )  # fmt: skip
    job = prepare(options)
    assert job.text.tokens[-3:] == ["_mask_", "_start_", "_delimiter_"] and job.model.config.vocab_size == 303
    job = train(options)
    assert job.step == 30 and job.best < np.log(303) + np.log(2)
    model, text = models.open_both(tmp_path / "run")
    assert type(model) is BERT and text.vocab_size == 303
    resumed = train(PretrainOptions(out=str(tmp_path / "run"), resume=True))
    assert resumed.step == 30


def test_only_covered_tokens_are_predicted():
    batch = masked(10, 11)(np.arange(9 * 8).reshape(8, 9) % 10, np.random.default_rng(0))
    model = small(np.float32)
    loss, _ = model.loss(batch.ids, batch.targets, **batch.inputs)
    assert batch.n_targets == 8 and np.isfinite(loss)


def test_the_parts_of_a_batch_have_the_loss_of_the_whole():
    model = small(n_positions=12, vocab_size=25)
    rows = np.random.default_rng(3).integers(5, 25, size=(4, 13))
    batch = sentence_pairs(mask_id=4, vocab_size=25, start_id=2, separator_id=3)(rows, np.random.default_rng(0))
    whole = model.loss(batch.ids, batch.targets, **batch.inputs)[0]
    parts = 0.0
    for part in (batch.rows(slice(0, 1)), batch.rows(slice(1, 4))):
        parts += model.loss(part.ids, part.targets, normalizer=batch.n_targets, **part.inputs)[0]
    assert parts == pytest.approx(whole, rel=1e-12)


def test_a_body_with_a_pooler_has_no_scores_of_a_text():
    body = BERT(BERTConfig(vocab_size=11, n_positions=8, n_embd=6, n_layer=1, n_head=2, form="Model"))
    ids = np.arange(5)[None]
    assert body.pooled(ids).shape == (1, 6)
    with pytest.raises(InputError, match="no scores of a text"):
        body.sentence_scores(ids)
