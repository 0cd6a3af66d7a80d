"""The CUDA kernels: their sources run on a processor and are judged by the reference, and compile for a GPU.

What a processor cannot show, how fast they are and that a GPU agrees, is for the tests marked gpu and the benchmarks.
"""

import ast
import contextlib
import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import cuda_on_cpu
import numpy as np
import pytest
from constants import value
from helpers import (
    KEY,
    as_tuple,
    batch,
    compiled_by_nvrtc,
    error,
    is_rounded,
    same,
    small_gpt1,
    small_gpt2,
    snapshot,
)
from nvcc import spilled

import minigpt
from minigpt import ops
from minigpt.device import gpu
from minigpt.device.arrays import named_dtype
from minigpt.errors import InputError
from minigpt.nn import Parameter, optim
from minigpt.ops import cuda, reference
from minigpt.ops.arguments import ACTIVATIONS, PAIRINGS
from minigpt.ops.cases import NAMES, axes_of, case
from minigpt.ops.cuda import attention, attention_past, cross_entropy, cuda_graph, embedding, kernels
from minigpt.ops.random_keys import Key

AGREEMENT = {np.float32: 1e-5, np.float64: 1e-12}
WIDENED = ("attention", "softmax", "cross_entropy")  # they have no kernel: of bfloat16 they are computed in float32
OF_BFLOAT16 = [name.removesuffix("_forward") for name in cuda.__all__ if name.endswith("_forward")]
MADE_FOR = [name for name in OF_BFLOAT16 if name not in WIDENED]
ELSEWHERE = ("self_attention, past", "self_attention, groups and past")  # cases that the reference computes
NORMS = {"layernorm": 2, "rmsnorm": 1}  # how many gains and biases: they stay float32 beside an x of bfloat16
NO_WEIGHTS = ("attention", "soft_cross_entropy", "cosine_loss")  # every gradient is one of activations
ROWS = value("cuda_side") * value("cuda_each")  # of a block of attention on ordinary cores
LOSSES = ("linear_cross_entropy", "soft_cross_entropy", "cosine_loss")
KERNEL_CASES = [name for name in NAMES if name.partition(",")[0] in MADE_FOR and name not in ELSEWHERE]
LOW_CASES = [name for name in NAMES if name.partition(",")[0] in OF_BFLOAT16 and name not in ELSEWHERE]
WITH_AXES, LOW_WITH_AXES = (
    [pytest.param(name, axes, id=f"{name}-{axes}") for name in names for axes in axes_of(name)]
    for names in (KERNEL_CASES, LOW_CASES)
)


def pytest_generate_tests(metafunc):
    """A test marked `products` runs twice: with the products of CuPy, and with those of cuBLASLt."""
    if "kernels_on_cpu" in metafunc.fixturenames:
        by_library = pytest.param("cuBLASLt", marks=pytest.mark.slow)
        both = metafunc.definition.get_closest_marker("products")
        metafunc.parametrize("kernels_on_cpu", ["CuPy", by_library] if both else ["CuPy"], indirect=True)


def normal(*shape, dtype=np.float32, scale=1.0):
    return np.asarray(scale * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(dtype)


def both_ways(implementation, op, args, constants):
    """Result and gradients of one operation; a kernel must have made them, and must have touched nothing else."""
    before = snapshot([args, constants])
    if implementation is cuda:
        with ops.using("cuda"):
            assert ops.explain(op, *args, **constants).implementation == "cuda", "it was left to the reference"
    out, cache = getattr(implementation, f"{op}_forward")(*args, **constants)
    dout = np.random.default_rng(1).standard_normal(np.shape(out)).astype(out.dtype)
    kept = snapshot([cache, dout])
    gradients = [g for g in as_tuple(getattr(implementation, f"{op}_backward")(dout, cache)) if g is not None]
    first = snapshot(gradients)
    again = getattr(implementation, f"{op}_backward")(dout, cache)
    assert same(first, snapshot([g for g in as_tuple(again) if g is not None])), f"{op}: two backwards, two results"
    assert same(before, snapshot([args, constants])) and same(kept, snapshot([cache, dout])), f"{op} wrote to its input"
    return [out, *gradients]


def assert_agree(op, args, constants=None, tolerance=1e-5):
    with ops.using("reference"):
        expected = both_ways(ops, op, args, constants or {})
    got = both_ways(cuda, op, args, constants or {})
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b) and a.dtype == b.dtype
        assert error(a, b) < tolerance, f"{op}: {error(a, b):.1e}"


# --- the same numbers ------------------------------------------------------------------------------------------------


@pytest.mark.products
@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize(("name", "axes"), WITH_AXES)
def test_agrees_with_the_reference(name, axes, dtype, kernels_on_cpu, small_tiles):
    op, args, constants = case(name, axes, dtype).call
    assert_agree(op, args, constants, AGREEMENT[dtype])


def in_bfloat16(op, args):
    """The arguments as a bfloat16 model has them: the gains of a normalisation stay float32."""
    low = [np.float32 if op in NORMS and i else named_dtype("bfloat16") for i in range(len(args))]
    return [a.astype(to) if getattr(a, "dtype", np.dtype(int)).kind == "f" else a
            for a, to in zip(args, low, strict=True)]  # fmt: skip


def rounding():
    """The reference with every primitive's inputs and outputs rounded to bfloat16; losses, gains, and gradients of
    weights are not."""

    def low(a):
        return a.astype(named_dtype("bfloat16")).astype(a.dtype) if np.ndim(a) and a.dtype.kind == "f" else a

    def pair(op):
        def forward(*args, **constants):
            args = [low(args[0]), *args[1:]] if op in NORMS else map(low, args)
            out, cache = getattr(reference, f"{op}_forward")(*args, **constants)
            return low(out), cache

        def backward(dout, cache):
            gradients = as_tuple(getattr(reference, f"{op}_backward")(low(dout), cache))
            if op != "embedding":
                gradients = [low(g) if i == 0 or op in NO_WEIGHTS else g for i, g in enumerate(gradients)]
            return gradients[0] if len(gradients) == 1 else tuple(gradients)

        return {f"{op}_forward": staticmethod(forward), f"{op}_backward": staticmethod(backward)}

    return type("Rounding", (), {name: f for op in ops.primitives for name, f in pair(op).items()})


def by_kernels(op, args, constants):
    """Result and gradients of one operation by the kernels."""
    return both_ways(cuda, op, args, constants)


