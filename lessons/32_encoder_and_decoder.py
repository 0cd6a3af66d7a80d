# %% [markdown]
# # Lesson 32: encoder, decoder, and both: MASS, BART, T5
#
# You will build a model of two stacks: one reads a text, the other writes a new one. You will write
# the backward pass of the attention between them, and see the gradients of all layers of one stack
# meet in the other. You will compare it with a GPT, and test the usual reason for the difference.
# Then you will lose words of a text and pose the question in three ways: MASS, BART and T5.
#
# Reading: 25 minutes for the core, 70 minutes for all of it. Running: 80 to 240 seconds. Before it:
# lessons 03, 08, 26, 30 and 31.
#
# Papers: Song, Tan, Qin, Lu and Liu 2019 (MASS, arXiv 1905.02450), section 3. Lewis et al. 2020
# (BART, arXiv 1910.13461), section 2. Raffel et al. 2020 (T5, arXiv 1910.10683), sections 2.1, 3.1
# and 3.2. The body: Vaswani et al. 2017 (arXiv 1706.03762), section 3.

# %% [markdown]
# ## 1. Why: a text that must be rewritten
#
# Some tasks have a text at both ends: translate, summarise, answer. We make one: short English
# sentences, and the same in Korean (in Latin letters). In English the verb stands before the
# object; in Korean it comes last.

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
NAMES = {"Mina": "neun", "Sora": "neun", "Jun": "eun", "Yujin": "eun"}  # name: its particle
# thing: its noun in Korean, the particle of this noun, and the verb for "wears" or for "plays"
THINGS = """hat moja reul sseunda, helmet helmet eul sseunda, coat koteu reul imneunda,
shirt syeocheu reul imneunda, shoes sinbal eul sinneunda, socks yangmal eul sinneunda,
ring banji reul kkinda, glove janggap eul kkinda, piano piano reul chinda, drum buk eul chinda,
flute peulluteu reul bunda, trumpet napal eul bunda, violin baiollin eul kyeonda,
cello chello reul kyeonda"""
THINGS = {word: rest for word, *rest in map(str.split, THINGS.split(","))}
WORN, PLAYED = list(THINGS)[:8], list(THINGS)[8:]
VERBS = {"sees": "bonda", "buys": "sanda", "finds": "channeunda", "draws": "geurinda"}
SIZE_WORDS = {"big": "keun", "small": "jageun", "old": "nalgeun", "new": "sae"}
COLOURS = {"red": "ppalgan", "blue": "paran", "white": "hayan", "black": "geomeun"}
PLACES = {"park": "gongwon", "school": "hakgyo", "garden": "jeongwon", "house": "jip"}
print("Mina wears a hat: ... moja reul sseunda     Mina wears shoes: ... sinbal eul sinneunda")
print("two verbs for one, 'wears': the object decides. In Hangul: 모자를 쓴다, 신발을 신는다")

# %% [markdown]
# So the translation of "wears" depends on a word that comes *later* in the source, and that of
# "plays" too.

# %%
def one(options, rng):
    return list(options)[rng.integers(len(options))]


def pair(rng, always=False):
    """-> English words, and Korean ones. always: size, colour and place are never left out"""
    name, verb = one(NAMES, rng), one(["wears", "plays"] * 3 + list(VERBS), rng)
    thing = one({"wears": WORN, "plays": PLAYED}.get(verb, THINGS), rng)
    noun, particle, own_verb = THINGS[thing]
    size, colour, place = (one(options, rng) if always or rng.random() < 0.5 else None
                           for options in (SIZE_WORDS, COLOURS, PLACES))
    english = [name, verb, "the", size, colour, thing, *(["in", "the", place] if place else [])]
    korean = [name, NAMES[name], *([PLACES[place], "eseo"] if place else []),
              SIZE_WORDS.get(size), COLOURS.get(colour), noun, particle,
              VERBS.get(verb, own_verb)]
    return [word for word in english if word], [word for word in korean if word]


SHOWN = "Mina wears the small red shoes in the park".split()
ANSWER = "Mina neun gongwon eseo jageun ppalgan sinbal eul sinneunda".split()
for words in ((SHOWN, ANSWER), *(pair(np.random.default_rng([0, n])) for n in range(2))):
    print(*map(" ".join, words), sep="\n    ")

# %% [markdown]
# Which word decides which? In the picture, each word of the translation has a line to the words of
# the source that decide it. The lines of the verb are red.

# %% tags=["hide-input"]
from minigpt import plot

LINKS = [(0, 0), (0, 1), (8, 2), (6, 3), (3, 4), (4, 5), (5, 6), (5, 7), (1, 8), (5, 8)]
link_figure, axes = plot.plt.subplots(figsize=(11, 3.2))
for words, height in ((SHOWN, 1), (ANSWER, 0)):
    for place, word in enumerate(words):
        axes.text(place, height, word, ha="center", va="center", fontsize=13)
