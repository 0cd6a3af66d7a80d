"""The formulas on the pages of the operations, line by line, are those that the operations compute."""

import math
import tomllib
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from minigpt import ops
from minigpt.ops import reference
from minigpt.ops.cases import NAMES, axes_of, case
from minigpt.ops.random_keys import keep_mask

ROOT = Path(__file__).parents[1]
SITE = ROOT / "lessons" / "site" / "formulas.toml"
NUMPY = Path(__file__).with_name("formulas_in_numpy.toml")
SHOWN = tomllib.loads(SITE.read_text(encoding="utf-8"))
LINES = tomllib.loads(NUMPY.read_text(encoding="utf-8"))  # {operation: {"forward": [[tex, numpy], ...], "backward"}}
DEFAULTS = {"weights": 1.0, "normalizer": None, "mask": None, "scale": None, "bias": 0.0, "b": 0.0, "b1": 0.0,
            "b2": 0.0, "rate": 0.0, "key": None, "temperature": 1.0}  # fmt: skip
ACTIVATION = {"mlp": "gelu", "gated_mlp": "silu"}  # where no other is named
EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6, "cosine_loss": 1e-12}
OF_A_STEP = {"forward": 5, "backward": 6}  # so many lines of the LSTM are those of one step
LEFT_OUT = {"dropout, evaluation", "self_attention, past"}  # what the formulas do not have
LEFT_OUT |= {"self_attention, one key head", "self_attention, groups", "self_attention, groups and mask",
             "self_attention, groups and past"}  # the formulas have a head of keys for each of queries
LEFT_OUT |= {"self_attention, dropout", "cross_attention, dropout"}  # one key drops in all heads at once


@pytest.mark.parametrize("op", ops.names)
def test_every_line_of_a_formula_has_its_statement(op):
    for way in ("forward", "backward"):
        assert [tex for tex, _ in LINES[op][way]] == SHOWN[op][way].strip().splitlines(), (op, way)


def last(x):
    """The sum over the last axis, which stays."""
    return x.sum(axis=-1, keepdims=True)


def mean(x):
    """The mean over the last axis, which stays."""
    return x.mean(axis=-1, keepdims=True)


def softmax(s):
    """A row of -inf, of a query that may see nothing, gets 0."""
    e = np.exp(s)
    return np.divide(e, last(e), out=np.zeros_like(e), where=last(e) > 0)


def visible(mask, t, keys):
    """The mask, or the causal one."""
    return np.arange(keys) <= np.arange(t)[:, None] + (keys - t) if mask is None else mask


def added_at(bias, ds):
    """Each number of a bias gets the sum over the places where it was added."""
    if np.ndim(bias) == 0:
        return None
    number = np.broadcast_to(np.arange(bias.size).reshape(bias.shape), ds.shape)
    return np.bincount(number.ravel(), ds.ravel(), bias.size).reshape(bias.shape)


def dropout(x, rate, key):
    """The same elements are kept by the same key."""
    return x if key is None else x * keep_mask(key, rate, x.shape, np) / (1 - rate)


def of_head(i, array):
    """What head i has of a mask or bias (B or 1,NH or 1,T,S), or (T,S) for all heads."""
    return array[:, min(i, array.shape[1] - 1)] if np.ndim(array) == 4 else array


def one_head(i, n_head, q, k, v, bias, mask, scale):
    """attention of head i, from its columns: its output and its cache"""
    q, k, v = (np.split(array, n_head, axis=-1)[i] for array in (q, k, v))
    bias = None if np.ndim(bias) == 0 else of_head(i, bias)
    return reference.attention_forward(q, k, v, bias, mask=of_head(i, mask), scale=scale)


def joined(heads, dout):
    """The gradients of queries, keys and values, the heads side by side; and that of the bias."""
    douts = np.split(dout, len(heads), axis=-1)
    of_heads = [reference.attention_backward(d, cache) for d, (_, cache) in zip(douts, heads, strict=True)]
    dq, dk, dv, dbias = zip(*of_heads, strict=True)
    dbias = None if dbias[0] is None else np.stack(dbias, axis=1)
    return [np.concatenate(parts, axis=-1) for parts in (dq, dk, dv)] + [dbias]


TOOLS = {
    "np": np, "T": lambda x: x.swapaxes(-1, -2), "last": last, "mean": mean, "softmax": softmax, "visible": visible,
    "added_at": added_at, "keep_mask": keep_mask, "joined": joined, "reference": reference,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "half": lambda x, n: np.split(x, 2, axis=-1)[n],
    "quarter": lambda x, n: np.split(x, 4, axis=-1)[n],
    "erf": np.vectorize(math.erf),
    "picked": lambda logits, targets: np.take_along_axis(logits, np.maximum(targets, 0)[:, None], axis=-1)[:, 0],
    "onehot": lambda targets, p: np.arange(p.shape[-1]) == targets[:, None],
}  # fmt: skip


