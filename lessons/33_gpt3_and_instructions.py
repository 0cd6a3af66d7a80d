# %% [markdown]
# # Lesson 33: GPT-3 and instructions
#
# You will train a model that knows every answer and gives none: to a question it says another
# question. You will tune it on instructions, and test it on questions that the tuning did not have.
# In deeper parts a second model, the reward model, gives its answers a score. The best of many
# answers is chosen by this score, and the model learns from it. The score rises and rises, and
# most answers become wrong.
#
# Reading: 25 minutes for the core, 95 minutes for all of it. Running: 80 to 200 seconds. Before it:
# lessons 02, 12, 16 and 19. The deeper parts make two sittings, with a pause before section 9.
#
# Papers: Brown et al. 2020 (GPT-3, arXiv 2005.14165), section 2. Ouyang et al. 2022 (InstructGPT,
# arXiv 2203.02155), section 3. Rafailov et al. 2023 (DPO, arXiv 2305.18290), sections 4 and 5.

# %% [markdown]
# ## 1. Why: a model that knows, and does not answer
#
# A language model continues a text, and a question is a text. Often an answer follows it. But on a
# test sheet another question follows. Both are good text, and the model has no reason to prefer
# what helps.
#
# We make a small world of 72 facts: 24 things have a colour, a place and an owner. Each of these
# three has a second name (a colour is also called a tint).

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
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
KIND = np.repeat([0, 1, 2], 24)  # facts 0 to 23 are colours, 24 to 47 places, 48 to 71 owners
# RIGHT: which of its kind's 8 values a fact has; each value comes three times
RIGHT = np.concatenate([draw.permutation(np.repeat(range(8), 3)) for _ in KINDS])
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
# A text of this world is three statements, or a test sheet of three questions. Each kind is called
# by its first name in some of them, by its second name in others. We train a GPT-2 with two blocks
# of width 64 on such texts, with three seeds.

# %%
from copy import deepcopy

from minigpt import GPT2, GPT2Config, ops, plot
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine

SIZES = {"vocab_size": V, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
SIZES |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
SIZES["initializer_range"] = 0.07  # 0.02 sqrt(768 / 64), as in lesson 16
SEEDS = (0, 1, 2)


def texts(seed, step):
    """32 texts -> ids (32,23), and targets: each word predicts the next one"""
    rng = np.random.default_rng([seed, step])
    which = rng.integers(72, size=(32, 3)), rng.integers(2, size=(32, 3))  # facts, names
    is_sheet = rng.random((32, 1, 1)) < 0.5
    rows = np.where(is_sheet, QUESTIONS[which], STATEMENTS[which]).reshape(32, 24)
    return rows[:, :-1], rows[:, 1:]


print(text_of(texts(0, 0)[0][0]))

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
# **Answers**: is it the likeliest word after the question?

# %%
VALUE_IDS = VALUES[KIND, RIGHT]
ANSWERS = np.stack([VALUE_IDS, np.full(72, ID["."]), np.full(72, END)], axis=1)  # (72,3)
every = np.arange(72)


def knows(model):
    logits, _ = model.forward(STATEMENTS[:, :, :6].reshape(-1, 6), grad=False)
    return (logits[:, -1].argmax(-1) == np.repeat(VALUE_IDS, 2)).mean()


for seed, model in pretrained.items():
    said = model.generate(QUESTIONS[:, 0], 8, top_k=1)[:, 8:]
    questions, answered = (said == ID["?"]).any(axis=1).mean(), (said[:, 0] == VALUE_IDS).mean()
    print(f"seed {seed}: knows {knows(model):.0%}, says another question {questions:.0%}, "
          f"answers {answered:.0%}:")
    print("   ", text_of([*QUESTIONS[15, 0], *said[15]]))
    assert knows(model) > 0.97, "every fact is stored"
    assert questions > 0.95 and answered < 0.1, "and no question is answered"

# %% [markdown]
# Everything is known, and nothing is answered. The model is *right*: in its text, questions follow
# questions.

# %% [markdown] tags=["deeper"]
# ## 2. The difference in five questions
#
# | question | GPT-2 | GPT-3 | InstructGPT |
# |---|---|---|---|
# | who sees whom? | each token the left | **in some layers only a band of it** | the same |
# | what is covered? | nothing | nothing | nothing |
# | what is predicted? | the next token | the next token | **the same; then, what scores high** |
# | what is shared? | the token table is the head | the same | the same |
# | where does position enter? | a table, 1,024 rows | a table, **2,048 rows** | the same |
#
# GPT-3's model is GPT-2's, but for its attention: dense and "locally banded sparse" layers take
# turns (section 2.1). Lesson 38 trains such bands. The rest is size, text and schedule.
# InstructGPT is GPT-3, trained further on what people want.

# %% [markdown] tags=["deeper"]
# ## 3. GPT-3's way: examples in the prompt
#
# GPT-3 is shown solved examples, and no weight changes (lessons 19 and 38). Does our model answer
# then? Before the question we put one or two others of its kind, each with its right answer.

# %%
def after_examples(model, shots):
    """-> the share of right answers behind so many solved examples"""
    rng, rows = np.random.default_rng(shots), []
    for fact in every:
        shown = rng.choice(every[(KIND == KIND[fact]) & (every != fact)], shots, replace=False)
        solved = [[*QUESTIONS[one, 0], VALUE_IDS[one], ID["."]] for one in shown]
        rows.append(sum(solved, []) + list(QUESTIONS[fact, 0]))
    return (model.generate(np.array(rows), 1, top_k=1)[:, -1] == VALUE_IDS).mean()


for n in (0, 1, 2):
    shares = [after_examples(model, n) for model in pretrained.values()]
    print(f"{n} examples shown: answers {min(shares):.0%} to {max(shares):.0%}, three seeds")
    assert max(shares) < 0.1, "examples do not make it answer"

# %% [markdown]
# No. Our guess why: in its texts no answer ever stood behind a question, so there is nothing that
# examples could call up. (GPT-3's texts have questions with answers.)

# %% [markdown]
# ## 4. Instruction tuning: the same loss, on fewer tokens
#
# A document for *instruction tuning* is `instruction => response _end_`. People write the
# responses. (The paper says supervised fine-tuning, SFT; it had about 13,000 prompts.) The loss is
# that of a language model, but only the response and its end count: all other targets are -100.
# This is the first of the steps by which a language model becomes one that answers. The others are
# in the deeper parts (the numbers are those of the sections):

# %% tags=["hide-input"]
d = plot.Diagram(13.2, 4.5, "From a language model to one that answers")
boxes = ((1.2, 3.7, "pre-trained\nmodel", "gray"), (5.6, 3.7, "tuned model", "tab:blue"),
         (10.9, 3.7, "answers", "tab:blue"), (10.9, 0.8, "comparisons", "tab:green"),
         (5.6, 0.8, "reward model", "tab:orange"))
box = [d.box(*one, 2.0, 0.9) for one in boxes]
for start, end, across, up, words, color in (
        (0, 1, 3.4, 4.2, "4: written\nresponses", "k"), (1, 2, 8.3, 3.95, "are drawn", "k"),
        (2, 3, 12.05, 2.3, "8: people\nrank them", "k"), (3, 4, 8.3, 0.5, "8: learns a score", "k"),
        (4, 1, 4.2, 2.3, "9: reinforcement", "k"), (3, 1, 9.5, 2.3, "10: DPO", "tab:red"),
        (4, 2, 6.75, 2.3, "8: the best\nof n is kept", "tab:orange")):
    d.arrow(box[start], box[end], color=color)
    d.text(across, up, words, color)
plot.save(d.figure, "33_steps.png")

# %% [markdown]
# One response in five begins with a polite "sure". We **hold out** 24 of the 72 facts, for each
# thing one of its three. The tuning has each thing in other questions, and each kind of question
# with other things, but not these combinations.

# %%
is_held = KIND == np.tile(np.arange(24) % 3, 3)  # of thing i that of kind i mod 3
TUNED, HELD = np.flatnonzero(~is_held), np.flatnonzero(is_held)


def documents(seed, step):
    """32 documents of the tuning, padded: ids (32,13)"""
    rng = np.random.default_rng([seed, step, 1])
    rows = np.full((32, 13), PAD)
    for row, fact in zip(rows, rng.choice(TUNED, size=32), strict=True):
        polite = [SURE] if rng.random() < 0.2 else []
        words = [*QUESTIONS[fact, 0], DELIMITER, *polite, *ANSWERS[fact]]
        row[: len(words)] = words
    return rows


def on_responses(rows):
    """rows (B,T+1), one document each -> ids (B,T), and targets (B,T)"""
    ids = rows[:, :-1]
    begun = (ids == DELIMITER).cumsum(axis=1) > 0  # from the delimiter on
    ended = (ids == END).cumsum(axis=1) > 0  # from the end on
    return ids, np.where(begun & ~ended, rows[:, 1:], IGNORED)


for name, (row,) in zip(("sees", "predicts"), on_responses(documents(0, 0)[:1]), strict=True):
    print(f"{name:9}", " ".join("..." if i == IGNORED else WORDS[i] for i in row))

# %% [markdown]
# ## 5. Backward: one loss, and weights
#
# Give each target a weight $w_t$: in pre-training 1; in tuning 1 in the response, and 0 in the
# instruction. With n targets that count, and p the softmax of the logits z, the loss is
#
# $$
# L = -\frac{1}{n} \sum_t w_t \log p_{t, y_t}
# $$
#
# **Your turn:** write the gradient of L with respect to z. p and onehot have a row for each target,
# w a number. (With w = 1 it is that of lesson 02.)

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

z = 0.3 * np.random.default_rng(2).normal(size=(6, 5))
y, half = np.array([4, 0, 2, 2, 1, 3]), np.array([0.0, 0, 0, 1, 1, 1])  # half are a response


def your_dz(p, onehot, w, n):
    return ...  # w (6,), p and onehot (6,5)


true_dz = numeric(lambda z: -half @ np.log(ops.softmax_forward(z)[0][np.arange(6), y]) / 3, z)
gap.judge(your_dz, ops.softmax_forward(z)[0], np.eye(5)[y], half, 3, expected=true_dz)

# %% [markdown] tags=["answer"]
# `w[:, None] / n * (p - onehot)`: "p minus one-hot" as in lesson 02, and the weight of a target is
# a factor of its row.

# %% [markdown]
# For example, there are three words, p is (0.1, 0.2, 0.7), and the first word is right. Then the
# row of the gradient, times n, is (-0.9, 0.2, 0.7) in the response and (0, 0, 0) in the
# instruction. The model is not taught to pose questions.

# %% [markdown] tags=["deeper"]
# ### Line by line, and with negative weights
#
# In section 9 a weight may be any number, a negative one too. In all cases
#
# $$
# \frac{\partial L}{\partial z_t} = \frac{w_t}{n} \, (p_t - \text{onehot}(y_t))
# $$

# %%
from minigpt.learn import lines, reference


def weighted(z, onehot, w, n):
    p, soft = ops.softmax_forward(z)
    picked = (p * onehot).sum(axis=1)
    log_p = np.log(picked)
    counted = w * log_p
    out = -counted.sum() / n
    return out


WEIGHTS = {"pre-training": np.ones(6), "tuning": half, "reinforcement": -0.7 * half}
print("weights of the targets:", *(f"{name} {w}" for name, w in WEIGHTS.items()), sep="\n")

# %%
def weighted_backward(dout, v):
    # out = -counted.sum() / n
    dcounted = np.full_like(v.log_p, -dout / v.n)
    # counted = w * log_p
    dlog_p = dcounted * v.w
    # log_p = np.log(picked)
    dpicked = dlog_p / v.picked
    # picked = (p * onehot).sum(axis=1)
    dp = dpicked[:, None] * v.onehot
    # p = softmax(z)
    dz = ops.softmax_backward(dp, v.soft)
    return dz


weight_results = lines.check(weighted, weighted_backward, z, np.eye(5, dtype=int)[y],
                             w=WEIGHTS["reinforcement"], n=3.0)
assert all(result.error < 1e-7 for result in weight_results), "every line is right"

# %%
from minigpt.data.objectives import responses

for w in WEIGHTS.values():
    closed_dz = w[:, None] / 3 * (ops.softmax_forward(z)[0] - np.eye(5)[y])
    _, ce = ops.cross_entropy_forward(z, y, weights=w, normalizer=3.0)
    assert np.allclose(closed_dz, ops.cross_entropy_backward(1.0, ce)), "as in the library"
library = responses(DELIMITER, END)(documents(0, 2), np.random.default_rng(0))
assert np.array_equal(library.targets, on_responses(documents(0, 2))[1]), "the same targets"
print("the library has the same gradient; its objective `responses` makes the same targets")

# %% [markdown]
# ## 6. What tuning teaches
#
# We tune for 100 updates. The control was **not** pre-trained; it has 200 larger updates of the
# same tuning. Then both answer the questions of the tuning, and the held-out ones.

# %%
def prompts(facts, wording=0):
    return np.pad(QUESTIONS[facts, wording], ((0, 0), (0, 1)), constant_values=DELIMITER)


def judge(facts, answers):
    """answers (n,4 or more) -> (n,): 1 for a right answer, and 0.25 for one polite `sure`"""
    polite = (answers[:, 0] == SURE) & (answers[:, 1] != SURE)
    said = np.where(polite[:, None], answers[:, 1:4], answers[:, :3])
    return (said == ANSWERS[facts]).all(axis=1) + 0.25 * polite


def right(model, facts, wording=0):
    answers = model.generate(prompts(facts, wording), 4, top_k=1)[:, 9:]
    return (judge(facts, answers) >= 1).mean()


tuned = {seed: deepcopy(model) for seed, model in pretrained.items()}
control = GPT2(GPT2Config(**SIZES), seed=5)
for seed, model in tuned.items():
    train(model, lambda *at: on_responses(documents(*at)), seed, 100, 1e-3)
train(control, lambda *at: on_responses(documents(*at)), 0, 200, 4e-3)
print("the same question as above:", text_of(tuned[0].generate(prompts([15]), 3, top_k=1)[0]))

# %% [markdown]
# **Guess:** the held-out facts were in no document of the tuning. What share of their questions
# does the tuned model answer?

# %%
MODELS = {"before": pretrained.values(), "not pre-trained": [control], "tuned": tuned.values()}
results = {name: np.array([[right(model, TUNED), right(model, HELD), knows(model)]
                           for model in models]) for name, models in MODELS.items()}
tuned_figure, panels = plot.plt.subplots(1, 3, figsize=(11, 3), sharey=True)
for column, title in enumerate(("answers, in the tuning", "answers, held out", "states the fact")):
    for name, rows in results.items():
        panels[column].plot(rows[:, column], [name] * len(rows), "o", markersize=9, alpha=0.6)
        print(f"{title:22} {name:15}", *(f"{share:5.0%}" for share in rows[:, column]))
    panels[column].set(title=title, xlim=(-0.05, 1.05), xlabel="share right")
plot.save(tuned_figure, "33_before_and_after_tuning.png")
assert min(results["tuned"][:, 0].min(), results["not pre-trained"][0, 0]) > 0.9, "both learn it"
assert results["not pre-trained"][0, 1] < 0.3, "without pre-training, a held-out fact is a guess"
assert results["tuned"][:, 1].min() > 0.4 > results["before"][:, 1].max(), "tuned, most are known"

# %% [markdown] tags=["answer"]
# Most. (A point is a seed. A guess among eight values is right in 12 %.) **Held-out questions are
# answered** far above chance. The control answers hardly one. So the tuning did not teach these
# facts. It taught to answer with what pre-training has stored. And something is lost: before, the
# models stated all facts, now fewer. (The paper calls what the whole training costs on public tests
# the *alignment tax*, section 4.2.)

# %% [markdown] tags=["deeper"]
# ### Other wordings
#
# Does it follow instructions, or only these? Two wordings that the tuning did not have: with the
# second name ("what is the tint of the kite ?"), and in another order of words ("the colour of the
# kite is what ?").

# %%
wordings = np.array([[right(model, HELD, wording) for wording in range(3)]
                     for model in tuned.values()])
print("held-out questions, right: as in the tuning, second name, another order (a row is a seed)")
print(wordings.round(2))
assert wordings[:, 2].mean() < wordings[:, 1].mean() - 0.1, "another order is harder"

# %% [markdown]
# **The second name** works more often than **the other order** of known words. We guess why:
# pre-training had both names in its questions, and never that order.

# %% [markdown] tags=["deeper"]
# ## 7. The trap: one place too late
#
# An author lets those places count whose *input* is in the response. That sounds right. But the
# first word of the response is predicted at the place of the delimiter, and is now never taught.
# Every gradient is right, as in lessons 31 and 32.

# %%
def one_late(rows):
    """The mistake: the delimiter's place does not count."""
    ids, targets = on_responses(rows)
    return ids, np.where(ids == DELIMITER, IGNORED, targets)


late = deepcopy(pretrained[0])
late_losses = train(late, lambda *at: one_late(documents(*at)), 0, 100, 1e-3)
print(f"the loss falls to {late_losses[-1]:.2f}; answered: {right(late, TUNED):.0%}")
print(text_of(late.generate(prompts([15]), 6, top_k=1)[0]))
assert late_losses[-1] < 0.3 and right(late, TUNED) < 0.1, "a small loss, and no answer"

# %% [markdown]
# A full stop and an end are easy to predict, so the loss is small. What finds the mistake: print a
# batch as text, as in section 4.

# %% [markdown] tags=["deeper"]
# ## 8. A reward model: from comparisons to a score
#
# Good answers are hard to write and easy to compare. So people rank several answers. A **reward
# model** is the tuned model with another head: a linear map from the state of the last token to one
# number r. For a better answer w (winner) and a worse one l (loser):
#
# $$
# L = -\log \sigma(r_w - r_l), \qquad
# \frac{\partial L}{\partial r_w} = -\sigma(r_l - r_w) = -\frac{\partial L}{\partial r_l}
# $$
#
# This is the cross-entropy of lesson 02. The logits are $r_w$ and $r_l$, and the winner is the
# target, since the softmax of two numbers is the sigmoid of their difference. So the gradient is p
# minus one-hot.
#
# In the place of people we have the function `judge`: a right answer is better, and of two equal
# ones the polite one. For each question of the tuning it ranks four answers: right or wrong, with
# "sure" or without. Four ranked answers are six comparisons.

# %%
ANSWER = 9  # here an answer begins: behind the eight words of the question and the delimiter


def four_answers(facts, rng):
    """-> ids (4n,13): polite and right, right, polite and wrong, wrong; then the end, repeated"""
    wrong = VALUES[KIND[facts], (RIGHT[facts] + rng.integers(1, 8, size=len(facts))) % 8]
    rows = np.full((len(facts), 4, 13), END)
    rows[:, :, :9] = prompts(facts)[:, None]
    rows[:, ::2, 9] = SURE  # answers 0 and 2 are the polite ones
    for answer, value in enumerate((VALUE_IDS[facts], VALUE_IDS[facts], wrong, wrong)):
        at = 10 - answer % 2  # where the value stands: place 10 behind "sure", else 9
        rows[:, answer, at], rows[:, answer, at + 1] = value, ID["."]
    return rows.reshape(-1, 13)


def last_token(ids):
    """The place of the first end behind the delimiter, or of the last token."""
    ends = ids[:, ANSWER:] == END
    return np.where(ends.any(axis=1), ANSWER + ends.argmax(axis=1), ids.shape[1] - 1)


for row in four_answers(TUNED[:1], np.random.default_rng(4)):
    print(f"{judge(TUNED[:1], row[None, 9:])[0]:.2f}  {text_of(row)}")

# %%
from minigpt.nn import Parameter


def ranking_loss(body, head, ids, ranks):
    """ids (4n,·), ranks (n,4), high is good -> mean loss of the pairs; gradients as usual"""
    last = np.arange(len(ids)), last_token(ids)
    body.zero_grad()
    h, cache = body.hidden(ids)
    r = (h[last] @ head.data).reshape(-1, 4)
    d = r[:, :, None] - r[:, None, :]  # (n,4,4): of each two answers of a question
    better = ranks[:, :, None] > ranks[:, None, :]
    dd = np.where(better, -1 / (1 + np.exp(d)), 0) / better.sum()  # the formula above
    dr = (dd.sum(axis=2) - dd.sum(axis=1)).reshape(-1)  # an answer wins some pairs, loses others
    dh = np.zeros_like(h)
    dh[last] = dr[:, None] * head.data
    head.grad = (dr @ h[last]).astype(h.dtype)
    body.hidden_backward(dh, cache)
    return np.log1p(np.exp(-d[better])).mean()


BY_RULE = np.tile([3, 2, 1, 0], (8, 1))  # polite and right, right, polite and wrong, wrong
print("checked in the next cell")

# %%
small_body = GPT2(GPT2Config(**SIZES | {"n_embd": 8, "n_head": 2}), seed=1, dtype=np.float64)
small_head = Parameter(np.random.default_rng(6).normal(size=8))
of_two = four_answers(TUNED[:2], np.random.default_rng(7)), BY_RULE[:2]
for name, parameter in (("head", small_head), ("block 0", small_body.h[0].attn.c_proj.weight)):
    by_steps = numeric(lambda _: ranking_loss(small_body, small_head, *of_two), parameter.data)
    ranking_loss(small_body, small_head, *of_two)  # sets the gradients, and no weight is moved
    error = np.abs(parameter.grad - by_steps).max()
    print(f"{name}: {by_steps.size} gradients, the largest error is {error:.0e}")
    assert error < 1e-7, "the backward pass is right"

# %%
def by_rule(rng):
    """The answers to 8 questions of the tuning, and their ranks."""
    return four_answers(rng.choice(TUNED, 8), rng), BY_RULE


def train_reward(model, seed, steps=900, ranked=by_rule):
    """-> a copy of the model, trained too, and the weights of the linear map"""
    body = deepcopy(model)
    head = Parameter(np.zeros(64, np.float32))
    optimizer = AdamW([*body.named_parameters(), ("reward", head)])
    for step in range(steps):
        ranking_loss(body, head, *ranked(np.random.default_rng([seed, step, 2])))
        optimizer.step(1e-3 * warmup_cosine(step / steps, 0.1), 1.0)
    return body, head.data


print("a reward model has 900 updates: 8 questions each, with 6 pairs of answers")

# %%
def score(reward_model, ids):
    body, head = reward_model
    h, _ = body.hidden(ids, grad=False)
    return h[np.arange(len(ids)), last_token(ids)] @ head


reward_models = {}
print("larger score for:          right, not wrong  polite, not curt  right, not polite and wrong")
for seed in SEEDS:
    reward_models[seed] = train_reward(tuned[seed], seed)
    for name, facts in (("in tuning", TUNED), ("held out", HELD)):
        ids = four_answers(np.repeat(facts, 3), np.random.default_rng(5))
        r = score(reward_models[seed], ids).reshape(-1, 4)
        pairs = r[:, :2] > r[:, 2:], r[:, ::2] > r[:, 1::2], r[:, 1] > r[:, 2]
        truth, manners, both = (pair.mean() for pair in pairs)
        print(f"seed {seed}, questions {name:10}{truth:13.0%} {manners:13.0%} {both:13.0%}")
        assert manners > 0.7, "it knows politeness everywhere"
        assert (min(truth, both) > 0.85) == (name == "in tuning"), "new questions: hardly the truth"

# %% [markdown]
# The last column: a right answer without "sure" against a polite wrong one. For the questions of
# the comparisons nearly every pair is in the judge's order. For new questions the score knows which
# is polite, hardly which is right.
#
# **Best of n.** The simplest use of a score needs no further training: draw n answers from the
# tuned model and keep the one with the largest score. The people of InstructGPT rank answers that a
# model has *drawn*; ours have ranked written ones. So a second reward model learns from four drawn
# answers of each question, ranked by the judge. The control: the judge itself chooses. (In the
# picture, a score has in brackets what kind of answers it has learned from.)

# %%
N = (1, 2, 4, 8, 16, 32)  # the best of so many answers will be kept


def write(model, facts, seed):
    """-> ids (n,16): questions and drawn answers, at most 7 tokens; then the end, repeated"""
    ids = model.generate(prompts(facts), 7, seed=seed, stop=END)
    return np.pad(ids, ((0, 0), (0, 16 - ids.shape[1])), constant_values=END)


def as_drawn(model):
    """-> a function like `by_rule`: answers that the model has drawn, ranked by the judge"""
    pool = np.stack([write(model, TUNED, seed=100 + number) for number in range(12)])

    def ranked(rng):
        questions, draws = rng.choice(len(TUNED), 8), rng.choice(12, 4, replace=False)
        rows = pool[draws][:, questions].swapaxes(0, 1).reshape(32, -1)  # four of each question
        return rows, judge(np.repeat(TUNED[questions], 4), rows[:, ANSWER:]).reshape(8, 4)
    return ranked


print(text_of(write(tuned[1], HELD[:1], seed=0)[0]))

# %%
def best_of(facts, rows, scores):
    """rows (32,F,16), scores (32,F) -> (6,2): for each n the best score, and the share of right"""
    is_right = np.stack([judge(facts, drawn[:, ANSWER:]) >= 1 for drawn in rows])
    found = []
    for n in N:
        groups = scores.reshape(32 // n, n, -1)
        best = groups.argmax(axis=1)[:, None]
        of_best = np.take_along_axis(is_right.reshape(groups.shape), best, axis=1)
        found.append((groups.max(axis=1).mean(), of_best.mean()))
    return np.array(found)


of_drawn = {seed: train_reward(tuned[seed], seed, ranked=as_drawn(tuned[seed])) for seed in SEEDS}
chosen = {}
for where, facts in (("in tuning", TUNED), ("held out", HELD)):
    for seed in SEEDS:
        rows = np.stack([write(tuned[seed], facts, seed=500 + i) for i in range(32)])
        scores = {"the judge": [judge(facts, drawn[:, ANSWER:]) for drawn in rows]}
        for name, model in (("written", reward_models[seed]), ("drawn", of_drawn[seed])):
            scores[f"score ({name})"] = [score(model, drawn) for drawn in rows]
        for name, values in scores.items():
            chosen[where, name, seed] = best_of(facts, rows, np.stack(values))
print("32 answers of each question, drawn, scored and judged")

# %% [markdown]
# **Guess:** with a larger n the best score can only grow. A learned score chooses: does the share
# of right answers grow too?

# %%
best_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4.2), sharey=True)
print("right answers, three seeds  n =", *(f"{n:9}" for n in N))
for panel, where in zip(panels, ("in tuning", "held out"), strict=True):
    for name, style in zip(scores, ("C2o-", "C3^-", "C0s-"), strict=True):
        shares = np.array([chosen[where, name, seed][:, 1] for seed in SEEDS])  # (3,6)
        panel.plot(range(6), shares.T, style, alpha=0.6, label=[f"chosen by {name}", None, None])
        print(f"{where:9} by {name:18}", *(f"{low:4.0%}-{high:4.0%}" for low, high in
                                            zip(shares.min(0), shares.max(0), strict=True)))
    panel.set(title=f"questions {where}", xlabel="n answers are drawn, the best score is kept",
              ylabel="right answers", ylim=(-0.03, 1.05))
    panel.set_xticks(range(6), N)
