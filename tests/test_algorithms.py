"""Which algorithm is taken: the fastest by the stand-in's clock, kept in a file, and read by the next process."""

import json
import threading
import warnings

import numpy as np
import pytest
from cublaslt_on_cpu import Offer
from helpers import same

from minigpt.device import gpu
from minigpt.ops.cuda import algorithms, column_major, cublaslt, products
from minigpt.ops.cuda.cublaslt import Epilogue

pytestmark = pytest.mark.parametrize("kernels_on_cpu", ["cuBLASLt"], indirect=True)
KERNEL_FOLDER, ALIGNMENT = gpu.kernel_folder, column_major.alignment_of
M, K, N = 64, 128, 72


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.fixture
def library(kernels_on_cpu, constants, monkeypatch, tmp_path):
    """The stand-in with three algorithms, the second the fastest. A product of M, K and N is just large enough."""
    library = kernels_on_cpu
    library.offers = [Offer(3e-4), Offer(1e-4), Offer(2e-4)]
    constants.set(cuda_small_product=M * K * N)
    monkeypatch.delenv("MINIGPT_TIME_PRODUCTS", raising=False)
    monkeypatch.setattr(algorithms, "_warned", set())
    monkeypatch.setattr(column_major, "alignment_of", lambda address: min(16, ALIGNMENT(address)))  # NumPy's changes
    monkeypatch.setattr(gpu, "name_and_driver", lambda device: ("GPU of a test", 13000))
    monkeypatch.setattr(gpu, "kernel_folder", lambda: str(tmp_path))
    monkeypatch.setattr(gpu, "is_recording", lambda: library.recording)
    monkeypatch.setattr(gpu, "seconds_of", library.seconds_of)
    return library


def multiplied(library) -> list[int]:
    """One product, which must be right: the numbers of the algorithms by which it was computed."""
    a, b, out = normal(M, K), normal(K, N), np.empty((M, N), np.float32)
    library.used.clear()
    assert cublaslt.multiply(a, b, out)
    assert np.abs(out - a @ b).max() < 1e-4
    return library.used.copy()


def new_process():
    """What a process remembers is forgotten; the files stay."""
    for remembered in (cublaslt.plans, algorithms.chosen, products.bgrada_is_faster):
        remembered.clear()


def files(tmp_path):
    return sorted(tmp_path.rglob("*"))[1:]


# --- which one is taken ----------------------------------------------------------------------------------------------


def test_the_fastest_is_taken_and_nothing_is_timed_again(library, tmp_path):
    used = multiplied(library)
    each = 1 + algorithms.ROUNDS * algorithms.REPETITIONS
    assert used[-1] == 1 and [used.count(i) for i in range(3)] == [each, each + 1, each]
    assert multiplied(library) == multiplied(library) == [1]
    [file] = files(tmp_path)
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["microseconds"] == [300, 100, 200] and len(content["chosen"]) == 128
    assert content["kind"]["gpu"] == "GPU of a test" and content["kind"]["cublaslt"] == library.version


def test_the_next_process_reads_it_and_times_nothing(library):
    multiplied(library)
    new_process()
    library.offers[1].seconds = 1.0
    assert multiplied(library) == [1]


def test_what_is_added_to_is_not_spoiled_where_algorithms_are_timed(library):
    a, b, whole = normal(M, K), normal(K, N), np.ones((M, N + 8), np.float32)
    out = whole[:, 3:-5]
    assert cublaslt.multiply(a, b, out, add=True) and len(library.used) > 3
    assert np.abs(out - 1 - a @ b).max() < 1e-4 and (whole[:, :3] == 1).all() and (whole[:, -5:] == 1).all()


def test_what_is_added_to_is_not_spoiled_where_timing_fails(library, monkeypatch):
    def fails(functions):
        raise RuntimeError("no events")

    monkeypatch.setattr(gpu, "seconds_of", fails)
    a, b, out = normal(M, K), normal(K, N), np.ones((M, N), np.float32)
    with pytest.warns(UserWarning, match="no events"):
        products.product(a, b, out=out, add=True)
        products.weight_gradients(a, out)
    assert np.abs(out - 1 - a @ b).max() < 1e-4
    products.FAILED.clear()


