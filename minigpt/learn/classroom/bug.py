"""`minigpt learn bug`: a model with a planted mistake. Name it, find the line, mend it, and prove that it is mended.

What is shown first is what a person sees who has made it: a loss curve, and a gradient check that names no cause.
"""

import os
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt import gradcheck
from minigpt.errors import InputError
from minigpt.files.disk import write_bytes
from minigpt.gradcheck.judge import Trial
from minigpt.gradcheck.results import HAPPY, Result
from minigpt.jobs.check import Report
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.classroom.commands import InFolder, command_line
from minigpt.learn.classroom.language import language, tr
from minigpt.learn.classroom.progress import Progress, Record, today
from minigpt.learn.classroom.sentences import told, told_errors
from minigpt.learn.judging.check_file import folded, read, show_printed, try_all
from minigpt.learn.museum import pieces as museum
from minigpt.learn.museum.levels import trials
from minigpt.learn.museum.pieces import Piece, as_module
from minigpt.learn.museum.training import Curve, curve, shown_by
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import RemoteFile
from minigpt.ops import names as OPERATIONS

NEXT, NAME, LINE, CHECK = "next", "name", "line", "check"
LEVELS = (1, 2, 3, 4)
MISSES = 2  # wrong lines before the definition is told in which it is
STEP = 37  # pieces of a level are handed out in this order, so that neighbours are not of the same operation
LARGEST_BAR = 10.0  # stands for an error that has no size


@dataclass(kw_only=True)
class BugOptions(InFolder):
    """What `minigpt learn bug` can be told."""

    what: str = argument("name, line or check: what you do with it; next hands one out", default=NEXT, metavar="STEP")
    number: str | None = argument(
        "of the name, or of the line; default: the names are listed", default=None, metavar="NUMBER"
    )
    level: int | None = option(None, "1 to 4; default: the lowest that has one left", metavar="N")
    piece: int | None = option(None, "its number; default: the one that you are at", metavar="N")


@told_errors()
def bug(options: BugOptions) -> bool:
    """One step of the game. True where it went well: something was handed out, or an answer was right.

    Raises InputError for a step that there is not.
    """
    steps: dict[str, Any] = {NEXT: None, NAME: name_it, LINE: find_line, CHECK: check}
    if options.what not in steps:
        raise InputError(tr("{what} is no step: give {steps}", what=options.what, steps=", ".join(steps)))
    progress = Progress.load(options.path)
    if options.what == NEXT:
        hand_out(_chosen(options, progress), progress, options.path)
        return True
    piece = _at(options, progress)
    went_well = steps[options.what](piece, options, progress)
    progress.save()
    _say_next(piece, progress, options.path)
    return went_well


def hand_out(piece: Piece, progress: Progress, folder: Path) -> None:
    """Train with the mistake, print what is seen of it, and write the file; a file that is there stays."""
    path = folder / file_of(piece)
    file, right = piece.module(), as_module(piece.right, piece.op)
    print(tr("Bug {n}, level {level}: {about}", n=piece.number, level=piece.level, about=_about_level(piece.level)))
    found = trials(piece.op, file)
    _show_check(found)
    yours, best = curve(piece.op, file), curve(piece.op, right)
    _show_curve(piece, yours, best)
    folder.mkdir(parents=True, exist_ok=True)
    _picture(piece, yours, best, _first_wrong(found)[1], folder)
    if path.exists():
        os.utime(path)
        print(tr("{file} is there already, and stays as it is.", file=path))
    else:
        write_bytes(path, piece.wrong.encode("utf-8"))
        print(tr("The code with the mistake: {file}", file=path))
    record = progress[key_of(piece)]
    record.started = record.started or today()
    progress.save()
    _say_next(piece, progress, folder)


