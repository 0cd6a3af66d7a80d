# %% [markdown]
# # Lesson 16: GPT-2: what moved, and why
#
# You will read section 2.3 of the GPT-2 paper beside the difference of two files, and find each of its sentences in
# it. You will write the new block's backward, four lines again, and see what is new about them: one road that nothing
# stands on. You will measure how fast models of 2 to 24 blocks may learn, before and after the move. And you will see
# that the first suspect, the gradient at initialisation, has done nothing wrong.
#
# Reading: 30 minutes. Running: 40 seconds. Before it: lessons 07 to 09.
#
# Papers: Radford, Wu, Child, Luan, Amodei and Sutskever 2019 (GPT-2), section 2.3 and table 2. He et al. 2016b (arXiv
# 1603.05027): a residual road that stays clear. Xiong et al. 2020 (arXiv 2002.04745): why the norm's place decides
# about warm-up.

# %% [markdown]
# ## 1. Why: five sentences
#
# Lesson 09 ended with a GPT-1 of twelve blocks that died in its first step, and lived with warm-up. GPT-2 was to have
# 48 blocks. What did its authors change? Section 2.3 says that the model is GPT-1, "with a few modifications", and
# then, in our words:
#
# 1. LayerNorm moved to the *input* of each sub-block.
# 2. One more LayerNorm stands after the last block.
# 3. At initialisation, the weights of residual layers are scaled by 1/sqrt(N), with N the number of residual layers.
# 4. The vocabulary grew to 50,257, and the context from 512 to 1024 tokens.
# 5. The batch grew to 512 sequences. (That is not a matter of the model.)
#
# The library has the two models in two files, so we need not believe it. Here is their difference. First we take out
# what is only words: docstrings, and names that the two published checkpoints spell differently.

# %%
import ast
import difflib
import math
from pathlib import Path

import numpy as np

import minigpt
from minigpt import gradcheck, ops
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way


def code_lines(text):
    """The lines of a Python file without its docstrings and empty lines."""
    words = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            words |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return [line for i, line in enumerate(text.splitlines(), 1) if line.strip() and i not in words]


HOME = Path(minigpt.__file__).parent / "models"
one, two = ((HOME / f"gpt{n}.py").read_text(encoding="utf-8") for n in (1, 2))
for of_gpt1, of_gpt2 in ("GPT1", "GPT2"), ("tokens_embed", "wte"), ("positions_embed", "wpe"):
    one = one.replace(of_gpt1, of_gpt2)
one, two = code_lines(one), code_lines(two)
diff = [line for line in difflib.unified_diff(one, two, n=0, lineterm="") if line[:3] not in ("---", "+++", "@@ ")]

SENTENCES = {  # a sentence, and how to know its lines: the first that fits has the line
    "the norm moved to the input of each sub-block": ("ln_1", "ln_2", "self.attn", "self.mlp"),
    "one more norm after the last block": ("ln_f",),
    "residual weights scaled by 1/sqrt(N)": ("math", "std ="),
    "vocabulary and context": ("vocab_size:", "n_positions:"),
    "four sizes (table 2)": ('"n_layer"',),
    "names": ("",),
}
found = {sentence: [] for sentence in SENTENCES}
for line in diff:
    found[next(name for name, marks in SENTENCES.items() if any(mark in line for mark in marks))].append(line)
for sentence, lines in found.items():
    print(f"{sentence}: {len(lines)} lines")
    for line in lines if sentence != "names" else []:
        print("   ", line[0], line[1:].strip())
same = len(one) - sum(line[0] == "-" for line in diff)
print(f"and {same} of {len(one)} lines of GPT-1 stay as they are")

moved = found["the norm moved to the input of each sub-block"]
assert sum(line[0] == "-" for line in moved) == sum(line[0] == "+" for line in moved)  # moved: none came, none went
assert len(found["one more norm after the last block"]) == 3 and all(line[0] == "+" for line in diff if "ln_f" in line)
assert sum("sqrt(2 * config.n_layer)" in line for line in diff) == 1 and same > len(one) / 2

# %% [markdown]
# Read it group by group.
#
# - **The norm.** As many lines went as came: `ln_1` and `ln_2` stand elsewhere, in the forward and in the backward, and
#   nothing is added. This lesson is about these lines.
# - **The final norm** is one line forward, one backward, one where it is made. Section 6 shows why it has to be there:
#   nobody else brings the stream to size before the head reads it.
# - **The scale** is one line. N is 2L: a block of L has two layers that write to the stream, attention's `c_proj` and
#   the MLP's. It is handed to them alone, as `std`.
# - **Vocabulary and context** are two numbers. They change what the model costs, not what it is.
# - **Names**, not printed: the two checkpoints say "gelu" and "gelu_new" for the same tanh form (lesson 05).
#
# How much did it cost? The smallest GPT-2 has GPT-1's width and depth, so we can tell what each sentence added.

# %%
def count(V, T, C, L):
    return L * (12 * C * C + 13 * C) + V * C + T * C


gpt1, gpt2 = count(40478, 512, 768, 12), count(50257, 1024, 768, 12) + 2 * 768  # and the gain and bias of ln_f
print(f"GPT-1 has {gpt1:,} parameters, the smallest GPT-2 {gpt2:,}")
for what, more in ("tokens", (50257 - 40478) * 768), ("positions", (1024 - 512) * 768), ("the final norm", 2 * 768):
    print(f"  {what:15} {more:10,} more")
