"""LoRA: gradients of A, B and x, in a layer and in every model; what is frozen stays; merged it computes the same."""

import copy
import dataclasses
import functools

import numpy as np
import pytest
from helpers import KEY, each, error, kept_bytes, moved, same, same_weights, small_gpt2, snapshot
from small_family import opened

from minigpt import gradcheck, models, ops
from minigpt.errors import InputError
from minigpt.models import lora
from minigpt.models.lora import add_lora, lora_layers, lora_parameters, merge_lora
from minigpt.nn import Embedding, Linear
from minigpt.nn.optim import AdamW

SOUND = 1e-9
NAMES = [*models.names(), "t5, gated"]


def layer(bias=True, dtype=np.float64, rank=2, alpha=3.0) -> lora.LoRA:
    """A layer of 5 inputs and 4 outputs, off its initial point."""
    rng = np.random.default_rng(0)
    linear = Linear(5, 4, rng, 0.5, dtype, bias)
    if bias:
        linear.bias.data[:] = rng.standard_normal(4)
    made = lora.LoRA.new(linear, rank, alpha, rng)
    made.lora_B.data[:] = rng.standard_normal(made.lora_B.data.shape)
    return made


@functools.cache
def config_of(kind: str):
    """The configuration of a small model of this kind."""
    return opened(kind)[0].config


def small(name: str, dtype=np.float64):
    """A small model of this kind, with dropout wherever it has some."""
    kind, _, gated = name.partition(", ")
    config = config_of(kind)
    changes = {"feed_forward_proj": "gated-gelu"} if gated else {}
    for field in dataclasses.fields(config):
        if field.name.endswith("pdrop"):
            changes[field.name] = 0.2
    return moved(models.card(kind).model(dataclasses.replace(config, **changes), seed=0, dtype=dtype))


def with_adapters(name: str, dtype=np.float64, **options):
    """Such a model whose adapters change what it computes; and it once more, merged."""
    model = small(name, dtype)
    add_lora(model, 2, **options)
    rng = np.random.default_rng(3)
    for one in lora_layers(model).values():
        one.lora_B.data = 0.5 * rng.standard_normal(one.lora_B.data.shape).astype(dtype)
    merged = copy.deepcopy(model)
    merge_lora(merged)
    return model, merged


def ids_for(model) -> np.ndarray:
    return np.random.default_rng(4).integers(model.config.vocab_size, size=(2, 7))


def learn(model):
    """The gradients of a loss of this model, with dropout."""
    ids = ids_for(model)
    model.zero_grad()
    loss, cache = model.loss(ids, np.roll(ids, -1, axis=1), key=KEY, **model.trial_inputs(ids))
    model.loss_backward(cache)
    return loss


# --- one layer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_a_layer_against_differences(bias):
    first = layer(bias)

    def with_these(x, a, b):
        made = layer(bias, x.dtype)
        made.lora_A.data, made.lora_B.data = a, b
        return made, made.forward(x)

    def forward(x, a, b):
        _, (out, _) = with_these(x, a, b)
        return out, (x, a, b)

    def backward(dout, saved):
        made, (_, cache) = with_these(*saved)
        dx = made.backward(dout, cache)
        return dx, made.lora_A.grad, made.lora_B.grad

    x = np.random.default_rng(1).standard_normal((2, 3, 5))
    results = gradcheck.check(forward, backward, [x, first.lora_A.data, first.lora_B.data])
    assert [result.name for result in results] == ["x", "a", "b"]
    assert gradcheck.worst(results).error < SOUND, gradcheck.table(results)


def test_a_layer_is_the_dense_one_and_its_gradients_are_those_seen_through_a_and_b():
    made = layer()
    a, b = made.lora_A.data, made.lora_B.data
    dense = Linear(5, 4, None, dtype=np.float64)
    dense.weight.data = made.weight.data + 1.5 * a @ b
    dense.bias.data = made.bias.data
    x, dout = np.random.default_rng(2).standard_normal((2, 6, 5)), np.random.default_rng(3).standard_normal((2, 6, 4))
    out, cache = made.forward(x)
    expected, dense_cache = dense.forward(x)
    assert error(out, expected) < 1e-14
    assert error(made.backward(dout, cache), dense.backward(dout, dense_cache)) < 1e-14
    assert error(made.lora_A.grad, 1.5 * dense.weight.grad @ b.T) < 1e-14
    assert error(made.lora_B.grad, 1.5 * a.T @ dense.weight.grad) < 1e-14
    assert made.weight.grad is None and made.bias.grad is None, "what is frozen has no gradient"


