"""Links between the files of the repository become links between pages."""

import os
import posixpath
import re
from pathlib import Path
from typing import NamedTuple

from course import ROOT

PAGES = {  # a file of the repository: its page, without an ending
    "README.md": "index",
    "lessons/README.md": "lessons/index",
    "lessons/teaching/README.md": "teaching/index",
    "lessons/teaching/twelve_weeks.md": "teaching/twelve_weeks",
    "lessons/teaching/five_days.md": "teaching/five_days",
    "lessons/ko/README.md": "teaching/korean_edition",
    "minigpt/README.md": "package",
    "minigpt/learn/sandbox/README.md": "sandbox",
    "benchmarks/README.md": "benchmarks/scripts",
    "data/README.md": "data/index",
    "data/reference/README.md": "data/reference",
}
IMAGES = (".png", ".svg", ".jpg")
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
IMAGE_TAG = re.compile(r'(<img\b[^>]*\bsrc=")([^"]+)(")')
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


class Site(NamedTuple):
    """The edition for which links are made: the folder of its sources, its pages, and its language, "en" or "ko"."""

    folder: Path
    docs: frozenset[str]
    language: str


def page_of(path: str) -> str | None:
    """The page of a file of the repository, such as "lessons/03_attention" of "lessons/03_attention.py"; or None."""
    if re.fullmatch(r"lessons/\d\d_\w+\.py|lessons/teaching/\d\d\.md", path):
        return path.rpartition(".")[0].replace("lessons/teaching", "teaching")
    return PAGES.get(path)


def relative(target: str, page: str) -> str:
    """The way from a page to a target, both from the top of the site: ("a/b", "c/d") -> "../a/b"."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def source_of(doc: str) -> str:
    """The file of a page among the sources: lessons are notebooks, all else is Markdown."""
    return f"{doc}.ipynb" if re.fullmatch(r"lessons/\d\d_\w+", doc) else f"{doc}.md"


def to_page(text: str, doc: str, anchor: str, page: str, site: Site) -> str:
    """A link with this text from a page to a page; of the other edition, where this one has none; or the text alone."""
    if doc in site.docs:
        return f"[{text}]({relative(source_of(doc), page)}{anchor})"
    if site.language == "ko":
        return f'<a href="{relative(f"../{doc}.html", page)}{anchor}" hreflang="en">{text}</a>'
    return text


def to_file(path: str, page: str, site: Site) -> str:
    """The way from a page to a copy of a file of the repository, which is made here."""
    copy = Path("_extra", "files", path) if not path.endswith(IMAGES) else Path("pictures", Path(path).name)
    place = site.folder / copy
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes((ROOT / path).read_bytes())
    return relative(copy.as_posix().removeprefix("_extra/"), page)


def rewrite(text: str, path: str, page: str, site: Site) -> str:
    """The text of a file of the repository, whose links lead to pages, and whose pictures are copied.

    path: of the file, from the top of the repository; page: the page that it becomes. What stands in code is left.
    """

    def link(found: re.Match) -> str:
        is_image, shown, target = found.groups()
        file, hash_sign, anchor = target.partition("#")
        if re.match(r"\w+:", target) or not file:
            return found.group(0)
        file = os.path.normpath(posixpath.join(posixpath.dirname(path), file)).replace(os.sep, "/")
        if doc := page_of(file):
            return to_page(shown, doc, hash_sign + anchor, page, site)
        if not (ROOT / file).is_file():
            return found.group(0)  # Sphinx will say that it leads nowhere
        way = to_file(file, page, site)
        return f"![{shown}]({way})" if is_image else f'<a href="{way}" download>{shown}</a>'

    def image(found: re.Match) -> str:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), found.group(2)))
        return found.group(1) + to_file(file, page, site) + found.group(3)

    parts = FENCED.split(text)
    for number in range(0, len(parts), 2):  # between the blocks of code
        parts[number] = LINK.sub(link, IMAGE_TAG.sub(image, parts[number]))
    return "".join(parts)
