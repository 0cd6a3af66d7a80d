# %% [markdown]
# # Lesson 12: sampling, from scores to text
#
# You will let a model write. You will build the four steps between its scores and a token:
# temperature, top-k, nucleus, draw. You will test a random function in such a way that the test can
# fail. And you will see why the likeliest text is not the right text.
#
# Reading: 25 minutes for the core, 100 minutes for all of it. Running: 30 to 100 seconds. Before
# it: lessons 02 (softmax, surprisal), 08 (the model) and 11 (pre-training). The deeper parts make
# two sittings, with a pause before section 6.
#
# Papers: Radford et al. 2019 (GPT-2), appendix A and the released code. Holtzman et al. 2019 (arXiv
# 1904.09751): nucleus sampling. Fan et al. 2018 (arXiv 1805.04833): top-k. Shannon 1948, theorem 3:
# typical sequences.

# %% [markdown]
# ## 1. Why: a model gives probabilities, and a text needs tokens
#
# The reference model of lesson 11 gives every token a probability. It does not choose one. (Its
# tokens are pieces of text as GPT-2 cuts them, lesson 15: most often a word with the space before
# it.) So far we have drawn a token with its probability, appended it, and run the model again. Is
# this the right way?

# %%
import textwrap

import numpy as np

from minigpt import data, models
from minigpt.device.threads import set_threads
from minigpt.learn import reference

set_threads(1)  # small arrays: a second thread would only be in the way
model, text = models.open_both(reference.folder())
V, CONTEXT = model.config.vocab_size, model.config.n_positions
OPENING = "Once upon a time, there was a"
opening_ids = text.encode(OPENING)
print(f"{V:,} tokens in the vocabulary, {CONTEXT} positions")
print(" ".join(f"[{text.decode([token])}]" for token in opening_ids))
first_text = model.generate([[text.start_id, *opening_ids]], 20)[0].tolist()
print(textwrap.fill(f"it writes: {text.decode(first_text[1:])!r}", 95))

# %%
START = text.start_id  # the token that stands before every story


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def next_logits(ids):
    """ids (B,L) -> logits (B,V) of the token that follows; only the last CONTEXT are read"""
    logits, _ = model.forward(ids[:, -CONTEXT:], grad=False)
    return logits[:, -1].astype(np.float64)


def next_probabilities(words):
    return softmax(next_logits(np.array([[START, *text.encode(words)]])))[0]


p_open = next_probabilities(OPENING)  # used again in sections 3 and 5
print("the likeliest token after the opening:", repr(text.decode([int(p_open.argmax())])))

# %% [markdown]
# Sometimes only one token is possible. Sometimes there is a choice:

# %%
from minigpt import plot

next_figure, next_axes = plot.plt.subplots(1, 2, figsize=(10, 4))
for axes, words in zip(next_axes, ("Once upon a", OPENING), strict=True):
    p_next = next_probabilities(words)
    best = p_next.argsort()[::-1][:8][::-1]
    axes.barh([text.decode([int(token)]).strip() for token in best], p_next[best])
    axes.set(xlim=(0, 1), xlabel="probability", title=f"{words} …")
    print(f"after [{words}]: the likeliest token has {p_next.max():.3f}")
plot.save(next_figure, "12_next_token.png")
assert next_probabilities("Once upon a").max() > 0.9 > 0.5 > p_open.max(), "sure, and not sure"

# %% [markdown]
# On the right the model is in doubt, but not because it is weak: the stories really go on in
# different ways (a deeper part counts them).
#
# **Greedy** choice is the simplest rule: take the likeliest token. Let the model write the
# beginnings of two stories in this way, each from the start token alone.
#
# **Guess:** how much will they differ?

# %%
def write(ids, n_tokens, choose, seed=0):
    """ids (B,L) -> (B,L+N). choose: logits (B,V), u (B,) -> tokens (B,); u is random, in [0, 1)"""
    generators = [np.random.default_rng([seed, row]) for row in range(len(ids))]  # one per text
    for _ in range(n_tokens):
        u = np.array([generator.random() for generator in generators])
        chosen = choose(next_logits(ids), u)
        ids = np.concatenate([ids, chosen[:, None]], axis=1)
    return ids


def greedy(logits, u):  # u is not used
    return logits.argmax(axis=-1)


def show(texts):
    for ids in texts:
        print(textwrap.fill(text.decode(ids[1:].tolist()) + " …", 96))


two_texts = write(np.full((2, 1), START), 40, greedy)
show(two_texts)
assert np.array_equal(*two_texts), "a greedy text depends on nothing but its beginning"

# %% [markdown] tags=["answer"]
# Not at all: where nothing is drawn at random, an equal beginning goes on in an equal way. One may
# expect two stories, since the model gives many stories a probability.

# %% [markdown]
# **This is the surprise of the lesson**: a model that has read thousands of stories writes a single
# one, if it takes the likeliest token at every step. From other beginnings, too, its texts are
# alike (section 6). So we draw at random, with the model's probabilities. How?

# %% [markdown] tags=["deeper"]
# ### A second danger: a text that runs in a circle
#
# Suppose that a model reads only the last token, and has written "the cat and the". After the first
# "the" it chose "cat". So it chooses "cat" again, then "and", then "the", and so on without an end.
# A Transformer reads CONTEXT tokens, and they are not the same ones the second time. So nothing
# *forces* it into a circle soon. Large models on real text often repeat themselves all the same
# when they choose greedily (Holtzman et al.).

# %% [markdown] tags=["deeper"]
# ### The model beside 4,000 stories
#
# Here are the model's probabilities beside what 4,000 stories do. Other 4,000 stories would give
# other counts. In place of n, one could easily have counted sqrt(n) more or fewer: 420 or 380 in
# place of 400. So a share varies by about the share divided by sqrt(n) (one standard deviation;
# the table has it behind the sign +-).

# %%
import re
from collections import Counter

from minigpt.data import stories

following = Counter(re.findall(OPENING + r" (\w+)", stories.corpus(4000)))
print(f"{OPENING} …\n{'word':>10} {'the model':>10} {'the stories':>21}")
for token in p_open.argsort()[::-1][:6]:
    word = text.decode([int(token)]).strip()
    share = following[word] / following.total()
    deviation_of_share = share / np.sqrt(following[word])
    print(f"{word:>10} {p_open[token]:10.1%} {share:12.1%} +- {deviation_of_share:.1%}")
    assert abs(p_open[token] - share) < 3 * deviation_of_share, "as near as the count can tell"

