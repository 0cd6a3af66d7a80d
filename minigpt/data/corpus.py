"""Where a text comes from, how it is split into training and validation, and its tokens as arrays. NumPy only."""

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

from minigpt.errors import InputError
from minigpt.files.disk import in_place_of, write_text
from minigpt.tokenizer import Tokenizer

VALIDATION = 0.1  # the last tenth of a text, by position
LARGE = 64 << 20  # bytes from which a file is read in pieces and its tokens live on disk
PIECE = 8 << 20  # bytes of such a piece, about
SEPARATOR = "\n\n"  # between documents

STORIES = {  # the sources that are made of stories: in which languages these are told, in turn
    "stories": ("english",), "korean": ("korean",), "both": ("english", "korean"), "pairs": ("pairs",),
}  # fmt: skip

# of Python's standard library: folders that hold no library code, and nodes of a syntax tree that have docstrings
NOT_THE_LIBRARY = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__", "dist-packages"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Corpus:
    """A text in two parts. `pieces("train")` and `pieces("valid")` yield it, in one piece unless it is large.

    pieces takes a separator, too: what stands between the documents of a text that is made of documents.
    tokenizer: the kind that suits it, "char" or "bpe:N". identity: changes when the text may have changed. large: are
    its tokens to be kept on disk?
    """

    name: str
    pieces: Callable[..., Iterable[str]]
    tokenizer: str
    identity: str
    large: bool = False


def load(source: str | Path) -> Corpus:
    """"stories", "stories:N", "stories:N:V" (N training stories of variety V, 1 to 3), "pydocs", or a UTF-8 text file.

    "korean:N" has the same stories in Korean, "both:N" every other one, and "pairs:N" their sentences in lines `English
    sentence = Korean sentence`. Validation is the last tenth by position, of whole documents where there are documents;
    stories never occur in both. Raises InputError for a file that is missing, empty, binary, not UTF-8, or a folder.
    """
    source = str(source)
    if source.partition(":")[0] in STORIES:
        return _stories(source)
    if source == "pydocs":
        return _of_documents("pydocs", *_split_documents(python_docs()), tokenizer=default_tokenizer(source))
    return _file(Path(source))


# Sources: stories, Python's documentation, a file.


def name_of(source: str | Path) -> str:
    """What the corpus of a source is called, which is not opened."""
    source = str(source)
    kind = source.partition(":")[0]
    if kind in STORIES:
        return kind
    return source if source == "pydocs" else Path(source).stem


def default_tokenizer(source: str | Path) -> str:
    """The kind of tokenizer that suits a source, "char" or "bpe:N". It is not read."""
    name = name_of(source)
    path = Path(source)
    if path.is_file():
        return "bpe:4096" if path.stat().st_size >= LARGE else "char"
    sizes = {"stories": "bpe:1500", "korean": "bpe:3000", "both": "bpe:4096", "pairs": "bpe:4096", "pydocs": "bpe:4096"}
    return sizes.get(name, "char")


def _of_documents(
    name: str,
    train: list[str],
    valid: list[str],
    tokenizer: str,
    end: str = "\n",
    joint: str | None = None,
) -> Corpus:
    """A text in memory, of documents. Each part ends with `end`. joint: stands between two, whatever the separator."""
    parts = {"train": train, "valid": valid}
    whole = "\0".join((joint or SEPARATOR).join(part) + end for part in parts.values())

    def pieces(part: str, separator: str = SEPARATOR) -> list[str]:
        return [(joint or separator).join(parts[part]) + end]

    return Corpus(name, pieces, tokenizer, _short_hash(whole))


