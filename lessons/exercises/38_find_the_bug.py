"""Exercise 38: find the bug (lesson 38). More examples, better answers, for a model that learns nothing.

For each question the author draws new examples, from the file of the questions. The test is tried with a model that
cannot learn any task: it looks for a line that begins with the same thing and repeats its end, and where there is none
it says "red". Its accuracy rises with the number of examples. Mend `examples_for`; run this file again.

Judge it:  python lessons/exercises/38_find_the_bug.py
"""

import numpy as np


def examples_for(records, number, shots, seed):
    """`shots` different records (thing, value), drawn for the question of record `number`"""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(records), size=shots, replace=False)
    return [records[i] for i in drawn]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------

VALUES = ("red", "blue", "green", "black")


def repeats(examples, thing):
    """The model that learns nothing."""
    for shown, value in examples:
        if shown == thing:
            return value
    return "red"


def file_of(n, rng):
    """Records as files have them: some stand there twice."""
    records = [(f"thing {i}", str(rng.choice(VALUES))) for i in range(n)]
    return records + records[: n // 4]


def main() -> int:
    """Judge `examples_for`; the exit status."""
    records = file_of(40, np.random.default_rng(0))
    accuracies = []
    lost = set()
    for shots in (0, 4, 16, 24):
        found = []
        used = set()
        for number, (thing, value) in enumerate(records):
            examples = examples_for(records, number, shots, [shots, number])
            if len(examples) != shots or any(one not in records for one in examples):
                print(f"{shots} examples are wanted, all of the file: {len(examples)} came")
                return 1
            used.update(shown for shown, _ in examples)
            found.append(repeats(examples, thing) == value)
        accuracies.append(np.mean(found))
        if shots == 24:
            lost = {thing for thing, _ in records} - used
        print(f"{shots:3} examples: {accuracies[-1]:.0%} right")
    if lost:
        print(f"{len(lost)} things of the file are never an example of any question")
        return 1
    mended = len(set(accuracies)) == 1
    print("mended: this model is right as often with examples as without" if mended else "this is not right yet")
    return 0 if mended else 1


if __name__ == "__main__":
    raise SystemExit(main())
