# %% [markdown]
# # Lesson 23: several workers, one model
#
# You will divide one batch among several workers and add their gradients. The sum will equal the
# gradient of the whole batch, to the last digits. Then you will add vectors in a ring, in which no
# worker sends more than two gradients, even if there are a thousand workers. The deeper parts show
# three mistakes that the usual tests do not find. They measure how much harm a shared dropout mask
# does, and start real processes, whose speed is compared with a formula of three numbers.
#
# Reading: 25 minutes for the core, 90 minutes for all of it. Running: 30 to 80 seconds. Before it:
# lessons 07 (dropout and its keys), 11 (the training loop, `normalizer`) and 16 (GPT-2). The deeper
# parts make two sittings, with a pause before section 5.
#
# Papers: Patarasuk and Yuan 2009 (J. Parallel Distrib. Comput. 69): the ring. Goyal et al. 2017
# (arXiv 1706.02677), sections 2 and 3: learning rates and normalisers of large batches. Amdahl
# 1967: what more workers cannot make faster.

# %% [markdown]
# ## 1. Why: one batch, two workers
#
# GPT-1 was trained for a month on 8 GPUs (OpenAI's announcement). How can eight machines train
# *one* model? The simplest way is **data parallelism**: each machine (each **worker**) holds a copy
# of the whole model and takes an eighth of every batch. The loss is a mean over the batch. Is its
# gradient then the mean of the eight gradients?
#
# Four targets have the losses 2, 4, 6 and 8. Worker 0 has the first three, worker 1 the last one.
#
# **Guess:** each worker computes the mean of its own losses. What is the mean of these two means?

# %%
import numpy as np

from minigpt import plot
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
d = plot.Diagram(7, 3.8, "one batch, two copies of the model")
source = d.box(0.8, 2.1, "batch\nlosses\n2 4 6 8", color="gray", width=1.2, height=1.2)
result = d.box(6.1, 2.1, "3 + 2 = 5\nright", color="tab:green", width=1.4, height=0.9)
for y, name, part in ((3.0, "worker 0\n2  4  6", "12 / 4 = 3"), (1.2, "worker 1\n8", "8 / 4 = 2")):
    copy = d.box(2.8, y, name, width=1.5, height=0.8)
    d.arrow(source, copy)
    d.arrow(copy, result)
    d.text(4.8, 2.1 + 1.1 * (y - 2.1), part, color="tab:green")
d.text(3.5, 0.3, "the mean of the means: (4 + 8) / 2 = 6, wrong", color="tab:red")
plot.save(d.figure, "23_two_workers.png")
four = np.array([2.0, 4, 6, 8])
mean_of_means = (four[:3].mean() + four[3:].mean()) / 2
sum_of_parts = four[:3].sum() / 4 + four[3:].sum() / 4
print(f"all: {four.mean()}; mean of means: {mean_of_means}; parts / 4, added: {sum_of_parts}")
assert mean_of_means == 6 and sum_of_parts == four.mean() == 5, "divided by 4, the parts add up"

# %% [markdown] tags=["answer"]
# 6, and not the 5 that all four together have. With two losses each it would be 5.

# %% [markdown]
# The mean of two means is the mean *only if both parts have the same size*. Another rule always
# works: divide by 4, the number of targets of the **whole** batch, in every worker. Then the parts
# only have to be added. The library calls this number `normalizer`. (Lesson 11 used it for a batch
# that did not fit into memory.)
#
# One may think that equal parts are easy to have: give each worker as many rows. Here each of two
# workers has two rows. A row is a sentence of the story world, letter by letter. All rows are as
# long as the longest sentence. Where a sentence has ended, the targets are -100, which means "not
# predicted".

# %%
from minigpt import data
from minigpt.data import stories
from minigpt.tokenizer import CharTokenizer

corpus = data.load("stories:4000:1")
text = CharTokenizer.train(piece for part in ("train", "valid") for piece in corpus.pieces(part))
sentences = sorted((sentence.text for sentence in stories.story(2, variety=1).sentences), key=len)
sentences = sentences[-2:] + sentences[:2]  # two long ones, two short ones
B, T = len(sentences), max(map(len, sentences)) - 1
ids, targets = np.zeros((B, T), int), np.full((B, T), -100)
for row, sentence in enumerate(sentences):
    letters = text.encode(sentence)
    ids[row, : len(letters) - 1] = letters[:-1]
    targets[row, : len(letters) - 1] = letters[1:]
halves = slice(0, 2), slice(2, 4)
counts = [int((targets[half] >= 0).sum()) for half in halves]
for worker, half in enumerate(halves):
    print(f"worker {worker}: two rows, {counts[worker]} targets")
    for sentence in sentences[half]:
        print("   ", sentence)
assert counts[0] > 1.5 * counts[1], "two rows each, but not the same number of targets"

# %% [markdown]
# The model is a small GPT-2 in float64. `gradient` is what a worker computes.

# %%
from minigpt import GPT2, GPT2Config


def new_model(dropout=0.0, dtype=np.float64):
    """A GPT-2 of two layers; the same weights each time."""
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), dropout)
    sizes = {"vocab_size": text.vocab_size, "n_positions": T, "n_embd": 16, "n_layer": 2}
    return GPT2(GPT2Config(**sizes, n_head=2, **rates), seed=0, dtype=dtype)


def gradient(ids, targets, normalizer=None, key=None, dropout=0.0):
    """The gradient of the loss of these rows; one vector for all parameters."""
    model = new_model(dropout)
    loss, cache = model.loss(ids, targets, normalizer=normalizer, key=key)
    model.loss_backward(cache)
    return np.concatenate([p.grad.ravel() for p in model.parameters()])


