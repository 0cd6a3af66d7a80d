# %% [markdown]
# # Lesson 11: pre-training GPT-1
#
# You will turn a text into batches, write the training loop, and make the three checks that belong
# before every long run. You will meet a mistake that passes two of them and has the best loss of
# all. You will see that a model learns some words hundreds of updates before others, and test one
# explanation by an intervention.
#
# Reading: 25 minutes for the core, 85 minutes for all of it. Running: 40 to 100 seconds. Before it:
# lessons 02 (the loss), 08 (the model), 09 (the optimiser) and 10 (tokens). The deeper parts make
# two sittings, with a pause before section 7.
#
# Papers: Radford et al. 2018 (GPT-1), section 3.1, equation 1, and section 4.1.

# %% [markdown]
# ## 1. Why: a text contains its own answers
#
# A GPT-1 of six blocks, with fresh weights and tokens much like those of lesson 10, writes:

# %%
import textwrap

import numpy as np

from minigpt import data, models
from minigpt.device.threads import set_threads
from minigpt.learn import reference

set_threads(1)  # small arrays: a second thread would only be in the way
# a trained model and its tokenizer; both are in the folder data/reference
shipped, text = models.open_both(reference.folder())
V = text.vocab_size
fresh = type(shipped)(shipped.config)  # the same sizes, fresh weights
print(textwrap.fill(text.decode(fresh.generate([[text.start_id]], 24)[0].tolist()), 95))

# %% [markdown]
# Pieces of words in any order: it has read nothing.
#
# For most tasks, people have to write the right answers by hand. For one task the answers are
# already there: show the beginning of a text, and let the model predict the next token. GPT-1 is
# pre-trained on this task alone. For every token $u_i$, training makes large the probability that
# the model gives to $u_i$ when it has read the $k$ tokens before it ($k$ is the length of the
# context; equation 1):
#
# $$
# L_1 = \sum_i \log P(u_i \mid u_{i-k}, \dots, u_{i-1})
# $$
#
# Training a model on text alone, before any other task, is called **pre-training**. No one labelled
# this text, so the paper calls it *unsupervised*. Today one says **self-supervised**, since the
# targets come from the text itself. Pre-training and then training with the labels of a task
# (lesson 13) are together *semi-supervised*.
#
# Our loss is $-L_1$ divided by the number of tokens, as in lesson 02.
#
# Our text is the whole world of stories, of which the lessons have used the smallest part so far.
# A program writes them. It knows where each person is and who has which thing, so later words
# depend on earlier ones. Here is one story, and its first tokens:

# %%
from minigpt.data import stories

one_story = stories.story(2).text
story_ids = np.array(text.encode(one_story))
print(textwrap.fill(one_story, 95))
print("\n" + "|".join(text.decode([i]) for i in story_ids[:14]))
assert text.decode(story_ids.tolist()) == one_story, "no capital and no space is lost"

# %% [markdown]
# The vocabulary is that of the **reference model** (`shipped`): a trained model that comes with
# this repository, and that this lesson and later ones use. It has 1,200 tokens, learnt as in lesson
# 10, with two differences, which lesson 15 explains: capitals are kept, and a token may begin with
# a space.
#
# One text gives many examples at once. The inputs are the tokens, and the targets are *the same
# tokens, one place further*. The causal mask (lesson 03) hides all later tokens from each position,
# so no position can look at its own target:

# %% tags=["hide-input"]
from minigpt import plot

drawing = plot.Diagram(9.6, 3.1, "Six tokens in, six targets out: the same text, one place further")
shown = [text.decode([i]).strip() for i in story_ids[:7]]
for place in range(6):
    across = 2.2 + 1.28 * place
    seen = drawing.box(across, 0.6, shown[place], "tab:blue", width=1.12)
    target = drawing.box(across, 2.4, shown[place + 1], "tab:orange", width=1.12)
    drawing.arrow(seen, target)
    if place < 5:
        drawing.arrow((across, 0.92), (8.1 + 0.08 * place, 2.1), color="silver")
drawing.text(0.8, 0.6, "the model\nsees", "tab:blue")
drawing.text(0.8, 2.4, "and must\npredict", "tab:orange")
plot.save(drawing.figure, "11_targets.png")

# %% [markdown]
# A black arrow leads from each token to its target. The grey arrows belong to the last position: it
# also sees all tokens before it. So does each of the others, but their arrows are not drawn.
#
# How good is a loss of, say, 2? Here are three **rivals** to compare with. They only count, and
# know nothing else:
#
# - *guessing*: every token is equally likely. The loss is $\ln V$.
# - *one token*: how often each token occurs.
# - *two tokens*: how often each token follows the token before it. A pair that was never counted
#   would have the probability 0 and an infinite loss. So we share out a further count of 0.1 among
#   all tokens that could follow. A frequent token gets more of it than a rare one.
#
# The last two count the training text, and are tested on other stories, which are **held out**:
# neither the rivals nor the model ever learn from them.

# %%
import math


def count(tokens, held_out, V):
    """The losses of the three rivals on a text that they have not counted."""
    ones = np.bincount(tokens, minlength=V) + 1.0  # one more for each: nothing is impossible
    share = ones / ones.sum()
    # the pair (a, b) has the number a V + b; pairs[a, b] says how often it occurs
    pairs = np.bincount(tokens[:-1].astype(int) * V + tokens[1:], minlength=V * V).reshape(V, V)
    follows = (pairs + 0.1 * share) / (pairs.sum(axis=1, keepdims=True) + 0.1)
    two_tokens = -np.log(follows[held_out[:-1], held_out[1:]]).mean()
    return {"guessing": math.log(V), "one token": -np.log(share[held_out[1:]]).mean(),
            "two tokens": two_tokens}  # fmt: skip


