# %% [markdown]
# # Lesson 38: GPT-3: examples in the prompt, and bands
#
# You will show a model examples of a task, and see its accuracy rise from a third to nearly 100 %.
# Is it the examples that taught it? A control will decide. You will train another model for which
# the examples decide everything. And you will find in which of its layers a short view is enough,
# such as every second layer of GPT-3 has, and in which it is not.
#
# Reading: 25 minutes for the core, 60 minutes for all of it. Running: 50 to 150 seconds. Before it:
# lessons 16 and 19.
#
# Papers: Brown et al. 2020 (GPT-3, arXiv 2005.14165), sections 1 and 2. Min et al. 2022 (arXiv
# 2202.12837), section 4: wrong examples. Child et al. 2019 (arXiv 1904.10509): sparse attention.

# %% [markdown]
# ## 1. Why: what do examples do?
#
# GPT-3 is given a task by solved examples in its prompt, without any update of its weights. With
# more examples it is right more often (lesson 19 has the numbers). Does it *learn* the task from
# them? The paper leaves this open. A footnote of its section 1 says that its terms do not decide
# whether a model learns a new task when it reads, or recognises what it has met in training.
#
# In a small world we can decide it, since we know what the model has met. There are 32 things. Each
# has a colour, a place and an owner. A text is a list of 17 lines about one of these three.

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
KINDS = {
    "colour": "black blue brown green grey pink red white".split(),
    "place": "barn beach farm hill lake park school tower".split(),
    "owner": "Anna Ben Emma Lily Max Mia Sam Tom".split(),
}
THINGS = ("bag ball bell boat book box bus cap car coin cup doll drum flag fork hat jar key kite "
          "lamp map mug pen ring rope saw shoe sock spoon tent vase whistle").split()
draw = np.random.default_rng(0)
# FACTS[kind][number of the thing] = (thing, its value); each value comes four times
FACTS = [[(thing, values[i]) for thing, i in
          zip(THINGS, draw.permutation(np.repeat(range(8), 4)), strict=True)]
         for values in KINDS.values()]
for kind, facts in zip(KINDS, FACTS, strict=True):
    print(f"{kind:7}", ", ".join(f"{thing} = {value}" for thing, value in facts[:5]))

# %%
from minigpt.tokenizer import GPT2Tokenizer

all_lines = [[f"{thing} = {value}\n" for thing, value in facts] for facts in FACTS]
text = GPT2Tokenizer.train("".join(map("".join, all_lines)) * 3, 600, progress=False)
LINES = np.array([[text.encode(line) for line in of_kind] for of_kind in all_lines])  # (3,32,4)
SHOWN = 16


def lists(seed, step, n=16):
    """-> ids (n,69): the mark that begins a text, and 17 lines of one kind in a drawn sequence"""
    rng = np.random.default_rng([seed, step])
    kind = rng.integers(3, size=(n, 1))
    things = rng.permuted(np.tile(np.arange(32), (n, 1)), axis=1)[:, : SHOWN + 1]
    return np.concatenate([np.full((n, 1), text.start_id), LINES[kind, things].reshape(n, -1)], 1)


print(f"{text.vocab_size} tokens, four in a line. The beginning of a text:")
print(text.decode(lists(0, 0)[0, 1:17]))

# %% [markdown]
# ## 2. Measured with `shots`
#
# A GPT-2 with two blocks learns these lists, with three seeds. The loss counts the value behind the
# `=` and the end of the line; which thing comes next is chance. In its training the model meets all
# 32 things, but never a wrong line, nor a list of two kinds.

# %%
from minigpt import GPT2, GPT2Config
from minigpt.nn import optim, schedules

NO_DROPOUT = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
SEEDS = (0, 1, 2)


def train_lists(seed, steps=500, rate=5e-3):
    config = GPT2Config(vocab_size=text.vocab_size, n_positions=128, n_embd=64, n_layer=2,
                        n_head=4, initializer_range=0.07, **NO_DROPOUT)
    model = GPT2(config, seed=seed)
    optimizer = optim.AdamW(model.named_parameters())
    for step in range(steps):
        ids = lists(seed, step)
        targets = ids[:, 1:].copy()
        targets[:, 0::4] = targets[:, 1::4] = -100  # the next thing, and its "=", are not counted
        model.zero_grad()
        loss, cache = model.loss(ids[:, :-1], targets)
        model.loss_backward(cache)
        optimizer.step(rate * schedules.warmup_cosine(step / steps, 0.1), 1.0)
    return model, float(loss)


