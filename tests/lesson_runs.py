"""A lesson run as a script; what it printed is kept for the other tests of the same run of pytest."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))


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


def keep(path: Path, printed: str, folder: Path) -> None:
    """Keep what a lesson has printed, complete or not at all."""
    part = folder / f"{path.stem}.{os.getpid()}"
    part.write_text(printed, encoding="utf-8", newline="\n")
    part.replace(folder / f"{path.stem}.txt")


def printed_by(path: Path, folder: Path, cwd: Path) -> str:
    """What a lesson prints as a script: from an earlier test, or from a run now. Fails where the lesson fails."""
    kept = folder / f"{path.stem}.txt"
    if not kept.exists():
        done = run(path, cwd)
        assert done.returncode == 0, done.stderr[-3000:]
        keep(path, done.stdout, folder)
    return kept.read_text(encoding="utf-8")
