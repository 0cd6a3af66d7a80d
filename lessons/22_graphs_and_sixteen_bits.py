# %% [markdown]
# # Lesson 22: sixteen bits, and recorded graphs
#
# You will round numbers to 16 bits by hand, and measure what the rounding costs: in a sum, and in a
# training, where it stops the learning without any error message. You will see which numbers of a
# training may be short, and which may not. In a deeper part all launches of a step are recorded as
# one.
#
# Reading: 25 minutes for the core, 80 minutes for all of it. Running: 6 to 20 seconds. Before it:
# lessons 09 (Adam), 17 (numbers of 16 bits), 20 (launches and the roofline) and 21 (kernels). The
# deeper parts make two sittings, with a pause before section 5.
#
# Papers: Micikevicius et al. 2018 (arXiv 1710.03740), section 3: mixed precision. Kalamkar et al.
# 2019 (arXiv 1905.12322): training in bfloat16.
#
# **Nothing here has been run on a GPU.** Rounding is done by NumPy. Launches are counted, and times
# are computed from the assumed 5 microseconds for a launch (lesson 20).

# %% [markdown]
# ## 1. Why: half the bytes, and a weight that never changes
#
# By the count of lesson 20 most launches in a block of a GPT wait for memory. Numbers of 16 bits in
# place of 32 are moved in half the time. And *tensor cores*, units of a GPU that multiply matrices
# of short numbers, are much faster: 989 trillion operations per second on an H100, where its
# float32 cores make 67.
#
# What do we lose? A floating-point number is 1.*fraction* times a power of two. **bfloat16** has 7
# bits of fraction. So from 1 to 2 its numbers are 1/128 apart, and from 1/2 to 1 they are 1/256
# apart. The picture shows all numbers near 1, and 0.999: a weight of 1 after an update of 0.001.

# %%
import numpy as np

from minigpt import plot
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
figure, axes = plot.plt.subplots(figsize=(9, 3))
for row, (kind, bits) in enumerate({"bfloat16": 7, "float16": 10}.items()):
    below = 1 - np.arange(2 ** (bits - 6) + 1) / 2 ** (bits + 1)
    above = 1 + np.arange(2 ** (bits - 7) + 1) / 2**bits
    near = np.concatenate([below, above])
    axes.plot(near, np.full(len(near), row), "|", markersize=24, label=kind)
    print(f"{kind}: the numbers next to 1 are {below[1]:.5f} and {above[1]:.5f}")
axes.axvline(0.999, color="tab:red")
axes.text(0.9989, 0.5, "0.999", color="tab:red", ha="right")
axes.set(yticks=(0, 1), yticklabels=("bfloat16", "float16"), ylim=(-0.5, 1.5))
axes.set_title("All numbers near 1")
plot.save(figure, "22_near_one.png")

# %% [markdown]
# In bfloat16, 0.999 lies nearer to 1 than to the next number, so it is rounded to 1. **A weight of
# 1 never changes if its updates are 0.001**, however many there are. So which numbers of a training
# may have 16 bits?

# %% [markdown]
# ## 2. Rounding
#
# | | bits of exponent | bits of fraction |
# |---|---|---|
# | float32 | 8 | 23 |
# | tf32 | 8 | 10 |
# | bfloat16 | 8 | 7 |
# | float16 | 5 | 10 |
#
# Lesson 17 read files of float16 and bfloat16. **tf32** lives only inside the tensor cores: the
# arrays stay float32, and the factors of a product are rounded when they are read.
#
# **Your turn:** round the numbers x, all from 1 to 2, to the nearest number of bfloat16. There they
# are the multiples of `step`, 1/128.

# %%
from minigpt.learn import gap


def your_rounded(x, step):
    return ...


FROM_1_TO_2 = 1 + np.arange(129) / 128  # all of them
tries = 1 + np.random.default_rng(1).random(20)
nearest = np.abs(tries[:, None] - FROM_1_TO_2).argmin(axis=1)
gap.judge(your_rounded, tries, 1 / 128, expected=FROM_1_TO_2[nearest])

# %% [markdown] tags=["answer"]
# `np.round(x / step) * step`: how many steps, to the nearest whole number, times the step.

# %% [markdown]
# Elsewhere the step is another one. But bfloat16 is the upper half of a float32, so we can round by
# its bits, whatever the size. Of two numbers that are equally near, we take the one whose last bit
# is 0. (The code adds just under half a step, and then cuts off the lower bits. If more than half a
# step stood there, the addition carries into the bits that stay.)

# %%
FRACTION = {"float32": 23, "tf32": 10, "bfloat16": 7}  # bits; all three have 8 bits of exponent


def rounded(x, kind):
    """To float32, tf32, bfloat16 or float16, kept in an array of float32."""
    x = np.asarray(x, np.float32)
    if kind == "float16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)
    cut = 23 - FRACTION[kind]  # bits that go
    if not cut:
        return x
    bits = x.view(np.uint32)
    last = bits >> cut & 1  # the last bit that stays: a tie goes up where it is 1
    up = bits + np.uint32(2 ** (cut - 1) - 1) + last
    return (up >> cut << cut).astype(np.uint32).view(np.float32)