def errors_in_bfloat16(run, op, args, constants):
    """For each number of run(op, args, constants): its relative error, and that of the rounded reference."""
    with ops.using("reference"):
        exact = both_ways(ops, op, args, constants)
    with ops.using(rounding()):
        rounded = both_ways(ops, op, args, constants)
    got = run(op, in_bfloat16(op, args), constants)
    assert {a.dtype.name for a in got} <= {"bfloat16", "float32"}
    return [(error(a, c), error(b, c)) for a, b, c in zip(got, rounded, exact, strict=True)]


def assert_as_good_as_rounding(op, args, constants, run=by_kernels, first=0):
    """At most twice the error that rounding makes. first: the first of the results that are judged."""
    for i, (found, of_rounding) in list(enumerate(errors_in_bfloat16(run, op, args, constants)))[first:]:
        limit = 2 * of_rounding + 1e-6
        assert found <= limit, f"{op}, number {i}: {found:.1e}, and not {limit:.1e}"


def assert_losses_as_good_as_rounding(calls, run=by_kernels):
    """In a single number, such as a loss, rounding errors may cancel: so the sum over several inputs is judged."""
    found, of_rounding = np.sum([errors_in_bfloat16(run, *call)[0] for call in calls], axis=0)
    limit = 2 * of_rounding + 1e-6
    assert found <= limit, f"the losses of {len(calls)} inputs: {found:.1e}, and not {limit:.1e}"


def assert_case_as_good_as_rounding(name, axes=None, run=by_kernels):
    """The gradients for the usual inputs, and a loss for eight inputs."""
    is_loss = case(name).op in LOSSES
    assert_as_good_as_rounding(*case(name, axes).call, run, first=int(is_loss))
    if is_loss:
        assert_losses_as_good_as_rounding([case(name, axes, seed=seed).call for seed in range(8)], run)


@pytest.mark.products
@pytest.mark.parametrize(("name", "axes"), LOW_WITH_AXES)
def test_bfloat16_errs_no_more_than_rounding_does(name, axes, kernels_on_cpu, small_tiles):
    pytest.importorskip("ml_dtypes")
    assert_case_as_good_as_rounding(name, axes)


def test_bfloat16_rounds_to_even_and_keeps_what_is_not_a_number(kernels_on_cpu):
    """Every pattern of the upper half, with a lower half just below, at, and just above the middle."""
    pytest.importorskip("ml_dtypes")
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    x = np.concatenate([upper + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)
    out = np.empty(len(x), named_dtype("bfloat16"))
    text = kernels.source("dropout", "bfloat16")
    text += 'extern "C" __global__ void f(real* to, const wide* x, int n) { for (int i = 0; i < n; i++) to[i] = x[i]; }'
    cuda_on_cpu.Module(text).get_function("f")((1, 1, 1), (1, 1, 1), (out, x, np.int32(len(x))))
    number = ~np.isnan(x)
    assert same([out[number]], [x[number].astype(named_dtype("bfloat16"))]) and np.isnan(out[~number]).all()


def norm_args(op, x):
    """x, and as many gains and biases as this normalisation has."""
    gains = [normal(x.shape[-1], dtype=x.dtype), normal(x.shape[-1], dtype=x.dtype, scale=2.0)]
    return [x, *gains[: NORMS[op]]]


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (5, 33), (2, 3, 131), (200, 9)])
@pytest.mark.parametrize("op", NORMS)
def test_normalisation_of_every_shape(op, shape, kernels_on_cpu):
    assert_agree(op, norm_args(op, normal(*shape)))


@pytest.mark.parametrize("op", NORMS)
def test_normalisation_of_rows_far_from_zero(op, kernels_on_cpu):
    assert_agree(op, norm_args(op, normal(4, 40, dtype=np.float64) + 1000), {}, 1e-9)


@pytest.mark.parametrize("rows", [1, value("cuda_warps") - 1, value("cuda_warps"), value("cuda_warps") + 1, 50])
@pytest.mark.parametrize("columns", [2, 31, 32, 33, 300])
def test_cosines_of_rows_of_every_size(columns, rows, kernels_on_cpu):
    """A warp takes a row: blocks that are full and not, lanes with nothing, with one number and with several."""
    a, b = normal(rows, columns), normal(rows, columns, 1)[..., 0]
    weights = np.arange(rows, dtype=np.float32) % 3 + 1
    assert_agree("cosine_loss", [a, b], {"weights": weights})


@pytest.mark.parametrize("dtype", AGREEMENT)
def test_the_cosine_of_a_vector_of_zeros(dtype, kernels_on_cpu):
    a, b = normal(4, 40, dtype=dtype), normal(40, 4, dtype=dtype).T.copy()
    a[1], b[2], a[3], b[3] = 0, 0, 0, 0
    loss, cache = cuda.cosine_loss_forward(a, b)
    assert 0 < loss < 2 and all(np.isfinite(g).all() for g in cuda.cosine_loss_backward(1.0, cache))
    for rows in (slice(0, 1), slice(3, 4)):  # a gradient at zero is as large as 1 / sqrt(eps): it would hide the others
        assert_agree("cosine_loss", [a[rows], b[rows]], {}, AGREEMENT[dtype])
    assert_agree("cosine_loss", [a, b], {"eps": 1e-3}, AGREEMENT[dtype])


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("vocabulary", [1, 2, 31, 256, 257, 1000, 2049])  # of the last one all 8 warps have some
def test_soft_targets_over_vocabularies_of_every_size(vocabulary, scale, kernels_on_cpu):
    """At a scale of 1000 the teacher is sure, and its gradient is what is left of a difference of large numbers."""
    args = [normal(3, 5, vocabulary, scale=scale), normal(5, 3, vocabulary, scale=scale).swapaxes(0, 1)]
    with ops.using("reference"):
        *expected, expected_of_teacher = both_ways(ops, "soft_cross_entropy", args, {"temperature": 2.0})
    *got, of_teacher = both_ways(cuda, "soft_cross_entropy", args, {"temperature": 2.0})
    assert all(error(a, b) < 1e-5 for a, b in zip(got, expected, strict=True))
    size = abs(expected_of_teacher).max() if scale == 1 else scale
    assert abs(of_teacher - expected_of_teacher).max() <= 1e-5 * size


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_soft_targets_of_rows_that_weigh_differently(rows, kernels_on_cpu):
    weights = np.arange(rows) % 3
    args = [normal(rows, 40), normal(rows, 40, 1)[..., 0]]
    assert_agree("soft_cross_entropy", args, {"weights": weights, "temperature": 3.0})
    assert_agree("soft_cross_entropy", args, {"weights": 0 * weights})  # nothing counts: 0, and gradients of 0


