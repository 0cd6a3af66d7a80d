# %% [markdown]
# # Lesson 04: several heads, and the projections
#
# You will see what one head cannot keep apart, and cut the width into several heads with a reshape
# and a transpose that copy nothing. You will write the four projections W_Q, W_K, W_V and W_O with
# their backward passes, show that W_O adds up what the heads write, and meet 9,216 numbers of
# GPT-1 that can never learn. At the end, models with equal numbers of parameters and one, two or
# four heads learn to copy letters, and you see what each head does.
#
# Reading: 25 minutes for the core, 80 minutes for all of it. Running: 25 to 60 seconds. Before it:
# lessons 01 to 03.
#
# Papers: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2. Radford et al. 2018 (GPT-1),
# section 4.1: width 768, twelve heads.

# %% [markdown]
# ## 1. Why: one mixture cannot keep two things apart
#
# With attention (lesson 03) we can build a model of the small world that looks back. It has a
# vector for each letter and each place, one head, and the loss of lesson 02. After 300 updates (by
# Adam, a rule that lesson 09 explains) it writes:

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("04")
assert so_far["one head of attention"] > so_far["the letter table"] + 0.1, "worse than the table"

# %% [markdown]
# It sees up to 32 letters, and is worse than the table, which sees one. Several things are missing;
# lessons 04 to 07 add them one after the other. Here is the first: of all those letters, a position
# receives only one mixture. (More mixtures alone are not enough: lesson 05 begins with a model of
# four heads. Its loss is a little lower, and still above that of the table.)
#
# A head of lesson 03 gives one mixture: each value times its share, added up. Often a word needs
# two things at once: who has the milk, *and* where. Look at two texts. In the first, place 2 holds
# the letter b and place 5 the letter e. In the second, they are exchanged. One head takes half of
# each letter:

# %%
from minigpt import plot

b_value, e_value = np.array([1.0, 0]), np.array([0, 1.0])  # the values of the letters b and e
one_be, one_eb = 0.5 * b_value + 0.5 * e_value, 0.5 * e_value + 0.5 * b_value
two_be, two_eb = np.append(b_value, e_value), np.append(e_value, b_value)
print("one head,  b at 2 and e at 5:", one_be, "  e at 2 and b at 5:", one_eb)
print("two heads, b at 2 and e at 5:", two_be, "  e at 2 and b at 5:", two_eb)
assert np.array_equal(one_be, one_eb), "one head: both texts give the same mixture"
assert not np.array_equal(two_be, two_eb), "two heads: the texts differ"

# %% tags=["hide-input"]
why = plot.Diagram(8.4, 4.2)
letter_boxes = []
for middle, title in ((2.1, "one head: one mixture"), (6.3, "two heads: side by side")):
    why.text(middle, 3.95, title)
    letter_boxes.append(why.grid(middle - 1, 2.8, [["b"]], "place 2", "tab:green", cell=0.6))
    letter_boxes.append(why.grid(middle + 1, 2.8, [["e"]], "place 5", "tab:orange", cell=0.6))
mixture_box = why.box(2.1, 0.6, "0.5 b + 0.5 e\nor 0.5 e + 0.5 b ?", "tab:red", 2.4, 0.9)
why.arrow(letter_boxes[0], mixture_box)
why.arrow(letter_boxes[1], mixture_box)
why.arrow(letter_boxes[2], why.box(5.3, 0.6, "head 0: b", "tab:green", 1.5, 0.7))
why.arrow(letter_boxes[3], why.box(7.3, 0.6, "head 1: e", "tab:orange", 1.5, 0.7))
for at, number in ((0.95, "0.5"), (3.25, "0.5"), (5.1, "1"), (7.5, "1")):
    why.text(at, 1.75, number)
plot.save(why.figure, "04_why.png")

# %% [markdown]
# The mixture of one head has lost which letter was where. Two heads have two sets of shares, and
# their results are side by side: what must stay apart is not mixed.
#
# We want to choose the number of heads freely, so the number of multiplications should not grow
# with it. For this the width C is *cut*: NH heads work on C / NH columns each, the size D of a
# head. GPT-1 has C = 768, NH = 12, D = 64.

# %% [markdown] tags=["deeper"]
# ### Do unequal shares help?
#
# With shares of 0.7 and 0.3, one head gives the two texts different mixtures. But the larger share
# wins: from such a mixture the model can name the letter at place 2, and not also the one at place
# 5. Section 6 shows it, for shares that depend on places only.

# %% [markdown]
# ## 2. Forward: cut, attend, join
#
# **The packed projection.** Queries, keys and values are three linear maps of the same x, with the
# matrices W_Q, W_K and W_V. One product computes all three, with the matrices side by side:
#
#     qkv = x @ w + b        w (C, 3C): the columns of W_Q, then of W_K, then of W_V
#
# GPT-1's code calls this layer `c_attn`. The first C columns of qkv are q, the next C are k, the
# last C are v. Within each, the columns of head 0 come first, then those of head 1, and so on.
#
# **The split.** How does (T, C) become (NH, T, D)? With a reshape, then a transpose of two axes:

