"""`python -m minigpt.stories --n 5`: print stories, with --events what happens in them; with --task, examples of it."""

import argparse

from minigpt.errors import InputError
from minigpt.stories import VARIETY, story, tasks


def main() -> None:
    """Read the options, print the stories or the examples."""
    parser = argparse.ArgumentParser(prog="python -m minigpt.stories", description="Print stories of the story world.")
    parser.add_argument("--n", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the world (default 0)")
    parser.add_argument("--first", type=int, default=0, help="the index of the first story (default 0)")
    parser.add_argument("--variety", type=int, default=VARIETY, help=f"1 to {VARIETY}: how varied (default {VARIETY})")
    parser.add_argument("--events", action="store_true", help="show under each sentence the events that it tells")
    parser.add_argument("--task", choices=tasks.TASKS, help="print labelled examples of this task, not stories")
    parser.add_argument("--split", choices=dict.fromkeys(tasks.TENTHS), default="train", help="of a task")
    args = parser.parse_args()
    try:
        _print(args)
    except InputError as error:
        parser.error(str(error))


def _print(args) -> None:
    if args.task:
        for example in tasks.examples(args.task, args.n, args.split, args.seed, args.variety):
            answers = example.choices or tasks.TASKS[args.task].labels
            marks = "\n".join(f"  {'*' if i == example.label else ' '} {answer}" for i, answer in enumerate(answers))
            print("\n".join(example.texts), marks, sep="\n", end="\n\n")
        return
    for i in range(args.first, args.first + args.n):
        told = story(i, args.seed, args.variety)
        if args.events:
            print("\n".join(f"{s.text}\n    {'; '.join(map(str, s.events))}" for s in told.sentences), end="\n\n")
        else:
            print(told.text, end="\n\n")


if __name__ == "__main__":
    main()
