# %% [markdown]
# # Lesson 12: sampling, from scores to text
#
# You will make a model write, build the four steps between its scores and a token (temperature, top-k, nucleus, draw),
# test a random thing so that the test can fail, and see why the likeliest text is the wrong text.
#
# Reading: 35 minutes. Running: 40 seconds, once the model that lessons share is trained; if no lesson has trained it
# yet, this one does, which takes under three minutes more. Before it: lessons 02 (softmax, surprise), 08 and 11.
#
# Papers: Radford et al. 2019 (GPT-2), appendix A and the released code. Holtzman et al. 2019 (arXiv 1904.09751):
# nucleus sampling. Fan et al. 2018 (arXiv 1805.04833): top-k. Shannon 1948, theorem 3: typical sequences.

# %% [markdown]
# ## 1. Why: the model does not say what comes next
#
# A language model gives every token a probability. It does not choose. Somebody has to, and then feed the choice back,
# so that the next one can be asked for. That loop is all of text generation; `choose` is the subject of this lesson.

# %%
import math
import re
import textwrap
from collections import Counter

import numpy as np
import story_model

from minigpt import models
from minigpt.data import stories

model, text = models.open_both(story_model.folder())
V, CONTEXT = model.config.vocab_size, model.config.n_positions


def next_logits(ids):
    """ids (B,T) -> logits (B,V) of the token that follows; only the last CONTEXT tokens are looked at"""
    h, _ = model.hidden(ids[:, -CONTEXT:], grad=False)
    return (h[:, -1] @ model.head.data.T).astype(np.float64)


def write(ids, n_tokens, choose, seed=0):
    """ids (B,T) -> (B,T+N). choose: logits (B,V), u (B,) -> tokens (B,)"""
    rngs = [np.random.default_rng([seed, i]) for i in range(len(ids))]  # a row, a generator
    for _ in range(n_tokens):
        chosen = choose(next_logits(ids), np.array([rng.random() for rng in rngs]))
        ids = np.concatenate([ids, chosen[:, None]], axis=1)
    return ids


def probabilities(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def entropy(p):
    """The surprise to expect, in nats: -sum p ln p, where 0 ln 0 is 0"""
    return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)


# %% [markdown]
# What comes after "Once upon a time, there was a"? In the world of our stories it is an adjective, and none is right.

# %%
OPENING = "Once upon a time, there was a"
seen = Counter(re.findall(OPENING + r" (\w+)", stories.corpus(2000, variety=1)))
p = probabilities(next_logits(np.array([text.encode(OPENING)])))[0]
print(f"{OPENING} ...")
for i in p.argsort()[::-1][:4]:
    word = text.decode([int(i)])
    print(f"  {word:9} the model says {p[i]:5.1%}, the stories {seen[word] / seen.total():5.1%}")
assert p.max() < 0.6 and entropy(p) > 1

# %% [markdown]
# The simplest rule is **greedy**: take the likeliest. Then every story is about the same kind of child, although the
# model knows better. Ask as often as you like:

# %%
NEWLINE = text.newline_id  # it stands between stories: here a story begins


def greedy(logits, u):
    return logits.argmax(axis=-1)


twice = write(np.array([[NEWLINE], [NEWLINE]]), CONTEXT - 1, greedy)
assert np.array_equal(twice[0], twice[1])
print(textwrap.fill(text.decode(twice[0, 1:].tolist()).split("\n")[0], 110))

# %% [markdown]
# It gets worse. Greedy makes no choice and has no memory but the tokens that it looks at. As soon as those come twice,
# all that followed them follows again, for ever. How soon? That depends on how far it looks back. A counter of pairs
# (lesson 11) looks at one token, so it can never write more different tokens than there are before it must go in
# circles. It needs far fewer:

# %%
tokens = np.array(text.encode(stories.corpus(1000, variety=1)))
pairs = np.zeros((V, V))
np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
path = [text.ids["once</w>"]]
while path[-1] not in path[:-1]:
    path.append(int(pairs[path[-1]].argmax()))
first = path.index(path[-1])
circle = f"[{text.decode(path[first:-1])}]"
print(f"the pair counter, greedy: {text.decode(path[:first])} {circle} {circle} ...")
assert len(path) < 40

