# %% [markdown]
# # Lesson 09: Adam, weight decay, warm-up
#
# You will see why plain gradient descent crawls, build Adam line by line, and derive its two corrections. You will
# watch a twelve-block GPT-1 die in its very first step, and live when its learning rate starts from zero. And you
# will write down the exact rule by which OpenAI's weights were moved; it is not quite the one in the books.
#
# Reading: 30 minutes. Running: 20 seconds. Before it: lesson 08.
#
# Papers: Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1 and section 3. Loshchilov and Hutter 2019 (arXiv
# 1711.05101), algorithm 2: decay apart from the gradient. Pascanu, Mikolov and Bengio 2013 (arXiv 1211.5063),
# algorithm 1: clipping. Radford et al. 2018 (GPT-1), section 4.1.

# %% [markdown]
# ## 1. Why: one rate for everything
#
# Gradient descent has one rule: p = p - lr g. Take the simplest loss with two weights of different temper,
#
#     L(a, b) = (100 a^2 + b^2) / 2,     da = 100 a,     db = b.
#
# Then every step multiplies a by (1 - 100 lr) and b by (1 - lr). If lr is above 0.02, a grows for ever. So the steep
# direction forbids the rate which the flat one needs:

# %%
import math

import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way

STEEP = np.array([100.0, 1.0])


def descend(lr, steps):
    p = np.array([1.0, 1.0])
    for _ in range(steps):
        p = p - lr * STEEP * p
    return p


for lr in (0.021, 0.019):
    a, b = descend(lr, 100)
    print(f"after 100 steps with rate {lr}: a = {a:10.5f}, b = {b:.5f}")
assert abs(descend(0.021, 100)[0]) > 1e4 and abs(descend(0.019, 100)[0]) < 1e-4 and descend(0.019, 100)[1] > 0.1

# %% [markdown]
# After a hundred steps b has gone 85 % of its way, at the highest rate that a permits; if it were 10,000 times as
# flat, it would not have moved. Is GPT-1 such a valley? Here are the gradients of a small one (lesson 08's, as the
# library has it), tensor by tensor: the size of a typical entry.

# %%
from minigpt import GPT1, GPT1Config

TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the red kite in the tree. "
    "I can not reach it, says Mina. Tom has a long stick. Tom takes the stick to the tree and the kite comes down. "
    "Thank you, Tom, says Mina. Now Tom and Mina run to the hill, and the red kite is high in the wind. "
    "The next day the wind is gone. Mina and Tom sit under the old tree and look at the sky. We can wait, says Tom. "
    "They wait and wait. A small bird comes and sits on the kite. Then the wind is back, and the bird and the kite are "
    "high over the hill. Look, says Mina, the bird can fly and the kite can fly. One day we will fly too, says Tom. "
)
letters = sorted(set(TEXT))
text_ids = np.array([letters.index(letter) for letter in TEXT])
T, B = 16, 8


def small_gpt1(n_layer, std=0.02, seed=0):
    sizes = {"vocab_size": len(letters), "n_positions": T, "n_embd": 32, "n_layer": n_layer, "n_head": 4}
    return GPT1(GPT1Config(**sizes, initializer_range=std), seed=seed)


def batch(step):
    starts = np.random.default_rng([7, step]).integers(0, len(text_ids) - T, size=(B, 1))
    window = text_ids[starts + np.arange(T + 1)]
    return window[:, :-1], window[:, 1:]


def gradients_of(model, step):
    model.zero_grad()
    loss, cache = model.loss(*batch(step))
    model.loss_backward(cache)
    return float(loss)


model = small_gpt1(n_layer=2)
gradients_of(model, 0)
sizes = {name: float(np.sqrt((p.grad**2).mean())) for name, p in model.named_parameters()}
query_part = dict(model.named_parameters())["h.1.attn.c_attn.weight"].grad[:, :32]
sizes["h.1.attn.c_attn.weight, for queries"] = float(np.sqrt((query_part**2).mean()))
for name in ("h.0.attn.c_proj.bias", "tokens_embed.weight", "h.1.ln_2.weight", "h.1.mlp.c_fc.weight", list(sizes)[-1]):
    print(f"  {name:36} {sizes[name]:.0e}")
