# %% [markdown]
# # Lesson 08: GPT-1
#
# You will assemble GPT-1 out of the pieces of lessons 01 to 07, forward and backward, in about 60 lines, and show
# that it is the library's model: logits, loss, every gradient. You will find out where its 116,534,784 parameters
# live. And you will ask the full-size model, before it has learned anything, what comes next, and be surprised by the
# answer.
#
# Reading: 30 minutes. Running: 15 seconds (it builds the full-size model, which takes 0.5 GB of memory). Before it:
# lesson 07.
#
# Papers: Radford, Narasimhan, Salimans and Sutskever 2018 (GPT-1), section 3.1 with equations 1 and 2, and section
# 4.1. Press and Wolf 2017 (arXiv 1608.05859): one table for input and output.

# %% [markdown]
# ## 1. Why: three lines, and a number
#
# This is all that the paper says about the model (equation 2):
#
#     h_0  = U W_e + W_p                      a row of a table for each token, and one for each position
#     h_l  = transformer_block(h_(l-1))       12 times
#     P(u) = softmax(h_n W_e^T)               how alike are h and each token's row?
#
# You know every part. What is left is to put them together without losing a gradient. Start with the shapes: they say
# how large the thing is, before anything has been computed. The names are those of the published checkpoint.

# %%
import math

import numpy as np

from minigpt import ops
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way

BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")


def gpt1_shapes(V, T, C, n_layer):
    """Every array of a GPT-1 with V tokens, T positions, width C: {name: shape}"""
    maps = {"attn.c_attn": (C, 3 * C), "attn.c_proj": (C, C), "mlp.c_fc": (C, 4 * C), "mlp.c_proj": (4 * C, C)}
    shapes = {"tokens_embed.weight": (V, C), "positions_embed.weight": (T, C)}
    for i in range(n_layer):
        for part in BLOCK:
            shapes[f"h.{i}.{part}.weight"] = maps.get(part, (C,))
            shapes[f"h.{i}.{part}.bias"] = maps.get(part, (C,))[-1:]
    return shapes


paper = {name: math.prod(shape) for name, shape in gpt1_shapes(V=40478, T=512, C=768, n_layer=12).items()}
total = sum(paper.values())
print(f"GPT-1: {len(paper)} arrays, {total:,} numbers")
for part in ("tokens_embed", "positions_embed", ".attn.", ".mlp.", ".ln_"):
    count = sum(size for name, size in paper.items() if part in name)
    print(f"  {part.strip('.'):16} {count:12,}  {100 * count / total:4.1f} %")
assert total == 116_534_784 and len(paper) == 146

# %% [markdown]
# Half of GPT-1 is MLP, a quarter is attention, and a quarter is one table of words. The number "117M" that one reads
# is this total, rounded up. Now look at equation 2 again: the table `W_e` stands in it *twice*. It turns tokens into
# vectors at the bottom, and at the top it turns a vector into scores for tokens. A separate matrix there would cost
# 31 million more numbers, and the model would learn each word's meaning twice.

# %% [markdown]
# ## 2. Forward
#
# Weights are drawn from N(0, 0.02), biases are 0, gains are 1 (section 4.1). The block is lesson 07's, w its 12
# arrays.

# %%
def new_gpt1(V, T, C, n_layer, std=0.02, seed=0):
    rng, w = np.random.default_rng(seed), {}
    for name, shape in gpt1_shapes(V, T, C, n_layer).items():
        if len(shape) == 2:
            w[name] = std * rng.standard_normal(shape, dtype=np.float32)
        else:
            w[name] = np.full(shape, 1 if "ln_" in name and "weight" in name else 0, np.float32)
    return w


