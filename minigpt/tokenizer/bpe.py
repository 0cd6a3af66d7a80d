"""Byte-pair encoding: learn merges from counted words, then apply them to a word (Sennrich et al. 2016; GPT-1 §4.1).

A word starts as a list of characters. Training joins the pair of neighbours that is seen most often into a new symbol,
and again, and again; the list of those pairs, in order, is everything that is learnt. A word is encoded by doing the
same merges in the same order. The mark `</w>` on the last character of a word (`suffix`) tells the `er` of `erase` from
the `er</w>` of `lower`; byte-level vocabularies have no such mark and pass `suffix=""`.

This file is written for speed. `bpe_reference.py` does the same in a few lines that are written to be read.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, pairwise, repeat
from math import inf
from operator import add
from typing import Any

from tqdm import tqdm

from minigpt.errors import InputError

END_OF_WORD = "</w>"
TIES = ("subword-nmt", "tokenizers", "sentencepiece")
LONG = 100  # symbols: longer words are merged by another way, which is slower for short ones

Pair = tuple[str, str]


def split_word(word: str, suffix: str = END_OF_WORD) -> list[str]:
    """The symbols that a word starts from: `low` gives `l`, `o`, `w</w>`."""
    return [*word[:-1], word[-1] + suffix]


def base_symbols(words: Iterable[str], suffix: str = END_OF_WORD) -> list[str]:
    """The symbols before any merge: every character by code point, then each of them again as the end of a word."""
    characters = sorted(set().union(*words))
    if not suffix:
        return characters
    return characters + [character + suffix for character in characters]


# ---------------------------------------------------------------------------------------------------------- training


def train(word_counts: Mapping[str, int], n_merges: int, *, progress: bool = True, **options: Any) -> list[Pair]:
    """Learn `n_merges` merges, first learnt first; fewer where every pair left is seen less than `min_frequency` times.

    word_counts {word: how often it occurs}; options: those of `learn`. Shows a bar unless `progress` is False. Raises
    InputError for a negative number of merges, and as `learn` does.
    """
    if n_merges < 0:
        raise InputError(f"{n_merges} merges cannot be learnt: give 0 or more")
    merges = learn(word_counts, **options)
    bar = tqdm(islice(merges, n_merges), total=n_merges, desc="merges", unit="", disable=not progress)
    return [pair for pair, _ in bar]


def learn(
    word_counts: Mapping[str, int],
    *,
    min_frequency: int = 2,
    ties: str = "subword-nmt",
    suffix: str = END_OF_WORD,
    inside: str = "",
    alphabet: Sequence[str] | None = None,
    longest: float = inf,
) -> Iterator[tuple[Pair, int]]:
    """Yield `((left, right), count)` for one merge after another: always the most frequent pair of neighbours.

    `ties` decides between pairs that are equally frequent, and so which vocabulary comes out:

    - "subword-nmt": the pair whose strings come last in alphabetical order, as Sennrich's own trainer does.
    - "tokenizers": the pair whose ids come first, as Hugging Face's trainer does. The id of a base symbol is its place
      in `alphabet` (default: `base_symbols`); merged symbols follow in the order in which they were made.
    - "sentencepiece": the pair that makes the shortest symbol, and of those the first in alphabetical order.

    suffix: what stands behind the last character of a word; inside: what stands in front of every symbol that does not
    begin a word, as WordPiece writes `##`; longest: how many characters a symbol may have. Raises InputError for other
    ties, for a word that the alphabet cannot spell, and for one that holds the suffix.

    How it is fast. A word is kept as a string with **one character for each symbol**, `chr(id)`: a pair is a string of
    two, merging it is `split` and `join`, and to compare pairs is to compare ids. Each pair knows the places where it
    was seen (an inverted index), so that a merge touches those words alone and changes only the counts of neighbours.
    Pairs that a merge brings forth hold the new symbol, so they are new too: the count of a known pair can only fall.
    That is why pairs may stand on **shelves**, one for each count, and stay there when their count falls: the shelves
    are emptied from the highest count down, and a pair that is rarer by then moves to the shelf where it belongs now.
    """
    if ties not in TIES:
        raise InputError(f"ties {ties!r} is not known: choose {' or '.join(map(repr, TIES))}")
    names = list(base_symbols(word_counts, suffix) if alphabet is None else alphabet)
    tie_key = _tie_key(ties, names)
    words, frequencies = _to_letters(word_counts, names, suffix, inside)
    pairs = _Pairs(words, frequencies)
    shelves = _Shelves(pairs.count, max(min_frequency, 1))
    shelves.put(pairs.places)
    for most, shelf in shelves:
        tied = [(tie_key(pair), pair) for pair in shelf]
        heapq.heapify(tied)
        while tied:
            _, pair = heapq.heappop(tied)
            if pairs.count[pair] != most:  # it is rarer by now
                shelves.put([pair])
                continue
            left = names[ord(pair[0])]
            right = names[ord(pair[1])]
            joined = left + right.removeprefix(inside)
            if len(joined) > longest:
                continue
            yield (left, right), most
            new_pairs = pairs.merge(pair, chr(len(names)))
            names.append(joined)
            rarer = []
            for new_pair in new_pairs:
                if pairs.count[new_pair] == most:
                    heapq.heappush(tied, (tie_key(new_pair), new_pair))
                else:
                    rarer.append(new_pair)
            shelves.put(rarer)


class _Shelves:
    """Pairs, by how often they were seen: iterating takes one shelf after the other, from the highest count down.

    A pair may be put on a shelf at any time, if it is seen less often than those on the shelf that was taken last.
    """

    def __init__(self, count: Mapping[str, int], min_frequency: int):
        self.count = count
        self.min_frequency = min_frequency  # pairs that are rarer are left out
        self.shelves = defaultdict(list)  # {count: pairs}
        self.heights = []  # a heap of -count for each shelf

    def put(self, pairs: Iterable[str]) -> None:
        """Put each pair on the shelf of its count."""
        for pair in pairs:
            n = self.count[pair]
            if n < self.min_frequency:
                continue
            if n not in self.shelves:
                heapq.heappush(self.heights, -n)
            self.shelves[n].append(pair)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while self.heights:
            most = -heapq.heappop(self.heights)
            yield most, self.shelves.pop(most)


class _Pairs:
    """How often each pair of neighbours is seen in the words, and where. A pair is a string of two letters.

    words: strings of `chr(id)`; frequencies: how often each word occurs.
    """

    def __init__(self, words: list[str], frequencies: list[int]):
        self.words = words
        self.frequencies = frequencies
        self.count = defaultdict(int)
        self.places = defaultdict(list)  # {pair: the indices of the words where it was seen}
        for i, word in enumerate(words):
            for pair in map(add, word, word[1:]):
                self.count[pair] += frequencies[i]
                self.places[pair].append(i)

    def merge(self, pair: str, merged: str) -> list[str]:
        """Replace `pair` by the letter `merged` in every word. Returns the pairs that came by it.

        In `x left right y` the pairs (x, left) and (right, y) go, (x, merged) and (merged, y) come.
        """
        left, right = pair[0], pair[1]
        before, after = self._join(pair, merged)
        changes = []  # (pair that goes, pair that comes, words in which this happens)
        for x, found in before.items():
            changes.append((x + left, x + merged, found))
        for y, found in after.items():
            changes.append((right + y, merged + y, found))
        for old, new, found in changes:
            n = sum([self.frequencies[i] for i in found])
            self.count[old] -= n
            self.count[new] += n
            self.places[new] = found
        del self.count[pair]
        del self.places[pair]
        return [new for _, new, _ in changes]

    def _join(self, pair: str, merged: str) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Replace the pair in every word. Returns {letter: the words in which it stood before, or after, the pair}."""
        left = pair[0]
        before = defaultdict(list)
        after = defaultdict(list)
        for i in dict.fromkeys(self.places[pair]):  # each word once, however often the pair stands in it
            pieces = self.words[i].split(pair)  # the text between the occurrences, found from left to right
            if len(pieces) == 1:  # other merges have removed the pair from this word
                continue
            self.words[i] = merged.join(pieces)
            first, *between, last = pieces
            if first:
                before[first[-1]].append(i)
            if last:
                after[last[0]].append(i)
            for piece in between:  # empty where one occurrence follows another
                after[piece[0] if piece else left].append(i)
                before[piece[-1] if piece else merged].append(i)
        return before, after


