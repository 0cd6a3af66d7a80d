# %% [markdown]
# # Lesson 00: gradients, and why a cache exists
#
# You will learn how a program finds the derivative of one number with respect to millions of
# others, and you will build the two functions that this whole book is made of:
# `out, cache = forward(...)` and `gradients = backward(dout, cache)`. You will also build the tool
# that decides whether a gradient is right. And you will see a gradient with the wrong sign, seven
# times too large, pass a careless check.
#
# Reading: 30 minutes for the core, 85 minutes for all of it. Running: 2 to 5 seconds. Before it:
# the derivative of a function of one variable, and NumPy arrays.
#
# Papers: Rumelhart, Hinton and Williams 1986 (Nature 323, equations 4 to 7): how errors travel
# backwards. Baydin et al. 2018 (JMLR 18), section 3.2: the same for any program, which is called
# reverse mode.

# %% [markdown]
# ## 1. Why: in which direction should each number change?
#
# A model is a function with many adjustable numbers, its **parameters**. The **loss** is one number
# that says how far the model's output is from what we want. Training changes every parameter a
# little, so that the loss falls. For this we must know, for each parameter: if it grows a little,
# does the loss rise or fall, and how fast? This speed is the derivative of the loss with respect to
# the parameter:
#
# $$
# \frac{dL}{dw} = \lim_{\epsilon \to 0} \frac{L(w + \epsilon) - L(w)}{\epsilon}
# $$
#
# All these derivatives together are the **gradient**. The direct way to find one of them is to
# change the parameter by a small number and to run the model again. Here is a model with two
# parameters, a weight w and a bias b. Its output is w x + b, and its loss is the squared distance
# from a target.

# %%
def tiny_loss(w, b, x=3.0, target=4.0):
    return (w * x + b - target) ** 2


before, after = tiny_loss(w=2.0, b=-1.0), tiny_loss(w=2.001, b=-1.0)
slope = (after - before) / 0.001
print(f"loss at w = 2: {before:.6f}, at w = 2.001: {after:.6f}; slope: {slope:.3f}")
assert abs(slope - 6) < 0.01, "the slope with respect to w is 6 (section 2)"

years = 116_534_784 / (365.25 * 24 * 3600)
print(f"one run for each of GPT-1's 116,534,784 parameters, a second each: {years:.1f} years")
assert 3.6 < years < 3.8, "116,534,784 seconds are 3.7 years"

# %% [markdown]
# (The exact slope is 6. We see 6.009, because w has moved by 0.001, which is small but not zero.)
# This works for every function, but it needs one run of the model *for each parameter*: with one
# second for a run, 3.7 years for a single update of GPT-1. **Backpropagation** finds all 116
# million derivatives with the work of about two more runs (lesson 01 counts the multiplications).
# It uses one rule that you know from school, the chain rule.

# %% [markdown]
# ## 2. The chain rule: one path, then two
#
# We write the loss as a **computation graph**. Each box is one small operation. Each arrow carries
# one number.

# %% tags=["hide-input"]
from minigpt import plot

graph = plot.Diagram(9, 3.1, "Values go to the right (black), gradients come back (red)")
w_box = graph.box(0.6, 2.5, "w = 2", "tab:green", width=0.9)
x_box = graph.box(0.6, 0.8, "x = 3", "tab:green", width=0.9)
b_box = graph.box(4.1, 0.4, "b = -1", "tab:green", width=1.0)
target_box = graph.box(6.0, 0.4, "target 4", "tab:gray", width=1.2)
steps = [(2.2, "×"), (4.1, "+"), (6.0, "-"), (7.7, "square")]
boxes = [graph.box(x, 1.7, sign, width=0.9 if sign == "square" else 0.6) for x, sign in steps]
for start, end in zip(boxes, [*boxes[1:], (8.9, 1.7)], strict=True):
    graph.arrow(start, end)
for start, end in ((w_box, 0), (x_box, 0), (b_box, 1), (target_box, 2)):
    graph.arrow(start, boxes[end])
for at, black in ((3.15, "h = 6"), (5.05, "s = 5"), (6.75, "e = 1"), (8.5, "loss = 1")):
    graph.text(at, 2.0 if at < 8 else 2.2, black, size=14)
    graph.text(at, 1.42, "1" if at > 8 else "2", "tab:red", size=16)
for place, red in (((1.45, 2.45), "6"), ((1.45, 0.87), "4"), ((4.35, 1.0), "2")):
    graph.text(*place, red, "tab:red", size=16)
plot.save(graph.figure, "00_graph.png")

# %% [markdown]
# **Forward pass**: from left to right, each box computes its value. **Backward pass**: from right
# to left, each arrow gets a red number (that of the target is left out). It is the derivative of
# the loss with respect to the value on that arrow. In this book it has the name of the value with a
# `d` in front: `de` is $\partial\,\text{loss} / \partial e$.
#
# ### One path
#
# From w to the loss there is one path: w, h, s, e, loss. The chain rule says: multiply the
# derivatives of all steps on the path.
#
# $$
# \frac{\partial\,\text{loss}}{\partial w}
#   = \frac{\partial\,\text{loss}}{\partial e} \cdot \frac{\partial e}{\partial s}
#     \cdot \frac{\partial s}{\partial h} \cdot \frac{\partial h}{\partial w}
#   = 2e \cdot 1 \cdot 1 \cdot x = 2 \cdot 1 \cdot 1 \cdot 3 = 6
# $$
#
# We multiply from the left, so after each factor the product is the gradient of one value: 2 is
# `de`, 2 · 1 is `ds`, 2 · 1 · 1 is `dh`, and 2 · 1 · 1 · 3 is `dw`. Each box needs two things for
# its step:
#
# - the **upstream gradient**: the gradient of its output, which the next box has computed;
# - the **local gradient**: the derivative of its own output with respect to its own input.
#
# Their product is the gradient of its input. A box needs to know nothing about the other boxes.
#
# And this is the graph above, as a program:

# %%
w, x, b, target = 2.0, 3.0, -1.0, 4.0
h = w * x
s = h + b
e = s - target
loss = e**2

dloss = 1.0  # the loss grows exactly as fast as the loss
de = dloss * 2 * e  # loss = e ** 2
ds = de * 1  # e = s - target
dh, db = ds * 1, ds * 1  # s = h + b
dw, dx = dh * x, dh * w  # h = w * x
print("value    ", {"h": h, "s": s, "e": e, "loss": loss})
print("gradient ", {"dh": dh, "ds": ds, "de": de, "dw": dw, "dx": dx, "db": db})
assert (dw, dx, db) == (6, 4, 2), "the red numbers of the picture"
assert abs(dw - slope) < 0.01, "the chain rule agrees with the direct way"

# %% [markdown]
# One backward pass gave *all* gradients. The direct way needs one run for each.
#
# ### Two paths
#
# Now a value that is used twice. Let out = a c with a = u² and c = 3u. At u = 2, a = 4 and c = 6.
#
# If u grows by a small $\epsilon$, then a grows by $2u\,\epsilon$ *and* c grows by $3\epsilon$.
# Both changes reach `out`, and small changes add. So the chain rule with two paths is a sum, with
# one term for each path. (The local gradient of a c is c = 6 for a, and a = 4 for c.)
#
# $$
# \frac{\partial\,\text{out}}{\partial u}
#   = \frac{\partial\,\text{out}}{\partial a} \frac{\partial a}{\partial u}
#   + \frac{\partial\,\text{out}}{\partial c} \frac{\partial c}{\partial u}
#   = 6 \cdot 4 + 4 \cdot 3 = 36
# $$
#
# **The gradient of a value that is used several times is the sum of the gradients from all its
# uses.** It is easy to forget one of them when a backward pass is written by hand.
#
# Two special cases occur in every model:
#
# - **A copy goes forward, a sum comes back.** If one bias is added to five rows, it is used five
#   times. Its gradient is the sum over the five rows.
# - **A sum goes forward, a copy comes back.** In z = e1 + e2 + e3 each local gradient is 1. So each
#   of the three gets a copy of dz.

# %% [markdown] tags=["deeper"]
# ### Two paths: a picture, and the direct way

# %% tags=["hide-input"]
two = plot.Diagram(8, 3.3, "u is used twice: its gradient is the sum, 24 + 12 = 36")
u_box = two.box(0.8, 1.6, "u = 2", "tab:green", width=1.0)
square = two.box(3.2, 2.5, "a = u²", width=1.2)
triple = two.box(3.2, 0.6, "c = 3u", width=1.2)
product = two.box(5.8, 1.6, "out = a c", width=1.5)
for start, end in ((u_box, square), (u_box, triple), (square, product), (triple, product)):
    two.arrow(start, end)
two.arrow(product, (7.9, 1.6))
for place, black in (((4.5, 2.45), "4"), ((4.5, 0.72), "6"), ((7.2, 1.85), "24")):
    two.text(*place, black, size=16)
for place, red in (((4.35, 1.83), "6"), ((4.35, 1.4), "4"), ((7.2, 1.3), "1")):
    two.text(*place, red, "tab:red", size=16)
for place, red in (((1.4, 2.4), "6 · 2u = 24"), ((1.4, 0.8), "4 · 3 = 12")):
    two.text(*place, red, "tab:red", size=14)
plot.save(two.figure, "00_two_paths.png")

# %%
def out_of(u):
    return u**2 * (3 * u)


u = 2.0
path_a = 3 * u * (2 * u)  # upstream gradient c, local gradient 2u
path_c = u**2 * 3  # upstream gradient a, local gradient 3
direct = (out_of(u + 1e-6) - out_of(u)) / 1e-6
print(f"through a {path_a:g}, through c {path_c:g}, sum {path_a + path_c:g}; direct {direct:.3f}")
assert abs(path_a + path_c - direct) < 1e-3, "the sum of both paths is the derivative"

# %% [markdown] tags=["deeper"]
# ### The local gradients of this book's operations
#
# These are the local gradients of the operations that this book uses most:
#
# | operation | local gradients |
# |---|---|
# | a + b | 1 for a, 1 for b |
# | a - b | 1 for a, -1 for b |
# | a b | b for a, a for b |
# | a / b | 1 / b for a, -a / b² for b |
# | a² | 2a |
# | √a | 1 / (2 √a) |
# | exp(a) | exp(a) |
# | log(a) | 1 / a |
# | tanh(a) | 1 - tanh(a)² |
#
# The last one is the rule for a quotient: tanh(a) = s / c with $s = (e^a - e^{-a}) / 2$ and
# $c = (e^a + e^{-a}) / 2$. The derivative of s is c, and that of c is s. So
#
# $$
# \Big(\frac{s}{c}\Big)' = \frac{s' \, c - s \, c'}{c^2} = \frac{c^2 - s^2}{c^2} = 1 - \tanh(a)^2
# $$

# %%
import math

