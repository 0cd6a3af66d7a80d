"""Against PyTorch and Hugging Face transformers: the same numbers from the same weights, and the same files.

    pytest -m parity tests/test_parity.py       (needs the extra "parity")
"""

import json
import math

import numpy as np
import pytest
from helpers import KEY, error, same, small_gpt1, snapshot

from minigpt import GPT1, GPT1Config, ops
from minigpt.nn.optim import AdamW, clip_by_global_norm
from minigpt.ops.cases import case
from minigpt.ops.random_keys import keep_mask

pytestmark = pytest.mark.parity

DTYPES = [np.float64, np.float32]
BOUND = {np.float64: 1e-9, np.float32: 1e-4}

# Odd sizes: C larger than B T, one head and several, one layer and several.
SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 15, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4},
    {"vocab_size": 5, "n_positions": 3, "n_embd": 7, "n_layer": 1, "n_head": 1},
]


def tensor(torch, array, grad=False):
    return torch.from_numpy(np.array(array)).requires_grad_(grad)


def quiet(sizes) -> dict:
    return sizes | dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)


def theirs_and_ours(torch, transformers, sizes, dtype, seed=0):
    """Their model with random weights far from the initial point, and ours with the same."""
    torch.manual_seed(seed)
    theirs = transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**quiet(sizes))).eval()
    theirs = theirs.to({np.float64: torch.float64, np.float32: torch.float32}[dtype])
    ours = GPT1(GPT1Config(**quiet(sizes)), seed=None, dtype=dtype)
    names = dict(theirs.transformer.named_parameters())
    assert set(names) == {name for name, _ in ours.named_parameters()}
    rng = np.random.default_rng(seed)
    for name, parameter in ours.named_parameters():
        values = rng.standard_normal(parameter.data.shape) * (0.2 if parameter.data.ndim > 1 else 0.5)
        values = (values + name.endswith(("ln_1.weight", "ln_2.weight"))).astype(dtype)
        parameter.data[...] = values
        with torch.no_grad():
            names[name].copy_(torch.from_numpy(values))
    return theirs, ours


