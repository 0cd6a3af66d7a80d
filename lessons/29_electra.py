# %% [markdown]
# # Lesson 29: ELECTRA, a loss at every token
#
# You will train two networks at once: a small one fills covered words in, a larger one decides for
# each word whether it is the text's own. You will see why no gradient can pass a drawn word, and
# write the backward pass of the decision. Then you will take the loss away from five words of six.
# The model no longer finds a wrong word, but a control shows that the smaller number of words is
# not the cause. You will also see where a masked model is better, and a mistake in the labels that
# no gradient check finds.
#
# Reading: 25 minutes for the core, 75 minutes for all of it. Running: 50 to 120 seconds. Before it:
# lessons 02, 20 and 26.
#
# Paper: Clark, Luong, Le and Manning 2020 (ELECTRA, arXiv 2003.10555), sections 2, 3.2 and 3.5.

# %% [markdown]
# ## 1. Why: most words of a text teach BERT nothing directly
#
# BERT covers 15 % of the words and predicts those (lesson 26). It reads all the others, but they
# have no part in its loss. To cover more words is no way out, for then too little is left to read.
#
# ELECTRA's claim: **from the same number of operations, a loss at every word learns more than a
# loss at 15 % of them.** This lesson tests it. Our texts are songs. A song has a line of six words,
# and sings it three times. A name, a colour and a thing are drawn by chance.

# %%
import numpy as np

from minigpt import ops, plot
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
KINDS = {
    "name": "Anna Ben Emma Lily Max Mia Sam Tom".split(),
    "colour": "black blue brown green grey pink red white".split(),
    "thing": "ball bell boat book drum hat kite lamp".split(),
}
SONG = "name has a colour thing .".split() * 3
VOCABULARY = ["_mask_", "has", "a", ".", *sum(KINDS.values(), [])]
ID = {word: i for i, word in enumerate(VOCABULARY)}
OF_KIND = {kind: np.array([ID[word] for word in words]) for kind, words in KINDS.items()}
MASK, IGNORED, V, T = 0, ops.IGNORED, len(VOCABULARY), len(SONG)
DRAWN = np.array([place for place, word in enumerate(SONG) if word in KINDS])
print(f"{V} words, songs of {T} words, of which {len(DRAWN)} are names, colours and things")

# %%
def songs(n, rng):
    """-> ids (n,T) of songs"""
    words = {kind: rng.choice(ids, size=n) for kind, ids in OF_KIND.items()}
    # a name, a colour and a thing are drawn once for a song; all other words are always the same
    return np.stack([words[w] if w in KINDS else np.full(n, ID[w]) for w in SONG], axis=1)


def cover(ids, rng, rate=0.15):
    """ids (B,T) -> covered (B,T), the mask at 15 % of the places (3 of 18), and targets (B,T)"""
    first = rng.random(ids.shape).argsort(axis=1)[:, :round(rate * T)]  # 3 places
    chosen = np.zeros(ids.shape, bool)
    np.put_along_axis(chosen, first, True, axis=1)
    return np.where(chosen, MASK, ids), np.where(chosen, ids, IGNORED)


def read(row):
    return " ".join(VOCABULARY[i] for i in row)


EXAMPLE = songs(16, np.random.default_rng(0))
COVERED, TARGETS = cover(EXAMPLE, np.random.default_rng(1))
print(read(EXAMPLE[0]))
print(read(COVERED[0]))

# %% [markdown] tags=["deeper"]
# ## 2. The difference in five questions
#
# | question | BERT | ELECTRA |
# |---|---|---|
# | who sees whom? | each token all | the same |
# | what is covered? | 15 %, by a mask | 15 %, then **filled in by a small generator** |
# | what is predicted? | the covered tokens | **of each token: is it the text's own?** |
# | what is shared? | the token table is the head | **two networks share their tables** |
# | where does position enter? | a table, at the input | the same, one for both networks |

# %% [markdown]
# ## 3. Forward: cover, draw, decide
#
# The task is called *replaced token detection*. Two networks are trained together:
#
# - The *generator* is a small BERT. It predicts the covered words.
# - For each covered place, a word is drawn from these predictions. Now the text has some wrong
#   words.
# - The *discriminator* reads this text and gives each word a score: above 0 for "replaced".
#
# After the training the generator is thrown away. The discriminator is the model, and is
# fine-tuned. Unlike BERT it is not trained on masks, which no later task has.
#
# How is a word drawn? Line the probabilities up from 0 to 1 and let a chance number fall on the
# line. With the probabilities 0.5, 0.3 and 0.2:
#
#     0           0.5     0.8    1.0
#     |  word 0    | word 1 | word 2 |
#
# The numbers 0.5, 0.8 and 1.0 are the cumulative sums. A chance number of 0.6 lies above one of
# them, so it draws word 1: the word is the number of cumulative sums that lie at or below it.