local_gradients = {
    "a²": (lambda a: a**2, lambda a: 2 * a),
    "√a": (math.sqrt, lambda a: 1 / (2 * math.sqrt(a))),
    "exp(a)": (math.exp, math.exp),
    "log(a)": (math.log, lambda a: 1 / a),
    "tanh(a)": (math.tanh, lambda a: 1 - math.tanh(a) ** 2),
    "2 / a": (lambda a: 2 / a, lambda a: -2 / a**2),
}
print("operation   local gradient at a = 0.7   the direct way")
for name, (operation, gradient) in local_gradients.items():
    tried = (operation(0.7 + 1e-6) - operation(0.7)) / 1e-6
    print(f"{name:9}   {gradient(0.7):25.4f}   {tried:14.4f}")
    assert abs(gradient(0.7) - tried) < 1e-4, f"the local gradient of {name}"

# %% [markdown]
# ## 3. Softmax: forward and backward, line by line
#
# Our first real operation is the **softmax**. It turns scores, which may be any numbers, into
# probabilities: positive numbers with the sum 1. A language model uses it for its prediction, and
# lesson 03 uses it for attention. For a row of scores x,
#
# $$
# p_i = \frac{\exp(x_i)}{\sum_j \exp(x_j)}
# $$
#
# We write it with one operation a line, for a table of T rows and C columns; the softmax is taken
# along each row. T and C are small and *different*: an array in the wrong place then has the wrong
# shape. `lines.run` shows each line with the shape of its value.

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import lines

set_threads(1)  # small arrays: a second thread would only be in the way
T, C = 3, 4
scores = np.random.default_rng(0).normal(size=(T, C))


def softmax_lines(x):
    e = np.exp(x)  # every number becomes positive
    z = e.sum(axis=-1, keepdims=True)  # one sum for each row; keepdims: (T, 1), not (T,)
    out = e / z
    return out


v = lines.run(softmax_lines, scores)
print(v.out.round(3))
assert np.allclose(v.out.sum(axis=-1), 1), "each row of probabilities has the sum 1"

# %% [markdown]
# Now backward. The softmax is in the middle of a model, so `dout` comes from the next operation.
# We write one backward line, or two, for each forward line, in reverse order. Above them, as a
# comment, is the forward line to which they belong. Three rules:
#
# - The gradient of a value has the shape of that value: each of its numbers has one derivative.
# - z divides a whole row, so it is used C times: `dz` is a sum along the row. (The local gradient
#   of e / z with respect to z is -e / z², and with respect to e it is 1 / z.)
# - e is used twice, in `e / z` and in `e.sum(...)`: `de` is the sum of two paths.
#
# `lines.check` draws a random `dout`, runs both passes, and compares *every* gradient in the
# backward pass with finite differences: it moves each number a little, runs the forward pass
# again, and looks how much the result has changed (section 6). An error below 1e-7 of the largest
# entry is called `happy`.
#
# **Your turn:** write the gradient of z, from the second rule. z has the shape (T, 1).

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

dout_here = np.random.default_rng(5).normal(size=(T, C))


def your_dz(dout, e, z):
    return ...  # out = e / z


true_dz = numeric(lambda z: v.e / z, v.z, dout_here)  # each z is moved a little
gap.judge(your_dz, dout_here, v.e, v.z, expected=true_dz)

# %% [markdown] tags=["answer"]
# `-(dout * e / z**2).sum(axis=-1, keepdims=True)`: upstream times local gradient at each place of
# the row, and then the sum over the C places. `keepdims` keeps the shape (T, 1).

# %%
def softmax_lines_backward(dout, v):
    # out = e / z
    de = dout / v.z
    dz = -(dout * v.e / v.z**2).sum(axis=-1, keepdims=True)
    # z = e.sum(axis=-1, keepdims=True)
    de = de + dz  # the second path of e: each entry of a row gets a copy of dz
    # e = np.exp(x)
    dx = de * v.e
    return dx


results = lines.check(softmax_lines, softmax_lines_backward, scores)
assert all(result.word == "happy" for result in results), "each line of the backward pass is right"

# %% [markdown] tags=["deeper"]
# ### A forgotten path is named
#
# Suppose that we forget the second path. Then the tool names the first gradient that is wrong, here
# `de`. After the words "it undoes" stand the forward lines that use e:

# %%
def one_path_backward(dout, v):
    # out = e / z
    de = dout / v.z  # and nothing for the path through z
    # e = np.exp(x)
    dx = de * v.e
    return dx


one_path_results = lines.check(softmax_lines, one_path_backward, scores)
verdicts = {result.name: result.word for result in one_path_results}
assert verdicts == {"de": "wrong", "dx": "wrong"}, "de lacks its second path"

# %% [markdown]
# The hint describes one mistake twice. What is missing is `dz`. The first sentence says that it is
# the same number for a whole row, the second that it is the part of `de` from the line of z.

# %% [markdown]
# ## 4. Why a cache exists
#
# The last line of the table says which values of the forward pass the backward pass has read: e
# and z. They were computed in the forward pass, which has finished. The gradient is computed
# *later*, when the rest of the model has run. Between the two, **e and z must be stored
# somewhere**, or they must be computed again.
#
# The forward function gives them to its caller: it returns, with its result, everything that its
# backward function needs. This is the **cache**. A cache is a value: no later *forward* changes it,
# there can be as many caches as there are calls, and its memory is free when the caller drops it.
# (It holds the arrays themselves and no copies. So none of them may be changed in place between
# forward and backward.) This is how all operations of this book work:

# %%
def softmax_forward(x):
    """x (*,N) -> out (*,N)"""
    e = np.exp(x)
    z = e.sum(axis=-1, keepdims=True)
    return e / z, (e, z)


