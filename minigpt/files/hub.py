"""Published models: found where they lie already, or downloaded by huggingface_hub and compared with known checksums.

A model has two possible places: the cache of huggingface_hub, which it shares with transformers and every other program
(HF_HOME and HF_HUB_CACHE move it), or a folder of its own with files that were placed by hand. A download is pinned to
one commit of the publisher's repository where `published.toml` names one; else the newest is taken, and that is said.
huggingface_hub is the extra `hub`; it is imported when it is first needed.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from minigpt.errors import InputError, check_folder
from minigpt.files import checkpoint, openai_release
from minigpt.files.disk import typed
from minigpt.files.published import PUBLISHED, Published, check_present, hashed, home, known, name_of, sha256, tell

HOST = "https://huggingface.co"
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # the only hosts to which http:// is accepted
CONTENT_HOSTS = ("huggingface.co", "hf.co")  # with all below them: where huggingface.co and its mirrors send one to
LARGEST = {  # bytes that a file can have at most: the weights of gpt2-xl are 6.4 GB
    checkpoint.CONFIG: 1 << 20,
    checkpoint.WEIGHTS: 8 << 30,
    checkpoint.PICKLE: 8 << 30,
}
LARGEST_OF_OTHERS = 1 << 24


# --- where a model lies ----------------------------------------------------------------------------------------------


def find(folder: str | Path) -> Path:
    """A model's folder: the one given; where there is none, and it is the name of a published model, that one's.

    Raises InputError for a published model that is not on this machine.
    """
    check_folder(folder)
    name = name_of(str(folder))
    if Path(folder).is_dir() or name not in PUBLISHED:
        return Path(folder)
    found = locate(name)
    if found is None:
        or_cache = "" if PUBLISHED[name].package else " or to the cache of huggingface_hub"
        raise InputError(f"{folder} is neither a folder here nor downloaded to {home(name)}{or_cache}: "
                         f"minigpt download {name}")  # fmt: skip
    return found


def locate(name: str) -> Path | None:
    """The folder of a published model on this machine, or None.

    Files placed by hand come first, then a whole copy of the known commit in the cache of huggingface_hub.
    """
    model = PUBLISHED[name]
    if model.package:
        return home(name) if all((home(name) / file).is_file() for file in model.files) else None
    if _placed_by_hand(name):
        return home(name)
    repository = _repository(model)
    first, *others = [_in_cache(repository, model.revision, file) for file in model.files]
    return first.parent if first and all(others) else None


def _placed_by_hand(name: str) -> bool:
    """Whether the folder for files placed by hand holds weights in one of the forms that can be opened."""
    weights = (checkpoint.WEIGHTS, checkpoint.INDEX, openai_release.SHAPES)
    return any((home(name) / file).is_file() for file in weights)


def _repository(model: Published) -> str:
    """The name under which the cache of huggingface_hub has this repository; where it has none, the present name.

    Each program files a repository under the name that it used itself: before 2024 many had no owner in their names.
    """
    _, _, former = model.repository.partition("/")
    for revision in dict.fromkeys((model.revision, "main")):
        for name in (model.repository, former):
            if _in_cache(name, revision, checkpoint.WEIGHTS):
                return name
    return model.repository


def _in_cache(repository: str, revision: str, file: str) -> Path | None:
    """A file in the cache of huggingface_hub, or None."""
    library = _library()
    if library is None:
        return None
    found = library.try_to_load_from_cache(repository, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _library() -> Any:
    """huggingface_hub, or None where it is not installed. It is imported here because its import takes 0.3 s."""
    try:
        import huggingface_hub.constants
    except ImportError:
        return None
    return huggingface_hub


# --- download --------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """Where files come from: the library, the address of the hub or of a mirror, the repository and what of it."""

    library: Any
    endpoint: str
    repository: str
    revision: str


class AbsentError(InputError):
    """The server does not have the file."""


class PickleError(InputError):
    """The server has the weights in a form that is never opened."""


def download(name: str, out: str | Path | None = None, source: str | None = None) -> Path:
    """Fetch what is missing of a published model, and compare every file with its checksum; returns the folder.

    out: the folder to put the files into. Without it they go to MINIGPT_CACHE/NAME where that variable is set or files
    were placed by hand before, and else into the cache of huggingface_hub.
    source: the address of a mirror of huggingface.co, in place of it (or of HF_ENDPOINT).

    What is there already is not fetched again, and nothing is overwritten. What happens is told on standard error.
    Raises InputError where huggingface_hub is missing, where a file cannot be had, or is not the published one.
    """
    model = known(name)
    name = name_of(name)
    folder = _destination(name, out)
    paths = _present(model, folder)
    missing = [file for file in model.files if file not in paths]
    if missing:
        try:
            more = [file for file in model.maybe if file not in paths]
            paths |= _fetch(model, missing + more, folder, source)
        except PickleError:
            raise
        except InputError as error:
            raise InputError(f"{error}; or place the files by hand: {_by_hand(name, folder)}") from error
    if "gpt" in name:
        tell(f'now: minigpt sample {typed(out or name)} --prompt "The old man"')
    return folder or paths[checkpoint.CONFIG].parent


def _destination(name: str, out: str | Path | None) -> Path | None:
    """The folder for the files, or None for the cache of huggingface_hub."""
    if out:
        return Path(out)
    if _placed_by_hand(name):
        return home(name)
    cached = locate(name) is not None
    return home(name) if os.environ.get("MINIGPT_CACHE") and not cached else None


def _present(model: Published, folder: Path | None) -> dict[str, Path]:
    """{file: its path} of the files that are there. Raises InputError for one that is not the published one."""
    repository = _repository(model)
    found = {}
    for file in (*model.files, *model.maybe):
        path = folder / file if folder else _in_cache(repository, model.revision, file)
        if path is not None and path.exists():
            check_present(path, model)
            found[file] = path
    return found


def _by_hand(name: str, folder: Path | None) -> str:
    """How to do without a download, in words."""
    model = PUBLISHED[name]
    files = [f"{file} (sha256 {model.sha256.get(file, 'not known')})" for file in model.files]
    address = f"{HOST}/{model.repository}/resolve/{model.revision}"
    return f"{', '.join(files)} from {address}/ into {folder or home(name)}"


def _fetch(model: Published, files: list[str], folder: Path | None, source: str | None) -> dict[str, Path]:
    """Fetch files into a folder, or into the cache of huggingface_hub; returns {file: its path}. Raises InputError.

    A file of `model.maybe` that the repository does not have is left out.
    """
    library = _library()
    if library is None:
        raise InputError("downloads need the library huggingface_hub: pip install huggingface_hub")
    endpoint = (source or library.constants.ENDPOINT).rstrip("/")
    require_secure(endpoint)
    origin = Source(library, endpoint, _repository(model), model.revision)
    found = {}
    with _watched(origin):
        announced = _all_announced(origin, files, model)
        _tell_cost(origin, announced)
        for file in announced:
            found[file] = _fetch_file(origin, file, folder)
            _check(found[file], model.sha256.get(file) or announced[file].etag)
    right = [file for file in found if file in model.sha256]
    unknown = [file for file in found if file not in model.sha256]
    if right:
        tell(f"{', '.join(right)}: the published files, by their sha256")
    if unknown:
        tell(f"{', '.join(unknown)}: no published sha256 is known; compared with what {endpoint} announces")
    return found


def _all_announced(origin: Source, files: list[str], model: Published) -> dict[str, Any]:
    """{file: what the server tells of it}. Raises InputError as `_announced` and `_refuse_pickle` do."""
    announced = {}
    for file in files:
        try:
            announced[file] = _announced(origin, file, model.sha256.get(file))
        except AbsentError:
            if file in model.maybe:
                continue
            if file == checkpoint.WEIGHTS:
                _refuse_pickle(origin)
            raise
    return announced


def _refuse_pickle(origin: Source) -> None:
    """Raises PickleError where a repository has its weights as a pickle alone, and says how to convert them."""
    try:
        _announced(origin, checkpoint.PICKLE, None)
    except AbsentError:
        return
    convert = (
        f'from transformers import AutoModelForPreTraining as M; M.from_pretrained("{origin.repository}")'
        '.save_pretrained("FOLDER")'
    )
    what = f"{origin.repository} has its weights only as a pickle, {checkpoint.PICKLE}"
    why = "which may run any program and is never opened here"
    raise PickleError(f"{what}, {why}; transformers writes model.safetensors: {convert}")


def require_secure(address: str) -> None:
    """Raises InputError unless an address is https://, or http:// on this machine."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not local and not (parts.scheme == "https" and parts.hostname):
        raise InputError(f"{address} is no address to download from: give one that begins with https://")


