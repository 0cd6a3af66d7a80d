"""GPT-1 and GPT-2 with a head for labels: opened as others write them, answered with, saved again.

Files are made here. Against transformers itself: test_parity_variants.py.
"""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from helpers import as_another_program, error, same, same_weights, small_gpt1, small_gpt2, snapshot
from small_family import opened

from minigpt import models, open_model, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.tokenizer import GPT1Tokenizer, GPT2Tokenizer

LABELS = ("bad", "so so", "good")
KINDS = {small_gpt1: "OpenAIGPTForSequenceClassification", small_gpt2: "GPT2ForSequenceClassification"}
IDS = np.array([[3, 4, 5, 2], [6, 1, 0, 0]])
each_kind = pytest.mark.parametrize("make", KINDS, ids=KINDS.values())


def as_transformers(folder, change=lambda tensors: tensors, **values):
    """The folder as transformers writes it: with the body's name before its tensors."""

    def named(tensors):
        whole = {name if name.startswith("score.") else f"transformer.{name}": t for name, t in tensors.items()}
        return change(whole)

    as_another_program(folder, named, **values)


def expected(model, ids, last):
    """Scores of the labels from the states at these places, one of each row."""
    h, _ = model.hidden(ids, grad=False)
    return np.stack([row[i] for row, i in zip(h, last, strict=True)]) @ model.score.weight.data.T


@each_kind
def test_it_is_saved_as_its_class_and_opened_again(make, tmp_path):
    model = make(labels=LABELS, pad_token_id=0)
    model.save(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert told["architectures"] == [KINDS[make]] and told["pad_token_id"] == 0 and "labels" not in told
    assert told["id2label"] == {"0": "bad", "1": "so so", "2": "good"}
    assert told["label2id"] == {"bad": 0, "so so": 1, "good": 2}
    as_transformers(tmp_path)
    again = open_model(tmp_path, dtype=np.float64)
    assert again.config == model.config and again.labels == LABELS
    assert same_weights(model, again)
    assert model.score.weight.data.shape == (3, model.config.n_embd)
    assert [name for name, _ in model.named_parameters()][-1] == "score.weight"
    assert model.Config.from_dict(told) == model.config, "a run that goes on has nothing but its configuration"


@each_kind
def test_without_labels_nothing_is_said_of_them(make):
    model = make()
    assert model.labels == () and model.score is None
    assert not {"labels", "pad_token_id", "id2label", "architectures"} & model.config.to_dict().keys()
    more = {"pad_token_id": -1, "id2label": {"0": "a"}}
    assert model.Config.from_dict(model.config.to_dict() | more) == model.config
    with pytest.raises(InputError, match=f"has no labels: take a file of a {KINDS[make]}"):
        model.label_scores(IDS)


@pytest.mark.parametrize("values", [{"architectures": ...}, {"architectures": ["Mine"]}])
def test_the_tensor_tells_that_there_are_labels_whatever_the_class(values, tmp_path):
    small_gpt2(labels=("LABEL_0", "LABEL_1")).save(tmp_path)
    as_transformers(tmp_path, id2label=..., label2id=..., **values)
    assert open_model(tmp_path).labels == ("LABEL_0", "LABEL_1"), "two, where none are named"
    as_transformers(tmp_path, lambda tensors: {n.removeprefix("transformer."): t for n, t in tensors.items()},
                    id2label={"0": "no", "1": "yes"})  # fmt: skip
    assert open_model(tmp_path).labels == ("no", "yes")


def test_a_head_that_is_missing_or_of_another_size_is_told(tmp_path):
    small_gpt2(labels=LABELS).save(tmp_path)
    as_transformers(tmp_path, id2label={"0": "no", "1": "yes"})
    with pytest.raises(InputError, match=r"score.weight.*\(3, .*\(2, "):
        open_model(tmp_path)
    as_transformers(tmp_path, lambda tensors: {n[12:]: t for n, t in tensors.items() if n.startswith("transf")})
    with pytest.raises(InputError, match="tensor score.weight is missing"):
        open_model(tmp_path)


def test_a_file_with_labels_has_no_output_of_its_own(tmp_path):
    small_gpt2(labels=LABELS).save(tmp_path)
    as_transformers(tmp_path, tie_word_embeddings=False)
    model = open_model(tmp_path)
    assert model.lm_head is None and model.labels == LABELS


# --- which state is read ---------------------------------------------------------------------------------------------


@each_kind
def test_scores_are_of_the_last_token_that_is_no_padding(make):
    mask = np.array([[True, True, True, True], [True, True, False, False]])
    model = make(labels=LABELS)
    assert error(model.label_scores(IDS), expected(model, IDS, [3, 3])) < 1e-14
    assert error(model.label_scores(IDS, mask=mask), expected(model, IDS, [3, 1])) < 1e-13
    assert error(model.label_scores(IDS, mask=mask.astype(int)), expected(model, IDS, [3, 1])) < 1e-13
    padded = make(labels=LABELS, pad_token_id=0)
    assert error(padded.label_scores(IDS), expected(padded, IDS, [3, 1])) < 1e-14
    assert error(padded.label_scores(IDS, mask=mask | True), expected(padded, IDS, [3, 3])) < 1e-13, "the mask decides"
    inside = np.array([[3, 0, 5, 2], [0, 0, 0, 0]])
    assert error(padded.label_scores(inside), expected(padded, inside, [3, 0])) < 1e-14


def test_what_is_padding_at_the_left_is_not_seen():
    model = small_gpt2(labels=LABELS)
    mask = np.array([[False, True, True, True]])
    found = [model.label_scores(np.array([[first, 4, 5, 2]]), mask=mask) for first in (1, 6)]
    assert same(*(snapshot([one]) for one in found))
    assert error(found[0], model.label_scores(np.array([[1, 4, 5, 2]]))) > 1e-6


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 4), (2, 4, 1)])
def test_a_mask_of_another_shape_is_refused(shape):
    with pytest.raises(InputError, match=r"mask is of shape .*: give one of shape \(2, 4\), that of the ids"):
        small_gpt2(labels=LABELS).label_scores(IDS, mask=np.ones(shape, bool))


