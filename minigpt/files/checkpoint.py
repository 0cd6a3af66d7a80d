"""Model directories: config.json beside the weights, which say what was in it when they were saved.

Directories whose weights are split over several files are read too.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.device.arrays import to_device
from minigpt.errors import InputError
from minigpt.files.disk import read_json, typed, write_json
from minigpt.files.tensors import load_tensors, narrow, read_header, save_tensors

__all__ = [
    "CONFIG", "INDEX", "RESUME", "WEIGHTS", "check_config", "fill", "load_config", "load_tensors", "load_weights",
    "save_model", "save_tensors", "saved_config", "shapes", "without",
]  # fmt: skip

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"
OF_NANOGPT = "ckpt.pt"
LONGEST_NAME = 255  # bytes, on the usual file systems
RESUME = "resume.safetensors"  # from which a training run goes on
INDEX = "model.safetensors.index.json"  # where the weights are split over several files


def save_model(folder: str | Path, config: dict, tensors: Mapping[str, Any], dtype: str | None = None) -> None:
    """Write a model directory: config.json and model.safetensors, whose metadata holds the configuration once more.

    dtype: "bfloat16" rounds the weights to 16 bits; None keeps what they are. Raises InputError where it
    cannot be written.
    """
    folder = Path(folder)
    if dtype == "bfloat16":
        tensors = {name: narrow(tensor) for name, tensor in tensors.items()}
    write_json(folder / CONFIG, config)
    save_tensors(folder / WEIGHTS, tensors, {"config": json.dumps(config)})


def load_config(folder: str | Path) -> dict:
    """The config.json of a model directory. Raises InputError where there is none, or one without a model_type."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(_no_model(Path(folder)))
    config = read_json(path)
    if "model_type" not in config:
        raise InputError(f"{path} names no model_type: is it a model directory?")
    return config


def _no_model(folder: Path) -> str:
    """What a path is that holds no model, and what to do."""
    wrong = f"{folder} is not a model directory: it has no {CONFIG}"
    if folder.is_file() and folder.suffix == ".gguf":
        return f"{wrong}, it is a file: minigpt convert {typed(folder)} FOLDER makes one of it"
    if folder.is_file():
        return f"{wrong}, it is a file: give the folder of a model"
    if not folder.is_dir():
        return f"{wrong}, it does not exist: give the folder of a model, or the name of a downloaded one"
    if (folder / RESUME).is_file():
        return f"{wrong} yet: go on with its run: minigpt train --resume --out {typed(folder)}"
    if (folder / OF_NANOGPT).is_file():
        advice = "convert it as the first lines of minigpt/files/nanogpt.py do"
        return f"{wrong}, and {OF_NANOGPT} is a pickle, which may run any program: {advice}"
    return f"{wrong}: give the folder that minigpt train has written"


def check_config(folder: str | Path, config: dict) -> None:
    """Raises InputError where config.json is not the one with which the weights beside it were saved, naming the key.

    Weights of other programs do not say with which one that was. Keys that were added since are not looked at.
    """
    for key, value in (saved_config(folder) or {}).items():
        if not _is_same(config.get(key), value):
            differs = f"{key} is {config.get(key)!r}, and the weights were saved with {value!r}"
            advice = "put that back; a rate of dropout is changed by --dropout, or as an argument of load"
            raise InputError(f"{Path(folder) / CONFIG}: {differs}: {advice}")


def saved_config(folder: str | Path) -> dict | None:
    """The configuration with which the weights in a folder were saved; None where they do not tell.

    Raises InputError where the file of the weights is damaged.
    """
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        return None
    saved = read_header(path).metadata.get("config")
    if saved is None:
        return None
    try:
        return dict(json.loads(saved))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: the configuration in its metadata is damaged: take another copy of it") from error


def _is_same(a: Any, b: Any) -> bool:
    """Are two values of JSON the same? 1 and 1.0 are, 1 and true are not."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def shapes(folder: str | Path) -> dict[str, tuple[int, ...]] | None:
    """The shapes of the tensors of a model directory, read from the headers alone. None where it has no weights.

    Raises InputError where a file is missing or damaged.
    """
    files = _files(Path(folder))
    if files == [Path(folder) / WEIGHTS] and not files[0].is_file():
        return None
    found = {}
    for file in files:
        found |= read_header(file).shapes
    return found


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory, under the names that they have there, from one file or from several.

    Raises InputError where a file is missing or damaged.
    """
    merged = {}
    for file in _files(Path(folder)):
        tensors, _ = load_tensors(file)
        if not merged.keys().isdisjoint(tensors):
            raise InputError(f"{folder}: a tensor stands in two of the files")
        merged |= tensors
    return merged


def _files(folder: Path) -> list[Path]:
    """The files with the weights of a model: one, or those that an index names. Raises InputError for a pickle."""
    weights_here = (folder / WEIGHTS).is_file() or (folder / INDEX).is_file()
    if not weights_here and (folder / PICKLE).is_file():
        advice = "open it with transformers and save it again, which writes model.safetensors"
        raise InputError(f"{folder / PICKLE} is a pickle, which may run any program: {advice}")
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [folder / WEIGHTS]
    file_of = read_json(folder / INDEX).get("weight_map")
    if not isinstance(file_of, dict) or not file_of or not all(map(_is_file_name, file_of.values())):
        raise InputError(f"{folder / INDEX}: expected a weight_map from tensors to files in the same folder")
    return [folder / file for file in sorted(set(file_of.values()))]


def _is_file_name(value: Any) -> bool:
    """Is it the name of a file, without a folder, on every system?"""
    if not isinstance(value, str) or not value.isprintable() or len(value.encode()) > LONGEST_NAME:
        return False
    return Path(value).name == value and "\\" not in value


def without(name: str, tensors: dict[str, np.ndarray]) -> str:
    """What to say of a tensor that is not among these: that it is missing, or which prefix stands before its name."""
    for other in sorted(tensors):
        prefix = other.removesuffix(name)
        if other != name and prefix.endswith(".") and prefix != other:
            cure = f"take {prefix!r} off the names of its tensors, and save it again"
            return f"tensor {name} is missing, and {other} is there: {cure}"
    return f"tensor {name} is missing"


def fill(parameters: dict, tensors: dict[str, np.ndarray], source: Path) -> None:
    """Put tensors into parameters of the same names and shapes, keeping the parameters' dtype and device.

    Raises InputError naming the first tensor that is missing, left over or misshapen.
    """
    missing = set(parameters) - set(tensors)
    if missing:
        raise InputError(f"{source}: {without(min(missing), tensors)}")
    extra = set(tensors) - set(parameters)
    if extra:
        raise InputError(f"{source}: tensor {min(extra)} does not belong to this model")
    for name, parameter in parameters.items():
        tensor = tensors[name]
        data = parameter.data
        if tensor.dtype.kind != "f":
            raise InputError(f"{source}: tensor {name} holds {tensor.dtype}; expected floating-point numbers")
        if tensor.shape != data.shape:
            raise InputError(f"{source}: tensor {name} has shape {tensor.shape}; the configuration wants {data.shape}")
        with np.errstate(over="ignore"):
            values = tensor.astype(data.dtype)
        if not np.isfinite(values).all():
            raise InputError(f"{source}: tensor {name} holds numbers that are not finite in {data.dtype}")
        device = "cpu" if isinstance(data, np.ndarray) else "cuda"
        data[...] = to_device(values, device)
