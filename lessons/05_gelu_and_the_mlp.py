# %% [markdown]
# # Lesson 05: GELU and the MLP
#
# You will see why a network needs a bend, build the bend of GPT-1 and its slope, meet a slope that is above 1 and
# below 0, and put two thirds of a Transformer block together: the MLP.
#
# Reading: 25 minutes. Running: 5 seconds. Before it: lessons 00 (the backward pass) and 02 (linear).
#
# Papers: Hendrycks and Gimpel 2016 (arXiv 1606.08415), section 2: GELU. Vaswani et al. 2017, section 3.3 and equation
# 2: the MLP, with ReLU. Radford et al. 2018 (GPT-1), section 4.1: the MLP with GELU, 3,072 wide.

# %% [markdown]
# ## 1. Why: two straight lines in a row are one straight line
#
# Linear maps are what a network learns with. Here are two, one after the other: 7 numbers become 28, and 28 become 7.
# Multiply out: (x w1 + b1) w2 + b2 = x (w1 w2) + (b1 w2 + b2). That is *one* linear map, with the matrix w1 w2.

# %%
import math

import numpy as np

B, T, C, F = 2, 3, 7, 28  # batch, time, width of the model, inner width
rng = np.random.default_rng(4)
x = rng.normal(size=(B, T, C))
w1, b1 = rng.normal(size=(C, F)), rng.normal(size=F)
w2, b2 = rng.normal(size=(F, C)), rng.normal(size=C)

two = (x @ w1 + b1) @ w2 + b2
one = x @ (w1 @ w2) + (b1 @ w2 + b2)
assert np.allclose(two, one, rtol=0, atol=1e-12)
print(f"two maps with {w1.size + b1.size + w2.size + b2.size} numbers to learn do the work of one with {C * C + C}")
assert w1.size + b1.size + w2.size + b2.size == 427 and C * C + C == 56

# %% [markdown]
# A hundred maps would collapse in the same way. And one map cannot do much. Ask it for "a or b, but not both": 1 for
# (0, 1) and (1, 0), but 0 for (0, 0) and (1, 1). The best linear answer, by least squares, is 0.5 for all four: it has
# learned nothing.

# %%
ab, wanted = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])


def best_linear(x, y):
    """The linear map with a bias that comes nearest to y, by least squares: what it gives for x."""
    columns = np.column_stack([x, np.ones(len(x))])
    return columns @ np.linalg.lstsq(columns, y, rcond=None)[0]


assert np.allclose(best_linear(ab, wanted), 0.5)

# %% [markdown]
# One bend is enough to get it right. The simplest is ReLU(x) = max(x, 0). With s = a + b, the answer is ReLU(s) - 2
# ReLU(s - 1): up until s = 1, and down again after it. Two linear maps with a bend between.

# %%
s = ab.sum(axis=1)
assert np.array_equal(np.maximum(s, 0) - 2 * np.maximum(s - 1, 0), wanted)

# %% [markdown]
# ReLU has a price. Left of 0 it is flat: its slope is 0, and no gradient comes through. A unit that is negative on
# every example, because its bias drifted down, say, hears nothing, so nothing can ever pull it back:

# %%
before_bend = rng.normal(size=1000) - 4  # 1000 examples, weight 1, bias -4
print(f"ReLU, bias -4: of 1000 examples {(before_bend > 0).sum()} let a gradient through")
assert (before_bend > 0).sum() == 0

# %% [markdown]
# **GELU** softens the switch. Compare x with a random number n from the normal distribution, and let x through if x is
# larger. Large x nearly always passes, negative x seldom does, and at 0 it is a coin. What comes out *on average* is
#
#     GELU(x) = x * P(n < x) = x Phi(x),     Phi(x) = (1 + erf(x / sqrt 2)) / 2.
#
# The name says it: Gaussian error linear unit. We try it with half a million throws for each x:

# %%
erf = np.vectorize(math.erf)


def cdf(x):
    """Phi(x): the probability that a normal variable is below x."""
    return 0.5 * (1 + erf(x / math.sqrt(2)))


