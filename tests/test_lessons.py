"""Every lesson runs from any folder, every exercise is handed out unsolved, and the README says what is true."""

import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lesson_notebooks import executed
from lesson_runs import environment, is_of_site, run, run_once

import minigpt
from minigpt.cli.main import parser
from minigpt.errors import InputError
from minigpt.learn.cells import cells, core, deeper_parts
from minigpt.learn.judging import check_file

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
EXERCISES = sorted((ROOT / "lessons" / "exercises").glob("*.py"))
QUICK = ("06",)  # of a few seconds; the others are slow tests
QUICK_CORES = ("03", "09")  # some of the cores; the others are slow tests


def parameters():
    for path in LESSONS:
        slow = [] if path.name[:2] in QUICK else [pytest.mark.slow]
        yield pytest.param(path, id=path.stem, marks=slow)


@pytest.mark.parametrize("path", list(parameters()))
def test_a_lesson_runs_and_every_check_is_happy(path, tmp_path, tmp_path_factory):
    done = run_once(path, tmp_path, tmp_path_factory)  # tests/test_site.py compares it with the page of the lesson
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith(f"lesson {path.name[:2]}: every check is happy")
    if is_of_site(path):
        return  # tests/test_lesson_form.py looks for its pictures
    pictures = list((ROOT / "lessons" / "figures").glob(f"{path.name[:2]}_*.png"))
    assert any(file.stat().st_mtime >= done.began - 2 for file in pictures), "a lesson saves a picture"
    assert not done.left, "a lesson leaves nothing where it was started"


@pytest.fixture
def long_lesson(tmp_path, monkeypatch):
    """Makes a lesson of this code that says it computes for 40 seconds; the site has run it with these words."""

    def make(code: str = "print('done')\n", least: int = 40, **words: str) -> Path:
        path = tmp_path / "99_long.py"
        path.write_text(f"# Reading: 9 minutes. Running: {least} to 99 seconds.\n{code}", encoding="utf-8")
        outputs = [{"output_type": "stream", "name": name, "text": [text]} for name, text in words.items()]
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        notebook = tmp_path / "notebooks" / "99_long.ipynb"
        notebook.write_text(json.dumps({"cells": [{}, {"outputs": outputs}]}), encoding="utf-8")
        monkeypatch.setenv("MINIGPT_SITE", str(tmp_path))
        return path

    return make


def test_a_long_lesson_is_what_the_site_has_run(long_lesson, tmp_path, monkeypatch):
    done = run_once(long_lesson(stdout="done by the site\n"), tmp_path, None)
    assert (done.returncode, done.stdout, done.left) == (0, "done by the site\n", [])
    assert run_once(long_lesson(stderr="a.py:3: UserWarning: no\n"), tmp_path, None).returncode == 1
    assert not is_of_site(long_lesson(least=4))
    path = long_lesson()
    monkeypatch.delenv("MINIGPT_SITE")
    assert not is_of_site(path)


@pytest.mark.parametrize("code", ["%matplotlib inline\n", "get_ipython()\n", "from IPython import display\n"])
def test_a_lesson_that_only_a_notebook_could_run_is_no_script(code, long_lesson, tmp_path):
    with pytest.raises((SyntaxError, AssertionError)):
        run_once(long_lesson(code), tmp_path, None)


def test_the_table_names_every_lesson():
    text = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[`(\w+\.py)`\]", text, re.MULTILINE)
    assert named == [path.name for path in LESSONS]  # all of them, in their order


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_the_readme_and_the_korean_edition_say_the_same_of_its_times(path):
    """Seconds to run are a range: on a quick machine, and on one that takes two and a half times as long."""
    head = " ".join(cells(path)[0].prose.split())
    times = r"Reading: (?:(\d+) minutes for the core, )?(\d+) minutes(?: for all of it)?\. Running: (\d+) to (\d+) s"
    kept, reading, least, most = re.search(times, head).groups()
    least, most = int(least), int(most)
    assert 1.5 <= most / least <= 4 and most <= 240
    rows = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8").splitlines()
    row = next(line for line in rows if line.startswith(f"| [`{path.name}`]"))
    said = f"{kept} of {reading}" if kept else reading
    assert f"| {said} min / {least} to {most} s |" in row
    korean = ROOT / "lessons" / "ko" / f"{path.stem}.md"
    if korean.exists():
        said = f"핵심 {kept}분, 전체 {reading}분" if kept else f"{reading}분"
        assert f"읽기: {said}. 실행: {least}~{most}초" in korean.read_text(encoding="utf-8")


def begins_the_lesson(path: Path) -> bool:
    """Has the core no code after the first deeper part but the last line? Then who runs the lesson has run its core."""
    found = cells(path)
    first = found[deeper_parts(found)[0].start]
    later = [cell.source for cell in core(found) if cell.is_code and cell.line > first.line]
    return later == [f'print("lesson {path.name[:2]}: every check is happy")']


def with_a_core() -> list:
    """The lessons that have deeper parts, in the middle of them too; most are slow tests."""
    found = [path for path in LESSONS if deeper_parts(cells(path)) and not begins_the_lesson(path)]
    quick = [path for path in found if path.name[:2] in QUICK_CORES]
    return [*quick, *later([path for path in found if path not in quick])]