for top, bottom in LINKS:
    axes.plot([top, bottom], [0.88, 0.12], color="tab:red" if bottom == 8 else "tab:blue")
axes.set(xlim=(-0.6, 8.6), ylim=(-0.2, 1.2), title="Which word decides which")
axes.axis("off")
plot.save(link_figure, "32_links.png")

# %% [markdown]
# Which model can do this?
#
# - An **encoder** (BERT) has one output for each word of its input: it has no place for a target
#   that is longer.
# - A **decoder** (GPT) can: it continues "source, start, ..." word by word. But while it reads the
#   source, each word sees only those to its left. The state of "wears" cannot know the object.
# - An **encoder-decoder** reads with one stack, from both sides, and writes with another.

# %% [markdown]
# ### Teacher forcing
#
# In training the decoder sees the right target one place late ("shifted right"), a start token
# first, and predicts at each place the next word, as a GPT does.

# %%
from minigpt.data.objectives.translating import paired

SPECIAL = ["_pad_", "_start_", "_end_", "_mask_", *(f"_extra_{i}_" for i in range(4))]
TABLES = (NAMES, VERBS, SIZE_WORDS, COLOURS, PLACES)
WORDS = [word for table in TABLES for both in table.items() for word in both]
WORDS += [*THINGS, *sum(THINGS.values(), []), "wears", "plays", "the", "in", "eseo", "."]
VOCABULARY = list(dict.fromkeys(SPECIAL + WORDS))
ID = {word: i for i, word in enumerate(VOCABULARY)}
PAD, START, END, MASK, *EXTRA = range(8)
IGNORED, V = -100, len(VOCABULARY)


def numbers(words):
    return [ID[word] for word in words]


def names(ids):
    return " ".join("." if i == IGNORED else VOCABULARY[i] for i in ids)


batch = paired([numbers(SHOWN)], [numbers(ANSWER)], START, END, PAD)
for title, row in (("source", batch.source), ("decoder in", batch.ids), ("targets", batch.targets)):
    print(f"{title:11}", names(row[0]))

# %% [markdown]
# The library calls its plain encoder-decoder `MASS`, after the paper of section 7.

# %%
from minigpt.models.family.mass import MASS as EncoderDecoder
from minigpt.models.family.mass import MASSConfig

SIZES = {"vocab_size": V, "n_embd": 64, "n_head": 4, "initializer_range": 0.07}
SIZES |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
BODY = MASSConfig(**SIZES, n_layer=2, n_positions=20, decoder_start_token_id=START)
fresh = EncoderDecoder(BODY, seed=0)
print("an encoder-decoder with two blocks of width 64 on each side")

# %% [markdown] tags=["deeper"]
# ## 2. The difference in five questions
#
# | question | GPT | BERT | encoder-decoder |
# |---|---|---|---|
# | who sees whom? | each the left | each all | **source: all; target: its left, and the source** |
# | what is covered? | nothing | 15 % | **what the builder takes from the source** |
# | what is predicted? | the next token | covered tokens | **the next token of the target** |
# | what is shared? | the token table is the head | the same | **one table: source, target, head** |
# | where does position enter? | a table | a table | **a table for each side** (T5: distances) |
#
# MASS, BART and T5 share this body, but for details. They differ in what goes in and what comes
# out. From a text each makes a source, an input of the decoder, and targets: we call what makes
# them a *builder*.

# %% [markdown]
# ## 3. Cross-attention, forward and backward
#
# In *cross-attention* the queries come from the decoder, keys and values from the encoder. The
# scores are T x S: a row for each word that is written, a column for each word that was read.
#
# Write H (S,C) for the states of the encoder. In one layer of the decoder, k = H @ w_k and
# v = H @ w_v.
#
# **Your turn:** the gradients dk and dv have come back. Write this layer's part of the gradient of
# H.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

given = np.random.default_rng(8)
H, w_k, w_v = (given.normal(size=shape) for shape in ((5, 4), (4, 3), (4, 3)))
dk, dv = given.normal(size=(2, 5, 3))


def your_dstates(dk, dv, w_k, w_v):
    return ...  # k = H @ w_k and v = H @ w_v


true_dstates = numeric(lambda states: np.stack([states @ w_k, states @ w_v]), H, np.stack([dk, dv]))
gap.judge(your_dstates, dk, dv, w_k, w_v, expected=true_dstates)

# %% [markdown] tags=["answer"]
# `dk @ w_k.T + dv @ w_v.T`: H is used twice, so two gradients are added.