def name_it(piece: Piece, options: BugOptions, progress: Progress) -> bool:
    """List the names, or take an answer."""
    offered = museum.choices(piece)
    record = progress[f"{key_of(piece)}.{NAME}"]
    if options.number is None:
        print(tr("What is wrong in {file}?", file=file_of(piece)))
        for number, one in enumerate(offered, start=1):
            print(f"  {number}  {title_of(one)}")
        return True
    number = _number(options.number, len(offered), tr("a name"))
    is_right = offered[number - 1] == piece
    _note(record, is_right)
    if is_right:
        print(tr("Yes: {title}.", title=title_of(piece)))
    else:
        print(tr("No, it is not that: {title}.", title=title_of(offered[number - 1])))
        print(tr("Look at the table and at the code again."))
    return is_right


def find_line(piece: Piece, options: BugOptions, progress: Progress) -> bool:
    """Take the number of a line of the file as it was handed out. Raises InputError where none is given."""
    _first(NAME, piece, progress, options.path)
    if options.number is None:
        raise InputError(tr("give the number of the line: {command}", command=_command(f"{LINE} 12", options.path)))
    lines = piece.wrong.splitlines()
    number = _number(options.number, len(lines), tr("a line"))
    record = progress[f"{key_of(piece)}.{LINE}"]
    is_right = number in piece.lines()
    _note(record, is_right)
    print(f"  {number:3}  {lines[number - 1]}")
    if is_right:
        print(tr("Yes, here it is."))
    else:
        print(tr("No: this line is as it should be."))
        if record.failed >= MISSES:
            print(tr("A hint: it is in {name}.", name=_definition(lines, min(piece.lines()))))
    return is_right


def check(piece: Piece, options: BugOptions, progress: Progress) -> bool:
    """Judge the mended file, and let the small model prove it."""
    _first(LINE, piece, progress, options.path)
    path = options.path / file_of(piece)
    text = read(path)
    if text == piece.wrong:
        print(tr("{file} is as it was handed out: mend it first.", file=path))
        return False
    record = progress[key_of(piece)]
    is_right = mended(piece, path, text)
    _note(record, is_right)
    if is_right:
        stars = stars_of(piece, progress)
        print(tr("Mended. {stars} of 3 stars: one for each step that was right at the first try.", stars=stars))
        done = [one for one in museum.pieces() if progress[key_of(one)].solved]
        total = sum(stars_of(one, progress) for one in done)
        about = {"n": len(done), "all": len(museum.pieces()), "stars": total}
        print(tr("{n} of {all} bugs are mended, with {stars} stars.", **about))
    return is_right


def mended(piece: Piece, path: Path, text: str) -> bool:
    """Judge a file in a process of its own: the library's cases, and then the curve of the small model beside it."""
    fold = folded(print)

    def say(line: str) -> None:
        fold(told(line))

    with Child() as child:
        try:
            file = RemoteFile(child, path, text)
            report = Report(say)
            functions = _judge_model(file, report) if piece.is_model else _judge_operation(piece, file, report)
        except InputError as error:
            say(str(error))
            return False
        happy = report.close() and not child.failure
        if happy:
            yours, best = curve(piece.op, functions), curve(piece.op, as_module(piece.right, piece.op))
            happy = yours.agrees(best)
            if happy:
                print(tr("The curve of the small {model} is the right one now.", model=shown_by(piece.op)))
            else:
                print(
                    tr(
                        "Its gradients are right, but the curve of the small {model} is not the right one:",
                        model=shown_by(piece.op),
                    )
                )
                _show_curve(piece, yours, best)
        child.finish()
        show_printed(child, say)
        if child.failure:
            say(child.failure)
    return happy and not child.failure


def key_of(piece: Piece) -> str:
    """Its name in the progress file; its steps have this name with ".name" and ".line"."""
    return f"bug_{piece.number:03}"


def file_of(piece: Piece) -> str:
    """The name of its file in the learner's folder."""
    return f"{key_of(piece)}.py"


def title_of(piece: Piece) -> str:
    """What is wrong in it, in the reader's language."""
    return piece.title_ko if language() == "ko" else piece.title


