"""Some of the damaged files of benchmarks/mutations.py: each is refused in one line or opened, and none unnoticed."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("quick_runs")
PLACE = Path(__file__).parents[1] / "benchmarks" / "mutations.py"


@pytest.fixture(scope="module")
def mutations():
    """The script, as a module."""
    pytest.importorskip("resource", reason="needs limits of memory")
    if not sys.platform.startswith("linux"):
        pytest.skip("needs fork and /proc")
    spec = importlib.util.spec_from_file_location("mutations", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_damaged_files_of_every_kind(mutations):
    results = mutations.run(300)
    assert sum(sum(counts.values()) for counts in results.values()) >= 300 and len(results) >= 25
    assert mutations.is_good(results)
    assert sum(counts["refused"] for counts in results.values()) > 150


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("raise KeyError('a')", "traceback"), ("bytearray(1 << 31)", "memory"), ("while True: pass", "hang"),
     ("import os; os._exit(3)", "traceback"), ("raise mutations.InputError('a\\nb')", "traceback"),
     ("raise mutations.InputError('a')", "refused"), ("return content", "different")],
)  # fmt: skip
def test_the_script_sees_what_it_looks_for(mutations, code, outcome, tmp_path, monkeypatch):
    """A reader that does something bad with a damaged file."""
    monkeypatch.setattr(mutations, "SECONDS", 0.2 if outcome == "hang" else 60)
    space = {"mutations": mutations}
    body = f"def read(folder):\n    content = (folder / 'a').read_bytes()\n    if content != b'good':\n        {code}\n"
    exec(body + "    return content\n", space)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "a").write_bytes(b"good")
    found = mutations.attack(mutations.Kind("k", tmp_path / "good", "a", space["read"]), 2, tmp_path / "damaged")
    assert outcome in {name for _, name, _ in found}
