"""The site of the course: links become links to pages, lessons run once, a lesson that fails stops the build.

The slow tests need a built site: the folder in MINIGPT_SITE, or one that is built here. What needs the extra `site` is
skipped without it; with MINIGPT_NEED_SITE=1 that is a failure.
"""

import ast
import graphlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from lesson_runs import LESSONS, ROOT, run_once

from minigpt.learn import gap

SITE = ROOT / "lessons" / "site"


def missing(reason: str) -> None:
    """Skip the test, or fail where the site is needed."""
    if os.environ.get("MINIGPT_NEED_SITE") == "1":
        pytest.fail(f"MINIGPT_NEED_SITE is 1, and {reason}")
    pytest.skip(reason)


def part(name: str) -> ModuleType:
    """A file of the site's builder, as a module."""
    if str(SITE) not in sys.path:
        sys.path.append(str(SITE))
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f'{error}: the site needs the extra: python -m pip install -e ".[site]"')


# --- the files of the builder ----------------------------------------------------------------------------------------


def names_imported(path: Path) -> set[str]:
    """Every name in an import of a file, also inside a function: of modules, and of what is taken from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def known_by(files: list[Path]) -> dict[str, set[str]]:
    """{file: the files among them that it imports}; each is named as an import names it: "checks.files", "results"."""
    names = {path: path.stem if path.parent.name != "checks" else f"checks.{path.stem}" for path in files}
    known = {}
    for path, name in names.items():
        imported = names_imported(path)
        if path.parent.name == "checks":
            imported |= {f"checks.{one}" for one in imported}
        known[name] = {other for other in names.values() if other in imported and other != name}
    return known


def test_no_circle_among_the_files_of_the_builder():
    files = [path for path in SITE.rglob("*.py") if path.stem != "__init__"]
    known = known_by(files)
    assert "figures" in known["results_form"] and "checks.files" in known["checks.pages"]
    assert list(graphlib.TopologicalSorter(known).static_order())  # CycleError names a circle


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path):
    """An English edition with a few pages."""
    links = part("links")
    docs = frozenset({"index", "lessons/03_attention", "lessons/index", "package", "teaching/03", "teaching/index"})
    return links.Site(tmp_path, docs, "en")


LINKS = {
    "[`03_attention.py`](03_attention.py)": "[`03_attention.py`](03_attention.ipynb)",
    "[course](README.md#notation)": "[course](index.md#notation)",
    "[package](../minigpt/README.md)": "[package](../package.md)",
    "[teachers](teaching/README.md), [3](teaching/03.md)": "[teachers](../teaching/index.md), [3](../teaching/03.md)",
    "[top](../README.md)": "[top](../index.md)",
    "[lesson 06](06_layernorm.py)": "lesson 06",  # no page of this edition
    "[far](https://example.org/x.py)": "[far](https://example.org/x.py)",
    "[here](#terms)": "[here](#terms)",
    "[data](../data/stories_sample.txt)": '<a href="../files/data/stories_sample.txt" download>data</a>',
    "![map](pictures/16_blocks.png)": "![map](../pictures/16_blocks.png)",
    '<img src="pictures/16_blocks.png" width="3">': '<img src="../pictures/16_blocks.png" width="3">',
    "```\n[`03_attention.py`](03_attention.py)\n```": "```\n[`03_attention.py`](03_attention.py)\n```",
    "[gone](no_such_file.md)": "[gone](no_such_file.md)",  # Sphinx will complain
}


@pytest.mark.parametrize("given", LINKS, ids=range(len(LINKS)))
def test_a_link_to_a_file_becomes_one_to_its_page(given, site):
    assert part("links").rewrite(given, "lessons/README.md", "lessons/index", site) == LINKS[given]


def test_a_file_that_is_linked_is_copied(site):
    part("links").rewrite("[x](../data/stories_sample.txt) ![y](pictures/17_time.png)", "lessons/README.md", "a", site)
    copied = site.folder / "_extra" / "files" / "data" / "stories_sample.txt"
    assert copied.read_bytes() == (ROOT / "data" / "stories_sample.txt").read_bytes()
    assert (site.folder / "pictures" / "17_time.png").stat().st_size > 1000


def test_a_korean_page_leads_to_the_english_one_where_there_is_no_other(site):
    korean = site._replace(docs=frozenset({"lessons/03_attention"}), language="ko")
    made = part("links").rewrite("[3](03_attention.py) [6](06_layernorm.py)", "lessons/x.py", "lessons/x", korean)
    assert made == '[3](03_attention.ipynb) <a href="../../lessons/06_layernorm.html" hreflang="en">6</a>'


def test_addresses_of_a_lesson_are_right_in_the_book():
    book, names = part("book"), {"03_attention", "06_layernorm"}
    assert book.in_book("#check", "03_attention", names) == "#03_attention--check"
    assert book.in_book("06_layernorm.html#check", "03_attention", names) == "#06_layernorm--check"
    assert book.in_book("06_layernorm.html", "03_attention", names) == "#06_layernorm"
    assert book.in_book("../glossary.html", "03_attention", names) == "glossary.html"
    assert book.in_book("09_adam.html#x", "03_attention", names) == "lessons/09_adam.html#x"
    assert book.moved("../_static/site.css?v=1") == "_static/site.css?v=1"
    assert book.moved("https://example.org/") == "https://example.org/"


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_lesson_is_in_the_navigation_once_and_in_its_place(language, tmp_path):
    lessons, pages = part("lessons"), part("pages")
    notebooks = {path.stem: lessons.read(path) for path in lessons.files()}
    pages.write(notebooks, tmp_path, language)
    pages.write_index(notebooks, tmp_path, language)
    listed = re.findall(r"<lessons/(\d\d_\w+)>", (tmp_path / "index.md").read_text(encoding="utf-8"))
    assert listed == [path.stem for path in LESSONS]
    assert sorted(path.stem for path in tmp_path.glob("lessons/[0-9]*.ipynb")) == listed
    downloads = sorted(path.stem for path in tmp_path.glob("_extra/notebooks/*.ipynb"))
    assert downloads == listed


def test_the_facts_of_a_lesson_are_its_minutes_its_exercises_and_its_page_for_teachers(site):
    facts = part("pages").facts("03_attention", site)
    times = part("course").times_of((ROOT / "lessons" / "03_attention.py").read_text(encoding="utf-8"))
    assert "25 minutes to read the core, 95 with what is folded" in facts
    assert f"{times.least} to {times.most} seconds to run" in facts
    assert "minigpt learn start 03" in facts and "[For teachers](../teaching/03.md)" in facts
    files = [path.name for path in sorted((ROOT / "lessons" / "exercises").glob("03_*.py"))]
    assert re.findall(r'href="\.\./exercises/(\w+\.py)"', facts) == files and len(files) >= 2


def test_what_a_lesson_says_of_itself_is_what_the_classroom_reads():
    from minigpt.learn.classroom import course as classroom

    course, known = part("course"), classroom.lessons()
    for path in LESSONS:
        text = path.read_text(encoding="utf-8")
        lesson = known[path.name[:2]]
        assert course.title_of(text).lower() == lesson.title.lower()
        assert course.times_of(text).reading == lesson.minutes


def test_every_part_of_the_course_has_a_title_in_both_languages():
    course = part("course")
    assert all(len(course.WORDS[language]["parts"]) == len(course.PARTS) for language in ("en", "ko"))
    numbers = [0, 8, 9, 19, 20, 34]
    assert course.by_part(numbers, lambda number: number) == [(0, [0, 8]), (1, [9]), (2, [19]), (3, [20]), (4, [34])]


def test_the_glossary_has_every_term_and_leads_to_its_lesson(site):
    pages = part("pages")
    pages.write_glossary(site)
    text = (site.folder / "glossary.md").read_text(encoding="utf-8")
    rows = pages.glossary_rows()
    assert len(rows) > 100 and all(len(row) == 4 for row in rows)
    assert all(f"| {row[0]} | {row[1]} |" in text and row[3] in text for row in rows)
    assert "[03](lessons/03_attention.ipynb)" in text


def test_a_page_has_one_title():
    one_title = part("pages").one_title
    assert one_title("# A\n\n## B\n\n# C\n\n## D\n") == "# A\n\n### B\n\n## C\n\n### D\n"
    assert one_title("# A\n\n```\n# a comment\n```\n\n## B\n") == "# A\n\n```\n# a comment\n```\n\n## B\n"


def test_a_page_shows_the_picture_and_not_the_name_of_its_file():
    notebooks, nbformat = part("notebooks"), part("nbformat")
    stream = nbformat.v4.new_output("stream", text="picture: figures/03_x.png\n4 scores\n")
    (shown,) = notebooks.on_page(stream)
    assert shown.text == "4 scores\n" and stream.text.startswith("picture")
    assert notebooks.on_page(nbformat.v4.new_output("stream", text="picture: figures/03_x.png\n")) == []
    for text, kept in (("PosixPath('figures/03_x.png')", 0), ("WindowsPath('figures/03_x.png')", 0), ("42", 1)):
        result = nbformat.v4.new_output("execute_result", data={"text/plain": text})
        assert len(notebooks.on_page(result)) == kept
    code = 'def draw():\n    """The query, and\n    three keys."""\nplot.save(draw(), "03_x.png")'
    assert notebooks.words_of_picture(code) == "Picture: The query, and three keys."
    assert notebooks.words_of_picture('plot.save(figure, "03_soft_dictionary.png")') == "Picture: soft dictionary"


def test_the_list_of_the_lessons_leads_to_them_by_their_subjects():
    table = "| file | subject |\n|---|---|\n| [`03_attention.py`](03_attention.py) | how a word | looks back |"
    assert part("pages").course(table).splitlines()[2] == "| 03 | [how a word](03_attention.py) | looks back |"


def test_a_quote_of_the_library_gets_its_language():
    text = "See:\n\n    # minigpt/ops/reference/gelu.py\n    x = 1\n\n    y = 2\n\nand on.\n"
    made = part("notebooks").QUOTED.sub(part("notebooks").fenced, text)
    assert made == "See:\n\n```python\n# minigpt/ops/reference/gelu.py\nx = 1\n\ny = 2\n```\n\nand on.\n"


def test_what_is_deeper_is_a_fold_of_the_page_and_collapsed_in_the_notebook(tmp_path):
    lessons, notebooks = part("lessons"), part("notebooks")
    path = small_lesson(tmp_path, FOLDED)
    notebook = lessons.read(path)
    lessons.mark(notebook, path)
    tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
    assert tags == [[], ["deeper"], ["deeper"], []]
    heading = notebook.cells[1]
    assert heading.metadata["jp-MarkdownHeadingCollapsed"] and heading.source == "## 1. Deep"
    english, korean = (part("course").WORDS[language] for language in ("en", "ko"))
    said = notebooks.to_take_home(notebook, english).cells[1].source
    assert said == "## 1. Deep\n\n*Deeper: 1 minutes. The arrow beside this title shows and hides it.*"
    assert "*더 깊이: 1분. 제목 옆의" in notebooks.to_take_home(notebook, korean).cells[1].source
    made = notebooks.page(notebook, "facts", english)
    assert made.cells[1].source == "## 1. Deep\n\n:::{container} deeper\nDeeper, 1 min\n:::"
    assert heading.source == "## 1. Deep", "the notebook itself stays as it is"


def test_an_answer_and_the_output_above_it_are_folded_on_the_page_and_in_the_notebook(tmp_path):
    lessons, notebooks = part("lessons"), part("notebooks")
    path = small_lesson(tmp_path, GUESSED)
    notebook = lessons.read(path)
    lessons.mark(notebook, path)
    english, korean = (part("course").WORDS[language] for language in ("en", "ko"))
    made = notebooks.page(notebook, "facts", english)
    asked, code, answer, after = made.cells
    folded = '<details class="answer"><summary>The answer</summary>\n\n**42**, of course.\n\n</details>'
    assert answer.source == folded and "details" not in asked.source + after.source
    assert code.metadata["tags"] == ["hide-output"]
    assert code.metadata["mystnb"]["code_prompt_show"] == english["output"]
    taken_home = notebooks.to_take_home(notebook, korean)
    assert taken_home.cells[1].metadata["jupyter"]["outputs_hidden"]
    assert "<summary>답</summary>\n\n**42**" in taken_home.cells[2].source


def test_the_answer_to_a_gap_is_folded_and_what_its_judge_says_is_not(tmp_path):
    lessons, notebooks = part("lessons"), part("notebooks")
    path = small_lesson(tmp_path, GAP)
    notebook = lessons.read(path)
    lessons.mark(notebook, path)
    _, code, answer = notebooks.page(notebook, "facts", part("course").WORDS["en"]).cells
    assert "tags" not in code.metadata
    assert answer.source.startswith('<details class="answer"><summary>The answer</summary>\n\n`n * 7`: ')


def test_the_code_of_a_drawing_is_folded_on_the_page_and_in_the_notebook(tmp_path):
    lessons, notebooks = part("lessons"), part("notebooks")
    path = small_lesson(tmp_path, FOLDED.replace("# %%\nprint", '# %% tags=["hide-input"]\nprint'))
    notebook = lessons.read(path)
    lessons.mark(notebook, path)
    english = part("course").WORDS["en"]
    drawing = notebooks.page(notebook, "facts", english).cells[2]
    assert drawing.metadata["tags"] == ["deeper", "hide-input"]
    assert notebooks.to_take_home(notebook, english).cells[2].metadata["jupyter"] == {"source_hidden": True}


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_kernel_that_dies_at_its_start_is_started_once_more(deaths, tmp_path, monkeypatch):
    lessons = part("lessons")
    starts = []

    def run(runner, path):
        starts.append(path)
        if len(starts) <= deaths:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return "ran"

    monkeypatch.setattr(lessons.Runner, "run_in_a_kernel", run)
    runner = lessons.Runner(tmp_path)
    if deaths == 2:
        with pytest.raises(RuntimeError, match="Kernel died"):
            runner.run(tmp_path / "98.py")
    else:
        assert runner.run(tmp_path / "98.py") == "ran"
    assert len(starts) == min(deaths + 1, 2)


def test_a_marked_section_becomes_a_fold():
    nodes = pytest.importorskip("docutils.nodes")
    utils = pytest.importorskip("docutils.utils")
    document = utils.new_document("a page")
    section = nodes.section("", nodes.title("", "Deep"), nodes.container("", nodes.paragraph("", "Deeper, 1 min")))
    section[1]["classes"] = ["deeper"]
    section += nodes.paragraph("", "below")
    document += [section, nodes.container("", nodes.paragraph("", "another"), classes=["facts"])]
    part("folds").fold(None, document, "a page")
    opened, title, minutes, below, closed = section.children
    assert opened.astext() == '<details class="deeper"><summary>' and title.astext() == "Deep"
    assert minutes.astext() == '<span class="minutes">Deeper, 1 min</span></summary>'
    assert below.astext() == "below" and closed.astext() == "</details>"
    assert len(document.children) == 2 and document[1].astext() == "another"


def test_files_that_are_the_same_keep_their_time(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, changed in ((old, "1"), (new, "2")):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "same.md").write_text("same", encoding="utf-8")
        (folder / "changed.md").write_text(changed, encoding="utf-8")
    (old / "gone.md").write_text("gone", encoding="utf-8")
    os.utime(old / "sub" / "same.md", (1, 1))
    part("folder").Folder(old).become(new)
    assert (old / "sub" / "same.md").stat().st_mtime == 1
    assert (old / "changed.md").read_text(encoding="utf-8") == "2"
    assert not (old / "gone.md").exists() and not new.exists()


# --- running the lessons ---------------------------------------------------------------------------------------------


def test_the_cache_is_another_one_when_something_changes_that_a_lesson_can_see(tmp_path):
    digest = part("lessons").digest
    for name in ("minigpt/ops/gelu.py", "data/words.tsv", "benchmarks/results/x.json", "lessons/ring_worker.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1", encoding="utf-8")
    seen = {digest(tmp_path)}
    for name in ("minigpt/ops/gelu.py", "data/words.tsv", "benchmarks/results/x.json", "lessons/ring_worker.py"):
        (tmp_path / name).write_text("2", encoding="utf-8")
        seen.add(digest(tmp_path))
    (tmp_path / "minigpt" / "new.cu").write_text("", encoding="utf-8")
    seen.add(digest(tmp_path))
    assert len(seen) == 6
    for name in ("minigpt/README.md", "lessons/03_attention.py", "minigpt/app.js"):
        (tmp_path / name).write_text("not seen by a running lesson", encoding="utf-8")
    assert digest(tmp_path) in seen


FOLDED = """# %% [markdown]
# # Lesson 98: a small one