assert sizes["h.0.attn.c_proj.bias"] > 1e4 * sizes["h.1.attn.c_attn.weight, for queries"]

# %% [markdown]
# Five powers of ten between the first and the last. A rate that suits the queries lets a bias jump across the valley.

# %% [markdown]
# ## 2. Forward: Adam, line by line
#
# Two ideas. **Momentum**: do not follow the last gradient, follow a running average m of them. What keeps its sign
# from step to step (b) adds up; what changes it (a, bouncing from wall to wall) mostly cancels. **Scale**: keep a
# running average v of the *squared* gradient as well, and divide by its root. Then the steps of all weights are of the
# same size, whatever size their gradients have. v says how large a gradient of this weight usually is.

# %%
B1, B2, EPS = 0.9, 0.999, 1e-8  # how much of each average stays; about 10 and 1000 steps of memory


def adam_direction(g, m, v, t):
    """g: the gradient; m, v: its averages so far; t = 1, 2, ... -> where to go, and the new m and v"""
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    m_hat = m / (1 - B1**t)  # corrected: section 3
    v_hat = v / (1 - B2**t)
    return m_hat / (np.sqrt(v_hat) + EPS), m, v


def walk(rule, steps=100):
    """Down the valley of section 1: every point on the way."""
    p, m, v = np.array([1.0, 1.0]), np.zeros(2), np.zeros(2)
    way = [p]
    for t in range(1, steps + 1):
        p, m, v = rule(p, STEEP * p, m, v, t)
        way.append(p)
    return np.array(way)


def plain_rule(p, g, m, v, t):
    return p - 0.019 * g, m, v


def momentum_rule(p, g, m, v, t):
    m = B1 * m + g  # a sum, ten times the average: the usual form
    return p - 0.019 * m, m, v


def adam_rule(p, g, m, v, t):
    direction, m, v = adam_direction(g, m, v, t)
    return p - 0.05 * direction, m, v


ways = {"gradient descent": walk(plain_rule), "with momentum": walk(momentum_rule), "Adam": walk(adam_rule)}
for name, way in ways.items():
    losses = (STEEP * way**2).sum(axis=1) / 2
    print(f"  {name:16} loss after 0, 20, 100 steps: {losses[0]:.1f}  {losses[20]:.4f}  {losses[100]:.6f}")
print(f"Adam's way is a diagonal: after 10 steps a = {ways['Adam'][10][0]:.3f} and b = {ways['Adam'][10][1]:.3f}")
assert np.allclose(ways["Adam"][:, 0], ways["Adam"][:, 1], rtol=0, atol=1e-6)

# %% [markdown]
# Momentum first looks worse: what it has gathered carries it past the bottom of the valley, along a and along b. Its
# profit is b, of which plain descent still has 15 % after 100 steps, and with it the loss in the end.
#
# Adam does not see that the valley is a hundred times steeper one way than the other: a and b take *the same* steps,
# to seven digits. Dividing by the root of v cancels the scale, whatever it is, weight by weight. So we may multiply
# the loss by 1000, and nothing changes:

# %%
g = np.random.default_rng(0).normal(size=(50, 6))


def final_weights(scale):
    p = m = v = np.zeros(6)
    for t in range(1, 51):
        direction, m, v = adam_direction(scale * g[t - 1], m, v, t)
        p = p - 0.01 * direction
    return p


print(f"loss times 1000: weights differ by {np.abs(final_weights(1.0) - final_weights(1000.0)).max():.0e}")
assert np.allclose(final_weights(1.0), final_weights(1000.0), rtol=0, atol=1e-8)

# %% [markdown]
# ## 3. Where other lessons have a backward: the two corrections
#
# An optimiser has no backward. In its place stands a bit of pencil work that most people skip. m starts at 0, and
# write out what it becomes:
#
#     m_1 = (1 - B1) g_1
#     m_2 = (1 - B1) (B1 g_1 + g_2)
#     m_t = (1 - B1) sum_i B1^(t-i) g_i
#
# An average has weights that sum to 1. These sum to (1 - B1)(1 + B1 + ... + B1^(t-1)) = 1 - B1^t: only 0.1 at the
# first step. The rest is the zero that m started from. Divide by 1 - B1^t, and m_hat is an honest average of the
# gradients so far, from the first step on. The same for v, with B2.

