# %% [markdown]
# # Lesson 36: what changed since GPT-2
#
# You will go from GPT-2 to the models that people run today in five small changes, one at a time:
# a norm without a mean, positions that turn, a gate in the MLP, heads that share their keys, and no
# biases. You will derive the one that is new, see a silent mistake with it, and read what each
# change alone does to the loss.
#
# Reading: 25 minutes for the core, 50 minutes for all of it. Running: 4 to 12 seconds. Before it:
# lessons 06, 16 and 17.
#
# Papers: Zhang and Sennrich 2019 (RMSNorm). Su et al. 2021, section 3.2 (rotary positions). Shazeer
# 2020, equation 6 (SwiGLU). Ainslie et al. 2023, section 2.2 (grouped queries). Touvron et al.
# 2023, section 2.2 (LLaMA). Jiang et al. 2023, section 2 (Mistral). Black et al. 2022, section 2.1.

# %% [markdown]
# ## 1. Why: five differences
#
# GPT-2 is from 2019. Llama, Mistral, Qwen, SmolLM: the models of today have other sizes and other
# texts. But, small details aside, their block is GPT-2's block, with five changes.
#
# | | GPT-2 | LLaMA and after | section |
# |---|---|---|---|
# | norm | LayerNorm | RMSNorm: no mean, no bias | 2 |
# | positions | a table, added once | queries and keys **turn**, in each layer | 3 |
# | MLP | GELU between two matrices | a gate: three matrices | 5 |
# | keys and values | one head for each head of queries | one for a group | 6 |
# | biases | everywhere | none | 7 |
#
# The rest of the plan is the same: the residual stream, pre-norm, causal attention, a head on the
# last state, the loss. (The head may have weights of its own, where GPT-2's is the token table.) A
# reader who has followed the course to lesson 16 is one lesson from today.

# %%
import numpy as np

from minigpt import GPT2, GPT2Config, ops, plot
from minigpt.device.threads import set_threads
from minigpt.models.family.llama import Llama, LlamaConfig

set_threads(1)  # small arrays: a second thread would only be in the way
SIZES = {"vocab_size": 50, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 4}
gpt2 = GPT2(GPT2Config(**SIZES), seed=0, dtype=np.float64)
llama = Llama(LlamaConfig(**SIZES, n_kv_head=2, n_inner=64), seed=0, dtype=np.float64)
for name, model in (("GPT-2", gpt2), ("LLaMA", llama)):
    shapes = [f"{key[4:]} {parameter.data.shape}" for key, parameter in model.named_parameters()
              if key.startswith("h.0.")]
    print(f"{name}, one block:")
    for some in (shapes[:4], shapes[4:8], shapes[8:]):
        print("   ", "  ".join(some))
has_bias = [key for key, _ in llama.named_parameters() if key.endswith("bias")]
assert not has_bias, "a LLaMA has no bias"

# %% [markdown]
# LLaMA's `attn.c_attn` has 48 columns and not 72: 24 for queries, and 12 each for two shared heads
# of keys and of values.

# %% [markdown]
# ## 2. RMSNorm: without the mean
#
# LayerNorm subtracts the mean, divides by the standard deviation, multiplies by a gain and adds a
# bias. RMSNorm divides by the root of the mean square, and multiplies by a gain:
#
# $$
# \hat x = \frac{x}{\sqrt{\text{mean}(x^2) + \varepsilon}}, \qquad \text{out} = g\, \hat x
# $$
#
# Where the mean of x is 0, both are the same. In numbers:

# %%
x = np.array([[3.0, -1.0, -2.0, 0.0]])  # its mean is 0
gain = np.ones(4)
by_rms, _ = ops.rmsnorm_forward(x, gain)
by_layernorm, _ = ops.layernorm_forward(x, gain, np.zeros(4))
shifted, _ = ops.rmsnorm_forward(x + 5, gain)
print("mean 0:  RMSNorm", by_rms.round(3), " LayerNorm", by_layernorm.round(3))
print("plus 5:  RMSNorm", shifted.round(3), " LayerNorm",
      ops.layernorm_forward(x + 5, gain, np.zeros(4))[0].round(3))