# %% [markdown]
# Every layer of the decoder reads the **same** states. So with l for the layers,
#
# $$
# \frac{\partial L}{\partial H} = \sum_l \left( dK^l {W_k^l}^\top + dV^l {W_v^l}^\top \right)
# $$
#
# **All that the encoder's blocks learn comes through this sum.** (The token table is shared with
# the decoder, and learns there too.)

# %% tags=["hide-input"]
d = plot.Diagram(9.2, 5.4, "encoder and decoder: what is between them")
goes_in = {(2.1, "tab:blue"): "Mina wears shoes", (7.0, "tab:orange"): "_start_ Mina neun"}
for (x, color), words in goes_in.items():
    for i, word in enumerate(words.split()):
        d.box(x + 1.25 * (i - 1), 0.5, word, color, width=1.15)
encoder = [d.box(2.1, y, "block: sees all", width=3.4) for y in (1.6, 3.2)]
decoder = [d.box(7.0, y, "block: sees the left", "tab:orange", 3.4) for y in (1.6, 3.2)]
states = d.box(2.1, 4.3, "states H", "gray", width=3.4, height=0.5)
d.arrow((2.1, 0.8), encoder[0])
d.arrow((7.0, 0.8), decoder[0])
d.arrow(encoder[0], encoder[1])
d.arrow(encoder[1], states)
d.arrow(decoder[0], decoder[1])
d.arrow(decoder[1], (7.0, 4.3))
for block in decoder:
    d.arrow((3.8, 4.3), (5.3, block.y), color="gray")
d.text(5.0, 4.25, "keys, values", "gray")
for i, word in enumerate("Mina neun sinbal".split()):
    d.text(7.0 + 1.25 * (i - 1), 4.6, word, "tab:red")
plot.save(d.figure, "32_two_stacks.png")

# %% [markdown] tags=["deeper"]
# ### Line by line
#
# One layer and one head by hand: three words written, five words read, width 4. (The library's
# layers also have self-attention and an MLP.)

# %%
from minigpt import ops
from minigpt.learn import lines


def attend(q, k, values):
    """q (T,D), k and values (S,D) -> (T,D); every query sees every key"""
    heads = [array[None, None] for array in (q, k, values)]
    out, cache = ops.attention_forward(*heads, mask=np.ones((len(q), len(k)), bool))
    return out[0, 0], cache


def attend_backward(dout, cache):
    """dout (T,D) -> dq (T,D), dk and dvalues (S,D)"""
    return [d[0, 0] for d in ops.attention_backward(dout[None, None], cache)[:3]]


print("two small functions around ops.attention, for one head without a batch")

# %%
def reading(x, states, w_q, w_k, w_v):
    q = x @ w_q
    k = states @ w_k
    values = states @ w_v
    read, c = attend(q, k, values)
    out = x + read
    return out


draw = np.random.default_rng(2)
arrays = [draw.normal(size=shape) for shape in ((3, 4), (5, 4), *[(4, 4)] * 3)]
layer_values = lines.run(reading, *arrays)

# %%
def reading_backward(dout, v):
    # out = x + read
    dx, dread = dout, dout
    # read = attend(q, k, values)
    dq, dk, dvalues = attend_backward(dread, v.c)
    # values = states @ w_v
    dstates = dvalues @ v.w_v.T
    dw_v = v.states.T @ dvalues
    # k = states @ w_k: the second use of the states
    dstates = dstates + dk @ v.w_k.T
    dw_k = v.states.T @ dk
    # q = x @ w_q: the second use of x
    dx = dx + dq @ v.w_q.T
    dw_q = v.x.T @ dq
    return dx, dstates, dw_q, dw_k, dw_v


layer_results = lines.check(reading, reading_backward, *arrays)
assert all(result.error < 1e-8 for result in layer_results), "every line is right"

# %% [markdown]
# In the library `DecoderBlock.backward` returns its part, and `Stack.backward` adds them:
#
#     # minigpt/models/family/stacks.py
#     dx, gradients = block.backward(dx, cache.pop(f"h.{i}"))
#     for name, gradient in gradients.items():
#     sums[name] = sums[name] + gradient if name in sums else gradient
#
# We go back through the library's decoder, block by block, and compare with the whole stack. (A
# backward pass empties its cache, so we need two.)

# %%
upstream = np.random.default_rng(3).normal(size=(1, 10, 64)).astype(np.float32)
caches = [fresh.hidden(batch.ids, source=batch.source)[1]["decoder"] for _ in range(2)]
_, sums = fresh.decoder.backward(upstream, caches[0])
parts, d = [], upstream
for number in (1, 0):
    d, gradients = fresh.decoder.h[number].backward(d, caches[1][f"h.{number}"])
    parts.append(gradients["states"])
