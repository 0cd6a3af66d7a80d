"""Which items of a file a task puts to the model: all but those that it leaves out, which a note counts."""

from collections.abc import Sequence
from typing import Any

from minigpt.errors import InputError


def others(items: Sequence[Any], numbers: Sequence[int], notes: Sequence[str]) -> list[Any]:
    """The items but for those of these numbers, from 1. Raises InputError, with the notes, where none is left."""
    without = set(numbers)
    left = [item for number, item in enumerate(items, 1) if number not in without]
    if not left:
        raise InputError(f"no item is left to score: {'; '.join(notes)}")
    return left


def left_out_note(numbers: Sequence[int], total: int, reason: str) -> list[str]:
    """A note on the items that were left out, with their numbers, from 1; none where there are none."""
    if not numbers:
        return []
    each = ", ".join(map(str, numbers))
    return [f"{len(numbers)} of {total} items {reason} and were left out: number {each}"]


def split_shots(records: Sequence[Any], shots: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """The examples that stand in every prompt, and the records that are left to answer.

    Raises InputError where none would be left.
    """
    most = len(records) - 1
    if not 0 <= shots <= most:
        raise InputError(f"--shots {shots}: choose 0 to {most}, so that one of {len(records)} is left to answer")
    return records[:shots], records[shots:]
