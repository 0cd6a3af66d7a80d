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
    """Write a figure as PNG, print where, and close it. Returns the path.

    The folder is `figures` beside the running script, or in the current folder where no script runs.
    """
    if folder is None:
        home = Path(_SCRIPT).resolve().parent if _SCRIPT else Path()
        folder = home / "figures"
    path = Path(folder) / name
    _write(figure, path)
    print(f"picture: {path}")
    return path


def _write(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def loss_curve(
    rows: list[dict],
    vocab_size: int,
    path: str | Path,
    unigram_entropy: float,
    at_plateau: bool = False,
) -> None:
    """The picture of a run: training and validation loss (nats per token) against the step, and two levels.

    rows: one dict for each line of loss.csv, with step, train_loss and val_loss; a loss may be None. vocab_size: the
    number of tokens V, of which guessing has the loss ln V. unigram_entropy: the loss of a table of token frequencies.
    at_plateau: has the run come to rest there? Then the title warns of it.
    """
    figure, axes = plt.subplots()
    train_steps, train_losses = _points(rows, "train_loss")
    valid_steps, valid_losses = _points(rows, "val_loss")
    if train_losses:
        axes.plot(train_steps, train_losses, "-", label="training", markersize=3, linewidth=1.2)
    if valid_losses:
        axes.plot(valid_steps, valid_losses, "o-", label="validation", markersize=3, linewidth=1.2)
    chance = math.log(vocab_size)
    axes.axhline(chance, color="gray", linestyle=":", label=f"guessing: ln {vocab_size} = {chance:.2f}")
    frequencies = f"token frequencies: {unigram_entropy:.2f}"
    axes.axhline(unigram_entropy, color="gray", linestyle="--", label=frequencies)
    if at_plateau:
        axes.set_title("warning: the model knows token frequencies and no more", color="firebrick")
    elif valid_losses:
        axes.set_title(f"best validation loss {min(valid_losses):.3f}")
    else:
        axes.set_title("training loss")
    axes.set_xlabel("step (updates of the weights)")
    axes.set_ylabel("loss (nats per token)")
    axes.legend()
    _write(figure, Path(path))


def _points(rows: list[dict], column: str) -> tuple[list, list]:
    """The steps at which a column has a value, and its values there."""
    steps = []
    values = []
    for row in rows:
        if row[column] is not None:
            steps.append(row["step"])
            values.append(row[column])
    return steps, values


def finetuning_curves(rows: list[dict], metric: str, path: str | Path) -> None:
    """The losses (nats) and the score after every epoch, a colour for each seed.

    rows: one dict for each line of finetune.csv, with seed, epoch, train_loss, valid_loss and score; metric: the name
    of the score.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    seeds = dict.fromkeys(row["seed"] for row in rows)
    for i, seed in enumerate(seeds):
        own = [row for row in rows if row["seed"] == seed]
        epochs = [row["epoch"] for row in own]
        color = f"C{i}"
        for axes, column, style in ((left, "train_loss", "--"), (left, "valid_loss", "-"), (right, "score", "o-")):
            values = [row[column] for row in own]
            label = column.replace("_", " ") if i == 0 else None  # once in the legend
            axes.plot(epochs, values, style, label=label, color=color, markersize=3)
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no epoch 1.25
    left.set_xlabel("epoch")
    left.set_ylabel("loss of the task (nats)")
    left.legend()
    right.set_xlabel("epoch")
    right.set_ylabel(metric)
    _write(figure, Path(path))
