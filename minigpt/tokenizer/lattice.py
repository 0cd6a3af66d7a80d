"""All ways to cut a word into pieces, as a lattice: the best one, the sum of all, and one that is drawn (Kudo 2018).

A Unigram model says that a text is spelled by pieces which are drawn one after the other, independently: a way to cut a
word has the probability of its pieces multiplied. The *lattice* of a word has a place before and after each character,
and a *node* for each piece that spells the characters between two places; a way is a row of nodes from the first place
to the last one. There are up to 2^(n-1) ways through n characters, but at most n (n + 1) / 2 nodes, and every sum
over ways below takes each node once. Scores are log-probabilities, so that products are sums.
"""

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp, inf, log1p
from typing import Any, NamedTuple

import numpy as np

UNKNOWN_PENALTY = 10.0  # a character without a piece costs as much as the least likely piece, and this

FARTHEST = 100_000.0  # how far from 0 a sum of scores with 32 bits may be, as in SentencePiece 0.2.3

Node = tuple[int, str, float]  # the place where a piece begins, the piece, its score
Lattice = list[list[Node]]  # [place]: the nodes that end there, those that begin first come first


class Vocabulary:
    """Pieces with their scores, {piece: log-probability}, ready to be found in words."""

    def __init__(self, scores: Mapping[str, float], unknown: float | None = None):
        self.scores = scores
        self.prefixes = {piece[:end] for piece in scores for end in range(1, len(piece))}  # what may still grow
        if unknown is None:
            unknown = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
        self.unknown = unknown  # the score of a character without a piece


class Way(NamedTuple):
    """A way through a lattice: its pieces, and their scores added up."""

    pieces: list[str]
    score: float


def lattice(word: str, vocabulary: Vocabulary) -> Lattice:
    """All pieces that a word can be spelled with, by the place where they end. Some way leads through every place."""
    scores = vocabulary.scores
    prefixes = vocabulary.prefixes
    nodes = [[] for _ in range(len(word) + 1)]
    for begin, piece in enumerate(word):
        end = begin + 1
        nodes[end].append((begin, piece, scores.get(piece, vocabulary.unknown)))
        while piece in prefixes and end < len(word):
            end += 1
            piece = word[begin:end]
            if piece in scores:
                nodes[end].append((begin, piece, scores[piece]))
    return nodes


def viterbi(nodes: Lattice) -> Way:
    """The best way through a lattice: of all ways to reach a place, only the best can be part of it.

    Between equal ways the one whose last piece begins first is taken.
    """
    best = [-inf] * len(nodes)  # [place]: the score of the best way to reach it
    last: list[Any] = [None] * len(nodes)  # [place]: the last node of that way
    best[0] = 0.0
    for place, ending in enumerate(nodes):
        for node in ending:
            begin, _, score = node
            if best[begin] + score > best[place]:
                best[place] = best[begin] + score
                last[place] = node
    return Way(_back_along(last), best[-1])


def best_way(word: str, vocabulary: Vocabulary) -> tuple[list[str], float]:
    """(pieces of the best way, its margin): as `viterbi(lattice(word, vocabulary))` finds it, in half the time.

    margin: by how much the second best way to reach one of its places is worse. No node is kept: when the search comes
    to a place, all ways to reach it are known, and each piece that begins there is tried at once.
    """
    scores = vocabulary.scores
    prefixes = vocabulary.prefixes
    n_places = len(word) + 1
    best = [-inf] * n_places
    came_from = [0] * n_places
    margin = [inf] * n_places
    best[0] = 0.0
    for begin, piece in enumerate(word):
        till_here = best[begin]
        score = scores.get(piece, vocabulary.unknown)
        end = begin + 1
        while True:
            if score is not None:
                lead = till_here + score - best[end]
                if lead > 0:
                    best[end] = till_here + score
                    came_from[end] = begin
                    margin[end] = lead
                elif -lead < margin[end]:
                    margin[end] = -lead
            if end == n_places - 1 or piece not in prefixes:
                break
            end += 1
            piece = word[begin:end]
            score = scores.get(piece)
    pieces = []
    least = inf
    end = n_places - 1
    while end > 0:
        least = min(least, margin[end])
        pieces.append(word[came_from[end] : end])
        end = came_from[end]
    return pieces[::-1], least


