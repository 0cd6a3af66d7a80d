"""The landing page of the site, in English and Korean: `write(source, built, language)`.

Its words are in `words_en.toml` and `words_ko.toml`, its form in `index.html` (Jinja) and `style.css`. The ten lines
of the README are run while the page is written, so what it shows as their output is what they print.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import course
import jinja2
from course import LESSONS, ROOT, times_of, title_of
from markupsafe import Markup, escape

from minigpt.errors import InputError
from minigpt.explorer.job import ExploreOptions, explore

HERE = Path(__file__).resolve().parent
FIRST_COMMAND = re.compile(r"^    (python -m pip install .*)$", re.MULTILINE)
TEN_LINES = re.compile(r"## Ten lines\n+```python\n(.*?)\n```", re.DOTALL)
CHAT = re.compile(r"^    (\$ .*minigpt download .*)\n((?:    .*\n)+)", re.MULTILINE)
VENV = re.compile(r"\(`(\S+ -m venv \S+)`\) and activate it \(`([^`]+)`, on Windows\s+`([^`]+)`\)")
MODEL = re.compile(r"GPT-\d")  # is not broken at its hyphen
IN_TEXT = re.compile(r"\[([^]]+)\]\(([^)]+)\)|`([^`]+)`")
LESSONS_OF_PANELS = {
    "lens": "08_gpt1",
    "attention": "03_attention",
    "stream": "07_residuals_and_the_block",
    "backward": "08_gpt1",
    "inspect": "00_gradients",
    "mistakes": "00_gradients",
    "depth": "16_gpt2",
}
SEEDED = "import numpy; numpy.random.seed(0)\n"  # the same numbers at each build


def words(language: str) -> dict:
    """What the page says in this language, "en" or "ko"."""
    with (HERE / f"words_{language}.toml").open("rb") as file:
        return tomllib.load(file)


def lessons(language: str = "en") -> list[tuple[str, str, int]]:
    """(file, title, minutes to read its core) of each lesson: ("03_attention", "Attention, or how …", 25).

    The titles are those of the lessons, of their Korean editions, and of the words of the page, where there is none.
    """
    titles = words(language)["titles"]
    found = []
    for path in sorted(LESSONS.glob("[0-9][0-9]_*.py")):
        text = path.read_text(encoding="utf-8")
        titled = path if language == "en" else LESSONS / "ko" / f"{path.stem}.md"
        title = titles.get(path.name[:2]) or title_of(titled.read_text(encoding="utf-8"))
        found.append((path.stem, title, times_of(text).core))
    return found


def ten_lines() -> tuple[str, str]:
    """The ten lines of the README, and what they print."""
    code = TEN_LINES.search((ROOT / "README.md").read_text(encoding="utf-8")).group(1)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", SEEDED + code]
    ran = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    return code, ran.stdout.rstrip()


def conversation() -> str:
    """What the README shows of a real model: the commands, what was typed, and what came back."""
    first, others = CHAT.search((ROOT / "README.md").read_text(encoding="utf-8")).groups()
    return "\n".join([first, *(line.strip() for line in others.splitlines())])


def commented(code: str) -> Markup:
    """Python code as HTML; its comments can be told from the rest, and its lines from each other."""
    lines = []
    for line in code.splitlines():
        before, mark, after = line.partition("  # ")
        comment = Markup('<span class="comment">{}</span>').format(mark + after) if mark else ""
        lines.append(Markup('<span class="line">{}\n</span>').format(escape(before) + comment))
    return Markup("").join(lines)


def repository() -> str:
    """The address of the repository, from MINIGPT_REPOSITORY, "owner/name" or a whole address; "" where none is set.

    Raises InputError for anything else.
    """
    given = os.environ.get("MINIGPT_REPOSITORY", "").strip().removesuffix("/")
    if not given or re.fullmatch(r"https?://[\w.-]+(:\d+)?/[\w./~-]+", given):
        return given
    if re.fullmatch(r"[\w-][\w.-]*/(?!\.+$)[\w.-]+", given):
        return f"https://github.com/{given}"
    raise InputError(f"MINIGPT_REPOSITORY is {given!r}: give owner/name, or an address such as https://host/owner/name")


def first_commands(address: str) -> list[tuple[str, str]]:
    """[(command, what to type in its place on Windows, or ""), …] from nothing to the output of a lesson.

    They are those of the README. address: of the repository; "" leaves out the copying of it.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    make, activate, on_windows = VENV.search(readme).groups()
    name = address.rpartition("/")[2].removesuffix(".git")
    found = [(f"git clone {address}", ""), (f"cd {name}", "")] if address else []
    found += [(make, make.replace("python3", "py")), (activate, on_windows)]
    return found + [(command, "") for command in FIRST_COMMAND.search(readme).group(1).split(" && ")]


