# %% [markdown]
# # Lesson 17: the released weights, and the key-value cache
#
# You will open a file of weights with ten lines of Python and no library, find every byte of GPT-2's 548,105,171 and
# fifty million among them that nobody needs, read 16-bit numbers bit by bit, and run a GPT-2 on what you opened. Then
# you will make it write without reading everything again for each token: keys and values of the past stay as they are.
# You will see why, count what it saves, time it, and see where it ends.
#
# Reading: 35 minutes. Running: 15 seconds. Before it: lessons 03 (attention), 12 (sampling) and 16 (GPT-2).
#
# Papers: Radford et al. 2019 (GPT-2), section 2.3 and table 2, and the code released with it. Radford et al. 2018
# (GPT-1), equation 2. Su et al. 2021 (RoFormer, arXiv 2104.09864), for a remark in section 7.

# %% [markdown]
# ## 1. Why: two questions at the end of a training
#
# Somebody has trained a model and gives it away. *What* does he give away? Numbers with names, and nothing else: no
# code, no order of layers. Names are what you have to get right. And then it is to write, and it writes one token at a
# time. After 1,000 tokens, does it read 1,000 tokens again to write one more?
#
# We begin with numbers. A small GPT-2 of ours, with random weights, goes into a folder:

# %%
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from minigpt import GPT2, GPT2Config, models, open_model
from minigpt.device.threads import set_threads
from minigpt.files import checkpoint, hub

set_threads(1)  # one token at a time is little work: a second thread would only be in the way

SIZES = {"vocab_size": 50, "n_positions": 16, "n_embd": 24, "n_layer": 3, "n_head": 4}
L, C, NH, V, CONTEXT = (SIZES[name] for name in ("n_layer", "n_embd", "n_head", "vocab_size", "n_positions"))
rng = np.random.default_rng(0)
model = GPT2(GPT2Config(**SIZES, initializer_range=0.25), seed=1)  # ten times the usual spread: heads that look around
for parameter in model.parameters():
    parameter.data += rng.normal(0, 0.1, parameter.data.shape).astype(np.float32)  # biases and gains that say something

with tempfile.TemporaryDirectory() as folder:
    model.save(folder)
    files = sorted(path.name for path in Path(folder).iterdir())
    raw = Path(folder, "model.safetensors").read_bytes()
print("in the folder:", ", ".join(files))
assert files == ["config.json", "model.safetensors"]

# %% [markdown]
# `config.json` holds the sizes, the part that a person reads. A tokenizer adds `vocab.json` and `merges.txt` (lesson
# 15). Numbers are in `model.safetensors`.

# %% [markdown]
# ## 2. The file, byte for byte
#
# Eight bytes say how long the header is. The header is JSON: for each name a type, a shape, and where its numbers begin
# and end. All the rest is numbers, one tensor after the other, low byte first.

# %%
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4"}  # NumPy has no bfloat16: see below


def open_by_hand(raw):
    """The bytes of a safetensors file -> its arrays by name"""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)  # {"format": "pt"}: who wrote it
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(raw[begin:end], KINDS[entry["dtype"]]).reshape(entry["shape"])
    return tensors


print("the first bytes:", raw[:8].hex(" "), "and then", raw[8:92].decode(), "...")
weights = open_by_hand(raw)
named = {name: parameter.data for name, parameter in model.named_parameters()}
assert weights.keys() == named.keys() and all(np.array_equal(weights[name], named[name]) for name in named)

# %% [markdown]
# That is the whole format. Nothing in it can be *executed*, and that is its point: the older way, Python's pickle, is a
# program that runs when you open it. Numbers of a stranger you may read; a program of a stranger you should not start.
#
# **Names.** Here is what one block is made of, and what stands around the blocks:

# %%
for name, tensor in weights.items():
    if not name.startswith("h.") or name.startswith("h.0."):
        print(f"   {name:22} {tensor.shape}")
per_block = sum(tensor.size for name, tensor in weights.items() if name.startswith("h.0."))
assert len(weights) == 12 * L + 4 and per_block == 12 * C**2 + 13 * C

