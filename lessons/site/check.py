"""Checks a built site: python lessons/site/check.py site/

Every page is read, for broken links and the like, and opened in Chromium at two widths, light and dark. Each fault is
a line with the page, the width, the theme, and what is wrong. The exit status is 1 if there is one.
"""

import argparse
import sys
import time
from pathlib import Path

from checks import files, pages

TESTS = Path(__file__).resolve().parents[2] / "tests"


def in_browser(site: Path, only: str, screenshots: Path | None) -> list[files.Fault]:
    """What a browser finds; ends the program where there is none."""
    sys.path.insert(0, str(TESTS))
    try:
        from browser import FLAGS, program
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise SystemExit(
            f"{error}: install the extras with: pip install -e '.[site,test]'; or give --no-browser"
        ) from None
    with sync_playwright() as playwright:
        path = program(playwright)
        if path is None:
            raise SystemExit("no Chromium was found: MINIGPT_CHROMIUM can name one; or give --no-browser")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        faults = pages.check(browser, site, only, screenshots)
        browser.close()
    return faults


def main(words: list[str] | None = None) -> int:
    """The command. Returns 0 if nothing is wrong, 1 if something is."""
    parser = argparse.ArgumentParser(description="Checks every page of a built site.")
    parser.add_argument("site", type=Path, help="the folder of the built site")
    parser.add_argument("--no-browser", action="store_true", help="only read the files")
    parser.add_argument("--only", default="", metavar="PART", help="open only the pages with this in their names")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="keep a picture of each page here")
    options = parser.parse_args(words)
    if not (options.site / "index.html").is_file():
        parser.error(f"{options.site} is no built site: it has no index.html; build it first")
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    faults = files.check(options.site)
    if not options.no_browser:
        faults += in_browser(options.site, options.only, options.screenshots)
    for fault in faults:
        print(fault)
    number = sum(options.only in str(path) for path in files.html_files(options.site))
    print(f"{number} pages, {len(faults)} faults, {time.perf_counter() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