def off(vector, right):
    """The length of the difference, divided by the length of the right vector."""
    return np.linalg.norm(vector - right) / np.linalg.norm(right)


print(f"one gradient: {gradient(ids, targets).size:,} numbers")

# %%
whole = gradient(ids, targets)
parts = [gradient(ids[half], targets[half]) for half in halves]
averaged = (parts[0] + parts[1]) / 2
added = sum(gradient(ids[half], targets[half], normalizer=sum(counts)) for half in halves)
print("how far from the gradient of the whole batch")
print(f"  the mean of the two gradients            {off(averaged, whole):.0%}")
print(f"  one normalizer for both, gradients added {off(added, whole):.0e}")
assert off(averaged, whole) > 0.05, "the mean of the gradients is another gradient"
assert off(added, whole) < 1e-12, "with the whole batch's normalizer the gradients add up"

# %% [markdown]
# The mean of the gradients is not a noisy version of the right gradient. It is the exact gradient
# of *another* loss, in which a letter of a short sentence counts more than a letter of a long one.
#
# Each worker now updates its own copy of the weights, from the same sum. So all copies stay equal,
# and no worker ever sends a weight.

# %% [markdown] tags=["deeper"]
# ### The other loss, and a test that does not see it
#
# By how much does a letter of a short sentence count too much?

# %%
right_weight = 1 / sum(counts)  # in the mean of two means it is 1 / (2 * count)
for name, count in zip(("long", "short"), counts, strict=True):
    print(f"a letter of the {name} sentences counts {1 / (2 * count) / right_weight:.2f} times"
          " what it should")
mixed = sum(n / sum(counts) * part for n, part in zip(counts, parts, strict=True))
assert 1 / (2 * counts[1]) / right_weight > 1.2, "letters of short sentences count too much"
assert off(mixed, whole) < 1e-12, "weighted by their numbers of targets, the means are right"

# %% [markdown]
# **The trap.** A usual test takes random tokens. Then no row ends early, both parts have the same
# number of targets, and the mistake passes:

# %%
filled = np.random.default_rng(0).integers(text.vocab_size, size=(B, T))
of_halves = sum(gradient(ids[half], filled[half]) for half in halves) / 2
passes = off(of_halves, gradient(ids, filled))
print(f"all rows full: the mean of the gradients is {passes:.0e} off")
assert passes < 1e-12, "with full rows the mistake cannot be seen"

# %% [markdown]
# The mistake also passes in pre-training, as long as the text is cut into full windows. It changes
# the gradient when somebody fine-tunes the model on sentences of different lengths.

# %% [markdown] tags=["deeper"]
# ## 2. Dropout: each worker needs its own rows
#
# Without dropout the sum is right to rounding. With dropout there is chance, and two workers must
# drop the same elements as one worker would. In this library a mask is not drawn from a stream of
# random numbers. It is *computed* from a key and from the number of each element **in the whole
# batch** (lesson 07). So a worker must know one more thing: which row of the batch is its first.

# %%
from minigpt.ops.random_keys import Key, keep_mask

key = Key.of(0, 7)  # seed 0, step 7


def draw(first_row, rows):
    """Some rows of a dropout mask as text: x is kept, a dot is dropped."""
    mask = keep_mask(key._replace(row=first_row), 0.5, (rows, 24), np)
    return ["".join(".x"[int(kept)] for kept in row) for row in mask]


columns = {
    "the whole batch": draw(0, 4),
    "first rows 0 and 2": draw(0, 2) + draw(2, 2),
    "first rows 0 and 0": draw(0, 2) + draw(0, 2),
}
print("          " + "".join(f"{name:27}" for name in columns).rstrip())
for row, masks in enumerate(zip(*columns.values(), strict=True)):
    print(f"worker {row // 2}  " + "".join(f"{mask:27}" for mask in masks).rstrip())
right_masks, same_masks = columns["first rows 0 and 2"], columns["first rows 0 and 0"]
assert right_masks == columns["the whole batch"], "with its first row, a worker has its own masks"
assert same_masks != columns["the whole batch"], "without it, two workers share their masks"

# %% [markdown]
# Each line is one row of the batch. In the middle, worker 1 says "my first row is row 2", and its
# masks are those of rows 2 and 3. On the right, both workers say nothing; the default is row 0,
# and **both use the same masks**. What does this change in the gradient?

# %%
def two_workers(first_rows):
    """The sum of two workers' gradients; each takes its masks from this first row on."""
    total = 0
    for half, row in zip(halves, first_rows, strict=True):
        own_key = key._replace(row=row)
        total = total + gradient(ids[half], targets[half], sum(counts), own_key, dropout=0.1)
    return total


one_worker = gradient(ids, targets, key=key, dropout=0.1)
own_rows, both_zero = off(two_workers((0, 2)), one_worker), off(two_workers((0, 0)), one_worker)
print("how far from one worker's gradient, dropout 0.1")
print(f"  first rows 0 and 2   {own_rows:.0e}")
print(f"  first rows 0 and 0   {both_zero:.0%}")
assert own_rows < 1e-12, "with their own rows, two workers are one worker"
assert both_zero > 0.01, "with shared masks the gradient is a different one"

