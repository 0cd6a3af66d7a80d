"""One exercise, one file, one verdict. The file runs in another process; everything that is said of it is said here.

Exercise 0 of a lesson, and exercises that hold an operation of the library, are judged by the library's own cases. All
others have a judge of their own below their functions: it runs here, from the text that is shipped, and each call of a
learner's function goes to the learner's process.
"""

import ast
import contextlib
import io
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from minigpt import ops
from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.gradcheck.results import Result
from minigpt.jobs.check import Report, check_seconds, check_seed
from minigpt.learn import kernel_apart, lines
from minigpt.learn.classroom.advice import what_to_print
from minigpt.learn.classroom.course import Exercise, path_of, source_of
from minigpt.learn.classroom.language import tr, wrapped
from minigpt.learn.classroom.line_of_text import line_of_text
from minigpt.learn.classroom.sentences import told
from minigpt.learn.classroom.stubs import handed_out, parts
from minigpt.learn.classroom.verdict import NO_ANSWER, NOT_BEGUN, NOT_JUDGED, RIGHT, WRONG, Finding, Verdict
from minigpt.learn.judging.check_file import read, show_printed, try_all
from minigpt.learn.judging.derived import not_derived
from minigpt.learn.sandbox.process import CALL_SECONDS, WHOLE_SECONDS, Child, printable
from minigpt.learn.sandbox.remote import RemoteFile

MOST_SEEDS = 2**31
MOST_LINES = 60  # of a report
LONGEST_LINE = 2_000  # characters
LEFT = "leaves it to the library"  # why a case was skipped that the file could have computed
CANNOT_JUDGE = 2  # the status of an exercise's judge that misses something, such as a compiler
GAP = "your turn"  # stands where a learner has to write


class Limits(NamedTuple):
    """seconds: for a whole file. call_seconds: for one call. seed: of the cases; None draws one."""

    seconds: float = WHOLE_SECONDS
    call_seconds: float = CALL_SECONDS
    seed: int | None = None


def check_exercise(exercise: Exercise, path: Path, limits: Limits, say: Callable[[str], None] | None = None) -> Verdict:
    """Judge a file as this exercise; each line of the report is also said as it comes.

    Raises InputError for a file that is missing or is not Python, for limits that are not positive, and for a negative
    seed.
    """
    check_seconds(min(limits.seconds, limits.call_seconds))
    text = read(path)
    seed = secrets.randbelow(MOST_SEEDS) if limits.seed is None else limits.seed
    check_seed(seed)
    judging = _Judging(exercise, path, text, seed, limits, say)
    if text == handed_out(exercise):
        return judging.verdict(NOT_BEGUN, "")
    with Child(limits.seconds, limits.call_seconds) as child:
        judging.run(child)
        return judging.verdict(judging.word(), child.says)


