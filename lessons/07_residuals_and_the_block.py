# %% [markdown]
# # Lesson 07: residuals, dropout, and the block
#
# You will stack attention and MLP 24 blocks deep, and see two things go wrong: the gradient
# vanishes, or all positions become the same. One plus sign prevents the first and slows down the
# second. You will see why with numbers on a graph, and build dropout whose mask need not be stored.
# You will put GPT-1's block together and write its backward pass in four lines. At the end, two
# wrong backward passes train quite well.
#
# Reading: 25 minutes for the core, 90 minutes for all of it. Running: 15 to 40 seconds. Before it:
# lessons 00 to 06. The deeper parts make two sittings, with a pause before section 6.
#
# Papers: He et al. 2016 (arXiv 1512.03385), equation 1: the residual. Vaswani et al. 2017, sections
# 3.1 and 5.4: where the sum, the normalisation and the dropout stand. Srivastava et al. 2014:
# dropout. Radford et al. 2018 (GPT-1), equation 2 and figure 1: the block. Dong, Cordonnier and
# Loukas 2021 (arXiv 2103.03404): attention without residuals and MLPs makes all positions equal.

# %% [markdown]
# ## 1. Why: two things go wrong in a deep network
#
# Our model so far has two layers: attention and MLP, with a LayerNorm behind each.

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import lines, small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("07")
assert so_far["two layers with LayerNorms"] > so_far["letter frequencies"] - 0.2, "hardly better"

# %% [markdown]
# Its numbers keep their scale, and yet it has learnt hardly more than how often each letter occurs.
# This lesson adds one plus sign to it.
#
# We have two layers that work on a position: attention (lesson 04), which looks at other positions,
# and the MLP (lesson 05), which looks at the position itself. Each is called a *sub-layer*. The
# simplest deep network puts one after the other: attention, MLP, attention, MLP, and so on.
#
# Then two things go wrong. A sub-layer with GPT-1's fresh weights makes the gradient smaller, and
# many of them make it vanish. And attention takes averages, so the positions become alike. Both
# are measured below, in 24 blocks; one plus sign prevents the first and slows down the second.
#
# Attention is lesson 04's, with several heads: a linear map to queries, keys and values, the
# heads, and a linear map back. GPT-1 draws its weights from N(0, 0.02^2) at width 768. Our width
# is 48. So we draw them larger by sqrt(768 / 48) = 4: then a product with a matrix changes the
# scale of its input as much as in GPT-1. (Attention is not the same: it averages over at most 10
# positions here, and over up to 512 in GPT-1.)

# %%
from minigpt import ops, plot


def attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head, **dropout):
    """x (B,T,C) -> out (B,T,C). dropout: rate and key, for section 4"""
    qkv, c1 = ops.linear_forward(x, w_qkv, b_qkv)
    heads, c2 = ops.self_attention_forward(qkv, n_head, **dropout)
    out, c3 = ops.linear_forward(heads, w_o, b_o)
    return out, (c1, c2, c3)


def attend_backward(dout, cache):
    """dout (B,T,C) -> dx, dw_qkv, db_qkv, dw_o, db_o"""
    c1, c2, c3 = cache
    dheads, dw_o, db_o = ops.linear_backward(dout, c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    return *ops.linear_backward(dqkv, c1), dw_o, db_o


print("attention layer:", attend_forward.__doc__)

# %% [markdown]
# The twelve arrays of a block, in the order of the published checkpoint: two linear maps of the
# attention, gain and bias of a LayerNorm, two linear maps of the MLP, gain and bias of a second
# LayerNorm.

# %%
import math

B, T, C, NH = 2, 10, 48, 4
STD = 0.02 * math.sqrt(768 / C)


def linear_map(rng, rows, columns, std):
    return [std * rng.normal(size=(rows, columns)), np.zeros(columns)]


def new_block(rng, c, std):
    attention = linear_map(rng, c, 3 * c, std) + linear_map(rng, c, c, std)
    mlp = linear_map(rng, c, 4 * c, std) + linear_map(rng, 4 * c, c, std)
    return [*attention, np.ones(c), np.zeros(c), *mlp, np.ones(c), np.zeros(c)]


shapes = [w.shape for w in new_block(np.random.default_rng(0), C, STD)]
print("a block at width 48:", *shapes[:6], "\n                    ", *shapes[6:])
print("parameters:", sum(math.prod(shape) for shape in shapes))

# %% [markdown] tags=["deeper"]
# ### The tower: 24 blocks, measured
#
# Now the deep network. Two things can be switched. Without `plus`, what a sub-layer computes
# replaces its input; with `plus` it is added to its input. `norm` is a LayerNorm after that. We
# send a random input up and a random gradient down. At every height we measure two things:
#
# - the length (norm) of the gradient, which is 1 at the top;
# - the *mean cosine* of two positions: 0 means that their vectors are at right angles, 1 that all
#   positions hold the same vector, up to a factor.

# %%
def mean_cosine(x):  # of all pairs of positions of the first sequence
    unit = x[0] / np.linalg.norm(x[0], axis=-1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)].mean()


def up(depth, plus, norm, attention=True, mlp=True, seed=0):
    """The caches of all sub-layers from bottom to top, and the mean cosine at every height."""
    rng, one, zero = np.random.default_rng(seed), np.ones(C), np.zeros(C)
    x, _ = ops.layernorm_forward(rng.normal(size=(B, T, C)), one, zero)
    caches, cosines = [], [mean_cosine(x)]
    for _ in range(depth):
        w, sub_layers = new_block(rng, C, STD), []
        if attention:
            sub_layers.append((attend_forward, attend_backward, (*w[:4], NH)))
        if mlp:
            sub_layers.append((ops.mlp_forward, ops.mlp_backward, w[6:10]))
        for forward_of, backward_of, weights_of in sub_layers:
            f, cache = forward_of(x, *weights_of)
            x = x + f if plus else f
            x, ln = ops.layernorm_forward(x, one, zero) if norm else (x, None)
            caches.append((backward_of, cache, ln))
            cosines.append(mean_cosine(x))
    return caches, cosines

