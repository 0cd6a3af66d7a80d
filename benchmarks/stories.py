"""How many stories of the reference model have no fault? Judged by the strict reader of the story world.

    python benchmarks/stories.py                     # 100 stories at two temperatures, two minutes

The stories are the first that come: seed 0, from the token that begins a story to the one that ends it. The reader
(`minigpt.data.stories.reader`) finds no fault in what the story world itself tells. Written to `results/stories.json`.
"""

import argparse
import collections

import machine
import numpy as np

from minigpt import models
from minigpt.data.stories import reader
from minigpt.evaluation.metrics import wilson
from minigpt.learn import reference

N = 100
SHOWN = 10
KINDS = {  # the first words of a fault, or words within it -> its kind
    "it stops": "does not end",
    "the story has no end": "does not end",
    "no sentence": "no sentence of this world",
    "it is not clear": "unclear who or what is meant",
}
OTHER = "contradicts what was told"


def tell(n: int, temperature: float, folder: str | None) -> list[str]:
    """The first n stories of the model, with seed 0."""
    model, text = models.open_both(folder or reference.folder())
    start = np.full((n, 1), text.start_id)
    ids = model.generate(start, model.config.n_positions - 1, temperature=temperature, stop=text.start_id, seed=0)
    told = []
    for row in ids:
        tokens = row[1:].tolist()
        end = tokens.index(text.start_id) if text.start_id in tokens else len(tokens)
        told.append(text.decode(tokens[:end]).strip())
    return told


def kind_of(fault: str) -> str:
    """One of KINDS."""
    for beginning, kind in KINDS.items():
        if fault.startswith(beginning):
            return kind
    return OTHER


def judge(told: list[str]) -> dict:
    """The share without a fault, its 95 % interval, and what is wrong with the others: their first faults, by kind."""
    found = [reader.faults(text) for text in told]
    n_right = sum(not faults for faults in found)
    low, high = wilson(n_right, len(told))
    kinds = collections.Counter(kind_of(faults[0]) for faults in found if faults)
    shown = [{"text": text, "faults": faults} for text, faults in zip(told, found, strict=True)][:SHOWN]
    return {"stories": len(told), "without fault": n_right, "low": low, "high": high, "kinds": kinds, "first": shown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--model", help="the folder of another model")
    options = parser.parse_args()
    rows = {}
    for temperature in (1.0, 0.8):
        row = judge(tell(options.n, temperature, options.model))
        rows[f"temperature {temperature}"] = row
        share = f"{row['without fault']} of {row['stories']} without a fault"
        print(f"temperature {temperature}: {share}; else {dict(row['kinds'])}")
    for one in rows["temperature 1.0"]["first"]:
        print(f"\n{one['text']}")
        for fault in one["faults"]:
            print(f"    {fault}")
    machine.save("stories", rows, 1, quick=options.model is not None or options.n != N)


if __name__ == "__main__":
    main()
