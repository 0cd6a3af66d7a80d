"""A player of PTX: what NVIDIA's compiler made of a CUDA source runs on a processor, and every step is judged.

    reader.py        the text of a module becomes kernels and instructions
    program.py       an instruction becomes a step: operands are read, a result is put into a register
    instructions.py  what the instructions that only compute give: a table of small functions
    arithmetic.py    rounding, as a GPU does it
    warps.py         instructions of a whole warp: exchanges, and products of matrices
    memory.py        bounds, alignment, copies that are late, shared memory that begins as NaN
    races.py         who wrote and read each place last
    player.py        the order in which the threads of a launch take their steps
    module.py        in the place of CuPy's RawModule

Each launch is played twice: all threads at once, and in an order that is drawn. Both must leave the same bits.
"""

from . import memory
from .faults import Fault
from .module import Module, address

__all__ = ["Fault", "Module", "address", "memory"]