# %% [markdown]
# 4,000 stories are too few to see a difference between the model's shares and the real ones.

# %% [markdown]
# ## 2. Forward: four steps from scores to a token
#
# **Temperature.** Divide the logits by a number, the temperature T. (So here a text has the length
# L, not T.) p is proportional to exp(logit), and exp(logit / T) is exp(logit)^(1/T). So p becomes
# p^(1/T), up to a constant. At T = 1/2, a token that was twice as likely as another becomes four
# times as likely.
#
# The *entropy* is the mean surprisal of what is drawn, $-\sum_v p_v \ln p_v$: 0 where one token is
# certain, ln V where all are equally likely.

# %%
def entropy(p):
    """The mean surprisal of a draw, in nats; 0 ln 0 counts as 0"""
    return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)


four = np.array([0.5, 0.25, 0.15, 0.1])
four_logits = np.log(four)[None]  # (B,V) = (1, 4)
print("   T   probabilities            entropy in nats")
for temperature in (0.1, 0.5, 1, 2, 1000):
    q = softmax(four_logits / temperature)[0]
    print(f"{temperature:4}   {'  '.join(f'{value:.2f}' for value in q)}   {entropy(q):.3f}")
assert np.allclose(softmax(four_logits / 0.5), four**2 / (four**2).sum()), "T = 1/2 squares p"
assert np.allclose(softmax(four_logits / 1e-3), [1, 0, 0, 0]), "a low T is greedy choice"

# %% [markdown]
# Towards T = 0 the likeliest token gets everything. We may not divide by 0, so T = 0 is defined as
# greedy choice. Towards infinity all become equally likely (here the entropy is ln 4 = 1.386).
# Temperature never changes which of two tokens is likelier.
#
# **Top-k.** Keep the k likeliest tokens and give all others the logit -inf, which is probability 0.
# Tokens with the same logit as the k-th stay too. Otherwise the result would depend on how a sort
# treats equal numbers.

# %%
def keep_top_k(logits, k):
    smallest_kept = np.sort(logits, axis=-1)[:, -k, None]  # (B,1): the k-th largest of each row
    return np.where(logits < smallest_kept, -np.inf, logits)


print(keep_top_k(np.array([[2.0, 1.0, 1.0, 0.0]]), 2), "three stay: the second and third are equal")
assert np.isfinite(keep_top_k(np.array([[2.0, 1.0, 1.0, 0.0]]), 2)).sum() == 3, "ties stay"

# %% [markdown]
# **Nucleus, or top-p.** After "Once upon a" one token is enough, after "there was a" eight are
# likely: no fixed k suits both. So fix a share of the probability instead, called top-p. Add up the
# probabilities from the likeliest token down, and stop near this share. Where exactly? Two
# definitions are in use. Our four probabilities have the sums 0.5, 0.75, 0.9 and 1. Take a share of
# 0.8:
#
# - Holtzman et al. keep the smallest set whose sum *reaches* the share: 0.9 does, with **three**
#   tokens.
# - GPT-2's code keeps tokens as long as their sum is *at most* the share, and at least one token:
#   0.75 still is, with **two**.

# %%
def keep_nucleus(logits, top_p, paper=False):
    descending = np.sort(logits, axis=-1)[:, ::-1]
    mass = softmax(descending).cumsum(axis=-1)
    if paper:
        last = (mass < top_p).sum(axis=-1)  # the first token at which the sum reaches top_p
        last = np.minimum(last, logits.shape[-1] - 1)
    else:
        last = (mass <= top_p).sum(axis=-1) - 1  # the last at which the sum is at most top_p
        last = np.maximum(last, 0)
    smallest_kept = np.take_along_axis(descending, last[:, None], axis=-1)
    return np.where(logits < smallest_kept, -np.inf, logits)


print("probabilities", four, "\ntop-p   GPT-2's code keeps   the paper keeps")
sizes = []
for top_p in (0.4, 0.6, 0.8, 0.95):
    kept = [np.isfinite(keep_nucleus(four_logits, top_p, paper)).sum() for paper in (False, True)]
    sizes.append(kept)
    held = [f"{n}, together {four[:n].sum():.2f}" for n in kept]
    print(f"{top_p:5}   {held[0]:18}   {held[1]}")
assert sizes == [[1, 1], [1, 2], [2, 3], [3, 4]], "the paper keeps one token more, or as many"

# %% [markdown]
# They agree where the first token alone reaches the share, or where a sum is exactly the share.
# Otherwise the paper keeps one token more. (Tokens of equal probability stay or go together, as in
# top-k.) "top-p 0.9" in one program is not "top-p 0.9" in another.

# %% [markdown]
# **The draw.** Lay the probabilities end to end on a stick of length 1. Draw a number u, uniform
# between 0 and 1. The piece in which u lies is the token. (A border belongs to the piece on its
# right.)
#
# **Your turn:** in which piece does u lie? The judge cuts the stick into 100 equal parts, writes
# its token on each part, and for u = 0.75 looks at part 75.

# %%
from minigpt.learn import gap

hundred_parts = np.repeat(np.arange(4), [50, 25, 15, 10])  # token 0 is on the first 50 parts, ...


def your_choice(p, u):
    return ...  # p (V,), u a number in [0, 1) -> the number of the token


gap.judge(your_choice, four, 0.75, expected=hundred_parts[75])

# %% [markdown] tags=["answer"]
# `(p.cumsum() <= u).sum()`: a cumulative sum is where a piece ends. Count the pieces that end at u
# or before it.

# %% [markdown]
# Now for all rows at once. In code, u is multiplied by the last sum, because rounding can leave
# that sum a little below 1. Section 5 shows what happens otherwise.

# %%
def draw(p, u):
    """p (B,V), u (B,) in [0, 1) -> tokens (B,)"""
    sums = p.cumsum(axis=-1)
    return (sums <= u[:, None] * sums[:, -1:]).sum(axis=-1)


only_1_and_3 = np.array([[0, 0.5, 0, 0.5, 0]])
largest_u = 1 - 2**-53  # the largest float64 below 1
for u, name in ((0.0, "0"), (largest_u, "1 - 2**-53")):
    print(f"of the tokens 1 and 3, u = {name} gives token", draw(only_1_and_3, np.array([u]))[0])
assert draw(four[None], np.array([0.8]))[0] == 2, "the piece in which u lies"
assert draw(only_1_and_3, np.array([0.0]))[0] == 1, "a token of probability 0 is never drawn"
assert draw(only_1_and_3, np.array([largest_u]))[0] == 3, "not even at the other end"

