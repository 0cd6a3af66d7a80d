"""Optimisers against loops over single numbers, schedules and clipping against known values, exact continuation."""

import itertools
import math

import numpy as np
import pytest
from helpers import batch, error, same, small_gpt1, snapshot

from minigpt.errors import InputError
from minigpt.nn import Parameter
from minigpt.nn.optim import AdamW, GPT1Adam, NonFiniteGradient, Optimizer, clip_by_global_norm
from minigpt.nn.schedules import warmup_constant, warmup_cosine, warmup_cosine_floor, warmup_linear
from minigpt.ops.random_keys import Key

OPTIMIZERS = [AdamW, GPT1Adam]


def parameters(dtype=np.float64, seed=0) -> dict[str, Parameter]:
    rng = np.random.default_rng(seed)
    shapes = {"matrix": (3, 4), "bias": (4,), "table": (5, 2), "scalar": ()}
    return {name: Parameter(rng.standard_normal(shape).astype(dtype)) for name, shape in shapes.items()}


def give_gradients(named, seed):
    rng = np.random.default_rng(seed)
    for p in named.values():
        p.grad = np.asarray(rng.standard_normal(p.data.shape), p.data.dtype)


# --- known numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "decay", "known"),
    [
        (GPT1Adam, 0.01, [1, 0.9954894128, 0.9874733277]),
        (GPT1Adam, 0.0, [1, 0.9955000020, 0.9875000049]),
        (AdamW, 0.01, [1, 0.9954550001, 0.9873753638]),
    ],
)
def test_three_steps_of_one_number(optimizer, decay, known):
    """p = 1, gradient 0.5, rate 0.01 under a linear schedule of 10 updates with a fifth of them for the warm-up."""
    p = Parameter(np.array([[1.0]]))
    rule = optimizer([("p", p)], weight_decay=decay)
    for t, expected in enumerate(known):
        p.grad = np.array([[0.5]])
        rule.step(0.01 * warmup_linear(t / 10, 0.2))
        assert abs(float(p.data[0, 0]) - expected) < 5.1e-11


@pytest.mark.parametrize(
    ("schedule", "known"),
    [
        (warmup_cosine, {0: 0, 0.001: 0.5, 0.002: 1, 0.01: 0.99975328, 0.5: 0.5, 1: 0}),
        (warmup_linear, {0: 0, 0.001: 0.4995, 0.002: 0.998, 0.01: 0.99, 0.5: 0.5, 1: 0}),
        (warmup_constant, {0: 0, 0.001: 0.5, 0.002: 1, 0.01: 1, 0.5: 1, 1: 1}),
    ],
)
def test_known_schedules(schedule, known):
    for x, value in known.items():
        assert abs(schedule(x, 0.002) - value) < 5.1e-9


@pytest.mark.parametrize("schedule", [warmup_cosine, warmup_linear, warmup_constant])
def test_schedules_without_a_warmup(schedule):
    assert schedule(0, 0) == 1 and schedule(1, 0) == (1 if schedule is warmup_constant else 0)
    values = [schedule(t / 100, 0.1) for t in range(101)]
    assert values[0] == 0 and all(0 <= v <= 1 for v in values)
    assert values[:11] == sorted(values[:11]) and values[11:] == sorted(values[11:], reverse=True)


# --- the rules, one number at a time ---------------------------------------------------------------------------------


def adamw(p, g, m, v, t, lr, beta1, beta2, eps, decay):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return p - lr * m_hat / (math.sqrt(v_hat) + eps) - lr * decay * p, m, v


def gpt1_adam(p, g, m, v, t, lr, beta1, beta2, eps, decay):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    rate = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
    return p - rate * (m / (math.sqrt(v) + eps) + decay * p), m, v