tokens, held_out = data.encode(data.load("stories:10000"), text, context=256)
rivals = count(tokens, held_out, V)
print(f"{len(tokens):,} tokens counted, tested on {len(held_out):,} tokens of other stories")
for name, loss in rivals.items():
    print(f"   {name:10}  loss {loss:.2f}, perplexity {math.exp(loss):6.1f}")
assert rivals["two tokens"] < rivals["one token"] - 1 < rivals["guessing"] - 2, "each knows more"

# %% [markdown]
# ## 2. Forward: from a text to a batch
#
# The training text is one long row of ids; where a story ends, there is a token for it. A batch
# is cut from it: B **windows** of T + 1 ids, each from a random place. A window holds the T inputs
# and their T targets.
#
# **Your turn:** get the targets from the windows. They are compared with ids that are taken from
# the text one by one.

# %%
from minigpt.learn import gap

three_starts = [3, 40, 700]  # T = 6: windows of 7 ids
three_windows = np.array([tokens[start : start + 7] for start in three_starts], dtype=int)


def your_targets(windows):
    return ...  # windows (B,T+1) -> targets (B,T)


one_by_one = [[tokens[start + t + 1] for t in range(6)] for start in three_starts]
gap.judge(your_targets, three_windows, expected=np.array(one_by_one, dtype=int))

# %% [markdown] tags=["answer"]
# `windows[:, 1:]`: the target of a position is the id at the next one, so the first id of a window
# is no target. In the same way the last id is no input.

# %%
def batch(ids, B, T, seed, step):
    """ids (N,) -> inputs (B,T), targets (B,T)"""
    rng = np.random.default_rng([seed, step])
    starts = rng.integers(len(ids) - T, size=(B, 1))
    windows = ids[starts + np.arange(T + 1)].astype(int)  # (B,1) + (T+1,): places (B,T+1)
    return windows[:, :-1], windows[:, 1:]


five = batch(tokens, B=5, T=16, seed=0, step=0)
print("inputs, first row: ", text.decode(five[0][0, :9].tolist()))
print("targets, first row:", text.decode(five[1][0, :9].tolist()))
assert (five[1][:, :-1] == five[0][:, 1:]).all(), "a target is the next input"
assert all((mine == theirs).all() for mine, theirs in zip(
    five, data.batch(tokens, 5, 16, seed=0, step=0), strict=True)), "the library's batch"

# %% [markdown] tags=["deeper"]
# ### A batch from two numbers
#
# For every batch a new generator is made, from two numbers: the seed of the run, and the number of
# the update. So a run that is stopped after 900 updates and started again draws batch 900 as if
# it had never been stopped.

# %% [markdown]
# ## 3. Backward: the training loop
#
# The batch goes forward to a loss; `loss_backward` adds the gradient of each parameter to its
# `.grad` (lesson 08); the optimiser clips the gradient and moves the weights, with the learning
# rate of this update: it rises during the first tenth of the updates, then it falls (lesson 09).

# %%
from minigpt import GPT1, GPT1Config
from minigpt.nn.optim import GPT1Adam
from minigpt.nn.schedules import warmup_cosine

T = 64
NO_DROPOUT = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}


def small(dtype=np.float32, **changes):
    """A GPT-1 of two layers, 64 wide."""
    sizes = {"vocab_size": V, "n_positions": T, "n_embd": 64, "n_layer": 2, "n_head": 4}
    sizes |= {"initializer_range": 0.06} | NO_DROPOUT | changes
    return GPT1(GPT1Config(**sizes), dtype=dtype)


print(f"the small model has {sum(p.data.size for p in small().parameters()):,} parameters")

# %%
def pretrain(model, updates, batch_of, rate=6e-3):
    """batch_of(step) gives (inputs, targets). Returns the loss of each update."""
    optimizer = GPT1Adam(model.named_parameters())
    losses = []
    for step in range(updates):
        inputs, targets = batch_of(step)
        model.zero_grad()
        loss, cache = model.loss(inputs, targets)
        model.loss_backward(cache)
        optimizer.step(rate * warmup_cosine(step / updates, 0.1), max_norm=1.0)
        losses.append(float(loss))
    return losses


three_losses = pretrain(small(), 3, lambda step: batch(tokens, 8, T, seed=0, step=step))
print("three updates, loss before each:", [round(loss, 2) for loss in three_losses])

# %% [markdown]
# Now train it, on your machine. It takes about ten seconds.

# %%
UPDATES = 600
moved_losses = pretrain(small(), UPDATES, lambda step: batch(tokens, 8, T, seed=0, step=step))
print("updates   loss")
for done in (0, 25, 50, 100, 200, 400, 599):
    print(f"{done:7}   {moved_losses[done]:.2f}")
moved_end = np.mean(moved_losses[-20:])
print(f"mean of the last 20: {moved_end:.2f}")
assert moved_losses[0] > rivals["one token"] > moved_losses[200] > moved_end, "the loss falls"
assert moved_end < rivals["two tokens"], "it has beaten two tokens: it looks further back"

# %% [markdown] tags=["deeper"]
# ### The curve and its rivals
#
# The rival *two tokens* is hard to beat at first: it knows that "Once" is followed by "upon". A
# much lower loss is possible only for a model that looks further back. (*Two tokens* is a *bigram*
# model. An **n-gram** model counts what follows each row of n - 1 tokens.)
#
# Two numbers of this training are not GPT-1's. Its highest rate, 6e-3, is 24 times as high; that
# works for this small model. And its first weights are drawn with a standard deviation of 0.06, not
# 0.02: with 0.02 a model that is only 64 wide learns badly, as exercise 4 shows.

# %%
def draw_rivals(axes, right):
    """A dotted line for each rival."""
    for name, line in rivals.items():
        axes.axhline(line, color="gray", linestyle=":")
        label = axes.text(right, line, f"{name}: {line:.2f}", ha="right", va="center")
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1})


