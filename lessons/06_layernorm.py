# %% [markdown]
# # Lesson 06: LayerNorm
#
# You will see the numbers of a fresh deep network vanish and grow, and build the layer that keeps
# their scale: LayerNorm. You will derive its backward pass with a pencil, until eight lines have
# become one. That line is a projection, and with three channels you can draw it.
#
# Reading: 25 minutes for the core, 60 minutes for all of it. Running: 3 to 9 seconds. Before it:
# lessons 00 (the backward pass), 01 (linear) and 05 (GELU, for the experiment).
#
# Papers: Ba, Kiros and Hinton 2016 (arXiv 1607.06450), equations 3 and 4: LayerNorm. Vaswani et al.
# 2017, section 3.1, and GPT-1, figure 1: where it stands. Zhang and Sennrich 2019 (arXiv
# 1910.07467), equation 4: RMSNorm.

# %% [markdown]
# ## 1. Why: the scale drifts with depth
#
# Our model so far: attention and an MLP behind it, twice.

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("06")
assert so_far["two layers"] > so_far["the letter table"] + 0.3, "a deeper model, and no better one"

# %% [markdown]
# A deeper model, and no better one. What can go wrong with depth? One thing is the scale of the
# numbers, and this lesson mends it. (That a model then learns better is not shown here. Another
# thing is wrong too: lesson 07 begins with this model and its LayerNorms, and its loss is even
# higher.)
#
# A layer multiplies by a matrix and applies GELU. Suppose that its output is half as large as its
# input. Twelve such layers leave 0.5^12 = 0.0002 of the input, and a factor of 2 in each layer
# gives 2^12 = 4,096. A deep network is a long product. If its factors are not close to 1, it is
# close to zero or very large.
#
# We measure it. Each layer has 64 channels and a matrix whose entries are normal, with the variance
# s^2/64. Each number of the product is a sum of 64 terms, and their variances add: for s = 1 that
# is 64 times 1/64. So it has about the scale of the input. GELU then makes it smaller. We compare a
# network without LayerNorm with one that has it in front of each matrix. LayerNorm without its two
# learned arrays is one line, `normalize`:

# %%
from minigpt import ops


