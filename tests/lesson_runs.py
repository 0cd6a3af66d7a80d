"""A lesson run as a script; what it printed is kept for the other tests of the same run of pytest."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))


LONG = 5  # seconds: a lesson that says it computes longer runs once for script, notebook and page, if it can


class Run(NamedTuple):
    """What a lesson did: when it began (seconds of `time.time`), its status, its words, what it left where it ran."""

    began: float
    returncode: int
    stdout: str
    stderr: str
    left: list[str]


def environment() -> dict[str, str]:
    """That of a lesson: this clone's package, and no published model, even where one lies on this machine."""
    none = str(ROOT / "no" / "models")
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "MINIGPT_CACHE": none, "HF_HOME": none}


def run(path: Path, folder: Path, **changed: str) -> subprocess.CompletedProcess:
    """Run a Python file in a folder. A warning is an error. changed: what else is in its environment."""
    return subprocess.run(
        [sys.executable, str(path)], cwd=folder, env=environment() | {"PYTHONWARNINGS": "error"} | changed,
        capture_output=True, encoding="utf-8", timeout=900,
    )  # fmt: skip


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


def is_of_site(path: Path) -> bool:
    """Is a lesson so long that its run as a notebook, by the builder of the site in MINIGPT_SITE, also stands for it as
    a script? All other lessons run as scripts, and this one too where no site is named."""
    least = re.search(r"^# .*Running: (\d+) to \d+ seconds", path.read_text(encoding="utf-8"), re.MULTILINE).group(1)
    return "MINIGPT_SITE" in os.environ and int(least) >= LONG


def run_of_site(path: Path) -> Run:
    """The run of a long lesson, from the notebook of the site. Its code has no line that only a notebook could run."""
    text = path.read_text(encoding="utf-8")
    compile(text, path.name, "exec")
    assert not re.search(r"get_ipython|IPython|^[%!]", text, re.MULTILINE), "a script cannot run this"
    file = Path(os.environ["MINIGPT_SITE"], "notebooks", f"{path.stem}.ipynb")
    words = {"stdout": "", "stderr": ""}
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                words[output["name"]] += "".join(output["text"])
    is_warned = "Warning:" in words["stderr"]
    return Run(file.stat().st_mtime, int(is_warned), words["stdout"], words["stderr"], [])


def run_once(path: Path, folder: Path, tmp_path_factory) -> Run:
    """The run of a lesson as a script, in an empty folder: that of an earlier test of any process, or one made now.

    Of a long lesson it is that of the site, see `is_of_site`.
    """
    if is_of_site(path):
        return run_of_site(path)
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
