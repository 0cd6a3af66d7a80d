"""The results on what models learn."""

import figures
from figures import Plot, Point
from results import Result, base, by_seed, mean_curve, spread

TASKS = ("sentiment", "acceptability", "continuation", "similarity", "cloze", "endings")


# --- pre-training and what it is worth -------------------------------------------------------------------------------


def _pretraining_sentence(rows: dict) -> str:
    losses = by_seed(rows, "last")["tinyshakespeare, gpt1"]
    return f"GPT-1 on tinyshakespeare, by characters: {sum(losses) / len(losses):.3f} nats after 2,000 updates."


def _pretraining_plots(rows: dict) -> list[Plot]:
    last = {name: spread(values) for name, values in by_seed(rows, "last").items()}
    first = {name: spread(values) for name, values in by_seed(rows, "first").items()}
    minutes = {name: spread(values) for name, values in by_seed(rows, "minutes").items()}
    return [
        figures.rows(
            "Validation loss",
            {"at first": first, "at the end": last}, "nats for a token, or for a character (lower is better)", start=0,
        ),
        figures.rows(
            "Time", {"minutes": minutes}, "minutes", start=0
        ),
    ]  # fmt: skip


def _transfer_sentence(rows: dict) -> str:
    points = by_seed(rows, "points")
    after = spread(points["cloze, full"]).value
    fresh = spread(points["cloze, no pre-training"]).value
    return f"The cloze task: {after:.1f} points after pre-training, {fresh:.1f} with fresh weights."


def _transfer_plots(rows: dict) -> list[Plot]:
    names = {
        "best constant answer": "constant",
        "bag of words": "bag of words",
        "fresh weights": "no pre-training",
        "pre-trained": "full",
    }
    points = by_seed(rows, "points")
    series: dict = {}
    for title, name in names.items():
        there = {task: f"{task}, {name}" for task in TASKS}
        series[title] = {task: spread(points[row]) for task, row in there.items() if row in points}
    layers = {}
    for name, values in points.items():
        task, comma, what = name.partition("sentiment, ")
        if comma and what not in ("constant", "bag of words"):
            layers[what.replace("full", "all layers, full recipe")] = spread(values)
    axis = "points: 100 x accuracy, F1 or Matthews' correlation (mean, lowest and highest seed)"
    return [
        figures.rows("Six tasks of the story world", series, axis, start=0),
        figures.rows("Sentiment, with one part changed", {"points": layers}, axis, start=0),
    ]


def _finetuning_sentence(rows: dict) -> str:
    return "Real Korean text: after minutes of pre-training, no measurable difference to fresh weights."


def _finetuning_plots(rows: dict) -> list[Plot]:
    series: dict = {}
    for name, row in rows.items():
        task, _, how = name.partition(", ")
        if "low" in row:
            series.setdefault(how, {})[task] = Point(100 * row["accuracy"], 100 * row["low"], 100 * row["high"])
    axis = "accuracy in %, with the 95 % interval of the test set"
    return [figures.rows("Two tasks on Korean text", series, axis)]


# --- the family ------------------------------------------------------------------------------------------------------


def _family(rows: dict) -> dict[str, dict[str, Point]]:
    """{model: {task: points}} of all models that have all tasks."""
    found: dict = {}
    for name, values in by_seed(rows, "points").items():
        model, _, task = name.rpartition(", ")
        found.setdefault(model, {})[task] = spread(values)
    return {model: tasks for model, tasks in found.items() if set(TASKS) <= set(tasks)}


def _mean_of_tasks(tasks: dict[str, Point]) -> float:
    return sum(tasks[task].value for task in TASKS) / len(TASKS)


def _family_sentence(rows: dict) -> str:
    found = _family(rows)
    best = max(found, key=lambda model: _mean_of_tasks(found[model]))
    return (
        f"At equal operations, six tasks each: the highest mean has {best}, {_mean_of_tasks(found[best]):.1f} points."
    )


def _family_plots(rows: dict) -> list[Plot]:
    found = _family(rows)
    order = sorted(found, key=lambda model: -_mean_of_tasks(found[model]))
    means = {model: Point(_mean_of_tasks(found[model])) for model in order}
    plots = [figures.rows("Mean of six tasks", {"mean": means}, "points, mean of tasks and seeds", start=0)]
    for task in TASKS:
        points = {model: found[model][task] for model in order}
        plots.append(
            figures.rows(
                f"Task: {task}",
                {"points": points},
                "points (mean, lowest and highest seed)",
                start=min(0, *_lows(points)),
            )  # fmt: skip
        )
    return plots


