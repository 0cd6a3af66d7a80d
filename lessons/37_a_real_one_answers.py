# %% [markdown]
# # Lesson 37: a real one answers
#
# You will open a model that people use, SmolLM2-135M-Instruct, and follow one answer through its 30
# blocks: what each block would say, which of 270 heads brings in the country, and what happens when
# 64 numbers are exchanged. You will check the backward pass of a real model, count the bytes of its
# cache, and derive LoRA, with which such a model is fine-tuned on a laptop.
#
# Reading: 25 minutes for the core, 50 minutes for all of it. Running: 4 to 12 seconds. Before it:
# lessons 17, 33 and 36.
#
# Papers: Allal et al. 2025 (SmolLM2). Touvron et al. 2023 (LLaMA). Hu et al. 2021, section 4.1
# (LoRA). The logit lens is nostalgebraist 2020, a text on the web; exchanging what a head has read
# is *activation patching*, as in Meng et al. 2022, section 2.

# %% [markdown]
# ## 1. Why: the same code, and it answers
#
# Lesson 36 built today's block from GPT-2's. Nothing is missing any more: the model below is this
# library's `Llama`, and its weights come from one file of 98 MB. Once, with the network:
#
#     minigpt download smollm2
#     minigpt chat smollm2
#
# Every number about this model was recorded by `benchmarks/real_llama.py`. Where the model is on
# your machine, the cells compute what is quick again, and compare.

# %%
import numpy as np

from minigpt import models, ops, plot
from minigpt.device.threads import set_threads
from minigpt.files import hub
from minigpt.learn import reference

set_threads(1)  # small arrays: a second thread would only be in the way
REAL = reference.recorded("real_llama.json")["rows"]
smol, words = models.open_both("smollm2") if hub.locate("smollm2") else (None, None)
print("user:  What is the capital of France?")
print("model:", REAL["answer"]["text"])
print("p:    ", *(f"{p:.2f}" for p in REAL["answer"]["p"]), "for each token of the answer")
print("the model is here" if smol else "recorded: minigpt download smollm2 computes it again")
assert np.prod(REAL["answer"]["p"][1:6]) > 0.8, "after its first word, it is sure of the sentence"

# %% [markdown]
# It is unsure only of how to begin (0.15 for "The") and of the full stop at the end (0.57).

# %% [markdown] tags=["deeper"]
# ### What 135 million numbers are for

# %%
sizes = {part: n for part, n in REAL["sizes"].items() if part != "measured"}
total = sum(sizes.values())
for part, n in sizes.items():
    print(f"{part:10}{n:14,}{n / total:8.1%}")
print(f"{'all':10}{total:14,}")
if smol:
    assert total == sum(p.data.size for p in smol.parameters()), "all numbers are counted"
