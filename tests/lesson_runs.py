"""A lesson run as a script; what it printed is kept for the other tests of the same run of pytest."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))


class Run(NamedTuple):
    """What a lesson did: when it began (seconds of `time.time`), its status, its words, what it left where it ran."""

    began: float
    returncode: int
    stdout: str
    stderr: str
    left: list[str]


def run(path: Path, folder: Path) -> subprocess.CompletedProcess:
    """Run a Python file in a folder. A warning is an error."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, str(path)], cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=900
    )


def kept_in(tmp_path_factory) -> Path:
    """A folder that all processes of this run of pytest share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "printed"
    folder.mkdir(exist_ok=True)
    return folder


def begins(mark: Path) -> bool:
    """Is this the first process that makes this file?"""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def keep(kept: Path, path: Path, folder: Path) -> None:
    """Run a lesson, and write what it did: the whole file, or none."""
    began = time.time()
    done = run(path, folder)
    left = [file.name for file in folder.iterdir()]
    part = kept.with_suffix(".part")
    part.write_text(json.dumps([began, done.returncode, done.stdout, done.stderr, left]), encoding="utf-8")
    part.replace(kept)


def run_once(path: Path, folder: Path, tmp_path_factory) -> Run:
    """The run of a lesson as a script, in an empty folder: that of an earlier test of any process, or one made now."""
    kept = kept_in(tmp_path_factory) / f"{path.stem}.json"
    mark = kept.with_suffix(".began")
    if begins(mark):
        try:
            keep(kept, path, folder)
        except BaseException:
            mark.unlink()
            raise
    while not kept.exists():  # another process runs it
        assert mark.exists(), f"{path.name} has failed in another process"
        time.sleep(0.2)
    return Run(*json.loads(kept.read_text(encoding="utf-8")))
