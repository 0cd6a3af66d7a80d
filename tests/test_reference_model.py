"""The reference model of the lessons: found, whole, and where it is missing, a line that helps."""

import ast
import hashlib
import json
import sys
from pathlib import Path

import pytest

from minigpt import models
from minigpt.learn import reference
from minigpt.learn.cells import cells

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
INSTALLED = {"minigpt", "numpy", "matplotlib", "regex"}


@pytest.fixture
def elsewhere(monkeypatch):
    """An installation whose files are those of a dict."""
    found = {}
    monkeypatch.setattr(reference, "find_lessons", lambda: found)
    monkeypatch.delenv("MINIGPT_TRAIN", raising=False)
    return found


def test_it_is_shipped_whole():
    folder = reference.folder()
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == reference.SHA256
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert 2e6 < size < 6.1e6, "2 to 6 MB"
    model, text = models.open_both(folder)
    assert model.config.vocab_size == text.vocab_size == reference.TOKENIZER.vocab
    assert (model.config.n_layer, model.config.n_embd) == (reference.MODEL.layers, reference.MODEL.embd)


def test_its_log_is_that_of_its_command():
    rows = (reference.folder() / "loss.csv").read_text(encoding="utf-8").splitlines()
    assert int(rows[-1].split(",")[0]) == reference.MODEL.steps
    said = (reference.folder() / "README.md").read_text(encoding="utf-8")
    for name in ("layers", "heads", "embd", "context", "batch", "steps", "seed", "data"):
        assert f"--{name} {getattr(reference.MODEL, name)}" in said


def test_where_it_is_missing_a_line_says_how_to_get_it(elsewhere, capsys):
    with pytest.raises(SystemExit) as stopped:
        reference.folder()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    assert "is missing" in said and "MINIGPT_TRAIN=1" in said


def test_another_model_is_refused(elsewhere, capsys, tmp_path):
    old = tmp_path / "model.safetensors"
    old.write_bytes(b"an older one")
    elsewhere[reference.WEIGHTS] = old
    with pytest.raises(SystemExit) as stopped:
        reference.folder()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    assert str(old) in said and "older" in said


def test_what_a_benchmark_has_recorded_is_found_or_missed_in_one_line(elsewhere, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        reference.recorded("transfer.json")
    assert stopped.value.code == 2 and "benchmarks/results/transfer.json is missing" in capsys.readouterr().err
    (tmp_path / "a.json").write_text(json.dumps({"rows": 3}), encoding="utf-8")
    elsewhere["benchmarks/results/transfer.json"] = tmp_path / "a.json"
    assert reference.recorded("transfer.json") == {"rows": 3}


def test_one_is_trained_by_the_same_command(elsewhere, monkeypatch, tmp_path):
    """First the vocabulary, then the model; what is there already is not trained again."""
    ran = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIGPT_TRAIN", "1")
    monkeypatch.setattr(reference, "train_vocabulary", lambda options: ran.append(options))

    class Job:
        finished = True

    monkeypatch.setattr(reference.pretrain, "train", lambda options: ran.append(options) or Job)
    assert reference.folder() == Path("runs/reference")
    assert ran == [reference.TOKENIZER, reference.MODEL]
    Path(reference.TOKENIZER.out).mkdir(parents=True)
    Job.finished = False
    with pytest.raises(SystemExit):
        reference.folder()
    assert ran[2:] == [reference.MODEL]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_that_was_copied_alone_has_all_it_needs(path):
    """It imports the package and its libraries; what lies beside it is guarded by a message."""
    allowed = sys.stdlib_module_names | INSTALLED
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {name for block in ast.walk(tree) if isinstance(block, ast.Try) for name in imported(block)}
    assert imported(tree) - guarded <= allowed


def imported(tree) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return names


def test_lesson_23_alone_says_what_is_missing(monkeypatch, capsys):
    (path,) = (ROOT / "lessons").glob("23_*.py")
    (cell,) = [cell for cell in cells(path) if cell.is_code and "import ring_worker" in cell.source]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "lessons" not in entry])
    monkeypatch.delitem(sys.modules, "ring_worker", raising=False)
    with pytest.raises(SystemExit) as stopped:
        exec(compile(cell.source, str(path), "exec"), {})
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1 and "minigpt lessons FOLDER" in said
