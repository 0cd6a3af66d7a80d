# %% [markdown]
# # Lesson 05: GELU and the MLP
#
# You will see why a network needs a function that is not linear between its linear maps. You will
# build the one that GPT-1 uses, GELU, with its backward pass, and find something strange in its
# slope. Then you will put together the MLP, the part that holds two thirds of a Transformer block's
# parameters.
#
# Reading: 25 minutes for the core, 75 minutes for all of it. Running: 2 to 8 seconds. Before it:
# lessons 00 (the backward pass) and 01 (linear).
#
# Papers: Hendrycks and Gimpel 2016 (arXiv 1606.08415), section 2: GELU. Vaswani et al. 2017,
# section 3.3 and equation 2: the MLP, with ReLU. Radford et al. 2018 (GPT-1), section 4.1: the MLP
# with GELU, 3,072 wide.

# %% [markdown]
# ## 1. Why: two linear maps in a row are one linear map
#
# The model of lesson 04, with its four heads, after 300 updates:

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("05")
assert so_far["four heads"] > so_far["the letter table"] + 0.1, "worse than the table"

# %% [markdown]
# Still worse than the table. Three parts of a Transformer are missing. This lesson brings the
# first, a bend between linear maps. It does not help alone (lesson 06 begins with that model). The
# others are LayerNorm and a plus sign (lessons 06, 07).
#
# What a network learns is the numbers of its linear maps (lesson 01). Here are two of them, one
# after the other: 7 numbers become 28, and these 28 become 7. Multiply out:
#
# $$
# (x\,w_1 + b_1)\,w_2 + b_2 \;=\; x\,(w_1 w_2) + (b_1 w_2 + b_2).
# $$
#
# The right side is *one* linear map, with the matrix $w_1 w_2$.

# %%
import math

from minigpt import plot

SQRT_2_PI, A = math.sqrt(2 / math.pi), 0.044715  # for the bend that this lesson builds
span = np.linspace(-3.5, 3.5, 701)
N, C, F = 6, 7, 28  # rows (positions), width of the model, inner width
rng = np.random.default_rng(4)
x = rng.normal(size=(N, C))
w1, b1 = rng.normal(size=(C, F)), rng.normal(size=F)
w2, b2 = rng.normal(size=(F, C)), rng.normal(size=C)

two_maps = (x @ w1 + b1) @ w2 + b2
one_map = x @ (w1 @ w2) + (b1 @ w2 + b2)
print(f"largest difference of their outputs: {np.abs(two_maps - one_map).max():.0e}")
assert np.allclose(two_maps, one_map, rtol=0, atol=1e-12), "two linear maps are one"

# %% [markdown]
# A hundred linear maps would collapse in the same way. And one linear map cannot do much. Let it
# learn "a or b, but not both": 1 for (0, 1) and (1, 0), and 0 for (0, 0) and (1, 1). We find the
# best linear map by least squares.

# %%
AB = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
WANTED = np.array([0, 1, 1, 0])


def best_linear(x, y):
    """What the linear map with a bias that comes nearest to y, by least squares, gives for x."""
    columns = np.column_stack([x, np.ones(len(x))])
    return columns @ np.linalg.lstsq(columns, y, rcond=None)[0]


def relu(x):
    return np.maximum(x, 0)


total_ab = AB.sum(axis=1)
bent_ab = relu(total_ab) - 2 * relu(total_ab - 1)
print("a b   wanted   best linear map   two maps, ReLU between")
for (a, b), y, line_y, bent_y in zip(AB, WANTED, best_linear(AB, WANTED), bent_ab, strict=True):
    print(f"{a} {b}   {y:6}   {line_y:15.2f}   {bent_y:10}")
assert np.allclose(best_linear(AB, WANTED), 0.5), "the best line says one half for every case"
assert np.array_equal(bent_ab, WANTED), "two maps with ReLU between are right"

# %% [markdown]
# The best linear map gives 0.5 in all four cases: it has learned nothing. The last column puts
# ReLU(s) = max(s, 0) between two linear maps. ReLU is the simplest function with a bend: flat
# left of 0, rising right of 0. A *unit* is one output z of the first map with its bend. Two are
# enough: with s = a + b, the first map gives s and s - 1. After the bends, the second map gives
# ReLU(s) - 2 ReLU(s - 1).

# %% [markdown]
# ReLU is x times a switch, which is 1 (on) for x > 0 and else 0 (off). **GELU** makes the switch
# smooth. Draw a random number n from the normal distribution (mean 0, variance 1), and let x pass
# if n < x; otherwise the output is 0. GELU is the *average* output:
#
# $$
# \mathrm{GELU}(x) = x \cdot P(n < x) = x\,\Phi(x),
# \qquad \Phi(x) = \tfrac12\left(1 + \mathrm{erf}\!\left(\tfrac{x}{\sqrt2}\right)\right).
# $$
#
# $\Phi$ is the cumulative distribution function of the normal distribution, and $\mathrm{erf}(z) =
# \frac{2}{\sqrt\pi} \int_0^z e^{-t^2} dt$ (in Python `math.erf`). The name: *Gaussian error linear
# unit*.

