"""Turn a GGUF file, or weights of llama2.c, into a model directory as Hugging Face's, which every command opens."""

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.errors import InputError
from minigpt.files import checkpoint, disk, gguf, gguf_llama, llama2c, published, tensors
from minigpt.files.gguf import Header
from minigpt.files.gguf_llama import Weight
from minigpt.jobs.option_fields import argument, option
from minigpt.models.costs import human_bytes
from minigpt.tokenizer import files, of_gguf, settings, spiece
from minigpt.tokenizer import llama2c as pieces_of_llama2c
from minigpt.tokenizer.of_gguf import Described

GENERATION = "generation_config.json"
DTYPES = {"float32": np.dtype(np.float32), "bfloat16": tensors.NARROW, "float16": np.dtype(np.float16)}
LLAMA2C = ".bin"  # how the names of its files end
ENDS = ("eot", "eom")  # tokens that end an answer, beside the one that ends a text


@dataclass(kw_only=True)
class ConvertOptions:
    """What `minigpt convert` can be told."""

    file: str = argument("a model in a GGUF file, or weights of llama2.c (.bin)", metavar="FILE")
    folder: str = argument("the model directory to write", metavar="FOLDER")
    dtype: str = option("float32", "what the weights are kept in", choices=tuple(DTYPES))
    vocabulary: str | None = option(None, "of llama2.c: the vocabulary that belongs to the weights", metavar="FILE.bin")


class Found(NamedTuple):
    """What is in a GGUF file: everything but the numbers."""

    header: Header
    config: dict[str, Any]
    weights: dict[str, Weight]
    text: Described


def convert(options: ConvertOptions) -> None:
    """Write a model directory. Raises InputError as `convert_file` and `convert_llama2c` do."""
    if Path(options.file).suffix == LLAMA2C:
        convert_llama2c(options, print)
        published.tell(f"now: minigpt sample {disk.typed(options.folder)}")
        return
    if options.vocabulary is not None:
        raise InputError("--vocabulary is for weights of llama2.c: a GGUF file has its own")
    found = convert_file(options.file, options.folder, options.dtype, print)
    command = "chat" if "chat_template" in found.text.config else "sample"
    published.tell(f"now: minigpt {command} {disk.typed(options.folder)}")


def convert_file(path: str | Path, folder: str | Path, dtype: str, write: Callable[[str], object]) -> Found:
    """Write config.json, the weights in `dtype`, and the files of the tokenizer; returns what the file holds.

    write(line): tells it. One tensor is in memory at a time. Raises InputError for what is damaged or not built, where
    the folder holds something already, and where it cannot be written; then no folder is left.
    """
    with disk.new_folder(folder) as beside:
        found = look(path)
        for line in lines(found):
            write(line)
        _write(found, beside, dtype)
        size = (beside / checkpoint.WEIGHTS).stat().st_size
    write(f"written       {disk.typed(folder)}: {human_bytes(size)} of {dtype}")
    return found


def convert_llama2c(options: ConvertOptions, write: Callable[[str], object]) -> None:
    """Write the weights of llama2.c, with their vocabulary if one is given; write(line): tells what they are.

    Raises InputError for a damaged file, a vocabulary of another size, and where the folder holds something already.
    """
    with disk.new_folder(options.folder) as beside:
        config, weights = llama2c.read(options.file)
        n_parameters = sum(weight.size for weight in weights.values())
        write(f"parameters    {n_parameters:,}")
        write(f"vocabulary    {config['vocab_size']:,} tokens")
        kept = {name: rounded(weight, options.dtype, name) for name, weight in weights.items()}
        checkpoint.save_model(beside, config | {"torch_dtype": options.dtype}, kept)
        if options.vocabulary is None:
            return
        content = pieces_of_llama2c.read(options.vocabulary)
        if len(content.pieces) != config["vocab_size"]:
            sizes = f"{len(content.pieces)} pieces, and the weights {config['vocab_size']} rows"
            raise InputError(f"{options.vocabulary} has {sizes}: they do not belong together")
        spiece.write(beside / "tokenizer.model", content)
        disk.write_json(beside / settings.CONFIG, {"tokenizer_class": "LlamaTokenizer"})


def look(path: str | Path) -> Found:
    """What is in a GGUF file, all of it checked. Raises InputError for what is damaged or not built."""
    header = gguf.read_header(path)
    config = gguf_llama.config(header)
    weights = gguf_llama.weights(header, config)
    return Found(header, config, weights, of_gguf.described(header.settings, header.path))


def lines(found: Found) -> list[str]:
    """What is told of a file."""
    config = found.config
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    blocks = f"{config['num_hidden_layers']} blocks of width {config['hidden_size']:,}"
    shared = f", which share {groups} of keys and values" if groups < heads else ""
    n_parameters = 0
    kinds = Counter()
    for weight in found.weights.values():
        n_parameters += math.prod(weight.shape)
        kinds[gguf.check(found.header, weight.source).name] += 1
    kept = ", ".join(f"{kind} in {count}" for kind, count in kinds.most_common())
    template = "with" if "chat_template" in found.text.config else "without"
    return [
        f"architecture  {config['model_type']}: {blocks}, {heads} heads{shared}",
        f"parameters    {n_parameters:,}",
        f"quantisation  {kept} of {kinds.total()} tensors",
        f"vocabulary    {config['vocab_size']:,} tokens, {template} a template for chats",
        f"context       {config['max_position_embeddings']:,} tokens",
    ]


def _write(found: Found, folder: Path, dtype: str) -> None:
    """The files of a model directory."""
    config = found.config | found.text.ids | {"torch_dtype": dtype}
    with tqdm(total=len(found.weights), desc="unpacking", unit="tensor", leave=False, delay=1, disable=None) as bar:

        def unpacked(name: str, weight: Weight) -> np.ndarray:
            bar.update()
            return rounded(gguf_llama.read(found.header, weight), dtype, name)

        deferred = {}
        for name, weight in found.weights.items():
            compute = functools.partial(unpacked, name, weight)
            deferred[name] = tensors.Deferred(weight.shape, DTYPES[dtype], compute)
        checkpoint.save_model(folder, config, deferred)
    disk.write_json(folder / files.TOKENIZER_JSON, found.text.tokenizer, indent=None)
    longest = {"model_max_length": config["max_position_embeddings"]}
    disk.write_json(folder / settings.CONFIG, found.text.config | longest)
    disk.write_json(folder / GENERATION, found.text.ids | _ends(found))


def rounded(numbers: np.ndarray, dtype: str, name: str) -> np.ndarray:
    """float32 in one of DTYPES. Raises InputError for a number that float16 cannot hold."""
    if dtype == "bfloat16":
        return tensors.narrow(numbers)
    with np.errstate(over="ignore"):
        found = numbers.astype(DTYPES[dtype], copy=False)
    if not np.isfinite(found).all():
        raise InputError(f"the tensor {name} holds {np.abs(numbers).max():g}, too large for {dtype}: "
                         "give --dtype bfloat16")  # fmt: skip
    return found


def _ends(found: Found) -> dict[str, Any]:
    """The tokens that end an answer, as generation_config.json names them: one, or a list."""
    ids = [found.text.ids.get("eos_token_id")]
    ids += [found.header.settings.get(f"{of_gguf.PREFIX}{name}_token_id") for name in ENDS]
    ends = list(dict.fromkeys(i for i in ids if i is not None))
    return {"eos_token_id": ends[0] if len(ends) == 1 else ends} if ends else {}
