"""Exercise 10: find the bug. A merge in one line, and it learns the toy of lesson 10 rightly.

Run the file to see a case in which it joins what it should not. When do the symbols of a word look, for `str.replace`,
like the pair, and are not? And why has the toy never met that case? Mend `merge`; the rest is right.

Judge it:  python lessons/exercises/10_find_the_bug.py
"""

from collections import Counter
from itertools import pairwise


def merge(symbols, pair):
    """Join every occurrence of the pair in a list of symbols, from left to right."""
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split(" ")


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


if __name__ == "__main__":
    toy = learn({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 100)
    if len(toy) != 13 or toy[:3] != [("s", "t</w>"), ("e", "st</w>"), ("l", "o")]:
        raise SystemExit("now the toy is wrong: its first merges are s+t</w>, e+st</w>, l+o, and there are 13")
    for symbols, pair, right in (
        (["n", "es", "t", "s</w>"], ("s", "t"), ["n", "es", "t", "s</w>"]),
        (["s", "th", "e</w>"], ("s", "t"), ["s", "th", "e</w>"]),
        (["a", "a", "a", "a", "a</w>"], ("a", "a"), ["aa", "aa", "a</w>"]),
    ):
        yours = merge(symbols, pair)
        if yours != right:
            raise SystemExit(f"merge({symbols}, {pair}) gives {yours}, right is {right}")
    print("right: a pair is two whole symbols, and nothing else")