print(f"guessing: a loss of {np.log(text.vocab_size):.2f}")

# %%
knowing = []
for seed in SEEDS:
    model, loss = train_lists(seed)
    knowing.append(model)
    print(f"seed {seed}: a loss of {loss:.2f}")

# %% [markdown]
# The library's task `translate` has GPT-2's prompt for translations: a line `given = wanted` for
# each example, and `given =` at the end. Our lists have the same form, so we can use it. The
# command `minigpt eval MODEL translate FILE --shots 4` takes the first four records of a file as
# examples, lets the model write, and gives the interval of lesson 19. Here we call the same
# function. The 16 tested things of each kind are the same for each number of examples.

# %%
from minigpt.data.published.layout import Written
from minigpt.evaluation import writing

draw = np.random.default_rng(1)
ORDERS = [draw.permutation(32) for _ in KINDS]  # of each kind: 16 examples, then 16 that are tested


def right_examples(kind):
    return [FACTS[kind][i] for i in ORDERS[kind][:SHOWN]]


def exact_match(model, kind, shots, examples=right_examples):
    """Of the library's report on one kind. examples(kind) -> 16 pairs (thing, what is shown)"""
    tested = [FACTS[kind][i] for i in ORDERS[kind][SHOWN:]]
    records = [Written(thing, (value,)) for thing, value in [*examples(kind)[:shots], *tested]]
    report = writing.write("translate", model, text, records, shots=shots)
    (found,) = [one for one in report.measures if one.name == "exact match"]
    return found, report.outputs


for shots in (0, 4):
    found, outputs = exact_match(knowing[0], 0, shots)
    print(f"{shots} examples, then {FACTS[0][ORDERS[0][SHOWN]][0]!r}: it writes {outputs[0]!r}")
    print(f"    of {found.n} colours right: {found.value:.0%}, {found.low:.0%} to {found.high:.0%}")

# %%
from minigpt import plot
from minigpt.evaluation import metrics

SHOTS = (0, 1, 4, 16)
TESTED = 3 * (32 - SHOWN)


def accuracy_of(model, shots, examples=right_examples):
    """The share of the 48 questions that are answered right"""
    return np.mean([exact_match(model, kind, shots, examples)[0].value for kind in range(3)])


RIGHT_SHOWN = np.array([[accuracy_of(model, shots) for shots in SHOTS] for model in knowing])
print("examples:", *(f"{shots:14}" for shots in SHOTS))
for seed, row in zip(SEEDS, RIGHT_SHOWN, strict=True):
    intervals = [metrics.wilson(share * TESTED, TESTED) for share in row]
    print(f"seed {seed}:  ", *(f"{share:4.0%} ({low:.0%}-{high:.0%})".rjust(14)
                               for share, (low, high) in zip(row, intervals, strict=True)))
assert (RIGHT_SHOWN[:, 0] < 0.5).all(), "without an example about one in three is right"
assert (RIGHT_SHOWN[:, 1:] > 0.85).all(), "with one example nearly all are"

# %% tags=["hide-input"]
shots_figure, panel = plot.plt.subplots(figsize=(8, 4.4))
for seed, row in zip(SEEDS, RIGHT_SHOWN, strict=True):
    bounds = np.array([metrics.wilson(share * TESTED, TESTED) for share in row]).T
    bars = np.maximum(0, [row - bounds[0], bounds[1] - row])
    panel.errorbar(np.arange(4) + 0.06 * (seed - 1), row, bars, marker="o", label=f"seed {seed}")
panel.set_xticks(range(4), SHOTS)
panel.set(xlabel="right examples in the prompt", ylabel="right answers", ylim=(0, 1.03),
          title="More examples, better answers. Learned from them?")
panel.legend(loc="lower right", fontsize=11)
plot.save(shots_figure, "38_shots.png")

# %% [markdown]
# Without an example a third is right: three kinds of answers are possible, and the prompt does not
# say which is wanted. (All 144 answers of the three models are true of their thing, in one of the
# three kinds.) With one example nearly all are right. It looks as if the model had learned a task
# from one example.

