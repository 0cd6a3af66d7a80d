from collections import Counter
from itertools import pairwise


def merge(symbols, pair):
    """Join every occurrence of the pair in a list of symbols, from left to right."""
    merged, at = [], 0
    while at < len(symbols):
        together = tuple(symbols[at : at + 2]) == tuple(pair)
        merged.append("".join(pair) if together else symbols[at])
        at += 2 if together else 1
    return merged


def learn(word_counts, n):
    """The first n merges."""
    words = [([*word[:-1], word[-1] + "</w>"], count) for word, count in word_counts.items()]
    merges = []
    while len(merges) < n:
        pairs = Counter()
        for symbols, count in words:
            for pair in pairwise(symbols):
                pairs[pair] += count
        count, pair = max(((count, pair) for pair, count in pairs.items()), default=(0, None))
        if count < 2:
            break
        merges.append(pair)
        words = [(merge(symbols, pair), count) for symbols, count in words]
    return merges
