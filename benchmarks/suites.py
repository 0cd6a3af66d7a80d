"""The columns of GPT-2's table 3 whose files are there, on models that are small, or know nothing.

    python benchmarks/suites.py --data FOLDER                 # some minutes; the same numbers on every machine
    python benchmarks/suites.py --data FOLDER --work suites   # keeps finished columns in a folder, and goes on
    python benchmarks/suites.py --data FOLDER --quick         # two items of each column; no file

FOLDER holds the published files, as `minigpt eval --suite gpt2-table3` finds them; `gpt2_vocab`, the released
vocabulary, for a GPT-2 small with random weights; and `stories260k`, a LLaMA of 260,032 parameters trained on
TinyStories. The third model is the reference model of the lessons. Of each column the first 50 items are taken, and of
a text the first 50,000 characters. With the released weights it has not been run here:

    minigpt download gpt2
    minigpt eval gpt2 --suite gpt2-table3 --data FOLDER
"""

import argparse
import tempfile
from pathlib import Path

import machine
import numpy as np

from minigpt import GPT2, GPT2Config
from minigpt.device.threads import set_threads
from minigpt.jobs.convert import ConvertOptions, convert
from minigpt.jobs.evaluate import EvaluateOptions
from minigpt.jobs.suites import table
from minigpt.jobs.suites.running import evaluate_suite
from minigpt.learn import reference
from minigpt.tokenizer import GPT2Tokenizer

SUITE = "gpt2-table3"
LIMIT = 50
RANDOM, STORIES = "GPT-2 small, random weights", "LLaMA of 260,032 parameters"
WORD = "last word, perplexity"  # which no vocabulary makes easier
COLUMNS = ("ours", "low", "high", "n", "the paper's", "its size")


def models(data: Path, work: Path) -> dict[str, Path]:
    """{name: folder} of the models that can be had; those that are made are written below `work`."""
    found = {"reference model": reference.folder()}
    if (data / "stories260k").is_dir():
        found[STORIES] = work / "stories260k"
        if not found[STORIES].exists():
            source = data / "stories260k"
            convert(ConvertOptions(file=str(source / "stories260K.bin"), folder=str(found[STORIES]),
                                   vocabulary=str(source / "tok512.bin")))  # fmt: skip
    if (data / "gpt2_vocab").is_dir():
        found[RANDOM] = work / "random"
        if not found[RANDOM].exists():
            GPT2(GPT2Config(), seed=0, dtype=np.float32).save(found[RANDOM])
            GPT2Tokenizer.load(data / "gpt2_vocab").save(found[RANDOM])
    return found


def measure(data: Path, work: Path, limit: int) -> dict[str, dict]:
    """A row for each model and each number of the paper; and one for each column that is not there."""
    rows = {}
    for name, folder in models(data, work).items():
        kept = str(work / f"{folder.name}-{limit}.json")
        options = EvaluateOptions(folder=str(folder), suite=SUITE, data=str(data), limit=limit, json_file=kept)
        for column in evaluate_suite(options).columns.values():
            for number in column["numbers"]:
                ours = (number["value"], number["low"], number["high"], number["n"])
                row = dict(zip(COLUMNS, (*ours, number["paper"], number["size"]), strict=True))
                rows[f"{number['name']}, {name}"] = row
            of_word = [measure for measure in column["measures"] if measure["name"] == WORD]
            for measure in of_word:
                ours = (measure["value"], measure["low"], measure["high"], measure["n"])
                rows[f"LAMBADA PPL of the word, {name}"] = dict(zip(COLUMNS, (*ours, None, None), strict=True))
    suite = table.suite("eval", SUITE)
    for column in table.look(suite, data).missing:
        for number in column.numbers:
            rows[f"{number.name}, needs a download"] = {"where": column.wanted}
    return rows


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with the published files")
    parser.add_argument("--work", type=Path, help="a folder for finished columns")
    parser.add_argument("--quick", action="store_true", help="two items of each column; no file")
    options = parser.parse_args()
    set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        rows = measure(options.data, work, 2 if options.quick else LIMIT)
    machine.save("suites", rows, 1, options.quick)


if __name__ == "__main__":
    main()
