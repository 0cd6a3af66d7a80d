# %% [markdown]
# # Lesson 17: the released weights, and the key-value cache
#
# You will open a file of weights with ten lines of Python and no library, account for the
# 548,105,171 bytes of GPT-2's file and find fifty million among them that hold no information. You
# will run a GPT-2 on what you opened. Then you will let it write without reading its whole text
# again for each token: the keys and values of the past are kept. You will see why this is allowed,
# count what it saves, measure it, and see where it ends.
#
# Reading: 25 minutes for the core, 90 minutes for all of it. Running: 10 to 30 seconds. Before it:
# lessons 03, 04 (attention), 12 (sampling) and 16 (GPT-2). The deeper parts make two sittings, with
# a pause before section 5.
#
# Papers: Radford et al. 2019 (GPT-2), section 2.3 and table 2, and the code released with it.
# Radford et al. 2018 (GPT-1), equation 2. Su et al. 2021 (RoFormer, arXiv 2104.09864), for a remark
# in section 7.

# %% [markdown]
# ## 1. Why: what is in a file of weights?
#
# Somebody has trained a model and publishes it. *What* is published? Only numbers with names: no
# code, and no order of layers. So the names must be right. Here is the file of the smallest GPT-2,
# `model.safetensors`, as a bar of bytes. (You do not need the file to read this lesson.)

# %% tags=["hide-input"]
from minigpt import plot

PARTS = {"8 bytes: the length of the header": 8, "the header": 14_283,
         "148 parameters": 497_759_232, "12 masks": 50_331_648}
file_figure, bar = plot.plt.subplots(figsize=(10, 2.6))
left = 0
for part, color in (("148 parameters", "tab:blue"), ("12 masks", "tab:red")):
    size = PARTS[part] / 1e6
    bar.barh(0, size, left=left, color=color)
    bar.text(left + size / 2, 0, f"{part}\n{size:.1f} MB", ha="center", va="center", color="white")
    left += size
bar.annotate("header: 0.014 MB", (0, 0.4), (60, 0.65), arrowprops={"arrowstyle": "->"})
bar.set(yticks=[], ylim=(-0.5, 0.9), xlim=(0, 570), xlabel="megabytes")
bar.set_title("The released file of GPT-2 small: 548,105,171 bytes")
plot.save(file_figure, "17_file.png")

# %% [markdown]
# The picture leads to three questions: what is a header, which parameters are there, and what are
# the red masks?
#
# To open such a file by hand we need one. A small GPT-2 with random weights goes into a folder.
# (The weights have a larger spread than usual: then a mistake changes the logits visibly.)

# %%
import json
import math
import tempfile
from pathlib import Path

import numpy as np

from minigpt import GPT2, GPT2Config
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
SIZES = {"vocab_size": 50, "n_positions": 16, "n_embd": 24, "n_layer": 3, "n_head": 4}
V, CONTEXT, C, L, NH = SIZES.values()
model = GPT2(GPT2Config(**SIZES, initializer_range=0.25), seed=1)  # usual: 0.02
noise = np.random.default_rng(0)
for parameter in model.parameters():  # so that no bias is 0 and no gain is 1
    parameter.data = parameter.data + noise.normal(0, 0.1, parameter.data.shape).astype(np.float32)

with tempfile.TemporaryDirectory() as folder:
    model.save(folder)
    files = sorted(path.name for path in Path(folder).iterdir())
    raw = Path(folder, "model.safetensors").read_bytes()
print("in the folder:", ", ".join(files), f"({len(raw):,} bytes of weights)")
assert files == ["config.json", "model.safetensors"], "a model is two files"

# %% [markdown]
# `config.json` holds the sizes, which a person can read. A tokenizer adds `vocab.json` and
# `merges.txt` (lesson 15). The numbers are in `model.safetensors`.

# %% [markdown]
# ## 2. The file, byte for byte
#
# The first eight bytes say how long the header is. The header is JSON text. For each name it gives
# a type, a shape, and the places where the numbers begin and end, counted from the end of the
# header. All the rest is numbers, one tensor after the other, the low byte of each number first.

# %%
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # "<": the low byte first
# NumPy has no bfloat16. We read these as whole numbers of 16 bits; below we say what they mean.


