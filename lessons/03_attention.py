# %% [markdown]
# # Lesson 03: attention, or how a word looks back
#
# You will turn a dictionary into something that can learn. You will write attention as two loops
# and then as matrix products, and work out its gradient with a pencil. You will see that attention
# alone does not know the order of words, why scores are divided by sqrt(D), and how an average over
# 512 numbers is found from 64. At the end you train a small model until you can *see* how it finds
# the answer to a question. This lesson has one head; lesson 04 has several.
#
# Reading: 25 minutes for the core, 95 minutes for all of it. Running: 6 to 15 seconds. Before it:
# lessons 00 to 02. The deeper parts make two sittings, with a pause before section 6.
#
# Papers: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2 and equation 1. Radford et al. 2018
# (GPT-1), sections 3.1 and 4.1, equation 2. Dao et al. 2022 (FlashAttention, arXiv 2205.14135),
# appendix B, for the surprise in section 4.

# %% [markdown]
# ## 1. Why: a word must look back
#
# This is what the letter table of lesson 02 writes:

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("03")

# %% [markdown]
# It sees one letter at a time. It cannot look back, neither at the word that it has begun nor at
# the story. But some questions cannot be answered without looking back:
#
#     mia has tea . tom has milk . ann has fish . who has milk
#
# The next word is "tom". You found it by looking back. An embedding and a linear map (lesson 01)
# cannot do this: they see one position at a time. The last position holds "milk", and this is
# the same whether tom or ann has it. In Python we would use a dictionary:

# %%
owner = {"tea": "mia", "milk": "tom", "fish": "ann"}
print("who has milk?", owner["milk"])

# %% [markdown]
# But a dictionary cannot *learn*. A key matches or it does not. If a key changes a little, the
# result stays the same or jumps, so there is no gradient to follow. We make the dictionary soft:
#
# - The question and the keys become vectors, the *query* and the *keys*.
# - The dot product of the query with a key is a *score*: how well they match.
# - Softmax turns the scores into *shares*, positive numbers that add up to 1. (Papers call them
#   attention weights.)
# - The answer is a mixture: each *value* times its share, added up.
#
# The query below has the score 4 with "milk", and 0 with the other two.
#
# **Guess:** what share does each of these two get: none, 2 %, or 10 %?

# %%
def softmax(s):
    """s (*,N) -> p (*,N): positive, and each row adds up to 1"""
    e = np.exp(s - s.max(axis=-1, keepdims=True))  # the largest cancels in the quotient
    return e / e.sum(axis=-1, keepdims=True)


soft_keys = np.array([[1.0, 0], [0, 1], [-1, 0]])  # tea, milk, fish
soft_values = np.eye(3)  # mia, tom, ann
soft_query = np.array([0.0, 4])  # who has milk?
soft_scores = soft_keys @ soft_query
soft_shares = softmax(soft_scores)
soft_answer = soft_shares @ soft_values
print("scores", soft_scores, "  shares", soft_shares.round(2))
print("answer: {:.2f} mia + {:.2f} tom + {:.2f} ann".format(*soft_answer))
assert np.allclose(soft_answer, [0.018, 0.965, 0.018], atol=1e-3), "the answer is nearly tom"

# %% [markdown] tags=["answer"]
# 2 %. In the ratio of the scores it would be none. But the shares are in the ratio of their
# exponentials, and $e^0$ is 1; $e^4$ is 55 times as much. So the answer is tom, nearly alone, but
# every key has a part in it: there is a gradient to follow.

# %% tags=["hide-input"]
from minigpt import plot

soft = plot.Diagram(10, 4.2)
query = soft.grid(1, 2, [soft_query], "query: who has milk?", "tab:red", cell=0.6)
result = soft.grid(8.6, 2, [soft_answer.round(2)], "answer", "tab:green", cell=0.6)
rows = zip(("tea", "milk", "fish"), ("mia", "tom", "ann"), (3.5, 2, 0.5), strict=True)
for i, (thing, person, y) in enumerate(rows):
    key = soft.grid(3.8, y, [soft_keys[i]], f"key: {thing}", "tab:red", cell=0.6)
    value = soft.grid(6.2, y, [soft_values[i]], f"value: {person}", "tab:green", cell=0.6)
    soft.arrow((query.x + 0.65, 2), (key.x - 0.65, y))
    soft.text(2.45, 2 + 0.62 * (y - 2) + (0.25 if y >= 2 else -0.25), f"{soft_scores[i]:.0f}")
    soft.text(4.85, y, f"{soft_shares[i]:.2f}", "tab:blue")
    soft.arrow((value.x + 0.95, y), (result.x - 0.95, 2))
soft.text(2.45, 4, "score")
soft.text(4.85, 4, "share", "tab:blue")
plot.save(soft.figure, "03_soft_dictionary.png")

# %% [markdown]
# That is attention: **a dictionary with a gradient.** A longer query gives larger scores, and so a
# clearer decision. In a text each position has three vectors:
#
# - its *query*: what it looks for,
# - its *key*: by which others find it,
# - its *value*: what they receive from it.
#
# All three are linear maps of the position's own vector, and their weights are learned (section 6).
# For now they are given.

# %% [markdown]
# ## 2. Forward: two loops, then matrices
#
# One text of T = 5 positions, and vectors of size D = 4. Position t compares its query with the
# keys of all positions s up to itself. It must not see later ones: the model is to predict the
# next word, and that word is at a later position. The score is divided by sqrt(D); section 4
# gives the reason.

# %%
import math

T, D = 5, 4
SCALE = 1 / math.sqrt(D)
MASK = np.tril(np.ones((T, T), bool))  # MASK[t, s]: may position t see position s?


