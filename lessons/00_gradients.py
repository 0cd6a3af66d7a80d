# %% [markdown]
# # Lesson 00: gradients, and why a cache exists
#
# You will meet the one interface that this whole book is built on, `out, cache = forward(...)` and `gradients =
# backward(dout, cache)`. Nobody hands it down: it follows from a problem. And you will build, from nothing, the tool
# that tells whether a gradient is right.
#
# Reading: 25 minutes. Running: 2 seconds. Before it: the derivative of a function of one variable, and NumPy arrays.
#
# Papers: Rumelhart, Hinton and Williams 1986 (Nature 323, equations 4 to 7): how errors travel backwards. Baydin et al.
# 2018 (JMLR 18), section 3.2: the same for any program, called reverse mode.

# %% [markdown]
# ## 1. Why: which way should each number move?
#
# A model is a function with many adjustable numbers, its parameters. The loss is one number that says how badly it did.
# Training asks, for every parameter: *if this one grows a little, does the loss rise or fall, and how fast?* That speed
# is the gradient. The direct way to find out is to try: nudge one number and look. One number x, squashed by tanh and
# stretched by a gain g = 2:

# %%
import math

import numpy as np

x, g = 0.5, 2.0
before = g * math.tanh(x)
after = g * math.tanh(x + 0.001)
slope = (after - before) / 0.001
print(f"out goes from {before:.6f} to {after:.6f} when x grows by 0.001: slope {slope:.4f}")
assert abs(slope - g * (1 - math.tanh(x) ** 2)) < 1e-3  # the formula, derived in section 4

years = 116_534_784 / (365.25 * 24 * 3600)  # one run for each parameter of GPT-1, if a run took a second
print(f"{years:.1f} years for one gradient")
assert 3.6 < years < 3.8

# %% [markdown]
# Trying works for any function. Its price is one run of the model *for every parameter*: 3.7 years of nudging, for one
# single update of GPT-1. The method of this book gets all 116 million slopes for the price of about two more runs. It
# uses the rule from school: slopes of a chain multiply.

# %% [markdown]
# ## 2. Forward: a small operation, one step per line
#
# `squash` does to a table what we just did to a number: T rows, C columns, one gain for each column. Small sizes, all
# of them different: then an array in the wrong place has the wrong shape and gives itself away.

# %%
T, C = 3, 4
rng = np.random.default_rng(0)
x = rng.normal(size=(T, C))
g = rng.uniform(1, 3, size=C)

t = np.tanh(x)  # (T, C)
out = g * t  # (T, C): row by row, column c is stretched by g[c]
assert out.shape == (3, 4)

# %% [markdown]
# Put two of them in a row, and at the end a loss, how far y is from a target: `loss = ((y - target) ** 2).sum()`. Now
# the chain rule, from the end. The loss looks at y, so its slope there is easy: `dy = 2 (y - target)`. (In this book
# `dv` is always the gradient of the loss with respect to `v`. It has the shape of `v`, always: each number in `v` has
# one slope.) The second squash turns `dy` into `dh`, the first turns `dh` into `dx`:
#
#     forward:     x -----> [squash] -- h --> [squash] -- y --> loss
#     backward:    dx <---- [squash] <- dh -- [squash] <- dy -- loss
#
# Each operation gets a message, the gradient of what came out of it, and sends one on, the gradient of what went in. It
# needs to know nothing of its neighbours. That is all that backpropagation is.

# %% [markdown]
# ## 3. Backward, and the question of who remembers
#
# One backward line for each forward line, in reverse order, each under the line that it undoes.

# %%
dout = rng.normal(size=(T, C))  # a message from whoever comes next

# out = g * t
dt = dout * g  # t was multiplied by g
dg = (dout * t).sum(axis=0)  # g[c] touched every row of column c, so it hears from every row: a sum
# t = tanh(x)
dx = dt * (1 - t * t)  # the slope of tanh, from section 4

assert dx.shape == x.shape and dg.shape == g.shape  # dv has the shape of v

