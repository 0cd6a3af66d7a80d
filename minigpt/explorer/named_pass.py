"""One pass, forward and backward, in which every value has a name, as on the page.

It is one of GPT-1, of GPT-2, of an encoder made of GPT-1's blocks, such as BERT, or of a decoder such as LLaMA.

The modules of the model are watched while they compute: what goes in and out of each, and which gradients come back.
What lies inside of attention and of the MLP, between two modules, is computed once more from that.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.models.family import rotary
from minigpt.models.family.decoder import Decoder
from minigpt.models.family.layers import GatedMLP
from minigpt.models.gpt1 import Block
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Module

TABLES = ("tokens", "positions", "segments")  # the embeddings, in the sequence of `model.embeddings`


class Value(NamedTuple):
    """A value of the forward pass, and the gradient of the loss with respect to it, of the same shape.

    gradient: None for a body without a head for words, which has no loss.
    """

    value: Array
    gradient: Array | None


class NamedPass(NamedTuple):
    """loss: in nats; logits (T,V); values: by name, in the order of the forward pass, without parameters.

    loss, logits: None for a body without a head for words.
    """

    loss: float | None
    logits: Array | None
    values: dict[str, Value]


class Seen:
    """What went in and out of a module: it was given x and dout, and returned out and dx."""

    x: Array
    out: Array
    dout: Array
    dx: Array


def named_pass(model: LanguageModel, ids: list[int], targets: list[int]) -> NamedPass:
    """Run a model forward and backward; the gradients of the parameters are left in them.

    ids, targets: T numbers each, of which a target of -100 is not predicted. The loss is the mean over the others.
    """
    model.zero_grad()
    with ops.using("reference"), watching(_modules(model)) as seen:
        logits, cache = model.forward(np.array([ids]))
        loss, of_loss = ops.cross_entropy_forward(logits, np.array([targets]))
        dlogits = ops.cross_entropy_backward(1.0, of_loss)
        model.backward(dlogits, cache)
        values = _values(model, seen)
        values["logits"] = Value(logits, dlogits)
    one_row = {name: Value(both.value[0], both.gradient[0]) for name, both in values.items()}
    return NamedPass(float(loss), logits[0], one_row)


def named_states(model: LanguageModel, ids: list[int]) -> NamedPass:
    """Run a body without a head for words forward; ids: T numbers. The gradients of its parameters are forgotten."""
    with ops.using("reference"), watching(_modules(model)) as seen:
        h, cache = model.hidden(np.array([ids]))
        model.hidden_backward(np.zeros_like(h), cache)  # what is named is looked for on the way back
        values = _values(model, seen)
    model.zero_grad()
    return NamedPass(None, None, {name: Value(both.value[0], None) for name, both in values.items()})


def stream_names(model: LanguageModel) -> list[str]:
    """The names of the residual stream: after the embeddings, and after each block."""
    last = "ln_2" if is_post_norm(model) else "x"
    return ["x", *(f"h.{i}.{last}" for i in range(len(model.h)))]


# --- watching --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watching(modules: dict[str, Module]) -> Iterator[dict[str, Seen]]:
    """Inside, the forward and backward of these modules are watched. Yields what was seen of each, by its name."""
    seen = {name: Seen() for name in modules}
    try:
        for name, module in modules.items():
            module.forward = functools.partial(_forward, seen[name], module.forward)
            module.backward = functools.partial(_backward, seen[name], module.backward)
        yield seen
    finally:
        for module in modules.values():
            vars(module).pop("forward", None)
            vars(module).pop("backward", None)


def _forward(seen: Seen, method: Callable, x: Array, *more: Any, **options: Any) -> tuple[Array, Any]:
    seen.x = x
    seen.out, cache = method(x, *more, **options)
    return seen.out, cache


def _backward(seen: Seen, method: Callable, dout: Array, cache: Any) -> Array:
    seen.dout = dout
    seen.dx = method(dout, cache)
    return seen.dx


def is_post_norm(model: LanguageModel) -> bool:
    """Is it made of GPT-1's blocks, which normalise after each addition?"""
    return isinstance(model.h[0], Block)