# %% [markdown]
# Three habits of these files. Kernels are (in, out), so `x @ weight`; most of PyTorch stores (out, in). Query, key and
# value lie side by side in one kernel of width 3C. And there is no output matrix: the token embedding `wte` is used
# twice ("tied", GPT-1's equation 2).
#
# **548,105,171 bytes.** So large is `model.safetensors` of the smallest GPT-2. We can account for each:

# %%
def released(layers=12, c=768, vocabulary=50257, context=1024):
    """The shapes in the released file; (1,1,T,T) is a causal mask."""
    shapes = {"wte.weight": (vocabulary, c), "wpe.weight": (context, c)}
    for i in range(layers):
        shapes[f"h.{i}.attn.bias"] = (1, 1, context, context)
        for name, n_in, n_out in (
            ("attn.c_attn", c, 3 * c), ("attn.c_proj", c, c), ("mlp.c_fc", c, 4 * c), ("mlp.c_proj", 4 * c, c)
        ):  # fmt: skip
            shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        for name in "ln_1", "ln_2":
            shapes |= {f"h.{i}.{name}.weight": (c,), f"h.{i}.{name}.bias": (c,)}
    return shapes | {"ln_f.weight": (c,), "ln_f.bias": (c,)}


gpt2_shapes = released()
masks = [math.prod(shape) for shape in gpt2_shapes.values() if len(shape) == 4]
learned = [math.prod(shape) for shape in gpt2_shapes.values() if len(shape) < 4]
parts = {
    "the length of the header": 8,
    "the header": 14_283,
    f"{len(learned)} parameters, {sum(learned):,} numbers": 4 * sum(learned),
    f"{len(masks)} masks, {sum(masks):,} numbers": 4 * sum(masks),
}
for part, size in parts.items():
    print(f"   {size:>11,}  {part}")
print(f"   {sum(parts.values()):>11,}")
assert sum(learned) == 124_439_808 and len(gpt2_shapes) == 160 and sum(parts.values()) == 548_105_171

end, header = 0, {"__metadata__": {"format": "pt"}}
for name, shape in gpt2_shapes.items():
    end, begin = end + 4 * math.prod(shape), end
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
assert abs(len(json.dumps(header, separators=(",", ":"))) - 14_283) < 200  # its digits depend on the order of tensors

# %% [markdown]
# **The surprise: 50 million bytes of it are a triangle of ones, twelve times.** The mask that hides the future (lesson
# 03) was registered as a buffer in the program that converted the weights, and buffers are saved. It holds nothing that
# `np.tri(1024)` does not know. In OpenAI's own release the file of numbers has 497,759,232 bytes: 4 for each parameter,
# and nothing else.
#
# So a reader drops them. With care: `h.0.attn.bias` is a mask, `h.0.attn.c_attn.bias` is not. Some files also write
# `transformer.` in front of each name, or store the output matrix again. The library knows all three:

# %%
def write_by_hand(tensors, kind="F32"):
    """Arrays by name -> the bytes of a safetensors file; all of one kind"""
    header, data = {}, b""
    for name, tensor in tensors.items():
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


triangle = np.tri(CONTEXT, dtype=np.float32)[None, None]
foreign = {f"transformer.{name}": tensor for name, tensor in weights.items()}
foreign |= {f"transformer.h.{i}.attn.bias": triangle for i in range(L)} | {"lm_head.weight": weights["wte.weight"]}
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "model.safetensors").write_bytes(write_by_hand(foreign))
    Path(folder, "config.json").write_text(json.dumps(model.config.to_dict()), encoding="utf-8")
    again = dict(GPT2.load(folder).named_parameters())
assert again.keys() == named.keys() and all(np.array_equal(again[name].data, named[name]) for name in named)

# %% [markdown]
# **Numbers of 16 bits.** Many files store half as much. A floating-point number is a sign, an exponent e of some bits
# and a fraction f of some bits, and means
#
#     (-1)^sign * 2^(e - bias) * (1 + f / 2^bits),     bias = 2^(bits of e - 1) - 1
#
# With e = 0 it is (-1)^sign * 2^(1 - bias) * f / 2^bits: small numbers, and zero. With the largest e it is infinity
# (f = 0) or no number. float32 has 8 and 23 bits, float16 has 5 and 10, bfloat16 has 8 and 7.

