"""A GGUF file of the architecture `llama` as a model of Hugging Face: its config.json, and its tensors by their names.

LLaMA 1 to 3, Mistral 7B, TinyLlama, SmolLM and SmolLM2 are kept under this name. Two things differ from Hugging Face:

- of a head's D columns rotary positions turn neighbours there, (0,1), (2,3), ..., and halves here, (0,D/2),
  (1,D/2+1), ...: the rows of q and k are put back;
- the scaling of Llama 3.1 and later is kept as what each frequency is divided by, the tensor `rope_freqs.weight`.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt.errors import InputError, is_number, is_whole, shown
from minigpt.files import gguf
from minigpt.files.gguf import Header

ARCHITECTURE = "llama"
SIZES = {  # of a setting after `llama.` -> in config.json
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
OTHERS = (  # the other settings that are read here, or change nothing
    "vocab_size", "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base", "rope.scale_linear",
    "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned",
    "expert_count", "expert_used_count", "tensor_data_layout",
)  # fmt: skip
THETA = 10000.0  # where the file names none
LLAMA_3: dict[str, Any] = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
FREQUENCIES = "rope_freqs.weight"
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
OF_BLOCK = {  # a tensor after `blk.0.` -> after `model.layers.0.`
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Weight(NamedTuple):
    """A tensor of the model. source: its name in the file; heads: whose rows are put back; 0: none."""

    source: str
    shape: tuple[int, ...]
    heads: int = 0


# ------------------------------------------------------------------------------------------------------ configuration


def config(header: Header) -> dict[str, Any]:
    """The config.json of the model in a file.

    Raises InputError for another architecture, a setting that is missing, damaged or not built, and another kind of
    file: a part of a model, or an adapter.
    """
    _check_kind(header)
    values = {new: _size(header, old) for old, new in SIZES.items()}
    heads, width = values["num_attention_heads"], values["hidden_size"]
    groups = _size(header, "attention.head_count_kv", heads)
    columns = _size(header, "attention.key_length", width // heads)
    if heads % groups:
        raise _refused(header, f"{heads} heads share {groups} of keys and values", "the first must be a multiple")
    if columns % 2:
        raise _refused(header, f"a head has {columns} columns", "expected an even number, for they turn in pairs")
    for name in ("attention.value_length", "rope.dimension_count"):
        found = _size(header, name, columns)
        if found != columns:
            raise _refused(header, f"{ARCHITECTURE}.{name} is {found}", f"built is that of a head of keys, {columns}")
    theta = _number(header, "rope.freq_base", THETA)
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        **values,
        "num_key_value_heads": groups,
        "head_dim": columns,
        "vocab_size": _vocabulary(header),
        "rms_norm_eps": _number(header, "attention.layer_norm_rms_epsilon"),
        "rope_theta": theta,
        "rope_scaling": _scaling(header, theta, columns),
        "tie_word_embeddings": HEAD not in header.tensors,
    }


def _check_kind(header: Header) -> None:
    """Raise InputError for what is no model of this architecture, or has a setting that is not known."""
    settings = header.settings
    found = settings.get("general.architecture")
    if found != ARCHITECTURE:
        raise _refused(header, f"its architecture is {shown(found)}", f"built is {ARCHITECTURE!r}")
    kind = settings.get("general.type", "model")
    if kind != "model":
        raise _refused(header, f"it holds a {shown(kind)}", "give the file of a model")
    parts = settings.get("split.count", 1)
    if parts not in (0, 1):
        raise _refused(header, f"it is one of {parts} parts", "join them with llama-gguf-split --merge")
    if settings.get(f"{ARCHITECTURE}.expert_count", 0) != 0:
        raise _refused(header, "it is a mixture of experts", "built are models with one MLP in each block")
    for name, value in settings.items():
        own, dot, rest = name.partition(".")
        if own == ARCHITECTURE and rest not in (*SIZES, *OTHERS):
            raise _refused(header, f"its setting {name[:60]!r} is {shown(value)}", "no such setting is known here")


def _value(header: Header, name: str) -> Any:
    """A setting of the architecture; of a list with one value for each block that value, where all are the same."""
    value = header.settings.get(f"{ARCHITECTURE}.{name}")
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        return value[0]
    return value


def _size(header: Header, name: str, default: int | None = None) -> int:
    value = _value(header, name)
    value = default if value is None else value
    if not is_whole(value) or value < 1:
        raise _refused(header, f"{ARCHITECTURE}.{name} is {shown(value)}", "expected a whole number above 0")
    return value


def _number(header: Header, name: str, default: float | None = None) -> float:
    """A number above 0, as somebody wrote it: the file has 9.9999997e-06, the float32 of 1e-05."""
    value = _value(header, name)
    value = default if value is None else value
    if not is_number(value) or not 0 < value < math.inf:
        raise _refused(header, f"{ARCHITECTURE}.{name} is {shown(value)}", "expected a number above 0")
    return float(str(np.float32(value)))


def _vocabulary(header: Header) -> int:
    """How many tokens the embedding has. Raises InputError where the settings say another number."""
    gguf.check(header, EMBEDDING)
    rows, *_ = header.tensors[EMBEDDING].shape
    said = _size(header, "vocab_size", rows)
    tokens = header.settings.get("tokenizer.ggml.tokens")
    n_tokens = len(tokens) if isinstance(tokens, list) else 0
    if not said == rows == n_tokens:
        numbers = f"{said} by llama.vocab_size, {n_tokens} in its vocabulary, {rows} in {EMBEDDING}"
        raise _refused(header, f"it has {numbers}", "expected the same number of tokens")
    return rows


def _scaling(header: Header, theta: float, columns: int) -> dict[str, Any] | None:
    """How the angles are scaled beyond the context of pre-training: "linear", "llama3", or None.

    Raises InputError for another way.
    """
    kind = _value(header, "rope.scaling.type") or "none"
    factor = _number(header, "rope.scaling.factor", _number(header, "rope.scale_linear", 1.0))
    if kind not in ("none", "linear"):
        raise _refused(header, f"the scaling of its positions is {shown(kind)}", "built are linear and that of Llama 3")
    linear = factor != 1 and (kind == "linear" or _value(header, "rope.scaling.type") is None)
    if FREQUENCIES not in header.tensors:
        return {"rope_type": "linear", "factor": factor} if linear else None
    given = gguf.unpack(header, FREQUENCIES)
    length = _size(header, "rope.scaling.original_context_length", LLAMA_3["original_max_position_embeddings"])
    of_file = {"rope_type": "llama3", "factor": float(given.max()), "original_max_position_embeddings": length}
    scaling = LLAMA_3 | of_file
    expected = divisors(theta, columns, scaling)
    if linear or given.shape != expected.shape or not np.allclose(given, expected, rtol=1e-4):
        raise _refused(header, f"{FREQUENCIES} scales its positions", "built are linear and that of Llama 3")
    return scaling if given.max() > 1 else None


def divisors(theta: float, columns: int, scaling: dict[str, Any]) -> np.ndarray:
    """What Llama 3.1 divides the frequency of each pair by (D/2): slow ones by the factor, fast ones by 1."""
    frequencies = theta ** (-np.arange(0, columns, 2) / columns)
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # in the old context
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    fast = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / (fast + (1 - fast) / scaling["factor"])


def _refused(header: Header, what: str, expected: str) -> InputError:
    return InputError(f"{header.path}: {what}: {expected}")


# ------------------------------------------------------------------------------------------------------------ tensors


def weights(header: Header, config: dict[str, Any]) -> dict[str, Weight]:
    """{name in Hugging Face: its tensor}, in the order of the model.

    Raises InputError for one that is missing, left over, of another shape, not whole, or cannot be unpacked.
    """
    found = {}
    for name, weight in _expected(config):
        gguf.check(header, weight.source)
        shape = header.tensors[weight.source].shape
        if shape != weight.shape:
            raise _refused(header, f"the tensor {weight.source} has the shape {shape}", f"expected {weight.shape}")
        found[name] = weight
    sources = {weight.source for weight in found.values()}
    extra = sorted(set(header.tensors) - sources - {FREQUENCIES})
    if extra:
        raise _refused(header, f"the tensor {extra[0]!r} is not known", "no model of this architecture has it")
    return found


def _expected(config: dict[str, Any]) -> Iterator[tuple[str, Weight]]:
    """(name, tensor) of everything that a model with this configuration has."""
    width, inner, columns = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    table = (config["vocab_size"], width)
    shapes = {
        "attn_norm": (width,),
        "attn_q": (heads * columns, width),
        "attn_k": (groups * columns, width),
        "attn_v": (groups * columns, width),
        "attn_output": (width, heads * columns),
        "ffn_norm": (width,),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }
    turned = {"attn_q": heads, "attn_k": groups}
    yield "model.embed_tokens.weight", Weight(EMBEDDING, table)
    for i in range(config["num_hidden_layers"]):
        for old, new in OF_BLOCK.items():
            weight = Weight(f"blk.{i}.{old}.weight", shapes[old], turned.get(old, 0))
            yield f"model.layers.{i}.{new}.weight", weight
    yield "model.norm.weight", Weight("output_norm.weight", (width,))
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", Weight(HEAD, table)


def read(header: Header, weight: Weight) -> np.ndarray:
    """A tensor of the model as float32, in Hugging Face's layout. Raises InputError as `gguf.unpack` does."""
    numbers = gguf.unpack(header, weight.source)
    return halves(numbers, weight.heads) if weight.heads else numbers


def halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows (H*D,C), of which neighbours in a head turn together, so that row i turns with row i + D/2."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
