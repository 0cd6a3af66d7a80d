"""In which layer may attention be a band, where a model has to read its examples? The texts of lesson 38, three seeds.

    python benchmarks/banded.py            # about 3 minutes on one core
    python benchmarks/banded.py --quick    # 50 updates of one run each, no file

A text draws a mapping from 8 symbols to 2 labels and shows 16 pairs. A row is one training of 1,000 updates:

    after 15              the accuracy after 15 examples, on 1,000 new texts
    near, far             the accuracy where the last equal symbol is 1 or 2 pairs back, or more than 4
    wrong labels          the accuracy after 15 examples that have the other label each
    after 15, by update   the accuracy after 15 examples, after every 100 updates
"""

import argparse

import machine
import numpy as np
from from_lesson import names_of

from minigpt.device.threads import set_threads

SECTIONS = (1, 2, 4, 5)
LEFT_OUT = ("knowing", "RIGHT_SHOWN", "recorded(")  # cells: the runs of the lesson itself
BANDS = {
    "dense, dense": (None, None),
    "band, dense": (4, None),
    "dense, band": (None, 4),
    "band, band": (4, 4),
}
FOUR = {"dense, band, dense, band": (None, 4, None, 4)}  # with the first seed alone
SEEDS, UPDATES, EVERY = 3, 1000, 100
COLUMNS = ("after 15", "near", "far", "wrong labels")


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="50 updates of one run each, no file")
    options = parser.parse_args()
    set_threads(1)
    lesson = names_of("38", SECTIONS, without=LEFT_OUT)
    new_texts = lesson["mappings"](np.random.default_rng(999), 1000)
    updates, every = (50, 25) if options.quick else (UPDATES, EVERY)
    for seed in range(1 if options.quick else SEEDS):
        for name, bands in (BANDS if seed else BANDS | FOUR).items():
            by_update = []

            def look(model, done, by_update=by_update):
                if done % every == 0:
                    by_update.append(float(lesson["labels_right"](model, new_texts[:500])[:, -1].mean()))

            model = lesson["train_pairs"](bands, seed, updates, look)
            row = {column: round(float(value), 4) for column, value in lesson["row_of"](model, new_texts).items()}
            row["after 15, by update"] = by_update
            print(machine.table({f"{name}, seed {seed}": row}, COLUMNS), flush=True)
            machine.save("banded", {f"{name}, seed {seed}": row}, 1, options.quick)


if __name__ == "__main__":
    main()
