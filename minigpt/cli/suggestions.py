"""Did you mean ...? For a word that is unknown, the nearest one that is known."""

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

# What --data and --tokenizer take beside the names of files and folders.
FIXED = ("stories", "korean", "both", "pairs", "pydocs", "char")
MISSING = re.compile(
    "unknown|does not exist|no folder|no task|there is no|not a (?:file|folder|model)|cannot be read|neither"
)
NAMES = re.compile(r"[\w.:/-]*\w")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, or None where none is like it. Small and large letters are equal."""
    by_small_letters = {one.lower(): one for one in known}
    found = difflib.get_close_matches(word.lower(), by_small_letters, n=1, cutoff=0.6)
    return by_small_letters[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What follows an error about an unknown word: "; did you mean train?", or nothing."""
    found = nearest(word, known)
    return "" if found is None else f"; did you mean {found}?"


def for_what_is_missing(message: str, words: Sequence[str]) -> str:
    """What follows an error about a file, a folder or a name that is not there, if there is something like it.

    message: the error. words: the command line. Compared are the choices that the message offers, the published models,
    and what lies in the folder in which something was looked for.
    """
    if not MISSING.search(message):
        return ""
    for word in words[1:]:  # the first one is the command
        value = word.partition("=")[2] if word.startswith("--") else word
        if not value or value not in message or Path(value).exists():
            continue
        choices = NAMES.findall(message.partition(": choose ")[2])  # nano, paper of "unknown size: choose nano, paper"
        found = nearest(value, [*choices, *_published(), *FIXED]) or _near_path(Path(value))
        if found and found != value:
            return f"; did you mean {found}?"
    return ""


def _published() -> list[str]:
    from minigpt.files.published import PUBLISHED  # here, because only an error needs it

    return list(PUBLISHED)


def _near_path(path: Path) -> str | None:
    """A path that exists and differs from this one by little in the name, or in the names of folders above it."""
    folder = path.parent
    if not folder.is_dir():
        above = None if folder == path else _near_path(folder)
        if above is None:
            return None
        folder = Path(above)
        if (folder / path.name).exists():
            return str(folder / path.name)
    try:
        names = [one.name for one in folder.iterdir() if not one.name.startswith(".")]
    except OSError:
        return None
    found = nearest(path.name, names)
    return None if found is None else str(folder / found)
