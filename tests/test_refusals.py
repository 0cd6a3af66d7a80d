"""Wrong calls of the public face: each is refused in one line that names the argument.

The table is read as a user would type it. A call may be refused by an InputError, or by a TypeError or ValueError that
is raised on purpose; Python's own error for an argument that a function does not have counts too. What reaches NumPy,
or returns as if nothing were wrong, does not.
"""

import inspect
import traceback
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import each

import minigpt
from minigpt import GPT1, GPT2, gradcheck, load_tokenizer, open_model, ops
from minigpt.data.objectives import masked
from minigpt.errors import InputError
from minigpt.models.gpt1 import GPT1Config
from minigpt.models.gpt2 import GPT2Config
from minigpt.models.lstm import LSTM, LSTMConfig
from minigpt.models.sampling import next_tokens
from minigpt.nn import optim, schedules
from minigpt.ops import shapes
from minigpt.ops.cases import case
from minigpt.ops.table import table
from minigpt.tokenizer import CharTokenizer

TYPED = {  # the names that a user has imported
    "GPT1": GPT1, "GPT1Config": GPT1Config, "GPT2": GPT2, "GPT2Config": GPT2Config, "LSTM": LSTM,
    "LSTMConfig": LSTMConfig, "CharTokenizer": CharTokenizer, "masked": masked,
    "gradcheck": gradcheck, "load_tokenizer": load_tokenizer, "minigpt": minigpt,
    "next_tokens": next_tokens, "np": np, "open_model": open_model, "ops": ops, "optim": optim, "schedules": schedules,
}  # fmt: skip
HOME = str(Path(minigpt.__file__).parent)

