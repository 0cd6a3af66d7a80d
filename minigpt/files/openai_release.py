"""OpenAI's own release of GPT-1: the shapes in a JSON file, the numbers of all tensors in params_0.npy and so on."""

import math
import tokenize
from pathlib import Path

import numpy as np

from minigpt.errors import InputError
from minigpt.files.disk import read_json, reason

SHAPES = "params_shapes.json"
SPARE_NUMBERS = 1 << 20  # so many cost nothing: what is wrong with them is told when the files are read
BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")  # the order of a block's tensors


def is_in(folder: Path) -> bool:
    """Does this folder hold such a release, and no model directory in the usual form?"""
    return (folder / SHAPES).is_file() and not (folder / "config.json").is_file()


def config(folder: Path) -> dict:
    """What the shapes tell of GPT-1's configuration. Its heads are 64 wide: that they do not tell.

    Raises InputError for shapes that are damaged, or that need far more numbers than the files beside them can hold.
    """
    shapes = _shapes(folder)
    _check_room(folder, shapes)
    positions, tokens, *blocks = shapes.values()
    n_embd = tokens[-1]
    return {
        "model_type": "openai-gpt",
        "vocab_size": tokens[0],
        "n_positions": positions[0],
        "n_embd": n_embd,
        "n_layer": len(blocks) // 12,
        "n_head": n_embd // 64,
    }


def tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors by the names used here. Raises InputError for a file that is damaged or missing."""
    shapes = _shapes(folder)
    sizes = [math.prod(shape) for shape in shapes.values()]
    numbers, missing = _numbers(folder)
    if numbers.size != sum(sizes):
        number = int(missing.stem.removeprefix("params_"))
        have = f"{numbers.size:,} numbers in the {number} files before {missing.name}"
        raise InputError(f"{folder}: {have}, {SHAPES} wants {sum(sizes):,}: is a file missing?")
    pieces = np.split(numbers, np.cumsum(sizes)[:-1])
    return {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}


def _check_room(folder: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raises InputError where the files have not even a byte for each number, before memory is taken for the model."""
    wanted = sum(map(math.prod, shapes.values()))
    n_bytes = sum(path.stat().st_size for path in folder.glob("params_*.npy"))
    if wanted > max(n_bytes, SPARE_NUMBERS):
        raise InputError(f"{folder / SHAPES} wants {wanted:,} numbers, and the files beside it have {n_bytes:,} bytes")


def _numbers(folder: Path) -> tuple[np.ndarray, Path]:
    """The numbers of params_0.npy, params_1.npy, ... as one long row, and the first such file that is missing."""
    parts = []
    while (path := folder / f"params_{len(parts)}.npy").is_file():
        try:
            with path.open("rb") as file:
                part = np.lib.format.read_array(file, allow_pickle=False)
        except (OSError, ValueError, EOFError, MemoryError, tokenize.TokenError) as error:
            raise InputError(f"{path} is not a whole file of NumPy numbers: {reason(error)}") from error
        parts.append(part.ravel())
    return np.concatenate(parts or [np.zeros(0)]), path


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor, in the order in which their numbers stand. A kernel (I,O) is stored as (1,I,O)."""
    shapes = read_json(folder / SHAPES, list)
    if len(shapes) % 12 != 2 or not all(map(_is_shape, shapes)):
        raise InputError(f"{folder / SHAPES}: expected the shapes of two embeddings and of 12 tensors for each layer")
    names = ["positions_embed.weight", "tokens_embed.weight"]
    for layer in range(len(shapes) // 12):
        for part in BLOCK:
            names += [f"h.{layer}.{part}.weight", f"h.{layer}.{part}.bias"]
    plain = [tuple(shape[1:] if len(shape) == 3 else shape) for shape in shapes]
    return dict(zip(names, plain, strict=True))


def _is_shape(value) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        return False
    return all(type(n) is int and 0 < n < 1 << 31 for n in value)
