"""The pages of the recorded benchmarks: an index, and for each result what was measured, its plots and its numbers."""

import ast
import hashlib
import html
import itertools
import json
from pathlib import Path

import figures
import markup
import results
from course import HERE, ROOT
from markup import code, escaped, fence
from results_form import Result
from sources import RESULTS

SCRIPTS = ROOT / "benchmarks"
MOST = 10  # columns of a table


def write(folder: Path, drawn: Path) -> list[Path]:
    """Write `index.md` and a page for each file of benchmarks/results, as MyST Markdown. Returns their paths.

    drawn: a folder that keeps plots, so that they are drawn again only where their result or the code has changed.
    """
    names = [path.stem for path in sorted(RESULTS.glob("*.json"))]
    pages = {f"{name}.md": page(name, plots(name, drawn)) for name in names}
    pages["index.md"] = index(names)
    return markup.write_pages(folder, pages)


def rows_of(name: str) -> dict[str, dict]:
    """The rows of a result."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def script(name: str) -> str:
    """The docstring of the script that measured it."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or ""


def index(names: list[str]) -> str:
    """All results, by subject."""
    parts = [
        markup.label("benchmarks"),
        "# Benchmarks\n",
        "Every page has a recorded measurement: plots, the numbers behind them, the machine, and the script that "
        "anyone can run. Targets were set before the measurement; those that were missed are shown too.\n",
    ]
    for subject, members in results.SUBJECTS.items():
        there = [[_title(name), _verdict(name), _days(name)] for name in members if name in names]
        parts += [f"## {subject}\n", markup.table(["what was measured", "result", "recorded"], there)]
    others = [name for name in names if not any(name in members for members in results.SUBJECTS.values())]
    if others:
        parts += ["## Others\n", markup.listed([_title(name) for name in others])]
    hidden = "\n".join(names)
    parts.append(f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{hidden}\n```\n")
    return "\n".join(parts)


def _title(name: str) -> str:
    return f"[{escaped(results.of(name).title)}](#{label_of(name)})"


def _verdict(name: str) -> str:
    """The result in a sentence; how many targets were met and missed."""
    return escaped(results.of(name).sentence(rows_of(name)))


def _days(name: str) -> str:
    days = sorted({row["measured"]["date"] for row in rows_of(name).values()})
    return _day(days[-1])


def _day(date: str) -> str:
    """A date that stays in one line."""
    return date.replace("-", "\N{NON-BREAKING HYPHEN}")


def label_of(name: str) -> str:
    """The label of a result's page."""
    return "benchmark-" + name.replace("_", "-")


# --- a page ----------------------------------------------------------------------------------------------------------


def plots(name: str, drawn: Path) -> str:
    """The plots of a result as HTML, from the folder of those that are drawn already, or drawn now."""
    digest = hashlib.sha256((RESULTS / f"{name}.json").read_bytes())
    for file in sorted([*HERE.glob("results*.py"), HERE / "figures.py"]):
        digest.update(file.read_bytes())
    digest.update(figures.matplotlib.__version__.encode())
    kept = drawn / f"{name}-{digest.hexdigest()[:16]}.html"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    found = results.of(name).plots(rows_of(name))
    text = figures.CSS + "\n".join(figures.embedded(plot, f"{name}-{i}") for i, plot in enumerate(found, 1))
    drawn.mkdir(parents=True, exist_ok=True)
    for old in drawn.glob(f"{name}-{'?' * 16}.html"):
        old.unlink()
    beside = kept.with_suffix(".new")  # a build that is ended here leaves no half of a file
    beside.write_text(text, encoding="utf-8", newline="\n")
    beside.replace(kept)
    return text


def page(name: str, drawn: str) -> str:
    """What was measured, the plots, the targets, how to run it, the machine, the numbers. drawn: its plots."""
    rows = rows_of(name)
    result = results.of(name)
    parts = [
        markup.label(label_of(name)),
        f"# {escaped(result.title)}\n",
        escaped(result.sentence(rows)) + "\n",
        raw(drawn),
        _targets(result, rows),
        "## How it is measured\n",
        f"The script is {code(f'benchmarks/{name}.py')}:\n",
        markup.docstring(script(name)),
        "## The machine\n",
        machine(rows),
        "## The numbers\n",
        numbers(name, rows),
        *_elsewhere(name),
    ]
    return "\n".join(part for part in parts if part)


def _elsewhere(name: str) -> list[str]:
    """The same on other processors, where it was measured there before."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    parts = []
    for processor, rows in kept.get("elsewhere", {}).items():
        parts += [f"## On another processor: {escaped(processor)}\n", machine(rows), numbers(name, rows)]
    return parts


def raw(text: str) -> str:
    """HTML that stands in the page as it is."""
    return f"````{{raw}} html\n{text}\n````\n"


def _targets(result: Result, rows: dict[str, dict]) -> str:
    """Which targets were set, and were they met?"""
    found = []
    for target in result.targets:
        value = rows[target.row][target.column]
        answer = "met" if target.met(value) else "**missed**"
        words = "at least" if target.at_least else "at most"
        found.append([answer, f"{value:.2f}", f"{words} {target.value:g}", escaped(target.row)])
    if not found:
        return ""
    return "## Targets\n" + markup.table(["", "measured", "target", "what"], found)


def machine(rows: dict[str, dict]) -> str:
    """Processor, threads, dates and versions, as they were recorded; one line for each combination."""
    lines: dict[tuple, set[str]] = {}
    for row in rows.values():
        about = row["measured"]
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        more = [f"{key} {value}" for key, value in about.items() if key not in KNOWN]
        lines.setdefault((about["processor"], str(about["threads"]), versions, ", ".join(more)), set()).add(
            about["date"]
        )
    found = []
    for (processor, threads, versions, more), dates in lines.items():
        days = " to ".join(dict.fromkeys([_day(min(dates)), _day(max(dates))]))
        found.append([escaped(processor), threads, escaped(", ".join(filter(None, (versions, more)))), days])
    return markup.table(["processor", "threads", "versions", "date"], found)


KNOWN = ("date", "processor", "threads", "versions")


COLUMNS = {
    "above": "the median of the side that is named first",
    "below": "the median of the other side",
    "ratio": "the median of above / below, pair by pair",
    "from": "the lowest of its pairs, or runs",
    "to": "the highest",
    "pairs": "how many pairs were measured, both sides in turn",
}


def numbers(name: str, rows: dict[str, dict]) -> str:
    """The numbers as tables: rows with the same columns stand in one; below them the series."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for title, row in rows.items():
        columns = tuple(key for key, value in row.items() if key != "measured" and _fits(value))
        groups.setdefault(columns[:MOST], []).append(title)
    tables = []
    for columns, titles in groups.items():
        cells = [[escaped(title), *(_cell(rows[title].get(column)) for column in columns)] for title in titles]
        of_numbers = [i for i, key in enumerate(columns, 1) if all(_is_number(rows[one].get(key, 0)) for one in titles)]
        if columns:
            tables.append(markup.table(["", *map(escaped, columns)], cells, numbers=of_numbers))
    explained = [f"{code(name)}: {text}" for name, text in COLUMNS.items() if any(name in row for row in rows.values())]
    text = "\n".join(tables)
    if len(rows) > 40:
        text = markup.details(f"{len(rows)} rows", text)
    parts = [text, *(_series(title, row) for title, row in rows.items())]
    parts += [markup.listed(explained)] if explained else []
    parts.append(f"All of it is in {code(f'benchmarks/results/{name}.json')} too.\n")
    return "\n".join(part for part in parts if part)


def _series(title: str, row: dict) -> str:
    """The lists of a row side by side, then its lists of lists, as text that a table program reads; "" without any."""
    lists = {key: value for key, value in row.items() if _is_series(value)}
    tables = {key: value for key, value in row.items() if _is_table(value)}
    lines = [",".join(lists)] if lists else []
    for values in itertools.zip_longest(*lists.values(), fillvalue=""):
        lines.append(",".join(map(str, values)))
    for key, values in tables.items():
        lines += [key, *(",".join(map(str, line)) for line in values)]
    return markup.details(html.escape(title), fence("\n".join(lines))) if lines else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_series(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_series, value))


def _fits(value: object) -> bool:
    """Can it stand in a cell?"""
    if isinstance(value, dict):
        return all(_is_number(one) or _is_series(one) for one in value.values())
    return value is None or _is_number(value) or (isinstance(value, str) and len(value) < 200)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return " of ".join(map(_cell, value))
    if isinstance(value, dict):
        return "; ".join(f"{escaped(key)}: {_cell(one)}" for key, one in value.items())
    return escaped(str(value))
