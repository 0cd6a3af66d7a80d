"""What readers hand in: a solution of each exercise, and of exercise 0, the operations of a lesson.

The solution of an exercise is its file, above the judge, with the lines that solutions/exercises.toml puts in the place
of others. Operations, for which a reader gets stubs, are files of their own: solutions/NN_operations.py.
"""

import tomllib
from functools import cache
from pathlib import Path

from minigpt.learn.classroom import stubs
from minigpt.learn.museum.pieces import changed

FOLDER = Path(__file__).parent / "solutions"
EXERCISES = {path.stem: path for path in sorted((FOLDER.parents[1] / "lessons" / "exercises").glob("*.py"))}
CHANGES = tomllib.loads((FOLDER / "exercises.toml").read_text(encoding="utf-8"))


@cache
def solution(name: str) -> str:
    """The text of a file that solves an exercise: "06_rmsnorm", or, of exercise 0, "06_operations"."""
    if name not in EXERCISES:
        return (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    upper, _ = stubs.parts(EXERCISES[name].read_text(encoding="utf-8"))
    return changed(upper.rstrip(), CHANGES[name])


def hand_in(name: str, folder: Path) -> Path:
    """Write the solution of an exercise into a folder, and return the file."""
    path = folder / f"{name}.py"
    path.write_text(solution(name), encoding="utf-8")
    return path
