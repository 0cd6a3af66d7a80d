"""Which words of a Korean sentence are still English: all in Latin letters but names of tensors, and code."""

import inspect
import re

from minigpt import ops
from minigpt.learn.classroom.language import words
from minigpt.learn.classroom.sentences import pieces
from minigpt.ops import reference

LATIN = re.compile(r"(?<!\w)[A-Za-z][\w.]*", re.ASCII)


def latin(text: str) -> set[str]:
    """The words in Latin letters, without a full stop behind them."""
    return {word.rstrip(".") for word in LATIN.findall(text)}


def tensors() -> set[str]:
    """What inputs and constants of the library's operations are called."""
    passes = [getattr(reference, f"{op}_{way}") for op in ops.names for way in ("forward", "backward")]
    return {name for one in passes for name in inspect.signature(one).parameters} | {"out"}


def code() -> set[str]:
    """The words in Latin letters that the Korean patterns themselves have: sqrt, reshape, np.add.at."""
    patterns = words("ko")["patterns"] | words("ko")["python"]
    return {word for korean in patterns.values() for literal, _ in pieces(korean) for word in latin(literal)}


def english_in(text: str) -> set[str]:
    """What is left of English. A name with a point, a digit or a line in it is a name, whatever it is."""
    named = {name for tensor in tensors() for name in (tensor, f"d{tensor}")}
    left = latin(text) - code() - named
    return {word for word in left if not re.search(r"[\d_.]", word)}


def has_hangul(text: str) -> bool:
    """Is there a syllable of Hangul?"""
    return re.search("[가-힣]", text) is not None
