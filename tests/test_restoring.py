"""Objectives of encoder-decoders: what a source has lost, how often, and what the decoder must write."""

import math
from collections import Counter

import numpy as np
import pytest

from minigpt import ops
from minigpt.data.objectives import (
    Batch,
    document_rotation,
    lost_fragment,
    lost_spans,
    one_after_the_other,
    paired,
    restored,
    sentence_permutation,
    text_infilling,
    token_deletion,
    token_masking,
    translated,
)
from minigpt.data.objectives.restoring import filled_up, random_parts, span_lengths
from minigpt.data.objectives.translating import first_pair
from minigpt.errors import InputError

VOCAB, MASK, START, END, PAD = 1000, 999, 998, 997, 996
STOPS = (5, 6)
NOISES = {
    "masking": token_masking(MASK),
    "deletion": token_deletion(),
    "infilling": text_infilling(MASK),
    "permutation": sentence_permutation(STOPS),
    "rotation": document_rotation(),
    "two": one_after_the_other(text_infilling(MASK), sentence_permutation(STOPS)),
}
OBJECTIVES = {name: restored(noise, START, END, PAD) for name, noise in NOISES.items()}
OBJECTIVES["fragment"] = lost_fragment(MASK, VOCAB)
SENTINELS = [990 - i for i in range(32)]
OBJECTIVES["spans"] = lost_spans(SENTINELS, START, END)


