"""Adapters in files, as the package peft has them: `adapter_config.json` and `adapter_model.safetensors`.

    save_adapter(model, "mine", base="HuggingFaceTB/SmolLM2-135M-Instruct")
    open_adapter(model, "mine")

A file holds no model, only what was learned beside one: a few megabytes. There each matrix stands under the name that
Hugging Face transformers has for its layer; a layer here may be several there, as queries, keys and values are.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError, check_folder, is_number, shown
from minigpt.files import disk
from minigpt.files.tensors import load_tensors, save_tensors
from minigpt.models.language_model import LanguageModel
from minigpt.models.lora import LEARNED, LoRA, is_called, linear_layers, lora_layers, put_lora
from minigpt.nn import Linear

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."  # before the name of every layer
NOT_DONE = (  # settings that change what an adapter computes
    "use_dora", "use_qalora", "use_bdlora", "lora_bias", "modules_to_save", "layer_replication", "target_parameters",
    "alora_invocation_tokens", "trainable_token_indices", "arrow_config",
)  # fmt: skip


class Place(NamedTuple):
    """Where a published layer is found here.

    path: the layer here; columns: which of its outputs are those of the published one; turned: is its weight (out,in)
    in files?
    """

    path: str
    columns: np.ndarray
    turned: bool


class Part(NamedTuple):
    """What a file has for a published layer: a (I,r), b (r,O), as they are here, and how strongly they count."""

    place: Place
    a: np.ndarray
    b: np.ndarray
    scale: float


def save_adapter(model: LanguageModel, folder: str | Path, base: str | None = None, overwrite: bool = False) -> None:
    """Write the adapters of a model, as peft writes them. base: the name or the folder of the model without them.

    Raises InputError for a model without adapters, for one whose layers have no form in files, and, unless overwrite,
    where the folder holds some already.
    """
    check_folder(folder)
    folder = Path(folder)
    layers = lora_layers(model)
    if not layers:
        raise InputError("this model has no adapters: add_lora(model) adds some")
    if (folder / WEIGHTS).exists() and not overwrite:
        raise InputError(f"{folder} already holds adapters: give another folder, or overwrite=True")
    tensors = {}
    used = {}
    everywhere = _places(model)
    for name, place in everywhere.items():
        if place.path not in layers:
            continue
        layer = layers[place.path]
        used[name] = layer
        a, b = (to_numpy(parameter.data) for parameter in (layer.lora_A, layer.lora_B))
        tensors[f"{PREFIX}{name}.lora_A.weight"] = a.T
        tensors[f"{PREFIX}{name}.lora_B.weight"] = b[:, place.columns].T
    save_tensors(folder / WEIGHTS, tensors)
    kind = "SEQ_2_SEQ_LM" if model.reads_a_source else "CAUSAL_LM"
    about: dict[str, Any] = {"peft_type": "LORA", "task_type": kind}
    about |= {"base_model_name_or_path": base, "inference_mode": True}
    about |= {"fan_in_fan_out": not all(everywhere[name].turned for name in used), "bias": "none", "lora_dropout": 0.0}
    about |= {"target_modules": _targets(used, everywhere)} | _sizes(used)
    disk.write_json(folder / CONFIG, about)


def _targets(used: Iterable[str], all_names: Iterable[str]) -> list[str]:
    """The layers with adapters as peft is told them: the ends of their names, where these say no more than that."""
    ends = {name.rpartition(".")[2] for name in used}
    meant = {name for name in all_names if name.rpartition(".")[2] in ends}
    return sorted(ends) if meant == set(used) else sorted(used)


def _sizes(used: dict[str, LoRA]) -> dict[str, Any]:
    """Rank and alpha: those of the first layer, and by name those that differ from it."""
    first = next(iter(used.values()))
    ranks = {name: layer.rank for name, layer in used.items() if layer.rank != first.rank}
    alphas = {name: layer.alpha for name, layer in used.items() if layer.alpha != first.alpha}
    return {"r": first.rank, "lora_alpha": first.alpha, "rank_pattern": ranks, "alpha_pattern": alphas}


def open_adapter(model: LanguageModel, folder: str | Path) -> dict[str, LoRA]:
    """Put the adapters in a folder into a model, in place; returns them by name. They can learn on, or be merged.

    Raises InputError for a missing or damaged file, for adapters of another kind or another model, and for a model that
    has some already.
    """
    check_folder(folder)
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} holds no adapters: it has no {CONFIG}")
    about = disk.read_json(path)
    _check(about, path)
    layers = linear_layers(model)
    parts: dict[str, list[Part]] = {}
    for part in _parts(model, Path(folder), about):
        parts.setdefault(part.place.path, []).append(part)
    put_lora(model, {one: _together(layers[one], several) for one, several in parts.items()})
    return lora_layers(model)


def _check(about: dict[str, Any], path: Path) -> None:
    """Raises InputError for adapters that are not LoRA, or not of the usual kind."""
    kind = about.get("peft_type")
    if kind != "LORA":
        raise InputError(f"{path}: peft_type is {shown(kind)}: only LORA can be opened")
    for name in NOT_DONE:
        if about.get(name):
            raise InputError(f"{path} sets {name}, which is not done here")
    if about.get("bias", "none") != "none":
        raise InputError(f"{path}: bias is {shown(about['bias'])}: biases that learn are not done here")
    alphas = about.get("alpha_pattern") or {}
    if not isinstance(alphas, dict):
        raise InputError(f"{path}: alpha_pattern is {shown(alphas)}: expected an object of names and numbers")
    for name, alpha in [("lora_alpha", about.get("lora_alpha")), *alphas.items()]:
        if not is_number(alpha) or not 0 < alpha < float("inf"):
            raise InputError(f"{path}: {name} is {shown(alpha)}: expected a number above 0")


def _parts(model: LanguageModel, folder: Path, about: dict[str, Any]) -> list[Part]:
    """What the file has for each published layer. Raises InputError for what does not fit the model."""
    path = folder / WEIGHTS
    tensors, _ = load_tensors(path)
    if not tensors:
        raise InputError(f"{path} holds no adapters: it is empty")
    places = _places(model)
    layers = linear_layers(model)
    base = about.get("base_model_name_or_path")
    of_another = f"it belongs to another model ({shown(base)})" if base else "it belongs to another model"
    names = {}
    for key in tensors:
        name, dot, kind = key.removeprefix(PREFIX).removesuffix(".weight").rpartition(".")
        if kind not in LEARNED or not dot:
            raise InputError(f"{path}: {key} is neither lora_A nor lora_B of a linear layer, and not done here")
        if name not in places:
            raise InputError(f"{path} has {name}, and this {type(model).__name__} has no such layer: {of_another}")
        names.setdefault(name, {})[kind] = tensors[key]
    found = []
    for name, pair in names.items():
        if len(pair) < len(LEARNED):
            raise InputError(f"{path}: of {name} there is only {' and '.join(pair)}: the file is damaged")
        a, b = (pair[kind].T for kind in LEARNED)
        place = places[name]
        n_in = layers[place.path].weight.data.shape[0]
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not a.shape[1]:
            raise InputError(f"{path}: the shapes of {name}, {pair['lora_A'].shape} and {pair['lora_B'].shape}, are "
                             "not those of two matrices of one rank: the file is damaged")  # fmt: skip
        if (len(a), b.shape[1]) != (n_in, len(place.columns)):
            sizes = f"{name} is {len(a)} x {b.shape[1]} there, and {n_in} x {len(place.columns)} in this model"
            raise InputError(f"{path}: {sizes}: {of_another}")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise InputError(f"{path}: {name} holds numbers that are not finite: the file is damaged")
        found.append(Part(place, a, b, _scale(about, name, a.shape[1])))
    return found


def _scale(about: dict[str, Any], name: str, rank: int) -> float:
    """How strongly A B counts, by the settings: alpha/r, or alpha/sqrt(r)."""
    alpha = about["lora_alpha"]
    for key, own in (about.get("alpha_pattern") or {}).items():
        if is_called(name, key):
            alpha = own
    return alpha / rank**0.5 if about.get("use_rslora") else alpha / rank


def _together(linear: Linear, parts: list[Part]) -> LoRA:
    """One layer here of its published parts: with their A where it is the same in all, or else with all of theirs.

    Then each B stands in rows and columns of its own, and 0 elsewhere: the sum of the ranks is the rank.
    """
    n_out = linear.weight.data.shape[1]
    dtype = linear.weight.data.dtype
    first = parts[0]
    alike = all(np.array_equal(part.a, first.a) and part.scale == first.scale for part in parts)
    if alike:
        a = first.a
        b = np.zeros((a.shape[1], n_out), dtype)
        for part in parts:
            b[:, part.place.columns] = part.b
        return _new(linear, a, b, first.scale)
    a = np.concatenate([part.a for part in parts], axis=1)
    b = np.zeros((a.shape[1], n_out), dtype)
    begin = 0
    for part in parts:
        rank = part.a.shape[1]
        b[begin : begin + rank, part.place.columns] = part.b * (part.scale / first.scale)
        begin += rank
    return _new(linear, a, b, first.scale)


def _new(linear: Linear, a: np.ndarray, b: np.ndarray, scale: float) -> LoRA:
    """The layer, in the dtype of its weight."""
    dtype = linear.weight.data.dtype
    return LoRA(linear, a.astype(dtype), b.astype(dtype), alpha=scale * a.shape[1])


def _places(model: LanguageModel) -> dict[str, Place]:
    """{published name of a linear layer: where it is found here}

    Every column of every weight gets a number, and where these numbers stand afterwards, the model's own way to write
    its weights tells: whatever it does with their columns, it does with those of B. Raises InputError for a model whose
    linear layers are none in files.
    """
    of_layers = {f"{path}.weight": path for path in linear_layers(model)}
    marks = {}
    begins = {}
    owners = []  # of each number the layer whose weight has this column, or None
    for name, parameter in model.named_parameters():
        if name.endswith(LEARNED):
            continue
        *rows, width = parameter.data.shape
        numbers = len(owners) + np.arange(width)
        marks[name] = numbers[None] if rows else numbers
        begins[name] = len(owners)
        owners += [of_layers.get(name)] * width
    try:
        published = model.to_published(marks)
    except ValueError as error:  # its matrices have three axes there
        what = f"the layers of this {type(model).__name__} have other axes in files, and its adapters none"
        raise InputError(f"{what}: merge_lora(model), and save it whole") from error
    found = {}
    for name, numbers in published.items():
        path = owners[numbers.min()]
        if path is None:
            continue
        columns = numbers.ravel() - begins[f"{path}.weight"]
        whole_name = model.prefix + name if name in marks else name
        found[whole_name.removesuffix(".weight")] = Place(path, columns, turned=len(numbers) > 1)
    return found