print("2/3 in bfloat16:", float(rounded(2 / 3, "bfloat16")), "= 171/256")
assert rounded(2 / 3, "bfloat16") == 171 / 256, "8 binary digits"
assert rounded(0.999, "bfloat16") == 1, "as in the picture"

# %% [markdown] tags=["deeper"]
# ### Ties, bit by bit

# %%
def fraction_bits(x):
    """The 23 bits behind the point of a number from 1 to 2; a bar stands where bfloat16 cuts."""
    bits = f"{int(np.float32(x).view(np.uint32)) & 0x7FFFFF:023b}"
    return f"1.{bits[:7]} | {bits[7:]}"


for part in (1, 2, 3, 6):
    x = 1 + part / 512
    short = rounded(x, "bfloat16")
    print(f"1 + {part}/512 = {fraction_bits(x)}   to 1 + {512 * (float(short) - 1):.0f}/512")
assert rounded(1 + 2 / 512, "bfloat16") == 1, "a tie: down, to the even one"
assert rounded(1 + 6 / 512, "bfloat16") == 1 + 8 / 512, "a tie: up, to the even one"

# %% [markdown]
# ### Four numbers in four formats

# %%
import math

print("format      pi           1e-8         70,000       256 + 1")
for kind in ("float32", "tf32", "float16", "bfloat16"):
    some = [f"{rounded(x, kind):<10.7g}" for x in (math.pi, 1e-8, 70_000, 257)]
    print(f"{kind:9}   {'   '.join(some)}")
assert rounded(257, "bfloat16") == 256 and rounded(259, "bfloat16") == 260, "ties to the even one"
assert rounded(70_000, "float16") == math.inf and rounded(1e-8, "float16") == 0, "its two ends"

# %% [markdown]
# bfloat16 and tf32 keep the whole range of float32. float16 has 8 times finer steps than bfloat16,
# but its largest number is 65,504, and below 3e-8 it knows only 0.

# %% [markdown] tags=["deeper"]
# ### The error, over the size of the number

# %%
COLORS = {"float32": "tab:red", "tf32": "tab:green", "bfloat16": "tab:blue"}
COLORS["float16"] = "tab:orange"
figure, axes = plot.plt.subplots(figsize=(8.6, 4.6))
sizes = np.geomspace(1e-9, 1e6, 4000)
for kind, style in (("bfloat16", "-"), ("float16", "-"), ("tf32", "--"), ("float32", "-")):
    error = np.abs(rounded(sizes, kind).astype(float) - sizes) / sizes
    worst_near = [error[i : i + 40].max() for i in range(0, 4000, 40)]
    shown = np.minimum(worst_near, 1)
    axes.loglog(sizes[::40], shown, style, color=COLORS[kind], label=kind, linewidth=2)
axes.set(title="The largest relative error of rounding", xlabel="size of the number")
axes.set(ylabel="relative error", ylim=(1e-8, 40))
axes.legend(loc="upper center", ncols=4, fontsize="small")
plot.save(figure, "22_formats.png")
assert rounded(2.9e-8, "float16") == 0 < rounded(3.1e-8, "float16"), "below 3e-8 only 0"
assert rounded(65_519, "float16") == 65_504 and rounded(65_520, "float16") == math.inf, "the end"
numbers = np.random.default_rng(2).normal(size=1000).astype(np.float32)
assert np.array_equal(rounded(numbers, "tf32"), rounded(numbers, "float16")), "10 bits each"
print("above 65,519 float16 has only infinity, and below 3e-8 only 0: both count as an error of 1")

# %% [markdown]
# ## 3. What rounding costs in a sum
#
# Start at 0, add 1 a thousand times, and round the sum each time. Then start at 1 and subtract
# 0.001 a thousand times.
#
# **Guess:** where do the two end in bfloat16?

# %%
def repeat(kind, start, change, times=1000):
    x = rounded(start, kind)
    for _ in range(times):
        x = rounded(x + np.float32(change), kind)
    return float(x)


print("format     0 + 1, 1,000 times   1 - 0.001, 1,000 times")
for kind in ("float32", "float16", "bfloat16"):
    print(f"{kind:8} {repeat(kind, 0, 1):20.0f} {repeat(kind, 1, -0.001):24.4f}")
assert repeat("bfloat16", 0, 1) == 256, "257 lies in the middle of 256 and 258"
assert repeat("bfloat16", 1, -0.001) == 1, "0.999 lies nearer to 1 than to 1 - 1/256"

# %% [markdown] tags=["answer"]
# At 256 and at 1. Near 1,000 would be a good guess: one rounding is off by at most 1/256 of a
# number, and errors up and down might cancel. But 256 + 1 is rounded to 256 each time, as 1 - 0.001
# is to 1 (section 1).

# %% [markdown]
# A factor of a product is rounded once, with a relative error of at most 1/256. A sum is rounded
# again and again, and where its terms are smaller than half a step, *all* of them are lost. So the
# rule is: **16 bits for what is multiplied, float32 for what is summed.** And a weight is the sum
# of all its updates.

