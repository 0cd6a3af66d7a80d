"""An executed lesson becomes the source of its page: facts under its title, coloured code, words for each picture.

What is deeper is folded on the page, and collapsed in the notebook that readers take home. So are the answer to a guess
and the output above it, and code that only draws.
"""

import copy
import re
from pathlib import Path

PICTURE = re.compile(r"^picture: .*\n", re.MULTILINE)  # where plot.save has put a file: on a page the picture follows
PATH = re.compile(r"\w+Path\('figures/\w+\.png'\)$")  # what plot.save returns, at the end of a cell
QUOTED = re.compile(r"^    # (?:minigpt|benchmarks|tests)/[\w/]+\.(py|cu|cuh)\n(?:    .*\n|\n(?=    ))*", re.MULTILINE)
LANGUAGES = {"py": "python", "cu": "cpp", "cuh": "cpp"}
DRAWS = re.compile(r'^def \w+\([^)]*\)(?: -> [^:]+)?:\n    """(.+?)"""', re.MULTILINE | re.DOTALL)


def page(notebook, facts: str, words: dict):
    """A copy of an executed notebook, as the source of a page.

    facts: Markdown for the place below the title. words: those of the site in the language of the page.
    """
    made = copy.deepcopy(notebook)
    is_first = True
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = QUOTED.sub(fenced, cell.source + "\n").rstrip("\n")
            if is_first:
                title, _, rest = cell.source.partition("\n")
                cell.source = f"{title}\n\n{facts}\n\n{rest.strip()}"
            is_first = False
            if minutes := deeper_minutes(cell):
                said = words["deeper"].format(minutes=minutes)
                cell.source = below_heading(cell.source, f":::{{container}} deeper\n{said}\n:::")  # see folds.py
            cell.source = folded_answer(cell, words)
        else:
            cell.outputs = [shown for output in cell.outputs for shown in on_page(output)]
            settings = {}
            if any("image/png" in output.get("data", {}) for output in cell.outputs):
                settings["image"] = {"alt": words_of_picture(cell.source)}
            if "outputs_hidden" in cell.metadata.get("jupyter", {}):  # an answer follows
                cell.metadata["tags"] = ["hide-output"]
                settings |= {"code_prompt_show": words["output"], "code_prompt_hide": words["output"]}
            if settings:
                cell.metadata["mystnb"] = settings
    return made


def to_take_home(notebook, words: dict):
    """A copy of a notebook in which a sentence below the heading of each deeper part says what the arrow does."""
    made = copy.deepcopy(notebook)
    for cell in made.cells:
        if minutes := deeper_minutes(cell):
            cell.source = below_heading(cell.source, words["deeper_sentence"].format(minutes=minutes))
        cell.source = folded_answer(cell, words)
    return made


def folded_answer(cell, words: dict) -> str:
    """The text of a cell; of an answer, behind a fold. Pages and notebooks both know this piece of HTML."""
    if "answer" not in cell.metadata.get("tags", []):
        return cell.source
    opened = f'<details class="answer"><summary>{words["answer"]}</summary>'
    return f"{opened}\n\n{cell.source}\n\n</details>"


def deeper_minutes(cell) -> int:
    """The minutes to read the deeper part that begins with this cell; 0 where none does."""
    return cell.metadata.get("minigpt", {}).get("minutes", 0)


def below_heading(text: str, words: str) -> str:
    """A text that begins with a heading, with these words below it."""
    heading, _, rest = text.partition("\n")
    return f"{heading}\n\n{words}\n\n{rest.strip()}".rstrip()


def fenced(found: re.Match) -> str:
    """An indented quote of a file of the library as a block whose language is named."""
    lines = [line.removeprefix("    ") for line in found.group(0).rstrip().splitlines()]
    return "\n".join([f"```{LANGUAGES[found.group(1)]}", *lines, "```", ""])


def on_page(output) -> list:
    """An output as a page shows it: without what names files of pictures. [] where nothing is left."""
    if output.output_type != "stream":
        return [] if PATH.match(output.get("data", {}).get("text/plain", "")) else [output]
    output = copy.copy(output)
    output.text = PICTURE.sub("", output.text)
    return [output] if output.text.strip() else []


def words_of_picture(code: str) -> str:
    """What a picture shows, for those who do not see it: what its function says it draws, or its title, or its name."""
    drawn = DRAWS.findall(code)
    titles = re.findall(r'title(?:=|\()f?"([^"]+)"', code)
    names = re.findall(r'"\d\d_(\w+)\.png"', code)
    words = " ".join(drawn) or ". ".join(titles) or " ".join(names).replace("_", " ")
    return "Picture: " + " ".join(words.split()).strip()


def exercises(number: str, folder: Path) -> list[str]:
    """The names of the files of exercises of a lesson."""
    return [path.name for path in sorted(folder.glob(f"{number}_*.py"))]


def printed(notebook) -> str:
    """What an executed notebook has printed, all cells one after the other."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
