"""Text files are UTF-8, and files are written beside, synced and renamed: they are never half there."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from minigpt.errors import InputError

PARTIAL = ".part"  # how the name of a file ends that is being written


def read_text(path: str | Path) -> str:
    """A UTF-8 text file with something in it; every line ends with \\n. Raises InputError, naming the wrong byte."""
    try:
        raw = Path(path).read_bytes()
        text = raw.decode("utf-8")
    except OSError as error:
        raise InputError(about_reading(path, error)) from error
    except UnicodeDecodeError as error:
        line = raw.count(10, 0, error.start) + 1
        raise InputError(about_bytes(path, line, error.start, raw[error.start])) from error
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise InputError(f"{path} is empty: give a file with something in it")
    return text


def about_reading(path: str | Path, error: OSError) -> str:
    """What to say of a text file that cannot be read."""
    why = "it is a folder" if Path(path).is_dir() else error.strerror
    return f"{path} cannot be read ({why}): give a UTF-8 text file that is there"


def about_bytes(path: str | Path, line: int, place: int, byte: int) -> str:
    """What to say of a file with a byte that is not UTF-8. place: of the byte, from 0."""
    return f"{path}, line {line}: byte {place} is 0x{byte:02x}, which is not UTF-8: convert the file to UTF-8 first"


def read_json(path: str | Path, kind: type = dict) -> Any:
    """The JSON object (or value of another kind) in a file.

    Raises InputError where it is something else, and where an object in it has a key twice.
    """
    text = read_text(path)
    try:
        value = json.loads(text, object_pairs_hook=each_key_once)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with too many digits
        raise InputError(f"{path} is not JSON ({error}): it is damaged or cut short") from error
    if not isinstance(value, kind):
        expected = "an object {...}" if kind is dict else "an array [...]"
        raise InputError(f"{path} holds a {type(value).__name__} of JSON, expected {expected}")
    return value


class KeyTwice(ValueError):
    """A key stands twice in an object of JSON; `key` is the first such one."""

    def __init__(self, key: str):
        super().__init__(f"the key {key[:60]!r} stands in it twice")
        self.key = key


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for `json.loads`, which would keep the last of two. Raises KeyTwice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        numbers = Counter(key for key, _ in pairs)
        [(key, _)] = numbers.most_common(1)
        raise KeyTwice(key)
    return found


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises InputError where it cannot be read, or is not TOML."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from error


def write_text(path: str | Path, text: str) -> None:
    """Write a small text file in place of the old one. Raises InputError as `in_place_of` does."""
    with in_place_of(Path(path)) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def checksum(value: Any) -> str:
    """The sha256 of a value, written as JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def checksum_of_list(head: Any, items: Iterable[Any]) -> str:
    """`checksum([head, [*items]])`, made of one item after another: many of them take no memory."""
    digest = hashlib.sha256(f"[{json.dumps(head)}, [".encode())
    between = ""
    for item in items:
        digest.update((between + json.dumps(item)).encode())
        between = ", "
    digest.update(b"]]")
    return digest.hexdigest()


def finite(value: Any) -> Any:
    """The value as JSON has it, which has no infinity: null stands in its place."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


def write_json(path: str | Path, value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, with characters as they are; `indent=None` puts it on one line. Raises InputError."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=indent) + "\n")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a small file in place of the old one. Raises InputError as `in_place_of` does."""
    with in_place_of(Path(path)) as beside:
        beside.write_bytes(content)


@contextlib.contextmanager
def in_place_of(path: Path):
    """Yields a path to write to; what was written there takes the place of `path`, whole and synced, or not at all.

    The name of that path is new each time, so that two writers never share it; a program that is killed leaves such a
    file behind, which `remove_partial_files` finds. Raises InputError where it cannot be written (a full disk, no
    permission); the old file is then still there.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch(exist_ok=False)  # never through a link that somebody has put there
        yield beside
        _sync(beside)
        os.replace(beside, path)
    except (OSError, UnicodeError) as error:
        _discard(beside)
        raise InputError(f"cannot write {path}: {reason(error)}; what was there before is untouched") from error
    except BaseException:
        _discard(beside)
        raise
    with contextlib.suppress(OSError):  # Windows, and some file systems, cannot sync a directory
        _sync(path.parent)


def check_new(path: str | Path) -> None:
    """Raises InputError where there is something at this path, other than an empty folder."""
    place = Path(path)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InputError(f"{path} is there already: give a folder that is not, for nothing is overwritten")


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yields an empty folder to write to, which becomes `path` when all is written; before that nothing is there.

    Raises InputError where `path` holds something already, or cannot be made.
    """
    check_new(path)
    place = Path(path).absolute()
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        beside.mkdir(parents=True)
        yield beside
        if place.is_dir():  # an empty one, in whose place nothing can be put on Windows
            place.rmdir()
        os.replace(beside, place)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def remove_partial_files(folder: Path) -> None:
    """Remove what killed writers left half written in a folder. Only the one who holds its lock may do this."""
    for path in folder.glob(f".*{PARTIAL}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def typed(path: str | Path) -> str:
    """A path as one types it on a command line: between quotation marks where there is a space in it."""
    return f'"{path}"' if " " in str(path) else str(path)


def reason(error: Exception) -> str:
    """What went wrong, in a line."""
    if getattr(error, "errno", None) == errno.ENOSPC:
        return "the disk is full"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
