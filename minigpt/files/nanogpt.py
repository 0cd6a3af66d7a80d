"""Checkpoints of nanoGPT, a GPT-2 whose matrices are (out,in), whose biases may be missing, and whose GELU is exact.

A checkpoint is a pickle, which is not opened here. To convert one, in Python with PyTorch:

    saved = torch.load("ckpt.pt", map_location="cpu", weights_only=True)
    weights = {name: tensor.contiguous().clone() for name, tensor in saved["model"].items()}
    safetensors.torch.save_file(weights, "model.safetensors")
    config = {"model_type": "gpt2", **saved["model_args"]}      # as config.json, beside it
"""

from pathlib import Path

import numpy as np

from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.files.disk import read_json

PREFIXES = ("_orig_mod.", "transformer.")  # of a compiled model, and of its body
MATRICES = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
OF_BIASES = {"attn.c_attn": 3, "attn.c_proj": 1, "mlp.c_fc": 4, "mlp.c_proj": 1, "ln_1": 1, "ln_2": 1}  # times C
EMBEDDING, POSITIONS, HEAD = "wte.weight", "wpe.weight", "lm_head.weight"
RATES = ("embd_pdrop", "attn_pdrop", "resid_pdrop")


def is_in(folder: Path) -> bool:
    """Does this folder hold a GPT-2 whose config.json has nanoGPT's keys, or whose matrices are its way round?"""
    path = folder / checkpoint.CONFIG
    if not path.is_file() or not (folder / checkpoint.WEIGHTS).is_file():
        return False
    values = read_json(path)
    if values.get("model_type") != "gpt2":
        return False
    return "block_size" in values or values.get("bias") is False or _is_turned(_shapes(folder))


def config(folder: Path) -> dict:
    """Its configuration with the keys of GPT-2. Raises InputError where it is not that of the weights beside it."""
    values = read_json(folder / checkpoint.CONFIG)
    if "block_size" in values:
        values = {"n_positions": values["block_size"], "activation_function": "gelu"} | values
    if "dropout" in values:
        values = dict.fromkeys(RATES, values["dropout"]) | values
    shapes = _shapes(folder)
    n_layer = len({name.split(".")[1] for name in shapes if name.startswith("h.")})
    table = shapes.get(EMBEDDING) or shapes.get(HEAD) or (0,)
    n_positions, *_ = shapes.get(POSITIONS) or (0,)
    found = {"n_layer": n_layer, "n_embd": table[-1], "vocab_size": table[0], "n_positions": n_positions}
    for key, size in found.items():
        if values.get(key) != size:
            given = f"{key} is {values.get(key)!r}, and that of the weights {size}"
            raise InputError(f"{folder / checkpoint.CONFIG}: {given}: the configuration does not belong to them")
    return values


def tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors by the names and in the layout of GPT-2. Raises InputError for a damaged file.

    Biases that are missing are zeros, which is the same function, where config.json has bias false.
    """
    values = config(folder)
    turned = _is_turned(_shapes(folder))
    plain = {} if values.get("bias", True) else _zero_biases(values)
    for name, tensor in checkpoint.load_weights(folder).items():
        name = _plain(name)
        is_matrix = name.endswith(MATRICES)
        plain[name] = tensor.T if turned and is_matrix else tensor
    return plain


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors under their names without prefixes."""
    return {_plain(name): shape for name, shape in (checkpoint.shapes(folder) or {}).items()}


def _is_turned(shapes: dict[str, tuple[int, ...]]) -> bool:
    """Are the matrices (out,in)?"""
    table = shapes.get(EMBEDDING) or shapes.get(HEAD) or (0,)
    width = table[-1]
    return shapes.get("h.0.attn.c_attn.weight") == (3 * width, width)


def _zero_biases(values: dict) -> dict[str, np.ndarray]:
    """A bias of zeros for each linear map and each norm."""
    width = values["n_embd"]
    zeros = {"ln_f.bias": np.zeros(width, np.float32)}
    for i in range(values["n_layer"]):
        for module, times in OF_BIASES.items():
            zeros[f"h.{i}.{module}.bias"] = np.zeros(times * width, np.float32)
    return zeros


def _plain(name: str) -> str:
    """The name of a tensor without the prefixes."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
