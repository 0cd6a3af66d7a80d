"""One more token of one text, for the decoders of this family: the numbers of `next_logits`, in less time.

Through modules and the table of operations a token of SmolLM2 takes 334 calls with their checks, and 1.30 times as long
as to read its weights once. Of a single row there is little to compute between two products. So here the same steps
stand in a row: nothing is kept for a backward pass, nothing is looked up, and what a step writes to is made once for a
text. The weights are read where they lie, and no copy of them is made.

The modules remain what is read, learned from and traced: they run wherever `problem` gives a reason, for a prompt, for
several texts, and while operations are replaced or traced.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.models.family.layers import GatedMLP, RMSNorm
from minigpt.models.family.rotary import RotaryAttention, turns_at
from minigpt.nn import MLP, Embedding, LayerNorm, Linear, Module, Past
from minigpt.nn.layers import inner_width
from minigpt.ops.fast.activations import ACTIVATIONS
from minigpt.ops.fast.pieces import accepts

LAYERS = (RotaryAttention, MLP, GatedMLP, LayerNorm, RMSNorm, Linear, Embedding)  # whose steps stand here
METHODS = {"forward", "hidden", "next_logits"}  # of a module: one that was replaced would not be called here


def problem(model, past: list[Past]) -> str | None:
    """Why this model, a `Decoder`, cannot go on with this past here; None where it can."""
    for kind in (type(model), type(model.h[0])):
        if not kind.__module__.startswith("minigpt."):
            return f"{kind.__name__} is not a class of this library"
    for module in _modules(model):
        name = type(module).__name__
        if METHODS & vars(module).keys():
            return f"a method of a {name} was replaced"
        if type(module) not in (*LAYERS, type(model), model.block):
            return f"the quicker step takes no {name}"
    if not model.tells_words:
        return "the model has no head for words"
    if type(past[0]) is not type(model.new_past(1)[0]):
        return "the quicker step takes no past but that of new_past()"
    if past[0].padding is not None:
        return "the quicker step takes no padding"
    return accepts(*(parameter.data for parameter in model.parameters()))


def _modules(module: Module) -> Iterator[Module]:
    """The module, and all modules inside it."""
    yield module
    for value in vars(module).values():
        inside = value if isinstance(value, list) else [value]
        for one in inside:
            if isinstance(one, Module):
                yield from _modules(one)


class TokenStep:
    """ids (1,1) -> logits (1,V) of a model, which goes on with a past. Each call writes to the same arrays again.

    C is the width, NH the heads of queries, G those of keys, D the size of a head, R the pairs of it that turn.
    """

    def __init__(self, model, past: list[Past]):
        config = model.config
        dtype = model.head.data.dtype
        self.model = model
        self.past = past
        self.window = getattr(config, "sliding_window", None) or config.n_positions  # keys that a position sees
        self.scale = config.head_size**-0.5
        self.activate = ACTIVATIONS[config.activation]
        self.stream = np.empty((1, config.n_embd), dtype)
        self.normed = np.empty_like(self.stream)
        self.from_attention = np.empty_like(self.stream)
        self.from_mlp = np.empty_like(self.stream)
        self.inner = np.empty((1, inner_width(config)), dtype)
        self.up = np.empty_like(self.inner)

        first_key = config.n_head
        first_value = first_key + config.n_kv_head
        n_pairs = len(model.frequencies)
        heads = np.empty((first_value + config.n_kv_head, config.head_size), dtype)  # of queries, keys and values
        groups = (1, config.n_kv_head, -1, config.head_size)
        self.qkv = heads.reshape(1, -1)
        self.q = heads[:first_key].reshape(groups)  # (1,G,NH/G,D): a group of queries meets the same keys
        self.k = heads[first_key:first_value].reshape(groups)
        self.v = heads[first_value:].reshape(groups)
        self.pairs = heads[:first_value, : 2 * n_pairs].reshape(first_value, 2, n_pairs)
        self.swapped = self.pairs[:, ::-1]
        self.turned = np.empty_like(self.pairs)
        self.aside = np.empty_like(self.pairs)
        self.read = np.empty_like(self.q)

    def takes(self, ids: np.ndarray) -> bool:
        """One token of one text, within the context, while the library itself chooses who computes?"""
        if ids.shape != (1, 1) or self.past[0].length >= self.model.config.n_positions:
            return False
        return ops.is_default() and self.model.seen(1, self.past) is None

    def __call__(self, ids: np.ndarray) -> Array:
        """ids (1,1) int -> logits (1,V)"""
        model = self.model
        x = self.stream
        x[:] = model.tokens_embed.weight.data[ids[0]]
        turns = self.turns()
        for block, past in zip(model.h, self.past, strict=True):
            is_parallel = getattr(block, "is_parallel", False)
            a = self.attention(self.norm(block.ln_1), block.attn, past, turns)
            if not is_parallel:
                x += a
            m = self.mlp(self.norm(block.ln_2), block.mlp)
            if is_parallel:
                x += a
            x += m
        return self.norm(model.ln_f) @ model.head.data.T

    def turns(self) -> tuple[Array, Array]:
        """Cosines (R,), and sines (2,R) with the signs of a pair's two parts, of the place of the token"""
        place = np.array([self.past[0].length])
        cos, sin = turns_at(place, self.model.frequencies, self.stream.dtype)
        return cos[0], np.concatenate([-sin, sin])

    def norm(self, norm: Any) -> Array:
        """The stream (1,C), normalised by an RMSNorm or a LayerNorm"""
        x = self.stream
        h = self.normed
        width = x.shape[1]
        if type(norm) is LayerNorm:
            mean = np.add.reduce(x, axis=1)[0] / width
            x = np.subtract(x, mean, out=h)
        mean_square = np.vecdot(x, x)[0] / width
        np.multiply(x, 1 / math.sqrt(mean_square + norm.eps), out=h)
        h *= norm.weight.data
        if type(norm) is LayerNorm:
            h += norm.bias.data
        return h

    def attention(self, x: Array, attention: RotaryAttention, past: Past, turns: tuple[Array, Array]) -> Array:
        """x (1,C) -> (1,C). The past gets the key and the value of the token."""
        linear(x, attention.c_attn, self.qkv)
        cos, sin = turns
        # (a, b) -> (a cos - b sin, b cos + a sin)
        np.multiply(self.pairs, cos, out=self.turned)
        np.multiply(self.swapped, sin, out=self.aside)
        np.add(self.turned, self.aside, out=self.pairs)
        past.extend(self.k, self.v)
        seen = slice(max(past.length - self.window, 0), past.length)
        k = past.k[:, :, seen]
        v = past.v[:, :, seen]

        self.q *= self.scale
        scores = self.q @ k.swapaxes(2, 3)  # (1,G,NH/G,S)
        scores -= np.maximum.reduce(scores, axis=3, keepdims=True)
        e = np.exp(scores, out=scores)
        total = np.add.reduce(e, axis=3, keepdims=True)
        np.matmul(e, v, out=self.read)
        self.read /= total
        return linear(self.read.reshape(1, -1), attention.c_proj, self.from_attention)

    def mlp(self, x: Array, mlp: Any) -> Array:
        """x (1,C) -> (1,C), through a GatedMLP or an MLP"""
        if type(mlp) is GatedMLP:
            inner = linear(x, mlp.gate, self.inner)
            self.activate(inner, inner, None)
            inner *= linear(x, mlp.up, self.up)
            return linear(inner, mlp.down, self.from_mlp)
        inner = linear(x, mlp.c_fc, self.inner)
        self.activate(inner, inner, None)
        return linear(inner, mlp.c_proj, self.from_mlp)


def linear(x: Array, layer: Linear, out: Array) -> Array:
    """x (1,I) -> out (1,O), which is overwritten. BLAS divides the product of one row among its threads."""
    np.matmul(x, layer.weight.data, out=out)
    if layer.bias is not None:
        out += layer.bias.data
    return out
