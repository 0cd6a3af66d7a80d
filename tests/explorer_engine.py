"""What the tests of the explorer's engine share: node, a page's models, and every value of a pass by NumPy."""

import base64
import dataclasses
import functools
import json
import subprocess
import types
import zlib
from pathlib import Path

import numpy as np

from minigpt import GPT1, GPT2, GPT1Config, GPT2Config, ops
from minigpt.explorer import page
from minigpt.files.disk import write_text
from minigpt.ops.reference import attention, embedding, gelu, layernorm, linear

RUNNER = Path(__file__).with_suffix(".mjs")
SPIED = {"linear": linear, "embedding": embedding, "layernorm": layernorm, "gelu": gelu, "attention": attention}
SIZES = {"vocab_size": 37, "n_positions": 11, "n_embd": 15, "n_layer": 2, "n_head": 3}
MODELS = {"gpt1": (GPT1, GPT1Config), "gpt2": (GPT2, GPT2Config)}


def copy_engine(folder):
    """The engine in a folder where node takes its files for modules."""
    for name, text in page.modules().items():
        write_text(folder / "js" / name, text)
    write_text(folder / "js" / "package.json", '{"type": "module"}')
    return folder / "js"


def run(engine, *calls):
    """The results of calls [function of the runner, arguments...]; tensors arrive as arrays."""
    text = json.dumps(calls, default=to_json)
    command = ["node", str(RUNNER), str(engine)]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, object_hook=from_json)


def to_json(value):
    """An array as a tensor, and NumPy's numbers as plain ones."""
    if isinstance(value, np.ndarray):
        return {"shape": value.shape, "data": base64.b64encode(value.astype("<f8").tobytes()).decode("ascii")}
    return value.item()


def from_json(value):
    """A tensor as an array; any other object as it is."""
    if set(value) == {"shape", "data"}:
        return np.frombuffer(base64.b64decode(value["data"]), "<f8").reshape(value["shape"])
    return value


def error(found, expected):
    """The largest difference, divided by the largest number expected."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    assert found.shape == expected.shape
    finite = np.isfinite(expected)
    assert np.array_equal(found[~finite], expected[~finite])
    found, expected = found[finite], expected[finite]
    largest = np.abs(expected).max(initial=1e-30)
    return np.abs(found - expected).max(initial=0) / largest


def random_model(name, seed=0, **sizes):
    """A float64 model whose weights are all random, also gains and biases, and have a form in bfloat16."""
    kind, config = MODELS[name]
    model = kind(config(**SIZES | sizes), seed=seed, dtype=np.float64)
    rng = np.random.default_rng(seed)
    for parameter_name, parameter in model.named_parameters():
        center = 1 if "ln_" in parameter_name and parameter_name.endswith("weight") else 0
        drawn = center + 0.3 * rng.standard_normal(parameter.data.shape)
        parameter.data[:] = bfloat16(drawn)
    return model


def bfloat16(numbers):
    """The numbers cut off to the upper half of a float32."""
    bits = np.asarray(numbers, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def page_of(**models):
    """The page's JSON of models, with their weights in bfloat16 and without a tokenizer."""
    return {"models": [_model_of(name, model) for name, model in models.items()], "tokenizers": []}


def _model_of(name, model):
    parameters, halves, offset = [], [], 0
    for parameter_name, parameter in model.named_parameters():
        parameters.append({"name": parameter_name, "shape": parameter.data.shape, "offset": offset})
        bits = parameter.data.astype(np.float32).view(np.uint32) >> 16
        halves.append(bits.astype(np.uint16).ravel())
        offset += parameter.data.size
    config = json.loads(json.dumps(dataclasses.asdict(model.config)))
    weights = packed(np.concatenate(halves))
    title = {"en": name, "ko": name}
    return {
        "name": name, "title": title, "config": config, "parameters": parameters,
        "dtype": "bfloat16", "weights": weights, "tokenizer": 0,
    }  # fmt: skip


def packed(halves):
    """Numbers of 16 bits as base64 of deflated bytes: all low ones, then all high ones."""
    planes = np.concatenate([halves & 255, halves >> 8]).astype(np.uint8)
    return base64.b64encode(zlib.compress(planes.tobytes())).decode("ascii")


