"""The entry point: the parser of all commands, the errors in one line, and the exit status."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from minigpt import __version__
from minigpt.cli.arguments import add_options, whole_number
from minigpt.cli.commands import COMMANDS, OVERVIEW, Command, Group
from minigpt.cli.spelling import check_spelling
from minigpt.cli.suggestions import for_what_is_missing
from minigpt.device.threads import stay_awake
from minigpt.errors import InputError

WRITING = [entry.name for entry in COMMANDS if isinstance(entry, Command) and entry.writes]


class Parser(argparse.ArgumentParser):
    """Raises InputError for a line that it cannot read, and shows below its help lines that can be typed.

    examples: those lines, without the word `minigpt`.
    """

    def __init__(self, *, examples: Sequence[str] = (), **options):
        lines = "".join(f"  minigpt {example}\n" for example in examples)
        epilog = f"examples:\n{lines}" if examples else None
        super().__init__(epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self.examples = examples

    def error(self, message: str):
        """Raises InputError with what argparse found wrong and an example of the command."""
        example = f", such as minigpt {self.examples[0]}" if "required" in message else ""
        raise InputError(f"{message.removeprefix('argument ')}{example} (see {self.prog} --help)")


def parser(words: Sequence[str] | None = None) -> Parser:
    """The parser of the commands and their options.

    words: the command line that it is for. The options of a command come from its job, whose import takes longer than
    all the rest; so only a command whose name is among the words gets its options. None: every command gets them.
    """
    about = "GPT-1 and GPT-2, every gradient written by hand. `minigpt help COMMAND` tells more of a command."
    top = Parser(prog="minigpt", description=about, examples=OVERVIEW)
    top.add_argument("--version", action="version", version=f"minigpt {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for entry in COMMANDS:
        if isinstance(entry, Command):
            _add_command(commands, entry, words)
        else:
            _add_group(commands, entry, words)
    return top


def _add_group(commands, group: Group, words: Sequence[str] | None) -> None:
    examples = [action.examples[0] for action in group.actions]
    below = commands.add_parser(group.name, help=group.summary, description=group.summary, examples=examples)
    actions = below.add_subparsers(dest="action", required=True, metavar="ACTION")
    for command in group.actions:
        _add_command(actions, command, words)


def _add_command(commands, command: Command, words: Sequence[str] | None) -> None:
    description = command.summary[0].upper() + command.summary[1:] + "."
    below = commands.add_parser(
        command.name, help=command.summary, description=description, examples=command.examples
    )
    below.set_defaults(run=command.run)
    below.add_argument(
        "--threads", type=whole_number, metavar="N", help="threads (default: all cores; one for a small model)"
    )
    if command.shared:
        below.add_argument(
            "--processes", type=whole_number, metavar="N",
            help="processes of this machine that share every batch (default: this one alone)",
        )  # fmt: skip
    if words is None or command.name in words:
        add_options(below, command.options(), words or ())


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status. words: the command line, or None for the one of this process.

    0 done; 1 a check failed; 2 a mistake in what was given; 128 and the number of a signal, where one ended it (130
    Ctrl-C, 143 SIGTERM); 141 the reader of the output has gone.
    """
    if words is None:
        words = sys.argv[1:]
    _prepare_streams()
    words = _help_in_full(words)
    if words[0] in WRITING:
        stay_awake()  # before a job is imported, and NumPy with it
    try:
        check_spelling(words)
        found = parser(words).parse_args(words)
        found.words = words
        return _run(found)
    except InputError as error:
        message = str(error)
        return _report(message + for_what_is_missing(message, words))
    except BrokenPipeError:  # the reader of the output has gone, as in `minigpt info ... | head`
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        return 141
    except MemoryError as error:
        return _report(f"not enough memory: {error or 'give a smaller model, batch or context'}")
    except OSError as error:
        return _report(f"{error.filename or 'a file'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("\nminigpt: interrupted", file=sys.stderr)
        return 130


def _help_in_full(words: Sequence[str]) -> list[str]:
    """The same words; for nothing, for `help` and for `help COMMAND` those that show the help."""
    words = list(words)
    if not words:
        return ["--help"]
    if words[0] != "help":
        return words
    rest = [word for word in words[1:] if word not in ("help", "--help", "-h")]
    return [*rest, "--help"]


def _run(found: argparse.Namespace) -> int:
    """Do what the command line says; returns the exit status."""
    from minigpt.device.gpu import readable_errors
    from minigpt.device.parallel import processes
    from minigpt.device.threads import set_threads

    if processes() > 1 and found.command != "train":
        raise InputError(f"minigpt {found.command} runs as one process: only minigpt train shares its work")
    with readable_errors(), warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # it takes all of them
        if found.threads is not None:
            set_threads(found.threads)
        _say_if_crowded(found)
        status = found.run(found)
        sys.stdout.flush()
    return status or 0


def _say_if_crowded(found: argparse.Namespace) -> None:
    """Warn where more threads were wanted than there are cores; one of several processes leaves that to the first."""
    from minigpt.device import local
    from minigpt.device.parallel import cores

    size = getattr(found, "processes", None) or 1
    wanted = size * (found.threads or 1)
    if wanted > cores() and local.PLACE not in os.environ:
        given = f"--processes {size}" if size > 1 else ""
        given += f" --threads {found.threads}" if found.threads else ""
        warnings.warn(f"{given.strip()} on {cores()} cores: they take turns, which is slower", stacklevel=2)


def _show_warning(message: Warning | str, *place) -> None:
    """Print a warning as one line, without the place in the program that it came from."""
    print(f"minigpt: {message}", file=sys.stderr)


def _report(message: str) -> int:
    """Print what is wrong; returns the exit status of a mistake."""
    print(f"minigpt: {message}", file=sys.stderr)
    return 2


def _prepare_streams() -> None:
    """Make the standard streams take any text: in UTF-8, and to nowhere where the caller has closed them."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        reads = name == "stdin"
        if stream is None:
            setattr(sys, name, open(os.devnull, "r" if reads else "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):  # a Windows console may not know every character
            stream.reconfigure(encoding="utf-8", errors="strict" if reads else "replace")