n = rng.normal(size=500_000)
for value in (-1.0, 0.5, 2.0):
    thrown = (value * (n < value)).mean()
    print(f"  x = {value:4}: by throwing {thrown:.3f}, by formula {value * cdf(value):.3f}")
    assert abs(thrown - value * cdf(value)) < 0.005

# %% [markdown]
# **Two formulas.** The authors also give a stand-in that needs no erf, and this *tanh form* is what OpenAI's code
# computes, for GPT-1 and for GPT-2. The released weights have never seen another. How far apart are the two?

# %%
SQRT_2_PI, A = math.sqrt(2 / math.pi), 0.044715


def tanh_form(x):
    return 0.5 * x * (1 + np.tanh(SQRT_2_PI * (x + A * x * x * x)))


grid = np.linspace(-8, 8, 160_001)
gap = np.abs(tanh_form(grid) - grid * cdf(grid))
print(f"tanh form against erf form: at most {gap.max():.2e} apart, at |x| = {abs(grid[gap.argmax()]):.2f}")
assert abs(gap.max() - 4.73e-4) < 1e-6 and abs(abs(grid[gap.argmax()]) - 2.70) < 0.01

# %% [markdown]
# Half a thousandth is small, but no rounding error: whoever gives released weights the erf form gets slightly
# different logits, and wonders why. From here on, GELU is the tanh form.
#
# ## 2. Forward: one operation per line
#
# Sizes: f is what the first linear map gives, (B, T, F) = (2, 3, 28).

# %%
f = x @ w1 + b1
square = f * f
cube = square * f
inner = f + A * cube
u = SQRT_2_PI * inner
t = np.tanh(u)  # between -1 and 1
switch = 1 + t  # between 0 and 2
half = 0.5 * f
out = half * switch
assert out.shape == (B, T, F) and np.allclose(out, tanh_form(f), rtol=0, atol=1e-15)

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# f is used in four lines: `square`, `cube`, `inner`, `half`. Its gradient is the sum of what comes back on four roads.

# %%
dout = rng.normal(size=out.shape)

# out = half * switch
dhalf = dout * switch
dswitch = dout * half
# half = 0.5 * f
df = 0.5 * dhalf
# switch = 1 + t
dt = dswitch
# t = tanh(u): its slope is 1 - tanh(u)^2, as in lesson 00
du = dt * (1 - t * t)
# u = SQRT_2_PI * inner
dinner = SQRT_2_PI * du
# inner = f + A * cube
df += dinner
dcube = A * dinner
# cube = square * f
dsquare = dcube * f
df += dcube * square
# square = f * f
df += 2 * f * dsquare

# %% [markdown]
# ## 4. Collapse: what is left on paper
#
# The last three roads together: dinner (1 + A f^2 + 2 A f^2) = dinner (1 + 3 A f^2), the slope of f + A f^3, as it
# must be. Put everything into one line:
#
#     df = dout * ( (1 + t)/2  +  f/2 (1 - t^2) du/df ),      du/df = sqrt(2/pi) (1 + 3 A f^2)
#                   ---------     ----------------------
#                   the switch     moving the switch
#
# f moves the output in two ways: it *is* what passes, and it *moves the switch*. It is the product rule. The erf form
# has the same two terms: (x Phi(x))' = Phi(x) + x phi(x), where phi(x) = exp(-x^2/2) / sqrt(2 pi) is the bell curve.

# %%
def gelu_forward(x):
    """x (*) -> out (*)"""
    t = np.tanh(SQRT_2_PI * (x + A * x * x * x))
    return 0.5 * x * (1 + t), (x, t)


def gelu_backward(dout, cache):
    """dout (*) -> dx (*)"""
    x, t = cache
    du_dx = SQRT_2_PI * (1 + 3 * A * x * x)
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du_dx)


def slope(x):
    return gelu_backward(np.ones_like(x), gelu_forward(x)[1])


assert np.allclose(gelu_backward(dout, gelu_forward(f)[1]), df, rtol=0, atol=1e-13)

# %% [markdown]
# **The surprise.** Look at the erf form's slope at x and at -x. Phi(-x) = 1 - Phi(x), and the second term is odd:
#
#     slope(x) + slope(-x) = Phi(x) + x phi(x) + 1 - Phi(x) - x phi(x) = 1,     for every x.
#
# (The tanh form has it too: t and f/2 (1 - t^2) du/df are odd.) So where the slope is above 1, it is below 0 at the
# mirrored place, by as much. And it does go above 1:

# %%
assert np.abs(slope(grid) + slope(-grid) - 1).max() < 1e-14
steepest, lowest = grid[slope(grid).argmax()], grid[tanh_form(grid).argmin()]
print(f"steepest: slope {slope(grid).max():.3f} at {steepest:.2f}, and {slope(grid).min():.3f} at {-steepest:.2f}")
print(f"lowest point: GELU({lowest:.2f}) = {tanh_form(grid).min():.3f}; left of it GELU *falls* while x rises")
assert abs(slope(grid).max() - 1.129) < 1e-3 and abs(slope(grid).min() + 0.129) < 1e-3
assert abs(lowest + 0.7525) < 1e-3 and abs(tanh_form(grid).min() + 0.1700) < 1e-4
print(f"of numbers from N(0, 1), {100 * cdf(lowest):.1f} % lie there: their gradient comes back reversed")
assert 0.22 < cdf(lowest) < 0.23

# %% [markdown]
# GELU is not monotone. Most pictures hide it, since the dent is shallow. A unit at -1 that is asked for *more* output
# is told to go *down*. No sign error: that is the truth, and a backward that clips it away is wrong. And the unit with
# bias -4, which ReLU let die? It hears something now. But far to the left GELU is flat as well: not immortal.

# %%
heard, far = np.abs(slope(before_bend)).max(), slope(np.array(-6.0))
print(f"GELU, bias -4: the steepest of 1000 slopes is {heard:.2f}; but at x = -6 the slope is {far:.0e}")
assert heard > 0.1 and abs(far) < 1e-6

# %% [markdown]
# ## 5. Check
#
# And the whole MLP at once: a linear map to four times the width, the bend, a linear map back. The backward is the
# three backwards in reverse. Linear is lesson 01's.

# %%
from minigpt import gradcheck, ops


def mlp_forward(x, w1, b1, w2, b2):
    f, fc = ops.linear_forward(x, w1, b1)
    a, gelu = gelu_forward(f)
    out, proj = ops.linear_forward(a, w2, b2)
    return out, (fc, gelu, proj)


def mlp_backward(dout, cache):
    fc, gelu, proj = cache
    # out = linear(a, w2, b2)
    da, dw2, db2 = ops.linear_backward(dout, proj)
    # a = gelu(f)
    df = gelu_backward(da, gelu)
    # f = linear(x, w1, b1)
    dx, dw1, db1 = ops.linear_backward(df, fc)
    return dx, dw1, db1, dw2, db2


of_gelu = gradcheck.check(gelu_forward, gelu_backward, (f,))
of_mlp = gradcheck.check(mlp_forward, mlp_backward, (x, w1, b1, w2, b2))
print(f"gelu\n{gradcheck.table(of_gelu)}\nmlp\n{gradcheck.table(of_mlp)}")
results = of_gelu + of_mlp
assert all(result.error < 1e-9 for result in results)

# %% [markdown]
# **The trap: a tolerance that fits the noise.** Here is a mistake that really happens: the tanh form forward, with the
# slope of the *erf* form (the prettier formula) backward. In float32 differences are noisy, so careless checks run
# with a tolerance of 1 %, and eps = 1e-3. Under that tolerance the wrong slope sits as comfortably as the right one.

# %%
def erf_slope_backward(dout, cache):
    x, _ = cache
    return (dout * (cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))).astype(dout.dtype)


small, dsmall = rng.normal(size=(2, 30)).astype(np.float32)
eps = np.float32(1e-3)
noisy = (gelu_forward(small + eps)[0] - gelu_forward(small - eps)[0]) / (2 * eps) * dsmall  # all entries at once
_, small_cache = gelu_forward(small)
for name, backward in (("right", gelu_backward), ("wrong", erf_slope_backward)):
    careless = np.abs(backward(dsmall, small_cache) - noisy).max() / np.abs(noisy).max()
    [careful] = gradcheck.check(gelu_forward, backward, (small.astype(np.float64),))
    print(f"  {name} slope: float32 error {careless:.0e}, below 1 %; float64 error {careful.error:.0e}, {careful.word}")
    assert careless < 1e-2 and careful.word == ("happy" if name == "right" else "wrong")