@pytest.mark.parametrize("epilogue", ["GELU_AUX_BIAS", "DGELU"])
def test_inputs_of_an_epilogue_are_as_before(library, epilogue):
    x, w, b, f = normal(M, K), normal(K, N), normal(N), normal(M, N)
    given = [array.copy() for array in (x, w, b, f)]
    if epilogue == "DGELU":
        products.product_gelu_backward(x, w, f)
    else:
        products.product_gelu(x, w, b)
    assert len(library.used) > 3 and same([x, w, b, f], given)


@pytest.mark.parametrize("status", [7, 13, 15])
def test_an_algorithm_that_fails_is_left_out(library, status):
    library.offers[1].status = status
    assert multiplied(library)[-1] == 2


def test_where_all_fail_it_is_said(library):
    for offer in library.offers:
        offer.status = 13
    with pytest.raises(RuntimeError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
        multiplied(library)
    assert library.used == [0, 1, 2, 0]


@pytest.mark.parametrize("factor", [1.01, np.nan, np.inf, 0.0])
def test_an_algorithm_that_computes_something_else_is_left_out(library, factor):
    library.offers[1].factor = factor
    assert multiplied(library)[-1] == 2


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_where_results_are_not_finite_the_first_is_taken_and_not_kept(library, factor, tmp_path):
    a, b, out = normal(M, K), normal(K, N), np.empty((M, N), np.float32)
    a *= np.float32(factor)
    with np.errstate(invalid="ignore"):
        assert cublaslt.multiply(a, b, out)
    assert library.used == [0, 1, 2, 0] and files(tmp_path) == []


def test_results_of_zero_agree(library):
    out = np.ones((M, N), np.float32)
    assert cublaslt.multiply(np.zeros((M, K), np.float32), normal(K, N), out) and library.used[-1] == 1
    assert not out.any()


def test_two_runs_have_the_same_bits(library):
    """Also the first product of the run that times. Algorithms differ in their last bits."""
    for i, offer in enumerate(library.offers):
        offer.factor = 1 + i * 1e-5
    a, b = normal(M, K), normal(K, N)
    runs = []
    for _ in range(2):
        runs.append([products.product(a, b) for _ in range(3)])
        new_process()
        library.offers[1].seconds = 1.0
    assert all(same([product], [runs[0][0]]) for run in runs for product in run)
    assert not same(runs[0][:1], [a @ b])


@pytest.mark.parametrize("seconds", [(1e-4, 0.99e-4, 0), (1e-4, 0.97e-4, 1), (19e-6, 9e-6, 0), (21e-6, 9e-6, 1)])
def test_a_little_faster_is_not_worth_a_change(library, seconds):
    """Nor is anything where the time is that of Python."""
    *times, taken = seconds
    library.offers = [Offer(time) for time in times]
    assert multiplied(library)[-1] == taken
    new_process()
    library.offers[1 - taken].seconds = 1e-9
    assert multiplied(library) == [taken], "kept all the same"


def test_one_slow_round_decides_nothing(library, monkeypatch):
    rounds = iter([[1.0, 2.0], [9.0, 2.0], [1.0, 2.0]])
    monkeypatch.setattr(gpu, "seconds_of", lambda functions: next(rounds))
    kind = algorithms.kind_of(0, 1, "something")
    ways = {"first": lambda: [normal(3, 4)], "second": lambda: [normal(3, 4)]}
    assert algorithms.fastest(kind, ways) == "first" == algorithms.kept(kind)


# --- where nothing is timed ------------------------------------------------------------------------------------------


def test_a_small_product_takes_the_first(library, constants, tmp_path):
    constants.set(cuda_small_product=M * K * N + 1)
    assert multiplied(library) == [0] and files(tmp_path) == []


def test_nothing_is_timed_while_a_graph_is_recorded(library, tmp_path):
    library.recording = True
    assert multiplied(library) == [0] and files(tmp_path) == []
    library.recording = False
    assert multiplied(library) == [0], "the same in this process"
    new_process()
    assert multiplied(library)[-1] == 1


def test_what_was_chosen_before_is_recorded(library):
    multiplied(library)
    library.recording = True
    assert multiplied(library) == [1]


def test_it_can_be_switched_off(library, monkeypatch, tmp_path):
    multiplied(library)
    [file] = files(tmp_path)
    new_process()
    monkeypatch.setenv("MINIGPT_TIME_PRODUCTS", "0")
    assert multiplied(library) == [0], "the file is not read"
    file.unlink()
    new_process()
    assert multiplied(library) == [0] and files(tmp_path) == []


def test_choices_are_kept_where_cupy_keeps_its_kernels(library, monkeypatch):
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    assert KERNEL_FOLDER().endswith(".cupy/kernel_cache") and "~" not in KERNEL_FOLDER()
    monkeypatch.setenv("CUPY_CACHE_DIR", "another")
    assert KERNEL_FOLDER() == "another"
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    assert KERNEL_FOLDER() is None


def test_without_a_folder_a_choice_lasts_as_long_as_the_process(library, monkeypatch):
    monkeypatch.setattr(gpu, "kernel_folder", lambda: None)
    assert multiplied(library)[-1] == 1 and multiplied(library) == [1]
    cublaslt.plans.clear()  # as for a second GPU of the same name
    assert multiplied(library) == [1]
    new_process()
    assert len(multiplied(library)) > 3


# --- the file --------------------------------------------------------------------------------------------------------

DAMAGED = {
    "empty": b"",
    "cut short": b'{"kind": {"gpu": "GPU of',
    "no UTF-8": b"\xff\xfe\x00",
    "another value": b"[1, 2]",
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_ignored_and_made_anew(library, tmp_path, damage):
    multiplied(library)
    [file] = files(tmp_path)
    good = file.read_bytes()
    file.write_bytes(DAMAGED[damage])
    new_process()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(multiplied(library)) > 3
    assert file.read_bytes() == good and files(tmp_path) == [file]


@pytest.mark.parametrize("chosen", [None, 5, "", "zz", "00" * 63, "00" * 64, "ff" * 64, "é" * 128, "longer"])
def test_what_is_no_algorithm_is_not_used(library, tmp_path, chosen):
    multiplied(library)
    [file] = files(tmp_path)
    content = json.loads(file.read_text(encoding="utf-8"))
    chosen = content["chosen"] + "00" if chosen == "longer" else chosen
    file.write_text(json.dumps({**content, "chosen": chosen}), encoding="utf-8")
    new_process()
    assert len(multiplied(library)) > 3 and json.loads(file.read_text(encoding="utf-8")) == content


def test_an_algorithm_that_the_library_does_not_take_any_more_is_not_used(library):
    multiplied(library)
    for offer in ({"known": False}, {"workspace": cublaslt.WORKSPACE + 1}):
        new_process()
        library.offers[1] = Offer(1e-4, **offer)
        used = multiplied(library)
        assert len(used) > 3 and (used[-1] == 2 if "workspace" in offer else True)


def test_a_file_of_another_kind_under_this_name_is_not_used(library, tmp_path):
    multiplied(library)
    [file] = files(tmp_path)
    content = json.loads(file.read_text(encoding="utf-8"))
    content["kind"]["gpu"] = "another"
    file.write_text(json.dumps(content), encoding="utf-8")
    new_process()
    assert len(multiplied(library)) > 3


@pytest.mark.parametrize("other", ["GPU", "driver", "version"])
def test_another_gpu_driver_or_version_chooses_for_itself(library, monkeypatch, tmp_path, other):
    multiplied(library)
    new_process()
    if other == "version":
        library.version = 130300
    else:
        found = {"GPU": ("another GPU", 13000), "driver": ("GPU of a test", 13010)}[other]
        monkeypatch.setattr(gpu, "name_and_driver", lambda device: found)
    library.offers[2].seconds = 1e-5 + algorithms.LEAST
    assert multiplied(library)[-1] == 2 and len(files(tmp_path)) == 2


def test_every_shape_layout_and_epilogue_is_a_kind(library, tmp_path):
    a, b, turned, bias = normal(M, 2 * K), normal(K, N), normal(N, K).T, normal(N)
    out, elsewhere = np.empty((M, N), np.float32), np.empty((M + 1) * N, np.float32)[1:][: M * N].reshape(M, N)
    products_of_kinds = [
        lambda: cublaslt.multiply(a[:, :K], b, out),
        lambda: cublaslt.multiply(a[:, K:].copy(), b, out),
        lambda: cublaslt.multiply(a[:, :K], turned, out),
        lambda: cublaslt.multiply(a[:, :K], b, elsewhere),
        lambda: cublaslt.multiply(a[:, :K], b, out, Epilogue.BIAS, bias),
    ]
    for made, multiply in enumerate(products_of_kinds, 1):
        assert multiply() and multiply() and len(files(tmp_path)) == made
    with gpu.products_in("tf32"):
        assert products_of_kinds[0]() and len(files(tmp_path)) == made + 1


def test_a_folder_that_cannot_be_written_is_named_once(library, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(gpu, "kernel_folder", lambda: str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot be kept in .*file.*: set CUPY_CACHE_DIR") as warned:
        for _ in range(2):
            new_process()
            assert multiplied(library)[-1] == 1
    assert len(warned) == 1


def test_who_reads_while_others_write_finds_a_whole_file(library, tmp_path):
    kind = algorithms.kind_of(0, 1, "something", "x" * 50_000)
    name = algorithms._file_name(kind)

    def write(way):
        for _ in range(100):
            algorithms._write(name, kind, way, [1e-3])

    writers = [threading.Thread(target=write, args=(way,)) for way in "ab"]
    algorithms._write(name, kind, "a", [1e-3])
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert algorithms._read(name, kind) in ("a", "b")
    assert [path.name for path in files(tmp_path)] == [name]


# --- the gradient of the bias ----------------------------------------------------------------------------------------


@pytest.fixture
def sums_take(library, monkeypatch):
    """`sums_take(seconds)`: how long our kernel takes for the sums of columns."""

    def sums_take(seconds):
        def column_sums(x, sums=products.column_sums):
            library.clock += seconds
            return sums(x)

        monkeypatch.setattr(products, "column_sums", column_sums)

    return sums_take


def gradients(library) -> set[str]:
    """The gradients of weight and bias, which must be right: the epilogues that were used for them."""
    x, dout = normal(K, M), normal(K, N)
    library.made.clear()
    dw, db = products.weight_gradients(x, dout)
    assert np.abs(dw - x.T @ dout).max() < 1e-4 and np.abs(db - dout.sum(axis=0)).max() < 1e-4
    return {epilogue for epilogue, dtype, _ in library.made if dtype == "float32"}


@pytest.mark.parametrize(("seconds", "taken"), [(1e-5, "DEFAULT"), (2e-4, "BGRADA")])
def test_the_bias_gradient_is_computed_in_the_faster_way(library, sums_take, seconds, taken):
    library.slower = {"BGRADA": 1e-4}
    sums_take(seconds)
    assert gradients(library) == {"DEFAULT", "BGRADA"}
    assert gradients(library) == {taken}
    new_process()
    sums_take(1.0)
    assert gradients(library) == {taken}, "it was kept"


@pytest.mark.parametrize("why", ["small", "recording", "switched off"])
def test_where_nothing_is_timed_it_is_bgrada(library, sums_take, constants, monkeypatch, why):
    sums_take(0.0)
    library.recording = why == "recording"
    if why == "small":
        constants.set(cuda_small_product=M * K * N + 1)
    if why == "switched off":
        monkeypatch.setenv("MINIGPT_TIME_PRODUCTS", "0")
    library.slower = {"BGRADA": 1e-4}
    assert gradients(library) == {"BGRADA"} == gradients(library)


@pytest.mark.parametrize("failure", [OSError("no such file"), RuntimeError("not found")])
def test_without_the_library_a_kernel_of_ours_adds(library, monkeypatch, failure):
    def load():
        raise failure

    cublaslt._library.cache_clear()
    monkeypatch.setattr(cublaslt, "_load", load)
    with pytest.warns(UserWarning, match="in float32 by cuBLASLt, CuPy may be slower"):
        assert gradients(library) == gradients(library) == set()
    products.FAILED.clear()
