"""Chromium for tests of pages: found on this machine, started, and watched: what it asks for, and what it complains of.

`MINIGPT_CHROMIUM` names the program to start. Without a browser such a test is skipped, with the reason; with
`MINIGPT_NEED_BROWSER=1` it fails instead, so that no test of a page is left out unseen where a browser is expected.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PLACES = (
    "/usr/bin/chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)


def program(playwright: Any) -> str | None:
    """The browser to start: that of MINIGPT_CHROMIUM, Playwright's own, or an installed one; or None."""
    given = os.environ.get("MINIGPT_CHROMIUM")
    if given:
        return given if Path(given).is_file() else None
    own = playwright.chromium.executable_path
    if Path(own).is_file():
        return own
    found = [shutil.which(name) for name in PROGRAMS] + list(PLACES)
    return next((path for path in found if path and Path(path).is_file()), None)


def absent(reason: str) -> None:
    """There is no browser: the test is skipped, or fails where MINIGPT_NEED_BROWSER is 1."""
    if os.environ.get("MINIGPT_NEED_BROWSER") == "1":
        pytest.fail(f"MINIGPT_NEED_BROWSER is 1, and {reason}", pytrace=False)
    pytest.skip(reason)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Yields a running browser of Playwright; skips or fails, see `absent`, where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("playwright is not installed (extra site)")
    with sync_playwright() as playwright:
        path = program(playwright)
        if path is None:
            absent("no Chromium was found: MINIGPT_CHROMIUM can name one")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """What a page asked for and complained of. requests: every address, in order. complaints: errors and warnings."""

    def __init__(self, page: Any):
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.complaints.append(f"{request.url}: {request.failure}"))
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("console", self._said)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def elsewhere(self, *own: str) -> list[str]:
        """The requests that begin with none of these addresses; pictures inside of the page itself do not count."""
        return [url for url in self.requests if not url.startswith((*own, "data:", "blob:"))]


@contextlib.contextmanager
def watched(browser: Any, width: int = 1280, height: int = 900, dark: bool = False, **options: Any) -> Iterator[Watch]:
    """Yields a new, empty page of this size in a context of its own, which is watched; `watch.page.goto(address)`.

    options: of Playwright's `new_context`, such as locale="ko-KR" or has_touch=True.
    """
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    try:
        yield Watch(context.new_page())
    finally:
        context.close()