# %% [markdown]
# ## 3. The control: wrong examples
#
# If the model learns what a thing is from the examples, wrong examples must hurt. We keep the
# things and the questions, and change what stands behind the `=`:
#
# - **wrong**: another of the eight values of the same kind, never the right one;
# - **any kind**: a value drawn from all 24;
# - **other kind**: the true values of the next kind: places where colours are wanted.

# %%
ALL_VALUES = sum(KINDS.values(), [])


def wrong_examples(kind):
    rng, values = np.random.default_rng([kind, 2]), list(KINDS.values())[kind]
    return [(thing, values[(values.index(value) + rng.integers(1, 8)) % 8])
            for thing, value in right_examples(kind)]


def any_examples(kind):
    rng = np.random.default_rng([kind, 3])
    return [(thing, str(rng.choice(ALL_VALUES))) for thing, _ in right_examples(kind)]


def other_examples(kind):
    return [FACTS[(kind + 1) % 3][i] for i in ORDERS[kind][:SHOWN]]


CONTROLS = {"right": right_examples, "wrong": wrong_examples, "any kind": any_examples,
            "other kind": other_examples}
for name, examples in CONTROLS.items():
    print(f"{name:11}", ", ".join(f"{thing} = {value}" for thing, value in examples(0)[:4]))

# %% [markdown]
# A right answer is still the true value of the thing that is tested.
#
# **Guess:** which of the three changes lowers the accuracy?

# %%
answered = {"right": RIGHT_SHOWN}
for name in list(CONTROLS)[1:]:
    answered[name] = np.array([[accuracy_of(model, shots, CONTROLS[name]) for shots in SHOTS]
                               for model in knowing])
print("right answers, mean (lowest to highest of three seeds)")
print(f"{'examples are':12}", *(f"{shots:>14} shown" for shots in SHOTS))
for name, table in answered.items():
    print(f"{name:12}", *(f"{f'{of.mean():.0%} ({of.min():.0%} to {of.max():.0%})':>20}"
                          for of in table.T))
_, outputs = exact_match(knowing[0], 0, 16, other_examples)
n_places = sum(wrote.strip() == FACTS[1][i][1]
               for wrote, i in zip(outputs, ORDERS[0][SHOWN:], strict=True))
print(f"16 places shown, colours wanted: {n_places} of {len(outputs)} answers are the true places")
assert (answered["wrong"][:, 1:] > 0.8).all(), "wrong examples do as well"
assert (answered["other kind"][:, 1:] < 0.2).all(), "examples of another kind: other answers"
assert (answered["any kind"][:, 3] < answered["wrong"][:, 3] - 0.2).all(), "the kind matters"

# %% [markdown] tags=["answer"]
# *Any kind* and *other kind* do. *Wrong* is tempting; but the wrong examples are as good as
# the right ones. **Not one example has to be right.** The examples do not teach the model what a
# thing is: that is in its weights. They show *which of the known lists this is*, and a wrong colour
# says "colours" as well as a right one.
#
# Where 4 or 16 examples do not agree on a kind, they are of no use. (A single one agrees with
# itself: whether it is of the right kind is chance. Here it is for two of the three kinds.) Where
# they agree on another kind, the model answers with that. So "the accuracy rises with the number of
# examples" does not show that anything was learned from them.

# %% [markdown]
# ## 4. GPT-3's bands
#
# GPT-3's model is GPT-2's, but for its attention: dense and "locally banded sparse" layers take
# turns (section 2.1). With a band of w, a token sees itself and the w - 1 tokens before it. For the
# scores $s_{ij} = q_i \cdot k_j$ a key is seen by w queries at most, so its gradient has at most w
# parts:
#
# $$
# \frac{\partial L}{\partial k_j} = \sum_{i=j}^{j+w-1} \frac{\partial L}{\partial s_{ij}} \, q_i
# $$
#
# **Your turn:** ds (T,T) has the gradient of s_ij in row i and column j, and 0 outside the band.
# Write the gradients of all keys at once, (T,D).

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

some_q, some_k = np.random.default_rng(6).normal(size=(2, 6, 3))
ago = np.arange(6)[:, None] - np.arange(6)  # query minus key
in_band = (ago >= 0) & (ago < 3)
some_ds = np.where(in_band, np.random.default_rng(7).normal(size=(6, 6)), 0)


def your_dk(ds, q):
    return ...


true = numeric(lambda k: np.where(in_band, some_q @ k.T, 0), some_k, some_ds)
gap.judge(your_dk, some_ds, some_q, expected=true)

