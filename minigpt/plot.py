"""Pictures: the only file that imports matplotlib. They are written to files; nothing needs a screen."""

import math
import sys
from pathlib import Path

import matplotlib

_SCRIPT = getattr(sys.modules["__main__"], "__file__", None)  # None in a notebook, which shows its own pictures
if _SCRIPT:
    matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402  (only after the choice of a backend)

plt.rcParams.update({
    "figure.figsize": (7, 4),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "legend.frameon": False,
})


def save(figure, name: str, folder: str | Path | None = None) -> Path:
    """Write a figure as PNG, say where, and close it. The folder is `figures` beside the running script."""
    if folder is None:
        folder = Path(_SCRIPT).resolve().parent / "figures" if _SCRIPT else Path("figures")
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
    print(f"picture: {path}")
    return path


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
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
