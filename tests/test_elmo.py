"""ELMo: every gradient, what each direction sees, the weighed sum of its layers, and fine-tuning with a frozen body."""

import numpy as np
import pytest
from helpers import check_along, check_every_entry, kept_bytes, same, small_model, snapshot

from minigpt import models, open_model, ops
from minigpt.data.examples import Task
from minigpt.data.objectives import both_directions
from minigpt.errors import InputError
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.jobs.pretrain import PretrainOptions, train
from minigpt.models import costs
from minigpt.models.classifier import Classifier
from minigpt.models.family.elmo import ELMo, ELMoConfig, WeighedLayers

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 4, "n_layer": 2, "n_hidden": 3}
IDS = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
MASK = np.array([[True] * 5, [True, True, True, False, False]])
LENGTHS = np.array([[5], [3]])


def small(dtype=np.float64, dropout=0.0, **sizes) -> ELMo:
    return small_model(ELMo, SIZES | sizes, dtype, dropout)


def pretraining() -> dict:
    batch = both_directions(np.concatenate([IDS, IDS[:, :1]], axis=1), np.random.default_rng(0))
    targets, previous = batch.targets.copy(), batch.previous.copy()
    targets[1, 2:] = previous[1, 3:] = ops.IGNORED
    return {"targets": targets, "previous": previous, "mask": MASK}


@pytest.mark.parametrize("check", [check_along, pytest.param(check_every_entry, marks=pytest.mark.slow)])
def test_every_gradient_of_both_directions(check):
    check(small(dropout=0.2), IDS, key=ops.Key.of(1, 2), **pretraining())


class Total:
    """A classifier as the gradient check knows models: loss and loss_backward."""

    def __init__(self, model):
        self.model = model
        self.named_parameters, self.zero_grad = model.named_parameters, model.zero_grad
        self.loss_backward = model.loss_backward

    def loss(self, ids, targets, **options):
        losses, cache = self.model.loss(ids, LENGTHS, targets, **options)
        return losses.total, cache


def test_every_gradient_of_a_task_goes_through_all_layers():
    model = Classifier(small(), Task("classification", ("no", "yes")), dropout=0.0)
    names = {name for name, _ in model.named_parameters()}
    assert names >= {"body.mix.s", "body.mix.gamma", "body.left.h.0.w", "head.weight"}
    check_along(Total(model), IDS[:, None], np.array([0, 1]))


def test_the_weighed_sum_and_its_gradient():
    mix = WeighedLayers(3, np.float64)
    layers = [np.random.default_rng(i).standard_normal((2, 3, 4)) for i in range(3)]
    out, _ = mix.forward(layers)
    assert np.abs(out - sum(layers) / 3).max() < 1e-12, "at first all layers weigh alike"
    mix.s.data[...] = 0.0, 50.0, 0.0
    mix.gamma.data[...] = 2.0
    out, _ = mix.forward(layers)
    assert np.abs(out - 2 * layers[1]).max() < 1e-12, "softmax chooses one"


def test_one_direction_sees_the_left_and_one_the_right():
    model = small()
    _, left, right, _ = model.directions(IDS[:1], grad=False)
    changed = IDS[:1].copy()
    changed[0, 2] = 9
    _, left_after, right_after, _ = model.directions(changed, grad=False)
    for layer in range(2):
        moved = np.abs(left_after[layer] - left[layer]).max(axis=-1)[0] > 1e-9
        assert moved.tolist() == [False, False, True, True, True]
        moved = np.abs(right_after[layer] - right[layer]).max(axis=-1)[0] > 1e-9
        assert moved.tolist() == [True, True, True, False, False]


def test_what_fills_up_a_row_moves_nothing():
    model = small()
    changed = IDS.copy()
    changed[1, 3:] = 9
    before, after = (model.hidden(ids, grad=False, mask=MASK)[0] for ids in (IDS, changed))
    assert same(snapshot([before[1, :3]]), snapshot([after[1, :3]]))
    alone, _ = model.hidden(IDS[1:, :3], grad=False)
    assert np.abs(alone - before[1:, :3]).max() < 1e-12
    for wrong in (np.array([[True, False, True, True, True], [True] * 5]), np.ones((5, 5), bool)):
        with pytest.raises(InputError, match="True up to the end of each row's text"):
            model.hidden(IDS, mask=wrong)


