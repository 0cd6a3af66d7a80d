"""Fine-tuning models that see both sides: padding is hidden, segments are set, the first state is read."""

import dataclasses

import numpy as np
import pytest
from helpers import learn_by_heart, moved, same, snapshot
from small_family import OWN, opened

from minigpt import gradcheck, models, ops
from minigpt.cli import main
from minigpt.data.examples import Task
from minigpt.errors import InputError
from minigpt.jobs.evaluate import EvaluateOptions, evaluate
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.jobs.pretrain import PretrainOptions, train
from minigpt.jobs.sample import SampleOptions, sample
from minigpt.models.classifier import Classifier, transfer
from minigpt.models.family.encoder import Encoder

ENCODERS = [card.name for card in models.CARDS if issubclass(card.model, Encoder)]
SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}
pytestmark = pytest.mark.usefixtures("quick_runs")
TASK = Task("entailment", ("no", "yes"))
DELIMITER = 9
IDS = np.array([[[8, 1, 2, 9, 3, 10, 0]], [[8, 4, 9, 5, 10, 0, 0]], [[8, 1, 1, 9, 2, 2, 10]]])
LENGTHS = np.array([[6], [5], [7]])
LABELS = np.array([0, 1, 1])


def classifier(name: str, **sizes) -> Classifier:
    kind = models.card(name).model
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    body = kind(kind.Config(**SIZES | sizes, **OWN.get(name, {}), **rates), seed=0, dtype=np.float64)
    model = Classifier(body, TASK, dropout=0.0, delimiter=DELIMITER)
    return moved(model)


class Total:
    """A classifier as the gradient check knows models: loss and loss_backward."""

    def __init__(self, model: Classifier):
        self.model = model
        self.named_parameters, self.zero_grad = model.named_parameters, model.zero_grad
        self.loss_backward = model.loss_backward

    def loss(self, ids, targets, **options):
        losses, cache = self.model.loss(ids, LENGTHS, targets, **options)
        return losses.total, cache


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_every_gradient_that_the_task_needs(name):
    """What only pre-training uses has none: its true gradient is zero."""
    model = classifier(name, n_embd=4)
    losses, cache = model.loss(IDS, LENGTHS, LABELS)
    assert losses.lm == 0 and losses.total == losses.task
    model.loss_backward(cache)
    unused = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert unused and all(name.startswith(("body.words", "body.sentences")) for name in unused)
    results = gradcheck.check_model(Total(model), IDS, LABELS)
    assert gradcheck.worst(results).error < 1e-7, gradcheck.table(results)


@pytest.mark.parametrize("name", ENCODERS)
def test_what_fills_up_a_row_moves_no_answer(name):
    model = classifier(name)
    before, _ = model.forward(IDS, LENGTHS, grad=False)
    changed = IDS.copy()
    changed[0, 0, 6:] = 7
    changed[1, 0, 5:] = 7
    after, _ = model.forward(changed, LENGTHS, grad=False)
    assert same(snapshot([before]), snapshot([after]))
    changed[0, 0, 4] = 7
    moved, _ = model.forward(changed, LENGTHS, grad=False)
    assert np.abs(moved[0] - before[0]).max() > 1e-9, "the first state sees the second text"


def test_segments_begin_behind_the_first_delimiter():
    body = classifier("bert").body
    inputs = body.inputs_of(IDS[:, 0], LENGTHS[:, 0], DELIMITER)
    assert inputs["segments"].tolist() == [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1]]
    assert inputs["mask"].sum(axis=1).tolist() == [6, 5, 7]
    assert "segments" not in body.inputs_of(IDS[:, 0], LENGTHS[:, 0]), "one text is one segment"
    assert "segments" not in classifier("roberta").body.inputs_of(IDS[:, 0], LENGTHS[:, 0], DELIMITER)


