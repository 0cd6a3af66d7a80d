"""A card to print: the letters, shapes, formulas and terms of GPT-1 and GPT-2 on one page, English and Korean.

    python lessons/poster/card.py                # card.pdf
    python lessons/poster/card.py --out folder

A page of A4. Letters and terms are those of `lessons/README.md`, the formulas those of the poster. A font with Korean
letters is needed: one of the system, or `pip install koreanize-matplotlib`, which brings one.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

import poster
from poster import BLUE, GRAY, HERE, RED, plot

from minigpt.errors import InputError

TITLE = "GPT-1 and GPT-2 on a card"
A4 = (11.69, 8.27)  # inches, 297 by 210 mm
LAST = 17  # the last lesson on GPT-1 and GPT-2
TOP = 7.45  # where the columns begin
LINE = 0.157  # inches from one line to the next
SIZE = 6.6  # of letters, in points
SHAPES = (
    ("ids, targets", "(B, T)"),
    ("residual stream x", "(B, T, C)"),
    ("q, k, v of all heads", "(B, NH, T, D)"),
    ("scores s, shares p", "(B, NH, T, T)"),
    ("inside the MLP", "(B, T, F)"),
    ("logits z", "(B, T, V)"),
)
OPERATIONS = ("embedding", "ln_1", "attention", "add_1", "mlp", "logits")  # steps of the poster


class Term(NamedTuple):
    """A term in two languages, and the number of the first lesson that uses it."""

    english: str
    korean: str
    lesson: int


def letters() -> list[tuple[str, str, str]]:
    """(letter, what it counts, how many GPT-1 has) of the notation."""
    table = section("Notation").partition("\n\nIn lesson ")[0]
    return re.findall(r"^\| ([A-Z]+) \| ([^|]+) \| ([\d,]+) \|$", table, re.MULTILINE)


def terms() -> list[Term]:
    """The terms of the lessons on GPT-1 and GPT-2, those of the first lesson first."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\d\d) \| [^|]+ \|$", section("Terms"), re.MULTILINE)
    found = [Term(english.replace("`", ""), korean, int(lesson)) for english, korean, lesson in rows]
    return sorted((term for term in found if term.lesson <= LAST), key=lambda term: term.lesson)


def section(title: str) -> str:
    """A section of `lessons/README.md`."""
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


class Card:
    """The page. All lengths are inches; (0, 0) is the lower left corner."""

    def __init__(self):
        width, height = A4
        self.figure = plot.plt.figure(figsize=A4, layout="none")
        self.page = self.figure.add_axes((0, 0, 1, 1))
        self.page.set(xlim=(0, width), ylim=(0, height))
        self.page.set_axis_off()
        self.text(0.5, 7.9, TITLE, size=15, weight="bold")
        self.text(width - 0.5, 0.25, "python lessons/poster/card.py", color=GRAY, ha="right", family="monospace")
        below = self.letters(0.5, TOP)
        below = self.shapes(0.5, below - LINE)
        self.formulas(0.5, below - LINE)
        self.terms(4.75)

    def text(self, x: float, y: float, text: str, size: float = SIZE, color: str = "black", **more) -> None:
        """Text whose left end is at x, on the line y."""
        self.page.text(x, y, text, size=size, color=color, **{"va": "baseline"} | more)

    def heading(self, x: float, y: float, text: str) -> float:
        """A heading; returns the next line."""
        self.text(x, y, text, size=9, color=BLUE, weight="bold")
        return y - 1.2 * LINE

    def letters(self, x: float, y: float) -> float:
        """What the letters count; returns the line below."""
        y = self.heading(x, y, "Letters, and how many GPT-1 has")
        for letter, counted, of_gpt1 in letters():
            self.text(x, y, letter, weight="bold")
            self.text(x + 0.3, y, counted)
            self.text(x + 3.9, y, of_gpt1, ha="right")
            y -= LINE
        return y

    def shapes(self, x: float, y: float) -> float:
        """The shapes of the arrays; returns the line below."""
        y = self.heading(x, y, "Shapes; a gradient has the shape of its array")
        for name, shape in SHAPES:
            self.text(x, y, name)
            self.text(x + 1.5, y, shape, family="monospace")
            y -= LINE
        return y

    def formulas(self, x: float, y: float) -> None:
        """Each operation, forward and backward."""
        y = self.heading(x, y, "Forward")
        self.text(x + 1.95, y + 1.2 * LINE, "and backward", size=9, color=RED, weight="bold")
        said = poster.words("en")
        for step in poster.STEPS:
            if step.words not in OPERATIONS:
                continue
            self.text(x, y, said[step.words]["name"], weight="bold")
            y -= 1.25 * LINE
            for column, color, lines in ((x, BLUE, step.forward), (x + 1.95, RED, step.backward)):
                for number, formula in enumerate(lines):
                    self.text(column, y - 1.35 * LINE * number, formula, size=8, color=color)
            y -= 1.35 * LINE * max(len(step.forward), len(step.backward))

    def terms(self, x: float) -> None:
        """The terms in two columns: English, Korean, and the first lesson."""
        found = terms()
        half = (len(found) + 1) // 2
        for column, part in ((x, found[:half]), (x + 3.3, found[half:])):
            y = self.heading(column, TOP, "Terms, 용어, and the first lesson")
            for term in part:
                self.text(column, y, term.english)
                self.text(column + 1.6, y, term.korean)
                self.text(column + 3.1, y, f"{term.lesson:02}", color=GRAY, ha="right")
                y -= LINE


def write(path: Path) -> None:
    """Draw the card into a file. Raises InputError where no font has Korean letters."""
    poster.find_font("ko")
    poster.save(Card().figure, path, TITLE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(), help="the folder; without it the current one")
    given = parser.parse_args()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        write(given.out / "card.pdf")
    except (InputError, OSError) as error:
        print(f"card.py: {error}", file=sys.stderr)
        return 2
    print(f"card: {given.out / 'card.pdf'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
