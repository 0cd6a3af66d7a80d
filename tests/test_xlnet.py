"""XLNet: every gradient through both streams, what a query may know, and what its objective draws."""

import numpy as np
import pytest
from helpers import check_along, check_every_entry, learn_by_heart, same, small_model, snapshot

from minigpt import ops
from minigpt.data.objectives import permuted
from minigpt.errors import InputError
from minigpt.models.family.xlnet import XLNet, XLNetConfig

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}


def small(dtype=np.float64, dropout=0.0, **sizes) -> XLNet:
    return small_model(XLNet, SIZES | sizes, dtype, dropout)


def drawn(rows=2, length=5, rate=0.4, seed=0):
    rng = np.random.default_rng(seed)
    return permuted(rate)(rng.integers(11, size=(rows, length + 1)), rng)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("check", [check_along, pytest.param(check_every_entry, marks=pytest.mark.slow)])
def test_every_gradient_of_both_streams(check, dropout):
    batch = drawn()
    segments = (np.arange(5) >= 2).astype(int) * np.ones((2, 1), int)
    key = ops.Key.of(1, 2) if dropout else None
    check(small(dropout=dropout), batch.ids, batch.targets, key=key, segments=segments, **batch.inputs)


def logits_of(model, batch, ids, query: bool = True):
    query_mask = batch.query_mask if query else None
    return model.forward(ids, grad=False, mask=batch.mask, query_mask=query_mask)[0]


def test_a_query_does_not_know_the_token_that_it_predicts():
    model, batch = small(), drawn(rows=1)
    for place in np.flatnonzero(batch.targets[0] != ops.IGNORED):
        changed = batch.ids.copy()
        changed[0, place] = (changed[0, place] + 1) % 11
        before, after = (logits_of(model, batch, ids)[0, place] for ids in (batch.ids, changed))
        assert same(snapshot([before]), snapshot([after])), "two layers, and nothing leaks"
        before, after = (logits_of(model, batch, ids, query=False)[0, place] for ids in (batch.ids, changed))
        assert np.abs(before - after).max() > 1e-6, "the content stream would have read it"


def test_each_query_sees_what_comes_earlier_in_the_drawn_sequence_and_no_more():
    model, batch = small(n_layer=3), drawn(rows=1, length=7, rate=0.5)
    before = logits_of(model, batch, batch.ids)[0]
    for place in range(7):
        changed = batch.ids.copy()
        changed[0, place] = (changed[0, place] + 1) % 11
        moved = np.abs(logits_of(model, batch, changed)[0] - before).max(axis=-1) > 1e-9
        assert np.array_equal(moved, batch.query_mask[0, 0, :, place])


def test_from_left_to_right_is_one_of_the_sequences():
    """With causal masks a query sees the tokens before it: no later one moves it."""
    model = small()
    ids = np.arange(6)[None]
    place = np.arange(6)
    masks = {"mask": place <= place[:, None], "query_mask": (place < place[:, None])[None, None]}
    before, _ = model.forward(ids, grad=False, **masks)
    changed = ids.copy()
    changed[0, 3] = 9
    after, _ = model.forward(changed, grad=False, **masks)
    moved = np.abs(after - before).max(axis=-1)[0] > 1e-9
    assert moved.tolist() == [False, False, False, False, True, True]


def test_only_distances_count():
    model = small()
    ids = np.array([[5, 7, 2, 0, 0, 0, 0]])
    moved = np.array([[0, 0, 0, 5, 7, 2, 0]])
    here, _ = model.hidden(ids, grad=False, mask=np.arange(7)[None] < 3)
    there, _ = model.hidden(moved, grad=False, mask=(np.arange(7)[None] >= 3) & (np.arange(7)[None] < 6))
    assert np.abs(here[0, :3] - there[0, 3:6]).max() < 1e-12


def test_the_objective_draws_every_sequence():
    ids = np.random.default_rng(0).integers(900, size=(4000, 25))
    batch = permuted()(ids, np.random.default_rng(0))
    predicted = batch.targets != ops.IGNORED
    assert np.array_equal(batch.ids, ids[:, :-1]), "every token stays, and stays where it is"
    assert (predicted.sum(axis=1) == 4).all(), "a sixth of 24"
    assert np.allclose(predicted.mean(axis=0), 1 / 6, atol=0.03), "five standard deviations are 0.029"
    content, query = batch.mask[:, 0], batch.query_mask[:, 0]
    itself = np.eye(24, dtype=bool)
    assert content[:, itself].all() and not (query & itself).any()
    given = ~predicted
    both_given = given[:, :, None] & given[:, None, :]
    assert content[both_given].all() and not query[both_given].any()
    of_predicted = predicted[:, :, None]
    assert np.array_equal((content & ~itself)[of_predicted & ~itself], query[of_predicted & ~itself])
    n_seen = np.sort(query.sum(axis=2)[predicted].reshape(4000, 4), axis=1)
    assert (n_seen == [20, 21, 22, 23]).all(), "the first of them sees all that is given, the last all others"


@pytest.mark.parametrize("rate", [0, 1, 1.5])
def test_a_share_that_cannot_be_is_refused(rate):
    with pytest.raises(InputError, match="choose a share of the tokens above 0 and below 1"):
        permuted(rate)


def test_positions_are_refused():
    with pytest.raises(InputError, match="XLNet knows distances and no positions"):
        small().hidden(np.arange(5)[None], positions=np.arange(5))


def test_it_learns_the_predicted_tokens_of_one_batch():
    batch = drawn(rows=4, length=8, rate=0.3)
    model = XLNet(XLNetConfig(**(SIZES | {"n_embd": 16})), seed=0)
    assert learn_by_heart(model, 150, batch.ids, batch.targets, **batch.inputs) < 0.1


def test_the_token_of_a_pair_has_a_segment_of_its_own():
    """`a <sep> b <sep> <cls>`; segments are compared, and no number but its own differs from all others."""
    model = small()
    ids = np.array([[5, 6, 1, 7, 1, 2], [5, 1, 7, 1, 2, 0]])
    inputs = model.inputs_of(ids, np.array([6, 5]), delimiter=1)
    assert inputs["segments"].tolist() == [[0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]]
    h, _ = model.hidden(ids[:1], segments=np.array([[0, 0, 0, 1, 1, 2]]))
    for same_way in ([[1, 1, 1, 0, 0, 2]], [[0, 0, 0, 3, 3, 4]]):
        assert np.array_equal(model.hidden(ids[:1], segments=np.array(same_way))[0], h)
    assert np.abs(model.hidden(ids[:1], segments=np.array([[0, 0, 0, 1, 1, 1]]))[0] - h).max() > 1e-3
    with pytest.raises(InputError, match="segment 5 is out of range: this model has 5"):
        model.hidden(ids[:1], segments=np.array([[0, 0, 0, 1, 1, 5]]))