# %% tags=["hide-input"]
d = plot.Diagram(9.4, 5.0, "ELECTRA: two networks, and a drawn word between them")
ROWS = {0.5: "Mia has a _mask_ hat", 2.6: "Mia has a green hat"}
for y, text in ROWS.items():
    for i, word in enumerate(text.split()):
        wrong = word in ("_mask_", "green")
        d.box(2.6 + 1.2 * i, y, word, width=1.1, color="tab:orange" if wrong else "tab:blue")
d.box(5.0, 1.4, "generator: a small BERT", width=5.9, color="gray")
d.box(5.0, 3.5, "discriminator: the model", width=5.9)
d.arrow((6.2, 1.7), (6.2, 2.3), color="tab:orange")
d.text(7.75, 2.0, "a word is drawn: no gradient", color="tab:red")
for i, word in enumerate(ROWS[2.6].split()):
    x, is_wrong = 2.6 + 1.2 * i, word == "green"
    for y in (0.8, 2.9, 3.8):
        d.arrow((x, y), (x, y + 0.3))
    d.text(x, 4.4, "replaced" if is_wrong else "original", "tab:red" if is_wrong else "black")
d.text(0.95, 4.4, "loss at each word")
d.text(0.95, 1.4, "loss at the mask")
plot.save(d.figure, "29_two_networks.png")

# %%
from minigpt.models.family.electra import ELECTRA, ELECTRAConfig

SIZES = {"vocab_size": V, "n_positions": T, "n_embd": 64, "n_layer": 2, "n_head": 4}
SIZES |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
SIZES |= {"initializer_range": 0.07}  # 0.02 sqrt(768 / 64)


def new_electra(seed, **sizes):
    """The generator has one head of four, a quarter of the width; the shared tables are 64 wide."""
    sizes = SIZES | {"embedding_size": 64, "generator_heads": 1} | sizes
    return ELECTRA(ELECTRAConfig(**sizes), seed=seed)


def draw(p, chance):
    """p (*,V), chance (*) uniform in 0 to 1 -> words (*)"""
    return (p.cumsum(axis=-1) <= chance[..., None]).sum(axis=-1)


p_small = np.array([0.5, 0.3, 0.2])
drawn_small = draw(np.tile(p_small, (20_000, 1)), np.random.default_rng(2).random(20_000))
shares = np.bincount(drawn_small, minlength=3) / 20_000
print("probabilities", p_small, "drawn", shares.round(3))
assert np.abs(shares - p_small).max() < 0.015, "each word as often as its probability says"

# %%
def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def fill_in(logits, ids, targets, rng):
    """logits (B,T,V) of the generator -> the text (B,T), with a drawn word at each covered place"""
    words = draw(softmax(logits), rng.random(ids.shape)).clip(max=V - 1)
    return np.where(targets == IGNORED, ids, words)


fresh = new_electra(1)
logits, _ = fresh.generator.forward(COVERED, grad=False)
seen = fill_in(logits, EXAMPLE, TARGETS, np.random.default_rng(3))
replaced = (seen != EXAMPLE).astype(int)
for row in (0, 1):
    print("covered: ", read(COVERED[row]))
    print("filled in", read(seen[row]))
    print("labels:  ", *replaced[row])

# %%
places_figure, panels = plot.plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
with_a_loss = {"BERT": TARGETS != IGNORED, "ELECTRA": np.ones(seen.shape, bool)}
for panel, (name, has_loss), dark in zip(panels, with_a_loss.items(), (0, replaced), strict=True):
    panel.imshow(has_loss + 2.0 * dark, cmap="Blues", vmin=0, vmax=3.5)  # replaced words are dark
    n_words = f"{has_loss[0].sum()} of {T}"
    panel.set(title=f"{name}: {n_words} words have a loss ({has_loss.mean():.0%})", xlabel="place")
    panel.grid(False)
panels[0].set_ylabel("song")
plot.save(places_figure, "29_places.png")
assert with_a_loss["BERT"].mean() == 3 / 18, "3 of 18 words"

# %% [markdown]
# Blue words have a loss. In the second picture the replaced words are dark. (15 % of 18 words are
# 2.7; rounded, 3 words are covered, which is 17 %.) A fresh generator may even draw `_mask_`: for
# it, that is a word like any other, and section 7 shows that it stops.
#
# Look at the label: a word is "replaced" if it **differs** from the text's own. If the generator
# draws the right word by chance, the label is 0, "original": for the discriminator the two texts
# are the same. The loss is the sum of two:
#
# $$
# L = L_G + 50 \, L_D
# $$
#
# $L_G$ is BERT's loss, the mean over the covered words. $L_D$ is the mean over *all* words of the
# cross-entropy of the decision. (The paper's factor 50: section 10.)

