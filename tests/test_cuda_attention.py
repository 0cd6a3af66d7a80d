"""Attention on ordinary cores: what nvcc makes of attention.cu, and its real tiles on a processor."""

import numpy as np
import pytest
from constants import value
from helpers import KEY
from nvcc import used
from test_cuda import AGREEMENT, assert_agree, normal

from minigpt.device.arrays import named_dtype
from minigpt.ops.cuda import attention, kernels

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")  # a T4, an A100, an H100, a B200
ROWS = value("cuda_side") * value("cuda_each")  # of a block, and of a tile
SIZES = (1, 6, 7, 32, 36, 63, 68, 84, 87, 88, 100, 127, 128)  # in pieces of 1, 2 and 4; squares of 4, 2 and 1


@pytest.fixture(autouse=True)
def on_a_processor(request):
    """Where a test runs kernels, g++ stands for the GPU."""
    if "nvcc" not in request.node.name:
        request.getfixturevalue("kernels_on_cpu")


def source(size, dtype, plain=True):
    _, _, _, constants = attention.plan(size, named_dtype(dtype), plain=plain)
    assert "EACH" in constants, "it is meant for ordinary cores"
    return kernels.source("attention", dtype, **constants)


# --- what nvcc says ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("plain", [True, False])
def test_nvcc_keeps_heads_of_64_in_128_registers(plain, architecture, tmp_path):
    """So eight blocks of 64 threads have room in the 65,536 registers of a multiprocessor, and nothing is in memory."""
    found = used(source(64, "float32", plain), tmp_path, architecture)
    assert len(found) == 3
    for kernel, (registers, *in_memory, _) in found.items():
        assert registers <= 128 and in_memory == [0, 0, 0], f"{kernel}: {registers}, {in_memory}"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_nvcc_keeps_heads_of_every_size_in_registers(size, dtype, tmp_path):
    """And needs as much shared memory as `square` has counted."""
    found = used(source(size, dtype, plain=False), tmp_path, "sm_90")
    assert len(found) == 3
    for kernel, (registers, *in_memory, _) in found.items():
        assert in_memory == [0, 0, 0], f"{kernel}: {registers}, {in_memory}"
    itemsize = named_dtype(dtype).itemsize
    each = attention.square(size, itemsize)
    needed = attention.shared_bytes(size, itemsize, each)
    assert max(shared for *_, shared in found.values()) == needed <= attention.SHARED


# --- the real tiles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dtype"), [(3, np.float32), (64, np.float64), (92, np.float64), (90, np.float32)])
def test_real_tiles_of_heads_of_many_sizes(size, dtype):
    """Squares of 4, 2, 1 and 2; 90 numbers in pieces of 2 are 45 pieces for 8 threads."""
    qkv = normal(1, ROWS + 3, 3 * size, dtype=dtype)
    assert_agree("self_attention", [qkv, 1], {"rate": 0.2, "key": KEY}, AGREEMENT[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_heads_that_share_keys_in_real_tiles(dtype):
    """A mask and a bias of each head of queries, also of those that share their keys."""
    t = ROWS + 3
    mask = np.random.default_rng(0).random((2, 6, t, t)) < 0.6
    bias = normal(1, 6, t, t, dtype=dtype)
    qkv = normal(2, t, 10 * 4, dtype=dtype)
    assert_agree("self_attention", [qkv, 6], {"n_kv_head": 2}, AGREEMENT[dtype])
    constants = {"n_kv_head": 2, "mask": mask, "rate": 0.2, "key": KEY}
    assert_agree("self_attention", [qkv, 6, bias], constants, AGREEMENT[dtype])


def test_a_bias_over_several_real_tiles():
    """Its gradient is 0 in the tiles that are not visited."""
    t = 2 * ROWS + 1
    qkv, bias = normal(2, t, 3 * 8), normal(1, 2, t, t)
    assert_agree("self_attention", [qkv, 2, bias])


@pytest.mark.parametrize("keys", [2, ROWS, ROWS + 1])
def test_queries_that_see_nothing_in_a_tile_or_at_all(keys):
    """A row that may see nothing gives 0 and has gradient 0; in the last tile one query sees nothing any more."""
    t = ROWS + 2
    mask = np.random.default_rng(keys).random((2, 1, t, keys)) < 0.5
    mask[0, 0, 3] = False
    mask[1, 0, ROWS, : ROWS // 2] = False
    mask[:, :, 5, ROWS:] = False
    q, kv = normal(2, t, 16), normal(2, keys, 32)
    assert_agree("cross_attention", [q, kv, 2], {"mask": mask, "rate": 0.3, "key": KEY})


@pytest.mark.parametrize(
    ("dtype", "hidden"),
    [(np.float32, -1e9), (np.float32, np.finfo(np.float32).min), (np.float64, np.finfo(np.float64).min)],
)
def test_a_row_whose_every_key_has_a_bias_that_hides(dtype, hidden):
    """Its scores are all about the same: so it sees all its keys, with equal shares. Beside it are other rows."""
    t = ROWS + 2
    bias = normal(1, 1, t, t, dtype=dtype)
    bias[..., 2:] = hidden  # all rows see two keys
    bias[0, 0, [3, ROWS]] = hidden  # but these
    qkv = normal(1, t, 3 * 8, dtype=dtype)
    assert_agree("self_attention", [qkv, 1, bias], {"mask": np.ones((t, t), bool)}, AGREEMENT[dtype])
