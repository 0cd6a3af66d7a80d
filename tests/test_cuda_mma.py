"""Attention on tensor cores, on a processor: what one product is, what the tools of mma.cuh do, and the kernels.

The layouts stand here once more, as NVIDIA's manual draws them, and not as mma.cuh or cuda_on_cpu.h compute them.
"""

import functools

import fragments_on_cpu
import numpy as np
import pytest
from fragments_on_cpu import fragments, there_and_back, whole
from helpers import KEY, error, same
from nvcc import spilled
from test_cuda import assert_as_good_as_rounding, both_ways, in_bfloat16, normal

from minigpt import ops
from minigpt.device import gpu
from minigpt.device.arrays import named_dtype
from minigpt.ops import cuda
from minigpt.ops.cuda import attention, kernels
from minigpt.ops.random_keys import Key

pytestmark = pytest.mark.usefixtures("kernels_on_cpu", "bfloat16")
run = functools.partial(fragments_on_cpu.run, "bfloat16")
SIZES = 16, 64, 80, 128  # of a head
LONGER = 15, 16, 33, 63, 64, 129, 140


@pytest.fixture
def bfloat16():
    pytest.importorskip("ml_dtypes")
    return named_dtype("bfloat16")


# --- one product, and what brings numbers to it -----------------------------------------------------------------------

# Which element the i-th number of a lane is: (row, column), in the order of a0 to a7, b0 to b3, c0 to c3.
A = [[(g + 8 * low, 2 * t + right + one) for right in (0, 8) for low in (0, 1) for one in (0, 1)]
     for g in range(8) for t in range(4)]  # fmt: skip
B = [[(2 * t + below + one, g) for below in (0, 8) for one in (0, 1)] for g in range(8) for t in range(4)]
C = [[(g + 8 * low, 2 * t + one) for low in (0, 1) for one in (0, 1)] for g in range(8) for t in range(4)]


def test_the_layouts_hold_every_element_once():
    for layout, shape in ((A, (16, 16)), (B, (16, 8)), (C, (16, 8))):
        assert sorted(place for lane in layout for place in lane) == sorted(np.ndindex(shape))


def test_mma_is_a_matrix_product(bfloat16):
    a, b, c = whole(16, 16), whole(16, 8), normal(16, 8)
    got = run(
        """mma_m16n8k16(c + 4 * threadIdx.x, (const unsigned*)(a + 8 * threadIdx.x),
                        (const unsigned*)(b + 4 * threadIdx.x));""",
        fragments(c, C), fragments(a, A).astype(bfloat16), fragments(b, B).astype(bfloat16),
        declared="wide* c, const real* a, const real* b",
    )  # fmt: skip
    assert error(got, fragments(a.astype(np.float64) @ b + c, C)) < 1e-6


@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_hands_out_four_matrices(transposed, bfloat16):
    matrices = np.arange(4 * 8 * 8).reshape(4, 8, 8)
    got = run(
        f"""__shared__ __align__(16) real m[32][8];
            for (int j = 0; j < 8; j++) m[threadIdx.x][j] = a[threadIdx.x * 8 + j];
            __syncwarp();
            ldmatrix_x4{"_trans" * transposed}((unsigned*)out + 4 * threadIdx.x, m[threadIdx.x]);""",
        np.zeros((32, 8), bfloat16), matrices.astype(bfloat16), np.zeros(1, bfloat16),
    )  # fmt: skip
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        m = matrices.swapaxes(1, 2) if transposed else matrices
        assert (got[lane].reshape(4, 2) == m[:, row, column : column + 2]).all()


@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.parametrize(
    ("there", "wanted"), [*((n, 32) for n in (0, 1, 8, 9, 17)), *((32, n) for n in (0, 1, 8, 9, 16, 25))]
)
def test_matrices_go_through_fragments(there, wanted, tiles, bfloat16):
    """out = (a b^T) b, rounded between and at the end. Of a only some rows are there, of out only some are wanted."""
    rows = 16 * tiles
    there, wanted = min(there, rows), min(wanted, rows)
    a, b = whole(rows, 48, dtype=bfloat16), whole(32, 48, dtype=bfloat16)
    a[there:] = np.nan
    out = there_and_back("bfloat16", a, b, there, wanted)
    a[there:] = 0
    a, b = a.astype(np.float32), b.astype(np.float32)
    expected = 2 * (a @ b.T).astype(bfloat16).astype(np.float32) @ b
    assert error(out[:wanted], expected[:wanted]) < 2**-8 and (out[wanted:] == 7).all()


def test_rows_are_summed_over_four_neighbours():
    x = whole(32)
    got = run("x[threadIdx.x] = row_sum(x[threadIdx.x]);", x.copy(), declared="wide* x")
    assert (got == x.reshape(8, 4).sum(axis=1).repeat(4)).all()
    got = run("x[threadIdx.x] = row_max(x[threadIdx.x]);", x.copy(), declared="wide* x")
    assert (got == x.reshape(8, 4).max(axis=1).repeat(4)).all()


# --- the harness: what would go wrong on a GPU goes wrong here --------------------------------------------------------

