"""Mistral 7B (Jiang et al. 2023): LLaMA whose positions see the last W only, a window that slides (section 2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.errors import check_whole
from minigpt.models.card import Card
from minigpt.models.config_file import ONLY
from minigpt.models.family import llama
from minigpt.models.family.decoder import Decoder, DecoderConfig
from minigpt.models.family.forms import Layout
from minigpt.nn import Past
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import GPT2Tokenizer


@dataclass(frozen=True, kw_only=True)
class MistralConfig(DecoderConfig):
    """Sizes and rates; the defaults are those of Mistral 7B, version 0.1, but for its 8 heads of keys.

    sliding_window: how many keys a position sees, its own included; None: all before it, as from version 0.2 on.
    """

    keys: ClassVar[dict[str, str]] = llama.KEYS
    architecture: ClassVar[str] = "MistralForCausalLM"
    layout: ClassVar[Layout] = llama.LAYOUT._replace(prefix="Mistral")
    only: ClassVar[dict[str, Any]] = ONLY
    left_out: ClassVar[dict[str, Any]] = {"num_key_value_heads": 8, "rms_norm_eps": 1e-6}

    model_type: str = "mistral"
    vocab_size: int = 32000
    n_positions: int = 32768
    n_embd: int = 4096
    n_layer: int = 32
    n_head: int = 32
    n_inner: int = 14336
    layer_norm_epsilon: float = 1e-5
    sliding_window: int | None = 4096

    def __post_init__(self):
        super().__post_init__()
        if self.sliding_window is not None:
            check_whole("sliding_window", self.sliding_window, "how many keys are seen, 1 or more, or None", least=1)

    def to_dict(self) -> dict:
        """For a config.json."""
        values = super().to_dict()
        del values["qkv_bias"], values["proj_bias"]
        return values


class Mistral(Decoder):
    """Mistral. What a position knows of what lies further back than its window has come through the blocks below."""

    Config = MistralConfig
    block = llama.LlamaBlock

    def seen(self, t: int, past: list[Past] | None) -> Array | None:
        """(T,T): each position sees the last ones of its window. With a past its own mask says so."""
        window = self.config.sliding_window
        if past or window is None or t <= window:
            return None
        key = array_module(self.head.data).arange(t)
        query = key[:, None]
        return (key <= query) & (key > query - window)

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None) -> list[Past]:
        """As `LanguageModel.new_past`: its positions see the last ones of their window."""
        pasts = super().new_past(capacity, padding)
        window = self.config.sliding_window
        if window is None:
            return pasts
        return [WindowPast(one.capacity, one.padding, window) for one in pasts]


class WindowPast(Past):
    """A key-value cache of which each position sees the last ones of its window; all are kept. window: how many."""

    def __init__(self, capacity: int, padding: Array | None, window: int):
        super().__init__(capacity, padding)
        self.window = window

    def mask(self, t: int) -> Array | None:
        """(1,1,T,S) or (B,1,T,S) boolean; None where the window hides nothing."""
        end = self.length + t
        mask = super().mask(t)
        if end <= self.window:
            return mask
        xp = np if self.k is None else array_module(self.k)
        key = xp.arange(end)
        query = key[-t:, None]
        near = (key <= query) & (key > query - self.window)
        return near if mask is None else mask & near


SIZES = {
    "nano": {
        "n_layer": 4, "n_head": 4, "n_kv_head": 2, "n_embd": 128, "n_inner": 344, "n_positions": 64,
        "sliding_window": 16,
    },
    "mini": {
        "n_layer": 6, "n_head": 6, "n_kv_head": 2, "n_embd": 384, "n_inner": 1024, "n_positions": 256,
        "sliding_window": 64,
    },
    "7b": {"n_layer": 32, "n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_inner": 14336},
}  # fmt: skip

CARD = Card("mistral", Mistral, SIZES, usual_size="7b", tokenizer=GPT2Tokenizer, optimizer=AdamW)
