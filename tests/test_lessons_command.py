"""`minigpt lessons FOLDER`: the lessons for a reader who has only the installed package."""

import configparser
import errno
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from minigpt.cli import main
from minigpt.learn import lessons

ROOT = Path(__file__).parent.parent


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_lesson_every_exercise_and_their_data_are_copied(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert main(["lessons", str(folder)]) == 0
    said = capsys.readouterr().out
    written = files_below(folder)
    for path in [*(ROOT / "lessons").glob("*.py"), *(ROOT / "lessons").glob("exercises/*.py")]:
        assert path.relative_to(ROOT / "lessons").as_posix() in written
    assert {"README.md", "data/stories_sample.txt", "benchmarks/results/transfer.json"} <= written
    assert {f"data/explorer/gpt{i}/model.safetensors" for i in (1, 2)} <= written
    lessons = len(list((ROOT / "lessons").glob("[0-9][0-9]_*.py")))
    exercises = len(list((ROOT / "lessons").glob("exercises/*.py")))
    assert f"{lessons} lessons, {exercises} exercises and what they need: {len(written)} files" in said
    assert said.splitlines()[-1] == f"now: python {folder / '03_attention.py'}"


def test_what_a_reader_has_written_is_never_overwritten(tmp_path, capsys):
    (tmp_path / "exercises").mkdir()
    answer = tmp_path / "exercises" / "06_layernorm.py"
    answer.write_text("# my answer\n", encoding="utf-8")
    assert main(["lessons", str(tmp_path)]) == 0
    assert "1 files were there already" in capsys.readouterr().out
    assert answer.read_text(encoding="utf-8") == "# my answer\n"
    before = files_below(tmp_path)
    assert main(["lessons", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"{len(before)} files were there already and stay as they are" in said and "lessons," not in said
    assert files_below(tmp_path) == before


def test_a_copy_that_fails_leaves_no_half_file(tmp_path, capsys, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["lessons", str(tmp_path)]) == 2
    assert "the disk is full" in capsys.readouterr().err and files_below(tmp_path) == set()


def test_a_file_where_the_folder_should_be(tmp_path, capsys):
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    assert main(["lessons", str(tmp_path / "notes")]) == 2
    assert "is a file: give the name of a folder" in capsys.readouterr().err


def test_the_wheel_puts_each_file_where_it_is_in_the_repository():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    for folder, patterns in config["options.data_files"].items():
        for pattern in patterns.split():
            assert f"{folder}/" == lessons.SHARED + pattern.rpartition("/")[0] + "/"
            assert list(ROOT.glob(pattern)), f"{pattern} names no file"


def test_an_installation_without_lessons_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lessons, "__file__", str(tmp_path / "minigpt" / "learn" / "lessons.py"))
    monkeypatch.setattr(lessons, "DISTRIBUTION", "a-name-that-is-not-installed")
    assert main(["lessons", str(tmp_path / "mine")]) == 2
    assert "has no lessons: install it again" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
def test_a_wheel_carries_the_lessons_and_they_run(tmp_path):
    """Build, install and copy; then a lesson and the judge of an exercise, all outside the repository."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words, status: int = 0) -> str:
        done = subprocess.run(
            [str(word) for word in words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "-q", ROOT, "--no-deps", "-w", "wheels")
    wheel = next((tmp_path / "wheels").glob("minigpt_by_hand-*.whl"))
    venv.create(tmp_path / "fresh", symlinks=os.name != "nt")
    scripts = tmp_path / "fresh" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    home = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    others = [path for path in sys.path if path.endswith("site-packages")]
    (home / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")  # NumPy and the rest of this Python
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--ignore-installed", wheel)
    assert "fresh" in run(python, "-c", "import minigpt; print(minigpt.__file__)")
    said = run(scripts / "minigpt", "lessons", "mine")
    counted = len(list((ROOT / "lessons").glob("[0-9][0-9]_*.py")))
    assert f"{counted} lessons, " in said
    assert run(python, "mine/06_layernorm.py").splitlines()[-1].startswith("lesson 06: every check is happy")
    assert "returns nothing" in run(scripts / "minigpt", "check", "mine/exercises/06_layernorm.py", status=1)
    assert "page.html: " in run(scripts / "minigpt", "explore", "-o", "page.html")
    assert "minigptExplorer" in (tmp_path / "page.html").read_text(encoding="utf-8")
