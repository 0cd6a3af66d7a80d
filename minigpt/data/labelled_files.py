"""Labelled examples from files: tab-separated, CSV and JSON Lines, with their columns by name.

The suffix decides. `.tsv` and `.txt`: fields between tabs; a quote is text like any other, as GLUE and NSMC have it.
`.csv`: fields between commas, quoted where they hold commas, quotes or line ends. `.jsonl` and `.json`: an object a
line. UTF-8, with or without a byte-order mark; lines end with \\n or \\r\\n; spaces around a field are dropped.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data.examples import KINDS, Example, Task, check_task
from minigpt.errors import InputError
from minigpt.files.disk import read_text

ROLES = {  # the columns of each kind, if nobody says otherwise; a question need not be there, a choice3, ... may be
    "classification": ("text", "label"),
    "entailment": ("premise", "hypothesis", "label"),
    "similarity": ("a", "b", "label", "score"),
    "choice": ("context", "question", "choice1", "choice2", "label"),
}
TEXTS = ("text", "premise", "hypothesis", "a", "b", "context", "question")
CHOICE, NUMBER = r"choice[1-9]\d?", r"\d+(\.\d*)?(e-\d+)?"
SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "json", ".json": "json"}
Column = str | tuple[str, ...]  # several, where their texts are joined by spaces


class Layout(NamedTuple):
    """How a published data set is written."""

    kind: str
    columns: Mapping[str, Column]  # where they are not called as in ROLES
    names: Mapping[str, str] = {}  # how a label stands in the file -> its name; in the order of the labels
    metric: str = ""  # as the papers judge it; "": as is usual for its kind
    header: tuple[str, ...] = ()  # the columns of a file that has no line for them
    gaps: bool = False  # some of its texts are known to be empty


_STORY = {"context": tuple(f"InputSentence{i}" for i in (1, 2, 3, 4)), "label": "AnswerRightEnding"}
LAYOUTS = {
    "sst2": Layout("classification", {"text": "sentence"}, {"0": "negative", "1": "positive"}),
    "cola": Layout("classification", {"text": "sentence"}, {"0": "unacceptable", "1": "acceptable"}, "matthews",
                   header=("source", "label", "mark", "sentence")),
    "rte": Layout("entailment", {"premise": "sentence1", "hypothesis": "sentence2"},
                  {name: name for name in ("not_entailment", "entailment")}),
    "stsb": Layout("similarity", {"a": "sentence1", "b": "sentence2", "score": "score"}, metric="pearson"),
    "storycloze": Layout("choice", _STORY | {f"choice{i}": f"RandomFifthSentenceQuiz{i}" for i in (1, 2)}),
    "nsmc": Layout("classification", {"text": "document"}, {"0": "negative", "1": "positive"}, gaps=True),
    "question_pair": Layout("similarity", {"a": "question1", "b": "question2", "label": "is_duplicate"},
                            {"1": "different", "0": "same"}),  # whatever the name of its column says
}  # fmt: skip


def read(
    path: str | Path, task: str, columns: Mapping[str, str] | None = None, labels: Sequence[str] | None = None,
    labelled: bool = True, say: Callable[[str], None] = print,
) -> tuple[Task, list[Example]]:
    """The task and the examples of a file.

    task: one of LAYOUTS, or a kind, with columns as in ROLES. columns: {"text": "document"}, where it is called so.

    The answer of a multiple choice is the number of the right choice, from 1. A similarity with a column score, and
    none label, has numbers from 0 to 5. All else has labels: `labels`, in this order, or without it all that occur,
    sorted, two or more. A validation file is given those of its training file. F1 is about the second label.

    labelled=False, for prediction: answers are not read, every line is an example. say: is told how many lines without
    a text were left out, of a layout known for them. Raises InputError, with the line of what is not as it should be.
    """
    path, layout = Path(path), _layout(task, columns or {})
    present, rows = _rows(path, layout.header)
    texts, choices, answer, target = _columns(path, layout, present, labelled)
    if labels and answer != "label":
        raise InputError(f"labels {', '.join(labels)} for {path}: its answers are numbers")
    known, examples = tuple(labels or layout.names.values()), []
    kept = [one for one in rows if all(map(one[1].get, texts))] if layout.gaps and labelled else rows
    for line, row in kept:
        try:
            example = _example(row, texts, choices)
            if examples and len(example.choices) != len(examples[0].choices):
                raise InputError(f"{len(example.choices)} choices; the first example has {len(examples[0].choices)}")
            if labelled:
                example = example._replace(label=_answer(answer, _field(row, target), example, layout.names, known))
            examples.append(example)
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
    if not examples:
        raise InputError(f"{path} has no examples: give a line for each")
    if len(kept) < len(rows):
        say(f"{path}: left out {len(rows) - len(kept):,} of {len(rows):,} lines, which have no text")
    if labelled and answer == "label":
        found = sorted({example.label for example in examples})
        if len(found) < 2 and labels is None:
            raise InputError(f"{path}: every label is {', '.join(found)}: give examples of two or more")
        known = known or tuple(found)
        examples = [example._replace(label=known.index(example.label)) for example in examples]
    usual = "f1" if layout.kind == "similarity" and len(known) == 2 else "accuracy"  # GPT-1 tables 2 to 4
    judged = Task(layout.kind, known, "pearson" if answer == "score" else layout.metric or usual)
    check_task(judged)
    return judged, examples


def _layout(task: str, columns: Mapping[str, str]) -> Layout:
    """The layout of a task, with the caller's columns in it."""
    if task not in LAYOUTS and task not in KINDS:
        raise InputError(f"unknown task {task!r}: choose a kind, {', '.join(KINDS)}, or {', '.join(LAYOUTS)}")
    layout = LAYOUTS.get(task) or Layout(task, {})
    for role in columns:
        if role not in ROLES[layout.kind] and not (layout.kind == "choice" and re.fullmatch(CHOICE, role)):
            raise InputError(f"column {columns[role]!r} for {role!r}: {task} has {', '.join(ROLES[layout.kind])}")
    return layout._replace(columns={**layout.columns, **columns})