def _lows(points: dict[str, Point]) -> list[float]:
    return [point.value if point.low is None else point.low for point in points.values()]


# --- experiments of lessons ------------------------------------------------------------------------------------------


def _long_range_sentence(rows: dict) -> str:
    mean = {name: spread(values).value for name, values in by_seed(rows, "endings").items()}
    return (
        f"The right ending is chosen in {100 * mean['transformer']:.0f} % by a Transformer, in "
        f"{100 * mean['shuffled across']:.0f} % where it has read shuffled stories, and in {100 * mean['lstm']:.0f} % "
        "by an LSTM."
    )


def _long_range_plots(rows: dict) -> list[Plot]:
    counted: dict = {}
    for name, row in rows.items():
        for distance, (right, of) in row["recall"].items():
            tally = counted.setdefault(base(name), {}).setdefault(distance, [0, 0])
            tally[0] += right
            tally[1] += of
    curves = {}
    for model, by_distance in counted.items():
        xs = [float(distance.split()[-1]) for distance in by_distance]
        curves[model] = (xs, [100 * right / of for right, of in by_distance.values()])
    ticks = {x: f"{x:.0f}" for x in next(iter(curves.values()))[0]}
    endings = {name: spread([100 * v for v in values]) for name, values in by_seed(rows, "endings").items()}
    return [
        figures.curves(
            "Recall by distance",
            curves, "tokens since it was named, at most", "% recalled, three seeds together", log_x=True, start=0,
            ticks=ticks,
        ),
        figures.rows(
            "The right ending",
            {"right": endings}, "% right (mean, lowest and highest seed)", line=50, line_text="a guess", start=40,
        ),
    ]  # fmt: skip


def _in_context_sentence(rows: dict) -> str:
    two = [max(row["after 15"]) for name, row in rows.items() if name.startswith("2 layers")]
    one = [max(row["after 15"]) for name, row in rows.items() if name.startswith("1 layer")]
    with_two = f"two layers {min(two):.0%} to {max(two):.0%}"
    return f"Best accuracy after 15 examples: {with_two}, one layer at most {max(one):.0%}."


def _in_context_plots(rows: dict) -> list[Plot]:
    curves = {}
    for name in sorted(rows):
        curves[name] = (rows[name]["step"], [100 * value for value in rows[name]["after 15"]])
    return [
        figures.curves(
            "Does a model learn from its prompt?", curves, "updates", "% right after 15 examples", marks=False
        )
    ]


def _names_sentence(rows: dict) -> str:
    end = {}
    for name, row in rows.items():
        end.setdefault(base(name), []).append(row["names"][-1])
    free, held = (spread(end[name]).value for name in ("free", "held at 0"))
    return f"Relative loss of names at the end: {free:.2f} with free vectors, {held:.2f} with the cosine held at 0."


def _names_plots(rows: dict) -> list[Plot]:
    plots = []
    for column, title in (("names", "Which child is meant"), ("toys", "Which toy is meant")):
        groups: dict = {}
        for name, row in rows.items():
            groups.setdefault(base(name), []).append(row[column])
        steps = next(iter(rows.values()))["step"]
        curves = {name: (steps, mean_curve(lists)) for name, lists in groups.items()}
        plots.append(figures.curves(title, curves, "updates", "relative loss (1: a guess, 0: sure and right)", start=0))
    return plots


def _is_plain(row: dict) -> bool:
    """A run with the lesson's rate, batch and number of updates."""
    return (row["rows"], row["steps"], row["rate"]) == (4, 1200, 1) and row["letters"] == 307200


def _scaling_sentence(rows: dict) -> str:
    by_width: dict = {}
    for row in rows.values():
        if _is_plain(row):
            by_width.setdefault(row["width"], []).append(row["loss"])
    narrow, wide = (spread(by_width[width]).value for width in (min(by_width), max(by_width)))
    return f"From width {min(by_width)} to {max(by_width)} the loss falls from {narrow:.2f} to {wide:.2f} nats."


