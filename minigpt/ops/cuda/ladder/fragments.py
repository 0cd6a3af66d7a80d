"""The instruction mma.m16n8k16 played in NumPy: which lane of a warp holds which numbers of a, b and c.

A warp is 32 threads (lanes). mma adds the product of a (16,16) and b (16,8) to c (16,8). Each lane holds a fragment: a
few numbers of each matrix, in its registers.

    from minigpt.ops.cuda.ladder import fragments

    a_registers = fragments.scatter(a, fragments.A)      # (16,16) -> (32,8): eight numbers for each lane
    b_registers = fragments.scatter(b, fragments.B)      # (16,8)  -> (32,4)
    c_registers = fragments.scatter(c, fragments.C)      # (16,8)  -> (32,4)
    c_registers = fragments.mma(a_registers, b_registers, c_registers)
    c = fragments.gather(c_registers, fragments.C)       # c + a b
    print(fragments.picture(fragments.C))

Here a register is one number. On a GPU a and b are bfloat16 and c is float: two numbers of a or b share one register of
32 bits.
Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from typing import NamedTuple

import numpy as np

LANE = np.arange(32)[:, None]
G, T = LANE // 4, LANE % 4  # the manual's groupID and threadID_in_group


class Layout(NamedTuple):
    """The place of register i of each lane in a matrix of this shape: its rows (32, n), its columns (32, n)."""

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray


def _layout_of_a() -> Layout:
    """Registers 0 and 1: neighbours in row g; 2 and 3: in row g + 8; 4 to 7: the same, 8 columns to the right."""
    i = np.arange(8)
    neighbour, below, right = i % 2, i // 2 % 2, i // 4
    rows = G + 8 * below
    columns = 2 * T + neighbour + 8 * right
    return Layout((16, 16), *np.broadcast_arrays(rows, columns))


def _layout_of_b() -> Layout:
    """Registers 0 and 1: in column g, one below the other; 2 and 3: the same, 8 rows further down."""
    i = np.arange(4)
    neighbour, below = i % 2, i // 2
    rows = 2 * T + neighbour + 8 * below
    return Layout((16, 8), *np.broadcast_arrays(rows, G))


def _layout_of_c() -> Layout:
    """Registers 0 and 1: neighbours in row g; 2 and 3: in row g + 8."""
    i = np.arange(4)
    neighbour, below = i % 2, i // 2
    rows = G + 8 * below
    columns = 2 * T + neighbour
    return Layout((16, 8), *np.broadcast_arrays(rows, columns))


A = _layout_of_a()
B = _layout_of_b()
C = _layout_of_c()


def scatter(matrix: np.ndarray, layout: Layout) -> np.ndarray:
    """matrix of the layout's shape -> registers (32, n): what each lane holds."""
    return matrix[layout.rows, layout.columns]


def gather(registers: np.ndarray, layout: Layout) -> np.ndarray:
    """registers (32, n) -> the matrix. It undoes `scatter`."""
    matrix = np.empty(layout.shape, registers.dtype)
    matrix[layout.rows, layout.columns] = registers
    return matrix


def mma(a_registers: np.ndarray, b_registers: np.ndarray, c_registers: np.ndarray) -> np.ndarray:
    """a (32,8), b (32,4), c (32,4) -> (32,4): the registers of c + a b, which 32 lanes get by one instruction.

    Each lane has 4 numbers of c, which need 2 rows of a and 2 columns of b. The tensor core reads the registers of all
    lanes.
    """
    a = gather(a_registers, A)
    b = gather(b_registers, B)
    out = np.array(c_registers)
    for lane in range(32):
        for i in range(4):
            row = a[C.rows[lane, i]]
            column = b[:, C.columns[lane, i]]
            out[lane, i] += row @ column
    return out


def picture(layout: Layout) -> str:
    """The matrix as lines of text, with "lane:register" in the place of each number."""
    texts = np.empty(layout.shape, dtype=object)
    for lane in range(32):
        places = zip(layout.rows[lane], layout.columns[lane], strict=True)
        for i, place in enumerate(places):
            texts[place] = f"{lane:2}:{i}"
    lines = []
    for row in texts:
        lines.append(" ".join(row))
    return "\n".join(lines)
