"""Tokens for people: what the page writes for each of them."""

import regex

from minigpt.tokenizer import GPT1Tokenizer, GPT2Tokenizer, Tokenizer
from minigpt.tokenizer.bpe import END_OF_WORD
from minigpt.tokenizer.gpt1 import NEWLINE
from minigpt.tokenizer.gpt2 import BYTE_OF, spell

SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}

_UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{White_Space}]")


def label(tokenizer: Tokenizer, i: int) -> str:
    r"""The token with id i: ␣ for a space, ⏎ for a line end, ⇥ for a tab, U+000D for what nobody can see.

    Of GPT-1's tokenizer ␣ is the end of a word; of one of bytes \xea is a byte that is no whole character. Raises
    InputError for an id that the vocabulary lacks.
    """
    token = tokenizer.token(i)
    if token in tokenizer.special:
        return visible(token)
    if isinstance(tokenizer, GPT1Tokenizer):
        ends_word = token.endswith(END_OF_WORD) and token != NEWLINE
        return visible(token.removesuffix(END_OF_WORD)) + ("␣" if ends_word else "")
    if _names_are_bytes(tokenizer) and all(character in BYTE_OF for character in token):
        spelled = bytes(BYTE_OF[character] for character in token)
        return visible(spelled.decode("utf-8", errors="backslashreplace"))
    return visible(token)


def visible(text: str) -> str:
    """A text whose white space and control characters can be seen."""
    return _UNSEEN.sub(lambda found: SIGNS.get(found[0], f"U+{ord(found[0]):04X}"), text)


def _names_are_bytes(tokenizer: Tokenizer) -> bool:
    """Do the names of its tokens write a character for each byte, as GPT-2's do, and so `Ġ` for a space?"""
    if isinstance(tokenizer, GPT2Tokenizer):
        return True
    of_a_space = tokenizer.ids.get(spell(" "))
    return of_a_space is not None and tokenizer.decode([of_a_space]) == " "