def softmax_backward(dout, cache):
    """dout (*,N) -> dx (*,N)"""
    e, z = cache
    # out = e / z
    de = dout / z
    dz = -(dout * e / z**2).sum(axis=-1, keepdims=True)
    # z = e.sum(axis=-1, keepdims=True)
    de = de + dz
    # e = np.exp(x)
    return de * e


dout = np.random.default_rng(1).normal(size=(T, C))
_, first_cache = softmax_forward(scores)
dx_cache = softmax_backward(dout, first_cache)
print("the first row of dx:", dx_cache[0].round(3))
assert np.allclose(dx_cache.sum(axis=-1), 0), "if all scores rise together, nothing changes: sum 0"

# %% [markdown] tags=["deeper"]
# ### Two other places, and what is wrong with them
#
# Where else could e and z come from?
#
# **1. Store nothing, and compute everything again.** GPT-1 has 12 *blocks*: equal groups of
# operations, one after the other. For the values inside block 12 we need its input, so we run
# blocks 1 to 11 again; then blocks 1 to 10 for block 11, and so on. (And each block runs once more
# itself, for the values inside it. We do not count these 12 runs.)

# %%
again = sum(range(12))
print(f"12 blocks in the forward pass, and {again} more runs of a block to get all inputs again")
assert again == 66, "11 + 10 + ... + 0"

# %% [markdown]
# **2. Store them in the object**, as an attribute. Many libraries do this. It works until one
# object is used twice before its backward pass. Here it sees some examples, then other examples,
# and then we want the gradient of the *first*:

# %%
class SoftmaxObject:
    def forward(self, x):
        e = np.exp(x)
        self.e, self.z = e, e.sum(axis=-1, keepdims=True)  # the second call replaces the first
        return self.e / self.z

    def backward(self, dout):
        dz = -(dout * self.e / self.z**2).sum(axis=-1, keepdims=True)
        return (dout / self.z + dz) * self.e


others = np.random.default_rng(2).normal(size=(T, C))
layer = SoftmaxObject()
layer.forward(scores)
dx_alone = layer.backward(dout)
layer.forward(scores)
layer.forward(others)
dx_after = layer.backward(dout)
print("one forward, then backward:  ", dx_alone[0].round(3))
print("two forwards, then backward: ", dx_after[0].round(3))
assert np.allclose(dx_alone, dx_cache, rtol=0, atol=1e-14), "alone, it is as good as a cache"
assert np.abs(dx_alone - dx_after).max() > 0.05, "the first examples are lost, without an error"

# %% [markdown]
# The object computed with the values of the other examples, without an error. This is not a rare
# case. To compare two sentences, GPT-1 reads them in both orders through the same weights
# (section 3.3 of the paper). And it uses its table of token vectors (lesson 01) twice, for input
# and for output.
#
# A value that is handed on has none of these faults:

# %%
interface = plot.Diagram(9, 3.2, "Each forward hands its cache to its own backward")
loss_box = interface.box(8.4, 1.5, "loss", "tab:gray", width=0.9)
above = [interface.box(1.4 + 2.5 * i, 2.4, f"forward {i + 1}", width=1.5) for i in range(3)]
below = [interface.box(1.4 + 2.5 * i, 0.6, f"backward {i + 1}", "tab:red", 1.5) for i in range(3)]
interface.arrow((0.1, 2.4), above[0], "x")
interface.arrow(below[0], (0.1, 0.6), "dx", "tab:red")
for i in range(3):
    interface.arrow(above[i], below[i], color="tab:orange")
    interface.text(1.95 + 2.5 * i, 1.5, f"cache {i + 1}", "tab:orange")
for i in range(2):
    interface.arrow(above[i], above[i + 1], "out")
    interface.arrow(below[i + 1], below[i], "dout", "tab:red")
interface.arrow(above[2], loss_box)
interface.arrow(loss_box, below[2], color="tab:red")
plot.save(interface.figure, "00_cache.png")

softmax_forward(others)
assert np.array_equal(softmax_backward(dout, first_cache), dx_cache), "the first cache is unchanged"

# %% [markdown] tags=["deeper"]
# ### Two operations in a row are one
#
# Two operations in a row are one operation again: forward in order, backward in reverse, and the
# cache holds the caches of the parts. A whole GPT-1 is built in this way. Here is a softmax whose
# scores are first multiplied by a gain `g`, a parameter with one number for each column:

# %%
def gained_forward(x, g):
    """x (*,N), g (N,) -> out (*,N)"""
    s = g * x
    out, softmax_cache = softmax_forward(s)
    return out, (x, g, softmax_cache)


def gained_backward(dout, cache):
    """dout (*,N) -> dx (*,N), dg (N,)"""
    x, g, softmax_cache = cache
    # out, softmax_cache = softmax_forward(s)
    ds = softmax_backward(dout, softmax_cache)
    # s = g * x: one g for all rows, so its gradient is a sum over the rows
    dg = (ds * x).sum(axis=tuple(range(x.ndim - 1)))
    return ds * g, dg


gain = np.random.default_rng(3).uniform(1, 3, size=C)
_, gained_cache = gained_forward(scores, gain)
for name, gradient in zip(("dx", "dg"), gained_backward(dout, gained_cache), strict=True):
    print(f"{name} has the shape {gradient.shape}")

