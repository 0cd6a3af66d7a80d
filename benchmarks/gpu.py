"""All that a GPU can show: is every kernel right, where does the time of a step go, and how does PyTorch compare?

    python benchmarks/gpu.py --run 1                # is it right, and how fast is our step? Each run takes less than
    python benchmarks/gpu.py --run 2                # six minutes. PyTorch's step, beside ours; --run 3, 4: all else
    python benchmarks/gpu.py --run 2 --budget 200   # so many seconds at most
    python benchmarks/gpu.py                        # every part
    python benchmarks/gpu.py --part right tests     # these parts only
    python benchmarks/gpu.py --plan ...             # what would be done, how long it takes, what would be left out
    python benchmarks/gpu.py --out FOLDER ...       # where every file goes, in place of benchmarks/results
    python benchmarks/gpu.py --quick --device cpu   # does this script run? Where there is no GPU; nothing is written

It needs no installation of this package, but CuPy, ml_dtypes, PyTorch, pytest and hypothesis; a part whose package is
missing fails, and the others run. Each part is a process of its own, and is ended at its limit. The most valuable parts
come first. A run begins no part that its time is too short for, and says which are left. What has been measured is
kept when it is measured, also where everything is killed. The same command goes on: a part that is done is not measured
again on the same GPU until a file that it depends on changes, or with --again. On another machine put gpu.json into
benchmarks/results before. A machine that has just been started has no compiled kernels: each run compiles them first.

A run writes gpu.json, all rows; gpu.log, all that was printed; gpu.md, what was measured, and what had been predicted;
and in run 4 ladder.json and host_cost.json. Without --out the log is minigpt_gpu.log in the folder for temporary files.
Compiled kernels can be kept too: set CUPY_CACHE_DIR to a folder.

Two steps from the same weights on the same batches must end in the same bits. A step's fraction of the peak counts
6 N + 12 L C T operations per token (PaLM, appendix B), over the speed of a product in bfloat16, or on a processor in
float32. Every PyTorch step stands below our step of the same precision; "PyTorch / ours" is its time over ours. In
bfloat16 our residual stream is bfloat16 too, PyTorch's is float32. "GB" is what the memory pools of both hold. The
floor of a kernel is explained in gpu_parts/operations.py, the algorithms of a product in gpu_parts/products.py.
"""

import argparse
import functools
import importlib
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import machine
from gpu_parts import measured, plan, predictions, record, runner
from gpu_parts.bench import Bench, Skipped
from gpu_parts.record import Record

from minigpt.errors import InputError

BEGAN = time.monotonic()
LEFT = "no time left"
TABLES = "gpu.md"


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    names = [part.name for part in plan.PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=names, metavar="NAME", help=f"only these: {', '.join(names)}")
    parser.add_argument("--run", type=int, choices=plan.RUNS, help=f"one of these, in at most {plan.BUDGET} s")
    parser.add_argument("--budget", type=int, metavar="SECONDS", help="for all of it, in place of a run's own")
    parser.add_argument("--again", action="store_true", help="measure what is done already too")
    parser.add_argument("--plan", action="store_true", help="print the plan, and do nothing")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, nargs="+", default=[16], help="texts of a training step")
    parser.add_argument("--quick", action="store_true", help="small models; without --out nothing is written")
    parser.add_argument("--out", type=Path, help="a folder for every file, in place of benchmarks/results")
    parser.add_argument("--work", help=argparse.SUPPRESS)  # file.function: this process does the work of a part
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # where it keeps its rows
    return parser.parse_args(arguments)


def main() -> None:
    """Plan, run, keep. The exit status is 1 where a part failed or is left, 130 after Ctrl-C."""
    options = options_of()
    if options.work:
        work(options)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who ends this after ten minutes gets what there is
    quick = options.quick or options.device == "cpu"
    out = options.out.resolve() if options.out else None
    results = record_of(out, quick, runner.device_name(options.device))
    budget = options.budget or (plan.BUDGET if options.run else None)
    parts, states = parts_and_states(options, results)
    the_plan = f"the plan for {results.device}:\n{plan.plan(parts, states, budget)}"
    if options.plan:
        print(the_plan)
        return
    log = runner.Log(out / "gpu.log" if out else Path(tempfile.gettempdir()) / "minigpt_gpu.log")
    log.say(the_plan)
    given = ["--device", options.device, "--batch", *map(str, options.batch)]
    given += ["--quick"] if quick else []
    given += ["--out", str(out)] if out else []
    to_do = [part for part in parts if states[part.name] == plan.TO_DO]
    status = run(to_do, runner.Runner(given, log), results, budget, BEGAN)
    report(results, log)
    sys.exit(status)


