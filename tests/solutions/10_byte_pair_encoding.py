from collections import Counter
from itertools import pairwise


def split(word):
    """The symbols from which a word starts: hugs -> h ##u ##g ##s"""
    return [word[0], *("##" + character for character in word[1:])]


def join(symbols, pair):
    """Join every occurrence of the pair, from left to right: h ##u ##g with (h, ##u) -> hu ##g"""
    joined, at = [], 0
    while at < len(symbols):
        if tuple(symbols[at : at + 2]) == tuple(pair):
            joined.append(pair[0] + pair[1].removeprefix("##"))
            at += 2
        else:
            joined.append(symbols[at])
            at += 1
    return joined


def best_pair(words):
    """words: a list of (symbols, count). The pair with the largest score; None if there is none.

    Compute the score as count / (left_count * right_count), in one division, so that equal scores
    are equal numbers.
    """
    single, double = Counter(), Counter()
    for symbols, count in words:
        for symbol in symbols:
            single[symbol] += count
        for pair in pairwise(symbols):
            double[pair] += count
    if not double:
        return None
    return max(double, key=lambda pair: double[pair] / (single[pair[0]] * single[pair[1]]))


def encode(word, vocabulary):
    """vocabulary: a set of symbols -> the symbols of the word, or ["[UNK]"]"""
    found, at = [], 0
    while at < len(word):
        for end in range(len(word), at, -1):
            symbol = ("##" if at else "") + word[at:end]
            if symbol in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(symbol)
        at = end
    return found
