# %% [markdown]
# # Lesson 02: cross-entropy and perplexity
#
# You will measure a language model by one number, the loss. You will derive the gradient of this
# loss, with which almost every backward pass in this book begins, and you will see why it stays
# between -1 and 1. Then you will learn to read the number, as a perplexity, and a first model will
# write: a table of letters.
#
# Reading: 25 minutes for the core, 85 minutes for all of it. Running: 3 to 8 seconds. Before it:
# lessons 00 (gradients, the softmax) and 01 (linear, embedding).
#
# Papers: Radford et al. 2018 (GPT-1), equations 1 and 2, and section 4.1 (perplexity 18.4).
# Radford et al. 2019 (GPT-2), section 3.1: comparing models that cut text differently.

# %% [markdown]
# ## 1. Why: the probability of a text, and why its logarithm
#
# A **language model** reads the beginning of a text and gives a probability to every piece of text
# that may come next. These pieces are called **tokens**, and the list of all of them is the
# **vocabulary**. In this lesson a token is a letter; lesson 10 builds longer ones. A good model
# gives a high probability to the text that really came. That probability is a product: the
# probability of the first token, times that of the second after the first, and so on.
#
# The simplest model gives each letter its frequency, whatever came before. Let us multiply, for a
# story of the **small world**: a program tells stories about two children.

# %%
import math

import numpy as np

from minigpt import plot
from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
V1 = 40_478  # the vocabulary of GPT-1
STORY = small_world.TEXT.splitlines()[0]
frequency = {letter: STORY.count(letter) / len(STORY) for letter in STORY}
letter_p = np.array([frequency[letter] for letter in STORY])
product = np.cumprod(letter_p)  # after 1, 2, 3, ... letters
log_sum = np.cumsum(np.log(letter_p))
print("letters   product of the probabilities   sum of their logarithms")
for n in (1, 2, 5, 10, 100, len(STORY)):
    print(f"{n:7}   {product[n - 1]:28.3g}   {log_sum[n - 1]:23.2f}")
assert product[-1] == 0 and log_sum[-1] < -745, "too small for float64, but its log is not"

# %% [markdown]
# The product of all the probabilities is not 0, but float64 has no number that small: its smallest
# positive number is about $5 \cdot 10^{-324}$. The logarithm turns the product into a sum, and the
# sum is an ordinary number.
#
# Divided by the number of letters it is the average of ln p, here -1675.46 / 567 = -2.95. With this
# average, texts of different lengths can be compared.
#
# The **surprisal** of a token is $-\ln p$. It is 0 for a token that was certain, and large for one
# that the model thought nearly impossible. Its unit is the **nat** (with the logarithm to base 2:
# the **bit**, and 1 nat = 1.44 bits). Probabilities are multiplied, surprisals are added:
# $-\ln(pq) = -\ln p - \ln q$.
#
# Suppose that after a certain beginning token v really comes with the probability q_v, and the
# model gives it p_v. Then the average of the surprisal, over all v, is $-\sum_v q_v \ln p_v$: the
# **cross-entropy**. We do not know q. So we estimate it by the average surprisal of the tokens of a
# text. That is our loss.

# %% [markdown] tags=["deeper"]
# ### The picture of it
#
# The probability disappears after a few letters. Its logarithm falls along almost a straight line,
# whose slope is the average of ln p.

# %%
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4))
left.bar(range(1, 9), product[:8], color="tab:blue")
left.set_xticks(range(1, 9), [letter.replace(" ", "␣") for letter in STORY[:8]])
left.set(title="The probability of a text vanishes ...", xlabel="the text, letter by letter")
left.set_ylabel("probability")
positions = np.arange(1, len(STORY) + 1)
slope = log_sum[-1] / len(STORY)
right.plot(positions, log_sum, color="tab:blue", label="ln of the probability")
right.plot(positions, slope * positions, "--", color="gray", label=f"a line of slope {slope:.2f}")
right.axhline(math.log(5e-324), color="tab:red", linestyle=":")
right.text(1, math.log(5e-324) + 12, "below: 0 in float64", color="tab:red", va="bottom")
right.set(title="... and its logarithm is nearly a line", xlabel="letters so far", ylabel="nats")
right.legend(loc="upper right")
plot.save(figure, "02_probability_of_a_text.png")
line = log_sum[-1] / len(STORY) * np.arange(1, len(STORY) + 1)
print(f"largest distance of the sum from a straight line: {np.abs(log_sum - line).max():.0f}")
assert np.abs(log_sum - line).max() < 0.05 * abs(log_sum[-1]), "almost a straight line"

# %% [markdown] tags=["deeper"]
# ### Some surprisals

# %%
print("event                        probability    nats    bits")
for what, p in (("certain", 1.0), ("a coin shows heads", 1 / 2), ("a die shows six", 1 / 6),
                ("one of GPT-1's tokens", 1 / V1)):  # fmt: skip
    print(f"{what:28} {p:11.3g}   {abs(math.log(p)):5.2f}   {abs(math.log2(p)):5.2f}")
print(f"512 of them, one after another: 10^{-512 * math.log10(V1):.0f}")
assert round(math.log(V1), 2) == 10.61, "chance for GPT-1 is 10.61 nats a token"
assert round(512 * math.log10(V1)) == 2359, "and 10^-2359 for 512 tokens"

