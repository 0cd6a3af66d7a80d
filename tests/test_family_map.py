"""Two measurements of benchmarks/family.py: how much the states of places differ, and distances that move farther."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from minigpt.models.family.t5 import T5, T5Config

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "d_kv": 4, "d_ff": 16}
WINDOWS = np.arange(18).reshape(2, 9) % 11


@pytest.fixture
def family(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("family")


@pytest.fixture
def model():
    return T5(T5Config(**SIZES), seed=0, dtype=np.float64)


def test_which_share_of_the_states_differs(family, model, monkeypatch):
    given = {"all alike": np.full((2, 8, 3), 5.0), "no common part": np.tile([[[3.0], [-3.0]]], (2, 4, 1))}
    shares = {}
    for name, states in given.items():
        monkeypatch.setattr(model, "encode", lambda ids, states=states: states)
        shares[name] = family.differing(model, WINDOWS)
    assert shares == {"all alike": pytest.approx(0), "no common part": pytest.approx(1)}
    monkeypatch.setattr(model, "encode", lambda ids: np.array([[[5.0], [3.0]]]))  # mean 4, variance 1, mean square 17
    assert family.differing(model, WINDOWS) == pytest.approx(1 / 17)


def test_only_the_tables_of_distances_move_farther(family, model):
    before = {name: parameter.data.copy() for name, parameter in model.named_parameters()}
    with family.distances_move(model, 100):
        for _, parameter in model.named_parameters():
            parameter.data += 0.25
    moved = {name: parameter.data - before[name] for name, parameter in model.named_parameters()}
    tables = [name for name in moved if "distances_embed" in name]
    assert len(tables) == 2, "one for each side"
    for name, by in moved.items():
        assert np.allclose(by, 25 if name in tables else 0.25), name


def test_with_one_time_nothing_is_changed_by_a_bit(family, model):
    table = model.encoder.distances_embed.weight
    moved = np.random.default_rng(0).normal(size=table.data.shape) * 1e-3
    assert not np.array_equal(table.data + (moved - table.data), moved), "a difference would be rounded"
    with family.distances_move(model, 1):
        table.data[...] = moved
    assert np.array_equal(table.data, moved)


def test_what_a_row_takes_over_and_how_it_is_named(family):
    row = family.Row("t5", family.TABLES, times=5, farther=100)
    assert row.name == "t5, 5 times the operations, distances 100 times as far, fresh blocks"
    assert row.pretrained.name == "t5, 5 times the operations, distances 100 times as far"
    assert family.Row("t5", family.NOTHING, farther=100).pretrained == family.Row("t5"), "only its sizes are taken"
    assert family.folder_of(row, 3) != family.folder_of(row._replace(farther=1), 3)
