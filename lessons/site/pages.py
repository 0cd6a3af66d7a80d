"""The sources of the pages that come from lessons and READMEs, for either language."""

import re
import shutil
from pathlib import Path

import machines
import nbformat
import notebooks
import operations
from course import LESSONS, ROOT, WORDS, by_part, times_of, title_of
from links import FENCED, PAGES, Site, rewrite
from sources import operations_of

import lessons
from minigpt.learn.classroom.language import read_words

EXERCISES = LESSONS / "exercises"
OTHERS = ("operations", "api", "benchmarks")  # folders of pages that other files write
TERMS = "\n## Terms\n"
EXPLORED = ("03", "04", "05", "06", "07", "08", "16")  # the explorer computes what these lessons are about


def write(executed: dict, folder: Path, language: str) -> None:
    """All sources of one edition, in this folder, but for the index. executed: {"03_attention": its notebook}."""
    site = Site(folder, docs_of(executed, language), language)
    for name, notebook in executed.items():
        write_lesson(name, notebook, site)
    write_glossary(site)
    if language == "ko":
        write_korean_course(executed, site)
        return
    for path, doc in english_readmes().items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if doc == "lessons/index":
            text = course(text)
        if re.match(r"teaching/\d", doc):
            text = text.replace("# Lesson", "# Teaching lesson", 1)  # the lesson itself has the title
        put(folder / f"{doc}.md", rewrite(one_title(text), path, doc, site))


def course(text: str) -> str:
    """lessons/README.md as a page: the table leads to lessons by their subjects, and the terms have a page."""
    numbered = re.sub(r"^\| \[`(\d\d)_\w+\.py`\](\(\S+\)) \| (.*?) \|", r"| \1 | [\3]\2 |", text, flags=re.MULTILINE)
    above = numbered.replace("| file |", "| lesson |", 1).partition(TERMS)[0]
    return above + "\n## Terms\n\nAll terms are in the [glossary](../glossary.md).\n"


def english_readmes() -> dict[str, str]:
    """{a Markdown file of the repository: its page} of all that become pages, without the README at the top."""
    found = {path: doc for path, doc in PAGES.items() if path != "README.md" and (ROOT / path).exists()}
    for path in sorted((ROOT / "lessons" / "teaching").glob("[0-9][0-9].md")):
        found[f"lessons/teaching/{path.name}"] = f"teaching/{path.stem}"
    return found


def one_title(text: str) -> str:
    """A text with several titles keeps the first; the others, and what is below them, become sections of it."""
    parts = FENCED.split(text)
    if sum(len(re.findall("^# ", part, re.MULTILINE)) for part in parts[::2]) < 2:
        return text
    for number in range(0, len(parts), 2):
        parts[number] = re.sub("^#", "##", parts[number], flags=re.MULTILINE)
    return "".join(parts).replace("##", "#", 1)


def docs_of(executed: dict, language: str) -> frozenset[str]:
    """The pages of an edition that can be linked to."""
    found = {f"lessons/{name}" for name in executed} | {"index", "glossary", "lessons/index"}
    return frozenset(found if language == "ko" else found | set(english_readmes().values()))


def put(path: Path, text: str) -> None:
    """Write a source, and its folder where it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


# --- lessons ---------------------------------------------------------------------------------------------------------


def write_lesson(name: str, notebook, site: Site) -> None:
    """The source of a lesson's page, its notebook to download, and copies of its exercises."""
    downloads = site.folder / "_extra" / "notebooks"
    downloads.mkdir(parents=True, exist_ok=True)
    words = WORDS[site.language]
    nbformat.write(notebooks.to_take_home(notebook, words), downloads / f"{name}.ipynb")
    for file in notebooks.exercises(name[:2], EXERCISES):
        (site.folder / "_extra" / "exercises").mkdir(exist_ok=True)
        shutil.copyfile(EXERCISES / file, site.folder / "_extra" / "exercises" / file)
    page = f"lessons/{name}"
    made = notebooks.page(notebook, facts(name, site), words)
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = rewrite(cell.source, f"lessons/{name}.py", page, site)
    machines.add_to(made, name, site.language)
    (site.folder / "lessons").mkdir(exist_ok=True)
    nbformat.write(made, site.folder / f"{page}.ipynb")


def facts(name: str, site: Site) -> str:
    """Markdown for the place below a lesson's title: its minutes, its files, where to go from here."""
    words, number = WORDS[site.language], name[:2]
    times = times_of((LESSONS / f"{name}.py").read_text(encoding="utf-8"))
    reading = words["read"] if times.core == times.reading else words["read_core"]
    line = [
        reading.format(core=times.core, minutes=times.reading),
        words["run"].format(least=times.least, most=times.most),
    ]
    line.append(f'<a href="../notebooks/{name}.ipynb" download>{words["notebook"]}</a>')
    if (ROOT / "lessons" / "teaching" / f"{number}.md").exists():
        way = f"../teaching/{number}.md"
        ko_way = f'<a href="../../teaching/{number}.html" hreflang="en">{words["teachers"]}</a>'
        line.append(ko_way if site.language == "ko" else f"[{words['teachers']}]({way})")
    if site.language == "ko":
        line.append(f'<a href="../../lessons/{name}.html" hreflang="en" lang="en">{words["other"]}</a>')
    elif (ROOT / "lessons" / "ko" / f"{name}.md").exists():
        line.append(f'<a href="../ko/lessons/{name}.html" hreflang="ko" lang="ko">{words["other"]}</a>')
    blocks = [" · ".join(line), exercises_line(number, words)]
    if number in EXPLORED:
        blocks.append(explorer_link(site.language))
    if there := operation_links(name, site):
        blocks.append(f"{words['operations']} {', '.join(there)}")
    return ":::{container} facts\n" + "\n\n".join(blocks) + "\n:::"