def _require_known(address: str, endpoint: str) -> None:
    """Raises InputError unless an address is secure, and its host one to which this endpoint may send us.

    These are its own host and those below it, and the hosts that keep the content of huggingface.co.
    """
    require_secure(address)
    host = urlsplit(address).hostname or ""
    own = urlsplit(endpoint).hostname or ""
    if host in LOOPBACK and own in LOOPBACK:
        return
    for right in (own, *CONTENT_HOSTS):
        if host == right or host.endswith(f".{right}"):
            return
    expected = f"expected {own}, {', '.join(CONTENT_HOSTS)} or a host below them"
    raise InputError(f"{endpoint} sends us on to the host {host}, which is not known: {expected}")


@contextlib.contextmanager
def _watched(origin: Source) -> Iterator[None]:
    """Inside, every request of the library, a redirected one too, goes to a known host and over https."""
    client = origin.library.utils.get_session()
    hooks = client.event_hooks

    def check(request) -> None:
        _require_known(str(request.url), origin.endpoint)

    client.event_hooks = hooks | {"request": [*hooks["request"], check]}
    try:
        yield
    finally:
        client.event_hooks = hooks


def _announced(origin: Source, file: str, known: str | None) -> Any:
    """What the server tells of a file before it sends it: .etag, .size, and .location, to which it redirects.

    Raises InputError where it does not have the file, announces another checksum or none, or too many bytes, or sends
    us on to http:// or to a host that is not known.
    """
    library = origin.library
    url = library.hf_hub_url(origin.repository, file, revision=origin.revision, endpoint=origin.endpoint)
    try:
        metadata = library.get_hf_file_metadata(url, token=False)
    except Exception as error:  # the library lets errors of its own, of its HTTP client and of the system through
        absent = isinstance(error, library.errors.EntryNotFoundError)
        kind = AbsentError if absent else InputError
        raise kind(f"cannot fetch {url}: {_reason(error)}") from error
    _require_known(metadata.location, origin.endpoint)
    most = LARGEST.get(file, LARGEST_OF_OTHERS)
    if metadata.size is None or metadata.size > most:
        largest = f"it can have {most:,} at most"
        raise InputError(f"{url} announces {metadata.size} bytes, and {largest}: nothing was fetched")
    etag = metadata.etag or ""
    if known and len(etag) == len(known) and etag != known:
        raise InputError(f"{url} has the sha256 {etag}, the published file {known}: nothing was fetched")
    if not known and len(etag) not in (40, 64):
        raise InputError(f"{url}: no published sha256 is known, and the server announces none: nothing was fetched")
    return metadata


