# %% [markdown]
# # Lesson 20: the GPU, or a hundred operations for one number
#
# You will run one line on two machines, count what a training step asks of a GPU, and see why a small model leaves it
# idle. You will find that most operations of a GPT wait for memory, write a kernel as 32 lanes in step, meet a sum
# that has a different value each time, build attention that never holds its T x T table, give all orders of a step as
# one, and halve its numbers.
#
# Reading: 70 minutes. Running: 10 seconds. Before it: lessons 03 (attention, with its surprise) and 06 (LayerNorm).
# No GPU is needed: what one would do is counted here, and reckoned from published figures. Where there is one (a free
# notebook's T4 is enough), the same cells measure.
#
# Papers: Williams, Waterman and Patterson 2009 (Communications of the ACM 52, 4): the roofline. Milakov and
# Gimelshein 2018 (arXiv 1805.02867), algorithm 3: the online softmax. Dao et al. 2022 (FlashAttention, arXiv
# 2205.14135), algorithms 1 and 4.

# %% [markdown]
# ## 1. Why: one line, two machines

# %%
import inspect
import json
import math
import queue
import re
import threading
import time
from pathlib import Path

import numpy as np

import minigpt
from minigpt import gradcheck, ops, plot
from minigpt.device import arrays, gpu
from minigpt.device.threads import set_threads
from minigpt.gradcheck.judge import judge
from minigpt.models import costs
from minigpt.models.gpt2 import GPT2, SIZES, GPT2Config
from minigpt.nn import optim
from minigpt.ops.cuda import attention as cuda_attention
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.cuda_graph import Recorded

set_threads(1)
GPU = gpu.cuda_problem() is None


def line(x):
    return (x * x).sum()


for device in ("cpu", "cuda") if GPU else ("cpu",):
    x = arrays.to_device(np.arange(4, dtype=np.float32), device)
    answer = float(line(x))
    print(f"{arrays.array_module(x).__name__} says that 0 + 1 + 4 + 9 is {answer:.0f}")
    assert answer == 14

# %% [markdown]
# Nothing in `line` says where it runs. The array decides: NumPy's live in the computer's memory, CuPy's in that of
# the GPU, and both know `*` and `.sum()`. Where a function needs a name from one of the two, it asks
# `array_module(x)`. So does the reference of every operation in this book, and none was written twice.
#
# How long does it take? We ask the clock. If you have no GPU, its column is reckoned: two *orders*, which is what we
# call whatever a GPU is told to do (CUDA says: a kernel launch), of 5 microseconds each, and a memory that moves 320
# GB in a second. Sections 2 and 3 are about these two numbers.

# %%
LAUNCH = 5e-6  # seconds for one order to a GPU: a round guess, replaced by a measurement where there is a GPU
RESULTS = Path(minigpt.__file__).parent.parent / "benchmarks" / "results" / "gpu.json"
ROWS = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.is_file() else {}


def recorded(subject):
    """Show what has been measured about this on somebody's GPU, if anything has."""
    for name, row in ROWS.items():
        if subject in name.lower():
            about = row.get("measured", {})
            where = about.get("device", about.get("processor", "a machine without a name"))
            numbers = [f"{column} {x:.4g}" for column, x in row.items() if isinstance(x, (int, float))]
            print(f"   RECORDED on {where}, {about.get('date', 'undated')}: {name}: {', '.join(numbers)}")


def wait():
    """Until the GPU has done all that it was asked to do."""
    if GPU:
        gpu.cupy.cuda.Device().synchronize()


def clock(f, calls):
    wait()
    began = time.perf_counter()
    for _ in range(calls):
        f()
    wait()
    return (time.perf_counter() - began) / calls


def seconds(f):
    """How long a call takes: the best of five turns, since other programs can only make it slower."""
    f()  # the first call of anything is slow
    calls = int(min(1000, max(1, 0.005 / clock(f, 1))))
    return min(clock(f, calls) for _ in range(5))


if GPU:
    one = gpu.cupy.ones(1, np.float32)
    LAUNCH = seconds(lambda: one + one)
elif ROWS:
    print("There is no GPU here: we count and reckon. Lines that begin with RECORDED were measured elsewhere.")
else:
    print("There is no GPU here, and no measurement on one has been recorded yet: we count and reckon.")
recorded("copy")

sizes = 10 ** np.arange(8)
on_cpu, on_gpu = [], []
for n in sizes:
    x = np.full(n, 0.5, np.float32)
    on_cpu.append(seconds(lambda x=x: line(x)))
    if GPU:
        x = arrays.to_device(x, "cuda")
        on_gpu.append(seconds(lambda x=x: line(x)))
    else:
        on_gpu.append(max(2 * LAUNCH, 12 * n / 320e9))  # x is read, x * x is written, and read: 12 bytes for each
print(f"   numbers | NumPy, measured | a GPU, {'measured' if GPU else 'reckoned'}")
for n, its, theirs in zip(sizes[1::2], on_cpu[1::2], on_gpu[1::2], strict=True):
    print(f"{n:10,} | {1e6 * its:12,.0f} us | {1e6 * theirs:6,.0f} us")
crossing = float(np.exp(np.interp(math.log(2 * LAUNCH), np.log(on_cpu), np.log(sizes))))
print(f"while a GPU is given two orders, {2e6 * LAUNCH:.0f} us, NumPy is done with about {crossing:,.0f} numbers")
assert on_cpu[2] < 10 * on_cpu[0] and on_cpu[7] > 100 * on_cpu[2] and crossing < 1e6 and on_gpu[7] < on_cpu[7] / 3

# %% [markdown]
# Both columns begin flat: there the time is that of *asking*, whatever the size. Asking a GPU takes longer, and your
# processor has done with thousands of numbers before the GPU begins. At the other end the GPU wins by far. This
# lesson is about the two ends.
#
# **What a GPU is.** *Cores*: thousands of small arithmetic units, of which 32 at a time do the same thing to
# different numbers. *A memory of its own*, fast, but not as fast as the cores. And *a queue*: our program writes down
# what is to be done, and goes on. What it writes down are **kernels**, small programs for many cores. Three GPUs as
# published (in float32, without their special units for matrices):

# %%
DEVICES = {  # cores, clock in GHz, bytes per second from memory, operations per second
    "T4": (2560, 1.59, 320e9, 8.1e12),
    "A100 (40 GB)": (6912, 1.41, 1555e9, 19.5e12),
    "H100 SXM": (16896, 1.98, 3350e9, 67e12),
}
for name, (n_cores, ghz, memory, rate) in DEVICES.items():
    meanwhile = 4 * rate / memory
    print(f"   {name:12}: {n_cores:6,} cores, {rate / 1e12:4.1f} trillion operations and", end=" ")
    print(f"{memory / 1e9:5,.0f} GB a second: {meanwhile:.0f} operations while one number comes")
    assert abs(2e9 * n_cores * ghz / rate - 1) < 0.01 and 50 <= meanwhile < 102
_, _, MEMORY, RATE = DEVICES["T4"]

# %% [markdown]
# The rate is cores times clock times 2 (a multiplication and an addition at once), nothing deeper. What memory can move
# in a second is its *bandwidth*. The last column is the one to remember. **While one number of four bytes comes from
# memory, the cores could do fifty to a hundred operations.** A kernel that does less with a number leaves them idle.
#
# **The queue, and a trap.** We build one: a thread that obeys orders, one after the other. Then we order ten products
# of 1,000 x 1,000 matrices, and look at the clock too early:

# %%
todo = queue.Queue()


def obey():
    while True:
        todo.get()()
        todo.task_done()


