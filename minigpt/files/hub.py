"""Published models: fetched once, checked where their sums are known, and kept in a folder of their own.

Files placed there by hand do as well.
"""

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from minigpt.errors import InputError
from minigpt.files import checkpoint, openai_release, sections

HOST = "https://huggingface.co/openai-community"
FILES = (checkpoint.CONFIG, "vocab.json", "merges.txt", checkpoint.WEIGHTS)
TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 20

_PUBLISHED = {tuple(heading.split()): sums for heading, sums in sections.read(__file__, "published.txt").items()}
REPOSITORIES = {name: tuple(state) for name, *state in _PUBLISHED}  # {model: (repository, the state that we know)}
SHA256 = {(name, file): known for (name, *_), sums in _PUBLISHED.items() for file, known in map(str.split, sums)}


def home(name: str) -> Path:
    """The folder of a published model: ~/.cache/minigpt/NAME, or MINIGPT_CACHE/NAME where that variable is set."""
    return Path(os.environ.get("MINIGPT_CACHE") or Path.home() / ".cache" / "minigpt") / name


def find(folder: str | Path) -> Path:
    """A model's folder: the one given; where there is none, and it is the name of a published model, that one's.

    Raises InputError for a published model that is not there.
    """
    name = str(folder)
    if Path(folder).is_dir() or name not in REPOSITORIES:
        return Path(folder)
    weights = (checkpoint.WEIGHTS, checkpoint.INDEX, openai_release.SHAPES)
    if not any((home(name) / file).is_file() for file in weights):
        raise InputError(f"{name} is neither a folder here nor downloaded to {home(name)}: minigpt download {name}")
    return home(name)


def download(name: str, out: str | Path | None = None, source: str | None = None) -> Path:
    """Fetch the files of a published model into `out` (default: `home(name)`); returns the folder.

    source: an address to fetch them from in place of the publisher's, such as a mirror's. What is there already is not
    fetched again, and nothing is overwritten. Raises InputError where a file cannot be had or is not the published one.
    """
    if name not in REPOSITORIES:
        raise InputError(f"unknown model {name!r}: choose {', '.join(REPOSITORIES)}")
    (repository, revision), folder = REPOSITORIES[name], Path(out or home(name))
    for file in FILES:
        path, known = folder / file, SHA256.get((name, file))
        if path.exists():
            if known and sha256(path) != known:
                raise InputError(f"{path} is there, and it is another file: move it away, or give another --out")
            print(f"{path} is there already")
            continue
        try:
            fetch(f"{(source or f'{HOST}/{repository}/resolve/{revision}').rstrip('/')}/{file}", path, known)
        except InputError as error:
            by_hand = f"place {', '.join(FILES)} from {HOST}/{repository}/tree/{revision} in {folder}"
            raise InputError(f"{error}; try again, or, by hand, {by_hand}") from error
        if known is None:
            print(f"{file}: no published checksum is known, only its length was checked")
    return folder


def fetch(url: str, path: Path, known: str | None = None) -> None:
    """Download a file. It grows beside as path.part; a download that broke goes on from there (HTTP Range).

    known: its sha256. Raises InputError if the server is gone or refuses, and if the sum is wrong: then it is removed.
    """
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        while not _more(url, part):
            pass
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error).removeprefix("<urlopen error ").removesuffix(">")
        raise InputError(f"cannot fetch {url}: {reason}") from error
    found = sha256(part) if known else None
    if found != known:
        part.unlink()
        raise InputError(f"what came from {url} has the sha256 {found}, the published file {known}: it was removed")
    os.replace(part, path)


def _more(url: str, part: Path) -> bool:
    """Go on from the end of `part` for as long as one connection lasts; True when the file is whole.

    Raises OSError where nothing more comes.
    """
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "minigpt"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return True
        part.unlink()  # it is longer than the file, so it is of another one
        return False
    with response:
        start = have if response.status == 206 else 0  # a server may send the whole file whatever it was asked for
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise ConnectionError("the server sends another part of the file than it was asked for")
        if not response.headers.get("Content-Length", "").isdigit():
            raise ConnectionError("the server does not say how long the file is")
        total = start + int(response.headers["Content-Length"])
        with (
            part.open("ab") as file,
            tqdm(desc=part.stem, initial=start, total=total, unit="B", unit_scale=True, dynamic_ncols=True) as bar,
        ):
            file.truncate(start)
            for chunk in _chunks(response):
                bar.update(file.write(chunk))
    size = part.stat().st_size
    if size <= have and size < total:
        raise ConnectionError(f"the connection broke at {size:,} of {total:,} bytes, which are kept")
    return size >= total


def _chunks(response):
    """What arrives until the end, or until the connection breaks."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while chunk := response.read(CHUNK):
            yield chunk


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
