"""What a person wants in a conversation, turn by turn: KLUE's WoS, as texts that a model writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.data.published.layout import Written, list_of, text_of, wrong
from minigpt.files.json_items import json_items

FORM = '{"guid", "domains", "dialogue": [{"role": "user" or "sys", "text", "state": [domain-slot-value, ...]}]}'
BETWEEN = "; "  # stands between the parts of a state; no value of WoS has a semicolon
NOTHING = "none"  # a state of no parts


def read_states(path: Path, labelled: bool = True) -> Iterator[Written]:
    """KLUE's WoS (Park et al. 2021, section 3.8): for each turn of the user, all that was said so far, and the state.

    A state is a list of texts "domain-slot-value", written in one line. Raises InputError with the line of a bad one.
    """
    for line, record in json_items(path):
        said = []
        for turn in list_of(path, line, record, "dialogue"):
            text = text_of(path, line, turn, "text")
            role = turn.get("role")
            if role not in ("user", "sys"):
                raise wrong(path, line, 'a role, "user" or "sys"', role)
            said.append(f"{role}: {text}")
            if role == "user":
                state = _state(path, line, turn) if labelled else []
                yield Written("\n".join(said), (BETWEEN.join(state) or NOTHING,), metric="state")


def _state(path: Path, line: int, turn: dict[str, Any]) -> list[str]:
    state = turn.get("state")
    if not isinstance(state, list):
        raise wrong(path, line, "a list 'state' for each turn of the user", state)
    for part in state:
        if not isinstance(part, str) or part.count("-") < 2 or not all(part.split("-", 2)):
            raise wrong(path, line, "a state of texts domain-slot-value", part)
    return state


def parts_of(state: str) -> set[str]:
    """The parts of a state that is written in one line."""
    parts = {part.strip() for part in state.split(BETWEEN.strip())}
    return parts - {"", NOTHING}
