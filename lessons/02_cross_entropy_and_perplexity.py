# %% [markdown]
# # Lesson 02: cross-entropy and perplexity
#
# You will turn "how good is this model?" into one number, derive the gradient that everything else in this book is fed
# with, see why it is so well behaved, and learn to read the number: nats, bits, perplexity.
#
# Reading: 30 minutes. Running: 6 seconds. Before it: lessons 00 (softmax) and 01 (linear, embedding).
#
# Papers: Radford et al. 2018 (GPT-1), equations 1 and 2, and section 4.1 (perplexity 18.4). Radford et al. 2019
# (GPT-2), section 3.1: comparing models that cut text differently.

# %% [markdown]
# ## 1. Why: the probability of a text, and why its log
#
# A language model gives, at each position, a probability to every token that may come next. A good model gives the
# text that really came a high probability: the product over its tokens. GPT-1 reads 512 tokens and chooses among
# 40,478. A model that knows nothing gives each 1/40,478:

# %%
import math

import numpy as np

V1, T1 = 40_478, 512  # vocabulary and context of GPT-1
product = np.prod(np.full(T1, 1 / V1))
print(f"the probability of 512 tokens: {product} in float64; it should be 10^{-T1 * math.log10(V1):.0f}")
assert product == 0 and round(T1 * math.log10(V1)) == 2359

# %% [markdown]
# No computer number is that small. So add logarithms, instead of multiplying. The log of a probability is negative;
# with a minus sign it is the **surprise** (*surprisal*), -ln p: 0 for what was certain, and large for what was thought
# impossible. Its unit is the nat; with the logarithm to base 2 it is the bit. The surprises of independent events add
# up, and of all smooth functions only the logarithm does that.

# %%
for what, p in (("certain", 1.0), ("a coin", 1 / 2), ("a die", 1 / 6), ("a token of GPT-1, by chance", 1 / V1)):
    print(f"  {what:28} p = {p:9.3g}: {-math.log(p) + 0:5.2f} nats = {-math.log2(p) + 0:5.2f} bits")
assert round(math.log(V1), 2) == 10.61

# %% [markdown]
# There is a deeper reason. A score should make honesty pay. Suppose that the next letter is a, b or c with the true
# probabilities 0.7, 0.2, 0.1, and try every model p on a grid. Score it by the average surprise, or by the average of
# p itself, which looks just as natural:

# %%
truth = np.array([0.7, 0.2, 0.1])
grid = np.array([(i, j, 100 - i - j) for i in range(101) for j in range(101 - i)]) / 100
with np.errstate(divide="ignore", invalid="ignore"):
    surprise = -np.nansum(np.where(grid > 0, truth * np.log(grid), -np.inf), axis=1)
best_by_log, best_by_p = grid[surprise.argmin()], grid[(grid @ truth).argmax()]
print(f"least average surprise: p = {best_by_log}; highest average p: p = {best_by_p}")
assert np.array_equal(best_by_log, truth) and np.array_equal(best_by_p, [1, 0, 0])

# %% [markdown]
# The log rewards the model that says what it believes. The other score rewards one that claims to be certain of a, and
# calls b and c impossible. The average surprise under the truth is called the **cross-entropy**; training makes it
# small.
#
# ## 2. Forward: one operation per line
#
# Scores, the logits, come in; softmax makes them probabilities p; the loss is the mean of -ln p[target]. Sizes: V = 7
# tokens, B x T = 2 x 3 positions. A target of -100 means: do not count this one (padding, or a prompt).
#
# First, -ln p[y] = -ln(exp(z[y]) / sum_v exp(z[v])) = lse - z[y], with lse = ln sum_v exp(z[v]). So no division and no
# log of a tiny p is needed. Second, exp(1000) is infinite. Take the largest score off: lse = top + ln sum_v exp(z[v] -
# top) holds for any number top, and now the largest exponent is 0.

# %%
B, T, V = 2, 3, 7
rng = np.random.default_rng(6)
logits = rng.normal(size=(B, T, V))
targets = np.array([[3, 0, 6], [1, -100, 2]])

z = logits.reshape(-1, V)  # (B*T, V) = (6, 7): every position is one row
y = targets.reshape(-1)  # (6,)
w = (y != -100).astype(float)  # 1, or 0 where nothing is to be predicted
y = np.where(y == -100, 0, y)  # any valid index: its weight is 0
n = np.arange(len(y))

