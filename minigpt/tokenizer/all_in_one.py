"""Reading `tokenizer.json`, in which the `tokenizers` library keeps a whole tokenizer: each part is read, or refused.

The file describes steps: normalise the text, split it into words, encode each, add tokens around the ids. A step that
is passed over gives other ids in silence. So a part that can change ids, and that is not done here, is an error which
names the part and its value. Parts that change no ids are let pass: `trim_offsets`, `version`, how ids are decoded
where the file does not say.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_json
from minigpt.tokenizer.bpe import END_OF_WORD

FILE = "tokenizer.json"
_PARTS = (
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
)
_ITEMS = {  # the name of the list in a `Sequence` of each part
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}


class Layout(NamedTuple):
    """What a file must say for one kind of tokenizer. A part is given without the settings that change no ids."""

    kind: str  # the name of the tokenizer
    model: str  # the type of the model
    suffix: str  # what is added to the last symbol of a word
    unknown: str | None  # the token for what the vocabulary cannot spell; None: any, for the vocabulary spells all
    normalizer: dict[str, Any] | None
    splitter: dict[str, Any]  # called pre_tokenizer in the file
    decoder: str


BYTES = Layout("gpt2", "BPE", "", None, None, {"type": "ByteLevel"}, "ByteLevel")
WORDS = Layout(  # as transformers writes it; its own text pipeline differs from OpenAI's, which is used here
    "gpt1",
    "BPE",
    END_OF_WORD,
    "<unk>",
    {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    {"type": "BertPreTokenizer"},
    "BPEDecoder",
)
CHARACTERS = Layout(
    "char",
    "WordLevel",
    "",
    None,
    None,
    {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False},
    "Fuse",
)


class Saved(NamedTuple):
    """What a `tokenizer.json` holds: `vocab` and `merges` as they stand there, not checked yet."""

    vocab: Any
    merges: Any
    added: dict[str, int]  # {special token: its id}
    prefix_space: bool  # whether a space is put before a text that begins with none


def layout_of(path: Path) -> Layout:
    """Which kind of tokenizer a file holds, by its model. Raises InputError for a model that is not known here."""
    model = read_json(path).get("model")
    name = None
    if isinstance(model, dict):
        name = model.get("type", BYTES.model)  # the first versions of the library did not write it
    if name == CHARACTERS.model:
        return CHARACTERS
    if name != BYTES.model:
        raise _refused(path, "model's type", name, f"expected {BYTES.model} or {CHARACTERS.model}")
    if model.get("end_of_word_suffix") == END_OF_WORD:
        return WORDS
    return BYTES


def fits(path: Path) -> bool:
    """Is it one of these layouts, in every part?"""
    try:
        read(path, layout_of(path))
    except InputError:
        return False
    return True


def read(path: Path, layout: Layout) -> Saved:
    """The content of a file of this layout. Raises InputError for every part that means something else."""
    saved = read_json(path)
    model = saved.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != layout.model:
        what = "character vocabulary" if layout is CHARACTERS else "byte-pair encoding"
        raise InputError(f"{path} holds no {what}: its model is not of the type {layout.model}")
    for part in saved:
        if part not in _PARTS:
            raise _refused(path, part, saved[part], "no such part is known here")
    for part in ("truncation", "padding"):
        if saved.get(part) is not None:
            raise _refused(path, part, saved[part], "texts are not cut or filled here: set it to null")
    if saved.get("version", "1.0") != "1.0":
        raise _refused(path, "version", saved["version"], 'expected "1.0"')
    _check_model(path, model, layout)
    if _only(path, saved, "normalizer") != layout.normalizer:
        raise _refused(path, "normalizer", saved.get("normalizer"), f"expected {_shown(layout.normalizer)}")
    prefix_space = _prefix_space(path, saved, layout)
    _check_after(path, _only(path, saved, "post_processor"))
    decoder = _only(path, saved, "decoder")
    if decoder is not None and decoder.get("type") != layout.decoder:
        raise _refused(path, "decoder", saved["decoder"], f"expected one of the type {layout.decoder}")
    return Saved(model.get("vocab"), model.get("merges"), _added_tokens(path, saved), prefix_space)


def _check_model(path: Path, model: dict, layout: Layout) -> None:
    """Raise InputError for an option of the model that gives other ids than are given here."""
    expected = {
        "dropout": (None, 0.0),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (layout.suffix, layout.suffix or None),
        "fuse_unk": (None, False),
        "byte_fallback": (None, False),
        "ignore_merges": (None, False),
    }
    if layout.unknown is not None:
        expected["unk_token"] = (layout.unknown,)
    for option in {**expected, **model}:
        value = model.get(option)
        if option in expected and value not in expected[option]:
            raise _refused(path, f"model's {option}", value, f"expected {_shown(expected[option][0])}")
        if option not in expected and option not in ("type", "vocab", "merges", "unk_token"):
            raise _refused(path, f"model's {option}", value, "no such option is known here")


def _prefix_space(path: Path, saved: dict, layout: Layout) -> bool:
    """Whether the splitter puts a space first. Raises InputError for another splitter than the layout's."""
    splitter = _only(path, saved, "pre_tokenizer") or {}
    compared = dict(splitter)
    prefix_space = False
    if layout is BYTES:
        prefix_space = compared.pop("add_prefix_space", False)
        compared.pop("trim_offsets", None)
        if compared.get("use_regex", True) is True:
            compared.pop("use_regex", None)
    if compared != layout.splitter or type(prefix_space) is not bool:
        expected = f"expected {_shown(layout.splitter)} with its usual settings"
        raise _refused(path, "pre_tokenizer", saved.get("pre_tokenizer"), expected)
    return prefix_space