# %%
m = v = 0.0
for t in range(1, 8):
    _, m, v = adam_direction(3.0, m, v, t)  # a gradient that is always 3
    assert math.isclose(m / (1 - B1**t), 3) and math.isclose(v / (1 - B2**t), 9)

# %% [markdown]
# **The surprise.** What if one leaves the corrections out? m is too small by 1 - B1^t, so surely Adam starts too
# *slowly*? But v is too small as well, by 1 - B2^t, its root stands below the fraction line, and B2 is nearer to 1.
# The step is multiplied by (1 - B1^t) / sqrt(1 - B2^t):

# %%
def factor(t):
    """lr_t / lr of section 4: what the corrections do to a step"""
    return math.sqrt(1 - B2**t) / (1 - B1**t)


for t in (1, 10, 100, 1000):
    print(f"  step {t:4}: corrected, times {factor(t):.3f}; without that a step is {1 / factor(t):.2f} times as long")
assert [round(factor(t), 3) for t in (1, 10, 100, 1000)] == [0.316, 0.153, 0.309, 0.795]

# %% [markdown]
# **Without its corrections Adam starts too fast**, by a factor of 3, then of 6.5; and it is too fast for a thousand
# steps. The corrections are a brake.

# %% [markdown]
# ## 4. Collapse: three rules
#
# ### Decay belongs beside the gradient, not into it
#
# Weight decay pulls every weight towards 0, p = p - lr lambda p, so that only what the data keep asking for stays
# large. With plain gradient descent it is the same as adding lambda/2 |p|^2 to the loss, whose gradient is lambda p,
# and so the two are often mixed up. With Adam they are different: what is added to g is divided by sqrt(v) with it.
# We take weights that start at 1 and gradients that are pure noise, of three sizes. Nothing is asked of these
# weights, they should all decay alike.

# %%
def after_noise(size, inside, steps=2000, lr=1e-3, decay=0.1):
    """The mean of 300 weights that start at 1; `inside`: decay is added to the gradient, instead of beside it."""
    draw = np.random.default_rng(0)
    p, m, v = np.ones(300), np.zeros(300), np.zeros(300)
    for t in range(1, steps + 1):
        g = size * draw.normal(size=300) + (decay * p if inside else 0)
        direction, m, v = adam_direction(g, m, v, t)
        p = p - lr * (direction + (0 if inside else decay * p))
    return p.mean()


print("size of the noise           ", "".join(f"{size:8}" for size in (0.01, 1, 100)))
for name, inside in (("decay inside the gradient", True), ("decay beside it", False)):
    left = [after_noise(size, inside) for size in (0.01, 1, 100)]
    print(f"  a weight of 1 becomes, {name:26}", "".join(f"{x:8.2f}" for x in left))
    assert np.allclose(left, [0.02, 0.82, 1.00] if inside else 0.82, rtol=0, atol=0.02)

# %% [markdown]
# (1 - 1e-3 * 0.1)^2000 = 0.82 is what was asked for. Inside, the weight with quiet gradients was swept away, and the
# one with loud gradients was not touched. Beside it, all are treated alike; that is AdamW, and GPT-1's rule does so
# too.
#
# ### The rule that moved GPT-1
#
# The paper says "Adam" and "a modified version of L2 regularization". OpenAI's released code says exactly this, and
# we put it next to AdamW:
#
#     AdamW      p -= lr (   m_hat / (sqrt(v_hat) + eps) + decay p)
#     GPT-1      p -= lr_t ( m     / (sqrt(v)     + eps) + decay p),     lr_t = lr sqrt(1 - B2^t) / (1 - B1^t)
#
# It is Kingma and Ba's own shortcut (end of section 2): both corrections are pulled out of the fraction, into the
# rate. Multiply it out and two differences remain. eps stands beside the uncorrected root; seen from AdamW it is eps
# / sqrt(1 - B2^t), 32 times as large at the first step. And the decay is inside the bracket, so it is multiplied by
# the corrections as well: at step 10 GPT-1's weights decay only 0.153 times as fast as asked.

