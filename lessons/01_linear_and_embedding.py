# %% [markdown]
# # Lesson 01: linear and embedding
#
# You will build the two operations that hold almost every parameter of a Transformer: the weighted sum, and the table
# of vectors. You will derive their gradients index by index, see why the shapes alone nearly give them away, and train
# a small model with them that finds out, from a manual about a programming language, what a vowel is.
#
# Reading: 30 minutes. Running: 6 seconds. Before it: lesson 00.
#
# Papers: GPT-1 (Radford et al. 2018), equation 2. Bengio et al. 2003 (JMLR 3), section 2: the table of word vectors.
# Press and Wolf 2017 (arXiv 1608.05859): one table for input and output.

# %% [markdown]
# ## 1. Why: an id is not a quantity
#
# Lesson 10 turned text into ids. But id 6 is not twice id 3: ids are names, like the numbers on football shirts. No sum
# or product of them means anything. A model wants quantities that it can add and weigh. So every id gets a list of
# numbers of its own, a vector, and these are *learnt*. That is an **embedding**: a table with one row for each token.
#
# What does one do with quantities? Weigh them and add them up. One unit with three inputs, by hand:

# %%
import numpy as np

x = np.array([1.0, 2.0, 3.0])
w = np.array([0.5, -1.0, 2.0])
b = 0.25
out = 1.0 * 0.5 + 2.0 * -1.0 + 3.0 * 2.0 + b
print(f"one unit: {out}")
assert out == x @ w + b == 4.75

# %% [markdown]
# Many such units side by side, all looking at the same inputs, are a **linear** layer. GPT-1 has 116,534,784
# parameters, and all of them but one in a thousand are weights of linear layers or rows of tables.

# %% [markdown]
# ## 2. Forward
#
# **Linear.** N rows of I inputs each; O units. The weights stand in one array w (I, O): column o belongs to unit o.
# First the plain loops, which hide nothing:

# %%
rng = np.random.default_rng(0)
N, I, O = 5, 3, 4  # rows, inputs, outputs: all different
x, w, b = rng.normal(size=(N, I)), rng.normal(size=(I, O)), rng.normal(size=O)

out = np.zeros((N, O))
for n in range(N):
    for o in range(O):
        out[n, o] = b[o]
        for i in range(I):
            out[n, o] += x[n, i] * w[i, o]

assert np.allclose(out, x @ w + b)  # the three loops are one matrix product

# %% [markdown]
# The rows know nothing of each other. If x comes as B sequences of T positions, (B, T, I), that is just B times T rows:
# lay them under each other, multiply, and give them their places back.
#
# **Embedding.** Take rows out of a table w (V, C).

# %%
V, C = 7, 6
table = rng.normal(size=(V, C))
ids = np.array([[2, 5, 2], [0, 2, 6]])  # (B, T): token 2 comes three times

taken = table[ids]  # (B, T, C)
one_hot = np.zeros((2, 3, V))
one_hot[np.arange(2)[:, None], np.arange(3), ids] = 1  # each row is zero, but for a 1 at its id
assert taken.shape == (2, 3, 6) and np.array_equal(taken, one_hot @ table)

# %% [markdown]
# So an embedding *is* a linear layer, with inputs that are one-hot. It is written that way in GPT-1's equation 2.
# Nobody computes it that way: for 512 positions, 40,478 tokens and width 768 that would be 16 billion multiplications,
# nearly all by zero, to copy 512 rows.

# %%
assert round(512 * 40_478 * 768 / 1e9) == 16

# %% [markdown]
# ## 3. Backward, under the line that it undoes
#
# The innermost line of the loops is `out[n,o] += x[n,i] * w[i,o]`. If x[n,i] grows by a little, out[n,o] grows by
# w[i,o] times as much. So the message dout[n,o] goes to dx[n,i] with the factor w[i,o]; likewise it goes to dw[i,o]
# with the factor x[n,i]. Each number that was used in several places adds up what it hears.

# %%
dout = rng.normal(size=(N, O))
dx, dw, db = np.zeros((N, I)), np.zeros((I, O)), np.zeros(O)
for n in range(N):
    for o in range(O):
        for i in range(I):
            # out[n, o] += x[n, i] * w[i, o]
            dx[n, i] += dout[n, o] * w[i, o]
            dw[i, o] += x[n, i] * dout[n, o]
        # out[n, o] = b[o]
        db[o] += dout[n, o]

# %% [markdown]
# And the embedding: `taken[b, t] = table[ids[b, t]]` is a copy. A row hears from every place that it was copied to.