# %% [markdown] tags=["deeper"]
# ### In a product of matrices
#
# out = a @ b with K terms for each number of out. We model a tensor core: it gets rounded
# *factors*, and adds in float32. (A real one may round otherwise while it adds.) Compare with
# rounding the sum as well, for random factors of mean 0, and of mean 1:

# %%
def product_error(terms, kind, round_sum, mean=0):
    """The relative error of products of `terms` terms, root mean square."""
    draw = np.random.default_rng(3)
    a, b = draw.standard_normal((2, terms, 300), dtype=np.float32) + np.float32(mean)
    exact = (a.astype(float) * b).sum(axis=0)
    a, b = rounded(a, kind), rounded(b, kind)
    total = np.zeros(300, np.float32)
    for row in range(terms):
        total = total + a[row] * b[row]
        if round_sum:
            total = rounded(total, kind)
    return math.sqrt(((total - exact) ** 2).mean() / (exact**2).mean())


print(f"one bfloat16 factor times another: an error of {product_error(1, 'bfloat16', False):.1e}")

# %%
TERMS = (16, 64, 256, 1024)
cases = (("float32", False), ("tf32", False), ("bfloat16", False), ("bfloat16", True))
errors = {case: [product_error(k, *case) for k in TERMS] for case in cases}
of_mean_1 = {case: [product_error(k, *case, mean=1) for k in TERMS] for case in cases[2:]}
print("factors           sum       " + " ".join(f"K = {k:<7}" for k in TERMS))
for mean, rows in enumerate((errors, of_mean_1)):
    for (kind, round_sum), found in rows.items():
        print(f"{kind:8}, mean {mean}  {'rounded' if round_sum else 'float32'}   ", end="")
        print(" ".join(f"{error:<11.1e}" for error in found))
fell, grew = (found[3] / found[0] for found in of_mean_1.values())
assert fell < 0.3 and grew > 4, "mean 1: rounded factors matter less and less, rounded sums more"
assert errors["bfloat16", True][3] > 4 * errors["bfloat16", False][3], "the sum is what suffers"

# %%
figure, axes = plot.plt.subplots(figsize=(8, 4.4))
for (kind, round_sum), found in errors.items():
    name = f"{kind}, sum {'rounded too' if round_sum else 'in float32'}"
    axes.loglog(TERMS, found, "o--" if round_sum else "o-", color=COLORS[kind], label=name)
axes.set_xticks(TERMS, [str(k) for k in TERMS])
axes.set_xticks([], minor=True)
axes.set(title="Error of a product with K terms (mean 0)", xlabel="K", ylabel="relative error")
axes.set(ylim=(1e-8, 300))
axes.legend(loc="upper center", fontsize="small", ncols=2)
plot.save(figure, "22_products.png")
growth = {case: found[3] / found[0] for case, found in errors.items()}
print(f"from K = 16 to 1,024: x {growth['bfloat16', False]:.1f} with the sum in float32,", end=" ")
print(f"x {growth['bfloat16', True]:.1f} with the sum rounded")
assert growth["bfloat16", False] < 1.3 < growth["bfloat16", True], "rounded factors: no growth"

# %% [markdown]
# With rounded factors of mean 0 the relative error does not grow with K: error and sum both grow as
# the root of K. With mean 1 the sum grows as K, so the relative error falls. With a rounded sum it
# grows in both cases.

# %% [markdown]
# ## 4. What rounding costs in a training
#
# A linear map learns 64 weights by gradient descent with a small learning rate, three times:
#
# - all in **float32**;
# - with **rounded weights**: they are rounded to bfloat16 after each update;
# - with **mixed precision**: the forward and the backward pass use a rounded copy w, and the update
#   goes to *master weights* in float32.
#
# The gradient of the mean squared error is $dw = \frac{2}{N} x^\top (x w - y)$. (Only weights are
# rounded here, not x and the gradients.)

# %%
def learn(way, steps=2000, rate=0.004, noise=0):
    """The losses; of the last update: the weights before, what is subtracted, the weights after."""
    draw = np.random.default_rng(4)
    x = draw.standard_normal((128, 64), dtype=np.float32)
    y = x @ draw.standard_normal((64, 1), dtype=np.float32)
    y = y + noise * draw.standard_normal((128, 1), dtype=np.float32)
    master, losses = np.zeros((64, 1), np.float32), []
    for _ in range(steps):
        before = master
        w = master if way == "float32" else rounded(master, "bfloat16")
        error = x @ w - y
        losses.append(float((error * error).mean()))
        dw = 2 * x.T @ error / len(x)
        update = np.float32(rate) * dw
        master = before - update
        if way == "rounded weights":
            master = rounded(master, "bfloat16")
    return losses, before, update, master


fast_start = learn("float32", steps=50)[0]
print(f"float32: loss {fast_start[0]:.1f} at the start, {fast_start[-1]:.1f} after 50 updates")

