"""The losses of sound runs, with which `minigpt train --compare` compares others.

    python benchmarks/bands.py                          # the bands of the defaults, six seeds each: about an hour
    python benchmarks/bands.py gpt2-stories-nano --seeds 10
    python benchmarks/bands.py gpt1-stories-nano --from runs/a runs/b runs/c        # of runs that are there already
    python benchmarks/bands.py --false-alarms           # how often a sound run would be called abnormal

A band is written to `minigpt/jobs/pretrain/bands/NAME.json`. Each run is `minigpt train` in a process of its own, in
a folder of `--keep`; a script that was stopped goes on there. Bands are of runs without an evaluation on the way, so
that each row of loss.csv is the mean of as many updates.

`--false-alarms` leaves out one seed after the other, and compares it with the band of the others. With `--small N` it
takes N seeds of a tiny model instead, each compared with the bands of five others, many times.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import machine
import numpy as np

import minigpt
from minigpt import data, tokenizer
from minigpt.device.threads import threads
from minigpt.jobs import run_folder
from minigpt.jobs.pretrain import band as bands
from minigpt.jobs.pretrain import plateau
from minigpt.jobs.pretrain.band import Band
from minigpt.jobs.pretrain.comparison import Comparison

STEPS = 2000
DEFAULTS = {f"{model}-stories-nano": ["--model", model, "--eval-every", str(STEPS)] for model in ("gpt1", "gpt2")}
TINY = "--layers 2 --heads 2 --embd 32 --context 32 --batch 8 --steps 250 --eval-every 250 --tokenizer char".split()
GROUP = 5  # seeds of a band of the tiny model
TRIALS = 400


def train(arguments: list[str], seeds: range, keep: Path, name: str) -> list[Path]:
    """The folders of these runs, each trained to its end."""
    folders = [keep / f"{name}-{seed}" for seed in seeds]
    for seed, folder in zip(seeds, folders, strict=True):
        command = [sys.executable, "-m", "minigpt", "train", *arguments, "--seed", str(seed), "--out", str(folder)]
        subprocess.run(command, check=True)
    return folders


def band_of(folders: list[Path], name: str) -> Band:
    """The band of finished runs."""
    runs = [run_folder.look(folder) for folder in folders]
    options = runs[0][0]["options"]
    text = tokenizer.load(folders[0])
    tokens, _ = data.encode(data.load(options["data"]), text, options["context"])
    return bands.from_runs(name, runs, round(plateau.unigram_entropy(tokens, text.vocab_size), 6))


def write(band: Band, threads: int | None) -> None:
    """The band file: numbers with the digits that are needed."""
    about = {"date": datetime.date.today().isoformat(), "processor": machine.processor()}
    about |= {"threads": threads, "versions": {"minigpt": minigpt.__version__} | machine.versions()}
    content = {"setting": band.setting, "entropy": band.entropy, "seeds": band.seeds, "measured": about}
    lines = {name: json.dumps(value) for name, value in content.items()}
    lines["steps"] = json.dumps(band.steps.tolist())
    for name in ("rates", "first", "last"):
        lines[name] = json.dumps([float(f"{value:.5g}") for value in getattr(band, name)])
    rows = [json.dumps([float(f"{value:.4f}") for value in row]) for row in band.losses]
    lines["losses"] = "[\n    " + ",\n    ".join(rows) + "\n  ]"
    text = ",\n".join(f'  "{name}": {value}' for name, value in lines.items())
    bands.HOME.mkdir(exist_ok=True)
    path = bands.HOME / f"{band.name}.json"
    path.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    print(f"{band.name}: {len(band.seeds)} seeds, {len(band.steps)} rows, written to {path}")


def without(band: Band, i: int, group: list[int]) -> tuple[Band, list[dict]]:
    """The band of these seeds, and the rows of seed number i."""
    kept = {name: getattr(band, name)[group] for name in ("losses", "first", "last")}
    others = replace(band, seeds=[band.seeds[k] for k in group], **kept)
    rows = [{"step": 0, "train_loss": None, "val_loss": band.first[i], "lr": None}]
    for step, loss, rate in zip(band.steps, band.losses[i], band.rates, strict=True):
        rows.append({"step": int(step), "train_loss": loss, "val_loss": None, "lr": rate})
    rows[-1]["val_loss"] = band.last[i]
    return others, rows


def alarms(band: Band, trials: list[tuple[int, list[int]]]) -> dict[str, float]:
    """How many of these trials (a seed, the seeds of its band) are flagged, and how far the furthest one is."""
    flagged, final, furthest = 0, 0, 0.0
    for i, group in trials:
        others, rows = without(band, i, group)
        flagged += bool(Comparison(others, others.setting).findings(rows))
        low, high = others.range_of(others.last)
        final += not low <= band.last[i] <= high
        z = np.abs(band.losses[i] - others.mean) / others.spread
        lasting = np.lib.stride_tricks.sliding_window_view(z, bands.LASTING).min(axis=1)
        furthest = max(furthest, lasting.max())
    return {"trials": len(trials), "flagged": flagged, "final outside": final, "furthest": float(furthest)}


def leave_one_out(count: int) -> list[tuple[int, list[int]]]:
    return [(i, [k for k in range(count) if k != i]) for i in range(count)]


def at_random(count: int) -> list[tuple[int, list[int]]]:
    """Trials of one seed and GROUP others."""
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(count)[: GROUP + 1].tolist() for _ in range(TRIALS)]
    return [(one, group) for one, *group in drawn]


def tiny_band(model: str, count: int, keep: Path) -> Band:
    """Many seeds of a tiny model on a few stories."""
    text = keep / "stories.txt"
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("\n".join(data.load("stories:300").pieces("train"))[:40_000], encoding="utf-8")
    arguments = ["--model", model, "--data", str(text), *TINY]
    return band_of(train(arguments, range(count), keep, f"tiny-{model}"), f"tiny {model}")


def false_alarms(small: int, keep: Path) -> None:
    """Measure, print and record them."""
    rows = {}
    for band in bands.every_band():
        rows[band.name] = alarms(band, leave_one_out(len(band.seeds)))
    for model in ("gpt1", "gpt2") if small else ():
        band = tiny_band(model, small, keep)
        rows[f"tiny {model}, {small} seeds, bands of {GROUP}"] = alarms(band, at_random(small))
    print(machine.table(rows, ("trials", "flagged", "final outside", "furthest")))
    rule = f"{bands.REACH:g} + {bands.UNCERTAIN:g} / seeds times the spread, {bands.LASTING} rows"
    machine.save("bands", {name: row | {"rule": rule} for name, row in rows.items()}, threads())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help=f"a band: {', '.join(DEFAULTS)} (default: both)")
    parser.add_argument("--seeds", type=int, default=6, metavar="N")
    parser.add_argument("--from", dest="folders", nargs="+", type=Path, metavar="FOLDER", help="finished runs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of the runs (default: one of the system's)")
    parser.add_argument("--false-alarms", action="store_true")
    parser.add_argument("--small", type=int, default=0, metavar="N", help="seeds of a tiny model for --false-alarms")
    options = parser.parse_args()
    keep = options.keep or Path(tempfile.gettempdir()) / "minigpt-bands"
    if options.false_alarms:
        return false_alarms(options.small, keep)
    if options.folders:
        if not options.name:
            parser.error("--from: give the band a name, such as gpt1-stories-nano")
        return write(band_of(options.folders, options.name), None)
    if options.name and options.name not in DEFAULTS:
        parser.error(f"{options.name}: choose {', '.join(DEFAULTS)}, or give --from and finished runs")
    for name in [options.name] if options.name else DEFAULTS:
        write(band_of(train(DEFAULTS[name], range(options.seeds), keep, name), name), threads())


if __name__ == "__main__":
    main()