# %% [markdown]
# ## 4. Backward: what cannot pass a drawn word
#
# The generator's probabilities decide what the discriminator reads. So does its loss have a
# gradient with respect to them? We take a vocabulary of five words, and give each a made-up loss
# $\ell$: the loss of the discriminator if this word is drawn. The *expected* loss is smooth, for a
# word becomes likelier bit by bit:
#
# $$
# E(z) = \sum_k p_k \ell_k, \qquad \frac{\partial E}{\partial z_k} = p_k (\ell_k - E)
# $$
#
# **Guess:** we draw 1,000 words, and compute for each the slopes of *its* loss with respect to the
# five logits z, by finite differences. How many of these 5,000 slopes are not zero?

# %%
LOSS_OF_WORD = np.array([0.3, 1.2, 0.6, 2.0, 0.9])
Z = np.array([0.5, -0.2, 0.1, -1.0, 0.3])


def drawn_loss(z, chance):
    """The loss of the word that is drawn."""
    return LOSS_OF_WORD[draw(softmax(z), chance)]


def expected(z):
    return softmax(z) @ LOSS_OF_WORD


def slope(f, eps=1e-6):
    """Finite differences of f at Z, for each logit"""
    return np.array([(f(Z + step) - f(Z - step)) / (2 * eps) for step in eps * np.eye(5)])


chances = np.random.default_rng(4).random(1000)
slopes = slope(lambda z: drawn_loss(np.tile(z, (1000, 1)), chances))
print(f"1,000 draws, 5 logits: {np.count_nonzero(slopes)} slopes are not zero")
print("slope of the expectation:", slope(expected).round(3))
# 5,000 slopes; a chance number within a step of 1e-6 of a cumulative sum is very rare, not excluded
assert np.count_nonzero(slopes) <= 5, "a small step changes no drawn word"
assert np.allclose(slope(expected), softmax(Z) * (LOSS_OF_WORD - expected(Z)), atol=1e-7), "formula"

# %% [markdown] tags=["answer"]
# None. "Most of them" is tempting, since the expected loss has a slope in each direction. But a
# step of a millionth changes no drawn word, and so no loss.

# %% tags=["hide-input"]
moved = np.linspace(-3, 4, 400)
logits_moved = np.tile(Z, (400, 1))
logits_moved[:, 3] = moved
draw_figure, axes = plot.plt.subplots(figsize=(9, 4))
for chance in (0.25, 0.55, 0.8):
    loss = drawn_loss(logits_moved, np.full(400, chance))
    axes.plot(moved, loss, drawstyle="steps-mid", label=f"chance number {chance}")
axes.plot(moved, expected(logits_moved), "k", linewidth=3, label="expected")
axes.set(xlabel="logit of word 3", ylabel="loss", ylim=(0, 2.7),
         title="The loss of a drawn word: flat, with jumps")
axes.legend(ncols=2, fontsize=11, loc="upper left")
plot.save(draw_figure, "29_draw.png")

# %% [markdown]
# The drawn word is a step function: a small step of the logits changes nothing, a larger one jumps
# from one word to another. Backpropagation multiplies slopes along a path (lesson 00), and here the
# slope is 0. So **no gradient passes the draw**. The expected loss does have a gradient. It could
# be estimated from many draws: that is reinforcement learning (lesson 33).
#
# **ELECTRA is not a GAN**, although popular texts say so. In a GAN the generator is trained to
# *deceive* the discriminator: it would follow the gradient of the expected loss upwards. ELECTRA's
# generator is trained by maximum likelihood, to be right. The paper also tried the adversarial way,
# by reinforcement learning, and it was worse (section 3.2).
#
# The **decision** has a gradient: for one score s, the probability of "replaced" is the sigmoid
# $\sigma(s) = 1 / (1 + e^{-s})$. With labels y (1: replaced, 0: original) and n words, the mean
# cross-entropy is
#
# $$
# L_D = \frac{1}{n} \sum_t \left( \log(1 + e^{s_t}) - y_t s_t \right)
# $$
#
# **Your turn:** write the gradient of 50 L_D with respect to all n scores.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

four_scores, four_labels = np.array([2.0, -1.0, 0.5, -3.0]), np.array([1, 0, 0, 1])


def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def your_dscores(s, y, n):
    return ...  # 50 L_D = 50 / n * sum(log(1 + exp(s)) - y * s)


slopes_of_loss = numeric(lambda s: 50 / 4 * (np.log1p(np.exp(s)) - four_labels * s), four_scores)
gap.judge(your_dscores, four_scores, four_labels, 4, expected=slopes_of_loss)

# %% [markdown] tags=["answer"]
# `50 / n * (sigmoid(s) - y)`: the derivative of log(1 + e^s) is the sigmoid, that of y s is y. It
# is "probability minus target" again, as in lesson 02.

# %% [markdown] tags=["deeper"]
# ### Two networks, one table
#
# A test: do the generator's gradients differ between the whole loss and $L_G$ alone?

# %%
def gradients(network):
    """The gradients of a network's own loss, by the names that they have in the whole model"""
    fresh.zero_grad()
    _, cache = network.loss(COVERED, TARGETS)
    network.loss_backward(cache)
    return {name: 0 if p.grad is None else p.grad.copy() for name, p in fresh.named_parameters()}