# %% [markdown]
# ## 5. Collapse: the Jacobian, which is never built
#
# Line by line, the backward pass reads e and z. With a pencil we can do better. Take one row,
# substitute each backward line into the next one (minus the sum is `dz`), and write p for `out`, so
# that $e_i / z = p_i$:
#
# $$
# \mathrm{dx}_j = e_j \, \mathrm{de}_j
#   = e_j \Big( \frac{\mathrm{dout}_j}{z} - \sum_i \frac{\mathrm{dout}_i \, e_i}{z^2} \Big)
#   = p_j \Big( \mathrm{dout}_j - \sum_i p_i \, \mathrm{dout}_i \Big)
# $$
#
# The sum is the average of `dout`, weighted with the probabilities. A score gets its probability
# times the difference of its `dout` from this average. And the cache is now p alone.

# %%
def collapsed_backward(dout, cache):
    (p,) = cache
    average = (p * dout).sum(axis=-1, keepdims=True)
    return p * (dout - average)


probabilities, (kept_e, kept_z) = softmax_forward(scores)
dx_collapsed = collapsed_backward(dout, (probabilities,))
print(f"cache line by line: {kept_e.nbytes + kept_z.nbytes} bytes")
print(f"cache collapsed:    {probabilities.nbytes} bytes")
assert np.allclose(dx_collapsed, dx_cache, rtol=0, atol=1e-14), "both forms agree"

# %% [markdown]
# So **a cache is a choice**: what is stored depends on how the backward pass is written. Later
# lessons make such choices to save memory.

# %% [markdown] tags=["deeper"]
# ### The Jacobian
#
# Look at the collapsed form from another side. In a row of C scores, every input $x_j$ can change
# every output $\mathrm{out}_i$. That makes C² local gradients. The matrix of all of them is the
# **Jacobian** J of the operation. Softmax is a quotient, $\mathrm{out}_i = e_i / z$. Here $e_i$
# changes only with $x_i$, but z changes with every $x_j$, because z is the sum of all
# $e_j = \exp(x_j)$. The derivative of $e_i$ by $x_i$ is $e_i$, and that of z by $x_j$ is $e_j$. The
# rule for quotients gives
#
# $$
# J_{ij} = \frac{\partial\,\mathrm{out}_i}{\partial x_j}
#   = \frac{1[i = j] \, e_i}{z} - \frac{e_i \, e_j}{z^2} = p_i \, (1[i = j] - p_j)
# $$
#
# $$
# \mathrm{dx}_j = \sum_i \mathrm{dout}_i \, J_{ij}
# $$
#
# where $1[i = j]$ is 1 if i = j and 0 otherwise. Keep two things apart:
# $\mathrm{dout}_i = \partial L / \partial\,\mathrm{out}_i$ is the upstream gradient, one number for
# each output; $J_{ij}$ is the local gradient, one number for each pair of output and input. The sum
# over i is the chain rule with C paths: $x_j$ reaches the loss through every output of its row. In
# the product `dout` J the vector is on the left. Such a vector is also called a **cotangent**.

# %%
row = scores[0]
jacobian = np.zeros((C, C))
for j in range(C):
    step = 1e-5 * (np.arange(C) == j)  # input j is moved, and all outputs are seen: one column
    jacobian[:, j] = (softmax_forward(row + step)[0] - softmax_forward(row - step)[0]) / 2e-5

dx_row = dout[0] @ jacobian
print("p_i (1[i = j] - p_j), the formula:")
formula = probabilities[0][:, None] * (np.eye(C) - probabilities[0])
print(formula.round(3))
assert np.allclose(jacobian, formula, rtol=0, atol=1e-10), "the formula is right"
assert np.allclose(dx_row, dx_cache[0], rtol=0, atol=1e-10), "dout times J is dx"

# %%
sheet = plot.Diagram(9, 3.6, "dout times the Jacobian is dx: 16 local gradients for 4 results")
for at, numbers, name in (
    (1.4, dout[:1], "dout (1, C)"), (4.5, jacobian, "J (C, C)"), (7.6, [dx_row], "dx (1, C)"),
):  # fmt: skip
    color = "tab:blue" if name.startswith("J") else "tab:red"
    sheet.grid(at, 1.7, np.round(numbers, 2), name, color, cell=0.62)
sheet.text(2.95, 1.7, "×", size=20)
sheet.text(6.05, 1.7, "=", size=20)
plot.save(sheet.figure, "00_jacobian.png")

n_scores = 12 * 512 * 512  # attention scores in one block of GPT-1, one sequence (lesson 03)
print(f"{n_scores:,} scores, and {n_scores * 512:,} local gradients in rows of 512")
assert n_scores * 512 == 1_610_612_736, "each score has one for every score of its row"

# %% [markdown]
# A backward pass never builds the Jacobian. It computes the *product* of `dout` and J, which is
# as small as `dout`. For the attention scores of one block of GPT-1, in one sequence, the
# Jacobians of all rows have 1.6 billion entries (the mask of lesson 03 makes about two thirds of
# them 0); the collapsed form needs only the 3.1 million probabilities. Every backward pass in this
# book is such a product, worked out by hand until nothing of the matrix is left.

# %% [markdown]
# ## 6. Check: finite differences, and two traps
#
# Is a backward pass right? We compare it with the direct way of section 1, which knows nothing of
# our formulas. This needs a loss, one number. For an operation without a loss we make one:
# L = sum(out * dout), with any array `dout`. Its gradient with respect to `out` is exactly `dout`.
#
# `lines.check` has done this in section 3, with a *random* `dout`. Ones look more natural: then L
# is simply the sum of the outputs. Here is our backward pass, and one that we have multiplied by
# -7: wrong sign, wrong size.
#
# **Guess:** how far apart are the two, with ones and with a random `dout`?