# %% [markdown]
# All four steps together are a rule that can be given to `write`. GPT-2's code takes them in this
# order: temperature, top-k, top-p, draw.

# %%
def sampler(temperature=1.0, top_k=None, top_p=None):
    def choose(logits, u):
        if temperature == 0:
            return greedy(logits, u)
        scores = logits / temperature
        if top_k is not None:
            scores = keep_top_k(scores, top_k)
        if top_p is not None:
            scores = keep_nucleus(scores, top_p)
        return draw(softmax(scores), u)

    return choose


drawn_texts = write(np.full((2, 1), START), 40, sampler(), seed=1)
show(drawn_texts)
assert not np.array_equal(*drawn_texts), "drawn texts differ; the two greedy texts were equal"

# %% [markdown] tags=["deeper"]
# ### The stick, drawn

# %% tags=["hide-input"]
stick_figure, stick = plot.plt.subplots(figsize=(10, 2.6))
for token, (share, end) in enumerate(zip(four, four.cumsum(), strict=True)):
    stick.barh(0, share, left=end - share, color=f"C{token}", alpha=0.6, edgecolor="black")
    stick.text(end - share / 2, 0, f"token {token}\n{share}", ha="center", va="center")
stick.annotate("u = 0.8", (0.8, -0.4), (0.8, -0.85), ha="center", arrowprops={"arrowstyle": "->"})
stick.set(yticks=[], ylim=(-1, 0.5), xlim=(0, 1), xticks=[0, 0.5, 0.75, 0.9, 1])
stick.set_title("Two cumulative sums, 0.5 and 0.75, are at most 0.8: the token is number 2")
plot.save(stick_figure, "12_stick.png")

# %% [markdown] tags=["deeper"]
# ### The order matters
#
# Temperature and top-k change the logits first. Then softmax makes probabilities of them, which sum
# to 1 again, and top-p measures its share on these. So another order keeps other tokens:

# %%
def count(logits):
    return int(np.isfinite(logits).sum())


top_p_first = count(keep_nucleus(four_logits, 0.8))
temperature_first = count(keep_nucleus(four_logits / 0.5, 0.8))
top_k_first = count(keep_nucleus(keep_top_k(four_logits, 3), 0.8))
print(f"top-p 0.8 keeps {top_p_first} tokens where it comes first")
print(f"after a temperature of 0.5 it keeps {temperature_first}, after a top-k of 3 {top_k_first}")
assert top_p_first == 2, "0.5 and 0.25 together are at most 0.8"
assert temperature_first == top_k_first == 1, "another order of steps is another sampler"

# %% [markdown] tags=["deeper"]
# ### The same loop, faster
#
# Our `write` runs the whole text again for every token. The library's
# `model.generate` does the same four steps with the same random numbers, but keeps what it can
# (lesson 17 shows how). It gives the same tokens, so from here on we use it.

# %%
import time

started = time.perf_counter()
slow_ids = write(np.full((2, 1), START), 60, sampler(0.8, top_k=40), seed=3)
middle = time.perf_counter()
fast_ids = model.generate(np.full((2, 1), START), 60, temperature=0.8, top_k=40, seed=3)
ended = time.perf_counter()
print(f"2 texts of 60 tokens: ours {middle - started:.2f} s, the library {ended - middle:.2f} s")
assert np.array_equal(slow_ids, fast_ids), "the library's generate writes the same tokens"

# %% [markdown]
# ## 3. Backward: there is none
#
# Change a logit a little: for almost every u the token stays the same. So the derivative of the
# draw is 0 almost everywhere, and no gradient passes through it. Training does not need such a
# gradient: there, the tokens come from the text.

# %% [markdown] tags=["deeper"]
# ### What rounding changes
#
# For almost every u, a small change of the logits does not change the token. That has a good side.
# Another device computes logits that differ in their last digits (float32 has about seven). Then
# the pieces of the stick move a little, and the token changes only if u lies where a border has
# moved. (After one changed token, the rest is another text.)

# %%
noise = np.random.default_rng(11)
u_many = noise.random(20_000)
here, direction = draw(p_open[None], u_many), noise.normal(size=V)
n_changed = {}
for size in (1e-6, 1e-2):
    there = draw(softmax(np.log(p_open) * (1 + size * direction))[None], u_many)
    n_changed[size] = int((here != there).sum())
    print(f"logits changed by {size:.0e} of their size: {n_changed[size]:3} of 20,000 draws change")
assert n_changed[1e-6] <= 2, "a difference of rounding changes almost no draw"
assert n_changed[1e-2] > 100, "a difference of one in a hundred does"

# %% [markdown] tags=["deeper"]
# ## 4. Collapse: what temperature does to the entropy, and which temperature fits
#
# In the first table of section 2 the entropy rose with every temperature, from 0.008 to 1.386. We
# show that it can never fall. Write z_v for the logits and b for 1/T, and let F be the logarithm of
# the softmax's denominator:
#
# $$
# F(b) = \ln \sum_v e^{b z_v}, \qquad \ln p_v = b z_v - F(b)
# $$
#
# **Step 1: F changes by the mean logit.** Lesson 02 found the derivative of F with respect to a
# score: it is the probability. Here every score b z_v changes by z_v when b changes by 1, so
#
# $$
# F' = \sum_v p_v z_v = \mathrm{E}[z]
# $$
#
# **Step 2: the mean logit changes by the variance of the logits.** The derivative of ln p_v is now
# known: z_v - E[z]. So p_v itself changes by p_v (z_v - E[z]), and
#
# $$
# F'' = \sum_v p_v (z_v - \mathrm{E}[z]) z_v = \mathrm{E}[z^2] - \mathrm{E}[z]^2 = \mathrm{Var}(z)
# $$
#
# **Step 3: the entropy** is minus the mean of ln p, which is F - b E[z]:
#
# $$
# H = F - b F' \qquad \frac{dH}{db} = F' - (F' + b F'') = -b\,\mathrm{Var}(z)
# $$
#
# **Step 4: from b to T.** When T rises by a little, b = 1/T falls by 1/T^2 times as much:
#
# $$
# \frac{dH}{dT} = \frac{dH}{db} \cdot \frac{-1}{T^2} = \frac{\mathrm{Var}(z)}{T^3}
# $$
#
# A variance is never negative. So the entropy never falls when the temperature rises.