whole, alone = gradients(fresh), gradients(fresh.generator)
differs = {name: not np.allclose(whole[name], alone[name]) for name in whole}
own = [name for name in differs if name.startswith("generator.")]
tables = [name for name in differs if name.startswith(("tokens", "positions"))]
print(f"the generator's own {len(own)} parameters: {sum(differs[name] for name in own)} differ")
print("shared, and differ:", *(name for name in tables if differs[name]))
assert not any(differs[name] for name in own), "the generator's own weights do not know L_D"
assert all(differs[name] for name in tables), "the tables belong to both"

# %% [markdown]
# Only the tables get both gradients, for both networks read them: they are added (lesson 01). Why
# share them? The discriminator alone would update the rows of those words only that stand in the
# text; the generator's softmax updates all rows (section 3.2).
#
# Now the decision, line by line. The sigmoid of a score s is the second number of the softmax of
# the pair (0, s). So the library has no new operation for it: a constant 0 is put before each
# score, and the rest is a cross-entropy of two classes.

# %%
from minigpt.learn import lines


def decide(h, w, c, labels):
    score = h @ w + c
    zero = np.zeros_like(score)
    pairs = np.stack([zero, score], axis=-1)
    loss, ce = ops.cross_entropy_forward(pairs, labels)
    out = 50 * loss
    return out


print("the score 2: softmax of (0, 2) is", softmax(np.array([0.0, 2.0])).round(3))

# %%
def decide_backward(dout, v):
    # out = 50 * loss
    dloss = 50 * dout
    # loss = cross_entropy(pairs, labels)
    dpairs = ops.cross_entropy_backward(dloss, v.ce)
    # pairs = np.stack([zero, score], axis=-1): the constant needs no gradient
    dscore = dpairs[..., 1]
    # score = h @ w + c
    dh = np.outer(dscore, v.w)
    dw = v.h.T @ dscore
    dc = dscore.sum(keepdims=True)
    return dh, dw, dc


drawn = np.random.default_rng(6)
h, w, c = (drawn.normal(size=shape) for shape in ((7, 3), (3,), (1,)))
labels = np.array([0, 0, 1, 0, 0, 1, 0])
decide_results = lines.check(decide, decide_backward, h, w, c, labels)
assert all(result.error < 1e-8 for result in decide_results), "every line is right"

# %% [markdown]
# **Collapse.** The softmax of (0, s) is $(1 - \sigma(s), \sigma(s))$. A cross-entropy's gradient is
# "probability minus target" (lesson 02). For the second of the pair that is, with the factor 50,
#
# $$
# \frac{\partial (50 \, L_D)}{\partial s_t} = \frac{50}{n} (\sigma(s_t) - y_t)
# $$

# %%
scores = h @ w + c
two_way, ce = ops.cross_entropy_forward(np.stack([0 * scores, scores], axis=-1), labels)
by_cross_entropy = ops.cross_entropy_backward(50.0, ce)[..., 1]
by_sigmoid = 50 / 7 * (1 / (1 + np.exp(-scores)) - labels)
print("gradient of the scores:", by_sigmoid.round(2))
assert np.allclose(by_cross_entropy, by_sigmoid), "one and the same gradient"
assert abs(two_way - (np.log1p(np.exp(scores)) - labels * scores).mean()) < 1e-12, "the same loss"

# %% [markdown] tags=["deeper"]
# ## 5. Check
#
# Can the whole model be checked by finite differences, if a step may change a drawn word? Yes, if
# the draw is fixed: the same key gives the same chance numbers, and a step of 1e-5 almost never
# moves a word. The check says nothing about the draw and the labels. Remember that for section 7.

# %%
from minigpt import gradcheck

TINY = {"n_embd": 8, "n_layer": 1, "n_head": 2, "embedding_size": 6, "initializer_range": 0.3}
tiny = ELECTRA(ELECTRAConfig(**SIZES | TINY, generator_heads=1), seed=1, dtype=np.float64)
results = gradcheck.check_model(tiny, COVERED[:2], TARGETS[:2])
worst = gradcheck.worst(results)
print(f"{len(results)} parameters of both networks: the worst error is {worst.error:.0e}")
assert worst.error < 1e-7, "the backward pass is right"

# %% [markdown]
# ## 6. The claim, first half: every word, or the covered ones
#
# The deeper parts train two models. One has a loss at every word: it finds a wrong word in most
# songs. The other has a loss at the covered words alone: it only guesses. That looks like the
# paper's claim. But our weak generator mostly draws a wrong name, colour or thing. So at a covered
# word of these kinds the answer "replaced" is mostly right. We suspect that the second model gives
# it without reading the rest.
#
# The control: in half of the covered places the text's own word is put back. **The surprise: now
# the second model finds more than the first.** So it can learn from the covered words alone: the
# first result was a collapse of the second model, and not the paper's effect.

