"""Unigram: the lattice against all ways by hand, EM, pruning, sampling, rounding as in SentencePiece, training."""

import math
import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from minigpt.errors import InputError
from minigpt.jobs import vocabulary
from minigpt.tokenizer import spiece, tokenizer_json, word_counts
from minigpt.tokenizer import unigram_training as training
from minigpt.tokenizer.lattice import (
    Vocabulary,
    backward,
    best_way,
    expected_counts,
    forward,
    lattice,
    log_add,
    rounded_viterbi,
    sample_path,
    viterbi,
)
from minigpt.tokenizer.spiece import NormalizerSpec, Piece, SentencePieceFile, TrainerSpec
from minigpt.tokenizer.unigram import Unigram

LOGS = {"a": math.log(0.4), "b": math.log(0.2), "ab": math.log(0.1), "ba": math.log(0.25), "bab": math.log(0.05)}
SIX = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5, "buns": 3}
SIX_PIECES = ["h", "u", "g", "p", "n", "b", "s", "ug", "un", "hug", "pun"]
WORDS = {  # with the character behind each
    "▁the▁": 9, "▁the\n": 1, "▁cat▁": 3, "▁cat\n": 1, "▁cats▁": 3, "▁sat▁": 5, "▁on▁": 4, "▁on\n": 1, "▁mat\n": 3,
    "▁hat\n": 3, "▁that▁": 6, ",▁": 5, "▁3▁": 2,
}  # fmt: skip


def all_ways(word, scores):
    """Every way to cut a word into pieces that have a score: [(pieces, score)]."""
    found = []
    for n in range(len(word)):
        for inside in combinations(range(1, len(word)), n):
            places = [0, *inside, len(word)]
            pieces = [word[i:j] for i, j in zip(places, places[1:], strict=False)]
            if all(piece in scores for piece in pieces):
                found.append((pieces, sum(scores[piece] for piece in pieces)))
    return found


# --- the lattice -----------------------------------------------------------------------------------------------------


def test_viterbi_by_hand():
    """aba is a b a (.032), ab a (.04) or a ba (.1)."""
    path = viterbi(lattice("aba", Vocabulary(LOGS)))
    assert path.pieces == ["a", "ba"] and path.score == pytest.approx(math.log(0.1))
    pieces, margin = best_way("aba", Vocabulary(LOGS))
    assert pieces == ["a", "ba"] and margin == pytest.approx(math.log(0.1 / 0.04))
    nodes = lattice("aba", Vocabulary(LOGS))
    assert [[(begin, piece) for begin, piece, _ in ending] for ending in nodes] == [
        [],
        [(0, "a")],
        [(0, "ab"), (1, "b")],
        [(1, "ba"), (2, "a")],
    ]


def test_the_lattice_has_the_best_the_sum_and_the_counts_of_all_ways():
    rng = random.Random(1)
    for _ in range(60):
        letters = ["a", "b", "c"]
        pieces = letters + ["".join(rng.choices(letters, k=rng.randint(2, 4))) for _ in range(6)]
        scores = {piece: math.log(rng.uniform(0.01, 1)) for piece in pieces}
        word = "".join(rng.choices(letters, k=rng.randint(1, 8)))
        ways = all_ways(word, scores)
        nodes = lattice(word, Vocabulary(scores))
        best = max(ways, key=lambda way: way[1])
        assert viterbi(nodes).pieces == best[0] and viterbi(nodes).score == pytest.approx(best[1])
        assert best_way(word, Vocabulary(scores))[0] == best[0]
        total = math.fsum(math.exp(score) for _, score in ways)
        assert forward(nodes)[-1] == pytest.approx(math.log(total), abs=1e-12)
        assert backward(nodes)[0] == pytest.approx(math.log(total), abs=1e-12)
        counts = Counter()
        for way, score in ways:
            for piece in way:
                counts[piece] += math.exp(score) / total
        found, whole = expected_counts(nodes)
        assert whole == forward(nodes)[-1]
        for piece in {*counts, *found}:
            assert found[piece] == pytest.approx(counts[piece], abs=1e-12)