print("sub-layers of 12 blocks:", len(up(12, plus=True, norm=True)[0]))

# %%
def down(caches, plus, sub_layers=True):
    """The length of the gradient at every height, from bottom to top; at the top it is 1."""
    dx = np.random.default_rng(1).normal(size=(B, T, C))
    dx, lengths = dx / np.linalg.norm(dx), [1.0]
    for backward_of, cache, ln in reversed(caches):
        dx = dx if ln is None else ops.layernorm_backward(dx, ln)[0]
        df = backward_of(dx, cache)[0] if sub_layers else np.zeros_like(dx)
        dx = dx + df if plus else df  # with a plus x is used twice: two parts (lesson 00)
        lengths.append(np.linalg.norm(dx))
    return lengths[::-1]


DEPTHS = (2, 4, 8, 12, 24)
KINDS = {"f(x)": (0, 0), "LN(f(x))": (0, 1), "x + f(x)": (1, 0), "LN(x + f(x))": (1, 1)}
lengths, cosines = {}, {}
for kind, (plus, norm) in KINDS.items():
    for depth in DEPTHS:
        kept, cosines[kind, depth] = up(depth, plus, norm)
        lengths[kind, depth] = down(kept, plus)
    print(f"{kind:12} 24 blocks: gradient at the bottom {lengths[kind, 24][0]:5.0e}, "
          f"mean cosine at the top {cosines[kind, 24][-1]:.2f}")

# %%
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(10.5, 4.6))
for kind, color in zip(KINDS, ("tab:red", "tab:orange", "tab:purple", "tab:green"), strict=True):
    look = {"color": color, "label": kind, "linewidth": 6 if kind == "f(x)" else 2}
    left.semilogy(np.arange(49) / 2, lengths[kind, 24], **look)  # f(x) is wide, since at the right
    right.plot(np.arange(49) / 2, cosines[kind, 24], **look)  # another line is drawn upon it
left.set(title="Length of the gradient (1 at the top)", xlabel="height in blocks")
right.set(title="Mean cosine of two positions", xlabel="height in blocks")
right.legend(title="each sub-layer gives", loc="lower right", fontsize=11)
plot.save(figure, "07_tower.png")
assert lengths["f(x)", 24][0] < 1e-24, "f(x): the gradient vanishes"
assert 5 < lengths["LN(f(x))", 24][0] < 100, "LN(f(x)): it does not"
assert lengths["x + f(x)", 24][0] > 100, "x + f(x): the gradient grows"
for depth in DEPTHS:
    assert 0.5 < lengths["LN(x + f(x))", depth][0] < 2, "with both, it keeps its length"
assert cosines["LN(f(x))", 24][-1] > 0.999, "without the plus, all positions become the same"
assert cosines["LN(f(x))", 2][-1] > 0.9, "nearly, after two blocks"
closer = [cosines["LN(x + f(x))", depth][-1] for depth in (12, 24)]
assert np.allclose(closer, [0.46, 0.72], atol=0.02), "with it, they stay apart for longer"

# %% [markdown]
# The four kinds, one by one:
#
# - `f(x)`: with these weights every sub-layer makes the gradient smaller by a factor, and the
#   factors multiply. After 24 blocks less than 1e-24 is left. A step of plain gradient descent is
#   the gradient times a rate, so it would leave the lowest layers where they are: this is the
#   **vanishing gradient**.
# - `LN(f(x))`: LayerNorm restores the size, and the gradient does not vanish. (At the bottom it is
#   even about 20 times as long as at the top.) But the right panel shows that after two blocks all
#   positions are nearly *the same*. The length of the gradient does not show this.
# - `x + f(x)`: the gradient survives. But it grows on its way down: after 24 blocks it is more than
#   a hundred times as long.
# - `LN(x + f(x))`: the gradient keeps its length. The positions come closer too, only more
#   slowly: in this run the mean cosine is 0.46 after twelve blocks and 0.72 after 24. GPT-1's
#   blocks have this form.
#
# Two questions are open. Which sub-layer makes the positions alike? And would other random numbers
# give the same? So we leave out one kind of sub-layer, take five seeds, and go up to 100 blocks:

# %%
print("mean cosine at the top, five seeds      12 blocks      24 blocks     100 blocks")
controls = {
    "LN(attention(x))": {"plus": False, "mlp": False},
    "LN(MLP(x))": {"plus": False, "attention": False},
    "LN(x + f(x))": {"plus": True},
}
spread = {}
for name, options in controls.items():
    by_seed = np.array([up(100, norm=True, seed=seed, **options)[1] for seed in range(5)])
    in_a_block = by_seed.shape[1] // 100  # one sub-layer, or two
    for depth in (12, 24, 100):
        at_top = by_seed[:, in_a_block * depth]
        spread[name, depth] = at_top.min(), at_top.max()
    print(f"  {name:32}", *("   {:.2f} to {:.2f}".format(*spread[name, d]) for d in (12, 24, 100)))
assert spread["LN(attention(x))", 24][0] > 0.999, "attention alone: all positions are the same"
assert spread["LN(MLP(x))", 12][0] > 0.3, "MLPs alone: soon closer"
assert spread["LN(MLP(x))", 100][1] < 0.9, "but they stay apart"
assert spread["LN(x + f(x))", 24][1] < 0.8 < 0.9 < spread["LN(x + f(x))", 100][0], "slower, but yes"

# %% [markdown]
# - **It is above all the attention that makes the positions alike**, with every seed. MLPs alone
#   bring them closer too, but not all the way: the mean cosine is 0.4 to 0.6 after 12 blocks, and
#   only 0.5 to 0.8 after 100. For attention without residuals, MLPs and mask, Dong et al. prove it.
#   The idea: averages over the positions differ less than the positions themselves. LayerNorm
#   restores the size of a vector, not its difference from the others.
# - **The plus slows this down, and does not prevent it.** After twelve blocks, GPT-1's depth, the
#   positions are still apart with every seed; after 100 blocks they are nearly the same.

