"""Model directories and resume files: safetensors on disk, written beside, synced and renamed, never half there.

Directories whose weights are split over several files are read too.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from minigpt.device.arrays import to_device
from minigpt.errors import InputError
from minigpt.files.disk import in_place_of, read_json, reason, write_text

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
RESUME = "resume.safetensors"  # from which a training run goes on
INDEX = "model.safetensors.index.json"  # where the weights are split over several files


def save_tensors(path: str | Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file so that at every moment either the old one or the new one is whole.

    Raises InputError where it cannot be written (a full disk, no permission); the old file is then still there.
    """
    with in_place_of(Path(path)) as beside:
        _write(beside, tensors, {"format": "pt"} | (metadata or {}))


def load_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read a safetensors file: its arrays by name, and its metadata. bfloat16 comes back as float32.

    Raises InputError for a missing, truncated, damaged or foreign file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    try:
        return _load(path)
    except (OSError, safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {reason(error)}") from error
    except TypeError as error:
        raise InputError(f"{path}: {error}, which NumPy has no type for: save it in float32") from error


def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The same, with the errors of the library. Raises TypeError for a dtype that NumPy does not have."""
    tensors = {}
    with safetensors.safe_open(path, framework="numpy") as file:
        header, start = _header(path)
        names = list(file.keys())
        for name in names:
            kind = header[name]["dtype"]
            if kind.startswith(("F4", "F6_", "F8")):
                raise TypeError(f"{name} holds {kind}")
            if kind == "BF16":
                tensors[name] = _widen(path, start, header[name])
            else:
                tensors[name] = file.get_tensor(name)
        return tensors, file.metadata() or {}


def _header(path: Path) -> tuple[dict, int]:
    """The header of a file that the library found whole, and the place in bytes where its numbers begin.

    Two rules of the format the library does not check: the header begins with a brace, and no name stands in it twice.
    Raises ValueError where one of them is broken.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length)
    if text[:1] != b"{":
        raise ValueError("its header does not begin with {")
    header = json.loads(text.decode("utf-8"), object_pairs_hook=_each_once)
    return header, 8 + length


def _each_once(pairs: list[tuple]) -> dict:
    """The dictionary of these pairs. Raises ValueError where a key stands in them twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in its header twice")
    return found


def _widen(path: Path, start: int, entry: dict) -> np.ndarray:
    """A bfloat16 tensor as float32, of which it is the upper half."""
    begin, end = entry["data_offsets"]
    n_numbers = (end - begin) // 2
    upper = np.fromfile(path, "<u2", n_numbers, offset=start + begin)
    bits = upper.astype(np.uint32) << 16
    return bits.view(np.float32).reshape(entry["shape"])


def save_model(folder: str | Path, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """Write a model directory: config.json and model.safetensors. Raises InputError where it cannot be written."""
    folder = Path(folder)
    text = json.dumps(config, indent=2)
    write_text(folder / CONFIG, text + "\n")
    save_tensors(folder / WEIGHTS, tensors)


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
    if folder.is_file():
        return f"{wrong}, it is a file: give the folder of a model"
    if not folder.is_dir():
        return f"{wrong}, it does not exist: give the folder of a model, or the name of a downloaded one"
    if (folder / "loss.csv").is_file():
        return f"{wrong} yet: go on with its run: minigpt train --resume --out {folder}"
    return f"{wrong}: give the folder that minigpt train has written"


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory, under the names that they have there, from one file or from several.

    Raises InputError where a file is missing or damaged.
    """
    folder = Path(folder)
    if not (folder / WEIGHTS).is_file() and (folder / INDEX).is_file():
        return _split_weights(folder)
    tensors, _ = load_tensors(folder / WEIGHTS)
    return tensors


def _split_weights(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a large model that is stored in several files, which an index names."""
    file_of = read_json(folder / INDEX).get("weight_map")
    if not isinstance(file_of, dict) or not all(map(_is_file_name, file_of.values())):
        raise InputError(f"{folder / INDEX}: expected a weight_map from tensors to files in the same folder")
    merged = {}
    for file in sorted(set(file_of.values())):
        tensors, _ = load_tensors(folder / file)
        if not merged.keys().isdisjoint(tensors):
            raise InputError(f"{folder}: a tensor stands in two of the files")
        merged |= tensors
    return merged


def _is_file_name(value: Any) -> bool:
    """Is it the name of a file, without a folder, on every system?"""
    if not isinstance(value, str):
        return False
    return Path(value).name == value and "\\" not in value


def fill(parameters: dict, tensors: dict[str, np.ndarray], source: Path) -> None:
    """Put tensors into parameters of the same names and shapes, keeping the parameters' dtype and device.

    Raises InputError naming the first tensor that is missing, left over or misshapen.
    """
    missing = set(parameters) - set(tensors)
    if missing:
        raise InputError(f"{source}: tensor {min(missing)} is missing")
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


def _write(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """The safetensors format: the length of a header, the header in JSON, the numbers of one tensor after the other.

    Written here, because the library's own writer leaves a hidden file of full size behind whenever it is killed.
    """
    header = {"__metadata__": metadata}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.nbytes
        letter = {"f": "F", "i": "I", "u": "U"}[tensor.dtype.kind]
        bits = 8 * tensor.itemsize
        header[name] = {"dtype": f"{letter}{bits}", "shape": tensor.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors.values():
            file.write(np.asarray(tensor, order="C").data)
