"""Modules: they own parameters, hold no activations, and add up every gradient."""

import math
import mmap
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import batch, error, small_gpt1, small_gpt2, snapshot

from minigpt import gradcheck, ops
from minigpt.device import memory
from minigpt.nn import MLP, Attention, Cache, Embedding, LayerNorm, Linear, Module, Parameter, Past, accumulate
from minigpt.nn.optim import AdamW, clip_by_global_norm
from minigpt.ops.random_keys import Key

OTHER = SimpleNamespace(n_embd=6, n_inner=5, activation="gelu_exact", resid_pdrop=0.0, initializer_range=0.02)


def rng(seed=0):
    return np.random.default_rng(seed)


def parts(dtype=np.float64):
    """One module of each kind, with an input for it."""
    config = small_gpt1().config
    x = rng(1).standard_normal((2, 4, 6)).astype(dtype)
    made = {
        "linear": Linear(6, 5, rng(), dtype=dtype),
        "layernorm": LayerNorm(6, dtype=dtype),
        "attention": Attention(config, rng(), 0.02, dtype),
        "mlp": MLP(config, rng(), 0.02, dtype),
        "mlp of another width": MLP(OTHER, rng(), 0.02, dtype, bias=False),
        "embedding": Embedding(7, 6, rng(), dtype=dtype),
    }
    for module in made.values():
        for p in module.parameters():
            p.data += 0.3 * rng(2).standard_normal(p.data.shape).astype(dtype)
    return [(name, m, x if name != "embedding" else rng(3).integers(7, size=(2, 4))) for name, m in made.items()]


PARTS = [pytest.param(module, x, id=name) for name, module, x in parts()]


def gradients(module):
    return [p.grad for p in module.parameters()]


def test_accumulate_assigns_first_and_adds_later():
    p = Parameter(np.zeros(2))
    accumulate(p, np.array([1.0, 2]))
    assert p.grad.tolist() == [1, 2]
    accumulate(p, np.array([10.0, 20]))
    assert p.grad.tolist() == [11, 22]


@pytest.mark.parametrize(("module", "x"), PARTS)
def test_a_module_used_twice_hears_both(module, x):
    """Two forward passes, then two backward passes in any order: the gradients add up."""
    alone = []
    for part in (x[:1], x[1:]):
        module.zero_grad()
        out, cache = module.forward(part)
        module.backward(np.sin(out), cache)
        alone.append(snapshot(gradients(module)))
    for order in ((0, 1), (1, 0)):
        module.zero_grad()
        passes = [module.forward(x[:1]), module.forward(x[1:])]
        for i in order:
            module.backward(np.sin(passes[i][0]), passes[i][1])
        for both, first, second in zip(gradients(module), *alone, strict=True):
            assert error(both, first + second) < 1e-12


def test_an_mlp_is_as_its_configuration_says():
    module = next(module for name, module, _ in parts() if name == "mlp of another width")
    assert {name: p.data.shape for name, p in module.named_parameters()} == {
        "c_fc.weight": (6, 5),
        "c_proj.weight": (5, 6),
    }
    x = rng(1).standard_normal((2, 4, 6))
    with ops.using("reference"):
        inside, _ = ops.gelu_exact_forward(x @ module.c_fc.weight.data)
    assert error(module.forward(x)[0], inside @ module.c_proj.weight.data) < 1e-12
    for n_inner in (None, 24):
        wide = SimpleNamespace(**vars(OTHER) | {"n_inner": n_inner})
        assert MLP(wide, rng(), 0.02).c_fc.weight.data.shape == (6, 24)


