"""The pieces of the museum: the library's source with one mistake in it, told as lines that go and lines that come.

    [GeluWithoutTheCube]
    op = "gelu"
    title = "the 3 that comes from x^3 is left out of du/dx"
    title_ko = "du/dx에서 x^3의 미분으로 나오는 3이 빠졌습니다"
    expects = "inner function"
    change = \"\"\"
    - du_dx = _C * (1 + 3 * _A * x * x)
    + du_dx = _C * (1 + _A * x * x)
    \"\"\"

A line `@ name` says in which definition; otherwise it is the backward pass. An empty line parts two changes.
title_ko: the same in Korean (no native speaker has reviewed it), as a sentence without its full stop.
expects: a part of the sentence with which the gradient check names this mistake.
page, page_ko: of a mistake that can be planted in the explorer's page, what it says of the gradients there.
page_change: the same change in the JavaScript of the page. page_wrong: of a mistake in the forward pass with which the
backward pass does not agree, a pattern for the names of the values whose gradients are wrong for the loss of that pass.
"""

import difflib
import functools
import random
import types
from pathlib import Path
from typing import NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_toml
from minigpt.learn.museum.source import WHOLE_MODEL, right_source

CHOICES, NEAR = 6, 2


class Piece(NamedTuple):
    """One mistake. number: from 1; room: its file; op: what it gets wrong, "gpt1" for a whole model; level: 1 to 4."""

    number: int
    room: str
    name: str
    op: str
    title: str
    title_ko: str
    expects: str
    change: str
    level: int = 0
    page: str = ""
    page_ko: str = ""
    page_change: str = ""
    page_wrong: str = ""

    @property
    def is_model(self) -> bool:
        """Is it a whole model, whose operations are right?"""
        return self.op == WHOLE_MODEL

    @property
    def right(self) -> str:
        """The text of the file without the mistake."""
        return right_source(self.op)

    @property
    def wrong(self) -> str:
        """The text of the file with the mistake."""
        return changed(self.right, self.change, f"{self.op}_backward")

    def module(self) -> types.ModuleType:
        """The file with the mistake, run here."""
        return as_module(self.wrong, self.op)

    def lines(self) -> set[int]:
        """The numbers of the lines in which it differs from the right file; where lines are missing, those around."""
        right, wrong = self.right.splitlines(), self.wrong.splitlines()
        found = set()
        for kind, _, _, start, end in difflib.SequenceMatcher(None, right, wrong, autojunk=False).get_opcodes():
            if kind == "delete":
                found |= {start, start + 1}
            elif kind != "equal":
                found |= set(range(start + 1, end + 1))
        return {number for number in found if number <= len(wrong) and wrong[number - 1].strip()}


def as_module(text: str, name: str) -> types.ModuleType:
    """A file of the museum, run here."""
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    return module


@functools.cache
def pieces() -> tuple[Piece, ...]:
    """All pieces, in the order of their numbers. A number stays with its piece: progress files know it by that."""
    found = []
    for file in Path(__file__).parent.glob("*.toml"):
        for name, about in read_toml(file).items():
            found.append(Piece(room=file.stem, name=name, **about))
    return tuple(sorted(found))


def piece(number: int) -> Piece:
    """The piece with this number. Raises InputError where there is none."""
    if not 1 <= number <= len(pieces()):
        raise InputError(f"there is no piece {number}: give one of 1 to {len(pieces())}")
    return pieces()[number - 1]


def choices(one: Piece) -> list[Piece]:
    """Six pieces, of which this is one: two are of the same operation, where there are two, and the rest of others."""
    rng = random.Random(one.number)
    same = [other for other in pieces() if other.op == one.op and other != one]
    near = rng.sample(same, min(NEAR, len(same)))
    far = rng.sample([other for other in pieces() if other.op != one.op], CHOICES - 1 - len(near))
    found = [one, *near, *far]
    rng.shuffle(found)
    return found


def changed(text: str, change: str, home: str = "") -> str:
    """The text after a change. home: the definition in which lines are looked up; "" for the whole text.

    Raises ValueError for lines that stand in no place, or in several.
    """
    lines = text.splitlines()
    for part in change.strip("\n").split("\n\n"):
        hunk = part.splitlines()
        where = hunk.pop(0)[2:] if hunk[0].startswith("@ ") else home
        _apply(lines, hunk, where)
    return "\n".join(lines) + "\n"


def _apply(lines: list[str], hunk: list[str], where: str) -> None:
    """Change some lines of one definition, or of the whole text."""
    old = [line[2:] for line in hunk if line[0] in "- "]
    start, end = _definition(lines, where)
    places = [i for i in range(start, end) if [line.strip() for line in lines[i : i + len(old)]] == _bare(old)]
    if len(places) != 1:
        raise ValueError(f"{old[0]!r} stands in {len(places)} places of {where or 'the text'}, and 1 is needed")
    place = places[0]
    margin = " " * (_indent(lines[place]) - _indent(old[0]))
    new = []
    for line in hunk:
        if line[0] == "+":
            new.append(margin + line[2:])
        elif line[0] == " ":
            new.append(lines[place + len([one for one in hunk[: hunk.index(line)] if one[0] in "- "])])
    lines[place : place + len(old)] = new


def _bare(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _definition(lines: list[str], name: str) -> tuple[int, int]:
    """Where a function or a class begins and ends, in Python or in JavaScript; for "" the whole text."""
    if not name:
        return 0, len(lines)
    heads = (f"def {name}(", f"class {name}(", f"export function {name}(")
    start = next(i for i, line in enumerate(lines) if line.startswith(heads))
    for end in range(start + 1, len(lines)):
        if lines[end] and not lines[end].startswith((" ", ")")):
            return start, end
    return start, len(lines)
