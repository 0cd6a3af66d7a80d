"""Every lesson has the form of a lesson: short cells that speak and can be run again, pictures early, plain words."""

import re
import tomllib
from pathlib import Path

import pytest
from lesson_notebooks import executed

from minigpt.learn.cells import cells, core, deeper_parts, minutes_of

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))

BANNED = r"\b(hears?|heard|hearing|nobody|whoever|wish(?:es|ed)?|asks?|asked|asking|guests?|dust)\b"
QUOTED = r"\"[^\"]*\"|`[^`]*`|\*[^*]*\*"  # what somebody says, code, and examples may use any word

LONG_CORE = ("00", "08", "13")  # 30 minutes: chain rule and cache; the whole model; two losses that meet

each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def code(path):
    return [cell for cell in cells(path) if cell.is_code]


def lines_of_code(path):
    return sum(1 for cell in code(path) for line in cell.lines if line.strip())


def prose(path):
    return [cell for cell in cells(path) if not cell.is_code]


# --- what can be seen without running --------------------------------------------------------------------------------


@each_lesson
def test_cells_are_short_and_lines_fit_on_a_slide(path):
    long = [f"{path.name}:{cell.line} has {len(cell.lines)} lines" for cell in code(path) if len(cell.lines) > 25]
    wide = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if len(line) > 100:
            wide.append(f"{path.name}:{number} has {len(line)} columns")
    assert not long + wide
    assert lines_of_code(path) <= 450


def words_and_lines(found):
    """How many words of prose, lines of code and cells of code these cells have."""
    code = [cell for cell in found if cell.is_code and not cell.has_gap]  # two minutes to write a gap count apart
    words = sum(len(cell.prose.split()) for cell in found if not cell.is_code)
    read = [line for cell in code if not draws_alone(cell) for line in cell.lines if line.strip()]
    return words, len(read), len(code)


def draws_alone(cell):
    """Does this cell of code save a picture, and neither define, print nor assert anything?"""
    return "plot.save(" in cell.source and not re.search(r"\b(assert|def|print)\b", cell.source)


@each_lesson
def test_the_code_of_a_drawing_is_folded_and_no_other(path):
    for cell in code(path):
        assert cell.only_draws == draws_alone(cell), f"{path.name}, the cell at line {cell.line}"


@each_lesson
def test_a_lesson_says_how_long_it_takes_to_read(path):
    """Core and all of it: 130 words and 8 lines of code a minute, and half a minute for what a cell of code shows."""
    found = cells(path)
    head = found[0].prose
    both = re.search(r"^Reading: (\d+) minutes for the core, (\d+) minutes for all of it\.", head, re.MULTILINE)
    for said, part in zip(map(int, both.groups()), (core(found), found), strict=True):
        words, lines, shown = words_and_lines(part)
        minutes = words / 130 + lines / 8 + shown / 2
        assert said % 5 == 0 and abs(said - minutes) <= 0.1 * minutes, f"it says {said}, not {minutes:.1f} minutes"
    assert int(both[1]) <= (30 if path.name[:2] in LONG_CORE else 25)


@each_lesson
def test_deeper_parts_of_an_hour_are_read_in_two_sittings(path):
    """The head of a lesson says where to pause, if its deeper parts take 55 minutes or more; no sitting takes 45."""
    found = cells(path)
    deeper = [number for part in deeper_parts(found) for number in part]
    pause = re.search(r"two\s+sittings,\s+with\s+a\s+pause\s+before\s+section (\d+)\.", found[0].prose)
    whole = sum(minutes_of(found[number]) for number in deeper)
    assert bool(pause) == (whole >= 55), f"{path.name}: {whole:.1f} minutes"
    if pause:
        (second,) = (number for number, cell in enumerate(found) if cell.title.startswith(f"{pause[1]}. "))
        first = sum(minutes_of(found[number]) for number in deeper if number < second)
        assert 0 < max(first, whole - first) < 45, f"{path.name}: {first:.1f} and {whole - first:.1f} minutes"


@each_lesson
def test_a_lesson_has_a_core_that_is_a_lesson(path):
    """It says why, shows a picture, asserts, and ends with three sentences to keep and the exercises."""
    found = cells(path)
    assert deeper_parts(found)
    kept = core(found)
    titles = [cell.title for cell in kept if cell.level == 2]
    assert titles[0].startswith("1. ")
    assert re.sub(r"^\d+\. ", "", titles[-2]) == "To keep" and titles[-1].endswith(". Exercises")
    (last,) = (cell for cell in kept if cell.title == titles[-2])
    assert len(re.findall(r"^- ", last.prose, re.MULTILINE)) == 3
    source = "\n".join(cell.source for cell in kept if cell.is_code)
    assert "plot.save(" in source and "assert " in source
    assert kept[-1] is found[-1], "the last cell of a lesson is in its core"