def test_an_auxiliary_loss_is_refused_where_there_is_no_next_token():
    model = classifier("bert")
    with pytest.raises(InputError, match="BERT sees the next token, so there is nothing to predict"):
        model.loss(IDS, LENGTHS, LABELS, lm_weight=0.5)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A function that gives the folder of a small pre-trained encoder."""
    folders = {}

    def folder(name: str) -> str:
        if name not in folders:
            out = str(tmp_path_factory.mktemp(name) / "run")
            train(PretrainOptions(
                model=name, data="stories:40", tokenizer="bpe:100", layers=1, heads=2, embd=8, context=64, steps=2,
                batch=2, out=out,
            ))  # fmt: skip
            folders[name] = out
        return folders[name]

    return folder


@pytest.mark.parametrize("name", ["bert", "electra"])
def test_the_command_fine_tunes_saves_and_opens_again(name, pretrained, tmp_path):
    out = str(tmp_path / "tuned")
    finetune(FinetuneOptions(model=pretrained(name), task="entailment", train="stories:20", epochs=1, out=out))
    model, text = open_classifier(out)
    assert model.delimiter == text.ids["_delimiter_"] and text.tokens[-1] == "_classify_"
    assert len(set(text.tokens)) == len(text.tokens) == model.body.config.vocab_size


def test_a_published_encoder_is_tuned_with_its_own_tokens(tmp_path, capsys):
    """No row is added to its vocabulary, the second text is segment 1, and `predict` reads the file in the same way."""
    model, text = opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    model.save(tmp_path / "bert")
    text.save(tmp_path / "bert")
    lines = [f"{i}\tthe cat sat\tthe {'cat' if i % 2 else 'dog'} saw\t{'not_' * (i % 2)}entailment" for i in range(24)]
    (tmp_path / "rte.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *lines]), encoding="utf-8")
    out = str(tmp_path / "tuned")
    options = FinetuneOptions(model=str(tmp_path / "bert"), task="rte", train=str(tmp_path / "rte.tsv"), out=out)
    options.epochs, options.batch = 1, 4
    finetune(options)
    tuned, again = open_classifier(out)
    assert again.tokens == text.tokens and tuned.delimiter == text.ids["[SEP]"]
    assert tuned.body.config.vocab_size == text.vocab_size
    capsys.readouterr()
    assert main(["predict", out, str(tmp_path / "rte.tsv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 24


@pytest.fixture
def published(tmp_path):
    """published(labels): the folder of a small BERT that came with a head for these labels, and its tokenizer."""

    def save(labels, special=("[MASK]", "[CLS]", "[SEP]")):
        body, text = opened("bert", special=list(special))
        config = dataclasses.replace(body.config, form="ForSequenceClassification", labels=labels)
        model = models.card("bert").model(config, seed=0)
        model.sentences.scores.weight.data *= 50  # so that answers differ
        model.save(tmp_path / "bert")
        text.save(tmp_path / "bert")
        return tmp_path / "bert"

    return save


def test_a_published_classifier_answers_with_its_labels(published, tmp_path, capsys):
    """Of one text, or of two, between its own special tokens and with their segments."""
    folder = published(("bad", "so so", "good"))
    texts = ["the cat sat", "the dog", "on the mat the cat saw"]
    (tmp_path / "one.tsv").write_text("\n".join(["text", *texts]), encoding="utf-8")
    assert main(["predict", str(folder), str(tmp_path / "one.tsv")]) == 0
    model, text = models.open_both(folder)
    for line, one in zip(capsys.readouterr().out.splitlines(), texts, strict=True):
        ids, segments = text.wrap(text.encode(one))
        p, _ = ops.softmax_forward(model.label_scores(np.array([ids]), segments=np.array([segments])))
        assert line == f"{model.labels[p.argmax()]}\t{p.max():.4f}"
    (tmp_path / "two.tsv").write_text("premise\thypothesis\n" + "\n".join(f"{one}\tthe dog saw" for one in texts))
    assert main(["predict", str(folder), str(tmp_path / "two.tsv"), "--task", "entailment"]) == 0
    for line, one in zip(capsys.readouterr().out.splitlines(), texts, strict=True):
        ids, segments = text.wrap(text.encode(one), text.encode("the dog saw"))
        p, _ = ops.softmax_forward(model.label_scores(np.array([ids]), segments=np.array([segments])))
        assert line == f"{model.labels[p.argmax()]}\t{p.max():.4f}"


@pytest.mark.parametrize(
    ("labels", "special", "task", "words"),
    [
        (("LABEL_0",), ("[CLS]", "[SEP]"), "classification", "its head gives one number, LABEL_0, and no labels to"),
        (("a", "b"), ("[MASK]",), "classification", "does not tell which special tokens stand around a text"),
        (("a", "b"), ("[CLS]", "[SEP]"), "similarity", "--task similarity lays out a similarity, and"),
    ],
)
def test_what_a_published_classifier_cannot_answer(labels, special, task, words, published, tmp_path, capsys):
    (tmp_path / "file.tsv").write_text("text\ta\tb\nthe cat\tthe dog\tthe mat\n", encoding="utf-8")
    assert main(["predict", str(published(labels, special)), str(tmp_path / "file.tsv"), "--task", task]) == 2
    assert words in capsys.readouterr().err


def test_a_body_alone_is_tuned_and_does_not_tell_words(tmp_path, capsys):
    """As many are published: what an update costs is counted without the head that is not there."""
    model, text = opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    body = type(model)(dataclasses.replace(model.config, form="Model"), seed=0)
    body.save(tmp_path / "body")
    text.save(tmp_path / "body")
    (tmp_path / "sst.tsv").write_text("sentence\tlabel\n" + "the cat sat\t0\nthe dog saw\t1\n" * 12, encoding="utf-8")
    options = FinetuneOptions(
        model=str(tmp_path / "body"), task="sst2", train=str(tmp_path / "sst.tsv"), out=str(tmp_path / "tuned"),
        epochs=1, batch=4,
    )  # fmt: skip
    finetune(options)
    assert open_classifier(str(tmp_path / "tuned"))[0].body.words is None
    assert main(["info", str(tmp_path / "body")]) == 0
    capsys.readouterr()
    assert main(["fill", str(tmp_path / "body"), "the [MASK] sat"]) == 2
    error = capsys.readouterr().err
    assert "opened as BertModel, which tells no words" in error and error.count("\n") == 1


@pytest.mark.parametrize("name", ENCODERS)
def test_three_examples_are_learned_by_heart(name):
    model = classifier(name)
    losses = learn_by_heart(model, 90, IDS, LENGTHS, LABELS)
    assert (model.probabilities(IDS, LENGTHS).argmax(axis=1) == LABELS).all() and losses.task < 0.1


def test_the_command_refuses_an_auxiliary_loss_before_anything_is_written(pretrained, tmp_path):
    options = FinetuneOptions(
        model=pretrained("bert"), task="sentiment", train="stories:20", lm_weight=0.5, out=str(tmp_path / "x")
    )
    with pytest.raises(InputError, match="lm_weight is 0.5"):
        finetune(options)
    assert not (tmp_path / "x").exists()


def test_new_rows_of_the_vocabulary_reach_table_and_bias():
    body = classifier("electra").body
    wider = transfer(body, 2)
    shapes = {name: parameter.data.shape for name, parameter in wider.named_parameters()}
    assert shapes["tokens_embed.weight"] == (13, 4) and shapes["generator.words.bias"] == (13,)
    assert same(snapshot([wider.head.data[:11]]), snapshot([body.head.data]))


def test_scores_of_a_next_token_are_refused_where_it_is_seen(pretrained, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time there was a dog.\n", encoding="utf-8")
    with pytest.raises(InputError, match="a model of type BERT, which sees the next token"):
        evaluate(EvaluateOptions(folder=pretrained("bert"), task="perplexity", file=str(text)))


def test_a_frozen_body_drops_nothing():
    kind = models.card("bert").model
    body = kind(kind.Config(**SIZES), seed=0, dtype=np.float64)
    model = Classifier(body, TASK, dropout=0.0, delimiter=DELIMITER)
    key = ops.Key.of(1)
    dropped, _ = model.forward(IDS, LENGTHS, key=key, grad=False)
    model.frozen = True
    frozen, _ = model.forward(IDS, LENGTHS, key=key, grad=False)
    plain, _ = model.forward(IDS, LENGTHS, grad=False)
    assert same(snapshot([frozen]), snapshot([plain])) and not same(snapshot([dropped]), snapshot([plain]))


def test_a_model_that_cannot_write_says_so_before_anything_else(pretrained, capsys):
    folder = pretrained("bert")
    capsys.readouterr()
    with pytest.raises(InputError, match="cannot continue a text"):
        sample(SampleOptions(folder=folder, prompt="a dog"))
    assert not any(capsys.readouterr())
