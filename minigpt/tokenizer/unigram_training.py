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
from minigpt.tokenizer.word_counts import count_characters, highest_first, without_behind

SUB_ITERATIONS = 2  # steps of EM between two prunings
STAY = 0.75  # the share of the pieces that a pruning leaves
SPARE = 1.1  # EM ends with so many times the pieces that are wanted, of which the likeliest are taken
LEAST_COUNT = 0.5  # pieces that are expected less often are dropped
_DIGAMMA = (-1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)  # of 1/x^14, ..., 1/x^2


class Step(NamedTuple):
    """One step of EM. log_likelihood: of the text under the model before it; scores: the model after it."""

    scores: Mapping[str, float]
    log_likelihood: float


def learn(word_counts: Mapping[str, int], size: int, seeds: Mapping[str, float]) -> Iterator[Step]:
    """Yield one step of EM after the other, until there are at most `SPARE` times `size` pieces.

    word_counts {word: how often it occurs}; seeds {piece: score}: the first pieces, as `seed_pieces` gives them. A
    pruning belongs to the step before it, and the last one is the end, as in SentencePiece 0.2.3 (0.2.0 takes two
    more steps of EM).
    """
    vocabulary = Vocabulary(seeds)
    enough = int(SPARE * size)
    step = 0
    while True:
        step += 1
        counts, log_likelihood = expect(word_counts, vocabulary)
        vocabulary = Vocabulary(maximise(counts))
        prunes = step % SUB_ITERATIONS == 0
        if prunes:
            vocabulary = Vocabulary(prune(word_counts, vocabulary, enough))
        yield Step(vocabulary.scores, log_likelihood)
        if prunes and len(vocabulary.scores) <= enough:
            return


def seed_pieces(followed: Mapping[str, int], n_seeds: int = 1_000_000, longest: int = 16) -> dict[str, float]:
    """All characters, and of the substrings that go on in several ways those that cover most of the text.

    followed {part of a word with the character behind it: how often}. The first scores come from what a piece covers.
    What the same character always follows is left out: the longer substring says it all. The space behind a word is
    such a character too, and the end of a line, as in SentencePiece: a word that always stands before a space is no
    first piece. Level by level, because a substring can only occur twice if it does so without its last character.
    """
    characters = count_characters(without_behind(followed))
    covers = {}  # {substring: how many characters of the text it covers}
    shorter = set(characters)  # what occurs twice, of one character less
    for n in range(2, longest + 1):
        found = Counter()
        behind = {}  # {substring: the character behind it where it was first seen}
        branching = set()  # what was seen before another character as well
        for part, count in followed.items():
            for begin in range(len(part) - n):
                piece = part[begin : begin + n]
                if piece[:-1] in shorter:
                    found[piece] += count
                    following = part[begin + n]
                    if behind.setdefault(piece, following) != following:
                        branching.add(piece)
        covers.update({piece: n * found[piece] for piece in branching})
        shorter = {piece for piece, count in found.items() if count > 1}
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
