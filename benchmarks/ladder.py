"""The ladder of kernels to learn CUDA from: what limits each rung, predicted; and on a GPU, how fast it is.

    python benchmarks/ladder.py                        # on a GPU: predictions, then measured, in about a minute
    python benchmarks/ladder.py --quick                # small sizes, and no file
    python benchmarks/ladder.py --device cpu --quick   # where there is no GPU: predictions only, and no file

Each rung of minigpt/ops/cuda/ladder multiplies two matrices of 4096 x 4096, or computes causal attention as of GPT-2
small with 16 texts (192 heads of 1,024 positions and 64 numbers). Beside the product stands CuPy's, which is NVIDIA's
library, and beside attention the library's own kernel; both in float32 and in bfloat16. "of peak" is the share of the
peak by the data sheet, in the dtype of the rung. The results are compared with each other before they are timed.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import machine
import numpy as np

from minigpt import ops
from minigpt.device import arrays, gpu
from minigpt.ops.cuda import ladder

JOBS = ("product", "attention")
SIZES = {"product": (4096, 4096, 4096), "attention": (192, 1024, 64)}
SMALL = {"product": (300, 200, 100), "attention": (4, 200, 64)}
NAMES = {"product": ("rows", "columns", "inner"), "attention": ("heads", "length", "size")}
COLUMNS = ("ms", "predicted", "without cache", "of peak", "limit")
FARTHEST = 2e-2  # of a result from the reference beside it, relative to the largest number


def inputs(job: str, sizes: tuple[int, ...], dtype: str) -> list:
    """Arrays on the GPU: a and b, or q, k and v."""
    if job == "product":
        rows, columns, inner = sizes
        shapes = [(rows, inner), (inner, columns)]
    else:
        shapes = [sizes] * 3
    rng = np.random.default_rng(0)
    made = []
    for shape in shapes:
        numbers = rng.standard_normal(shape, dtype=np.float32).astype(arrays.named_dtype(dtype))
        made.append(arrays.to_device(numbers, "cuda"))
    return made


def reference(job: str, given: list) -> Callable:
    """What does the same in the library: a function without arguments."""
    if job == "product":
        a, b = given
        return lambda: ops.linear_forward(a, b)[0]
    heads, length, size = given[0].shape
    xp = arrays.array_module(*given)
    qkv = xp.ascontiguousarray(xp.concatenate(given, axis=2))  # (heads, length, 3 size): each head is a text of its own
    return lambda: ops.self_attention_forward(qkv, 1)[0]


def measure(job: str, sizes: tuple[int, ...], sheet: str) -> dict[str, dict]:
    """A row for each rung of a job, and for the library beside it."""
    named = dict(zip(NAMES[job], sizes, strict=True))
    rows = {}
    for dtype in ("float32", "bfloat16"):
        if dtype == "bfloat16" and not gpu.tensor_cores():
            print("this GPU has no tensor cores for bfloat16: their rungs are left out")
            continue
        given = inputs(job, sizes, dtype)
        beside = reference(job, given)
        wanted = arrays.to_numpy(beside()).astype(np.float32)
        names = [name for name, rung in ladder.RUNGS.items() if (rung.job, rung.dtype) == (job, dtype)]
        for name in names:
            found = arrays.to_numpy(ladder.run(name, *given))
            far = float(np.abs(found - wanted).max() / np.abs(wanted).max())
            if not far <= FARTHEST:
                sys.exit(f"{name} is wrong: its result is {far:.1e} from the library's")
            took = machine.median_seconds(lambda name=name, given=given: ladder.run(name, *given), gpu.synchronize)
            rows[name] = row(name, took, sheet, named)
        took = machine.median_seconds(beside, gpu.synchronize)
        share = ladder.costs(names[0], **named).operations / took / ladder.MACHINES[sheet].peak[dtype]
        rows[f"{job} by the library, {dtype}"] = {"ms": 1e3 * took, "of peak": share}
    return rows


def row(name: str, took: float | None, sheet: str, named: dict[str, int]) -> dict:
    """Predicted, and, where it was measured, measured."""
    said = ladder.predict(name, sheet, **named)
    found = {
        "predicted": 1e3 * said.seconds,
        "without cache": 1e3 * said.seconds_without_cache,
        "limit": said.limit,
    }
    if took is not None:
        peak = ladder.MACHINES[sheet].peak[ladder.RUNGS[name].dtype]
        found |= {"ms": 1e3 * took, "of peak": ladder.costs(name, **named).operations / took / peak}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sheet", choices=tuple(ladder.MACHINES), help="whose data sheet to predict by")
    parser.add_argument("--quick", action="store_true", help="small sizes, and no file")
    parser.add_argument("--out", type=Path, help="a folder for the file, that of a quick look too")
    options = parser.parse_args()
    device = gpu.device_name(options.device) if options.device == "cpu" or not gpu.cuda_problem() else ""
    sheet = options.sheet or next((name for name in ladder.MACHINES if name in device), "H100")
    sizes = SMALL if options.quick else SIZES
    for job in JOBS:
        print(ladder.table(job, sheet, **dict(zip(NAMES[job], sizes[job], strict=True))), end="\n\n")
    if options.device == "cpu":
        print("nothing was measured: there is no GPU in use, and a processor says nothing about how fast these are")
        return
    if gpu.cuda_problem():
        sys.exit(f"nothing was measured, for no GPU can be used: {gpu.cuda_problem()}")
    rows = {}
    for job in JOBS:
        rows |= measure(job, sizes[job], sheet)
    print(machine.table(rows, COLUMNS))
    look = options.quick and not options.out
    machine.save("ladder", rows, machine.cores(), look, options.out, device=device, sheet=sheet)


if __name__ == "__main__":
    main()