# %% [markdown] tags=["deeper"]
# ### Why the logarithm: two demands
#
# **The first demand.** A score f should turn products into sums: f(pq) = f(p) + f(q). Among smooth
# functions, only multiples of the logarithm meet this. The derivative by q, at q = 1, is p f'(p) on
# the left and f'(1) on the right. So f'(p) = f'(1) / p, and f is f'(1) times the logarithm.
#
# **A second demand.** A score should be best when the model states the true probabilities. The
# logarithm meets this demand. (It is not the only score that does.) Suppose that the next letter
# is a, b or c with the true probabilities 0.7, 0.2 and 0.1. We try all models p on a grid. One
# score is the average surprisal, the other the average of p itself, which looks equally natural.

# %%
truth = np.array([0.7, 0.2, 0.1])
models = [(i, j, 100 - i - j) for i in range(1, 99) for j in range(1, 100 - i)]
models = np.array(models) / 100  # every entry is at least 0.01
average_surprisal = -np.log(models) @ truth
average_p = models @ truth
print("score                     best model (a, b, c)")
print(f"lowest average surprisal  {models[average_surprisal.argmin()]}")
print(f"highest average p         {models[average_p.argmax()]}")
assert np.array_equal(models[average_surprisal.argmin()], truth), "the log rewards the truth"
assert np.array_equal(models[average_p.argmax()], [0.98, 0.01, 0.01]), "the other, an extreme"

# %% [markdown]
# The average surprisal is lowest at the truth. This holds for all true probabilities q:
#
# 1. Move a little probability from token a to token b. The average surprisal changes by
#    $q_a / p_a - q_b / p_b$ times the amount.
# 2. At the lowest point this is zero for every pair. Then q / p is the same for all tokens, and so
#    p = q, because both have the sum 1.
# 3. It is the lowest point, because the curve of $-\ln p$ bends upwards everywhere.
#
# The average of p is highest at the model that gives as much as the grid allows to the letter a. It
# rewards exaggeration.

# %% [markdown]
# ## 2. Forward: one operation per line
#
# A model gives **logits**: one real number for each token of the vocabulary. The softmax of lesson
# 00 turns them into probabilities. Write z for the logits of one position, and y for the token that
# really came, the **target**. The surprisal of the target needs no probability at all:
#
# $$
# -\ln p_y \;=\; -\ln \frac{e^{z_y}}{\sum_v e^{z_v}} \;=\; \mathrm{lse} - z_y,
# \qquad \mathrm{lse} = \ln \sum_v e^{z_v}.
# $$
#
# lse is short for "log-sum-exp". But a logit can be 1000, and $e^{1000}$ is infinite in float64.
# The factor $e^{\mathrm{top}}$ can be taken out of the sum, for every number top:
#
# $$
# \mathrm{lse} \;=\; \mathrm{top} + \ln \sum_v e^{z_v - \mathrm{top}}.
# $$
#
# We take the largest logit as top. The largest exponent is then 0, and nothing overflows.
#
# **Targets of -100.** Sequences of different lengths are in one array, so the short ones end in
# **padding**: positions that hold no token. The target -100 marks such a position: its surprisal
# gets weight 0, and the mean is taken over the others.
#
# Sizes: 2 sequences of 3 positions make N = 6 rows; the vocabulary has V = 7 tokens.

# %%
from minigpt.learn import lines

rng = np.random.default_rng(6)
logits = rng.normal(size=(6, 7))  # (N, V)
targets = np.array([3, 0, 6, 1, -100, 2])  # (N,): the fifth is not counted


def forward(logits, targets):
    counted = np.where(targets == -100, 0.0, 1.0)
    y = np.where(targets == -100, 0, targets)  # any token: its weight is 0
    top = logits.max(axis=-1, keepdims=True)
    s = logits - top
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    lse = top + np.log(total)
    picked = logits[np.arange(len(y)), y]
    surprisal = lse[:, 0] - picked
    weighted = counted * surprisal
    loss = weighted.sum() / counted.sum()
    return loss


values = lines.run(forward, logits, targets)

# %% [markdown] tags=["deeper"]
# ### Is it the mean?
#
# Is it the mean of $-\ln p_y$ over the five counted rows? We compute that directly, by a loop.

# %%
direct = []
for row, target in zip(logits, targets, strict=True):
    if target != -100:
        direct.append(-math.log(np.exp(row[target]) / np.exp(row).sum()))
print("surprisals, one by one:", " ".join(f"{one:.3f}" for one in direct))
print(f"their mean: {np.mean(direct):.6f}; the loss above: {values.loss:.6f}")
assert math.isclose(values.loss, np.mean(direct), rel_tol=1e-13), "the loss is that mean"

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# The backward pass begins at the loss: the upstream gradient is one number, `dloss`, in training 1.
#
# Three lines of the forward pass use the logits: `top`, `s` and `picked`. The parts that come back
# through `s` and `picked` are added. Nothing comes back through `top`: `dtop` has two parts, one
# from `lse` and one from `s`, and they cancel. We could have predicted this, because lse has the
# same value for every number top.