def attention_by_loops(q, k, v):
    out = np.zeros((T, D))
    for t in range(T):
        scores = np.array([q[t] @ k[s] * SCALE for s in range(t + 1)])
        shares = softmax(scores)
        for s in range(t + 1):
            out[t] += shares[s] * v[s]
    return out


q, k, v = np.random.default_rng(0).normal(size=(3, T, D))
print("out, one row for each position\n", attention_by_loops(q, k, v).round(2))

# %% [markdown]
# Now the same for all t at once, with one operation a line. All T x T scores are computed, also
# those of later positions. Then the *mask* puts minus infinity in their places, and exp(-inf) = 0.
# Softmax is written out in three lines, because the backward pass has a line for each of them.

# %%
from minigpt.learn import lines


def forward(q, k, v):
    product = q @ k.T
    scaled = product * SCALE
    s = np.where(MASK, scaled, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    z = e.sum(axis=-1, keepdims=True)
    p = e / z
    out = p @ v
    return out


seen = lines.run(forward, q, k, v)
assert np.allclose(seen.out, attention_by_loops(q, k, v), rtol=0, atol=1e-14), "both agree"
assert not seen.p[~MASK].any(), "no share goes to a later position"

# %% tags=["hide-input"]
masking = plot.Diagram(10.2, 3.5)
hidden = [["-inf" if np.isinf(score) else f"{score:.1f}" for score in row] for row in seen.s]
masking.grid(1.5, 1.55, seen.scaled.round(1), "scaled scores", "tab:red", cell=0.55)
masking.grid(5.1, 1.55, hidden, "with the mask: s", "tab:red", cell=0.55)
masking.grid(8.7, 1.55, seen.p.round(2), "shares: p", cell=0.55)
masking.arrow((2.95, 1.55), (3.65, 1.55), "mask")
masking.arrow((6.55, 1.55), (7.25, 1.55), "softmax")
plot.save(masking.figure, "03_mask.png")

# %% [markdown]
# Read p, at the right, row by row: row t shows how position t divides its attention, and adds up
# to 1. Position 0 sees only itself, so its share is 1.
#
# **Why mask before the softmax?** It would be simpler to set the shares of later positions to 0
# afterwards. Then their values are gone, but their exp are still in the denominator z, so
# information about later words leaks into earlier outputs. In training, a model could learn to use
# this leak; when it writes a text, there are no later words, and the leak is missing. Minus
# infinity removes later positions from the numerator *and* from the denominator. Section 5 shows
# the leak.

# %% [markdown] tags=["deeper"]
# ### Places
#
# **Attention does not know the order of words.** A score depends on two vectors, not on where they
# are. Below, every word is its own query, key and value. The last position reads "tom sees mia ."
# and then "mia sees tom .". Then we add a vector to each position that says which place it is.

# %%
def last_output(text, with_places):
    """What the last position of a text receives: (8,)"""
    rng = np.random.default_rng(3)
    vectors = {word: 0.7 * rng.normal(size=8) for word in ("mia", "tom", "sees", ".")}
    places = 0.7 * rng.normal(size=(4, 8))
    x = np.array([vectors[word] for word in text.split()])
    x = x + places if with_places else x
    return (softmax(x @ x.T / math.sqrt(8)) @ x)[-1]


TEXTS = ("tom sees mia .", "mia sees tom .")
figure, panels = plot.plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axes, with_places in zip(panels, (False, True), strict=True):
    outs = [last_output(text, with_places) for text in TEXTS]
    for i, (text, out) in enumerate(zip(TEXTS, outs, strict=True)):
        axes.bar(np.arange(8) + 0.4 * i - 0.2, out, 0.4, label=text)
    axes.set(title="with places" if with_places else "words only")
    axes.set(xlabel="the 8 numbers that the last position receives")
    far = np.abs(outs[0] - outs[1]).max()
    print(f"{'with places' if with_places else 'words only':11}: the outputs differ by {far:.1e}")
    assert far > 0.1 if with_places else far < 1e-14, "order is seen only with places"
panels[0].legend()
plot.save(figure, "03_order.png")

# %% [markdown]
# On the left both texts give the same output. The order of keys does not matter, as long as each
# value moves with its key: the sum over s has the same terms. On the right the outputs differ.
# GPT-1 adds a learned vector for each place to the vector of each word (equation 2); without it,
# the last position of one layer would see a *bag* of words: which ones, and how often. (With a
# causal mask a second layer can do better: after the first one, "sees" has mixed in only what
# came before it, tom in one text and mia in the other.) So one layer needs places because a sum has
# no order, not because attention looks both ways.
#
# One more thing follows from the formula: queries and keys may come from two different texts, T
# queries and S keys, with S different from T. That is *cross-attention*. GPT does not need it: here
# both come from the same text (*self-attention*), so S = T.

# %% [markdown]
# ## 3. Backward
#
# As in lesson 00, `dv` is the gradient of the loss with respect to `v`, and has its shape. `dout`
# is the upstream gradient: it comes from the operation that uses `out`. Each line below belongs
# to the forward line that is above it as a comment. `kept.p` is the value of p in the forward
# pass.
#
# The last forward line is out = p @ v: position t receives p[t,s] times v[s], added up over s. On
# the way back, each v[s] collects from all the positions that have looked at it.
#
# **Your turn:** write the gradient of v.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

dout_here = np.random.default_rng(2).normal(size=(T, D))


def your_dv(dout, p):
    return ...  # out = p @ v


true_dv = numeric(lambda values: seen.p @ values, v, dout_here)
gap.judge(your_dv, dout_here, seen.p, expected=true_dv)

# %% [markdown] tags=["answer"]
# `p.T @ dout`: v[s] gets dout[t] with the share p[t,s], added up over t. The sum goes over the
# first index of p, so p is transposed (lesson 01).

# %%
def backward(dout, kept):
    # out = p @ v: out[t] = sum_s p[t,s] v[s]
    dp = dout @ kept.v.T  # dp[t,s] = dout[t] . v[s]
    dv = kept.p.T @ dout  # v[s] was used by every t, with the share p[t,s]
    # p = e / z
    de = dp / kept.z
    dz = -(dp * kept.e / kept.z**2).sum(axis=-1, keepdims=True)  # one z for the whole row
    # z = e.sum(axis=-1, keepdims=True): the second use of e
    de = de + dz
    # e = exp(s - largest): the largest cancels in p, so no gradient passes through it
    ds = de * kept.e
    # s = where(mask, scaled, -inf)
    dscaled = np.where(MASK, ds, 0)
    # scaled = product * scale
    dproduct = dscaled * SCALE
    # product = q @ k.T
    dq = dproduct @ kept.k  # q[t] was multiplied with every k[s]
    dk = dproduct.T @ kept.q  # k[s] was multiplied with every q[t]
    return dq, dk, dv


results = lines.check(forward, backward, q, k, v)
assert all(result.word == "happy" for result in results), "each line of the backward pass is right"

# %% [markdown]
# Every gradient agrees with finite differences. The mask's line changes nothing: where it hides a
# key, e is 0, so ds is already 0 there.

# %% [markdown]
# ## 4. Collapse
#
# **Four lines become one.** Put de and dz of section 3 into ds, and write p for e / z. This is
# entry j of one row; the sums go along the row:
#
# $$
# \mathrm{ds}_j = e_j\left(\frac{\mathrm{dp}_j}{z} - \sum_i \frac{\mathrm{dp}_i\, e_i}{z^2}\right)
# = p_j\left(\mathrm{dp}_j - \sum_i p_i\, \mathrm{dp}_i\right)
# $$
#
# In words: **a score's gradient is its share times (its dp minus the row's weighted mean of dp).**
# dp[t,s] says what the loss gains or loses when t takes more of value s. Only the difference from
# the mean matters, because the shares add up to 1: more for one key is less for the others.

# %%
def softmax_backward(dp, p):
    """dp (*,N), p (*,N) -> ds (*,N)"""
    mean = (p * dp).sum(axis=-1, keepdims=True)
    return p * (dp - mean)


dout = np.random.default_rng(3).normal(size=(T, D))
dp = dout @ v.T
row_means = (seen.p * dp).sum(axis=-1)
print("weighted mean of dp, row by row:", row_means.round(3))
ds = softmax_backward(dp, seen.p)
long_way = seen.e * (dp / seen.z - (dp * seen.e / seen.z**2).sum(axis=-1, keepdims=True))
assert np.allclose(ds, long_way, rtol=0, atol=1e-14), "the four lines and the one agree"
assert np.allclose(ds.sum(axis=-1), 0, rtol=0, atol=1e-14), "each row of ds adds up to 0"
assert not ds[~MASK].any(), "where the mask hides a key, ds is 0 without the mask's line"

# %% [markdown]
# **The surprise.** The weighted mean is a sum over all keys of the row. Write dp out, and exchange
# the two sums:
#
# $$
# \sum_s p_{ts}\, \mathrm{dp}_{ts} = \sum_s p_{ts}\,(\mathrm{dout}_t \cdot v_s)
# = \mathrm{dout}_t \cdot \sum_s p_{ts}\, v_s = \mathrm{dout}_t \cdot \mathrm{out}_t
# $$
#
# So the mean over all keys can be found without any key: position t's own output and its upstream
# gradient are enough. In GPT-1 this is a sum of 64 products in place of up to 512.

# %%
from_output = (dout * seen.out).sum(axis=-1)
print("dout . out,                row by row:", from_output.round(3))
assert np.allclose(from_output, row_means, rtol=0, atol=1e-14), "the mean needs no key"

# %% [markdown]
# It is more than a short cut. FlashAttention uses it: the backward pass can take the keys
# block by block, compute each block of p again, and never store anything of size T x T (lesson 18).

# %% [markdown] tags=["deeper"]
# ### The Jacobian of softmax, again
#
# Lesson 00 found the same from the Jacobian of softmax, the table of all its derivatives:
#
# $$
# \frac{\partial p_i}{\partial s_j} = p_i\,(1_{i=j} - p_j)
# $$
#
# where 1 with the index i=j is 1 if i is j, and else 0. A larger score raises its own share, at the
# rate p (1 - p), and lowers all others. Each row of the table adds up to 0: if all scores rise
# together, no share changes. (Lesson 04 meets this again.) We never build the table: for T = 512 it
# would have 512 x 512 numbers for each of 512 rows.

# %% [markdown] tags=["deeper"]
# ### Why divide by sqrt(D)?
#
# Take queries and keys with independent entries of mean 0, each with
# variance 1. The product of two entries has mean 0 and variance 1 · 1 = 1, and variances of
# independent terms add: a dot product has the variance D. For D = 64, as in GPT-1, its standard
# deviation is sqrt(64) = 8. So two scores often differ by 8, and then one share is e^8 or about
# 3,000 times the other. (GPT-1 begins with smaller scores, because its weights begin small: lesson
# 08.) The division gives the scores variance 1 for every D.
#
# What is that good for? We measure it with 500 queries, each with 8, 64 or 512 keys. A row of
# shares p looks at $e^H$ keys, where $H = -\sum_i p_i \ln p_i$: at n keys if it gives 1/n to each
# of n, and at 1 if it gives all to one. This is the perplexity of lesson 02, for shares.

# %%
def row_medians(scores, dp):
    """scores, dp (20,25,keys) -> the keys that a row looks at, and the length of its ds: medians"""
    p = softmax(scores)
    ds = softmax_backward(dp, p)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1)
    return np.median(np.exp(entropy)), np.median(np.linalg.norm(ds, axis=-1))


