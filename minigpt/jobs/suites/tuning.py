"""`minigpt finetune MODEL --suite NAME`: the columns that are measured after fine-tuning, by the paper's recipe."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from minigpt import models
from minigpt.evaluation.report import Measure
from minigpt.files.disk import read_json
from minigpt.jobs.epochs import Stopped
from minigpt.jobs.finetune.job import finetune
from minigpt.jobs.finetune.kept import RESULTS
from minigpt.jobs.finetune.settings import FinetuneOptions
from minigpt.jobs.option_fields import free, told
from minigpt.jobs.suites import table
from minigpt.jobs.suites.kept import Kept
from minigpt.jobs.suites.running import Found, run
from minigpt.jobs.suites.table import Column

FILE = "suite.json"
OWN = ("suite", "data", "task", "columns")  # options that the suite sets for each column


def finetune_suite(options: FinetuneOptions, named: Collection[str] = ()) -> int:
    """Fine-tune the model for each column of a suite whose files lie in `options.data`.

    Each is a run of `finetune` in a folder below `options.out`, beside the file of finished columns. Ctrl-C stops it,
    and the same options go on. Returns the number of the signal that stopped it, or 0. named: as for `finetune`. Raises
    InputError as `finetune` does, and where none of the files is there.
    """
    options.check()
    suite = table.suite("finetune", options.suite)
    seen = table.look(suite, Path(options.data))
    out = Path(options.out or f"runs/{Path(options.model).name}-{suite.name}")
    model, _ = models.open_both(options.model)
    size = table.size_of(model.config)
    about = {"suite": suite.name, "model": options.model, "weights": model.checksum()}
    del model  # each column opens its own
    shared = {name: value for name, value in told(options).items() if name not in {*free(options), *OWN}}
    kept = Kept(out / FILE, about | shared)
    plain = replace(options, suite=None, data=None, resume=False)

    def job(column: Column, files: dict[str, str]) -> Found:
        folder = out / column.name
        outcome = finetune(replace(plain, out=str(folder), **column.options, **files), named)
        if outcome.stopped_by:
            raise Stopped(outcome.stopped_by)
        result = read_json(folder / RESULTS)
        low, high = result["interval"]
        measure = Measure(result["metric"], float(np.mean(outcome.scores)), low, high, result["examples"])
        several = f"the mean of {len(outcome.scores)} seeds, and the interval of the last"
        return Found([measure], [several] if len(outcome.scores) > 1 else [])

    try:
        run(suite, seen, kept, size, job)
    except Stopped as stopped:
        return stopped.args[0]
    return 0