# %%
def backward(dloss, v):
    # loss = weighted.sum() / counted.sum()
    dweighted = np.full(v.counted.shape, dloss / v.counted.sum())
    # weighted = counted * surprisal
    dsurprisal = v.counted * dweighted
    # surprisal = lse[:, 0] - picked
    dlse = dsurprisal[:, None]
    dpicked = -dsurprisal
    # picked = logits[np.arange(len(y)), y]: one entry of each row was taken
    dlogits = np.zeros_like(v.logits)
    dlogits[np.arange(len(v.y)), v.y] = dpicked
    # lse = top + np.log(total)
    dtop = dlse
    dtotal = dlse / v.total
    # total = e.sum(axis=-1, keepdims=True)
    de = np.broadcast_to(dtotal, v.e.shape)
    # e = np.exp(s)
    ds = de * v.e
    # s = logits - top
    dtop = dtop - ds.sum(axis=-1, keepdims=True)
    dlogits = dlogits + ds
    return dlogits, dtop  # dtop only to look at it


by_lines = lines.check(forward, backward, logits, targets)

# %% [markdown] tags=["deeper"]
# ### The gradient, looked at

# %%
looked_at, dtop = backward(1.0, values)
print(f"dtop: at most {np.abs(dtop).max():.0e}, which is 0 but for rounding")
assert np.abs(dtop).max() < 1e-15, "the two parts of dtop cancel"
print("dlogits: a row for each position, a column for each token")
print(np.array2string(looked_at, precision=3, suppress_small=True))
assert all(result.word == "happy" for result in by_lines), "every line of the backward is right"
assert not looked_at[4].any(), "the row of the target -100 has gradient 0"
assert np.abs(looked_at.sum(axis=-1)).max() < 1e-15, "each row sums to 0"

# %% [markdown]
# ## 4. Collapse: p minus one-hot
#
# The softmax is in these lines. `de` is `dlse / total`, so `ds`, which is `de * e`, is `dlse` times
# e / total. And e / total is p. So the derivative of lse with respect to the logits is p:
#
# $$
# \frac{\partial\, \mathrm{lse}}{\partial z_v}
# \;=\; \frac{e^{z_v - \mathrm{top}}}{\mathrm{total}} \;=\; p_v.
# $$
#
# `picked` contributes -1 at the target and 0 elsewhere. A vector with a 1 at one place and 0
# elsewhere is called **one-hot**, as in lesson 01.
#
# **Your turn:** write the gradient of the logits in one line. Each row has a share in the mean: 1/5
# for a row that is counted, and 0 for the row with the target -100. The shares have the shape (N,).

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

probabilities = values.e / values.total  # (N, V)
one_hot = (values.y[:, None] == np.arange(7)).astype(float)  # (N, V)
share = values.counted / values.counted.sum()  # (N,)


def your_dlogits(p, one_hot, share):
    return ...  # loss = sum of share * (lse - picked)


true = numeric(lambda z: forward(z, targets), logits)
gap.judge(your_dlogits, probabilities, one_hot, share, expected=true)

# %% [markdown] tags=["answer"]
# `(p - one_hot) * share[:, None]`: lse gives p, picked gives one_hot with a minus, and each row has
# its share. `[:, None]` turns it into a column, one number for each row.

# %% [markdown]
# With an index for each row n and each token v, and the weight $w_n$ of row n (1 or 0), this is:
#
# $$
# \mathrm{dz}_{n,v} \;=\; \bigl(p_{n,v} - \mathrm{onehot}(y_n)_v\bigr)\,
# \frac{w_n}{\sum_m w_m}\, \mathrm{dloss}.
# $$
#
# What the model said, minus what was true.

# %%
closed_form = (probabilities - one_hot) * share[:, None]
dlogits_by_lines, _ = backward(1.0, values)
print("dlogits, a row for each position:\n", closed_form.round(3))
assert np.allclose(closed_form, dlogits_by_lines, rtol=0, atol=1e-15), "the two agree"

# %% [markdown]
# Read the gradient as a push. If the logits themselves were the parameters, gradient descent
# would move the logit of every wrong token down, in proportion to its probability. It would move
# the logit of the right token up, in proportion to the probability that it lacks, $1 - p_y$. The
# pushes of one row sum to zero.
#
# **The surprise.** Let the right token have a small p, such as 0.0001. From the loss to its logit
# z, two derivatives are multiplied:
#
# - of $-\ln p$ with respect to p: $-1/p$, here -10,000;
# - of p with respect to z: $p(1-p)$ (the softmax), here nearly 0.0001.
#
# One is huge and the other tiny. Their product is simply $-(1 - p)$, which always lies between -1
# and 0. With the squared error $(1-p)^2$ in place of $-\ln p$, nothing cancels:
#
# $$
# \frac{d}{dz}(1-p)^2 \;=\; -2(1-p)\,\cdot\, p(1-p) \;=\; -2p(1-p)^2.
# $$
#
# Does it matter for learning? Take a vocabulary of two tokens, and let the right one begin at p =
# 0.0001. For each of the two losses we move its logit against the gradient until p is above one
# half. The rate is 1 for both; with other rates the numbers of updates are others.
#
# **Guess:** does each need tens of updates, hundreds, or thousands?

# %%
def p_of(z):
    """The probability of the first of two tokens, with logits z and 0."""
    return 1 / (1 + math.exp(-z))


