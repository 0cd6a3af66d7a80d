"""Plots as SVG text that stands inside a page: two layouts, wide and narrow, and the page's own colours for all text.

Text, axes and grid take the colours of the page, light or dark. Marks have colours with a contrast of at least 3 on
both, and each series has a marker of its own, so that colour alone tells nothing.
"""

import html
import io
import re
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

TEXT, GRID = "#010203", "#040506"  # stand-ins, replaced by the page's colours
PAGE = {TEXT: "var(--color-foreground-primary, #222)", GRID: "var(--color-background-border, #ccc)"}
COLORS = ("#2f7fc1", "#c4621a", "#3a8f5c", "#a05fc0", "#cf4a5c", "#7f7f7f", "#8f7a1f", "#2a8c95")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "d")
DASHES = ("-", "--", "-.", ":")
WIDE, NARROW = 7.2, 3.5  # inches
TARGET = "target set beforehand"
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "minigpt", "font.family": "DejaVu Sans", "font.size": 11,
    "axes.titlesize": 11, "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.8,
    "text.color": TEXT, "axes.labelcolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT, "axes.edgecolor": TEXT,
    "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "lines.linewidth": 1.8, "figure.constrained_layout.use": True, "axes.titlecolor": TEXT,
}  # fmt: skip


class Plot(NamedTuple):
    """draw(narrow) makes a figure. title; axis: what stands on its axes, with units; alt: its numbers in words."""

    title: str
    axis: str
    alt: str
    draw: Callable[[bool], Figure]


class Point(NamedTuple):
    """A value with its range, and the target that was set for it."""

    value: float
    low: float | None = None
    high: float | None = None
    target: float | None = None


Series = dict[str, dict[str, Point]]  # {series: {label of the row: point}}
Curves = dict[str, tuple[list[float], list[float]]]  # {series: (x, y)}