OPERATIONS = """
ops.linear_forward(x.tolist(), w, b) | x
ops.linear_forward(None, w, b) | x
ops.linear_forward(1.5, w, b) | x
ops.linear_forward("text", w, b) | x
ops.linear_forward(x, None, b) | w
ops.linear_forward(x, w.tolist(), b) | w
ops.linear_forward(x, w.T, b) | w
ops.linear_forward(x, w[0], b) | w
ops.linear_forward(x, w, b[:1]) | b
ops.linear_forward(x, w, b[:2]) | b
ops.linear_forward(x, w, w) | b
ops.linear_forward(x, w, 1.0) | b
ops.linear_forward(x.astype(int), w, b) | x
ops.linear_forward(x > 0, w, b) | x
ops.linear_forward(x.astype(complex), w, b) | x
ops.linear_forward(x.astype(object), w, b) | x
ops.linear_forward(x.astype(np.float32), w, b) | float32
ops.linear_forward(x, w.astype(np.float32), b) | float32
ops.linear_forward(np.matrix(x), w, b) | x
ops.linear_forward(np.ma.array(x), w, b) | x
ops.linear_forward(np.float64(1), w, b) | x
ops.linear_forward(x) | w
ops.linear_forward(x, w, b, 3) | arguments
ops.linear_forward(x, w, bias=b) | bias
ops.linear_backward(x, linear) | dout
ops.linear_backward(None, linear) | dout
ops.linear_backward(dout.tolist(), linear) | dout
ops.linear_backward(1.0, linear) | dout
ops.linear_backward(dout.astype(int), linear) | dout
ops.linear_backward(dout.astype(np.float32), linear) | dout
ops.linear_backward(dout[:1], linear) | dout
ops.linear_backward(dout, None) | cache
ops.linear_backward(dout, layernorm) | cache
ops.linear_backward(dout, (x, w, b)) | cache
ops.linear_backward(dout) | cache
ops.embedding_forward(w, [0, 1]) | ids
ops.embedding_forward(w, ids * 1.0) | ids
ops.embedding_forward(w, ids + 9) | 9
ops.embedding_forward(w, ids - 9) | -9
ops.embedding_forward(w, ids > 0) | ids
ops.embedding_forward(w, None) | ids
ops.embedding_forward(ids, w) | w
ops.embedding_forward(x[0], ids) | w
ops.softmax_forward([1.0, 2.0]) | x
ops.softmax_forward(np.float64(1)) | x
ops.softmax_forward(ids) | x
ops.softmax_forward(None) | x
ops.softmax_forward(np.zeros((2, 0))) | x
ops.softmax_backward(x[:1], softmax) | dp
ops.gelu_forward(ids) | x
ops.gelu_forward(None) | x
ops.gelu_forward([1.0]) | x
ops.gelu_backward(x[0], gelu) | dout
ops.layernorm_forward(x, g[:3], g) | g
ops.layernorm_forward(x, g, g[:1]) | b
ops.layernorm_forward(x, 1.0, g) | g
ops.layernorm_forward(x, g[None], g) | g
ops.layernorm_forward(x, g, g, eps=-1e-5) | eps
ops.layernorm_forward(x, g, g, eps=np.nan) | eps
ops.layernorm_forward(x, g, g, eps="1e-5") | eps
ops.layernorm_forward(x, g, g, eps=None) | eps
ops.layernorm_forward(x, g, g, epsilon=1e-5) | epsilon
ops.layernorm_backward(dout, layernorm) | dout
ops.dropout_forward(x, rate=1.0, key=None) | rate
ops.dropout_forward(x, rate=-0.1, key=None) | rate
ops.dropout_forward(x, rate="0.1", key=None) | rate
ops.dropout_forward(x, rate=np.nan, key=None) | rate
ops.dropout_forward(x, rate=None, key=None) | rate
ops.dropout_forward(x, rate=0.5, key=3) | key
ops.dropout_forward(x, rate=0.5, key=np.random.default_rng(0)) | key
ops.dropout_forward(x.tolist(), rate=0.5, key=None) | x
ops.dropout_forward(x, 0.5, None) | arguments
ops.cross_entropy_forward(x, ids * 1.0) | targets
ops.cross_entropy_forward(x, ids[:1]) | targets
ops.cross_entropy_forward(x, ids[:, None]) | targets
ops.cross_entropy_forward(x, ids + 4) | targets
ops.cross_entropy_forward(x, ids - 7) | targets
ops.cross_entropy_forward(x, [0, 1]) | targets
ops.cross_entropy_forward(x, None) | targets
ops.cross_entropy_forward(x, ids, normalizer=0) | normalizer
ops.cross_entropy_forward(x, ids, normalizer=-2) | normalizer
ops.cross_entropy_forward(x, ids, normalizer=np.nan) | normalizer
ops.cross_entropy_forward(x, ids, normalizer=np.int64(0)) | normalizer
ops.cross_entropy_forward(x, ids, normalizer="2") | normalizer
ops.cross_entropy_forward(x, ids, weights=g) | weights
ops.cross_entropy_forward(x, ids, weights=[1.0, 1.0]) | weights
ops.cross_entropy_forward(x, ids, weights=1.0) | weights
ops.cross_entropy_backward(x, cross_entropy) | dloss
ops.cross_entropy_backward(None, cross_entropy) | dloss
ops.cross_entropy_backward("1", cross_entropy) | dloss
ops.attention_forward(q, q, q, mask=additive) | mask
ops.attention_forward(q, q, q, mask=additive > -1, rate=1) | rate
ops.attention_forward(q, q, q, mask=np.ones((3, 3), int)) | mask
ops.attention_forward(q, q, q, mask=np.ones((2, 2), bool)) | mask
ops.attention_forward(q, q, q, mask=[[True] * 3] * 3) | mask
ops.attention_forward(q, q, q, bias=additive[:2]) | bias
ops.attention_forward(q, q, q, bias=additive > 0) | bias
ops.attention_forward(q, q, q, scale=np.nan) | scale
ops.attention_forward(q, q, q, scale="1") | scale
ops.attention_forward(q, q[:, :2], q) | v
ops.attention_forward(q, q[..., :2], q) | k
ops.attention_forward(q, q, q[..., :2]) | v
ops.attention_forward(q[0], q, q) | k
ops.attention_forward(q, q, q, key=3) | key
ops.attention_backward(x, attention) | dout
ops.self_attention_forward(q, 2) | qkv
ops.self_attention_forward(qkv, 5) | n_head
ops.self_attention_forward(qkv, 0) | n_head
ops.self_attention_forward(qkv, 2.0) | n_head
ops.self_attention_forward(qkv, True) | n_head
ops.self_attention_forward(qkv, None) | n_head
ops.self_attention_forward(qkv[0], 2) | qkv
ops.self_attention_forward(qkv, 2, mask=additive) | mask
ops.self_attention_forward(qkv, 2, mask=np.ones((4, 4), bool)) | mask
ops.self_attention_forward(qkv, 2, past=3) | past
ops.self_attention_forward(qkv, 2, past=(x, x)) | past
ops.self_attention_forward(qkv, 2, past=(None, None)) | past
ops.self_attention_forward(qkv, 2, rate=2, key=ops.Key.of(0, 0)) | rate
ops.self_attention_forward(qkv, 4, n_kv_head=3) | n_kv_head 3 does not divide n_head 4
ops.self_attention_forward(qkv, 2, n_kv_head=4) | n_kv_head 4 does not divide n_head 2
ops.self_attention_forward(qkv, 4, n_kv_head=0) | n_kv_head
ops.self_attention_forward(qkv, 4, n_kv_head=2.0) | n_kv_head
ops.self_attention_forward(qkv, 4, n_kv_head=True) | n_kv_head
ops.self_attention_forward(qkv, 3, n_kv_head=1) | 5 heads of q, k and v
ops.self_attention_forward(qkv, 4, n_kv_head=1, past=(turns, turns)) | past
ops.self_attention_forward(qkv, 4, n_kv_head=1, past=(qkv[None, ..., :2],) * 2) | past
ops.rope_forward(qkv, cos=turns, sin=turns) | x
ops.rope_forward(heads, cos=turns) | sin
ops.rope_forward(heads, cos=None, sin=turns) | cos
ops.rope_forward(heads, cos=turns.tolist(), sin=turns) | cos
ops.rope_forward(heads, cos=turns, sin=turns > 0) | sin
ops.rope_forward(heads, cos=turns[0], sin=turns) | cos
ops.rope_forward(heads, cos=turns[:2], sin=turns[:2]) | cos
ops.rope_forward(heads, cos=turns, sin=turns[:, :1]) | sin
ops.rope_forward(heads, cos=turns[None], sin=turns[None]) | cos
ops.rope_forward(heads, cos=turns[:, :0], sin=turns[:, :0]) | give at least 1
ops.rope_forward(heads, cos=qkv[0, :, :3], sin=qkv[0, :, :3]) | a head of 4 columns has 2 pairs
ops.rope_forward(heads, cos=turns, sin=turns, pairing="quarters") | halves, neighbours
ops.rope_forward(heads, cos=turns, sin=turns, heads=4) | heads is 4, and there are 3
ops.rope_forward(heads, cos=turns, sin=turns, heads=-1) | heads
ops.rope_forward(heads, cos=turns, sin=turns, heads=1.0) | heads
ops.rope_forward(heads, cos=turns, sin=turns, heads=True) | heads
ops.rope_backward(heads[:1], rope) | dout
ops.rope_backward(heads, self_attention) | cache
ops.self_attention_backward(dout, self_attention) | dout
ops.cross_attention_forward(q, q, 2) | kv
ops.cross_attention_forward(q, qkv[..., :8][:1], 2) | kv
ops.cross_attention_forward(q, qkv[..., :8], 3) | n_head
ops.lstm_forward(q, w, w, w, x) | w
ops.lstm_forward(q[0], w, w, w, x) | x
ops.mlp_forward(x, w, b, w, g) | w2
ops.mlp_forward(x, w, g, w.T, g) | b1
ops.mlp_forward(x, w, b, w.T, g, grad=3, rate=1) | rate
ops.mlp_backward(dout, mlp) | dout
ops.linear_cross_entropy_forward(x, w, ids) | w
ops.linear_cross_entropy_forward(x, w.T, ids * 1.0) | targets
ops.linear_cross_entropy_forward(x, w.T, ids + 6) | targets
ops.linear_cross_entropy_forward(x, w.T, ids, b[:1]) | bias
ops.linear_cross_entropy_forward(x, w.T, ids, normalizer=0) | normalizer
ops.linear_cross_entropy_forward(x, w.T, ids, weights=x) | weights
ops.add(x, g) | y
ops.add(x, None) | y
ops.add(x.tolist(), x.tolist()) | x
ops.use("fats") | fats
ops.use(None) | None
ops.explain("liner", x, w) | liner
ops.explain("linear", x, None) | w
ops.Key.of(0.5) | 0.5
ops.Key.of("seed") | seed
"""