panels[0].legend(fontsize=11, loc="lower left")
plot.save(best_figure, "33_best_of.png")

for seed in SEEDS:
    assert all((np.diff(chosen[key][:, 0]) > 0).all() for key in chosen), "the best score grows"
    of_one, of_32 = chosen["held out", "score (written)", seed][[0, -1], 1]
    assert of_32 < of_one - 0.1, "a learned score chooses worse than chance, where it knows nothing"
    assert chosen["held out", "the judge", seed][-1, 1] > 0.9, "the right answer was among them"

# %% [markdown] tags=["answer"]
# No. The best score grows with n, for every chooser. With the judge, the right answers grow too,
# and it is tempting to expect this of a learned score too. But:
#
# - On the questions of its comparisons they rise at first, and with most seeds fall again. (A
#   guess: among many draws there is one that the score likes for another reason.)
# - On held-out questions the score that has learned from *written* answers chooses **worse than
#   chance** (n = 1: one answer is drawn and kept), and the worse, the more it may choose from.
# - The other score has seen what the tuned model says, wrong answers too. On held-out questions it
#   chooses about as well as chance among few answers, and worse among 32. No comparison had the
#   truth about these questions.
#
# This is *reward hacking* without training: choosing is enough. (Gao et al. 2022, arXiv 2210.10760,
# measure it with large models.)