# %%
dtaken = rng.normal(size=(2, 3, C))
dtable = np.zeros((V, C))
for i in np.ndindex(ids.shape):
    # taken[i] = table[ids[i]]
    dtable[ids[i]] += dtaken[i]

assert np.allclose(dtable[2], dtaken[0, 0] + dtaken[0, 2] + dtaken[1, 1])  # taken three times, heard three times
assert not dtable[[1, 3, 4]].any()  # never taken, never heard

# %% [markdown]
# ## 4. The pencil work: collapse to matrices
#
# Read the loops as sums. With rows n, inputs i, outputs o:
#
#     out[n,o] = sum_i x[n,i] w[i,o] + b[o]
#
#     dx[n,i]  = sum_o dout[n,o] w[i,o]  = sum_o dout[n,o] w^T[o,i]      dx = dout w^T
#     dw[i,o]  = sum_n x[n,i] dout[n,o]  = sum_n x^T[i,n] dout[n,o]      dw = x^T dout
#     db[o]    = sum_n dout[n,o]                                         db = sum of the rows of dout
#
# A matrix product sums over the index that stands inside. Where the index is outside, a transpose brings it in. What
# each is summed over is worth a thought: dx over *outputs*, since an input touches every unit; dw and db over *rows*,
# since all rows use the same weights.
#
# If you forget the formulas, **let the shapes tell you.** dw must be (I, O). We have x (N, I) and dout (N, O). There is
# one way to multiply these into (I, O): x^T dout. This is a crutch, not a proof, and it breaks when two sizes are
# equal. Hence our sizes, all different.
#
# The embedding is one_hot times table, so its gradient is one_hot^T dtaken: into each row of the table, the sum over
# the places where its one stands. Adding rows into places given by ids is called a scatter-add.

# %%
def linear_forward(x, w, b):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w
    out = out + b
    return out.reshape(*x.shape[:-1], -1), (x, w)


def linear_backward(dout, cache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,)"""
    x, w = cache
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    # out = out + b
    db = drows.sum(axis=0)
    # out = rows @ w
    dw = rows.T @ drows
    dx = drows @ w.T
    return dx.reshape(x.shape), dw, db


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)"""
    return w[ids], (w, ids)


def embedding_backward(dout, cache):
    """dout (*,C) -> dw (V,C)"""
    w, ids = cache
    dw = np.zeros_like(w)
    # out = w[ids]
    np.add.at(dw, ids, dout)
    return dw


_, cache = linear_forward(x, w, b)
for collapsed, loops in zip(linear_backward(dout, cache), (dx, dw, db), strict=True):
    assert np.allclose(collapsed, loops, rtol=0, atol=1e-14)
_, cache = embedding_forward(table, ids)
assert np.allclose(embedding_backward(dtaken, cache), dtable, rtol=0, atol=1e-14)
assert np.allclose(one_hot.reshape(-1, V).T @ dtaken.reshape(-1, C), dtable, rtol=0, atol=1e-14)

# %% [markdown]
# ## 5. Check
#
# Against finite differences, with the checker of lesson 00. (Ids have no gradient: what would half a token be?)

# %%
from minigpt import gradcheck

x3 = rng.normal(size=(2, 5, I))  # three axes, as in a model
results = gradcheck.check(linear_forward, linear_backward, (x3, w, b))
results += gradcheck.check(embedding_forward, embedding_backward, (table, ids))
print(gradcheck.table(results))
assert all(result.error < 1e-9 for result in results)


# %% [markdown]
# **The trap.** `np.add.at` is a strange name. Why not `dw[ids] += dout`? Try it, with ids that are all different, and
# then with ours:

# %%
def trapped_backward(dout, cache):
    w, ids = cache
    dw = np.zeros_like(w)
    dw[ids] += dout
    return dw


all_different = np.array([[2, 5, 3], [0, 1, 6]])
[careless] = gradcheck.check(embedding_forward, trapped_backward, (table, all_different))
[careful] = gradcheck.check(embedding_forward, trapped_backward, (table, ids))
print(f"dw[ids] += dout: all ids different, {careless.word}; token 2 three times, {careful.word}:")
print(gradcheck.table([careful]))
assert careless.error < 1e-9 and careful.word == "wrong"