# --- heads with no use here ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["classifier", "qa_outputs", "multiple_choice_head.summary"])
@each_kind
def test_another_head_is_left_out_with_one_line(make, head, tmp_path):
    model = make()
    model.save(tmp_path)
    more = {f"{head}.weight": np.ones((2, model.config.n_embd)), f"{head}.bias": np.ones(2)}
    as_transformers(tmp_path, lambda tensors: tensors | more)
    with pytest.warns(UserWarning, match=f"a head that nothing here uses: {head}.bias, {head}.weight") as told:
        again = open_model(tmp_path, dtype=np.float64)
    assert len(told) == 1
    assert same(*(snapshot([m.hidden(IDS, grad=False)[0]]) for m in (model, again)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.save(tmp_path, overwrite=True)
        open_model(tmp_path)


def test_a_tensor_that_is_no_known_head_is_still_refused(tmp_path):
    model = small_gpt2()
    model.save(tmp_path)
    as_transformers(tmp_path, lambda tensors: tensors | {"scores.weight": np.ones((2, 4))})
    with pytest.raises(InputError, match="tensor scores.weight does not belong to this model"):
        open_model(tmp_path)


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path):
    """published(name, labels): the folder of a small GPT with labels, and its tokenizer, without special tokens."""

    def save(name, labels=LABELS):
        kind = {"gpt1": GPT1Tokenizer, "gpt2": GPT2Tokenizer}[name]
        body, text = opened(name, kind, special=[])
        model = models.card(name).model(dataclasses.replace(body.config, labels=labels), seed=0)
        rng = np.random.default_rng(1)
        for parameter in model.parameters():  # so that answers differ
            parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(np.float32)
        model.save(tmp_path / name)
        text.save(tmp_path / name)
        return tmp_path / name

    return save


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_predict_answers_with_its_labels(name, published, tmp_path, capsys):
    """Of one text, or of two, one behind the other, with nothing around them."""
    folder = published(name)
    texts = ["the cat sat", "the dog", "on the mat the cat"]
    (tmp_path / "one.tsv").write_text("\n".join(["text", *texts]), encoding="utf-8")
    assert main(["predict", str(folder), str(tmp_path / "one.tsv")]) == 0
    model, text = models.open_both(folder)
    answers = []
    for line, one in zip(capsys.readouterr().out.splitlines(), texts, strict=True):
        check_answer(line, model, text.encode(one))
        answers.append(line)
    assert len(set(answers)) == 3
    (tmp_path / "two.tsv").write_text("premise\thypothesis\n" + "\n".join(f"{one}\tthe dog" for one in texts))
    assert main(["predict", str(folder), str(tmp_path / "two.tsv"), "--task", "entailment"]) == 0
    for line, one in zip(capsys.readouterr().out.splitlines(), texts, strict=True):
        check_answer(line, model, text.encode(one) + text.encode("the dog"))


def check_answer(line, model, ids):
    """The line has the label with the best score, and its probability, but for rounding."""
    label, probability = line.split("\t")
    p, _ = ops.softmax_forward(model.label_scores(np.array([ids])))
    assert label == model.labels[p.argmax()] and abs(float(probability) - p.max()) < 2e-4


def test_a_single_number_is_no_answer(published, tmp_path, capsys):
    (tmp_path / "one.tsv").write_text("text\nthe cat\n", encoding="utf-8")
    assert main(["predict", str(published("gpt2", ("LABEL_0",))), str(tmp_path / "one.tsv")]) == 2
    assert "its head gives one number, LABEL_0, and no labels to choose from" in capsys.readouterr().err


def test_it_is_tuned_for_another_task(published, tmp_path):
    """Its own head stays as it was, and is saved with the body."""
    folder = published("gpt2")
    (tmp_path / "sst.tsv").write_text("sentence\tlabel\n" + "the cat sat\t0\nthe dog\t1\n" * 12, encoding="utf-8")
    out = str(tmp_path / "tuned")
    options = FinetuneOptions(model=str(folder), task="sst2", train=str(tmp_path / "sst.tsv"), out=out)
    options.epochs, options.batch = 1, 4
    finetune(options)
    tuned, _ = open_classifier(out)
    assert tuned.body.labels == LABELS
    assert np.array_equal(tuned.body.score.weight.data, open_model(folder).score.weight.data)
