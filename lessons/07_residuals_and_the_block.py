# %% [markdown]
# # Lesson 07: residuals, dropout, and the block
#
# You will stack 24 layers and watch a gradient die in them, in two ways: once it becomes too quiet to hear, and once
# all positions say the same thing. One plus sign cures the first and holds off the second. You will build dropout
# whose mask nobody stores. And you will put GPT-1's block together and write its backward in four lines.
#
# Reading: 30 minutes. Running: 15 seconds. Before it: lessons 00 to 06.
#
# Papers: He et al. 2016 (arXiv 1512.03385), equation 1: the residual. Vaswani et al. 2017, sections 3.1 and 5.4:
# where the sum, the normalisation and the dropout stand. Srivastava et al. 2014: dropout. Radford et al. 2018
# (GPT-1), equation 2 and figure 1: the block. Dong, Cordonnier and Loukas 2021 (arXiv 2103.03404): attention alone
# makes all positions equal.

# %% [markdown]
# ## 1. Why: two ways to die
#
# We have two things that work on a position: attention, which looks at other positions, and the MLP, which looks at
# itself. Let us call them sub-layers. Nothing seems simpler than to stack them: attention, MLP, attention, MLP, ...
#
# Attention here is lesson 03's with its two linear maps around it. GPT-1 draws weights from N(0, 0.02) at width 768.
# We are at width 48, and draw them larger by sqrt(768 / 48) = 4, so that each product stretches its input as much as
# in GPT-1.

# %%
import math
from functools import partial

import numpy as np

from minigpt import ops
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way

B, T, C, NH = 2, 10, 48, 4
STD = 0.02 * math.sqrt(768 / C)


def attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head, **chance):
    """x (B,T,C) -> out (B,T,C): lesson 03's attention with its two linear maps (`chance` is for section 4)"""
    qkv, c1 = ops.linear_forward(x, w_qkv, b_qkv)
    heads, c2 = ops.self_attention_forward(qkv, n_head, **chance)
    out, c3 = ops.linear_forward(heads, w_o, b_o)
    return out, (c1, c2, c3)


def attend_backward(dout, cache):
    """dout (B,T,C) -> dx, dw_qkv, db_qkv, dw_o, db_o"""
    c1, c2, c3 = cache
    dheads, dw_o, db_o = ops.linear_backward(dout, c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    dx, dw_qkv, db_qkv = ops.linear_backward(dqkv, c1)
    return dx, dw_qkv, db_qkv, dw_o, db_o


def new_block(rng, c, std):
    """12 arrays: weight and bias of attention's two maps, gain and bias of LN1, the MLP's two maps, LN2."""
    maps = [(std * rng.normal(size=size), np.zeros(size[1])) for size in ((c, 3 * c), (c, c), (c, 4 * c), (4 * c, c))]
    return [*maps[0], *maps[1], np.ones(c), np.zeros(c), *maps[2], *maps[3], np.ones(c), np.zeros(c)]


# %% [markdown]
# Now the tower. `plus` and `norm` are the two things we can switch: add what the sub-layer gives to its input instead
# of replacing it, and normalise what comes out (lesson 06). We send a random signal up, a random gradient down, and
# measure at every height. The line with `dx + df` is explained in section 3.

# %%
def sameness(x):
    """The mean cosine between two positions of the first sequence: 0, nothing in common; 1, all the same."""
    unit = x[0] / np.linalg.norm(x[0], axis=-1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)].mean()


def tower(depth, plus, norm):
    """Gradient norm (1 at the top) and sameness of the positions, at every height from bottom to top."""
    rng, one, zero = np.random.default_rng(0), np.ones(C), np.zeros(C)
    x, _ = ops.layernorm_forward(rng.normal(size=(B, T, C)), one, zero)
    caches, same = [], [sameness(x)]
    for _ in range(depth):
        w = new_block(rng, C, STD)
        for forward, backward, weights in (
            (attend_forward, attend_backward, (*w[:4], NH)),
            (ops.mlp_forward, ops.mlp_backward, w[6:10]),
        ):
            f, cache = forward(x, *weights)
            x = x + f if plus else f
            x, ln = ops.layernorm_forward(x, one, zero) if norm else (x, None)
            caches.append((backward, cache, ln))
            same.append(sameness(x))
    dx = rng.normal(size=x.shape)
    dx /= np.linalg.norm(dx)
    norms = [1.0]
    for backward, cache, ln in reversed(caches):
        if norm:
            dx, _, _ = ops.layernorm_backward(dx, ln)
        df, *_ = backward(dx, cache)
        dx = dx + df if plus else df
        norms.append(np.linalg.norm(dx))
    return norms[::-1], same