assert np.abs(by_rms - by_layernorm).max() < 1e-4, "the same without a mean"
assert np.abs(shifted - by_rms).max() > 0.5, "RMSNorm sees a mean, LayerNorm does not"

# %% [markdown]
# RMSNorm is cheaper: one mean less, in both passes. And if a mean does harm, the layers before can
# learn to write vectors whose mean is 0. Lesson 06 has its forward pass, and its backward pass as
# an exercise.

# %% [markdown]
# ## 3. Positions that turn
#
# GPT-2 adds a row of a table to each word, once, at the bottom. Two things are unsatisfying. A
# table has an end: place 1,024 has no row. And to attention it often matters *how far* a key is
# from a query, but the table has places, and no distances.
#
# The idea of *rotary positions*: take two numbers of a query as an arrow in the plane, and turn it
# by an angle that grows with its place. Do the same with the key. The dot product of two arrows is
# made of their lengths and the angle *between* them. Turning changes no length. And if both turn
# with their place, the angle between them changes with the distance of the places only.
#
# A query (1, 0), a key (1, 0), and 30 degrees for each place:

# %%
def turned(pair, degrees):
    a, b = pair
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([a * c - b * s, a * s + b * c])


print("query at, key at: their dot product")
for query_at, key_at in ((1, 0), (4, 3), (101, 100), (4, 1), (104, 101)):
    product = turned((1, 0), 30 * query_at) @ turned((1, 0), 30 * key_at)
    print(f"{query_at:8}, {key_at:6}: {round(product, 9) + 0:7.4f}")
near = [turned((1, 0), 30 * (n + 1)) @ turned((1, 0), 30 * n) for n in (0, 3, 100)]
assert np.allclose(near, np.cos(np.radians(30))), "distance 1: cos 30, at every place"

# %% [markdown]
# Distance 1 gives 0.866 = cos 30, at the beginning of the text and at place 100; distance 3 gives
# cos 90 = 0.
#
# A head of D = 64 numbers has 32 such pairs, and each pair has its own angle for a step: pair i
# turns by $\theta^{-2i/D}$, with $\theta = 10{,}000$. The first pair turns by 1 radian from place
# to place, a full turn in 6 places. The last one needs 47,000 places: it is nearly still.

# %%
from minigpt.models.family import rotary

steps = rotary.frequencies(64, 10000.0)  # (32,), radians for each place
places = np.arange(64)
wave_figure, panels = plot.plt.subplots(1, 2, figsize=(12, 4))
for pair in (0, 8, 16, 24):
    panels[0].plot(places, np.cos(places * steps[pair]), label=f"pair {pair}")
panels[0].set(xlabel="distance of query and key", ylabel="cos of the angle between them",
              title="Four of the 32 pairs")
panels[0].legend(fontsize=11)
panels[1].semilogy(2 * np.pi / steps, "o")
panels[1].set(xlabel="pair", ylabel="places for one full turn", title="How slowly each turns")
plot.save(wave_figure, "36_waves.png")
print(f"a full turn: {2 * np.pi / steps[0]:.1f} places for the first pair, "
      f"{2 * np.pi / steps[-1]:,.0f} for the last")
assert 6 < 2 * np.pi / steps[0] < 7 and 2 * np.pi / steps[-1] > 40_000, "from short to long waves"

# %% [markdown]
# It is as with the hands of a clock: the quick pairs show small distances exactly, and begin again
# after each full turn; the slow pairs show large distances.
#
# Does it hold for a whole model? We move a text by 7 places and look at the states. GPT-2's change,
# LLaMA's do not:

# %%
ids = np.random.default_rng(0).integers(50, size=(1, 12))
for name, model in (("GPT-2", gpt2), ("LLaMA", llama)):
    at_0, _ = model.hidden(ids, grad=False, positions=np.arange(12))
    at_7, _ = model.hidden(ids, grad=False, positions=np.arange(12) + 7)
    print(f"{name}: moved by 7 places, the states change by {np.abs(at_7 - at_0).max():.0e}")
    assert (np.abs(at_7 - at_0).max() < 1e-12) == (name == "LLaMA"), "only distances count"