# %%
print("   T    dH/dT by differences   Var(z) / T^3")
for temperature in (0.5, 1.0, 2.0):
    eps = 1e-5
    above, below = (entropy(softmax(four_logits / (temperature + s))) for s in (eps, -eps))
    numeric = ((above - below) / (2 * eps)).item()
    q = softmax(four_logits / temperature)
    variance = (q * four_logits**2).sum() - (q * four_logits).sum() ** 2
    print(f"{temperature:4} {numeric:20.6f} {variance / temperature**3:17.6f}")
    assert abs(numeric * temperature**3 / variance - 1) < 1e-7, "pencil and differences agree"

# %% [markdown]
# **Which temperature fits a model best?** The loss of the real next token y is F(b) - b z_y. Its
# derivative with respect to b is
#
# $$
# \frac{d}{db} \left( F - b z_y \right) = \mathrm{E}[z] - z_y
# $$
#
# E[z] is the mean logit of the tokens that the model would draw: the logit that it *expects*. z_y
# is the logit of the token that really *comes*. At the best temperature the derivative is 0, so the
# two are equal, on average over all places.
#
# - If the model expects more than what comes, it is too sure. The derivative is positive, so a
#   smaller b, which is a higher T, has a lower loss.
# - If it expects less, it is too unsure.
#
# The derivative never falls when b grows, because F'' is not negative. So we can find its zero by
# halving an interval, on stories that the model has not seen:

# %%
def beginnings(ids):
    """The first 100 tokens of each story that has so many and fits into the context, and the token
    after them (after a story of exactly 100 tokens that is the start token of the next one)"""
    begins = np.flatnonzero(ids == START)
    lengths = np.diff(begins)
    fits = (lengths >= 100) & (lengths <= CONTEXT)
    return np.array([ids[begin : begin + 101] for begin in begins[:-1][fits]])


def logits_of(rows):
    """Stories (B,101) -> all logits (N,V), and those of the tokens that really came (N,)"""
    z = model.forward(rows[:, :-1], grad=False)[0].astype(np.float64).reshape(-1, V)
    return z, np.take_along_axis(z, rows[:, 1:].reshape(-1, 1), axis=-1)[:, 0]


seen, unseen = data.encode(data.load("stories:1000"), text, context=CONTEXT)  # seen in training
contexts = beginnings(unseen)  # (B,101)
z, z_real = logits_of(contexts)
print(f"{len(contexts)} unseen stories, {z_real.size:,} tokens")
expected = (softmax(z) * z).sum(axis=-1).mean()
print(f"at T = 1 the model expects a logit of {expected:.3f}; what comes has {z_real.mean():.3f}")

# %%
def best_b(z, z_real):
    low, high = 0.5, 2.0
    for _ in range(8):
        b = (low + high) / 2
        slope = (softmax(b * z) * z).sum(axis=-1).mean() - z_real.mean()
        low, high = (low, b) if slope > 0 else (b, high)
    return b


BEST = 1 / best_b(z, z_real)
print(f"the best temperature is {BEST:.2f}")

# %% [markdown]
# How sure is that number? In three steps:
#
# 1. The derivative above is a mean over stories, with a standard error s. (Stories are independent
#    of each other, tokens are not.)
# 2. Where is it 0? Its slope in b is F''. So where it is wrong by s, its zero is wrong by s / F''.
# 3. T is 1/b. So where b is wrong by s / F'', T is wrong by T^2 times as much (step 4 above).
#
# For comparison, the same for stories that the model was trained on:

# %%
def error_of(best, z, z_real):
    """The standard error of the best temperature; every 100 tokens are a story"""
    q = softmax(z / best)
    expected_logit = (q * z).sum(axis=-1)
    slopes = (expected_logit - z_real).reshape(-1, 100).mean(axis=-1)
    curvature = ((q * z**2).sum(axis=-1) - expected_logit**2).mean()
    return best**2 * slopes.std(ddof=1) / np.sqrt(len(slopes)) / curvature


known, known_real = logits_of(beginnings(seen)[: len(contexts)])
BEST_KNOWN = 1 / best_b(known, known_real)
loss_new = (np.log(np.exp(z).sum(axis=-1)) - z_real).mean()
loss_known = (np.log(np.exp(known).sum(axis=-1)) - known_real).mean()
error_new, error_known = error_of(BEST, z, z_real), error_of(BEST_KNOWN, known, known_real)
print(f"unseen stories:          T {BEST:.2f} +- {error_new:.2f}, loss {loss_new:.2f}")
print(f"stories of the training: T {BEST_KNOWN:.2f} +- {error_known:.2f}, loss {loss_known:.2f}")
assert 0.85 < min(BEST, BEST_KNOWN) and max(BEST, BEST_KNOWN) < 1.05, "both are nearly 1"
assert BEST_KNOWN + 2 * error_known < 1, "of its own stories it is a little too unsure"
assert BEST - BEST_KNOWN < 2 * np.hypot(error_new, error_known), "the difference may be chance"
assert loss_known > loss_new - 0.03, "the stories of the training are no easier"

# %% [markdown]
# Below 1 means too unsure: with sharper probabilities the loss would be lower. Above 1 means too
# sure, as a model can be of unseen text if it has learnt its own text by heart. Here neither number
# is above 1, and the loss on the stories of the training is no lower. The two temperatures differ
# by 0.04, but each has an error of 0.02: this can be chance. So the test gives no sign that it
# learnt them by heart.
#
# And what do top-k and top-p cut away, at all places of the unseen stories?

# %%
mass = (-np.sort(-softmax(z), axis=-1)).cumsum(axis=-1)  # the sums, from the likeliest down
nucleus = np.maximum((mass <= 0.9).sum(axis=-1), 1)
real_rank = (z_real[:, None] < z).sum(axis=-1)  # how many tokens were likelier
tail, real_tail = 1 - mass[:, 4].mean(), (real_rank >= 5).mean()
print(f"top-p 0.9 keeps {nucleus.min()} to {nucleus.max()} tokens, median {np.median(nucleus):.0f}")
print(f"top-k 5 cuts away {tail:.2%} of the probability, in one place {1 - mass[:, 4].min():.0%}")
print(f"the real token is not among the first 5 in {real_tail:.2%} of all places")
without_tail = mass[:, 4].reshape(len(contexts), -1).prod(axis=-1)  # no such draw in 100 places
in_tail = (real_rank >= 5).reshape(len(contexts), -1).any(axis=-1)
print(f"a token outside the first 5 is in {1 - without_tail.mean():.0%} of texts of 100 draws, "
      f"and in {in_tail.mean():.0%} of the stories")
assert nucleus.min() == 1 and nucleus.max() > 5, "a nucleus fits its size to the place"
assert 0.7 < tail / real_tail < 1.4, "the model's tail is about as heavy as the real one"