def _modules(model: LanguageModel) -> dict[str, Module]:
    """The modules whose inputs and outputs, taken together, give every value or what it is computed from."""
    found: dict[str, Any] = dict(zip(TABLES, model.embeddings, strict=False))
    blocks: Sequence[Any] = model.h
    for i, block in enumerate(blocks):
        name = f"h.{i}"
        found |= {name: block, f"{name}.ln_1": block.ln_1, f"{name}.ln_2": block.ln_2, f"{name}.mlp": block.mlp}
        attention = block.attn
        found |= {f"{name}.attn": attention, f"{name}.c_attn": attention.c_attn, f"{name}.c_proj": attention.c_proj}
    if hasattr(model, "ln_f"):
        found["ln_f"] = model.ln_f
    return found


# --- naming ----------------------------------------------------------------------------------------------------------


def _values(model: LanguageModel, seen: dict[str, Seen]) -> dict[str, Value]:
    """Every value but the logits, with a first axis of length 1."""
    found = {}
    for table in TABLES:
        if table in seen:
            out, dout = seen[table].out, seen[table].dout
            found[table] = Value(out.reshape(dout.shape), dout)  # of positions (T,C), which all rows share, too
    first = seen["h.0"]
    found["x"] = Value(first.x, first.dx)
    blocks: Sequence[Any] = model.h
    for i, block in enumerate(blocks):
        found |= _of_block(model, block, f"h.{i}", seen)
    if "ln_f" in seen:
        found["ln_f"] = _out(seen["ln_f"])
    return found


def _of_block(model: LanguageModel, block: Any, name: str, seen: dict[str, Seen]) -> dict[str, Value]:
    """The values of a block, in the order of the forward pass."""
    whole, ln_1, ln_2 = seen[name], seen[f"{name}.ln_1"], seen[f"{name}.ln_2"]
    attention = _of_attention(model, block, name, seen)
    mlp = _of_gated_mlp(block, name, seen) if isinstance(block.mlp, GatedMLP) else _of_mlp(block, name, seen)
    if is_post_norm(model):  # GPT-1: the stream is normalised after each addition
        found = attention
        found[f"{name}.x_attn"] = Value(ln_1.x, ln_1.dx)
        found[f"{name}.ln_1"] = _out(ln_1)
        found |= mlp
        found[f"{name}.x_mlp"] = Value(ln_2.x, ln_2.dx)
        found[f"{name}.ln_2"] = _out(ln_2)
        return found
    found = {f"{name}.ln_1": _out(ln_1)} | attention  # GPT-2: the stream is only added to
    if not getattr(block, "is_parallel", False):  # in GPT-NeoX attention and MLP read one stream: no sum lies between
        dx_attn = ops.add(whole.dout, ln_2.dx)  # x_attn goes two ways: straight on, and through the MLP
        found[f"{name}.x_attn"] = Value(ln_2.x, dx_attn)
    found[f"{name}.ln_2"] = _out(ln_2)
    found |= mlp
    found[f"{name}.x"] = _out(whole)
    return found


def _out(seen: Seen) -> Value:
    return Value(seen.out, seen.dout)


def _heads(model: LanguageModel, block: Any, qkv: Array) -> tuple[Array, Array, Array]:
    """qkv (1,T,*) -> q, k, v, each (1,NH,T,D): of a decoder q and k have turned, and heads share keys and values."""
    config = model.config
    if not isinstance(model, Decoder):
        q, k, v = (ops.split_heads(part, config.n_head) for part in np.split(qkv, 3, axis=-1))
        return q, k, v
    b, t, _ = qkv.shape
    heads = qkv.reshape(b, t, -1, config.head_size)
    cos, sin = rotary.turns_at(np.arange(t), model.frequencies, qkv.dtype)
    heads, _ = ops.rope_forward(heads, cos=cos, sin=sin, heads=block.attn.n_turned)
    q, k, v = np.split(heads.swapaxes(1, 2), [config.n_head, block.attn.n_turned], axis=1)
    queries_of_a_key = config.n_head // config.n_kv_head
    return q, np.repeat(k, queries_of_a_key, axis=1), np.repeat(v, queries_of_a_key, axis=1)