print("a row of 8 equal scores looks at", row_medians(np.zeros((20, 25, 8)), 0)[0].round(3), "keys")
for length in (1, 4, 8):
    print(f"a query of length {length}: tom's share {softmax(soft_keys @ [0, length])[1]:.3f}")

# %%
SIZES, KEYS = (16, 64, 256, 1024), (8, 64, 512)
raw_rows, scaled_rows = {}, {}
print("               keys looked at        length of ds")
print("keys     D     raw   divided         raw   divided")
for n_keys in KEYS:
    for size in SIZES:
        rng = np.random.default_rng(4)  # 20 texts of n_keys keys, and 25 queries in each
        raw = rng.normal(size=(20, 25, size)) @ rng.normal(size=(20, size, n_keys))
        dp = rng.normal(size=raw.shape)
        raw_rows[n_keys, size] = row_medians(raw, dp)
        scaled_rows[n_keys, size] = row_medians(raw / math.sqrt(size), dp)
        (look, ds), (wide, wide_ds) = raw_rows[n_keys, size], scaled_rows[n_keys, size]
        print(f"{n_keys:4}  {size:4}  {look:6.1f}  {wide:8.1f}     {ds:7.4f}  {wide_ds:8.4f}")
        assert abs(raw.var() / size - 1) < 0.1, "the variance of a dot product is D"