def _to_letters(
    word_counts: Mapping[str, int], names: list[str], suffix: str, mark: str
) -> tuple[list[str], list[int]]:
    """Every word as a string of `chr(id)`, and how often it occurs. mark: in front of symbols inside a word."""
    first = {}  # {first character of a word: its letter}
    inside = {}  # {character inside a word: its letter}
    final = {}  # {last character of a word: its letter}
    for i, name in enumerate(names):
        if len(name) == 1:
            first[name] = chr(i)
        if name[:-1] == mark:
            inside[name[-1]] = chr(i)
        if name[1:] == suffix:
            final[name[0]] = chr(i)
    words = []
    for word in word_counts:
        if suffix and suffix in word:
            raise InputError(f"the word {word!r} holds the end-of-word mark {suffix!r}: split it into several words")
        try:
            if mark:
                letters = [first[word[0]], *[inside[character] for character in word[1:]]]
            else:
                letters = [*[inside[character] for character in word[:-1]], final[word[-1]]]
        except (KeyError, IndexError):
            raise InputError(f"the alphabet cannot spell {word!r}: give one with all its characters, or none") from None
        words.append("".join(letters))
    return words, list(word_counts.values())


def _tie_key(ties: str, names: list[str]) -> Callable[[str], str | tuple[int, str]]:
    """The key by which, of pairs that are equally frequent, the one to be merged sorts first. `names` will grow."""

    def shortest_first(pair: str) -> tuple[int, str]:
        joined = names[ord(pair[0])] + names[ord(pair[1])]
        return len(joined), joined

    if ties == "subword-nmt":
        return _last_in_the_alphabet(names)
    if ties == "sentencepiece":
        return shortest_first
    return str  # the pair itself, which is two ids


