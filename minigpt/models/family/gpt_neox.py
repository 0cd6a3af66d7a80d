"""GPT-NeoX (Black et al. 2022), the form of Pythia and of Polyglot-ko: attention and MLP read the same stream at once.

LayerNorm and biases as in GPT-2; positions turn, in the first part of a head only; and a head of its own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.models.card import Card
from minigpt.models.config_file import ONLY
from minigpt.models.family.decoder import FORMS, SHARED_KEYS, Decoder, DecoderBlock, DecoderConfig
from minigpt.models.family.forms import Layout, in_layers
from minigpt.models.family.rotary import Turns
from minigpt.nn import MLP, Cache, LayerNorm, Past
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key
from minigpt.tokenizer import GPT2Tokenizer

KEYS = SHARED_KEYS | {  # key here -> that of a Hugging Face config.json
    "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout",
    "qkv_bias": "attention_bias",
}
LAYOUT = Layout(
    prefix="GPTNeoX",
    body="gpt_neox",
    modules={"tokens_embed": "embed_in", "ln_f": "final_layer_norm"},
    block=in_layers("layers.{}", {
        "ln_1": "input_layernorm",
        "attn.c_attn": "attention.query_key_value",
        "attn.c_proj": "attention.dense",
        "ln_2": "post_attention_layernorm",
        "mlp.c_fc": "mlp.dense_h_to_4h",
        "mlp.c_proj": "mlp.dense_4h_to_h",
    }),
    head="embed_out",
    forms=FORMS,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GPTNeoXConfig(DecoderConfig):
    """Sizes and rates; the defaults are those of Pythia 160M. In a config.json they have Hugging Face's keys.

    use_parallel_residual: do attention and MLP of a block read the same stream, or the MLP what attention has added to?
    """

    keys: ClassVar[dict[str, str]] = KEYS
    architecture: ClassVar[str] = "GPTNeoXForCausalLM"
    layout: ClassVar[Layout] = LAYOUT
    only: ClassVar[dict[str, Any]] = ONLY

    model_type: str = "gpt_neox"
    vocab_size: int = 50304
    n_positions: int = 2048
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    hidden_act: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    rotary_share: float = 0.25
    qkv_bias: bool = True
    proj_bias: bool = True
    use_parallel_residual: bool = True

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json, whose older files have rotary_emb_base and rotary_pct. Raises InputError as every one."""
        older = {"rope_theta": values.get("rotary_emb_base"), "rotary_share": values.get("rotary_pct")}
        given = {key: value for key, value in older.items() if value is not None}
        bias = values.get("attention_bias", True)
        return super().from_dict(given | {"proj_bias": bias} | values)

    def to_dict(self) -> dict:
        """For a config.json, with the keys of older programs too."""
        values = super().to_dict()
        for name in ("n_kv_head", "head_size", "proj_bias"):
            del values[name]
        return values | {"rotary_emb_base": self.rope_theta, "rotary_pct": self.rotary_share}


class NeoXBlock(DecoderBlock):
    """x = x + Attn(LN1(x)) + MLP(LN2(x)): both read the same x (section 2.1.2), so neither waits for the other."""

    norm = LayerNorm
    mlp_of = MLP

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        super().__init__(config, rng, dtype)
        self.is_parallel = config.use_parallel_residual

    def forward(
        self, x: Array, past: Past | None = None, key: Key | None = None, grad: bool = True, mask: Array | None = None,
        *, turns: Turns,
    ) -> tuple[Array, Cache]:  # fmt: skip
        """x (B,T,C) -> out (B,T,C)"""
        if not self.is_parallel:
            return super().forward(x, past, key, grad, mask, turns=turns)
        cache = Cache(self, grad)
        a = cache.keep("ln_1", self.ln_1.forward(x))
        a = cache.keep("attn", self.attn.forward(a, past, key, grad, mask, turns=turns))
        m = cache.keep("ln_2", self.ln_2.forward(x))
        m = cache.keep("mlp", self.mlp.forward(m, key, grad))
        return ops.add(ops.add(x, a), m), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        if not self.is_parallel:
            return super().backward(dout, cache)
        cache = self.own(cache)
        dm = self.mlp.backward(dout, cache.pop("mlp"))
        dm = self.ln_2.backward(dm, cache.pop("ln_2"))
        da = self.attn.backward(dout, cache.pop("attn"))
        da = self.ln_1.backward(da, cache.pop("ln_1"))
        return ops.add(ops.add(dout, da), dm)


class GPTNeoX(Decoder):
    """GPT-NeoX, Pythia and Polyglot-ko. seed: as for GPT1."""

    Config = GPTNeoXConfig
    block = NeoXBlock

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Files have queries, keys and values head by head: (NH,3,D) for the (3,NH,D) of this library."""
        apart = (3, self.config.n_head, self.config.head_size)
        return super().to_published(_rearranged(tensors, apart))

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round; newer programs call the head lm_head. Raises InputError as every model's does."""
        if "lm_head.weight" in tensors:
            tensors = {"embed_out.weight" if name == "lm_head.weight" else name: t for name, t in tensors.items()}
        by_head = (self.config.n_head, 3, self.config.head_size)
        return _rearranged(super().from_published(tensors, folder), by_head)


def _rearranged(tensors: dict[str, np.ndarray], axes: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """The tensors, in which the last axis of queries, keys and values, which is these three, has the first two swapped.

    One of another width is left as it is, for a message that names it.
    """
    changed = dict(tensors)
    for name, tensor in tensors.items():
        is_packed = ".attn.c_attn." in name
        if is_packed and tensor.shape[-1] == np.prod(axes):
            apart = tensor.reshape(*tensor.shape[:-1], *axes)
            changed[name] = apart.swapaxes(-3, -2).reshape(tensor.shape)
    return changed


SIZES: dict[str, dict[str, Any]] = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "70m": {"n_layer": 6, "n_head": 8, "n_embd": 512},
    "160m": {"n_layer": 12, "n_head": 12, "n_embd": 768},
    "410m": {"n_layer": 24, "n_head": 16, "n_embd": 1024},
    "polyglot-ko-1.3b": {"vocab_size": 30080, "n_layer": 24, "n_head": 16, "n_embd": 2048, "rotary_share": 0.5},
}

CARD = Card("gpt_neox", GPTNeoX, SIZES, usual_size="160m", tokenizer=GPT2Tokenizer, optimizer=AdamW)
