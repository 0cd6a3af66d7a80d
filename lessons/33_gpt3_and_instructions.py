# %% [markdown]
# # Lesson 33: GPT-3 and instructions
#
# You will train a model that knows every answer and gives none: to a question it says another
# question. You will tune it on instructions, and test it on questions that the tuning never had.
# Then you will train a reward model from comparisons, and let the model learn from its reward. Its
# reward rises and rises, until every answer is wrong; and you will find out whose fault that is.
#
# Reading: 45 minutes. Running: about a minute. Before it: lessons 02, 12, 16 and 19.
#
# Papers: Brown et al. 2020 (GPT-3, arXiv 2005.14165), sections 2.1 and 2.2, appendices B and D.
# Child et al. 2019 (arXiv 1904.10509): banded attention. Ouyang et al. 2022 (InstructGPT, arXiv
# 2203.02155), section 3.

# %% [markdown]
# ## 1. Why: a model that knows, and does not answer
#
# A language model continues a text, and a question is a text. Often an answer follows it. But on a
# test sheet or in a survey another question follows. Both are good text, and the model has no reason
# to prefer the one that helps.
#
# We make a small world of 72 facts: 24 things have a colour, a place and an owner. Each of these
# three has a second name (a colour is also called a tint).

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)
KINDS = {
    ("colour", "tint"): "black blue brown green grey pink red white".split(),
    ("place", "spot"): "barn beach farm hill lake park school tower".split(),
    ("owner", "keeper"): "Anna Ben Emma Lily Max Mia Sam Tom".split(),
}
THINGS = ("bag ball bell boat book box car coin cup doll drum flag fork hat key kite lamp map "
          "pen ring rope saw sock vase").split()
WORDS = "_pad_ => _end_ sure what is the of . ?".split()
WORDS += [name for pair in KINDS for name in pair] + sum(KINDS.values(), []) + THINGS
ID = {word: i for i, word in enumerate(WORDS)}
PAD, DELIMITER, END, SURE, IGNORED, V = 0, 1, 2, 3, -100, len(WORDS)
VALUES = np.array([[ID[word] for word in values] for values in KINDS.values()])  # (3,8)
print(f"{V} words, {len(KINDS) * len(THINGS)} facts")

# %%
def ids_of(text):
    return [ID[word] for word in text.split()]


def text_of(ids):
    return " ".join(WORDS[i] for i in ids)


draw = np.random.default_rng(0)
KIND = np.repeat([0, 1, 2], 24)
RIGHT = np.concatenate([draw.permutation(np.repeat(range(8), 3)) for _ in KINDS])  # of 8 values
STATEMENTS, QUESTIONS = [], []
for (name, other), thing, value in zip(np.array(list(KINDS))[KIND], THINGS * 3,
                                       VALUES[KIND, RIGHT], strict=True):
    STATEMENTS.append([ids_of(f"the {one} of the {thing} is {WORDS[value]} .")
                       for one in (name, other)])
    QUESTIONS.append([ids_of(f"what is the {name} of the {thing} ?"),
                      ids_of(f"what is the {other} of the {thing} ?"),
                      ids_of(f"the {name} of the {thing} is what ?")])
STATEMENTS, QUESTIONS = np.array(STATEMENTS), np.array(QUESTIONS)  # (72,2,8), (72,3,8)
print(text_of(STATEMENTS[15, 0]), "|", text_of(STATEMENTS[15, 1]), "|", text_of(QUESTIONS[15, 0]))

# %% [markdown]
# A text of this world has 24 words: three statements, or a test sheet of three questions. Both
# names occur in both. We train a GPT-2 with two blocks of width 64 on such texts, with three seeds.

# %%
from minigpt import GPT2, GPT2Config
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine

