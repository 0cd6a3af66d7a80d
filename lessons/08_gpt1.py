# %% [markdown]
# # Lesson 08: GPT-1, assembled
#
# You will put the parts of lessons 01 to 07 together into GPT-1, forward and backward, first as
# functions and then as modules. A tiny one learns on your machine, and you see what it writes after
# 0, 50, 200 and 600 updates. You will see where the 116,534,784 parameters of the full size are,
# and why it repeats, before it has learnt anything, the word that it has just read.
#
# Reading: 30 minutes for the core, 90 minutes for all of it. Running: 12 to 40 seconds (it builds
# the full-size model, 0.5 GB of memory). Before it: lessons 00 to 07. The deeper parts make two
# sittings, with a pause before section 6.
#
# Papers: Radford, Narasimhan, Salimans and Sutskever 2018 (GPT-1), section 3.1 with equations 1 and
# 2, and section 4.1. Press and Wolf 2017 (arXiv 1608.05859): one table for input and output.

# %% [markdown]
# ## 1. Why: three lines, one picture, one number
#
# One block of lesson 07, between the letters and their scores, after 300 updates:

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("08")
assert so_far["one block"] < so_far["the letter table"] - 0.1, "better than the table"

# %% [markdown]
# It has some short words, and no sentence. GPT-1 has twelve blocks. The whole model in three lines
# (equation 2 of the paper):
#
# $$
# h_0 = U W_e + W_p \qquad h_l = \text{block}(h_{l-1}),\ l = 1 \dots 12 \qquad
# P(u) = \text{softmax}(h_{12} W_e^T)
# $$
#
# $U W_e$ takes one row of a table for each token, as in lesson 01. $W_p$ has one row for each
# position. The block is that of lesson 07. Here are all parts in one picture. B is the number of
# sequences in a batch, T the number of tokens in each.

# %% tags=["hide-input"]
from minigpt import plot

drawing = plot.Diagram(7.4, 7.0, "GPT-1, from bottom to top")
tokens_box = drawing.box(2.6, 1.5, "tokens $W_e$\n40478 x 768", "tab:orange", 2.0, 0.8)
places_box = drawing.box(5.4, 1.5, "positions $W_p$\n512 x 768", "tab:cyan", 2.0, 0.8)
plus_box = drawing.box(4.0, 2.6, "+", "tab:gray", 0.45, 0.45)
first_box = drawing.box(4.0, 3.6, "block 1", width=1.6)
last_box = drawing.box(4.0, 4.7, "block 12", width=1.6)
head_box = drawing.box(4.0, 5.8, "head $W_e^T$, 768 x 40478", "tab:orange", 3.2)
arrows = [((2.6, 0.5), tokens_box), ((5.4, 0.5), places_box), ((2.9, 1.9), (3.78, 2.5)),
          ((5.1, 1.9), (4.22, 2.5)), (plus_box, first_box), (first_box, last_box),
          (last_box, head_box), (head_box, (4.0, 6.75))]  # fmt: skip
for begin, finish in arrows:
    drawing.arrow(begin, finish)
labels = {(2.6, 0.3): "ids (B,T)", (5.4, 0.3): "0, 1, ... T-1", (2.3, 2.35): "(B,T,768)",
          (5.6, 2.35): "(T,768)", (4.85, 3.1): "(B,T,768)", (5.05, 4.15): "10 more blocks",
          (4.85, 5.25): "(B,T,768)", (4.85, 6.35): "(B,T,40478)",
          (2.9, 6.45): "scores of the\nnext token"}  # fmt: skip
for (across, up), words in labels.items():
    drawing.text(across, up, words)
drawing.arrow((1.6, 1.7), (2.4, 5.7), color="tab:orange", bend=-0.35)
drawing.text(0.75, 4.9, "one array,\nused twice", "tab:orange")
plot.save(drawing.figure, "08_gpt1.png")

# %% [markdown]
# How large is it? The shapes tell it before anything is computed. The names are those of the
# published checkpoint: `c_attn` makes queries, keys and values, `c_fc` is the first map of the MLP,
# and the two `c_proj` are the output maps of attention and of the MLP.

# %%
import math

from minigpt import ops

BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")


def gpt1_shapes(V, T, C, n_layer):
    """Every array of a GPT-1 with V tokens, T positions and width C: {name: shape}"""
    maps = dict(zip(BLOCK, ((C, 3 * C), (C, C), (C,), (C, 4 * C), (4 * C, C), (C,)), strict=True))
    shapes = {"tokens_embed.weight": (V, C), "positions_embed.weight": (T, C)}
    for i in range(n_layer):
        for part in BLOCK:
            shapes[f"h.{i}.{part}.weight"] = maps[part]
            shapes[f"h.{i}.{part}.bias"] = maps[part][-1:]  # one number a column
    return shapes


PAPER = {name: math.prod(s) for name, s in gpt1_shapes(V=40478, T=512, C=768, n_layer=12).items()}
print(f"GPT-1: {len(PAPER)} arrays, {sum(PAPER.values()):,} numbers")
assert sum(PAPER.values()) == 116_534_784 and len(PAPER) == 146, "the published checkpoint's sizes"

# %% [markdown]
# The table $W_e$ occurs in equation 2 *twice*: at the bottom it turns tokens into vectors, at the
# top it turns a vector into scores of tokens. This is called **weight tying**. A separate matrix at
# the top would cost 31 million more parameters.

# %% [markdown] tags=["deeper"]
# ### Where this number comes from
#
# The four maps of a block have $3C^2 + C^2 + 4C^2 + 4C^2 = 12
# C^2$ weights. Their biases have $3C + C + 4C + C = 9C$ numbers, and the two LayerNorms have $4C$.
# With the two tables, that is
#
# $$
# \text{parameters} = V C + T C + 12\,(12 C^2 + 13 C)
# $$

