"""Print stories of the story world, with what happens in them, or examples of its tasks."""

from dataclasses import dataclass

from minigpt.data.stories import VARIETY, story, tasks
from minigpt.errors import InputError
from minigpt.jobs.option_fields import option


@dataclass(kw_only=True)
class StoriesOptions:
    """What `minigpt stories` can be told."""

    n: int = option(5, "how many", metavar="N")
    seed: int = option(0, "of the world", metavar="S")
    first: int = option(0, "index of the first story", metavar="I")
    variety: int = option(VARIETY, f"1 to {VARIETY}, how varied", metavar="V")
    events: bool = option(False, "show under each sentence what it tells")
    task: str | None = option(None, "print labelled examples of it, not stories", choices=tasks.TASKS)
    split: str = option("train", "of a task", choices=("train", "valid", "test"))


def show(options: StoriesOptions) -> None:
    """Print stories, or labelled examples if a task is given. Raises InputError for n below 1."""
    if options.n < 1:
        raise InputError(f"--n {options.n}: give 1 or more")
    if options.task is None:
        _show_stories(options)
    else:
        _show_examples(options)


def _show_stories(options: StoriesOptions) -> None:
    """Print the stories first, first + 1, ... of a seed; with events, under each sentence what it tells."""
    for i in range(options.first, options.first + options.n):
        told = story(i, options.seed, options.variety)
        if not options.events:
            print(told.text, end="\n\n")
            continue
        for sentence in told.sentences:
            events = "; ".join(map(str, sentence.events))
            print(f"{sentence.text}\n    {events}")
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
