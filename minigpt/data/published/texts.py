"""Published texts: passages whose last word is missing, articles with summaries, sentences with translations."""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from minigpt.data.published.layout import Written, text_of, wrong
from minigpt.errors import InputError
from minigpt.files.disk import read_text
from minigpt.files.json_items import json_items
from minigpt.files.text_lines import lines_to_the_last

PASSAGE_FORM = '{"text": two words or more}'

# LAMBADA.


def read_passages(path: Path, labelled: bool = True) -> Iterator[str]:
    """LAMBADA as OpenAI processed it: lines {"text": two words or more}. Raises InputError."""
    for line, record in json_items(path):
        text = record.get("text") if isinstance(record, dict) else None
        if not isinstance(text, str) or len(text.split()) < 2:
            raise wrong(path, line, PASSAGE_FORM, record)
        yield text


def read_passage_lines(path: Path, labelled: bool = True) -> Iterator[str]:
    """LAMBADA as it was published (Paperno et al. 2016): a passage a line, cut into words. Raises InputError."""
    for line, text in lines_to_the_last(path):
        if len(text.split()) < 2:
            raise wrong(path, line, "a passage of two words or more", text)
        yield text.strip()


# CNN and Daily Mail.

HIGHLIGHT = "@highlight"


def read_stories(path: Path, labelled: bool = True) -> Iterator[Written]:
    """CNN and Daily Mail (Hermann et al. 2015): a file .story, or a folder of them. Raises InputError.

    An article, and then its summary: each sentence of it below a line @highlight. The sentences of a summary are joined
    by line ends, as ROUGE wants them. A few published files have no article, only a summary.
    """
    files = sorted(path.rglob("*.story")) if path.is_dir() else [path]
    if not files:
        raise wrong(path, 1, "files .story in this folder, or in those below it", None)
    for file in files:
        article, *highlights = [part.strip() for part in read_text(file).split(HIGHLIGHT)]
        if not highlights or not all(highlights):
            raise wrong(file, 1, f"an article, and sentences below lines {HIGHLIGHT}", article)
        yield Written(article, ("\n".join(highlights),))


def read_highlights(path: Path, labelled: bool = True) -> Iterator[Written]:
    """CNN and Daily Mail as lines {"article": text, "highlights": text}. Raises InputError."""
    for line, record in json_items(path):
        yield Written(text_of(path, line, record, "article"), (text_of(path, line, record, "highlights"),))


# WMT.

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)


def read_translations(sources: Path, answers: Path) -> Iterator[Written]:
    """WMT's test sets: two files with a sentence a line, or with a <seg> for each (.sgm).

    Raises InputError where one of them has more sentences than the other, or an empty one.
    """
    for source, answer in zip_longest(_sentences(sources), _sentences(answers)):
        if source is None or answer is None:
            counts = [sum(1 for _ in _sentences(path)) for path in (sources, answers)]
            found = f"{sources} has {counts[0]:,} sentences and {answers} {counts[1]:,}"
            raise InputError(f"{found}: give two files that belong together")
        line, given = source
        _, wanted = answer
        if not given or not wanted:
            raise wrong(answers if given else sources, line, "a sentence", None)
        yield Written(given, (wanted,))


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    """(the number of its line, or of its segment; the sentence)"""
    if path.suffix.lower() == ".sgm":
        for number, found in enumerate(_SEGMENT.finditer(read_text(path)), 1):
            yield number, " ".join(html.unescape(found[1]).split())
        return
    for number, line in lines_to_the_last(path):
        yield number, line.strip()
