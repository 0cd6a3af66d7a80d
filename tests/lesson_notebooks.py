"""Lessons that have run as notebooks: those of a built site, or, without one, run here by the site's builder."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SITE = ROOT / "lessons" / "site"


def executed(path: Path, folder: Path):
    """The lesson as a notebook with its outputs; its quick cells have run again.

    It is taken from the site in MINIGPT_SITE, which must have been built with --again from the lesson as it is now.
    folder: for pictures, where the lesson runs here.
    """
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("jupyter_cache", reason='the extra `site` is needed: python -m pip install -e ".[site]"')
    sys.path.append(str(SITE))
    import course
    import notebooks

    import lessons

    if named := os.environ.get("MINIGPT_SITE"):
        found = nbformat.read(Path(named, "notebooks", f"{path.stem}.ipynb"), as_version=4)
        notebook = lessons.read(path)
        lessons.mark(notebook, path)
        taken_home = notebooks.to_take_home(notebook, course.WORDS["en"])
        now, then = ([cell.source for cell in one.cells] for one in (taken_home, found))
        assert now == then, f"the site in {named} was built from another {path.name}: build it again"
        assert "minigpt" in found.metadata, f"build the site in {named} with --again"
        return found
    ran = lessons.Runner(folder, again=True).run(path)
    ran.notebook.metadata["minigpt"] = {"run_again": ran.again}
    return ran.notebook
