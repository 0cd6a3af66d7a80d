"""One pass, forward and backward, in which every value has a name, as on the page: of GPT-1, of GPT-2, or of an encoder
that is made of GPT-1's blocks, such as BERT.

The modules of the model are watched while they compute: what goes in and out of each, and which gradients come back.
What lies inside of attention and of the MLP, between two modules, is computed once more from that.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
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
    found = dict(zip(TABLES, model.embeddings, strict=False))
    for i, block in enumerate(model.h):
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
    of_block = _of_gpt1 if is_post_norm(model) else _of_gpt2
    for i, block in enumerate(model.h):
        attention = _of_attention(block, f"h.{i}", seen, not model.learns_the_next_token)
        found |= of_block(f"h.{i}", seen, attention, _of_mlp(block, f"h.{i}", seen))
    if "ln_f" in seen:
        found["ln_f"] = _out(seen["ln_f"])
    return found


def _of_gpt1(
    name: str, seen: dict[str, Seen], attention: dict[str, Value], mlp: dict[str, Value]
) -> dict[str, Value]:
    """The values of a block of GPT-1: the stream is normalised after each addition."""
    ln_1, ln_2 = seen[f"{name}.ln_1"], seen[f"{name}.ln_2"]
    return {
        **attention,
        f"{name}.x_attn": Value(ln_1.x, ln_1.dx),
        f"{name}.ln_1": _out(ln_1),
        **mlp,
        f"{name}.x_mlp": Value(ln_2.x, ln_2.dx),
        f"{name}.ln_2": _out(ln_2),
    }


def _of_gpt2(
    name: str, seen: dict[str, Seen], attention: dict[str, Value], mlp: dict[str, Value]
) -> dict[str, Value]:
    """The values of a block of GPT-2: the stream is only added to."""
    whole, ln_2 = seen[name], seen[f"{name}.ln_2"]
    # x_attn goes two ways: straight on, and through the MLP
    dx_attn = ops.add(whole.dout, ln_2.dx)
    return {
        f"{name}.ln_1": _out(seen[f"{name}.ln_1"]),
        **attention,
        f"{name}.x_attn": Value(ln_2.x, dx_attn),
        f"{name}.ln_2": _out(ln_2),
        **mlp,
        f"{name}.x": _out(whole),
    }


def _out(seen: Seen) -> Value:
    return Value(seen.out, seen.dout)


def _of_attention(block: Module, name: str, seen: dict[str, Seen], sees_both_sides: bool) -> dict[str, Value]:
    """From the packed queries, keys and values to the output: scores s and probabilities p are (1,NH,T,T)."""
    qkv, proj = seen[f"{name}.c_attn"], seen[f"{name}.c_proj"]
    n_head = block.attn.config.n_head
    q, k, v = (ops.split_heads(part, n_head) for part in np.split(qkv.out, 3, axis=-1))
    t, d = q.shape[-2:]
    scale = block.attn.scale or 1 / math.sqrt(d)
    s = q @ k.swapaxes(-1, -2) * scale
    if not sees_both_sides:
        s = np.where(np.tril(np.ones((t, t), bool)), s, -math.inf)
    s = s.astype(q.dtype)
    p, of_softmax = ops.softmax_forward(s)
    # heads = p @ v
    dheads = ops.split_heads(proj.dx, n_head)
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


def _of_mlp(block: Module, name: str, seen: dict[str, Seen]) -> dict[str, Value]:
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
