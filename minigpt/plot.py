"""Pictures: the only file that imports matplotlib. They are written to files; nothing needs a screen."""

import math
import sys
from pathlib import Path

import matplotlib

_SCRIPT = getattr(sys.modules["__main__"], "__file__", None)  # None in a notebook, which shows its own pictures
if _SCRIPT:
    matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402  (only after the choice of a backend)

plt.style.use(Path(__file__).with_name("minigpt.mplstyle"))


def save(figure, name: str, folder: str | Path | None = None) -> Path:
    """Write a figure as PNG, say where, and close it. The folder is `figures` beside the running script."""
    if folder is None:
        folder = Path(_SCRIPT).resolve().parent / "figures" if _SCRIPT else Path("figures")
    path = Path(folder) / name
    _write(figure, path)
    print(f"picture: {path}")
    return path


def _write(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def loss_curve(rows: list[dict], vocab_size: int, path: str | Path) -> None:
    """The picture of a run: training and validation loss against the step, and the loss of guessing.

    rows: one dict for each line of loss.csv; a value may be None.
    """
    figure, axes = plt.subplots()
    for column, label, style in (("train_loss", "training", "-"), ("val_loss", "validation", "o-")):
        points = [(row["step"], row[column]) for row in rows if row[column] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, markersize=3, linewidth=1.2)
    chance = math.log(vocab_size)
    axes.axhline(chance, color="gray", linestyle=":", label=f"guessing: ln {vocab_size} = {chance:.2f}")
    losses = [row["val_loss"] for row in rows if row["val_loss"] is not None]
    axes.set_title(f"best validation loss {min(losses):.3f}" if losses else "training loss")
    axes.set(xlabel="step (updates of the weights)", ylabel="loss (nats per token)")
    axes.legend()
    _write(figure, Path(path))


def finetuning_curves(rows: list[dict], metric: str, path: str | Path) -> None:
    """The losses and the score after every epoch, a line for each seed. rows: the lines of finetune.csv."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    for i, seed in enumerate(dict.fromkeys(row["seed"] for row in rows)):
        own = [row for row in rows if row["seed"] == seed]
        epochs = [row["epoch"] for row in own]
        for axes, column, style in ((left, "train_loss", "--"), (left, "valid_loss", "-"), (right, "score", "o-")):
            label = column.replace("_", " ") if i == 0 else None
            axes.plot(epochs, [row[column] for row in own], style, label=label, color=f"C{i}", markersize=3)
    left.set(xlabel="epoch", ylabel="loss of the task (nats)")
    right.set(xlabel="epoch", ylabel=metric)
    left.legend()
    _write(figure, Path(path))