class _Judging:
    """One file while it is judged: what was said, and what was found."""

    def __init__(self, exercise, path, text, seed, limits, say):
        self.exercise = exercise
        self.path = path
        self.text = text
        self.seed = seed
        self.limits = limits
        self.lines = []
        self.findings = []
        self.failure = ""
        self.unjudged = ""
        self._say = say
        self._start = perf_counter()

    def say(self, line: str) -> None:
        """One or more lines of the report, in the reader's language."""
        for one in told(_clean(line)).split("\n"):
            if len(self.lines) < MOST_LINES:
                self.lines.append(one)
                if self._say:
                    self._say(one)

    def found(self, tried: str, mistake: str) -> None:
        """A finding without a tensor; it stays English, and the report tells it in the reader's language."""
        self.say(mistake)
        self.findings.append(Finding(tried, "", _clean(mistake)))

    def run(self, child: Child) -> None:
        """Judge the file in this process."""
        try:
            remote = RemoteFile(child, self.path, self.text)
        except InputError as error:  # the file is Python, and cannot be run
            self.failure = str(error).replace(str(self.path), self.path.name)  # the same for every learner
            self.found("file", self.failure)
            return
        source = "" if self.exercise.operations else source_of(self.exercise)
        if self.exercise.operations or "check_file" in source:
            self._by_the_library(remote)
        else:
            self._by_its_own_judge(remote, source)
        child.finish()
        show_printed(child, self.say)
        self.failure = child.failure
        if child.failure and not self.findings:
            self.found("at the end", child.failure)
        if self.findings and self.findings[0].tensor:
            for line in what_to_print(self.text, self.findings[0]):
                self.say(line)

    def word(self) -> str:
        """The verdict in a word."""
        if self.unjudged:
            return NOT_JUDGED
        if self.failure:
            return NO_ANSWER
        return WRONG if self.findings else RIGHT

    def verdict(self, word: str, tier: str) -> Verdict:
        """All of it."""
        seconds = perf_counter() - self._start
        return Verdict(self.exercise.key, word, self.findings, self.lines, self.seed, tier, seconds)

    def _by_the_library(self, remote: RemoteFile) -> None:
        """Every case of every operation; where all is right, the operation in a model that writes a line."""
        needed = self.exercise.operations
        missing = [op for op in needed if op not in remote.operations()]
        for op in missing:
            self.found(op, f"{op}_forward or {op}_backward is missing: the file needs both")
        if missing or not remote.operations():
            return
        report = Report(self.say)
        try_all(remote, report, self.seed)
        self.findings += [_finding(tried, result) for tried, result in report.wrong]
        happy = report.close()
        for title in report.left_out:
            case, _, why = title.partition(": skipped, ")
            plain = "," not in case  # the operation itself, without an option such as dropout
            if why.endswith(LEFT) and (plain or self.exercise.operations):
                self.found(case, f"{case}: it leaves this case to the library: compute it here.")
        if happy and not self.findings:
            self._show_a_line(remote)

    def _show_a_line(self, remote: RemoteFile) -> None:
        try:
            written = line_of_text(remote.module)
        except Exception as error:  # whatever a learner's operation makes of it
            self.found("a small model", f"a small model cannot train with it: {error}")
            return
        if written:
            self.say(tr("A small GPT-2 has trained with it, and writes:"))
            self.say(f"    {written}")

    def _by_its_own_judge(self, remote: RemoteFile, source: str) -> None:
        """Run the judge of the shipped file, with the learner's functions in the place of its own."""
        upper, judge = parts(source)
        shipped = str(path_of(self.exercise))  # where the source of its functions is looked up
        names: dict[str, Any] = {"__name__": "exercise", "__file__": shipped}
        exec(compile(upper, shipped, "exec"), names)
        remote.child.lender.allowed = _operations_in(upper)
        theirs = _learners_functions(upper)
        for name in theirs:
            if name not in remote.signatures:
                self.found(name, f"the function {name} is missing")
                return
            names[name] = remote.function(name)
        remote.define(_given_among(theirs, upper))
        for name in _constants_with_gaps(upper):
            try:
                names[name] = remote.value(name)
            except RaisedElsewhere:
                self.found(name, f"{name} is missing")
                return
        names["__name__"] = "__main__"
        said = io.StringIO()
        apart = kernel_apart.launches(self.limits.call_seconds)
        with contextlib.redirect_stdout(said), lines.watched() as results, apart:
            ending = _ending_of(compile(judge, shipped, "exec"), names)
        for line in _with_whole_sentences(said.getvalue(), results).splitlines():
            self.say(line)
        if ending in (None, 0):
            for name in theirs:
                if names[name].gave_nan:  # it is neither more nor less than what it is compared with
                    self.found(name, f"{name} returns NaN, which is no number: is it 0 / 0, or a root of less than 0?")
            for result in not_derived(remote, remote.calls):
                self.found(result.name, result.diagnosis)
            return
        if ending == CANNOT_JUDGE:
            last = self.lines[-1] if self.lines else ""
            self.unjudged = last
            self.findings.append(Finding("not judged", "", last))
            return
        wrong = [result for result in results if result.word != "happy"]
        self.findings += [_finding(self.exercise.key, result) for result in wrong]
        if isinstance(ending, str):
            self.found(self.exercise.key, ending)
        elif not self.findings:
            last = self.lines[-1] if self.lines else ""
            self.findings.append(Finding(self.exercise.key, "", last))


