"""Byte-pair encoding in a few plain lines: slow, and written to be read (Sennrich et al. 2016, algorithm 1).

`bpe.py` does the same quickly, and a test compares the two. A word is a list of symbols; at the start each of its
characters is one, and the last of them ends in the mark of the end of a word: `low` is `l o w</w>`.

    >>> merges = train({"low": 5, "lower": 2}, n_merges=3)
    >>> merges
    [('l', 'o'), ('lo', 'w</w>'), ('w', 'e')]
    >>> encode("low", merges)
    ['low</w>']
"""

from collections import Counter
from itertools import pairwise

from minigpt.tokenizer.bpe import END_OF_WORD, Pair


def train(word_counts: dict[str, int], n_merges: int) -> list[Pair]:
    """Learn merges: again and again, join the pair of neighbours that is seen most often into a new symbol.

    word_counts {word: how often it occurs}. Of equally frequent pairs the one that is last in alphabetical order wins.
    Returns the pairs, first learnt first; fewer than `n_merges` where no word has two symbols left.
    """
    words = {word: start_symbols(word) for word in word_counts}
    merges = []
    while len(merges) < n_merges:
        pair_counts = Counter()
        for word, symbols in words.items():
            for pair in pairwise(symbols):
                pair_counts[pair] += word_counts[word]
        if not pair_counts:
            break
        best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
        merges.append(best)
        for word, symbols in words.items():
            words[word] = join(symbols, best)
    return merges


def encode(word: str, merges: list[Pair]) -> list[str]:
    """The symbols of a word: all merges are made in the order in which they were learnt."""
    symbols = start_symbols(word)
    for pair in merges:
        symbols = join(symbols, pair)
    return symbols


def start_symbols(word: str) -> list[str]:
    """The symbols of a word before any merge: its characters, the last one with the mark of the end of a word."""
    return [*word[:-1], word[-1] + END_OF_WORD]


def join(symbols: list[str], pair: Pair) -> list[str]:
    """Join every occurrence of a pair, from left to right: `a a a` with the pair (a, a) is `aa a`."""
    joined = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            joined.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            joined.append(symbols[i])
            i += 1
    return joined