figure, axes = plot.plt.subplots(figsize=(8, 4.4))
axes.plot(moved_losses, color="tab:blue")
draw_rivals(axes, UPDATES)
axes.set(xlabel="updates of the weights", ylabel="loss (nats per token)", ylim=(0, 7.9))
axes.set_title("The loss of a small model on your machine")
plot.save(figure, "11_small.png")
for name, line in rivals.items():
    first = np.argmax(np.array(moved_losses) < line)
    print(f"below {name:10} for the first time after {first:3} updates")
read = UPDATES * 8 * T / len(tokens)
print(f"these updates read {read:.0%} as many tokens as the text has")
assert read < 0.2, "most windows are new to the model"
before, after = held_out[:-1].astype(int), held_out[1:]
of_pair = np.bincount(before * V + after)[before * V + after]  # how often each pair occurs there
hindsight = -np.log(of_pair / np.bincount(before)[before]).mean()
print(f"a table of pairs that has counted the held-out text itself: {hindsight:.2f}")
assert moved_end < hindsight - 0.2, "no table of pairs has so low a loss"

# %% [markdown]
# The loss passes the three rivals one after the other. Below the line of the last one it falls more
# slowly. There the model must use more than one token: even a table of pairs that has counted the
# held-out text itself has a loss of about 2.5 (the last line).
#
# (The model's losses are those of training batches, and the rivals were tested on held-out text.
# The comparison is fair all the same: most windows are new to the model when their loss is
# computed.)

# %% [markdown] tags=["deeper"]
# ## 4. Collapse: a batch that does not fit
#
# GPT-1 was trained with 64 windows of 512 tokens in each update. If the memory is too small for
# that, the batch can go through the model in parts. Each part adds its gradient to `.grad`, and
# after the last part the weights move once. This is **gradient accumulation**.
#
# Let $\ell_i$ be the loss of target $i$, and let the batch have $N$ targets, in two parts of $N_1$
# and $N_2$. The loss is a mean over all $N$, so its gradient is
#
# $$
# \frac{1}{N} \sum_{i=1}^{N} \nabla \ell_i =
# \frac{1}{N} \sum_{\text{part 1}} \nabla \ell_i + \frac{1}{N} \sum_{\text{part 2}} \nabla \ell_i
# $$
#
# Each part must divide by the $N$ of the *whole* batch. In the library this number is called
# `normalizer`. If each part divides by its own number, and the results are averaged, we get
#
# $$
# \frac{1}{2} \left( \frac{1}{N_1} \sum_{\text{part 1}} \nabla \ell_i +
# \frac{1}{N_2} \sum_{\text{part 2}} \nabla \ell_i \right)
# $$
#
# which in general is the same only if $N_1 = N_2$. Here the first part has 2 windows, and the
# second has 3.

# %%
def gradient(parts, normalizer=None):
    """The gradient of the token table, summed over the parts of the batch `five`."""
    model = small(np.float64)
    for rows in parts:
        loss, cache = model.loss(five[0][rows], five[1][rows], normalizer=normalizer)
        model.loss_backward(cache)
    return model.head.grad


whole = gradient([slice(0, 5)])
two_parts = [slice(0, 2), slice(2, 5)]
ways = {"one normalizer": gradient(two_parts, normalizer=five[1].size),
        "each its own, averaged": gradient(two_parts) / 2}  # fmt: skip
off = {name: np.abs(way - whole).max() / np.abs(whole).max() for name, way in ways.items()}
for name, error in off.items():
    print(f"{name:24} relative error {error:.0e}")
assert off["one normalizer"] < 1e-12, "the same gradient"
assert off["each its own, averaged"] > 1e-2, "another gradient"

# %% [markdown]
# ## 5. Check: three checks before a long run, and the trap
#
# A mistake in a training loop raises no error, and the loss usually falls anyway. So make three
# checks before every long run:
#
# 1. **The start.** An untrained model knows nothing, so its loss must be close to $\ln V$. If it is
#    much higher, the first weights are too large. If it is clearly lower, the model can see its
#    answers.
# 2. **The gradient** of every parameter, on real tokens, against finite differences. (To be quick,
#    the model of this check knows only 23 tokens.)
# 3. **One batch by heart.** A model that cannot learn 80 fixed targets (5 windows of 16) will not
#    learn a language.
#
# The trap is a common mistake: the targets are not moved by one place. Then each target is the
# token that the model is looking at. Let us make the checks with and without this mistake.
#
# **Guess:** which of the three checks will show the mistake?

# %%
from minigpt import gradcheck


def three_checks(inputs, targets):
    """The loss at the start, the worst gradient, and the loss after 150 updates with one batch."""
    start, _ = small().loss(inputs, targets, grad=False)
    tiny = small(np.float64, vocab_size=23, n_embd=8)  # % 23 makes each id one of 23
    results = gradcheck.check_model(tiny, inputs[:2, :5] % 23, targets[:2, :5] % 23)
    by_heart = pretrain(small(), 150, lambda step: (inputs, targets))
    return float(start), gradcheck.worst(results), by_heart[-1]


checked = {"moved": three_checks(*five), "not moved": three_checks(five[0], five[0])}
print(f"targets     start (ln V = {math.log(V):.2f})   worst gradient   one batch by heart")
for name, (start, worst, end) in checked.items():
    print(f"{name:10}  {start:17.2f}   {worst.error:8.0e} {worst.word}   {end:18.4f}")
start, worst, end = checked["moved"]
assert abs(start - math.log(V)) < 0.3 and worst.word == "happy" and end < 0.05, "three checks pass"
trap_start, trap_worst, trap_end = checked["not moved"]
assert trap_worst.word == "happy" and trap_end < 0.05, "the trap passes two of them"
assert math.log(V) - trap_start > 1, "and the first one shows it"