@pytest.mark.parametrize(("optimizer", "rule"), [(AdamW, adamw), (GPT1Adam, gpt1_adam)])
def test_against_a_loop_over_numbers(optimizer, rule):
    """Decay for matrices and tables, none for biases and single numbers; the rate changes from step to step."""
    named = parameters()
    settings = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.3}
    ours = optimizer(named.items(), **settings)
    loop = {name: [(float(x), 0.0, 0.0) for x in p.data.flat] for name, p in named.items()}
    for t in range(1, 8):
        give_gradients(named, seed=t)
        lr = 0.1 / t
        for name, p in named.items():
            decay = 0.3 if p.data.ndim > 1 else 0.0
            loop[name] = [
                rule(x, float(g), m, v, t, lr, 0.8, 0.95, 1e-3, decay)
                for (x, m, v), g in zip(loop[name], p.grad.flat, strict=True)
            ]
        ours.step(lr)
    for name, p in named.items():
        assert error(p.data.ravel(), [x for x, _, _ in loop[name]]) < 1e-13, name


def test_the_two_rules_differ_as_published():
    """GPT-1's eps stands beside the uncorrected root, and its decay is scaled by the correction: 0.316 at step 1."""
    decays = []
    for optimizer in OPTIMIZERS:
        p = Parameter(np.array([[1.0]]), np.array([[0.0]]))
        optimizer([("p", p)], weight_decay=0.1).step(0.01)
        decays.append(1 - float(p.data[0, 0]))
    assert abs(decays[0] - 0.001) < 1e-15
    assert abs(decays[1] / decays[0] - math.sqrt(0.001) / 0.1) < 1e-9
    small = Parameter(np.array([1.0]), np.array([1e-8]))
    GPT1Adam([("p", small)], eps=1e-8).step(0.01)
    by_hand = 0.01 * math.sqrt(0.001) / 0.1 * 1e-9 / (math.sqrt(1e-19) + 1e-8)
    assert abs((1 - float(small.data[0])) - by_hand) < 1e-9


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_update_has_the_size_of_the_rate(optimizer):
    """Whatever the size of the gradient: Adam walks, it does not leap."""
    for scale in (1e-3, 1.0, 1e3):
        p = Parameter(np.zeros(3), scale * np.array([1.0, -1, 2]))
        optimizer([("p", p)]).step(0.01)
        assert np.abs(p.data - [-0.01, 0.01, -0.01]).max() < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_are_in_place_and_keep_the_dtype(optimizer, dtype):
    named = parameters(dtype)
    arrays = {name: p.data for name, p in named.items()}
    rule = optimizer(named.items())
    for lr in (0.1, np.float64(0.1)):
        give_gradients(named, 0)
        before = snapshot([p.grad for p in named.values()])
        rule.step(lr)
        assert same(before, snapshot([p.grad for p in named.values()]))
    for name, p in named.items():
        assert p.data is arrays[name] and p.data.dtype == dtype
        assert rule.m[name].dtype == rule.v[name].dtype == dtype


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_without_a_gradient_nothing_moves(optimizer):
    named = parameters()
    rule = optimizer(named.items())
    give_gradients(named, 0)
    named["matrix"].grad = None
    before, moved = named["matrix"].data.copy(), named["bias"].data.copy()
    rule.step(0.1)
    assert (named["matrix"].data == before).all() and (named["bias"].data != moved).all() and rule.t == 1


def test_an_optimizer_must_say_what_it_does():
    p = Parameter(np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match="Optimizer does not say how to change a parameter"):
        Optimizer([("p", p)]).step(0.1)