@pytest.mark.parametrize(("module", "x"), PARTS)
def test_gradients_are_derivatives(module, x):
    """Of every parameter and of the input, along one random direction each, by central differences."""
    module.zero_grad()
    out, cache = module.forward(x)
    dout = rng(5).standard_normal(out.shape)
    dx = module.backward(dout, cache)
    slots = [(name, p.data, p.grad) for name, p in module.named_parameters()] + [("x", x, dx)]
    for name, data, grad in slots:
        if grad is None:
            assert name == "x" and data.dtype.kind == "i"
            continue
        u = rng(6).standard_normal(data.shape)
        values = []
        for step in (1e-5, -2e-5, 1e-5):
            data += step * u
            values.append(float((dout * module.forward(x)[0]).sum()))
        numeric = (values[0] - values[1]) / 2e-5
        assert abs(numeric - (grad * u).sum()) < 1e-8 * np.linalg.norm(grad) * np.linalg.norm(u), name


def test_parameters_in_the_order_of_the_attributes():
    class Inner(Module):
        def __init__(self):
            self.b, self.a = Parameter(np.zeros(1)), Parameter(np.zeros(2))
            self.size = 3

    class Outer(Module):
        def __init__(self):
            self.first = Inner()
            self.h = [Inner(), Inner()]
            self.last = Parameter(np.zeros(3))
            self.words = "no parameter"

    names = [name for name, _ in Outer().named_parameters()]
    assert names == ["first.b", "first.a", "h.0.b", "h.0.a", "h.1.b", "h.1.a", "last"]
    assert [p.data.shape for p in Outer().parameters()] == [(1,), (2,)] * 3 + [(3,)]


def test_zero_grad_forgets():
    model = small_gpt1()
    model.loss_backward(model.loss(*batch(model))[1])
    assert all(g is not None for g in gradients(model))
    model.zero_grad()
    assert all(g is None for g in gradients(model))


def test_to_moves_in_place_and_forgets_gradients():
    layer = Linear(2, 3, rng())
    layer.weight.grad = np.ones((2, 3))
    weight = layer.weight
    assert layer.to("cpu") is layer and layer.weight is weight and weight.grad is None


def test_initial_weights():
    layer, table, norm = Linear(400, 500, rng()), Embedding(400, 500, rng(), 0.01), LayerNorm(5, dtype=np.float64)
    assert abs(layer.weight.data.std() - 0.02) < 2e-4 and abs(layer.weight.data.mean()) < 2e-4
    assert abs(table.weight.data.std() - 0.01) < 1e-4
    assert (layer.bias.data == 0).all() and (norm.weight.data == 1).all() and (norm.bias.data == 0).all()
    assert layer.weight.data.dtype == np.float32 and norm.weight.data.dtype == np.float64
    assert (Linear(4, 5, rng(), dtype=np.float64).weight.data == Linear(4, 5, rng()).weight.data).all()
    assert (Linear(4, 5, None).weight.data == 0).all()
    assert repr(layer.weight) == "Parameter((400, 500), float32)"


def test_a_cache_gives_back_by_name_and_tells_when_it_is_used():
    cache = Cache(Module())
    assert cache.keep("one", ("out", 1)) == "out" and cache.keep("two", ("other", 2)) == "other"
    assert cache.one == 1 and (cache.pop("one"), cache.pop("two")) == (1, 2)
    with pytest.raises(ValueError, match="this cache has been used"):
        cache.pop("one")
    with pytest.raises(AttributeError, match="this cache has nothing, and no one"):
        _ = cache.one


@pytest.mark.parametrize("kind", [small_gpt1, small_gpt2])
def test_a_cache_of_another_module_of_the_same_type_is_refused(kind):
    """Two caches of one type, swapped, would give wrong gradients without an error."""
    model = kind()
    block, x = model.h[0], np.ones((2, 4, 6))
    out, cache = block.forward(x)
    cache["ln_1"], cache["ln_2"] = cache["ln_2"], cache["ln_1"]
    with pytest.raises(ValueError, match="LayerNorm.backward was given a cache that another LayerNorm made"):
        block.backward(out, cache)
    out, cache = block.forward(x)
    with pytest.raises(ValueError, match="Block.backward was given a cache that another Block made"):
        model.h[1].backward(out, cache)
    with pytest.raises(ValueError, match="that no module made"):
        block.backward(out, (1, 2))
    other = kind()
    _, cache = model.loss(*batch(model))
    with pytest.raises(ValueError, match="another GPT"):
        other.loss_backward(cache)