sizes_figure, axes = plot.plt.subplots(figsize=(9, 2.2))
start = 0
for part, color in zip(sizes, ("tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True):
    millions = sizes[part] / 1e6
    axes.barh(0, millions, left=start, color=color, alpha=0.7)
    if millions > 1:  # the norms have 35,136 numbers: too few to be seen
        axes.text(start + millions / 2, 0, f"{part}\n{millions:.1f}", ha="center", va="center")
    start += millions
axes.set(yticks=[], xlabel="millions of numbers", title="Where the numbers of SmolLM2 are")
plot.save(sizes_figure, "37_sizes.png")
assert sizes["MLP"] > total / 2 and sizes["tokens"] > sizes["attention"], "where the numbers are"

# %% [markdown]
# More than half of them are in the MLPs with their gates. The table of 49,152 tokens has more than
# all attention together, and it is the head too.

# %% [markdown]
# ## 2. The template: a chat is one text
#
# The model predicts the next token, as GPT-1 did. So a conversation must become one text. How that
# text looks is written in the model's files, the *chat template*. For our question it gives:

# %%
pieces = REAL["prompt"]["pieces"]
for some in (pieces[:14], pieces[14:21], pieces[21:33], pieces[33:]):
    print("|".join(piece.replace("\n", "\\n") for piece in some))
print("\nwithout the template, after the bare question:")
bare = REAL["texts"]["without a template"]
print(bare)
assert bare.startswith("<|im_end|>\n<|im_start|>assistant\nThe capital"), "it writes the template"

# %% [markdown]
# `<|im_start|>` and `<|im_end|>` are single tokens. A system message stands first: the template
# adds one where none is given. And the answer ends where the model predicts `<|im_end|>`.
#
# **A surprise: without the template the model writes it by itself.** After a bare question the end
# of a turn is the likeliest token. A guess at the reason: its last training was on conversations,
# and there it stands behind each question. To a program the template is a rule. To the model it is
# text that was learned.

# %% [markdown]
# ## 3. One block by hand
#
# Before we look inside, we must be sure that we compute what the model computes. Here is a block as
# plain lines. Each one is an operation that an earlier lesson has built. (The gate and the shared
# heads of keys are in lesson 36's sections 5 and 6.)

# %%
from minigpt.models.family.llama import Llama, LlamaConfig


def by_hand(block, x, cos, sin, config):
    """x (1,T,C) -> the stream behind it, and its heads' shares (NH,T,T); G = heads of keys"""
    t, size = x.shape[1], config.head_size
    n_q, n_kv = config.n_head, config.n_kv_head
    a, _ = ops.rmsnorm_forward(x, block.ln_1.weight.data, eps=config.layer_norm_epsilon)
    qkv = a @ block.attn.c_attn.weight.data  # (1,T,(NH+2G)D)
    heads = qkv.reshape(1, t, -1, size)
    heads, _ = ops.rope_forward(heads, cos=cos, sin=sin, heads=n_q + n_kv)
    q, k, v = np.split(heads[0].swapaxes(0, 1), [n_q, n_q + n_kv])  # (NH,T,D), (G,T,D) twice
    k, v = (part.repeat(n_q // n_kv, axis=0) for part in (k, v))  # each for its group
    scores = q @ k.swapaxes(-1, -2) / size**0.5
    scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
    p, _ = ops.softmax_forward(scores)
    read = (p @ v).swapaxes(0, 1).reshape(1, t, -1)  # (1,T,NH D)
    x = x + read @ block.attn.c_proj.weight.data
    m, _ = ops.rmsnorm_forward(x, block.ln_2.weight.data, eps=config.layer_norm_epsilon)
    gate, _ = ops.silu_forward(m @ block.mlp.gate.weight.data)
    up = m @ block.mlp.up.weight.data
    return x + (gate * up) @ block.mlp.down.weight.data, p


print("a block is 17 lines")

# %%
def through(model, ids):
    """ids (T,) -> the streams (blocks+1,T,C), and the shares (blocks,NH,T,T)"""
    angles = np.arange(len(ids))[:, None] * model.frequencies
    cos, sin = (f(angles).astype(model.head.data.dtype) for f in (np.cos, np.sin))
    x = model.tokens_embed.weight.data[ids][None]
    streams, shares = [x[0]], []
    for block in model.h:
        x, p = by_hand(block, x, cos, sin, model.config)
        streams.append(x[0])
        shares.append(p)
    return np.array(streams), np.array(shares)


TINY = LlamaConfig(vocab_size=50, n_positions=16, n_embd=18, n_layer=3, n_head=6, n_kv_head=2,
                   head_size=4, n_inner=24, initializer_range=0.3)
tiny = Llama(TINY, seed=0, dtype=np.float64)
TINY_IDS = np.random.default_rng(0).integers(50, size=9)
streams, _ = through(tiny, TINY_IDS)
last, _ = ops.rmsnorm_forward(streams[-1], tiny.ln_f.weight.data, eps=TINY.layer_norm_epsilon)
state, _ = tiny.hidden(TINY_IDS[None], grad=False)
print("streams", streams.shape, "- largest difference from the library:",
      f"{np.abs(last - state[0]).max():.0e}")
assert np.abs(last - state[0]).max() < 1e-12, "the same numbers"

# %% [markdown] tags=["deeper"]
# ### The real model by hand
#
# The same function takes the real model, with 30 blocks and 9 heads that share 3 heads of keys and
# values.

# %%
if smol:
    PROMPT = np.array(words.encode("".join(pieces)))
    real_streams, real_shares = through(smol, PROMPT)
    real_state, _ = smol.hidden(PROMPT[None], grad=False)
    normed, _ = ops.rmsnorm_forward(real_streams[-1], smol.ln_f.weight.data, eps=1e-5)
    assert np.abs(normed - real_state[0]).max() < 1e-2, "30 blocks by hand, in float32"
    print("the real model by hand:", real_streams.shape, real_shares.shape)
else:
    print("the real model is not here; the figures below were recorded")

# %% [markdown]
# ## 4. What would each block say?
#
# The last norm and the head turn the last stream into scores of words. We can also give them an
# *earlier* stream. This is the *logit lens*: what would the model say if it stopped here? We look
# at the last token of "The capital of France is", behind each block. The *rank* of Paris is its
# place among all 49,152 words: the likeliest has rank 1.
#
# **Guess:** behind which of the 30 blocks is Paris the likeliest word for the first time?

# %%
LENS = REAL["lens"]
for n in (0, 1, 12, 20, 23, 24, 25, 27, 28, 29, 30):
    best = ", ".join(f"{word!r} {p:.2f}" for word, p in LENS["best"][n])
    name = f"block {n}" if n else "token"
    print(f"{name:9}Paris: rank {LENS['rank'][n] + 1:5,}, p = {LENS['p'][n]:.3f}; best: {best}")
assert min(LENS["rank"][:24]) > 1000, "up to block 23, Paris is no candidate"
assert LENS["rank"][28] <= 2 and LENS["rank"].index(0) == 30, "first only behind the last block"

# %% [markdown] tags=["answer"]
# Only behind the last one. A block in the middle is tempting, and a slow rise. But up to block 23
# Paris is not among the first thousand words: behind blocks 12 and 20 the model would say a comma.
# Then, from block 23 to block 28, Paris passes thousands of words. (The lens shows only what the
# last norm and the head can read. An earlier stream may hold Paris in another form.)

# %% [markdown] tags=["deeper"]
# ### The lens, drawn, and where heads rest

# %%
lens_figure, (left, right) = plot.plt.subplots(1, 2, figsize=(11, 4))
left.semilogy(np.array(LENS["rank"]) + 1, "o-")
left.invert_yaxis()
left.set(xlabel="behind block", ylabel="rank of Paris among 49,152 words")
right.semilogy(LENS["norm, first"], "s-", color="tab:red", label="first token")
right.semilogy(LENS["norm, last"], "o-", color="tab:blue", label="last token")
right.set(xlabel="behind block", ylabel="length of the stream")
right.legend()
plot.save(lens_figure, "37_lens.png")
first_share = np.array(REAL["looks"]["first"])
print(f"the stream of the first token: length {max(LENS['norm, first']):,.0f}; "
      f"of the last: {max(LENS['norm, last']):,.0f}")
print(f"from the last token, {first_share.mean():.0%} of all heads' attention goes to the first")
hidden = REAL["first token hidden"]
print(f"-log p: {hidden['before']:.3f}; with the first token hidden: {hidden['after']:.3f}")
assert max(LENS["norm, first"]) > 20_000 and first_share.mean() > 0.4, "where heads rest"
assert abs(hidden["after"] - hidden["before"]) < 0.02, "here nothing is lost without it"
if smol:
    h, _ = ops.rmsnorm_forward(real_streams[:, -1], smol.ln_f.weight.data, eps=1e-5)
    p_of_paris, _ = ops.softmax_forward(h @ smol.head.data.T)
    paris = words.encode(" Paris")[0]
    assert np.abs(p_of_paris[:, paris] - LENS["p"]).max() < 1e-3, "as recorded"

# %% [markdown]
# On the right is something strange: block 12 stretches the stream of the *first* token to a length
# of 25,000; that of the last token is never longer than 684. And of the attention of the last
# token, over all 270 heads, 44 % goes to the first. Does it hold something important? We hide it
# from all others, and this answer does not suffer. So we guess that heads *rest* there, as with
# BERT's [CLS] in lesson 26. (Xiao et al. 2023 call it an attention sink.)

# %% [markdown]
# ## 5. Which head knows the country?
#
# Something between block 23 and block 28 brings in Paris. Is it a head? We test each of the 270: we
# take away what it has read (zeros in place of its 64 numbers, at all places). How much larger is
# -log p(Paris) then?

# %%
EFFECTS = np.array(REAL["heads"]["effects"])
block, head = np.unravel_index(EFFECTS.argmax(), EFFECTS.shape)
others = np.delete(EFFECTS.ravel(), EFFECTS.argmax())
print(f"the largest effect: block {block + 1}, head {head}: {EFFECTS.max():+.2f} nats")
print(f"of the other {others.size} heads, the largest: {others.max():+.2f} nats, "
      f"and {(np.abs(others) < 0.02).mean():.0%} are below 0.02")
looks = np.array(REAL["strongest"]["looks"])
for place in looks.argsort()[::-1][:4]:
    print(f"   it looks at place {place:2}, {pieces[place]!r:15} {looks[place]:.0%}")
france = [place for place, piece in enumerate(pieces) if piece == " France"]
assert EFFECTS.max() > 5 * others.max(), "one head stands out"
assert looks[france].sum() > 0.8, "and it looks at the two places where the country stands"

# %% [markdown]
# One head, and it looks at "France". But does it carry the *country*, or only "now say a name"?
# That can be decided. We put the same question about Germany, with "The capital of Germany is", and
# keep the 64 numbers that this head has read there, at the last token. Then we put the question
# about France again, and **give this one head those 64 numbers in place of its own**. All else
# stays: the question, the answer so far, 269 other heads.
#
# **Guess:** the answer so far is "The capital of France is". Which word comes next?

# %%
EXCHANGED = REAL["one head exchanged"]
CAPITALS = ("Paris", "Berlin", "Rome", "Tokyo")
print(f"the question: France. Exchanged: block {block + 1}, head {head}\n")
print(f"{'it reads as for':17}" + "".join(f"{capital:>9}" for capital in CAPITALS))
for country, found in EXCHANGED.items():
    if country != "measured":
        print(f"{country:17}" + "".join(f"{p:9.3f}" for p in found))
BERLIN = np.array(REAL["exchanges"]["p of Berlin"])
print("the same exchange at any other head: p of Berlin is at most",
      f"{np.sort(BERLIN.ravel())[-2]:.3f}")
assert EXCHANGED["Germany"][1] > 0.5 > 0.1 > EXCHANGED["Germany"][0], "now it says Berlin"
assert BERLIN.argmax() == EFFECTS.argmax() and np.sort(BERLIN.ravel())[-2] < 0.1, "only this head"

# %% [markdown] tags=["answer"]
# Berlin. Paris is tempting, since the question and the answer so far both say France, and 269 of
# 270 heads have read about France. **Worth remembering: 64 numbers of one head decide between Paris
# and Berlin.** This is how a cause is shown: change it alone, and the effect changes. Make the same
# change at any other head, and it does not.

# %% tags=["hide-input"]
exchange_figure, panels = plot.plt.subplots(1, 2, figsize=(11, 5), sharey=True)
for panel, values, title in zip(panels, (EFFECTS, BERLIN), (
        "taken away: -log p of Paris grows by", "exchanged: p of Berlin"), strict=True):
    image = panel.imshow(values, cmap="Blues", vmin=0, aspect="auto", extent=(-0.5, 8.5, 30.5, 0.5))
    panel.set(title=title, xlabel="head")
    panel.grid(False)
    exchange_figure.colorbar(image, ax=panel)
panels[0].set_ylabel("block")
plot.save(exchange_figure, "37_heads.png")

# %% [markdown]
# A limit: this was shown for one model, one sentence and four countries. In GPT-2, Wang et al.
# (2022, arXiv 2211.00593) found heads that take over when another one is taken away.

# %% [markdown]
# ## 6. Backward through a real model
#
# The model has a backward pass too. If a token's vector changed a little, how much would the
# prediction change? The gradient of $-\log p(\text{Paris})$ with respect to the vector of each
# token has a length. The way back begins at the scores, as in lesson 02.
#
# **Your turn:** p are the probabilities of all tokens; `target` is 1 at Paris, and 0 elsewhere.
# Write the gradient of -log p(Paris) with respect to the scores.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

six_scores, target = np.array([0.3, -1.0, 2.0, 0.5, 0.0, -0.4]), np.eye(6)[2]


def your_dscores(p, target):
    return ...


p_of_six, _ = ops.softmax_forward(six_scores)
true = numeric(lambda s: -np.log(ops.softmax_forward(s)[0][2:3]), six_scores, np.ones(1))
gap.judge(your_dscores, p_of_six, target, expected=true)

# %% [markdown] tags=["answer"]
# `p - target`: at Paris p - 1, elsewhere p. SmolLM2 gives Paris 0.95, so the way back begins with
# small numbers. Compare the tokens with each other, then, and not with those of another sentence.

# %% tags=["hide-input"]
norms = np.array(REAL["gradient"]["norms"])
gradient_figure, axes = plot.plt.subplots(figsize=(12, 3.6))
axes.bar(range(len(norms)), norms, color="tab:purple", alpha=0.7)
axes.set_xticks(range(len(norms)), [piece.replace("\n", "\\n") for piece in pieces], rotation=70,
                ha="right", fontsize=9)
axes.set(ylabel="length of the gradient", title="-log p of Paris, with respect to each token")
plot.save(gradient_figure, "37_gradient.png")

# %%
largest = {pieces[place] for place in norms.argsort()[-4:]}
print("the four largest:", *(f"{pieces[place]!r}" for place in norms.argsort()[::-1][:4]))
assert largest == {" capital", " France"}, "the two words, at both places"

# %% [markdown] tags=["deeper"]
# ### Are these gradients right?
#
# A check of each of 135 million numbers by finite differences is out of reach: a forward pass takes
# a second, so two for each number would take eight years. But one random direction $u$ takes all of
# them into one test:
#
# $$
# \frac{L(\theta + \varepsilon u) - L(\theta - \varepsilon u)}{2 \varepsilon}
# \approx \sum_i \frac{\partial L}{\partial \theta_i} u_i
# $$
#
# If a single block forgot its part, the sum would be wrong. First with our three blocks:

# %%
targets = np.append(TINY_IDS[1:], 7)[None]
loss, cache = tiny.loss(TINY_IDS[None], targets)
tiny.zero_grad()
tiny.loss_backward(cache)
rng = np.random.default_rng(1)
direction = [rng.standard_normal(parameter.data.shape) for parameter in tiny.parameters()]
by_gradient = sum((p.grad * u).sum() for p, u in zip(tiny.parameters(), direction, strict=True))


def loss_at(step):
    """The loss of the same model with weights a step further along the direction"""
    moved = Llama(TINY, seed=0, dtype=np.float64)
    for parameter, u in zip(moved.parameters(), direction, strict=True):
        parameter.data += step * u
    return moved.loss(TINY_IDS[None], targets, grad=False)[0]


by_differences = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6
print(f"three small blocks: {by_gradient:.8f} by the gradient, {by_differences:.8f} by differences")
check = REAL["check"]
print(f"SmolLM2, float64:   {check['by the gradient']:.8f} by the gradient, "
      f"{check['by differences']:.8f} by differences")
assert abs(by_gradient / by_differences - 1) < 1e-6, "all parameters of the small one"
assert abs(check["by the gradient"] / check["by differences"] - 1) < 1e-6, "a real backward pass"

# %% [markdown]
# **The trap.** One direction can miss an error: where the wrong part is small, its share of the sum
# is small. So the check of every number stays, on models of a few thousand (`minigpt check`). The
# direction is for what is too large for it.

# %% [markdown] tags=["deeper"]
# ## 7. The cache in bytes, and the temperature
#
# To write the next token, the model needs the keys and values of all earlier ones (lesson 17).
# Three heads of keys for nine of queries make the cache three times smaller:

# %%
BLOCKS, N_HEAD, N_KV, SIZE, CONTEXT = 30, 9, 3, 64, 8192
a_token = BLOCKS * 2 * N_KV * SIZE * 4  # keys and values, float32
print(f"a token: {a_token:,} bytes; {CONTEXT:,} tokens: {a_token * CONTEXT / 2**20:,.0f} MiB")
print(f"with nine heads of keys: {a_token * N_HEAD // N_KV * CONTEXT / 2**20:,.0f} MiB; "
      f"the weights: {4 * total / 2**20:,.0f} MiB")
if smol:
    past = smol.new_past(capacity=64)
    smol.next_logits(PROMPT[None], past)
    in_cache = sum(one.k[..., :1, :].nbytes + one.v[..., :1, :].nbytes for one in past)
    assert in_cache == a_token, "the library's cache has as many"
assert N_HEAD // N_KV * a_token * CONTEXT > 4 * total, "nine heads: more than the weights"
print("\nWrite one sentence about a cat.")
for temperature in ("0.0", "0.7", "1.5"):
    print(f"  temperature {temperature}: {REAL['texts'][f'temperature {temperature}'][:78]}")

# %% [markdown]
# Temperature is lesson 12's: the logits are divided by it. At 1.5 this text is nonsense. A guess:
# most of the 49,152 tokens are unlikely, but at 1.5 they are together so likely that soon one is
# drawn.

# %% [markdown] tags=["deeper"]
# ## 8. Fine-tuning a real one: LoRA
#
# To train all numbers, each needs a gradient and two moments of Adam. With the weights that is four
# times their size: 2.2 GB here, 108 GB for 7 billion. LoRA (Hu et al. 2021) leaves every W (I,O) as
# it is, and learns a small product beside it:
#
# $$
# \text{out} = x W + \frac{\alpha}{r}\, x A B, \qquad A\ (I, r),\; B\ (r, O)
# $$
#
# With r = 1 the product A B is one column times one row. The pencil work is lesson 01's, twice. Let
# $y = x A$ and $s = \alpha / r$:
#
# - $\text{out} = x W + s\, y B$, so $dB = s\, y^\top d\text{out}$ and
#   $dy = s\, d\text{out}\, B^\top$
# - $y = x A$, so $dA = x^\top dy$, and $dx = d\text{out}\, W^\top + dy\, A^\top$
#
# The gradient of W is not computed: W does not learn.

# %%
from minigpt.learn import lines

SCALE = 2.0  # s, that is alpha / r
drawn = np.random.default_rng(2)
W = drawn.normal(size=(6, 5))  # it stays as it is


def lora(x, a, b):
    y = x @ a
    out = x @ W + SCALE * (y @ b)
    return out


def lora_backward(dout, c):
    # out = x @ W + SCALE * (y @ b)
    db = SCALE * (c.y.T @ dout)
    dy = SCALE * (dout @ c.b.T)
    # y = x @ a
    da = c.x.T @ dy
    dx = dout @ W.T + dy @ c.a.T
    return dx, da, db


print("forward and backward, checked in the next cell")

# %%
lora_results = lines.check(
    lora, lora_backward, drawn.normal(size=(4, 6)), drawn.normal(size=(6, 2)),
    drawn.normal(size=(2, 5)))
assert all(result.error < 1e-8 for result in lora_results), "every line is right"

# %% [markdown]
# At the start A is random and B is zero. Why not both zero? Look at the lines: with B = 0 the model
# is unchanged, and $dy = 0$, so A does not learn *yet*, but $dB = s\,y^\top d\text{out}$ is not 0.
# With both zero, $y = 0$ too: nothing would ever move. We try it:

# %%
def learnt(a, b, steps=200):
    """How far x (W + SCALE a b) comes to a changed W by descent on a and b alone -> the loss"""
    xs = np.random.default_rng(3).normal(size=(40, 6))
    wanted = xs @ (W + np.outer(np.arange(6.0), np.arange(5.0)) / 10)
    for _ in range(steps):
        error = xs @ W + SCALE * (xs @ a @ b) - wanted
        dy = SCALE * (error @ b.T)
        a, b = a - 0.002 * (xs.T @ dy), b - 0.002 * SCALE * ((xs @ a).T @ error)
    return float((error**2).mean())


small = np.random.default_rng(4).normal(size=(6, 1)) * 0.3
start_loss, from_b_zero, both_zero = (
    learnt(small, np.zeros((1, 5)), 1), learnt(small, np.zeros((1, 5))),
    learnt(np.zeros((6, 1)), np.zeros((1, 5))))
print(f"the loss at first {start_loss:.3f}; A random, B zero: {from_b_zero:.2e}; "
      f"both zero: {both_zero:.3f}")
assert from_b_zero < 1e-3 and both_zero == start_loss, "zero times zero never learns"
adapters = 30 * 8 * ((576 + 960) + (576 + 576))  # r = 8 on both projections of attention
print(f"r = 8 on the attention of SmolLM2: {adapters:,} numbers learn, {adapters / total:.2%}")
assert adapters / total < 0.01, "less than a hundredth learns"

# %% [markdown]
# `minigpt finetune` takes `--lora 8` for this. In the end $W + s A B$ is one matrix again: a merged
# model costs nothing more than before.
#
# `minigpt instruct smollm2 mine.jsonl` tunes this model on your own instructions. With 200 about
# our stories (`benchmarks/instruct.py`) it took 5 minutes and 2.2 GB. Of 100 other questions with
# two answers it had half right before, 83 after. Did it forget something else? It knew 9 of 12
# capitals before, and 8 after: one capital is too little to say.

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - The weights that we opened were rounded to 4 bits (`Q4_1`: 32 numbers share a scale and a least
#   value), and are computed with in float32. The published ones are bfloat16. So other programs
#   show other digits for the same question.
# - Meta's files pair neighbouring columns for rotary positions, Hugging Face's the two halves of a
#   head. The reader puts the rows into the right sequence (lesson 36 shows what happens otherwise).
# - SmolLM2's paper trains on 2 trillion tokens for 135 million parameters, 15,000 for each: 700
#   times what lesson 24's law calls best. The idea: a small model that is *used* often repays it.
# - "The head that knows capitals" is a way of speaking. What was shown: at this place, in this
#   sentence, these 64 numbers decide between countries.

# %% [markdown]
# ## 10. To keep
#
# - A chat is one text, which a template writes; the model predicts the next token, as GPT-1 did.
# - Read through the head, the answer is not among the first thousand words up to block 23, and a
#   few blocks later it is there: one head, which looks at the country, brings it.
# - A cause is shown by an exchange: with 64 numbers of one head from another question, the model
#   writes that the capital of France is Berlin; no other single head does that.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/37_lora.py`: LoRA beside a layer with a bias, forward, backward and merged.
# 2. `exercises/37_find_the_bug.py`: a cache with fewer heads of keys that reads the wrong group.
# 3. The head of section 5 looks at "France" in the question *and* in the answer. Which of the two
# places matters? Say how you would test it with an exchange, and what each result would mean.

# %%
print("lesson 37: every check is happy")