DEPTHS = (2, 4, 8, 12, 24)
KINDS = {"f(x)": (False, False), "LN(f(x))": (False, True), "x + f(x)": (True, False), "LN(x + f(x))": (True, True)}
towers = {(kind, depth): tower(depth, *switches) for kind, switches in KINDS.items() for depth in DEPTHS}

print("gradient at the bottom, if it is 1 at the top      ", "".join(f"{depth:9}" for depth in DEPTHS), "blocks")
for kind in KINDS:
    print(f"  each sub-layer gives {kind:28}", "".join(f"{towers[kind, depth][0][0]:9.0e}" for depth in DEPTHS))
print("sameness of the positions at the top")
for kind in KINDS:
    print(f"  each sub-layer gives {kind:28}", "".join(f"{towers[kind, depth][1][-1]:9.2f}" for depth in DEPTHS))

assert all(0.5 < towers["LN(x + f(x))", depth][0][0] < 2 for depth in DEPTHS)
assert towers["f(x)", 24][0][0] < 1e-20 and towers["x + f(x)", 24][0][0] > 30
assert towers["LN(f(x))", 24][1][-1] > 0.999 > 0.8 > towers["LN(x + f(x))", 24][1][-1]

# %% [markdown]
# Read the rows.
#
# - `f(x)`. Every sub-layer makes the gradient smaller by a factor, and factors multiply. After 24 blocks, 1e-25 is
#   left: the bottom layers do not hear the loss. This is death by **whisper**.
# - `LN(f(x))`. LayerNorm rescues the size: whatever f shrinks is stretched again. But look below: all positions have
#   become *the same*. With fresh weights attention is nearly a plain average, and averages of averages agree.
#   LayerNorm brings back the size and not the differences. This is death by **chorus**, and the norm of the gradient
#   does not show it.
# - `x + f(x)`. The gradient survives, for f now only adds to what is there. But every sum makes the stream larger,
#   and after 24 blocks the gradient has grown a hundredfold: it will not stay harmless at 48 blocks.
# - `LN(x + f(x))`. Size survives, and of the differences what twelve blocks need: the cosine is 0.46 there, and 0.72
#   after 24. This is GPT-1.

# %% [markdown]
# ## 2. Forward: a sum, a coin, a block
#
# ### The sum
#
# The *residual stream* is what runs from bottom to top. A sub-layer reads it and adds to it. There is little to say
# about the forward of a sum; all the interest is in its backward.

# %%
rng = np.random.default_rng(1)
b, t, c, nh = 2, 3, 4, 2  # sizes for the checks: small and all different (the MLP inside is 16 wide)
x = rng.normal(size=(b, t, c))
w_f = rng.normal(size=(c, c))

f = np.tanh(x @ w_f)  # some sub-layer
z = x + f  # (b, t, c)

# %% [markdown]
# ### Dropout: a coin for every number
#
# In training, GPT-1 sets each number that a sub-layer gives to 0 with probability 0.1, so that nothing above can lean
# on one of them alone. The others are divided by 0.9: then the *average* over coins is the number itself, and nothing
# has to change when the coins are put away.
#
# Where do the coins come from? From a random generator, would be the usual answer. But the backward pass needs the
# same coins again (lesson 00: somebody must remember), so the usual answer stores them. We make chance an
# **argument** instead. A *key* is a number, an element has a place 0, 1, 2, ..., and its coin is a hash of the two: a
# function that stirs its input so well that the result looks like chance. Ask twice and you get the same coin.