# %% [markdown] tags=["answer"]
# `ds.T @ q`: the sum runs over the queries i, which are the rows of ds. This product works
# with all T² entries of ds, and most are 0. The deeper part computes only those of the band.

# %% [markdown] tags=["deeper"]
# ### How far a band reaches
#
# Now a model for which examples must count: lesson 19's, with bands as in GPT-3. Each text draws a
# mapping from 8 symbols to 2 labels anew, and shows 16 pairs. The weights cannot know which of the
# 256 mappings this text has.
#
# How far does information about token 0 get, layer after layer? A state has it if one of the states
# that it sees has it.

# %%
def band(t, w):
    """(T,T): who sees whom"""
    distance = np.arange(t)[:, None] - np.arange(t)  # query minus key
    return (distance >= 0) & (distance < w)


print(band(6, 4).astype(int))

# %%
reached, rows = np.arange(24) == 0, []
for mask in [band(24, 4)] * 5 + [band(24, 24)]:
    reached = (mask & reached).any(axis=1)
    rows.append(reached)
band_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4.6))
panels[0].imshow(band(24, 4), cmap="Blues", vmin=0, vmax=1.4)
panels[0].set(title="a band of 4 (blue: seen)", xlabel="key", ylabel="query")
panels[1].imshow(rows, cmap="Oranges", vmin=0, vmax=1.4, aspect="auto")
panels[1].set(title="states that token 0 reaches: five bands, then a dense layer", xlabel="place",
              ylabel="after layer", yticks=range(6), yticklabels=range(1, 7))
for panel in panels:
    panel.grid(False)
plot.save(band_figure, "38_band.png")
print("states that token 0 reaches:", np.sum(rows, axis=1))
assert np.array_equal(np.sum(rows, axis=1), [4, 7, 10, 13, 16, 24]), "n (w - 1) + 1, then all"

# %% [markdown]
# The number of tokens that can act on a state is its *receptive field*: n (w - 1) + 1 after n bands
# of w, and the whole text after a dense layer.
#
# What is it good for? Of each query only w scores are needed, not T: T w in place of T² / 2. Below
# is a forward pass that computes only these, and its backward pass. `at` (T,w) holds the places
# of the keys that a query sees.

# %%
def near_scores(q, k, at):
    seen = k[at]
    products = q[:, None] * seen
    s = products.sum(axis=-1)
    out = np.where(at >= 0, s, 0)
    return out


def near_scores_backward(dout, v):
    # out = np.where(at >= 0, s, 0)
    ds = np.where(v.at >= 0, dout, 0)
    # s = products.sum(axis=-1)
    dproducts = np.repeat(ds[..., None], v.q.shape[1], axis=-1)
    # products = q[:, None] * seen
    dq = (dproducts * v.seen).sum(axis=1)
    dseen = dproducts * v.q[:, None]
    # seen = k[at]: a key is seen by several queries, so its gradients add up
    dk = np.zeros_like(v.k)
    np.add.at(dk, v.at, dseen)
    return dq, dk


print("scores within a band, forward and backward")

# %%
from minigpt.learn import lines

q, k = np.random.default_rng(0).normal(size=(2, 9, 5))
near = np.arange(9)[:, None] - np.arange(4)  # (T,w): itself, one before, two before, ...
near_results = lines.check(near_scores, near_scores_backward, q, k, at=near)
assert all(result.error < 1e-8 for result in near_results), "every line is right"
whole = q @ k.T
assert np.allclose(near_scores(q, k, near)[5], whole[5, 5:1:-1]), "four of the dense scores"
saved = band(2048, 256).sum() / band(2048, 2048).sum()
print(f"a text of 2,048 tokens and a band of 256: {saved:.0%} of the scores")

# %% [markdown]
# (A place before the text, `at` < 0, is set to 0 here; before a softmax it would be minus infinity.
# The models below are small: they use the library's masked attention, which gives the same.)
#
# A GPT-2 whose layers have bands needs one method. The library calls `through` for each block, and
# we give it the mask of its band. `None` is a dense layer:

# %%
class BandedGPT2(GPT2):
    """bands: of each block its w, or None; set before it is used"""

    def through(self, block, x, past, key, grad, mask=None, **more):
        w = self.bands[self.h.index(block)]
        if w is not None:
            mask = band(x.shape[1], w)
        return super().through(block, x, past, key, grad, mask, **more)


