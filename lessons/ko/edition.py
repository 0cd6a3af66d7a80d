"""The Korean edition: for each lesson a file of prose beside it, cell by cell; code cells come from the lesson itself.

    python lessons/ko/edition.py               what is missing, superfluous, or older than its English original
    python lessons/ko/edition.py --new 03      the markers of lesson 03 with the English text, to be translated
    python lessons/ko/edition.py --accept 03 4     cell 4 has been looked at: it is as new as its original again

A file `lessons/ko/NN_name.md` has a line `<!-- cell 3 1a2b3c4d -->` above each cell: the cell's number in the lesson,
counted from 0 with the code cells, and the digest of the English text that was translated. `README.ko.md` is compared
with `README.md` in the same way: a line `<!-- of 1a2b3c4d -->` stands above each paragraph, and code is repeated.
"""

import argparse
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # this clone's package, installed or not

from minigpt.errors import InputError  # noqa: E402
from minigpt.files.disk import read_text, write_text  # noqa: E402
from minigpt.learn.cells import cells  # noqa: E402

LESSONS = HERE.parent
README = LESSONS.parent / "README.md"
KOREAN_README = LESSONS.parent / "README.ko.md"
LAST = "17"  # the edition holds lessons 00 to this one
CELL = re.compile(r"^<!-- cell (\d+) ([0-9a-f]{8}) -->$")
PARAGRAPH = re.compile(r"^<!-- of ([0-9a-f]{8}) -->$")
FENCE = "```"


class Piece(NamedTuple):
    """A translated cell: its number in the lesson, the digest of its original, and its text."""

    number: int
    digest: str
    text: str


# --- lessons ---------------------------------------------------------------------------------------------------------


def digest_of(text: str) -> str:
    """The first 8 hexadecimal digits of the sha256 of a text, without white space at its ends."""
    return hashlib.sha256(text.strip().encode("utf-8")).hexdigest()[:8]


def read(path: Path) -> list[Piece]:
    """The cells of a file of Korean prose, in its order: (number, digest, text) each.

    Raises InputError where the file cannot be read, text stands above the first marker, or a marker is none.
    """
    lines = read_text(path).splitlines()
    found: list[tuple[int, str, list[str]]] = []
    for count, line in enumerate(lines, start=1):
        marker = CELL.match(line)
        if marker:
            found.append((int(marker.group(1)), marker.group(2), []))
        elif line.startswith("<!-- cell"):
            raise InputError(f"{path.name}:{count}: {line!r} is no marker such as <!-- cell 3 1a2b3c4d -->")
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise InputError(f"{path.name}:{count}: text above the first marker, such as <!-- cell 0 1a2b3c4d -->")
    return [Piece(number, digest, "\n".join(text).strip()) for number, digest, text in found]


def originals(lesson: Path) -> dict[int, str]:
    """The English prose of a lesson: for the number of each cell of prose its text.

    Raises InputError where the file cannot be read, or has no cells.
    """
    read_text(lesson)
    return {number: cell.prose.strip() for number, cell in enumerate(cells(lesson)) if not cell.is_code}


def complaints(english: dict[int, str], korean: list[Piece]) -> list[str]:
    """What is missing, superfluous, out of order, or older than its original: a sentence for each."""
    numbers = [piece.number for piece in korean]
    found = [f"cell {number} is missing" for number in english if number not in numbers]
    for piece in korean:
        if piece.number not in english:
            found.append(f"cell {piece.number} is no cell of prose in the original")
        elif piece.digest != digest_of(english[piece.number]):
            found.append(f"cell {piece.number} is older than its original")
        elif not piece.text:
            found.append(f"cell {piece.number} is empty")
    if numbers != sorted(set(numbers)):
        found.append("its cells are not in the order of the original, each of them once")
    return found


def in_korean(notebook, path: Path):
    """The same notebook (as jupytext or nbformat read it) with the Korean prose of this file in its cells of prose.

    Raises InputError, which names the file and the cell, where one is missing, superfluous, or older than its original.
    """
    prose = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "markdown"]
    english = {number: notebook.cells[number].source for number in prose}
    korean = read(path)
    found = complaints(english, korean)
    if found:
        raise InputError(f"{path.name}: {found[0]}: `python lessons/ko/edition.py` lists what is to be done")
    for piece in korean:
        notebook.cells[piece.number].source = piece.text
    return notebook


def edition() -> list[Path]:
    """The lessons that the edition holds."""
    return [path for path in sorted(LESSONS.glob("[0-9][0-9]_*.py")) if path.name[:2] <= LAST]


def lesson_of(number: str) -> Path:
    """The lesson with this number. Raises InputError where there is none."""
    found = sorted(LESSONS.glob(f"{number}_*.py")) if re.fullmatch(r"\d\d", number) else []
    if not found:
        raise InputError(f"there is no lesson {number!r}: give two digits, such as 03")
    return found[0]


