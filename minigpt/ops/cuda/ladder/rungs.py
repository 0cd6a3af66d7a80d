"""The rungs: their files, how many threads they need, and a function that runs one on CuPy arrays."""

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigpt.device import arrays
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.ops.cuda import kernels

FOLDER = Path(__file__).parent
INCLUDE = re.compile(r'#include "(\S+)".*\n')
LARGEST_HEAD = 128  # numbers of a head


class Plan(NamedTuple):
    """threads: of a block, along x, y and z. rows, columns: the part of the result that a block computes."""

    threads: tuple[int, int, int]
    rows: int
    columns: int = 1


class Rung(NamedTuple):
    """One file. job: "product" or "attention". dtype: of its inputs. plan: the constants of the file -> a Plan."""

    job: str
    dtype: str
    plan: Callable[[dict[str, int]], Plan]
    idea: str


def _a_thread_a_number(c):
    return Plan((c["TILE"], c["TILE"], 1), c["TILE"], c["TILE"])


def _many_a_thread(c):
    tile = c["THREADS"] * c["EACH"]
    return Plan((c["THREADS"], c["THREADS"], 1), tile, tile)


def _product_by_warps(c):
    warps = c["WARPS_DOWN"] * c["WARPS_ACROSS"]
    return Plan((32 * warps, 1, 1), c["WARPS_DOWN"] * c["WARP_ROWS"], c["WARPS_ACROSS"] * c["WARP_COLUMNS"])


RUNGS = {
    "product_1_thread": Rung("product", "float32", _a_thread_a_number, "a thread for each number"),
    "product_2_tile": Rung("product", "float32", _a_thread_a_number, "tiles in shared memory"),
    "product_3_registers": Rung("product", "float32", _many_a_thread, "8 x 8 numbers for each thread"),
    "product_4_tensor_cores": Rung("product", "bfloat16", _product_by_warps, "tensor cores"),
    "attention_1_thread": Rung(
        "attention", "float32", lambda c: Plan((c["THREADS"], 1, 1), c["THREADS"]), "a thread for each query"
    ),
    "attention_2_warp": Rung(
        "attention", "float32", lambda c: Plan((32 * c["WARPS"], 1, 1), c["WARPS"]), "a warp for each query"
    ),
    "attention_3_tiles": Rung(
        "attention", "float32", lambda c: Plan((c["QUERIES"], 1, 1), c["QUERIES"]), "tiles, running softmax"
    ),
    "attention_4_tensor_cores": Rung(
        "attention", "bfloat16", lambda c: Plan((32 * c["WARPS"], 1, 1), 16 * c["WARPS"]), "tensor cores"
    ),
    "attention_5_two_row_tiles": Rung(
        "attention", "bfloat16", lambda c: Plan((32 * c["WARPS"], 1, 1), 32 * c["WARPS"]), "32 queries for each warp"
    ),
}


def constants_of(name: str, **chosen: int) -> dict[str, int]:
    """The constants that a rung is compiled with: those of its file, each replaced by the chosen one if there is one.

    Raises InputError for a name that is no rung, and for a constant that it does not have.
    """
    found = {}
    for constant, value in re.findall(r"^#define (\w+) (\d+)", _text(name), re.MULTILINE):
        found[constant] = int(value)
    unknown = sorted(set(chosen) - set(found))
    if unknown:
        raise InputError(f"{name} has no constant {unknown[0]}: it has {', '.join(found)}")
    return found | chosen


def source(name: str, **chosen: int) -> str:
    """The text of a rung as it is compiled. Without chosen constants it is the file, with the file that it includes.

    Raises InputError as `constants_of`.
    """
    text = INCLUDE.sub(lambda found: _read(found[1]), _text(name))
    if not chosen:
        return text
    defined = [f"#define {constant} {value}" for constant, value in constants_of(name, **chosen).items()]
    return "\n".join([*defined, text])