top = z.max(axis=-1, keepdims=True)  # (6, 1)
s = z - top  # (6, 7)
e = np.exp(s)
total = e.sum(axis=-1, keepdims=True)  # (6, 1)
lse = np.log(total)[:, 0]  # (6,)
picked = s[n, y]  # (6,)
surprise = lse - picked  # -ln p of each target
weighted = w * surprise
loss = weighted.sum() / w.sum()

p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)  # the direct way, fine for small scores
assert math.isclose(loss, np.mean([-math.log(p[i, y[i]]) for i in n if w[i]]), rel_tol=1e-14)

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# The shift by top changes nothing in the result, whatever top is. So top is a constant here, although it was computed.
# (If it were none, it would hear minus the sum of its row of ds. The last line shows that this is zero.)

# %%
dloss = 1.0  # the loss is where the backward pass begins

# loss = weighted.sum() / w.sum()
dweighted = np.full(len(y), dloss / w.sum())
# weighted = w * surprise
dsurprise = w * dweighted
# surprise = lse - picked
dlse = dsurprise
dpicked = -dsurprise
# picked = s[n, y]: one entry of each row was taken, that entry alone hears
ds = np.zeros_like(s)
ds[n, y] = dpicked
# lse = log(total)
dtotal = (dlse / total[:, 0])[:, None]
# total = e.sum()
de = np.broadcast_to(dtotal, e.shape)
# e = exp(s)
ds = ds + de * e
# s = z - top, with top a constant
dz = ds
assert np.abs(ds.sum(axis=-1)).max() < 1e-16

# %% [markdown]
# ## 4. Collapse: p - onehot
#
# de * e = dlse e/total = dlse p: the slope of lse is p. And `picked` contributes -dlse at the target, nothing
# elsewhere. So
#
#     dz = (p - onehot(y)) * w / sum(w) * dloss
#
# Nothing in this book is simpler: what the model said, minus what was true.

# %%
def cross_entropy_forward(logits, targets, normalizer=None):
    """logits (*,V), targets (*) int -> loss ()"""
    z, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w, y, n = (y != -100).astype(z.dtype), np.where(y == -100, 0, y), np.arange(len(y))
    share = w / (w.sum() if normalizer is None else normalizer)
    s = z - z.max(axis=-1, keepdims=True)
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    loss = (share * (np.log(total[:, 0]) - s[n, y])).sum()
    return loss, ((e / total).reshape(logits.shape), y, share)


def cross_entropy_backward(dloss, cache):
    p, y, share = cache
    dz = p.reshape(len(y), -1).copy()
    dz[np.arange(len(y)), y] -= 1
    dz *= (share * dloss)[:, None]
    return dz.reshape(p.shape)


closed, cache = cross_entropy_forward(logits, targets)
dlogits = cross_entropy_backward(1.0, cache)
assert math.isclose(closed, loss, rel_tol=1e-14) and np.allclose(dlogits.reshape(-1, V), dz, rtol=0, atol=1e-16)
assert np.allclose(dlogits[1, 1], 0)  # the ignored one
huge, huge_cache = cross_entropy_forward(1000 * logits, targets)
assert np.isfinite(huge) and np.isfinite(cross_entropy_backward(1.0, huge_cache)).all()

# %% [markdown]
# Read it as forces. Every wrong answer is pulled *down* by its probability, the right one is pushed *up* by all that
# it lacks, and the forces of a row sum to zero: belief is moved, not made.
#
# **The surprise.** Two dangerous slopes are hidden in here. The slope of -ln p is -1/p: for p = 0.0001 it is -10,000.
# The slope of the softmax, p (1 - p), is as good as zero there. Their product is -(1 - p), always between -1 and 0.
# One explodes, the other dies, and together they make the tamest gradient in this book. Put another loss on the same
# softmax, the squared error (1 - p)^2, and the cancellation is gone:
#
#     d/dz (1 - p)^2 = -2 (1 - p) * p (1 - p) = -2 p (1 - p)^2