def normalize(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def scales(s, norm, depth=24):
    """The standard deviation of all numbers after 1, 2, ..., depth layers."""
    draw = np.random.default_rng(5)
    h, found = draw.normal(size=(100, 64)), []
    for _ in range(depth):
        h = normalize(h) if norm else h
        h, _ = ops.gelu_forward(h @ draw.normal(size=(64, 64)) * (s / np.sqrt(64)))
        found.append(h.std())
    return np.array(found)


bare, normed = ({s: scales(s, norm) for s in (0.5, 1, 2)} for norm in (False, True))
print(f"after one layer with s = 1 the scale is {bare[1][0]:.2f}")

# %% [markdown]
# **Guess:** s = 1 keeps the scale in a product. With GELU behind each, how much is left after 24
# layers: a half, a hundredth, or less than a millionth?

# %% tags=["hide-input"]
from minigpt import plot

figure, axes = plot.plt.subplots(figsize=(8, 4.4))
for s, color in ((2, "tab:red"), (1, "tab:purple"), (0.5, "tab:blue")):
    axes.semilogy(np.arange(1, 25), bare[s], "-", color=color, label=f"s = {s}, without LayerNorm")
    axes.semilogy(np.arange(1, 25), normed[s], "--", color=color, label=f"s = {s}, with LayerNorm")
axes.set(title="The scale of the numbers in a deep network", xlabel="layer", ylim=(1e-17, 1e8))
axes.set_ylabel("standard deviation")
axes.legend(loc="lower left", ncols=2, fontsize=10)
plot.save(figure, "06_scale.png")

# %% [markdown] tags=["answer"]
# Less than a millionth (the purple line). One layer keeps 0.60, which looks harmless. But near 0
# GELU is about x/2, so each later layer keeps about half, and 0.5^24 = 0.00000006. (Measured:
# 0.00000009.)

# %% [markdown]
# Without LayerNorm, s would need nearly the right value: even a factor of 1.05 in each layer gives
# 1.05^24 = 3.2. And training changes every matrix, so s would not stay there. With LayerNorm each
# layer receives numbers of scale 1.
#
# **The idea.** Take the C numbers of one position, subtract their mean, and divide by their
# standard deviation. By hand, for x = (1, 2, 4, 8): the mean is 15/4 = 3.75, so the deviations are
# -2.75, -1.75, 0.25 and 4.25. The mean of their squares is 7.1875, whose root is 2.681. The
# results are called x_hat. A row that is ten times as large gives the same x_hat.
#
# Two things are added to the idea:
#
# - **eps** = 1e-5 under the root. A row of equal numbers has variance 0, and 0/0 is no number.
# - A learned **gain** g and **bias** b, one number each for each channel. If the next layer needs a
#   channel to be large, training can make its gain large. They start at 1 and 0.

# %% [markdown] tags=["deeper"]
# ### The scales in numbers, and GPT-1's
#
# GPT-1 draws its weights
# from N(0, 0.02^2) at width 768, which is s = 0.02 sqrt(768) = 0.55. Twelve layers of the kind
# that is measured here would then pass on almost nothing (last line of the table below). GPT-1 has
# LayerNorm, and the residual connections of lesson 07.

# %%
print("standard deviation after layer     1      12      24    with LayerNorm:  1    12    24")
for s in (0.5, 1, 2):
    assert normed[s].max() / normed[s].min() < 1.25, "with LayerNorm: about the same scale"
    assert bare[s][23] < 1e-6 if s < 2 else bare[s][23] > 10, "without it: vanishes, or grows"
    without, with_norm = bare[s][[0, 11, 23]], normed[s][[0, 11, 23]]
    print(f"s = {s:3}                      ", *(f"{v:7.0e}" for v in without), end=" " * 18)
    print(*(f"{v:5.2f}" for v in with_norm))
as_gpt1 = scales(0.02 * np.sqrt(768), norm=False)[11]
print(f"s = {0.02 * np.sqrt(768):.2f}, without LayerNorm, after layer 12: {as_gpt1:.0e}")
assert as_gpt1 < 1e-5, "almost nothing is passed on"

# %% [markdown] tags=["deeper"]
# ### Two rows, drawn

# %%
row, larger = np.array([1.0, 2, 4, 8]), np.array([10.0, 20, 40, 80])
d = plot.Diagram(8.6, 3.2, "Two positions, each by itself: subtract the mean, then divide")
for y, values in ((2.2, row), (0.8, larger)):
    deviation, mine = values - values.mean(), normalize(values)
    before = d.grid(1.25, y, [values], "x", cell=0.56)
    centred = d.grid(4.2, y, [[f"{v:.3g}" for v in deviation]], "x - mean", "tab:green", cell=0.6)
    after = d.grid(7.2, y, [[f"{v:.2f}" for v in mine]], "x_hat", "tab:orange", cell=0.6)
    d.arrow(before, centred)
    d.arrow(centred, after)
    d.text(2.72, y - 0.25, f"- {values.mean():.3g}", size=10)
    d.text(5.7, y - 0.25, f"/ {values.std():.3g}", size=10)
plot.save(d.figure, "06_two_rows.png")
by_hand = np.array([-1.02575458, -0.65275291, 0.09325042, 1.58525707])
print("x_hat of the first row: ", normalize(row).round(4))
print("x_hat of the second row:", normalize(larger).round(4))
assert np.allclose(normalize(row), by_hand, rtol=0, atol=1e-8), "x_hat by hand"
assert np.allclose(normalize(larger), by_hand, rtol=0, atol=1e-5), "ten times x, the same x_hat"

# %% [markdown]
# ## 2. Forward: one operation per line
#
# x has the shape (B, T, C). Mean and variance run over the last axis alone, so each of the B x T
# positions is normalised by itself. No position sees another one, and training and evaluation
# compute the same. (Batch normalisation, which takes its means over the batch, has neither
# property.)

# %%
from minigpt.learn import lines

B, T, C, EPS = 2, 3, 7, 1e-5
rng = np.random.default_rng(5)
x = rng.normal(3, 2, size=(B, T, C))
g, b = rng.uniform(0.5, 2, size=C), rng.normal(size=C)


def forward(x, g, b, *, eps):
    mean = x.mean(axis=-1, keepdims=True)
    x_mean = x - mean
    square = x_mean * x_mean
    var = square.mean(axis=-1, keepdims=True)  # divided by C, not by C - 1
    std = np.sqrt(var + eps)
    rstd = 1 / std  # r in the formulas: the reciprocal of the standard deviation
    x_hat = x_mean * rstd
    scaled = g * x_hat
    out = scaled + b
    return out


v = lines.run(forward, x, g, b, eps=EPS)
assert np.allclose(v.x_hat.mean(axis=-1), 0, atol=1e-15), "every row of x_hat has the mean 0"
assert np.allclose(v.x_hat.std(axis=-1), 1, atol=1e-5), "and, but for eps, the deviation 1"

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# Two values are used twice, so their gradients have two parts: `x_mean` (in `square` and in
# `x_hat`) and `x` (in `mean` and in `x_mean`).
#
# A mean over C in the forward gives each of the C entries 1/C of the upstream gradient in the
# backward. The other way round, where one number was used by a whole row (`mean`, `rstd`), the
# gradients of that row are summed.
#
# **Your turn:** in `x_hat = x_mean * rstd`, rstd has one number for each row. Write its gradient.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

dx_hat_here = np.random.default_rng(8).normal(size=(B, T, C))


def your_drstd(dx_hat, x_mean):
    return ...  # x_mean (B,T,C), rstd (B,T,1)


true = numeric(lambda rstd: v.x_mean * rstd, v.rstd.copy(), dx_hat_here)
gap.judge(your_drstd, dx_hat_here, v.x_mean, expected=true)

# %% [markdown] tags=["answer"]
# `(dx_hat * x_mean).sum(axis=-1, keepdims=True)`: every entry of the row used the same rstd, so
# what comes back from them is added.

# %%
def backward(dout, v):
    # out = scaled + b: dscaled is dout itself
    db = dout.sum(axis=(0, 1))  # every position used the same b
    # scaled = g * x_hat
    dg = (dout * v.x_hat).sum(axis=(0, 1))
    dx_hat = dout * v.g
    # x_hat = x_mean * rstd
    dx_mean = dx_hat * v.rstd
    drstd = (dx_hat * v.x_mean).sum(axis=-1, keepdims=True)
    # rstd = 1 / std
    dstd = -drstd / (v.std * v.std)
    # std = np.sqrt(var + eps)
    dvar = dstd / (2 * v.std)
    # var = square.mean(axis=-1, keepdims=True)
    dsquare = dvar / C * np.ones(C)
    # square = x_mean * x_mean
    dx_mean = dx_mean + 2 * v.x_mean * dsquare
    # x_mean = x - mean
    dmean = -dx_mean.sum(axis=-1, keepdims=True)
    # mean = x.mean(axis=-1, keepdims=True)
    dx = dx_mean + dmean / C
    return dx, dg, db


by_lines = lines.check(forward, backward, x, g, b, eps=EPS)

# %% [markdown]
# ## 4. Collapse: the pencil work
#
# Look at one position. Sums and means run over its C channels, r stands for `rstd`, and a product
# such as $d\hat x\,\hat x$ is taken channel by channel. $x_{mean}$ is `x_mean` of the code, x minus
# its mean. Since $x_{mean} = \hat x / r$,
#
# $$
# \mathrm{dr} = \sum d\hat x\; x_{mean} = \frac1r \sum d\hat x\,\hat x = \frac{C}{r}\,m,
# \qquad m = \mathrm{mean}(d\hat x\,\hat x).
# $$
#
# The next two lines of the code give `dstd` and `dvar`. As r = 1/`std`, they multiply by $-r^2$
# and by $r/2$:
#
# $$
# \mathrm{dvar} = -r^2 \cdot \frac r2 \cdot \mathrm{dr} = -\frac{r^2\,C}{2}\,m.
# $$
#
# The gradient of `x_mean` has two parts, a direct one and one through the variance. In the last
# step we use $r\,x_{mean} = \hat x$:
#
# $$
# \mathrm{dx}_{mean} = r\,d\hat x + \frac{2\,x_{mean}}{C}\,\mathrm{dvar}
# = r\,d\hat x - r^2\,x_{mean}\,m
# = r\,(d\hat x - \hat x\,m).
# $$
#
# The gradient of `x` has two parts as well, a direct one, and `dmean` / C. Since `dmean` is minus
# the sum of dx_mean, the second part subtracts the mean:
#
# $$
# \mathrm{dx} = \mathrm{dx}_{mean} - \mathrm{mean}(\mathrm{dx}_{mean})
# = r\,\bigl(d\hat x - \hat x\,m - \mathrm{mean}(d\hat x) + \mathrm{mean}(\hat x)\,m\bigr).
# $$
#
# The last term is zero, because $\hat x$ has the mean 0. What is left is
#
# $$
# \mathrm{dx} = r\,\bigl(d\hat x - \mathrm{mean}(d\hat x)
# - \hat x\,\mathrm{mean}(d\hat x\,\hat x)\bigr),
# \qquad d\hat x = \mathrm{dout}\cdot g.
# $$
#
# All lines from the first `dx_mean` to `dx` have become one. Note that g is *inside* both means.

# %%
def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    x_mean = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((x_mean * x_mean).mean(axis=-1, keepdims=True) + eps)
    x_hat = x_mean * rstd
    return g * x_hat + b, (x_hat, rstd, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))
    dx_hat = dout * g
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - shift - x_hat * stretch)
    return dx, (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)


