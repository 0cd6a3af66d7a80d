"""The results on what models learn."""

import figures
from figures import Plot, Point
from results_form import Result, base, by_seed, mean_curve, spread

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


MIXED = "accuracy, F1 and Matthews' correlation, times 100"  # by the task


def _family(rows: dict) -> dict[str, dict[str, Point]]:
    """{model: {task: points}} of all models that have all tasks."""
    found: dict = {}
    for name, values in by_seed(rows, "points").items():
        model, _, task = name.rpartition(", ")
        found.setdefault(model, {})[task] = spread(values)
    return {model: tasks for model, tasks in found.items() if set(TASKS) <= set(tasks)}


def _means(rows: dict) -> dict[str, Point]:
    """{model: the mean of the six tasks, its lowest and highest seed}, the highest mean first."""
    by_seeds: dict[str, dict[str, list[float]]] = {}
    for name, row in rows.items():
        before, _, task = name.rpartition(", ")
        model, comma, seed = before.rpartition(", seed ")
        if comma and task in TASKS:
            by_seeds.setdefault(model, {}).setdefault(seed, []).append(row["points"])
    found = {}
    for model in _family(rows):
        if model in by_seeds:
            found[model] = spread([sum(points) / len(TASKS) for points in by_seeds[model].values()])
        else:  # the constant answer: no seeds
            found[model] = Point(sum(point.value for point in _family(rows)[model].values()) / len(TASKS))
    return dict(sorted(found.items(), key=lambda pair: -pair[1].value))


def _family_sentence(rows: dict) -> str:
    of_one_budget = {name: point for name, point in _means(rows).items() if "times the operations" not in name}
    (best, first), *others = of_one_budget.items()
    near = [model for model, point in others if point.high is not None and point.high >= first.low]
    seeds = f"by seed {first.low:.1f} to {first.high:.1f}"
    overlap = f"The ranges of {', '.join(near) or 'no others'} overlap with it"
    return (
        f"Equal operations: {best} has the highest mean, {first.value:.1f} ({seeds}). {overlap}. It averages {MIXED}."
    )


def _family_plots(rows: dict) -> list[Plot]:
    found = _family(rows)
    order = list(_means(rows))
    axis = f"mean of {MIXED} (mean, lowest and highest seed)"
    plots = [figures.rows("Mean of six tasks", {"mean": _means(rows)}, axis, start=0)]
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
    parts = []
    for title, start in {"two layers": "2 layers", "one layer": "1 layer"}.items():
        ends = [row["after 15"][-1] for name, row in rows.items() if name.startswith(start)]
        parts.append(f"{title} {min(ends):.0%} to {max(ends):.0%}")
    updates = next(iter(rows.values()))["step"][-1]
    return f"Accuracy after 15 examples, at the end of {updates:,} updates: {', '.join(parts)} (a guess: 50%)."


def _in_context_plots(rows: dict) -> list[Plot]:
    curves = {}
    for name in sorted(rows):
        curves[name] = (rows[name]["step"], [100 * value for value in rows[name]["after 15"]])
    return [
        figures.curves(
            "Does a model learn from its prompt?", curves, "updates", "% right after 15 examples", marks=False
        )
    ]


def _banded_sentence(rows: dict) -> str:
    ends = [f"{name} {point.value:.0%}" for name, point in _of_bands(rows, "after 15", 1).items()]
    return f"Accuracy after 15 examples, for the first layer and those after it: {'; '.join(ends)} (a guess: 50%)."


def _banded_plots(rows: dict) -> list[Plot]:
    columns = {"after 15 examples": "after 15", "the equal symbol is far back": "far"}
    shares = {told: _of_bands(rows, key, 100) for told, key in columns.items()}
    axis = "% right (mean, lowest and highest of three seeds)"
    return [figures.rows("For which layer is a band enough?", shares, axis, line=50, line_text="a guess", start=40)]


