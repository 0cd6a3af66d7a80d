"""`minigpt learn status, start, check, hint, answer, reset`: what a learner types."""

import inspect
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from minigpt.errors import InputError
from minigpt.files.disk import typed, write_bytes
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.classroom import course
from minigpt.learn.classroom.checking import Limits, check_exercise
from minigpt.learn.classroom.course import Exercise, Lesson
from minigpt.learn.classroom.language import tr, width_of, wrapped
from minigpt.learn.classroom.progress import Progress, mark, today
from minigpt.learn.classroom.sentences import told, told_errors
from minigpt.learn.classroom.stubs import handed_out
from minigpt.learn.classroom.verdict import NO_ANSWER, NOT_BEGUN, NOT_JUDGED, Verdict, without_answer
from minigpt.ops import reference

FOLDER = "my-course"
COLUMNS = 100
HONEST_TRIES = 2  # failed checks of a changed file before an answer is shown


@dataclass(kw_only=True)
class InFolder:
    """The option of every command: where the learner's files are."""

    folder: str = option(FOLDER, "where your files and your progress are kept", metavar="DIR")

    @property
    def path(self) -> Path:
        """The folder. Raises InputError where it is a file."""
        path = Path(self.folder)
        if path.exists() and not path.is_dir():
            raise InputError(tr("--folder {folder} is a file: give the name of a folder", folder=path))
        return path


@dataclass(kw_only=True)
class StatusOptions(InFolder):
    """What `minigpt learn status` can be told."""


@dataclass(kw_only=True)
class LessonOptions(InFolder):
    """What `minigpt learn start` and `reset` can be told."""

    lesson: str = argument("its number, such as 03", metavar="LESSON")


@dataclass(kw_only=True)
class CheckOptions(LessonOptions):
    """What `minigpt learn check` can be told."""

    file: str | None = argument("one file (default: all of the lesson that are there)", default=None, metavar="FILE")
    json: bool = option(False, "print the verdicts as JSON, and nothing else")
    seed: int | None = option(None, "of the cases; default: a new one each time", metavar="N")
    time_limit: float = option(300.0, "seconds for each file", metavar="SECONDS")


@dataclass(kw_only=True)
class HelpOptions(LessonOptions):
    """What `minigpt learn hint` and `answer` can be told."""

    exercise: str | None = argument(
        "its number in the lesson, or its file (default: the first not solved)",
        default=None,
        metavar="EXERCISE",
    )


@dataclass(kw_only=True)
class AnswerOptions(HelpOptions):
    """What `minigpt learn answer` can be told."""

    mine: str | None = option(None, "your own answer, for an open question; default: you are asked", metavar="TEXT")


@told_errors()
def status(options: StatusOptions) -> None:
    """Print what is done, lesson by lesson, what is next, and how long it takes."""
    progress = Progress.load(options.path)
    rows = course.lessons()
    print(tr("lesson   done     reading   about"))
    for number, lesson in rows.items():
        done = sum(1 for exercise in lesson.exercises if is_done(progress, exercise))
        total = len(lesson.exercises)
        minutes = tr("{n} min", n=lesson.core)
        minutes = " " * (7 - width_of(minutes)) + minutes
        print(f"{number:6}   {done:2} / {total:<2}   {minutes}   {lesson.title}"[:100])
    solved = sum(1 for lesson in rows.values() for exercise in lesson.exercises if is_done(progress, exercise))
    total = sum(len(lesson.exercises) for lesson in rows.values())
    print(tr("{solved} of {total} exercises are done.", solved=solved, total=total))
    say_next(progress, options.path)


@told_errors()
def start(options: LessonOptions) -> list[Path]:
    """Write the files of a lesson's exercises, with stubs and gaps; what is there stays. Returns what is new."""
    lesson = course.lesson(options.lesson)
    progress = Progress.load(options.path)
    written, kept = [], []
    for exercise in lesson.judged:
        path = options.path / exercise.file
        if path.exists():
            kept.append(path)
            continue
        text = handed_out(exercise)
        write_bytes(path, text.encode("utf-8"))
        progress[exercise.key].started = today()
        progress[exercise.key].handed_out = mark(text)
        written.append(path)
    progress.save()
    print(tr("Lesson {number}: {title}.", number=lesson.number, title=lesson.title), _reading(lesson))
    for exercise in lesson.exercises:
        where = tr("a question") if exercise.is_open else str(options.path / exercise.file)
        print(f"  {exercise.number}  {where}")
    if kept:
        print(tr("{n} files were there already and stay as they are.", n=len(kept)))
    print(tr("Read it:   {command}", command=f"minigpt lesson {lesson.number}"))
    print(tr("Judge it:  {command}", command=_command("check", lesson, options.path)))
    return written