def expected_values(model, ids, targets):
    """(loss, {name: (value, gradient)}) of one text by NumPy: of every activation and of every parameter."""
    calls, spy = _spy()
    model.zero_grad()
    with ops.using(spy):
        loss, cache = model.loss(np.array([ids]), np.array([targets]))
        model.loss_backward(cache)
    values = _activations(calls, model)
    for name, parameter in model.named_parameters():
        values[name] = (parameter.data, parameter.grad)
    return float(loss), values


def _spy():
    """Reference operations that write down what comes in and out: {op: [(inputs, out, cache)], "op back": [...]}."""
    calls = {}
    spy = types.SimpleNamespace()
    for op, module in SPIED.items():
        calls[op], calls[f"{op} back"] = [], []
        forward, backward = getattr(module, f"{op}_forward"), getattr(module, f"{op}_backward")
        setattr(spy, f"{op}_forward", _written_down(forward, calls[op]))
        setattr(spy, f"{op}_backward", _written_down(backward, calls[f"{op} back"]))
    return calls, spy


def _written_down(function, found):
    @functools.wraps(function)
    def call(*args, **options):
        result = function(*args, **options)
        found.append((args, result))
        return result

    return call


def _activations(calls, model):
    """{name: (value, gradient)} of the activations, by the names of the explorer."""
    linears = _pairs(calls, "linear")
    norms = _pairs(calls, "layernorm")
    gelus = _pairs(calls, "gelu")
    (tokens, dtokens), (positions, dpositions) = [(one[1], one[2]) for one in _pairs(calls, "embedding")]
    values = {"tokens": (tokens[0], dtokens[0]), "positions": (positions, dpositions)}
    before_norm = model.config.model_type == "gpt2"
    first = norms[0] if before_norm else linears[0]
    values["x"] = (first[0][0][0], dtokens[0])
    for i in range(model.config.n_layer):
        c_attn, c_proj, _, mlp_proj = linears[4 * i : 4 * i + 4]
        ln_1, ln_2 = norms[2 * i : 2 * i + 2]
        block = {
            "ln_1": (ln_1[1], ln_1[2]),
            "ln_2": (ln_2[1], ln_2[2]),
            "attn.qkv": (c_attn[1], c_attn[2]),
            **_scores(calls, i, model.config.n_layer),
            "attn.heads": (c_proj[0][0], c_proj[3][0]),
            "attn": (c_proj[1], c_proj[2]),
            "mlp.f": (gelus[i][0][0], gelus[i][3]),
            "mlp.a": (gelus[i][1], gelus[i][2]),
            "mlp": (mlp_proj[1], mlp_proj[2]),
        }
        if before_norm:
            block["x_attn"] = (ln_2[0][0], c_proj[2])
            block["x"] = (norms[2 * i + 2][0][0], mlp_proj[2])
        else:
            block["x_attn"] = (ln_1[0][0], ln_1[3][0])
            block["x_mlp"] = (ln_2[0][0], ln_2[3][0])
        for name, (value, gradient) in block.items():
            values[f"h.{i}.{name}"] = (value[0], gradient[0])
    if before_norm:
        values["ln_f"] = (norms[-1][1][0], norms[-1][2][0])
    values["logits"] = (linears[-1][1][0], linears[-1][2][0])
    return values


def _pairs(calls, op):
    """[(inputs, out, dout, gradients)] of each use of an operation, in the order of the forward pass."""
    pairs = []
    for (inputs, (out, _)), ((dout, _), gradients) in zip(calls[op], reversed(calls[f"{op} back"]), strict=True):
        pairs.append((inputs, out, dout, gradients))
    return pairs


def _scores(calls, i, n_layer):
    """The scores and the probabilities of block i, which attention does not give out: computed once more."""
    (q, k, v, *_), (_, cache) = calls["attention"][i]
    (dout, _), _ = calls["attention back"][n_layer - 1 - i]
    t = q.shape[-2]
    s = np.where(np.tri(t, dtype=bool), q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    dp = dout @ v.swapaxes(-1, -2)
    ds = cache.p * (dp - (cache.p * dp).sum(axis=-1, keepdims=True))
    return {"attn.s": (s, ds), "attn.p": (cache.p, dp)}
