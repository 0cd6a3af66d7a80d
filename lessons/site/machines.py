"""Little machines on the pages of lessons: sliders and a drawing, below the picture that stands for them on paper.

Their places and words are in `machines.toml`, their code in `static/machines/`, which needs no library and no network.
"""

import html
import json
import tomllib
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
SCRIPT = '<script defer src="../_static/machines/{name}.js"></script>'
PLACE = '<div class="machine" hidden data-machine="{name}" data-words="{words}">{scripts}</div>'


def all_machines() -> dict[str, dict]:
    """{name: its lesson, the picture above it, and its words in each language}"""
    with (HERE / "machines.toml").open("rb") as file:
        return tomllib.load(file)


def add_to(notebook, lesson: str, language: str) -> None:
    """Put the machines of a lesson, such as "09_adam", into the source of its page, below their pictures.

    Raises ValueError where the lesson does not save such a picture.
    """
    for name, machine in all_machines().items():
        if machine["lesson"] == lesson:
            saved = [i for i, cell in enumerate(notebook.cells) if f'"{machine["below"]}"' in cell.source]
            if not saved:
                raise ValueError(f"machines.toml: no cell of {lesson} saves {machine['below']}")
            cell = nbformat.v4.new_markdown_cell(block(name, machine[language]))
            cell.id = f"machine-{name}"
            notebook.cells.insert(saved[0] + 1, cell)


def block(name: str, words: dict[str, str]) -> str:
    """A machine as HTML, with the scripts that make it; without them it stays hidden."""
    said = html.escape(json.dumps(words, ensure_ascii=False))
    scripts = "".join(SCRIPT.format(name=part) for part in ("machine", name))
    return PLACE.format(name=name, words=said, scripts=scripts)
