"""NumPy arrays and CuPy arrays: which module made an array, and how it moves."""

from typing import Any

import numpy as np

from minigpt.device import gpu
from minigpt.errors import InputError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

Array = Any  # numpy.ndarray or gpu.cupy.ndarray


def named_dtype(name: str) -> np.dtype:
    """The dtype of this name. bfloat16, which NumPy alone does not have, is that of ml_dtypes.

    Raises InputError for bfloat16 where ml_dtypes is not installed.
    """
    if name != "bfloat16":
        return np.dtype(name)
    if ml_dtypes is None:
        raise InputError("bfloat16 needs ml_dtypes: pip install ml_dtypes")
    return np.dtype(ml_dtypes.bfloat16)


def array_module(*arrays: Array):
    """numpy or cupy: the module that made these arrays. Raises InputError for NumPy and CuPy arrays together."""
    if gpu.cupy is None:
        return np
    if len(arrays) == 1:  # hundreds of times in a step, for each of which a GPU waits
        return gpu.cupy if isinstance(arrays[0], gpu.cupy.ndarray) else np
    on_gpu = [isinstance(array, gpu.cupy.ndarray) for array in arrays]
    if any(on_gpu) and not all(on_gpu):
        kinds = ["CuPy" if there else "NumPy" for there in on_gpu]
        given = ", ".join(f"argument {i} is {kind}" for i, kind in enumerate(kinds, 1))
        raise InputError(f"NumPy and CuPy arrays are mixed ({given}): move them with to_device first")
    return gpu.cupy if on_gpu and on_gpu[0] else np


def to_device(array: Array, device: str) -> Array:
    """The array on "cpu" (NumPy) or "cuda" (CuPy); the array itself if it is there already.

    Raises InputError, with cause and cure, where a GPU cannot be used or has no memory left.
    """
    if device == "cpu":
        return to_numpy(array)
    if gpu.cupy is None:
        raise InputError(f"no GPU can be used: {gpu.cuda_problem()}")
    with gpu.readable_errors():
        return gpu.cupy.asarray(array)


def to_numpy(array: Array) -> np.ndarray:
    """The array as NumPy: the one place where numbers come back from a GPU."""
    if gpu.cupy is not None and isinstance(array, gpu.cupy.ndarray):
        return gpu.cupy.asnumpy(array)
    is_numpy = isinstance(array, (np.ndarray, np.generic))
    return array if is_numpy else np.asarray(array)


def scaled(array: Array, factor: float) -> Array:
    """The array times a number, in its own dtype: bfloat16 times a Python float would be float32."""
    return (array * factor).astype(array.dtype, copy=False)


def device_of(array: Array) -> str:
    """Where an array lives: "cpu" or "cuda"."""
    return "cpu" if array_module(array) is np else "cuda"


def check_precision(name: str, device: str) -> None:
    """Raises InputError where a model cannot compute in "tf32" or "bfloat16"; in "float32" it can everywhere."""
    if name == "float32":
        return
    if device == "cpu":
        raise InputError(f"--dtype {name} needs a GPU: leave it out, or give --dtype float32")
    if not gpu.tensor_cores():
        capability = int(gpu.cupy.cuda.Device().compute_capability) / 10
        has = f"{gpu.device_name(device)} has {capability}"
        raise InputError(f"--dtype {name} needs a GPU of compute capability 8.0, and {has}: give --dtype float32")
    if name == "bfloat16":
        named_dtype(name)
