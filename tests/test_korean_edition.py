"""The Korean edition of lessons 00 to 17 and of the README: complete, as new as its original, and true to it."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from korean_edition import (
    lost_emphasis,
    not_korean,
    other_formulas,
    other_numbers,
    other_operations,
    other_terms,
    wrong_particles,
)

from minigpt.errors import InputError

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "lessons" / "ko" / "edition.py"


def loaded():
    """lessons/ko/edition.py as a module: its folder is no package."""
    spec = importlib.util.spec_from_file_location("korean_edition_reader", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


edition = loaded()
LESSONS = edition.edition()
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
README, KOREAN_README = (path.read_text(encoding="utf-8") for path in (edition.README, edition.KOREAN_README))
JUDGES = {
    "formulas and code": other_formulas,
    "operations": other_operations,
    "numbers": other_numbers,
    "Korean": lambda english, korean: not_korean(korean),
    "emphasis": lambda english, korean: lost_emphasis(korean),
    "terms": other_terms,
    "particles": lambda english, korean: wrong_particles(korean),
}
each_judge = pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)


def pairs(lesson: Path) -> list[tuple[int, str, str]]:
    """(number, English, Korean) of each cell of prose of a lesson."""
    english = edition.originals(lesson)
    return [(piece.number, english[piece.number], piece.text) for piece in edition.read(edition.korean_of(lesson))]


# --- it is complete --------------------------------------------------------------------------------------------------


def test_it_holds_lessons_00_to_17():
    assert [path.name[:2] for path in LESSONS] == [f"{n:02d}" for n in range(18)]
    files = {path.stem for path in (ROOT / "lessons" / "ko").glob("[0-9]*.md")}
    assert files == {path.stem for path in LESSONS}


@each_lesson
def test_both_editions_have_the_same_cells_and_none_is_older_than_its_original(lesson):
    english = edition.originals(lesson)
    assert len(english) >= 20
    assert not edition.complaints(english, edition.read(edition.korean_of(lesson)))


def test_no_paragraph_of_the_readme_is_older_than_its_original():
    assert len(edition.paragraphs(README)) >= 20
    assert not edition.readme_complaints(README, KOREAN_README)


@each_lesson
def test_cells_are_those_of_the_notebook(lesson):
    jupytext = pytest.importorskip("jupytext")
    notebook = jupytext.read(lesson, fmt="py:percent")
    prose = {n: cell.source.strip() for n, cell in enumerate(notebook.cells) if cell.cell_type == "markdown"}
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert prose == edition.originals(lesson)
    translated = edition.in_korean(notebook, edition.korean_of(lesson))
    assert [cell.source for cell in translated.cells if cell.cell_type == "code"] == code
    assert all(re.search("[가-힣]", translated.cells[number].source) for number in prose)


# --- it says the same ------------------------------------------------------------------------------------------------


@each_judge
@each_lesson
def test_a_lesson_is_true_to_its_original(lesson, judge):
    faults = {number: judge(english, korean) for number, english, korean in pairs(lesson)}
    assert not {number: found for number, found in faults.items() if found}


@each_judge
def test_the_readme_is_true_to_its_original(judge):
    english, korean = edition.paragraphs(README), edition.paragraphs(KOREAN_README)
    both = [pair for pair in zip(english, korean, strict=True) if not edition.is_copied(pair[0])]
    languages = [pair for pair in both if "(README.ko.md)" in pair[0]]  # the line with a link to the other language
    assert len(languages) == 1
    faults = [judge(mine, other) for mine, other in both if (mine, other) not in languages]
    assert not [found for found in faults if found]


@each_lesson
def test_a_heading_stays_a_heading_and_a_table_a_table(lesson):
    for number, english, korean in pairs(lesson):
        for form in (r"^#+ ", r"^\|", r"^- ", r"(?<=\n\n)1\. "):
            mine, others = (re.findall(form, text, re.MULTILINE) for text in (english, korean))
            assert mine == others, f"cell {number}: {form}"
        if "\n\n1. " in english:
            mine, others = (len(re.findall(r"^\d\. ", text, re.MULTILINE)) for text in (english, korean))
            assert mine == others, f"cell {number}: exercises"
    assert pairs(lesson)[0][2].startswith(f"# 레슨 {lesson.name[:2]}: ")


ENGLISH = """The **loss** of `x` is $w^2 + 1$, and 116 million numbers follow from 3.7 years.
Its gradient is 2, not u (1 - u).

| operation | value |
|---|---|

    h = w * x        the first line
"""
KOREAN = """`x`의 **손실**(loss)은 $w^2 + 1$이고, 3.7년에서 1억 1,600만 개의 수가 나옵니다.
기울기는 2이며, u (1 - u)가 아닙니다.

| 연산 | 값 |
|---|---|

    h = w * x        첫 줄