# %%
results = {way: learn(way) for way in ("float32", "mixed precision", "rounded weights")}
figure, axes = plot.plt.subplots(figsize=(8, 4.4))
for (way, (losses, *_)), style in zip(results.items(), ("-", "--", "-"), strict=True):
    axes.semilogy(losses, style, label=way, linewidth=2)
axes.set(title="Where the weights are rounded", xlabel="update", ylabel="loss")
axes.legend(loc="lower left")
plot.save(figure, "22_training.png")
ends, moved = {}, {}
for way, (losses, before, _, after) in results.items():
    ends[way], moved[way] = losses[-1], int((after != before).sum())
    print(f"{way:15}   loss {ends[way]:9.6f}   moved by the last update: {moved[way]} of 64")
assert ends["rounded weights"] > 100 * ends["mixed precision"], "rounded weights stop learning"
assert moved["rounded weights"] == 0 < moved["mixed precision"], "no weight moves any more"

# %% [markdown]
# The curve with rounded weights stops at a loss of 4, without any error message: each change is now
# smaller than half a step of bfloat16, and no weight moves. The curve of mixed precision is that of
# float32. The master weights are the only difference between the two, so they are the cause. That
# is why a training "in bfloat16" usually keeps its weights in float32.

# %% [markdown] tags=["deeper"]
# ### Half a step, and noise
#
# Is the last update really smaller than half a step? `frexp` writes a weight as f 2^e with f from
# 1/2 to 1. bfloat16 keeps 8 binary digits of f, so its steps are 2^(e - 8).
#
# And does the factor of hundreds between the two losses belong to these data? Without noise in y
# the loss of mixed precision can fall to 0. So we add noise to y, and compare again.

# %%
_, before, update, _ = results["rounded weights"]
half_step = 2.0 ** (np.frexp(before)[1] - 8) / 2
largest = float((np.abs(update) / half_step).max())
print(f"rounded weights: the largest part of the last update is {largest:.3f} of half a step")
assert 0.9 < largest < 1, "the last update is rounded away"
noisy = {way: learn(way, noise=1)[0][-1] for way in ("mixed precision", "rounded weights")}
print("with noise in y:", ", ".join(f"{way} {end:.2f}" for way, end in noisy.items()))
assert noisy["rounded weights"] > noisy["mixed precision"] + 3, "the difference stays"

# %% [markdown]
# With noise the factor is 7 and not hundreds, but the *difference* is still 4.

# %% [markdown] tags=["deeper"]
# ### The same in a GPT
#
# Is a transformer hit as hard? A small GPT-2 learns letters of the story world with AdamW, in the
# same three ways. (Again only weights are rounded.)

# %%
from minigpt import GPT2, GPT2Config, data
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import CharTokenizer

corpus = data.load("stories:400:1")
letters = CharTokenizer.train(corpus.pieces("train"))
stream = np.array(letters.encode("".join(corpus.pieces("train"))))
held_out = stream[-32 * 33 :].reshape(32, 33)  # not trained on
LITTLE = GPT2Config(vocab_size=letters.vocab_size, n_positions=32, n_embd=32, n_layer=2, n_head=2)
print(f"{len(stream):,} letters, for example:", letters.decode(stream[:40]))


def round_weights(parameters):
    for parameter in parameters:
        parameter.data = rounded(parameter.data, "bfloat16")


# %%
def learn_letters(way, seed, steps=300):
    """The loss of held-out letters; all weights before the last update, and after it."""
    model = GPT2(LITTLE, seed=seed)
    parameters, optimizer = list(model.parameters()), AdamW(model.named_parameters())
    for step in range(steps):
        first = np.random.default_rng([seed, step]).integers(len(stream) - 1100, size=16)
        rows = stream[first[:, None] + np.arange(33)]
        masters = [parameter.data for parameter in parameters]
        if way == "mixed precision":
            round_weights(parameters)
        model.zero_grad()
        model.loss_backward(model.loss(rows[:, :-1], rows[:, 1:])[1])
        for parameter, master in zip(parameters, masters, strict=True):
            parameter.data = master
        before = np.concatenate([parameter.data.ravel() for parameter in parameters])
        optimizer.step(1e-3)
        if way == "rounded weights":
            round_weights(parameters)
    if way != "float32":
        round_weights(parameters)  # as the forward pass uses them
    after = np.concatenate([parameter.data.ravel() for parameter in parameters])
    return float(model.loss(held_out[:, :-1], held_out[:, 1:])[0]), before, after


print(f"float32, 30 updates: {learn_letters('float32', 0, steps=30)[0]:.2f}")

# %%
WAYS = ("float32", "mixed precision", "rounded weights")
gpt_runs = {way: [learn_letters(way, seed) for seed in (0, 1)] for way in WAYS}
of_gpt = {way: [loss for loss, _, _ in found] for way, found in gpt_runs.items()}
print("held-out loss after 300 updates, two seeds")
for way, found in of_gpt.items():
    print(f"{way:15} {found[0]:.3f} {found[1]:.3f}")