MODELS = """
GPT2Config(n_embd=100, n_head=12) | n_embd
GPT2Config(n_embd=-1) | n_embd
GPT2Config(n_embd=768.0) | n_embd
GPT2Config(n_layer=True) | n_layer
GPT2Config(n_layer=0) | n_layer
GPT2Config(n_head=None) | n_head
GPT2Config(vocab_size=0) | vocab_size
GPT2Config(vocab_size="50257") | vocab_size
GPT2Config(n_positions=1 << 40) | n_positions
GPT2Config(embd_pdrop=1.0) | embd_pdrop
GPT2Config(attn_pdrop=-0.1) | attn_pdrop
GPT2Config(resid_pdrop=False) | resid_pdrop
GPT2Config(resid_pdrop=np.nan) | resid_pdrop
GPT2Config(resid_pdrop=None) | resid_pdrop
GPT2Config(layer_norm_epsilon=np.nan) | layer_norm_epsilon
GPT2Config(layer_norm_epsilon=0) | layer_norm_epsilon
GPT2Config(layer_norm_epsilon=True) | layer_norm_epsilon
GPT2Config(layer_norm_epsilon=np.inf) | layer_norm_epsilon
GPT2Config(initializer_range=-1) | initializer_range
GPT2Config(initializer_range="0.02") | initializer_range
GPT2Config(activation_function="tanh") | activation_function
GPT2Config(model_type="gpt3") | model_type
GPT2Config(tie_word_embeddings=1) | tie_word_embeddings
GPT2Config(scale_attn_weights=None) | scale_attn_weights
GPT2Config(n_inner=0) | n_inner
GPT2Config(bos_token_id="x") | bos_token_id
GPT2Config(hidden=3) | hidden
GPT2Config(768) | positional
GPT2Config.from_dict({}) | n_embd
LSTMConfig(n_hidden=0) | n_hidden
GPT2(GPT1Config(**sizes)) | GPT1Config
GPT1(GPT2Config(**sizes)) | GPT2Config
LSTM(GPT2Config(**sizes)) | GPT2Config
GPT2(sizes) | config
GPT2(None) | config
GPT2() | config
GPT2(GPT2Config) | config
GPT2(config, dtype=np.int32) | dtype
GPT2(config, dtype=bool) | dtype
GPT2(config, dtype="x") | dtype
GPT2(config, dtype=complex) | dtype
GPT2(config, dtype=None) | dtype
GPT2(config, seed="x") | seed
GPT2(config, seed=-1) | seed
GPT2(config, seed=1.5) | seed
GPT2(config, foo=1) | foo
GPT2.load(folder, foo=24) | foo
GPT2.load(folder, resid_dropout=0.0) | resid_dropout
GPT2.load(folder, dtype=np.int32) | dtype
GPT1.load(folder) | gpt2
GPT2.load("no such folder") | no such folder
GPT2.load(None) | folder
open_model("no such folder") | no such folder
open_model(None) | folder
open_model(3) | folder
open_model(folder, foo=24) | foo
load_tokenizer("no such folder") | no such folder
load_tokenizer(None) | folder
load_tokenizer(3) | folder
minigpt.GPT3 | GPT3
model.hidden(tokens * 1.0) | ids
model.hidden(tokens[0]) | ids
model.hidden("text") | ids
model.hidden(["text"]) | ids
model.hidden([[1, 2], [3]]) | ids
model.hidden(None) | ids
model.hidden(3) | ids
model.hidden({1: 2}) | ids
model.hidden(tokens > 0) | ids
model.hidden(tokens[:0]) | ids
model.hidden(tokens + 11) | 11
model.hidden(tokens - 12) | -12
model.hidden(np.zeros((1, 9), int)) | positions
model.hidden(tokens, 3) | past
model.hidden(tokens, past=[3, 4]) | past
model.hidden(tokens, key=3) | key
model.hidden(tokens, mask=np.zeros((5, 5))) | mask
model.hidden(tokens, mask=[[True]]) | mask
model.hidden(tokens, mask=np.ones((4, 4), bool)) | mask
model.hidden(tokens, positions=np.arange(4)) | positions
model.hidden(tokens, positions=np.arange(5) + 8) | position
model.hidden(tokens, positions=np.arange(5.0)) | positions
model.hidden(tokens, positions="all") | positions
model.hidden(tokens, segments=tokens) | segments
model.forward(tokens.tolist()[0]) | ids
model.loss(tokens) | targets
model.loss(tokens, None) | targets
model.loss(tokens, tokens[:, 1:]) | targets
model.loss(tokens, tokens * 1.0) | targets
model.loss(tokens, tokens + 11) | targets
model.loss(tokens, tokens - 50) | targets
model.loss(tokens, "text") | targets
model.loss(tokens, [[1], [1, 2]]) | targets
model.loss(tokens, tokens, normalizer=0) | normalizer
model.loss(tokens, tokens, normalizer=-1) | normalizer
model.loss(tokens, tokens, weights=-np.ones((2, 5))) | weights
model.loss(tokens, tokens, weights=np.ones((5, 2))) | weights
model.loss(tokens, tokens, weights=np.full((2, 5), np.nan)) | weights
model.loss(tokens, tokens, weights="all") | weights
model.loss(tokens, tokens, weight=1) | weight
model.loss_backward(None) | cache
model.loss_backward(used) | cache
model.loss_backward(model.loss(tokens, tokens, grad=False)[1]) | cache
model.loss_backward(model.loss(tokens, tokens)[1], "1") | dloss
model.backward(x, model.forward(tokens)[1]) | dout
model.new_past(-1) | capacity
model.new_past(1.5) | capacity
model.new_past(0) | capacity
model.to("tpu") | tpu
model.save(None) | folder
model.save("") | folder
CharTokenizer(["a"]).save(None) | folder
masked("a", 11) | mask_id
masked(1, 0) | vocab_size
"""

