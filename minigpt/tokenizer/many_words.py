"""The merges of many words at once: a column for each word, and every step merges one pair in all of them.

`bpe.merge` takes one word. A long text brings tens of thousands of new ones, most of them short, and for those arrays
are several times as fast. The order is the same: in each word the pair learnt first goes first, from left to right.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from minigpt.tokenizer.bpe import Pair

HEIGHTS = (0, 6, 12, 24, 48)  # words are merged together whose numbers of symbols lie between two of these
LONGEST = HEIGHTS[-1]


class ManyWords:
    """Merges for arrays: symbols are numbers, and a pair of them is one number, which is searched for.

    ranks {pair: its place in the list of merges}; ids {symbol: its id}, which is its number here. Symbols that have no
    id get the numbers that follow, and so does `nothing`, which stands before and after each word.
    """

    def __init__(self, ranks: Mapping[Pair, int], ids: Mapping[str, int], alphabet: Sequence[str]):
        numbers = dict(ids)
        for symbol in alphabet:
            numbers.setdefault(symbol, len(numbers))
        lefts = []
        rights = []
        merged = []
        for left, right in ranks:
            lefts.append(numbers.setdefault(left, len(numbers)))
            rights.append(numbers.setdefault(right, len(numbers)))
            merged.append(numbers.setdefault(left + right, len(numbers)))
        self.nothing = len(numbers)
        self.is_whole = self.nothing == len(ids) <= sys.maxunicode  # every number is an id, and a character
        self.alphabet = np.array([numbers[symbol] for symbol in alphabet], np.int32)

        rank_of = np.array(list(ranks.values()), np.int32)
        self.no_rank = np.int32(max(ranks.values(), default=0) + 1)
        self.merged = np.zeros(self.no_rank, np.int32)  # [rank]: the symbol that the merge makes
        self.merged[rank_of] = merged
        pairs = self._pairs_of(np.array(lefts, np.int32), np.array(rights, np.int32))
        order = np.argsort(pairs)
        self.pairs = pairs[order]
        self.ranks = rank_of[order]

    def letters(self, words: Sequence[bytes]) -> list[str]:
        """For each word, given as places in the alphabet, its symbols in the end as a string of `chr(number)`.

        Words of more than `LONGEST` symbols are left out: an empty string stands for them.
        """
        found = [""] * len(words)
        heights = np.array([len(word) for word in words])
        for shorter, height in pairwise(HEIGHTS):
            chosen = np.flatnonzero((heights > shorter) & (heights <= height))
            symbols = self._columns([words[i] for i in chosen.tolist()], heights[chosen], height)
            for done, end in self._merge(symbols):
                indices = chosen[done].tolist()
                for i, letters in zip(indices, self._as_strings(end), strict=True):
                    found[i] = letters
        return found

    def _columns(self, words: Sequence[bytes], heights: np.ndarray, height: int) -> np.ndarray:
        """The words from top to bottom, with nothing above and below: (height + 2, words)."""
        symbols = self.alphabet[np.frombuffer(b"".join(words), np.uint8)]
        rows = np.full((len(words), height + 2), self.nothing, np.int32)
        inside = np.arange(height) < heights[:, None]
        rows[:, 1:-1][inside] = symbols
        return np.ascontiguousarray(rows.T)

    def _merge(self, symbols: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Merge every column to the end. Yields (indices of columns that are done, their symbols), until all are.

        A column that is merged once loses a row, so that all that go on are equally high.
        """
        columns = np.arange(symbols.shape[1])
        ranks = self._ranks_of(symbols[:-1], symbols[1:])  # [i]: of the pair in the rows i and i + 1
        last = np.full(len(columns), -1, np.int32)  # the merge that was done last
        while len(columns):
            least = ranks.min(axis=0)
            done = least == self.no_rank
            yield columns[done], symbols[:, done]

            going = np.flatnonzero(~done)
            columns = columns[going]
            symbols = symbols[:, going]
            ranks = ranks[:, going]
            last = last[going]
            again = (ranks == last).any(axis=0)  # a merge is done everywhere, before one that it made possible
            last = np.where(again, last, least[going])
            symbols, ranks = self._step(symbols, ranks, last)

    def _step(self, symbols: np.ndarray, ranks: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Join the first pair of that rank in each column; what is below moves up."""
        column = np.arange(len(rank))
        row = (ranks == rank).argmax(axis=0)
        rows = np.arange(len(ranks))[:, None]
        stays = rows <= row
        symbols = np.where(stays, symbols[:-1], symbols[1:])
        symbols[row, column] = self.merged[rank]
        ranks = np.where(stays[:-1], ranks[:-1], ranks[1:])
        for changed in (row - 1, row):
            upper = symbols[changed, column]
            lower = symbols[changed + 1, column]
            ranks[changed, column] = self._ranks_of(upper, lower)
        return symbols, ranks

    def _ranks_of(self, lefts: np.ndarray, rights: np.ndarray) -> np.ndarray:
        """The rank of each pair, `no_rank` for one that no merge joins."""
        if not len(self.pairs):
            return np.full(lefts.shape, self.no_rank)
        pairs = self._pairs_of(lefts, rights)
        places = np.searchsorted(self.pairs[:-1], pairs)
        found = self.pairs[places] == pairs
        return np.where(found, self.ranks[places], self.no_rank)

    def _pairs_of(self, lefts: np.ndarray, rights: np.ndarray) -> np.ndarray:
        """Each pair as one number."""
        n_numbers = np.int64(self.nothing + 1)
        return lefts * n_numbers + rights

    def _as_strings(self, symbols: np.ndarray) -> list[str]:
        """Each column as a string, without the nothing around it."""
        height = len(symbols)
        nothing = chr(self.nothing)
        codes = symbols.T.astype("<u4")
        letters = codes.tobytes().decode("utf-32-le", "surrogatepass")
        columns = [letters[i : i + height] for i in range(0, len(letters), height)]
        return [column.strip(nothing) for column in columns]
