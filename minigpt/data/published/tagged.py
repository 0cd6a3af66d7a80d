"""Sentences with a label for each word or character: CoNLL's files, KLUE's named entities, KLUE's dependencies.

The texts of such an example are its units, and the spaces between them: together they are the sentence. Its label is a
tuple with a name for each unit that is no space.

Labels of entities are read as IOB2, whatever the file has: B-TYPE begins an entity, I-TYPE goes on with it, O is none.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import NamedTuple

from minigpt.data.examples import Example
from minigpt.data.published.layout import wrong
from minigpt.data.units import SPACE
from minigpt.files.text_lines import lines_to_the_last

NOTE = "##"  # begins a line of KLUE's files that is no unit
DOCUMENT = "-DOCSTART-"  # CoNLL's word where a document begins
OUTSIDE = "O"
KLUE_TYPES = ("PS", "LC", "OG", "DT", "TI", "QT")
KLUE_TAGS = (*(f"{prefix}-{name}" for name in KLUE_TYPES for prefix in "BI"), OUTSIDE)  # in KLUE's sequence
ENDINGS = {"E": "I", "S": "B", "L": "I", "U": "B"}  # of IOBES and of BILOU -> as IOB2 has it
TAG = re.compile(r"O|[BIESLU]-\S+")

CHARACTER_FORM = "a character, a tab, and its label a line, an empty line behind each sentence"
WORD_FORM = "a word and, last, its label O, B-TYPE or I-TYPE a line, an empty line behind each sentence"
TREE_FORM = "six fields between tabs: number, word, lemma, part of speech, head, relation"


class Unit(NamedTuple):
    """A word or a character. line: where it stands. tag: its label; "" where labels are not read."""

    line: int
    text: str
    tag: str = ""


def read_characters(path: Path, labelled: bool = True) -> Iterator[Example]:
    """KLUE's NER (Park et al. 2021, section 3.4): a character a line, a space too, and its label behind a tab.

    A space has no label of its own in what is learned and judged, as in KLUE's own code. Raises InputError with the
    line of a bad one.
    """
    for lines in _sentences(path, NOTE):
        units = []
        for line, content in lines:
            character, *fields = content.split("\t")
            tag = fields[0] if fields else ""
            if len(character) != 1 or (labelled and (len(fields) != 1 or tag not in KLUE_TAGS)):
                raise wrong(path, line, f"{CHARACTER_FORM}, one of {', '.join(KLUE_TAGS)}", content)
            units.append(Unit(line, character, tag))
        if labelled:
            _check_begun(path, units)
        yield _example(units, labelled)


def read_words(path: Path, labelled: bool = True) -> Iterator[Example]:
    """Files of CoNLL (Tjong Kim Sang and De Meulder 2003): a word a line, its label in the last column.

    The columns stand between spaces or tabs. IOB1, IOB2, IOBES and BILOU are told apart by the whole file. Without
    labels a word alone is enough. Raises InputError with the line of a bad one.
    """
    scheme = _scheme(path) if labelled else None
    for units in _words(path, labelled):
        yield _example(units if scheme is None else _as_iob2(path, units, scheme), labelled)


def read_trees(path: Path, labelled: bool = True) -> Iterator[Example]:
    """KLUE's dependencies (Park et al. 2021, section 3.6): of each word the number of its head, and their relation.

    The label of a word is "offset:relation", such as "2:NP_SBJ" where the head is two words further on, and "0:VP" of
    the word without a head (the relative positions of Strzyz et al. 2019). Raises InputError with the line of a
    bad one.
    """
    for lines in _sentences(path, NOTE):
        rows = [(line, content.split("\t")) for line, content in lines]
        units = []
        for number, (line, fields) in enumerate(rows, 1):
            numbered = len(fields) > 1 and fields[0] == str(number) and fields[1].strip()
            if not numbered or (labelled and len(fields) != 6):
                raise wrong(path, line, f"{TREE_FORM}; here number {number}", "\t".join(fields))
            tag = _of_head(path, line, number, len(rows), fields[4], fields[5]) if labelled else ""
            units.append(Unit(line, fields[1].strip(), tag))
        roots = sum(unit.tag.startswith("0:") for unit in units)
        if labelled and roots != 1:
            raise wrong(path, units[0].line, "one word with head 0 in the sentence that begins here", f"{roots} words")
        yield _example(_with_spaces(units), labelled)


def _of_head(path: Path, line: int, number: int, n: int, head: str, relation: str) -> str:
    """The label of a word. Raises InputError for a head outside of its sentence, and for a word that is its own."""
    if not head.isdecimal() or not 0 <= int(head) <= n or int(head) == number or not relation.strip():
        raise wrong(path, line, f"a head, another word of 0 to {n}, and a relation", f"{head} {relation}")
    return f"{int(head) - number if int(head) else 0}:{relation.strip()}"


def _sentences(path: Path, note: str) -> Iterator[list[tuple[int, str]]]:
    """(number, line) of the lines of each sentence. note: begins lines that are none."""
    lines: list[tuple[int, str]] = []
    for line, content in lines_to_the_last(path):
        if content.startswith(note):
            continue
        if content in ("", "\t"):
            if lines:
                yield lines
            lines = []
        else:
            lines.append((line, content))
    if lines:
        yield lines


def _words(path: Path, labelled: bool) -> Iterator[list[Unit]]:
    """The units of each sentence, with the labels as they stand in the file. Raises InputError."""
    columns = 0
    for lines in _sentences(path, DOCUMENT):
        units = []
        for line, content in lines:
            fields = re.split(r"[ \t]+", content.strip(" \t"))
            columns = columns or len(fields)
            if labelled and columns < 2:
                raise wrong(path, line, f"2 columns or more, {WORD_FORM}", content)
            if len(fields) != columns:
                raise wrong(path, line, f"{columns} columns as before, {WORD_FORM}", content)
            if labelled and not TAG.fullmatch(fields[-1]):
                raise wrong(path, line, "a label O, B-TYPE or I-TYPE, or E-TYPE or S-TYPE, in the last column", content)
            units.append(Unit(line, fields[0], fields[-1] if labelled else ""))
        yield _with_spaces(units)


def _with_spaces(units: Sequence[Unit]) -> list[Unit]:
    """With a space between each two."""
    found: list[Unit] = []
    for unit in units:
        found += [Unit(unit.line, SPACE), unit] if found else [unit]
    return found


def _example(units: Sequence[Unit], labelled: bool) -> Example:
    """Equal texts are one object: a file has few different ones."""
    tags = tuple(intern(unit.tag) for unit in units if unit.text != SPACE) if labelled else None
    return Example(tuple(intern(unit.text) for unit in units), tags)


# How a file writes where an entity begins and ends.


def _scheme(path: Path) -> str:
    """ "IOB1", "IOB2" or "IOBES". Raises InputError for a file in which B- begins some entities and I- others."""
    without_b = None  # the first entity that begins with I-
    needless_b = False  # does a B- stand where I- would begin an entity too?
    for units in _words(path, labelled=True):
        before = OUTSIDE
        for unit in units:
            if unit.text == SPACE:
                continue
            prefix, _, name = unit.tag.partition("-")
            if prefix in ENDINGS:
                return "IOBES"
            goes_on = before != OUTSIDE and before[2:] == name
            if prefix == "I" and not goes_on:
                without_b = without_b or unit
            needless_b |= prefix == "B" and not goes_on
            before = unit.tag
    if without_b is not None and needless_b:
        expected = f"B-{without_b.tag[2:]} or O, as other entities of this file begin with B-"
        raise wrong(path, without_b.line, expected, f"{without_b.text} {without_b.tag}")
    return "IOB2" if without_b is None else "IOB1"


def _as_iob2(path: Path, units: Sequence[Unit], scheme: str) -> list[Unit]:
    """The same labels as IOB2 has them. Raises InputError for half an entity of IOBES."""
    if scheme == "IOBES":
        _check_halves(path, units)
        return [_renamed(unit, ENDINGS.get(unit.tag[:1], unit.tag[:1])) for unit in units]
    found = []
    before = OUTSIDE
    for unit in units:
        begins = unit.tag.startswith("I-") and before[2:] != unit.tag[2:]
        found.append(_renamed(unit, "B") if begins else unit)
        before = unit.tag or before
    return found


def _renamed(unit: Unit, prefix: str) -> Unit:
    return unit._replace(tag=prefix + unit.tag[1:]) if unit.tag else unit


def _check_halves(path: Path, units: Sequence[Unit]) -> None:
    """Raises InputError where an entity of IOBES has no end, or no beginning."""
    is_open = ""  # the type of the entity at work
    line = 0
    for unit in [*(unit for unit in units if unit.tag), Unit(0, "", OUTSIDE)]:
        prefix, _, name = unit.tag.partition("-")
        inside = prefix in ("I", "E", "L")
        if inside != bool(is_open) or (inside and name != is_open):
            line = unit.line or line
            expected = f"an end of {is_open}, E-{is_open}" if is_open else f"a beginning, B-{name}, before it"
            raise wrong(path, line, expected, f"{unit.text} {unit.tag}".strip())
        is_open = name if prefix in ("B", "I") else ""
        line = unit.line


def _check_begun(path: Path, units: Sequence[Unit]) -> None:
    """Raises InputError for an I- that follows nothing of its type."""
    before = OUTSIDE
    for unit in units:
        if unit.tag.startswith("I-") and before[2:] != unit.tag[2:]:
            raise wrong(path, unit.line, f"B-{unit.tag[2:]}, or O, after {before}", f"{unit.text} {unit.tag}")
        before = unit.tag
