# %% [markdown]
# # Lesson 09: Adam, or how the weights move
#
# You will see why plain gradient descent is slow, build Adam line by line, and derive its two
# corrections. You will write down the rule of OpenAI's released code for GPT-1; it is not quite the
# one in the books. And you will find out when a warm-up of the learning rate is necessary, by
# changing one thing at a time.
#
# Reading: 25 minutes for the core, 80 minutes for all of it. Running: 20 to 60 seconds. Before it:
# lessons 07 and 08.
#
# Papers: Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1 and section 3. Loshchilov and Hutter
# 2019 (arXiv 1711.05101), algorithm 2: weight decay apart from the gradient. Pascanu, Mikolov and
# Bengio 2013 (arXiv 1211.5063), algorithm 1: clipping. Radford et al. 2018 (GPT-1), section 4.1.

# %% [markdown]
# ## 1. Why: one learning rate for all weights
#
# The two blocks of lesson 08 learnt by a rule that was taken on trust. Here they are after 300
# updates by gradient descent:

# %%
import numpy as np

from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("09")
assert so_far["two blocks, by gradient descent"] > so_far["the letter table"], "no better than it"

# %% [markdown]
# No better than a table that counts. With this lesson's rule and schedule, as many updates led to
# about 1.5 (lesson 07).
#
# Gradient descent has one rule, p = p - lr g, where lr is the **learning rate** (it was 0.3; rates
# from 0.2 to 0.5 end alike). Take a loss with two weights, one of which is a hundred times as steep
# as the other:
#
# $$
# L(a, b) = \tfrac{1}{2} (100\, a^2 + b^2) \qquad da = 100\, a \qquad db = b
# $$
#
# Every update multiplies $a$ by $1 - 100\,lr$ and $b$ by $1 - lr$. If lr is above 0.02, then $1 -
# 100\,lr$ is below -1, and $a$ grows for ever. So the steep direction forbids the rate that the
# flat direction needs:

# %%
import math

STEEP = np.array([100.0, 1.0])


def descend(lr, steps):
    """Gradient descent from (1, 1): every point on the way."""
    path = [np.array([1.0, 1.0])]
    for _ in range(steps):
        path.append(path[-1] - lr * STEEP * path[-1])
    return np.array(path)


for lr in (0.021, 0.019):
    a, b = descend(lr, 100)[-1]
    print(f"after 100 updates with rate {lr}: a = {a:10.5f}, b = {b:.5f}")
assert abs(descend(0.021, 100)[-1, 0]) > 1e4, "above 0.02 the steep direction grows"
assert abs(descend(0.019, 100)[-1, 0]) < 1e-4, "below 0.02 it shrinks"
assert descend(0.019, 100)[-1, 1] > 0.1, "the flat direction has hardly moved"

# %%
from minigpt import plot


def draw_valley(axes, paths, count):
    """Lines of equal loss, and the first points of each path."""
    across, along = np.meshgrid(np.linspace(-1.9, 1.9, 200), np.linspace(-0.35, 1.2, 200))
    levels = (0.05, 0.4, 2, 8, 25, 50, 120)
    axes.contour(along, across, 50 * across**2 + along**2 / 2, levels=levels, colors="lightgray")
    for (name, path), color in zip(paths.items(), ("red", "purple", "green"), strict=False):
        axes.plot(path[:count, 1], path[:count, 0], ".-", color=f"tab:{color}", label=name)
    axes.plot(0, 0, "k*", markersize=12)
    axes.set(xlabel="b, flat", ylabel="a, 100 times as steep", ylim=(-1.9, 1.9))


figure, panels = plot.plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
for axes, lr in zip(panels, (0.019, 0.0205), strict=True):
    draw_valley(axes, {"gradient descent": descend(lr, 12)}, 13)
    axes.set_title(f"rate {lr}: 12 updates from (1, 1)")
plot.save(figure, "09_valley.png")

# %% [markdown]
# The star is the minimum. On both sides $a$ jumps across the valley at each update, and $b$ crawls
# along it. On the left the jumps shrink; on the right, at a rate only 8 % higher, they grow.

# %% [markdown] tags=["deeper"]
# ### Is GPT-1 such a valley?
#
# Here is a small GPT-1 from the library (lesson 08) and a short text to
# learn.

# %%
from minigpt import GPT1, GPT1Config

TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the "
    "red kite in the tree. I can not reach it, says Mina. Tom has a long stick. Tom takes the "
    "stick to the tree and the kite comes down. Thank you, Tom, says Mina. Now Tom and Mina "
    "run to the hill, and the red kite is high in the wind. The next day the wind is gone. "
    "Mina and Tom sit under the old tree and look at the sky. We can wait, says Tom. They wait "
    "and wait. A small bird comes and sits on the kite. Then the wind is back, and the bird "
    "and the kite are high over the hill. Look, says Mina, the bird can fly and the kite can "
    "fly. One day we will fly too, says Tom. "
)
letters = sorted(set(TEXT))
text_ids = np.array([letters.index(letter) for letter in TEXT])
frequency = np.bincount(text_ids) / len(text_ids)
only_letters = -(frequency * np.log(frequency)).sum()
print(f"{len(TEXT)} letters, {len(letters)} of them different")
print(f"loss of guessing: {math.log(len(letters)):.2f}; of letter frequencies: {only_letters:.2f}")

# %%
T, B = 16, 8