def explorer_link(language: str) -> str:
    """A link from the page of a lesson to the explorer, which both editions share."""
    top = "../../" if language == "ko" else "../"
    return f'<a href="{top}explorer.html?lang={language}">{WORDS[language]["explorer_link"]}</a>'


def exercises_line(number: str, words: dict) -> str:
    """Markdown that says how to get the exercises of a lesson, with links to their files."""
    files = notebooks.exercises(number, EXERCISES)
    links = ", ".join(f'<a href="../exercises/{file}" download>{file}</a>' for file in files)
    return f"{words['exercises'].format(number=number)} {words['files']} {links}"


def operation_links(name: str, site: Site) -> list[str]:
    """Links to the pages of the operations that a lesson is about."""
    found = operations_of(name)
    if site.language == "en":
        return [operations.linked(operation) for operation in found]
    return [f'<a href="../../operations/{operation}.html" hreflang="en">{operation}</a>' for operation in found]


# --- the course, the glossary, the index -----------------------------------------------------------------------------


def glossary_rows() -> list[list[str]]:
    """[English, Korean, first lesson, one sentence] of each term of lessons/README.md."""
    table = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8").partition(TERMS)[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in row.strip().strip("|").split(" | ")] for row in rows]


def write_glossary(site: Site) -> None:
    """glossary.md: the terms with links to the lessons that use them first, in alphabetical order."""
    in_korean = read_words("glossary_ko.toml")["sentences"]
    lesson_names = {path.name[:2]: path.stem for path in lessons.files()}
    lines = []
    for english, korean, first, sentence in sorted(glossary_rows(), key=lambda row: row[0].strip("`").lower()):
        path = f"lessons/{lesson_names[first]}.py"
        link = rewrite(f"[{first}]({path})", "README.md", "glossary", site)
        columns = [english, korean, link, sentence]
        if site.language == "ko":
            columns = [korean, english, link, in_korean[english]]
        lines.append("| " + " | ".join(columns) + " |")
    if site.language == "ko":
        lines.sort()
    words = WORDS[site.language]
    columns = words["glossary_columns"]
    table = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *lines]
    parts = [f"# {words['glossary']}", words["glossary_text"], "\n".join(table)]
    put(site.folder / "glossary.md", "\n\n".join(parts) + "\n")


def write_korean_course(executed: dict, site: Site) -> None:
    """lessons/index.md of the Korean edition: the lessons that it has, and those that are in English."""
    words = WORDS["ko"]
    lines = [f"# {words['course']}", "", f"## {words['lessons_in_korean']}", ""]
    lines += [f"* [{name[:2]} {title_in(notebook)}]({name}.ipynb)" for name, notebook in executed.items()]
    others = [path for path in lessons.files() if path.stem not in executed]
    lines += ["", f"## {words['lessons_in_english']}", ""]
    for path in others:
        title = title_of(path.read_text(encoding="utf-8"))
        lines.append(f'* <a href="../../lessons/{path.stem}.html" hreflang="en" lang="en">{path.name[:2]} {title}</a>')
    put(site.folder / "lessons" / "index.md", "\n".join(lines) + "\n")


def tree(caption: str, entries: list[str]) -> str:
    """A part of the navigation."""
    return "\n".join(["```{toctree}", f":caption: {caption}", ":hidden:", "", *entries, "```", ""])


def lesson_trees(executed: dict, words: dict) -> list[str]:
    """The navigation of the lessons, a part for each part of the course."""
    found = []
    for part, names in by_part([*executed], lambda name: int(name[:2])):
        entries = [f"{name[:2]} {title_in(executed[name])} <lessons/{name}>" for name in names]
        found.append(tree(words["parts"][part], entries))
    return found


def title_in(notebook) -> str:
    """The title of a lesson from its notebook, in either language."""
    return title_of(notebook.cells[0].source)


def write_index(executed: dict, folder: Path, language: str) -> None:
    """index.md: the navigation of all pages, and a plain page for readers where there is no landing page."""
    words = WORDS[language]
    parts = ["# minigpt", "", f"* [{words['course']}](lessons/index.md)", f"* [{words['glossary']}](glossary.md)"]
    parts += [f'* <a href="book.html">{words["book"]}</a>', ""]
    parts.append(tree(words["course"], [f"{words['course']} <lessons/index>", f"{words['glossary']} <glossary>"]))
    parts += lesson_trees(executed, words)
    if language == "en":
        reference = [f"{name}/index" for name in OTHERS if (folder / name / "index.md").exists()]
        if "benchmarks/index" not in reference:
            reference.append("benchmarks/scripts")
        parts.append(tree(words["reference"], [*reference, "package", "data/index"]))
        parts.append(tree(words["teaching"], ["For teachers <teaching/index>"]))
        add_tree(folder / "data" / "index.md", ["reference"])
        pages = sorted(path.stem for path in (folder / "teaching").glob("[0-9][0-9].md"))
        other = ["twelve_weeks", "five_days", "korean_edition", "/sandbox"]
        others = [name for name in other if (folder / "teaching" / f"{name}.md").exists() or name[0] == "/"]
        add_tree(folder / "teaching" / "index.md", [*others, *pages])
        if "benchmarks/index" in reference:
            add_tree(folder / "benchmarks" / "index.md", ["scripts"])
    put(folder / "index.md", "\n".join(parts))


def add_tree(path: Path, entries: list[str]) -> None:
    """Put pages below this page in the navigation."""
    below = "\n".join(["```{toctree}", ":hidden:", "", *entries, "```", ""])
    put(path, path.read_text(encoding="utf-8") + "\n" + below)