assert (gpt1, gpt2) == (116_534_784, 124_439_808) and gpt2 - gpt1 == (9_779 + 512 + 2) * 768

# %% [markdown]
# The move of the norm, which changed everything, cost nothing.
#
# ## 2. Forward: the block from nothing
#
# One operation per line; attention is lesson 07's, with its two linear maps. The 12 arrays of a block are the same in
# both models, with the same names and shapes; we take them in the order of GPT-2's checkpoint, `ln_1` first.

# %%
def attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head):
    """x (B,T,C) -> out (B,T,C)"""
    qkv, c1 = ops.linear_forward(x, w_qkv, b_qkv)
    heads, c2 = ops.self_attention_forward(qkv, n_head)
    out, c3 = ops.linear_forward(heads, w_o, b_o)
    return out, (c1, c2, c3)


def attend_backward(dout, cache):
    """dout (B,T,C) -> dx, dw_qkv, db_qkv, dw_o, db_o"""
    c1, c2, c3 = cache
    dheads, dw_o, db_o = ops.linear_backward(dout, c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    dx, dw_qkv, db_qkv = ops.linear_backward(dqkv, c1)
    return dx, dw_qkv, db_qkv, dw_o, db_o


def new_block(rng, C, std, n_layer=None):
    """The 12 arrays of a block, as float32; given n_layer, both `c_proj` are scaled by 1/sqrt(2 n_layer)."""
    scale = 1 / math.sqrt(2 * n_layer) if n_layer else 1
    maps = [(C, 3 * C, std), (C, C, std * scale), (C, 4 * C, std), (4 * C, C, std * scale)]
    maps = [(s * rng.standard_normal((i, o)), np.zeros(o)) for i, o, s in maps]
    block = [np.ones(C), np.zeros(C), *maps[0], *maps[1], np.ones(C), np.zeros(C), *maps[2], *maps[3]]
    return [array.astype(np.float32) for array in block]


rng = np.random.default_rng(0)
b, t, c, nh = 2, 3, 4, 2
x = rng.normal(size=(b, t, c))
weights = [w + 0.4 * rng.normal(size=w.shape) for w in new_block(rng, c, 0.5)]  # moved off their start
g1, b1, w_qkv, b_qkv, w_o, b_o, g2, b2, w_fc, b_fc, w_proj, b_proj = weights

x1, norm1 = ops.layernorm_forward(x, g1, b1)
a, attn = attend_forward(x1, w_qkv, b_qkv, w_o, b_o, nh)
n = x + a  # x, not x1: the stream is what is added to
n1, norm2 = ops.layernorm_forward(n, g2, b2)
m, fc = ops.mlp_forward(n1, w_fc, b_fc, w_proj, b_proj)
out = n + m
assert out.shape == x.shape == (2, 3, 4)

# %% [markdown]
# Look at where x goes. It is normalised for the *reader*, and the sum starts from x as it was. Nothing ever divides
# the stream; it is only added to. So `out - x` is exactly what the two sub-layers wrote:

# %%
assert np.allclose(out - x, a + m, rtol=0, atol=1e-14)

# %% [markdown]
# ## 3. Backward
#
# Each line under the line it undoes. Sums copy, copies add (lesson 07).

# %%
dout = rng.normal(size=out.shape)

# out = n + m
dn = dout
dm = dout
# m = mlp(n1, ...)
dn1, *dmlp = ops.mlp_backward(dm, fc)
# n1 = layernorm(n, g2, b2): the second use of n, so its gradient is added
dn_of_norm, dg2, db2 = ops.layernorm_backward(dn1, norm2)
dn = dn + dn_of_norm
# n = x + a
dx = dn
da = dn
# a = attention(x1, ...)
dx1, *dattn = attend_backward(da, attn)
# x1 = layernorm(x, g1, b1): the second use of x
dx_of_norm, dg1, db1 = ops.layernorm_backward(dx1, norm1)
dx = dx + dx_of_norm


# %% [markdown]
# ## 4. Collapse: the two blocks side by side
#
# Copies need no names. Here are both blocks; LN', MLP', Attn' are backward passes:
#
#     GPT-1, post-LN                            GPT-2, pre-LN
#     n   = LN1(x + Attn(x))                    n   = x + Attn(LN1(x))
#     out = LN2(n + MLP(n))                     out = n + MLP(LN2(n))
#
#     dn  = LN2'(dout)                          dn  = dout + LN2'(MLP'(dout))
#     dn  = dn + MLP'(dn)                       dx  = dn + LN1'(Attn'(dn))
#     dx  = LN1'(dn)
#     dx  = dx + Attn'(dx)
#
#     dx  = (1 + Attn') LN1' (1 + MLP') LN2' dout     dx  = (1 + LN1' Attn') (1 + LN2' MLP') dout
#
# The last line is the lesson. Left: brackets, and *between* them LayerNorms that every road must pass, two in each
# block. Right: brackets only. Multiply them out, and one of the four roads is plain `dout`. Through 48 blocks it is
# still plain `dout`: what the loss tells the top is told to the bottom, word by word, whatever happens on the side.

# %%
def pre_forward(x, g1, b1, w_qkv, b_qkv, w_o, b_o, g2, b2, w_fc, b_fc, w_proj, b_proj, *, n_head):
    """GPT-2's block: x (B,T,C) and 12 parameters -> out (B,T,C)"""
    a, c1 = ops.layernorm_forward(x, g1, b1)
    a, c2 = attend_forward(a, w_qkv, b_qkv, w_o, b_o, n_head)
    n = x + a
    m, c3 = ops.layernorm_forward(n, g2, b2)
    m, c4 = ops.mlp_forward(m, w_fc, b_fc, w_proj, b_proj)
    return n + m, (c1, c2, c3, c4)


def pre_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4 = cache
    # out = n + MLP(LN2(n))
    dm, *dmlp = ops.mlp_backward(dout, c4)
    dm, *dln_2 = ops.layernorm_backward(dm, c3)
    dn = dout + dm
    # n = x + Attn(LN1(x))
    da, *dattn = attend_backward(dn, c2)
    da, *dln_1 = ops.layernorm_backward(da, c1)
    return dn + da, *dln_1, *dattn, *dln_2, *dmlp


def post_forward(x, g1, b1, w_qkv, b_qkv, w_o, b_o, g2, b2, w_fc, b_fc, w_proj, b_proj, *, n_head):
    """GPT-1's block (lesson 07): x (B,T,C) and 12 parameters -> out (B,T,C)"""
    a, c1 = attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head)
    n, c2 = ops.layernorm_forward(x + a, g1, b1)
    m, c3 = ops.mlp_forward(n, w_fc, b_fc, w_proj, b_proj)
    out, c4 = ops.layernorm_forward(n + m, g2, b2)
    return out, (c1, c2, c3, c4)