out, cache = layernorm_forward(x, g, b)
dout = np.random.default_rng(6).normal(size=out.shape)
pairs = zip(layernorm_backward(dout, cache), backward(dout, v), strict=True)
difference = max(np.abs(closed - long).max() for closed, long in pairs)
print(f"closed form against lines: largest difference {difference:.0e}")
assert difference < 1e-13 and np.allclose(out, v.out, rtol=0, atol=1e-14), "the two agree"

# %% [markdown]
# **What the formula says.** For any vector u (here u is `dx_hat`), mean(u) measures its component
# along the vector of ones, and mean(u x_hat) its component along x_hat. Both are subtracted. As a
# matrix:
#
# $$
# \mathrm{dx} = r\,P\,d\hat x, \qquad
# P = I - \frac1C\,\mathbf 1\,\mathbf 1^{T} - \frac1C\,\hat x\,\hat x^{T}.
# $$
#
# The two vectors are orthogonal, because the sum of x_hat is 0. Both have the squared length C,
# since the mean of the squares of x_hat is 1 (but for eps). So P is a **projection** in the sense
# of geometry: applied twice, it does the same as once. It removes two directions and leaves the
# others as they are.

# %%
one, unit = np.ones(C), v.x_hat[1, 2]
P = np.eye(C) - np.outer(one, one) / C - np.outer(unit, unit) / C
dx_hat = dout * g
dx, _, _ = layernorm_backward(dout, cache)
along_one = np.abs((dx * one).sum(axis=-1)).max()
along_x_hat = np.abs((dx * v.x_hat).sum(axis=-1)).max()
print(f"P twice differs from P once by {np.abs(P @ P - P).max():.0e}")
print(f"directions left: the trace of P is {np.trace(P):.4f}, of {C}")
print(f"largest entry of dx {np.abs(dx).max():.1f}; its component, as a dot product,")
print(f"with the vector of ones: {along_one:.0e}; with x_hat: {along_x_hat:.0e}")
assert np.allclose(dx[1, 2], v.rstd[1, 2] * P @ dx_hat[1, 2], rtol=0, atol=1e-14), "dx = r P dx_hat"
assert np.allclose(P @ P, P, atol=1e-5) and round(np.trace(P), 3) == C - 2, "P is a projection"
assert along_one < 1e-13 and along_x_hat < 1e-4, "both components of dx are gone"

