"""Pages on a narrow screen: code that wraps keeps its text, tables know their heads, and the first page its commands.

They need the extra `site`, and are skipped without it; with MINIGPT_NEED_SITE=1 they fail.
"""

import os
import re
import sys
from html import unescape
from pathlib import Path

import pytest

if os.environ.get("MINIGPT_NEED_SITE") != "1":
    for library in ("jinja2", "jupyter_cache"):  # PyTorch brings the first one too
        pytest.importorskip(library, reason=f"{library} is not installed (extra site)")
ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "lessons" / "site"), str(ROOT / "lessons" / "site" / "landing")]

import build  # noqa: E402
import landing  # noqa: E402
import narrow  # noqa: E402
import pages  # noqa: E402

from minigpt.errors import InputError  # noqa: E402

CODE = '<pre><span></span><span class="k">def</span> f():\n\n    <span class="c">"""a\n</span>    b &lt; c"""</pre>'
ROWS = "".join(f"<tr><td>{a}</td>\n<td><p>{b}</p></td><td>{c}</td></tr>" for a, b, c in ("xyz", "uvw"))
HEADS = '<tr><th class="head"><p>name</p></th><th>what</th><th>why</th></tr>'
TABLE = f'<table class="docutils"><thead>{HEADS}</thead><tbody>{ROWS}</tbody></table>'


def text_of(html: str) -> str:
    return unescape(re.sub("<[^>]+>", "", html))


def test_code_keeps_its_text_and_each_line_knows_its_indentation():
    made = narrow.page(CODE, "lessons/03_attention")
    assert text_of(made) == text_of(CODE)
    assert re.findall(r'class="line" style="--in:(\d+)"', made) == ["0", "0", "4", "4"]
    assert '<pre class="columns">' not in made


COLUMNS = {
    "gradient   shape    largest error   verdict\ndq         (5, 4)           2e-11   happy\n": True,
    "[[-1.26  1.51  1.35  0.78]\n [-0.9   1.08  1.37  1.06]]\n": True,
    "mia has tea . tom has milk . ann has fish . who has milk\nand more\n": False,
    "only one line:   [ 0.065  0.133  0.103 -0.301]\n": False,
    "x = 1   # a   b   c\ny = 2   # d   e   f\n": False,
}


@pytest.mark.parametrize("text", COLUMNS, ids=range(len(COLUMNS)))
def test_what_stands_in_columns_does_not_wrap(text):
    made = narrow.page(f"<pre><span></span>{text}</pre>", "lessons/03_attention")
    assert ('<pre class="columns">' in made) is COLUMNS[text]


def test_a_cell_of_a_table_has_the_head_of_its_column():
    made = narrow.page(TABLE, "operations/layernorm")
    assert '<table class="stacks docutils">' in made and text_of(made) == text_of(TABLE)
    assert re.findall(r'<td data-head="(\w+)"', made) == ["what", "why"] * 2
    assert re.findall(r'<td data-head="(\w+)"', narrow.page(TABLE, "glossary")) == ["what"] * 2
    assert narrow.page(TABLE, "benchmarks/train_step") == TABLE
    assert narrow.page(TABLE, "benchmarks/index") == narrow.page(TABLE, "lessons/index"), "words, not numbers"


def test_a_picture_leads_to_its_file():
    made = narrow.page('<p><img alt="A &gt; b" src="../_images/x.png" /></p>', "lessons/03_attention")
    assert made == '<p><a class="picture" href="../_images/x.png"><img alt="A &gt; b" src="../_images/x.png" /></a></p>'
    linked = '<a href="y.html"><img src="x.png"></a>'
    assert narrow.page(linked, "index") == linked


# --- the first page --------------------------------------------------------------------------------------------------


def test_the_commands_are_those_of_the_readme_one_by_one():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    commands = landing.first_commands("")
    assert [command.split()[0] for command, _ in commands] == ["python3", ".", "python", "python"]
    assert all(command in readme for command, _ in commands) and commands[1][1] in readme
    cloned = landing.first_commands("https://github.com/anna/tiny.git")
    assert cloned[:2] == [("git clone https://github.com/anna/tiny.git", ""), ("cd tiny", "")]
    assert cloned[2:] == commands


ADDRESSES = {
    "": "",
    "anna/tiny-gpt": "https://github.com/anna/tiny-gpt",
    "https://host.example/anna/tiny/": "https://host.example/anna/tiny",
}


@pytest.mark.parametrize("given", ADDRESSES)
def test_the_repository_is_named_by_the_environment(given, monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGPT_REPOSITORY", given)
    assert landing.repository() == ADDRESSES[given]
    for language in ("en", "ko"):
        assert ("git clone" in landing.page(tmp_path, language)) is bool(given)


@pytest.mark.parametrize("given", ["tiny", "a/b; rm", "javascript:alert(1)", "https://x/'y"])
def test_what_is_no_repository_is_refused(given, monkeypatch):
    monkeypatch.setenv("MINIGPT_REPOSITORY", given)
    with pytest.raises(InputError, match="MINIGPT_REPOSITORY"):
        landing.repository()


def test_a_wrong_repository_is_refused_before_a_lesson_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGPT_REPOSITORY", "tiny")
    monkeypatch.setattr(pages.lessons, "executed", lambda *given: pytest.fail("the lessons run"))
    assert build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path / "work"), "--only", "03"]) == 2
    assert not (tmp_path / "site").exists()


# --- the glossary, the facts -----------------------------------------------------------------------------------------


def test_the_korean_glossary_says_what_each_term_means(tmp_path):
    site = pages.Site(tmp_path, frozenset(), "ko")
    pages.write_glossary(site)
    rows = [line for line in (tmp_path / "glossary.md").read_text(encoding="utf-8").splitlines() if "|" in line][2:]
    meanings = [row.strip("| ").split(" | ")[3] for row in rows]
    assert len(meanings) == len(pages.glossary_rows()) > 100
    assert all(re.search("[가-힣]", meaning) for meaning in meanings)


def test_lessons_that_the_explorer_computes_lead_to_it(tmp_path):
    for language, address in (("en", "../explorer.html?lang=en"), ("ko", "../../explorer.html?lang=ko")):
        site = pages.Site(tmp_path, frozenset(), language)
        linked = [path.name[:2] for path in pages.lessons.files() if address in pages.facts(path.stem, site)]
        assert linked == ["03", "04", "05", "06", "07", "08", "16"]