def test_sums_of_what_fits_into_no_number():
    assert log_add(-2000.0, -2000.0) == pytest.approx(-2000 + math.log(2))
    assert log_add(-math.inf, -3.0) == log_add(-3.0, -math.inf) == -3.0
    assert log_add(-math.inf, -math.inf) == -math.inf
    nodes = lattice("ab" * 3000, Vocabulary({"a": -9.0, "b": -9.0, "ab": -18.0}))
    assert forward(nodes)[-1] == pytest.approx(3000 * (-18 + math.log(2)), rel=1e-9)
    assert backward(nodes)[0] == pytest.approx(forward(nodes)[-1], rel=1e-9)


def test_between_equal_ways_the_last_piece_is_the_longest():
    """The piece that begins first is found first, and only a better one takes its place."""
    vocabulary = Vocabulary({"a": -1.0, "aa": -2.0})
    assert viterbi(lattice("aaa", vocabulary)) == (["a", "aa"], -3.0)
    assert best_way("aaa", vocabulary) == (["a", "aa"], 0.0)
    assert rounded_viterbi(lattice("aaa", vocabulary), -5.0) == (["a", "aa"], -8.0)


def test_a_character_without_a_piece_costs_ten_more_than_the_least_likely():
    vocabulary = Vocabulary({"a": -1.0, "xy": -30.0})
    assert vocabulary.unknown == -40.0
    assert viterbi(lattice("axy", vocabulary)) == (["a", "xy"], -31.0)
    assert best_way("axy", vocabulary) == (["a", "xy"], 50.0)
    assert viterbi(lattice("yx", vocabulary)).pieces == best_way("yx", vocabulary)[0] == ["y", "x"]
    assert best_way("", vocabulary) == ([], math.inf)
    assert Vocabulary({}).unknown == -10


# --- sampling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.3, 0.0])
def test_ways_are_drawn_as_often_as_they_are_likely(alpha):
    ways = all_ways("abab", LOGS)
    weights = np.array([math.exp(alpha * score) for _, score in ways])
    shares = weights / weights.sum()
    generator = np.random.default_rng(5)
    nodes = lattice("abab", Vocabulary(LOGS))
    n = 4000
    drawn = Counter(tuple(sample_path(nodes, alpha, generator)) for _ in range(n))
    assert set(drawn) <= {tuple(way) for way, _ in ways}
    for (way, _), share in zip(ways, shares, strict=True):
        assert abs(drawn[tuple(way)] / n - share) < 4.5 * math.sqrt(share * (1 - share) / n)


def test_a_sample_of_a_text_spells_it_and_a_great_alpha_takes_the_best():
    model = Unigram(["<unk>", *LOGS], [0.0, *LOGS.values()], [spiece.UNKNOWN, *[spiece.NORMAL] * 5], unknown_id=0)
    generator = np.random.default_rng(0)
    found = {tuple(model.sample("abbaab", 0.2, generator)) for _ in range(50)}
    assert len(found) > 5
    assert {"".join(model.tokens[i] for i in ids) for ids in found} == {"abbaab"}
    assert {tuple(model.sample("aba", 200.0, generator)) for _ in range(20)} == {tuple(model.encode("aba"))}
    assert model.sample("xxa", 0.5, generator) == [0, 1]
    assert model.sample("", 0.5, generator) == []
    for alpha in (-1, math.nan, math.inf, "1"):
        with pytest.raises(InputError, match="alpha is"):
            model.sample("a", alpha, generator)


# --- EM --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (1.0, -0.57721566490153286061),  # minus Euler's constant
        (0.5, -1.96351002602142347944),
        (2.0, 0.42278433509846713939),
        (10.0, 2.25175258906672110765),
        (1e-3, -1000.57557193181030047),
        (100.0, 4.60016185273808740020),
        (1e8, 18.4206807389523655),
    ],
)
def test_digamma(x, value):
    """Abramowitz and Stegun, table 6.1 and 6.3."""
    assert training.digamma(x) == pytest.approx(value, rel=4e-15, abs=1e-15)


def test_digamma_follows_its_recurrence():
    for x in np.geomspace(0.01, 1e5, 200).tolist():
        assert training.digamma(x + 1) - training.digamma(x) == pytest.approx(1 / x, rel=1e-9)


def test_a_piece_whose_share_is_too_small_for_a_number_goes():
    assert training.maximise({"a": 4.0, "b": 5e-324}, sparse=False) == {"a": 0.0}


