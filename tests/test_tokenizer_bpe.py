"""Byte-pair encoding: training against a naive trainer and the `tokenizers` library, and applying merges."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.errors import InputError
from minigpt.tokenizer import bpe

TOY = {"low": 5, "lower": 2, "newest": 6, "widest": 3}

small_texts = st.dictionaries(st.text("ab1", min_size=1, max_size=9), st.integers(1, 5), max_size=6)


def key(pair, ties, symbols) -> list:
    """By which, of pairs that are equally frequent, the first is merged."""
    made = "".join(pair)
    shortest_first = [len(made), made] if ties == "sentencepiece" else []
    return shortest_first + [symbols.index(symbol) for symbol in pair]


def naive_merges(word_counts, ties, suffix="</w>", min_frequency=1):
    """All merges with their counts, counting every pair again at every step."""
    words = {word: bpe.split_word(word, suffix) for word in word_counts}
    symbols = bpe.base_symbols(word_counts, suffix)
    while True:
        counts = Counter()
        for word, n in word_counts.items():
            for pair in pairwise(words[word]):
                counts[pair] += n
        if not counts or max(counts.values()) < min_frequency:
            return
        most = max(counts.values())
        tied = [pair for pair, n in counts.items() if n == most]
        best = max(tied) if ties == "subword-nmt" else min(tied, key=lambda pair: key(pair, ties, symbols))
        yield best, most
        symbols.append("".join(best))
        for word, spelled in words.items():
            joined = []
            for symbol in spelled:
                if joined and (joined[-1], symbol) == best:
                    joined[-1] = joined[-1] + symbol + "\0"  # closed: it takes no part in another pair of this step
                else:
                    joined.append(symbol)
            words[word] = [symbol.removesuffix("\0") for symbol in joined]


def test_the_toy_example_of_sennrich():
    found = list(bpe.learn(TOY))
    expected = (
        "s t</w> 9, e st</w> 9, l o 7, w est</w> 6, n e 6, ne west</w> 6, lo w</w> 5, w i 3, wi d 3, wid est</w> 3, "
        "w e 2, we r</w> 2, lo wer</w> 2"
    )
    assert ", ".join(f"{left} {right} {n}" for (left, right), n in found) == expected
    assert bpe.train(TOY, 4, progress=False) == [pair for pair, _ in found[:4]]


@pytest.mark.parametrize("ties", bpe.TIES)
@pytest.mark.parametrize("suffix", ["</w>", ""])
@settings(deadline=None)
@given(word_counts=small_texts, min_frequency=st.integers(0, 3))
def test_training_is_what_counting_again_at_every_step_gives(ties, suffix, word_counts, min_frequency):
    fast = list(bpe.learn(word_counts, ties=ties, suffix=suffix, min_frequency=min_frequency))
    assert fast == list(naive_merges(word_counts, ties, suffix, max(min_frequency, 1)))


@settings(deadline=None)
@given(word_counts=small_texts)
def test_trained_to_the_end_every_word_is_one_symbol(word_counts):
    merges = bpe.train(word_counts, 1000, min_frequency=1, progress=False)
    ranks = {pair: i for i, pair in enumerate(merges)}
    for word in word_counts:
        assert bpe.merge(bpe.split_word(word), ranks) == [word + bpe.END_OF_WORD]
    assert len({left + right for left, right in merges}) == len(merges), "no symbol is made twice"


@settings(deadline=None)
@given(word=st.text("lowestr", min_size=1, max_size=12))
def test_merging_joins_and_changes_nothing_else(word):
    ranks = {pair: i for i, (pair, _) in enumerate(bpe.learn(TOY))}
    steps = [symbols for _, symbols in bpe.merge_steps(bpe.split_word(word), ranks)]
    for symbols in steps:
        assert "".join(symbols) == word + bpe.END_OF_WORD
    final = bpe.merge(bpe.split_word(word), ranks)
    assert final == (steps[-1] if steps else bpe.split_word(word))
    assert not any(pair in ranks for pair in pairwise(final))


def test_merging_goes_by_rank_and_from_left_to_right():
    assert bpe.merge("aaaaa", {("a", "a"): 0}) == ["aa", "aa", "a"]
    assert bpe.merge("abcab", {("b", "c"): 0, ("a", "b"): 1}) == ["a", "bc", "ab"]
    assert bpe.merge("abcab", {("b", "c"): 1, ("a", "b"): 0}) == ["ab", "c", "ab"]
    assert list(bpe.merge_steps("abcab", {("a", "b"): 0})) == [(("a", "b"), ["ab", "c", "ab"])]
    assert bpe.merge([], {}) == []


def test_ids_may_be_any_code_points():
    """A symbol's letter is chr(id), also among the surrogates, which text itself can never hold."""
    alphabet = [chr(0x20000 + i) for i in range(0xE000)]
    high, low, other = alphabet[0xD83D], alphabet[0xDE00], alphabet[7]
    merges = bpe.train({high + low + other: 2, high + low: 1}, 9, suffix="", alphabet=alphabet, ties="tokenizers")
    assert merges == [(high, low), (high + low, other)]


