"""A dozen of the attacks of `benchmarks/kills.py`: the same command given again ends with the same bytes."""

import importlib.util
import os
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "kills.py"
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.usefixtures("hangup_ends", "quick_runs"),
]


@pytest.fixture(scope="module")
def kills():
    specification = importlib.util.spec_from_file_location("kills", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.warm_up()
    return module


@pytest.mark.parametrize(
    ("name", "kinds", "trials"),
    [
        ("train", ["kill", "torn", "full"], 3),
        ("tokenizer train", ["kill", "full"], 2),
        pytest.param("train", ["twice", "random", "signal", "writers"], 12, marks=pytest.mark.slow),
    ],
)
def test_the_same_command_ends_with_the_same_bytes(name, kinds, trials, kills, tmp_path):
    kills.prepare(tmp_path, [name])
    told = []
    counts = kills.attacked(name, tmp_path, kinds, trials, tell=told.append)
    assert told == []
    assert counts["equal"] == len(kinds) * trials