@each_lesson
def test_a_deeper_part_is_a_whole_section(path):
    """So a page can fold it, and a notebook collapses the same cells: no heading inside a cell ends it."""
    found = cells(path)
    for part in deeper_parts(found):
        level = found[part.start].level
        for number in part:
            if not found[number].is_code:
                text = found[number].prose.partition("\n")[2] if number == part.start else found[number].prose
                assert not re.search(rf"^#{{1,{level}}} ", text, re.MULTILINE), f"the cell at line {found[number].line}"


@each_lesson
def test_a_guess_is_one_question_and_its_answer_follows_the_code(path):
    """The last paragraph before a cell of code, one question in one or two lines; then the code, then the answer."""
    found = cells(path)
    guesses = [number for number, cell in enumerate(found) if "**Guess:**" in cell.source]
    to_gaps = [number + 1 for number, cell in enumerate(found) if cell.has_gap]
    answers = [number for number, cell in enumerate(found) if cell.is_answer]
    assert sorted([number + 2 for number in guesses] + to_gaps) == answers
    for number in guesses:
        last = found[number].prose.split("\n\n")[-1]
        where = f"{path.name}, the cell at line {found[number].line}"
        assert last.startswith("**Guess:** ") and last.endswith("?") and last.count("?") == 1, where
        assert last.count("\n") <= 1 and found[number + 1].is_code, where
        assert not found[number + 2].is_code and not found[number + 2].level, where
    assert any("**Guess:**" in cell.source for cell in core(found))


@each_lesson
def test_a_gap_is_one_line_and_its_answer_follows(path):
    """The last paragraph before it says what to write; it runs open; that the answer fits, its notebook has judged."""
    found = cells(path)
    gaps = [number for number, cell in enumerate(found) if cell.has_gap]
    for number in gaps:
        where = f"{path.name}, the cell at line {found[number].line}"
        last = found[number - 1].prose.split("\n\n")[-1]
        assert last.startswith("**Your turn:** ") and last.count("\n") <= 3, where
        assert len(found[number].lines) <= 16 and "assert" not in found[number].source, where
        filled = found[number].filled(found[number + 1])
        compile(filled, where, "exec")
    assert sum("**Your turn:**" in cell.prose for cell in prose(path)) == len(gaps)
    assert any(cell.has_gap for cell in core(found))


