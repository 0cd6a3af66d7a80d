"""Make slides of the figures of a lesson: one file of HTML for each lesson, with the pictures in it.

    python lessons/03_attention.py              draws the figures, once
    python lessons/teaching/slides.py 03        writes slides/03.html
    python lessons/teaching/slides.py           all lessons whose figures are there

Arrow keys, space, a click and page keys turn the pages; printed, each figure has a page. Nothing is loaded from
anywhere. The captions are those of the lesson's page in this folder.
"""

import argparse
import base64
import re
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parent
SAVED = re.compile(r"plot\.save\(\s*[^,]+,\s*\"(\w+\.png)\"")
CAPTION = re.compile(r"^- `(\d\d_\w+\.png)`( \(project this one\))?: (.*(?:\n  .*)*)", re.MULTILINE)
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

STYLE = """
body { margin: 0; font: 28px/1.35 system-ui, sans-serif; color: #111; background: #fff }
section { box-sizing: border-box; padding: 2vh 4vw; display: flex; flex-direction: column; align-items: center }
section h1 { font-size: 2.2em; margin: auto; text-align: center }
figure { margin: 0; width: 100%; display: flex; flex-direction: column; align-items: center }
img { max-width: 92vw; max-height: 66vh; object-fit: contain }
figcaption { max-width: 40em; margin-top: 2vh } figcaption b { color: #a33 } code { font-size: .9em }
footer { font-size: .5em; color: #666; margin-top: auto; align-self: flex-end }
@media screen { .turning section { display: none; height: 100vh } .turning section.now { display: flex } }
@media print { @page { size: landscape; margin: 10mm } body { font-size: 16pt }
section { break-after: page; height: 95vh } section:last-of-type { break-after: auto } img { max-height: 70vh } }
"""

SCRIPT = """
const pages = [...document.querySelectorAll("section")];
let now = Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), pages.length) - 1;
function show(page) {
  now = Math.min(Math.max(page, 0), pages.length - 1);
  pages.forEach((section, i) => section.classList.toggle("now", i === now));
  history.replaceState(null, "", "#" + (now + 1));
}
const turns = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1};
addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key in turns) show(now + turns[event.key]);
  else if (event.key === "Home") show(0);
  else if (event.key === "End") show(pages.length - 1);
  else return;
  event.preventDefault();
});
addEventListener("click", () => show(now + 1));
document.documentElement.classList.add("turning");
show(now);
"""


class Slide(NamedTuple):
    """A figure of a lesson, what the page for teachers says about it, and whether it is the one to project."""

    name: str
    caption: str
    is_first_choice: bool


def slides_of(number: str) -> list[Slide]:
    """The figures of a lesson in its own sequence. Raises FileNotFoundError for a lesson that does not exist."""
    page = (HERE / f"{number}.md").read_text(encoding="utf-8")
    captions = {}
    for name, choice, text in CAPTION.findall(page):
        captions[name] = Slide(name, " ".join(text.split()), bool(choice))
    source = lesson_file(number).read_text(encoding="utf-8")
    names = dict.fromkeys(SAVED.findall(source))  # each once
    return [captions.get(name, Slide(name, "", False)) for name in names]


def lesson_file(number: str) -> Path:
    """lessons/03_attention.py for "03"."""
    return next(LESSONS.glob(f"{number}_*.py"))


def title_of(number: str) -> str:
    """The first line of a lesson's page: "Lesson 03: attention, or how a word looks back"."""
    return (HERE / f"{number}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def html_of(number: str, figures: Path) -> str:
    """The whole file. Raises FileNotFoundError where a figure is missing."""
    title = escape(title_of(number))
    found = slides_of(number)
    sections = [f"<section><h1>{title}</h1></section>"]
    for place, slide in enumerate(found, start=1):
        picture = base64.b64encode((figures / slide.name).read_bytes()).decode("ascii")
        alt = escape(re.sub(r"[`*]", "", slide.caption) or slide.name, quote=True)
        sections.append(
            f'<section><figure><img src="data:image/png;base64,{picture}" alt="{alt}">'
            f"<figcaption>{marked(slide.caption)}</figcaption></figure>"
            f"<footer>{title} · {place} of {len(found)}</footer></section>"
        )
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head>'
    )
    return f"{head}<body>{''.join(sections)}<script>{SCRIPT}</script></body></html>\n"


def marked(text: str) -> str:
    """Markdown of one line -> HTML: `code`, **strong**, *emphasis*; nothing else is needed here."""
    parts = []
    for part in re.split(r"(`[^`]*`)", text):
        if part.startswith("`") and part.endswith("`") and len(part) > 1:
            parts.append(f"<code>{escape(part[1:-1])}</code>")
            continue
        part = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(part))
        parts.append(re.sub(r"\*(.+?)\*", r"<em>\1</em>", part))
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the files; return the exit status: 2 where a lesson or its figures are missing."""
    parser = argparse.ArgumentParser(description="Slides of the lessons' figures, one file of HTML for each lesson.")
    parser.add_argument(
        "lessons", nargs="*", metavar="LESSON", help="numbers, such as 03; without any: all that can be"
    )
    parser.add_argument("--figures", default=str(LESSONS / "figures"), help="where the lessons have saved them")
    parser.add_argument("--out", default="slides", help="where the files are written")
    options = parser.parse_args(arguments)
    figures, out = Path(options.figures), Path(options.out)
    known = sorted(path.stem for path in HERE.glob("[0-9][0-9].md"))
    wanted = [number.zfill(2) for number in options.lessons]
    for number in wanted:
        if number not in known:
            return _refuse(f"there is no lesson {number}: give one of {known[0]} to {known[-1]}")
    written = 0
    for number in wanted or known:
        missing = [slide.name for slide in slides_of(number) if not (figures / slide.name).is_file()]
        if missing and not wanted:
            continue
        if missing:
            command = f"python lessons/{lesson_file(number).name}"
            return _refuse(f"{figures / missing[0]} is missing: run {command} first, it draws the figures")
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{number}.html").write_text(html_of(number, figures), encoding="utf-8", newline="\n")
        print(out / f"{number}.html")
        written += 1
    if not written:
        return _refuse(f"{figures} has no figures: run a lesson first, such as python lessons/03_attention.py")
    return 0


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