def block_forward(x, w, n_head, rate, key):
    keys = [key and key.fold(site) for site in range(3)]
    qkv, c1 = ops.linear_forward(x, w[0], w[1])
    heads, c2 = ops.self_attention_forward(qkv, n_head, rate=rate, key=keys[0])
    a, c3 = ops.linear_forward(heads, w[2], w[3])
    a, c4 = ops.dropout_forward(a, rate=rate, key=keys[1])
    n, c5 = ops.layernorm_forward(x + a, w[4], w[5])
    m, c6 = ops.mlp_forward(n, *w[6:10])
    m, c7 = ops.dropout_forward(m, rate=rate, key=keys[2])
    out, c8 = ops.layernorm_forward(n + m, w[10], w[11])
    return out, (c1, c2, c3, c4, c5, c6, c7, c8)


def names_of_block(i):
    return [f"h.{i}.{part}.{kind}" for part in BLOCK for kind in ("weight", "bias")]


def hidden_forward(w, ids, n_head, rate=0.0, key=None):
    """w: the arrays by name, ids (B,T) int -> h (B,T,C)"""
    e, c1 = ops.embedding_forward(w["tokens_embed.weight"], ids)
    p, c2 = ops.embedding_forward(w["positions_embed.weight"], np.arange(ids.shape[1]))
    h, c3 = ops.dropout_forward(e + p, rate=rate, key=key and key.fold(0))
    n_layer, caches = (len(w) - 2) // 12, []
    for i in range(n_layer):
        h, cache = block_forward(h, [w[name] for name in names_of_block(i)], n_head, rate, key and key.fold(i + 1))
        caches.append(cache)
    return h, (c1, c2, c3, caches)


def gpt1_forward(w, ids, targets, n_head, rate=0.0, key=None):
    """ids, targets (B,T) int -> loss (): the mean of -log P(target)"""
    h, c1 = hidden_forward(w, ids, n_head, rate, key)
    loss, c2 = ops.linear_cross_entropy_forward(h, w["tokens_embed.weight"], targets)
    return loss, (c1, c2)


# %% [markdown]
# ## 3. Backward
#
# The same lines in reverse. Three of them deserve a look. `e + p` is a sum, so both tables get the same message. The
# positions were used by every sequence of the batch, so they hear from all of them: a sum over B. And the table `W_e`
# was used at both ends, so two gradients arrive for it, and they **add**.

# %%
def block_backward(dout, cache):
    """dout (B,T,C) -> dx, and the 12 gradients in order"""
    c1, c2, c3, c4, c5, c6, c7, c8 = cache
    dn, *dln_2 = ops.layernorm_backward(dout, c8)
    dm, *dmlp = ops.mlp_backward(ops.dropout_backward(dn, c7), c6)
    dx, *dln_1 = ops.layernorm_backward(dn + dm, c5)
    dheads, *dproj = ops.linear_backward(ops.dropout_backward(dx, c4), c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    da, *dattn = ops.linear_backward(dqkv, c1)
    return dx + da, [*dattn, *dproj, *dln_1, *dmlp, *dln_2]


def hidden_backward(dh, cache):
    """dh (B,T,C) -> the gradients by name"""
    c1, c2, c3, caches = cache
    d = {}
    # h = block(h), n_layer times
    for i, block in reversed(list(enumerate(caches))):
        dh, gradients = block_backward(dh, block)
        d |= dict(zip(names_of_block(i), gradients, strict=True))
    # h = dropout(e + p)
    dsum = ops.dropout_backward(dh, c3)
    # p = positions[0..T-1], the same for every sequence
    d["positions_embed.weight"] = ops.embedding_backward(dsum.sum(axis=0), c2)
    # e = tokens[ids]
    d["tokens_embed.weight"] = ops.embedding_backward(dsum, c1)
    return d


def gpt1_backward(dloss, cache):
    """dloss () -> the gradients by name"""
    c1, c2 = cache
    # loss = cross_entropy(h tokens^T, targets)
    dh, dtokens, _ = ops.linear_cross_entropy_backward(dloss, c2)
    d = hidden_backward(dh, c1)
    # tokens was used at both ends
    d["tokens_embed.weight"] = d["tokens_embed.weight"] + dtokens
    return d


# %% [markdown]
# That is GPT-1, all of it. Is it the same model as the library's, whose modules own their parameters? Same weights,
# odd sizes, dropout on, float64: logits, loss, and every gradient.

# %%
from minigpt import GPT1, GPT1Config

V, T, C, NH, LAYERS = 11, 5, 8, 2, 2
rng = np.random.default_rng(1)
w = {name: start + 0.3 * rng.normal(size=start.shape) for name, start in new_gpt1(V, T, C, LAYERS).items()}
ids, targets = rng.integers(0, V, size=(2, 3, 4))  # B = 3 sequences of T = 4 tokens; some tokens occur several times

library = GPT1(GPT1Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=LAYERS, n_head=NH), dtype=np.float64)
for name, parameter in library.named_parameters():
    assert parameter.data.shape == w[name].shape
    parameter.data = w[name].copy()
