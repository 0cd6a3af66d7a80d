"""The results on speed and memory."""

import figures
from figures import Plot, Point
from results_form import Result, Target, ratio_point, verdict

# --- a training step -------------------------------------------------------------------------------------------------

MODELS = ("4x128, context 64, batch 12", "6x384, context 256, batch 8", "GPT-2 small, context 256, batch 2")
STEP_TARGETS = tuple(
    Target(f"{model}{threads}: minigpt / floor", "ratio", value, at_least=False)
    for model, value in zip(MODELS, (1.45, 1.2, 1.2), strict=True)
    for threads in ("", ", one thread")
)


def _step_sentence(rows: dict) -> str:
    speed = rows[f"{MODELS[2]}: PyTorch eager / minigpt"]["ratio"]
    floor = rows[f"{MODELS[2]}: minigpt / floor"]["ratio"]
    times = f"A step of GPT-2 small takes {floor:.2f} times as long as its matrix products alone"
    return f"{times}, and is {speed:.2f} times as fast as PyTorch's. {verdict(STEP_TARGETS, rows)}"


def _step_plots(rows: dict) -> list[Plot]:
    pairs = {
        "two threads": "{}: PyTorch eager / minigpt", "two processes": "{}: PyTorch eager / processes",
        "one thread": "{}, one thread: PyTorch eager / minigpt",
        "two threads, PyTorch compiled": "{}: PyTorch compiled / minigpt",
    }  # fmt: skip
    products = {
        "two threads": "{}: minigpt / floor", "two processes": "{}: processes / floor",
        "one thread": "{}, one thread: minigpt / floor", "PyTorch eager, two threads": "{}: PyTorch eager / floor",
    }  # fmt: skip
    return [
        figures.rows(
            "A training step against PyTorch", _by_model(rows, pairs),
            "time of PyTorch / time of minigpt (above 1: minigpt is faster)", line=1, line_text="equal", start=0.5,
        ),
        figures.rows(
            "A training step against its own matrix products", _by_model(rows, products),
            "time of the step / time of its products alone (lower is better)", line=1,
            line_text="the products alone", start=0.9,
        ),
        _growth(rows),
    ]  # fmt: skip


def _by_model(rows: dict, names: dict[str, str]) -> dict[str, dict[str, Point]]:
    """{series: {model: point}}. names: of the row of each series; {} stands for the model."""
    targets = {target.row: target.value for target in STEP_TARGETS}
    found: dict = {}
    for series, name in names.items():
        points = {model: name.format(model) for model in MODELS}
        found[series] = {model: ratio_point(rows[row], targets.get(row)) for model, row in points.items()}
    return found


def _growth(rows: dict) -> Plot:
    """Seconds of a step as one size grows, over those at its smallest value."""
    found = {}
    for name, row in rows.items():
        kind, comma, size = name.partition("growth, ")
        if comma:
            what, number = size.split(" ")
            xs, ys = found.setdefault(what, ([], []))
            xs.append(int(number))
            ys.append(row["seconds"])
    series = {}
    for what, (xs, ys) in found.items():
        series[what] = ([x / xs[0] for x in xs], [y / ys[0] for y in ys])
    return figures.curves(
        "How a step grows, one size at a time",
        series, "times the smallest size", "time, as a multiple of that at the smallest size", log_x=True, log_y=True,
    )  # fmt: skip


# --- tricks of the fast operations -----------------------------------------------------------------------------------


def _effects_sentence(rows: dict) -> str:
    all_of_it = rows["6x384 without all of it"]["ratio"]
    single = [row for name, row in rows.items() if not name.endswith(" without all of it")]
    unclear = sum(row["from"] <= 1 <= row["to"] for row in single)
    return (
        f"Without all fast operations a step of the larger model takes {all_of_it:.2f} times as long. Most single "
        f"tricks cannot be told from no effect: {unclear} of {len(single)} ranges include 1."
    )