def _last_in_the_alphabet(names: list[str]) -> Callable[[str], str]:
    """The key by which the pair of strings that is last in alphabetical order sorts first.

    Characters are numbered from the last to the first, and the end of a string comes after them all.
    """
    characters = sorted(set().union(*names), reverse=True)
    end = chr(len(characters))
    table = {}
    for i, character in enumerate(characters):
        table[ord(character)] = chr(i)

    @cache
    def key_of_letter(letter: str) -> str:
        return names[ord(letter)].translate(table) + end

    def key_of_pair(pair: str) -> str:
        return key_of_letter(pair[0]) + key_of_letter(pair[1])

    return key_of_pair


# ---------------------------------------------------------------------------------------------------------- encoding


def merge_steps(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> Iterator[tuple[Pair, list[str]]]:
    """Apply merges to one word and yield `(pair, symbols)` after each: the pair learnt first goes first, everywhere.

    ranks {pair: its place in the list of merges}. From `l o w e s t</w>` come `l o w es t</w>`, `l o w est</w>`, ...
    """

    def rank_of(pair: Pair) -> float:
        return ranks.get(pair, inf)

    symbols = list(symbols)
    while len(symbols) > 1:
        pair = min(pairwise(symbols), key=rank_of)
        if pair not in ranks:
            return
        symbols = join_pair(symbols, pair)
        yield pair, symbols


def merge(symbols: Sequence[str], ranks: Mapping[Pair, float], best_first: bool = False) -> list[str]:
    """The symbols of a word when no merge applies any more: the last step of `merge_steps`, found sooner.

    best_first: the best pair goes first wherever it stands, and of equally good ones the one further left: what a merge
    makes possible may go before another place of the same pair. A word of n symbols takes a time of the order of
    n log n, however often one symbol follows itself.
    """
    if len(symbols) > LONG:
        return merge_long(symbols, ranks, best_first)[0]
    return merge_short(symbols, ranks, best_first)


def merge_short(word: Sequence[str], ranks: Mapping[Pair, float], best_first: bool = False) -> list[str]:
    """`merge` for short words. Beside each symbol stands the rank of the pair that it begins; a merge changes two."""
    symbols: list[Any] = [*word, None]
    rank_of: Callable[..., float] = ranks.get
    beside = list(map(rank_of, pairwise(symbols), repeat(inf)))
    rank = min(beside, default=inf)
    while rank < inf:
        i = beside.index(rank)
        joined = symbols[i] + symbols.pop(i + 1)
        symbols[i] = joined
        del beside[i]
        beside[i] = rank_of((joined, symbols[i + 1]), inf)
        if i > 0:
            beside[i - 1] = rank_of((symbols[i - 1], joined), inf)
        if best_first or rank not in beside:
            rank = min(beside)
    return symbols[:-1]


def merge_long(
    word: Sequence[str], ranks: Mapping[Pair, float], best_first: bool = False
) -> tuple[list[str], dict[str, Pair]]:
    """(what `merge` gives, {symbol: the pair that makes it}), found in the way that is quicker for long words.

    Symbols stay where they are, and each knows its neighbours (a linked list). The places of pairs wait under their
    ranks, in order: one where the symbols have changed by the time that it comes is passed over.
    """
    end = len(word)
    symbols: list[Any] = [*word, None]  # None: no symbol, as also where one was joined to the symbol before it
    before = list(range(-1, end))  # before[0] is the last place, which holds None
    after = list(range(1, end + 2))
    places = defaultdict(list)  # {rank: a heap of the places where a pair of this rank begins}
    made_of = {}
    for place, pair in enumerate(pairwise(symbols)):
        if pair in ranks:
            places[ranks[pair]].append(place)
            made_of[pair[0] + pair[1]] = pair
    waiting = sorted(places)  # a heap of the ranks
    while waiting:
        rank = waiting[0]
        here = places[rank]
        now = [heapq.heappop(here)] if best_first else sorted(here)
        if not (best_first and here):
            heapq.heappop(waiting)
            del places[rank]
        for place in now:
            second = after[place]
            pair = (symbols[place], symbols[second])
            if ranks.get(pair) != rank:
                continue
            joined = pair[0] + pair[1]
            symbols[place] = joined
            symbols[second] = None
            previous = before[place]
            following = after[second]
            after[place] = following
            before[following] = place
            for begins, pair in ((previous, (symbols[previous], joined)), (place, (joined, symbols[following]))):
                new = ranks.get(pair)
                if new is None:
                    continue
                if new not in places:
                    heapq.heappush(waiting, new)
                heapq.heappush(places[new], begins)
                made_of[pair[0] + pair[1]] = pair
    return [symbol for symbol in symbols if symbol is not None], made_of


def join_pair(symbols: Sequence[str], pair: Pair) -> list[str]:
    """Join every occurrence of `pair`, from left to right: `a a a` with the pair (a, a) is `aa a`."""
    joined = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] += symbol  # now longer than the first of the pair: it is not joined again
        else:
            joined.append(symbol)
    return joined
