"""The functions and models of a lesson, for a benchmark that repeats its experiment: they stand once, in the lesson."""

import re

import machine

from minigpt.learn.cells import cells


def names_of(
    lesson: str, sections: tuple[int, ...], without: tuple[str, ...] = (), seeds: tuple[int, ...] = ()
) -> dict:
    """Run the code cells of some sections of a lesson in their order -> everything that they define, by name.

    without: a cell that holds one of these texts is left out, for example one that reads the benchmark's own record.
    Pictures are left out too. seeds: in place of the lesson's line `SEEDS = (...)`.
    """
    (path,) = (machine.ROOT / "lessons").glob(f"{lesson}_*.py")
    section, names = 0, {"__name__": f"lesson_{lesson}"}
    for cell in cells(path):
        if not cell.is_code:
            begun = re.findall(r"^## (\d+)\. ", cell.prose, re.MULTILINE)
            section = int(begun[-1]) if begun else section
            continue
        left_out = any(text in cell.source for text in (*without, "plot.save("))
        if section not in sections or left_out:
            continue
        source = cell.source
        if seeds:
            source = re.sub(r"^SEEDS = .*", f"SEEDS = {seeds}", source, flags=re.MULTILINE)
        exec(compile("\n" * (cell.line - 1) + source, path, "exec"), names)
    return names