# %%
def meaning(bits, e_bits, f_bits):
    """Unsigned numbers -> what they mean as floating-point numbers, in float64"""
    bits = bits.astype(np.int32)
    sign, e, f = bits >> e_bits + f_bits, bits >> f_bits & 2**e_bits - 1, (bits & 2**f_bits - 1) / 2**f_bits
    bias = 2 ** (e_bits - 1) - 1
    size = np.where(e == 0, np.ldexp(f, 1 - bias), np.ldexp(1 + f, e - bias))
    return np.where(sign, -1, 1) * np.where(e == 2**e_bits - 1, np.where(f == 0, np.inf, np.nan), size)


every = np.arange(2**16, dtype=np.uint16)  # all patterns that there are
upper_half = (every.astype(np.uint32) << 16).view(np.float32)
with np.errstate(invalid="ignore"):  # some patterns are no number
    assert np.array_equal(meaning(every, 5, 10), every.view(np.float16).astype(np.float64), equal_nan=True)
    assert np.array_equal(meaning(every, 8, 7), upper_half.astype(np.float64), equal_nan=True)
largest = [max(x[np.isfinite(x)]) for x in (meaning(every, 5, 10), meaning(every, 8, 7))]
assert largest[0] == 65_504 and 3.3e38 < largest[1] < 3.5e38

# %% [markdown]
# The second comparison is a gift: **bfloat16 is the upper half of a float32.** The same exponent, so the same range,
# and 16 bits of fraction cut off. Widening it is a shift. float16 has 8 times finer steps, but ends at 65,504. Both can
# be widened without loss; what was lost was lost by whoever stored them:

# %%
values = weights["wte.weight"]
as_bf16 = (values.view(np.uint32) >> 16).astype(np.uint16)  # cut, not rounded
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "half.safetensors")
    path.write_bytes(write_by_hand({"wte.weight": as_bf16}, "BF16"))
    widened = checkpoint.load_tensors(path)[0]["wte.weight"]
assert widened.dtype == np.float32 and np.array_equal(widened, (as_bf16.astype(np.uint32) << 16).view(np.float32))
loss_bf16 = (np.abs(widened - values) / np.abs(values)).max()
loss_f16 = (np.abs(values.astype(np.float16) - values) / np.abs(values))[np.abs(values) > 1e-4].max()
print(f"largest relative loss: bfloat16 {loss_bf16:.5f}, at most 1/128; float16 {loss_f16:.5f}, at most 1/2048")
assert 1 / 256 < loss_bf16 < 1 / 128 and 1 / 4096 < loss_f16 <= 1 / 2048

# %% [markdown]
# ## 3. A model is a dictionary and some lines
#
# Names and numbers, plus what lessons 03 to 08 and 16 built, are a model. `p` is the dictionary that we opened by hand.

