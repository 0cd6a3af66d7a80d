"""How DeBERTa stands in files: saved in the layout of version 2, and opened in those of versions 1 and 3 too."""

import warnings
from pathlib import Path

import numpy as np

from minigpt.models.family.bert import BLOCK as BERT_BLOCK
from minigpt.models.family.bert import WORDS
from minigpt.models.family.forms import Form, Layout, Places, at_places, in_layers
from minigpt.models.family.published import PublishedConfig

V1 = "deberta"  # the model_type of version 1
NOT_IN_V1 = ("position_buckets", "norm_rel_ebd", "share_att_key", "conv_kernel_size")  # keys that mean nothing in it

TABLES: dict[str, Places] = {
    "tokens_embed": "embeddings.word_embeddings",
    "distances_embed": "encoder.rel_embeddings",
    "distances_embed.ln": "encoder.LayerNorm",
    "positions_embed": "embeddings.position_embeddings",
    "segments_embed": "embeddings.token_type_embeddings",
    "ln_embed": "embeddings.LayerNorm",
}
BLOCK = BERT_BLOCK | {
    "attn.c_attn": ["attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"],
    "attn.key_of_distance": "attention.self.pos_key_proj",
    "attn.query_of_distance": "attention.self.pos_query_proj",
}
LABELS = Form(dense="pooler.dense", act="gelu_exact", scores="classifier")
LAYOUT = Layout("DebertaV2", "deberta", TABLES, in_layers("encoder.layer.{}", BLOCK), "cls.predictions.decoder", {
    "ForMaskedLM": Form(words=WORDS),
    "ForSequenceClassification": LABELS,
    **at_places(LABELS),
    "Model": Form(),
})  # fmt: skip

REPLACED = "mask_predictions."
POSITIONS = "embeddings.position_embeddings.weight"
QKV = ("query", "key", "value")
V1_PARTS = {  # parts of an attention of version 1 -> in version 2, where they are not split
    "in_proj.weight": "in_proj.weight",
    "q_bias": "query_proj.bias",
    "v_bias": "value_proj.bias",
    "pos_proj.weight": "pos_key_proj.weight",
    "pos_q_proj.weight": "pos_query_proj.weight",
    "pos_q_proj.bias": "pos_query_proj.bias",
}
NEWER_HEAD = {  # the head that tells words, as the authors' files and transformers without "legacy" call it -> usually
    "lm_predictions.lm_head.dense": "cls.predictions.transform.dense",
    "lm_predictions.lm_head.LayerNorm": "cls.predictions.transform.LayerNorm",
    "lm_predictions.lm_head": "cls.predictions",
}


def usual_name(name: str) -> str:
    """The name of a tensor in the usual layout."""
    module, _, part = name.rpartition(".")
    return f"{NEWER_HEAD.get(module, module)}.{part}" if module else name


def in_usual_layout(
    tensors: dict[str, np.ndarray], config: PublishedConfig, has_positions: bool, folder: Path
) -> dict[str, np.ndarray]:
    """Tensors of version 1, 2 or 3 -> those of version 2, each under its name there

    The head of version 3 that tells replaced tokens is left out, with a warning, and so are positions that nothing
    uses. has_positions: has the model a table of them?
    """
    if any(name.startswith(REPLACED) for name in tensors):
        warnings.warn(f"{folder}: the head that tells replaced tokens, {REPLACED}*, is left out", stacklevel=3)
    usual = {}
    for name, tensor in tensors.items():
        is_spare = name.endswith(POSITIONS) and not has_positions
        if not is_spare and not name.startswith(REPLACED):
            usual |= _of_v1(usual_name(name), tensor, config)
    return usual


def _of_v1(name: str, tensor: np.ndarray, config: PublishedConfig) -> dict[str, np.ndarray]:
    """One tensor of version 1 -> those of version 2; any other tensor as it is.

    Version 1 has one matrix for queries, keys and values, head by head, and no bias for keys.
    """
    layer, attention, part = name.partition(".attention.self.")
    if not attention or part not in V1_PARTS:
        return {name: tensor}
    of_layer = f"{layer}{attention}"
    c = config.n_embd
    zeros = np.zeros(c, tensor.dtype)
    if part == "in_proj.weight" and tensor.shape == (3 * c, c):
        by_head = tensor.reshape(config.n_head, 3, -1, c).swapaxes(0, 1).reshape(3, c, c)
        named = {f"{of_layer}{which}_proj.weight": matrix for which, matrix in zip(QKV, by_head, strict=True)}
        return named | {f"{of_layer}key_proj.bias": zeros}
    if part == "pos_proj.weight":
        return {f"{of_layer}pos_key_proj.weight": tensor, f"{of_layer}pos_key_proj.bias": zeros}
    return {f"{of_layer}{V1_PARTS[part]}": tensor}
