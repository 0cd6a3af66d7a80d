"""Why a line of a backward pass is wrong: its gradient beside the parts that the forward lines ask for.

Every forward line that uses a value gives a part of the value's gradient, and the parts add up. So a part may be
missing, be there twice, have the wrong sign, or be another product than the true one; and a line may be right for the
wrong gradient that it was given.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.gradcheck import mistakes, numeric
from minigpt.gradcheck.evidence import Evidence, is_float, same
from minigpt.gradcheck.judge import listed
from minigpt.learn.recipes import recipe
from minigpt.learn.recording import Recorded

NUMBERS = {2: "twice", 3: "three times", 4: "four times"}


class Passes(NamedTuple):
    """Both passes, as far as a diagnosis wants to know them.

    steps, values: of the forward pass. mine: the gradients of the backward pass under test, by the names of the values.
    true_of: the true gradient of a value, by its name.
    """

    steps: Recorded
    values: dict[str, Any]
    mine: dict[str, Any]
    true_of: Callable[[str], Array]


def why(name: str, passes: Passes, evidence: Evidence) -> str:
    """One sentence about the gradient of the value `name`, which has the right shape and is wrong; "" for none."""
    mine = np.asarray(passes.mine[name], dtype=np.float64)
    given, wrong = _given(name, passes)
    parts = _parts(name, passes, given)
    if not parts:
        return ""
    target = sum(parts.values())
    if wrong and same(mine, target):
        verb = "is" if len(wrong) == 1 else "are"
        return f"This line is right for your {listed(wrong)}, which {verb} wrong: look there first."
    for says in (_about_a_whole_part, _about_a_product):
        sentence = says(name, mine, parts, passes, evidence)
        if sentence:
            return sentence
    return ""


def _given(name, passes):
    """The gradients that the lines on `name` were given, mine where there are any, and the names of the wrong ones."""
    given = {}
    wrong = []
    for line in dict.fromkeys(passes.steps.uses.get(name, [])):
        for target in _targets(line, passes.steps):
            true = passes.true_of(target)
            mine = passes.mine.get(target)
            is_mine = is_float(mine) and np.shape(mine) == true.shape
            given[target] = np.asarray(mine) if is_mine else true
            if is_mine and not same(given[target], true):
                wrong.append(f"d{target}")
    return given, wrong


def _targets(line, steps):
    return [name for name, assigned_by in steps.lines.items() if assigned_by == line]


def _parts(name, passes, given):
    """The part of the gradient from each forward line that uses the value; none where they are not all of it."""
    true = {target: passes.true_of(target) for target in given}
    lines_of = dict.fromkeys(passes.steps.uses.get(name, []))
    try:
        parts = {line: _part(name, line, passes, true) for line in lines_of}
        if not parts or not same(sum(parts.values()), passes.true_of(name)):
            return {}  # a loop, or a use outside an assignment
        return {line: _part(name, line, passes, given) for line in lines_of}
    except Exception:  # a line that does not run by itself
        return {}


def _part(name, line, passes, given):
    """The gradient of one value through one forward line, whose own values have the given gradients."""
    code = compile(line, "<a line>", "exec")
    part = np.zeros_like(passes.values[name])
    for target in _targets(line, passes.steps):

        def value_with(moved, target=target):
            namespace = passes.steps.around | passes.values | {name: moved}
            exec(code, namespace)
            return np.asarray(namespace[target])

        start = np.array(passes.values[name], dtype=np.float64)
        part = part + numeric(value_with, start, given[target])
    return part


def _about_a_whole_part(name, mine, parts, passes, evidence):
    """A part of several that is missing, is there twice, or has the wrong sign."""
    if len(parts) < 2:
        return ""
    target = sum(parts.values())
    uses = NUMBERS.get(len(parts), f"{len(parts)} times")
    for line, part in parts.items():
        if same(mine, target - part):
            return (
                f"The part from `{line}` is missing: {name} is used {uses}, and the parts are added. "
                "Does a second line overwrite a first (`=` for `+=`)?"
            )
        if same(mine, target - 2 * part):
            return f"The sign of the part from `{line}` is wrong."
        if same(mine, target + part):
            return f"The part from `{line}` is counted twice."
    return ""


def _about_a_product(name, mine, parts, passes, evidence):
    """One part that is another product than the true one: what it is, in the names of the file; not what is right."""
    target = sum(parts.values())
    for line, part in parts.items():
        yours = mine - (target - part)
        place = f"In the part from `{line}`" if len(parts) > 1 else f"Here, where `{line}` is undone"
        for mistake in (mistakes.constant_factor, mistakes.transposed, mistakes.wrong_places):
            sentence = _unless_shapes_differ(mistake, yours, part, evidence)
            if sentence:
                return f"{place}: {sentence}"
        known = _known(name, line, passes)
        found = recipe(yours, known)
        if found:
            return f"{place}, yours is {found}: one of these is not what this line asks for."
    return ""


def _unless_shapes_differ(mistake, mine, true, evidence):
    if mine.ndim == 0 or not mine.any():
        return None
    return mistake(mine, true, evidence)


def _known(name, line, passes):
    """What a product may be made of, each array once: gradients that were there before, first those of this line."""
    earlier = {}
    for other, value in passes.mine.items():
        if other == name:
            break
        earlier[other] = value
    nearest = {other: earlier[other] for other in _targets(line, passes.steps) if other in earlier}
    gradients = nearest | {"out": passes.mine["out"]} | earlier
    known = {}
    for other, value in ({f"d{other}": value for other, value in gradients.items()} | passes.values).items():
        if is_float(value) and not any(same(np.asarray(value), one) for one in known.values()):
            known[other] = np.asarray(value)
    return known