def _short_hash(text: str) -> str:
    """The first 16 hexadecimal digits of a text's sha256."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:16]


def _stories(source: str) -> Corpus:
    """stories, stories:N, or stories:N:V, or another of STORIES; there are a tenth as many to validate with."""
    from minigpt.data import stories  # its tables take 0.05 s to read, which not every program should pay

    kind, *numbers = source.split(":")
    if not re.fullmatch("[a-z]+(:[1-9][0-9]{1,6}(:[0-9]+)?)?", source):
        raise InputError(f"--data {source}: give {kind}: and a number, 10 to 9,999,999, such as {kind}:10000")
    n = 10_000
    variety = stories.VARIETY
    if len(numbers) >= 1:
        n = int(numbers[0])
    if len(numbers) == 2:
        variety = int(numbers[1])
    train = stories.documents(n, 0, "train", variety, STORIES[kind])
    valid = stories.documents(n // 10, 0, "valid", variety, STORIES[kind])
    joint = "\n" if kind == "pairs" else None  # a token that ends documents would stand inside a line
    return _of_documents(kind, train, valid, default_tokenizer(source), joint=joint)


def _split_documents(documents: list[str]) -> tuple[list[str], list[str]]:
    """(training, validation): whole documents, with the last tenth of the characters in validation."""
    sizes = [len(document) for document in documents]
    ends = np.cumsum(sizes)
    cut = int(np.searchsorted(ends, (1 - VALIDATION) * ends[-1])) + 1
    cut = min(cut, len(documents) - 1)
    return documents[:cut], documents[cut:]


def python_docs() -> list[str]:
    """Real English that every machine has: Python's language reference and the standard library's docstrings.

    Source files are read by `ast`, never imported. About 2 MB; it differs between Python versions.
    """
    topics = sorted(pydoc_data.topics.topics.items())
    documents = [topic.strip() for _, topic in topics]
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        folders = path.relative_to(library).parts
        if NOT_THE_LIBRARY.intersection(folders):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):  # a template, or the syntax of another Python
            continue
        text = _docstrings(tree)
        if text:
            documents.append(text)
    return documents


def _docstrings(tree: ast.Module) -> str:
    """The docstrings of a file that are longer than a line, as one text; without what is no Unicode."""
    found = []
    for node in ast.walk(tree):
        docstring = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if docstring and len(docstring) > 60:
            found.append(docstring.strip())
    text = SEPARATOR.join(found)
    return text.encode("utf-8", "ignore").decode("utf-8")


def _file(path: Path) -> Corpus:
    """The text in a file, split by position; a large file at the end of a line, and read in pieces."""
    if path.is_dir():
        raise InputError(f"--data {path} is a folder: give one text file")
    if not path.is_file():
        raise InputError(f"--data {path} does not exist: give stories, pydocs, or a UTF-8 text file")
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"--data {path} is empty: give a file with text in it")
    if size < LARGE:
        text = "".join(_decoded(path, 0, size))
        cut = int((1 - VALIDATION) * len(text))
        return _of_documents(path.stem, [text[:cut]], [text[cut:]], tokenizer=default_tokenizer(path), end="")
    cut = _line_start(path, int((1 - VALIDATION) * size))
    parts = {"train": (0, cut), "valid": (cut, size)}
    identity = f"{path.resolve()} {size} {path.stat().st_mtime_ns}"

    def pieces(part: str, separator: str = "") -> Iterator[str]:
        start, end = parts[part]
        return _decoded(path, start, end)

    return Corpus(path.stem, pieces, default_tokenizer(path), identity, large=True)


def _line_start(path: Path, offset: int) -> int:
    """Where the first line after this byte begins; where none does, the next character."""
    with path.open("rb") as file:
        file.seek(offset)
        line = file.readline(PIECE)
        followed = file.read(1)
    if line.endswith(b"\n") and followed:
        return offset + len(line)
    for i, byte in enumerate(line):
        inside_a_character = byte & 0b1100_0000 == 0b1000_0000  # as UTF-8 marks all of its bytes but the first
        if not inside_a_character:
            return offset + i
    return offset


def _decoded(path: Path, start: int, end: int) -> Iterator[str]:
    """The text between two bytes of a file, in pieces that end with a line where they can; \\r\\n becomes \\n.

    Raises InputError for a byte that is zero, and for one that is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        file.seek(start)
        if start == 0 and file.read(3) != codecs.BOM_UTF8:
            file.seek(0)
        at = file.tell()
        while at < end:
            raw = file.read(min(PIECE, end - at))
            if file.tell() < end:
                raw += file.readline(min(PIECE, end - file.tell()))
            if b"\0" in raw:
                zero = at + raw.index(0)
                raise InputError(f"--data {path} is not text (byte {zero} is zero): give a UTF-8 text file")
            at = file.tell()
            text = _decode(decoder, raw, path, at, final=at >= end)
            yield text.replace("\r\n", "\n")


