"""From a text to batches of token ids, and labelled examples."""

from minigpt.data.batches import batch, random_windows, whole_windows, windows
from minigpt.data.corpus import Corpus, default_tokenizer, encode, fingerprint, load, name_of, python_docs

__all__ = [
    "Corpus", "batch", "default_tokenizer", "encode", "fingerprint", "load", "name_of", "python_docs", "random_windows",
    "whole_windows", "windows",
]  # fmt: skip