# %%
def coins(key, n):
    """n numbers from 0 to 2**32 - 1 that look random, and are a function of the key and of the place 0..n-1"""
    u = np.arange(n, dtype=np.uint32)
    u ^= key  # each of these steps can be undone, so no two places ever share a result ...
    u ^= u >> 16  # high bits reach low bits
    u *= 0x7FEB352D  # low bits reach high bits (multiplication keeps 32 bits of the product)
    u ^= u >> 15
    u += key
    u *= 0x846CA68B
    u ^= u >> 16  # ... and together they carry every bit of the input to every bit of the output
    return u


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    keep = coins(key, x.size).reshape(x.shape) >= int(rate * 2**32)  # True with probability 1 - rate
    return x * keep * (1 / (1 - rate)), (rate, key)  # the cache: two numbers, however large x is


ones, KEY = np.ones(100_000), np.uint32(20180611)
dropped, _ = dropout_forward(ones, rate=0.1, key=KEY)
other, _ = dropout_forward(ones, rate=0.1, key=KEY + np.uint32(1))
zeros, agree = np.mean(dropped == 0), np.mean(dropped == other)
print(f"dropout of ones: {zeros:.3f} of them are zero, the mean is {dropped.mean():.3f}; two keys agree on {agree:.3f}")
assert abs(zeros - 0.1) < 0.004 and abs(dropped.mean() - 1) < 0.004 and abs(agree - 0.82) < 0.004

# %% [markdown]
# Two independent masks agree where both keep (0.81) or both drop (0.01): 0.82. Even neighbouring keys do. So a
# training run makes its keys from (seed, step, layer, site), and has all the chance it needs without storing any.
#
# The element's place is counted in the *whole* batch. Then a machine that holds only the second half gets the coins
# of the second half, and two machines together compute what one would.
#
# ### The block
#
# GPT-1's block, one operation per line. Its 12 parameters are in the order of the published checkpoint.

# %%
weights = [w + rng.normal(size=w.shape) / 3 for w in new_block(rng, c, 0.5)]  # moved off their start
w_qkv, b_qkv, w_o, b_o, g1, b1, w_fc, b_fc, w_proj, b_proj, g2, b2 = weights

a, attn = attend_forward(x, w_qkv, b_qkv, w_o, b_o, nh)
s1 = x + a
n, norm1 = ops.layernorm_forward(s1, g1, b1)
m, fc = ops.mlp_forward(n, w_fc, b_fc, w_proj, b_proj)
s2 = n + m
out, norm2 = ops.layernorm_forward(s2, g2, b2)
assert out.shape == x.shape == (2, 3, 4)

# %% [markdown]
# Look at `s2` once more. **The second sum starts from n, not from x.** What is normalised once stays normalised: x
# itself is gone. We come back to that.

# %% [markdown]
# ## 3. Backward
#
# ### The sum copies, the copy adds
#
# z = x + f: if x grows by 0.001, z grows by 0.001, whatever f is. So dz goes to both terms *unchanged*: a sum forward
# is a copy backward. And x was used twice, in the sum and in f. It touches the loss by two roads, so it hears from
# both, and the messages add (lesson 00): a copy forward is a sum backward.

# %%
dz = rng.normal(size=z.shape)

# z = x + f
dx = dz  # one copy goes straight down
df = dz  # the other one goes into the sub-layer
# f = tanh(x @ w_f)
dx = dx + (df * (1 - f * f)) @ w_f.T  # and what comes out of it is added

from minigpt import gradcheck

dx_true = gradcheck.numeric(lambda v: v + np.tanh(v @ w_f), x.copy(), dz)
assert np.abs(dx - dx_true).max() < 1e-9


# %% [markdown]
# Here is the cure for the whisper: `dx = dz + ...`. However small the second term is, the first one arrives.
#
# ### Dropout
#
# A number that was dropped did not touch the output: its gradient is 0. One that was kept was stretched by 1/0.9, and
# so is its gradient. That is the forward once more, with the same coins, applied to dout.

# %%
def dropout_backward(dout, cache):
    """dout (*) -> dx (*)"""
    rate, key = cache
    # out = x * keep / (1 - rate): the key gives the same keep again
    return dropout_forward(dout, rate=rate, key=key)[0]


# %% [markdown]
# ### The block, line by line

# %%
dout = rng.normal(size=out.shape)