def test_em_makes_six_words_likelier_with_every_step():
    scores = dict.fromkeys(SIX_PIECES, math.log(1 / len(SIX_PIECES)))
    found = []
    for _ in range(8):
        counts, log_likelihood = training.expect(SIX, Vocabulary(scores))
        found.append(log_likelihood)
        scores = training.maximise(counts, sparse=False)
        assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)
    by_hand = sum(n * math.log(sum(math.exp(s) for _, s in all_ways(word, scores))) for word, n in SIX.items())
    assert training.expect(SIX, Vocabulary(scores))[1] == pytest.approx(by_hand)
    rises = np.diff(found)
    assert (rises > 0).all() and rises[0] > 20
    letters = sum(n * len(word) for word, n in SIX.items())
    counts, _ = training.expect(SIX, Vocabulary(scores))
    assert sum(count * len(piece) for piece, count in counts.items()) == pytest.approx(letters)


def test_the_first_step_by_hand():
    """ab, twice, from a b 1/4 each and ab 1/2: ways 1/16 and 1/2, so that ab is expected in 8 of 9."""
    scores = {"a": math.log(0.25), "b": math.log(0.25), "ab": math.log(0.5)}
    counts, log_likelihood = training.expect({"ab": 2}, Vocabulary(scores))
    assert counts == pytest.approx({"a": 2 / 9, "b": 2 / 9, "ab": 16 / 9})
    assert log_likelihood == pytest.approx(2 * math.log(9 / 16))
    assert training.maximise(counts, sparse=False) == pytest.approx(
        {"a": math.log(0.1), "b": math.log(0.1), "ab": math.log(0.8)}
    )


def test_the_sparse_step_drops_what_is_expected_less_than_half_a_time():
    scores = training.maximise({"a": 0.49, "b": 0.5, "c": 20.0})
    assert set(scores) == {"b", "c"}
    assert scores["b"] == pytest.approx(training.digamma(0.5) - training.digamma(20.5))
    assert scores["b"] < math.log(0.5 / 20.5) - 1 and abs(scores["c"] - math.log(20 / 20.5)) < 0.01
    assert set(training.maximise({"a": 0.25, "b": 0.25})) == {"a", "b"}, "where all are rare, all stay"


def test_what_has_no_piece_is_counted_for_none():
    counts, log_likelihood = training.expect({"xa": 3}, Vocabulary({"a": -1.0}))
    assert counts == {"a": 3.0} and log_likelihood == pytest.approx(3 * (-1 - 11))


# --- seeds and pruning -----------------------------------------------------------------------------------------------


def test_seeds_are_the_substrings_that_go_on_in_different_ways():
    """By hand: abc goes on with d and e, cd with a space and the end of a line; ab and abcd always go on alike."""
    followed = {"abcd▁": 2, "abce▁": 1, "xcd\n": 1, "xx▁": 1, "xyz▁": 1}
    seeds = training.seed_pieces(followed, 100, 16)
    assert set(seeds) == {*"abcdexyz", "abc", "bc", "cd"}
    weights = {piece: math.exp(score) for piece, score in seeds.items()}
    assert weights["abc"] == pytest.approx(3 * 3 / 3 * weights["d"]) == pytest.approx(3 * weights["a"])
    assert weights["cd"] == pytest.approx(2 * 3 / 3 * weights["d"]), "twice before a space, once at an end"
    assert math.fsum(weights.values()) == pytest.approx(1)
    assert set(training.seed_pieces(followed, 1, 16)) == {*"abcdexyz", "abc"}
    assert max(map(len, training.seed_pieces({"abcdabcd\n": 2}, 100, 3))) == 3


def test_a_word_that_a_space_always_follows_is_no_seed():
    """As in SentencePiece: the end of a word is a character like another."""
    assert "▁very" not in training.seed_pieces({"▁very▁": 20, "▁ver\n": 1})
    assert "▁very" in training.seed_pieces({"▁very▁": 20, "▁very\n": 1, "▁ver\n": 1})
    assert "▁very" not in training.seed_pieces({"▁very\n": 20})