threading.Thread(target=obey, daemon=True).start()
big = np.full((1000, 1000), 0.001, np.float32)
began = time.perf_counter()
for _ in range(10):
    todo.put(lambda: big @ big)
asked = time.perf_counter() - began
todo.join()  # wait until all is done
done = time.perf_counter() - began
for what, t in ("asked for", asked), ("done", done):
    print(f"ten products are {what} in {1000 * t:.2f} ms: {0.02 / t:,.2f} trillion operations per second")
assert asked < done / 3

# %% [markdown]
# Who stops the clock without waiting has timed the asking, and it always flatters. Our `clock` waits, before and
# after.

# %% [markdown]
# ## 2. Why a small model leaves it idle: count the orders
#
# Every array operation is a kernel, so an order, so some microseconds. In 5 of them a T4 could do 40 million
# operations. How many orders is a training step? We let an array count (`lessons/counted.py`). It does what NumPy
# does, and writes down each operation that makes new numbers: its name, the bytes read and written, the arithmetic,
# the size of the result. Views, such as a transpose, are free. A GPU is asked at least for that.

# %%
from counted import ORDERS, Counted, a_gpu_that_does_nothing, bare, orders_of

rng = np.random.default_rng(0)
x = rng.normal(size=(5, 7)).view(Counted)
found = orders_of(lambda: ((x * x).sum(axis=0) + x.T[0] @ x).reshape(1, 7))
print("four orders:", ", ".join(f"{order.name}, {order.work} operations" for order in found))
assert found == [("multiply", 8 * 70, 35, 35), ("add", 8 * 42, 35, 7), ("matmul", 8 * 47, 70, 7), ("add", 8 * 21, 7, 7)]

# %% [markdown]
# Now a training step by the reference, without dropout: loss, gradients, clipping, AdamW. Two models: nano, four
# layers 128 wide with 65 characters, a laptop's model; and GPT-2 small. The number of the reference's orders does not
# depend on how wide a model is, so the second may be 24 wide.

# %%
def count_step(config, batch=2, length=3, together=False):
    """The orders of a training step: (4,), of forward, backward, clipping and AdamW. together: the last two in one"""
    model = GPT2(config, seed=0)
    for parameter in model.parameters():
        parameter.data = parameter.data.view(Counted)
    optimizer = optim.AdamW(model.named_parameters())
    ids = rng.integers(config.vocab_size, size=(batch, length)).view(Counted)
    ORDERS.clear()
    loss, cache = model.loss(ids, ids)
    ends = [0, len(ORDERS)]
    model.loss_backward(cache)
    ends.append(len(ORDERS))
    if not together:
        optim.clip_by_global_norm(model.named_parameters(), None)  # measured, and not too long
    ends.append(len(ORDERS))
    optimizer.step(1e-3, 1.0 if together else None)
    return np.diff([*ends, len(ORDERS)])


nano, small = GPT2Config(vocab_size=65, **SIZES["nano"]), GPT2Config(**SIZES["small"])
narrow = GPT2Config(**SIZES["small"] | {"n_embd": 24, "vocab_size": 65, "n_positions": 8})
with ops.using("reference"):
    steps = {"nano": count_step(nano, 2, 64)}
    products = sum(order.work for order in ORDERS[: steps["nano"][:2].sum()] if order.name == "matmul")
    assert products == 2 * 64 * costs.flops_per_token(GPT2, nano)[1]  # our instrument agrees with `minigpt info`
    assert (count_step(GPT2Config(vocab_size=9, **SIZES["nano"] | {"n_embd": 8})) == steps["nano"]).all()
    steps["small"] = count_step(narrow)

print("      | orders: forward, backward, clipping, AdamW |   asking | arithmetic of a T4 | longer than asking")
busy_from = {}
for (name, parts), config, batch in zip(steps.items(), (nano, small), (12, 8), strict=True):
    _, for_a_token = costs.flops_per_token(GPT2, config)
    tokens, asking = batch * config.n_positions, LAUNCH * parts.sum()
    busy_from[name] = asking * RATE / for_a_token
    counts = ", ".join(f"{part:,}" for part in parts) + f": {parts.sum():,}"
    print(f"{name:5} | {counts:>42} | {1000 * asking:5.1f} ms | {1000 * tokens * for_a_token / RATE:6.1f} ms", end=" ")
    print(f"of {tokens:5,} | from {busy_from[name]:5,.0f} tokens on")
assert busy_from["nano"] > 4 * 12 * 64 and busy_from["small"] < 8 * 1024
tensors = [parameter.data.size for parameter in GPT2(narrow).parameters()]
assert len(tensors) == 148 and tensors.count(narrow.n_embd) == 74 and 12 <= steps["small"][3] / 148 < 13
assert 0.4 < steps["small"][3] / steps["small"].sum() < 0.6
recorded(": step, ")

# %% [markdown]
# The GPU works while orders are written, so a step takes at least as long as the *longer* of asking and arithmetic. For
# GPT-2 small that is the arithmetic. For nano it is the asking, and then **the GPU's speed does not matter at all**:
# a T4, an H100 and one that is infinitely fast take the same time.
#
# And look at AdamW: half a line of arithmetic, half of all orders. GPT-2 small has 148 tensors, half of them with no
# more than 768 numbers, and each wants a dozen orders.
#
# The worst case is a single token, as in lesson 17. Next to it, all that this machine's processor needs:

# %%
reader, token = GPT2(nano, seed=0), np.zeros((1, 1), int)
with ops.using("reference"):
    here = seconds(lambda: reader.forward(token, grad=False))
    for parameter in reader.parameters():
        parameter.data = parameter.data.view(Counted)
    asking = LAUNCH * len(orders_of(lambda: reader.forward(token, grad=False)))
arithmetic = costs.flops_per_token(GPT2, nano)[0] / RATE
print(f"one token through nano: {1000 * here:.2f} ms on this processor;", end=" ")
print(f"{1000 * asking:.2f} ms of asking a GPU, for {1e6 * arithmetic:.1f} microseconds of a T4's arithmetic")
assert asking > 500 * arithmetic and 0.05 < asking / here < 20

# %% [markdown]
# There is nothing to gain: asking alone is of the size of all the work here. There are two ways out. Let each order
# do more: a larger batch, a larger model. Or give fewer orders: one kernel for what is ten operations here. That is
# called *fusing*. It has a second reason, and the second is the better one.

# %% [markdown]
# ## 3. The roof: bytes and operations
#
# An order reads its arrays from memory and writes its result there. Take x + y: 12 bytes for one addition. While 12
# bytes come, a T4 can do 300 operations; 299 are lost. Take the product of two 1,024 x 1,024 matrices: 12 MB, and 2
# billion operations. There memory has nothing to say. What decides is the quotient, the **intensity**:
#
#     intensity = operations / bytes,      operations per second <= min(rate, memory * intensity)
#
# This is the *roofline* of Williams and others. Left of rate / memory, which is 25 for a T4, an order runs at the
# speed of memory, right of it at that of arithmetic; the corner is called the *ridge*. (tanh, exp and a root count as
# one operation each. They are more than that; section 5 would not change.) Here is the forward pass of one block of
# GPT-2 small, 1,024 tokens, by the reference: counted, then put under the roof of a T4, order by order. (We reckon as
# if no cache kept anything from one order to the next. A T4's holds 4 MB, and x has 3; a batch of several texts would
# not fit.)

# %%
T, C, NH = 1024, 768, 12


def counted(*shape):
    return (0.1 * rng.standard_normal(shape, dtype=np.float32)).view(Counted)


