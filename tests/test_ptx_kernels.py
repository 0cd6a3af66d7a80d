"""Every kernel as NVRTC compiles it, forward and backward, at the edges of its tiles, judged by the reference.

Two players stand for a GPU, and each sees what the other does not:

- cuda_on_cpu.py compiles the sources as C++. It needs g++ alone and is quick, so whole models train on it. But it never
  sees the lines for a GPU (`#ifdef __CUDA_ARCH__`), nor what NVIDIA's compiler makes of the others, and it finds an
  access out of bounds, or a race, only where the numbers show it.
- ptx/ plays what will run. It judges every access: in which array, at a multiple of its size, apart from others by
  which barrier, written by whom, brought by a copy that has arrived. It needs NVRTC, and takes many times as long.

What neither shows: speed, conflicts of banks, the sequence in which a GPU adds inside one product, and the last bits of
its exponential.
"""

import itertools

import numpy as np
import ptx
import pytest
from constants import value
from helpers import KEY, as_tuple, error
from test_cuda import (
    AGREEMENT,
    KERNEL_CASES,
    LOSSES,
    NORMS,
    assert_as_good_as_rounding,
    norm_args,
    normal,
)
from test_cuda_decoding import a_past, part_of
from test_cuda_ladder import ATTENTIONS, PRODUCTS, SMALL, SMALL_HEAD, WRONG, around, assert_attention, assert_product
from test_cuda_ladder import tiles as tiles_of
from test_cuda_packs import OFFSETS, updated
from test_cuda_tf32 import assert_as_good_as_rounding as assert_as_good_as_rounding_to_tf32

from minigpt import ops
from minigpt.device import gpu
from minigpt.device.arrays import named_dtype
from minigpt.ops import cuda
from minigpt.ops.cases import case
from minigpt.ops.cuda import attention, kernels
from minigpt.ops.cuda.ladder import rungs

pytestmark = pytest.mark.parametrize("kernels_on_cpu", ["PTX"], indirect=True)
DTYPES = ["float32", "float64", "bfloat16"]
EACH_NUMBER = ["gelu", "gelu_exact", "relu", "silu", "dropout"]
WARPS = value("cuda_warps")
SEGMENT, TILE = value("cuda_segment"), value("cuda_tile")


@pytest.fixture(autouse=True)
def what_is_needed(kernels_on_cpu):
    """Everything here runs on the player of PTX, and compares with bfloat16."""
    pytest.importorskip("ml_dtypes")
    rungs._compiled.cache_clear()
    yield
    rungs._compiled.cache_clear()


def edges(tile: int, step: int = 1) -> list[int]:
    """Sizes that end inside a tile, at its end, and behind it, as multiples of a step."""
    return sorted({step, tile - step, tile, tile + step, 2 * tile + 3 * step} - {0})


def pack_of(dtype: str) -> int:
    """How many numbers 16 bytes hold."""
    return 16 // named_dtype(dtype).itemsize


def once(op, args, constants):
    """Result and gradients by the kernels; every launch in it is played in two orders of the threads anyway."""
    out, cache = getattr(cuda, f"{op}_forward")(*args, **constants)
    dout = np.random.default_rng(1).standard_normal(np.shape(out)).astype(out.dtype)
    return [out, *(g for g in as_tuple(getattr(cuda, f"{op}_backward")(dout, cache)) if g is not None)]


def by_reference(op, args, constants):
    """The same by the reference."""
    with ops.using("reference"):
        out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
        dout = np.random.default_rng(1).standard_normal(np.shape(out)).astype(out.dtype)
        return [out, *(g for g in as_tuple(getattr(ops, f"{op}_backward")(dout, cache)) if g is not None)]


def judge(op, args, constants, dtype):
    """args: in float64. In bfloat16 a kernel may err twice as much as rounding does."""
    if dtype == "bfloat16":
        assert_as_good_as_rounding(op, args, constants, run=low_once, first=int(op in LOSSES))
        return
    args = [a.astype(dtype) if getattr(a, "dtype", np.dtype(int)).kind == "f" else a for a in args]
    with ops.using("cuda"):
        assert ops.explain(op, *args, **constants).implementation == "cuda", "it was left to the reference"
    for a, b in zip(once(op, args, constants), by_reference(op, args, constants), strict=True):
        assert np.shape(a) == np.shape(b) and a.dtype == b.dtype
        assert error(a, b) < AGREEMENT[np.dtype(dtype).type], f"{op}: {error(a, b):.1e}"


def low_once(op, args, constants):
    with ops.using("cuda"):
        assert ops.explain(op, *args, **constants).implementation == "cuda", "it was left to the reference"
    return once(op, args, constants)


