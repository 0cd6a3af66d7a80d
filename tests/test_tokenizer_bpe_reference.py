"""The byte-pair encoding that is written to be read, and the fast one: the same merges, the same symbols."""

import doctest

from hypothesis import example, given, settings
from hypothesis import strategies as st

from minigpt.tokenizer import bpe, bpe_reference

letters = st.text("ab1", min_size=1, max_size=9)
counted_words = st.dictionaries(letters, st.integers(1, 5), min_size=1, max_size=6)


@settings(deadline=None)
@given(word_counts=counted_words, n_merges=st.integers(0, 20))
@example(word_counts={"aaaa": 1, "aaa": 2}, n_merges=3)
def test_both_learn_the_same_merges(word_counts, n_merges):
    fast = bpe.train(word_counts, n_merges, min_frequency=1, progress=False)
    assert bpe_reference.train(word_counts, n_merges) == fast


@settings(deadline=None)
@given(word_counts=counted_words, word=letters)
@example(word_counts={"aaaa": 1}, word="aaaaa")
def test_both_give_a_word_the_same_symbols(word_counts, word):
    merges = bpe_reference.train(word_counts, 20)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    assert bpe_reference.encode(word, merges) == bpe.merge(bpe.split_word(word), ranks)


@settings(deadline=None)
@given(symbols=st.lists(st.sampled_from(["a", "b", "ab"]), max_size=9), pair=st.tuples(st.sampled_from("ab"), letters))
@example(symbols=["a", "a", "a"], pair=("a", "a"))
def test_both_join_a_pair_from_left_to_right(symbols, pair):
    assert bpe_reference.join(symbols, pair) == bpe.join_pair(symbols, pair)


def test_the_example_in_its_docstring_is_true():
    result = doctest.testmod(bpe_reference)
    assert result.attempted == 3 and result.failed == 0
