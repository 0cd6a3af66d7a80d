"""Published models: found where they lie already, or downloaded by huggingface_hub and compared with known checksums.

A model has two possible places: the cache of huggingface_hub, which it shares with transformers and every other program
(HF_HOME and HF_HUB_CACHE move it), or a folder of its own with files that were placed by hand. Every download is pinned
to one commit of the publisher's repository. huggingface_hub is the extra `hub`; it is imported when it is first needed.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from minigpt.errors import InputError, check_folder
from minigpt.files import checkpoint, openai_release
from minigpt.files.disk import typed

HOST = "https://huggingface.co"
OWNER = "openai-community"
FILES = (checkpoint.CONFIG, "vocab.json", "merges.txt", checkpoint.WEIGHTS)
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # the only hosts to which http:// is accepted
CHUNK = 1 << 20  # bytes that are hashed at a time
CONTENT_HOSTS = ("huggingface.co", "hf.co")  # with all below them: where huggingface.co and its mirrors send one to
LARGEST = {  # bytes that a file can have at most: the weights of gpt2-xl are 6.4 GB
    checkpoint.CONFIG: 1 << 20,
    "vocab.json": 1 << 24,
    "merges.txt": 1 << 24,
    checkpoint.WEIGHTS: 8 << 30,
}


class Published(NamedTuple):
    """A model on huggingface.co: its repository, the commit to take, and the sha256 of each file where it is known."""

    repository: str  # below OWNER; before 2024 it had this name alone, and caches still use it
    commit: str
    sha256: dict[str, str]


_GPT2_TOKENIZER = {  # the four sizes share it; these are also the sums of OpenAI's encoder.json and vocab.bpe
    "vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}

PUBLISHED = {
    "gpt1": Published("openai-gpt", "1e0d4f3028acbffb47fe933cea64619c5ec1a002", {}),
    "gpt2": Published("gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e", _GPT2_TOKENIZER | {
        "config.json": "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4",
        "model.safetensors": "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
    }),
    "gpt2-medium": Published("gpt2-medium", "6dcaa7a952f72f9298047fd5137cd6e4f05f41da", _GPT2_TOKENIZER | {
        "config.json": "ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22",
        "model.safetensors": "fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd",
    }),
    "gpt2-large": Published("gpt2-large", "32b71b12589c2f8d625668d2335a01cac3249519", _GPT2_TOKENIZER | {
        "config.json": "7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170",
        "model.safetensors": "5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce",
    }),
    "gpt2-xl": Published("gpt2-xl", "15ea56dee5df4983c59b2538573817e1667135e2", _GPT2_TOKENIZER | {
        "config.json": "be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a",
        "model.safetensors": "0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a",
    }),
}  # fmt: skip


# --- where a model lies ----------------------------------------------------------------------------------------------


def home(name: str) -> Path:
    """The folder for files placed by hand: MINIGPT_CACHE/NAME, or ~/.cache/minigpt/NAME where that is not set."""
    return Path(os.environ.get("MINIGPT_CACHE") or Path.home() / ".cache" / "minigpt") / name


def find(folder: str | Path) -> Path:
    """A model's folder: the one given; where there is none, and it is the name of a published model, that one's.

    Raises InputError for a published model that is not on this machine.
    """
    check_folder(folder)
    name = str(folder)
    if Path(folder).is_dir() or name not in PUBLISHED:
        return Path(folder)
    found = locate(name)
    if found is None:
        raise InputError(f"{name} is neither a folder here nor downloaded to {home(name)} or to the cache of "
                         f"huggingface_hub: minigpt download {name}")  # fmt: skip
    return found


def locate(name: str) -> Path | None:
    """The folder of a published model on this machine, or None.

    Files placed by hand come first, then a whole copy of the known commit in the cache of huggingface_hub.
    """
    if _placed_by_hand(name):
        return home(name)
    repository = _repository(PUBLISHED[name])
    cached = [_in_cache(repository, PUBLISHED[name].commit, file) for file in FILES]
    return cached[0].parent if all(cached) else None


def _placed_by_hand(name: str) -> bool:
    """Whether the folder for files placed by hand holds weights in one of the forms that can be opened."""
    weights = (checkpoint.WEIGHTS, checkpoint.INDEX, openai_release.SHAPES)
    return any((home(name) / file).is_file() for file in weights)


def _repository(model: Published) -> str:
    """The name under which the cache of huggingface_hub has this repository; where it has none, the present name.

    Each program files a repository under the name that it used itself, so both names of it may occur.
    """
    present = f"{OWNER}/{model.repository}"
    for revision in (model.commit, "main"):
        for name in (present, model.repository):
            if _in_cache(name, revision, checkpoint.WEIGHTS):
                return name
    return present


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
    """Where files come from: the library, the address of the hub or of a mirror, the repository and its commit."""

    library: Any
    endpoint: str
    repository: str
    commit: str


def download(name: str, out: str | Path | None = None, source: str | None = None) -> Path:
    """Fetch what is missing of a published model, and compare every file with its checksum; returns the folder.

    out: the folder to put the files into. Without it they go to MINIGPT_CACHE/NAME where that variable is set or files
    were placed by hand before, and else into the cache of huggingface_hub.
    source: the address of a mirror of huggingface.co, in place of it (or of HF_ENDPOINT).

    What is there already is not fetched again, and nothing is overwritten. What happens is told on standard error.
    Raises InputError where huggingface_hub is missing, where a file cannot be had, or is not the published one.
    """
    if name not in PUBLISHED:
        raise InputError(f"unknown model {name!r}: choose {', '.join(PUBLISHED)}")
    model = PUBLISHED[name]
    folder = _destination(name, out)
    paths = _present(model, folder)
    missing = [file for file in FILES if file not in paths]
    if missing:
        try:
            paths |= _fetch(model, missing, folder, source)
        except InputError as error:
            raise InputError(f"{error}; or place the files by hand: {_by_hand(name, folder)}") from error
    _tell(f'now: minigpt sample {typed(out or name)} --prompt "The old man"')
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
    for file in FILES:
        path = folder / file if folder else _in_cache(repository, model.commit, file)
        if path is None or not path.exists():
            continue
        known = model.sha256.get(file)
        if known and sha256(path) != known:
            raise InputError(f"{path} is there, and it is another file than the published one (sha256 {known}): "
                             "move it away, or give another --out")  # fmt: skip
        _tell(f"{path} is there already: {'the published file' if known else 'no published sha256 is known'}")
        found[file] = path
    return found


def _by_hand(name: str, folder: Path | None) -> str:
    """How to do without a download, in words."""
    model = PUBLISHED[name]
    files = [f"{file} (sha256 {model.sha256.get(file, 'not known')})" for file in FILES]
    address = f"{HOST}/{OWNER}/{model.repository}/resolve/{model.commit}"
    return f"{', '.join(files)} from {address}/ into {folder or home(name)}"


def _fetch(model: Published, files: list[str], folder: Path | None, source: str | None) -> dict[str, Path]:
    """Fetch files into a folder, or into the cache of huggingface_hub; returns {file: its path}. Raises InputError."""
    library = _library()
    if library is None:
        raise InputError("downloads need the library huggingface_hub: pip install huggingface_hub")
    endpoint = (source or library.constants.ENDPOINT).rstrip("/")
    _require_secure(endpoint)
    origin = Source(library, endpoint, _repository(model), model.commit)
    found = {}
    with _watched(origin):
        announced = {file: _announced(origin, file, model.sha256.get(file)) for file in files}
        _tell_cost(origin, announced)
        for file in files:
            found[file] = _fetch_file(origin, file, folder)
            _check(found[file], model.sha256.get(file) or announced[file].etag)
    known = [file for file in files if file in model.sha256]
    unknown = [file for file in files if file not in model.sha256]
    if known:
        _tell(f"{', '.join(known)}: the published files, by their sha256")
    if unknown:
        _tell(f"{', '.join(unknown)}: no published sha256 is known; compared with what {endpoint} announces")
    return found


def _require_secure(address: str) -> None:
    """Raises InputError unless an address is https://, or http:// on this machine."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not local and not (parts.scheme == "https" and parts.hostname):
        raise InputError(f"{address} is no address to download from: give one that begins with https://")


