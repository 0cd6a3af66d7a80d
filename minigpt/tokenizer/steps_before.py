"""What published tokenizers do to a text before it is encoded: each step is one small function with its settings.

`NORMALIZERS` gives a function of a text, `SPLITTERS` one of a text and of whether it is the first part of the whole,
which gives words. The keys are the names of `tokenizer.json`, the arguments are its settings there with their defaults;
a new step is a function and one line in the table. `tokenizer_json.py` reads them.
"""

import base64
import functools
import re
from collections.abc import Callable
from itertools import chain

import regex

from minigpt.errors import InputError
from minigpt.tokenizer import characters
from minigpt.tokenizer.base import Remembered
from minigpt.tokenizer.characters import Characters
from minigpt.tokenizer.charsmap import CharacterMap
from minigpt.tokenizer.gpt2 import spell
from minigpt.tokenizer.patterns import compiled_pattern, places_of, replaced
from minigpt.tokenizer.pipeline import WHITE, Normalizer, Splitter
from minigpt.tokenizer.spiece import SPACE
from minigpt.tokenizer.words import WORD

BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
SCHEMES = ("always", "first", "never")

Part = tuple[str, bool]  # a part of a text, and whether the pattern matches it


# ------------------------------------------------------------------------------------------- normalizers: text to text


def bert_normalizer(
    clean_text: bool = True,
    handle_chinese_chars: bool = True,
    strip_accents: bool | None = None,
    lowercase: bool = True,
) -> Normalizer:
    """BERT's: no control characters, spaces around Chinese ones, no accents, lower case.

    strip_accents None: where lower case is written. Without accents Hangul syllables come apart into their letters.
    """
    before = []
    if clean_text:
        before.append(characters.without_control)
    if handle_chinese_chars:
        before.append(characters.with_spaces)
    strips = lowercase if strip_accents is None else strip_accents
    after = [characters.small] if lowercase else []
    if not strips:
        return translation(*before, *after)
    first = translation(*before)
    last = translation(characters.without_nonspacing, *after)
    return lambda text: last(characters.normal_form("NFD", first(text)))


def translation(*functions: Callable[[str], str]) -> Normalizer:
    """Functions of a character, applied to each character of a text, one function after the other."""

    def of_a_character(character: str) -> str:
        for function in functions:
            character = "".join(map(function, character))
        return character

    known = Characters(of_a_character)
    return lambda text: text.translate(known)


def normal_form(form: characters.NormalForm) -> Callable[[], Normalizer]:
    """A normal form of Unicode, as a step without settings."""
    return lambda: lambda text: characters.normal_form(form, text)


def lowercase() -> Normalizer:
    """Small letters for capitals."""
    return translation(characters.small)


def strip_accents() -> Normalizer:
    """No marks. Letters that are written as one character with their accent keep it."""
    return translation(characters.without_mark)


def strip(strip_left: bool = True, strip_right: bool = True) -> Normalizer:
    """No white space at the ends."""

    def stripped(text: str) -> str:
        if strip_left:
            text = text.lstrip(WHITE)
        return text.rstrip(WHITE) if strip_right else text

    return stripped


def replace(pattern: dict, content: str) -> Normalizer:
    """One text, or all that matches a pattern, becomes another."""
    text = pattern.get("String")
    if isinstance(text, str) and text:
        return lambda given: given.replace(text, content)
    compiled = compiled_pattern(pattern)
    return lambda given: replaced(compiled, content, given)


def prepend(prepend: str) -> Normalizer:
    """Something in front of every text that is not empty."""
    return lambda text: prepend + text if text else text


def nmt() -> Normalizer:
    """The clean-up of an early translation system: no control characters, odd spaces become spaces."""
    dropped = characters.codes_in("1-8 B E-1F 7F 8F 9F")
    spaces = characters.codes_in("9 A C D 1680 200B-200F 2028 2029 2581 FEFF FFFD")

    def of_a_character(character: str) -> str:
        if ord(character) in dropped:
            return ""
        return " " if ord(character) in spaces else character

    return translation(of_a_character)


def byte_level_text() -> Normalizer:
    """A printable character for each byte of the text."""
    return spell


def precompiled(precompiled_charsmap: str) -> Normalizer:
    """The map of characters of a file of SentencePiece, in base64. Raises InputError where it is damaged."""
    try:
        block = base64.b64decode(precompiled_charsmap, validate=True)
    except ValueError as error:
        raise InputError(f"the precompiled_charsmap is no base64 ({error})") from error
    return CharacterMap(block).apply_to_graphemes


NORMALIZERS = {
    "BertNormalizer": bert_normalizer,
    "NFC": normal_form("NFC"),
    "NFD": normal_form("NFD"),
    "NFKC": normal_form("NFKC"),
    "NFKD": normal_form("NFKD"),
    "Lowercase": lowercase,
    "StripAccents": strip_accents,
    "Strip": strip,
    "Replace": replace,
    "Prepend": prepend,
    "Nmt": nmt,
    "Precompiled": precompiled,
    "ByteLevel": byte_level_text,
}


