"""The built pages, opened in Chromium: complaints, requests, pictures, TeX, contrast, width; light and dark."""

import contextlib
import functools
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .files import Fault, html_files

WIDTHS = {390: 844, 1280: 900}  # pixels: a phone and its height, a laptop and its height
THEMES = ("light", "dark")
BOOK = "book.html"  # all lessons once more, on a page that is light in each theme: the phone's width says enough
LOADING = 120_000  # milliseconds for one page: the book is long, and the machine may be busy
SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
IN_PAGE = f"async () => {{\n{SCRIPT}\nreturn await faultsOfPage();\n}}"
NOTHING_OUTSIDE = {"server": "http://127.0.0.1:9", "bypass": "127.0.0.1"}  # no request leaves this machine


class _Handler(SimpleHTTPRequestHandler):
    """Serves files, and says nothing about it."""

    def do_GET(self) -> None:
        """A page without an icon has none: browsers ask for it all the same."""
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *parts: Any) -> None:
        pass


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """Yields the address of a server of this folder, on this machine and for it alone."""
    handler = functools.partial(_Handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Visit:
    """One tab of a browser, which opens pages and keeps what is wrong with each.

    tab: a page of Playwright. own: the address with which the site's own files begin.
    """

    def __init__(self, tab: Any, own: str):
        self.tab, self.own = tab, own
        self.heard: list[str] = []
        tab.on("console", self._said)
        tab.on("pageerror", lambda error: self.heard.append(f"console error: {str(error)[:200]}"))
        tab.on("request", self._requested)
        tab.on("response", self._answered)
        tab.on("requestfailed", self._failed)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.heard.append(f"console {message.type}: {message.text[:200]}")

    def _is_own(self, address: str) -> bool:
        inside = urllib.parse.urlsplit(address).scheme in ("data", "blob", "about")
        return inside or address.startswith(self.own)

    def _requested(self, request: Any) -> None:
        if not self._is_own(request.url):
            self.heard.append(f"outside request: {request.url[:120]}")

    def _answered(self, response: Any) -> None:
        if response.status >= 400:
            self.heard.append(f"missing file ({response.status}): {response.url.removeprefix(self.own)[:120]}")

    def _failed(self, request: Any) -> None:
        if self._is_own(request.url):
            self.heard.append(f"request failed ({request.failure}): {request.url.removeprefix(self.own)[:120]}")

    def check(self, page: str, widths: list[int], themes: tuple[str, ...], screenshots: Path | None) -> list[Fault]:
        """Opens the page and looks at it at each width in each theme.

        A page is opened once, and made wider; one that draws by a script of its own is opened again.
        """
        self.heard.clear()
        faults = []
        try:
            self._open(page, widths[0])
            for width in widths:
                if width != widths[0] and self.tab.query_selector("script[type=module], iframe"):
                    self._open(page, width)
                self.tab.set_viewport_size({"width": width, "height": WIDTHS[width]})
                faults += [fault for theme in themes for fault in self._look(page, width, theme, screenshots)]
        except Exception as error:  # Playwright's own: a page that cannot be opened is a fault of the page
            faults.append(Fault(page, f"cannot be opened: {type(error).__name__}: {str(error).splitlines()[0]}"))
        return [Fault(page, what) for what in dict.fromkeys(self.heard)] + faults

    def _open(self, page: str, width: int) -> None:
        self.tab.emulate_media(color_scheme=THEMES[0])
        self.tab.set_viewport_size({"width": width, "height": WIDTHS[width]})
        self.tab.goto(self.own + urllib.parse.quote(page), wait_until="load", timeout=LOADING)

    def _look(self, page: str, width: int, theme: str, screenshots: Path | None) -> list[Fault]:
        self.tab.emulate_media(color_scheme=theme)
        found = [what for frame in self.tab.frames for what in frame.evaluate(IN_PAGE)]
        if screenshots:
            name = page.removesuffix(".html").replace("/", "-")
            self.tab.screenshot(path=screenshots / f"{name}-{width}-{theme}.png", full_page=True)
        return [Fault(page, what, width, theme) for what in dict.fromkeys(found)]


def is_book(page: str) -> bool:
    """Is this the page of all lessons, of one of the languages?"""
    return page.rpartition("/")[2] == BOOK


def sample(site: Path, pages: list[str]) -> list[str]:
    """Some of the pages: all those at the top of the site, and the largest one of each folder; no book."""
    pages = [page for page in pages if not is_book(page)]
    largest: dict[str, str] = {}
    for page in sorted(pages, key=lambda page: (site / page).stat().st_size):
        largest[page.rpartition("/")[0]] = page
    return sorted({*largest.values(), *(page for page in pages if "/" not in page)})


def ways(page: str) -> tuple[list[int], tuple[str, ...]]:
    """The widths and the themes in which a page is looked at."""
    return ([min(WIDTHS)], THEMES[:1]) if is_book(page) else ([*WIDTHS], THEMES)


def check(browser: Any, site: Path, only: str = "", screenshots: Path | None = None) -> list[Fault]:
    """Everything that is wrong with the pages of a built site.

    browser: a running Chromium of Playwright. only: a part of the names of the pages to open; all without it.
    screenshots: a folder that exists, for a picture of each page at each width in each theme.
    """
    site = site.resolve()
    pages = [path.relative_to(site).as_posix() for path in html_files(site, only)]
    context = browser.new_context(reduced_motion="reduce", proxy=NOTHING_OUTSIDE)
    with served(site) as own:
        visit = Visit(context.new_page(), own)
        faults = [fault for page in pages for fault in visit.check(page, *ways(page), screenshots)]
    visit = Visit(context.new_page(), site.as_uri() + "/")
    for page in sample(site, pages):
        found = visit.check(page, [min(WIDTHS)], THEMES[:1], None)
        faults += [Fault(page, f"from the disk: {fault.what}") for fault in found]
    context.close()
    return faults
