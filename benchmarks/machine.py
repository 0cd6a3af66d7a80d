"""What every benchmark needs: fair timing, the machine in words, a table, and a JSON file in `results/`."""

import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(1, str(ROOT))  # a benchmark measures the package that it lies beside, installed or not

import minigpt  # noqa: E402, F401 - before NumPy: it says how long BLAS's threads wait
from minigpt.device import local  # noqa: E402
from minigpt.device.parallel import Ranks  # noqa: E402

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "tiktoken", "cupy-cuda12x", "cupy-cuda13x")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def busy() -> float:
    """How many cores others keep busy, while this process sleeps for half a second; 0 where it cannot be told."""
    before = _used()
    time.sleep(0.5)
    return round((_used() - before) / 0.5, 1)


def least_busy(looks: int = 4) -> float:
    """The least of a few looks: what just ends, such as the benchmark before this one, is not counted."""
    found = busy()
    for _ in range(looks - 1):
        if found <= 0.2:
            break
        found = min(found, busy())
    return found


def _used() -> float:
    """Seconds of all cores that were used since the machine was started."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, interrupt, soft_interrupt, stolen, *_ = (int(word) for word in first.split()[1:])
    return (user + nice + system + interrupt + soft_interrupt + stolen) / os.sysconf("SC_CLK_TCK")


_IS_FIRST = multiprocessing.current_process().name == "MainProcess"  # and not one that a benchmark has started
_IS_BENCHMARK = Path(sys.argv[0]).resolve().parent == RESULTS.parent.resolve()
BUSY = least_busy() if _IS_FIRST and _IS_BENCHMARK else 0.0  # before the work begins
if BUSY > 0.2:
    print(f"this machine is busy: others use {BUSY} cores. What is measured now is marked so")


def versions() -> dict[str, str]:
    """Python, and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def table(rows: dict[str, dict], columns) -> str:
    """rows {name: {column: number}} as lines of text."""
    width = max(map(len, rows), default=0)
    lines = [" " * width + "".join(f"{column:>14}" for column in columns)]
    for name, row in rows.items():
        values = [row.get(column, "") for column in columns]
        cells = [f"{value:.4g}" if isinstance(value, (int, float)) else value for value in values]
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


def save(
    name: str, rows: dict, threads: int, quick: bool = False, folder: Path | None = None, **more: str
) -> Path | None:
    """Write rows to `results/NAME.json`, keeping rows of earlier runs that were not measured again.

    What was measured on another processor and is measured again moves to "elsewhere".

    quick: it was only a look, and nothing is written. folder: in place of `results/`. more: what else the figures
    depend on; a `processor` among it takes the place of this machine's.
    """
    if quick:
        return print(f"{processor()}, {threads} threads, {versions()} {more or ''}\na quick look: nothing is written")
    path = (folder or RESULTS) / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write(path, with_rows(kept, rows, threads, **more))
    print(f"{processor()}, {threads} threads, {versions()} {more or ''}\nwritten to {path}")
    return path


def with_rows(kept: dict, rows: dict, threads: int, **more: str) -> dict:
    """What `save` writes: these rows among those that a file holds, and how they were measured."""
    about = {"date": datetime.date.today().isoformat(), "processor": processor()}
    about |= {"threads": threads, "busy": BUSY, "versions": versions()} | more
    known = kept.setdefault("rows", {})
    elsewhere = kept.get("elsewhere", {})
    for key, row in rows.items():
        old = known.get(key, {}).get("measured", about)
        if old["processor"] != about["processor"]:  # a row for each processor
            elsewhere.setdefault(old["processor"], {})[key] = known[key]
        known[key] = row | {"measured": about}
    if elsewhere:
        kept["elsewhere"] = elsewhere
    return kept


def write(path: Path, value: dict) -> None:
    """Write a value as JSON. Who is ended while it is written keeps what there was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    beside.replace(path)


def recorded(name: str) -> dict:
    """The rows that `save` has written under this name; none where there is no file."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}


def require(*modules: str) -> None:
    """Leave with one line if a module that is only compared with is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"this script compares with {' and '.join(missing)}: pip install {' '.join(missing)}")


def seconds(function: Callable, calls: int = 1) -> float:
    """How long a call takes, by the clock: the mean of so many."""
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - started) / calls


def median_seconds(function: Callable, wait: Callable, least: float = 0.02, rounds: int = 7) -> float:
    """The median of a few rounds; a round is as many calls as take `least` s, and ends when the device is done."""

    def one_round(calls):
        for _ in range(calls):
            function()
        wait()

    one_round(2)
    calls = max(1, int(least / seconds(lambda: one_round(1))))
    return statistics.median(seconds(lambda: one_round(calls)) for _ in range(rounds)) / calls


@contextlib.contextmanager
def replaced(places: dict[tuple[Any, str], Any]) -> Iterator[None]:
    """Inside, attributes have other values. places: {(owner, name of the attribute): value}"""
    before = {place: getattr(*place) for place in places}
    try:
        for place, value in places.items():
            setattr(*place, value)
        yield
    finally:
        for place, value in before.items():
            setattr(*place, value)


class Apart:
    """A side in a process of its own: build(threads, *args) makes a function there, and a call of this object calls it.

    In one process the threads and the allocator of one library would be in the way of the other's. `results` are what
    the calls returned. build and args must be such that pickle can name them.
    """

    def __init__(self, build: Callable, *args):
        context, self.results = multiprocessing.get_context("spawn"), []
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, build, args), daemon=True)
        self.process.start()

    def __call__(self):
        self.connection.send("go")
        self.results.append(self.connection.recv())
        return self.results[-1]

    def __del__(self):
        self.connection.close()
        self.process.join()


def in_processes(size: int, build: Callable):
    """What build(ranks) makes, a function, in this process and in size - 1 copies of it that call it as often.

    ranks: the processes, as `minigpt train --processes` has them.
    """
    path = local.meeting_place(size)
    rank = 0
    for other in range(1, size):
        if os.fork() == 0:
            rank = other
            break
    ranks = Ranks(local.Local(path, rank, size))  # here each waits for the others
    function = build(ranks)
    try:
        while rank:
            function()
    except SystemExit:  # the first one has ended
        os._exit(0)
    path.unlink()
    return function


def _serve(connection, build: Callable, args) -> None:
    function = build(*args)
    while True:
        try:
            connection.recv()
        except EOFError:  # the other process has closed the connection
            return
        connection.send(function())


def in_turn(sides: dict[str, Callable], pairs: int, least: float = 0.0, warm_up=True) -> dict[str, list[float]]:
    """Seconds of one call of each side, `pairs` times in turn after a warm-up.

    least: seconds that a turn lasts; short calls are repeated until then. So threads of one side that still wait for
    more work, as OpenMP's do for some milliseconds, disturb only the beginning of the next.
    """
    calls = dict.fromkeys(sides, 1)
    for name, side in sides.items() if warm_up else ():
        side()
        calls[name] = max(1, round(least / seconds(side))) if least else 1
    times = {name: [] for name in sides}
    for _ in range(pairs):
        for name, side in sides.items():
            times[name].append(seconds(side, calls[name]))
    return times


RATIO = ("above", "below", "ratio", "from", "to", "pairs")  # the columns of a row of ratios


def ratio(above: list[float], below: list[float]) -> dict[str, float]:
    """A row: the medians of both, and the median of above / below, pair by pair, with its range."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    values = statistics.median(above), statistics.median(below), statistics.median(ratios), min(ratios), max(ratios)
    return dict(zip(RATIO, (*values, len(ratios)), strict=True))