def small_gpt1(n_layer, std=0.02, seed=0):
    sizes = {"vocab_size": len(letters), "n_positions": T, "n_embd": 32, "n_head": 4}
    return GPT1(GPT1Config(**sizes, n_layer=n_layer, initializer_range=std), seed=seed)


def batch(step):
    starts = np.random.default_rng([7, step]).integers(0, len(text_ids) - T, size=(B, 1))
    window = text_ids[starts + np.arange(T + 1)]
    return window[:, :-1], window[:, 1:]


def gradients_of(model, step):
    """The gradients of one batch arrive in the parameters; returns the loss."""
    model.zero_grad()
    loss, cache = model.loss(*batch(step))
    model.loss_backward(cache)
    return float(loss)


print(f"a batch has {B} sequences of {T} letters; the first one: "
      f"{''.join(letters[i] for i in batch(0)[0][0])!r}")

# %%
fresh = small_gpt1(n_layer=2)
gradients_of(fresh, 0)
typical = {name: float(np.sqrt((p.grad**2).mean())) for name, p in fresh.named_parameters()}
of_queries = dict(fresh.named_parameters())["h.1.attn.c_attn.weight"].grad[:, :32]
typical["h.1.attn.c_attn.weight (queries)"] = float(np.sqrt((of_queries**2).mean()))
print("parameter                           typical gradient")
QUERIES = "h.1.attn.c_attn.weight (queries)"
for name in ("h.0.attn.c_proj.bias", "tokens_embed.weight", "h.1.mlp.c_fc.weight", QUERIES):
    print(f"{name:34} {typical[name]:17.0e}")
assert typical["h.0.attn.c_proj.bias"] > 1e4 * typical[QUERIES], "very different sizes"

# %% [markdown]
# The first is more than 10,000 times as large as the last. One rate for both cannot be right, if
# their valleys are as different as their gradients (which we have not measured).

# %% [markdown]
# ## 2. Forward: Adam, line by line
#
# Adam has two ideas.
#
# - **Momentum.** Do not follow the last gradient, but a running average $m$ of the gradients. What
#   has the same sign in every update ($b$) adds up. What changes its sign ($a$, which jumps from
#   side to side) mostly cancels.
# - **Scale.** Keep a running average $v$ of the *squared* gradient as well, and divide by its root.
#   $\sqrt{v}$ says how large a gradient of this weight usually is. After the division, the steps of
#   all weights have about the same size.
#
# Each update keeps 0.9 of $m$ and takes 0.1 of the new gradient. So ten updates later a gradient
# counts only $0.9^{10} = 0.35$ times as much as a new one: $m$ reaches about 10 updates back. Of
# $v$, 0.999 is kept, and it reaches about 1,000 updates back.

# %%
B1, B2, EPS = 0.9, 0.999, 1e-8  # how much of m and of v is kept


def adam_direction(g, m, v, t):
    """g: the gradient; m, v: its averages so far; t = 1, 2, ... -> direction, new m, new v"""
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    m_hat = m / (1 - B1**t)  # corrected: section 3
    v_hat = v / (1 - B2**t)
    return m_hat / (np.sqrt(v_hat) + EPS), m, v


m_2 = v_2 = np.zeros(2)
for t in (1, 2, 3):
    g_2 = np.array([1000.0, -0.001])
    direction, m_2, v_2 = adam_direction(g_2, m_2, v_2, t)
    print(f"update {t}: gradient {g_2}, direction {direction.round(4)}")
assert np.allclose(direction, [1, -1], atol=1e-4), "the sign is left, and the size is 1"

# %% [markdown]
# Now all three rules in the valley of section 1, from the same point. Each rule gets the gradient
# and the two averages, and returns the new weights and averages. Where momentum is used alone,
# books usually take the *sum* $0.9\,m + g$, and so does `with_momentum`. In the long run this sum
# is ten times Adam's average $m$, so it needs smaller rates.

# %%
def plain(p, g, m, v, t, lr, decay=0):
    return p - lr * g, m, v


def with_momentum(p, g, m, v, t, lr, decay=0):
    m = B1 * m + g
    return p - lr * m, m, v


def adamw(p, g, m, v, t, lr, decay=0):
    direction, m, v = adam_direction(g, m, v, t)
    return p - lr * (direction + decay * p), m, v  # decay: section 4


def walk(rule, lr, steps=100):
    """Down the valley from (1, 1): every point on the way."""
    path, m, v = [np.array([1.0, 1.0])], np.zeros(2), np.zeros(2)
    for t in range(1, steps + 1):
        p, m, v = rule(path[-1], STEEP * path[-1], m, v, t, lr)
        path.append(p)
    return np.array(path)


for rule in (plain, with_momentum, adamw):
    print(f"{rule.__name__:14} first point at rate 0.019: {walk(rule, 0.019, steps=1)[1]}")

# %%
paths = {
    "gradient descent": walk(plain, 0.019),
    "with momentum": walk(with_momentum, 0.019),
    "Adam": walk(adamw, 0.05),
}
figure, axes = plot.plt.subplots(figsize=(8, 4.8))
draw_valley(axes, paths, 40)
axes.set(title="40 updates from (1, 1)", xlim=(-0.35, 1.2))
axes.legend(loc="upper left")
plot.save(figure, "09_paths.png")
assert np.allclose(paths["Adam"][:, 0], paths["Adam"][:, 1], rtol=0, atol=1e-6), "a diagonal"
assert abs(paths["with momentum"][-1, 1]) < 0.01 < paths["gradient descent"][-1, 1], "in the end"