# %%
def adamw(p, g, m, v, t, lr, decay):
    direction, m, v = adam_direction(g, m, v, t)
    return p - lr * (direction + decay * p), m, v


def gpt1_adam(p, g, m, v, t, lr, decay):
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    lr_t = lr * math.sqrt(1 - B2**t) / (1 - B1**t)
    return p - lr_t * (m / (np.sqrt(v) + EPS) + decay * p), m, v


# %% [markdown]
# Decay is for matrices: tensors with two axes or more (the tables count). Biases and gains are left alone: they are
# few, and a gain should not be pulled to 0, where it would close the door.
#
# ### The rate: up, then down
#
# The rate is not constant. With x the share of the updates *already made*, and w the share of the warm-up:

# %%
def warmup_cosine(x, w):
    """pre-training: x/w up to w, then half a cosine wave, which began at x = 0 and not at the end of the warm-up"""
    return x / w if x < w else 0.5 * (1 + math.cos(math.pi * x))


def warmup_linear(x, w):
    """fine-tuning: the warm-up times a straight line down to 0"""
    return (x / w if x < w else 1) * (1 - x)


known = {0.001: (0.5, 0.4995), 0.002: (1, 0.998), 0.01: (0.99975328, 0.99), 0.5: (0.5, 0.5), 1: (0, 0)}
for x, (cosine, linear) in known.items():
    assert abs(warmup_cosine(x, 0.002) - cosine) < 2e-5 and abs(warmup_linear(x, 0.002) - linear) < 1e-9
seam = warmup_cosine(0.002, 0.002)
print(f"warm-up of 0.2 %: just before its end the rate is 1, just after it {seam:.5f}: the wave did not wait")

# %% [markdown]
# GPT-1: rate 2.5e-4, 2,000 updates of warm-up, out of (probably) a million. *Already made* has a strange consequence:
# the first update is made at x = 0, **with rate 0**. It moves no weight. It does fill m and v.
#
# ### Clipping
#
# Once in a while a batch has a gradient ten times as long as usual. Take all gradients of the model as one long
# vector, and if it is longer than 1, shorten it to 1: one factor for all, so the direction is kept. (It happens
# before m and v see it.)

# %%
def clip(gradients, max_norm=1.0):
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    return [g * min(1, max_norm / norm) for g in gradients]


assert np.allclose(clip([np.array([3.0]), np.array([4.0])]), [[0.6], [0.8]])

# %% [markdown]
# ## 5. Check
#
# Numbers to hold on to, worked out in float64: one weight p = 1 whose gradient is always 0.5, rate 0.01, ten updates
# planned, warm-up 0.2, linear schedule, three updates.

# %%
def three_updates(rule, decay):
    p, m, v, way = 1.0, 0.0, 0.0, []
    for t in range(1, 4):
        p, m, v = rule(p, 0.5, m, v, t, 0.01 * warmup_linear((t - 1) / 10, 0.2), decay)
        way.append(p)
    return way


wanted = {
    "GPT-1's rule, decay 0.01": (three_updates(gpt1_adam, 0.01), [1, 0.9954894128, 0.9874733277]),
    "GPT-1's rule, no decay": (three_updates(gpt1_adam, 0), [1, 0.9955000020, 0.9875000049]),
    "AdamW, decay 0.01": (three_updates(adamw, 0.01), [1, 0.9954550001, 0.9873753638]),
}
for name, (got, expected) in wanted.items():
    print(f"  {name:26}", *(f"{p:.10f}" for p in got))
    assert np.allclose(got, expected, rtol=0, atol=6e-11)

