# %% [markdown]
# # Lesson 06: LayerNorm
#
# You will see signals fade and explode in a deep network, build the cure, derive its backward with a pencil, and find
# that it is a projection: two wishes of every gradient are never passed on.
#
# Reading: 30 minutes. Running: 4 seconds. Before it: lessons 00 (the backward pass) and 05 (GELU, for the experiment).
#
# Papers: Ba, Kiros and Hinton 2016 (arXiv 1607.06450), equations 3 and 4. Vaswani et al. 2017, section 3.1, and GPT-1,
# figure 1: where it stands.

# %% [markdown]
# ## 1. Why: scale drifts with depth
#
# A layer multiplies by a matrix and bends. Suppose that the numbers come out half as large as they went in. After one
# layer nobody would notice. Twelve layers: 0.5^12 = 0.0002. The same drift upwards, 2^12 = 4,096. A deep network is a
# long product, and a long product is nearly always near zero or huge.
#
# Let us measure. Layers of 64 numbers: a matrix with entries from N(0, s^2/64), then GELU. If s = 1, the product has
# about the scale of its input, and the bend makes it smaller. With LayerNorm (one line, which the rest of this lesson
# explains) in front of each matrix, and without it:

# %%
import math

import numpy as np

from minigpt import ops


def normalize(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def scale_after(depth, s, norm):
    draw = np.random.default_rng(5)
    x = draw.normal(size=(100, 64))
    for _ in range(depth):
        x = normalize(x) if norm else x
        x, _ = ops.gelu_forward(x @ draw.normal(size=(64, 64)) * (s / math.sqrt(64)))
    return x.std()


print("standard deviation after 1, 12 and 24 layers")
for s in (0.5, 1, 2):
    bare, normed = ([scale_after(depth, s, norm) for depth in (1, 12, 24)] for norm in (False, True))
    print(f"  s = {s:3}: " + ", ".join(f"{v:5.0e}" for v in bare), end="    with LayerNorm: ")
    print(", ".join(f"{v:.2f}" for v in normed))
    assert max(normed) / min(normed) < 1.1  # the same at every depth
    assert bare[1] < 1e-2 if s < 2 else bare[1] > 10

# %% [markdown]
# With LayerNorm, what comes out is what one layer makes of numbers of scale 1: 0.28, 0.6 or 1.2, and the same at every
# depth. Without it, s would have to be just right, and stay just right while training changes every matrix. GPT-1
# draws its weights from N(0, 0.02^2) at a width of 768: s = 0.02 sqrt(768) = 0.55, close to the first row: twelve such
# layers without help would pass on next to nothing. Their help is LayerNorm, and the residual connections of lesson
# 07.
#
# **The idea**: in front of a layer, take each position's C numbers, subtract their mean and divide by their standard
# deviation. Whatever the scale was, it is 1 now. By hand, for x = (1, 2, 4, 8): the mean is 15/4 = 3.75. The
# deviations are -2.75, -1.75, 0.25, 4.25; their squares have the mean 7.1875, whose root is 2.681. So x_hat = (-1.026,
# -0.653, 0.093, 1.585).

# %%
by_hand = np.array([-1.02575458, -0.65275291, 0.09325042, 1.58525707])
assert np.allclose(normalize(np.array([1.0, 2, 4, 8])), by_hand, rtol=0, atol=1e-8)

# %% [markdown]
# Two things are added. **eps** = 1e-5 under the root: a row of equal numbers has variance 0, and 0/0 is no number. And
# a learned **gain** g and **bias** b for each channel: if the next layer wants a channel large, it can have it large.

# %% [markdown]
# ## 2. Forward: one operation per line
#
# Each of the B x T positions is normalised for itself, with no look at its neighbours. So a position cannot see the
# future through it, and training and evaluation do the same (batch normalisation can do neither).

# %%
B, T, C = 2, 3, 7
rng = np.random.default_rng(5)
x = rng.normal(3, 2, size=(B, T, C))
g, b = rng.uniform(0.5, 2, size=C), rng.normal(size=C)
eps = 1e-5

mean = x.sum(axis=-1, keepdims=True) / C  # (B, T, 1)
x_mean = x - mean  # (B, T, C)
square = x_mean * x_mean
var = square.sum(axis=-1, keepdims=True) / C  # (B, T, 1): divided by C, not by C - 1
shifted = var + eps
std = np.sqrt(shifted)
rstd = 1 / std
x_hat = x_mean * rstd  # (B, T, C)
scaled = g * x_hat
out = scaled + b

assert out.shape == (B, T, C)
assert np.allclose(x_hat.mean(axis=-1), 0, atol=1e-15) and np.allclose(x_hat.std(axis=-1), 1, atol=1e-5)

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# Two values are used twice and hear twice: x_mean (in `square` and in `x_hat`) and x (in `mean` and in `x_mean`). A
# sum over C in the forward is a copy to all C in the backward, and the other way round: where one number was spread
# over a row (mean, rstd), the row's gradients are summed.

# %%
dout = rng.normal(size=out.shape)

# out = scaled + b
dscaled = dout
db = dout.sum(axis=(0, 1))  # b was used by every position
# scaled = g * x_hat
dg = (dscaled * x_hat).sum(axis=(0, 1))
dx_hat = dscaled * g
# x_hat = x_mean * rstd
dx_mean = dx_hat * rstd
drstd = (dx_hat * x_mean).sum(axis=-1, keepdims=True)
# rstd = 1 / std
dstd = -drstd / (std * std)
# std = sqrt(shifted)
dshifted = dstd / (2 * std)
# shifted = var + eps
dvar = dshifted
# var = square.sum() / C
dsquare = np.broadcast_to(dvar / C, square.shape)
# square = x_mean * x_mean
dx_mean = dx_mean + 2 * x_mean * dsquare
# x_mean = x - mean
dx = dx_mean
dmean = -dx_mean.sum(axis=-1, keepdims=True)
# mean = x.sum() / C
dx = dx + dmean / C

# %% [markdown]
# ## 4. Collapse: the pencil work
#
# One position; sums and means run over its C channels. We walk through the same lines with symbols, rstd written r.
#
#     drstd = sum(dx_hat x_mean) = sum(dx_hat x_hat) / r                    since x_mean = x_hat / r
#     dvar  = -drstd r^2 * r/2   = -r^2/2 sum(dx_hat x_hat)                 since 1/std = r
#           = -r^2 C/2 * m,      with m = mean(dx_hat x_hat)
#
# x_mean gets two messages, a direct one and one through the variance:
#
#     dx_mean = r dx_hat + 2 x_mean dvar / C
#             = r dx_hat - r^2 x_mean m        = r (dx_hat - x_hat m)       since r x_mean = x_hat
#
# And x gets two, a direct one and one through the mean. Together they subtract the mean of the message:
#
#     dx = dx_mean - mean(dx_mean)
#        = r (dx_hat - x_hat m  -  mean(dx_hat) + mean(x_hat) m)
#
# The last term is zero, since x_hat has the mean 0: the variance does not depend on the mean at all. What is left is
#
#     dx = r ( dx_hat  -  mean(dx_hat)  -  x_hat mean(dx_hat x_hat) )
#
# The ten lines from dx_mean to dx have become one. Note where g stands: *inside* both means, because dx_hat = dout g.

# %%
def layernorm_forward(x, g, b, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    x_mean = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((x_mean * x_mean).mean(axis=-1, keepdims=True) + eps)
    x_hat = x_mean * rstd
    return g * x_hat + b, (x_hat, rstd, g)


def layernorm_backward(dout, cache):
    x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))
    dx_hat = dout * g
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    return rstd * (dx_hat - shift - x_hat * stretch), (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)


