"""Labelled examples from files: tables (see `minigpt.data.tables`), and what is published in other forms.

Their columns have names; of a file without a line of names they are counted, from 1.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data.examples import KINDS, TAGGING, Example, Task, check_task
from minigpt.data.label_checks import NO_GOLD, check_labels, unusual_labels
from minigpt.data.published.layout import Column, Layout
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.published.own_reader import read_by_its_own
from minigpt.data.published.recognition import (
    ANSWERS,
    TAKEN_BY,
    about_nearest,
    about_other_kind,
    open_it,
    recognise,
    unknown_layout,
)
from minigpt.data.tables import Table, read_table, shown
from minigpt.errors import InputError

# The columns of each kind, where no other names are given. A question may be missing; choice3 and more may follow.
ROLES = {
    "classification": ("text", "label"),
    "entailment": ("premise", "hypothesis", "label"),
    "similarity": ("a", "b", "label", "score"),
    "choice": ("context", "question", "choice1", "choice2", "label"),
    TAGGING: (),  # no table
}
NAMES = [name for name, layout in LAYOUTS.items() if layout.kind in KINDS]  # of published sets of labelled examples
TEXTS = ("text", "premise", "hypothesis", "a", "b", "context", "question")
CHOICE = r"choice[1-9]\d?"
NUMBER = r"\d+(\.\d*)?(e-\d+)?"


class Columns(NamedTuple):
    """Where in a row the parts of an example stand."""

    texts: list[Column]
    choices: list[Column]  # of a multiple choice
    answer: str  # what the answer is: "label", "choice" or "score"
    target: Column | None  # where the answer stands; None where answers are not read


def read(
    path: str | Path,
    task: str,
    columns: Mapping[str, str] | None = None,
    labels: Sequence[str] | None = None,
    labelled: bool = True,
    say: Callable[[str], None] = print,
    limit: int | None = None,
) -> tuple[Task, list[Example]]:
    """The task and the examples of a file.

    task: the layout of a published data set, one of NAMES; or a kind, for which the file has columns as in ROLES, or
    else a layout by which it is recognised; say tells which. columns: {"text": "document"}, where the file calls the
    column of texts "document"; {"text": "1", "label": "2"}, where the file begins with an example.

    The answer of a multiple choice is the number of the right choice, from 1. A similarity with a column score, and
    none label, has numbers from 0 to 5. All else has labels: `labels`, in this order, or without it all that occur,
    sorted, two or more. Give a validation file the labels of its training file. F1 is taken of the second label.

    labelled=False, for prediction: answers are not read, every line is an example. say: receives a line that tells how
    many lines were left out: those without a text, or with too few fields, of a layout that is known for them, and
    those whose label is "-", which SNLI writes where its annotators did not agree (but not where "-" is a known label,
    or "+" is another one). It receives lines about labels that may not be meant, with their counts (see
    `unusual_labels`). limit: only the first examples, so many; the file is read no further. Raises InputError, with the
    line of what is not as it should be.
    """
    path = Path(path)
    layout = _layout(path, task, columns or {}, labelled, say)
    if layout.read is not None:
        return read_by_its_own(path, layout, columns or {}, labels, labelled, say, limit)
    table = read_table(path, layout.header, _numbers(columns or {}), _usual_names(layout), layout.broken and labelled)
    where = _columns(path, layout, table, labelled)
    if labels and where.answer != "label":
        raise InputError(f"labels {', '.join(labels)} for {path}: its answers are numbers")
    known = tuple(labels or layout.names.values())
    found = _examples(path, layout, table, where, known, say, limit)
    if not found:
        raise InputError(f"{path} has no examples: give a line for each")
    examples = [example for _, example in found]
    if labelled and where.answer == "label":
        counts = Counter(example.label for example in examples)
        if len(counts) < 2 and labels is None:
            raise InputError(f"{path}: every label is {', '.join(counts)}: give examples of two or more")
        if not known:
            check_labels(path, layout.kind, counts, where.target)
        if labels is None:
            lines = [line for line, _ in found]
            for remark in unusual_labels(path, [example.label for example in examples], lines):
                say(remark)
        known = known or tuple(sorted(counts))
        index_of = {name: i for i, name in enumerate(known)}
        examples = [example._replace(label=index_of[example.label]) for example in examples]
    judged = Task(layout.kind, known, _metric(layout, where.answer, known))
    check_task(judged)
    return judged, examples


def _metric(layout: Layout, answer: str, labels: Sequence[str]) -> str:
    """How the answers are judged: as the papers do it (GPT-1 tables 2 to 4), unless the layout names it."""
    if answer == "score":
        return "pearson"
    if layout.metric:
        return layout.metric
    if layout.kind == "similarity" and len(labels) == 2:
        return "f1"
    return "accuracy"


# Which columns hold what.


def _layout(
    path: Path, task: str, columns: Mapping[str, str], labelled: bool, say: Callable[[str], None]
) -> Layout:
    """The layout of a task, with the caller's columns in it; of a kind, that by which the file is recognised.

    Raises InputError for an unknown task or role.
    """
    if task not in NAMES and task not in KINDS:
        taken_by = TAKEN_BY.get(LAYOUTS[task].kind) if task in LAYOUTS else None
        taken = f", which {taken_by} takes" if taken_by else ""
        raise InputError(f"unknown task {task!r}{taken}: choose a kind, {', '.join(KINDS)}, or {', '.join(NAMES)}")
    layout = LAYOUTS[task] if task in NAMES else Layout(task)
    roles = ROLES[layout.kind]
    for role in columns:
        further_choice = layout.kind == "choice" and re.fullmatch(CHOICE, role)
        if role not in roles and not further_choice:
            raise InputError(f"column {columns[role]!r} for {role!r}: {task} has {', '.join(roles) or 'no columns'}")
    if task in KINDS and not columns:
        name = _recognised(path, task, labelled)
        if name is not None:
            say(f"{path} is read as {name}; if it is not, say --task, or --columns")
            return LAYOUTS[name]
        if task == TAGGING:
            raise unknown_layout(path, (task,))
    return layout._replace(columns={**layout.columns, **columns})


def has_usual_columns(path: Path, kind: str, labelled: bool = True) -> bool:
    """Is this a table whose columns are called as in ROLES?"""
    if not ROLES[kind]:
        return False
    there = set(open_it(path).first)
    usual = {role for role in ROLES[kind] if role in TEXTS and role != "question"}
    if kind == "choice":
        usual.add("choice1")
    return usual <= there and (not labelled or not there.isdisjoint(ANSWERS))


def _recognised(path: Path, kind: str, labelled: bool) -> str | None:
    """The layout of a file whose columns are not called as usual; None where they are, or where none is known."""
    if has_usual_columns(path, kind, labelled):
        return None
    return recognise(path, (kind,), labelled)


def _numbers(columns: Mapping[str, str]) -> list[str]:
    """The caller's columns, where all of them are numbers, counted from 1; else none."""
    if all(re.fullmatch(r"[1-9]\d{0,3}", column) for column in columns.values()):
        return list(columns.values())
    return []


