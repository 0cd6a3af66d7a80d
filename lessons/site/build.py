"""Build the site of the course: `python lessons/site/build.py`.

It runs every lesson as a notebook (several at a time; what has not changed comes from a cache), writes the sources of
all pages into `build/site/source-en` and `-ko`, lets Sphinx make the pages beside the old site, and puts the new site
into its place only when all of it is there. It needs the extra `site`, and no network.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

HERE = Path(__file__).resolve().parent
# this clone's package, and our own files
sys.path[:0] = [str(place) for place in (HERE.parent.parent, HERE, HERE / "landing", HERE.parent / "poster")]

from course import ROOT  # noqa: E402

from minigpt.device.parallel import cores  # noqa: E402
from minigpt.errors import InputError, check_number  # noqa: E402

WORK = ROOT / "build" / "site"  # caches and sources; git ignores it
MARK = "built-by-minigpt.txt"  # in a built site: such a folder may be replaced
MARK_TEXT = "python lessons/site/build.py has written this folder. It replaces all of it when it runs again.\n"
NEEDED = (
    "sphinx", "myst_nb", "jupytext", "jupyter_cache", "nbclient", "ipykernel", "furo", "bs4", "koreanize_matplotlib",
    "brotli",
)  # fmt: skip


def options(words: list[str] | None = None) -> argparse.Namespace:
    """The command line, with the folders that it does not name.

    All builds with the same --work share its cache and its lock. The sources and pages of a build of a few lessons are
    in a folder of their own, so that those of the whole site stay as they are.
    """
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--out", type=Path, help="folder of the built site (default: site/, or build/site/try/site)")
    reader.add_argument("--work", type=Path, default=WORK, help="folder of caches (default: build/site/)")
    jobs = cores() + 1  # a kernel waits now and then
    reader.add_argument("--jobs", type=int, default=jobs, help=f"how many lessons run at a time (here: {jobs})")
    reader.add_argument("--only", nargs="+", metavar="NN", default=[], help="only these lessons, to try something")
    reader.add_argument("--again", action="store_true", help="each quick cell runs again after the end: can it?")
    given = reader.parse_args(words)
    given.work = given.work.resolve()
    given.pages = given.work / "try" if given.only else given.work
    given.out = (given.out or (given.pages / "site" if given.only else ROOT / "site")).resolve()
    return given


def check_extra() -> None:
    """Raise InputError where a library of the extra `site` is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f'{", ".join(missing)}: not installed. The site needs the extra: python -m pip install -e ".[site]"'
        )


def check_options(given: argparse.Namespace) -> None:
    """Raise InputError for a number of jobs that is none, and for an --out that must not be replaced."""
    check_number("jobs", given.jobs, "1 or more", least=1)
    check_out(given.out)
    if given.work.is_relative_to(given.out):
        raise InputError(f"--work {given.work} is in {given.out}, which the new site replaces: give another folder")


def check_out(out: Path) -> None:
    """Raise InputError for a file, and for a folder with something in it that was not written here."""
    if out.is_dir():
        if any(out.iterdir()) and not (out / MARK).is_file():
            raise InputError(
                f"{out} is not empty, and has no {MARK}, so its files may be yours: give another folder to --out, or "
                f"remove this one yourself"
            )
    elif out.exists():
        raise InputError(f"{out} is a file: give a folder to --out")


class Clock:
    """Says what is done now; in front of it stand the seconds since the start."""

    def __init__(self):
        self.began = time.perf_counter()

    def step(self, text: str) -> None:
        print(f"{time.perf_counter() - self.began:6.1f} s  {text}", flush=True)


def write_sources(notebooks: dict, source: Path, language: str, plots: Path) -> None:
    """The sources of all pages of one language, in `source`; what has not changed keeps its time.

    notebooks: {"03_attention": the executed notebook}. plots: the folder that keeps those of the benchmarks.
    """
    import api
    import operations
    import pages
    from folder import Folder

    import benchmarks

    source.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{source.name}-", dir=source.parent) as name:
        fresh = Path(name)
        if language == "en":
            operations.write(fresh / "operations")
            api.write(fresh / "api")
            benchmarks.write(fresh / "benchmarks", plots)
        pages.write(notebooks, fresh, language)
        pages.write_index(notebooks, fresh, language)
        Folder(source).become(fresh)