def push_of_cross_entropy(p):
    return 1 - p


def push_of_squared_error(p):
    return 2 * p * (1 - p) ** 2


print("loss            updates from p = 0.0001 to p > 0.5")
updates = {}
pushes_on = {"cross-entropy": push_of_cross_entropy, "squared error": push_of_squared_error}
for name, push in pushes_on.items():
    z, steps = math.log(0.0001 / 0.9999), 0
    while p_of(z) < 0.5:
        z += push(p_of(z))
        steps += 1
    updates[name] = steps
    print(f"{name:15} {steps:8,}")
assert updates["cross-entropy"] < 20 and updates["squared error"] > 1000, "10 against thousands"

# %% [markdown] tags=["answer"]
# Ten, and 5,019. Both losses are smallest at p = 1, so one expects similar numbers. But
# cross-entropy pushes hardest where the model is most wrong. The squared error hardly pushes there.

# %% [markdown] tags=["deeper"]
# ### The two pushes, drawn

# %% tags=["hide-input"]
chances = np.logspace(-4, -0.001, 200)
figure, axes = plot.plt.subplots(figsize=(7.5, 4))
for (name, push), style in zip(pushes_on.items(), ("-", "--"), strict=True):
    label = f"{name}: {updates[name]:,} updates to p > 0.5"
    axes.semilogx(chances, push(chances), style, label=label)
axes.set(xlabel="p, of the right token", ylabel="push on its logit", title="A confident mistake")
axes.legend(loc="center left")
plot.save(figure, "02_confident_mistake.png")

# %% [markdown] tags=["deeper"]
# ### The closed form as a pair of functions
#
# It takes any leading axes. Its argument `normalizer` is explained in section 5. Below it, the two
# pushes are measured.

# %%
def cross_entropy_forward(logits, targets, normalizer=None):
    """logits (*,V), targets (*) int -> loss ()"""
    z, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w = (y != -100).astype(z.dtype)
    y = np.where(y == -100, 0, y)
    share = w / (w.sum() if normalizer is None else normalizer)
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - top)
    total = e.sum(axis=-1, keepdims=True)
    surprisal = (top + np.log(total))[:, 0] - z[np.arange(len(y)), y]
    return (share * surprisal).sum(), ((e / total).reshape(logits.shape), y, share)


def cross_entropy_backward(dloss, cache):
    p, y, share = cache
    dz = p.reshape(len(y), -1).copy()
    dz[np.arange(len(y)), y] -= 1
    return (dz * (share * dloss)[:, None]).reshape(p.shape)


collapsed = cross_entropy_backward(1.0, cross_entropy_forward(logits, targets)[1])
difference = np.abs(collapsed - dlogits_by_lines).max()
print(f"closed form against lines: largest difference {difference:.0e}")
assert np.allclose(collapsed, dlogits_by_lines, rtol=0, atol=1e-15), "the two agree"

# %%
print("p of the right token   push of cross-entropy   push of squared error")
for p in (0.9, 0.5, 0.1, 0.0001):
    z = math.log(p / (1 - p))  # the logit at which p_of(z) = p
    pair = np.array([[z, 0.0]])
    _, pair_cache = cross_entropy_forward(pair, np.array([0]))
    measured = -cross_entropy_backward(1.0, pair_cache)[0, 0]
    squared = [(1 - p_of(z + step)) ** 2 for step in (-1e-5, 1e-5)]
    print(f"{p:20}   {measured:21.4f}   {push_of_squared_error(p):21.4f}")
    slope = (squared[1] - squared[0]) / 2e-5
    assert abs(push_of_squared_error(p) + slope) < 1e-9, "the push of the squared error"
    assert math.isclose(measured, push_of_cross_entropy(p), rel_tol=1e-9), "the push is 1 - p"

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap
#
# The check is that of lesson 00: float64, differences on both sides, and a random `dloss`.

# %%
from minigpt import gradcheck

results = gradcheck.check(cross_entropy_forward, cross_entropy_backward, (logits, targets))
print(gradcheck.table(results))
assert all(result.error < 1e-9 for result in results), "the closed form is right"
huge_loss, huge_cache = cross_entropy_forward(1000 * logits, targets)
print(f"logits times 1,000: loss {huge_loss:.1f}")
assert np.isfinite(cross_entropy_backward(1.0, huge_cache)).all(), "top prevents overflow"

# %% [markdown]
# **The trap: a batch in which everything counts.** A **batch** is what one update is computed from:
# here, our six rows. Suppose that the backward pass, and it alone, divides by the number of rows
# instead of the number of *counted* targets. If no target is -100, the two numbers are equal, and
# the check does not find the mistake:

# %%
def mean_of_rows_backward(dloss, cache):
    p, y, share = cache
    of_rows = (share > 0).astype(p.dtype) / len(y)
    return cross_entropy_backward(dloss, (p, y, of_rows))


print("batch       relative error   verdict")
for name, some in (("no -100", np.where(targets == -100, 5, targets)), ("one -100", targets)):
    [trapped] = gradcheck.check(cross_entropy_forward, mean_of_rows_backward, (logits, some))
    print(f"{name:10}   {trapped.error:13.0e}   {trapped.word}")
    expected = "happy" if name == "no -100" else "wrong"
    assert trapped.word == expected, "only a batch with a -100 shows the mistake"