# %% [markdown]
# ### Backward: turn back
#
# One pair (a, b) and an angle with cosine c and sine s. Forward: out_a = a c - b s, and
# out_b = a s + b c.
#
# **Your turn:** dout_a and dout_b are the upstream gradients of the two. Write the gradient of a.

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap

a, b, c, s, dout_a, dout_b = np.random.default_rng(2).normal(size=(6, 5))


def your_da(dout_a, dout_b, c, s):
    return ...  # out_a = a * c - b * s, and out_b = a * s + b * c


true = numeric(lambda a: np.stack([a * c - b * s, a * s + b * c]), a, np.stack([dout_a, dout_b]))
gap.judge(your_da, dout_a, dout_b, c, s, expected=true)

# %% [markdown] tags=["answer"]
# `dout_a * c + dout_b * s`: a is used in both lines, so two parts add up. Compare with the line of
# out_a: only a sign differs.

# %%
from minigpt.learn import lines


def turn(a, b, c, s):
    out_a = a * c - b * s
    out_b = a * s + b * c
    out = np.stack([out_a, out_b])
    return out


def turn_backward(dout, v):
    # out = np.stack([out_a, out_b])
    dout_a, dout_b = dout
    # out_b = a * s + b * c, and out_a = a * c - b * s: a and b are used twice
    da = dout_a * v.c + dout_b * v.s
    db = dout_b * v.c - dout_a * v.s
    dc = dout_a * v.a + dout_b * v.b
    ds = dout_b * v.a - dout_a * v.b
    return da, db, dc, ds


drawn = np.random.default_rng(1)
turn_results = lines.check(turn, turn_backward, *drawn.normal(size=(4, 5)))
assert all(result.error < 1e-8 for result in turn_results), "every line is right"

# %% [markdown]
# The cosine and the sine are constants in a model, so dc and ds are not needed. Look at da and db:
# they are the forward lines with **-s in the place of s**. The gradient is turned *back* by the
# same angle:
#
# $$
# \text{out} = R\, x, \qquad dx = R^\top d\text{out}, \qquad
# R^\top = \begin{pmatrix} c & s \\ -s & c \end{pmatrix} = R^{-1}
# $$
#
# A turn changes no length, so it makes no gradient larger or smaller. And its cache is nothing but
# the angles. In the library (`pairing`: section 4):
#
#     # minigpt/ops/reference/rope.py
#     cos, sin, pairing, heads = cache
#     return _turned(dout, cos, -sin, pairing, heads)

# %% [markdown] tags=["deeper"]
# ### A turn changes no length

# %%
heads = drawn.normal(size=(1, 5, 3, 8))  # (B,T,H,D)
angles = np.arange(5)[:, None] * rotary.frequencies(8, 10000.0)
given = {"cos": np.cos(angles), "sin": np.sin(angles)}
out, cache = ops.rope_forward(heads, **given)
dout = drawn.normal(size=out.shape)
dx = ops.rope_backward(dout, cache)
print("length before and after:", f"{np.linalg.norm(heads):.6f} {np.linalg.norm(out):.6f}")
print("sum of x dx and of out dout:", f"{(heads * dx).sum():.6f} {(out * dout).sum():.6f}")
again, _ = ops.rope_forward(dx, **given)
assert np.allclose(again, dout), "turned back, and turned again"
assert np.isclose(np.linalg.norm(heads), np.linalg.norm(out)), "no length changes"

# %% [markdown] tags=["deeper"]
# ## 4. The trap: two ways to pair
#
# Which two numbers are a pair? In the paper and in Meta's files columns 2i and 2i + 1,
# *neighbours*; in the files of Hugging Face i and i + D/2, *halves*. Both are the same model, if
# the numbers that $W_q$ and $W_k$ write are put into the other sequence too. If not, everything has
# the right shape, no gradient is wrong, and the model writes text.
#
# We train a small LLaMA, and then read it with the wrong pairs.

# %%
from minigpt.data import stories
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import GPT1Tokenizer

