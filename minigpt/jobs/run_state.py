"""What a kept run says of itself is compared with what can be, before anything is made from it."""

import hashlib
import math
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from minigpt.device.parallel import cores
from minigpt.device.threads import set_threads, threads
from minigpt.errors import InputError
from minigpt.files.disk import typed
from minigpt.jobs.option_fields import free, option_text, told

ROWS = "rows"  # the key of the checksum of the table
NOT_REPEATED = ("tokens_per_second",)  # columns that differ each time a run is repeated: the checksum leaves them out
RESOLVED = ("model", "out", "batch", "lr", "warmup", "dropout", "eval_every")  # what a run that has begun always has


def check_state(state: Any, path: Path) -> None:
    """Raises InputError for a state of pre-training whose numbers cannot be right, naming the first such one."""
    expected = {
        "step": _is_count(state["step"]),
        "best": _is_loss(state["best"]),
        "text": isinstance(state["text"], str),
        "options": isinstance(state["options"], dict),
        "config": isinstance(state["config"], dict),
    }
    for name, is_right in expected.items():
        if not is_right:
            raise InputError(f"{path}: its {name} is {str(state[name])[:60]}, which no run has: the file is damaged")


def check_options(options: Any, path: Path) -> None:
    """Raises InputError for an option that a run has kept and that is of a wrong type, or outside its range."""
    for name, kind in get_type_hints(type(options)).items():
        value = getattr(options, name)
        types = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        if not _is_one_of(value, types) or (value is None and name in RESOLVED):
            raise InputError(f"{path}: its option {name} is {str(value)[:60]!r}, which no run has: the file is damaged")
    options.check()


def check_same(folder: Path, options: Any, marks: dict[str, str], kept: dict[str, Any], of: dict[str, str]) -> None:
    """Raises InputError where the run that a folder holds is not this one: the message names the first difference.

    kept: the state of that run, with its "options", its "marks" and whether it is "finished". marks: checksums of what
    a run is made of; of: what each of them tells, in words.
    """
    instead = "give the same to go on with it, or another --out to begin anew"
    now = told(options)
    for name, value in kept["options"].items():
        if name not in free(options) and now.get(name) != value:
            what = difference(folder, kept["finished"], name, value, now.get(name))
            raise InputError(f"{what}: {instead}")
    for name, thing in of.items():
        if marks.get(name) != kept["marks"].get(name):
            raise InputError(f"{thing} not what the run in {typed(folder)} began with: {instead}")


def difference(folder: str | Path, finished: bool, name: str, has: Any, given: Any) -> str:
    """How the run in a folder and a command differ, in one option."""
    state = "a finished run" if finished else "an unfinished run"
    return f"{typed(folder)} holds {state} with {option_text(name, has)}, this command says {option_text(name, given)}"


def _is_one_of(value: Any, types: tuple[type, ...]) -> bool:
    """Is it a value of one of these types? A whole number is a number too; true and false are none."""
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types) or (float in types and isinstance(value, int))


def workers(processes: int = 1) -> dict[str, int]:
    """What a run keeps of how its sums are divided: its processes, and the threads of each."""
    return {"processes": processes, "threads": threads()}


def use_kept_threads(kept: Any, path: Path, processes: int = 1, given: bool = False) -> None:
    """Compute with as many threads as the run had before: other numbers round its sums otherwise, to other bits.

    kept: what `workers` gave; None in the file of an earlier version, which goes on with what there is. given: does the
    command say how many threads? Then it has these. Prints a line where the number changes, and where the bits of the
    run will. Raises InputError for numbers that no run has.
    """
    if kept is None:
        return
    has = workers(processes)
    if not isinstance(kept, dict) or any(type(kept.get(name)) is not int or kept[name] < 1 for name in has):
        raise InputError(f"{path}: its workers are {str(kept)[:60]}, which no run has: the file is damaged")
    if kept == has:
        return
    if kept["processes"] == processes and kept["threads"] <= cores() and not given:
        set_threads(kept["threads"])
        print(f"threads  {kept['threads']}, as the run had before: with others its sums are rounded otherwise")
        return
    changed = " and ".join(f"{has[name]} {name}, before {kept[name]}" for name in has if has[name] != kept[name])
    print(f"workers  {changed}: sums are rounded otherwise, and the run ends in other bits than without this change")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_loss(value: Any) -> bool:
    """Is it the loss of a best model, or infinity, where none was measured yet?"""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value) and value >= 0


def sum_of_rows(rows: list[dict]) -> str:
    """The checksum of a table of losses, in hexadecimal: the same for a run that is repeated."""
    digest = hashlib.sha256()
    for row in rows:
        numbers = ["" if value is None else f"{value:.7g}" for name, value in row.items() if name not in NOT_REPEATED]
        digest.update((",".join(numbers) + "\n").encode())
    return digest.hexdigest()


def check_rows(rows: list[dict], state: dict, path: Path) -> None:
    """Raises InputError where the rows of a table are not those that the run had. Without a table it goes on."""
    said = state.get(ROWS)  # None in the file of an earlier version
    if path.is_file() and said is not None and sum_of_rows(rows) != said:
        advice = "move it away, and the run goes on without it"
        raise InputError(f"{path} is not the table of this run, or it is damaged: {advice}")
