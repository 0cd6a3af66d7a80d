"""The player: the threads of some blocks take the steps of a program, in an order that is drawn.

All threads that stand at the same instruction take it together, as arrays. Who goes first is the order of a play. In
the plain order everyone goes at once, and where they part those behind catch up. In an order that is drawn some threads
wait at each barrier until the others cannot go on.
"""

from typing import NamedTuple

import numpy as np

from .faults import Fault
from .memory import GlobalMemory, LocalMemory, SharedMemory
from .program import Program
from .warps import LANES

AT_ONCE = 4096  # threads of the blocks that are played together, at most, unless one block has more
PATIENCE = 10_000_000  # instructions, after which a kernel is held to run for ever


class Who(NamedTuple):
    """Of some threads, as columns: which they are, and which barriers they have behind them. See races.py."""

    thread: np.ndarray
    warp: np.ndarray
    block: np.ndarray
    phase: np.ndarray
    phase_of_warp: np.ndarray


class Clock:
    """Numbers that no two barriers of a launch share."""

    def __init__(self):
        self.now = 0

    def next(self, n: int) -> np.ndarray:
        """n new numbers."""
        self.now += n
        return np.arange(self.now - n, self.now, dtype=np.int32)


class Registers(dict):
    """{name: its numbers, one of each thread}. What nothing was put into yet holds anything: all bits are set."""

    def __init__(self, declared: dict[str, np.dtype], threads: int):
        super().__init__()
        self.declared, self.threads = declared, threads

    def __missing__(self, name):
        dtype = self.declared[name]
        anything = np.full(self.threads * dtype.itemsize, 0xFF if dtype != np.bool_ else 1, np.uint8)
        self[name] = anything.view(dtype)
        return self[name]