tiny_sizes = {"vocab_size": 10, "n_positions": 12, "n_embd": 8, "n_layer": 2, "n_head": 2}
tiny = BandedGPT2(GPT2Config(**tiny_sizes, **NO_DROPOUT), seed=0, dtype=np.float64)
changed = np.tile(np.arange(10), 2)[None, :12]
for bands in ((4, 4), (4, None)):
    tiny.bands = bands
    before, _ = tiny.hidden(changed, grad=False)
    after, _ = tiny.hidden(np.where(np.arange(12) == 0, 5, changed), grad=False)
    moved = (np.abs(after - before)[0] > 1e-12).any(axis=-1).sum()
    print(f"bands {bands}: another token 0 changes {moved} of 12 states")
    assert moved == (12 if None in bands else 7), "as in the picture"

# %% [markdown] tags=["deeper"]
# ## 5. For which layer is a band enough?
#
# Lesson 19 has found how its two layers read the examples. In layer 1 each label copies the symbol
# *one place before* it. In layer 2 a symbol looks for the labels of equal symbols, *anywhere* in
# the text. So we can predict what a band of 4 does in each layer:
#
# | layer 1, layer 2 | prediction |
# |---|---|
# | dense, dense | learns, as in lesson 19 (there with three of four seeds) |
# | band, dense | learns: the copy is from the neighbour |
# | dense, band | fails: layer 2 sees the labels of two pairs only |
# | band, band | fails: 7 tokens are the symbol and 3 pairs |
#
# For the fourth row there is an upper bound. A symbol that is not in the last three pairs must be
# guessed, so the accuracy is at most $1 - \tfrac12 (\tfrac78)^3$ = 67 %.

# %%
SYMBOLS, PAIRS = 8, 16  # ids 0 to 7 are the symbols, 8 and 9 the labels


def mappings(rng, n):
    """-> ids (n,32): symbol, label, symbol, label, ...; a new mapping for each text"""
    mapping = rng.integers(2, size=(n, SYMBOLS))
    symbols = rng.integers(SYMBOLS, size=(n, PAIRS))
    labels = SYMBOLS + np.take_along_axis(mapping, symbols, axis=1)
    return np.stack([symbols, labels], axis=-1).reshape(n, 2 * PAIRS)


print("a text:", mappings(np.random.default_rng(0), 1)[0])

# %%
def train_pairs(bands, seed, updates=1000, look=None):
    """look(model, updates done): called after each update"""
    config = GPT2Config(vocab_size=SYMBOLS + 2, n_positions=2 * PAIRS, n_embd=32, n_head=1,
                        n_layer=len(bands), initializer_range=0.08, **NO_DROPOUT)
    model = BandedGPT2(config, seed=seed)
    model.bands = bands
    optimizer = optim.AdamW(model.named_parameters())
    for update in range(updates):
        ids = mappings(np.random.default_rng([seed, update]), 32)
        targets = np.full_like(ids, -100)
        targets[:, 0::2] = ids[:, 1::2]  # at a symbol, its label
        model.zero_grad()
        model.loss_backward(model.loss(ids, targets)[1])
        optimizer.step(3e-3 * min(1, (update + 1) / 100))
        if look:
            look(model, update + 1)
    return model


print("four kinds of models: four values of `bands`")

# %%
def labels_right(model, ids, labels=None):
    """ids (n,32) -> (n,16): is the likelier label right? labels: the right ones; None: of ids"""
    logits, _ = model.forward(ids, grad=False)
    predicted = SYMBOLS + logits[:, 0::2, SYMBOLS:].argmax(axis=-1)
    return predicted == (ids[:, 1::2] if labels is None else labels)


def with_wrong_labels(ids):
    """The same texts, and in each of them the other label: 8 for 9, 9 for 8"""
    other = ids.copy()
    other[:, 1::2] = 2 * SYMBOLS + 1 - ids[:, 1::2]
    return other


print("with wrong labels:", with_wrong_labels(mappings(np.random.default_rng(0), 1))[0])

# %%
def pairs_back(ids):
    """(n,16): how many pairs before is the last equal symbol? 0: there is none"""
    symbols = ids[:, 0::2]
    equal = (symbols[:, :, None] == symbols[:, None, :]) & np.tri(PAIRS, k=-1, dtype=bool)
    # turned round, argmax finds the last equal symbol
    newest = np.where(equal.any(-1), PAIRS - 1 - equal[:, :, ::-1].argmax(-1), np.arange(PAIRS))
    return np.arange(PAIRS) - newest