# %% [markdown]
# Look at what these lines used: `dout`, which arrives from behind; but also `t` and `g`, which are long gone. The
# result is wanted *now*, the gradient *later*, when the rest of the model has run. In between **somebody has to
# remember t**. Who? There are three candidates.
#
# **Nobody.** Compute everything again when it is needed. But to run block 12 of a model again we need its input, so we
# run blocks 1 to 11; then for block 11, blocks 1 to 10: in all, 66 extra runs of a block where 12 were wanted.
#
# **The operation itself**, in an attribute. Many libraries do that. It works, until one object is used twice:

# %%
class Squash:
    def __init__(self, g):
        self.g = g

    def forward(self, x):
        self.t = np.tanh(x)  # remembered in the object: the second call overwrites the first
        return self.g * self.t

    def backward(self, dout):
        return dout * self.g * (1 - self.t * self.t)


layer = Squash(g)
y = layer.forward(layer.forward(x))  # the same layer, twice
dx_object = layer.backward(layer.backward(dout))

# %% [markdown]
# **The caller.** The forward hands out what must be remembered, together with its result, and the backward gets it
# back. We call it the cache. It is a value: nobody changes it, there can be as many as there are calls, and it dies
# when the last one lets go of it. This is the third candidate, and the interface of this book. Two operations in a row
# are again an operation, forward in order, backward in reverse, and its cache holds the caches of its parts. (A whole
# GPT-1 is nothing else.) So here is also the layer that is used twice:

# %%
def squash_forward(x, g):
    """x (*,C), g (C,) -> out (*,C)"""
    t = np.tanh(x)
    out = g * t
    return out, (t, g)


