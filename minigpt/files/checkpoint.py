"""Model directories and resume files: safetensors on disk, written beside, synced and renamed, never half there.

Read are also directories whose weights are split over several files, and OpenAI's own release of GPT-1.
"""

import json
import math
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from minigpt.device.arrays import to_device
from minigpt.errors import InputError
from minigpt.files.disk import in_place_of, read_json, reason, write_text

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # where the weights are split over several files
SHAPES = "params_shapes.json"  # beside it, in OpenAI's release of GPT-1: params_0.npy, params_1.npy, ...
BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")  # the order of its tensors


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


def load_config(folder: str | Path, model_type: str | None = None) -> dict:
    """The config.json of a model directory, which must be of this model_type ("openai-gpt", "gpt2") if one is given.

    Raises InputError where the folder holds no model, or one of another type.
    """
    folder = Path(folder)
    path = folder / CONFIG
    if path.is_file():
        config = read_json(path)
    elif (folder / SHAPES).is_file():
        config = _openai_config(folder)
    else:
        raise InputError(f"{folder} is not a model directory: it has no {CONFIG}")
    if "model_type" not in config:
        raise InputError(f"{path} names no model_type: is it a model directory?")
    if model_type and config["model_type"] != model_type:
        raise InputError(f"{folder} holds a model of type {config['model_type']!r}; expected {model_type!r}")
    return config


def load_weights(folder: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory under the names used here.

    The prefix "transformer." is dropped, and so are the stored causal masks and a stored output head, which must be the
    token embedding again. Raises InputError where a file is missing or damaged, and where the head is another.
    """
    folder = Path(folder)
    if (folder / WEIGHTS).is_file():
        tensors, _ = load_tensors(folder / WEIGHTS)
    elif (folder / SHAPES).is_file():
        return _openai_weights(folder)
    elif (folder / INDEX).is_file():
        tensors = _split_weights(folder)
    else:
        raise InputError(f"{folder / WEIGHTS} does not exist")
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    if len(plain) < len(tensors):
        raise InputError(f"{folder}: a tensor is there twice, with and without the prefix transformer.")
    head = plain.pop("lm_head.weight", None)
    embedding = plain.get("wte.weight", plain.get("tokens_embed.weight"))
    if head is not None and embedding is not None and not np.array_equal(head, embedding):
        raise InputError(f"{folder}: lm_head.weight differs from the token embedding: only tied heads are built here")
    return {name: tensor for name, tensor in plain.items() if not _is_mask(name, tensor)}


def _is_mask(name: str, tensor: np.ndarray) -> bool:
    """A causal mask (1,1,T,T), or the number that stands for what it hides: some files hold them beside the weights."""
    if name.endswith(".attn.masked_bias"):
        return True
    return name.endswith(".attn.bias") and tensor.ndim == 4


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


def _openai_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The tensors of OpenAI's release of GPT-1 in the order of their numbers. A kernel (I,O) is stored as (1,I,O)."""
    shapes = read_json(folder / SHAPES, list)
    if len(shapes) % 12 != 2 or not all(map(_is_shape, shapes)):
        raise InputError(f"{folder / SHAPES}: expected the shapes of two embeddings and of 12 tensors for each layer")
    names = ["positions_embed.weight", "tokens_embed.weight"]
    n_layer = len(shapes) // 12
    for i in range(n_layer):
        for part in BLOCK:
            names += [f"h.{i}.{part}.weight", f"h.{i}.{part}.bias"]
    shape_of = {}
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) == 3:
            shape = shape[1:]
        shape_of[name] = tuple(shape)
    return shape_of


def _is_shape(value: Any) -> bool:
    """Is it a list of one to three sizes?"""
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        return False
    return all(type(n) is int and 0 < n < 1 << 31 for n in value)


def _openai_config(folder: Path) -> dict:
    """What the shapes tell of GPT-1's configuration. Its heads are 64 wide: that they do not tell."""
    positions, tokens, *blocks = _openai_shapes(folder).values()
    width = tokens[-1]
    return {
        "model_type": "openai-gpt",
        "n_layer": len(blocks) // 12,
        "vocab_size": tokens[0],
        "n_positions": positions[0],
        "n_embd": width,
        "n_head": width // 64,
    }


def _openai_weights(folder: Path) -> dict[str, np.ndarray]:
    """The numbers of params_0.npy, params_1.npy, ... are one long row, to be cut into the tensors."""
    shape_of = _openai_shapes(folder)
    parts = []
    path = folder / "params_0.npy"
    while path.is_file():
        parts.append(_read_npy(path))
        path = folder / f"params_{len(parts)}.npy"
    row = np.concatenate(parts) if parts else np.zeros(0)
    sizes = [math.prod(shape) for shape in shape_of.values()]
    if row.size != sum(sizes):
        have = f"{row.size:,} numbers in the {len(parts)} files before {path.name}"
        raise InputError(f"{folder}: {have}, {SHAPES} wants {sum(sizes):,}: is a file missing?")
    tensors = {}
    start = 0
    for (name, shape), size in zip(shape_of.items(), sizes, strict=True):
        tensors[name] = row[start : start + size].reshape(shape)
        start += size
    return tensors


def _read_npy(path: Path) -> np.ndarray:
    """The numbers of a .npy file in one row. Raises InputError where it is damaged, or would need pickle."""
    try:
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False).ravel()
    except (OSError, ValueError, EOFError, MemoryError, tokenize.TokenError) as error:
        raise InputError(f"{path} is not a whole file of NumPy numbers: {reason(error)}") from error


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
