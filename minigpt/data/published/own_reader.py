"""The task and the examples of a file that is no table: its layout has a reader of its own."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from minigpt.data.examples import TAGGING, Example, Task
from minigpt.data.published.layout import Layout
from minigpt.errors import InputError


def read_by_its_own(
    path: Path,
    layout: Layout,
    columns: Mapping[str, str],
    labels: Sequence[str] | None,
    labelled: bool,
    say: Callable[[str], None],
    limit: int | None,
) -> tuple[Task, list[Example]]:
    """The task and the examples of such a file; see `labelled_files.read`. Raises InputError."""
    known = tuple(layout.names.values())
    if columns or (labels and not known and layout.kind != TAGGING):
        raise InputError(f"{path}: expected {layout.form}, which has no columns and no labels: leave them out")
    if labels and known and tuple(labels) != known:
        has = f"{len(known)} labels, {', '.join(known[:2])}, ..."
        raise InputError(f"{path}: expected the labels {', '.join(labels[:9])}, and the file has {has}")
    assert layout.read is not None, "it has a reader of its own"
    examples = list(islice(layout.read(path, labelled), limit))
    if not examples:
        raise InputError(f"{path} has no examples: expected {layout.form}")
    if layout.kind == TAGGING and labelled and not known:
        known = _names_of_tags(path, examples, labels, say)
    numbers = sorted({len(example.choices) for example in examples})
    if len(numbers) > 1:
        raise InputError(f"{path}: some examples have {numbers[0]} choices and some {numbers[-1]}: give each the same")
    return Task(layout.kind, known, layout.metric or "accuracy"), examples


def _names_of_tags(
    path: Path, examples: Sequence[Example], labels: Sequence[str] | None, say: Callable[[str], None]
) -> tuple[str, ...]:
    """The labels of the units, sorted; or those that the caller knows: others count as missed, and say tells them."""
    found = {tag for example in examples for tag in example.label}
    if labels is None:
        return tuple(sorted(found))
    others = sorted(found - set(labels))
    if others:
        shown = ", ".join(others[:3])
        say(f"{path}: {len(others):,} labels are not among those of training, such as {shown}: they count as missed")
    return tuple(labels)