"""


def test_the_judges_accept_a_good_translation():
    for name, judge in JUDGES.items():
        assert not judge(ENGLISH, KOREAN), name


@pytest.mark.parametrize(
    ("judge", "good", "bad", "said"),
    [
        ("formulas and code", "$w^2 + 1$", "$w^2 - 1$", "formula lost: w^2+1"),
        ("formulas and code", "$w^2 + 1$", "w² + 1", "formula lost"),
        ("formulas and code", "`x`", "x", "code lost: x"),
        ("formulas and code", "연산", "`연산`", "code added: 연산"),
        ("formulas and code", "h = w * x", "h = x * w", "a block of code"),
        ("operations", "u (1 - u)", "u (1 - v)", "operation lost: 1 - u"),
        ("numbers", "3.7", "3.8", "number lost: 3.7"),
        ("numbers", "1억 1,600만", "1,600만", "number lost: 116000000"),
        ("numbers", "1억 1,600만", "1억 1,600", "number lost: 116000000"),
        ("numbers", "기울기는 2", "기울기는 2, 5", "number added: 5"),
        ("Korean", "기울기는 2이며", "The gradient is 2", "an English word: is"),
        ("Korean", "기울기는", "당신의 기울기는", "style of a textbook: 당신"),
        ("Korean", "아닙니다.", "아니에요.", "style of a textbook"),
        ("emphasis", "**손실**(loss)은", "**손실(loss)**은", "emphasis that ends before a syllable"),
        ("terms", "손실", "잃음", "loss is none of ['손실']"),
        ("terms", "기울기", "경사", "gradient is none of"),
        ("particles", "기울기는", "기울기은", "기울기은"),
        ("particles", "기울기는", "기울기이", "기울기이"),
        ("particles", "기울기는", "손실는", "손실는"),
        ("particles", "(loss)은", "(loss)는 손실를", "손실를"),
        ("particles", "`x`의", "`x`은", "x은"),
        ("particles", "`x`의", "`x`는 `dout`를", "dout를"),
        ("particles", "$w^2 + 1$이고", "$w^2$를", "제곱를"),
        ("particles", "$w^2 + 1$이고", "$w_1$는", "1는"),
        ("particles", "2이며", "2은", "2은"),
        ("particles", "2이며", "32와 10와", "10와"),
        ("particles", "2이며", "GELU은", "GELU은"),
        ("particles", "2이며", "`out`로 5 %을", "out로"),
        ("particles", "2이며", "unheardof는", "how does unheardof end?"),
    ],
)  # fmt: skip
def test_the_judges_notice(judge, good, bad, said):
    assert good in KOREAN
    faults = JUDGES[judge](ENGLISH, KOREAN.replace(good, bad))
    assert any(said in fault for fault in faults), faults


def test_a_paragraph_that_was_left_in_english_is_noticed():
    english = "Gradient descent moves each wrong logit downwards, proportionally, whatever the true probability."
    assert any("hardly Korean" in fault for fault in not_korean(f"{KOREAN}\n\n{english}"))


# --- the reader ------------------------------------------------------------------------------------------------------

CELLS = {0: "one", 2: "two"}
GOOD = f"<!-- cell 0 {edition.digest_of('one')} -->\n하나\n\n<!-- cell 2 {edition.digest_of(' two ')} -->\n둘\n\n셋\n"


def read(tmp_path: Path, text: str) -> list:
    path = tmp_path / "03_attention.md"
    path.write_text(text, encoding="utf-8")
    return edition.read(path)


def test_it_reads_cells(tmp_path):
    pieces = read(tmp_path, GOOD)
    assert [(piece.number, piece.text) for piece in pieces] == [(0, "하나"), (2, "둘\n\n셋")]
    assert not edition.complaints(CELLS, pieces)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.partition("\n\n")[0], "cell 2 is missing"),
        (lambda text: text.replace("cell 2", "cell 1"), "cell 1 is no cell of prose in the original"),
        (lambda text: text.replace(edition.digest_of("two"), "00000000"), "cell 2 is older than its original"),
        (lambda text: text.replace("하나", ""), "cell 0 is empty"),
        (lambda text: text + text, "not in the order of the original"),
    ],
)
def test_what_is_missing_superfluous_or_old_is_said(tmp_path, change, said):
    text = change(GOOD)
    assert any(said in complaint for complaint in edition.complaints(CELLS, read(tmp_path, text)))
    cells = [SimpleNamespace(cell_type=kind, source=text) for kind, text in (("markdown", "one"), ("code", "1"))]
    notebook = SimpleNamespace(cells=[*cells, SimpleNamespace(cell_type="markdown", source="two")])
    with pytest.raises(InputError, match="03_attention.md: .*cell") as error:
        edition.in_korean(notebook, tmp_path / "03_attention.md")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("prose\n" + GOOD, ":1: text above the first marker"), (GOOD + "<!-- cell x -->", "is no marker such as")],
)
def test_a_file_that_cannot_be_read(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, text)


def test_the_readme_is_compared_by_paragraph():
    english = "# A\n\ntext\n\n    code\n\n```python\nx\n\ny\n```\n"
    skeleton = edition.readme_skeleton(english)
    assert skeleton.count("<!-- of ") == 2 and not edition.readme_complaints(english, skeleton)
    assert edition.readme_complaints(english.replace("text", "new text"), skeleton) == [
        "paragraph 2 is no translation of the present original: text"
    ]
    assert len(edition.readme_complaints(english.replace("x\n", "z\n"), skeleton)) == 1
    assert "has 4 paragraphs" in edition.readme_complaints(english + "\nmore", skeleton)[-1]


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(edition, "HERE", tmp_path)
    monkeypatch.setattr(edition, "LAST", "03")
    assert edition.main(["--new", "03"]) == 0
    skeleton = capsys.readouterr().out
    assert "# Lesson 03" in skeleton
    for lesson in edition.edition():
        (tmp_path / f"{lesson.stem}.md").write_text(edition.skeleton(lesson), encoding="utf-8")
    path = tmp_path / "03_attention.md"
    path.write_text(re.sub("cell 3 [0-9a-f]{8}", "cell 3 00000000", skeleton), encoding="utf-8")
    assert edition.main([]) == 1
    assert capsys.readouterr().out == "03_attention.md: cell 3 is older than its original\n"
    assert edition.main(["--accept", "03", "3"]) == 0
    assert capsys.readouterr().out == "every cell is as new as its original\n"
    assert path.read_text(encoding="utf-8") == skeleton
    path.unlink()
    assert edition.main([]) == 1 and "03_attention.md: is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--new", "77"], "there is no lesson '77'"),
        (["--new", "../03"], "give two digits"),
        (["--accept", "03", "x"], "the second is the number of a cell"),
        (["--accept", "03", "²"], "the second is the number of a cell"),
        (["--accept", "03", "9" * 5000], "the second is the number of a cell"),
        (["--accept", "03", "2"], "has no cell 2"),
    ],
)
def test_a_wrong_command_line_is_one_line(given, said, capsys):
    assert edition.main(given) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_new_and_accept_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as ended:
        edition.main(["--new", "03", "--accept", "03", "0"])
    assert ended.value.code == 2 and "not allowed with" in capsys.readouterr().err


def damaged(path: Path, way: str) -> None:
    """Make a file that cannot be read."""
    if way == "a folder":
        path.mkdir()
    elif way == "not UTF-8":
        path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("way", ["missing", "a folder", "not UTF-8"])
@pytest.mark.parametrize("given", [[], ["--new", "README"]])
def test_an_original_that_cannot_be_read_is_one_line_and_status_2(given, way, tmp_path, monkeypatch, capsys):
    damaged(tmp_path / "README.md", way)
    monkeypatch.setattr(edition, "README", tmp_path / "README.md")
    assert edition.main(given) == 2
    error = capsys.readouterr().err
    assert "README.md" in error and error.count("\n") == 1


@pytest.mark.parametrize("way", ["a folder", "not UTF-8"])
@pytest.mark.parametrize("given", [[], ["--accept", "03", "0"]])
def test_a_translation_that_cannot_be_read_is_one_line_and_status_2(given, way, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(edition, "HERE", tmp_path)
    damaged(tmp_path / "03_attention.md", way)
    assert edition.main(given) == 2
    error = capsys.readouterr().err
    assert "03_attention.md" in error and error.count("\n") == 1


def test_a_lesson_that_is_not_utf_8_is_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    damaged(tmp_path / "03_attention.py", "not UTF-8")
    monkeypatch.setattr(edition, "LESSONS", tmp_path)
    assert edition.main(["--new", "03"]) == 2
    assert "which is not UTF-8" in capsys.readouterr().err


def test_an_interrupted_writer_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(edition, "HERE", tmp_path)
    path, lesson = tmp_path / "03_attention.md", edition.lesson_of("03")
    path.write_text(edition.skeleton(lesson), encoding="utf-8")
    before = path.read_bytes()

    def half(self, text, **options):
        self.write_bytes(text.encode()[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(KeyboardInterrupt):
        edition.accept(lesson, 0)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [path.name]


def started(*words: str, **options) -> subprocess.Popen:
    """The command in a process of its own, which finds no other package than that of this clone."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.Popen(command, env=environment, cwd=SCRIPT.anchor, stderr=subprocess.PIPE, text=True, **options)


def test_the_command_uses_the_package_of_its_own_clone(tmp_path):
    (tmp_path / "minigpt").mkdir()
    (tmp_path / "minigpt" / "__init__.py").write_text("raise SystemExit('another package')", encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--new", "03"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0 and "# Lesson 03" in done.stdout, done.stderr


def test_a_reader_that_has_gone_is_no_traceback():
    with started("--new", "03", stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line_and_status_2():
    with open("/dev/full", "w", encoding="utf-8") as full, started("--new", "03", stdout=full) as process:
        assert process.stderr.read() == "the output: No space left on device\n"
        assert process.wait() == 2