@pytest.mark.parametrize(("dtype", "end"), [(np.float32, 30), (np.float64, 300)])
def test_soft_targets_whose_largest_logit_is_found_late(dtype, end, kernels_on_cpu):
    """What was summed before is counted anew: of one row, of both, at every word or never."""
    rising = np.linspace(-end, end, 1000, dtype=dtype)
    logits = np.stack([rising, rising, rising[::-1], rising[::-1]])
    target_logits = np.stack([rising, rising[::-1], rising, rising[::-1]])
    assert_agree("soft_cross_entropy", [logits, target_logits], {}, 2 * AGREEMENT[dtype])


@pytest.mark.parametrize("columns", [3, 300])
def test_soft_targets_with_enormous_logits(columns, kernels_on_cpu):
    """The search for the largest begins so far below that the distance to it is infinite."""
    logits = 1e36 * np.tanh(normal(2, columns))
    args = [logits, normal(columns, 2).T]
    with ops.using("reference"):
        expected, _ = ops.soft_cross_entropy_forward(*args)
    loss, _ = cuda.soft_cross_entropy_forward(*args)
    assert np.isfinite(expected) and error(loss, expected) < 1e-5


def test_a_soft_loss_near_zero_keeps_its_digits(kernels_on_cpu):
    """Two teachers as sure as their students. The difference of two sums of 1000 would have three digits at most."""
    logits = np.full((2, 300), 1000.0)
    logits[0, 7], logits[1, 290] = 1013.0, 1015.0
    with ops.using("reference"):
        exact, _ = ops.soft_cross_entropy_forward(logits, logits)
    loss, _ = cuda.soft_cross_entropy_forward(logits.astype(np.float32), logits.astype(np.float32))
    assert 0 < exact < 0.01 and error(loss, exact) < 1e-5


def test_a_soft_loss_keeps_no_probabilities(kernels_on_cpu):
    logits, target_logits = normal(7, 300), normal(7, 300, scale=2.0)
    _, cache = cuda.soft_cross_entropy_forward(logits, target_logits)
    assert cache.logits is logits and cache.target_logits is target_logits
    assert ops.nbytes(cache) - logits.nbytes - target_logits.nbytes == 6 * 7 * 4, "six numbers of each row"


SIZES_OF_PACKS = [(4, 0, 4), (264, 0, 4), (1032, 0, 4), (302, 0, 1), (264, 1, 1)]


@pytest.mark.parametrize(("columns", "offset", "pack"), SIZES_OF_PACKS)
def test_packs_of_16_bytes_where_rows_and_addresses_allow_it(columns, offset, pack, kernels_on_cpu):
    """264 are two packs for each lane, and for two lanes a third one; 1032 more than a block of threads has."""
    x = normal(6 * columns + 1)[offset : 6 * columns + offset].reshape(6, columns)
    g, ids = normal(columns), np.array([[3, 0], [3, 2]])
    y = normal(6, columns, scale=2.0)
    assert x.flags.c_contiguous and kernels.pack_of(columns, x) == pack and kernels.pack_of(columns, x, g) == pack
    for op, args, constants in (
        ("gelu", [x], {}),
        ("gelu_exact", [x], {}),
        ("relu", [x], {}),
        ("silu", [x], {}),
        ("dropout", [x], {"rate": 0.3, "key": KEY}),
        ("layernorm", [x, g, normal(columns)], {}),
        ("rmsnorm", [x, g], {}),
        ("soft_cross_entropy", [x, y], {}),
        ("cosine_loss", [x, y], {}),
        ("embedding", [x, ids], {}),
        ("linear_cross_entropy", [normal(2, 2, 8), normal(columns, 8), ids], {}),
    ):
        assert_agree(op, args, constants)
    assert error(kernels.column_sums(x[None]), x.sum(axis=0)[None]) < 1e-5