SIZES = {"vocab_size": V, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
SIZES |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
SIZES |= {"initializer_range": 0.07}  # 0.02 sqrt(768 / 64), as in lesson 16
SEEDS = (0, 1, 2)


def texts(seed, step):
    """32 texts -> ids (32,23), and targets: each word predicts the next one"""
    rng = np.random.default_rng([seed, step])
    which = rng.integers(72, size=(32, 3)), rng.integers(2, size=(32, 3))
    is_sheet = rng.random((32, 1, 1)) < 0.5
    rows = np.where(is_sheet, QUESTIONS[which], STATEMENTS[which]).reshape(32, 24)
    return rows[:, :-1], rows[:, 1:]


for row in texts(0, 0)[0][:4]:
    print(text_of(row))

# %%
def train(model, batch, seed, steps, rate):
    """batch(seed, step) -> ids, targets. -> the loss of each update"""
    optimizer = AdamW(model.named_parameters())
    losses = []
    for step in range(steps):
        model.zero_grad()
        loss, cache = model.loss(*batch(seed, step))
        model.loss_backward(cache)
        optimizer.step(rate * warmup_cosine(step / steps, 0.1), 1.0)
        losses.append(float(loss))
    return losses


pretrained = {seed: GPT2(GPT2Config(**SIZES), seed=seed) for seed in SEEDS}
for seed, model in pretrained.items():
    losses = train(model, texts, seed, 400, 6e-3)
    print(f"seed {seed}: the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}")

# %% [markdown]
# Two tests. **Knows**: after "the colour of the kite is", is the likeliest word the right one?
# **Answers**: is it the likeliest word after the question? We give the question as it is, and with
# the sign `=>` behind it, which no text has yet.

# %%
VALUE_IDS = VALUES[KIND, RIGHT]
ANSWERS = np.stack([VALUE_IDS, np.full(72, ID["."]), np.full(72, END)], axis=1)  # (72,3)


def knows(model):
    logits, _ = model.forward(STATEMENTS[:, :, :6].reshape(-1, 6), grad=False)
    return (logits[:, -1].argmax(-1) == np.repeat(VALUE_IDS, 2)).mean()


def prompts(facts, wording=0):
    return np.pad(QUESTIONS[facts, wording], ((0, 0), (0, 1)), constant_values=DELIMITER)


every = np.arange(72)
for seed, model in pretrained.items():
    plain = model.generate(QUESTIONS[:, 0], 8, top_k=1)[:, 8:]
    signed = model.generate(prompts(every), 3, top_k=1)[:, 9:]
    questions = (plain == ID["?"]).any(axis=1).mean()
    answered = max((plain[:, 0] == VALUE_IDS).mean(), (signed[:, 0] == VALUE_IDS).mean())
    print(f"seed {seed}: knows {knows(model):.0%}, says another question {questions:.0%}, "
          f"answers {answered:.0%}. {text_of(QUESTIONS[15, 0])} {text_of(plain[15])}")
    assert knows(model) > 0.97, "every fact is stored"
    assert questions > 0.95 and answered < 0.1, "and no question is answered"

# %% [markdown]
# Everything is known, and nothing is answered. More text would not help. The model is *right*: in
# its text, questions follow questions.
#
# ## 2. The difference in five questions
#
# | question | GPT-2 | GPT-3 | InstructGPT |
# |---|---|---|---|
# | who sees whom? | each token the left | **in some layers only a band of it** | the same |
# | what is covered? | nothing | nothing | nothing |
# | what is predicted? | the next token | the next token | **first this; then a reward counts** |
# | what is shared? | the token table is the head | the same | the same |
# | where does position enter? | a table, 1,024 rows | a table, **2,048 rows** | the same |
#
# So the model of GPT-3 is GPT-2's, but for its attention: dense and "locally banded sparse" layers
# take turns (section 2.1). The rest is size, text and schedule. What the size brings, tasks learned
# from examples in the prompt, is in lesson 19. InstructGPT is GPT-3, trained further on what people
# want.
#
# ## 3. GPT-3: a size, and a band
#
# Count it, as in lesson 16: a block has 12 C^2 + 13 C numbers, and two tables and a LayerNorm come
# on top. The formula must agree with the library for a small model; then we trust it for a large one.

# %%
from minigpt.models import costs


def numbers(n_layer, width, positions=2048, words=50257):
    return n_layer * (12 * width**2 + 13 * width) + (words + positions + 2) * width


assert numbers(12, 768, 1024) == costs.count(GPT2, GPT2Config()), "GPT-2, the smallest"
largest = numbers(96, 12288)
operations = 6 * largest * 300e9
print(f"parameters {largest:,}; operations for 300 billion tokens, 6 N D: {operations:.3g}")
print(f"in petaflop/s-days: {operations / (1e15 * 86400):.0f}")
print(f"weights in 16 bits {2 * largest / 1e9:.0f} GB; weights, gradients and Adam's two moments in "
      f"32 bits {16 * largest / 1e12:.1f} TB")
assert round(largest / 1e6, -2) == 174_600, "table D.1: 174,600 million"
assert f"{operations:.2e}" == "3.14e+23", "table D.1: 3.14E+23"
assert f"{operations / (1e15 * 86400):.2e}" == "3.64e+03", "table D.1: 3.64E+03"

# %% [markdown]
# The count agrees with table D.1 of the paper to its last digit. Table 2.1 cannot be right in two
# places, which are often copied: a width of 5140 for the model "13B" with its 40 heads, and 24 heads
# of size 128 for "1.3B".

# %%
for width in (5140, 5120):
    print(f"13B with width {width}: {numbers(40, width) / 1e6:,.0f} million parameters")
print(f"1.3B: 24 heads of size 128 would need width {24 * 128}; with width 2048 it has "
      f"{numbers(24, 2048) / 1e6:,.0f} million")
assert round(numbers(40, 5120) / 1e6, -1) == 12_850, "table D.1: 12,850 million, so 5120"
assert abs(numbers(40, 5140) / 1e6 - 12_850) > 90, "5140 does not fit, and is no multiple of 40"
assert round(numbers(24, 2048) / 1e6, -1) == 1_320, "table D.1: 1,320 million, so 2048"

# %% [markdown]
# **The band.** With a band of w, a token sees itself and the w - 1 tokens before it: a mask with one
# more condition (lesson 03). How much is saved? The paper gives no w. With 256 of 2,048 tokens, a
# banded layer has 4.3 times fewer pairs.
#
# How far does a token see, after n banded layers? We change the first token, and look which states
# move, after each of six layers.

# %%
def band(length, width):
    """(length,length) boolean: may the query (row) see the key (column)?"""
    distance = np.arange(length)[:, None] - np.arange(length)
    return (distance >= 0) & (distance < width)


T, WIDTH, DENSE = 24, 4, np.tri(24, dtype=bool)
pairs_of = {w: int(band(2048, w).sum()) for w in (256, 2048)}
print("pairs of 2,048 tokens:", pairs_of)
assert round(pairs_of[2048] / pairs_of[256], 1) == 4.3, "a band of 256 saves this much"


def moved(masks):
    """-> (layers,T) boolean: the states that move if token 0 is another, after each layer"""
    config = GPT2Config(**SIZES | {"n_layer": len(masks), "initializer_range": 0.5})
    model = GPT2(config, seed=0, dtype=np.float64)
    ids = np.tile(np.random.default_rng(1).integers(V, size=T), (2, 1))
    ids[1, 0] = (ids[1, 0] + 1) % V
    x, rows = model.wte.weight.data[ids] + model.wpe.weight.data[:T], []
    for block, mask in zip(model.h, masks, strict=True):
        x, _ = block.forward(x, mask=mask, grad=False)
        rows.append(np.abs(x[0] - x[1]).max(axis=-1) > 1e-12)
    return np.array(rows)

# %%
from minigpt import plot

reach = {"banded in every layer": moved([band(T, WIDTH)] * 6),
         "banded and dense in turn": moved([band(T, WIDTH), DENSE] * 3)}
band_figure, panels = plot.plt.subplots(1, 3, figsize=(14, 4.4))
panels[0].imshow(band(T, WIDTH), cmap="Blues", vmin=0, vmax=1.4)
panels[0].set(title="a band of 4", xlabel="key", ylabel="query")
for panel, (name, rows) in zip(panels[1:], reach.items(), strict=True):
    panel.imshow(rows, cmap="Oranges", vmin=0, vmax=1.4, aspect="auto")
    panel.set(title=name, xlabel="this state moves", ylabel="after layer", yticks=range(6),
              yticklabels=range(1, 7))
for panel in panels:
    panel.grid(False)
plot.save(band_figure, "33_band.png")
counts = [rows.sum(axis=1) for rows in reach.values()]
print("states that token 0 reaches, layer by layer: banded", counts[0], " in turn", counts[1])
assert np.array_equal(counts[0], 1 + 3 * np.arange(1, 7)), "n layers reach n (w - 1) + 1 tokens"
assert (counts[1][1:] == T).all(), "one dense layer reaches all"

# %% [markdown]
# The number of tokens that can act on a state is its *receptive field*: n (w - 1) + 1 after n bands
# of w. One dense layer ends this. What the bands do to the loss of GPT-3, the paper does not say.

# %% [markdown]
# ## 4. Instruction tuning: the same loss, on fewer tokens
#
# A document for *instruction tuning* is `instruction => response _end_`. People write the
# responses. (The paper says supervised fine-tuning, SFT, with about 13,000 prompts.) The loss is
# that of a language model, but only the response and its end count: the model shall write these.
# All other targets are -100, as in lesson 26.
#
# Our responses begin with a polite "sure" in one document of five. We **hold out** 24 of the 72
# facts, for each thing one of its three. The tuning has each thing in other questions, and each kind
# of question with other things, but not these combinations.

# %%
is_held = KIND == np.tile(np.arange(24) % 3, 3)
TUNED, HELD = np.flatnonzero(~is_held), np.flatnonzero(is_held)


def documents(seed, step):
    """32 documents of the tuning, padded: ids (32,13)"""
    rng = np.random.default_rng([seed, step, 1])
    rows = np.full((32, 13), PAD)
    for row, fact in zip(rows, rng.choice(TUNED, size=32), strict=True):
        polite = [SURE] * (rng.random() < 0.2)
        words = [*QUESTIONS[fact, 0], DELIMITER, *polite, *ANSWERS[fact]]
        row[: len(words)] = words
    return rows


def on_responses(rows):
    """rows (B,T+1), one document each -> ids (B,T), and the targets that count"""
    ids = rows[:, :-1]
    begun = (ids == DELIMITER).cumsum(axis=1) > 0
    ended = (ids == END).cumsum(axis=1) > 0
    return ids, np.where(begun & ~ended, rows[:, 1:], IGNORED)


ids, targets = on_responses(documents(0, 0)[:1])
for name, row in (("sees", ids[0]), ("predicts", targets[0])):
    print(f"{name:9}", " ".join("." * 3 if i == IGNORED else WORDS[i] for i in row))

# %% [markdown]
# ## 5. Backward: one loss, three sets of weights
#
# Give each target a weight $w_t$: in pre-training 1, in tuning 1 in the response and 0 in the
# instruction, in section 9 any number, a negative one too. One backward pass serves all three.

# %%
from minigpt import ops
from minigpt.learn import lines


def put(dpicked, targets, p):
    """The gradient of p[rows, targets]: zero at all words that are not the target."""
    dp = np.zeros_like(p)
    dp[np.arange(len(targets)), targets] = dpicked
    return dp


def weighted(z, targets, w, n):
    p, soft = ops.softmax_forward(z)
    picked = p[np.arange(len(targets)), targets]
    log_p = np.log(picked)
    counted = w * log_p
    out = -counted.sum() / n
    return out


print("five lines forward; w (T,) are the weights, n is what the sum is divided by")

# %%
def weighted_backward(dout, v):
    # out = -counted.sum() / n
    dcounted = np.full_like(v.log_p, -dout / v.n)
    # counted = w * log_p
    dlog_p = dcounted * v.w
    # log_p = np.log(picked)
    dpicked = dlog_p / v.picked
    # picked = p[rows, targets]
    dp = put(dpicked, v.targets, v.p)
    # p = softmax(z)
    dz = ops.softmax_backward(dp, v.soft)
    return dz


z = 0.3 * np.random.default_rng(2).normal(size=(6, 5))
y = np.array([4, 0, 2, 2, 1, 3])
WEIGHTS = {"pre-training": np.ones(6), "tuning": np.array([0.0, 0, 0, 1, 1, 1]),
           "reinforcement": np.array([0, 0, 0, -0.7, -0.7, -0.7])}
for name, w in WEIGHTS.items():
    print(f"--- {name}, weights {w}")
    weight_results = lines.check(weighted, weighted_backward, z, y, w=w, n=3.0)
    assert all(result.error < 1e-7 for result in weight_results), "every line is right"

# %% [markdown]
# **Collapse.** The last three lines are lesson 02's: softmax, log and pick together give $p$ minus
# the one-hot row. The weight is a factor of the row:
#
# $$
# L = -\frac{1}{n} \sum_t w_t \log p_{t, y_t}, \qquad
# \frac{\partial L}{\partial z_t} = \frac{w_t}{n} \, (p_t - \text{onehot}(y_t))
# $$
#
# Where $w_t = 0$, the row is exactly zero. Yet the places of the instruction learn: the response
# attends to them, and gradients flow back to their keys and values.

# %%
for w in WEIGHTS.values():
    dz = ops.softmax_forward(z)[0]
    dz[np.arange(6), y] -= 1
    dz *= w[:, None] / 3
    _, cross_entropy = ops.cross_entropy_forward(z, y, weights=w, normalizer=3.0)
    assert np.allclose(dz, ops.cross_entropy_backward(1.0, cross_entropy)), "the library's gradient"
model = pretrained[0]
model.zero_grad()
_, cache = model.loss(*on_responses(documents(0, 0)[:1]))
model.loss_backward(cache)
arrived = np.abs(model.wpe.weight.grad).sum(axis=1)[:9]
print("gradient that arrives at the places of the instruction:", arrived.round())
assert (arrived > 0).all(), "they learn how to be read"

# %% [markdown]
# ## 6. Check, and the trap
#
# **The trap: one place too late.** The delimiter is no part of the response. So an author lets
# those places count whose *input* is in the response. That sounds right. But the first word of the
# response is predicted at the place of the delimiter, and is now never taught.

# %%
from minigpt import gradcheck


def one_late(rows):
    """The mistake: the delimiter's place does not count."""
    ids, targets = on_responses(rows)
    return ids, np.where(ids == DELIMITER, IGNORED, targets)


tiny = GPT2(GPT2Config(**SIZES | {"n_embd": 8, "n_head": 2, "n_layer": 1,
                                  "initializer_range": 0.3}), seed=1, dtype=np.float64)
for maker in (on_responses, one_late):
    worst = gradcheck.worst(gradcheck.check_model(tiny, *maker(documents(0, 1)[:2])))
    print(f"{maker.__name__:13} the worst error of all gradients: {worst.error:.0e}")
    assert worst.error < 1e-7, "no gradient check can see this mistake"

# %%
def copy_of(model):
    other = GPT2(GPT2Config(**SIZES), seed=0)
    for to, source in zip(other.parameters(), model.parameters(), strict=True):
        to.data[...] = source.data
    return other


def judge(facts, answers):
    """answers (n,4 or more) -> (n,): 1 for a right answer, and 0.25 for one polite `sure`"""
    polite = (answers[:, 0] == SURE) & (answers[:, 1] != SURE)
    said = np.where(polite[:, None], answers[:, 1:4], answers[:, :3])
    return (said == ANSWERS[facts]).all(axis=1) + 0.25 * polite


def right(model, facts, wording=0):
    answers = model.generate(prompts(facts, wording), 4, top_k=1)[:, 9:]
    return (judge(facts, answers) >= 1).mean()


late = copy_of(pretrained[0])
late_losses = train(late, lambda seed, step: one_late(documents(seed, step)), 0, 100, 1e-3)
ids, late_targets = one_late(documents(0, 101))
logits, _ = late.forward(ids, grad=False)
told = (logits.argmax(-1) == late_targets)[late_targets != IGNORED].mean()
print(f"one late: loss {late_losses[0]:.2f} to {late_losses[-1]:.2f}; of the words that count it "
      f"tells {told:.0%}; questions that it answers: {right(late, TUNED):.0%}")
print(text_of(late.generate(prompts([15]), 6, top_k=1)[0]))
assert late_losses[-1] < 0.3 and told > 0.9, "loss and accuracy look good"
assert right(late, TUNED) < 0.1, "and no question is answered"

# %% [markdown]
# Loss and accuracy look good, because a full stop and an end are easy. No gradient check sees the
# mistake. Print a batch as text, as in section 4: which word does the delimiter predict?

# %% [markdown]
# ## 7. What tuning teaches
#
# Now without the mistake: 100 updates for each seed, with the loss on responses, and with the loss
# on all tokens. As a control, a model that was **not** pre-trained has 200 updates of the same
# tuning. We test the facts of the tuning, the held-out facts, and two other wordings: the second
# name ("what is the tint of the kite ?"), and another sequence ("the colour of the kite is what
# ?"). No instruction of the tuning had them.

# %%
def on_all(rows):
    return rows[:, :-1], np.where(rows[:, 1:] == PAD, IGNORED, rows[:, 1:])


def measured(model):
    tests = [(TUNED, 0), (HELD, 0), (TUNED, 1), (HELD, 1), (TUNED, 2), (HELD, 2)]
    return np.array([right(model, *test) for test in tests] + [knows(model)])


tuned, results = {}, {}
HOW = {"loss on responses": (on_responses, 100, 1e-3), "loss on all tokens": (on_all, 100, 1e-3),
       "not pre-trained": (on_responses, 200, 4e-3)}
print("                          right: in tuning  held out  name: in held  sequence: in held  knows")
for name, (maker, steps, rate) in HOW.items():
    for seed in SEEDS:
        fresh = GPT2(GPT2Config(**SIZES), seed=seed + 5)
        model = fresh if name == "not pre-trained" else copy_of(pretrained[seed])
        train(model, lambda s, n, maker=maker: maker(documents(s, n)), seed, steps, rate)
        tuned[name, seed], results[name, seed] = model, measured(model)
        print(f"{name:20} seed {seed}", *(f"{100 * share:9.0f}" for share in results[name, seed]))

# %%
NAMES = ["in tuning", "held out", "2nd name,\nheld out", "other sequence,\nheld out", "knows"]
COLUMNS = [0, 1, 3, 5, 6]
tuning_figure, axes = plot.plt.subplots(figsize=(11, 4.4))
for number, name in enumerate(HOW):
    shares = np.array([results[name, seed][COLUMNS] for seed in SEEDS])
    where = np.arange(5) + 0.27 * (number - 1)
    axes.bar(where, shares.mean(axis=0), 0.25, label=name, alpha=0.7)
    axes.plot(where, shares.T, "k.", markersize=7)
axes.axhline(1 / 8, color="gray", linestyle="--")
axes.text(4.55, 1 / 8, "guess", va="bottom", ha="right")
axes.set_xticks(range(5), NAMES)
axes.set(ylabel="right", ylim=(0, 1.35), title="After tuning (three seeds)")
axes.legend(ncols=3, loc="upper center")
plot.save(tuning_figure, "33_tuning.png")
means = {name: np.mean([results[name, seed] for seed in SEEDS], axis=0) for name in HOW}
print("means:", *(f"{name}: held out {means[name][1]:.0%}, knows {means[name][6]:.0%};"
                  for name in HOW))
for name in HOW:
    assert means[name][0] > 0.9, "each learns the answers of the tuning"
assert means["not pre-trained"][1] < 0.2, "without pre-training, held-out facts cannot be known"
for seed in SEEDS:
    assert results["loss on responses", seed][1] > 0.4, "with it, most are answered"

# %% [markdown]
# - **Held-out combinations** are answered far above chance, and the control cannot do it. So the
#   tuning did not teach these facts: it taught *to answer* with what pre-training has stored.
# - **The second name** is understood nearly as well. Pre-training had told that both mean the same.
# - **The other sequence** is understood in part: better than guessing, and far below the rest. What
#   no text has prepared, tuning on one wording does not give.
# - **Responses or all tokens?** After 100 updates we see no clear difference in the answers. The
#   loss on all tokens keeps the facts a little better as statements (*knows*). That a tuned model
#   loses something is called the *alignment tax* in the paper (section 4.2).
# - That large models follow instructions in all kinds of wordings: not shown here.

# %%
gap = {name: means["loss on responses"][i] - means["loss on all tokens"][i]
       for name, i in (("held out", 1), ("knows", 6))}
print(f"responses minus all tokens: held out {gap['held out']:+.2f}, knows {gap['knows']:+.2f}")
assert abs(gap["held out"]) < 0.25, "no clear difference"
sequence = means["loss on responses"][5]
print(f"other sequence, held out: {sequence:.2f}; held out as tuned: "
      f"{means['loss on responses'][1]:.2f}")
assert sequence < means["loss on responses"][1] - 0.15, "a new sequence is harder"

# %% [markdown]
# ## 8. A reward model: from comparisons to a score
#
# Good answers are hard to write and easy to compare. So people rank several answers of the model.
# A **reward model** is the tuned model with one linear map in place of the head: from the state at
# the last token to one number r. For a better answer w (winner) and a worse one l (loser):
#
# $$
# L = -\log \sigma(r_w - r_l), \qquad
# \frac{\partial L}{\partial r_w} = -\sigma(r_l - r_w) = -\frac{\partial L}{\partial r_l}
# $$
#
# This is lesson 02's cross-entropy with two logits, $r_w$ and $r_l$, and the target "w": the
# softmax of two numbers is the sigmoid of their difference.

# %%
def compared(r_w, r_l):
    d = r_w - r_l
    e = np.exp(-d)
    out = np.log1p(e).mean()
    return out


def compared_backward(dout, v):
    # out = np.log1p(e).mean()
    de = dout / v.e.size / (1 + v.e)
    # e = np.exp(-d)
    dd = -de * v.e
    # d = r_w - r_l
    dr_w = dd
    dr_l = -dd
    return dr_w, dr_l


r_w, r_l = np.random.default_rng(3).normal(size=(2, 5))
pair_results = lines.check(compared, compared_backward, r_w, r_l)
assert all(result.error < 1e-8 for result in pair_results), "every line is right"
two_logits, ce_cache = ops.cross_entropy_forward(np.stack([r_w, r_l], 1), np.zeros(5, int))
dtwo = ops.cross_entropy_backward(1.0, ce_cache)
closed = -1 / (1 + np.exp(r_w - r_l)) / 5
assert np.allclose(two_logits, compared(r_w, r_l)) and np.allclose(dtwo[:, 0], closed), "the same"

# %% [markdown]
# Our people are one line of code, `judge` above: a right answer is best, and of two equal ones the
# polite one is better. Of each question of the tuning they rank four answers: right or wrong, with
# "sure" or without. Four ranked answers are six comparisons.

# %%
PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])  # (winner, loser)
DIFFERENCES = np.eye(4)[PAIRS[:, 0]] - np.eye(4)[PAIRS[:, 1]]  # (6,4): d = r @ DIFFERENCES.T