print(f"dstates of the last layer {np.linalg.norm(parts[0]):.2f}, of the first "
      f"{np.linalg.norm(parts[1]):.2f} (norms); of the stack {np.linalg.norm(sums['states']):.2f}")
assert np.allclose(parts[0] + parts[1], sums["states"], atol=1e-5), "the encoder receives the sum"

# %% [markdown]
# ## 4. One stack or two?
#
# A GPT reads `source _start_ target _end_` as one text; only the target is predicted. We train it
# and the encoder-decoder on the same 60 pairs for 150 updates. A second seed has other pairs. The
# test is 300 new pairs. A translation is right if each of its words is the likeliest after the
# right words before it.
#
# What is a fair GPT? We train two: one with about as many operations as the encoder-decoder, one
# with about as many parameters.

# %%
def some_pairs(n, seed):
    rng = np.random.default_rng(seed)
    both = [pair(rng) for _ in range(n)]
    return [numbers(english) for english, _ in both], [numbers(korean) for _, korean in both]


def two_stacks(sources, targets):
    """A batch of the encoder-decoder, by name."""
    made = paired(sources, targets, START, END, PAD)
    return {"ids": made.ids, "targets": made.targets} | made.inputs


def one_stack(sources, targets):
    """The same pairs for a GPT: source, start, target, end. Only the target is predicted."""
    rows = [[*s, START, *t, END] for s, t in zip(sources, targets, strict=True)]
    texts = np.array([row + [PAD] * (21 - len(row)) for row in rows])  # no pair is longer than 21
    place = np.arange(20)  # at each place the next word is predicted: 20 predictions of 21 words
    n_source = np.array([[len(s)] for s in sources])  # START stands at this place
    predicted = (place >= n_source) & (texts[:, 1:] != PAD)
    return {"ids": texts[:, :-1], "targets": np.where(predicted, texts[:, 1:], IGNORED)}


print("a GPT predicts:", names(one_stack(*some_pairs(2, 3))["targets"][0, :14]))

# %%
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine


def fit(model, batch_of, steps):
    """Train on batch_of(rng). After every 30 updates, yields their number and the loss."""
    optimizer = AdamW(model.named_parameters())
    for step in range(steps):
        model.zero_grad()
        loss, cache = model.loss(**batch_of(np.random.default_rng([4, step])))
        model.loss_backward(cache)
        optimizer.step(4e-3 * warmup_cosine(step / steps, 0.1), 1.0)
        if step % 30 == 29:
            yield step + 1, float(loss)


def all_right(model, given):
    """The share of the rows in which every predicted word is the right one."""
    inputs = {name: value for name, value in given.items() if name != "targets"}
    words = model.forward(**inputs, grad=False)[0].argmax(-1)
    return ((words == given["targets"]) | (given["targets"] == IGNORED)).all(axis=1).mean()


print(f"a fresh model has {all_right(fresh, two_stacks(*some_pairs(300, 99))):.0%} right")

# %%
def translator(model, form, n_pairs, seed):
    """Train a model on so many pairs in this form. -> the share of new pairs that it has right"""
    sources, targets = some_pairs(n_pairs, [5, seed])

    def batch_of(rng):
        rows = rng.choice(n_pairs, 32, replace=False)
        return form([sources[i] for i in rows], [targets[i] for i in rows])

    for _ in fit(model, batch_of, 150):
        pass
    return all_right(model, form(*some_pairs(300, 99)))


print("60 pairs of the world, for example:", names(some_pairs(60, [5, 1])[1][0]))

# %% [markdown]
# **Guess:** the larger GPT has about as many parameters as the encoder-decoder, and about twice the
# operations. Who has more right?

# %%
from minigpt import GPT1, GPT1Config


def gpt(n_layer, seed):
    return GPT1(GPT1Config(**SIZES, n_layer=n_layer, n_positions=40), seed=seed)


MODELS = {
    "encoder-decoder, 2 + 2 blocks": (lambda seed: EncoderDecoder(BODY, seed=seed), two_stacks),
    "GPT, 2 blocks: about its operations": (lambda seed: gpt(2, seed), one_stack),
    "GPT, 4 blocks: about its parameters": (lambda seed: gpt(4, seed), one_stack),
}
SEEDS = (1, 2)
mean = {}
for name, (build, form) in MODELS.items():
    found = [translator(build(seed), form, 60, seed) for seed in SEEDS]
    mean[name] = np.mean(found)
    print(f"{name:36} {sum(p.data.size for p in build(0).parameters()):,} parameters, all words "
          "right:", *(f"{share:.0%}" for share in found))
two, *gpts = MODELS
assert mean[two] > max(mean[name] for name in gpts) + 0.04, "two stacks learn more from 60 pairs"