# %% [markdown]
# ## 2. The residual: a path on which the gradient passes unchanged
#
# z = x + f(x) is called a *residual connection*. The sum runs from the bottom to the top of a
# network and is called the **residual stream**. A sub-layer reads the stream and adds to it.
#
# The smallest example: one number, and f(x) = 0.5 x. The black numbers are values, for x = 2. The
# red numbers are gradients, for dz = 1. The sum gives its upstream gradient to both of its terms,
# unchanged, so df = 1. And x is used twice, by the sum and by f, so by the chain rule over two
# paths (lesson 00) its gradient is a sum of two parts: 1 + 0.5 = 1.5.

# %% tags=["hide-input"]
d = plot.Diagram(8.6, 3.3, "One residual connection: values in black, gradients in red")
source, layer = d.box(0.9, 0.9, "x = 2"), d.box(3.6, 2.5, "f = 0.5 x")
plus_box = d.box(6.0, 0.9, "+", "tab:green", width=0.6)
result = d.box(7.9, 0.9, "z = 3", width=1.1)
for begin, end, value, gradient in (
    (source, layer, "2", "0.5"), (layer, plus_box, "1", "1"),
    (source, plus_box, "2", "1"), (plus_box, result, "3", "1"),
):  # fmt: skip
    d.arrow(begin, end)
    x_middle, y_middle = (begin.x + end.x) / 2, (begin.y + end.y) / 2
    aside = {layer: 0.3, source: -0.35 * (end is layer)}.get(begin, 0)
    d.text(x_middle + aside, y_middle + 0.25, value)
    d.text(x_middle + (0.3 if end is layer else -0.1), y_middle - 0.3, gradient, "tab:red")
d.text(0.9, 0.3, "dx = 1 + 0.5 = 1.5", "tab:red")
plot.save(d.figure, "07_residual.png")

# %%
rng = np.random.default_rng(1)
b, t, c, nh = 2, 3, 4, 2  # sizes for the checks: small, and all different
x = rng.normal(size=(b, t, c))
print("sub-layers   without plus: 0.5^n   with plus: 1.5^n")
for n_layers in (1, 3, 24):
    print(f"{n_layers:10} {0.5**n_layers:21.1e} {1.5**n_layers:18.1e}")
small_step = ((2.001 + 0.5 * 2.001) - (2 + 0.5 * 2)) / 0.001
assert math.isclose(small_step, 1.5, rel_tol=1e-9), "x 0.001 larger makes z 0.0015 larger"

# %% [markdown]
# With three such connections in a row the gradient is a sum over eight paths, since at each of them
# a path goes through f or past it:
#
# $$
# (1 + 0.5)^3 \;=\; 1 + 3 \cdot 0.5 + 3 \cdot 0.25 + 0.125 \;=\; 3.375.
# $$
#
# Without the plus signs only the last term is left: 0.125. The first term is the direct path, past
# all three. It is 1, however small the others are.
#
# **Your turn:** now z = x + f(x) with arrays. `f_backward(df)` gives the gradient that comes back
# through f alone. Write the whole gradient of x, for a given gradient dz.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

_, gelu_cache = ops.gelu_forward(x)  # f is GELU here, on a whole array
dz_here = np.random.default_rng(3).normal(size=x.shape)


def your_dx(dz, f_backward):
    return ...  # z = x + f(x)


true = numeric(lambda x: x + ops.gelu_forward(x)[0], x.copy(), dz_here)
gap.judge(your_dx, dz_here, lambda df: ops.gelu_backward(df, gelu_cache), expected=true)

# %% [markdown] tags=["answer"]
# `dz + f_backward(dz)`: the plus copies dz to both of its terms. One copy goes past f unchanged,
# the other goes through f.

# %% [markdown] tags=["deeper"]
# ## 3. Dropout: random zeros, and no mask in memory
#
# While GPT-1 is trained, each number that a sub-layer computes is set to 0 with probability 0.1.
# The purpose (Srivastava et al.) is that no layer above may depend on one number alone. The numbers
# that stay are divided by 0.9. Then the *average* over the random choices is the number itself, and
# after training dropout is simply switched off.
#
# The backward pass needs the same choices again. The usual solution stores them: a mask as large as
# the array. We pass randomness as an **argument** instead. A *key* is a number that determines the
# whole mask: with the same key, the mask can be computed a second time. Here the key is the seed of
# a generator:

# %%
def keep_mask(key, rate, shape):
    """True with probability 1 - rate; the same for the same key"""
    return np.random.default_rng(key).random(shape) >= rate


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    keep = keep_mask(key, rate, x.shape)
    return x * keep / (1 - rate), (rate, key)  # the cache: two numbers, however large x is


ones = np.ones(100_000)
dropped, _ = dropout_forward(ones, rate=0.1, key=7)
again, _ = dropout_forward(ones, rate=0.1, key=7)
other, _ = dropout_forward(ones, rate=0.1, key=8)
print(f"zeros: {np.mean(dropped == 0):.3f}; mean: {dropped.mean():.3f}")
print(f"two masks agree at: same key {np.mean(dropped == again):.3f}", end=", ")
print(f"another key {np.mean(dropped == other):.3f}")
assert abs(np.mean(dropped == 0) - 0.1) < 0.004, "a tenth is dropped"
assert abs(dropped.mean() - 1) < 0.004, "the average stays"
assert np.array_equal(dropped, again), "the same key gives the same mask"
assert abs(np.mean(dropped == other) - 0.82) < 0.004, "another key gives an independent mask"

# %% [markdown]
# Two independent masks agree where both keep (0.9 x 0.9 = 0.81) or both drop (0.01): 0.82.
#
# **Backward.** A number that was dropped did not change the output: its gradient is 0. One that was
# kept was multiplied by 1/0.9: so is its gradient. That is the forward once more, with the same
# key, applied to dout. And since the same key gives the same mask, finite differences can check it.
# (A generator that goes on at every call would give each call another mask. Each difference would
# then compare two different functions.)