# %% [markdown]
# **The surprise.** *Whatever* dout is, dx is orthogonal to the vector of ones and to x_hat. No
# gradient points in the direction that shifts a row as a whole, and none in the direction that
# stretches it. This is as it must be: a row that is shifted or stretched has the same output (but
# for eps), so the derivative of the loss in these two directions is zero.

# %% [markdown] tags=["deeper"]
# ### What eps leaves, and how long dx is
#
# Along x_hat a little is left because of eps. P would remove all of this component if the mean of
# x_hat² were 1. But it is var / (var + eps), a little less. So P removes only this share of the
# component, and the rest, the share eps / (var + eps), stays. Without eps nothing stays.

# %%
import math

left_over = (v.rstd * EPS / (v.var + EPS))[..., 0] * (dx_hat * v.x_hat).sum(axis=-1)
assert np.allclose((dx * v.x_hat).sum(axis=-1), left_over, rtol=1e-6, atol=1e-14), "because of eps"

moved, moved_cache = layernorm_forward(1000 * x + 5, g, b)
dx_moved, _, _ = layernorm_backward(dout, moved_cache)
print(f"x replaced by 1000 x + 5: out changes by {np.abs(moved - out).max():.0e},")
print(f"    and dx is smaller by the factor {np.abs(dx).max() / np.abs(dx_moved).max():.0f}")
assert np.abs(moved - out).max() < 1e-4, "the output does not change"
assert np.allclose(1000 * dx_moved, dx, atol=1e-4), "and the gradient is divided by 1,000"

