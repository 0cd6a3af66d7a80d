"""Patterns of `tokenizer.json`: they are written for the library Oniguruma, and the package `regex` finds them here.

Both read most of a pattern alike. What they read differently is written anew, or refused by name.
"""

from collections.abc import Iterator

import regex

from minigpt.errors import InputError

_IN_WORDS = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"  # `\w` of Oniguruma has no joiners; outside of sets, it has ...
_ALONE = "²³¹¼½¾"  # ... these six as well
_SIGN = regex.compile(r"\\.|\[:\^?\w+:\]|\(\?[a-z-]+[:)]|\[\^?|\]|&&|.", regex.DOTALL)
_REFUSED = {rf"\{letter}" for letter in "bBhHzZGKyYOR"} | {"[:punct:]", "[:^punct:]", "[:word:]", "[:^word:]"}


def compiled_pattern(pattern: dict) -> regex.Pattern:
    """A pattern of the file: `{"String": "a"}` or `{"Regex": "a+"}`. Raises InputError for another."""
    if list(pattern) == ["String"] and isinstance(pattern["String"], str):
        return regex.compile(regex.escape(pattern["String"]))
    if list(pattern) != ["Regex"] or not isinstance(pattern["Regex"], str):
        raise InputError(f'the pattern {pattern!r} is not known: there are {{"String": ...}} and {{"Regex": ...}}')
    try:
        return _compiled(pattern["Regex"])
    except regex.error as error:
        raise InputError(f"the pattern {pattern['Regex']!r} cannot be read: {error}") from error


def _compiled(written: str) -> regex.Pattern:
    """A pattern as Oniguruma reads it: `^` and `$` stand at lines, and a set may have others in it."""
    parts = []
    depth = 0  # in how many sets a sign stands
    has_sets_in_sets = False
    for sign in _SIGN.findall(written):
        if sign in _REFUSED or (sign.startswith("(?") and sign not in ("(?i:", "(?i)")):
            raise InputError(f"the pattern {written!r} has {sign}, which is not built")
        if sign == r"\w":
            sign = _IN_WORDS if depth else f"[{_IN_WORDS}{_ALONE}]"
        elif sign == r"\W":
            sign = f"[^{_IN_WORDS}]" if depth else f"[^{_IN_WORDS}{_ALONE}]"
            has_sets_in_sets |= depth > 0
        elif sign in ("[", "[^"):
            has_sets_in_sets |= depth > 0
            depth += 1
        elif sign == "]":
            depth = max(depth - 1, 0)
        elif sign == "&&":
            has_sets_in_sets |= depth > 0
        parts.append(sign)
    version = regex.V1 if has_sets_in_sets else regex.V0
    return regex.compile("".join(parts), regex.MULTILINE | version)


def places_of(compiled: regex.Pattern, text: str) -> list[tuple[int, int]]:
    """Where a pattern matches: never in an empty text, and after a match of nothing not before the next character."""
    if not text:
        return []
    found = [match.span() for match in compiled.finditer(text)]
    if any(start == end for start, end in found):
        return list(_places_one_by_one(compiled, text))
    return found


def replaced(compiled: regex.Pattern, content: str, text: str) -> str:
    """A text in which all matches are this content."""
    parts = []
    done = 0
    for start, end in places_of(compiled, text):
        parts += [text[done:start], content]
        done = end
    return "".join([*parts, text[done:]])


def _places_one_by_one(compiled: regex.Pattern, text: str) -> Iterator[tuple[int, int]]:
    place = 0
    last_end = -1
    while place <= len(text) and (match := compiled.search(text, place)):
        start, end = match.span()
        place = end
        if start == end:
            place += 1
            if end == last_end:  # right behind a match, nothing is none
                continue
        last_end = end
        yield start, end
