"""GPT-2 against Hugging Face transformers: the same numbers from the same weights, and the same files.

    pytest -m parity tests/test_parity_gpt2.py       (needs the extra "parity")
"""

import dataclasses

import numpy as np
import pytest
from helpers import error, same, small_gpt2, snapshot

from minigpt import GPT2, GPT2Config, open_model, ops
from minigpt.nn.optim import AdamW, clip_by_global_norm

pytestmark = pytest.mark.parity

DTYPES = [np.float64, np.float32]
BOUND = {np.float64: 1e-9, np.float32: 1e-4}
RATES = ("embd_pdrop", "attn_pdrop", "resid_pdrop")

# Odd sizes: C larger than B T, one head and several, one layer and several.
SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 15, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4},
    {"vocab_size": 5, "n_positions": 3, "n_embd": 7, "n_layer": 1, "n_head": 1},
]


def theirs_and_ours(torch, transformers, sizes, dtype, seed=0, spread=0.2):
    """Their model, and ours with the same random weights far from the initial point."""
    quiet = sizes | dict.fromkeys(RATES, 0.0)
    special = {"bos_token_id": 0, "eos_token_id": None, "attn_implementation": "eager"}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**quiet, **special)).eval()
    theirs = theirs.to({np.float64: torch.float64, np.float32: torch.float32}[dtype])
    ours = GPT2(GPT2Config(**quiet), seed=None, dtype=dtype)
    names = dict(theirs.transformer.named_parameters())
    assert list(names) == [name for name, _ in ours.named_parameters()]
    rng = np.random.default_rng(seed)
    for name, parameter in ours.named_parameters():
        values = rng.standard_normal(parameter.data.shape) * (spread if parameter.data.ndim > 1 else 0.5)
        values = (values + (".ln_" in f".{name}" and name.endswith("weight"))).astype(dtype)
        parameter.data[...] = values
        with torch.no_grad():
            names[name].copy_(torch.from_numpy(values))
    return theirs, ours


def loss_of(torch, theirs, ids, targets):
    """Their own loss is computed in float32, whatever the model: this one keeps the dtype."""
    logits = theirs(torch.from_numpy(np.array(ids))).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(np.array(targets)).flatten())


def compare(a, b, dtype, name):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert error(a, b) < BOUND[dtype], name
    if dtype is np.float64:
        assert np.abs(a - b).max() < BOUND[dtype], name
    return error(a, b)


def compare_gradients(ours, theirs, dtype):
    expected = dict(theirs.transformer.named_parameters())
    return max(compare(p.grad, expected[name].grad.numpy(), dtype, name) for name, p in ours.named_parameters())


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
    worst = [compare(logits, expected.detach().numpy(), dtype, "logits"), compare_gradients(ours, theirs, dtype)]

    theirs.zero_grad()
    ours.zero_grad()
    targets = np.roll(ids, -1, axis=1)
    targets[0, 1] = ops.IGNORED
    expected = loss_of(torch, theirs, ids, targets)
    expected.backward()
    loss, cache = ours.loss(ids, targets)
    ours.loss_backward(cache)
    compare(loss, expected.item(), dtype, "loss")
    worst.append(compare_gradients(ours, theirs, dtype))
    print(f"{np.dtype(dtype)}: logits {worst[0]:.1e}, gradients {max(worst[1:]):.1e}")


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
    rng, clipped, losses = np.random.default_rng(0), 0, []
    for step in range(10):
        ids, lr = rng.integers(13, size=(4, 8)), 0.01 * (step + 1) / 10
        ours.zero_grad()
        theirs.zero_grad()
        loss, cache = ours.loss(ids[:, :-1], ids[:, 1:])
        ours.loss_backward(cache)
        expected = loss_of(torch, theirs, ids[:, :-1], ids[:, 1:])
        expected.backward()
        losses.append(abs(float(loss) - expected.item()))
        norm = clip_by_global_norm(ours.named_parameters(), 0.7)
        their_norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], 1e9)
        for _, p in named:  # torch adds 1e-6 to the norm; the rule as published does not
            p.grad *= min(1, 0.7 / their_norm.item())
        clipped += norm > 0.7
        optimizer.step(lr)
        for group in their_optimizer.param_groups:
            group["lr"] = lr
        their_optimizer.step()
    assert clipped > 0 and max(losses) < 1e-9, losses
    print(f"losses {max(losses):.1e}")
    for name, p in ours.named_parameters():
        assert error(p.data, dict(named)[name].detach().numpy()) < 1e-9, name