flat, (_, flat_rstd, _) = layernorm_forward(np.full(C, 4.0), np.ones(C), np.zeros(C))
print(f"a row of equal numbers: out {np.abs(flat).max():.0f}, rstd {flat_rstd.item():.0f}")
assert np.abs(flat).max() == 0, "no deviation, no output"
assert abs(flat_rstd.item() - 1 / math.sqrt(EPS)) < 1e-6, "eps limits rstd"

# %% [markdown]
# The second half of the surprise is the factor r = 1/std. The larger the deviations of x from its
# mean are, the *smaller* is its gradient: a long vector must move farther to turn by the same
# angle. For small deviations, eps sets a limit: rstd is never larger than 1/sqrt(1e-5) = 316, so
# dx is never more than 316 times as long as dx_hat.

# %% [markdown] tags=["deeper"]
# ### One dout, and every input

# %%
_, hand_cache = layernorm_forward(row, np.ones(4), np.zeros(4))
dx_hand, _, _ = layernorm_backward(np.array([1.0, 0, 0, 0]), hand_cache)
print("x = (1, 2, 4, 8) and dout = (1, 0, 0, 0): dx =", dx_hand.round(3))
by_pencil = [0.18163573, -0.15568756, -0.08433082, 0.05838266]
assert np.allclose(dx_hand, by_pencil, rtol=0, atol=1e-8), "the numbers of the derivation"

# %% [markdown]
# Look at the last number. To make the *first* output larger, increase the first input (0.182), but
# also, a little, the *largest input* (0.058). A larger last input raises the mean, which alone
# would lower the first output. It also raises the standard deviation, which brings the first
# output, a negative number, nearer to 0. Here the second effect is the stronger one. In a row,
# every output depends on every input.

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap

# %%
from minigpt import gradcheck

results = gradcheck.check(layernorm_forward, layernorm_backward, (x, g, b), {"eps": EPS})
print(gradcheck.table(results))
assert all(result.error < 1e-9 for result in results), "the closed form is right"

# %% [markdown]
# **The trap: checking at the start.** Gains start at 1. Here is a backward pass that multiplies by
# g *after* the means were taken, which is an easy mistake. At g = 1 there is no difference, and a
# check that is made there finds nothing:

# %%
def g_outside_backward(dout, cache):
    x_hat, rstd, g = cache
    dx, dg, db = layernorm_backward(dout, (x_hat, rstd, np.ones_like(g)))
    return g * dx, dg, db


print("g outside the means     error of dx   verdict")
verdicts = {}
for where, gain in (("at g = 1", np.ones(C)), ("at a random g", g)):
    first = gradcheck.check(layernorm_forward, g_outside_backward, (x, gain, b))[0]
    verdicts[where] = first.word
    print(f"{where:21} {first.error:13.0e}   {first.word}")