# %% [markdown] tags=["answer"]
# The encoder-decoder, although the larger GPT does twice the work. The usual reason: a GPT reads
# its source from the left only. The deeper part tests it with an encoder that is *causal*, and so
# reads as a GPT does. If this is the handicap, the model must fall back to the GPTs. **The
# surprise: it does not.** It loses a few points, and keeps most of its lead.

# %% [markdown] tags=["deeper"]
# ### A fair size, and a causal encoder
#
# What is a fair size? An encoder-decoder with L blocks on each side has about the parameters of a
# GPT with 2 L blocks. (Here the GPT has a little less: it has no cross-attention.) But it has about
# the operations of a GPT with L: each word passes through one of the two stacks (T5, section
# 3.2.2). So section 4 takes two GPTs. We count, as in lesson 20:

# %%
from minigpt.learn.counting import Counted, launches_of


def operations(model, batch):
    """Of the matrix products of one update"""
    for parameter in model.parameters():
        parameter.data = parameter.data.view(Counted)
    with ops.using("reference"):
        launches = launches_of(lambda: model.loss_backward(model.loss(**batch)[1]))
    return sum(launch.work for launch in launches if launch.name == "matmul")


work = {}
for name, (build, form) in MODELS.items():
    work[name] = operations(build(0), form(*some_pairs(32, 3)))
    print(f"{name:36} {work[name] / 1e6:.0f} million operations for 32 pairs")
assert 0.9 < work[gpts[0]] / work[two] < 1.1, "the smaller GPT: about as many operations"
assert 1.7 < work[gpts[1]] / work[two] < 2.1, "the larger GPT: about twice as many"

# %%
class CausalEncoder(EncoderDecoder):
    """An encoder-decoder that reads its source from left to right."""

    def _encoded(self, source, mask, key, grad):  # a method of the library, with one more mask
        left = np.tri(source.shape[1], dtype=bool)
        return super()._encoded(source, left if mask is None else mask & left, key, grad)


found = [translator(CausalEncoder(BODY, seed=seed), two_stacks, 60, seed) for seed in SEEDS]
print("encoder-decoder, causal encoder: all words right:", *(f"{share:.0%}" for share in found))
best_gpt = max(mean[name] for name in gpts)
assert np.mean(found) > best_gpt + 0.04, "it keeps a lead: this is not all of the cause"

# %% [markdown]
# So here, with one rate and two seeds (too few for an interval), the second side of the source is
# at most a small part of the cause. (When the decoder writes the verb, it can look at "wears" *and*
# at the object.) Three candidates are left, and this section does not decide between them:
#
# - other weights for reading than for writing;
# - an attention for each of the two texts;
# - places that count from 0 on each side. Exercise 3 tests this one.
#
# The paper's result is about pre-training on much text. There a GPT that sees its *prefix* from
# both sides was much better than one that sees the left only: 81.8 against 74.7 points on GLUE; the
# encoder-decoder had 83.3 (T5, table 2). That is **not shown here**.

# %% [markdown] tags=["deeper"]
# ## 5. See it: who looks where, and who decides
#
# With 400 pairs the encoder-decoder is nearly always right. We look at the attention weights of its
# last layer: each row is a word that is being written, each column a word that was read.

# %%
model = EncoderDecoder(BODY, seed=1)
print(f"400 pairs: all words right {translator(model, two_stacks, 400, 1):.0%}")
shown = two_stacks([numbers(SHOWN)], [numbers(ANSWER)])
with ops.using("reference"):  # the faster implementation keeps no weights
    _, cache = model.hidden(shown["ids"], source=shown["source"])
of_last_block = cache["decoder"]["h.1"]["crossattention"]["heads"].attention
weights = of_last_block.p[0].mean(axis=0)  # (heads,T,S) -> (T,S)

# %% [markdown]
# A picture of weights does not say what decides. So we intervene: take sentences with "wears" and
# all parts, change **one** source word to another of its kind, translate again, and count how often
# each word of the translation changes.

# %%
def translate(sources):
    writer, start = model.continuing(sources)
    return writer.generate(start, 10, temperature=0, stop=END)[:, 1:]


def long_sentences(n):
    made = (pair(np.random.default_rng([6, number]), always=True) for number in range(9 * n))
    return [english for english, _ in made if english[1] == "wears"][:n]


SLOTS = {"name": (0, NAMES), "wears": (1, VERBS), "size": (3, SIZE_WORDS), "colour": (4, COLOURS),
         "object": (5, WORN), "place": (8, PLACES)}
WRITTEN = ["name", "neun/eun", "place", "eseo", "size", "colour", "object", "eul/reul", "verb"]
sentences = long_sentences(60)
written = translate(np.array([numbers(words) for words in sentences]))
rng = np.random.default_rng(7)
changes = {}
print("written", *(f"{word:>8}" for word in WRITTEN))
for kind, (place, options) in SLOTS.items():
    others = [[*words[:place], one([w for w in options if w != words[place]], rng),
               *words[place + 1:]] for words in sentences]
    again = translate(np.array([numbers(words) for words in others]))
    changes[kind] = (again != written).mean(axis=0)[:9]
    print(f"{kind:7}", *(f"{share:8.0%}" for share in changes[kind]))