class Threads:
    """The threads of some blocks of a launch: their registers, and where in the program they are.

    numbers: of the blocks in the grid. draw: a generator for the order, or None for the plain one.
    """

    def __init__(
        self, program: Program, grid, block, numbers: np.ndarray, arguments, memory: GlobalMemory, clock, draw
    ):
        kernel = program.kernel
        self.program, self.draw, self.clock, self.arguments, self.block_size = program, draw, clock, arguments, block
        size = int(np.prod(block))
        blocks, warps = len(numbers), -(-size // LANES)
        self.n, self.warps, self.size = blocks * size, blocks * warps, size
        inside = np.tile(np.arange(size), blocks)
        self.block_here = np.repeat(np.arange(blocks), size)
        self.block = np.repeat(numbers, size)
        self.thread = self.block * size + inside
        self.lane = inside % LANES
        self.warp_here = self.block_here * warps + inside // LANES
        self.warp = self.block * warps + inside // LANES
        self.special = {}
        for name, of, whole in (("%tid", inside, block), ("%ctaid", self.block, grid)):
            for axis, index in zip(
                "xyz", (of % whole[0], of // whole[0] % whole[1], of // (whole[0] * whole[1])), strict=True
            ):
                self.special[f"{name}.{axis}"] = index.astype(np.uint32)
        for name, whole in (("%ntid", block), ("%nctaid", grid)):
            for axis, length in zip("xyz", whole, strict=True):
                self.special[f"{name}.{axis}"] = np.full(self.n, length, np.uint32)
        self.registers = Registers(kernel.registers, self.n)
        self.memory = {
            "global": memory,
            "shared": SharedMemory(kernel.shared, blocks),
            "local": LocalMemory(kernel.local, self.n),
        }
        self.at = np.zeros(self.n, np.int64)  # the instruction that comes next
        self.ready, self.done, self.at_barrier = np.ones(self.n, bool), np.zeros(self.n, bool), np.zeros(self.n, bool)
        self.phase, self.phase_of_warp = np.empty(self.n, np.int32), np.empty(self.n, np.int32)
        self.turn = np.zeros(self.n, np.int8)
        self.everyone = np.arange(self.n)
        self._new_phase(self.everyone)
        self.phase_of_warp[:] = clock.next(self.warps)[self.warp_here]

    # --- what steps use ---

    def pick(self, values, lanes):
        """Those of these lanes."""
        return values if lanes is None else values[lanes]

    def numbers(self, lanes) -> np.ndarray:
        return self.everyone if lanes is None else lanes

    def each(self, values, lanes):
        """One number for each lane, where there may be one for all."""
        wanted = self.n if lanes is None else len(lanes)
        return values if len(values) == wanted else np.repeat(values, wanted)

    def put(self, name: str, lanes, values) -> None:
        if lanes is None and len(values) == self.n:
            self.registers[name] = values
        else:
            self.registers[name][slice(None) if lanes is None else lanes] = values

    def who(self, lanes) -> Who:
        """Columns, for races."""
        all_of = (self.thread, self.warp, self.block, self.phase, self.phase_of_warp)
        return Who(*(self.pick(one, lanes)[:, None] for one in all_of))

    def name(self, lane: int) -> str:
        x, y, z = (int(self.special[f"%tid.{axis}"][lane]) for axis in "xyz")
        a, b, c = (int(self.special[f"%ctaid.{axis}"][lane]) for axis in "xyz")
        return f"thread ({x}, {y}, {z}) of block ({a}, {b}, {c})"

    # --- the order ---

    def play(self) -> None:
        """Until all threads are done."""
        patience = PATIENCE
        while (chosen := self._choose()) is not None:
            patience -= self._advance(*chosen)
            if patience < 0:
                raise Fault("it runs for ever")
        if not self.done.all():
            waits = int(np.flatnonzero(~self.done)[0])
            text = self.program.steps[self.at[waits]].of.text
            raise Fault(f"{text}: {self.name(waits)} and others wait for others for ever")

    def _choose(self):
        """The threads that go next, and the instruction at which they stand: the first, so that others catch up."""
        ready = np.flatnonzero(self.ready)
        if not len(ready) and self._let_warps_go(np.flatnonzero(~self.done & ~self.at_barrier)):
            ready = np.flatnonzero(self.ready)
        if not len(ready):
            return None
        if self.draw is not None:
            turn = self.turn[ready]
            ready = ready[turn == turn.min()]
        at = self.at[ready]
        first = at.min()
        return ready[at == first], int(first)

    def _advance(self, lanes, at: int) -> int:
        """Steps until the threads part, wait, or come where others may join them. Returns how many it took."""
        if len(lanes) == self.n:
            lanes = None
        steps, labels, begin = self.program.steps, self.program.kernel.labels, at
        taken = 0
        while True:
            step = steps[at]
            taken += 1
            try:
                if step.take is None or (step.waits_for_its_warp and lanes is not None):
                    at = self._control(step, lanes, at)
                    if at is None:
                        return taken
                else:
                    step.take(self, lanes)
                    at += 1
            except Fault as fault:
                raise Fault(f"{step.of.text}: {fault}") from None
            if lanes is not None and at in labels and at != begin:
                self.at[lanes] = at
                return taken

    def _control(self, step, lanes, at: int) -> int | None:
        """Where these threads go on together; None where they do not."""
        name = step.of.name
        if name == "bra":
            return self._branch(step.of, lanes, at)
        numbers = self.numbers(lanes)
        if name in ("ret", "exit"):
            assert step.of.guard is None, step.of.text
            self.ready[numbers], self.done[numbers] = False, True
            return None
        self.at[numbers] = at
        self.ready[numbers] = False
        if step.waits_for_its_warp:
            self._let_warps_go(np.flatnonzero(~self.ready & ~self.done & ~self.at_barrier & (self.at == at)))
        else:
            assert step.of.modifiers[0] == "sync" and step.of.guard is None, step.of.text
            self.at_barrier[numbers] = True
            self._let_blocks_go()
        return None

    def _branch(self, one, lanes, at: int) -> int | None:
        if one.guard is None:
            goes = np.ones(1, bool)
        else:
            goes = self.pick(self.registers[one.guard], lanes) != one.unless
        if goes.all():
            to = one.target
        elif not goes.any():
            to = at + 1
        else:
            self.at[self.numbers(lanes)] = np.where(goes, one.target, at + 1)
            return None
        if lanes is None:
            return to
        self.at[lanes] = to
        return None

    def _let_warps_go(self, waiting) -> bool:
        """Warps of which all threads that are not done wait at the same instruction take it. Were there any?"""
        some = False
        for at in np.unique(self.at[waiting]):
            here = waiting[self.at[waiting] == at]
            come = np.bincount(self.warp_here[here], minlength=self.warps)
            left = np.bincount(self.warp_here[~self.done], minlength=self.warps)
            go = here[(come == left)[self.warp_here[here]]]
            if not len(go):
                continue
            some = True
            step = self.program.steps[at]
            if step.of.name == "bar":
                self.phase_of_warp[go] = self.clock.next(self.warps)[self.warp_here[go]]
            else:
                try:
                    step.take(self, go)
                except Fault as fault:
                    raise Fault(f"{step.of.text}: {fault}") from None
            self.at[go] = at + 1
            self.ready[go] = True
        return some

    def _let_blocks_go(self) -> None:
        """Blocks of which all threads have come to the barrier."""
        come = np.bincount(self.block_here[self.at_barrier], minlength=int(self.block_here[-1]) + 1)
        go = np.flatnonzero(self.at_barrier & (come == self.size)[self.block_here])
        if len(go):
            self.at_barrier[go], self.ready[go] = False, True
            self.at[go] += 1
            self._new_phase(go)

    def _new_phase(self, lanes) -> None:
        """These threads have a barrier of their block behind them. Who of them goes first now?"""
        self.phase[lanes] = self.clock.next(int(self.block_here[-1]) + 1)[self.block_here[lanes]]
        if self.draw is not None:
            self.turn[lanes] = self.draw.integers(2, size=len(lanes))


def play(program: Program, grid, block, arguments: dict, memory: GlobalMemory, seed: int | None) -> None:
    """A launch. arguments: {parameter: an array of one number}. seed: of the order; None for the plain one."""
    blocks, size = int(np.prod(grid)), int(np.prod(block))
    draw = None if seed is None else np.random.default_rng(seed)
    numbers = np.arange(blocks) if draw is None else draw.permutation(blocks)
    clock = Clock()
    at_once = max(1, AT_ONCE // size)
    with np.errstate(all="ignore"):
        for begin in range(0, blocks, at_once):
            some = numbers[begin : begin + at_once]
            Threads(program, grid, block, some, arguments, memory, clock, draw).play()