# %% [markdown]
# Momentum first goes too far in both directions, past the minimum. (Adam has momentum too, and goes
# past it as well, to -0.13.) Momentum's gain comes later, in $b$: after 100 updates gradient
# descent still has 15 % of it (section 1), momentum less than 1 %.
#
# Adam's path is a straight diagonal: $a$ and $b$ take *the same* steps, to six digits, although
# one direction is a hundred times as steep. The division by $\sqrt{v}$ removes the scale of each
# weight's gradient. (This valley lies along the two weights. For a valley that lies across them
# Adam has no such help.)

# %% [markdown] tags=["deeper"]
# ### Every rate for each rule
#
# Is Adam the best of the three? The picture cannot say: its rates were chosen by us. So give
# each rule every rate from 0.0001 to 4, and look at the largest loss of updates 81 to 100:

# %%
RATES = 2.0 ** np.arange(-13, 2.1, 0.25)  # each 1.2 times the one before
print("rule            best rate   its loss   rates with a loss below 0.05")
good, best = {}, {}
for rule in (plain, with_momentum, adamw):
    with np.errstate(all="ignore"):  # far above its best rate a rule goes beyond all numbers
        losses = [(STEEP * walk(rule, lr)[81:] ** 2).sum(axis=1).max() / 2 for lr in RATES]
    good[rule] = RATES[np.array(losses) < 0.05]
    best[rule] = np.nanmin(losses)
    rate = RATES[losses.index(best[rule])]
    print(f"{rule.__name__:13} {rate:11.4f} {best[rule]:10.4f}   from {good[rule][0]:.4f} "
          f"to {good[rule][-1]:.4f}: {good[rule][-1] / good[rule][0]:.1f} times")
assert best[plain] > 2 * max(best[with_momentum], best[adamw]), "both are better than plain"
assert best[with_momentum] < 5 * best[adamw], "if each has its best rate"
assert good[with_momentum][-1] < 20 * good[with_momentum][0], "rates for momentum"
assert good[adamw][-1] > 100 * good[adamw][0], "and for Adam"

# %% [markdown]
# **In this valley Adam's main gain over momentum is that a good rate is easy to find.** At their
# best rates the two end at 0.008 and 0.003, and gradient descent at 0.024. But momentum works at
# rates that differ by a factor of 16, and Adam at rates that differ by more than 100.
#
# The division removes the scale of the whole loss. The first cell of this section shows it:
# the steps for gradients of 1,000 and of 0.001 are equally long. So multiply the loss by 1,000, and
# the weights are the same, as long as eps is small beside $\sqrt{v}$.

# %% [markdown]
# ## 3. Where other lessons have a backward: the two corrections
#
# An optimiser has no backward pass. In its place there is some pencil work. $m$ starts at 0. Write
# out what it becomes:
#
# $$
# m_1 = (1 - \beta_1)\, g_1 \qquad m_2 = (1 - \beta_1)(\beta_1 g_1 + g_2) \qquad
# m_t = (1 - \beta_1) \sum_{i=1}^{t} \beta_1^{t-i} g_i
# $$
#
# The weights of an average sum to 1. These sum to less, by the formula of the geometric series:
#
# $$
# (1 - \beta_1)(1 + \beta_1 + \dots + \beta_1^{t-1}) = 1 - \beta_1^t
# $$
#
# At the first update that is only 0.1. The other 0.9 is the weight of the zero from which $m$
# started.
#
# **Your turn:** m is given after t updates. Make it a true average of the gradients so far.

# %%
from minigpt.learn import gap

g_here, m_here = np.random.default_rng(3).normal(size=(4, 5)), np.zeros(5)  # four updates
for g in g_here:
    m_here = B1 * m_here + (1 - B1) * g


def your_m_hat(m, t):
    return ...  # B1 is 0.9


true = np.average(g_here, axis=0, weights=[0.729, 0.81, 0.9, 1])  # the newest counts most
gap.judge(your_m_hat, m_here, 4, expected=true)

# %% [markdown] tags=["answer"]
# `m / (1 - B1**t)`: the weights of the gradients sum to $1 - \beta_1^t$, so now they sum to 1. This
# is $\hat m$. The same holds for $v$ with $\beta_2$.

# %%
m_3 = v_3 = 0.0
print("update    m      m_hat    v       v_hat     for a gradient that is always 3")
for t in range(1, 5):
    _, m_3, v_3 = adam_direction(3.0, m_3, v_3, t)
    m_hat, v_hat = m_3 / (1 - B1**t), v_3 / (1 - B2**t)
    print(f"{t:4}   {m_3:6.3f} {m_hat:8.3f} {v_3:7.3f} {v_hat:8.3f}")
    assert math.isclose(m_hat, 3) and math.isclose(v_hat, 9), "a true average from the first update"

# %% [markdown]
# What happens without the corrections? $m$ is too small by the factor $1 - \beta_1^t$. But $v$ is
# too small as well, and its root is below the fraction line. The corrections multiply a step by
#
# $$
# \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t}
# $$
#
# **Guess:** does Adam start more slowly without them, or faster?

# %%
def factor(t):
    """What the two corrections do to a step."""
    return math.sqrt(1 - B2**t) / (1 - B1**t)


print("without corrections: m is     root of v is   so a step is longer by")
for t in (1, 10, 100, 1000):
    of_m, of_root = 1 - B1**t, math.sqrt(1 - B2**t)
    print(f"update {t:4} {of_m:12.3f} x {of_root:12.3f} x {of_m / of_root:16.2f} x")
