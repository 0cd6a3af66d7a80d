"""Byte-pair encoding: learn merges from counted words, then apply them to a word (Sennrich et al. 2016; GPT-1 §4.1).

A word starts as a list of characters. Training joins the pair of neighbours that is seen most often into a new symbol,
and again, and again; the list of those pairs, in order, is everything that is learnt. A word is encoded by doing the
same merges in the same order. The mark `</w>` on the last character of a word (`suffix`) tells the `er` of `erase` from
the `er</w>` of `lower`; byte-level vocabularies have no such mark and pass `suffix=""`.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, pairwise, repeat
from math import inf
from operator import add

from tqdm import tqdm

from minigpt.errors import InputError

END_OF_WORD = "</w>"
TIES = ("subword-nmt", "tokenizers")

Pair = tuple[str, str]


def split_word(word: str, suffix: str = END_OF_WORD) -> list[str]:
    """The symbols that a word starts from: `low` gives `l`, `o`, `w</w>`."""
    return [*word[:-1], word[-1] + suffix]


def base_symbols(words: Iterable[str], suffix: str = END_OF_WORD) -> list[str]:
    """The symbols before any merge: every character by code point, then each of them again as the end of a word."""
    characters = sorted(set().union(*words))
    return characters + [c + suffix for c in characters if suffix]


# ---------------------------------------------------------------------------------------------------------- training


def train(
    word_counts: Mapping[str, int], n_merges: int, *, min_frequency: int = 2, ties: str = "subword-nmt",
    suffix: str = END_OF_WORD, alphabet: Sequence[str] | None = None, progress: bool = True,
) -> list[Pair]:
    """Learn `n_merges` merges, first learnt first; fewer where every pair left is seen less than `min_frequency` times.

    word_counts {word: how often it occurs}; the other arguments as in `learn`. Shows a bar unless `progress` is False.
    """
    if n_merges < 0:
        raise InputError(f"{n_merges} merges cannot be learnt: give 0 or more")
    merges = learn(word_counts, min_frequency=min_frequency, ties=ties, suffix=suffix, alphabet=alphabet)
    bar = tqdm(islice(merges, n_merges), total=n_merges, desc="merges", unit="", disable=not progress)
    return [pair for pair, _ in bar]


def learn(
    word_counts: Mapping[str, int], *, min_frequency: int = 2, ties: str = "subword-nmt",
    suffix: str = END_OF_WORD, alphabet: Sequence[str] | None = None,
) -> Iterator[tuple[Pair, int]]:
    """Yield `((left, right), count)` for one merge after another: always the most frequent pair of neighbours.

    `ties` decides between pairs that are equally frequent, and so which vocabulary comes out:

    - "subword-nmt": the pair whose strings come last in the dictionary, as Sennrich's own trainer does.
    - "tokenizers": the pair whose ids come first, as Hugging Face's trainer does. The id of a base symbol is its place
      in `alphabet` (default: `base_symbols`); merged symbols follow in the order in which they were made.

    How it is fast. A word is kept as a string with **one character for each symbol**, `chr(id)`: a pair is a string of
    two, merging it is `split` and `join`, and to compare pairs is to compare ids. Each pair knows the places where it
    was seen (an inverted index), so that a merge touches those words alone and changes only the counts of neighbours.
    Pairs that a merge brings forth hold the new symbol, so they are new too: the count of a known pair can only fall.
    That is why pairs may stand on **shelves**, one for each count, and stay there when their count falls: the shelves
    are emptied from the highest count down, and a pair that is rarer by then moves to the shelf where it belongs now.
    """
    if ties not in TIES:
        raise InputError(f"ties {ties!r} is not known: choose {' or '.join(map(repr, TIES))}")
    min_frequency = max(min_frequency, 1)
    names = list(base_symbols(word_counts, suffix) if alphabet is None else alphabet)
    words, frequencies = _to_letters(word_counts, names, suffix)

    count, places = defaultdict(int), defaultdict(list)
    for i, word in enumerate(words):
        for pair in map(add, word, word[1:]):
            count[pair] += frequencies[i]
            places[pair].append(i)

    tie_key = _last_in_the_dictionary(names) if ties == "subword-nmt" else str  # str: the pair itself, which is two ids
    shelves, heights = defaultdict(list), []  # {count: pairs}, and a heap with -count for each shelf

    def shelve(pair):
        n = count[pair]
        if n >= min_frequency:
            if n not in shelves:
                heapq.heappush(heights, -n)
            shelves[n].append(pair)

    for pair in places:
        shelve(pair)
    while heights:
        most = -heapq.heappop(heights)
        tied = [(tie_key(pair), pair) for pair in shelves.pop(most)]
        heapq.heapify(tied)
        while tied:
            _, pair = heapq.heappop(tied)
            if count[pair] != most:
                shelve(pair)
                continue
            left, right = (names[ord(letter)] for letter in pair)
            yield (left, right), most
            new_places = _merge_everywhere(pair, chr(len(names)), places.pop(pair), words, frequencies, count)
            names.append(left + right)
            places.update(new_places)
            for new_pair in new_places:
                if count[new_pair] == most:
                    heapq.heappush(tied, (tie_key(new_pair), new_pair))
                else:
                    shelve(new_pair)


def _merge_everywhere(pair, merged, where, words, frequencies, count) -> dict[str, list[int]]:
    """Replace `pair` by the letter `merged` in the words at `where`, and keep `count` true.

    In `x left right y` the pairs (x, left) and (right, y) go, (x, merged) and (merged, y) come. Returns the places of
    those that came.
    """
    left, right = pair
    before, after = defaultdict(list), defaultdict(list)  # {neighbour: the words in which the pair has it there}
    for i in where:
        pieces = words[i].split(pair)  # the text between the occurrences, found from left to right
        if len(pieces) == 1:
            continue
        words[i] = merged.join(pieces)
        first, *between, last = pieces
        if first:
            before[first[-1]].append(i)
        if last:
            after[last[0]].append(i)
        for piece in between:  # nothing, where one occurrence follows another
            after[piece[0] if piece else left].append(i)
            before[piece[-1] if piece else merged].append(i)
    gone = [(x + left, x + merged, found) for x, found in before.items()]
    gone += [(right + y, merged + y, found) for y, found in after.items()]
    for old, new, found in gone:
        n = sum([frequencies[i] for i in found])
        count[old] -= n
        count[new] += n
    del count[pair]
    return {new: found for _, new, found in gone}


def _to_letters(word_counts, names, suffix) -> tuple[list[str], list[int]]:
    """Every word as a string of `chr(id)`, and how often it occurs."""
    inside = {name: chr(i) for i, name in enumerate(names) if len(name) == 1}
    final = {name[0]: chr(i) for i, name in enumerate(names) if name[1:] == suffix}
    words, frequencies = [], []
    for word, n in word_counts.items():
        if suffix and suffix in word:
            raise InputError(f"the word {word!r} holds the end-of-word mark {suffix!r}: split it into several words")
        try:
            words.append("".join([inside[c] for c in word[:-1]]) + final[word[-1]])
        except (KeyError, IndexError):
            raise InputError(f"the alphabet cannot spell {word!r}: give one with all its characters, or none") from None
        frequencies.append(n)
    return words, frequencies


def _last_in_the_dictionary(names: list[str]) -> Callable[[str], str]:
    """The key by which the pair of strings that is last in the dictionary sorts first.

    Characters are numbered from the last to the first, and the end of a string comes after them all.
    """
    characters = sorted(set().union(*names), reverse=True)
    table, end = {ord(c): chr(i) for i, c in enumerate(characters)}, chr(len(characters))

    @cache
    def key(letter: str) -> str:
        return names[ord(letter)].translate(table) + end

    return lambda pair: key(pair[0]) + key(pair[1])


# ---------------------------------------------------------------------------------------------------------- encoding


def merge_steps(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> Iterator[tuple[Pair, list[str]]]:
    """Apply merges to one word and yield `(pair, symbols)` after each: the pair learnt first goes first, everywhere.

    ranks {pair: its place in the list of merges}. From `l o w e s t</w>` come `l o w es t</w>`, `l o w est</w>`, ...
    """
    symbols = list(symbols)
    while len(symbols) > 1:
        pair = min(pairwise(symbols), key=lambda p: ranks.get(p, inf))
        if pair not in ranks:
            return
        symbols = _join_pair(symbols, pair)
        yield pair, symbols


def merge(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> list[str]:
    """What is left of a word when no merge applies any more: the last step of `merge_steps`, sooner.

    Beside each symbol stands the rank of the pair that it begins; a merge changes two of them.
    """
    symbols = [*symbols, None]
    rank_of = ranks.get
    order = list(map(rank_of, pairwise(symbols), repeat(inf)))
    rank = min(order, default=inf)
    while rank < inf:
        i = order.index(rank)
        symbols[i] = joined = symbols[i] + symbols.pop(i + 1)
        del order[i]
        order[i] = rank_of((joined, symbols[i + 1]), inf)
        if i:
            order[i - 1] = rank_of((symbols[i - 1], joined), inf)
        if rank not in order:
            rank = min(order)
    return symbols[:-1]


def _join_pair(symbols: list[str], pair: Pair) -> list[str]:
    """Join every occurrence of `pair`, from left to right: `a a a` with the pair (a, a) is `aa a`."""
    joined = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] += symbol  # now longer than the first of the pair: it is not joined again
        else:
            joined.append(symbol)
    return joined