corpus = stories.corpus(300, variety=1)
text = GPT1Tokenizer.train(corpus, 300, pipeline="rules", progress=False)
all_ids = np.array(text.encode(corpus))
small_config = LlamaConfig(vocab_size=text.vocab_size, n_positions=64, n_embd=64, n_layer=2,
                           n_head=4, n_inner=172, initializer_range=0.07, tie_word_embeddings=True)
small = Llama(small_config, seed=0)
optimizer = AdamW(small.named_parameters())


def windows(seed, length=32, n=16):
    starts = np.random.default_rng(seed).integers(len(all_ids) - length - 1, size=n)
    rows = all_ids[starts[:, None] + np.arange(length + 1)]
    return rows[:, :-1], rows[:, 1:]


for step in range(150):
    small.zero_grad()
    loss, loss_cache = small.loss(*windows(step))
    small.loss_backward(loss_cache)
    optimizer.step(5e-3 * min(1, (step + 1) / 15), 1.0)
print(f"update 150: a loss of {float(loss):.2f}; guessing: {np.log(text.vocab_size):.2f}")

# %%
def loss_with(pairing, frequencies):
    """The loss on fixed windows, where rope pairs so and turns by these angles"""
    forward = ops.rope_forward
    before = small.frequencies
    small.frequencies = frequencies
    ops.rope_forward = lambda x, **how: forward(x, **how | {"pairing": pairing})
    try:
        return float(small.loss(*windows(1000, n=64), grad=False)[0])
    finally:
        ops.rope_forward = forward
        small.frequencies = before


turns = small.frequencies
tries = {"as it was trained": ("halves", turns), "neighbours": ("neighbours", turns),
         "turned the other way": ("halves", -turns), "not turned": ("halves", 0 * turns)}
found = {name: loss_with(*how) for name, how in tries.items()}
for name, value in found.items():
    print(f"{name:21} {value:.3f}")
assert found["neighbours"] > found["as it was trained"] + 0.05, "the wrong pairs cost"
assert found["neighbours"] < np.log(text.vocab_size) - 1, "but it is far from nonsense"

# %% [markdown]
# With the wrong pairs the loss is nearly that of a model whose pairs do not turn at all: nearly all
# that its positions say is lost (one seed). But it is far below guessing, so such a model only
# looks "a bit weak". With the weights of another program, compare numbers and not impressions
# (lesson 17).

# %% [markdown] tags=["deeper"]
# ## 5. The MLP with a gate
#
# GPT-2's MLP is $\text{gelu}(x W_1)\, W_2$. LLaMA's has two first matrices. $W_{up}$ says *what*,
# $W_{gate}$ *how much of it passes*:
#
# $$
# h = \text{silu}(x W_{gate}) \odot (x W_{up}), \qquad \text{out} = h\, W_{down}, \qquad
# \text{silu}(z) = z\, \sigma(z)
# $$
#
# Three matrices of inner width F have 3CF numbers, two have 2CF. At F = 8/3 C instead of 4 C they
# are equal: that is where odd sizes such as 11,008 for a width of 4,096 come from (rounded up).
# Backward: a product of two, so each gets the other as its slope.

# %%
def gated(x, w_gate, w_up, w_down):
    g = x @ w_gate
    u = x @ w_up
    s = 1 / (1 + np.exp(-g))
    a = g * s
    h = a * u
    out = h @ w_down
    return out


print("a gate, line by line; its backward pass is in the next cell")

# %%
def gated_backward(dout, v):
    # out = h @ w_down
    dw_down = v.h.T @ dout
    dh = dout @ v.w_down.T
    # h = a * u: each is the slope of the other
    da = dh * v.u
    du = dh * v.a
    # a = g * s, and s = sigmoid(g)
    dg = da * (v.s + v.g * v.s * (1 - v.s))
    # u = x @ w_up and g = x @ w_gate: x goes into two products
    dw_up = v.x.T @ du
    dw_gate = v.x.T @ dg
    dx = dg @ v.w_gate.T + du @ v.w_up.T
    return dx, dw_gate, dw_up, dw_down


