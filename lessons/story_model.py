"""The model that lessons share: a small GPT-1, trained once on the story world, in under three minutes.

Whoever comes first trains it; it is kept in `models/`, under a name that is a hash of its options, and found there by
the others. Delete the folder to train it again. Beside the model lie some of its earlier states, `at-100` and so on.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import minigpt
from minigpt import checkpoint, train

OPTIONS = train.Options(
    layers=2, heads=4, embd=128, context=128, batch=6, steps=1500, lr=4e-3, beta2=0.99, align=True, eval_every=500,
    data="stories:10000:1", tokenizer="bpe:1500",
)  # fmt: skip
STATES = (100, 200, 400, 600, 700, 800, 900, 1000, 1200, 1500)  # the steps at which the model is kept


def folder() -> Path:
    """Where the trained model is; trains it first if nobody has."""
    home = Path(__file__).resolve().parent if "__file__" in globals() else Path.cwd()
    values = json.dumps([minigpt.__version__, dataclasses.asdict(OPTIONS), STATES], sort_keys=True)
    path = home / "models" / f"stories-{hashlib.sha256(values.encode()).hexdigest()[:10]}"
    if not (path / "done").is_file():
        print("training the model that lessons share: once, under three minutes on two cores")
        options = dataclasses.replace(OPTIONS, out=str(path))
        job = train.reopen(options) if (path / "resume.safetensors").is_file() else train.prepare(options)
        train.announce(job)
        for step in STATES:
            train.loop(job, lambda step=step: job.step >= step)
            if job.step == step:
                job.model.save(path / f"at-{step}")
        checkpoint.write_text(path / "done", "trained to the end\n")
    return path
