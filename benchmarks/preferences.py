"""Learning from comparisons without a reward model (DPO), beside REINFORCE, in the small world of lesson 33.

    python benchmarks/preferences.py            # three seeds, about 10 minutes
    python benchmarks/preferences.py --quick    # two seeds, few updates, no file

All begin as the tuned model of the lesson, and make the lesson's 60 updates. The comparisons are the lesson's: of each
question four answers, ranked. REINFORCE is given a reward model that learned from the same
comparisons in 300 updates (the lesson's has 900). DPO is tried with three betas, with smaller steps, and with the loss
of the better answer added to its own.

    in tuning, held out   the share of questions that are answered right, of those in the comparisons and of others
    polite                the share of drawn answers that begin with "sure"
    knows                 of all facts, the share that the model still states outside of a question
    better, worse         by how many nats the mean log-probability of the better and of the worse answers has grown
"""

import argparse
from copy import deepcopy

import machine
import numpy as np
from from_lesson import names_of

from minigpt.device.threads import set_threads

SECTIONS = tuple(range(1, 11))
LEFT_OUT = ("REWARDS", "chosen = {}", "before_it", "recorded(")  # cells: the lesson's own runs
COLUMNS = ("in tuning", "held out", "polite", "knows", "better", "worse")
WAYS = {  # name -> beta, learning rate, weight of the loss of the better answer
    "DPO, beta 0.1": (0.1, 1e-3, 0.0),
    "DPO, beta 1": (1.0, 1e-3, 0.0),
    "DPO, beta 10": (10.0, 1e-3, 0.0),
    "DPO, beta 1, steps of a tenth": (1.0, 1e-4, 0.0),
    "DPO, beta 1, and the better answer's loss": (1.0, 1e-3, 1.0),
}


def measured(lesson: dict, policy, first) -> dict[str, float]:
    """The columns of a row."""
    drawn = lesson["write"](policy, lesson["every"], seed=0)
    rows = lesson["four_answers"](lesson["TUNED"], np.random.default_rng(5))
    ids, targets = lesson["on_responses"](rows)
    gains = lesson["log_p"](policy, ids, targets) - lesson["log_p"](first, ids, targets)
    better, _, worse, _ = gains.reshape(-1, 4).mean(axis=0)
    values = (
        lesson["right"](policy, lesson["TUNED"]),
        lesson["right"](policy, lesson["HELD"]),
        (drawn[:, 9] == lesson["SURE"]).mean(),
        lesson["knows"](policy),
        better,
        worse,
    )
    return dict(zip(COLUMNS, map(float, values), strict=True))


def runs(lesson: dict, seed: int, steps: int):
    """(name, measured) of every way, one after the other."""
    first = lesson["tuned"][seed]
    yield "tuned, where all begin", measured(lesson, first, first)
    reward_model = lesson["train_reward"](first, seed, steps=5 * steps)
    for name, beta in (("REINFORCE, no penalty", 0.0), ("REINFORCE, penalty 1", 1.0)):
        policy = deepcopy(first)
        lesson["reinforce"](policy, lambda s, facts, ids: lesson["score"](reward_model, ids), beta, seed, steps=steps)
        yield name, measured(lesson, policy, first)
    for name, (beta, rate, weight) in WAYS.items():
        policy = deepcopy(first)
        lesson["dpo"](policy, beta, rate, weight, seed, steps)
        yield name, measured(lesson, policy, first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="two seeds, two updates, no file")
    options = parser.parse_args()
    set_threads(1)
    seeds = tuple(range(2 if options.quick else options.seeds))
    lesson = names_of("33", SECTIONS, without=LEFT_OUT, seeds=seeds)
    found: dict[str, list[dict]] = {}
    for seed in seeds:
        for name, row in runs(lesson, seed, 2 if options.quick else 60):
            found.setdefault(name, []).append(row)
            print(machine.table({f"{name}, seed {seed}": row}, COLUMNS), flush=True)
    rows = {}
    for name, of_seeds in found.items():
        rows[name] = {column: [row[column] for row in of_seeds] for column in COLUMNS}
    means = {name: {column: float(np.mean(values)) for column, values in row.items()} for name, row in rows.items()}
    print(machine.table(means, COLUMNS))
    machine.save("preferences", rows, 1, options.quick)


if __name__ == "__main__":
    main()