worse = {way: np.subtract(of_gpt[way], of_gpt["float32"]) for way in WAYS[1:]}
assert np.abs(worse["mixed precision"]).max() < 0.02, "mixed precision: as float32"
assert worse["rounded weights"].min() > 0.03, "rounded weights: worse, with each seed"

# %% [markdown]
# Mixed precision is as good as float32. (Rounded was only the copy of the weights, not x and not
# the gradients.) Rounded weights are worse, but this GPT still learns. Why does it not stop, as
# the linear map did? Look at the last update: which weights did it move?

# %%
_, before, after = gpt_runs["rounded weights"][0]
moved_of_size = []
print("size of the weight   weights   moved by the last update")
for low, high in ((0, 0.01), (0.01, 0.05), (0.05, 0.5), (0.5, 2)):
    of_size = (np.abs(before) >= low) & (np.abs(before) < high)
    moved_of_size.append((after != before)[of_size].mean())
    print(f"{low:5} to {high:<9} {of_size.mean():9.1%} {moved_of_size[-1]:12.0%}")
assert moved_of_size[0] > 0.9 and moved_of_size[3] < 0.02, "small weights move, large ones do not"
assert (before == 1).sum() == of_size.sum() == 5 * 32, "the gains of five LayerNorms: still 1"

# %% [markdown]
# Most weights of this GPT are near 0, where the steps of bfloat16 are small, so most of them still
# move. The only ones above 0.5 are the 160 gains of LayerNorm (lesson 06). They start at 1, and
# after 300 updates each is still exactly 1: section 1 has said why.

# %% [markdown]
# ## 5. float16 needs one thing more
#
# Gradients are often small, and below 3e-8 float16 knows only 0. The cure is to multiply the loss
# by a large number before the backward pass, and to divide the gradients by it afterwards. This is
# called **loss scaling**. (The number must not be too large: above 65,519 a scaled gradient would
# be infinite.) bfloat16 has the range of float32 and needs none.

# %%
print("gradient      float16     float16, scaled   bfloat16")
lost = {"plain": 0, "scaled": 0}
for gradient in np.float32(10) ** np.arange(-10, -3):
    plain = float(rounded(gradient, "float16"))
    scaled = float(rounded(gradient * 4096, "float16")) / 4096
    lost["plain"] += plain == 0
    lost["scaled"] += scaled == 0
    short = float(rounded(gradient, "bfloat16"))
    print(f"{gradient:8.0e} {plain:12.1e} {scaled:15.1e} {short:13.1e}")
assert lost == {"plain": 3, "scaled": 0}, "scaling saves what float16 would lose"

# %% [markdown] tags=["deeper"]
# ## 6. Recorded graphs: launches that repeat
#
# Numbers of 16 bits are one way to a shorter step. Here is another. A training step of a small
# model waits for launches, not for arithmetic (lesson 20). But every step makes the same launches:
# the same kernels, on arrays of the same shapes. So a GPU can record the launches of one step as a
# list, and run the whole list by a single launch. CUDA calls the list a **CUDA graph**. Here are 12
# kernels of 2 microseconds each, with launches of 5 microseconds. (We assume that the launch of the
# graph takes 5 microseconds too.)

# %%
from minigpt.learn.counting import LAUNCH

LAUNCH_US, KERNEL_US, KERNELS = round(1e6 * LAUNCH), 2, 12
one_by_one = [(LAUNCH_US * (n + 1), KERNEL_US) for n in range(KERNELS)]
in_a_graph = [(LAUNCH_US + KERNEL_US * n, KERNEL_US) for n in range(KERNELS)]
figure, panels = plot.plt.subplots(2, 1, figsize=(8.5, 4.6), sharex=True)
plans = (("one by one", one_by_one, KERNELS), ("recorded", in_a_graph, 1))
took = {}
for axes, (name, runs, launches) in zip(panels, plans, strict=True):
    took[name] = sum(runs[-1])
    starts = [(LAUNCH_US * n, LAUNCH_US) for n in range(launches)]
    axes.broken_barh(starts, (1, 0.7), color="tab:blue", ec="white")
    axes.broken_barh(runs, (0, 0.7), color="tab:orange", ec="white")
    axes.set(yticks=(0.35, 1.35), yticklabels=("kernels", "launches"))
    axes.set_title(f"{name}: {took[name]} microseconds")
panels[1].set_xlabel("microseconds")
plot.save(figure, "22_graph.png")
print(", ".join(f"{name}: {length} us" for name, length in took.items()))

# %% [markdown]
# ### A recorder, and what it repeats
#
# We build a recorder for NumPy. `launch` computes nothing: it puts a function, the array for its
# result and the arguments on a list. `replay` runs the list. A GPU does the same: it stores
# *addresses* of arrays, and the *values* of numbers.

# %%
class Graph:
    """Launches, recorded once and run by `replay`."""

    def __init__(self):
        self.launches = []

    def launch(self, function, out, *arguments):
        self.launches.append((function, out, arguments))

    def replay(self):
        for function, out, arguments in self.launches:
            out[...] = function(*arguments)


