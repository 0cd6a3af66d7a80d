"""What limits each rung, counted from its source: **predictions**, not measured on a GPU.

A multiprocessor has several units that work at the same time. For each unit, `costs` counts the clocks (ticks of a
multiprocessor) for which a rung needs it, added up over all multiprocessors. The unit that needs most clocks is the
limit. The GPU's memory is one more unit, counted in bytes. What caches do cannot be counted. So there are two
predictions: one if no cache keeps anything from one load of a warp to the next, and one if caches keep everything, so
that each array comes from memory once. Both are upper bounds of the speed: latency, barriers, and multiprocessors
without work while the last blocks run are not counted.

The rates, per clock of a multiprocessor of compute capability 9.0 (NVIDIA, CUDA C++ Programming Guide, table of
arithmetic throughput; data sheets of the H100 and the H200): four instructions of a warp begin; one load, store or
shuffle of a warp; 128 bytes of shared memory or of the cache beside it; 128 multiply-adds of float32; 16 powers of 2;
2048 multiply-adds of bfloat16 on tensor cores.

One rate is an assumption. These rungs use tensor cores by the instruction mma, not by wgmma, which is made for these
GPUs. We assume that mma reaches 63 % of the peak (MMA_SHARE). A study measured such rates on an H100 (Luo et al. 2024,
arXiv 2402.13499), but we could not check the number there, and have not measured it.
"""

from typing import Any, NamedTuple

from minigpt.ops.cuda.kernels import blocks
from minigpt.ops.cuda.ladder.rungs import RUNGS, constants_of

MMA_SHARE = 0.63  # of the tensor cores' peak, reached by the instruction mma on an H100: an assumption
POWERS = 16  # powers of 2 per clock
LINE = 128  # bytes per clock, of shared memory or of the cache beside it
ISSUED = 4  # instructions of a warp that begin per clock
PRODUCT = {"rows": 4096, "columns": 4096, "inner": 4096}
ATTENTION = {"heads": 192, "length": 1024, "size": 64}  # GPT-2 small, 16 texts


class Machine(NamedTuple):
    """A GPU by its data sheet. memory: bytes a second. peak: operations a second, for each dtype."""

    multiprocessors: int
    memory: float
    peak: dict[str, float]
    per_clock: dict[str, int]  # operations of one multiprocessor in a clock, for each dtype

    def clocks_a_second(self, dtype: str) -> float:
        """Clocks of all multiprocessors together, at the frequency for which the data sheet gives its peak."""
        return self.peak[dtype] / self.per_clock[dtype]


HOPPER: dict[str, Any] = {
    "peak": {"float32": 67e12, "bfloat16": 989e12},
    "per_clock": {"float32": 256, "bfloat16": 4096},
}
MACHINES = {
    "H100": Machine(132, 3350e9, **HOPPER),
    "H200": Machine(132, 4800e9, **HOPPER),
}


class Costs(NamedTuple):
    """What one call of a rung needs. operations: those that the result needs; what is computed twice counts once."""

    operations: float
    clocks: dict[str, float]  # {unit: clocks, added up over all multiprocessors}
    loaded: float  # bytes, if no cache keeps anything
    least: float  # bytes, if each array is read or written once
    shared: float  # bytes of shared memory, read and written; a load of a warp counts as 128 bytes


class Prediction(NamedTuple):
    """limit: the unit that limits a rung if caches keep everything. share: of the peak in the rung's dtype, at most."""

    limit: str
    share: float
    share_without_cache: float
    seconds: float
    seconds_without_cache: float


def costs(name: str, **sizes: int) -> Costs:
    """What a rung needs, with the constants of its file.

    sizes: rows, columns and inner of a product, heads, length and size of attention; those not given are PRODUCT's, or
    ATTENTION's. Raises InputError for a name that is no rung.
    """
    constants = constants_of(name)
    if RUNGS[name].job == "product":
        return _product(name, constants, **(PRODUCT | sizes))
    return _attention(name, constants, **(ATTENTION | sizes))


def predict(name: str, machine: str = "H100", **sizes: int) -> Prediction:
    """The share of a GPU's peak that a rung can reach at most, and its time. Predicted, not measured."""
    gpu = MACHINES[machine]
    needs = costs(name, **sizes)
    dtype = RUNGS[name].dtype
    times = {}
    for unit, clocks in needs.clocks.items():
        times[unit] = clocks / gpu.clocks_a_second(dtype)
    times["memory"] = needs.least / gpu.memory
    limit = max(times, key=times.__getitem__)
    seconds = times[limit]
    without = max(seconds, needs.loaded / gpu.memory)
    at_peak = needs.operations / gpu.peak[dtype]
    return Prediction(limit, at_peak / seconds, at_peak / without, seconds, without)


def table(job: str, machine: str = "H100", **sizes: int) -> str:
    """The rungs of a job, as lines of text: bytes that pass, what limits, and the predicted share of the peak."""
    lines = [f"PREDICTED for an {machine} by its data sheet; no GPU has run these kernels yet"]
    lines.append(f"{'':26}{'GB loaded':>10}{'GB shared':>10}  {'limit':15}{'of peak, at most':>17}{'ms, at least':>13}")
    for name in RUNGS:
        if RUNGS[name].job != job:
            continue
        found, needs = predict(name, machine, **sizes), costs(name, **sizes)
        share = f"{100 * found.share_without_cache:.1f} to {100 * found.share:.1f} %"
        gigabytes = f"{needs.loaded / 1e9:10.3g}{needs.shared / 1e9:10.3g}"
        lines.append(f"{name:26}{gigabytes}  {found.limit:15}{share:>17}{1e3 * found.seconds:13.3g}")
    lines.append("GB loaded: from caches or memory. of peak: if caches keep nothing, to: if they keep everything")
    return "\n".join(lines)


