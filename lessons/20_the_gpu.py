# %% [markdown]
# # Lesson 20: the GPU, its queue and its memory
#
# You will compute how long a GPU takes, before you have one. You will count the launches of a
# training step, and find a small model that gains nothing from a faster GPU. Then you will draw the
# *roofline* of a block of GPT-2, and find where most of its time goes: not into arithmetic.
#
# Reading: 25 minutes for the core, 75 minutes for all of it. Running: 5 to 15 seconds. Before it:
# lessons 06 (LayerNorm), 16 (GPT-2) and 18 (attention in tiles).
#
# Papers: Williams, Waterman and Patterson 2009 (Communications of the ACM 52, 4): the roofline.
# Little 1961 (Operations Research 9, 3): what is under way = rate x time.
#
# **No GPU is needed, and none was used.** The kernels of this project have not yet been run on a
# GPU. Times of GPUs are counted, or computed from published peak figures. What is called *measured*
# was measured on your processor. If you have a GPU, section 8 measures it.

# %% [markdown]
# ## 1. Why: would a faster GPU help?
#
# Your model trains slowly. Should you rent a GPU that computes twice as fast? By our count, a step
# of a small model is no shorter.
#
# A GPU (graphics processing unit) has thousands of small arithmetic units, called *cores*, and its
# own memory. Our program runs on the processor (CPU). It gives work to the GPU by **kernel
# launches**. A *kernel* is a small program that many cores run at once; a launch runs it on
# arrays. (CuPy is NumPy for arrays on a GPU. Each of its operations is at least one launch.) Three
# things take time:
#
# - **Launching.** We assume 5 microseconds (µs) for each launch, a round number. (Python's own time
#   comes on top.)
# - **Memory.** A kernel reads its arrays from the GPU's memory, and writes its result there.
# - **Arithmetic.**
#
# They go on at the same time: while a kernel runs, the program launches the next one, and cores
# compute while numbers come from memory. So the *longest* of the three decides.
#
# Take `(x * x).sum()`. It needs two launches. `x * x` reads x and writes a new array, and `.sum()`
# reads that one: 12 bytes for each number of x, and two operations. We compute the three times for
# a T4, a GPU that free notebooks offer.

# %%
import numpy as np

from minigpt import ops, plot
from minigpt.device.threads import set_threads
from minigpt.learn.counting import LAUNCH

set_threads(1)  # small arrays: a second thread would only be in the way
T4_RATE, T4_MEMORY = 8.1e12, 320e9  # published peaks: operations per second, bytes per second
COUNTS = 10 ** np.arange(3, 9)
three_times = {
    "2 launches": np.full(len(COUNTS), 2 * LAUNCH),
    "memory: 12 bytes for each number": 12 * COUNTS / T4_MEMORY,
    "arithmetic: 2 operations for each": 2 * COUNTS / T4_RATE,
}
figure, axes = plot.plt.subplots(figsize=(7.5, 4.4))
for name, spent in three_times.items():
    axes.loglog(COUNTS, 1e6 * spent, "o-", label=name)
axes.set(title="(x * x).sum() on a T4, computed", xlabel="numbers in x", ylabel="microseconds")
axes.legend(loc="upper left")
plot.save(figure, "20_three_times.png")
print(f"memory takes longer than two launches from {2 * LAUNCH * T4_MEMORY / 12:,.0f} numbers on")
share = three_times["arithmetic: 2 operations for each"] / np.max([*three_times.values()], axis=0)
assert share.max() < 0.01, "arithmetic: below 1 % of the longest time"

# %% [markdown]
# At each size the highest line decides. Up to some 270,000 numbers it is launching, then memory.
# The arithmetic never does: it takes less than 1 % of the longest time.

# %% [markdown]
# ## 2. The queue
#
# A launch does not wait until its kernel has run. It puts the kernel into a **queue**, and our
# program goes on. The GPU takes kernels from the queue, one after the other. So a kernel starts
# when it has been launched *and* the kernel before it has ended.
#
# **Your turn:** n launches follow each other, and each takes `launch` µs. Each kernel takes
# `kernel` µs (an array of three cases, so use `np.maximum` and not `max`). When does the last
# kernel end? Begin with two launches.

# %%
from minigpt.learn import gap


def your_end(n, kernel, launch):
    return ...


CASES, ended = np.array([12, 2, 5]), np.zeros(3)
for number in range(8):  # kernel by kernel
    ended = np.maximum(ended, 5 * (number + 1)) + CASES
gap.judge(your_end, 8, CASES, 5, expected=ended)

# %% [markdown] tags=["answer"]
# `launch + kernel + (n - 1) * np.maximum(launch, kernel)`: the first launch and the last kernel are
# alone. Between them the longer of the two sets the pace.

# %% [markdown]
# Here are eight kernels of 12 microseconds, and eight of 2:

# %%
figure, panels = plot.plt.subplots(2, 1, figsize=(8.5, 4.6), sharex=True)
ends = []
for axes, length in zip(panels, (12, 2), strict=True):
    free = 0  # when the kernel before has ended
    for number in range(8):
        start = max(free, 5 * (number + 1))
        free = start + length
        axes.broken_barh([(5 * number, 5)], (1, 0.7), color="tab:blue", ec="white")
        axes.broken_barh([(start, length)], (0, 0.7), color="tab:orange", ec="white")
    ends.append(free)
    axes.set(yticks=(0.35, 1.35), yticklabels=("kernels", "launches"))
    axes.set_title(f"8 kernels of {length} µs, launches of 5 µs: {free} µs")
panels[1].set_xlabel("microseconds")
plot.save(figure, "20_queue.png")
print(f"8 kernels of 12 µs: {ends[0]} µs; 8 kernels of 2 µs: {ends[1]} µs")
assert ends == [5 + 8 * 12, 8 * 5 + 2], "one launch and all kernels; all launches and one kernel"

# %% [markdown]
# Above, the GPU is always busy, and the launches cost only 5 microseconds at the start. Below, the
# GPU waits for launches more than half of the time. There a faster GPU would gain at most the last
# 2 microseconds.
#
# **The trap.** A clock that is stopped after the last launch has measured the launches, not the
# work. To *synchronise* is to wait until the queue is empty. Do it before you start the clock and
# before you stop it.

# %% [markdown] tags=["deeper"]
# ### A queue of our own: the trap and the model, measured
#
# We build such a queue: a second thread plays the device and does the work.
#
# 1. The first piece of work in the queue: wait for a signal.
# 2. Behind it we put ten products of 1,000 x 1,000 matrices.
# 3. We read the clock. The device is still waiting.
# 4. We give the signal, wait until the queue is empty, and read the clock again.

# %%
import queue
import threading
import time


def serve(todo):
    """The device: takes one piece of work after the other, until it gets None."""
    while (work := todo.get()) is not None:
        work()
        todo.task_done()


todo, all_launched, products = queue.Queue(), threading.Event(), []
threading.Thread(target=serve, args=(todo,), daemon=True).start()
big = np.full((1000, 1000), 0.001, np.float32)
began_at = time.perf_counter()
todo.put(all_launched.wait)
for _ in range(10):
    todo.put(lambda: products.append(big @ big))
after_launches, made = time.perf_counter() - began_at, len(products)
print(f"clock stopped after the launches: {after_launches:.5f} s, {made} products made")
all_launched.set()
todo.join()  # wait until the queue is empty: "synchronise"
print(f"after the work: {time.perf_counter() - began_at:.5f} s, {len(products)} products made")
assert (made, len(products)) == (0, 10), "a launch does not wait for its work"

# %% [markdown]
# If a launch waited for its work, the cell above would never end: the first piece of work waits for
# a signal, which comes after the launches. When the first clock was stopped, no product at all had
# been made.
#
# Is the model of the picture right? Our own queue can show it. Here a launch and a kernel only
# wait, for milliseconds in place of microseconds. Compare *measured* with its two neighbours:

# %%
def measured_queue(kernel, launch):
    """Seconds for 8 launches, each followed by its kernel in a second thread."""
    pieces = queue.Queue()
    threading.Thread(target=serve, args=(pieces,), daemon=True).start()
    began = time.perf_counter()
    for _ in range(8):
        time.sleep(launch)
        pieces.put(lambda: time.sleep(kernel))
    pieces.join()
    took = time.perf_counter() - began
    pieces.put(None)
    return took


print("kernel   launch   by the model   measured   the sum of all")
for kernel_ms, model_ms in zip((12, 2), ends, strict=True):
    found_ms = min(1e3 * measured_queue(kernel_ms / 1e3, 5e-3) for _ in range(3))
    print(f"{kernel_ms:3} ms     5 ms {model_ms:11.0f} ms {found_ms:7.0f} ms", end=" ")
    print(f"{8 * (kernel_ms + 5):13} ms")

# %% [markdown] tags=["deeper"]
# ### One line on two machines
#
# How does the processor do beside the T4? The next cell has a function `line`. Nothing in it says
# where it runs: the array decides. The reference of every operation in this course is written in
# this way. (The numbers are in the GPU's memory already. To bring them there takes longer.)

# %%
import math

from minigpt.device import arrays, gpu

HAS_GPU = gpu.cuda_problem() is None
print(f"a GPU can be used here: {'yes' if HAS_GPU else 'no'}")


def line(x):
    return (x * x).sum()  # on a GPU: two launches


for device in ("cpu", "cuda") if HAS_GPU else ("cpu",):
    four = arrays.to_device(np.arange(4, dtype=np.float32), device)
    print(f"{arrays.array_module(four).__name__}: 0 + 1 + 4 + 9 = {float(line(four)):.0f}")
    assert float(line(four)) == 14, "the same line gives the same answer"

