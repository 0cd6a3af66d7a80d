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
from itertools import product
from typing import NamedTuple

import regex

from minigpt.errors import InputError
from minigpt.files import sections

PIPELINES = ("ftfy+spacy", "rules")


class Pipeline(NamedTuple):
    """How text becomes words: `clean(text)` gives chunks between single spaces, `split(chunk)` the words of one."""

    clean: Callable[[str], str]
    split: Callable[[str], list[str]]


def pipeline(name: str) -> Pipeline:
    """The pipeline of that name. Raises InputError for an unknown one, and for libraries that are not installed."""
    check_name(name)
    if name == "rules":
        return Pipeline(lambda text: standardize(repair(text)), split_words)
    if not has_paper_pipeline():
        raise InputError("the text pipeline 'ftfy+spacy' needs both libraries: pip install ftfy spacy, or use 'rules'")
    return _paper_pipeline()


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
    return Pipeline(lambda text: standardize(ftfy.fix_text(text)), lambda chunk: [w.text for w in tokenizer(chunk)])


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
    table = {
        **dict.fromkeys([0x2BC, *range(0x2018, 0x201C)], "'"),
        **dict.fromkeys(range(0x201C, 0x2020), '"'),
        **dict.fromkeys([0x2028, 0x2029], "\n"),
        **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
        **dict.fromkeys(invisible, ""),
        **{code: unicodedata.normalize("NFKC", chr(code)) for code in ligatures + widths},
    }
    for code in range(0x80, 0xA0):  # control characters that Windows uses for others: what it means by them
        meant = bytes([code]).decode("cp1252", errors="ignore")
        table |= {code: table.get(ord(meant), meant)} if meant else {}
    return table


_REPAIR = _repair_table()
_TO_REPAIR = re.compile(f"[{re.escape(''.join(map(chr, _REPAIR)))}]")


def repair(text: str) -> str:
    """The everyday part of ftfy: straight quotes, open ligatures, half-width forms, plain line ends, `&amp;`, NFC."""
    if "<" not in text:  # else it is HTML on purpose
        text = re.sub(r"&#?\w{1,24};", lambda entity: html.unescape(entity[0]), text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _TO_REPAIR.sub(lambda found: _REPAIR[ord(found[0])], text)  # several times as fast as str.translate here
    return unicodedata.normalize("NFC", text)


# ------------------------------------------------------------------------------------------ without spaCy: split_words

_LOWER, _UPPER = r"\p{Ll}\p{Lo}", r"\p{Lu}\p{Lo}"  # scripts without capitals (Hangul, kana, Han) count as both
_QUOTES = "'\"`‘’‚“”„«»「」『』【】《》〈〉"
_MARKS = r":;,!?¿¡()\[\]{}<>#&*_؟。、·।،۔؛٪…"
_UNITS = "[kdcmn]?m[²³]?|ha|yd|in|ft|[km]?g|µg|t|lb|oz|kmh|mph|h?Pa|mbar|[mkgt]b|[MKGT]B?|%"
_FRONT = regex.compile(rf"\.\.+|''|[§%=\p{{Sc}}\p{{So}}{_MARKS}{_QUOTES}]")
_BACK = regex.compile(
    rf"(?:\.\.+|''|'[sS]|[\p{{So}}{_MARKS}{_QUOTES}]|(?<=[0-9])(?:\p{{Sc}}|{_UNITS})"
    rf"|(?<=[0-9{_LOWER}%²{_MARKS}{_QUOTES}])\.|(?<=[{_UPPER}][{_UPPER}])\.)$"
)
_MIDDLE = regex.compile(
    rf"(\.\.+|\p{{So}}|(?<=[0-9])\^(?=[0-9])|(?<=[{_LOWER}{_QUOTES}])\.(?=[{_UPPER}{_QUOTES}])"
    r"|(?<=[\p{L}0-9])[:<>=](?=\p{L}))"
)


def split_words(chunk: str) -> list[str]:
    """The words of a chunk: `she'd've` gives `she 'd 've`, `<U.S.>` gives `< U.S. >`, `'3km.'` gives `' 3 km . '`."""
    front, back = [], []
    while chunk and chunk not in _SPECIAL:
        head = _FRONT.match(chunk)
        start = head.end() if head else 0
        tail = _BACK.search(chunk, start)
        end = tail.start() if tail else len(chunk)
        if start == 0 and end == len(chunk):
            break
        if head and chunk[start:] in _SPECIAL:  # what looks like a mark at the back may belong to the word,
            end = len(chunk)
        elif tail and chunk[:end] in _SPECIAL:  # and so at the front: 'em
            start = 0
        front += [chunk[:start]] if start else []
        back += [chunk[end:]] if end < len(chunk) else []
        chunk = chunk[start:end]
    middle = _SPECIAL.get(chunk) or [piece for piece in _MIDDLE.split(chunk) if piece]
    return [*front, *middle, *reversed(back)]


def _special_words() -> dict[str, list[str]]:
    """Chunks that the patterns would split wrongly, each with its words."""
    known, special = sections.read(__file__, "chunks.txt"), {}
    for line in known["contractions"]:
        heads, endings = line.split(": ")
        for head, ending, apostrophe in product(heads.split(" "), endings.split(", "), ("'", "")):  # dont, like don't
            tails = ending.replace("'", apostrophe).split(" ")
            for start in (head, head.title()):
                special[start + "".join(tails)] = [start, *tails]
    for word in " ".join(known["no contractions"]).split():
        for spelling in (word, word.title()):
            special.pop(spelling, None)
    for first, second in (pair.split(" ") for line in known["joined"] for pair in line.split(", ")):
        for start in (first, first.capitalize()):
            special[start + second] = [start, second]
    for hour, half in product(range(1, 13), ("a.m.", "p.m.", "am", "pm")):
        special[f"{hour}{half}"] = [str(hour), half]
    return special | {word: [word] for line in known["whole"] for word in line.split(" ")}


_SPECIAL = _special_words()
