"""An encoder-decoder does a task by writing: its loss, what it finds likeliest, its file, and the whole command."""

import json
import math

import numpy as np
import pytest
from helpers import check_along, check_every_entry, learn_by_heart, same, snapshot

from minigpt import models, ops, tokenizer
from minigpt.cli import main as minigpt
from minigpt.data.examples import Example, Task
from minigpt.data.input_transformations import DELIMITER, EXTRACT, SPECIAL, START, encode_all
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.jobs.predict import PredictOptions, predict
from minigpt.jobs.pretrain import PretrainOptions, train
from minigpt.models.classifier import Classifier, transfer
from minigpt.models.family.encoder_decoder import END
from minigpt.models.task_model import FILE
from minigpt.models.text_classifier import TextClassifier, answer_ids, answer_texts, kind_for

NAMES = ["mass", "bart", "t5"]
SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2, "decoder_start_token_id": 0}
OWN = {"mass": {"n_inner": 9}, "bart": {"n_inner": 9},
       "t5": {"d_kv": 3, "d_ff": 7, "n_buckets": 4, "max_distance": 9}}  # fmt: skip
END_ID = 10
ANSWERS = [[4, END_ID], [5, 6, END_ID], [4, 6, 7, END_ID]]
TASK = Task("classification", ("no", "yes", "perhaps"))
IDS = np.array([[[8, 1, 2, 9, 3]], [[8, 4, 9, 0, 0]]])
LENGTHS = np.array([[5], [3]])
LABELS = np.array([2, 1])


def writer(name: str, task: Task = TASK, answers=ANSWERS) -> TextClassifier:
    kind = models.card(name).model
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    body = kind(kind.Config(**SIZES, **OWN.get(name, {}), **rates), seed=0, dtype=np.float64)
    rng = np.random.default_rng(1)
    for parameter in body.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    return TextClassifier(body, task, answers)


