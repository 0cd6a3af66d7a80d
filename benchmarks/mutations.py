"""Damages the files that minigpt opens, one at a time, and opens each by the code that the commands use.

    python benchmarks/mutations.py                        # 10,000 damaged files, in some minutes
    python benchmarks/mutations.py --number 100 --only config --show
    python benchmarks/mutations.py --number 16000 --only "family "       # those of every model of the registry
    python benchmarks/mutations.py --number 1000 --folder FOLDER         # those of a folder that another program saved

Damage is deterministic: bits are flipped, bytes dropped, doubled, exchanged, inserted, cut; values of JSON become huge,
negative, of another type, no number, deeply nested, or stand twice. Each file is opened in a child process that may
take 1 GB more than it has, and 5 s for a file. What can come of it:

    refused      one line that says what is wrong
    equal        what was opened is what was there before
    different    something else was opened, and nothing was said
    traceback    an error that is no answer to a user; memory: more than 1 GB; hang: more than 5 s

A text, a table of examples and a vocabulary without a checksum may have become another one that is just as good: only
files that are marked (sum) can be told from all others, and these must never be different.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt.errors import InputError

SECONDS = 5
MEMORY = 1 << 30
OUTCOMES = ("refused", "equal", "different", "traceback", "memory", "hang")


class Kind(NamedTuple):
    """A kind of file. folder: where a good one lies. open: gives all that a command takes from the folder.

    has_sum: is it compared with a checksum?
    """

    name: str
    folder: Path
    file: str
    open: Callable[[Path], Any]
    has_sum: bool = False


# --- damage ----------------------------------------------------------------------------------------------------------

DEEP = "\0deep"  # stands for a value of 100,000 lists in each other
VALUES = (
    0, 1, -1, 2, 7, 2**31, 2**40, 10**9, 10**30, -(10**9), 0.5, 1.5, -0.5, 1e-5, 1e308, float("nan"), float("inf"),
    True, False, None, "", "x", "1", "gpt2", "../x", "é" * 300, [], {}, [1], [[]], {"a": 1}, DEEP,
)  # fmt: skip


def damaged(content: bytes, name: str, rng: np.random.Generator) -> bytes:
    """The content of a file of this name with one damage."""
    if name.endswith(".safetensors") and rng.random() < 0.3:
        return _damaged_header(content, rng)
    if name.endswith(".json") and rng.random() < 0.7:
        return _damaged_json(content, rng)
    if name.endswith(".jsonl") and rng.random() < 0.6:
        lines = content.split(b"\n")
        at = int(rng.integers(max(1, len(lines) - 1)))
        lines[at] = _damaged_json(lines[at], rng)
        return b"\n".join(lines)
    if name.endswith((".csv", ".tsv", ".txt")) and rng.random() < 0.5:
        return _damaged_lines(content, rng)
    return _damaged_bytes(content, rng)


def _damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    n = len(content)
    at, other = sorted(int(i) for i in rng.integers(n, size=2))
    length = int(rng.integers(1, 40))
    kind = rng.integers(8)
    if kind <= 1:
        flipped = content[at] ^ 1 << int(rng.integers(8))
        return content[:at] + bytes([flipped]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + content[at + length :]
    if kind == 3:
        return content[: at + length] + content[at:]
    if kind == 4:
        return content[:at]
    if kind == 5:
        first, second = content[at : at + length], content[other : other + length]
        return content[:at] + second + content[at + length : other] + first + content[other + length :]
    if kind == 6:
        return content[:at] + rng.bytes(length) + content[at:]
    return content[:at] + bytes(length) + content[at + length :]


def _damaged_lines(content: bytes, rng: np.random.Generator) -> bytes:
    """A line lost, doubled, exchanged with another; or a field of one replaced."""
    lines = content.split(b"\n")
    at, other = (int(i) for i in rng.integers(len(lines), size=2))
    kind = rng.integers(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[other])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        mark = b"\t" if b"\t" in lines[at] else b","
        fields = lines[at].split(mark)
        value = VALUES[int(rng.integers(len(VALUES)))]
        fields[int(rng.integers(len(fields)))] = str(value).encode()
        lines[at] = mark.join(fields)
    return b"\n".join(lines)


def _damaged_json(content: bytes, rng: np.random.Generator) -> bytes:
    """One value replaced, or one key lost, doubled or renamed, wherever it stands in the object."""
    root = [json.loads(content)]
    places: list[tuple[Any, Any]] = []
    _collect(root, places)
    holder, key = places[int(rng.integers(len(places)))]
    value = VALUES[int(rng.integers(len(VALUES)))]
    kind = rng.integers(8)
    doubled = None
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind == 2 and isinstance(holder, dict):
        doubled = json.dumps(key)
        holder["\0twice"] = value
    else:
        holder[key] = value
    text = json.dumps(root[0] if root else None)
    if doubled:
        text = text.replace(json.dumps("\0twice"), doubled)
    return text.replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000).encode()


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    """Every place in a value of JSON, as (what holds it, under which key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        places.append((value, key))
        if len(places) < 2000:
            _collect(item, places)


def _damaged_header(content: bytes, rng: np.random.Generator) -> bytes:
    """A safetensors file whose header, or the state in its metadata, has another value; its length is put right."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    values = json.loads(header)
    states = [key for key, text in values.get("__metadata__", {}).items() if text.startswith("{")]
    if states and rng.random() < 0.6:
        key = states[int(rng.integers(len(states)))]
        state = _damaged_json(values["__metadata__"][key].encode(), rng)
        values["__metadata__"][key] = state.decode()
        header = json.dumps(values).encode()
    else:
        header = _damaged_json(header, rng)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


# --- kinds of files --------------------------------------------------------------------------------------------------

TEXT = "the cat sat on the mat. a dog saw the cat.\n" * 60
PIECE = "the cat saw\nthe mat. a dog"
LABELLED = [("a good film", "pos"), ("a bad film", "neg"), ("good and long", "pos"), ("long and bad", "neg")]
WINOGRAD = "Tom saw Max because [MASK] was near.\n[MASK]\nTom,Max\nMax\n\n" * 3
SMALL = {"n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
OWN_SIZES = {  # of the models that have these
    "embedding_size": 6, "generator_heads": 1, "n_distances": 4, "n_hidden": 8, "d_kv": 4, "d_ff": 16,
    "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
SIZES_OF = {"lstm": {"n_layer": 1, "n_head": 1}, "elmo": {"n_head": 1}}  # where SMALL does not fit


def kinds(home: Path) -> list[Kind]:
    """One small good folder for each kind of file, made in `home`."""
    return [
        *_models(home), *_family(home), *_runs(home), *_tokenizers(home), *_examples(home), *_release(home)
    ]  # fmt: skip


def _opened_model(folder: Path) -> Any:
    """The numbers and the settings of a model, and what its tokenizer does."""
    from minigpt import models

    model, text = models.open_both(folder)
    tensors = {name: parameter.data.tobytes() for name, parameter in model.named_parameters()}
    return vars(model.config), tensors, text.encode(PIECE)


def _models(home: Path) -> list[Kind]:
    import safetensors.numpy

    from minigpt import GPT2, GPT2Config
    from minigpt.files.checkpoint import load_tensors
    from minigpt.tokenizer import GPT2Tokenizer

    text = GPT2Tokenizer.train(TEXT, 270)
    model = GPT2(GPT2Config(vocab_size=text.vocab_size, **SMALL))
    folders = {name: home / name for name in ("own", "of another program", "split")}
    for folder in folders.values():
        model.save(folder)
        text.save(folder)
    tensors, _ = load_tensors(folders["own"] / "model.safetensors")
    other = folders["of another program"]
    safetensors.numpy.save_file(tensors, other / "model.safetensors", {"format": "pt"})
    split = folders["split"]
    (split / "model.safetensors").unlink()
    where = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in sorted(set(where.values())):
        part = {name: tensor for name, tensor in tensors.items() if where[name] == file}
        safetensors.numpy.save_file(part, split / file, {"format": "pt"})
    index = json.dumps({"metadata": {}, "weight_map": where})
    (split / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    return [
        Kind("weights", folders["own"], "model.safetensors", _opened_model, has_sum=True),
        Kind("config", folders["own"], "config.json", _opened_model, has_sum=True),
        Kind("weights of another program", other, "model.safetensors", _opened_model),
        Kind("config of another program", other, "config.json", _opened_model),
        Kind("index of split weights", split, "model.safetensors.index.json", _opened_model),
        Kind("a part of split weights", split, "model-00001-of-00002.safetensors", _opened_model),
    ]


def _family(home: Path) -> list[Kind]:
    """The weights and the configuration of every model of the registry, with checksums and without."""
    import dataclasses

    from minigpt import models
    from minigpt.tokenizer import CharTokenizer

    text = CharTokenizer.train(TEXT)
    found = []
    for card in models.CARDS:
        folder, copy = home / card.name, home / f"{card.name} of another program"
        known = {field.name for field in dataclasses.fields(card.model.Config)}
        own = {key: value for key, value in OWN_SIZES.items() if key in known}
        sizes = SMALL | own | SIZES_OF.get(card.name, {})
        card.model(card.model.Config(vocab_size=text.vocab_size, **sizes)).save(folder)
        text.save(folder)
        _without_sum(folder, copy, "model.safetensors", metadata={"format": "pt"})
        for name in ("model.safetensors", "config.json"):
            found.append(Kind(f"family {card.name}: {name}", folder, name, _computed, has_sum=True))
            found.append(Kind(f"family {card.name}, other: {name}", copy, name, _computed))
    return found


def of_folder(folder: Path) -> list[Kind]:
    """The weights and the configuration of a model that another program saved."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
    return [Kind(f"{folder.name}: {name}", folder, name, _computed_alone) for name in names]


def _computed(folder: Path) -> Any:
    """What `_opened_model` gives, and a loss."""
    from minigpt import models

    model, text = models.open_both(folder)
    return *_numbers(model), text.encode(PIECE)


def _computed_alone(folder: Path) -> Any:
    """The same of a folder without a tokenizer."""
    from minigpt import open_model

    return _numbers(open_model(folder))


def _numbers(model: Any) -> tuple:
    """The settings and the numbers of a model, and the loss of two short texts."""
    tensors = {name: parameter.data.tobytes() for name, parameter in model.named_parameters()}
    ids = np.arange(6).reshape(2, 3) % model.config.vocab_size
    ids = ids[:, : model.config.n_positions]
    loss, _ = model.loss(ids, ids, grad=False, **model.trial_inputs(ids))
    return vars(model.config), tensors, float(loss)


def _opened_run(folder: Path) -> Any:
    """All that a run goes on with."""
    from minigpt.jobs.pretrain import PretrainOptions, reopen

    job = reopen(PretrainOptions(out=str(folder), data=str(folder / "text.txt")))
    moments = {name: array.tobytes() for name, array in job.optimizer.state().items()}
    weights = {name: parameter.data.tobytes() for name, parameter in job.model.named_parameters()}
    rows = [{key: value for key, value in row.items() if key != "tokens_per_second"} for row in job.run.rows]
    state = job.state
    for name in ("out", "data"):
        state["options"].pop(name, None)
    return state, moments, weights, rows


def _opened_classifier(folder: Path) -> Any:
    from minigpt.jobs.finetune import open_classifier

    model, text = open_classifier(folder)
    tensors = {name: parameter.data.tobytes() for name, parameter in model.named_parameters()}
    return model.task, model.dropout, tensors, text.encode(PIECE)


def _without_sum(folder: Path, copy: Path, name: str, metadata: dict[str, str] | None = None) -> Path:
    """A copy of a folder in which this file has no checksum, as those of earlier versions.

    metadata: what its header says in place of what it said.
    """
    import safetensors.numpy

    from minigpt.files.checkpoint import load_tensors

    shutil.copytree(folder, copy)
    tensors, of_folder = load_tensors(folder / name)
    safetensors.numpy.save_file(tensors, copy / name, of_folder if metadata is None else metadata)
    return copy


def _runs(home: Path) -> list[Kind]:
    from minigpt import models
    from minigpt.data.examples import Task
    from minigpt.jobs.pretrain import PretrainOptions, loop, prepare
    from minigpt.models.classifier import Classifier

    run = home / "run"
    (home / "text.txt").write_text(TEXT, encoding="utf-8")
    sizes = {"layers": 1, "heads": 2, "embd": 8, "context": 16, "batch": 2, "steps": 6, "eval_every": 2}
    loop(prepare(PretrainOptions(data=str(home / "text.txt"), tokenizer="char", out=str(run), **sizes)))
    shutil.copy(home / "text.txt", run)
    tuned = home / "tuned"
    model, text = models.open_both(run)
    Classifier(model, Task("classification", ("neg", "pos"))).save(tuned)
    text.save(tuned)
    old_run = _without_sum(run, home / "run of an earlier version", "resume.safetensors")
    old_tuned = _without_sum(tuned, home / "tuned by an earlier version", "classifier.safetensors")
    return [
        Kind("kept run of an earlier version", old_run, "resume.safetensors", _opened_run),
        Kind("head of an earlier version", old_tuned, "classifier.safetensors", _opened_classifier),
        Kind("kept run", run, "resume.safetensors", _opened_run, has_sum=True),
        Kind("table of losses", run, "loss.csv", _opened_run, has_sum=True),
        Kind("head of a classifier", tuned, "classifier.safetensors", _opened_classifier, has_sum=True),
        Kind("text of a run", run, "text.txt", _opened_run, has_sum=True),
    ]


def _opened_tokenizer(folder: Path) -> Any:
    from minigpt import tokenizer

    text = tokenizer.load(folder)
    return text.tokens, text.encode(PIECE), text.decode(text.encode(PIECE)), text.end_of_text_id


def _tokenizers(home: Path) -> list[Kind]:
    from minigpt.tokenizer import KINDS

    found = []
    for name, kind in KINDS.items():
        folder = home / f"tokenizer {name}"
        text = kind.train(TEXT) if name == "char" else kind.train(TEXT, 270 if name == "gpt2" else 60)
        text.save(folder)
        for path in sorted(folder.iterdir()):
            found.append(Kind(f"{name}: {path.name}", folder, path.name, _opened_tokenizer, has_sum=True))
    return [*found, _all_in_one(home)]


def _all_in_one(home: Path) -> Kind:
    """A `tokenizer.json` of GPT-2's kind, in the form of the `tokenizers` library."""
    source = home / "tokenizer gpt2"
    vocab = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
    merges = (source / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges,
    }  # fmt: skip
    end = {
        "id": len(vocab) - 1, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False, "special": True,
    }  # fmt: skip
    whole = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": model,
    }  # fmt: skip
    folder = home / "tokenizer all in one"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(whole), encoding="utf-8")
    return Kind("gpt2: tokenizer.json", folder, "tokenizer.json", _opened_tokenizer)