out2, cache = layernorm_forward(x, g, b)
assert np.allclose(out2, out, rtol=0, atol=1e-14)
for closed, by_lines in zip(layernorm_backward(dout, cache), (dx, dg, db), strict=True):
    assert np.allclose(closed, by_lines, rtol=0, atol=1e-14)

_, hand_cache = layernorm_forward(np.array([1.0, 2, 4, 8]), np.ones(4), np.zeros(4))
dx_hand, _, _ = layernorm_backward(np.array([1.0, 0, 0, 0]), hand_cache)
print("x = (1, 2, 4, 8), only the first output is wanted larger: dx =", dx_hand.round(3))
assert np.allclose(dx_hand, [0.18163573, -0.15568756, -0.08433082, 0.05838266], rtol=0, atol=1e-8)

# %% [markdown]
# Look at the last number. To make the *first* output larger, the *largest input* should grow too: that widens the row,
# and pulls the first one, which is negative, up towards the mean. In a row, all depend on all.
#
# **What the line says.** mean(v) is how much of v lies along the vector of ones; mean(v x_hat) is how much of it lies
# along x_hat. Both are subtracted. So dx = r P dx_hat, with a matrix P that takes two directions out and leaves all
# others:
#
#     P = I - 1 1^T / C - x_hat x_hat^T / C
#
# That is a **projection**, since 1 and x_hat are orthogonal and both have the squared length C (x_hat but for eps).

