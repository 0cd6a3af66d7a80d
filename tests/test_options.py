"""The options of the jobs on the command line: what help shows is what acts, and every option can be given."""

import argparse
import dataclasses
import functools
import inspect
import re
import shlex
import subprocess
import sys

import pytest

from minigpt.cli import arguments, main
from minigpt.cli.commands import COMMANDS, OVERVIEW, Command
from minigpt.cli.main import parser
from minigpt.cli.spelling import check_spelling
from minigpt.jobs.evaluate import TASKS, EvaluateOptions
from minigpt.jobs.option_fields import REQUIRED, argument, option
from minigpt.jobs.pretrain import PretrainOptions, prepare

EVERYWHERE = {"help", "threads", "processes"}  # belong to the process, not to a job
NOT_ON_THE_COMMAND_LINE: set[tuple[str, str]] = set()  # (command, field)


def all_commands() -> dict[str, Command]:
    """{"tokenizer train": its Command, ...}"""
    found = {}
    for entry in COMMANDS:
        if isinstance(entry, Command):
            found[entry.name] = entry
        else:
            found |= {f"{entry.name} {action.name}": action for action in entry.actions}
    return found


CALLS = all_commands()
every_command = pytest.mark.parametrize("name", CALLS)


@functools.cache
def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one command, from the parser of all."""
    found = parser()
    for word in name.split():
        groups = [action for action in found._actions if isinstance(action, argparse._SubParsersAction)]
        found = groups[0].choices[word]
    return found


def actions_of(name: str) -> dict[str, argparse.Action]:
    """{field: what argparse knows of it}"""
    return {action.dest: action for action in parser_of(name)._actions if action.dest not in EVERYWHERE}


def words_for(action: argparse.Action) -> list[str]:
    """Words that give an option a value which is not its default."""
    words = action.option_strings[:1]
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        return words
    if action.choices:
        return [*words, list(action.choices)[-1]]
    if action.type in arguments.NUMBERS.values():
        return [*words, "7"]
    return [*words, "text=seven"]


def words_that_must_be(actions: dict[str, argparse.Action], but: str = "") -> list[str]:
    """The shortest command line that argparse takes, without the option `but`."""
    words = []
    for field, action in actions.items():
        if field != but and action.required and action.nargs not in ("?", "*"):
            words += words_for(action)
    return words


def options_from(name: str, words: list[str]):
    """The options with which a command starts its job."""
    line = [*name.split(), *words]
    return arguments.read(CALLS[name].options(), parser(line).parse_args(line))


def shown_default(action: argparse.Action) -> str | None:
    """The default that help shows, as it stands there."""
    found = re.search(r"(?:^|\()default: (.*?)\)?$", action.help or "")
    return found and found.group(1)


@every_command
def test_the_default_in_help_is_the_one_that_acts(name):
    actions = actions_of(name)
    options = options_from(name, words_that_must_be(actions))
    for field in dataclasses.fields(options):
        action, acting = actions[field.name], getattr(options, field.name)
        assert action.default is argparse.SUPPRESS, "argparse has a default of its own"
        if action.required and action.nargs is None:
            assert shown_default(action) is None
        elif acting is False:
            assert action.nargs == 0 and shown_default(action) is None
        elif acting is not None:
            assert type(acting)(shown_default(action)) == acting, field.name


@every_command
def test_every_default_that_depends_on_others_is_put_into_words_or_is_nothing(name):
    """An option without a default, and without words about one, does nothing unless it is given."""
    undecided = {field for field in actions_of(name) if options_field(name, field).default is None}
    actions = actions_of(name)
    silent = {field for field in undecided if "default" not in actions[field].help}
    assert silent <= {
        "init", "checkpoint_blocks", "top_k", "top_p", "test", "columns", "layout", "answers", "out",
        "limit", "json_file",
        "source", "folder", "task", "file", "suite", "data", "judge", "teacher", "vocabulary", "system",
    }  # fmt: skip


def options_field(name: str, field: str) -> dataclasses.Field:
    return {one.name: one for one in dataclasses.fields(CALLS[name].options())}[field]


@every_command
def test_every_field_is_on_the_command_line_and_nothing_else(name):
    fields = {field.name for field in dataclasses.fields(CALLS[name].options())}
    hidden = {field for call, field in NOT_ON_THE_COMMAND_LINE if call == name}
    assert set(actions_of(name)) == fields - hidden


@every_command
def test_every_option_that_is_given_arrives(name):
    actions = actions_of(name)
    for field, action in actions.items():
        if not action.option_strings:
            continue
        options = options_from(name, [*words_for(action), *words_that_must_be(actions, but=field)])
        arrived = getattr(options, field)
        assert arrived not in (None, options_field(name, field).default), field
        for kind, reading in arguments.NUMBERS.items():
            if action.type is reading:
                assert arrived == 7 and type(arrived) is kind


@every_command
def test_every_argument_without_a_name_arrives_in_its_place(name):
    actions = actions_of(name)
    named = {field: action for field, action in actions.items() if action.option_strings}
    places = [action for action in actions.values() if not action.option_strings]
    values = [list(action.choices)[-1] if action.choices else f"place-{i}" for i, action in enumerate(places)]
    options = options_from(name, [*words_that_must_be(named), *values])
    for action, value in zip(places, values, strict=True):
        assert getattr(options, action.dest) in (value, [value])


@every_command
def test_every_option_has_help(name):
    assert [field for field, action in actions_of(name).items() if not action.help] == []


def test_help_shows_numbers_as_people_write_them():
    @dataclasses.dataclass(kw_only=True)
    class Known:
        must: str = option(REQUIRED, "100 % needed")
        rate: float = option(1.0, "how fast", metavar="R")
        share: float = option(0.002)
        word: str = option("one", "which", choices=("one", "two"))
        flag: bool = option(False, "really")
        yes: bool | None = option(None, "or no")
        place: int | None = argument("where", default=None)

    known = argparse.ArgumentParser()
    arguments.add_options(known, Known)
    text = " ".join(known.format_help().split())
    for words in ("100 % needed", "how fast (default: 1)", "default: 0.002", "which (default: one)", "--yes, --no-yes"):
        assert words in text
    assert "really (default" not in text
    given = arguments.read(Known, known.parse_args(["3", "--must", "x", "--no-yes"]))
    assert given == Known(must="x", place=3, yes=False)


def test_what_help_says_of_defaults_that_depend_on_others(tmp_path):
    """Of `minigpt train`: the numbers in the words are those of a run in which nothing else is given."""
    text = tmp_path / "words.txt"
    text.write_text("the cat sat on the mat. a dog saw the cat.\n" * 120, encoding="utf-8")
    found = prepare(PretrainOptions(data=str(text), out=str(tmp_path / "out"), device="cpu", steps=250)).options
    shown = {field: shown_default(action) for field, action in actions_of("train").items()}
    assert shown["model"] == f"{found.model}, or what --init names"
    assert shown["lr"] == f"{found.lr * found.embd:g} / width, half of it below 250 steps"
    assert shown["eval_every"].startswith(f"1/{250 // found.eval_every} of the steps;")
    assert shown["warmup"] == (
        "a tenth of the steps, at most 2000; of a GPT-1 or a BERT a fifth up to 200; none below 250 steps"
    )
    assert found.warmup == 50 and found.min_lr is None
    short = prepare(PretrainOptions(data=str(text), out=str(tmp_path / "out"), device="cpu", steps=249)).options
    assert short.lr == found.lr / 2 and short.warmup == 0 and 0 < short.min_lr < short.lr
    longest = prepare(PretrainOptions(data=str(text), out=str(tmp_path / "out"), device="cpu", steps=30_000)).options
    assert longest.warmup == 2000
    assert shown["dropout"] == "0.1 for the size paper, otherwise 0" and found.dropout == 0
    nano = PretrainOptions(data=str(text), out=str(tmp_path / "out"), device="cpu", size=shown["size"])
    assert prepare(nano).options.embd == found.embd


def test_a_task_has_the_same_defaults_in_the_library_as_on_the_command_line():
    for evaluation in TASKS.values():
        for parameter in inspect.signature(evaluation.run).parameters.values():
            if parameter.default is not parameter.empty:
                assert parameter.default == getattr(EvaluateOptions, parameter.name), parameter


def test_help_of_all_commands_imports_no_numpy():
    code = "import sys; from minigpt.cli.main import parser; parser([]); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr


@every_command
def test_help_of_each_command_can_be_shown(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([*name.split(), "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: minigpt {name} ")


def test_a_word_that_is_also_a_command_is_only_a_word(tmp_path, capsys):
    assert main(["sample", str(tmp_path / "none"), "--prompt", "train"]) == 2
    assert "none" in capsys.readouterr().err


@every_command
def test_the_examples_of_a_command_are_lines_that_it_reads(name):
    examples = CALLS[name].examples
    assert examples and len(set(examples)) == len(examples)
    for example in examples:
        words = shlex.split(example)
        assert " ".join(words).startswith(name)
        check_spelling(words)
        arguments.read(CALLS[name].options(), parser(words).parse_args(words))


def test_the_examples_of_the_overview_are_lines_that_can_be_read():
    for example in OVERVIEW:
        words = shlex.split(example)
        check_spelling(words)
        parser(words).parse_args(words)


def test_an_example_is_a_line_of_help(capsys):
    for name, command in CALLS.items():
        shown = parser_of(name).format_help()
        assert [example for example in command.examples if f"\n  minigpt {example}\n" not in shown] == []
