# %% [markdown]
# # Lesson 21: one kernel
#
# You will write kernels for a GPU in plain C: GELU, forward and backward, with one thread for each
# number, and LayerNorm, where 32 threads read a row and add it up together. Deeper parts go on to a
# sum without a fixed value, and to tensor cores.
#
# Reading: 25 minutes for the core, 80 minutes for all of it. Running: 10 to 25 seconds. Before it:
# lessons 05 (GELU), 06 (LayerNorm) and 20 (the queue and the roofline).
#
# Sources: NVIDIA's CUDA C++ Programming Guide (programming model, memory access) and PTX ISA
# (`mma`, section 7). Harris 2007, Optimizing Parallel Reduction in CUDA.
#
# **The kernels of this project have not yet been run on a GPU.** Here they are *played*: a program,
# the *player*, runs every thread of a kernel on your processor (it needs Linux, g++ and a copy of
# the repository). It shows whether the numbers are right, not how fast a kernel is.

# %% [markdown]
# ## 1. Why: one thread, one number
#
# By the reference, GELU is 9 launches, and each reads and writes whole arrays (lesson 20). One
# kernel can read x once and write the result once.
#
# A kernel is the program of *one thread*. The GPU runs it for many threads. Up to 1,024 threads
# form a **thread block** (a *block*), and all blocks of a launch are the **grid**. A thread knows
# three numbers:
#
# - `threadIdx.x`, its place in its block,
# - `blockIdx.x`, the place of its block in the grid,
# - `blockDim.x`, how many threads a block has.
#
# So its place among all threads is `blockIdx.x * blockDim.x + threadIdx.x`. Ten numbers, with
# blocks of four threads, need three blocks. Two threads have nothing to do:

# %% tags=["hide-input"]
import numpy as np

from minigpt import ops, plot
from minigpt.device.threads import set_threads
from minigpt.learn import kernel

set_threads(1)  # small arrays: a second thread would only be in the way
drawing = plot.Diagram(9.2, 3, "10 numbers, 3 blocks of 4 threads")
for block in range(3):
    x = 1.6 + 3 * block
    numbers = [str(i) if i < 10 else "–" for i in range(4 * block, 4 * block + 4)]
    drawing.grid(x, 2.0, [list("0123")], f"blockIdx.x = {block}", "tab:orange", cell=0.6)
    drawing.grid(x, 0.75, [numbers], "", "tab:blue", cell=0.6)
drawing.text(4.6, 1.42, "threadIdx.x in the boxes; i = 4 blockIdx.x + threadIdx.x", "tab:orange")
drawing.text(4.6, 0.2, "x[i]; the last two threads must not read or write", "tab:blue")
plot.save(drawing.figure, "21_grid.png")

# %% [markdown]
# ## 2. The simplest kernel
#
# Here it is in C. `__global__` marks a kernel, and `extern "C"` keeps its name as it is. `float* x`
# is the address where an array begins: C knows no shapes. The second line of the body, the `if`, is
# easily forgotten. `kernel.ran` runs a kernel: it gets the number of blocks, the threads of a
# block, and the arguments. (Where that is not possible, it says why, and the lines below its `if`
# are left out.)

# %%
GELU = """
extern "C" __global__ void gelu(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;   // the number of this thread
    if (i >= n) return;                              // the last block is not full
    float z = x[i];
    float inner = z + 0.044715f * z * z * z;
    float s = 1 / (1 + expf(-1.5957691f * inner));   // sigmoid(2 sqrt(2/pi) inner)
    out[i] = z * s;
}
"""
X = np.random.default_rng(0).standard_normal(1000, dtype=np.float32)
out = np.full_like(X, np.nan)
if kernel.ran(GELU, "gelu", 8, 128, out, X, 1000):  # 8 blocks of 128 threads: 1,024 threads
    right = ops.gelu_forward(X)[0]
    print(f"largest difference from lesson 05's GELU: {np.abs(out - right).max():.0e}")
    assert np.allclose(out, right, atol=1e-6), "the kernel is GELU"

# %% [markdown]
# **The trap.** Without the line `if (i >= n) return;` 24 threads write beyond the end of the
# array. On a GPU this can go unnoticed: the numbers that are destroyed belong to another array. The
# player puts guard bytes around every array:

# %%
unguarded = "".join(text for text in GELU.splitlines(keepends=True) if "return;" not in text)
found = kernel.mistake(unguarded, "gelu", 8, 128, np.empty_like(X), X, 1000)
print("without the guard, the player finds:", found)
assert "out of bounds" in found or found == "not checked", "the mistake is found"

# %% [markdown]
# ## 3. Its backward
#
# With out = z s, where s is the sigmoid of $c\,(z + a z^3)$, the slope is
#
# $$
# \frac{d\,out}{dz} = s + z\, s\,(1 - s)\, c\,(1 + 3 a z^2).
# $$
#
# As a kernel, this has again one thread for each number. It computes s again, with some ten
# operations. To keep s would write four bytes, and to read it again four more. While four bytes
# come, a T4 could do 100 operations (lesson 20).