def test_a_new_layer_is_the_one_that_it_stands_for():
    linear = Linear(5, 4, np.random.default_rng(0), 0.5)
    made = lora.LoRA.new(linear, 3, 6.0, np.random.default_rng(1))
    x = np.random.default_rng(2).standard_normal((3, 5)).astype(np.float32)
    assert np.array_equal(made.forward(x)[0], linear.forward(x)[0]), "B is zero"
    assert made.lora_A.data.any() and (made.rank, made.scale) == (3, 2.0)
    assert made.lora_A.data.dtype == made.lora_B.data.dtype == np.float32


@pytest.mark.parametrize("kind", [lora.Frozen, lambda linear: lora.LoRA.new(linear, 2, 4.0, np.random.default_rng(1))])
def test_a_cache_is_used_once_and_by_its_layer(kind):
    linear = Linear(5, 4, np.random.default_rng(0), 0.5)
    made, other = kind(linear), kind(linear)
    x = np.ones((2, 5), np.float32)
    out, cache = made.forward(x)
    with pytest.raises(ValueError, match="another"):
        other.backward(out, cache)
    made.backward(out, cache)
    with pytest.raises(ValueError, match="has been used"):
        made.backward(out, cache)


# --- whole models ----------------------------------------------------------------------------------------------------


@each("name", NAMES)
def test_the_adapters_of_every_model_have_the_gradients_of_the_merged_model_seen_through_a_and_b(name):
    """So no layer is read past its adapter, in the forward pass or in the backward pass."""
    model, merged = with_adapters(name)
    assert len(lora_layers(model)) >= 1
    assert error(learn(model), learn(merged)) < 1e-12
    dense = dict(merged.named_parameters())
    for path, one in lora_layers(model).items():
        dw = dense[f"{path}.weight"].grad
        for mine, right in (
            (one.lora_A.grad, one.scale * dw @ one.lora_B.data.T),
            (one.lora_B.grad, one.scale * one.lora_A.data.T @ dw),
        ):
            assert np.abs(mine - right).max() < 1e-11 * max(1, np.abs(right).max()), path


@each("name", NAMES)
def test_nothing_else_has_a_gradient_or_changes_by_a_bit(name):
    model, _ = with_adapters(name)
    learned = lora_parameters(model)
    frozen = [parameter for n, parameter in model.named_parameters() if n not in learned]
    before, first = snapshot([one.data for one in frozen]), snapshot([one.data for one in learned.values()])
    learn(model)
    assert all(one.grad is None for one in frozen) and all(one.grad is not None for one in learned.values())
    AdamW(learned.items()).step(0.1)
    assert same(before, snapshot([one.data for one in frozen]))
    assert not same(first, snapshot([one.data for one in learned.values()]))


@each("name", NAMES)
def test_a_merged_model_is_a_usual_one(name):
    plain = small(name, np.float32)
    model, merged = with_adapters(name, np.float32)
    types = [type(module) for *_, module in lora._inside(plain)]
    assert [type(module) for *_, module in lora._inside(merged)] == types
    assert [n for n, _ in merged.named_parameters()] == [n for n, _ in plain.named_parameters()]
    assert error(learn(model), learn(merged)) < 1e-6
    assert all(parameter.grad is not None for _, parameter in _learned_by_itself(plain, merged)), "it learns as a whole"


def _learned_by_itself(plain, merged):
    learn(plain)
    with_gradient = {n for n, parameter in plain.named_parameters() if parameter.grad is not None}
    return [(n, parameter) for n, parameter in merged.named_parameters() if n in with_gradient]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_gradients_of_a_whole_model_against_differences(name):
    model, _ = with_adapters(name, names=["c_attn", "c_proj", "gate" if name == "llama" else "c_fc"])
    ids = ids_for(model)[:, :4]
    targets = np.roll(ids, -1, axis=1)
    _, cache = model.loss(ids, targets)
    model.loss_backward(cache)
    for path, parameter in lora_parameters(model).items():
        right = gradcheck.numeric(lambda _: model.loss(ids, targets, grad=False)[0], parameter.data)
        assert gradcheck.compare(path, parameter.grad, right).error < gradcheck.HAPPY, path