# %%
V, T, C = 40478, 512, 768
SIZES = {
    "tokens": V * C,
    "positions": T * C,
    "attention": 12 * (4 * C * C + 4 * C),  # 3 C + C biases
    "MLP": 12 * (8 * C * C + 5 * C),  # 4 C + C biases
    "LayerNorms": 12 * 4 * C,
}
COLORS = ("tab:orange", "tab:cyan", "tab:blue", "tab:green", "tab:gray")
figure, axes = plot.plt.subplots(figsize=(10, 2.6))
left = 0
for (part, count), color in zip(SIZES.items(), COLORS, strict=True):
    print(f"{part:12} {count:12,}  {100 * count / sum(PAPER.values()):4.1f} %")
    axes.barh(0, count / 1e6, left=left / 1e6, color=color)
    middle = (left + count / 2) / 1e6
    if count > 1e7:
        label = f"{part}\n{count / 1e6:.1f}"
        axes.text(middle, 0, label, ha="center", va="center", color="white")
    else:
        label = f"{part} {count / 1e6:.2f}"
        axes.annotate(label, (middle, 0.4), (middle - 8, 0.55), arrowprops={"arrowstyle": "-"})
    left += count
axes.set(title="The parameters of GPT-1, in millions", yticks=[], xlim=(0, 120), ylim=(-0.42, 0.8))
plot.save(figure, "08_parts.png")
assert sum(SIZES.values()) == sum(PAPER.values()), "the parts are the whole"

# %% [markdown]
# Half of GPT-1 is MLP, a quarter is attention, and a quarter is one table of tokens. "117M", a
# name that the model got later, agrees with this total.

# %% [markdown]
# ## 2. Forward
#
# First the weights: matrices and tables are drawn from N(0, 0.02^2) (section 4.1 of the paper);
# biases are 0 and gains 1 (OpenAI's code). Then the block of lesson 07; `w` are its 12 arrays, in
# the order of `BLOCK`. A `key` switches dropout on, and `key.fold(n)` makes a different key from it
# for each place (lesson 07).

# %%
def new_gpt1(V, T, C, n_layer, std=0.02, seed=0):
    """Fresh weights: {name: array}"""
    rng = np.random.default_rng(seed)
    w = {}
    for name, shape in gpt1_shapes(V, T, C, n_layer).items():
        w[name] = np.full(shape, 1 if name.endswith("weight") else 0, np.float32)
        if len(shape) == 2:
            w[name] = std * rng.standard_normal(shape, dtype=np.float32)
    return w


tiny = new_gpt1(V=7, T=4, C=6, n_layer=1)
print(f"a tiny model has {len(tiny)} arrays; a gain is {tiny['h.0.ln_1.weight']}")

# %%
def names_of_block(i):
    return [f"h.{i}.{part}.{kind}" for part in BLOCK for kind in ("weight", "bias")]


def block_forward(x, w, n_head, rate=0.0, key=None):
    """x (B,T,C), w: 12 arrays -> out (B,T,C)"""
    keys = [key.fold(site) if key else None for site in range(3)]  # None: no dropout
    qkv, c1 = ops.linear_forward(x, w[0], w[1])
    heads, c2 = ops.self_attention_forward(qkv, n_head, rate=rate, key=keys[0])
    proj, c3 = ops.linear_forward(heads, w[2], w[3])
    a, c4 = ops.dropout_forward(proj, rate=rate, key=keys[1])
    n, c5 = ops.layernorm_forward(x + a, w[4], w[5])
    mlp, c6 = ops.mlp_forward(n, *w[6:10])
    m, c7 = ops.dropout_forward(mlp, rate=rate, key=keys[2])
    out, c8 = ops.layernorm_forward(n + m, w[10], w[11])
    return out, (c1, c2, c3, c4, c5, c6, c7, c8)


one_block = [tiny[name] for name in names_of_block(0)]
tiny_out, tiny_cache = block_forward(np.ones((2, 3, 6), np.float32), one_block, n_head=2)
print(f"{len(one_block)} arrays; input (2, 3, 6), output {tiny_out.shape}")

# %% [markdown]
# Now equation 2. `hidden_forward` is the model up to the last block. The head and the loss are one
# operation of the library, `linear_cross_entropy`: the scores $h W_e^T$, and then the cross-entropy
# of lesson 02.