def parts_and_states(options: argparse.Namespace, results: Record) -> tuple[list[plan.Part], dict[str, str]]:
    """The parts that are asked for, and what is known of each. Kernels are compiled first where they are not yet."""
    parts = plan.chosen(options.part, options.run)
    [compiler] = plan.chosen([plan.WARM], None)
    states = {part.name: plan.TO_DO if options.again else results.state(part) for part in parts}
    if options.device == "cuda" and not options.part and not record.is_compiled(compiler):
        states[compiler.name] = plan.TO_DO
        if compiler not in parts:
            parts = [compiler, *parts]
    return parts, states


def record_of(out: Path | None, quick: bool, device: str) -> Record:
    """Where results are kept. A quick look is never taken for a measurement."""
    if quick:
        return Record(out, f"{device}, a quick look")
    return Record(out or machine.RESULTS, device, start=machine.RESULTS)


def run(parts: list[plan.Part], by: runner.Runner, results: Record, budget: float | None, began: float) -> int:
    """Run parts one after the other, for `budget` seconds since `began` in all. Returns the exit status.

    A part that would hardly end is left, and a shorter one that comes later is still run.
    """
    outcomes = {}
    for part in parts:
        left = part.limit if budget is None else budget - (time.monotonic() - began)
        if left < part.seconds:
            outcomes[part.name] = LEFT
            continue
        by.log.say(f"=== {part.name}: {part.shows}")
        keep_of_it = functools.partial(keep, results, by.log, part)
        ended = by.run(part, min(part.limit, left), keep_of_it)
        keep_of_it(ended)
        by.log.say(f"=== {part.name}: {ended.outcome} after {ended.seconds:.0f} s")
        outcomes[part.name] = ended.outcome
        if ended.outcome == runner.INTERRUPTED:
            break
    by.log.say(", ".join(f"{name}: {outcome}" for name, outcome in outcomes.items()) or "nothing was to be done")
    to_do = [part for part in parts if outcomes.get(part.name) not in ("done", "skipped")]
    if to_do:
        seconds = plan.expected(to_do)
        by.log.say(f"left: {', '.join(part.name for part in to_do)}, {seconds} s: the same command goes on with them")
    if runner.INTERRUPTED in outcomes.values():
        return 130
    return int(bool(to_do))


def keep(results: Record, log: runner.Log, part: plan.Part, ended: runner.Ended) -> None:
    """Keep the rows of a part, which may be running still, and write the tables anew.

    Where that cannot be done the log says so, and all goes on: what was measured is in the log.
    """
    try:
        results.keep(part, ended.outcome, ended.seconds, ended.rows)
        if results.folder:
            (results.folder / TABLES).write_text(tables(results), encoding="utf-8")
    except Exception as error:  # the disk is full, perhaps
        log.say(f"not kept: {type(error).__name__}: {error}")


def tables(results: Record) -> str:
    """What was measured, and beside what was predicted, in Markdown."""
    return f"{measured.table(results)}\n\n{predictions.table(results.rows(), results.device)}\n"


def report(results: Record, log: runner.Log) -> None:
    """Show the tables, and say which files there are."""
    log.say(tables(results))
    files = [log.path]
    if results.folder:
        written = {name for part in plan.PARTS for name in part.writes}
        files += [results.folder / name for name in (TABLES, *sorted(written))]
    for path in files:
        if path.is_file():
            log.say(f"{path.stat().st_size:>9} bytes  {path}")


def work(options: argparse.Namespace) -> None:
    """Do the work of one part in this process. Raises SystemExit with a status that says how it went."""

    def keep_rows(rows):
        if options.rows:
            machine.write(options.rows, rows)

    file, _, name = options.work.partition(".")
    bench = Bench(options.device, options.quick, [2] if options.quick else options.batch, keep_rows, options.out)
    try:
        getattr(importlib.import_module(f"gpu_parts.{file}"), name)(bench)
    except Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(runner.SKIPPED)
    except (InputError, AssertionError) as problem:
        print(f"FAILED: {problem}", flush=True)
        sys.exit(1)
    except Exception:  # printed to the log, with its place
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