# %% [markdown] tags=["deeper"]
# ### The exam, the training, and a control
#
# The exam: 400 new songs, each with **one wrong word of the right kind**: a red kite that is a red
# boat in one of three lines. The model *finds* the wrong word if it has the highest score of all
# eighteen. Guessing among names, colours and things would find it in one song of nine.

# %%
def with_a_wrong_word(n, rng):
    """-> ids (n,T), and the place (n,) of the wrong word"""
    ids = songs(n, rng)
    places = rng.choice(DRAWN, size=n)
    for row, place in zip(ids, places, strict=True):
        same_kind = OF_KIND[SONG[place]]
        row[place] = rng.choice(same_kind[same_kind != row[place]])
    return ids, places


WRONG, WRONG_PLACES = with_a_wrong_word(400, np.random.default_rng(99))


def finds(model):
    """The share of songs in which the wrong word has the highest score."""
    return (model.replaced_scores(WRONG).argmax(axis=1) == WRONG_PLACES).mean()


print(read(WRONG[0]), "-> place", WRONG_PLACES[0])
print(f"the fresh model has the highest score there in {finds(fresh):.0%}")

# %% [markdown]
# We write the training out, so that three parts can be changed:
#
# - `judged`: at which words has the discriminator a loss?
# - `put_back`: in which part of the places is the text's own word put back, whatever was drawn?
#   (At none, until we say so.)
# - `rule`: which words have the label 1? Section 7 needs this.

# %%
def update(model, ids, rng, judged="all", put_back=0.0, rule="differs"):
    """Forward and backward of both networks -> both losses"""
    covered, targets = cover(ids, rng)
    model.zero_grad()
    logits, cache = model.generator.forward(covered)
    loss_g, ce_g = ops.cross_entropy_forward(logits, targets)
    seen = fill_in(logits, ids, targets, rng)
    seen = np.where(rng.random(ids.shape) < put_back, ids, seen)
    labels = ((seen != ids) if rule == "differs" else (targets != IGNORED)).astype(int)
    if judged == "covered":
        labels = np.where(targets == IGNORED, IGNORED, labels)
    h, body = model.hidden(seen)
    scores, head = model.words.forward(h)
    loss_d, ce_d = ops.cross_entropy_forward(np.stack([0 * scores, scores], axis=-1), labels)
    dscores = ops.cross_entropy_backward(50.0, ce_d)[..., 1]
    model.hidden_backward(model.words.backward(dscores, head), body)
    model.generator.backward(ops.cross_entropy_backward(1.0, ce_g), cache)
    return float(loss_g), float(loss_d)


loss_g, loss_d = update(new_electra(1), EXAMPLE, np.random.default_rng(0))
print(f"a fresh model: generator {loss_g:.2f} (ln {V} = {np.log(V):.2f}), "
      f"discriminator {loss_d:.2f} (ln 2 = {np.log(2):.2f})")

# %%
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine

B, STEPS, RATE, SEEDS = 32, 200, 3e-3, (1, 2)


def train(seed, steps=STEPS, **changes):
    """-> the model, and its curve of the exam"""
    model = new_electra(seed)
    optimizer = AdamW(model.named_parameters())
    curve = [finds(model)]
    for step in range(steps):
        rng = np.random.default_rng([seed, step])
        update(model, songs(B, rng), rng, **changes)
        optimizer.step(RATE * warmup_cosine(step / steps, 0.1), 1.0)
        if step % 40 == 39:
            curve.append(finds(model))
    return model, curve


print(f"{STEPS} updates of {B} songs")

# %%
RUNS = {"every word": "all", "covered words only": "covered"}
runs = {(name, seed): train(seed, judged=judged) for name, judged in RUNS.items() for seed in SEEDS}
for (name, seed), (_, curve) in runs.items():
    print(f"{name:18} seed {seed}: finds {curve[-1]:.0%}")

# %%
curve_figure, axes = plot.plt.subplots(figsize=(9, 4.4))
for (name, seed), (_, curve) in runs.items():
    axes.plot(range(0, STEPS + 1, 40), curve, "C0o-" if name == "every word" else "C1o-",
              label=name if seed == SEEDS[0] else None)
axes.axhline(1 / 9, color="gray", linestyle="--", label="guessing among nine words")
axes.set(xlabel="update", ylabel="wrong word found", ylim=(0, 1.05),
         title="The same operations, another loss")
axes.legend(fontsize=12)
plot.save(curve_figure, "29_every_word.png")
every, only = ([runs[name, seed][1][-1] for seed in SEEDS] for name in RUNS)
assert min(every) > 0.5, "a loss at every word: it finds the wrong word"
assert max(only) < 0.3, "the other does not"

# %% [markdown]
# The paper calls the second run "ELECTRA 15 %" (section 3.5): same networks, same draws, same
# operations, but a loss at the covered words only. Here it only guesses. In the paper it is by no
# means at a guess: it reaches 82.4 points on GLUE, and with a loss at every word 85.0. So this may
# be another effect.
#
# We suspect the generator, which is still weak. How often does it draw the right name, colour or
# thing after its training? If it mostly draws a wrong one, "replaced" is mostly the right answer
# there, and nothing need be compared.
#
# An intervention: at half of the places we put the text's own word back, so that more of the
# covered words are right. Nothing else changes.