# %% [markdown] tags=["answer"]
# Only the first: at the start, the loss is clearly below $\ln V$. It is easy to expect that a check
# of the gradient finds every mistake. But the gradient is right: it is the right gradient of the
# wrong loss. And one batch is learnt by heart, too.

# %% [markdown]
# **This is the surprise of the lesson**: a training with this mistake goes on to the best loss of
# all, nearly 0 (the deeper part below shows its curve). For our text that is impossible. The first
# child that a story names was drawn at random by the program, so no model can know the name.
# Compare every loss with one that you understand: that is what the rivals are for.

# %% [markdown] tags=["deeper"]
# ### Why the start shows it
#
# Lesson 08 found that an untrained model with a tied table gives a high score to the token that
# it reads, and here this token is the answer. If that is the reason, the loss at the start must be
# close to $\ln V$ again with another output matrix:

# %%
from minigpt import ops


def start_with(output):
    """The loss of an untrained model on targets that are not moved, with this output matrix."""
    h, _ = small().hidden(five[0], grad=False)
    return float(ops.linear_cross_entropy_forward(h, output, five[0], grad=False)[0])


tied = small().head.data
other = np.random.default_rng(5).permuted(tied, axis=0)  # the same numbers in other places
print(f"targets not moved: start {start_with(tied):.2f} with the tied table, "
      f"{start_with(other):.2f} with another matrix")
assert abs(start_with(tied) - trap_start) < 1e-4, "the model of the table above"
assert abs(start_with(other) - math.log(V)) < 0.3, "without weight tying the start shows nothing"

# %% [markdown]
# So without weight tying, the first check would not show the mistake either. The other two would
# probably let it pass, as before; we have not run them with this matrix.

# %% [markdown] tags=["deeper"]
# ### The curve of the mistake
#
# Which of two curves looks better, the right one or that of the mistake?

# %%
trapped = pretrain(small(), 200, lambda step: (batch(tokens, 8, T, 0, step)[0],) * 2)
figure, axes = plot.plt.subplots(figsize=(8, 4.4))
axes.plot(moved_losses[:200], color="tab:blue", label="targets moved by one place")
axes.plot(trapped, color="tab:red", label="targets not moved")
draw_rivals(axes, 200)
axes.set(xlabel="updates of the weights", ylabel="loss (nats per token)", ylim=(-0.2, 7.9))
axes.set_title("A loss that is too good to be true")
axes.legend(loc=(0.3, 0.70))
plot.save(figure, "11_trap.png")
print(f"after 200 updates: {trapped[-1]:.3f}, and {moved_losses[199]:.2f} with moved targets")
assert trapped[-1] < 0.3 < rivals["two tokens"] - 1, "too good"

# %% [markdown]
# That of the mistake: the red curve falls far below the line of two tokens, and after 200 updates
# its loss is nearly 0. One who knows only this curve is happy with it. Beside the three lines it is
# too good to be true.

# %% [markdown] tags=["deeper"]
# ## 6. See it: what is learnt when, and one cause tested
#
# The loss is a mean over all tokens. *Which* words does a model learn first? For this question we
# take the smallest world of the program, with only two children, Mia and Tom. A model of two
# layers, 128 wide, learns it in a minute or two. `benchmarks/names.py` has trained fifteen such
# models and tested each of them after every 50 updates; the results are recorded and come with the
# lesson.
#
# The test looks at places in held-out stories where a word of one kind stands, for example one of
# the eight toys. Among these eight alone, how well does the model know which one it is?
#
# $$
# \text{relative loss} = \frac{-\ln P(\text{the right word} \mid \text{one of the } n
# \text{ words of this kind})}{\ln n}
# $$
#
# A model that guesses among the $n$ words has a relative loss of 1. A model that knows has 0. An
# example: the eight toys have the probability 0.6 together, and the right toy has 0.3. That is a
# half, so the relative loss is ln 2 / ln 8 = 1/3.

# %%
import re

from minigpt.data.stories import words

record = reference.recorded("names.json")["rows"]
SEEDS = [seed for seed in range(3) if f"free, seed {seed}" in record]
run = record["free, seed 0"]
KINDS = {"toys": "which toy", "animals": "which animal", "places": "which place",
         "names": "Mia or Tom", "pronouns": "she or he"}  # fmt: skip
small_story = stories.story(2, variety=1).text
print(textwrap.fill(small_story, 95))
hundred = re.findall(r"\w+", stories.corpus(100, split="valid", variety=1))
n_names, n_toys = (sum(word in kind for word in hundred) for kind in (("Mia", "Tom"), words.TOYS))
print(f"in 100 held-out stories: {n_names} names, {n_toys} toys\n")
assert n_names > 3 * n_toys, "names come far more often"
chosen = [run["step"].index(step) for step in (0, 50, 100, 200, 300, 400, 500, 600, 800, 1000)]
print("updates         " + "".join(f"{run['step'][i]:7}" for i in chosen))
print("loss, all tokens" + "".join(f"{run['loss'][i]:7.2f}" for i in chosen))
for kind, title in KINDS.items():
    print(f"{title:16}" + "".join(f"{run[kind][i]:7.2f}" for i in chosen))
for seed in SEEDS:
    free = record[f"free, seed {seed}"]
    at = {step: i for i, step in enumerate(free["step"])}
    assert free["toys"][at[150]] < 0.3, "toys are learnt in 150 updates"
    assert min(free["names"][: at[300]] + free["pronouns"][: at[300]]) > 0.9, "names are not yet"