mlp_inputs = [drawn.normal(size=shape) for shape in ((4, 6), (6, 5), (6, 5), (5, 6))]
gate_results = lines.check(gated, gated_backward, *mlp_inputs)
library, _ = ops.gated_mlp_forward(*mlp_inputs)
assert np.allclose(library, gated(*mlp_inputs)), "as in the library"
assert all(result.error < 1e-7 for result in gate_results), "every line is right"
print(f"4 C of 4,096: {2 * 4 * 4096**2:,} numbers; 11,008: {3 * 11008 * 4096:,}")

# %% [markdown] tags=["deeper"]
# ## 6. Heads that share their keys
#
# When a model writes, it reads the keys and values of all earlier words for each new one (lesson
# 17). With *grouped queries* several heads of queries share one head of keys and values. Nothing
# else changes in the forward pass: where `group` heads of queries share one head of keys, head h of
# queries reads keys of head h // group.
#
# Backward: a key is used by several heads, so it gets **the sum** of their gradients. We compare
# with a model in which each head has a copy of its own.

# %%
qkv = drawn.normal(size=(1, 4, (4 + 2 + 2) * 3))  # heads: 4 q, 2 k, 2 v; D = 3
read, read_cache = ops.self_attention_forward(qkv, 4, n_kv_head=2)
q, k, v = np.split(qkv.reshape(1, 4, 8, 3), [4, 6], axis=2)
copies = [part.repeat(2, axis=2) for part in (k, v)]  # each head twice
whole = np.concatenate([q, *copies], axis=2).reshape(1, 4, -1)
read_apart, apart_cache = ops.self_attention_forward(whole, 4)
assert np.allclose(read, read_apart), "the same forward pass"

dread = drawn.normal(size=read.shape)
dqkv, _ = ops.self_attention_backward(dread, read_cache)
dwhole, _ = ops.self_attention_backward(dread, apart_cache)
dk_shared = dqkv.reshape(1, 4, 8, 3)[:, :, 4:6]
dk_copies = dwhole.reshape(1, 4, 12, 3)[:, :, 4:8]
summed = dk_copies.reshape(1, 4, 2, 2, 3).sum(axis=3)
print("dk of a shared key", dk_shared[0, 0, 0].round(4))
print("of its two copies ", dk_copies[0, 0, 0].round(4), dk_copies[0, 0, 1].round(4))
assert np.allclose(dk_shared, summed), "the sum of the gradients of its copies"

# %%
print(f"{'':26}{'heads':>7}{'of keys':>9}{'a token in the cache':>23}{'8,192 tokens':>15}")
PUBLISHED = (("GPT-2 small", 12, 12, 12, 64), ("SmolLM2-135M", 30, 9, 3, 64),
             ("LLaMA 7B", 32, 32, 32, 128), ("Mistral 7B", 32, 32, 8, 128),
             ("LLaMA 2 70B", 80, 64, 8, 128))  # blocks, heads of queries, of keys, their size
for name, n_block, n_q, n_kv, size in PUBLISHED:
    token = 2 * n_block * n_kv * size * 2  # keys and values, 16 bits
    print(f"{name:26}{n_q:7}{n_kv:9}{token:17,} bytes{token * 8192 / 2**30:11.1f} GiB")
mistral, llama_7b = (2 * 32 * n * 128 * 2 for n in (8, 32))
assert llama_7b == 4 * mistral, "eight heads in place of 32: a quarter"

# %% [markdown] tags=["deeper"]
# ## 7. No biases; a window; both at once
#
# **Biases.** LLaMA has none. (Qwen2 keeps one on queries, keys and values.)
#
# **A sliding window.** Mistral 7B lets a position see only the last W keys. Layers add up, so
# information reaches further than W. How far, a gradient shows: an upstream gradient at the last
# state, and which words get any?

# %%
from minigpt.models.family.mistral import Mistral, MistralConfig