# %% [markdown]
# A Transformer looks at CONTEXT tokens, and there are more such windows than atoms: nothing *forces* it into a circle
# soon. Real models on real text go in circles all the same, often after a few dozen words: what stands there twice is
# the safest guess for a third time. (The stories of our small world end before.)

# %% [markdown]
# So we must draw. How?

# %% [markdown]
# ## 2. Forward: four steps
#
# **Temperature.** Divide the logits by a number T. A probability is proportional to exp(logit), so dividing by T turns
# p into p^(1/T), up to a constant: at T = 1/2 what was twice as likely becomes four times as likely.

# %%
def at_temperature(logits, temperature):
    return logits / temperature


example = np.array([0.5, 0.25, 0.15, 0.1])
logits = np.log(example)[None]  # (B,V) = (1, 4)
print("   T   probabilities            entropy in nats")
for temperature in (0.1, 0.5, 1, 2, np.inf):
    q = probabilities(at_temperature(logits, temperature))[0]
    print(f"{temperature:4}   {'  '.join(f'{value:.2f}' for value in q)}   {entropy(q):.3f}")
squares = example**2
assert np.allclose(probabilities(at_temperature(logits, 0.5)), squares / squares.sum())
assert np.allclose(probabilities(at_temperature(logits, 1e-3)), [1, 0, 0, 0])
assert np.allclose(probabilities(at_temperature(logits, np.inf)), 1 / 4)

# %% [markdown]
# Towards T = 0 the likeliest takes all: greedy (we may not divide by 0, so T = 0 is defined as greedy; of several
# equally likely ones, argmax takes the first, while the limit would share). Towards infinity all V tokens become alike,
# and the entropy is ln V = ln 4 = 1.386. Temperature never changes the *order* of the tokens.
#
# **Top-k.** Drop all but the k likeliest, by giving the rest the logit -inf. Tokens that tie with the k-th stay, or the
# result would depend on how a sort treats equals:

# %%
def keep_top_k(logits, k):
    threshold = np.sort(logits, axis=-1)[:, -k, None]  # the k-th largest
    return np.where(logits < threshold, -np.inf, logits)


assert np.array_equal(keep_top_k(np.array([[2.0, 1, 1, 0]]), 2), [[2, 1, 1, -np.inf]])

# %% [markdown]
# **Nucleus, or top-p.** k is a fixed number, but sometimes one token is possible and sometimes fifty. So fix the
# probability instead: go down from the likeliest until a share of p is covered. There are two readings of "until", and
# both are in use. Holtzman et al. keep the smallest set that *reaches* p. GPT-2's code goes on as long as the sum is
# *at most* p, and keeps at least one token:

# %%
def keep_nucleus(logits, p, paper=False):
    descending = np.sort(logits, axis=-1)[:, ::-1]
    mass = probabilities(descending).cumsum(axis=-1)
    if paper:
        last = (mass < p).sum(axis=-1)  # all that do not reach p yet, and one more
        last = np.minimum(last, logits.shape[-1] - 1)
    else:
        last = np.maximum((mass <= p).sum(axis=-1) - 1, 0)
    threshold = np.take_along_axis(descending, last[:, None], axis=-1)
    return np.where(logits < threshold, -np.inf, logits)


kept = {}
for top_p in (0.4, 0.6, 0.8, 0.95):
    kept[top_p] = [np.isfinite(keep_nucleus(logits, top_p, paper)).sum() for paper in (False, True)]
    masses = [example[:n].sum() for n in kept[top_p]]
    print(f"top-p {top_p:4}: GPT-2's code keeps {kept[top_p][0]}, mass {masses[0]:.2f};", end=" ")
    print(f"the paper keeps {kept[top_p][1]}, mass {masses[1]:.2f}")
assert list(kept.values()) == [[1, 1], [1, 2], [2, 3], [3, 4]]

# %% [markdown]
# One token's difference, wherever the first token alone does not reach p. "top-p 0.9" in one program is not "top-p 0.9"
# in another.
#
# **The draw.** Lay the probabilities end to end: pieces of a stick of length 1. Throw a number u, uniform on [0, 1), on
# the stick; the piece that it hits is the token. Its index is the number of cumulative sums that are at most u. With
# sums 0.5, 0.75, 0.9, 1 and u = 0.8, two are, so token 2 is hit. (u is multiplied by the last sum, since rounding
# leaves that a little off 1. Section 5 shows what happens otherwise.)