# %% [markdown]
# **The trap: "after a step the weights must have changed".** It is the natural first test of an optimiser, and the
# right one fails it: look at the first column. Whoever "repairs" that, and evaluates the schedule at t / T, has
# another optimiser. (A well-known port of the code does so.)
#
# ### Why warm-up? Let us do without
#
# At the first step m_hat / sqrt(v_hat) = g / |g|: every weight of the model moves by the full rate, up or down, on
# the word of a single batch. Later m averages out, |m| is well below sqrt(v), and steps are shorter. So the longest
# steps come first, when the least is known. We train a GPT-1 of twelve blocks at a high rate, and listen at its
# bottom: how large is the gradient that arrives in block 0? (Its weights are drawn larger than 0.02, for its width of
# 32, as in lesson 07.)

# %%
def train(rule, lr, n_layer, steps, warmup, std=0.02, decay=0.01):
    """Returns the model and, for every step: loss, length of the step (1 is the rate), gradient norm of block 0."""
    model = small_gpt1(n_layer, std)
    moments = {name: (np.zeros_like(p.data), np.zeros_like(p.data)) for name, p in model.named_parameters()}
    curves = []
    for t in range(1, steps + 1):
        loss = gradients_of(model, t)
        rate = lr * warmup_cosine((t - 1) / steps, warmup)
        moved = bottom = count = 0.0
        for name, p in model.named_parameters():
            before = p.data
            p.data, *moments[name] = rule(p.data, p.grad, *moments[name], t, rate, decay if p.data.ndim > 1 else 0)
            moved, count = moved + float(((p.data - before) ** 2).sum()), count + before.size
            bottom += float((p.grad**2).sum()) if name.startswith("h.0.") else 0
        curves.append((loss, math.sqrt(moved / count) / max(rate, 1e-12), math.sqrt(bottom)))
    return model, *np.array(curves).T


def sameness(model):
    """Lesson 07: the mean cosine between two positions, at the top."""
    h = model.hidden(batch(0)[0], grad=False)[0][0]
    unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(T, 1)].mean())


frequency = np.bincount(text_ids) / len(text_ids)
only_letters = -(frequency * np.log(frequency)).sum()
deep = {
    "no warm-up": train(adamw, 8e-3, n_layer=12, steps=150, warmup=0, std=0.1),
    "warm-up": train(adamw, 8e-3, n_layer=12, steps=150, warmup=0.5, std=0.1),
    "no warm-up, rate / 4": train(adamw, 2e-3, n_layer=12, steps=150, warmup=0, std=0.1),
}
print("                        loss               gradient of block 0, steps 1, 20   sameness")
for name, (model, losses, _, bottom) in deep.items():
    numbers = f"{losses[0]:.2f} -> {losses[-15:].mean():.2f}       {bottom[0]:.0e}, {bottom[19]:.0e}"
    print(f"  {name:20}  {numbers:49}  {sameness(model):.2f}")
print(f"  letter frequencies alone: {only_letters:.2f}")
one_step = train(adamw, 8e-3, n_layer=12, steps=1, warmup=0, std=0.1)[0]
before, after = sameness(small_gpt1(12, 0.1)), sameness(one_step)
print(f"sameness of the fresh model: {before:.2f}; after one single step without warm-up: {after:.2f}")
(dead, dead_losses, _, dead_bottom), (alive, alive_losses, _, _), (slow, slow_losses, _, _) = deep.values()
assert dead_losses[-15:].mean() > only_letters - 0.1 and sameness(dead) > 0.95 and dead_bottom[19] < 1e-2
assert max(alive_losses[-15:].mean(), slow_losses[-15:].mean()) < 2.3 and max(sameness(alive), sameness(slow)) < 0.6
assert before < 0.3 and after > 0.9

# %% [markdown]
# **It is the chorus of lesson 07**, and a single step is enough. What a fresh model learns first is that some letters
# are frequent. That is the same news for every position, so all weights are told to add the same vector everywhere.
# Adam obeys at full length in each of them, twelve blocks add it up, and after one step all positions are alike. Then
# attention has nothing to compare, hardly any gradient comes down, and the loss stays at what letter frequencies
# give. With warm-up, the same model with the same batches lives at the same rate.
#
# It is no law. At a quarter of the rate it lives without (and learns as much: warm-up is a licence for high rates, no
# gift), and a model of two blocks does not need it (next cell). Depth, LayerNorm on the stream and a high rate
# together make it necessary. GPT-1 has the first two.
#
# ### Three optimisers, each at the better of two rates
#
# Two blocks, weights from N(0, 0.02), 150 updates, cosine down to 0.

