"""The ladder of kernels: every rung against NumPy at the edges of its tiles, compiled, and what its mistakes show.

Tiles are made small, so that few numbers cross many edges; the tiles that a rung really has are run once, too.
"""

import re
import subprocess

import cuda_on_cpu
import numpy as np
import pytest
from helpers import compiled_by_nvrtc, error, played_or_cuda, same
from nvcc import need, used

from minigpt.device.arrays import named_dtype, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.ops.cuda import kernels, ladder
from minigpt.ops.cuda.ladder import fragments, predictions, rungs

PRODUCTS = [name for name in ladder.RUNGS if name.startswith("product")]
ATTENTIONS = [name for name in ladder.RUNGS if name.startswith("attention")]
SMALL = {
    "product_1_thread": {"TILE": 4},
    "product_2_tile": {"TILE": 4},
    "product_3_registers": {"THREADS": 3, "EACH": 2, "DEPTH": 4},
    "product_4_tensor_cores": {"WARP_ROWS": 16, "WARP_COLUMNS": 32, "WARPS_DOWN": 2, "WARPS_ACROSS": 1, "DEPTH": 16},
    "attention_1_thread": {"THREADS": 4},
    "attention_2_warp": {"WARPS": 3},
    "attention_3_tiles": {"QUERIES": 4, "KEYS": 3},
    "attention_4_tensor_cores": {"WARPS": 3, "TILE": 16},
    "attention_5_two_row_tiles": {"WARPS": 2, "TILE": 16},
}
SMALL_HEAD = {"float32": 5, "bfloat16": 16}
TOLERANCE = {"float32": 1e-6, "bfloat16": 5e-3}  # of attention: p is rounded to bfloat16


@pytest.fixture(autouse=True)
def compiled():
    """What one test has compiled, for a processor or for a GPU, is not another's."""
    rungs._compiled.cache_clear()
    yield
    rungs._compiled.cache_clear()