def open_by_hand(raw):
    """The bytes of a safetensors file -> its arrays by name"""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)  # notes of the program that wrote the file
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        numbers = np.frombuffer(raw[begin:end], KINDS[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors


weights = open_by_hand(raw)
named = {name: parameter.data for name, parameter in model.named_parameters()}
print("the first 8 bytes:", raw[:8].hex(" "), "=", int.from_bytes(raw[:8], "little"))
print("then the header:  ", raw[8:70].decode(), "...")
assert weights.keys() == named.keys(), "the names of the model's parameters"
assert all(np.array_equal(weights[name], named[name]) for name in named), "and their numbers"

# %% [markdown]
# That is the whole format. Nothing in it can be *executed*, and this is one of its purposes. The
# older way, Python's pickle, is a program that runs when you open the file.
#
# **The surprise: 50 million bytes are the same triangle of ones, twelve times**, the red part of
# the picture. In the program that converted the weights, the mask that hides the future (lesson 03)
# was a *buffer*: so PyTorch calls an array that is not trained, but is saved with the weights. It
# contains nothing that `np.tri(1024)` does not give. In OpenAI's own release, the file of numbers
# has 497,759,232 bytes: 4 for each parameter, and nothing else.

# %% [markdown] tags=["deeper"]
# ### Names, shapes, and every byte
#
# These are the arrays outside the blocks, and those of the first block:

# %%
for name, tensor in weights.items():
    if not name.startswith("h.") or name.startswith("h.0."):
        print(f"{name:24} {tensor.shape}")
per_block = sum(tensor.size for name, tensor in weights.items() if name.startswith("h.0."))
assert len(weights) == 12 * L + 4, "12 arrays in each block, 4 outside"
assert per_block == 12 * C**2 + 13 * C, "the parameters of a block, as in lesson 08"

# %% [markdown]
# Three conventions of GPT-2's files. Matrices are (in, out), so that `x @ weight` works; most
# PyTorch files store (out, in). Query, key and value lie side by side in one matrix of width 3C.
# And there is no output matrix: the token embedding `wte` is used twice (GPT-1's equation 2).
#
# **The released file.** Its header has 160 entries. We can write down all their names and shapes:

# %%
def released_shapes(layers=12, c=768, vocabulary=50257, context=1024):
    """Name: shape of every tensor in the released file; (1,1,T,T) is a causal mask."""
    shapes = {"wte.weight": (vocabulary, c), "wpe.weight": (context, c)}
    matrices = {"attn.c_attn": (c, 3 * c), "attn.c_proj": (c, c),
                "mlp.c_fc": (c, 4 * c), "mlp.c_proj": (4 * c, c)}
    for i in range(layers):
        shapes[f"h.{i}.attn.bias"] = (1, 1, context, context)
        for name, (n_in, n_out) in matrices.items():
            shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        for name in "ln_1", "ln_2":
            shapes |= {f"h.{i}.{name}.weight": (c,), f"h.{i}.{name}.bias": (c,)}
    return shapes | {"ln_f.weight": (c,), "ln_f.bias": (c,)}


gpt2_shapes = released_shapes()
print("tensor                  shape                     bytes")
n_bytes = {name: 4 * math.prod(shape) for name, shape in gpt2_shapes.items()}
for number, (name, shape) in enumerate(gpt2_shapes.items()):
    if number < 6 or number > 157:
        print(f"{name:22}  {shape!s:18} {n_bytes[name]:12,}")
print(f"{len(gpt2_shapes)} tensors, {sum(n_bytes.values()):,} bytes of numbers")

# %% [markdown]
# (The real file has its tensors in another order; readers must use its offsets and nothing else.)
# We do not derive how the header is written: its length, 14,283, was read in the file. With it, all
# bytes of the picture add up:

# %%
masks = [math.prod(shape) for shape in gpt2_shapes.values() if len(shape) == 4]
learned = [math.prod(shape) for shape in gpt2_shapes.values() if len(shape) < 4]
explained = {"the length of the header": 8, "the header": 14_283,
             f"{len(learned)} parameters, {sum(learned):,} numbers": 4 * sum(learned),
             f"{len(masks)} masks, {sum(masks):,} numbers": 4 * sum(masks)}
for part, size in explained.items():
    print(f"{size:>13,}  {part}")
print(f"{sum(explained.values()):>13,}  bytes in all")
assert sum(learned) == 124_439_808 and len(gpt2_shapes) == 160, "the published sizes"
assert sum(explained.values()) == 548_105_171, "shapes and header explain the file's length"

# %% [markdown]
# A reader leaves the masks out. It must be careful: `h.0.attn.bias` is a mask, but
# `h.0.attn.c_attn.bias` is a parameter. Some files also write `transformer.` in front of each name,
# or store the output matrix once more. We write such a file and open it with the library:

# %%
def write_by_hand(tensors, kind="F32"):
    """Arrays by name -> the bytes of a safetensors file; all of one kind"""
    header, data = {}, b""
    for name, tensor in tensors.items():
        offsets = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": offsets}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


triangle = np.tri(CONTEXT, dtype=np.float32)[None, None]
foreign = {f"transformer.{name}": tensor for name, tensor in weights.items()}
foreign |= {f"transformer.h.{i}.attn.bias": triangle for i in range(L)}
foreign["lm_head.weight"] = weights["wte.weight"]
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "model.safetensors").write_bytes(write_by_hand(foreign))
    Path(folder, "config.json").write_text(json.dumps(model.config.to_dict()), encoding="utf-8")
    again = {name: p.data for name, p in GPT2.load(folder).named_parameters()}
print(f"{len(foreign)} tensors in the file, {len(again)} parameters in the model")
assert all(np.array_equal(again[name], named[name]) for name in named), "the same parameters"

# %% [markdown] tags=["deeper"]
# ### Numbers of 16 bits
#
# Many files store half as many bytes. A floating-point number is stored like 1.25 · 2^3. It has
# three parts, with a few bits each: a sign, an exponent e and a fraction f. They mean
#
# $$
# (-1)^{\text{sign}} \cdot 2^{\,e - \text{bias}} \cdot
# \left(1 + \frac{f}{2^{\text{bits of } f}}\right),
# \qquad \text{bias} = 2^{\text{bits of } e - 1} - 1
# $$
#
# For example, float16 has the bias 15 and 10 bits for f. There 10 = 1.25 · 2^3 has e = 18, which is
# 15 + 3, and f = 256, because 1 + 256/1024 = 1.25.
#
# (For e = 0 the 1 in the bracket is left out and the power is 2^(1 - bias): these are the smallest
# numbers, and zero. For the largest e the value is infinity, or no number, NaN.) The types differ
# in how many bits each part has:
#
# | | bits of the exponent: how large | bits of the fraction: how exact |
# |---|---|---|
# | float32 | 8 | 23 |
# | float16 | 5 | 10 |
# | bfloat16 | 8 | 7 |

# %%
def meaning(bits, e_bits, f_bits):
    """Unsigned numbers -> what they mean as floating-point numbers, in float64"""
    bits = bits.astype(np.int32)
    sign = np.where(bits >> (e_bits + f_bits), -1, 1)  # the first bit
    e = (bits >> f_bits) & (2**e_bits - 1)  # the bits in the middle
    fraction = (bits & (2**f_bits - 1)) / 2**f_bits  # the last bits: f / 2^(bits of f)
    bias = 2 ** (e_bits - 1) - 1
    size = np.where(e == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, e - bias))
    special = np.where(fraction == 0, np.inf, np.nan)
    return sign * np.where(e == 2**e_bits - 1, special, size)