def run(name: str, *inputs: Array, **chosen: int) -> Array:
    """Run a rung on CuPy arrays, of float32 or, for tensor cores, of bfloat16. The result is float32.

    A product takes a (rows, inner) and b (inner, columns), and gives a b (rows, columns). Attention takes q, k and v
    (heads, length, D), and gives causal attention with the scale 1 / sqrt(D), (heads, length, D).
    chosen: constants of the file, such as TILE=16.
    Raises InputError for arrays of other shapes and dtypes, and for more rows or heads than a grid has blocks.
    """
    rung = RUNGS[name] if name in RUNGS else _unknown(name)
    _check(name, rung, inputs)
    inputs = [kernels.aligned(array) for array in inputs]
    xp = arrays.array_module(inputs[0])
    if rung.job == "product":
        (rows, inner), columns = inputs[0].shape, inputs[1].shape[1]
        out = xp.empty((rows, columns), np.float32)
        numbers = rows, columns, inner
        layers = 1
    else:
        layers, rows, columns = inputs[0].shape
        out = xp.empty((layers, rows, columns), np.float32)
        numbers = rows, 1 / math.sqrt(columns)
        chosen = {**chosen, "HEAD": columns}
    plan = rung.plan(constants_of(name, **chosen))
    down = kernels.blocks(rows, plan.rows)
    across = kernels.blocks(columns, plan.columns)
    grid = (across, down, 1) if rung.job == "product" else (down, layers, 1)
    most = kernels.MOST_ON_Y
    if grid[1] > most:
        raise InputError(f"{name} needs {grid[1]:,} blocks for these rows or heads: a grid has {most:,} on y")
    if out.size:
        function, kinds = _compiled(name, tuple(chosen.items()))
        function(grid, plan.threads, kernels.as_declared(name, kinds, (out, *inputs, *numbers)))
    return out


def _text(name):
    return _read(f"{name}.cu") if name in RUNGS else _unknown(name)


def _unknown(name):
    raise InputError(f"there is no rung {name!r}: choose {', '.join(RUNGS)}")


@functools.cache
def _read(file):
    return (FOLDER / file).read_text(encoding="utf-8")


@functools.cache
def _compiled(name, chosen):
    """(the function, its arguments as `kernels.declared` tells them)"""
    text = source(name, **dict(chosen))
    rung = RUNGS[name]
    return kernels.compile(text).get_function(rung.job), kernels.declared(text, rung.dtype)[rung.job]


def _check(name, rung, inputs):
    """Raise InputError where a rung cannot take these arrays. A kernel does not check: it would read beyond them."""
    n_inputs = 2 if rung.job == "product" else 3
    shapes = [getattr(array, "shape", None) for array in inputs]
    if len(inputs) != n_inputs or not all(isinstance(array, kernels.ARRAY) for array in inputs):
        raise InputError(f"{name} takes {n_inputs} CuPy arrays, not {', '.join(type(a).__name__ for a in inputs)}")
    for array in inputs:
        if kernels.name_of(array.dtype) != rung.dtype:
            raise InputError(f"{name} takes arrays of {rung.dtype}, not of {kernels.name_of(array.dtype)}")
    if rung.job == "product":
        if not all(len(shape) == 2 for shape in shapes) or shapes[0][1] != shapes[1][0]:
            raise InputError(f"{name} takes a (rows, inner) and b (inner, columns), not {shapes[0]} and {shapes[1]}")
        return
    if len(set(shapes)) != 1 or len(shapes[0]) != 3:
        raise InputError(f"{name} takes q, k and v of one shape (heads, length, D), not {', '.join(map(str, shapes))}")
    step = 16 if rung.dtype == "bfloat16" else 1
    size = shapes[0][2]
    if not 0 < size <= LARGEST_HEAD or size % step:
        raise InputError(f"{name} takes heads of at most {LARGEST_HEAD} numbers, a multiple of {step}, not of {size}")