# %%
GELU_BACKWARD = """
extern "C" __global__ void gelu_backward(float* dx, const float* dout, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = x[i];
    float s = 1 / (1 + expf(-1.5957691f * (z + 0.044715f * z * z * z)));
    float slope = s + z * s * (1 - s) * 1.5957691f * (1 + 3 * 0.044715f * z * z);
    dx[i] = dout[i] * slope;
}
"""
DX = np.full_like(X, np.nan)
UPSTREAM = np.random.default_rng(1).standard_normal(1000, dtype=np.float32)
if kernel.ran(GELU_BACKWARD, "gelu_backward", 8, 128, DX, UPSTREAM, X, 1000):
    right_dx = ops.gelu_backward(UPSTREAM, ops.gelu_forward(X)[1])
    print(f"largest difference from lesson 05's gradient: {np.abs(DX - right_dx).max():.0e}")
    assert np.allclose(DX, right_dx, atol=1e-6), "the kernel is the backward of GELU"

# %% [markdown] tags=["deeper"]
# ### The slope, line by line
#
# The lines of the kernel in NumPy, their backward, and the check of lesson 05. (tanh u = 2
# sigmoid(2u) - 1, so (1 + tanh u) / 2 is sigmoid(2u): one exponential is enough.)

# %%
from minigpt.learn import lines

C2, A = 1.5957691216, 0.044715  # 2 sqrt(2 / pi), and the constant of the tanh form


def gelu_lines(x):
    inner = x + A * x * x * x
    s = 1 / (1 + np.exp(-C2 * inner))
    out = x * s
    return out


def gelu_lines_backward(dout, v):
    # out = x * s
    dx = dout * v.s
    ds = dout * v.x
    # s = sigmoid(C2 * inner): its slope is s (1 - s)
    dinner = ds * v.s * (1 - v.s) * C2
    # inner = x + A * x * x * x
    dx = dx + dinner * (1 + 3 * A * v.x * v.x)
    return dx


by_lines = lines.check(gelu_lines, gelu_lines_backward, X[:6].astype(float))
assert all(result.error < 1e-8 for result in by_lines), "each line is right"

# %% [markdown]
# ## 4. LayerNorm: who reads what
#
# LayerNorm needs the mean and the variance of a row (lesson 06). The simplest kernel gives each row
# to one thread, which goes along it with a loop. Another kernel lets 32 threads go along a row
# together: thread 0 reads column 0, thread 1 column 1, and so on. Both read the same numbers. Is
# there a difference?
#
# Threads run in groups of 32 that mostly execute the same instruction at the same time. Such a
# group is a **warp**, and each of its threads is a **lane**. What the 32 lanes read in one
# instruction is fetched together, and memory delivers pieces of 32 bytes, that is 8 float32. The
# picture shows an array with rows of 32 numbers: dark is what the 32 lanes read in one instruction,
# light is what is fetched with it.
#
# **Guess:** how many times as many bytes are fetched where each thread has a row of its own?

# %%
LANES = np.arange(32)