# %% [markdown]
# **A second trap: the mean of means.** A batch that is too large for the memory is cut into
# *micro-batches*, whose gradients are added. Suppose that each micro-batch takes the mean over its
# own targets, and we average these means. Then a target weighs more in a micro-batch that has few
# of them. The cure: every part divides by the number of targets of the *whole* batch. That number
# is the `normalizer`.

# %%
parts = [slice(0, 3), slice(3, 6)]  # the first has 3 targets, the second has 2
own_means, common_shares, part_gradients = [], [], []
for part in parts:
    own_means.append(cross_entropy_forward(logits[part], targets[part])[0])
    share_loss, part_cache = cross_entropy_forward(logits[part], targets[part], normalizer=5)
    common_shares.append(share_loss)
    part_gradients.append(cross_entropy_backward(1.0, part_cache))
print(f"the whole batch at once            {values.loss:.4f}")
print(f"mean of the two means              {np.mean(own_means):.4f}")
print(f"sum, with the common normalizer 5  {sum(common_shares):.4f}")
assert abs(np.mean(own_means) - values.loss) > 1e-3, "the mean of means is another number"
assert math.isclose(sum(common_shares), values.loss, rel_tol=1e-13), "the shares add up"
joined = np.concatenate(part_gradients)
assert np.allclose(joined, collapsed, rtol=0, atol=1e-15), "so do their gradients"

# %% [markdown]
# ## 6. See it, and read the number
#
# **Perplexity** is $e^{loss}$. A model that cannot decide between k equally likely tokens has the
# loss ln k, and so the perplexity k. It is as unsure about the next token as we are about the next
# throw of a fair die with k faces.
#
# **A first model that writes.** We count in 500 stories which letter follows which. Row a of this
# **letter table**, divided by its sum, holds the probabilities of the letter after a.

# %% tags=["hide-input"]
letters, text = small_world.LETTERS, small_world.IDS  # text: the number of each letter
follows = np.full((len(letters), len(letters)), 0.01)  # a pair never seen is not impossible
np.add.at(follows, (text[:-1], text[1:]), 1)
next_p = follows / follows.sum(axis=1, keepdims=True)

figure, axes = plot.plt.subplots(figsize=(8, 7.5))
axes.imshow(next_p, cmap="Blues")
axes.grid(False)
shown = [letter.replace(" ", "␣").replace("\n", "¶") for letter in letters]
axes.set_xticks(range(len(letters)), shown, fontsize=9)
axes.set_yticks(range(len(letters)), shown, fontsize=9)
axes.set(title="Which letter follows which", xlabel="the next letter", ylabel="a letter")
plot.save(figure, "02_letter_table.png")

# %% [markdown]
# To write, draw a letter by the row of the last one, append it, and go on.

# %%
import textwrap

inputs, following = small_world.HELD_OUT  # from 20 other stories
table_loss = -np.log(next_p[inputs, following]).mean()
frequencies = follows.sum(axis=0) / follows.sum()  # of each letter, whatever came before
blind_loss = -np.log(frequencies[following]).mean()
for name, one in (("frequencies", blind_loss), ("letter table", table_loss)):
    print(f"{name:12} loss {one:.2f}, perplexity {math.exp(one):4.1f}, of {len(letters)} letters")
rng = np.random.default_rng(0)
written = [letters.index("\n")]  # a story begins after the end of another
for _ in range(270):
    written.append(rng.choice(len(letters), p=next_p[written[-1]]))
print(textwrap.fill("".join(letters[i] for i in written), 95))
o = letters.index("o")
print(f"after o comes another o with {next_p[o, o]:.0%}, and so it does after oo and ooo")
assert 8 < math.exp(table_loss) < 9 and 19 < math.exp(blind_loss) < 21, "a die with 20 faces, 8"

# %% [markdown]
# The pairs of letters are those of the stories, but few of the words are. A model that knows
# nothing has perplexity 50, one that knows how frequent each letter is has 20, and the table, which
# also sees the last letter, has 8.3. But it sees *only* one letter: at each o it has forgotten the
# others, so it wrote "yoooom". Lesson 03 goes on from here.

# %% [markdown] tags=["deeper"]
# ### A die with k faces
#
# GPT-1's published perplexity is 18.4: 2.91 nats a token, against 10.61 at chance.

# %%
print("equally likely tokens    loss    perplexity = exp(loss)")
for k in (2, 18, V1):
    even_loss = forward(np.zeros((1, k)), np.array([0]))
    print(f"{k:21,}   {even_loss:5.2f}   {math.exp(even_loss):10,.1f}")
    assert math.isclose(math.exp(even_loss), k), "a fair die with k faces"
print(f"GPT-1: ln 18.4 = {math.log(18.4):.2f} nats; chance: ln {V1:,} = {math.log(V1):.2f}")
assert round(math.log(18.4), 2) == 2.91, "18.4 means 2.91 nats"

# %% [markdown] tags=["deeper"]
# ### A table that learns what the other counts
#
# A letter table can be learnt, too: its rows hold the *logits* of the next letter. This is an
# embedding (lesson 01) that ends in logits. We train it on one sentence, by the two gradients that
# we have, and keep $p - \mathrm{onehot}$ at two moments.