# %%
from minigpt import gradcheck


def dropout_backward(dout, cache):
    """dout (*) -> dx (*)"""
    rate, key = cache
    # out = x * keep / (1 - rate): the key gives the same keep again
    return dropout_forward(dout, rate=rate, key=key)[0]


of_dropout = gradcheck.check(
    dropout_forward, dropout_backward, (x,), {"rate": 0.3, "key": 7}, ("x of dropout",)
)
print(gradcheck.table(of_dropout))
# 64 texts, 12 blocks: the probabilities of 12 heads, and the results of two sub-layers
mask_bytes = 64 * 12 * (12 * 512 * 512 + 2 * 512 * 768)
print(f"masks that GPT-1's blocks would store at batch 64: {mask_bytes / 1e9:.1f} GB")
assert of_dropout[0].error < 1e-8, "dropout is right"
assert keep_mask(7, 0.1, (3,)).itemsize == 1, "a mask has one byte for each number"

# %% [markdown]
# ## 4. The block
#
# GPT-1's block, one operation per line. It gets x and the twelve arrays of section 1, in their
# order. `n` is the normalised sum of the first half:

# %%
fresh = new_block(rng, c, 0.5)
weights = [w + rng.normal(size=w.shape) / 3 for w in fresh]  # gains and biases not 1 and 0


def block(x, w_qkv, b_qkv, w_o, b_o, g1, b1, w_fc, b_fc, w_proj, b_proj, g2, b2, *, n_head):
    a, attn = attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head)
    s1 = x + a
    n, norm1 = ops.layernorm_forward(s1, g1, b1)
    m, fc = ops.mlp_forward(n, w_fc, b_fc, w_proj, b_proj)
    s2 = n + m
    out, norm2 = ops.layernorm_forward(s2, g2, b2)
    return out


v = lines.run(block, x, *weights, n_head=nh)
assert v.out.shape == x.shape == (2, 3, 4), "a block keeps the shape, so blocks can be stacked"

# %% [markdown]
# And the small world? We take the model of section 1, with the plus and without any other change,
# and as many updates. (With it, the line calls each layer of attention and MLP a block.)
#
# **Guess:** its loss was 2.99, and the letter table has 2.12. Is it now near 2.9, 2.1 or 1.5?

# %%
with_plus = small_world.show("10")
assert with_plus["two blocks"] < with_plus["the letter table"] - 0.3, "it is better than the table"

# %% [markdown] tags=["answer"]
# It is 1.51: better than the table, as the first of our models, and by far. It begins to write
# words. (The plus signs add no parameter, so it is natural to guess that they change little.)

# %% [markdown]
# Look at `s2` once more. **The second sum starts from n, not from x.** From LN1 on, the stream is
# n, and x itself is not added again. We come back to that in section 6.
#
# The backward pass, line by line. n and x are used twice each, so each gets two parts:

# %%
def by_lines(dout, v):
    # out = layernorm(s2, g2, b2)
    ds2, dg2, db2 = ops.layernorm_backward(dout, v.norm2)
    # s2 = n + m
    dn = ds2
    dm = ds2
    # m = mlp(n, ...): the second use of n, so its part is added
    dn_of_mlp, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dm, v.fc)
    dn = dn + dn_of_mlp
    # n = layernorm(s1, g1, b1)
    ds1, dg1, db1 = ops.layernorm_backward(dn, v.norm1)
    # s1 = x + a
    dx = ds1
    da = ds1
    # a = attention(x, ...): the second use of x
    dx_of_attn, dw_qkv, db_qkv, dw_o, db_o = attend_backward(da, v.attn)
    dx = dx + dx_of_attn
    return dx, dw_qkv, db_qkv, dw_o, db_o, dg1, db1, dw_fc, db_fc, dw_proj, db_proj, dg2, db2


of_lines = lines.check(block, by_lines, x, *weights, n_head=nh)
assert all(result.word == "happy" for result in of_lines), "every line is right"

# %% [markdown] tags=["deeper"]
# ### The block in numbers
#
# And now as a picture, with numbers measured in a fresh block of width 48. Black: the root mean
# square of the values on a wire. Red: the length of the gradient there, if it is 1 at the output.

# %%
def measured():
    """Root mean squares of the values of a fresh block, and lengths of the gradients, by name."""
    draw = np.random.default_rng(0)
    stream = ops.layernorm_forward(draw.normal(size=(B, T, C)), np.ones(C), np.zeros(C))[0]
    w = new_block(draw, C, STD)
    a, attn = attend_forward(stream, *w[:4], NH)
    n, norm1 = ops.layernorm_forward(stream + a, *w[4:6])
    m, fc = ops.mlp_forward(n, *w[6:10])
    out, norm2 = ops.layernorm_forward(n + m, *w[10:])
    dout = draw.normal(size=out.shape)
    ds2 = ops.layernorm_backward(dout / np.linalg.norm(dout), norm2)[0]
    via_mlp = ops.mlp_backward(ds2, fc)[0]
    ds1 = ops.layernorm_backward(ds2 + via_mlp, norm1)[0]
    via_attn = attend_backward(ds1, attn)[0]
    values = {"x": stream, "a": a, "s1": stream + a, "n": n, "m": m, "s2": n + m, "out": out}
    slopes = {"out": dout / np.linalg.norm(dout), "s2": ds2, "below MLP": via_mlp}
    slopes |= {"n": ds2 + via_mlp, "s1": ds1, "below attention": via_attn, "x": ds1 + via_attn}
    sizes = {name: np.sqrt((value**2).mean()) for name, value in values.items()}
    return sizes, {name: np.linalg.norm(slope) for name, slope in slopes.items()}


sizes, slopes = measured()
print("root mean square:  ", ", ".join(f"{name} {size:.2f}" for name, size in sizes.items()))
print("length of gradient:", ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items()))

