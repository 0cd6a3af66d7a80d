"""`minigpt stories`: print stories, with what happens in them, or examples of a task."""

from minigpt.data.stories import VARIETY, story, tasks


def show(n: int, seed: int, first: int, variety: int = VARIETY, events: bool = False) -> None:
    """Print the stories first, first + 1, ... of a seed; events: under each sentence what it tells."""
    for i in range(first, first + n):
        told = story(i, seed, variety)
        if not events:
            print(told.text)
        else:
            for sentence in told.sentences:
                print(sentence.text)
                print("    " + "; ".join(map(str, sentence.events)))
        print()


def show_examples(task: str, n: int, split: str, seed: int, variety: int = VARIETY) -> None:
    """Print labelled examples, the right answer of each with a star. Raises InputError as `tasks.examples` does."""
    for example in tasks.examples(task, n, split, seed, variety):
        for text in example.texts:
            print(text)
        answers = example.choices or tasks.TASKS[task].labels
        for i, answer in enumerate(answers):
            mark = "*" if i == example.label else " "
            print(f"  {mark} {answer}")
        print()