# %%
def seconds(f, rounds=5):
    """How long a call takes: the best of some rounds, since other programs only make it slower."""
    began = time.perf_counter()
    f()
    calls = int(min(1000, max(1, 0.003 / (time.perf_counter() - began))))
    best = math.inf
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            f()
        best = min(best, (time.perf_counter() - began) / calls)
    return best


SMALLER = 10 ** np.arange(8)
on_cpu = []
on_gpu = np.maximum(2 * LAUNCH, 12 * SMALLER / T4_MEMORY)
print("   numbers   processor, measured   T4, computed")
for n, of_gpu in zip(SMALLER, on_gpu, strict=True):
    halves = np.full(n, 0.5, np.float32)
    on_cpu.append(seconds(lambda halves=halves: line(halves)))
    print(f"{n:10,}   {1e6 * on_cpu[-1]:16,.0f} µs   {1e6 * of_gpu:9,.0f} µs")

# %%
figure, axes = plot.plt.subplots(figsize=(7.5, 4.4))
axes.loglog(SMALLER, 1e6 * np.array(on_cpu), "o-", label="processor, measured")
axes.loglog(SMALLER, 1e6 * on_gpu, "s--", label="T4, computed")
axes.set(title="(x * x).sum() for one to ten million numbers", xlabel="numbers")
axes.set_ylabel("microseconds")
axes.legend(loc="upper left")
plot.save(figure, "20_two_machines.png")
finished = [n for n, took in zip(SMALLER, on_cpu, strict=True) if took < 2 * LAUNCH]
print(f"the processor is done before two launches for up to {max(finished, default=0):,} numbers")

# %% [markdown]
# Both curves begin flat: there the time to *start* the work decides, whatever the size. For large
# arrays the GPU would be far ahead: this compares its published peak with one measured thread.

# %% [markdown]
# ## 3. Count the launches of a training step
#
# `minigpt.learn.counting` has an array that computes as NumPy does, and writes down each operation
# that makes new numbers: its name, the bytes that it reads and writes, and its arithmetic. (Views,
# such as a transpose, cost nothing.) On a GPU each of these is at least one launch. Here is the
# LayerNorm of an x of 64 x 768 numbers, with its bytes as multiples of those of x:

# %%
from minigpt.learn.counting import LAUNCHES, Counted, launches_of

few, ones = (np.ones(shape, np.float32).view(Counted) for shape in ((64, 768), 768))
with ops.using("reference"):
    of_layernorm = launches_of(lambda: ops.layernorm_forward(few, ones, ones))
in_x = [one.nbytes / few.nbytes for one in of_layernorm]
print(", ".join(f"{one.name} {n:.0f}" for one, n in zip(of_layernorm, in_x, strict=True)))
print(f"{len(in_x)} launches, {sum(in_x):.0f} times the bytes of x")
assert len(in_x) == 10 and abs(sum(in_x) - 12) < 0.1, "ten launches, twelve times x"

# %% [markdown]
# Now a whole training step of nano, a GPT-2 with 4 layers of width 128, on 12 texts of 64 tokens:
# forward, backward, clipping and AdamW, by the reference operations.
#
# **Guess:** which of its three times is the longest on a T4: launching, memory or arithmetic?

# %%
from minigpt.learn.counting import launches_of_a_step
from minigpt.models.gpt2 import GPT2, SIZES, GPT2Config

NANO = GPT2Config(vocab_size=65, **SIZES["nano"])
with ops.using("reference"):
    nano_step = launches_of_a_step(NANO, 12, 64)
print(nano_step, "all:", sum(nano_step))
of_launches = LAUNCH * sum(nano_step)
of_memory = sum(one.nbytes for one in LAUNCHES) / T4_MEMORY
of_arithmetic = sum(one.work for one in LAUNCHES) / T4_RATE
print(f"launching {1e3 * of_launches:.1f} ms", end=", ")
print(f"memory {1e3 * of_memory:.1f} ms, arithmetic {1e3 * of_arithmetic:.1f} ms")
assert 0.4 < nano_step.adamw / sum(nano_step) < 0.6, "AdamW makes half of them"
assert of_launches > 2 * max(of_memory, of_arithmetic), "the launches take longest"

# %% [markdown] tags=["answer"]
# Launching: more than twice as long as each of the others. Faster GPUs are made for arithmetic,
# which is the shortest.

# %% [markdown]
# AdamW is a few lines of arithmetic, and half of all launches: it needs a dozen for each tensor,
# even for a bias of 128 numbers. So for nano **the speed of the GPU does not matter**: on this
# count, with the same program making the launches, a T4 and an infinitely fast GPU take the same
# time. There are two ways out: more work in each launch (a larger batch, a larger model), or fewer
# launches. One kernel in place of several is called **fusing**.