# %% [markdown]
# **Two forms.** The authors also give an approximation that needs no erf, the **tanh form**:
#
# $$
# \mathrm{GELU}(x) \approx \frac{x}{2}\,(1 + \tanh u),
# \qquad u = \sqrt{2/\pi}\,\bigl(x + 0.044715\,x^3\bigr).
# $$
#
# OpenAI's code computes the tanh form, in GPT-1 and in GPT-2, so the released weights need it. From
# here on, GELU means the tanh form.

# %% [markdown] tags=["deeper"]
# ### One unit is not enough
#
# Call (0, 0) and (1, 1) the equal pair, (0, 1) and (1, 0) the unequal pair. One unit has one z for
# each of the four cases, and its output is c + k ReLU(z).
#
# 1. When z rises, the output never turns: it only rises (or stays), or it only falls (or stays).
# 2. We want one output for the equal pair and another for the unequal pair. So both z of one pair
#    must be larger than both z of the other: if a z of one pair lay between the two of the other,
#    the output would turn there. Then the sum of the larger two is larger too.
# 3. But z is linear, so the two sums are equal: z(0, 0) + z(1, 1) = z(0, 1) + z(1, 0). So one unit
#    is not enough.

# %% tags=["hide-input"]
s_line = np.linspace(-0.5, 2.5, 301)
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4), sharey=True)
left.axhline(0.5, color="gray", linestyle="--", label="the best linear map")
left.plot(s_line, relu(s_line) - 2 * relu(s_line - 1), label="two units with a bend")
left.plot([0, 1, 2], [0, 1, 0], "o", color="black", label="wanted")
left.set(title="a or b, but not both", xlabel="s = a + b", ylabel="output", ylim=(-3.2, 2.8))
left.legend(loc="lower left")
right.plot(s_line, relu(s_line), color="tab:green", label="ReLU(s)")
right.plot(s_line, -2 * relu(s_line - 1), color="tab:red", label="-2 ReLU(s - 1)")
right.set(title="The two units that are added", xlabel="s = a + b")
right.legend(loc="lower left")
plot.save(figure, "05_two_bends.png")

# %% [markdown] tags=["deeper"]
# ### What ReLU costs
#
# Left of 0 its slope is 0, so no gradient passes. Suppose that the bias of a
# unit has drifted so far down that its z is negative on every example. Then its weights get the
# gradient 0, and no update of this unit can bring it back. Such a unit is called *dead*.

# %%
noise = np.random.default_rng(0).normal(size=1000)  # one weight of 1, and 1,000 inputs
print("bias of the unit   examples that let a gradient pass, of 1,000")
passing = {bias: int((noise + bias > 0).sum()) for bias in (0, -2, -4)}
for bias, number in passing.items():
    print(f"{bias:16}   {number:10}")
assert passing[-4] == 0, "with a bias of -4 the unit is dead"

# %% [markdown] tags=["deeper"]
# ### GELU is an average
#
# We check the formula with half a million random numbers for each x, and draw the two switches.

# %%
erf = np.vectorize(math.erf)


def cdf(x):
    """Phi(x): the probability that a normal variable is below x."""
    return 0.5 * (1 + erf(x / math.sqrt(2)))


def erf_form(x):
    return x * cdf(x)


throws = np.random.default_rng(1).normal(size=500_000)
print("   x   average of 500,000   x Phi(x)")
for value in (-1.0, 0.5, 2.0):
    average = (value * (throws < value)).mean()
    print(f"{value:4}   {average:18.3f}   {erf_form(value):8.3f}")
    assert abs(average - erf_form(value)) < 0.005, "GELU is the average"

# %% tags=["hide-input"]
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4))
left.plot(span, (span > 0).astype(float), "--", color="gray", label="step: x > 0")
left.plot(span, cdf(span), color="tab:blue", label="Φ(x)")
left.set(title="The switch: how much of x passes", xlabel="x", ylabel="share")
right.plot(span, relu(span), "--", color="gray", label="ReLU: x times the step")
right.plot(span, erf_form(span), color="tab:blue", label="GELU: x times Φ(x)")
right.set(title="x times its switch", xlabel="x", ylabel="output")
for axes in (left, right):
    axes.legend(loc="upper left")
plot.save(figure, "05_gelu_and_relu.png")

# %% [markdown] tags=["deeper"]
# ### How far apart the two forms are
#
# With the factor $\sqrt{2/\pi}$, the switch $(1 + \tanh u)/2$ has the same slope at 0 as $\Phi$.
# The term with 0.044715 keeps it near $\Phi$ away from 0 too. The definition with erf is called the
# *exact form*, or erf form. How far apart are the two?

