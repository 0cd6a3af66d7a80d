"""Train a vocabulary on a text, and use one: the jobs behind `minigpt tokenizer`."""

import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from minigpt import data, tokenizer
from minigpt.errors import InputError
from minigpt.files import checkpoint, hub
from minigpt.files.disk import typed
from minigpt.files.lock import locked
from minigpt.jobs.option_fields import REQUIRED, argument, option
from minigpt.jobs.run_folder import files_of, refuse_occupied, refuse_others, write_missing
from minigpt.tokenizer import Tokenizer

SIZE = 4096  # tokens of a vocabulary, where nothing is given


@dataclass(kw_only=True)
class VocabularyOptions:
    """What `minigpt tokenizer train` can be told."""

    kind: str = option(
        "gpt1",
        "byte-pair encoding of words in lower case (gpt1), of bytes (gpt2) or as SentencePiece does it (bpe), "
        "BERT's pieces (wordpiece), the likeliest pieces (unigram), or characters (char)",
        choices=tokenizer.TRAINERS,
    )
    data: str = option("stories", "as for minigpt train", metavar="WHAT")
    vocab: int | None = option(None, f"size of the vocabulary (default: {SIZE}; not with char)", metavar="N")
    out: str = option(REQUIRED, "folder for the vocabulary", metavar="DIR")


@dataclass(kw_only=True)
class ListOptions:
    """What `minigpt tokenizer list` can be told."""

    folder: str = argument("a tokenizer's or a model's folder", metavar="DIR")


@dataclass(kw_only=True)
class DecodeOptions(ListOptions):
    """What `minigpt tokenizer decode` can be told."""

    text: list[str] | None = argument("default: standard input", default=None)


@dataclass(kw_only=True)
class EncodeOptions(DecodeOptions):
    """What `minigpt tokenizer encode` can be told."""

    special: bool = option(False, "<|endoftext|> is that token, not plain text; [MASK] and the like always are")


def train_vocabulary(options: VocabularyOptions) -> None:
    """Learn a vocabulary from a text, and save it in a folder of its own.

    Characters are taken from the whole text, so that none is unknown; other tokens only from the training part. A
    folder that holds some of these files, or all, gets what is missing. Raises InputError for a folder that holds a
    model, or another vocabulary, and for a size of a vocabulary of characters.
    """
    if options.kind == "char" and options.vocab is not None:
        raise InputError(f"--vocab {options.vocab}: --kind char has a token for each character, so leave --vocab out")
    folder = Path(options.out)
    with locked(folder):
        refuse_occupied(folder, (checkpoint.RESUME, checkpoint.WEIGHTS, checkpoint.CONFIG))
        trained = _trained(options)
        files = files_of(trained, folder)
        refuse_others(folder, files)
        was_there = not write_missing(folder, files)
    if was_there:
        print(f"the vocabulary in {folder} is complete: nothing is left to do")
    if options.kind != "char" and trained.vocab_size < _wanted(options):
        print(f"the text gives no more tokens than these: {_wanted(options)} were wanted")
    print(f"{trained.vocab_size} tokens: {options.out}")
    print(f"now: minigpt train --data {typed(options.data)} --tokenizer {typed(options.out)}")


def _trained(options: VocabularyOptions) -> Tokenizer:
    """The vocabulary, learnt from the text."""
    train = tokenizer.TRAINERS[options.kind]
    corpus = data.load(options.data)
    if options.kind == "char":
        return train(chain(corpus.pieces("train"), corpus.pieces("valid")))
    return train(corpus.pieces("train"), _wanted(options))


def _wanted(options: VocabularyOptions) -> int:
    return SIZE if options.vocab is None else options.vocab


def encode(options: EncodeOptions) -> None:
    """Print the token ids of a text. Raises InputError for special tokens where the vocabulary has none."""
    text = tokenizer.load(hub.find(options.folder))
    cuts_out = isinstance(text, tokenizer.GPT2Tokenizer | tokenizer.PieceTokenizer)
    if options.special and not (text.special and cuts_out):
        raise InputError(f"--special: the vocabulary in {options.folder} has no special tokens: leave --special out")
    words = _words_or_input(options.text)
    allowed = {"allowed_special": "all"} if options.special else {}
    ids = text.encode(words, **allowed)
    print(*ids)


def decode(options: DecodeOptions) -> None:
    """Print the text of token ids. Raises InputError for what is no token id."""
    words = _words_or_input(options.text).split()
    for word in words:
        if not word.isdecimal() or len(word) > 9:
            raise InputError(f"{word!r} is not a token id: give whole numbers")
    ids = [int(word) for word in words]
    print(tokenizer.load(hub.find(options.folder)).decode(ids))


def list_tokens(options: ListOptions) -> None:
    """Print every token of a vocabulary, what it was merged from, and its id."""
    lines = tokenizer.load(hub.find(options.folder)).listing()
    print(*lines, sep="\n")


def _words_or_input(words: list[str] | None) -> str:
    """What stands on the command line, or else all of the standard input. Raises InputError if that is not UTF-8."""
    if words:
        return " ".join(words)
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"what comes on standard input is not UTF-8: {error}") from error
