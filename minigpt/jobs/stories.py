"""Print stories of the story world, with what happens in them, or examples of its tasks."""

import re
from dataclasses import dataclass
from typing import Any

from minigpt.data.stories import LANGUAGES, VARIETY, korean, reader, story, tasks
from minigpt.errors import InputError
from minigpt.files.disk import read_text
from minigpt.jobs.option_fields import option


@dataclass(kw_only=True)
class StoriesOptions:
    """What `minigpt stories` can be told."""

    n: int = option(5, "how many", metavar="N")
    seed: int = option(0, "of the world", metavar="S")
    first: int = option(0, "index of the first story", metavar="I")
    variety: int = option(VARIETY, f"1 to {VARIETY}, how varied", metavar="V")
    language: str = option("english", "of the stories; pairs: sentence by sentence in both", choices=LANGUAGES)
    events: bool = option(False, "show under each sentence what it tells")
    task: str | None = option(None, "print labelled examples of it, not stories", choices=tasks.TASKS)
    judge: str | None = option(
        None, "read the stories in this file, one in each paragraph, and name every fault", metavar="FILE"
    )
    split: str = option("train", "of a task", choices=("train", "valid", "test"))


def show(options: StoriesOptions) -> None:
    """Print stories, labelled examples if a task is given, or the faults of the stories in a file.

    Raises InputError for n below 1, for a file that cannot be read or has no story, and for a language that something
    does not have.
    """
    if options.n < 1:
        raise InputError(f"--n {options.n}: give 1 or more")
    others = {"--judge": options.judge, "--task": options.task, "--events": options.events}
    for name, given in others.items():
        if given and options.language != "english" and (name, options.language) != ("--events", "korean"):
            raise InputError(f"{name} with --language {options.language}: leave one of the two out")
    if options.judge is not None:
        _judge(options.judge)
    elif options.task is None:
        _show_stories(options)
    else:
        _show_examples(options)


def _judge(path: str) -> None:
    """Print the faults of each story in a file, and how many have none."""
    paragraphs = re.split(r"\n\s*\n|<\|endoftext\|>", read_text(path))
    told = [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()]
    if not told:
        raise InputError(f"{path} has no story: give a text with one story in each paragraph")
    n_faultless = 0
    for number, text in enumerate(told, start=1):
        found = reader.faults(text)
        n_faultless += not found
        for fault in found:
            print(f"story {number}: {fault}")
    print(f"{n_faultless} of {len(told)} stories have no fault")


def _show_stories(options: StoriesOptions) -> None:
    """Print the stories first, first + 1, ... of a seed; with events, under each sentence what it tells."""
    for i in range(options.first, options.first + options.n):
        told = story(i, options.seed, options.variety)
        if not options.events:
            print(told.told_in(options.language), end="\n\n")
            continue
        lines: Any = told.sentences if options.language == "english" else korean.lines(told.sentences)
        for sentence, line in zip(told.sentences, lines, strict=True):
            events = "; ".join(map(str, sentence.events))
            print(f"{line.text}\n    {events}")
        print()


def _show_examples(options: StoriesOptions) -> None:
    """Print labelled examples, the right answer of each with a star."""
    labels = tasks.TASKS[options.task].labels
    for example in tasks.examples(options.task, options.n, options.split, options.seed, options.variety):
        for text in example.texts:
            print(text)
        for i, answer in enumerate(example.choices or labels):
            mark = "*" if i == example.label else " "
            print(f"  {mark} {answer}")
        print()