# %%
print("dout     largest entry of dx   largest difference to the one times -7")
apart = {}
for name, upstream in (("ones", np.ones_like(scores)), ("random", dout)):
    right = softmax_backward(upstream, first_cache)
    apart[name] = np.abs(right - -7 * right).max()
    print(f"{name:6}   {np.abs(right).max():19.1e}   {apart[name]:38.1e}")
assert apart["ones"] < 1e-14, "with ones, right and wrong are the same"
assert apart["random"] > 0.1, "with a random dout they are not"

# %% [markdown] tags=["answer"]
# With ones both are zero, but for rounding. **This is the surprise of the lesson.** Probabilities
# have the sum 1, whatever the scores are. So the sum of the outputs never changes, its true
# gradient is zero, and -7 times zero is zero: a check with ones compares zero with zero. LayerNorm
# (lesson 06) has the same weakness: its outputs, before its gain, have the sum 0.

# %% [markdown] tags=["deeper"]
# ### How far an input is moved
#
# How far should we move an input? And on one side, or on both? The Taylor series says:
#
# $$
# \frac{f(x + \epsilon) - f(x)}{\epsilon} = f'(x) + \frac{\epsilon}{2} f''(x) + \dots
# $$
#
# $$
# \frac{f(x + \epsilon) - f(x - \epsilon)}{2 \epsilon}
#   = f'(x) + \frac{\epsilon^2}{6} f'''(x) + \dots
# $$
#
# (In the second line the terms with $f''$ are the same in both values of f, and cancel.)
# The first is the **forward difference**, the second the **central difference**; both are **finite
# differences**. The first term that is left out is the **truncation error**. For the central
# difference it shrinks with the square of $\epsilon$. But a computer rounds: a float64 has about 16
# digits, so the difference of two values near 1 has an error near $10^{-16}$, and this error is
# divided by $\epsilon$. It is the **rounding error**, and it *grows* when $\epsilon$ shrinks.

# %%
def numeric_gradient(function, v, eps=1e-5, central=True):
    """The derivative of function(v), a number, with respect to each entry of the array v."""
    gradient = np.empty_like(v)
    for i in np.ndindex(v.shape):
        up, down = v.copy(), v.copy()
        up[i] += eps
        down[i] -= eps if central else 0
        moved = up[i] - down[i]  # not quite 2 eps: v + eps is rounded too
        gradient[i] = (function(up) - function(down)) / moved
    return gradient


def relative_error(a, n):
    """The largest difference, divided by the largest entry of both arrays."""
    return np.abs(a - n).max() / max(np.abs(a).max(), np.abs(n).max())


numeric_dx = numeric_gradient(lambda x: (softmax_forward(x)[0] * dout).sum(), scores)
print("numeric: ", numeric_dx[0])
print("backward:", dx_cache[0])
print(f"relative error {relative_error(dx_cache, numeric_dx):.0e}")
assert relative_error(dx_cache, numeric_dx) < 1e-9, "the backward pass of softmax is right"

# %% [markdown]
# We divide by the largest entry because an error of 0.001 is small beside 1000 and large beside
# 0.001. We do not divide entry by entry: an entry that happens to be close to zero would then
# look wrong for no good reason. This has a price: beside an entry of 1000, an entry of 0.00001 may
# be wrong in every digit, and the relative error is still 1e-8.
#
# Which $\epsilon$ is best? We try all sizes from 1 down to $10^{-14}$. (In float32 only down to
# $3 \cdot 10^{-7}$: float32 numbers between 1 and 2 are $1.2 \cdot 10^{-7}$ apart.) As the truth
# we take `dx_cache`: it comes from a formula, in float64, so only its last digits are rounded.

# %%
def error_at(eps, central=True, dtype=np.float64):
    """How wrong the numeric gradient is, when everything is computed in `dtype`."""
    given, upstream = scores.astype(dtype), dout.astype(dtype)

    def loss_of(x):
        return (softmax_forward(x)[0] * upstream).sum()

    return relative_error(dx_cache, numeric_gradient(loss_of, given, eps, central))


EPS = 10.0 ** np.arange(0, -14.1, -0.25)
curves = {
    "float32, central": [error_at(eps, dtype=np.float32) if eps > 3e-7 else np.nan for eps in EPS],
    "float64, forward": [error_at(eps, central=False) for eps in EPS],
    "float64, central": [error_at(eps) for eps in EPS],
}
best = {name: (EPS[np.nanargmin(errors)], np.nanmin(errors)) for name, errors in curves.items()}
print(f"{len(EPS)} step sizes, from {EPS[0]:.0f} to {EPS[-1]:.0e}")

# %%
V_figure, V_axes = plot.plt.subplots(figsize=(8, 4.8))
for (name, errors), style in zip(curves.items(), ("^-", "s-", "o-"), strict=True):
    V_axes.loglog(EPS, errors, style, label=name, markersize=4)
V_axes.axhspan(1e-13, 1e-7, color="tab:green", alpha=0.1)
V_axes.text(1.3e-14, 2.5e-13, "happy: below 1e-7", color="tab:green")
V_axes.axvline(1e-5, color="gray", linestyle=":")
V_axes.text(1.5e-5, 2.5e-13, "eps = 1e-5", color="gray")
V_axes.text(2e-14, 3e-7, "rounding\n1e-16 / eps")
V_axes.text(3e-2, 1e-9, "truncation\neps²")
V_axes.set(xlabel="eps", ylabel="relative error", ylim=(1e-13, 1e5))
V_axes.set_title("The best eps is neither large nor small")
V_axes.legend(loc="upper left")
plot.save(V_figure, "00_best_eps.png")
print("difference         best eps   smallest error")
for name, (eps, smallest) in best.items():
    print(f"{name}   {eps:8.0e}   {smallest:.0e}")
