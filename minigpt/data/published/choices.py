"""Multiple choices and gaps: RACE, the Children's Book Test, Winograd schemas, pronouns. Each gives examples.

Every item is checked. One that is not in the form of its file is refused with its line: behind it nothing may be what
it seems. One that is in form, but that a task cannot put to a model, such as a text with two gaps, is left to the task,
which leaves it out and counts it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.data.examples import Example
from minigpt.data.published.layout import GAP, list_of, text_of, texts_of, wrong
from minigpt.files.json_items import json_items
from minigpt.files.text_lines import lines_to_the_last

LETTERS = "ABCDEFGHIJ"  # how RACE names its options

# RACE.


def read_race(path: Path, labelled: bool = True) -> Iterator[Example]:
    """The questions of RACE (Lai et al. 2017): texts (article, question), four options.

    A folder of files, each an object {"article", "questions", "options", "answers"}; a file of such objects; or a file
    with a question a line, {"article", "question", "options", "answer"}. Raises InputError with the line of a bad one.
    """
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise wrong(path, 1, "files .txt in this folder, or in those below it", None)
    for file in files:
        for line, record in json_items(file):
            yield from _race_record(file, line, record, labelled)


def _race_record(path: Path, line: int, record: Any, labelled: bool) -> Iterator[Example]:
    """The questions about one article."""
    article = text_of(path, line, record, "article")
    if "question" in record:
        record = {
            "questions": [record["question"]],
            "options": [record.get("options")],
            "answers": [record.get("answer")],
        }
    questions = texts_of(path, line, record, "questions")
    options = list_of(path, line, record, "options")
    answers = list_of(path, line, record, "answers") if labelled else [None] * len(questions)
    if not len(questions) == len(options) == len(answers):
        counts = f"{len(questions)} questions, {len(options)} lists of options, {len(answers)} answers"
        raise wrong(path, line, "options and one answer for each question", counts)
    for question, of_question, answer in zip(questions, options, answers, strict=True):
        choices = texts_of(path, line, {"options": of_question}, "options")
        label = None
        if labelled:
            label = _letter(path, line, answer, len(choices))
        yield Example((article, question), label, choices)


def _letter(path: Path, line: int, answer: Any, n: int) -> int:
    """The index of an option that is named by its letter. Raises InputError for anything else, two letters too."""
    known = LETTERS[:n]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in known:
        raise wrong(path, line, f"one answer, a letter of {known}", answer)
    return known.index(answer)


# The Children's Book Test.

LAST = 21  # the line with the question
MISSING = "X" * 5
_NUMBERED = re.compile(r"(\d+) (.*)")


def read_cbt(path: Path, labelled: bool = True) -> Iterator[Example]:
    """The questions of the Children's Book Test (Hill et al. 2016): texts (20 sentences, the next one with a GAP).

    Lines that are numbered from 1 to 21. The last has fields between tabs: a sentence with MISSING in it, the word that
    is missing, nothing, and ten candidates between |. An empty line follows. Raises InputError with the line of a bad
    one.
    """
    sentences: list[str] = []
    for line, content in lines_to_the_last(path):
        if not content.strip() and not sentences:
            continue
        found = _NUMBERED.fullmatch(content.strip())
        if not found or int(found[1]) != len(sentences) + 1:
            raise wrong(path, line, f"a line that begins with the number {len(sentences) + 1}", content)
        if len(sentences) + 1 < LAST:
            sentences.append(found[2])
            continue
        yield _cbt_question(path, line, " ".join(sentences), found[2])
        sentences = []
    if sentences:
        raise wrong(path, line, f"{LAST} numbered lines for each question", content)


def _cbt_question(path: Path, line: int, context: str, content: str) -> Example:
    """The question in the last of the numbered lines."""
    question, *fields = [field.strip() for field in content.split("\t")]
    form = f"a sentence with one {MISSING}, the word that is missing, and the candidates between |"
    if question.count(MISSING) != 1 or len(fields) < 2:
        raise wrong(path, line, form, content)
    answer = fields[0]
    candidates = fields[-1].split("|") if "|" in fields[-1] else [field for field in fields[1:] if field]
    if not all(candidates) or len(candidates) < 2 or candidates.count(answer) != 1:
        raise wrong(path, line, f"{form}, all different, with {answer!r} once among them", fields[-1])
    return Example((context, question.replace(MISSING, GAP)), candidates.index(answer), tuple(candidates))


# Who is meant?

PRONOUN_FORM = f"a text that goes on after its {GAP}, {GAP}, the candidates, the right one, an empty line"


def read_pronouns(path: Path, labelled: bool = True) -> Iterator[Example]:
    """Texts with a GAP, and the candidates for it: five lines each, the last of which is empty.

    A text, its pronoun, the candidates between commas, the right one. In the collection of Winograd schemas, and what
    is made like it (WinoGender, WinoBias, PDP), the pronoun is [MASK] in both lines; in the sentences of Rahman and Ng
    (2012), DPRD, it is a word of the text. Where it stands there several times, the text has several gaps. A candidate
    may stand there twice. Raises InputError with the line where a bad one begins.
    """
    record: list[str] = []
    for line, content in lines_to_the_last(path):
        record.append(content.strip())
        if len(record) == 5:
            yield _pronoun(path, line - 4, record)
            record = []
    if record:
        yield _pronoun(path, line - len(record) + 1, record + [""] * (5 - len(record)))


def _pronoun(path: Path, line: int, record: list[str]) -> Example:
    text, pronoun, between_commas, answer, end = record
    candidates = [candidate.strip() for candidate in between_commas.split(",")]
    if pronoun and pronoun != GAP:
        text = re.sub(rf"\b{re.escape(pronoun)}\b", GAP, text)
    goes_on = text.count(GAP) > 1 or not text.endswith(GAP)
    answered = len(candidates) >= 2 and all(candidates) and answer in candidates
    if not pronoun or GAP not in text or not goes_on or not answered or end:
        raise wrong(path, line, PRONOUN_FORM, record[0])
    return Example((text,), candidates.index(answer), tuple(candidates))


# Choices as JSON.

CHOICE_FORM = '{"context": text, "choices": [text, text, ...], "label": 0, 1, ...}'


def read_choices(path: Path, labelled: bool = True) -> Iterator[Example]:
    """Lines {"context": ..., "choices": [...], "label": ...}, the label counted from 0. Raises InputError."""
    for line, record in json_items(path):
        if not _is_choice(record, labelled):
            raise wrong(path, line, CHOICE_FORM, record)
        label = record["label"] if labelled else None
        yield Example((record["context"],), label, tuple(record["choices"]))


def _is_choice(record: Any, labelled: bool) -> bool:
    if not isinstance(record, dict):
        return False
    choices = record.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return False
    texts = [record.get("context"), *choices]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return False
    label = record.get("label")
    return not labelled or (type(label) is int and 0 <= label < len(choices))  # True and False are no labels