# %%
figure, (above, below) = plot.plt.subplots(2, 1, figsize=(8, 7.2), sharex=True)
above.plot(run["step"], run["loss"], "k.-")
above.set(ylabel="loss, all tokens", ylim=(0, None), title="The loss falls steadily ...")
SHOWN = {"toys": "green", "places": "gray", "pronouns": "orange", "names": "blue"}
for kind, color in SHOWN.items():
    (line,) = below.plot(run["step"], run[kind], ".-", color=f"tab:{color}", label=KINDS[kind])
    line.set_linewidth(3 if kind == "names" else 1.5)
below.set(xlabel="updates of the weights", ylabel="relative loss", ylim=(0, 1.3))
below.set_title("... but Mia or Tom is a guess for hundreds of updates")
below.legend(loc="upper right", ncols=2)
plot.save(figure, "11_kinds.png")
names_fall = next(i for i, value in enumerate(run["names"]) if value < 0.9)
change = -np.diff(run["loss"])
print("updates     the loss falls by   relative loss of the names after them")
for i in range(names_fall - 4, names_fall + 2):
    updates = f"{run['step'][i]} to {run['step'][i + 1]}"
    print(f"{updates} {change[i]:15.2f} {run['names'][i + 1]:25.2f}")
assert change[names_fall - 1] < change[names_fall - 4], "the loss fell more before that"

# %% [markdown]
# Names come far more often in these stories than toys. Yet **for hundreds of updates the model
# guesses between Mia and Tom**, long after it knows the toys. Then names and pronouns are learnt
# together. The loss of all tokens does not show it: between 350 and 400 updates, where the names
# begin to be learnt, it falls by 0.05, and 150 updates earlier it fell by 0.31. (Places are learnt
# least. One reason may be that a place that is named for the first time is drawn at random.)
#
# Why so late? Here is an explanation that is easy to believe.
#
# 1. The table of tokens has two uses, at the input and at the output (lesson 08).
# 2. At the output, the two names are the right answers to similar texts. So their two rows of the
#    table are moved in similar directions, and become similar themselves.
# 3. At the input, similar rows look the same to the model. If it cannot distinguish the two names
#    that it reads, it cannot write the right one again.
#
# The second step can be seen:

# %%
print("cosine of the vectors of Mia and Tom in the table, and of the gradients of these vectors")
print("updates           " + "".join(f"{run['step'][i]:7}" for i in chosen))
for seed in SEEDS:
    free = record[f"free, seed {seed}"]
    print(f"vectors, seed {seed}   " + "".join(f"{free['cosine'][i]:7.2f}" for i in chosen))
    assert abs(free["cosine"][0]) < 0.3, "new vectors are random: they are not similar"
    assert max(free["cosine"]) > 0.95 and free["cosine"][-1] < 0.9, "similar, then less so"
    learnt = next(i for i, value in enumerate(free["names"]) if value < 0.9)
    assert free["cosine"][learnt] > 0.9, "when the names begin to be learnt, they are still similar"
    print(f"gradients, seed {seed} " + "".join(f"{free['gradients'][i]:7.2f}" for i in chosen))
    assert free["gradients"][0] > 0.5, "the first gradients move both vectors in one direction"
    assert min(free["gradients"]) < -0.5, "later gradients can be opposite"

# %% [markdown]
# In the first update, the gradients of the two vectors have a cosine of 0.78 to 0.91: they point in
# similar directions. After 100 updates the vectors are almost parallel. When the names begin to be
# learnt, they are still nearly parallel; after that, they separate. Most of it fits. (One thing
# does not: later gradients often point in opposite directions.) But it is only a **correlation**:
# two things happen at once. Do the names come late *because* the vectors are similar? Or are the
# vectors similar because the names are not learnt yet?
#
# To find out, change one thing and leave everything else: an **intervention**. After every update,
# we turn the two vectors until their cosine has a fixed value. Think of two arrows that begin at
# one point: we open or close the angle between them. Their lengths stay, and so does the direction
# halfway between them.

# %%
def hold(a, b, wanted):
    """a (C,), b (C,) -> both turned in their plane, so that their cosine is `wanted`"""
    long_a, long_b = np.linalg.norm(a), np.linalg.norm(b)
    middle = a / long_a + b / long_b  # halfway between two arrows of length 1
    across = a / long_a - b / long_b  # from tip to tip: at a right angle to `middle`
    middle = middle / np.linalg.norm(middle)
    across = across / np.linalg.norm(across)
    half = math.acos(wanted) / 2
    turned_a = long_a * (math.cos(half) * middle + math.sin(half) * across)
    turned_b = long_b * (math.cos(half) * middle - math.sin(half) * across)
    return turned_a, turned_b


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


pair = np.random.default_rng(6).normal(size=(2, 128)) + 3
for wanted in (0.95, 0.6, 0.0):
    held = hold(*pair, wanted)
    print(f"cosine {cosine(*pair):.3f} -> {cosine(*held):.3f}; lengths "
          f"{np.linalg.norm(pair, axis=1).round(3)} -> {np.linalg.norm(held, axis=1).round(3)}")
    assert abs(cosine(*held) - wanted) < 1e-12, "the cosine is the one we want"

# %% [markdown]
# Suppose that the explanation is the whole cause: with vectors as similar as 0.95 the names cannot
# be learnt, and with other vectors nothing delays them. Then a model whose vectors are held at 0.95
# must not learn the names, and a model whose vectors are held apart must learn them as early as the
# toys. Both can be tested. Which of the two do you expect to come true?
#
# A control is needed, too. Perhaps turning any two vectors changes when the names are learnt. So in
# some runs the vectors of two *animals* are held at 0, and the names are free. The table says after
# how many updates the relative loss of the names was below 0.9 for the first time:

# %%
CONDITIONS = ("free", "held at 0.95", "held at 0.6", "held at 0", "two animals at 0")


def learnt_at(condition, kind="names", level=0.9):
    """The first tested update at which the relative loss of a kind is below the level, by seed."""
    found = {}
    for seed in SEEDS:
        row = record.get(f"{condition}, seed {seed}")
        if row:
            found[seed] = next(s for s, x in zip(row["step"], row[kind], strict=True) if x < level)
    return found