assert verdicts == {"at g = 1": "happy", "at a random g": "wrong"}, "wrong, but not at g = 1"

# %% [markdown]
# Such a model has right gradients at its first update, and wrong ones as soon as its gains have
# changed. So check at random gains.
#
# The second trap was met in lesson 00: a dout for which the true gradient is zero. At g = 1 there
# are two that you can easily take:
#
# - the vector whose entries are all 1;
# - x itself. (You get it if you draw x and dout from generators with the same seed.)
#
# The true dx is then 0, or nearly 0 because of eps. Seven times nearly 0 is still nearly 0. So a
# check that allows an absolute error of 1e-4 cannot see there that a dx is seven times too large:

# %%
def absolute_check(upstream, times):
    """A careless check: may no entry of dx be off by more than 1e-4?"""
    gain = np.ones(C)
    true = gradcheck.numeric(lambda x: layernorm_forward(x, gain, b)[0], x.copy(), upstream)
    own, _, _ = layernorm_backward(upstream, layernorm_forward(x, gain, b)[1])
    return "passes" if np.abs(times * own - true).max() < 1e-4 else "fails"


print("dout               dx       7 times dx")
found = {}
for name, upstream in (("ones", np.ones_like(x)), ("x", x), ("drawn for itself", dout)):
    found[name] = absolute_check(upstream, 1), absolute_check(upstream, 7)
    print(f"{name:18} {found[name][0]:8} {found[name][1]}")
assert found["ones"] == found["x"] == ("passes", "passes"), "two choices of dout that see nothing"
assert found["drawn for itself"] == ("passes", "fails"), "an independent one sees the mistake"

# %% [markdown] tags=["deeper"]
# ## 6. See it: all that is left is to turn
#
# With C = 3 we can draw it. We look along the direction (1, 1, 1), so a shift moves nothing in the
# picture, and we see the plane of the deviations from the mean. There the squared length of every
# x_hat is 3, so all x_hat lie on a *circle*. Of three numbers, one angle is left.

# %%
across, up = np.array([1, -1, 0]) / math.sqrt(2), np.array([-1, -1, 2]) / math.sqrt(6)
cloud = np.random.default_rng(7).normal(size=(60, 3)) * [1.8, 1.2, 1] + [0.5, 0, 0.8]
on_circle, _ = layernorm_forward(cloud, np.ones(3), np.zeros(3))

ticks = np.arange(-4, 4.1, 0.8)
right_of, above = np.meshgrid(ticks, ticks)
points = right_of[..., None] * across + above[..., None] * up
_, points_cache = layernorm_forward(points, np.ones(3), np.zeros(3))
field, _, _ = layernorm_backward(np.broadcast_to(up, points.shape), points_cache)
field[np.hypot(right_of, above) < 1.2] = np.nan  # near the centre the arrows are too long to draw
outwards = np.nanmax(np.abs((field * points).sum(axis=-1)))
length = np.sqrt((on_circle**2).sum(axis=-1))
print(f"length of x_hat: {length.min():.3f} to {length.max():.3f}; sqrt(3) = {math.sqrt(3):.3f}")
print(f"largest component of an arrow along its own x: {outwards:.0e}")
assert np.allclose(length, math.sqrt(3), atol=0.01), "all x_hat lie on a circle"
assert outwards < 1e-4, "every arrow is at a right angle to its x"
lengths = np.linalg.norm(field, axis=-1)  # ticks[5] is 0, above and below the centre
assert np.nanmax(lengths[:, 5]) < 1e-4, "at the top and at the bottom the arrows vanish"
assert np.all(np.diff(lengths[5, 7:]) < 0), "farther to the right they are shorter"

# %% tags=["hide-input"]
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(10, 5.2))
angle = np.linspace(0, 2 * math.pi, 200)
for axes in (left, right):
    axes.plot(math.sqrt(3) * np.cos(angle), math.sqrt(3) * np.sin(angle), color="tab:orange")
    axes.set(xlabel="x along (1, -1, 0)", aspect="equal", xlim=(-4.6, 4.6), ylim=(-4.6, 4.6))