def _require_known(address: str, endpoint: str) -> None:
    """Raises InputError unless an address is secure, and its host one to which this endpoint may send us.

    These are its own host and those below it, and the hosts that keep the content of huggingface.co.
    """
    _require_secure(address)
    host = urlsplit(address).hostname or ""
    own = urlsplit(endpoint).hostname or ""
    if host in LOOPBACK and own in LOOPBACK:
        return
    for known in (own, *CONTENT_HOSTS):
        if host == known or host.endswith(f".{known}"):
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
    url = library.hf_hub_url(origin.repository, file, revision=origin.commit, endpoint=origin.endpoint)
    try:
        metadata = library.get_hf_file_metadata(url, token=False)
    except Exception as error:  # the library lets errors of its own, of its HTTP client and of the system through
        raise InputError(f"cannot fetch {url}: {_reason(error)}") from error
    _require_known(metadata.location, origin.endpoint)
    if metadata.size is None or metadata.size > LARGEST[file]:
        largest = f"it can have {LARGEST[file]:,} at most"
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
    what = f"{origin.repository}, commit {origin.commit[:12]}"
    _tell(f"{what}: {len(announced)} files, {total:,} bytes, from {', '.join(sorted(hosts))}")


def _fetch_file(origin: Source, file: str, folder: Path | None) -> Path:
    """Fetch one file, with a bar. No token is sent: the files are public, and a mirror may be a stranger's."""
    try:
        path = origin.library.hf_hub_download(
            origin.repository,
            file,
            revision=origin.commit,
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


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    return _hashed(path, hashlib.sha256())


def git_hash(path: Path) -> str:
    """The name that git gives to a file's content, in hexadecimal: a SHA-1. The hub announces it for small files."""
    header = f"blob {path.stat().st_size}\0"
    return _hashed(path, hashlib.sha1(header.encode(), usedforsecurity=False))


def _hashed(path: Path, digest: Any) -> str:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    """An error of the library in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _tell(line: str) -> None:
    """Print for the reader; standard output is left to the folder, which a script may want."""
    print(line, file=sys.stderr)
