"""The model that lessons share: a small GPT-1, trained once on the story world, in under three minutes.

Whoever comes first trains it; it is kept in `models/`, under a name that is a hash of its options, and found there by
the others. Delete the folder to train it again.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import minigpt
from minigpt import checkpoint, train

OPTIONS = train.Options(
    layers=3, heads=4, embd=96, context=128, batch=6, steps=1300, eval_every=500,
    data="stories:10000:1", tokenizer="bpe:1500",
)  # fmt: skip


def folder() -> Path:
    """Where the trained model is; trains it first if nobody has."""
    home = Path(__file__).resolve().parent if "__file__" in globals() else Path.cwd()
    values = json.dumps([minigpt.__version__, dataclasses.asdict(OPTIONS)], sort_keys=True)
    path = home / "models" / f"stories-{hashlib.sha256(values.encode()).hexdigest()[:10]}"
    if not (path / "done").is_file():
        print("training the model that lessons share: once, under three minutes on two cores")
        options = dataclasses.replace(OPTIONS, out=str(path))
        train.train(options, resume=(path / "resume.safetensors").is_file())
        checkpoint.write_text(path / "done", "trained to the end\n")
    return path