# --- operations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [
    "linear", "gelu", "layernorm", "softmax", "cross_entropy", "embedding", "attention", "rmsnorm",
    "soft_cross_entropy", "cosine_loss", "gelu_exact", "relu", "silu", "mlp, exact GELU", "mlp, ReLU", "gated_mlp",
    "rope, neighbours", "self_attention, groups", "self_attention, one key head",
])  # fmt: skip
def test_operations_against_torch(op, dtype, torch):
    functional = torch.nn.functional
    named = {"attention": "attention, as many keys", "soft_cross_entropy": "soft_cross_entropy, temperature"}
    name = op
    axes = 3 if op.startswith("self_attention") else 4
    op, args, constants = case(named.get(op, op), axes, dtype).call

    def grouped(qkv, n_head):
        b, t, _ = qkv.shape
        few = constants["n_kv_head"]
        heads = qkv.reshape(b, t, n_head + 2 * few, -1).transpose(1, 2)
        q, k, v = heads.split([n_head, few, few], dim=1)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out.transpose(1, 2).reshape(b, t, -1)

    def turned(x):
        """Su et al. 2021, section 3.2.1: a pair is a complex number, which is multiplied by one of length 1."""
        cos, sin = (tensor(torch, constants[name])[:, None] for name in ("cos", "sin"))
        r = cos.shape[-1]
        pairs = torch.view_as_complex(x[..., : 2 * r].unflatten(-1, (r, 2)).contiguous())
        return torch.cat([torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2), x[..., 2 * r :]], dim=-1)

    if op == "cross_entropy":
        args[1][0, 1] = ops.IGNORED
    theirs = {
        "linear": lambda x, w, b: functional.linear(x, w.T, b),
        "gelu": lambda x: functional.gelu(x, approximate="tanh"),
        "layernorm": lambda x, g, b: functional.layer_norm(x, x.shape[-1:], g, b, eps=1e-5),
        "softmax": lambda x: functional.softmax(x, dim=-1),
        "cross_entropy": lambda z, y: functional.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1)),
        "embedding": lambda w, ids: functional.embedding(ids, w),
        "attention": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        "rmsnorm": lambda x, g: functional.rms_norm(x, x.shape[-1:], g, eps=1e-6),
        "soft_cross_entropy": lambda z, t: 2.5**2 * functional.cross_entropy(
            z.reshape(-1, z.shape[-1]) / 2.5, functional.softmax(t.reshape(-1, t.shape[-1]) / 2.5, dim=-1)
        ),
        "cosine_loss": lambda a, b: functional.cosine_embedding_loss(
            a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), torch.ones(1)
        ),
        "gelu_exact": functional.gelu,
        "relu": functional.relu,
        "silu": functional.silu,
        "mlp, exact GELU": lambda x, w1, b1, w2, b2: functional.gelu(x @ w1 + b1) @ w2 + b2,
        "mlp, ReLU": lambda x, w1, b1, w2, b2: functional.relu(x @ w1 + b1) @ w2 + b2,
        "gated_mlp": lambda x, w_gate, w_up, w_down: (functional.silu(x @ w_gate) * (x @ w_up)) @ w_down,
        "rope, neighbours": turned,
        "self_attention, groups": grouped,
        "self_attention, one key head": grouped,
    }[name]
    tensors = [tensor(torch, a, grad=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a for a in args]
    expected = theirs(*tensors)
    out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
    dout = np.random.default_rng(1).standard_normal(out.shape).astype(dtype)
    expected.backward(torch.from_numpy(dout))
    gradients = getattr(ops, f"{op}_backward")(dout, cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    gradients = [gradient for gradient in gradients if gradient is not None]  # None: an input that was not given
    assert error(out, expected.detach().numpy()) < BOUND[dtype] / 50
    pairs = zip(gradients, [t.grad for t in tensors if getattr(t, "requires_grad", False)], strict=True)
    for gradient, grad in pairs:
        assert error(gradient, grad.numpy()) < BOUND[dtype] / 50


def test_rotary_positions_against_transformers(torch, transformers):
    """Halves, of a whole head and of a part of it; the gradient by autograd."""
    from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

    x = np.random.default_rng(0).standard_normal((2, 5, 3, 8))
    for r in (4, 3):
        angles = np.random.default_rng(r).standard_normal((2, 5, r))
        q = tensor(torch, x, grad=True)
        cos, sin = (tensor(torch, np.tile(f(angles), 2)) for f in (np.cos, np.sin))
        turned, _ = apply_rotary_pos_emb(q[..., : 2 * r], q[..., : 2 * r], cos, sin, unsqueeze_dim=2)
        expected = torch.cat([turned, q[..., 2 * r :]], dim=-1)
        out, cache = ops.rope_forward(x, cos=np.cos(angles), sin=np.sin(angles))
        assert error(out, expected.detach().numpy()) < 1e-12
        expected.backward(tensor(torch, x[::-1]))
        assert error(ops.rope_backward(x[::-1], cache), q.grad.numpy()) < 1e-12


def test_masked_attention_with_dropout_against_torch(torch):
    """The same mask, and the kept elements that our key names."""
    _, (q, k, v), constants = case("attention, mask", 4).call
    kept = keep_mask(KEY, 0.3, (*q.shape[:-1], k.shape[-2]), np)
    tensors = [tensor(torch, a, grad=True) for a in (q, k, v)]
    scores = tensors[0] @ tensors[1].mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~torch.from_numpy(constants["mask"]), -math.inf)
    p = torch.nan_to_num(torch.softmax(scores, dim=-1))  # their softmax of nothing is NaN
    expected = (p * torch.from_numpy(kept) / 0.7) @ tensors[2]
    out, cache = ops.attention_forward(q, k, v, mask=constants["mask"], rate=0.3, key=KEY)
    dout = np.random.default_rng(1).standard_normal(out.shape)
    assert error(out, expected.detach().numpy()) < 1e-12
    *gradients, of_no_bias = ops.attention_backward(dout, cache)
    assert of_no_bias is None
    by_torch = torch.autograd.grad(expected, tensors, torch.from_numpy(dout))
    for gradient, grad in zip(gradients, by_torch, strict=True):
        assert error(gradient, torch.nan_to_num(grad).numpy()) < 1e-12


def test_weighted_cross_entropy_against_torch(torch):
    _, (logits, targets), constants = case("cross_entropy, weights", 3).call
    constants["normalizer"] = 5.5
    z = tensor(torch, logits, grad=True)
    ids = torch.from_numpy(targets).reshape(-1)
    each = torch.nn.functional.cross_entropy(z.reshape(-1, z.shape[-1]), ids, reduction="none")
    expected = (each * torch.from_numpy(constants["weights"]).reshape(-1)).sum() / constants["normalizer"]
    expected.backward()
    loss, cache = ops.cross_entropy_forward(logits, targets, **constants)
    assert error(loss, expected.item()) < 1e-12
    assert error(ops.cross_entropy_backward(1.0, cache), z.grad.numpy()) < 1e-12


# --- the whole model -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES)
def test_logits_loss_and_every_gradient(sizes, dtype, torch, transformers):
    """Within 1e-9, absolute and relative, in float64; within 1e-4, relative, in float32."""
    theirs, ours = theirs_and_ours(torch, transformers, sizes, dtype)
    rng = np.random.default_rng(4)
    ids = rng.integers(sizes["vocab_size"], size=(3, sizes["n_positions"]))
    dlogits = rng.standard_normal((*ids.shape, sizes["vocab_size"])).astype(dtype)

    expected = theirs(torch.from_numpy(ids)).logits
    expected.backward(torch.from_numpy(dlogits))
    logits, cache = ours.forward(ids)
    ours.backward(dlogits, cache)
    compare(logits, expected.detach().numpy(), dtype, "logits")
    compare_gradients(ours, theirs, dtype)

    theirs.zero_grad()
    ours.zero_grad()
    targets = np.roll(ids, -1, axis=1)
    targets[0, 1] = ops.IGNORED
    expected = loss_of(torch, theirs, ids, targets)
    expected.backward()
    loss, cache = ours.loss(ids, targets)
    ours.loss_backward(cache)
    compare(loss, expected.item(), dtype, "loss")
    compare_gradients(ours, theirs, dtype)


def loss_of(torch, theirs, ids, targets):
    """Their own loss is computed in float32, whatever the model: this one keeps the dtype."""
    logits = theirs(torch.from_numpy(ids)).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())


