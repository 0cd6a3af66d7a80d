"""`minigpt lesson 03`: a lesson in the terminal, cell by cell: prose, code, what the code prints, and a pause."""

import contextlib
import io
import linecache
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, check_ranges
from minigpt.files.disk import typed
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.cells import Cell, cells, core, deeper_parts, minutes
from minigpt.learn.lessons import find_lessons

PAUSE = "[Enter: next, q: stop] "
RULE = "-" * 80


@dataclass(kw_only=True)
class LessonOptions:
    """What `minigpt lesson` can be told."""

    lesson: str = argument("its number, such as 03, or its file", metavar="LESSON")
    cell: int = option(1, "begin at this cell; those before it run without being shown", metavar="N")
    core: bool = option(False, "leave the deeper parts out: what remains is read in about 25 minutes, and runs alone")

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "cell")


def step_through(options: LessonOptions) -> int:
    """Show a lesson cell by cell, and run its code; return the exit status, 1 where a cell fails.

    Where nobody types (the input is no terminal) there are no pauses. Raises InputError for a lesson or a cell that
    does not exist.
    """
    options.check()
    path = find_lesson(options.lesson)
    found = cells(path)
    if options.cell > len(found):
        raise InputError(f"--cell {options.cell}: {path.name} has {len(found)} cells")
    left_out = _left_out(found) if options.core else {}
    names = {"__name__": "__main__", "__file__": str(path)}
    sys.path.insert(0, str(path.parent))  # lessons import what lies beside them
    for number, cell in enumerate(found, start=1):
        if number in left_out:
            if number >= options.cell and left_out[number]:
                print(f"\n{left_out[number]}")
            continue
        if number < options.cell:
            with contextlib.redirect_stdout(io.StringIO()):
                failed = _run(path, cell, names)
        else:
            print(f"\n{RULE}\n{path.name}, cell {number} of {len(found)}\n")
            failed = _show(path, cell, names)
        if failed:
            print(f"the cell at line {cell.line} of {path} has failed")
            return 1
        if number >= options.cell and number < len(found) and not _goes_on():
            flag = " --core" if options.core else ""
            print(f"go on with: minigpt lesson {typed(options.lesson)}{flag} --cell {number + 1}")
            return 0
    if options.core:
        print(f"\n{minutes(core(found))} of {minutes(found)} minutes were the core")
    return 0


def _left_out(found: list[Cell]) -> dict[int, str]:
    """{number of a cell that is left out, counted from 1: what is said in its place}. One sentence for a whole part."""
    said: dict[int, str] = {}
    for part in deeper_parts(found):
        heading = found[part.start]
        for number in part:
            said[number + 1] = ""
        left = minutes(found[number] for number in part)
        said[part.start + 1] = f"left out: {heading.title} ({left} minutes)"
    return said


def find_lesson(name: str) -> Path:
    """The file of a lesson: of this number among those of this installation, or at this path.

    Raises InputError where there is none, naming those that there are.
    """
    if Path(name).is_file():
        return Path(name)
    numbers = []
    for path in find_lessons().values():
        number, _, _ = path.name.partition("_")
        if number.isdigit() and path.parent.name == "lessons":
            numbers.append(number)
            if name.isdigit() and int(name) == int(number):
                return path
    raise InputError(f"no lesson has the number or the file {name!r}: give a file, or one of {', '.join(numbers)}")


def _show(path: Path, cell: Cell, names: dict[str, Any]) -> bool:
    """Print a cell, run it if it is code, and say whether it failed."""
    if not cell.is_code:
        print(cell.prose)
        return False
    if cell.only_draws:
        print(f"    ({len(cell.lines)} lines that draw)", end="\n\n")
    else:
        print("\n".join(f"    {line}".rstrip() for line in cell.lines), end="\n\n")
    return _run(path, cell, names)


def _run(path: Path, cell: Cell, names: dict[str, Any]) -> bool:
    """Run a cell of code in the names of the lesson; did it fail? Errors show its own lines."""
    if not cell.is_code:
        return False
    name = f"{path}, the cell at line {cell.line}"
    linecache.cache[name] = (len(cell.source), None, [line + "\n" for line in cell.lines], name)
    try:
        exec(compile(cell.source, name, "exec"), names)
    except Exception as error:  # a reader may have changed the lesson: show the error from its own lines on
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)
        return True
    return False


def _goes_on() -> bool:
    """Wait for the reader, where there is one. Does the lesson go on?"""
    if not sys.stdin.isatty():
        return True
    try:
        return input(PAUSE).strip().lower() not in ("q", "quit")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
