"""What only a GPU can show: kernels in their real tiles, short numbers, recorded steps, the same bits twice.

So that the tests themselves cannot rot, they also run "played": the kernels on a processor, and smaller arrays.
"""

import contextlib
import functools

import numpy as np
import pytest
from helpers import KEY, as_tuple, batch, error, played_or_cuda, same, small_gpt1, small_gpt2, snapshot
from test_cuda import KERNEL_CASES, LOW_CASES, assert_case_as_good_as_rounding, both_ways, rounding
from test_train import options, text

from minigpt import GPT2, GPT2Config, ops
from minigpt.device import arrays, gpu
from minigpt.device.arrays import to_device, to_numpy
from minigpt.jobs.pretrain import train
from minigpt.nn import optim
from minigpt.ops import cuda
from minigpt.ops.cases import case
from minigpt.ops.random_keys import Key

__all__ = ["text"]  # a fixture


@pytest.fixture(params=[pytest.param("played", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request) -> str:
    """The device of the arrays: "cpu", where the kernels are played, or "cuda"."""
    return played_or_cuda(request)


@pytest.fixture
def precision():
    """A function that sets how products are computed; afterwards they are exact again."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(gpu.products_in("tf32" if name == "tf32" else "float32"))


def results(op, args, constants, where):
    """What both_ways gives, with arrays of the device, as NumPy arrays."""
    constants = {name: to_device(a, where) if isinstance(a, np.ndarray) else a for name, a in constants.items()}
    out, cache = getattr(cuda, f"{op}_forward")(
        *(to_device(a, where) if isinstance(a, np.ndarray) else a for a in args), **constants
    )
    dout = to_device(np.random.default_rng(1).standard_normal(out.shape).astype(out.dtype), where)
    gradients = [as_tuple(getattr(cuda, f"{op}_backward")(dout, cache)) for _ in range(2)]
    first, again = ([to_numpy(g) for g in found if g is not None] for found in gradients)
    assert same(first, again), f"{op}: two backwards, two results"
    return [to_numpy(out), *first]


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("float64", 1e-11)])
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_every_kernel(name, dtype, limit, where):
    op, args, constants = case(name).call
    with ops.using("reference"):
        exact = both_ways(ops, op, args, constants)
    args = [a.astype(dtype) if getattr(a, "dtype", None) == np.float64 else a for a in args]
    for a, c in zip(results(op, args, constants, where), exact, strict=True):
        assert error(a, c) <= limit, f"{op} in {dtype}: {error(a, c):.1e}, and not {limit:.1e}"


@pytest.mark.parametrize("name", LOW_CASES)
def test_every_kernel_in_bfloat16(name, where):
    assert_case_as_good_as_rounding(name, run=functools.partial(results, where=where))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_attention_of_gpt2(dtype, rate, where):
    """Heads of 64, and a sequence that ends inside a tile."""
    b, t, heads = (1, 70, 1) if where == "cpu" else (3, 1000, 12)
    qkv = np.random.default_rng(0).standard_normal((b, t, 3 * 64 * heads))
    constants = {"rate": rate, "key": KEY if rate else None}
    with ops.using("reference"):
        exact = both_ways(ops, "self_attention", [qkv, heads], constants)
    with ops.using(rounding()):
        rounded = both_ways(ops, "self_attention", [qkv, heads], constants)
    got = results("self_attention", [qkv.astype(arrays.named_dtype(dtype)), heads], constants, where)
    for a, b, c in zip(got, rounded, exact, strict=True):
        assert error(a, c) < (1e-5 if dtype == "float32" else 2 * error(b, c))


def learned(where, low, config, steps, rows):
    """Losses, and weights, after some steps on one batch, with dropout and clipping."""
    model = GPT2(config).to(where)
    model.compute_in(low)
    optimizer, losses = optim.AdamW(model.named_parameters()), []
    with ops.using("cuda"):
        for t in range(steps):
            model.zero_grad()
            loss, cache = model.loss(*batch(model, rows, config.n_positions), key=Key.of(0, t))
            model.loss_backward(cache)
            optimizer.step(1e-3, 1.0)
            losses.append(loss)
    return np.array([float(loss) for loss in losses]), snapshot([p.data for p in model.parameters()])


@pytest.mark.parametrize("low", [None, "tf32", "bfloat16"])
def test_it_learns_as_in_float32_and_twice_with_the_same_bits(low, where, precision):
    sizes, steps, rows = {"n_embd": 32, "n_head": 2, "n_layer": 1, "n_positions": 8}, 4, 2
    if where == "cuda":
        sizes, steps, rows = {"n_embd": 256, "n_head": 4, "n_layer": 3, "n_positions": 200}, 20, 6
    config = GPT2Config(vocab_size=300, **sizes, **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.1))
    exact, _ = learned("cpu" if where == "cuda" else where, None, config, steps, rows)
    precision(low)
    short = low if low == "bfloat16" else None
    (losses, weights), (_, again) = (learned(where, short, config, steps, rows) for _ in range(2))
    assert same(weights, again)
    assert exact[0] > exact[-1] and np.abs(losses / exact - 1).max() < (0.01 if low else 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("dtype", "dropout"), [("float32", 0.0), ("float32", 0.1), ("tf32", 0.0), ("bfloat16", 0.1)])
def test_a_recorded_run_has_the_bits_of_one_that_is_not(
    dtype, dropout, accumulate, text, tmp_path, constants, precision
):
    if gpu.cuda_problem():
        pytest.skip(f"no GPU: {gpu.cuda_problem()}")
    given = {"device": "cuda", "dtype": dtype, "dropout": dropout, "accumulate": accumulate}
    jobs = [train(options(text, tmp_path / "recorded", **given))]
    constants.set(recorded_operations=0)
    jobs.append(train(options(text, tmp_path / "not", **given)))
    recorded, launched = jobs
    assert recorded.recorded.graph is not None and launched.recorded is None
    assert same(*(snapshot([p.data for p in job.model.parameters()]) for job in jobs))


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_memory_is_returned(make, where):
    """After the gradients are forgotten only weights are left."""
    if where == "cpu":
        pytest.skip("a processor's memory is not counted")
    model = make(np.float32, n_embd=64, n_positions=64).to(where)
    pool, used = gpu.cupy.get_default_memory_pool(), []
    for _ in range(2):  # the first time cuBLASLt takes its workspace, and keeps it
        used.append(pool.used_bytes())
        loss, cache = model.loss(*batch(model, 8, 64))
        kept = pool.used_bytes()
        model.loss_backward(cache)
        model.zero_grad()
        del loss, cache
    before = used[1]
    assert pool.used_bytes() <= before + 4096 < kept