# %% [markdown] tags=["deeper"]
# ## 1. Deep

# %%
print("deep")

# %% [markdown]
# ## 2. To keep
"""

GUESSED = """# %% [markdown]
# # Lesson 98: a small one
#
# **Guess:** how much is six times seven?

# %%
print(6 * 7)

# %% [markdown] tags=["answer"]
# **42**, of course.

# %% [markdown]
# ## 1. To keep
"""

GAP = """# %% [markdown]
# # Lesson 98: a small one
#
# **Your turn:** seven times n.

# %%
from minigpt.learn import gap


def your_product(n):
    return ...


gap.judge(your_product, 6, expected=42)

# %% [markdown] tags=["answer"]
# `n * 7`: a product.
"""

LESSON = """# %% [markdown]
# # Lesson 98: a small one
#
# Reading: 5 minutes. Running: 1 to 2 seconds.

# %%
number = 6
print("six", number)

# %%
print(7 * number)
assert number == 6, "the number is six"
"""


def small_lesson(folder: Path, text: str = LESSON) -> Path:
    path = folder / "98_small.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_lesson_runs_once_and_again_when_its_code_changes_and_not_for_its_prose(tmp_path):
    lessons, notebooks = part("lessons"), part("notebooks")
    path, said = small_lesson(tmp_path), []
    done = lessons.executed([path], tmp_path / "cache", 1, said.append)
    assert notebooks.printed(done["98_small"]) == "six 6\n42\n"
    small_lesson(tmp_path, LESSON.replace("a small one", "a little one"))
    again = lessons.executed([path], tmp_path / "cache", 1, said.append)["98_small"]
    assert notebooks.printed(again) == "six 6\n42\n" and "a little one" in again.cells[0].source
    assert [line for line in said if "to run" in line] == [
        "1 lesson; to run now: 1, 1 at a time",
        "1 lesson; to run now: 0, 1 at a time",
    ]
    cache = lessons.cache_in(tmp_path / "cache")
    assert lessons.cached(cache, small_lesson(tmp_path, LESSON.replace("7 * number", "8 * number"))) is None


COUNTS = """# %% [markdown]
# # Lesson 98: a small one
#
# Reading: 5 minutes. Running: 1 to 2 seconds.