def four_answers(facts, rng):
    """-> ids (4n,13): polite and right, right, polite and wrong, wrong; filled up with the end"""
    wrong = VALUES[KIND[facts], (RIGHT[facts] + rng.integers(1, 8, size=len(facts))) % 8]
    rows = np.full((len(facts), 4, 13), END)
    rows[:, :, :9] = prompts(facts)[:, None]
    rows[:, ::2, 9] = SURE
    for answer, value in enumerate((VALUE_IDS[facts], VALUE_IDS[facts], wrong, wrong)):
        at = 10 - answer % 2
        rows[:, answer, at], rows[:, answer, at + 1] = value, ID["."]
    return rows.reshape(-1, 13)


def last_token(ids):
    """The place of the first end behind the delimiter, or of the last token."""
    ends = ids[:, 9:] == END
    return np.where(ends.any(axis=1), 9 + ends.argmax(axis=1), ids.shape[1] - 1)


for row in four_answers(TUNED[:1], np.random.default_rng(4)):
    place = last_token(row[None])[0]
    print(f"{judge(TUNED[:1], row[None, 9:])[0]:.2f}  {text_of(row[: place + 1])}")

# %%
def train_reward(body, seed, steps=300):
    """-> the weights of the linear map; the body is trained too"""
    from minigpt.nn import Parameter

    head = Parameter(np.zeros(64, np.float32))
    optimizer = AdamW([*body.named_parameters(), ("reward", head)])
    for step in range(steps):
        rng = np.random.default_rng([seed, step, 2])
        ids = four_answers(rng.choice(TUNED, 8), rng)
        rows = np.arange(len(ids)), last_token(ids)
        body.zero_grad()
        h, cache = body.hidden(ids)
        r = (h[rows] @ head.data).reshape(8, 4)
        d = r @ DIFFERENCES.T
        dr = (-1 / (1 + np.exp(d)) / d.size @ DIFFERENCES).reshape(-1)
        dh = np.zeros_like(h)
        dh[rows] = dr[:, None] * head.data
        head.grad = (dr @ h[rows]).astype(np.float32)
        body.hidden_backward(dh, cache)
        optimizer.step(1e-3 * warmup_cosine(step / steps, 0.1), 1.0)
    return head.data


