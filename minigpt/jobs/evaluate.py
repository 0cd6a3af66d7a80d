"""Evaluate: a task, a model and a file of items give a report, which is printed and, if wanted, written as JSON."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from minigpt import models
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.published.recognition import recognise
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError, flag_of
from minigpt.evaluation import task_files, tasks_as_text, writing
from minigpt.evaluation.detokenizers import DETOKENIZERS
from minigpt.evaluation.perplexity import perplexity, read_as_it_came
from minigpt.evaluation.report import Report
from minigpt.files.disk import finite, write_json
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.jobs.suites import table as suites
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


class Evaluation(NamedTuple):
    """A task of `minigpt eval`."""

    run: Callable[..., Report]  # run(model, tokenizer, items, **options)
    read: Callable[..., Any] | None  # read(file, layout, limit, ...) gives the items; None: the text as it came
    options: frozenset[str]  # what else may be chosen


AUTO = "auto"
ITEMS = frozenset({"limit", "layout"})  # the options of all tasks with items
WRITTEN = ITEMS | {"shots", "seed"}
PIECE = 1000  # characters of a long text that count as one of its items

TASKS = {
    "perplexity": Evaluation(perplexity, None, ITEMS | {"context", "stride", "detokenize"}),
    "lambada": Evaluation(tasks_as_text.lambada, task_files.read_passages, ITEMS | {"detokenize", "stop_words"}),
    "winograd": Evaluation(tasks_as_text.winograd, task_files.read_pronouns, ITEMS),
    "choice": Evaluation(tasks_as_text.choose, task_files.read_choices, ITEMS | {"detokenize"}),
    "sentiment": Evaluation(tasks_as_text.sentiment, task_files.read_sentiments, ITEMS | {"shots"}),
    "summarise": Evaluation(partial(writing.write, "summarise"), task_files.read_articles, WRITTEN),
    "translate": Evaluation(
        partial(writing.write, "translate"), task_files.read_sentences, WRITTEN | {"answers"}
    ),
    "state": Evaluation(partial(writing.write, "state"), task_files.read_states, WRITTEN),
    "answer": Evaluation(partial(writing.write, "answer"), task_files.read_questions, WRITTEN),
}


@dataclass(kw_only=True)
class EvaluateOptions(OnDevice):
    """What `minigpt eval` can be told; a task has only some of the options: see `TASKS`.

    Either a task and a file, or a suite and the folder of its files.
    """

    folder: str = argument("a model directory", metavar="MODEL")
    task: str | None = argument(", ".join(TASKS), choices=TASKS, metavar="TASK", unless="--suite", default=None)
    file: str | None = argument(
        "the items as they were published: a file, or a folder (RACE, CNN)",
        metavar="FILE", unless="--suite", default=None,
    )  # fmt: skip
    suite: str | None = option(
        None, f"in place of TASK and FILE, a table of a paper: {', '.join(suites.names('eval'))}",
        choices=suites.names("eval"), metavar="NAME",
    )  # fmt: skip
    data: str | None = option(None, "of a suite: the folder in which, or below which, its files are", metavar="FOLDER")
    layout: str | None = option(
        None, f"how FILE is laid out, where its beginning does not tell: {', '.join(LAYOUTS)}", metavar="NAME"
    )
    answers: str | None = option(None, "the translations of the sentences in FILE, line by line (WMT)", metavar="FILE")
    context: int | None = option(None, "tokens in a window of perplexity (default: all positions)", metavar="T")
    stride: int | None = option(None, "tokens from window to window (default: the context)", metavar="S")
    detokenize: str = option(
        "none", "undo how a benchmark splits words; auto: as the layout of FILE needs it", choices=(*DETOKENIZERS, AUTO)
    )
    stop_words: bool = option(False, "lambada: try again without the words that cannot end a sentence")
    limit: int | None = option(None, f"only the first N items, or N times {PIECE:,} characters of a text", metavar="N")
    shots: int = option(0, "show the first K items as examples", metavar="K")
    seed: int = option(0, "of what is drawn", metavar="S")
    json_file: str | None = option(
        None, "write the results here too; a suite goes on from it (of a suite, by default: runs/MODEL-NAME.json)",
        metavar="FILE", flag="--json",
    )  # fmt: skip

    def chosen(self) -> dict[str, Any]:
        """The options of a task that differ from their defaults: {name: value}."""
        known = frozenset().union(*(evaluation.options for evaluation in TASKS.values()))
        values = {name: getattr(self, name) for name in sorted(known)}
        return {name: value for name, value in values.items() if value != getattr(EvaluateOptions, name)}

    def check(self) -> None:
        """Raises InputError for an unknown task, for an option that it does not have, and for a limit below 1.

        Of a suite, too, for an option that is missing, or that it has of its own.
        """
        suites.check(self, "eval", ("task", "file"))
        if self.suite is None and self.task not in TASKS:
            raise InputError(f"unknown task {self.task!r}: choose {', '.join(TASKS)}")
        if self.suite is None and self.file is None:
            raise InputError(f"the file of {self.task} is missing: give one")
        known = TASKS[self.task].options if self.suite is None else frozenset({"limit"})
        for name in self.chosen():
            if name not in known:
                flags = ", ".join(map(flag_of, sorted(known)))
                of = self.task or "a suite"
                raise InputError(f"{flag_of(name)} is no option of {of}: it has {flags}")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit {self.limit}: give 1 or more")


def evaluate(options: EvaluateOptions, opened: tuple[LanguageModel, Tokenizer] | None = None) -> Report:
    """Do one of TASKS with the model in a folder and the items of a file; print the report, and return it.

    opened: what `open_model` gives, where the caller has that already.

    Raises InputError for an unknown task, for an option that the task does not have, for a file that is not in the
    form of the task, for a model that writes beside a source or sees the next token, and for a `json_file` that exists
    already or cannot be written. All this is known before the work begins.
    """
    options.check()
    if options.json_file is not None:
        check_json_file(Path(options.json_file))
    evaluation = TASKS[options.task]
    chosen = options.chosen()
    items, layout = _items(options, chosen)
    model, tokenizer = opened or open_model(options)
    report = evaluation.run(model, tokenizer, items, **chosen)
    if layout in LAYOUTS and LAYOUTS[layout].unit:
        report.notes.append(f"{layout}: what the papers print is the number per {LAYOUTS[layout].unit}")
    known = f" ({layout})" if layout else ""
    print(f"{options.task}: {options.file}{known}\n{report}")
    if options.json_file is not None:
        about = {"model": options.folder, "task": options.task, "file": options.file, "layout": layout or None}
        _write_json(options.json_file, about | {"limit": options.limit, "options": chosen}, report)
    return report


def open_model(options: EvaluateOptions) -> tuple[LanguageModel, Tokenizer]:
    """The model in a folder, on its device, and its tokenizer.

    Raises InputError for a model that writes beside a source, or sees the next token.
    """
    model, tokenizer = models.open_both(options.folder)
    if model.reads_a_source:
        name = type(model).__name__
        advice = "take a model that continues a text, such as gpt1, gpt2 or lstm"
        raise InputError(f"eval: {options.folder} holds a {name}, which writes beside a source: {advice}")
    if not model.learns_the_next_token:
        name = type(model).__name__
        advice = "take a model that reads from left to right, such as gpt1, gpt2 or lstm"
        raise InputError(f"eval: {options.folder} holds a model of type {name}, which sees the next token: {advice}")
    model.to(choose_device(options.device))
    costs.fit_threads(model, model.config.n_positions)
    return model, tokenizer


def _items(options: EvaluateOptions, chosen: dict[str, Any]) -> tuple[Any, str]:
    """The items of a file, and the name of its layout; what is decided by that is changed among the chosen options.

    Raises InputError for a file that is not in the form of the task.
    """
    path = Path(options.file)
    layout = chosen.pop("layout", None)
    limit = chosen.pop("limit", None)
    answers = chosen.pop("answers", None)
    evaluation = TASKS[options.task]
    if evaluation.read is None:
        items = read_as_it_came(path, limit and limit * PIECE)
        layout = task_files.layout_of(path, ("text",), layout) if layout else recognise(path, ("text",)) or ""
    else:
        beside = {} if answers is None else {"answers": Path(answers)}
        found, layout = evaluation.read(path, layout, limit, **beside)
        items = list(found)
        if not items:
            raise InputError(f"{path} holds no items: give one or more")
    if chosen.get("detokenize") == AUTO:
        chosen["detokenize"] = LAYOUTS[layout].detokenize if layout in LAYOUTS else "none"
    return items, layout


def check_json_file(path: Path) -> None:
    """Raises InputError for a file that exists already, and for a folder that cannot be written to."""
    if path.exists():
        raise InputError(f"--json {path} is there already: give another name")
    check_json_folder(path)


def check_json_folder(path: Path) -> None:
    """Raises InputError where the folder of a file is missing, or cannot be written to."""
    if not os.access(f"{path.parent}/", os.W_OK):
        raise InputError(f"--json {path}: there is no folder {path.parent} to write to: make it, or give another name")


def _write_json(path: str | Path, given: dict[str, Any], report: Report) -> None:
    """What was given, and what was found."""
    found = {
        "measures": [measure._asdict() for measure in report.measures],
        "notes": report.notes,
        "outputs": report.outputs,
    }
    write_json(path, finite(given | found))