def post_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4 = cache
    # out = LN2(n + MLP(n))
    dn, *dln_2 = ops.layernorm_backward(dout, c4)
    dm, *dmlp = ops.mlp_backward(dn, c3)
    # n = LN1(x + Attn(x))
    dx, *dln_1 = ops.layernorm_backward(dn + dm, c2)
    da, *dattn = attend_backward(dx, c1)
    return dx + da, *dln_1, *dattn, *dln_2, *dmlp


BLOCKS = {"post-LN": (post_forward, post_backward), "pre-LN": (pre_forward, pre_backward)}

short_out, cache = pre_forward(x, *weights, n_head=nh)
assert np.array_equal(short_out, out)
for mine, line in zip(pre_backward(dout, cache), (dx, dg1, db1, *dattn, dg2, db2, *dmlp), strict=True):
    assert np.array_equal(mine, line)

# %% [markdown]
# Silence the sub-layers, and the difference is bare: set both `c_proj` to zero, so that nothing is written.

# %%
silent = [np.zeros_like(w) if i in (4, 5, 10, 11) else w for i, w in enumerate(weights)]
for kind, (forward, backward) in BLOCKS.items():
    silent_out, cache = forward(x, *silent, n_head=nh)
    silent_dx, *_ = backward(dout, cache)
    apart = [np.linalg.norm(u - v) / np.linalg.norm(v) for u, v in ((silent_out, x), (silent_dx, dout))]
    print(f"  a silent {kind:7} block: out differs from x by {apart[0]:.2f}, dx from dout by {apart[1]:.2f}")
    assert max(apart) == 0 if kind == "pre-LN" else min(apart) > 0.1

# %% [markdown]
# A silent pre-LN block is *nothing*: a wire. A silent post-LN block still normalises, twice, and takes two directions
# out of every gradient that passes (lesson 06).
#
# ## 5. Check

# %%
names = ("x", "ln_1.g", "ln_1.b", "c_attn.w", "c_attn.b", "c_proj.w", "c_proj.b")
names += ("ln_2.g", "ln_2.b", "c_fc.w", "c_fc.b", "mlp.w", "mlp.b")
results = gradcheck.check(pre_forward, pre_backward, (x, *weights), {"n_head": nh}, names)
for result in results:
    print(f"  {result.name:10} {result.error:.0e} {result.word}")
worst = max(result.error for result in results)
assert worst < 1e-8
assert max(r.error for r in gradcheck.check(post_forward, post_backward, (x, *weights), {"n_head": nh}, names)) < 1e-8

# %% [markdown]
# **The trap: a fresh block.** Somebody has read "the stream is never touched" a little too fast, and writes a block
# whose backward returns `dx = dout`, and nothing from the sub-layers. How wrong is that? It depends on where you look:

# %%
tiny = [w.astype(np.float64) for w in new_block(np.random.default_rng(1), c, 0.02, n_layer=12)]
lazy = {}
for where, w in ("fresh, as one of 12 blocks", tiny), ("moved off its start", weights):
    true_dx, *_ = pre_backward(dout, pre_forward(x, *w, n_head=nh)[1])
    lazy[where] = np.abs(dout - true_dx).max() / np.abs(true_dx).max()
    print(f"  dx = dout, {where:27} relative error {lazy[where]:.0e}")
assert lazy["fresh, as one of 12 blocks"] < 0.01 and lazy["moved off its start"] > 0.1