# %%
def tanh_form(x):
    return 0.5 * x * (1 + np.tanh(SQRT_2_PI * (x + A * x * x * x)))


grid = np.linspace(-8, 8, 160_001)
between = np.abs(tanh_form(grid) - erf_form(grid))
widest = abs(grid[between.argmax()])
no_cube = np.abs(0.5 * grid * (1 + np.tanh(SQRT_2_PI * grid)) - erf_form(grid)).max()
print(f"largest difference of the two forms: {between.max():.2e} at |x| = {widest:.2f}")
print(f"without the term 0.044715 x^3: {no_cube:.2e}")
assert abs(between.max() - 4.73e-4) < 1e-6 and abs(widest - 2.70) < 0.01, "half a thousandth"
assert no_cube > 50 * between.max(), "the cubic term brings the forms together"

# %% [markdown]
# Half a thousandth is small, but it is no rounding error. If you load released weights into a
# model with the other form, the difference goes into every following layer, and there is no error
# message. GPT-1, GPT-2, ALBERT v2 and the gates of T5 v1.1 (exercise 1 has such a gate) have the
# tanh form. The configuration files of BERT, RoBERTa, ELECTRA, DistilBERT, BART, XLNet and DeBERTa
# (lessons 26 to 32) say `gelu`, and Hugging Face's library computes the exact form for this name.
# (Google's own code of BERT computes the tanh form for it.)
#
# Code of the exact form must not compute 1 + erf far left of 0. At x = -9 the computer rounds erf
# to -1, and the sum is 0. There $\Phi(x) = \mathrm{erfc}(-x/\sqrt2)/2$ is right, where
# $\mathrm{erfc} = 1 - \mathrm{erf}$ is computed directly, without the subtraction.

# %%
apart = 1e4 * (tanh_form(span) - erf_form(span))
figure, axes = plot.plt.subplots(figsize=(7.5, 3.6))
axes.plot(span, apart, color="tab:red")
axes.axhline(0, color="gray", linewidth=1)
axes.set(title="tanh form minus exact form", xlabel="x", ylabel="ten-thousandths")
plot.save(figure, "05_two_forms.png")
print(f"tanh form minus exact form: {apart.min():.1f} to {apart.max():.1f} ten-thousandths")
assert apart.min() < -2 < 4 < apart.max(), "the tanh form is now below, now above"
assert cdf(-9.0) == 0 < math.erfc(9 / math.sqrt(2)), "1 + erf has no digit left at -9"

# %% [markdown]
# ## 2. Forward: one operation per line
#
# GELU works on each number alone. Its input here is what a first linear map gives, f (N, F) =
# (6, 28); inside the operation it is called x, as in the library.

# %%
from minigpt.learn import lines

f = x @ w1 + b1


def forward(x):
    square = x * x
    cube = square * x
    inner = x + A * cube
    u = SQRT_2_PI * inner
    t = np.tanh(u)  # between -1 and 1
    switch = 1 + t  # between 0 and 2
    half = 0.5 * x
    out = half * switch
    return out


values = lines.run(forward, f)
assert -0.171 < values.out.min() < 0, "GELU falls a little below 0"

# %% [markdown]
# ## 3. Backward: one line for each, in reverse
#
# x is used in four lines: `square`, `cube`, `inner` and `half`. So its gradient is the sum of four
# parts. The table below shows `dx` when its last part has been added.
#
# **Your turn:** the parts of `cube` and `square` together are the gradient of x through
# cube = x * x * x. Write it, for a given gradient dcube of the cube.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

dcube_here = np.random.default_rng(5).normal(size=f.shape)


def your_dx_of_cube(dcube, x):
    return ...  # cube = x * x * x


true = numeric(lambda x: x * x * x, f.copy(), dcube_here)
gap.judge(your_dx_of_cube, dcube_here, f, expected=true)

# %% [markdown] tags=["answer"]
# `3 * x * x * dcube`: one `x * x * dcube` comes from the x in `cube`, two come through `square`.

# %%
def backward(dout, v):
    # out = half * switch
    dhalf = dout * v.switch
    dswitch = dout * v.half
    # half = 0.5 * x
    dx = 0.5 * dhalf
    # switch = 1 + t
    dt = dswitch
    # t = np.tanh(u): the slope of tanh is 1 - tanh(u)^2, lesson 00
    du = dt * (1 - v.t * v.t)
    # u = SQRT_2_PI * inner
    dinner = SQRT_2_PI * du
    # inner = x + A * cube
    dx = dx + dinner
    dcube = A * dinner
    # cube = square * x
    dsquare = dcube * v.x
    dx = dx + dcube * v.square
    # square = x * x
    dx = dx + 2 * v.x * dsquare
    return dx


by_lines = lines.check(forward, backward, f)