# %% [markdown] tags=["deeper"]
# ### A larger model
#
# The number of launches does not depend on the width, so we count GPT-2 small with a width of 24.
# Its arithmetic is counted by formula (lesson 17).

# %%
from minigpt.models import costs

SMALL = GPT2Config(**SIZES["small"])
NARROW = GPT2Config(**(SIZES["small"] | {"n_embd": 24, "vocab_size": 65}))
with ops.using("reference"):
    steps = {"nano": nano_step, "small": launches_of_a_step(NARROW, 2, 3)}
tensors = len(list(GPT2(NARROW).parameters()))
print(f"AdamW: {steps['small'].adamw / tensors:.1f} launches for each of {tensors} tensors")
print("model   tokens   launches   arithmetic   the longer one")
longer = {}
for name, config, batch in (("nano", NANO, 12), ("small", SMALL, 8)):
    tokens = batch * config.n_positions
    launching = LAUNCH * sum(steps[name])
    arithmetic = tokens * costs.flops_per_token(GPT2, config)[1] / T4_RATE
    longer[name] = "launches" if launching > arithmetic else "arithmetic"
    print(f"{name:5} {tokens:8,} {1e3 * launching:7.1f} ms", end=" ")
    print(f"{1e3 * arithmetic:9.1f} ms   {longer[name]}")
assert longer == {"nano": "launches", "small": "arithmetic"}, "the small model waits for launches"

# %% [markdown]
# For GPT-2 small the launches are hidden behind the arithmetic, which takes 50 times as long.
# (Lesson 22 has one more way to have fewer launches, recorded graphs.)

# %% [markdown]
# ## 4. Memory: the roofline
#
# x + y reads 8 bytes and writes 4 bytes for one addition. While 12 bytes come, a T4 could do 300
# operations. The product of two 1,024 x 1,024 matrices moves 12 MB and does 2 billion operations:
# there memory is no limit. What decides is the quotient, called **arithmetic intensity**:
#
# $$
# \text{intensity} = \frac{\text{operations}}{\text{bytes}},
# \qquad
# \text{operations per second} \le
# \min(\text{peak rate},\; \text{bandwidth} \times \text{intensity}).
# $$
#
# The *bandwidth* is how many bytes the memory can deliver in a second. This upper bound is the
# **roofline**. For a T4 the two limits meet at 8.1e12 / 320e9 = 25 operations per byte, called the
# *ridge*. We count the forward pass of one block of GPT-2 small, 1,024 tokens, with the reference.
# (exp, tanh and a root count as one operation. Nothing is assumed to stay in a cache from one
# launch to the next.)

# %%
T, C, NH = 1024, 768, 12
draw = np.random.default_rng(2)


def new(*shape):
    """Random numbers that are counted."""
    return (0.1 * draw.standard_normal(shape, dtype=np.float32)).view(Counted)


def four_linear():
    """The linear maps of a block: to queries, keys and values; of attention; the two of the MLP."""
    for inputs, columns in ((x, 3 * C), (x, C), (x, 4 * C), (wide, C)):
        ops.linear_forward(inputs, new(inputs.shape[1], columns), new(columns))


x, y, wide, qkv, gain = new(T, C), new(T, C), new(T, 4 * C), new(1, T, 3 * C), new(C)
with ops.using("reference"):
    BLOCK = {
        "4 linear": launches_of(four_linear),
        "attention": launches_of(lambda: ops.self_attention_forward(qkv, NH)),
        "gelu": launches_of(lambda: ops.gelu_forward(wide)),
        "2 layernorm": 2 * launches_of(lambda: ops.layernorm_forward(x, gain, gain)),
        "2 residual": 2 * launches_of(lambda: x + y),
    }
print("launches:", ", ".join(f"{name} {len(launches)}" for name, launches in BLOCK.items()))

# %%
def moved_and_work(launches):
    return sum(one.nbytes for one in launches), sum(one.work for one in launches)


def least_seconds(launches):
    """Under the roof of a T4: for each launch the longer of memory and arithmetic."""
    return sum(max(one.nbytes / T4_MEMORY, one.work / T4_RATE) for one in launches)


RIDGE = T4_RATE / T4_MEMORY
INTENSITIES, RATES = {}, {}  # of each operation: per byte; billions a second
for name, launches in BLOCK.items():
    moved, work = moved_and_work(launches)
    INTENSITIES[name], RATES[name] = work / moved, work / least_seconds(launches) / 1e9
print("operations per byte:", ", ".join(f"{name} {n:.1f}" for name, n in INTENSITIES.items()))
assert INTENSITIES["4 linear"] > RIDGE > INTENSITIES["attention"], "only the linear maps reach it"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(8.5, 4.6))
reach = np.geomspace(0.05, 1000, 300)
axes.loglog(reach, np.minimum(T4_RATE, T4_MEMORY * reach) / 1e9, color="0.3")
for name in BLOCK:
    axes.plot(INTENSITIES[name], RATES[name], "o", label=name)