# %% [markdown]
# At its start a pre-LN block *is* nearly a wire, the more so the deeper the model, because of 1/sqrt(2L). A test with
# fresh weights and a tolerance of one percent is passed by a backward that leaves out everything. Check in float64,
# with a small tolerance, and move the parameters first.
#
# ## 6. Why the norm moved
#
# ### Two models, one switch
#
# Now whole models, small ones: width 32, the little text of lesson 09 letter by letter, Adam **without warm-up**.
# Weights are drawn from N(0, 0.02 sqrt(768/32)), so that a product stretches its input as much as at width 768
# (lesson 07). `kind` switches between the blocks; pre-LN has its final norm, and its scale unless we take it away.

# %%
from minigpt.nn import Parameter
from minigpt.nn.optim import AdamW

TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the red kite in the tree. "
    "I can not reach it, says Mina. Tom has a long stick. Tom takes the stick to the tree and the kite comes down. "
    "Thank you, Tom, says Mina. Now Tom and Mina run to the hill, and the red kite is high in the wind. "
    "The next day the wind is gone. Mina and Tom sit under the old tree and look at the sky. We can wait, says Tom. "
    "They wait and wait. A small bird comes and sits on the kite. Then the wind is back, and the bird and the kite are "
    "high over the hill. Look, says Mina, the bird can fly and the kite can fly. One day we will fly too, says Tom. "
)
letters = sorted(set(TEXT))
text_ids = np.array([letters.index(letter) for letter in TEXT])
frequency = np.bincount(text_ids) / len(text_ids)
only_letters = -(frequency * np.log(frequency)).sum()
V, T, B, C, NH = len(letters), 16, 8, 32, 4
STD = 0.02 * math.sqrt(768 / C)
DEPTHS = (2, 4, 8, 12, 24)


def batch(step):
    starts = np.random.default_rng([7, step]).integers(0, len(text_ids) - T, size=(B, 1))
    window = text_ids[starts + np.arange(T + 1)]
    return window[:, :-1], window[:, 1:]


def new_model(kind, n_layer, scaled=None, seed=0):
    """tokens, positions, 12 arrays for each block; pre-LN: the final gain and bias."""
    rng, scaled = np.random.default_rng(seed), kind == "pre-LN" if scaled is None else scaled
    w = [(STD * rng.standard_normal((rows, C))).astype(np.float32) for rows in (V, T)]
    for _ in range(n_layer):
        w += new_block(rng, C, STD, n_layer if scaled else None)
    return w + [np.ones(C, np.float32), np.zeros(C, np.float32)] * (kind == "pre-LN")


def run(w, x, y, kind, eps=1e-5):
    """The loss, its gradients, the stream below each block and at the top, and the gradient at the same places."""
    forward, backward = BLOCKS[kind]
    h, table = ops.embedding_forward(w[0], x)
    stream, caches = [h + w[1]], []
    for i in range(2, len(w) - 2, 12):
        h, cache = forward(stream[-1], *w[i : i + 12], n_head=NH)
        stream.append(h)
        caches.append(cache)
    if kind == "pre-LN":
        h, norm = ops.layernorm_forward(h, *w[-2:])
    loss, head = ops.linear_cross_entropy_forward(h, w[0], y)
    dh, dtable, _ = ops.linear_cross_entropy_backward(1.0, head)
    gradients = []
    if kind == "pre-LN":
        dh, *gradients = ops.layernorm_backward(dh, norm)
    dstream = [dh]
    for cache in reversed(caches):
        dh, *of_block = backward(dh, cache)
        dstream.append(dh)
        gradients = of_block + gradients
    gradients = [dtable + ops.embedding_backward(dh, table), dh.sum(axis=0), *gradients]
    return float(loss), gradients, stream, dstream[::-1]


def train(kind, n_layer, lr, steps, scaled=None, until=-math.inf):
    """Adam at a constant rate, without warm-up: the weights, and the mean loss of the last 8 steps at every step."""
    w = [Parameter(array) for array in new_model(kind, n_layer, scaled)]
    optimizer, losses, means = AdamW(((str(i), p) for i, p in enumerate(w)), weight_decay=0.0), [], []
    for step in range(1, steps + 1):
        loss, gradients, _, _ = run([p.data for p in w], *batch(step), kind)
        for p, gradient in zip(w, gradients, strict=True):
            p.grad = gradient
        optimizer.step(lr)
        losses.append(loss)
        means.append(np.mean(losses[-8:]) if step >= 8 else math.inf)
        if means[-1] < until:
            break
    return [p.data for p in w], np.array(means)


def norms(w, kind):
    """The gradient of each block's 12 arrays, as one length; and that of the stream, bottom and top."""
    _, gradients, stream, dstream = run(w, *batch(0), kind)
    blocks = [gradients[i : i + 12] for i in range(2, len(w) - 2, 12)]
    of_blocks = [math.sqrt(sum(float((g * g).sum()) for g in block)) for block in blocks]
    return np.array(of_blocks), np.linalg.norm(dstream[1]), np.linalg.norm(dstream[-1]), stream[-1]


# %% [markdown]
# ### At initialisation
#
# The gradient norm of every block, before the first step: the lowest and the highest block. And the gradient on the
# stream itself, above the first block, as a share of that at the top.

