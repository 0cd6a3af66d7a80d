"""Training a Unigram vocabulary: far too many pieces at first, then EM, and those that are missed least go (Kudo 2018).

The pieces of a text are not known, only its characters. So each way to cut a word counts by its probability under the
last model (`expect`, the E step), and each piece gets the probability of its count (`maximise`, the M step): EM, which
makes the text likelier with every step. From time to time a quarter of the pieces is left out (`prune`). `learn` is the
whole of it, one step after the other; SentencePiece does the same, and its constants are used here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

from minigpt.tokenizer.lattice import Vocabulary, Way, expected_counts, lattice, viterbi
from minigpt.tokenizer.word_counts import count_characters, highest_first

SUB_ITERATIONS = 2  # steps of EM between two prunings
STAY = 0.75  # the share of the pieces that a pruning leaves
SPARE = 1.1  # EM ends with so many times the pieces that are wanted, of which the likeliest are taken
LEAST_COUNT = 0.5  # pieces that are expected less often are dropped
_DIGAMMA = (-1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)  # of 1/x^14, ..., 1/x^2


class Step(NamedTuple):
    """One step of EM. log_likelihood: of the text under the model before it; scores: the model after it."""

    scores: Mapping[str, float]
    log_likelihood: float


def learn(word_counts: Mapping[str, int], size: int, seeds: Mapping[str, float] | None = None) -> Iterator[Step]:
    """Yield one step of EM after the other, until there are at most `SPARE` times `size` pieces.

    word_counts {word: how often it occurs}; seeds {piece: score}: the first pieces, those of `seed_pieces` if None.
    """
    vocabulary = Vocabulary(seed_pieces(word_counts) if seeds is None else seeds)
    while True:
        for _ in range(SUB_ITERATIONS):
            counts, log_likelihood = expect(word_counts, vocabulary)
            vocabulary = Vocabulary(maximise(counts))
            yield Step(vocabulary.scores, log_likelihood)
        if len(vocabulary.scores) <= SPARE * size:
            return
        vocabulary = Vocabulary(prune(word_counts, vocabulary, int(SPARE * size)))


def seed_pieces(word_counts: Mapping[str, int], n_seeds: int = 1_000_000, longest: int = 16) -> dict[str, float]:
    """All characters, and of the substrings that occur twice those that cover most of the text, with first scores.

    A substring that is always followed by the same character is left out: the longer one says it all. The end of a word
    is no such character, for different words follow it. SentencePiece takes the space for one, and so has no piece for
    a word that a space always follows, such as `▁very`: with that rule, 8,000 pieces of a megabyte of prose make it as
    likely as SentencePiece's do, to 0.5 %. Level by level, because a substring can only occur twice if it does so
    without its last character.
    """
    characters = count_characters(word_counts)
    covers = {}  # {substring: how many characters of the text it covers}
    shorter = characters
    for n in range(2, longest + 1):
        found = Counter()
        for word, count in word_counts.items():
            for begin in range(len(word) - n + 1):
                piece = word[begin : begin + n]
                if piece[:-1] in shorter:
                    found[piece] += count
        for piece, count in found.items():
            if count == shorter[piece[:-1]]:
                covers.pop(piece[:-1], None)
        shorter = {piece: count for piece, count in found.items() if count > 1}
        covers.update({piece: n * count for piece, count in shorter.items()})
    best = sorted(covers.items(), key=highest_first)[:n_seeds]
    seeds = {**characters, **dict(best)}
    total = sum(seeds.values())
    return {piece: log(count / total) for piece, count in seeds.items()}


def expect(word_counts: Mapping[str, int], vocabulary: Vocabulary) -> tuple[dict[str, float], float]:
    """The E step: ({piece: how often it is expected in the text}, log-probability of the text)."""
    counts = defaultdict(float)
    total = 0.0
    for word, n in word_counts.items():
        in_word, log_likelihood = expected_counts(lattice(word, vocabulary))
        total += n * log_likelihood
        for piece, count in in_word.items():
            if piece in vocabulary.scores:  # and not a character without a piece
                counts[piece] += n * count
    return counts, total


def maximise(counts: Mapping[str, float], sparse: bool = True) -> dict[str, float]:
    """The M step: the scores under which pieces are expected as often as they were counted.

    Without `sparse` a piece has the share of its count, log(count / sum): the text becomes likelier with each step.
    With it, digamma(count) - digamma(sum), the mean logarithm under a prior that prefers few pieces: a count of 10 is
    taken for 9.5, one of 1 for 0.56, one of 0.5 for 0.14, and those below `LEAST_COUNT` are dropped.
    """
    if not sparse:
        total = sum(counts.values())
        shares = {piece: count / total for piece, count in counts.items()}
        return {piece: log(share) for piece, share in shares.items() if share > 0}  # the smallest count has share 0
    kept = {piece: count for piece, count in counts.items() if count >= LEAST_COUNT} or counts
    total = digamma(sum(kept.values()))
    return {piece: digamma(count) - total for piece, count in kept.items()}


def digamma(x: float) -> float:
    """The derivative of log(gamma(x)), x > 0: near log(x - 1/2). Every digit of a float but the last two.

    digamma(x) = digamma(x + 1) - 1/x leads to large x; there, log(x) - 1/(2x) - 1/(12 x^2) + 1/(120 x^4) - ...
    (Abramowitz and Stegun 1964, 6.3.18).
    """
    below = 0.0
    while x < 10:
        below += 1 / x
        x += 1
    square = 1 / (x * x)
    series = 0.0
    for coefficient in _DIGAMMA:
        series = (series + coefficient) * square
    return log(x) - 0.5 / x + series - below


def prune(word_counts: Mapping[str, int], vocabulary: Vocabulary, size: int) -> dict[str, float]:
    """The scores of the pieces that stay: `STAY` of them, but not less than `size`.

    Those go first whose loss is least: the log-likelihood of the text now, less that where each is spelled by the best
    other pieces. A piece that no other spells, as a single character is, always stays.
    """
    scores = vocabulary.scores
    uses = Counter()
    for word, count in word_counts.items():
        for piece in viterbi(lattice(word, vocabulary)).pieces:
            uses[piece] += count
    total = sum(uses.values())
    kept = {}
    losses = {}
    for piece in scores:
        if not uses[piece]:
            continue
        others = without(piece, vocabulary)
        if others is None:
            kept[piece] = scores[piece]
        else:
            losses[piece] = uses[piece] * loss(uses, total, piece, others.pieces)
    n_stay = max(size, int(STAY * len(scores)))
    worst_first = sorted(losses.items(), key=highest_first)
    for piece, _ in worst_first[: max(n_stay - len(kept), 0)]:
        kept[piece] = scores[piece]
    return kept


def without(piece: str, vocabulary: Vocabulary) -> Way | None:
    """The best way to spell a piece with others; None where there is none."""
    nodes = lattice(piece, vocabulary)
    nodes[-1] = [node for node in nodes[-1] if node[0] > 0]
    return viterbi(nodes) if nodes[-1] else None


def loss(uses: Mapping[str, int], total: int, piece: str, others: list[str]) -> float:
    """What one use of a piece loses when the others take its place, and its count with it."""
    now = log(uses[piece] / total)
    later_total = total + uses[piece] * (len(others) - 1)
    return now - sum(log((uses[other] + uses[piece]) / later_total) for other in others)


def finish(scores: Mapping[str, float], characters: Sequence[str], size: int) -> dict[str, float]:
    """The pieces of the vocabulary, the likeliest first: all these characters, then the best until there are `size`."""
    least = min(scores.values(), default=0.0)
    final = {}
    for character in characters:
        final[character] = scores.get(character, least)
    for piece, score in sorted(scores.items(), key=highest_first):
        if len(final) >= size:
            break
        final[piece] = score
    return dict(sorted(final.items(), key=highest_first))