# %%
from minigpt import ops

SENTENCE = "the cat sat on the mat and the rat sat on the cat"
LETTERS = sorted(set(SENTENCE))
ids = np.array([LETTERS.index(letter) for letter in SENTENCE])
now, after = ids[:-1], ids[1:]


def train(steps=2000, rate=10.0, keep=(0, 20)):  # a high rate: the mean makes gradients small
    """Returns the table, the loss before every update, and p - onehot at the steps of `keep`."""
    table, losses, kept = np.zeros((len(LETTERS), len(LETTERS))), [], {}
    for step in range(steps):
        scores, taken = ops.embedding_forward(table, now)
        loss, cache = cross_entropy_forward(scores, after)
        dscores = cross_entropy_backward(1.0, cache)
        losses.append(loss)
        if step in keep:
            kept[step] = dscores * len(now)  # the mean divided by N: undo that
        table -= rate * ops.embedding_backward(dscores, taken)
    return table, losses, kept


table, losses, pushes = train()
print(f"loss at the start {losses[0]:.4f}, after 2,000 steps {losses[-1]:.4f}")
assert math.isclose(losses[0], math.log(len(LETTERS))), "a table of zeros is at chance"

# %% [markdown]
# The best table can be computed without training: count how often each letter follows each other
# letter. The gradient of a row is the sum of $p - \mathrm{onehot}$ over all places where its
# letter stands. That sum is zero when p equals these frequencies, and by section 1 the loss is
# lowest there. Does training arrive there? It can only come near: a frequency of 0 would need a
# logit of minus infinity.

# %%
counts = np.zeros_like(table)
np.add.at(counts, (now, after), 1)
counted_p = counts / counts.sum(axis=1, keepdims=True)
learnt_p, _ = ops.softmax_forward(table)
by_counting = -np.log(counted_p[now, after]).mean()
print("after a space      " + "  ".join(f"{letter:>4}" for letter in LETTERS[1:]))
print("counted frequency  " + "  ".join(f"{p:4.2f}" for p in counted_p[0, 1:]))
print("learnt probability " + "  ".join(f"{p:4.2f}" for p in learnt_p[0, 1:]))
print(f"loss: learnt {losses[-1]:.4f}, counted {by_counting:.4f}")
assert 0 < losses[-1] - by_counting < 0.01, "nearly as good as the counted table"
assert np.allclose(learnt_p, counted_p, atol=0.03), "it has learnt to count"

# %%
figure, panels = plot.plt.subplots(1, 2, figsize=(9, 6), sharey=True)
visible = SENTENCE.replace(" ", "␣")
pairs = [f"{one}→{two}" for one, two in zip(visible, visible[1:], strict=False)][:14]
for axes, step in zip(panels, (0, 20), strict=True):
    image = axes.imshow(pushes[step][:14], cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(LETTERS)), ["␣", *LETTERS[1:]])
    axes.set_yticks(range(14), pairs)
    axes.set(xlabel="logit of", title=f"after {step} updates: loss {losses[step]:.2f}")
    axes.grid(False)
    assert np.abs(pushes[step].sum(axis=1)).max() < 1e-12, "every row sums to 0"
panels[0].set_ylabel("letter → the letter that came next")
figure.colorbar(image, ax=panels, label="p - onehot (red: below 0, so the step moves it up)")
plot.save(figure, "02_p_minus_onehot.png")
still = {}
for pair in ("h→e", "c→a"):
    still[pair] = -pushes[20][pairs.index(pair), LETTERS.index(pair[-1])]
    print(f"{pair} after 20 updates: pushed up by {still[pair]:.2f}")
assert still["h→e"] < 0.1 < still["c→a"], "the rarer pair is still being learnt"

# %% [markdown]
# Left: all p are equal at the start. Each right letter is pushed up strongly, and all the others
# are pushed down a little. Right, after 20 updates: the pair h→e is certain and frequent in this
# text, so its row is nearly white. The pair c→a is also certain, but rarer, and its push is still
# larger. After t, a, n and a space, several letters may follow. There, the pushes of different
# positions contradict each other for as long as we train. The loss that remains at the end is the
# text's own uncertainty, for a model that sees only the last letter.

# %%
print(f"our table after training: loss {losses[-1]:.3f}, perplexity {math.exp(losses[-1]):.2f}")
assert 1 < math.exp(losses[-1]) < len(LETTERS), "better than chance"

# %% [markdown] tags=["deeper"]
# ### The first loss of a run
#
# **The first loss of a run** is a little *above* ln V. The first logits of GPT-1 are not zero but
# random, with a standard deviation of $0.02\sqrt{768} = 0.55$ (lesson 08 shows where it comes
# from). The average of $e^z$ over such numbers is $e^{0.55^2/2}$, which raises lse by half the
# variance. (Take the density of a normal z with the variance s² and multiply it by $e^z$. This is
# the same bell, moved by s², times $e^{s^2/2}$.) The target's logit is 0 on average. So, for
# independent logits, we expect ln V + 0.15 = 10.76. Lesson 08 measures it for a GPT-1. A first loss
# thus tells how large the weights are: 11 fits about 0.03 in place of 0.02, and 12 fits 0.06.

