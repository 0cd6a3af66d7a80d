"""The Korean edition: the same executed notebooks, with the Korean prose of `lessons/ko`."""

import copy
import sys

from course import LESSONS

KOREAN = LESSONS / "ko"
sys.path.append(str(KOREAN))

from edition import in_korean  # noqa: E402


def translated(notebooks: dict) -> dict:
    """{"03_attention": the notebook with Korean prose} of all lessons that have a file of it."""
    found = {}
    for name, notebook in notebooks.items():
        path = KOREAN / f"{name}.md"
        if path.exists():
            found[name] = in_korean(copy.deepcopy(notebook), path)
    return found
