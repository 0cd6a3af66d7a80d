"""The quick ways of byte-pair encoding: ranks kept, words found and merged by arrays, each equal to the plain way."""

import random
import time
from collections import Counter
from itertools import chain, islice, product

import pytest
from constants import Constants
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_tokenizer_bpe import naive_merges
from test_tokenizer_gpt2 import END, TEXT, any_text, awkward_text

from minigpt.errors import InputError
from minigpt.tokenizer import GPT1Tokenizer, GPT2Tokenizer, bpe, bpe_reference, gpt2, load, words
from minigpt.tokenizer.many_words import ManyWords

texts = any_text | awkward_text | st.text("a b\n\t\r\u3000'st!", max_size=20)


def plain(symbols, ranks):
    """The last of `merge_steps`."""
    return [list(symbols), *(after for _, after in bpe.merge_steps(symbols, ranks))][-1]


def ranks_of(tokenizer: GPT2Tokenizer) -> dict:
    """{pair: its place in the list of merges}"""
    return {pair: i for i, pair in enumerate(tokenizer.merges)}


@settings(deadline=None, max_examples=300)
@given(
    word=st.text("ab1", min_size=1, max_size=20),
    counts=st.dictionaries(st.text("ab1", min_size=2, max_size=9), st.integers(1, 5), max_size=6),
)
@example(word="aaaaaaa", counts={"aaaa": 2, "aab": 1})
def test_a_word_is_merged_as_step_by_step(word, counts):
    ranks = {pair: i for i, pair in enumerate(bpe.train(counts, 99, min_frequency=1, suffix="", progress=False))}
    assert bpe.merge(word, ranks) == plain(word, ranks)


part = st.sampled_from(["a", "b", "aa", "ab", "ba", "aab", "aba"])


@settings(deadline=None, max_examples=300)
@given(pairs=st.lists(st.tuples(part, part), min_size=1, max_size=9), word=st.text("ab", max_size=12))
@example(pairs=[("ab", "a"), ("a", "b")], word="abab")
def test_merges_that_nobody_would_learn_are_done_in_the_same_order_too(pairs, word):
    """A merge may stand before those that make its parts, or make what another one makes."""
    ranks = {pair: i for i, pair in enumerate(pairs)}
    assert bpe.merge(word, ranks) == plain(word, ranks)


def test_a_long_word_is_merged_as_step_by_step():
    rng = random.Random(0)
    merges = bpe.train({"".join(rng.choices("abcd", k=9)): 1 for _ in range(99)}, 200, suffix="", progress=False)
    ranks, word = {pair: i for i, pair in enumerate(merges)}, rng.choices("abcd", k=2000)
    assert bpe.merge(word, ranks) == plain(word, ranks)


@settings(deadline=None, max_examples=300)
@given(
    pairs=st.lists(st.tuples(part, part), min_size=1, max_size=12, unique=True),
    word=st.text("ab", min_size=1, max_size=40),
)
@example(pairs=[("a", "a"), ("aa", "aa")], word="a" * 13)
@example(pairs=[("ab", "a"), ("a", "b")], word="abab")
def test_the_way_of_long_words_is_that_of_short_ones(pairs, word):
    """Pairs in any order, such as no training gives, and words in which one symbol follows itself."""
    ranks = {pair: i for i, pair in enumerate(pairs)}
    expected = plain(word, ranks)
    assert bpe.merge_long(word, ranks)[0] == expected
    assert bpe.merge_short(word, ranks) == expected


def test_the_way_of_long_words_is_that_of_the_plain_reference():
    """Thousands of random words, ties in training among them."""
    rng = random.Random(1)
    for alphabet in ("a", "ab", "abcd"):
        for _ in range(20):
            words = {"".join(rng.choices(alphabet, k=rng.randint(1, 12))): rng.randint(1, 3) for _ in range(8)}
            merges = bpe_reference.train(words, rng.randint(1, 30))
            ranks = {pair: i for i, pair in enumerate(merges)}
            for _ in range(50):
                word = "".join(rng.choices(alphabet, k=rng.randint(1, 60)))
                assert bpe.merge_long(bpe.split_word(word), ranks)[0] == bpe_reference.encode(word, merges), word