# out = layernorm(s2, g2, b2)
ds2, dg2, db2 = ops.layernorm_backward(dout, norm2)
# s2 = n + m: the sum copies
dn = ds2
dm = ds2
# m = mlp(n, ...): the second use of n, so its gradient is added
dn_of_mlp, *dmlp = ops.mlp_backward(dm, fc)
dn = dn + dn_of_mlp
# n = layernorm(s1, g1, b1)
ds1, dg1, db1 = ops.layernorm_backward(dn, norm1)
# s1 = x + a: the sum copies
dx = ds1
da = ds1
# a = attention(x, ...): the second use of x
dx_of_attention, *dattention = attend_backward(da, attn)
dx = dx + dx_of_attention


# %% [markdown]
# ## 4. Collapse: four lines
#
# Copies need no names of their own. Writing LN', MLP', Attn' for the backward passes, what stands above is
#
#     forward                        backward
#     n   = LN1(x + Attn(x))         dn = LN2'(dout)
#     out = LN2(n + MLP(n))          dn = dn + MLP'(dn)
#                                    dx = LN1'(dn)
#                                    dx = dx + Attn'(dx)
#
# Each plus of the forward is a plus of the backward, in reverse order. Here is the block as one honest pair, with
# dropout on the attention probabilities and on what each sub-layer gives, before it is added: the places of GPT-1.
# For these we take the dropout of the library: ours, with a key that can be folded, `key.fold(site)`, into keys for
# each site.

# %%
def block_forward(x, w_qkv, b_qkv, w_o, b_o, g1, b1, w_fc, b_fc, w_proj, b_proj, g2, b2, *, n_head, rate=0.0, key=None):
    """x (B,T,C) and 12 parameters -> out (B,T,C)"""
    keys = [key and key.fold(site) for site in range(3)]  # key=None is evaluation: no dropout
    a, c1 = attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head, rate=rate, key=keys[0])
    a, c2 = ops.dropout_forward(a, rate=rate, key=keys[1])
    n, c3 = ops.layernorm_forward(x + a, g1, b1)
    m, c4 = ops.mlp_forward(n, w_fc, b_fc, w_proj, b_proj)
    m, c5 = ops.dropout_forward(m, rate=rate, key=keys[2])
    out, c6 = ops.layernorm_forward(n + m, g2, b2)
    return out, (c1, c2, c3, c4, c5, c6)


def block_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4, c5, c6 = cache
    # out = LN2(n + MLP(n))
    dn, *dln_2 = ops.layernorm_backward(dout, c6)
    dm, *dmlp = ops.mlp_backward(ops.dropout_backward(dn, c5), c4)
    dn = dn + dm
    # n = LN1(x + Attn(x))
    dx, *dln_1 = ops.layernorm_backward(dn, c3)
    da, *dattention = attend_backward(ops.dropout_backward(dx, c2), c1)
    dx = dx + da
    return dx, *dattention, *dln_1, *dmlp, *dln_2


short_out, cache = block_forward(x, *weights, n_head=nh)
short = block_backward(dout, cache)
assert np.array_equal(short_out, out)
for mine, line_by_line in zip(short, (dx, *dattention, dg1, db1, *dmlp, dg2, db2), strict=True):
    assert np.array_equal(mine, line_by_line)

# %% [markdown]
# Multiply the lines out and you see the roads: dx = (1 + Attn') LN1' (1 + MLP') LN2' dout. Each bracket is a fork:
# past the sub-layer, or through it. So four roads lead down through a block, and 4^12 = 16,777,216 through the twelve
# of GPT-1. Without the plus signs there is one: the longest.

# %% [markdown]
# ## 5. Check: every parameter of the block
#
# With dropout on: the coins are part of the function. (With coins from a generator that moves on at every call,
# nudging would compare the losses of two different networks, and find nonsense. A key makes even chance checkable.)

# %%
names = ("x", "c_attn.w", "c_attn.b", "c_proj.w", "c_proj.b", "ln_1.g", "ln_1.b")
names += ("c_fc.w", "c_fc.b", "mlp.w", "mlp.b", "ln_2.g", "ln_2.b")
constants = {"n_head": nh, "rate": 0.1, "key": ops.Key.of(0, 1)}
results = gradcheck.check(dropout_forward, dropout_backward, (x,), {"rate": 0.1, "key": KEY}, names=("dropout x",))
results += gradcheck.check(block_forward, block_backward, (x, *weights), constants, names)
for result in results:
    print(f"  {result.name:10} {result.error:.0e} {result.word}")
