"""Backends: whose array it is, which device, and a word for each way in which CuPy can be half installed.

A machine without a GPU cannot show these ways, so a stand-in for cupy raises what CuPy raises; the texts of its errors
are those that users have reported.
"""

import importlib.metadata
from types import SimpleNamespace

import numpy as np
import pytest

from minigpt.device import gpu
from minigpt.device.arrays import array_module, device_of, to_device, to_numpy
from minigpt.device.gpu import choose_device, cuda_problem, explain
from minigpt.errors import InputError
from minigpt.nn import Linear


class FakeArray:
    """An array on a GPU that does not exist."""

    def __init__(self, data):
        self.data = np.asarray(data)

    def __mul__(self, other):
        return FakeArray(self.data * other.data)

    def __matmul__(self, other):
        return FakeArray(self.data @ other.data)

    def __getitem__(self, index):
        return FakeArray(self.data[index])

    def reshape(self, *shape):
        return FakeArray(self.data.reshape(shape))

    def sum(self):
        return FakeArray(self.data.sum())

    def __float__(self):
        return float(self.data)


class CUDARuntimeError(RuntimeError):
    __module__ = "cupy_backends.cuda.api.runtime"


class OutOfMemoryError(MemoryError):
    __module__ = "cupy.cuda.memory"


def stand_in(devices=1, fails=None):
    """A cupy with that many devices. fails: {name of a function: the error it raises}."""

    def function(name, compute):
        def call(*args, **kwargs):
            if fails and name in fails:
                raise fails[name]
            return compute(*args)

        return call

    return SimpleNamespace(
        ndarray=FakeArray,
        float32=np.float32,
        asarray=function("asarray", lambda a: a if isinstance(a, FakeArray) else FakeArray(a)),
        asnumpy=function("asnumpy", lambda a: a.data),
        arange=function("arange", lambda n: FakeArray(np.arange(n))),
        cuda=SimpleNamespace(
            runtime=SimpleNamespace(getDeviceCount=function("getDeviceCount", lambda: devices)),
        ),
    )


@pytest.fixture
def install(monkeypatch):
    """install(cupy or None, wheels=[...], error=...): pretend that this is what pip has put here."""

    def install(cupy, wheels=("cupy-cuda12x",), error=None):
        monkeypatch.setattr(gpu, "cupy", cupy)
        monkeypatch.setattr(gpu, "_import_error", error, raising=False)
        found = [SimpleNamespace(metadata={"Name": name}) for name in ("numpy", *wheels, None)]
        monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)
        gpu._cupy_wheels.cache_clear()

    monkeypatch.delenv("MINIGPT_DEVICE", raising=False)
    yield install
    gpu._cupy_wheels.cache_clear()


# --- whose array it is -----------------------------------------------------------------------------------------------


def test_numpy_arrays_are_numpys_with_cupy_or_without(install):
    x = np.ones(3)
    for cupy in (None, stand_in()):
        install(cupy)
        assert array_module(x) is np and array_module(x, x) is np and array_module() is np
        assert device_of(x) == "cpu" and to_device(x, "cpu") is x and to_numpy(x) is x


def test_cupy_arrays_are_cupys(install):
    cupy = stand_in()
    install(cupy)
    x = FakeArray([1.0, 2.0])
    assert array_module(x) is cupy and array_module(x, x) is cupy and device_of(x) == "cuda"
    assert to_device(x, "cuda") is x and to_numpy(x).tolist() == [1, 2]
    assert isinstance(to_device(np.ones(2), "cuda"), FakeArray) and isinstance(to_device(x, "cpu"), np.ndarray)


def test_mixed_arrays_are_refused_by_position(install):
    install(stand_in())
    with pytest.raises(InputError) as caught:
        array_module(np.ones(2), FakeArray([1]), np.ones(1))
    assert str(caught.value) == (
        "NumPy and CuPy arrays are mixed (argument 1 is NumPy, argument 2 is CuPy, argument 3 is NumPy): "
        "move them with to_device first"
    )


# --- which device ----------------------------------------------------------------------------------------------------


def test_choose_device_with_a_gpu(install, monkeypatch):
    install(stand_in())
    assert cuda_problem() is None
    assert [choose_device(w) for w in ("auto", "cuda", "cpu", None)] == ["cuda", "cuda", "cpu", "cuda"]
    monkeypatch.setenv("MINIGPT_DEVICE", "cpu")
    assert choose_device() == "cpu" and choose_device("cuda") == "cuda"
    monkeypatch.setenv("MINIGPT_DEVICE", "")
    assert choose_device() == "cuda"