axes.set(xlabel="intensity: operations per byte", ylabel="billion operations per second")
axes.set(title="A block of GPT-2 small under the roofline of a T4 (computed)")
axes.legend()
plot.save(figure, "20_roofline.png")

# %% [markdown]
# The slope is memory, the flat part arithmetic; only the linear maps reach the flat part. Products
# of matrices (the linear maps, and two in attention) have nearly all of the arithmetic.
#
# **Guess:** the other launches have less than 1 % of the arithmetic. How much of the *time*?

# %%
everything = [one for launches in BLOCK.values() for one in launches]
by_memory = [one for one in everything if one.work / one.nbytes < RIDGE]
of_work = moved_and_work(by_memory)[1] / moved_and_work(everything)[1]
of_time = least_seconds(by_memory) / least_seconds(everything)
print(f"{len(by_memory)} of {len(everything)} launches are limited by memory:")
print(f"{of_work:.1%} of the arithmetic, {of_time:.0%} of the time")
assert of_work < 0.02 and of_time > 0.5, "hardly any arithmetic, more than half of the time"
assert {one.name for one in everything if one not in by_memory} == {"matmul"}, "only products"

# %% [markdown] tags=["answer"]
# **60 %** (computed for the reference, at published float32 peaks, with nothing in a cache). By the
# arithmetic it would be 1 %. But these launches wait for memory.

# %% [markdown]
# Only products of matrices reach the ridge. Cores that are twice as fast would not help the others.
#
# What helps? Fewer bytes. The ten launches of LayerNorm move 12 times the bytes of x (section 3):
# most read what another has written. One kernel could read x once and write its result once: 2
# times these bytes, not 12. This is a second reason to fuse. Numbers that stay in the cores between
# two operations need no trip to memory and back. Lesson 21 writes such a kernel.

# %% [markdown] tags=["deeper"]
# ### What the 60 % depend on
#
# The numbers behind the picture:

# %%
print("operation        MB   million operations   per byte   least ms")
for name, launches in BLOCK.items():
    moved, work = moved_and_work(launches)
    print(f"{name:12} {moved / 1e6:6,.0f} {work / 1e6:20,.0f}", end=" ")
    print(f"{work / moved:10.2f} {1e3 * least_seconds(launches):10.2f}")

# %% [markdown]
# "More than half" is a number of this count, and of no other. exp, tanh and roots may be counted as
# 10 operations. A cache would help: x has 3.1 MB, and the caches of a T4, an A100 and an H100 have
# 4, 40 and 50 MB. With products in 16 bits the share rises, and with fewer passes over memory it
# falls: section 6 computes both.

# %%
slow = sum(one.work for one in everything if one.name in ("exp", "tanh", "sqrt"))
of_work_10 = 1 - (1 - of_work) / (1 + 9 * slow / moved_and_work(everything)[1])
print(f"with 10 operations for each exp, tanh and root: {of_work_10:.1%} of the arithmetic")
assert slow > 0 and of_work_10 < 0.04, "still hardly any"

# %% [markdown] tags=["deeper"]
# ## 5. Memory: bandwidth and latency
#
# Here are three GPUs by NVIDIA's data sheets and its white papers on their three architectures
# (Turing, Ampere, Hopper). The rate is cores x clock x 2, because a core does a multiplication and
# an addition at once. (These are float32 rates without the special units for products of matrices;
# lessons 21 and 22 have those. All are peaks. A real kernel stays below.)

# %%
DEVICES = {  # cores, clock in GHz, bytes per second, operations per second, threads held at once
    "T4": (2560, 1.59, 320e9, 8.1e12, 40 * 1024),
    "A100 40 GB": (6912, 1.41, 1555e9, 19.5e12, 108 * 2048),
    "H100 SXM": (16896, 1.98, 3350e9, 67e12, 132 * 2048),
}
print("device       cores    GB/s   trillion operations/s   operations while 4 bytes come")
for name, (cores, ghz, memory, rate, _) in DEVICES.items():
    print(f"{name:10} {cores:7,} {memory / 1e9:7,.0f} {rate / 1e12:23.1f}", end=" ")
    print(f"{4 * rate / memory:31.0f}")
    assert abs(2e9 * cores * ghz / rate - 1) < 0.01, "the rate is cores x clock x 2"
    assert 50 <= 4 * rate / memory < 102, "fifty to a hundred operations for one number"

# %% [markdown]
# Remember the last column. **While one number of four bytes comes from memory, the cores could do
# 50 to 100 operations.** A kernel that does less with each number lets the cores wait.
#
# Bandwidth is one side of memory. The other is **latency**: the time between a request and the
# arrival of the bytes. Data sheets do not give it. We assume about 400 to 1,200 clock ticks, and
# compute with 300 nanoseconds and with 600. To use the full bandwidth, many requests must be under
# way at the same time. How many bytes? This is **Little's law**: what is under way = rate x time.
# The next table has these bytes for both latencies. Its last two columns divide them by the number
# of threads that the GPU can hold.
#
# $$
# \text{bytes in flight} = \text{bandwidth} \times \text{latency}
# $$