reach = {}
for n_block in (1, 2, 3):
    model = Mistral(MistralConfig(**SIZES | {"n_layer": n_block}, n_inner=64, sliding_window=4),
                    seed=0, dtype=np.float64)
    text_of_20 = np.arange(20)[None]  # different words, so each has its own row of the table
    state, state_cache = model.hidden(text_of_20)
    dstate = np.zeros_like(state)
    dstate[0, -1] = 1
    model.zero_grad()
    model.hidden_backward(dstate, state_cache)
    touched = np.abs(model.tokens_embed.weight.grad[:20]).max(axis=-1) > 1e-14
    reach[n_block] = int(touched.sum())
    print(f"{n_block} blocks, a window of 4: the last state depends on {reach[n_block]} words")
assert reach == {1: 4, 2: 7, 3: 10}, "L (W - 1) words back, and its own"

# %% [markdown]
# That is lesson 38's receptive field. Mistral's 32 layers with W = 4,096 reach 131,000 words back,
# in principle.
#
# **Both at once.** GPT-NeoX (Pythia, Polyglot-ko) computes attention and MLP from the same stream:
# $x + \text{attn}(\text{ln}_1 x) + \text{mlp}(\text{ln}_2 x)$. Neither waits for the other. And it
# turns only the first quarter of each head.

# %% [markdown]
# ## 8. What does each change do?
#
# `benchmarks/since_gpt2.py` trains GPT-2 with two blocks on our stories, and then models with one
# change each. They have nearly as many numbers in their blocks (the two heads of keys have 11 %
# fewer), the same texts, 400 updates, one learning rate for all, and three seeds. The last two rows
# have all changes together.
#
# **Guess:** which of the changes make the loss higher?

# %%
from minigpt.learn import reference

RECORD = reference.recorded("since_gpt2.json")["rows"]
CHANGES = list(dict.fromkeys(name.partition(", seed")[0] for name in RECORD))
LOSS = {name: np.array([RECORD[f"{name}, seed {seed}"]["loss"] for seed in range(3)])
        for name in CHANGES}
for name, losses in LOSS.items():
    gain = LOSS["GPT-2"] - losses
    told = "better" if gain.min() > 0.01 else "worse" if gain.max() < -0.01 else "not decided"
    print(f"{name:21} {losses.mean():.3f}  (seeds {losses.min():.3f} to {losses.max():.3f})   "
          f"{'' if name == 'GPT-2' else told}")
added = sum(LOSS[name].mean() - LOSS["GPT-2"].mean() for name in CHANGES[1:6])
print(f"if the effects of the first five added up: {LOSS['GPT-2'].mean() + added:.3f}")
for change in ("rotary positions", "gated MLP", "window of 16"):
    assert (LOSS[change] < LOSS["GPT-2"] - 0.02).all(), "better in every seed"
for change in ("two heads of keys", "no biases"):
    assert (LOSS[change] > LOSS["GPT-2"] + 0.02).all(), "worse in every seed"
assert np.abs(LOSS["RMSNorm"] - LOSS["GPT-2"]).max() < 0.02, "the norm hardly matters"
assert (LOSS["all, with the window"] < LOSS["all but the window"] - 0.05).all(), "the best is all"

# %% [markdown] tags=["answer"]
# Two: the two heads of keys, and no biases. None is tempting, since today's models have them all.
# But not every change was made for the loss.
#
# - **Positions that turn help most**: 0.13 nats. **The gate** gives 0.11. (Its function is SiLU,
#   GPT-2's is GELU: this run changes both at once.)
# - **RMSNorm** makes hardly a difference. It was never meant to: it is cheaper.
# - **Two heads of keys and no biases cost** a little. The first makes the cache three times
#   smaller: two heads in place of six. We have not tried how the cost of either changes in larger
#   models.
# - **The window helps** here. A guess at the reason: our stories depend on their last sentences.
# - **The effects do not simply add up.** If they did, gains and costs, all but the window together
#   would have 0.62. They have 0.657, no better than positions that turn alone (0.650).

# %% tags=["hide-input"]
change_figure, axes = plot.plt.subplots(figsize=(9, 4.2))
for row, (name, losses) in enumerate(reversed(LOSS.items())):
    axes.plot(losses, [row] * 3, "o", color="tab:gray" if name == "GPT-2" else "tab:blue")
