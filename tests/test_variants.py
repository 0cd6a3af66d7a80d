"""Checkpoints as transformers, torch and safetensors write them: opened with equal logits, or refused with the reason.

    pytest -m parity tests/test_variants.py -s       (prints a line for each variant)
"""

import json
from functools import partial

import numpy as np
import pytest
from helpers import error

from minigpt import open_model
from minigpt.errors import InputError

pytestmark = pytest.mark.parity


@pytest.fixture(autouse=True)
def libraries():
    """Without them there is nothing to compare with. They are imported where they are used: that takes seconds."""
    for name in ("torch", "transformers", "safetensors.torch"):
        pytest.importorskip(name)


SIZES = {"vocab_size": 61, "n_positions": 9, "n_embd": 12, "n_layer": 2, "n_head": 3}
EQUAL = ""  # what is expected of a variant, in place of the reason why it is refused
OWN_HEAD = 'lm_head.weight differs from the token embedding: for a head of its own config.json must say "tie_word_emb'
NAMES = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"}


class Family:
    """The classes of transformers for one of the two models."""

    def __init__(self, name):
        import transformers

        self.name = name
        prefix = {"gpt1": "OpenAIGPT", "gpt2": "GPT2"}[name]
        self.config = getattr(transformers, f"{prefix}Config")
        self.activation = {"gpt1": "afn", "gpt2": "activation_function"}[name]
        self.embedding = {"gpt1": "tokens_embed.weight", "gpt2": "wte.weight"}[name]
        self.find = lambda head: getattr(transformers, f"{prefix}{head}")

    def model(self, head="LMHeadModel", **values):
        """Their model with random weights far from the initial point."""
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.manual_seed(0)
        rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
        special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        model = self.find(head)(self.config(**SIZES | rates | special | values)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return model


def logits_of(model, head):
    """Their logits, in float64. Of a body without a head: by its embedding."""
    import torch

    ids = torch.from_numpy(np.random.default_rng(0).integers(61, size=(2, 7)))
    model = model.double()
    with torch.no_grad():
        out = model(ids)
        if head == "Model":
            return (out.last_hidden_state @ model.get_input_embeddings().weight.T).numpy()
        return out.logits.numpy()


# --- how a model may be written --------------------------------------------------------------------------------------


def plainly(model, folder, family, dtype="float32", **options):
    """By save_pretrained, in this dtype."""
    import torch

    model.to(getattr(torch, dtype)).save_pretrained(folder, **options)


def changed_config(model, folder, family, change=None, **values):
    """By save_pretrained, and config.json has other values, or loses keys (None)."""
    model.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for key, value in values.items():
        config[key] = value
        if value is None:
            del config[key]
    if change:
        config = change(config)
    path.write_text(json.dumps(config), encoding="utf-8")


def by_tensors(model, folder, family, change=lambda tensors, family: tensors, metadata=None):
    """By safetensors' save_file, of a changed state."""
    from safetensors.torch import save_file

    model.config.save_pretrained(folder)
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(change(tensors, family), folder / "model.safetensors", metadata)


def by_save_model(model, folder, family):
    """By safetensors' save_model, which writes one of two tied tensors."""
    from safetensors.torch import save_model

    model.config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"))


def by_torch(model, folder, family):
    """As a pickle."""
    import torch

    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def masks(tensors, family, dtype="float32", masked_bias=True):
    import torch

    for i in range(2):
        tensors[f"transformer.h.{i}.attn.bias"] = torch.tril(torch.ones(1, 1, 9, 9)).to(getattr(torch, dtype))
        if masked_bias:
            tensors[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return tensors


def without_prefix(tensors, family):
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items() if "lm_head" not in name}


def without_head(tensors, family):
    return {name: tensor for name, tensor in tensors.items() if "lm_head" not in name}


def half_but_norms(tensors, family):
    return {name: tensor if ".ln_" in name else tensor.half() for name, tensor in tensors.items()}


def filled_up(tensors, family, rows=64):
    import torch

    for name in (f"transformer.{family.embedding}", "lm_head.weight"):
        old = tensors[name]
        tensors[name] = torch.cat([old, torch.zeros(rows - len(old), old.shape[1])])
    return tensors


def lacking(tensors, family, name):
    return {other: tensor for other, tensor in tensors.items() if not other.endswith(name)}


def in_float8(tensors, family):
    import torch

    return {name: tensor.to(torch.float8_e4m3fn) for name, tensor in tensors.items()}


def resized(model, folder, family, rows, multiple=None):
    model.resize_token_embeddings(rows, pad_to_multiple_of=multiple, mean_resizing=False)
    model.save_pretrained(folder)


def named_otherwise(config):
    return {NAMES.get(key, key): value for key, value in config.items()}


def with_head_of_the_embedding(model, folder, family):
    """Not tied, but the same numbers."""
    import torch

    with torch.no_grad():
        model.lm_head.weight.copy_(model.get_input_embeddings().weight)
    model.save_pretrained(folder)


# name: (write, values of the configuration, which class of theirs, what is expected)
COMMON = {
    **{f"dtype {name}": (partial(plainly, dtype=name), {}, "LMHeadModel", EQUAL)
       for name in ("float32", "float16", "bfloat16", "float64")},
    **{f"split, {name}": (partial(plainly, dtype=name, max_shard_size="5KB"), {}, "LMHeadModel", EQUAL)
       for name in ("float32", "bfloat16", "float16")},
    "the body alone": (plainly, {}, "Model", EQUAL),
    "the body alone, split": (partial(plainly, max_shard_size="5KB"), {}, "Model", EQUAL),
    "the body alone, bfloat16": (partial(plainly, dtype="bfloat16"), {}, "Model", EQUAL),
    "save_file with the head": (by_tensors, {}, "LMHeadModel", EQUAL),
    "save_file with metadata": (partial(by_tensors, metadata={"format": "pt", "a": "b"}), {}, "LMHeadModel", EQUAL),
    "save_file without prefix": (partial(by_tensors, change=without_prefix), {}, "LMHeadModel", EQUAL),
    "save_file without head": (partial(by_tensors, change=without_head), {}, "LMHeadModel", EQUAL),
    "save_file, half but for the norms": (partial(by_tensors, change=half_but_norms), {}, "LMHeadModel", EQUAL),
    "save_model": (by_save_model, {}, "LMHeadModel", EQUAL),
    "save_model of the body": (by_save_model, {}, "Model", EQUAL),
    "masks of old versions": (partial(by_tensors, change=masks), {}, "LMHeadModel", EQUAL),
    "masks of bytes": (partial(by_tensors, change=partial(masks, dtype="uint8")), {}, "LMHeadModel", EQUAL),
    "masks of truth values": (partial(by_tensors, change=partial(masks, dtype="bool", masked_bias=False)), {},
                              "LMHeadModel", EQUAL),
    "a head of its own": (plainly, {"tie_word_embeddings": False}, "LMHeadModel", EQUAL),
    "a head of its own that is said to be tied": (partial(changed_config, tie_word_embeddings=True),
                                                  {"tie_word_embeddings": False}, "LMHeadModel", OWN_HEAD),
    "no head of its own": (partial(changed_config, tie_word_embeddings=False), {}, "LMHeadModel",
                           "tensor lm_head.weight is missing"),
    "a head of its own, filled up": (partial(by_tensors, change=filled_up), {"tie_word_embeddings": False},
                                     "LMHeadModel", EQUAL),
    "a head of its own that is the same": (with_head_of_the_embedding, {"tie_word_embeddings": False}, "LMHeadModel",
                                           EQUAL),
    "three more tokens": (partial(resized, rows=64), {}, "LMHeadModel", EQUAL),
    "fewer tokens": (partial(resized, rows=61, multiple=8), {}, "LMHeadModel", EQUAL),
    "rows filled up": (partial(by_tensors, change=filled_up), {}, "LMHeadModel", EQUAL),
    "rows that are no filling": (partial(by_tensors, change=partial(filled_up, rows=67)), {}, "LMHeadModel",
                                 "has shape .67, 12.; the configuration wants .61, 12."),
    "a tensor less": (partial(by_tensors, change=partial(lacking, name="h.1.ln_2.bias")), {}, "LMHeadModel",
                      "tensor h.1.ln_2.bias is missing"),
    "float8": (partial(by_tensors, change=in_float8), {}, "LMHeadModel", "F8_E4M3, which NumPy has no type for"),
    "pytorch_model.bin": (by_torch, {}, "LMHeadModel", "pytorch_model.bin is a pickle, which may run any program"),
    "one head": (plainly, {"n_head": 1}, "LMHeadModel", EQUAL),
    "one layer": (plainly, {"n_layer": 1}, "LMHeadModel", EQUAL),
    "a large epsilon": (plainly, {"layer_norm_epsilon": 1e-3}, "LMHeadModel", EQUAL),
    "a small epsilon": (plainly, {"layer_norm_epsilon": 1e-12}, "LMHeadModel", EQUAL),
    "n_ctx beside n_positions": (partial(changed_config, n_ctx=9), {}, "LMHeadModel", EQUAL),
    "n_ctx alone": (partial(changed_config, n_ctx=9, n_positions=None), {}, "LMHeadModel", EQUAL),
    "the general names of sizes": (partial(changed_config, change=named_otherwise), {}, "LMHeadModel", EQUAL),
    "contradictory names": (partial(changed_config, num_attention_heads=4), {}, "LMHeadModel",
                            "n_head 3 and num_attention_heads 4, which are two names of one thing"),
    "no n_head": (partial(changed_config, n_head=None), {}, "LMHeadModel", "config.json has no n_head"),
    "no epsilon": (partial(changed_config, layer_norm_epsilon=None), {}, "LMHeadModel", EQUAL),
    "no model_type": (partial(changed_config, model_type=None), {}, "LMHeadModel", "names no model_type"),
    "several tokens that end": (partial(changed_config, eos_token_id=[0, 1]), {}, "LMHeadModel", EQUAL),
}  # fmt: skip

TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate")
OF_GPT2 = {
    **{f"activation {name}": (plainly, {"activation_function": name}, "LMHeadModel", EQUAL) for name in TANH},
    **{f"activation {name}": (plainly, {"activation_function": name}, "LMHeadModel", EQUAL)
       for name in ("gelu", "gelu_python", "relu", "silu", "swish")},
    **{f"activation {name}": (plainly, {"activation_function": name}, "LMHeadModel", f"activation_function is '{name}'")
       for name in ("quick_gelu", "tanh", "gelu_10", "mish")},
    "scores without scale": (plainly, {"scale_attn_weights": False}, "LMHeadModel", EQUAL),
    "scores by layer": (plainly, {"scale_attn_by_inverse_layer_idx": True}, "LMHeadModel", EQUAL),
    "scores by layer and without scale": (plainly, {"scale_attn_by_inverse_layer_idx": True,
                                                    "scale_attn_weights": False}, "LMHeadModel", EQUAL),
    "reordered and upcast": (plainly, {"reorder_and_upcast_attn": True}, "LMHeadModel", EQUAL),
    "cross-attention": (plainly, {"add_cross_attention": True}, "LMHeadModel", "add_cross_attention True"),
    "an inner width of 4 C": (plainly, {"n_inner": 48}, "LMHeadModel", EQUAL),
    "an inner width of 3 C": (plainly, {"n_inner": 36}, "LMHeadModel", EQUAL),
    "an inner width of 1": (plainly, {"n_inner": 1}, "LMHeadModel", EQUAL),
    "another inner width": (partial(changed_config, n_inner=7), {}, "LMHeadModel", "the configuration wants .12, 7."),
}  # fmt: skip
OF_GPT1 = {
    **{f"activation {name}": (plainly, {"afn": name}, "LMHeadModel", EQUAL)
       for name in ("gelu", "relu", "silu", "swish")},
    "an unknown activation": (partial(changed_config, afn="gelu_new"), {}, "LMHeadModel", "afn is 'gelu_new': built"),
    "an inner width, which its class ignores": (partial(changed_config, n_inner=7), {}, "LMHeadModel", EQUAL),
}  # fmt: skip
CASES = [("gpt1", name, *case) for name, case in (COMMON | OF_GPT1).items()]
CASES += [("gpt2", name, *case) for name, case in (COMMON | OF_GPT2).items()]


def test_there_are_as_many_as_were_tried_before():
    assert len(CASES) >= 91


@pytest.mark.parametrize(("family", "name", "write", "values", "head", "expected"), CASES,
                         ids=[f"{family}, {name}" for family, name, *_ in CASES])  # fmt: skip
def test_variant(family, name, write, values, head, expected, tmp_path):
    family = Family(family)
    model = family.model(head, **values)
    write(model, tmp_path, family)
    try:
        opened = open_model(tmp_path, dtype=np.float64)
    except InputError as caught:
        print(f"{family.name}, {name}: refused: {caught}".replace(str(tmp_path), "FOLDER"))
        assert expected and "\n" not in str(caught)
        with pytest.raises(InputError, match=expected):
            raise
        return
    ids = np.random.default_rng(0).integers(61, size=(2, 7))
    logits, _ = opened.forward(ids, grad=False)
    if "half" in name:
        rounded = half_but_norms(model.state_dict(), family)
        model.load_state_dict({name: tensor.float() for name, tensor in rounded.items()})
    off = error(logits, logits_of(model, head)[..., : logits.shape[-1]])
    print(f"{family.name}, {name}: equal, {off:.1e}")
    assert not expected, "it was to be refused"
    assert off < 1e-9