# %%
LATENCIES = (300e-9, 600e-9)  # seconds: our assumptions
print("             bytes in flight at   threads held   if each requests   bytes for each at")
print("device         300 ns     600 ns        at once            4 bytes    300 ns   600 ns")
for name, (_, _, memory, _, threads) in DEVICES.items():
    in_flight = [memory * latency for latency in LATENCIES]
    print(f"{name:10} {in_flight[0]:10,.0f} {in_flight[1]:10,.0f} {threads:14,}", end=" ")
    print(f"{4 * threads:18,}", end=" ")
    print(f"{in_flight[0] / threads:9.1f} {in_flight[1] / threads:8.1f}")
    assert in_flight[0] < 4 * threads < in_flight[1], "a float32 each: enough for 300 ns, not 600"

# %% [markdown]
# So a GPU holds many more threads than it has cores: while some wait for memory, others compute.
# (What part of its places for threads is filled is called *occupancy*.) Whether 4 bytes for each
# thread are enough depends on the latency: by these figures yes at 300 nanoseconds, and no at
# 600. If some places are empty, or if numbers have 16 bits, less is under way. Then each thread
# must request more at once. Lesson 21 does that.

# %% [markdown] tags=["deeper"]
# ## 6. Fusing: fewer passes over memory
#
# Fewer passes are not special to GPUs. The library's fast LayerNorm takes x in pieces that fit into
# the processor's cache. We measure both with one thread, on 25 MB of x, and on 64 rows, which are
# so few that the reference, too, finds them in the cache. `tracemalloc` counts the memory of new
# arrays.

# %%
import tracemalloc


def new_memory(f):
    """(what f returns, the most bytes of new arrays that exist at the same time)"""
    tracemalloc.start()
    result = f()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak


million = np.ones(1_000_000, np.float32)
of_squares = new_memory(lambda: million * million)[1] / million.nbytes
print(f"x * x: new arrays of {of_squares:.1f} times x")
assert 1 <= of_squares < 1.1, "one array as large as x"

# %%
import functools

GAIN, SHIFT = np.ones(C, np.float32), np.zeros(C, np.float32)
print("layernorm               µs for each row (measured)   new arrays, times x")
for n_rows in (8192, 64):
    given = np.random.default_rng(3).standard_normal((n_rows, C), dtype=np.float32)
    outs, arrays_of_x = {}, {}
    for way in ("reference", "fast"):
        with ops.using(way):
            layernorm = functools.partial(ops.layernorm_forward, given, GAIN, SHIFT)
            a_row = 1e6 * seconds(layernorm) / n_rows
            (outs[way], _), peak = new_memory(layernorm)
        arrays_of_x[way] = peak / given.nbytes
        print(f"{n_rows:5,} rows, {way:9} {a_row:20.2f} {arrays_of_x[way]:28.1f}")
    assert np.allclose(*outs.values(), atol=1e-5), "the same LayerNorm"
    assert 2 <= arrays_of_x["fast"] < 2.5 < 4 <= arrays_of_x["reference"], "half as many new arrays"

# %% [markdown]
# On a machine without other work, the fast one takes much less time for a row of the large x. Where
# x fits into the cache, the difference is smaller. (A busy machine can hide both: run the cell
# again.) The arithmetic is the same. (There are two possible reasons: fewer passes, and fewer new
# arrays, in the last column. We have not separated them.)
#
# Now the roofline of section 4 again. Each point is one operation of the block, with all its
# launches. The triangle of the same color is the same operation as a single kernel that reads its
# input once and writes its output once. For attention, that is a kernel in tiles (lesson 18): it
# brings keys and values again for every 64 queries, and skips what the mask hides.


# %%
def fused_costs(queries=64):
    """{operation: (bytes, operations)} of one kernel each."""
    d, pairs = C // NH, NH * T * (T + 1) // 2
    keys_read = sum(min(T, first + queries) for first in range(0, T, queries))
    # keys and values of each tile; queries and out; one lse (lesson 18) for each row
    attention = 4 * NH * (2 * keys_read * d + 2 * T * d + T)
    return {
        "attention": (attention, pairs * (4 * d + 5)),  # 5: scale and softmax of a pair
        "gelu": (2 * 4 * T * 4 * C, moved_and_work(BLOCK["gelu"])[1]),
        "2 layernorm": (2 * 2 * of_x, moved_and_work(BLOCK["2 layernorm"])[1]),
    }


