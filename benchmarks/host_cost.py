"""What a training step costs the host of a GPU: launches, products and other calls, counted without a GPU.

    python benchmarks/host_cost.py                # half a minute; needs no GPU
    PYTHONPATH=/folder/of/older/code python benchmarks/host_cost.py --column before --code "commit c56a7ad"

A step has the structure of GPT-2 small, 12 blocks, at small sizes: how often something is called does not depend on
them. The loss is computed in as many pieces as 8 texts of 1,024 tokens and 50,257 words need. Nothing is dropped.

The stand-in for CuPy (tests/strict_cupy.py) computes with NumPy on the processor. Kernels, cuBLASLt and CUDA graphs are
replaced by functions that return at once. Counted is one step, from the draw of its batch to the update of its weights:

    launches      kernels of ours, one at a time
    products      cublasLtMatmul
    graphs        recorded graphs, launched as one
    calls         what CuPy computes or copies on the GPU: each is at least one kernel more
    allocations   new arrays, from CuPy's pool
    uploads       arrays copied to the GPU
    reads         numbers read from the GPU, for which the host waits
    milliseconds  the median processor time of a step with all these stand-ins: what Python needs. A call of CuPy's
                  takes as long as its stand-in, not as CuPy's own would. No time is counted that a GPU,
                  its driver or cuBLASLt needs. So compare these times with each other only

CUDA's part of the launches is not measured: below the table it is computed, with the cost of a launch that lessons 20
and 22 assume.

A decoded token is counted in the same way, from the ids to the next id, after a prompt of 8 tokens.
"""

import argparse
import collections
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import machine  # first: it imports minigpt before NumPy
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import constants
import recorded_graph
import strict_cupy

from minigpt.device import gpu
from minigpt.jobs.pretrain import PretrainOptions, prepare, step
from minigpt.jobs.pretrain.job import Job
from minigpt.learn.counting import LAUNCH
from minigpt.ops.cuda import algorithms, cublaslt, kernels, products

# With more rows than 256 in each part, sums over rows take two launches, as they do at full size.
SIZES = {"model": "gpt2", "layers": 12, "heads": 1, "embd": 64, "context": 32, "batch": 18, "tokenizer": "char"}
PIECES = 2  # of the loss: 8 * 1,024 * 50,257 logits are at most 2 * 2**28
ADDRESS = 1 << 20  # of every array: CuPy's begin at multiples of 512 bytes
COLUMNS = ("launches", "products", "graphs", "calls", "allocations", "uploads", "reads", "milliseconds")
UNCOUNTED = {"__len__", "__repr__"}
STEPS = 20  # that are timed


class Counts(collections.Counter):
    """How often something was called."""

    def see(self, name: str, operands: tuple, value) -> None:
        """A call of CuPy's stand-in, as `strict_cupy.seen` is told it."""
        if name in ("read", "array"):
            self["reads" if name == "read" else "uploads"] += 1
            self["allocations"] += name == "array"
            return
        if name in UNCOUNTED or name in strict_cupy.READING:
            return
        if name in ("empty", "empty_like"):
            self["allocations"] += 1
            return
        if name == "__setitem__" or name.startswith("__i") and name != "__invert__":
            self["calls"] += 1
            return
        if not isinstance(value, strict_cupy.ndarray):
            return
        of_elements = isinstance(getattr(np, name, None), np.ufunc)
        arrays = [one for one in operands if isinstance(one, np.ndarray)]
        shared = any(np.may_share_memory(array, value._array) for array in arrays)
        if shared and not of_elements:
            return  # a view, or the array itself
        self["calls"] += 1
        self["allocations"] += not shared  # otherwise it is written to `out`


counts = Counts()


class Module:
    """In the place of a compiled module: kernels that do nothing."""

    def __init__(self, source: str):
        self.source = source

    def get_function(self, name: str) -> Callable:
        """A function of (grid, block, arguments)."""
        return _kernel


def _kernel(grid: tuple, block: tuple, arguments: tuple) -> None:
    counts["launches"] += 1


class Library:
    """In the place of cuBLASLt: every function succeeds and does nothing; one algorithm is found for each product."""

    def __getattr__(self, name: str) -> Callable:
        def function(*arguments):
            if name == "cublasLtMatmul":
                counts["products"] += 1
            elif name == "cublasLtMatmulAlgoGetHeuristic":
                number_found = arguments[-1]._obj
                number_found.value = 1
            return 0

        setattr(self, name, function)
        return function


class Graph(recorded_graph.Graph):
    """A recorded graph, whose launch does nothing."""

    def launch(self) -> None:
        counts["graphs"] += 1


