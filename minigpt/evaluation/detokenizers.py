"""Benchmarks come cut into words, as no other text does: rewrites that undo it."""

import re

from minigpt.errors import InputError
from minigpt.files import sections

DETOKENIZERS = {  # benchmark -> (regular expression, what takes its place), one after the other
    name: [line.split(" -> ") for line in lines]
    for name, lines in sections.read(__file__, "detokenizers.txt").items()
}

def plain(text: str, name: str) -> str:
    """The text as people write it: undoes the word splitting of "wikitext", "ptb" or "lambada"; "none" undoes none."""
    if name not in DETOKENIZERS:
        raise InputError(f"unknown de-tokeniser {name!r}: choose {', '.join(DETOKENIZERS)}")
    for pattern, replacement in DETOKENIZERS[name]:
        text = re.sub(pattern, replacement, text)
    return text
