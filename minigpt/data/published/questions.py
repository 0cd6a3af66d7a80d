"""Questions whose answer is written: SQuAD, CoQA, Natural Questions, and pairs of an input and an output."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.data.published.layout import Written, list_of, text_of, texts_of, wrong
from minigpt.errors import InputError
from minigpt.files.json_items import json_items

PAIR_FORM = '{"input": text, "output": text}'


def read_squad(path: Path, labelled: bool = True) -> Iterator[Written]:
    """SQuAD (Rajpurkar et al. 2016), and KorQuAD and KLUE's MRC, which are written like it.

    "data" holds articles; an article "paragraphs"; a paragraph its "context" and "qas"; each of these a "question" and
    its "answers", several texts. A question with "is_impossible" (SQuAD 2.0) has the answer "". Raises InputError.
    """
    for line, article in json_items(path):
        for paragraph in list_of(path, line, article, "paragraphs"):
            context = text_of(path, line, paragraph, "context")
            for asked in list_of(path, line, paragraph, "qas"):
                question = text_of(path, line, asked, "question")
                answers = _squad_answers(path, line, question, asked)
                yield Written(question, answers, document=context)


def _squad_answers(path: Path, line: int, question: str, asked: dict[str, Any]) -> tuple[str, ...]:
    if asked.get("is_impossible"):
        return ("",)
    answers = asked.get("answers")
    if not isinstance(answers, list) or not answers:
        raise wrong(path, line, f"a list 'answers' with something in it for {question[:60]!r}", answers)
    return tuple(text_of(path, line, answer, "text") for answer in answers)


def read_coqa(path: Path, labelled: bool = True) -> Iterator[Written]:
    """CoQA (Reddy et al. 2019): a story, and a conversation about it, whose next answer is wanted.

    Of each item of "data": its "story", "questions" and "answers", each with an "input_text", and, of the validation
    file, "additional_answers", three more lists of answers. The turns before a question have the answers of "answers".
    Raises InputError.
    """
    for line, item in json_items(path):
        story = text_of(path, line, item, "story")
        questions = _inputs(path, line, item, "questions")
        columns = [_inputs(path, line, item, "answers")]
        more = item.get("additional_answers") or {}
        if not isinstance(more, dict):
            raise wrong(path, line, "an object 'additional_answers'", more)
        for key in more:
            columns.append(_inputs(path, line, more, key))
        lengths = [len(column) for column in columns]
        if set(lengths) != {len(questions)}:
            counts = f"{len(questions)} questions, and {', '.join(map(str, lengths))}"
            raise wrong(path, line, f"as many answers as questions about {story[:40]!r}", counts)
        turns: list[tuple[str, str]] = []
        for question, *answers in zip(questions, *columns, strict=True):
            yield Written(question, tuple(answers), story, tuple(turns), "coqa")
            turns.append((question, answers[0]))


def _inputs(path: Path, line: int, item: dict[str, Any], key: str) -> list[str]:
    """The texts of the turns in a list."""
    return [text_of(path, line, turn, "input_text") for turn in list_of(path, line, item, key)]


def read_open_questions(path: Path, labelled: bool = True) -> Iterator[Written]:
    """Natural Questions without documents (Lee et al. 2019): lines {"question", "answer": [...]}. Raises InputError."""
    for line, record in json_items(path):
        question = text_of(path, line, record, "question")
        answers = texts_of(path, line, record, "answer")
        yield Written(question, answers)


def read_pairs(path: Path, labelled: bool = True) -> Iterator[Written]:
    """Lines {"input": text, "output": text}. Raises InputError."""
    for line, record in json_items(path):
        try:
            given = text_of(path, line, record, "input")
            wanted = text_of(path, line, record, "output")
        except InputError as error:
            raise wrong(path, line, PAIR_FORM, record) from error
        yield Written(given, (wanted,))