# %%
def draw(p, u):
    """p (B,V), u (B,) in [0, 1) -> tokens (B,)"""
    cumulative = p.cumsum(axis=-1)
    return (cumulative <= u[:, None] * cumulative[:, -1:]).sum(axis=-1)


assert draw(example[None], np.array([0.8])) == [2]
assert draw(np.array([[0, 0.5, 0, 0.5, 0]]), np.array([0.0])) == [1]  # what has probability 0 is never hit
assert draw(np.array([[0, 0.5, 0, 0.5, 0]]), np.array([1 - 2**-53])) == [3]  # the largest u that there is


def sampler(temperature=1.0, top_k=None, top_p=None):
    """The rule to be given to `write`: GPT-2's order."""
    def choose(logits, u):
        if temperature == 0:
            return greedy(logits, u)
        z = at_temperature(logits, temperature)
        z = z if top_k is None else keep_top_k(z, top_k)
        z = z if top_p is None else keep_nucleus(z, top_p)
        return draw(probabilities(z), u)
    return choose


# %% [markdown]
# **The order matters.** GPT-2's code goes temperature, top-k, top-p, draw. So the nucleus is measured on what the
# temperature and top-k have left, made to sum to 1 again:

# %%
def survivors(z):
    return int(np.isfinite(z).sum())


cold = survivors(keep_nucleus(at_temperature(logits, 0.5), 0.8)), survivors(keep_nucleus(logits, 0.8))
cut = survivors(keep_nucleus(keep_top_k(logits, 3), 0.8)), survivors(keep_top_k(keep_nucleus(logits, 0.8), 3))
print(f"top-p 0.8 keeps {cold[0]} after a temperature of 0.5, and {cold[1]} before it;", end=" ")
print(f"{cut[0]} after a top-k of 3, and {cut[1]} before it")
assert cold == cut == (1, 2)

# %% [markdown]
# ## 3. Backward: there is none
#
# Move a logit a little, and for almost every u the token stays the same: the slope of the draw is 0, and a gradient
# stops here. (Training needs no draw. Its tokens come from the text.)
#
# One random number for each token has two merits. Numbers from a seed are the same on every machine, drawn here on
# the CPU for all devices. And if another device's logits differ in their last bits, the cuts of the stick move by as
# little, so a token changes only if u falls into such a gap:

# %%
rng = np.random.default_rng(11)
u = rng.random(20_000)
before, other = (probabilities(np.log(p) * noise) for noise in (1, 1 + 1e-6 * rng.normal(size=V)))
changed = (draw(before[None], u) != draw(other[None], u)).sum()
print(f"logits changed by one part in a million: {changed} of {len(u):,} draws changed")
assert changed <= 10 and before.argmax() == other.argmax()

# %% [markdown]
# ## 4. Pencil: what temperature does, and which one fits
#
# Write b = 1/T and F(b) = ln sum_v exp(b z_v), so that ln p_v = b z_v - F. Lesson 02: the slope of F in the score b z_v
# is p_v. So F' = sum_v p_v z_v = E[z], the mean logit under p. And as ln p_v moves by z_v - F', p_v itself moves by
# p_v (z_v - E[z]), so F'' = sum_v p_v (z_v - E[z]) z_v = E[z^2] - E[z]^2 = Var(z).
#
#     H     = -E[ln p] = F - b F'
#     dH/db = F' - F' - b F'' = -b Var(z),    dH/dT = Var(z) / T^3     since db/dT = -1/T^2
#
# A variance is never negative: entropy only rises with the temperature, and it moves where likely tokens have different
# scores.

# %%
for T in (0.5, 1.0, 2.0):
    eps = 1e-5
    numeric = (entropy(probabilities(logits / (T + eps))) - entropy(probabilities(logits / (T - eps)))) / (2 * eps)
    q = probabilities(logits / T)
    variance = (q * logits**2).sum() - (q * logits).sum() ** 2
    assert math.isclose(numeric.item(), variance / T**3, rel_tol=1e-7)