def test_pruning_leaves_out_what_is_missed_least():
    scores = {"a": -2.0, "b": -2.0, "c": -2.5, "ab": -2.5, "bc": -4.4, "abc": -9.0, "ca": -3.0}
    words = {"ab": 10, "bc": 2, "ca": 5, "c": 1}
    assert set(training.prune(words, Vocabulary(scores), 0)) == {"ab", "ca", "bc", "c"}
    kept = training.prune({**words, "b": 1, "a": 1}, Vocabulary(scores), 5)
    assert set(kept) == {"a", "b", "c", "ab", "ca"}, "abc is not used, bc is cheap, characters stay"
    assert kept == {piece: scores[piece] for piece in kept}


def test_the_loss_of_a_piece_by_hand():
    """ab is 6 of 10 pieces; without it they are 16, of which a are 9 and b 7."""
    uses = {"ab": 6, "a": 3, "b": 1}
    lost = math.log(6 / 10) - math.log(9 / 16) - math.log(7 / 16)
    assert training.loss(uses, 10, "ab", ["a", "b"]) == pytest.approx(lost)


def test_the_way_without_a_piece():
    vocabulary = Vocabulary({"a": -2.0, "b": -2.0, "ab": -2.5, "aba": -3.0})
    assert training.without("aba", vocabulary).pieces == ["ab", "a"]
    assert training.without("a", vocabulary) is None


def test_words_are_split_between_scripts_and_at_rare_characters():
    words = {"▁don't": 2, "▁x2,": 1, "▁한국어abc": 1, "カナ漢字ーで": 1, "▁é\u0301a": 1, "▁ab": 1, "▁": 1, "aЖ": 1}
    parts = word_counts.parts_of(words, set("".join(words)) - {"b", "国"})
    assert parts == {
        "▁don": 2, "'": 2, "t": 2, "▁x": 1, "2,": 1, "▁한국어": 1, "a": 2, "c": 1, "カナ漢字ーで": 1, "▁é\u0301a": 1,
        "▁a": 1, "▁": 1, "Ж": 1,
    }  # fmt: skip


def test_parts_keep_the_character_behind_them():
    words = word_counts.followed_words(["don't", "x국y", "x"])
    assert words == ["▁don't▁", "▁x국y▁", "▁x\n"] and word_counts.followed_words([]) == []
    parts = word_counts.followed_parts(Counter(words), set("▁dontx'y"))
    assert parts == {"▁don'": 1, "'t": 1, "t▁": 1, "▁x\0": 1, "y▁": 1, "▁x\n": 1}
    assert word_counts.without_behind(parts) == {"▁don": 1, "'": 1, "t": 1, "▁x": 2, "y": 1}


def test_characters_are_taken_until_they_cover_the_text():
    words = {"aaab": 2, "bc": 1, "d": 1}
    assert word_counts.characters_of(words, 1.0) == ["a", "b", "c", "d"]
    assert word_counts.characters_of(words, 0.8) == ["a", "b"]
    assert training.finish({"ab": -1.0, "a": -2.0, "aab": -3.0}, ["a", "z"], 3) == {"ab": -1.0, "a": -2.0, "z": -3.0}


# --- training --------------------------------------------------------------------------------------------------------


def test_a_trained_vocabulary_has_its_size_its_characters_and_common_words():
    model = Unigram.train(WORDS, 22, coverage=1.0, user_defined=["\n"], progress=False)
    assert model.tokens[:4] == ["<unk>", "<s>", "</s>", "\n"] and len(model.tokens) == 22
    assert set("▁thecasonm,3") <= set(model.tokens)
    assert model.kinds[:5] == [spiece.UNKNOWN, spiece.CONTROL, spiece.CONTROL, spiece.USER_DEFINED, spiece.NORMAL]
    assert model.scores[4:] == sorted(model.scores[4:], reverse=True)
    assert [model.tokens[i] for i in model.encode("▁the▁cats\n")] == ["▁the", "▁cat", "s", "\n"]
    assert all(len(set(piece) & set(",3")) < 1 for piece in model.tokens if len(piece) > 2)
    again = Unigram.train(dict(reversed(WORDS.items())), 22, coverage=1.0, user_defined=["\n"], progress=False)
    assert again.tokens == model.tokens
    content = model.to_file()
    assert spiece.parse(spiece.dump(content)) == content, "scores have 32 bits, as the file has"
    assert (content.trainer.unk_id, content.trainer.eos_id, content.trainer.pad_id) == (0, 2, -1)
    assert Unigram.of(content).encode("▁that▁mat\n") == model.encode("▁that▁mat\n")


