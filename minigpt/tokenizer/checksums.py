"""Checksums of the files of a tokenizer, kept in its `tokenizer_config.json`: what was changed or damaged is noticed.

Files of other programs have none, and are opened without.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import checksum, write_json
from minigpt.tokenizer import settings
from minigpt.tokenizer.settings import CONFIG

CHECKSUMS = "sha256"  # in tokenizer_config.json
SETTINGS = "settings"  # among the checksums: that of the settings that change ids
_CHECKED_SETTINGS = ("add_prefix_space", "text_pipeline")

_ADVICE = f"take it from its source again, or, if it was changed on purpose, remove {CHECKSUMS} from {CONFIG}"


def write_config(folder: Path, config: Mapping[str, Any], lists: Mapping[str, list[str]]) -> None:
    """Write `tokenizer_config.json` with a checksum of each list that is saved beside it, {name of the file: list}.

    It is one of what a file says, not of its bytes: another program may write the same file with other line ends.
    """
    found = {name: checksum(items) for name, items in lists.items()}
    found[SETTINGS] = _checksum_of_settings(config)
    others = {key: value for key, value in config.items() if key != CHECKSUMS}
    # The checksums come first: far from the settings, so that one piece of damage cannot take both.
    write_json(folder / CONFIG, {CHECKSUMS: found} | others)


def verify(path: Path, items: list[str]) -> None:
    """Compare what a file says with the checksum in the `tokenizer_config.json` beside it, where that has one.

    Raises InputError where the file is not what was saved.
    """
    recorded = _recorded(settings.read_config(path.parent), path.with_name(CONFIG))
    if path.name in recorded and recorded[path.name] != checksum(items):
        raise InputError(f"{path} is not what was saved ({CHECKSUMS} differs): {_ADVICE}")


def verify_settings(folder: Path) -> None:
    """The same for the settings in `tokenizer_config.json` that change ids. Raises InputError where they differ."""
    path = folder / CONFIG
    config = settings.read_config(folder)
    checked = _checksum_of_settings(config)
    if _recorded(config, path).get(SETTINGS, checked) != checked:
        names = " and ".join(_CHECKED_SETTINGS)
        raise InputError(f"{path} is not what was saved ({CHECKSUMS} of {names} differs): {_ADVICE}")


def _recorded(config: dict, path: Path) -> dict[str, str]:
    recorded = config.get(CHECKSUMS, {})
    if not isinstance(recorded, dict):
        raise InputError(f"{path}: {CHECKSUMS} is {recorded!r}: expected an object of files and their checksums")
    return recorded


def _checksum_of_settings(config: Mapping[str, Any]) -> str:
    return checksum([str(config.get(name)) for name in _CHECKED_SETTINGS])