# %%
some_covered, missing = cover(songs(400, np.random.default_rng(97)), np.random.default_rng(96))
of_kinds = (missing != IGNORED) & np.isin(np.arange(T), DRAWN)
for (name, seed), (model, _) in runs.items():
    guesses, _ = model.generator.forward(some_covered, grad=False)
    words = fill_in(guesses, some_covered, missing, np.random.default_rng(95))
    right = (words == missing)[of_kinds].mean()
    print(f"{name:18} seed {seed}: {right:.0%} of the drawn names, colours and things are right")
    assert right < 0.5, "most are wrong"

# %%
half = {}
for name, judged in RUNS.items():
    half[name] = [train(seed, judged=judged, put_back=0.5)[1][-1] for seed in SEEDS]
    drawn_wrong = [runs[name, seed][1][-1] for seed in SEEDS]
    print(f"{name:18} finds, as drawn:", *(f"{share:.0%}" for share in drawn_wrong),
          "  half put back:", *(f"{share:.0%}" for share in half[name]))
assert min(half["covered words only"]) > max(only) + 0.1, "without the collapse it learns"
assert min(half["covered words only"]) > max(half["every word"]), "and it is ahead now"

# %% [markdown]
# **The order has turned round.** With half of the words put back, a loss at the covered words alone
# finds more than a loss at every word. So what we saw first was a *collapse*: the 15 % had an easy
# answer that is no use. That was not the paper's effect, and our runs of 200 updates do not show
# the paper's effect. Why does the loss at every word find so little now? At most one word of twelve
# is replaced, so here "original" is an easy answer. (That is a guess.) What is shown, with two
# seeds: how much a loss at every word helps depends on how many of the covered words are right
# again.
#
# (A model with a loss at the covered words never judged the others. Is the exam unfair to it? So
# section 8 does without its answers, and reads its states by a linear map.)

# %% [markdown] tags=["deeper"]
# ## 7. The trap: labels that no check can doubt
#
# "Covered means replaced" is so natural that it is easily written: the label is 1 wherever a word
# was drawn. If the draw is right by chance, the label says "replaced" about the text's own word.
# Every gradient is right: a check compares a loss with its own slope, and does not know what the
# labels should be.

# %%
CLEAN = songs(400, np.random.default_rng(98))


def alarm(model):
    """The mean probability of "replaced" that it gives to words of songs without a mistake."""
    return (1 / (1 + np.exp(-model.replaced_scores(CLEAN)[:, DRAWN]))).mean()


labelled = {"differs": [runs["every word", seed] for seed in SEEDS]}
labelled["covered"] = [train(SEEDS[0], rule="covered")]
for rule, of_seeds in labelled.items():
    for model, curve in of_seeds:
        print(f"label 1 if {rule}: finds {curve[-1]:.0%}, false alarm {alarm(model):.1%}")
alarms = {rule: [alarm(model) for model, _ in found] for rule, found in labelled.items()}
assert min(alarms["covered"]) > 2 * max(alarms["differs"]), "it suspects words that are right"
assert max(curve[-1] for _, curve in labelled["covered"]) < min(every) - 0.1, "and finds less"

# %% [markdown]
# A right word has the label 0 where it was not covered, and 1 where it was, and the model cannot
# see the difference. The best that it can do is to say how often the label is 1: so it suspects
# every right word a little. The cure is a test of the labels themselves: where the text is
# unchanged, no label may be 1.

# %%
covered_songs, missing = cover(CLEAN, np.random.default_rng(13))
guesses, _ = runs["every word", 1][0].generator.forward(covered_songs, grad=False)
filled = fill_in(guesses, CLEAN, missing, np.random.default_rng(14))
for rule, ones in (("differs", filled != CLEAN), ("covered", missing != IGNORED)):
    mistaken = (ones & (filled == CLEAN)).sum()
    print(f"label 1 if {rule}: {mistaken} of {ones.sum()} stand at a word that is the text's own")
    assert (mistaken == 0) == (rule == "differs"), "the test finds the mistake"
assert (filled == MASK).mean() < 0.001, "a trained generator draws the mask no more"

# %% [markdown] tags=["deeper"]
# ## 8. The claim, second half: against a masked model, at equal operations
#
# ELECTRA runs two networks. What does an update cost? We count the operations of all matrix
# products of a forward and a backward pass, as lesson 20 did, and give the masked model as many
# operations: more updates of the same batch.

# %%
from minigpt.learn.counting import Counted, launches_of
from minigpt.models.family.roberta import RoBERTa, RoBERTaConfig


