"""The instruction mma.m16n8k16 played in NumPy: which lane of a warp holds which numbers of a, b and c.

    from minigpt.ops.cuda.ladder import fragments

    a_registers = fragments.scatter(a, fragments.A)      # (16,16) -> (32,8): eight numbers for each lane
    b_registers = fragments.scatter(b, fragments.B)      # (16,8)  -> (32,4)
    c_registers = fragments.scatter(c, fragments.C)      # (16,8)  -> (32,4)
    c_registers = fragments.mma(a_registers, b_registers, c_registers)
    c = fragments.gather(c_registers, fragments.C)       # c + a b
    print(fragments.picture(fragments.C))

Two neighbours of a register are one word of 32 bits on a GPU, where a and b are bfloat16 and c is float.
Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from typing import NamedTuple

import numpy as np

LANE = np.arange(32)[:, None]
G, T = LANE // 4, LANE % 4  # the manual's groupID and threadID_in_group


class Layout(NamedTuple):
    """Where register i of each lane stands in a matrix of this shape: rows (32, n), columns (32, n)."""

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray


def _layout(shape, rows, columns) -> Layout:
    return Layout(shape, *np.broadcast_arrays(rows, columns))


_I8, _I4 = np.arange(8), np.arange(4)
# a: two neighbours of row g, two of row g + 8, then both 8 columns further to the right
A = _layout((16, 16), G + 8 * (_I8 // 2 % 2), 2 * T + _I8 % 2 + 8 * (_I8 // 4))
# b: two neighbours in column g, then both 8 rows further down
B = _layout((16, 8), 2 * T + _I4 % 2 + 8 * (_I4 // 2), G)
# c: two neighbours of row g, then two of row g + 8
C = _layout((16, 8), G + 8 * (_I4 // 2), 2 * T + _I4 % 2)


def scatter(matrix: np.ndarray, layout: Layout) -> np.ndarray:
    """matrix of the layout's shape -> registers (32, n): what each lane holds."""
    return matrix[layout.rows, layout.columns]


def gather(registers: np.ndarray, layout: Layout) -> np.ndarray:
    """registers (32, n) -> the matrix. It undoes `scatter`."""
    matrix = np.empty(layout.shape, registers.dtype)
    matrix[layout.rows, layout.columns] = registers
    return matrix


def mma(a_registers: np.ndarray, b_registers: np.ndarray, c_registers: np.ndarray) -> np.ndarray:
    """a (32,8), b (32,4), c (32,4) -> (32,4): the registers of c + a b, as 32 lanes get it by one instruction.

    Each lane has 4 numbers of c, and needs 2 rows of a and 2 columns of b: the tensor core sees what all lanes hold.
    """
    a, b = gather(a_registers, A), gather(b_registers, B)
    out = np.array(c_registers)
    for lane in range(32):
        for i in range(4):
            out[lane, i] += a[C.rows[lane, i]] @ b[:, C.columns[lane, i]]
    return out


def picture(layout: Layout) -> str:
    """The matrix as lines of text: for each number "lane:register"."""
    lanes = gather(np.broadcast_to(LANE, layout.rows.shape), layout)
    registers = gather(np.broadcast_to(np.arange(layout.rows.shape[1]), layout.rows.shape), layout)
    lines = []
    for row in range(layout.shape[0]):
        lines.append(" ".join(f"{lane:2}:{i}" for lane, i in zip(lanes[row], registers[row], strict=True)))
    return "\n".join(lines)