@pytest.mark.cupy
def test_a_kernel_goes_the_whole_way():
    """The quick one: compiled, read, played."""
    x, y = normal(3, 70), normal(3, 70, 1)[..., 0]
    with ops.using("cuda"):
        assert (ops.add(x, y) == x + y).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_every_case(name, dtype, small_tiles):
    """Masks, biases, groups of heads, weights: each variant of an operation, in tiles of a few numbers."""
    made = case(name, dtype=np.float64)
    judge(*made.call, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [*EACH_NUMBER, "add"])
def test_what_is_computed_number_by_number(op, dtype):
    """Blocks of packs, and of single numbers where the size allows no packs."""
    pack = pack_of(dtype)
    for n in sorted({*edges(kernels.THREADS), *edges(kernels.THREADS * pack, pack)}):
        x = normal(n, dtype=np.float64)
        if op == "add":
            x = x.astype(named_dtype(dtype))
            with ops.using("cuda"):
                assert (ops.add(x, x[::-1]) == x + x[::-1]).all()
        else:
            judge(op, [x], {"rate": 0.3, "key": KEY} if op == "dropout" else {}, dtype)


def rows_and_columns(dtype):
    """Rows around the warps of a block, columns around what a warp reads at once, in single numbers and in packs."""
    pack = pack_of(dtype)
    columns = [31, 33, 67, 32 * pack, 31 * pack, 33 * pack]
    return zip(itertools.cycle(edges(WARPS)), columns, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [*NORMS, "cosine_loss", "soft_cross_entropy"])
