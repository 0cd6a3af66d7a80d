"""The small reference model of the lessons, and what the benchmarks have recorded for them.

The model lies in `data/reference`, in a copy of the repository or where pip has put it. The numbers in the lessons'
prose are its numbers. With `MINIGPT_TRAIN=1` in the environment one's own is trained instead, by the same command.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from minigpt.errors import InputError
from minigpt.jobs import pretrain
from minigpt.jobs.vocabulary import VocabularyOptions, train_vocabulary
from minigpt.learn.lessons import find_lessons

TOKENIZER = VocabularyOptions(kind="gpt2", data="stories:20000", vocab=1200, out="runs/reference-tokenizer")
MODEL = pretrain.PretrainOptions(
    data="stories:40000", tokenizer=TOKENIZER.out, out="runs/reference", layers=6, heads=6, embd=192, context=256,
    batch=8, steps=8000, beta2=0.99, align=1.0, eval_every=2000, seed=0,
)  # fmt: skip
WEIGHTS = "data/reference/model.safetensors"
SHA256 = "7c377dbf53be95915c07ca7eda8537390364bcd5597f49143385466747c90368"  # of that file
RESULTS = "benchmarks/results/"


def folder() -> Path:
    """Where the reference model is, for `open_model` and `load_tokenizer`.

    Where it is missing, or is another one than the lessons tell of, one line says how to get it, and the script ends
    with status 2. With MINIGPT_TRAIN=1 in the environment: the folder of one's own, which is trained first where it is
    not there; a training that was stopped goes on.
    """
    try:
        return _trained() if os.environ.get("MINIGPT_TRAIN") == "1" else _shipped()
    except InputError as error:
        print(f"minigpt: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def recorded(name: str) -> dict:
    """What a benchmark has recorded: the content of `benchmarks/results/NAME`.

    Where it is missing, one line says so, and the script ends with status 2.
    """
    path = _found().get(RESULTS + name)
    if path is None:
        print(f"minigpt: {RESULTS}{name} is missing: install minigpt again, or run its benchmark", file=sys.stderr)
        raise SystemExit(2)
    return json.loads(path.read_text(encoding="utf-8"))


def _found() -> dict[str, Path]:
    try:
        return find_lessons()
    except InputError:
        return {}


def _shipped() -> Path:
    path = _found().get(WEIGHTS)
    again = "install minigpt again, or train your own with MINIGPT_TRAIN=1 (over an hour)"
    if path is None:
        raise InputError(f"the lessons' reference model, {WEIGHTS}, is missing: {again}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise InputError(f"{path} is not the reference model of these lessons, perhaps an older one: {again}")
    return path.parent


def _trained() -> Path:
    """One's own model, in `runs/reference` of the current folder; Ctrl-C keeps it, and the next call goes on."""
    if not Path(TOKENIZER.out).is_dir():
        train_vocabulary(TOKENIZER)
    job = pretrain.train(MODEL)
    if not job.finished:
        raise InputError("the training is not finished: the same command goes on with it")
    return Path(MODEL.out)