# %% [markdown]
# ## 4. Collapse: what is left on paper
#
# Three of the four parts come back through dinner. The x in `inner` gives dinner itself, the one in
# `cube` gives $A x^2$ times it, the two in `square` give $2 A x^2$ times it. Together:
#
# $$
# \mathrm{dinner}\,(1 + A x^2 + 2 A x^2) \;=\; \mathrm{dinner}\,(1 + 3 A x^2).
# $$
#
# The bracket is the slope of $x + A x^3$. With the fourth part there is one line with two terms:
#
# $$
# \mathrm{dx} \;=\; \mathrm{dout}\left(\frac{1+t}{2} + \frac{x}{2}\,(1-t^2)\,\frac{du}{dx}\right),
# \qquad \frac{du}{dx} = \sqrt{2/\pi}\,(1 + 3 A x^2).
# $$
#
# This is the product rule. x acts on the output in two ways: it *is* what passes (first term), and
# it *moves the switch* (second term).
#
# **Guess:** the slope of ReLU is 0 or 1. Can that of GELU be above 1, or below 0?

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


assert all(result.word == "happy" for result in by_lines), "every line of the backward is right"
difference = np.abs(slope(f) - backward(np.ones_like(f), values)).max()
assert difference < 1e-13, "the two agree"
assert np.abs(slope(span) + slope(-span) - 1).max() < 1e-12, "slope(x) + slope(-x) = 1"
print("slope at 1 and at -1:", slope(np.array([1.0, -1.0])).round(3))

# %% [markdown] tags=["answer"]
# **The surprise: both.** Compare the slopes at 1 and at -1: 1.083 and -0.083. Their sum is 1. So it
# is for every x and -x: t and the second term change their signs with x, so both cancel, and
# 1/2 + 1/2 is left. So wherever the slope is above 1, it is below 0 at -x, by the same amount.

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(7.5, 4.2))
curve = slope(span)
axes.plot(span, (span > 0).astype(float), "--", color="gray", label="ReLU")
axes.plot(span, curve, color="tab:blue", label="GELU")
axes.fill_between(span, 1, curve, where=curve > 1, color="tab:green", alpha=0.4, label="above 1")
axes.fill_between(span, 0, curve, where=curve < 0, color="tab:red", alpha=0.4, label="below 0")
axes.set(title="The slope of GELU: two areas that mirror each other", xlabel="x", ylabel="slope")
axes.legend(loc="upper left")
plot.save(figure, "05_slope.png")

# %% [markdown]
# So GELU is *not monotone*: left of about -0.75 its output rises when x falls. If a unit at x = -1
# should give more output, the update moves its x further *down*. That is no sign error: a backward
# pass that sets negative slopes to 0 is wrong.

# %% [markdown] tags=["deeper"]
# ### The exact form, in numbers
#
# The erf form has the same two terms, with the bell curve
# $\varphi(x) = e^{-x^2/2}/\sqrt{2\pi}$, which is the slope of $\Phi$:
#
# $$
# \bigl(x\,\Phi(x)\bigr)' \;=\; \Phi(x) + x\,\varphi(x).
# $$

# %%
def erf_slope(x):
    return cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


print("   x   tanh form     erf form      tanh slope    erf slope")
for value in (-3.0, -1.0, -0.5, 0.5, 1.0, 3.0):
    point = np.array(value)
    row = [tanh_form(point), erf_form(point), slope(point), erf_slope(point)]
    print(f"{value:4}   " + "   ".join(f"{number:11.8f}" for number in row))
one = np.array(1.0)
assert abs(tanh_form(one) - 0.84119199) < 1e-8, "the tanh form at 1"
assert abs(erf_form(one) - 0.84134475) < 1e-8, "the erf form at 1"
assert abs(slope(one) - 1.08296408) < 1e-8, "the slope of the tanh form at 1"
assert abs(erf_slope(one) - 1.08331547) < 1e-8, "the slope of the erf form at 1"

# %%
steepest, dent_at = grid[slope(grid).argmax()], grid[tanh_form(grid).argmin()]
dent = tanh_form(grid).min()
print(f"steepest: slope {slope(grid).max():.3f} at {steepest:.2f}")
print(f"mirrored: slope {slope(grid).min():.3f} at {-steepest:.2f}")
print(f"lowest point: GELU({dent_at:.2f}) = {dent:.3f}; left of it, GELU falls while x rises")
print(f"of normal numbers, {100 * cdf(dent_at):.1f} % lie left of it, on a negative slope")
assert np.abs(slope(grid) + slope(-grid) - 1).max() < 1e-14, "slope(x) + slope(-x) = 1"
assert abs(slope(grid).max() - 1.129) < 1e-3, "the steepest slope is 1.129"
assert abs(dent_at + 0.7525) < 1e-3 and abs(dent + 0.1700) < 1e-4, "where the dent is lowest"