def test_the_same_greedy_tokens_over_200_steps(torch, transformers):
    """A model with large weights, so that every token depends on those before it."""
    sizes = {"vocab_size": 211, "n_positions": 208, "n_embd": 28, "n_layer": 3, "n_head": 4}
    theirs, ours = theirs_and_ours(torch, transformers, sizes, np.float64, spread=0.6)
    ours.ln_f.bias.data[...] = 0  # no token is liked by itself
    with torch.no_grad():
        theirs.transformer.ln_f.bias.zero_()
    ids = np.random.default_rng(0).integers(211, size=(3, 7))
    expected = theirs.generate(torch.from_numpy(ids), max_new_tokens=200, do_sample=False, pad_token_id=0)
    tokens = ours.generate(ids, 200, temperature=0)
    assert tokens.shape == (3, 207) and tokens.tolist() == expected.tolist()
    assert all(len(set(row)) > 10 for row in tokens), [len(set(row)) for row in tokens.tolist()]


# --- the same files --------------------------------------------------------------------------------------------------


def test_transformers_opens_what_we_write(torch, transformers, tmp_path):
    ends = {"bos_token_id": 28, "eos_token_id": 28}
    ours = small_gpt2(np.float32, n_embd=12, n_positions=16, vocab_size=29, n_layer=3, **ends)
    ours.save(tmp_path)
    theirs, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert theirs.config.n_positions == 16 and theirs.config.n_layer == 3
    assert theirs.config.bos_token_id == theirs.generation_config.eos_token_id == 28
    theirs.eval()
    weights = dict(theirs.transformer.named_parameters())
    for name, p in ours.named_parameters():
        assert same(snapshot([p.data]), snapshot([weights[name].detach().numpy()])), name
    ids = np.random.default_rng(0).integers(29, size=(2, 4))
    assert error(ours.forward(ids)[0], theirs(torch.from_numpy(ids)).logits.detach().numpy()) < 1e-5
    assert isinstance(transformers.AutoModelForCausalLM.from_pretrained(tmp_path), transformers.GPT2LMHeadModel)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("size", ["10KB", "1GB"])
def test_we_open_what_transformers_writes(bare, size, torch, transformers, tmp_path):
    """With the prefix "transformer." and without it; in one file, and in several with an index."""
    theirs, expected = theirs_and_ours(torch, transformers, SHAPES[1], np.float32)
    (theirs.transformer if bare else theirs).save_pretrained(tmp_path, max_shard_size=size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (size == "10KB")
    ours, config = open_model(tmp_path), theirs.config
    ends = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    assert type(ours) is GPT2 and ours.config == dataclasses.replace(expected.config, **ends)
    for (name, p), q in zip(ours.named_parameters(), expected.parameters(), strict=True):
        assert same(snapshot([p.data]), snapshot([q.data])), name


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_files(kind, torch, transformers, tmp_path):
    """Weights of sixteen bits are widened, exactly."""
    theirs, _ = theirs_and_ours(torch, transformers, SHAPES[0], np.float32)
    theirs.to(getattr(torch, kind)).save_pretrained(tmp_path)
    half = dict(theirs.transformer.named_parameters())
    for name, p in open_model(tmp_path).named_parameters():
        assert p.data.dtype == np.float32 and (p.data == half[name].detach().float().numpy()).all(), name