def make_pages(source: Path, html: Path, doctrees: Path, language: str, settings: argparse.Namespace) -> int:
    """Let Sphinx make the pages that have changed. Returns how often it warns.

    Raises InputError where a page cannot be made, and, for the whole site, where it warns: a link or a picture is
    missing. Of a few lessons alone many links lead nowhere: those warnings are counted, and not shown.
    """
    from sphinx.cmd.build import main as sphinx

    os.environ["MINIGPT_SITE_LANGUAGE"] = language
    words = ["-q", "-b", "html", "-c", str(HERE), "-d", str(doctrees), "-j", str(settings.jobs)]
    words += [] if settings.only else ["-W", "--keep-going"]
    said = io.StringIO()
    with interruptible(), contextlib.redirect_stderr(said) if settings.only else contextlib.nullcontext():
        status = sphinx([*words, str(source), str(html)])
    if status != 0:
        sys.stderr.write(said.getvalue())
        what = "warns about" if status == 1 else "cannot make"
        raise InputError(f"Sphinx {what} the pages in {source}: its lines stand above. Nothing was replaced.")
    return said.getvalue().count("WARNING")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt at its end where Ctrl-C was pressed inside: Sphinx catches it, as it does an error."""
    pressed = []

    def stop(*_) -> None:
        pressed.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def relabel(folder: Path) -> None:
    """Give Korean labels to what the theme tells screen readers."""
    from course import WORDS

    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for english, korean in WORDS["ko"]["labels"].items():
            text = text.replace(f'aria-label="{english}"', f'aria-label="{korean}"')
        path.write_text(text, encoding="utf-8", newline="\n")


def build(settings: argparse.Namespace, clock: Clock) -> None:
    """All steps; the old site stays until the last one."""
    import book
    import card
    import fonts
    import landing
    import poster
    from translation import translated

    import lessons

    landing.repository()  # a wrong address is refused before the lessons run
    pages, plots = settings.pages, settings.work / "plots"
    paths = lessons.files(settings.only)
    with beside(settings.out) as built:
        notebooks = lessons.executed(paths, settings.work / "notebooks", settings.jobs, clock.step, settings.again)
        editions = {"en": notebooks, "ko": translated(notebooks)}
        for language, its_notebooks in editions.items():
            if not its_notebooks:
                continue
            source, html = pages / f"source-{language}", pages / f"html-{language}"
            write_sources(its_notebooks, source, language, plots)
            clock.step(f"{language}: sources written; pages")
            if warnings := make_pages(source, html, pages / f"doctrees-{language}", language, settings):
                clock.step(f"{language}: {warnings} warnings of Sphinx: links to pages that this build leaves out")
            place = built if language == "en" else built / language
            not_copied = shutil.ignore_patterns(".*", "_sources", "objects.inv")
            shutil.copytree(html, place, dirs_exist_ok=True, ignore=not_copied)
            shutil.copytree(source / "_extra", place, dirs_exist_ok=True)
            if language == "ko":
                relabel(place)
            book.write(its_notebooks, place, language)
            poster.write(language, place / "poster.pdf")
            card.write(place / "card.pdf")
            landing.write(source, place, language)
        fonts.write(built)
        (built / MARK).write_text(MARK_TEXT, encoding="utf-8", newline="\n")
        replace(built, settings.out)


@contextlib.contextmanager
def beside(out: Path) -> Iterator[Path]:
    """Yields a path for the new site, in a temporary folder on the same disk as `out`.

    So a folder in which nothing can be written is found before the lessons run.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        yield Path(folder, "new")


def replace(built: Path, out: Path) -> None:
    """The finished folder takes the place of the old one, which is moved to the folder in which the new one was made.

    Raises InputError where something that was not written here has come into `out` in the meantime.
    """
    check_out(out)
    old = built.with_name("old")
    if out.exists():
        out.rename(old)
    try:
        built.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise


def main(words: list[str] | None = None) -> int:
    """Exit status: 0; 1 if a lesson fails; 2 if something is missing or a page is not right; 130 after Ctrl-C."""
    settings, clock = options(words), Clock()
    try:
        check_extra()
        check_options(settings)
        settings.work.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.work / "lock", timeout=0):
            build(settings, clock)
    except Timeout:
        return wrong(f"another build uses {settings.work}: wait for its end, or give --work", 2)
    except InputError as error:
        return wrong(str(error), getattr(error, "status", 2))
    except OSError as error:
        return wrong(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    except KeyboardInterrupt:
        return wrong("interrupted; what has run is kept", 130)
    clock.step(f"the site: {settings.out}/index.html")
    return 0


def wrong(message: str, status: int) -> int:
    """Print what is wrong; returns the exit status."""
    print(f"site: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