# %% [markdown] tags=["deeper"]
# ### Does GELU rescue a dead unit?
#
# Take the dead unit with a bias of -4 and give it GELU. A gradient passes now. But in which
# direction? Suppose that on each of the 1,000 examples of section 1 more output would lower the
# loss, everywhere equally: `dout` is -1. Then an update adds the rate times the *average slope* to
# the bias. With the rate 0.1 and an average slope of 0.5 the bias rises by 0.05; where the average
# slope is negative, it falls. Where do 1,000 such updates lead? First the bias learns alone, then
# the weight learns too:

# %%
def relu_slope(x):
    return (x > 0).astype(float)


def pushed(bias, slope_of, weight_learns, updates=1000):
    """Bias and weight after updates for more output; the weight begins at 1."""
    weight = 1.0
    for _ in range(updates):
        slopes = slope_of(weight * noise + bias)
        bias = bias + 0.1 * slopes.mean()
        if weight_learns:
            weight = weight + 0.1 * (slopes * noise).mean()
    return bias, weight


print("           average slope       the bias learns alone    its weight learns too")
print("bias       ReLU     GELU          ReLU     GELU          ReLU     GELU")
mean_slope, alone, both = {}, {}, {}
for bias in (0, -1, -2, -4):
    mean_slope[bias] = [slope_of(noise + bias).mean() for slope_of in (relu_slope, slope)]
    alone[bias] = [pushed(bias, slope_of, False)[0] for slope_of in (relu_slope, slope)]
    both[bias] = [pushed(bias, slope_of, True)[0] for slope_of in (relu_slope, slope)]
    columns = mean_slope[bias], alone[bias], both[bias]
    print(f"{bias:4}   " + "      ".join(f"{r:8.3f} {g:8.3f}" for r, g in columns))

# %%
assert mean_slope[-1][1] > 0 > mean_slope[-2][1], "between -1 and -2 the sign changes"
assert mean_slope[-4][0] == 0 > mean_slope[-4][1], "no longer stuck, but pushed away"
assert alone[-4][0] == both[-4][0] == -4, "at -4 ReLU stays"
assert -5 < alone[-4][1] < -4.1 and -5 < both[-4][1] < -4.1, "and GELU moves farther down"
assert alone[-2][1] < -2 < 0 < alone[-2][0], "at -2, the bias alone: ReLU comes back, not GELU"
assert min(both[-2]) > 10, "with its weight, GELU comes back too"
print("a GELU unit that begins at -2: updates, bias, weight, examples that it lets pass")
for updates in (0, 100, 300):
    now_bias, now_weight = pushed(-2, slope, True, updates)
    reached = int((now_weight * noise + now_bias > 0).sum())
    print(f"{updates:5} {now_bias:6.2f} {now_weight:6.2f} {reached:5}")
assert now_weight > 5 and reached > 900, "first the weight grows, then the bias comes back"

# %% [markdown]
# At -4 the ReLU unit cannot move. The GELU unit can move, but it moves the wrong way, away from
# the examples, and so it does where its weight learns too. GELU removes the exact zero. In this
# example, in 1,000 updates, it does not revive the dead unit.
#
# Now start at -2, and look at the bias alone. ReLU seems better: on 17 examples z is still
# positive, so the ReLU unit comes back, while the GELU unit goes down. **That is true only while
# the weight does not learn.** With its weight, as in a model, the GELU unit comes back too. The
# last lines show how: the weight grows, and with it the number of examples that the unit lets pass.

# %% [markdown]
# ## 5. The MLP, its check, and the trap
#
# The MLP of a Transformer is a linear map to four times the width, GELU, and a linear map back.
# MLP stands for *multi-layer perceptron*; Vaswani et al. call it the feed-forward network. Each row
# is one position of a text, and each position is treated by itself.

# %%
def mlp_lines(x, w1, b1, w2, b2):
    product = x @ w1
    f = product + b1
    t = np.tanh(SQRT_2_PI * (f + A * f**3))
    a = 0.5 * f * (1 + t)
    wide = a @ w2
    out = wide + b2
    return out


def mlp_lines_backward(dout, v):
    # out = wide + b2, and wide = a @ w2
    db2 = dout.sum(axis=0)
    da = dout @ v.w2.T
    dw2 = v.a.T @ dout
    # a = gelu(f): the closed form of section 4
    df = gelu_backward(da, (v.f, v.t))
    # f = product + b1, and product = x @ w1
    db1 = df.sum(axis=0)
    dx = df @ v.w1.T
    dw1 = v.x.T @ df
    return dx, dw1, db1, dw2, db2


mlp_by_lines = lines.check(mlp_lines, mlp_lines_backward, x, w1, b1, w2, b2)

# %% [markdown] tags=["deeper"]
# ### The shapes in GPT-1, drawn

