"""The folder for teachers: its times are those of the lessons, its figures and numbers too; slides; the template."""

import base64
import configparser
import importlib.util
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest
from lesson_runs import run_once

from minigpt.cli.main import parser
from minigpt.learn.cells import cells, deeper_parts
from minigpt.learn.classroom.course import lessons
from minigpt.learn.lessons import find_lessons

ROOT = Path(__file__).parent.parent
TEACHING = ROOT / "lessons" / "teaching"
NUMBERS = sorted(lessons())
EXERCISES = {path.name for path in (ROOT / "lessons" / "exercises").glob("*.py")}
A_PAGE = 60  # lines of a page for a lesson
WORDS = 620  # on it: with 11 points they fill a sheet of A4


def load(name):
    spec = importlib.util.spec_from_file_location(f"teaching_{name}", TEACHING / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


timing, slides = load("timing"), load("slides")
each_lesson = pytest.mark.parametrize("number", NUMBERS)


def page(number):
    return (TEACHING / f"{number}.md").read_text(encoding="utf-8")


def written_by_hand(number):
    return timing.BLOCK.sub("", page(number))


def part(number, heading):
    """The lines of a page below one of its headings."""
    return re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", page(number), re.MULTILINE | re.DOTALL)[1]


# --- the pages -------------------------------------------------------------------------------------------------------


def test_nothing_that_the_script_writes_is_out_of_date():
    late = [path.name for path in timing.out_of_date()]
    assert not late, f"run: python lessons/teaching/timing.py ({', '.join(late)})"


@each_lesson
def test_the_minutes_are_those_of_the_lesson(number):
    """Measured here once more, in another way: the lines of the file, from heading to heading."""
    found = cells(lessons()[number].path)
    parts = deeper_parts(found)
    words, lines_a_minute, shown = 130, 8, 0.5
    of_section = {}
    title = ""
    for place, cell in enumerate(found):
        column = any(place in part for part in parts)
        for line in [] if cell.only_draws or cell.has_gap else cell.lines:
            heading = None if cell.is_code else re.fullmatch(r"# ## (\d+\. .*)", line)
            title = heading[1] if heading else title
            spent = (
                bool(line.strip()) / lines_a_minute if cell.is_code else len(line.replace("#", " # ").split()) / words
            )
            of_section.setdefault(title, [0, 0])[column] += spent
        of_section[title][column] += shown * (cell.is_code and not cell.has_gap)
    of_section.pop("")
    rows = re.findall(r"^\| (\d+\. .*?) \| (\d+) \| (\d+) \|$", page(number), re.MULTILINE)
    assert [row[0] for row in rows] == list(of_section)
    for title, *minutes in rows:
        for said, spent in zip(minutes, of_section[title], strict=True):
            assert abs(int(said) - spent) <= 2, title
    sums = [sum(int(row[column]) for row in rows) for column in (1, 2)]
    lesson = lessons()[number]
    (total,) = re.findall(r"^\| to read it .*core, (\d+) for all\) \| (\d+) \| (\d+) \|$", page(number), re.MULTILINE)
    assert list(map(int, total)) == [lesson.minutes, *sums]
    assert abs(sums[0] - lesson.core) <= 0.12 * lesson.core
    assert abs(sum(sums) - lesson.minutes) <= 0.11 * lesson.minutes


def test_whole_minutes_keep_the_sum():
    assert timing.whole_minutes([1.5, 1.5, 1.4, 0.6]) == [2, 1, 1, 1]
    assert timing.whole_minutes([0.4, 0.4, 0.4]) == [1, 0, 0]
    assert timing.whole_minutes([]) == []


def test_a_page_without_the_two_marks_is_refused():
    with pytest.raises(ValueError, match="page of lesson 03 has no lines <!-- timing -->"):
        timing.with_timing("# Lesson 03\n", lessons()["03"])


def test_the_line_of_a_figure_that_is_gone_goes_away():
    kept = "- `03_order.png`: here.\n", "- `03_mask.png`: too.\n"
    gone = "- `03_gone.png` (project this one): a line\n  and another.\n"
    before, after = f"## Figures\n\n{kept[0]}{gone}{kept[1]}", f"## Figures\n\n{kept[0]}{kept[1]}"
    assert timing.with_figures(before, lessons()["03"]) == after


def test_check_mode_changes_nothing_and_says_what_is_late(monkeypatch, capsys, tmp_path):
    late = tmp_path / "03.md"
    late.write_text("old\n", encoding="utf-8")
    monkeypatch.setattr(timing, "out_of_date", lambda: {late: "new\n"})
    assert timing.main(["--check"]) == 1
    assert "03.md: is out of date" in capsys.readouterr().out and late.read_text(encoding="utf-8") == "old\n"
    assert timing.main([]) == 0 and late.read_text(encoding="utf-8") == "new\n"
    assert timing.main(["--chek"]) == 2


@each_lesson
def test_a_page_fits_on_a_sheet_and_has_its_parts(number):
    text = page(number)
    assert text.splitlines()[0] == f"# Lesson {number}: {lessons()[number].title}"
    by_hand = written_by_hand(number)
    assert len(by_hand.splitlines()) <= A_PAGE and len(by_hand.split()) <= WORDS
    assert max(map(len, by_hand.splitlines())) <= 160
    asked = re.sub(r"\n +", " ", part(number, "Questions for the class"))
    questions = re.findall(r"^\d\. \*\*[^*]*(?:\*\w+\*[^*]*)*\?[^*]*\*\* \S", asked, re.MULTILINE)
    assert 3 <= len(questions) <= 5, "each question stands in bold, with its answer behind it"
    assert len(re.findall(r"^- ", part(number, "Mistakes to expect"), re.MULTILINE)) >= 3


@each_lesson
def test_the_figures_are_those_of_the_lesson_and_one_is_to_be_projected(number):
    found = slides.slides_of(number)
    saved = re.findall(r"plot\.save\([^\"]*\"(\w+\.png)\"", lessons()[number].path.read_text(encoding="utf-8"))
    assert [slide.name for slide in found] == list(dict.fromkeys(saved))
    assert all(slide.caption for slide in found), [slide.name for slide in found if not slide.caption]
    assert sum(slide.is_first_choice for slide in found) == 1
    named = re.findall(r"`(\w+\.png)`", page(number))
    assert sorted(named) == sorted(set(saved)), "each figure has one line"


@each_lesson
def test_the_files_that_a_page_names_exist(number):
    for name in re.findall(r"`(\d\d_\w+\.py)`", written_by_hand(number)):
        assert name in EXERCISES and name.startswith(number), name


@each_lesson
def test_numbers_of_three_digits_stand_in_the_lesson(number):
    """A number that a page quotes is the lesson's: it stands in its file, its exercises, or the table of lessons."""
    sources = [lessons()[number].path, *(ROOT / "lessons" / "exercises").glob(f"{number}_*.py")]
    sources += [ROOT / "lessons" / "exercises" / "hints.toml", ROOT / "lessons" / "README.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    known = {plain(found) for found in re.findall(r"\d[\d,_]*(?:\.\d+)?", text)}
    for found in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", re.sub(r"`[^`]*`", "", written_by_hand(number))):
        if len(plain(found).replace(".", "")) >= 3:
            assert plain(found) in known, f"{number}.md says {found}, and the lesson does not"


def plain(number):
    return number.replace(",", "").replace("_", "").rstrip(".")


# --- the plans -------------------------------------------------------------------------------------------------------


def tables(name):
    """The tables of a plan: for each the rows of its lessons as (number, minutes …), and its row of sums."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", (TEACHING / name).read_text(encoding="utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()[2:]]
        of_lessons = [(row[0][:2], *map(int, row[1:])) for row in rows if row[0][:2].isdigit()]
        found.append((of_lessons, [int(cell) for cell in rows[-1][1:]]))
    return found


@pytest.mark.parametrize("name", timing.PLANS)
def test_the_times_of_a_plan_add_up(name):
    *parts, (nothing, total) = tables(name)
    assert not nothing and len(parts) == (13 if name.startswith("twelve") else 5)
    for rows, sums in parts:
        for number, reading, *_ in rows:
            assert reading == lessons()[number].core, f"lesson {number}"
        assert sums == [sum(row[i] for row in rows) for i in range(1, len(rows[0]))]
    assert total == [sum(sums[i] for _, sums in parts) for i in range(len(total))]


def test_twelve_weeks_have_all_lessons_in_order_and_two_meetings_of_75_minutes():
    *weeks, _ = tables("twelve_weeks.md")
    assert [row[0] for rows, _ in weeks for row in rows] == NUMBERS
    for _, (reading, discussion, in_class, at_home) in weeks:
        assert discussion + in_class == 150
        assert 190 <= reading + at_home <= 285, "about four hours at home"


def test_a_day_has_six_hours_and_no_lesson_comes_before_what_it_needs():
    *days, _ = tables("five_days.md")
    for _, sums in days:
        assert 330 <= sum(sums) <= 360
    order = [row[0] for rows, _ in days for row in rows]
    text = (TEACHING / "five_days.md").read_text(encoding="utf-8")
    assert len(order) == len(set(order)) == 15 and "15 lessons" in text
    for place, number in enumerate(order):
        missing = needed(number) - set(order[:place])
        assert missing <= ({"10"} if number == "11" else set()), f"lesson {number} needs {missing}"
    assert "the toy of lesson 10" in text, "what stands in for lesson 10"


def needed(number):
    """The lessons that the head of a lesson names: "Before it: lessons 02, 08 and 11"; "06 to 09" is a range."""
    head = " ".join(cells(lessons()[number].path)[0].prose.split())
    before = re.search(r"Before it: (.*?)Papers?:", head)[1]
    found = set(re.findall(r"\b\d\d\b", before))
    for first, last in re.findall(r"(\d\d) to (\d\d)", before):
        found |= {f"{i:02}" for i in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize("name", timing.PLANS)
def test_the_exercises_of_a_plan_exist(name):
    text = (TEACHING / name).read_text(encoding="utf-8")
    for file in re.findall(r"`(\d\d_\w+\.py)`", text):
        assert file in EXERCISES, file
    keys = {exercise.key for lesson in lessons().values() for exercise in lesson.exercises if exercise.is_open}
    questions = re.findall(r"(?<![\d.])(\d\d\.\d)(?![\d.])", text)
    assert questions and set(questions) <= keys, set(questions) - keys


# --- slides ----------------------------------------------------------------------------------------------------------


class Read(HTMLParser):
    """What a file of slides has: its tags, pictures, captions, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.pictures, self.sections, self.others = [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sections += tag == "section"
        for name, value in attrs:
            if tag == "img" and name == "src":
                self.pictures.append(base64.b64decode(value.removeprefix("data:image/png;base64,"), validate=True))
            elif name in ("src", "href", "srcset", "data", "action"):
                self.others.append((tag, name, value))


@pytest.mark.parametrize("number", ["03", "16"])
def test_slides_hold_their_figures_and_load_nothing(number, tmp_path, capsys):
    figures = tmp_path / "figures"
    figures.mkdir()
    made = [slide.name for slide in slides.slides_of(number)]
    for name in made:
        (figures / name).write_bytes(b"\x89PNG of " + name.encode())
    assert slides.main([number, "--figures", str(figures), "--out", str(tmp_path / "slides")]) == 0
    path = tmp_path / "slides" / f"{number}.html"
    assert capsys.readouterr().out.strip() == str(path)
    text = path.read_text(encoding="utf-8")
    read = Read(text)
    assert read.pictures == [(figures / name).read_bytes() for name in made] and not read.others
    assert read.sections == len(made) + 1, "a title, and a page for each figure"
    assert not re.search(r"https?://|url\(|@import|fetch\(|import ", text)
    assert "ArrowRight" in text and "break-after: page" in text and "default-src 'none'" in text
    for slide in slides.slides_of(number):
        assert slides.marked(slide.caption) in text


def test_captions_become_html():
    assert slides.marked("a < b, `x & y`, **this** and *that*") == (
        "a &lt; b, <code>x &amp; y</code>, <b>this</b> and <em>that</em>"
    )


def test_what_is_missing_is_named_in_one_line(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    for words, said in (
        (["03"], "03_soft_dictionary.png is missing: run python lessons/03_attention.py first"),
        (["77"], "there is no lesson 77: give one of 00 to"),
        ([], "has no figures: run a lesson first"),
    ):
        assert slides.main([*words, "--figures", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", ["00", "06"])
def test_slides_of_a_lesson_that_has_just_run(number, tmp_path, tmp_path_factory):
    (tmp_path / "empty").mkdir()
    run = run_once(lessons()[number].path, tmp_path / "empty", tmp_path_factory)
    assert run.returncode == 0, run.stderr
    assert slides.main([number, "--out", str(tmp_path)]) == 0
    pictures = Read((tmp_path / f"{number}.html").read_text(encoding="utf-8")).pictures
    assert len(pictures) >= 4 and all(picture.startswith(b"\x89PNG\r\n") for picture in pictures)


# --- what a class gets -----------------------------------------------------------------------------------------------


def test_students_do_not_get_the_pages():
    assert not [name for name in find_lessons() if "teaching" in name]
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert not [pattern for pattern in config["options.data_files"].values() if "teaching" in pattern]


def template():
    """The template as (depth, key, value) of each line, without comments; its text is a small part of YAML."""
    found = []
    for line in (TEACHING / "github_classroom.yml").read_text(encoding="utf-8").splitlines():
        assert "\t" not in line
        line = re.sub(r"(^|\s+)#.*$", "", line)
        if line.strip():
            match = re.fullmatch(r"( *)((?:- )?)([\w-]+):(?: (.+))?", line)
            assert match, f"not a line of the kind that this file needs: {line}"
            found.append((len(match[1]) + len(match[2]), match[3], match[4]))
    return found


def test_the_template_for_classroom_has_a_command_that_ours_accepts():
    lines = template()
    assert all(depth % 2 == 0 for depth, _, _ in lines)
    assert [key for depth, key, _ in lines if depth == 0] == ["name", "on", "permissions", "env", "jobs"]
    values = {key: (value or "").strip('"') for _, key, value in lines}
    assert values["contents"] == "read" and values["runs-on"] == "ubuntu-latest"
    install, judge = [value for _, key, value in lines if key == "run"]
    assert shlex.split(install) == ["python", "-m", "pip", "install", "minigpt-by-hand @ $MINIGPT"]
    assert values["MINIGPT"].startswith("git+https://")
    words = [word.replace("$LESSON", values["LESSON"]) for word in shlex.split(judge)]
    assert words[0] == "minigpt"
    given = parser(words[1:]).parse_args(words[1:])
    assert (given.lesson, given.folder, given.json) == (values["LESSON"], ".", True)
    assert values["LESSON"] in NUMBERS
    used = [value for _, key, value in lines if key == "uses"]
    assert used and all(re.fullmatch(r"actions/[\w-]+@v\d+", value) for value in used)


@pytest.mark.parametrize("name", ["README.md", "github_classroom.yml"])
def test_commands_that_are_shown_are_accepted(name):
    text = (TEACHING / name).read_text(encoding="utf-8")
    found = re.findall(r"^(?:#)? {4,}minigpt (.+)$", text, re.MULTILINE) + re.findall(r"`minigpt ([a-z][^`]*)`", text)
    assert found
    for line in found:
        words = shlex.split(line.replace("FOLDER", "folder"))
        if words != ["learn"]:
            parser(words).parse_args(words)


def test_the_readme_counts_the_exercises_rightly():
    text = (TEACHING / "README.md").read_text(encoding="utf-8")
    exercises = [exercise for lesson in lessons().values() for exercise in lesson.exercises]
    judged = [exercise for exercise in exercises if not exercise.is_open]
    assert f"A program judges {len(judged)} of the {len(exercises)} exercises" in text
    for name in re.findall(r"\]\(([^)#]+)\)", text):
        assert (TEACHING / name).exists(), name
