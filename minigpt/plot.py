"""Pictures: the only file that imports matplotlib. They are written to files, and a notebook shows them too."""

import functools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib


def _notebook():
    """The IPython of a notebook, which shows pictures; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return ipython if shell and hasattr(shell, "kernel") else None


if not _notebook():
    matplotlib.use("Agg")  # which needs no screen

import matplotlib.pyplot as plt  # noqa: E402  (only after the choice of a backend)

plt.style.use(Path(__file__).with_name("minigpt.mplstyle"))


def save(figure, name: str, folder: str | Path | None = None) -> Path:
    """Write a figure as PNG, print where, and close it; a notebook shows it too. Returns the path.

    The folder is `figures` beside the file that calls, or in the current folder where a notebook or a reader calls.
    Where it cannot be written, one line says so.
    """
    if folder is None:
        caller = sys._getframe(1).f_globals.get("__file__")
        home = Path(caller).resolve().parent if caller else Path()
        folder = home / "figures"
    path = Path(folder) / name
    try:
        _write(figure, path)
        print(f"picture: {path}")
    except OSError as error:
        print(f"picture: not saved, for {path} cannot be written ({error.strerror}): give another folder to plot.save")
    if notebook := _notebook():
        notebook.display.display(figure)
    plt.close(figure)
    return path


def _write(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


class Box(NamedTuple):
    """A rectangle of a diagram: its centre and its size, in inches."""

    x: float
    y: float
    width: float
    height: float


Point = tuple[float, float]


class Diagram:
    """A drawing of boxes, arrows and arrays. All lengths are inches; (0, 0) is the lower left corner.

        d = plot.Diagram(8, 2)
        product, total = d.box(2, 1, "h = x w"), d.box(5, 1, "out = h + b")
        d.arrow(product, total, "6")                            # a value goes forward
        d.arrow(total, product, "1", color="tab:red", bend=0.3)     # its gradient comes back
        plot.save(d.figure, "00_graph.png")
    """

    def __init__(self, width: float, height: float, title: str = ""):
        self.figure, self.axes = plt.subplots(figsize=(width, height))
        self.axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        self.axes.set_axis_off()
        if title:
            self.axes.set_title(title)

    def box(
        self, x: float, y: float, text: str, color: str = "tab:blue", width: float = 1.4, height: float = 0.6
    ) -> Box:
        """A rectangle with round corners around (x, y), with text in it. Returns where it is, for arrows."""
        corner = (x - width / 2, y - height / 2)
        shape = plt.matplotlib.patches.FancyBboxPatch(
            corner, width, height, boxstyle="round,pad=0,rounding_size=0.1", facecolor=_light(color), edgecolor=color
        )
        self.axes.add_patch(shape)
        self.text(x, y, text)
        return Box(x, y, width, height)

    def text(self, x: float, y: float, text: str, color: str = "black", size: float | None = None) -> None:
        """Text with its centre at (x, y); size in points."""
        self.axes.text(x, y, text, color=color, size=size, ha="center", va="center", zorder=3)

    def arrow(
        self, start: Box | Point, end: Box | Point, text: str = "", color: str = "black", bend: float = 0
    ) -> None:
        """An arrow from the edge of one box to the edge of another, or between points, with text beside its middle.

        bend: 0 is straight; 0.3 bends to the right of the way from start to end, so that two can go side by side.
        """
        begin, finish = _edge(start, end), _edge(end, start)
        arrow = plt.matplotlib.patches.FancyArrowPatch(
            begin, finish, arrowstyle="-|>", mutation_scale=16, color=color, connectionstyle=f"arc3,rad={bend}"
        )
        self.axes.add_patch(arrow)
        if text:
            dx, dy = finish[0] - begin[0], finish[1] - begin[1]
            length = math.hypot(dx, dy)
            aside = bend * length / 2 + math.copysign(0.17, bend)  # the arc's middle, and a little further
            x = (begin[0] + finish[0]) / 2 + aside * dy / length
            y = (begin[1] + finish[1]) / 2 - aside * dx / length
            self.text(x, y, text, color)

    def grid(
        self, x: float, y: float, rows: Sequence, title: str = "", color: str = "tab:blue", cell: float = 0.5
    ) -> Box:
        """A matrix around (x, y): a square for each entry, the darker the larger, with its number (or text) in it."""
        texts = [[entry if isinstance(entry, str) else f"{entry:.3g}" for entry in row] for row in rows]
        numbers = [[0.0 if isinstance(entry, str) else abs(float(entry)) for entry in row] for row in rows]
        largest = max(map(max, numbers)) or 1.0
        width, height = cell * len(texts[0]), cell * len(texts)
        for i, row in enumerate(texts):
            for j, text in enumerate(row):
                corner = (x - width / 2 + j * cell, y + height / 2 - (i + 1) * cell)
                shade = _light(color, 0.1 + 0.5 * numbers[i][j] / largest)
                self.axes.add_patch(plt.Rectangle(corner, cell, cell, facecolor=shade, edgecolor="gray"))
                self.text(corner[0] + cell / 2, corner[1] + cell / 2, text)
        if title:
            self.text(x, y + height / 2 + 0.2, title, color)
        return Box(x, y, width, height)


def _light(color: str, strength: float = 0.15) -> tuple[float, float, float]:
    """A colour mixed with white."""
    red, green, blue = (1 - strength * (1 - part) for part in plt.matplotlib.colors.to_rgb(color))
    return red, green, blue


def _edge(here: Box | Point, there: Box | Point) -> Point:
    """Where the straight line from one box's centre to another's leaves the first; a point is its own edge."""
    if not isinstance(here, Box):
        return here
    dx, dy = there[0] - here.x, there[1] - here.y
    across = here.width / 2 / abs(dx) if dx else math.inf
    up = here.height / 2 / abs(dy) if dy else math.inf
    share = min(across, up)
    return here.x + share * dx, here.y + share * dy


# fonts with Korean letters, of which most systems have one
KOREAN_FONTS = (
    "Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Sans KR", "Malgun Gothic", "Apple SD Gothic Neo", "AppleGothic",
    "NanumGothic", "NanumBarunGothic", "UnDotum", "Baekmuk Dotum", "Droid Sans Fallback", "Arial Unicode MS",
)  # fmt: skip

# the Revised Romanisation of the parts of a Hangul syllable: its first consonant, its vowel, its last consonants
FIRST = "g kk n d tt r m b pp s ss - j jj ch k t p h".replace("-", "").split(" ")
VOWEL = "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i".split(" ")
LAST = "- k k k n n n t l k m l l l p l m p p t t ng t t k t p t".replace("-", "").split(" ")
SYLLABLES = range(0xAC00, 0xAC00 + len(FIRST) * len(VOWEL) * len(LAST))


def readable(text: str) -> str:
    """The text itself where a font of this system can draw it, else in Latin letters: 안녕 becomes annyeong.

    A Korean font that is found is from then on used for the letters that the usual font lacks.
    """
    manager = plt.matplotlib.font_manager
    usual = _letters_of(manager.findfont(manager.FontProperties(family=["sans-serif"])))
    lacking = {ord(letter) for letter in text if not letter.isspace()} - usual
    if not lacking:
        return text
    for font in manager.fontManager.ttflist:
        if font.name in KOREAN_FONTS and lacking <= _letters_of(font.fname):
            plt.rcParams["font.family"] = ["sans-serif", font.name]
            return text
    return "".join(_in_latin(letter) if ord(letter) in lacking else letter for letter in text)


@functools.cache
def _letters_of(font_file: str) -> set[int]:
    """The letters that a font can draw."""
    return set(plt.matplotlib.ft2font.FT2Font(font_file).get_charmap())


def _in_latin(letter: str) -> str:
    """A Hangul syllable as it is spoken by itself; any other letter by its number, as U+4E2D."""
    if ord(letter) not in SYLLABLES:
        return f"U+{ord(letter):04X}"
    others, last = divmod(ord(letter) - SYLLABLES.start, len(LAST))
    first, vowel = divmod(others, len(VOWEL))
    return FIRST[first] + VOWEL[vowel] + LAST[last]


def loss_curve(
    rows: list[dict],
    vocab_size: int | None,
    path: str | Path,
    unigram_entropy: float | None,
    at_plateau: bool = False,
    band: dict | None = None,
) -> None:
    """The picture of a run: training and validation loss against the step, and two levels.

    rows: one dict for each line of loss.csv, with step, train_loss and val_loss; a loss may be None. vocab_size: the
    number of tokens V, of which guessing has the loss ln V. unigram_entropy: the loss of a table of token frequencies.
    at_plateau: has the run come to rest there? Then the title warns of it. Without these two numbers the loss is a sum
    of several, which has no such levels. band: where the training loss of normal runs lies, as arguments of
    matplotlib's `fill_between`: x, y1, y2 and label.
    """
    figure, axes = plt.subplots()
    if band:
        axes.fill_between(**band, color="C0", alpha=0.2, linewidth=0)
    train_steps, train_losses = _points(rows, "train_loss")
    valid_steps, valid_losses = _points(rows, "val_loss")
    if train_losses:
        axes.plot(train_steps, train_losses, "-", label="training", markersize=3, linewidth=1.2)
    if valid_losses:
        axes.plot(valid_steps, valid_losses, "o-", label="validation", markersize=3, linewidth=1.2)
    if vocab_size is not None:
        chance = math.log(vocab_size)
        axes.axhline(chance, color="gray", linestyle=":", label=f"guessing: ln {vocab_size} = {chance:.2f}")
    if unigram_entropy is not None:
        frequencies = f"token frequencies: {unigram_entropy:.2f}"
        axes.axhline(unigram_entropy, color="gray", linestyle="--", label=frequencies)
    if at_plateau:
        axes.set_title("warning: the model knows token frequencies and no more", color="firebrick")
    elif valid_losses:
        axes.set_title(f"best validation loss {min(valid_losses):.3f}")
    else:
        axes.set_title("training loss")
    axes.set_xlabel("step (updates of the weights)")
    axes.set_ylabel("loss" if unigram_entropy is None else "loss (nats per token)")
    axes.legend()
    _write(figure, Path(path))
    plt.close(figure)


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
    plt.close(figure)