# %% tags=["hide-input"]
drawing = plot.Diagram(8.6, 3, "The MLP of GPT-1: the shapes of its values, and its weights")
orange = "tab:orange"
steps = []
for at, name, columns in ((0.7, "x", 768), (3.1, "f", 3072), (5.6, "a", 3072), (7.9, "out", 768)):
    width = 0.6 if columns == 768 else 1.7
    steps.append(drawing.box(at, 1.8, name, width=width, height=1.2))
    drawing.text(at, 0.95, f"(N, {columns:,})")
for start, end, name in zip(steps, steps[1:], ("w1, b1", "GELU", "w2, b2"), strict=False):
    drawing.arrow(start, end)
    middle = (start.x + start.width / 2 + end.x - end.width / 2) / 2
    drawing.text(middle, 2.05, name, orange)
drawing.text(2.1, 0.35, "w1 (768, 3,072), b1 (3,072)", orange)
drawing.text(6.5, 0.35, "w2 (3,072, 768), b2 (768)", orange)
plot.save(drawing.figure, "05_mlp_shapes.png")

# %% [markdown] tags=["deeper"]
# ### The MLP as a pair, and its check
#
# As in lesson 00, an operation made of operations has a cache made of their caches. The three parts
# here are `linear` (lesson 01), our GELU, and `linear` again. Written this way, the MLP takes any
# leading axes. Both operations pass the check of lesson 00:

# %%
from minigpt import gradcheck, ops


def mlp_forward(x, w1, b1, w2, b2):
    f, fc = ops.linear_forward(x, w1, b1)
    a, gelu = gelu_forward(f)
    out, proj = ops.linear_forward(a, w2, b2)
    return out, (fc, gelu, proj)


def mlp_backward(dout, cache):
    fc, gelu, proj = cache
    da, dw2, db2 = ops.linear_backward(dout, proj)
    df = gelu_backward(da, gelu)
    dx, dw1, db1 = ops.linear_backward(df, fc)
    return dx, dw1, db1, dw2, db2


of_gelu = gradcheck.check(gelu_forward, gelu_backward, (f,))
of_mlp = gradcheck.check(mlp_forward, mlp_backward, (x.reshape(2, 3, C), w1, b1, w2, b2))
print(f"gelu\n{gradcheck.table(of_gelu)}\nmlp\n{gradcheck.table(of_mlp)}")
results = by_lines + mlp_by_lines + of_gelu + of_mlp
assert all(result.error < 1e-8 for result in results), "GELU and the MLP are right"

# %% [markdown] tags=["deeper"]
# ### The trap: a tolerance that is made for noise
#
# This mistake is plausible: the tanh form in the forward pass, and in the backward pass the slope
# of the *erf* form, which is the simpler formula. The gradient is wrong by less than 0.1 % of its
# largest entry. Which check sees that?
#
# - **In float32** finite differences are noisy: they divide the rounding error of the output by eps
#   (lesson 00). So a careless check takes a large eps, 1e-3, and accepts an error of 1 %. The
#   mistake passes.
# - **In float64** the noise is far smaller, and a tolerance of 1e-7 is possible. Then the mistake
#   is seen. (With a tolerance of 1 % it would pass here too.)

# %%
def erf_slope_backward(dout, cache):
    x, _ = cache
    return (dout * erf_slope(x)).astype(dout.dtype)


def careless_error(backward, x, dout):
    """The relative error against differences in float32, of all entries at once: none mix."""
    eps = np.float32(1e-3)
    above, below = gelu_forward(x + eps)[0], gelu_forward(x - eps)[0]
    noisy = (above - below) / (2 * eps) * dout
    return np.abs(backward(dout, gelu_forward(x)[1]) - noisy).max() / np.abs(noisy).max()


few, dfew = np.random.default_rng(2).normal(size=(2, 30)).astype(np.float32)
careful_errors = {}
print("slope in the backward   careless error, float32   careful error, float64   verdict")
for name, some in (("of the tanh form", gelu_backward), ("of the erf form", erf_slope_backward)):
    careless = careless_error(some, few, dfew)
    [careful] = gradcheck.check(gelu_forward, some, (few.astype(np.float64),))
    print(f"{name:21}   {careless:23.0e}   {careful.error:22.0e}   {careful.word}")
    expected = "happy" if some is gelu_backward else "wrong"
    careful_errors[name] = careful.error
    assert careless < 0.01 and careful.error < 0.01, "a tolerance of 1 % hides the mistake"
    assert careful.word == expected, "a tolerance of 1e-7, in float64, does not"

# %%
tanh_error, erf_error = careful_errors.values()
print(f"in float64 the second error is {erf_error / tanh_error:.0e} times the first")
assert erf_error > 1e6 * tanh_error, "a million times"

# %% [markdown]
# In float64 one error is more than a million times the other. If a check needs a loose tolerance,
# improve the check.