def _of_bands(rows: dict, key: str, times: int) -> dict[str, Point]:
    """{bands of the layers: a column, times so many, with the lowest and the highest of its seeds}"""
    found = {}
    for one in dict.fromkeys(map(base, rows)):
        found[one] = spread([times * row[key] for name, row in rows.items() if base(name) == one])
    return found


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
    covering = {name: row["accuracy"] for name, row in rows.items() if "covered" in name}
    best = max(covering, key=covering.get)
    return f"The best masked model is {best}: it tells {covering[best]:.0%} of the covered words of its exam."


def _masked_plots(rows: dict) -> list[Plot]:
    """A plot for each length of window, for each has an exam of its own."""
    exams: dict = {}
    for name, row in rows.items():
        model, window, *how = name.split(", ")
        what = f"{model}, {', '.join(how)}" if how else f"{model}: the same words, nothing covered"
        exams.setdefault(window, {})[what] = Point(100 * row["accuracy"])
    plots = []
    for window, points in sorted(exams.items(), key=lambda pair: int(pair[0].split()[1])):
        title = f"The exam of {window}: words predicted"
        plots.append(figures.rows(title, {"right": points}, "% right (higher is better)", start=0))
    return plots


def _real_bert_sentence(rows: dict) -> str:
    means = {}
    for goal in ("[CLS]", "[SEP]"):
        of_blocks = [point.value for point in _shares(rows, goal).values()]
        means[goal] = sum(of_blocks) / len(of_blocks)
    where = f"{means['[CLS]']:.0%} goes to [CLS], {means['[SEP]']:.0%} to [SEP]"
    return f"The heads of all-MiniLM-L6-v2, a published BERT, on twelve sentences: of their attention, {where}."


def _real_bert_plots(rows: dict) -> list[Plot]:
    first = next(row for name, row in rows.items() if name.startswith("block"))
    series = {goal: _shares(rows, goal) for goal in first if goal != "measured"}
    axis = "share of the attention (mean, lowest and highest of the heads of a block)"
    return [figures.rows("What the heads look at", series, axis, start=0)]


def _shares(rows: dict, goal: str) -> dict[str, Point]:
    """{block: the mean share of its heads that goes there, with the lowest and the highest}"""
    return {name: spread(row[goal]) for name, row in rows.items() if name.startswith("block")}


def _real_llama_sentence(rows: dict) -> str:
    ranks = rows["lens"]["rank"]
    first = next(i for i, rank in enumerate(ranks) if max(ranks[i:]) < 100)
    where = f"among the 100 best words from block {first} of {len(ranks) - 1} on"
    return f"SmolLM2-135M-Instruct answers a question: Paris is {where}, and the first behind the last block."


def _real_llama_plots(rows: dict) -> list[Plot]:
    points = {f"block {i}" if i else "token": Point(p) for i, p in enumerate(rows["lens"]["p"])}
    return [figures.rows("What each block would answer", {"Paris": points}, "probability of the word Paris", start=0)]


def _instruct_sentence(rows: dict) -> str:
    before, after = rows["before"], rows["after"]
    answers = f"right answers rise from {before['answers']:.0%} to {after['answers']:.0%}"
    known = f"known capitals fall from {before['capitals']:.0%} to {after['capitals']:.0%}"
    cost = f"{after['minutes']:.0f} minutes and {after['gigabytes']:.1f} GB"
    return f"SmolLM2 learns 200 instructions: {answers}, {known}. It takes {cost}."


def _instruct_plots(rows: dict) -> list[Plot]:
    shares = {when: {what: Point(row[what]) for what in ("answers", "capitals")} for when, row in rows.items()}
    return [figures.rows("Before and after 200 instructions", shares, "part that is right", start=0)]


PAPER = "the paper's"