def log_p(model: TextClassifier, row: int, answer: list[int]) -> list[float]:
    """The log-probability of each token of an answer, one after the other, from logits of one row alone."""
    source = IDS[row, :, : LENGTHS[row, 0]]
    found = []
    for n, token in enumerate(answer):
        logits, _ = model.body.forward(np.array([[0, *answer[:n]]]), grad=False, source=source)
        z = logits[0, -1]
        found.append(float(z[token] - np.log(np.exp(z).sum())))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_log_probabilities_of_the_answers(name):
    model = writer(name)
    expected = [[sum(log_p(model, row, answer)) for answer in ANSWERS] for row in range(2)]
    assert np.allclose(model.scores(IDS, LENGTHS), expected, rtol=1e-12)
    p = np.exp(expected)
    assert np.allclose(model.probabilities(IDS, LENGTHS), p / p.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_the_mean_over_examples_of_the_mean_over_tokens(name):
    model = writer(name)
    losses, _ = model.loss(IDS, LENGTHS, LABELS)
    per_example = [-np.mean(log_p(model, row, ANSWERS[label])) for row, label in enumerate(LABELS)]
    assert math.isclose(losses.total, np.mean(per_example), rel_tol=1e-12)
    assert losses.task == losses.total and losses.lm == 0
    parts = [model.loss(IDS[row : row + 1], LENGTHS[row : row + 1], LABELS[row : row + 1], normalizer=2)[0].total
             for row in range(2)]  # fmt: skip
    assert math.isclose(sum(parts), losses.total, rel_tol=1e-12)


def test_a_score_between_two_numbers_teaches_both():
    answers = [[number, END_ID] for number in range(1, 7)]
    scored = writer("t5", Task("similarity", metric="pearson"), answers)
    plain = writer("t5", Task("classification", tuple("abcdef")), answers)
    both = scored.loss(IDS, LENGTHS, np.array([2.25, 5.0]))[0].total
    low = plain.loss(IDS[:1], LENGTHS[:1], [2], normalizer=2)[0].total
    high = plain.loss(IDS[:1], LENGTHS[:1], [3], normalizer=2)[0].total
    second = plain.loss(IDS[1:], LENGTHS[1:], [5], normalizer=2)[0].total
    assert math.isclose(both, 0.75 * low + 0.25 * high + second, rel_tol=1e-12)


class Total:
    """A text classifier as the gradient check knows models: loss and loss_backward."""

    def __init__(self, model: TextClassifier):
        self.model = model
        self.named_parameters, self.zero_grad = model.named_parameters, model.zero_grad
        self.loss_backward = model.loss_backward

    def loss(self, ids, targets, **options):
        losses, cache = self.model.loss(ids, LENGTHS, targets, **options)
        return losses.total, cache


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", [check_along, pytest.param(check_every_entry, marks=pytest.mark.slow)])
def test_every_gradient(check, name):
    check(Total(writer(name)), IDS, LABELS)


@pytest.mark.parametrize("name", NAMES)
def test_what_fills_up_a_source_moves_no_answer(name):
    model = writer(name)
    before = model.scores(IDS, LENGTHS)
    changed = IDS.copy()
    changed[1, 0, 3:] = 7
    assert same(snapshot([before]), snapshot([model.scores(changed, LENGTHS)]))
    changed[1, 0, 2] = 7
    assert np.abs(model.scores(changed, LENGTHS)[1] - before[1]).max() > 1e-9, "text does"


@pytest.mark.parametrize("name", NAMES)
def test_two_examples_are_learned_by_heart(name):
    model = writer(name)
    losses = learn_by_heart(model, 120, IDS, LENGTHS, LABELS, rule=models.card(name).optimizer)
    assert (model.probabilities(IDS, LENGTHS).argmax(axis=1) == LABELS).all() and losses.task < 0.3


# ---------------------------------------------------------------------------------------- examples, answers, refusals


WORDS = tokenizer.GPT1Tokenizer.train("a man ate one red pie . no , yes . the end b c", 60).with_special((END,))


def test_all_texts_stand_in_one_sequence():
    text = WORDS.with_special(SPECIAL)
    s, d, e = (text.ids[name] for name in (START, DELIMITER, EXTRACT))
    example = Example(("a man", "the end"), 0, choices=("one", "no"))
    ((one,),) = encode_all([example], "together", text, room=100)
    parts = [WORDS.encode(part) for part in ("a man", "the end", "one", "no")]
    assert one.ids == [s, *parts[0], d, *parts[1], d, *parts[2], d, *parts[3], e]
    names = ["text 1", DELIMITER, "text 2", DELIMITER, "candidate 1", DELIMITER, "candidate 2"]
    assert one.names == (START, *names, EXTRACT)


def test_answers_of_each_kind_of_task():
    two, three = Example(("a",), 0, ("x", "y")), Example(("a",), 0, ("x", "y", "z"))
    assert answer_texts(TASK, []) == ["no", "yes", "perhaps"]
    assert answer_texts(Task("similarity", metric="pearson"), []) == list("012345")
    assert answer_texts(Task("choice"), [two, two]) == ["a", "b"]
    with pytest.raises(InputError, match=r"have \[2, 3\] candidates"):
        answer_texts(Task("choice"), [two, three])


def test_answers_that_the_vocabulary_cannot_write_are_refused():
    found = answer_ids(["no", "yes"], WORDS)
    assert found == [[*WORDS.encode("no"), WORDS.ids[END]], [*WORDS.encode("yes"), WORDS.ids[END]]]
    for bad in (["no", "7"], ["no", ""], ["no", "no"]):
        with pytest.raises(InputError, match=f"cannot write the answer '{bad[1]}'"):
            answer_ids(bad, WORDS)
    with pytest.raises(InputError, match="has no token _end_"):
        answer_ids(["no"], tokenizer.GPT1Tokenizer.train("no yes", 20))


def test_each_body_has_its_own_kind():
    body = writer("t5").body
    gpt1 = models.card("gpt1").model
    plain = gpt1(gpt1.Config(vocab_size=11, n_positions=8, n_embd=6, n_layer=1, n_head=2))
    assert kind_for(body) is TextClassifier and kind_for(plain) is Classifier
    with pytest.raises(InputError, match="T5 writes its answer beside a source: take TextClassifier"):
        Classifier(body, TASK)
    with pytest.raises(InputError, match="GPT1 reads no source to write beside: take Classifier"):
        TextClassifier(plain, TASK, ANSWERS)
    with pytest.raises(InputError, match="lm_weight is 0.5: T5 writes its answer and nothing beside it"):
        writer("t5").loss(IDS, LENGTHS, LABELS, lm_weight=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_some_layers_are_taken_over_on_both_sides(name):
    body = writer(name).body
    moved = transfer(body, 0, layers=1, seed=5)
    old = dict(body.named_parameters())
    taken = {n for n, p in moved.named_parameters() if np.array_equal(p.data, old[n].data)}
    for side in ("encoder", "decoder"):
        first = {n for n in old if n.startswith(f"{side}.h.0.")}
        second = {n for n in old if n.startswith(f"{side}.h.1.")}
        assert first <= taken and not second & taken
    assert "tokens_embed.weight" in taken


def test_it_is_saved_and_opened_again(tmp_path):
    model = writer("bart")
    model.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model", models.open_model(tmp_path / "model", dtype=np.float64))
    assert again.answers == tuple(map(tuple, ANSWERS)) and again.task == TASK
    assert np.allclose(again.scores(IDS, LENGTHS), model.scores(IDS, LENGTHS), atol=1e-5)
    path = tmp_path / "model" / FILE
    for answers in ([], [[99]], [[]], "x"):
        checkpoint.save_tensors(path, {}, {"task": json.dumps(TASK._asdict() | {"answers": answers})})
        with pytest.raises(InputError, match="was not written by this version of minigpt finetune"):
            TextClassifier.load(tmp_path / "model", again.body)


# -------------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, no_pictures):
    """A folder with a small pre-trained T5."""
    out = str(tmp_path_factory.mktemp("t5") / "run")
    train(PretrainOptions(
        model="t5", data="stories:40", tokenizer="bpe:400", layers=1, heads=2, embd=32, context=64, steps=2, batch=4,
        out=out,
    ))  # fmt: skip
    return out


@pytest.mark.parametrize("task", ["sentiment", "similarity", "endings"])
def test_the_command_fine_tunes_and_predicts(task, pretrained, tmp_path, capsys):
    out = str(tmp_path / "tuned")
    finetune(FinetuneOptions(model=pretrained, task=task, train="stories:32", test="stories:16", epochs=1, out=out))
    model, text = open_classifier(out)
    assert "T5, which writes its answers: " in capsys.readouterr().out
    assert isinstance(model, TextClassifier) and all(answer[-1] == text.ids[END] for answer in model.answers)
    file = tmp_path / "examples.tsv"
    file.write_text("text\nA good day. Mia was happy.\nA bad day. Tom was sad.\n", encoding="utf-8")
    if task == "sentiment":
        answers = predict(PredictOptions(folder=out, file=str(file)), write=print, tell=print)
        assert len(answers) == 2 and set(answers) <= {0, 1}


def test_what_cannot_be_is_refused_before_anything_is_written(pretrained, tmp_path, capsys):
    out = tmp_path / "x"
    begin = ["finetune", pretrained, "--task", "sentiment", "--train", "stories:20", "--out", str(out)]
    assert minigpt([*begin, "--freeze"]) == 2
    assert "writes its answers and has no head that could learn" in capsys.readouterr().err
    assert minigpt([*begin, "--lm-weight", "0.5"]) == 2
    assert "nothing beside it, so there is nothing to predict" in capsys.readouterr().err
    assert not out.exists()


def test_the_mask_of_a_source_hides_only_what_is_no_text():
    model = writer("bart")
    assert model._source(IDS, LENGTHS)[1].tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert model.targets.tolist()[1] == [5, 6, END_ID, ops.IGNORED] and model.read.tolist()[1] == [0, 5, 6, 0]
