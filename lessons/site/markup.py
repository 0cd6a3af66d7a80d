"""Small pieces of MyST Markdown: escaped prose, fences, tables, links, and docstrings as they were written."""

import inspect
import re
import textwrap
from collections.abc import Collection
from pathlib import Path

SIGNS = re.compile(r"([\\`*_{}\[\]<>$#~|^&+!@-])")  # whatever Markdown may read as more than itself
WIDTH = 120  # columns of a docstring: its text is wrapped there
SLACK = 14  # a line that ends so much earlier, or more, was ended on purpose
ITEM = re.compile(r"(- |\d+\. )(.*)", re.DOTALL)


def escaped(text: str) -> str:
    """Text that Markdown shows as it is. What stands between backticks becomes code."""
    parts = re.split(r"(`[^`\n]+`)", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            part = SIGNS.sub(r"\\\1", part)
            parts[i] = re.sub(r"^(\s*\d+)([.)])", r"\1\\\2", part)
    return "".join(parts)


def code(text: str) -> str:
    """A piece of code within a line."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}"


def fence(text: str, language: str = "text") -> str:
    """A block of code; language: that of the colours."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    body = text.strip("\n")
    return f"{ticks}{language}\n{body}\n{ticks}\n"


def details(summary: str, *blocks: str) -> str:
    """Blocks that open on a click. summary: plain HTML."""
    body = "\n".join(blocks)
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n</details>\n"


def label(name: str) -> str:
    """A place that links know by this name."""
    return f"({name})="


def link(text: str, name: str) -> str:
    """A link to a label, on this page or another."""
    return f"[{text}](#{name})"


def document(text: str, path: str) -> str:
    """A link to another page; path: from the folder of this one, without an ending."""
    plain = text.replace("`", "").replace("<", "").replace(">", "")
    return f"{{doc}}`{plain} <{path}>`"


def table(head: list[str], rows: list[list[str]], numbers: Collection[int] = ()) -> str:
    """A table whose cells are Markdown already. numbers: which columns stand at the right side, from 0."""
    aligned = ["---:" if i in numbers else "---" for i in range(len(head))]
    lines = [head, aligned, *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"\n{text}\n"


def listed(items: list[str]) -> str:
    """A list of points."""
    return "\n".join(f"- {item}" for item in items) + "\n"


def docstring(text: str | None, names: frozenset[str] = frozenset()) -> str:
    """A docstring as Markdown: paragraphs, lists, and blocks of code where it is indented.

    names: those of arguments and fields; a sentence that begins with "x, w: " becomes a point of a list. A line that
    ends long before the edge was ended by its author, and ends here too.
    """
    if not text:
        return ""
    blocks = re.split(r"\n[ \t]*\n", inspect.cleandoc(text))
    return "\n".join(_described(block, names) or _block(block) for block in _joined(blocks))


ABOUT = re.compile(r"(?:^|(?<=[.;] ))((?:\w+, )*\w+(?:=\w+)?): ")


def _described(block: str, names: frozenset[str]) -> str:
    """A paragraph that describes arguments, as a list with a point for each; "" for any other."""
    if not names or _indented(block) or ITEM.match(block):
        return ""
    flat = " ".join(line.strip() for line in block.splitlines())
    flat, raises, errors = flat.partition("Raises ")
    starts = [match for match in ABOUT.finditer(flat) if set(match[1].partition("=")[0].split(", ")) <= names]
    if not starts:
        return ""
    found = [escaped(flat[: starts[0].start()].strip()) + "\n"] if starts[0].start() else []
    ends = [match.start() for match in starts[1:]] + [len(flat)]
    for match, end in zip(starts, ends, strict=True):
        of = ", ".join(code(name) for name in match[1].split(", "))
        about = flat[match.end() : end].strip()
        if about.endswith(";"):
            about = about[:-1] + "."
        found.append(f"- {of}: {escaped(about)}")
    if raises:
        found.append("\n" + escaped(raises + errors))
    return "\n".join(found) + "\n"


def _joined(blocks: list[str]) -> list[str]:
    """Indented blocks that follow each other are one block of code."""
    joined = []
    for block in blocks:
        if joined and _indented(block) and _indented(joined[-1]):
            joined[-1] += "\n\n" + block
        else:
            joined.append(block)
    return joined


def _indented(block: str) -> bool:
    """Is it code? Its lines are indented, or all are commands."""
    if all(line.startswith("python ") for line in block.splitlines()):
        return True
    return all(line.startswith("  ") for line in block.splitlines() if line.strip())


def _block(block: str) -> str:
    """One block of a docstring, and an empty line behind it."""
    if _indented(block):
        content = textwrap.dedent(block)
        return fence(content, "python" if _is_python(content) else "text")
    lines = block.splitlines()
    prose = [line for line in lines if not line.startswith("  ")]
    if len(prose) < len(lines) and not ITEM.match(block.strip()):
        return "".join(_block(part) for part in _parts(lines))
    points = re.split(r"\n(?=- |\d+\. )", block)
    if any(ITEM.match(point) for point in points):
        return _points(points)
    return _paragraph(lines) + "\n"


def _parts(lines: list[str]) -> list[str]:
    """Prose and code that no empty line divides."""
    parts = [[lines[0]]]
    for line in lines[1:]:
        if line.startswith("  ") == parts[-1][-1].startswith("  "):
            parts[-1].append(line)
        else:
            parts.append([line])
    return ["\n".join(part) for part in parts]


def _points(points: list[str]) -> str:
    """A list, and what stands before it."""
    found = []
    for point in points:
        match = ITEM.match(point)
        if match is None:
            found.append(_paragraph(point.splitlines()) + "\n")
            continue
        mark, content = match.groups()
        body = _paragraph(textwrap.dedent(content.replace("\n  ", "\n")).splitlines())
        found.append(mark + body.replace("\n", "\n" + " " * len(mark)))
    return "\n".join(found) + "\n"


def _paragraph(lines: list[str]) -> str:
    """Lines of one paragraph; a break stays where the next word would have fitted."""
    text = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        text += escaped(line.strip())
        first_word = following.split(" ")[0]
        if following and len(line) + 1 + len(first_word) <= WIDTH - SLACK - 8:
            text += "\\"
        text += "\n"
    return text


def _is_python(text: str) -> bool:
    """Does this look like a program, not like a table or a command?"""
    try:
        compile(re.sub(r"^>>> ?", "", text, flags=re.MULTILINE), "docstring", "exec")
    except SyntaxError:
        return False
    return True


def write_pages(folder: Path, pages: dict[str, str]) -> list[Path]:
    """Write pages {path below folder: text}; one that has not changed is left alone. Returns their paths."""
    written = []
    for name, text in pages.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written