def test_what_is_computed_row_by_row(op, dtype):
    for rows, columns in rows_and_columns(dtype):
        x, y = normal(rows, columns, dtype=np.float64), normal(rows, columns, 1, dtype=np.float64)[..., 0]
        judge(op, norm_args(op, x) if op in NORMS else [x, y], {}, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_loss_of_a_vocabulary(dtype):
    """Rows that a part of a warp reads, one warp, and several."""
    for words in (1, 31, 256, 257, 1031):
        h, w = normal(3, 8, dtype=np.float64), normal(words, 8, dtype=np.float64)
        judge("linear_cross_entropy", [h, w, np.array([0, words - 1, words // 2])], {}, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_a_table(dtype):
    """Runs of equal ids that end at a segment's end, and places that are sorted in one tile and in several."""
    for n, columns in zip([*edges(SEGMENT), *edges(TILE)[1:]], itertools.cycle([5, 8]), strict=False):
        ids = np.random.default_rng(n).integers(7, size=n)
        judge("embedding", [normal(7, columns, dtype=np.float64), ids], {}, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_columns(dtype):
    wide = kernels.wide(named_dtype(dtype))
    for rows, columns in zip(edges(value("cuda_stripes")), itertools.cycle([33, 40]), strict=False):
        x = normal(2, rows, columns).astype(named_dtype(dtype))
        assert error(kernels.column_sums(x), x.astype(np.float64).sum(axis=1)) < AGREEMENT[wide.type]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [7, 64])  # of 7, one block after the other begins inside a pack
@pytest.mark.parametrize("dtype", list(AGREEMENT))
def test_adam(dtype, chunk, constants):
    constants.set(cuda_adam_chunk=chunk)
    with ops.using("reference"):
        expected = updated(ops, dtype, OFFSETS[0])
    for offsets in OFFSETS[:3]:
        for a, b in zip(updated(cuda, dtype, offsets), expected, strict=True):
            limit = 2**-8 if a.dtype.itemsize == 2 else AGREEMENT[dtype]
            assert a.dtype == b.dtype and error(a.astype(float), b.astype(float)) <= limit


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_on_ordinary_cores(dtype, monkeypatch):
    """In the tiles that it really has. In bfloat16 where there are no tensor cores."""
    monkeypatch.setattr(gpu, "tensor_cores", lambda: False)
    rows = attention.SIDE * attention.EACH
    for t in edges(rows):
        constants = {"rate": 0.1, "key": KEY} if t % 2 else {}
        judge("self_attention", [normal(1, t, 3 * 8, dtype=np.float64), 1], constants, dtype)
    if dtype == "float32":  # a head of GPT-2, which takes long
        judge("self_attention", [normal(1, rows + 1, 3 * 64, dtype=np.float64), 1], {}, dtype)


# Of a head, and sequences around the rows of a warp and of a block, and around the keys of a tile.
LENGTHS = [(16, t) for t in (1, 15, 17, 33, 63, 64, 65, 131)] + [(64, 1), (64, 65), (80, 33), (128, 17)]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "t"), LENGTHS)
def test_attention_on_tensor_cores(size, t):
    assert attention.plan(size, named_dtype("bfloat16"))[0] == "attention_mma"
    constants = {"rate": 0.1, "key": KEY} if t % 2 else {}
    judge("self_attention", [normal(1, t, 3 * size, dtype=np.float64), 1], constants, "bfloat16")


@pytest.mark.slow
def test_heads_that_share_keys_on_tensor_cores():
    judge("self_attention", [normal(2, 33, (4 + 2 * 2) * 16, dtype=np.float64), 4], {"n_kv_head": 2}, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "t"), LENGTHS)
def test_attention_in_tf32(size, t):
    with gpu.products_in("tf32"):
        assert attention.plan(size, np.dtype(np.float32), tf32=True)[0] == "attention_mma"
        constants = {"rate": 0.1, "key": KEY} if t % 2 else {}
        assert_as_good_as_rounding_to_tf32((1, t, size), 1, **constants)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blocks", ["small", "real"])
def test_attention_to_a_past(blocks, dtype, constants):
    if blocks == "small":
        constants.set(cuda_past_threads=8, cuda_past_keys=2)
    size, n_head, low = (8, 2, named_dtype(dtype)) if blocks == "small" else (64, 1, named_dtype(dtype))
    part = part_of(size, low)
    for p in (0, 1, part - 1, part, part + 1, 2 * part + 3) if blocks == "small" else (part - 1, part + 1):
        qkv, past = normal(2, 3, 3 * n_head * size).astype(low), a_past(2, n_head, p, size, low, room=p % 3)
        with ops.using("cuda"):
            assert ops.explain("self_attention", qkv, n_head, past=past, grad=False).implementation == "cuda"
            got, _ = ops.self_attention_forward(qkv, n_head, past=past, grad=False)
        exact, exact_past = qkv.astype(np.float64), tuple(a.astype(np.float64) for a in past)
        with ops.using("reference"):
            expected, _ = ops.self_attention_forward(exact, n_head, past=exact_past, grad=False)
        assert error(got, expected) < {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2**-8}[dtype]


# --- the ladder -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_the_ladder(name):
    for axis in range(3):
        for size in around(tiles_of(name)[axis]):
            sizes = [7, 9, 5]
            sizes[axis] = size
            assert_product(name, "cpu", *sizes, SMALL[name])
    assert_product(name, "cpu", 40, 48, 32, SMALL[name])  # rows of whole packs


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_of_the_ladder(name):
    keys = SMALL[name].get("KEYS", SMALL[name].get("TILE", 1))
    rung = rungs.RUNGS[name]
    for length in sorted({*around(rung.plan(SMALL[name]).rows), *around(keys)}):
        assert_attention(name, "cpu", 2, length, SMALL_HEAD[rung.dtype], SMALL[name])


# --- mistakes ---------------------------------------------------------------------------------------------------------

RACE = "a race|no thread has written|before a copy has arrived"  # whichever comes first in an order that is drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [one for one in WRONG if "other numbers" not in WRONG[one]],
    ids=lambda one: f"{one[0]}: {one[1].strip()[:30]}",
)
def test_a_mistake_in_a_rung_is_seen(wrong, monkeypatch):
    """Those of the ladder's own tests that a player must see; the others give other numbers."""
    name, right, instead = wrong
    read = rungs._read
    assert right in read(f"{name}.cu")
    monkeypatch.setattr(rungs, "_read", lambda file: read(file).replace(right, instead))
    with pytest.raises(ptx.Fault, match=WRONG[wrong].replace("a race", RACE)):
        if name in PRODUCTS:
            for sizes in ((37, 37, 37), (48, 64, 64), (3, 3, 3)):
                assert_product(name, "cpu", *sizes, SMALL[name])
        else:
            assert_attention(name, "cpu", 2, 37, 16 if rungs.RUNGS[name].dtype == "bfloat16" else 40, SMALL[name])


ARRIVED = "cp_async_wait_all();\n    __syncthreads();"
PLANTED = {  # in attention on tensor cores: (the file, what it says, what it says instead, what is said of it)
    "no barrier": ("tile_copy.cuh", ARRIVED, "cp_async_wait_all();", "a race|before a copy has arrived"),
    "no wait": ("tile_copy.cuh", ARRIVED, "__syncthreads();", "before a copy has arrived"),
    "a wait after the barrier": (
        "tile_copy.cuh", ARRIVED, "__syncthreads();\n    cp_async_wait_all();", "a race|before a copy has arrived",
    ),
    "rows that do not exist": ("tile_copy.cuh", "row + r < rows);", "true);", "reads 16 bytes out of bounds"),
    "halves exchanged": ("mma_bfloat16.cuh", '"f"(second), "f"(first)', '"f"(first), "f"(second)', "and not"),
    "other rows of a fragment": ("mma_bfloat16.cuh", "rows[lane() % 16]", "rows[lane() / 2]", "and not"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_in_attention_is_seen(name, monkeypatch):
    file, right, instead, said = PLANTED[name]
    read = kernels._read

    def wrong(name):
        text = read(name)
        if name == file:
            assert text.count(right) == 1, right
            text = text.replace(right, instead)
        return text

    monkeypatch.setattr(kernels, "_read", wrong)
    with pytest.raises(AssertionError, match=said):
        judge("self_attention", [normal(1, 65, 3 * 16, dtype=np.float64), 1], {}, "bfloat16")
