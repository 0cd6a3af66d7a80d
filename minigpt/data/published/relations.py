"""Sentences with two marked entities, and how these are related: KLUE's RE."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.data.examples import Example
from minigpt.data.published.layout import text_of, wrong
from minigpt.files.json_items import json_items

RELATIONS = (  # in KLUE's sequence: the first one says that there is none
    "no_relation", "org:dissolved", "org:founded", "org:place_of_headquarters", "org:alternate_names", "org:member_of",
    "org:members", "org:political/religious_affiliation", "org:product", "org:founded_by", "org:top_members/employees",
    "org:number_of_employees/members", "per:date_of_birth", "per:date_of_death", "per:place_of_birth",
    "per:place_of_death", "per:place_of_residence", "per:origin", "per:employee_of", "per:schools_attended",
    "per:alternate_names", "per:parents", "per:children", "per:siblings", "per:spouse", "per:other_family",
    "per:colleagues", "per:product", "per:religion", "per:title",
)  # fmt: skip
MARKS = {"subject_entity": "subj", "object_entity": "obj"}
FORM = 'an object with sentence, subject_entity, object_entity {"start_idx", "end_idx"} and label'


def read_relations(path: Path, labelled: bool = True) -> Iterator[Example]:
    """KLUE's relations (Park et al. 2021, section 3.5): a sentence, whose entities stand between marks.

    The marks are KLUE's, <subj> ... </subj> and <obj> ... </obj>; the label is an index of RELATIONS. An entity has the
    indices of its first and its last character. Raises InputError with the line of a bad one.
    """
    for line, record in json_items(path):
        text_of(path, line, record, "sentence")
        label = None
        if labelled:
            label = _relation(path, line, record)
        yield Example((_marked(path, line, record),), label)


def _relation(path: Path, line: int, record: dict[str, Any]) -> int:
    name = record.get("label")
    if name not in RELATIONS:
        raise wrong(path, line, f"one label, such as {', '.join(RELATIONS[:2])}", name)
    return RELATIONS.index(name)


def _marked(path: Path, line: int, record: dict[str, Any]) -> str:
    """The sentence with a mark before and behind each entity."""
    sentence = record["sentence"]
    marks = []
    for key, mark in MARKS.items():
        first, last = _place(path, line, record, key)
        marks += [(first, f"<{mark}>"), (last + 1, f"</{mark}>")]
    for place, mark in sorted(marks, reverse=True):  # from the end, so that the places before stay what they are
        sentence = sentence[:place] + mark + sentence[place:]
    return sentence.strip()


def _place(path: Path, line: int, record: dict[str, Any], key: str) -> tuple[int, int]:
    """The indices of the first and the last character of an entity."""
    entity = record.get(key)
    place: list[Any] = [entity.get(name) for name in ("start_idx", "end_idx")] if isinstance(entity, dict) else []
    whole = len(place) == 2 and all(type(index) is int for index in place)
    if not whole or not 0 <= place[0] <= place[1] < len(record["sentence"]):
        raise wrong(path, line, f"{key} with start_idx and end_idx, which lie in the sentence", entity)
    return place[0], place[1]