# %% [markdown]
# Is T = 1 special? The loss of the real next token y is F(b) - b z_y, and its slope is E[z] - z_y: lesson 02's "p minus
# one-hot" again, now weighted with the logits. So at the best temperature the logit that the model *expects* is, on
# average, the logit that the truth *gets*. That model is neither boastful nor timid. Training moves the scale of all
# logits too, so T = 1 should be near the best. The slope grows with b (F'' is not negative), so halving finds it:

# %%
valid = np.array(text.encode(stories.corpus(150, split="valid", variety=1)))
begins = np.flatnonzero(valid == NEWLINE)
begins = begins[begins + CONTEXT <= len(valid)]
contexts = valid[begins[:, None] + np.arange(CONTEXT)]  # as in training: a story from its beginning
n = len(contexts)
z = model.forward(contexts[:, :-1], grad=False)[0].reshape(-1, V)
y = contexts[:, 1:].reshape(-1, 1)
z_real = np.take_along_axis(z, y, axis=-1)[:, 0].astype(np.float64)

low, high = 0.5, 2.0
for _ in range(8):
    b = (low + high) / 2
    slope = (probabilities(b * z) * z).sum(axis=-1).mean() - z_real.mean()
    low, high = (low, b) if slope > 0 else (b, high)
BEST = 1 / b
print(f"the temperature at which the model fits {z_real.size:,} tokens of unseen stories best: {BEST:.2f}")
assert 0.7 < BEST < 1.2

# %% [markdown]
# Below 1 means timid: it believes the right thing, and does not dare to say it loudly. Above 1 means boastful.
#
# And what do k and p cut away? In the real contexts of unseen stories:

# %%
P = probabilities(z.astype(np.float64))
mass = -np.sort(-P, axis=-1)
np.cumsum(mass, axis=-1, out=mass)
nucleus = np.maximum((mass <= 0.9).sum(axis=-1), 1)
p_real = np.take_along_axis(P, y, axis=-1)
rank = (p_real < P).sum(axis=-1)  # how many tokens were thought likelier than the one that came
print(f"top-p 0.9 keeps {nucleus.min()} to {nucleus.max()} tokens, median {np.median(nucleus):.0f}")
print(f"top-k 5 cuts off from {1 - mass[:, 4].max():.0e} to {1 - mass[:, 4].min():.2f} of the probability")
tail, real_tail = 1 - mass[:, 4].mean(), (rank >= 5).mean()
print(f"beyond the first 5 the model puts {tail:.2%} of its probability; the real token is there in {real_tail:.2%}")
print(f"so of 100 texts of 100 draws, about {100 * (1 - (1 - tail) ** 100):.0f} hold such a token")
assert nucleus.min() == 1 and nucleus.max() > 8 and 0.4 < tail / real_tail < 2.5

# %% [markdown]
# Two lessons. A fixed k is too many in one place and too few in the next; a nucleus breathes. And the far tail, where
# hundreds of tokens share what is left over, is not empty in real text either. But whoever writes a rare word knows
# why, and how to go on. The model takes one by chance, sooner or later in nearly every long text, and all that follows
# is written after it. To cut the tail is a trade: the real surprises go, and the accidents with them.

# %% [markdown]
# ## 5. Check: can a random thing be wrong?
#
# Every result of a sampler is possible, so no single one can be wrong. The frequencies can. If a token has the
# probability p, then in N draws we expect Np of it, give or take sqrt(Np). Ask of each token how many times sqrt(Np)
# its count is off, square that, and sum over the tokens: **chi-square** = sum (observed - expected)^2 / expected. For
# a right sampler it is about d, the number of summands less one, give or take sqrt(2d). Tokens that expect fewer than
# 5 are counted together, as one.

# %%
def deviation(tokens, p):
    """How many standard deviations chi-square lies above what a right sampler would give"""
    assert p[tokens].min() > 0  # nothing impossible was drawn
    expected, observed = len(tokens) * p, np.bincount(tokens, minlength=len(p))
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())[expected > 0]
    expected = expected[expected > 0]
    d = len(expected) - 1
    return (((observed - expected) ** 2 / expected).sum() - d) / math.sqrt(2 * d)