def operations(model):
    """Of the matrix products of one update with the library's loss."""
    for parameter in model.parameters():
        parameter.data = parameter.data.view(Counted)
    covered, targets = cover(songs(B, np.random.default_rng(0)), np.random.default_rng(1))
    with ops.using("reference"):
        launches = launches_of(lambda: model.loss_backward(model.loss(covered, targets)[1]))
    return sum(launch.work for launch in launches if launch.name == "matmul")


of_bert = operations(RoBERTa(RoBERTaConfig(**SIZES), seed=0))
of_electra = operations(new_electra(0))
MORE = round(STEPS * of_electra / of_bert)
print(f"operations of an update: masked model {of_bert / 1e6:.0f} million, "
      f"ELECTRA {of_electra / 1e6:.0f} million")
print(f"so {STEPS} updates of ELECTRA cost as much as {MORE} of the masked model")
assert 1.05 < of_electra / of_bert < 1.25, "the generator is small"

# %%
def train_masked(seed):
    """BERT's rule (lesson 26): of the covered words 80 % are masks, 10 % random, 10 % stay."""
    model = RoBERTa(RoBERTaConfig(**SIZES), seed=seed)
    optimizer = AdamW(model.named_parameters())
    for step in range(MORE):
        rng = np.random.default_rng([seed, step])
        ids = songs(B, rng)
        covered, targets = cover(ids, rng)
        fate = rng.random(ids.shape)
        other = np.where(fate < 0.1, ids, rng.integers(1, V, size=ids.shape))
        seen_by_bert = np.where((targets != IGNORED) & (fate < 0.2), other, covered)
        model.zero_grad()
        _, cache = model.loss(seen_by_bert, targets)
        model.loss_backward(cache)
        optimizer.step(RATE * warmup_cosine(step / MORE, 0.1), 1.0)
    return model


masked = [train_masked(seed) for seed in SEEDS]
print(f"{len(masked)} masked models, {MORE} updates each")

# %% [markdown]
# Two tests, one for each kind of training (neither is the exam of section 6):
#
# - **A covered word.** It is predicted by the masked model, and by ELECTRA's generator.
# - **A wrong word.** The model is not trained further. From its states we find a linear score that
#   is high for wrong words: a *linear probe*. It is fitted on 25 songs with a known wrong word, by
#   ridge regression (least squares that keeps the weights small). In the fit, the one wrong word of
#   a song counts as much as the 17 others. (ELECTRA's own head would be no fair test: the masked
#   model has no such head.)

# %%
def fills(model):
    """The share of covered words that are predicted; one is covered in each new song."""
    rows = np.arange(len(CLEAN))
    places = np.random.default_rng(15).choice(DRAWN, size=len(CLEAN))
    covered = CLEAN.copy()
    covered[rows, places] = MASK
    logits, _ = model.forward(covered, grad=False)
    return (logits[rows, places].argmax(-1) == CLEAN[rows, places]).mean()


print(f"the first masked model fills in {fills(masked[0]):.0%}")

# %%
def probe(model, n=25):
    """The share of wrong words that have the highest linear score, fitted on n songs."""
    ids, places = with_a_wrong_word(n, np.random.default_rng(16))
    h = model.hidden(ids, grad=False)[0].reshape(n * T, -1).astype(float)
    mean, scale = h.mean(axis=0), h.std(axis=0) + 1e-3
    x = (h - mean) / scale
    wrong = (np.arange(T) == places[:, None]).ravel()
    weights = np.where(wrong, T - 1.0, 1.0)[:, None]  # both answers count the same
    # with W the weights on a diagonal and t = 1 or -1: (x' W x + 0.01 n) w = x' W t
    normal = (weights * x).T @ x + 0.01 * len(x) * np.eye(x.shape[1])
    w = np.linalg.solve(normal, (weights * x).T @ np.where(wrong, 1.0, -1.0))
    scores = (model.hidden(WRONG, grad=False)[0] - mean) / scale @ w
    return (scores.argmax(axis=1) == WRONG_PLACES).mean()


fresh_one = new_electra(7)
print(f"an untrained model: probe {probe(fresh_one):.0%}, filled in {fills(fresh_one):.0%}")

# %%
sitting = {"masked model": masked, "ELECTRA": [runs["every word", seed][0] for seed in SEEDS],
           "ELECTRA 15 %": [runs["covered words only", seed][0] for seed in SEEDS]}
tested = {name: np.array([(fills(model), probe(model)) for model in models])
          for name, models in sitting.items()}
for name, found in tested.items():
    print(f"{name:14} covered words filled in {found[:, 0].round(2)}, "
          f"wrong words found by a probe {found[:, 1].round(2)}")
of_masked, of_all, of_covered = tested.values()
assert of_masked[:, 0].min() > 0.9 > of_all[:, 0].max(), "the masked model is better at its task"
assert of_all[:, 1].mean() > of_masked[:, 1].mean() + 0.1, "and ELECTRA at its own"
assert of_covered[:, 1].max() < 0.3, "in the collapsed one there is little in the states"