# %% [markdown] tags=["deeper"]
# ## 3. How much harm does a shared mask do?
#
# One may object: dropout is noise, and these are only other random masks. Each worker's masks are
# as random as before, and the loss falls. The objection overlooks this: where the gradients of many
# rows are added, the noise grows less than the sum, but only if the rows' noise is *independent*.
#
# For N workers, let sigma^2 be the variance of each gradient g_r over all masks: the mean of |g_r -
# mean of g_r|^2. (g_r is a vector: this is the sum of the variances of its numbers.) Let rho be the
# **correlation** of two workers' gradients: 0 if their noise is independent, 1 if it is the same.
# As in (a + b)^2 = a^2 + b^2 + 2 a b, the variance of a sum has mixed terms. We take sigma to be
# the same for all workers, and rho for all pairs:
#
# $$
# \mathrm{Var}\Big(\sum_{r} g_r\Big)
#   = \sum_{r} \sigma^2 + \sum_{r \neq s} \rho\,\sigma^2
#   = N \sigma^2 \big(1 + (N-1)\,\rho\big)
# $$
#
# With own masks rho = 0. With shared masks the noise (the square root of the variance) is
#
# $$
# \sqrt{1 + (N-1)\,\rho}
# $$
#
# times as large. How large is rho? That depends on the data, so we measure it in two cases:
# eight workers with one row each, **different** text in each row, or the **same** text in all.

# %%
W, LENGTH, KEYS = 8, 48, 60
tokens, held_out = data.encode(corpus, text, context=64)
starts = np.random.default_rng(0).integers(len(tokens) - LENGTH - 1, size=W)
different = np.array([tokens[start : start + LENGTH + 1] for start in starts]).astype(int)
same = different[[0] * W]


def gradients(rows, first_key, shared):
    """(KEYS, W, parameters): every worker's gradient under KEYS keys."""
    model, one_by_one = new_model(dropout=0.1), []
    for n in range(first_key, first_key + KEYS):
        for worker, row in enumerate(rows):
            mask_key = Key.of(n, 0)._replace(row=0 if shared else worker)
            model.zero_grad()
            _, cache = model.loss(row[None, :-1], row[None, 1:], W * LENGTH, key=mask_key)
            model.loss_backward(cache)
            one_by_one.append(np.concatenate([p.grad.ravel() for p in model.parameters()]))
    return np.reshape(one_by_one, (KEYS, W, -1))


for row in different[:3]:
    print(f"a row: {text.decode(row.tolist())!r}")

# %% [markdown]
# rho is measured under one set of keys. The noise of the sum is measured under other keys, so
# that the formula is a prediction.