def install(put: Callable) -> None:
    """Put the stand-ins in the places of CuPy, the kernels and cuBLASLt. put(owner, name, value) sets an attribute."""
    runtime = SimpleNamespace(**vars(strict_cupy.runtime), getDevice=lambda: 0)
    stream = recorded_graph.Stream()
    stream.ptr = 0
    recorded_graph.install(put, runtime=runtime, get_current_stream=lambda: stream, Device=lambda: H100)
    put(recorded_graph, "Graph", Graph)
    put(gpu, "cupy", strict_cupy.cupy)
    put(gpu, "_cupy_wheels", lambda: ["strict-cupy"])
    put(kernels, "ARRAY", strict_cupy.ndarray)
    put(kernels, "compile", Module)
    put(kernels, "address", lambda array: ADDRESS)
    put(cublaslt, "_load", Library)
    put(products, "by_cublaslt", True)
    put(products, "FAILED", set())
    put(products, "_is_exact", lambda *arguments: True)  # nothing is computed that could be judged
    put(cublaslt, "plans", {})
    put(algorithms, "chosen", {})
    put(algorithms, "are_timed", lambda multiplications: False)  # nothing is computed that could be timed
    put(products, "bgrada_is_faster", {})
    for cache in (kernels._compiled, cublaslt._library, cublaslt._device):
        cache.cache_clear()


H100 = SimpleNamespace(compute_capability="90")


@contextlib.contextmanager
def job_of(put: Callable, **changes) -> Iterator[Job]:
    """A training run of these stand-ins."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("the cat sat on a mat. " * 400, encoding="utf-8")
        given = {"data": str(text), "out": f"{folder}/run", "steps": 1000, "dropout": 0.0, "device": "cuda"}
        job = prepare(PretrainOptions(**SIZES | given | changes))
        logits = job.part * SIZES["context"] * job.model.config.vocab_size
        put(*constants.home("cuda_logits"), -(-logits // PIECES))
        yield job


def counted(function: Callable) -> dict[str, int]:
    """What one call of a function calls."""
    counts.clear()
    strict_cupy.seen = counts.see
    try:
        function()
    finally:
        strict_cupy.seen = None
    return {column: counts[column] for column in COLUMNS[:-1]}


def on_gpu(row: dict[str, float]) -> int:
    """How many launches a row has, one at least for each of these."""
    return sum(row[column] for column in ("launches", "products", "graphs", "calls"))


def milliseconds(function: Callable) -> float:
    """The median time of a call: of this process alone, for others may use the processor too."""
    times = []
    for _ in range(STEPS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def measured(function: Callable, timed: bool = True) -> dict[str, float]:
    """A row of the table. The first calls, which compile kernels and find algorithms, are not counted."""
    for _ in range(3):
        function()
    row = counted(function)
    return row | {"milliseconds": milliseconds(function)} if timed else row


def training_step(put: Callable, recorded: bool, timed: bool = True, **changes) -> dict[str, float]:
    """A row: what an update costs."""
    put(step, "SMALL", float("inf") if recorded else 0)
    with job_of(put, **changes) as job, np.errstate(all="ignore"):  # arrays that no kernel fills hold anything
        return measured(lambda: step.update(job, 1e-4), timed)


def decoded_token(put: Callable, recorded: bool, timed: bool = True) -> dict[str, float]:
    """A row: what the next token costs, of one text."""
    put(*constants.home("recorded_tokens"), 1 if recorded else 1000)
    with job_of(put) as job, np.errstate(all="ignore"):
        put(strict_cupy.cupy, "empty", _zeros)  # scores must be finite, and no kernel computes them
        stream = job.model.stream([[0] * 8], 50, temperature=0)
        return measured(lambda: next(stream), timed)


def _zeros(shape, dtype=float) -> strict_cupy.ndarray:
    """In the place of cupy.empty."""
    return strict_cupy.computed("empty", (), lambda: np.zeros(shape, dtype))


def rows(put: Callable) -> dict[str, dict[str, float]]:
    """All that is measured."""
    found = {}
    for dtype in ("float32", "bfloat16"):
        for parts in (1, 2):
            for recorded in (False, True):
                how = "recorded" if recorded else "kernel by kernel"
                name = f"a step in {parts} part{'s' * (parts > 1)}, {dtype}, {how}"
                found[name] = training_step(put, recorded, dtype=dtype, accumulate=parts)
    for recorded in (False, True):
        name = "a decoded token, float32" + (", recorded" if recorded else "")
        found[name] = decoded_token(put, recorded)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--column", default="now", help='such as "before": rows of other columns stay in the file')
    parser.add_argument("--code", default="as it stands in the folder of this script", help="what is measured")
    parser.add_argument("--quick", action="store_true", help="write no file")
    parser.add_argument("--out", type=Path, help="a folder for the file, that of a quick look too")
    options = parser.parse_args()
    install(setattr)
    found = rows(setattr)
    print(machine.table(found, COLUMNS))
    print(f"on top, for CUDA, at {1e6 * LAUNCH:.0f} microseconds a launch:")
    for name, row in found.items():
        print(f"{name}: {1e3 * LAUNCH * on_gpu(row):.1f} ms")
    named = {f"{options.column}: {name}": row for name, row in found.items()}
    look = options.quick and not options.out
    machine.save("host_cost", named, threads=1, quick=look, folder=options.out, code=options.code)


if __name__ == "__main__":
    main()
