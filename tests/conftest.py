"""Fixtures for every test: the published data where there is some, and each implementation on each device."""

import functools
import gc
import os
import signal
import sys
from pathlib import Path

import cores  # noqa: F401 - before NumPy
import cublaslt_on_cpu
import cuda_on_cpu
import numpy as np
import ptx
import pytest
import strict_cupy
from constants import Constants
from helpers import compiled_by_nvrtc

from minigpt import ops
from minigpt.device import gpu, threads
from minigpt.device.arrays import to_device
from minigpt.device.gpu import cuda_problem
from minigpt.ops.cuda import algorithms, cublaslt, kernels, products
from minigpt.ops.table import table

os.environ.setdefault("MINIGPT_KERNELS", str(cuda_on_cpu.built))  # every process of this run finds what one compiled
os.environ.pop("MINIGPT_LANG", None)  # tests read what is said in English, unless they set another language


@pytest.fixture(scope="session")
def eval_data() -> Path:
    """The folder of published files that MINIGPT_EVAL_DATA names; without one the test is skipped."""
    folder = os.environ.get("MINIGPT_EVAL_DATA")
    if not folder:
        pytest.skip("MINIGPT_EVAL_DATA is not set: it names a folder with the published vocabularies and texts")
    if not Path(folder).is_dir():
        pytest.skip(f"MINIGPT_EVAL_DATA is {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture
def torch():
    """PyTorch, or the test is skipped."""
    return pytest.importorskip("torch")


@pytest.fixture
def transformers():
    """The library, which says errors alone, or the test is skipped."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    return transformers


@pytest.fixture(autouse=True)
def default_implementation():
    """Whatever a test has put into the table, the next test starts from the default."""
    yield
    ops.use()


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_interrupts():
    """Ctrl-C interrupts, as usual, also where a shell runs the tests in the background and lets it be ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def hangup_ends():
    """SIGHUP ends a process, as it usually does, also where the tests were begun by nohup, which lets it be ignored."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def quick_runs():
    """What takes longer than a small run: samples are short, and the losses stand for the picture, in its file."""
    from minigpt import plot  # which imports matplotlib
    from minigpt.jobs.pretrain import training_loop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_loop, "SAMPLE", 3)
        patch.setattr(plot, "loss_curve", lambda rows, vocab_size, path, *levels: _write_losses(rows, path))
        patch.setattr(plot, "finetuning_curves", lambda rows, metric, path: _write_losses(rows, path))
        yield


def _write_losses(rows: list[dict], path: Path) -> None:
    losses = [{name: value for name, value in row.items() if name != "tokens_per_second"} for row in rows]
    path.write_text(str(losses), encoding="utf-8")


@pytest.fixture
def constants(monkeypatch) -> Constants:
    """Sets constants of the package for one test: `constants.set(fast_tile=2)`. The names are in `constants.py`."""
    return Constants(monkeypatch)


@pytest.fixture
def set_threads(monkeypatch):
    """`set_threads(3)`: three threads until the test ends."""
    before = threads.threads()
    monkeypatch.setattr(threads, "_given", threads._given)
    yield threads.set_threads
    threads._use(before)


@pytest.fixture
def small_pieces(constants, set_threads):
    """The fast operations with pieces of a few numbers, shared by two threads: every edge is crossed."""
    constants.set(fast_piece=6, fast_few=4, fast_rows=3, fast_columns=8, fast_tall=5, fast_tile=2)
    constants.set(fast_logits=20, fast_words=3, fast_adam_piece=3, shared_work=0)
    set_threads(2)


@pytest.fixture(scope="module")
def no_pictures():
    """Pictures are composed but not rendered, and their files are empty: to render one takes longer than a training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minigpt.plot._write", lambda figure, path: path.write_bytes(b""))
        yield


@functools.cache
def played_in_ptx(source: str) -> ptx.Module:
    """What NVRTC makes of a source for an H100, played. Without NVRTC the test is skipped."""
    return ptx.Module(compiled_by_nvrtc(source, "kernel.cu", "sm_90").decode())


@pytest.fixture
def kernels_on_cpu(request, monkeypatch):
    """The CUDA kernels take NumPy arrays, and g++ stands for the GPU; the player of PTX where the parameter is "PTX".

    Products are made by NumPy in the place of CuPy; by the stand-in for cuBLASLt where the parameter is "cuBLASLt".
    """
    compiles, address = cuda_on_cpu.Module, cuda_on_cpu.address
    if getattr(request, "param", "CuPy") == "PTX":
        compiles, address = played_in_ptx, ptx.address
    elif cuda_on_cpu.problem():
        pytest.skip(cuda_on_cpu.problem())
    caches = kernels._compiled, cublaslt._library, cublaslt._device, products._is_exact
    for cache in caches:
        cache.cache_clear()
    library = cublaslt_on_cpu.Library() if getattr(request, "param", "CuPy") == "cuBLASLt" else None
    monkeypatch.setattr(kernels, "ARRAY", np.ndarray)
    monkeypatch.setattr(sys.modules["minigpt.ops.table"], "device_of", lambda array: "cuda")
    monkeypatch.setattr(kernels, "compile", compiles)
    monkeypatch.setattr(kernels, "address", address)
    monkeypatch.setattr(gpu, "tensor_cores", lambda: True)
    monkeypatch.setattr(cublaslt, "_load", lambda: library)
    monkeypatch.setattr(gpu, "current_stream", lambda: (0, cublaslt_on_cpu.STREAM))
    monkeypatch.setattr(products, "by_cublaslt", library is not None)
    monkeypatch.setattr(products, "FAILED", set())
    monkeypatch.setattr(cublaslt, "plans", {})
    monkeypatch.setattr(algorithms, "chosen", {})
    monkeypatch.setattr(products, "bgrada_is_faster", {})
    yield library
    for cache in caches:
        cache.cache_clear()
    if library:
        assert library.complaints == [] and not products.FAILED


@pytest.fixture
def small_tiles(constants):
    """The CUDA kernels with tiles of a few numbers: every edge is crossed."""
    constants.set(cuda_warps=3, cuda_stripes=2, cuda_logits=20, cuda_side=2, cuda_each=1)
    constants.set(cuda_segment=3, cuda_tile=2)


@pytest.fixture(params=[*table.implementations, "fast in small pieces"])
def implementation(request) -> str:
    """Each implementation of the library in turn: inside the test it is the one that runs."""
    implementation, small, _ = request.param.partition(" in small pieces")
    if small:
        request.getfixturevalue("small_pieces")
    if implementation == "cuda" and no_gpu():
        request.getfixturevalue("kernels_on_cpu")
        request.getfixturevalue("small_tiles")
    ops.use(implementation)
    return implementation


@functools.cache
def no_gpu() -> str | None:
    """Why there is no GPU to test on."""
    return cuda_problem()


@pytest.fixture(params=["cpu", "strict cupy", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch) -> str:
    """ "cpu"; "cuda" as a stand-in for CuPy plays it; and "cuda" where there is a GPU."""
    missing = no_gpu()  # before the stand-in replaces CuPy
    if request.param == "cuda" and missing:
        pytest.skip(f"no GPU: {missing}")
    if request.param == "strict cupy":
        monkeypatch.setattr(gpu, "cupy", strict_cupy.cupy)
        monkeypatch.setattr(gpu, "_cupy_wheels", lambda: ["strict-cupy"])
    return "cpu" if request.param == "cpu" else "cuda"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """What `-n auto` is: a worker more than there are cores, since many tests wait for a process of theirs."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_cores + 1


LONGEST = ("test_nothing_is_wrong_with_the_built_site", "test_all_commands_run", "test_the_library_itself_is_happy")


def pytest_collection_finish():
    """All that the tests have imported stays: whoever collects garbage need not look at it again, test after test."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """What is left out: CuPy's arrays, and those of its stand-in, are tested once where the reference answers for them.

    What is slow: whole models whose CUDA kernels are played on a processor, in every variety. What comes first:
    the tests that take longest, so that no worker is left with one at the end.
    """

    def again(item) -> bool:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        made_for = {"cpu": [*table.implementations, "fast in small pieces"], "cuda": ["reference", "cuda"]}
        return params.get("implementation", "reference") not in made_for.get(params.get("device", "cpu"), ["reference"])

    items[:] = [item for item in items if not again(item)]
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        whole_models = item.get_closest_marker("whole_models")
        if whole_models and params.get("implementation") == "cuda" and no_gpu():
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.name.startswith(LONGEST))


@pytest.fixture
def move(device):
    """A function that puts every array in a value (a list, a tuple, a dict) on the device of this test."""

    def move(value):
        if isinstance(value, np.ndarray):
            return to_device(value, device)
        if isinstance(value, dict):
            return {name: move(item) for name, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(move, value))
        return value

    return move
