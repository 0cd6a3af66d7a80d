"""The Korean edition: the same executed notebooks, with the Korean prose of `lessons/ko`."""

import copy
import importlib
import sys

from links import ROOT

KOREAN = ROOT / "lessons" / "ko"


def translated(notebooks: dict) -> dict:
    """{"03_attention": the notebook with Korean prose} of all lessons that have a file of it; {} where none has."""
    if not (KOREAN / "edition.py").exists():
        return {}
    if str(KOREAN) not in sys.path:
        sys.path.append(str(KOREAN))
    in_korean = importlib.import_module("edition").in_korean
    found = {}
    for name, notebook in notebooks.items():
        path = KOREAN / f"{name}.md"
        if path.exists():
            found[name] = in_korean(copy.deepcopy(notebook), path)
    return found