# %%
print("gradient of the right answer's logit")
for right in (0.9, 0.5, 0.1, 0.0001):
    score = math.log(right / (1 - right))  # two tokens, scores (score, 0): then p is just this
    pair, pair_cache = cross_entropy_forward(np.array([[score, 0.0]]), np.array([0]))
    by_log = cross_entropy_backward(1.0, pair_cache)[0, 0]
    by_square = -2 * right * (1 - right) ** 2
    print(f"  p = {right:6}: cross-entropy {by_log:7.4f}, squared error {by_square:7.4f}")
    assert math.isclose(by_log, right - 1, rel_tol=1e-9)

# %% [markdown]
# From its worst mistakes squared error learns next to nothing, and cross-entropy learns most.
#
# ## 5. Check, and the trap

# %%
from minigpt import gradcheck, ops

results = gradcheck.check(cross_entropy_forward, cross_entropy_backward, (logits, targets))
print(gradcheck.table(results))
assert all(result.error < 1e-9 for result in results)

# %% [markdown]
# **The trap: a batch in which everything counts.** Divide by the number of rows, not of counted targets, in the
# backward alone. Where no target is -100 the two are the same number, and nobody sees it:

# %%
def mean_of_rows_backward(dloss, cache):
    p, y, share = cache
    return cross_entropy_backward(dloss, (p, y, (share > 0) / len(y)))


everything = np.where(targets == -100, 5, targets)
for name, some in (("no -100", everything), ("one -100", targets)):
    [result] = gradcheck.check(cross_entropy_forward, mean_of_rows_backward, (logits, some))
    print(f"  {name}: {result.error:.0e}, {result.word}")
    assert result.word == ("happy" if name == "no -100" else "wrong")

# %% [markdown]
# **Its sister: the mean of means.** A batch too large for the memory is cut into micro-batches whose gradients are
# added. If each takes the mean over its own targets, and these are averaged, then a target in a micro-batch with few
# of them counts more:

# %%
parts = [(logits[:1], targets[:1]), (logits[1:], targets[1:])]  # 3 targets and 2
means = [cross_entropy_forward(*part)[0] for part in parts]
shares = [cross_entropy_forward(*part, normalizer=5)[0] for part in parts]  # 5: the targets of the whole batch
print(f"whole batch {loss:.4f}; mean of means {sum(means) / 2:.4f}; sum with the common normalizer {sum(shares):.4f}")
assert abs(sum(means) / 2 - loss) > 1e-3 and math.isclose(sum(shares), loss, rel_tol=1e-14)
gradients = [cross_entropy_backward(1.0, cross_entropy_forward(*part, normalizer=5)[1]) for part in parts]
assert np.allclose(np.concatenate(gradients), dlogits, rtol=0, atol=1e-16)

# %% [markdown]
# ## 6. See it, and read it
#
# The smallest language model: a table with one row of logits for each letter, from which the next letter is guessed.
# It is an embedding that ends in logits. We train it on one sentence, by the two gradients that we have.

# %%
text = "the cat sat on the mat and the rat sat on the cat"
letters = sorted(set(text))
ids = np.array([letters.index(letter) for letter in text])
now, after = ids[:-1], ids[1:]
table = np.zeros((len(letters), len(letters)))
losses, snapshots = [], {}
for step in range(2001):
    scores, taken = ops.embedding_forward(table, now)
    loss, kept = cross_entropy_forward(scores, after)
    dscores = cross_entropy_backward(1.0, kept)
    losses.append(loss)
    snapshots[step] = dscores * len(now) if step in (0, 20) else None  # times N: p - onehot itself
    table -= 10 * ops.embedding_backward(dscores, taken)

counts = np.zeros_like(table)
np.add.at(counts, (now, after), 1)
seen = counts / counts.sum(axis=1, keepdims=True)  # how often b followed a
by_counting = -np.log(seen[now, after]).mean()
print(f"loss: {losses[0]:.4f} at the start (ln {len(letters)} = {math.log(len(letters)):.4f}),", end=" ")
print(f"{losses[-1]:.4f} after 2,000 steps; counting pairs gives {by_counting:.4f}")
assert math.isclose(losses[0], math.log(len(letters)), rel_tol=1e-12) and 0 < losses[-1] - by_counting < 0.01
assert np.allclose(ops.softmax_forward(table)[0], seen, atol=0.03)

