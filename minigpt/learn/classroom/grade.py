"""`minigpt learn grade`: a class of submissions, in parallel, to a table, a CSV file and one page of HTML.

Each verdict is written down as soon as it is there. The same command goes on where it was stopped, and gives the same
table again: the seed of the cases is drawn once for a class, and a file that has not changed is not judged twice.
"""

import contextlib
import csv
import hashlib
import importlib.metadata
import io
import json
import multiprocessing
import os
import secrets
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minigpt.device.threads import set_threads
from minigpt.errors import InputError, check_ranges
from minigpt.files.disk import read_json, write_bytes
from minigpt.jobs.check import check_seconds, check_seed
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.classroom.checking import MOST_SEEDS, Limits, check_exercise
from minigpt.learn.classroom.class_report import by_learner, page
from minigpt.learn.classroom.language import padded, tr, width_of
from minigpt.learn.classroom.sentences import told, told_errors
from minigpt.learn.classroom.submissions import Submission, find_submissions
from minigpt.learn.classroom.verdict import NO_ANSWER, NOT_JUDGED, RIGHT, without_answer, word_of
from minigpt.learn.judging.check_file import MAX_BYTES
from minigpt.learn.lessons import DISTRIBUTION
from minigpt.learn.sandbox.process import NotStarted, one_line

COLUMNS = ("learner", "exercise", "verdict", "tensor", "index", "yours", "true", "mistake")  # of the table
VERDICTS, SETTINGS = "verdicts.jsonl", "settings.json"


@dataclass(kw_only=True)
class GradeOptions:
    """What `minigpt learn grade` can be told."""

    folder: str = argument("the submissions: a folder for each learner", metavar="FOLDER")
    out: str = option("grades", "where the verdicts, the table and the page are written", metavar="DIR")
    workers: int | None = option(None, "submissions judged at once; default: one for each core", metavar="N")
    seed: int | None = option(None, "of the cases; default: drawn once, and kept in DIR", metavar="N")
    time_limit: float = option(60.0, "seconds for each file", metavar="SECONDS")

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "workers")
        check_seed(self.seed or 0)
        check_seconds(self.time_limit)


@told_errors()
def grade(options: GradeOptions) -> list[dict[str, Any]]:
    """Judge every submission that has no verdict yet; write and print the table. Returns all verdicts.

    Raises InputError for a folder without submissions or with two that cannot be told apart, and for results that were
    made with another seed.
    """
    options.check()
    submissions = find_submissions(Path(options.folder))
    out = Path(options.out)
    limits = Limits(seconds=options.time_limit, seed=_seed(options, out))
    known = _known(out / VERDICTS)
    todo = [one for one in submissions if _key(one, limits) not in known]
    print(tr("{n} submissions, {todo} to be judged", n=len(submissions), todo=len(todo)))
    _judge_all(todo, limits, out, options.workers or os.cpu_count() or 1, known)
    rows = [known[_key(one, limits)] for one in submissions if _key(one, limits) in known]
    write_bytes(out / "table.csv", _csv(rows).encode("utf-8-sig"))  # so that a spreadsheet knows the encoding
    write_bytes(out / "report.html", page(rows).encode("utf-8"))
    _show(rows, out)
    return rows


def _judge_all(todo, limits, out, workers, known) -> None:
    """Judge submissions in several processes; each verdict is appended to the file as it comes."""
    if not todo:
        return
    out.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(todo)), spawn, set_threads, (1,))
    with contextlib.ExitStack() as at_the_end:
        at_the_end.callback(pool.shutdown, wait=False, cancel_futures=True)
        file = at_the_end.enter_context(open(out / VERDICTS, "a", encoding="utf-8"))
        jobs = [pool.submit(_judge, (one, limits)) for one in todo]
        for job in tqdm(as_completed(jobs), total=len(jobs), unit=" files"):
            row = _row_of(job)
            known[row["key"]] = row
            if row["word"] == NOT_JUDGED:
                continue  # the same command tries it again
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()