def test_the_number_of_merges_and_the_least_frequency_bound_training():
    assert bpe.train(TOY, 0, progress=False) == []
    assert [n for _, n in bpe.learn(TOY, min_frequency=6)] == [9, 9, 7, 6, 6, 6]
    assert bpe.train({}, 10, progress=False) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ties": "random"}, "'random'.*'subword-nmt' or 'tokenizers'"),
        ({"alphabet": ["a"]}, "cannot spell 'low'"),
        ({"word_counts": {"": 1}}, "cannot spell ''"),
        ({"word_counts": {"a</w>b": 1}}, "end-of-word mark '</w>'"),
        ({"n_merges": -1}, "-1 merges"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        bpe.train(**{"word_counts": TOY, "n_merges": 5, "progress": False, **arguments})


def library_trains(text, vocab_size, min_frequency, alphabet=(), suffix="</w>"):
    """The vocabulary and merges that the `tokenizers` trainer learns from the words of a text, given in one piece."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix=suffix))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, end_of_word_suffix=suffix, show_progress=False,
        special_tokens=list(alphabet),
    )
    model.train_from_iterator([text], trainer)
    learnt = json.loads(model.to_str())["model"]
    return learnt["vocab"], [tuple(pair) for pair in learnt["merges"]]


@pytest.mark.parity
@pytest.mark.parametrize("min_frequency", [1, 2])
def test_20_000_merges_of_a_book_are_those_of_the_tokenizers_library(eval_data, min_frequency):
    text = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    words = Counter(text.split())
    # That library numbers the ends of words in the order of a hash table, new in every run: take the order it took.
    characters = len(set().union(*words)) + len({word[-1] for word in words})
    ids, theirs = library_trains(text, characters + 20_000, min_frequency)
    alphabet = sorted(ids, key=ids.get)[:characters]
    assert len(theirs) == 20_000 if min_frequency == 1 else len(theirs) > 18_000
    ours = bpe.train(words, 20_000, ties="tokenizers", min_frequency=min_frequency, alphabet=alphabet, progress=False)
    assert ours == theirs


@pytest.mark.parity
@settings(deadline=None)
@given(word_counts=small_texts.filter(bool), min_frequency=st.integers(0, 3))
def test_small_texts_are_merged_as_by_the_tokenizers_library(word_counts, min_frequency):
    text = " ".join(word for word, n in word_counts.items() for _ in range(n))
    _, theirs = library_trains(text, 10_000, min_frequency, alphabet=bpe.base_symbols(word_counts))
    assert bpe.train(word_counts, 9999, ties="tokenizers", min_frequency=min_frequency, progress=False) == theirs