def _effects_plots(rows: dict) -> list[Plot]:
    series = _ratios_by_shape(rows, " without ")
    axis = "time of a step without it / time with all (1: no effect; the line is the range)"
    return [figures.rows("A step without one trick", series, axis, line=1, line_text="no effect")]


def _ratios_by_shape(rows: dict, between: str) -> dict[str, dict[str, Point]]:
    """{shape: {what: point}} of the rows with a ratio, whose names are a shape, `between`, and what was measured."""
    found: dict = {"4x128": {}, "6x384": {}}
    for name, row in rows.items():
        shape, _, what = name.partition(between)
        if "ratio" in row:
            found[shape][what] = ratio_point(row)
    return found


def _two_threads_sentence(rows: dict) -> str:
    threads, processes = (rows[f"4x128: {what}"]["ratio"] for what in ("two threads", "two processes"))
    hand_over, number = rows["4x128: a hand-over"]["above"], rows["4x128: hand-overs of a step"]["number"]
    return (
        f"With two threads the small step takes {threads:.2f} of the time with one; two processes, {processes:.2f}. "
        f"One of {number} hand-overs takes {1e6 * hand_over:.0f} microseconds."
    )


def _two_threads_plots(rows: dict) -> list[Plot]:
    series = _ratios_by_shape(rows, ": ")
    axis = "time / time of a step with one thread (the line is the range)"
    return [figures.rows("Two threads, and two processes", series, axis, line=0.5, line_text="half", start=0.4)]


def _threads_sentence(rows: dict) -> str:
    chosen = [row["ratio"] for name, row in rows.items() if ": chosen" in name]
    least, most = min(chosen), max(chosen)
    return (
        f"With as many threads as are chosen, a step takes {least:.2f} to {most:.2f} of the time with one thread, from "
        "1 layer of 16 to GPT-2 small."
    )


def _threads_plots(rows: dict) -> list[Plot]:
    series: dict[str, dict[str, Point]] = {}
    for name, row in rows.items():
        shape, _, what = name.partition(": ")
        series.setdefault(what, {})[shape] = ratio_point(row)
    axis = "time / time of a step with one thread (the line is the range)"
    return [figures.rows("One thread or two", series, axis, line=1, line_text="one thread", start=0.4)]


def _one_thread_sentence(rows: dict) -> str:
    whole = rows["4x128: step"]["ratio"]
    parts = {name.partition(": ")[2]: row["ratio"] for name, row in rows.items() if name.startswith("4x128")}
    del parts["step"], parts["calls"]
    most = max(parts, key=parts.get)
    return (
        f"A small step takes {whole:.2f} times as long as its products, with one thread. Of the rest, alone, {most} "
        f"takes most: {parts[most]:.2f} of the products' time."
    )


def _one_thread_plots(rows: dict) -> list[Plot]:
    parts = {name: row for name, row in rows.items() if not name.endswith(": step")}
    series = _ratios_by_shape(parts, ": ")
    axis = "time of a part / time of the products of a step (the line is the range)"
    return [figures.rows("Beside the products", series, axis, start=0)]


# --- whole runs, decoding, memory ------------------------------------------------------------------------------------

RUN_TARGETS = (Target("2000 steps: processes / PyTorch eager", "ratio", 1.0, at_least=False),)


def _run_sentence(rows: dict) -> str:
    threads = rows["2000 steps: minigpt / PyTorch eager"]["ratio"]
    processes = rows["2000 steps: processes / PyTorch eager"]["ratio"]
    loss = rows["2000 steps: validation loss of minigpt"]["loss"]
    theirs = rows["2000 steps: validation loss of PyTorch eager"]["loss"]
    times = f"A whole run takes {processes:.2f} times as long as in PyTorch with a process for each core"
    times += f", and {threads:.2f} times with threads"
    return f"{times}; the losses at the end are {loss:.3f} and {theirs:.3f}. {verdict(RUN_TARGETS, rows)}"