assert best["float64, central"][1] < 1e-9, "central differences in float64 find nine digits"
fewer = best["float64, forward"][1] / best["float64, central"][1]
assert 10 < fewer < 1e4, "forward differences find fewer digits"
assert 1e-6 < best["float32, central"][1] < 1e-4, "float32 finds four or five digits at best"

# %%
assert 50 < error_at(1e-2) / error_at(1e-3) < 200, "central: the error falls as eps squared"
forward_ratio = error_at(1e-2, central=False) / error_at(1e-3, central=False)
assert 5 < forward_ratio < 20, "forward: the error falls as eps"
tiny = EPS < 1e-7
tiny_errors = np.array(curves["float64, central"])[tiny]
rounding_slope = np.polyfit(np.log(EPS[tiny]), np.log(tiny_errors), 1)[0]
print(f"slope of the central difference below 1e-7: {rounding_slope:.2f}")
assert abs(rounding_slope + 1) < 0.15, "rounding: the error grows as 1 / eps"
assert 1e-6 < best["float64, central"][0] < 1e-4, "the best eps is near 1e-5"

# %% [markdown]
# Each curve is a V. Read it from right to left. First the truncation error falls, as $\epsilon^2$
# (as $\epsilon$ for the forward difference). Then the rounding error grows, as $1 / \epsilon$.
# The best $\epsilon$ lies near the place where both errors are equal. If we leave out constant
# factors, $\epsilon^2 = 10^{-16} / \epsilon$, so $\epsilon^3 = 10^{-16}$ and $\epsilon$ is near
# $5 \cdot 10^{-6}$. We take $10^{-5}$. In float32 the whole V is so high that no $\epsilon$
# reaches the green area. That is why every gradient check in this book runs in float64, even for a
# model that trains in float32.
#
# Here is our whole gradient check, with a word for each size of the error. The limits 1e-7 and 1e-4
# are a convention: the correct gradients of this lesson stay far below them, under 1e-9.

# %%
def word(error):
    return "happy" if error < 1e-7 else "suspicious" if error < 1e-4 else "wrong"


def check(forward, backward, arguments):
    """The relative error of each gradient that `backward` returns."""
    out, cache = forward(*arguments)
    upstream = np.random.default_rng(4).normal(size=out.shape)
    gradients = backward(upstream, cache)
    errors = []
    for k, gradient in enumerate(gradients if isinstance(gradients, tuple) else (gradients,)):

        def loss_of(v, k=k):  # k=k: it keeps the k of this turn
            changed = [*arguments[:k], v, *arguments[k + 1 :]]
            return (forward(*changed)[0] * upstream).sum()

        errors.append(relative_error(gradient, numeric_gradient(loss_of, arguments[k])))
    return errors


gained_errors = check(gained_forward, gained_backward, (scores, gain))
for name, error in zip(("dx", "dg"), gained_errors, strict=True):
    print(f"softmax with a gain, {name}: relative error {error:.0e}, {word(error)}")
    assert error < 1e-9, f"{name} is right"

# %% [markdown] tags=["deeper"]
# ### The first trap again: a `dout` of ones, and a careless check
#
# Here is a careless check with `np.allclose`, and three backward passes: the right one, the one
# times -7, and one that is always zero.

# %%
def spoiled_backward(dout, cache):
    return -7 * softmax_backward(dout, cache)


def careless_check(backward, dout):
    """A plausible check with np.allclose: passes or fails."""
    _, cache = softmax_forward(scores)
    by_moving = numeric_gradient(lambda x: (softmax_forward(x)[0] * dout).sum(), scores)
    right = np.allclose(backward(dout, cache), by_moving, rtol=1e-4, atol=1e-5)
    return "passes" if right else "fails"


trials = {"right": softmax_backward, "times -7": spoiled_backward}
trials["all zero"] = lambda dout, cache: np.zeros_like(dout)
print("backward   with ones   with a random dout   our check, random dout")
for name, backward in trials.items():
    ones, other = careless_check(backward, np.ones_like(scores)), careless_check(backward, dout)
    [random_error] = check(softmax_forward, backward, (scores,))
    print(f"{name:8}   {ones:9}   {other:18}   {word(random_error)} ({random_error:.1e})")
    assert ones == "passes", "all three pass with ones"
    assert (other == "passes") == (name == "right"), "the same check with a random dout: two fail"
    assert (random_error < 1e-9) == (name == "right"), "our check finds both mistakes"

# %% [markdown]
# All three pass the check with ones: it compared zero with zero. With a *random* `dout` both
# mistakes are found, by the careless check too: the ones were the cause. (The error of "times -7"
# is 8/7: the difference is 8 times the true gradient, the larger of the two is 7 times.)

# %% [markdown] tags=["deeper"]
# ### The second trap: to check where training starts
#
# Gains start at 1, and biases at 0, so that at first they change nothing. There, a backward pass
# that forgets the gain is right:

# %%
def forgetful_backward(dout, cache):
    x, g, softmax_cache = cache
    ds = softmax_backward(dout, softmax_cache)
    return ds, (ds * x).sum(axis=tuple(range(x.ndim - 1)))  # dx lacks its factor g