assert [round(factor(t), 3) for t in (1, 10, 100, 1000)] == [0.316, 0.153, 0.309, 0.795], "by hand"

# %% [markdown] tags=["answer"]
# **The surprise.** **Without its corrections Adam starts faster, not slower**, by a factor of 3,
# then of 6.5, for about a thousand updates. $m$ alone is too small, and says the opposite. But the
# root of $v$, by which it is divided, is smaller still. The corrections shorten the steps.

# %% [markdown]
# ## 4. The rule in GPT-1's released code
#
# ### The rate rises, then falls
#
# The rate changes during training. This is called a **schedule**. It begins with a **warm-up**, in
# which the rate rises from 0. GPT-1 makes (probably) a million updates, and 2,000 of them are
# warm-up. After 1,000 updates the rate is half of its highest value. As shares of the million: $x =
# 0.001$ are *already made*, and $w = 0.002$ are warm-up. The rate is multiplied by $x / w = 0.5$.

# %%
def warmup_cosine(x, w):
    """Pre-training: x/w up to w, then half a cosine wave that began at x = 0, not at x = w."""
    return x / w if 0 < w and x <= w else 0.5 * (1 + math.cos(math.pi * x))


def warmup_linear(x, w):
    """Fine-tuning: the warm-up times a straight line down to 0."""
    return (x / w if x < w else 1) * (1 - x)


known = {0.001: (0.5, 0.4995), 0.002: (1, 0.998), 0.01: (0.99975328, 0.99), 0.5: (0.5, 0.5)}
print("x        cosine    linear     (warm-up w = 0.002)")
for x, (cosine, linear) in known.items():
    print(f"{x:<6} {warmup_cosine(x, 0.002):8.5f}  {warmup_linear(x, 0.002):8.5f}")
    assert abs(warmup_cosine(x, 0.002) - cosine) < 1e-8, "the cosine of the released code"
    assert abs(warmup_linear(x, 0.002) - linear) < 1e-9, "the straight line of the released code"

# %% [markdown]
# GPT-1's highest rate is 2.5e-4. *The share already made* has a consequence: the first update is
# made at x = 0, **with rate 0**. It moves no weight. But it changes $m$ and $v$.

# %% [markdown] tags=["deeper"]
# ### Weight decay is added beside the gradient, not to it
#
# **Weight decay** pulls every weight towards 0, p = p - lr decay p. A weight stays large only where
# the gradients of the data pull it back. For plain gradient descent this is the same as adding
# decay · p to the gradient. For Adam it is not. What is added to $g$ is divided by $\sqrt{v}$, as
# $g$ is: a weight with large gradients has a large $\sqrt{v}$, and decays less. We take weights
# that start at 1, and gradients that are pure noise of three sizes. All these weights should decay
# alike: the mean of the noise is 0, so it says nothing about where a weight should be.

# %%
def after_noise(size, inside, steps=2000, lr=1e-3, decay=0.1):
    """The mean of 300 weights that start at 1. inside: decay is added to the gradient."""
    draw = np.random.default_rng(0)
    p, m, v = np.ones(300), np.zeros(300), np.zeros(300)
    for t in range(1, steps + 1):
        g = size * draw.normal(size=300) + (decay * p if inside else 0)
        p, m, v = adamw(p, g, m, v, t, lr, 0 if inside else decay)
    return p.mean()


print("size of the noise                   ", *(f"{size:7}" for size in (0.01, 1, 100)))
for where, inside in (("decay inside the gradient:", True), ("decay beside it:", False)):
    left = [after_noise(size, inside) for size in (0.01, 1, 100)]
    print(f"{where:26} 1 becomes", *(f"{x:7.2f}" for x in left))
    expected = [0.02, 0.82, 1.00] if inside else [0.82] * 3
    assert np.allclose(left, expected, rtol=0, atol=0.02), "beside: all decay alike"

# %% [markdown]
# (1 - 0.001 · 0.1)^2000 = 0.82 is what was intended. Inside the gradient, a weight with small
# gradients is pulled to 0, and one with large gradients does not decay. Beside it, all weights
# decay alike. This is AdamW, the function `adamw` above.

# %% [markdown] tags=["deeper"]
# ### GPT-1's own rule
#
# The paper says "Adam" and "a modified version of L2 regularization". Here is the rule of OpenAI's
# released code, below AdamW for comparison, with the decay $\lambda$:
#
# $$
# \text{AdamW:} \quad p \leftarrow p - lr \left( \frac{\hat m}{\sqrt{\hat v} + \epsilon}
#   + \lambda p \right)
# $$
#
# $$
# \text{GPT-1:} \quad p \leftarrow p - lr_t \left( \frac{m}{\sqrt{v} + \epsilon}
#   + \lambda p \right), \qquad lr_t = lr\, \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t}
# $$
#
# Both corrections have moved out of the fraction into the rate. This is a shortcut from Kingma
# and Ba's paper (end of section 2). It makes two differences:
#
# - **$\epsilon$ counts more**, because it is added to the uncorrected root. At the first update
#   this root is $\sqrt{1 - 0.999} = 1/32$ of the corrected one, so $\epsilon$ counts 32 times as
#   much.
# - **The decay starts slowly**, because it is multiplied by $lr_t$, which has the corrections in
#   it. At update 10 GPT-1's weights decay 6.5 times more slowly than AdamW's (section 3).
#
# Only matrices and tables decay. Biases and gains do not.