# %% [markdown]
# NumPy reads `dw[ids] += dout` as three steps: take the rows, add, put them back. Three copies of row 2 are taken, each
# gets its own message, and they are put back one over the other: only the last remains. A check on ids without
# repetition cannot see it. In real text every batch repeats `the` hundreds of times.
#
# **A table that hears twice.** GPT-1 uses its token table once more at the end: the score of token v is the product of
# the last state with row v, `logits = h w^T`. One array, two roles. By lesson 00, what is used by two roads adds both
# messages:

# %%
def tied_forward(w, ids):
    h, taken = embedding_forward(w, ids)
    logits, head = linear_forward(h, w.T, np.zeros(len(w), w.dtype))
    return logits, (taken, head)


def tied_backward(dlogits, cache, roads=("input", "output")):
    taken, head = cache
    # logits = h @ w.T
    dh, dw_t, _ = linear_backward(dlogits, head)
    # h = w[ids]
    dw_input = embedding_backward(dh, taken)
    return dw_input * ("input" in roads) + dw_t.T * ("output" in roads)


for roads in (("input",), ("output",), ("input", "output")):
    [result] = gradcheck.check(tied_forward, lambda d, cache, r=roads: tied_backward(d, cache, r), (table, ids))
    print(f"  hears from {' and '.join(roads)}: relative error {result.error:.0e}, {result.word}")
    assert (result.word == "happy") == (len(roads) == 2)

# %% [markdown]
# Note who hears what. By the input road only the rows hear whose tokens occurred. By the output road *every* row hears,
# at every position: the tokens that did not come are told so.

# %% [markdown]
# ## 6. See it: what letters are alike?
#
# A model as small as it gets: look at one letter, guess the next. The letter's vector has two numbers, so that we can
# draw it; a linear layer turns them into 27 scores, 26 letters and the space. How wrong the scores are, and the first
# message `dlogits`, we borrow from lesson 02. All the rest is above. The text is Python's own manual.

# %%
import re
from pydoc_data.topics import topics

from minigpt import ops, plot

plt = plot.plt
text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())
LETTERS = " abcdefghijklmnopqrstuvwxyz"
text_ids = np.array([LETTERS.index(letter) for letter in text])
STEPS, ROWS, RATE = 2500, 512, 2.0


def train(embedding_backward):
    """Learn with one of the two backwards; the table, and the loss of every step."""
    rng = np.random.default_rng(2)
    w, u, b = 0.1 * rng.normal(size=(27, 2)), 0.1 * rng.normal(size=(2, 27)), np.zeros(27)
    losses = []
    for _ in range(STEPS):
        places = rng.integers(len(text_ids) - 1, size=ROWS)
        h, taken = embedding_forward(w, text_ids[places])
        logits, head = linear_forward(h, u, b)
        loss, cache = ops.cross_entropy_forward(logits, text_ids[places + 1])

        dlogits = ops.cross_entropy_backward(1.0, cache)
        dh, du, db = linear_backward(dlogits, head)
        dw = embedding_backward(dh, taken)

        w, u, b = w - RATE * dw, u - RATE * du, b - RATE * db  # a step downhill
        losses.append(float(loss))
    return w, np.array(losses)


letters, losses = train(embedding_backward)
_, trapped_losses = train(trapped_backward)
print(f"loss: at the start {losses[0]:.2f} (guessing: ln 27 = {np.log(27):.2f}), in the end {losses[-500:].mean():.2f}")
for name, curve in (("right", losses), ("trapped", trapped_losses)):
    print(f"  {name} gradient: {curve[150:250].mean():.2f} after 200 steps, {curve[-500:].mean():.2f} in the end")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), width_ratios=(1.2, 1))
for letter, (across, up) in zip(LETTERS, letters, strict=True):
    kind = "tab:red" if letter in "aeiou" else "tab:blue"
    left.text(across, up, letter.replace(" ", "space"), color=kind, ha="center", va="center", fontsize=13)
low, high = letters.min(axis=0) - 0.2, letters.max(axis=0) + 0.2
left.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="first number", ylabel="second number")
left.set_title("What the table learnt: vowels (red) keep together")
for name, curve in (("np.add.at(dw, ids, dout)", losses), ("dw[ids] += dout", trapped_losses)):
    right.plot(np.convolve(curve, np.ones(50) / 50, "valid"), label=name)
right.set(xlabel="step", ylabel="loss (lesson 02; mean of 50 steps)")
right.set_title("A wrong gradient learns, too")
right.legend()
plot.save(figure, "01_linear_and_embedding.png")

