"""The built files, read without a browser: links, anchors, pictures' texts, language, headings, outside addresses."""

import re
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

LOADS = {  # what a browser loads by itself: (tag, attribute). An `a` is only followed when somebody clicks on it.
    ("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src"),
    ("embed", "src"), ("object", "data"), ("video", "poster"), ("use", "href"), ("image", "href"), ("input", "src"),
}  # fmt: skip
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "shortcut", "apple-touch-icon"}
FOLLOWED_LINKS = {"next", "prev", "search", "index", "alternate", "author", "license", "help", "contents"}
PICTURE_FILE = re.compile(r"\.(png|jpe?g|gif|svg|webp)$", re.IGNORECASE)
CSS_ADDRESS = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. page: relative to the site; width in pixels and theme where they matter."""

    page: str
    what: str
    width: int | None = None
    theme: str = ""

    def __str__(self) -> str:
        where = [f"{self.width} px" if self.width else "", self.theme]
        return "  ".join(part for part in [self.page, *where, self.what] if part)


@dataclass
class Link:
    """An address in a page. loaded: the browser asks for it by itself."""

    address: str
    line: int
    loaded: bool


@dataclass
class Page(HTMLParser):
    """What one file of HTML holds."""

    ids: Counter = field(default_factory=Counter)
    links: list[Link] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    language: str | None = None
    titled: bool = False
    style: str = ""

    def __post_init__(self):
        super().__init__()
        self._in_style = False

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        self._in_style = tag == "style"
        self.titled |= tag == "title"
        if tag == "html":
            self.language = attributes.get("lang")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        names = {attributes.get("id"), attributes.get("name") if tag == "a" else None}
        self.ids.update(name for name in names if name)
        if tag == "img":
            self._picture(attributes, dict(given))
        if tag == "iframe" and not attributes.get("title"):
            self.faults.append(f"line {self.getpos()[0]}: a frame without a title")
        self._links(tag, attributes)
        self.style += " " + attributes.get("style", "")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style += data

    def _picture(self, attributes: dict, given: dict) -> None:
        name = attributes.get("src", "")[:80]
        decoration = attributes.get("role") in ("presentation", "none") or attributes.get("aria-hidden") == "true"
        if not attributes.get("alt") and not (decoration and "alt" in given):
            self.faults.append(f"missing alt text: {name}")
        elif PICTURE_FILE.search(attributes["alt"]):
            self.faults.append(f"alt text is the name of a file: {attributes['alt'][:80]}")

    def _links(self, tag: str, attributes: dict) -> None:
        line = self.getpos()[0]
        for name, value in attributes.items():
            name = name.removeprefix("xlink:")
            if name == "srcset":
                for part in value.split(","):
                    self.links.append(Link(part.split()[0], line, True))
            elif (tag, name) in LOADS:
                self.links.append(Link(value, line, True))
            elif tag in ("a", "area") and name == "href":
                self.links.append(Link(value, line, False))
            elif tag == "form" and name == "action":
                self.links.append(Link(value, line, False))
            elif tag == "link" and name == "href":
                kinds = set(attributes.get("rel", "").split())
                if kinds & (LOADED_LINKS | FOLLOWED_LINKS):
                    self.links.append(Link(value, line, bool(kinds & LOADED_LINKS)))


def read(path: Path) -> Page:
    """The page in this file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def html_files(site: Path) -> list[Path]:
    """Every page of a built site, in the order of their names; what stands in `_static` is no page."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)


def check(site: Path) -> list[Fault]:
    """Everything that can be found wrong in the files of a built site."""
    pages = {path.resolve(): read(path) for path in html_files(site)}
    faults = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        found = [*_form(name, page), *page.faults]
        for link in page.links:
            wrong = _link(link, path, site.resolve(), pages)
            found += [f"line {link.line}: {wrong}"] if wrong else []
        found += _style(page.style, path, site.resolve())
        faults += [Fault(name, what) for what in dict.fromkeys(found)]
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site).as_posix()
        found = _style(path.read_text(encoding="utf-8"), path.resolve(), site.resolve())
        faults += [Fault(name, what) for what in dict.fromkeys(found)]
    return faults


def _form(name: str, page: Page) -> list[str]:
    """Language, title, headings and ids of a page."""
    expected = "ko" if name.startswith("ko/") else "en"
    faults = []
    if (page.language or "").split("-")[0] != expected:
        faults.append(f"language is {page.language!r}, expected {expected!r}")
    if not page.titled:
        faults.append("no title")
    if page.headings.count(1) != 1:
        faults.append(f"{page.headings.count(1)} headings h1, expected one")
    for before, after in zip(page.headings, page.headings[1:], strict=False):
        if after > before + 1:
            faults.append(f"heading h{after} follows h{before}")
    faults += [f"id twice: {name}" for name, times in page.ids.items() if times > 1]
    return faults


def _link(link: Link, path: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with one link of the page at `path`."""
    parts = urllib.parse.urlsplit(link.address)
    if parts.scheme in ("data", "blob", "mailto", "javascript", "about"):
        return None
    if parts.scheme or parts.netloc:
        return f"outside request: {link.address}" if link.loaded else None
    if parts.path.startswith("/"):
        return f"broken link: {link.address} begins at the root of the host, so it works from one address only"
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site):
        return f"broken link: {link.address} leaves the site"
    if target.is_dir():
        return f"broken link: {link.address} is a folder, which has no page when it is opened from a disk"
    if not target.is_file():
        return f"broken link: {link.address}"
    anchor = urllib.parse.unquote(parts.fragment)
    is_anchor = anchor and "=" not in anchor and target in pages  # `#text=...` is read by the page's script
    if is_anchor and anchor != "top" and anchor not in pages[target].ids:
        return f"broken anchor: {link.address}"
    return None


def _style(style: str, path: Path, site: Path) -> list[str]:
    """What is wrong with the addresses in a style sheet, or in the styles of a page."""
    faults = []
    for match in CSS_ADDRESS.finditer(CSS_COMMENT.sub("", style)):
        address = match.group(1) or match.group(2)
        wrong = _link(Link(address, 0, True), path, site, {})
        faults += [f"in a style: {wrong}"] if wrong and not address.startswith("#") else []
    return faults