def test_choose_device_without_a_gpu(install, monkeypatch):
    install(None, (), ModuleNotFoundError("No module named 'cupy'"))
    assert [choose_device(w) for w in ("auto", "cpu", None)] == ["cpu", "cpu", "cpu"]
    cure = r"no GPU can be used: CuPy is not installed: pip install 'cupy-cuda12x\[ctk\]'"
    for attempt in (
        lambda: choose_device("cuda"),
        lambda: to_device(np.ones(2), "cuda"),
        lambda: Linear(2, 2, None).to("cuda"),
    ):
        with pytest.raises(InputError, match=cure):
            attempt()
    monkeypatch.setenv("MINIGPT_DEVICE", "cuda")
    with pytest.raises(InputError, match=cure):
        choose_device()


@pytest.mark.parametrize("name", ["gpu", "CUDA", "cuda:1"])
def test_an_unknown_device_is_refused(install, monkeypatch, name):
    install(None, ())
    with pytest.raises(InputError, match=f"unknown device '{name}': choose auto, cpu or cuda"):
        choose_device(name)
    monkeypatch.setenv("MINIGPT_DEVICE", name)
    with pytest.raises(InputError, match=f"unknown device '{name}'"):
        choose_device()


def test_a_module_moves_to_the_gpu_and_back(install):
    install(stand_in())
    layer = Linear(2, 3, np.random.default_rng(0))
    before = layer.weight.data
    assert isinstance(layer.to("cuda").weight.data, FakeArray)
    assert (layer.to("cpu").weight.data == before).all()


# --- half installed --------------------------------------------------------------------------------------------------

NO_DRIVER = CUDARuntimeError(
    "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
)
NO_DEVICE = CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
NO_NVRTC = RuntimeError(
    "CuPy failed to load libnvrtc.so.12: OSError: libnvrtc.so.12: cannot open shared object file: No such file"
)
NO_NVRTC_WINDOWS = RuntimeError(
    "CuPy failed to load nvrtc64_120_0.dll: FileNotFoundError: Could not find module 'nvrtc64_120_0.dll' "
    "(or one of its dependencies). Try using the full path with constructor syntax."
)
NO_BUILTINS = RuntimeError("nvrtc: error: failed to open nvrtc-builtins64_120.dll.")
NO_HEADERS = RuntimeError(
    '/venv/cupy/_core/include/cupy/_cuda/cuda-12.4/cuda_fp16.h(129): catastrophic error: cannot open source file '
    '"vector_types.h"\n  #include "vector_types.h"\n  ^\n\n1 catastrophic error detected in the compilation of '
    '"/x/713157532594.cubin.cu".\nCompilation terminated.'
)
NO_CUBLAS = RuntimeError(
    "CuPy failed to load libcublas.so.12: OSError: libcublas.so.12: cannot open shared object file: No such file"
)
FULL = OutOfMemoryError("Out of memory allocating 4,294,967,296 bytes (allocated so far: 77,309,411,328 bytes).")
FULL_TOO = CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
WRONG_WHEEL = ImportError(
    "\n================================================================\nFailed to import CuPy.\n\n"
    "If you installed CuPy via wheels (cupy-cudaXXX or cupy-rocm-X-X), make sure that the package matches with the "
    "version of CUDA or ROCm installed.\n\nOriginal error:\n"
    "  ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
)
STRANGE_IMPORT = ImportError("\n=====\nFailed to import CuPy.\n\nOriginal error:\n  ImportError: numpy is too new\n")