def _product(name, constants, rows, columns, inner):
    """Costs, by the arithmetic in the head of each file."""
    dtype = RUNGS[name].dtype
    plan = RUNGS[name].plan(constants)
    itemsize = 2 if dtype == "bfloat16" else 4
    count = blocks(rows, plan.rows) * blocks(columns, plan.columns)
    tiles = count * inner * (plan.rows + plan.columns) * itemsize  # bytes that all blocks load, each its own tiles
    out = 4 * rows * columns
    least = itemsize * (rows * inner + inner * columns) + out
    operations = 2 * rows * columns * inner
    warps = count * (plan.threads[0] * plan.threads[1] // 32) * inner  # pairs of a warp and one k
    if name == "product_1_thread":
        clocks = {"loads": 2 * warps, "instructions": 3 * warps / ISSUED, "arithmetic": warps / 4}
        return Costs(operations, clocks, 160 * warps + out, least, 0)
    if name == "product_2_tile":
        clocks = {"loads": 2 * warps, "instructions": 3 * warps / ISSUED, "arithmetic": warps / 4}
        return Costs(operations, clocks, tiles + out, least, tiles + 8 * 32 * warps)
    if name == "product_3_registers":
        each = constants["EACH"]
        clocks = {
            "loads": 2 * each * warps,
            "instructions": (each * each + 2 * each) * warps / ISSUED,
            "arithmetic": each * each * warps / 4,
        }
        return Costs(operations, clocks, tiles + out, least, tiles + 8 * each * 32 * warps)
    down, across = constants["WARP_ROWS"], constants["WARP_COLUMNS"]
    products = (down // 16) * (across // 8) * warps / 16
    read = (down + across) * itemsize * warps
    clocks = {
        "tensor cores": products / MMA_SHARE,
        "shared memory": (read + tiles) / LINE,
        "instructions": (products + read / 512 + 2 * tiles / 512) / ISSUED,
    }
    return Costs(operations, clocks, tiles + out, least, tiles + read)


def visits(length: int, rows: int, step: int = 1) -> int:
    """Pairs of a group of `rows` queries and a tile of `step` keys; a group goes up to the last key that it sees."""
    return sum(blocks(min(length, first + rows), step) for first in range(0, length, rows))


def _attention(name, constants, heads, length, size):
    """Costs, by the arithmetic in the head of each file."""
    dtype = RUNGS[name].dtype
    itemsize = 2 if dtype == "bfloat16" else 4
    least = heads * length * size * (3 * itemsize + 4)
    operations = 4 * size * heads * length * (length + 1) // 2
    plan = RUNGS[name].plan(constants)
    tiles = 2 * size * itemsize * heads * visits(length, plan.rows)  # bytes that all blocks load, each its own tiles
    once = heads * length * size * (itemsize + 4)  # q and out
    if name == "attention_1_thread":
        pairs = heads * visits(length, 32)  # pairs of a warp and a key
        loads = (2 * size * 33 + size * 65) * pairs
        clocks = {"loads": loads, "arithmetic": 3 * size * pairs / 4}
        return Costs(operations, clocks, 32 * loads, least, 0)
    if name == "attention_2_warp":
        pairs = heads * visits(length, 1)
        each = blocks(size, 32)
        clocks = {
            "loads": (3 * each + 10) * pairs,
            "instructions": (6 * each + 27) * pairs / ISSUED,
            "arithmetic": 3 * each * pairs / 4,
        }
        return Costs(operations, clocks, 3 * size * 4 * pairs + once, least, 0)
    if name == "attention_3_tiles":
        pairs = heads * visits(length, 32)
        loads = 2 * size / 4 + 3
        clocks = {
            "loads": loads * pairs,
            "instructions": (2 * size + loads + 10) * pairs / ISSUED,
            "arithmetic": 2 * size * pairs / 4,
        }
        return Costs(operations, clocks, tiles + once, least, tiles + LINE * loads * pairs)
    known = Costs(operations, {}, tiles + once, least, 0)
    return _attention_on_tensor_cores(name, constants, heads, length, size, known)


def _attention_on_tensor_cores(name, constants, heads, length, size, known):
    """Costs of the two last rungs of attention; known: Costs in which the clocks are missing."""
    row_tiles = 2 if name == "attention_5_two_row_tiles" else 1
    keys, warps = constants["TILE"], constants["WARPS"]
    pairs = heads * visits(length, 16 * row_tiles, keys)  # pairs of a warp and a tile of keys
    products = row_tiles * 2 * (keys // 8) * (size // 16)
    read = 2 * keys * size * 2  # bytes of k and v, by each warp
    copied = read / warps  # what a warp writes to shared memory, as its part of the tile
    scores = row_tiles * 16 * keys
    each = row_tiles * (products // row_tiles + 4.5 * 16 * keys / 32 + size / 2)  # mma; softmax; the sums rescaled
    instructions = each + read / 512 + 2 * copied / 512 + 40
    clocks = {
        "tensor cores": products / MMA_SHARE * pairs,
        "shared memory": (read + copied) / LINE * pairs,
        "powers of 2": scores / POWERS * pairs,
        "instructions": instructions / ISSUED * pairs,
    }
    return known._replace(clocks=clocks, shared=(read + copied) * pairs)
