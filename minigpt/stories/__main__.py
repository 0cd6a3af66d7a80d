"""`python -m minigpt.stories --n 5`: print some stories, and with --events what happens in them."""

import argparse

from minigpt.stories import story


def main() -> None:
    """Read the options, print the stories."""
    parser = argparse.ArgumentParser(prog="python -m minigpt.stories", description="Print stories of the story world.")
    parser.add_argument("--n", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the world (default 0)")
    parser.add_argument("--first", type=int, default=0, help="the index of the first (default 0)")
    parser.add_argument("--events", action="store_true", help="show under each sentence the events that it tells")
    args = parser.parse_args()
    for i in range(args.first, args.first + args.n):
        told = story(i, args.seed)
        if args.events:
            print("\n".join(f"{s.text}\n    {'; '.join(map(str, s.events))}" for s in told.sentences), end="\n\n")
        else:
            print(told.text, end="\n\n")


if __name__ == "__main__":
    main()