# %%
def differences(h):
    """The share of h (B,T,C) that is not the same at all positions (lesson 07's chorus has none)."""
    h = h.astype(np.float64) - h.mean(axis=-1, keepdims=True)
    return float(((h - h.mean(axis=(0, 1))) ** 2).sum() / (h**2).sum())


def table(steps, lr):
    found = {}
    for kind in BLOCKS:
        for n_layer in DEPTHS:
            w = train(kind, n_layer, lr, steps)[0] if steps else new_model(kind, n_layer)
            of_blocks, bottom, top, h = norms(w, kind)
            found[kind, n_layer] = of_blocks, bottom / top, differences(h)
            numbers = (of_blocks[0], of_blocks[-1], bottom / top, differences(h))
            print(f"  {kind:7} {n_layer:3} blocks", *(f"{number:10.2g}" for number in numbers))
    return found


print("at initialisation     block 1       last   stream  differences between positions")
start = table(0, 0)
for n_layer in DEPTHS:
    assert 0.7 < start["post-LN", n_layer][1] < 1.4 and 0.7 < start["pre-LN", n_layer][1] < 3
    assert all(0.2 < start[kind, n_layer][0].min() and start[kind, n_layer][0].max() < 4 for kind in BLOCKS)

# %% [markdown]
# **Here is the surprise: nothing is wrong with post-LN.** Its gradient reaches the bottom as it left the top, at every
# depth (column "stream": about 1); pre-LN's even doubles on the way. The reason that one often hears, "post-LN's
# gradient vanishes", is not true of these fresh weights. And Adam would not mind: it divides sizes out (lesson 09).
#
# ### Ten steps later
#
# The same table after ten steps of Adam at the rate 2^-7, about 0.008.

# %%
RATE = 2**-7
print("after ten steps       block 1       last   stream  differences between positions")
later = table(10, RATE)
assert later["post-LN", 24][1] < 1e-6 and all(later["pre-LN", n_layer][1] > 0.5 for n_layer in DEPTHS)
assert later["post-LN", 24][2] < 1e-6 and later["pre-LN", 24][2] > 1e-5

# %% [markdown]
# **Now it has vanished**, in the model of 24 blocks by a factor of 10^11: not at birth, but as soon as it learns. Both
# kinds have heard the same news, "some letters are frequent", and both have answered with the chorus: at every
# position the same vector is added, in every block. What differs is what that does to all the rest.
#
# **Post-LN multiplies.** Each sum n + m is divided by its size s. Let the common vector be as large as the stream:
# then s is sqrt(2), and everything else, forward and backward, is divided by it. And again in the next norm. We can
# read s in the caches: `rstd` is 1/s.

# %%
def sizes(w):
    """Of a post-LN model: the mean size s of the sum under each LayerNorm above the first block, in order."""
    h, found = w[0][batch(0)[0]] + w[1], []
    for i in range(2, len(w), 12):
        h, (_, c2, _, c4) = post_forward(h, *w[i : i + 12], n_head=NH)
        found += [float((1 / c.rstd).mean()) for c in (c2, c4)]
    return np.array(found[2:])


for when, steps in ("at initialisation", 0), ("after ten steps", 10):
    s = sizes(train("post-LN", 24, RATE, steps)[0])
    shrink, measured = 1 / s.prod(), (later if steps else start)["post-LN", 24][1]
    print(f"  {when:18} s is {np.exp(np.log(s).mean()):.2f}, 46 times: {shrink:.0e}   measured gradient {measured:.0e}")
assert shrink < 1e-8 and measured < 1e-6 and 0 < math.log10(measured / shrink) < 3

# %% [markdown]
# The pencil's number is 1.9^-46; the sub-layers give a tenth back at each of the 46. What one block loses is harmless.
# It is the *product* that kills, and it takes the forward signal with it (last column of the table: nothing is left
# that differs between positions but rounding), so there is nothing to learn from either.
#
# **Pre-LN adds.** There the common vectors pile up on the stream, next to what was there. The stream grows, and each
# reader divides by its size *once*: the differences are quieter by one division, not by 46. And the road `dn = dout +
# ...` has no division at all. So pre-LN catches the same illness, and recovers:

# %%
pairs = {(kind, scaled): train(kind, 12, RATE, 60, scaled)[1] for kind in BLOCKS for scaled in (False, True)}
print("12 blocks, 60 steps at that rate: loss     c_proj as drawn    scaled by 1/sqrt(2L)")
for kind in BLOCKS:
    print(f"  {kind:39} {pairs[kind, False][-1]:11.2f} {pairs[kind, True][-1]:20.2f}")
print(f"  knowing only how frequent each letter is {only_letters:10.2f}")
assert all(pairs["post-LN", scaled].min() > only_letters - 0.1 for scaled in (False, True))
assert all(pairs["pre-LN", scaled].min() < only_letters - 0.15 for scaled in (False, True))

# %% [markdown]
# It is the norm's place that decides about life. The scale helps the living, and raises no dead.
#
# ### The largest rate
#
# How fast may they learn? We try the rates 2^-4, 2^-5, ... A model *trains* if within 60 steps its loss, averaged
# over 8 of them, gets below that of the letter frequencies, by 0.1. We walk down only: a deeper model begins at the
# rate that the shallower one could take. (Other seeds move a threshold by a factor of 2, now and then.)