def korean_of(lesson: Path) -> Path:
    """The file of Korean prose of a lesson, which need not exist."""
    return HERE / f"{lesson.stem}.md"


def skeleton(lesson: Path) -> str:
    """Markers for all cells of prose of a lesson, each with its English text below."""
    blocks = [f"<!-- cell {number} {digest_of(text)} -->\n{text}" for number, text in originals(lesson).items()]
    return "\n\n".join(blocks)


def accept(lesson: Path, number: int) -> None:
    """Give this cell the digest of its original as it is now; the file is written whole, or stays as it is.

    Raises InputError where either file lacks the cell, and where the file cannot be read or written.
    """
    path = korean_of(lesson)
    english = originals(lesson)
    text = read_text(path) if path.exists() else ""
    marker = re.compile(rf"^<!-- cell {number} [0-9a-f]{{8}} -->$", re.MULTILINE)
    if number not in english or not marker.search(text):
        raise InputError(f"{path.name} or {lesson.name} has no cell {number}: `--new {lesson.name[:2]}` lists all")
    marked = marker.sub(f"<!-- cell {number} {digest_of(english[number])} -->", text)
    write_text(path, marked)


# --- the README ------------------------------------------------------------------------------------------------------


def paragraphs(text: str) -> list[str]:
    """The blocks between empty lines; a fenced block of code is one, with its empty lines."""
    blocks: list[list[str]] = [[]]
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith(FENCE)
        if line.strip() or is_code:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return ["\n".join(block) for block in blocks if block]


def is_copied(paragraph: str) -> bool:
    """Is this paragraph the same in both languages? So are code and comments."""
    return paragraph.startswith((FENCE, "    ", "<!--"))


def readme_complaints(english: str, korean: str) -> list[str]:
    """What README.ko.md lacks, has too much, or has from an older original: a sentence for each."""
    expected = paragraphs(english)
    found = []
    blocks = paragraphs(korean)
    for count, block in enumerate(blocks, start=1):
        marker = PARAGRAPH.match(block.splitlines()[0])
        original = expected[count - 1] if count <= len(expected) else None
        is_right = original and marker and not is_copied(original) and marker.group(1) == digest_of(original)
        if not (is_right or (original and is_copied(original) and block == original)):
            found.append(f"paragraph {count} is no translation of the present original: {block.splitlines()[-1][:60]}")
    if len(blocks) != len(expected):
        found.append(f"it has {len(blocks)} paragraphs, and the original has {len(expected)}")
    return found


def readme_skeleton(english: str) -> str:
    """README.md with a marker above each paragraph that is to be translated."""
    blocks = [text if is_copied(text) else f"<!-- of {digest_of(text)} -->\n{text}" for text in paragraphs(english)]
    return "\n\n".join(blocks)


# --- the command -----------------------------------------------------------------------------------------------------


def report() -> list[str]:
    """What is to be done in all files of the edition: a line for each."""
    found = []
    for lesson in edition():
        path = korean_of(lesson)
        there = complaints(originals(lesson), read(path)) if path.exists() else ["is missing"]
        found += [f"{path.name}: {complaint}" for complaint in there]
    if KOREAN_README.exists():
        both = [read_text(path) for path in (README, KOREAN_README)]
        found += [f"{KOREAN_README.name}: {complaint}" for complaint in readme_complaints(*both)]
    return found


def options(words: list[str] | None) -> argparse.Namespace:
    """The command line. Ends the program with status 2 for one that cannot be read."""
    parser = argparse.ArgumentParser(prog="python lessons/ko/edition.py", description=__doc__.splitlines()[0])
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--new", metavar="NN", help="print markers and English text of this lesson, or of README")
    one.add_argument("--accept", nargs=2, metavar=("NN", "CELL"), help="this cell is as new as its original")
    return parser.parse_args(words)


def run(given: argparse.Namespace) -> int:
    """Do what the command line says. Returns 0, or 1 where something is to be done. Raises InputError."""
    if given.new:
        text = readme_skeleton(read_text(README)) if given.new == "README" else skeleton(lesson_of(given.new))
        print(text, flush=True)
        return 0
    if given.accept:
        number, cell = given.accept
        if not re.fullmatch("[0-9]{1,4}", cell):
            raise InputError(f"--accept {number} {cell}: the second is the number of a cell, such as 4")
        accept(lesson_of(number), int(cell))
    found = report()
    print("\n".join(found) or "every cell is as new as its original", flush=True)
    return 1 if found else 0


def main(words: list[str] | None = None) -> int:
    """The command. Returns its exit status: 1 where something is to be done, 2 where something is wrong.

    141: the reader of the output has gone.
    """
    try:
        return run(options(words))
    except InputError as error:
        message = str(error)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python writes what is left when it ends
        return 141
    except OSError as error:
        message = f"{error.filename or 'the output'}: {error.strerror or error}"
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    status = main()
    if status == 2:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the disk may be full
    sys.exit(status)
