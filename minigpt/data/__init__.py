"""From a text to batches of token ids, and labelled examples."""

from minigpt.data.batches import batch, random_windows, whole_windows, windows
from minigpt.data.corpus import Corpus, encode, fingerprint, load, python_docs

__all__ = [
    "Corpus", "batch", "encode", "fingerprint", "load", "python_docs", "random_windows", "whole_windows", "windows",
]  # fmt: skip