TAKE = "__shared__ __align__(16) real s[64]; int me = threadIdx.x;"
MULTIPLY = "FragmentC c = {}; FragmentA x = {};"
WRONG = {
    "a copy that no thread waits for": (TAKE + "if (me < 8) cp_async_16(s + 8 * me, a + 8 * me, 1);"
                                        "__syncthreads(); out[me] = s[me];", "a race"),
    "a copy that others did not wait for": (TAKE + "if (me < 8) cp_async_16(s + 8 * me, a + 8 * me, 1);"
                                            "cp_async_wait_all(); out[me] = s[63 - me];", "a race"),
    "a copy of 16 bytes to half of them": (TAKE + "cp_async_16(s + 4 + 8 * (me % 7), a + 8 * (me % 7), 1);",
                                           "multiple"),
    "a copy of 16 bytes from half of them": (TAKE + "cp_async_16(s + 8 * (me % 7), a + 4 + 8 * (me % 7), 1);",
                                             "multiple"),
    "a copy to somewhere else": (TAKE + "cp_async_16(out + 8 * (me % 8), a + 8 * (me % 8), 1);", "not in shared"),
    "a matrix from somewhere else": ("unsigned word[4]; ldmatrix_x4(word, a);", "not in shared"),
    "a row that begins between": (TAKE + "unsigned word[4]; ldmatrix_x4(word, s + me);", "multiple"),
    "half a warp": (MULTIPLY + "if (threadIdx.x < 16) mma_m16n8k16(c.x, x.word, x.word);", "for ever"),
    "a block that is less than a warp": (MULTIPLY + "mma_m16n8k16(c.x, x.word, x.word);", "for ever"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_the_harness_sees(name, bfloat16):
    body, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        threads = 16 if "less" in name else 64
        run(body, np.zeros(64, bfloat16), whole(64, dtype=bfloat16), np.zeros(1, bfloat16), threads=threads)


def test_the_harness_keeps_where_an_array_begins(bfloat16):
    a = np.zeros(65, bfloat16)[1:]
    with pytest.raises(AssertionError, match="multiple"):
        run(TAKE + "cp_async_16(s, a, 1);", np.zeros(64, bfloat16), a, np.zeros(1, bfloat16))


def test_a_copy_that_is_waited_for_arrives(bfloat16):
    a = whole(64, dtype=bfloat16)
    body = TAKE + "if (me < 8) cp_async_16(s + 8 * me, a + 8 * me, me < 5); cp_async_wait_all(); __syncthreads();"
    got = run(body + "out[me] = s[me];", np.ones(64, bfloat16), a, np.zeros(1, bfloat16), threads=64)
    assert (got == np.where(np.arange(64) < 40, a, 0)).all()


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("t", [1, 17, 65, *(pytest.param(t, marks=pytest.mark.slow) for t in LONGER)])
def test_errs_no_more_than_rounding_does(t, size):
    constants = {"rate": 0.1, "key": KEY} if t % 2 else {}
    assert_as_good_as_rounding("self_attention", [normal(1, t, 3 * size, dtype=np.float64), 1], constants)


@pytest.mark.parametrize(("b", "n_head", "rate"), [(2, 3, 0.0), (3, 2, 0.5)])
def test_many_heads(b, n_head, rate):
    qkv = normal(b, 70, 3 * 16 * n_head, dtype=np.float64)
    assert_as_good_as_rounding("self_attention", [qkv, n_head], {"rate": rate, "key": Key(5, 2**31 + 3)})


@pytest.mark.parametrize(("n_head", "n_kv_head", "t", "rate"), [(4, 2, 33, 0.0), (3, 1, 140, 0.1)])
def test_heads_that_share_keys(n_head, n_kv_head, t, rate, bfloat16):
    """A block of keys meets the queries of several heads, one head after the other."""
    qkv = normal(2, t, (n_head + 2 * n_kv_head) * 16, dtype=np.float64)
    constants = {"n_kv_head": n_kv_head, "rate": rate, "key": KEY}
    assert attention.plan(16, bfloat16, group=n_head // n_kv_head)[0] == "attention_mma"
    assert_as_good_as_rounding("self_attention", [qkv, n_head], constants)


def test_a_scale_of_its_own(bfloat16):
    qkv = normal(1, 33, 3 * 32, dtype=np.float64)
    assert attention.plan(32, bfloat16)[0] == "attention_mma"
    assert_as_good_as_rounding("self_attention", [qkv, 1], {"scale": 0.05})


def test_masks_and_biases_run_on_ordinary_cores(bfloat16):
    assert attention.plan(32, bfloat16, plain=False)[0] == "attention"
    qkv, bias = normal(2, 20, 3 * 32, dtype=np.float64), normal(1, 2, 20, 20, dtype=np.float64)
    padding = np.arange(20) < np.array([20, 7])[:, None, None, None]
    assert_as_good_as_rounding("self_attention", [qkv, 2], {"mask": padding})
    assert_as_good_as_rounding("self_attention", [qkv, 2, bias], {})


@pytest.mark.parametrize("scale", [8, 256])
def test_large_scores(scale, bfloat16):
    """exp of the scores themselves would overflow. Numbers that bfloat16 has, so that only the kernels round."""
    qkv = normal(1, 70, 3 * 32).astype(bfloat16).astype(np.float64)
    qkv[0, 30:50, :64] *= scale
    assert_as_good_as_rounding("self_attention", [qkv, 1], {})


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_kernels_that_are_easier_to_read(size, monkeypatch):
    args, constants = in_bfloat16("", [normal(1, 70, 3 * size), 1]), {"rate": 0.2, "key": KEY}
    got = both_ways(cuda, "self_attention", args, constants), cuda.self_attention_forward(*args, **constants)[1].lse
    again = both_ways(cuda, "self_attention", args, constants)
    assert same(got[0], again)  # the same bits on every run
    monkeypatch.setattr(gpu, "tensor_cores", lambda: False)
    plain = both_ways(cuda, "self_attention", args, constants), cuda.self_attention_forward(*args, **constants)[1].lse
    for a, b in zip(got[0], plain[0], strict=True):
        assert a.dtype == b.dtype and error(a, b) < 1e-2
    assert error(got[1] * np.log(2), plain[1].sum(axis=-1)) < 1e-6  # to base 2; there in two parts


def test_dropout_has_the_same_bits():
    """Values that are rows of the identity show the probabilities, and with scores of 0 only dropout makes zeros."""
    b, n_head, t, size = 2, 2, 64, 64
    qkv = np.zeros((b, t, 3, n_head, size))
    qkv[:, :, 2] = np.eye(t)[:, None]
    args, constants = [qkv.reshape(b, t, -1), n_head], {"rate": 0.4, "key": KEY}
    with ops.using("reference"):
        expected, cache = ops.self_attention_forward(*args, **constants)
        expected_d, _ = ops.self_attention_backward(qkv[:, :, 2].reshape(expected.shape), cache)
    out, cache = cuda.self_attention_forward(*in_bfloat16("", args), **constants)
    dqkv, _ = cuda.self_attention_backward(qkv[:, :, 2].reshape(out.shape).astype(out.dtype), cache)
    third = -n_head * size
    assert ((out == 0) == (expected == 0)).all() and 0.4 < (out == 0).mean() < 0.9
    assert ((dqkv == 0) == (expected_d == 0))[..., third:].all() and 0.4 < (dqkv[..., third:] == 0).mean() < 0.9


def test_arrays_that_begin_anywhere(bfloat16):
    """Kernels that read 16 bytes at once cannot begin between; a copy can."""
    qkv, dout = normal(1, 5, 3 * 16).astype(bfloat16), normal(1, 5, 16).astype(bfloat16)

    def moved(a):
        return np.concatenate([np.zeros(1, bfloat16), a.ravel()])[1:].reshape(a.shape)

    results = []
    for q, d in ((qkv, dout), (moved(qkv), moved(dout))):
        out, cache = cuda.self_attention_forward(q, 1)
        results.append([out, cuda.self_attention_backward(d, cache)[0]])
    assert moved(qkv).ctypes.data % 16 and same(*results)


def test_which_kernels_take_which_heads(bfloat16, monkeypatch):
    float32 = np.dtype(np.float32)
    files = {size: attention.plan(size, bfloat16)[0] for size in (8, 16, 24, 64, 100, 128)}
    assert [size for size, file in files.items() if file == "attention_mma"] == [16, 64, 128]
    assert attention.plan(64, float32)[0] == "attention"
    monkeypatch.setattr(gpu, "tensor_cores", lambda: False)
    constants = {"HEAD": 64, "KV_GROUP": 1, "SIDE": 8, "EACH": 4, "PLAIN": 1}
    assert attention.plan(64, bfloat16) == ("attention", 32, 64, constants)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "drops"), [(64, False), *((size, True) for size in range(16, attention.LARGEST + 1, 16))]
)
def test_nvcc_finds_room(size, drops, tmp_path, bfloat16):
    """In shared memory for every size of a head, and in registers, but for some bytes of a few of them.

    With dropout, which needs more, and once without.
    """
    constants = attention.constants_on_tensor_cores(size, "bfloat16", drops)
    for architecture in ("sm_90", "sm_100"):
        bytes_of = spilled(kernels.source("attention_mma", "bfloat16", **constants), tmp_path, architecture)
        none = size in (80, 96, 112) or (size < 128 and architecture != "sm_100")
        *others, of_keys = bytes_of  # the last one also counts the heads that share its keys
        assert len(others) == 2 and max(others) <= (0 if none else 64) and of_keys <= (32 if none else 64), bytes_of


def test_how_many_rows_a_warp_has(bfloat16):
    """32 where its registers hold them: most in the forward pass, fewest where dk and dv are summed."""
    rows = {size: [attention.plan(size, bfloat16, kernel=kernel)[1] // attention.WARPS for kernel in attention.ROWS_OF]
            for size in (16, 48, 64, 80, 96, 112)}  # fmt: skip
    assert rows == {16: [32] * 3, 48: [32] * 3, 64: [32, 32, 16], 80: [32, 32, 16], 96: [32, 16, 16], 112: [16] * 3}