assert [name for name, _ in library.named_parameters()] == list(w)  # names and order: those of the checkpoint

key = ops.Key.of(0, 7)
my_loss, my_cache = gpt1_forward(w, ids, targets, NH, rate=0.1, key=key)
my_gradients = gpt1_backward(1.0, my_cache)
their_loss, their_cache = library.loss(ids, targets, key=key)
library.loss_backward(their_cache)
my_logits = hidden_forward(w, ids, NH)[0] @ w["tokens_embed.weight"].T
apart = [np.abs(my_logits - library.forward(ids, grad=False)[0]).max(), abs(my_loss - their_loss)]
apart += [np.abs(my_gradients[name] - parameter.grad).max() for name, parameter in library.named_parameters()]
print(f"ours and the library's: logits, loss and {len(w)} gradients differ by at most {max(apart):.0e}")
assert max(apart) < 1e-12

# %% [markdown]
# ## 4. The table that hears from both ends
#
# Work out the table's gradient with pencil. Row v is used by the head for *every* position n, as one of V scores, and
# by the input wherever token v was read. With p the predicted probabilities, y the targets and N positions:
#
#     dW[v]  =  1/N sum_n (p[n,v] - [y_n = v]) h[n]     +     sum of dh_0[n] over all n where v was read
#               ---------------------------------             -------------------------------------------
#               the head: all rows, at every step             the input: only rows of tokens in the batch

# %%
c1, c2 = gpt1_forward(w, ids, targets, NH)[1]
dh, from_head, _ = ops.linear_cross_entropy_backward(1.0, c2)
from_input = hidden_backward(dh, c1)["tokens_embed.weight"]

h, _ = hidden_forward(w, ids, NH)
scores = h @ w["tokens_embed.weight"].T
p = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
wanted = np.eye(V)[targets]  # 1 where the target is
by_pencil = np.einsum("btv,btc->vc", p - wanted, h) / targets.size
assert np.allclose(from_head, by_pencil, rtol=0, atol=1e-12)

read = np.isin(np.arange(V), ids)
assert np.all(from_input[~read] == 0) and np.all(np.abs(from_input[read]).max(axis=1) > 0)
assert np.all(np.abs(from_head).max(axis=1) > 0)
print(f"of {V} rows, {read.sum()} were read; the head moves all {V}")

# %% [markdown]
# So the two gradients are of different kinds. From the input, a row hears only when its word is read. From the head,
# every row of the table is moved at every step: pulled towards h where it was the right answer, pushed away from it
# where it was not, in proportion to its probability. Untie the two, and a rare word's input row seldom hears
# anything; forget one of the two terms, and the model still trains (lesson 07 has warned you). The check must see it.

# %% [markdown]
# ## 5. Check
#
# ### Every number of a two-layer model
#
# The loss as a function of all its arrays, in float64, dropout on.

# %%
from minigpt import gradcheck

names = tuple(w)


def forward(*arrays):
    return gpt1_forward(dict(zip(names, arrays, strict=True)), ids, targets, NH, rate=0.1, key=key)