# %%
def gpt1_adam(p, g, m, v, t, lr, decay):
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    lr_t = lr * factor(t)
    return p - lr_t * (m / (np.sqrt(v) + EPS) + decay * p), m, v


for rule in (adamw, gpt1_adam):
    p, _, _ = rule(1.0, 0.0, 0.0, 0.0, 10, lr=0.01, decay=0.1)  # no gradient: decay alone
    print(f"{rule.__name__:9}: update 10 takes {1 - p:.6f} from a weight of 1")
assert math.isclose(1 - p, 0.153 * 0.001, rel_tol=0.01), "GPT-1's decay starts slowly"

# %% [markdown] tags=["deeper"]
# ### Clipping
#
# Now and then a batch has a gradient ten times as long as usual. **Clipping by global norm**: take
# all gradients of the model as one long vector. If it is longer than 1, make it 1 long. One factor
# for all parameters keeps the direction. It is done before $m$ and $v$ are changed: a single long
# gradient would otherwise fill both averages for many updates.

# %%
def clip(gradients, max_norm=1.0):
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    return [g * max_norm / max(norm, max_norm) for g in gradients]


clipped = clip([np.array([3.0]), np.array([4.0])])
print(f"gradients 3 and 4, together 5 long, become {clipped[0][0]:.1f} and {clipped[1][0]:.1f}")
assert np.allclose(clipped, [[0.6], [0.8]]), "one factor for both"

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap
#
# Numbers to compare any implementation with, worked out in float64: one weight p = 1 whose gradient
# is always 0.5, rate 0.01, ten updates planned, warm-up 0.2, linear schedule, three updates.

# %%
def three_updates(rule, decay):
    p, m, v, values = 1.0, 0.0, 0.0, []
    for t in range(1, 4):
        p, m, v = rule(p, 0.5, m, v, t, 0.01 * warmup_linear((t - 1) / 10, 0.2), decay)
        values.append(p)
    return values


EXPECTED = {
    ("GPT-1's rule", gpt1_adam, 0.01): [1, 0.9954894128, 0.9874733277],
    ("GPT-1's rule", gpt1_adam, 0): [1, 0.9955000020, 0.9875000049],
    ("AdamW", adamw, 0.01): [1, 0.9954550001, 0.9873753638],
}
print("rule           decay   after update 1    2             3")
for (name, rule, decay), expected in EXPECTED.items():
    got = three_updates(rule, decay)
    print(f"{name:13} {decay:6}   " + "  ".join(f"{p:.10f}" for p in got))
    assert np.allclose(got, expected, rtol=0, atol=6e-11), "ten digits"

# %% [markdown]
# **The trap: "after an update, the weights must have changed".** It is the natural first test of an
# optimiser, and a right optimiser fails it: look at the first column. If you "repair" that by
# computing the schedule at t/T, you have another optimiser.
#
# ### Three optimisers on the small GPT-1
#
# Two blocks, 150 updates, cosine down to 0. Each rule gets three rates, each four times the one
# before, and is judged by the best of them. (`nan`: the loss has grown out of all bounds.)

# %%
def train(rule, lr, schedule, n_layer=2, steps=150, std=0.02):
    """Returns the model, and for each update the loss and the length of the step (1: the rate)."""
    model = small_gpt1(n_layer, std)
    zero = {name: np.zeros_like(p.data) for name, p in model.named_parameters()}
    moments = {name: (z, z) for name, z in zero.items()}
    curve = []
    for t in range(1, steps + 1):
        loss = gradients_of(model, t)
        rate = lr * schedule((t - 1) / steps)
        moved = count = 0
        for name, p in model.named_parameters():
            before, decay = p.data, 0.01 if p.data.ndim > 1 else 0
            p.data, *moments[name] = rule(before, p.grad, *moments[name], t, rate, decay)
            moved += float(((p.data - before) ** 2).sum())
            count += before.size
        curve.append((loss, math.sqrt(moved / count) / max(rate, 1e-12)))
    return model, *np.array(curve).T


def cosine_only(x):
    return warmup_cosine(x, 0)


print(f"two updates: loss {train(plain, 0.3, cosine_only, steps=2)[1].round(3)}")

# %%
print("rule              loss at the end, by rate              step length at 1, 10, 100")
ends = {}
RULES = {"gradient descent": (plain, 0.6), "with momentum": (with_momentum, 0.25)}
for name, (rule, middle) in (RULES | {"AdamW": (adamw, 0.01)}).items():
    with np.errstate(all="ignore"):  # a rate that is too high ends in nan
        runs = {rate: train(rule, rate, cosine_only) for rate in (middle / 4, middle, 4 * middle)}
    at_rate = {rate: losses[-15:].mean() for rate, (_, losses, _) in runs.items()}
    ends[name] = np.nanmin(list(at_rate.values()))
    lengths = runs[middle][2]
    shown = "   ".join(f"{rate:g}: {end:.2f}" for rate, end in at_rate.items())
    print(f"{name:17} {shown:37} {', '.join(f'{lengths[i]:.2g}' for i in (0, 9, 99))}")
    assert ends[name] == at_rate[middle], "a quarter and four times the rate are worse"
assert ends["with momentum"] < ends["gradient descent"] - 0.05, "momentum helps"
assert ends["AdamW"] < ends["with momentum"] - 0.1, "and the division by the root of v helps more"
assert lengths[0] > 0.9 and lengths[99] < 0.5, "Adam's steps become shorter"