def rounded_viterbi(nodes: Lattice, start: float) -> tuple[list[str], float]:
    """(pieces of the best way, score at its end) where sums have 32 bits, as in SentencePiece.

    start: the score of what stands before. Between ways that are nearly equal the rounding of the sums decides. A sum
    that is farther from 0 than `FARTHEST` is taken from all that follow, so that they stay exact enough.
    """
    best = array("f", [start]) * len(nodes)  # what is stored in it is rounded
    last: list[Any] = [None] * len(nodes)
    rounded = array("f", [0.0])
    turn = 0  # the place where the sums last began again at 0 ...
    taken = 0.0  # ... and what was taken from them
    for place, ending in enumerate(nodes):
        for node in ending:
            begin, _, score = node
            rounded[0] = best[begin] + score
            total = rounded[0]
            if begin < turn:
                total -= taken
            if last[place] is None or total > best[place]:
                best[place] = total
                last[place] = node
        if abs(best[place]) > FARTHEST:
            turn = place
            taken = best[place]
            best[place] = 0.0
    return _back_along(last), best[-1]


def _back_along(last: Sequence[Node]) -> list[str]:
    """The pieces of a way, of which the last node is known for every place that it may reach."""
    pieces = []
    place = len(last) - 1
    while place > 0:
        place, piece, _ = last[place]
        pieces.append(piece)
    return pieces[::-1]


def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), where neither exponential need fit into a number."""
    if a < b:
        a, b = b, a
    if b == -inf:
        return a
    return a + log1p(exp(b - a))


def forward(nodes: Lattice, alpha: float = 1.0) -> list[float]:
    """[place]: the log of the summed probability of all ways from the beginning to it. The last one is the word's.

    alpha: what scores are multiplied by; below 1 all ways become more alike.
    """
    sums = [-inf] * len(nodes)
    sums[0] = 0.0
    for place, ending in enumerate(nodes):
        for begin, _, score in ending:
            sums[place] = log_add(sums[place], sums[begin] + alpha * score)
    return sums


def backward(nodes: Lattice) -> list[float]:
    """[place]: the log of the summed probability of all ways from it to the end. The first one is the word's."""
    sums = [-inf] * len(nodes)
    sums[-1] = 0.0
    for place in range(len(nodes) - 1, 0, -1):
        for begin, _, score in nodes[place]:
            sums[begin] = log_add(sums[begin], score + sums[place])
    return sums


def expected_counts(nodes: Lattice) -> tuple[dict[str, float], float]:
    """({piece: how often it is expected in the word}, log-probability of the word).

    A node has the share of the probability that flows through it: before it, in it, after it, divided by the whole.
    """
    before = forward(nodes)
    after = backward(nodes)
    whole = before[-1]
    counts = defaultdict(float)
    for place, ending in enumerate(nodes):
        for begin, piece, score in ending:
            counts[piece] += exp(before[begin] + score + after[place] - whole)
    return counts, whole


def sample_path(nodes: Lattice, alpha: float, generator: np.random.Generator) -> list[str]:
    """Pieces of one way, drawn with its probability to the power alpha: sums forward, then nodes drawn backward."""
    sums = forward(nodes, alpha)
    pieces = []
    place = len(nodes) - 1
    while place > 0:
        shares = [exp(sums[begin] + alpha * score - sums[place]) for begin, _, score in nodes[place]]
        drawn = generator.random() * sum(shares)
        chosen = 0
        while chosen < len(shares) - 1 and drawn >= shares[chosen]:
            drawn -= shares[chosen]
            chosen += 1
        place, piece, _ = nodes[place][chosen]
        pieces.append(piece)
    return pieces[::-1]