# %%
look_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 5.2))
image = panels[0].imshow(weights[:9], cmap="Blues", vmin=0)  # without the row of _end_
look_figure.colorbar(image, ax=panels[0], label="weight")
panels[0].set_xticks(range(9), SHOWN, rotation=50, ha="right")
panels[0].set_yticks(range(9), ANSWER)
panels[0].set(title="Cross-attention, layer 2, mean of heads", ylabel="is written")
by_place = np.full((9, 9), np.nan)  # "the" and "in" are not changed: white
for kind, (place, _) in SLOTS.items():
    by_place[:, place] = changes[kind]
image = panels[1].imshow(by_place, cmap="Oranges", vmin=0, vmax=1)
look_figure.colorbar(image, ax=panels[1], label="share of the sentences")
panels[1].set_xticks([place for place, _ in SLOTS.values()], changes, rotation=50, ha="right")
panels[1].set_yticks(range(9), WRITTEN)
panels[1].set(title="Does the written word change?", xlabel="changed in the source")
for panel in panels:
    panel.grid(False)
plot.save(look_figure, "32_who_decides.png")
assert changes["wears"][8] > 0.9 and changes["object"][8] > 0.5, "both decide the verb"
assert weights[7, 5] < 0.2 < changes["object"][7], "little weight on the object, and it decides"

# %% [markdown]
# The changes are the rules of this world: the name decides its particle; the object decides its
# particle and, for "wears", the verb. The left picture is one sentence, the right one a mean over
# 60, by kinds of words. Compare the row "eul" on the left with the row "eul/reul" on the right.
# Hardly any weight falls on "shoes", and yet the object decides this word. (It may do so through
# the word before: when "eul" is predicted, "sinbal" is already written.) A weight says where a head
# looks, in one layer. It does not say what decides.

# %% [markdown] tags=["deeper"]
# ## 6. Check, and the trap: a decoder that sees its answer
#
# Suppose that the decoder's input is not shifted to the right, by mistake. We check both models,
# the right one and this one, against finite differences.

# %%
from minigpt import gradcheck


def not_shifted(sources, targets):
    """The mistake: the decoder sees at each place the word that it must predict there."""
    given = two_stacks(sources, targets)
    return given | {"ids": np.where(given["targets"] == IGNORED, PAD, given["targets"])}


SMALL = {"vocab_size": 12, "n_embd": 4, "n_head": 2, "n_positions": 6, "initializer_range": 0.3}
tiny = EncoderDecoder(MASSConfig(**SIZES | SMALL, n_layer=1), seed=1, dtype=np.float64)
few = [[8, 9, 10], [11, 8]], [[9, 11, 10, 8], [10, 9]]  # two pairs of a world of four words
for title, form in (("shifted", two_stacks), ("not shifted", not_shifted)):
    worst = gradcheck.worst(gradcheck.check_model(tiny, **form(*few)))
    print(f"{title}: the worst error of all gradients is {worst.error:.0e}")
    assert worst.error < 1e-7, "right, with the mistake too"

# %% [markdown]
# No gradient shows the mistake. We train this model on the same 400 pairs and let it write.

# %%
copier = EncoderDecoder(BODY, seed=1)
copied = translator(copier, not_shifted, 400, 1)
writer, start = copier.continuing([numbers(SHOWN)])
nonsense = writer.generate(start, 9, temperature=0)[0, 1:]
print(f"not shifted: all words right in {copied:.0%} of the new pairs")
print("its text:", names(nonsense))
assert copied > 0.95, "a test with the answers in sight is passed"
assert np.mean(nonsense == numbers(ANSWER)) < 0.4, "and its text is no translation"

# %% [markdown]
# The copier has learned "write the word that you see". When it writes, it sees `_start_`. The test
# of lesson 31 finds the mistake: **the prediction at a place must not move when the target at that
# place is changed.**

# %% [markdown] tags=["deeper"]
# ## 7. Three builders
#
# Pairs are rare, texts are not. MASS, BART and T5 make a task from text alone: take something out
# of the source, and let the decoder write it. Here is one span lost, in each of the three ways.
# Each function returns the source, what the decoder sees, the targets, and the decoder's places.
# (The start token of T5 is the padding token.)

# %%
def mass(text, first, last):
    """The fragment is covered word by word; it is written where it stood."""
    lost, places = text[first:last], range(first, last)
    return [*text[:first], *[MASK] * len(lost), *text[last:]], [MASK, *lost[:-1]], lost, places