LONG_TEXTS = {
    "a letter": "a" * 100_000,
    "digits": "0123456789" * 10_000,
    "CJK": "".join(map(chr, random.Random(0).choices(range(0x4E00, 0xA000), k=33_334))),
    "spaces": " " * 100_000,
    "line ends": "\n" * 100_000,
    "DNA": "".join(random.Random(0).choices("ACGT", k=100_000)),
    "one mark": ":" * 100_000,
    "quotes": "'" * 100_000,
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_a_long_run_of_any_character_takes_no_longer_than_a_text(small, name):
    """100,000 characters took 32 s when each merge went through the whole word; now far less than a second."""
    text = LONG_TEXTS[name]
    words = GPT1Tokenizer.train("a cat 3 : ' A C G T " * 9, 99, pipeline="rules", progress=False)
    for tokenizer in (small, words):
        ids, seconds = timed(tokenizer.encode, text)
        assert seconds < 5, f"{seconds:.1f} s"
        if tokenizer is small:
            assert small.decode(ids) == text


@pytest.mark.parametrize("name", ["a letter", "digits", "one mark"])
def test_a_vocabulary_is_learnt_from_a_long_run_of_any_character(name):
    _, seconds = timed(GPT2Tokenizer.train, LONG_TEXTS[name], 400, progress=False)
    assert seconds < 5, f"{seconds:.1f} s"


def timed(function, *arguments, **options):
    """What a call gives, and how many seconds it takes."""
    started = time.perf_counter()
    result = function(*arguments, **options)
    return result, time.perf_counter() - started


def test_long_words_are_not_remembered(small):
    fresh = GPT2Tokenizer(small.tokens, small.merges)
    fresh.encode("x" * 201 + " " + "y" * 199)
    assert list(fresh._words) == [" " + "y" * 199]


odd_marks = st.text("a'srevltmd \n\x00\x01\x7f\x80é\u3000한🐻\ud800", max_size=30)


@settings(deadline=None, max_examples=1000)
@given(raw=(texts | odd_marks).filter(bool))
@example("a\t \tb \n\n\n c  d\u3000\x85 \x1c 's  ")
@example("\x00\x00 \x00 \x00\x00a a\x00")
@example("it's 's ''s'd'red'rest x'll'l \n't " + "'ve" * 9)
@example("abcdefgh abcdefghi  abcdefg abcdefgh abcdefghi" * 2)
def test_arrays_find_the_words_of_the_pattern(raw):
    distinct, places = words.distinct_words(raw)
    assert [distinct[i] for i in places] == gpt2.WORD.findall(raw)


def test_arrays_find_the_words_of_a_book(eval_data):
    text = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    distinct, places = words.distinct_words(text)
    assert [distinct[i] for i in places] == gpt2.WORD.findall(text)
    assert len(distinct) < 1.1 * len(set(distinct)), "few words stand there twice"
    assert words.count_words(text) == Counter(words.words_of(text))


def test_words_whose_hashes_meet_stay_two(monkeypatch):
    monkeypatch.setattr(words, "_LONGEST_HASH", 1)
    raw = " ".join("abcdefghij") * 3
    distinct, places = words.distinct_words(raw)
    assert [distinct[i] for i in places] == gpt2.WORD.findall(raw)


def test_every_character_is_of_the_kind_that_the_pattern_tells():
    characters = "".join(map(chr, range(0x110000)))
    for around in ("{}a", "{}1", "{}!", "a{} ", "  {}"):
        raw = " ".join([around.format(character) for character in characters[::7]])
        distinct, places = words.distinct_words(raw)
        assert [distinct[i] for i in places] == gpt2.WORD.findall(raw)


def many_words_of(pairs, alphabet):
    """Merges for arrays, the symbols without ids: every number in what they give is looked up in the second result."""
    merges = ManyWords({pair: i for i, pair in enumerate(pairs)}, {}, alphabet)
    return merges, list(dict.fromkeys([*alphabet, *chain(*[(left, right, left + right) for left, right in pairs])]))


@settings(deadline=None, max_examples=300)
@given(
    pairs=st.lists(st.tuples(part, part), max_size=12, unique=True),
    spelled=st.lists(st.text("ab", min_size=1, max_size=48), min_size=1, max_size=9),
)
@example(pairs=[("a", "a"), ("aa", "aa")], spelled=["a" * 13])
@example(pairs=[("ab", "a"), ("a", "b")], spelled=["abab", "ab", "b"])
@example(pairs=[("a", "b"), ("ab", "b"), ("b", "b")], spelled=["abbabb", "bbbb"])
def test_many_words_are_merged_as_one_by_one(pairs, spelled):
    merges, symbols = many_words_of(pairs, "ab")
    ranks = {pair: i for i, pair in enumerate(pairs)}
    found = merges.letters([bytes(map("ab".index, word)) for word in spelled])
    assert [[symbols[ord(letter)] for letter in letters] for letters in found] == [plain(w, ranks) for w in spelled]


def test_words_that_are_too_long_for_arrays_are_left_out():
    merges, _ = many_words_of([("a", "b")], "ab")
    assert merges.letters([bytes(48), bytes(49), b"\x00\x01"]) == ["\x00" * 48, "", "\x02"]


@settings(deadline=None)
@given(raws=st.lists(texts, min_size=1, max_size=4))
def test_a_vocabulary_is_learnt_from_the_words_of_the_pattern(raws):
    counts = Counter(word for raw in raws for part in raw.split(END) for word in gpt2.WORD.findall(part))
    if counts:
        spelled = {gpt2.spell(word): n for word, n in counts.items()}
        options = {"suffix": "", "alphabet": list(gpt2.BYTE_OF), "ties": "tokenizers", "progress": False}
        made = GPT2Tokenizer.train(raws, 300, progress=False)
        assert made.merges == bpe.train(spelled, 300 - 257, **options)


@pytest.fixture(scope="module")
def small():
    return GPT2Tokenizer.train(TEXT, 310, progress=False)


@settings(deadline=None)
@given(raw=texts, size=st.integers(1, 9))
def test_cold_and_warm_in_pieces_and_whole_the_ids_are_the_same(small, raw, size):
    words = gpt2.WORD.findall(raw)
    ranks = ranks_of(small)
    expected = [small.ids[symbol] for word in words for symbol in plain(gpt2.spell(word), ranks)]
    fresh = GPT2Tokenizer(small.tokens, small.merges)
    with pytest.MonkeyPatch.context() as patch:
        Constants(patch).set(stretch_of_text=size)
        assert fresh.encode(raw) == fresh.encode(raw) == expected
        fresh = GPT2Tokenizer(small.tokens, small.merges)
        Constants(patch).set(short_text=0, few_words=0)
        assert fresh.encode(raw) == fresh.encode(raw) == expected
    assert fresh.encode(raw) == expected


def test_ids_may_be_those_of_surrogates(constants):
    """Inside, an id is chr(id): that also stands for ids that no text could hold."""
    others = map("".join, product("bcdefghi", repeat=6))
    tokens = [*gpt2.CHARACTER_OF.values(), *islice(others, 0xD83D - 256), "Ġa", *islice(others, 0x1C2), "aĠ", END]
    one = GPT2Tokenizer(tokens, [("Ġ", "a"), ("a", "Ġ")])
    assert (one.ids["Ġa"], one.ids["aĠ"]) == (0xD83D, 0xDA00) and one.encode(" a! aa") == [0xD83D, 0, 0xD83D, 64]
    assert one.decode([0xD83D, 0xDA00]) == " aa "
    constants.set(short_text=0, few_words=0)
    assert GPT2Tokenizer(tokens, one.merges).encode(" a! aa") == [0xD83D, 0, 0xD83D, 64]


@pytest.mark.parametrize("half", ["\ud800", "\udbff", "\udfff"])
@pytest.mark.parametrize("short_text", [0, 99])
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(small, half, short_text, constants):
    constants.set(short_text=short_text, few_words=0)
    for raw in (f"a cat {half}", f"{half} a", f"cat{half}cat"):
        with pytest.raises(InputError, match=f"'.{half.encode('ascii', 'backslashreplace').decode()[1:]}'.*surrogate"):
            small.encode(raw)


def test_the_first_merges_of_a_book_are_what_counting_again_gives(eval_data):
    text = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    words = Counter(text[:30_000].split())
    for ties in bpe.TIES:
        assert list(islice(bpe.learn(words, ties=ties), 60)) == list(islice(naive_merges(words, ties), 60))


def test_every_word_of_a_book_has_the_ids_of_the_plain_way(eval_data):
    published = load(eval_data / "gpt2_vocab")
    text = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    occurrences = list(words.words_of(text))
    ranks = ranks_of(published)
    slowly = {word: [published.ids[s] for s in plain(gpt2.spell(word), ranks)] for word in set(occurrences)}
    assert len(slowly) > 10_000
    assert published.encode(text) == published.encode(text) == [i for word in occurrences for i in slowly[word]]
