"""The page that a teacher reads after grading: who has what right, which mistakes were made by how many, and a board.

One file of HTML without any outside request, readable on paper too.
"""

import re
from collections import defaultdict
from html import escape
from typing import Any, NamedTuple

from minigpt.learn.classroom import course
from minigpt.learn.classroom.language import language, tr
from minigpt.learn.classroom.sentences import told
from minigpt.learn.classroom.verdict import NO_ANSWER, NOT_BEGUN, NOT_JUDGED, RIGHT, WRONG, word_of

MOST_ON_THE_BOARD = 3
MARKS = {RIGHT: "●", WRONG: "○", NOT_BEGUN: "–", NO_ANSWER: "×", NOT_JUDGED: "?"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #bbb; padding: .3rem .6rem }
th { background: #f3f3f3; text-align: left } td.mark { text-align: center }
td.right { background: #e3f3e6 } td.wrong { background: #fdeaea } code { background: #f3f3f3; padding: 0 .2rem }
@media (prefers-color-scheme: dark) { body { background: #1a1a1a; color: #eee } th, code { background: #333 }
td.right { background: #1d4026 } td.wrong { background: #4a2323 } }
"""


class Mistake(NamedTuple):
    """A mistake that some learners made: in which exercise, which tensor, what it is, and whose files have it."""

    exercise: str
    tensor: str
    text: str
    learners: list[str]


def mistakes(rows: list[dict[str, Any]]) -> list[Mistake]:
    """The first finding of each file, the same ones together, the most frequent first.

    Two findings are the same where only their numbers differ. A later finding is often a consequence of the first one.
    """
    groups = defaultdict(list)
    texts = {}
    for row in rows:
        if row["word"] not in (WRONG, NO_ANSWER) or not row["findings"]:
            continue
        first = row["findings"][0]
        key = row["exercise"], first["tensor"], re.sub(r"-?\d[\d.e+-]*", "#", first["mistake"])
        groups[key].append(row["learner"])
        texts.setdefault(key, first["mistake"])
    found = [Mistake(key[0], key[1], texts[key], learners) for key, learners in groups.items()]
    return sorted(found, key=lambda one: (-len(one.learners), one.exercise, one.tensor))


def page(rows: list[dict[str, Any]]) -> str:
    """The whole page for these verdicts."""
    found = mistakes(rows)
    parts = [_table(rows), _counts(found), _board(found), _files(rows)]
    title = escape(tr("The class"))
    head = f'<!doctype html><html lang="{language()}"><head><meta charset="utf-8"><title>{title}</title>'
    view = '<meta name="viewport" content="width=device-width">'
    return f"{head}{view}<style>{STYLE}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>\n"


def by_learner(rows: list[dict[str, Any]]) -> tuple[list[str], dict[str, list[str | None]]]:
    """The exercises, and for each learner the word for each of them; None where nothing was handed in."""
    exercises = sorted({row["exercise"] for row in rows})
    learners = sorted({row["learner"] for row in rows}, key=str.casefold)
    words = {(row["learner"], row["exercise"]): row["word"] for row in rows}
    return exercises, {learner: [words.get((learner, key)) for key in exercises] for learner in learners}


def _table(rows):
    """Learners and exercises."""
    exercises, learners = by_learner(rows)
    lines = ["<tr><th></th>" + "".join(f"<th>{escape(key)}</th>" for key in exercises) + "</tr>"]
    for learner, words in learners.items():
        lines.append(f"<tr><th>{escape(learner)}</th>{''.join(map(_cell, words))}</tr>")
    legend = escape(tr("● right, ○ not right, – not begun, × no answer (it cannot be run, or its process failed)"))
    return f"<table>{''.join(lines)}</table><p>{legend}</p>"


def _cell(word):
    kind = {RIGHT: "right", WRONG: "wrong", NO_ANSWER: "wrong"}.get(word, "")
    return f'<td class="mark {kind}">{MARKS.get(word, "")}</td>'


def _counts(found):
    """Each mistake, and how many made it."""
    if not found:
        return f"<p>{escape(tr('No mistakes.'))}</p>"
    names = tr("learners"), tr("exercise"), tr("where"), tr("mistake")
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = [f"<tr>{head}</tr>"]
    for one in found:
        cells = [str(len(one.learners)), one.exercise, one.tensor, told(one.text)]
        names = escape(", ".join(one.learners))
        lines.append(f'<tr title="{names}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<h2>{escape(tr('Which mistakes, and how many made them'))}</h2><table>{''.join(lines)}</table>"


def _board(found):
    """For the most frequent mistakes: the mistake, a question to begin with, and where the lesson derives it."""
    lines = []
    for one in found[:MOST_ON_THE_BOARD]:
        exercise = course.exercise_of(one.exercise)
        hints = course.hints_of(exercise)
        question = f"<br>{escape(tr('Question'))}: {escape(hints[0])}" if hints else ""
        where = f"<code>lessons/{escape(course.lesson(exercise.lesson).path.name)}</code>"
        tensor = f"<code>{escape(one.tensor)}</code>: " if one.tensor else ""
        lines.append(f"<li>{tensor}{escape(told(one.text))} ({len(one.learners)}){question}<br>{where}</li>")
    heading = escape(tr("For tomorrow's board"))
    return f"<h2>{heading}</h2><ol>{''.join(lines)}</ol>" if lines else ""


def _files(rows):
    """The report of each file that is not right, folded."""
    parts = []
    for row in rows:
        if row["word"] != RIGHT:
            title = escape(f"{row['learner']}, {row['exercise']}: {word_of(row['word'])}")
            report = escape("\n".join(told(line) for line in row["report"]))
            parts.append(f"<details><summary>{title}</summary><pre>{report}</pre></details>")
    return f"<h2>{escape(tr('Reports'))}</h2>{''.join(parts)}" if parts else ""
