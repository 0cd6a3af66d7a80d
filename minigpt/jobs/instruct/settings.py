"""What `minigpt instruct` can be told."""

from dataclasses import dataclass

from minigpt.errors import InputError, check_ranges, check_shares
from minigpt.jobs.option_fields import OnDevice, argument, option


def parse_names(text: str) -> tuple[str, ...]:
    """ "c_attn,mlp.c_proj" -> the names. Raises InputError for an empty one."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"--layers {text}: give names of linear layers, such as c_attn,mlp.c_proj")
    return names


@dataclass(kw_only=True)
class InstructOptions(OnDevice):
    """What `minigpt instruct` can be told. None: a default that depends on the others."""

    model: str = argument("a model directory, or the name of a downloaded one", metavar="MODEL", free=True)
    file: str = argument(
        'instructions and their answers, .jsonl or .json: {"instruction": ..., "input": ..., "output": ...} or '
        '{"messages": [...]}',
        metavar="FILE",
        free=True,
    )
    valid: str | None = option(
        None, "chooses the best epoch (default: a tenth of FILE, kept apart)", metavar="FILE", free=True
    )
    other: str = option(
        "pydocs", "a text of another kind: what is forgotten of it? stories, pydocs, or a file", metavar="TEXT"
    )
    out: str | None = option(None, "folder for the model (default: runs/MODEL-FILE)", metavar="DIR", free=True)
    lora: int = option(8, "rank of the matrices that learn", metavar="R")
    alpha: float | None = option(None, "how strongly they count (default: twice the rank)", metavar="A")
    layers: tuple[str, ...] | None = option(
        None, "the layers that they stand beside (default: all linear layers of the blocks)", metavar="NAME,...",
        parse=parse_names,
    )  # fmt: skip
    epochs: int = option(3, metavar="N")
    batch: int = option(8, "conversations in an update", metavar="B")
    lr: float = option(1e-3, "highest learning rate", metavar="RATE")
    warmup: float = option(0.1, "of the updates", metavar="SHARE")
    clip: float = option(1.0, "longest gradient; 0 is no clipping", metavar="NORM")
    seed: int = option(0, "of what is kept apart, new matrices, order and dropout", metavar="S")

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "lora", "epochs", "batch")
        check_ranges(self, 0, "seed", "clip", "lr")
        check_shares(self, "warmup")
        if self.alpha is not None and not 0 < self.alpha < float("inf"):
            raise InputError(f"--alpha {self.alpha}: give a number above 0")
