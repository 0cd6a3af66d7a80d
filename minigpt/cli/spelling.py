"""Commands and options that do not exist, found before argparse reads the line, so that the message can help."""

import dataclasses
import re
from collections.abc import Sequence

from minigpt.cli.arguments import flags, takes_value
from minigpt.cli.commands import COMMANDS, Command, Group
from minigpt.cli.suggestions import did_you_mean
from minigpt.errors import InputError, flag_of

NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")  # as argparse has it: -1e3 is no number there
EVERYWHERE = {"--help": False, "-h": False, "--threads": True}  # options of every command: do they take a value?


def check_spelling(words: Sequence[str]) -> None:
    """Raises InputError for a word in the place of a command that is none, and for an option that the command lacks."""
    entry = _entry(COMMANDS, words, 0, "minigpt")
    if isinstance(entry, Group):
        action = _entry(entry.actions, words, 1, entry.name)
        if isinstance(action, Command):
            _check_options(f"{entry.name} {action.name}", action, words[2:])
    elif isinstance(entry, Command):
        _check_options(entry.name, entry, words[1:])


def _entry(entries: Sequence[Command | Group], words: Sequence[str], place: int, before: str) -> Command | Group | None:
    """The command that a word names; None where argparse has the answer: no word, --help or --version."""
    if len(words) <= place or words[place] in ("--help", "-h", "--version"):
        return None
    word = words[place]
    for entry in entries:
        if entry.name == word:
            return entry
    names = [entry.name for entry in entries]
    choose = f"choose {', '.join(names)}"
    if word.startswith("-"):
        raise InputError(f"{word} stands where {before} expects a command: {choose}, and then its options")
    raise InputError(f"{before} has no command {word!r}: {choose}{did_you_mean(word, names)}")


def _check_options(name: str, command: Command, words: Sequence[str]) -> None:
    """Raises InputError for an option that this command does not have.

    A shortened one passes, as argparse takes it: --temp for --temperature. All that follows a word `--` is a value.
    """
    known = _options_of(command)
    before = ""
    for word in words:
        if word == "--":
            return
        if not _is_option(word):
            before = ""
            continue
        if known.get(before):
            raise InputError(f"{before} needs a value: where it begins with a dash, write {before}=\"{word}\"")
        given = word.partition("=")[0]
        if not any(one.startswith(given) for one in known):
            advice = _advice(given, known, command)
            raise InputError(f"{name} has no option {given}{advice} (see minigpt {name} --help)")
        before = given if "=" not in word else ""


def _options_of(command: Command) -> dict[str, bool]:
    """{option: does it take a value?}"""
    found = dict(EVERYWHERE)
    if command.shared:
        found["--processes"] = True
    for field in dataclasses.fields(command.options()):
        if field.metadata["about"].positional:
            continue
        for name in flags(field):
            found[name] = takes_value(field)
        if not takes_value(field) and field.default is not False:
            found[flag_of(f"no_{field.name}")] = False
    return found


def _is_option(word: str) -> bool:
    """Does argparse take this word for an option? Not a text with a space in it, not a lone dash, not a number."""
    return word.startswith("-") and word != "-" and " " not in word and not NEGATIVE.fullmatch(word)


def _advice(given: str, known: dict[str, bool], command: Command) -> str:
    """The commands that have this option; else the option that is like it; else how to write it, or all of them."""
    others = [entry for entry in COMMANDS if isinstance(entry, Command) and entry is not command]
    having = [f"minigpt {other.name}" for other in others if given in _options_of(other)]
    if having:
        return f": it belongs to {', '.join(having)}"
    like = did_you_mean(given if given.startswith("--") else f"-{given}", known)
    if like:
        return like
    short, value = given[:2], given[2:]
    if known.get(short):
        return f": where {value!r} is the value of {short}, write {short} {value}"
    return f": it has {', '.join(known)}"