def compare_gradients(ours, theirs, dtype):
    expected = dict(theirs.transformer.named_parameters())
    for name, parameter in ours.named_parameters():
        compare(parameter.grad, expected[name].grad.numpy(), dtype, name)


def compare(a, b, dtype, name):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if name.endswith("c_attn.bias"):  # its key third has a true gradient of 0: only rounding, and no relative error
        third = a.shape[0] // 3
        scale = max(np.abs(b).max(), 1e-6)
        assert np.abs(a[third : 2 * third]).max() < BOUND[dtype] * scale
    assert error(a, b) < BOUND[dtype], name
    if dtype is np.float64:
        assert np.abs(a - b).max() < BOUND[dtype], name


def test_ten_steps_of_training_against_torch(torch, transformers):
    """Clipping, AdamW with decay on the matrices only, a changing rate: ten losses within 1e-9."""
    theirs, ours = theirs_and_ours(torch, transformers, SHAPES[0], np.float64)
    named = list(theirs.transformer.named_parameters())
    groups = [
        {"params": [p for _, p in named if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for _, p in named if p.ndim == 1], "weight_decay": 0.0},
    ]
    their_optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), eps=1e-8)
    optimizer = AdamW(ours.named_parameters(), betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    rng, clipped = np.random.default_rng(0), 0
    for step in range(10):
        ids, lr = rng.integers(13, size=(4, 7)), 0.01 * (step + 1) / 10
        ours.zero_grad()
        theirs.zero_grad()
        loss, cache = ours.loss(ids[:, :-1], ids[:, 1:])
        ours.loss_backward(cache)
        expected = loss_of(torch, theirs, ids[:, :-1], ids[:, 1:].copy())
        expected.backward()
        assert abs(float(loss) - expected.item()) < 1e-9, step
        norm = clip_by_global_norm(ours.named_parameters(), 0.7)
        their_norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], 1e9)
        assert abs(norm - their_norm.item()) < 1e-9
        for _, p in named:  # torch adds 1e-6 to the norm; the rule as published does not
            p.grad *= min(1, 0.7 / their_norm.item())
        clipped += norm > 0.7
        optimizer.step(lr)
        for group in their_optimizer.param_groups:
            group["lr"] = lr
        their_optimizer.step()
    assert clipped > 0
    for name, p in ours.named_parameters():
        assert error(p.data, dict(named)[name].detach().numpy()) < 1e-9, name