# %%
figure, panels = plot.plt.subplots(1, 2, figsize=(10, 4))
for n_keys, color in zip(KEYS, ("tab:blue", "tab:orange", "tab:green"), strict=True):
    for panel, which in zip(panels, (0, 1), strict=True):
        scaled = [scaled_rows[n_keys, size][which] for size in SIZES]
        raw = [raw_rows[n_keys, size][which] for size in SIZES]
        panel.plot(SIZES, scaled, "o-", color=color, label=f"{n_keys} keys")
        panel.plot(SIZES, raw, "x--", color=color)
        panel.set_xscale("log", base=2)
        panel.set_xticks(SIZES, SIZES)
        panel.set_xlabel("D, the size of queries and keys")
panels[0].set(yscale="log", ylabel="keys", title="at how many keys a row looks (dashed: raw)")
panels[1].set(ylim=(0, 0.45), title="the length of a row's ds (dashed: raw)")
panels[1].legend(ncols=3, loc="upper center")
plot.save(figure, "03_scale.png")
for n_keys in KEYS:
    looks, lengths = zip(*(scaled_rows[n_keys, size] for size in SIZES), strict=True)
    assert max(looks) < 1.2 * min(looks) and max(lengths) < 1.2 * min(lengths), "D has no effect"
    looks, length = raw_rows[n_keys, 1024]
    assert looks < 1.1 and length < 0.01, "D = 1024, raw: one key, and almost no gradient"
assert raw_rows[8, 64][1] < scaled_rows[8, 64][1] / 3, "8 keys, D = 64: raw, ds is shorter"
assert raw_rows[512, 64][1] > 1.5 * scaled_rows[512, 64][1], "512 keys: raw, ds is longer"

# %% [markdown]
# **Divided scores look at most of the keys, for every D. Raw scores look at fewer and fewer.** At
# GPT-1's size (D = 64, 512 keys) a raw row looks at 2 keys, a divided one at 314. The queries and
# keys are the same, so the division is the cause. A guess: a new model, which does not know yet
# which keys matter, does well to begin broad. No model is trained here to test this.
#
# At D = 1024, a raw row gives nearly 100 % to one key. Such a row is called *saturated*, and it
# gets almost no gradient. The formula, ds = p (dp - mean), says why. For the key with the share 1,
# the weighted mean is its own dp, and the difference is 0. For all others the factor p is 0.
#
# But "without the division, the gradient gets lost" is not the whole story. For 8 keys at D = 64
# the raw ds has a twelfth of the length. With 512 keys at D = 64, it is twice as *long* as the
# divided one: by its factor p it goes to the few keys that are looked at, and each gets much. With
# 8 keys alone we would have missed this.

# %% [markdown] tags=["deeper"]
# ### Attention as two functions
#
# **The whole of attention** is then two short functions. The star in `(*,T,D)` means any leading
# axes, such as a batch: `@` works on the last two.

