"""The options of a job: fields of a dataclass that also know what the command line shows of them.

    @dataclass(kw_only=True)
    class SampleOptions(OnDevice):
        folder: str = argument("a model directory", metavar="MODEL")
        tokens: int = option(200, "how many to write", metavar="N")

Name, type, default, help and choices of an option stand in this one line: `minigpt.cli.arguments` makes the command
line from it, and adds the default to the help. A default of None depends on other options; then the help describes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field
from typing import Any

REQUIRED = MISSING  # the default of an option that must be given


@dataclass(frozen=True, kw_only=True)
class About:
    """What the command line shows of an option, beside its type and its default.

    help: what it is. metavar: what stands for its value. choices: the values that it can have. flag: its name, where
    that is not the name of the field. short: a second name of one letter, such as "-o". positional: it has no name,
    only a place. parse: a function from the text of the command line to the value; it raises InputError.
    unless: of an argument, the option beside which it may be left out; without that option it must be given.
    """

    help: str
    metavar: str | None = None
    choices: Iterable[str] | None = None
    flag: str | None = None
    short: str | None = None
    positional: bool = False
    parse: Callable[[str], Any] | None = None
    unless: str | None = None


def option(
    default: Any, text: str = "", *, choices: Iterable[str] | None = None, metavar: str | None = None,
    flag: str | None = None, short: str | None = None, parse: Callable[[str], Any] | None = None,
) -> Any:  # fmt: skip
    """A field of a dataclass that is an option, such as `--tokens N`; the parameters are those of `About`.

    default: REQUIRED, None (it depends on other options, and text describes it), or a value, which help shows.
    """
    about = About(help=text, metavar=metavar, choices=choices, flag=flag, short=short, parse=parse)
    return field(default=default, metadata={"about": about})


def argument(
    text: str, *, default: Any = REQUIRED, choices: Iterable[str] | None = None, metavar: str | None = None,
    unless: str | None = None,
) -> Any:  # fmt: skip
    """A field of a dataclass that is an argument without a name, such as `MODEL`; the parameters as for `option`."""
    about = About(help=text, metavar=metavar, choices=choices, positional=True, unless=unless)
    return field(default=default, metadata={"about": about})


@dataclass(kw_only=True)
class OnDevice:
    """The option of every job that computes with a model."""

    device: str | None = option(None, "default: MINIGPT_DEVICE, then auto", choices=("auto", "cpu", "cuda"))