def _pairs_seen(model: LanguageModel, t: int) -> Array:
    """(T,T) boolean, True where a query sees a key."""
    if not model.learns_the_next_token:
        return np.ones((t, t), bool)
    window = model.seen(t, None) if isinstance(model, Decoder) else None
    return np.tril(np.ones((t, t), bool)) if window is None else window.reshape(t, t)


def _of_attention(model: LanguageModel, block: Any, name: str, seen: dict[str, Seen]) -> dict[str, Value]:
    """From the packed queries, keys and values to the output: scores s and probabilities p are (1,NH,T,T)."""
    qkv, proj = seen[f"{name}.c_attn"], seen[f"{name}.c_proj"]
    q, k, v = _heads(model, block, qkv.out)
    t, d = q.shape[-2:]
    scale = block.attn.scale or 1 / math.sqrt(d)
    s = np.where(_pairs_seen(model, t), q @ k.swapaxes(-1, -2) * scale, -math.inf)
    s = s.astype(q.dtype)
    p, of_softmax = ops.softmax_forward(s)
    # heads = p @ v
    dheads = ops.split_heads(proj.dx, model.config.n_head)
    dp = dheads @ v.swapaxes(-1, -2)
    # p = softmax(s)
    ds = ops.softmax_backward(dp, of_softmax)
    return {
        f"{name}.attn.qkv": _out(qkv),
        f"{name}.attn.s": Value(s, ds),
        f"{name}.attn.p": Value(p, dp),
        f"{name}.attn.heads": Value(proj.x, proj.dx),
        f"{name}.attn": _out(seen[f"{name}.attn"]),
    }


def _of_mlp(block: Any, name: str, seen: dict[str, Seen]) -> dict[str, Value]:
    """f, before the function inside, and a, after it, are (1,T,4C), or as wide as the configuration says."""
    whole = seen[f"{name}.mlp"]
    up, down = block.mlp.c_fc, block.mlp.c_proj
    activation = getattr(block.mlp.config, "activation", "gelu")
    act_forward, act_backward = (getattr(ops, f"{activation}_{way}") for way in ("forward", "backward"))
    bias = None if up.bias is None else up.bias.value
    f, _ = ops.linear_forward(whole.x, up.weight.value, bias)
    a, act = act_forward(f)
    # mlp = a @ w + b
    da = whole.dout @ down.weight.value.T
    # a = act(f)
    df = act_backward(da, act)
    return {f"{name}.mlp.f": Value(f, df), f"{name}.mlp.a": Value(a, da), f"{name}.mlp": _out(whole)}


def _of_gated_mlp(block: Any, name: str, seen: dict[str, Seen]) -> dict[str, Value]:
    """f, the gate before its function, up, what it lets through, and a, their product, are (1,T,F)."""
    whole = seen[f"{name}.mlp"]
    mlp = block.mlp
    act_forward, act_backward = (getattr(ops, f"{mlp.config.activation}_{way}") for way in ("forward", "backward"))
    f, _ = ops.linear_forward(whole.x, mlp.gate.weight.value)
    up, _ = ops.linear_forward(whole.x, mlp.up.weight.value)
    gate, act = act_forward(f)
    # mlp = a @ down
    da = whole.dout @ mlp.down.weight.value.T
    # a = act(f) * up
    df = act_backward(da * up, act)
    values = {"f": Value(f, df), "up": Value(up, da * gate), "a": Value(gate * up, da)}
    return {f"{name}.mlp.{part}": value for part, value in values.items()} | {f"{name}.mlp": _out(whole)}