# %%
def attention_forward(q, k, v, mask):
    """q (*,T,D), k (*,S,D), v (*,S,D), mask (T,S) -> out (*,T,D)"""
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = np.where(mask, s, -np.inf)
    p = softmax(s)
    out = p @ v
    return out, (q, k, v, p, out)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)"""
    q, k, v, p, out = cache
    # out = p @ v
    dp = dout @ v.swapaxes(-1, -2)
    dv = p.swapaxes(-1, -2) @ dout
    # p = softmax(s), with the surprise
    ds = p * (dp - (dout * out).sum(axis=-1, keepdims=True))
    # s = q @ k^T / sqrt(D)
    ds = ds / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.swapaxes(-1, -2) @ q
    return dq, dk, dv


print("out", attention_forward(q, k, v, MASK)[0].shape)

# %% [markdown] tags=["deeper"]
# ## 5. Check, and a mistake that a gradient check cannot see
#
# First the check: self-attention, and cross-attention of 3 queries to 7 keys with a batch axis.

# %%
from minigpt import gradcheck


def cross_example():
    rng = np.random.default_rng(5)
    return [rng.normal(size=(2, length, D)) for length in (3, 7, 7)]


all_results = gradcheck.check(attention_forward, attention_backward, (q, k, v), {"mask": MASK})
seven_keys = {"mask": np.ones((3, 7), bool)}
all_results += gradcheck.check(attention_forward, attention_backward, cross_example(), seven_keys)
print("relative errors: self-attention, then cross-attention with a batch axis")
print(gradcheck.table(all_results))
assert all(result.error < 1e-8 for result in all_results), "both are right"

# %% [markdown]
# Now the trap. Here is the leaking attention of section 2 (mask *after* the softmax), with its
# correct backward pass. What does the check say?

# %%
def leaky_forward(q, k, v):
    """q (T,D), k (T,D), v (T,D) -> out (T,D)"""
    p = softmax(q @ k.T * SCALE)
    return (p * MASK) @ v, (q, k, v, p)


def leaky_backward(dout, cache):
    """dout (T,D) -> dq (T,D), dk (T,D), dv (T,D)"""
    q, k, v, p = cache
    dv = (p * MASK).T @ dout
    ds = softmax_backward(dout @ v.T * MASK, p) * SCALE
    return ds @ k, ds.T @ q, dv


leaky_results = gradcheck.check(leaky_forward, leaky_backward, (q, k, v))
print("relative errors of the leaking attention")
print(gradcheck.table(leaky_results))
assert all(result.word == "happy" for result in leaky_results), "the check does not see the leak"

# %% [markdown]
# All happy. A gradient check compares a backward pass with *its own* forward pass. It cannot know
# that the forward pass is not what we wanted. But the gradient itself shows the leak: let only
# output 1 have an upstream gradient. Then no later key may get a gradient.

# %%
only_one = np.zeros((T, D))
only_one[1] = 1.0
leaks = leaky_backward(only_one, leaky_forward(q, k, v)[1])[1]
clean = attention_backward(only_one, attention_forward(q, k, v, MASK)[1])[1]
print("largest |dk| at positions 0 to 4, when only output 1 has an upstream gradient")
print("  masked after ", np.abs(leaks).max(axis=-1).round(3))
print("  masked before", np.abs(clean).max(axis=-1).round(3))
assert np.abs(leaks[2:]).max() > 0.01, "the leak: later keys get a gradient"
assert not clean[2:].any(), "no leak: later keys get none"

# %% [markdown] tags=["deeper"]
# ## 6. See it: who has milk?
#
# In section 1 we built the dictionary by hand. Can gradients build it? In each story, three of six
# people have three of six things. The last sentence names one of the things, and the model must
# say whose it is. The loss looks only at this last position. **In training, tom never has milk**:
# so the pair cannot be learned by heart.

# %%
PEOPLE = ["mia", "tom", "ann", "ben", "eva", "sam"]
THINGS = ["tea", "milk", "fish", "rice", "soup", "bread"]
WORDS = [*PEOPLE, *THINGS, "has", ".", "who"]
TOM, MILK = WORDS.index("tom"), WORDS.index("milk")
FRAME = "mia has tea . mia has tea . mia has tea . who has tea"


def read(text):
    return np.array([WORDS.index(word) for word in text.split()])


def make_stories(rng, n):
    """n stories (n,15), the answers (n,), and in which of them tom has milk (n,)"""
    six = np.tile(np.arange(6), (n, 1))
    people = rng.permuted(six, axis=1)[:, :3]  # of each row's six, three
    things = 6 + rng.permuted(six, axis=1)[:, :3]
    row, which = np.arange(n), rng.integers(3, size=n)  # the question is about this thing
    ids = np.tile(read(FRAME), (n, 1))
    ids[:, [0, 4, 8]], ids[:, [2, 6, 10]] = people, things  # their places in FRAME
    ids[:, 14] = things[row, which]
    return ids, people[row, which], ((people == TOM) & (things == MILK)).any(axis=1)


for story, person, _ in zip(*make_stories(np.random.default_rng(0), 3), strict=True):
    print(" ".join(WORDS[i] for i in story), "->", WORDS[person])

# %% [markdown]
# The model: a vector for each word and one for each place, then two layers of our attention. In
# each layer three matrices make queries, keys and values from the same x. What a position finds
# is *added* to what it is (lesson 07 is about this plus). At the end, the vector of the last
# position is multiplied, by a dot product, with the vector of every word (GPT-1, equation 2);
# `ops.linear` is lesson 01.

# %%
from minigpt import ops

WIDTH, CAUSAL = 64, np.tril(np.ones((15, 15), bool))


def layer_forward(x, matrices):
    """x (n,15,C), three matrices (C,C) -> x + what attention found (n,15,C)"""
    (q, cq), (k, ck), (v, cv) = (ops.linear_forward(x, w) for w in matrices)
    found, attention = attention_forward(q, k, v, CAUSAL)
    return x + found, (cq, ck, cv, attention)


def layer_backward(dout, cache):
    """dout (n,15,C) -> dx (n,15,C), and the gradients of the three matrices"""
    cq, ck, cv, attention = cache
    dq, dk, dv = attention_backward(dout, attention)
    x_of_q, dw_q, _ = ops.linear_backward(dq, cq)
    x_of_k, dw_k, _ = ops.linear_backward(dk, ck)
    x_of_v, dw_v, _ = ops.linear_backward(dv, cv)
    # x has four uses: in the sum, and in three products
    return dout + x_of_q + x_of_k + x_of_v, np.array([dw_q, dw_k, dw_v])


print("one layer has", 3 * WIDTH * WIDTH, "weights")

# %%
def model_forward(weights, ids):
    """ids (n,15) -> logits (n,V)"""
    x = weights["words"][ids] + weights["places"]
    x, layer_1 = layer_forward(x, weights["layer 1"])
    x, layer_2 = layer_forward(x, weights["layer 2"])
    return x[:, -1] @ weights["words"].T, (ids, x, layer_1, layer_2)


def loss_and_gradients(weights, ids, answers):
    logits, (_, x, layer_1, layer_2) = model_forward(weights, ids)
    loss, cache = ops.cross_entropy_forward(logits, answers)  # lesson 02
    dlogits = ops.cross_entropy_backward(1.0, cache)
    # logits = x[:, -1] @ words^T
    gradients = {"words": dlogits.T @ x[:, -1]}
    dx = np.zeros_like(x)
    dx[:, -1] = dlogits @ weights["words"]
    dx, gradients["layer 2"] = layer_backward(dx, layer_2)
    dx, gradients["layer 1"] = layer_backward(dx, layer_1)
    # x = words[ids] + places
    np.add.at(gradients["words"], ids, dx)
    gradients["places"] = dx.sum(axis=0)
    return loss, gradients


print(f"a model that guesses among 15 words has the loss ln 15 = {math.log(15):.2f}")

# %% [markdown]
# Is the gradient of the whole model right? Move all weights along one random direction. The slope
# of the loss along this direction must be sum(gradient * direction).

# %%
def new_weights(rng):
    weights = {name: 0.3 * rng.normal(size=(15, WIDTH)) for name in ("words", "places")}
    # divided by sqrt(C), a product with a matrix has the size of its input (the rule of section 4)
    for name in ("layer 1", "layer 2"):
        weights[name] = rng.normal(size=(3, WIDTH, WIDTH)) / math.sqrt(WIDTH)
    return weights


def slope_error(eps=1e-5):
    rng = np.random.default_rng(6)
    weights = new_weights(rng)
    ids, answers, _ = make_stories(rng, 9)
    direction = {name: rng.normal(size=weight.shape) for name, weight in weights.items()}
    _, gradients = loss_and_gradients(weights, ids, answers)
    slope = sum((gradients[name] * direction[name]).sum() for name in weights)
    up, down = ({name: w + e * direction[name] for name, w in weights.items()} for e in (eps, -eps))
    rise = loss_and_gradients(up, ids, answers)[0] - loss_and_gradients(down, ids, answers)[0]
    return abs(rise / (2 * eps) / slope - 1)


print(f"relative error of the slope: {slope_error():.0e}")
assert slope_error() < 1e-6, "the gradient of the whole model is right"

# %% [markdown]
# It is. Now the model learns: 400 steps of about 30 stories each. (Its first logits are large, so
# the first loss is above ln 15.) How weights are moved is the subject of lesson 09, so we take
# its rule, Adam, from the library: it moves each weight against its gradient, by about the same
# length for all, at a rate that falls to 0.

# %%
from minigpt.nn import Parameter, optim


def train(seed, steps=400, rate=7e-3):
    """A trained model, and its loss at every step"""
    rng = np.random.default_rng(seed)
    weights, losses = new_weights(rng), []
    parameters = {name: Parameter(w) for name, w in weights.items()}
    optimizer = optim.AdamW(parameters.items(), betas=(0.9, 0.99), weight_decay=0)
    for step in range(1, steps + 1):
        ids, answers, toms_milk = make_stories(rng, 32)
        loss, grads = loss_and_gradients(weights, ids[~toms_milk], answers[~toms_milk])
        losses.append(float(loss))
        for name, g in grads.items():
            parameters[name].grad = g
        optimizer.step(rate * (1 - step / steps))  # it changes the arrays of `weights` in place
    return weights, losses


trained, losses = train(seed=1)
for step in (1, 25, 50, 75, 100, 400):
    print(f"step {step:3}: loss {losses[step - 1]:.3f}")

# %%
def share_right(weights, ids, answers):
    return (model_forward(weights, ids)[0].argmax(axis=-1) == answers).mean()


def exam(weights):
    """Right answers to ordinary new stories, and to questions for tom's milk"""
    ids, answers, toms_milk = make_stories(np.random.default_rng(7), 20_000)
    about_it = toms_milk & (ids[:, -1] == MILK)
    ordinary = share_right(weights, ids[~toms_milk][:2000], answers[~toms_milk][:2000])
    return ordinary, share_right(weights, ids[about_it], answers[about_it]), about_it.sum()