every = np.arange(2**16, dtype=np.uint16)  # all patterns of 16 bits
with np.errstate(invalid="ignore"):  # some patterns are no number
    as_float16 = every.view(np.float16).astype(np.float64)
    as_upper_half = (every.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
for kind, mine, right in (("float16", meaning(every, 5, 10), as_float16),
                          ("bfloat16", meaning(every, 8, 7), as_upper_half)):
    finite = mine[np.isfinite(mine)]  # without infinity and NaN
    print(f"{kind:9} largest number {finite.max():.4g}")
    assert np.array_equal(mine, right, equal_nan=True), f"all 65,536 patterns of {kind}"

# %% [markdown]
# The second comparison shows a useful fact: **bfloat16 is the upper half of a float32.** It has the
# same exponent, so the same range; 16 bits of the fraction are missing. To widen it, shift it by 16
# bits. float16 has steps that are 8 times finer, but it ends at 65,504. What does each lose? A
# number can be cut off or rounded to the nearest one; rounding halves the largest error.

# %%
from minigpt.files import checkpoint

values = weights["wte.weight"]
upper_half = (values.view(np.uint32) >> 16).astype(np.uint16)  # the rest is cut off, not rounded
with tempfile.TemporaryDirectory() as folder:
    half_file = Path(folder, "half.safetensors")
    half_file.write_bytes(write_by_hand({"wte.weight": upper_half}, "BF16"))
    widened = checkpoint.load_tensors(half_file)[0]["wte.weight"]
bits = values.view(np.uint32)
# To round: add half a step and cut off. A step of the kept part is 0x10000, its half 0x8000. If the
# kept part is even we add 0x7FFF, so that a number in the middle goes to the even one.
half = 0x7FFF + ((bits >> 16) & 1)
rounded_bits = ((bits + half) >> 16) << 16
not_tiny = np.abs(values) > 1e-4  # below 6e-5 float16 has fewer digits
losses = {}
for kind, found, bound in (("bfloat16, cut off", widened, 128),
                           ("bfloat16, rounded", rounded_bits.view(np.float32), 256),
                           ("float16, rounded", values.astype(np.float16), 2048)):
    losses[kind] = (np.abs(found - values) / np.abs(values))[not_tiny].max()
    print(f"largest relative error: {kind:18} {losses[kind]:.5f}  (upper bound 1/{bound})")
    assert 0.5 / bound < losses[kind] <= 1 / bound, f"{kind}: within the bound, and near it"
assert widened.dtype == np.float32, "the library widens"

# %% [markdown]
# ## 3. A model is a dictionary and some lines
#
# Names and numbers, with what lessons 03 to 08 and 16 built, are a model. Here `p` is the
# dictionary that we opened by hand.

# %%
def linear(p, name, x):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def layernorm(p, name, x):
    x = x - x.mean(axis=-1, keepdims=True)
    x_hat = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    return x_hat * p[f"{name}.weight"] + p[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


print("softmax of 1, 2, 3:", softmax(np.array([1.0, 2, 3])).round(4))

# %%
def split(x, heads):
    """x (B,T,C) -> (B,NH,T,D)"""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def join(x):
    """x (B,NH,T,D) -> (B,T,C)"""
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


def attend(q, k, v, causal=True):
    """q (B,NH,T,D), k, v (B,NH,S,D) -> (B,NH,T,D): queries of the last T of S positions"""
    t, s = q.shape[2], k.shape[2]  # the first query is at position s - t: it sees s - t + 1 keys
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(t, s, s - t, dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


print("3 queries, 5 keys: who may see whom")
print(np.tri(3, 5, 5 - 3, dtype=int))

# %%
def gpt2(p, ids, heads=NH, causal=True):
    """ids (B,T) -> logits (B,T,V), and the keys and values (B,NH,T,D) of each layer"""
    x = p["wte.weight"][ids] + p["wpe.weight"][np.arange(ids.shape[1])]
    seen, layers = [], sum(name.endswith("ln_1.bias") for name in p)  # one ln_1 in each block
    for i in range(layers):
        a = layernorm(p, f"h.{i}.ln_1", x)
        qkv = np.split(linear(p, f"h.{i}.attn.c_attn", a), 3, axis=-1)
        q, k, v = (split(part, heads) for part in qkv)
        seen.append((k, v))  # for section 4
        x = x + linear(p, f"h.{i}.attn.c_proj", join(attend(q, k, v, causal)))
        m = layernorm(p, f"h.{i}.ln_2", x)
        x = x + linear(p, f"h.{i}.mlp.c_proj", gelu(linear(p, f"h.{i}.mlp.c_fc", m)))
    return layernorm(p, "ln_f", x) @ p["wte.weight"].T, seen


ids = np.random.default_rng(3).integers(V, size=(2, CONTEXT))
logits, seen = gpt2(weights, ids)
theirs, _ = model.forward(ids, grad=False)
largest = np.abs(theirs).max()
apart = np.abs(logits - theirs).max()
print(f"logits up to {largest:.1f}; ours and the library's differ by {apart:.0e}")
assert apart < 1e-5 * largest, "the dictionary and these lines are a GPT-2"

# %% [markdown] tags=["deeper"]
# ### The trap: a shape that fits
#
# Suppose that the weights came as (out, in) and we forgot to transpose them. A matrix (C,3C) would
# not fit, and we would notice. But `attn.c_proj` is *square*:

# %%
wrong_way = {name: tensor.T if name.endswith("attn.c_proj.weight") else tensor
             for name, tensor in weights.items()}
assert all(wrong_way[name].shape == weights[name].shape for name in weights), "every shape fits"
turned_off = np.abs(gpt2(wrong_way, ids)[0] - logits).max()
print(f"with c_proj transposed: no error, and logits that are wrong by {turned_off:.1f}")
assert turned_off > 1, "and the numbers are wrong"

# %% [markdown]
# A check of shapes cannot find this; only a check of numbers can.

# %% [markdown] tags=["deeper"]
# ### The released weights, and what a token costs
#
# For the real GPT-2 a known answer is published: after the tokens 464 and 3290 (`The dog`), greedy
# decoding continues with these 18 tokens (so says a test of Hugging Face transformers). You can get
# the weights with one command:
#
#     minigpt download gpt2
#
# (548 MB; add `pip install -e ".[hub]"` once). If they are here, the next cell lets them write.

# %%
from minigpt import models
from minigpt.files import hub

KNOWN = [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13, 198, 198,
         464, 3290]


def downloaded():
    """The folder of the released GPT-2 on this machine, or None."""
    where = hub.locate("gpt2")
    return where if where and (where / checkpoint.WEIGHTS).is_file() else None


if downloaded():
    released, words = models.open_both(downloaded())
    written = released.generate([[464, 3290]], len(KNOWN), temperature=0)[0].tolist()
    print(repr(words.decode(written)))
    assert written[2:] == KNOWN, "the published answer"
    first_row = released.head.data[0, :3]
    assert np.allclose(first_row, [-0.1101, -0.0393, 0.0331], atol=1e-4), "the published numbers"
else:
    print("the released GPT-2 is not on this machine yet: minigpt download gpt2")

# %% [markdown]
# Without the file we can still measure what it costs to *run* it: the operations are the same with
# any ordinary weights. So we build the full model with 124 million random weights. We time how it
# reads a prompt of 64 tokens, and then each of eight single tokens.

# %%
import time


def seconds(function, *args, **kwargs):
    """What a call returns, and the seconds it takes."""
    began = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - began


def add_up(model):
    """Reads every weight once."""
    return sum(parameter.data.sum() for parameter in model.parameters())


def products(rows, matrices):
    for matrix in matrices:
        rows @ matrix


print(f"a small model is added up in {1e6 * seconds(add_up, model)[1]:.0f} microseconds")

# %%
full, build_time = seconds(GPT2, GPT2Config(), seed=0)
n_parameters = sum(p.data.size for p in full.parameters())
prompt = np.random.default_rng(4).integers(50257, size=(1, 64))
full_past = full.new_past()  # keeps what section 4 explains
_, read_time = seconds(full.forward, prompt, full_past, grad=False)
token_times = [seconds(full.forward, prompt[:, :1], full_past, grad=False)[1] for _ in range(8)]
memory_time = float(np.median([seconds(add_up, full)[1] for _ in range(5)]))
token_time = float(np.median(token_times))
del full, full_past
print(f"{n_parameters:,} parameters, {4 * n_parameters / 1e6:.0f} MB, built in {build_time:.1f} s")
print(f"a prompt of 64 tokens: {1000 * read_time:.0f} ms")
print(f"one token more:        {1000 * token_time:.0f} ms")
print(f"to add up all weights: {1000 * memory_time:.0f} ms")
assert n_parameters == 124_439_808, "the full size"

# %% [markdown]
# Compare the last two rows: to write one token takes about as long as to touch every weight once,
# or a few times as long. (Nothing is asserted about a clock: other programs change what it shows.)
# Is it the reading that takes the time, or the arithmetic? Let us change the reading alone.
# Multiply by 1,296 matrices, with as many weights as GPT-2's blocks. Then multiply as often by one
# of them, which is small enough to stay in the processor's own memory:

# %%
matrices = np.ones((1296, 256, 256), np.float32)
assert matrices.size == 12 * 12 * 768**2, "as many weights as in the blocks"
print("rows   another matrix each time   always the same matrix")
for n_rows in (1, 8):  # one text, or eight at once
    rows, measured = np.ones((n_rows, 256), np.float32), []
    for chosen in (list(matrices), [matrices[0]] * len(matrices)):
        measured.append(np.median([seconds(products, rows, chosen)[1] for _ in range(5)]))
    print(f"{n_rows:4} {1000 * measured[0]:22.0f} ms {1000 * measured[1]:21.0f} ms")
del matrices, chosen

# %% [markdown]
# Compare the two numbers of a line: the calls and the arithmetic are the same, only the reading
# differs.
#
# - *One row.* On our machine it takes several times as long if each product needs another matrix.
#   So most of this time is the reading of weights. A token needs as many weights and one row of
#   numbers, so we suppose the same of a token.
# - *Eight rows.* There is eight times as much arithmetic, and as much reading. On our machine the
#   two numbers now differ less, by a factor of 1.4 to 2.2.
#
# Now compare the two lines in the column `another matrix each time`. Eight rows take about twice as
# long as one, not eight times as long: a matrix is read once for all eight. So it pays to write
# eight texts at the same time.
#
# How can the model write a token *without reading the prompt again*?

# %% [markdown]
# ## 4. One head, token by token
#
# To write a token, a model reads all tokens before it. Then the text is one token longer, and it
# reads again. What is new in the second reading? Look at one head. We give it 6 vectors, then 7.
#
# **Guess:** when the 7th vector comes, what changes in the first 6 rows: outputs, keys, values?

# %%
D = 5
head_weights = np.random.default_rng(5)
w_q, w_k, w_v = head_weights.normal(size=(3, C, D)) / math.sqrt(C)
x = head_weights.normal(size=(7, C))


def head(x):
    """x (T,C) -> out (T,D), k (T,D), v (T,D)"""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return attend(q[None, None], k[None, None], v[None, None])[0, 0], k, v


six, seven = head(x[:6]), head(x)
print("array    change of its first 6 rows when a 7th vector comes")
for name, old, new in zip(("out", "keys", "values"), six, seven, strict=True):
    print(f"{name:8} {np.abs(new[:6] - old).max():.0e}")
    assert np.allclose(new[:6], old, rtol=0, atol=1e-14), "the first six rows stay as they are"

# %% [markdown] tags=["answer"]
# Nothing. One thinks of the outputs, because attention mixes all rows. But a row reads only itself
# and the rows before it. The first six keys, values *and outputs* are what they were.

# %% [markdown]
# Only one row is new. It needs its own query, key and value, and the keys and values of the first
# six rows. So we keep keys and values, and compute one row at a time.
#
# **Your turn:** the 7th row of the output, from one query and the keys and values of all seven
# rows. `softmax` is in section 3.

# %%
from minigpt.learn import gap


def your_row(q, k, v):
    return ...  # q (D,), k (7,D), v (7,D) -> (D,)


gap.judge(your_row, x[6] @ w_q, seven[1], seven[2], expected=seven[0][6])

# %% [markdown] tags=["answer"]
# `softmax(k @ q / math.sqrt(len(q))) @ v`: seven scores, seven shares, one mixture of seven values.
# No mask is needed: none of the seven keys comes after row 7.

# %%
def token_by_token(x):
    """x (T,C) -> out (T,D), one row at a time"""
    k_past, v_past = np.empty((0, D)), np.empty((0, D))
    rows = []
    for new in x:  # (C,)
        q = new @ w_q  # (D,)  of this position only; it is not kept
        k_past = np.vstack([k_past, new @ w_k])  # (S,D)  the keys so far, and one more
        v_past = np.vstack([v_past, new @ w_v])  # (S,D)
        p = softmax(k_past @ q / math.sqrt(D))  # (S,)  no mask is needed: all keys are past
        rows.append(p @ v_past)  # (D,)
    return np.array(rows)


print("largest difference from one reading:", f"{np.abs(token_by_token(x) - seven[0]).max():.0e}")
assert np.allclose(token_by_token(x), seven[0], rtol=0, atol=1e-14), "the same outputs"

# %% [markdown]
# **This is the key-value cache.** Keys and values are kept because later queries need them. Queries
# are not kept: each is used once, by its own position. And the mask is gone. It hid the later
# tokens; token by token, there are none yet.
#
# But this was one layer with fixed inputs. In a model the second layer's keys come from the first
# layer's outputs. Are those of the past still the same? Think of the third word of a text. In layer
# 1 it reads words 1 to 3, so its output cannot change when a tenth word comes. Its key in layer 2
# is made from this output. In layer 2 it reads the keys of words 1 to 3, which have not changed,
# and so on through all layers. So it is **causality** that makes the cache possible.

# %% [markdown] tags=["deeper"]
# ### The 7th token, drawn

# %% tags=["hide-input"]
cache_drawing = plot.Diagram(9, 3.6, "The 7th token: one query, six keys and values that were kept")
token = cache_drawing.box(8.2, 1.85, "token 7", "tab:green", width=1.2)
for row, (name, color) in enumerate((("keys", "tab:blue"), ("values", "tab:orange"))):
    height = 2.6 - 1.5 * row
    cache_drawing.text(0.7, height, name, color)
    cache_drawing.grid(3.4, height, [["kept"] * 6], color=color, cell=0.7)
    new_cell = cache_drawing.box(6.2, height, "new", color, width=0.7, height=0.7)
    cache_drawing.arrow(token, new_cell)
cache_drawing.text(3.4, 0.2, "query 7 meets all seven keys; queries 1 to 6 are not needed again")
plot.save(cache_drawing.figure, "17_cache.png")

# %% [markdown] tags=["deeper"]
# ### Without the mask
#
# To test this, take the mask away, as in BERT:

# %%
print("a 10th token comes: how far do the first 9 keys move? The least and the most moved key")
print(f"{'':24}" + "".join(f"layer {i + 1:<14}" for i in range(L)))
for causal in True, False:
    before, after = (gpt2(weights, ids[:, :n], causal=causal)[1] for n in (9, 10))
    moved = [np.linalg.norm(after[i][0][:, :, :9] - before[i][0], axis=-1) for i in range(L)]
    name = "causal" if causal else "everyone sees everyone"
    print(f"{name:24}" + "".join(f"{keys.min():<8.0e}{keys.max():<12.0e}" for keys in moved))
    assert moved[0].max() < 1e-5, "the first layer's keys come from token and position only"
    for keys in moved[1:]:
        right = keys.max() < 1e-4 if causal else keys.min() > 1e-3
        assert right, "if the model is causal all keys stay, else none does"

# %% [markdown]
# Without the mask, only the keys of the first layer stay: each is made from a token and its
# position, and from nothing else. From the second layer on, the new token changes every key, even
# the least changed one. So a model in which every position sees all others cannot keep its keys:
# after the next token all but those of the first layer would be wrong.
#
# (Some models see both ways in one part of the text only, a first part that does not grow. Its keys
# can be kept. The text of the encoder in lesson 32 is such a part.)
#
# There is no backward pass in this lesson. Writing learns nothing; and training needs no cache,
# because there all tokens are known and all positions are computed at once.

# %% [markdown] tags=["deeper"]
# ## 5. The whole model, both ways
#
# `gpt2` with three changes, marked 1 to 3: positions continue where the past ends (`first`, by
# default its length); new keys and values are put behind the past; and the past is returned.

# %%
def gpt2_cached(p, ids, past=None, heads=NH, first=None):
    """ids (B,T) that follow the past -> logits (B,T,V), the past. first: the first id's position"""
    if first is None:
        first = past[0][0].shape[2] if past else 0
    x = p["wte.weight"][ids] + p["wpe.weight"][first + np.arange(ids.shape[1])]  # 1
    new_past, layers = [], sum(name.endswith("ln_1.bias") for name in p)
    for i in range(layers):
        a = layernorm(p, f"h.{i}.ln_1", x)
        qkv = np.split(linear(p, f"h.{i}.attn.c_attn", a), 3, axis=-1)
        q, k, v = (split(part, heads) for part in qkv)
        if past:
            k = np.concatenate([past[i][0], k], axis=2)  # 2
            v = np.concatenate([past[i][1], v], axis=2)
        new_past.append((k, v))  # 3
        x = x + linear(p, f"h.{i}.attn.c_proj", join(attend(q, k, v)))
        m = layernorm(p, f"h.{i}.ln_2", x)
        x = x + linear(p, f"h.{i}.mlp.c_proj", gelu(linear(p, f"h.{i}.mlp.c_fc", m)))
    return layernorm(p, "ln_f", x) @ p["wte.weight"].T, new_past


first_logits, first_past = gpt2_cached(weights, ids[:, :10])
print("after 10 tokens the past of each layer holds keys of shape", first_past[0][0].shape)

# %%
def in_pieces(pieces, **options):
    """Logits of all positions, read in pieces of these lengths."""
    past, parts, at = None, [], 0
    for n in pieces:
        part, past = gpt2_cached(weights, ids[:, at : at + n], past, **options)
        parts.append(part)
        at += n
    return np.concatenate(parts, axis=1)


print("error against one reading   pieces")
for pieces in [1] * CONTEXT, [10, 1, 1, 1, 1, 1, 1], [3, 5, 8], [CONTEXT]:
    error = np.abs(in_pieces(pieces) - logits).max() / np.abs(logits).max()
    print(f"{error:26.0e}   {' '.join(map(str, pieces))}")
    assert error < 1e-5, "however the text is cut, the logits are the same"

# %% [markdown]
# The second row is how a model writes: a prompt of ten tokens, then single ones. The third row is
# the reason why the mask in `attend` is `np.tri(t, s, s - t)`, a triangle that is counted from the
# *bottom right* corner: the last query sees all keys. (For t = 1 nothing is masked, and for t = s
# it is the usual triangle. Exercise 2 is about what lies between.)
#
# **The trap: a wrong cache that looks right.** Let positions start at 0 again with each piece. A
# careless check looks at the first new token only, or whether "the text looks fine":

# %%
restarted = in_pieces([10, 1, 1, 1, 1, 1, 1], first=0)  # each piece begins at position 0
of_prompt = np.abs(restarted - logits)[:, :10].max()
of_rest = np.abs(restarted - logits)[:, 10:].max()
print(f"positions that restart: error {of_prompt:.0e} in the prompt, {of_rest:.1f} after it")
assert of_prompt < 1e-4 and of_rest > 0.5, "right up to the first new token, and wrong after it"

# %% [markdown]
# The first new token is predicted from the prompt. The prompt was read with an empty past, and
# there positions do start at 0: so this token is right, and the error begins behind it. A check
# must compare *every position with the model without a cache*, on random weights, cut in more than
# one way.

# %% [markdown] tags=["deeper"]
# ## 6. What it saves
#
# **Operations.** Count a multiplication and an addition as two. For one token at position S:
#
# - a block uses each of its 12 C² weights once: 24 C²;
# - its query is multiplied with S keys, and all heads together a key has C numbers: 2 S C;
# - its shares are multiplied with S values, of C numbers each: 2 S C;
# - after all L blocks, the output head needs 2 V C.
#
# So the token costs
#
# $$
# \text{with the cache: } L\,(24\,C^2 + 4\,S\,C) + 2\,V\,C
# \qquad
# \text{without: } L\,(24\,C^2 S + 4\,S^2 C) + 2\,V\,C
# $$
#
# (The output head computes the last position only. Scores that the mask hides are computed too.)
# Over T tokens the weights of the blocks alone cost 24 L C² T with the cache and 12 L C² T² without
# it: **once for each token, or once for each pair of tokens.**

# %%
def operations(s, cached, layers=12, c=768, vocabulary=50257):
    """Of the token at position s, in GPT-2 small."""
    positions = 1 if cached else s
    return layers * positions * (24 * c * c + 4 * s * c) + 2 * vocabulary * c


print("GPT-2 small, billions of operations")
print("position   with the cache   without")
for s in 1, 128, 1024:
    print(f"{s:8} {operations(s, True) / 1e9:16.2f} {operations(s, False) / 1e9:9.2f}")
totals = [sum(operations(s, cached) for s in range(1, 1025)) for cached in (True, False)]
ratio = totals[1] / totals[0]
print(f"1 to 1024 {totals[0] / 1e9:15.0f} {totals[1] / 1e9:9.0f}   {ratio:.0f} to 1")
assert 350 < ratio < 400, "1,024 tokens cost about 376 times as much without it"

# %% [markdown]
# **Bytes.** The past is a key and a value of C numbers for each layer and position: 2 · L · C · 4
# bytes · T, for GPT-2 small and T = 1,024: 75.5 million bytes. That is the price. And each new
# token must *read* it, and all the weights besides. With one token at a time, every weight is
# fetched from memory for one multiplication and one addition. So writing one text is probably
# limited by memory more than by arithmetic, as the products of section 3 are.
#
# How large is the past beside the weights of the blocks?
#
# $$
# \frac{2\,L\,C\,T}{12\,L\,C^2} = \frac{T}{6\,C}
# $$

# %%
def bytes_of_past(t, layers=12, c=768):
    return 2 * layers * c * 4 * t


share = bytes_of_past(1024) / (4 * 12 * 12 * 768**2)
print(f"GPT-2 small, T = 1,024: {bytes_of_past(1024) / 1e6:.1f} MB, {share:.0%} of its blocks")
print(f"as large as the blocks at T = 6 C = {6 * 768:,}")
pasts, all_weights = 32 * bytes_of_past(1024), 4 * sum(learned)
print(f"32 texts at once: {pasts / 1e9:.1f} GB of past, {all_weights / 1e9:.1f} GB of parameters")
assert bytes_of_past(1024) == 75_497_472 and math.isclose(share, 1024 / (6 * 768)), "T / (6 C)"
assert 4.5 < pasts / all_weights < 5, "for 32 texts the past is nearly five times as large"

# %% [markdown]
# The number of layers cancels. Within GPT-2's context the past is small beside the weights, so **a
# token at the end of a text costs nearly what one at its beginning costs.** But each text has its
# own past, while all texts share the weights: with 32 texts at once the past is the larger part.
#
# Does a clock agree? We time a model with GPT-2's context and three layers of width 256, one token
# at a time, up to 1,024.

# %%
N, WIDTH, STEP = 1024, 256, 128
timed = GPT2(GPT2Config(vocab_size=512, n_positions=N, n_embd=WIDTH, n_layer=3, n_head=4), seed=0)
long_text = np.random.default_rng(6).integers(512, size=(1, N))
POINTS = np.arange(STEP, N + 1, STEP)


def milliseconds(ids, past=None):
    def one_token():
        return timed.hidden(ids, past, grad=False)[0][:, -1] @ timed.head.data.T

    return 1000 * seconds(one_token)[1]


milliseconds(long_text)  # the first call of anything is slow
without = np.min([[milliseconds(long_text[:, :n]) for n in POINTS] for _ in range(3)], axis=0)
timed_past = timed.new_past()
each = [milliseconds(long_text[:, [n]], timed_past) for n in range(N)]
typical = np.median(np.reshape(each, (-1, STEP)), axis=1)  # of 128 positions
print("position   with the cache   without, in milliseconds")
for point, fast, slow in zip(POINTS, typical, without, strict=True):
    print(f"{point:8} {fast:16.2f} {slow:9.1f}")
counted = [[operations(s, cached, 3, WIDTH, 512) for s in (STEP, N)] for cached in (True, False)]
growth = [last / first for first, last in counted]
print(f"by the formula: {growth[0]:.1f} times as many operations with it, {growth[1]:.1f} without")
assert growth[1] > 8 and growth[0] < 1.6, "without it grows, with it it grows little"

# %%
time_figure, (of_token, of_text) = plot.plt.subplots(1, 2, figsize=(12, 4.6))
of_token.semilogy(POINTS, without, "o-", color="tab:red", label="everything is read again")
of_token.semilogy(POINTS - STEP / 2, typical, "o-", color="tab:blue", label="with the cache")
of_token.set(xlabel="position of the token", ylabel="milliseconds", xlim=(0, N))
of_token.set_title("One token")
of_token.legend()
between = (without + np.append(0, without[:-1])) / 2  # of a token between two points
text_without, text_with = STEP * between.cumsum() / 1000, STEP * typical.cumsum() / 1000
for times, color, style in (text_without, "tab:red", "--"), (text_with, "tab:blue", "-"):
    of_text.plot([0, *POINTS], [0, *times], style, color=color)
    of_text.annotate(f"{times[-1]:.1f} s", (N, times[-1]), (-8, 6), textcoords="offset points",
                     ha="right")
of_text.set(xlabel="tokens written", ylabel="seconds", xlim=(0, N), ylim=(0, None))
of_text.set_title("The whole text so far (dashed: computed)")
plot.save(time_figure, "17_time.png")
by_count = [sum(operations(s, False, 3, WIDTH, 512) for s in range(1, n + 1)) for n in (512, N)]
by_clock, by_formula = text_without[-1] / text_without[3], by_count[1] / by_count[0]
print(f"twice the text, without: {by_clock:.1f} times by clock, {by_formula:.1f} by formula")
assert 4.6 < by_formula < 4.8, "more than twice as long"

# %% [markdown]
# Left, with a logarithmic scale: without the cache later tokens cost more. With it the time grows
# little. This model is narrow: at the end of its text the past is two thirds as large as its
# blocks, T / (6 C) = 1024 / (6 · 256). Right: what a reader waits for. The red curve at the right
# is not measured. For a token between two red points of the left picture we took the mean of both,
# and added these times up. Twice the text costs 4.7 times as much by the formula, and not 4 times,
# because of the term 4 S² C. (A clock is not as exact: in two runs ours said 4.0 and 4.8 times.)

# %% [markdown] tags=["deeper"]
# ## 7. Where it ends: the window slides
#
# GPT-2 has 1,024 positions and no more. To write on, the oldest token is removed and the window
# slides. Then every token moves one position down. Since *positions are part of the input*, all
# keys change.

# %%
longer = np.random.default_rng(7).integers(V, size=(1, CONTEXT + 1))
no_positions = weights | {"wpe.weight": 0 * weights["wpe.weight"]}
print("the window slides by one: how far do the keys of the same tokens move? The least moved key")
print(f"{'':20}" + "".join(f"layer {i + 1:<6}" for i in range(L)))
for name, p in (("absolute positions", weights), ("no positions", no_positions)):
    old, new = (gpt2(p, longer[:, at : at + CONTEXT])[1] for at in (0, 1))
    slid = [np.linalg.norm(old[i][0][:, :, 1:] - new[i][0][:, :, :-1], axis=-1) for i in range(L)]
    print(f"{name:20}" + "".join(f"{keys.min():<12.0e}" for keys in slid))
    if p is no_positions:
        assert slid[0].max() < 1e-4, "without positions all keys of the first layer stay"
    else:
        assert slid[0].min() > 0.01, "with positions each of them changes"
    assert min(keys.min() for keys in slid[1:]) > 0.01, "every key of higher layers changes in both"

# %% [markdown]
# Nothing of the past can be kept. From here on each token costs a whole window again: the right end
# of the red line in the left picture.
#
# Now the row without positions. The keys of the first layer stay, but those of the second layer
# *still* change. Why? They are made from the outputs of the first layer, and these outputs had read
# the token that is now removed. **Keys contain what was read before.** So there are two ways to go
# on, and they do not give the same:
#
# - The window is read afresh. Then nothing in it has ever seen the removed token.
# - The oldest entry of the cache is dropped, and all others are kept. This needs relative positions
#   (Su et al. 2021 rotate keys and queries by an angle). The other keys still contain what they
#   read in the removed token.
#
# (OpenAI's code does not meet the problem: it stops at 1,024 tokens.)

# %% [markdown] tags=["deeper"]
# ## 8. In the library
#
# `nn.Past` is the past of one attention. It does not concatenate, because a new array for each
# token would copy all that was kept. It allocates room for all positions once, and writes new keys
# and values behind the others:
#
#     # minigpt/nn/attention.py
#     self.k[:, :, start:end] = k
#     self.v[:, :, start:end] = v
#     self.length = end
#
# `model.new_past()` gives one for each layer; `hidden` and `forward` read and fill it.

# %%
library_past = model.new_past()
read_in_fours = [model.forward(ids[:, at : at + 4], library_past, grad=False)[0]
                 for at in range(0, CONTEXT, 4)]
off = np.abs(np.concatenate(read_in_fours, axis=1) - logits).max()
kept_bytes = sum(layer.k.nbytes + layer.v.nbytes for layer in library_past)
print(f"read in pieces of 4: logits differ by {off:.0e}; the past holds {kept_bytes:,} bytes")
assert off < 1e-5 * np.abs(logits).max(), "the library's cache is right"
assert kept_bytes == 2 * bytes_of_past(CONTEXT, L, C), "two texts"
for (k, v), layer in zip(seen, library_past, strict=True):
    assert np.allclose(layer.k, k, atol=1e-4) and np.allclose(layer.v, v, atol=1e-4), "our keys"

# %% [markdown]
# `model.stream` and `model.generate` use it until the window slides; then they read the window
# again. The same seed gives the same tokens with and without the cache, also beyond the context,
# and for prompts of different lengths. (Short prompts are padded at the left, because the next
# token must be at the right end of each row. A mask hides the padding, and positions are counted
# from the first real token. So a padded text is continued as it would be alone.)

# %%
prompts = [[7, 3, 9, 4, 4], [11], [5, 2, 8]]
with_cache = model.generate(prompts, CONTEXT + 6, seed=5)
reading_again = model.generate(prompts, CONTEXT + 6, seed=5, cache=False)
greedy = model.generate(prompts, CONTEXT + 6, temperature=0)
for row, again_row in zip(with_cache, reading_again, strict=True):
    print(len(row), "tokens:", *row[:16], "...")
    assert np.array_equal(row, again_row), "the same tokens, with the cache and without"
for prompt, row in zip(prompts, greedy, strict=True):
    alone = model.generate([prompt], CONTEXT + 6, temperature=0)[0]
    assert np.array_equal(row, alone), "a text does not depend on its neighbours, padded or not"

# %% [markdown] tags=["deeper"]
# ## 9. Paper and code
#
# - The GPT-2 paper does not mention a cache. The released code has it, `past`, one array of shape
#   (B, L, 2, NH, T, D): the 2 stands for key and value. It concatenates, and its mask is counted
#   from the bottom right, as ours.
# - That code masks with -1e10, Hugging Face transformers with the smallest number of the type, we
#   with minus infinity.
# - TensorFlow's matrices are stored as (1, in, out), because they were convolutions of width 1
#   (hence the name Conv1D). Hugging Face's file drops the 1. Some of its files have `transformer.`
#   in front of the names and some do not.
# - The released header has 14,283 bytes, so its numbers begin at byte 14,291, which is no multiple
#   of 4. NumPy can read them there, but arrays that are not aligned are refused by some code, so a
#   reader should copy them, as `open_by_hand` does. The library's writer fills the header up with
#   spaces.
# - In many later models several heads share one key and one value (Shazeer 2019, arXiv 1911.02150;
#   Ainslie et al. 2023, arXiv 2305.13245). Where eight heads share them, the past is eight times
#   smaller.

# %%
print("our header:", int.from_bytes(raw[:8], "little"), "bytes; the released one: 14283")
assert int.from_bytes(raw[:8], "little") % 8 == 0 and (8 + 14_283) % 4 == 3, "ours is aligned"

# %% [markdown]
# ## 10. To keep
#
# - A file of weights is a header with names, types and shapes, and then numbers: nothing in it can
#   be executed.
# - When a token comes, the keys and values of the earlier ones stay what they were, because the
#   model is causal: so they are kept, and one query is enough.
# - A wrong cache is right for the first new token: compare every position with the model without a
#   cache.

# %% [markdown]
# ## 11. Exercises
#
# 1. `exercises/17_weights_and_the_cache.py`: read a safetensors file by hand, and write the
#    attention step that reads and extends a past. Run it: it judges itself.
# 2. `exercises/17_find_the_bug.py`: a cache that is right for a prompt and right token by token.
#    Then a long prompt was read in two pieces. Run it: it judges itself.
# 3. On paper: GPT-2 XL has 48 layers of width 1,600. How large is its past at 1,024 positions?
#    For how many texts at once is it as large as the 1,557,611,200 parameters? And why did layers
#    not matter for T / (6 C)?

# %%
print("lesson 17: every check is happy")