# %% [markdown]
# At the best of three rates, on this text and with this seed, momentum helps, and Adam, which
# divides by $\sqrt{v}$ as well, reaches the smallest loss. (One seed is no proof.) The last column
# belongs to the middle rate. In its first update AdamW moves nearly every weight by the full rate,
# up or down, because $\hat m / \sqrt{\hat v} = g / |g|$ where g is far above eps. Later it moves a
# weight by less than the rate. Why? A guess: the gradients of different batches disagree, and
# partly cancel in $m$. They *can* shorten the steps in this way. Compare gradients that are always
# 1 with gradients that are pure noise:

# %%
def step_lengths(mean, noise):
    """The length of Adam's direction for 500 weights, after updates 1, 10 and 300."""
    draw, m, v, found = np.random.default_rng(0), np.zeros(500), np.zeros(500), []
    for t in range(1, 301):
        d, m, v = adam_direction(mean + noise * draw.normal(size=500), m, v, t)
        found.append(float(np.sqrt((d * d).mean())))
    return [found[i] for i in (0, 9, 299)]


print("length of the direction after updates 1, 10 and 300")
for name, mean, noise in (("always 1", 1, 0), ("noise", 0, 1)):
    print(f"{name:9}", *(f"{length:6.2f}" for length in step_lengths(mean, noise)))
assert np.allclose(step_lengths(1, 0), 1, atol=1e-6), "steps of the full length"
# the squared weights of m add up to 0.1² (1 + 0.81 + 0.81² + ...) = 0.1² / 0.19 = 0.1 / 1.9
assert abs(step_lengths(0, 1)[-1] - math.sqrt(0.1 / 1.9)) < 0.02, "0.23: noise cancels in m"

# %% [markdown] tags=["deeper"]
# ## 6. See it: what makes warm-up necessary?
#
# We take a GPT-1 of *twelve* blocks and the high rate 0.008. (Its weights are drawn from N(0,
# 0.1^2): 0.1 sqrt(32) = 0.57, and 0.02 sqrt(768) = 0.55. So they stretch vectors as much as
# GPT-1's.) If a loss ends near that of letter frequencies, the model has not learnt to look at
# its input. `sameness` is lesson 07's: the mean cosine between two positions at the top.

# %%
def half_warmup(x):
    return warmup_cosine(x, 0.5)  # the cosine began at x = 0, so the rate falls from 1 to 0.5 here


def full_first(n):
    """The first n of 150 updates at the full rate; all later ones as in half_warmup."""
    def schedule(x):
        return 1.0 if round(150 * x) < n else half_warmup(x)  # so many are already made
    return schedule


def sameness(model):
    h = model.hidden(batch(0)[0], grad=False)[0][0]
    unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(T, 1)].mean())


schedules_of = {"no warm-up": cosine_only, "warm-up": half_warmup}
schedules_of |= {"1 full update, then warm-up": full_first(1)}
schedules_of |= {"10 full updates, then warm-up": full_first(10)}
deep = {}
print("twelve blocks                      loss at the end   sameness at the end")
for name, schedule in schedules_of.items():
    deep[name] = train(adamw, 8e-3, schedule, n_layer=12, std=0.1)
    print(f"{name:30} {deep[name][1][-15:].mean():18.2f} {sameness(deep[name][0]):21.2f}")

# %%
one_update = train(adamw, 8e-3, cosine_only, n_layer=12, steps=1, std=0.1)[0]
before_it, after_it = sameness(small_gpt1(12, 0.1)), sameness(one_update)
print(f"sameness of the new model: {before_it:.2f}; after one full update: {after_it:.2f}")
norm_0 = {}
for name in schedules_of:
    gradients_of(deep[name][0], 0)
    of_block_0 = [p.grad for n, p in deep[name][0].named_parameters() if n.startswith("h.0.")]
    norm_0[name] = math.sqrt(sum(float((g * g).sum()) for g in of_block_0))
    print(f"{name:30}: norm of the gradient of block 0 at the end {norm_0[name]:.0e}")
stuck_runs = ("no warm-up", "10 full updates, then warm-up")
assert max(norm_0[name] for name in stuck_runs) < norm_0["warm-up"] / 1000, "hardly any gradient"
dead = [deep[name] for name in stuck_runs]
alive = [run for name, run in deep.items() if name not in stuck_runs]
assert all(run[1][-15:].mean() > only_letters - 0.1 for run in dead), "only letter frequencies"
assert all(sameness(run[0]) > 0.95 for run in dead), "all positions are alike"
assert all(run[1][-15:].mean() < 2.3 and sameness(run[0]) < 0.6 for run in alive), "they learn"
assert before_it < 0.3 and after_it > 0.8, "one update makes positions alike"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(9, 4.6))
colors = ("tab:red", "tab:green", "tab:olive", "black")
for (name, run), color in zip(deep.items(), colors, strict=True):
    style = "--" if name.startswith("10") else "-"
    smooth = np.convolve(run[1], np.ones(10) / 10, "valid")
    axes.plot(smooth, style, color=color, linewidth=2.5, label=name)
axes.axhline(only_letters, color="gray", linestyle=":", label="letter frequencies")
axes.set(title="Twelve blocks, highest rate 0.008", xlabel="update", ylim=(0.9, 3.6))
axes.set_ylabel("loss (nats per letter)")
axes.legend(loc="lower left")
plot.save(figure, "09_warmup.png")