def score(reward_model, ids):
    body, head = reward_model
    h, _ = body.hidden(ids, grad=False)
    return h[np.arange(len(ids)), last_token(ids)] @ head


print("d_r for all six pairs at once: dd @ DIFFERENCES")

# %%
reward_models, in_order = {}, {}
print("the score puts right before wrong, and polite before not polite:")
for seed in SEEDS[:2]:
    body = copy_of(tuned["loss on responses", seed])
    reward_models[seed] = body, train_reward(body, seed)
    for name, facts in (("tuned", TUNED), ("held", HELD)):
        ids = four_answers(np.repeat(facts, 3), np.random.default_rng(5))
        r = score(reward_models[seed], ids).reshape(-1, 4)
        true, polite = (r[:, :2] > r[:, 2:]).mean(), (r[:, ::2] > r[:, 1::2]).mean()
        curt = (r[:, 1] > r[:, 2]).mean()
        in_order[seed, name] = true, polite, curt
        print(f"seed {seed}, {name:5} questions: right {true:.0%}, polite {polite:.0%}; "
              f"right and curt before wrong and polite {curt:.0%}")
    assert min(in_order[seed, "tuned"][:2]) > 0.8, "it orders the questions that it was trained on"
    assert in_order[seed, "held"][1] > 0.7, "it knows politeness everywhere"
    assert in_order[seed, "held"][0] < 0.8, "and not the truth of a new question"