def backward(dloss, cache):
    d = gpt1_backward(dloss, cache)
    return tuple(d[name] for name in names)


results = gradcheck.check(forward, backward, w.values(), names=names)
for result in results[:14]:
    print(f"  {result.name:26} {result.error:.0e} {result.word}")
worst = max(result.error for result in results)
size = sum(array.size for array in w.values())
print(f"  ... and {len(results) - 14} arrays of the second block; the worst of all {size:,} numbers: {worst:.0e}")
assert size == 1872 and len(results) == len(w) == 26 and worst < 1e-8

# %% [markdown]
# ### The trap: a gradient that is zero
#
# The bias of `c_attn` has three parts, for queries, keys and values. Check the *key* part alone:

# %%
bias = "h.0.attn.c_attn.bias"
mine = gpt1_backward(1.0, gpt1_forward(w, ids, targets, NH)[1])[bias]
true = gradcheck.numeric(lambda b: gpt1_forward(w | {bias: b}, ids, targets, NH)[0], w[bias].copy())
for part, m, t in zip(("query", "key", "value"), np.split(mine, 3), np.split(true, 3), strict=True):
    error = np.abs(m - t).max() / max(np.abs(m).max(), np.abs(t).max())
    print(f"  {part:6} ours at most {np.abs(m).max():.0e}, nudged {np.abs(t).max():.0e}, relative error {error:.0e}")

# %% [markdown]
# Lesson 03's trap, now inside a whole model: a relative error of 1, "wrong", which compares dust with dust. **The
# gradient of the key bias is exactly zero.** What q . b adds to all scores of a row, softmax does not feel. A checker
# must measure such a gradient by its neighbours, and ours does: it judged the bias as a whole.

# %%
assert np.abs(np.split(mine, 3)[1]).max() < 1e-12 < 1e-4 < np.abs(mine).max()

# %% [markdown]
# ### Nobody sees the future
#
# Change one token: nothing before it may move. And backward: a loss at one position must not reach the positions
# after it.

# %%
changed = ids.copy()
changed[:, 2] = (changed[:, 2] + 1) % V
moved = np.abs(hidden_forward(w, changed, NH)[0] - hidden_forward(w, ids, NH)[0]).max(axis=(0, 2))
print("change the token at position 2: the output moves by", *(f"{m:.2f}" for m in moved))
only_1 = np.where(np.arange(4) == 1, targets, ops.IGNORED)  # a target of -100 is not predicted
d = gpt1_backward(1.0, gpt1_forward(w, ids, only_1, NH)[1])["positions_embed.weight"]
print("a loss at position 1: the positions hear         ", *(f"{m:.2f}" for m in np.abs(d[:4]).max(axis=1)))
assert np.all(moved[:2] < 1e-12) and np.all(moved[2:] > 1e-3)
assert np.all(np.abs(d[:2]).max(axis=1) > 1e-4) and np.all(np.abs(d[2:]) < 1e-15)

# %% [markdown]
# ### Overfit one batch first
#
# The cheapest test of a whole model. It must be able to learn three lines by heart; if it cannot, do not look for
# better data. Fresh weights as in the paper, plain gradient descent:

# %%
TEXT = "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees it in the tree."
letters = sorted(set(TEXT) | set("abcdefghijklmnopqrstuvwxyz"))  # some of them never occur
row = np.array([letters.index(letter) for letter in TEXT])
lines = np.stack([row[i : i + 25] for i in (0, 25, 50)])  # 3 sequences of 25 letters
x, y = lines[:, :-1], lines[:, 1:]

small = {name: array.astype(np.float64) for name, array in new_gpt1(len(letters), 24, 32, 2).items()}
losses = []
for _ in range(400):
    loss, cache = gpt1_forward(small, x, y, n_head=4)
    for name, gradient in gpt1_backward(1.0, cache).items():
        small[name] = small[name] - 0.3 * gradient
    losses.append(loss)