square, source = np.zeros(2), np.array([1.0, 2.0])
graph = Graph()
graph.launch(np.multiply, square, source, source)
source[...] = [3, 4]  # new numbers at the same address
graph.replay()
print("replay with 3 and 4 at the same address:", square)
source = np.array([5.0, 6.0])  # another address: the graph does not know it
graph.replay()
print("replay after the name got another array:", square)
assert list(square) == [9, 16], "the graph reads the address that it has recorded"

# %% [markdown]
# Now a training step: a linear map with dropout on its input learns by gradient descent. Batches
# come from a generator. We train four times: without a graph (`AtOnce` computes each launch), with
# a graph that is used in the right way, and with two mistakes.
#
# - **Old batch**: the new batch is given a name, and is not copied to the recorded address.
# - **Old key**: the key of the dropout is a number among the arguments, so the graph has stored
#   it.


# %%
class AtOnce:
    """No graph: each launch computes."""

    def launch(self, function, out, *arguments):
        out[...] = function(*arguments)

    def replay(self):
        """Everything has been computed."""


B, C = 16, 8
TRUE_W = np.random.default_rng(0).normal(size=(C, 1))


def batch_of(step):
    x = np.random.default_rng([1, step]).normal(size=(B, C))
    return x, x @ TRUE_W


print(f"a batch: x {batch_of(0)[0].shape}, y {batch_of(0)[1].shape}")


# %%
def drop(x, key):
    """Dropout of one element in four; key (1,): an array, read when the kernel runs."""
    keep = np.random.default_rng(int(key[0])).random(x.shape) >= 0.25
    return x * keep / 0.75


def step_on(graph, x, y, w, key):
    """The launches of one training step. Returns two arrays: x after dropout, and the loss."""
    dropped, error, dw = (np.full_like(array, np.nan) for array in (x, y, w))
    loss = np.full(1, np.nan)
    graph.launch(drop, dropped, x, key)
    graph.launch(lambda a, w, y: a @ w - y, error, dropped, w, y)
    graph.launch(lambda e: (e * e).mean(), loss, error)
    graph.launch(lambda a, e: 2 * a.T @ e / B, dw, dropped, error)
    graph.launch(lambda w, dw: w - 0.05 * dw, w, w, dw)
    return dropped, loss


first_graph = Graph()
first_loss = step_on(first_graph, *batch_of(0), np.zeros((C, 1)), [0])[1]
while_recorded = float(first_loss[0])
first_graph.replay()
print("launches of a step:", len(first_graph.launches))
print(f"the loss while it is recorded: {while_recorded}; after a replay: {first_loss[0]:.4f}")
assert np.isnan(while_recorded) and first_loss[0] > 0, "recording computes nothing"


# %%
def train(way, steps=4):
    """(losses, how many elements the mask of the last step shares with that of the first)"""
    (x, y), w, key = batch_of(0), np.zeros((C, 1)), np.zeros(1, int)
    losses, masks, graph = [], [], None
    for step in range(steps):
        new_x, new_y = batch_of(step)
        if way == "no graph":
            graph = AtOnce()
            dropped, loss = step_on(graph, new_x, new_y, w, [step])
        elif graph is None:  # the first step is recorded
            graph = Graph()
            dropped, loss = step_on(graph, x, y, w, (0,) if way == "old key" else key)
        elif way != "old batch":
            x[...], y[...] = new_x, new_y  # copied to the recorded addresses
        key[...] = step  # a graph with an old key does not look here
        graph.replay()
        losses.append(float(loss[0]))
        masks.append(dropped != 0)
    return losses, int((masks[0] == masks[-1]).sum())


print("the first two losses without a graph:", np.round(train("no graph", 2)[0], 4))

# %%
trained = {way: train(way) for way in ("no graph", "right graph", "old batch", "old key")}
print("way           losses of four steps            mask of step 3 as that of step 0")
for way, (losses, shared) in trained.items():
    print(f"{way:12} {' '.join(f'{loss:7.4f}' for loss in losses)}   {shared} of {B * C} elements")
same_losses = np.allclose(trained["no graph"][0], trained["right graph"][0], rtol=1e-12)
assert same_losses and trained["no graph"][1] == trained["right graph"][1], "a graph: the same"
gone_wrong = np.abs(np.subtract(trained["old batch"][0], trained["no graph"][0]))
assert gone_wrong[0] < 1e-12 and gone_wrong[1:].min() > 0.1, "old numbers from the second step on"
assert trained["old key"][1] == B * C > trained["right graph"][1], "the same mask at the last step"

# %% [markdown]
# Both mistakes run to the end, and no error message appears. With the old batch every step computes
# on the first batch. With the old key the same elements are dropped at every step. So three rules
# hold for a recorded step:
#
# 1. **Addresses stay.** The arrays of a graph have memory that is used for nothing else.
# 2. **What changes lies in memory**, and is copied there before each replay: the batch, and the
#    keys of the dropout.
# 3. **The program reads no result on the way.** While a graph is recorded nothing is computed: the
#    loss above was still `nan`. So `if loss > 10:` inside a step has no meaning.

