"""`minigpt lessons FOLDER`: the lessons for a reader who has installed the package and has no copy of its repository.

They lie beside the package in a copy of the repository. A wheel carries them as data files, which pip puts below
`share/minigpt-by-hand` of the environment; the record of the installation says where.
"""

import configparser
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from minigpt.errors import InputError
from minigpt.files.disk import typed, write_bytes
from minigpt.jobs.option_fields import argument

DISTRIBUTION = "minigpt-by-hand"
SHARED = f"share/{DISTRIBUTION}/"  # as in setup.cfg, which lists the files
FIRST = "03_attention.py"  # the lesson to begin with


@dataclass(kw_only=True)
class LessonsOptions:
    """What `minigpt lessons` can be told."""

    folder: str = argument("where to copy them: nothing that is there is overwritten", metavar="FOLDER")


def copy_lessons(options: LessonsOptions) -> list[Path]:
    """Copy the lessons, their exercises and data into a folder; print what was written and the next step.

    A file that is there already stays as it is: it may hold a reader's answers. Returns the files that were written.
    Raises InputError where the folder is a file, where this installation has no lessons, and where a file cannot be
    written.
    """
    folder = Path(options.folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give the name of a folder for the lessons")
    written = []
    kept = []
    for name, source in find_lessons().items():
        target = folder / name.removeprefix("lessons/")
        if target.exists():
            kept.append(target)
            continue
        write_bytes(target, source.read_bytes())
        written.append(target)
    _tell(folder, written, kept)
    return written


def find_lessons() -> dict[str, Path]:
    """{"lessons/03_attention.py": where it is, ...}: in a copy of the repository, or where pip has put them.

    Raises InputError where there are none.
    """
    root = Path(__file__).parents[2]
    found = {}
    if (root / "lessons" / FIRST).is_file():
        settings = configparser.ConfigParser()
        settings.read(root / "setup.cfg", encoding="utf-8")
        for pattern in " ".join(settings["options.data_files"].values()).split():
            for path in sorted(root.glob(pattern)):
                found[path.relative_to(root).as_posix()] = path
    else:
        found = _installed()
    if f"lessons/{FIRST}" not in found:
        raise InputError(f"this installation of {DISTRIBUTION} has no lessons: install it again with pip")
    return found


def _installed() -> dict[str, Path]:
    """The same from the record that pip keeps of the installed wheel."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = {}
    for file in files:
        _, shared, name = PurePosixPath(file).as_posix().partition(SHARED)
        path = Path(file.locate())
        if shared and path.is_file():
            found[name] = path
    return found


def _tell(folder: Path, written: list[Path], kept: list[Path]) -> None:
    """Print what was written, what was left alone, and what to do next."""
    exercises = [path for path in written if path.match("exercises/*.py")]
    lessons = [path for path in written if path.parent == folder and path.name[:2].isdigit()]
    if written:
        print(f"{folder}: {len(lessons)} lessons, {len(exercises)} exercises and what they need: {len(written)} files")
    if kept:
        print(f"{len(kept)} files were there already and stay as they are")
    print(f"now: python {typed(folder / FIRST)}")