# %% [markdown]
# Each is better at what it was trained for. (With two seeds, and after few updates: the masked
# model is nearly done with its task, and ELECTRA is not.) So **is ELECTRA better at equal
# operations?** The paper fine-tunes both on other tasks, GLUE and SQuAD, and there it is (figure
# 1): it reaches XLNet and RoBERTa with less than a quarter of their operations. **Here that is not
# shown**: the songs have no third task that would be fair to both.
#
# And one answer of ELECTRA says little. For a reader who knows the kinds and nothing else, a
# covered name, colour or thing is one of eight. Its *entropy*, the mean of minus the base-2
# logarithm of the probability, is 3 bits. That of "replaced or not" is less than one bit. How many
# bits have all answers of one song?

# %%
bits_masked = 3 * len(DRAWN) / T * np.log2(8)  # of three covered words, those that are one of eight
q = 3 / T * 7 / 8  # a word is covered, and a word of its kind is drawn that is not its own
bits_electra = len(DRAWN) * (-q * np.log2(q) - (1 - q) * np.log2(1 - q))
print(f"bits in the answers of a song: masked model {bits_masked:.1f} in 3 answers, "
      f"ELECTRA {bits_electra:.1f} in {T}")
assert bits_electra < 1.5 * bits_masked, "six times the answers, about as many bits"

# %% [markdown]
# So "it learns from every token" is true, but it does not follow that it learns six times as much.
# (The count takes each answer alone. A reader who knows the rule of the songs is surprised by far
# less, and three words of a song are covered, no more and no fewer. It is no bound for what can be
# learned.)
#
# | claim of the paper | here |
# |---|---|
# | a loss at all words beats a loss at 15 % (table 5: 85.0 against 82.4 on GLUE) | **not shown** |
# | a small generator is better than one of full size (figure 3) | exercise 3 |
# | fine-tuned, better than BERT at equal operations (table 5: 85.0, 82.2) | **not shown** |

# %% [markdown] tags=["deeper"]
# ## 9. In the library
#
# `ELECTRA.loss` does all this in one call. Its lines for the decision are:
#
#     # minigpt/models/family/electra.py
#     covered = targets != ops.IGNORED
#     seen = xp.where(covered, drawn, ids)
#     replaced = covered & (drawn != targets)

# %%
key = ops.Key.of(5)
in_library, _ = fresh.loss(COVERED, TARGETS, key=key)
of_words, _ = fresh.generator.loss(COVERED, TARGETS)
seen_there, labels_there = fresh.filled_in(COVERED, TARGETS, key)
scores_there = fresh.replaced_scores(seen_there)
decision = (np.log1p(np.exp(scores_there)) - labels_there * scores_there).mean()
print(f"by hand {of_words + 50 * decision:.5f}, in the library {in_library:.5f}")
assert abs(of_words + 50 * decision - in_library) < 1e-4, "the same loss"

# %% [markdown] tags=["deeper"]
# ## 10. Paper and code
#
# - **The weight 50** (appendix A). The paper's reason: the discriminator's loss is much lower than
#   the generator's.
# - **How much is covered.** The paper: 15 %, and 25 % for the large model. The released code puts
#   the mask at 85 % of the chosen places and leaves the others as they are. The library covers as
#   BERT does, and 30 % if nothing else is said.
# - **The generator's size.** The library makes its width by leaving heads out, with as many blocks.
#   The released code does the same for the small model (a quarter); base has a third.
# - **Weights.** Published discriminators come without their generator: the library opens them with
#   a warning. They can be fine-tuned, and not trained further.
# - **Predict all words, but the words.** A masked model with a loss at every word ("All-Tokens
#   MLM") reached 84.3 in table 5, and BERT 82.2. It also reads drawn words in place of masks, but
#   that alone ("Replace MLM") reached 82.4. So most of the gain came from the loss at every word,
#   and less from the decision. Exercise 1 is its backward pass.
# - **What is left out.** WordPiece, which published files bring (lesson 35), and two texts in a
#   row, with [CLS], [SEP] and segments, as the released code packs them: ours reads one. The
#   generator that is trained by reinforcement (section 4) is not tried.

# %% [markdown]
# ## 11. To keep
#
# - A small generator fills covered words in, and the discriminator decides for every word whether
#   it is the text's own.
# - A drawn word is a step function: no gradient passes it. The generator is trained to be right, so
#   ELECTRA is not a GAN.
# - The gradient of the decision is probability minus target, at every word; how much that helps
#   depends on how many of the drawn words are right.

# %% [markdown]
# ## 12. Exercises
#
# 1. `exercises/29_all_tokens.py`: a model that predicts every word, and may copy.
# 2. `exercises/29_find_the_bug.py`: a generator whose words are as frequent as they should be.
# 3. Give the generator two heads, and four (`new_electra(seed, generator_heads=4)`), and as many
#    operations as in section 6. How many wrong words are found? How often is the generator right?
#    Why can a better generator make a worse discriminator? Compare with the runs of section 6 in
#    which half of the words are put back.

# %%
print("lesson 29: every check is happy")