def _columns(path: Path, layout: Layout, present: Sequence[str], labelled: bool) -> tuple[list, list, str, Column]:
    """The columns of the texts and of the choices, what the answer is, and its column."""
    kind, there = layout.kind, {*layout.columns, *present}

    def find(role):
        column = layout.columns.get(role, role)
        for name in (column,) if isinstance(column, str) else column:
            if name not in present:
                raise InputError(f"{path} has no column {name!r} for {role!r}: it has {', '.join(present)}")
        return column

    texts = [role for role in TEXTS if role in ROLES[kind] and (role != "question" or role in there)]
    choices, answer = [], "label"
    if kind == "choice":
        last = max([2, *(int(role[6:]) for role in there if re.fullmatch(CHOICE, role))])
        choices, answer = [f"choice{i + 1}" for i in range(last)], "choice"
    elif kind == "similarity" and "score" in there and ("score" in layout.columns or "label" not in there):
        answer = "score"
    target = find("score" if answer == "score" else "label") if labelled else ""
    return [find(role) for role in texts], [find(role) for role in choices], answer, target


def _example(row: Mapping[str, Any], text_columns: list, choice_columns: list) -> Example:
    texts = [_field(row, column) for column in text_columns]
    if choice_columns and not texts[-1]:
        del texts[1:]  # not every context comes with a question
    if "" in texts:
        raise InputError(f"an empty text in column {text_columns[texts.index('')]!r}: every example needs one")
    choices = [_field(row, column) for column in choice_columns]
    while len(choices) > 2 and not choices[-1]:
        choices.pop()
    if "" in choices:
        raise InputError(f"nothing in column {choice_columns[choices.index('')]!r}: every choice needs a text")
    return Example(tuple(texts), None, tuple(choices))


def _answer(answer: str, given: str, example: Example, names: Mapping[str, str], known: Sequence[str]) -> Any:
    """An index, a score, or a label's name: only the whole file says which labels there are."""
    if answer == "label":
        if not given or (known and names.get(given, given) not in known):
            raise InputError(f"unknown label {given!r}: choose {', '.join(known) or 'a name'}")
        return names.get(given, given)
    if answer == "choice":
        numbers = [str(i + 1) for i in range(len(example.choices))]
        if given not in numbers:
            raise InputError(f"label {given!r}: give the number of the right choice, {' or '.join(numbers)}")
        return numbers.index(given)
    if not re.fullmatch(NUMBER, given) or float(given) > 5:
        raise InputError(f"score {given!r}: give a number from 0 to 5")
    return float(given)


def _field(row: Mapping[str, Any], column: Column) -> str:
    """What stands there as text, "" for nothing, or not in each of several. JSON has numbers, true and null too."""
    values = [row.get(name) for name in ((column,) if isinstance(column, str) else column)]
    if any(isinstance(value, (list, dict)) for value in values):
        raise InputError(f"column {column!r} holds a list or an object: expected a text or a number")
    parts = ["" if one is None else one.strip() if isinstance(one, str) else json.dumps(one) for one in values]
    return " ".join(parts) if all(parts) else ""


def _rows(path: Path, header: Sequence[str]) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """The columns, and the number and the values of each line."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: expected a name with {', '.join(SUFFIXES)} at its end, which says how it is written")
    text = read_text(path).rstrip("\n")
    if form == "json":
        rows = [(line, _object(path, line, one)) for line, one in enumerate(text.split("\n"), 1)]
        return list(dict.fromkeys(name for _, row in rows for name in row)), rows
    lines = _csv(path, text) if form == "csv" else ((n, one.split("\t")) for n, one in enumerate(text.split("\n"), 1))
    rows = [(line, [field.strip() for field in fields]) for line, fields in lines]
    if not header or set(header) & set(rows[0][1]):  # GLUE's test files have a header where its others have none
        header = rows.pop(0)[1]
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path} has two columns {twice[0]!r}: rename one")
    for line, fields in rows:
        if len(fields) != len(header):
            raise InputError(f"{path}, line {line}: fields: {len(fields)}, expected {len(header)}: {', '.join(header)}")
    return list(header), [(line, dict(zip(header, fields, strict=True))) for line, fields in rows]


def _csv(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Records, and the line where each begins: one may go over several."""
    reader, line, limit = csv.reader(io.StringIO(text, newline=""), strict=True), 1, csv.field_size_limit(len(text))
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line} is not CSV ({error}): a quote within quotes is written twice") from error
    finally:
        csv.field_size_limit(limit)


def _object(path: Path, line: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
        return dict(found.items())
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(f'{path}, line {line}: expected an object, {{"text": ...}}, got {text[:40]!r}') from error
