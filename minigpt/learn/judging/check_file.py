"""`minigpt check FILE`: a learner's operations against finite differences, alone and then in place.

The file runs in a process with NumPy and without minigpt, which only answers calls with arrays; cases, gradient checks,
diagnoses and verdict are made here. So nothing that the file prints, raises, ends or changes can be taken for success.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from minigpt import ops
from minigpt.errors import InputError
from minigpt.files.disk import typed
from minigpt.gradcheck.judge import Trial, judge
from minigpt.gradcheck.results import Result
from minigpt.gradcheck.rules import ANOTHER_TIME
from minigpt.jobs.check import Report, check_seconds, check_seed, pair_of
from minigpt.learn.judging.derived import calls_of_operations, not_derived
from minigpt.learn.judging.in_place import in_place
from minigpt.learn.sandbox.process import CALL_SECONDS, WHOLE_SECONDS, Child, printable
from minigpt.learn.sandbox.remote import RemoteFile

COLUMNS = 110  # no line of a report is longer

MAX_BYTES = 1_000_000  # of a file


def run(
    file: str | Path,
    seed: int = 0,
    say: Callable[[str], None] = print,
    *,
    all_cases: bool = False,
    time_limit: float = WHOLE_SECONDS,
    call_limit: float = CALL_SECONDS,
    sandbox: str = "auto",
) -> bool:
    """Print a table of relative errors; True if all of them are happy.

    file: Python with pairs such as layernorm_forward and layernorm_backward. Where its pairs are right, they are also
    tried as an override: in the composites that call them, and in small models. all_cases: a case that is skipped, for
    an option that a pair does not take, counts as wrong. time_limit, call_limit: seconds for everything, and for one
    call. sandbox: "auto", "bubblewrap" or "plain", what holds the file in. Raises InputError for a file that is
    missing, cannot be run, or has no pair, and for a limit that is not positive.
    """
    check_seed(seed)
    say = folded(say)
    check_seconds(time_limit)
    path = Path(file)
    text = read(path)
    if judges_itself(text):
        raise InputError(f"{path} has no operation to check, it judges itself: run `python {path}`")
    with Child(time_limit, call_limit, sandbox) as child:
        remote = RemoteFile(child, path, text)
        with ops.using(remote.module):
            pass  # it refuses a file with no pair, or with half of one
        say(child.says)
        say(f"Seed {seed}.")
        report = Report(say, all_cases)
        try_all(remote, report, seed)
        child.finish()
        if child.failure and not report.failed:
            report.add([("at the end", [Result("process", diagnosis=child.failure)])])
        show_printed(child, say)
        happy = report.close()
    if happy:
        say(f"Next: {next_step(path)}")
    return happy


def folded(say: Callable[[str], None]) -> Callable[[str], None]:
    """The same, with long lines folded at COLUMNS, and without characters that are no text."""

    def say_folded(text):
        for line in text.split("\n"):
            shown = printable(line)
            indent = " " * (len(shown) - len(shown.lstrip()))
            for part in textwrap.wrap(shown, COLUMNS, subsequent_indent=indent, break_on_hyphens=False) or [""]:
                say(part)

    return say_folded


def main(file: str) -> int:
    """`python FILE` for an exercise that `minigpt check FILE` judges: the exit status, 0 only where all is happy."""
    try:
        return 0 if run(file) else 1
    except InputError as error:
        print(error)
        return 2


def read(path: Path) -> str:
    """The text of a Python file, without the byte order mark of Windows.

    Raises InputError for a file that is missing, is not Python, or is far too large to be an exercise.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file: give Python with a pair such as layernorm_forward, layernorm_backward")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has {path.stat().st_size:,} bytes: at most {MAX_BYTES:,} are judged")
        text = path.read_text(encoding="utf-8-sig")
        compile(text, str(path), "exec")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        message = getattr(error, "msg", error)
        raise InputError(f"{path}{where}: this is not Python: {message}") from error
    return text


def judges_itself(text: str) -> bool:
    """Has this Python a part for `python FILE`, and no function with the name of a pass?"""
    functions = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    passes = {f"{op}_{way}" for op in ops.names for way in ("forward", "backward")}
    return "__main__" in text and not functions & passes


def next_step(path: Path) -> str:
    """What to do after a file that is right: the next exercise of its folder, or to use the pair in a model."""
    exercises = sorted(other.name for other in path.resolve().parent.glob("[0-9][0-9]_*.py"))
    if not re.match(r"\d\d_", path.name):
        return "use it in a model: `with ops.using(your_module): ...` runs your operation in place of the library's."
    later = [name for name in exercises if name > path.name]
    if not later:
        return "this was the last exercise of its folder."
    where = path.parent / later[0]
    lesson = later[0][:2]
    if lesson == path.name[:2]:
        return f"python {typed(where)}"
    return f"lesson {lesson}, and then python {typed(where)}"


def try_all(remote: RemoteFile, report: Report, seed: int) -> None:
    """All trials, until the process fails: each pair alone, and then, where all are right, in place."""
    written = remote.operations()
    for op in written:
        report.add(watched(judge(op, *pair_of(remote.module, op), seed), remote))
    if report.failed:
        if not remote.child.failure:
            report.say("Once these are right, they are also tried in place: in the composites and in small models.")
        return
    report.add(watched(in_place(remote.module, written, seed), remote), "with it: ")
    if not report.failed:
        numerical = not_derived(remote, calls_of_operations(remote, seed))
        report.add((f"{result.name}, 9 digits", [result]) for result in numerical)


def watched(trials: Iterator[Trial], remote: RemoteFile) -> Iterator[Trial]:
    """The same trials, first what was written into, as it causes other things; none after the process has failed."""
    if remote.child.failure:
        return
    for what, results in trials:
        findings = remote.findings()
        if findings:
            results = [result for result in results if not result.diagnosis.startswith(ANOTHER_TIME)]
        yield what, findings + results
        if remote.child.failure:
            return


def show_printed(child: Child, say: Callable[[str], None]) -> None:
    """What the file printed, as text of printable characters, at most ten lines."""
    lines = child.printed.splitlines()
    if not lines:
        return
    say("Your file printed:")
    for line in lines[:10]:
        say("    " + line[: COLUMNS - 4])
    if len(lines) > 10:
        say("    …")
