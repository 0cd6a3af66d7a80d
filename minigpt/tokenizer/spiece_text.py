"""Text as SentencePiece cuts it into pieces, and pieces to text again: the same for Unigram and for its BPE."""

import re
from collections.abc import Iterable, Sequence

from minigpt.tokenizer import spiece
from minigpt.tokenizer.charsmap import CharacterMap
from minigpt.tokenizer.spiece import NO_CHARACTER, REPLACED, SPACE, NormalizerSpec, SentencePieceFile


class Normalizer:
    """The text that SentencePiece cuts into pieces, from a text: `normalizer(text)`.

    spec: what the file says; user_defined: pieces that stay as they are; space_after: `treat_whitespace_as_suffix`.
    Raises InputError for a damaged map of characters.
    """

    def __init__(self, spec: NormalizerSpec, user_defined: Sequence[str] = (), space_after: bool = False):
        self.spec = spec
        self.space_after = space_after
        self.characters = CharacterMap(spec.precompiled_charsmap)
        self._kept = spiece.pattern_of(user_defined)

    def __call__(self, text: str) -> str:
        text = NO_CHARACTER.sub(REPLACED, text)
        changed = self._changed(text)
        if not text:
            return ""
        if self.spec.remove_extra_whitespaces:
            if changed == " " * len(text):
                return ""
            changed = re.sub(" {2,}", " ", changed.lstrip(" "))
        space = SPACE if self.spec.escape_whitespaces else " "
        changed = changed.replace(" ", space)
        prefix = space if self.spec.add_dummy_prefix else ""
        if not self.space_after:
            changed = prefix + changed
        if self.spec.remove_extra_whitespaces:
            changed = changed.rstrip(space)  # a written-out space at the end as well
        return changed + prefix if self.space_after else changed

    def _changed(self, text: str) -> str:
        """The text by the map of characters, which leaves out the pieces that stay as they are."""
        if self._kept is None:
            return self.characters.apply(text)
        parts = self._kept.split(text)
        parts[::2] = [self.characters.apply(part) for part in parts[::2]]
        return "".join(parts)


class Decoder:
    """The text of pieces, as SentencePiece gives it: `decoder(ids)`. Ids are those of the file."""

    def __init__(self, content: SentencePieceFile):
        self.pieces = content.pieces
        self.unknown = content.trainer.unk_surface
        spec = content.normalizer
        self.strips = spec.add_dummy_prefix or spec.remove_extra_whitespaces  # the space before the first word
        self.strips_all = spec.remove_extra_whitespaces

    def __call__(self, ids: Iterable[int]) -> str:
        parts = []
        at_start = True
        waiting = bytearray()  # bytes that follow one another, which may be one character
        for i in ids:
            piece, _, kind = self.pieces[i]
            if kind == spiece.BYTE:
                waiting.append(int(piece[3:5], 16))
                continue
            parts.append(_text_of(waiting))
            waiting.clear()
            at_start = at_start and not parts[-1]
            if kind == spiece.CONTROL:
                continue
            if kind == spiece.UNKNOWN:
                shown = self.unknown
            elif at_start and self.strips and piece.startswith(SPACE):
                shown = piece[1:].replace(SPACE, " ")
                at_start = self.strips_all
            else:
                shown = piece.replace(SPACE, " ")
            parts.append(shown)
            at_start = at_start and not shown
        parts.append(_text_of(waiting))
        return "".join(parts)


def _text_of(content: bytes | bytearray) -> str:
    """Bytes as text; each one that is part of no character becomes U+FFFD."""
    return NO_CHARACTER.sub(REPLACED, content.decode(errors="surrogateescape"))