TRAINING = """
optim.AdamW(list(model.parameters())) | parameters
optim.AdamW(model) | parameters
optim.AdamW(None) | parameters
optim.AdamW([]) | parameters
optim.AdamW(model.parameters()) | parameters
optim.AdamW({"a": x}.items()) | parameters
optim.AdamW(list(model.named_parameters()) * 2) | wte.weight
optim.AdamW(model.named_parameters(), betas=2) | betas
optim.AdamW(model.named_parameters(), betas=(0.9, 2)) | betas
optim.AdamW(model.named_parameters(), betas=(-0.1, 0.9)) | betas
optim.AdamW(model.named_parameters(), betas=(0.9,)) | betas
optim.AdamW(model.named_parameters(), betas=(0.9, 1.0)) | betas
optim.AdamW(model.named_parameters(), betas=None) | betas
optim.AdamW(model.named_parameters(), betas=(np.nan, 0.9)) | betas
optim.AdamW(model.named_parameters(), eps=0) | eps
optim.AdamW(model.named_parameters(), eps=-1e-8) | eps
optim.AdamW(model.named_parameters(), eps=np.nan) | eps
optim.AdamW(model.named_parameters(), weight_decay=-0.1) | weight_decay
optim.AdamW(model.named_parameters(), weight_decay="0.1") | weight_decay
optim.AdamW(model.named_parameters(), lr=1e-3) | lr
optim.GPT1Adam(model.named_parameters(), eps=0) | eps
optimizer.step(np.nan) | lr
optimizer.step(np.inf) | lr
optimizer.step(-1e-3) | lr
optimizer.step("1e-3") | lr
optimizer.step(None) | lr
optimizer.step() | lr
optimizer.step(1e-3, max_norm=-1) | max_norm
optimizer.step(1e-3, max_norm=np.nan) | max_norm
optimizer.step(1e-3, max_norm="1") | max_norm
optimizer.load_state({}, 3) | m.wte.weight
optimizer.load_state(None, 3) | state
optimizer.load_state(optimizer.state(), -1) | t
optimizer.load_state(optimizer.state(), 1.5) | t
optim.clip_by_global_norm(list(model.parameters()), 1.0) | parameters
optim.clip_by_global_norm(model.named_parameters(), -1.0) | max_norm
optim.clip_by_global_norm(model.named_parameters(), np.nan) | max_norm
schedules.warmup_cosine(1.5, 0.1) | x
schedules.warmup_cosine(-0.1, 0.1) | x
schedules.warmup_cosine(np.nan, 0.1) | x
schedules.warmup_cosine(0.5, -0.1) | warmup
schedules.warmup_cosine(0.5, 100) | warmup
schedules.warmup_cosine(0.5, None) | warmup
schedules.warmup_linear(2, 0.1) | x
schedules.warmup_linear(0.5, 1.5) | warmup
schedules.warmup_constant("0", 0.1) | x
schedules.warmup_cosine_floor(0.5, 0.1, 1.5) | floor
schedules.warmup_cosine_floor(0.5, 0.1, -0.5) | floor
"""

