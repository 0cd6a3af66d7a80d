"""The results on the GPU code: what was measured on a GPU, and what its compiler says."""

import figures
from figures import Plot, Point
from results_form import Result

SHOWN = "sm_90"  # the architecture whose registers and occupancy are drawn


def _gpu_sentence(rows: dict) -> str:
    """The fastest step of each side, where both were measured."""
    ours = _tokens(rows, "step, bfloat16")
    theirs = max((value for name, value in _tokens(rows, "PyTorch").items()), default=None)
    if not ours or theirs is None:
        return f"{len(rows)} numbers from a GPU; no step against PyTorch among them yet."
    best = max(ours.values())
    return f"GPT-2 small in bfloat16: {best:,.0f} tokens a second; PyTorch's fastest way, {theirs:,.0f}."


def _tokens(rows: dict, ending: str) -> dict[str, float]:
    """Tokens a second of the steps in bfloat16 whose name ends so, or has it as a part that begins so."""
    steps = {name: row["tokens/s"] for name, row in rows.items() if ": step, bfloat16" in name and "tokens/s" in row}
    return {name: value for name, value in steps.items() if f", {ending}" in name or name.endswith(ending)}


def _gpu_plots(rows: dict) -> list[Plot]:
    floors = {name: Point(100 * row["of floor"]) for name, row in rows.items() if "of floor" in row}
    speeds = {name: Point(row["tokens/s"]) for name, row in rows.items() if ": step, " in name and "tokens/s" in row}
    plots = []
    if speeds:
        plots.append(figures.rows("A training step of GPT-2 small", {"speed": speeds}, "tokens a second", start=0))
    if floors:
        axis = "% of the speed that memory and arithmetic allow"
        plots.append(figures.rows("Kernels and their floors", {"of the floor": floors}, axis, start=0))
    return plots or [_all_numbers(rows)]


def _all_numbers(rows: dict) -> Plot:
    """The first number of each row, where no part with a plot has been run yet."""
    points = {}
    for name, row in rows.items():
        for value in row.values():
            if isinstance(value, int | float) and value > 0:
                points[name] = Point(value)
                break
    return figures.rows("The first number of each row", {"number": points}, "each in its unit", log=True)


def _kernels_sentence(rows: dict) -> str:
    most = {name: max(row["registers"].values()) for name, row in rows.items()}
    spilling = [name for name, row in rows.items() if max(row["spill stores"].values())]
    fattest = max(most, key=most.get)
    return (
        f"{len(rows)} kernels as they are compiled for GPT-2 small: the most registers are {most[fattest]} "
        f"({fattest.partition(':')[0]}); {len(spilling)} keep registers in memory."
    )


def _kernels_plots(rows: dict) -> list[Plot]:
    """One row for each kernel and dtype: the most registers, and the least occupancy, of its variants."""
    registers: dict[str, float] = {}
    occupancy: dict[str, float] = {}
    for name, row in rows.items():
        if SHOWN not in row["registers"]:
            continue
        kernel, _, variant = name.partition(": ")
        label = f"{kernel}, {variant.split(', ')[1]}"
        registers[label] = max(registers.get(label, 0), row["registers"][SHOWN])
        occupancy[label] = min(occupancy.get(label, 100.0), 100 * row["occupancy"][SHOWN])
    return [
        figures.rows(
            f"Registers of a thread, {SHOWN}", {"registers": _points(registers)},
            "registers (more than 255 are kept in memory)", start=0, line=255, line_text="the most that there are",
        ),
        figures.rows(f"Occupancy, {SHOWN}", {"occupancy": _points(occupancy)}, "% of the warps that fit", start=0),
    ]  # fmt: skip


STEP = "a step in 1 part, bfloat16, kernel by kernel"
TOKEN = "a decoded token, float32"


def _host_cost_sentence(rows: dict) -> str:
    step, recorded = rows[f"now: {STEP}"], rows[f"now: {TOKEN}, recorded"]
    return (
        f"A training step of 12 layers launches {step['launches']} kernels and {step['products']} products; recorded, "
        f"it is one graph. A recorded token takes {recorded['calls'] + recorded['graphs']} calls."
    )


def _host_cost_plots(rows: dict) -> list[Plot]:
    """Launches and products of a step and of a token, before and now."""
    columns: dict = {"launches": {}, "products": {}, "other calls": {}}
    for name, row in rows.items():
        if name.endswith((STEP, TOKEN)):
            for column, points in columns.items():
                points[name] = Point(row[column.removeprefix("other ")])
    return [figures.rows("What Python calls", columns, "calls (lower is better)", start=0)]


def _bfloat16_sentence(rows: dict) -> str:
    """How many models train in it, which are refused, and how far the losses are from those in float32."""
    of_low = {name.partition(",")[0]: row for name, row in rows.items() if name.endswith("bfloat16")}
    refused = [name for name, row in of_low.items() if not row["trains"]]
    trained = [row for row in rows.values() if row["trains"]]
    off = max(row["off"] for row in of_low.values() if row["trains"])
    return (
        f"{len(of_low) - len(refused)} of {len(of_low)} models train in bfloat16 by CuPy's rules, "
        f"{' and '.join(refused)} are refused. Losses are at most {100 * off:.2f}% off those in float32, and "
        f"{sum(row['same bits'] for row in trained)} of {len(trained)} runs have the same bits again."
    )


def _bfloat16_plots(rows: dict) -> list[Plot]:
    points = {name: Point(100 * row["off"]) for name, row in rows.items() if "off" in row and name.endswith("bfloat16")}
    axis = "% of the loss in float32 (lower is better)"
    return [figures.rows("How far the second loss is off", {"bfloat16": points}, axis, start=0)]


def _points(numbers: dict[str, float]) -> dict[str, Point]:
    return {name: Point(number) for name, number in numbers.items()}


RESULTS = {
    "bfloat16": Result("Every model in bfloat16", _bfloat16_sentence, _bfloat16_plots),
    "gpu": Result("The GPU code on a GPU", _gpu_sentence, _gpu_plots),
    "host_cost": Result("What a step costs the processor beside a GPU", _host_cost_sentence, _host_cost_plots),
    "kernels": Result("Registers and occupancy of the kernels", _kernels_sentence, _kernels_plots),
}