def bytes_and_work(orders):
    return sum(order.nbytes for order in orders), sum(order.work for order in orders)


def least_time(orders):
    return sum(max(order.nbytes / MEMORY, order.work / RATE) for order in orders)


x, other, f, qkv, g, b = (counted(*shape) for shape in ((T, C), (T, C), (T, 4 * C), (1, T, 3 * C), (C,), (C,)))
shapes = (C, 3 * C), (C, C), (C, 4 * C), (4 * C, C)
linear_maps = [(x if i == C else f, counted(i, o), counted(o)) for i, o in shapes]
with ops.using("reference"):
    BLOCK = {
        "4 linear": orders_of(lambda: [ops.linear_forward(*arrays) for arrays in linear_maps]),
        "attention": orders_of(lambda: ops.self_attention_forward(qkv, NH)),
        "gelu": orders_of(lambda: ops.gelu_forward(f)),
        "2 layernorm": orders_of(lambda: [ops.layernorm_forward(x, g, b) for _ in range(2)]),
        "2 residual": orders_of(lambda: [x + other for _ in range(2)]),
    }

print("             | orders |    MB | billion operations | operations per byte | ms under the roof")
for name, orders in BLOCK.items():
    size, work = bytes_and_work(orders)
    print(f"{name:12} | {len(orders):6} | {size / 1e6:5,.0f} | {work / 1e9:18.2f} |", end=" ")
    print(f"{work / size:19.2f} | {1000 * least_time(orders):.2f}")
everything = [order for orders in BLOCK.values() for order in orders]
by_memory = [order for order in everything if order.work / order.nbytes < RATE / MEMORY]
share_of_work = bytes_and_work(by_memory)[1] / bytes_and_work(everything)[1]
share_of_time = least_time(by_memory) / least_time(everything)
print(f"{len(by_memory)} of {len(everything)} orders wait for memory:", end=" ")
print(f"{share_of_work:.1%} of the arithmetic, {share_of_time:.0%} of the time")
assert share_of_work < 0.02 and share_of_time > 0.5
right_of_it = [order.work / order.nbytes for order in BLOCK["attention"] if order not in by_memory]
assert {order.name for order in everything if order not in by_memory} == {"matmul"} and max(right_of_it) < 30

# %% [markdown]
# Only products of matrices stand right of 25, those of attention just so. **All else is next to nothing of the
# arithmetic, and more than half of the time.** Cores twice as fast would do nothing for those 48 orders.
#
# **Where do LayerNorm's bytes come from?** Each of its ten orders reads arrays and writes one, for the next to read
# again. Count passes over the memory of x:

# %%
one_layernorm = BLOCK["2 layernorm"][:10]
print("layernorm:", ", ".join(f"{order.name} {order.nbytes / x.nbytes:.0f}" for order in one_layernorm))
passes = bytes_and_work(one_layernorm)[0] / x.nbytes
print(f"   {passes:.1f} passes. A kernel that reads x once and writes out once has 2")
assert len(BLOCK["2 layernorm"]) == 20 and abs(passes - 12) < 0.1

# %% [markdown]
# This is the better reason to fuse: *what stays in the cores need not go to memory and come back.* It is nothing that
# only GPUs know. Your processor has a roof too, and the library's fast LayerNorm takes x in pieces that fit into its
# cache. Measured here, one thread, 25 MB of x:

# %%
many_rows = rng.standard_normal((8192, C), dtype=np.float32)
took = {}
for name in "reference", "fast":
    with ops.using(name):
        took[name] = seconds(lambda: ops.layernorm_forward(many_rows, bare(g), bare(b)))
print("layernorm on this processor:", ", ".join(f"{name} {1000 * t:.0f} ms" for name, t in took.items()))
assert took["reference"] > 1.2 * took["fast"]

# %% [markdown]
# ## 4. A kernel, lane by lane
#
# A kernel is the program of *one* thread. The GPU runs it many times over, and each thread asks who it is. Threads
# stand in **blocks** of up to 1,024, and all blocks are the **grid**, as large as the work. The program is C++ with a
# few words more. `__global__` marks a kernel, and `extern "C"` lets its name be what it is. `float* x` says where an
# array begins: there are no shapes, and `x += row * columns` makes x begin at our row. And with blocks of `blockDim.x`
# threads the place of a thread in the whole grid is `blockIdx.x * blockDim.x + threadIdx.x`. LayerNorm, in the
# simplest way that is right, a thread for each row:

# %%
NAIVE = """
extern "C" __global__ void naive(
    float* out, const float* x, const float* g, const float* b, float eps, int rows, int columns
) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;  // who am I?
    if (row >= rows) return;                          // the last block may reach too far
    x += row * columns;
    out += row * columns;
    float mean = 0, var = 0;
    for (int c = 0; c < columns; c++) mean += x[c];
    mean /= columns;
    for (int c = 0; c < columns; c++) var += (x[c] - mean) * (x[c] - mean);
    float rstd = 1 / sqrtf(var / columns + eps);
    for (int c = 0; c < columns; c++) out[c] = g[c] * ((x[c] - mean) * rstd) + b[c];
}
"""

# %% [markdown]
# Right, and slow, for two reasons that one does not see in it. 1,024 rows are 1,024 threads, and a T4 has 2,560 cores.
# And memory hands out pieces of 32 bytes. 32 threads, a **warp**, run in step, as 32 *lanes* of it: what they read in
# one instruction is fetched together. If each reads the first number of a row of its own, how many pieces are fetched?
# And how many, if they share a row and read 32 neighbours?

# %%
WARP = 32
lanes = np.arange(WARP)


