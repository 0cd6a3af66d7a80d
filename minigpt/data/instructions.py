"""Instructions with their answers, from a file: records as Alpaca has them, or whole conversations.

    {"instruction": "Translate to French.", "input": "good morning", "output": "bonjour"}
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi, what can I do?"}]}

An object a line, or one array of them. Either way an instruction becomes a conversation; an input, which may be missing
or empty, stands below its instruction. KLUE's WoS is read too: the states of its conversations are the answers.
"""

from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data.published.layout import Written
from minigpt.data.published.states import read_states
from minigpt.errors import InputError, shown
from minigpt.files.disk import read_json, read_text
from minigpt.files.json_items import json_items

ROLES = ("system", "user", "assistant")
ANSWERS = "assistant"  # the role whose words are learned
SUFFIXES = (".jsonl", ".json")


class Instruction(NamedTuple):
    """A conversation that ends with an answer. place: where it stands in its file, "line 3"."""

    messages: list[dict[str, str]]
    place: str


def read(path: str | Path) -> list[Instruction]:
    """The instructions in a file. Raises InputError, which names the first line that is wrong."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: expected a file of instructions, .jsonl or .json")
    if read_text(path).lstrip().startswith("["):
        records = [(f"entry {number}", record) for number, record in enumerate(read_json(path, list), 1)]
    else:
        records = [(f"line {line}", record) for line, record in json_items(path)]
    if records and isinstance(records[0][1], dict) and "dialogue" in records[0][1]:
        records = [(f"turn {number} of the users", _of_state(one)) for number, one in enumerate(read_states(path), 1)]
    found = []
    for place, record in records:
        try:
            found.append(Instruction(_messages(record), place))
        except ValueError as error:
            raise InputError(f"{path}, {place}: {error}") from None
    if not found:
        raise InputError(f"{path} holds no instructions: give one or more")
    return found


def _of_state(one: Written) -> dict[str, str]:
    """A conversation of WoS as an instruction, whose answer is its state."""
    return {"instruction": one.given, "output": one.answers[0]}


def _messages(record: Any) -> list[dict[str, str]]:
    """The conversation of a record. Raises ValueError where it is none."""
    if not isinstance(record, dict):
        raise ValueError(f"expected an object, got {shown(record)}")
    if "messages" in record:
        return _conversation(record["messages"])
    if "instruction" not in record or "output" not in record:
        names = ", ".join(record) or "nothing"
        raise ValueError(f"expected instruction and output, or messages, got {names}")
    asked = _text(record, "instruction")
    answer = _text(record, "output")
    if record.get("input"):
        asked = f"{asked}\n\n{_text(record, 'input')}"
    return [{"role": "user", "content": asked}, {"role": ANSWERS, "content": answer}]


def _conversation(given: Any) -> list[dict[str, str]]:
    """Messages that end with an answer. Raises ValueError for others."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"messages is {shown(given)}: expected a list of messages")
    messages = []
    for number, message in enumerate(given, 1):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise ValueError(f"message {number} is {shown(message)}: expected a role, {', '.join(ROLES)}, and content")
        messages.append({"role": message["role"], "content": _text(message, "content")})
    if messages[-1]["role"] != ANSWERS:
        raise ValueError(f"its last message is of the {messages[-1]['role']}: the answer is missing")
    return messages


def _text(record: dict[str, Any], name: str) -> str:
    """A text of a record, without spaces around it. Raises ValueError where there is none."""
    value = record.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}: expected a text")
    if not value.strip():
        raise ValueError(f"{name} is empty")
    return value.strip()