# %%
def linear(p, name, x):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def layernorm(p, name, x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def split(x, heads):
    """x (B,T,C) -> (B,NH,T,D)"""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def join(x):
    """x (B,NH,T,D) -> (B,T,C)"""
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(q, k, v, causal=True):
    """q (B,NH,T,D), k, v (B,NH,S,D) -> (B,NH,T,D): the queries are those of the last T of S positions"""
    t, s = q.shape[2], k.shape[2]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(t, s, s - t, dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def gpt2(p, ids, heads=NH, causal=True):
    """ids (B,T) -> logits (B,T,V), and the keys and values (B,NH,T,D) of each layer"""
    x = p["wte.weight"][ids] + p["wpe.weight"][np.arange(ids.shape[1])]
    seen = []
    for i in range(sum(name.endswith("ln_1.bias") for name in p)):
        a = layernorm(p, f"h.{i}.ln_1", x)
        q, k, v = (split(part, heads) for part in np.split(linear(p, f"h.{i}.attn.c_attn", a), 3, axis=-1))
        seen.append((k, v))
        x = x + linear(p, f"h.{i}.attn.c_proj", join(attend(q, k, v, causal)))
        m = layernorm(p, f"h.{i}.ln_2", x)
        x = x + linear(p, f"h.{i}.mlp.c_proj", gelu(linear(p, f"h.{i}.mlp.c_fc", m)))
    return layernorm(p, "ln_f", x) @ p["wte.weight"].T, seen


ids = rng.integers(V, size=(2, CONTEXT))
logits, seen = gpt2(weights, ids)
theirs, _ = model.forward(ids, grad=False)
print(f"by hand and by the library: logits differ by {np.abs(logits - theirs).max():.0e} of {np.abs(theirs).max():.0f}")
assert np.abs(logits - theirs).max() < 1e-5 * np.abs(theirs).max()

# %% [markdown]
# **The trap: a shape that fits.** Suppose the weights came as (out, in), and we forgot to turn them. The kernel (C,3C)
# would not fit, and we would notice. But `attn.c_proj` is *square*:

# %%
turned = weights | {name: tensor.T for name, tensor in weights.items() if name.endswith("attn.c_proj.weight")}
assert all(turned[name].shape == weights[name].shape for name in weights)
off = np.abs(gpt2(turned, ids)[0] - logits).max()
print(f"with c_proj turned: no error, and logits that are off by {off:.1f}")
assert off > 1

# %% [markdown]
# No check of shapes finds it; only known answers do. Here is one, for the real GPT-2. After the tokens 464 and 3290
# (`The dog`) it goes on, greedy, to these 18 (so says a test in Hugging Face transformers). Have you downloaded it
# (`minigpt download gpt2`, 548 MB)? Then we try. If not, the small model of the stories writes (lesson 11), a GPT-1,
# for which nobody has published an answer.

# %%
import story_model

KNOWN = [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13, 198, 198, 464, 3290]
where = hub.locate("gpt2")
if where and (where / checkpoint.WEIGHTS).is_file() and (where / checkpoint.CONFIG).is_file():
    writer, start = open_model(where), [[464, 3290]]
    written = writer.generate(start, len(KNOWN), temperature=0)[0].tolist()
    print(f"the released GPT-2, after {start[0]}: {written[2:]}")
    assert written[2:] == KNOWN
    assert np.allclose(writer.head.data[0, :3], [-0.1101, -0.0393, 0.0331], atol=1e-4)
    if (where / checkpoint.WEIGHTS).stat().st_size == sum(parts.values()):
        with (where / checkpoint.WEIGHTS).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            stored = json.loads(file.read(length))
        stored.pop("__metadata__")
        assert length == 14_283 and {name: tuple(entry["shape"]) for name, entry in stored.items()} == gpt2_shapes
else:
    writer, text = models.open_both(story_model.folder())
    start = [text.encode("once upon a time")]
    written = writer.generate(start, 40, temperature=0)[0].tolist()
    print(f"GPT-2 is not in {where}; the story model writes: {text.decode(written)!r}")
    assert len(written) == len(start[0]) + 40
assert writer.generate(start, len(written) - len(start[0]), temperature=0, cache=False)[0].tolist() == written

# %% [markdown]
# The last line is the other half of this lesson: `cache=False` writes the same, slowly.

# %% [markdown]
# ## 4. One head, token by token
#
# To write a token, the model reads all before it. Then the text is one token longer, and it reads again. What is new in
# the second reading? Look at one head. We feed it 6 vectors, then 7, and compare what it computed.

# %%
D = 5
w_q, w_k, w_v = rng.normal(size=(3, C, D)) / math.sqrt(C)
x = rng.normal(size=(7, C))


def head(x):
    """x (T,C) -> out (T,D), k (T,D), v (T,D)"""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return attend(*(part[None, None] for part in (q, k, v)))[0, 0], k, v


(out6, k6, v6), (out7, k7, v7) = head(x[:6]), head(x)
assert np.allclose(k7[:6], k6) and np.allclose(v7[:6], v6) and np.allclose(out7[:6], out6)

# %% [markdown]
# Nothing. The first six keys, values *and outputs* are what they were. Only one row is new, and it needs one query:

# %%
k_past, v_past = np.empty((0, D)), np.empty((0, D))
steps = []
for new in x:  # (C,)
    q = new @ w_q  # (D,)    of this position alone; nobody will ask for it again
    k_past = np.vstack([k_past, new @ w_k])  # (S,D)  the keys so far, and one more
    v_past = np.vstack([v_past, new @ w_v])  # (S,D)
    p = softmax(k_past @ q / math.sqrt(D))  # (S,)    no mask: whatever is there is past
    steps.append(p @ v_past)  # (D,)
assert np.allclose(steps, out7)

# %% [markdown]
# **This is the key-value cache.** Keys and values are kept, because later positions will ask them. Queries are not: a
# query is used once, by its own position. The mask has gone too. It hid what, token by token, is not there yet.
#
# But this was one layer, fed with fixed vectors. In a model the second layer's keys come from the first layer's
# outputs. Are those of the past still the same? Yes, since an output depends on nothing to its right, and so on, up
# through all layers. It is **causality** that makes a cache possible. Take the mask away, as in BERT, and see:

# %%
print("how much the keys of the first 9 tokens change when a 10th comes, layer by layer:")
for causal in True, False:
    before, after = (gpt2(weights, ids[:, :n], causal=causal)[1] for n in (9, 10))
    moved = [np.abs(after[i][0][:, :, :9] - before[i][0]).max() for i in range(L)]
    print(f"   {'causal' if causal else 'everyone sees everyone':22}", "  ".join(f"{change:.0e}" for change in moved))
    assert moved[0] < 1e-5 and all((change < 1e-4) if causal else (change > 0.1) for change in moved[1:])

# %% [markdown]
# Without the mask only the first layer's keys stay, which are made from a token and its position. From the second layer
# on each newcomer changes everybody. A model that sees both ways can have no such cache.
#
# There is no backward pass in this lesson. Writing learns nothing; and training needs no cache, since there all tokens
# of a text are known and all positions are computed at once.

# %% [markdown]
# ## 5. The whole model, both ways
#
# `gpt2` with three changes: positions go on where the past ends, new keys and values are put behind it, and it is
# handed on.

# %%
def gpt2_cached(p, ids, past=None, heads=NH, restart=False):
    """ids (B,T) that follow the past -> logits (B,T,V), and the past with them. restart: a bug, for below."""
    read = past[0][0].shape[2] if past and not restart else 0
    x = p["wte.weight"][ids] + p["wpe.weight"][read + np.arange(ids.shape[1])]  # 1
    new_past = []
    for i in range(sum(name.endswith("ln_1.bias") for name in p)):
        a = layernorm(p, f"h.{i}.ln_1", x)
        q, k, v = (split(part, heads) for part in np.split(linear(p, f"h.{i}.attn.c_attn", a), 3, axis=-1))
        if past:
            k, v = (np.concatenate([old, new], axis=2) for old, new in zip(past[i], (k, v), strict=True))  # 2
        new_past.append((k, v))  # 3
        x = x + linear(p, f"h.{i}.attn.c_proj", join(attend(q, k, v)))
        m = layernorm(p, f"h.{i}.ln_2", x)
        x = x + linear(p, f"h.{i}.mlp.c_proj", gelu(linear(p, f"h.{i}.mlp.c_fc", m)))
    return layernorm(p, "ln_f", x) @ p["wte.weight"].T, new_past


def in_pieces(pieces, **options):
    """Logits of all positions, read in pieces of these lengths"""
    past, got, at = None, [], 0
    for n in pieces:
        piece, past = gpt2_cached(weights, ids[:, at : at + n], past, **options)
        got.append(piece)
        at += n
    return np.concatenate(got, axis=1)


print("read in pieces, logits differ from one reading by")
for pieces in [1] * CONTEXT, [10, 1, 1, 1, 1, 1, 1], [3, 5, 8], [CONTEXT]:
    off = np.abs(in_pieces(pieces) - logits).max() / np.abs(logits).max()
    print(f"   {off:.0e} for pieces of", *pieces)
    assert off < 1e-5

# %% [markdown]
# One prompt of ten tokens and then single ones: that is how a model writes. The third is why the mask of `attend` is
# counted from the *bottom right* corner, `np.tri(t, s, s - t)`: the last query sees all. (With t = 1 nothing is masked,
# with t = s it is the old triangle. Exercise 2 is about what lies between.)
#
# **The trap: a cache that is wrong and looks right.** Let positions start again at 0 with each piece. A careless check
# looks at the first new token, or whether "the text looks fine":

# %%
wrong = in_pieces([10, 1, 1, 1, 1, 1, 1], restart=True)
first, later = np.abs(wrong - logits)[:, :10].max(), np.abs(wrong - logits)[:, 10:].max()
print(f"positions that restart: the prompt is right ({first:.0e}), then logits are off by {later:.1f}")
assert first < 1e-4 and later > 0.5

# %% [markdown]
# The token after the prompt is always right, whatever is wrong with the cache: the past was empty. So the check is
# *every position, against the model without a cache*, on random weights, cut in more than one way.

# %% [markdown]
# ## 6. What it saves, with pencil
#
# **Operations.** A multiplication and an addition are two. For one token, a block has 12 C² weights, each used once: 24
# C². Its query meets S keys of C numbers in all, and so do the shares and the values: 4 S C. The head needs 2 V C. So
#
#     with the cache, a token at position S:        L (24 C² + 4 S C) + 2 V C
#     without, the same for S positions:            L (24 C² S + 4 S² C) + 2 V C
#
# (The head is for the last position only; scores that the mask hides are computed too, and thrown away.) Over a text of
# T tokens the weights of the blocks alone cost 24 L C² T with the cache, and 12 L C² T² without it: **once for each
# token, or once for each pair of tokens.**

# %%
def operations(s, cached, layers=12, c=768, vocabulary=50257):
    positions = 1 if cached else s
    return layers * positions * (24 * c * c + 4 * s * c) + 2 * vocabulary * c


print("GPT-2 small, operations for the token at position")
for s in 1, 128, 1024:
    print(f"   {s:5}: {operations(s, True) / 1e9:.2f} billion with the cache, {operations(s, False) / 1e9:.2f} without")
totals = [sum(operations(s, cached) for s in range(1, 1025)) for cached in (True, False)]
ratio = totals[1] / totals[0]
print(f"   1,024 tokens: {totals[0] / 1e12:.2f} trillion with it, {totals[1] / 1e12:.0f} without: {ratio:.0f} to 1")
assert operations(1, True) == operations(1, False) and 350 < ratio < 400

# %% [markdown]
# **Bytes.** The past is a key and a value of C numbers, for each layer and position:
#
#     2 * L * C * 4 bytes * T        GPT-2 small, T = 1,024: 75.5 million
#
# That is what you pay. And each token must *read* it, and all the weights besides: with one token at a time every
# weight is fetched from memory to be used for one multiplication and one addition. Fetching four bytes takes longer
# than that, on every machine of today. Writing is not limited by arithmetic; it is limited by memory. Then how much
# does the past weigh beside the weights of the blocks? In closed form:
#
#     2 L C T / (12 L C²) = T / (6 C)

# %%
def bytes_of_past(t, layers=12, c=768):
    return 2 * layers * c * 4 * t


share = bytes_of_past(1024) / (4 * 12 * 12 * 768**2)
print(f"GPT-2 small: past {bytes_of_past(1024) / 1e6:.1f} MB, {share:.0%} of its blocks; as much at T = {6 * 768:,}")
assert bytes_of_past(1024) == 75_497_472 and math.isclose(share, 1024 / (6 * 768))

# %% [markdown]
# The layers cancel. Within GPT-2's context the past is a light bag, and **a token at the end of the text costs nearly
# what one at its beginning costs.** But it is a bag for each text: write 32 at once, and 32 pasts weigh nearly five
# times what the parameters weigh, while the weights are read once for all of them.

# %%
bags, parameters = 32 * bytes_of_past(1024), 4 * sum(learned)
print(f"   32 texts: {bags / 1e9:.1f} GB of past, beside {parameters / 1e9:.1f} GB of parameters")
assert 4.5 < bags / parameters < 5

# %% [markdown]
# Does a clock agree? A model with GPT-2's context, three layers 256 wide, one token at a time up to 1,024. (Its weights
# are random: time does not depend on what numbers say.)

# %%
N, WIDTH, STEP = 1024, 256, 128
timed = GPT2(GPT2Config(vocab_size=512, n_positions=N, n_embd=WIDTH, n_layer=3, n_head=4), seed=0)
long_text = rng.integers(512, size=(1, N))


def milliseconds(ids, past=None):
    began = time.perf_counter()
    h, _ = timed.hidden(ids, past, grad=False)
    h[:, -1] @ timed.head.data.T
    return 1000 * (time.perf_counter() - began)


milliseconds(long_text)  # the first call of anything is slow
POINTS = np.arange(STEP, N + 1, STEP)
without = np.median([[milliseconds(long_text[:, :n]) for n in POINTS] for _ in range(3)], axis=0)
past = timed.new_past()
with_cache = np.reshape([milliseconds(long_text[:, [n]], past) for n in range(N)], (-1, STEP))  # a row ends at a point
typical = np.median(with_cache, axis=1)

print(f"a token near position {N:,}: {typical[-1]:.1f} ms with the cache, {without[-1]:.0f} without")
growth = [times[-1] / times[0] for times in (typical, without)]
print(f"from position {STEP} to {N:,} its time grows by {growth[0]:.1f} with it, by {growth[1]:.0f} without")
assert without[-1] > 1.5 * typical.max() and growth[1] > 3

# %%
from minigpt import plot

figure, (milli, total) = plot.plt.subplots(1, 2, figsize=(11, 4.5))
milli.semilogy(POINTS, without, "o-", color="tab:red", label="everything is read again", markersize=4)
milli.semilogy(POINTS - STEP / 2, typical, "o-", color="tab:blue", label="with the cache", markersize=4)
low, high = np.quantile(with_cache, [0.1, 0.9], axis=1)
milli.fill_between(POINTS - STEP / 2, low, high, color="tab:blue", alpha=0.2)
milli.set(xlabel="position of the token", ylabel="milliseconds for this token", xlim=(0, N))
milli.set_title(f"One more token, in a GPT-2 of 3 layers, {WIDTH} wide")
milli.legend()
between = (without + np.append(0, without[:-1])) / 2  # each block of positions costs what its middle costs
text_without, text_with = STEP * between.cumsum() / 1000, STEP * typical.cumsum() / 1000
total.plot(POINTS, text_without, "o-", color="tab:red", markersize=4)
total.plot(POINTS, text_with, "o-", color="tab:blue", markersize=4)
total.annotate(f"{text_without[-1]:.0f} s", (N, text_without[-1]), (-8, 0), textcoords="offset points", ha="right")
total.annotate(f"{text_with[-1]:.1f} s", (N, text_with[-1]), (-4, 6), textcoords="offset points", ha="right")
total.set(xlabel="tokens written", ylabel="seconds for the text so far (summed)", xlim=(0, N), ylim=(0, None))
total.set_title("The text so far: a parabola, and a line on the floor")
plot.save(figure, "17_weights_and_the_cache.png")

# %% [markdown]
# Left, with a logarithmic scale: read again, each token costs more than the one before. Blue rises gently. At the end
# of its text this narrow model carries a past of T / (6 C) = 1024 / (6 * 256), two thirds of what its blocks weigh;
# GPT-2 would be nearer to level. The band holds eight tokens of ten. Right: what a reader waits for, all tokens so far.

# %% [markdown]
# ## 7. What breaks: the window slides
#
# GPT-2 has 1,024 positions and no more. To write on, the oldest token is forgotten and the window slides. Then each
# token moves one position down, and *positions are part of the input*: all keys change.

# %%
text_on = rng.integers(V, size=(1, CONTEXT + 1))
print("how much the keys of the same tokens change when the window slides by one, layer by layer:")
for what, changes in ("absolute positions", {}), ("no positions", {"wpe.weight": 0 * weights["wpe.weight"]}):
    one, two = (gpt2(weights | changes, text_on[:, at : at + CONTEXT])[1] for at in (0, 1))
    moved = [np.abs(one[i][0][:, :, 1:] - two[i][0][:, :, :-1]).max() for i in range(L)]
    print(f"   {what:18}", "  ".join(f"{change:.0e}" for change in moved))
    assert moved[0] < 1e-4 if changes else moved[0] > 0.1
    assert min(moved[1:]) > 0.05

# %% [markdown]
# Nothing of the past can be kept: from here on each token costs a whole window again, the red end of the picture.
#
# The second row is the subtle half. Take positions out of the model, and the first layer's keys stay. But the second
# layer's *still* change. They were computed from what the first layer saw, and that included the token which is now
# forgotten. **Keys remember.** So models with relative positions (Su et al. 2021 turn keys and queries by an angle) may
# drop the oldest entry and go on; but what they compute is then not what a fresh reading of the window gives: it knows
# more. Fast, often good, and another function.
#
# (OpenAI's code does not meet the question: it stops at 1,024 tokens.)

# %% [markdown]
# ## 8. In the library
#
# `nn.Past` is the past of one attention. It does not concatenate: a new array at each token would copy all that was
# kept, and the copies would cost a parabola again. It takes room for all positions once and writes behind what is
# there. `model.new_past()` gives one for each layer; `hidden` and `forward` read and fill it.

# %%
past = model.new_past()
pieces = [model.forward(ids[:, at : at + 4], past, grad=False)[0] for at in range(0, CONTEXT, 4)]
assert np.abs(np.concatenate(pieces, axis=1) - logits).max() < 1e-5 * np.abs(logits).max()
assert past[0].length == CONTEXT and past[0].k.shape == (2, NH, CONTEXT, C // NH)
assert sum(layer.k.nbytes + layer.v.nbytes for layer in past) == 2 * bytes_of_past(CONTEXT, L, C)  # two texts
for (k, v), layer in zip(seen, past, strict=True):
    assert np.allclose(layer.k, k, atol=1e-4) and np.allclose(layer.v, v, atol=1e-4)

# %% [markdown]
# `model.stream` and `model.generate` use it by themselves, until the window slides; then they read the window again.
# The same seed gives the same tokens both ways, beyond the context too, and for prompts of different lengths. (Those
# are padded at the left; a mask hides the padding, and each row counts positions from its own first token.)

# %%
prompts = [[7, 3, 9, 4, 4], [11], [5, 2, 8]]
fast, slow = (model.generate(prompts, CONTEXT + 6, seed=5, cache=cache) for cache in (True, False))
assert all(np.array_equal(a, b) for a, b in zip(fast, slow, strict=True))
alone = model.generate([prompts[0]], CONTEXT + 6, seed=5)[0]  # row 0 alone draws the same numbers
assert np.array_equal(fast[0], alone) and [len(row) for row in fast] == [5 + 22, 1 + 22, 3 + 22]

# %% [markdown]
# ## 9. Paper and code
#
# - The GPT-2 paper does not mention a cache. The released code has it, `past`, one array of shape (B, L, 2, NH, T, D):
#   the 2 is key and value. It concatenates; its mask is counted from the bottom right, as ours.
# - That code masks with -1e10, Hugging Face transformers with the smallest number of the type, we with -inf.
# - TensorFlow's kernels are stored as (1, in, out), since they were convolutions of width 1 (hence the name Conv1D).
#   Hugging Face's file drops the 1, and `transformer.` is in front of names in some of its files and not in others.
# - The released header has 14,283 bytes, no multiple of 8: its numbers begin at an odd place. Copy them before use, as
#   `open_by_hand` does. Our writer fills the header up with spaces.
# - Many later models share one key and one value among several heads (Shazeer 2019, arXiv 1911.02150; Ainslie et al.
#   2023, arXiv 2305.13245). The bag is then lighter by that factor.

# %%
assert int.from_bytes(raw[:8], "little") % 8 == 0 and (8 + 14_283) % 4 == 3

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/17_weights_and_the_cache.py`: read a safetensors file by hand, and write the attention step that reads
#    and extends a past. Judge it: run it.
# 2. `exercises/17_find_the_bug.py`: a cache that is right for prompts and right token by token. Its author was content.
#    Then somebody read a long prompt in two pieces. Run it.
# 3. With pencil: GPT-2 XL has 48 layers of width 1,600. How large is its past at 1,024 positions? At how many texts at
#    once does it weigh as much as the 1,557,611,200 parameters? And why did layers not matter for T / (6 C)?

# %%
times = f"{without[-1] / typical[-1]:.0f} times faster at position {N:,}"
print(f"lesson 17: every check is happy ({sum(parts.values()):,} bytes explained, {times})")