def pieces(places):
    """How many pieces of 32 bytes hold the numbers, of 4 bytes each, at these places"""
    return len(set(4 * places // 32))


print(f"pieces for 32 numbers: {pieces(C * lanes)} if each thread has a row, {pieces(lanes)} if each warp has one")
assert pieces(C * lanes) == 32 and pieces(lanes) == 4

# %% [markdown]
# Eight times as much is moved, and an eighth of it is used. (Caches may save some of that. How much only a clock can
# say.) So **a warp takes a row, and neighbouring threads read neighbouring numbers**; such reads are called
# *coalesced*. But now a sum is spread over 32 threads, each of which has added up 24 of 768 numbers. They meet in five
# steps. First each gives its sum to the thread 16 places away, and adds what it gets; then 8 places away, then 4, then
# 2, and at last 1. With eight threads:

# %%
def warp_sum(value):
    """value (*,N), N lanes: each brings a number, and goes home with the sum of all"""
    apart = value.shape[-1] // 2
    while apart:
        value = value + value[..., np.arange(value.shape[-1]) ^ apart]  # all lanes at once: one instruction
        apart //= 2
    return value


value = np.array([3, 1, 4, 1, 5, 9, 2, 6])
for apart in (4, 2, 1):
    value = value + value[np.arange(8) ^ apart]
    print(f"   {apart} apart:", *value)
assert (value == 31).all() and (warp_sum(np.array([3, 1, 4, 1, 5, 9, 2, 6])) == 31).all()

# %% [markdown]
# `i ^ apart` flips one bit of i, so lanes exchange in pairs. No memory is touched: threads of a warp can read each
# other's registers (a *warp shuffle*).
#
# **How much to ask for.** Memory is quick, but far away: between asking and having, which is its *latency*, lie
# hundreds of ticks of the clock (NVIDIA's programming guide says no more), and more when many ask. Say 300
# nanoseconds. So a GPU holds many more threads than it has cores: while some wait, others have their turn. (The share
# of its places that are taken is called *occupancy*.) What the memory delivers in 300 ns must all have been asked for
# before. How much is that for each thread?

# %%
AT_ONCE = {"T4": 40 * 1024, "A100 (40 GB)": 108 * 2048, "H100 SXM": 132 * 2048}  # threads that a GPU holds, published
for name, threads in AT_ONCE.items():
    n_cores, _, memory, _ = DEVICES[name]
    share = memory * 300e-9 / threads
    print(f"   {name:12}: {threads // n_cores} threads for each core, {threads:,} in all;", end=" ")
    print(f"{share:.1f} bytes for each of them")
    assert threads % n_cores == 0 and 2 < share < 4

# %% [markdown]
# So many at the counter = so many a minute x minutes for each: that is Little's law, and every supermarket obeys it.
# One float32 for each thread, 4 bytes, is just enough, if every place is taken and nobody does anything but ask. One
# 16-bit number (section 7) is not. And who keeps a row in registers leaves room for fewer threads. **So let each
# thread ask for more**: 16 bytes in one instruction, and again before the first have come. We call 16 bytes a *pack*:
# four neighbouring float32. It must begin at a multiple of 16 bytes. If the number of columns is not a multiple of 4,
# the second row begins in the middle of a pack; then a pack is a single number.
#
# This is the library's kernel:

# %%
source = (kernels.FOLDER / "layernorm.cu").read_text(encoding="utf-8")
start = source.index("const bool SMALL")
cuda = source[start : source.index("\n}\n", source.index("void layernorm_forward")) + 2]
print(cuda)

# %% [markdown]
# Read the kernel itself first, at the end. It is five sums and passes, each a line or two; what stands before it
# brings a row and takes it away. In the order of the text:
#
# - `real` is how a number is stored, `wide` what it is added up in. `Packed` is a pack, and `pack(p)` is what stands
#   at p, taken as one.
# - `Row` is what a lane has of a row: PACKS packs, of 768 float32 six. `row[i]` is the i-th of its numbers.
#   (`template <class Number>`: once for every type of number that is asked for.)
# - `column_of` says where a pack of it stands, and `is_there` whether there is one. `threadIdx.x` is the lane,
#   `threadIdx.y` its warp in the block, which has WARPS = 8 of them. (`__device__`: a function that kernels call.)
# - `each` does something for every i. (`[&](int i) { ... }` is C++ for `lambda i: ...`.) A register has no address
#   that a program could compute: `row[i]` can be in one only if the compiler knows i. So `#pragma unroll` has it write
#   the loop out. (UNROLL is 1, which means no, where a row is too long for that.)
# - `load` asks for all packs before the first is used. They stay in registers: the row comes once. `store` takes it
#   back.
#
# `__launch_bounds__(256, 3)` says: blocks have 256 threads, and three blocks should find room at once on each of the
# parts of a GPU (a T4 has 40 such *multiprocessors*, each with 65,536 registers). So a thread may have 65,536 / 768 =
# 85, and since they are handed out in eights, 80. For 768 columns that is just enough, to a register or four. A longer
# row needs more of them (it is not SMALL), and two blocks must do.
#
# And here the same in NumPy: each line does for 32 lanes, and for all rows, what the line of CUDA above it does for
# one. For float32 it makes the same additions in the same order.

# %%
def steps_of(columns):
    """each(columns, ...): for i = 0, 1, 2, ... the columns where the lanes have their i-th number"""
    pack = 4 if columns % 4 == 0 else 1  # as for float32: the library's pack of float64 is 2
    for i in range(-(-columns // (WARP * pack)) * pack):
        c = (i // pack * WARP + lanes) * pack + i % pack
        yield c[c < columns]  # in the last pack some lanes may rest


print("where neighbouring lanes have packs of four, side by side: after number 3, number 4 begins 128 further on")
for i, c in enumerate(list(steps_of(768))[:5]):
    print(f"   number {i} of lanes 0, 1, 2, ...: columns {c[0]}, {c[1]}, {c[2]}, ...")
for columns in (70, 140, 768, 1600):
    assert sorted(np.concatenate(list(steps_of(columns)))) == list(range(columns))  # every column once
assert pieces(np.arange(4 * WARP)) == 16  # 128 numbers that 32 lanes ask for in packs: again nothing comes in vain
assert 65_536 // (3 * 256) // 8 * 8 == 80 and 768 == 6 * 4 * WARP


def lanes_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    x, shape, columns = x.reshape(-1, len(g)), x.shape, len(g)
    # wide sum = 0;
    total = np.zeros((len(x), WARP), x.dtype)
    # each(columns, [&](int i) { sum += wide(row[i]); });
    for c in steps_of(columns):
        total[:, : len(c)] += x[:, c]
    # wide middle = warp_sum(sum) / columns;
    middle = warp_sum(total)[:, :1] / columns  # every lane has it; for us one is enough
    # wide squares = 0;
    squares = np.zeros((len(x), WARP), x.dtype)
    # each(columns, [&](int i) { squares += (wide(row[i]) - middle) * (wide(row[i]) - middle); });
    for c in steps_of(columns):
        squares[:, : len(c)] += (x[:, c] - middle) * (x[:, c] - middle)
    # wide scale = 1 / sqrt(warp_sum(squares) / columns + eps);
    scale = 1 / np.sqrt(warp_sum(squares)[:, :1] / columns + eps)
    out = np.empty_like(x)
    # each(columns, [&](int i) { row[i] = gain[i] * ((wide(row[i]) - middle) * scale) + shift[i]; });
    for c in steps_of(columns):
        out[:, c] = g[c] * ((x[:, c] - middle) * scale) + b[c]
    return out.reshape(shape), (x, middle, scale, g)


quoted = re.findall(r"# (.+;)\n", inspect.getsource(lanes_forward))
assert len(quoted) == 7 and all(quote in cuda for quote in quoted)

# %% [markdown]
# Kept are x, which lies in memory already, and two numbers for each row. Lesson 06 wrote another array of that size,
# x_hat: a third pass, to spare the backward pass two operations for each number. By now you know what two operations
# cost.
#
# **The backward pass.** dx is the same story: two sums along a row, then one pass (lesson 06, section 4). But the
# gradients of g and b are sums over all *rows*, and thousands of threads would add to the same number. There is an
# instruction for that, the atomic addition: whoever comes first adds first. Surely a sum does not depend on the
# order?

# %%
large, one = np.float32(1e8), np.float32(1)
print(f"(1e8 + 1) - 1e8 = {(large + one) - large:.0f}, but (1e8 - 1e8) + 1 = {(large - large) + one:.0f}")
assert (large + one) - large == 0 and (large - large) + one == 1


def in_order(numbers):
    """The sum over the first axis, from the first to the last, rounded at each step"""
    return np.cumsum(numbers, axis=0)[-1]


column = rng.standard_normal(4096, dtype=np.float32)
sums = {float(in_order(rng.permutation(column))) for _ in range(200)}
print(f"4,096 numbers added up in 200 orders: {len(sums)} different sums, {min(sums):.5f} to {max(sums):.5f}")
assert len(sums) > 20 and max(abs(found - math.fsum(column)) for found in sums) < 1e-3

# %% [markdown]
# It does. Each addition rounds, and what is lost depends on what was there before. With atomics every run of a
# training can have other bits, and a mistake cannot be told from chance. **So no kernel of this library uses atomics.
# Every sum has an order that does not depend on who comes first.**
#
# For dg and db it goes by stripes of rows. A stripe has a block of eight warps: warp 0 takes its rows 0, 8, 16, ...,
# warp 1 its rows 1, 9, 17, ... A lane has the numbers of a row in its registers anyway, for dx; it adds them to sums
# that stay there too. At the end of a stripe its warps' sums are added up, in order. A second kernel does the same with
# the sums of all stripes, of which there are 256 at most. And there is a present in it:

# %%
def by_warps(rows, warps):
    """rows (N,C) -> their sum (C,): every warp its own rows, then the warps, in order"""
    return in_order(np.stack([in_order(rows[w::warps]) for w in range(min(warps, len(rows)))]))


def by_warps_and_stripes(rows, warps, stripe):
    """The same for each stripe of rows, and then for the sums of the stripes"""
    stripes = [rows[first : first + stripe] for first in range(0, len(rows), stripe)]
    return by_warps(np.stack([by_warps(some, warps) for some in stripes]), warps)


rows = 1 + rng.standard_normal((65_536, 32), dtype=np.float32)  # 64 texts of 1,024 tokens
in_stripes = by_warps_and_stripes(rows, warps=8, stripe=256)
off = [np.abs(found - rows.sum(axis=0, dtype=np.float64)).mean() for found in (in_order(rows), in_stripes)]
print(f"sums of 65,536 numbers: off by {off[0]:.4f} from one end to the other, by {off[1]:.4f} in 256 stripes")
assert off[1] < off[0] / 5 and kernels.stripe_of(65_536) == 256 and kernels.WARPS == 8

# %% [markdown]
# **The order that is good for many threads is good for rounding too**: no number meets a sum that is thousands of
# times as large. The backward kernel, with stripes of four rows for two warps:

# %%
def lanes_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    x, middle, scale, g = cache
    shape, dout = dout.shape, dout.reshape(x.shape)
    shift, stretch = np.zeros((2, len(x), WARP), x.dtype)
    for c in steps_of(len(g)):
        d = dout[:, c] * g[c]
        shift[:, : len(c)] += d
        stretch[:, : len(c)] += d * ((x[:, c] - middle) * scale)
    shift, stretch = (warp_sum(part)[:, :1] / len(g) for part in (shift, stretch))
    dx = np.empty_like(x)
    for c in steps_of(len(g)):
        dx[:, c] = scale * (dout[:, c] * g[c] - shift - (x[:, c] - middle) * scale * stretch)
    dg, db = (by_warps_and_stripes(rows, 2, 4) for rows in (dout * ((x - middle) * scale), dout))
    return dx.reshape(shape), dg, db


trials = list(judge("layernorm", lanes_forward, lanes_backward))
for columns in (70, 140):  # 32 + 32 + 6 numbers, and 32 + 3 packs of four: lanes that rest
    arrays = rng.normal(size=(2, 3, columns)), rng.normal(size=columns), rng.normal(size=columns)
    trials.append((f"layernorm 2x3x{columns}", gradcheck.check(lanes_forward, lanes_backward, arrays)))
for what, results in trials:
    print(f"   {what:35} worst error {gradcheck.worst(results).error:.0e}")
    assert gradcheck.worst(results).word == "happy"

# %% [markdown]
# These are the cases of `minigpt check`, and two that do not come out even: 70 single numbers and 35 packs for 32
# lanes. Is that necessary? The widths of GPT-2, 768, 1,024, 1,280 and 1,600, are all multiples of 32, and only with
# the last, 12 and a half times 128, do lanes rest. Exercise 2 is a kernel that was only ever tried on widths that
# come out even.
#
# With a GPU, we time all three: the naive kernel, the reference's ten orders, and the library's kernel.

# %%
if GPU:
    x_there, g_there, b_there = (arrays.to_device(bare(array), "cuda") for array in (many_rows, g, b))
    out_there, naive = gpu.cupy.empty_like(x_there), gpu.cupy.RawKernel(NAIVE, "naive")

    def a_row_for_each_thread():
        numbers = np.float32(1e-5), np.int32(len(many_rows)), np.int32(C)
        naive((len(many_rows) // 128,), (128,), (out_there, x_there, g_there, b_there, *numbers))
        return out_there

    def by_the_table():
        return ops.layernorm_forward(x_there, g_there, b_there)[0]

    expected, _ = lanes_forward(many_rows, bare(g), bare(b))
    for name, way in (("naive", a_row_for_each_thread), ("reference", by_the_table), ("cuda", by_the_table)):
        with ops.using("reference" if name == "reference" else "cuda"):
            found, t = arrays.to_numpy(way()), seconds(way)
        print(f"   {name:9}: {1e6 * t:6.0f} us; 2 passes in this time are {2e-9 * many_rows.nbytes / t:,.0f} GB/s")
        assert np.abs(found - expected).max() < 1e-4
recorded("layernorm")

# %% [markdown]
# ## 5. Attention in tiles
#
# One table is left, the largest: the shares p, T x T for each head. A kernel for the whole of attention cannot hold
# it. But softmax needs its whole row: first the largest score, then the sum z, and only then the first share. How can
# one begin before the end?
#
# On numbers. A row has the scores 1, 2, 5, 3 and the values 10, 20, 30, 40, and we see two of each at a time. After
# the first two, 2 is the largest. Then comes a 5.

# %%
scores, values = np.array([1.0, 2, 5, 3]), np.array([10.0, 20, 30, 40])
m, z, o = -math.inf, 0.0, 0.0  # the largest so far; the sum of exp(s - m); the sum of exp(s - m) v
for tile in (slice(0, 2), slice(2, 4)):
    larger = max(m, scores[tile].max())
    stretch = math.exp(m - larger)
    e = np.exp(scores[tile] - larger)
    z, o, m = z * stretch + e.sum(), o * stretch + e @ values[tile], larger
    print(f"   scores {scores[tile]}: stretch {stretch:.4f}, then m {m:.0f}, z {z:.4f}, o {o:.4f}, o / z {o / z:.4f}")
p = np.exp(scores - scores.max())
assert math.isclose(o / z, p @ values / p.sum(), rel_tol=1e-14)

# %% [markdown]
# z was a sum of exp(s - 2), and should be one of exp(s - 5). Each of its terms is too large by the same factor, so
# one multiplication mends them all:
#
#     exp(s - m') = exp(s - m) exp(m - m')        so z becomes  z exp(m - m')  +  the tile's sum of exp(s - m')
#
# and likewise o. What is left of any number of keys are three things, m, z and o: the **online softmax**. (At first m
# is minus infinity; exp(-inf) = 0 stretches nothing to nothing.)
#
# **Forward.** Keys and values come in tiles. Queries look back, so a tile does not concern those before it.

# %%
def scores_of(q, k):
    """q (*,R,D), k (*,S,D), which begin at the same position -> s (*,R,S), scaled, -inf where a key is in the future"""
    s = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    return np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)


def tiled_forward(q, k, v, *, keys=16, forgets=False):
    """q (*,T,D), k (*,T,D), v (*,T,D) -> out (*,T,D). forgets: a bug, for below"""
    m = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    z, o = np.zeros_like(m), np.zeros_like(q)
    for first in range(0, q.shape[-2], keys):
        tile, rows = np.s_[..., first : first + keys, :], np.s_[..., first:, :]
        s = scores_of(q[rows], k[tile])
        larger = np.maximum(m[rows], s.max(axis=-1, keepdims=True))
        stretch = np.exp(m[rows] - larger)
        e = np.exp(s - larger)
        z[rows] = z[rows] * stretch + e.sum(axis=-1, keepdims=True)
        o[rows] = o[rows] * (1 if forgets else stretch) + e @ v[tile]
        m[rows] = larger
    out, lse = o / z, m + np.log(z)
    return out, (q, k, v, out, lse, keys)


# %% [markdown]
# **Backward.** It needs p, which was never kept. But with z = sum of exp(s - m),
#
#     p = exp(s - m) / z = exp(s - m - log z) = exp(s - lse),      lse = m + log z = log of the sum of exp(s)
#
# *One* number for each row brings its p back, tile by tile, from q and k. The other thing that the backward pass of a
# softmax wants of the whole row, the average of dp, comes from dout and out: lesson 03's surprise. So each line is a
# line of lesson 03, for the keys of one tile. (s is computed again: 128 operations, where a head has 64 numbers. To
# write p and to fetch it again moves 8 bytes, in which time a T4 does 200; and there is no room for p.)

# %%
def tiled_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,T,D), dv (*,T,D)"""
    q, k, v, out, lse, keys = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    average = (dout * out).sum(axis=-1, keepdims=True)
    for first in range(0, q.shape[-2], keys):
        tile, rows = np.s_[..., first : first + keys, :], np.s_[..., first:, :]
        p = np.exp(scores_of(q[rows], k[tile]) - lse[rows])  # once more
        # out = p @ v
        dp = dout[rows] @ v[tile].swapaxes(-1, -2)
        dv[tile] = p.swapaxes(-1, -2) @ dout[rows]
        # p = softmax(s)
        ds = p * (dp - average[rows]) * (1 / math.sqrt(q.shape[-1]))
        # s = q @ k^T / sqrt(D)
        dq[rows] += ds @ k[tile]
        dk[tile] = ds.swapaxes(-1, -2) @ q[rows]
    return dq, dk, dv


q, k, v, dout = rng.normal(size=(4, 2, 3, 11, 4))
with ops.using("reference"):
    right, their_cache = ops.attention_forward(q, k, v)
    their_dq, their_dk, their_dv, _ = ops.attention_backward(dout, their_cache)
expected = right, their_dq, their_dk, their_dv
print("11 positions in tiles of so many keys: out, dq, dk, dv differ from the reference by")
for keys in (1, 2, 3, 5, 11, 16):
    out, cache = tiled_forward(q, k, v, keys=keys)
    differ = [np.abs(a - b).max() for a, b in zip((out, *tiled_backward(dout, cache)), expected, strict=True)]
    print(f"   {keys:2}:", *(f"{difference:.0e}" for difference in differ))
    assert max(differ) < 1e-10
results = gradcheck.check(tiled_forward, tiled_backward, (q[:, :2, :7], k[:, :2, :7], v[:, :2, :7]), {"keys": 3})
print(gradcheck.table(results))
assert all(result.error < 1e-8 for result in results)

# %% [markdown]
# **The trap.** Let o go without its stretch, as if one had forgotten it, and check three times:

# %%
print("a forward that forgets to stretch o is off by")
for what, size, keys in (
    ("random numbers, tiles of 16", 1, 16),
    ("random numbers as small as fresh weights, tiles of 3", 0.02, 3),
    ("random numbers, tiles of 3", 1, 3),
):
    both = (tiled_forward(size * q, size * k, v, keys=keys, forgets=forgets)[0] for forgets in (False, True))
    off_by = np.abs(np.subtract(*both)).max()
    print(f"   {off_by:.0e}: {what}")
    assert off_by == 0 if keys > 11 else off_by < 1e-3 if size < 1 else off_by > 0.1

# %% [markdown]
# One tile of 16 has all 11 keys: there was nothing yet to be stretched, and the check that anybody would write finds
# nothing. The second check needs the line, and hardly sees it: where all scores are near 0 every stretch is near 1. In
# 16 bits (section 7) one would call that rounding. So **make tiles small, 2 or 3, and numbers large.** The library's
# tiles have 16 keys and 64 queries; its tests shrink both, and then run one shape above the real ones.
#
# **What it saves: room.** We let arrays count again, and look for the largest that is ever made.

# %%
q, k, v = (0.3 * rng.standard_normal((3, 1, 2, 512, 64), dtype=np.float32)).view(Counted)
made, kept = {}, {}
with ops.using("reference"):
    for name, forward in (("reference", ops.attention_forward), ("tiles", tiled_forward)):
        ORDERS.clear()
        _, cache = forward(q, k, v)
        made[name], kept[name] = max(order.size for order in ORDERS), ops.nbytes(cache)
        print(f"   {name:9}: largest array {made[name]:7,} numbers; kept for the backward {kept[name] / 1e6:.2f} MB")
assert made["reference"] == 2 * 512 * 512 and made["tiles"] == 2 * 512 * 64
assert kept["reference"] - kept["tiles"] == 4 * 2 * (512 * 512 - 512 * 64 - 512)
p_of_gpt2, lse_of_gpt2 = (4 * 12 * 12 * 1024 * n for n in (1024, 1))
print(f"   GPT-2 small, 1,024 tokens: all p together {p_of_gpt2 / 1e6:.0f} MB, all lse {lse_of_gpt2 / 1e6:.2f} MB")
assert round(p_of_gpt2 / 1e6) == 604

# %% [markdown]
# **And bytes.** The library's kernel for float32 (`minigpt/ops/cuda/attention.cu`) gives a block 64 queries, a thread
# for each. The threads of a block have *shared memory*, small and close by: together they bring 16 keys and values
# there, wait for each other, and each meets all 16. So a key comes from far away once for 64 queries, and neither
# scores nor shares ever go to the GPU's memory. Add up what that reads and writes, and put it under the roof:

# %%
def kernel_bytes(t, d, heads, queries):
    """Of the forward kernel: for each block the keys and values that it sees; q, out and lse once"""
    seen = sum(min(t, first + queries) for first in range(0, t, queries))
    return 4 * heads * (2 * seen * d + 2 * t * d + t)


QUERIES, PAIRS = cuda_attention.tile(C // NH, 4), NH * T * (T + 1) // 2  # of a query and a key that it sees
KERNELS = {
    "attention": (kernel_bytes(T, C // NH, NH, QUERIES), PAIRS * (4 * C // NH + 5)),  # 5: the scale and the softmax
    "gelu": (2 * f.nbytes, bytes_and_work(BLOCK["gelu"])[1]),
    "2 layernorm": (4 * x.nbytes, bytes_and_work(BLOCK["2 layernorm"])[1]),
}
for name, (size, work) in KERNELS.items():
    before, times = bytes_and_work(BLOCK[name])[0], (least_time(BLOCK[name]), max(size / MEMORY, work / RATE))
    print(f"   {name:11}: {before / 1e6:4.0f} MB become {size / 1e6:2.0f}, {work / size:5.2f} per byte;", end=" ")
    print("{:.2f} ms become {:.2f} under the roof".format(*(1000 * t for t in times)))
assert QUERIES == 64 and bytes_and_work(BLOCK["attention"])[0] > 8 * KERNELS["attention"][0]
assert KERNELS["attention"][1] / KERNELS["attention"][0] > RATE / MEMORY

if GPU:
    qkv_there = arrays.to_device(rng.standard_normal((8, T, 3 * C), dtype=np.float32), "cuda")
    for name in "reference", "cuda":
        with ops.using(name):
            t = seconds(lambda: ops.self_attention_forward(qkv_there, NH))
        print(f"   measured, attention of 8 texts, {name:9}: {1000 * t:.2f} ms")
recorded("attention")

# %% [markdown]
# Attention has crossed the ridge of the roof: now it is arithmetic that counts. (A roof says what nobody who moves so
# many bytes can beat. How far below it our kernels stay, only a clock can say, on a GPU.)

# %% [markdown]
# ## 6. See it: the roof

# %%
figure, axes = plot.plt.subplots(figsize=(9.5, 5.8))
reach = np.geomspace(0.03, 2000, 300)
H100_16_BIT = 989e12  # operations per second of its units for products of matrices of 16-bit numbers
ROOFS = {"T4": (*DEVICES["T4"][2:], "0.3", "-"), "H100": (*DEVICES["H100 SXM"][2:], "0.7", "-")}
ROOFS["H100, 16-bit products of matrices"] = (DEVICES["H100 SXM"][2], H100_16_BIT, "0.7", ":")
for name, (memory, rate, color, style) in ROOFS.items():
    axes.loglog(reach, np.minimum(rate, memory * reach) / 1e9, style, color=color, linewidth=2)
    axes.text(1900, rate / 0.92e9, name, ha="right", va="bottom", color=color)
BESIDE = {"4 linear": (-8, -18), "attention": (10, -8), "2 layernorm": (34, -4), "gelu": (40, -14)}
BESIDE["2 residual"] = 40, -25
THIN = {"arrowstyle": "-", "color": "tab:red", "linewidth": 0.6}
for name, orders in BLOCK.items():
    size, work = bytes_and_work(orders)
    before = work / size, work / least_time(orders) / 1e9
    axes.plot(*before, "o", color="tab:red", markersize=7)
    axes.annotate(name, before, BESIDE[name], textcoords="offset points", color="tab:red", arrowprops=THIN)
    if name in KERNELS:
        size, work = KERNELS[name]
        after = work / size, min(RATE, MEMORY * work / size) / 1e9
        axes.plot(*after, "^", color="tab:blue", markersize=8)
        arrow = {"arrowstyle": "->", "color": "tab:blue", "connectionstyle": "arc3,rad=-0.3"}
        axes.annotate("", after, before, arrowprops=arrow)
axes.axvline(RATE / MEMORY, color="0.3", linestyle=":", linewidth=1)
for side, words in (("right", "a T4 waits for memory"), ("left", "for arithmetic")):
    axes.text(RATE / MEMORY, 10, f"  {words}  ", ha=side, color="0.3")
axes.plot([], [], "o", color="tab:red", label="reference: many orders for one operation")
axes.plot([], [], "^", color="tab:blue", label="one kernel")
axes.set(xlabel="intensity: operations per byte", ylabel="billion operations per second")
axes.set(xlim=(reach[0], reach[-1]), ylim=(8, 3e6))
axes.set_title("The forward pass of a block of GPT-2 (counted) under the roof of a T4 (published)")
axes.legend(loc="upper left")
plot.save(figure, "20_the_gpu.png")

# %% [markdown]
# The slope is memory, the flat part arithmetic. Each red point is one operation of the block, all of its orders
# together. Fusing takes it along the arrow: the same operations for fewer bytes, so to the right, and so up the slope.
# (Of attention's operations only half are left: the kernel skips what the mask hides.) Attention arrives. LayerNorm
# never will: with 2 passes it is as good as it can be, and that is 4 % of a T4's arithmetic. A residual sum has no
# arrow: one order, two arrays read and one written, is already the least. (The linear maps lie a little below the
# roof: their biases are orders of their own.)
#
# And the dotted line is why this matters more every year. From a T4's products of 16-bit matrices, 65 trillion
# operations a second, to an H100's the flat part rises 15 times, the slope 10 times: ever more things wait for memory.
# (In 16 bits all points move to the right by a factor of two. It is not enough.)

# %%
assert 0.03 < MEMORY * KERNELS["2 layernorm"][1] / KERNELS["2 layernorm"][0] / RATE < 0.05
assert round(H100_16_BIT / 65e12) == 15 and round(DEVICES["H100 SXM"][2] / MEMORY) == 10

# %% [markdown]
# ## 7. In the library
#
# `minigpt/ops/cuda/` has kernels for what moves more than it computes, or did before it was fused: LayerNorm, GELU,
# dropout, attention, the loss, the embedding and its gradient, sums of columns, the residual sum, Adam. (A residual sum
# was one order before, and still is. Its kernel reads packs.) Products of matrices stay with NVIDIA's library. They are
# the third entry of the table of operations, `ops.using("cuda")`, and for CuPy's arrays they are asked first.
#
# How many orders is a training step with them? That can be counted without a GPU: `counted.py` lends the library one
# that takes every order and does nothing. With kernels the number depends a little on the rows: a sum over more than
# 256 of them takes two orders. So we count real batches, 12 x 64 and 8 x 1,024. (The products are CuPy's here, with
# bias and GELU as orders of their own; `cublaslt.py` puts those into the product. And with GPT-2's real vocabulary the
# loss would take its rows in two parts, and give five orders more.)

# %%
with a_gpu_that_does_nothing(), ops.using("cuda"):
    long = GPT2Config(**SIZES["small"] | {"n_embd": 24, "vocab_size": 65})
    fused = {"nano": count_step(nano, 12, 64, together=True), "small": count_step(long, 8, 1024, together=True)}
for name, parts in fused.items():
    print(f"{name:5}: {', '.join(map(str, parts))}: {parts.sum():,} orders instead of {steps[name].sum():,}")
    assert parts[3] == 3 and 2 * parts.sum() < steps[name].sum()

# %% [markdown]
# Clipping and AdamW, for all tensors of a model, are three orders: squares, their sum, the update. Their kernels are
# given a table of addresses. And nobody looks at the norm: to ask a GPU for a number is to wait until its queue is
# empty, and then it stands idle. AdamW's kernel reads the norm itself, and leaves out a step whose norm is not finite.
#
# ### All orders as one
#
# Each step of a training asks for the same: the same kernels, the same shapes. A GPU can take down the whole list
# once, and repeat it at a single order. CUDA calls the list a *graph*. Three things must hold. The addresses stay: so
# what a repetition overwrites must belong to nobody else, and the list has memory of its own. What changes lies in
# memory and is copied there: the batch, and one thing that is easily forgotten. Where numbers are dropped by chance,
# an order carries its key along as a number (lesson 07), which would be repeated with the rest: the same coins at
# every step, and nothing would say so. So for a recorded step the keys of all its places are made beforehand, as a
# small table in memory, and each kernel reads its own. And, third, there is no question on the way. `minigpt train`
# does so where a step has fewer than 10^12 operations, as nano's:

# %%
totals = {"reference": steps["nano"].sum() + 2, "kernels": fused["nano"].sum() + 2}  # ids and targets are brought there
totals["recorded"] = 2 + 2 + 1 + fused["nano"][3] + 2  # and to their places; the list; AdamW; the norm, beside the loss
for what, n in totals.items():
    print(f"   asking for a step of nano, {what:9}: {n:5,} orders, {1000 * LAUNCH * n:.2f} ms")
assert totals["recorded"] == 10
keys = {step: ops.Key.of(0, step).table(nano.n_layer + 1, 3) for step in (1, 2)}  # layers and embeddings; three sites
print(f"   with dropout there is a table of {keys[1].size} keys, which is copied too: 2 more")
assert keys[1].size == 24 and (keys[1] != keys[2]).all()
assert ops.Key(keys[2]).fold(4, 1).seed_bits == ops.Key.of(0, 2).fold(4, 1).bits  # block 4, what attention gives
if GPU:
    model = GPT2(nano, seed=0).to("cuda")
    ids = rng.integers(65, size=(12, nano.n_positions))

    def gradients(ids):
        model.zero_grad()
        loss, cache = model.loss(ids, ids, normalizer=ids.size)
        model.loss_backward(cache)
        return loss

    repeated = Recorded(gradients)
    assert float(repeated(ids)) == float(repeated(ids)) == float(gradients(arrays.to_device(ids, "cuda")))
    for name, way in (("order by order", gradients), ("recorded", repeated)):
        t = seconds(lambda way=way: way(arrays.to_device(ids, "cuda")))
        print(f"   measured, forward and backward of nano, {name:14}: {1000 * t:.2f} ms")
recorded("launches")

# %% [markdown]
# Only the asking is spared. The GPU still runs every kernel, one after the other. (On a T4 GPT-2 small would gain
# nothing: its arithmetic takes longer than the asking, as section 2 has shown.)
#
# ### Sixteen bits
#
# Beside fusing there is a second way to move fewer bytes: shorter numbers. `bfloat16` is the upper half of a float32
# (lesson 17): its sign, its 8 bits of exponent, and 7 of its 23 bits of fraction. With the 1 before the point, which
# is never stored, that is 8 binary digits instead of 24. Sizes from 1e-38 to 1e38 stay, and from 1 to 2 there are 128
# steps. What moves between layers is halved, and an H100's units for products of matrices, its *tensor cores*, are 15
# times as fast as its ordinary ones. What can go wrong?

# %%
def bfloat16(x):
    """To the nearest number whose lower 16 bits are 0, and of two that are equally near to the even one"""
    bits = np.asarray(x, np.float32).view(np.uint32)
    # 0x8000 is half of the last bit that stays. 0x7FFF is one less, but where that bit is 1 a tie goes up.
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


print(f"pi is {bfloat16(math.pi):.6f}, 1e30 is {bfloat16(1e30):.2e}, and 256 + 1 is {bfloat16(256 + 1):.0f}")
weight, ones = {"bfloat16": bfloat16(1), "float32": np.float32(1)}, bfloat16(0)
for _ in range(1000):
    weight["bfloat16"] = bfloat16(weight["bfloat16"] - np.float32(0.001))
    weight["float32"] = weight["float32"] - np.float32(0.001)
    ones = bfloat16(ones + np.float32(1))
print(f"1 - 0.001, a thousand times: {weight['bfloat16']:.3f} in bfloat16, {weight['float32']:.3f} in float32")
print(f"0 + 1, a thousand times: {ones:.0f} in bfloat16")
assert weight["bfloat16"] == 1 and abs(weight["float32"]) < 1e-4 and ones == 256
assert len(np.unique(bfloat16(np.arange(1, 2, 2**-9)[:-2]))) == 128
assert bfloat16(1 - 1 / 500) == 1 - 1 / 256 and bfloat16(1 - 1 / 520) == 1 and bfloat16(257) == 256
assert np.float16(2e-8) == 0 < np.float16(6e-8) and bfloat16(2e-8) > 0
assert 14 < H100_16_BIT / DEVICES["H100 SXM"][3] < 15

# %% [markdown]
# pi keeps three digits, and 1e30 its size. But **a weight of 1 never learns from steps of 0.001, and a sum of ones ends
# at 256.** Below 1 the next number is 1 - 1/256, or 0.996; 0.999 lies nearer to 1, and every step is rounded back. At
# 256 the next number is 258; 257 lies in the middle, and the tie goes to 256.
#
# So inside a kernel 16 bits are for what is read, never for what is added up: numbers are stored as `real` and summed
# as `wide` (section 4). Only the residual stream, and the gradient that comes back along it, are rounded after every
# addition: on the way forward 24 times in GPT-2 small, not a thousand times. And the weights that learn stay float32.
# AdamW's kernel writes a short copy beside each of them, and the layers compute with that: `minigpt train --dtype
# bfloat16`, on a GPU that has such units. LayerNorm's gains, its statistics, the loss and the gradients of weights
# stay float32 too. Together that is called *mixed precision*. Attention has a second kernel for tensor cores,
# `attention_mma.cu`: the same formulas, with powers of 2 in place of exp, 16 queries (or keys) for a warp, and tiles
# of 64 or 32.

# %% [markdown]
# The tests compare each kernel with the reference, on a GPU where there is one, and otherwise translated for a
# processor. Where there is one, we look ourselves: the same losses on both machines, the same bits twice, and how
# long a step takes. (On a GPU clipping and AdamW are those three orders either way.)

# %%
if GPU:
    for name, config, batch in (("nano", nano, 12), ("mini", GPT2Config(vocab_size=65, **SIZES["mini"]), 2)):
        ids, ends, losses = rng.integers(65, size=(batch, config.n_positions)), [], []
        for device, way in (("cpu", "fast"), ("cuda", "reference"), ("cuda", "cuda"), ("cuda", "cuda")):
            model = GPT2(config, seed=0).to(device)
            optimizer = optim.AdamW(model.named_parameters())

            def one_step(model=model, optimizer=optimizer, ids=ids):
                model.zero_grad()
                loss, cache = model.loss(ids, ids)
                model.loss_backward(cache)
                optimizer.step(1e-4, 1.0)
                return float(loss)

            with ops.using(way):
                losses.append([one_step() for _ in range(3)])
                ends.append([arrays.to_numpy(p.data).copy() for p in model.parameters()])
                if len(ends) < 4:
                    print(f"   a step of {name}, {device}, {way:9}: {1000 * seconds(one_step):.1f} ms")
        assert np.ptp(losses, axis=0).max() < 1e-3
        assert all(np.array_equal(a, b) for a, b in zip(ends[2], ends[3], strict=True))

# %% [markdown]
# ## 8. Paper and code
#
# - **The online softmax** is algorithm 3 of Milakov and Gimelshein: m and z. To stretch o along with them is
#   FlashAttention's step.
# - **Forward.** FlashAttention's algorithm 1 has keys in its outer loop, as our NumPy does, and writes o back after
#   each tile. Our kernel has queries outside, so that o stays in registers; so does its sequel (Dao 2023, arXiv
#   2307.08691). The paper keeps m and z for the backward pass, we keep lse. Its theorem 2: with fast memory for M
#   numbers, of the order of T^2 D^2 / M numbers are moved, where standard attention moves T D + T^2.
# - **Backward.** Algorithm 4 visits each pair of tiles once, with five products. One of them adds to a dq to which
#   other tiles add too; many blocks at once must then wait for each other, or use atomics. We have two kernels, one
#   that owns queries and one that owns keys. They make two products twice, seven in all, and give the same bits every
#   time.
# - **Sixteen bits.** Micikevicius et al. 2018 (arXiv 1710.03740, section 3) keep weights in float32 beside copies in
#   float16, and must scale the loss up, because float16 knows nothing below 6e-8. bfloat16 has float32's exponent, and
#   needs no scale.
# - **Dropout** of shares fits into tiles, since a key and a place give its bits again (lesson 07).
# - **Williams and others** drew the roof for processors; section 3 has met one.
# - Published figures are peaks. No real kernel reaches them.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/20_the_gpu.py`: attention in tiles of two keys, with any mask. Judge it: `minigpt check
#    lessons/exercises/20_the_gpu.py`.
# 2. `exercises/20_find_the_bug.py`: LayerNorm by 4 lanes. Its author tried it on 8 columns, on 64 and on 768.
# 3. With pencil: a linear map of N rows from C to 4C moves 4 (N C + 4 C^2 + 4 N C) bytes. From which N on does it
#    stand right of a T4's ridge, for C = 768? What does that say about writing one token at a time (lesson 17)?

# %%
counts = f"{steps['small'].sum():,} orders for a step of GPT-2 small, {fused['small'].sum():,} with kernels"
print(f"lesson 20: every check is happy ({counts})")