class Addresses:
    """Where the pages of a built site are, seen from the landing page of one language.

    built: the folder of that landing page. A page that has no Korean edition is the English one, a folder further up.
    """

    def __init__(self, built: Path, language: str):
        self.built, self.translated = built, language != "en"

    def of(self, page: str) -> str:
        """The relative address of a page; "" where the site has no such page."""
        if (self.built / page).is_file():
            return page
        return f"../{page}" if self.translated and (self.built.parent / page).is_file() else ""

    def explorer(self) -> str:
        """One file serves both languages."""
        return "../explorer.html?lang=ko" if self.translated else "explorer.html?lang=en"

    def text(self, text: str) -> Markup:
        """A sentence with `[links](page.html)` and `code`; where there is no such page its words stay."""

        parts = []
        end = 0
        for match in IN_TEXT.finditer(text):
            parts += [escape(text[end : match.start()]), self._part(*match.groups())]
            end = match.end()
        return Markup("").join([*parts, escape(text[end:])])

    def _part(self, label: str | None, page: str | None, code: str | None) -> Markup:
        if code:
            return Markup("<code>{}</code>").format(code)
        address = self.explorer() if page == "explorer.html" else self.of(page)
        return Markup('<a href="{}">{}</a>').format(address, label) if address else escape(label)


def whole(text: str) -> Markup:
    """A sentence in which no line ends inside of "GPT-2"."""
    return Markup(MODEL.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


def contents(says: dict, addresses: Addresses, language: str) -> list[dict]:
    """The parts of the course with their lessons, for the template."""
    rows = []
    for number, (file, title, minutes) in enumerate(lessons(language)):
        address = addresses.of(f"lessons/{file}.html")
        rows.append({
            "number": f"{number:02}",
            "title": title,
            "minutes": says["minutes"].format(n=minutes),
            "address": address,
            "elsewhere": address.startswith("../"),
        })  # fmt: skip
    titles = course.WORDS[language]["parts"]
    parts = course.by_part(rows, lambda row: int(row["number"]))
    return [{"title": titles[part], "lessons": there} for part, there in parts]


def page(built: Path, language: str) -> str:
    """The landing page in HTML, with links to what is in the folder `built`."""
    says, addresses = words(language), Addresses(built, language)
    code, printed = ten_lines()
    says["style"] = Markup((HERE / "style.css").read_text(encoding="utf-8"))
    says["progress"] = course.progress(language)
    says["other_page"] = "../index.html" if language == "ko" else "ko/index.html"
    says["head"]["subtitle"] = says["head"]["subtitle"].format(lessons=len(lessons()))
    says["explorer"]["address"] = addresses.explorer()
    says["ten"] |= {"lines": commented(code), "printed": printed}
    says["real"]["lines"] = conversation()
    says["begin"] |= {"repository": repository(), "commands": first_commands(repository())}
    for reader in says["begin"]["reader"]:
        for step in reader["steps"]:
            step["text"] = addresses.text(step["text"])
    says["lessons"]["parts"] = contents(says["lessons"], addresses, language)
    for item in says["more"]["pages"]:
        item["address"] = addresses.of(item["page"])
    loader = jinja2.FileSystemLoader(HERE)
    templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    templates.filters["whole"] = whole
    return templates.get_template("index.html").render(says)


def links_of_the_explorer() -> dict:
    """Where the explorer leads: to this page, and from its panels to their lessons; see `job.explore`."""
    found = {}
    for panel, lesson in LESSONS_OF_PANELS.items():
        korean = (HERE.parents[1] / "ko" / f"{lesson}.md").is_file()
        english = f"lessons/{lesson}.html"
        address = {"en": english, "ko": f"ko/{english}" if korean else english}
        found[panel] = {"number": lesson[:2], "address": address}
    return {"home": {"en": "index.html", "ko": "ko/index.html"}, "lessons": found}


def write(source: Path, built: Path, language: str = "en") -> list[Path]:
    """Write the landing page of one language over the index.html of `built`, and the explorer beside the English one.

    source: the sources of the other pages, which these two do not need. built: the folder of the built pages in this
    language; for Korean it lies in that of the English pages. Write it last: it links to what is there. Returns the
    paths. Raises InputError where the models of the explorer are missing.
    """
    written = []
    if language == "en":
        options = ExploreOptions(out=str(built / "explorer.html"))
        written.append(explore(options, say=lambda text: None, site=links_of_the_explorer()))
    target = built / "index.html"
    target.write_text(page(built, language), encoding="utf-8", newline="\n")
    return [target, *written]
