"""The log-probability of answers, and DPO: values, gradients, mistakes that a gradient check must see, and a run."""

import numpy as np
import pytest
from helpers import KEY, each, small_gpt2, snapshot
from test_lora import with_adapters

from minigpt import gradcheck, ops
from minigpt.errors import InputError
from minigpt.models.answers import answers_backward, answers_forward
from minigpt.models.lora import lora_parameters
from minigpt.models.preferences import dpo_backward, dpo_forward
from minigpt.nn.optim import AdamW

RNG = np.random.default_rng(0)
PAIRS = RNG.normal(-4, 1, (2, 5))
REFERENCES = {"ref_w": RNG.normal(-4, 1, 5), "ref_l": RNG.normal(-4, 1, 5), "beta": 0.7}
IDS = RNG.integers(11, size=(3, 6))
TARGETS = np.roll(IDS, -1, axis=1)
TARGETS[0, :3] = TARGETS[1, 4:] = TARGETS[2] = ops.IGNORED
TARGETS[2, 2] = 7


# --- answers ---------------------------------------------------------------------------------------------------------


def test_the_log_probability_of_an_answer_is_the_sum_over_its_tokens():
    model = small_gpt2()
    log_p, cache = answers_forward(model, IDS, TARGETS, grad=False)
    logits, _ = model.forward(IDS, grad=False)
    log_softmax = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    for n in range(3):
        places = np.flatnonzero(TARGETS[n] >= 0)
        assert abs(log_p[n] - log_softmax[n, places, TARGETS[n, places]].sum()) < 1e-12
    assert cache is None and log_p.dtype == np.float64


def test_a_text_without_a_target_has_probability_one_and_no_gradient():
    model = small_gpt2()
    targets = TARGETS.copy()
    targets[1] = ops.IGNORED
    log_p, cache = answers_forward(model, IDS, targets)
    assert log_p[1] == 0
    answers_backward(np.array([0.0, 5.0, 0.0]), cache)
    assert not any(parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("adapters", [False, True])
def test_gradients_are_those_of_the_models_own_loss(adapters):
    """With -1/n for each text it is the mean loss over all targets; and any other weights are a sum of such losses."""
    model = with_adapters("llama")[0] if adapters else small_gpt2(dropout=0.2)
    weights = np.array([-0.3, 0.5, -1.2])
    expected = {}
    for n in range(3):
        model.zero_grad()
        loss, cache = model.loss(IDS[n : n + 1], TARGETS[n : n + 1], normalizer=1.0, key=KEY._replace(row=n))
        model.loss_backward(cache, -weights[n])
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                expected[name] = expected.get(name, 0) + parameter.grad
    model.zero_grad()
    log_p, cache = answers_forward(model, IDS, TARGETS, key=KEY)
    answers_backward(weights, cache)
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert found.keys() == expected.keys()
    assert found.keys() == (lora_parameters(model) if adapters else dict(model.named_parameters())).keys()
    for name in found:
        assert np.abs(found[name] - expected[name]).max() < 1e-12 * max(1, np.abs(expected[name]).max()), name


def test_wrong_targets_are_refused_as_by_the_loss():
    with pytest.raises(InputError, match="target"):
        answers_forward(small_gpt2(), IDS, TARGETS[:, :-1])
    with pytest.raises(InputError, match="target"):
        answers_forward(small_gpt2(), IDS, TARGETS + 50)


# --- DPO -------------------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_equation_7():
    loss, _ = dpo_forward(*PAIRS, **REFERENCES)
    gains = PAIRS - np.stack([REFERENCES["ref_w"], REFERENCES["ref_l"]])
    one_by_one = [-np.log(1 / (1 + np.exp(-0.7 * (w - l)))) for w, l in gains.T]
    assert abs(loss - np.mean(one_by_one)) < 1e-14
    same = {"ref_w": PAIRS[0], "ref_l": PAIRS[1], "beta": 0.7}
    assert abs(dpo_forward(*PAIRS, **same)[0] - np.log(2)) < 1e-15, "the model that it began as"


def test_its_gradient():
    results = gradcheck.check(dpo_forward, dpo_backward, list(PAIRS), REFERENCES)
    assert [result.name for result in results] == ["log_p_w", "log_p_l"]
    assert gradcheck.worst(results).error < 1e-9, gradcheck.table(results)


def test_large_margins_neither_overflow_nor_lose_their_gradient():
    pairs = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]])
    zeros = {"ref_w": np.zeros(3), "ref_l": np.zeros(3), "beta": 1.0}
    with np.errstate(all="raise", under="ignore"):
        loss, cache = dpo_forward(*pairs, **zeros)
        dw, dl = dpo_backward(3.0, cache)
    assert abs(loss - (2e4 + np.log(2)) / 3) < 1e-9
    assert np.allclose(dw, [0, -1, -0.5]) and np.array_equal(dw, -dl)


