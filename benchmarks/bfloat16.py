"""Which model trains in which dtype on a GPU, and what runs it: every model of the registry, without a GPU.

    python benchmarks/bfloat16.py                          # minutes; needs no GPU, but Linux and g++
    python benchmarks/bfloat16.py --models t5 bert --quick

CuPy's arrays are played by a stand-in that has CuPy's rules for bfloat16 (tests/strict_cupy.py names the file of CuPy
behind each), and the kernels by g++, thread by thread (tests/gpu_on_cpu.py). Products are CuPy's, not cuBLASLt's. A
small model of each kind makes two updates on its own objective, with dropout, from the same weights in every dtype.
CuPy's atomic sums come in another order each time.

    trains       1; or 0 where `refused` says why in one line, before any work
    by kernels   operations that kernels of ours and products compute
    by CuPy      operations that the reference's formulas compute, with CuPy's functions; of bfloat16 in float32
    same bits    is a second run, with sums in another order, equal to the first one, to the bit?
    loss         of the second update
    off          its difference from that in float32, over it
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine  # first: it imports minigpt before NumPy
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import gpu_on_cpu
import strict_cupy

from minigpt import models, ops
from minigpt.device import gpu
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, prepare, step
from minigpt.jobs.pretrain.settings import DTYPES
from minigpt.ops.cuda import widened

SIZES = {"layers": 1, "heads": 2, "embd": 32, "context": 16, "batch": 2, "tokenizer": "char", "dropout": 0.1}
ONE_HEAD = ("lstm", "elmo")
TEXT = "the cat sat on a mat. a dog saw the cat. " * 60
UPDATES = 2
RATE = 1e-3
WITHOUT_KERNEL = ("attention", "softmax", "cross_entropy", "batched_product")  # what cuda/widened.py leaves to CuPy
COLUMNS = ("same bits", "loss", "off", "by CuPy")


def install(put: Callable) -> None:
    """Put the stand-ins in their places. put(owner, name, value) sets an attribute."""
    assert all(hasattr(widened, name) or hasattr(widened, f"{name}_forward") for name in WITHOUT_KERNEL)
    gpu_on_cpu.install(put)
    put(step, "SMALL", 0)  # no step is recorded as a graph: the stand-in for graphs would play it twice


def trained(name: str, dtype: str, put: Callable, seed: int) -> tuple[list, dict[str, list[str]]]:
    """Two updates of a small model -> [losses, weights], and the operations by who computed them.

    seed: of the order in which atomic sums come. Raises InputError for a model that is refused.
    """
    put(strict_cupy, "order", np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text(TEXT, encoding="utf-8")
        own = {"heads": 1} if name in ONE_HEAD else {}
        places = {"data": str(path), "out": f"{folder}/run"}
        job = prepare(PretrainOptions(model=name, dtype=dtype, steps=100, device="cuda", **SIZES | own | places))
        losses = []
        with ops.tracing() as calls, gpu.products_in("tf32" if dtype == "tf32" else "float32"):
            for _ in range(UPDATES):
                losses.append(float(step.update(job, RATE)))
                job.step += 1
        weights = [to_numpy(parameter.data).copy() for parameter in job.model.parameters()]
    return [np.array(losses), *weights], ran(calls)


def ran(calls: list) -> dict[str, list[str]]:
    """The operations of these calls, in alphabetical order: those of kernels, and those that CuPy's functions compute.

    Composites that run their reference body count as the operations that they call.
    """
    found: dict[str, set] = {"by kernels": set(), "by CuPy": set()}
    for call in calls:
        if call.implementation == "cuda" and call.op not in WITHOUT_KERNEL:
            found["by kernels"].add(call.op)
        elif call.op not in ops.composites:
            found["by CuPy"].add(call.op)
    return {who: sorted(several) for who, several in found.items()}


def row(name: str, dtype: str, put: Callable) -> dict[str, Any]:
    """What one model does in one dtype."""
    try:
        first, who = trained(name, dtype, put, 0)
    except InputError as error:
        return {"trains": 0, "refused": str(error)}
    again, _ = trained(name, dtype, put, 1)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
    return {"trains": 1, "same bits": int(same), "loss": float(first[0][-1]), **who}


def rows(put: Callable, names: list[str], dtypes: tuple[str, ...] = DTYPES) -> dict[str, dict[str, Any]]:
    """A row for each model and dtype, float32 first."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        for dtype in dtypes:
            one = row(name, dtype, put)
            of_float32 = found.get(f"{name}, float32")
            if one["trains"] and of_float32:
                one["off"] = abs(one["loss"] - of_float32["loss"]) / of_float32["loss"]
            found[f"{name}, {dtype}"] = one
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=models.names(), choices=models.names(), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="write no file")
    options = parser.parse_args()
    install(setattr)
    found = rows(setattr, options.models)
    shown = {}
    for name, one in found.items():
        words = one["by CuPy"] if one["trains"] else [f"refused: {one['refused']}"]
        shown[name] = one | {"by CuPy": "  " + ", ".join(words)}
    print(machine.table(shown, COLUMNS))
    machine.save("bfloat16", found, threads=1, quick=options.quick)


if __name__ == "__main__":
    main()
