"""Find the lines of a file that mean the same as a question: a search in one's own notes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError, check_ranges, shown
from minigpt.files import hub, published, tensors
from minigpt.files.disk import checksum, read_text, typed
from minigpt.jobs import texts
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.models.text_vectors import POOLS, TOKENS, Progress, check_pool, text_vectors
from minigpt.tokenizer import Tokenizer
from minigpt.tokenizer.settings import read_limit

VECTORS = "vectors"  # the tensor in a file of vectors


@dataclass(kw_only=True)
class SimilarOptions(OnDevice):
    """What `minigpt similar` can be told."""

    folder: str = argument("a model directory, or a downloaded model", metavar="MODEL")
    file: str = argument("a text on each line", metavar="FILE")
    question: str | None = argument(
        "what to look for (default: each line of standard input)", default=None, metavar="QUESTION"
    )
    top: int = option(5, "how many lines for each question", metavar="K")
    pool: str = option("mean", "a text's vector: the mean of its hidden states, or the first one", choices=POOLS)
    vectors: str | None = option(
        None, "keep the vectors of the lines here, and read them the next time (default: compute them)",
        metavar="FILE.safetensors",
    )  # fmt: skip

    def check(self) -> None:
        """Raises InputError for a value outside its range, and for vectors that would take the place of the texts."""
        check_ranges(self, 1, "top")
        if self.vectors is not None and Path(self.vectors).suffix != ".safetensors":
            raise InputError(f"--vectors {self.vectors}: give a name that ends in .safetensors")


class Line(NamedTuple):
    """A line of the file, and how near it is to a question: the cosine of the angle between their vectors."""

    cosine: float
    number: int
    text: str


class Read(NamedTuple):
    """A text as the model is given it: its ids, the segment of each, and whether it was cut."""

    ids: list[int]
    segments: list[int]
    is_cut: bool


class Reader:
    """Reads texts as the model is given them: between its special tokens, and cut where they are too long.

    limit: how many tokens count, the special ones among them. Raises InputError for one without room for a text.
    """

    def __init__(self, folder: str, model: LanguageModel, text: Tokenizer):
        self.text = text
        self.limit, self.who = model.config.n_positions, "the model sees"
        of_files = read_limit(hub.find(folder))
        if of_files is not None and of_files.tokens < self.limit:
            self.limit, self.who = of_files.tokens, f"{of_files.file} allows"
        self.room = self.limit - len(text.wrap([])[0])
        if self.room < 1:
            raise InputError(f"{folder}: with its special tokens no text fits into the {self.limit} that {self.who}")

    def read(self, line: str) -> Read:
        """A text with its special tokens, cut where it is too long."""
        ids = self.text.encode(line)
        return Read(*self.text.wrap(ids[: self.room]), len(ids) > self.room)


def similar(
    options: SimilarOptions, write: Callable[[str], object] = print, tell: Callable[[str], object] = published.tell
) -> list[list[Line]]:
    """Write the lines of a file that are nearest to each question, nearest first; returns them.

    A line of the output is the cosine, the number of the line in the file, and the line, separated by tabs. tell: is
    called with how many lines were cut, and for a question that was. Raises InputError for a file that cannot be read,
    for a question without tokens, and for kept vectors of another file, model or way.
    """
    options.check()
    model, text = models.open_both(options.folder)
    model.to(choose_device(options.device))
    check_pool(model, options.pool)
    costs.fit_threads(model, TOKENS)
    reader = Reader(options.folder, model, text)
    numbered = list(texts.lines(read_text(options.file)))
    vectors = _vectors(options, model, reader, [line for _, line in numbered], tell)
    found = []
    for question in texts.given(options.question, what="a question"):
        asked = _vectors_of(model, [_read_question(question, reader, tell)], options.pool)
        cosines = vectors @ asked[0]
        nearest = np.argsort(-cosines, kind="stable")[: options.top]
        if found:
            write("")
        found.append([Line(float(cosines[i]), *numbered[i]) for i in nearest])
        write("\n".join(f"{line.cosine:.4f}\t{line.number}\t{line.text}" for line in found[-1]))
    return found


def _read_question(question: str, reader: Reader, tell: Callable[[str], object]) -> Read:
    found = reader.read(question)
    if not found.ids:
        raise InputError(f"the question {shown(question)} holds no token: give some words")
    if found.is_cut:
        tell(f"the question has more tokens than {reader.who}: only its first {reader.room} count")
    return found


def _vectors_of(model: LanguageModel, read: list[Read], pool: str, progress: Progress = iter) -> np.ndarray:
    """N texts -> (N,C), one vector of length 1 for each"""
    ids, segments, _ = zip(*read, strict=True)
    return text_vectors(model, ids, pool, progress, segments)


def _vectors(
    options: SimilarOptions, model: LanguageModel, reader: Reader, lines: list[str], tell: Callable[[str], object]
) -> np.ndarray:
    """(N,C), the vectors of the lines: those that were kept, or new ones, which are kept where that is wanted."""
    if options.vectors is None:
        return _read_lines(options, model, reader, lines, tell)
    path = Path(options.vectors)
    about = {
        "file": published.sha256(Path(options.file)),
        "model": model.checksum(),
        "tokenizer": checksum(reader.text.tokens),
        "pool": options.pool,
        "limit": str(reader.limit),
    }
    if path.exists():
        earlier = {"limit": str(model.config.n_positions)}  # which older files do not name
        return _kept(path, about, earlier, (len(lines), model.state_width))
    vectors = _read_lines(options, model, reader, lines, tell)
    tensors.save_tensors(path, {VECTORS: vectors}, about)
    return vectors


def _kept(path: Path, about: dict[str, str], earlier: dict[str, str], shape: tuple[int, int]) -> np.ndarray:
    """The vectors in a file. earlier: what holds where the file does not say it.

    Raises InputError where they are of another file, model, tokenizer, pool or limit of tokens.
    """
    found, kept = tensors.load_tensors(path)
    kept = earlier | kept
    for name, value in about.items():
        if kept.get(name) != value:
            instead = f"remove it (rm {typed(path)}), or give another name"
            raise InputError(f"--vectors {path} holds what was made with another {name}: {instead}")
    if set(found) != {VECTORS} or found[VECTORS].shape != shape:
        raise InputError(f"--vectors {path} holds no vectors of {shape[0]:,} lines: give another name")
    return found[VECTORS]


def _read_lines(
    options: SimilarOptions, model: LanguageModel, reader: Reader, lines: list[str], tell: Callable[[str], object]
) -> np.ndarray:
    """(N,C), the vectors of the lines; of one that is too long, that of its beginning."""
    read = [reader.read(line) for line in lines]
    n_cut = sum(one.is_cut for one in read)
    if n_cut:
        what = f"{n_cut:,} of {len(lines):,} lines have more tokens than {reader.who}"
        tell(f"{options.file}: {what}: only the first {reader.room} of each count")

    def progress(batches):
        return tqdm(batches, unit="batch", desc="reading", leave=False, disable=None)

    return _vectors_of(model, read, options.pool, progress)
