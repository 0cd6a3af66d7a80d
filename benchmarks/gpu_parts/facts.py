"""The machine: its libraries, its GPU, and how fast it copies and multiplies."""

import contextlib
import importlib.metadata
import platform
import sys

from gpu_parts.bench import Bench
from minigpt.device import gpu
from minigpt.ops.cuda import cublaslt, products

PACKAGES = (
    "numpy", "cupy-cuda13x", "cupy-cuda12x", "ml_dtypes", "torch", "nvidia-cublas", "nvidia-cublas-cu12",
    "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cuda-pathfinder", "pytest",
    "pytest-xdist", "hypothesis",
)  # fmt: skip


def facts(bench: Bench) -> None:
    """Prints what is installed; rows of the copy and of products."""
    print(sys.version.split()[0], platform.platform())
    print(", ".join(_versions()))
    if bench.on_gpu:
        _about_the_gpu()
    bench.note("bytes of a copy, read and written", **{"per second": bench.bandwidth})
    for dtype, rate in bench.rates.items():
        bench.note(f"operations of a product, {dtype}", **{"per second": rate})
    print("kinds of products in which cuBLASLt failed:", products.FAILED or "none")


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return found


def _about_the_gpu() -> None:
    properties = gpu.cupy.cuda.runtime.getDeviceProperties(0)
    capability = gpu.cupy.cuda.Device().compute_capability
    size = properties["totalGlobalMem"] / 1e9
    cache = properties["l2CacheSize"] >> 20
    shared = properties["sharedMemPerBlockOptin"]
    units = properties["multiProcessorCount"]
    print(f"{gpu.device_name('cuda')}, compute capability {capability}, {units} multiprocessors, {size:.0f} GB")
    print(f"{cache} MiB of L2 cache, at most {shared} bytes of shared memory for a block")
    print(f"driver {gpu.cupy.cuda.runtime.driverGetVersion()}, runtime {gpu.cupy.cuda.runtime.runtimeGetVersion()}")
    print(f"cuBLASLt {cublaslt.version()}: {cublaslt._library()._name}")
