"""The results on runs: default settings, loss curves, attacks."""

import figures
from figures import Plot, Point
from results_form import Result, by_seed


def _defaults_sentence(rows: dict) -> str:
    now = [row["ratio"] for name, row in rows.items() if name.endswith(", now")]
    before = [row["ratio"] for name, row in rows.items() if name.endswith(", before")]
    stuck = sum(ratio > 0.99 for ratio in before)
    return (
        f"{len(now)} runs with the defaults as they are: the highest loss is {max(now):.2f} of the entropy of token "
        f"frequencies. Of {len(before)} with older defaults {stuck} learnt no more than frequencies."
    )


def _defaults_plots(rows: dict) -> list[Plot]:
    series: dict = {"older defaults": {}, "defaults now": {}}
    for name, values in by_seed(rows, "ratio").items():
        run, _, when = name.rpartition(", ")
        title = {"now": "defaults now", "before": "older defaults"}.get(when)
        if title:
            series[title][run] = Point(sorted(values)[len(values) // 2], min(values), max(values))
    axis = "validation loss / entropy of token frequencies (1: only frequencies were learnt)"
    return [figures.rows("Runs with the default settings", series, axis, line=1, line_text="frequencies alone")]


def _bands_sentence(rows: dict) -> str:
    tiny = [row for name, row in rows.items() if name.startswith("tiny")]
    shares = [100 * row["flagged"] / row["trials"] for row in tiny]
    return f"A sound run of a tiny model is called abnormal in {min(shares):.1f} to {max(shares):.1f} % of trials."


def _bands_plots(rows: dict) -> list[Plot]:
    columns = {"called abnormal by its rows": "flagged", "final loss outside its band": "final outside"}
    series = {}
    for title, column in columns.items():
        series[title] = {
            _with_trials(name, row): Point(100 * row[column] / row["trials"]) for name, row in rows.items()
        }
    furthest = {name: Point(row["furthest"]) for name, row in rows.items()}
    return [
        figures.rows(
            "False alarms",
            series, "% of sound runs", start=0,
        ),
        figures.rows(
            "The furthest row of a sound run",
            {"furthest": furthest}, "spreads from the mean", start=0,
        ),
    ]  # fmt: skip


def _with_trials(name: str, row: dict) -> str:
    return f"{name} ({row['trials']} trials)"


def _kills_sentence(rows: dict) -> str:
    equal = sum(row["equal"] for row in rows.values())
    tried = sum(_tried(row) for row in rows.values())
    return f"{equal} of {tried} attacked commands ended with the bytes of an undisturbed run."


def _tried(row: dict) -> int:
    return sum(row.get(kind, 0) for kind in ("kill", "torn", "twice", "random", "full", "signal", "writers"))


def _kills_plots(rows: dict) -> list[Plot]:
    equal = {name: Point(row["equal"]) for name, row in rows.items()}
    tried = {name: Point(_tried(row)) for name, row in rows.items()}
    series = {"attacked": tried, "ended with equal bytes": equal}
    return [figures.rows("Commands ended in the middle and given again", series, "commands", start=0)]


RESULTS = {
    "defaults": Result("Default settings", _defaults_sentence, _defaults_plots),
    "bands": Result("Is a loss curve normal?", _bands_sentence, _bands_plots),
    "kills": Result("Commands that are ended in the middle", _kills_sentence, _kills_plots),
}
