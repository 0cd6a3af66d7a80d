"""The reader: the text of a PTX module becomes kernels, and each line of a kernel an instruction.

PTX is the assembly language that NVIDIA's compilers write and its driver turns into machine code. "PTX ISA", NVIDIA's
manual, says what each instruction does. Only what our kernels are compiled to is read; anything else is refused by its
name.
"""

import re
from typing import NamedTuple

import numpy as np

DTYPES = {  # type in PTX: its dtype. A type "b" is bits of any meaning; bfloat16 has no dtype of its own in NumPy
    "pred": np.bool_,
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8,
    "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "bf16": np.uint16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
}  # fmt: skip
DTYPES = {name: np.dtype(dtype) for name, dtype in DTYPES.items()}


class Register(NamedTuple):
    """%f12"""

    name: str


class Special(NamedTuple):
    """%tid.x: what a thread knows of itself without computing it."""

    name: str


class Constant(NamedTuple):
    """A whole number; of a float its bits and their size: 0f3F800000 is Constant(0x3F800000, 4)."""

    number: int
    float_bytes: int = 0


class Symbol(NamedTuple):
    """The address of a variable."""

    name: str


class Address(NamedTuple):
    """[%rd4+16]"""

    base: Register | Symbol
    offset: int


class Group(NamedTuple):
    """{%f1, %f2}"""

    parts: tuple


class Instruction(NamedTuple):
    """name and modifiers: fma.rn.ftz.f32 has the name fma and the modifiers rn, ftz, f32.

    guard: the predicate register before the instruction, which runs only in threads where that is true (or, with
    `unless`, false). target: of a branch, the index of the instruction where it leads.
    """

    text: str
    name: str
    modifiers: tuple[str, ...]
    operands: tuple
    guard: str | None = None
    unless: bool = False
    target: int | None = None


class Variable(NamedTuple):
    """An array that a kernel declares, in bytes."""

    name: str
    align: int
    size: int


class Kernel(NamedTuple):
    """parameters: {name: type}. registers: {name: dtype}. labels: indices of instructions that branches lead to.

    most_threads: of a block, from __launch_bounds__; None where there are none.
    """

    name: str
    parameters: dict[str, str]
    registers: dict[str, np.dtype]
    shared: list[Variable]
    local: list[Variable]
    instructions: list[Instruction]
    labels: frozenset[int]
    most_threads: int | None


_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)(.*?)\{", re.S)
_VARIABLE = re.compile(r"\.(shared|local)\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_LABEL = re.compile(r"([\w$]+):(?!:)\s*")
_GUARD = re.compile(r"@(!?)(%\w+)\s+(.*)", re.S)
_OPERATION = re.compile(r"([\w.:]+)\s*(.*)", re.S)


def read(text: str) -> dict[str, Kernel]:
    """{name: kernel} of a module."""
    text = re.sub(r"//[^\n]*", "", text)
    of_module = []  # shared variables that all kernels see
    kernels, end = {}, 0
    for found in _ENTRY.finditer(text):
        of_module += _variables(text[end : found.start()], "shared")
        end = _closing(text, found.end())
        kernels[found[1]] = _kernel(found, text[found.end() : end], of_module)
    return kernels


def _kernel(head: re.Match, body: str, of_module: list[Variable]) -> Kernel:
    parameters = {}
    for declared in filter(None, map(str.strip, head[2].split(","))):
        _, kind, name = declared.split()
        parameters[name] = kind.removeprefix(".")
    bounds = re.search(r"\.maxntid\s+([\d, ]+)", head[3])
    registers, statements, places = {}, [], {}
    for statement in _statements(body):
        while label := _LABEL.match(statement):
            places[label[1]] = len(statements)
            statement = statement[label.end() :]
        if declared := _REGISTERS.match(statement):
            registers |= _declared(declared[1], declared[2])
        elif statement and not statement.startswith("."):  # .pragma, .loc; variables are found below
            statements.append(statement)
    return Kernel(
        head[1],
        parameters,
        registers,
        [*of_module, *_variables(body, "shared")],
        _variables(body, "local"),
        [_instruction(statement, places) for statement in statements],
        frozenset(places.values()),
        int(np.prod([int(n) for n in bounds[1].split(",")])) if bounds else None,
    )


def _closing(text: str, begin: int) -> int:
    """Where the brace that is open at `begin` is closed."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin + brace.start()
    raise ValueError("a kernel has no end")


def _statements(body: str):
    """Each statement of a kernel, without its semicolon. Braces around statements mean nothing here: a register that is
    declared inside has the same type wherever that name is declared."""
    for statement in body.split(";"):
        yield re.sub(r"^[\s{}]*", "", statement).strip()


def _variables(text: str, space: str) -> list[Variable]:
    found = _VARIABLE.findall(text)
    return [Variable(name, int(align), int(size)) for where, align, name, size in found if where == space]


def _declared(kind: str, names: str) -> dict[str, np.dtype]:
    """.reg .b32 %r<3> declares %r0, %r1 and %r2."""
    registers = {}
    for name in names.split(","):
        stem, _, count = name.strip().rstrip(">").partition("<")
        several = [f"{stem}{i}" for i in range(int(count))] if count else [stem]
        registers |= dict.fromkeys(several, DTYPES[kind])
    return registers


def _instruction(statement: str, places: dict[str, int]) -> Instruction:
    text = " ".join(statement.split())
    guard, unless, rest = None, False, text
    if guarded := _GUARD.match(text):
        unless, guard, rest = guarded[1] == "!", guarded[2], guarded[3]
    operation, written = _OPERATION.match(rest).groups()
    name, *modifiers = operation.replace("::", ".").split(".")
    if name == "bra":
        return Instruction(text, name, tuple(modifiers), (), guard, unless, places[written])
    operands = tuple(_operand(one) for one in _split(written))
    return Instruction(text, name, tuple(modifiers), operands, guard, unless)


def _split(written: str) -> list[str]:
    """At commas that are not inside of braces."""
    return [one.strip() for one in re.findall(r"(?:\{[^}]*\}|[^,])+", written) if one.strip()]


def _operand(text: str):
    if text.startswith("{"):
        return Group(tuple(_operand(one) for one in _split(text[1:-1])))
    if text.startswith("["):
        base, _, offset = text[1:-1].replace(" ", "").partition("+")
        return Address(_operand(base), int(offset or "0", 0))
    if "|" in text:  # shfl gives a value and a predicate
        return Group(tuple(_operand(one) for one in text.split("|")))
    if re.match(r"%(tid|ntid|ctaid|nctaid)\.[xyz]$", text):
        return Special(text)
    if text.startswith("%"):
        return Register(text)
    if text[:2].lower() in ("0f", "0d"):
        return Constant(int(text[2:], 16), 4 if text[1].lower() == "f" else 8)
    if re.match(r"-?\d", text):
        return Constant(int(text.rstrip("U"), 0))
    return Symbol(text)
