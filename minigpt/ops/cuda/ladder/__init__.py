"""Kernels to learn CUDA from: two jobs, each in several files; each file is predicted to be faster than the last.

    from minigpt.ops.cuda import ladder

    print(ladder.source("product_2_tile"))
    c = ladder.run("product_2_tile", a, b)               # CuPy arrays (rows, inner), (inner, columns)
    out = ladder.run("attention_3_tiles", q, k, v)       # CuPy arrays (heads, length, D)
    print(ladder.table("product"))                       # what limits each rung on an H100: predicted, not measured

A rung is one short file that can be read alone: product_1_thread.cu, product_2_tile.cu, ... Its head says what it does,
what limits it, with the arithmetic, and what the next one changes. Attention is causal, forward only; the library's own
kernels (the folder above) have backward passes too. The library uses none of these rungs.

Words of the heads (NVIDIA's CUDA C++ Programming Guide defines them; lesson 21 introduces most):

    thread, block, grid   a kernel is the program of one thread; threads form blocks; all blocks are the grid
    warp, lane            32 threads of a block that run the same instruction at the same time; one of the 32
    multiprocessor        a part of the GPU (an H100 has 132) that runs whole blocks; it has its own cores, registers
                          (255 numbers of 4 bytes for a thread, at most) and shared memory
    the GPU's memory      where arrays are ("global memory"); it is read in pieces of 32 bytes
    coalesced             said of a read by a warp whose lanes read neighbouring numbers, so that no byte is wasted
    shared memory         a small memory of a multiprocessor, which the threads of a block share; it delivers 128 bytes
                          per clock, from 32 banks of 4 bytes: two different words of one bank take two clocks
    barrier               __syncthreads(): each thread waits there for all threads of its block
    clock                 one tick of a multiprocessor; "per clock" means: of one multiprocessor
    multiply-add          a * b + c by one instruction, counted as two operations
    tensor core           a unit that multiplies small matrices; mma is its instruction
    fragment              what one lane holds of such a matrix, in registers
    peak                  the most operations a second that a data sheet gives

**No GPU has run them yet.** tests/test_cuda_ladder.py compiles them for GPUs, and plays them on a processor: a small
program runs every thread of a kernel. There these mistakes are found (each was made on purpose, and seen):

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
