"""From raw text to words, as GPT-1 did before any merge (GPT-1 §4.1): clean, standardise, split.

The paper cleaned its books with the `ftfy` library, standardised punctuation and spaces, and split words with the rules
of spaCy's English tokenizer. With the extra `gpt1` that is what runs here ("ftfy+spacy"). Without it, "rules" does
nearly the same with what is written below:

- `repair` straightens quotes, opens ligatures, composes accents, reads HTML entities and drops control characters. It
  does not undo text that was decoded with the wrong encoding, which ftfy does.
- `split_words` takes off marks at both ends and splits contractions and words written as one. It knows fewer
  abbreviations than spaCy, no emoticons and no web addresses.

Measured: of 2.2 million words of English books the two split 14 differently; of Korean film reviews one word in 300,
mostly because spaCy takes 싶다.친구야 for a web address. Either way words are split only inside a run of characters
without a space (a chunk), so that a chunk has the same words wherever it stands.
"""

import html
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import regex

from minigpt.errors import InputError
from minigpt.files.disk import read_toml

PIPELINES = ("ftfy+spacy", "rules")


class Pipeline(NamedTuple):
    """How text becomes words: `clean(text)` gives chunks between single spaces, `split(chunk)` the words of one."""

    clean: Callable[[str], str]
    split: Callable[[str], list[str]]


def pipeline(name: str) -> Pipeline:
    """The pipeline of that name. Raises InputError for an unknown one, and for libraries that are not installed."""
    check_name(name)
    if name == "rules":
        return Pipeline(_clean_by_rules, split_words)
    of_paper = _paper_pipeline() if has_paper_pipeline() else None
    if of_paper is None:
        raise InputError("the text pipeline 'ftfy+spacy' needs both libraries: pip install ftfy spacy, or use 'rules'")
    return of_paper


def _clean_by_rules(text: str) -> str:
    return standardize(repair(text))


def check_name(name: str) -> None:
    """Raise InputError for a name that is not in `PIPELINES`."""
    if name not in PIPELINES:
        raise InputError(f"the text pipeline {name!r} is not known: choose {' or '.join(map(repr, PIPELINES))}")


def has_paper_pipeline() -> bool:
    """Whether ftfy and spaCy are both installed, and work."""
    return _paper_pipeline() is not None


@lru_cache
def _paper_pipeline() -> Pipeline | None:
    try:
        import ftfy
        import spacy
    except ImportError:
        return None
    tokenizer = spacy.blank("en").tokenizer  # its rules alone: no trained model is needed

    def clean(text: str) -> str:
        return standardize(ftfy.fix_text(text))

    def split(chunk: str) -> list[str]:
        return [word.text for word in tokenizer(chunk)]

    return Pipeline(clean, split)


def tables() -> dict[str, dict]:
    """What "rules" looks up, for an implementation in another language.

    "repair": {character: what stands for it}, without halves of surrogate pairs, for each of which U+FFFD stands;
    "ascii": {mark: how it is written in ASCII}; "special": {chunk: its words}; "patterns": regular expressions by name.
    """
    repair = {chr(code): stands for code, stands in _REPAIR.items() if not 0xD800 <= code < 0xE000}
    patterns = {"run": _RUN_OF_ONE_MARK, "front": _FRONT, "back": _BACK, "middle": _MIDDLE}
    sources = {name: pattern.pattern for name, pattern in patterns.items()}
    return {"repair": repair, "ascii": _TO_ASCII, "special": _SPECIAL, "patterns": sources}


# ------------------------------------------------------------------------------------------------- as OpenAI wrote it

_TO_ASCII = {"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"}
_RUN_OF_ONE_MARK = re.compile(r'([-~!";?+,)(/*\[\]}{|_])\1*')


def standardize(text: str) -> str:
    """OpenAI's `text_standardize`: dashes, dots and quotes in ASCII; a space around every run of one punctuation mark.

    Line ends become `" \\n "`, several of them one; other white space becomes one space. The period, the colon and the
    apostrophe are left to the splitter. (The published pattern means to name the backslash too, but does not.)
    """
    for mark, ascii_mark in _TO_ASCII.items():
        text = text.replace(mark, ascii_mark)
    text = _RUN_OF_ONE_MARK.sub(r" \g<0> ", text)
    text = re.sub(r"(?<!\s)\s*\n\s*", " \n ", text)
    return re.sub(r"[^\S\n ][^\S\n]*| [^\S\n]+", " ", text).strip()  # single spaces, most of them, are right already


# ----------------------------------------------------------------------------------------------- without ftfy: repair


def _repair_table() -> dict[int, str]:
    """Characters that are replaced one by one: {code point: what stands for it}."""
    ligatures = [0x132, 0x133, *range(0x1C4, 0x1CD), *range(0x1F1, 0x1F4), *range(0xFB00, 0xFB07)]
    widths = [*range(0xFF01, 0xFFEF), 0x3000]  # full-width and half-width forms
    invisible = [*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, *range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFD)]
    table = {}
    table |= dict.fromkeys([0x2BC, *range(0x2018, 0x201C)], "'")
    table |= dict.fromkeys(range(0x201C, 0x2020), '"')
    table |= dict.fromkeys([0x2028, 0x2029], "\n")
    table |= dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
    table |= dict.fromkeys(invisible, "")
    for code in ligatures + widths:
        table[code] = unicodedata.normalize("NFKC", chr(code))
    for code in range(0x80, 0xA0):  # control characters, which Windows (code page 1252) uses for others
        meant = bytes([code]).decode("cp1252", errors="ignore")
        if meant:
            table[code] = table.get(ord(meant), meant)
    return table