# %%
def plain(p, g, m, v, t, lr, decay):
    return p - lr * g, m, v


def with_momentum(p, g, m, v, t, lr, decay):
    m = B1 * m + g
    return p - lr * m, m, v


shallow = {}
for name, rule, rates in (
    ("gradient descent", plain, (0.3, 1.0)),
    ("with momentum", with_momentum, (0.1, 0.3)),
    ("Adam (AdamW)", adamw, (3e-3, 1e-2)),
):
    runs = [train(rule, rate, n_layer=2, steps=150, warmup=0) for rate in rates]
    best = min(range(2), key=lambda i, runs=runs: runs[i][1][-15:].mean())
    shallow[name] = runs[best]
    print(f"  {name:17} rate {rates[best]:<5} loss {runs[best][1][0]:.2f} -> {runs[best][1][-15:].mean():.2f}")
_, slow_start, *_ = train(adamw, 1e-2, n_layer=2, steps=150, warmup=0.1)
print(f"  the last one with a warm-up of 0.1: {slow_start[-15:].mean():.2f}")
lengths = shallow["Adam (AdamW)"][2]
print("length of Adam's steps, in units of the rate, at steps 1, 10, 100:", *(f"{lengths[i]:.2f}" for i in (0, 9, 99)))
ends = {name: run[1][-15:].mean() for name, run in shallow.items()}
assert ends["Adam (AdamW)"] < ends["with momentum"] - 0.1 < ends["gradient descent"] - 0.2
assert lengths[0] > 0.9 and lengths[99] < 0.5

# %% [markdown]
# Momentum helps, dividing by the root of v helps more. Warm-up only takes time away here. And look at the last line:
# Adam's steps grow shorter by themselves, as soon as m has gradients to average.

# %% [markdown]
# ## 6. See it

# %%
from minigpt import plot

plt = plot.plt
figure, ((valley, brake), (three, warm)) = plt.subplots(2, 2, figsize=(11, 7.5))
across, along = np.meshgrid(np.linspace(-1.2, 1.2, 200), np.linspace(-0.3, 1.15, 200))
valley.contour(along, across, 50 * across**2 + along**2 / 2, levels=(0.05, 0.4, 2, 8, 25, 50), colors="lightgray")
for (name, way), color in zip(ways.items(), ("tab:red", "tab:purple", "tab:green"), strict=True):
    valley.plot(way[:40, 1], way[:40, 0], ".-", color=color, linewidth=0.8, markersize=4, label=name)
valley.set(title="40 steps down the valley, from (1, 1)", xlabel="b, flat", ylabel="a, 100 times as steep")
valley.set(xlim=(-0.3, 1.15), ylim=(-1.2, 1.2))
valley.legend(loc="lower left", fontsize="small")
steps = np.arange(1, 3001)
brake.semilogx(steps, [1 / factor(t) for t in steps], color="tab:red", label="without corrections")
brake.axhline(1, color="tab:green", label="with them")
brake.set(title="Adam without its corrections starts too fast", xlabel="step", ylabel="length of a step / rate")
brake.set_ylim(0, 7)
brake.legend()


def smooth(curve):
    return np.convolve(curve, np.ones(10) / 10, "valid")


for (name, run), color in zip(shallow.items(), ("tab:red", "tab:purple", "tab:green"), strict=True):
    three.plot(smooth(run[1]), color=color, label=name)
three.set(title="Two blocks, three optimisers", xlabel="step", ylabel="loss (nats per letter)")
for (name, run), color in zip(deep.items(), ("tab:red", "tab:green", "tab:olive"), strict=True):
    warm.plot(smooth(run[1]), color=color, label=name)
warm.axhline(only_letters, color="gray", linestyle=":", label="letter frequencies only")
warm.set(title="Twelve blocks, Adam at 0.008: one step decides", xlabel="step", ylabel="loss (nats per letter)")
for axes in (three, warm):
    axes.legend()