@pytest.mark.parametrize("checkpoint_blocks", [False, True])
def test_a_ledger_reads_like_the_model(checkpoint_blocks):
    ops.use("reference")
    model = small_gpt2()
    model.checkpoint_blocks = checkpoint_blocks
    _, cache = model.loss(*batch(model))
    lines = ops.ledger(cache)
    if checkpoint_blocks:
        assert "h.1.x" in lines and not any(path.startswith("h.1.attn") for path in lines)
    else:
        assert {"h.1.ln_1.x_hat", "h.1.attn.qkv.x", "h.1.attn.heads.attention.p", "h.0.mlp.fc.x"} <= set(lines)
        assert cache["h.1"].attn.qkv.x is ops.arrays(cache)["h.1.attn.qkv.x"]
    assert {"tokens.w", "positions.w", "ln_f.x_hat"} <= set(lines)


class Shared(Module):
    """One linear layer, three times, as a model with shared blocks would have it."""

    def __init__(self):
        one = Linear(3, 3, np.random.default_rng(0), 0.5, np.float64)
        self.h = [one, one, one]

    def loss(self, ids, targets):
        cache, x = Cache(self), ids
        for i, layer in enumerate(self.h):
            x = cache.keep(f"h.{i}", layer.forward(x))
        cache.out = x - targets
        return 0.5 * (cache.out**2).sum(), cache

    def loss_backward(self, cache, dloss=1.0):
        dx = dloss * cache.out
        for i, layer in reversed(list(enumerate(self.h))):
            dx = layer.backward(dx, cache.pop(f"h.{i}"))


def test_a_shared_parameter_is_one_parameter():
    """Yielded, checked, clipped and moved once, however often it is listed."""
    model = Shared()
    assert [name for name, _ in model.named_parameters()] == ["h.0.weight", "h.0.bias"]
    rng = np.random.default_rng(1)
    x, targets = rng.standard_normal((2, 4, 3))
    results = gradcheck.check_model(model, x, targets)
    assert [result.name for result in results] == ["h.0.weight", "h.0.bias"]
    assert gradcheck.worst(results).error < 1e-7
    _, cache = model.loss(x, targets)
    model.zero_grad()
    model.loss_backward(cache)
    true_norm = math.sqrt(sum(float((p.grad**2).sum()) for p in (model.h[0].weight, model.h[0].bias)))
    assert clip_by_global_norm(model.named_parameters(), None) == pytest.approx(true_norm)
    before = model.h[0].weight.data.copy()
    model.h[0].weight.grad[...] = 1.0
    AdamW(model.named_parameters(), weight_decay=0.0).step(0.1)
    assert abs(before - model.h[0].weight.data - 0.1).max() < 1e-6, "one step of 0.1, not three"


def test_a_linear_layer_without_bias():
    layer = Linear(3, 2, np.random.default_rng(0), dtype=np.float64, bias=False)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    x = np.random.default_rng(1).standard_normal((4, 3))
    out, cache = layer.forward(x)
    assert error(out, x @ layer.weight.data) < 1e-15
    assert error(layer.backward(out, cache), out @ layer.weight.data.T) < 1e-15
    assert error(layer.weight.grad, x.T @ out) < 1e-15


def test_a_gradient_that_an_override_does_not_give_does_not_arrive():
    """A learner's file may be half done: what is missing is found by a check, and stops nothing."""

    class HalfDone:
        @staticmethod
        def linear_forward(x, w, b=None):
            return x @ w if b is None else x @ w + b, (x, w)

        @staticmethod
        def linear_backward(dout, cache):
            x, w = cache
            return dout @ w.T, x.T @ dout, None

    layer = Linear(2, 3, np.random.default_rng(0))
    with ops.using(HalfDone):
        out, cache = layer.forward(np.ones((4, 2), np.float32))
        layer.backward(np.ones_like(out), cache)
    assert layer.weight.grad is not None and layer.bias.grad is None


