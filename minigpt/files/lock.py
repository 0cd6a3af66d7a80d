"""One folder has one writer: a lock that the system takes back when its process ends, however it ends."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from minigpt.errors import InputError
from minigpt.files.disk import reason, remove_partial_files

LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made where it is missing; nothing else is left behind.

    What a killed writer left half written is removed first. Raises InputError where another process holds the lock, or
    where the folder cannot be made.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give another --out")
    path = folder / LOCK
    was_there = folder.exists()
    lock = filelock.FileLock(path, timeout=0, is_singleton=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout as error:
        raise InputError(f"another process is writing to {folder}: wait for its end, or give another --out") from error
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {reason(error)}") from error
    try:
        remove_partial_files(folder)
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows does not remove what is open: there an empty file stays
            path.unlink()  # before the release: filelock 4 takes no lock on a file without a name, and removes none
        lock.release()
        if not was_there:
            with contextlib.suppress(OSError):  # a folder with something in it stays
                folder.rmdir()