# %% [markdown]
# It learned to count. That had to be: a row of the table hears the sum of p - onehot over all places where its letter
# stands, which is zero when p is *how often each letter came next*.

# %%
from minigpt import plot

figure, (left, middle, right) = plot.plt.subplots(1, 3, figsize=(14, 4.8), width_ratios=(1, 1, 1.1))
rows, visible = slice(0, 16), text.replace(" ", "␣")
shown = [f"{a}→{b}" for a, b in zip(visible, visible[1:], strict=False)][rows]
for axes, step in ((left, 0), (middle, 20)):
    force = snapshots[step][rows]
    image = axes.imshow(force, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(letters)), ["␣", *letters[1:]])
    axes.set_yticks(range(len(shown)), shown, family="monospace", fontsize="small")
    axes.set(xlabel="logit of", title=f"p - onehot after {step} steps, loss {losses[step]:.2f}")
    axes.grid(False)
    assert np.abs(force.sum(axis=1)).max() < 1e-12  # every row sums to zero
left.set_ylabel("position: letter → next letter")
figure.colorbar(image, ax=middle, label="red is pushed up, blue is pulled down")
chances = np.logspace(-4, -0.001, 200)
right.semilogx(chances, 1 - chances, label="cross-entropy: 1 - p")
right.semilogx(chances, 2 * chances * (1 - chances) ** 2, "--", label="squared error: 2 p (1 - p)²")
right.set(xlabel="p, the probability that the right answer got", ylabel="push on its logit")
right.set_title("Who learns from a confident mistake?")
right.legend()
plot.save(figure, "02_cross_entropy.png")

# %% [markdown]
# Left: at the start all p are equal, each right answer is pushed up hard, and all others are pulled down a little.
# Middle: after 20 steps, what is certain and frequent in this text has nearly fallen silent (h→e); what is certain but
# rarer is on its way (c→a). Where several letters may follow (t→h, t→␣), positions pull against each other, for ever:
# that is the surprise that no table can learn away.
#
# **Perplexity** is exp(loss). A model that cannot choose between k equally likely tokens has a loss of ln k, so a
# perplexity of k: it is as unsure as a fair die with so many faces. GPT-1's printed 18.4 means 2.91 nats per token,
# out of 10.61 at chance.

# %%
fair = [cross_entropy_forward(np.zeros((1, k)), np.array([0]))[0] for k in (2, 18, V1)]
assert np.allclose(np.exp(fair), (2, 18, V1), rtol=1e-12) and round(math.log(18.4), 2) == 2.91

# %% [markdown]
# Before training, the loss is a little *above* ln V. GPT-1's first logits are not zero but random, with a spread of
# 0.02 sqrt(768) = 0.55, and random opinions cost half the variance: ln V + 0.55^2/2 = 10.76. A first loss of 11 or 12
# says: look for a bug.

# %%
first = cross_entropy_forward(rng.normal(0, 0.02 * math.sqrt(768), size=(200, V1)), rng.integers(0, V1, 200))[0]
print(f"random logits as in a new GPT-1: loss {first:.2f}; ln V + variance/2 = {math.log(V1) + 0.02**2 * 768 / 2:.2f}")
assert 0.1 < first - math.log(V1) < 0.2

# %% [markdown]
# **Perplexities per token, per word and per character are different things.** The surprise of a *text* is one number;
# what we divide it by is a choice. Say that a text has 4,400 characters, 800 words and 1,000 tokens, at 2.91 nats a
# token:

# %%
nats = 1000 * math.log(18.4)
per = {unit: math.exp(nats / count) for unit, count in (("token", 1000), ("word", 800), ("character", 4400))}
print("the same model, the same text: perplexity", ", ".join(f"{value:.1f} per {unit}" for unit, value in per.items()))
print(f"and {nats / math.log(2) / 4400:.2f} bits per character")
assert math.isclose(per["word"], 18.4 ** (1000 / 800)) and abs(per["word"] - 18.4 * 1000 / 800) > 10

# %% [markdown]
# Note where the division stands: inside the exponential. Multiplying 18.4 by 1,000/800 gives 23, which is nobody's
# perplexity. A vocabulary with longer tokens has fewer of them, so each bears more surprise and the perplexity *per
# token* rises although the model is no worse. Two models that cut text differently can only be compared per word, per
# character or per byte, as the GPT-2 paper does.