# %%
spread = 0.02 * math.sqrt(768)
draw = np.random.default_rng(0)
random_logits = draw.normal(0, spread, size=(200, V1))
first_loss, _ = cross_entropy_forward(random_logits, draw.integers(0, V1, 200))
expected_first = math.log(V1) + spread**2 / 2
print(f"random logits: loss {first_loss:.2f}; ln V + variance / 2 = {expected_first:.2f}")
assert abs(first_loss - expected_first) < 0.1, "half the variance above chance"
assert first_loss > math.log(V1) + 0.05, "and not at chance"

# %% [markdown] tags=["deeper"]
# ### The unit of a perplexity
#
# **Per token, per word, per character: different numbers.** The surprisal of a *whole text* is
# one number. We choose what to divide it by. Our table predicts 48 letters of the sentence
# (spaces count). They are 24 pairs of letters. They are also about 12 words. (The sentence has 13
# words; its first letter is given and not predicted, so we do not count the first word.) Nothing
# about the model changes if we call each pair of letters, or each word, a token: the probability
# of a long token is the product for its letters.
#
# (GPT-1's tokens are pieces of words. Of its 18.4 the paper says "on this corpus", but not whether
# on texts of the training.)

# %%
nats = 48 * losses[-1]
print("unit                  how many   perplexity per unit")
per_unit = {}
for unit, count in (("letter", 48), ("pair of letters", 24), ("word", 12)):
    per_unit[unit] = math.exp(nats / count)
    print(f"{unit:20} {count:8}   {per_unit[unit]:10.2f}")
print(f"bits per letter, for all three: {nats / math.log(2) / 48:.2f}")
each = -np.log(learnt_p[now, after])  # the surprisal of each letter
of_pairs = each[0::2] + each[1::2]  # the probability of a pair is a product
assert len(of_pairs) == 24, "48 letters are 24 pairs"
assert math.isclose(np.exp(of_pairs.mean()), per_unit["pair of letters"], rel_tol=1e-3), "as above"

# %% [markdown]
# The same model and the same text, and three perplexities. A vocabulary with longer tokens has
# fewer of them in a text. Each of them carries more surprisal, so the perplexity *per token* rises,
# although the model is no worse.
#
# To change the unit, divide *inside* the exponential. Suppose that a text has 1,000 tokens at
# perplexity 18.4, and 800 words:

# %%
per_word = math.exp(1000 * math.log(18.4) / 800)
print(f"perplexity per word: {per_word:.1f}")
print(f"18.4 times 1,000/800 = {18.4 * 1000 / 800:.1f} would be wrong")
by_rule = per_unit["letter"] ** (48 / 24)
counted_pairs = np.exp(of_pairs.mean())
print(f"our table, per pair of letters: by this rule {by_rule:.2f}, counted {counted_pairs:.2f}")
assert math.isclose(by_rule, counted_pairs, rel_tol=1e-3), "the ratio stands in the exponent"

# %% [markdown]
# So two models that cut text differently can only be compared per word, per character or per byte.
# The GPT-2 paper does this.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# These are the lines of the library's backward pass. Its cache keeps p, the targets, and the share
# of each row in the loss:
#
#     # minigpt/ops/reference/cross_entropy.py
#     dz = p.reshape(-1, p.shape[-1]).copy()
#     dz[rows, y] -= 1
#     # loss = losses.sum()
#     dlosses = share * dloss
#     dz *= dlosses[:, None]
#     return dz.reshape(p.shape)

# %%
library_loss, library_cache = ops.cross_entropy_forward(logits, targets)
library_dlogits = ops.cross_entropy_backward(1.0, library_cache)
print("bytes in its cache:", ops.ledger(library_cache))
gigabytes = 64 * 512 * V1 * 4 / 1e9
print(f"p for one batch of GPT-1 (64 x 512 positions, float32): {gigabytes:.2f} GB")
assert math.isclose(library_loss, values.loss, rel_tol=1e-13), "the same loss as ours"
assert np.allclose(library_dlogits, collapsed, rtol=0, atol=1e-15), "the same gradient"
assert ops.ledger(library_cache)["p"] == logits.nbytes, "p is as large as the logits"

# %% [markdown]
# Positions times vocabulary: 5.31 GB for p, as much for the logits, and as much for their gradient.
# They are needed for a moment only. (For comparison: the attention probabilities of one block,
# lesson 03, have 64 · 12 · 512² numbers: 0.81 GB.)
#
# The logits are a product, $h\,w^T$: h (N, C) is what the model computed for each position, and w
# (V, C) is a table with a row for each token (GPT-1, equation 2). So we can work **in pieces**. We
# take a few rows of h, and compute their logits, their loss *and at once their gradient*. Then we
# throw these logits away. Only the loss, dh and the running sum dw remain.