# %% [markdown]
# In float64 one is more than a million times the other. Where a check needs a loose tolerance, repair the check.
#
# ## 6. See it: the bend at work
#
# Six hidden units, one input, one output, plain gradient descent with the backward from above, 2,000 steps. To learn:
# sin(2x). Once with the bend and once without it.

# %%
line = np.linspace(-2, 2, 41)[:, None]
curve = np.sin(2 * line)


def fit(bend_forward, bend_backward, rate):
    draw = np.random.default_rng(2)
    w1, b1, w2, b2 = draw.normal(size=(1, 6)), 1.5 * draw.normal(size=6), draw.normal(size=(6, 1)) / 5, np.zeros(1)
    for _ in range(2000):
        f, fc = ops.linear_forward(line, w1, b1)
        a, bend = bend_forward(f)
        y, proj = ops.linear_forward(a, w2, b2)
        dy = 2 * (y - curve) / len(line)  # the loss is the mean squared error
        da, dw2, db2 = ops.linear_backward(dy, proj)
        _, dw1, db1 = ops.linear_backward(bend_backward(da, bend), fc)
        for weight, gradient in ((w1, dw1), (b1, db1), (w2, dw2), (b2, db2)):
            weight -= rate * gradient
    return y, a * w2[:, 0], ((y - curve) ** 2).mean()


bent, pieces, bent_error = fit(gelu_forward, gelu_backward, rate=0.1)
straight, _, straight_error = fit(lambda x: (x, None), lambda dout, cache: dout, rate=0.02)
print(f"mean squared error: with GELU {bent_error:.5f}, without a bend {straight_error:.3f}")
assert bent_error < 0.002 < 0.3 < straight_error
assert np.allclose(straight, best_linear(line, curve), atol=1e-3)  # without a bend, six units draw one line

# %%
from minigpt import plot

figure, ((left, right), (fitted, units)) = plot.plt.subplots(2, 2, figsize=(10, 7))
span = np.linspace(-3.5, 3.5, 701)
left.plot(span, np.maximum(span, 0), color="gray", linestyle="--", label="ReLU")
left.plot(span, tanh_form(span), color="tab:blue", label="GELU")
left.plot(lowest, tanh_form(lowest), "o", color="tab:red")
left.text(-2.6, 0.3, f"lowest point\n({lowest:.2f}, {tanh_form(lowest):.2f})", color="tab:red")
left.set(title="GELU: x times a soft switch, with a dent", xlabel="x", ylabel="output", ylim=(-0.5, 3.5))
right.plot(span, (span > 0).astype(float), color="gray", linestyle="--", label="ReLU")
right.plot(span, slope(span), color="tab:blue", label="GELU")
right.fill_between(span, 1, slope(span), where=slope(span) > 1, color="tab:green", alpha=0.4, label="above 1")
right.fill_between(span, 0, slope(span), where=slope(span) < 0, color="tab:red", alpha=0.4, label="below 0: reversed")
right.set(title="Its slope, what a gradient is multiplied by on its way back", xlabel="x", ylabel="slope")
fitted.plot(line, curve, "o", color="black", markersize=3, label="to learn: sin(2x)")
fitted.plot(line, straight, color="gray", linestyle="--", label=f"6 units, no bend: error {straight_error:.2f}")
fitted.plot(line, bent, color="tab:blue", label=f"6 units, GELU: error {bent_error:.4f}")
fitted.set(title="The same network with and without the bend", xlabel="x", ylabel="output", ylim=(-1.3, 2.4))
units.plot(line, pieces, linewidth=1.5)
units.plot(line, bent, color="black", linewidth=1, linestyle=":", label="their sum and a bias: the blue curve")
units.set(title="What the six units add: each a bend of its own", xlabel="x", ylabel="output", ylim=(-3.3, 3.3))
for axes in (left, right, fitted, units):
    axes.legend(loc="upper left")
plot.save(figure, "05_gelu_and_the_mlp.png")

