"""Exercise 21: RMSNorm as a kernel (lesson 21).

RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4) is LayerNorm without the mean:

    r = 1 / sqrt(mean(x^2) + eps),   out = g x r

With d = dout g, its gradient is dx = r (d - x r^2 mean(d x)). (On paper: derive it, as in lesson 06, section 4.)

Write both as kernels in C, with a warp of 32 lanes for each row. Blocks have 32 x 4 threads: threadIdx.x is the lane,
threadIdx.y the warp of the block. warp_sum is given. Replace the two lines marked "your turn", each by a few lines. Run
this file: it plays the kernels on your processor (or runs them on a GPU) and compares them with the reference, for
widths that are no multiples of 32 too:

    python lessons/exercises/21_rmsnorm.py
"""

import math

import numpy as np

WARP_SUM = """
__device__ float warp_sum(float value) {
    for (int apart = 16; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}
"""
FORWARD = """
extern "C" __global__ void rmsnorm(float* out, const float* x, const float* g, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += row * columns;      // now x[c] is column c of my row
    out += row * columns;
    // your turn: a sum by this lane, warp_sum, r (with eps = 1e-5f), and out[c] for this lane's columns
}
"""
BACKWARD = """
extern "C" __global__ void rmsnorm_backward(
    float* dx, const float* dout, const float* x, const float* g, int rows, int columns
) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += row * columns;
    dout += row * columns;
    dx += row * columns;
    // your turn: two sums over the row, each by warp_sum; then dx[c] for this lane's columns
}
"""


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def reference(x, g):
    """out (N,C), in float64"""
    out = np.zeros(x.shape)
    for n, row in enumerate(x.astype(float)):
        mean_square = sum(number * number for number in row) / len(row)
        out[n] = g * row / math.sqrt(mean_square + 1e-5)
    return out


def judge(rows, columns) -> bool:
    """Both kernels against loops and finite differences, for one shape."""
    from minigpt import gradcheck
    from minigpt.learn import kernel

    rng = np.random.default_rng(columns)
    x, dout = rng.standard_normal((2, rows, columns), dtype=np.float32)
    g = rng.standard_normal(columns, dtype=np.float32)
    out, dx = np.full((2, rows, columns), np.nan, np.float32)
    blocks = -(-rows // 4)
    kernel.run(WARP_SUM + FORWARD, "rmsnorm", blocks, (32, 4), out, x, g, rows, columns)
    kernel.run(WARP_SUM + BACKWARD, "rmsnorm_backward", blocks, (32, 4), dx, dout, x, g, rows, columns)
    numeric = gradcheck.numeric(lambda moved: reference(moved, g), x.astype(float), dout.astype(float))
    errors = [np.abs(out - reference(x, g)).max(), np.abs(dx - numeric).max()]
    good = [error < 1e-4 for error in errors]  # nan is not
    for name, error, right in zip(("out", "dx"), errors, good, strict=True):
        print(f"{rows} x {columns:3}: {name:3} differs by {error:.0e}: {'right' if right else 'not right'}")
    return all(good)


def main() -> int:
    """Judge the kernels; the exit status."""
    from minigpt.errors import InputError
    from minigpt.learn import kernel

    empty = [name for name, source in (("FORWARD", FORWARD), ("BACKWARD", BACKWARD)) if "your turn" in source]
    for name in empty:
        print(f"{name} returns nothing yet: your turn")
    if empty:
        return 1
    if kernel.problem():
        print(f"your kernels cannot be judged here: {kernel.problem()}")
        return 2
    try:
        right = all(judge(rows, columns) for rows, columns in ((2, 32), (5, 7), (3, 70)))
    except (AssertionError, InputError) as error:  # of the program that plays kernels
        print(f"not right: {error}")
        return 1
    print("solved: RMSNorm by warps" if right else "not solved yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