def one_after_the_other(steps: list[Normalizer]) -> Normalizer:
    """All steps of a `Sequence` of normalizers."""

    def all_of_them(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return all_of_them


# ------------------------------------------------------------------------------------------- splitters: text to words


def bert_splitter() -> Splitter:
    """Words between white space; each punctuation mark is one."""
    known = Characters(_with_spaces_around_marks)
    return lambda text, first: [word for word in text.translate(known).split(" ") if word]


def _with_spaces_around_marks(character: str) -> str:
    if character in WHITE:
        return " "
    return f" {character} " if characters.is_punctuation(character) else character


def whitespace() -> Splitter:
    """Letters, digits and underscores together, other signs together; white space is dropped."""
    pattern = regex.compile(r"\w+|[^\w\s]+")
    return lambda text, first: pattern.findall(text)


def whitespace_split() -> Splitter:
    """What stands between white space."""
    pattern = re.compile(f"[^{WHITE}]+")
    return lambda text, first: pattern.findall(text)


def delimiter_split(delimiter: str) -> Splitter:
    """What stands between these characters."""
    check_one_character("delimiter", delimiter)
    return lambda text, first: [word for word in text.split(delimiter) if word]


def punctuation(behavior: str = "Isolated") -> Splitter:
    """A text split at each punctuation mark."""
    return split_at(_class_of("punctuation"), behavior)


def digits(individual_digits: bool = False) -> Splitter:
    """A text split at numbers: each digit alone, or those that follow one another together."""
    return split_at(_class_of("numeric"), "Isolated" if individual_digits else "Contiguous")


def split(pattern: dict, behavior: str, invert: bool = False) -> Splitter:
    """A text split at what matches a pattern; invert: at what lies between."""
    return split_at(compiled_pattern(pattern), behavior, invert)


def split_at(compiled: regex.Pattern, behavior: str, invert: bool = False) -> Splitter:
    """See `split`. The behavior tells what becomes of a match. Raises InputError for none of BEHAVIORS."""
    if behavior not in BEHAVIORS:
        raise InputError(f"the behavior {behavior!r} is not known: there are {', '.join(BEHAVIORS)}")

    def words_of(text: str, first: bool) -> list[str]:
        parts = []
        done = 0
        for start, end in places_of(compiled, text):
            if done < start:
                parts.append((text[done:start], invert))
            parts.append((text[start:end], not invert))
            done = end
        if done < len(text):
            parts.append((text[done:], invert))
        return [word for word in _joined(parts, behavior) if word]

    return words_of


def _joined(parts: list[Part], behavior: str) -> list[str]:
    """The words that the parts of a text are joined to."""
    if behavior == "Isolated":
        return [part for part, _ in parts]
    if behavior == "Removed":
        return [part for part, matches in parts if not matches]
    words = []
    before = None  # whether the part before matches
    for part, matches in parts:
        if behavior == "Contiguous":
            joins = matches == before
        elif behavior == "MergedWithNext":
            joins = before is True and not matches
        else:
            joins = before is False and matches
        if joins:
            words[-1] += part
        else:
            words.append(part)
        before = matches
    return words


def byte_level(add_prefix_space: bool = True, trim_offsets: bool = True, use_regex: bool = True) -> Splitter:
    """GPT-2's words, in which a printable character stands for each byte."""
    spelling = Remembered(spell)

    def words_of(text: str, first: bool) -> list[str]:
        if add_prefix_space and text and not text.startswith(" "):
            text = " " + text
        words = WORD.findall(text) if use_regex else [text]
        return [spelling[word] for word in words if word]

    return words_of


def metaspace(
    replacement: str = SPACE,
    prepend_scheme: str | None = None,
    split: bool = True,
    add_prefix_space: bool = True,
    str_rep: str | None = None,
) -> Splitter:
    """`▁` for spaces, and in front of the text; each word begins with it.

    add_prefix_space, str_rep: older names of settings.
    """
    check_one_character("replacement", replacement)
    scheme = scheme_of(prepend_scheme, add_prefix_space)
    mark = re.escape(replacement)
    word = re.compile(f"{mark}[^{mark}]*|[^{mark}]+")

    def words_of(text: str, first: bool) -> list[str]:
        text = text.replace(" ", replacement)
        if text and not text.startswith(replacement) and (scheme == "always" or (scheme == "first" and first)):
            text = replacement + text
        if split:
            return word.findall(text)
        return [text] if text else []

    return words_of


def check_one_character(setting: str, value: str) -> None:
    """Raises InputError for a setting that is not one character."""
    if len(value) != 1:
        raise InputError(f"its {setting} is {value[:20]!r}: expected one character")


def scheme_of(prepend_scheme: str | None, add_prefix_space: bool) -> str:
    """Where `▁` is put in front: "always", "first" or "never". Raises InputError for another."""
    scheme = prepend_scheme or ("always" if add_prefix_space else "never")
    if scheme not in SCHEMES:
        raise InputError(f"the prepend_scheme {scheme!r} is not known: there are {', '.join(SCHEMES)}")
    return scheme


SPLITTERS = {
    "BertPreTokenizer": bert_splitter,
    "Whitespace": whitespace,
    "WhitespaceSplit": whitespace_split,
    "CharDelimiterSplit": delimiter_split,
    "Punctuation": punctuation,
    "Digits": digits,
    "Split": split,
    "ByteLevel": byte_level,
    "Metaspace": metaspace,
}


def _later_word(step: Splitter, word: str) -> list[str]:
    """The words of one that is not the first of its text."""
    return step(word, False)


def each_in_turn(steps: list[Splitter]) -> Splitter:
    """All steps of a `Sequence` of splitters: each splits the words of the one before it."""
    if len(steps) == 1:
        return steps[0]
    later = [Remembered(functools.partial(_later_word, step)) for step in steps[1:]]

    def words_of(text: str, first: bool) -> list[str]:
        words = steps[0](text, first)
        for step, known in zip(steps[1:], later, strict=True):
            begins = first and bool(words) and text.startswith(words[0][:1])
            done = [step(words[0], True)] if begins else []
            done += map(known.__getitem__, words[1:] if begins else words)
            words = list(chain.from_iterable(done))
        return words

    return words_of


def _class_of(name: str) -> regex.Pattern:
    """One character of a list in `characters.toml`."""
    listed = "".join(map(chr, sorted(characters.table(name))))
    return regex.compile(f"[{regex.escape(listed)}]")