# %%
def noise(g, n):
    """Standard deviation, over keys, of the sum of n workers; a mean: W workers are W/n groups."""
    sums = g.reshape(len(g), W // n, n, -1).sum(axis=2)  # variance over keys, of all parameters
    return np.sqrt(sums.var(axis=0).sum(axis=-1).mean())


def correlation(g):
    """The mean correlation of the gradients of two different workers."""
    g = g - g.mean(axis=0)
    products = np.einsum("kap,kbp->ab", g, g)  # of workers a and b: over keys, parameters
    pairs = products / np.sqrt(np.outer(np.diag(products), np.diag(products)))
    return (pairs.sum() - W) / (W * (W - 1))


found, rhos, halves_of_keys = {}, {}, {}
print("text        workers   rho    predicted  measured: noise with shared / with own masks")
for name, rows in (("different", different), ("same", same)):
    rho = rhos[name] = correlation(gradients(rows, 0, shared=True))
    own, shared = gradients(rows, 100, shared=False), gradients(rows, 200, shared=True)
    for n in (2, 4, 8):
        predicted = np.sqrt(1 + (n - 1) * rho)
        found[name, n] = noise(shared, n) / noise(own, n)
        print(f"{name:9}{n:8}{rho:10.3f}{predicted:9.2f}{found[name, n]:11.2f}")
        assert abs(found[name, n] / predicted - 1) < 0.15, "the formula predicts the noise"
    halves_of_keys[name] = [noise(shared[k::2], W) / noise(own[k::2], W) for k in (0, 1)]

# %%
print("eight workers, different text, each half of the keys alone:", end="")
print("".join(f"{value:6.2f}" for value in halves_of_keys["different"]))
assert min(halves_of_keys["different"]) > 1.03, "more noise than with own masks, in each half"
assert 2.4 < found["same", 8] < 3.2, "the same text for all: sqrt(8) = 2.8 times the noise"
assert 0.9 < found["different", 2] < 1.2, "two workers with different text: a few percent"
assert found["different", 8] < 1.35, "eight workers with different text: little more"
figure, axes = plot.plt.subplots()
for name, style in (("same", "s-"), ("different", "o-")):
    axes.plot((2, 4, 8), [found[name, n] for n in (2, 4, 8)], style, label=f"{name} text")
axes.plot((2, 4, 8), np.sqrt((2, 4, 8)), "k:", label="square root of N")
axes.set(xlabel="workers N", ylabel="noise, times that of own masks", ylim=(0.8, 3))
axes.set_xticks((2, 4, 8))
axes.set_title("Shared dropout masks")
axes.legend()
plot.save(figure, "23_shared_masks.png")

# %% [markdown]
# **What each case shows.** If all workers have the same text, one mask gives all of them the same
# noise: rho = 1, and eight workers have 2.8 = sqrt(8) times as much noise as with their own masks.
# If the text differs, the same mask disturbs each gradient in another direction: rho is a few
# hundredths, two workers have a few percent more noise, and eight about 15 percent. Real batches
# are of the second kind. So with a few workers **this mistake adds little noise**. (We measured a
# small model before its training, and no loss after a training with the mistake.) A demonstration
# with copies of one sentence would exaggerate it.
#
# It is a mistake all the same, for two reasons. First, the formula has N in it: if rho stayed the
# same, 1,000 workers would have about seven times the noise (next cell). Second, two workers no
# longer compute what one computes. Then the only test of the whole, "the parts equal the whole",
# fails, and any other mistake can hide behind this one. A gradient check of one worker cannot show
# it. We expect that a loss curve does not either, but we have not tried. What shows it is the test
# of section 2: two halves against the whole, *with dropout*.

# %%
rho = rhos["different"]
print(f"workers   noise with shared masks, if rho = {rho:.3f} for any number of workers")
for n in (2, 8, 64, 1000):
    print(f"{n:7,}   {np.sqrt(1 + (n - 1) * rho):.2f} times")
assert 5 < np.sqrt(1 + 999 * rho) < 9, "a thousand workers: about seven times the noise"

# %% [markdown]
# One more rule about the sum. Two steps of the training loop are not linear, so they must come
# **after** it: clipping (lesson 11) and the update (Adam divides by a square root). Two small
# gradients show it for clipping at length 1:

# %%
def clipped(g):
    """The gradient, shortened to length 1 if it is longer."""
    return g * min(1, 1 / np.linalg.norm(g))


part_0, part_1 = np.array([3.0, 0.0]), np.array([-2.5, 0.5])
print("sum, then clip: ", clipped(part_0 + part_1))
print("clip, then sum: ", (clipped(part_0) + clipped(part_1)).round(2))
assert np.allclose(clipped(part_0 + part_1), [0.5, 0.5]), "the sum is short: nothing is clipped"
assert abs(clipped(part_0) + clipped(part_1))[0] < 0.05, "clipped first, one direction is lost"

# %% [markdown]
# So each worker clips and updates by itself, after the sum.

# %% [markdown]
# ## 4. All-reduce: how the sum is made
#
# Every worker has a vector of n numbers, and every worker needs the sum of all these vectors. The
# operation is called **all-reduce**. A simple way: all workers send their vectors to worker 0,
# which adds them and sends the sum back. With 64 workers, 63 vectors must pass through the cable of
# worker 0, one after the other.
#
# The **ring** uses all cables at the same time. Each worker sends only to its right neighbour and
# receives only from its left one. Cut every vector into N chunks.
#
# - **Reduce-scatter**, N-1 steps. Send a chunk to the right neighbour, which adds it to its own.
#   In the next step the neighbour sends on that sum. After N-1 steps each chunk has passed all
#   workers, and each worker holds one complete chunk.
# - **All-gather**, N-1 steps. Send the complete chunk to the right neighbour, which copies it and
#   sends it on.
#
# Two workers, two chunks, [1, 2] and [10, 20]:
#
#                  worker 0      worker 1
#     start         1   2        10  20
#     step 0: worker 0 sends its chunk 0, worker 1 its chunk 1; both are added
#                   1  22        11  20
#     step 1: worker 0 sends its chunk 1, worker 1 its chunk 0; both are copied
#                  11  22        11  22
#
# In step 0 worker r sends chunk r. In each later step it sends on the chunk that it has just
# received from its left neighbour.
#
# **Your turn:** which chunk does worker r of N send in step `step`? (r and `step` are arrays.)

# %%
from minigpt.learn import gap


def your_chunk(r, step, N):
    return ...


sent_on = [np.arange(4)]  # step 0: worker r sends chunk r
for _ in range(5):
    sent_on.append(np.roll(sent_on[-1], 1))  # what the left neighbour has sent a step before
gap.judge(your_chunk, np.arange(4), np.arange(6)[:, None], 4, expected=np.array(sent_on))

# %% [markdown] tags=["answer"]
# `(r - step) % N`: with each step a chunk moves one worker to the right, so worker r sends a chunk
# that began `step` workers to its left.

# %% [markdown]
# So worker r sends chunk r - step, modulo N. For four workers:
#
#               worker 0   worker 1   worker 2   worker 3
#     step 0    chunk 0    chunk 1    chunk 2    chunk 3
#     step 1    chunk 3    chunk 0    chunk 1    chunk 2
#     step 2    chunk 2    chunk 3    chunk 0    chunk 1
#
# So in step 1 worker 1 sends what it has just received: chunk 0.

# %%
def ring(vectors, show=lambda action: None):
    """vectors: one (n,) for each worker; all become the sum -> how many numbers each has sent"""
    N, sent = len(vectors), [0] * len(vectors)
    chunks = [np.array_split(vector, N) for vector in vectors]  # views of the vectors
    for step in range(2 * (N - 1)):
        in_transit = [chunks[r][(r - step) % N].copy() for r in range(N)]  # all send at once
        for r in range(N):
            to, chunk = (r + 1) % N, (r - step) % N
            if step < N - 1:
                chunks[to][chunk] += in_transit[r]  # reduce-scatter
            else:
                chunks[to][chunk][...] = in_transit[r]  # all-gather
            sent[r] += len(in_transit[r])
        show("add" if step < N - 1 else "copy")
    return sent


example = [np.array([1.0, 2.0]), np.array([10.0, 20.0])]
print("two workers with [1, 2] and [10, 20] send", ring(example), "numbers; both have", example[0])
assert (example[0] == [11, 22]).all() and (example[1] == [11, 22]).all(), "both have the sum"

# %% [markdown]
# Four workers, four chunks of one number each. Worker 0 has ones, worker 1 tens, worker 2 hundreds,
# worker 3 thousands. So the digits say which workers are in a number, and 1111 is complete.

# %%
workers = [np.full(4, 10**r) for r in range(4)]
stages = [("start", np.array(workers))]
numbers_sent = ring(workers, lambda action: stages.append((action, np.array(workers))))
for group in (stages[:4], stages[4:]):
    print("           " + "".join(f"{action:22}" for action, _ in group).rstrip())
    for r in range(4):
        print(f"worker {r}   " + "   ".join(" ".join(f"{x:04}" for x in s[r]) for _, s in group))
assert all((vector == 1111).all() for vector in workers), "every worker has every number"
assert numbers_sent == [6] * 4, "2 (N-1) chunks were sent by each"
assert (stages[3][1] == 1111).sum() == 4, "after N-1 steps each worker has one complete chunk"

# %% tags=["hide-input"]
d = plot.Diagram(7.4, 4.8, "how many workers' numbers are in each chunk (a row is a worker)")
COLOR_OF = {1: "0.8", 2: "tab:cyan", 3: "tab:blue", 4: "tab:green"}
for i, (action, chunks) in enumerate(stages):
    x, y = 0.95 + 1.83 * (i % 4), 3.35 if i < 4 else 1.0
    d.text(x, y + 1.0, f"{i}. {action}")
    for row, chunk in np.ndindex(4, 4):
        in_it = sum(map(int, str(chunks[row, chunk])))
        at = x + 0.4 * (chunk - 1.5), y + 0.4 * (1.5 - row)
        d.grid(*at, [[in_it]], color=COLOR_OF[in_it], cell=0.4)
plot.save(d.figure, "23_ring.png")

# %% [markdown]
# Follow the first chunk of worker 0, 0001. It is added to the first chunk of worker 1 (0011), this
# sum to that of worker 2 (0111), and this to that of worker 3 (1111). Then each 1111 moves on.
#
# **The count.** There are 2(N-1) steps, and in each a worker sends a chunk of n/N numbers:
#
# $$
# 2\,(N-1) \cdot \frac{n}{N} = \frac{2\,(N-1)}{N}\; n \;<\; 2\,n
# $$
#
# As many numbers come into each worker.

# %%
n_gpt1 = 116_534_784  # the parameters of GPT-1: so many numbers has one gradient
print(f"one gradient of GPT-1 is {4 * n_gpt1 / 1e6:.0f} MB in float32")
print("workers   gradients into worker 0, all send to it   into every worker, in the ring")
for N in (2, 4, 8, 64, 1024):
    if N <= 64:
        ones = [np.ones(N * 3) for _ in range(N)]
        assert ring(ones) == [2 * (N - 1) * 3] * N, "the ring sends what the formula says"
        assert all((vector == N).all() for vector in ones), "and every worker has the sum"
    print(f"{N:7,}{N - 1:20,}{2 * (N - 1) / N:40.3f}")
assert round(4 * n_gpt1 / 1e6) == 466, "one gradient of GPT-1 is 466 MB"

# %% [markdown]
# For two workers the ring gains nothing. But **for any N, no worker sends more than two
# gradients.** What does grow with N is the number of *steps* (exercise 4).

# %% [markdown] tags=["deeper"]
# ### Drawn, and why not less

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots()
N_axis = np.arange(1, 17)
axes.plot(N_axis, N_axis - 1, "o-", color="tab:red", label="into worker 0, if all send to it")
ring_curve = 2 * (N_axis - 1) / N_axis
axes.plot(N_axis, ring_curve, "o-", color="tab:green", label="into every worker, in the ring")
axes.axhline(2, color="gray", linestyle=":")
axes.set(title="What passes through one cable", xlabel="workers N", ylabel="gradients")
axes.set_yticks(range(0, 17, 2))
axes.legend()
plot.save(figure, "23_cables.png")

# %% [markdown]
# Less than 2(N-1)/N is not possible where workers send to each other (Patarasuk and Yuan prove it).
# In short: to add N numbers, N-1 of them must be sent at least once, and then the sum must be sent
# to N-1 workers. That is 2(N-1) n numbers, shared by N cables. (If the network itself adds on the
# way, half is enough.)

# %% [markdown] tags=["deeper"]
# ### The last bits
#
# In a third way every worker sends to every other, and each adds what arrives. Then N-1 gradients
# come into each worker, and there is a trap: a sum of floats depends on the order in which it is
# added.

# %%
a, b, c = np.random.default_rng(0).normal(size=(3, 100_000)).astype(np.float32)
own_first = [(a + b) + c, (b + c) + a, (c + a) + b]  # each worker begins with its own vector
unequal = (own_first[0] != own_first[1]).mean()
unequal_two = (a + b != b + a).mean()
in_ring = [a.copy(), b.copy(), c.copy()]
ring(in_ring)
print("sums that differ between two workers, if each worker begins with its own vector")
print(f"  three workers  {unequal:.0%}")
print(f"  two workers    {unequal_two:.0%}")
print(f"  three workers, ring  {(in_ring[0] != in_ring[1]).mean():.0%}")
assert unequal > 0.05, "with three workers, sums in another order differ in the last bit"
assert unequal_two == 0, "two workers cannot show it: a + b = b + a"
assert all((v == in_ring[0]).all() for v in in_ring), "in the ring each sum is made once"

# %% [markdown]
# Each worker updates its own copy of the weights, and the copies are never compared. If the sums
# differ in one bit, do the copies stay together? Three workers with one row each, in float32:

# %%
from minigpt.nn.optim import AdamW


def apart(steps, own_order):
    """The largest difference between the weights of two of three workers after so many steps."""
    copies = [new_model(dtype=np.float32) for _ in range(3)]
    optimizers = [AdamW(model.named_parameters()) for model in copies]
    for _ in range(steps):
        parts = []
        for model, row in zip(copies, different[:3], strict=True):
            model.zero_grad()
            model.loss_backward(model.loss(row[None, :-1], row[None, 1:], 3 * LENGTH)[1])
            parts.append([p.grad for p in model.parameters()])
        for worker, (model, optimizer) in enumerate(zip(copies, optimizers, strict=True)):
            first = worker if own_order else 0
            for i, p in enumerate(model.parameters()):
                x, y, z = (parts[(first + k) % 3][i] for k in range(3))
                p.grad = (x + y) + z
            optimizer.step(1e-3)
    pairs = zip(copies[0].parameters(), copies[1].parameters(), strict=True)
    return max(np.abs(p.data - q.data).max() for p, q in pairs)


print(f"after no step: {apart(0, own_order=True)}")

# %%
print("steps   each worker in its own order     all in one order")
differences = {steps: apart(steps, own_order=True) for steps in (1, 10, 100)}
for steps, difference in differences.items():
    print(f"{steps:5}{difference:20.0e}{apart(steps, own_order=False):29.0e}")
assert min(differences.values()) > 0, "the copies differ, and do not come together again"
assert apart(10, own_order=False) == 0, "with one sum for all, they stay equal to the bit"

# %% [markdown]
# The copies differ, and each worker then computes the gradient of a *different* model. The
# difference is small here. What matters is that nothing makes the copies equal again. In the ring
# each sum is made once, in one order, and then copied. Note the line of two workers above: a + b
# = b + a. A test with two workers passes. The mistake needs three.
#
# Between one worker and four, the last bits differ in any case: other parts, another order. So
# between different N we require equality to rounding; between the workers of one run, equal bits.

# %% [markdown] tags=["deeper"]
# ## 5. Measure it
#
# Now with real processes. `ring_worker.py`, beside this file, is the program that each of them
# runs. It is the training loop of lesson 11 with three additions: take your rows, with the
# normalizer and the masks of the whole batch; put all gradients into one vector; `all_reduce`,
# which is the ring as one worker sees it:

# %%
import inspect
import sys

try:
    import ring_worker
except ModuleNotFoundError:
    missing = "lesson 23 needs ring_worker.py beside it: `minigpt lessons FOLDER` copies both"
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

print(inspect.getsource(ring_worker.all_reduce))

# %% [markdown]
# One thing is new here. If all workers first sent and then received, each would wait until its
# neighbour receives. With long vectors all would wait for ever, a **deadlock**. So the workers with
# even numbers send first, and those with odd numbers receive first. If N is odd, the workers N-1
# and 0 are neighbours, and both send first. That is no deadlock: worker 1 receives from worker 0,
# then worker 0 receives from worker N-1. Worker N-1 only waits a little longer.
#
# The next cell starts the processes, each with one thread, and reads what they print: the losses,
# and for each step the seconds for computing, for adding up and for updating.

# %%
import os
from pathlib import Path

command = [sys.executable, ring_worker.__file__]
one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
print(f"each process runs {Path(command[1]).name} with", *one_thread, sep="\n  ")

# %%
import contextlib
import json
import subprocess


def start(stack, job):
    """Start the processes of a job. Each prints its address, and is told its right neighbour's."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    processes = []
    for rank in range(job["size"]):
        arguments = [*command, json.dumps(job | {"rank": rank})]
        process = subprocess.Popen(arguments, env=os.environ | one_thread, **pipes)
        processes.append(stack.enter_context(process))
        stack.callback(process.kill)  # does nothing if it has ended
    if len(processes) > 1:
        addresses = [process.stdout.readline() for process in processes]
        for process, right in zip(processes, addresses[1:] + addresses[:1], strict=True):
            process.stdin.write(right)
            process.stdin.flush()
    return processes


some_job = {"rank": 1, "size": 2, "batch": 32, "steps": 15}
print("what a process is given, among other things:", json.dumps(some_job))

# %%
import tempfile

CONTEXT = 64  # letters in a row
sizes = {"vocab_size": text.vocab_size, "n_positions": CONTEXT, "n_embd": 64, "n_layer": 2}


def train_together(size, batch, steps=15):
    """Train with so many processes -> the losses (steps,), the seconds of the fastest step (3,)"""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        job = {"size": size, "batch": batch, "steps": steps, "config": sizes | {"n_head": 8}}
        job["tokens"] = str(Path(folder) / "tokens.npy")
        np.save(job["tokens"], tokens[:200_000])
        with contextlib.ExitStack() as stack:
            outputs = [p.communicate(timeout=300)[0] for p in start(stack, job)]
    assert all(outputs), "a process has ended with an error: its message stands above"
    results = [json.loads(output) for output in outputs]
    same_losses = all(result["losses"] == results[0]["losses"] for result in results)
    assert same_losses, "all workers have the same losses, to the bit: it is one sum, copied"
    seconds = np.mean([result["seconds"] for result in results], axis=0)
    return np.array(results[0]["losses"]), seconds[seconds.sum(axis=1).argmin()]


three_losses = train_together(3, 32, steps=3)[0]
print("losses of three workers with 10, 11 and 11 rows:", *(f"{loss:.6f}" for loss in three_losses))

# %%
measured = {(batch, size): train_together(size, batch) for batch in (32, 2) for size in (1, 2)}
print("batch   first loss   last loss   largest difference between one worker and two")
for batch in (32, 2):
    alone, together = measured[batch, 1][0], measured[batch, 2][0]
    difference = np.abs(alone - together).max()
    print(f"{batch:5}{alone[0]:11.3f}{alone[-1]:12.3f}{difference:16.0e}")
    assert difference < 1e-10, "two workers train as one does"
    assert alone[-1] < alone[0] - 0.1, "and the loss falls"
of_three = np.abs(three_losses - measured[32, 1][0][:3]).max()
print(f"three workers with 10, 11 and 11 rows: the same losses to {of_three:.0e}")
assert of_three < 1e-10, "parts of unequal size are no difficulty"

# %% [markdown]
# With any number of workers it is the same training, dropout included (these models have GPT-2's
# rate of 0.1). How fast is it? Each step has three parts. **Computing** takes c seconds if one
# worker does all of it; N workers divide it. The **update**, u seconds, is not divided: every
# worker makes all of it. **Adding up** is new. The ring sends 2(N-1)/N gradients; let s be the
# seconds for one. So
#
# $$
# t(N) = \frac{c}{N} + u + \frac{2\,(N-1)}{N}\, s,
# \qquad t(2) = \frac{c}{2} + u + s
# $$
#
# c and u are taken from the run with one worker, s from the run with two, in which each worker
# sends one gradient. So for two workers the formula predicts only that computing takes c / 2. (It
# leaves out the latency of the 2(N-1) steps, which grows with N; for N = 2 it is a part of s.)
# **Efficiency** is the speed divided by N times the speed of one worker. The speeds below are
# measured here and now, on a machine that may have other work to do. So nothing is asserted about
# them.

# %%
three_numbers = {}
print("milliseconds   computing, one   computing, each of two   update   adding")
for batch in (32, 2):
    (c1, _, u1), (c2, s2, u2) = measured[batch, 1][1], measured[batch, 2][1]
    three_numbers[batch] = c1, u1, s2, c2 + s2 + u2
    print(f"batch {batch:2}{1e3 * c1:21.1f}{1e3 * c2:25.1f}{1e3 * u1:9.1f}{1e3 * s2:9.1f}")
print("\nletters a second   one worker   two workers   two, by the formula   efficiency")
for batch, (c1, u1, s2, t2) in three_numbers.items():
    t1, predicted_t2 = c1 + u1, c1 / 2 + u1 + s2
    one, two, predicted_two = (batch * CONTEXT / t for t in (t1, t2, predicted_t2))
    print(f"batch {batch:2}{one:21,.0f}{two:14,.0f}{predicted_two:22,.0f}{t1 / t2 / 2:13.0%}")

# %% [markdown]
# When does a second worker help? By the formula t(2) < t(1) only if s < c / 2. Compare s with c in
# your first table. The gradient is as long for 2 rows as for 32, but c is much smaller for 2. So
# for the small batch s may be more than c / 2, and then **two workers are slower than one.** (If
# the second column is not near half of the first, your cores have other work too. A worker that
# must share its core is late, and in a ring all others wait for the slowest.)
#
# The formula says what more workers cannot do. However large N is, t(N) stays above u:
#
# $$
# \frac{t(1)}{t(N)} \;<\; \frac{c + u}{u}
# $$
#
# **No number of workers makes a step shorter than the part that is not divided.** This is Amdahl's
# law. Is computing really divided by N? Half the rows need not take half the time. We measure it:

# %%
import time


def seconds_of(rows, repeats=8):
    """The shortest time of a forward and backward pass with so many rows."""
    model = GPT2(GPT2Config(**sizes, n_head=8), seed=0, dtype=np.float64)
    x, y = data.batch(tokens, rows, CONTEXT, seed=0, step=0)
    shortest = np.inf
    for step in range(repeats):
        started = time.perf_counter()
        model.loss_backward(model.loss(x, y, key=Key.of(0, step))[1])
        shortest = min(shortest, time.perf_counter() - started)
    return shortest


row_counts = np.array([1, 2, 4, 8, 16, 32])
row_seconds = np.array([seconds_of(rows) for rows in row_counts])
print("rows          " + "".join(f"{rows:8}" for rows in row_counts))
print("milliseconds  " + "".join(f"{1e3 * t:8.2f}" for t in row_seconds))
print("  for a row   " + "".join(f"{1e3 * t:8.2f}" for t in row_seconds / row_counts))

# %% [markdown]
# Look at the last line. If one row alone takes longer than one row among 32, then a part of c is
# not divided either: it is the same for 1 row as for 32. (On a busy machine the line may show
# nothing. We guess that this part is the time to call each operation, and the work on the weights.)
# It belongs to u. For small batches the formula then predicts too high a speed.

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots()
for batch, color in ((32, "tab:blue"), (2, "tab:orange")):
    c1, u1, s2, t2 = three_numbers[batch]
    step_seconds = c1 / N_axis + u1 + s2 * 2 * (N_axis - 1) / N_axis
    axes.plot(N_axis, (c1 + u1) / step_seconds, "--", color=color, label=f"batch {batch}: formula")
    axes.plot([1, 2], [1, (c1 + u1) / t2], "o", color=color, label=f"batch {batch}: measured")
axes.plot(N_axis, N_axis, color="gray", linestyle=":", label="N times as fast")
axes.set(xlabel="workers N", ylabel="t(1) / t(N)", xscale="log", yscale="log", ylim=(0.4, 16))
axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
axes.set_yticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
axes.minorticks_off()
axes.set_title("The same batch for more workers")
axes.legend(fontsize="small")
plot.save(figure, "23_amdahl.png")

# %% [markdown]
# (The dashed lines beyond two workers are the formula alone: nothing was measured there, and the
# latency is left out.) Two questions are often confused. **Strong scaling**: the same batch, more
# workers. By the formula no step is shorter than u, and for many workers it is near u + 2 s.
# **Weak scaling**: more workers, and each has as many rows as before. Then c is not divided. But
# the batch grows with N, and a larger batch is another training: fewer updates for the same text.
# Goyal et al. raise the learning rate in proportion to the batch, after a warm-up, and find that
# this works up to a certain size.

# %% [markdown] tags=["deeper"]
# ## 6. In the library
#
#     mpirun -n 2 minigpt train --data my_text.txt
#
# starts two processes that divide each batch as in section 2: the normalizer of the whole batch,
# and one key, from which each process takes its rows. (On one machine `minigpt train --processes 2`
# does the same without MPI: the processes add their gradients in memory that they share.) `Ranks`
# knows which rows these are, and adds the gradients with MPI's all-reduce, before clipping:
#
#     # minigpt/device/parallel.py
#     share = batch // self.size
#     return slice(self.rank * share, (self.rank + 1) * share)
#     ...
#     mine = np.ascontiguousarray(to_numpy(array))
#     total = np.empty_like(mine)
#     self.comm.Allreduce(mine, total)
#
# MPI is not needed to try the rows. Here a small class takes its place, once for each process. (It
# cannot add: `Allreduce` itself is not run here, and we add the two gradients ourselves.)

# %%
from minigpt.device.parallel import Ranks


class InPlaceOfMPI:
    """What `Ranks` needs of MPI to know its rows, for one of two processes."""

    def __init__(self, rank):
        self.Get_rank, self.Get_size = (lambda: rank), (lambda: 2)

    def allgather(self, value):
        return [value, value]


shares = [Ranks(InPlaceOfMPI(rank)).rows(B) for rank in (0, 1)]
by_library = 0
for rank, rows in enumerate(shares):
    print(f"process {rank} takes the rows", *range(B)[rows])
    own_key = key._replace(row=rows.start)
    by_library = by_library + gradient(ids[rows], targets[rows], sum(counts), own_key, 0.1)
print(f"the sum of their gradients is {off(by_library, one_worker):.0e} from one worker's")
assert tuple(shares) == halves, "the library divides the batch as we did"
assert off(by_library, one_worker) < 1e-12, "two processes compute what one computes"

# %% [markdown]
# Without MPI the same two arguments are used where a batch comes in parts (`--accumulate`).

# %% [markdown] tags=["deeper"]
# ## 7. Paper and code
#
# - **The normalizer.** Goyal et al., section 3, list it among the pitfalls: divide the loss by the
#   size of the whole batch, not by the worker's. In their images each example has one target. With
#   sentences it is the number of targets that counts.
# - **All-reduce** is MPI's name. MPI and NCCL (for GPUs) know several ways to compute it, the ring
#   among them, and choose by themselves.
# - **Overlap.** Large training runs send the gradient of a layer while the layers below it are
#   still in their backward pass. Then most of s happens during c. `ring_worker.py` does not do
#   this; between GPUs the library does (`minigpt/device/overlapped_sums.py`).
# - **One copy of everything in each worker** is what we built. Memory does not become smaller with
#   N. Exercise 1 changes that for the optimiser (Rajbhandari et al. 2020, "ZeRO", arXiv
#   1910.02054, stage 1).
# - **What is left out.** Here the *data* are divided. The model can be divided too: each matrix
#   over several workers (tensor parallelism), the layers one after the other (pipeline
#   parallelism), or *experts*, several MLPs in place of one, of which each token uses few. The
#   stages 2 and 3 of ZeRO also divide the gradients and the weights. None of these is built here.

# %% [markdown]
# ## 8. To keep
#
# - The gradient of a batch is the sum of its parts' gradients, if each part divides by the number
#   of targets of the whole batch. The mean of the parts' means is the gradient of another loss.
# - All workers add up the same sum and make the same update, so their weights stay equal without
#   being sent.
# - In a ring each worker sends a chunk to its right neighbour, adds for N - 1 steps and copies for
#   N - 1 steps: for any number of workers less than two gradients are sent by each.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/23_several_workers.py`: each worker keeps Adam's moments for one chunk only, and
#    sends no more than before. Four small functions; the file judges them.
# 2. `exercises/23_find_the_bug.py`: a ring that is right for two workers and wrong for three.
# 3. In `ring_worker.py`, leave out `._replace(row=rows.start)` and run this lesson. Which
#    assertion fails? At which step do the losses begin to differ? Why did the workers still agree
#    with *each other*?
# 4. On paper: N workers, N a power of two, add their vectors by **recursive doubling**. In step
#    k, worker r and worker r XOR 2^k send each other all they have, and both add. How many steps
#    are there, and how many numbers does each worker send? If a step takes the time L (latency)
#    and a number the time w: for which n is this faster than the ring?
# 5. Section 3 measured noise over masks. What is the correlation of two workers' gradients if the
#    texts begin with the same 24 letters? Guess first; then change `different` and run the cells.

# %%
print(f"lesson 23: every check is happy (two halves and the whole: {off(added, whole):.0e} apart)")
