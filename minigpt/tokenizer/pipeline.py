"""A tokenizer of a published model, as its steps: normalise the text, split it, encode each word, wrap the ids.

The members of the family differ in what their steps are, and not in how the steps follow one another; so there is one
tokenizer, `PieceTokenizer`, and a file for each kind of step. What cuts a word into pieces is a *model*, an object with

    tokens         list[str], in the order of their ids
    ids            {token: id}
    unknown_id     int, or None where there is none
    encode(word)   the ids of a word, as the splitter gives it

and with a class method `train`. The readers of files (`vocab.txt`, `tokenizer.json`, `spiece.model`) put the steps
together, and give a function that writes such files again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import regex

from minigpt.errors import InputError, check_folder
from minigpt.tokenizer.base import ROLES, Remembered, Stream, Tokenizer, check_text

OUR_NAMES = {names[0]: role for role, names in ROLES.items() if names[0].startswith("_")}  # {`_mask_`: "mask", ...}
TEXTS = ("$A", "$B")  # in a template: the first text and the second
ALL = "all"
_SPACES = "".join(map(chr, range(0x2000, 0x200B)))
WHITE = f"\t\n\v\f\r \x85\xa0\u1680{_SPACES}\u2028\u2029\u202f\u205f\u3000"  # White_Space in Unicode

Normalizer = Callable[[str], str]
Splitter = Callable[[str, bool], list[str]]  # of a text, and of whether it is the first part of the whole
Decoder = Callable[[list[int]], str]
Pattern = tuple[tuple[str, int], ...]  # (a token or one of TEXTS, its segment)


class Added(NamedTuple):
    """A token that is cut out of the text before anything else; the flags are those of `tokenizer.json`.

    special: it stands for no text. lstrip, rstrip: it takes the white space before it, or after it. single_word: only
    where no letter or digit stands beside it. normalized: it is looked for in the normalised text.
    """

    token: str
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class Template(NamedTuple):
    """The tokens around one text and around two: `Template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1")`.

    Each item is a token, or a text, and the number of its segment; it may be given as (name, segment) too.
    """

    single: str | Pattern = "$A:0"
    pair: str | Pattern = "$A:0 $B:1"

    def items(self, n_texts: int) -> Pattern:
        """What stands around one text or two, as (name, segment). Raises InputError for what is no template."""
        written = self.pair if n_texts == 2 else self.single
        items = _read_items(written) if isinstance(written, str) else written
        texts = [name for name, _ in items if name in TEXTS]
        if sorted(texts) != list(TEXTS[:n_texts]):
            raise InputError(f"the template {written!r} needs {' and '.join(TEXTS[:n_texts])}, each once")
        return tuple(items)


def _read_items(written: str) -> list[tuple[str, int]]:
    items = []
    for item in written.split():
        name, colon, segment = item.rpartition(":")
        if not colon or not segment.isdecimal():
            raise InputError(f"{item!r} in the template {written!r} is no token with its segment, such as [SEP]:0")
        items.append((name, int(segment)))
    return items


class PieceTokenizer(Tokenizer):
    """Text to ids and back by the steps of a published tokenizer.

    model: see above; normalizer, splitter: None leaves the text whole; template: the tokens around a text, which only
    `wrap` adds; decoder: the text of ids, None joins the tokens; added: tokens that are cut out of the text, those
    that the model lacks in the order of their ids; roles {role: token}, see ROLES; own: special tokens at the end of
    the vocabulary that no text is encoded as; padding_side: where a batch is filled up; write: a function of the
    tokenizer and of a folder that saves it. Raises InputError where a token that is named is not in the vocabulary.
    """

    def __init__(
        self,
        model: Any,
        *,
        normalizer: Normalizer | None = None,
        splitter: Splitter | None = None,
        template: Template | None = None,
        decoder: Decoder | None = None,
        added: Iterable[Added] = (),
        roles: Mapping[str, str] | None = None,
        own: Sequence[str] = (),
        padding_side: str = "right",
        write: Callable[[PieceTokenizer, Path], None] | None = None,
    ):
        self.added = tuple(added)
        self.own = tuple(own)
        known = set(model.ids)
        after = [one.token for one in self.added if one.token not in known]
        super().__init__([*model.tokens, *after, *self.own])
        self.model = model
        self.normalizer = normalizer
        self.splitter = splitter
        self.template = template or Template()
        self.decoder = decoder or self._joined
        self.roles = dict(roles or {})
        self.padding_side = padding_side
        self.write = write
        self.unknown_id = model.unknown_id
        self.special = (*(one.token for one in self.added if one.special), *self.own)
        self._single = self._known(self.template.items(1))
        self._pair = self._known(self.template.items(2))
        for role, token in self.roles.items():
            self._check_token(token, f"has the role {role!r}")
        self._in_text = Finder(one for one in self.added if not one.normalized)
        normalized = [one for one in self.added if one.normalized]
        self._in_normalized = Finder(normalized, self.normalizer)
        self._words = Remembered(model.encode)

    def encode(self, text: str, allowed_special: Collection[str] = ALL) -> list[int]:
        """The ids of a text, without tokens around it (see `wrap`). Words met before are remembered.

        allowed_special: which special tokens the text may spell, "all" or some of them; the others are plain text.
        Raises InputError for what is no str.
        """
        check_text(text)
        if not text:
            return []
        allowed = None if allowed_special == ALL else frozenset(allowed_special)
        found = []
        place = 0
        for token, part in self._in_text.split(text, allowed):
            if token is None:
                found.append(self._encode_part(part, place == 0, allowed))
            else:
                found.append([self.ids[token]])
            place += len(part)
        return list(chain.from_iterable(found))

    def _encode_part(self, part: str, first: bool, allowed: frozenset[str] | None) -> list[int]:
        """The ids of a part between tokens that were cut out."""
        if self.normalizer is not None:
            part = self.normalizer(part)
        found = []
        place = 0
        for token, text in self._in_normalized.split(part, allowed):
            if token is None:
                words = [text] if self.splitter is None else self.splitter(text, first and place == 0)
                found += map(self._words.__getitem__, words)
            else:
                found.append([self.ids[token]])
            place += len(text)
        return list(chain.from_iterable(found))

    def wrap(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The ids of a text, or of two, with the special tokens around them; and the segment of each.

        `wrap(encode("a"))` gives `[CLS] a [SEP]` where the template says so.
        """
        texts = {"$A": list(ids)}
        if pair is not None:
            texts["$B"] = list(pair)
        wrapped = []
        segments = []
        for name, segment in self._single if pair is None else self._pair:
            new = texts[name] if name in texts else [self.ids[name]]
            wrapped += new
            segments += [segment] * len(new)
        return wrapped, segments

    @property
    def before_text(self) -> list[int]:
        """As of every tokenizer: what its template puts before a text, where it puts nothing behind it."""
        *before, last = [name for name, _ in self._single]
        return [self.ids[name] for name in before] if last == "$A" else []

    def encode_pair(self, first: str, second: str | None = None) -> tuple[list[int], list[int]]:
        """The ids of one text or of two, with the special tokens around them, and the segment of each.

        A second text that is empty is one: `[CLS] a [SEP] [SEP]`. So do `tokenizers`, and transformers with a list of
        pairs; given one pair, transformers takes an empty second text for none.
        """
        return self.wrap(self.encode(first), None if second is None else self.encode(second))

    def role(self, name: str) -> int | None:
        """The id of the token with this role (see `base.ROLES`); None where there is none."""
        own = {OUR_NAMES.get(token): token for token in self.own}
        token = self.roles.get(name, own.get(name))
        return None if token is None else self.ids.get(token)

    def encode_named(self, text: str, names: Sequence[str]) -> list[int]:
        """The ids of a text that names special tokens: `encode` cuts out those of a published vocabulary itself."""
        known = {one.token for one in self.added}
        return super().encode_named(text, [name for name in names if name not in known])

    def with_special(self, names: Sequence[str]) -> Tokenizer:
        """The same tokenizer with these tokens. One of our own names, such as `_mask_`, is another name for the token
        that has its role here; the others come at the end of the vocabulary. Raises InputError as any tokenizer does.
        """
        named = copy.copy(self)
        named.ids = dict(self.ids)
        for name in names if isinstance(names, list | tuple) else ():
            i = self.role(OUR_NAMES[name]) if name in OUR_NAMES else None
            if i is not None:
                named.ids.setdefault(name, i)
        return super(PieceTokenizer, named).with_special(names)

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        """The text of ids; skip_special leaves out tokens that stand for no text.

        Raises InputError for an id that is not in the vocabulary.
        """
        ids = self._check(ids)
        if skip_special:
            special = {self.ids[token] for token in self.special}
            ids = [i for i in ids if i not in special]
        if not self.own:
            return self.decoder(ids)
        first_own = self.vocab_size - len(self.own)
        parts = []
        start = 0
        for end, i in enumerate(ids):
            if i >= first_own:
                parts += [self.decoder(ids[start:end]), self.tokens[i]]
                start = end + 1
        parts.append(self.decoder(ids[start:]))
        return "".join(parts)

    def streaming(self) -> Stream:
        """A decoder for ids that come one by one, which gives out whole characters only."""
        return Stream(self.decode, half="\ufffd")

    def save(self, folder: str | Path) -> None:
        """Write the files from which `minigpt.tokenizer.load(folder)` makes the same tokenizer again.

        Raises InputError for what is no path, where it cannot be written, and for steps that no file holds.
        """
        check_folder(folder)
        if self.write is None:
            raise InputError("this tokenizer was put together from steps that no file holds: it cannot be saved")
        self.write(self, Path(folder))

    @property
    def end_of_text_id(self) -> int | None:
        """The id of the token that ends a text; None where there is none."""
        return self.role("end")

    def unknown_in(self, text: str) -> list[str]:
        """The characters of a text that are encoded as `unknown_id`, each once, in the order of the text."""
        check_text(text)
        if self.unknown_id is None:
            return []
        return [character for character in dict.fromkeys(text) if self.unknown_id in self.encode(character)]

    def parts(self) -> dict[int, tuple[str, str]]:
        """For tokens that a merge made: {id: the two tokens that it was made of}."""
        parts = getattr(self.model, "parts", dict)
        return parts()

    def _joined(self, ids: list[int]) -> str:
        return "".join([self.tokens[i] for i in ids])

    def _known(self, items: Pattern) -> Pattern:
        for name, _ in items:
            if name not in TEXTS:
                self._check_token(name, "stands in the template")
        return items

    def _check_token(self, token: str, what: str) -> None:
        if token not in self.ids:
            raise InputError(f"the token {token!r} {what}, and the vocabulary lacks it: add it there")

    def _stands_for_no_text(self, token: str) -> bool:
        return token in self.special or token not in self.tokens

    def _extended(self, tokens: list[str], names: Sequence[str]) -> PieceTokenizer:
        extended = copy.copy(self)
        extended.own = (*self.own, *names)
        extended.special = (*self.special, *names)
        extended.tokens = tokens
        extended.ids = dict(self.ids)
        for i, name in enumerate(names, start=len(tokens) - len(names)):
            extended.ids[name] = i
        return extended