GENERATION = """
model.generate(tokens, 1.5) | n_tokens
model.generate(tokens, 0) | n_tokens
model.generate(tokens, -1) | n_tokens
model.generate(tokens, True) | n_tokens
model.generate(tokens, None) | n_tokens
model.generate(tokens, "3") | n_tokens
model.generate(tokens) | n_tokens
model.generate(tokens, 3, top_k=1.5) | top-k
model.generate(tokens, 3, top_k=0) | top-k
model.generate(tokens, 3, top_k=True) | top-k
model.generate(tokens, 3, top_k="5") | top-k
model.generate(tokens, 3, top_p=0) | top-p
model.generate(tokens, 3, top_p=1.1) | top-p
model.generate(tokens, 3, top_p=np.nan) | top-p
model.generate(tokens, 3, top_p="0.9") | top-p
model.generate(tokens, 3, seed=1.5) | seed
model.generate(tokens, 3, seed=-1) | seed
model.generate(tokens, 3, seed="x") | seed
model.generate(tokens, 3, seed=None) | seed
model.generate(tokens, 3, temperature=-1) | temperature
model.generate(tokens, 3, temperature=np.nan) | temperature
model.generate(tokens, 3, temperature=np.inf) | temperature
model.generate(tokens, 3, temperature="1") | temperature
model.generate(tokens, 3, temperature=None) | temperature
model.generate(tokens, 3, stop=1.5) | stop
model.generate(tokens, 3, stop=11) | stop
model.generate(tokens, 3, stop=-1) | stop
model.generate(tokens, 3, stop="x") | stop
model.generate(tokens, 3, cache="no") | cache
model.generate(tokens, 3, top=3) | top
model.generate("once", 3) | ids
model.generate(["once"], 3) | ids
model.generate(None, 3) | ids
model.generate(3, 3) | ids
model.generate([], 3) | ids
model.generate([[]], 3) | ids
model.generate([[1], []], 3) | prompt
model.generate([[1], None], 3) | prompt
model.generate([[1], "once"], 3) | prompt
model.generate([[1.0], [1, 2]], 3) | prompt
model.generate([[1], [[1, 2], [3]]], 3) | prompt
model.generate([1, 2], 3) | ids
model.generate([[1, True], [1.5, 2]], 3) | ids
model.generate(tokens * 1.0, 3) | ids
model.generate(tokens + 11, 3) | 11
model.generate(tokens - 11, 3) | -11
model.generate([[1], [2, 40]], 3) | 40
model.generate(tokens[:0], 3) | ids
model.stream(tokens, 1.5) | n_tokens
broken.generate(tokens, 3) | wpe.weight
broken.generate(tokens, 3, temperature=0) | wpe.weight
next_tokens(x[0], np.zeros(1)) | logits
next_tokens(x, np.zeros(3)) | uniform
next_tokens(x * np.nan, np.zeros(2)) | logits
"""