def _scaling_plots(rows: dict) -> list[Plot]:
    groups: dict = {}
    changed = {}
    for row in rows.values():
        if row["rate"] == 1 and (_is_plain(row) or row["rows"] == 8):
            name = f"{row['rows']} rows, {row['steps']:,} updates, seed {row['seed']}"
            groups.setdefault(name, []).append((row["width"], row["loss"]))
        else:
            changed[_what_changed(row)] = Point(row["loss"])
    curves = {name: tuple(map(list, zip(*sorted(pairs), strict=True))) for name, pairs in groups.items()}
    widths = {width: str(width) for width in (8, 16, 24, 40, 64, 96)}
    loss = "loss in nats for a letter"
    return [
        figures.curves("Loss against width", curves, "width", loss, log_x=True, start=0, ticks=widths),
        figures.rows("With one thing changed", {"loss": changed}, f"{loss} (lower is better)", start=0),
    ]


def _what_changed(row: dict) -> str:
    if row["rate"] != 1:
        return f"width {row['width']}, rate times {row['rate']:g}"
    read = f"{row['rows']} rows, {row['steps']:,} updates"
    return f"width {row['width']}, {read}, {row['letters']:,} letters, seed {row['seed']}"


def _masked_sentence(rows: dict) -> str:
    best = max(rows, key=lambda name: rows[name]["accuracy"])
    return f"The most covered words are told by {best}: {rows[best]['accuracy']:.0%}."


def _masked_plots(rows: dict) -> list[Plot]:
    points = {name: Point(100 * row["accuracy"]) for name, row in rows.items()}
    return [figures.rows("Covered words told", {"right": points}, "% right (higher is better)", start=0)]


def _warmup_sentence(rows: dict) -> str:
    without = rows["12 post-norm blocks, no warm-up"]["end"]
    with_it = rows["12 post-norm blocks, warm-up 0.5"]["end"]
    return f"Twelve post-norm blocks end at {without:.2f} without warm-up, at {with_it:.2f} with it."


def _warmup_plots(rows: dict) -> list[Plot]:
    points = {name: Point(row["end"], row["lowest"], row["highest"]) for name, row in rows.items() if "lowest" in row}
    level = rows["letter frequencies"]["end"]
    axis = "loss in nats at the end (mean, lowest and highest of eight seeds)"
    return [
        figures.rows("The loss at the end", {"loss": points}, axis, line=level, line_text="letter frequencies alone")
    ]


def _stories_sentence(rows: dict) -> str:
    parts = [f"{row['without fault']} of {row['stories']} at {name}" for name, row in rows.items()]
    return f"Stories without a fault: {', '.join(parts)}."


def _stories_plots(rows: dict) -> list[Plot]:
    good = {}
    kinds: dict = {}
    for name, row in rows.items():
        good[name] = Point(100 * row["without fault"] / row["stories"], 100 * row["low"], 100 * row["high"])
        kinds[name] = {kind: Point(count) for kind, count in row["kinds"].items()}
    return [
        figures.rows(
            "Stories without a fault",
            {"without a fault": good}, "% of stories, with the 95 % interval", start=0,
        ),
        figures.rows(
            "Kinds of faults", kinds, "stories of 100", start=0
        ),
    ]  # fmt: skip


RESULTS = {
    "pretraining": Result("Pre-training runs", _pretraining_sentence, _pretraining_plots),
    "transfer": Result("What pre-training is worth", _transfer_sentence, _transfer_plots),
    "family": Result("The family at equal operations", _family_sentence, _family_plots),
    "long_range": Result("Who remembers what was told long ago", _long_range_sentence, _long_range_plots),
    "in_context": Result("Learning from the prompt", _in_context_sentence, _in_context_plots),
    "names": Result("When names are learnt", _names_sentence, _names_plots),
    "scaling": Result("What moves the losses of lesson 24", _scaling_sentence, _scaling_plots),
    "masked": Result("How a small model learns covered words", _masked_sentence, _masked_plots),
    "warmup": Result("What makes warm-up necessary", _warmup_sentence, _warmup_plots),
    "stories": Result("Stories without a fault", _stories_sentence, _stories_plots),
    "finetuning": Result("Fine-tuning on Korean text", _finetuning_sentence, _finetuning_plots),
}