def _tell_cost(origin: Source, announced: dict[str, Any]) -> None:
    """Say how many bytes will come, and from which hosts."""
    total = sum(metadata.size or 0 for metadata in announced.values())
    hosts = {urlsplit(metadata.location).hostname for metadata in announced.values()}
    commit = next(iter(announced.values())).commit_hash or origin.revision
    pinned = "commit" if commit == origin.revision else "its newest commit, for none is pinned:"
    what = f"{origin.repository}, {pinned} {commit[:12]}"
    tell(f"{what}: {len(announced)} files, {total:,} bytes, from {', '.join(sorted(hosts))}")


def _fetch_file(origin: Source, file: str, folder: Path | None) -> Path:
    """Fetch one file, with a bar. No token is sent: the files are public, and a mirror may be a stranger's."""
    try:
        path = origin.library.hf_hub_download(
            origin.repository,
            file,
            revision=origin.revision,
            local_dir=folder,
            endpoint=origin.endpoint,
            token=False,
        )
    except Exception as error:  # as in _announced
        raise InputError(f"cannot fetch {file} from {origin.endpoint}: {_reason(error)}") from error
    return Path(path)


def _check(path: Path, expected: str) -> None:
    """Raises InputError, and removes the file, where its checksum is another. A git hash has 40 digits, a sha256 64."""
    found = git_hash(path) if len(expected) == 40 else sha256(path)
    if found == expected:
        return
    stored = path.resolve()  # in the cache of huggingface_hub `path` is a link
    path.unlink()
    stored.unlink(missing_ok=True)
    raise InputError(f"{path.name} came with the checksum {found}, the published file has {expected}: it was removed")


def git_hash(path: Path) -> str:
    """The name that git gives to a file's content, in hexadecimal: a SHA-1. The hub announces it for small files."""
    header = f"blob {path.stat().st_size}\0"
    return hashed(path, hashlib.sha1(header.encode(), usedforsecurity=False))


def _reason(error: Exception) -> str:
    """An error of the library in one line."""
    return " ".join(str(error).split()) or type(error).__name__