for start_point, end in zip(cloud, on_circle, strict=True):
    both = np.stack([start_point, end])
    left.plot(both @ across, both @ up, color="gray", linewidth=0.6)
left.plot(cloud @ across, cloud @ up, "o", color="tab:blue", markersize=4, label="x")
left.plot(on_circle @ across, on_circle @ up, "o", color="tab:orange", markersize=4, label="x_hat")
left.set(title="Forward: x goes to the circle", ylabel="x along (-1, -1, 2)")
left.legend(loc="upper left")
right.quiver(
    right_of, above, field @ across, field @ up, color="tab:blue", angles="xy", width=0.006
)
right.set_title("Backward: dout points up, dx turns")
plot.save(figure, "06_circle.png")

# %% [markdown]
# Left: the forward removes the distance from the centre. Right: so no gradient changes this
# distance. Every arrow is the dx of one x, for the same dout, which points up. Each arrow goes
# round the circle, none goes in or out. At the top, where x_hat is as far up as it can be, and at
# the bottom, where both ways round are equally good, the arrows vanish. Farther out they are
# shorter. The next picture shows how their length falls with the standard deviation of x, and how
# eps limits it: far below std = sqrt(eps) = 0.003 the curve is flat.

# %%
sizes = 10.0 ** np.arange(-5, 3.1, 0.25)
largest = []
for size in sizes:
    small_dx, _, _ = layernorm_backward(dout, layernorm_forward(size * x, g, b)[1])
    largest.append(np.linalg.norm(small_dx) / np.linalg.norm(dx_hat))
spread = sizes * np.median(v.std)
figure, axes = plot.plt.subplots(figsize=(7.5, 4.4))
axes.loglog(spread, largest, "o-", markersize=4)
axes.axvline(math.sqrt(EPS), color="gray", linestyle=":")
axes.text(1.4 * math.sqrt(EPS), 2e-3, "std = sqrt(eps)", color="gray")
axes.set(title="The more x varies, the smaller its gradient", xlabel="standard deviation of x")
axes.set_ylabel("length of dx / length of dx_hat")
plot.save(figure, "06_size_of_the_gradient.png")
slope_far = math.log10(largest[-1] / largest[-5])
print(f"x ten times as large, far right: dx is {10**slope_far:.2f} of what it was")
print(f"far left: dx is {largest[0]:.0f} times as long as dx_hat")
assert abs(slope_far + 1) < 0.01 and 100 < largest[0] < 317, "slope -1, and a limit"

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# The library's backward pass is our closed form:
#
#     # minigpt/ops/reference/layernorm.py
#     shift = dx_hat.mean(axis=-1, keepdims=True)
#     stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
#     dx = rstd * (dx_hat - shift - x_hat * stretch)

# %%
with ops.using("reference"):
    library_out, library_cache = ops.layernorm_forward(x, g, b, eps=EPS)
    theirs = ops.layernorm_backward(dout, library_cache)
    ledger = ops.ledger(library_cache)
assert np.allclose(library_out, out, rtol=0, atol=1e-14), "the same output"
for mine, other in zip(layernorm_backward(dout, cache), theirs, strict=True):
    assert np.allclose(mine, other, rtol=0, atol=1e-13), "the same gradients"
print("kept for the backward   bytes")
for name, size in ledger.items():
    print(f"{name:21} {size:7}")
assert ledger == {"x_hat": 8 * B * T * C, "rstd": 8 * B * T, "g": 8 * C}, "what the cache keeps"

each = 64 * 512 * (768 + 1) * 4  # GPT-1: 64 sequences of 512 positions, float32
print(f"GPT-1: {each / 1e6:.0f} MB for one LayerNorm, {24 * each / 1e9:.2f} GB for all 24")
assert round(each / 1e6) == 101 and round(24 * each / 1e9, 2) == 2.42, "x_hat is as large as x"