worst = max(result.error for result in results)
assert worst < 1e-8


# %% [markdown]
# **The trap: it trains, so it must be right.** Let us forget a residual, as happens to everybody once: one of the two
# plus signs of the backward. And let us give the forward other wires too. `plus_1` and `plus_2` are what is added to
# the attention's and to the MLP's result; `heard` are the sums that the backward remembers.

# %%
def other_forward(x, *w, n_head, plus_1="x", plus_2="n"):
    """The block, with a choice of what is added where; None adds nothing."""
    a, c1 = attend_forward(x, *w[:4], n_head)
    n, c3 = ops.layernorm_forward(x + a if plus_1 else a, *w[4:6])
    m, c4 = ops.mlp_forward(n, *w[6:10])
    out, c6 = ops.layernorm_forward({"n": n, "x": x, None: 0}[plus_2] + m, *w[10:])
    return out, (c1, c3, c4, c6)


def other_backward(dout, cache, heard="xn"):
    """The block's backward, which hears from a sum only if its letter is in `heard`."""
    c1, c3, c4, c6 = cache
    dn, *dln_2 = ops.layernorm_backward(dout, c6)
    dm, *dmlp = ops.mlp_backward(dn, c4)
    dx, *dln_1 = ops.layernorm_backward(dn + dm if "n" in heard else dm, c3)
    da, *dattention = attend_backward(dx, c1)
    return dx + da if "x" in heard else da, *dattention, *dln_1, *dmlp, *dln_2


TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the red kite in the tree. "
    "I can not reach it, says Mina. Tom has a long stick. Tom takes the stick to the tree and the kite comes down. "
    "Thank you, Tom, says Mina. Now Tom and Mina run to the hill, and the red kite is high in the wind. "
)
letters = sorted(set(TEXT))
ids = np.array([letters.index(letter) for letter in TEXT])
V, LENGTH, WIDTH = len(letters), 16, 32


def predict(model, forward, starts):
    """Two blocks between a token table and a linear map: the loss of the next letter, for windows of the text."""
    window = ids[starts[:, None] + np.arange(LENGTH + 1)]
    h, table = ops.embedding_forward(model[0], window[:, :-1])
    h1, c1 = forward(h + model[1], *model[3:15], n_head=4)
    h2, c2 = forward(h1, *model[15:], n_head=4)
    loss, head = ops.linear_cross_entropy_forward(h2, model[2], window[:, 1:])
    return loss, (table, c1, c2, head)


def train(forward, backward, steps=400, rate=0.2):
    """Plain gradient descent: every parameter takes a step down its gradient."""
    rng = np.random.default_rng(0)
    model = [0.1 * rng.normal(size=(rows, WIDTH)) for rows in (V, LENGTH, V)]  # tokens, positions, head
    model += new_block(rng, WIDTH, 0.1) + new_block(rng, WIDTH, 0.1)
    losses = []
    for _ in range(steps):
        loss, (table, c1, c2, head) = predict(model, forward, rng.integers(0, len(ids) - LENGTH, size=8))
        dh2, dhead, _ = ops.linear_cross_entropy_backward(1.0, head)
        dh1, *dblock2 = backward(dh2, c2)
        dh, *dblock1 = backward(dh1, c1)
        gradients = [ops.embedding_backward(dh, table), dh.sum(axis=0), dhead, *dblock1, *dblock2]
        for parameter, gradient in zip(model, gradients, strict=True):
            parameter -= rate * gradient
        losses.append(loss)
    return np.array(losses), model


frequency = np.bincount(ids) / len(ids)
only_letters = -(frequency * np.log(frequency)).sum()
runs = {
    "right": (other_forward, other_backward),
    "backward forgets x +": (other_forward, partial(other_backward, heard="n")),
    "backward forgets n +": (other_forward, partial(other_backward, heard="x")),
    "no plus in forward and backward": (
        partial(other_forward, plus_1=None, plus_2=None), partial(other_backward, heard="")),
}  # fmt: skip
curves, models, wrong = {}, {}, {}
print("loss at the start and at the end")
for name, (forward, backward) in runs.items():
    curves[name], models[name] = train(forward, backward)
    checked = gradcheck.check(forward, backward, (x, *weights), {"n_head": nh}, names)
    wrong[name] = ", ".join(result.name for result in checked if result.word != "happy") or "none"
    print(f"  {name:32} {curves[name][0]:.2f} -> {curves[name][-50:].mean():.2f}   wrong gradients: {wrong[name]}")