# %% [markdown]
# Top: the dent, and the two shaded areas that mirror each other. Bottom: a curve is put together from bends; without
# them all six units together draw one line.
#
# The last panel shows a second way to read the MLP. Its output is a sum over hidden units: column j of w1 is *what
# unit j looks for*, row j of w2 is *what it writes* when it finds it. That much is arithmetic, asserted below. Geva et
# al. 2021 (arXiv 2012.14913) go further and find units of trained models that look for something a person can name.
# That is a finding about trained models; nothing in the formula promises it.

# %%
y, _ = mlp_forward(x, w1, b1, w2, b2)
reading = sum(gelu_forward(x @ w1[:, j] + b1[j])[0][..., None] * w2[j] for j in range(F)) + b2
assert np.allclose(y, reading, rtol=0, atol=1e-12)

# %% [markdown]
# ## 7. In the library
#
# GELU is `ops.gelu_*`. The MLP is a *composite*, `ops.mlp_*`: it calls linear and gelu through the table, as we did.

# %%
ops.use("reference")  # the table's own version of this mathematics; the faster one keeps other things
library_out, library_cache = ops.mlp_forward(x, w1, b1, w2, b2)
assert np.allclose(library_out, y, rtol=0, atol=1e-12)
dy = rng.normal(size=y.shape)
mine, theirs = mlp_backward(dy, mlp_forward(x, w1, b1, w2, b2)[1]), ops.mlp_backward(dy, library_cache)
assert all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(mine, theirs, strict=True))

ledger = {path: size for path, size in ops.ledger(library_cache).items() if not path.endswith((".w", ".b"))}
for path, size in ledger.items():
    print(f"  {path:14} {size:5} bytes, {size // (B * T * 8):2} numbers for each position")
assert sum(ledger.values()) == 8 * B * T * (C + 3 * F)

# %% [markdown]
# C + 3 F numbers for each position: the input, and three arrays of the inner width. (The weights are in the cache too,
# but cost nothing more: it only points at them, so we left them out.) For GPT-1, 64 sequences of 512 positions in
# float32:

# %%
C1, F1, positions = 768, 3072, 64 * 512
per_block, t_alone = positions * (C1 + 3 * F1) * 4, positions * F1 * 4
print(f"MLP caches of GPT-1: {per_block / 1e9:.2f} GB in a block, {12 * per_block / 1e9:.1f} GB in twelve;")
print(f"keeping t costs {12 * t_alone / 1e9:.1f} GB of that, which computing the tanh twice would save")
assert round(12 * per_block / 1e9, 1) == 15.7 and round(12 * t_alone / 1e9, 1) == 4.8
parameters = 2 * C1 * F1 + F1 + C1
block = parameters + (C1 * 3 * C1 + 3 * C1) + (C1 * C1 + C1) + 2 * 2 * C1  # attention (two maps), two LayerNorms
print(f"a block has {block:,} parameters, {100 * parameters / block:.1f} % of them in the MLP")
assert block == 7_087_872 and parameters == 4_722_432

# %% [markdown]
# Two thirds: 8 C^2 in the MLP against 4 C^2 in the attention. Why four times as wide? Vaswani et al. chose it (512 and
# 2,048), tried other widths in their table 3, and wider was better. It is a choice, not a law.
#
# ## 8. Paper and code
#
# - The GPT-1 paper says "GELU" and cites Hendrycks and Gimpel. OpenAI's code computes the tanh form. Hugging Face's
#   configuration of GPT-1 says `"afn": "gelu"` and means the tanh form too (elsewhere in that library it is called
#   `gelu_new`). `torch.nn.GELU()` is the erf form unless told `approximate="tanh"`.
# - "Position-wise", say the papers: the MLP sees one position at a time and moves nothing between positions. That is
#   the attention's work. In GPT-1 dropout follows the second linear map; in our code the module adds it.
#
# ## 9. Exercises
#
# 1. `exercises/05_gelu.py`: write GELU and its backward. Judge it: `minigpt check lessons/exercises/05_gelu.py`.
# 2. `exercises/05_find_the_bug.py`: an MLP written out in one piece. Its forward is right. Its backward is not.
# 3. With pencil: the *average* slope of GELU over any distribution that is symmetric about 0 is exactly 1/2. Why?

# %%
worst = max(result.error for result in results)
print(f"lesson 05: every check is happy (worst relative error {worst:.0e})")
