"""Which of several ways to compute the same thing is fastest on this GPU: timed once, and kept in a file.

cuBLASLt offers several algorithms for a product, with its best guess first. The guess is often not the fastest, so each
is timed on the arrays of the first call, and the fastest is taken. The choice is kept in a small JSON file for each
kind of product, beside the kernels that CuPy has compiled (the folder CUPY_CACHE_DIR, or ~/.cupy/kernel_cache).

Two runs have the same bits if they take the same algorithms. The run that times a kind computes all its products of
that kind, the first one too, by the algorithm that it writes down; every later run reads it. So all of them agree, with
these exceptions: where the files have been deleted or cannot be written; where two processes time the same kind at the
same moment (the later writer wins); and on another GPU, or with another driver or another cuBLASLt, which are other
kinds. A kind that is first met while a CUDA graph is recorded cannot be timed: that process takes the first algorithm.

The environment variable MINIGPT_TIME_PRODUCTS=0 switches all of this off: nothing is timed, no file is read or written,
and cuBLASLt's first algorithm is always taken.
"""

import contextlib
import hashlib
import json
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from minigpt.device import gpu
from minigpt.device.arrays import array_module

OFFERED = 8  # algorithms that cuBLASLt may return, at most
SMALL = 1 << 25  # multiplications: below, a GPU needs a few microseconds, and a launch takes longer than it can gain
ROUNDS = 3  # in which every way is timed in turn; a way's time is the median of them
REPETITIONS = 3  # in a round, one directly after another
LEAST = 20e-6  # seconds: what takes less is timed together with the Python that launches it, so nothing is known
GAIN = 0.98  # of the first way's time: a way that takes more is not worth a change
COMPARED = 64  # rows, spread over a result, in which ways must agree
AGREES = {"float32": 3e-4, "float64": 1e-10, "bfloat16": 2**-6}  # differences allowed, relative to the largest number

chosen = {}  # {name of a kind's file: the way that was chosen in this process, or read}
_warned = set()


def are_timed(multiplications: int) -> bool:
    """Are the ways to compute a product of this size timed, here and now?"""
    if multiplications < SMALL or os.environ.get("MINIGPT_TIME_PRODUCTS") == "0":
        return False
    return not gpu.is_recording()  # an event that is recorded has no time


def kind_of(device: int, library: int, *what) -> dict:
    """What a choice depends on: the GPU, its driver, cuBLASLt's version, and what is computed, as JSON holds it."""
    name, driver = gpu.name_and_driver(device)
    return {"gpu": name, "driver": driver, "cublaslt": library, "what": list(what)}


def kept(kind: dict) -> str | None:
    """The way that was chosen for this kind before, by this process or by another one; None where there is none."""
    name = _file_name(kind)
    if name not in chosen:
        way = _read(name, kind)
        if way is None:
            return None
        chosen[name] = way
    return chosen[name]


def fastest(kind: dict, ways: dict[str, Callable]) -> str | None:
    """The name of the fastest way; None where none works. It is kept for this kind if another one could be taken.

    ways: {name: function}, the one to be preferred first. A function computes and returns the arrays that it has
    written; it returns None, or raises RuntimeError, where it cannot. Left out are the ways that cannot, and those
    whose results differ from the first one's by more than another sequence of sums explains.
    """
    working = _that_agree(ways)
    if len(working) < 2:
        return next(iter(working), None)
    times = {name: [] for name in working}
    for _ in range(ROUNDS):
        repeated = [_repeat(way) for way in working.values()]
        for name, seconds in zip(working, gpu.seconds_of(repeated), strict=True):
            times[name].append(seconds / REPETITIONS)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    first = next(iter(medians))
    best = min(medians, key=medians.__getitem__)
    if medians[first] < LEAST or medians[best] > GAIN * medians[first]:
        best = first
    name = _file_name(kind)
    chosen[name] = best
    _write(name, kind, best, [medians.get(way) for way in ways])
    return best


def _repeat(way):
    def repeated():
        for _ in range(REPETITIONS):
            way()

    return repeated


def _that_agree(ways):
    """The ways that compute what the first of them computes. Each runs once, which also loads its kernels."""
    working = {}
    expected = None
    for name, way in ways.items():
        try:
            written = way()
        except RuntimeError:
            continue
        if written is None:
            continue
        found = [_some_rows(array) for array in written]
        if expected is None:
            expected = found
        if all(_agree(*pair) for pair in zip(found, expected, strict=True)):
            working[name] = way
    return working


def _some_rows(array):
    """A copy of some rows, in float64 or float32, and the difference that is allowed."""
    every = max(1, len(array) // COMPARED)
    rows = array[::every]
    return rows.astype(np.float64 if array.dtype == np.float64 else np.float32), AGREES[array.dtype.name]


def _agree(found, expected) -> bool:
    """NaN agrees with nothing but the same array: where results are not finite, only the first way is left."""
    numbers, tolerance = found
    others, _ = expected
    if numbers is others:
        return True
    xp = array_module(numbers)
    return bool(xp.abs(numbers - others).max() <= tolerance * xp.abs(others).max())


# ------------------------------------------------------------------------------------------------------- the kept files


def _file_name(kind: dict) -> str:
    text = json.dumps(kind, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32] + ".json"


def _folder() -> Path | None:
    """Where choices are kept; None where CuPy keeps its kernels in memory alone."""
    folder = gpu.kernel_folder()
    return None if folder is None else Path(folder) / "minigpt_products"


def _read(name, kind) -> str | None:
    """The way that a file names; None where there is no file, or it is damaged: then it is made anew."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("kind") != kind or not isinstance(content.get("chosen"), str):
        return None
    return content["chosen"]


def _write(name, kind, way, seconds):
    """Write beside, and rename: a reader finds the old file or the new one, never half of one."""
    folder = _folder()
    if folder is None:
        return
    microseconds = [None if time is None else round(1e6 * time, 2) for time in seconds]
    content = {"kind": kind, "chosen": way, "microseconds": microseconds}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(beside, folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        if folder not in _warned:  # once
            _warned.add(folder)
            warning = f"choices of products cannot be kept in {folder} ({error}): set CUPY_CACHE_DIR to another folder"
            warnings.warn(warning, stacklevel=2)