def bart(text, first, last):
    """The span becomes ONE mask; the whole text is written."""
    return [*text[:first], MASK, *text[last:]], [START, *text], [*text, END], range(len(text) + 1)


def t5(text, first, last):
    """The span becomes a sentinel; the sentinel and the span are written."""
    targets = [EXTRA[0], *text[first:last], END]
    source = [*text[:first], EXTRA[0], *text[last:], END]
    return source, [PAD, *targets[:-1]], targets, range(len(targets))


BUILDERS = {"MASS": mass, "BART": bart, "T5": t5}
for name, build in BUILDERS.items():
    built = build(numbers(SHOWN), 4, 7)
    print(f"{name}: {len(built[2])} targets, decoder's places {[*built[3]]}")
    for title, row in zip(("source", "decoder in", "targets"), built[:3], strict=True):
        print(f"   {title:11}", names(row))

# %% [markdown]
# | | MASS | BART | T5 |
# |---|---|---|---|
# | source: a lost span is | a mask for each word | **one** mask | a sentinel of its own |
# | the decoder sees | the fragment, at its **places in the text** | the whole text | the spans |
# | targets | the fragment | the **whole text** | sentinels, **only the spans**, end |
#
# Popular texts get these wrong: T5 does not put a sentinel for each lost *token*, and its targets
# are not the text. BART's text infilling hides how long a span was, and a span of length 0 is a
# mask where nothing is missing. MASS's decoder does not see the words outside the fragment.
#
# The papers' recipes:
#
# - MASS loses one fragment of half the text. Its paper names two special cases: a fragment of one
#   word is BERT's task, a fragment that is the whole text a GPT's.
# - BART loses spans of 3 words on average (the lengths are Poisson). It has four more noises. Its
#   large model uses infilling, of 30 % of the tokens, and sentence permutation (section 5).
# - T5 loses 15 % of the text, in spans of 3 words on average (section 3.3.4). A simpler form draws
#   single tokens and joins neighbours (section 3.1.4). In the released code a piece of text comes
#   first, then a span, and so on: so the last span is the end of the text, which is always lost.

# %% [markdown] tags=["deeper"]
# ## 8. One body, one world, one test
#
# To compare the three ways, all else must be the same: the body, the texts, the number of updates,
# and the *lost spans*. A text is an English sentence and its translation. One span of 1 to 5 words
# is lost. The test: three words of the Korean half are lost, a size, a colour and a thing, on 200
# new texts. They can be known from the English half.

# %%
def both_languages(n, seed):
    """-> (n,14): name verb size colour thing . name particle size colour noun particle verb ."""
    rng = np.random.default_rng(seed)
    rows = []
    for english, korean in (pair(rng, always=True) for _ in range(n)):
        english, korean = [*english[:2], *english[3:6]], korean[:2] + korean[4:]
        rows.append(numbers([*english, ".", *korean, "."]))
    return np.array(rows)


READ, NEW = both_languages(3000, 10), both_languages(200, 11)
SPAN = (8, 11)
print(names(NEW[0]), "\nlost in the test:", names(NEW[0, SPAN[0]:SPAN[1]]))

# %%
from minigpt.data.objectives import restoring


def built_batch(build, rows, firsts, lasts):
    """What a builder makes of each row, filled up to one length."""
    made = [build(row.tolist(), i, j) for row, i, j in zip(rows, firsts, lasts, strict=True)]

    def column(number):
        """One of the four parts of all rows -> an array, and where it is not padding"""
        return restoring.filled_up([np.array(parts[number]) for parts in made], PAD)

    (source, source_mask), (ids, is_text) = column(0), column(1)
    targets, positions = column(2)[0], column(3)[0]
    return {"ids": ids, "targets": np.where(is_text, targets, IGNORED), "positions": positions,
            "source": source, "source_mask": source_mask}


def exam(build):
    return built_batch(build, NEW, [SPAN[0]] * len(NEW), [SPAN[1]] * len(NEW))


for name, build in BUILDERS.items():
    print(f"{name:5} {(exam(build)['targets'][0] != IGNORED).sum():2} targets in each text")

# %%
def t5_with_places(text, first, last):
    """T5's builder, but the decoder's words stand at the places of the text, as in MASS."""
    lost_source, ids, targets, _ = t5(text, first, last)
    # the decoder first sees the start (place 0), then the sentinel, then the span
    return lost_source, ids, targets, [0, *range(first, first + len(ids) - 1)]


def lost_words(build, seed):
    """-> [updates], [share of the test's spans that are right] of a new model"""
    def batch_of(rng):
        n = rng.integers(1, 6, size=32)
        firsts = rng.integers(0, 15 - n)
        return built_batch(build, READ[rng.choice(len(READ), 32)], firsts, firsts + n)

    model = EncoderDecoder(BODY, seed=seed)
    curve = [(step, all_right(model, exam(build))) for step, _ in fit(model, batch_of, 180)]
    return np.array(curve).T