# %%
def largest_rates(kind):
    found, rate = {}, 2**-4
    for n_layer in DEPTHS:
        while train(kind, n_layer, rate, 60, until=only_letters - 0.1)[1][-1] >= only_letters - 0.1:
            rate /= 2
        found[n_layer] = rate
    return found


largest = {kind: largest_rates(kind) for kind in BLOCKS}
print("largest rate that trains", "".join(f"{n_layer:9}" for n_layer in DEPTHS), "blocks")
for kind, rates in largest.items():
    print(f"  {kind:22}", "".join(f"    1/{round(1 / rate):<3}" for rate in rates.values()))
assert largest["post-LN"][2] >= 8 * largest["post-LN"][24] and largest["pre-LN"][2] <= 4 * largest["pre-LN"][24]
assert largest["pre-LN"][24] >= 4 * largest["post-LN"][24] and largest["pre-LN"][24] >= 2 * largest["post-LN"][8]
assert largest["pre-LN"][2] <= 4 * largest["post-LN"][2]

# %% [markdown]
# Post-LN halves its rate when depth doubles: 24 blocks need one 16 times as small as 2 blocks. Pre-LN hardly notices.
# **With 24 blocks, pre-LN trains at 16 times the rate that post-LN survives**, and at four times that of post-LN with
# 8. GPT-1 has 12 blocks and was trained with warm-up; the same sub-layers with the norm in the branch went to 48 (with
# which schedule, the paper does not say).
#
# In fairness: at 2 blocks there is little between them, and "trains" is a low bar: the best rate is lower. What the
# bar finds is where death begins.
#
# ### What the pencil says about the stream
#
# Pre-LN's stream is never divided, so it grows. By how much? Numbers first: its variance, at initialisation.

# %%
def variances(n_layer, scaled, kind="pre-LN"):
    """Mean over four fresh models: the variance of the stream at each height, and by how much each block changes it."""
    var, change = [], []
    for seed in range(4):
        _, _, stream, _ = run(new_model(kind, n_layer, scaled, seed), *batch(seed), kind)
        var.append([float((h * h).mean()) for h in stream])
        change.append([np.linalg.norm(v - u) / np.linalg.norm(u) for u, v in zip(stream, stream[1:], strict=False)])
    return np.mean(var, axis=0), np.mean(change, axis=0)


# the pencil: see below
a_map = C * STD**2
z = math.sqrt(a_map) * np.random.default_rng(0).normal(size=100_000)
by_mlp = float((ops.gelu_forward(z)[0] ** 2).mean()) * 4 * a_map
by_attention = a_map * a_map * (1 / np.arange(1, T + 1)).mean()
growth = {(n_layer, scaled): variances(n_layer, scaled) for n_layer in (2, 6, 24) for scaled in (False, True)}
print("variance of the stream   bottom     top   pencil")
for (n_layer, scaled), (var, _) in growth.items():
    pencil = 2 * STD**2 + n_layer * (by_attention + by_mlp) / (2 * n_layer if scaled else 1)
    how = "1/sqrt(2L)" if scaled else "as drawn"
    print(f"  {n_layer:2} blocks, {how:10}  {var[0]:6.3f}  {var[-1]:6.2f}   {pencil:6.2f}")
    assert abs(var[-1] / pencil - 1) < 0.35

# %% [markdown]
# The pencil needs one rule: a sum of C products of independent numbers with variances u and v has variance C u v.
#
# - The stream begins as a token's row plus a position's row: variance 2 std^2 = 0.02.
# - A reader gets LayerNorm's output: variance 1, *however large the stream is*. One map of width C makes it
#   a = C std^2 = 768 x 0.0004 = 0.31 (ours is the same, by choice of std).
# - Attention of fresh weights is a plain average: over t positions it divides a by t, on average over our 16 by 4.7.
#   The output map multiplies by a: 0.02 is written.
# - The MLP: GELU turns variance 0.31 into a mean square of 0.107, the output map has 4C inputs: 0.107 x 4a = 0.13.
#
# So each block writes 0.15 to the stream, at every height the same, and L blocks write 0.15 L. Scale what is written
# by 1/sqrt(2L), and each block writes 0.15/(2L), all of them together 0.075, **at any depth**. That is the sentence
# of the paper: it "accounts for the accumulation on the residual path". (The measured numbers are a little larger:
# letters repeat, so what is averaged is not independent.)
#
# Something else follows. Block l adds 0.15 to a stream of 0.02 + 0.15 (l - 1), so it changes it by a share of about
# 1/sqrt(l - 1):

# %%
change, of_post = growth[24, False][1], variances(24, False, "post-LN")[1]
print("change of the stream by blocks 2, 6, 12, 24 of 24, as a share of it")
pencil = (np.arange(24) + 2 * STD**2 / (by_attention + by_mlp)) ** -0.5
for name, shares in ("post-LN", of_post), ("pre-LN", change), ("its pencil", pencil):
    print(f"  {name:10}", *(f"{shares[i - 1]:6.2f}" for i in (2, 6, 12, 24)))
assert np.allclose(change[1:], pencil[1:], rtol=0.2) and of_post[23] > 1.5 * change[23]