untrained = exam(new_weights(np.random.default_rng(1)))
ordinary, unseen, n_unseen = exam(trained)
print("right answers          2,000 new stories   tom has milk, never in training")
print(f"untrained              {untrained[0]:17.1%}   {untrained[1]:.1%}")
print(f"one of the three named {1 / 3:17.1%}   {1 / 3:.1%}")
print(f"trained                {ordinary:17.1%}   {unseen:.1%} of {n_unseen} questions")
assert untrained[0] < 0.1 and ordinary > 0.99, "it learned to answer"
assert unseen > 0.95, "it answers what it has never seen: it reads the story"

# %% [markdown]
# It reads this pair from the story, for it cannot remember it. That is one pair, in stories of
# one form. Would it read other forms too? This exam does not say. We can see how it does it: the
# shares p of both layers are in the caches. The question is tom's milk.

# %%
STORY = "mia has tea . tom has milk . ann has fish . who has milk"
story_words, COLORS = STORY.split(), {1: "tab:blue", 2: "#d95f02"}
story_logits, (_, _, *story_layers) = model_forward(trained, read(STORY)[None])
story_p = {i + 1: cache[-1][3][0] for i, cache in enumerate(story_layers)}  # p, (15, 15)
story_guess = WORDS[story_logits[0].argmax()]
sure = softmax(story_logits[0]).max()
PATH = {1: {2: 0, 6: 4, 10: 8}, 2: {14: 6}}  # the looks that carry the answer: row to column
print(f"{STORY} -> {story_guess}, probability {sure:.4f}")
for layer, path in PATH.items():
    for row, column in path.items():
        share = story_p[layer][row, column]
        print(f"layer {layer}: {story_words[row]:5} gives {share:.0%} to {story_words[column]}")
        assert share > 0.5, "this look carries the answer"
