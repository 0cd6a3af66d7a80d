"""What `minigpt learn start` hands out: stubs of a lesson's operations, and the upper part of each exercise.

Nothing that is handed out contains a solution. A stub has the signature, what the forward pass computes, and the shape
line of the backward pass. An exercise is handed out without its judge.
"""

import functools
import inspect
import re
import textwrap

from minigpt import ops
from minigpt.learn.classroom.course import Exercise, source_of
from minigpt.learn.classroom.language import read_words
from minigpt.ops import reference

JUDGE = re.compile(r"^# --- the judge.*$", re.MULTILINE)
OPTIONAL = re.compile(r",? \[[^\]]*\]")  # inputs, or gradients, that a learner's operation need not have


def handed_out(exercise: Exercise) -> str:
    """The text of the file that a learner gets for this exercise."""
    if exercise.operations:
        return _stubs(exercise)
    upper, _ = parts(source_of(exercise))
    return upper.rstrip() + "\n"


def parts(source: str) -> tuple[str, str]:
    """The learner's part of an exercise, and its judge, whose lines keep their numbers in the whole file."""
    marker = JUDGE.search(source)
    if marker is None:
        return source, ""
    upper = source[: marker.start()]
    return upper, "\n" * upper.count("\n") + source[marker.start() :]


def _stubs(exercise: Exercise) -> str:
    names = " and ".join(exercise.operations)
    head = [
        f'"""{exercise.name[0].upper()}{exercise.name[1:]}: {names}, forward and backward, in NumPy.',
        "",
        "A forward pass returns (out, cache); the cache is what the backward pass needs, such as a tuple of arrays.",
        "A backward pass returns one gradient for each float input, in their order. Inputs are never written to.",
        "",
        f"Judge it:  minigpt learn check {exercise.lesson}",
        '"""',
        "",
        "import numpy as np",
    ]
    borrowed = _borrowed(exercise)
    if borrowed:
        head += ["", f"from minigpt import ops  # of the library you may use {borrowed}"]
    pieces = ["\n".join(head)]
    for op in exercise.operations:
        pieces += [_stub(op, "forward", exercise), _stub(op, "backward", exercise)]
    return "\n\n\n".join(pieces) + "\n"


def _borrowed(exercise):
    """The operations from which a composite is made, in words; "" for primitives."""
    if not set(exercise.operations) & set(ops.composites):
        return ""
    primitives = [name for name in ops.names if name not in ops.composites and name not in exercise.operations]
    used = [name for name in primitives if any(_calls(op, name) for op in exercise.operations)]
    return ", ".join(used)


def _calls(op: str, name: str) -> bool:
    """Does the library's forward pass of `op` call the operation `name`?"""
    return f"{name}_forward" in inspect.getsource(getattr(reference, f"{op}_forward"))


def _stub(op: str, way: str, exercise: Exercise) -> str:
    """One function of a pair: the forward pass with what it computes, the backward pass with its shapes alone."""
    name = f"{op}_{way}"
    shapes = OPTIONAL.sub("", inspect.getdoc(getattr(reference, name)).splitlines()[0])
    if way == "forward":
        about = _texts()[op]
        parameters = about["parameters"]
        documentation = f"{shapes}\n\n{about['does'].strip()}\n"
    else:
        parameters = ", ".join(inspect.signature(getattr(reference, name)).parameters)
        documentation = shapes
    body = f'"""{documentation}"""\nraise NotImplementedError("{exercise.name}: {name}")'
    return f"def {name}({parameters}):\n" + textwrap.indent(body, "    ")


@functools.cache
def _texts() -> dict[str, dict[str, str]]:
    return read_words("stubs.toml")