# %% [markdown]
# On the questions of the comparisons the score orders the answers as the judge does. On new
# questions it knows what politeness is, and it can hardly tell right from wrong: it prefers a
# polite wrong answer to a right one without "sure". Nothing in its loss showed this. Keep it in
# mind.

# %% [markdown]
# ## 9. Reinforcement: learn from a score
#
# *Reinforcement learning* needs no answers, only a score for what the model writes. We want to
# increase the mean reward of answers y that the model $\pi$ itself draws. Its gradient (REINFORCE,
# Williams 1992) is a mean over such draws:
#
# $$
# \nabla \, \text{E}[R(y)] = \sum_y R(y) \, \nabla \pi(y) = \text{E}[R(y) \, \nabla \log \pi(y)]
# $$
#
# Compare with section 5: that is the cross-entropy's gradient, where each token of an answer has
# the weight R(y). From R we subtract the mean of the batch (the *advantage* is what remains): the
# better half is made likelier, the other half less likely.
#
# A *KL penalty* holds the model near the tuned one, $\pi_0$, with
# $R(y) = r(y) - \beta \, (\log \pi(y) - \log \pi_0(y))$. InstructGPT uses PPO, which bounds each
# update too; we need no more than this.

# %%
def write(model, facts, seed):
    """Draw an answer of at most 7 tokens to each question -> ids (n,16), filled up with the end"""
    ids = model.generate(prompts(facts), 7, seed=seed, stop=END)
    return np.pad(ids, ((0, 0), (0, 16 - ids.shape[1])), constant_values=END)