print(f"  knowing only how frequent each letter is: {only_letters:.2f}")

final = {name: curve[-50:].mean() for name, curve in curves.items()}
assert final["right"] < 1.2 and all(final[f"backward forgets {letter} +"] < 2 for letter in "xn")
assert min(final["backward forgets x +"], final["backward forgets n +"]) > final["right"] + 0.2
assert abs(final["no plus in forward and backward"] - only_letters) < 0.1
assert wrong["right"] == wrong["no plus in forward and backward"] == "none" and wrong["backward forgets x +"] == "x"

# %% [markdown]
# Both wrong backwards *train*. Their loss falls from 3.5 to 1.5 and 1.3, like any loss; whoever has seen no other
# curve is content. A falling loss proves little: even a distorted message tells the upper layers something.
#
# Now the last column. Forget `x +`, and **all 12 parameters of the block check out**. Only dx is wrong, the message
# to the blocks below. A check of parameters alone, on one block, would have found nothing. So: every input *and*
# every parameter.
#
# And the last run: forward without plus signs, with the backward that belongs to it. Its gradients are right to eight
# digits, and it learns how frequent each letter is, and no more (2.8): in the chorus nobody knows what letter was
# just read. A right gradient of a bad design is no help either.
#
# ### The surprise: n, not x
#
# The second sum starts from n. Let us wire it to x instead, as the words "a residual around each sub-layer" could
# also be read. All shapes fit, and gradients would check. With fresh weights a block on normalised input hardly
# differs. A *trained* model does:

# %%
stream, _ = ops.layernorm_forward(rng.normal(size=(B, T, C)), np.ones(C), np.zeros(C))
fresh = new_block(rng, C, STD)
from_n, from_x = (other_forward(stream, *fresh, n_head=NH, plus_2=plus)[0] for plus in "nx")
apart = np.linalg.norm(from_x - from_n) / np.linalg.norm(from_n)
everywhere = np.arange(len(ids) - LENGTH)
as_trained, rewired = (
    predict(models["right"], partial(other_forward, plus_2=plus), everywhere)[0] for plus in "nx"
)
print(f"x instead of n: a fresh block gives something {100 * apart:.0f} % different;")
print(f"                a trained model's loss goes from {as_trained:.2f} to {rewired:.2f}")
assert apart < 0.3 and rewired > as_trained + 0.5

# %% [markdown]
# So every LayerNorm of GPT-1 stands *on* the stream, and no road from bottom to top avoids them: each divides by the
# size of its sum. Where a sub-layer's result is as large as the stream, that is a division by sqrt(2), and 24 in a
# row make 4,096. Lesson 09 shows what it costs (warm-up), and lesson 16 how GPT-2 clears the road by moving LayerNorm
# into the branch.

# %% [markdown]
# ## 6. See it

# %%
from minigpt import plot

plt = plot.plt
figure, (quiet, chorus, learning) = plt.subplots(1, 3, figsize=(13, 4))
colors = dict(zip(KINDS, ("tab:red", "tab:orange", "tab:purple", "tab:green"), strict=True))
for kind, color in colors.items():
    norms, same = towers[kind, 24]
    style = {"color": color, "linewidth": 3 if kind == "f(x)" else 1.5, "label": kind}
    quiet.semilogy(np.arange(49) / 2, norms, **style)
    chorus.plot(np.arange(49) / 2, same, **style)
quiet.set(title="The whisper: gradient at each height (top = 1)", ylabel="norm of the gradient")
chorus.set(title="The chorus: how alike positions are", ylabel="mean cosine of two positions")
for axes in (quiet, chorus):
    axes.set(xlabel="height (blocks)")
