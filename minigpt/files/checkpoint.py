"""Model directories and resume files: safetensors on disk, written beside, synced and renamed, never half there.

Directories whose weights are split over several files are read too.
"""

import json
from pathlib import Path

import numpy as np
import safetensors

from minigpt.device.arrays import to_device
from minigpt.errors import InputError
from minigpt.files.disk import in_place_of, read_json, reason, write_text

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


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
        with safetensors.safe_open(path, framework="numpy") as file:
            header, start = _header(path)
            tensors = {}
            for name in list(file.keys()):
                kind = header[name]["dtype"]
                if kind.startswith(("F4", "F6_", "F8")):
                    raise TypeError(f"{name} holds {kind}")
                tensors[name] = _widen(path, start, header[name]) if kind == "BF16" else file.get_tensor(name)
            return tensors, file.metadata() or {}
    except (OSError, safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {reason(error)}") from error
    except TypeError as error:
        raise InputError(f"{path}: {error}, which NumPy has no type for: save it in float32") from error


def _header(path: Path) -> tuple[dict, int]:
    """The header of a file that the library found whole, and where its numbers begin.

    Two rules of the format are left to us: the header begins with a brace, and no name stands in it twice.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length)
    if text[:1] != b"{":
        raise ValueError("its header does not begin with {")
    return json.loads(text.decode("utf-8"), object_pairs_hook=_each_once), 8 + length


def _each_once(pairs: list[tuple]) -> dict:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands in its header twice")
    return dict(pairs)


def _widen(path: Path, start: int, entry: dict) -> np.ndarray:
    """A bfloat16 tensor as float32, of which it is the upper half."""
    begin, end = entry["data_offsets"]
    upper = np.fromfile(path, "<u2", (end - begin) // 2, offset=start + begin)
    return (upper.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])


def save_model(folder: str | Path, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """Write a model directory: config.json and model.safetensors."""
    write_text(Path(folder) / CONFIG, json.dumps(config, indent=2) + "\n")
    save_tensors(Path(folder) / WEIGHTS, tensors)


def load_config(folder: str | Path) -> dict:
    """The config.json of a model directory. Raises InputError where there is none, or one without a model_type."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} is not a model directory: it has no {CONFIG}")
    config = read_json(path)
    if "model_type" not in config:
        raise InputError(f"{path} names no model_type: is it a model directory?")
    return config


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory, under the names that they have there, from one file or from several."""
    folder = Path(folder)
    if not (folder / WEIGHTS).is_file() and (folder / INDEX).is_file():
        return _split_weights(folder)
    tensors, _ = load_tensors(folder / WEIGHTS)
    return tensors


def _split_weights(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a large model that is stored in several files, which an index names."""
    files = read_json(folder / INDEX).get("weight_map")
    if not isinstance(files, dict) or any(type(f) is not str or Path(f).name != f or "\\" in f for f in files.values()):
        raise InputError(f"{folder / INDEX}: expected a weight_map from tensors to files in the same folder")
    parts = [load_tensors(folder / file)[0] for file in sorted(set(files.values()))]
    merged = {name: tensor for part in parts for name, tensor in part.items()}
    if len(merged) < sum(map(len, parts)):
        raise InputError(f"{folder}: a tensor stands in two of the files")
    return merged


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
        with np.errstate(over="ignore"):
            values = tensor.astype(data.dtype)
        if not np.isfinite(values).all():
            raise InputError(f"{source}: tensor {name} holds numbers that are not finite in {data.dtype}")
        data[...] = to_device(values, "cpu" if isinstance(data, np.ndarray) else "cuda")


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