guess = (hidden_forward(small, x, 4)[0] @ small["tokens_embed.weight"].T).argmax(axis=-1)
print(f"one batch: loss {losses[0]:.2f} (ln {len(letters)} is {math.log(len(letters)):.2f}) -> {losses[-1]:.2f}")
print(f"given {letters[x[1, 0]]!r}, then each next letter, it says {''.join(letters[i] for i in guess[1])!r}")
assert abs(losses[0] - math.log(len(letters))) < 0.1 and losses[-1] < 0.1 and np.mean(guess == y) > 0.95

# %% [markdown]
# ### The surprise: an untrained GPT-1 has something to say
#
# Now the real size: 12 blocks, width 768, 40,478 tokens, fresh weights. It knows nothing, so every token should be
# equally likely, and the loss ln 40478 = 10.61. That is the first thing to check in any run. We give it random
# tokens:

# %%
full = new_gpt1(V=40478, T=512, C=768, n_layer=12)
assert sum(array.size for array in full.values()) == 116_534_784
table = full["tokens_embed.weight"]
read = np.random.default_rng(0).integers(0, 40478, size=(1, 257))
h, _ = hidden_forward(full, read[:, :-1], n_head=12)
h, now, following = h[0], read[0, :-1], read[0, 1:]
scores = h @ table.T  # (256, 40478)
scores -= scores.max(axis=-1, keepdims=True)
log_p = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
n = np.arange(256)
loss, echoes = -log_p[n, following].mean(), np.mean(scores.argmax(axis=-1) == now)
print(f"loss {loss:.2f}; ln 40478 is {math.log(40478):.2f}")
print(f"the most likely next token is the one it has just read in {100 * echoes:.0f} % of the places")
assert abs(loss - math.log(40478) - 0.15) < 0.15 and echoes > 0.9

# %% [markdown]
# The loss is a little *above* chance, and **an untrained GPT-1 repeats every word it reads**. Nobody taught it. Can
# you see why?
#
# The residual stream begins with the token's own row of the table, and fresh sub-layers add little to it. So what
# arrives at the top still points towards that row; and the head, which is *the same table*, asks which row h is most
# like. Here it is in numbers. h has length sqrt(768), for LayerNorm made it so; a row has length 0.02 sqrt(768), and
# their score is the product of both times the cosine. Scores of strangers are sums of 768 random products, with
# standard deviation 0.02 sqrt(768) = 0.55.

# %%
own, length = table[now], math.sqrt(768)
cosine = (h * own).sum(axis=-1) / np.linalg.norm(h, axis=-1) / np.linalg.norm(own, axis=-1)
assert np.allclose(np.linalg.norm(h, axis=-1), length, rtol=1e-3)
assert np.allclose(np.linalg.norm(own, axis=-1), 0.02 * length, rtol=0.15)
spread = scores.std(axis=-1).mean()
print(f"cosine of h with the row just read: {cosine.mean():.2f}; by chance it would be about {1 / length:.2f} in size")
strangers = h @ table.T
strangers[n, now] = -np.inf
its_own, best = (h * own).sum(axis=-1).mean(), strangers.max(axis=-1).mean()
print(f"its score: {its_own:.1f}; the best of 40,477 strangers: {best:.1f}, {best / spread:.1f} standard deviations")
assert best < 0.6 * its_own
chance = np.exp(log_p[n, now]).mean()
print(f"its probability: {chance:.4f}, {40478 * chance:.0f} times that of an average token")
assert 0.2 < cosine.mean() < 0.4 and abs(spread - 0.02 * length) < 0.02

# %% [markdown]
# And the loss? If scores are normal with variance s^2 = 0.31, the mean of exp(score) is exp(s^2 / 2), so the loss is
# about ln V + s^2/2 = 10.61 + 0.15. The rest is the luck of 256 random targets. A loss of 12 here would mean weights
# that are too large.