def log_p(model, ids, targets):
    """-> (n,): the log-probability of each answer"""
    logits, _ = model.forward(ids, grad=False)
    p, _ = ops.softmax_forward(logits)
    of_target = np.take_along_axis(p, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return np.where(targets == IGNORED, 0, np.log(of_target + 1e-30)).sum(axis=1)


drawn = write(tuned["loss on responses", 1], HELD[:3], seed=0)
for row, value in zip(drawn, log_p(tuned["loss on responses", 1], *on_responses(drawn)),
                      strict=True):
    print(f"log p {value:6.2f}   {text_of(row[: last_token(row[None])[0] + 1])}")

# %%
def reinforce(policy, reward, beta, seed, steps=60, n=32):
    """reward(seed, facts, ids) -> (n,). -> for each update the mean reward, and what the judge says"""
    first, log = copy_of(policy), []
    optimizer = AdamW(policy.named_parameters(), weight_decay=0.0)
    for step in range(steps):
        facts = np.random.default_rng([seed, step, 3]).integers(72, size=n)
        rows = write(policy, facts, step)
        ids, targets = on_responses(rows)
        rewards = reward(seed, facts, rows)
        kl = log_p(policy, ids, targets) - log_p(first, ids, targets)
        value = rewards - beta * kl
        weights = np.repeat((value - value.mean())[:, None], ids.shape[1], axis=1)
        policy.zero_grad()
        logits, cache = policy.forward(ids)
        _, ce = ops.cross_entropy_forward(logits, targets, weights=weights, normalizer=n)
        policy.backward(ops.cross_entropy_backward(np.float32(1), ce), cache)
        optimizer.step(1e-3, 1.0)
        log.append((rewards.mean(), judge(facts, rows[:, 9:]).mean(), kl.mean()))
    return np.array(log)


print("the update is lesson 11's, with weights")

# %% [markdown]
# Three runs for each of two seeds, from the tuned model. The control: the reward is the judge
# itself, without a penalty. Then the reward model, without a penalty and with $\beta = 1$.

# %%
runs, ends = {}, {}
REWARDS = {
    "the judge itself": (lambda seed, facts, ids: judge(facts, ids[:, 9:]), 0.0),
    "reward model": (lambda seed, facts, ids: score(reward_models[seed], ids), 0.0),
    "reward model, KL penalty": (lambda seed, facts, ids: score(reward_models[seed], ids), 1.0),
}
for seed in SEEDS[:2]:
    for name, (reward, beta) in REWARDS.items():
        policy = copy_of(tuned["loss on responses", seed])
        runs[name, seed] = reinforce(policy, reward, beta, seed)
        start, end = runs[name, seed][:3].mean(axis=0), runs[name, seed][-10:].mean(axis=0)
        said = policy.generate(prompts([15]), 6, top_k=1)[0, 9:]
        print(f"{name:25} seed {seed}: reward {start[0]:5.2f} to {end[0]:5.2f}, "
              f"judge {start[1]:.2f} to {end[1]:.2f}   {text_of(said)}")
        ends[name, seed] = end - start

# %%
reward_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4.4))
for number, name in enumerate(dict.fromkeys(name for name, _ in runs)):
    for seed in SEEDS[:2]:
        smooth = [np.convolve(column, np.ones(5) / 5, "valid") for column in runs[name, seed].T]
        if "model" in name:
            panels[0].plot(smooth[0], f"C{number}")
        panels[1].plot(smooth[1], f"C{number}", label=None if seed else name)