CHECKS = """
gradcheck.check(None, ops.gelu_backward, (x,)) | forward
gradcheck.check(ops.gelu_forward, None, (x,)) | backward
gradcheck.check(ops.gelu_forward, "gelu", (x,)) | backward
gradcheck.check(ops.gelu_forward, ops.gelu_backward, ()) | nothing to check
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (ids,)) | nothing to check
gradcheck.check(ops.gelu_forward, ops.gelu_backward, None) | args
gradcheck.check(ops.gelu_forward, ops.gelu_backward, 3.0) | args
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (x,), names=["x", "y"]) | names
gradcheck.check(ops.linear_forward, ops.linear_backward, (x, w), names=["x"]) | names
gradcheck.check(ops.linear_forward, ops.linear_backward, (x, w), names=["x", "x"]) | names
gradcheck.check(ops.linear_forward, ops.linear_backward, (x, w), names=3) | names
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (x,), [1e-5]) | constants
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (x,), seed="x") | seed
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (x,), reference=3) | reference
gradcheck.check(ops.gelu_forward, ops.gelu_backward, (x,), dout=g) | dout
gradcheck.check_model(None, tokens, tokens) | model
gradcheck.check_model(GPT2, tokens, tokens) | model
gradcheck.check_model(model, tokens * 1.0, tokens) | ids
gradcheck.check_model(model, tokens, tokens[:1]) | targets
gradcheck.check_model(model, tokens, tokens, spread=np.nan) | spread
gradcheck.check_model(model, tokens, tokens, normalizer=0) | normalizer
gradcheck.numeric(None, x) | f
gradcheck.numeric(np.sin, ids) | x
gradcheck.numeric(np.sin, x.astype(np.float32)) | x
gradcheck.numeric(np.sin, x.tolist()) | x
gradcheck.table([]) | results
"""

PARTS = {"operations": OPERATIONS, "models": MODELS, "training": TRAINING, "generation": GENERATION, "checks": CHECKS}


def rows_of(part: str) -> list[tuple[str, str]]:
    """(call, word that its message must have) for each line of a part of the table."""
    rows = []
    for line in PARTS[part].strip().splitlines():
        call, _, word = line.rpartition(" | ")
        rows.append((call, word))
    return rows