def _row_of(job: Future) -> dict[str, Any]:
    """What a job found. Raises InputError where its process was ended from outside."""
    try:
        return job.result()
    except BrokenProcessPool as error:
        raise InputError(
            tr("a process that judges was ended: is there too little memory? The same command goes on; --workers 1")
        ) from error


def _judge(job: tuple[Submission, Limits]) -> dict[str, Any]:
    """One submission -> its verdict, as it is written down."""
    submission, limits = job
    row = {"key": _key(submission, limits), "learner": submission.learner, "exercise": submission.exercise.key}
    try:
        if submission.path.is_symlink():
            raise InputError(tr("{file} is a link: hand in the file itself", file=submission.path.name))
        verdict = check_exercise(submission.exercise, submission.path, limits)
    except Exception as error:
        its_fault = isinstance(error, InputError) and not isinstance(error, NotStarted)
        says = str(error) if isinstance(error, InputError) else f"the judge failed: {type(error).__name__}: {error}"
        verdict = without_answer(submission.exercise.key, NO_ANSWER if its_fault else NOT_JUDGED, one_line(says))
    return row | verdict.as_json() | {"report": verdict.report}


def _key(submission: Submission, limits: Limits) -> str:
    """What a verdict depends on: the learner, the exercise, the file's bytes, the limits, and this version."""
    content = hashlib.sha256(_bytes_of(submission.path)).hexdigest()[:16]
    return f"{submission.learner}/{submission.exercise.key}/{content}/{limits.seed}/{limits.seconds:g}/{version()}"


def _bytes_of(path: Path) -> bytes:
    """As many bytes as are judged; none of what is a link, or cannot be read: it is told in the verdict."""
    if path.is_symlink() or not path.is_file():
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError:
        return b""


def version() -> str:
    """The version of this installation; "source" where it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "source"


def _seed(options: GradeOptions, out: Path) -> int:
    """The seed of this class, drawn the first time."""
    path = out / SETTINGS
    if path.is_file():
        kept = read_json(path).get("seed")
        if options.seed is not None and options.seed != kept:
            about = {"seed": options.seed, "folder": out, "kept": kept}
            raise InputError(
                tr(
                    "--seed {seed}: {folder} has verdicts with seed {kept}: leave it out, or give another --out",
                    **about,
                )
            )
        return kept
    seed = secrets.randbelow(MOST_SEEDS) if options.seed is None else options.seed
    write_bytes(path, json.dumps({"seed": seed}).encode())
    return seed


def _known(path: Path) -> dict[str, dict]:
    """The verdicts that are written down; a last line that was cut short is left out."""
    known = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                known[row["key"]] = row
            except (ValueError, KeyError, TypeError):
                continue
    return known


def _csv(rows: list[dict]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # some spreadsheets split at ";"
    table.writerow(COLUMNS)
    for row in rows:
        first = (row["findings"] or [{}])[0]
        index = ", ".join(map(str, first.get("index", [])))
        whole = row | first | {"verdict": row["word"], "index": index}
        table.writerow(_plain(whole.get(name)) for name in COLUMNS)
    return text.getvalue()


def _plain(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    starts_a_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    return f"'{cell}" if starts_a_formula else cell


def _show(rows: list[dict], out: Path) -> None:
    """The table: a line for each learner; and below it what held the files in."""
    exercises, learners = by_learner(rows)
    width = max(map(width_of, learners))
    print(f"{'':{width}}  " + "  ".join(exercises))
    for learner, words in learners.items():
        cells = [padded(word_of(word), len(key)) for word, key in zip(words, exercises, strict=True)]
        print(padded(learner, width) + "  " + "  ".join(cells).rstrip())
    for says in sorted({row["sandbox"] for row in rows if row["sandbox"]}):
        print(told(says))
    right = sum(row["word"] == RIGHT for row in rows)
    print(tr("{right} of {n} are right. The page: {page}", right=right, n=len(rows), page=out / "report.html"))
