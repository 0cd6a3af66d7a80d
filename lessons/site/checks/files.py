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
                addresses = in_srcset(value)
                self.links += [Link(address, line, True) for address in addresses]
                self.faults += [] if addresses else [f"line {line}: srcset names no picture"]
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


def in_srcset(value: str) -> list[str]:
    """The addresses in a srcset, such as "small.png 1x, large.png 2x". One that has a comma in it is whole."""
    found = []
    rest = value.strip(" \t\r\n\f,")
    while rest:
        address = rest.split(maxsplit=1)[0]
        rest = rest.removeprefix(address)
        if not address.endswith(","):  # behind it stands how large the picture is, up to the next comma
            rest = rest.partition(",")[2]
        rest = rest.lstrip(" \t\r\n\f,")
        found.append(address.rstrip(","))
    return found


def read(path: Path) -> Page:
    """The page in this file; where it cannot be read as one, `faults` says why."""
    page = Page()
    try:
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
    except (OSError, UnicodeError, AssertionError) as error:  # the last: of HTMLParser, for a declaration
        page.faults.append(unreadable(error))
    return page


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, in a line."""
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}"
    return f"cannot be read: {getattr(error, 'strerror', None) or str(error).splitlines()[0]}"


def files_in(site: Path, ending: str) -> tuple[list[Path], list[Fault]]:
    """The files of a site whose names end like this, in order; and what has such a name, and is no file of the site."""
    home = site.resolve()
    found, faults = [], []
    for path in sorted(site.rglob(f"*{ending}")):
        what = ""
        if not path.exists():
            what = "is a link to a file that is not there"
        elif not path.resolve().is_relative_to(home):
            what = "is a link to a file outside the site"
        elif not path.is_file():
            what = f"is no file, but its name ends like that of one: {ending}"
        if what:
            faults.append(Fault(path.relative_to(site).as_posix(), what))
        else:
            found.append(path)
    return found, faults


def html_files(site: Path, only: str = "") -> list[Path]:
    """Every page of a built site with this in its name, in order; what stands in `_static` is no page."""
    inside = {path: path.relative_to(site) for path in files_in(site, ".html")[0]}
    return [path for path, name in inside.items() if "_static" not in name.parts and only in name.as_posix()]


def check(site: Path) -> list[Fault]:
    """Everything that can be found wrong in the files of a built site."""
    home = site.resolve()
    pages = {path.resolve(): read(path) for path in html_files(site)}
    faults = files_in(site, ".html")[1]
    for path, page in pages.items():
        name = path.relative_to(home).as_posix()
        found = [*_form(name, page), *page.faults]
        for link in page.links:
            wrong = _link(link, path, home, pages)
            found += [f"line {link.line}: {wrong}"] if wrong else []
        found += _style(page.style, path, home)
        faults += [Fault(name, what) for what in dict.fromkeys(found)]
    sheets, no_sheets = files_in(site, ".css")
    for path in sheets:
        try:
            found = _style(path.read_text(encoding="utf-8"), path.resolve(), home)
        except (OSError, UnicodeError) as error:
            found = [unreadable(error)]
        faults += [Fault(path.relative_to(site).as_posix(), what) for what in dict.fromkeys(found)]
    return faults + no_sheets


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
    try:
        return _target(link, path, site, pages)
    except (OSError, ValueError, RuntimeError) as error:  # no address; no name of a file; links in a circle
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        return f"broken link: {link.address[:80]} cannot be followed: {why}"


def _target(link: Link, path: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with the file or the anchor to which a link leads; it raises what `_link` catches."""
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