def pieces(places):
    """The pieces of 32 bytes that hold the float32 numbers at these places."""
    return np.unique(4 * places // 32)


figure, panels = plot.plt.subplots(1, 2, figsize=(8.6, 4.8))
shown = (("a thread for each row", 32 * LANES), ("a warp for each row", LANES))
for axes, (title, places) in zip(panels, shown, strict=True):
    memory = np.zeros((128, 8))  # a row is a piece
    memory[pieces(places)] = 0.35
    memory.flat[places] = 1
    axes.imshow(memory.reshape(32, 32), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set(title=f"{title}: {len(pieces(places))} pieces", xlabel="column", ylabel="row")
    axes.grid(visible=False)
plot.save(figure, "21_coalesced.png")
print("pieces for each instruction:", [len(pieces(places)) for _, places in shown])
assert len(pieces(32 * LANES)) == 8 * len(pieces(LANES)), "eight times as many bytes are moved"

# %% [markdown] tags=["answer"]
# **The same numbers, and eight times the bytes.** Nothing in the code of the slow kernel looks
# wrong.

# %% [markdown]
# If each lane reads a number of a row of its own, 32 pieces come, and 4 bytes of each are used. If
# 32 lanes read 32 neighbours, 4 pieces come, and all bytes are used. Such reads are called
# **coalesced**.

# %% [markdown] tags=["deeper"]
# ### The kernel with a thread for each row

# %%
BY_ROW = """
extern "C" __global__ void by_row(
    float* out, const float* x, const float* g, const float* b, int rows, int columns
) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* x_row = x + row * columns;          // where the row begins
    float mean = 0, var = 0;
    for (int c = 0; c < columns; c++) mean += x_row[c];
    mean /= columns;
    for (int c = 0; c < columns; c++) var += (x_row[c] - mean) * (x_row[c] - mean);
    float rstd = 1 / sqrtf(var / columns + 1e-5f);
    for (int c = 0; c < columns; c++)
        out[row * columns + c] = g[c] * (x_row[c] - mean) * rstd + b[c];
}
"""
rows_in, g_in, b_in = (np.random.default_rng(2).random(n, np.float32) for n in ((40, 70), 70, 70))
by_row = np.full_like(rows_in, np.nan)
if kernel.ran(BY_ROW, "by_row", 2, 32, by_row, rows_in, g_in, b_in, 40, 70):
    off = np.abs(by_row - ops.layernorm_forward(rows_in, g_in, b_in)[0]).max()
    print(f"largest difference from lesson 06: {off:.0e}")
    assert off < 1e-5, "a thread for each row is right"

# %% [markdown]
# It is right, and probably slow. (In the loop the same pieces are needed again, and a cache may
# still hold some of them. How much that saves can only be measured on a GPU.)
#
# One more thing about warps. An `if` can be true for some lanes of a warp and false for others.
# Then one part waits for the other. (Since 2017, with the generation called Volta, the parts may
# also take turns.)

# %% [markdown]
# ## 5. A warp for each row: a sum in five steps
#
# So 32 lanes share a row. Lane l adds up the columns l, l + 32, l + 64, … Then 32 partial sums must
# become one. Lanes of a warp can read each other's *registers*, the places for numbers inside a
# core, without any memory: this is a **warp shuffle**.
#
# In the first step lanes that are 16 apart exchange their numbers in pairs, and both add; then
# lanes that are 8, 4, 2 and 1 apart. The other lane of a pair is `lane ^ apart`: that flips one bit
# of the lane's number (5 ^ 4 = 1, and 1 ^ 4 = 5).
#
# **Your turn:** write one step for 8 lanes at once. `state[i]` is the number of lane i, and `lane`
# is the array 0 to 7.

# %%
from minigpt.learn import gap


def your_step(state, lane, apart):
    return ...


eight = np.array([3, 1, 4, 1, 5, 9, 2, 6])
in_pairs = np.tile(eight[:4] + eight[4:], 2)  # lanes 0 and 4, 1 and 5, 2 and 6, 3 and 7
gap.judge(your_step, eight, np.arange(8), 4, expected=in_pairs)

# %% [markdown] tags=["answer"]
# `state + state[lane ^ apart]`: its own number, and that of the other lane of its pair.

# %% [markdown]
# Here are all three steps. An arrow is what comes from the other lane; each lane also keeps its own
# number:

# %%
state = np.array([3, 1, 4, 1, 5, 9, 2, 6])
drawing = plot.Diagram(7.6, 4.2, "A sum of 8 lanes in 3 steps")
drawing.text(1.1, 3.5, "start")
drawing.grid(4.4, 3.5, [list(map(str, state))], "", "tab:blue", cell=0.6)
for step, apart in enumerate((4, 2, 1), start=1):
    others = np.arange(8) ^ apart
    state = state + state[others]  # all lanes at once
    drawing.text(1.1, 3.5 - step, f"{apart} apart")
    drawing.grid(4.4, 3.5 - step, [list(map(str, state))], "", "tab:blue", cell=0.6)
    for lane, other in enumerate(others):
        start, end = 2.3 + 0.6 * other, 2.3 + 0.6 * lane
        drawing.arrow((start, 4.18 - step), (end, 3.82 - step), color="tab:orange")
plot.save(drawing.figure, "21_shuffle.png")
print("after the last step every lane has", state)
assert (state == 31).all(), "every lane has the sum"

# %% [markdown]
# In C a shuffle is `__shfl_xor_sync`. Its first argument has a bit for each lane that takes part:
# these lanes wait for each other there. `__device__` marks a function that kernels call. Blocks
# have 32 x 4 threads here: `threadIdx.x` is the lane, and `threadIdx.y` says which of the block's
# four warps. Ten such blocks have 10 x 4 = 40 warps, one for each of our 40 rows.

# %%
WARP_SUM = """
__device__ float warp_sum(float value) {
    for (int apart = 16; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);   // 0xffffffff: all 32 lanes
    return value;
}
"""
BY_WARP = """
extern "C" __global__ void by_warp(float* out, const float* x, const float* g, const float* b,
                                   int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;                         // the same for all 32 lanes
    x += row * columns;                              // where the row begins
    float sum = 0, squares = 0;
    for (int c = lane; c < columns; c += 32) sum += x[c];
    float mean = warp_sum(sum) / columns;
    for (int c = lane; c < columns; c += 32) squares += (x[c] - mean) * (x[c] - mean);
    float rstd = 1 / sqrtf(warp_sum(squares) / columns + 1e-5f);
    for (int c = lane; c < columns; c += 32)
        out[row * columns + c] = g[c] * (x[c] - mean) * rstd + b[c];
}
"""
print("a sum of 32 lanes, and LayerNorm with a warp for each row")

# %%
ROWS, COLUMNS = 40, 70  # neither is a multiple of 32
XN = 1 + np.random.default_rng(2).standard_normal((ROWS, COLUMNS), dtype=np.float32)
XN[0] *= 0.001  # a row with a variance of 1e-6: a test sees it if + 1e-5 is missing
G, B = np.random.default_rng(3).standard_normal((2, COLUMNS), dtype=np.float32)
EXPECTED, KEPT = ops.layernorm_forward(XN, G, B)
by_warp = np.full_like(XN, np.nan)
if kernel.ran(WARP_SUM + BY_WARP, "by_warp", 10, (32, 4), by_warp, XN, G, B, ROWS, COLUMNS):
    print(f"largest difference from lesson 06: {np.abs(by_warp - EXPECTED).max():.0e}")
    assert np.allclose(by_warp, EXPECTED, atol=1e-5), "a warp for each row is right"

# %% [markdown]
# 70 columns are 32 + 32 + 6. In the third iteration of each loop only six lanes have a column. But
# `warp_sum` needs all 32 lanes, so it is called after the loop.

# %% [markdown] tags=["deeper"]
# ## 6. A sum over rows, and what is wrong with it
#
# In the backward pass, dx of a row needs sums of the same kind: two along the row (lesson 06,
# section 4). But dg and db are sums over all *rows*. If every thread adds to the same number, they
# disturb each other: to add, a thread reads the old sum, adds, and writes the new sum, and between
# these another thread may have written. This is called a **race condition**, or a race. The player
# runs each launch twice, with its threads in two orders, and compares. (It runs one thread after
# the other, so no addition is lost here. But in another order the sum is rounded differently, and
# its last bits show the race.)

# %%
RACE = """
extern "C" __global__ void race(float* sum, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[0] = sum[0] + x[i];
}
"""
found = kernel.mistake(RACE, "race", 8, 128, np.zeros(1, np.float32), X, 1000)
print("the player finds:", found)
assert "race" in found or found == "not checked", "the race is found"

# %% [markdown]
# CUDA has an instruction for this, the *atomic addition*: the threads add one after the other, in
# the sequence in which they happen to come. Then no addition is lost. But is the sum the same in
# every sequence? float32 has about 7 digits, so 1e8 + 1 is 1e8.

# %%
import math

large, one = np.float32(1e8), np.float32(1)
print(f"(1e8 + 1) - 1e8 = {(large + one) - large:.0f}", end=", but ")
print(f"(1e8 - 1e8) + 1 = {(large - large) + one:.0f}")
assert (large + one) - large == 0 and (large - large) + one == 1, "the order matters"


def one_by_one(numbers):
    """The sum over the first axis, from the first to the last, rounded at each addition."""
    return np.cumsum(numbers, axis=0)[-1]


draw = np.random.default_rng(4)
column = draw.standard_normal(4096, dtype=np.float32)
results = {float(one_by_one(draw.permutation(column))) for _ in range(200)}
print(f"4,096 numbers, added in 200 orders: {len(results)} different sums,", end=" ")
print(f"{min(results):.5f} to {max(results):.5f}")
assert len(results) > 20, "the sum depends on the order"
assert max(abs(value - math.fsum(column)) for value in results) < 1e-3, "the differences are small"

# %% [markdown]
# The differences are small. But with atomic additions two runs of the same training need not end in
# the same bits, and then a small mistake can look like rounding. **So no kernel of this library
# adds atomically. Each sum has a fixed order.** The rows are divided into stripes, and one kernel
# is launched twice:
#
# 1. The first launch reads x (rows, columns). A thread adds up one column of one stripe, row after
#    row. The result is (stripes, columns).
# 2. The second launch reads this result, as if it were an x whose rows are all one stripe. It has
#    one thread for each column, and its result is the sum of each column.
#
# Neighbouring threads take neighbouring columns, so the reads are coalesced. (A block has at most
# 1,024 threads, so our kernel can have at most 32 stripes. The library's gives the stripes of one
# column to several blocks, and so has more of them.)

# %%
import re
from pathlib import Path

from minigpt.ops.cuda import kernels

COLUMN_SUMS = """
extern "C" __global__ void column_sums(float* sums, const float* x, int rows, int columns,
                                       int stripe) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, s = threadIdx.y;   // column, stripe
    if (c >= columns) return;
    int end = (s + 1) * stripe < rows ? (s + 1) * stripe : rows;      // the smaller one
    float sum = 0;
    for (int row = s * stripe; row < end; row++) sum += x[row * columns + c];
    sums[s * columns + c] = sum;
}
"""
sources = sorted(Path(kernels.__file__).parent.glob("*.cu*"))
atomic = [file.name for file in sources if re.search(r"atomic\w*\(", file.read_text("utf-8"))]
print(f"of {len(sources)} files of kernels, {len(atomic)} add atomically")
assert len(sources) > 5 and not atomic, "no kernel of the library adds atomically"

# %%
def sums_of_columns(x, stripe):
    """The sums of the columns by two launches; None where no kernel can be run."""
    rows, columns = x.shape
    stripes, blocks = -(-rows // stripe), -(-columns // 32)  # rounded up
    parts, sums = np.zeros((stripes, columns), np.float32), np.zeros(columns, np.float32)
    given = (parts, x, rows, columns, stripe)  # from (rows, columns) to (stripes, columns)
    if not kernel.ran(COLUMN_SUMS, "column_sums", blocks, (32, stripes), *given):
        return None
    given = (sums, parts, stripes, columns, stripes)  # from (stripes, columns) to (1, columns)
    kernel.run(COLUMN_SUMS, "column_sums", blocks, (32, 1), *given)
    return sums


drawing = plot.Diagram(8, 3.4, "Ten rows of ones, in stripes of four rows: two launches")
drawing.grid(1.2, 1.5, [["1"] * 3] * 10, "x", "tab:blue", cell=0.25)
drawing.grid(4, 1.5, [list("444"), list("444"), list("222")], "sums of the stripes", "tab:orange")
drawing.grid(6.8, 1.5, [["10"] * 3], "sums", "tab:green", cell=0.5)
drawing.arrow((1.8, 1.5), (3.1, 1.5))
drawing.arrow((4.9, 1.5), (5.9, 1.5))
plot.save(drawing.figure, "21_stripes.png")
of_ones = sums_of_columns(np.ones((10, 3), np.float32), stripe=4)
print("the sums of three columns of ten ones:", of_ones)
assert of_ones is None or (of_ones == 10).all(), "as in the picture"

# %%
DOUT = np.random.default_rng(5).standard_normal((ROWS, COLUMNS), dtype=np.float32)
_, DG, DB = ops.layernorm_backward(DOUT, KEPT)
X_HAT = (XN - XN.mean(axis=-1, keepdims=True)) / np.sqrt(XN.var(axis=-1, keepdims=True) + 1e-5)
for name, summed, right_sums in (("dg", DOUT * X_HAT, DG), ("db", DOUT, DB)):
    by_launches = sums_of_columns(summed, stripe=8)
    if by_launches is not None:
        print(f"{name} by two launches differs by {np.abs(by_launches - right_sums).max():.0e}")
        assert np.allclose(by_launches, right_sums, atol=1e-5), f"{name} is right"

# %% [markdown]
# The stripes have a second advantage. In one long sum of 65,536 numbers, the first of them goes
# through 65,535 additions, each rounded. In 256 stripes of 256, no number goes through more than
# 510. How much less is the rounding? It depends on the numbers: with mean 1 the long sum grows, and
# each addition rounds more.


# %%
def in_stripes(rows, stripe):
    parts = [one_by_one(rows[first : first + stripe]) for first in range(0, len(rows), stripe)]
    return one_by_one(np.stack(parts))


less = {}
print("65,536 numbers   off on average: one long sum   256 stripes")
for mean in (0, 1):
    many = mean + np.random.default_rng(6).standard_normal((65_536, 32), dtype=np.float32)
    exact = many.sum(axis=0, dtype=np.float64)
    long, short = (np.abs(s - exact).mean() for s in (one_by_one(many), in_stripes(many, 256)))
    print(f"of mean {mean} {long:35.5f} {short:13.5f}")
    less[mean] = long / short
assert less[1] > 5 and less[0] > 2, "stripes round less, above all where the sum grows"

# %% [markdown] tags=["deeper"]
# ## 7. A ladder: one product in four kernels
#
# LayerNorm uses each number a few times. A product of matrices uses each number many times, and
# most of a GPT's arithmetic is products (lesson 20). The folder `minigpt/ops/cuda/ladder/` has one
# product in four kernels, and causal attention in five. A *rung* is one of them: a short file that
# can be read alone, and that changes one thing of the rung before it. (The library uses no rung. It
# leaves products to NVIDIA's library.)
#
# The product is c = a b, with a (rows, inner) and b (inner, columns).

# %% [markdown]
# ### Rung 1: one thread for each number of c
#
# It is as simple as GELU:
#
#     # minigpt/ops/cuda/ladder/product_1_thread.cu
#     float sum = 0;
#     for (int k = 0; k < inner; k++) sum += row_of_a[k] * b[(long long)k * columns + column];
#
# Neighbouring threads read neighbours of b and the same number of a, so all reads are coalesced.
# But each multiply-add (a multiplication and an addition) needs two loads. A multiprocessor is a
# part of the GPU with its own cores. In one clock tick it starts at most one load of a warp, and at
# most four multiply-adds of a warp (NVIDIA's guide, and its white paper on the H100). Two loads
# take two ticks. In two ticks eight multiply-adds could start, and there is one. So at most an
# eighth of the peak rate is possible, even if a cache has all numbers.

# %% [markdown]
# ### Rung 2: tiles in shared memory
#
# **Shared memory** is a small memory inside the multiprocessor that the threads of a block share. A
# block of 32 x 32 threads computes 32 x 32 numbers of c, a *tile*. It goes along k in steps of 32.
# In each step its threads together copy a tile of a and a tile of b to shared memory, and then use
# them:
#
#     # minigpt/ops/cuda/ladder/product_2_tile.cu
#     a_tile[y][x] = a_is_there ? a[(long long)row * inner + first + x] : 0;
#     b_tile[y][x] = b_is_there ? b[(long long)(first + y) * columns + column] : 0;
#     __syncthreads();  // the tiles are complete
#     for (int k = 0; k < TILE; k++) sum += a_tile[y][k] * b_tile[k][x];
#     __syncthreads();  // no thread reads these tiles any more
#
# Each thread copies one number of a and one of b (`first` is where this step begins; beyond an edge
# there is a 0). A number that was copied once is used by 32 threads. `__syncthreads()` is a
# **barrier**: each thread waits there until all threads of its block have arrived. We play both
# rungs, and the third, which is explained below. The tiles are 4 x 4, and the sizes are not
# multiples of 4. Then we play rung 2 without the first barrier.

# %%
from minigpt.ops.cuda import ladder
from minigpt.ops.cuda.ladder import fragments

LEFT = np.random.default_rng(7).integers(-4, 5, (9, 6)).astype(np.float32)
RIGHT = np.random.default_rng(8).integers(-4, 5, (6, 7)).astype(np.float32)


def launch_of(plan, c):
    """What a launch needs besides its source: name, grid, threads of a block, and arguments."""
    grid = -(-7 // plan.columns), -(-9 // plan.rows)  # blocks, rounded up
    return "product", grid, plan.threads[:2], c, LEFT, RIGHT, 9, 7, 6


SMALL = {"product_1_thread": {"TILE": 4}, "product_2_tile": {"TILE": 4}}
# rung 3: a block has 2 x 2 threads, each computes 2 x 2 numbers, and a step along k is 4 long
SMALL["product_3_registers"] = {"THREADS": 2, "EACH": 2, "DEPTH": 4}
for name, small in SMALL.items():
    plan = ladder.RUNGS[name].plan(ladder.constants_of(name, **small))
    by_rung = np.full((9, 7), np.nan, np.float32)
    if kernel.ran(ladder.source(name, **small), *launch_of(plan, by_rung)):
        print(f"{name}: largest difference from NumPy {np.abs(by_rung - LEFT @ RIGHT).max():.0f}")
        assert (by_rung == LEFT @ RIGHT).all(), "whole numbers, so every sum is exact"

# %%
tile_source = ladder.source("product_2_tile", TILE=4)
no_barrier = tile_source.replace("__syncthreads();  // the tiles are complete", "")
assert len(no_barrier) < len(tile_source), "the first barrier is gone"
plan_of_tiles = ladder.RUNGS["product_2_tile"].plan({"TILE": 4})
found = kernel.mistake(no_barrier, *launch_of(plan_of_tiles, np.zeros((9, 7), np.float32)))
print("the player finds:", found)
assert "race" in found or found == "not checked", "the missing barrier is found"

# %% [markdown]
# ### Rung 3: 8 x 8 numbers for each thread
#
# Rung 2 needs fewer bytes from memory, but there are still two loads for each multiply-add, now
# from shared memory. Rung 3 lets a thread compute 8 x 8 numbers of c (`EACH` is 8). For each k
# it loads 8 numbers of a and 8 of b into registers, and makes 64 multiply-adds with these 16:
#
#     # minigpt/ops/cuda/ladder/product_3_registers.cu
#     for (int i = 0; i < EACH; i++) a_column[i] = a_tile[y + i * THREADS][k];
#     for (int j = 0; j < EACH; j++) b_row[j] = b_tile[k][x + j * THREADS];
#     for (int i = 0; i < EACH; i++) {
#     for (int j = 0; j < EACH; j++) sums[i][j] += a_column[i] * b_row[j];
#     }
#
# Here is the same count for other values of EACH. In one tick a multiprocessor starts at most one
# load of a warp, and at most four instructions of a warp, loads among them. The sums fill
# registers, of which a thread has at most 255.

# %%
bounds = {}
print("EACH   loads   multiply-adds   loads for each   at most, of the peak   sums in registers")
for each in (1, 2, 4, 8, 16):
    loads, adds = 2 * each, each * each
    ticks = max(loads, (loads + adds) / 4)
    bounds[each] = adds / 4 / ticks
    print(f"{each:4} {loads:7} {adds:15} {loads / adds:16.3f} {bounds[each]:22.0%} {adds:19}")
assert bounds[1] == 1 / 8 and bounds[8] == 0.8, "an eighth of the peak; four fifths"
predicted = [ladder.predict(name).share for name in ("product_2_tile", "product_3_registers")]
assert np.allclose(predicted, [bounds[1], bounds[8]]), "the library's prediction is this count"

# %% [markdown]
# ### Rung 4: tensor cores
#
# **Tensor cores** are units that multiply small matrices of short numbers, here bfloat16 (lesson
# 17). One instruction of a warp, `mma`, adds the product of a (16,16) and b (16,8) to c (16,8).
# That is 2,048 multiply-adds. No lane has a whole matrix: each of the 32 lanes holds 8 numbers of
# a, 4 of b and 4 of c in its registers. What one lane holds is called a **fragment**. NVIDIA's
# manual says which numbers these are: that is how the unit is built, and no program can choose
# another way. The color is the lane:

# %%
figure, panels = plot.plt.subplots(1, 3, figsize=(9.4, 5), width_ratios=(16, 8, 8))
figure.suptitle("The lane that holds each number; those of lane 5 are bold")
for axes, letter in zip(panels, "ABC", strict=True):
    layout = getattr(fragments, letter)
    owner = fragments.gather(np.broadcast_to(LANES[:, None], layout.rows.shape), layout)
    axes.imshow(owner, cmap="YlGnBu", vmin=0, vmax=60)
    for (row, column), lane in np.ndenumerate(owner):
        bold = "bold" if lane == 5 else "normal"
        axes.text(column, row, str(lane), ha="center", va="center", fontsize=9, weight=bold)
    axes.set(title=f"{letter.lower()} {layout.shape}", xticks=(), yticks=())
    axes.grid(visible=False)
plot.save(figure, "21_fragments.png")
places_of_5 = zip(layout.rows[5].tolist(), layout.columns[5].tolist(), strict=True)
print("lane 5 holds these places of c:", *places_of_5)

# %% [markdown]
# Now play one `mma`. `scatter` gives each lane its numbers, and `gather` puts a matrix together
# again. Two questions. Which lanes have the numbers that the results of lane 5 depend on? And: a is
# (16,16) and c is (16,8). Is the layout of c the same as the layout of one half of a?

# %%
draw_16, LAYOUTS = np.random.default_rng(9), (fragments.A, fragments.B, fragments.C)
a16, b16, c16 = (draw_16.integers(-4, 5, layout.shape) for layout in LAYOUTS)
pairs_of = zip((a16, b16, c16), LAYOUTS, strict=True)
held = [fragments.scatter(matrix, layout) for matrix, layout in pairs_of]
for letter, registers in zip("abc", held, strict=True):
    print(f"registers of {letter}: {registers.shape}; lane 5 has {registers[5]}")
result = fragments.gather(fragments.mma(*held), fragments.C)
assert np.array_equal(result, c16 + a16 @ b16), "32 lanes together make a product"
rows_of_5, columns_of_5 = fragments.C.rows[5], fragments.C.columns[5]
is_needed = np.isin(fragments.A.rows, rows_of_5)  # (lanes, registers): is it in one of these rows?
of_a = np.flatnonzero(is_needed.any(axis=1))  # the lanes that hold at least one such number
of_b = np.flatnonzero(np.isin(fragments.B.columns, columns_of_5).any(axis=1))
print(f"its results need a of the lanes {of_a}\nand b of the lanes {of_b}")
assert len(of_a) == 4 and len(of_b) == 8, "only the whole warp can make this product"

# %%
for columns_of_half, half in (("0 to 7", slice(0, 4)), ("8 to 15", slice(4, 8))):
    same_rows = fragments.A.rows[:, half] == fragments.C.rows
    same_columns = fragments.A.columns[:, half] % 8 == fragments.C.columns
    same = same_rows.all() and same_columns.all()
    print(f"columns {columns_of_half} of a: the lanes as in c? {same}")
    assert same, "a lane holds c as it holds each half of a"

# %% [markdown]
# So all 32 lanes must arrive at an `mma`. And c is distributed over the lanes as one half of a is.
# So two results c, side by side and rounded to bfloat16, are already the registers of a factor a
# for the next `mma`. The last rungs of attention use this: the probabilities go from the first
# product to the second, and no number moves to another lane.

# %% [markdown]
# ### What the counts predict
#
# Here are all rungs. The first figure of "of peak" is for caches that keep nothing, the second for
# caches that keep everything. Both are upper bounds. For `mma` they rest on an assumption: that it
# reaches 63 % of the tensor cores' peak on an H100.

# %%
seconds = {}
for job in ("product", "attention"):
    print(ladder.table(job), end="\n\n")
    rungs = [name for name in ladder.RUNGS if name.startswith(job)]
    seconds[job] = np.array([ladder.predict(name).seconds for name in rungs])
assert (np.diff(seconds["attention"]) < 0).all(), "each rung of attention is predicted to be faster"
assert seconds["attention"][0] > 50 * seconds["attention"][2], "from memory to tiles"
assert seconds["product"][0] == seconds["product"][1], "rung 2 of the product: no faster by count"
assert (np.diff(seconds["product"][1:]) < 0).all(), "and each rung after it is"

# %% [markdown]
# Look at the first two rungs of the product: both have 16.4 ms "at least". That is the case of
# caches that keep everything, and then shared memory brings nothing. If they keep nothing, rung 1
# is six times slower, and rung 2 is as fast as before. So rung 2 does not raise the bound. It makes
# sure that it does not depend on the caches.
#
# **These are predictions.** They come from counting loads and instructions in the source, from data
# sheets, and from that assumption. No GPU has run these kernels yet, and each may be slower than
# its bound: a warp waits for memory, and for barriers. `benchmarks/ladder.py` measures all rungs
# where there is a GPU. How far from such bounds is a real kernel? Boehm (2022, siboehm.com, "How to
# optimize a CUDA matmul kernel") measured kernels like our first three on an A6000: 8.5, 12.8 and
# 68.7 % of NVIDIA's library, and 93.7 % after wide loads, tuned sizes and tiles of warps. (Our rung
# 4 has wide loads and tiles of warps too. No rung copies the next tile while it uses this one.)
#
# What has been checked is that they compile, and that their numbers are right when they are played
# (`tests/test_cuda_ladder.py`). The player runs one thread after the other. So it finds no race
# inside a warp, and no write that other threads of a GPU would see too late.

# %% [markdown] tags=["deeper"]
# ## 8. In the library
#
# ### LayerNorm
#
# The library's `warp_sum` is ours (`wide` is float, or double for float64; `WARP` is 32):
#
#     # minigpt/ops/cuda/common.cuh
#     const int WARP = 32;  // threads that mostly run in step and can read each other's registers
#     ...
#     __device__ inline wide warp_sum(wide value) {
#
# And this is the middle of its LayerNorm, next to our `by_warp`. `n` is the row, and `each` calls
# a function for the place i of each number that this lane has:
#
#     # minigpt/ops/cuda/layernorm.cu
#     Row<real> row = load(x + n * columns, columns);
#     wide sum = 0;
#     each(columns, [&](int i) { sum += wide(row[i]); });
#     wide row_mean = warp_sum(sum) / columns;
#     wide squares = 0;
#     each(columns, [&](int i) {
#     wide deviation = wide(row[i]) - row_mean;
#     squares += deviation * deviation;
#     });
#     wide row_rstd = 1 / sqrt(warp_sum(squares) / columns + eps);
#
# Three things are new:
#
# - **The row stays in registers.** Our kernel reads x three times. `load` reads it once, and `row`
#   holds what this lane has of it: 24 numbers of 768.
# - **A thread requests 16 bytes at once**, four float32, called a *pack*. The reason is Little's
#   law: in lesson 20, with 4 bytes for each thread, the bandwidth was reached only if the latency
#   was short and the GPU held as many threads as it can. With a row in registers it holds fewer.
# - **Types and sizes are chosen when the kernel is compiled.** `template`, `Row<real>` and `real`
#   make one source serve float32, float64 and bfloat16. Registers have no addresses, so the
#   compiler must know the i of `row[i]`: it *unrolls* the loop in `each`, into code for each i.
#   `[&](int i) { … }` is C++ for Python's `lambda i: …`.
#
# It also keeps the mean and rstd of each row, two numbers, for the backward pass. x_hat, which
# lesson 06 kept, is computed again from x.
#
# We play the library's kernel on the same numbers. 70 is not a multiple of 4, so a pack is one
# number, and a lane has at most 3 of them:

# %%
library = kernels.source("layernorm", "float32", PACK=1, PACKS=3, WARPS=8)
by_library, (mean_row, rstd_row) = np.full_like(XN, np.nan), np.zeros((2, ROWS), np.float32)
given = (by_library, mean_row, rstd_row, XN, G, B, 1e-5, ROWS, COLUMNS)
if kernel.ran(library, "layernorm_forward", 5, (32, 8), *given):
    print(f"the library's kernel differs from ours by {np.abs(by_library - by_warp).max():.0e}")
    assert np.allclose(by_library, by_warp, atol=1e-6), "the same LayerNorm"

# %% [markdown]
# The source also says `__launch_bounds__(WARPS * WARP, SMALL ? 3 : 2)`. A block has 8 warps, 256
# threads. The line makes the compiler use so few registers that three such blocks (or two) fit into
# a multiprocessor at once. Why three? Two things pull in opposite directions:
#
# - *Many threads* have many loads on their way at the same time (Little's law again). A
#   multiprocessor of a T4 can hold 1,024 threads, that is four blocks.
# - *Few threads* have more registers each. A multiprocessor has 65,536 of them (NVIDIA's guide,
#   table of compute capabilities). With four blocks a thread may use 65,536 / 1,024 = 64, with
#   three 85. A row of 768 numbers takes 24 of them. We took 64 to be too few; it is not measured.
#
# `SMALL` is true where the part of a row needs at most 24 registers. Longer rows need more, so
# there two blocks must do.
#
# ### Attention (lesson 18)
#
# A block of 8 x 8 threads owns 32 queries of a head and meets keys in tiles of 32. Of these 32 x 32
# scores each thread computes 4 x 4, as in rung 3. It reads eight numbers from shared memory, of
# four queries and four keys, and makes 16 multiply-adds: each number that is read is used four
# times. This is the online softmax. r counts the four queries of a thread, and c its four keys.
# `largest` is m of lesson 18, and `sum` is z. `o[r]` is the thread's part of a row of o. `row_max`
# and `row_sum` combine the values of the threads of a row:
#
#     # minigpt/ops/cuda/attention.cu
#     new_largest = row_max(new_largest);
#     wide rescale = exp(largest[r] - new_largest);
#     largest[r] = new_largest;
#     sum[r] *= rescale;
#     multiply(o[r], rescale);
#     ...
#     wide e = exp(s[r][c] - largest[r]);
#     sum[r] += e;
#     ...
#     sum[r] = row_sum(sum[r]);
#
# ### Stripes
#
# For the gradients of g and b the library uses stripes too, with eight warps for each stripe, and
# at most 256 stripes (`kernels.stripe_of`).

# %%
print("rows     rows of a stripe")
for rows in (40, 8192, 65_536, 1_000_000):
    print(f"{rows:9,}   {kernels.stripe_of(rows):6,}")
assert kernels.stripe_of(65_536) == 256, "256 stripes of 256 rows"
assert 256 * kernels.stripe_of(1_000_000) >= 1_000_000, "256 stripes are enough for all rows"

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - Harris 2007 adds up an array in seven versions of one kernel, each faster than the one before.
#   Shuffles came later: his threads exchange numbers through shared memory.
# - The product in tiles is the example of shared memory in NVIDIA's guide. Rung 4 and the library's
#   attention use the instruction `mma`. For an H100 the PTX ISA has a newer one too, `wgmma`.
# - NVIDIA's guide says how warps, pieces of memory and blocks work. Which of them limits a kernel
#   can only be measured.
# - On tests: the library's kernels are judged as here, by the reference and by guard bytes and two
#   sequences of threads, in several types and odd sizes (`tests/test_cuda.py`).

# %% [markdown]
# ## 10. To keep
#
# - A kernel is the program of one thread. `blockIdx.x * blockDim.x + threadIdx.x` says which number
#   is its own, and the last block needs a guard.
# - The 32 threads of a warp read together. If they read neighbours, all bytes that come are used;
#   if each reads a row of its own, an eighth.
# - A warp adds up its 32 numbers in five exchanges between registers, without memory. All 32 lanes
#   must take part.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/21_rmsnorm.py`: RMSNorm as a kernel, forward and backward, with a warp for each row.
#    Run the file: it plays your kernel and judges it.
# 2. `exercises/21_find_the_bug.py`: LayerNorm by 4 lanes. Its author tried it on 8 columns, on 64
#    and on 768.
# 3. On paper: 32 lanes read every second float32 of an array. How many pieces of 32 bytes are
#    fetched, and what share of the bytes is used? And for 32 neighbours of float64?
# 4. On paper: a row of 768 numbers is added up by one thread, or by a warp with shuffles. How
#    many additions follow one another in each case?
# 5. Try it: let `warp_sum` start with apart = 8. Which lanes have which sum?
# 6. On paper: a block of rung 3 (section 7) computes 128 x 128 numbers of c. How many bytes does
#    it load from memory for each multiply-add? And a block of 32 x 32, as in rung 2?

# %%
print(f"lesson 21: every check is happy (kernels were run on: {kernel.place()})")
