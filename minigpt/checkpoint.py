"""Model directories and resume files: safetensors on disk, written beside, synced and renamed, never half there."""

import contextlib
import errno
import json
import os
from pathlib import Path

import numpy as np
import safetensors

from minigpt.backend import to_device
from minigpt.errors import InputError

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save_tensors(path: str | Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file so that at every moment either the old one or the new one is whole.

    Raises InputError where it cannot be written (a full disk, no permission); the old file is then still there.
    """
    with _in_place_of(Path(path)) as beside:
        _write(beside, tensors, {"format": "pt"} | (metadata or {}))


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
    with _in_place_of(Path(path)) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


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
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"{path} names no model_type: is it a model directory?")
    if model_type and config["model_type"] != model_type:
        raise InputError(f"{folder} holds a model of type {config['model_type']!r}; expected {model_type!r}")
    return config


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory under the names used here.

    The prefix "transformer." is dropped, and so are the stored causal masks and a stored output head, which must be the
    token embedding again.
    """
    tensors, _ = load_tensors(Path(folder) / WEIGHTS)
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    masks = {name for name, tensor in plain.items() if name.endswith(".attn.bias") and tensor.ndim == 4}
    head = plain.pop("lm_head.weight", None)
    if head is not None and not any(np.array_equal(head, tensor) for tensor in plain.values()):
        raise InputError(f"{folder}: lm_head.weight differs from the token embedding: only tied heads are built here")
    return {name: tensor for name, tensor in plain.items() if name not in masks}


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
        if tensor.dtype.kind != "f":
            raise InputError(f"{source}: tensor {name} holds {tensor.dtype}; expected floating-point numbers")
        if tensor.shape != data.shape:
            raise InputError(f"{source}: tensor {name} has shape {tensor.shape}; the configuration wants {data.shape}")
        data[...] = to_device(tensor.astype(data.dtype), "cpu" if isinstance(data, np.ndarray) else "cuda")


@contextlib.contextmanager
def _in_place_of(path: Path):
    """Yields a path to write to; what was written there takes the place of `path`, whole and synced, or not at all."""
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        _sync(beside)
        os.replace(beside, path)
    except (OSError, safetensors.SafetensorError) as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise InputError(f"cannot write {path}: {_reason(error)}; what was there before is untouched") from error
    with contextlib.suppress(OSError):  # Windows, and some file systems, cannot sync a directory
        _sync(path.parent)


def _write(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """The safetensors format: the length of a header, the header in JSON, the numbers of one tensor after the other.

    Written here, because the library's own writer leaves a hidden file of full size behind whenever it is killed.
    """
    header, end = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        kind = {"f": "F", "i": "I", "u": "U"}[tensor.dtype.kind]
        header[name] = {"dtype": f"{kind}{8 * tensor.itemsize}", "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.asarray(tensor, order="C").data)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
        return "the disk is full"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
