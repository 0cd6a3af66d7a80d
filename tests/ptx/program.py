"""A kernel made ready to be played: each instruction becomes a step, a function of threads and lanes.

lanes: the numbers of the threads that take a step, in rising order; None for all of them, which is quicker.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import arithmetic, instructions, warps
from .memory import laid_out
from .reader import DTYPES, Constant, Group, Instruction, Kernel, Register, Special, Symbol

CONTROL = ("bra", "ret", "exit", "bar")  # they move threads along the program: the player's
OF_WARPS = ("shfl", "ldmatrix", "mma")  # they wait for the other lanes of the warp


class Step(NamedTuple):
    """One instruction. take(threads, lanes) does it; None for what the player does itself."""

    of: Instruction
    take: Callable | None
    waits_for_its_warp: bool


class Program:
    """steps, and where branches lead to, of one kernel."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.clean = without_subnormals(kernel)
        self.places = laid_out(kernel.shared)[0] | laid_out(kernel.local)[0]  # of each variable
        self.steps = [Step(one, self._step(one), _is_of_a_warp(one)) for one in kernel.instructions]

    def _step(self, one: Instruction):
        if one.name in CONTROL:
            return None
        take = getattr(self, f"_{one.name}", self._compute)(one)
        return take if one.guard is None else _guarded(take, self._source(Register(one.guard), "pred"), one.unless)

    # --- operands ---

    def _source(self, operand, kind: str):
        """A function of threads and lanes that gives the operand's numbers, as numbers of this type."""
        dtype = DTYPES[kind]
        if isinstance(operand, Register):
            return self._register(operand.name, dtype)
        if isinstance(operand, Special):
            return lambda threads, lanes: threads.pick(threads.special[operand.name], lanes).view(dtype)
        value = self._constant(operand, dtype)
        return lambda threads, lanes: value

    def _register(self, name: str, dtype: np.dtype):
        declared = self.kernel.registers[name]
        if declared == dtype:
            return lambda threads, lanes: threads.pick(threads.registers[name], lanes)
        if declared.itemsize == dtype.itemsize:
            return lambda threads, lanes: threads.pick(threads.registers[name], lanes).view(dtype)
        assert declared.itemsize > dtype.itemsize, f"{name} is too small for {dtype}"
        narrow = np.dtype(f"u{dtype.itemsize}")
        return lambda threads, lanes: threads.pick(threads.registers[name], lanes).astype(narrow).view(dtype)

    def _constant(self, operand: Constant | Symbol, dtype: np.dtype) -> np.ndarray:
        """An array of one number."""
        if isinstance(operand, Symbol):
            return np.array([self.places[operand.name]]).astype(dtype)
        if dtype == np.bool_:
            return np.array([operand.number != 0])
        bits = operand.number & (1 << 8 * dtype.itemsize) - 1
        return np.array([bits], f"u{dtype.itemsize}").view(dtype)

    def _float_source(self, one: Instruction, operand, kind: str):
        """The same; where the instruction says .ftz and the register may hold subnormals, they are flushed."""
        get = self._source(operand, kind)
        may_be_subnormal = isinstance(operand, Register) and operand.name not in self.clean
        if kind != "f32" or "ftz" not in one.modifiers or not may_be_subnormal:
            return get
        return lambda threads, lanes: arithmetic.flush(get(threads, lanes))

    def _target(self, operand: Register, dtype: np.dtype):
        """A function of threads, lanes and numbers of this dtype that puts them into a register."""
        name, declared = operand.name, self.kernel.registers[operand.name]
        if declared.itemsize == dtype.itemsize:
            return lambda threads, lanes, values: threads.put(name, lanes, values.view(declared))
        assert declared.itemsize > dtype.itemsize, f"{name} is too small for {dtype}"
        wider = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{declared.itemsize}")
        return lambda threads, lanes, values: threads.put(name, lanes, values.astype(wider).view(declared))

    def _sources(self, group, kind: str) -> list:
        return [self._source(part, kind) for part in (group.parts if isinstance(group, Group) else (group,))]

    def _targets(self, group, kind: str) -> list:
        parts = group.parts if isinstance(group, Group) else (group,)
        return [self._target(part, DTYPES[kind]) for part in parts]

    # --- what is computed ---

    def _compute(self, one: Instruction):
        result, kinds = instructions.types_of(one)
        function, how = instructions.TABLE[one.name], one.modifiers
        sources = [self._float_source(one, *pair) for pair in zip(one.operands[1:], kinds, strict=True)]
        put = self._target(one.operands[0], DTYPES[result])
        flushes, saturates = "ftz" in how and result == "f32", "sat" in how

        def take(threads, lanes):
            values = function(how, *[get(threads, lanes) for get in sources])
            if flushes:
                values = arithmetic.flush(values)
            if saturates:  # what is not a number becomes 0
                values = np.fmin(np.fmax(values, values.dtype.type(0)), values.dtype.type(1))
            put(threads, lanes, values)

        return take

    def _mov(self, one: Instruction):
        """Between registers; or of a register to several that hold its parts, the lowest first; or back."""
        to, of = one.operands
        if not isinstance(to, Group) and not isinstance(of, Group):
            return self._compute(one)
        whole = one.modifiers[-1]
        parts = len((to if isinstance(to, Group) else of).parts)
        part = f"b{8 * DTYPES[whole].itemsize // parts}"
        kind = part if isinstance(to, Group) else whole
        sources, targets = self._sources(of, part if isinstance(of, Group) else whole), self._targets(to, kind)
        dtype = DTYPES[kind]

        def take(threads, lanes):
            given = np.broadcast_arrays(*[get(threads, lanes) for get in sources])
            found = np.stack(given, axis=1).view(dtype)
            for i, put in enumerate(targets):
                put(threads, lanes, np.ascontiguousarray(found[:, i]))

        return take

    def _cvta(self, one: Instruction):
        """An address of the GPU's memory is the same whether it is told as one or not."""
        assert one.modifiers[0] == "to" and one.modifiers[1] == "global", one.text
        return self._compute(one._replace(name="mov", modifiers=one.modifiers[-1:]))

    # --- memory ---

    def _space(self, one: Instruction) -> str:
        return next((space for space in ("shared", "local", "param") if space in one.modifiers), "global")

    def _place(self, address):
        """A function that gives [base+offset] for each lane. Of shared memory a base may have 32 bits."""
        is_short = isinstance(address.base, Register) and self.kernel.registers[address.base.name].itemsize == 4
        base, offset = self._source(address.base, "u32" if is_short else "u64"), address.offset
        return lambda threads, lanes: base(threads, lanes).astype(np.int64) + offset

    def _ld(self, one: Instruction):
        to, address = one.operands
        kind, space = one.modifiers[-1], self._space(one)
        targets = self._targets(to, kind)
        if space == "param":
            [put], name, dtype = targets, address.base.name, DTYPES[kind]
            return lambda threads, lanes: put(threads, lanes, threads.arguments[name].view(dtype).copy())
        place, dtype, count = self._place(address), DTYPES[kind], len(targets)

        def take(threads, lanes):
            memory, where = threads.memory[space], threads.each(place(threads, lanes), lanes)
            for put, values in zip(targets, memory.load(threads, lanes, where, dtype, count), strict=True):
                put(threads, lanes, values)

        return take

    def _st(self, one: Instruction):
        address, of = one.operands
        space, sources, place = self._space(one), self._sources(of, one.modifiers[-1]), self._place(address)

        def take(threads, lanes):
            values = [threads.each(get(threads, lanes), lanes) for get in sources]
            threads.memory[space].store(threads, lanes, threads.each(place(threads, lanes), lanes), values)

        return take

    def _cp(self, one: Instruction):
        """cp.async: so many bytes, of which the last operand says how many are read; the others become 0."""
        if "wait_all" in one.modifiers:
            return lambda threads, lanes: threads.memory["shared"].arrive(threads, lanes)
        assert one.modifiers[0] == "async" and one.modifiers[-2:] == ("shared", "global"), one.text
        to, of, size, *read = one.operands
        to, of, size = self._place(to), self._place(of), size.number
        there = self._source(read[0] if read else Constant(size), "u32")

        def take(threads, lanes):
            exists = threads.each(there(threads, lanes), lanes) != 0
            begins = threads.each(of(threads, lanes), lanes)
            brought = np.zeros((len(begins), size // 4), np.uint32)
            if exists.any():
                reading = threads.numbers(lanes)[exists]
                words = threads.memory["global"].load(threads, reading, begins[exists], DTYPES["u32"], size // 4)
                brought[exists] = np.stack(words, axis=1)
            where = threads.each(to(threads, lanes), lanes)
            threads.memory["shared"].copy_later(threads, lanes, where, brought.view(np.uint8))

        return take

    # --- of a whole warp ---

    def _shfl(self, one: Instruction):
        assert one.modifiers[:2] == ("sync", "bfly"), one.text
        to = one.operands[0].parts if isinstance(one.operands[0], Group) else (one.operands[0],)
        put, get = self._target(to[0], DTYPES["b32"]), self._source(one.operands[1], "b32")
        apart, *whole = [self._source(of, "b32") for of in one.operands[2:]]
        found = [self._target(other, DTYPES["pred"]) for other in to[1:]]

        def take(threads, lanes):
            clamp, members = (get(threads, lanes) for get in whole)
            assert (clamp == 31).all() and (members == 0xFFFFFFFF).all(), "not among all lanes of a warp"
            values = threads.each(get(threads, lanes), lanes)
            put(threads, lanes, warps.exchange(threads, lanes, values, apart(threads, lanes)))
            for also in found:
                also(threads, lanes, np.array([True]))

        return take

    def _ldmatrix(self, one: Instruction):
        assert "x4" in one.modifiers and "m8n8" in one.modifiers, one.text
        targets, place = self._targets(one.operands[0], "b32"), self._place(one.operands[1])
        transposed, number = "trans" in one.modifiers, DTYPES["b16"]

        def take(threads, lanes):
            warps.whole_warps(threads, lanes)
            rows = threads.memory["shared"].load(threads, lanes, place(threads, lanes), number, 8)
            for put, words in zip(targets, warps.matrices(threads, lanes, rows, transposed), strict=True):
                put(threads, lanes, words)

        return take

    def _mma(self, one: Instruction):
        shape = one.modifiers[2]
        assert {"m16n8k16": "bf16", "m16n8k8": "tf32"}.get(shape) == one.modifiers[-3], one.text
        targets = self._targets(one.operands[0], "f32")
        a, b, c = (self._sources(of, kind) for of, kind in zip(one.operands[1:], ("b32", "b32", "f32"), strict=True))

        def take(threads, lanes):
            n = warps.whole_warps(threads, lanes)
            given = [[threads.each(get(threads, lanes), lanes) for get in of] for of in (a, b, c)]
            if shape == "m16n8k16":
                results = warps.multiply_bfloat16(n, *given)
            else:
                results = warps.multiply_tf32(threads, lanes, n, *given)
            for put, values in zip(targets, results, strict=True):
                put(threads, lanes, values)

        return take


def _is_of_a_warp(one: Instruction) -> bool:
    return one.name in OF_WARPS or (one.name == "bar" and one.modifiers[0] == "warp")


def _guarded(take, condition, unless: bool):
    """Only for lanes where a predicate is true, or false."""

    def take_some(threads, lanes):
        chosen = threads.numbers(lanes)[condition(threads, lanes) != unless]
        if len(chosen):
            take(threads, chosen)

    return take_some


def without_subnormals(kernel: Kernel) -> set[str]:
    """The float registers that never hold a subnormal, since all that comes into them has been flushed."""
    moves = ("mov", "selp", "neg", "abs", "max", "min")
    clean = {name for name, dtype in kernel.registers.items() if dtype == np.float32}

    def comes_clean(one: Instruction) -> bool:
        if "ftz" in one.modifiers and one.name not in ("setp", "cvt"):
            return True
        if one.name not in moves:
            return False
        return all(of.name in clean if isinstance(of, Register) else _is_normal(of) for of in one.operands[1:3])

    while True:
        before = len(clean)
        for one in kernel.instructions:
            if one.operands and not comes_clean(one):
                to = one.operands[0].parts if isinstance(one.operands[0], Group) else one.operands[:1]
                clean -= {part.name for part in to if isinstance(part, Register)}
        if len(clean) == before:
            return clean


def _is_normal(operand) -> bool:
    if not isinstance(operand, Constant) or operand.float_bytes != 4:
        return False
    return operand.number & 0x7FFFFFFF == 0 or operand.number & 0x7F800000 != 0