# %% [markdown] tags=["deeper"]
# ## 9. Reinforcement: learn from a score
#
# *Reinforcement learning* needs no answers, only a score R(y) for each answer y that the model
# $\pi$ draws. Since $\nabla \log \pi = \nabla \pi / \pi$, the gradient of the mean score is again a
# mean over draws (REINFORCE, Williams 1992):
#
# $$
# \nabla \, \text{E}[R(y)] = \sum_y R(y) \, \nabla \pi(y) = \text{E}[R(y) \, \nabla \log \pi(y)]
# $$
#
# Now $\log \pi(y) = \sum_t \log p_{t, y_t}$, the sum over the tokens of the answer. Compare with
# the loss of section 5: give each token of an answer the weight R(y), and let n be the number of
# answers in the batch. Then the loss is minus the mean of $R(y) \log \pi(y)$, and its gradient is
# the one that we need, up to the sign.
#
# From R we subtract the mean of the batch: what is better than the mean becomes likelier, what is
# worse less likely. A *KL penalty* keeps the model near the tuned one, $\pi_0$:
#
# $$
# R(y) = r(y) - \beta \, (\log \pi(y) - \log \pi_0(y))
# $$
#
# (The mean of the bracket is the Kullback-Leibler divergence of $\pi$ from $\pi_0$.) R now depends
# on $\pi$ too. The product rule gives one term more:
#
# $$
# \nabla \sum_y \pi(y) R(y) = \sum_y R(y) \, \nabla \pi(y) + \sum_y \pi(y) \, \nabla R(y)
# $$
#
# With $\pi \, \nabla \log \pi = \nabla \pi$ the new term is $-\beta \, \nabla \sum_y \pi(y)$. It is
# 0, since probabilities add up to 1. So the formula stays.

