"""Objectives: what they predict, how often, and that they are pure functions of (ids, rng)."""

import numpy as np
import pytest

from minigpt import data, ops
from minigpt.data.objectives import (
    Batch,
    between,
    causal,
    covered_translations,
    fixed,
    masked,
    permuted,
    responses,
    sentence_order,
    sentence_pairs,
    spans,
    whole_words,
)  # fmt: skip
from minigpt.errors import InputError

VOCAB, MASK, START, SEPARATOR = 1000, 999, 998, 997
OBJECTIVES = {
    "causal": causal,
    "masked": masked(MASK, VOCAB),
    "masked, special": masked(MASK, VOCAB, special_ids=(3, 5)),
    "whole words": masked(MASK, VOCAB, places=whole_words(np.arange(VOCAB) % 3 == 0)),
    "spans": spans(MASK, VOCAB),
    "sentence pairs": sentence_pairs(MASK, VOCAB, START, SEPARATOR),
    "sentence order": sentence_order(MASK, VOCAB, START, SEPARATOR),
}


def windows(b: int = 64, t: int = 40, seed: int = 0) -> np.ndarray:
    """(B,T+1) random tokens, none of them special."""
    return np.random.default_rng(seed).integers(900, size=(b, t + 1))


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_part_of_a_batch_knows_its_share():
    batch = OBJECTIVES["sentence pairs"](windows(b=8), np.random.default_rng(0))
    assert batch.share == 1 and batch.inputs["share"] == 1
    half = batch.rows(slice(4, 8))
    assert half.share == 0.5 and np.array_equal(half.sentence_labels, batch.sentence_labels[4:])
    assert half.rows(slice(0, 1)).share == 0.125
    covered = OBJECTIVES["masked"](windows(b=8), np.random.default_rng(0))
    assert covered.share is None and covered.rows(slice(0, 2)).share is None and "share" not in covered.inputs


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_a_pure_function_of_ids_and_seed(name):
    ids = windows()
    before = ids.copy()
    first, again, other = (OBJECTIVES[name](ids, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert np.array_equal(ids, before), "the ids that were given are as they were"
    assert same(first, again)
    assert same(first, other) == (name == "causal"), "another seed gives another batch, unless no chance is in it"


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", [np.uint16, np.int64])
def test_shapes_and_types(name, dtype):
    b, t = 6, 21
    batch = OBJECTIVES[name](windows(b, t).astype(dtype), np.random.default_rng(0))
    assert batch.ids.shape == batch.targets.shape == (b, t)
    assert batch.ids.dtype == batch.targets.dtype == np.int64
    assert ((0 <= batch.ids) & (batch.ids < VOCAB)).all()
    assert (batch.targets >= 0).any(axis=1).all(), "every row predicts something"
    if batch.mask is not None:
        assert batch.mask.dtype == bool and np.broadcast_shapes(batch.mask.shape, (b, 1, t, t)) == (b, 1, t, t)


def test_causal_is_what_batches_have_always_been():
    tokens = np.arange(100, 400, dtype=np.uint16)
    ids, targets = data.batch(tokens, 5, 12, seed=3, step=4)
    given = np.concatenate([ids, targets[:, -1:]], axis=1)
    batch = causal(given, np.random.default_rng(0))
    assert np.array_equal(batch.ids, ids) and np.array_equal(batch.targets, targets)
    assert batch.mask is None and batch.segments is None and batch.positions is None


@pytest.mark.parametrize(("rate", "t", "n"), [(0.15, 40, 6), (0.15, 3, 1), (0.5, 40, 20), (1.0, 8, 8)])
def test_of_each_row_the_same_number_is_covered(rate, t, n):
    batch = masked(MASK, VOCAB, rate)(windows(t=t), np.random.default_rng(0))
    assert ((batch.targets != ops.IGNORED).sum(axis=1) == n).all()


def test_covered_tokens_are_predicted_and_the_others_are_shown_as_they_are():
    ids = windows()
    batch = masked(MASK, VOCAB)(ids, np.random.default_rng(1))
    covered = batch.targets != ops.IGNORED
    assert np.array_equal(batch.targets[covered], ids[:, :-1][covered])
    assert np.array_equal(batch.ids[~covered], ids[:, :-1][~covered])
    assert batch.mask.all(), "every token sees every other"


def test_of_the_covered_tokens_80_percent_are_masked_10_random_and_10_unchanged():
    ids = windows(b=2000, t=100)
    batch = masked(MASK, VOCAB)(ids, np.random.default_rng(2))
    covered = batch.targets != ops.IGNORED
    seen, true = batch.ids[covered], ids[:, :-1][covered]
    assert covered.mean() == 0.15
    is_mask, unchanged = seen == MASK, seen == true
    assert is_mask.mean() == pytest.approx(0.8, abs=0.01)  # 30,000 tokens: a standard deviation is 0.0023
    assert unchanged.mean() == pytest.approx(0.1, abs=0.01)
    others = seen[~is_mask & ~unchanged]
    assert len(others) / len(seen) == pytest.approx(0.1, abs=0.01)
    assert others.min() < 20 and others.max() > 980 and len(np.unique(others)) > 900, "from the whole vocabulary"


def test_every_place_is_covered_equally_often():
    batch = masked(MASK, VOCAB)(windows(b=8000, t=20), np.random.default_rng(3))
    rates = (batch.targets != ops.IGNORED).mean(axis=0)
    assert np.allclose(rates, 0.15, atol=0.02)  # a standard deviation is 0.004


def test_special_tokens_are_never_covered_even_where_there_is_little_else():
    ids = windows()
    ids[:, ::2] = 3
    ids[0] = 5
    batch = masked(MASK, VOCAB, rate=0.9, special_ids=(3, 5))(ids, np.random.default_rng(4))
    special = np.isin(ids[:, :-1], (3, 5))
    covered = batch.targets != ops.IGNORED
    assert not (covered & special).any()
    assert covered[1:][~special[1:]].all(), "36 places of 40 are wanted, and only 20 are free"


def test_a_word_is_covered_whole_or_not_at_all():
    ends_word = np.arange(VOCAB) % 3 == 0
    ids = windows(b=200)
    batch = masked(MASK, VOCAB, 0.3, special_ids=(5,), places=whole_words(ends_word))(ids, np.random.default_rng(0))
    covered = batch.targets != ops.IGNORED
    seen = ids[:, :-1]
    assert not covered[seen == 5].any()
    same_word = ~ends_word[seen[:, :-1]] & (seen[:, :-1] != 5) & (seen[:, 1:] != 5)
    assert same_word.sum() > 1000
    assert np.array_equal(covered[:, :-1][same_word], covered[:, 1:][same_word]), "neighbours in a word"
    assert 0.25 < covered.mean() <= 0.3 and (covered.sum(axis=1) <= 12).all()


def test_fixed_places_are_those_of_the_window_whatever_the_seed():
    ids = windows(b=6)
    objective = fixed(masked(MASK, VOCAB))
    first = objective(ids, np.random.default_rng(0))
    again = objective(ids[::-1], np.random.default_rng(1))
    assert np.array_equal(first.ids, again.ids[::-1]) and np.array_equal(first.targets, again.targets[::-1])
    redrawn = masked(MASK, VOCAB)(ids, np.random.default_rng(1))
    assert not np.array_equal(first.targets, redrawn.targets)
    assert len({row.tobytes() for row in first.targets != ops.IGNORED}) == 6, "another window has other places"


def test_spans_have_the_paper_s_lengths_and_share_their_fate():
    ids = windows(b=3000, t=128)
    batch = spans(MASK, VOCAB)(ids, np.random.default_rng(0))
    covered = batch.targets != ops.IGNORED
    assert (covered.sum(axis=1) == 19).all(), "15 % of 128"
    assert not covered[:, 0].any() and not covered[:, -1].any(), "each span has a token on both sides"
    starts = covered & ~np.roll(covered, 1, axis=1)
    rows, begins = np.nonzero(starts)
    ends = np.nonzero(covered & ~np.roll(covered, -1, axis=1))[1] + 1
    lengths = ends - begins
    assert lengths.max() == 10 and lengths.min() == 1
    assert lengths.mean() == pytest.approx(3.4, abs=0.1), "3.8, but the last span of a row is cut"
    for row, start, end in list(zip(rows, begins, ends, strict=True))[:500]:
        assert (batch.span_edges[row, start:end] == [start - 1, end]).all()
        assert batch.span_places[row, start:end].tolist() == list(range(end - start))
    inside = covered[:, 1:] & covered[:, :-1]
    is_mask = batch.ids == MASK
    apart = is_mask[:, 1:][inside] != is_mask[:, :-1][inside]
    assert apart.mean() < 0.001, "a span is covered whole; one random token in a thousand is the mask"
    assert is_mask[covered].mean() == pytest.approx(0.8, abs=0.02)


def test_where_few_tokens_are_free_there_are_fewer_spans():
    ids = np.full((2, 12), 5)
    ids[0, 4] = 7
    batch = spans(MASK, VOCAB, rate=0.5, special_ids=(5,))(ids, np.random.default_rng(0))
    assert np.argwhere(batch.targets != ops.IGNORED).tolist() == [[0, 4]]
    assert batch.span_edges[0, 4].tolist() == [3, 5]
    assert (spans(MASK, VOCAB)(windows(t=2), np.random.default_rng(0)).targets == ops.IGNORED).all(), "no room for one"


def test_a_pair_of_translations_counts_its_positions_twice_and_knows_its_languages():
    tab, end = 3, 4
    row = [7, 8, end, 20, 21, 22, tab, 30, 31, end, 9, 9, 9]
    without = [7] * len(row)
    cover = covered_translations(MASK, VOCAB, tab, end, rate=0.4)
    batch = cover(np.array([row, without]), np.random.default_rng(0))
    true = np.where(batch.targets == ops.IGNORED, batch.ids, batch.targets)
    assert true[0].tolist() == [20, 21, 22, tab, 30, 31, end]
    assert batch.segments[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert batch.positions[0].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert batch.mask.tolist() == [[True] * 7, [True] * 2 + [False] * 5]
    assert (batch.targets[0] != ops.IGNORED).sum() == 3 and (batch.targets[1] == ops.IGNORED).all()
    many = [cover(np.array([row]), np.random.default_rng(seed)).targets[0] for seed in range(200)]
    covered = (np.array(many) != ops.IGNORED).mean(axis=0)
    assert covered[[3, 6]].max() == 0 and covered[[0, 1, 2, 4, 5]].min() > 0.4, "words of both sides, no separator"


def test_a_pair_as_long_as_its_window_has_no_place_among_the_positions_of_a_model():
    """A window holds a token more than a model has positions. Of the others nothing changes."""
    tab, end = 3, 4
    too_long, longest = [20, 21, tab, 30, 31, end], [9, end, 21, tab, 30, end]
    batch = covered_translations(MASK, VOCAB, tab, end)(np.array([too_long, longest]), np.random.default_rng(0))
    assert batch.ids.shape == (2, 4) and (batch.targets[0] == ops.IGNORED).all()
    true = np.where(batch.targets == ops.IGNORED, batch.ids, batch.targets)
    assert batch.mask.tolist() == [[True] * 2 + [False] * 2, [True] * 4] and true[1].tolist() == [21, tab, 30, end]


@pytest.mark.parametrize("t", [20, 21])
def test_sentence_order_exchanges_half_of_the_pairs(t):
    ids = windows(b=400, t=t)
    batch = sentence_order(MASK, VOCAB, START, SEPARATOR, rate=0.001)(ids, np.random.default_rng(0))
    true = np.where(batch.targets == ops.IGNORED, batch.ids, batch.targets)
    middle = (t - 3) // 2
    assert batch.sentence_labels.mean() == pytest.approx(0.5, abs=0.1)
    for row, label in enumerate(batch.sentence_labels):
        text = ids[row, : t - 3]
        later = t - 3 - middle  # where an exchanged row is parted: its later part is as long as another row's first
        parts = (text[later:], text[:later]) if label else (text[:middle], text[middle:])
        expected = [START, *parts[0], SEPARATOR, *parts[1], SEPARATOR]
        assert true[row].tolist() == expected
    expected_segments = [0] * (middle + 2) + [1] * (t - middle - 2)
    assert (batch.segments == expected_segments).all(), "where the parts meet does not tell which came first"


@pytest.mark.parametrize(("b", "t"), [(64, 20), (3, 21), (2, 9)])
@pytest.mark.parametrize("seed", range(8))
def test_a_sentence_pair_is_two_parts_between_special_tokens(b, t, seed):
    ids = windows(b, t)
    batch = sentence_pairs(MASK, VOCAB, START, SEPARATOR)(ids, np.random.default_rng(seed))
    middle = (t - 3) // 2
    special = [0, middle + 1, t - 1]
    assert (batch.ids[:, special] == [START, SEPARATOR, SEPARATOR]).all()
    assert (batch.targets[:, special] == ops.IGNORED).all(), "special tokens are never covered"
    whole = np.where(batch.targets == ops.IGNORED, batch.ids, batch.targets)  # before anything was covered
    assert np.array_equal(whole[:, 1 : middle + 1], ids[:, :middle])
    assert np.array_equal(batch.segments, np.broadcast_to(np.arange(t) > middle + 1, (b, t)))
    second, own = whole[:, middle + 2 : -1], ids[:, middle : t - 3]
    continues = (second == own).all(axis=1)
    assert np.array_equal(batch.sentence_labels, np.where(continues, 0, 1))
    tails = own.tolist()
    assert all(row in tails for row in second.tolist()), "the other part comes from another row, whole"


def test_half_of_the_sentence_pairs_belong_together():
    batch = sentence_pairs(MASK, VOCAB, START, SEPARATOR)(windows(b=10_000, t=9), np.random.default_rng(6))
    assert batch.sentence_labels.mean() == pytest.approx(0.5, abs=0.02)  # a standard deviation is 0.005


QUESTION, END = 91, 92  # the delimiter behind an instruction, and what ends a response
ANSWERED = responses(QUESTION, END)


def answered(*tokens: int) -> list[int]:
    """The targets of one window."""
    return ANSWERED(np.array([tokens]), np.random.default_rng(0)).targets[0].tolist()


def test_of_an_instruction_only_the_response_and_its_end_count():
    batch = ANSWERED(np.array([[1, 2, QUESTION, 3, 4, END, 5]]), np.random.default_rng(0))
    assert batch.ids.tolist() == [[1, 2, QUESTION, 3, 4, END]]
    no = ops.IGNORED
    assert batch.targets.tolist() == [[no, no, 3, 4, END, no]], "the delimiter predicts the first token, 4 the end"
    assert batch.mask is None and batch.n_targets == 3


def test_documents_follow_each_other_and_a_response_that_was_cut_off_counts_nothing():
    no = ops.IGNORED
    assert answered(7, 8, END, 1, QUESTION, 3, END, 2) == [no, no, no, no, 3, END, no], "whose delimiter is missing"
    assert answered(1, QUESTION, 3, END, 2, QUESTION, 4, 5) == [no, 3, END, no, no, 4, 5], "the last one has no end yet"
    assert answered(1, QUESTION, END, 2, QUESTION, END) == [no, END, no, no, END], "an empty response is an end"
    assert answered(1, 2, 3) == [no, no], "a window without a delimiter counts nothing"
    assert answered(1, 2, QUESTION) == [no, no], "a delimiter itself is never predicted"


def test_responses_are_a_pure_function_and_equal_the_causal_targets_where_they_count():
    documents = []
    rng = np.random.default_rng(3)
    for length in rng.integers(1, 6, size=200):
        documents += [*rng.integers(90, size=length), QUESTION, *rng.integers(90, size=length + 1), END]
    ids = np.array(documents[: len(documents) // 41 * 41], np.uint16).reshape(-1, 41)
    before = ids.copy()
    batch, again = (ANSWERED(ids, np.random.default_rng(seed)) for seed in (1, 2))
    assert np.array_equal(ids, before) and same(batch, again), "no chance is in it"
    assert batch.ids.dtype == batch.targets.dtype == np.int64
    counts = batch.targets != ops.IGNORED
    assert np.array_equal(batch.targets[counts], causal(ids, rng).targets[counts])
    for row, counted in zip(ids, counts, strict=True):
        inside = False
        for token, following in enumerate(counted):
            inside = (inside or row[token] == QUESTION) and row[token] != END
            assert following == inside, (row, token)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masked(VOCAB, VOCAB), "mask_id is 1000: give a token of the vocabulary, 0 to 999"),
        (lambda: responses(-1, END), "delimiter_id is -1: give a token"),
        (lambda: responses(QUESTION, "end"), "end_id is 'end': give a token"),
        (lambda: responses(END, END), "delimiter and end are both token 92: give two tokens"),
        (lambda: masked(MASK, VOCAB, rate=0), "rate 0: choose a share"),
        (lambda: masked(MASK, VOCAB, rate=15), "rate 15: choose a share"),
        (lambda: OBJECTIVES["sentence pairs"](windows(b=1), np.random.default_rng(0)), "1 row: .* give 2 or more"),
        (lambda: OBJECTIVES["sentence pairs"](windows(t=4), np.random.default_rng(0)), "4 tokens: .* give 5 or more"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- texts between two tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [masked(9, 11, 0.9, (7, 8)), permuted(0.9, (7, 8)), spans(9, 11, 0.9, (7, 8))])
def test_a_window_stands_between_two_tokens_that_are_not_predicted(objective):
    ids = np.random.default_rng(0).integers(7, size=(20, 9))
    batch = between(7, 8, objective)(ids, np.random.default_rng(1))
    assert batch.ids.shape == (20, 8) and (batch.ids[:, 0] == 7).all() and (batch.ids[:, -1] == 8).all()
    assert (batch.targets[:, [0, -1]] == ops.IGNORED).all() and (batch.targets >= 0).any(axis=1).all()
    seen = np.where(batch.targets == ops.IGNORED, batch.ids, batch.targets)
    assert np.array_equal(seen[:, 1:-1], ids[:, :6]), "the text between them stays in its places"


def test_a_window_without_room_for_a_text_between_two_tokens_is_refused():
    with pytest.raises(InputError, match="a window of 2 has no room for a token between 7 and 8"):
        between(7, 8, masked(9, 11))(np.zeros((1, 3), int), np.random.default_rng(0))