# --- the same files --------------------------------------------------------------------------------------------------


def test_transformers_opens_what_we_write(torch, transformers, tmp_path):
    """Every weight, the same logits, and the same greedy tokens."""
    ours = small_gpt1(np.float32, n_embd=12, n_positions=16, vocab_size=29, n_layer=3)
    ours.save(tmp_path)
    theirs, report = transformers.OpenAIGPTLMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert theirs.config.n_positions == 16 and theirs.config.n_layer == 3 and theirs.config.afn == "gelu"
    theirs.eval()
    weights = dict(theirs.transformer.named_parameters())
    for name, p in ours.named_parameters():
        assert same(snapshot([p.data]), snapshot([weights[name].detach().numpy()])), name
    ids = np.random.default_rng(0).integers(29, size=(2, 4))
    logits = theirs(torch.from_numpy(ids)).logits.detach().numpy()
    assert error(ours.forward(ids)[0], logits) < 1e-5
    expected = theirs.generate(torch.from_numpy(ids), max_new_tokens=12, do_sample=False, pad_token_id=0)
    tokens = ours.generate(ids, 12, temperature=0)
    assert tokens.tolist() == expected.tolist()
    assert isinstance(transformers.AutoModelForCausalLM.from_pretrained(tmp_path), transformers.OpenAIGPTLMHeadModel)


@pytest.mark.parametrize("bare", [False, True])
def test_we_open_what_transformers_writes(bare, torch, transformers, tmp_path):
    """With the prefix "transformer." of the model with a head, and without it."""
    theirs, expected = theirs_and_ours(torch, transformers, SHAPES[1], np.float32)
    (theirs.transformer if bare else theirs).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "openai-gpt"
    ours = GPT1.load(tmp_path)
    assert ours.config == expected.config
    for (name, p), q in zip(ours.named_parameters(), expected.parameters(), strict=True):
        assert same(snapshot([p.data]), snapshot([q.data])), name
    again = GPT1.load(tmp_path, dtype=np.float64)
    assert {p.data.dtype for p in again.parameters()} == {np.dtype(np.float64)}


def test_half_precision_files(torch, transformers, tmp_path):
    """Weights in float16 are widened, and those in bfloat16, for which NumPy has no type, too."""
    theirs, _ = theirs_and_ours(torch, transformers, SHAPES[0], np.float32)
    theirs.to(torch.float16).save_pretrained(tmp_path / "half")
    ours = GPT1.load(tmp_path / "half")
    half = dict(theirs.transformer.named_parameters())
    for name, p in ours.named_parameters():
        assert p.data.dtype == np.float32 and (p.data == half[name].detach().float().numpy()).all()
    theirs.to(torch.bfloat16).save_pretrained(tmp_path / "brain")
    brain = dict(theirs.transformer.named_parameters())
    for name, p in GPT1.load(tmp_path / "brain").named_parameters():
        assert p.data.dtype == np.float32 and (p.data == brain[name].detach().float().numpy()).all()
