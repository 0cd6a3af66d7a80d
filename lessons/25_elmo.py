# %% [markdown]
# # Lesson 25: ELMo, vectors that know their sentence
#
# With this lesson begins the part on GPT-1's relatives (lessons 25 to 34). ELMo is a few months
# older than GPT-1. You will see a table with one vector for both senses of "bank", and train a
# model whose vectors differ. You will join its two directions in a way that looks better, reach a
# loss that no model can have, and find the leak. You will write the backward pass of the mix of
# layers. At the end stands the question that separates ELMo from GPT-1: should a pre-trained model
# stay frozen, or learn with the task?
#
# Reading: 55 minutes. Running: about a minute. Before it: lessons 02, 08, 13 and 14.
#
# Papers: Peters et al. 2018 (ELMo, arXiv 1802.05365), sections 3 and 5. Howard and Ruder 2018
# (ULMFiT, arXiv 1801.06146), section 3. Peters, Ruder and Smith 2019 (arXiv 1903.05987).

# %% [markdown]
# ## 1. Why: one word, two senses, one vector
#
# Before 2018, most systems took one thing from unlabelled text: a **table of word vectors**, such
# as word2vec (2013) or GloVe (2014). A word's vector is learned from the words that stand near it,
# so words with similar neighbours get similar vectors. But "bank" gets one vector, whether a text
# is about a river or about money. This is called a *static vector*.
#
# We make a world in which we know the sense. A *shore* is always about water, an *office* always
# about money, and a *bank* about either. A clue may stand before the place, after it, or both.
# Where no clue stands, there is a word that says nothing.

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)
WATER = "river boat fish mud reeds duck wave net".split()
MONEY = "coin loan gold clerk cash vault debt rent".split()
NEUTRAL = "hat lamp door book cup tree bell kite".split()
NAMES = "Anna Ben Emma Lily Max Mia Sam Tom".split()
TEMPLATE = "name saw a clue by the place and then a clue came".split()
BEFORE, HERE, AFTER = 3, 6, 10  # where the first clue, the place and the second clue stand
VOCABULARY = [*WATER, *MONEY, *NEUTRAL, *NAMES, "bank", "shore", "office"]
VOCABULARY += "saw a by the and then came".split()
ID = {word: i for i, word in enumerate(VOCABULARY)}
V, T = len(VOCABULARY), len(TEMPLATE)
BANK, SHORE, OFFICE = ID["bank"], ID["shore"], ID["office"]
print(f"{V} words, texts of {T} words")
print("in Korean the verb decides: 배를 먹었다 (ate a pear), 배를 탔다 (took a ship)")

# %%
def texts(n, rng, kind=None, clues=(0, 8), bank=0.5):
    """-> ids (n,T), and the sense (n,): 0 water, 1 money. kind: "before", "after", "both" or None

    clues: which of the eight clues of a sense are used. bank: how often the place is "bank".
    """
    ids = np.array([[ID.get(word, 0) for word in TEMPLATE]] * n)
    sense = rng.integers(2, size=n)
    ids[:, 0] = ID["Anna"] + rng.integers(8, size=n)
    ids[:, HERE] = np.where(rng.random(n) < bank, BANK, SHORE + sense)
    drawn = rng.choice(["before", "after", "both"], size=n, p=[0.25, 0.25, 0.5])
    for place, missing in ((BEFORE, "after"), (AFTER, "before")):
        clue = 8 * sense + rng.integers(*clues, size=n)  # WATER has the ids 0 to 7, MONEY 8 to 15
        nothing = ID["hat"] + rng.integers(8, size=n)
        ids[:, place] = np.where((drawn if kind is None else kind) == missing, nothing, clue)
    return ids, sense


for row in texts(3, np.random.default_rng(1))[0]:
    print(" ".join(VOCABULARY[i] for i in row))

# %% [markdown]
# The simplest static vectors are counts. How much more often than by chance do two words stand in
# one text? The logarithms of these ratios, one for each other word, are the word's vector. (Levy
# and Goldberg 2014 show that word2vec learns a compressed form of such a table.)

# %%
from minigpt import plot

bags = np.eye(V)[texts(10_000, np.random.default_rng(2))[0]].sum(axis=1)
together = bags.T @ bags * (1 - np.eye(V)) + 1  # + 1: so that no logarithm is infinite
share = together / together.sum()
static = np.log(share / np.outer(share.sum(axis=0), share.sum(axis=0)))