def _check_after(path: Path, step: dict | None) -> None:
    """Raise InputError for a post-processor that adds tokens to those of the text."""
    if step is None or step.get("type") == "ByteLevel":
        return
    items = step.get("single")
    if step.get("type") == "TemplateProcessing" and isinstance(items, list) and len(items) == 1:
        if isinstance(items[0], dict) and "Sequence" in items[0]:  # the text and nothing else
            return
    raise _refused(path, "post_processor", step, "it may add tokens to every text, which is not done here")


def _added_tokens(path: Path, saved: dict) -> dict[str, int]:
    """{special token: its id}. Raises InputError for damaged ones, and for those that change the text around them."""
    added = {}
    for token in _listed(path, saved.get("added_tokens")):
        content = token["content"]
        check_added(path, content, token)
        added[content] = token["id"]
    return added


def _listed(path: Path, tokens: Any) -> list[dict]:
    """The objects of `added_tokens`, each with a text, an id and whether it is special. Raises InputError otherwise."""
    if tokens is None:
        return []
    sound = isinstance(tokens, list)
    for token in tokens if sound else ():
        if not isinstance(token, dict) or not {"content", "id", "special"} <= set(token):
            sound = False
        elif not isinstance(token["content"], str):
            sound = False
    if not sound:
        raise InputError(f"{path}: added_tokens must be a list of objects with content, id and special")
    return tokens


def check_added(path: Path, content: str, token: dict) -> None:
    """Raise InputError for an added token that texts are split at, or that takes away the space beside it."""
    for flag in ("lstrip", "rstrip", "single_word"):
        if token.get(flag):
            raise _refused(path, f"added token {content!r} with {flag}", token[flag], "it is not done here")
    if token.get("special") is not True:
        plain = "texts are split at added tokens that are not special, which is not done here"
        raise _refused(path, f"added token {content!r} with special", token.get("special"), plain)


def _only(path: Path, saved: dict, part: str) -> dict | None:
    """A part of the file; of a `Sequence` of one step, or of none, that step or None.

    Raises InputError for a part that is no object.
    """
    step = saved.get(part)
    if isinstance(step, dict) and step.get("type") == "Sequence":
        steps = step.get(_ITEMS[part])
        if steps == []:
            return None
        if isinstance(steps, list) and len(steps) == 1:
            step = steps[0]
    if step is not None and not isinstance(step, dict):
        raise _refused(path, part, saved[part], "expected an object or null")
    return step


def _shown(value: Any) -> str:
    """A value as the file writes it, cut where it is long."""
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= 200 else written[:200] + " ..."


def _refused(path: Path, part: str, value: Any, why: str) -> InputError:
    return InputError(f"{path}: its {part} is {_shown(value)}: {why}")