scores = np.log(p)[None]
N = 50_000
for name, options, wanted in (
    ("T = 1", {}, p),
    ("T = 1.5", {"temperature": 1.5}, p ** (1 / 1.5)),
    ("top-k 5", {"top_k": 5}, np.where(p >= np.sort(p)[-5], p, 0)),
):
    drawn = np.concatenate([sampler(**options)(scores, rng.random(5000)) for _ in range(N // 5000)])
    off = deviation(drawn, wanted / wanted.sum())
    print(f"  {name:8} chi-square is {off:+.1f} standard deviations off")
    assert abs(off) < 5
    if name == "T = 1":
        warmer = deviation(drawn, probabilities(scores / 1.1)[0])
        print(f"           and if somebody claims that T was 1.1: {warmer:+.0f}")
        assert warmer > 10

# %% [markdown]
# The second number is the important one: a check that cannot say no is none.
#
# **The trap: the edge that no frequency shows.** Here is a shorter draw, found in much code: "the first sum that
# exceeds u". In float32, as models give it. Chi-square is content:

# %%
def short_draw(p, u):
    return (p.cumsum(axis=-1) > u[:, None]).argmax(axis=-1)


single = p.astype(np.float32)[None]
off = deviation(np.concatenate([short_draw(single, rng.random(5000)) for _ in range(N // 5000)]), p)
flat = np.full((1, 40478), 1 / 40478, np.float32)  # as many tokens as GPT-1 has, all alike
end = float(flat.cumsum(axis=-1)[0, -1])
print(f"  {off:+.1f} for the shorter draw; but the sum of 40,478 equal probabilities ends at {end:.5f}")
assert abs(off) < 5 and round(1 / (1 - end), -2) == 1800
assert short_draw(flat, np.array([0.9999])) == [0]  # no sum exceeds u, and argmax of nothing but False is 0
assert draw(flat, np.array([0.9999])) == [40473]

# %% [markdown]
# Where u is larger than the last sum, the answer is token 0, here once in 1,800 draws. In GPT-1's vocabulary that is
# `<unk>`. It looks like a whim of the model, and no test of frequencies with a small vocabulary meets it. Chance is
# tested by frequencies; edges are tested at the edge (u = 0, u = 1 - 2^-53), as in section 2.

# %% [markdown]
# ## 6. See it: the likeliest text is not a typical one
#
# **The surprise.** Take a coin that shows heads with probability 0.6 and throw it 100 times. Which sequence is the
# likeliest of all? Not one with 60 heads: *all heads*. Each tails in it would make it less likely, by 0.4/0.6.

# %%
heads = np.arange(101)
one_sequence = 0.6**heads * 0.4 ** (100 - heads)
how_many = np.array([float(math.comb(100, k)) for k in heads])
together = one_sequence * how_many
coin_entropy = entropy(np.array([0.6, 0.4]))
print(f"all heads: {one_sequence[100]:.1e}; one sequence with 60 heads: {one_sequence[60]:.1e}, but", end=" ")
print(f"there are {how_many[60]:.1e} of them")
print(f"50 to 70 heads: {together[50:71].sum():.1%}. Surprise per throw: {-math.log(0.6):.3f} for all heads,", end=" ")
print(f"{-math.log(one_sequence[60]) / 100:.3f} for 60 heads, and the entropy is {coin_entropy:.3f}")
assert f"{one_sequence[100]:.1e}" == "6.5e-23" and one_sequence.argmax() == 100 and together.argmax() == 60
assert math.isclose(-math.log(one_sequence[60]) / 100, coin_entropy) and together[50:71].sum() > 0.96

# %% [markdown]
# Nobody has ever seen the likeliest sequence. What one sees is *typical*: a surprise per throw that is near the
# entropy. That is Shannon's theorem, and it is as true of text as of coins. A rule that hunts for the likeliest text
# (greedy; beam search hunts harder) hunts for 100 heads.
#
# Measure it. Take 16 unseen stories, keep their first 9 tokens, and let the model go on in different ways. At what was
# written, and at how the stories really went on, compute the surprise of the model itself, in nats per token (at the
# temperature that fits best: its best guess at the truth).

# %%
def surprise(ids, temperature=1.0):
    """ids (B,T) -> (B,T-1): -ln p of each token, given those before it"""
    q = probabilities(model.forward(ids[:, :-1], grad=False)[0].astype(np.float64) / temperature)
    return -np.log(np.take_along_axis(q, ids[:, 1:, None], axis=-1)[..., 0])


LENGTH, GIVEN = 96, 9
starts = [i for i in np.flatnonzero(valid == NEWLINE) if i + LENGTH <= len(valid)]
starts = np.array(starts)[np.arange(16) * len(starts) // 16]  # 16 of them, evenly spread
real = valid[starts[:, None] + np.arange(LENGTH)]
FITTED = f"T = {BEST:.2f}"
WAYS = {
    "greedy": {"temperature": 0},
    "T = 0.7": {"temperature": 0.7},
    "top-k 5": {"top_k": 5},
    FITTED: {"temperature": BEST},
    "T = 1": {},
    "T = 1.5": {"temperature": 1.5},
}
texts = {name: write(real[:, :GIVEN], LENGTH - GIVEN, sampler(**options)) for name, options in WAYS.items()}
texts["real"] = real
costs = {name: surprise(ids, BEST)[:, GIVEN - 1 :] for name, ids in texts.items()}  # (16, 87)
per_text = {name: cost.mean(axis=-1) for name, cost in costs.items()}
mean = {name: values.mean() for name, values in per_text.items()}

print("nats per token, and how many of the runs of 4 tokens are different ones")
variety = {}
for name, ids in texts.items():
    runs = np.lib.stride_tricks.sliding_window_view(ids[:, GIVEN:], 4, axis=1).reshape(-1, 4)
    variety[name] = len(np.unique(runs, axis=0)) / len(runs)
    print(f"  {name:8} {mean[name]:.2f}   {variety[name]:.0%}")
assert mean["greedy"] < 0.85 * mean["real"] and variety["greedy"] < 0.7 * variety["real"]
assert mean["greedy"] < mean["T = 0.7"] < mean[FITTED] < mean["T = 1.5"]
assert abs(mean[FITTED] / mean["real"] - 1) < 0.2 and abs(variety[FITTED] - variety["real"]) < 0.1

# %% [markdown]
# Greedy text is *too good*: the model finds it far likelier than real stories, which are not the likeliest, since
# whoever tells one makes choices. And it is nearly one story, told again and again. But what is drawn at the fitted
# temperature costs what real stories cost, and varies as they do. Why?
#
# Section 4 has half of the answer. There, expected and real logits agree on average; take F off both, and the expected
# surprise, which is the entropy, agrees with the real one. That holds for *one* draw in a real context. The other half
# no pencil can give: in its own text a model goes on after its own mistakes, the like of which it was never trained on.
# If that did harm here, surprise would pile up, draw upon draw.

# %%
own_entropy = entropy(probabilities(model.forward(real[:, :-1], grad=False)[0].astype(np.float64) / BEST))
one_draw = own_entropy[:, GIVEN - 1 :].mean()
print(f"real tokens {mean['real']:.2f}; one draw, in a real context {one_draw:.2f};", end=" ")
print(f"draw upon draw {mean[FITTED]:.2f}")
assert abs(one_draw / mean["real"] - 1) < 0.15

# %% [markdown]
# It hardly does, in a world as small as this.

# %%
from minigpt import plot

figure = plot.plt.figure(figsize=(11, 9))
grid = figure.add_gridspec(3, 2, height_ratios=(1.6, 1, 1))
coin, strips = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
coin.semilogy(heads, one_sequence, color="tab:red", label="one sequence with so many heads")
coin.semilogy(heads, together, color="tab:blue", label="all of them together")
coin.fill_between(heads, one_sequence, together, color="tab:blue", alpha=0.12)
coin.plot(100, one_sequence[100], "o", color="tab:red")
coin.text(57, 1e-21, "the likeliest sequence:\nall heads", color="tab:red")
coin.plot(60, together[60], "o", color="tab:blue")
coin.text(60, 1e-4, "what one sees", color="tab:blue", ha="center")
coin.set(xlabel="heads in 100 throws", ylabel="probability", ylim=(1e-41, 1e9), yticks=[1e-40, 1e-30, 1e-20, 1e-10, 1])
coin.set_title("A coin with 0.6 for heads: likely is not typical")
coin.legend(loc="upper left")
jitter = np.linspace(-0.2, 0.2, 16)
for i, (name, values) in enumerate(per_text.items()):
    color = "black" if name == "real" else f"C{i}"
    strips.plot(i + jitter, values, "o", color=color, markersize=4, alpha=0.6)
    strips.plot([i - 0.3, i + 0.3], [values.mean()] * 2, color=color, linewidth=2)
strips.axhspan(per_text["real"].min(), per_text["real"].max(), color="black", alpha=0.08)
strips.set_xticks(range(len(texts)), texts)
strips.set(ylabel="surprise of the model, nats per token", ylim=(0, None))
strips.set_title("16 texts of each kind: greedy ones are too likely")
tallest = costs["real"][0].max()
for row, name, color in ((1, "real", "black"), (2, "greedy", "C0")):
    axes, cost = figure.add_subplot(grid[row, :]), costs[name][0]
    axes.bar(np.arange(GIVEN, LENGTH), cost, color=color, width=0.7)
    named = []
    for i in cost.argsort()[::-1][:10]:
        if all(abs(i - j) > 3 for j in named):  # room for a word
            named.append(i)
            word = text.decode([int(texts[name][0, GIVEN + i])]).strip() or "(new story)"
            axes.text(GIVEN + i, cost[i] + 0.1, word, ha="center", fontsize=8, color=color)
    axes.set(ylabel="nats", ylim=(0, tallest + 1.2), xlim=(GIVEN - 1, LENGTH))
    what = "A real story: calm, then a choice" if name == "real" else "Greedy, from the same beginning: nobody chooses"
    axes.set_title(f"{what} (surprise of each token; some by name)")
axes.set_xlabel("token of the story")
plot.save(figure, "12_sampling.png")

# %% [markdown]
# Top left: one sequence gets likelier with each head (red), but beyond 50 there are fewer and fewer of them (the shaded
# gap), and the product has its top at 60. Top right: the grey band is what real stories do, from the calmest
# to the wildest. Greedy texts are all alike, in its lower part; those at T = 1.5 lie above it; the fitted temperature
# has its mean and its width. Below: a real story is predictable for a while, and then something is chosen:
# a name, a place, a thing. Those tokens *are* the story. Greedy takes, each time, the cheapest token that there is.
#
# And how does it read? From the same nine tokens, this time each with random numbers of its own:

# %%
for seed, (name, options) in enumerate(WAYS.items(), start=30):
    ids = write(real[:1, :GIVEN], LENGTH - GIVEN, sampler(**options), seed=seed)
    sentence = text.decode(ids[0, 1:].tolist()).replace("\n", " / ")
    print(f"  {name}: {textwrap.shorten(sentence, 200, placeholder=' ...')}")
sentence = text.decode(real[0, 1:].tolist()).replace("\n", " / ")
print(f"  real: {textwrap.shorten(sentence, 200, placeholder=' ...')}")

# %% [markdown]
# Read them aloud. At T = 1.5 sentences begin that nobody can finish. At low temperature the sentences are in order,
# and you have heard them before. (Whether people stay who they are is another matter: lesson 11.) At the fitted
# temperature text is *typical*. Whether you want that is a matter of taste and purpose: a translation has nearly one
# right answer, a story has none. (`minigpt sample` writes at 0.8: fewer accidents.)

# %% [markdown]
# ## 7. In the library
#
# `sampling.next_tokens` is our four steps; `model.generate` is our loop; `model.stream` is the same loop as a generator
# that gives each token as soon as it is there. The same seed gives the same text:

# %%
from minigpt.models import sampling

many, u = rng.normal(size=(500, 60)) * 3, rng.random(500)
for options in ({}, {"temperature": 0.7}, {"top_k": 7}, {"top_p": 0.8}, {"temperature": 2, "top_k": 20, "top_p": 0.9}):
    assert np.array_equal(sampling.next_tokens(many, u, **options), sampler(**options)(many, u))
start = real[:2, :GIVEN]
again = model.generate(start, 12, seed=3)
assert np.array_equal(again, write(start, 12, sampler(), seed=3))
assert np.array_equal(again[:, GIVEN:], np.array(list(model.stream(start, 12, seed=3))).T)
assert not np.array_equal(again, model.generate(start, 12, seed=4))

# %% [markdown]
# On the command line: `minigpt sample FOLDER --prompt "there was a" --temperature 0.7 --top-k 40 --seed 3`.
#
# **Past the context the window slides.** Token CONTEXT + 2 is the first that is predicted without token 1. What slid
# out is forgotten:

# %%
longer = valid[None, : CONTEXT + 20]
forgetful = longer.copy()
forgetful[0, :20] = NEWLINE
assert np.array_equal(next_logits(longer), next_logits(forgetful))

SLID, LATE = 30, slice(90, CONTEXT - 1)  # where a story has been going on for a while
in_order = -np.log(p_real).reshape(n, CONTEXT - 1)[:, LATE].mean()
slid = model.forward(contexts[:, SLID:-1], grad=False)[0].astype(np.float64)
without = -np.log(np.take_along_axis(probabilities(slid), contexts[:, SLID + 1 :, None], axis=-1))
without = without[:, LATE.start - SLID :, 0].mean()
print(f"surprise of the real tokens late in a story: {in_order:.2f}; without its first {SLID} tokens: {without:.2f}")
assert without > 1.2 * in_order

# %% [markdown]
# Sliding has a price. Every token moves one position down, and positions are part of the input. So nothing of the last
# step can be kept, and the whole window is computed anew for each token, as in our loop. GPT-2's code keeps the keys
# and values of earlier tokens instead (lesson 17), and stops at 1,024 tokens.
#
# **A text as a whole.** Surprises add up, so the log-likelihood of a text is minus their sum: minus the loss times the
# number of tokens. To compare texts one takes the *mean*, since each further token makes the sum smaller. With no more
# than that, a model can judge:

# %%
story = real[:1]
total = -surprise(story).sum()
loss, _ = model.loss(story[:, :-1], story[:, 1:], grad=False)
assert math.isclose(total, -float(loss) * (LENGTH - 1), rel_tol=1e-4)
shuffled = rng.permuted(story, axis=1)
print(f"a real story: ln p = {total:.0f}, {total / (LENGTH - 1):.2f} per token;", end=" ")
print(f"its tokens shuffled: {-surprise(shuffled).mean():.2f} per token")
assert surprise(shuffled).mean() > 3 * surprise(story).mean()

# %% [markdown]
# GPT-1 (section 5) judges in this way whether a sentence is grammatical, without having been taught. Lesson 14 does.

# %% [markdown]
# ## 8. Paper and code
#
# - The GPT-1 paper prints no sample: the model was made to be fine-tuned. Can it write? After "the president is", the
#   released weights, greedy, go on (so says a test in Hugging Face transformers): `a very good man . " " i 'm sure he
#   is , " said the`.
# - GPT-2's paper says of its samples that k was 40 (appendix A). Its summaries are drawn with k = 2 (section 3.6), its
#   answers (3.5) and translations (3.7) are greedy: the fewer right answers a task has, the smaller the k. In the
#   released code the defaults are T = 1, top_k = 0, which means off, and top_p = 1.
# - That code writes -1e10 where we write -inf. After a softmax both are 0. It keeps ties in top-k, as we do, and in
#   the nucleus too: with ties there, more than p may be kept.
# - Holtzman et al., section 3.1: the smallest set that reaches p. Hugging Face transformers follows the paper, our
#   library follows GPT-2's code.
# - Their section 4.2 is our section 6: human text is not the likeliest text.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/12_sampling.py`: top-k, the paper's nucleus, and the draw, from an empty page. Judge it: run it.
# 2. `exercises/12_find_the_bug.py`: a nucleus whose author tried it on four probabilities, largest first. Run it.
# 3. With pencil: there is another draw. Add to each logit its own random number g = -ln(-ln u), and take the largest.
#    Show that token v wins with the probability softmax(z)_v. (Hint: the chance that g is below x is exp(-exp(-x)).) It
#    needs V random numbers for a token. What would that do to "the same text on every device"?

# %%
numbers = ", ".join(f"{name} {mean[name]:.2f}" for name in ("greedy", FITTED, "real"))
print(f"lesson 12: every check is happy (nats per token: {numbers})")
