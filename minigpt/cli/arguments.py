"""From the options of a job, a dataclass (see `minigpt.jobs.option_fields`), to argparse, and back."""

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from minigpt.cli.suggestions import did_you_mean
from minigpt.errors import flag_of


def add_options(parser: argparse.ArgumentParser, kind: type, words: Sequence[str] = ()) -> None:
    """Give a parser an argument for each field of a dataclass of options, in the order of the class.

    The parser sets no default: an option that is not given is left out of the namespace, and the dataclass's own
    default acts. That default is what help shows. words: the command line, in which an option may stand beside which
    an argument may be left out (`About.unless`).
    """
    options_given = [word.partition("=")[0] for word in words]
    for field in dataclasses.fields(kind):
        about = field.metadata["about"]
        details = _details(field)
        if about.unless in options_given:  # then nothing stands in its place, and argparse compares that with choices
            details = {key: details[key] for key in ("help", "default", "metavar", "nargs")}
        elif about.unless is not None:
            del details["nargs"]
        if about.positional:
            parser.add_argument(field.name, **details)
        else:
            parser.add_argument(*flags(field), dest=field.name, **details)


def given(kind: type, found: argparse.Namespace) -> dict[str, Any]:
    """The options of this dataclass that stand on the command line: {field: value}. Raises InputError."""
    values = {}
    for field in dataclasses.fields(kind):
        if not hasattr(found, field.name):
            continue
        value = getattr(found, field.name)
        parse = field.metadata["about"].parse
        values[field.name] = value if parse is None else parse(value)
    return values


def read(kind: type, found: argparse.Namespace) -> Any:
    """The dataclass of options, with what stands on the command line. Raises InputError."""
    return kind(**given(kind, found))


def flag(field: dataclasses.Field) -> str:
    """The name of an option on the command line: `--top-k` for the field top_k."""
    return field.metadata["about"].flag or flag_of(field.name)


def flags(field: dataclasses.Field) -> list[str]:
    """All its names: the long one, and the one of one letter where there is one."""
    short = field.metadata["about"].short
    return [flag(field)] if short is None else [flag(field), short]


def takes_value(field: dataclasses.Field) -> bool:
    """Is the option followed by a value? It is not where its name alone says all, as with --resume."""
    return _plain_type(field.type) is not bool


def _details(field: dataclasses.Field) -> dict[str, Any]:
    """What argparse wants to know of a field, beside its name."""
    about = field.metadata["about"]
    kind = _plain_type(field.type)
    required = field.default is dataclasses.MISSING
    details: dict[str, Any] = {"help": _help(field), "default": argparse.SUPPRESS}
    if about.choices is not None:
        details["choices"] = tuple(about.choices)
        details["type"] = _one_of(details["choices"])
    if about.metavar is not None:
        details["metavar"] = about.metavar
    if kind in NUMBERS:
        details["type"] = NUMBERS[kind]
    if kind is bool:
        details["action"] = "store_true" if field.default is False else argparse.BooleanOptionalAction
    if not about.positional:
        details["required"] = required
        if kind is list:
            details["action"] = "append"
    elif kind is list:
        details["nargs"] = "*"
    elif not required:
        details["nargs"] = "?"
    return details


def whole_number(text: str) -> int:
    """The number that stands on the command line. Raises ArgumentTypeError for what is no whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number: give one, such as 12") from None


def number(text: str) -> float:
    """The number that stands on the command line. Raises ArgumentTypeError for what is no number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number: give one, such as 0.5") from None


NUMBERS = {int: whole_number, float: number}


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A type for argparse that refuses all but these words, and says which of them is like the one that was given."""

    def choose(text: str) -> str:
        if text not in choices:
            like = did_you_mean(text, choices)
            raise argparse.ArgumentTypeError(f"{text!r} is none of its values: choose {', '.join(choices)}{like}")
        return text

    return choose


def _plain_type(annotation: Any) -> Any:
    """The type of a value that is given: int for `int | None`, list for `list[str]`."""
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    return typing.get_origin(annotation) or annotation


def _help(field: dataclasses.Field) -> str:
    """The help of an option, with its default, if that is a value."""
    text = field.metadata["about"].help
    default = field.default
    if default is not dataclasses.MISSING and default is not None and default is not False:
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        text = f"{text} (default: {shown})" if text else f"default: {shown}"
    return text.replace("%", "%%")
