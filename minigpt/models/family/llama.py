"""LLaMA (Touvron et al. 2023): what people run today is GPT-2 with five changes, each of which stands here.

RMSNorm for LayerNorm, positions that turn for positions that are added, a gate in the MLP, fewer heads of keys and
values (from LLaMA 2's largest on), and no biases. TinyLlama, SmolLM2 and many others have this form; Qwen2 has it
with a bias on queries, keys and values.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from minigpt.models.card import Card
from minigpt.models.config_file import ONLY
from minigpt.models.family.decoder import FORMS, SHARED_KEYS, Decoder, DecoderBlock, DecoderConfig
from minigpt.models.family.forms import Layout, in_layers
from minigpt.models.family.layers import GatedMLP
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import GPT2Tokenizer

KEYS = SHARED_KEYS | {  # key here -> that of a Hugging Face config.json
    "n_kv_head": "num_key_value_heads",
    "head_size": "head_dim",
    "layer_norm_epsilon": "rms_norm_eps",
}
LAYOUT = Layout(
    prefix="Llama",
    body="model",
    modules={"tokens_embed": "embed_tokens", "ln_f": "norm"},
    block=in_layers("layers.{}", {
        "ln_1": "input_layernorm",
        "attn.c_attn": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attn.c_proj": "self_attn.o_proj",
        "ln_2": "post_attention_layernorm",
        "mlp.gate": "mlp.gate_proj",
        "mlp.up": "mlp.up_proj",
        "mlp.down": "mlp.down_proj",
    }),
    head="lm_head",
    forms=FORMS,
)  # fmt: skip
OF_QWEN2 = {"qkv_bias": True, "max_position_embeddings": 32768}  # what a file of Qwen2 need not say


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(DecoderConfig):
    """Sizes and rates; the defaults are those of LLaMA 7B. In a config.json they have Hugging Face's keys."""

    keys: ClassVar[dict[str, str]] = KEYS
    architecture: ClassVar[str] = "LlamaForCausalLM"
    layout: ClassVar[Layout] = LAYOUT
    only: ClassVar[dict[str, Any]] = ONLY | {"mlp_bias": False, "use_sliding_window": False}
    other_types: ClassVar[tuple[str, ...]] = ("qwen2",)

    model_type: str = "llama"
    vocab_size: int = 32000
    n_positions: int = 2048
    n_embd: int = 4096
    n_layer: int = 32
    n_head: int = 32
    n_inner: int = 11008
    layer_norm_epsilon: float = 1e-6

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json of LLaMA, or of Qwen2. Raises InputError as every model's does."""
        if values.get("model_type") == "qwen2":
            values = OF_QWEN2 | values
        if "attention_bias" in values:
            bias = {"qkv_bias": values["attention_bias"], "proj_bias": values["attention_bias"]}
            values = bias | values
        return super().from_dict(values)

    def to_dict(self) -> dict:
        """For a config.json. A bias on queries, keys and values alone makes it Qwen2's."""
        values = super().to_dict()
        qkv_bias = values.pop("qkv_bias")
        proj_bias = values.pop("proj_bias")
        if qkv_bias and not proj_bias:
            form = values["architectures"][0].removeprefix(LAYOUT.prefix)
            return values | {"model_type": "qwen2", "architectures": [f"Qwen2{form}"]}
        return values | {"attention_bias": qkv_bias}


class LlamaBlock(DecoderBlock):
    """GPT-2's block with RMSNorm and a gate."""

    mlp_of = GatedMLP


class Llama(Decoder):
    """LLaMA 1, 2 and 3, and the models of the same form. seed: as for GPT1."""

    Config = LlamaConfig
    block = LlamaBlock


SIZES: dict[str, dict[str, Any]] = {
    "nano": {"n_layer": 4, "n_head": 4, "n_kv_head": 2, "n_embd": 128, "n_inner": 344, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_kv_head": 2, "n_embd": 384, "n_inner": 1024, "n_positions": 256},
    "smollm2-135m": {
        "vocab_size": 49152, "n_layer": 30, "n_head": 9, "n_kv_head": 3, "n_embd": 576, "n_inner": 1536,
        "n_positions": 8192, "layer_norm_epsilon": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": True,
    },
    "tinyllama": {
        "n_layer": 22, "n_head": 32, "n_kv_head": 4, "n_embd": 2048, "n_inner": 5632, "layer_norm_epsilon": 1e-5,
    },
    "7b": {"n_layer": 32, "n_head": 32, "n_embd": 4096, "n_inner": 11008},
}  # fmt: skip

CARD = Card("llama", Llama, SIZES, usual_size="7b", tokenizer=GPT2Tokenizer, optimizer=AdamW)