panels[0].set(title="what it is trained for", xlabel="update", ylabel="reward model's score")
panels[1].set(title="what we wanted", xlabel="update", ylabel="judge", ylim=(-0.05, 1.5))
panels[1].legend(fontsize=10, loc="upper left")
plot.save(reward_figure, "33_reward.png")
for seed in SEEDS[:2]:
    assert ends["the judge itself", seed][1] > 0.05, "with a true reward the model becomes better"
    assert ends["reward model", seed][0] > 0.4, "the score rises"
    assert ends["reward model", seed][1] < -0.25, "and the answers become worse"
    held_back = ends["reward model, KL penalty", seed][1] - ends["reward model", seed][1]
    assert held_back > 0.2, "the penalty keeps most of the quality"

# %% [markdown]
# **That is the surprise worth remembering.** Without a penalty the score rises and the answers are
# destroyed: the model has left the kinds of answers that the reward model was trained on, and there
# the score means nothing. That is called *reward hacking*. The control says whose fault it is: with
# the judge as reward, the same lines make the model better. The penalty does not make our reward
# model good. It keeps the model where the score still means something.

# %% [markdown]
# ## 10. In the library
#
# `minigpt.data.objectives.responses` is `on_responses`, for windows of a long text with many
# documents. A window that begins inside a response, whose delimiter was cut off, counts nothing
# until the next delimiter.
#
#     # minigpt/data/objectives/responses.py
#     begun = last_place(seen == delimiter_id)
#     ended = last_place(seen == end_id)
#     targets = np.where(begun > ended, ids[:, 1:], ops.IGNORED)

