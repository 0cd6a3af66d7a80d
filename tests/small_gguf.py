"""Small models as GGUF files, written by the package `gguf` as llama.cpp's converter writes large ones."""

from pathlib import Path

import numpy as np

from minigpt.tokenizer.gpt2 import CHARACTER_OF

ALPHABET = [CHARACTER_OF[byte] for byte in range(256)]
MERGES = ["t h", "th e", "Ġ the", "Ġ a", "i n", "Ġ 1", "1 2", "Ġ Ġ"]
NAMES = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*NAMES, *ALPHABET, *(merge.replace(" ", "") for merge in MERGES), "<think>", "[PAD268]"]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
VOCABULARY = len(TOKENS)
KINDS = [CONTROL] * 3 + [NORMAL] * (len(ALPHABET) + len(MERGES)) + [USER_DEFINED, UNUSED]
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"

SIZES = {"width": 32, "inner": 48, "layers": 2, "heads": 4, "groups": 2, "columns": 8}
SETTINGS = {  # what a file says; {name: (type, value)}
    "llama.context_length": ("uint32", 64),
    "llama.attention.layer_norm_rms_epsilon": ("float32", 1e-5),
    "llama.rope.freq_base": ("float32", 10000.0),
    "general.name": ("string", "Small"),
    "tokenizer.chat_template": ("string", CHAT),
}
BYTES = {  # a byte-level vocabulary
    "model": ("string", "gpt2"),
    "pre": ("string", "smollm"),
    "tokens": ("array", TOKENS),
    "token_type": ("array", KINDS),
    "merges": ("array", MERGES),
    "bos_token_id": ("uint32", 1),
    "eos_token_id": ("uint32", 2),
    "padding_token_id": ("uint32", 0),
    "unknown_token_id": ("uint32", 0),
    "add_bos_token": ("bool", False),
}


def settings_of(sizes=SIZES, tokenizer=BYTES, **others):
    """The settings of a file; others: of the architecture, and with dots as __ of any name; None leaves one out."""
    settings = SETTINGS | {
        "llama.embedding_length": ("uint32", sizes["width"]),
        "llama.block_count": ("uint32", sizes["layers"]),
        "llama.feed_forward_length": ("uint32", sizes["inner"]),
        "llama.attention.head_count": ("uint32", sizes["heads"]),
        "llama.attention.head_count_kv": ("uint32", sizes["groups"]),
        "llama.rope.dimension_count": ("uint32", sizes["columns"]),
        "llama.vocab_size": ("uint32", len(tokenizer["tokens"][1])),
    }
    settings |= {f"tokenizer.ggml.{name}": value for name, value in tokenizer.items()}
    settings |= {name.replace("__", "."): value for name, value in others.items()}
    return {name: value for name, value in settings.items() if value is not None}


def weights_of(sizes=SIZES, vocabulary=VOCABULARY, tied=True, seed=0):
    """{name in Hugging Face: random numbers}, in its layout."""
    rng = np.random.default_rng(seed)
    width, inner, columns = sizes["width"], sizes["inner"], sizes["columns"]
    shapes = {"model.embed_tokens.weight": (vocabulary, width)}
    for i in range(sizes["layers"]):
        block = f"model.layers.{i}"
        shapes |= {
            f"{block}.input_layernorm.weight": (width,),
            f"{block}.self_attn.q_proj.weight": (sizes["heads"] * columns, width),
            f"{block}.self_attn.k_proj.weight": (sizes["groups"] * columns, width),
            f"{block}.self_attn.v_proj.weight": (sizes["groups"] * columns, width),
            f"{block}.self_attn.o_proj.weight": (width, sizes["heads"] * columns),
            f"{block}.post_attention_layernorm.weight": (width,),
            f"{block}.mlp.gate_proj.weight": (inner, width),
            f"{block}.mlp.up_proj.weight": (inner, width),
            f"{block}.mlp.down_proj.weight": (width, inner),
        }
    shapes["model.norm.weight"] = (width,)
    if not tied:
        shapes["lm_head.weight"] = (vocabulary, width)
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def in_gguf(weights, sizes=SIZES):
    """The same under llama.cpp's names, and q and k with neighbours in pairs, as its converter permutes them."""
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes["layers"])
    found = {}
    for name, numbers in weights.items():
        for end, heads in (("q_proj.weight", sizes["heads"]), ("k_proj.weight", sizes["groups"])):
            if name.endswith(end):
                rows, columns = numbers.shape
                halves = numbers.reshape(heads, 2, rows // heads // 2, columns)
                numbers = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
        found[names.get_name(name.removesuffix(".weight")) + ".weight"] = numbers
    return found


def write(path: Path, settings, tensors, kind="F32", architecture="llama"):
    """Write a file; tensors {name: float32, or bytes that are quantised (uint8, kind of quantisation)}."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    for name, (type_name, value) in settings.items():
        if name == "general.alignment":
            writer.add_custom_alignment(value)
        else:
            getattr(writer, f"add_{type_name}")(name, value)
    for name, numbers in tensors.items():
        kept = gguf.GGMLQuantizationType[kind]
        if isinstance(numbers, tuple):
            numbers, kept = numbers
        elif numbers.ndim == 1:
            kept = gguf.GGMLQuantizationType.F32
        else:
            numbers = gguf.quantize(numbers, kept)
        writer.add_tensor(name, numbers, raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def small(path, *, kind="F32", sizes=SIZES, tied=True, tokenizer=BYTES, seed=0, architecture="llama", **others):
    """Write a whole small model; returns its weights in Hugging Face's layout."""
    weights = weights_of(sizes, len(tokenizer["tokens"][1]), tied, seed)
    write(path, settings_of(sizes, tokenizer, **others), in_gguf(weights, sizes), kind, architecture)
    return weights