def turning(x, cos, sin, pairing="halves", heads=None) -> dict:
    """For rope: the pairs of an array like x whose heads turn, and such pairs put together; the rest as it was."""
    n = x.shape[2] if heads is None else heads
    r = cos.shape[-1]
    first = np.arange(r) if pairing == "halves" else 2 * np.arange(r)
    second = first + (r if pairing == "halves" else 1)
    whole = []

    def pairs(array):
        whole.append(array)
        return array[:, :, :n, first], array[:, :, :n, second]

    def together(a, b):
        out = whole.pop().copy()
        out[:, :, :n, first], out[:, :, :n, second] = a, b
        return out

    return {"pairs": pairs, "together": together, "cos": cos[..., None, :], "sin": sin[..., None, :]}


def act(name):
    """The function of this name inside an MLP, and its slope."""
    forward, backward = (getattr(reference, f"{name}_{way}") for way in ("forward", "backward"))
    return {"act": lambda f: forward(f)[0], "act_slope": lambda f: backward(np.ones_like(f), forward(f)[1])}


def names_of(tried) -> dict:
    """All names that the statements of a case know at first. Before the first step and after the last stand zeros."""
    names = TOOLS | DEFAULTS | {"eps": EPS.get(tried.op)}
    given = tried.args | tried.constants
    names |= {name: value for name, value in given.items() if value is not None}
    if tried.op in ACTIVATION:
        names |= act(given.get("activation", ACTIVATION[tried.op]))
    if tried.op in ("soft_cross_entropy", "cosine_loss", "cross_entropy", "linear_cross_entropy"):
        rows = len(tried.args.get("targets", next(iter(tried.args.values()))))
        names["weights"] = names["weights"] * np.ones(rows)
    if tried.op == "rope":
        names |= turning(**given)
    if tried.op == "lstm":
        h, c = np.split(names["state"], 2, axis=-1)
        steps = range(names["x"].shape[1])
        after = {name: defaultdict(float) for name in ("z", "i", "f", "g", "o", "dx")}
        dz, dc = ({len(steps): np.zeros_like(part)} for part in (np.tile(h, 4), c))
        names |= after | {"h": {-1: h}, "c": {-1: c}, "dz": dz, "dc": dc, "steps": steps}
        names["f"][len(steps)] = 0.0
    names["dropout"] = lambda x: dropout(x, names["rate"], names["key"])
    names["attention"] = lambda i, q, k, v: one_head(
        i, names["n_head"], q, k, v, names["bias"], names["mask"], names["scale"]
    )
    return names


def run(op: str, way: str, names: dict) -> None:
    """Run the statements of one pass."""
    statements = [statement for _, statement in LINES[op][way]]
    if op == "lstm":
        steps = names["steps"]
        for t in steps if way == "forward" else reversed(steps):
            for statement in statements[: OF_A_STEP[way]]:
                exec(statement, names | {"t": t}, names)
        statements = statements[OF_A_STEP[way] :]
    for statement in statements:
        exec(statement, names)


TRIED = [name for name in NAMES if name not in LEFT_OUT]


@pytest.mark.parametrize("name", TRIED)
def test_formulas_compute_what_the_operation_computes(name):
    tried = case(name, min(axes_of(name)))
    pair = (getattr(reference, f"{tried.op}_{way}") for way in ("forward", "backward"))
    dout, expected = tried.run_both(*pair)
    names = names_of(tried)
    run(tried.op, "forward", names)
    out = expected.pop("out")
    if tried.op == "lstm":
        h, c = (np.stack([names[part][t] for t in names["steps"]], axis=1) for part in "hc")
        names["out"] = np.concatenate([h, c], axis=-1)
    np.testing.assert_allclose(names["loss" if np.ndim(out) == 0 else "out"], out, rtol=1e-12, atol=1e-12)
    names |= {"dout": dout, "dloss": dout}
    run(tried.op, "backward", names)
    if tried.op == "lstm":
        names["dx"] = np.stack([names["dx"][t] for t in names["steps"]], axis=1)
    assert expected
    for argument, gradient in expected.items():
        np.testing.assert_allclose(names[f"d{argument}"], gradient, rtol=1e-9, atol=1e-12, err_msg=f"d{argument}")