def _clean(text: str) -> str:
    """The text, which may hold what a learner's function has returned, of printable lines that are not too long."""
    return "\n".join(printable(line[:LONGEST_LINE]) for line in text.split("\n"))


def _with_whole_sentences(printed: str, results: list[Result]) -> str:
    """What a judge has printed, with each diagnosis in the reader's language: they are folded there."""
    for result in results:
        sentence = told(result.diagnosis)
        if sentence != result.diagnosis:
            printed = printed.replace(lines.folded(result.diagnosis), wrapped(sentence, lines.COLUMNS, "  "))
    return printed


def _ending_of(judge, names) -> int | str | None:
    """How a judge ends: 0 or None where all is right, otherwise a status or a sentence."""
    try:
        exec(judge, names)
    except SystemExit as ending:
        return ending.code
    except RaisedElsewhere as error:
        return str(error)
    except NotImplementedError:
        return "it returns nothing yet"
    except Exception as error:  # the judge could not use what a learner's function has returned
        return f"what it returns cannot be used: {type(error).__name__}: {error}"
    return "its judge has not come to an end"


def _learners_functions(upper: str) -> list[str]:
    """The functions that a learner writes: those with a gap, and those given that call them.

    Where a bug is to be found there are no gaps, and it may be in any of them.
    """
    functions = [node for node in ast.parse(upper).body if isinstance(node, ast.FunctionDef)]
    lines_of = upper.splitlines()
    found = {node.name for node in functions if _has_gap(node, lines_of)}
    size = -1
    while size < len(found):  # a given function that calls one of them runs there too
        size = len(found)
        found |= {node.name for node in functions if found & _names_in(node)}
    if not found and not _constants_with_gaps(upper):
        return [node.name for node in functions]
    return [node.name for node in functions if node.name in found]


def _given_among(names: list[str], upper: str) -> str:
    """The shipped text of those functions that a learner has only to call, such as one that measures memory."""
    lines_of = upper.splitlines()
    functions = [node for node in ast.parse(upper).body if isinstance(node, ast.FunctionDef) and node.name in names]
    if not any(_has_gap(node, lines_of) for node in functions):
        return ""  # a bug is to be found, in any of them
    given = [node for node in functions if not _has_gap(node, lines_of)]
    return "\n\n".join(ast.get_source_segment(upper, node) or "" for node in given)


def _operations_in(text: str) -> frozenset[str]:
    """The operations that a text calls, as `ops.linear_forward`."""
    called = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    return frozenset(op for op in ops.names if {f"{op}_forward", f"{op}_backward"} & called)


def _constants_with_gaps(upper: str) -> list[str]:
    """The constants that a learner writes, such as the text of a kernel."""
    lines_of = upper.splitlines()
    assignments = [node for node in ast.parse(upper).body if isinstance(node, ast.Assign)]
    targets = [target for node in assignments if _has_gap(node, lines_of) for target in node.targets]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _has_gap(node: ast.stmt, lines_of: list[str]) -> bool:
    """Does a learner write in these lines, or in the comment behind the last one?"""
    return any(GAP in line for line in lines_of[node.lineno - 1 : node.end_lineno])


def _finding(tried: str, result: Result) -> Finding:
    mistake = re.sub(r"\s+", " ", result.diagnosis) or "the gradient is wrong"
    index = tuple(int(number) for number in result.index)
    return Finding(tried, result.name, mistake, index, float(result.analytic), float(result.numeric))