@pytest.fixture(params=["played", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request) -> str:
    """The device of the arrays: "cpu", where the kernels are played, or "cuda"."""
    return played_or_cuda(request)


def numbers(*shape, dtype="float32", whole=False):
    rng = np.random.default_rng(shape)
    x = rng.integers(-4, 5, shape) if whole else rng.standard_normal(shape)
    return x.astype(named_dtype(dtype))


def attention(q, k, v):
    """In float64, with all scores at once."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def run(name, where, *inputs, **constants):
    """The result, twice: the same bits."""
    given = [to_device(x, where) for x in inputs]
    first, again = (to_numpy(ladder.run(name, *given, **constants)) for _ in range(2))
    assert same([first], [again]) and first.dtype == np.float32
    return first


def assert_product(name, where, rows, columns, inner, constants, whole=True):
    dtype = ladder.RUNGS[name].dtype
    a, b = numbers(rows, inner, dtype=dtype, whole=whole), numbers(inner, columns, dtype=dtype, whole=whole)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    got = run(name, where, a, b, **constants)
    if whole:
        assert (got == expected).all(), "whole numbers, whose sums are exact"
    else:
        assert error(got, expected) < 1e-5


def assert_attention(name, where, heads, length, size, constants):
    dtype = ladder.RUNGS[name].dtype
    q, k, v = (numbers(heads, length, size, n + 1, dtype=dtype)[..., n] for n in range(3))
    assert error(run(name, where, q, k, v, **constants), attention(q, k, v)) < TOLERANCE[dtype]


def around(tile, several=2):
    """1, and where tiles begin and end."""
    return sorted({1, tile - 1, tile, tile + 1, several * tile + 1} - {0})


def tiles(name):
    """Rows, columns and k of the small tile of a product."""
    plan = ladder.RUNGS[name].plan(SMALL[name])
    return plan.rows, plan.columns, SMALL[name].get("DEPTH", plan.rows)


# --- every edge -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("axis", range(3))
def test_a_product_at_every_edge(name, axis, where):
    for size in around(tiles(name)[axis]):
        sizes = [7, 9, 5]
        sizes[axis] = size
        assert_product(name, where, *sizes, SMALL[name])


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_whose_rows_are_multiples_of_16_bytes(name, where):
    """Then tensor cores' rung copies 16 bytes at once."""
    assert_product(name, where, 40, 48, 32, SMALL[name])
    assert_product(name, where, 40, 40, 24, SMALL[name], whole=False)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_in_its_real_tiles(name, where):
    plan = ladder.RUNGS[name].plan(ladder.constants_of(name))
    assert_product(name, where, plan.rows + 1, plan.columns - 1, 33, {})


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_at_every_edge(name, where):
    plan = ladder.RUNGS[name].plan(SMALL[name])
    keys = SMALL[name].get("KEYS", SMALL[name].get("TILE", 1))
    for length in sorted({*around(plan.rows), *around(keys)}):
        assert_attention(name, where, 2, length, SMALL_HEAD[ladder.RUNGS[name].dtype], SMALL[name])


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("size", [1, 16, 31, 33, 48, 64])
def test_attention_with_heads_of_every_size(name, size, where):
    if ladder.RUNGS[name].dtype == "bfloat16" and size % 16:
        return
    assert_attention(name, where, 1, 21, size, SMALL[name])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_in_its_real_tiles(name, where):
    plan = ladder.RUNGS[name].plan(ladder.constants_of(name))
    assert_attention(name, where, 1, plan.rows + 1, 64, {})


@pytest.mark.parametrize("name", ATTENTIONS)
def test_large_scores(name, where):
    """exp of the scores themselves would overflow, and the largest is found late."""
    dtype = named_dtype(ladder.RUNGS[name].dtype)
    q, k, v = (numbers(1, 40, 16, n + 1, dtype=dtype)[..., n] for n in range(3))
    q, k = (q.astype(np.float32) * 20).astype(dtype), (k.astype(np.float32) * 20).astype(dtype)
    limit = 1e-4 if dtype == np.float32 else 2e-2
    assert error(run(name, where, q, k, v, **SMALL[name]), attention(q, k, v)) < limit


@pytest.mark.parametrize("name", ladder.RUNGS)
def test_arrays_that_begin_anywhere_and_empty_ones(name, where):
    dtype = named_dtype(ladder.RUNGS[name].dtype)
    shapes = [(8, 8), (8, 8)] if name in PRODUCTS else [(1, 8, 16)] * 3
    plain = [numbers(*shape, dtype=dtype) for shape in shapes]
    moved = [to_device(np.concatenate([np.zeros(1, dtype), x.ravel()]), where)[1:].reshape(x.shape) for x in plain]
    got = to_numpy(ladder.run(name, *moved, **SMALL[name]))
    assert same([got], [run(name, where, *plain, **SMALL[name])])
    empty = [x[:0] if name in PRODUCTS and not n else x if name in PRODUCTS else x[:, :0] for n, x in enumerate(plain)]
    assert run(name, where, *empty).size == 0


def test_a_product_over_nothing_is_zero(where):
    for name in PRODUCTS:
        dtype = ladder.RUNGS[name].dtype
        got = run(name, where, numbers(3, 0, dtype=dtype), numbers(0, 5, dtype=dtype), **SMALL[name])
        assert (got == np.zeros((3, 5))).all()


# --- what a mistake shows ---------------------------------------------------------------------------------------------

BARRIER = "        __syncthreads();  // the tiles are complete\n"
AFTER = "        __syncthreads();  // no thread reads these tiles any more\n"
BEFORE = "        __syncthreads();  // no warp reads the tiles before any more\n"
WRONG = {  # (rung, what it says, what it says instead): what the harness says, or "other numbers"
    ("product_1_thread", "if (row >= rows || column >= columns) return;", ""): "out of bounds",
    ("product_2_tile", BARRIER, ""): "a race",
    ("product_2_tile", AFTER, ""): "a race",
    ("product_2_tile", "    float sum = 0;\n", "    if (row >= rows) return;\n    float sum = 0;\n"): "for ever",
    ("product_2_tile", "if (row < rows && column < columns) c", "c"): "out of bounds",
    ("product_2_tile", "a_tile[y][x] = a_is_there ?", "if (a_is_there) a_tile[y][x] = true ?"): "other numbers",
    ("product_3_registers", BARRIER, ""): "a race",
    ("product_3_registers", AFTER, ""): "a race",
    ("product_3_registers", "k < inner && column < columns ?", "column < columns ?"): "other numbers|out of bounds",
    ("product_4_tensor_cores", BARRIER, ""): "a race",
    ("product_4_tensor_cores", "        __syncthreads();  // no warp reads these tiles any more\n", ""): "a race",
    ("product_4_tensor_cores", "PAD = 8;", "PAD = 4;"): "multiple",
    ("product_4_tensor_cores", "ldmatrix_x4_trans(b_words", "ldmatrix_x4(b_words"): "other numbers",
    ("product_4_tensor_cores", "lane / 4 + e / 2 * 8", "lane / 4 + e % 2 * 8"): "other numbers",
    ("attention_1_thread", "if (i >= length) return;", ""): "out of bounds",
    ("attention_1_thread", "j <= i", "j < i"): "other numbers",
    ("attention_2_warp", "apart = 16", "apart = 8"): "other numbers",
    ("attention_3_tiles", BARRIER, ""): "a race",
    ("attention_3_tiles", AFTER, ""): "a race",
    ("attention_3_tiles", "sums[d] *= rescale;", ";"): "other numbers",
    ("attention_3_tiles", "    float query[HEAD]", "    if (i >= length) return;\n    float query[HEAD]"): "for ever",
    ("attention_4_tensor_cores", BARRIER, ""): "a race",
    ("attention_4_tensor_cores", BEFORE, ""): "a race",
    ("attention_4_tensor_cores", "n / HEAD < rows ?", "true ?"): "other numbers|out of bounds",
    ("attention_5_two_row_tiles", BARRIER, ""): "a race",
    ("attention_5_two_row_tiles", BEFORE, ""): "a race",
    ("attention_5_two_row_tiles", "p_words[r], words + 2", "p_words[0], words + 2"): "other numbers",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong[0]}: {wrong[1].strip()[:30]}")
def test_a_mistake_shows(wrong, kernels_on_cpu, monkeypatch):
    pytest.importorskip("ml_dtypes")
    name, right, instead = wrong
    read = rungs._read
    assert right in read(f"{name}.cu")
    monkeypatch.setattr(rungs, "_read", lambda file: read(file).replace(right, instead))
    with pytest.raises(AssertionError, match=WRONG[wrong].replace("other numbers", "whole numbers|error|nan")):
        if name in PRODUCTS:
            for rows, columns, inner in ((37, 37, 37), (48, 64, 64), (3, 3, 3)):
                assert_product(name, "cpu", rows, columns, inner, SMALL[name])
        else:
            for length in (37, 70):
                size = 16 if ladder.RUNGS[name].dtype == "bfloat16" else 40
                assert_attention(name, "cpu", 2, length, size, SMALL[name])


# --- a fragment in NumPy ----------------------------------------------------------------------------------------------


def whole(*shape):
    return np.random.default_rng(shape).integers(-8, 8, shape).astype(np.float32)


@pytest.mark.parametrize("layout", [fragments.A, fragments.B, fragments.C])
def test_every_number_of_a_matrix_has_one_place(layout):
    matrix = whole(*layout.shape)
    registers = fragments.scatter(matrix, layout)
    assert registers.shape == (32, matrix.size // 32)
    assert (fragments.gather(registers, layout) == matrix).all()
    assert len(set(zip(layout.rows.flat, layout.columns.flat, strict=True))) == matrix.size


def test_mma_in_numpy_is_a_product_and_that_of_the_harness():
    pytest.importorskip("ml_dtypes")
    a, b, c = whole(16, 16), whole(16, 8), whole(16, 8)
    given = [fragments.scatter(x, layout) for x, layout in zip((a, b, c), LAYOUTS, strict=True)]
    by_numpy = fragments.mma(*given)
    assert (fragments.gather(by_numpy, fragments.C) == c + a @ b).all()
    if cuda_on_cpu.problem():
        pytest.skip(cuda_on_cpu.problem())
    text = rungs._read("tensor_cores.cuh") + """
        extern "C" __global__ void f(float* c, const bfloat16* a, const bfloat16* b) {
            int lane = threadIdx.x;
            mma_m16n8k16(c + 4 * lane, (const unsigned*)(a + 8 * lane), (const unsigned*)(b + 4 * lane));
        }"""
    by_harness = given[2].copy()
    low = [x.astype(named_dtype("bfloat16")) for x in given[:2]]
    cuda_on_cpu.Module(text).get_function("f")((1, 1, 1), (32, 1, 1), (by_harness, *low))
    assert (by_harness == by_numpy).all()


LAYOUTS = fragments.A, fragments.B, fragments.C


def test_the_picture_is_that_of_the_manual():
    first, *_, last = fragments.picture(fragments.C).splitlines()
    assert first.split() == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1", "3:0", "3:1"]
    assert last.split() == ["28:2", "28:3", "29:2", "29:3", "30:2", "30:3", "31:2", "31:3"]
    a = fragments.picture(fragments.A).splitlines()
    assert a[0].split()[:2] == ["0:0", "0:1"] and a[8].split()[:2] == ["0:2", "0:3"]
    assert a[0].split()[8:10] == ["0:4", "0:5"]
    b = fragments.picture(fragments.B).splitlines()
    assert [line.split()[0] for line in b[:3]] == ["0:0", "0:1", "1:0"] and b[8].split()[1] == "4:2"


# --- compiled for a GPU -----------------------------------------------------------------------------------------------

TENSOR_CORES = ("sm_80", "sm_90", "sm_100")


@pytest.mark.slow
@pytest.mark.parametrize("name", ladder.RUNGS)
def test_nvcc_compiles_and_all_stays_in_registers(name, tmp_path):
    low = ladder.RUNGS[name].dtype == "bfloat16"
    for architecture in TENSOR_CORES if low else ("sm_75", *TENSOR_CORES):
        [usage] = used(ladder.source(name), tmp_path, architecture).values()
        assert usage.stack == usage.spill_stores == 0


LOADS = {  # (multiply-adds, loads from shared memory, of how many numbers each) of one step: what the heads count
    "product_2_tile": (32, 64, 1),
    "product_3_registers": (64, 16, 1),
    "attention_3_tiles": (128, 32, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_nvcc_makes_as_many_loads_as_a_head_says(name, tmp_path):
    need()
    out = tmp_path / "out.ptx"
    path = rungs.FOLDER / f"{name}.cu"
    subprocess.run(["nvcc", "-arch=sm_90", "-std=c++14", "-ptx", "-o", str(out), str(path)], check=True)
    text = out.read_text(encoding="utf-8")
    multiply_adds, loads, width = LOADS[name]
    wanted = r"ld\.shared\.f32|ld\.shared\.b32" if width == 1 else rf"ld\.shared\.v{width}"
    found = text.count("fma.rn.f32")
    assert multiply_adds <= found <= multiply_adds + 8  # a few belong to exp
    assert loads <= len(re.findall(wanted, text)) <= loads + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ladder.RUNGS)
def test_a_file_compiles_as_it_stands(name, tmp_path):
    """For readers who call nvcc, which reads the text for the processor's compiler too."""
    need()
    command = ["nvcc", "-arch=sm_80", "-Werror", "all-warnings", "-c", "-o", str(tmp_path / "out.o")]
    done = subprocess.run([*command, str(rungs.FOLDER / f"{name}.cu")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ladder.RUNGS)
def test_nvrtc_compiles(name):
    assert compiled_by_nvrtc(ladder.source(name), f"{name}.cu", "sm_90")


# --- the small API ----------------------------------------------------------------------------------------------------


def test_every_file_is_a_rung_short_and_says_what_limits_it():
    assert {path.stem for path in rungs.FOLDER.glob("*.cu")} == set(ladder.RUNGS)
    for name in ladder.RUNGS:
        text = (rungs.FOLDER / f"{name}.cu").read_text(encoding="utf-8")
        limit = 140 if ladder.RUNGS[name].dtype == "bfloat16" else 80
        assert len(text.splitlines()) <= limit and max(map(len, text.splitlines())) <= 120
        assert "// What limits it" in text and ("// The next rung:" in text or "// What could come next" in text)


def test_constants_are_those_of_the_file():
    assert ladder.constants_of("product_3_registers", EACH=4) == {"THREADS": 16, "EACH": 4, "DEPTH": 16}
    assert ladder.source("product_2_tile", TILE=16).startswith("#define TILE 16\n")
    assert '#include "' not in ladder.source("attention_4_tensor_cores")
    with pytest.raises(InputError, match="there is no rung 'product_9': choose product_1_thread"):
        ladder.source("product_9")
    with pytest.raises(InputError, match="product_2_tile has no constant DEPTH: it has TILE"):
        ladder.source("product_2_tile", DEPTH=3)


@pytest.mark.parametrize(("name", "shapes", "dtype", "message"), [
    ("product_9", [(2, 3), (3, 4)], "float32", "there is no rung"),
    ("product_2_tile", [(2, 3), (2, 4)], "float32", r"not \(2, 3\) and \(2, 4\)"),
    ("product_2_tile", [(2, 3)], "float32", "takes 2 CuPy arrays"),
    ("product_2_tile", [(2, 3), (3, 4)], "float64", "takes arrays of float32, not of float64"),
    ("product_4_tensor_cores", [(2, 3), (3, 4)], "float32", "takes arrays of bfloat16, not of float32"),
    ("attention_3_tiles", [(1, 2, 4), (1, 3, 4), (1, 2, 4)], "float32", "of one shape"),
    ("attention_3_tiles", [(1, 2, 200)] * 3, "float32", "heads of at most 128 numbers"),
    ("attention_4_tensor_cores", [(1, 2, 24)] * 3, "bfloat16", "a multiple of 16, not of 24"),
])  # fmt: skip
def test_what_a_rung_cannot_take_is_refused(name, shapes, dtype, message, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    with pytest.raises(InputError, match=message):
        ladder.run(name, *(numbers(*shape, dtype=dtype) for shape in shapes))


@pytest.mark.parametrize(("name", "shapes", "constants"), [
    ("product_2_tile", [(2**16, 1), (1, 1)], {"TILE": 1}),
    ("attention_3_tiles", [(2**16, 1, 1)] * 3, {}),
])  # fmt: skip
def test_more_blocks_than_a_grid_has_are_refused(name, shapes, constants, kernels_on_cpu):
    with pytest.raises(InputError, match=f"{name} needs 65,536 blocks .* a grid has 65,535 on y"):
        ladder.run(name, *(numbers(*shape) for shape in shapes), **constants)


def test_without_cupy_arrays_a_rung_says_so():
    x = np.ones((2, 2), np.float32)
    if not isinstance(x, kernels.ARRAY):
        with pytest.raises(InputError, match="takes 2 CuPy arrays, not ndarray, ndarray"):
            ladder.run("product_2_tile", x, x)


# --- predictions ------------------------------------------------------------------------------------------------------


def test_each_rung_is_predicted_to_be_faster_than_the_one_before():
    for names in (PRODUCTS, ATTENTIONS):
        seconds = [ladder.predict(name).seconds_without_cache for name in names]
        assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == len(seconds)
        cached = [ladder.predict(name).seconds for name in names]
        assert cached == sorted(cached, reverse=True)


def test_predictions_are_those_in_the_heads_of_the_files():
    shares = {name: ladder.predict(name).share for name in ladder.RUNGS}
    assert shares["product_1_thread"] == pytest.approx(1 / 8)
    assert shares["product_2_tile"] == pytest.approx(1 / 8)
    assert shares["product_3_registers"] == pytest.approx(64 / 80)
    assert ladder.costs("product_4_tensor_cores").clocks["shared memory"] == pytest.approx(
        192 / 128 * ladder.costs("product_4_tensor_cores").clocks["tensor cores"] * predictions.MMA_SHARE
    )
    assert shares["attention_1_thread"] == pytest.approx(32 / 8384, rel=0.05)  # warps also compute beyond the diagonal
    assert shares["attention_2_warp"] == pytest.approx(1 / 16)
    assert shares["attention_3_tiles"] == pytest.approx(128 / 173, rel=0.05)
    assert shares["attention_4_tensor_cores"] == pytest.approx(64 / 160, rel=0.1)
    assert shares["attention_5_two_row_tiles"] == pytest.approx(0.63, rel=0.15)
    limits = {name: ladder.predict(name).limit for name in ATTENTIONS}
    assert limits["attention_4_tensor_cores"] == "shared memory" and limits["attention_2_warp"] == "loads"


def test_bytes_are_counted():
    """A product of one tile, by hand."""
    needs = ladder.costs("product_2_tile", rows=32, columns=32, inner=32)
    assert needs.operations == 2 * 32**3 and needs.least == 3 * 4 * 32 * 32 == needs.loaded
    assert ladder.costs("product_2_tile", rows=64, columns=64, inner=64).loaded == 4 * 64 * 64 * 2 * 2 + 4 * 64 * 64
    assert predictions.visits(5, 2) == 2 + 4 + 5 and predictions.visits(5, 2, 4) == 1 + 1 + 2


def test_the_table_says_that_it_was_not_measured():
    for job, names in (("product", PRODUCTS), ("attention", ATTENTIONS)):
        text = ladder.table(job, "H200")
        assert text.startswith("PREDICTED for an H200") and "no GPU" in text
        assert all(name in text for name in names) and max(map(len, text.splitlines())) <= 100
