"""Text files that people read and change, in place of tables in code: headings, and indented lines below them.

    # a comment, which begins at the margin
    places
        in bedroom: under bed, on shelf
        in kitchen: on table, beside stove,
            under table                     <- indented by eight or more: the line before goes on
"""

from pathlib import Path


def read(module: str, name: str) -> dict[str, list[str]]:
    """{heading: the lines below it} of a file beside a module: `sections.read(__file__, "words.txt")`."""
    found, lines = {}, []
    for line in Path(module).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith(" " * 8):
            lines[-1] += " " + line.strip()
        elif line.startswith(" "):
            lines.append(line.strip())
        elif line and not line.startswith("#"):
            lines = found[line] = []
    return found