def test_a_model_without_a_piece_for_what_is_unknown_is_no_file_of_sentencepiece():
    model = Unigram(["a", "b"], [-1.0, -2.0], unknown_id=None)
    with pytest.raises(InputError, match="a piece for what is unknown"):
        model.to_file()


def test_a_text_is_counted_by_its_words_and_gives_no_more_pieces_than_it_has():
    model = Unigram.train("the cat\nthe  cats", 500, progress=False)
    counts = {"▁the▁": 2, "▁cat\n": 1, "▁cats\n": 1}
    assert model.tokens == Unigram.train(counts, 500, progress=False).tokens
    assert 10 < len(model.tokens) < 20


def test_every_step_of_training_is_there_to_be_looked_at():
    seeds = {piece: -1.0 for word in SIX for end in range(1, 5) for begin in range(end) if (piece := word[begin:end])}
    steps = list(training.learn(SIX, 9, seeds))
    assert len(steps) % training.SUB_ITERATIONS == 0
    sizes = [len(step.scores) for step in steps]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 9 * training.SPARE
    assert all(step.log_likelihood < 0 for step in steps)
    assert len(training.maximise(training.expect(SIX, Vocabulary(steps[0].scores))[0])) > sizes[1], "it is pruned"


@pytest.mark.parametrize(
    ("words", "size", "options", "why"),
    [
        (WORDS, 14, {"coverage": 1.0}, "14 pieces do not hold the 12 characters of the text: give 15 or more$"),
        ({}, 30, {}, "the text is empty"),
        (" \n", 30, {}, "the text is empty"),
        (WORDS, "30", {}, "must be a whole number"),
        (WORDS, 30, {"coverage": 2}, "coverage is 2"),
        (WORDS, 30, {"longest": 0}, "longest is 0"),
        ({"▁the▁": 2, "▁cat": 1}, 30, {}, "'▁cat' lacks the character behind it: give '▁cat▁' where another word"),
        ({"▁": 2}, 30, {}, "'▁' lacks the character behind it"),
    ],
)
def test_what_cannot_be_trained_is_refused(words, size, options, why):
    with pytest.raises(InputError, match=why):
        Unigram.train(words, size, progress=False, **options)


# --- encoding --------------------------------------------------------------------------------------------------------

PIECES = [
    Piece("<unk>", 0.0, spiece.UNKNOWN), Piece("<s>", 0.0, spiece.CONTROL), Piece("▁", -2.0), Piece("▁a", -1.5),
    Piece("b", -3.25), Piece("a", -3.0), Piece("ab", -4.0), Piece("[X]", 0.0, spiece.USER_DEFINED),
    Piece("aa", -1.0, spiece.UNUSED), Piece("bb", -6.0),
]  # fmt: skip


def model_of(pieces, **trainer):
    return Unigram.of(SentencePieceFile(pieces, TrainerSpec(**trainer), NormalizerSpec()))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("▁ab", [3, 4]),  # -4.75 against -6 for ▁ ab
        ("▁bab", [2, 4, 6]),
        ("▁aa", [3, 5]),  # the piece aa is not used
        ("▁[X]a", [2, 7, 5]),
        ("<s>", [0]),  # three characters without a piece, not the control piece
        ("xy▁xyb", [0, 2, 0, 4]),
        ("▁a▁a", [3, 3]),
        ("bbb", [4, 9]),  # b + bb and bb + b are equal: the last piece is the longest
    ],
)
def test_ids(text, ids):
    assert model_of(PIECES).encode(text) == ids


def test_bytes_stand_for_characters_without_a_piece():
    pieces = PIECES + [Piece(f"<0x{byte:02X}>", 0.0, spiece.BYTE) for byte in range(256)]
    assert model_of(pieces, byte_fallback=True).encode("▁aé") == [3, 10 + 0xC3, 10 + 0xA9]
    with pytest.raises(InputError, match="no Unigram model"):
        model_of(pieces, byte_fallback=True, model_type=spiece.BPE)
    with pytest.raises(InputError, match="must be a str"):
        model_of(PIECES).encode(b"a")


