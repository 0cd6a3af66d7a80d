"""What was measured, as a table in Markdown: how each part ended, and every row but the shares of a step."""

from gpu_parts.bench import in_words
from gpu_parts.record import Record


def table(record: Record) -> str:
    """Of this device. The shares of a step are in gpu.json alone: they would be most of the table."""
    lines = [f"# Measured: {record.device}", "", "| part | how it ended | seconds |", "| --- | --- | ---: |"]
    for name, part in record.parts().items():
        lines.append(f"| {name} | {part['outcome']} | {part['seconds']:.0f} |")
    lines += ["", "| what | measured |", "| --- | --- |"]
    for name, row in record.rows().items():
        if "share" in row:
            continue
        numbers = [f"{key} {in_words(key, value)}" for key, value in row.items() if key != "measured"]
        lines.append(f"| {name} | {', '.join(numbers)} |")
    return "\n".join(lines)