# %%
def log_p(model, ids, targets):
    """-> (n,): the log-probability of each answer"""
    logits, _ = model.forward(ids, grad=False)
    p, _ = ops.softmax_forward(logits)
    of_target = np.take_along_axis(p, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return np.where(targets == IGNORED, 0, np.log(of_target + 1e-30)).sum(axis=1)


def kinds_of_answers(rows):
    """-> (3,) shares of: right; a wrong value of the asked kind; anything else"""
    polite = rows[:, 9] == SURE
    said = np.where(polite[:, None], rows[:, 10:13], rows[:, 9:12])
    value, in_form = said[:, 0], (said[:, 1] == ID["."]) & (said[:, 2] == END)
    is_right = in_form & (value == VALUE_IDS)
    asked = in_form & (value[:, None] == VALUES[KIND]).any(axis=1)
    return np.array([is_right.mean(), (asked & ~is_right).mean(), 1 - asked.mean()])


print("right, wrong, anything else")

# %%
def reinforce(policy, reward, beta, seed, steps=60, n=32):
    """reward(seed, facts, ids) -> (n,). -> of each update the mean reward, the share of right"""
    first, log = deepcopy(policy), []
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
        log.append((rewards.mean(), (judge(facts, rows[:, 9:]) >= 1).mean()))
    return np.array(log)


print("weights of a batch: value - mean, the same for all tokens of an answer")

# %% [markdown]
# All runs begin with the tuned model. The questions are all 72; the held-out third is in no
# comparison. Three seeds each: the judge itself as reward (the control), and the reward model with
# five penalties. ($\beta$ = 0 is none; the paper has 0.02, for another reward.)

# %%
runs, held_out, written = {}, {}, {}
REWARDS = {"the judge itself": (lambda seed, facts, ids: judge(facts, ids[:, ANSWER:]), 0.0)}
REWARDS |= {f"beta {beta:g}": (lambda seed, facts, ids: score(reward_models[seed], ids), beta)
            for beta in (0, 0.1, 0.3, 1, 3)}
for name, (reward, beta) in REWARDS.items():
    for seed in SEEDS:
        policy = deepcopy(tuned[seed])
        runs[name, seed] = reinforce(policy, reward, beta, seed)
        held_out[name, seed] = right(policy, HELD)
        written[name, seed] = write(policy, every, seed=0)
    print(f"{name:17} it says", text_of(written[name, 0][HELD[0], 8:]))

# %%
print("three seeds      last scores   drawn answers: right   wrong   something else  held out")
at_first = [kinds_of_answers(write(tuned[seed], every, seed=0)) for seed in SEEDS]
print(f"{'tuned':42}", "{:5.0%} {:7.0%} {:15.0%}".format(*np.mean(at_first, axis=0)))
for name in REWARDS:
    end = np.mean([runs[name, seed][-10:, 0] for seed in SEEDS])
    shares = np.mean([kinds_of_answers(written[name, seed]) for seed in SEEDS], axis=0)
    kept = [held_out[name, seed] for seed in SEEDS]
    print(f"{name:16} {end:11.2f} {shares[0]:18.0%} {shares[1]:7.0%} {shares[2]:15.0%}"
          f" {min(kept):9.0%} to {max(kept):4.0%}")
    assert name == "the judge itself" or shares[0] < np.mean(at_first, axis=0)[0], "none is better"
    assert name != "beta 0" or shares[2] > 0.5, "without a penalty most are something else"

# %%
reward_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4.4))
for number, name in enumerate(("the judge itself", "beta 0", "beta 1")):
    for seed, dash in zip(SEEDS, ("-", "--", ":"), strict=True):
        smooth = [np.convolve(column, np.ones(5) / 5, "valid") for column in runs[name, seed].T]
        if "beta" in name:
            panels[0].plot(smooth[0], f"C{number}{dash}")
        panels[1].plot(smooth[1], f"C{number}{dash}", label=None if seed else name)
