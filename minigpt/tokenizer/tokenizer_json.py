"""`tokenizer.json`, in which the library `tokenizers` keeps a whole tokenizer, as the steps of a PieceTokenizer.

Each part of the file names a type and its settings. A table gives the function that makes the step; its arguments are
the settings. So the file is read by looking up and calling, and what is not built is refused by its name. How texts are
cut or filled up to one length (`truncation`, `padding`) is left out, as transformers leaves it out for one text.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, is_whole, shown
from minigpt.files.disk import read_json, write_json
from minigpt.tokenizer import steps_after, steps_before
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.pipeline import Added, PieceTokenizer
from minigpt.tokenizer.steps_after import with_spaces
from minigpt.tokenizer.unigram import Unigram
from minigpt.tokenizer.wordpiece import WordPiece

FILE = "tokenizer.json"
MODELS = {  # {type: makes a model of (settings, path)}
    "WordPiece": WordPiece.of_json,
    "Unigram": Unigram.of_json,
    "BPE": BPEModel.of_json,
}


class Kind(NamedTuple):
    """The steps of one part. items: the name of the list in its `Sequence`; joined: makes one step of that list."""

    steps: Mapping[str, Callable]
    items: str
    joined: Callable[[list], Any]


STEPS = {
    "normalizer": Kind(steps_before.NORMALIZERS, "normalizers", steps_before.one_after_the_other),
    "pre_tokenizer": Kind(steps_before.SPLITTERS, "pretokenizers", steps_before.each_in_turn),
    "post_processor": Kind(steps_after.TEMPLATES, "processors", steps_after.the_only_one),
    "decoder": Kind(steps_after.DECODERS, "decoders", steps_after.all_steps),
}
PARTS = ("version", "truncation", "padding", "added_tokens", *STEPS, "model")

# ----------------------------------------------------------------------------------------------------------- reading


def read(path: Path) -> dict[str, Any]:
    """The content of a file. Raises InputError for what is no such file, and for a part that is not known."""
    saved = read_json(path)
    for part in saved:
        if part not in PARTS:
            raise InputError(f"{path}: its part {part!r} is not known here: known are {', '.join(PARTS)}")
    if saved.get("version", "1.0") != "1.0":
        raise InputError(f'{path}: its version is {shown(saved["version"])}: expected "1.0"')
    return saved


def model_type(path: Path) -> Any:
    """The type of the model in a file; None where it has none."""
    model = read_json(path).get("model")
    return model.get("type", "BPE") if isinstance(model, dict) else None  # the first versions did not write it


def open_tokenizer(
    saved: Mapping[str, Any],
    path: Path,
    *,
    added: Iterable[Added] = (),
    roles: Mapping[str, str] | None = None,
    own: Iterable[str] = (),
    write: Callable[[PieceTokenizer, Path], None] | None = None,
) -> PieceTokenizer:
    """The tokenizer that the content of a file describes; path: for messages.

    added: more tokens that are cut out of texts, if the vocabulary has them; the others as in PieceTokenizer. Raises
    InputError for what is damaged, and for every part that is not built.
    """
    model = _model(saved.get("model"), path)
    steps = {part: step(part, saved.get(part), path) for part in STEPS}
    listed = [one for one in read_added(saved.get("added_tokens"), model, path) if one.token not in set(own)]
    known = {*model.ids, *(one.token for one in listed)}
    names = {one.token for one in listed}
    listed += [one for one in added if one.token in known and one.token not in names]
    decoder = steps["decoder"] or with_spaces()
    normalizer = steps["normalizer"]
    written = {}  # tokens that are decoded to another text: those that are looked for in the normalised text
    if normalizer is not None:
        written = {one.token: normalizer(one.token) for one in listed if one.normalized}
    try:
        made = PieceTokenizer(
            model,
            normalizer=normalizer,
            splitter=steps["pre_tokenizer"],
            template=steps["post_processor"],
            decoder=lambda ids: "".join(decoder([written.get(made.tokens[i], made.tokens[i]) for i in ids])),
            added=listed,
            roles={role: token for role, token in (roles or {}).items() if token in known},
            own=own,
            padding_side=_padding_side(saved.get("padding")),
            write=write,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return made


def _model(settings: Any, path: Path) -> Any:
    """The model of pieces. Raises InputError for one that is not built."""
    if not isinstance(settings, dict):
        raise InputError(f"{path}: its model is {shown(settings)}: expected an object")
    kind = settings.get("type", "BPE")  # the first versions of the library did not write it
    if kind not in MODELS:
        raise InputError(
            f"{path}: its model is of the type {kind!r}, which is not built: built are {', '.join(MODELS)}"
        )
    return MODELS[kind](settings, path)


def step(part: str, settings: Any, path: Path) -> Any:
    """What a part of the file does; None where it is null. Raises InputError for what is not built."""
    if settings is None:
        return None
    kind = STEPS[part]
    name = settings.get("type") if isinstance(settings, dict) else None
    if name == "Sequence":
        items = settings.get(kind.items)
        if not isinstance(items, list):
            raise InputError(f"{path}: the Sequence in its {part} has no list {kind.items!r}")
        steps = [step(part, item, path) for item in items]
        return kind.joined([step for step in steps if step is not None])
    if not isinstance(name, str) or name not in kind.steps:
        given = shown(settings) if name is None else repr(name)
        built = ", ".join(kind.steps)
        raise InputError(f"{path}: its {part} is of the type {given}, which is not built: built are {built}")
    given = {setting: value for setting, value in settings.items() if setting != "type"}
    return called(kind.steps[name], given, f"{path}: the {name} in its {part}")


def called(make: Callable, given: Mapping[str, Any], where: str) -> Any:
    """What a function gives for settings of a file, which are its arguments, each of the type that it notes.

    Raises InputError for a setting that it does not take, for one that is missing, and for one of another type.
    """
    known = inspect.signature(make).parameters
    for setting in given:
        if setting not in known:
            raise InputError(f"{where} has the setting {setting!r}, which is not known here")
    for setting, parameter in known.items():
        if setting not in given and parameter.default is parameter.empty:
            raise InputError(f"{where} lacks the setting {setting!r}")
        if setting in given and not isinstance(given[setting], parameter.annotation):
            raise InputError(f"{where} has {setting} {shown(given[setting])}, which is of another type than expected")
    try:
        return make(**given)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def read_added(tokens: Any, model: Any, path: Path) -> list[Added]:
    """The added tokens in the order of their ids. Raises InputError for what is none, and for ids that do not fit."""
    found = {}
    for token in added_objects(tokens, path):
        flags = {flag: token.get(flag, flag == "normalized" and not token["special"]) for flag in Added._fields[1:]}
        for flag, value in flags.items():
            if type(value) is not bool:
                raise InputError(f"{path}: the added token {token['content']!r} has {flag} {shown(value)}: give a bool")
        found[token["id"]] = Added(token["content"], **flags)
    next_id = len(model.tokens)
    for i, one in sorted(found.items()):
        expected = model.ids.get(one.token, next_id)
        if i != expected:
            raise InputError(
                f"{path}: the added token {one.token!r} has the id {i}: by the vocabulary it is {expected}"
            )
        next_id += one.token not in model.ids
    return [one for _, one in sorted(found.items())]


def added_objects(tokens: Any, path: Path) -> list[dict]:
    """The objects of `added_tokens`. Raises InputError for what is none."""
    if tokens is None:
        return []
    expected = "expected a list of objects with content, id and special"
    if not isinstance(tokens, list):
        raise InputError(f"{path}: its added_tokens are {shown(tokens)}: {expected}")
    for token in tokens:
        sound = isinstance(token, dict) and {"content", "id", "special"} <= set(token)
        if not sound or not isinstance(token["content"], str) or not is_whole(token["id"]):
            raise InputError(f"{path}: its added_tokens have {shown(token)}: {expected}")
    return tokens


def _padding_side(padding: Any) -> str:
    direction = padding.get("direction") if isinstance(padding, dict) else None
    return "left" if direction == "Left" else "right"


# ----------------------------------------------------------------------------------------------------------- writing


def described(text: PieceTokenizer, steps: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer as a `tokenizer.json` describes it; steps: the four of `STEPS`, as the file writes them."""
    added = []
    for one in text.added:
        added.append({"id": text.ids[one.token], "content": one.token} | one._asdict())
        del added[-1]["token"]
    for name in text.own:
        flags = Added(name)._asdict()
        del flags["token"]
        added.append({"id": text.ids[name], "content": name} | flags)
    content = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return content | {part: steps.get(part) for part in STEPS} | {"model": text.model.to_json()}


def write(path: Path, text: PieceTokenizer, steps: Mapping[str, Any]) -> None:
    """Write a file from which the library `tokenizers` makes the same tokenizer. See `described`."""
    write_json(path, described(text, steps), indent=None)
