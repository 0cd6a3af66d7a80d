"""All lessons on one page, which a browser prints as a book: made from the pages that Sphinx has made."""

import posixpath
import re
from html import escape
from pathlib import Path

from bs4 import BeautifulSoup
from course import WORDS

LEFT_OUT = ".headerlink, .facts, .machine"  # what a printed page does not need
KEPT_SCRIPTS = re.compile(r"mathjax|MathJax")
HEAD = '<!doctype html>\n<html lang="{language}"><head>{head}<title>{title}</title></head>\n'
BODY = '<body data-theme="light" class="book"><main id="furo-main-content">\n{text}\n</main></body></html>\n'


def write(notebooks: dict, built: Path, language: str) -> Path:
    """Write book.html beside the other pages of an edition; returns its path."""
    words = WORDS[language]
    chapters = {name: parsed(built / "lessons" / f"{name}.html") for name in notebooks}
    contents, texts = [], []
    for name, page in chapters.items():
        article = chapter(page, name, set(chapters))
        title = article.find("h2").get_text()
        contents.append(f'<li><a href="#{name}">{escape(title)}</a></li>')
        texts.append(f'<section class="chapter" id="{name}">{article.decode_contents()}</section>')
    intro = f"<h1>{words['book_title']}</h1><p>{words['book_text']}</p>"
    intro += f'<p class="back"><a href="index.html">{words["back"]}</a></p>'
    listed = f"<nav><h2>{words['contents']}</h2><ol>{''.join(contents)}</ol></nav>"
    head = head_of(next(iter(chapters.values()))) if chapters else ""
    text = HEAD.format(language=language, head=head, title=words["book_title"])
    text += BODY.format(text="\n".join([intro, listed, *texts]))
    path = built / "book.html"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def parsed(path: Path) -> BeautifulSoup:
    """A built page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def head_of(page: BeautifulSoup) -> str:
    """What the book needs of the head of a lesson's page: styles, and MathJax."""
    kept = page.head.find_all("meta") + page.head.find_all("link", rel="stylesheet") + page.head.find_all("style")
    kept += [script for script in page.find_all("script") if KEPT_SCRIPTS.search(str(script))]
    for tag in kept:
        for name in ("href", "src"):
            if tag.get(name):
                tag[name] = moved(tag[name])
    return "".join(map(str, kept))


def moved(address: str) -> str:
    """An address on a page of `lessons/`, as it must be one folder higher."""
    if re.match(r"\w+:|#|//", address):
        return address
    path, question, version = address.partition("?")
    return posixpath.normpath(posixpath.join("lessons", path)) + question + version


def chapter(page: BeautifulSoup, name: str, names: set[str]):
    """The article of a lesson's page: its names are unique in the book, and its links stay in the book if they can."""
    article = page.find(id="furo-main-content")
    for tag in article.select(LEFT_OUT):
        tag.decompose()
    for fold in article.select("details"):
        fold["open"] = ""
    for tag in article.find_all(["h1", "h2", "h3", "h4", "h5"]):
        tag.name = f"h{int(tag.name[1]) + 1}"  # the book has a title of its own
    for tag in article.find_all(id=True):
        tag["id"] = f"{name}--{tag['id']}"
    for tag in article.find_all(href=True):
        tag["href"] = in_book(tag["href"], name, names)
    for tag in article.find_all(src=True):
        tag["src"] = moved(tag["src"])
    return article


def in_book(address: str, name: str, names: set[str]) -> str:
    """An address on the page of a lesson as one in the book."""
    if address.startswith("#"):
        return f"#{name}--{address[1:]}" if address != "#" else f"#{name}"
    path, sign, anchor = address.partition("#")
    other = path.removesuffix(".html")
    if other in names:
        return f"#{other}--{anchor}" if sign else f"#{other}"
    return moved(address)