WAYS = BUILDERS | {"T5, with places": t5_with_places}
curves = {(name, seed): lost_words(build, seed) for name, build in WAYS.items() for seed in SEEDS}
for name in WAYS:
    print(f"{name:15} right at the end:", *(f"{curves[name, seed][1][-1]:.0%}" for seed in SEEDS))

# %%
curve_figure, axes = plot.plt.subplots(figsize=(10, 4.2))
for number, name in enumerate(WAYS):
    for seed in SEEDS:
        axes.plot(*curves[name, seed], f"C{number}o-", label=name if seed == SEEDS[0] else None)
axes.set(xlabel="update", ylabel="spans all right", ylim=(-0.02, 1.02),
         title="Three lost words, found again")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plot.save(curve_figure, "32_builders.png")
for seed in SEEDS:
    last = {name: curves[name, seed][1][-1] for name in WAYS}
    assert min(last["MASS"], last["BART"]) > 0.9, "both learn the task"
    assert last["T5"] < last["T5, with places"] - 0.15, "the place is a large part of it"

# %% [markdown]
# MASS and BART learn soon, T5's builder late. It is not the number of targets: MASS has the
# fewest. MASS's decoder stands at the places of the text, and so does BART's, since it writes the
# whole text. T5's counts from 0. The fourth line is the test: with the places of MASS, T5's builder
# learns much sooner. So **the place** is a large part of it, though not all: the fourth line is
# still behind MASS. (A guess: MASS also shows how long the span is.)
#
# | claim | here |
# |---|---|
# | all three train one body to fill gaps | shown for MASS and BART; T5 is on its way |
# | short targets are enough to learn from | shown (MASS) |
# | short targets cost less (T5, section 3.1.4) | shown for their number: 5 (T5), 15 (BART) |
# | T5's objective is as good after long training (T5, table 5) | not shown |
#
# Do not read it as "T5 is worse". We gave its builder a body with tables of positions, and a few
# seconds. T5's own body has distances (lesson 30), and each comparison of the paper read about 34
# billion tokens (section 3.1.2). Does its own body learn this task sooner? That is exercise 4.

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - **T5's body** has RMSNorm before each sub-layer, no biases, ReLU, one table of distances for
#   each side, none in cross-attention, and no $1/\sqrt{D}$ in the scores.
# - **Every task as text.** T5's main idea is in the source: `translate English to German: That is
#   good.`, `cola sentence: The course is jumping well.` A prefix names the task, the target is a
#   text too ("not acceptable"), and one model learns a mixture of all tasks (section 2.4).
# - **BART in tasks** (section 3). For a class, source and decoder get the same text, and the last
#   state of the decoder is read. For translation, the encoder's token table is replaced by a new
#   small encoder. The library lets both write their answer, as T5.
# - **T5's sizes.** It is often said that T5-base has the size of BERT-base. But each of its *two*
#   stacks has that size (T5, section 3.1.1).
# - **MASS** in the paper masks the whole fragment. In the released code a covered word becomes a
#   mask in 80 %, another word in 10 %, and stays in 10 % of the cases; so does the library.
# - **What is left out.** A mixture of all tasks with their prefixes: `minigpt finetune` writes an
#   answer as text for one task. Ours has 32 sentinels, T5 100. T5's optimiser Adafactor and its
#   prefix LM are not built, nor MASS's language vectors and its translation without pairs. BART
#   reads GPT-2's bytes; what is trained here has GPT-1's byte-pair encoding. Published files bring
#   their own (lesson 35).

# %% [markdown]
# ## 10. To keep
#
# - An encoder-decoder reads with one stack, from both sides, and writes with another, each word
#   after those before it.
# - In cross-attention the queries come from the decoder, keys and values from the encoder; the
#   gradients of all layers meet in the encoder's states.
# - A usual reason is a claim about a cause, and can be tested: here a causal encoder keeps most of
#   the lead.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/32_three_uses.py`: one table for source, target and head: its gradient has three
#    parts.
# 2. `exercises/32_find_the_bug.py`: a builder of MASS whose model hardly learns.
# 3. In a GPT the target begins where the source ends: at place 5, or at place 10. Give the GPT of
#    two blocks `positions` with which its target always begins at place 20 (`n_positions` is 40
#    for that). Is this the cause of section 4? Use four seeds or more.
# 4. Train T5's own body with T5's builder for 540 updates, and our body with the same builder. Is
#    the task easy for a body that has distances? Which of the two learns sooner?

# %%
print("lesson 32: every check is happy")