# %%
one = np.ones(C)
row = x_hat[1, 2]
P = np.eye(C) - np.outer(one, one) / C - np.outer(row, row) / C
assert np.allclose(dx[1, 2], rstd[1, 2] * P @ dx_hat[1, 2], rtol=0, atol=1e-14)
assert np.allclose(P @ P, P, atol=1e-5) and round(np.trace(P), 4) == C - 2  # of 7 directions, 5 are left

size, along_one, along_x_hat = (np.abs(v).max() for v in (dx, (dx * one).sum(-1), (dx * x_hat).sum(-1)))
print(f"entries of dx up to {size:.1f}; dx . 1 at most {along_one:.0e}, dx . x_hat at most {along_x_hat:.0e}")
assert along_one < 1e-14 and along_x_hat < 1e-4 * size

# %% [markdown]
# **The surprise.** *Whatever* the layers above ask for, the gradient that comes out below is orthogonal to 1 and to
# x_hat. No wish to shift the row and no wish to stretch it ever gets through. It must be so: shifting or stretching x
# does not change the output, so there is nothing to be gained by it. (Along x_hat a trace is left, because of eps: the
# share eps/(var + eps). Without eps it is exactly zero.)

# %%
trace = rstd[..., 0] * (eps / (var + eps))[..., 0] * (dx_hat * x_hat).sum(axis=-1)
assert np.allclose((dx * x_hat).sum(axis=-1), trace, rtol=1e-6, atol=1e-14)

moved, moved_cache = layernorm_forward(1000 * x + 5, g, b)
dx_moved, _, _ = layernorm_backward(dout, moved_cache)
shrinks = np.abs(dx).max() / np.abs(dx_moved).max()
print(f"x replaced by 1000 x + 5: out moves by {np.abs(moved - out).max():.0e}, dx shrinks {shrinks:.0f} times")
assert np.abs(moved - out).max() < 1e-4 and np.allclose(1000 * dx_moved, dx, atol=1e-4)

flat, (_, flat_rstd, _) = layernorm_forward(np.full(C, 4.0), np.ones(C), np.zeros(C))
print(f"a row of equal numbers: out {np.abs(flat).max():.0f}, its gradients are multiplied by {flat_rstd.item():.0f}")
assert np.abs(flat).max() == 0 and abs(flat_rstd.item() - 1 / math.sqrt(eps)) < 1e-6

# %% [markdown]
# The second half of the surprise: the factor r = 1/std. The larger x, the *smaller* its gradient, since a large x must
# move farther to turn by the same angle. At the other end eps sets a limit: dx is never longer than 1/sqrt(1e-5) = 316
# times dx_hat.

# %% [markdown]
# ## 5. Check, and the trap

# %%
from minigpt import gradcheck

results = gradcheck.check(layernorm_forward, layernorm_backward, (x, g, b), {"eps": eps})
print(gradcheck.table(results))
assert all(result.error < 1e-9 for result in results)