def test_a_core_that_begins_its_lesson_is_known():
    begins = {path.name[:2]: begins_the_lesson(path) for path in LESSONS if deeper_parts(cells(path))}
    assert begins["38"] and not begins["27"] and not begins["31"], "31 has one cell of code more"


def later(paths: list[Path]) -> list:
    """The same as parameters of tests that run with `-m slow`."""
    return [pytest.param(path, marks=pytest.mark.slow) for path in paths]


@pytest.mark.parametrize("path", with_a_core(), ids=lambda path: path.stem)
def test_a_core_runs_alone(path, tmp_path):
    """In a fresh process, without the deeper parts: no name of theirs is missing, and no warning comes.

    Of a long lesson the builder of the site has compared, before and after each deeper part, what the core takes: where
    it ran this lesson, and with --again.
    """
    if is_of_site(path):
        executed(path, tmp_path)
        return
    file = shutil.copy(path, tmp_path)
    for beside in path.parent.glob("[!0-9]*.py"):
        shutil.copy(beside, tmp_path)
    command = [sys.executable, "-W", "error", "-m", "minigpt", "lesson", file, "--core"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("left out: ") == len(deeper_parts(cells(path)))
    assert f"\nlesson {path.name[:2]}: every check is happy" in done.stdout
    assert re.search(r"\d+ of \d+ minutes were the core$", done.stdout.strip())


@pytest.mark.parametrize("path", [*EXERCISES[:3], *later(EXERCISES[3:])], ids=lambda path: path.stem)
def test_an_exercise_is_handed_out_unsolved(path, tmp_path):
    """A stub says that it returns nothing yet; a bug is found, by the library's judge or by the file's own."""
    done = run(path, tmp_path)
    assert done.returncode == 1, "python FILE of what is not solved"
    assert "Traceback" not in done.stderr, done.stderr
    said = done.stdout + done.stderr
    if "check_file" in path.read_text(encoding="utf-8"):
        assert "are not right" in said.splitlines()[-1]  # the same as `minigpt check FILE`
    else:
        with pytest.raises(InputError, match="it judges itself: run `python "):
            check_file.run(path)
    assert said.strip()
    if "bug" not in path.stem:
        assert "returns nothing" in said, said


def test_every_lesson_has_exercises():
    numbers = {path.name[:2] for path in EXERCISES}
    assert numbers == {path.name[:2] for path in LESSONS}


def test_the_readme_has_the_two_commands_that_are_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- commands -->(.*?)<!-- end -->", text, re.DOTALL).group(1)
    commands = [line.strip() for line in block.splitlines() if line.startswith("    ")]
    assert len(commands) == 2
    assert commands[0].endswith("python lessons/03_attention.py") and commands[1].endswith("python -m pytest -n auto")


def commands():
    """Every command line of minigpt that a README or a lesson shows, with each of the choices a|b|c in turn."""
    for path in (ROOT / "README.md", ROOT / "minigpt" / "README.md", ROOT / "lessons" / "README.md", *LESSONS):
        text = re.sub(r"\\\n#? +", "", path.read_text(encoding="utf-8"))  # a line that goes on in the next one
        for line in re.findall(r"^#? {4,}(?:mpirun -n \d |.* && )?(minigpt .+)", text, re.MULTILINE):
            line = re.split(r"\s+#|\s{3,}", line)[0]
            for words in map(shlex.split, line.split(" && ")):
                choices = [word.split("|") for word in words if "|" in word] or [[""]]
                for choice in choices[0]:
                    yield [choice if "|" in word else word for word in words][1:]


def test_every_command_of_the_readmes_can_be_read():
    given = list(commands())
    assert len(given) > 28
    for words in given:
        if words[0] == "help":  # not a command of the parser: tests/test_cli.py tries it
            continue
        if words[:1] == ["tokenizer"] and words[1:] in (["train"], ["encode"], ["decode"], ["list"]):
            words = [*words, "--help"]  # shown without what they need
        try:
            parser(words).parse_args(words)
        except SystemExit as error:
            assert error.code == 0, words


def code_in(name: str) -> list[str]:
    """The pieces of Python that a README shows and that run as they stand."""
    text = (ROOT / name).read_text(encoding="utf-8")
    pieces = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [piece for piece in pieces if "my_layernorm" not in piece]


def test_the_ten_lines_of_the_readme_run(capsys):
    exec(compile(code_in("README.md")[0], "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert out.count("happy") == 3 and "'x_hat'" in out


def test_the_model_of_the_readme_runs(capsys):
    exec(compile(code_in("minigpt/README.md")[0], "README.md", "exec"), {})
    loss, shape = capsys.readouterr().out.splitlines()
    assert float(loss.split(" ")[0]) == pytest.approx(math.log(50), abs=0.1) and shape == "(2, 8)"


def test_the_public_face_of_the_readme_is_that_of_the_package():
    text = (ROOT / "minigpt" / "README.md").read_text(encoding="utf-8")
    table = text[text.index("## The public face") :]
    rows = [line for line in table[: table.index("```python")].splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+)(?:\(\w+\))?`", " ".join(row.split("|")[1] for row in rows))
    assert sorted(named) == sorted(minigpt.__all__)
    assert all(getattr(minigpt, name) is not None for name in named)
    folders = re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)
    there = {path.parent.name for path in Path(minigpt.__file__).parent.glob("*/__init__.py")}
    assert set(folders) == there
