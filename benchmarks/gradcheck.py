"""How long it takes to check gradients against finite differences: each operation in all its shapes, whole models.

    python benchmarks/gradcheck.py             # 7 minutes on one core, most of them for whole models
    python benchmarks/gradcheck.py --quick     # three operations, once
"""

import argparse
import statistics

import machine

from minigpt import gradcheck, ops
from minigpt.device.threads import set_threads
from minigpt.gradcheck.judge import judge
from minigpt.jobs import check


def trials(name: str, seed: int = 0) -> list:
    """All trials of an operation, or of the whole models."""
    if name == "models":
        return [results for _, results in check.models(seed)]
    pair = (getattr(ops, f"{name}_{way}") for way in ("forward", "backward"))
    return [results for _, results in judge(name, *pair, seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="three operations, once, no file")
    options = parser.parse_args()
    set_threads(options.threads)
    rows = {}
    for name in [*ops.names, "models"][: 3 if options.quick else None]:
        tensors = [result for results in trials(name) for result in results]
        times = machine.in_turn({name: lambda name=name: trials(name)}, 1 if options.quick else options.runs)[name]
        rows[name] = {"tensors": len(tensors), "worst error": gradcheck.worst(tensors).error}
        rows[name] |= {"seconds": statistics.median(times), "from": min(times), "to": max(times)}
    columns = ("tensors", "worst error", "seconds", "from", "to")
    rows["all"] = {column: sum(row[column] for row in rows.values()) for column in columns if column != "worst error"}
    print(machine.table(rows, columns))
    machine.save("gradcheck", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()