vowels = np.array([letter in "aeiou" for letter in LETTERS])
consonants = np.array([letter in "bcdfghjklmnpqrstvwxz" for letter in LETTERS])  # without y
towards = letters[vowels].mean(axis=0) - letters[consonants].mean(axis=0)
assert (letters[vowels] @ towards).min() > (letters[consonants] @ towards).max()  # a straight line parts them
assert letters[LETTERS.index("y")] @ towards > (letters[consonants] @ towards).max()
assert losses[-500:].mean() < 2.6 and abs(losses[0] - np.log(27)) < 0.05
assert trapped_losses[150:250].mean() > losses[150:250].mean() + 0.1  # slower
assert abs(trapped_losses[-500:].mean() - losses[-500:].mean()) < 0.02  # and in the end there

# %% [markdown]
# Nobody told the model about vowels. It had to say what comes next, two numbers were all it could keep of a letter,
# and what follows a vowel differs most from what follows a consonant. The y, which is half a vowel, stands at the
# vowels' edge. **Similar use, similar vector**: that is what a table learns, of letters here, of 40,478 tokens in
# GPT-1.
#
# Now the right side, **the surprise of this lesson**: the wrong gradient learns as well, and arrives at the same loss.
# In a batch of 512 the letter e occurs some fifty times, and hears only the last message, a fiftieth of the sum. The
# one message points, on average, where the sum points; so e goes the same way, fifty times slower. A rare letter, alone
# in its batch, hears everything. Had we seen only the orange curve, we would have called it a success, and wondered
# about the learning rate. *A falling loss is no proof of a right gradient.* The check takes milliseconds.

# %% [markdown]
# ## 7. In the library
#
# The same two pairs stand in the table. Their forwards add what a library owes its users: `b` may be left out, and an
# id outside the table is an error in plain words.

# %%
ops.use("reference")  # the table's own version of this mathematics; it has a faster one too
out, cache = ops.linear_forward(x3, w, b)
dout = rng.normal(size=out.shape)
assert np.array_equal(out, linear_forward(x3, w, b)[0])
ours = linear_backward(dout, (x3, w))
assert all(np.array_equal(mine, yours) for mine, yours in zip(ours, ops.linear_backward(dout, cache), strict=True))
taken, taken_cache = ops.embedding_forward(table, ids)
assert np.array_equal(taken, table[ids])
assert np.allclose(ops.embedding_backward(dtaken, taken_cache), dtable, rtol=0, atol=1e-14)
print("linear keeps", ops.ledger(cache), "and embedding", ops.ledger(taken_cache))
assert ops.ledger(cache)["x"] == x3.nbytes and ops.ledger(taken_cache)["ids"] == ids.nbytes

# %% [markdown]
# The weights are no cost, for they exist anyway; the cache only points at them. What linear costs is **x**: it stays
# alive until the backward, since dw needs it. An embedding keeps only its ids. This is why in a Transformer the memory
# for activations is, to a large part, inputs of linear layers.

# %% [markdown]
# ## 8. Paper and code
#
# - GPT-1's equation 2: h_0 = U W_e + W_p, where U holds the one-hot tokens; then P(u) = softmax(h_n W_e^T). W_p is a
#   second table, with one row for each *position*. Its gradient is a scatter-add as well: position t hears from every
#   sequence.
# - In OpenAI's code W_e and W_p are one array, tokens first, positions behind; each input is a pair of row numbers, and
#   two rows are added. The scores at the end are taken with *all* rows, the positions too. Hugging Face's version, and
#   ours, keep two tables.
# - The code calls its linear layers `conv1d` and stores weights as (1, in, out), a convolution of width 1. PyTorch's
#   `nn.Linear` stores (out, in) and computes x W^T. We store (in, out), like the released weights, so that `x @ w`
#   reads as it is written.
# - Vaswani et al. 2017 (section 3.4) multiply embeddings by sqrt(C). GPT-1 does not.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/01_linear_and_embedding.py`: write both backwards, for any number of leading axes, and without
#    `np.add.at`: sort the ids, or use a one-hot product. Judge it: `minigpt check
#    lessons/exercises/01_linear_and_embedding.py`.
# 2. `exercises/01_find_the_bug.py`: a linear layer whose shapes are all right. Some of its numbers are not. Judge it
#    with `minigpt check`, too.
# 3. With pencil: h = x w1 and out = h w2, with nothing between. Show that out and dx are those of *one* linear layer
#    with the matrix w1 w2. Of what use is it then to stack linear layers? (Lesson 05 puts something between.)

# %%
worst = max(result.error for result in results)
print(f"lesson 01: every check is happy (worst relative error {worst:.0e})")