# %%
d = plot.Diagram(11, 3.8, "GPT-1's block: values in black, gradients in red")
green, red = "tab:green", "tab:red"
plus1, plus2 = (d.box(at, 0.9, "+", green, width=0.5, height=0.5) for at in (3.3, 7.7))
ln1, ln2 = (d.box(at, 0.9, name, width=0.8) for at, name in ((4.6, "LN1"), (9.0, "LN2")))
attn_box, mlp_box = d.box(2.0, 2.9, "attention"), d.box(6.4, 2.9, "MLP")
for start, end, name in (
    ((0.1, 0.9), plus1, "x"), (plus1, ln1, "s1"), (ln1, plus2, "n"), (plus2, ln2, "s2"),
    (ln2, (10.8, 0.9), "out"),
):  # fmt: skip
    d.arrow(start, end)
    at = {"x": 0.55, "s1": 3.9, "n": 5.3, "s2": 8.25, "out": 10.1}[name]
    d.text(at, 1.42, f"{name} {sizes[name]:.2f}")
    d.text(at, 0.6, f"{slopes[name]:.2f}", red)
of_attention = (1.2, attn_box, plus1, "a", "s1", slopes["below attention"])
of_mlp = (5.9, mlp_box, plus2, "m", "s2", slopes["below MLP"])
for fork, branch, target, name, into, below in (of_attention, of_mlp):
    d.arrow((fork, 0.9), branch)
    d.arrow(branch, target)
    d.text(fork - 0.25, 1.9, f"{below:.2f}", red)
    d.text(target.x + 0.05, 2.2, f"{name} {sizes[name]:.2f}")
    d.text(target.x - 1.0, 1.7, f"{slopes[into]:.2f}", red)
    d.text((fork + target.x) / 2, 0.6, f"{slopes[into]:.2f}", red)
plot.save(d.figure, "07_block.png")
assert slopes["below MLP"] < 0.5 * slopes["s2"], "most goes past the MLP"
assert slopes["below attention"] < 0.5 * slopes["s1"], "and past the attention"

# %% [markdown]
# Read the red numbers from right to left. At each plus the gradient is copied into both wires. What
# comes out of a sub-layer at its lower end is smaller than what went past it. At the fork the two
# are added as vectors, so the lengths do not simply add up.

# %% [markdown]
# ## 5. Collapse: four lines
#
# In the code above `ds2`, `dn` and `dm` begin as the same array. So here they share one name, dn;
# in the same way `ds1`, `da` and `dx` share the name dx. We write LN', MLP' and Attn' for the
# backward passes. As in Python, the dn at the right of a line is the one from before:
#
# | forward | backward |
# |---|---|
# | n = LN1(x + Attn(x)) | dn = LN2'(dout) |
# | out = LN2(n + MLP(n)) | dn = dn + MLP'(dn) |
# | | dx = LN1'(dn) |
# | | dx = dx + Attn'(dx) |
#
# Each plus of the forward is a plus of the backward, and the last one of the forward comes first.
# In one line, where the factor at the right is applied first, and 1 stands for "unchanged":
#
# $$
# \mathrm{dx} = (1 + Attn')\;LN_1'\;(1 + MLP')\;LN_2'\;\mathrm{dout}.
# $$
#
# Each bracket is a choice: past the sub-layer, or through it. So there are four paths through a
# block and $4^{12} = 16{,}777{,}216$ through the twelve of GPT-1. Without the plus signs there is
# one: the path through all sub-layers.

# %% [markdown] tags=["deeper"]
# ### The block as two functions, with dropout
#
# Here is the block as a pair of functions, with dropout in the three places of GPT-1: on the
# attention probabilities, and on the result of each sub-layer before it is added. We use the
# library's dropout, whose key can be divided into keys for each place: `key.fold(place)`.

# %%
def block_forward(x, *w, n_head, rate=0.0, key=None):
    """x (B,T,C) and 12 parameters -> out (B,T,C). key=None: no dropout"""
    keys = [key.fold(place) if key else None for place in range(3)]  # None: no dropout
    a, c1 = attend_forward(x, *w[:4], n_head, rate=rate, key=keys[0])
    a, c2 = ops.dropout_forward(a, rate=rate, key=keys[1])
    n, c3 = ops.layernorm_forward(x + a, *w[4:6])
    m, c4 = ops.mlp_forward(n, *w[6:10])
    m, c5 = ops.dropout_forward(m, rate=rate, key=keys[2])
    out, c6 = ops.layernorm_forward(n + m, *w[10:])
    return out, (c1, c2, c3, c4, c5, c6)


def block_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4, c5, c6 = cache
    dn, *dln_2 = ops.layernorm_backward(dout, c6)
    dm, *dmlp = ops.mlp_backward(ops.dropout_backward(dn, c5), c4)
    dn = dn + dm
    dx, *dln_1 = ops.layernorm_backward(dn, c3)
    da, *dattention = attend_backward(ops.dropout_backward(dx, c2), c1)
    return dx + da, *dattention, *dln_1, *dmlp, *dln_2


print("caches of the block's six parts:", len(block_forward(x, *weights, n_head=nh)[1]))

# %%
dout = np.random.default_rng(2).normal(size=x.shape)
short_out, short_cache = block_forward(x, *weights, n_head=nh)
both_ways = zip(block_backward(dout, short_cache), by_lines(dout, v), strict=True)
difference = max(np.abs(short - long).max() for short, long in both_ways)
print(f"four lines against line by line: largest difference {difference:.0e}")
assert np.array_equal(short_out, v.out) and difference < 1e-13, "the two agree"

# %% [markdown]
# ## 6. Check, and the trap
#
# **The surprise: n, not x.** "A residual around each sub-layer" could also mean that the second sum
# starts from x. All shapes fit. And a gradient check compares a backward pass with its own forward
# pass, so it cannot see the difference (lesson 03). How much does the output of our block change?

