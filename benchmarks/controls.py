"""More seeds than a lesson has time for: an experiment of lesson 26, repeated with the lesson's own functions.

    python benchmarks/controls.py           # 3 minutes on one core; goes on where it was stopped
    python benchmarks/controls.py --quick   # one row, no file

26: four recipes of covering, four seeds each. What does the head predict where no word is masked? The columns are those
of lesson 26, section 7: all words, the place, and wrong colours.
"""

import argparse

import machine
from from_lesson import names_of

from minigpt.device.threads import set_threads

NAME = "controls"


def recipes():
    """Yields (name of a row, a function without arguments that measures it) of lesson 26."""
    lesson = names_of("26", (1, 2, 3, 7), without=("seen_by", "bert_losses", "bert_knows", "many = ", "CONTROLS"))
    for seed in (1, 2, 3, 4):
        for name, recipe in lesson["RECIPES"].items():

            def measured(recipe=recipe, seed=seed):
                return {"shares": lesson["at_seen_words"](lesson["trained"](recipe, seed)).tolist()}

            yield f"26, {name}, seed {seed}", measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one row, no file")
    options = parser.parse_args()
    set_threads(1)
    for name, measured in recipes():
        if name in machine.recorded(NAME) and not options.quick:
            continue
        found = measured()
        print(f"{name}: {found}", flush=True)
        machine.save(NAME, {name: found}, 1, options.quick)
        if options.quick:
            return


if __name__ == "__main__":
    main()
