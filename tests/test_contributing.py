"""CONTRIBUTING.md stays true: its map is the one that is enforced, its paths and its commands exist."""

import configparser
import re
import shlex
from pathlib import Path

from test_structure import FOLDERS

from minigpt.cli.spelling import check_spelling

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SETTINGS = configparser.ConfigParser()
SETTINGS.read(ROOT / "setup.cfg", encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", TEXT)
COMMANDS = [text for text in QUOTED if text.split()[0] in ("python", "minigpt", "ruff", "mypy", ".ci/run")]
PATHS = [text for text in QUOTED if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)+/?|[\w-]+\.(md|cfg|toml)", text)]


def test_it_is_one_page():
    assert len(TEXT.splitlines()) <= 120


def test_the_map_is_the_order_of_the_folders():
    drawn = re.findall(r"^    (\w+) {2,}\S", TEXT, re.MULTILINE)
    assert drawn == [folder for folder in FOLDERS if folder != "minigpt"]


def test_the_paths_that_it_names_exist():
    assert len(PATHS) > 60
    missing = []
    for path in PATHS:
        pattern = path.rstrip("/").replace("NAME", "*").replace("NN_name", "[0-9][0-9]_*").replace("NN", "[0-9][0-9]")
        if not any(ROOT.glob(pattern)):
            missing.append(path)
    assert missing == []
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links and all((ROOT / link).exists() for link in links)


def test_the_names_that_it_tells_stand_in_the_files_before_them():
    for name, path in (
        ("free=True", "minigpt/jobs/pretrain/settings.py"),
        ("TUNED", "minigpt/jobs/pretrain/band.py"),
        ("PretrainOptions", "minigpt/jobs/pretrain/settings.py"),
        ("COMPOSITES", "minigpt/ops/reference/__init__.py"),
        ("OF_RELATIVES", "tests/test_structure.py"),
        ("AFTER", "lessons/34_the_map.py"),
    ):
        assert f"`{name}`" in TEXT and re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))


def test_the_commands_that_it_names_exist():
    assert len(COMMANDS) >= 10
    installed = SETTINGS["options.extras_require"]["dev"].split()
    markers = [line.partition(":")[0] for line in SETTINGS["tool:pytest"]["markers"].split("\n")]
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "minigpt":
            check_spelling(words[1:])
        elif words[0] in ("ruff", "mypy"):
            assert words[0] in installed, command
        elif words[:3] == ["python", "-m", "pytest"]:
            assert "-m" not in words[3:] or words[words.index("-m", 3) + 1] in markers, command
        else:
            script = (ROOT / words[words[0] == "python"]).read_text(encoding="utf-8")
            assert all(word in script for word in words[2:] if word.startswith("--")), command


def test_the_extras_that_it_names_exist():
    named = {extra for several in re.findall(r"\.\[([\w,]+)\]", TEXT) for extra in several.split(",")}
    assert {"test", "dev"} <= named <= set(SETTINGS["options.extras_require"])


def test_the_readme_leads_here():
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