new_texts = mappings(np.random.default_rng(999), 1000)
back = pairs_back(new_texts)
print("the equal symbol is 1 or 2 pairs back:", f"{((back > 0) & (back < 3)).mean():.0%},",
      "more than 4:", f"{(back > 4).mean():.0%}")

# %%
def row_of(model, ids):
    """What is recorded of a trained model"""
    found, back = labels_right(model, ids), pairs_back(ids)
    of_wrong = labels_right(model, with_wrong_labels(ids), ids[:, 1::2])
    return {"after 15": found[:, -1].mean(), "near": found[(back > 0) & (back < 3)].mean(),
            "far": found[back > 4].mean(), "wrong labels": of_wrong[:, -1].mean()}


untrained = BandedGPT2(GPT2Config(**tiny_sizes | {"n_positions": 32}, **NO_DROPOUT), seed=0)
untrained.bands = (4, None)
of_untrained = row_of(untrained, new_texts)
print("an untrained model:", ", ".join(f"{key} {value:.0%}" for key, value in of_untrained.items()))

# %% [markdown]
# `benchmarks/banded.py` has trained each of the four with three seeds, 1,000 updates each.

# %%
from minigpt.learn import reference

RECORD = reference.recorded("banded.json")["rows"]
FOUR = ("dense, dense", "band, dense", "dense, band", "band, band")
RECORDED = {name: {column: np.array([RECORD[f"{name}, seed {seed}"][column] for seed in SEEDS])
                   for column in ("after 15", "near", "far")} for name in FOUR}
print("accuracy, three seeds    after 15 examples  1, 2 pairs back   far back   above 85 % after")
for name, columns in RECORDED.items():
    spans = [f"{of.min():.0%} to {of.max():.0%}" for of in columns.values()]
    of_runs = [np.array(RECORD[f"{name}, seed {seed}"]["after 15, by update"]) for seed in SEEDS]
    first = [str(100 * (1 + (of > 0.85).argmax())) if of.max() > 0.85 else "-" for of in of_runs]
    print(f"{name:23} {spans[0]:>18} {spans[1]:>16} {spans[2]:>12}  ", ", ".join(first), "updates")
of_three, of_all = (1 - 0.5 * (7 / 8) ** n for n in (3, 15))
print(f"upper bound for a reader of three pairs: {of_three:.0%}, of all 15: {of_all:.0%}")
assert RECORDED["band, dense"]["after 15"].min() > 0.85, "predicted: it learns"
assert RECORDED["dense, dense"]["after 15"].max() > 0.85, "predicted: it learns, in some seeds"
for name in FOUR[2:]:
    assert RECORDED[name]["after 15"].max() < of_three + 0.04, "predicted: it does not"
assert RECORDED["band, band"]["near"].min() > RECORDED["band, band"]["far"].max() + 0.2, "in reach"

# %% [markdown]
# **It matters which layer is dense, and not only how many.** *Band, dense* and *dense, band*
# compute as many scores, and one of them learns: the one that can copy before it searches. (For
# *dense, band* no bound says that it must fail. In 1,000 updates it did, with all seeds.) *Band,
# band* knows symbols that are near, and guesses at those that are far.
#
# **And a surprise**: with the band the model learns *sooner* than without, with each seed. With one
# of them *dense, dense* had not learned even after 4,000 updates (lesson 19's record). A guess: the
# band leaves fewer wrong places from which to copy.
#
# GPT-3 has 96 layers, so each dense layer, but perhaps the first, has layers before it that can
# copy. That they *can* does not say that they learn to: one run with four layers, *dense, band,
# dense, band*, was at 62 % after 1,000 updates. Whether it needs more updates is not measured.

# %% [markdown] tags=["deeper"]
# ## 6. Wrong examples again
#
# The control of section 3, with three models of the kind *band, dense* (600 updates): each example
# shows the other label.

# %%
reading = [train_pairs((4, None), seed, 600) for seed in SEEDS]
READ = {"right": np.array([labels_right(model, new_texts).mean(axis=0) for model in reading])}
READ["wrong"] = np.array([labels_right(model, with_wrong_labels(new_texts),
                                       new_texts[:, 1::2]).mean(axis=0) for model in reading])