plot.save(figure, "09_adam.png")

# %% [markdown]
# Top left: gradient descent bounces between the walls; Adam walks straight down the diagonal, as if the valley were
# round. Bottom right: the red and the green run differ in nothing but their first 75 rates.

# %% [markdown]
# ## 7. In the library
#
# `minigpt.optim` has both rules, the schedules and the clipping. An optimiser owns m and v: two numbers for each
# weight.

# %%
from minigpt.nn import Parameter, optim, schedules

draw = np.random.default_rng(0)
start = {"matrix": draw.normal(size=(4, 3)), "bias": draw.normal(size=3)}
for library_class, rule in ((optim.AdamW, adamw), (optim.GPT1Adam, gpt1_adam)):
    parameters = {name: Parameter(array.copy()) for name, array in start.items()}
    optimizer = library_class(parameters.items(), weight_decay=0.01)
    mine = {name: (array, np.zeros_like(array), np.zeros_like(array)) for name, array in start.items()}
    for t in range(1, 6):
        gradients = clip([10 * draw.normal(size=array.shape) for array in start.values()])
        lr = 0.1 * schedules.warmup_linear((t - 1) / 5, 0.2)
        assert lr == 0.1 * warmup_linear((t - 1) / 5, 0.2)
        for name, gradient in zip(start, gradients, strict=True):
            parameters[name].grad = gradient
            p, m, v = mine[name]
            mine[name] = rule(p, gradient, m, v, t, lr, 0.01 if p.ndim > 1 else 0)
        optimizer.step(lr)
    worst = max(np.abs(mine[name][0] - parameters[name].data).max() for name in start)
    print(f"  {library_class.__name__:8} after five updates: ours and the library's differ by {worst:.0e}")
    assert worst < 1e-14
for x in np.linspace(0, 1, 12):  # not at the seam itself, where 1 and 0.99999 are both right
    assert schedules.warmup_cosine(x, 0.3) == warmup_cosine(x, 0.3)
parameters["matrix"].grad, parameters["bias"].grad = np.array([[3.0]]), np.array([4.0])
assert optim.clip_by_global_norm(parameters.items(), 1.0) == 5
assert np.isclose(parameters["matrix"].grad[0, 0], 0.6) and np.isclose(parameters["bias"].grad[0], 0.8)

state = 2 * 4 * 116_534_784
print(f"m and v of GPT-1 in float32: {state / 1e6:.0f} MB, twice its weights")
assert round(state / 1e6) == 932

# %% [markdown]
# ## 8. Paper and code
#
# - The paper (section 4.1) has Adam, 2.5e-4, the linear warm-up over 2,000 updates, the cosine to 0, and decay 0.01
#   "on all non bias or gain weights". It does not give B1, B2, eps, or any clipping. 0.9, 0.999, 1e-8 and a norm of 1
#   are the defaults of OpenAI's released fine-tuning code; the paper says that fine-tuning reuses the settings of
#   pre-training unless it says otherwise.
# - Nor does it give the number of updates. A million is inferred: BERT's paper says so of GPT-1, and 2,000 updates
#   are the 0.2 % that the released code warms up.
# - A well-known port clips each tensor by itself, evaluates the schedule one update later, and decays without the
#   corrections. Its models are good as well. But "the same optimiser" it is not.
# - Some frameworks clip with max_norm / (norm + 1e-6); BERT's Adam has no corrections at all, and a warm-up instead.
#
# ## 9. Exercises
#
# 1. `lessons/exercises/09_adam.py`: GPT-1's rule, from an empty function. Run it: it checks itself.
# 2. `lessons/exercises/09_find_the_bug.py`: an AdamW that trains well, and decays wrongly. Run it: it checks itself.
# 3. Leave the corrections out of `adam_direction`, and run the twelve blocks with warm-up again. How much does the
#    brake matter, when the rate starts from 0 anyway?

# %%
print(f"lesson 09: every check is happy (the library's updates agree to {worst:.0e})")