# %% [markdown]
# **The trap: checking at the start.** Gains start at 1. Here is a backward with g *outside* the means, an easy
# mistake. At g = 1 there is no difference, and a check made there says "happy":

# %%
def g_outside_backward(dout, cache):
    x_hat, rstd, g = cache
    dx, dg, db = layernorm_backward(dout, (x_hat, rstd, np.ones_like(g)))
    return g * dx, dg, db


at_start = gradcheck.check(layernorm_forward, g_outside_backward, (x, np.ones(C), b))[0]
moved_off = gradcheck.check(layernorm_forward, g_outside_backward, (x, g, b))[0]
print(f"g outside the means, dx at g = 1: {at_start.error:.0e}, {at_start.word};", end=" ")
print(f"at a random g: {moved_off.error:.2f}, {moved_off.word}")
assert at_start.word == "happy" and moved_off.word == "wrong"

# %% [markdown]
# Such a model has right gradients at its first step, and wrong ones as soon as its gains have moved. And lesson 00's
# trap is here as well, twice: at g = 1 the true dx is zero for a cotangent of ones, and also for a cotangent equal to
# x, which is what one gets by drawing both from generators with the same seed. Then seven times dx would pass.

# %%
for blind in (np.ones_like(x), x):
    nothing, _, _ = layernorm_backward(blind, layernorm_forward(x, np.ones(C), b)[1])
    assert np.abs(nothing).max() < 1e-4 * np.abs(dx).max()

# %% [markdown]
# ## 6. See it: all that is left is to turn
#
# With C = 3 we can draw it. We look along the direction (1, 1, 1), so that a shift moves nothing in the picture, and
# see the plane of deviations from the mean. There |x_hat|^2 = 3, so all x_hat lie on a *circle*: of three numbers, one
# angle is left.

# %%
from minigpt import plot

across, up = np.array([1, -1, 0]) / math.sqrt(2), np.array([-1, -1, 2]) / math.sqrt(6)  # two axes in that plane
ones3, zeros3 = np.ones(3), np.zeros(3)

cloud = rng.normal(size=(60, 3)) * [1.8, 1.2, 1] + [0.5, 0, 0.8]
on_circle, _ = layernorm_forward(cloud, ones3, zeros3)
assert np.allclose((on_circle**2).sum(axis=-1), 3, atol=0.01)

u, v = np.meshgrid(np.arange(-4, 4.1, 0.8), np.arange(-4, 4.1, 0.8))
points = u[..., None] * across + v[..., None] * up
_, points_cache = layernorm_forward(points, ones3, zeros3)
field, _, _ = layernorm_backward(np.broadcast_to(up, points.shape), points_cache)  # every x_hat is asked to go up
radius = np.hypot(u, v)
field[radius < 1] = np.nan  # near the centre the arrows would be too long to draw
assert np.nanmax(np.abs((field * points).sum(axis=-1))) < 1e-4  # every arrow is at a right angle to its x

figure, (left, middle, right) = plot.plt.subplots(1, 3, figsize=(13, 4.3))
angle = np.linspace(0, 2 * math.pi, 200)
for axes in (left, middle):
    axes.plot(math.sqrt(3) * np.cos(angle), math.sqrt(3) * np.sin(angle), color="tab:orange", linewidth=1)
    axes.set(xlabel="x along (1, -1, 0)", ylabel="x along (-1, -1, 2)", aspect="equal")
    axes.set(xlim=(-4.6, 4.6), ylim=(-4.6, 4.6))
for start, end in zip(cloud, on_circle, strict=True):
    left.plot([start @ across, end @ across], [start @ up, end @ up], color="gray", linewidth=0.5)
