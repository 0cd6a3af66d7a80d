"""Whole models away from NumPy compute, learn and write what they compute, learn and write with it.

They run on a stand-in for CuPy's arrays, which refuses what those refuse, and on a GPU where there is one.
"""

import csv
import math

import numpy as np
import pytest
from helpers import KEY, batch, error, same, small_gpt1, small_gpt2, snapshot
from test_classifier import TASKS, classifier, inputs
from test_generation import prompts, talkative
from test_lstm import small as small_lstm
from test_train import options, stop_after, text

from minigpt import GPT1, gradcheck, ops
from minigpt.data.input_transformations import Encoded
from minigpt.device.arrays import device_of, to_numpy
from minigpt.evaluation import scoring
from minigpt.jobs import finetune
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen, train
from minigpt.jobs.sample import SampleOptions, sample
from minigpt.models.classifier import Classifier
from minigpt.nn import Parameter
from minigpt.nn.optim import AdamW, GPT1Adam, NonFiniteGradient, clip_by_global_norm
from minigpt.nn.schedules import warmup_linear
from minigpt.ops.random_keys import Key

__all__ = ["text"]  # a fixture

pytestmark = pytest.mark.parametrize(
    "device", [pytest.param("strict cupy"), pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True
)
KINDS = {"gpt1": small_gpt1, "gpt2": small_gpt2, "lstm": small_lstm}


@pytest.fixture(autouse=True)
def reference():
    ops.use("reference")


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def on_both(make, device: str) -> tuple:
    """The same model twice: in NumPy, and on the device."""
    here, there = make(), make().to(device)
    assert {device_of(p.data) for p in there.parameters()} == {device}
    return here, there


def pass_of(model, ids, targets, **constants) -> list:
    """[loss, gradient of every parameter] of one pass."""
    model.zero_grad()
    loss, cache = model.loss(ids, targets, **constants)
    model.loss_backward(cache, 1.5)
    return [loss, *(p.grad for p in model.parameters())]


def assert_agree(a: list, b: list, bound: float = 1e-9) -> None:
    """Up to rounding. What is 0 but for that, as the gradient of a shift that all choices share, is another's noise."""
    for x, y in zip(a, b, strict=True):
        assert error(x, y) < bound or max(abs(to_numpy(x)).max(), abs(to_numpy(y)).max()) < 1e-15


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_loss_and_every_gradient(kind, dropout, device):
    here, there = on_both(lambda: KINDS[kind](dropout=dropout), device)
    ids, targets = batch(here)
    targets[0, :2] = ops.IGNORED
    weights = np.random.default_rng(0).uniform(0.5, 2.0, targets.shape)
    for constants in ({}, {"key": Key.of(4)}, {"weights": weights, "normalizer": 7}):
        assert_agree(pass_of(here, ids, targets, **constants), pass_of(there, ids, targets, **constants))
    if kind != "lstm":
        there.checkpoint_blocks = True
        assert_agree(pass_of(here, ids, targets, key=KEY), pass_of(there, ids, targets, key=KEY))
    logits, cache = there.forward(ids)
    assert_agree([here.forward(ids)[0]], [logits])
    there.backward(logits, cache)


def test_ids_that_are_on_the_device_already(kind, device, move):
    here, there = on_both(KINDS[kind], device)
    ids, targets = batch(here)
    assert_agree(pass_of(here, ids, targets), pass_of(there, *move([ids, targets])))
    assert (here.generate(ids, 4) == there.generate(move(ids), 4)).all()


@pytest.mark.parametrize("asked", [(), ("fast",), ("cuda",)], ids=["default", "fast", "cuda"])
def test_what_was_made_for_other_arrays_steps_aside(kind, asked, device):
    here, there = on_both(lambda: KINDS[kind](np.float32, dropout=0.2), device)
    expected = pass_of(here, *batch(here), key=KEY)
    ops.use(*asked)
    assert_agree(expected, pass_of(there, *batch(there), key=KEY), 1e-4)


@pytest.mark.parametrize("optimizer", [AdamW, GPT1Adam])
def test_twenty_steps(kind, optimizer, device):
    """With dropout, clipping and a rate that changes."""
    answers = []
    for model in on_both(lambda: KINDS[kind](dropout=0.1), device):
        rule, losses = optimizer(model.named_parameters(), weight_decay=0.1), []
        for t in range(20):
            losses += pass_of(model, *batch(model), key=Key.of(0, t))[:1]
            losses.append(clip_by_global_norm(model.named_parameters(), 0.7))
            rule.step(0.03 * warmup_linear(t / 20, 0.1))
        assert {device_of(array) for array in (*rule.m.values(), *rule.v.values())} == {model.device}
        answers.append([*map(float, losses), *(p.data for p in model.parameters())])
    assert_agree(*answers, 1e-7)
    assert answers[0][38] < answers[0][0] - 0.2, "it learns"


def test_a_parameter_without_axes_and_a_gradient_that_is_not_finite(device, move):
    named = [("gain", Parameter(move(np.array(2.0)), move(np.array(0.5))))]
    rule = GPT1Adam(named)
    rule.step(np.float64(0.01))
    assert abs(float(named[0][1].data) - 1.99) < 1e-6 and named[0][1].data.shape == ()
    named[0][1].grad = move(np.array(math.nan))
    with pytest.raises(NonFiniteGradient, match="gain"):
        clip_by_global_norm(named, 1.0)


def test_generating_with_a_past_for_prompts_of_every_length(kind, device):
    here, there = on_both(lambda: talkative(kind), device)
    for lengths, given in (((4, 1, 6), {}), ((3, 3), {"cache": False}), ((2, 5), {"top_k": 4, "stop": 3})):
        rows = prompts(here, *lengths)
        answers = [model.generate(rows, 12, seed=1, **given) for model in (here, there)]
        assert all(isinstance(b, np.ndarray) and (a == b).all() for a, b in zip(*answers, strict=True))


def test_scores_of_texts(kind, device):
    here, there = on_both(lambda: talkative(kind), device)
    rows = prompts(here, 3, 9, 5, 16)
    for a, b in zip(*(scoring.log_probabilities(model, rows, [1, 4, 2, 5]) for model in (here, there)), strict=True):
        assert error(a.log_p, b.log_p) < 1e-9 and (a.greedy == b.greedy).all() and a.cut == b.cut


@pytest.mark.parametrize("task", TASKS)
def test_fine_tuning(task, device, tmp_path):
    """Every kind of task: loss, both streams of gradient, answers, two epochs, and what is written."""
    _, s, labels = TASKS[task]
    ids, lengths = inputs(s)
    answers = []
    here, there = on_both(lambda: classifier(task, dropout=0.2), device)
    for model in (here, there):
        found = []
        for lm_weight in (0.5, 0.0):
            model.zero_grad()
            losses, cache = model.loss(ids, lengths, np.array(labels), lm_weight, key=KEY)
            model.loss_backward(cache)
            found += [*losses, *(p.grad for p in model.parameters())]
        answers.append([*found, model.probabilities(ids, lengths)])
    assert_agree(*answers)

    encoded = [[Encoded(ids[n, i, : lengths[n, i]].tolist(), (), (), 0) for i in range(s)] for n in range(3)]
    data = finetune.Data([finetune.Example((), label) for label in labels], encoded)
    given = finetune.FinetuneOptions(model="", task="", train="", epochs=2, batch=2)
    ends = []
    for model in (here, there):
        judged = finetune.tune(model, data, data, given, seed=0)
        ends.append([judged.probabilities, judged.loss, *(p.data for p in model.parameters())])
    assert_agree(*ends, 1e-7)
    there.save(tmp_path)
    read = Classifier.load(tmp_path, GPT1.load(tmp_path, np.float64))
    assert same(*(snapshot([p.data for p in model.parameters()]) for model in (read, there)))


def test_a_run_is_written_resumed_and_read_as_on_a_processor(device, text, tmp_path, constants):
    constants.set(recorded_operations=0)  # a step of the reference cannot be recorded
    changes = {"dropout": 0.1, "device": device}
    train(options(text, tmp_path / "here", **changes | {"device": "cpu"}))
    job = prepare(options(text, tmp_path / "there", **changes))
    loop(job, stop_after(job, 5))
    job = reopen(PretrainOptions(out=str(tmp_path / "there"), device=device))
    assert job.step == 5 and job.model.device == device
    loop(job)
    here, there = (list(csv.DictReader((tmp_path / name / "loss.csv").open())) for name in ("here", "there"))
    losses = ([float(row["val_loss"]) for row in rows if row["val_loss"]] for rows in (here, there))
    assert_agree(next(losses), next(losses), 1e-4)
    given = {"folder": str(tmp_path / "there"), "prompt": "the", "tokens": 9}
    texts = [sample(SampleOptions(**given, device=name), write=len) for name in ("cpu", device)]
    assert texts[0] == texts[1]


def test_there_and_back(kind, device):
    model = KINDS[kind](np.float32)
    before = snapshot([p.data for p in model.parameters()])
    model.to(device).to(device)
    assert model.device == device and all(isinstance(p.data, np.ndarray) for p in model.to("cpu").parameters())
    assert same(before, snapshot([p.data for p in model.parameters()]))


def test_gradients_by_differences(device):
    """The check itself runs there too."""
    model = small_gpt1(vocab_size=4, n_positions=3, n_embd=3, n_head=1, n_layer=1).to(device)
    results = gradcheck.check_model(model, *batch(model, rows=2, length=3))
    assert all(result.word == "happy" for result in results), gradcheck.table(results)