# %% [markdown]
# ## 6. See it: what a token costs, and who moves the table
#
# Where do the numbers, the arithmetic and the memory of GPT-1 go? The parameters we have counted. Arithmetic: a
# weight in a product costs two operations for each token, and attention compares each token with up to 512, once for
# the scores and once for the sum: 4 T C. Memory, what forward must remember for backward: we run one real block and
# ask its cache.

# %%
V, T, C, LAYERS = 40478, 512, 768, 12
in_names = {"tokens": "tokens_embed", "attention": ".attn.", "MLP": ".mlp.", "LayerNorm": ".ln_"}
numbers = {part: sum(size for name, size in paper.items() if key in name) for part, key in in_names.items()}
arithmetic = {
    "tokens": 0,  # to take a row out of a table is no arithmetic
    "attention": LAYERS * (2 * 4 * C * C + 4 * T * C),
    "MLP": LAYERS * 2 * 8 * C * C,
    "LayerNorm": LAYERS * 2 * 10 * C,  # about ten operations for each number
    "head": 2 * V * C,
}
one_block = [full[name] for name in names_of_block(0)]
with ops.using("reference"):
    _, caches = block_forward(np.concatenate([h, h])[None], one_block, 12, 0.0, None)  # 512 positions
weight_ids = {id(array) for array in one_block}
kept = [sum(a.nbytes for a in ops.arrays(cache).values() if id(a) not in weight_ids) // T for cache in caches]
memory = {
    "tokens": 0,
    "attention": LAYERS * sum(kept[:4]),
    "MLP": LAYERS * sum(kept[5:7]),
    "LayerNorm": LAYERS * (kept[4] + kept[7]),
    "head": 4 * (V + C),  # the probabilities of all tokens, and h
}
work, kept_bytes = sum(arithmetic.values()) / 1e6, sum(memory.values()) / 1e6
print(f"for each token: {work:.0f} million operations, {kept_bytes:.1f} MB to remember")
print(f"the paper's batch, 64 sequences of 512 tokens: {64 * 512 * kept_bytes / 1e3:.0f} GB to remember")
assert round(work) == 251 and round(kept_bytes, 1) == 1.2

fresh = {name: array.astype(np.float64) for name, array in new_gpt1(len(letters), 24, 32, 2).items()}
c1, c2 = gpt1_forward(fresh, x, y, n_head=4)[1]
dh, from_head, _ = ops.linear_cross_entropy_backward(1.0, c2)
from_input = hidden_backward(dh, c1)["tokens_embed.weight"]

# %%
from minigpt import plot

plt = plot.plt
figure, (cost, table_axes) = plt.subplots(1, 2, figsize=(12, 4.2), width_ratios=(1, 1.25))
columns = {"parameters": numbers, "arithmetic": arithmetic, "memory": memory}
colors = dict(zip(arithmetic, ("tab:cyan", "tab:orange", "tab:green", "tab:gray", "tab:cyan"), strict=True))
bottom = np.zeros(3)
for part, color in colors.items():
    share = np.array([100 * column.get(part, 0) / sum(column.values()) for column in columns.values()])
    bars = cost.bar(list(columns), share, bottom=bottom, color=color, label=part)
    labels = [f"{part} {value:.0f} %" if value > 4 else "" for value in share]
    cost.bar_label(bars, labels, label_type="center", fontsize=9)
    bottom += share
cost.set(title="Where GPT-1's numbers, its work and its memory go", ylabel="percent")
cost.set_axisbelow(True)
count = np.bincount(x.ravel(), minlength=len(letters))
order = np.argsort(-count, kind="stable")
place = np.arange(len(letters))
for role, gradient, marker in (("the head", from_head, "o"), ("the input", from_input, "s")):
    size = np.linalg.norm(gradient, axis=1)[order]
    table_axes.semilogy(place[size > 0], size[size > 0], marker, markersize=5, label=f"from {role}")
table_axes.axvspan(np.sum(count > 0) - 0.5, len(letters) - 0.5, color="gray", alpha=0.15, label="never read")
table_axes.set_xticks(place, [letters[i].replace(" ", "_") for i in order])
table_axes.set(title="One table, two teachers: the gradient of each row", ylabel="norm of the gradient")
table_axes.set_xlabel("row of the table, most frequent letter first (_ is the space)")
table_axes.legend()
plot.save(figure, "08_gpt1.png")

# %% [markdown]
# Left: as parameters the table is a quarter of GPT-1. As input it costs no work at all; as head it costs a quarter of
# the work: the same numbers, seen from two ends. LayerNorm has next to no parameters and does next to no work, but
# what it computes must be remembered.
#
# Right: before the first step, on our three lines. Letters that were never read hear from the head alone. (One of
# them hears more than the others: p, the last letter of a line, was never read, but it was an answer.)

# %% [markdown]
# ## 7. In the library
#
# `minigpt.models.gpt1.GPT1` is what stands above, with one difference: its arrays are owned by modules
# (`library.h[0].attn.c_attn.weight`), and each module hands its caches up in a list that the backward pass empties
# from the end. So memory falls while the backward runs, and a cache cannot be used twice by mistake. Modules hold no
# activations: that is why one table may be used at both ends.

# %%
library.zero_grad()
loss, cache = library.loss(ids, targets)
full_of = ops.nbytes(cache)
library.loss_backward(cache)
print(f"the cache held {full_of:,} bytes before the backward, and holds {ops.nbytes(cache)} after it")
try:
    library.loss_backward(cache)
    raise AssertionError("a used cache was accepted")
except ValueError as error:
    print(f"a second backward: {error}")

# %% [markdown]
# ## 8. Paper and code: GPT-1's own quirks
#
# OpenAI's released code differs from equation 2 in ways that matter to whoever loads its weights or counts its
# perplexity:
#
# - **One table for everything.** Its matrix `we` holds 40,478 rows for tokens, then three for the special tokens of
#   fine-tuning, then 512 for positions: 40,993 rows. A place in a text is a pair of row numbers, token and 40,481 +
#   t, and its vector the sum of the two rows. The published Hugging Face form has two tables, and so have we.
# - **The head scores all rows**, so also specials and positions: the model may answer "position 17". A later port of
#   the code masks these scores; Hugging Face's and ours have no such rows. At chance it makes a difference of
#   ln(40993/40478):

# %%
assert round(math.log(40993 / 40478), 4) == 0.0126
print(f"{math.log(40993 / 40478):.4f} nats")

# %% [markdown]
# - **Dropout on the table itself.** Not the looked-up vectors are dropped, but numbers of the matrix, once for each
#   step. A dropped number is then missing wherever its token occurs, and in the head as well, since it is the same
#   matrix. With m the mask, its gradient is (input part + head part) m / 0.9. Hugging Face's model drops e + p
#   instead, and so do we.
# - Its causal mask sets hidden scores to -1e9, where we say "cannot be seen". The difference is below rounding.
# - Unlike Vaswani et al. (section 3.4), GPT-1 does not multiply embeddings by sqrt(C), and its positions are learned.
# - Kernels are stored with shape [1, in, out], for the code calls the linear map a convolution of width 1. Hence the
#   names c_attn, c_fc, c_proj; and hence (in, out), the order in which we keep weights too.
# - The paper does not say how many parameters there are. "117M", as one reads later, is this total, rounded.
#
# ## 9. Exercises
#
# 1. `lessons/exercises/08_tied_head.py`: the head and its loss in one, backward. `minigpt check` judges it.
# 2. `lessons/exercises/08_find_the_bug.py`: a model whose gradients are right for a batch of one, and wrong for two.
# 3. Give the full-size model a head of its own (a fresh matrix of the same size), and ask again how often it repeats
#    the word it has just read. First guess, then run.

# %%
print(f"lesson 08: every check is happy (worst relative error {worst:.0e})")