# %% [markdown]
# Without warm-up, all positions at the top become the same, as in lesson 07, and the loss stays
# at that of letter frequencies. One update at the full rate is enough to make the positions
# alike. So this one update seems to decide. **This conclusion is wrong**: after that update, the
# model recovers if the next updates are small. After ten full updates it does not recover, although
# all later rates are those of the run that learns. At the end of both stuck runs, the gradient of
# the first block is more than 1,000 times smaller than with warm-up.
#
# One run is an anecdote. `benchmarks/warmup.py` has made each of these runs, and others that differ
# from the first one in one thing only, with eight seeds. Its results are recorded:

# %%
from minigpt.learn import reference

record = reference.recorded("warmup.json")["rows"]
stuck = {}
for name, row in record.items():
    if "ends" in row:
        stuck[name] = sum(end > 2.7 for end in row["ends"])
        print(f"{name:56} {stuck[name]} of 8 stuck, mean loss {row['end']:.2f}")
after_first = record["6 post-norm blocks, no warm-up"]["after one"]
print(f"six blocks: sameness after the first update, on average, {after_first:.2f}")
assert after_first > 0.9, "six blocks too: the positions are alike after one update"
same_run = record["12 post-norm blocks, no warm-up"]["ends"][0]
assert abs(record["letter frequencies"]["end"] - only_letters) < 1e-3, "the same text"
assert abs(same_run - deep["no warm-up"][1][-15:].mean()) < 0.1, "the same run"
POST, PRE = "12 post-norm blocks, ", "12 pre-norm blocks, "
assert stuck[POST + "no warm-up"] == 8 and stuck[POST + "warm-up 0.5"] == 0, "the first two runs"
assert stuck[POST + "1 full update, then warm-up 0.5"] == 1, "how many updates: one"
assert stuck[POST + "10 full updates, then warm-up 0.5"] == 8, "ten"
assert stuck[POST + "warm-up 0.1"] == 5, "a short warm-up"
assert stuck[POST + "1 update at rate 0, no warm-up"] == 8, "GPT-1's first update"
assert stuck[POST + "no warm-up, rate / 4"] == 0, "the rate"
assert stuck["6 post-norm blocks, no warm-up"] == 0, "depth"
assert stuck[PRE + "no warm-up"] == 1 and stuck[PRE + "warm-up 0.5"] == 0, "the place of LayerNorm"
assert stuck[POST + "frequencies given, no warm-up"] == 8, "the explanation is tested"
assert stuck[POST + "frequencies given, warm-up 0.5"] == 0, "the test can be passed"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(9, 5.9))
for i, name in enumerate(reversed(stuck)):
    for end in record[name]["ends"]:
        axes.plot(end, i, "o", color="tab:red" if end > 2.7 else "tab:green", alpha=0.6)
axes.set_yticks(range(len(stuck)), [name.replace(" blocks", "") for name in reversed(stuck)])
axes.axvline(only_letters, color="gray", linestyle=":")
axes.set(title="Eight seeds each; red: stuck", xlabel="loss at the end")
plot.save(figure, "09_controls.png")

# %% [markdown]
# What these runs show, for this text, this width and this rate. Eight seeds are few. If more than
# 37 of 100 models were stuck, we would hardly ever see eight that are not: so "none of eight" means
# "at most 37 %". In the same way "one of eight" means "at most 53 %". (These are the upper ends of
# exact two-sided 95 % intervals.)
#
# - **How many updates.** One update at the full rate leaves one of eight models stuck, ten leave
#   all of them. A warm-up over the first tenth is too short for five of eight.
# - **GPT-1's first update at rate 0 does not help.** It skips Adam's first step, the longest one.
#   But with it and no other warm-up, all eight are stuck. So that step alone is not the cause.
# - **The rate.** At a quarter of the rate none is stuck without warm-up. The loss, 1.76, is nearly
#   that of the high rate with warm-up, 1.72. So warm-up permits a high rate; in these runs a high
#   rate by itself gains little.
# - **Depth.** With six blocks instead of twelve, none is stuck, although their positions too are
#   alike after the first update.
# - **The place of LayerNorm.** In GPT-2's blocks LayerNorm stands before each sub-layer
#   ("pre-norm", lesson 16), and not after each addition ("post-norm"). With the same weights at the
#   start, one of eight is stuck instead of eight. Warm-up improves pre-norm too, from 2.05
#   to 1.58.
#
# So, at the values tried here, a high rate, many blocks and post-norm are needed *together*:
# change one of the three, and at most one of eight models is stuck. GPT-1 has twelve post-norm
# blocks.
#
# **Why** do several large updates make the positions alike for good? Here is a natural explanation.
# What a new model learns first is that some letters are frequent. This is the same for every
# position, so every block learns to add the same vector everywhere, and in twelve blocks these
# vectors add up to more than what makes the positions different.
#
# An explanation can be tested by taking its cause away. In the last two rows of the table, the
# logarithm of each letter's frequency is added to the scores from the beginning, so that nothing of
# this kind is left to learn. Without warm-up again all eight models are stuck. Does the addition
# itself do harm? No: in the last row, with warm-up, none of eight is stuck. **So this explanation
# is not enough**: without its cause the same happens. (A common vector may still be learnt for
# other reasons.) What the cause is, these runs do not show. They show what prevents it; lesson 16
# goes on from here, with Liu et al. 2020, Huang et al. 2020 and Xiong et al. 2020, who looked for
# it in other ways.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# An optimiser of the library owns $m$ and $v$ of every parameter and counts the updates, `t`. The
# two rules differ in what they make of the rate, of $\epsilon$ and of the decay. AdamW:
#
#     # minigpt/nn/optim.py
#     root = math.sqrt(1 - beta2**t)
#     rate = lr * root / (1 - beta1**t)
#     eps = self.eps * root
#     decay = lr * self.weight_decay
#     return rate, eps, decay
#
# and GPT-1's rule:
#
#     # minigpt/nn/optim.py
#     root = math.sqrt(1 - beta2**t)
#     lr_t = lr * root / (1 - beta1**t)
#     decay = lr_t * self.weight_decay
#     return lr_t, self.eps, decay
#
# The corrections are in these three numbers, and $m$ and $v$ are kept without them. For
# $\hat m / (\sqrt{\hat v} + \epsilon)$ is the same as
# $m / (\sqrt v + \epsilon \sqrt{1 - \beta_2^t})$ times the factor of section 3. The update of the
# arrays is one operation for both rules, and it works in place:
#
#     # minigpt/ops/reference/adam.py
#     m += (g - m) * (1 - beta1)
#     v += (g * g - v) * (1 - beta2)
#     if decay:
#         p *= 1 - decay
#     p -= m / (xp.sqrt(v) + eps) * rate
#
# Ours against the library's, with clipping and a schedule:

# %%
from minigpt.nn import Parameter, optim, schedules


def apart_after_five(library_class, rule):
    """The largest difference of the weights after five updates of the library and of our rule."""
    draw = np.random.default_rng(0)
    start = {"matrix": draw.normal(size=(4, 3)), "bias": draw.normal(size=3)}
    parameters = {name: Parameter(array.copy()) for name, array in start.items()}
    optimizer = library_class(parameters.items(), weight_decay=0.01)
    mine = {name: (array, 0.0, 0.0) for name, array in start.items()}
    for t in range(1, 6):
        raw = {name: 10 * draw.normal(size=array.shape) for name, array in start.items()}
        for name, g in zip(raw, clip(raw.values()), strict=True):
            lr, (p, m, v) = 0.1 * warmup_linear((t - 1) / 5, 0.2), mine[name]
            mine[name] = rule(p, g, m, v, t, lr, 0.01 if p.ndim > 1 else 0)
            parameters[name].grad = raw[name]
        optimizer.step(0.1 * schedules.warmup_linear((t - 1) / 5, 0.2), max_norm=1.0)
    return max(np.abs(mine[name][0] - parameters[name].data).max() for name in start)


worst = max(apart_after_five(optim.AdamW, adamw), apart_after_five(optim.GPT1Adam, gpt1_adam))
print(f"five updates: ours and the library's differ by at most {worst:.0e}")
assert worst < 1e-14, "the same rules, clipping and schedule"

# %%
state = 2 * 4 * 116_534_784
print(f"m and v of GPT-1 in float32: {state / 1e6:.0f} MB, twice its weights")
for x in np.linspace(0, 1, 12):
    assert schedules.warmup_cosine(x, 0.3) == warmup_cosine(x, 0.3), "the same schedule"

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - The paper (section 4.1) gives Adam, 2.5e-4, the linear warm-up over 2,000 updates, the cosine to
#   0, and decay 0.01 "on all non bias or gain weights". It does not give $\beta_1$, $\beta_2$,
#   $\epsilon$ or any clipping. 0.9, 0.999, 1e-8 and a norm of 1 are the defaults of OpenAI's
#   released fine-tuning code; the paper says that fine-tuning reuses the settings of pre-training
#   unless it says otherwise.
# - It does not give the number of updates. A million is inferred: BERT's paper says so of GPT-1,
#   and 2,000 updates are the 0.2 % that the released code uses for warm-up.
# - In the released code the cosine starts at x = 0, not at the end of the warm-up. So the rate
#   falls from 1 to 0.99999 just after the warm-up.
# - Hugging Face's first port clips each tensor by itself, computes the schedule one update
#   later, and decays without the correction. It is another optimiser.
# - Some frameworks clip with max_norm / (norm + 1e-6). BERT's Adam has no corrections; it has a
#   warm-up.

# %% [markdown]
# ## 9. To keep
#
# - Adam follows a running average of the gradients, and divides it by the root of a running average
#   of their squares: all weights take steps of about the same size.
# - Its two corrections turn both into true averages; they do not lengthen the first steps, they
#   shorten them, for about a thousand updates.
# - GPT-1's rate rises for 2,000 updates, and then falls along a cosine; its first update is made
#   with the rate 0.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/09_nesterov.py`: Nesterov's momentum, which looks ahead, and the correction of an
#    average whose $\beta$ changes. The file judges itself: run it.
# 2. `exercises/09_find_the_bug.py`: an AdamW that is right for a single tensor, to the last digit,
#    and wrong for a model.
# 3. On paper: the gradient of a weight is $g$ in the first update and 0 in all later ones. How
#    far does Adam move the weight in update 1, in update 2, and in all together, in units of the
#    rate? (Take $\epsilon = 0$.)
# 4. Leave the corrections out of `adam_direction`, and run the twelve blocks again: with warm-up,
#    and without warm-up at a quarter of the rate. Where are the corrections needed? Guess first.

# %%
print("lesson 09: every check is happy")