panels[0].set(title="what it is trained for", xlabel="update (full, dashed, dotted: a seed each)",
              ylabel="score of the reward model")
panels[1].set(title="what we want", xlabel="update", ylabel="right answers", ylim=(-0.02, 1.02))
panels[1].legend(fontsize=11, loc="center left", bbox_to_anchor=(1, 0.5))
plot.save(reward_figure, "33_reward.png")
for seed in SEEDS:
    of_judge, alone, _, _, held_back, _ = (runs[name, seed] for name in REWARDS)
    assert of_judge[-10:, 1].mean() > 0.75, "with a true reward the answers become better"
    assert alone[-10:, 0].mean() > alone[:3, 0].mean() + 0.8, "the score rises"
    assert alone[-10:, 1].mean() < 0.4, "and most answers are wrong"
    assert held_back[-10:, 1].mean() > alone[-10:, 1].mean(), "the penalty holds this back"
    assert held_out["the judge itself", seed] > 0.8, "and reaches the held-out facts"

lost = [results["tuned"][seed, 1] - held_out["beta 1", seed] for seed in SEEDS]
assert np.mean(lost) > 0.1, "with the penalty, fewer held-out facts are answered than before"

# %% [markdown]
# Without a penalty, the score rises and the answers become wrong: reward hacking again. With the
# judge as reward, the same lines teach the model even the facts that the tuning did not have.
# So the algorithm is right, and the reward is wrong, although it orders nearly all pairs of the
# comparisons. How? The comparisons had only two kinds of answers: right ones, and wrong values of
# the kind in question. No comparison says what the score of anything else should be. And there, the
# table shows, the training finds its answers: without a penalty most are "something else".
#
# The penalty holds the model back. With $\beta$ = 0.1 and 0.3 that is hardly seen; with 3 most
# right answers are kept. But no penalty can make a reward right: with each of them at most as many
# answers are right as before the training, and far fewer of the held-out questions are answered.