assert story_guess == "tom", "the answer is right"
new_layer_1 = model_forward(trained, make_stories(np.random.default_rng(9), 200)[0])[1][2]
to_owner = new_layer_1[-1][3][:, [2, 6, 10], [0, 4, 8]].mean()
print(f"200 new stories, layer 1: a thing gives {to_owner:.0%} to its owner, on average")
assert to_owner > 0.5, "each thing looks at its owner"

# %%
def draw_path(axes):
    """The words, and an arrow for each look that carries the answer."""
    axes.set(xlim=(-0.7, 17.3), ylim=(-1.3, 4.9))
    axes.axis("off")
    for place, word in enumerate(story_words):
        weight = "bold" if place in (4, 6, 14) else "normal"
        axes.text(place, 0, word, ha="center", va="center", size=15, weight=weight)
    axes.annotate("", (15.7, 0), (14.7, 0), arrowprops={"arrowstyle": "->"})
    green = {"ha": "center", "va": "center", "color": "tab:green"}
    axes.text(16.4, 0, story_guess, size=15, weight="bold", **green)
    axes.text(16.1, -1.0, f"probability {sure:.4f}", **green)
    axes.text(-0.5, 2.1, "first, in layer 1: each\nthing looks at its owner", color=COLORS[1])
    axes.text(10, 4, 'then, in layer 2: "milk" looks at "milk"', color=COLORS[2], ha="center")
    for layer, path in PATH.items():
        for row, column in path.items():
            arrow = {"arrowstyle": "-|>", "color": COLORS[layer], "mutation_scale": 18}
            arrow |= {"lw": 4 * story_p[layer][row, column], "shrinkA": 0, "shrinkB": 0}
            arrow["connectionstyle"] = "arc3,rad=0.45"
            axes.annotate("", (column + 0.1, 0.5), (row - 0.1, 0.5), arrowprops=arrow)


print("arrows from row to column:", PATH)

# %%
def draw_shares(axes, layer, cmap):
    """The shares of a layer: a row for each word that looks."""
    axes.imshow(np.where(CAUSAL, story_p[layer], np.nan), cmap=cmap, vmin=0, vmax=1)
    axes.set(facecolor="0.93", title=f"layer {layer}: shares p (darkest: 100 %)")
    axes.set(xlabel="the word that is looked at", ylabel="the word that looks")
    axes.grid(False)
    axes.set_xticks(range(15), story_words, rotation=90)
    axes.set_yticks(range(15), story_words)
    axes.text(9.8, 3.2, "later words,\nhidden by the mask", ha="center", color="0.4")
    for row, column in PATH[layer].items():
        number = f"{story_p[layer][row, column]:.0%}"
        axes.text(column, row, number, ha="center", va="center", color="white", size=9)
        for label in (axes.get_yticklabels()[row], axes.get_xticklabels()[column]):
            label.set(color=COLORS[layer], weight="bold")


figure = plot.plt.figure(figsize=(12, 9))
layout = figure.add_gridspec(2, 2, height_ratios=[1, 2.4])
draw_path(figure.add_subplot(layout[0, :]))
draw_shares(figure.add_subplot(layout[1, 0]), 1, "Blues")
draw_shares(figure.add_subplot(layout[1, 1]), 2, "Oranges")
plot.save(figure, "03_attention.png")

# %% [markdown]
# Look at the coloured rows. In layer 1, every thing looks at the person who has it, and adds that
# person's value to its own vector, in other stories too. (It can find the person by
# place alone: the owner is always two places before the thing.) In layer 2, the last "milk"
# looks at the first "milk", which by now carries "tom". We gave the model no such two steps: the
# gradients found them. (Only the last row of layer 2 reaches the answer. The other rows there
# have no effect on the loss.)
#
# Does the picture show the cause? We intervene: we forbid one look, and change nothing else. We do
# this in both layers, for every look that the mask allows (but position 0 keeps its only look).

# %%
def answer_without(layer, row, column):
    """The answer to STORY when one look is forbidden, with its probability"""
    x = trained["words"][read(STORY)] + trained["places"]
    for i in (1, 2):
        mask = CAUSAL.copy()
        if i == layer:
            mask[row, column] = False
        q, k, v = (x @ w for w in trained[f"layer {i}"])
        x = x + attention_forward(q, k, v, mask)[0]
    shares = softmax(x[-1] @ trained["words"].T)
    return WORDS[shares.argmax()], shares[TOM]


rows_and_columns = [(row, column) for row in range(1, 15) for column in range(row + 1)]
looks = [(layer, *look) for layer in (1, 2) for look in rows_and_columns]
of_look = {look: answer_without(*look) for look in looks}
print("forbidden look                        answer   probability of tom")
needed = [look for look, (_, of_tom) in of_look.items() if of_tom < 0.9]
for layer, row, column in ((2, 14, 6), (1, 6, 4), (1, 2, 0), (1, 10, 8)):
    said, of_tom = of_look[layer, row, column]
    look = f"{story_words[row]} ({row}) to {story_words[column]} ({column})"
    print(f"layer {layer}: {look:28} {said:8} {of_tom:.4f}")
