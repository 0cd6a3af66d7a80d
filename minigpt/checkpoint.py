"""Model directories and resume files: safetensors on disk, written beside, synced and renamed, never half there."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import save_file

from minigpt.backend import to_device
from minigpt.errors import InputError

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save_tensors(path: str | Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file so that at every moment either the old one or the new one is whole.

    Raises InputError where it cannot be written (a full disk, no permission); the old file is then still there.
    """
    path = Path(path)
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        save_file(contiguous, beside, metadata={"format": "pt"} | (metadata or {}))
        _sync(beside)
        os.replace(beside, path)
        _sync(path.parent)
    except (OSError, safetensors.SafetensorError) as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {_reason(error)}; what was there before is untouched") from error


def load_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read a safetensors file: its arrays by name, and its metadata.

    Raises InputError for a missing, truncated, damaged or foreign file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {_reason(error)}") from error
    except TypeError as error:  # bfloat16
        raise InputError(f"{path} holds numbers that NumPy has no type for ({error}): save it in float32") from error


def write_text(path: str | Path, text: str) -> None:
    """Write a small text file beside, sync it and rename it: like save_tensors."""
    path = Path(path)
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8", newline="\n")
        _sync(beside)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {_reason(error)}; what was there before is untouched") from error


def save_model(folder: str | Path, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """Write a model directory: config.json and model.safetensors."""
    write_text(Path(folder) / CONFIG, json.dumps(config, indent=2) + "\n")
    save_tensors(Path(folder) / WEIGHTS, tensors)


def load_config(folder: str | Path, model_type: str | None = None) -> dict:
    """The config.json of a model directory, which must be of this model_type ("openai-gpt", "gpt2") if one is given."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} is not a model directory: it has no {CONFIG}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"{path} names no model_type: is it a model directory?")
    if model_type and config["model_type"] != model_type:
        raise InputError(f"{folder} holds a model of type {config['model_type']!r}; expected {model_type!r}")
    return config


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory under the names used here.

    The prefix "transformer." is dropped, and so are the stored causal masks and a stored output head, which is the
    token embedding again.
    """
    tensors, _ = load_tensors(Path(folder) / WEIGHTS)
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    masks = {name for name, tensor in plain.items() if name.endswith(".attn.bias") and tensor.ndim == 4}
    return {name: tensor for name, tensor in plain.items() if name not in masks and name != "lm_head.weight"}


def fill(parameters: dict, tensors: dict[str, np.ndarray], source: Path) -> None:
    """Put tensors into parameters of the same names and shapes, keeping the parameters' dtype and device.

    Raises InputError naming the first tensor that is missing, left over or misshapen.
    """
    missing, extra = set(parameters) - set(tensors), set(tensors) - set(parameters)
    if missing or extra:
        name = min(missing or extra)
        raise InputError(f"{source}: tensor {name} {'is missing' if missing else 'does not belong to this model'}")
    for name, parameter in parameters.items():
        tensor, data = tensors[name], parameter.data
        if tensor.shape != data.shape:
            raise InputError(f"{source}: tensor {name} has shape {tensor.shape}; the configuration wants {data.shape}")
        data[...] = to_device(tensor.astype(data.dtype), "cpu" if isinstance(data, np.ndarray) else "cuda")


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle for a directory
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
        return "the disk is full"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