def windows(b: int = 64, t: int = 40, seed: int = 0) -> np.ndarray:
    """(B,T+1) random tokens, none of them special; a tenth ends a sentence."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(10, 900, size=(b, t + 1))
    return np.where(rng.random(ids.shape) < 0.1, rng.choice(STOPS, ids.shape), ids)


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------------------------------ every objective


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_a_pure_function_of_ids_and_seed(name):
    ids = windows()
    before = ids.copy()
    first, again, other = (OBJECTIVES[name](ids, rng(seed)) for seed in (7, 7, 8))
    assert np.array_equal(ids, before), "the ids that were given are as they were"
    assert same(first, again) and not same(first, other)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(("t", "dtype"), [(21, np.uint16), (21, np.int64), (4, np.int64)])
def test_shapes_and_types_and_padding(name, t, dtype):
    for seed in range(20):
        batch = OBJECTIVES[name](windows(6, t).astype(dtype), rng(seed))
        assert batch.ids.shape == batch.targets.shape and len(batch.ids) == 6
        assert batch.ids.shape[1] <= t and batch.source.shape[1] <= t, "both fit into the positions of a model"
        if batch.source_mask is None:
            batch = batch._replace(source_mask=np.ones(batch.source.shape, bool))
        assert batch.source.shape == batch.source_mask.shape and batch.source_mask.dtype == bool
        for field in (batch.ids, batch.targets, batch.source):
            assert field.dtype == np.int64 and (((0 <= field) & (field < VOCAB)) | (field == ops.IGNORED)).all()
        if batch.positions is not None:
            assert batch.positions.shape == batch.ids.shape and batch.positions.max() < t
        lengths = batch.source_mask.sum(axis=1)
        assert (lengths >= 1).all() and lengths.max() == batch.source.shape[1], "no longer than the longest needs"
        assert np.array_equal(batch.source_mask, np.arange(batch.source.shape[1]) < lengths[:, None])
        assert (batch.source[~batch.source_mask] == PAD).all() and (batch.source[batch.source_mask] != PAD).all()


def test_rows_of_different_lengths_are_filled_up():
    filled, is_text = filled_up([np.array([1, 2, 3]), np.array([4])], 9)
    assert filled.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert is_text.tolist() == [[True, True, True], [True, False, False]]


def test_a_part_of_a_batch_has_its_own_sources():
    batch = OBJECTIVES["two"](windows(b=8), rng())
    part = batch.rows(slice(2, 5))
    assert np.array_equal(part.source, batch.source[2:5]) and np.array_equal(part.source_mask, batch.source_mask[2:5])
    assert set(part.inputs) == {"source", "source_mask"}


# --------------------------------------------------------------------------------------------------------------- BART


@pytest.mark.parametrize("name", NOISES)
def test_the_decoder_writes_the_whole_text_and_sees_it_one_place_late(name):
    ids = windows()
    batch = OBJECTIVES[name](ids, rng())
    text = ids[:, :-2]
    assert np.array_equal(batch.targets[:, :-1], text) and (batch.targets[:, -1] == END).all()
    assert np.array_equal(batch.ids[:, 1:], text) and (batch.ids[:, 0] == START).all()


def test_masking():
    row = windows(1, 1000)[0]
    masked = NOISES["masking"](row, rng())
    assert (masked == MASK).sum() == round(0.3 * len(row))
    assert np.array_equal(masked[masked != MASK], row[masked != MASK])
    share = np.mean([NOISES["masking"](np.arange(10), rng(i)) == MASK for i in range(4000)], axis=0)
    assert np.allclose(share, 0.3, atol=0.04)  # every place equally often: a standard deviation is 0.007


def test_deletion():
    row = np.arange(1000)
    left = NOISES["deletion"](row, rng())
    assert len(left) == 700 and (np.diff(left) > 0).all(), "in their order"
    counts = Counter(int(i) for seed in range(4000) for i in NOISES["deletion"](np.arange(10), rng(seed)))
    assert all(counts[i] / 4000 == pytest.approx(0.7, abs=0.04) for i in range(10))
    assert len(token_deletion(1.0)(row, rng())) == 1, "never all"


def test_infilling_turns_every_span_into_one_mask():
    """The text that is left stands in its order, and what is missing is 30 % of it."""
    row = np.arange(900)
    for seed in range(20):
        filled = NOISES["infilling"](row, rng(seed))
        kept = filled[filled != MASK]
        assert (np.diff(kept) > 0).all() and len(row) - len(kept) == 270
        gaps = np.diff(np.concatenate([[-1], kept, [900]])) - 1  # tokens that are missing between those that are left
        beside = np.concatenate([[0], filled, [0]]) == MASK
        n_masks = int(beside.sum())
        assert (gaps > 0).sum() <= n_masks, "every gap has a mask of its own, or several"
        assert n_masks == pytest.approx(270 / 3, abs=30)  # a standard deviation is about 5.8


def test_a_mask_stands_where_its_tokens_were():
    for seed in range(200):
        filled = NOISES["infilling"](np.arange(12), rng(seed)).tolist()
        kept = [i for i in filled if i != MASK]
        for before, after in zip([-1, *kept], [*kept, 12], strict=True):
            place = filled.index(before) + 1 if before >= 0 else 0
            is_gap = after - before > 1
            assert not is_gap or filled[place] == MASK, filled


def test_the_lengths_of_spans_are_poisson():
    lengths = np.concatenate([span_lengths(3000, 3.0, rng(seed))[:-1] for seed in range(10)])
    assert lengths.mean() == pytest.approx(3, abs=0.1)  # 10,000 spans: a standard deviation is 0.017
    assert lengths.var() == pytest.approx(3, abs=0.3)  # of a Poisson distribution they are one number
    assert (lengths == 0).mean() == pytest.approx(np.exp(-3), abs=0.01), "insertions too"
    assert all(sum(span_lengths(n, 3.0, rng(n))) == n for n in range(40))


def test_spans_begin_everywhere():
    """Away from the ends, where a span has less room, every token is covered equally often."""
    share = np.zeros(80)
    for seed in range(4000):
        left = NOISES["infilling"](np.arange(80), rng(seed))
        share[left[left != MASK]] += 1 / 4000
    inner = share[8:-8]
    assert np.allclose(inner, inner.mean(), atol=0.04)  # a standard deviation is 0.007
    assert inner.mean() == pytest.approx(0.7, abs=0.02)


def test_sentences_change_places_and_stay_whole():
    row = np.array([10, 11, 5, 12, 6, 13, 14, 15, 5, 16])
    sentences = [(10, 11, 5), (12, 6), (13, 14, 15, 5), (16,)]
    orders = Counter()
    for seed in range(4800):
        left = tuple(NOISES["permutation"](row, rng(seed)).tolist())
        order = tuple(sorted(range(4), key=lambda i: left.index(sentences[i][0])))
        assert left == tuple(token for i in order for token in sentences[i])
        orders[order] += 1
    assert len(orders) == 24 and all(abs(n - 200) < 80 for n in orders.values())  # a standard deviation is 14


def test_a_row_without_the_end_of_a_sentence_stays():
    row = np.arange(10, 20)
    assert np.array_equal(NOISES["permutation"](row, rng()), row)
    ended = np.array([10, 11, 5])
    assert np.array_equal(NOISES["permutation"](ended, rng()), ended)


def test_rotation():
    row = np.arange(8)
    firsts = Counter()
    for seed in range(1600):
        turned = NOISES["rotation"](row, rng(seed))
        assert np.array_equal(np.roll(turned, turned[0]), row)
        firsts[int(turned[0])] += 1
    assert len(firsts) == 8 and all(abs(n - 200) < 80 for n in firsts.values())  # a standard deviation is 13


def test_one_noise_after_the_other():
    row = np.array([10, 11, 5, 12, 13, 14, 6, 15])
    both = one_after_the_other(NOISES["rotation"], NOISES["deletion"])
    draws = rng(3)
    expected = NOISES["deletion"](NOISES["rotation"](row, draws), draws)
    assert np.array_equal(both(row, rng(3)), expected)


# --------------------------------------------------------------------------------------------------------------- MASS


@pytest.mark.parametrize(("t", "rate", "n"), [(40, 0.5, 20), (7, 0.5, 4), (9, 0.1, 1), (9, 1.0, 9), (1, 0.5, 1)])
def test_the_decoder_writes_what_the_source_has_lost(t, rate, n):
    ids = windows(t=t)
    batch = lost_fragment(MASK, VOCAB, rate)(ids, rng())
    text = ids[:, :-1]
    assert batch.targets.shape == (64, n) and batch.source.shape == text.shape
    assert (np.diff(batch.positions, axis=1) == 1).all(), "one fragment, at the positions of the text"
    assert np.array_equal(batch.targets, np.take_along_axis(text, batch.positions, axis=1))
    assert (batch.ids[:, 0] == MASK).all() and np.array_equal(batch.ids[:, 1:], batch.targets[:, :-1])
    outside = np.ones(text.shape, bool)
    np.put_along_axis(outside, batch.positions, False, axis=1)
    assert np.array_equal(batch.source[outside], text[outside])


def test_of_a_fragment_80_percent_are_masked_10_random_and_10_unchanged():
    batch = OBJECTIVES["fragment"](windows(b=2000, t=40), rng(1))
    lost = np.take_along_axis(batch.source, batch.positions, axis=1)
    is_mask, unchanged = lost == MASK, lost == batch.targets
    assert is_mask.mean() == pytest.approx(0.8, abs=0.01)  # 40,000 tokens: a standard deviation is 0.002
    assert unchanged.mean() == pytest.approx(0.1, abs=0.01)
    others = lost[~is_mask & ~unchanged]
    assert others.min() < 20 and others.max() > 980, "from the whole vocabulary"


def test_a_fifth_of_the_fragments_begin_the_text_and_a_fifth_end_it():
    first = OBJECTIVES["fragment"](windows(b=20_000, t=20), rng(2)).positions[:, 0]
    assert first.min() == 0 and first.max() == 10
    share = np.bincount(first) / len(first)
    expected = np.full(11, 0.6 / 11)  # anywhere, the ends too
    expected[[0, 10]] += 0.2
    assert np.allclose(share, expected, atol=0.012)  # a standard deviation is at most 0.0031


# ----------------------------------------------------------------------------------------------------------------- T5


def told_apart(row) -> list[tuple[int, list[int]]]:
    """[(sentinel, the tokens behind it), ...]; what stands before the first one has the sentinel 0."""
    parts = [(0, [])]
    for token in row.tolist():
        if token in SENTINELS:
            parts.append((token, []))
        else:
            parts[-1][1].append(token)
    return parts


@pytest.mark.parametrize(
    ("t", "rate", "n_lost", "n_spans"), [(101, 0.15, 15, 5), (41, 0.15, 6, 2), (21, 0.5, 10, 3), (3, 0.15, 1, 1),
                                         (9, 1.0, 7, 1), (512, 0.15, 77, 26)],
)  # fmt: skip
def test_source_and_targets_together_are_the_text(t, rate, n_lost, n_spans):
    ids = windows(t=t)
    batch = lost_spans(SENTINELS, START, END, rate)(ids, rng())
    assert (batch.source[:, -1] == END).all() and (batch.targets[:, -1] == END).all()
    assert (batch.ids[:, 0] == START).all() and np.array_equal(batch.ids[:, 1:], batch.targets[:, :-1])
    for row, source, targets in zip(ids, batch.source[:, :-1], batch.targets[:, :-1], strict=True):
        left, lost = told_apart(source), told_apart(targets)
        assert [sentinel for sentinel, _ in left] == [sentinel for sentinel, _ in lost] == [0, *SENTINELS[:n_spans]]
        spans = [span for _, span in lost[1:]]
        texts = [text for _, text in left]
        assert lost[0][1] == [] and texts.pop() == [], "text comes first, and a span last"
        assert sum(map(len, spans)) == n_lost and all(spans) and all(texts)
        whole = [token for text, span in zip(texts, spans, strict=True) for token in text + span]
        assert whole == row[:-2].tolist()


def test_the_lengths_of_lost_spans():
    batch = OBJECTIVES["spans"](windows(b=4000, t=101), rng(1))
    lengths = [len(span) for row in batch.targets[:, :-1] for _, span in told_apart(row)[1:]]
    assert np.mean(lengths) == 3
    shares = np.bincount(lengths, minlength=12)[1:12] / len(lengths)
    parts = np.arange(1, 12)  # one of 5 parts of 15: the other 4 share what is left, in comb(14 - n, 3) ways
    expected = [math.comb(14 - n, 3) / math.comb(14, 4) for n in parts]
    assert np.allclose(shares, expected, atol=0.015)  # 20,000 spans: a standard deviation is at most 0.0032


def test_all_divisions_into_parts_are_alike():
    divisions = Counter(tuple(random_parts(5, 3, rng(seed)).tolist()) for seed in range(6000))
    assert set(divisions) == {(1, 1, 3), (1, 2, 2), (1, 3, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1)}
    assert all(abs(n - 1000) < 150 for n in divisions.values())  # a standard deviation is 29
    assert random_parts(4, 1, rng()).tolist() == [4] and random_parts(3, 3, rng()).tolist() == [1, 1, 1]


# --------------------------------------------------------------------------------------------------------- translation

TAB, LINE = 8, 9


def test_pairs_of_any_lengths_become_a_batch():
    batch = paired([[11, 12, 13], [14]], [[21], [22, 23]], START, END, PAD)
    assert batch.source.tolist() == [[11, 12, 13], [14, PAD, PAD]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.ids.tolist() == [[START, 21, END], [START, 22, 23]]
    assert batch.targets.tolist() == [[21, END, ops.IGNORED], [22, 23, END]]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([11, TAB, 21, LINE, 12, 13, TAB, 22, LINE, 14], ([12, 13], [22])),  # whole lines first
        ([11, TAB, 21, 22, LINE, 12, TAB, 23], ([11], [21, 22])),  # the last is cut, the first may be whole
        ([LINE, 11, TAB, 21, LINE], ([11], [21])),
        ([11, 12, LINE, 13, TAB, LINE, TAB, 21, LINE, 14, TAB, 22, TAB, 23, LINE], None),  # no line has two sides
        ([11, TAB, 21, 22], None),
        ([LINE, LINE], None),
    ],
)
def test_of_a_window_the_first_whole_line_is_taken(row, expected):
    found = first_pair(np.array(row), TAB, LINE)
    assert expected == (found and tuple(side.tolist() for side in found))


def test_translation_takes_a_line_of_each_window():
    ids = np.array([[11, TAB, 21, LINE, 12, 13, TAB, 22, 23, LINE], [14] * 10, [LINE, 15, TAB, 24, LINE] + [15] * 5])
    before = ids.copy()
    batch = translated(TAB, LINE, START, END, PAD)(ids.astype(np.uint16), rng())
    assert batch.source.tolist() == [[12, 13], [PAD, PAD], [15, PAD]]
    assert batch.source_mask.tolist() == [[True, True], [True, False], [True, False]]
    none = ops.IGNORED
    assert batch.targets.tolist() == [[22, 23, END], [none, none, none], [24, END, none]]
    assert batch.ids[[0, 2]].tolist() == [[START, 22, 23], [START, 24, END]] and batch.ids.dtype == np.int64
    assert np.array_equal(ids, before) and batch.n_targets == 5
    nothing = translated(TAB, LINE, START, END, PAD)(ids[1:2], rng())
    assert nothing.n_targets == 0 and nothing.ids.shape == (1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: token_masking(MASK, 1.5), "rate is 1.5: give a share from 0 to 1"),
        (lambda: token_deletion(-0.1), "rate is -0.1: give a share from 0 to 1"),
        (lambda: text_infilling(MASK, 2), "rate is 2: give a share from 0 to 1"),
        (lambda: text_infilling(MASK, mean_length=0), "mean_length is 0: give a number above 0"),
        (lambda: lost_fragment(VOCAB, VOCAB), "mask_id is 1000: give a token of the vocabulary, 0 to 999"),
        (lambda: lost_fragment(MASK, VOCAB, 0), "rate 0: choose a share"),
        (lambda: paired([[1]], [[1], [2]], START, END, PAD), "1 sources and 2 targets: give one target for each"),
        (lambda: paired([], [], START, END, PAD), "0 sources and 0 targets"),
        (lambda: paired([[1], []], [[1], [2]], START, END, PAD), "source number 1, counted from 0, holds no token"),
        (lambda: lost_spans(SENTINELS, START, END, 2), "rate is 2: give a share from 0 to 1"),
        (lambda: lost_spans(SENTINELS, START, END, mean_length=0.5), "mean_length is 0.5: give a number of 1 or more"),
        (lambda: OBJECTIVES["spans"](windows(t=2), rng()), "2 tokens: a source and what is written .* 3 or more"),
        (lambda: OBJECTIVES["spans"](windows(t=900), rng()), "899 tokens lose 45 spans, and there are 32 sentinels"),
        (lambda: OBJECTIVES["two"](windows(t=1), rng()), "1 tokens: a source and what is written .* 2 or more"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
