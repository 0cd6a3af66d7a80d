"""The options of a job: fields of a dataclass that also know what the command line shows of them.

    @dataclass(kw_only=True)
    class SampleOptions(OnDevice):
        folder: str = argument("a model directory", metavar="MODEL")
        tokens: int = option(200, "how many to write", metavar="N")

Name, type, default, help and choices of an option stand in this one line: `minigpt.cli.arguments` makes the command
line from it, and adds the default to the help. A default of None depends on other options; then the help describes it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from minigpt.errors import flag_of

REQUIRED = MISSING  # the default of an option that must be given


@dataclass(frozen=True, kw_only=True)
class About:
    """What the command line shows of an option, beside its type and its default.

    help: what it is. metavar: what stands for its value. choices: the values that it can have. flag: its name, where
    that is not the name of the field. short: a second name of one letter, such as "-o". positional: it has no name,
    only a place. parse: a function from the text of the command line to the value; it raises InputError.
    unless: of an argument, the option beside which it may be left out; without that option it must be given. free: may
    it be told anew to a run that goes on?
    """

    help: str
    metavar: str | None = None
    choices: Iterable[str] | None = None
    flag: str | None = None
    short: str | None = None
    positional: bool = False
    parse: Callable[[str], Any] | None = None
    unless: str | None = None
    free: bool = False


def option(default: Any, text: str = "", **shown: Any) -> Any:
    """A field of a dataclass that is an option, such as `--tokens N`. shown: what else `About` has.

    default: REQUIRED, None (it depends on other options, and text describes it), or a value, which help shows.
    """
    return field(default=default, metadata={"about": About(help=text, **shown)})


def argument(text: str, *, default: Any = REQUIRED, **shown: Any) -> Any:
    """A field of a dataclass that is an argument without a name, such as `MODEL`; the parameters as for `option`."""
    return option(default, text, positional=True, **shown)


def free(options: Any) -> set[str]:
    """The names of the options that may be told anew to a run that goes on."""
    return {one.name for one in fields(options) if one.metadata["about"].free}


def told(options: Any) -> dict[str, Any]:
    """The options of a run as they are kept."""
    return json.loads(json.dumps(asdict(options)))


def option_text(name: str, value: Any) -> str:
    """An option as one writes it: `--batch 12`, `--align`, `no --init`."""
    flag = flag_of(name)
    if value is None or value is False:
        return f"no {flag}"
    return flag if value is True else f"{flag} {value}"


@dataclass(kw_only=True)
class OnDevice:
    """The option of every job that computes with a model."""

    device: str | None = option(
        None, "default: MINIGPT_DEVICE, then auto", choices=("auto", "cpu", "cuda"), free=True
    )