def test_a_model_that_begins_is_what_it_was():
    model = small("llama", np.float32)
    ids = ids_for(model)
    before, _ = model.forward(ids, grad=False)
    add_lora(model, 2)
    assert error(model.forward(ids, grad=False)[0], before) < 1e-6
    past = model.new_past()
    assert error(model.forward(ids[:, :4], past, grad=False)[0], before[:, :4]) < 1e-6, "and reads token by token"
    assert error(model.forward(ids[:, 4:], past, grad=False)[0], before[:, 4:]) < 1e-6


def test_a_frozen_layer_computes_and_keeps_less(monkeypatch):
    """Two products for each of two thin matrices, and none for dW; and of what goes in only what A needs."""
    plain = small_gpt2(n_embd=12)
    model = copy.deepcopy(plain)
    add_lora(model, 1, names=["attn.c_attn"])
    ids = ids_for(plain)
    calls = []
    backward = ops.linear_backward
    monkeypatch.setattr(ops, "linear_backward", lambda *given: calls.append(1) or backward(*given))
    kept = []
    for one in (plain, model):
        h, cache = one.hidden(ids)
        kept.append(kept_bytes(one, cache))
        calls.clear()
        one.hidden_backward(np.ones_like(h), cache)
    assert len(calls) == 2 * 2, "two blocks, A and B"
    assert kept[1] < kept[0]


def test_names_choose_the_layers():
    model = small_gpt2()
    assert list(add_lora(model, 1, names=["attn.c_proj", "h.1.mlp.c_fc"])) == [
        "h.0.attn.c_proj", "h.1.attn.c_proj", "h.1.mlp.c_fc",
    ]  # fmt: skip
    assert list(lora_parameters(model))[:2] == ["h.0.attn.c_proj.lora_A", "h.0.attn.c_proj.lora_B"]
    assert len(add_lora(small_gpt2(), 1, names=["c_proj"])) == 4
    assert len(add_lora(small_gpt2(), 1)) == 8
    one, same_seed, other = (add_lora(small_gpt2(), 2, seed=seed)["h.0.attn.c_attn"] for seed in (0, 0, 1))
    assert np.array_equal(one.lora_A.data, same_seed.lora_A.data)
    assert not np.array_equal(one.lora_A.data, other.lora_A.data)
    assert one.alpha == 4 and one.scale == 2, "alpha is twice the rank where nothing is said"


@each("wrong", [
    ({"rank": 0}, "rank is 0: give 1 to 6, because h.0.attn.c_attn is 6 x 18"),
    ({"rank": 7}, "rank is 7: give 1 to 6"),
    ({"rank": 1.5}, "rank is 1.5"),
    ({"rank": True}, "rank is True"),
    ({"alpha": 0}, "alpha is 0: give a number above 0"),
    ({"alpha": float("nan")}, "alpha is nan"),
    ({"names": []}, "names hold nothing: its linear layers are c_attn, c_proj, c_fc"),
    ({"names": ["q_proj"]}, "no layer is called 'q_proj': its linear layers are c_attn, c_proj, c_fc"),
    ({"names": ["attn"]}, "no layer is called 'attn'"),
])  # fmt: skip
def test_what_cannot_be_is_refused_and_the_model_is_as_it_was(wrong):
    options, message = wrong
    model = small_gpt2()
    types = [type(module) for *_, module in lora._inside(model)]
    with pytest.raises(InputError) as caught:
        add_lora(model, **{"rank": 2} | options)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert [type(module) for *_, module in lora._inside(model)] == types and same_weights(model, small_gpt2())


def test_adapters_come_once_and_no_model_is_saved_with_them(tmp_path):
    model = small_gpt2()
    with pytest.raises(InputError, match="has no adapters"):
        merge_lora(model)
    add_lora(model, 1)
    with pytest.raises(InputError, match="has adapters already"):
        add_lora(model, 1)
    with pytest.raises(InputError, match="merge_lora"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    merge_lora(model)
    model.save(tmp_path / "model")
    assert same_weights(models.open_model(tmp_path / "model", np.float64), small_gpt2()), "B was zero"


def test_a_shared_table_is_frozen_too():
    model = small_gpt2()
    add_lora(model, 1)
    learn(model)
    assert all(one.weight.grad is None for *_, one in lora._inside(model) if isinstance(one, Embedding))