# %%
def hidden_forward(w, ids, n_head, rate=0.0, key=None):
    """w: the arrays by name, ids (B,T) int -> h (B,T,C), the output of the last block"""
    e, c1 = ops.embedding_forward(w["tokens_embed.weight"], ids)
    p, c2 = ops.embedding_forward(w["positions_embed.weight"], np.arange(ids.shape[1]))
    h, c3 = ops.dropout_forward(e + p, rate=rate, key=key.fold(0) if key else None)
    caches = []
    for i in range((len(w) - 2) // 12):  # two tables, and 12 arrays a block
        of_block = [w[name] for name in names_of_block(i)]
        h, cache = block_forward(h, of_block, n_head, rate, key.fold(i + 1) if key else None)
        caches.append(cache)
    return h, (c1, c2, c3, caches)


def gpt1_forward(w, ids, targets, n_head, rate=0.0, key=None):
    """ids, targets (B,T) int -> loss (): the mean of -log P(target)"""
    h, c1 = hidden_forward(w, ids, n_head, rate, key)
    loss, c2 = ops.linear_cross_entropy_forward(h, w["tokens_embed.weight"], targets)
    return loss, (c1, c2)


tiny_ids = np.array([[1, 4, 2]])
tiny_targets = np.array([[4, 2, 0]])  # after 1 comes 4, after 4 comes 2
tiny_loss, tiny_caches = gpt1_forward(tiny, tiny_ids, tiny_targets, n_head=2)
print(f"the loss of the tiny model is {tiny_loss:.2f}, and ln 7 = {math.log(7):.2f}")

# %% [markdown]
# ## 3. Backward
#
# The block's backward is lesson 07's: each `+` of the forward hands its upstream gradient to both
# terms, and where a value was used twice, two gradients are added.

# %%
def block_backward(dout, cache):
    """dout (B,T,C) -> dx (B,T,C), and the 12 gradients in order"""
    c1, c2, c3, c4, c5, c6, c7, c8 = cache
    dn, *dln_2 = ops.layernorm_backward(dout, c8)
    dm, *dmlp = ops.mlp_backward(ops.dropout_backward(dn, c7), c6)
    dx, *dln_1 = ops.layernorm_backward(dn + dm, c5)
    dheads, *dproj = ops.linear_backward(ops.dropout_backward(dx, c4), c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    da, *dattn = ops.linear_backward(dqkv, c1)
    return dx + da, [*dattn, *dproj, *dln_1, *dmlp, *dln_2]


tiny_dx, tiny_gradients = block_backward(np.ones_like(tiny_out), tiny_cache)
print(f"dx {tiny_dx.shape}, and {len(tiny_gradients)} gradients")

# %% [markdown]
# The whole model has a loop over the blocks, last block first. The token table was used in two
# lines, at both ends: each use gives a gradient, and the two are **added**.
#
# **Your turn:** a GPT-1 without blocks is e = u @ w, scores = e @ w.T, where each row of u has a
# single 1, for the token that was read. Its first use of w gives `u.T @ (dscores @ w)`. Write the
# whole gradient of w.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

read_here = np.eye(7)[[1, 4, 2, 4]]  # u (N,V)
table_here, dscores_here = np.random.default_rng(3).normal(size=(7, 6)), np.eye(4, 7) - 0.2


def your_dw(dscores, u, w):
    return ...  # u (N,V), w (V,C), dscores (N,V)


true_dw = numeric(lambda w: (read_here @ w) @ w.T, table_here.copy(), dscores_here)
gap.judge(your_dw, dscores_here, read_here, table_here, expected=true_dw)

# %% [markdown] tags=["answer"]
# `u.T @ (dscores @ w) + dscores.T @ (u @ w)`: in the second use, entry (n, v) of the scores is row
# n of e times row v of w. So row v of w gets dscores[n, v] times row n of e, for every n.

# %%
def hidden_backward(dh, cache):
    """dh (B,T,C) -> the gradients by name"""
    c1, c2, c3, caches = cache
    d = {}
    # h = block(h), n_layer times
    for i in reversed(range(len(caches))):
        dh, gradients = block_backward(dh, caches[i])
        for name, gradient in zip(names_of_block(i), gradients, strict=True):
            d[name] = gradient
    # h = dropout(e + p)
    dsum = ops.dropout_backward(dh, c3)
    # p = positions[0..T-1], the same for every sequence
    d["positions_embed.weight"] = ops.embedding_backward(dsum.sum(axis=0), c2)
    # e = tokens[ids]
    d["tokens_embed.weight"] = ops.embedding_backward(dsum, c1)
    return d


print(f"{len(hidden_backward(np.ones((1, 3, 6), np.float32), tiny_caches[0]))} gradients")

# %%
def gpt1_backward(dloss, cache):
    """dloss () -> the gradients by name"""
    c1, c2 = cache
    # loss = cross_entropy(h tokens^T, targets)
    dh, dtokens, _ = ops.linear_cross_entropy_backward(dloss, c2)
    d = hidden_backward(dh, c1)
    # tokens was used at both ends
    d["tokens_embed.weight"] = d["tokens_embed.weight"] + dtokens
    return d


print(f"a gradient for each of {len(gpt1_backward(1.0, tiny_caches))} arrays")
NH, SMALL = 2, new_gpt1(V=11, T=5, C=8, n_layer=2)  # a model for the checks of section 5
draw = np.random.default_rng(1)
w = {name: start + 0.3 * draw.normal(size=start.shape) for name, start in SMALL.items()}
ids, targets = draw.integers(0, 11, size=(2, 3, 4))  # B = 3 sequences of 4 tokens

# %% [markdown]
# That is GPT-1, all of it.

# %% [markdown] tags=["deeper"]
# ### The two ends, line by line
#
# The whole model has a loop, and names in a dictionary: a wrong line in it would be hard to find.
# So here are its two ends alone, with a single block between them. There each line can be checked
# by itself. Every line of `ends` has its line in `ends_backward`, and three of them are new:
#
# - `h_0 = e + p` is a sum. Both tables get the same upstream gradient.
# - `p` (T,C) is added to all B sequences. Its gradient is the sum over the batch.
# - `tokens` is used in two lines. Each of the two uses gives a gradient of `tokens`, and they are
#   **added**.
#
# `v` holds the values of the forward pass by name, and `lines.check` compares each `d...` with
# finite differences (lesson 00). `ops.embedding_backward` adds the rows of equal tokens (lesson
# 01).

# %%
from minigpt.learn import lines

draw = np.random.default_rng(1)
end_ids, end_targets = draw.integers(0, 7, size=(2, 2, 3))
end_block = [array + 0.3 * draw.normal(size=array.shape) for array in one_block]


def ends(tokens, positions, ids, targets):
    e, looked_up = ops.embedding_forward(tokens, ids)
    p = positions[: ids.shape[1]]
    h_0 = e + p
    h_1, cache = block_forward(h_0, end_block, n_head=2)
    scores = h_1 @ tokens.T
    loss, of_loss = ops.cross_entropy_forward(scores, targets)
    return loss


end_tables = draw.normal(size=(7, 6)), draw.normal(size=(4, 6))
values = lines.run(ends, *end_tables, end_ids, end_targets)

# %%
def ends_backward(dloss, v):
    # loss = cross_entropy(scores, targets)
    dscores = ops.cross_entropy_backward(dloss, v.of_loss)
    # scores = h_1 @ tokens.T
    dh_1 = dscores @ v.tokens
    dtokens = np.einsum("btv,btc->vc", dscores, v.h_1)
    # h_1 = block(h_0)
    dh_0, gradients = block_backward(dh_1, v.cache)
    # h_0 = e + p
    de = dh_0
    dp = dh_0.sum(axis=0)
    # p = positions[:T]
    dpositions = np.zeros_like(v.positions)
    dpositions[: len(dp)] = dp
    # e = tokens[ids]: the second use of tokens
    dtokens = dtokens + ops.embedding_backward(de, v.looked_up)
    return dtokens, dpositions


results_of_ends = lines.check(ends, ends_backward, *end_tables, end_ids, end_targets)
assert all(result.word == "happy" for result in results_of_ends), "each line is right"

# %% [markdown] tags=["deeper"]
# ## 4. Collapse: what the two uses do to the table
#
# Work out the table's gradient with a pencil. Row $v$ of the table is used by the head at *every*
# one of the N positions, as the row that gives the score of token $v$. It is used by the input only
# where token $v$ was read. With $p$ the predicted probabilities and $y_n$ the target at position
# $n$ (lesson 02):
#
# $$
# dW[v] = \underbrace{\frac{1}{N} \sum_n (p_{nv} - 1[y_n = v])\, h_n}_{\text{head: every row}}
#       + \underbrace{\sum_{n:\, u_n = v} dh_{0,n}}_{\text{input: rows of tokens that were read}}
# $$

# %%
def both_parts(w, ids, targets, n_head):
    """The gradient of the token table, from the head and from the input."""
    _, (c1, c2) = gpt1_forward(w, ids, targets, n_head)
    dh, from_head, _ = ops.linear_cross_entropy_backward(1.0, c2)
    return from_head, hidden_backward(dh, c1)["tokens_embed.weight"]


from_head, from_input = both_parts(w, ids, targets, NH)
h_top, _ = hidden_forward(w, ids, NH)
p_top, _ = ops.softmax_forward(h_top @ w["tokens_embed.weight"].T)
by_pencil = np.einsum("btv,btc->vc", p_top - np.eye(11)[targets], h_top) / targets.size
read = np.isin(np.arange(11), ids)
print(f"of 11 rows, {read.sum()} were read: their gradient has two parts, that of the others one")
assert np.allclose(from_head, by_pencil, rtol=0, atol=1e-12), "the formula is the head's part"
assert np.all(from_input[~read] == 0), "no gradient from the input for a token that was not read"
assert np.all(np.abs(from_head).max(axis=1) > 0), "the head gives every row a gradient"

# %% [markdown]
# The input changes a row only when its token was read. The head changes every row at every step.
# At each position, an update by the head's part moves the row of the target towards $h$. It moves
# every other row away from $h$: far if the model gave its token a large probability, and hardly if
# that was small. If one of the two parts is forgotten, all other gradients stay right. Only a check
# of this table sees it.

# %% [markdown]
# ## 5. Check, and the traps
#
# ### Every number of a two-layer model
#
# The loss as a function of all its arrays, in float64, with dropout on.

# %%
from minigpt import gradcheck

names = tuple(w)
KEY = ops.Key.of(0, 7)


def all_forward(*arrays):
    by_name = dict(zip(names, arrays, strict=True))
    return gpt1_forward(by_name, ids, targets, NH, rate=0.1, key=KEY)


def all_backward(dloss, cache):
    d = gpt1_backward(dloss, cache)
    return tuple(d[name] for name in names)


results = gradcheck.check(all_forward, all_backward, w.values(), names=names)
worst = max(result.error for result in results)
print(f"{len(results)} arrays, {sum(a.size for a in w.values()):,} numbers: "
      f"the largest relative error is {worst:.0e}")
assert len(results) == len(w) == 26 and worst < 1e-8, "every array of the model is right"

# %% [markdown]
# ### It learns, and writes
#
# A tiny GPT-1 of these functions: the 50 letters of the small world, two blocks, 64 wide. Two
# things are taken on trust, and both are in `train`: the rule that moves the weights (Adam, lesson
# 09), and the loop around it (lesson 11).
#
# **Guess:** after about how many updates is it better than the letter table: 10, 100 or 500?

# %%
TINY = new_gpt1(V=small_world.V, T=small_world.T, C=64, n_layer=2, std=0.06)


def gradients(ids, targets):
    return gpt1_backward(1.0, gpt1_forward(TINY, ids, targets, n_head=4)[1])


def next_p(ids):
    """ids (T,) -> the probability of each letter as the next one"""
    h, _ = hidden_forward(TINY, ids[None, -small_world.T :], n_head=4)
    return ops.softmax_forward(h[0, -1] @ TINY["tokens_embed.weight"].T)[0]


losses = {}
for done in small_world.train(TINY, gradients, updates=600):
    if done in (0, 50, 200, 600):
        losses[done] = gpt1_forward(TINY, *small_world.HELD_OUT, n_head=4)[0]
        print(f"after {done} updates, loss {losses[done]:.2f}:\n{small_world.write(next_p)}")
print(f"the letter table: loss {so_far['the letter table']:.2f}")
assert losses[50] > so_far["the letter table"] > losses[200], "it passes the table on the way"
assert losses[0] > 3.5 and losses[600] < 1.5, "at first it knows nothing"

# %% [markdown] tags=["answer"]
# Between 50 and 200. After 50 updates it is worse than the table that counts, after 200 better, and
# after 600 it writes words of the stories. But it sees 32 letters, and the text tells no story.

# %% [markdown] tags=["deeper"]
# ### A surprise: an untrained GPT-1 repeats what it reads
#
# Now the real size: 12 blocks, width 768, 40,478 tokens, fresh weights. It knows nothing. We give
# it random tokens.

# %%
full = new_gpt1(V=40478, T=512, C=768, n_layer=12)
table = full["tokens_embed.weight"]
random_ids = np.random.default_rng(0).integers(0, 40478, size=257)
now, following = random_ids[:-1], random_ids[1:]
h_full = hidden_forward(full, now[None], n_head=12)[0][0]
scores = h_full @ table.T
share = float(np.mean(scores.argmax(axis=-1) == now))
print(f"the token just read is the likeliest next one at {100 * share:.0f} % of the positions")
assert share > 0.9, "it repeats what it reads"

# %% [markdown]
# **Why?** An explanation: the residual stream begins with the token's own row of the table, and
# each fresh sub-layer adds little to it. So the vector at the top still points towards that row.
# And the head, which is the *same table*, gives a high score to rows that point as $h$ does.

# %% [markdown] tags=["deeper"]
# ### Two causes, and a test of each
#
# This explanation names two causes, and each can be tested:
#
# 1. **The tied table.** Give the head a table of its own. Then the repetition must end.
# 2. **The stream carries the row.** In the first sum, x + attention(x), exchange the x for the row
#    of *another* token, and nothing else: the attention still reads the real one. Then the model
#    must repeat the other token.

# %%
def other_in_the_stream(ids, others):
    """The full model; the stream begins with the rows of `others`, the attention reads `ids`."""
    places = full["positions_embed.weight"][: ids.shape[-1]]
    u = [full[name] for name in names_of_block(0)]
    qkv, _ = ops.linear_forward(table[ids] + places, *u[:2])
    a, _ = ops.linear_forward(ops.self_attention_forward(qkv, 12)[0], *u[2:4])
    n, _ = ops.layernorm_forward(table[others] + places + a, *u[4:6])
    m, _ = ops.mlp_forward(n, *u[6:10])
    h, _ = ops.layernorm_forward(n + m, *u[10:])
    for i in range(1, 12):
        h, _ = block_forward(h, [full[name] for name in names_of_block(i)], 12)
    return h


def echoes(h, head):
    """Scores of all tokens at 256 positions, and how often the token just read has the highest."""
    of_all = h @ head.T
    return of_all, float(np.mean(of_all.argmax(axis=-1) == now))


print("the arrays of block 0, written out above:", len(names_of_block(0)))

# %%
own_head = np.float32(0.02) * np.random.default_rng(1).standard_normal(table.shape, np.float32)
untied = echoes(h_full, own_head)[1]
others = np.random.default_rng(2).integers(0, 40478, size=256)
exchanged, read = echoes(other_in_the_stream(now[None], others[None])[0], table)
other = float(np.mean(exchanged.argmax(axis=-1) == others))
print(f"GPT-1:                  repeats the token it has read at {share:.0%} of the positions")
print(f"a head of its own:      at {untied:.0%}")
print(f"another in the stream:  at {read:.0%}; the other token at {other:.0%}")
assert untied < 0.02, "without the tied table, there is no repetition"
assert read < 0.02 and other > 0.9, "what the stream begins with is repeated"

# %% [markdown]
# Both predictions come true, in this model.

# %% [markdown] tags=["deeper"]
# ### The first loss
#
# The model knows nothing, so the loss should be that of guessing, ln 40478 = 10.61. This is the
# first thing to look at in any run.

# %%
at = np.arange(256)
full_loss = np.mean(np.log(np.exp(scores).sum(axis=-1)) - scores[at, following])
print(f"loss {full_loss:.2f}; ln 40478 is {math.log(40478):.2f}")
p_now = np.mean(np.exp(scores[at, now]) / np.exp(scores).sum(axis=-1))
print(f"the token just read is the likeliest next one, with probability {p_now:.3f}")
assert 0.05 < full_loss - math.log(40478) < 0.25, "a little above the loss of guessing"
assert abs(p_now - 0.003) < 0.001, "the likeliest token, but its probability is small"

# %% [markdown]
# Why is the loss 10.78, a little above ln 40478? The repetition hardly changes it: its
# probability is the highest of 40,478, but it is only 0.003. LayerNorm gives $h$ the length
# $\sqrt{768}$, and the numbers of a row have standard deviation 0.02. So the score of a row that
# has nothing to do with $h$ has variance $s^2 = 768 \cdot 0.02^2 = 0.31$. For random scores with
# this variance we expect a loss of $\ln V + s^2 / 2$ (lesson 02, "The first loss of a run"), here
# 10.61 + 0.15. With weights of 0.06 in place of 0.02, $s^2$ is nine times as large, and by this
# formula the first loss is about 12.

# %% [markdown] tags=["deeper"]
# ### The trap: a gradient that is zero
#
# The bias of `c_attn` has three parts, for queries, keys and values. As in lesson 04 (section 5),
# **the true gradient of the key part is exactly zero**. A checker that looks at this part alone
# divides one rounding error by another, and says "wrong". Ours judges the three parts as one array.

# %% [markdown] tags=["deeper"]
# ### No position sees the future
#
# A loss at position 1 must not have a gradient at the positions after it. To have a loss at
# position 1 alone, the other targets are -100: such a target is not counted (lesson 02).

# %%
only_1 = np.where(np.arange(4) == 1, targets, ops.IGNORED)
d_only_1 = gpt1_backward(1.0, gpt1_forward(w, ids, only_1, NH)[1])["positions_embed.weight"]
reached = np.abs(d_only_1[:4]).max(axis=1)
print("largest gradient of positions 0 to 3:", reached.round(3))
assert np.all(reached[:2] > 1e-4) and np.all(reached[2:] < 1e-15), "causal"

# %% [markdown] tags=["deeper"]
# ### Overfit one batch first
#
# The cheapest test of a whole model: it must be able to learn three lines by heart. If it cannot,
# better data will not help. Fresh weights as in the paper, plain gradient descent; ln 30 = 3.40 is
# the loss of guessing:

# %%
TEXT = "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and"
letters = sorted(set(TEXT) | set("abcdefghijklmnopqrstuvwxyz"))  # some of them never occur
row = np.array([letters.index(letter) for letter in TEXT])
three_lines = np.stack([row[i : i + 25] for i in (0, 25, 50)])
x, y = three_lines[:, :-1], three_lines[:, 1:]
small = {n: a.astype(np.float64) for n, a in new_gpt1(len(letters), 24, 32, 2).items()}
for step in range(401):
    loss, cache = gpt1_forward(small, x, y, n_head=4)
    if step in (0, 10, 100, 400):
        print(f"update {step:3}: loss {loss:.2f}")
    for name, gradient in gpt1_backward(1.0, cache).items():
        small[name] = small[name] - 0.3 * gradient
guess = (hidden_forward(small, x, 4)[0] @ small["tokens_embed.weight"].T).argmax(axis=-1)
print(f"after {letters[x[1, 0]]!r}, each next letter: {''.join(letters[i] for i in guess[1])!r}")
assert loss < 0.1 and np.mean(guess == y) > 0.95, "three lines are learnt by heart"

# %% [markdown] tags=["deeper"]
# ## 6. See it: what a token costs
#
# The parameters are counted. **Arithmetic** of a forward pass, for each token, in one block:
#
# - A weight of a matrix product costs two operations, a multiplication and an addition. The $4C^2$
#   weights of the attention cost 4.7 million, the $8C^2$ of the MLP 9.4 million.
# - The scores of attention cost T C multiplications and as many additions, and so does the weighted
#   sum: together $4TC$, 1.6 million. (An upper bound: the mask hides half of it on average.)
#
# **Memory**: we run one block of the real size with the library's reference operations and measure
# its caches, that is, what the forward pass keeps for the backward pass.

# %%
block_0 = [full[name] for name in names_of_block(0)]
with ops.using("reference"):
    _, kept = block_forward(np.concatenate([h_full, h_full])[None], block_0, 12)  # 512 positions
is_weight = {id(array) for array in block_0}
activations = [[a for a in ops.arrays(c).values() if id(a) not in is_weight] for c in kept]
b = [12 * sum(a.nbytes for a in arrays) // T for arrays in activations]  # 12 blocks, for a token
kept_by_attention = b[0] + b[1] + b[2] + b[3]
kept_by_mlp = b[5] + b[6]
kept_by_norms = b[4] + b[7]
of_attention = 12 * (2 * 4 * C * C + 4 * T * C)  # operations for each token
of_mlp = 12 * 2 * 8 * C * C
of_norms = 12 * 2 * 10 * C  # two of them, about 10 operations for each number
COST = {  # parameters; operations for each token; bytes to keep for each token
    "tables": (V * C + T * C, 0, 0),  # to take a row out of a table is no arithmetic
    "attention": (SIZES["attention"], of_attention, kept_by_attention),
    "MLP": (SIZES["MLP"], of_mlp, kept_by_mlp),
    "LayerNorm": (SIZES["LayerNorms"], of_norms, kept_by_norms),
    "head": (0, 2 * V * C, 4 * (V + C)),  # no parameters of its own
}
totals = np.sum(list(COST.values()), axis=0)
print(f"{totals[0]:,} parameters; for each token {totals[1]:,} operations, {totals[2]:,} bytes")
assert tuple(totals) == (116_534_784, 251_102_208, 1_197_272), "what a token costs"
print(f"to keep for a batch of 64 x 512 tokens: {64 * 512 * totals[2] / 1e9:.0f} GB")

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(9, 4.6))
bottom = np.zeros(3)
for (part, row), color in zip(COST.items(), (*COLORS[:1], *COLORS[2:], "tab:red"), strict=True):
    percent = 100 * np.array(row) / totals
    bars = axes.bar(["parameters", "arithmetic", "memory"], percent, 0.75, bottom, color=color)
    words = [f"{part} {value:.0f} %" if value > 4 else "" for value in percent]
    axes.bar_label(bars, words, label_type="center", color="white")
    bottom += percent
axes.set(title="Where GPT-1's numbers, work and memory are", ylabel="percent")
plot.save(figure, "08_costs.png")

# %% [markdown]
# In a forward pass a token costs 251 million operations and 1.2 MB of memory. (Training costs three
# times the operations: backward, each product gives two, one for each of its factors.) With the
# library's reference operations, in float32, the paper's batch of 64 sequences of 512
# tokens would need 39 GB. A program that keeps less and computes some values again (lesson 00)
# needs less.
#
# As parameters the table is a quarter of GPT-1. As input it costs no arithmetic; as head it costs a
# quarter of all arithmetic. LayerNorm has hardly any parameters and does hardly any arithmetic, but
# an array as large as its input must be kept (x_hat, lesson 06).

# %% [markdown] tags=["deeper"]
# ## 7. In the library: the same functions, as modules
#
# In the functions above, 146 arrays travel in a dictionary, and the gradients come back in another.
# In a longer model it is easy to lose track of which array belongs to which line. The library's
# answer is a **module**: an object that *owns* the parameters of one part and knows the forward
# pass and the backward pass of that part. Three small pieces are enough. Two of them:

# %%
class MyParameter:
    """An array that is learnt, and its gradient: None before the first backward pass."""

    def __init__(self, data):
        self.data = data
        self.grad = None


def my_accumulate(parameter, gradient):
    """Add a gradient to those that the parameter has already."""
    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


gain = MyParameter(np.ones(2))
for part_of_it in (np.array([1.0, 2.0]), np.array([10.0, 20.0])):
    my_accumulate(gain, part_of_it)
print(f"two gradients, [1 2] and [10 20], become {gain.grad}")

# %% [markdown]
# The third piece is the module; a linear map is the example.

# %%
class MyLinear:
    def __init__(self, weight, bias):
        self.weight = MyParameter(weight)
        self.bias = MyParameter(bias)

    def forward(self, x):
        return ops.linear_forward(x, self.weight.data, self.bias.data)  # out, cache

    def backward(self, dout, cache):
        dx, dw, db = ops.linear_backward(dout, cache)
        my_accumulate(self.weight, dw)
        my_accumulate(self.bias, db)
        return dx


print(f"it owns {', '.join(vars(MyLinear(np.ones((2, 3)), np.zeros(3))))}, and no activations")

# %% [markdown]
# The gradients of the parameters do not travel any more: `my_accumulate` puts them where their
# parameter is. Only `dx`, the gradient of the input, is returned.
#
# **Why does the module not keep its cache?** It would be simpler to write `self.cache = cache` in
# `forward`. But a module may run several times before its backward runs: in a model whose layers
# share their weights, on two texts whose vectors are compared, on a batch in two parts. Then the
# second forward overwrites what the first one kept. Here is the same module, used twice in a row,
# with both designs:

# %%
class ForgetfulLinear(MyLinear):
    """The simpler design: the module keeps its own cache."""

    def forward(self, x):
        out, self.cache = super().forward(x)
        return out, None

    def backward(self, dout, cache):
        return super().backward(dout, self.cache)


print("it owns weight, bias and, after a forward pass, the cache of that pass")

# %%
def used_twice(module, start):
    """out = module(module(start)): the gradient of sum(out^2) / 2 for the weight."""
    middle, cache_1 = module.forward(start)
    end, cache_2 = module.forward(middle)
    module.backward(module.backward(end, cache_2), cache_1)
    return module.weight.grad


draw = np.random.default_rng(2)
weight, start = 0.5 * draw.normal(size=(3, 3)), draw.normal(size=(4, 3))
true = gradcheck.numeric(lambda a: (((start @ a) @ a) ** 2).sum() / 2, weight.copy())
errors = {}
for kind in (MyLinear, ForgetfulLinear):
    d_twice = used_twice(kind(weight, np.zeros(3)), start)
    errors[kind.__name__] = np.abs(d_twice - true).max() / np.abs(true).max()
    print(f"{kind.__name__:16} relative error {errors[kind.__name__]:.0e}")
assert errors["MyLinear"] < 1e-8 and errors["ForgetfulLinear"] > 0.1, "a cache belongs to a call"

# %% [markdown]
# So **a cache belongs to one call, a parameter to the module**. The library's `Linear` is the same
# thing, with one step more: `own` refuses a cache that another module made.
#
#     # minigpt/nn/layers.py
#     cache = self.own(cache)
#     dx, dw, db = ops.linear_backward(dout, cache.pop(""))
#     accumulate(self.weight, dw)
#     if db is not None:
#         accumulate(self.bias, db)
#     return dx
#
# **Modules own modules.** A block owns an attention, an MLP and two LayerNorms; GPT-1 owns two
# tables and a list of blocks. So every parameter has a path, and `named_parameters` finds it by
# walking through the attributes. The paths are the names of section 1. We give our weights to the
# library's model:

# %%
from minigpt import GPT1, GPT1Config

config = GPT1Config(vocab_size=11, n_positions=5, n_embd=8, n_layer=2, n_head=2)
library = GPT1(config, dtype=np.float64)
for name, parameter in library.named_parameters():
    parameter.data = w[name].copy()
print(f"h.0.attn.c_attn.weight is the weight of library.h[0].attn.c_attn, "
      f"a {library.h[0].attn.c_attn}")
assert [n for n, _ in library.named_parameters()] == list(w), "names and order are ours"

# %% [markdown]
# **A block.** Beside our `block_forward`, these are the lines of the library. `a, c = f(x)` has
# become `a = cache.keep("attn", f(x))`: the cache of each part is stored under its name. (`past`
# comes in lesson 17; `grad=False` keeps no cache; `mask` hides padding.)
#
#     # minigpt/models/gpt1.py
#     cache = Cache(self, grad)
#     a = cache.keep("attn", self.attn.forward(x, past, key, grad, mask))
#     x = ops.add(x, a)
#     x = cache.keep("ln_1", self.ln_1.forward(x))
#     m = cache.keep("mlp", self.mlp.forward(x, key, grad))
#     x = ops.add(x, m)
#     x = cache.keep("ln_2", self.ln_2.forward(x))
#     return x, cache
#     ...
#     cache = self.own(cache)
#     dx = self.ln_2.backward(dout, cache.pop("ln_2"))
#     dm = self.mlp.backward(dx, cache.pop("mlp"))
#     dx = ops.add(dx, dm)
#     dx = self.ln_1.backward(dx, cache.pop("ln_1"))
#     da = self.attn.backward(dx, cache.pop("attn"))
#     return ops.add(dx, da)
#
# `ops.add(x, a)` is `x + a`. The linear maps and the dropouts are inside `attn` and `mlp`. The
# other lines correspond one to one.
#
# **Caches have named fields.** So one can read what is kept, and how many bytes it takes:

# %%
_, its_cache = library.loss(ids, targets, key=KEY)
print(f"the cache of the model: {', '.join(its_cache)}")
print(f"the cache of block 0:   {', '.join(its_cache['h.0'])}")
print(f"of its attention:       {', '.join(its_cache['h.0'].attn)}")
print(f"bytes before the backward pass: {ops.nbytes(its_cache):,}")
library.loss_backward(its_cache)
print(f"bytes after it: {ops.nbytes(its_cache)}")
try:
    library.loss_backward(its_cache)
    second = ""
except ValueError as error:
    second = str(error)
print(f"again: {second}")
assert ops.nbytes(its_cache) == 0 and "has been used" in second, "a backward pass uses up its cache"

# %% [markdown]
# `pop` removes each part as it is used, so memory falls while the backward pass runs, and no cache
# can be used twice by mistake.
#
# **The whole model**, beside our `hidden_forward` and `hidden_backward`:
#
#     # minigpt/models/gpt1.py
#     x = cache.keep("tokens", of_tokens.forward(ids))
#     p = cache.keep("positions", of_positions.forward(positions))
#     dropout = ops.dropout_forward(x + p, rate=self.config.embd_pdrop, key=fold(key, 0))
#     x = cache.keep("dropout", dropout)
#     for i, block in enumerate(self.h):
#         past_of_block = past[i] if past else None
#         through = self.through(block, x, past_of_block, fold(key, i + 1), grad, mask)
#         x = cache.keep(f"h.{i}", through)
#     return x, cache
#     ...
#     for i in reversed(range(len(self.h))):
#         dh = self.h[i].backward(dh, cache.pop(f"h.{i}"))
#     dh = ops.dropout_backward(dh, cache.pop("dropout"))
#     of_tokens, of_positions = self.embeddings
#     of_positions.backward(dh, cache.pop("positions"))
#     of_tokens.backward(dh, cache.pop("tokens"))
#
# `self.through(block, x, ...)` is `block.forward(x, ...)`, unless memory is to be saved by running
# the block again.
#
# **Weight tying is two lines.** The head *is* the parameter of the token table, used a second time,
# and its gradient is added to the same `.grad`:
#
#     # minigpt/models/language_model.py
#     return self.embeddings[0].weight
#     ...
#     dh, dw, _ = ops.linear_cross_entropy_backward(dloss, cache.pop("head"))
#     accumulate(self.head, dw)
#     self.hidden_backward(dh, cache)
#
# `named_parameters` gives the table once, so an optimiser moves it once. How much would be missing
# if `accumulate` replaced the first gradient by the second?

# %%
tied = library.tokens_embed.weight
library.zero_grad()
library_loss, loss_cache = library.loss(ids, targets)
library.loss_backward(loss_cache)
print(f"the head is the token table: {library.head is tied}")
print(f"norm of its gradient: {np.linalg.norm(tied.grad):.3f}; of the part that would be missing: "
      f"{np.linalg.norm(from_head):.3f}")
assert library.head is tied and np.allclose(tied.grad, from_head + from_input), "two uses, one sum"

# %% [markdown]
# The part that would be missing is nearly as long as the whole. (Lengths of vectors do not simply
# add up, so this is not its share.)
#
# And now everything: logits, loss and all gradients of the functions and of the modules.

# %%
my_loss, my_cache = gpt1_forward(w, ids, targets, NH)
my_gradients = gpt1_backward(1.0, my_cache)
logits, _ = library.forward(ids, grad=False)
apart = [np.abs(h_top @ w["tokens_embed.weight"].T - logits).max(), abs(my_loss - library_loss)]
apart += [np.abs(my_gradients[n] - p.grad).max() for n, p in library.named_parameters()]
print(f"logits, loss and {len(my_gradients)} gradients differ by at most {max(apart):.0e}")
assert max(apart) < 1e-12, "the functions and the modules are the same model"

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code: what is special about GPT-1
#
# OpenAI's released code differs from equation 2 in ways that matter to anyone who loads its weights
# or computes its perplexity:
#
# - **One table for everything.** Its matrix `we` has 40,478 rows for tokens, then three for the
#   special tokens of fine-tuning, then 512 for positions: 40,993 rows. The published Hugging Face
#   form has two tables, and so have we.
# - **The head scores all rows**, also those of special tokens and positions, so the model can
#   predict "position 17". A port to PyTorch (`pytorch-openai-transformer-lm`) masks the scores of
#   positions where it returns probabilities; Hugging Face's models and ours have no such rows.
#   For a model that guesses, the difference is ln(40993/40478) = 0.0126.
# - **Dropout on the table itself.** The code drops numbers of the matrix, once for each step, and
#   not of the vectors that were looked up. A dropped number is then missing wherever its token
#   occurs, and in the head too, because it is the same matrix. With $m$ the mask, the gradient is
#   (input part + head part) $m / 0.9$. Hugging Face's model drops $e + p$ instead, and so do we.
# - The code's causal mask sets hidden scores to -1e9; ours removes them. For a row that sees at
#   least one position, the difference is below rounding (lesson 03).
# - Unlike Vaswani et al. (section 3.4), GPT-1 does not multiply embeddings by $\sqrt{C}$, and its
#   positions are learnt.
# - Matrices are stored with shape [1, in, out], because the code calls a linear map a convolution
#   of width 1. This explains the names `c_attn`, `c_fc`, `c_proj`, and the order (in, out).
# - The paper does not say how many parameters there are.

# %% [markdown]
# ## 9. To keep
#
# - GPT-1 is two tables, twelve blocks, and a head that is the token table once more: 116,534,784
#   parameters.
# - Backward it runs from the head to the tables, last block first; the token table was used at both
#   ends, and its two gradients are added.
# - A fresh one knows nothing; after 200 updates a tiny one is better than a table that counts pairs
#   of letters, and after 600 it writes words.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/08_factored_table.py`: ALBERT replaces the tied table by a product of two smaller
#    matrices, and both are used twice. Write the backward pass. The file judges itself: run it.
# 2. `exercises/08_find_the_bug.py`: a model whose gradients are right for a batch of one, and wrong
#    for a batch of two.
# 3. On paper: GPT-2 has 50,257 tokens, 1,024 positions, and one LayerNorm more, after the last
#    block. How many parameters has its smallest model (12 blocks, width 768)?
# 4. Draw the weights of the full-size model from N(0, 0.1^2) instead of N(0, 0.02^2). Will it still
#    repeat what it reads? What will its loss be? Guess first, then run `new_gpt1(..., std=0.1)`.

# %%
assert round(math.log(40993 / 40478), 4) == 0.0126, "the loss of 515 rows more"
print(f"lesson 08: every check is happy (largest relative error {worst:.0e})")