def test_both_losses_share_the_table_and_are_averaged():
    model = small()
    given = pretraining()
    loss, _ = model.loss(IDS, **given)
    left_only, _ = model.loss(IDS, given["targets"], mask=MASK)
    logits, _ = model.forward(IDS, grad=False, mask=MASK)
    by_hand, _ = ops.cross_entropy_forward(logits, given["targets"])
    assert left_only == pytest.approx(0.5 * by_hand)
    assert loss > left_only
    assert model.head is model.tokens_embed.weight
    targets = [(value != ops.IGNORED).sum() for value in (given["targets"], given["previous"])]
    assert targets[0] == targets[1]


def test_its_objective_predicts_both_neighbours():
    batch = both_directions(np.array([[5, 6, 7, 8, 9]]), np.random.default_rng(0))
    assert batch.ids.tolist() == [[5, 6, 7, 8]]
    assert batch.targets.tolist() == [[6, 7, 8, -100]] and batch.previous.tolist() == [[-100, 5, 6, 7]]


@pytest.mark.parametrize("n_layer", [1, 2, 3])
def test_its_costs_are_foretold(n_layer):
    model = small(np.float32, n_layer=n_layer)
    ids = np.zeros((2, 7), int)
    _, cache = model.loss(ids, ids, **model.trial_inputs(ids))
    kept = kept_bytes(model, cache)
    assert costs.activations(ELMo, model.config, 2, 7) == kept


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, no_pictures) -> str:
    out = str(tmp_path_factory.mktemp("elmo") / "run")
    job = train(PretrainOptions(
        model="elmo", data="stories:40", tokenizer="bpe:300", layers=2, embd=16, context=32, steps=12, batch=6,
        accumulate=2, lr=1e-2, out=out,
    ))  # fmt: skip
    assert job.run.rows[-1]["val_loss"] < job.run.rows[0]["val_loss"]
    return out


@pytest.mark.parametrize("freeze", [True, False])
def test_a_frozen_body_stays_as_it_was(freeze, pretrained, tmp_path):
    out = str(tmp_path / "tuned")
    finetune(FinetuneOptions(
        model=pretrained, task="sentiment", train="stories:24", test="stories:16", epochs=1, batch=6, lr=1e-2,
        freeze=freeze, out=out,
    ))  # fmt: skip
    before, tuned = open_model(pretrained), open_classifier(out)[0].body
    n = before.config.vocab_size
    moved = {
        name: not np.array_equal(parameter.data[:n] if name == "tokens_embed.weight" else parameter.data, old.data)
        for (name, parameter), (_, old) in zip(tuned.named_parameters(), before.named_parameters(), strict=True)
    }
    assert moved["mix.s"] and moved["mix.gamma"]
    others = {name: value for name, value in moved.items() if not name.startswith("mix.")}
    assert not any(others.values()) if freeze else all(others.values())


def test_with_a_frozen_gpt_only_the_head_learns():
    body = models.card("gpt1").model(models.card("gpt1").model.Config(
        vocab_size=11, n_positions=8, n_embd=4, n_layer=1, n_head=1
    ), dtype=np.float64)  # fmt: skip
    model = Classifier(body, Task("classification", ("no", "yes")))
    model.frozen = True
    assert [name for name, _ in model.learned()] == ["head.weight", "head.bias"]
    _, cache = model.loss(IDS[:, None], LENGTHS, np.array([0, 1]), lm_weight=0.0)
    model.loss_backward(cache)
    assert all(parameter.grad is None for parameter in body.parameters()) and model.head.weight.grad is not None


def test_what_cannot_be_is_refused(pretrained, tmp_path):
    with pytest.raises(InputError, match="ELMo reads a text from both ends and cannot continue it"):
        small().generate(IDS, 3)
    with pytest.raises(InputError, match="give it no past and no positions"):
        small().hidden(IDS, positions=np.arange(5))
    with pytest.raises(InputError, match="cells have no heads"):
        ELMoConfig(**(SIZES | {"n_head": 2}))
    options = {"model": pretrained, "task": "sentiment", "train": "stories:20", "out": str(tmp_path / "x")}
    with pytest.raises(InputError, match="of a frozen model nothing learns by it"):
        finetune(FinetuneOptions(**options, freeze=True, lm_weight=0.5))
    assert not (tmp_path / "x").exists()