print(f"{len(needed)} looks are needed; without any one of the other {len(looks) - 2} it stays tom")
assert sorted(needed) == [(1, 6, 4), (2, 14, 6)], "exactly the two looks on the way to tom"

# %% [markdown]
# Was it luck? `benchmarks/controls.py` has run `exam(train(seed)[0])` for the seeds 0 to 19. Every
# model answers all 2,000 new stories. For tom's milk, 17 of the 20 make no mistake; the worst
# answers 99.3 % right.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# The table has the pair as `attention`, with any mask. These are its lines for the softmax:
#
#     # minigpt/ops/reference/attention.py
#     average = (p * dp).sum(axis=-1, keepdims=True)
#     ds = p * (dp - average)
#     ...
#     dq = ds @ k
#     dq = dq * scale
#     dk = transposed(ds) @ q
#
# `ops.ledger` says how many bytes are kept between forward and backward:

# %%
def costs(t, d):
    """Megabytes that one head keeps for a text of t positions, in float32"""
    one = np.random.default_rng(8).standard_normal((3, t, d), dtype=np.float32)
    with ops.using("reference"):
        _, cache = ops.attention_forward(*one)
    return {name.split(".")[-1]: size / 1e6 for name, size in ops.ledger(cache).items()}


their_out, their_cache = ops.attention_forward(q, k, v)  # without a mask it is causal
theirs = ops.attention_backward(dout, their_cache)
ours = attention_backward(dout, attention_forward(q, k, v, MASK)[1])
assert np.allclose(their_out, seen.out, rtol=0, atol=1e-14), "the library's forward is ours"
assert np.allclose(theirs[:3], ours, rtol=0, atol=1e-14), "the library's backward is ours"
print("one head of GPT-1, D = 64, megabytes kept")
for t in (128, 256, 512):
    one_cost = costs(t, 64)
    print(f"  T = {t}: q, k and v {3 * one_cost['q']:.2f}   p {one_cost['p']:.2f}")
    assert (one_cost["p"] > 3 * one_cost["q"]) == (t > 192), "p is the larger above 192"

# %% [markdown]
# q, k and v have 3 T D numbers, p has T x T. Above T = 3 D = 192, p is the larger; with twice
# the context it has four times as many numbers. This is why the surprise matters. A backward pass
# need not keep p: it can take 64 keys, compute their p and their ds, and then take the next 64.
# For the ds of the first 64 it must know the mean over *all* 512; dout . out is this mean. (Lesson
# 18 does it, and draws it; see exercise 2.)

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - **The formula** is equation 1 of Vaswani et al.: softmax(Q K^T / sqrt(d_k)) V. Their footnote 4
#   gives the argument with the variance. GPT-1 has no formula of its own: "masked self-attention
#   heads" (section 4.1).
# - **Places.** The paper adds fixed sines and cosines (*sinusoidal*, section 3.5). GPT-1 learns a
#   vector for each of 512 places (section 4.1).
# - **Dropout.** In training, GPT-1 sets a tenth of the shares to 0 at random. The library does so
#   if it is given a `rate` and a `key` (lesson 07).
# - **The mask.** It is a *causal* mask. "Masked" language models (BERT) are another thing: they
#   cover words of the text (lesson 26).
# - **A hidden score.** The paper makes it minus infinity (section 3.2.3). OpenAI's GPT-1 code
#   replaces a score s by `s b - 1e9 (1 - b)`; b = 0 where it is hidden, and 1 elsewhere. Hugging
#   Face's port has 1e4 in place of 1e9. For scores of ordinary size softmax gives the same.
# - **A row that may see nothing.** With -1e9 all its scores are equal, and it looks evenly at all
#   forbidden positions. In our library it receives 0.

# %%
for large in (1e9, 1e4):
    same = softmax(seen.scaled * MASK - large * (1 - MASK))
    assert np.array_equal(same, seen.p), "softmax gives the same shares"
blind = MASK & (np.arange(T) != 2)[:, None]  # position 2 may see nothing
blind_shares = softmax(seen.scaled * blind - 1e9 * (1 - blind))[2]
blind_out = ops.attention_forward(q, k, v, mask=blind)[0][2]
print("a row that may see nothing\n  with -1e9: shares", blind_shares)
print("  in the library: output", blind_out)
assert np.array_equal(blind_shares, np.full(T, 1 / T)), "with -1e9 it looks everywhere"
assert not blind_out.any(), "in the library it receives 0"

# %% [markdown]
# ## 9. To keep
#
# - Attention is a dictionary with a gradient: a query times the keys gives scores, softmax makes
#   shares of them, and the answer is the values, mixed by their shares.
# - The mask puts minus infinity before the softmax, so that no position sees a later one.
# - The gradient of a score is its share times (its dp minus the weighted mean of dp), and this mean
#   is dout . out: no key is needed.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/03_attention.py`: attention that sees only the last few positions, with a learned
#    bias for each distance. Write its backward pass, line by line. Judge it:
#    `python lessons/exercises/03_attention.py`.
# 2. `exercises/03_find_the_bug.py`: an attention that keeps T numbers in place of p, and computes p
#    again in its backward pass. It is right as long as every query sees every key.
# 3. Leave layer 2 out of the model (one line in `model_forward`, one in `loss_and_gradients`), and
#    train. How many answers are right? Why is one look not enough?
# 4. All positions of a text have the *same* key. What are the shares, and which of dq, dk and dv
#    are 0 for every dout? Answer on paper, then measure.

# %%
largest_error = max(result.error for result in results)
print(f"lesson 03: every check is happy (worst relative error {largest_error:.0e})")