def stars_of(piece: Piece, progress: Progress) -> int:
    """How many of its three steps were right at the first try."""
    keys = (f"{key_of(piece)}.{NAME}", f"{key_of(piece)}.{LINE}", key_of(piece))
    records = [progress.records.get(key, Record()) for key in keys]
    return sum(1 for record in records if record.solved and not record.failed)


# --- which piece -----------------------------------------------------------------------------------------------------


def _chosen(options: BugOptions, progress: Progress) -> Piece:
    """The piece with the number that was given; or the one that was begun; or the next of a level."""
    if options.piece is not None:
        return museum.piece(options.piece)
    if options.level is not None and options.level not in LEVELS:
        raise InputError(tr("there is no level {n}: give 1 to 4", n=options.level))
    if options.level is None and (begun := _begun(options.path, progress)):
        return begun
    left = [one for one in museum.pieces() if not _is_solved(one, progress) and options.level in (None, one.level)]
    if not left:
        raise InputError(tr("all of them are mended: begin one again with --piece N"))
    return min(left, key=lambda one: (one.level, one.number * STEP % len(museum.pieces())))


def _at(options: BugOptions, progress: Progress) -> Piece:
    """The piece to which an answer belongs. Raises InputError where none was handed out."""
    if options.piece is not None:
        piece = museum.piece(options.piece)
        if key_of(piece) in progress.records:
            return piece
        begin = _command(f"--piece {piece.number}", options.path)
        raise InputError(tr("bug {n} was not handed out yet: {command}", n=piece.number, command=begin))
    piece = _begun(options.path, progress)
    if piece is None:
        raise InputError(tr("no bug was handed out yet: {command}", command=_command("", options.path)))
    return piece


def _begun(folder: Path, progress: Progress) -> Piece | None:
    """The piece that is not solved and whose file was changed or handed out last; None where there is none."""
    open_ones = [one for one in museum.pieces() if key_of(one) in progress.records and not _is_solved(one, progress)]
    there = [one for one in open_ones if (folder / file_of(one)).exists()]
    return max(there, key=lambda one: (folder / file_of(one)).stat().st_mtime_ns, default=None)


def _is_solved(piece: Piece, progress: Progress) -> bool:
    return bool(progress.records.get(key_of(piece), Record()).solved)


# --- what is shown ---------------------------------------------------------------------------------------------------


def _about_level(level: int) -> str:
    return {
        1: tr("it is wrong everywhere"),
        2: tr("it is wrong in some tensors"),
        3: tr("a careless check passes it, or a model trains nevertheless"),
        4: tr("a careless check passes it, and a model trains nevertheless"),
    }[level]


def _first_wrong(found: list[Trial]) -> Trial:
    """The first trial in which something is wrong."""
    return next(trial for trial in found if any(result.word != "happy" for result in trial[1]))


def _show_check(found: list[Trial]) -> None:
    """The table of a careful check, which names no cause."""
    what, results = _first_wrong(found)
    happy = sum(1 for _, others in found if all(result.word == "happy" for result in others))
    print(
        tr(
            "A careful check: {n} of {total} trials are happy. The first that is not: {what}",
            n=happy,
            total=len(found),
            what=told(what),
        )
    )
    silent = [result._replace(diagnosis="", index=()) for result in results]
    print(textwrap.indent(told(gradcheck.table(silent)), "    "))


def _show_curve(piece: Piece, yours: Curve, best: Curve) -> None:
    """The curves in a line or two."""
    about = {"model": shown_by(piece.op), "n": len(best.losses), "best": best.last}
    if yours.problem:
        print(tr("A small {model} cannot train with it: {why}", why=told(yours.problem[:200]), **about))
    elif yours.agrees(best):
        print(tr("A small {model} trains as if nothing were wrong: its loss after {n} updates is {best:.3f}.", **about))
    else:
        print(
            tr(
                "A small {model} trains with it to a loss of {yours:.3f} in {n} updates; {best:.3f} is right.",
                yours=yours.last,
                **about,
            )
        )