# %%
runs = []
print("a list")

# %%
runs.append(1)
print(len(runs))

# %%
print(sum(runs))
"""


def test_cells_run_again_and_what_they_showed_at_first_stays(tmp_path):
    """The second cell counts on each time. What was kept without running again is not enough where that is wanted."""
    lessons, notebooks, said = part("lessons"), part("notebooks"), []
    path = small_lesson(tmp_path, COUNTS)
    for again in (False, True, True, False):
        made = lessons.executed([path], tmp_path / "cache", 1, said.append, again)["98_small"]
        assert notebooks.printed(made) == "a list\n1\n1\n"
    assert made.metadata["minigpt"] == {"run_again": [1, 2, 3]}
    started = [line for line in said if "to run" in line]
    assert started == [f"1 lesson; to run now: {n}, 1 at a time" for n in (1, 1, 0, 0)]


def test_a_cell_that_cannot_run_again_is_named(tmp_path):
    lessons = part("lessons")
    path = small_lesson(tmp_path, COUNTS.replace("runs.append(1)", "runs.append(1)\nassert runs == [1], 'once'"))
    with pytest.raises(lessons.LessonFailed, match=r"98_small.py, cell 2 \(line 11\): when it runs again: .*: once"):
        lessons.Runner(tmp_path, again=True).run(path)


DRAWS = """
# %%
from minigpt import plot
figure, axes = plot.plt.subplots()
axes.set_title("$x$")
path = plot.save(figure, "98_small.png")
runs.append(path.stat().st_mtime_ns)
assert len(set(runs[-2:])) == 1 or len(runs) == 2, "painted again"
"""


def test_a_picture_is_laid_out_again_and_not_painted(tmp_path):
    lessons = part("lessons")
    ran = lessons.Runner(tmp_path, again=True).run(small_lesson(tmp_path, COUNTS + DRAWS))
    assert any("image/png" in output.get("data", {}) for output in ran.notebook.cells[-1].outputs)
    assert ran.again == [1, 2, 3, 4] and len(ran.notebook.cells) == 5
    unreadable = DRAWS.replace('"$x$"', r'"$x$" if len(runs) == 1 else r"$\frac$"')
    with pytest.raises(lessons.LessonFailed, match="cell 4 .*: when it runs again: ValueError"):
        lessons.Runner(tmp_path, again=True).run(small_lesson(tmp_path, COUNTS + unreadable))


def test_a_gap_runs_again_with_its_answer_which_must_be_right(tmp_path):
    lessons = part("lessons")
    ran = lessons.Runner(tmp_path, again=True).run(small_lesson(tmp_path, GAP))
    assert ran.notebook.cells[1].outputs[0].text == f"your_product: {gap.OPEN}\n", "the page shows it open"
    assert "return ..." in ran.notebook.cells[1].source
    with pytest.raises(lessons.LessonFailed, match=r"cell 1 .*the judge says: your_product: not yet"):
        lessons.Runner(tmp_path, again=True).run(small_lesson(tmp_path, GAP.replace("`n * 7`", "`n + 7`")))


DEEPER = """# %% [markdown]
# # Lesson 98: a small one
#
# Reading: 5 minutes. Running: 1 to 2 seconds.