# %%
from_wrong_sum, _ = ops.layernorm_forward(x + v.m, v.g2, v.b2)
wrong_by = np.linalg.norm(from_wrong_sum - v.out) / np.linalg.norm(v.out)
print(f"the second sum starts from x instead of n: the output differs by {100 * wrong_by:.0f} %")
assert wrong_by > 0.1, "and no shape says so"

# %% [markdown]
# So a port with the wrong sum loads the released weights without an error, and is wrong. Compare
# its output with that of the original.

# %% [markdown] tags=["deeper"]
# ### Every input and every parameter
#
# Every input *and* every parameter, with dropout switched on:

# %%
NAMES = ("x", "c_attn.w", "c_attn.b", "c_proj.w", "c_proj.b", "ln_1.g", "ln_1.b")
NAMES += ("c_fc.w", "c_fc.b", "mlp.w", "mlp.b", "ln_2.g", "ln_2.b")
constants = {"n_head": nh, "rate": 0.1, "key": ops.Key.of(0, 1)}
of_block = gradcheck.check(block_forward, block_backward, (x, *weights), constants, NAMES)
print(gradcheck.table(of_block))
assert all(result.error < 1e-8 for result in of_block), "all 13 gradients are right"

# %% [markdown] tags=["deeper"]
# ### The trap: it trains, so it must be right
#
# An easy mistake is to forget one of the two plus signs of the backward. We train a small model
# four times: with the right backward, with each of these two mistakes, and without plus signs in
# the forward *and* the backward. So here is the block once more, with switches: `x_plus` and
# `n_plus` say whether `x +` and `n +` are there. (The last question of this section needs one more:
# `second` is what the second sum starts from.)

# %%
def other_forward(x, *w, n_head, x_plus=True, n_plus=True, second="n"):
    a, c1 = attend_forward(x, *w[:4], n_head)
    s1 = x + a if x_plus else a
    n, c3 = ops.layernorm_forward(s1, *w[4:6])
    m, c4 = ops.mlp_forward(n, *w[6:10])
    start = n if second == "n" else x
    s2 = start + m if n_plus else m
    out, c6 = ops.layernorm_forward(s2, *w[10:])
    return out, (c1, c3, c4, c6)


def other_backward(dout, cache, x_plus=True, n_plus=True):
    c1, c3, c4, c6 = cache
    dn, *dln_2 = ops.layernorm_backward(dout, c6)
    dm, *dmlp = ops.mlp_backward(dn, c4)
    dn = dn + dm if n_plus else dm
    dx, *dln_1 = ops.layernorm_backward(dn, c3)
    da, *dattention = attend_backward(dx, c1)
    dx = dx + da if x_plus else da
    return dx, *dattention, *dln_1, *dmlp, *dln_2


as_it_is = other_backward(dout, other_forward(x, *weights, n_head=nh)[1])[0]
difference = np.abs(as_it_is - by_lines(dout, v)[0]).max()
print(f"with both sums, dx differs from line by line by {difference:.0e}")

# %% [markdown]
# The model has two blocks between a table of letters and a linear map, and learns the next letter
# of a short text by plain gradient descent. (Lesson 08 builds a whole model with care.)

# %%
TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the red "
    "kite in the tree. I can not reach it, says Mina. Tom has a long stick. Tom takes the stick to "
    "the tree and the kite comes down. Thank you, Tom, says Mina. Now Tom and Mina run to the "
    "hill, and the red kite is high in the wind. "
)
letters = sorted(set(TEXT))
ids = np.array([letters.index(letter) for letter in TEXT])
V, LENGTH, WIDTH = len(letters), 16, 32


def predict(model, forward_of, starts):
    """The loss of the next letter, for windows of the text, and the caches."""
    window = ids[starts[:, None] + np.arange(LENGTH + 1)]
    h, table = ops.embedding_forward(model[0], window[:, :-1])
    h1, c1 = forward_of(h + model[1], *model[3:15], n_head=4)
    h2, c2 = forward_of(h1, *model[15:], n_head=4)
    loss, head = ops.linear_cross_entropy_forward(h2, model[2], window[:, 1:])
    return loss, (table, c1, c2, head)


frequency = np.bincount(ids) / len(ids)
only_letters = -(frequency * np.log(frequency)).sum()
print(f"{len(TEXT)} letters, {V} different; loss of letter frequencies alone: {only_letters:.2f}")

# %%
def train(forward_of, backward_of, steps=400, rate=0.2):
    """Plain gradient descent: the losses, and the model."""
    draw = np.random.default_rng(0)
    model = [0.1 * draw.normal(size=(rows, WIDTH)) for rows in (V, LENGTH, V)]
    model += new_block(draw, WIDTH, 0.1) + new_block(draw, WIDTH, 0.1)
    losses = []
    for _ in range(steps):
        starts = draw.integers(0, len(ids) - LENGTH, size=8)
        loss, (table, c1, c2, head) = predict(model, forward_of, starts)
        dh2, dhead, _ = ops.linear_cross_entropy_backward(1.0, head)
        dh1, *dblock2 = backward_of(dh2, c2)
        dh, *dblock1 = backward_of(dh1, c1)
        gradients = [ops.embedding_backward(dh, table), dh.sum(axis=0), dhead]
        for parameter, gradient in zip(model, gradients + dblock1 + dblock2, strict=True):
            parameter -= rate * gradient
        losses.append(loss)
    return np.array(losses), model


one_step, _ = train(other_forward, other_backward, steps=1)
print(f"loss before the first update {one_step[0]:.2f}; guessing gives ln {V} = {math.log(V):.2f}")

# %%
from functools import partial

