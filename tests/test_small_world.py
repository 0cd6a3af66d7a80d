"""The tiny model with which lessons begin: gradients with parts left out, the letter table, what its parts add."""

import numpy as np
import pytest

from minigpt import gradcheck
from minigpt.learn import small_world
from minigpt.learn.small_world import BLOCK, HELD_OUT, IDS, SO_FAR, Layer, Model, Table
from minigpt.models.gpt1 import GPT1, GPT1Config


@pytest.mark.parametrize("parts", [("attn",), ("attn", "mlp"), BLOCK])
@pytest.mark.parametrize("plus", [False, True])
def test_every_gradient_is_right_with_parts_left_out(parts, plus):
    no_dropout = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
    sizes = {"vocab_size": 5, "n_positions": 4, "n_embd": 6, "n_layer": 2, "n_head": 2}
    model = GPT1(GPT1Config(**sizes, **no_dropout), dtype=np.float64)
    model.h = [Layer(block, parts, plus) for block in model.h]
    ids = np.array([[0, 3, 2, 4], [1, 1, 0, 2]])
    results = gradcheck.check_model(model, ids, np.roll(ids, -1, axis=1))
    assert len(results) == 2 + 2 * sum({"attn": 4, "mlp": 4, "ln_1": 2, "ln_2": 2}[part] for part in parts)
    assert all(result.word == "happy" for result in results), gradcheck.table(results)


def test_the_table_counts_pairs_and_its_loss_is_that_of_the_pairs():
    table = Table()
    a, b = small_world.NUMBER["o"], small_world.NUMBER["o"]
    followed = np.count_nonzero(IDS[:-1] == a)
    both = np.count_nonzero((IDS[:-1] == a) & (IDS[1:] == b))
    assert table.p[a, b] == pytest.approx((both + 0.01) / (followed + 0.01 * small_world.V))
    assert table.p.sum(axis=1) == pytest.approx(1)
    inputs, targets = HELD_OUT
    assert inputs.shape == targets.shape and (inputs[:, 1:] == targets[:, :-1]).all()
    one_by_one = [
        -np.log(table.next_p(np.array([letter]))[target]) for letter, target in zip(inputs[0], targets[0], strict=True)
    ]
    first_row = -np.log(table.p[inputs[0], targets[0]])
    assert first_row == pytest.approx(one_by_one)


def test_no_story_that_is_held_out_was_read():
    read = set(small_world.TEXT.splitlines())
    new = "".join(small_world.LETTERS[i] for i in small_world.NEW).splitlines()
    assert len(new) == 20 and not read & set(new)


def test_what_is_written_is_drawn_from_the_probabilities_that_were_given():
    letters = iter(range(10))
    drawn = small_world.write(lambda ids: np.eye(small_world.V)[small_world.NUMBER["abdefghikl"[next(letters)]]], 10)
    assert drawn.strip() == "abdefghikl"


def test_a_lesson_knows_only_what_came_before_it():
    """In each lesson's model one more thing is there than in the model before it."""
    said = {lesson: settings or {} for lesson, (_, settings) in SO_FAR.items()}
    assert list(said) == sorted(said)
    assert said["04"]["parts"] == said["05"]["parts"] == ("attn",) and "mlp" in said["06"]["parts"]
    assert not any(said[lesson].get("plus", lesson == "03") for lesson in ("04", "05", "06", "07"))
    assert "rule" in said["09"] and not said["10"]


@pytest.mark.slow
def test_neither_the_bend_nor_the_plus_helps_alone():
    """What lesson 05 says of the model of its reader."""
    table = Table().loss()
    loss = {
        (parts, plus): Model(parts=parts, layers=1, plus=plus).loss()
        for parts in (("attn",), ("attn", "mlp"))
        for plus in (False, True)
    }
    both = loss.pop((("attn", "mlp"), True))
    assert both < table - 0.1, "2.12 for the table; 1.95"
    assert min(loss.values()) > table + 0.05, "2.38, 2.25, 2.45"
