"""What a config.json may say: its keys under the names used here, and what is not built here refused by name."""

import math
from collections.abc import Sequence
from typing import Any

from minigpt.errors import InputError, shown

TANH_FORMS = (  # names of GELU in its tanh form (Hendrycks and Gimpel 2016, section 2): one function
    "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate",
)  # fmt: skip

ACTIVATIONS = {  # what a config.json calls the function inside an MLP -> its entry in the table of operations
    **dict.fromkeys(TANH_FORMS, "gelu"), "gelu": "gelu_exact", "gelu_python": "gelu_exact",
    "relu": "relu", "silu": "silu", "swish": "silu",
}  # fmt: skip
ELSEWHERE = {"quick_gelu": "CLIP", "gelu_10": "quantised models", "tanh": "pooling layers"}  # who has which other one

ALIASES = {  # key here -> the other names that transformers has for it
    "n_positions": ("n_ctx", "max_position_embeddings"),
    "n_embd": ("hidden_size",),
    "n_layer": ("num_hidden_layers",),
    "n_head": ("num_attention_heads",),
}

ONLY = {  # settings that change what is computed, and the only value that is built here; a missing key has it
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
}

PUBLISHED_WITH = {  # such a setting -> the published models that have another value of it
    "conv_kernel_size": "deberta-v2-xlarge and deberta-v2-xxlarge have it",
    "talking_head": "no published DeBERTa has it",
    "add_cross_attention": "decoders beside an encoder of pictures have it",
    "quantization_config": "files of GPTQ, AWQ and bitsandbytes have it",
    "position_embedding_type": "BERTs with relative positions have it",
    "num_hidden_groups": "no published ALBERT has it",
    "scale_embedding": "mBART, Marian and PEGASUS have it",
    "normalize_before": "mBART and BlenderBot have it",
    "add_final_layer_norm": "mBART has it",
    "static_position_embeddings": "Marian has it",
    "asm": "no published XLM has it",
    "causal": "XLM's language models from left to right have it",
    "is_encoder": "XLM's decoders have it",
    "attn_type": "Transformer-XL has it",
    "clamp_len": "Transformer-XL has it",
    "bi_data": "XLNet has it while it is pre-trained",
    "same_length": "Transformer-XL has it",
}

LIMITS = {"layer_norm_epsilon": 1, "initializer_range": 10}  # what is no smaller has no use


def translated(values: dict, aliases: dict[str, tuple[str, ...]]) -> dict:
    """The values under the keys used here. Raises InputError where two keys for the same thing disagree."""
    values = dict(values)
    for key, others in aliases.items():
        for other in others:
            if other not in values:
                continue
            value = values.pop(other)
            if values.setdefault(key, value) != value:
                given = f"config.json has {key} {values[key]!r} and {other} {value!r}"
                raise InputError(f"{given}, which are two names of one thing: remove the wrong one")
    return values


def check_variant(values: dict, only: dict[str, Any]) -> None:
    """Raises InputError for a variant of the model that is not built here."""
    for key, usual in only.items():
        value = values.get(key, usual)
        if value != usual and value is not None:
            whose = f", as {PUBLISHED_WITH[key]}" if key in PUBLISHED_WITH else ""
            raise InputError(f"config.json has {key} {value!r}{whose}: only models with {usual!r} are built here")


def check_activation(key: str, name: Any, built: dict[str, str] = ACTIVATIONS) -> None:
    """Raises InputError for a function inside an MLP that is not built here, with those that are.

    built: {name in a config.json: entry in the table of operations}.
    """
    if isinstance(name, str) and name in built:
        return
    whose = f", as in {ELSEWHERE[name]}" if isinstance(name, str) and name in ELSEWHERE else ""
    raise InputError(f"{key} is {shown(name)}{whose}: built here are {', '.join(built)}")


def labels_in(values: dict) -> tuple[str, ...]:
    """The labels of a config.json, those that it names or as many as it says. Raises InputError where ids are wrong."""
    names = values.get("id2label")
    if names is None:
        return tuple(f"LABEL_{i}" for i in range(values.get("num_labels") or 0))
    if not isinstance(names, dict) or sorted(map(str, names)) != sorted(map(str, range(len(names)))):
        raise InputError(f"config.json has id2label {shown(names)}: give a name for each number from 0")
    by_id = {str(i): str(label) for i, label in names.items()}
    return tuple(by_id[str(i)] for i in range(len(by_id)))


def labels_of(values: dict) -> dict[str, Any]:
    """What a head for labels is told in a config.json: its labels, two where none are named, and the padding."""
    return {"labels": labels_in(values) or ("LABEL_0", "LABEL_1"), "pad_token_id": values.get("pad_token_id")}


def named_labels(labels: Sequence[str]) -> dict[str, dict]:
    """The labels as a config.json has them."""
    by_id = {str(i): label for i, label in enumerate(labels)}
    return {"id2label": by_id, "label2id": {label: i for i, label in enumerate(labels)}}


def known_values(values: dict, names: set[str], flags: set[str]) -> dict:
    """The values whose keys are among these names; of the flags, true or false.

    Raises InputError for a flag that is neither, for another value that is one of the two, and for numbers that are
    none.
    """
    known = {}
    for key, value in values.items():
        is_token = key.endswith("_token_id")
        several_tokens = is_token and isinstance(value, list)
        if key not in names or several_tokens:
            continue
        if key in flags and not isinstance(value, bool):
            raise InputError(f"config.json has {key} {value!r}: give true or false")
        not_finite = isinstance(value, float) and not math.isfinite(value)
        if not_finite or isinstance(value, bool) and key not in flags:
            raise InputError(f"config.json has {key} {value!r}: give a number")
        if is_token and value is not None and (type(value) is not int or value < 0):
            raise InputError(f"config.json has {key} {value!r}: give the id of a token, or null")
        if isinstance(value, int | float) and value >= LIMITS.get(key, math.inf):
            raise InputError(f"config.json has {key} {value!r}: give a number below {LIMITS[key]}")
        known[key] = value
    return known