@told_errors()
def check(options: CheckOptions) -> bool:
    """Judge one file, or all files of a lesson; print the reports, and what is next. True if all of them are right."""
    lesson = course.lesson(options.lesson)
    progress = Progress.load(options.path)
    limits = Limits(seconds=options.time_limit, seed=options.seed)
    verdicts = []
    files = _files(options, lesson)
    for exercise, path in files:
        try:
            verdict = check_exercise(exercise, path, limits, say=None if options.json else print)
        except InputError as error:
            if len(files) == 1:
                raise
            verdict = _cannot_be_run(exercise, str(error), options.json)
        if verdict.word not in (NOT_BEGUN, NOT_JUDGED):
            progress[exercise.key].note(verdict.is_right)
        progress.save()
        verdicts.append(verdict)
        if not options.json:
            _say_whether_it_is_of_an_older_version(exercise, path, progress, options.path)
            _say_verdict(verdict, exercise, path, progress, options.path)
    happy = all(verdict.is_right for verdict in verdicts)
    if options.json:
        found = [verdict.as_json() for verdict in verdicts]
        print(json.dumps({"lesson": lesson.number, "right": happy, "exercises": found}, indent=2, ensure_ascii=False))
    elif happy:
        say_next(progress, options.path)
    return happy


@told_errors()
def hint(options: HelpOptions) -> None:
    """Print the next hint of an exercise: each call one more, and again the last one."""
    progress = Progress.load(options.path)
    exercise = _meant(options, progress)
    hints = course.hints_of(exercise)
    record = progress[exercise.key]
    record.hints = min(record.hints + 1, len(hints))
    progress.save()
    print(tr("{name}, hint {n} of {total}:", name=_title(exercise), n=record.hints, total=len(hints)))
    print(wrapped(hints[record.hints - 1], COLUMNS))


@told_errors()
def answer(options: AnswerOptions) -> None:
    """Print the answer of an open question, or where a solution is explained: after an honest try.

    Raises InputError where there was none.
    """
    progress = Progress.load(options.path)
    exercise = _meant(options, progress)
    record = progress[exercise.key]
    if exercise.is_open:
        record.own_answer = record.own_answer or _own_answer(options, exercise)
        print(tr("Yours:   {text}", text=record.own_answer))
        print(tr("Answer:"))
        print(course.answer_of(exercise))
    else:
        if record.failed < HONEST_TRIES and not record.solved:
            about = {"name": _title(exercise), "n": record.failed, "needed": HONEST_TRIES}
            raise InputError(
                tr("{name}: {n} failed checks of a changed file, and {needed} are needed: try it first", **about)
            )
        for number, text in enumerate(course.hints_of(exercise), start=1):
            print(wrapped(f"{number}. {text}", COLUMNS))
        for op in exercise.operations:
            print(tr("The library's own: {file}", file=_source_file(op)))
    record.answer_seen = True
    progress.save()


@told_errors()
def reset(options: LessonOptions) -> None:
    """Begin a lesson again: its files are moved into the folder `old`, and handed out anew. Nothing is lost."""
    lesson = course.lesson(options.lesson)
    progress = Progress.load(options.path)
    for exercise in lesson.exercises:
        progress.records.pop(exercise.key, None)
        path = options.path / exercise.file
        if exercise.is_open or not path.exists():
            continue
        kept = _unused(options.path / "old" / exercise.file)
        kept.parent.mkdir(exist_ok=True)
        path.rename(kept)
        print(tr("{file} is kept as {kept}", file=path, kept=kept))
    progress.save()
    start(options)


def is_done(progress: Progress, exercise: Exercise) -> bool:
    """Is it right, or, where it is a question, answered?"""
    record = progress.records.get(exercise.key)
    if record is None:
        return False
    return record.answer_seen if exercise.is_open else bool(record.solved)


def _reading(lesson: Lesson) -> str:
    """How long a lesson takes to read."""
    if lesson.core == lesson.minutes:
        return tr("Reading takes {n} minutes.", n=lesson.minutes)
    return tr("Its core takes {core} minutes to read, all of it {n}.", core=lesson.core, n=lesson.minutes)


def say_next(progress: Progress, folder: Path) -> None:
    """Print the command that comes next, and how long it takes."""
    for lesson in course.lessons().values():
        left = [exercise for exercise in lesson.exercises if not is_done(progress, exercise)]
        if not left:
            continue
        if not any((folder / exercise.file).exists() for exercise in lesson.judged):
            command = _command("start", lesson, folder)
            print(tr("Next: {command}   ({n} minutes to read)", command=command, n=lesson.core))
            return
        first = left[0]
        if first.is_open:
            print(tr("Next: a question, {name}. {text}", name=_title(first), text=first.text)[:300])
            print(tr("When you have an answer: {command}", command=_command("answer", lesson, folder, first.number)))
        else:
            command = _command("check", lesson, folder, first.file)
            print(tr("Next: {file}, and then {command}", file=folder / first.file, command=command))
        return
    print(tr("All of the course is done."))