of_x = 4 * T * C
FUSED = fused_costs()
print("operation     MB before   MB fused   per byte   least ms before   fused")
for name, (moved, work) in FUSED.items():
    before, after = least_seconds(BLOCK[name]), max(moved / T4_MEMORY, work / T4_RATE)
    print(f"{name:12} {moved_and_work(BLOCK[name])[0] / 1e6:10,.0f} {moved / 1e6:10,.0f}", end=" ")
    print(f"{work / moved:10.2f} {1e3 * before:17.2f} {1e3 * after:7.2f}")
intensities = {name: work / moved for name, (moved, work) in FUSED.items()}
assert intensities["attention"] > RIDGE, "attention passes the ridge"
kept = FUSED["attention"][1] / moved_and_work(BLOCK["attention"])[1]
assert 0.45 < kept < 0.55, "of attention's operations, the mask leaves about half"


# %%
def milliseconds(name, fused, rate):
    """Under the roof of a T4 whose products have this rate."""
    if fused and name in FUSED:
        moved, work = FUSED[name]
        return 1e3 * max(moved / T4_MEMORY, work / (rate if name == "attention" else T4_RATE))
    return 1e3 * sum(max(one.nbytes / T4_MEMORY, one.work / rate) for one in BLOCK[name])


print("the whole block of GPT-2 small           ms   of it not in the 4 linear maps")
shares = {}
for fused, rate in ((False, T4_RATE), (True, T4_RATE), (False, 65e12), (True, 65e12)):
    parts = {name: milliseconds(name, fused, rate) for name in BLOCK}
    total = sum(parts.values())
    shares[fused, rate] = 1 - parts["4 linear"] / total
    what = f"{'fused' if fused else 'reference'}, products at {rate / 1e12:.1f} trillion"
    print(f"{what:36}{total:7.2f} {shares[fused, rate]:25.0%}")
assert shares[True, T4_RATE] < 0.2 < 0.5 < shares[False, T4_RATE], "fused: most is products"
assert shares[True, 65e12] > 2 * shares[True, T4_RATE], "faster products: memory counts again"

# %%
of_32, of_128 = (work / moved for moved, work in (fused_costs(n)["attention"] for n in (32, 128)))
print(f"attention, operations per byte: {of_32:.0f} with 32 queries, {of_128:.0f} with 128")
assert of_32 < RIDGE < of_128, "32 queries are too few, if no cache helps"
assert 0.03 < intensities["2 layernorm"] / RIDGE < 0.04, "LayerNorm: at most 4 % of the peak rate"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(9, 5.6))
axes.loglog(reach, np.minimum(T4_RATE, T4_MEMORY * reach) / 1e9, color="0.3")
for name in BLOCK:
    axes.plot(INTENSITIES[name], RATES[name], "o", label=name)
axes.set(xlabel="intensity: operations per byte", ylabel="billion operations per second")
_, _, h100_memory, h100_rate, _ = DEVICES["H100 SXM"]
axes.loglog(reach, np.minimum(h100_rate, h100_memory * reach) / 1e9, color="0.65", linewidth=2)
for name, rate, color in (("T4", T4_RATE, "0.3"), ("H100 SXM", h100_rate, "0.65")):
    axes.text(950, rate / 0.9e9, name, ha="right", va="bottom", color=color)
for number, name in enumerate(BLOCK):
    if name in FUSED:
        moved, work = FUSED[name]
        reached = min(T4_RATE, T4_MEMORY * work / moved) / 1e9
        axes.plot(work / moved, reached, "^", color=f"C{number}", markersize=10)
axes.set(title="The same block; triangles: one kernel (computed)", ylim=(8, 2e5))
axes.legend(loc="upper left")
plot.save(figure, "20_fused.png")

# %% [markdown]
# The slope is memory, and the flat part is arithmetic. Fusing moves a point to the right and so up
# the slope, since far fewer bytes are moved. (The table before the picture has a second rate: the
# T4's 65 trillion for products in 16 bits. The bytes there are still those of float32.)
#
# - **Attention** with 64 queries reaches the flat part. About half of its operations go too: the
#   mask hides them. The library's kernel for float32 has 32 queries, so that its numbers fit into
#   registers (lesson 21). It moves nearly twice the bytes. Then it reaches the flat part only with
#   the help of a cache: the keys and values of a head are 0.5 MB, and a T4's cache has 4 MB.
# - **LayerNorm** cannot reach it. With two passes, the minimum, memory allows less than 4 % of a
#   T4's peak rate.
# - **GELU** moves to the right as LayerNorm does, and stays on the slope.
# - **A residual sum** has no triangle: its one launch reads two arrays and writes one, the minimum.
#
# The roofline is an upper bound. How far below it a kernel stays can only be measured.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# `minigpt/ops/cuda/` has kernels for what moves more than it computes: LayerNorm, GELU, dropout,
# attention, the loss, the embedding, residual sums, Adam; one more is for attention of a model that
# writes, beside its past (lesson 17). They are the third entry of the table of operations,
# `ops.using("cuda")`. Products of matrices are left to NVIDIA's library. It offers several ways to
# compute a large product, so the first call times up to eight of them, and the fastest is kept.
#
# How many launches are left? `counting` can give the library a GPU that accepts every launch and
# does nothing. So the launches can be counted without a GPU. (With kernels the number depends a
# little on the rows, so the batches are real ones, 12 x 64 and 8 x 1,024 tokens. The products of
# matrices are counted as CuPy makes them, with the bias and GELU as launches of their own.)

