"""The units of a sentence that have labels, words or characters, and the tokens in which they stand.

A sentence is cut into words at its spaces, and each word into tokens, as KLUE does.
"""

from collections.abc import Sequence

import numpy as np

from minigpt.tokenizer import Tokenizer

SPACE = " "  # the only unit without a label
NOWHERE = -1  # the place of a unit that had no room, or has no token


def tokens_of(units: Sequence[str], tokenizer: Tokenizer) -> tuple[list[int], np.ndarray]:
    """units, with spaces between words -> the ids of their tokens, and places (2,U) int32

    places: of each unit that is no space the token in which it begins, and the one in which it ends; NOWHERE where its
    word has no token.
    """
    ids: list[int] = []
    places: list[tuple[int, int]] = []
    for number, word in enumerate(_words(units)):
        text = "".join(word)
        of_word = tokenizer.encode(SPACE + text if number else text)
        if of_word:
            ends = ends_of(text, of_word, tokenizer)
            behind = np.cumsum([len(unit) for unit in word])
            before = np.array([0, *behind[:-1]])
            begins_in = len(ids) + np.searchsorted(ends, before, side="right")
            ends_in = len(ids) + np.searchsorted(ends, behind)
            places += zip(begins_in.tolist(), ends_in.tolist(), strict=True)
        else:
            places += [(NOWHERE, NOWHERE)] * len(word)
        ids += of_word
    return ids, np.array(places, np.int32).reshape(-1, 2).T


def _words(units: Sequence[str]) -> list[list[str]]:
    """The units of each word: what stands between two spaces."""
    words: list[list[str]] = [[]]
    for unit in units:
        if unit == SPACE:
            words.append([])
        else:
            words[-1].append(unit)
    return [word for word in words if word]


def ends_of(word: str, ids: Sequence[int], tokenizer: Tokenizer) -> np.ndarray:
    """(T,) int: how many characters of a word its first 1, 2, ..., T tokens spell in full; in the end all of them.

    What known tokens leave over is the unknown one's; of several unknown tokens each has one character, and the first
    one the rest. Where a tokenizer changes letters, so that there are more or fewer, the ends are only nearly right.
    """
    ends = []
    if len(ids) > 1:
        known = [i for i in ids if i != tokenizer.unknown_id]
        n_unknown = len(ids) - len(known)
        of_first = max(1, len(word) - _spelt(known, tokenizer) - (n_unknown - 1))  # characters of the first unknown one
        unknown = 0  # characters of the unknown tokens so far
        read: list[int] = []
        for i in ids[:-1]:
            if i == tokenizer.unknown_id:
                unknown += 1 if unknown else of_first
            else:
                read.append(i)
            ends.append(min(unknown + _spelt(read, tokenizer), len(word)))
    return np.maximum.accumulate(np.array([*ends, len(word)]))


def _spelt(ids: Sequence[int], tokenizer: Tokenizer) -> int:
    """How many characters, spaces not counted, these tokens spell; half a character at their end is none."""
    text = tokenizer.decode(ids).rstrip("\N{REPLACEMENT CHARACTER}")
    return sum(not character.isspace() for character in text)