# %% [markdown] tags=["deeper"]
# ## 6. See it: the bend at work
#
# An MLP with one input, six hidden units and one output learns sin(2x) by 2,000 updates of plain
# gradient descent, with the backward pass from above. Once it has GELU, and once nothing between
# its two linear maps. (This is one start; exercise 4 tries others.)

# %%
line = np.linspace(-2, 2, 41)[:, None]
SINE = np.sin(2 * line)


def fit(bend_forward, bend_backward):
    """Returns the output, what each unit adds to it, and the mean squared error."""
    draw = np.random.default_rng(2)
    u1, c1 = draw.normal(size=(1, 6)), 1.5 * draw.normal(size=6)  # the bends are spread out
    u2, c2 = draw.normal(size=(6, 1)) / 5, np.zeros(1)  # the output begins small
    for _ in range(2000):
        inner, fc = ops.linear_forward(line, u1, c1)
        a, bend = bend_forward(inner)
        y, proj = ops.linear_forward(a, u2, c2)
        dy = 2 * (y - SINE) / len(line)  # of the mean squared error
        da, du2, dc2 = ops.linear_backward(dy, proj)
        _, du1, dc1 = ops.linear_backward(bend_backward(da, bend), fc)
        for weight, gradient in ((u1, du1), (c1, dc1), (u2, du2), (c2, dc2)):
            weight -= 0.1 * gradient
    return y, a * u2[:, 0], ((y - SINE) ** 2).mean()


bent, pieces, bent_error = fit(gelu_forward, gelu_backward)
straight, _, straight_error = fit(lambda x: (x, None), lambda dout, cache: dout)
print(f"mean squared error: with GELU {bent_error:.5f}, without {straight_error:.3f}")

# %%
assert bent_error < 0.002 < 0.3 < straight_error, "only the network with a bend learns the curve"
assert np.allclose(straight, best_linear(line, SINE), atol=1e-3), "without it: the best line"
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4.4))
left.plot(line, SINE, "o", color="black", markersize=4, label="to learn: sin(2x)")
left.plot(line, straight, "--", color="gray", label=f"no GELU: error {straight_error:.2f}")
left.plot(line, bent, color="tab:blue", label=f"with GELU: error {bent_error:.4f}")
left.set(title="Six units, with and without GELU", xlabel="x", ylabel="output", ylim=(-1.3, 2.6))
right.plot(line, pieces)
right.plot(line, bent, ":", color="black", label="their sum and a bias")
right.set(title="What each of the six units adds", xlabel="x", ylim=(-3.3, 3.3))
for axes in (left, right):
    axes.legend(loc="upper left")
plot.save(figure, "05_six_units.png")
print(f"without GELU, six units draw the best line: error {straight_error:.3f}")

# %% [markdown]
# The right panel shows a second way to read an MLP: its output is a sum over hidden units. Column
# j of w1 decides how strongly unit j reacts to the input, and row j of w2 is the vector that it
# adds to the output, times this reaction. That is arithmetic, and it is checked below. Geva et al.
# 2021 (arXiv 2012.14913) find units in a trained model that react to patterns a person can name.
# That is a finding about a trained model. It does not follow from the formula.

# %%
by_units = b2 + np.zeros((N, C))
for j in range(F):
    reaction, _ = gelu_forward(x @ w1[:, j] + b1[j])  # (N,)
    by_units = by_units + reaction[:, None] * w2[j]  # (N, 1) times (C,)
whole_y, _ = mlp_forward(x, w1, b1, w2, b2)
print(f"the sum over {F} units differs from the MLP by {np.abs(by_units - whole_y).max():.0e}")
assert np.allclose(by_units, whole_y, rtol=0, atol=1e-12), "an MLP is a sum over its units"

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# GELU's pair is `ops.gelu_forward` and `ops.gelu_backward`:
#
#     # minigpt/ops/reference/gelu.py
#     # u = _C * (x + _A * x**3)
#     du_dx = _C * (1 + 3 * _A * x * x)
#     # t = tanh(u)
#     dt_dx = (1 - t * t) * du_dx
#     # out = 0.5 * x * (1 + t)
#     dx = dout * (0.5 * (1 + t) + 0.5 * x * dt_dx)
#
# The exact form is `ops.gelu_exact_forward` and `ops.gelu_exact_backward`.
#
# The MLP is a *composite*: an operation that calls other operations of the table. One of them it
# calls by its name, `activation`, which is "gelu" unless another is given:
#
#     # minigpt/ops/reference/composites.py
#     act_forward = getattr(ops, f"{activation}_forward")
#     f, fc = ops.linear_forward(x, w1, b1)
#     a, act = act_forward(f)
#     out, proj = ops.linear_forward(a, w2, b2)
#
# The MLP with a gate (exercise 1) is `ops.gated_mlp_forward`; its gate has `ops.silu_forward`.

