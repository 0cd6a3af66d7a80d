"""The upstream gradient of the CUDA losses: where it is 1 nothing is computed, and on a GPU it is not waited for."""

import numpy as np
import pytest
from helpers import batch, same, small_gpt1, small_gpt2, snapshot
from test_cuda import LOSSES, OnGpu, in_bfloat16

from minigpt import ops
from minigpt.ops import cuda
from minigpt.ops.cases import case
from minigpt.ops.cuda import kernels

CASES = ["linear_cross_entropy", "linear_cross_entropy, bias"]


def forward(name, dtype=np.float32, low=False):
    """A loss and its cache, by the kernels."""
    op, args, constants = case(name, dtype=dtype).call
    args = in_bfloat16(op, args) if low else args
    return getattr(cuda, f"{op}_forward")(*args, **constants)


def arrays_of(values):
    return [value for value in values if value is not None]


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_where_dloss_is_one_the_gradients_are_those_of_the_cache(name, low, kernels_on_cpu, monkeypatch):
    pytest.importorskip("ml_dtypes")
    _, cache = forward(name, low=low)
    kept = snapshot(cache)
    launched, compiled = [], kernels._compiled
    monkeypatch.setattr(kernels, "_compiled", lambda file, *how: launched.append(file) or compiled(file, *how))
    for one in (1.0, 1, np.float32(1)):
        gradients = cuda.linear_cross_entropy_backward(one, cache)
        assert all(a is b for a, b in zip(gradients, cache, strict=True)) and launched == []
    twice = arrays_of(cuda.linear_cross_entropy_backward(2.0, cache))
    assert set(launched) == {"scale"} and same(snapshot(twice), [2 * a for a in kept])
    assert same(kept, snapshot(cuda.linear_cross_entropy_backward(1.0, cache))), "two backwards, two results"


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("name", [*LOSSES, "linear_cross_entropy, bias"])
def test_a_dloss_on_the_gpu_is_not_waited_for(name, low, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    op = name.partition(",")[0]
    _, cache = forward(name, low=low)
    backward = getattr(cuda, f"{op}_backward")
    for number in (0.5, 1.0):
        expected = snapshot(backward(number, cache))
        for dtype in (np.float32, np.float64):
            dloss = np.array(number, dtype).view(OnGpu)
            gradients = arrays_of(backward(dloss, cache))
            assert all(a.dtype == b.dtype for a, b in zip(gradients, expected, strict=True))
            assert same(snapshot(gradients), expected)
    with pytest.raises(AssertionError, match="waits"):
        float(dloss)


def gradients_of(model, dlosses):
    """The gradients of all parameters after backward passes of as many losses, whose caches exist at the same time."""
    model.zero_grad()
    passes = [model.loss(*batch(model, seed=seed)) for seed, _ in enumerate(dlosses)]
    for (_, cache), dloss in zip(passes, dlosses, strict=True):
        if dloss:
            model.loss_backward(cache, dloss)
            with pytest.raises(ValueError, match="has been used"):
                model.loss_backward(cache, dloss)
    return snapshot([p.grad for p in model.parameters()])


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_tied_table_adds_to_an_array_that_nobody_needs_again(make, kernels_on_cpu):
    """The head assigns its gradient, which is an array of the cache, and the embedding adds to it in place."""
    model = make(dtype=np.float64)
    with ops.using("cuda"):
        first, second, both = (gradients_of(model, dlosses) for dlosses in ((1.0, 0), (0, 1.0), (1.0, 1.0)))
        twice = gradients_of(model, (2.0, 0))
    assert same([2 * g for g in first], twice), "a factor of 2 changes no digit"
    for a, b, c in zip(both, first, second, strict=True):
        assert np.allclose(a, b + c, rtol=1e-12, atol=1e-12)