ROWS = [row for part in PARTS for row in rows_of(part)]


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> dict:
    """What the calls of the table name."""
    rng = np.random.default_rng(0)
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**sizes)
    model = GPT2(config)
    broken = GPT2(config)
    broken.wpe.weight.data[0, 0] = np.nan
    folder = tmp_path_factory.mktemp("model")
    model.save(folder)
    tokens = rng.integers(11, size=(2, 5))
    tokens.flat[:2] = 0, 10
    x, w, b, g = (rng.standard_normal(shape) for shape in ((2, 4), (4, 6), (6,), (4,)))
    q, qkv = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 12))
    heads, turns = qkv.reshape(2, 3, 3, 4), qkv[0, :, :2]
    ids = np.array([0, 1])
    additive = np.triu(np.full((3, 3), -np.inf), 1)
    optimizer = optim.AdamW(model.named_parameters())
    _, used = model.loss(tokens, tokens)
    model.loss_backward(used)
    out, linear = ops.linear_forward(x, w, b)
    made = {
        "softmax": ops.softmax_forward(x), "gelu": ops.gelu_forward(x), "layernorm": ops.layernorm_forward(x, g, g),
        "cross_entropy": ops.cross_entropy_forward(x, ids), "attention": ops.attention_forward(q, q, q),
        "self_attention": ops.self_attention_forward(qkv, 2), "mlp": ops.mlp_forward(x, w, b, w.T.copy(), g),
        "rope": ops.rope_forward(heads, cos=turns, sin=turns),
    }  # fmt: skip
    caches = {op: cache for op, (_, cache) in made.items()}
    return TYPED | locals() | caches | {"dout": out}


def refusal(call: str, names: dict) -> str:
    """The message by which a call is refused; or, in angle brackets, what happened instead."""
    try:
        value = eval(call, names)
        if isinstance(value, types.GeneratorType):
            list(value)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        on_purpose = frame.filename.startswith(HOME) and "raise" in frame.line
        of_the_signature = type(error) is TypeError and "argument" in str(error)
        if isinstance(error, InputError) or on_purpose or of_the_signature:
            return str(error)
        return f"<{type(error).__name__}: {error}>"
    return "<nothing was raised>"


@pytest.mark.filterwarnings("ignore")
@each("call, word", ROWS)
def test_a_wrong_call_is_refused_in_one_line_that_names_the_argument(call, word, names):
    message = refusal(call, names)
    assert not message.startswith("<"), message
    assert word in message
    assert "\n" not in message and len(message) < 300


def test_the_table_is_long_enough():
    assert len(ROWS) >= 200 and len(set(ROWS)) == len(ROWS)


# --- what must go on working -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ops.names)
def test_a_batch_without_rows_goes_through(op):
    """As a part of a batch may be that has nothing for this process."""
    _, args, constants = case(op).call
    empty = [a[:0] if isinstance(a, np.ndarray) and starred(op, i) else a for i, a in enumerate(args)]
    out, _ = getattr(ops, f"{op}_forward")(*empty, **constants)
    assert np.isfinite(out).all(), "no row, or the sum of no losses: nothing that is not finite"
    assert out.size == 0 or out.ndim == 0, out.shape


def starred(op: str, i: int) -> bool:
    """Does argument number i of this operation have leading axes?"""
    inputs, _ = shapes.of(getattr(ops, f"{op}_forward"))
    names = list(inspect.signature(getattr(ops, f"{op}_forward")).parameters)
    return any(tensor.name == names[i] and tensor.axes[:1] in [("*",), ("B",)] for tensor in inputs)


def test_a_call_that_was_right_is_looked_up_and_a_wrong_one_after_it_is_still_refused():
    x, w = np.ones((2, 4)), np.ones((4, 6))
    for _ in range(3):
        ops.linear_forward(x, w)
        with pytest.raises(InputError, match="must be"):
            ops.linear_forward(w, w)
    with pytest.raises(InputError, match="normalizer is 0"):
        ops.cross_entropy_forward(x, np.array([0, 1]), normalizer=np.array(0))
    ops.cross_entropy_forward(x, np.array([0, 1]), normalizer=np.array(2))


def test_a_file_in_memory_is_remembered_by_its_shape_and_not_by_its_numbers(tmp_path):
    (tmp_path / "numbers").write_bytes(np.arange(12.0).tobytes())
    x, turned = (np.memmap(tmp_path / "numbers", np.float64, "r", shape=shape) for shape in ((3, 4), (4, 3)))
    gain = np.ones(4)
    ops.layernorm_forward(x, gain, gain)
    with pytest.raises(InputError, match=r"g has shape \(4,\)"):
        ops.layernorm_forward(turned, gain, gain)


def test_the_message_quotes_the_shape_line():
    with pytest.raises(InputError) as caught:
        ops.layernorm_forward(np.ones((2, 4)), np.ones(3), np.ones(4))
    line = "x (*,C), g (C,), b (C,) -> out (*,C)"
    assert str(caught.value) == f"layernorm: g has shape (3,); x (2, 4) has C = 4, so g must be (4,)   [{line}]"


