"""What each recorded result says: the names of all results, by subject, and the result of a name."""

import figures
import results_gpu
import results_learning
import results_runs
import results_speed
from figures import Plot, Point
from results_form import Result

SUBJECTS = {  # names of results, in the order of the index
    "Speed and memory": (
        "train_step", "one_thread", "threads", "two_threads", "effects", "run", "decode", "chat_speed", "memory",
        "bpe", "gradcheck",
    ),
    "What models learn": (
        "pretraining", "transfer", "family", "long_range", "in_context", "banded", "names", "scaling", "masked",
        "controls", "warmup", "claim", "stories", "finetuning", "suites", "preferences", "real_bert", "real_llama",
        "since_gpt2", "instruct",
    ),
    "Is a run sound?": ("defaults", "bands", "kills"),
    "The GPU code": ("gpu", "host_cost", "bfloat16", "kernels"),
}  # fmt: skip

RESULTS = results_speed.RESULTS | results_learning.RESULTS | results_runs.RESULTS | results_gpu.RESULTS


def of(name: str) -> Result:
    """How the result of this name is shown; one that nothing is written about shows its first column of numbers."""
    return RESULTS.get(name) or Result(name.replace("_", " "), lambda rows: f"{len(rows)} rows.", _first_column)


def _first_column(rows: dict) -> list[Plot]:
    for column in next(iter(rows.values())):
        points = {name: Point(row[column]) for name, row in rows.items() if isinstance(row.get(column), int | float)}
        if points:
            return [figures.rows(column, {column: points}, column)]
    return []