def _usual_names(layout: Layout) -> set[str]:
    """What the columns of such a file are called, where it has a line of names."""
    usual = set(ROLES[layout.kind])
    for layout_of_kind in LAYOUTS.values():
        if layout_of_kind.kind == layout.kind and layout_of_kind.read is None:
            for column in layout_of_kind.columns.values():
                usual.update(name.lower() for name in _names(column))
    return usual


def _columns(path: Path, layout: Layout, table: Table, labelled: bool) -> Columns:
    """The columns of a file. Raises InputError for one that is not there."""
    present = table.columns
    roles = ROLES[layout.kind]
    there = {*layout.columns, *present}
    texts = [role for role in TEXTS if role in roles]
    if "question" in texts and "question" not in there:
        texts.remove("question")
    choices = _choice_roles(there) if layout.kind == "choice" else []
    answer = _answer_kind(layout, there)
    text_columns = [_find(path, layout, table, role) for role in texts]
    choice_columns = [_find(path, layout, table, role) for role in choices]
    target = None
    if labelled:
        target = _find(path, layout, table, "score" if answer == "score" else "label")
    return Columns(text_columns, choice_columns, answer, target)


def _choice_roles(there: set[str]) -> list[str]:
    """choice1 and choice2, and those after them up to the last that is there."""
    last = 2
    for role in there:
        if re.fullmatch(CHOICE, role):
            number = int(role.removeprefix("choice"))
            last = max(last, number)
    return [f"choice{number}" for number in range(1, last + 1)]


def _answer_kind(layout: Layout, there: set[str]) -> str:
    """ "choice", "score" or "label"."""
    if layout.kind == "choice":
        return "choice"
    only_score = "score" in there and "label" not in there
    if layout.kind == "similarity" and ("score" in layout.columns or only_score):
        return "score"
    return "label"


def _find(path: Path, layout: Layout, table: Table, role: str) -> Column:
    """The column of a role. Raises InputError where the file does not have it."""
    column = layout.columns.get(role, role)
    for name in _names(column):
        if name not in table.columns:
            has = ", ".join(shown(present) for present in table.columns)
            advice = _advice(path, layout, table, role)
            raise InputError(f"{path} has no column {name!r} for {role!r}: it has {has}{advice}")
    return column


