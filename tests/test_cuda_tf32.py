"""Attention of float32 arrays with products in tf32, on a processor: a product, its rounding, and the kernels.

The layouts stand here once more, as NVIDIA's manual draws them, not as mma_float32.cuh or cuda_on_cpu.h compute them.
"""

import functools

import fragments_on_cpu
import numpy as np
import pytest
from fragments_on_cpu import fragments, there_and_back, whole
from helpers import KEY, error, same
from nvcc import spilled
from test_cuda import both_ways, normal

from minigpt import ops
from minigpt.device import gpu
from minigpt.ops import cuda
from minigpt.ops.cuda import attention, kernels
from minigpt.ops.random_keys import Key, keep_mask

pytestmark = pytest.mark.usefixtures("kernels_on_cpu")
run = functools.partial(fragments_on_cpu.run, "float32")
FLOAT32 = np.dtype(np.float32)
ARCHITECTURES = "sm_80", "sm_90", "sm_100"


@pytest.fixture
def in_tf32():
    with gpu.products_in("tf32"):
        yield


def rounded(x):
    """To the nearest number with 10 bits behind the point, and of two that are equally near to the larger one."""
    x = np.asarray(x, np.float64)
    fraction, exponent = np.frexp(x)  # the fraction is at least a half: 11 bits of it count
    cut = np.floor(np.abs(fraction) * 2**11 + 0.5) / 2**11
    return np.copysign(np.ldexp(cut, exponent), x)


# --- one product, and what brings numbers to it -----------------------------------------------------------------------

# Which element the i-th number of a lane is: (row, column), in the order of a0 to a3, b0 and b1, c0 to c3.
A = [[(g + 8 * low, t + right) for right in (0, 4) for low in (0, 1)] for g in range(8) for t in range(4)]
B = [[(t + below, g) for below in (0, 4)] for g in range(8) for t in range(4)]
C = [[(g + 8 * low, 2 * t + one) for low in (0, 1) for one in (0, 1)] for g in range(8) for t in range(4)]


def test_the_layouts_hold_every_element_once():
    for layout, shape in ((A, (16, 8)), (B, (8, 8)), (C, (16, 8))):
        assert sorted(place for lane in layout for place in lane) == sorted(np.ndindex(shape))


def test_mma_is_a_matrix_product():
    a, b, c = whole(16, 8), whole(8, 8), normal(16, 8)
    got = run(
        """mma_m16n8k8(out + 4 * threadIdx.x, (const unsigned*)(a + 4 * threadIdx.x),
                       (const unsigned*)(b + 2 * threadIdx.x));""",
        fragments(c, C), fragments(a, A), fragments(b, B),
    )  # fmt: skip
    assert error(got, fragments(a.astype(np.float64) @ b + c, C)) < 1e-6


def test_the_harness_sees_a_factor_that_is_not_rounded():
    a = np.full(128, 1 + 2.0**-11, np.float32)
    body = "mma_m16n8k8(out + 4 * threadIdx.x, (const unsigned*)a, (const unsigned*)b);"
    for x, y in ((a, whole(64)), (whole(128), a)):
        with pytest.raises(AssertionError, match="not rounded"):
            run(body, np.zeros(128, np.float32), x, y)


def test_numbers_are_rounded_to_the_nearest():
    """Next to a power of two, and in the middle: just below, at, and just above what lies between two of tf32."""
    bits = np.concatenate([(127 << 23) + (np.array([[0], [1], [612], [1023]]) << 13) + [0, 1, 4095, 4096, 4097, 8191]])
    x = np.concatenate([bits.ravel().astype(np.uint32).view(np.float32), normal(104)]).astype(np.float32)
    x = np.concatenate([x, -x, x * np.float32(2.0**-60), x * np.float32(2.0**60)])[:512]
    got = run("for (int i = threadIdx.x; i < 512; i += 32) out[i] = __uint_as_float(rounded(__float_as_uint(a[i])));",
              np.empty(512, np.float32), x, np.zeros(1, np.float32))  # fmt: skip
    assert (got == rounded(x)).all() and (got != x).any()


@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.parametrize(("there", "wanted"), [*((n, 32) for n in (0, 1, 9, 17)), *((32, n) for n in (0, 1, 9, 25))])
def test_matrices_go_through_fragments(there, wanted, tiles):
    """out = 2 (a b^T) b, rounded between. Of a only some rows are there, of out only some are wanted."""
    rows = 16 * tiles
    there, wanted = min(there, rows), min(wanted, rows)
    a, b = whole(rows, 48), whole(32, 48) + np.float32(2.0**-12)
    a[there:] = np.nan
    out = there_and_back("float32", a, b, there, wanted)
    a[there:] = 0
    expected = 2 * rounded(a @ rounded(b).T) @ rounded(b)
    assert error(out[:wanted], expected[:wanted]) < 1e-6 and (out[wanted:] == 7).all()