def test_only_shapes_and_dtypes_are_read(device, move):
    """On a GPU reading a number would wait for it."""
    op, args, constants = case("cross_entropy, weights").call
    check = table._arguments[op]

    class Unread:
        def __init__(self, array):
            self.shape, self.dtype = array.shape, array.dtype

    check.check(tuple(map(Unread, args)), {name: Unread(value) for name, value in constants.items()})
    check.check(tuple(move(args)), move(constants))


def test_arrays_of_two_devices_are_refused(device, move):
    if device == "cpu":
        pytest.skip("there is one device")
    x, w = np.ones((2, 4)), np.ones((4, 6))
    with pytest.raises(InputError, match="x is on cuda and w on cpu: move one of them with to_device"):
        ops.linear_forward(move(x), w)


def test_an_override_gets_no_mask_that_it_would_read_upside_down():
    """Its forward is not even called: 0 and -inf, as booleans, hide what is visible."""
    calls = []

    def attention_forward(q, k, v, *, mask=None):
        calls.append(mask)
        return q, None

    mine = types.SimpleNamespace(attention_forward=attention_forward, attention_backward=lambda dout, cache: None)
    q = np.ones((2, 3, 4))
    with ops.using(mine), pytest.raises(InputError, match="a mask of float64: give booleans"):
        ops.attention_forward(q, q, q, mask=np.triu(np.full((3, 3), -np.inf), 1))
    assert not calls


@pytest.mark.parametrize(
    ("more", "options"), [(0, {"temperature": -1}), (0, {"top_k": 0}), (0, {"seed": -1}), (11, {}), (0, {"stop": 11})]
)
def test_a_stream_is_refused_before_its_first_token_is_wanted(more, options, names):
    with pytest.raises(InputError):
        names["model"].stream(names["tokens"] + more, 3, **options)


def test_what_repr_says(names):
    model = names["model"]
    sizes = "2 layers, 2 heads, 6 wide, 8 positions, vocabulary 11"
    assert repr(model) == f"GPT2({sizes}: 1,146 parameters, float32 on cpu)"
    block = model.h[0]
    assert [repr(one) for one in (block.mlp.c_fc, block.ln_1, model.wte)] == [
        "Linear(6, 24)", "LayerNorm(6)", "Embedding(11, 6)"
    ]  # fmt: skip
    assert repr(block.attn) == "Attention(168 parameters)"
    past = model.new_past()
    _, cache = model.hidden([[1, 2]], past)
    assert repr(past[0]) == "Past(2 of 8 positions)"
    assert repr(cache) == "Cache of GPT2(tokens, positions, dropout, h.0, h.1, ln_f)"
    settings = "betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01"
    assert repr(names["optimizer"]) == f"AdamW(28 parameters, {settings}, 0 updates made)"


# --- generation, attacked --------------------------------------------------------------------------------------------

ODD = (None, True, -1, 0, 1, 2, 1.5, 0.5, 1e9, -0.0, np.nan, np.inf, "2", "", b"2", [], [1], (), {}, object, 3 + 0j,
       np.int64(2), np.float32(0.5), np.array(2), np.array([2]), np.bool_(True))  # fmt: skip
ODD_PROMPTS = ("once", ["once"], None, 3, [], [[]], [[1], []], [1, 2], [[1, 2]], [[1], [1, 2]], [[1.0]], [[99]],
               [[-1]], [["a"]], [[None]], np.zeros((1, 3)), np.zeros((2, 3), int), [[True]], object(), {0: [1]},
               iter([[1]]))  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_900_combinations_of_arguments_generate_or_are_refused(names):
    """No other exception than InputError, and Python's own for an argument that is missing."""
    rng = np.random.default_rng(0)
    options = ("temperature", "top_k", "top_p", "seed", "stop", "cache")
    refused = 0
    for _ in range(900):
        prompt = ODD_PROMPTS[rng.integers(len(ODD_PROMPTS))] if rng.random() < 0.4 else [[1, 2], [3]]
        n_tokens = ODD[rng.integers(len(ODD))] if rng.random() < 0.3 else 2
        chosen = [name for name in options if rng.random() < 0.25]
        odd = {name: ODD[rng.integers(len(ODD))] for name in chosen}
        try:
            tokens = names["model"].generate(prompt, n_tokens, **odd)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert all(np.asarray(row).dtype.kind in "iu" for row in tokens)
    assert 500 < refused < 880
