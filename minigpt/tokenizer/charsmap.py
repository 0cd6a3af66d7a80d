"""The compiled map of characters in the files of SentencePiece, and the text that becomes of a text by it.

Before a text is cut into pieces, full-width letters become plain ones, letters and their accents one character, line
ends spaces. SentencePiece compiles such rules (`nmt_nfkc`, `nfkc_cf`, ...: rows "these characters become those") into
one block of bytes that stands in the file, and that `tokenizer.json` repeats in base64 as `Precompiled`:

    4 bytes      the size of the trie
    the trie     a *double array* (Aoe 1989; the library Darts-clone): 4 bytes for each unit
    the rest     what characters become: texts in UTF-8, each ends with a byte 0

A trie spells keys byte by byte from its root. In a double array the child of a node by the byte b is the unit number
`base ^ b`, if that unit has b as its label; `base` follows from the node's own unit. A unit of 32 bits holds

    bits 0-7 and 31   the label: a byte (bit 31 is not set)
    bit 8             a key ends here: the unit `base ^ 0` holds its value, where in the rest its text begins
    bit 9, 10-30      base = the node's own number ^ offset; the offset is bits 10-30, with bit 9 set eight bits higher

Several nodes may share what follows them, so the units are a small part of what the keys would fill if written out.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import regex

from minigpt.errors import InputError
from minigpt.tokenizer.base import Remembered

_ROOT = 0
_LABEL = 0x800000FF
_VALUE = 0x7FFFFFFF
_INSIDE = {bytes([byte]) for byte in range(0x80, 0xC0)}  # bytes of UTF-8 that are not the first of a character


class Trie:
    """The keys of a compiled map, and what each becomes. Raises ValueError for a damaged block."""

    def __init__(self, block: bytes):
        size = int.from_bytes(block[:4], "little")
        if size % 4 or not 0 < size < len(block) - 4:
            raise ValueError
        units = np.frombuffer(block, "<u4", size // 4, offset=4).astype(np.int64)
        offsets = units >> 10 << ((units & 0x200) >> 6)
        bases = np.arange(len(units)) ^ offsets
        self.units = units.tolist()
        self.bases = bases.tolist()
        self.labels = (units & _LABEL).tolist()
        self.texts = block[4 + size :]
        self.texts.decode()
        if self.texts[-1:] != b"\0":
            raise ValueError
        self.children = defaultdict(list)  # {base: the units that are children there}
        for unit, label in enumerate(self.labels):
            if 0 < label < 256:
                self.children[unit ^ label].append(unit)

    def text_of(self, node: int) -> str | None:
        """What the key that ends at a node becomes; None where no key ends there. Raises ValueError where damaged."""
        if not self.units[node] >> 8 & 1:
            return None
        leaf = self.bases[node]
        if leaf >= len(self.units):
            raise ValueError
        start = self.units[leaf] & _VALUE
        end = self.texts.index(0, start)
        return self.texts[start:end].decode(errors="replace")

    def prefixes(self, text: bytes) -> Iterator[tuple[int, str]]:
        """(bytes, what they become) for every key that a text begins with, the shortest first."""
        node = _ROOT
        for n_read, byte in enumerate(text, 1):
            node = self.bases[node] ^ byte
            if node >= len(self.units) or self.labels[node] != byte:
                return
            if text[n_read : n_read + 1] in _INSIDE:  # in the middle of a character
                continue
            becomes = self.text_of(node)
            if becomes is not None:
                yield n_read, becomes

    def characters_after(self, node: int) -> list[tuple[str, int]]:
        """(character, the node that it leads to) for each that may follow a node. Raises ValueError where damaged."""
        found = []
        waiting = [(b"", node)]
        while waiting:
            spelled, node = waiting.pop()
            for child in self.children.get(self.bases[node], ()):
                longer = spelled + bytes([self.labels[child]])
                if len(longer) < _n_bytes(longer[0]):
                    waiting.append((longer, child))
                else:
                    found.append((longer.decode(), child))
        return found


def _n_bytes(first: int) -> int:
    """Of how many bytes a character is whose first byte is this one."""
    return 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)


class CharacterMap:
    """The rules of a compiled map; without one, a text stays as it is. Raises InputError for a damaged block.

    A text that holds no key of several characters is changed by `str.translate`. Such a key can only stand where a
    character comes that is not the first of some key: those places are cut out first and looked up in the trie.
    """

    def __init__(self, block: bytes = b""):
        self.single = {}  # {code of a character: what it becomes}, as `str.translate` takes it
        self.trie: Trie | None = None
        self.clusters = None
        if not block:
            return
        try:
            self.trie = trie = Trie(block)
            self._cluster = Remembered(functools.partial(self._longest_first, trie))
            self._grapheme = Remembered(functools.partial(self._whole_or_each, trie))
            self.single, followers = self._characters(trie)
        except (ValueError, IndexError) as error:
            raise InputError("its compiled map of characters (precompiled_charsmap) is damaged or cut off") from error
        if followers:
            self.clusters = re.compile(f"(.[{re.escape(''.join(sorted(followers)))}]+)", re.DOTALL)

    def _characters(self, trie: Trie) -> tuple[dict[int, str], set[str]]:
        """The keys of one character with what they become, and the characters that stand later in longer keys."""
        single = {}
        reached = set()
        for character, node in trie.characters_after(_ROOT):
            reached.add(node)
            becomes = trie.text_of(node)
            if becomes is not None:
                single[ord(character)] = becomes
        followers = set()
        waiting = list(reached)
        while waiting:
            for character, node in trie.characters_after(waiting.pop()):
                followers.add(character)
                trie.text_of(node)  # raises where it is damaged
                if node not in reached:
                    reached.add(node)
                    waiting.append(node)
        return single, followers

    def apply(self, text: str) -> str:
        """The text with every key replaced, from left to right, the longest one first: as SentencePiece does it."""
        if self.clusters is None:
            return text.translate(self.single)
        parts = self.clusters.split(text)
        parts[::2] = [part.translate(self.single) for part in parts[::2]]
        parts[1::2] = [self._cluster[part] for part in parts[1::2]]
        return "".join(parts)

    def _longest_first(self, trie: Trie, cluster: str) -> str:
        text = cluster.encode(errors="surrogatepass")
        done = []
        while text:
            n_read = _n_bytes(text[0])
            becomes = text[:n_read].decode(errors="surrogatepass")
            for n_read, becomes in trie.prefixes(text):  # noqa: B007 the last one is the longest
                pass
            done.append(becomes)
            text = text[n_read:]
        return "".join(done)

    def apply_to_graphemes(self, text: str) -> str:
        """The text as the library `tokenizers` changes it, by `Precompiled`: one grapheme after the other.

        A grapheme is what a reader takes for one letter: a letter with its accents, a syllable of jamo. One of less
        than six bytes is replaced as a whole by the *shortest* key that it begins with; what else is in it is lost.
        In a longer one, and where there is no key, each character is looked up alone: jamo, of three bytes each, stay
        apart, which SentencePiece joins to a syllable.
        """
        if self.trie is None:
            return text
        if text.isascii() and "\r\n" not in text:
            return text.translate(self.single)
        return "".join(map(self._grapheme.__getitem__, regex.findall(r"\X", text)))

    def _whole_or_each(self, trie: Trie, grapheme: str) -> str:
        whole = grapheme.encode(errors="surrogatepass")
        if len(whole) < 6:
            for _, becomes in trie.prefixes(whole):
                return becomes
        return grapheme.translate(self.single)
