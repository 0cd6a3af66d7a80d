"""GPT-2's words: a pattern says what they are, and arrays find the distinct ones of a long text (GPT-2 §2.2).

Most words of a text have been met before. So nothing is done for each occurrence of a word in Python: arrays find where
words begin, write a short word as one number and give equal numbers one place. Only distinct words become strings.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count

import numpy as np
import regex

WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")  # OpenAI's own

STRETCH = 1 << 20  # the least length, in characters, of the stretches that a text is split in
SHORT = 1 << 11  # characters: in shorter stretches the pattern itself is the quicker way

_STRETCH_END = regex.compile(r"(?<=\S)\s")  # a word ends before it, and no word that begins here looks further back
_CONTRACTION = re.compile(r"'(?:[stmd]|re|ve|ll)")
_KIND = regex.compile(r"(\p{L})|(\p{N})|( )|(\s)|(.)", regex.DOTALL)  # what the pattern tells apart: kinds 1 to 5
_SPACE = 3  # it may begin a word
_WHITE = 4
_kinds = np.zeros(0x110000, np.uint8)  # the kind of every character that was met; 0: of none

_PACKED = 8  # characters: an ASCII word of no more is one number of 64 bits
_NOT_ASCII = 0x80
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(_PACKED + 1)], np.uint64)  # the first k bytes of eight
_ANY_NOT_ASCII = np.uint64(0x8080_8080_8080_8080)
_LONGEST_HASH = 18  # bits
_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 / the golden ratio, which spreads neighbours (Knuth)


def words_of(text: str) -> Iterator[str]:
    """The words of a text, of which none is lost: `I'm here.` gives `I`, `'m`, ` here`, `.`."""
    for stretch in stretches_of(text):
        yield from WORD.findall(stretch)


def stretches_of(text: str) -> Iterator[str]:
    """A text in stretches of bounded length: a list of all words of a book would be larger than the book."""
    start = 0
    while start < len(text):
        found = _STRETCH_END.search(text, start + STRETCH)
        end = found.start() if found else len(text)
        yield text[start:end]
        start = end


def count_words(text: str) -> Counter[str]:
    """{word: how often it occurs in the text}"""
    counts = Counter()
    for stretch in stretches_of(text):
        if len(stretch) < SHORT:
            counts.update(WORD.findall(stretch))
            continue
        words, places = distinct_words(stretch)
        for word, n in zip(words, np.bincount(places).tolist(), strict=True):
            counts[word] += n
    return counts


def distinct_words(stretch: str) -> tuple[list[str], np.ndarray]:
    """`(words, places)`: the words of a stretch are `[words[i] for i in places]`. A few may stand in `words` twice."""
    codes = np.frombuffer(stretch.encode("utf-32-le", "surrogatepass"), "<u4")
    starts = np.flatnonzero(_begins(stretch, codes))
    ends = np.append(starts[1:], len(codes))
    numbers = _as_numbers(stretch, codes, starts, ends)
    first = _equal_before(numbers)
    distinct = np.flatnonzero(first == np.arange(len(first)))
    place_of = np.empty(len(first), np.intp)
    place_of[distinct] = np.arange(len(distinct))
    return _cut(stretch, starts[distinct], ends[distinct]), place_of[first]


def _begins(stretch: str, codes: np.ndarray) -> np.ndarray:
    """Whether a word of the pattern begins at each character, `codes` being their code points."""
    kinds = _kinds_of(codes)
    white = (kinds == _SPACE) | (kinds == _WHITE)
    before, here = kinds[:-1], kinds[1:]
    word_begins = (here != before) & (before != _SPACE)
    last_of_white = np.append(~white[2:], False)  # it does not belong to the white space before it
    begins = np.ones(len(codes), bool)
    begins[1:] = np.where(white[1:], ~white[:-1] | last_of_white, word_begins)
    for found in _CONTRACTION.finditer(stretch):
        start, end = found.span()
        if begins[start]:
            begins[start + 1] = False
            begins[end : end + 1] = True
    return begins


def _kinds_of(codes: np.ndarray) -> np.ndarray:
    """The kind of each character; those of new ones are looked up first."""
    kinds = _kinds[codes]
    if kinds.all():
        return kinds
    for code in np.unique(codes[kinds == 0]).tolist():
        _kinds[code] = _KIND.match(chr(code)).lastindex
    return _kinds[codes]


def _as_numbers(stretch: str, codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A number for each word, the same for equal words alone: its characters; for long ones and others 2^63 and up.

    Such a character is its code + 1, so that the last of ASCII, U+007F, counts among the others.
    """
    letters = np.zeros(len(codes) + _PACKED, np.uint8)
    letters[: len(codes)] = np.minimum(codes, _NOT_ASCII - 1) + 1  # 0 is what follows a short word
    eight_letters = np.ndarray(len(codes), "<u8", letters, strides=(1,))  # those that begin at each character
    lengths = ends - starts
    numbers = eight_letters[starts] & _MASKS[np.minimum(lengths, _PACKED)]
    others = np.flatnonzero((lengths > _PACKED) | (numbers & _ANY_NOT_ASCII != 0))
    number_of = defaultdict(count(1 << 63).__next__)
    words = _cut(stretch, starts[others], ends[others])
    numbers[others] = list(map(number_of.__getitem__, words))
    return numbers


def _equal_before(numbers: np.ndarray) -> np.ndarray:
    """For each number the index of one that is equal, mostly the same for all that are equal: found by their hashes.

    Each number writes its index in the slot of its hash, and the last one stays. Where another number stayed there, it
    keeps its own index.
    """
    own = np.arange(len(numbers), dtype=np.int32)
    bits = min(len(numbers).bit_length() + 1, _LONGEST_HASH)
    slots = numbers * _MULTIPLIER >> np.uint64(64 - bits)
    stayed = np.empty(1 << bits, np.int32)
    stayed[slots] = own
    found = stayed[slots]
    return np.where(numbers[found] == numbers, found, own)


def _cut(text: str, starts: np.ndarray, ends: np.ndarray) -> list[str]:
    """The parts of a text between these places."""
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