# %%
from minigpt.data.objectives import responses

rows = documents(0, 2)
batch = responses(DELIMITER, END)(rows, np.random.default_rng(0))
by_hand = on_responses(rows)
print(f"targets that count: {batch.n_targets} of {batch.targets.size}")
assert np.array_equal(batch.ids, by_hand[0]), "the same inputs"
assert np.array_equal(batch.targets, by_hand[1]), "the same targets"
window = np.array([[ID["red"], ID["."], END, *QUESTIONS[0, 0], DELIMITER, *ANSWERS[0]]])
cut = responses(DELIMITER, END)(window, np.random.default_rng(0)).targets[0]
print("a window that begins in a response:", " ".join("..." if i < 0 else WORDS[i] for i in cut))
assert (cut[:11] == IGNORED).all() and (cut[11:] == ANSWERS[0]).all(), "only the whole one counts"

# %% [markdown]
# ## 11. Paper and code
#
# - **"GPT-3 was trained on 45 TB of text."** 45 TB is Common Crawl before it was filtered; 570 GB
#   were left (section 2.2). With the other sources the data have 499 billion tokens, of which the
#   training read 300 billion: Wikipedia 3.4 times, Common Crawl less than half.
# - **"GPT-3 follows instructions."** The model of 2020 was trained on text alone. Tasks were given
#   as in lesson 19.
# - **Schedule** (appendix B): Adam with 0.9 and 0.95, clipping at 1, weight decay 0.1, warm-up over
#   375 million tokens, a cosine to 10 % over 260 billion; the batch grows from 32,000 tokens.
# - **InstructGPT**: labelers preferred the answers of a tuned model with 1.3 billion parameters to
#   those of GPT-3 with 175 billion (abstract). "Preferred" is what was measured, on prompts of its
#   users: it does not say that the small model knows more.
# - The paper does not say whether the prompt's tokens counted in SFT. Its reward model has 6 billion
#   parameters, and 4 to 9 answers to a prompt were ranked. To the reinforcement it adds the loss of
#   pre-training text (PPO-ptx), against the alignment tax: exercise 3.
#
# | claim of the papers | here |
# |---|---|
# | tuning on instructions makes a model answer, also what tuning did not have | shown |
# | it learns from text how the same is said otherwise | shown for a second name |
# | a reward model scores new answers as people would | not shown: politeness yes, truth no |
# | reinforcement improves the answers | shown with the true judge only |
# | a penalty is needed against a flawed reward | shown |
#
# ## 12. Exercises
#
# 1. `exercises/33_preferences.py`: learn from comparisons without a reward model (DPO, Rafailov et
#    al. 2023, arXiv 2305.18290): the backward of its loss.
# 2. `exercises/33_find_the_bug.py`: a batch in two parts whose loss is not that of the batch.
# 3. Put pre-training text into the tuning: in every second update, a batch of `texts`. What becomes
#    of *knows*, of the answers in tuning, and of the held-out ones, after 100 updates of tuning?

# %%
print("lesson 33: every check is happy")
