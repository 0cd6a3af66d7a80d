"""Kernels to learn CUDA from: two jobs, each done in several files, and each file faster than the one before.

    from minigpt.ops.cuda import ladder

    print(ladder.source("product_2_tile"))
    c = ladder.run("product_2_tile", a, b)               # CuPy arrays (rows, inner), (inner, columns)
    out = ladder.run("attention_3_tiles", q, k, v)       # CuPy arrays (heads, length, D)
    print(ladder.table("product"))                       # what limits each rung on an H100: predicted, not measured

A rung is one short file that can be read alone: product_1_thread.cu, product_2_tile.cu, ... Its head says what it does,
what limits it, with the arithmetic, and what the next one changes. Attention is causal and has its forward pass only;
the library's own kernels beside this folder have the backwards. The library uses none of these rungs.

**No GPU has run them yet.** tests/test_cuda_ladder.py compiles them for GPUs, and plays them on a processor, where
these mistakes are found (each was made on purpose, and seen):

    a missing __syncthreads()            "a race between threads": the numbers depend on the sequence of the threads
    a return in front of a barrier       "some threads of a block wait for others for ever"
    a missing `if (row < rows)`          "wrote out of bounds", or "a read out of bounds"
    an edge of a tile without its zeros  nan in the result: shared memory begins full of nan
    a row for ldmatrix that begins       "an address that is no multiple of what is moved"
      between two multiples of 16 bytes
    a fragment with a wrong row          other numbers than NumPy's

How fast a kernel is, and conflicts between banks of shared memory, are not found there.
"""

from minigpt.ops.cuda.ladder.predictions import MACHINES, Machine, Prediction, costs, predict, table
from minigpt.ops.cuda.ladder.rungs import RUNGS, Rung, constants_of, run, source

__all__ = [
    "MACHINES",
    "RUNGS",
    "Machine",
    "Prediction",
    "Rung",
    "constants_of",
    "costs",
    "predict",
    "run",
    "source",
    "table",
]