@each_lesson
def test_the_first_picture_stands_where_the_idea_starts(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    pictures = [number for number, line in enumerate(lines) if "plot.save(" in line]
    names = re.findall(r"plot\.save\(\s*[^,]+,\s*\"(\w+)\.png\"", path.read_text(encoding="utf-8"))
    assert len(pictures) >= 2 and len(set(names)) >= 2
    assert pictures[0] <= len(lines) / 3, f"the first picture stands at line {pictures[0]} of {len(lines)}"
    assert all(name.startswith(path.name[:2] + "_") for name in names)


@each_lesson
def test_the_words_are_those_of_a_textbook(path):
    found = []
    for cell in prose(path):
        for word in re.findall(BANNED, re.sub(QUOTED, "", cell.prose), re.IGNORECASE):
            found.append(f"{path.name}, the cell at line {cell.line}: {word}")
    comments = re.findall(r"#(.*)", "\n".join(cell.source for cell in code(path)))
    found += re.findall(BANNED, re.sub(QUOTED, "", "\n".join(comments)), re.IGNORECASE)
    assert not found


@each_lesson
def test_formulas_are_tex(path):
    """Where there is pencil work, there are formulas between lines of $$, and each is closed."""
    text = "\n".join(cell.prose for cell in prose(path))
    lines = [line for line in text.splitlines() if "$$" in line]
    assert all(line.strip() == "$$" for line in lines) and len(lines) % 2 == 0
    if re.search(r"^## \d+\. Collapse", text, re.MULTILINE):
        assert lines, "the section on the pencil work has no formula"


@each_lesson
def test_what_is_asserted_is_said(path):
    silent = []
    for cell in code(path):
        for statement in re.findall(r"^ *assert .*(?:\n {4,}.*)*?(?=\n\S|\n *assert|\Z)", cell.source, re.MULTILINE):
            if not re.search(r", *\(?\s*f?[\"']", statement):
                silent.append(f"{path.name}, the cell at line {cell.line}: {statement.strip()[:60]}")
    assert not silent, "an assert without a message"


ONE_THREAD = "set_threads(1)  # small arrays: a second thread would only be in the way"
COMPUTES = re.compile(
    r"^(import numpy|from minigpt import .*\b(GPT[12]|gradcheck|models|ops)\b|from minigpt\.(models|nn|ops)\b"
    r"|from minigpt\.learn import .*\bsmall_world\b)",
    re.MULTILINE,
)


@each_lesson
def test_a_lesson_that_computes_uses_one_thread(path):
    """Threads of BLAS wait awake: with two of them a lesson took up to eleven times the processor time.

    The line is the same everywhere. It stands at the top level of a cell before any cell that could multiply.
    """
    computing = [cell for cell in code(path) if COMPUTES.search(cell.source)]
    saying = [cell for cell in code(path) if "set_threads" in cell.source]
    (cell,) = saying
    assert cell.line <= computing[0].line, f"set_threads stands after the cell at line {computing[0].line}"
    assert cell.lines.count(ONE_THREAD) == 1
    before = cell.source.partition(ONE_THREAD)[0]
    assert not re.search(r"^(?!import |from |$)", before, re.MULTILINE), "only imports stand before it"


QUOTE = re.compile(r"^    # ((?:minigpt|benchmarks|tests)/[\w/.]+)\n((?:    .*\n|\n)+)", re.MULTILINE)


def quotes(path):
    """(file, the lines quoted from it) of a lesson."""
    for cell in prose(path):
        for name, block in QUOTE.findall(cell.prose + "\n"):
            yield name, [line.strip() for line in block.splitlines() if line.strip()]


@each_lesson
def test_quotes_of_the_library_are_true(path):
    for name, quoted in quotes(path):
        own = [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line.strip()]
        at = 0
        for part in "\n".join(quoted).split("\n...\n"):
            part = part.splitlines()
            starts = [i for i in range(at, len(own)) if own[i : i + len(part)] == part]
            assert starts, f"{path.name} quotes {name}, where these lines do not stand:\n" + "\n".join(part)
            at = starts[0] + len(part)


@each_lesson
def test_what_a_lesson_leaves_open_has_hints_and_an_answer(path):
    """Section "exercises" is a numbered list; what names no file of exercises/ has hints and an answer."""
    given = tomllib.loads((ROOT / "lessons" / "exercises" / "hints.toml").read_text(encoding="utf-8"))
    text = "\n".join(cell.prose for cell in prose(path))
    (section,) = re.findall(r"^## \d+\. Exercises$(.*)", text, re.DOTALL | re.MULTILINE)
    number = path.name[:2]
    for item, text in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", section, re.DOTALL | re.MULTILINE):
        named = re.search(r"exercises/(\w+)\.py", text)
        key = named.group(1) if named else f"{number}.{item}"
        assert 1 <= len(given[key]["hints"]) <= 3 and all(given[key]["hints"]), key
        assert named or given[key]["answer"].strip(), key


# --- what is seen when it runs ---------------------------------------------------------------------------------------


@pytest.mark.slow
@each_lesson
def test_a_lesson_is_a_notebook_whose_cells_show_something_and_can_run_again(path, tmp_path):
    """Each cell has run, and a quick one once more after the end, where a reader may go back."""
    notebook = executed(path, tmp_path)
    pictures = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        streams = [output for output in cell.outputs if output.output_type == "stream"]
        printed = "".join(output.text for output in streams if output.name == "stdout")  # not warnings of a library
        shown = sum("image/png" in output.get("data", {}) for output in cell.outputs)
        name = f"the cell that begins with {cell.source.splitlines()[0]!r}"
        assert printed.strip() or shown, f"{name} shows nothing"
        wide = [line for line in printed.splitlines() if len(line) > 100 and not line.startswith("picture: ")]
        assert not wide, f"{name} prints a line of {max(map(len, wide))} columns"
        pictures += shown
    assert pictures >= 2, f"{pictures} pictures are shown"
    quick = notebook.metadata["minigpt"]["run_again"]
    assert len(quick) > len(code(path)) / 2, "most cells are quick, and have run again"