no_plus = {"x_plus": False, "n_plus": False}
runs = {
    "right": (other_forward, other_backward),
    "backward without x +": (other_forward, partial(other_backward, x_plus=False)),
    "backward without n +": (other_forward, partial(other_backward, n_plus=False)),
    "no plus anywhere": (partial(other_forward, **no_plus), partial(other_backward, **no_plus)),
}
curves, models, final, wrong = {}, {}, {}, {}
print("loss:                 start   end  wrong gradients")
for name, (forward_of, backward_of) in runs.items():
    curves[name], models[name] = train(forward_of, backward_of)
    final[name] = curves[name][-50:].mean()
    checked = gradcheck.check(forward_of, backward_of, (x, *weights), {"n_head": nh}, NAMES)
    wrong[name] = [result.name for result in checked if result.word != "happy"]
    listed = f"{len(wrong[name])} of 13: {' '.join(wrong[name])}" if wrong[name] else "none"
    print(f"{name:21} {curves[name][0]:5.2f} {final[name]:5.2f}  {listed}")
longer = train(*runs["no plus anywhere"], steps=1600, rate=0.1)[0][-50:].mean()
print(f"no plus anywhere, at half the rate, with four times the updates: {longer:.2f}")
assert longer < 2, "it can learn"

# %%
figure, axes = plot.plt.subplots(figsize=(8, 4.6))
colors = ("tab:green", "tab:blue", "tab:brown", "tab:red")
for (name, curve), color in zip(curves.items(), colors, strict=True):
    axes.plot(np.convolve(curve, np.ones(20) / 20, "valid"), color=color, label=name)
axes.axhline(only_letters, color="gray", linestyle=":", label="letter frequencies only")
axes.set(title="Two wrong backward passes that train", xlabel="update", ylim=(0, 3.7))
axes.set_ylabel("loss (nats per letter)")
axes.legend(loc="lower left", fontsize=11)
plot.save(figure, "07_wrong_but_training.png")
ends = [final["right"], final["backward without x +"], final["backward without n +"]]
assert np.allclose(ends, [0.95, 1.49, 1.34], atol=0.05), "the numbers of the text below"
assert abs(final["no plus anywhere"] - only_letters) < 0.1, "only letter frequencies"
assert wrong["right"] == wrong["no plus anywhere"] == [], "these gradients are right"
assert wrong["backward without x +"] == ["x"], "all 12 parameters check out"

# %% [markdown]
# Both wrong backward passes *train*. In this run their loss falls from 3.5 to about 1.5 and 1.3;
# with the right one it falls to 0.95. If you have seen no other curve, you suspect nothing. So a
# falling loss proves little.
#
# Now the last column of the table: how many of the block's 13 gradients are wrong?
#
# - Without `n +`, seven: dx, and all of LN1 and of the attention.
# - Without `x +`, one: dx, the gradient for the blocks below. **All 12 parameters check out.** A
#   check of parameters alone, on one block, finds nothing.
#
# So check every input *and* every parameter.
#
# The last of the four runs has no plus signs in the forward, and the backward that belongs to it.
# Its gradients are right, and in 400 updates it learns how frequent each letter is and no more
# (2.8). Can it learn at all? The line below the table is a control. At half the rate, with four
# times the updates, it comes to 1.26. **So two blocks without a plus can learn, but here only at a
# lower rate and with more updates.** One of the two alone is not enough: the loss stayed above 2.5
# when we gave `train` only `rate=0.1`, or only `steps=1600`. Section 1 suggests why learning is
# hard, though these runs do not prove it: without the plus the positions become alike, so little is
# left of the letter that was just read.
#
# Once more the wrong sum: what is the loss of the model that was trained with n, if it is computed
# with x?

# %%
everywhere = np.arange(len(ids) - LENGTH)
as_trained, rewired = (
    predict(models["right"], partial(other_forward, second=p), everywhere)[0] for p in "nx"
)
print("the second sum starts from x instead of n:")
print(f"  the loss of the trained model goes from {as_trained:.2f} to {rewired:.2f}")
assert rewired > as_trained + 0.5, "weights trained with n need n"

# %% [markdown]
# (This does not show which of the two is the better one to train with.)

# %% [markdown] tags=["deeper"]
# ## 7. See it: what the direct path keeps
#
# In section 2 the direct path, past all sub-layers, kept the gradient unchanged. GPT-1 has its
# LayerNorms on this path too, and each divides the gradient by a standard deviation. How much is
# left at the bottom? We measure it in the fresh network of section 1: once with all paths, once
# with the direct path alone (all sub-layer gradients set to 0).

# %%
print("blocks   all paths   direct path alone   product of all 1/std")
direct, divided = {}, {}
for depth in DEPTHS:
    kept, _ = up(depth, plus=True, norm=True)
    direct[depth] = down(kept, plus=True, sub_layers=False)
    divided[depth] = math.prod(ln.rstd.mean() for _, _, ln in kept)
    of_all = lengths["LN(x + f(x))", depth][0]
    print(f"{depth:6} {of_all:10.2f} {direct[depth][0]:19.2f} {divided[depth]:20.2f}")
    assert abs(direct[depth][0] - divided[depth]) < 0.03, "the divisions are nearly all of it"
of_first_block = " and ".join(f"{1 / ln.rstd.mean():.2f}" for _, _, ln in kept[:2])
print(f"the two LayerNorms of the first block divide by {of_first_block}")

figure, axes = plot.plt.subplots(figsize=(7.5, 4.2))
heights = np.arange(49) / 2
axes.plot(heights, lengths["LN(x + f(x))", 24], color="tab:green", label="all paths")
axes.plot(heights, direct[24], color="tab:blue", label="the direct path alone")
axes.set(title="LN(x + f(x)): what the gradient keeps", xlabel="height in blocks", ylim=(0, 1.3))
axes.set_ylabel("length of the gradient")
axes.legend(loc="lower right")
plot.save(figure, "07_direct_path.png")
assert abs(direct[12][0] - 0.38) < 0.02 and direct[24][0] < 0.2, "the direct path loses much"
assert 0.5 < lengths["LN(x + f(x))", 24][0] < 2, "all paths together keep the length"