def test_what_has_no_piece_costs_as_many_bits_as_the_scores_have():
    assert Unigram(["a"], [-0.1], unknown_id=0, rounds=False).vocabulary.unknown == -0.1 - 10
    assert Unigram(["a"], [-0.1], unknown_id=0).vocabulary.unknown == float(np.float32(-10.1))


def test_a_vocabulary_without_a_piece_for_the_unknown_refuses():
    with pytest.raises(InputError, match="cannot spell 'x'"):
        Unigram(["a"], [-1.0], unknown_id=None).encode("ax")


def test_a_piece_over_a_space_is_found():
    assert model_of([*PIECES, Piece("a▁b", -1.0)]).encode("▁ba▁b") == [2, 4, 10]


@pytest.mark.parametrize("rounds", [True, False])
def test_words_are_cut_as_they_are_in_the_whole_text(rounds):
    """Sums of 32 bits are rounded, and what stands before decides between ways that are nearly equal."""
    scores = [-math.pi * k / 7 for k in range(3, 9)]
    kinds = [spiece.UNKNOWN, *[spiece.NORMAL] * 6]
    model = Unigram(["<unk>", "▁", "a", "aa", "aaa", "▁a", "b"], [0.0, *scores], kinds, unknown_id=0, rounds=rounds)
    rng = random.Random(3)
    text = "".join("▁" + "".join(rng.choices("aaab", k=rng.randint(1, 9))) for _ in range(3000))
    alone = [piece for word in text.split("▁")[1:] for piece in best_way("▁" + word, model.vocabulary)[0]]
    whole = rounded_viterbi(lattice(text, model.vocabulary), 0.0)[0]
    assert alone != whole, "the text has words that depend on what stands before"
    assert [model.tokens[i] for i in model.encode(text)] == (whole if rounds else alone)


def test_the_sum_of_32_bits_is_compared_and_not_that_before_it_is_rounded():
    vocabulary = Vocabulary({piece: float(np.float32(s)) for piece, s in (("a", -6.7), ("aa", -13.1), ("aaa", -12.5))})
    pieces, score = rounded_viterbi(lattice("aaaa", vocabulary), -514.0)
    assert pieces == ["a", "aaa"] and score == np.float32(-533.2)


def test_a_word_of_two_nearly_equal_ways_depends_on_a_sum_that_is_great():
    """ab and a b differ by 2e-4: a sum of 500 keeps them apart, one of 50,000 does not."""
    tokens = ["<unk>", "▁", "ab", "a", "b"]
    model = Unigram(tokens, [0.0, -3.0, -5.0001, -2.5, -2.4999], unknown_id=0)
    limit = model._cut("▁ab").limit
    assert 100 < limit < 1000
    text = "▁ab" * 9000
    whole = rounded_viterbi(lattice(text, model.vocabulary), 0.0)[0]
    assert [tokens[i] for i in model.encode(text)] == whole
    assert {*whole[:40]} == {"▁", "a", "b"} and "ab" in whole


def test_sums_that_are_too_great_begin_again_at_nothing(monkeypatch):
    scores = [float(np.float32(-math.pi * k / 7)) for k in range(3, 9)]
    vocabulary = Vocabulary(dict(zip(["▁", "a", "aa", "aaa", "▁a", "b"], scores, strict=True)))
    word = "▁aabaaaba" * 40
    far = rounded_viterbi(lattice(word, vocabulary), 0.0)[1]
    monkeypatch.setattr("minigpt.tokenizer.lattice.FARTHEST", 100.0)
    _, rest = rounded_viterbi(lattice(word, vocabulary), -99.0)
    assert far < -500 and -100 < rest <= 0
    assert rounded_viterbi(lattice("a", vocabulary), -100.5)[1] == pytest.approx(scores[1])
    monkeypatch.setattr("minigpt.tokenizer.lattice.FARTHEST", 30.0)
    nodes = lattice("a" * 9, Vocabulary({"a": -15.0, "aaa": -20.0}))  # the second place is reached by a a, -30
    assert rounded_viterbi(nodes, 0.0)[0] == ["aaa"] * 3, "a piece over the place where sums begin again"