def embedded(plot: Plot, name: str) -> str:
    """The plot as HTML. name: its identifier on the page, such as "bpe-1"."""
    layouts = []
    for layout, narrow in (("wide", False), ("narrow", True)):
        with matplotlib.rc_context(STYLE):
            svg = _svg(plot.draw(narrow), f"{name}-{layout}")
        label = html.escape(plot.alt, quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        layouts.append(f'<div class="plot plot-{layout}">\n{svg}\n</div>')
    axis = f'<span class="axis">{html.escape(plot.axis)}</span>'
    caption = f"<figcaption>{html.escape(plot.title)}{axis}</figcaption>"
    inside = "\n".join(layouts)
    return f'<figure class="recorded">\n{caption}\n{inside}\n</figure>\n'


def _svg(figure: Figure, name: str) -> str:
    """The figure as an svg element, with identifiers that no other plot has, and the page's colours."""
    file = io.BytesIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    text = file.getvalue().decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', text, count=1)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = text.replace("font-family: 'DejaVu Sans'", "font-family: var(--font-stack, sans-serif)")
    for stand_in, color in PAGE.items():
        text = text.replace(stand_in, color)
    return "\n".join(line for line in text.splitlines() if line.strip())


CSS = """<style>
figure.recorded { margin: 1.5rem 0; }
figure.recorded figcaption { font-weight: 600; margin-bottom: 0.5rem; color: var(--color-foreground-primary); }
figure.recorded svg { display: block; height: auto; max-width: 100%; }
figure.recorded .axis { display: block; font-weight: 400; font-size: 0.875rem; }
.plot-narrow { display: none; }
@media (max-width: 46em) { .plot-wide { display: none; } .plot-narrow { display: block; } }
@media print { .plot-wide { display: block; } .plot-narrow { display: none; } }
</style>
"""


# --- kinds of plots --------------------------------------------------------------------------------------------------


def rows(
    title: str,
    series: Series,
    axis: str,
    *,
    line: float | None = None,
    line_text: str = "",
    log: bool = False,
    start: float | None = None,
) -> Plot:
    """A row for each label, with a mark for each series, its range as a line, and its target as a bar across.

    axis: the name of the horizontal axis, with its unit. line: a vertical line at this value.
    """  # fmt: skip

    def draw(narrow: bool) -> Figure:
        labels = list(dict.fromkeys(label for points in series.values() for label in points))
        names = [_broken(label, 18 if narrow else 40).splitlines() for label in labels]
        step = max(0.15 + 0.14 * len(series), 0.19 * max(map(len, names)) + 0.05)
        entries = len(series) + (line is not None)
        height = 0.8 + step * len(labels) + 0.24 * (entries if narrow else (entries + 1) // 2)
        figure = Figure(figsize=(NARROW if narrow else WIDE, height))
        axes = figure.subplots()
        for i, (name, points) in enumerate(series.items()):
            shift = (i - (len(series) - 1) / 2) * 0.7 / len(series)
            _marks(axes, name, [(labels.index(label) + shift, point) for label, point in points.items()], i)
        if line is not None:
            axes.axvline(line, color=TEXT, linewidth=1, linestyle="--", label=line_text)
        axes.set(ylim=(len(labels) - 0.4, -0.6))
        _name_rows(axes, names)
        axes.grid(False, axis="y")
        _scale(axes.xaxis, log, start)
        _legend(figure, axes, narrow, needed=len(series) > 1 or line is not None)
        return figure

    values = {name: {label: point.value for label, point in points.items()} for name, points in series.items()}
    return Plot(title, axis, _told(axis, values), draw)


def _told(axis: str, series: dict[str, dict[str, float]]) -> str:
    """What a plot shows, in words: each value where they are few, else the lowest and the highest of each series."""
    parts = []
    few = sum(map(len, series.values())) <= 12
    for name, values in series.items():
        shown = (
            values
            if few
            else {label: values[label] for label in (min(values, key=values.get), max(values, key=values.get))}
        )
        words = ", ".join(f"{label} {value:.3g}" for label, value in shown.items())
        between = "" if few else f"{len(values)} values, lowest and highest: "
        parts.append(f"{name}: {between}{words}")
    return f"{axis}. {'; '.join(parts)}."


def _name_rows(axes, names: list[list[str]]) -> None:
    """The label of each row, line by line: so each line ends at the axis, in whatever font a reader has."""
    axes.set_yticks(range(len(names)), [""] * len(names))
    for y, lines in enumerate(names):
        for i, text in enumerate(lines):
            below = 13 * (i - (len(lines) - 1) / 2)
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
            axes.annotate(text, (0, y), xytext=(-8, -below), ha="right", va="center", **place)


def _marks(axes, name: str, points: list[tuple[float, Point]], i: int) -> None:
    """The marks of one series."""
    color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
    for y, point in points:
        if point.low is not None:
            axes.plot([point.low, point.high], [y, y], color=color, linewidth=2, clip_on=False)
    values = [point.value for _, point in points]
    axes.plot(values, [y for y, _ in points], marker, color=color, markersize=7, label=name, clip_on=False)
    targets = [(y, point.target) for y, point in points if point.target is not None]
    if targets:
        ys, xs = zip(*targets, strict=True)
        axes.plot(xs, ys, "|", color=TEXT, markersize=18, markeredgewidth=2.5, label=TARGET)


def curves(
    title: str,
    series: Curves,
    x: str,
    y: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    start: float | None = None,
    marks: bool = True,
    ticks: dict | None = None,
) -> Plot:
    """A line for each series. x, y: names of the axes, with units. ticks: {x: its label}."""  # fmt: skip

    def draw(narrow: bool) -> Figure:
        few = max(len(xs) for xs, _ in series.values()) < 12
        figure = Figure(figsize=(NARROW if narrow else WIDE, (3.0 if narrow else 3.8) + 0.22 * len(series)))
        axes = figure.subplots()
        for i, (name, (xs, ys)) in enumerate(series.items()):
            marker = MARKERS[i % len(MARKERS)] if marks and few else None
            style = "-" if few else DASHES[i % len(DASHES)]
            axes.plot(xs, ys, style, marker=marker, markersize=6, color=COLORS[i % len(COLORS)], label=name)
        axes.set(xlabel=_broken(x, 34 if narrow else 70))
        _scale(axes.xaxis, log_x)
        _scale(axes.yaxis, log_y, start)
        if ticks:
            axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9 if narrow else 11)
        _legend(figure, axes, narrow, needed=len(series) > 1)
        return figure

    ends = [f"{name}: {ys[0]:.3g} at {xs[0]:g}, {ys[-1]:.3g} at {xs[-1]:g}" for name, (xs, ys) in series.items()]
    return Plot(title, y, f"{y}, against {x}. {'; '.join(ends)}.", draw)


def _scale(axis, log: bool, start: float | None = None) -> None:
    """Logarithmic, with plain numbers; or from a given number on."""
    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    elif start is not None:
        low, high = sorted(axis.get_view_interval())
        axis.axes.set(**{f"{axis.axis_name}lim": (start, high + 0.03 * (high - low))})


def _legend(figure: Figure, axes, narrow: bool, needed: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    if TARGET in found:
        found[TARGET] = found.pop(TARGET)  # after the series
    if needed or TARGET in found:
        names = [_broken(name, 36 if narrow else 60) for name in found]
        columns = 1 if narrow or max(map(len, names)) > 24 else 2
        figure.legend(found.values(), names, loc="outside lower left", ncols=columns)


def _broken(text: str, columns: int) -> str:
    return "\n".join(textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False))
