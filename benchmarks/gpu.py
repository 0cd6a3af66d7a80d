"""All that a GPU can show: is every kernel right, where does the time of a step go, and how does PyTorch compare?

    python benchmarks/gpu.py --run 1                # is it right? In under nine minutes
    python benchmarks/gpu.py --run 2                # how fast is a step, beside PyTorch's? Likewise; --run 3: all else
    python benchmarks/gpu.py                        # every part; each ends in under five minutes
    python benchmarks/gpu.py --part right tests     # these parts only
    python benchmarks/gpu.py --plan                 # what would be done, and how long it takes
    python benchmarks/gpu.py --out FOLDER ...       # where every file goes, in place of benchmarks/results
    python benchmarks/gpu.py --quick --device cpu   # does this script run? Where there is no GPU; nothing is written

It needs no installation of this package, but CuPy, ml_dtypes, PyTorch, pytest and hypothesis; a part whose package is
missing fails, and the others run. Each part is a process of its own, and is ended at its limit. A run begins no part
that its time is too short for, and says which are left. What has been measured is kept, however a part ends, Ctrl-C
included. The same command goes on: a part that is done is not measured again on the same GPU until a file that it
depends on changes, or with --again. On another machine put gpu.json into benchmarks/results before.

A run writes gpu.json, all rows; gpu.log, all that was printed; gpu_predicted.md, what was predicted beside what was
measured; and in run 3 ladder.json and host_cost.json. Without --out the log is minigpt_gpu.log in the folder for
temporary files. Compiled kernels can be kept too: set CUPY_CACHE_DIR to a folder.

Two steps from the same weights on the same batches must end in the same bits. A step's fraction of the peak counts
6 N + 12 L C T operations per token (PaLM, appendix B), over the speed of a product in bfloat16, or on a processor in
float32. Every PyTorch step stands below our step of the same precision; "PyTorch / ours" is its time over ours. In
bfloat16 our residual stream is bfloat16 too, PyTorch's is float32. "GB" is what the memory pools of both hold. The
floor of a kernel is explained in gpu_parts/operations.py, the algorithms of a product in gpu_parts/products.py.
"""

import argparse
import importlib
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import machine
from gpu_parts import plan, runner
from gpu_parts.record import Record

from minigpt.errors import InputError

BEGAN = time.monotonic()
LEFT = "no time left"


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    names = [part.name for part in plan.PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=names, metavar="NAME", help=f"only these: {', '.join(names)}")
    parser.add_argument("--run", type=int, choices=plan.RUNS, help="one of three runs of under ten minutes")
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
    record = record_of(out, quick, runner.device_name(options.device))
    parts = plan.chosen(options.part, options.run)
    states = {part.name: "to do" if options.again else record.state(part) for part in parts}
    if options.plan:
        print(f"the plan for {record.device}:\n{plan.plan(parts, states)}")
        return
    log = runner.Log(out / "gpu.log" if out else Path(tempfile.gettempdir()) / "minigpt_gpu.log")
    log.say(f"the plan for {record.device}:\n{plan.plan(parts, states)}")
    given = ["--device", options.device, "--batch", *map(str, options.batch)]
    given += ["--quick"] if quick else []
    given += ["--out", str(out)] if out else []
    to_do = [part for part in parts if states[part.name] == "to do"]
    status = run(to_do, runner.Runner(given, log), record, plan.RUNS.get(options.run), BEGAN)
    report(record, log)
    sys.exit(status)


def record_of(out: Path | None, quick: bool, device: str) -> Record:
    """Where results are kept. A quick look is never taken for a measurement."""
    if quick:
        return Record(out, f"{device}, a quick look")
    return Record(out or machine.RESULTS, device, start=machine.RESULTS)


def run(parts: list[plan.Part], by: runner.Runner, record: Record, whole: float | None, began: float) -> int:
    """Run parts one after the other, for `whole` seconds since `began` in all. Returns the exit status.

    A part that would hardly end is left, and a shorter one that comes later is still run.
    """
    outcomes = {}
    for part in parts:
        left = part.limit if whole is None else whole - (time.monotonic() - began)
        if left < part.seconds:
            outcomes[part.name] = LEFT
            continue
        by.log.say(f"=== {part.name}: {part.shows}")
        ended = by.run(part, min(part.limit, left))
        by.log.say(f"=== {part.name}: {ended.outcome} after {ended.seconds:.0f} s")
        outcomes[part.name] = ended.outcome
        record.keep(part, ended.outcome, ended.seconds, ended.rows)
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


def report(record: Record, log: runner.Log) -> None:
    """Write what was predicted beside what was measured, and say which files there are."""
    from gpu_parts import predictions

    table = predictions.table(record.rows(), record.device)
    log.say(table)
    files = [log.path]
    if record.folder:
        (record.folder / "gpu_predicted.md").write_text(table + "\n", encoding="utf-8")
        written = {name for part in plan.PARTS for name in part.writes}
        files += [record.folder / name for name in ("gpu_predicted.md", *sorted(written))]
    for path in files:
        if path.is_file():
            log.say(f"{path.stat().st_size:>9} bytes  {path}")


def work(options: argparse.Namespace) -> None:
    """Do the work of one part in this process. Raises SystemExit with a status that says how it went."""
    from gpu_parts.bench import Bench, Skipped

    def keep(rows):
        if options.rows:
            machine.write(options.rows, rows)

    file, _, name = options.work.partition(".")
    bench = Bench(options.device, options.quick, [2] if options.quick else options.batch, keep, options.out)
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