@pytest.mark.parametrize(("module", "x"), [p for p in PARTS if p.id in ("attention", "mlp")])
def test_a_second_backward_is_refused(module, x):
    out, cache = module.forward(x)
    module.backward(out, cache)
    with pytest.raises(ValueError, match="this cache has been used"):
        module.backward(out, cache)


@pytest.mark.parametrize(("module", "x"), [p for p in PARTS if p.id in ("attention", "mlp")])
def test_grad_false_keeps_nothing(module, x):
    out, cache = module.forward(x, grad=False)
    assert cache == {} and error(out, module.forward(x)[0]) < 1e-14  # a few rows may be added in another sequence
    with pytest.raises(ValueError, match=r"made with grad=False"):
        module.backward(out, cache)


@pytest.mark.parametrize(("module", "x"), PARTS)
def test_modules_hold_no_activations(module, x):
    """The memory of a forward pass hangs on its cache alone: without the cache it is free, input and output too."""
    own = {id(p.data) for p in module.parameters()}
    x = x.copy()
    out, cache = module.forward(x)
    kept = [weakref.ref(a) for a in [out, *ops.arrays(cache).values()] if id(a) not in own]
    assert all(ref() is not None for ref in kept)
    del x, out, cache
    assert all(ref() is None for ref in kept)


def test_memory_falls_as_backward_proceeds():
    """When the backward pass reaches the first block, what the last one kept is gone."""
    ops.use("reference")
    model = small_gpt1()
    loss, cache = model.loss(*batch(model))
    last = cache["h.1"]
    kept = [weakref.ref(a) for path, a in ops.arrays(last).items() if path.endswith((".p", ".t", ".x_hat"))]
    assert len(kept) == 4
    seen, first = [], model.h[0].backward
    model.h[0].backward = lambda *args: seen.append([ref() is None for ref in kept]) or first(*args)
    del last
    model.loss_backward(cache)
    assert seen == [[True] * 4] and cache == {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_of_modules(dtype):
    for name, module, x in parts(dtype):
        out, cache = module.forward(x)
        dx = module.backward(out, cache)
        assert {a.dtype for a in [out, *gradients(module)]} == {np.dtype(dtype)}, name
        assert dx is None or dx.dtype == dtype


def test_attention_continues_a_past():
    """With the keys and values of earlier positions, the last positions come out as in the whole sequence."""
    name, module, x = parts()[2]
    whole, _ = module.forward(x)
    past = Past(capacity=9)
    first, _ = module.forward(x[:, :3], past=past)
    rest, _ = module.forward(x[:, 3:], past=past)
    assert error(first, whole[:, :3]) < 1e-12 and error(rest, whole[:, 3:]) < 1e-12


def test_chance_is_an_argument_of_modules():
    model = small_gpt1(dropout=0.5)
    for module in (model.h[0].attn, model.h[0].mlp):
        x = rng(4).standard_normal((2, 4, 6))
        same_key = [module.forward(x, key=Key.of(1))[0] for _ in range(2)]
        assert (same_key[0] == same_key[1]).all()
        assert (same_key[0] != module.forward(x, key=Key.of(2))[0]).any()
        assert (same_key[0] != module.forward(x)[0]).any()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages that one can choose")
@pytest.mark.parametrize("known", [True, False])
def test_weights_that_will_be_filled_lie_in_large_pages(known, monkeypatch):
    """And a kernel that has none gives others."""
    told = []

    class Pages(mmap.mmap):
        def madvise(self, advice):
            told.append(advice)
            if not known:
                raise OSError(22, "Invalid argument")
            super().madvise(advice)

    monkeypatch.setattr(mmap, "mmap", Pages)
    zeros = memory.untouched_zeros((3, 1 << 14), np.float32)
    assert told == [] and zeros.shape == (3, 1 << 14) and not zeros.any()
    weight = Linear(128, 256, None).weight.data
    assert told == [mmap.MADV_HUGEPAGE] and weight.shape == (128, 256) and not weight.any()
    weight += 1
    assert weight.sum() == weight.size