left.plot(cloud @ across, cloud @ up, "o", color="tab:blue", markersize=4, label="x")
left.plot(on_circle @ across, on_circle @ up, "o", color="tab:orange", markersize=4, label="x_hat")
left.set_title("Forward: every x goes to the circle")
left.legend(loc="upper left")
middle.quiver(u, v, field @ across, field @ up, color="tab:blue", angles="xy", width=0.006)
middle.set_title('Backward: asked to go "up", every x can only turn')
sizes = 10.0 ** np.arange(-5, 3.1, 0.25)
shrunk = [np.abs(layernorm_backward(dout, layernorm_forward(size * x, g, b)[1])[0]).max() for size in sizes]
spread = sizes * np.median(std)
right.loglog(spread, np.array(shrunk) / np.abs(dx_hat).max(), "o-", markersize=3)
right.axvline(math.sqrt(eps), color="gray", linestyle=":")
right.text(1.3 * math.sqrt(eps), 2e-3, "sqrt(eps)", color="gray")
right.set(xlabel="standard deviation of x", ylabel="max |dx| / max |dx_hat|")
right.set_title("The larger x, the smaller its gradient")
plot.save(figure, "06_layernorm.png")

# %% [markdown]
# Left: what the forward takes away is the distance from the centre. Middle: so the backward has nothing to say about
# it. Every arrow goes around, none in or out; at the top, where x_hat is as far up as it can be, they vanish (and at
# the bottom, where both ways round are equally good). Farther out they are shorter. Right: the same over eight powers
# of ten: slope -1, until eps flattens it.

# %% [markdown]
# ## 7. In the library

# %%
library_out, library_cache = ops.layernorm_forward(x, g, b, eps=eps)
assert np.allclose(library_out, out, rtol=0, atol=1e-14)
for ours, theirs in zip((dx, dg, db), ops.layernorm_backward(dout, library_cache), strict=True):
    assert np.allclose(ours, theirs, rtol=0, atol=1e-14)
print("its cache, in bytes:", ops.ledger(library_cache))
assert ops.ledger(library_cache) == {"x_hat": 8 * B * T * C, "rstd": 8 * B * T, "g": 8 * C}

# %% [markdown]
# x_hat is as large as x, rstd is one number for each position. For the 24 LayerNorms of GPT-1, 64 x 512 positions,
# float32:

# %%
bytes_each = 64 * 512 * (768 + 1) * 4
print(f"{bytes_each / 1e6:.0f} MB for one, {24 * bytes_each / 1e9:.2f} GB for all")
assert round(bytes_each / 1e6) == 101 and round(24 * bytes_each / 1e9, 2) == 2.42

# %% [markdown]
# One may keep x, the mean and rstd instead, and compute x_hat again. It saves something only if x is kept anyway.

# %% [markdown]
# ## 8. Paper and code
#
# - Ba et al. have no eps in equations 3 and 4. OpenAI's code adds 1e-5 *inside* the root, as we do; outside it,
#   released weights would give other logits.
# - The variance is the *biased* one, divided by C. `np.var` does that; PyTorch's `tensor.var()` divides by C - 1
#   unless told otherwise, which changes x_hat by a factor sqrt(767/768) at the width of GPT-1: 0.07 %, small enough to
#   be overlooked.

# %%
assert abs(1 - math.sqrt(767 / 768) - 6.5e-4) < 1e-5

# %% [markdown]
# - Where does it stand? In GPT-1 *after* the addition, x = LN(x + f(x)), as in Vaswani et al. ("post-norm"). So on its
#   way down every gradient passes all 24 of them. In GPT-2 *before* the branch, x = x + f(LN(x)) ("pre-norm"), so that
#   the sum itself has a free road. Lessons 07 and 16 show what that does.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/06_layernorm.py`: write it and its backward. Judge it: `minigpt check
#    lessons/exercises/06_layernorm.py`.
# 2. `exercises/06_find_the_bug.py`: right at the start of training, and wrong from then on. Not the mistake of section
#    5.
# 3. With pencil: a matrix w stands in front of a LayerNorm, h = LN(x w). Show that its gradient dw is orthogonal to w
#    (eps = 0). So what does a step of gradient descent do to the length of w, and what does that do to the next
#    gradient?

# %%
worst = max(result.error for result in results)
print(f"lesson 06: every check is happy (worst relative error {worst:.0e})")
