"""What a learner has done, in one file that a person can read: `progress.toml` in the folder of the course."""

import datetime
import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from minigpt.errors import InputError
from minigpt.files.disk import write_bytes
from minigpt.learn.classroom.language import tr

FILE = "progress.toml"
VERSION = 1
HEAD = (
    "# Written by `minigpt learn`. A table for each exercise: when it was handed out, how many checks it has had, how\n"
    "# many hints were read, and when it was right for the first time. Delete a table to begin that exercise again.\n"
)


@dataclass
class Record:
    """What is known of one exercise.

    handed_out: a mark of the text that was handed out. tried: checks of a file that was changed. failed: those of them
    that failed.
    """

    started: str = ""
    handed_out: str = ""
    tried: int = 0
    failed: int = 0
    hints: int = 0
    solved: str = ""
    answer_seen: bool = False
    own_answer: str = ""

    def note(self, is_right: bool) -> None:
        """Remember a check; the day on which it was right for the first time stays."""
        self.tried += 1
        if is_right:
            self.solved = self.solved or today()
        else:
            self.failed += 1


@dataclass
class Progress:
    """All records of a folder, by the key of the exercise. Raises InputError for a file that is damaged or newer."""

    folder: Path
    records: dict[str, Record] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Record:
        return self.records.setdefault(key, Record())

    @classmethod
    def load(cls, folder: Path) -> "Progress":
        """What stands in the folder; nothing, where it is new. Raises InputError for a damaged or newer file."""
        path = folder / FILE
        if not path.is_file():
            return cls(folder)
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            version = table.pop("version")
            if version > VERSION:
                raise InputError(
                    tr("{file} was written by a newer minigpt: install that one, or move the file away", file=path)
                )
            records = {key: Record(**values) for key, values in table.items()}
        except (OSError, ValueError, TypeError, KeyError) as error:
            about = {"file": path, "error": error}
            raise InputError(
                tr("{file} is damaged ({error}): mend it, or move it away; your exercises stay", **about)
            ) from error
        return cls(folder, records)

    def save(self) -> None:
        """Write the file, whole or not at all. Raises InputError where this cannot be done."""
        lines = [HEAD + f"version = {VERSION}"]
        for key, record in sorted(self.records.items()):
            if record == Record():
                continue
            lines.append(f'\n["{key}"]')
            lines += [f"{name} = {_toml(value)}" for name, value in asdict(record).items() if value]
        write_bytes(self.folder / FILE, ("\n".join(lines) + "\n").encode())


def mark(text: str) -> str:
    """A short mark of a text, by which a later version of it is told apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def today() -> str:
    """The date, as it stands in the file."""
    return datetime.date.today().isoformat()


def _toml(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    whole = value.encode("utf-8", "replace").decode()  # without halves of characters
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