# %% [markdown]
# Late blocks of a fresh pre-LN model have less to say than early ones: their voice is as loud, but the stream is
# louder. In post-LN, where the stream is brought back to 1, the last block says as much as the second. That is the
# price of a stream that nobody touches.
#
# ### A second surprise: LayerNorm does not see size
#
# Then what does 1/sqrt(2L) do? Every reader of the stream is a LayerNorm, also the last, before the head. If the whole
# stream were 10 times as small, no reader would know. So dividing all that is *written* by sqrt(2L) is the same as
# multiplying all that was there *before*, the embeddings, by sqrt(2L). Exactly the same, if eps goes with it. Take a
# fresh GPT-2 with the scale, and one without it whose embeddings are larger:

# %%
def top(w, k=1.0, eps=1e-5):
    """The normalised stream at the top; k multiplies the embeddings."""
    x, _ = batch(0)
    h = k * (w[0][x] + w[1])
    for i in range(2, len(w) - 2, 12):
        g1, b1, *attention, g2, b2, w_fc, b_fc, w_proj, b_proj = w[i : i + 12]
        h = h + attend_forward(ops.layernorm_forward(h, g1, b1, eps=eps)[0], *attention, NH)[0]
        h = h + ops.mlp_forward(ops.layernorm_forward(h, g2, b2, eps=eps)[0], w_fc, b_fc, w_proj, b_proj)[0]
    return ops.layernorm_forward(h, *w[-2:], eps=eps)[0]


drawn = [array.astype(np.float64) for array in new_model("pre-LN", 24, scaled=False)]
k = math.sqrt(2 * 24)
scaled = [w / k if i >= 2 and (i - 2) % 12 in (4, 10) else w for i, w in enumerate(drawn[:-2])] + drawn[-2:]
apart = np.abs(top(scaled) - top(drawn, k, eps=1e-5 * k * k)).max()
token = {name: v[0] / v[-1] for name, v in (("as drawn", growth[24, False][0]), ("scaled", growth[24, True][0]))}
print(f"weights / sqrt(2L), or embeddings x sqrt(2L): outputs of size 1 differ by {apart:.0e}")
print("share of the stream at the top that is still the embedding:", *(f"{name} {v:.1%}" for name, v in token.items()))
assert apart < 1e-12 and token["scaled"] > 10 * token["as drawn"]

# %% [markdown]
# So with fresh weights the scale has nothing to do with size at all. It decides a *proportion*: how much of the
# stream at the top is still what was put in at the bottom, half of it the word and half its position: without it 0.4 %,
# with it a fifth. (Once training begins there is
# a second effect: Adam's steps are as long for small weights as for large ones, so what is drawn small changes
# sooner.)
#
# ### See it

# %%
from minigpt import plot

plt = plot.plt
figure, ((first, ten), (rates_axes, var_axes)) = plt.subplots(2, 2, figsize=(12, 8))
shade = {n_layer: 0.35 + 0.65 * i / (len(DEPTHS) - 1) for i, n_layer in enumerate(DEPTHS)}
colors = {"post-LN": plt.cm.Reds, "pre-LN": plt.cm.Greens}
for axes, found in (first, start), (ten, later):
    for (kind, n_layer), (of_blocks, _, _) in found.items():
        color = colors[kind](shade[n_layer])
        axes.semilogy(np.arange(1, n_layer + 1), of_blocks, ".-", color=color, label=f"{kind}, {n_layer}")
    axes.set(xlabel="block (1 is the bottom)", ylabel="norm of the gradient of its 12 arrays")
    axes.set_ylim(1e-12, 20)
first.set_title("At initialisation: nothing to see")
first.legend(ncols=2, fontsize="small", loc="lower left")
ten.set(title="After ten steps at rate 1/128: the same models")
for kind, rates in largest.items():
    rates_axes.loglog(DEPTHS, list(rates.values()), "o-", color=colors[kind](0.8), base=2, label=kind)
inverse = [2 * largest["post-LN"][2] / n_layer for n_layer in DEPTHS]
rates_axes.loglog(DEPTHS, inverse, ":", color="gray", base=2, label="proportional to 1 / blocks")
rates_axes.set_xticks(DEPTHS, [str(n_layer) for n_layer in DEPTHS])
rates_axes.set(title="The largest rate that trains without warm-up", xlabel="blocks", ylabel="learning rate")
rates_axes.legend()
for is_scaled, style, label in (False, "-", "as drawn"), (True, "--", "scaled by 1/sqrt(2L)"):
    for n_layer, color in (6, "tab:olive"), (24, "tab:green"):
        var = growth[n_layer, is_scaled][0]
        width = 4 if n_layer == 6 else 1.5
        label_of = f"{n_layer} blocks, {label}"
        var_axes.semilogy(np.arange(n_layer + 1), var, style, color=color, linewidth=width, label=label_of)
var_axes.axhline(1, color="tab:red", linewidth=1, label="post-LN: always 1")
var_axes.set(title="How pre-LN's stream grows", xlabel="after block", ylabel="variance of the stream")
var_axes.legend(fontsize="small")
plot.save(figure, "16_gpt2.png")