# %% [markdown]
# x_hat is as large as x, and rstd is one number for each position. An implementation can keep x,
# the mean and rstd instead, and compute x_hat again. That saves memory only where x is kept anyway.
#
# **A relative: RMSNorm** (Zhang and Sennrich 2019), as it is used today, leaves two things out:
# it does not subtract the mean, and it has no bias. It divides by the root of the mean square:
#
# $$
# out = \frac{g\,x}{\sqrt{\mathrm{mean}(x^2) + eps}}.
# $$
#
# So each row needs one mean where LayerNorm needs two, and each RMSNorm has C parameters where
# LayerNorm has 2C. Many models after GPT-2 use it, such as Llama (Touvron et al. 2023). Is it
# still independent of a shift and of a stretch?

# %%
def rmsnorm_forward(x, g, *, eps=1e-5):
    """x (*,C), g (C,) -> out (*,C)"""
    rrms = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return g * (x * rrms)


centred = x - x.mean(axis=-1, keepdims=True)
print("largest change of the output     LayerNorm   RMSNorm")
changes = {}
for name, changed in (("x times 1000", 1000 * x), ("x plus 5", x + 5)):
    by_layernorm = np.abs(layernorm_forward(changed, g, b)[0] - out).max()
    by_rmsnorm = np.abs(rmsnorm_forward(changed, g) - rmsnorm_forward(x, g)).max()
    changes[name] = by_rmsnorm
    print(f"{name:28} {by_layernorm:13.0e} {by_rmsnorm:9.0e}")
assert changes["x times 1000"] < 1e-4 < 0.1 < changes["x plus 5"], "a shift changes RMSNorm"
same = np.allclose(rmsnorm_forward(centred, g) + b, out, rtol=0, atol=1e-13)
print("on rows with the mean 0, RMSNorm plus a bias is LayerNorm:", same)
assert same, "the mean is the only difference"

# %% [markdown]
# A stretch still changes nothing, a shift does. How many components does its backward remove? That
# is exercise 1.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - Ba et al. have no eps in equations 3 and 4. OpenAI's code adds 1e-5 *inside* the root, as we do.
# - The variance is the *biased* one, divided by C. `np.var` computes it. PyTorch's `tensor.var()`
#   divides by C - 1 unless told otherwise. At width 768 this changes x_hat by 0.07 %, small enough
#   to be overlooked.
# - Where does it stand? In GPT-1 *after* the addition, x = LN(x + f(x)), as in Vaswani et al.
#   ("post-norm"). So a gradient passes all 24 of them on any way down. In GPT-2 *before* the
#   sub-layer (attention or MLP), x = x + f(LN(x)) ("pre-norm"): between the blocks the sum has
#   none, and there is one after the last block. Lessons 09 and 16 train both kinds.

# %%
unbiased = math.sqrt(767 / 768)
print(f"dividing by C - 1 in place of C multiplies x_hat by {unbiased:.5f} at C = 768")
assert abs(1 - unbiased - 6.5e-4) < 1e-5, "0.07 %"

# %% [markdown]
# ## 9. To keep
#
# - LayerNorm subtracts the mean of each position's C numbers and divides by their standard
#   deviation: every layer receives numbers of one scale, at every depth.
# - Backward, eight lines become one: `dx_hat`, minus its mean, minus `x_hat` times the mean of
#   `dx_hat * x_hat`, all times 1/std; the gain g is inside both means.
# - Whatever dout is, dx has no component along the vector of ones and none along x_hat: to shift or
#   stretch a row changes nothing.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/06_rmsnorm.py`: the backward of RMSNorm, line by line, and at the end its dx as one
#    line. Run the file: it names the first line that is wrong.
# 2. `exercises/06_find_the_bug.py`: right at the start of training, and wrong from then on. It is
#    not the mistake of section 5.
# 3. On paper: a matrix w comes before a LayerNorm, h = LN(x w). Show that its gradient dw
#    is orthogonal to w (for eps = 0). What does an update of gradient descent then do to the length
#    of w, and what does that do to the next gradient?
# 4. `exercises/06_layernorm.py`: LayerNorm itself once more, without looking, as a first exercise
#    in the form of the library. Judge it: `minigpt check lessons/exercises/06_layernorm.py`.

# %%
assert all(result.word == "happy" for result in by_lines), "every line of section 3 is right"
worst = max(result.error for result in by_lines)
print(f"lesson 06: every check is happy (worst relative error {worst:.0e})")