def _picture(piece: Piece, yours: Curve, best: Curve, results: list[Result], folder: Path) -> None:
    """Both curves, and the errors of the check as bars; in English, since not every system has a font for others."""
    from minigpt import plot  # matplotlib is slow to come

    figure, (left, right) = plot.plt.subplots(1, 2, figsize=(10, 4))
    left.plot(best.losses, label="right")
    left.plot(yours.losses, "--", label="yours")
    left.set(title=f"{shown_by(piece.op)}", xlabel="update", ylabel="loss")
    left.legend()
    names = [result.name for result in results]
    errors = [min(max(result.error, HAPPY / 1e5), LARGEST_BAR) for result in results]
    colors = ["tab:green" if result.word == "happy" else "tab:red" for result in results]
    right.barh(range(len(names)), errors, color=colors, log=True)
    right.set_yticks(range(len(names)), names, fontsize=7 if len(names) > 8 else None)
    right.axvline(HAPPY, color="gray", linestyle=":")
    right.invert_yaxis()
    right.set(xlabel="relative error")
    plot.save(figure, f"{key_of(piece)}.png", folder)


def _say_next(piece: Piece, progress: Progress, folder: Path) -> None:
    """The step that comes next."""
    name, line = (progress[f"{key_of(piece)}.{step}"].solved for step in (NAME, LINE))
    if _is_solved(piece, progress):
        print(tr("Next: {command}", command=_command("", folder)))
    elif not name:
        print(tr("Next, name it: {command}   and then with the number of your answer", command=_command(NAME, folder)))
    elif not line:
        print(
            tr("Next, find the line, or one beside what is missing: {command}", command=_command(f"{LINE} 12", folder))
        )
    else:
        print(
            tr("Next, mend {file}, and then: {command}", file=folder / file_of(piece), command=_command(CHECK, folder))
        )


# --- parts -----------------------------------------------------------------------------------------------------------


def _judge_operation(piece: Piece, file: RemoteFile, report: Report) -> types.ModuleType:
    """All cases of the operation. Raises InputError for a file that has no such pair."""
    if piece.op not in file.operations():
        raise InputError(f"{piece.op}_forward or {piece.op}_backward is missing: the file needs both")
    try_all(file, report, seed=0)
    return file.module


def _judge_model(file: RemoteFile, report: Report) -> types.SimpleNamespace:
    """A model whose operations are all lent. Raises InputError for a file that has not both passes."""
    file.child.lender.allowed = frozenset(OPERATIONS)
    passes = {name: file.function(name) for name in ("model_forward", "model_backward")}
    functions = types.SimpleNamespace(**passes)
    report.add(trials(museum.WHOLE_MODEL, functions))
    return functions


def _first(step: str, piece: Piece, progress: Progress, folder: Path) -> None:
    """Raise InputError where a step before was not taken."""
    if not progress[f"{key_of(piece)}.{step}"].solved:
        what = {NAME: tr("first name the mistake"), LINE: tr("first find the line")}[step]
        example = NAME if step == NAME else f"{LINE} 12"
        raise InputError(f"{what}: {_command(example, folder)}")


def _note(record: Record, is_right: bool) -> None:
    """Remember a try; what was right once stays so, and later tries do not count."""
    if not record.solved:
        record.note(is_right)


def _number(text: str, most: int, what: str) -> int:
    """The number that was given. Raises InputError for what is no number from 1 to `most`."""
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise InputError(tr("{text} is not the number of {what}: give 1 to {most}", text=text, what=what, most=most))
    return int(text)


def _definition(lines: list[str], number: int) -> str:
    """The name of the function or class in which a line stands."""
    heads = [line for line in lines[:number] if line.startswith(("def ", "class "))]
    return heads[-1].split()[1].partition("(")[0] if heads else tr("the lines at the top")


def _command(words: str, folder: Path) -> str:
    return command_line(folder, "bug", words)
