"""`minigpt stories`: print stories, with what happens in them, or examples of a task."""

from minigpt.data.stories import VARIETY, story, tasks


def show(n: int, seed: int, first: int, variety: int = VARIETY, events: bool = False) -> None:
    """Print the stories first, first + 1, ... of a seed; events: under each sentence what it tells."""
    for i in range(first, first + n):
        told = story(i, seed, variety)
        if events:
            print("\n".join(f"{s.text}\n    {'; '.join(map(str, s.events))}" for s in told.sentences), end="\n\n")
        else:
            print(told.text, end="\n\n")


def show_examples(task: str, n: int, split: str, seed: int, variety: int = VARIETY) -> None:
    """Print labelled examples, the right answer of each with a star."""
    for example in tasks.examples(task, n, split, seed, variety):
        answers = example.choices or tasks.TASKS[task].labels
        marks = "\n".join(f"  {'*' if i == example.label else ' '} {answer}" for i, answer in enumerate(answers))
        print("\n".join(example.texts), marks, sep="\n", end="\n\n")