axes.axvline(LOSS["GPT-2"].mean(), color="gray", linestyle="--")
axes.set_yticks(range(len(LOSS)), reversed(LOSS))
axes.set(xlabel="loss on held-out stories; a point is a seed", title="GPT-2, and one change each")
plot.save(change_figure, "36_changes.png")

# %% [markdown] tags=["deeper"]
# ### Texts that are longer than any in training
#
# The models were trained on 64 places. A table has no trained row for place 65. Positions that turn
# have an angle for each place, also for those that training never had. Is that enough? The loss in
# each stretch of 64 places of a text of 256:

# %%
LONGER = [name for name in CHANGES if "by place" in RECORD[f"{name}, seed 0"]]
print(f"{'places':36}" + "".join(f"{f'{64 * n + 1}-{64 * n + 64}':>9}" for n in range(4)))
far = {}
for name in LONGER:
    for how in ("by place", "by place, scaled"):
        quarters = np.mean([RECORD[f"{name}, seed {seed}"][how] for seed in range(3)], axis=0)
        far[name, how] = quarters
        label = name + (", 4 times slower" if "scaled" in how else "")
        print(f"{label:36}" + "".join(f"{value:9.2f}" for value in quarters))
plain, slow = (far["rotary positions", how] for how in ("by place", "by place, scaled"))
window = far["all, with the window", "by place"]
assert plain[1] > plain[0] + 0.05 and plain[3] > 2 * plain[0], "it breaks step by step"
assert (slow > plain[0] + 0.5).all(), "slowed down without further training: worse everywhere"
assert (window < window[0] + 0.05).all(), "with a window nothing breaks"

# %% [markdown]
# **Worth remembering: positions that turn do not carry over to longer texts by themselves.** The
# loss rises from 0.65 to 1.8. The distances are new: no query in training met a key 100 places
# back. **The control is the window**: *all, with the window* differs from *all but the window* only
# in that no distance is larger than 15, at any place. The one reads texts of four times the length,
# and its loss even falls (a guess: it has read more of the story). The other breaks. (The window
# also keeps the *number* of keys as in training. This control does not part the two.)
#
# To turn four times more slowly (`linear`) keeps all angles within those of training. Without more
# training it is worse everywhere; we guess that near distances look different now. Chen et al. 2023
# (arXiv 2306.15595) do the same with LLaMA, and train a little further.

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - "RoPE extrapolates to longer texts": see the table of section 8. The abstract of the paper names
#   a "flexibility of sequence length"; that is a property of the formula, not a measured loss.
# - **Llama 3.1** slows the long waves only, by a factor of 8, and keeps the short ones
#   (`rope_scaling` of type `llama3`; the library's `rotary.frequencies` has it). So near distances
#   look as in training.
# - **Which theta?** 10,000 in LLaMA 1 and 2, 100,000 in SmolLM2, 500,000 in Llama 3.
# - Sizes: LLaMA 7B has 6,738,415,616 parameters, Mistral 7B 7,241,732,096, Pythia-160M 162,322,944:
#   `minigpt info --model llama --size 7b` counts them.
# - **What is left out.** The experiment has two blocks and one kind of text: what it does not show
#   may well be true of large models. Mixtures of experts, which some of today's models have, are
#   not built here.

# %% [markdown]
# ## 10. To keep
#
# - Today's models have GPT-2's block with five changes: RMSNorm, queries and keys that turn,
#   a gate in the MLP, shared keys, no biases.
# - Rotary positions turn queries and keys by an angle that grows with their place, so a score
#   depends on the distance alone; backward, the gradient is turned back.
# - In our runs positions that turn and the gate lower the loss; shared keys and missing biases cost
#   a little, and were made for another reason.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/36_part_of_a_head.py`: turn a part of a head, forward and backward, in both
# pairings.
# 2. `exercises/36_find_the_bug.py`: a window that is one too narrow.
# 3. A model has 32 layers, 8 heads of keys of 128 numbers, and 16 GiB for its cache in 16 bits. How
# long may one conversation be? How long with 32 heads of keys?

# %%
print("lesson 36: every check is happy")
