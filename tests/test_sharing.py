"""Parameters that are used twice, as in ALBERT, ELECTRA and T5: gradients are right, each update is made once."""

import numpy as np
import pytest
from helpers import batch, small_gpt1, small_gpt2

from minigpt import gradcheck, ops
from minigpt.nn import Cache, Embedding, Linear, Module
from minigpt.nn.optim import AdamW

TINY = {"vocab_size": 7, "n_embd": 4, "n_layer": 1}  # every entry of every gradient is checked by differences


def albert():
    """One block, three times, as in ALBERT."""
    model = small_gpt1(**TINY | {"n_layer": 3})
    model.h = [model.h[0]] * 3
    return model


class Electra(Module):
    """A generator and a discriminator with one token embedding, as in ELECTRA: their losses are added."""

    def __init__(self):
        self.generator = small_gpt1(seed=0, **TINY)
        self.discriminator = small_gpt1(seed=5, **TINY)
        self.discriminator.tokens_embed = self.generator.tokens_embed

    def loss(self, ids, targets):
        cache = Cache(self)
        one = cache.keep("generator", self.generator.loss(ids, targets))
        two = cache.keep("discriminator", self.discriminator.loss(targets, ids))
        return one + 50 * two, cache

    def loss_backward(self, cache, dloss=1.0):
        cache = self.own(cache)
        self.generator.loss_backward(cache.pop("generator"), dloss)
        self.discriminator.loss_backward(cache.pop("discriminator"), 50 * dloss)


class T5(Module):
    """Two layers of attention with one table of distances, which is a bias for each head, as in T5."""

    def __init__(self, n_head=2, width=6, length=5):
        rng = np.random.default_rng(0)
        self.n_head = n_head
        self.distances = Embedding(2 * length - 1, n_head, rng, 0.5, np.float64)
        self.layers = [Linear(width, 3 * width, rng, 0.5, np.float64, bias=False) for _ in range(2)]
        place = np.arange(length)
        self.distance = place - place[:, None] + length - 1

    def loss(self, ids, targets):
        cache = Cache(self)
        table = cache.keep("distances", self.distances.forward(self.distance))
        bias = table.transpose(2, 0, 1)[None]
        x = ids
        for i, layer in enumerate(self.layers):
            qkv = cache.keep(f"qkv.{i}", layer.forward(x))
            everything = np.ones((1, 1), bool)
            attention = ops.self_attention_forward(qkv, self.n_head, bias, mask=everything, scale=1.0)
            x = cache.keep(f"attention.{i}", attention)
        cache.out = x - targets
        return 0.5 * (cache.out**2).sum(), cache

    def loss_backward(self, cache, dloss=1.0):
        cache = self.own(cache)
        dx = dloss * cache.out
        dbias = 0.0
        for i in reversed(range(2)):
            dqkv, dbias_here = ops.self_attention_backward(dx, cache.pop(f"attention.{i}"))
            dbias = dbias + dbias_here
            dx = self.layers[i].backward(dqkv, cache.pop(f"qkv.{i}"))
        self.distances.backward(dbias[0].transpose(1, 2, 0), cache.pop("distances"))


def case_of(name):
    """(a model, its two arguments)"""
    if name == "T5":
        rng = np.random.default_rng(1)
        return T5(), (rng.standard_normal((2, 5, 6)), rng.standard_normal((2, 5, 6)))
    model = albert() if name == "ALBERT" else Electra()
    return model, batch(small_gpt2(**TINY), rows=2)


SHARED = {"ALBERT": "h.0.attn.c_attn.weight", "ELECTRA": "generator.tokens_embed.weight", "T5": "distances.weight"}


@pytest.mark.parametrize(("name", "shared"), SHARED.items())
def test_every_gradient_of_shared_parameters(name, shared):
    model, given = case_of(name)
    results = gradcheck.check_model(model, *given)
    names = [result.name for result in results]
    assert shared in names and len(names) == len(set(names))
    assert gradcheck.worst(results).error < 1e-7, gradcheck.table(results)


@pytest.mark.parametrize("name", ["ALBERT", "ELECTRA", "T5"])
def test_an_update_moves_a_shared_parameter_once(name):
    model, given = case_of(name)
    parameters = list(model.parameters())
    assert len(parameters) == len({id(parameter) for parameter in parameters})
    before = [parameter.data.copy() for parameter in parameters]
    _, cache = model.loss(*given)
    model.zero_grad()
    model.loss_backward(cache)
    AdamW(model.named_parameters(), weight_decay=0.0).step(0.01)
    for parameter, old in zip(parameters, before, strict=True):
        assert abs(parameter.data - old).max() < 0.01 * 1.001, "Adam's first step is one rate long"