# %% [markdown]
# In this fresh network with twelve blocks, GPT-1's depth, the direct path alone keeps 0.38 of the
# gradient (at 24 blocks, in the picture, less than 0.2). A fresh sub-layer adds little to the
# stream, so each LayerNorm divides by a number near 1 (the last printed line: the first block). But
# there are 24 such divisions in twelve blocks. If each is by 1.04, together they are by 1.04^24 =
# 2.6, and 1 / 2.6 = 0.38. The last column of the table shows that the real divisions explain nearly
# all that is lost. (The projections of lesson 06 take away little.) What the direct path loses, the
# paths through the sub-layers bring back: together they keep the length.
#
# This says nothing yet about training. Lesson 09 measures when such a network needs a warm-up of
# its learning rate, and lesson 16 what changes if LayerNorm is moved off the stream, as in GPT-2.

# %% [markdown] tags=["deeper"]
# ## 8. In the library
#
# The block of GPT-1 in the library has the same lines. Its parts own their parameters and return
# their caches (lesson 08). Its plus is `ops.add(x, y)`, which is x + y:
#
#     # minigpt/models/gpt1.py
#     a = cache.keep("attn", self.attn.forward(x, past, key, grad, mask))
#     x = ops.add(x, a)
#     x = cache.keep("ln_1", self.ln_1.forward(x))
#     m = cache.keep("mlp", self.mlp.forward(x, key, grad))
#     x = ops.add(x, m)
#     x = cache.keep("ln_2", self.ln_2.forward(x))
#
# and backward, in reverse:
#
#     # minigpt/models/gpt1.py
#     dx = self.ln_2.backward(dout, cache.pop("ln_2"))
#     dm = self.mlp.backward(dx, cache.pop("mlp"))
#     dx = ops.add(dx, dm)
#     dx = self.ln_1.backward(dx, cache.pop("ln_1"))
#     da = self.attn.backward(dx, cache.pop("attn"))
#     return ops.add(dx, da)
#
# Our block against the library's, with dropout switched on:

# %%
from minigpt.models.gpt1 import Block, GPT1Config

config = GPT1Config(vocab_size=9, n_positions=5, n_embd=c, n_layer=1, n_head=nh)
library = Block(config, np.random.default_rng(0), np.float64)
for parameter, weight in zip(library.parameters(), weights, strict=True):
    parameter.data = weight
KEY = ops.Key.of(0, 1)
library_out, library_cache = library.forward(x, key=KEY)
my_out, my_cache = block_forward(x, *weights, n_head=nh, rate=0.1, key=KEY)
library_dx = library.backward(dout, library_cache)
theirs = [library_dx, *(parameter.grad for parameter in library.parameters())]
mine = block_backward(dout, my_cache)
difference = max(np.abs(p - q).max() for p, q in zip(mine, theirs, strict=True))
by_dropout = ops.nbytes((my_cache[1], my_cache[4]))
print(f"outputs are equal: {np.array_equal(my_out, library_out)}")
print(f"gradients differ by at most {difference:.0e}")
print(f"our caches: {ops.nbytes(my_cache):,} bytes; those of the two dropouts: {by_dropout}")
assert np.array_equal(my_out, library_out) and difference < 1e-12, "the library's block is ours"
assert by_dropout == 0, "no mask is stored"

# %% [markdown]
# The library's key works differently inside. A generator gives its numbers one after the other.
# In the library, `minigpt/ops/random_keys.py` computes each number of the mask by itself, from
# the key and from the element's place in the whole batch. So a machine that holds only the second
# half of a batch gets the second half of the mask:

# %%
part_key = ops.Key.of(0, 1)
whole, _ = ops.dropout_forward(np.ones((4, 6)), rate=0.5, key=part_key)
of_second_half = part_key._replace(row=2)  # a key also holds the row at which its array begins
second, _ = ops.dropout_forward(np.ones((2, 6)), rate=0.5, key=of_second_half)
print("rows 2 and 3 of a batch of four       the same two rows alone")
for of_four, by_itself in zip(whole[2:], second, strict=True):
    print(f"{of_four.astype(int)!s:37} {by_itself.astype(int)}")
assert np.array_equal(whole[2:], second), "the same mask, whatever part of the batch is here"

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - Equation 2 of the GPT-1 paper says `h_l = transformer_block(h_(l-1))` and no more. Figure 1
#   shows the order, and OpenAI's code leaves no doubt: `n = norm(x + attn(x))` and
#   `h = norm(n + mlp(n))`. No LayerNorm follows the embeddings, and none after the last block,
#   which ends with its own.
# - Vaswani et al. write LayerNorm(x + Sublayer(x)) (section 3.1) and put dropout on the
#   sub-layer's result, before the sum, and on the embeddings (section 5.4). GPT-1 does the same
#   (lesson 08), and has dropout on the attention probabilities as well. The rate is 0.1 everywhere
#   (section 4.1).
# - OpenAI's code draws its masks from TensorFlow's generator and keeps them for the backward pass.
#   Keys are our choice.

# %% [markdown]
# ## 10. To keep
#
# - z = x + f(x) gives the gradient a path on which it passes unchanged: backward, each plus copies
#   it, and the two parts are added.
# - GPT-1's block is n = LN1(x + Attn(x)), out = LN2(n + MLP(n)): the second sum starts from n, and
#   four paths lead through the block.
# - Shapes and gradient checks do not see a sum that starts from the wrong place: compare outputs
#   with the original.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/07_parallel_block.py`: the block of GPT-J, where attention and MLP read the same
#    LayerNorm side by side: out = x + Attn(h) + MLP(h), h = LN(x). Write its backward line by line.
# 2. `exercises/07_find_the_bug.py`: a block with one wrong word in its backward. Run the file: it
#    judges itself.
# 3. On paper, then try it: suppose that dropout stood on the *sum*, dropout(x + f), and not on
#    the sub-layer's result. With rate 0.1, with what probability does a number of the embedding
#    pass 24 of them? What happens to the direct path of section 7?
# 4. Try it: which of the two plus signs of section 1 keeps the positions apart? Let `up` and `down`
#    add only for attention, and then only for the MLP.

# %%
worst = max(result.error for result in of_lines)
print(f"lesson 07: every check is happy (worst relative error {worst:.0e})")
