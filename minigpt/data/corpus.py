"""From a text to batches of token ids: sources, the split, token arrays, windows. NumPy only; the caller moves batches.

Every batch is a function of (seed, step): nothing is shuffled in place, so a run can stop and go on anywhere.
"""
import ast
import codecs
import hashlib
import pydoc_data.topics
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minigpt.data import stories
from minigpt.errors import InputError

VALIDATION = 0.1  # the last tenth of a text, by position
LARGE = 64 << 20  # bytes from which a file is read in pieces and its tokens live on disk
PIECE = 8 << 20  # bytes of such a piece, about
SEPARATOR = "\n\n"  # between documents
IGNORED = -100  # a target that is not predicted


@dataclass(frozen=True)
class Corpus:
    """A text in two parts. `pieces("train")` and `pieces("valid")` yield it, in one piece unless it is large.

    pieces takes a separator too: what stands between the documents of a text that is made of documents.
    tokenizer: what suits it, "char" or "bpe:N". identity: changes when the text may have changed. large: whether its
    tokens should be kept on disk.
    """

    name: str
    pieces: Callable[..., Iterable[str]]
    tokenizer: str
    identity: str
    large: bool = False


def load(source: str | Path) -> Corpus:
    """"stories", "stories:N", "stories:N:V" (N training stories of variety V, 1 to 3), "pydocs", or a UTF-8 text file.

    Validation is the last tenth by position, of whole documents where there are documents; stories never occur in
    both. Raises InputError for a file that is missing, empty, binary, not UTF-8, or a folder.
    """
    source = str(source)
    if source == "stories" or source.startswith("stories:"):
        return _stories(source)
    if source == "pydocs":
        return _of_documents("pydocs", *_split_documents(python_docs()), tokenizer="bpe:4096")
    return _file(Path(source))


def _of_documents(name: str, train: list[str], valid: list[str], tokenizer: str, end: str = "\n") -> Corpus:
    parts = {"train": train, "valid": valid}
    whole = "\0".join(SEPARATOR.join(part) + end for part in parts.values())
    identity = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Corpus(name, lambda part, separator=SEPARATOR: [separator.join(parts[part]) + end], tokenizer, identity)


