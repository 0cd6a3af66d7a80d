"""More seeds than a lesson has time for: experiments of lessons 03, 25 and 26, with the lessons' own functions.

    python benchmarks/controls.py           # 5 minutes on one core; goes on where it was stopped
    python benchmarks/controls.py --quick   # one row, no file

03: twenty trainings; which share of new stories, and of questions for tom's milk, is answered right? 25: twelve models
with fresh weights learn the sense of a bank from 32 texts; which share of 400 texts with new clues is right? 26: four
recipes of covering, four seeds each. What does the head predict where no word is masked? The columns are those of
lesson 26, section 7: all words, the place, and wrong colours.
"""

import argparse
import itertools

import machine
import numpy as np
from from_lesson import names_of

from minigpt.device.threads import set_threads

NAME = "controls"


def readers():
    """Yields (name of a row, a function without arguments that measures it) of lesson 03."""
    lesson = names_of("03", (1, 2, 3, 4, 5, 6), without=("raw_rows", "looks"))
    for seed in range(20):

        def measured(seed=seed):
            ordinary, toms_milk, _ = lesson["exam"](lesson["train"](seed)[0])
            return {"new stories": float(ordinary), "tom's milk": float(toms_milk)}

        yield f"03, seed {seed}", measured


def fresh_models():
    """As `readers`, of lesson 25."""
    lesson = names_of("25", (1, 3, 4, 6), without=("tuned = ", "products", "CONTROLS"))
    fresh, task = lesson["ELMo"], lesson["sense_task"]
    for seed in range(1, 13):

        def measured(seed=seed):
            labelled = task(32, np.random.default_rng([16, seed]), (0, 4))
            test = task(400, np.random.default_rng([17, seed]), (4, 8))
            model = fresh(lesson["ELMoConfig"](**lesson["SIZES"]), seed=seed + 10)
            return {"right": float(lesson["learn"](model, lesson["Reader"](seed), labelled, test, seed, False, 2e-3))}

        yield f"25, fresh weights, seed {seed}", measured


def recipes():
    """As `readers`, of lesson 26."""
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
    for name, measured in itertools.chain(readers(), fresh_models(), recipes()):
        if name in machine.recorded(NAME) and not options.quick:
            continue
        found = measured()
        print(f"{name}: {found}", flush=True)
        machine.save(NAME, {name: found}, 1, options.quick)
        if options.quick:
            return


if __name__ == "__main__":
    main()