def _suites_sentence(rows: dict) -> str:
    """How many columns were measured, which need a download, and why one of them does not compare models."""
    missing = [name.partition(", ")[0] for name, row in rows.items() if "where" in row]
    there = {name.partition(", ")[0] for name, row in rows.items() if "ours" in row}
    last_token, of_word = "LAMBADA PPL", "LAMBADA PPL of the word"
    there.discard(of_word)
    tokens = {name.partition(", ")[2]: row for name, row in rows.items() if name.startswith(f"{last_token}, ")}
    model = min(tokens, key=lambda name: tokens[name]["ours"])
    ours, paper = tokens[model]["ours"], tokens[model][PAPER]
    word = rows[f"{of_word}, {model}"]["ours"]
    return (
        f"{len(there)} of {len(there) + len(missing)} numbers of GPT-2's table 3, on models that have read stories for "
        "children, or nothing. By the last token, as OpenAI scored LAMBADA, the perplexity of one is "
        f"{ours:.1f} ({model}), beside the {paper:g} of the paper's smallest model: its pieces are short. By the last "
        f"word it is {word:.1e}. The released weights need a download, as do the files of {', '.join(missing)}."
    )


def _suites_plots(rows: dict) -> list[Plot]:
    """The perplexities, with the paper's as targets, and the accuracy."""
    perplexities, accuracies = {}, {}
    for name, row in rows.items():
        if "ours" in row:
            points = perplexities if " PPL" in name else accuracies
            points[name] = Point(row["ours"], row["low"], row["high"], row[PAPER])
    axis = "perplexity (lower is better); the bar is the paper's smallest model"
    return [
        figures.rows("Perplexities", {"ours": perplexities}, axis, log=True),
        figures.rows("Accuracy", {"ours": accuracies}, "% right; the bar is the paper's smallest model", start=0),
    ]


def _preferences_sentence(rows: dict) -> str:
    plain = spread(rows["DPO, beta 1"]["in tuning"])
    small = spread(rows["DPO, beta 1, steps of a tenth"]["in tuning"])
    both = spread(rows["DPO, beta 1, and the better answer's loss"]["in tuning"])
    return (
        f"DPO learns the order of two answers and loses both: {plain.value:.0%} of the questions are answered right "
        f"after 60 updates, {small.value:.0%} with a tenth of the rate, {both.value:.0%} where the loss of the better "
        "answer is added."
    )


def _preferences_plots(rows: dict) -> list[Plot]:
    columns = {"in the comparisons": "in tuning", "other questions": "held out", "polite": "polite"}
    shares = {told: {name: spread(row[key]) for name, row in rows.items()} for told, key in columns.items()}
    gains = {key: {name: spread(row[key]) for name, row in rows.items()} for key in ("better", "worse")}
    return [
        figures.rows("Answered right, and politely", shares, "share (mean, lowest and highest seed)", start=0),
        figures.rows("Two answers that are compared", gains, "nats by which an answer has become more probable"),
    ]


def _since_gpt2_sentence(rows: dict) -> str:
    means = {name: point.value for name, point in _losses_of_changes(rows).items()}
    best = min(means, key=means.get)
    turning = means["rotary positions"]
    there = f"GPT-2 with two blocks ends at {means['GPT-2']:.2f}, with rotary positions at {turning:.2f}"
    return f"{there}; the best is {best}, at {means[best]:.2f}: three seeds, the same updates."


def _since_gpt2_plots(rows: dict) -> list[Plot]:
    axis = "loss in nats on held-out stories (mean, lowest and highest of three seeds)"
    return [figures.rows("One change at a time", {"loss": _losses_of_changes(rows)}, axis)]


def _losses_of_changes(rows: dict) -> dict[str, Point]:
    """{change: its loss, with the lowest and the highest of its seeds}"""
    names = dict.fromkeys(name.partition(", seed")[0] for name in rows)
    found = {}
    for one in names:
        losses = [row["loss"] for name, row in rows.items() if name.startswith(f"{one}, seed")]
        found[one] = spread(losses)
    return found


MEASURES = ("all words", "the place", "wrong colours")  # in the order of a row's shares


def _controls_sentence(rows: dict) -> str:
    copied, worked_out = (_of_recipes(rows)[recipe] for recipe in ("10 % stay", "10 % random"))
    place = f"the place is copied in {100 * copied['the place'].value:.0f} % if some words stay"
    alone = f"in {100 * worked_out['the place'].value:.0f} % if some are random"
    return f"At words that are not masked, {place} and {alone}; a guess is right in 12 %: four seeds."