# %%
def split_heads(x, n_head):
    """(B,T,C) -> (B,NH,T,D)"""
    batch, t, c = x.shape
    return x.reshape(batch, t, n_head, c // n_head).swapaxes(1, 2)


def merge_heads(x):
    """(B,NH,T,D) -> (B,T,C): undoes split_heads"""
    batch, n_head, t, d = x.shape
    return x.swapaxes(1, 2).reshape(batch, t, n_head * d)


numbered = np.arange(12).reshape(1, 2, 6)  # T = 2 positions, C = 6
print("(T, C):\n", numbered[0])
for head, part in enumerate(split_heads(numbered, 3)[0]):
    print(f"head {head}, (T, D):\n", part)
assert np.array_equal(merge_heads(split_heads(numbered, 3)), numbered), "merging undoes splitting"

# %% [markdown]
# Now the whole layer, one operation a line. Attention in the middle is that of lesson 03; `@` works
# on the last two axes, so all heads run at once. The last line is the output projection W_O.

# %%
import math

from minigpt import ops
from minigpt.learn import lines

B, NH, D, T, C = 2, 3, 4, 5, 12  # batch, heads, size of a head, time, width C = NH * D
MASK, SCALE = np.tril(np.ones((T, T), bool)), 1 / math.sqrt(D)


def forward(x, w, b, w_o, b_o):
    qkv = x @ w + b
    q = split_heads(qkv[..., :C], NH)
    k = split_heads(qkv[..., C : 2 * C], NH)
    v = split_heads(qkv[..., 2 * C :], NH)
    s = q @ k.swapaxes(-1, -2) * SCALE
    p, _ = ops.softmax_forward(np.where(MASK, s, -np.inf))  # lesson 00
    mixed = p @ v
    merged = merge_heads(mixed)
    out = merged @ w_o + b_o
    return out


print(f"{NH} heads of {D} columns, {MASK.sum()} of {T * T} pairs of positions may be seen")

# %%
def example():
    """x (B,T,C), w (C,3C), b (3C,), w_o (C,C), b_o (C,)"""
    rng = np.random.default_rng(0)
    shapes = (B, T, C), (C, 3 * C), (3 * C,), (C, C), (C,)
    # matrices are divided by sqrt(C): a product has about the size of its input (lesson 03)
    return [rng.normal(size=shape) / (math.sqrt(C) if len(shape) == 2 else 1) for shape in shapes]


arrays = example()
kept = lines.run(forward, *arrays)
head_2 = [third[1, :, 8:12] for third in np.split(kept.qkv, 3, axis=-1)]  # text 1, cut by hand
by_hand, _ = ops.attention_forward(*head_2)  # lesson 03
assert np.allclose(kept.merged[1, :, 8:12], by_hand, rtol=0, atol=1e-14), "columns 8 to 11: head 2"

# %% [markdown] tags=["deeper"]
# ### The split, drawn

# %%
def draw_split():
    """The numbers 0 to 11: two positions of width 6, reshaped, then transposed."""
    d = plot.Diagram(9.1, 4.8)
    colors = ("tab:blue", "tab:green", "tab:orange")
    d.text(1.9, 4.6, "(T, C) = (2, 6)")
    d.text(5.2, 4.6, "reshape: (T, NH, D)")
    d.text(7.9, 4.6, "transpose: (NH, T, D)")
    for head, color in enumerate(colors):
        part = split_heads(numbered, 3)[0, head].astype(str).tolist()
        d.grid(0.8 + 1.1 * head, 2, part, color=color, cell=0.55)
        for t in (0, 1):
            d.grid(5.5, 3.45 - 0.55 * head - 1.9 * t, [part[t]], color=color, cell=0.55)
        d.grid(7.8, 3.45 - 1.4 * head, part, f"head {head}", color, cell=0.5)
    d.text(4.6, 2.9, "t = 0")
    d.text(4.6, 1.0, "t = 1")
    d.arrow((3.65, 2), (4.55, 2))
    d.arrow((6.2, 2), (7.1, 2))
    return d.figure


plot.save(draw_split(), "04_split_heads.png")

# %% [markdown] tags=["deeper"]
# ### Nothing is copied
#
# An array is a block of memory and its *strides*: how far apart in memory
# two neighbouring entries lie, along each axis. Here reshape and transpose only write new strides.
# We print them for a packed qkv with B = 2, T = 5, NH = 3, D = 4, C = 12:

# %%
def strides_of(array):
    return tuple(stride // array.itemsize for stride in array.strides)


packed = np.zeros((B, T, 3 * C))
keys_part = packed[..., C : 2 * C]
cut = keys_part.reshape(B, T, NH, D)
split = cut.swapaxes(1, 2)
mixture = np.zeros((B, NH, T, D))  # a new array, such as p @ v
joined = merge_heads(mixture)
steps = {"qkv": packed, "k, its second third": keys_part, "reshape": cut, "transpose": split}
steps |= {"p @ v": mixture, "merge": joined}
print("array                 shape          strides           memory")
for name, array in steps.items():
    memory = "that of qkv" if np.shares_memory(array, packed) else "its own"
    print(f"{name:20}  {array.shape!s:13}  {strides_of(array)!s:16}  {memory}")
assert np.shares_memory(split, packed), "cutting heads copies nothing"
assert not np.shares_memory(joined, mixture), "merging p @ v must copy"
assert strides_of(split) == (T * 3 * C, D, 3 * C, 1), "the next head is D numbers further"

# %% [markdown]
# Read the row "transpose": the next head is D = 4 numbers further, the next position 3 C = 36.
# Merging p @ v must copy: there the 12 columns of one position are in three places, T D numbers
# apart. One stride describes a row only if the step from number to number is always the same; this
# row would have to jump.

# %% [markdown]
# ## 3. Backward
#
# Splitting only gives the numbers other indices, so its backward pass gives the gradients their
# old indices back: that is merging. The backward of merging is splitting. And the backward of
# cutting qkv into three parts is to put the three gradients side by side.
#
# **Your turn:** write the first line of the backward pass, the gradient of merged.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

dout_here = np.random.default_rng(1).normal(size=(B, T, C))


def your_dmerged(dout, w_o):
    return ...  # out = merged @ w_o + b_o


true = numeric(lambda merged: merged @ arrays[3] + arrays[4], kept.merged, dout_here)
gap.judge(your_dmerged, dout_here, arrays[3], expected=true)

# %% [markdown] tags=["answer"]
# `dout @ w_o.T`: entry i of merged has reached entry j of out times w_o[i, j]; add over all j.

# %%
def backward(dout, kept):
    # out = merged @ w_o + b_o
    dmerged = dout @ kept.w_o.T
    # merged^T dout of lesson 01, summed over texts and positions (axes 0 and 1)
    dw_o = np.tensordot(kept.merged, dout, axes=([0, 1], [0, 1]))  # sums over both these axes
    db_o = dout.sum(axis=(0, 1))
    # merged = merge_heads(mixed), mixed = p @ v
    dmixed = split_heads(dmerged, NH)
    dp = dmixed @ kept.v.swapaxes(-1, -2)
    dv = kept.p.swapaxes(-1, -2) @ dmixed
    # p = softmax(...), and s = q @ k^T * SCALE
    ds = kept.p * (dp - (kept.p * dp).sum(axis=-1, keepdims=True))
    dq = SCALE * ds @ kept.k
    dk = SCALE * ds.swapaxes(-1, -2) @ kept.q
    # q, k, v: the three parts of qkv, split
    dqkv = np.concatenate([merge_heads(dq), merge_heads(dk), merge_heads(dv)], axis=-1)
    # qkv = x @ w + b
    dx = dqkv @ kept.w.T
    dw = np.tensordot(kept.x, dqkv, axes=([0, 1], [0, 1]))
    db = dqkv.sum(axis=(0, 1))
    return dx, dw, db, dw_o, db_o


results = lines.check(forward, backward, *arrays)
assert all(result.word == "happy" for result in results), "each line is right"

# %% [markdown]
# ## 4. Collapse: W_O adds up the heads
#
# The heads' results are side by side, and W_O multiplies them. Cut W_O into NH blocks of D rows.
# A product of a long row with a tall matrix is the sum of the products of their parts:
#
# $$
# \mathrm{merged} \; W_O = [\,\mathrm{mixed}_0, \ldots, \mathrm{mixed}_{NH-1}\,]
# \begin{bmatrix} W_{O,0} \\ \vdots \\ W_{O,NH-1} \end{bmatrix}
# = \sum_h \mathrm{mixed}_h \, W_{O,h}
# $$
#
# So each head has its own output matrix W_O,h of shape (D, C). **No head depends on another: each
# adds its part to the same sum.** That sum is then added to the vector that the layer received
# (lesson 07).

# %%
w_o_blocks = arrays[3].reshape(NH, D, C)
written = [kept.mixed[:, h] @ w_o_blocks[h] for h in range(NH)]  # each (B,T,C)
total = sum(written) + arrays[4]
print("what each head writes at the last position of text 0, first four columns")
for h, part in enumerate(written):
    print(f"  head {h}:", part[0, -1, :4].round(3))
print("  b_o:   ", arrays[4][:4].round(3))
print("  out:   ", kept.out[0, -1, :4].round(3))
assert np.allclose(total, kept.out, rtol=0, atol=1e-14), "out is the sum of the heads, and b_o"

# %% [markdown] tags=["deeper"]
# ### The sum, drawn

# %%
def draw_sum():
    """x, the heads, their blocks of W_O, and the sum."""
    d = plot.Diagram(9.7, 4.2)
    source = d.box(0.75, 2.1, "x\n(T, C)", width=1.1, height=0.8)
    packed_box = d.box(2.5, 2.1, "c_attn\n(C, 3C)", "tab:red", width=1.4, height=0.8)
    plus = d.box(8, 2.1, "+", "tab:green", width=0.5, height=0.5)
    d.arrow(source, packed_box)
    for h, y in enumerate((3.5, 2.1, 0.7)):
        head = d.box(4.5, y, f"head {h}\n(T, D)", "tab:orange", width=1.4, height=0.8)
        block = d.box(6.4, y, f"W_O, {h}\n(D, C)", "tab:red", width=1.4, height=0.8)
        d.arrow(packed_box, head)
        d.arrow(head, block)
        d.arrow(block, plus)
    d.arrow(plus, d.box(9.1, 2.1, "out\n(T, C)", width=1, height=0.8))
    return d.figure


plot.save(draw_sum(), "04_sum_of_heads.png")

# %% [markdown] tags=["deeper"]
# ### What a head carries
#
# Leave the biases aside. Then a head needs W_V and W_O only as a product:
#
# $$
# \mathrm{mixed}_h \; W_{O,h} = p \,(x \; W_{V,h}) \; W_{O,h} = p \; x \; (W_{V,h} \, W_{O,h})
# $$
#
# The matrix in brackets has the shape (C, C). But every x must first become the D numbers
# x W_V,h, and what is lost there does not come back. The *rank* of a matrix says how many of its
# columns are needed to make all the others as weighted sums. Here it is at most D. So a head
# carries D numbers from one position to another, not C. In the same way, its scores need only the
# product of W_Q,h and W_K,h transposed.

# %%
def products_of_head(h):
    """Two (C,C) matrices: from values to the sum; from pairs of positions to scores"""
    w, w_o = arrays[1], arrays[3]
    w_q, w_k, w_v = (w[:, i * C + h * D : i * C + (h + 1) * D] for i in range(3))
    return w_v @ w_o[h * D : (h + 1) * D], w_q @ w_k.T


print("head   rank of W_V W_O   rank of W_Q W_K^T   (both matrices are 12 x 12)")
for h in range(NH):
    ranks = [int(np.linalg.matrix_rank(matrix)) for matrix in products_of_head(h)]
    print(f"{h:4} {ranks[0]:17} {ranks[1]:19}")
    assert ranks == [D, D], "a head carries D numbers"

# %% [markdown]
# ## 5. Check, and two traps
#
# The keys have a bias: one vector that is added to *every* key. We make each of its numbers larger
# by 100.
#
# **Guess:** does the output move a little, or far?

# %%
def with_key_bias(amount):
    x, w, b, w_o, b_o = arrays
    key_part = np.repeat([0.0, amount, 0.0], C)
    return forward(x, w, b + key_part, w_o, b_o)


change = np.abs(with_key_bias(100.0) - kept.out).max()
print(f"100 is added to every key bias: the output moves by {change:.0e}")
assert change < 1e-10, "the key bias has no effect"
print("key biases of GPT-1:", 12 * 768)

# %% [markdown] tags=["answer"]
# **The surprise: numbers that can never learn.** It does not move, although every score does. When
# a vector c is added to every key, all scores of row t change by the same number, q[t] . c /
# sqrt(D). Then all exponentials of this row are multiplied by one factor, and softmax divides it
# out again. So the true gradient of the key bias is 0. GPT-1 has 12 layers with 768 such numbers:
# 9,216 parameters that learn nothing from any text. (Their gradient is rounding noise. Adam, lesson
# 09, enlarges the noise, so they may move, but to no effect.)

# %% [markdown] tags=["deeper"]
# ### The first trap: the wrong split
#
# It is easy to split in another way. `x.reshape(B, NH, T, D)` has the right shape, and it is
# shorter. Here it is with its correct backward pass:

# %%
from minigpt import gradcheck


def layer_with(split_function, merge_function):
    """Self-attention on packed qkv, with a given way to split and merge: forward, backward"""

    def forward_of(qkv):
        q, k, v = (split_function(third) for third in np.split(qkv, 3, axis=-1))
        mixed, cache = ops.attention_forward(q, k, v)  # lesson 03
        return merge_function(mixed), cache

    def backward_of(dout, cache):
        parts = ops.attention_backward(split_function(dout), cache)[:3]
        return np.concatenate([merge_function(part) for part in parts], axis=-1)

    return forward_of, backward_of


right = layer_with(lambda x: split_heads(x, NH), merge_heads)
short = layer_with(lambda x: x.reshape(B, NH, T, D), lambda x: x.reshape(B, T, C))
print("relative errors of the right and of the short split")
for pair in (right, short):
    checked = gradcheck.check(*pair, (kept.qkv,))
    print(gradcheck.table(checked))
    assert all(result.word == "happy" for result in checked), "both pass the gradient check"

# %% [markdown]
# Both are happy, as in lesson 03: a gradient check cannot see that the forward pass is not what we
# wanted. So we test what we want, by two interventions. If only the *last* position changes, no
# earlier output may move. If only the *first* changes, every output must move.

# %%
def moved(pair, position):
    """How far the output of each position moves when one position changes"""
    other = kept.qkv.copy()
    other[:, position] += np.random.default_rng(1).normal(size=3 * C)
    return np.abs(pair[0](other)[0] - pair[0](kept.qkv)[0]).max(axis=(0, 2))


print("outputs 0 to 4 move by       right split                      short split")
for name, position in (("the last", -1), ("the first", 0)):
    right_moves, short_moves = moved(right, position), moved(short, position)
    print(f"{name:9} position changes  {right_moves.round(3)!s:32} {short_moves.round(3)}")
    if position == -1:
        assert max(right_moves[:-1].max(), short_moves[:-1].max()) == 0, "no leak in either"
    else:
        assert right_moves.min() > 0.001, "right: every position sees the first"
        assert short_moves[2:].max() == 0, "short: positions 2 to 4 do not see the first"

# %% [markdown]
# The short split shows no leak, but late positions do not see early ones. `reshape` reads the
# numbers of a text in memory order. So its "head 0" holds the first T D = 20 of 60 numbers, that
# is, position 0 and most of position 1. Its "head 2" holds the last 20. It cuts *time* into three
# pieces, where we wanted to cut the *width*.

# %% [markdown] tags=["deeper"]
# ### The second trap: a gradient that is zero
#
# We check the key part of the bias b alone, and divide its error by its own largest entry:

# %%
def key_bias_gradients():
    """The key part of db: by backward, and by finite differences"""
    x, w, b, w_o, b_o = arrays
    dout = np.random.default_rng(1).normal(size=x.shape)

    def out_of(bk):
        moved_bias = np.concatenate([b[:C], bk, b[2 * C :]])
        return forward(x, w, moved_bias, w_o, b_o)

    db = backward(dout, kept)[2]
    return db, gradcheck.numeric(out_of, b[C : 2 * C].copy(), dout)


db, key_numeric = key_bias_gradients()
dbq, dbk, dbv = np.split(db, 3)
careless = np.abs(dbk - key_numeric).max() / np.abs(key_numeric).max()
for name, part in (("dbq", dbq), ("dbk", dbk), ("dbv", dbv)):
    print(f"largest entry of {name}: {np.abs(part).max():.0e}")
print(f"error of dbk, divided by its own largest entry: {careless:.1f}")
assert np.abs(dbk).max() < 1e-13 and careless > 0.1, "dbk is 0; the careless check says wrong"

# %% [markdown]
# Nothing is wrong: the true gradient of the key bias is 0, and the check divided one rounding error
# by another. Why was `lines.check` happy? It divides the error of db by the largest entry of *all*
# of db, which is large because of dbq and dbv. Divided by it, an error of 1e-16 is still near
# 1e-16.

# %% [markdown] tags=["deeper"]
# ## 6. See it: copy two letters at once
#
# The task: a text has eight places, and at each of them one of the letters a to h. At the last
# position, the model must name two letters: the one at place 2 *and* the one at place 5.
#
# - Its input x has 16 columns. One of the first 8 is 1: it says which letter. One of the next 8 is
#   1: it says which place.
# - The model is one layer of attention, c_attn and W_O without biases.
# - Its output has 16 columns too. The first 8 are the logits for the first answer, the next 8 those
#   for the second.
#
# Later we want four letters. Then C is 32, and the last 16 columns of x are 0.

# %%
def make_texts(rng, n, wanted):
    """n texts x (n,8,C), and the letters at the wanted places (n,K); C = 8 K, 8 logits an answer"""
    letters = rng.integers(8, size=(n, 8))
    x = np.zeros((n, 8, 8 * len(wanted)))
    x[..., :8] = np.eye(8)[letters]
    x[..., 8:16] = np.eye(8)
    return x, letters[:, wanted]


def copy_forward(weights, x, n_head):
    """x (n,8,C) -> logits (n,K,8)"""
    w, w_o = weights
    qkv, first = ops.linear_forward(x, w)
    q, k, v = (split_heads(third, n_head) for third in np.split(qkv, 3, axis=-1))
    mixed, attention = ops.attention_forward(q, k, v)
    out, last = ops.linear_forward(merge_heads(mixed), w_o)
    return out[:, -1].reshape(len(x), -1, 8), (first, attention, last)


three_texts, three_answers = make_texts(np.random.default_rng(0), 3, [2, 5])
for text, names in zip(three_texts[..., :8].argmax(axis=-1), three_answers, strict=True):
    print("".join("abcdefgh"[i] for i in text), "->", *("abcdefgh"[i] for i in names))

# %% [markdown]
# c_attn is (C, 3C) and W_O is (C, C), for any number of heads: all models of one task have the
# same number of parameters. We train each in two ways:
#
# - *free*: as it is;
# - *places only*: the rows of c_attn that read letters are 0 for queries and keys, so the scores
#   depend on places only.
#
# One more task, *one letter*, wants the letter at place 2 twice, as both answers. The rule that
# moves the weights is Adam, from the library (lesson 09).

# %%
def copy_gradients(weights, x, answers, n_head):
    logits, (first, attention, last) = copy_forward(weights, x, n_head)
    _, cache = ops.cross_entropy_forward(logits, answers)
    dout = np.zeros_like(x)
    dout[:, -1] = ops.cross_entropy_backward(1.0, cache).reshape(len(x), -1)
    dmerged, dw_o, _ = ops.linear_backward(dout, last)
    parts = ops.attention_backward(split_heads(dmerged, n_head), attention)[:3]
    dqkv = np.concatenate([merge_heads(part) for part in parts], axis=-1)
    return [ops.linear_backward(dqkv, first)[1], dw_o]


small_model = [np.ones((16, 48)), np.ones((16, 16))]
small = copy_gradients(small_model, three_texts, three_answers, n_head=2)
print("gradients of c_attn and W_O:", *(g.shape for g in small))

# %%
from minigpt.nn import Parameter, optim


def train(n_head, seed, wanted=(2, 5), places_only=False, steps=300, rate=0.02):
    """[w, w_o], trained"""
    rng, c = np.random.default_rng(seed), 8 * len(wanted)
    allowed = [np.ones((c, 3 * c)), np.ones((c, c))]
    allowed[0][:8, : 2 * c] = 0 if places_only else 1
    weights = [rng.normal(size=mask.shape) / math.sqrt(c) * mask for mask in allowed]
    w, w_o = (Parameter(one) for one in weights)
    adam = optim.AdamW([("w", w), ("w_o", w_o)], betas=(0.9, 0.99), weight_decay=0)
    for step in range(1, steps + 1):
        texts, answers = make_texts(rng, 64, list(wanted))
        w.grad, w_o.grad = copy_gradients(weights, texts, answers, n_head)
        adam.step(rate * (1 - step / steps))  # it changes the arrays of `weights` in place
        weights[0] *= allowed[0]
    return weights


print("parameters of each model:", sum(weight.size for weight in train(1, seed=0, steps=1)))

# %%
def rights(weights, n_head, wanted=(2, 5)):
    """Of 2,000 new texts: the share of right answers, for each place and for all at once"""
    texts, answers = make_texts(np.random.default_rng(99), 2000, list(wanted))
    good = copy_forward(weights, texts, n_head)[0].argmax(axis=-1) == answers
    return [*good.mean(axis=0), good.all(axis=-1).mean()]


def experiment(n_head, seeds=5, wanted=(2, 5), **given):
    """The share of texts with all answers right, for each seed"""
    models = [train(n_head, seed, wanted, **given) for seed in range(seeds)]
    return [rights(weights, n_head, wanted)[-1] for weights in models]


def show(what, n_head, found):
    print(f"{what:32} {n_head}      {min(found):6.1%} to {max(found):6.1%}")


print("task, scores                     heads  all answers right, seeds 0 to 4")
one_letter = experiment(1, wanted=(2, 2), places_only=True)
show("one letter, places only", 1, one_letter)
pure = {n_head: experiment(n_head, places_only=True) for n_head in (1, 2)}
for n_head, found in pure.items():
    show("two letters, places only", n_head, found)
assert min(one_letter) == 1, "one head copies one letter without fault"
assert max(pure[1]) < 0.7 and min(pure[2]) == 1, "two letters: one head fails, two do not"

# %% [markdown]
# One head copies *one* letter without a mistake. Two letters are too much for it, and two heads
# with equal parameters make no mistake. More training would not help the one head.
#
# **On paper: the idea.** Exchange the letters at places 2 and 5. Both answers must change. But
# there is one mixture, and the letter with the larger share weighs more in it, for both answers.
# So one set of shares can be right about one of the two places only.
#
# **And the proof** (you may skip it), for the second answer. Write xy for x at place 2 and y at 5;
# all other letters stay the same. The shares p_2 and p_5 depend on places only, so xx, xy, yx and
# yy have the same ones.
#
# - M[x,c] is what the letter x, through W_V and W_O, adds to the logit of letter c at a share of 1.
# - k[c] is what everything else adds. So for xy the logit of c is p_2 M[x,c] + p_5 M[y,c] + k[c].
# - Write A = M[x,x] - M[x,y] (how much x speaks for itself and against y), B = M[y,y] - M[y,x] and
#   K = k[x] - k[y].
#
# For the text xx the logit of x must be above that of y: (p_2 + p_5) A + K > 0. For yy it is the
# reverse. So the second answer is right for xx and yy only if
#
# $$
# (p_2 + p_5) A + K > 0 \quad\text{and}\quad (p_2 + p_5) B - K > 0,
# \quad\text{so the sum gives}\quad A + B > 0
# $$
#
# For xy the logit of y, p_2 M[x,y] + p_5 M[y,y] + k[y], must be above that of x, p_2 M[x,x] +
# p_5 M[y,x] + k[x]. This is the first condition here, and yx (answer x) gives the second:
#
# $$
# p_5 B - p_2 A - K > 0 \quad\text{and}\quad p_5 A - p_2 B + K > 0,
# \quad\text{so}\quad (p_5 - p_2)(A + B) > 0
# $$
#
# So the second answer can be right for all four texts only if p_5 is larger than p_2.
# In the same way the first answer needs p_5 < p_2. One set of shares cannot do both; two heads have
# two sets. Here are the shares that were learned:

# %%
def last_row(weights, n_head):
    """p of the last position, on one text: (n_head, 8)"""
    text, _ = make_texts(np.random.default_rng(5), 1, [2, 5])
    return copy_forward(weights, text, n_head)[1][1].p[0, :, -1]


two_heads = train(2, seed=0, places_only=True)
shares = {1: last_row(train(1, seed=0, places_only=True), 1), 2: last_row(two_heads, 2)}
figure, panels = plot.plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axes, (n_head, rows) in zip(panels, shares.items(), strict=True):
    for h, row in enumerate(rows):
        where = np.arange(8) + 0.4 * h - 0.2 * (n_head - 1)
        axes.bar(where, row, 0.4, label=f"head {h}")
    axes.set(xlabel="place", title="one head" if n_head == 1 else "two heads", xticks=range(8))
    axes.legend(loc="upper center")
panels[0].set_ylabel("share of the last position")
plot.save(figure, "04_copy.png")
print("heads   shares of place 2   shares of place 5")
for n_head, rows in shares.items():
    print(f"{n_head:5}   {rows[:, 2].round(2)!s:17}   {rows[:, 5].round(2)}")

# %% [markdown]
# Does each of the two heads have its own task? We intervene: silence one head (set its block of
# W_O to 0) and change nothing else.

# %%
def silenced(weights, head):
    """The same weights, and a head that writes nothing"""
    w, w_o = weights
    w_o, half = w_o.copy(), len(w_o) // 2
    w_o[head * half : (head + 1) * half] = 0  # the rows of this head
    return [w, w_o]


print("seed 0               letter at 2    letter at 5")
without = [rights(silenced(two_heads, head), 2) for head in (0, 1)]
for name, found in zip(
    ("both heads", "head 0 silenced", "head 1 silenced"),
    (rights(two_heads, 2), *without),
    strict=True,
):
    print(f"{name:18} {found[0]:12.1%} {found[1]:14.1%}")

# %%
print("seed   right without head 0 (places 2, 5)   without head 1")
for seed in range(5):
    weights = train(2, seed=seed, places_only=True)
    without = [rights(silenced(weights, head), 2)[:2] for head in (0, 1)]
    one, other = (f"{first:.0%}, {second:.0%}" for first, second in without)
    print(f"{seed:4}   {one:>35}   {other:>15}")
    lost = [int(np.argmin(found)) for found in without]
    assert sorted(lost) == [0, 1], "each head is needed for another answer"
    assert all(min(found) < 0.3 and max(found) > 0.9 for found in without), "and only for it"

# %% [markdown]
# In all five models each head carries one letter. Now the free models:

# %%
free = {n_head: experiment(n_head) for n_head in (1, 2)}
faster = experiment(1, seeds=2, rate=0.08)
print("task, scores                     heads  all answers right, seeds 0 to 4")
for n_head, found in free.items():
    show("two letters, free", n_head, found)
show("the same, rate 0.08, 2 seeds", 1, faster)
assert min(free[1]) > max(pure[1]) and min(free[2]) > max(free[1]), "better, but two heads win"
assert min(free[1]) > 0.9 and min(faster) > 0.99, "one free head: most, at a higher rate all"

# %%
FOUR, RATES = (1, 3, 4, 6), (0.02, 0.08, 0.16)
four = {}
print("four letters, free; all answers right, seeds 0 and 1")
print("learning rate            1 head           2 heads           4 heads")
for rate in RATES:
    for n_head in (1, 2, 4):
        four[rate, n_head] = experiment(n_head, seeds=2, wanted=FOUR, rate=rate)
    both = [f"{one:.1%}, {two:.1%}" for one, two in (four[rate, n] for n in (1, 2, 4))]
    print(f"{rate:13}" + "".join(f"{text:>18}" for text in both))
    assert max(four[rate, 1]) + 0.03 < min(four[rate, 2]), "one head is behind at each rate"
    assert max(four[rate, 2]) < min(four[rate, 4]) + 0.01, "and two are not ahead of four"
assert max(four[0.02, 1]) < 0.6 and min(four[0.16, 1]) > 0.85, "half at one rate, most at another"

# %% [markdown]
# - **Two letters.** One free head answers more than 90 % of the texts, and all of them at a higher
#   learning rate. It must use the letters in its scores: when they may depend on places only, it
#   fails, and nothing else was changed.
# - **Four letters.** At the first rate, one head answers half of the texts. We nearly wrote "half"
#   as a property of one head. At eight times this rate it answers nine in ten. So compare models
#   each at its own best rate: at the best of these three, one head is behind by a tenth of the
#   texts, and two and four heads make no mistake, or hardly any. (We also tried 0.24: there one
#   head answers 94 % and 93 %, still behind. At 0.32 two heads make mistakes too.)
#
# So this experiment shows: at equal parameters and equal steps, the four letters are learned better
# with several heads, at each rate that we tried. It does not show that one wide head can never do
# it: two letters it can.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# The table has `self_attention` on the packed qkv, with any mask. Its split is ours:
#
#     # minigpt/ops/reference/composites.py
#     heads = x.reshape(b, t, n_head, size)
#     return heads.swapaxes(1, 2)
#
# What do heads cost? q k^T needs T T D multiplications for each head, and p v as many: together 2
# T T D NH = 2 T T C for any NH (pairs that the mask hides included). But each head has its own
# shares, so p has NH T T numbers:

# %%
def megabytes_of_p(n_head):
    """p of one layer of GPT-1's width, one text of 512, float32"""
    qkv = np.random.default_rng(2).standard_normal((1, 512, 3 * 768), dtype=np.float32)
    with ops.using("reference"):
        _, cache = ops.self_attention_forward(qkv, n_head)
    return sum(size for name, size in ops.ledger(cache).items() if name.endswith(".p")) / 1e6


their_out, their_cache = ops.self_attention_forward(kept.qkv, NH)
their_dqkv = ops.self_attention_backward(kept.out, their_cache)[0]
assert np.allclose(their_out, kept.merged, rtol=0, atol=1e-13), "the library's forward is ours"
ours = right[1](kept.out, right[0](kept.qkv)[1])
assert np.allclose(their_dqkv, ours, rtol=0, atol=1e-13), "the library's backward is ours"
print("heads   size   multiplications   p, megabytes")
for n_head in (1, 4, 12):
    size = 768 // n_head
    work = n_head * 2 * 512 * 512 * size
    print(f"{n_head:5} {size:6} {work:17,} {megabytes_of_p(n_head):14.1f}")
    assert np.isclose(megabytes_of_p(n_head), n_head * 512 * 512 * 4 / 1e6), "p grows with heads"
all_of_p = megabytes_of_p(12) * 12 * 64 / 1000
print(f"p of 12 layers, for 64 texts: {all_of_p:.1f} GB")
assert round(all_of_p, 1) == 9.7, "p of GPT-1's batch"

# %% [markdown]
# In 12 layers, for GPT-1's batch of 64, p alone has 9.7 GB. Lesson 18 computes attention without
# keeping it.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - **The matrices.** Vaswani et al. write three matrices for each head and one W^O, without biases
#   (section 3.2.2). OpenAI's code has one packed matrix `c_attn` in the order q, k, v, then
#   `c_proj` (W_O), each with a bias.
# - **The number of heads.** The paper's base model has 8 heads of 64. GPT-1 and GPT-2 keep the size
#   64: from 12 heads (C = 768) to 25 heads (C = 1600).
# - **The key bias** is in GPT-1's code, and has no effect (section 5).
# - **Fewer keys than queries.** Later models let several query heads share one head of keys and
#   values (grouped-query attention, Ainslie et al. 2023). Exercise 1 is its backward pass.

# %%
widths = {"GPT-1": (768, 12), "GPT-2 medium": (1024, 16), "GPT-2 XL": (1600, 25)}
print("model          width   heads   size of a head")
for model, (width, heads) in widths.items():
    print(f"{model:12} {width:7} {heads:7} {width // heads:16}")
    assert width / heads == 64, "each head has 64 columns"

# %% [markdown]
# ## 9. To keep
#
# - Heads cut the width, not the time: NH heads of the size D = C / NH work side by side, with as
#   many multiplications as one.
# - W_O adds up what the heads write: each has its own block of D rows, and none depends on another.
# - The backward of splitting is merging; and what raises all scores of a row together has no
#   effect, so the key bias never learns.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/04_heads_and_projections.py`: grouped-query attention, in which several query heads
#    share the same keys and values. Write its backward pass, line by line. Judge it:
#    `python lessons/exercises/04_heads_and_projections.py`.
# 2. `exercises/04_find_the_bug.py`: self-attention that is right with one head and wrong with
#    three.
# 3. On paper: how many parameters has a layer of GPT-1's attention (c_attn and c_proj with
#    biases)? How does the number change when the number of heads doubles?
# 4. Measure: `experiment(n, wanted=FOUR, steps=150)` with n = 4, 8, 16 and 32 heads. A head of
#    size D carries D numbers. Does a model need heads of size 8 to copy one of eight letters?

# %%
largest_error = max(result.error for result in results)
print(f"lesson 04: every check is happy (worst relative error {largest_error:.0e})")
