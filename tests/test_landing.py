"""The landing page: two languages with the same parts, commands that exist, links that lead somewhere, true output.

They need the extra `site`, and are skipped without it; with MINIGPT_NEED_SITE=1 they fail.
"""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

if os.environ.get("MINIGPT_NEED_SITE") != "1":
    for library in ("jinja2", "jupyter_cache"):  # PyTorch brings the first one too
        pytest.importorskip(library, reason=f"{library} is not installed (extra site)")
ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "lessons" / "site"), str(ROOT / "lessons" / "site" / "landing")]

import landing  # noqa: E402
from checks import files  # noqa: E402

from minigpt.cli.main import parser  # noqa: E402
from minigpt.errors import InputError  # noqa: E402

ENGLISH, KOREAN = landing.words("en"), landing.words("ko")
PAGE = '<!doctype html><html lang="{}"><head><title>A page</title></head><body><h1>A page</h1></body></html>'


def form(value):
    """The keys of nested tables, with the commands and the pages that stand in them, without what is said."""
    if isinstance(value, dict):
        kept = ("type", "page", "first")
        return {key: item if key in kept else form(item) for key, item in value.items() if key != "titles"}
    if isinstance(value, list):
        return [form(item) for item in value]
    return sorted(re.findall(r"\]\(([^)]+)\)", value))


def test_both_languages_have_the_same_parts_commands_and_links():
    assert form(ENGLISH) == form(KOREAN)
    assert re.search("[가-힣]", str(ENGLISH).replace(ENGLISH["other_language"], "")) is None


def test_every_lesson_has_one_korean_title():
    names = [file for file, *_ in landing.lessons()]
    assert [name[:2] for name in names] == [f"{number:02}" for number in range(len(names))]
    translated = [path.name[:2] for path in (ROOT / "lessons" / "ko").glob("[0-9][0-9]_*.md")]
    assert sorted([*translated, *KOREAN["titles"]]) == [name[:2] for name in names]
    assert all(re.search("[가-힣]", title) for _, title, _ in landing.lessons("ko"))


def commands() -> list[str]:
    return [step["type"] for reader in ENGLISH["begin"]["reader"] for step in reader["steps"] if "type" in step]


def test_every_command_is_one_that_the_command_line_takes():
    assert len(commands()) >= 7
    for command in commands():
        program, *words = shlex.split(command)
        assert program == "minigpt"
        parser().parse_args(words)


def test_each_reader_has_three_or_four_steps():
    for reader in ENGLISH["begin"]["reader"]:
        assert 3 <= len(reader["steps"]) <= 4


def test_the_ten_lines_print_what_the_page_shows(site):
    code, printed = landing.ten_lines()
    assert len(code.splitlines()) <= 10
    assert [line.split()[::2] for line in printed.splitlines()[:3]] == [[name, "happy"] for name in "xgb"]
    assert printed.splitlines()[3] == "{'x_hat': 240, 'rstd': 48, 'g': 40}"
    assert str(landing.escape(printed)) in (site / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The two landing pages, and an empty page for each other page of the site."""
    folder = tmp_path_factory.mktemp("site")
    pages = [item["page"] for item in ENGLISH["more"]["pages"]] + ["explorer.html"]
    pages += [f"teaching/{name}.html" for name in ("index", "twelve_weeks", "five_days")]
    lessons = [f"lessons/{file}.html" for file, *_ in landing.lessons()]
    for static in ("_static", "ko/_static"):
        (folder / static).mkdir(parents=True)
        for file in ("progress.js", "hangul.css"):
            (folder / static / file).touch()
    for page in [*pages, *lessons, *(f"ko/{lesson}" for lesson in lessons[:18])]:
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format("ko" if page.startswith("ko/") else "en"), encoding="utf-8")
    for language, name in (("en", "index.html"), ("ko", "ko/index.html")):
        (folder / name).write_text(landing.page((folder / name).parent, language), encoding="utf-8")
    return folder


def test_the_pages_have_no_fault(site):
    assert files.check(site) == []


@pytest.mark.parametrize(("name", "explorer"), [("index.html", "explorer.html"), ("ko/index.html", "../explorer.html")])
def test_the_page_leads_to_every_lesson_and_shows_the_explorer(site, name, explorer):
    links = [link.address for link in files.read(site / name).links]
    translated = [f"lessons/{file}.html" in links for file, *_ in landing.lessons()]
    in_english = [f"../lessons/{file}.html" in links for file, *_ in landing.lessons()]
    number = len(translated) if name == "index.html" else 18
    assert translated == [i < number for i in range(len(translated))]
    assert in_english == [i >= number for i in range(len(translated))]
    assert f"{explorer}?lang={'en' if name == 'index.html' else 'ko'}" in links
    frames = [link for link in files.read(site / name).links if link.loaded and "explorer" in link.address]
    assert len(frames) == 1


NO_ADDRESS = (
    "name", "/name", "owner/", "owner/..", "o/n?x", "o/n x", "a/b<script>", "o/`id`", "../x", "//evil/x", "ftp://a/b",
    "javascript:alert(1)", "data:text/html,x", 'https://x/y" onload=1', "https://x/y'z", "https://me:word@host/x",
    "https://x/$(id)", "https://x/y\nz", "https://x",
)  # fmt: skip


def test_what_is_no_address_of_a_repository_is_refused(monkeypatch):
    for given, address in {
        "": "", " me/mine/ ": "https://github.com/me/mine", "https://host:1/a/b.git/": "https://host:1/a/b.git",
    }.items():  # fmt: skip
        monkeypatch.setenv("MINIGPT_REPOSITORY", given)
        assert landing.repository() == address
    taken = []
    for given in NO_ADDRESS:
        monkeypatch.setenv("MINIGPT_REPOSITORY", given)
        try:
            taken.append((given, landing.repository()))
        except InputError as error:
            assert "give owner/name, or an address" in str(error) and "\n" not in str(error)
    assert taken == []


def test_a_page_that_is_not_there_is_not_linked(site):
    (site.parent / "beside.html").write_text("no page of the site", encoding="utf-8")
    addresses = landing.Addresses(site, "en")
    text = addresses.text("<Read> [this](beside.html), not `<that>`, or [the words](glossary.html) & more.")
    assert text == (
        '&lt;Read&gt; this, not <code>&lt;that&gt;</code>, or <a href="glossary.html">the words</a> &amp; more.'
    )


def test_it_is_written_with_the_explorer_beside_it(tmp_path):
    (tmp_path / "ko").mkdir()
    written = landing.write(tmp_path, tmp_path, "en") + landing.write(tmp_path, tmp_path / "ko", "ko")
    names = ["index.html", "explorer.html", "ko/index.html"]
    assert [path.relative_to(tmp_path).as_posix() for path in written] == names
    assert all(path.is_file() for path in written)


def test_the_conversation_is_that_of_the_readme_and_others_are_named_in_both_languages():
    first, *others = landing.conversation().splitlines()
    assert first.startswith("$ python -m pip install") and others[0] == "$ minigpt chat smollm2"
    assert others[1].startswith("> ") and len(others) == 3
    names = [[other["name"] for other in says["why"]["others"]] for says in (ENGLISH, KOREAN)]
    assert names[0] == names[1] and len(names[0]) == 5
