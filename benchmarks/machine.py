"""What every benchmark needs: the machine in words, a table, and a JSON file in `results/`."""

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "tiktoken", "cupy-cuda12x")


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


def save(name: str, rows: dict, threads: int) -> Path:
    """Write rows to `results/NAME.json`, keeping rows of earlier runs that were not measured again."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}
    about = {"date": datetime.date.today().isoformat(), "processor": processor()}
    about |= {"threads": threads, "versions": versions()}
    rows = before | {key: row | {"measured": about} for key, row in rows.items()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"rows": rows}, indent=2) + "\n", encoding="utf-8")
    print(f"{processor()}, {threads} threads, {versions()}\nwritten to {path}")
    return path
