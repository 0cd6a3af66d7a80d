"""`minigpt eval MODEL --suite NAME`: the columns that are measured without training."""

from pathlib import Path

from minigpt.jobs.evaluate import EvaluateOptions, check_json_folder, evaluate, open_model
from minigpt.jobs.suites import table
from minigpt.jobs.suites.kept import Kept
from minigpt.jobs.suites.running import Found, run
from minigpt.jobs.suites.table import Column


def evaluate_suite(options: EvaluateOptions) -> Kept:
    """Measure the columns of a suite whose files lie in `options.data`; returns what is kept of them.

    The model is opened once, and each column is a run of `evaluate`. Ctrl-C loses only the column at work: the same
    options go on. Raises InputError as `evaluate` does, and where none of the files is there.
    """
    options.check()
    suite = table.suite("eval", options.suite)
    seen = table.look(suite, Path(options.data))
    name = Path(options.folder).name
    path = Path(options.json_file or f"runs/{name}-{suite.name}.json")
    if options.json_file is not None:
        check_json_folder(path)
    opened = open_model(options)
    model, _ = opened
    about = {"suite": suite.name, "model": options.folder, "weights": model.checksum(), "limit": options.limit}
    kept = Kept(path, about)

    def job(column: Column, files: dict[str, str]) -> Found:
        shared = {"folder": options.folder, "device": options.device, "limit": options.limit}
        report = evaluate(EvaluateOptions(**shared, **column.options, **files), opened)
        return Found(report.measures, report.notes)

    run(suite, seen, kept, table.size_of(model.config), job)
    return kept