for name, curves in READ.items():
    spans = {n: f"{curves[:, n].min():.0%} to {curves[:, n].max():.0%}" for n in (0, 1, 4, 15)}
    print(f"{name} examples:", ", ".join(f"after {n}: {span}" for n, span in spans.items()))
assert READ["right"][:, -1].min() > 0.85, "right examples: it learns the mapping"
assert READ["wrong"][:, -1].max() < 0.15, "wrong examples: it learns the wrong mapping"

# %%
two_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4.6), sharey=True)
of_lists = {name: answered[name] for name in ("right", "wrong")}
TITLES = "it knows the lists: examples say which one", "new mappings: examples are all it has"
for panel, title, x, curves in zip(panels, TITLES, (SHOTS, range(PAIRS)), (of_lists, READ),
                                   strict=True):
    for name, color, offset in (("right", "C0", 0.01), ("wrong", "C3", -0.01)):  # to see both
        for seed, row in zip(SEEDS, curves[name], strict=True):
            panel.plot(x, row + offset, "o-", color=color, alpha=0.7, markersize=4,
                       label=f"{name} examples" if seed == 0 else None)
    panel.set(xlabel="examples in the prompt", title=title)
panels[0].set(ylabel="right answers (colours 0.02 apart)", ylim=(-0.03, 1.05))
panels[1].legend(loc="center right", fontsize=11)
plot.save(two_figure, "38_right_and_wrong.png")
print("three seeds each")

# %% [markdown]
# Had the model met all 256 mappings, and did it only recognise one? A trial (not recorded): 64 of
# them were kept out of training. It read those as well as the others, 92 % after 15 examples, with
# each of three seeds.
#
# **The same rising curve, and two causes.** With right examples both models improve. Wrong examples
# show the difference: the left model is as good as before, the right one does what the examples
# say. A curve over the number of examples cannot distinguish the two causes; its control can.
#
# Large models do both. Min et al. gave random labels in the examples to large models, GPT-3 among
# them: on most of their tasks this hardly hurt. What mattered was which labels there are, what the
# inputs look like, and the form. A guess at the reason: training texts are full of such tasks, so
# the model knows them. Wei et al. (2023, arXiv 2303.03846) exchanged all labels: the largest models
# follow them, smaller ones much less.

# %% [markdown] tags=["deeper"]
# ## 7. Paper and code
#
# - The paper does not give w, nor does it compare bands with dense layers. The sparse layers are
#   "similar to the Sparse Transformer" of Child et al. (2019), which was made for longer texts.
# - A layer with a band also needs less memory when it writes: its cache may forget what is w or
#   more tokens back (lesson 17).
# - Mistral has a window in *all* layers (lesson 36). That is *band, band*: with many layers and a
#   wide window it reaches far, in steps.
# - **Examples of `--shots`** are the first records of the file, the same for each question. Its
#   interval is about the questions: it does not say how the accuracy changes with other examples.
#   Shuffle the file to see it. The paper draws new ones from the training set for each question
#   (section 2.4), 10 to 100 of them, as many as the context holds.
# - **What is left out.** Size: the paper's claim is that larger models gain more from examples. Our
#   models are of one size, and each of our two worlds was made so that one explanation is true.
#
# | claim | here |
# |---|---|
# | more examples, better answers | shown |
# | so the model learns the task from the examples | **not shown** by that: wrong ones do as well |
# | a model can learn a new mapping from its prompt | shown, by the same control (section 6) |
# | a band is enough in every second layer | shown for two layers, if the dense one is the second |

# %% [markdown]
# ## 8. To keep
#
# - An accuracy that rises with the number of examples does not show that anything was learned from
#   them.
# - The control is to show wrong examples: a model that only recognises a known list answers as well
#   as before.
# - With a band of w a token sees itself and the w - 1 tokens before it, and a key gets its gradient
#   from w queries at most.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/38_read_near.py`: the second half of attention in a band, the weighted sum of the
#    values, forward and backward, with T w numbers.
# 2. `exercises/38_find_the_bug.py`: an accuracy that rises with the number of examples, for a model
#    that learns nothing from them.
# 3. Give a model of section 2 a stronger lie: among its examples is the tested thing itself, with a
#    wrong value. What does it write? And the models of section 6?

# %%
print("lesson 38: every check is happy")
