"""Counted words, {word: how often it occurs}, from which the trainers of pieces learn.

The first pieces of Unigram depend on what stands behind a word as well. There a word, or a part of one, is counted
together with the one character behind it: {followed: how often it occurs}.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import regex

from minigpt.errors import InputError, check_share
from minigpt.tokenizer.base import check_size
from minigpt.tokenizer.spiece import SPACE

LINE_END = "\n"  # behind the last word of a line

_RARE = "\0"  # in the place of characters that get no piece

_SCRIPTS = (  # a piece holds letters of one of these; marks and digits are `Common`
    r"\p{Latin}", r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc", r"\p{Hangul}", r"\p{Cyrillic}", r"\p{Greek}", r"\p{Arabic}",
    r"\p{Hebrew}", r"\p{Thai}", r"\p{Devanagari}", r"\p{Bengali}", r"\p{Tamil}", r"\p{Armenian}", r"\p{Georgian}",
    r"\p{Common}",
)  # fmt: skip
_RUNS = [rf"[{script}\p{{Inherited}}]+" for script in _SCRIPTS]
_RUN = regex.compile(rf"{SPACE}?(?:{'|'.join(_RUNS)}|[^{''.join(_SCRIPTS)}]+)")


def counted(
    word_counts: Mapping[str, int] | str, vocab_size: int, coverage: float, mark: str = SPACE
) -> Mapping[str, int]:
    """The words to learn from, given as counted ones, or as a text: its words then begin with the mark.

    Raises InputError for a size or a coverage that cannot be, and where there are no words.
    """
    check_size(vocab_size)
    check_share(coverage=coverage)
    if isinstance(word_counts, str):
        word_counts = Counter(mark + word for word in word_counts.split())
    word_counts = {word: count for word, count in word_counts.items() if word}
    if not word_counts:
        raise InputError("there are no words to learn pieces from: the text is empty")
    return word_counts


def count_characters(word_counts: Mapping[str, int]) -> Counter:
    """{character: how often}."""
    counts = Counter()
    for word, count in word_counts.items():
        for character in word:
            counts[character] += count
    return counts


def characters_of(word_counts: Mapping[str, int], coverage: float) -> list[str]:
    """The characters that get a piece, the most frequent first: as many as make up this share of the text."""
    counts = count_characters(word_counts)
    total = sum(counts.values())
    found = []
    covered = 0
    for character, count in sorted(counts.items(), key=highest_first):
        if covered >= coverage * total:
            break
        covered += count
        found.append(character)
    return found


def highest_first(item: tuple[str, float]) -> tuple[float, str]:
    """The key that sorts (piece, value) by the value, and equal ones by the alphabet."""
    piece, value = item
    return -value, piece


def check_room(vocab_size: int, n_first: int, signs: Sequence[str], what: str = "characters") -> None:
    """Raises InputError for a vocabulary without room for the first pieces and for all signs. what: the signs are."""
    least = n_first + len(signs)
    if vocab_size < least:
        raise InputError(f"{vocab_size} pieces do not hold the {len(signs)} {what} of the text: give {least} or more")


def followed_words(words: Sequence[str]) -> list[str]:
    """The words of a line with their `▁`, each with the character behind it: the next `▁`, or `LINE_END`."""
    behind = [SPACE] * (len(words) - 1) + [LINE_END]
    return [SPACE + word + character for word, character in zip(words, behind, strict=False)]


def check_followed(word_counts: Iterable[str]) -> None:
    """Raises InputError for a word without the character behind it."""
    for word in word_counts:
        if len(word) < 2 or word[-1] not in (SPACE, LINE_END):
            raise InputError(
                f"the word {word!r} lacks the character behind it: give {word + SPACE!r} where another word follows, "
                f"{word + LINE_END!r} at the end of a line"
            )


def without_behind(followed_counts: Mapping[str, int]) -> dict[str, int]:
    """{word or part: how often}, whatever stands behind it."""
    counts = Counter()
    for followed, count in followed_counts.items():
        counts[followed[:-1]] += count
    return dict(counts)


def followed_parts(followed_counts: Mapping[str, int], characters: Iterable[str]) -> dict[str, int]:
    """{part with the character behind it: how often} of words with theirs, split as `parts_of` says."""
    known = set(characters)
    rare = {ord(character): _RARE for character in set().union(*followed_counts) - known}
    counts = Counter()
    for followed, count in followed_counts.items():
        word = followed[:-1].translate(rare)
        text = word + followed[-1]
        for run in _RUN.finditer(word):
            *before, last = run.group().split(_RARE)
            for part in before:
                counts[part + _RARE] += count
            counts[last + text[run.end()]] += count
    return {part: count for part, count in counts.items() if len(part) > 1}


def parts_of(word_counts: Mapping[str, int], characters: Iterable[str]) -> dict[str, int]:
    """{part: how often} of words that are split between scripts, and at what is not one of these characters.

    No piece reaches over such a border, so the parts have the same likelihood as the words, and there are fewer.
    """
    followed_counts = {word + LINE_END: count for word, count in word_counts.items()}
    return without_behind(followed_parts(followed_counts, characters))
