"""The model that lessons share: a small GPT-1, trained once on the story world, in under three minutes.

The first lesson that needs it trains it; it is kept in `models/`, under a name that is a hash of its options. Delete
the folder to train it again. Beside the model lie some of its earlier states, `at-100` and so on.
"""

import dataclasses
import hashlib
import json
import tempfile
from pathlib import Path

import minigpt
from minigpt.jobs import pretrain

OPTIONS = pretrain.PretrainOptions(
    layers=2, heads=4, embd=128, context=128, batch=6, steps=1600, lr=4e-3, beta2=0.99, align=1.0, eval_every=800,
    warmup=160, init_std=0.02, data="stories:10000:1", tokenizer="bpe:1500",
)  # fmt: skip
STATES = (100, 200, 400, 600, 700, 800, 900, 1000, 1200, 1600)  # the steps at which the model is kept


def folder() -> Path:
    """Where the trained model is; trains it first if nobody has."""
    home = Path(__file__).resolve().parent if "__file__" in globals() else Path.cwd()
    chosen = set(dataclasses.asdict(OPTIONS).items()) - set(dataclasses.asdict(pretrain.PretrainOptions()).items())
    values = json.dumps([minigpt.__version__, sorted(chosen), STATES])
    path = home / "models" / f"stories-{hashlib.sha256(values.encode()).hexdigest()[:10]}"
    if not path.is_dir():
        print("training the model that lessons share: once, under three minutes on two cores")
        path.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="training-") as beside:
            job = pretrain.prepare(dataclasses.replace(OPTIONS, out=f"{beside}/run"))
            pretrain.announce(job)
            for step in STATES:
                pretrain.loop(job, lambda step=step: job.step >= step)
                job.model.save(f"{beside}/run/at-{step}")
            if not path.is_dir():  # somebody else may have been quicker
                Path(beside, "run").rename(path)
    return path


def recorded(name: str) -> dict:
    """What a benchmark has recorded. Its file lies beside the folder of the lessons, or in it."""
    home = folder().parents[1]
    for place in (home, home.parent):
        path = place / "benchmarks" / "results" / name
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    raise FileNotFoundError(f"there is no benchmarks/results/{name} in {home} or in {home.parent}")
