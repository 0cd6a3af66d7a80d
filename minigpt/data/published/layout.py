"""What a layout of published files is, and what the items are that are not labelled examples."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError

GAP = "[MASK]"  # the place in a text where each candidate is put

Column = str | tuple[str, ...]  # the name of a column, or of several whose texts are joined by spaces
Reader = Callable[[Path, bool], Iterator[Any]]  # (path, are the answers read?) -> the items


class Layout(NamedTuple):
    """How the files of a data set are written.

    kind: what their items are. One of `minigpt.data.examples.KINDS`, which are labelled examples, as are "pronouns"
    (a text with a GAP, and the candidates for it); or "passages", texts whose last word is to be found; "question",
    "summary", "state" and "written", which is any of these or a translation, for which a text is to be `Written`; or
    "text", one long text.

    Most are tables (`columns` and what follows). All others have a function `read`.
    """

    kind: str
    columns: Mapping[str, Column] = {}  # of a table: role -> column, where it has not the name of its role
    names: Mapping[str, str] = {}  # how a label stands in the file -> its name; in the order of the labels
    metric: str = ""  # how the papers judge it; "": as is usual for its kind
    header: tuple[str, ...] = ()  # the columns of a file that has no line for them
    gaps: bool = False  # some of its texts are known to be empty
    broken: bool = False  # some of its lines are known to have too few fields
    read: Reader | None = None
    keys: tuple[str, ...] = ()  # what every object of JSON, or every table, of this layout has; default: its columns
    begins: str = ""  # or else: a regular expression that matches the beginning of such a file
    detokenize: str = "none"  # how its words were split: one of `minigpt.evaluation.detokenizers`
    unit: str = ""  # of a long text: of what the papers count perplexity, or bits
    form: str = ""  # what an item looks like, for an error
    source: str = ""  # where the files are


class Written(NamedTuple):
    """What a model is to write.

    given: the question, the article, the sentence. answers: all that are right. document: what is read before it.
    turns: the questions and answers before it. metric: how its answers are judged: "squad", "coqa"
    or "state".
    """

    given: str
    answers: tuple[str, ...]
    document: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    metric: str = "squad"


def text_of(path: Path, line: int, record: Any, key: str) -> str:
    """The text of a record of JSON, without spaces around it. Raises InputError where there is none."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise wrong(path, line, f"a text {key!r}", value)
    return value.strip()


def list_of(path: Path, line: int, record: Any, key: str) -> list[Any]:
    """The list in a record of JSON. Raises InputError where there is none, or nothing in it."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, list) or not value:
        raise wrong(path, line, f"a list {key!r} with something in it", value)
    return value


def texts_of(path: Path, line: int, record: Any, key: str) -> tuple[str, ...]:
    """The texts of a list in a record of JSON. Raises InputError where there are none, or one is empty."""
    values = list_of(path, line, record, key)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise wrong(path, line, f"texts in {key!r}", value)
    return tuple(value.strip() for value in values)


def wrong(path: Path, line: int, expected: str, got: Any) -> InputError:
    """The error about a record that is not in the form of its file."""
    shown = "nothing" if got is None else repr(got)[:60]
    return InputError(f"{path}, line {line}: expected {expected}, got {shown}")