ROTATIONS = [  # columns of a head, pairs, numbers in a pack of float32
    (8, 4, 4), (24, 4, 4), (64, 32, 4), (12, 6, 1), (7, 3, 1), (2, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(("size", "pairs", "pack"), ROTATIONS)
def test_rotations_in_packs_and_in_single_numbers(size, pairs, pack, pairing, kernels_on_cpu):
    """Of all heads and of some, of whole heads and of parts; 20 heads of 64 are more than a block of threads has."""
    x = normal(2, 3, 20, size)
    assert kernels.pack_of(math.gcd(size, pairs), x) == pack
    for angles in (normal(3, pairs), normal(2, 3, pairs)):
        for heads in (None, 0, 19):
            constants = {"cos": np.cos(angles), "sin": np.sin(angles), "pairing": pairing, "heads": heads}
            assert_agree("rope", [x], constants)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("pairs", [8, 32])
def test_rotations_of_bfloat16(pairs, pairing, kernels_on_cpu):
    """The angles stay float32."""
    pytest.importorskip("ml_dtypes")
    angles = normal(2, 3, pairs, dtype=np.float64)
    constants = {"cos": np.cos(angles), "sin": np.sin(angles), "pairing": pairing, "heads": 2}
    assert_as_good_as_rounding("rope", [normal(2, 3, 4, 64, dtype=np.float64)], constants)


@pytest.mark.parametrize("columns", [264, 1032])
def test_packs_of_bfloat16(columns, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    x, g = normal(6, columns, dtype=np.float64), normal(columns, dtype=np.float64)
    y = normal(columns, 6, dtype=np.float64).T
    assert kernels.pack_of(columns, x.astype(named_dtype("bfloat16")), np.zeros(1, np.float32)) == 8
    for op, args, constants in (
        ("gelu", [x], {}),
        ("gelu_exact", [x], {}),
        ("relu", [x], {}),
        ("silu", [x], {}),
        ("dropout", [x], {"rate": 0.3, "key": KEY}),
        ("layernorm", [x, g, g], {}),
        ("rmsnorm", [x, g], {}),
        ("soft_cross_entropy", [x, y], {}),
        ("cosine_loss", [x, y], {}),
        ("embedding", [x, np.array([[3, 0], [3, 5]])], {}),
    ):
        assert_as_good_as_rounding(op, args, constants, first=int(op in LOSSES))


@pytest.mark.parametrize("shape", [(0, 4), (3, 7), (5, 2, 264)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_sum_has_the_same_bits(dtype, shape, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    x, y = normal(*shape, dtype=named_dtype(dtype)), normal(*shape[::-1], dtype=named_dtype(dtype)).T.reshape(shape)
    before = snapshot([x, y])
    for a, b in ((x, y), (x[..., ::-1], y)):  # in one piece, and backwards
        assert same([ops.add(a, b)], [a + b])
    with pytest.raises(InputError, match="y has shape"):  # one number for a row: its gradient would be a sum
        ops.add(x, y[..., :1])
    assert same(before, snapshot([x, y]))


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_the_sums_of_a_block_are_made_by_the_kernel(make, kernels_on_cpu, monkeypatch):
    made, compiled = [], kernels._compiled
    monkeypatch.setattr(kernels, "_compiled", lambda file, *how: made.append(file) or compiled(file, *how))
    model = make(dtype=np.float32)
    loss, cache = model.loss(*batch(model))
    model.loss_backward(cache)
    assert made.count("residual") == 4 * model.config.n_layer


@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("key", [KEY, Key(0xFFFFFFFF, 7), Key(5, 2**31 + 3)])
def test_dropout_has_the_same_bits(key, rate, kernels_on_cpu):
    """Not nearly the same: a mask that differs in one place is another mask."""
    x = normal(3, 7, 40)
    out, cache = cuda.dropout_forward(x, rate=rate, key=key)
    with ops.using("reference"):
        expected, _ = ops.dropout_forward(x, rate=rate, key=key)
    assert same([out, cuda.dropout_backward(x, cache)], [expected, expected])


def with_key(cache, key):
    """The same cache with another key for its dropout."""
    if hasattr(cache, "rules"):
        return cache._replace(rules=cache.rules._replace(key=key))
    return cache._replace(key=key)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_key_that_changes_in_memory_changes_what_is_dropped(dtype, kernels_on_cpu):
    """A recorded step has the same arguments every time: what it drops must depend on what the table holds then."""
    pytest.importorskip("ml_dtypes")
    first, second = Key.of(1, 2), Key.of(1, 3)
    table = first.table(2, 3)
    key, (x, qkv) = Key(table, 3).fold(1, 2), (normal(*s).astype(named_dtype(dtype)) for s in ((4, 6), (2, 5, 96)))
    passes = {  # attention: on ordinary lanes, and in bfloat16 on tensor cores
        "dropout": (cuda.dropout_forward(x, rate=0.5, key=key)[1], x),
        "self_attention": (cuda.self_attention_forward(qkv, 2, rate=0.5, key=key)[1], qkv[..., :32].copy()),
    }
    for now in (first, second):
        table[...] = now.table(2, 3)
        for op, (cache, dout) in passes.items():
            backward, known = getattr(cuda, f"{op}_backward"), with_key(cache, now._replace(row=3).fold(1, 2))
            assert same(snapshot(backward(dout, cache)), snapshot(backward(dout, known))), op
    for op, (cache, dout) in passes.items():
        backward = getattr(cuda, f"{op}_backward")
        other = with_key(cache, first.fold(1, 2))
        assert not same(snapshot(backward(dout, cache)), snapshot(backward(dout, other))), op


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activations_of_large_numbers(op, kernels_on_cpu):
    x = np.array([-1e4, -50.0, -9.0, 0.0, 9.0, 50.0, 1e4])
    for dtype in AGREEMENT:
        assert_agree(op, [x.astype(dtype)], {}, AGREEMENT[dtype])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_not_hidden(kernels_on_cpu):
    x = np.array([np.nan, np.inf, -np.inf, 1, 2, 3, 4, 5], np.float32)
    for op in ACTIVATIONS:
        with ops.using("reference"), np.errstate(invalid="ignore"):
            expected = getattr(ops, f"{op}_forward")(x)[0]
        found = getattr(cuda, f"{op}_forward")(x)[0]
        assert np.isnan(found).tolist() == np.isnan(expected).tolist() and found[1] == np.inf, op
        assert error(found[3:], expected[3:]) < 1e-6, op
    for wrong in np.nan, np.inf, -np.inf:
        h, w = np.ones((2, 1), np.float32), np.ones((300, 1), np.float32)
        w[7], w[290] = wrong, wrong  # in the first pack of a thread, and in a later one
        loss, cache = cuda.linear_cross_entropy_forward(h, w, np.array([1, 299]))
        assert np.isfinite(loss) == (wrong == -np.inf), "a word of probability 0 is no mistake"


@pytest.mark.products
@pytest.mark.parametrize("inside", [50, 56])
def test_mlp_over_many_blocks(inside, kernels_on_cpu):
    """cuBLASLt takes GELU along where the rows inside are multiples of 8."""
    args = [normal(3, 31, 16), normal(16, inside), normal(inside), normal(inside, 16), normal(16)]
    assert_agree("mlp", args)
    assert_agree("mlp", [a.astype(np.float64) for a in args], {}, 1e-12)
    if kernels_on_cpu:
        made = [epilogue for epilogue, *_ in kernels_on_cpu.made]
        assert (made.count("GELU_AUX_BIAS") > 2) == (made.count("DGELU") > 2) == (inside % 8 == 0)


@pytest.mark.products
@pytest.mark.parametrize("biases", ["both", "none", "only the first", "only the second"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_mlp_with_another_function_inside(activation, biases, kernels_on_cpu):
    """cuBLASLt takes along only GELU in the tanh form, and only where a bias stands before it."""
    b1 = normal(56) if biases in ("both", "only the first") else None
    b2 = normal(16) if biases in ("both", "only the second") else None
    args = [normal(3, 5, 16), normal(16, 56), b1, normal(56, 16), b2]
    assert_agree("mlp", args, {"activation": activation})
    if kernels_on_cpu:
        made = [epilogue for epilogue, *_ in kernels_on_cpu.made]
        taken = activation == "gelu" and b1 is not None
        assert ("GELU_AUX_BIAS" in made) == ("DGELU" in made) == taken


@pytest.mark.products
@pytest.mark.parametrize("inside", [50, 56])
def test_mlp_in_bfloat16(inside, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    args = [normal(*s, dtype=np.float64) for s in ((3, 31, 16), (16, inside), (inside,), (inside, 16), (16,))]
    for activation in ACTIVATIONS:
        assert_as_good_as_rounding("mlp", args, {"activation": activation})


@pytest.mark.products
def test_arrays_of_any_layout(kernels_on_cpu):
    x, b = normal(8, 6, 10)[::2, :, ::2], normal(10)[::2]
    for op, args, constants in (
        ("layernorm", [x, b, b], {}),
        ("rmsnorm", [x, b], {}),
        ("soft_cross_entropy", [x, x[::-1]], {}),
        ("cosine_loss", [x, x[:, ::-1]], {"weights": normal(6, 4).T ** 2}),
        ("gelu", [x], {}),
        ("gelu_exact", [x], {}),
        ("relu", [x], {}),
        ("silu", [x], {}),
        ("dropout", [x], {"rate": 0.3, "key": KEY}),
        ("mlp", [x, normal(7, 5).T, normal(14)[::2], normal(5, 7).T, b], {}),
    ):
        assert_agree(op, args, constants)


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 300])
def test_column_sums(rows, kernels_on_cpu, constants):
    constants.set(cuda_stripes=3)
    x = normal(2, rows, 130)
    assert error(kernels.column_sums(x), x.sum(axis=1, dtype=np.float64)) < 1e-5


@pytest.mark.products
@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("vocabulary", [1, 31, 300, 1000, 9000])  # of the last one all 32 warps have some
def test_the_loss_over_vocabularies_of_every_size(vocabulary, scale, kernels_on_cpu):
    targets = np.random.default_rng(0).integers(vocabulary, size=(3, 5))
    targets[0, 1:3] = ops.IGNORED
    args = [normal(3, 5, 8, scale=scale), normal(vocabulary, 8), targets]
    assert_agree("linear_cross_entropy", args)
    loss, cache = cuda.linear_cross_entropy_forward(*args, grad=False)
    assert loss == cuda.linear_cross_entropy_forward(*args)[0] and cache is None


@pytest.mark.parametrize("op", ["linear", "mlp", "layernorm", "rmsnorm"])
def test_no_rows(op, kernels_on_cpu):
    """Gradients of weights are then 0, as those of the reference are."""
    _, args, constants = case(op).call
    assert_agree(op, [args[0][:0], *args[1:]], constants)


@pytest.mark.products
def test_the_loss_of_nothing(kernels_on_cpu):
    nothing = np.full((2, 3), ops.IGNORED)
    assert_agree("linear_cross_entropy", [normal(2, 3, 4), normal(9, 4), nothing])


@pytest.mark.parametrize("wrong", [9, -1, -2, 2**40])
def test_ids_out_of_range_give_nan(wrong, kernels_on_cpu):
    """A check before the launch would wait for the GPU; the kernel must not read another row instead."""
    ids = np.array([[0, wrong], [2, 1]])
    out, cache = cuda.embedding_forward(normal(9, 4), ids)
    assert (np.isnan(out).any(axis=-1) == (ids == wrong)).all() and np.isnan(out[0, 1]).all()
    assert error(cuda.embedding_backward(np.ones_like(out), cache).sum(), 12) == 0
    loss, cache = cuda.linear_cross_entropy_forward(normal(2, 2, 4), normal(9, 4), ids)
    assert np.isnan(loss) and np.isfinite(cache.dh[1]).all()


@pytest.mark.products
@pytest.mark.parametrize("wrong", [11, -1])
def test_a_model_refuses_ids_that_a_kernel_would_only_make_nan(wrong, kernels_on_cpu):
    model = small_gpt2()
    ids, targets = batch(model)
    bad = np.where(np.arange(ids.shape[1]) == 2, wrong, ids)
    with ops.using("cuda"):
        with pytest.raises(InputError, match=f"token id {wrong} is out of range: the table has 11 rows"):
            model.loss(bad, targets)
        with pytest.raises(InputError, match=f"targets must be -100 or 0 to 10: got {wrong}"):
            model.loss(ids, bad)


@pytest.mark.parametrize("op", NORMS)
def test_the_gains_of_a_normalisation_are_never_short(op, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    supports = getattr(cuda, f"{op}_supports")
    x, *gains = norm_args(op, normal(3, 8))
    x = x.astype(named_dtype("bfloat16"))
    assert supports(x, *gains) is None
    assert "float32 beside bfloat16" in supports(x, *(g.astype(x.dtype) for g in gains))


@pytest.mark.parametrize("op", ["soft_cross_entropy", "cosine_loss"])
def test_losses_of_two_arrays_take_one_dtype_and_something_to_compare(op, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    supports = getattr(cuda, f"{op}_supports")
    x = normal(3, 8)
    assert supports(x, x) is None
    assert "one dtype" in supports(x, x.astype(named_dtype("bfloat16")))
    assert "or more" in supports(x[:0], x[:0])
    with ops.using("cuda"):
        explained = ops.explain(op, x[:0], x[:0])
    assert explained.implementation == "reference"


@pytest.mark.parametrize("op", ["embedding", "linear", *NORMS, *LOSSES])
def test_other_dtypes_are_left_to_the_reference(op, kernels_on_cpu):
    _, args, constants = case(op).call
    args = [a.astype(np.float16) if a.dtype.kind == "f" else a for a in args]
    with ops.using("cuda"):
        explained = ops.explain(op, *args, **constants)
    assert explained.implementation == "reference" and "float16" in explained.reasons["cuda"]


def test_without_cupy_arrays_the_kernels_stay_away():
    for name in MADE_FOR:
        op, args, constants = case(name).call
        with ops.using("cuda"):
            assert "CuPy" in ops.explain(op, *args, **constants).reasons["cuda"]
        assert "arrays on cuda" in ops.explain(op, *args, **constants).reasons["cuda"]


@pytest.mark.parametrize(("segment", "tile"), [(1, 1), (3, 4), (32, 256)])
@pytest.mark.parametrize(("n", "columns"), [(0, 5), (1, 1), (40, 132), (300, 3)])
def test_embedding_of_repeated_ids(n, columns, segment, tile, kernels_on_cpu, constants):
    """Runs of 1 to 200 places: within a segment, over an edge, over many segments; of ids in one tile and in many."""
    constants.set(cuda_segment=segment, cuda_tile=tile)
    ids = (np.random.default_rng(0).exponential(3, size=(2, n)) // 1).clip(0, 12).astype(int)
    assert_agree("embedding", [normal(13, columns), ids])
    assert_agree("embedding", [normal(13, columns), 0 * ids])  # one run, to the very end


@pytest.mark.parametrize("tile", [1, 2, 64])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 300])
def test_positions_are_sorted_by_id_and_equal_ids_keep_their_order(n, tile, kernels_on_cpu, constants):
    constants.set(cuda_tile=tile)
    ids = np.random.default_rng(n).integers(20, size=n)
    ids[n // 2 :] *= 2**31 // 18  # some are too large for 32 bits
    ids[::7], ids[1::7] = -2, 2**31 - 1
    known = np.where((ids >= 0) & (ids < 2**31 - 1), ids, -1)
    expected = np.argsort(known, kind="stable")
    order, by_id = embedding.positions_by_id(np, ids)
    assert (order == expected).all() and (by_id == known[expected]).all()


OTHER_TILES = [pytest.param(*tile, marks=pytest.mark.slow) for tile in ((1, 1), (4, 1), (8, 1))]  # to be compiled first


@pytest.mark.parametrize(("side", "each"), [(1, 2), (2, 2), *OTHER_TILES])
@pytest.mark.parametrize("t", [1, 4, 7])
def test_attention_in_tiles_of_every_size(t, side, each, kernels_on_cpu, constants):
    constants.set(cuda_side=side, cuda_each=each)
    key = Key(123, 2**30)
    assert_agree("self_attention", [normal(2, t, 18), 3], {"rate": 0.3, "key": key})
    assert_agree("self_attention", [normal(2, t, 18, dtype=np.float64), 2], {}, 1e-12)


@pytest.mark.parametrize("t", [ROWS - 1, 2 * ROWS + 3])
def test_attention_in_its_real_tiles(t, kernels_on_cpu):
    assert_agree("self_attention", [normal(1, t, 3 * 8), 2], {"rate": 0.1, "key": KEY})
    assert_agree("self_attention", [normal(1, t, 3 * 64), 1])


@pytest.mark.parametrize("scale", [10.0, 300.0])
def test_attention_with_large_scores(scale, kernels_on_cpu, small_tiles):
    """exp of the scores themselves would overflow."""
    qkv = normal(2, 7, 18, dtype=np.float64)
    qkv[0, 3:5, :12] *= scale
    assert_agree("self_attention", [qkv, 3], {}, 1e-10)


def test_attention_leaves_what_it_was_not_made_for(kernels_on_cpu):
    qkv = normal(2, 4, 12)
    past = normal(2, 2, 3, 2), normal(2, 2, 3, 2)
    assert "boolean" in cuda.self_attention_supports(qkv, 2, mask=np.ones((4, 4)))
    assert "past" in cuda.self_attention_supports(qkv, 2, past=past)
    assert "512" in cuda.self_attention_supports(normal(1, 2, 3 * 512), 1)
    assert cuda.self_attention_forward(qkv, 2, grad=False)[1] is None


SHAPES = [(5, 3), (3,), (), (0,), (2, 7), (1, 15)]


def trained(array, kind=optim.AdamW, dtype=np.float64, steps=3, max_norm=None, low=False, scale=1.0):
    """Norms, and everything after some updates, by the kernel where it takes arrays of this kind."""
    kernels.ARRAY = array
    named = [(str(i), Parameter(normal(*shape, dtype=dtype))) for i, shape in enumerate(SHAPES)]
    optimizer = kind([*named, ("idle", Parameter(normal(2, 2, dtype=dtype)))], weight_decay=0.1)
    for _, p in named:
        p.low = p.data.astype(named_dtype("bfloat16")) if low else None
    norms = []
    for t in range(1, 1 + steps):
        for i, (_, p) in enumerate(named):
            p.grad = np.asarray(scale * (i + t) * normal(*p.data.shape, dtype=dtype), dtype)
        norms.append(optimizer.step(0.01, max_norm))
    state = [(p.data, optimizer.m[name], optimizer.v[name]) for name, p in optimizer.parameters.items()]
    return np.array(norms), [a for three in state for a in three], [p.low for _, p in named]


@pytest.mark.parametrize("kind", [optim.AdamW, optim.GPT1Adam])
@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("max_norm", [None, 0.0, 3.0, 1e6])
def test_adam_updates_all_tensors_at_once(dtype, kind, max_norm, kernels_on_cpu, constants):
    constants.set(cuda_adam_chunk=7)
    (norms, got, _), (expected_norms, expected, _) = (
        trained(array, kind, dtype, max_norm=max_norm) for array in (np.ndarray, ())
    )
    assert error(norms, expected_norms) < AGREEMENT[dtype] and (norms > 1).all() == (max_norm is not None)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == dtype and error(a, b) < AGREEMENT[dtype]


def test_adam_sums_squares_over_many_blocks(kernels_on_cpu, constants):
    """More of them than the last block has threads."""
    constants.set(cuda_adam_chunk=2)
    g = normal(1111, dtype=np.float64)
    p = Parameter(np.zeros(1111), g)
    assert error(optim.AdamW([("p", p)]).step(0.1, 1.0), np.sqrt((g * g).sum())) < 1e-12


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_adam_leaves_out_a_step_that_is_not_finite(scale, kernels_on_cpu):
    norms, got, _ = trained(np.ndarray, steps=1, max_norm=1.0, scale=scale)
    _, expected, _ = trained(np.ndarray, steps=0)
    assert not np.isfinite(norms).any() and same(got, expected)
    with pytest.raises(optim.NonFiniteGradient):
        trained((), steps=1, max_norm=1.0, scale=scale)


def test_adam_keeps_the_copies_in_bfloat16(kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    for array in (np.ndarray, ()):
        _, state, lows = trained(array, dtype=np.float32, low=True)
        assert same(lows, [a.astype(low.dtype) for a, low in zip(state[::3], lows, strict=False)])


@pytest.mark.products
@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_every_gradient_of_a_model(make, kernels_on_cpu, small_tiles):
    model = make(dropout=0.2)

    def gradients(implementation):
        model.zero_grad()
        with ops.using(implementation):
            loss, cache = model.loss(*batch(model), key=Key.of(3))
            model.loss_backward(cache, 1.7)
        return [loss, *(p.grad for p in model.parameters())]

    for a, b in zip(gradients(cuda), gradients("reference"), strict=True):
        assert a.dtype == np.float64 and error(a, b) < 1e-10


@pytest.mark.products
@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_model_in_bfloat16(make, kernels_on_cpu, small_tiles):
    """Losses and gradients are float32, what lies between is not; in all it errs twice as much as rounding, at most."""
    pytest.importorskip("ml_dtypes")
    sizes = {"n_embd": 32, "n_positions": 12, "vocab_size": 40}

    def gradients(implementation, dtype, low=None):
        model = make(dtype=dtype, dropout=0.1, **sizes)
        model.compute_in(low)
        with ops.using(implementation):
            h, _ = model.hidden(batch(model)[0], grad=False)
            loss, cache = model.loss(*batch(model, rows=4, length=12), key=Key.of(3))
            model.loss_backward(cache, 0.7)
        return h, [np.asarray(loss), *(p.grad for p in model.parameters())]

    _, exact = gradients("reference", np.float64)
    _, best = gradients(rounding(), np.float64)
    h, got = gradients(cuda, np.float32, "bfloat16")
    assert h.dtype.name == "bfloat16" and all(g.dtype == np.float32 for g in got)
    off, best_off = (np.concatenate([(a - b).ravel() for a, b in zip(x, exact, strict=True)]) for x in (got, best))
    assert 0 < np.linalg.norm(off) < 2 * np.linalg.norm(best_off)


@pytest.mark.products
@pytest.mark.slow
def test_bfloat16_learns(kernels_on_cpu, small_tiles):
    """Twenty steps on one batch: as in float32, up to rounding, and the model that is saved and sampled is float32."""
    pytest.importorskip("ml_dtypes")

    def losses(implementation, low=None):
        model = small_gpt2(dtype=np.float32, moved=False, n_embd=16)
        model.compute_in(low)
        optimizer, found = optim.AdamW(model.named_parameters()), []
        with ops.using(implementation):
            for _ in range(20):
                model.zero_grad()
                loss, cache = model.loss(*batch(model))
                model.loss_backward(cache)
                assert float(optimizer.step(1e-2, 1.0)) > 0
                found.append(float(loss))
        return np.array(found), model

    (exact, _), (best, _), (low, model) = losses("cuda"), losses(rounding()), losses("cuda", "bfloat16")
    assert exact[0] - exact[-1] > 0.3 and abs(low - exact).max() < 2 * abs(best - exact).max()
    assert all(is_rounded(p) for p in model.parameters())
    ids = batch(model)[0]
    for p in model.parameters():
        if p.low is not None:
            p.low[...] = 0  # a sample made with the copies would be another one
    sample = model.generate(ids, 3, temperature=0)
    assert model.head.low is not None
    model.compute_in(None)
    assert same([sample], [model.generate(ids, 3, temperature=0)])


class OnGpu(np.ndarray):
    """An array whose numbers may not be read: a GPU would have to be waited for."""

    def _waits(self, *_):
        raise AssertionError("a number is read: the program waits for the GPU")

    __bool__ = __int__ = __float__ = __index__ = __iter__ = item = tolist = _waits

    def _reduced(name):
        return lambda self, *a, **k: np.asarray(getattr(self.view(np.ndarray), name)(*a, **k)).view(OnGpu)

    sum, all, any, min, max = map(_reduced, ("sum", "all", "any", "min", "max"))  # arrays too, as CuPy's


@pytest.mark.products
@pytest.mark.parametrize("low", [None, "bfloat16"])
@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_training_step_waits_for_nothing(make, low, kernels_on_cpu, small_tiles):
    if low:
        pytest.importorskip("ml_dtypes")
    model = make(dtype=np.float32, dropout=0.1)
    for p in model.parameters():
        p.data = p.data.view(OnGpu)
    model.compute_in(low)
    optimizer = optim.AdamW(model.named_parameters())
    ids, targets = (a.view(OnGpu) for a in batch(model))
    with ops.using("cuda"):
        loss, cache = model.loss(ids, targets, normalizer=targets.size, key=Key.of(3))
        model.loss_backward(cache)
        optimizer.step(1e-3, 1.0)
    assert all(p.grad is not None for p in model.parameters())
    with pytest.raises(AssertionError, match="waits"):
        bool((ids < 100).all())


@pytest.mark.parametrize("op", ["rmsnorm", "soft_cross_entropy, weights", "cosine_loss, weights"])
def test_what_a_relative_of_gpt_computes_waits_for_nothing(op, kernels_on_cpu):
    op, args, constants = case(op, dtype=np.float32).call
    args = [a.view(OnGpu) for a in args]
    constants = {name: a.view(OnGpu) if isinstance(a, np.ndarray) else a for name, a in constants.items()}
    with ops.using("cuda"):
        out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
        gradients = getattr(ops, f"{op}_backward")(0.7 if op in LOSSES else out, cache)
    assert len(gradients) == len(args)


# --- a step recorded as a graph --------------------------------------------------------------------------------------


def fake_cupy(fails=False):
    """What `Recorded` needs of CuPy, and a log of its calls: a graph that calls the recorded function again."""
    log = []

    class Stream:
        def __init__(self, non_blocking):
            assert non_blocking  # another one cannot be recorded

        def __enter__(self):
            log.append("enter")

        def __exit__(self, *_):
            log.append("exit")

        def synchronize(self):
            log.append("wait")

        def begin_capture(self):
            log.append("begin")

        def end_capture(self):
            log.append("end")
            if fails:
                raise RuntimeError("a copy from the host")
            return SimpleNamespace(launch=lambda: log.append("launch"))

    cuda = SimpleNamespace(
        MemoryPool=lambda: SimpleNamespace(malloc=None),
        Stream=Stream,
        using_allocator=lambda malloc: contextlib.nullcontext(),
        get_current_stream=lambda: Stream(True),
    )
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    return SimpleNamespace(cuda=cuda, asarray=np.asarray, ndarray=(), get_default_memory_pool=lambda: pool), log


def test_a_recorded_function_is_called_three_times_and_then_repeated(monkeypatch):
    cupy, log = fake_cupy()
    monkeypatch.setattr(gpu, "cupy", cupy)
    seen = []
    recorded = cuda_graph.Recorded(lambda a: seen.append(a) or log.append("call") or a * 2)
    first = recorded(np.array([1.0, 2.0]))
    assert log.index("begin") == 4 and log[log.index("begin") :][:3] == ["begin", "call", "end"] and len(seen) == 3
    again = recorded(np.array([5.0, 7.0]))
    assert again is first and log.count("call") == 3 and log.count("launch") == 2
    assert all(a is seen[0] for a in seen) and seen[0].tolist() == [5.0, 7.0]  # what is repeated reads the new numbers


def test_what_cannot_be_recorded_is_called(monkeypatch):
    cupy, log = fake_cupy(fails=True)
    monkeypatch.setattr(gpu, "cupy", cupy)
    recorded = cuda_graph.Recorded(lambda a: a * 2)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        assert recorded(np.ones(2)).tolist() == [2, 2]
    assert recorded(np.full(2, 3.0)).tolist() == [6, 6] and log.count("begin") == 1 and "launch" not in log


def test_a_warning_names_what_cannot_be_recorded_and_not_what_follows_from_it(monkeypatch):
    cupy, log = fake_cupy(fails=True)
    monkeypatch.setattr(gpu, "cupy", cupy)

    def fails_while_it_is_recorded(a):
        if log[-1] == "begin":
            raise RuntimeError("a result was read")
        return a * 2

    with pytest.warns(UserWarning, match="launched one by one: a result was read"):
        assert cuda_graph.Recorded(fails_while_it_is_recorded)(np.ones(2)).tolist() == [2, 2]


# --- what a GPU's compiler says, and CuPy -----------------------------------------------------------------------------


SOURCES = sorted(path.stem for path in kernels.FOLDER.glob("*.cu"))


TWO_WAYS = ("attention", "cross_entropy", "rope")  # plain, and with a mask or a bias; neighbours and halves


def packs(file, dtype):
    """How many numbers a thread takes at once."""
    if file == "attention_past":
        return {1, 16 // named_dtype(dtype).itemsize}
    return {1} if file.startswith(("attention", "o")) else {1, 16 // named_dtype(dtype).itemsize}


def sources(file):
    """A source as it is compiled, for each dtype: heads of 64 numbers, rows of 96 packs; and packs of one number."""
    if file == "attention_mma":
        for dtype, drops in itertools.product(attention.WIDEST, (False, True)):
            yield kernels.source(file, dtype, **attention.constants_on_tensor_cores(64, dtype, drops))
        return
    for dtype in kernels.TYPES:
        each = attention.square(64, kernels.wide(named_dtype(dtype)).itemsize)
        for pack, plain in itertools.product(packs(file, dtype), (0, 1) if file in TWO_WAYS else (0,)):
            yield kernels.source(file, dtype, PACK=pack, **{
                "attention": {"HEAD": 64, "KV_GROUP": 1, "SIDE": attention.SIDE, "EACH": each, "PLAIN": plain},
                "attention_past": attention_past.plan(64, pack),
                "layernorm": {"PACKS": 3, "WARPS": kernels.WARPS},
                "rmsnorm": {"PACKS": 3, "WARPS": kernels.WARPS},
                "rope": {"HEAD": 64, "PAIRS": 32, "NEIGHBOURS": plain},
                "soft_cross_entropy": {"WARPS": kernels.WARPS},
                "cosine_loss": {"WARPS": kernels.WARPS},
                "column_sums": {"WARPS": kernels.WARPS},
                "sort_ids": {"TILE": embedding.TILE},
                "cross_entropy": {"WARPS": cross_entropy.WARPS, "BIASED": 1 - plain},
            }.get(file, {}))  # fmt: skip


def architectures(file):
    """A T4, an A100, an H100; the first has no units for bfloat16."""
    return ("sm_80", "sm_90") if file == "attention_mma" else ("sm_75", "sm_80", "sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("file", SOURCES)
def test_nvcc_compiles(file, tmp_path):
    """Without a warning, for the newest GPU; NVRTC compiles for the older ones as well, see below."""
    newest = architectures(file)[-1]
    for text in sources(file):
        assert spilled(text, tmp_path, newest)  # there are kernels


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", NORMS)
def test_a_normalisation_finds_room(op, dtype, tmp_path):
    """A row of GPT-2 small stays in registers."""
    pack = 16 // named_dtype(dtype).itemsize
    text = kernels.source(op, dtype, PACK=pack, PACKS=768 // (32 * pack), WARPS=kernels.WARPS)
    for architecture in architectures(op):
        assert max(spilled(text, tmp_path, architecture)) <= 16


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("file", ["soft_cross_entropy", "cosine_loss"])
def test_the_losses_of_a_student_find_room(file, dtype, tmp_path):
    for pack in packs(file, dtype):
        text = kernels.source(file, dtype, PACK=pack, WARPS=kernels.WARPS)
        for architecture in architectures(file):
            assert max(spilled(text, tmp_path, architecture)) == 0


def test_sources_know_two_kinds_of_gpu():
    """With units for bfloat16, and without: so one of each kind sees every line of a source."""
    files = sorted(kernels.FOLDER.rglob("*.cu*"))
    lines = {line for path in files for line in path.read_text(encoding="utf-8").splitlines() if "__CUDA_ARCH" in line}
    assert lines == {"#ifdef __CUDA_ARCH__", "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800"}


@pytest.mark.slow
@pytest.mark.parametrize("file", SOURCES)
def test_nvrtc_compiles(file):
    """What CuPy compiles with, for a GPU of each kind. It needs no driver."""
    kinds = ("sm_90",) if file == "attention_mma" else ("sm_75", "sm_90")
    for text, architecture in itertools.product(sources(file), kinds):
        assert compiled_by_nvrtc(text, f"{file}.cu", architecture)


@pytest.mark.cupy
def test_cupy_takes_the_sources():
    pytest.importorskip("cupy")
    assert kernels.compile(kernels.source("layernorm", "float32")).code.count("typedef float real;") == 1


def test_attention_takes_heads_of_every_size_that_fits():
    """A smaller block where a whole one has no room: found out before anything is compiled."""
    assert [attention.square(size, 4) for size in (64, 84, 88, 128, 400)] == [4, 4, 2, 2, None]
    assert [attention.square(size, 8) for size in (32, 64, 128, 200)] == [4, 2, 1, None]


def names_of_cupy(source):
    """a.b.c for every name that a file takes from `xp` or `cupy`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node).removeprefix("backend.").split(".")
            if path[0] in ("xp", "cupy") and len(path) > 1 and all(part.isidentifier() for part in path):
                yield ".".join(path[1:])


@pytest.mark.cupy
def test_every_name_taken_from_cupy_exists_there():
    cupy = pytest.importorskip("cupy")
    files = sorted(Path(minigpt.__file__).parent.rglob("*.py"))
    names = {(name, path.name) for path in files for name in names_of_cupy(path.read_text(encoding="utf-8"))}
    assert len(names) > 50
    missing = [pair for pair in names if not _has(cupy, pair[0])]
    assert missing == []


def test_the_search_for_names_sees_them():
    source = "xp.exp(x)\nxp.add.at(y)\nbackend.cupy.nothing(1)\nother.thing"
    assert {"exp", "add.at", "nothing"} <= set(names_of_cupy(source))
    assert _has(np, "add.at") and not _has(np, "add.nothing")


def _has(module, name):
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


# --- the harness itself ----------------------------------------------------------------------------------------------


WRONG = {
    "wrote out of bounds": "x[n] = 0;",
    "a race": "x[0] = threadIdx.x;",
    "a read out of bounds": "x[threadIdx.x] = x[n] < 1;",
    "wait for others for ever": "if (threadIdx.x) __syncthreads();",
    "nan": "__shared__ real s[2]; x[threadIdx.x] = s[threadIdx.x];",
    "wrong": "__shared__ real s[2]; s[threadIdx.x] = threadIdx.x; x[threadIdx.x] = s[1 - threadIdx.x];",
}


@pytest.mark.slow
@pytest.mark.parametrize("message", WRONG)
def test_the_harness_sees(message, kernels_on_cpu):
    text = "typedef float real; typedef float wide;\n"
    text += f'extern "C" __global__ void f(real* x, int n) {{ {WRONG[message]} }}'
    x = np.ones(2, np.float32)
    run = cuda_on_cpu.Module(text).get_function("f")
    if message == "nan":
        run((1, 1, 1), (2, 1, 1), (x, np.int32(2)))
        assert np.isnan(x).all()
    else:
        with pytest.raises(AssertionError, match="a race" if message == "wrong" else message):
            run((1, 1, 1), (2, 1, 1), (x, np.int32(2)))