# %% [markdown] tags=["deeper"]
# ## 7. What a graph saves
#
# We count the launches of a training step of nano, as lesson 20 did: by the reference operations
# and by the library's kernels. For a recorded step we add them up by hand:
#
# - 2: ids and targets are copied to the GPU (in all three cases);
# - 2: the norm and the loss are copied back for the display (in all three cases);
# - 2: ids and targets are copied to their places in the graph;
# - 1: the graph is launched;
# - 3: clipping and AdamW run outside of it.

# %%
from minigpt import ops
from minigpt.learn.counting import a_gpu_that_does_nothing, launches_of_a_step
from minigpt.models.gpt2 import SIZES

NANO = GPT2Config(vocab_size=65, **SIZES["nano"])  # 4 layers, 128 wide
COPIES = 4  # ids and targets to the GPU, the norm and the loss back
with ops.using("reference"):
    counts = {"reference": sum(launches_of_a_step(NANO, 12, 64)) + COPIES}
with a_gpu_that_does_nothing(), ops.using("cuda"):
    counts["kernels"] = sum(launches_of_a_step(NANO, 12, 64, together=True)) + COPIES
counts["recorded"] = COPIES + 2 + 1 + 3  # by hand
print("a step of nano   launches   at 5 us each")
for name, number in counts.items():
    print(f"{name:14} {number:10,} {number * LAUNCH_US / 1000:11.2f} ms")
assert counts["reference"] > 5 * counts["kernels"], "kernels: less than a fifth of the launches"
assert counts["kernels"] > 10 * counts["recorded"], "recorded: less than a tenth of those"

# %% [markdown]
# Only launches are saved. The GPU still runs every kernel. For GPT-2 small on a T4 we expect no
# gain from a graph: by lesson 20's count the arithmetic alone takes longer than all launches. With
# a faster GPU this can change. The tensor cores (lesson 21) of an H100 make up to 989 trillion
# operations per second in bfloat16. We compute how long a step takes at half of this rate, and
# divide by its number of launches. If a launch costs more than that, the H100 waits.

# %%
from minigpt.jobs.pretrain.step import SMALL
from minigpt.models import costs

of_a_token = costs.flops_per_token(GPT2, GPT2Config(**SIZES["small"]))[1]
NARROW = GPT2Config(**(SIZES["small"] | {"n_embd": 24, "vocab_size": 65}))  # as many launches
with a_gpu_that_does_nothing(), ops.using("cuda"):
    of_small = sum(launches_of_a_step(NARROW, 8, 1024, together=True)) + COPIES  # 520 + 4
print(f"GPT-2 small: {of_small} launches, at {LAUNCH_US} us {of_small * LAUNCH_US / 1e3:.1f} ms")
print("texts of 1,024   H100 at half its peak   it waits if a launch costs more than   recorded")
waits_above = {}
for texts in (1, 2, 4, 8, 16):
    operations = texts * 1024 * of_a_token
    seconds = operations / (989e12 / 2)
    waits_above[texts] = 1e6 * seconds / of_small
    print(f"{texts:14} {1e3 * seconds:20.1f} ms {waits_above[texts]:34.0f} us", end=" ")
    print(f"{'yes' if operations < SMALL else 'no':>10}")
assert waits_above[1] < LAUNCH_US < waits_above[2], "at 5 us only a single text waits"
assert 8 * 1024 * of_a_token < SMALL < 16 * 1024 * of_a_token, "where the library draws the line"

# %% [markdown]
# With the 5 microseconds of lesson 20 only a single text waits. But between two launches Python
# works too, and 5 microseconds do not count that. What it costs has not been measured on a GPU. (In
# `benchmarks/host_cost.py` a stand-in takes the place of the GPU, checks all that it is given, and
# so is slow itself. That gives no more than an upper bound.) The library is careful: it records a
# step if each of its parts has fewer than 10 trillion operations. In the table these are the steps
# of up to 8 texts. If a launch with the Python around it costs at most 54 microseconds, each step
# of the table that would wait is recorded.
#
#     # minigpt/jobs/pretrain/step.py
#     SMALL = 1e13
#
# Where `--accumulate` cuts a step into several parts, one graph holds all of them. (A graph of one
# part could not be run for the others. Dropout must know which row of the batch is the first of
# its part, and a graph stores this number as a value.) Where the number of targets changes from
# batch to batch, no step is recorded: the loss divides by it, a value too. A graph keeps its memory
# (rule 1). Where there is too little of it, a warning says so, and the kernels are launched one by
# one.
#
# A model that writes at least 16 tokens after the first one is recorded too. For this every token
# must be the same work: the past (lesson 17) has all its room from the start, and how much of it is
# filled is a number in memory, from which a mask is computed.
#
# The replay:
#
#     # minigpt/ops/cuda/cuda_graph.py
#     for recorded, given in zip(self.inputs, arrays, strict=True):
#         recorded[...] = given
#     self.graph.launch()
#     return self.result
#
# These lines are rule 2. For dropout, all keys of a step are made beforehand as a small table, and
# each kernel reads its own key from memory:

# %%
tables = [ops.Key.of(0, step).table(NANO.n_layer + 1, 3) for step in (1, 2)]
print(f"nano: {tables[0].size} keys for a step; other steps, other keys")
assert (tables[0] != tables[1]).all(), "another step has other keys"
# the key of place 1 in layer 4, looked up and computed (a layer drops at up to three places)
by_table = ops.Key(tables[1]).fold(4, 1).seed_bits
assert by_table == ops.Key.of(0, 2).fold(4, 1).bits, "the table gives the key of a dropout"

# %% [markdown] tags=["deeper"]
# ## 8. In the library
#
# `minigpt train --dtype bfloat16` needs a GPU with tensor cores for it, and so does `--dtype tf32`.
# In both, the products of layers and those of causal attention run on tensor cores. With tf32 only
# the factors of products are rounded. With bfloat16, what passes between layers is bfloat16, and a
# block of GPT-2 rounds the residual stream after each addition: 24 times in GPT-2 small, not a
# thousand times. The logits are bfloat16 too, each rounded once. These stay float32: the weights
# that learn, the moments of AdamW, the gains of LayerNorm and its statistics, the sums over the
# logits, the loss, and the gradients of weights.
#
# Inside a kernel, `real` is how a number is stored and `wide` is what it is summed in (lesson 21).
# The rounding is ours of section 2, in C (`nan` gets bits of its own):
#
#     # minigpt/ops/cuda/bfloat16.cuh
#     unsigned all = __float_as_uint(x);
#     bool nan = (all & 0x7FFFFFFFu) > 0x7F800000u;
#     bits = nan ? 0x7FFF : (all + 0x7FFF + (all >> 16 & 1)) >> 16;

# %%
from minigpt.learn import kernel
from minigpt.ops.cuda import kernels

ROUND = """
extern "C" __global__ void round_all(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = float(bfloat16(x[i]));
}
"""
every = np.arange(0, 2**32, 2**14 + 1).astype(np.uint32).view(np.float32)
every = every[np.abs(every) < 3e38]  # finite, also after rounding
by_hand = rounded(every, "bfloat16")
# steps of bfloat16: 8 digits stay (section 4); numbers below 2^-126 have steps of 2^-133
step = 2.0 ** np.maximum(np.frexp(every)[1] - 8, -133)
assert np.array_equal(by_hand, np.rint(every / step) * step), "section 2 rounds to the nearest"
print(f"{len(every):,} numbers: section 2's rounding is that by division", end="")
if kernel.problem() is None:
    in_c = np.full_like(every, np.nan)
    library = kernels.source("gelu", "float32")  # every source begins with bfloat16.cuh
    kernel.run(library + ROUND, "round_all", -(-len(every) // 256), 256, in_c, every, len(every))
    assert np.array_equal(in_c, by_hand), "the library's C gives the same numbers"
print(", and the library's C" if kernel.problem() is None else f"; C: {kernel.problem()}")

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - Micikevicius et al., section 3: master weights in float32, loss scaling, and sums in float32.
#   They used float16, and not each of their models needed the scaling. bfloat16 has the range of
#   float32, and Kalamkar et al. trained without scaling.
# - The peak rates of NVIDIA's data sheets, in trillion operations per second (without the special
#   mode for matrices in which half of the numbers are 0): T4 8.1 in float32 and 65 in float16; A100
#   19.5, 156 in tf32, 312 in 16 bits; H100 SXM 67, 494, 989.
# - Kalamkar et al. trained several kinds of models in bfloat16, with the settings of float32, and
#   report the same results.
# - CuPy records graphs by `stream.begin_capture()`; PyTorch has `torch.cuda.CUDAGraph`, and the
#   same three rules hold.
# - In this project, recorded graphs, bfloat16 and tf32 are tested without a GPU, as far as this is
#   possible. How much time they save has not yet been measured.

# %% [markdown]
# ## 10. To keep
#
# - bfloat16 has the range of float32 and 8 binary digits: near 1 its steps are 1/128 and 1/256.
#   float16 has finer steps, and a small range: it needs loss scaling.
# - 16 bits for what is multiplied, float32 for what is summed: a sum loses every term that is
#   smaller than half a step.
# - A weight is the sum of its updates. With rounded weights a training can stop, and no error
#   message comes; with master weights in float32 it goes on.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/22_stochastic_rounding.py`: round up or down at random, so that the *average* is
#    right. Then rounded weights learn without master weights. Run the file: it judges you.
# 2. `exercises/22_find_the_bug.py`: float16 with loss scaling and clipping. It trains, but
#    much too slowly.
# 3. On paper: at which number does a sum of ones end in float16, and in tf32? Check it with
#    `repeat`, with more than 1,000 additions.
# 4. On paper: a weight w is stored in bfloat16, and updates are w times some ratio. Below which
#    ratio is an update always rounded away?
# 5. Try it: give the four trainings of section 6 two hundred steps, and average the last 20 losses.
#    Which of the two mistakes can you see?

# %%
last = f"{ends['rounded weights']:.2f} with rounded weights, {ends['mixed precision']:.4f} without"
print(f"lesson 22: every check is happy (loss {last})")
