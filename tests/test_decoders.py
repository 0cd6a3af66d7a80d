"""LLaMA, Mistral and GPT-NeoX without transformers: what their configurations refuse, angles, windows, shared keys."""

import re

import numpy as np
import pytest

from minigpt import models, ops
from minigpt.errors import InputError
from minigpt.models.family import rotary

NAMES = ("llama", "mistral", "gpt_neox")
SIZES = {"vocab_size": 11, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 4, "n_inner": 12}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def config_of(name, **changes):
    return models.card(name).model.Config(**SIZES | changes)


def model_of(name, **changes):
    """In float64, with weights that are not small, so that what one position changes is seen at others."""
    model = models.card(name).model(config_of(name, **changes), dtype=np.float64)
    rng = np.random.default_rng(2)
    for parameter in model.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape)
    return model


REFUSED = [
    ("llama", {"n_kv_head": 3}, "n_head 4 is not a multiple of n_kv_head 3: choose a divisor"),
    ("llama", {"n_head": 3}, "n_embd 16 is not a multiple of n_head 3"),
    ("llama", {"n_kv_head": 0}, "n_kv_head"),
    ("mistral", {"sliding_window": 0}, "sliding_window"),
    ("mistral", {"sliding_window": 2.5}, "sliding_window"),
    ("gpt_neox", {"rotary_share": 0.2}, "a head has 4 columns: columns turn in pairs"),
    ("gpt_neox", {"rotary_share": 1.5}, "columns turn in pairs"),
    ("llama", {"rope_theta": 0}, "rope_theta"),
    ("llama", {"rope_scaling": {"rope_type": "linear"}}, "rope_scaling: factor"),
    ("llama", {"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "the first must be smaller"),
    ("llama", {"rope_scaling": "linear"}, "give {'rope_type': 'linear', 'factor': 2.0}, or None"),
]


@pytest.mark.parametrize(("name", "changes", "says"), REFUSED)
def test_a_configuration_that_cannot_be(name, changes, says):
    with pytest.raises(InputError, match=re.escape(says)):
        config_of(name, **changes)


def test_a_scaling_of_others_is_named():
    says = "'yarn', as Qwen2.5 and DeepSeek with long contexts have it: built here are default, linear, llama3"
    with pytest.raises(InputError, match=re.escape(says)):
        rotary.scaling_in({"rope_scaling": {"type": "yarn", "factor": 4.0}})


CHANGED = {
    "llama": {"n_kv_head": 2, "head_size": 6, "rope_scaling": LLAMA3, "rope_theta": 500000.0},
    "mistral": {"n_kv_head": 1, "sliding_window": 5},
    "gpt_neox": {"rotary_share": 0.5, "use_parallel_residual": False},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_comes_back_from_its_file(name):
    config = config_of(name, **CHANGED[name])
    assert type(config).from_dict(config.to_dict()) == config
    older = config.to_dict()
    turns = older.pop("rope_parameters")
    older |= {"rope_theta": turns["rope_theta"], "rope_scaling": config.rope_scaling and dict(config.rope_scaling)}
    assert type(config).from_dict(older) == config, "as programs before transformers 5 wrote it"


def test_frequencies():
    """Powers of theta; linear: slower by a factor; Llama 3.1: only long waves are, and others go over smoothly."""
    plain = rotary.frequencies(8, 10000.0)
    np.testing.assert_allclose(plain, [1, 0.1, 0.01, 0.001])
    np.testing.assert_allclose(rotary.frequencies(8, 10000.0, {"rope_type": "linear", "factor": 4.0}), plain / 4)
    scaled = rotary.frequencies(8, 10000.0, LLAMA3)
    assert scaled[:2].tolist() == plain[:2].tolist(), "waves of 6 and 63 places: short for a context of 8,192"
    # waves of 628 places are in 8,192 13 times, more than 4: kept; waves of 6,283 places are in it 1.3038 times
    kept = (8192 / (2 * np.pi / 0.001) - 1) / 3
    np.testing.assert_allclose(scaled[2:], [0.01, kept * 0.001 + (1 - kept) * 0.001 / 8])
    assert rotary.frequencies(2, 500000.0, LLAMA3 | {"original_max_position_embeddings": 1}) == 1 / 8


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_score_depends_on_the_distance_alone(share):
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((2, 1, 1, 2, 8))  # the same query at both places, and the same key

    def score(at_query, at_key):
        turns = rotary.turns_at(np.array([at_query, at_key]), rotary.frequencies(int(8 * share), 100.0), np.float64)
        heads = np.concatenate([q[:, :, :1], k[:, :, :1]], axis=1)  # (1,2,1,8): two places, one head
        cos, sin = turns
        turned, _ = ops.rope_forward(heads, cos=cos, sin=sin, heads=1)
        return turned[0, 0, 0] @ turned[0, 1, 0]

    assert score(9, 5) == pytest.approx(score(104, 100)) == pytest.approx(score(4, 0))
    assert abs(score(9, 5) - score(9, 6)) > 1e-3


def test_a_window_hides_what_is_further_back():
    """One block with a window of 3: the last of six places sees three. With None it sees all."""
    ids = np.array([[1, 2, 3, 4, 5, 6], [9, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6], [1, 2, 3, 9, 5, 6]])
    near, _ = model_of("mistral", sliding_window=3).forward(ids, grad=False)
    last = near[:, -1]
    np.testing.assert_allclose(last[1], last[0])
    np.testing.assert_allclose(last[2], last[0])
    assert np.abs(last[3] - last[0]).max() > 1e-3
    far, _ = model_of("mistral", sliding_window=None).forward(ids, grad=False)
    assert np.abs(far[1, -1] - far[0, -1]).max() > 1e-3


def test_heads_that_share_keys_are_heads_with_equal_keys():
    """The weights of keys and values written once for each head of queries: the same logits, and gradients that add."""
    few = model_of("llama", n_kv_head=2)
    many = model_of("llama", n_kv_head=4)
    tensors = dict(few.named_parameters())
    for name, parameter in many.named_parameters():
        parameter.data = tensors[name].data.copy() if "c_attn" not in name else _each_head(tensors[name].data)
    ids = np.array([[3, 1, 4, 1, 5, 9]])
    losses = []
    for model in (few, many):
        model.zero_grad()
        loss, cache = model.loss(ids[:, :-1], ids[:, 1:])
        model.loss_backward(cache)
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    gradient = few.h[0].attn.c_attn.weight.grad.reshape(16, 8, 4)
    of_each = many.h[0].attn.c_attn.weight.grad.reshape(16, 12, 4)
    added = of_each[:, 4:].reshape(16, 4, 2, 4).sum(axis=2)
    np.testing.assert_allclose(gradient[:, :4], of_each[:, :4], atol=1e-12)
    np.testing.assert_allclose(gradient[:, 4:], added, atol=1e-12)


def _each_head(weight):
    """(16,32): 4 heads of queries, 2 of keys and 2 of values -> (16,48): 4 of each"""
    heads = weight.reshape(16, 8, 4)
    shared = np.repeat(heads[:, 4:], 2, axis=1)
    return np.concatenate([heads[:, :4], shared], axis=1).reshape(16, 48)


def test_the_cache_keeps_the_few_heads():
    model = model_of("llama", n_kv_head=1)
    past = model.new_past(8)
    model.hidden(np.array([[1, 2, 3]]), past, grad=False)
    assert past[0].k.shape == (1, 1, 8, 4)
