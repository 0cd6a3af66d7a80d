"""Checks a built site: python lessons/site/check.py site/

Every page is read, for broken links and the like, and opened in Chromium at two widths, light and dark. Each fault is
a line with the page, the width, the theme, and what is wrong. The exit status is 1 if there is one, and 2 where the
check itself is not possible.
"""

import argparse
import sys
import time
from pathlib import Path

from checks import files, pages

TESTS = Path(__file__).resolve().parents[2] / "tests"


class NoCheck(Exception):
    """The check is not possible; the message says why."""


def in_browser(site: Path, only: str, screenshots: Path | None) -> list[files.Fault]:
    """What a browser finds. Raises NoCheck where there is none."""
    sys.path.insert(0, str(TESTS))
    try:
        from browser import FLAGS, program
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        raise NoCheck(f"{error}: python -m pip install -e '.[site,test]'; or give --no-browser") from error
    with sync_playwright() as playwright:
        path = program(playwright)
        if path is None:
            raise NoCheck("no Chromium was found: MINIGPT_CHROMIUM can name one; or give --no-browser")
        try:
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        except Error as error:
            why = str(error).splitlines()[0]
            raise NoCheck(f"{path} does not start ({why}): MINIGPT_CHROMIUM can name another") from error
        faults = pages.check(browser, site, only, screenshots)
        browser.close()
    return faults


def options(words: list[str] | None = None) -> argparse.Namespace:
    """The command line. Ends the program with status 2 where it names what is not there."""
    parser = argparse.ArgumentParser(description="Checks every page of a built site.")
    parser.add_argument("site", type=Path, help="the folder of the built site")
    parser.add_argument("--no-browser", action="store_true", help="only read the files")
    parser.add_argument("--only", default="", metavar="PART", help="open only the pages with this in their names")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="keep a picture of each page here")
    given = parser.parse_args(words)
    if not (given.site / "index.html").is_file():
        parser.error(f"{given.site} is no built site: it has no index.html; build it first")
    if given.no_browser and (given.only or given.screenshots):
        parser.error("--only and --screenshots are for the browser: leave out --no-browser")
    if not files.html_files(given.site, given.only):
        parser.error(f"--only {given.only}: no page has this in its name, such as lessons/03_attention.html")
    if given.screenshots:
        try:
            given.screenshots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--screenshots {given.screenshots}: {error.strerror}; give the name of a folder")
    return given


def main(words: list[str] | None = None) -> int:
    """The command. Returns 0 if nothing is wrong, 1 if something is, 2 if it cannot be told, 130 after Ctrl-C."""
    given = options(words)
    began = time.perf_counter()
    try:
        faults = files.check(given.site)
        if not given.no_browser:
            faults += in_browser(given.site, given.only, given.screenshots)
    except NoCheck as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("check: interrupted", file=sys.stderr)
        return 130
    for fault in faults:
        print(fault)
    number = len(files.html_files(given.site, given.only))
    print(f"{counted(number, 'page')}, {counted(len(faults), 'fault')}, {time.perf_counter() - began:.0f} s")
    return 1 if faults else 0


def counted(number: int, word: str) -> str:
    """ "1 page", "2 pages"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


if __name__ == "__main__":
    raise SystemExit(main())