# %%
import numpy as np
from minigpt.models.gpt2 import GPT2, GPT2Config
model = GPT2(GPT2Config(vocab_size=9, n_positions=4, n_embd=4, n_layer=1, n_head=1), seed=0)
draw, given, size, rows = np.random.default_rng(0), np.zeros(3), 4, []
def area():
    return size * size
print("drawn")

# %% [markdown] tags=["deeper"]
# ## 1. Deeper

# %%
{deeper}

# %% [markdown]
# ## 2. Not deeper

# %%
for row in rows:
    print(row)
print(draw.normal() + given.sum(), {core}, area(), model)
"""
TOUCHED = {  # (a deeper part, what the core takes): what it has done
    ("made = 7", "made"): "makes made",
    ("draw.normal()", "1"): "changes draw",
    ("given[0] = 1", "1"): "changes given",
    ("size = 5", "1"): "changes size",
    ("rows.append(1)", "1"): "changes rows",
    ("def area(): return 7", "1"): "changes area",
    ("model.h[0].mlp.c_fc.weight.data[0] = 1", "1"): "changes model",
    ("model.h[0].mlp.c_fc.weight.grad = 1", "1"): None,
    ("made, row, other = given + 1, 3, np.random.default_rng(1).normal()", "len('made')"): None,
}


@pytest.mark.parametrize("given", TOUCHED, ids=lambda given: given[0])
def test_a_deeper_part_changes_nothing_that_the_core_takes(given, tmp_path):
    lessons, (deeper, core) = part("lessons"), given
    path = small_lesson(tmp_path, DEEPER.format(deeper=deeper, core=core))
    runner = lessons.Runner(tmp_path, again=True)
    if TOUCHED[given] is None:
        assert [cell.get("execution_count") for cell in runner.run(path).notebook.cells] == [None, 1, None, 2, None, 3]
        return
    with pytest.raises(lessons.LessonFailed, match=f"cell 4 .*: the deeper part before it {TOUCHED[given]}, which"):
        runner.run(path)


def test_a_cell_that_takes_long_does_not_run_again(tmp_path, monkeypatch):
    lessons = part("lessons")
    monkeypatch.setattr(lessons, "LONG", -1.0)
    assert lessons.Runner(tmp_path, again=True).run(small_lesson(tmp_path, COUNTS)).again == []


def test_what_a_kernel_sends_in_pieces_is_one_output_without_warnings():
    lessons, v4 = part("lessons"), part("nbformat").v4
    streams = [v4.new_output("stream", name=name, text=text) for name, text in (("stdout", "a:"), ("stdout", " b\n"))]
    warning = v4.new_output("stream", name="stderr", text="/home/me/tqdm/auto.py: a warning")
    picture = v4.new_output("display_data", data={"image/png": "0"})
    last = v4.new_output("stream", name="stdout", text="c\n")
    made = lessons.as_shown([*streams[:1], warning, *streams[1:], picture, last])
    assert [output.get("text", "picture") for output in made] == ["a: b\n", "picture", "c\n"]


def old_site(folder: Path) -> None:
    """A built site, which a new one may replace."""
    folder.mkdir()
    (folder / "index.html").write_text("the old site", encoding="utf-8")
    (folder / part("build").MARK).write_text("", encoding="utf-8")


def test_lessons_write_their_pictures_beside_the_cache_and_import_what_lies_beside_them(tmp_path):
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "beside_it.py").write_text("number = 7", encoding="utf-8")
    code = LESSON + "import beside_it\nfrom pathlib import Path\nPath(f'{beside_it.number}.txt').touch()\n"
    part("lessons").executed([small_lesson(tmp_path / "lessons", code)], tmp_path / "cache", 1, lambda text: None)
    assert (tmp_path / "cache" / "drawn" / "7.txt").exists()
    assert not (tmp_path / "lessons" / "7.txt").exists()


def test_only_old_caches_are_removed(tmp_path):
    lessons = part("lessons")
    others = ["mine", "drawn", "0123456789abc", "0123456789ab.txt"]
    for age, name in enumerate([*others, *(f"{number:012x}" for number in range(4))]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (age, age))
    lessons.cache_in(tmp_path)
    kept = [lessons.digest(), "000000000002", "000000000003"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, *kept])


def test_a_lesson_that_fails_stops_the_build_and_its_cell_is_named(tmp_path, monkeypatch, capsys):
    build, lessons = part("build"), part("lessons")
    path = small_lesson(tmp_path, LESSON.replace("number == 6", "number == 5"))
    monkeypatch.setattr(lessons, "files", lambda numbers: [path])
    old_site(tmp_path / "site")
    status = build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path / "work")])
    said = capsys.readouterr().err
    assert status == 1
    assert said == "site: 98_small.py, cell 2 (line 11): AssertionError: the number is six\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["98_small.py", "site", "work"]
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == "the old site"


def test_a_page_that_is_not_right_leaves_the_old_site(tmp_path, monkeypatch, capsys):
    build, lessons = part("build"), part("lessons")
    path = small_lesson(tmp_path)
    monkeypatch.setattr(lessons, "files", lambda numbers: [path])
    monkeypatch.setattr(lessons, "executed", lambda *_: {"98_small": lessons.read(path)})

    def write_sources(notebooks, source, language, plots):
        source.mkdir(parents=True)
        (source / "index.md").write_text("# A page\n\n[gone](no_such_page.md)\n", encoding="utf-8")

    monkeypatch.setattr(build, "write_sources", write_sources)
    old_site(tmp_path / "site")
    status = build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path / "work")])
    said = capsys.readouterr().err
    assert status == 2
    assert "no_such_page.md" in said and said.splitlines()[-1].startswith("site: Sphinx warns about the pages in ")
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == "the old site"


def test_of_a_few_lessons_the_warnings_are_counted_and_not_shown(tmp_path, capsys):
    build = part("build")
    part("lessons")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "index.md").write_text("# A page\n\n[gone](no_such_page.md)\n", encoding="utf-8")
    few = build.options(["--only", "98", "--jobs", "1"])
    assert build.make_pages(tmp_path / "source", tmp_path / "html", tmp_path / "doctrees", "en", few) == 1
    assert "WARNING" not in capsys.readouterr().err


def test_a_wrong_number_or_a_missing_library_is_one_line_and_status_2(monkeypatch, capsys):
    build = part("build")
    part("lessons")
    assert build.main(["--only", "99"]) == 2
    assert capsys.readouterr().err == "site: there is no lesson '99': give two digits, such as 03\n"
    monkeypatch.setattr(build, "NEEDED", ("no_such_library",))
    assert build.main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("site: no_such_library: not installed.") and '".[site]"' in said
    assert said.count("\n") == 1


def nothing_runs(monkeypatch, build) -> None:
    """Lessons that would run are a failure of the test."""
    monkeypatch.setattr(part("lessons"), "executed", lambda *_: pytest.fail("the lessons have run"))


@pytest.mark.parametrize("name", ["thesis.txt", "index.html"])
def test_a_folder_that_was_not_written_here_is_not_replaced(name, tmp_path, monkeypatch, capsys):
    build = part("build")
    nothing_runs(monkeypatch, build)
    (tmp_path / name).write_text("mine", encoding="utf-8")
    assert build.main(["--out", str(tmp_path), "--work", str(tmp_path / "work")]) == 2
    said = capsys.readouterr().err
    assert "is not empty, and has no built-by-minigpt.txt" in said and said.count("\n") == 1
    assert build.main(["--out", str(tmp_path / name), "--work", str(tmp_path / "work")]) == 2
    assert "is a file: give a folder to --out" in capsys.readouterr().err
    assert build.main(["--out", str(tmp_path / "site"), "--jobs", "0"]) == 2
    assert capsys.readouterr().err.startswith("site: jobs is 0")
    assert build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path / "site" / "work")]) == 2
    assert "which the new site replaces" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_written_is_found_before_lessons_run(tmp_path, monkeypatch, capsys):
    build = part("build")
    nothing_runs(monkeypatch, build)
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    for given in (["--work", str(tmp_path / "mine.txt")], ["--out", str(tmp_path / "mine.txt" / "site")]):
        work = ["--work", str(tmp_path / "work")] if "--work" not in given else ["--out", str(tmp_path / "site")]
        assert build.main([*given, *work]) == 2
        said = capsys.readouterr().err
        assert said.startswith("site: ") and "mine.txt" in said and said.count("\n") == 1


def test_an_interrupted_build_is_one_line_and_status_130(tmp_path, monkeypatch, capsys):
    build = part("build")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(part("lessons"), "executed", interrupted)
    assert build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path / "work")]) == 130
    assert capsys.readouterr().err == "site: interrupted; what has run is kept\n"
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_an_interruption_that_sphinx_catches_is_one_all_the_same(tmp_path, monkeypatch):
    build = part("build")
    part("lessons")

    def main(words):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return 2

    monkeypatch.setattr("sphinx.cmd.build.main", main)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        build.make_pages(tmp_path, tmp_path, tmp_path, "en", build.options([]))
    assert signal.getsignal(signal.SIGINT) is handler


def test_builds_with_the_same_work_folder_exclude_each_other(tmp_path, monkeypatch, capsys):
    build, filelock = part("build"), part("filelock")
    monkeypatch.setattr(build, "check_extra", lambda: None)
    monkeypatch.setattr(build, "build", lambda settings, clock: pytest.fail("it was built"))
    with filelock.FileLock(tmp_path / "lock"):
        for only in ([], ["--only", "05"]):
            assert build.main(["--out", str(tmp_path / "site"), "--work", str(tmp_path), *only]) == 2
            assert capsys.readouterr().err.startswith(f"site: another build uses {tmp_path}")


def test_the_new_site_takes_the_place_of_the_old_one_and_neighbours_stay(tmp_path):
    build, out = part("build"), tmp_path / "site"
    for name in ("site", "site.new", "site.old"):
        old_site(tmp_path / name)
    with build.beside(out) as new:
        new.mkdir()
        (new / "new.html").write_text("new", encoding="utf-8")
        build.replace(new, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "site.new", "site.old"]
    assert [path.name for path in out.iterdir()] == ["new.html"]
    assert (tmp_path / "site.old" / "index.html").exists() and (tmp_path / "site.new" / "index.html").exists()
    with build.beside(tmp_path / "a" / "b" / "site") as new:
        assert new.parent.parent == tmp_path / "a" / "b"
    with build.beside(out) as new, pytest.raises(part("minigpt.errors").InputError, match="has no built-by-minigpt"):
        new.mkdir()
        build.replace(new, out)
    assert [path.name for path in out.iterdir()] == ["new.html"]


# --- the built site --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """The folder of a built site: that of MINIGPT_SITE, or built now, once for all tests of a process."""
    if named := os.environ.get("MINIGPT_SITE"):
        assert (Path(named) / "index.html").is_file(), f"MINIGPT_SITE is {named}: it holds no built site"
        return Path(named)
    part("lessons")
    out = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, str(SITE / "build.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


N = r"([\d.,]+)"  # a time, or a speed, that the lesson measures: it is not compared
MEASURED = {  # for a lesson: its lines that hold such numbers; all else in them is compared
    "10": [rf"50 merges, (?:all words counted again|only the words with the pair) +{N} s"],
    "12": [rf"2 texts of 60 tokens: ours {N} s, the library {N} s"],
    "17": [
        rf"a small model is added up in {N} microseconds",
        rf"124,439,808 parameters, 498 MB, built in {N} s",
        rf"a prompt of 64 tokens: +{N} ms",
        rf"one token more: +{N} ms",
        rf"to add up all weights: +{N} ms",
        rf" +[18] +{N} ms +{N} ms",
        r" +(?:128|256|384|512|640|768|896|1024) +(\d+\.\d\d) +(\d+\.\d)",
        rf"twice the text, without: {N} times by clock, 4\.7 by formula",
    ],
    "18": [
        rf" *[\d,]+ positions: +{N} ms, in tiles +{N} ms",
    ],
    "20": [
        rf" *10*(?:,000)* +{N} µs +[\d,]+ µs",
        rf"the processor is done before two launches for up to {N} numbers",
        rf"(?:clock stopped )?after the (?:launches|work): +{N} s, \d+ products made",
        rf" *(?:12|2) ms +5 ms +\d+ ms +{N} ms +\d+ ms",
        rf" *(?:8,192|64) rows, (?:reference|fast) +{N} +[\d.]+",
    ],
    "23": [
        "batch +(?:32|2)" + rf" +{N}" * 4,
        "batch +(?:32|2)" + rf" +{N}" * 4 + "%",
        "milliseconds" + rf" +{N}" * 6,
        "  for a row" + rf" +{N}" * 6,
    ],
}


def comparable(text: str, number: str) -> list[str]:
    """The lines of an output, without empty ones, those that name files of pictures, and measured times."""
    lines = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("picture: "):
            lines.append(masked(line.rstrip(), number))
    return lines


def masked(line: str, number: str) -> str:
    """The line with a # for each group of the pattern of a measured line that fits it."""
    for pattern in MEASURED.get(number, []):
        if found := re.fullmatch(pattern, line):
            for group in range(len(found.groups()), 0, -1):
                line = line[: found.start(group)] + "#" + line[found.end(group) :]
            return re.sub(r" +", " ", line)
    return line


