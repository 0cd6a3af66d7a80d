"""Rotary positions in a model (Su et al. 2021): the angles of each place, and attention whose keys and queries turn."""

import math
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError, check_number, check_whole, shown
from minigpt.nn import Attention, Cache, Linear, Past
from minigpt.ops.random_keys import Key, fold

Turns = tuple[Array, Array]  # cosines and sines (T,R) or (B,T,R)

SCALINGS = {  # how the frequencies of a longer context follow from those of pre-training -> the numbers that it needs
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
HAVE_OTHERS = {  # published models with another one
    "dynamic": "some LLaMA 2 fine-tuned on longer texts",
    "yarn": "Qwen2.5 and DeepSeek with long contexts",
    "longrope": "Phi-3 with long contexts",
}


def scaling_in(values: dict) -> dict[str, Any] | None:
    """What a config.json says of scaled frequencies, under the keys of `SCALINGS`; None where they are not scaled.

    Old files have `rope_scaling` with `type`, files of transformers 5 `rope_parameters` with `rope_type`. Raises
    InputError for a scaling that is not built here, and for numbers that are missing or out of range.
    """
    given = values.get("rope_scaling") or values.get("rope_parameters")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InputError(f"config.json has rope_scaling {shown(given)}: give an object such as {{'type': 'linear'}}")
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return None
    if kind not in SCALINGS:
        whose = f", as {HAVE_OTHERS[kind]} have it" if kind in HAVE_OTHERS else ""
        built = ", ".join(SCALINGS)
        raise InputError(f"config.json has the rope_type {shown(kind)}{whose}: built here are {built}")
    numbers = {name: given.get(name) for name in SCALINGS[kind]}
    if "original_max_position_embeddings" in numbers and numbers["original_max_position_embeddings"] is None:
        numbers["original_max_position_embeddings"] = values.get("max_position_embeddings")
    return {"rope_type": kind} | numbers


def check_scaling(scaling: Any) -> None:
    """Raises InputError for scaled frequencies that are not as `scaling_in` gives them."""
    if scaling is None:
        return
    if not isinstance(scaling, dict) or scaling.get("rope_type") not in SCALINGS:
        raise InputError(f"rope_scaling is {shown(scaling)}: give {{'rope_type': 'linear', 'factor': 2.0}}, or None")
    for name in SCALINGS[scaling["rope_type"]]:
        value = scaling.get(name)
        if name == "original_max_position_embeddings":
            check_whole(f"rope_scaling: {name}", value, "the context of pre-training, 1 or more", least=1)
        else:
            check_number(f"rope_scaling: {name}", value, "a number above 0", above=0)
    if scaling["rope_type"] == "llama3" and scaling["low_freq_factor"] >= scaling["high_freq_factor"]:
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        raise InputError(f"rope_scaling: low_freq_factor {low} and high_freq_factor {high}: the first must be smaller")


def frequencies(size: int, theta: float, scaling: dict[str, Any] | None = None) -> np.ndarray:
    """(R,) float64: by what angle each of the R = size / 2 pairs of columns, rounded up, turns from place to place

    The first pair turns by 1, the last one by little more than 1 / theta (Su et al. 2021, equation 15).

    scaling: None; "linear": all turn more slowly by a factor (Chen et al. 2023, position interpolation); "llama3":
    only those whose wave is long for the context of pre-training do, and those between go over smoothly (Llama 3.1).
    """
    turns = theta ** -(np.arange(0, size, 2) / size)
    if scaling is None:
        return turns
    factor = scaling["factor"]
    if scaling["rope_type"] == "linear":
        return turns / factor
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wave = 2 * math.pi / turns  # places for one whole turn
    waves_in_context = scaling["original_max_position_embeddings"] / wave
    kept = (waves_in_context - low) / (high - low)  # 1 for short waves, 0 for long ones
    kept = np.clip(kept, 0, 1)
    return kept * turns + (1 - kept) * turns / factor


def turns_at(positions: Array, frequencies: np.ndarray, dtype) -> Turns:
    """positions (T,) or (B,T) int, frequencies (R,) -> cosines and sines (T,R) or (B,T,R) of the angles

    The angles are computed in float64: in float32 an angle of 2,000 is wrong by 1e-4.
    """
    xp = array_module(positions)
    angles = positions[..., None] * xp.asarray(frequencies)
    return xp.cos(angles).astype(dtype), xp.sin(angles).astype(dtype)


class RotaryAttention(Attention):
    """Self-attention whose queries and keys turn with their place, with fewer heads of keys and values than of queries.

    config: n_embd, n_head, n_kv_head, head_size, qkv_bias, proj_bias, attn_pdrop, resid_pdrop, initializer_range.
    """

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, size = config.n_embd, config.head_size
        self.n_turned = config.n_head + config.n_kv_head  # heads of queries and keys; those of values do not turn
        width = (self.n_turned + config.n_kv_head) * size
        self.c_attn = Linear(c, width, rng, config.initializer_range, dtype, bias=config.qkv_bias)
        self.c_proj = Linear(config.n_head * size, c, rng, proj_std, dtype, bias=config.proj_bias)
        self.config = config

    def forward(
        self, x: Array, past: Past | None = None, key: Key | None = None, grad: bool = True, mask: Array | None = None,
        *, turns: Turns,
    ) -> tuple[Array, Cache]:  # fmt: skip
        """x (B,T,C) -> out (B,T,C). turns: of the places of x, see `turns_at`. The past holds keys that have turned."""
        config = self.config
        before = None
        if past is not None:
            before = past.read()
            if mask is None:
                mask = past.mask(x.shape[1])

        cache = Cache(self, grad)
        qkv = cache.keep("qkv", self.c_attn.forward(x))
        b, t, _ = qkv.shape
        heads = qkv.reshape(b, t, -1, config.head_size)
        cos, sin = turns
        heads = cache.keep("rope", ops.rope_forward(heads, cos=cos, sin=sin, heads=self.n_turned))
        attention = ops.self_attention_forward(
            heads.reshape(b, t, -1),
            config.n_head,
            n_kv_head=config.n_kv_head,
            mask=mask,
            past=before,
            rate=config.attn_pdrop,
            key=fold(key, 0),
            grad=grad,
        )
        read = cache.keep("heads", attention)
        out = cache.keep("proj", self.c_proj.forward(read))
        out = cache.keep("dropout", ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1)))

        if past is not None:
            k = heads[:, :, config.n_head : self.n_turned]
            v = heads[:, :, self.n_turned :]
            past.extend(k.swapaxes(1, 2), v.swapaxes(1, 2))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dread = self.c_proj.backward(dout, cache.pop("proj"))
        dqkv, _ = ops.self_attention_backward(dread, cache.pop("heads"))
        b, t, width = dqkv.shape
        dheads = dqkv.reshape(b, t, -1, self.config.head_size)
        dheads = ops.rope_backward(dheads, cache.pop("rope"))
        return self.c_attn.backward(dheads.reshape(b, t, width), cache.pop("qkv"))