# %%
from minigpt.learn.counting import a_gpu_that_does_nothing

with a_gpu_that_does_nothing(), ops.using("cuda"):
    fused_steps = {"nano": launches_of_a_step(NANO, 12, 64, together=True)}
    fused_steps["small"] = launches_of_a_step(NARROW, 8, 1024, together=True)
print("model   forward   backward   clipping and AdamW   all   by the reference")
for name, parts in fused_steps.items():
    print(f"{name:5} {parts[0]:9} {parts[1]:10} {parts[3]:20}", end=" ")
    print(f"{sum(parts):5} {sum(steps[name]):18,}")
    assert parts.adamw == 3 and 2 * sum(parts) < sum(steps[name]), "less than half of the launches"

# %% [markdown]
# Clipping and AdamW of all tensors are three launches: the squares, their sum, and the update. The
# kernels get a table of addresses, one for each tensor. The norm of the gradients stays on the GPU,
# and the kernel of AdamW reads it there. If the program had to read it in the middle of a step, it
# would have to wait until the queue is empty.
#
# And the nine launches of GELU are one. Its kernel begins like this:
#
#     # minigpt/ops/cuda/gelu.cu
#     extern "C" __global__ void gelu_forward(real* out, const real* x, long long n) {
#     long long i = my_pack();
#     if (i >= n) return;
#
# Lesson 21 explains most of these words. (A thread takes several neighbouring numbers here;
# `my_pack()` is the place of the first.)

# %% [markdown] tags=["deeper"]
# ## 8. If you have a GPU: measure
#
# Two numbers replace our assumptions: the time of a launch, and the bandwidth of a copy, which
# reads and writes. Both wait for the queue before they read the clock.


# %%
def wait():
    """Until the queue of the GPU is empty."""
    gpu.cupy.cuda.Device().synchronize()


def measured_on_gpu():
    """(seconds for a launch, bytes per second of a copy)"""
    one, much = gpu.cupy.ones(1, np.float32), gpu.cupy.ones(1 << 26, np.float32)
    times = []
    for f, calls in ((lambda: one + one, 1000), (much.copy, 20)):
        f()
        wait()
        began = time.perf_counter()
        for _ in range(calls):
            f()
        wait()
        times.append((time.perf_counter() - began) / calls)
    return times[0], 2 * much.nbytes / times[1]


if HAS_GPU:
    a_launch, bandwidth = measured_on_gpu()
    print(f"measured: a launch {1e6 * a_launch:.1f} µs, a copy {bandwidth / 1e9:,.0f} GB/s")
else:
    print("no GPU here: a launch of 5 µs and the published bandwidths are used")

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - Williams, Waterman and Patterson drew the roofline for processors with several cores. We have
#   not drawn it for yours. Section 6 only measures there what fewer passes and fewer new arrays
#   bring together.
# - Their "operational intensity" counts bytes between the caches and the memory, and so do we.
# - Little's law is about any queue: the average number of things inside is their rate of arrival
#   times the time that each stays.
# - Published peaks assume that every core multiplies and adds in every clock tick.

# %% [markdown]
# ## 10. To keep
#
# - Launches, memory and arithmetic go on at the same time, and the longest of the three decides. So
#   a small model waits for launches, and does not gain from a faster GPU.
# - Operations per byte decide between the other two (the roofline). In our block only products of
#   matrices are limited by the cores; all else is 1 % of the arithmetic and 60 % of the time (by
#   the reference, before any fusing).
# - The cure for both is fusing: one kernel in place of several has fewer launches, and its numbers
#   stay in the cores.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/20_roofline.py`: bytes, operations and the least time of Adam, of the embedding, and
#    of one token of generation. Run it: it judges you.
# 2. `exercises/20_find_the_bug.py`: a benchmark that is right on an idle device. On a busy one it
#    says that a short kernel is a long one. The device has a queue.
# 3. On paper: a linear map of N rows from C to 4C moves 4 (N C + 4 C² + 4 N C) bytes (without
#    the bias). From which N on does it stand right of a T4's ridge, for C = 768? What does this
#    say about one token at a time (lesson 17)?
# 4. On paper: a step of nano has the launches that section 3 counts, and 5,161,728 operations
#    for each token. From how many tokens in a batch on does a T4's arithmetic take longer?

# %%
print(f"lesson 20: every check is happy (a training step of nano: {sum(nano_step):,} launches)")