# %% [markdown]
# A fixed k is too many in one place and too few in the next. And the tail, the tokens behind the
# first five, is *not* empty in real text: to cut it removes real words too. At a single place its
# probability is small. But a text has 100 places: nearly every text of 100 draws goes into the tail
# somewhere, as nearly every story does (the last line).
#
# Then why cut? A reason that is often given, and a guess here: an author who writes a rare word
# knows how to go on. A model that has drawn one by chance has seldom seen such a beginning.

# %% [markdown] tags=["deeper"]
# ## 5. Check: how can a random function be wrong?
#
# Every single result of a sampler is possible, so no single one can be wrong. But frequencies can
# be wrong. In N draws a token of probability p is expected N p times, with a standard deviation
# of about the square root of N p. Take each token's difference, divide it by this deviation,
# square, and add:
#
# $$
# \chi^2 = \sum_v \frac{(\mathrm{observed}_v - \mathrm{expected}_v)^2}{\mathrm{expected}_v}
# $$
#
# For a right sampler each term is 1 - p on average. So their sum, the **chi-square**, is about d,
# the number of terms minus one, with a standard deviation of about the square root of 2d. Tokens
# expected fewer than 5 times count together as one.

# %%
def deviation(tokens, p):
    """How many standard deviations chi-square lies above that of a right sampler"""
    expected = len(tokens) * p
    observed = np.bincount(tokens, minlength=len(p))
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    possible = expected > 0
    terms = (observed - expected)[possible] ** 2 / expected[possible]
    d = len(terms) - 1
    return (terms.sum() - d) / np.sqrt(2 * d)


