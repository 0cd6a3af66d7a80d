"""Build the site of the course: `python lessons/site/build.py`.

It runs every lesson as a notebook (two at a time; what has not changed comes from a cache), writes the sources of all
pages into `build/site/source`, lets Sphinx make the pages beside the old site, and puts the new site into its place
only when all of it is there. It needs the extra `site`, and no network.
"""

import argparse
import importlib
import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE)]  # this clone's package, and the files beside this one

from minigpt.errors import InputError, check_number  # noqa: E402

WORK = ROOT / "build" / "site"  # caches and sources; git ignores it
NEEDED = ("sphinx", "myst_nb", "jupytext", "jupyter_cache", "nbclient", "ipykernel", "furo", "bs4")


def options(words: list[str] | None = None) -> argparse.Namespace:
    """The command line, with the folders that it does not name."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--out", type=Path, help="folder of the built site (default: site/, or build/site/try/site)")
    reader.add_argument("--work", type=Path, default=WORK, help="folder of caches (default: build/site/)")
    reader.add_argument("--jobs", type=int, default=2, help="how many lessons run at a time (default: 2)")
    reader.add_argument("--only", nargs="+", metavar="NN", default=[], help="only these lessons, to try something")
    given = reader.parse_args(words)
    given.cache = given.work.resolve() / "notebooks"
    if given.only:
        given.work = given.work / "try"  # the sources and pages of the whole site stay as they are
    given.out = (given.out or (given.work / "site" if given.only else ROOT / "site")).resolve()
    return given


def check_extra() -> None:
    """Raise InputError where a library of the extra `site` is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f'{", ".join(missing)}: not installed. The site needs the extra: python -m pip install -e ".[site]"'
        )


def check_options(given: argparse.Namespace) -> None:
    """Raise InputError for a number of jobs that is none, and for a folder that holds something else than a site."""
    check_number("jobs", given.jobs, "1 or more", least=1)
    if given.out.exists() and not (given.out / "index.html").is_file():
        if not given.out.is_dir() or any(given.out.iterdir()):
            raise InputError(f"{given.out} is not empty, and no built site: give another folder to --out")


class Clock:
    """Says what is done now, and, at the end of it, how many seconds it took."""

    def __init__(self):
        self.began = time.perf_counter()

    def step(self, text: str) -> None:
        print(f"{time.perf_counter() - self.began:6.1f} s  {text}", flush=True)


def call(name: str, folder: Path) -> list[Path]:
    """Pages of a file beside this one: its `write(folder)`, which returns what it has written. [] without the file."""
    if not (HERE / f"{name}.py").exists():
        return []
    return importlib.import_module(name).write(folder)


def write_sources(notebooks: dict, source: Path, language: str) -> None:
    """The sources of all pages of one language, in `source`; what has not changed keeps its time.

    notebooks: {"03_attention": the executed notebook}.
    """
    import pages
    from folder import Folder

    fresh = source.with_name(source.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    if language == "en":
        for name in pages.OTHERS:
            (fresh / name).mkdir()
            call(name, fresh / name)
    pages.write(notebooks, fresh, language)
    pages.write_index(notebooks, fresh, language)
    Folder(source).become(fresh)


def make_pages(source: Path, html: Path, doctrees: Path, language: str, settings: argparse.Namespace) -> None:
    """Let Sphinx make the pages that have changed. Raises InputError where it warns: a link or a picture is missing.

    Of a few lessons alone many links lead nowhere: that is said, and no error.
    """
    from sphinx.cmd.build import main as sphinx

    os.environ["MINIGPT_SITE_LANGUAGE"] = language
    words = ["-q", "-b", "html", "-c", str(HERE), "-d", str(doctrees), "-j", str(settings.jobs)]
    words += [] if settings.only else ["-W", "--keep-going"]
    if sphinx([*words, str(source), str(html)]) != 0:
        raise InputError(f"Sphinx warns about the pages in {source}: its lines stand above. Nothing was replaced.")


def relabel(folder: Path) -> None:
    """Give Korean labels to what the theme tells screen readers."""
    from pages import WORDS

    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for english, korean in WORDS["ko"]["labels"].items():
            text = text.replace(f'aria-label="{english}"', f'aria-label="{korean}"')
        path.write_text(text, encoding="utf-8", newline="\n")


def landing(source: Path, built: Path, language: str) -> None:
    """index.html and explorer.html, over those of Sphinx: `landing/landing.py` writes them."""
    if (HERE / "landing" / "landing.py").exists():
        sys.path.insert(0, str(HERE / "landing"))
        importlib.import_module("landing").write(source, built, language)


def build(settings: argparse.Namespace, clock: Clock) -> None:
    """All steps; the old site stays until the last one."""
    import book
    from translation import translated

    import lessons

    work, out = settings.work.resolve(), settings.out
    paths = lessons.files(settings.only)
    notebooks = lessons.executed(paths, settings.cache, settings.jobs, clock.step)
    editions = {"en": notebooks, "ko": translated(notebooks)}
    built = out.with_name(out.name + ".new")
    shutil.rmtree(built, ignore_errors=True)
    for language, its_notebooks in editions.items():
        if not its_notebooks:
            continue
        source, html = work / f"source-{language}", work / f"html-{language}"
        write_sources(its_notebooks, source, language)
        clock.step(f"{language}: sources written; pages")
        make_pages(source, html, work / f"doctrees-{language}", language, settings)
        place = built if language == "en" else built / language
        shutil.copytree(html, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "_sources", "objects.inv"))
        shutil.copytree(source / "_extra", place, dirs_exist_ok=True)
        if language == "ko":
            relabel(place)
        book.write(its_notebooks, place, language)
        landing(source, place, language)
    replace(built, out)


def replace(built: Path, out: Path) -> None:
    """The finished folder takes the place of the old one."""
    old = out.with_name(out.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    built.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def main(words: list[str] | None = None) -> int:
    """Exit status: 0; 1 if a lesson fails; 2 if something is missing or a page is not right."""
    settings, clock = options(words), Clock()
    try:
        check_extra()
        check_options(settings)
        settings.work.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.work / "lock", timeout=0):
            build(settings, clock)
    except Timeout:
        print(f"site: another build uses {settings.work}: wait for its end, or give --work", file=sys.stderr)
        return 2
    except InputError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1 if type(error).__name__ == "LessonFailed" else 2
    clock.step(f"the site: {settings.out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