class Finder:
    """Cuts added tokens out of a text: `split(text)` gives (token, its text) and, between them, (None, text).

    Of the tokens that begin at a place, the longest is taken. normalizer: applied to the tokens before they are looked
    for.
    """

    def __init__(self, added: Iterable[Added], normalizer: Normalizer | None = None):
        self._by_text = {}
        for one in added:
            text = one.token if normalizer is None else normalizer(one.token)
            if text:
                self._by_text[text] = one
        longest_first = sorted(self._by_text, key=len, reverse=True)
        self._pattern = regex.compile("|".join(map(regex.escape, longest_first)))

    def split(self, text: str, allowed: frozenset[str] | None = None) -> list[tuple[str | None, str]]:
        """The parts of a text. allowed: the special tokens that are cut out; None: all of them."""
        if not self._by_text or not self._pattern.search(text):
            return [(None, text)]
        parts: list[tuple[str | None, str]] = []
        done = 0
        for match in self._pattern.finditer(text):
            one = self._by_text[match.group()]
            if one.special and allowed is not None and one.token not in allowed:
                continue
            start, end = match.span()
            if one.single_word and (_ends_a_word(text, start) or _begins_a_word(text, end)):
                continue
            if one.lstrip:
                start = done + len(text[done:start].rstrip(WHITE))
            if one.rstrip:
                end = _WHITE.match(text, end).end()
            if done < start:
                parts.append((None, text[done:start]))
            parts.append((one.token, text[start:end]))
            done = end
        if done < len(text):
            parts.append((None, text[done:]))
        return parts


_LETTER = regex.compile(r"\w")
_WHITE = regex.compile(f"[{WHITE}]*")


def _ends_a_word(text: str, place: int) -> bool:
    return place > 0 and _LETTER.match(text, place - 1) is not None


def _begins_a_word(text: str, place: int) -> bool:
    return _LETTER.match(text, place) is not None