# %% [markdown]
# ## 7. In the library

# %%
library_loss, library_cache = ops.cross_entropy_forward(logits, targets)
assert math.isclose(library_loss, closed, rel_tol=1e-14)
assert np.allclose(ops.cross_entropy_backward(1.0, library_cache), dlogits, rtol=0, atol=1e-16)
print("its cache, in bytes:", ops.ledger(library_cache))
assert ops.ledger(library_cache)["p"] == logits.nbytes
gigabytes = 64 * T1 * V1 * 4 / 1e9
print(f"for 64 x 512 positions of GPT-1, float32: {gigabytes:.2f} GB for p, the same for the logits, and for dlogits")
assert round(gigabytes, 2) == 5.31

# %% [markdown]
# Tokens times vocabulary: the largest array in the model, by far, and needed for a moment only. GPT-1's logits come
# from the token table once more, h w^T with w (V,C) (equation 2), so the library has a composite of both,
# `ops.linear_cross_entropy_*`, from h to the loss. Its reference holds everything. But behind that signature one can
# work in pieces: a few rows of h, their logits, their loss, *their gradient at once*, and forget them. dloss only
# scales the result, so it may come later.

# %%
import tracemalloc


def in_pieces(h, w, targets, rows):
    normalizer, loss, dh, dw = (targets != -100).sum(), 0.0, np.empty_like(h), np.zeros_like(w)
    for start in range(0, len(h), rows):
        piece = slice(start, start + rows)
        part, cache = cross_entropy_forward(h[piece] @ w.T, targets[piece], normalizer)
        dlogits = cross_entropy_backward(1.0, cache)
        loss += part
        dh[piece] = dlogits @ w
        dw += dlogits.T @ h[piece]
    return loss, dh, dw


def whole(h, w, targets):
    with ops.using("reference"):
        loss, cache = ops.linear_cross_entropy_forward(h, w, targets)
        dh, dw, _ = ops.linear_cross_entropy_backward(1.0, cache)
        return loss, dh, dw


def peak(function, *args):
    tracemalloc.start()
    return function(*args), tracemalloc.get_traced_memory()[1] / 1e6, tracemalloc.stop()


h, w = rng.normal(size=(512, 24)), rng.normal(size=(5003, 24))
many = rng.integers(0, 5003, 512)
many[:99] = -100
(all_at_once, large, _), (piecewise, small, _) = peak(whole, h, w, many), peak(in_pieces, h, w, many, 32)
assert all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(all_at_once, piecewise, strict=True))
print(f"512 positions, 5,003 tokens: peak memory {large:.0f} MB whole, {small:.0f} MB in pieces of 32, same numbers")
assert large > 5 * small

# %% [markdown]
# ## 8. Paper and code
#
# - GPT-1's equation 1 is the *sum* of log-probabilities, to be made large; we make the *mean* of the negative small.
#   Same optimum; but the size of the mean's gradient does not grow with the batch.
# - Who shifts? Position t predicts token t + 1. Here the caller gives targets that are shifted already. Some libraries
#   shift inside the model: giving them shifted targets trains a model that predicts two tokens ahead, and nothing
#   complains.
# - OpenAI's code for GPT-1 keeps tokens, three special tokens and the positions in one table, so in fine-tuning its
#   softmax runs over all of them: 40,993 rows with 512 positions, and fewer in practice, since the context is cut to
#   the longest example. Chance is at most ln 40,993 = 10.62 there. Ours chooses among 40,478.
# - -100 for "not counted" is PyTorch's convention. The library also takes a weight for each target.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/02_cross_entropy.py`: the backward. Judge it: `minigpt check lessons/exercises/02_cross_entropy.py`.
# 2. `exercises/02_find_the_bug.py`: right for a batch of one position, and wrong for two.
# 3. With pencil: a model says p = 0.99 for its guess, and is right 90 % of the time. What is its loss (spread the 1 %
#    over one other answer)? What would it be if it said 0.9? How much does overconfidence cost it?

# %%
worst = max(result.error for result in results)
print(f"lesson 02: every check is happy (worst relative error {worst:.0e})")