def _run_plots(rows: dict) -> list[Plot]:
    points = {
        "with a process for each core": ratio_point(rows[RUN_TARGETS[0].row], RUN_TARGETS[0].value),
        "with threads": ratio_point(rows["2000 steps: minigpt / PyTorch eager"]),
    }
    axis = "time of minigpt / time of PyTorch eager (lower is better)"
    title = "A whole training run: 2,000 steps with validation"
    return [figures.rows(title, {"ratio": points}, axis, line=1, line_text="equal", start=0.5)]


DECODE_TARGETS = (
    Target("batch 1: a token of minigpt / reading", "ratio", 1.08, at_least=False),
    Target("batch 8: a token of minigpt / reading", "ratio", 1.08, at_least=False),
)


def _both_speeds(speed: dict) -> str:
    return f"{speed['minigpt']:.1f} tokens a second here, {speed['transformers']:.1f} with transformers"


def _decode_sentence(rows: dict) -> str:
    return f"One text: {_both_speeds(rows['batch 1: tokens per second'])}. {verdict(DECODE_TARGETS, rows)}"


def _decode_plots(rows: dict) -> list[Plot]:
    targets = {target.row: target.value for target in DECODE_TARGETS}
    against: dict = {"transformers / minigpt": {}, "a token of minigpt / reading": {}}
    for name, row in rows.items():
        for what, points in against.items():
            if name.endswith(f": {what}"):
                points[name] = ratio_point(row, targets.get(name))
    axis = "ratio of times"
    tokens: dict = {"minigpt": {}, "transformers": {}}
    for row_name, row in rows.items():
        case, _, what = row_name.partition(": ")
        if what == "tokens per second":
            for side in tokens:
                tokens[side][case] = Point(row[side])
    return [
        figures.rows("Tokens a second, GPT-2 small", tokens, "tokens a second (higher is better)", start=0),
        *(
            figures.rows(f"Decoding: {what}", {"ratio": points}, axis, line=1, line_text="equal", start=0.6)
            for what, points in against.items()
        ),
    ]


CHAT_TARGETS = (
    Target("smollm2: minigpt / reading", "ratio", 1.15, at_least=False),
    Target("smollm2: transformers / minigpt", "ratio", 1.0, at_least=True),
)


def _chat_sentence(rows: dict) -> str:
    both = _both_speeds(rows["smollm2: tokens per second"])
    return f"SmolLM2-135M-Instruct, one text: {both}. {verdict(CHAT_TARGETS, rows)}"


def _chat_plots(rows: dict) -> list[Plot]:
    targets = {target.row: target.value for target in CHAT_TARGETS}
    points = {
        name.removeprefix("smollm2: "): ratio_point(row, targets.get(name))
        for name, row in rows.items()
        if "ratio" in row
    }
    title = "A token of a real model"
    return [figures.rows(title, {"ratio": points}, "ratio of times", line=1, line_text="equal", start=0)]


MEMORY_TARGETS = (
    Target("minigpt", "/ PyTorch", 0.45, at_least=False),
    Target("minigpt --checkpoint-blocks", "/ PyTorch", 0.5, at_least=False),
)


def _memory_sentence(rows: dict) -> str:
    share = rows["minigpt"]["/ PyTorch"]
    return f"A step of GPT-2 small needs {share:.2f} of the memory that PyTorch needs. {verdict(MEMORY_TARGETS, rows)}"


def _memory_plots(rows: dict) -> list[Plot]:
    torch = rows["PyTorch eager"]["step MB"]
    targets = {target.row: target.value * torch for target in MEMORY_TARGETS}
    points = {name: Point(row["step MB"], target=targets.get(name)) for name, row in rows.items()}
    return [figures.rows("Peak memory of a training step", {"step": points}, "MB (lower is better)", start=0)]


# --- byte-pair encoding, gradient checks -----------------------------------------------------------------------------

