"""Exercise 10: find the bug. A merge in one line, which learns the toy of lesson 10 correctly.

Run the file: it shows a case in which the merge joins what it should not join. When does a list of
symbols, written with spaces, contain the text of a pair, although the pair is not there? And why
did the toy never have this case? Correct `merge`; the rest is right.

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


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    toy = learn({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 100)
    if len(toy) != 13 or toy[:3] != [("s", "t</w>"), ("e", "st</w>"), ("l", "o")]:
        raise SystemExit("the toy is wrong now: it has 13 merges, first s+t</w>, e+st</w>, l+o")
    print("the toy: right")
    for symbols, pair, right in (
        (["n", "es", "t", "s</w>"], ("s", "t"), ["n", "es", "t", "s</w>"]),
        (["s", "th", "e</w>"], ("s", "t"), ["s", "th", "e</w>"]),
        (["a", "a", "a", "a", "a</w>"], ("a", "a"), ["aa", "aa", "a</w>"]),
    ):
        yours = merge(symbols, pair)
        if yours != right:
            raise SystemExit(f"merge({symbols}, {pair})\ngives {yours}\nand should give {right}")
    print("right: a pair is two whole symbols, and nothing else")
    raise SystemExit(0)