def cosine(a, b):
    return (a * b).sum(axis=-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


near_shore, near_office = cosine(static, static[SHORE]), cosine(static, static[OFFICE])
print(f"bank: cosine with shore {near_shore[BANK]:.2f}, with office {near_office[BANK]:.2f}")
assert abs(near_shore[BANK] - near_office[BANK]) < 0.05, "bank is as near to both"
assert near_shore[ID["river"]] > near_office[ID["river"]] + 0.5, "river is near to shore"

# %%
static_figure, axes = plot.plt.subplots(figsize=(7.5, 5))
colors = ["tab:blue"] * 8 + ["tab:orange"] * 8 + ["lightgray"] * 16 + ["black"] * 3
axes.scatter(near_shore[:35], near_office[:35], color=colors, s=50)
for word, dx, dy in (("bank", 0.03, 0.03), ("shore", -0.14, 0.05), ("office", 0.04, -0.03),
                     ("river", -0.02, 0.09), ("coin", 0.05, -0.03), ("hat", 0.05, 0)):
    axes.text(near_shore[ID[word]] + dx, near_office[ID[word]] + dy, word)
axes.set(xlabel="similarity to shore", ylabel="similarity to office", title="Static vectors")
plot.save(static_figure, "25_static.png")

# %% [markdown]
# The table has learned a lot: water words and money words are apart, and no label said so. Only
# "bank" lies on the diagonal, as near to one sense as to the other. No training helps: a table that
# is indexed by the word alone cannot give two answers.
#
# ## 2. The difference in five questions
#
# All relatives of GPT differ in a few places. Five questions find them, and each lesson of this
# part has them near its beginning. (The sixth is for this lesson.)
#
# | question | GPT-1 | ELMo |
# |---|---|---|
# | who sees whom? | each token the left | **one model the left, another the right** |
# | what is covered? | nothing | nothing |
# | what is predicted? | the next token | **the next; from the right, the previous** |
# | what is shared? | the token table is the head | **one table, one head for both directions** |
# | where does position enter? | a table, at the input | **nowhere: tokens come one by one** |
# | what learns in a task? | the whole model | **the mix of layers, and a new network** |
#
# The idea: use the *states* of a language model as vectors of the words. A state depends on what
# was read, so "bank" gets another vector in another text: a *contextual vector*. And read from both
# sides, since the clue may come later.
#
# ## 3. Forward: the same cells, in two directions
#
# ELMo is made of the cells of lesson 14. An LSTM reads one token x after the other and carries h
# and c along. With z = x W + h U + b, cut into four parts,
#
# $$
# c_t = \sigma(z_f) \, c_{t-1} + \sigma(z_i) \tanh(z_g), \qquad h_t = \sigma(z_o) \tanh(c_t)
# $$
#
# Sections 3 and 4 of that lesson have the forward and backward pass line by line. The direction
# from the right needs nothing new: *turn the text around, read it, turn the states back*. With the
# library's `lstm`, one text of three words, and two cells in each direction:

# %%
from minigpt import gradcheck, ops
from minigpt.learn import lines

START = np.zeros((1, 4))  # h and c of two cells, before the first word


def two_ways(x, w, u, b, w_right, u_right, b_right):
    of_left, left = ops.lstm_forward(x, w, u, b, START)
    turned = x[:, ::-1]
    read, right = ops.lstm_forward(turned, w_right, u_right, b_right, START)
    of_right = read[:, ::-1]
    out = np.concatenate([of_left, of_right], axis=-1)
    return out


draw = np.random.default_rng(3)
arrays = [draw.normal(size=size) for size in ((1, 3, 2), *2 * ((2, 8), (2, 8), 8))]
values = lines.run(two_ways, *arrays)

# %% [markdown]
# ELMo has two layers in each direction. What the second layer reads is added to what it gives (a
# residual connection, lesson 07). At each place the left direction predicts the word behind it, the
# right direction the word before it. Our loss is the mean of the two, the paper's their sum
# (section 3.1). We train the library's ELMo on our world.

# %%
from minigpt.models.family.elmo import ELMo, ELMoConfig
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine

SIZES = {"vocab_size": V, "n_positions": T, "n_embd": 32, "n_layer": 2, "n_hidden": 64}
SIZES |= {"embd_pdrop": 0.0, "resid_pdrop": 0.0}


def descend(parameters, update, steps, rate):
    """Steps of AdamW. update(step) -> the loss; it leaves the gradients in the parameters"""
    optimizer = AdamW(parameters)
    losses = []
    for step in range(steps):
        for _, parameter in parameters:
            parameter.grad = None
        losses.append(update(step))
        optimizer.step(rate * warmup_cosine(step / steps, 0.1), 1.0)
    return np.array(losses)


print(f"a fresh model guesses: the loss is about ln {V} = {np.log(V):.2f}")

# %%
def neighbours(ids):
    """ids (B,T) -> targets of the left and of the right direction; -100: nothing is predicted"""
    behind, before = np.roll(ids, -1, axis=1), np.roll(ids, 1, axis=1)
    behind[:, -1] = before[:, 0] = -100
    return behind, before


def pretrain(model, seed, targets=neighbours, steps=400):
    """Train a model on this world. -> the loss of each update"""
    def update(step):
        ids, _ = texts(32, np.random.default_rng([seed, step]))
        behind, before = targets(ids)
        loss, cache = model.loss(ids, behind, previous=before)
        model.loss_backward(cache)
        return float(loss)

    return descend(list(model.named_parameters()), update, steps, rate=1e-2)


SEEDS = (1, 2, 3)
elmo = {seed: ELMo(ELMoConfig(**SIZES), seed=seed) for seed in SEEDS}
elmo_losses = {seed: pretrain(elmo[seed], seed)[-20:].mean() for seed in SEEDS}
print("the loss at the end, for three seeds:", *(f"{elmo_losses[seed]:.2f}" for seed in SEEDS))

# %% [markdown]
# **Do the states tell the sense?** We need no label to find out. Take texts with "shore" and with
# "office", and the mean state at these words. Then take texts with "bank": is its state nearer to
# the mean of the shores, or to that of the offices? To be strict, the texts with "bank" have only
# clues that the other texts do not have.

# %%
def vectors(model, ids):
    """The vectors of the words at HERE: from the table, and the top states of each direction"""
    x, left, right, _ = model.directions(ids, grad=False)
    found = {"table": x, "left": left[-1], "right": right[-1]}
    found["both"] = np.concatenate([left[-1], right[-1]], axis=-1)
    return {name: states[:, HERE] for name, states in found.items()}


def told(model, kind):
    """{vectors: the share of banks that are nearest to the places of their own sense}"""
    known, known_sense = texts(400, np.random.default_rng(4), clues=(0, 4), bank=0)
    banks, sense = texts(400, np.random.default_rng(5), kind, clues=(4, 8), bank=1)
    of_known, of_banks = vectors(model, known), vectors(model, banks)
    shares = {}
    for name, states in of_known.items():
        shore, office = (states[known_sense == number].mean(axis=0) for number in (0, 1))
        is_money = cosine(of_banks[name], office) > cosine(of_banks[name], shore)
        shares[name] = (is_money == sense).mean()
    return shares


print("ELMo, the clue stands after:", {name: f"{part:.0%}" for name, part
                                       in told(elmo[1], "after").items()})

# %% [markdown]
# Two controls. Is it reading that helps, whatever the weights? We take fresh weights. And is "both"
# better only because it is twice as wide? We train the left direction alone, twice as wide (the
# right direction gets no targets).

# %%
left_alone = ELMo(ELMoConfig(**SIZES | {"n_embd": 64}), seed=1)
pretrain(left_alone, 1, targets=lambda ids: (neighbours(ids)[0], None))
fresh_models = [ELMo(ELMoConfig(**SIZES), seed=seed) for seed in SEEDS]
BARS = {  # the models, and which of their vectors
    "fresh weights,\nboth": (fresh_models, "both"), "table": (elmo.values(), "table"),
    "left alone,\ntwice as wide": ([left_alone], "left"),
    "right": (elmo.values(), "right"), "both": (elmo.values(), "both"),
}
senses = {(label, kind): [told(model, kind)[which] for model in models]
          for label, (models, which) in BARS.items() for kind in ("before", "after")}
for (label, kind), shares in senses.items():
    knows = label == "both" or (label[:5], kind) in (("left ", "before"), ("right", "after"))
    print(f"{label.replace(chr(10), ' '):26} clue {kind:6}", *(f"{part:4.0%}" for part in shares))
    assert (min(shares) > 0.9) if knows else (max(shares) < 0.65), f"{label}, {kind}"

# %%
sense_figure, axes = plot.plt.subplots(figsize=(10, 4))
for kind, shift, color in (("before", -0.2, "tab:green"), ("after", 0.2, "tab:purple")):
    heights = [np.mean(senses[label, kind]) for label in BARS]
    axes.bar(np.arange(5) + shift, heights, 0.4, color=color, label=f"the clue stands {kind}")
axes.axhline(0.5, color="gray", linestyle="--")
axes.set_xticks(range(5), BARS)
axes.set(ylabel="senses told", ylim=(0, 1.35), title="Which sense has this bank? New clues")
axes.legend(loc="upper center", ncols=2)
plot.save(sense_figure, "25_senses.png")

# %% [markdown]
# Fresh weights and the table guess. A direction knows what it has read, and guesses the rest,
# however wide it is. Both together know all.
#
# ## 4. Backward: two models that share a table
#
# Turning is undone by turning. The text is used twice, so its gradient is a sum.

# %%
def two_ways_backward(dout, v):
    # out = concatenate([of_left, of_right])
    dof_left = dout[..., :4]
    dof_right = dout[..., 4:]
    # of_right = read[:, ::-1]
    dread = dof_right[:, ::-1]
    # read = lstm(turned, w_right, u_right, b_right)
    dturned, dw_right, du_right, db_right, _ = ops.lstm_backward(dread, v.right)
    # turned = x[:, ::-1]
    dx = dturned[:, ::-1]
    # of_left = lstm(x, w, u, b): the second use of x
    dx_of_left, dw, du, db, _ = ops.lstm_backward(dof_left, v.left)
    dx = dx + dx_of_left
    return dx, dw, du, db, dw_right, du_right, db_right


way_results = lines.check(two_ways, two_ways_backward, *arrays)
assert all(result.error < 1e-7 for result in way_results), "every line is right"

# %% [markdown]
# Look at what is *not* there: no gradient of `of_left` reaches `w_right`. The directions are two
# language models that never see each other. They share the table and the head, and nothing else. No
# state has seen both sides; only the task puts two states side by side. That is the difference from
# BERT (lesson 26), in which each state sees both sides.
#
# **Why keep them apart?** It looks like a waste. Let the second layer read *both* directions of the
# first (here: their sum). Then each of its states sees the whole text.

# %%
from minigpt.models.lstm import Memory, Recurrence
from minigpt.nn import Cache


def read(model, layer, x, cache):
    """One layer of both directions -> the states from the left, and from the right"""
    left = cache.keep(f"left{layer}", model.left.h[layer].forward(x, Memory()))
    right = cache.keep(f"right{layer}", model.right.h[layer].forward(x[:, ::-1], Memory()))
    return left, right[:, ::-1]


def read_backward(model, layer, dleft, dright, cache):
    dx = model.left.h[layer].backward(dleft, cache.pop(f"left{layer}"))
    dturned = model.right.h[layer].backward(dright[:, ::-1], cache.pop(f"right{layer}"))
    return dx + dturned[:, ::-1]


print("one layer in both directions, forward and backward")

# %%
class Joined(ELMo):
    """ELMo, but the second layer of each direction reads both directions of the first."""

    def directions(self, ids, key=None, grad=True, mask=None):
        cache = Cache(self)
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        first = read(self, 0, x, cache)
        second = read(self, 1, first[0] + first[1], cache)
        return x, [first[0], second[0]], [first[1], second[1]], cache

    def directions_backward(self, dx, dleft, dright, cache):
        djoined = read_backward(self, 1, dleft[1], dright[1], cache)
        through = read_backward(self, 0, djoined + dleft[0], djoined + dright[0], cache)
        self.tokens_embed.backward(through, cache.pop("tokens"))


TINY = SIZES | {"n_embd": 4, "n_hidden": 3}
tiny_ids, _ = texts(2, np.random.default_rng(6))
behind, before = neighbours(tiny_ids)
tiny = Joined(ELMoConfig(**TINY), seed=0, dtype=np.float64)
tiny_check = gradcheck.worst(gradcheck.check_model(tiny, tiny_ids, behind, previous=before))
assert tiny_check.error < 1e-6, "no gradient of the joined model is wrong"
print(f"the worst error of a gradient is {tiny_check.error:.0e}")

# %%
joined = Joined(ELMoConfig(**SIZES), seed=1)
joined_loss = pretrain(joined, 1)[-20:].mean()
FLOOR = 2.5 * np.log(8) / 11
print(f"the loss: joined {joined_loss:.2f}, ELMo {elmo_losses[1]:.2f}; no model that has not seen "
      f"its answers is below {FLOOR:.2f}")
assert joined_loss < 0.5 * FLOOR, "the joined model has a loss that cannot be"
assert min(elmo_losses.values()) > FLOOR, "ELMo's loss can be"

# %% [markdown]
# The joined model's loss is far below ELMo's. It is also below what is *possible*. Each clue is one
# of eight words that are equally likely, whatever else is known; so is the name. Such a word costs
# at least ln 8. Over the 11 predictions of a text, the left direction pays at least 2 ln 8 (two
# clues), the right direction 3 ln 8 (the name too). The mean is 2.5 ln 8 / 11.
#
# A loss below the floor has one explanation: the answer was seen. We look who sees whom, by
# changing one word at a time.

# %%
def who_sees_whom(model):
    """-> {direction: (T,T) boolean: does a row's top state move when a column's word changes?}"""
    ids, _ = texts(1, np.random.default_rng(7))
    states = model.directions(ids, grad=False)[1:3]
    moved = np.zeros((2, T, T), bool)
    for place in range(T):
        other = ids.copy()
        other[:, place] = (other[:, place] + 1) % V
        after = model.directions(other, grad=False)[1:3]
        for direction in (0, 1):
            difference = after[direction][-1] - states[direction][-1]
            moved[direction, :, place] = np.abs(difference)[0].max(axis=-1) > 1e-7
    return dict(zip(("left", "right"), moved, strict=True))


of_elmo, of_joined = who_sees_whom(elmo[1]), who_sees_whom(joined)
for name, offset in (("left", 1), ("right", -1)):  # where the answer of a place stands
    seen = [np.diagonal(of[name], offset).mean() for of in (of_elmo, of_joined)]
    print(f"from the {name}: answers that are seen: ELMo {seen[0]:.0%}, joined {seen[1]:.0%}")
    assert seen == [0, 1], "ELMo predicts what it has not seen, the joined model sees each answer"

# %%
sees_figure, panels = plot.plt.subplots(1, 3, figsize=(11, 4.2), sharey=True)
for panel, title, moved, offset in zip(
    panels, ("ELMo, from the left", "ELMo, from the right", "joined, from the left"),
    (of_elmo["left"], of_elmo["right"], of_joined["left"]), (1, -1, 1), strict=True,
):
    panel.imshow(moved, cmap="Blues", vmin=0, vmax=1.6)
    columns = np.flatnonzero((np.arange(T) >= offset) & (np.arange(T) < T + offset))
    panel.plot(columns, columns - offset, "rs", markersize=6, label="its answer")
    panel.set(title=title, xlabel="this word is changed")
panels[0].set_ylabel("this state moves")
panels[0].legend(loc="upper right")
plot.save(sees_figure, "25_who_sees_whom.png")

# %% [markdown]
# The leak takes two layers. The first layer from the right has read the next word and passes it on
# in its state; the second layer from the left reads that state. What is such a model worth? We hide
# the later text, as it is hidden when a text is written.

# %%
def loss_of_next_word(model):
    """The mean loss of each word, when only the words before it are given."""
    ids, _ = texts(300, np.random.default_rng(8))
    losses = []
    for place in range(1, T):
        left = model.directions(ids[:, :place], grad=False)[1][-1]
        loss, _ = ops.cross_entropy_forward(left[:, -1] @ model.head.value.T, ids[:, place])
        losses.append(loss)
    return np.mean(losses)


next_elmo, next_joined = loss_of_next_word(elmo[1]), loss_of_next_word(joined)
print(f"next word: ELMo {next_elmo:.2f}, joined {next_joined:.2f}, guessing {np.log(V):.2f}")
assert next_joined > next_elmo + 2, "the joined model has not learned to predict"

# %% [markdown]
# It predicts about as badly as a guess among all words: it has learned to copy. There are three
# ways out: two separate directions (ELMo), one direction only (GPT), or both sides with the answer
# covered (BERT).
#
# ## 5. The mix of layers, forward and backward
#
# A task reads one vector for each word, and ELMo has three: the table's $h_0$ (twice, side by side,
# to be as wide as the others), and the states $h_1$ and $h_2$ of the layers. The paper mixes them
# (equation 1), with a number $s_j$ for each layer and one number $\gamma$ for the size:
#
# $$
# E = \gamma \sum_j p_j h_j, \qquad p = \text{softmax}(s)
# $$
#
# These four numbers are learned *with the task*. Small sizes: three layers, four words, width two.

# %%
def mixed(layers, s, gamma):
    e = np.exp(s)
    p = e / e.sum()
    weighed = p[0] * layers[0] + p[1] * layers[1] + p[2] * layers[2]
    out = gamma * weighed
    return out


def mixed_backward(dout, v):
    # out = gamma * weighed: one gamma for all numbers, so all of them add to its gradient
    dgamma = np.array([(dout * v.weighed).sum()])
    dweighed = v.gamma * dout
    # weighed = the sum of p[j] * layers[j]: a number times an array
    dp = np.array([(dweighed * layer).sum() for layer in v.layers])
    dlayers = v.p[:, None, None] * dweighed
    # p = softmax(s), lesson 00
    ds = v.p * (dp - v.p @ dp)
    return dlayers, ds, dgamma


drawn = np.random.default_rng(9)
layers, s, gamma = drawn.normal(size=(3, 4, 2)), drawn.normal(size=3), np.array([1.7])
mix_results = lines.check(mixed, mixed_backward, layers, s, gamma)
assert all(result.error < 1e-6 for result in mix_results), "every line is right"

# %% [markdown]
# **Collapse.** Write G for `dout`, m for the weighed sum $\sum_k p_k h_k$, and $\langle A, B
# \rangle$ for the sum of all products of two arrays. Then $dp_j = \gamma \langle G, h_j \rangle$,
# and softmax takes off $\sum_k p_k dp_k = \gamma \langle G, m \rangle$:
#
# $$
# \frac{\partial L}{\partial s_j} = \gamma \, p_j \, \langle G, h_j - m \rangle, \qquad
# \frac{\partial L}{\partial \gamma} = \langle G, m \rangle
# $$
#
# G points to where the loss grows. So a layer gains weight if it differs from the mix *in a
# direction in which the loss falls*. The gradients of the $s_j$ sum to 0: adding one number to all
# of them changes nothing.
#
# **A trap.** All $s_j$ begin at 0, so all $p_j$ are 1/3. Suppose somebody writes the plain mean of
# dp for `p @ dp`. At equal weights the two are the same, and a check of a fresh model is happy.

# %%
upstream = np.random.default_rng(10).normal(size=(4, 2))
for name, scores in (("s = 0", np.zeros(3)), ("s drawn", s)):
    p = np.exp(scores) / np.exp(scores).sum()
    m = np.tensordot(p, layers, 1)
    ds = gamma * p * [(upstream * (layer - m)).sum() for layer in layers]
    dp = gamma * [(upstream * layer).sum() for layer in layers]
    off = np.abs(p * (dp - dp.mean()) - ds).max()
    print(f"{name:8} gradient {ds.round(3)}, sum {ds.sum():.0e}; the mistake is off by {off:.0e}")
    assert abs(ds.sum()) < 1e-12, "the gradients of the scores sum to 0"
    assert (off < 1e-12) == (name == "s = 0"), "the mistake shows only away from the start"

# %% [markdown]
# ## 6. Which layer does a task weigh?
#
# Two tasks, each with 300 labelled texts. One is about the **word itself**: list A is half of the
# vocabulary, drawn by chance; is the word at place 3 in it? The other is about the **sense**: has
# this bank water or money? A linear map reads the mix at the word in question. ELMo stays frozen:
# only the map and the four numbers of the mix learn. (`own_cells` is for section 8.)

# %%
from minigpt.nn import Linear, Module


class Reader(Module):
    """Two scores from two states. own_cells: a layer of cells, new for the task, reads first."""

    def __init__(self, left, right, seed, own_cells=False):
        rng = np.random.default_rng(seed)
        self.left, self.right, self.own_cells = left, right, own_cells  # places
        self.scores = Linear(64, 2, rng, 0.02)
        self.cells = Recurrence(ELMoConfig(**SIZES | {"n_embd": 64}), rng, np.float32)

    def forward(self, h):
        states, cells = self.cells.forward(h, Memory()) if self.own_cells else (h, None)
        both = np.concatenate([states[:, self.left, :32], states[:, self.right, 32:]], axis=-1)
        out, scores = self.scores.forward(both)
        return out, (scores, cells, h)

    def backward(self, dout, cache):
        dboth, dstates = self.scores.backward(dout, cache[0]), np.zeros_like(cache[2])
        dstates[:, self.left, :32], dstates[:, self.right, 32:] = dboth[:, :32], dboth[:, 32:]
        return self.cells.backward(dstates, cache[1]) if self.own_cells else dstates


print("it reads the left direction at one place, and the right direction at another")

# %%
from copy import deepcopy


def learn(model, reader, task, seed, frozen, rate, steps=120):
    """Teach a reader a task (ids, labels), and a copy of the model too if it is not frozen."""
    ids, labels = task
    model = deepcopy(model)
    learned = model.mix if frozen else model
    backward = model.frozen_backward if frozen else model.hidden_backward

    def update(step):
        some = np.random.default_rng([seed, step]).integers(len(ids), size=32)
        h, cache = model.hidden(ids[some])
        scores, reading = reader.forward(h)
        loss, ce = ops.cross_entropy_forward(scores, labels[some])
        backward(reader.backward(ops.cross_entropy_backward(1.0, ce), reading), cache)
        return float(loss)

    descend([*reader.named_parameters(), *learned.named_parameters()], update, steps, rate)
    return model


print("frozen: the gradient stops at the mix; not frozen: it goes on into cells and table")

# %%
def share_right(model, reader, task):
    """The share of right answers."""
    h, _ = model.hidden(task[0], grad=False)
    return (reader.forward(h)[0].argmax(axis=-1) == task[1]).mean()


LIST_A = np.random.default_rng(11).permutation(V) < V // 2
weights = {}
for seed in SEEDS:
    for name, place in (("word", BEFORE), ("sense", HERE)):
        tasks = []
        for number in (12, 13):  # the labelled texts, and new ones
            ids, sense = texts(300, np.random.default_rng([number, seed]), bank=1)
            tasks.append((ids, sense if name == "sense" else LIST_A[ids[:, BEFORE]].astype(int)))
        reader = Reader(place, place, seed)
        model = learn(elmo[seed], reader, tasks[0], seed, frozen=True, rate=3e-2, steps=200)
        e = np.exp(model.mix.s.data)
        weights[name, seed], known = e / e.sum(), share_right(model, reader, tasks[1])
        print(f"{name:5} seed {seed}: right {known:4.0%}, weights of the table and the layers 1 "
              f"and 2: {weights[name, seed].round(2)}")
        assert known > 0.8, "the task is learned from frozen states"
    assert weights["word", seed][0] > 0.6, "the word itself: the table"
    assert weights["sense", seed][0] < 0.33, "the sense: not the table"

# %% [markdown]
# The word itself is read from the table, the sense from the cells, for each seed. The mix finds
# this without help.
#
# **Not shown here**: a difference between the layers 1 and 2. Our seeds do not agree on which of
# them tells the sense. The paper has one, with one layer at a time: the second is better at senses
# (F1 69.0 against 67.4, table 5), the first at parts of speech (97.3 % against 96.8 %, table 6).
# Both differences are small. The weights that the paper's tasks learned do not show "syntax low,
# sense high", as is often told: at the input, they favour the first layer (figure 2, section 5.5).
#
# ## 7. Check, the trap of the second direction, and the library
#
# At place t the direction from the right has read the words from t to the end. It must predict the
# word *before* t. Somebody who turns the text around but not the targets gives it the word *behind*
# t, which it has just read. Each gradient is right, and the loss looks very good.

# %%
def mistake(ids):
    """The right direction gets the targets of the left one."""
    return neighbours(ids)[0], neighbours(ids)[0]


mistaken = ELMo(ELMoConfig(**SIZES), seed=1)
mistaken_loss = pretrain(mistaken, 1, mistake, steps=200)[-20:].mean()
small = ELMo(ELMoConfig(**TINY), seed=0, dtype=np.float64)
small_check = gradcheck.worst(gradcheck.check_model(small, tiny_ids, behind, previous=behind))
sees_target = np.diagonal(who_sees_whom(mistaken)["right"], 1).mean()
print(f"with the mistake: the worst error of a gradient is {small_check.error:.0e}")
print(f"the loss {mistaken_loss:.2f} (the floor is {FLOOR:.2f}); "
      f"targets that are seen: {sees_target:.0%}")
assert small_check.error < 1e-6, "a gradient check cannot find a wrong target"
assert mistaken_loss < 0.9 * FLOOR and sees_target == 1, "the floor and who sees whom find it"

# %% [markdown]
# A gradient check compares the backward pass with the forward pass. It does not know what the
# forward pass *should* see. Two checks find such leaks: a floor of the loss, where one is known,
# and the test of who sees whom at the place of the answer.
#
# In the library, `both_directions` makes the targets, and the mix has the lines of section 5:
#
#     # minigpt/models/family/elmo.py
#     # mixed = sum(share * layer)
#     dshares = xp.stack([(dmixed * layer).sum() for layer in layers])
#     accumulate(self.s, ops.softmax_backward(dshares, cache.pop("softmax")))
#     return [share * dmixed for share in shares]

# %%
from minigpt.data.objectives import both_directions
from minigpt.models.family.elmo import WeighedLayers

mix = WeighedLayers(3, np.float64)
mix.s.data[:], mix.gamma.data[:] = s, gamma
_, mix_cache = mix.forward(list(layers))
mix.backward(upstream, mix_cache)
batch = both_directions(np.pad(tiny_ids, ((0, 0), (0, 1))), None)
same = [np.array_equal(batch.targets, behind), np.array_equal(batch.previous, before)]
print("the gradient of s:", mix.s.grad.round(3), "by hand:", ds.round(3), "; targets:", *same)
assert np.allclose(mix.s.grad, ds) and all(same), "the library computes the same"

# %% [markdown]
# ## 8. Frozen, or fine-tuned?
#
# ELMo does not change in a task. ULMFiT and GPT-1 let the *whole* pre-trained model learn with the
# labels (lesson 13). Which is better? Two tasks with only 32 labelled texts. In the test, all clues
# are words that no labelled text has.
#
# - **sense**: does the text speak of water or of money?
# - **fits**: the two clues are drawn independently. Do they fit together? This is new: in the texts
#   of the pre-training they always did.
#
# The first way is a linear map on frozen vectors, read at the last place from the left and at the
# first from the right. The paper does more: it gives the vectors to a network that is made for the
# task. So in the second way a layer of new cells reads them first. The third is fine-tuning, with
# the linear map. The last is the control of lesson 14: the same from fresh weights.

# %%
def sense_task(n, rng, clues):
    return texts(n, rng, None, clues, bank=1)


def fits_task(n, rng, clues):
    ids, first = texts(n, rng, "both", clues, bank=1)
    others, second = texts(n, rng, "both", clues, bank=1)
    ids[:, AFTER] = others[:, AFTER]
    return ids, (first == second).astype(int)


for row, label in zip(*fits_task(3, np.random.default_rng(15), (0, 8)), strict=True):
    print("fits:   " if label else "does not:", " ".join(VOCABULARY[i] for i in row))
new_numbers = [sum(p.data.size for p in module.parameters())
               for module in (Reader(0, 0, 0).scores, Reader(0, 0, 0))]
print(f"new for a task: {new_numbers[0]} numbers, or {new_numbers[1]:,} with cells of its own")
assert new_numbers[0] == 130, "a linear map of 64 numbers to two scores"

# %%
WAYS = {  # pre-trained? own cells? frozen? the rate
    "frozen, linear": (True, False, True, 1e-2),
    "frozen, own cells": (True, True, True, 1e-2),
    "fine-tuned, linear": (True, False, False, 2e-3),
    "fresh weights, linear": (False, False, False, 2e-3),
}
tuned = {}
for task_name, task in (("sense", sense_task), ("fits", fits_task)):
    for way, (pretrained, own_cells, frozen, rate) in WAYS.items():
        tuned[way, task_name] = []
        for seed in SEEDS:
            reader = Reader(-1, -1 if own_cells else 0, seed, own_cells)
            start = elmo[seed] if pretrained else ELMo(ELMoConfig(**SIZES), seed=seed + 10)
            labelled = task(32, np.random.default_rng([16, seed]), (0, 4))
            model = learn(start, reader, labelled, seed, frozen, rate)
            test = task(400, np.random.default_rng([17, seed]), (4, 8))
            tuned[way, task_name].append(share_right(model, reader, test))
        print(f"{task_name:5} {way:22}", *(f"{part:4.0%}" for part in tuned[way, task_name]))

# %%
mean = {key: np.mean(shares) for key, shares in tuned.items()}
linear, own, fine, fresh = WAYS
print(f"on the sense: frozen {mean[linear, 'sense']:.0%}, fine-tuned {mean[fine, 'sense']:.0%}")
assert mean[linear, "sense"] > 0.9, "the sense can be read from frozen states"
assert mean[linear, "fits"] < 0.85, "whether clues fit cannot, by a linear map"
for task_name in ("sense", "fits"):
    assert mean[own, task_name] > 0.9, "with own cells both tasks are solved"
    assert mean[fine, task_name] > mean[fresh, task_name] + 0.2, "pre-training is what helps"
assert mean[fine, "fits"] > mean[linear, "fits"] + 0.1, "the whole model must learn, or new cells"
assert mean[fine, "sense"] < mean[linear, "sense"] + 0.05, "no better than frozen on the sense"

# %% [markdown]
# 1. **Frozen, linear.** What pre-training needed, the sense, stands in the states. Whether two
#    clues fit was never needed. It depends on two things at once ("both water or both money"), and
#    no weighted sum of two independent answers can tell it: the XOR problem.
# 2. **Frozen, own cells.** The new cells compute what is missing. So here frozen vectors *are*
#    enough, for those who build a network for each task. That is ELMo's way.
# 3. **Fine-tuned.** The model computes what is missing in its own cells, and only 130 numbers are
#    new. That is GPT-1's argument: one model, and hardly anything new for a task.
# 4. **Fresh weights.** All can learn, and the test stays near a guess: of the new clues this model
#    knows nothing. So it is the pre-training that helped in row 3.
#
# On the sense, fine-tuning is not better than frozen vectors, and here a little worse: with 32
# texts a whole model can also fit what they have by chance. ULMFiT has three precautions (section
# 3): smaller rates for lower layers (divided by 2.6 from one layer to the next below); a rate that
# rises and then falls; layers that begin to learn one after the other, the top one first. GPT-1 has
# warm-up, and keeps the loss of the language model as a second loss (lesson 13).
#
# **Was it wrong to freeze?** Peters, Ruder and Smith (2019) compare both ways on real tasks. Which
# is better depends, they find, on how similar pre-training and task are. Our two tasks are a small
# picture of this. Why the field went GPT-1's way, no experiment here shows.

# %% [markdown]
# ## 9. Paper and code
#
# - **"ELMo sees both sides."** Its vectors do, its states do not (section 4). The paper's name is
#   bidirectional language model.
# - **Characters.** The released model makes $h_0$ from a word's characters, by convolutions and two
#   highway layers (exercise 1), so a new word has a vector too. The library reads tokens.
# - **Cells.** The released model projects its 4,096 cells to 512 numbers *before the next step
#   reads them*. Ours projects only what goes to the next layer, as in lesson 14.
# - **Softmax.** The released code draws 8,192 words for the loss in place of the whole vocabulary.
# - **Tasks.** The paper gives a task network a static vector and ELMo's, side by side, with
#   dropout, and in some cases a penalty on the weights of the layers (section 3.3).
# - **More text.** In some cases the authors trained the model further on a task's *text*, without
#   labels, before they froze it (section 3.4).
#
# ## 10. Exercises
#
# 1. `exercises/25_highway.py`: the backward of a highway layer.
# 2. `exercises/25_find_the_bug.py`: a second direction that is right for full rows only.
# 3. Fine-tune on both tasks with other rates: 2e-4, 5e-4, 1e-3 and 4e-3 in place of 2e-3. Does one
#    rate reach the frozen model on `sense`, and new cells on `fits`? What does that say about the
#    comparison of section 8?

# %%
print("lesson 25: every check is happy")
