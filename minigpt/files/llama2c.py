"""Weights of Karpathy's llama2.c in its first format: seven numbers, and then all tensors of a LLaMA in float32.

Its rotary pairs are neighbouring columns, those of Hugging Face transformers the two halves of a head: the rows of q
and k are put into the other sequence here.
"""

import math
import struct
from pathlib import Path

import numpy as np

from minigpt.errors import InputError
from minigpt.files import disk

HEADER = struct.Struct("<7i")
THETA, EPSILON = 10000.0, 1e-5  # of all models in this format
LARGEST = 1 << 20  # of a size in the header of a real file


def read(path: str | Path) -> tuple[dict, dict[str, np.ndarray]]:
    """The configuration with the keys of transformers, and the tensors under its names, matrices (out,in).

    Raises InputError where the file cannot be read, is cut off or no such file.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({disk.reason(error)}): give weights of llama2.c") from error
    config = _config(content, path)
    shapes = _shapes(config)
    n_head = config["num_attention_heads"]
    unused = 2 * config["max_position_embeddings"] * (config["hidden_size"] // n_head // 2)  # cosines and sines
    wanted = sum(map(math.prod, shapes.values()))
    head = config["vocab_size"] * config["hidden_size"]
    expected = wanted + unused + (0 if config["tie_word_embeddings"] else head)
    if len(content) != HEADER.size + 4 * expected:
        sizes = f"{len(content):,} bytes, and its header needs {HEADER.size + 4 * expected:,}"
        raise InputError(f"{path} has {sizes}: is it whole, and of llama2.c's first format?")
    numbers = np.frombuffer(content, "<f4", offset=HEADER.size)
    found = _stacked(numbers, shapes)
    tensors = {"model.embed_tokens.weight": found["table"], "model.norm.weight": found["norm"]}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = numbers[wanted + unused :].reshape(found["table"].shape)
    for i in range(config["num_hidden_layers"]):
        for module, name in LAYER.items():
            tensors[f"model.layers.{i}.{name}.weight"] = found[module][i]
        for name, heads in (("q_proj", n_head), ("k_proj", config["num_key_value_heads"])):
            name = f"model.layers.{i}.self_attn.{name}.weight"
            tensors[name] = in_halves(tensors[name], heads)
    return config, tensors


LAYER = {  # tensors of all layers, in the sequence of the file -> transformers' names in a layer
    "attention_norm": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj", "wo": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "w1": "mlp.gate_proj", "w2": "mlp.down_proj", "w3": "mlp.up_proj",
}  # fmt: skip


def in_halves(weight: np.ndarray, n_head: int) -> np.ndarray:
    """weight (NH D,C), whose rows 2i and 2i + 1 of a head are a pair -> rows i and i + D/2 are one"""
    rows, width = weight.shape
    pairs = weight.reshape(n_head, rows // n_head // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def _config(content: bytes, path: Path) -> dict:
    """What the header says. A negative size of the vocabulary means that the head is a table of its own."""
    if len(content) < HEADER.size:
        raise InputError(f"{path} has {len(content)} bytes: these are no weights of llama2.c")
    width, inner, n_layer, n_head, n_kv_head, vocabulary, context = HEADER.unpack_from(content)
    sizes = (width, inner, n_layer, n_head, n_kv_head, abs(vocabulary), context)
    if not all(0 < size <= LARGEST for size in sizes) or width % n_head or n_head % n_kv_head:
        raise InputError(f"{path} begins with {sizes}, which are no sizes of a LLaMA: is it a file of llama2.c?")
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": n_layer,
        "num_attention_heads": n_head,
        "num_key_value_heads": n_kv_head,
        "vocab_size": abs(vocabulary),
        "max_position_embeddings": context,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "hidden_act": "silu",
        "tie_word_embeddings": vocabulary > 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """The tensors in the sequence of the file; those of the layers have an axis for them in front."""
    n, c, f = (config[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    of_keys = c // config["num_attention_heads"] * config["num_key_value_heads"]
    return {
        "table": (config["vocab_size"], c),
        "attention_norm": (n, c),
        "wq": (n, c, c),
        "wk": (n, of_keys, c),
        "wv": (n, of_keys, c),
        "wo": (n, c, c),
        "ffn_norm": (n, c),
        "w1": (n, f, c),
        "w2": (n, c, f),
        "w3": (n, f, c),
        "norm": (c,),
    }


def _stacked(numbers: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The tensors one behind the other."""
    found = {}
    start = 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        found[name] = numbers[start:end].reshape(shape)
        start = end
    return found