def _decode(
    decoder: codecs.IncrementalDecoder,
    raw: bytes,
    path: Path,
    at: int,
    final: bool,
) -> str:
    """The text of the bytes that end at byte `at` of a file; final: no more follow. A character may span two pieces."""
    try:
        return decoder.decode(raw, final=final)
    except UnicodeDecodeError as error:
        tried = error.object  # the bytes that the piece before has left over, and these
        place = at - len(tried) + error.start
        wrong = tried[error.start : error.start + 1]
        where = f"byte {place} is {wrong!r}"
        raise InputError(f"--data {path} is not UTF-8 ({where}): convert it to UTF-8 first") from error


# Tokens.


def encode(
    corpus: Corpus,
    tokenizer: Tokenizer,
    context: int,
    folder: str | Path | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The training and the validation tokens, arrays (N,) of the smallest unsigned integers that hold the vocabulary.

    A large corpus is encoded in pieces into files in `folder`, which are opened as memory maps, now and the next time.
    Raises InputError where a part is shorter than one window of context + 1 tokens.
    """
    arrays = []
    for part, name in (("train", "training"), ("valid", "validation")):
        tokens = _encoded(corpus, part, tokenizer, folder)
        if len(tokens) <= context:
            few = f"the {name} part has {len(tokens)} tokens, fewer than one window of {context} + 1"
            raise InputError(f"{corpus.name}: {few}: give more text or a smaller --context")
        arrays.append(tokens)
    train, valid = arrays
    return train, valid


def _encoded(
    corpus: Corpus,
    part: str,
    tokenizer: Tokenizer,
    folder: str | Path | None,
) -> np.ndarray:
    """The tokens of one part, (N,)."""
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    pieces = _encoded_pieces(corpus, part, tokenizer, dtype)
    if not corpus.large or folder is None:
        return np.concatenate([np.zeros(0, dtype), *pieces])
    vocabulary = _short_hash(repr(tokenizer.tokens))
    mark = f"{corpus.identity} {part} {np.dtype(dtype)} {vocabulary}"
    return _on_disk(pieces, Path(folder) / f"tokens-{part}", dtype, mark)


def _encoded_pieces(
    corpus: Corpus,
    part: str,
    tokenizer: Tokenizer,
    dtype: type[np.unsignedinteger],
) -> Iterator[np.ndarray]:
    """Yields the tokens of each piece of a part. GPT-2's vocabulary ends a document with a token of its own."""
    separator = SEPARATOR
    options = {}
    if tokenizer.end_of_text_id is not None:
        separator = tokenizer.token(tokenizer.end_of_text_id)
        options = {"allowed_special": "all"}
    texts = corpus.pieces(part, separator)
    for text in tqdm(texts, f"encoding {corpus.name}", leave=False, delay=2, disable=None):
        ids = tokenizer.encode(text, **options)
        yield np.array(ids, dtype)


def _on_disk(
    pieces: Iterable[np.ndarray],
    path: Path,
    dtype: type[np.unsignedinteger],
    mark: str,
) -> np.ndarray:
    """A memory map (N,) of the tokens; they are written piece by piece unless the file of this mark is there already.

    mark: names the text and the vocabulary. It is written beside the tokens after the last of them.
    """
    note = path.with_suffix(".of")
    if not _written_before(path, note, mark):
        note.unlink(missing_ok=True)  # from here until the note is written again, the file counts as unfinished
        with in_place_of(path) as beside, beside.open("wb") as file:
            for piece in pieces:
                file.write(piece.data)  # not piece.tofile, whose error does not say that a disk is full
        write_text(note, mark)
    if path.stat().st_size == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _written_before(path: Path, note: Path, mark: str) -> bool:
    if not path.is_file() or not note.is_file():
        return False
    return note.read_text(encoding="utf-8") == mark


def fingerprint(*tokens: np.ndarray) -> str:
    """16 hexadecimal digits that change with the ids of the token arrays (N,): a shortened sha256 over all of them.

    The integer type of the arrays plays no part.
    """
    digest = hashlib.sha256()
    for array in tokens:
        for start in range(0, len(array), PIECE):
            part = array[start : start + PIECE]
            digest.update(np.ascontiguousarray(part, "<u4").data)
        digest.update(b"|")
    return digest.hexdigest()[:16]
