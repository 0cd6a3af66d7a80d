"""A real model learns 200 instructions on a laptop: minutes, memory, what it learned and what it forgot.

    python benchmarks/instruct.py                       # SmolLM2 (minigpt download smollm2), about 15 minutes
    python benchmarks/instruct.py --quick --model DIR   # a look at it: 8 instructions, no file

The instructions are about texts of the story world: does a story end happily, and do two sentences say the same? Both
have an answer of one word. The model is tuned by `minigpt instruct` with its defaults, which keep a tenth of the
instructions apart to choose the best epoch. Before and after:

    answers        of 100 other instructions, whose texts are in none of these: is the right one of the two likelier?
    loss           in nats a token of the right answers
    other text     in nats a token of another text, which `minigpt instruct` measures
    capitals       of 12 countries, asked as in `minigpt chat`: how many it still knows
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

from minigpt import models
from minigpt.data import instructions
from minigpt.data.stories import tasks
from minigpt.device.threads import set_threads
from minigpt.files import hub
from minigpt.jobs import chat_template, conversation
from minigpt.jobs.instruct.examples import Reader, batch, n_targets, template_for
from minigpt.models.answers import answers_forward

ASKED = {  # task -> the instruction, and the answers by label
    "sentiment": ("Does this story end happily or sadly? Answer with one word.", ("Sadly.", "Happily.")),
    "similarity": ("Do these two sentences say the same? Answer yes or no.", ("No.", "Yes.")),
}
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo",
    "Russia": "Moscow", "Greece": "Athens", "Austria": "Vienna", "Portugal": "Lisbon", "Ireland": "Dublin",
    "South Korea": "Seoul",
}  # fmt: skip


def asked(split: str, n: int) -> list[dict]:
    """n instructions, of both tasks in turn, each with its answer and with the wrong one."""
    of_tasks = [[(name, one) for one in tasks.examples(name, n // 2, split)] for name in ASKED]
    records = []
    for pair in zip(*of_tasks, strict=True):
        for name, example in pair:
            instruction, answers = ASKED[name]
            record = {"instruction": instruction, "input": "\n".join(example.texts), "output": answers[example.label]}
            records.append(record | {"wrong": answers[1 - example.label]})
    return records


def write(path: Path, records: list[dict], output: str = "output") -> Path:
    """A file of these instructions, with the right answers or with the wrong ones."""
    lines = []
    for one in records:
        kept = {"instruction": one["instruction"], "input": one["input"], "output": one[output]}
        lines.append(json.dumps(kept) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def known(folder: str, held: Path, wrong: Path, quick: bool) -> dict[str, float]:
    """The share of answers that are likelier than the wrong ones, their loss, and the share of capitals it knows."""
    model, text = models.open_both(folder)
    template = template_for(chat_template.find(folder), text, folder)
    stops = conversation.stops(hub.find(folder), text, template)
    reader = Reader(template, text, stops, model.config.n_positions)
    scores = []
    n_tokens = 0
    for path in (wrong, held):
        found = reader.examples(instructions.read(path), path)
        scores.append([float(answers_forward(model, *batch([one]), grad=False)[0].sum()) for one in found])
        n_tokens = n_targets(found)
    likelier = [right > other for other, right in zip(*scores, strict=True)]
    loss = -sum(scores[1]) / n_tokens
    capitals = []
    for country, capital in list(CAPITALS.items())[: 2 if quick else None]:
        talk = conversation.Conversation(model, text, template, stops, max_tokens=32, temperature=0)
        capitals.append(capital in "".join(talk.answer(f"What is the capital of {country}?")))
    return {"answers": sum(likelier) / len(likelier), "loss": loss, "capitals": sum(capitals) / len(capitals)}


def tune(folder: str, train: Path, out: Path, n_threads: int) -> dict[str, float]:
    """Minutes and gigabytes of a process of `minigpt instruct`."""
    command = [sys.executable, "-m", "minigpt", "instruct", folder, train, "--out", out]
    start = time.perf_counter()
    process = subprocess.Popen([*map(str, command), "--threads", str(n_threads)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("minigpt instruct has failed: see above")
    return {"minutes": (time.perf_counter() - start) / 60, "gigabytes": usage.ru_maxrss * 1024 / 1e9}


def of_other_text(path: Path) -> dict[str, float]:
    """The loss of the other text before, and after the epoch that was kept."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    best = min(rows, key=lambda row: float(row["valid_loss"]))
    return {"before": float(rows[0]["other_loss"]), "after": float(best["other_loss"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="a model directory, or a downloaded model")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="8 instructions, two capitals, no file")
    options = parser.parse_args()
    set_threads(options.threads)
    n_train, n_held = (8, 8) if options.quick else (200, 100)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        train = write(folder / "train.jsonl", asked("train", n_train))
        held = write(folder / "held.jsonl", asked("test", n_held))
        wrong = write(folder / "wrong.jsonl", asked("test", n_held), "wrong")
        rows = {"before": known(options.model, held, wrong, options.quick)}
        cost = tune(options.model, train, folder / "tuned", options.threads)
        rows["after"] = known(str(folder / "tuned"), held, wrong, options.quick) | cost
        for when, loss in of_other_text(folder / "tuned" / "instruct.csv").items():
            rows[when]["other text"] = loss
    print(machine.table(rows, ("answers", "loss", "other text", "capitals", "minutes", "gigabytes")))
    machine.save("instruct", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()
