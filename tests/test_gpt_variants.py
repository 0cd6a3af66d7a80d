"""Variants of GPT-1 and GPT-2 that other people published: each computes what its configuration says."""

import dataclasses
import math

import numpy as np
import pytest
from helpers import (
    as_another_program,
    batch,
    check_along,
    check_every_entry,
    error,
    kept_bytes,
    same_weights,
    small_gpt1,
    small_gpt2,
)

from minigpt import GPT2, GPT2Config, models, open_model, ops
from minigpt.errors import InputError
from minigpt.models import costs
from minigpt.tokenizer import CharTokenizer

VARIANTS = {
    "exact GELU": {"activation_function": "gelu"},
    "ReLU": {"activation_function": "relu"},
    "SiLU": {"activation_function": "silu"},
    "inner width": {"n_inner": 5},
    "scores by layer": {"scale_attn_by_inverse_layer_idx": True},
    "no scale": {"scale_attn_weights": False},
    "own head": {"tie_word_embeddings": False},
    "all": {"activation_function": "gelu", "n_inner": 5, "scale_attn_by_inverse_layer_idx": True,
            "scale_attn_weights": False, "tie_word_embeddings": False},
}  # fmt: skip
every_variant = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)

FUNCTIONS = {
    "gelu_new": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@every_variant
def test_every_gradient(values):
    model = small_gpt2(dropout=0.2, **values)
    check_along(model, *batch(model), key=ops.Key.of(1, 2))


@pytest.mark.slow
@every_variant
def test_every_entry_of_every_gradient(values):
    model = small_gpt2(dropout=0.2, n_embd=4, vocab_size=7, **values)
    check_every_entry(model, *batch(model, 2, 3), key=ops.Key.of(1, 2))


@pytest.mark.parametrize("values", [{"afn": "relu"}, {"afn": "swish", "tie_word_embeddings": False}])
def test_every_gradient_of_gpt1(values):
    model = small_gpt1(dropout=0.2, **values)
    check_along(model, *batch(model), key=ops.Key.of(1, 2))


@every_variant
def test_it_comes_back(values, tmp_path):
    model = small_gpt2(np.float32, **values)
    model.save(tmp_path)
    again = open_model(tmp_path)
    assert again.config == model.config
    assert same_weights(model, again)
    ids, _ = batch(model)
    assert np.array_equal(model.forward(ids, grad=False)[0], again.forward(ids, grad=False)[0])


@every_variant
def test_with_a_past_it_computes_the_same(values):
    model = small_gpt2(**values)
    ids, _ = batch(model)
    whole, _ = model.forward(ids, grad=False)
    past = model.new_past()
    parts = [model.forward(ids[:, part], past, grad=False)[0] for part in (slice(0, 3), slice(3, None))]
    assert error(np.concatenate(parts, axis=1), whole) < 1e-12


@every_variant
def test_its_costs_are_foretold(values):
    model = small_gpt2(np.float32, n_layer=3, **values)
    ids, targets = batch(model)
    _, cache = model.loss(ids, targets)
    kept = kept_bytes(model, cache)
    assert costs.activations(GPT2, model.config, *ids.shape) == kept
    assert costs.count(GPT2, model.config) == sum(p.data.size for p in model.parameters())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_in_the_mlp(name):
    mlp = small_gpt2(activation_function=name).h[0].mlp
    x = np.random.default_rng(0).normal(0, 3, size=(2, 3, mlp.config.n_embd))
    inside = FUNCTIONS[name](x @ mlp.c_fc.weight.data + mlp.c_fc.bias.data)
    assert error(mlp.forward(x)[0], inside @ mlp.c_proj.weight.data + mlp.c_proj.bias.data) < 1e-14


@pytest.mark.parametrize("is_scaled", [True, False])
@pytest.mark.parametrize("by_layer", [True, False])
def test_a_scale_is_as_good_as_other_queries(is_scaled, by_layer):
    """Scores are products with the queries: what multiplies the scores may multiply the queries."""
    model = small_gpt2(scale_attn_weights=is_scaled, scale_attn_by_inverse_layer_idx=by_layer)
    usual = small_gpt2()
    c = model.config.n_embd
    head_size = c // model.config.n_head
    for i, block in enumerate(usual.h):
        times = (1 if is_scaled else math.sqrt(head_size)) / (i + 1 if by_layer else 1)
        block.attn.c_attn.weight.data[:, :c] *= times
        block.attn.c_attn.bias.data[:c] *= times
    ids, _ = batch(model)
    assert error(model.forward(ids, grad=False)[0], usual.forward(ids, grad=False)[0]) < 1e-13


def test_a_head_of_its_own_is_a_table_of_its_own():
    model = small_gpt2(tie_word_embeddings=False)
    tied = small_gpt2()
    assert model.head is model.lm_head.weight and tied.head is tied.wte.weight and tied.lm_head is None
    names = [name for name, _ in model.named_parameters()]
    assert names == [*(name for name, _ in tied.named_parameters()), "lm_head.weight"]
    assert model.layers_of("lm_head.weight") == model.config.n_layer and model.layers_of("wte.weight") == 0
    ids, _ = batch(model)
    h, _ = model.hidden(ids, grad=False)
    assert error(model.forward(ids, grad=False)[0], h @ model.lm_head.weight.data.T) < 1e-14
    new, old = (GPT2(GPT2Config(**{f.name: getattr(m.config, f.name) for f in dataclasses.fields(m.config)}), seed=3)
                for m in (model, tied))  # fmt: skip
    assert np.array_equal(new.h[0].attn.c_attn.weight.data, old.h[0].attn.c_attn.weight.data), "drawn after the others"
    assert new.lm_head.weight.data.std() == pytest.approx(0.02, rel=0.2)


def test_an_inner_width_far_beyond_the_weights_takes_no_memory(tmp_path):
    small_gpt2(np.float32).save(tmp_path)
    as_another_program(tmp_path, n_inner=1 << 30)
    with pytest.raises(InputError, match="a model of these sizes has .* numbers or more, and the weights are"):
        open_model(tmp_path)


# --- nanoGPT ---------------------------------------------------------------------------------------------------------


def turned(tensors):
    """As PyTorch's linear layers store them."""
    of_layers = {name: tensor.T for name, tensor in tensors.items() if tensor.ndim == 2 and name.startswith("h.")}
    return tensors | of_layers


def of_nanogpt(tensors):
    """With the prefixes of a compiled model, matrices turned, causal masks, the head once more, and no biases."""
    named = {f"_orig_mod.transformer.{name}": t for name, t in turned(tensors).items() if not name.endswith("bias")}
    masks = {f"_orig_mod.transformer.h.{i}.attn.bias": np.ones((1, 1, 8, 8), np.float32) for i in range(2)}
    return named | masks | {"_orig_mod.lm_head.weight": tensors["wte.weight"]}


@pytest.fixture
def unbiased(tmp_path):
    """A GPT-2 whose biases are zeros, as nanoGPT writes it, and its folder."""
    model = small_gpt2(np.float32, n_layer=2, activation_function="gelu")
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data[...] = 0
    model.save(tmp_path)
    config = model.config
    as_another_program(tmp_path, of_nanogpt, n_positions=..., activation_function=..., embd_pdrop=..., attn_pdrop=...,
                       resid_pdrop=..., block_size=config.n_positions, bias=False, dropout=0.25)  # fmt: skip
    return model, tmp_path


def test_a_checkpoint_of_nanogpt_is_a_gpt2_with_biases_of_zero(unbiased):
    model, folder = unbiased
    opened = open_model(folder)
    assert type(opened) is GPT2 and opened.config == dataclasses.replace(
        model.config, embd_pdrop=0.25, attn_pdrop=0.25, resid_pdrop=0.25
    )
    assert same_weights(model, opened)
    opened.save(folder / "again")
    assert open_model(folder / "again").config == opened.config


def test_matrices_the_other_way_round_are_turned_whatever_the_keys(tmp_path):
    model = small_gpt2(np.float32)
    model.save(tmp_path)
    as_another_program(tmp_path, turned)
    opened = open_model(tmp_path)
    assert opened.config == model.config
    assert same_weights(model, opened)


def test_a_vocabulary_that_nanogpt_filled_up_is_that_of_the_tokenizer(unbiased):
    """Its own has 50,304 rows for the 50,257 tokens of GPT-2."""
    _, folder = unbiased
    text = CharTokenizer([chr(i) for i in range(ord("a"), ord("a") + 11)])
    text.save(folder)
    wider = np.full((5, 6), 7, np.float32)
    as_another_program(folder, lambda tensors: {name: np.concatenate([t, wider]) if len(t) == 11 else t
                                                for name, t in tensors.items()}, vocab_size=16)  # fmt: skip
    with pytest.warns(UserWarning, match="the last 5 of 16 rows of the token embedding belong to no token"):
        model, _ = models.open_both(folder)
    assert model.config.vocab_size == len(model.wte.weight.data) == 11 and not (model.wte.weight.data == 7).any()


def test_biases_may_be_missing_from_a_file_of_transformers_too(unbiased):
    model, folder = unbiased
    model.save(folder)
    as_another_program(folder, lambda tensors: {name: t for name, t in tensors.items() if not name.endswith("bias")},
                       bias=False)  # fmt: skip
    assert same_weights(model, open_model(folder))


def test_missing_biases_are_zeros_only_where_the_configuration_says_so(unbiased):
    _, folder = unbiased
    as_another_program(folder, bias=True)
    with pytest.raises(InputError, match=r"tensor h.0.attn.c_attn.bias is missing$"):
        open_model(folder)


@pytest.mark.parametrize("values", [{"n_layer": 3}, {"n_embd": 12}, {"vocab_size": 10**9}, {"block_size": 10**9}])
def test_sizes_of_a_checkpoint_of_nanogpt_are_those_of_its_weights(values, unbiased):
    _, folder = unbiased
    (key,) = values
    as_another_program(folder, **values)
    name = {"block_size": "n_positions"}.get(key, key)
    with pytest.raises(InputError, match=f"{name} is {values[key]}, and that of the weights"):
        open_model(folder)


def test_a_head_of_nanogpt_that_differs_is_refused_unless_it_is_said(unbiased):
    _, folder = unbiased
    head = "_orig_mod.lm_head.weight"
    as_another_program(folder, lambda tensors: tensors | {head: tensors[head] + 1})
    with pytest.raises(InputError, match='config.json must say "tie_word_embeddings": false'):
        open_model(folder)
    as_another_program(folder, tie_word_embeddings=False)
    opened = open_model(folder)
    assert np.array_equal(opened.lm_head.weight.data, opened.wte.weight.data + 1)


def test_a_checkpoint_that_is_a_pickle_says_how_to_convert_it(tmp_path):
    (tmp_path / "ckpt.pt").write_bytes(b"")
    with pytest.raises(InputError, match="ckpt.pt is a pickle, which may run any program: convert it as the first li"):
        open_model(tmp_path)
