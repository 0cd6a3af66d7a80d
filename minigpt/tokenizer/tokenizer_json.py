"""`tokenizer.json`, in which the library `tokenizers` keeps a whole tokenizer, as the steps of a PieceTokenizer.

Each part of the file names a type and its settings. A table gives the function that makes the step; its arguments are
the settings. So the file is read by looking up and calling, and what is not built is refused by its name. How texts are
cut or filled up to one length (`truncation`, `padding`) is left out, as transformers leaves it out for one text.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from minigpt.errors import InputError, shown
from minigpt.tokenizer import files, steps_after, steps_before
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.pipeline import Added, PieceTokenizer
from minigpt.tokenizer.steps_after import with_spaces
from minigpt.tokenizer.unigram import Unigram
from minigpt.tokenizer.wordpiece import WordPiece

MODELS: dict[str, Any] = {  # {type: makes a model of its settings}
    "WordPiece": WordPiece.of_json,
    "Unigram": Unigram.of_json,
    "BPE": BPEModel.of_json,
}


TYPES = {  # of settings: how a message calls them
    bool: "true or false", str: "a text", int: "a whole number", float: "a number", list: "a list", dict: "an object",
    type(None): "null",
}  # fmt: skip


class Kind(NamedTuple):
    """The steps of one part. joined: makes one step of those in a `Sequence`."""

    steps: Mapping[str, Any]
    joined: Callable[[list], Any]


STEPS = {
    "normalizer": Kind(steps_before.NORMALIZERS, steps_before.one_after_the_other),
    "pre_tokenizer": Kind(steps_before.SPLITTERS, steps_before.each_in_turn),
    "post_processor": Kind(steps_after.TEMPLATES, steps_after.the_only_one),
    "decoder": Kind(steps_after.DECODERS, steps_after.all_steps),
}

# ----------------------------------------------------------------------------------------------------------- reading


def open_tokenizer(
    saved: Mapping[str, Any],
    path: Path,
    *,
    more: Iterable[tuple[int, Added]] = (),
    added: Iterable[Added] = (),
    own: Sequence[str] = (),
) -> PieceTokenizer:
    """The tokenizer that the content of a file describes; path: for messages.

    more: (id, token) for added tokens of other files; added: tokens that are cut out of texts as well, where the
    vocabulary has them; the others as in PieceTokenizer. Raises InputError for what is damaged or not built.
    """
    model = model_of(saved, path)
    steps = {part: step(part, saved.get(part), path) for part in STEPS}
    listed = {one.token: one for one in _all_added(saved, more, model, path) if one.token not in own}
    for one in added:
        if one.token in model.ids:
            listed.setdefault(one.token, one)
    decoder = steps["decoder"] or with_spaces()
    normalizer = steps["normalizer"]
    written = {}  # tokens that are decoded to another text: those that are looked for in the normalised text
    if normalizer is not None:
        written = {token: normalizer(token) for token, one in listed.items() if one.normalized}
    try:
        made = PieceTokenizer(
            model,
            normalizer=normalizer,
            splitter=steps["pre_tokenizer"],
            template=steps["post_processor"],
            decoder=lambda ids: "".join(decoder([written.get(made.tokens[i], made.tokens[i]) for i in ids])),
            added=listed.values(),
            own=own,
            padding_side=_padding_side(saved.get("padding")),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return made


def model_of(saved: Mapping[str, Any], path: Path) -> Any:
    """The model of pieces. Raises InputError for one that is not built."""
    kind = files.model_type(saved)
    if kind not in MODELS:
        built = f"{', '.join(MODELS)}, and WordLevel for characters"
        raise InputError(f"{path}: its model's type is {kind}, which is not built: built are {built}")
    return called(MODELS[kind], saved["model"], f"{path}: the {kind} in its model")


def step(part: str, settings: Any, path: Path) -> Any:
    """What a part of the file does; None where it is null. Raises InputError for what is not built."""
    if settings is None:
        return None
    kind = STEPS[part]
    name = settings.get("type") if isinstance(settings, dict) else None
    if name == "Sequence":
        items = settings.get(files.LISTS[part])
        if not isinstance(items, list):
            raise InputError(f"{path}: the Sequence in its {part} has no list {files.LISTS[part]!r}")
        steps = [step(part, item, path) for item in items]
        return kind.joined([step for step in steps if step is not None])
    if not isinstance(name, str) or name not in kind.steps:
        given = shown(settings) if name is None else repr(name)
        built = ", ".join(kind.steps)
        raise InputError(f"{path}: its {part} is of the type {given}, which is not built: built are {built}")
    return called(kind.steps[name], settings, f"{path}: the {name} in its {part}")


def called(make: Callable, settings: Mapping[str, Any], where: str) -> Any:
    """What a function gives for the settings of a type, which are its arguments, each of the type that it notes.

    Raises InputError for a setting that it does not take, for one that is missing, and for one of another type.
    """
    given = {setting: value for setting, value in settings.items() if setting != "type"}
    known = inspect.signature(make, eval_str=True).parameters
    for setting, value in given.items():
        if setting not in known:
            raise InputError(f"{where} has the setting {setting!r}, which is not known here: {shown(value)}")
    for setting, parameter in known.items():
        if setting not in given:
            if parameter.default is parameter.empty:
                raise InputError(f"{where} lacks the setting {setting!r}")
            continue
        types = get_args(parameter.annotation) or (parameter.annotation,)
        if type(given[setting]) not in types:
            expected = " or ".join(TYPES[one] for one in types)
            what = f"{setting} {shown(given[setting])}, which is of another type"
            raise InputError(f"{where} has {what}: expected {expected}")
    try:
        return make(**given)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _all_added(saved: Mapping[str, Any], more: Iterable[tuple[int, Added]], model: Any, path: Path) -> list[Added]:
    """The added tokens of this file and of others, in the order of their ids.

    Raises InputError where two files do not agree, and for ids that do not fit the vocabulary.
    """
    found = files.added_in(saved, path)
    ids = {one.token: i for i, one in found.items()}
    for i, one in more:
        if ids.setdefault(one.token, i) != i:
            what = f"the added token {one.token!r}: {ids[one.token]} and {i}"
            raise InputError(f"{path.parent}: its files do not agree on {what}")
        first = found.setdefault(i, one)
        if first.token != one.token:
            raise InputError(f"{path.parent}: its added tokens {first.token!r} and {one.token!r} have the same id {i}")
    next_id = len(model.tokens)
    in_order = [found[i] for i in sorted(found)]
    for i, one in zip(sorted(found), in_order, strict=True):
        expected = model.ids.get(one.token, next_id)
        if i != expected:
            raise InputError(
                f"{path}: the added token {one.token!r} has the id {i}: by the vocabulary it is {expected}"
            )
        next_id += one.token not in model.ids
    return in_order


def _padding_side(padding: Any) -> str:
    direction = padding.get("direction") if isinstance(padding, dict) else None
    return "left" if direction == "Left" else "right"


# ----------------------------------------------------------------------------------------------------------- writing


def described(text: PieceTokenizer, steps: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer as a `tokenizer.json` describes it; steps: the four of `STEPS`, as the file writes them."""
    listed = [*text.added, *map(Added, text.own)]
    added = [files.added_object(text.ids[one.token], one) for one in listed]
    content = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return content | {part: steps.get(part) for part in STEPS} | {"model": text.model.to_json()}