BPE_TARGETS = (
    Target("train 50257, every pair, tokenizers", "ratio", 0.7, at_least=False),
    Target("encode cold, tiktoken", "MB/s", 8, at_least=True),
)


def _bpe_sentence(rows: dict) -> str:
    speed = rows["encode cold, tiktoken"]["MB/s"]
    return f"Encoding with GPT-2's vocabulary: {speed:.1f} MB a second on one core. {verdict(BPE_TARGETS, rows)}"


def _bpe_plots(rows: dict) -> list[Plot]:
    ratios = {}
    for name, row in rows.items():
        if "ratio" in row:
            target = 0.7 if name == BPE_TARGETS[0].row else None
            ratios[name] = ratio_point(row, target)
    sizes = {name: row for name, row in rows.items() if name.startswith("train 50257") and name.endswith(" MB")}
    megabytes = [float(name.split(", ")[1].removesuffix(" MB")) for name in sizes]
    seconds = [row["seconds"] for row in sizes.values()]
    runs: dict = {}
    for name, row in rows.items():
        model, kind = name.split(", ")[0], name.split(", ")[-1]
        if ", 100 KB, " in name:
            runs.setdefault(model, {})[kind] = Point(row["MB/s"])
    return [
        figures.rows(
            "Time against tokenizers and tiktoken",
            {"ratio": ratios}, "our time / their time (lower is better)", line=1, line_text="equal", start=0,
        ),
        figures.curves(
            "Learning 50,257 tokens", {"seconds": (megabytes, seconds)}, "MB of text", "seconds", start=0,
        ),
        figures.rows(
            "Texts that are one long run of a kind",
            runs, "MB a second for 100 KB (higher is better)", log=True,
        ),
    ]  # fmt: skip


def _gradcheck_sentence(rows: dict) -> str:
    worst = max(row["worst error"] for row in rows.values() if "worst error" in row)
    everything = rows["all"]
    between = f"{everything['from']:.0f} to {everything['to']:.0f} s"
    checked = f"{everything['tensors']} gradients in {everything['seconds']:.0f} s ({between})"
    return f"{checked}; the largest relative error is {worst:.0e}."


def _gradcheck_plots(rows: dict) -> list[Plot]:
    errors = {name: Point(row["worst error"]) for name, row in rows.items() if "worst error" in row}
    times = {name: Point(row["seconds"], row["from"], row["to"]) for name, row in rows.items()}
    return [
        figures.rows(
            "Largest relative error of a gradient",
            {"largest error": errors}, "relative error against finite differences", log=True, line=1e-7,
            line_text="limit: 1e-7",
        ),
        figures.rows(
            "Time of the checks",
            {"seconds": times}, "seconds", log=True,
        ),
    ]  # fmt: skip


RESULTS = {
    "train_step": Result("A training step", _step_sentence, _step_plots, STEP_TARGETS),
    "one_thread": Result("Where a step spends its time beside its products", _one_thread_sentence, _one_thread_plots),
    "threads": Result("One thread or two", _threads_sentence, _threads_plots),
    "two_threads": Result("What a second thread costs", _two_threads_sentence, _two_threads_plots),
    "effects": Result("A training step without one trick at a time", _effects_sentence, _effects_plots),
    "run": Result("A whole training run", _run_sentence, _run_plots, RUN_TARGETS),
    "decode": Result("Decoding with the key-value cache", _decode_sentence, _decode_plots, DECODE_TARGETS),
    "chat_speed": Result("How fast a real model writes", _chat_sentence, _chat_plots, CHAT_TARGETS),
    "memory": Result("Memory of a training step", _memory_sentence, _memory_plots, MEMORY_TARGETS),
    "bpe": Result("Byte-pair encoding", _bpe_sentence, _bpe_plots, BPE_TARGETS),
    "gradcheck": Result("Gradient checks", _gradcheck_sentence, _gradcheck_plots),
}
