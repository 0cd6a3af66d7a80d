"""What pages need to be read on a narrow screen: lines of code that can wrap, tables that can be stacked.

`site.css` does the rest: there a line that wraps goes on two columns behind its own indentation, and a row of a table
stands as a block, in which each number has the head of its column before it.
"""

import re

BLOCK = re.compile(r"(<pre>)(<span></span>)?(.*?)(</pre>)", re.DOTALL)  # of Pygments: no tag there is open over lines
TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
PICTURE = re.compile(r'(<a\b[^>]*>\s*)?<img\b[^>]*\bsrc="([^"]+)"[^>]*>')
TAG = re.compile(r"<[^>]+>")
GAP = re.compile(r"\S {2,}(?=\S)")
NUMBER = re.compile(r"-?\d+\.\d*(e[-+]?\d+)?")
EXPLAINED = ("glossary",)  # pages whose last column says what it is without a head
COMPARED = ("benchmarks/",)  # pages whose tables stay tables: their columns of numbers are compared


def page(html: str, name: str) -> str:
    """The text of a page, ready for a narrow screen. name: "operations/layernorm"."""
    made = BLOCK.sub(_block, html)
    if not name.startswith(COMPARED) or name.endswith("/index"):
        made = TABLE.sub(lambda found: _table(found.group(), name in EXPLAINED), made)
    return PICTURE.sub(_picture, made)


def _picture(found: re.Match) -> str:
    """A picture as a link to its file, where it can be enlarged; one that is a link already stays."""
    return found[0] if found[1] else f'<a class="picture" href="{found[2]}">{found[0]}</a>'


def _block(found: re.Match) -> str:
    """A block of code or output, each line in an element of its own; one that stands in columns says so."""
    opened, empty, text, closed = found.groups()
    lines = text.splitlines(keepends=True)
    if is_in_columns([TAG.sub("", line) for line in lines]):
        opened = '<pre class="columns">'
    return "".join([opened, empty or "", *map(line_of_code, lines), closed])


def line_of_code(line: str) -> str:
    """A line with its newline as an element that knows its indentation."""
    text = TAG.sub("", line)
    indentation = len(text) - len(text.lstrip(" "))
    return f'<span class="line" style="--in:{indentation}">{line}</span>'


def is_in_columns(lines: list[str]) -> bool:
    """Do most lines stand in columns? Then they cannot wrap: three words or numbers with gaps, or rows of numbers."""
    full = [line for line in lines if line.strip()]
    if len(full) < 2 or any("def " in line or " = " in line for line in full):
        return False
    return sum(len(GAP.findall(line)) >= 2 or len(NUMBER.findall(line)) >= 3 for line in full) * 2 > len(full)


def _table(table: str, is_explained: bool) -> str:
    """A table whose cells know the heads of their columns, the last one's only where that says more than the cell."""
    names = [TAG.sub("", head).strip() for head in HEAD.findall(table)]
    if is_explained:
        names[-1] = ""
    made = ROW.sub(lambda row: _row(row.group(), names), table)
    return made.replace('<table class="', '<table class="stacks ', 1)


def _row(row: str, names: list[str]) -> str:
    """A row of a table: from its second cell on, each has the head of its column. Two columns need no heads."""
    column = 0

    def cell(found: re.Match) -> str:
        nonlocal column
        column += 1
        named = 1 < column <= len(names) and len(names) > 2 and names[column - 1]
        return f'<td data-head="{names[column - 1]}"' if named else "<td"

    return re.sub(r"<td\b", cell, row)