def command_line(folder: Path, *words: str) -> str:
    """A command of `minigpt learn` that can be typed as it stands."""
    line = " ".join(("minigpt learn", *filter(None, words)))
    return line if str(folder) == FOLDER else f"{line} --folder {typed(folder)}"


# --- parts of the commands -------------------------------------------------------------------------------------------


def _files(options: CheckOptions, lesson: Lesson) -> list[tuple[Exercise, Path]]:
    """What is to be judged: the file that was named, or each file of the lesson that is there."""
    if options.file is not None:
        path = Path(options.file)
        if not path.exists() and (options.path / path).exists():
            path = options.path / path
        return [(course.exercise_of(path.name, lesson), path)]
    there = [(exercise, options.path / exercise.file) for exercise in lesson.judged]
    there = [(exercise, path) for exercise, path in there if path.exists()]
    if not there:
        command = _command("start", lesson, options.path)
        raise InputError(
            tr("{folder} has no file of lesson {n}: {command}", folder=options.path, n=lesson.number, command=command)
        )
    return there


def _cannot_be_run(exercise: Exercise, why: str, quietly: bool) -> Verdict:
    """The verdict on one of several files that is not Python: the others are judged all the same."""
    if not quietly:
        print(told(why))
    return without_answer(exercise.key, NO_ANSWER, why)


def _say_whether_it_is_of_an_older_version(exercise: Exercise, path: Path, progress: Progress, folder: Path) -> None:
    """The exercise may have changed since the file was handed out; the file is kept, and judged as it is now."""
    known = progress[exercise.key].handed_out
    if known and known != mark(handed_out(exercise)):
        print(tr("{file} was handed out by another version of minigpt, and the exercise has changed since.", file=path))
        anew = _command("reset", course.lesson(exercise.lesson), folder)
        print(tr("It is kept, and judged by this version. To begin anew (yours is kept too): {command}", command=anew))


def _say_verdict(verdict: Verdict, exercise: Exercise, path: Path, progress: Progress, folder: Path) -> None:
    """The last lines of a report: the verdict, and what may help."""
    lesson = course.lesson(exercise.lesson)
    if verdict.word == NOT_BEGUN:
        print(tr("{file}: not done yet. Open it: what you fill in is judged here.", file=path))
        print(tr("A hint: {command}", command=_command("hint", lesson, folder, exercise.number)))
    elif verdict.word == NOT_JUDGED:
        print(tr("{file}: it cannot be judged on this machine.", file=path))
    elif verdict.is_right:
        print(tr("{file}: right.", file=path))
    else:
        print(tr("{file}: not right yet.", file=path))
        if progress[exercise.key].failed >= HONEST_TRIES:
            print(tr("Stuck? {command}", command=_command("hint", lesson, folder, exercise.number)))
    print()


def _meant(options: HelpOptions, progress: Progress) -> Exercise:
    """The exercise that was named, or the first of the lesson that is not done."""
    lesson = course.lesson(options.lesson)
    if options.exercise is not None:
        return course.exercise_of(Path(options.exercise).name, lesson)
    left = [exercise for exercise in lesson.exercises if not is_done(progress, exercise)]
    return (left or list(lesson.exercises))[0]


def _own_answer(options: AnswerOptions, exercise: Exercise) -> str:
    """What the learner answers. Raises InputError where there is nothing."""
    text = options.mine
    if text is None:
        print(wrapped(f"{_title(exercise)}: {exercise.text}", COLUMNS))
        try:
            text = input(tr("Your answer, in one line: "))
        except EOFError:
            text = ""
    if not text.strip():
        raise InputError(tr("{name}: answer first, in a line of your own: --mine TEXT", name=_title(exercise)))
    return " ".join(text.split())


def _title(exercise: Exercise) -> str:
    return tr("lesson {lesson}, exercise {number}", lesson=exercise.lesson, number=exercise.number)


def _command(action: str, lesson: Lesson, folder: Path, what: object = "") -> str:
    return command_line(folder, action, lesson.number, str(what))


def _source_file(op: str) -> str:
    """The library's file of an operation, as a path in the repository."""
    module = inspect.getmodule(getattr(reference, f"{op}_forward")).__name__
    return module.replace(".", "/") + ".py"


def _unused(path: Path) -> Path:
    """The path, with a number where a file of this name is there already."""
    numbered = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in itertools.count(1))
    return next(one for one in numbered if not one.exists())