print("relative loss below 0.9 after ... updates")
print("cosine            " + "".join(f"   seed {n}" for n in SEEDS) + "    mean    toys, mean")
names_at = {condition: learnt_at(condition) for condition in CONDITIONS}
toys_at = {condition: learnt_at(condition, "toys") for condition in CONDITIONS}
mean_at = {condition: np.mean(list(names_at[condition].values())) for condition in CONDITIONS}
for condition, each in names_at.items():
    print(f"{condition:18}" + "".join(f"{each.get(seed, '-'):>9}" for seed in SEEDS)
          + f"{mean_at[condition]:8.0f} {np.mean(list(toys_at[condition].values())):13.0f}")
apart, free_at = names_at["held at 0"], names_at["free"]
assert all(apart[seed] < free_at[seed] for seed in apart), "held apart, they are learnt earlier"
assert min(apart.values()) > 2 * max(toys_at["held at 0"].values()), "but later than the toys"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(8, 4.8))
COLORS = ("black", "tab:red", "tab:orange", "tab:blue", "tab:gray")
for condition, color in zip(CONDITIONS, COLORS, strict=True):
    rows = [record[f"{condition}, seed {seed}"]["names"][:21] for seed in names_at[condition]]
    axes.plot(run["step"][:21], np.mean(rows, axis=0), color=color, linewidth=3, label=condition)
    for row in rows:
        axes.plot(run["step"][:21], row, color=color, linewidth=0.8, alpha=0.5)
axes.set(xlabel="updates of the weights", ylabel="relative loss, Mia or Tom", ylim=(0, 1.45))
axes.set_title("The names, with the cosine of their vectors held (thick: mean)")
axes.legend(loc="lower left")
plot.save(figure, "11_names.png")

# %%
for level in (0.8, 0.5):
    apart_there, free_there = (learnt_at(how, level=level) for how in ("held at 0", "free"))
    assert all(apart_there[seed] < free_there[seed] for seed in SEEDS), "at other levels too"
saved = [free_at[seed] - apart[seed] for seed in apart]
later_by = [names_at["two animals at 0"][seed] - free_at[seed] for seed in SEEDS]
assert later_by == [150, 200, -50], "the control moves the number too"
print("held at 0 instead of free: earlier by", *saved, "updates, seed by seed")
remains = []  # of the delay of the names behind the toys
for seed, step in apart.items():
    delay_free = free_at[seed] - toys_at["free"][seed]
    remains.append((step - toys_at["held at 0"][seed]) / delay_free)
print("of the delay behind the toys remains:", *(f"{share:.0%}" for share in remains))
close = names_at["held at 0.95"].items()
assert all(step > free_at[seed] for seed, step in close), "held close together, they come later"
assert 0.5 < np.mean(remains) < 0.8, "on average the larger part of the delay remains"
assert 300 <= min(apart.values()) and max(apart.values()) <= 500, "as the text below says"
with_names = learnt_at("free", "pronouns")
assert all(abs(with_names[seed] - free_at[seed]) <= 50 for seed in SEEDS), "pronouns come too"

# %% [markdown]
# Neither prediction comes true. Yet the explanation seems to be right in part:
#
# - **Held apart, the names are learnt earlier**, with each of the three seeds (also with a level
#   of 0.8 or 0.5 in place of 0.9). So the similarity is probably a cause of the delay, and not
#   only a sign.
# - **How sure is that?** The control is a warning. When the vectors of two animals were turned, the
#   names came 150 and 200 updates later with two seeds, and 50 earlier with one. So turning alone
#   moves this number. Then the 50 updates of seed 0 prove nothing, and neither does the delay at
#   0.95: it is 150 on average, and 100 in the control. But the 250 updates of the two other seeds
#   are more than the control has moved. And of the three cosines that were held, the larger one
#   always has the larger mean. That is evidence, but three seeds are few.
# - **Held apart, they are still not learnt early.** With vectors at a right angle the names take
#   300 to 500 updates, and the toys at most 100. Of the delay 86, 44 and 64 % remain. So a large
#   part seems to have another cause, which our runs do not show. (Two guesses: the heads that find
#   the right child in the text must be learnt first; or the turning itself delays the names, as in
#   the control, where they came 100 updates later on average.)
# - **Held close together, the names are learnt all the same.** So the vectors need not separate
#   first. A cosine of 0.95 leaves a difference that is large enough.
#
# The explanation fits most of what we saw before. Only the intervention says which part of the
# delay may belong to it, and only the control says how far the intervention can be trusted.

# %% [markdown] tags=["deeper"]
# ## 7. In the library: the same loop, and the reference model
#
# `minigpt train` runs the same loop, and also does the following: it keeps the best model, can be
# stopped and resumed, warns of a loss that stays where the rival "one token" is, and with
# `--compare` it warns of a loss that is not like those of other seeds.
#
# These are lines of its update, and of the function that computes the gradients, with the
# accumulation of section 4. (`model.loss` is given the inputs, the targets, and as `normalizer` the
# number of targets of the whole batch.)
#
#     # minigpt/jobs/pretrain/step.py
#     total = _gradients(job, batch, job.rows, batch.n_targets, key)
#     ...
#     norm = job.optimizer.step(lr, job.options.clip)
#     ...
#     for start in range(rows.start, rows.stop, job.part):
#         part = batch.rows(slice(start, start + job.part))
#     ...
#         loss, cache = model.loss(
#     ...
#         model.loss_backward(cache)
#         total = total + loss
#
# With the same options it gives the same numbers as ours:

# %%
import tempfile

from minigpt.jobs import pretrain as library