# --- exact continuation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_state_taken_out_and_put_back_continues_bit_by_bit(optimizer, dtype):
    def train(model, rule, steps):
        for step in steps:
            model.zero_grad()
            _, cache = model.loss(*batch(model, seed=step), key=Key.of(0, step))
            model.loss_backward(cache)
            clip_by_global_norm(model.named_parameters(), 0.5)
            rule.step(0.01 * (step + 1))

    through = small_gpt1(dtype, dropout=0.1)
    rule = optimizer(through.named_parameters())
    train(through, rule, range(3))
    state = {name: array.copy() for name, array in rule.state().items()}
    weights = snapshot([p.data for p in through.parameters()])
    assert sorted(state) == sorted(f"{kind}.{name}" for kind in "mv" for name, _ in through.named_parameters())
    train(through, rule, range(3, 7))

    resumed = small_gpt1(dtype, seed=5, dropout=0.1)
    for p, data in zip(resumed.parameters(), weights, strict=True):
        p.data[...] = data
    again = optimizer(resumed.named_parameters())
    again.load_state(state, 3)
    assert again.t == 3
    train(resumed, again, range(3, 7))
    assert same(*(snapshot([p.data for p in model.parameters()]) for model in (through, resumed)))
    assert same(snapshot(rule.state()), snapshot(again.state()))


def test_a_state_of_another_model_is_refused():
    named = parameters()
    rule = AdamW(named.items())
    state = rule.state()
    for broken in (
        {name: a for name, a in state.items() if name != "v.table"},
        state | {"v.table": np.zeros((1, 2))},  # would broadcast
    ):
        with pytest.raises(InputError, match=r"no moment v.table of shape \(5, 2\)"):
            rule.load_state(broken, 3)


# --- clipping --------------------------------------------------------------------------------------------------------


def test_known_clipping():
    a, b = Parameter(np.zeros(1), np.array([3.0])), Parameter(np.zeros(1), np.array([4.0]))
    assert clip_by_global_norm([("a", a), ("b", b)], 1.0) == 5.0
    assert abs(a.grad[0] - 0.6) < 1e-15 and abs(b.grad[0] - 0.8) < 1e-15


@pytest.mark.parametrize("max_norm", [None, 0, 5.0, 100.0])
def test_small_gradients_are_left_alone_and_none_only_measures(max_norm):
    a, b = Parameter(np.zeros(1), np.array([3.0])), Parameter(np.zeros(1), np.array([4.0]))
    silent = Parameter(np.zeros(2))
    assert clip_by_global_norm([("a", a), ("silent", silent), ("b", b)], max_norm) == 5.0
    assert a.grad.tolist() == [3] and b.grad.tolist() == [4] and silent.grad is None
    assert clip_by_global_norm([("silent", silent)], max_norm) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping_is_one_scale_for_all(dtype):
    named = parameters(dtype)
    give_gradients(named, 1)
    before = [p.grad.astype(np.float64) for p in named.values()]
    norm = clip_by_global_norm(named.items(), 0.25)
    assert abs(norm - math.sqrt(sum((g**2).sum() for g in before))) < 1e-6 * norm
    after = [p.grad for p in named.values()]
    assert {g.dtype for g in after} == {np.dtype(dtype)}
    assert abs(clip_by_global_norm(named.items(), None) - 0.25) < 1e-6
    for x, y in zip(before, after, strict=True):
        assert error(y, x * 0.25 / norm) < 1e-6


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_named_and_nothing_is_changed(bad):
    named = parameters()
    give_gradients(named, 1)
    named["table"].grad[2, 1] = named["scalar"].grad[...] = bad
    before = snapshot([p.grad for p in named.values()])
    for max_norm in (1.0, None):
        with pytest.raises(NonFiniteGradient, match="the gradient of table is not finite") as caught:
            clip_by_global_norm(named.items(), max_norm)
        assert caught.value.name == "table"
    assert same(before, snapshot([p.grad for p in named.values()]))


def test_the_cosine_with_a_floor_starts_at_the_end_of_the_warm_up():
    rates = [1e-3 * warmup_cosine_floor(step / 2000, 100 / 2000, 0.1) for step in range(2001)]
    assert rates[0] == 0 and rates[50] == pytest.approx(5e-4) and rates[100] == pytest.approx(1e-3)
    assert rates[1050] == pytest.approx(5.5e-4), "half-way down the wave: the mean of 1e-3 and 1e-4"
    assert rates[2000] == pytest.approx(1e-4) and all(a >= b for a, b in itertools.pairwise(rates[100:]))