def _controls_plots(rows: dict) -> list[Plot]:
    axis = "share that the head predicts where no word is masked (mean, lowest and highest of four seeds)"
    return [figures.rows("What covering teaches about words that are seen", _of_recipes(rows), axis, start=0)]


def _of_recipes(rows: dict) -> dict[str, dict[str, Point]]:
    """{recipe: {measure: its mean, lowest and highest seed}}"""
    shares: dict[str, list[list[float]]] = {}
    for name, row in rows.items():
        if name.startswith("26, "):  # the other rows are more seeds of lessons 03 and 25
            recipe = name.removeprefix("26, ").rpartition(", seed ")[0]
            shares.setdefault(recipe, []).append(row["shares"])
    found = {}
    for recipe, seeds in shares.items():
        columns = zip(*seeds, strict=True)
        found[recipe] = {measure: spread(list(column)) for measure, column in zip(MEASURES, columns, strict=True)}
    return found


def _warmup_sentence(rows: dict) -> str:
    without = rows["12 post-norm blocks, no warm-up"]["end"]
    with_it = rows["12 post-norm blocks, warm-up 0.5"]["end"]
    slower = rows["12 post-norm blocks, no warm-up, rate / 4"]["end"]
    here = f"at this high rate at {without:.2f} without warm-up and at {with_it:.2f} with it"
    return f"Twelve post-norm blocks end {here}; at a quarter of the rate at {slower:.2f} without it."


def _warmup_plots(rows: dict) -> list[Plot]:
    points = {name: Point(row["end"], row["lowest"], row["highest"]) for name, row in rows.items() if "lowest" in row}
    level = rows["letter frequencies"]["end"]
    axis = "loss in nats at the end (mean, lowest and highest of eight seeds)"
    return [
        figures.rows("The loss at the end", {"loss": points}, axis, line=level, line_text="letter frequencies alone")
    ]


def _claim_sentence(rows: dict) -> str:
    best = min(rows, key=lambda name: rows[name]["nats"])
    schedule, _, rate = best.rpartition(", ")
    least = f"{rows[best]['nats']:.2f} nats for a character"
    return f'The lowest held-out loss, {least}, has the schedule "{schedule}" with a rate of {rate}.'


def _claim_plots(rows: dict) -> list[Plot]:
    series: dict = {}
    for name, row in rows.items():
        schedule, _, rate = name.rpartition(", ")
        series.setdefault(f"rate {rate}", {})[schedule] = Point(row["nats"])
    axis = "held-out loss in nats for a character, mean of three seeds (lower is better)"
    return [figures.rows("Schedules, each after a warm-up", series, axis)]


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
    "banded": Result("Bands, and examples that must be read", _banded_sentence, _banded_plots),
    "in_context": Result("Learning from the prompt", _in_context_sentence, _in_context_plots),
    "names": Result("When names are learnt", _names_sentence, _names_plots),
    "scaling": Result("What moves the losses of lesson 24", _scaling_sentence, _scaling_plots),
    "masked": Result("How a small model learns covered words", _masked_sentence, _masked_plots),
    "controls": Result("What each part of BERT's covering teaches", _controls_sentence, _controls_plots),
    "since_gpt2": Result("From GPT-2 to LLaMA, one change at a time", _since_gpt2_sentence, _since_gpt2_plots),
    "preferences": Result("Comparisons with and without a reward model", _preferences_sentence, _preferences_plots),
    "suites": Result("GPT-2's table 3, on small models", _suites_sentence, _suites_plots),
    "instruct": Result("What 200 instructions teach a real model", _instruct_sentence, _instruct_plots),
    "real_llama": Result("How a published LLaMA comes to an answer", _real_llama_sentence, _real_llama_plots),
    "real_bert": Result("Where the heads of a published BERT look", _real_bert_sentence, _real_bert_plots),
    "warmup": Result("What makes warm-up necessary at a high rate", _warmup_sentence, _warmup_plots),
    "claim": Result("Schedules and rates for the small model of a claim", _claim_sentence, _claim_plots),
    "stories": Result("Stories without a fault", _stories_sentence, _stories_plots),
    "finetuning": Result("Fine-tuning on Korean text", _finetuning_sentence, _finetuning_plots),
}