start_error, _ = check(gained_forward, forgetful_backward, (scores, np.ones(C)))
moved_error, _ = check(gained_forward, forgetful_backward, (scores, gain))
print(f"dx without g, checked at g = 1:      {start_error:.0e}, {word(start_error)}")
print(f"dx without g, checked at a random g: {moved_error:.0e}, {word(moved_error)}")
assert start_error < 1e-9, "at g = 1 the mistake cannot be seen"
assert moved_error > 0.1, "away from 1 it can"

# %% [markdown]
# A missing factor 1 cannot be seen, nor can a missing term 0. So these are the five rules of every
# check in this book: **float64; central differences; $\epsilon = 10^{-5}$; a random `dout`;
# parameters that have been moved away from where training starts.**

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# `minigpt.ops` is a table of such pairs. This is the softmax of the library:
#
#     # minigpt/ops/reference/softmax.py
#     xp = array_module(x)
#     e = xp.exp(x - x.max(axis=-1, keepdims=True))
#     p = e / e.sum(axis=-1, keepdims=True)
#     return p, SoftmaxCache(p)
#     ...
#     (p,) = cache
#     # p = softmax(x)
#     average = (p * dp).sum(axis=-1, keepdims=True)
#     dx = p * (dp - average)
#     return dx
#
# It is our collapsed form, and its cache has a name for each value. `xp` is NumPy, or CuPy where
# the arrays are on a GPU. One thing is new: the largest score of each row is subtracted first. This
# changes no probability, because $\exp(x_i - m)$ and the sum shrink by the same factor. But
# `exp(1000)` is too large for a float64, and `exp(0)` is not.

# %%
from minigpt import ops

p, library_cache = ops.softmax_forward(scores)
dx_library = ops.softmax_backward(dout, library_cache)
print("kept by the library:", ops.ledger(library_cache), "bytes")
assert np.allclose(dx_library, dx_collapsed, rtol=0, atol=1e-14), "the library's gradient is ours"
assert ops.ledger(library_cache) == {"p": probabilities.nbytes}, "it keeps the probabilities only"

large = np.array([1000.0, 999.0])
with np.errstate(over="ignore", invalid="ignore"):
    too_large = softmax_forward(large)[0]
print("scores 1000 and 999, ours:       ", too_large)
assert np.isnan(too_large).all(), "exp(1000) is too large for a float64"
print("scores 1000 and 999, the library:", ops.softmax_forward(large)[0])
same = ops.softmax_forward(large)[0] - softmax_forward(large - 999)[0]
assert np.abs(same).max() < 1e-14, "only the differences of scores count"

# %% [markdown]
# `minigpt.gradcheck` is our `check`, with more help: when a gradient is wrong, it shows the worst
# entry and guesses the reason. From here on every lesson uses it, and `lines.check`, which does the
# same for every line. Here are its verdicts on the right backward pass and on the one that forgot
# the gain:

# %%
from minigpt import gradcheck

right_results = gradcheck.check(gained_forward, gained_backward, (scores, gain))
forgetful_results = gradcheck.check(gained_forward, forgetful_backward, (scores, gain))
print("softmax with a gain:")
print(gradcheck.table(right_results))
print("the one that forgot the gain:")
print(gradcheck.table(forgetful_results))
assert all(result.error < 1e-9 for result in right_results), "both gradients are right"
assert [result.word for result in forgetful_results] == ["wrong", "happy"], "dx is wrong, dg right"

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - Rumelhart, Hinton and Williams have our upstream gradients in their equations 4 to 7. They use
#   the sigmoid y = 1 / (1 + exp(-x)). Its local gradient is y (1 - y), *written with its output*:
#   so the output is what must be kept. Their equation 7 is the sum over several paths.
# - The GPT-1 paper gives no gradient (it says "stochastic gradient descent"), and OpenAI's code
#   has no backward pass. TensorFlow 1 makes a graph of the forward operations first, and adds a
#   backward operation for each of them, from its own table of pairs. PyTorch keeps a record while
#   the forward pass runs, and has such a table too. The pairs were written by people, as ours
#   are. What is automatic is the graph or the record. Here we keep it ourselves, and see it.
# - To store nothing is not as bad as section 4 makes it look, if a little is stored. Chen et al.
#   2016 (section 4) keep the values at a few places only, such as the input of each block, and
#   compute each stretch once more. This costs one more forward pass. For n equal layers,
#   in stretches of sqrt(n) layers, about 2 sqrt(n) values are kept in place of n: of 16 layers the
#   inputs of 4 stretches, and the 4 values of the stretch that is computed now. It is called
#   *checkpointing*.

# %% [markdown]
# ## 9. To keep
#
# - A box multiplies its upstream gradient by its local gradient; a value that is used several times
#   gets the sum over all its uses.
# - The forward pass returns a cache with what the backward pass needs, and the caller keeps it;
#   what is in it is a choice: the softmax needs its probabilities alone.
# - A backward pass is right when finite differences agree with it, in float64 and with a random
#   `dout`.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/00_gate.py`: a gate mixes two rows, out = a x + (1 - a) y. One value is used twice,
#    and one is spread over a whole row. Write the backward pass. Run the file: it names your first
#    wrong line.
# 2. `exercises/00_find_the_bug.py`: every formula in it is right, and still its gradients can be
#    wrong. Run the file to see it fail.
# 3. On paper: which $\epsilon$ is the best for the forward difference in float64, and for the
#    central difference in float32, which has about 7 digits? Compare with what section 6 printed.
# 4. Measure: take one row of C scores, for C = 10, 100, 1000. How long does `numeric_gradient` need
#    for all of dx, and how long does `softmax_backward` need? How do the two times grow with C?

# %%
worst = max(result.error for result in results)
print(f"lesson 00: every check is happy (worst relative error {worst:.0e})")
