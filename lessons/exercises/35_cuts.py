"""Exercise 35: sums over all ways, with logarithms (lesson 35, sections 4 and 5).

A lattice is given as a list of arrows (begin, end, score): a piece that leads from place `begin` to place `end`, with
its log-probability. Places are 0 to n, and the word stands between 0 and n. The arrows are sorted by `begin`.

With logarithms, a product is a sum, and a sum of two probabilities is np.logaddexp of their logarithms: it works for
numbers that are too small for exp. The logarithm of 0 is -np.inf.

Write the three functions. Below, `forward` is given as an example.

Judge it:  python lessons/exercises/35_cuts.py
"""

import numpy as np


def forward(arrows, n):
    """[place]: the log of the summed probability of all rows of arrows from 0 to it."""
    sums = np.full(n + 1, -np.inf)
    sums[0] = 0.0
    for begin, end, score in arrows:
        sums[end] = np.logaddexp(sums[end], sums[begin] + score)
    return sums


def backward_sums(arrows, n):
    """[place]: the log of the summed probability of all rows of arrows from it to n. Same form as `forward`."""
    ...  # your turn


def cuts(arrows, n):
    """[place]: how likely it is that a way goes through it, a probability. At places 0 and n that is 1."""
    ...  # your turn


def best_two(arrows, n):
    """The scores of the best way and of the second best, as a list; -np.inf for a way that does not exist.

    Viterbi keeps the best way to each place. How many must you keep? Two ways may have the same score.
    """
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------

P = {
    "l": 0.05, "o": 0.05, "w": 0.05, "e": 0.10, "s": 0.10, "t": 0.10,
    "lo": 0.05, "low": 0.15, "lowe": 0.05, "est": 0.20, "st": 0.10,
}  # fmt: skip


def arrows_of(word, scores):
    """The arrows of a word."""
    places = range(len(word) + 1)
    return [(i, j, scores[word[i:j]]) for i in places for j in places[i + 1 :] if word[i:j] in scores]


def all_ways(arrows, n, place=0):
    """Each way from a place to n, as (its score, the places that it goes through)."""
    if place == n:
        yield 0.0, {n}
    for begin, end, score in arrows:
        if begin == place:
            for rest, places in all_ways(arrows, n, end):
                yield score + rest, places | {place}


def words():
    """Yields what a case is called, its arrows and n."""
    scores = {piece: float(np.log(p)) for piece, p in P.items()}
    for word in ("lowest", "west", "l"):
        yield word, arrows_of(word, scores), len(word)
    rng = np.random.default_rng(0)
    pieces = ("a", "b", "ab", "ba", "aba", "bb", "abab")
    drawn = {piece: float(score) for piece, score in zip(pieces, np.log(rng.random(7)), strict=True)}
    for word in ("abababb", "bbbbabab"):
        yield word, arrows_of(word, drawn), len(word)
    yield "aaaa, where all ways are equally good", arrows_of("aaaa", {"a": -1.0, "aa": -2.0}), 4
    yield "abc, where place 1 is a dead end", [(0, 1, -1.0), (0, 2, -3.0), (2, 3, -0.5)], 3


def expected(arrows, n):
    """(backward sums, probabilities of cuts, the two best scores), from all ways one by one."""
    sums = []
    for place in range(n + 1):
        of_place = [score for score, _ in all_ways(arrows, n, place)]
        sums.append(np.logaddexp.reduce(of_place) if of_place else -np.inf)
    found = list(all_ways(arrows, n))
    shares = [sum(np.exp(score - sums[0]) for score, places in found if i in places) for i in range(n + 1)]
    best = sorted([score for score, _ in found], reverse=True)[:2]
    return sums, shares, best + [-np.inf] * (2 - len(best))


def compare(what, yours, right):
    """Print that it is right, or end."""
    if yours is None:
        raise SystemExit(f"{what}: returns nothing yet: your turn")
    if np.shape(yours) != np.shape(right):
        raise SystemExit(f"{what}: has shape {np.shape(yours)}, wanted is {np.shape(right)}")
    if not np.allclose(yours, right, atol=1e-9):
        raise SystemExit(f"{what}:\nyours is   {np.asarray(yours)}\nit should be {np.asarray(right)}")
    print(f"{what}: right")


if __name__ == "__main__":
    for name, arrows, n in words():
        of_ways, of_cuts, of_best = expected(arrows, n)
        compare(f"backward_sums of {name}", backward_sums(arrows, n), of_ways)
        compare(f"cuts of {name}", cuts(arrows, n), of_cuts)
        compare(f"best_two of {name}", best_two(arrows, n), of_best)
    long_word = [(i, i + k, -50.0 * k) for i in range(200) for k in (1, 2) if i + k <= 200]
    compare("a word of 200 characters, at 0", backward_sums(long_word, 200)[:1], forward(long_word, 200)[-1:])
    compare("its cut at place 1", cuts(long_word, 200)[1:2], [2 / (1 + 5**0.5)])
    print("all of it is right")
    raise SystemExit(0)