def test_the_dtype_is_kept():
    pairs = PAIRS.astype(np.float32)
    references = {name: np.float32(value) for name, value in REFERENCES.items() if name != "beta"}
    loss, cache = dpo_forward(*pairs, **references, beta=0.7)
    assert {loss.dtype, *(g.dtype for g in dpo_backward(1.0, cache))} == {np.dtype(np.float32)}


MISTAKES = {  # a backward that is wrong -> it, from what the right one gives
    "the sign": lambda dw, dl: (-dw, -dl),
    "beta is missing": lambda dw, dl: (dw / 0.7, dl / 0.7),
    "both rise": lambda dw, dl: (dw, -dl),
    "the winner alone": lambda dw, dl: (dw, 0 * dl),
    "a sum, not a mean": lambda dw, dl: (5 * dw, 5 * dl),
}


@each("mistake", MISTAKES)
def test_a_gradient_check_sees_each_mistake(mistake):
    wrong = MISTAKES[mistake]
    results = gradcheck.check(dpo_forward, lambda d, c: wrong(*dpo_backward(d, c)), list(PAIRS), REFERENCES)
    assert gradcheck.worst(results).error > 0.1


def test_what_no_gradient_check_can_see():
    """Answers or references exchanged have right gradients, of another loss: a case by hand tells.

    The model has raised w by 2 and lowered l by 1 against the reference: the margin is 3 beta, and the loss is small.
    """
    log_p_w, log_p_l, ref_w, ref_l = (np.array([number]) for number in (-1.0, -5.0, -3.0, -4.0))
    right = np.log1p(np.exp(-1.5))
    loss, _ = dpo_forward(log_p_w, log_p_l, ref_w=ref_w, ref_l=ref_l, beta=0.5)
    assert abs(loss - right) < 1e-15
    exchanged, _ = dpo_forward(log_p_w, log_p_l, ref_w=ref_l, ref_l=ref_w, beta=0.5)
    the_other_won, _ = dpo_forward(log_p_l, log_p_w, ref_w=ref_l, ref_l=ref_w, beta=0.5)
    assert abs(exchanged - right) > 0.1 and abs(the_other_won - right) > 0.1


@each("wrong", [
    ({"beta": 0}, "beta is 0: give a number above 0"),
    ({"beta": -1.0}, "beta is -1.0"),
    ({"ref_w": np.zeros(4)}, "ref_w (4,)"),
    ({"ref_l": np.zeros((5, 1))}, "ref_l (5, 1)"),
])  # fmt: skip
def test_what_cannot_be_is_refused(wrong):
    changes, message = wrong
    with pytest.raises(InputError) as caught:
        dpo_forward(*PAIRS, **REFERENCES | changes)
    assert message in str(caught.value)
    with pytest.raises(InputError, match="one pair or more"):
        dpo_forward(np.zeros(0), np.zeros(0), ref_w=np.zeros(0), ref_l=np.zeros(0), beta=1)


@pytest.mark.parametrize("adapters", [False, True])
def test_a_model_learns_what_is_preferred(adapters):
    """Of two answers to one prompt the preferred one wins, although it began as the less likely."""
    model = with_adapters("gpt2", np.float32)[0] if adapters else small_gpt2(np.float32)
    learned = lora_parameters(model) if adapters else dict(model.named_parameters())
    ids = np.array([[1, 2, 3, 4, 5, 6]] * 2)
    targets = np.full_like(ids, ops.IGNORED)
    targets[:, 3:] = [[5, 6, 7], [8, 9, 1]]
    ids[1, 4:] = [8, 9]
    start, _ = answers_forward(model, ids, targets, grad=False)
    w, l = np.argsort(start)
    frozen = snapshot([p.data for name, p in model.named_parameters() if name not in learned])
    optimizer = AdamW(learned.items(), weight_decay=0.0)
    losses = []
    for _ in range(25):
        model.zero_grad()
        log_p, cache = answers_forward(model, ids, targets)
        references = {"ref_w": start[[w]], "ref_l": start[[l]]}
        loss, pair = dpo_forward(log_p[[w]], log_p[[l]], **references, beta=0.5)
        dlog_p = np.zeros_like(log_p)
        dlog_p[w], dlog_p[l] = (gradient[0] for gradient in dpo_backward(1.0, pair))
        answers_backward(dlog_p, cache)
        optimizer.step(0.02)
        losses.append(float(loss))
    end, _ = answers_forward(model, ids, targets, grad=False)
    assert abs(losses[0] - np.log(2)) < 1e-6 and losses[-1] < 0.1
    assert start[w] < start[l] and end[w] - start[w] > end[l] - start[l] + 4
    after = snapshot([p.data for name, p in model.named_parameters() if name not in learned])
    assert all(np.array_equal(a, b) for a, b in zip(frozen, after, strict=True))