def _examples(home: Path) -> list[Kind]:
    from minigpt import data
    from minigpt.data import labelled_files
    from minigpt.evaluation import task_files

    folder = home / "examples"
    folder.mkdir()
    rows = [("text", "label"), *LABELLED]
    objects = [dict(zip(rows[0], row, strict=True)) for row in LABELLED]
    choice = {"context": "a cat sat on", "choices": ["a mat", "the dog"], "label": 0}
    asked = {"question": "who sat?", "answers": [{"text": "a cat"}]}
    article = {"paragraphs": [{"context": "a cat sat", "qas": [asked] * 2}]}
    story = {"story": "a cat sat", "questions": [{"input_text": "who?"}], "answers": [{"input_text": "a cat"}]}
    contents = {
        "labelled.tsv": "".join("\t".join(row) + "\n" for row in rows),
        "labelled.csv": "".join(",".join(row) + "\n" for row in rows),
        "labelled.jsonl": "".join(json.dumps(value) + "\n" for value in objects),
        "passages.jsonl": '{"text": "the cat sat on the mat"}\n' * 3,
        "choices.jsonl": (json.dumps(choice) + "\n") * 3,
        "sentiments.jsonl": '{"input": "a good film", "output": "positive"}\n' * 3,
        "pairs.jsonl": '{"input": "a long text", "output": "short"}\n' * 3,
        "squad.json": json.dumps({"version": "1.1", "data": [article] * 3}),
        "coqa.json": json.dumps({"version": "1.0", "data": [story] * 3}),
        "winograd.txt": WINOGRAD,
        "plain.txt": TEXT,
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    readers = {
        "passages.jsonl": lambda path: list(task_files.read_passages(path).items),
        "choices.jsonl": lambda path: list(task_files.read_choices(path).items),
        "sentiments.jsonl": lambda path: list(task_files.read_sentiments(path).items),
        "pairs.jsonl": lambda path: list(task_files.read_articles(path).items),
        "squad.json": lambda path: list(task_files.read_questions(path).items),
        "coqa.json": lambda path: list(task_files.read_questions(path).items),
        "winograd.txt": lambda path: list(task_files.read_pronouns(path).items),
        "plain.txt": lambda path: list(data.load(str(path)).pieces("train")),
    }
    found = []
    for name in contents:
        read = readers.get(name, lambda path: labelled_files.read(path, "classification"))
        found.append(Kind(name, folder, name, lambda folder, name=name, read=read: read(folder / name)))
    return found


def _opened_release(folder: Path) -> Any:
    from minigpt import open_model

    model = open_model(folder)
    return vars(model.config), [parameter.data.tobytes() for parameter in model.parameters()]


def _release(home: Path) -> list[Kind]:
    """OpenAI's own form of GPT-1."""
    from minigpt import GPT1, GPT1Config
    from minigpt.files.openai_release import BLOCK

    folder = home / "release"
    folder.mkdir()
    model = GPT1(GPT1Config(vocab_size=9, n_positions=4, n_embd=64, n_layer=1, n_head=1))
    named = {name: parameter.data for name, parameter in model.named_parameters()}
    order = ["positions_embed.weight", "tokens_embed.weight"]
    order += [f"h.0.{part}.{kind}" for part in BLOCK for kind in ("weight", "bias")]
    shapes = [[1, *named[name].shape] if ".c_" in name and named[name].ndim == 2 else list(named[name].shape)
              for name in order]  # fmt: skip
    (folder / "params_shapes.json").write_text(json.dumps(shapes), encoding="utf-8")
    row = np.concatenate([named[name].ravel() for name in order])
    for i, part in enumerate(np.array_split(row, 3)):
        np.save(folder / f"params_{i}.npy", part)
    return [
        Kind("release: shapes", folder, "params_shapes.json", _opened_release),
        Kind("release: numbers", folder, "params_1.npy", _opened_release),
    ]


# --- opening in a child ----------------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A file took more than SECONDS to open."""


def _digest(value: Any) -> bytes:
    return hashlib.sha256(pickle.dumps(value)).digest()


def _outcome(kind: Kind, folder: Path, expected: bytes) -> str:
    """What comes of opening a folder: one of OUTCOMES, and the message behind it."""
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        found = _digest(kind.open(folder))
    except InputError as error:
        text = str(error)
        if "not enough memory" in text:
            return f"memory\t{text}"
        return f"traceback\tseveral lines: {text!r}" if "\n" in text else f"refused\t{text}"
    except MemoryError as error:
        return f"memory\t{error!r}"
    except TooLong:
        return "hang\t"
    except BaseException as error:
        return f"traceback\t{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "equal\t" if found == expected else "different\t"


def _child(kind: Kind, numbers: range, place: Path, out: int) -> None:
    """Open one damaged file after the other, and write a line for each."""
    import resource

    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    content = (kind.folder / kind.file).read_bytes()
    seed = zlib.crc32(kind.name.encode())
    shutil.copytree(kind.folder, place)
    expected = _digest(kind.open(place))
    for number in numbers:
        changed = damaged(content, kind.file, np.random.default_rng([seed, number]))
        shutil.rmtree(place)
        shutil.copytree(kind.folder, place)
        (place / kind.file).write_bytes(changed)
        line = "equal\t" if changed == content else _outcome(kind, place, expected)
        os.write(out, f"{number}\t{line}\n".encode())


def attack(kind: Kind, number: int, place: Path) -> list[tuple[int, str, str]]:
    """(number, outcome, message) for so many damaged files of a kind. A child that dies has a traceback, or hangs."""
    found: list[tuple[int, str, str]] = []
    while len(found) < number:
        shutil.rmtree(place, ignore_errors=True)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                _child(kind, range(len(found), number), place, writer)
            finally:
                os._exit(0)
        os.close(writer)
        complete = _lines_of(reader, child)
        found += complete
        _, status = os.waitpid(child, 0)
        if len(found) < number:
            found.append((len(found), "hang" if status == signal.SIGKILL else "traceback", f"status {status}"))
    return found


def _lines_of(reader: int, child: int) -> list[tuple[int, str, str]]:
    """What a child writes until it ends; it is killed where it is silent for twice the time that a file may take."""
    import select

    text = b""
    while True:
        ready, _, _ = select.select([reader], [], [], 2 * SECONDS + 20)
        if not ready:
            os.kill(child, signal.SIGKILL)
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        text += piece
    os.close(reader)
    rows = [line.split("\t", 2) for line in text.decode("utf-8", "replace").split("\n")[:-1]]
    return [(int(row[0]), row[1], row[2]) for row in rows]


def run(number: int, only: str = "", show: bool = False, folder: Path | None = None) -> dict[str, Counter]:
    """Attack all kinds with `number` damaged files in all; prints and returns the outcomes of each kind.

    folder: one that another program saved, which is attacked instead.
    """
    results = {}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "good"
        home.mkdir()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            every = kinds(home) if folder is None else of_folder(folder)
            chosen = [kind for kind in every if only in kind.name]
            for kind in chosen:
                kind.open(kind.folder)  # the good one
        each = -(-number // len(chosen))
        print(f"{'kind':<42}", *(f"{name:>10}" for name in OUTCOMES))
        for kind in chosen:
            found = attack(kind, each, Path(place) / "damaged")
            counts = Counter(outcome for _, outcome, _ in found)
            name = kind.name + (" (sum)" if kind.has_sum else "")
            results[name] = counts
            print(f"{name:<42}", *(f"{counts[outcome]:>10,}" for outcome in OUTCOMES), flush=True)
            for i, outcome, message in found:
                bad = outcome not in ("refused", "equal", "different") or (outcome == "different" and kind.has_sum)
                if bad or (show and outcome == "different"):
                    print(f"    {outcome}: number {i}: {message}")
    total = sum(results.values(), Counter())
    print(f"{'all':<42}", *(f"{total[outcome]:>10,}" for outcome in OUTCOMES))
    return results


def is_good(results: dict[str, Counter]) -> bool:
    """No traceback, no hang, no excess of memory; and nothing different where there is a checksum."""
    for name, counts in results.items():
        if counts["traceback"] or counts["memory"] or counts["hang"]:
            return False
        if name.endswith("(sum)") and counts["different"]:
            return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=10_000, help="how many damaged files in all")
    parser.add_argument("--only", default="", help="only kinds with this in their names")
    parser.add_argument("--show", action="store_true", help="name those that are different too")
    parser.add_argument("--folder", type=Path, help="a model that another program saved, to attack instead")
    options = parser.parse_args()
    results = run(options.number, options.only, options.show, options.folder)
    sys.exit(0 if is_good(results) else 1)