# --- attention --------------------------------------------------------------------------------------------------------


def by_hand(qkv, dout, n_head, cut, scale=None, rate=0.0, key=None):
    """out, dq, dk and dv in float64, where `cut` is done to every factor of a product."""
    b, t, columns = qkv.shape
    q, k, v, dout = (a.reshape(b, t, n_head, -1).swapaxes(1, 2) for a in (*np.split(qkv, 3, axis=2), dout))
    scale = scale or 1 / np.sqrt(q.shape[-1])
    keep = 1.0
    if key is not None and rate:
        keep = keep_mask(key, rate, (b, n_head, t, t), np) / (1 - rate)
    s = cut(q) @ cut(k).swapaxes(2, 3) * scale
    s[..., ~np.tri(t, dtype=bool)] = -np.inf
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    out = cut(p * keep) @ cut(v)
    delta = (out * dout).sum(axis=-1, keepdims=True)
    ds = p * (cut(dout) @ cut(v).swapaxes(2, 3) * keep - delta)
    dq = cut(ds) @ cut(k) * scale
    dk = cut(ds).swapaxes(2, 3) @ cut(q) * scale
    dv = cut(p * keep).swapaxes(2, 3) @ cut(dout)
    return [a.swapaxes(1, 2).reshape(b, t, columns // 3) for a in (out, dq, dk, dv)]


def by(implementation, qkv, dout, n_head, **constants):
    """The same by an implementation."""
    out, cache = implementation.self_attention_forward(qkv, n_head, **constants)
    dqkv, _ = implementation.self_attention_backward(dout, cache)
    return [out, *np.split(dqkv, 3, axis=2)]


def assert_as_good_as_rounding(shape, n_head, **constants):
    """At most twice the error that comes from rounding the factors of the products to tf32."""
    b, t, size = shape
    qkv, dout = normal(b, t, 3 * n_head * size), normal(b, t, n_head * size)
    got = by(cuda, qkv, dout, n_head, **constants)
    qkv, dout = qkv.astype(np.float64), dout.astype(np.float64)
    with ops.using("reference"):
        exact = by(ops, qkv, dout, n_head, **constants)
    cut = by_hand(qkv, dout, n_head, rounded, **constants)
    for i, (found, of_rounding, right) in enumerate(zip(got, cut, exact, strict=True)):
        assert found.dtype == np.float32
        limit = 2 * error(of_rounding, right) + 1e-6
        assert error(found, right) <= limit, f"number {i}: {error(found, right):.1e}, and not {limit:.1e}"


def test_what_rounding_does_is_computed_rightly():
    qkv, dout = normal(2, 9, 3 * 32, dtype=np.float64), normal(2, 9, 32, dtype=np.float64)
    constants = {"scale": 0.3, "rate": 0.2, "key": KEY}
    with ops.using("reference"):
        exact = by(ops, qkv, dout, 2, **constants)
    for a, b, c in zip(by_hand(qkv, dout, 2, np.asarray, **constants), exact,
                       by_hand(qkv, dout, 2, rounded, **constants), strict=True):  # fmt: skip
        assert error(a, b) < 1e-12 and 1e-5 < error(c, b) < 2e-3


EDGES = 1, 17, 33, *(pytest.param(t, marks=pytest.mark.slow) for t in (15, 16, 31, 32, 63, 64, 65, 129))


@pytest.mark.parametrize("size", [16, 64, 128, *(pytest.param(n, marks=pytest.mark.slow) for n in (32, 48, 80, 96))])
@pytest.mark.parametrize("t", EDGES)
def test_errs_no_more_than_rounding_does(t, size, in_tf32):
    """Sequences that end inside a tile, at its end, and behind it."""
    assert attention.plan(size, FLOAT32, tf32=True)[0] == "attention_mma"
    assert_as_good_as_rounding((1, t, size), 1, **({"rate": 0.1, "key": KEY} if t % 2 else {}))


@pytest.mark.parametrize(("b", "n_head", "constants"), [
    (2, 3, {}), (3, 2, {"rate": 0.5, "key": Key(5, 2**31 + 3)}), (1, 2, {"scale": 0.05}),
])  # fmt: skip
def test_many_heads(b, n_head, constants, in_tf32):
    assert_as_good_as_rounding((b, 70, 16), n_head, **constants)


@pytest.mark.parametrize(("n_kv_head", "t"), [(2, 33), (1, 140)])
def test_heads_that_share_keys(n_kv_head, t, in_tf32):
    """As four heads of which each has its own copy of the keys and values: the same out, and the sums of dk and dv."""
    group = 4 // n_kv_head
    few, dout = normal(2, t, 4 + 2 * n_kv_head, 16), normal(2, t, 4 * 16)
    q, k, v = np.split(few, [4, 4 + n_kv_head], axis=2)
    many = np.concatenate([q, k.repeat(group, axis=2), v.repeat(group, axis=2)], axis=2)
    expected, *of_each = by(cuda, many.reshape(2, t, -1), dout, 4, rate=0.1, key=KEY)
    out, cache = cuda.self_attention_forward(few.reshape(2, t, -1), 4, n_kv_head=n_kv_head, rate=0.1, key=KEY)
    dqkv, _ = cuda.self_attention_backward(dout, cache)
    dq, dk, dv = np.split(dqkv.reshape(few.shape), [4, 4 + n_kv_head], axis=2)
    assert cache.rules.tf32 and same([out, dq], [expected, of_each[0].reshape(dq.shape)])
    for found, each in zip((dk, dv), of_each[1:], strict=True):
        assert error(found, each.reshape(2, t, n_kv_head, group, 16).sum(axis=3)) < 1e-5


def test_nothing_else_is_touched_and_two_runs_have_the_same_bits(in_tf32):
    args, constants = [normal(1, 70, 3 * 32), 1], {"rate": 0.2, "key": KEY}
    assert same(*(both_ways(cuda, "self_attention", args, constants) for _ in range(2)))


@pytest.mark.parametrize("scale", [8, 256])
def test_large_scores(scale, in_tf32):
    """exp of the scores themselves would overflow. Numbers that tf32 has, so that only p and ds are rounded."""
    qkv, dout = whole(1, 70, 3 * 32) / 8, whole(1, 70, 32)
    qkv[0, 30:50, :64] *= scale
    got = by(cuda, qkv, dout, 1)
    with ops.using("reference"):
        exact = by(ops, qkv.astype(np.float64), dout.astype(np.float64), 1)
    for found, right in zip(got, exact, strict=True):
        assert error(found, right) < 2e-3


# --- which kernels run ------------------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch):
    """The files whose kernels are launched."""
    files, launch = [], attention.launch

    def noted(file, *args, **constants):
        files.append(file)
        launch(file, *args, **constants)

    monkeypatch.setattr(attention, "launch", noted)
    return files


def test_exact_products_never_run_on_tensor_cores(launched):
    qkv, dout = normal(1, 5, 3 * 16), normal(1, 5, 16)
    by(cuda, qkv, dout, 1)
    assert launched == ["attention"] * 3
    for size in range(16, attention.LARGEST + 1, 16):
        assert attention.plan(size, FLOAT32)[0] == "attention"
        assert attention.plan(size, np.dtype(np.float64), tf32=True)[0] == "attention"


@pytest.mark.parametrize(("forward", "backward", "file"), [
    ("tf32", "float32", "attention_mma"), ("float32", "tf32", "attention"),
])  # fmt: skip
def test_a_backward_runs_where_its_forward_has_run(forward, backward, file, launched):
    """Their lse are logarithms to different bases."""
    qkv, dout = normal(1, 5, 3 * 16), normal(1, 5, 16)
    with gpu.products_in(forward):
        out, cache = cuda.self_attention_forward(qkv, 1)
        expected = cuda.self_attention_backward(dout, cache)[0]
    with gpu.products_in(backward):
        got = cuda.self_attention_backward(dout, cache)[0]
    assert launched == [file] * 5 and same([got], [expected])


def test_everything_else_runs_on_ordinary_cores(launched, in_tf32, monkeypatch):
    qkv, bias = normal(2, 5, 3 * 32), normal(1, 2, 5, 5)
    cuda.self_attention_forward(qkv, 2, mask=np.ones((5, 5), bool))
    cuda.self_attention_forward(qkv, 2, bias)
    cuda.cross_attention_forward(normal(2, 5, 32), normal(2, 7, 64), 2)
    cuda.self_attention_forward(normal(1, 5, 3 * 24), 1)
    monkeypatch.setattr(gpu, "tensor_cores", lambda: False)
    cuda.self_attention_forward(qkv, 2)
    assert launched == ["attention"] * 5


# --- what a GPU's compiler says ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "drops"), [(64, False), *((size, True) for size in range(16, attention.LARGEST + 1, 16))]
)
def test_nvcc_finds_room(size, drops, tmp_path):
    """For every size of a head: in shared memory, and, for GPT-2's heads, in registers.

    With dropout, which needs more, and once without.
    """
    constants = attention.constants_on_tensor_cores(size, "float32", drops)
    for architecture in ARCHITECTURES:
        bytes_of = spilled(kernels.source("attention_mma", "float32", **constants), tmp_path, architecture)
        assert len(bytes_of) == 3 and (size != 64 or max(bytes_of) == 0), bytes_of