# %% [markdown] tags=["deeper"]
# ## 10. Without a reward model: DPO
#
# Is there a shorter way from comparisons to a better model? Take a small case. The tuned model
# gives two answers 0.8 and 0.2; the reward of the first is 0, of the second 1; and $\beta = 1$.
#
# Which model $\pi^*$ has the largest mean of R, the value of section 9? If R were higher for one
# answer, more probability for it would raise the mean. So for the best model
# $r - \beta \log(\pi^* / \pi_0)$ is the same for both answers. Then $\pi^*$ is proportional to
# $\pi_0 \, e^{r / \beta}$: here to 0.8 and to 0.2 e = 0.544. Divided by their sum, that is 0.595
# and 0.405.
#
# Now look at $\beta \log(\pi^* / \pi_0)$: it is log(0.595 / 0.8) = -0.295 for the first answer and
# log(0.405 / 0.2) = 0.705 for the second. They differ by 1, **as the rewards do**. So the reward
# can be *read from the model*, up to a constant, the same for all answers to a question:
#
# $$
# r(y) = \beta \, (\log \pi^*(y) - \log \pi_0(y)) + \text{constant}
# $$
#
# The loss of section 8 needs only differences of rewards, and there the constant is gone. *Direct
# preference optimisation* (DPO, Rafailov et al. 2023) puts this r into that loss: the model itself
# is the reward model. Nothing is drawn. Four ranked answers are six pairs: `DIFFERENCES` has a row
# for each, with 1 at the winner and -1 at the loser.

# %%
from minigpt.models.answers import answers_backward, answers_forward

PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])  # (winner, loser)
DIFFERENCES = np.eye(4)[PAIRS[:, 0]] - np.eye(4)[PAIRS[:, 1]]  # (6,4)