with tempfile.TemporaryDirectory() as scratch:
    options = library.PretrainOptions(
        layers=2, heads=4, embd=64, context=T, batch=8, init_std=0.06, steps=3, data="stories:1500",
        tokenizer=str(reference.folder()), out=f"{scratch}/run")  # fmt: skip
    job = library.prepare(options)
    theirs = []
    for step in range(3):
        theirs.append(float(library.update(job, 6e-3 * warmup_cosine(step / 3, 0.1))))
        job.step += 1
ours = pretrain(small(), 3, lambda step: batch(job.train, 8, T, 0, step))
print("ours       ", ours)
print("the library", theirs)
assert ours == theirs, "the same losses, to the last bit"

# %% [markdown]
# The reference model was trained with this loop: GPT-1 with 6 layers, 192 wide, on 40,000 stories.
# Its training took more than an hour on one core, so the lessons open it from `data/reference`. To
# train your own, set `MINIGPT_TRAIN=1` in the environment and run any lesson that uses it, or give
# the two commands that follow. Two options are new: with `--align 1` every window begins at the
# beginning of a story, and with `--beta2 0.99` Adam's average of squared gradients reaches about
# 100 updates back, instead of 1,000 (lesson 09). We have not measured what they are worth in this
# run.

# %%
import csv

vocabulary, recipe = reference.TOKENIZER, reference.MODEL
print(f"minigpt tokenizer train --kind {vocabulary.kind} --data {vocabulary.data} "
      f"--vocab {vocabulary.vocab} \\\n    --out {vocabulary.out}")
print(f"minigpt train --data {recipe.data} --tokenizer {recipe.tokenizer} --layers {recipe.layers} "
      f"--heads {recipe.heads} \\\n    --embd {recipe.embd} --context {recipe.context} "
      f"--batch {recipe.batch} --steps {recipe.steps} --beta2 {recipe.beta2} --align 1 \\\n"
      f"    --eval-every {recipe.eval_every} --out {recipe.out}")
with (reference.folder() / "loss.csv").open(encoding="utf-8") as file:
    rows_of_run = [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)]
curve = {row["step"]: row["train_loss"] for row in rows_of_run if "train_loss" in row}
best = min(row["val_loss"] for row in rows_of_run if "val_loss" in row)
print(f"\n{sum(p.data.size for p in shipped.parameters()):,} parameters, "
      f"best held-out loss {best:.3f}, perplexity {math.exp(best):.2f}")
assert best < rivals["two tokens"] / 4, "much better than the best rival"

# %%
figure, axes = plot.plt.subplots(figsize=(8, 4.8))
axes.plot(curve.keys(), curve.values(), color="tab:blue", label="training")
tested = {row["step"]: row["val_loss"] for row in rows_of_run if "val_loss" in row}
axes.plot(tested.keys(), tested.values(), "o", color="tab:red", label="held out")
draw_rivals(axes, max(curve))
axes.set(xlabel="updates of the weights", ylabel="loss (nats per token)", ylim=(0, 7.9))
axes.set_title("The reference model: 8,000 updates of 2,048 tokens")
axes.legend(loc="center right")
plot.save(figure, "11_reference.png")
for name, line in rivals.items():
    passed = next(step for step, loss in curve.items() if loss < line)
    print(f"below {name:10} at the latest after {passed:.0f} updates")
trained_end, tested_end = curve[max(curve)], tested[max(tested)]
print(f"at the end: training loss {trained_end:.3f}, held-out loss {tested_end:.3f}")
assert tested_end < trained_end < 1.2 * best, "no sign that it overfits"

# %% [markdown]
# The file has one training loss for every 80 updates, so we know only "at the latest". The model
# passes all three rivals in the first 480 of its 8,000 updates. At the end the held-out loss is not
# above the training loss (their windows are cut in different ways, so the two are not exactly
# comparable). So we see no sign that the model learns its stories by heart.
#
# Now let it write. We start with the token that ends a story, and let each next token be drawn with
# the probability that the model gives it (lesson 12 is about better ways). These are the first two
# stories that come, with seed 0; we have not chosen them:

# %%
begin = np.full((2, 1), text.start_id)
for one in shipped.generate(begin, 250, stop=text.start_id, seed=0)[:, 1:]:
    print(textwrap.fill(text.decode([int(i) for i in one if i != text.start_id]), 95) + "\n")
    assert text.start_id in one, "the story comes to an end"

# %% [markdown]
# In the first story we find no fault. The wind has carried the hat from place to place, and at the
# end it is where it was said to be. In the second story, Ben comes *to the forest*, goes off *to
# the forest*, where he already is, and then comes *back* to it. Every sentence by itself is right.
# The program that wrote the training text knows where Ben is, and would never write this.
#
# Two stories prove little. A strict reader, `minigpt/data/stories/reader.py`, accepts a story
# only if the program could have told it, sentence after sentence. `benchmarks/stories.py` has let
# it read the first hundred stories of this model, drawn in two ways that lesson 12 explains, and
# `data/README.md` shows ten of them, unchosen. A hundred stories do not give the true share of
# stories without a fault: another hundred would give another number. So an interval is printed with
# it, the *95 % interval*, made so that the true share is inside in 95 of 100 such experiments.

# %%
judged = reference.recorded("stories.json")["rows"]
for setting, row in judged.items():
    print(f"{setting}: {row['without fault']} of {row['stories']} stories have no fault "
          f"(95 % interval {100 * row['low']:.0f} to {100 * row['high']:.0f} %)")
    for kind, n in row["kinds"].items():
        print(f"{n:6} of the others, their first fault: {kind}")
assert judged["temperature 0.8"]["low"] > 0.6, "most stories at a low temperature have no fault"

# %% [markdown]
# Which words does the model still not know? We use the relative loss of section 6 again, with
# other kinds of words, and separate words that were named before in the same story from words that
# come for the first time:

# %%
GROUPS = {
    "which child": "Mia Lily Anna Ruby Emma Zoe Tom Ben Max Leo Sam Finn",
    "which toy": "ball kite doll drum train ship car puppet",
    "which colour": "red blue green yellow white black pink brown",
    "which place": "kitchen garden park forest lake river barn hill market school beach",
}
begins = np.flatnonzero(held_out[:-257] == text.start_id)[:60]
sixty = held_out[begins[:, None] + np.arange(257)].astype(int)
ended = np.cumsum(sixty[:, 1:] == text.start_id, axis=1) > 0  # behind the end of the first story
following = np.where(ended, -1, sixty[:, 1:])
logits, _ = shipped.forward(sixty[:, :-1], grad=False)
print(f"{len(sixty)} held-out stories, {(following >= 0).sum():,} tokens")

# %%
print("relative loss of the reference model")
print("              named before in this story   named for the first time")
again, found, known, wrong = {}, 0, 0, 0
for title, members in GROUPS.items():
    ids_of = np.array([text.encode(" " + word)[0] for word in members.split()])
    r, p = np.nonzero(np.isin(following, ids_of))  # rows and places of these words
    found += len(r)
    scores = logits[r, p][:, ids_of].astype(float)
    log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    right = ids_of == following[r, p][:, None]
    relative = -log_p[right] / math.log(len(ids_of))
    before = np.array([following[a, b] in sixty[a, : b + 1] for a, b in zip(r, p, strict=True)])
    known, wrong = known + before.sum(), wrong + (1 - np.exp(log_p[right][before])).sum()
    again[title] = relative[before].mean()
    print(f"{title:12} {again[title]:27.3f} {relative[~before].mean():26.3f}")
print(f"such words in a story: {found / len(sixty):.1f}; named before: {known / len(sixty):.1f}; "
      f"of these drawn wrongly: {wrong / len(sixty):.2f}")  # fmt: skip
assert max(again.values()) < 0.1, "what was named before is known"
assert max(again, key=again.get) == "which place", "places least of all"
faulty = 1 - judged["temperature 1.0"]["without fault"] / judged["temperature 1.0"]["stories"]
assert wrong / len(sixty) < faulty / 2, "at this rate such words do not explain all faults"

# %% [markdown]
# What was named before, the model nearly always knows: here it uses the story so far. It is least
# sure of places, and a wrong place spoiled the second story. What comes for the first time stays
# uncertain, and it must: the program draws it at random. Not all of it: each child has one best
# friend, for example. Whether the model knows them, the table does not say.
#
# A story has about ten such words that were named before, and one wrong choice spoils it. In these
# held-out stories the model would draw one of them wrongly in about one story of eight. But 43 of
# the 100 stories that it wrote have a fault. If it is as sure of these words in its own stories
# (not measured here), they explain only a part of the faults.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# | | GPT-1 (section 4.1) | the reference model |
# |---|---|---|
# | text | BooksCorpus, over 7,000 books | 40,000 stories of a small world |
# | vocabulary | 40,000 merges | 1,200 tokens |
# | layers, width, heads | 12, 768, 12 | 6, 192, 6 |
# | batch | 64 windows of 512 | 8 windows of 256, each from the beginning of a story |
# | highest rate | 2.5e-4, after 2,000 updates | 1.3e-3, after 800 |
# | updates | not given, but 100 epochs | 8,000, about two and a half times through the stories |
# | dropout | 0.1 | none |
# | perplexity per token | 18.4 | 1.36, on held-out stories |
#
# - The two perplexities cannot be compared: it is another text and another vocabulary (lesson 02).
# - The paper prints neither the number of updates nor Adam's constants for pre-training. BERT's
#   paper says that GPT-1 was trained for a million updates of 32,000 words. OpenAI's default
#   warm-up, 0.2 % of the run, gives the 2,000 updates of the paper for exactly that number.
# - But a million updates of 32,768 tokens in 100 epochs, as the paper has it, mean 0.33 billion
#   tokens in one epoch. BERT's paper reports 800 million words for BooksCorpus, and a word has one
#   token or more. The numbers do not fit together, and we know of no explanation.
#
# Three texts come up again and again in these papers:
#
# | text | what it is | size | order |
# |---|---|---|---|
# | BooksCorpus (GPT-1, BERT) | over 7,000 unpublished books | 0.8 billion words or less | books |
# | 1B Word Benchmark (ELMo) | news | 0.8 billion words | sentences shuffled: lesson 14 |
# | WebText (GPT-2) | pages linked from Reddit, no Wikipedia | 8 million pages, 40 GB | pages |

# %% [markdown]
# ## 9. To keep
#
# - A text contains its own answers: the targets are the tokens, one place further, and the mask
#   hides them from the model.
# - Before a long run make three checks: the loss at the start is about ln V, the gradient is right,
#   and one batch can be learnt by heart.
# - A loss says something only beside another one that you understand: guessing, one token, two
#   tokens; and one that is too good is a mistake.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/11_pretraining.py`: pack short texts into the rows of a batch, so that no text sees
#    another and no target crosses a border. The file judges itself: run it.
# 2. `exercises/11_find_the_bug.py`: an evaluation that does not report the loss that it promises.
#    Two lines are wrong.
# 3. Train on a text of your own, `minigpt train --data my.txt`, or on the language reference of
#    Python, `--data pydocs`. Compute the three rivals first, with `count`. Which of them does your
#    run beat, and after how many updates?
# 4. Train the small model of section 3 with first weights of standard deviation 0.02, as in the
#    paper. Which rival does its loss stay at? What does that tell you about what it has learnt?
# 5. Section 6 changes the table of tokens, which is used at the input and at the output. At which
#    of the two does the similarity delay the names? Plan an intervention that can decide it.

# %%
print(f"lesson 11: every check is happy (worst relative error {worst.error:.0e})")