# %% tags=["hide-input"]
drawing = plot.Diagram(8.2, 3.3, "The logits of a few rows at a time")
blue, orange, light = "tab:blue", "tab:orange", "lightgray"
drawing.box(0.7, 1.5, "", light, width=0.9, height=2.4)
drawing.box(0.7, 2.1, "rows", orange, width=0.9, height=0.5)
drawing.text(0.7, 2.95, "h  (N, C)")
drawing.text(1.45, 1.5, "@")
drawing.box(2.8, 1.5, "all of it", blue, width=2.1, height=0.9)
drawing.text(2.8, 2.2, "w$^T$  (C, V)")
drawing.text(4.15, 1.5, "=")
drawing.box(5.5, 1.5, "", light, width=2.1, height=2.4)
piece_box = drawing.box(5.5, 2.1, "their logits", orange, width=2.1, height=0.5)
drawing.text(5.5, 2.95, "logits  (N, V), never whole")
drawing.arrow(piece_box, (7.4, 2.1))
drawing.text(7.75, 2.1, "loss\ndh\ndw")
plot.save(drawing.figure, "02_in_pieces.png")

# %%
def whole(h, w, targets):
    """The library's reference: linear, then cross-entropy."""
    with ops.using("reference"):
        loss, cache = ops.linear_cross_entropy_forward(h, w, targets)
        dh, dw, _ = ops.linear_cross_entropy_backward(1.0, cache)
    return loss, dh, dw


def in_pieces(h, w, targets, rows=32):
    normalizer = (targets != -100).sum()
    loss, dh, dw = 0.0, np.empty_like(h), np.zeros_like(w)
    for start in range(0, len(h), rows):
        piece = slice(start, start + rows)
        part, cache = cross_entropy_forward(h[piece] @ w.T, targets[piece], normalizer)
        dlogits = cross_entropy_backward(1.0, cache)
        loss += part
        dh[piece] = dlogits @ w
        dw += dlogits.T @ h[piece]
    return loss, dh, dw


identity = np.eye(7)  # with h = logits, the product h w^T is the logits of section 2
one, other = whole(logits, identity, targets)[0], in_pieces(logits, identity, targets, rows=4)[0]
print(f"the loss of section 2: whole {one:.4f}, in pieces {other:.4f}")
assert math.isclose(one, other, rel_tol=1e-12), "the same loss"

# %%
import tracemalloc


def peak_megabytes(function, *arguments):
    tracemalloc.start()
    found = function(*arguments)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return found, peak


fresh = np.random.default_rng(1)
h, w_out = fresh.normal(size=(512, 24)), fresh.normal(size=(5003, 24))
many = fresh.integers(0, 5003, 512)
many[:99] = -100
at_once, large = peak_megabytes(whole, h, w_out, many)
piecewise, small = peak_megabytes(in_pieces, h, w_out, many)
print("512 positions, 5,003 tokens   peak memory")
print(f"whole                         {large:8.0f} MB")
print(f"in pieces of 32 rows          {small:8.0f} MB")
for one, other in zip(at_once, piecewise, strict=True):
    assert np.allclose(one, other, rtol=0, atol=1e-12), "the same loss, dh and dw"
assert large > 5 * small, "less than a fifth of the memory"

# %% [markdown]
# The common `normalizer` of section 5 is what makes this right. Here `dloss` is 1. Any other dloss
# multiplies the two gradients, so it may be applied afterwards. The library has this pair under the
# name `ops.linear_cross_entropy`: the reference holds everything, and a fast implementation behind
# the same signature works in pieces.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - Equation 1 of GPT-1 is the *sum* of the log-probabilities, which is to be made large. We make
#   the *mean* of the negative small. The optimum is the same. The gradient of the mean, however,
#   does not grow with the number of tokens.
# - Position t predicts token t + 1. Here the caller gives targets that are already shifted by one.
#   Some libraries shift inside the model. If you give them shifted targets, the model is trained to
#   predict two tokens ahead, without any error message.
# - OpenAI's code for GPT-1 holds the tokens, three special tokens and the positions in one table.
#   In fine-tuning, its softmax runs over all these rows: 40,993 with 512 positions, and fewer in
#   practice, since the context is cut to the longest example. Chance is at most ln 40,993 = 10.62
#   there. Ours chooses among 40,478.
# - The number -100 for "not counted" is PyTorch's convention. The library also takes a weight for
#   each target.

# %% [markdown]
# ## 9. To keep
#
# - The loss is the average surprisal, $-\ln p$ of the token that really came; the perplexity is
#   $e^{loss}$.
# - The gradient of the logits is p minus one-hot, shared among the counted targets: it stays
#   between -1 and 1.
# - Cross-entropy pushes hardest where the model is most wrong; a squared error hardly pushes there.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/02_label_smoothing.py`: a loss whose targets are not quite one-hot. Write its
#    target, its backward, line by line, and then the closed form. Run the file to judge it.
# 2. `exercises/02_find_the_bug.py`: this cross-entropy is right for a batch of one position, and
#    wrong for two.
# 3. On paper: a model gives p = 0.99 to its guess, and the guess is right in 90 % of all cases.
#    (The other 0.01 goes to one other answer, which is right in the remaining cases.) What is its
#    loss? What would the loss be if it gave 0.9? How much does overconfidence cost?
# 4. On paper: model A has a loss of 3.0 nats a token, and its tokens have 4 characters on
#    average. Model B has 4.0 nats a token, and 6 characters. Which one is better?

# %%
worst = max(result.error for result in by_lines)
print(f"lesson 02: every check is happy (worst relative error {worst:.0e})")