quiet.legend(title="each sub-layer gives", loc="lower right")
for (name, curve), color in zip(curves.items(), ("tab:green", "tab:blue", "tab:brown", "tab:red"), strict=True):
    learning.plot(np.convolve(curve, np.ones(20) / 20, "valid"), color=color, label=name)
learning.axhline(only_letters, color="gray", linestyle=":", label="letter frequencies only")
learning.set(title="Forgetting a plus still trains", xlabel="step", ylabel="loss (nats per letter)", ylim=(0, None))
learning.legend(fontsize="small")
plot.save(figure, "07_residuals_and_the_block.png")

# %% [markdown]
# Left: without a norm the plus keeps the gradient alive, and lets it grow; with both it reaches the bottom as it left
# the top. LN(f(x)) looks nearly healthy here. Middle: it is not; its positions are all alike after two blocks. With the
# plus they grow alike too, but slowly. Right: two wrong backwards that look like learning.

# %% [markdown]
# ## 7. In the library
#
# `minigpt.models.gpt1.Block` is the same four lines; its parts own the parameters and hand caches up (lesson 08).
# Its plus is written `ops.add(x, y)`, which is x + y; on a GPU a kernel makes it (lesson 20).
# Ours against the library's, with dropout on:

# %%
from minigpt.models.gpt1 import Block, GPT1Config

config = GPT1Config(vocab_size=9, n_positions=5, n_embd=c, n_layer=1, n_head=nh)
library = Block(config, np.random.default_rng(0), np.float64)
for parameter, weight in zip(library.parameters(), weights, strict=True):
    parameter.data = weight
key = ops.Key.of(0, 1)
library_out, library_cache = library.forward(x, key=key)
my_out, my_cache = block_forward(x, *weights, n_head=nh, rate=0.1, key=key)
assert np.array_equal(my_out, library_out)
gradients = [library.backward(dout, library_cache), *(parameter.grad for parameter in library.parameters())]
for mine, theirs in zip(block_backward(dout, my_cache), gradients, strict=True):
    assert np.allclose(mine, theirs, rtol=0, atol=1e-12)
by_dropout = ops.nbytes((my_cache[1], my_cache[4]))
print(f"our block caches {ops.nbytes(my_cache):,} bytes, of which its two dropouts {by_dropout}")
assert by_dropout == 0
u = ops.dropout_forward(np.ones(1000), rate=0.1, key=ops.Key(int(KEY)))[0]
assert np.array_equal(u, dropout_forward(np.ones(1000), rate=0.1, key=KEY)[0])  # the same hash, to the bit

coins_of_a_block = 12 * 512 * 512 + 2 * 512 * 768  # GPT-1: probabilities of 12 heads, and two results of 512 x 768
print(f"masks that GPT-1 need not store, batch 64, one byte each: {64 * 12 * coins_of_a_block / 1e9:.1f} GB")
assert 64 * 12 * coins_of_a_block == 3_019_898_880

# %% [markdown]
# ## 8. Paper and code
#
# - Equation 2 of the GPT-1 paper says `h_l = transformer_block(h_(l-1))` and no more. Figure 1 shows the order,
#   OpenAI's code settles it: `n = norm(x + attn(x))`, `h = norm(n + mlp(n))`. There is no LayerNorm on the
#   embeddings, and none after the last block, whose own second one is the end.
# - Vaswani et al. write LayerNorm(x + Sublayer(x)) (section 3.1) and put dropout on the sub-layer's result, before
#   the sum (section 5.4). GPT-1 keeps both, and drops attention probabilities as well; the rate is 0.1 everywhere
#   (section 4.1).
# - OpenAI's code draws its masks from TensorFlow's generator and keeps them for the backward pass. Keys and hashes
#   are our choice.
#
# ## 9. Exercises
#
# 1. `lessons/exercises/07_dropout.py`: write dropout so that it needs no memory. `minigpt check` judges it.
# 2. `lessons/exercises/07_find_the_bug.py`: a block with one wrong word in its backward. Run it: it checks itself.
# 3. Pencil: a dropped-out *sum*, dropout(x + f), instead of x + dropout(f): with rate 0.1, what is the probability
#    that a number of the embedding survives 24 of them? Try it in `tower`, and look at the norm of the gradient.

# %%
print(f"lesson 07: every check is happy (worst relative error {worst:.0e})")
