"""Is the core of a lesson the same without its deeper parts? Told while the whole lesson runs.

Who reads the core alone leaves the deeper parts out. So such a part may neither make nor change what a later cell of
the core takes: no function, no array, no model, no generator. The builder compares, before and after each part, digests
of all that the core takes after it.
"""

import dis
import hashlib
import json
import types
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.learn.cells import Cell, deeper_parts
from minigpt.learn.sandbox.answers import Values
from minigpt.nn import Parameter

HERE = Path(__file__).resolve().parent
LOADS, STORES = ("LOAD_NAME", "LOAD_GLOBAL"), ("STORE_NAME", "STORE_GLOBAL")
IDENTITY = types.ModuleType | types.FunctionType | types.BuiltinFunctionType | type
MISSING = "missing"


def taken_after(found: list[Cell], part: range) -> list[str]:
    """The names that the core takes after one of the deeper parts of a lesson."""
    inside = {number for one in deeper_parts(found) for number in one}
    later = [cell for number, cell in enumerate(found) if number >= part.stop and number not in inside]
    return sorted(taken_by([cell.source for cell in later if cell.is_code]))


def taken_by(sources: list[str]) -> set[str]:
    """The global names that these cells, one after the other, take before they bind them."""
    taken: set[str] = set()
    bound: set[str] = set()
    for source in sources:
        code = compile(source, "a cell", "exec")
        for step in dis.get_instructions(code):
            if step.opname in LOADS and step.argval not in bound:
                taken.add(step.argval)
            if step.opname in STORES:
                bound.add(step.argval)
        taken |= globals_of(code) - bound  # of its functions, which run when all of the cell is bound
    return taken


def globals_of(code: types.CodeType) -> set[str]:
    """The global names that the functions inside some code load."""
    found: set[str] = set()
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= loaded(inner) | globals_of(inner)
    return found


def loaded(code: types.CodeType) -> set[str]:
    """The global names that some code loads itself."""
    return {step.argval for step in dis.get_instructions(code) if step.opname in LOADS}


class Core:
    """Compares what the core of a lesson takes, before and after each of its deeper parts.

    cells: of the lesson. run: runs some code where the lesson runs, and returns what it prints.
    """

    def __init__(self, found: list[Cell], run: Callable[[str], str]):
        self.cells, self.run = found, run
        self.parts = deeper_parts(found)
        self.at_start: dict[str, str] = {}

    def look(self, number: int) -> list[str]:
        """Called before each cell -> what the deeper part that ends there has made or changed: "changes model"."""
        found = []
        for part in self.parts:
            if number == part.stop:
                found = changed(self.at_start, self.digests(part))
        for part in self.parts:
            if number == part.start:
                self.at_start = self.digests(part)
        return found

    def digests(self, part: range) -> dict[str, str]:
        """Of all that the core takes after this part, as it is now."""
        return json.loads(self.run(question(taken_after(self.cells, part))))


# --- in the kernel of a lesson ---------------------------------------------------------------------------------------


def question(names: list[str]) -> str:
    """The code of a cell that prints the digests of these names as JSON, and leaves nothing behind."""
    return f"""exec('''
import sys
sys.path.append({str(HERE)!r})
import untouched
sys.path.remove({str(HERE)!r})
untouched.say({names!r}, space)
''', {{"space": globals()}})"""


def say(names: list[str], space: dict) -> None:
    """Print the digests of these names, and of those that their functions take."""
    print(json.dumps({name: digest(space[name]) if name in space else MISSING for name in reached(names, space)}))


def reached(names: list[str], space: dict) -> Iterator[str]:
    """These names, and those that functions of the lesson with such names take, and so on."""
    known: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        yield name
        code = getattr(space.get(name), "__code__", None)
        if code is not None and space[name].__globals__ is space:
            waiting += (loaded(code) | globals_of(code)) & space.keys()


def digest(value: object) -> str:
    """A short text that changes with what a value holds."""
    found = hashlib.sha256()
    for piece in content(value, set()):
        found.update(piece)
    return found.hexdigest()[:12]


def content(value: Any, inside: set[int]) -> Iterator[bytes]:
    """All that a value holds, piece by piece; of a function, a module or an open file that it is this one.

    A parameter is its data: the next backward pass begins its gradient anew. inside: what holds this value itself.
    """
    if isinstance(value, Parameter):
        value = value.data
    if isinstance(value, np.random.Generator):
        value = value.bit_generator.state
    if isinstance(value, Values):
        value = value._values
    yield type(value).__name__.encode()
    if id(value) in inside:
        return
    inside = inside | {id(value)}
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, str | bytes | int | float | complex | None | np.generic):
        yield repr(value).encode()
    elif isinstance(value, IDENTITY):
        yield str(id(value)).encode()
    else:
        for part in parts_of(value):
            yield from content(part, inside)


def parts_of(value: Any) -> list:
    """What a container or an object consists of; attributes that begin with _ are its caches and notes, and no part."""
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, Iterable) and isinstance(value, Sized):
        return list(value)
    return [pair for pair in getattr(value, "__dict__", {}).items() if not pair[0].startswith("_")]


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What a deeper part has made or changed, in words: "makes x", "changes y"."""
    found = []
    for name, now in sorted(after.items()):
        then = before.get(name, MISSING)
        if then != now:
            found.append(f"{'makes' if then == MISSING else 'changes'} {name}")
    return found