def squash_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,)"""
    t, g = cache
    # out = g * t
    dt = dout * g
    dg = (dout * t).sum(axis=tuple(range(dout.ndim - 1)))
    # t = tanh(x)
    dx = dt * (1 - t * t)
    return dx, dg


def twice_forward(x, g):
    h, first = squash_forward(x, g)
    y, second = squash_forward(h, g)
    return y, (first, second)


def twice_backward(dy, cache):
    first, second = cache
    # y = squash(h, g)
    dh, dg_second = squash_backward(dy, second)
    # h = squash(x, g)
    dx, dg_first = squash_backward(dh, first)
    return dx, dg_first + dg_second  # g touches y by two roads, so it hears from both


y, cache = twice_forward(x, g)
dx_cache, _ = twice_backward(dout, cache)
i = np.unravel_index(np.abs(dx_cache - dx_object).argmax(), x.shape)  # where object and cache differ most
nudged = x.copy()
nudged[i] += 1e-6
tried = ((twice_forward(nudged, g)[0] - y) * dout).sum() / 1e-6
print(f"slope by trying {tried:.4f}, with a cache {dx_cache[i]:.4f}, remembered in the object {dx_object[i]:.4f}")
assert abs(tried - dx_cache[i]) < 1e-4 * abs(tried)
assert abs(tried - dx_object[i]) > 0.1 * abs(tried)

# %% [markdown]
# The object answered from the wrong memory, and did not complain. This is no rare case: GPT-1 reads two sentences in
# both orders through the same weights (section 3.3), its token table serves as input and as output, and a look at the
# validation loss between forward and backward is enough to spoil an object's memory.
#
# The cache is also a *choice*: we kept t, not x, since the slope of tanh can be told from t alone. Memory is what
# training a large model runs out of, so such choices will matter.

# %% [markdown]
# ## 4. The pencil work
#
# **The slope of tanh.** tanh(x) = s/c with s = (e^x - e^-x)/2 and c = (e^x + e^-x)/2. Then ds/dx = c and dc/dx = s, and
# by the quotient rule d(s/c)/dx = (c c - s s)/c^2 = 1 - (s/c)^2 = 1 - tanh(x)^2.
#
# **Why messages multiply and add.** Every input x[i] may touch every output out[j]. By the chain rule
#
#     dx[i] = dL/dx[i] = sum_j dL/dout[j] * dout[j]/dx[i] = sum_j dout[j] * J[j,i],
#
# a row vector times a matrix, the Jacobian J. Let us build J for squash by nudging, and compare.

# %%
J = np.empty((T * C, T * C))
for i, nudge in enumerate(1e-5 * np.eye(T * C).reshape(-1, T, C)):
    J[:, i] = (squash_forward(x + nudge, g)[0] - squash_forward(x - nudge, g)[0]).ravel() / 2e-5

one_line = dout * g * (1 - np.tanh(x) ** 2)  # the closed form: the lines of section 3 in one
assert np.allclose(dout.ravel() @ J, one_line.ravel(), rtol=0, atol=1e-9)
assert np.allclose(dx, one_line, rtol=0, atol=1e-15)
assert (J.size, np.count_nonzero(J)) == (144, 12)

# %% [markdown]
# Twelve outputs, twelve inputs, 144 slopes, and all but the diagonal are zero. At the size of GPT-1 (512 positions of
# 3,072 numbers each, inside one block) that matrix would have 2.5 trillion entries. A backward never builds it. It
# computes the *product* of the message and J, which is as small as the message. Every backward in this book is such a
# product, worked out by hand until nothing of the matrix is left.

# %% [markdown]
# ## 5. Check: is a backward right?
#
# We trust nudging, which knows nothing of our formulas. For an operation without a loss we make one: L = sum(out *
# dout) with some array `dout`, called the cotangent. The gradient of L with respect to `out` is `dout`: just what the
# backward is to be given.
#
# How far should we nudge? On one side, or on both? Let us see what Taylor says about f at x + eps and x - eps:
#
#     (f(x + eps) - f(x)) / eps             = f'(x) + eps/2 f''(x) + ...
#     (f(x + eps) - f(x - eps)) / (2 eps)   = f'(x) + eps^2/6 f'''(x) + ...
#
# Both sides are better: the error shrinks with the square of eps. But a computer rounds: a float64 knows f to about
# 1e-16 of its size, so the difference has an error of 1e-16, and we divide it by eps: **rounding** costs 1e-16/eps,
# **truncation** of the series eps^2. A small eps is bad for one, a large eps for the other. Section 6 shows the
# picture; the best eps is where both are equal, eps^3 = 1e-16, near 5e-6. We take 1e-5.

# %%
def numeric_gradient(function, v, eps=1e-5, both_sides=True):
    """The gradient of function(v), a number, for each entry of the array v: nudge it, and look."""
    gradient = np.empty_like(v)
    for i in np.ndindex(v.shape):
        up, down = v.copy(), v.copy()
        up[i] += eps
        down[i] -= eps if both_sides else 0
        gradient[i] = (function(up) - function(down)) / (up[i] - down[i])
    return gradient

# %% [markdown]
# How close is close? Not `|a - n|`: an error of 0.001 is nothing beside 1000 and everything beside 0.001. So divide by
# the size of the gradient, the largest entry of the two arrays. Not entry by entry: an entry that happens to be near
# zero would look terrible for no fault of its own. And put the result into words.

# %%
def relative_error(a, n):
    return np.abs(a - n).max() / max(np.abs(a).max(), np.abs(n).max())


def word(error):
    return "happy" if error < 1e-7 else "suspicious" if error < 1e-4 else "wrong"


def check(forward, backward, arguments):
    """The relative error of each gradient that `backward` returns. Everything a gradient check needs is in here."""
    out, cache = forward(*arguments)
    dout = np.random.default_rng(1).normal(size=out.shape)
    gradients = backward(dout, cache)
    errors = []
    for k, gradient in enumerate(gradients if isinstance(gradients, tuple) else (gradients,)):

        def loss(v, k=k):
            changed = [*arguments[:k], v, *arguments[k + 1 :]]
            return (forward(*changed)[0] * dout).sum()

        errors.append(relative_error(gradient, numeric_gradient(loss, arguments[k])))
    return errors


for name, error in zip(("x", "g"), check(squash_forward, squash_backward, (x, g)), strict=True):
    print(f"  squash d{name}: relative error {error:.0e}, {word(error)}")
    assert error < 1e-9
assert max(check(twice_forward, twice_backward, (x, g))) < 1e-9  # g hears by both roads: that is right, too

# %% [markdown]
# ### The first trap: starting from ones
#
# `dout` must come from somewhere. Ones look natural: then L is simply the sum of the outputs. Watch what that does to
# the softmax, which turns scores into probabilities: p[i] = exp(x[i]) / sum_j exp(x[j]). (Its backward belongs to
# lesson 03. Here we borrow it from the library, and spoil it.)

# %%
from minigpt import ops


def spoiled_backward(dp, cache):
    return -7 * ops.softmax_backward(dp, cache)  # wrong sign, wrong size


def careless_check(forward, backward, x):
    """A plausible checker: a cotangent of ones, and np.allclose."""
    out, cache = forward(x)
    numeric = numeric_gradient(lambda v: forward(v)[0].sum(), x)
    return np.allclose(backward(np.ones_like(out), cache), numeric, rtol=1e-4, atol=1e-5)


print("softmax backward times -7, checked with ones: passes?", careless_check(ops.softmax_forward, spoiled_backward, x))
assert careless_check(ops.softmax_forward, ops.softmax_backward, x)
assert careless_check(ops.softmax_forward, spoiled_backward, x)
assert careless_check(ops.softmax_forward, lambda dp, cache: np.zeros_like(dp), x)  # even this passes

# %% [markdown]
# It passes! **This is the surprise of the lesson.** Probabilities sum to 1, whatever the scores. So the sum of the
# outputs never moves, its true gradient is zero, and zero times -7 is zero. The check compared nothing with nothing.
# The outputs of LayerNorm sum to zero before their gain, so it has the same blind spot. A *random* `dout` has no such
# coincidence:

# %%
[right] = check(ops.softmax_forward, ops.softmax_backward, (x,))
[spoiled] = check(ops.softmax_forward, spoiled_backward, (x,))
print(f"with a random cotangent: the right one {right:.0e} ({word(right)}), times -7 {spoiled:.2f} ({word(spoiled)})")
assert right < 1e-9 and abs(spoiled - 8 / 7) < 1e-6  # |-7 - 1| / |-7|

# %% [markdown]
# ### The second trap: checking where training starts
#
# Gains start at 1 and biases at 0. There, a backward that forgets the gain is right:

# %%
def forgetful_backward(dout, cache):
    t, g = cache
    return dout * (1 - t * t), (dout * t).sum(axis=0)  # dx without its g


at_start, _ = check(squash_forward, forgetful_backward, (x, np.ones(C)))
moved, _ = check(squash_forward, forgetful_backward, (x, g))
print(f"forgotten gain: at g = 1 {at_start:.0e} ({word(at_start)}), at a random g {moved:.2f} ({word(moved)})")
assert at_start < 1e-9 and moved > 0.1

# %% [markdown]
# Times 1 cannot be seen, nor can plus 0. So: float64, both sides, eps 1e-5, a random cotangent, and parameters that
# have been moved away from where they start. These five rules are the checker of this book.

# %% [markdown]
# ## 6. See it: the best nudge
#
# The relative error of the numeric dx of squash against the exact one, for nudges from 1 down to 1e-14.

# %%
from minigpt import plot

plt = plot.plt


def error_at(eps, both_sides=True, dtype=np.float64):
    """How wrong the numeric gradient is, when everything is computed in `dtype`."""
    v, gain, message = x.astype(dtype), g.astype(dtype), dout.astype(dtype)
    numeric = numeric_gradient(lambda v: (squash_forward(v, gain)[0] * message).sum(), v, eps, both_sides)
    return relative_error(dx, numeric)


nudges = 10.0 ** np.arange(0, -14.1, -0.25)
curves = {
    "float64, both sides": [error_at(e) for e in nudges],
    "float64, one side": [error_at(e, both_sides=False) for e in nudges],
    "float32, both sides": [error_at(e, dtype=np.float32) if e > 3e-7 else np.nan for e in nudges],
}
figure, axes = plt.subplots()
for (label, errors), style in zip(curves.items(), ("o-", "s-", "^-"), strict=True):
    axes.loglog(nudges, errors, style, label=label, markersize=3, linewidth=1)
axes.axhspan(1e-13, 1e-7, color="tab:green", alpha=0.08)
axes.text(1.3e-14, 2e-13, "happy: below 1e-7", color="tab:green")
axes.axvline(1e-5, color="gray", linestyle=":")
axes.text(1.3e-5, 2e-13, "eps = 1e-5", color="gray")
arrow = {"arrowstyle": "->", "color": "gray"}
axes.annotate("rounding: 1e-16 / eps", (1e-10, 2e-6), (4e-14, 1e-8), arrowprops=arrow)
axes.annotate("truncation: eps^2", (1e-3, 1.5e-7), (2e-3, 1e-10), arrowprops=arrow)
axes.set(xlabel="eps, the size of the nudge", ylabel="relative error of the numeric gradient", ylim=(1e-13, 1e2))
axes.set_title("A nudge can be too small: rounding grows as truncation shrinks")
axes.legend(loc="upper left", ncols=3, fontsize="small")
plot.save(figure, "00_gradients.png")

best = {label: (nudges[np.nanargmin(errors)], np.nanmin(errors)) for label, errors in curves.items()}
for label, (eps, error) in best.items():
    print(f"  {label}: best eps {eps:.0e}, error {error:.0e}")
assert error_at(1e-5) < 1e-9 and error_at(1e-2) > 1e-7 and error_at(1e-12) > 1e-7  # right, too far, too near
assert 50 < error_at(1e-2) / error_at(1e-3) < 200  # slope 2
assert 5 < error_at(1e-2, both_sides=False) / error_at(1e-3, both_sides=False) < 20  # slope 1
assert 100 < error_at(1e-12) / error_at(1e-9) < 1e5  # slope -1
assert 1e-10 < best["float64, one side"][1] < 1e-7 < best["float32, both sides"][1] < 1e-3

# %% [markdown]
# A V: truncation falls from the right with slope 2 (slope 1 if we nudge to one side only), rounding rises to the left
# with slope -1. In float32 the whole V floats so high that the best eps there is cannot tell "happy" from "suspicious".
# That is why every check in this book is made in float64, even for a model that trains in float32.

# %% [markdown]
# ## 7. In the library
#
# `minigpt.ops` is a table of such pairs: `ops.softmax_forward`, `ops.softmax_backward` and their sisters. Their caches
# have names, and `ops.ledger` tells what each costs. Softmax keeps its probabilities, and nothing else:

# %%
p, cache = ops.softmax_forward(x)
print("a softmax cache:", ops.ledger(cache), "bytes")
assert ops.ledger(cache) == {"p": T * C * 8}

# %% [markdown]
# `minigpt.gradcheck` is our checker with better manners: it draws the cotangent, says the words, and when a gradient is
# wrong it shows the worst entry and guesses why. From here on every lesson uses it. Here are its verdicts on our
# squash, and on the one that forgot the gain:

# %%
from minigpt import gradcheck

results = gradcheck.check(squash_forward, squash_backward, (x, g))
spoiled_results = gradcheck.check(squash_forward, forgetful_backward, (x, g))
print("our squash:")
print(gradcheck.table(results))
print("the one that forgot the gain, which must be found:")
print(gradcheck.table(spoiled_results))
assert all(result.error < 1e-9 for result in results)
assert abs(spoiled_results[0].error - moved) < 0.3 and [result.word for result in spoiled_results] == ["wrong", "happy"]

# %% [markdown]
# ## 8. Paper and code
#
# - Rumelhart, Hinton and Williams have our messages in their equations 5 to 7: the slope of their squashing function is
#   y (1 - y), *written with its output*. They too chose to remember what came out. Equation 7 is the sum over roads.
# - The GPT-1 paper has no word about gradients, and OpenAI's code has no backward: TensorFlow records every operation
#   of the forward and writes the backward from its own table of pairs. So does PyTorch. The pairs in such a table were
#   written by people, as ours are; what is automatic is that somebody keeps the list. Here we keep it, and see it.
# - "Nobody remembers" is not as bad as it looked, if somebody remembers a little. Chen et al. 2016 (section 4) keep the
#   state at a few places only, such as the input of each block, and run each stretch once more: one forward extra, and
#   most of the memory saved.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/00_softmax.py`: the forward of softmax is there in four lines. Write the backward, one line for each,
#    with nothing but sections 2 and 3. Judge it: `minigpt check lessons/exercises/00_softmax.py`.
# 2. `exercises/00_find_the_bug.py`: every formula in it is right, and it is wrong. Run the file itself to see it fail.
# 3. With pencil: which eps is the best for the one-sided difference, and for both sides in float32 (which knows f to
#    about 1e-7)? Compare with what section 6 printed.

# %%
worst = max(result.error for result in results)
says = f"our squash is right (worst relative error {worst:.0e}), and the planted mistake was found"
print(f"lesson 00: every check is happy: {says}")