def _advice(path: Path, layout: Layout, table: Table, missing: str) -> str:
    """What to do where a column is missing: of a file that begins with an example, its columns are counted."""
    counted = table.columns[0] == "1" and not table.header
    if counted:
        return f", counted: say which is which, with --columns {missing}=NUMBER too"
    wanted = _usual_names(layout)
    known = any(name.lower() in wanted for name in table.columns)
    if not table.header or known or about_other_kind(path, (layout.kind,)):
        return f"; {about_nearest(path, (layout.kind,))}"
    roles = [role for role in ROLES[layout.kind] if role not in ("score", "question")]
    named = ",".join(f"{role}=NAME" for role in roles)
    numbered = ",".join(f"{role}={number}" for number, role in enumerate(roles, 1))
    names = f"; say which is which, with --columns {named}"
    return f"{names}; if line 1 is an example, and no names, count the columns: --columns {numbered}"


def _names(column: Column) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else column


# From a row to an example.


def _examples(
    path: Path,
    layout: Layout,
    table: Table,
    where: Columns,
    known: Sequence[str],
    say: Callable[[str], None],
    limit: int | None,
) -> list[tuple[int, Example]]:
    """The example of each row, with its line. A label is still a name: which there are is known after the last row.

    Of a file with answers, rows without a text or without a gold label are left out, and say tells how many there
    were, as with lines of too few fields. Raises InputError with the number of the line.
    """
    found: list[tuple[int, Example]] = []
    labels = set()
    rows = without_text = 0
    left = -1 if limit is None else limit  # that are still to be found
    for line, row in table.rows:
        rows += 1
        if layout.gaps and where.target is not None and not _has_texts(row, where):
            without_text += 1
            continue
        try:
            example = _labelled_example(row, where, layout.names, known)
            if found and len(example.choices) != len(found[0][1].choices):
                n = len(found[0][1].choices)
                raise InputError(f"{len(example.choices)} choices; the first example has {n}")
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
        labels.add(example.label)
        found.append((line, example))
        left -= example.label != NO_GOLD
        if left == 0:
            break
    broken = len(table.rows.left_out)
    if broken:
        say(f"{path}: left out {broken:,} of {rows + broken:,} lines, which have too few or too many fields")
    if without_text:
        say(f"{path}: left out {without_text:,} of {rows:,} lines, which have no text")
    if where.answer != "label" or NO_GOLD not in labels or NO_GOLD in known or "+" in labels:
        return found[:limit]
    kept = [(line, example) for line, example in found if example.label != NO_GOLD]
    without = len(found) - len(kept)
    say(f"{path}: left out {without:,} of {len(found):,} lines, which have no gold label ({NO_GOLD!r})")
    return kept


def _labelled_example(
    row: Mapping[str, Any], where: Columns, names: Mapping[str, str], known: Sequence[str]
) -> Example:
    """The example of a row. Raises InputError."""
    given = _field(row, where.target) if where.target is not None else ""
    if where.answer == "label" and given == NO_GOLD and NO_GOLD not in known:
        return _example(row, where)._replace(label=NO_GOLD)
    example = _example(row, where)
    if where.target is None:
        return example
    return example._replace(label=_answer(where.answer, given, example, names, known))


def _has_texts(row: Mapping[str, Any], where: Columns) -> bool:
    """Is something in every column of texts?"""
    return all(row.get(name) for column in where.texts for name in _names(column))


def _example(row: Mapping[str, Any], where: Columns) -> Example:
    """The texts and the choices of a row, without its label."""
    texts = [_field(row, column) for column in where.texts]
    if where.choices and not texts[-1]:
        del texts[1:]  # not every context comes with a question
    if "" in texts:
        column = where.texts[texts.index("")]
        raise InputError(f"an empty text in column {column!r}: every example needs one")
    choices = [_field(row, column) for column in where.choices]
    while len(choices) > 2 and not choices[-1]:
        choices.pop()
    if "" in choices:
        column = where.choices[choices.index("")]
        raise InputError(f"nothing in column {column!r}: every choice needs a text")
    return Example(tuple(texts), None, tuple(choices))


def _answer(answer: str, given: str, example: Example, names: Mapping[str, str], known: Sequence[str]) -> Any:
    """The name of a label, the index of a choice, or a score. Raises InputError for what is none."""
    if answer == "label":
        name = names.get(given, given)
        if not given or (known and name not in known):
            raise InputError(f"unknown label {given!r}: choose {', '.join(known) or 'a name'}")
        return name
    if answer == "choice":
        numbers = [str(i + 1) for i in range(len(example.choices))]
        if given not in numbers:
            raise InputError(f"label {given!r}: give the number of the right choice, {' or '.join(numbers)}")
        return numbers.index(given)
    if not re.fullmatch(NUMBER, given) or float(given) > 5:
        raise InputError(f"score {given!r}: give a number from 0 to 5")
    return float(given)


def _field(row: Mapping[str, Any], column: Column) -> str:
    """The text in a column; "" for none, or where one of several has none. JSON has numbers, true and null too."""
    parts = []
    for name in _names(column):
        value = row.get(name)
        if isinstance(value, (list, dict)):
            raise InputError(f"column {column!r} holds a list or an object: expected a text or a number")
        parts.append(_as_text(value))
    return " ".join(parts) if all(parts) else ""


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value)
