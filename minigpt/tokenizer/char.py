"""Characters as tokens: the smallest vocabulary there is, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.errors import InputError, check_folder
from minigpt.files.disk import write_json
from minigpt.tokenizer import checksums, files, layouts, settings
from minigpt.tokenizer.base import Tokenizer, check_text, pieces_of
from minigpt.tokenizer.files import TOKENIZER_JSON

SPECIAL = "character_special_tokens"  # in `tokenizer_config.json`: a name that transformers gives no meaning

_NONE = -1  # in the table of ids: a code point that is not in the vocabulary


class CharTokenizer(Tokenizer):
    """A token for every character (Unicode code point) of the training text, in their order. `decode(encode(s)) == s`.

    There is no unknown token: `encode` refuses a character that the training text did not have. special: tokens after
    the characters, which no text is encoded as, and which are decoded to their names. Raises InputError for a token
    that is not one character, and not special.
    """

    def __init__(self, characters: Iterable[str], special: Sequence[str] = ()):
        characters = list(characters)
        super().__init__([*characters, *special])
        self.special = tuple(special)
        codes = []
        for token in characters:
            if len(token) != 1 or 0xD800 <= ord(token) < 0xE000:  # half a surrogate pair is no character
                only = "a character vocabulary can hold nothing else"
                raise InputError(f"the token {token!r} is not one character: {only}")
            codes.append(ord(token))
        highest = max(codes, default=-1)
        self._id_of_code = np.full(highest + 1, _NONE, dtype=np.int32)
        self._id_of_code[codes] = np.arange(len(codes))

    @classmethod
    def train(cls, texts: str | Iterable[str]) -> CharTokenizer:
        """The characters of a text, or of several, sorted by code point. Raises InputError where there is none."""
        characters = set().union(*pieces_of(texts))
        if not characters:
            raise InputError("there are no characters to make a vocabulary of: the text is empty")
        return cls(sorted(characters))

    def encode(self, text: str) -> list[int]:
        """One id for each character. Raises InputError for no str, and for a character that the vocabulary lacks."""
        check_text(text)
        raw = text.encode("utf-32-le", errors="surrogatepass")
        codes = np.frombuffer(raw, dtype="<u4")
        in_table = codes < len(self._id_of_code)
        if in_table.all():
            ids = self._id_of_code[codes]
        else:
            ids = np.where(in_table, self._id_of_code[codes * in_table], _NONE)
        if len(ids) and ids.min() == _NONE:
            self._refuse(text, int(np.argmin(ids)))
        return ids.tolist()

    def unknown_in(self, text: str) -> list[str]:
        """The characters of a text that are not in the vocabulary, each once, in the order of the text.

        Raises InputError for what is no str.
        """
        check_text(text)
        return [character for character in dict.fromkeys(text) if character not in self.ids]

    def _refuse(self, text: str, place: int) -> None:
        """Raise InputError for the character at a place of the text."""
        character = text[place]
        which = f"the character {character!r} (U+{ord(character):04X}), number {place + 1} of the text,"
        n_characters = self.vocab_size - len(self.special)
        advice = "leave it out, or train with a text that has it"
        raise InputError(f"{which} is not one of the {n_characters} of this vocabulary: {advice}")

    def decode(self, ids: Iterable[int]) -> str:
        """The characters of the ids. Raises InputError for an id that is not in the vocabulary."""
        tokens = self.tokens
        return "".join([tokens[i] for i in self._check(ids)])

    def _extended(self, tokens: list[str], names: Sequence[str]) -> CharTokenizer:
        special = (*self.special, *names)
        return CharTokenizer(tokens[: -len(special)], special)

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json`, which the `tokenizers` library reads too: every character is a word of its own.

        So the names of special tokens are words that no text has; `tokenizer_config.json` tells which they are.
        """
        check_folder(folder)
        model = {"type": "WordLevel", "vocab": self.ids, "unk_token": "<unk>"}  # not in vocab: unknown text is an error
        parts = {"version": "1.0", "added_tokens": [], "pre_tokenizer": layouts.CHARACTERS.splitter}
        parts |= {"decoder": {"type": layouts.CHARACTERS.decoder}, "model": model}
        write_json(Path(folder) / TOKENIZER_JSON, dict.fromkeys(files.PARTS) | parts)
        config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        if self.special:
            config[SPECIAL] = list(self.special)
        checksums.write_config(Path(folder), config, {TOKENIZER_JSON: self.tokens})

    @classmethod
    def load(cls, folder: str | Path) -> CharTokenizer:
        """Open a folder that `save` wrote. Raises InputError for a `tokenizer.json` of another kind, or damaged."""
        path = Path(folder) / TOKENIZER_JSON
        saved = files.read_parts(path)
        layouts.check(saved, layouts.CHARACTERS, path)
        tokens = files.tokens_from_ids(saved["model"].get("vocab"), path)
        checksums.verify_settings(Path(folder))
        special = settings.read_config(folder).get(SPECIAL, [])
        n_characters = len(tokens) - len(special) if isinstance(special, list) else -1
        if n_characters < 0 or tokens[n_characters:] != special:
            raise InputError(f"{Path(folder) / settings.CONFIG}: {SPECIAL} are not the last tokens of {path}")
        characters = cls(tokens[:n_characters], special)
        checksums.verify(path, tokens)
        return characters