_REPAIR = _repair_table()
_CHARACTERS_TO_REPAIR = "".join(map(chr, _REPAIR))
_TO_REPAIR = re.compile(f"[{re.escape(_CHARACTERS_TO_REPAIR)}]")
_ENTITY = re.compile(r"&#?\w{1,24};")


def _unescape(entity: re.Match) -> str:
    return html.unescape(entity[0])


def _repaired(character: re.Match) -> str:
    return _REPAIR[ord(character[0])]


def repair(text: str) -> str:
    """The everyday part of ftfy: straight quotes, open ligatures, half-width forms, plain line ends, `&amp;`, NFC."""
    if "<" not in text:  # else it is HTML on purpose
        text = _ENTITY.sub(_unescape, text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _TO_REPAIR.sub(_repaired, text)  # several times as fast as str.translate here
    return unicodedata.normalize("NFC", text)


# ------------------------------------------------------------------------------------------ without spaCy: split_words

_LOWER, _UPPER = r"\p{Ll}\p{Lo}", r"\p{Lu}\p{Lo}"  # scripts without capitals (Hangul, kana, Han) count as both
_QUOTES = "'\"`‘’‚“”„«»「」『』【】《》〈〉"
_MARKS = r":;,!?¿¡()\[\]{}<>#&*_؟。、·।،۔؛٪…"
_UNITS = "[kdcmn]?m[²³]?|ha|yd|in|ft|[km]?g|µg|t|lb|oz|kmh|mph|h?Pa|mbar|[mkgt]b|[MKGT]B?|%"
_FRONT = regex.compile(rf"\.\.+|''|[§%=\p{{Sc}}\p{{So}}{_MARKS}{_QUOTES}]")
_BACK = regex.compile(
    rf"(?:''|'[sS]|[\p{{So}}{_MARKS}{_QUOTES}]|(?<=[0-9])(?:\p{{Sc}}|{_UNITS})"
    rf"|(?<=[0-9{_LOWER}%²{_MARKS}{_QUOTES}])\.|(?<=[{_UPPER}][{_UPPER}])\.)$"
)
_LONGEST_BACK = len("mbar")
_MIDDLE = regex.compile(
    rf"(\.\.+|\p{{So}}|(?<=[0-9])\^(?=[0-9])|(?<=[{_LOWER}{_QUOTES}])\.(?=[{_UPPER}{_QUOTES}])"
    r"|(?<=[\p{L}0-9])[:<>=](?=\p{L}))"
)


def split_words(chunk: str) -> list[str]:
    """The words of a chunk: `she'd've` gives `she 'd 've`, `<U.S.>` gives `< U.S. >`, `'3km.'` gives `' 3 km . '`."""
    front = []
    back = []  # from the last word to the first
    start = 0  # chunk[start:end] is what has not been split yet
    end = len(chunk)
    while start < end and not _is_special(chunk, start, end):
        head = _FRONT.match(chunk, start, end)
        inner_start = head.end() if head else start
        inner_end = _start_of_back(chunk, inner_start, end)
        if inner_start == start and inner_end == end:
            break
        if head and _is_special(chunk, inner_start, end):  # the mark at the back may belong to the word,
            inner_end = end
        elif inner_end < end and _is_special(chunk, start, inner_end):  # and so may the one at the front: 'em
            inner_start = start
        if inner_start > start:
            front.append(chunk[start:inner_start])
        if inner_end < end:
            back.append(chunk[inner_end:end])
        start = inner_start
        end = inner_end
    middle = chunk[start:end]
    if middle in _SPECIAL:
        words = _SPECIAL[middle]
    else:
        words = [part for part in _MIDDLE.split(middle) if part]
    return [*front, *words, *reversed(back)]


def _is_special(chunk: str, start: int, end: int) -> bool:
    """Is this part of a chunk one that has its own words?"""
    return end - start <= _LONGEST_SPECIAL and chunk[start:end] in _SPECIAL


def _start_of_back(chunk: str, start: int, end: int) -> int:
    """Where the word begins that `_BACK` takes off the end of chunk[start:end]; `end` where there is none.

    All but a run of periods are short, so that only the last few characters are searched.
    """
    if chunk.endswith("..", start, end):
        while end > start and chunk[end - 1] == ".":
            end -= 1
        return end
    tail = _BACK.search(chunk, max(start, end - _LONGEST_BACK), end)
    return tail.start() if tail else end


def _special_chunks() -> dict[str, list[str]]:
    """Chunks that the patterns would split wrongly, each with its words: `chunks.toml`, and times such as `3am`."""
    tables = read_toml(Path(__file__).with_name("chunks.toml"))
    special = {}
    for table in tables["contractions"]:
        for word in table["words"].split():
            for ending in table["endings"]:
                special |= _contractions(word, ending)
    for word in tables["no_contractions"].split():
        special.pop(word, None)
        special.pop(word.title(), None)
    for pair in tables["joined"]:
        first, second = pair.split()
        special[first + second] = [first, second]
        special[first.capitalize() + second] = [first.capitalize(), second]
    for hour in range(1, 13):
        for half in ("a.m.", "p.m.", "am", "pm"):
            special[f"{hour}{half}"] = [str(hour), half]
    for word in tables["whole"].split():
        special[word] = [word]
    return special


def _contractions(word: str, ending: str) -> dict[str, list[str]]:
    """The spellings of a contraction: `do` and `n't` give `don't`, `dont`, `Don't`, `Dont`, each with its words."""
    spellings = {}
    for written in (ending, ending.replace("'", "")):
        tails = written.split()
        for start in (word, word.title()):
            spellings[start + "".join(tails)] = [start, *tails]
    return spellings


_SPECIAL = _special_chunks()
_LONGEST_SPECIAL = max(map(len, _SPECIAL))