def _stories(source: str) -> Corpus:
    _, *numbers = source.split(":")
    if not re.fullmatch("stories(:[1-9][0-9]{1,6}(:[0-9]+)?)?", source):
        raise InputError(f"--data {source}: give stories: and a number, 10 to 9,999,999, such as stories:10000")
    number, variety = [int(number) for number in numbers] + [10_000, stories.VARIETY][len(numbers) :]
    sizes = ((number, "train"), (number // 10, "valid"))
    train, valid = (stories.documents(n, 0, part, variety) for n, part in sizes)
    return _of_documents("stories", train, valid, tokenizer="bpe:1500")


def _split_documents(documents: list[str]) -> tuple[list[str], list[str]]:
    """Whole documents, the last tenth of the characters apart."""
    sizes = np.cumsum([len(document) for document in documents])
    cut = int(np.searchsorted(sizes, (1 - VALIDATION) * sizes[-1])) + 1
    cut = min(cut, len(documents) - 1)
    return documents[:cut], documents[cut:]


def python_docs() -> list[str]:
    """Real English that every machine has: Python's language reference and the standard library's docstrings.

    Source files are read by `ast`, never imported. About 2 MB; it differs between Python versions.
    """
    documents = [topic.strip() for _, topic in sorted(pydoc_data.topics.topics.items())]
    library = Path(sysconfig.get_path("stdlib"))
    skip = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__", "dist-packages"}
    for path in sorted(library.rglob("*.py")):
        if skip & set(path.relative_to(library).parts):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):  # a template, or the syntax of another Python
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
        text = SEPARATOR.join(doc.strip() for doc in found if doc and len(doc) > 60)
        if text:
            documents.append(text.encode("utf-8", "ignore").decode("utf-8"))
    return documents


def _file(path: Path) -> Corpus:
    if path.is_dir():
        raise InputError(f"--data {path} is a folder: give one text file")
    if not path.is_file():
        raise InputError(f"--data {path} does not exist: give stories, pydocs, or a UTF-8 text file")
    size, name = path.stat().st_size, path.stem
    if size == 0:
        raise InputError(f"--data {path} is empty")
    if size < LARGE:
        text = "".join(_decoded(path, 0, size))
        cut = int((1 - VALIDATION) * len(text))
        return _of_documents(name, [text[:cut]], [text[cut:]], tokenizer="char", end="")
    cut = _line_start(path, int((1 - VALIDATION) * size))
    parts = {"train": (0, cut), "valid": (cut, size)}
    identity = f"{path.resolve()} {size} {path.stat().st_mtime_ns}"
    return Corpus(name, lambda part, separator="": _decoded(path, *parts[part]), "bpe:4096", identity, large=True)


def _line_start(path: Path, offset: int) -> int:
    """Where the first line after this byte begins; where none does, the next character."""
    with path.open("rb") as file:
        file.seek(offset)
        line = file.readline(PIECE)
        if line.endswith(b"\n") and file.read(1):
            return offset + len(line)
        return offset + next((i for i, byte in enumerate(line) if byte & 0xC0 != 0x80), 0)


def _decoded(path: Path, start: int, end: int) -> Iterator[str]:
    """The text between two bytes of a file, in pieces that end with a line where they can; \\r\\n becomes \\n."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        file.seek(start)
        if start == 0 and file.read(3) != codecs.BOM_UTF8:
            file.seek(0)
        while (at := file.tell()) < end:
            raw = file.read(min(PIECE, end - at))
            raw += file.readline(min(PIECE, end - file.tell())) if file.tell() < end else b""
            if b"\0" in raw:
                raise InputError(f"--data {path} is not text: byte {at + raw.index(0)} is zero")
            try:
                text = decoder.decode(raw, final=file.tell() >= end)
            except UnicodeDecodeError as error:
                # the object begins with what the piece before has left over
                where = f"byte {file.tell() - len(error.object) + error.start} is {error.object[error.start :][:1]!r}"
                raise InputError(f"--data {path} is not UTF-8 ({where}): convert it to UTF-8 first") from error
            yield text.replace("\r\n", "\n")


def encode(corpus: Corpus, tokenizer, context: int, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The training and validation tokens, as arrays of the smallest unsigned integers that hold the vocabulary.

    A large corpus is encoded in pieces into files in `folder`, which are opened as memory maps, now and the next time.
    Raises InputError where a part is shorter than one window of context + 1 tokens.
    """
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    options, separator = {}, SEPARATOR
    if getattr(tokenizer, "end_of_text_id", None) is not None:  # GPT-2 ends a document with a token of its own
        options, separator = {"allowed_special": "all"}, tokenizer.token(tokenizer.end_of_text_id)
    arrays = []
    for part in ("train", "valid"):
        texts = tqdm(corpus.pieces(part, separator), f"encoding {corpus.name}", leave=False, delay=2, disable=None)
        pieces = (np.array(tokenizer.encode(text, **options), dtype) for text in texts)
        if corpus.large and folder is not None:
            known = hashlib.sha256(repr(tokenizer.tokens).encode("utf-8", "surrogatepass")).hexdigest()[:16]
            mark = f"{corpus.identity} {part} {np.dtype(dtype)} {known}"
            tokens = _on_disk(pieces, Path(folder) / f"tokens-{part}", dtype, mark)
        else:
            tokens = np.concatenate([np.zeros(0, dtype), *pieces])
        if len(tokens) <= context:
            kind = {"train": "training", "valid": "validation"}[part]
            few = f"the {kind} part has {len(tokens)} tokens, fewer than one window of {context} + 1"
            raise InputError(f"{corpus.name}: {few}: give more text or a smaller --context")
        arrays.append(tokens)
    return arrays[0], arrays[1]


def _on_disk(pieces: Iterable[np.ndarray], path: Path, dtype, mark: str) -> np.ndarray:
    """A memory map of the tokens; written piece by piece unless the file of this mark is there already."""
    note = path.with_suffix(".of")
    if not (note.is_file() and path.is_file() and note.read_text(encoding="utf-8") == mark):
        note.unlink(missing_ok=True)  # from here until the note is written again, the file counts for nothing
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in pieces:
                piece.tofile(file)
        note.write_text(mark, encoding="utf-8")
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype)


def fingerprint(*tokens: np.ndarray) -> str:
    """Tells whether these are the same token arrays as before: sha256 over their ids, shortened."""
    digest = hashlib.sha256()
    for array in tokens:
        for start in range(0, len(array), PIECE):
            digest.update(np.ascontiguousarray(array[start : start + PIECE], "<u4"))
        digest.update(b"|")
    return digest.hexdigest()[:16]
