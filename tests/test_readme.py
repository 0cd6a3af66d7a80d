"""The README: its commands run one after the other as they stand, and what it says is counted."""

import builtins
import re
import shlex
import sys
from pathlib import Path

import pytest

from minigpt import ops
from minigpt.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = (ROOT / "minigpt" / "README.md").read_text(encoding="utf-8")  # every command

# How a command is made short enough for a test: by these words after it, and in no other way.
SHORTER = {
    "train": ["--steps", "2", "--eval-every", "2"],
    "finetune": ["--epochs", "1"],
}
FEW_STORIES = ["--data", "stories:500"]  # for a training that names no other text
NEEDS_MORE = ("mpirun", "cuda")  # MPI, a GPU
NEEDS_MINUTES = ("check",)  # alone: every operation and every model
ENDS_UNSOLVED = ["check", "my-lessons/exercises/06_layernorm.py"]  # status 1: the exercise is handed out unsolved
NOT_BEGUN = ["learn", "check", "03"]  # the same
NEEDS_FILES = (  # of the reader, of a class, or of KLUE
    ["learn", "claim"], ["learn", "grade"], ["convert", "model.gguf"], ["eval", "runs/gpt2-wos"],
    ["finetune", "runs/bert"],
)  # fmt: skip


def commands(text: str = PACKAGE) -> list[list[str]]:
    """The words after `minigpt` of every command line, in their order."""
    found = []
    for line in re.findall(r"^ {4,}(.*\bminigpt .+)", text, re.MULTILINE):
        line = re.split(r"\s+#|\s{3,}", line)[0]
        if not any(word in line for word in NEEDS_MORE) and line.startswith("minigpt "):
            found.append(shlex.split(line)[1:])
    return found


def can_run(words: list[str]) -> bool:
    with_fetched = (
        ["similar", "minilm"], ["sample", "gpt2"], ["eval", "gpt2"], ["finetune", "gpt2"], ["chat", "smollm2"],
        ["instruct", "smollm2"],
    )  # fmt: skip
    fetched = words[0] == "download" or words[:2] in with_fetched
    downloads = fetched or "--init" in words
    return not downloads and words != list(NEEDS_MINUTES) and words[:2] not in NEEDS_FILES


def test_the_commands_are_found():
    found = commands()
    assert len(found) >= 18 and sum(map(can_run, found)) >= 14
    assert ENDS_UNSOLVED in found and ["train"] in found
    assert len(commands(README)) >= 5
    for words in commands(README):
        assert words in found, "the README shows no command that the list of all commands lacks"


def shortened(words: list[str]) -> list[str]:
    more = SHORTER.get(words[0], [])
    if words[0] == "train" and "--data" not in words:
        more = [*more, *FEW_STORIES]
    return [*words, *more]


def run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as left:
        return left.code


def test_the_commands_that_train_nothing_run_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    """The reader of a lesson stops in its middle: whole lessons are run elsewhere."""
    monkeypatch.chdir(tmp_path)
    typed = iter(["", "", "", "", "q", "q"])  # a lesson is begun, and left; then its core
    monkeypatch.setattr(builtins, "input", lambda prompt: next(typed))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for words in filter(can_run, commands()):
        if words[0] in ("lesson", "lessons", "help", "info", "stories") or words == ENDS_UNSOLVED:
            assert run(words) == (1 if words == ENDS_UNSOLVED else 0), words
    out = capsys.readouterr().out
    assert "03_attention.py, cell 5 of" in out and not list(typed), "both were left"


@pytest.mark.slow
def test_all_commands_run_one_after_the_other_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in filter(can_run, commands()):
        words = shortened(words)
        expected = 1 if words in (ENDS_UNSOLVED, NOT_BEGUN) else 0
        assert run(words) == expected, (words, capsys.readouterr().err)
    assert (tmp_path / "runs" / "gpt1-stories-nano" / "model.safetensors").is_file()


def test_it_is_short_has_a_picture_and_says_for_whom():
    assert len(README.split()) <= 900
    pictures = re.findall(r"^!\[.+\]\((.+)\)$", README, re.MULTILINE) + re.findall(r'<img src="(\S+)"', README)
    sizes = [(ROOT / picture).stat().st_size for picture in pictures]
    assert len(pictures) == 4 and sum(sizes) <= 400_000
    assert README.index("![") < README.index("**For whom.**") < README.index("## ")


def test_it_counts_the_operations():
    numbers = {16: "Sixteen", 20: "Twenty", 21: "Twenty-one", 22: "Twenty-two", 23: "Twenty-three", 24: "Twenty-four"}
    assert f"**{numbers[len(ops.names)]} operations**" in README


def test_every_link_leads_to_a_file():
    for path in (ROOT / "README.md", ROOT / "lessons" / "README.md", ROOT / "minigpt" / "README.md"):
        links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
        assert [link for link in links if not (path.parent / link).exists()] == []