def dpo(policy, beta, rate, weight, seed, steps=60, n=8):
    """n questions an update. weight: how much of the best answer's log-probability is added"""
    first = deepcopy(policy)
    optimizer = AdamW(policy.named_parameters(), weight_decay=0.0)
    for step in range(steps):
        rng = np.random.default_rng([seed, step, 4])
        ids, targets = on_responses(four_answers(rng.choice(TUNED, n), rng))
        policy.zero_grad()
        of_answers, cache = answers_forward(policy, ids, targets)  # log pi, of each of the 4n
        r = beta * (of_answers - log_p(first, ids, targets)).reshape(n, 4)
        d = r @ DIFFERENCES.T  # (n,6): the winner's r minus the loser's
        dd = -1 / (1 + np.exp(d)) / d.size  # as for the reward model
        dr = dd @ DIFFERENCES
        dlog_p = beta * dr
        dlog_p[:, 0] -= weight / n  # of the four answers the first is the best
        answers_backward(dlog_p.reshape(-1), cache)
        optimizer.step(rate, 1.0)


print(DIFFERENCES.astype(int))

# %% [markdown]
# The run below uses 60 updates, and brings most pairs into order.
#
# **Guess:** does it make the right answers more probable?

# %%
pair_ids, pair_targets = on_responses(four_answers(TUNED, np.random.default_rng(5)))
policy = deepcopy(tuned[0])
before_it = log_p(policy, pair_ids, pair_targets)
dpo(policy, beta=1.0, rate=1e-3, weight=0.0, seed=0)
logs = np.stack([before_it, log_p(policy, pair_ids, pair_targets)]).reshape(2, -1, 4)
gain, of_four = logs[1] - logs[0], np.exp(logs).sum(axis=2).mean(axis=1)
print(f"{(gain @ DIFFERENCES.T > 0).mean():.0%} of the pairs in order; "
      f"right answers to its questions: {right(policy, TUNED):.0%}")
print("log p of the four answers, from best to worst, grew by", *gain.mean(axis=0).round(2))
print(f"the four together had {of_four[0]:.0%} of the probability, and now have {of_four[1]:.1%}")
assert gain.mean(axis=0).max() < -1, "in order, and all four less probable than before"
assert right(policy, TUNED) < 0.3, "what is drawn is something else"

# %% [markdown] tags=["answer"]
# No. **In order, and all lost.** The loss of DPO looks at a *difference*. It falls as well when
# both answers of a pair become improbable, the worse one more. The four answers of a question had
# most of the probability, and now have hardly any. So it went to answers that no comparison had.

# %% [markdown]
# `benchmarks/preferences.py` has tried five ways of DPO, with three seeds:

# %%
print(f"{'lowest to highest of three seeds':42} {'right, in tuning':>18} {'held out':>14}")
for name, row in reference.recorded("preferences.json")["rows"].items():
    if name.startswith("DPO"):
        spans = [f"{min(row[key]):.0%} to {max(row[key]):.0%}" for key in ("in tuning", "held out")]
        print(f"{name:42} {spans[0]:>18} {spans[1]:>14}")

# %% [markdown]
# Two changes keep most right answers to the questions of the comparisons, and fewer of the held-out
# ones. One is steps of a tenth: so the size of the steps is a part of the cause. (The paper takes
# much smaller steps, 1e-6.) The other is the best answer's own loss beside DPO's: so DPO's loss
# alone does not hold that answer up.

# %% [markdown] tags=["deeper"]
# ## 11. Paper and code
#
# - **"GPT-3 was trained on 45 TB of text."** That is Common Crawl before it was filtered; 570 GB
#   were left (section 2.2). The training read 300 billion tokens.
# - **"GPT-3 follows instructions."** The model of 2020 was trained on text alone.
# - **"13B has a width of 5140"** (table 2.1): its 40 heads do not divide it; 5120 fits.
# - **InstructGPT**: people preferred answers of a tuned model with 1.3 billion parameters to those
#   of GPT-3 with 175 billion (abstract). It does not follow that the small model knows more.
# - Whether the tokens of the prompt counted in SFT, the paper does not say. Against the alignment
#   tax, the loss on pre-training text is added to the reinforcement (PPO-ptx): exercise 3.
# - **What is left out.** Bands, and learning from the prompt: lesson 38. PPO has a learned value
#   function, a penalty at each token, and several bounded updates from one batch. InstructGPT also
#   shifts the reward: its mean is 0 for the answers that people wrote.
#
# | claim of the papers | here |
# |---|---|
# | tuning makes a model answer, also questions that the tuning did not have | shown |
# | it follows instructions in all kinds of wordings | not shown: a second name yes, else hardly |
# | a reward model scores new answers as people do | not shown: politeness yes, truth no |
# | the best of many draws is better | shown for the judge; a learned score also chooses worse |
# | a penalty is needed against a wrong reward | shown for REINFORCE; here it does not suffice |

# %% [markdown]
# ## 12. To keep
#
# - A language model continues its text: it may know every fact, and answer no question.
# - Instruction tuning is the same loss on fewer tokens: only the response counts, and elsewhere the
#   gradient is zero.
# - A short tuning does not teach facts; it teaches to answer with what pre-training has stored, and
#   some of that is lost.

# %% [markdown]
# ## 13. Exercises
#
# 1. `exercises/33_preferences.py`: the backward of DPO's loss, from the loss to the logits.
# 2. `exercises/33_find_the_bug.py`: a batch in two parts whose loss is not that of the batch.
# 3. Put pre-training text into the tuning: in every second update, a batch of `texts`. What becomes
#    of *knows*, of the answers in tuning, and of the held-out ones, after 100 updates of tuning?

# %%
print("lesson 33: every check is happy")