def many_draws(choose, scores, n=20_000, at_once=2000):
    chance = np.random.default_rng(5)
    rows = np.broadcast_to(scores, (at_once, len(scores)))
    return np.concatenate([choose(rows, chance.random(at_once)) for _ in range(n // at_once)])


print("20,000 draws with T = 1")
for claimed in (1.0, 1.1):
    off = deviation(many_draws(sampler(), np.log(p_open)), softmax(np.log(p_open) / claimed))
    print(f"  if we claim that T was {claimed}: {off:+.1f} standard deviations off")
    assert (abs(off) < 5) == (claimed == 1.0), "chi-square accepts the right T and refuses another"

# %% [markdown]
# The second line matters most: a check that cannot refuse anything is no check. Now the other
# rules:

# %%
warm = p_open ** (1 / 1.5)
first_five = np.where(p_open >= np.sort(p_open)[-5], p_open, 0)
likelier = np.array([p_open[p_open >= p].sum() for p in p_open])  # sum down to each token
first_80 = np.where(likelier <= 0.8, p_open, 0)
for name, choose, wanted in (
    ("T = 1.5", sampler(temperature=1.5), warm / warm.sum()),
    ("top-k 5", sampler(top_k=5), first_five / first_five.sum()),
    ("top-p 0.8", sampler(top_p=0.8), first_80 / first_80.sum()),
):
    drawn = many_draws(choose, np.log(p_open))
    off = deviation(drawn, wanted)
    print(f"{name}: {off:+.1f} standard deviations off")
    assert abs(off) < 5, f"{name}: the right frequencies"
    assert wanted[drawn].min() > 0, f"{name}: no token of probability 0"

# %% [markdown]
# **The trap: an error that this test does not show.** A shorter draw suggests itself: "the first
# sum that exceeds u". Models give float32, so we try it in float32. Chi-square accepts it:

# %%
def short_draw(p, u):
    return (p.cumsum(axis=-1) > u[:, None]).argmax(axis=-1)


def short(logits, u):
    return short_draw(softmax(logits).astype(np.float32), u)


print(f"{deviation(many_draws(short, np.log(p_open)), p_open):+.1f} standard deviations off")
equal = np.full((1, 40_478), 1 / 40_478, np.float32)  # as many tokens as GPT-1 has
end = float(equal.cumsum(axis=-1)[0, -1])
print(f"but 40,478 equal probabilities add up to {end:.5f} in float32, and u = 0.9999 gives")
print("  token", short_draw(equal, np.array([0.9999]))[0], "with the shorter draw,", end=" ")
print("token", draw(equal, np.array([0.9999]))[0], "with ours")
u_long = np.random.default_rng(6).random(400_000)
zeros = int(((u_long < equal[0, 0]) | (u_long >= end)).sum())  # where token 0 is the short draw
print(f"of 400,000 draws, token 0 should get about 10, and gets {zeros}")
assert abs(deviation(many_draws(short, np.log(p_open)), p_open)) < 5, "chi-square sees nothing"
assert short_draw(equal, np.array([0.9999]))[0] == 0, "no sum exceeds u: argmax of False is 0"
assert draw(equal, np.array([0.9999]))[0] == 40_473, "near the end of the stick, as it should be"
assert zeros > 100, "with these probabilities, a frequency shows the error"

# %% [markdown]
# Where u is larger than the last sum, the shorter draw gives token 0. With 40,478 equal tokens this
# happens once in 1,800 draws, and in GPT-1's vocabulary token 0 is `<unk>`. It looks as if the
# model had chosen it. Frequencies show the error only where the last sum is far enough from 1. So:
# test chance by frequencies, and test edges at the edges (u = 0 and the largest u, as in section
# 2).

# %% [markdown] tags=["deeper"]
# ## 6. See it: the likeliest text is not a typical text
#
# **Why the likeliest text is not typical.** A coin shows heads with probability 0.6. It is thrown
# 100 times, and the 100 results are written down one after the other, as a sequence.
#
# **Guess:** of all possible sequences, which single one is the likeliest?

# %%
import math

heads = np.arange(101)
one_sequence = 0.6**heads * 0.4 ** (100 - heads)
how_many = np.array([float(math.comb(100, k)) for k in heads])
together = one_sequence * how_many
coin_entropy = entropy(np.array([0.6, 0.4]))
print(f"all heads: {one_sequence[100]:.1e}; one sequence with 60 heads: {one_sequence[60]:.1e}")
print(f"but there are {how_many[60]:.1e} sequences with 60 heads")
print(f"50 to 70 heads have the probability {together[50:71].sum():.1%} together")
print(f"surprisal per throw: {-math.log(0.6):.3f} for all heads, "
      f"{-math.log(one_sequence[60]) / 100:.3f} for 60 heads; the entropy is {coin_entropy:.3f}")
assert one_sequence.argmax() == 100 and together.argmax() == 60, "likeliest, and most frequent"
assert abs(-math.log(one_sequence[60]) / 100 - coin_entropy) < 1e-9, "typical: as the entropy says"

# %% [markdown] tags=["answer"]
# All heads: each tails makes a sequence less likely, by the factor 0.4 / 0.6. It is easy to guess a
# sequence with 60 heads. There are so many of those that one of them nearly always comes, or one
# with about as many heads. But each single one is less likely than all heads.

# %% tags=["hide-input"]
coin_figure, coin = plot.plt.subplots(figsize=(9, 4.5))
coin.semilogy(heads, one_sequence, color="tab:red", label="one sequence with so many heads")
coin.semilogy(heads, together, color="tab:blue", label="all such sequences together")
coin.plot(100, one_sequence[100], "o", color="tab:red")
coin.annotate("the likeliest\nsequence", (100, one_sequence[100]), (78, 1e-33), color="tab:red")
coin.plot(60, together[60], "o", color="tab:blue")
coin.annotate("what one sees", (60, together[60]), (58, 1e3), color="tab:blue", ha="center")
coin.set(xlabel="heads in 100 throws", ylabel="probability")
coin.set(ylim=(1e-41, 1e9), yticks=[1e-40, 1e-20, 1])
coin.set_title("A coin with 0.6 for heads: likely is not typical")
coin.legend(loc="upper left")
plot.save(coin_figure, "12_coin.png")

# %% [markdown]
# The likeliest sequence is practically never seen. What we see is *typical*: its surprisal per
# throw is near the entropy. This is Shannon's theorem. It holds for texts too, if they are long and
# come from a source that does not change (stationary and ergodic). One who searches for the
# likeliest text searches for 100 heads. Greedy choice does so step by step, and may miss it. Beam
# search follows several texts at once and keeps the likeliest ones, so it usually finds likelier
# texts.
#
# Now we measure it. Take unseen stories, give the model their first 9 tokens (the start token is
# one of them), and let it go on in different ways. Then compute the model's own surprisal, in nats
# per token, for each continuation and for the real one.

# %%
LENGTH, GIVEN, N_TEXTS = 100, 9, 96
real = contexts[:N_TEXTS, :LENGTH]
WAYS = {
    "greedy": {"temperature": 0},
    "T = 0.7": {"temperature": 0.7},
    "T = 1": {},
    "T = 1.5": {"temperature": 1.5},
}
texts = {}
for name, options in WAYS.items():
    texts[name] = model.generate(real[:, :GIVEN], LENGTH - GIVEN, **options)
texts["real"] = real
print(f"{len(texts)} kinds of text:", ", ".join(texts), "- each", real.shape)

# %%
def surprisal(ids):
    """ids (B,L) -> (B,L-1): -ln p of each token, given those before it"""
    q = softmax(model.forward(ids[:, :-1], grad=False)[0].astype(np.float64))
    return -np.log(np.take_along_axis(q, ids[:, 1:, None], axis=-1)[..., 0])


def different_runs(ids):
    """The share of different ones among all runs of 4 tokens"""
    runs = np.lib.stride_tricks.sliding_window_view(ids, 4, axis=1).reshape(-1, 4)
    return len(np.unique(runs, axis=0)) / len(runs)


print(f"greedy and real text differ in {(texts['greedy'] != real).mean():.0%} of their tokens")

# %%
costs = {name: surprisal(ids)[:, GIVEN - 1 :] for name, ids in texts.items()}  # (96,91) each
mean = {name: cost.mean() for name, cost in costs.items()}
variety = {name: different_runs(ids[:, GIVEN:]) for name, ids in texts.items()}
print("different runs of 4 tokens:                    in all texts   within one text")
for name, ids in texts.items():
    error = costs[name].mean(axis=-1).std(ddof=1) / np.sqrt(N_TEXTS)
    within = np.mean([different_runs(row[None, GIVEN:]) for row in ids])
    line = f"{name:9} {mean[name]:.3f} +- {error:.3f} nats per token"
    print(f"{line:46} {variety[name]:12.0%} {within:17.0%}")
less = (costs["real"] - costs["greedy"]).mean(axis=-1)  # in pairs with the same beginning
error_of_less = less.std(ddof=1) / np.sqrt(N_TEXTS)
print(f"greedy costs less than its real story by {less.mean():.2f} +- {error_of_less:.2f}, "
      f"in {(less > 0).sum()} of {N_TEXTS} pairs")
assert less.mean() > 3 * error_of_less, "the model finds greedy text likelier than real text"
assert variety["greedy"] < 0.8 * variety["real"], "and greedy texts repeat one another"
assert mean["greedy"] < mean["T = 1"] < mean["T = 1.5"], "warmer is less likely"

# %%
strip_figure, strips = plot.plt.subplots(figsize=(9, 4.5))
per_text = {name: cost.mean(axis=-1) for name, cost in costs.items()}
sideways = np.linspace(-0.2, 0.2, N_TEXTS)
for place, (name, values) in enumerate(per_text.items()):
    color = "black" if name == "real" else f"C{place}"
    strips.plot(place + sideways, values, "o", color=color, alpha=0.4, markersize=4)
    strips.plot([place - 0.3, place + 0.3], [values.mean()] * 2, color=color, linewidth=3)
strips.axhspan(per_text["real"].min(), per_text["real"].max(), color="black", alpha=0.08)
strips.set_xticks(range(len(texts)), texts)
strips.set(ylabel="surprisal, nats per token", ylim=(0, None))
strips.set_title(f"{N_TEXTS} texts of each kind; the grey area is as wide as the real stories")
plot.save(strip_figure, "12_typical.png")
spread = {name: values.std(ddof=1) for name, values in per_text.items()}
for name in ("real", "greedy", "T = 1"):
    values = per_text[name]
    print(f"{name:6} {values.min():.2f} to {values.max():.2f}, deviation {spread[name]:.3f}")
assert per_text["real"].min() < per_text["greedy"].min(), "a real story costs less than any greedy"
assert spread["greedy"] < spread["real"] / 2, "greedy texts hardly vary"
assert 2 / 3 < spread["T = 1"] / spread["real"] < 3 / 2, "texts at T = 1 vary as real ones do"

# %% [markdown]
# Let the *cost* of a text be its surprisal per token. Greedy text is *too good*: it costs less than
# most real stories with the same beginning. At a single place this must be so, since the surprisal
# of the likeliest token is never above the mean surprisal of a draw. Yet the greedy texts lie
# within the grey area, for some real stories are cheap too. But greedy texts are all alike: none
# repeats itself, but they repeat one another (the column "in all texts").
#
# Texts drawn at T = 1 cost about what real stories cost (the table has both, with their errors),
# and vary about as much (deviations of 0.11 and 0.11). Why do they come near to the real cost?
#
# The first part is section 4. At the best temperature the expected logit E[z] equals, on average,
# the real one, z_y. Multiply both by b, and subtract both from F. Then, again on average,
#
# $$
# \underbrace{F - b\,\mathrm{E}[z]}_{\text{the entropy}} =
# \underbrace{F - b\,z_y}_{\text{the loss}}
# $$
#
# T = 1 is near the best temperature, so there the two are nearly equal. This is about *one* draw
# that follows real text.
#
# The second part must be measured. When the model writes a whole text, it goes on after its own
# mistakes, which it never met in training. If this made it unsure, its surprisal would grow from
# draw to draw. (A text can also become wrong while the model is sure of it. This test cannot see
# that; lesson 11 counts faults.)

# %%
real_logits = model.forward(real[:, :-1], grad=False)[0].astype(np.float64)
one_draw = entropy(softmax(real_logits))[:, GIVEN - 1 :].mean()
print(f"real tokens                  {mean['real']:.2f} nats per token")
print(f"one draw, in a real context  {one_draw:.2f}")
print(f"draw after draw              {mean['T = 1']:.2f}")
first_half, second_half = np.array_split(costs["T = 1"] - costs["real"], 2, axis=1)
growths = second_half.mean(axis=-1) - first_half.mean(axis=-1)  # one for each text
growth, error_of_growth = growths.mean(), growths.std(ddof=1) / np.sqrt(N_TEXTS)
print(f"own text minus real text: {first_half.mean():+.2f} in its first half, "
      f"{second_half.mean():+.2f} in its second")
print(f"it grows by {growth:+.2f} +- {error_of_growth:.2f}")
assert abs(one_draw / mean["real"] - 1) < 0.1, "entropy and loss agree, as section 4 says"
assert abs(mean["T = 1"] / mean["real"] - 1) < 0.15, "its own text is as surprising as real text"
assert growth < 2 * error_of_growth < 0.2, "no growth that these texts could show"

# %% [markdown]
# No growth is seen, within the 91 tokens of these texts.
#
# And which tokens surprise? One real story, and the greedy text from the same beginning:

# %% tags=["hide-input"]
story_figure, panels = plot.plt.subplots(2, 1, figsize=(10, 6), sharex=True, sharey=True)
for axes, name in zip(panels, ("real", "greedy"), strict=True):
    cost = costs[name][0]
    axes.bar(np.arange(GIVEN, LENGTH), cost, color="black" if name == "real" else "C0")
    named = []
    for i in cost.argsort()[::-1][:8]:
        if all(abs(i - j) > 6 for j in named):  # room for a word
            named.append(i)
            word = text.decode([int(texts[name][0, GIVEN + i])]).strip()
            axes.text(GIVEN + i, cost[i] + 0.1, word, ha="center")
    axes.set(ylabel="nats", ylim=(0, costs["real"][0].max() + 1), xlim=(GIVEN - 5, LENGTH + 1))
    axes.set_title("a real story" if name == "real" else "greedy, from the same beginning")
panels[1].set_xlabel("token of the story; some surprising ones with their text")
plot.save(story_figure, "12_story.png")

# %% [markdown]
# And all 96 stories?

# %%
easy, hard = costs["real"] < 0.1, costs["real"] > 2
hard_words = Counter(text.decode([int(i)]).strip() for i in real[:, GIVEN:][hard])
held_by_hard = costs["real"][hard].sum() / costs["real"].sum()
print(f"{easy.mean():.0%} of all tokens cost less than 0.1 nats")
print(f"{hard.mean():.0%} cost more than 2 nats; these hold {held_by_hard:.0%} of all surprisal")
print("most frequent:", ", ".join(f"{word} {n}" for word, n in hard_words.most_common(10)))
assert easy.mean() > 0.6 and hard.mean() < 0.1 < 0.3 < held_by_hard, "few tokens hold much"

# %% [markdown]
# Most of a real story can be predicted. One token in twenty costs more than 2 nats. In the list
# these are places and first words of a sentence, where a story can go on in several ways. Greedy
# choice takes the cheapest token each time, which is not free: where eight words are equally
# likely, each costs about 2 nats. One text of each kind:

# %%
for name, ids in texts.items():
    told = text.decode(ids[0, 1:].tolist()).replace("<|endoftext|>", " / ")
    print(f"{name}:\n{textwrap.fill(textwrap.shorten(told, 280, placeholder=' …'), 96)}\n")

# %% [markdown]
# At T = 1.5 a word is in a wrong place ("Every windy morning, word, Zoe"). The greedy sentences
# above are correct, but of all runs of 4 tokens in the greedy texts only 8 % are different ones. At
# T = 1 text is *typical*: it costs about what real text costs, and varies as much. Whether you want
# that depends on the purpose: a calculation has one right answer, and a story may go on in many
# ways.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# `sampling.next_tokens` does our four steps:
#
#     # minigpt/models/sampling.py
#     if top_k is not None:
#         logits = keep_top_k(logits, top_k)
#     if top_p is not None:
#         logits = keep_nucleus(logits, top_p)
#     if top_k is not None or top_p is not None:
#         tokens = _columns(logits != -np.inf)
#     cumulative = probabilities(logits[:, tokens]).cumsum(axis=-1)
#     total = cumulative[:, -1:]  # 1, but for rounding
#     threshold = uniform[:, None] * total
#     place = (cumulative <= threshold).sum(axis=-1)
#
# (`_columns` finds the tokens that a filter has kept. They are few, and only they are summed.)
#
# `model.generate` is our loop, and `model.stream` is the same loop as a Python generator that
# yields each token as soon as it is there. The same seed gives the same text.

# %%
from minigpt.models import sampling

settings = ({}, {"temperature": 0.7}, {"top_k": 7}, {"top_p": 0.8},
            {"temperature": 2, "top_k": 20, "top_p": 0.9})
chance = np.random.default_rng(7)
many, u_rows = chance.normal(size=(500, 60)) * 3, chance.random(500)
for options in settings:
    equal_tokens = np.array_equal(sampling.next_tokens(many, u_rows, **options),
                                  sampler(**options)(many, u_rows))
    print(f"{str(options):55} {'the same 500 tokens' if equal_tokens else 'DIFFERENT'}")
    assert equal_tokens, "ours and the library's rule choose the same tokens"
streamed = np.array(list(model.stream(real[:2, :GIVEN], 12, seed=3))).T
again = model.generate(real[:2, :GIVEN], 12, seed=3)
assert np.array_equal(again[:, GIVEN:], streamed), "generate is stream, collected"
assert not np.array_equal(again, model.generate(real[:2, :GIVEN], 12, seed=4)), "another seed"

# %% [markdown]
# (On the command line: `minigpt sample FOLDER --prompt "Once upon a time" --temperature 0.7`.)
#
# **Past the context the window slides.** The model reads at most CONTEXT tokens. What lies before
# them is forgotten:

# %%
longer = unseen[None, : CONTEXT + 20]
forgetful = longer.copy()
forgetful[0, :20] = START
same = np.array_equal(next_logits(longer), next_logits(forgetful))
print(f"{longer.shape[1]} tokens, and the same with the first 20 erased: the same logits? {same}")
forgetful[0, 20] = START
one_more = np.array_equal(next_logits(longer), next_logits(forgetful))
print(f"and with token 21 erased too? {one_more}")
assert same and not one_more, "the slice in `next_logits` forgets the first 20, and no more"

# %% [markdown]
# What does that cost? Late in a story, take away its first 40 tokens. Then three things change:
#
# 1. what these tokens said is missing;
# 2. the start token is missing;
# 3. all other tokens have another position.
#
# To see the first alone, put the first 40 tokens of *another* story in their place. Then there is a
# start token, and the others keep their position:

# %%
SLID, LATE = 40, 80
with_all = costs["real"][:, LATE - GIVEN :].mean()
without_first = surprisal(real[:, SLID:])[:, LATE - SLID - 1 :].mean()
other_first = np.concatenate([np.roll(real[:, :SLID], 1, axis=0), real[:, SLID:]], axis=1)
with_other = surprisal(other_first)[:, LATE - 1 :].mean()
print(f"surprisal of tokens {LATE} to {LENGTH - 1}")
print(f"with the whole story before them:  {with_all:.2f}")
print(f"without its first {SLID} tokens:      {without_first:.2f}")
print(f"with those of another story there: {with_other:.2f}")
assert with_other > 1.2 * with_all, "without what the first tokens said, the rest costs more"

# %% [markdown]
# In the last line there is a start token, all positions are as before, and the cost is much higher
# all the same. So what the first tokens said matters. (Or the beginning of another story misleads:
# a part of the rise may come from that.) What the other two changes cost by themselves, these lines
# do not say.
#
# There is another price. When the window slides, each token moves one position down, and its
# position is part of the input. So nothing of the last step can be kept, and the whole window is
# computed anew for each token. GPT-2's released code does not slide: it stops at 1,024 tokens.
#
# **A text as a whole.** Surprisals add up. The log-likelihood of a text is minus their sum, which
# is minus the loss times the number of tokens. Texts of different lengths are compared by their
# *mean*, because each further token makes the sum smaller.
#
# So a model can judge which of two texts is likelier. We look for the names Zoe, Max, Anna and Leo
# in each story, and replace the last of them by another of the four:

# %%
loss, _ = model.loss(real[:1, :-1], real[:1, 1:], grad=False)
total = -surprisal(real[:1]).sum()
print(f"a real story: ln p = {total:.0f}, that is {total / (LENGTH - 1):.2f} per token")
names = np.array([text.encode(" " + name)[0] for name in ("Zoe", "Max", "Anna", "Leo")])
renamed = real.copy()
for row in renamed:
    last_name = np.flatnonzero(np.isin(row, names))[-1:]
    row[last_name] = names[(names[None] == row[last_name, None]).argmax(axis=-1) - 1]
changed = (renamed != real).any(axis=1)  # the stories in which one of these names stands
worse = surprisal(renamed[changed]).sum(axis=-1) - surprisal(real[changed]).sum(axis=-1)
print(f"another name: ln p falls in {(worse > 0).sum()} of {changed.sum()} stories, "
      f"by {np.median(worse):.1f} (median)")
assert abs(total / (-float(loss) * (LENGTH - 1)) - 1) < 1e-4, "minus the loss, times the tokens"
assert (worse > 0).mean() > 0.8, "the model knows which name belongs there"

# %% [markdown]
# GPT-1 (section 5) judges in this way whether a sentence is grammatical, without any training for
# it. Lesson 14 does the same.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - The GPT-1 paper prints no sample: the model was made to be fine-tuned. Can it write? A test in
#   Hugging Face transformers (`tests/models/openai/test_modeling_openai.py`) lets the released
#   weights go on greedily after "the president is": `a very good man . " " i 'm sure he is , " said
#   the`.
# - GPT-2's paper uses k = 40 for its samples (appendix A). Its summaries are drawn with k = 2
#   (section 3.6), its answers (3.5) and translations (3.7) are greedy: the fewer right answers a
#   task has, the smaller the k (our reading). In the released code the defaults are T = 1,
#   top_k = 0, which means off, and top_p = 1.
# - That code writes -1e10 where we write -inf. After a softmax both are 0. It keeps ties in
#   top-k, as we do, and in the nucleus too: with ties there, more than the share may be kept.
# - Holtzman et al.: the smallest set that reaches the share. Hugging Face transformers follows the
#   paper, our library follows GPT-2's code.
# - Holtzman et al. also make the point of our section 6: human text is not the likeliest text.

# %% [markdown]
# ## 9. To keep
#
# - A model gives probabilities; a text needs a choice at every step: temperature, top-k, nucleus,
#   draw, in this order.
# - Greedy choice writes one and the same text, although the model gives others a probability. And
#   the likeliest text is not a typical text.
# - "top-p 0.9" in one program is not "top-p 0.9" in another: the paper keeps the smallest set that
#   reaches the share, GPT-2's code keeps tokens as long as their sum is at most the share.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/12_min_p.py`: two rules that the lesson did not print. *Min-p* keeps each token
#    whose probability is at least a share of the largest one; *typical sampling* keeps the tokens
#    whose surprisal is nearest to the entropy. Run it.
# 2. `exercises/12_find_the_bug.py`: a nucleus whose author tried it on four probabilities, largest
#    first. Run it.
# 3. On paper: there is another way to draw. Add to each logit a random number of its own, g =
#    -ln(-ln u), and take the largest sum. Show that token v wins with the probability softmax(z)_v.
#    Would a text still be nearly the same on another device (section 3)?
# 4. On a computer: `write` all WAYS again with top-k 5. Where does it lie in the picture of section
#    6, and why is "as surprising as real text" not enough to call a rule good?

# %%
print("lesson 12: every check is happy")
