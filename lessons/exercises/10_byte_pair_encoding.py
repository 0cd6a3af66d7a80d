"""Exercise 10: byte-pair encoding from an empty page.

Write the two functions, slow and clear. Equally frequent pairs: take the largest (count, pair), that is, the pair which
is last in the dictionary. Lesson 10, sections 2 and 3.

Judge it:  python lessons/exercises/10_byte_pair_encoding.py
"""


def merges(word_counts, n):
    """The first n merges, as a list of pairs of strings: [("s", "t</w>"), ("e", "st</w>"), ...].

    word_counts: {word: how often it occurs}. The last character of each word carries the mark </w>. Fewer than n
    merges, where no pair is left that occurs at least twice.
    """
    ...  # your turn


def encode(word, merges):
    """The symbols of a word, as a list of strings: the merge that was learnt first goes first, everywhere."""
    ...  # your turn


def judge():
    toy = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    published = [
        ("s", "t</w>"), ("e", "st</w>"), ("l", "o"), ("w", "est</w>"), ("n", "e"), ("ne", "west</w>"), ("lo", "w</w>"),
        ("w", "i"), ("wi", "d"), ("wid", "est</w>"), ("w", "e"), ("we", "r</w>"), ("lo", "wer</w>"),
    ]  # fmt: skip
    yield "merges(toy, 3)", merges(dict(toy), 3), published[:3]
    yield "merges(toy, 100)", merges(dict(toy), 100), published
    yield 'merges of "banana" twice', merges({"banana": 2}, 2), [("a", "n"), ("b", "an")]
    yield 'merges of "a" nine times', merges({"a": 9}, 5), []
    yield 'encode("lowest")', encode("lowest", published), ["lo", "west</w>"]
    yield 'encode("nest")', encode("nest", published), ["n", "est</w>"]
    yield 'encode("x")', encode("x", published), ["x</w>"]
    yield 'encode("aaaaab") with (a, a)', encode("aaaaab", [("a", "a")]), ["aa", "aa", "a", "b</w>"]
    yield "older before longer", encode("abcd", [("b", "c"), ("a", "b"), ("c", "d</w>")]), ["a", "bc", "d</w>"]


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        if list(yours) != right:
            raise SystemExit(f"{what}: yours is {yours}, right is {right}")
        print(f"{what}: right")
    print("all of it is right")