def test_only_a_measured_number_is_masked():
    assert masked(" 12 ms     5 ms         101 ms     102 ms           136 ms", "20").split() == [
        "12", "ms", "5", "ms", "101", "ms", "#", "ms", "136", "ms",
    ]  # fmt: skip
    assert masked("loss 3.5 after 12 ms", "20") == "loss 3.5 after 12 ms"
    assert masked("one token more:        183 ms", "17") == masked("one token more:         97 ms", "17")
    assert masked("one token more:        183 ms", "12") == "one token more:        183 ms"
    assert comparable("picture: a.png\n\n  1 \n", "00") == ["  1"]


@pytest.mark.slow
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_page_of_a_lesson_shows_what_its_script_prints(path, built, tmp_path, tmp_path_factory):
    soup = part("bs4").BeautifulSoup((built / "lessons" / f"{path.stem}.html").read_text("utf-8"), "html.parser")
    shown = "\n".join(pre.get_text() for pre in soup.select(".cell_output .output.stream pre"))
    notebook = json.loads((built / "notebooks" / f"{path.stem}.ipynb").read_text(encoding="utf-8"))
    kept = "".join(
        "".join(output["text"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream" and output["name"] == "stdout"
    )
    done = run_once(path, tmp_path, tmp_path_factory)
    assert done.returncode == 0, done.stderr[-3000:]
    output = done.stdout
    for pattern in MEASURED.get(path.name[:2], []):
        assert re.search(f"^{pattern}$", output, re.MULTILINE), f"no line is {pattern}: it need not be masked"
    printed = comparable(output, path.name[:2])
    assert comparable(shown, path.name[:2]) == printed
    assert comparable(kept, path.name[:2]) == printed


@pytest.mark.slow
def test_the_site_has_every_page(built):
    names = [f"lessons/{path.stem}.html" for path in LESSONS]
    names += [f"notebooks/{path.stem}.ipynb" for path in LESSONS]
    names += [f"teaching/{path.stem}.html" for path in (ROOT / "lessons" / "teaching").glob("[0-9]*.md")]
    names += [f"ko/lessons/{path.stem}.html" for path in (ROOT / "lessons" / "ko").glob("[0-9]*.md")]
    names += ["index.html", "glossary.html", "book.html", "search.html", "package.html", "lessons/index.html"]
    assert [name for name in names if not (built / name).is_file()] == []


@pytest.mark.slow
def test_the_book_holds_every_lesson_and_no_name_twice(built):
    soup = part("bs4").BeautifulSoup((built / "book.html").read_text(encoding="utf-8"), "html.parser")
    assert [section["id"] for section in soup.select("section.chapter")] == [path.stem for path in LESSONS]
    names = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(names) == len(set(names))
    inside = [tag["href"][1:] for tag in soup.find_all("a", href=True) if tag["href"].startswith("#")]
    assert set(inside) <= set(names)