# %% [markdown]
# Top left: red and green, of all depths, lie between 0.3 and 4. Top right: the same models after ten steps; each red
# line falls towards the bottom, the deeper the model the further, and the green ones lie flat. Bottom left: what that
# costs: the largest rate falls with depth for the one, and hardly for the other. Bottom right: the dashed lines of both
# depths end at the same height.
#
# ## 7. In the library
#
# `minigpt.models.gpt2.Block` is these four lines, and `GPT2` is what stands in `run`. Same weights, odd sizes,
# float64: loss and every gradient, for both models.

# %%
from minigpt import GPT1, GPT2, GPT1Config, GPT2Config

ARRAYS = [f"{part}.{kind}" for part in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
          for kind in ("weight", "bias")]  # fmt: skip
odd = {"vocab_size": V, "n_positions": T, "n_embd": C, "n_layer": 3, "n_head": NH}
apart, cached, shapes = [], [], []
for kind, model in ("post-LN", GPT1(GPT1Config(**odd))), ("pre-LN", GPT2(GPT2Config(**odd))):
    theirs = dict(model.named_parameters())
    for p in theirs.values():
        p.data = p.data + 0.2 * rng.normal(size=p.data.shape)  # float64 from here on
    outside = [name for name in theirs if not name.startswith("h.")]
    in_our_order = [*outside[:2], *(f"h.{i}.{name}" for i in range(3) for name in ARRAYS), *outside[2:]]
    loss, gradients, _, _ = run([theirs[name].data for name in in_our_order], *batch(0), kind)
    their_loss, cache = model.loss(*batch(0))
    cached.append(ops.nbytes(cache))
    model.loss_backward(cache)
    apart += [abs(loss - their_loss)]
    apart += [np.abs(g - theirs[name].grad).max() for g, name in zip(gradients, in_our_order, strict=True)]
    shapes.append({name: p.data.shape for name, p in theirs.items() if name.startswith("h.")})
more = cached[1] - cached[0]
print(f"two losses and {len(apart) - 2} gradients: ours and the library's differ by at most {max(apart):.0e}")
print(f"a backward needs {cached[0]:,} bytes of GPT-1 and {cached[1]:,} of GPT-2: {more:,} for the final norm")
assert max(apart) < 1e-10 and len(apart) == 2 + 38 + 40
assert more == 8 * (B * T * C + B * T + C)  # its x_hat, rstd and gain, and nothing for the move
assert shapes[0] == shapes[1]

# %% [markdown]
# The last line is a warning. The blocks of both models have arrays of the same names and shapes: nothing in a file of
# weights says where the norm stands. Loaded into the other model's blocks they fit, and compute something else. That
# is why `config.json` names its `model_type`, and why the library asks for it.
#
# ## 8. Paper and code
#
# - The paper puts the extra norm "after the final self-attention block". OpenAI's code has it after the last block as
#   a whole, its MLP included, and so has everybody.
# - "Residual layers" are not counted in the paper. If each write to the stream is one, N = 2L; that is how it is
#   commonly read, and ours. The released code cannot decide it: it only runs models, and has no such scale. (Its
#   initial standard deviation is 0.02, and 0.01 for positions.)
# - The paper gives no number of steps, no schedule and no constants of the optimiser. The rate was tuned by hand for
#   each size, on 5 % of the text held out.
# - Table 2 says 117M, 345M, 762M and 1542M parameters. OpenAI later said that these were wrong. Where do they come
#   from? Count with GPT-1's vocabulary of 40,478 (our inference):

# %%
print("size      true parameters   with 40,478 tokens   table 2")
for (C_, L_), printed in zip(((768, 12), (1024, 24), (1280, 36), (1600, 48)), (117, 345, 762, 1542), strict=True):
    true, small = (count(tokens, 1024, C_, L_) + 2 * C_ for tokens in (50257, 40478))
    print(f"  {L_} x {C_:<4} {true:16,} {small / 1e6:17.1f} M {printed:9} M")
    assert round(small / 1e6) == printed
assert true == 1_557_611_200

# %% [markdown]
# - Xiong et al. argue from initialisation: there, the gradient of the last block shrinks as 1/sqrt(L) in pre-LN, and
#   does not in post-LN (their theorem 1; weights as drawn, without GPT-2's scale). Ours agree, for the gradient at the
#   top has passed one division by the size of the stream, which grows like sqrt(L). Warm-up is needed, they say,
#   because post-LN's is large; we have seen what a large step then does.

# %%
last = {(kind, n): norms(new_model(kind, n, scaled=False), kind)[0][-1] for kind in BLOCKS for n in DEPTHS}
for kind in BLOCKS:
    print(f"  gradient of the last block, as drawn, {kind:7}", *(f"{last[kind, n]:6.2f}" for n in DEPTHS))
assert last["pre-LN", 24] < 0.6 * last["pre-LN", 2] and last["post-LN", 24] > 0.8 * last["post-LN", 2]

# %% [markdown]
# ## 9. Exercises
#
# 1. `lessons/exercises/16_gpt2.py`: the pre-LN block, backward, from an empty function. Run it: it checks itself.
# 2. `lessons/exercises/16_find_the_bug.py`: a block with one wrong word. Run it: it checks itself.
# 3. Give the post-LN models a warm-up: let the rate rise from 0 over the first 30 of the 60 steps, and make their row
#    of largest rates again. How much depth does warm-up buy?

# %%
print(f"lesson 16: every check is happy (worst relative error {worst:.0e})")