@pytest.mark.parametrize(
    ("where", "error", "cause", "evidence"),
    [
        ("getDeviceCount", NO_DRIVER, "NVIDIA driver is missing or too old", "cudaErrorInsufficientDriver"),
        ("getDeviceCount", NO_DEVICE, "no NVIDIA driver or device", "cudaErrorNoDevice"),
        ("arange", NO_NVRTC, "NVRTC, which compiles its kernels: pip install 'cupy-cuda13x[ctk]'", "libnvrtc.so"),
        ("arange", NO_NVRTC_WINDOWS, "cannot load NVRTC", "nvrtc64_120_0.dll"),
        ("arange", NO_BUILTINS, "cannot load NVRTC", "nvrtc-builtins64_120"),
        ("arange", NO_HEADERS, "no CUDA headers to compile with: pip install 'cupy-cuda13x[ctk]'", "cuda_fp16.h"),
        ("arange", NO_CUBLAS, "cannot load a library of CUDA: pip install 'cupy-cuda13x[ctk]'", "libcublas"),
        ("arange", FULL, "out of GPU memory: use a smaller --batch", "Out of memory allocating"),
        ("arange", FULL_TOO, "out of GPU memory", "cudaErrorMemoryAllocation"),
        ("arange", ZeroDivisionError("something\nelse"), "CuPy does not work here", "else"),
    ],
)
def test_each_cause_has_its_word(install, where, error, cause, evidence):
    """One line: the cause, its cure for the wheel that is installed, and the line of the message that shows it."""
    install(stand_in(fails={where: error}), ["cupy-cuda13x"])
    problem = cuda_problem()
    assert cause in problem and "\n" not in problem and len(problem) < 400
    assert evidence in problem.partition("[")[2].replace("ctk]'", "")
    assert choose_device("auto") == "cpu"
    with pytest.raises(InputError, match="no GPU can be used"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'cupy'"), ["CuPy is not installed", "cupy-cuda12x[ctk]", "--device cpu"]),
        (WRONG_WHEEL, ["cannot load a library of CUDA", "[ctk]", "libcudart.so.12"]),
        (STRANGE_IMPORT, ["CuPy does not work here", "numpy is too new"]),
        (ImportError("libcuda.so.1: cannot open shared object file"), ["no NVIDIA driver", "libcuda.so.1"]),
        (ImportError("DLL load failed while importing core: The specified module could not be found."), ["[ctk]"]),
    ],
)
def test_a_cupy_that_cannot_be_imported(install, error, words):
    install(None, ["cupy-cuda12x"], error)
    problem = cuda_problem()
    assert all(word in problem for word in words) and "\n" not in problem


@pytest.mark.parametrize("cupy", [None, stand_in()])
def test_two_wheels_at_once(install, cupy):
    """They overwrite each other's files; whether the import works is luck."""
    install(cupy, ["cupy-cuda12x", "cupy-cuda11x"], ImportError("whatever"))
    assert "several CuPy packages are installed (cupy-cuda11x, cupy-cuda12x)" in cuda_problem()


def test_no_device(install):
    install(stand_in(devices=0))
    assert "sees no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES" in cuda_problem()


@pytest.mark.parametrize("operation", ["__mul__", "__matmul__"])
def test_a_gpu_that_computes_wrongly_or_not_at_all(install, monkeypatch, operation):
    """Kernels and matrix products are both tried: cuBLAS is a library of its own."""
    install(stand_in())
    monkeypatch.setattr(FakeArray, operation, lambda a, b: FakeArray(np.full((2, 2), 13.0)))
    assert "wrongly: do not trust it" in cuda_problem()

    def fail(a, b):
        raise NO_CUBLAS

    monkeypatch.setattr(FakeArray, operation, fail)
    assert "cannot load a library of CUDA" in cuda_problem()


def test_explain_shortens():
    assert len(explain(RuntimeError("x" * 5000))) < 300 and "\n" not in explain(RuntimeError(""))


def test_readable_errors(install):
    install(stand_in(fails={"asarray": FULL}))
    with pytest.raises(InputError, match="out of GPU memory"):
        to_device(np.ones(3), "cuda")
    with pytest.raises(InputError, match="driver"), gpu.readable_errors():
        raise NO_DRIVER
    for own in (KeyError, MemoryError, RuntimeError):
        with pytest.raises(own), gpu.readable_errors():
            raise own


def test_the_real_one_says_something_or_works():
    """Whatever is installed on this machine: the answer is None, and then a GPU computes, or one line."""
    problem = cuda_problem()
    if problem is None:
        assert float(to_device(np.arange(4.0), "cuda").sum()) == 6 and choose_device("auto") == "cuda"
    else:
        assert "\n" not in problem and choose_device("auto") == "cpu"


def test_explain_quotes_a_line_that_says_something():
    said = explain(ImportError("=====\nFailed to import CuPy.\nwhatever it may be\n====="))
    assert "[whatever it may be]" in said