def by_the_rounded_sums_of_the_whole(text, scores):
    """The pieces of a text whose characters are all pieces, found without words: each place has one sum of 32 bits,
    and where the sum of a place is more than 100,000 from 0, all places that are reached begin again from there.
    """
    best = {0: np.float32(0)}
    came_from = {}
    for begin in range(len(text)):
        if abs(best[begin]) > 100_000:
            far = best[begin]
            for place in best:
                best[place] -= far
        for end in range(begin + 1, min(begin + 4, len(text)) + 1):
            if text[begin:end] in scores:
                total = best[begin] + np.float32(scores[text[begin:end]])
                if end not in best or total > best[end]:
                    best[end] = total
                    came_from[end] = begin
        del best[begin]
    pieces = []
    end = len(text)
    while end > 0:
        pieces.append(text[came_from[end] : end])
        end = came_from[end]
    return pieces[::-1]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_text_of_any_length_is_cut_by_its_rounded_sums(sign):
    """Sums of 300,000, of which three begin again; above 0 too, as pieces have them that a user named."""
    tokens = ["▁", "a", "aa", "aaa", "▁a", "b"]
    scores = [sign * math.pi * k * 5 for k in range(3, 9)]
    model = Unigram(["<unk>", *tokens], [0.0, *scores], [spiece.UNKNOWN, *[spiece.NORMAL] * 6], unknown_id=0)
    rng = random.Random(5)
    text = "".join("▁" + "".join(rng.choices("aaab", k=rng.randint(1, 9))) for _ in range(2000))
    found = [model.tokens[i] for i in model.encode(text)]
    assert abs(sum(model.scores[model.ids[piece]] for piece in found)) > 300_000
    assert found == by_the_rounded_sums_of_the_whole(text, dict(zip(tokens, scores, strict=True)))


def test_a_word_is_cut_once():
    model = model_of(PIECES)
    cut = []
    of_one = model._cut
    model._remembered._compute = lambda word: cut.append(word) or of_one(word)
    model.encode("▁ab▁b" * 10)
    assert cut == ["▁ab", "▁b"]


# --- tokenizer.json --------------------------------------------------------------------------------------------------


def test_the_model_of_a_tokenizer_json_is_read_and_written():
    saved = {"type": "Unigram", "unk_id": 1, "vocab": [["▁a", -1.5], ["<unk>", 0.0], ["b", -3]], "byte_fallback": False}
    model = tokenizer_json.model_of({"model": saved}, "tokenizer.json")
    assert model.encode("▁ab") == [0, 2] and model.encode("xx") == [1] and not model.rounds
    assert model.to_json() == saved
    assert Unigram.of_json([["a", -1.0]]).unknown_id is None


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ({}, "the Unigram in its model lacks the setting 'vocab'"),
        ({"vocab": []}, "its vocab must be a list of pairs"),
        ({"vocab": {"a": -1.0}}, "has vocab {'a': -1.0}, which is of another type: expected a list"),
        ({"vocab": [["a", math.nan]]}, "list of pairs"),
        ({"vocab": [["a", True]]}, "list of pairs"),
        ({"vocab": [[1, -1.0]]}, "list of pairs"),
        ({"vocab": [["a", -1.0]], "unk_id": 1}, "unk_id is 1: expected null or the id of a piece, 0 to 0"),
        ({"vocab": [["a", -1.0]], "unk_id": False}, "unk_id False, which .*: expected a whole number or null"),
        ({"vocab": [["a", -1.0]], "byte_fallback": 1}, "byte_fallback 1, which .*: expected true or false"),
        ({"vocab": [["a", -1.0]], "byte_fallback": True}, "needs the pieces <0x00> to <0xFF>"),
    ],
)
def test_a_damaged_model_of_a_tokenizer_json_is_refused(model, why):
    with pytest.raises(InputError, match=f"here.json: .*{why}"):
        tokenizer_json.model_of({"model": {"type": "Unigram"} | model}, "here.json")


def test_a_text_that_gives_less_than_was_wanted_is_said(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 9, encoding="utf-8")
    options = {"kind": "unigram", "data": str(tmp_path / "a.txt"), "vocab": 900, "out": str(tmp_path / "out")}
    vocabulary.train_vocabulary(vocabulary.VocabularyOptions(**options))
    assert "the text gives no more tokens than these: 900 were wanted" in capsys.readouterr().out