# %%
dy = np.random.default_rng(3).normal(size=(N, C))
with ops.using("reference"):  # the faster implementation keeps other values
    library_y, library_cache = ops.mlp_forward(x, w1, b1, w2, b2)
    library_gradients = ops.mlp_backward(dy, library_cache)
    ledger = ops.ledger(library_cache)
own_gradients = mlp_backward(dy, mlp_forward(x, w1, b1, w2, b2)[1])
for mine, theirs in zip((whole_y, *own_gradients), (library_y, *library_gradients), strict=True):
    assert np.allclose(mine, theirs, rtol=0, atol=1e-12), "the library computes the same"

exact, exact_cache = ops.gelu_exact_forward(f)
exact_slope = ops.gelu_exact_backward(np.ones_like(f), exact_cache)
assert np.allclose([exact, exact_slope], [erf_form(f), erf_slope(f)], rtol=0, atol=1e-14)

kept = {path: size for path, size in ledger.items() if not path.endswith((".w", ".b"))}
print("kept for the backward   bytes   numbers for each position")
for path, size in kept.items():
    print(f"{path:21}   {size:5}   {size // (N * 8):10}")
assert sum(kept.values()) == 8 * N * (C + 3 * F), "C + 3 F numbers for each position"

# %% [markdown]
# C + 3 F numbers for each position: the input, and three arrays of the inner width: f, t and a
# (in the table `act.x`, `act.t` and `proj.x`). (The cache holds the weights too, but only
# refers to them: they cost no further memory, so they are left out of the table.) Now the same
# for GPT-1, with 64 sequences of 512 positions in float32.

# %%
C1, F1, positions = 768, 3072, 64 * 512
per_block, t_alone = positions * (C1 + 3 * F1) * 4 / 1e9, positions * F1 * 4 / 1e9
parameters = 2 * C1 * F1 + F1 + C1
attention = (C1 * 3 * C1 + 3 * C1) + (C1 * C1 + C1)  # its two linear maps
block = parameters + attention + 2 * 2 * C1  # and two LayerNorms, lesson 06
print(f"kept by the MLP of one block {per_block:.2f} GB, of all twelve {12 * per_block:.1f} GB")
print(f"of these, t alone: {12 * t_alone:.1f} GB; computing the tanh again would save them")
print(f"a block has {block:,} parameters, its MLP {parameters:,}: {100 * parameters / block:.1f} %")
assert round(12 * per_block, 1) == 15.7 and round(12 * t_alone, 1) == 4.8, "GB in GPT-1"
assert block == 7_087_872 and parameters == 4_722_432, "the sizes of GPT-1"

# %% [markdown]
# Two thirds of a block: about $8C^2$ parameters in the MLP, against $4C^2$ in the attention. Why
# four times as wide? Vaswani et al. chose it (512 and 2,048). In their table 3 they tried other
# inner widths, and wider (which is also larger) was better. It is a choice, not a law.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - The GPT-1 paper says "GELU" and cites Hendrycks and Gimpel. OpenAI's code computes the tanh
#   form. Hugging Face's configuration of GPT-1 says `"afn": "gelu"` and means the tanh form too;
#   elsewhere in that library `gelu` is the exact form, and the tanh form is called `gelu_new`.
#   `torch.nn.GELU()` is the exact form, unless it is made with `approximate="tanh"`.
# - The papers call the MLP "position-wise": it sees one position at a time and moves nothing
#   between positions. That is the attention's work. In GPT-1, dropout (lesson 07) follows the
#   second linear map; in our code the part that calls the MLP adds it.

# %% [markdown]
# ## 9. To keep
#
# - Linear maps in a row are one linear map; a bend between them lets a network learn what no line
#   can.
# - GELU is x times a smooth switch, so its slope has two terms: what passes, and how x moves the
#   switch. It is above 1 for some x, and below 0 for -x.
# - The MLP is linear, GELU, linear, at each position by itself: two thirds of a block's parameters.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/05_swiglu.py`: the MLP of many models after GPT-2 has a gate. Write the backward of
#    SwiGLU, line by line. Run the file: it names the first line that is wrong.
# 2. `exercises/05_find_the_bug.py`: an MLP written out in one piece. Its forward is right, and its
#    backward is not.
# 3. On paper: the *average* slope of GELU over any distribution that is symmetric about 0 is
#    exactly 1/2. Why? And what is it for ReLU?
# 4. Try it: give the network of section 6 fewer hidden units (the number 6 stands in three places)
#    and other seeds. How many units does it need? Is that a matter of what it can draw, or of what
#    gradient descent finds?
# 5. On paper: the MLP of exercise 1 has three matrices and no biases. How wide must it be
#    inside, to have as many weights as the two matrices of an MLP with C = 768 and F = 3,072?

# %%
worst = max(result.error for result in by_lines + mlp_by_lines)
print(f"lesson 05: every check is happy (worst relative error {worst:.0e})")
