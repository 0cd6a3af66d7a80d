"""Do runs of any length learn, with the defaults as they are and as they were? Models x texts x lengths x seeds.

    python benchmarks/defaults.py --korean ratings_train_20k.txt    # about five hours on one core; it can be stopped
    python benchmarks/defaults.py --show                            # the table of what was measured

Each run is `minigpt train` of the size nano with `--model`, `--steps` and `--seed`. "before" are older defaults: the
rate 0.256 / width at every length, a warm-up of a tenth of the steps, new weights from N(0, 0.02) at every width. A run
is written to `results/defaults.json` when it ends, and not measured again.

loss: the best validation loss, that of the model which is kept, the median over seeds; up to 700 updates there is one
evaluation, at the end. ratio: the loss at the end over the unigram entropy, which is the loss of a table of token
frequencies, the highest of the seeds; at 1 nothing but frequencies was learned. told: in how many
runs the warning came; the file has the update at which it did.
"""

import argparse
import contextlib
import io
import json
import statistics
import tempfile
import time
from pathlib import Path

import machine

from minigpt.data.corpus import python_docs
from minigpt.device.threads import set_threads
from minigpt.jobs.pretrain import PretrainOptions, loop, plateau, prepare

CHARACTERS = 400_000  # of the English text
REVIEWS = 8_000  # Korean ones
LENGTHS = (100, 300, 700, 2000)
SEEDS = (0, 1, 2)
TEXTS = {"stories": "bpe:1500", "characters": "char", "English": "bpe:1500", "Korean": "char"}
MODELS = ("gpt1", "gpt2")
WIDTH = 128  # of the size nano
PLANTED = {  # what must stay at the frequencies: seen by the warning
    "planted: the rate four times as high": {"lr": 4 * 0.256 / WIDTH, "warmup": 30, "init_std": 0.02, "steps": 300},
    "planted: no warm-up": {"lr": 2 * 0.256 / WIDTH, "warmup": 0, "init_std": 0.02, "steps": 300},
}


def before(steps: int) -> dict:
    """Older defaults of a run of this length."""
    return {"lr": 0.256 / WIDTH, "warmup": min(2000, steps // 10), "init_std": 0.02}


def runs() -> dict[str, dict]:
    """Name: options of a run; what says most in the least time comes first."""
    found = {}
    for steps in LENGTHS[:-1]:
        for seed in SEEDS:
            for text in TEXTS:
                for model in MODELS:
                    case = {"model": model, "data": text, "steps": steps, "seed": seed}
                    name = f"{model}, {text}, {steps} updates, seed {seed}"
                    found[f"{name}, now"] = case
                    found[f"{name}, before"] = case | before(steps)
    for name, options in PLANTED.items():
        found[name] = {"model": "gpt1", "data": "stories", "seed": 0} | options
    for steps, seed, change in ((200, 0, {}), (200, 0, before(200))):
        name = f"bert, stories, {steps} updates, seed {seed}, {'before' if change else 'now'}"
        found[name] = {"model": "bert", "data": "stories", "steps": steps, "seed": seed} | change
    for seed in SEEDS:
        for text in ("stories", "English"):
            case = {"model": "gpt1", "data": text, "steps": LENGTHS[-1], "seed": seed}
            name = f"gpt1, {text}, {LENGTHS[-1]} updates, seed {seed}"
            found[f"{name}, now"] = case
            found[f"{name}, before"] = case | before(LENGTHS[-1])
    return found


def texts(folder: Path, korean: str | None) -> dict[str, str]:
    """Name: what --data is given. Korean is left out where its file is not named."""
    english = folder / "english.txt"
    english.write_text("\n\n".join(python_docs())[:CHARACTERS], encoding="utf-8")
    found = {"stories": "stories:1000", "characters": str(english), "English": str(english)}
    if korean:
        lines = Path(korean).read_text(encoding="utf-8").splitlines()[1 : REVIEWS + 1]
        reviews = folder / "korean.txt"
        reviews.write_text("\n".join(line.split("\t")[1] for line in lines), encoding="utf-8")
        found["Korean"] = str(reviews)
    return found


def measure(case: dict, data: str, folder: str) -> dict:
    """Train; returns the losses (nats per token), where the warning came, and the seconds."""
    steps = case["steps"]
    options = case | {"data": data, "tokenizer": TEXTS[case["data"]], "out": f"{folder}/run"}
    if steps < LENGTHS[-1]:
        options["eval_every"] = steps
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        job = prepare(PretrainOptions(**options, device="cpu"))
        loop(job)
    seconds = time.perf_counter() - started
    entropy = plateau.unigram_entropy(job.train, job.model.config.vocab_size)
    losses = [round(row["train_loss"], 3) for row in job.run.rows if row["train_loss"] is not None]
    found = [row["val_loss"] for row in job.run.rows if row["val_loss"] is not None]
    return {
        "valid": found[-1],
        "best": min(found),
        "unigram": entropy,
        "ratio": found[-1] / entropy,
        "told": told(losses, entropy, steps),
        "seconds": seconds,
        "losses": " ".join(map(str, losses)),
    }


def told(losses: list[float], entropy: float, steps: int) -> int | None:
    """The update at which the plateau is told in a run with these 100 training losses; None: it is not."""
    rows = [{"step": (i + 1) * steps // len(losses), "train_loss": loss} for i, loss in enumerate(losses)]
    for end in range(1, len(rows) + 1):
        if plateau.is_at_plateau(rows[:end], entropy, steps):
            return rows[end - 1]["step"]
    return None


def show(rows: dict[str, dict]) -> None:
    """Print a line for each model, text and length: medians over seeds, now and before."""
    cells = {}
    for name, row in rows.items():
        cell, _, rest = name.partition(", seed ")
        cells.setdefault(cell, {}).setdefault(rest.partition(", ")[2], []).append(row)
    table = {}
    for cell, sides in cells.items():
        line = table[cell] = {}
        for side, found in sides.items():
            line[f"loss {side}".strip()] = statistics.median(row.get("best", row["valid"]) for row in found)
            line[f"ratio {side}".strip()] = max(row["ratio"] for row in found)
            line[f"told {side}".strip()] = f"{sum(row['told'] is not None for row in found)} of {len(found)}"
        line["unigram"] = next(iter(sides.values()))[0]["unigram"]
    columns = ("unigram", "loss before", "ratio before", "told before", "loss now", "ratio now", "told now")
    for line in table.values():
        for column in ("loss", "ratio", "told"):
            if column in line:
                line[f"{column} before"] = line.pop(column)
    print(machine.table(table, columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--korean", metavar="FILE", help="NSMC's reviews: id, document, label, with tabs between")
    parser.add_argument("--only", metavar="WORDS", default="", help="runs with these words in their name")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so many")
    parser.add_argument("--show", action="store_true", help="only print what was measured")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    path = machine.RESULTS / "defaults.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}
    if options.show:
        return show(rows)
    set_threads(options.threads)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = texts(Path(folder), options.korean)
        for name, case in runs().items():
            late = time.perf_counter() - started > 60 * options.minutes
            if name in rows or options.only not in name or case["data"] not in found or late:
                continue
            with tempfile.TemporaryDirectory() as out:
                rows[name] = measure(case, found[case["data"]], out)
            machine.save("defaults", {name: rows[name]}, options.threads)
    show(rows)


if __name__ == "__main__":
    main()
