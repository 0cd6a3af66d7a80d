"""The files of GPT-1, GPT-2 and of characters, whose tokenizers are whole classes and not steps.

A vocabulary and its merges stand in two files, or in one `tokenizer.json`. That file describes steps. Each of the three
classes does one row of steps, its *layout*; a file that says another thing would give other ids in silence, and is
refused. Settings that change no ids are let pass: `trim_offsets`, and how ids are decoded where the file does not say.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, shown
from minigpt.files.disk import write_json, write_text
from minigpt.tokenizer import checksums, files, settings
from minigpt.tokenizer.bpe import END_OF_WORD, Pair
from minigpt.tokenizer.files import TOKENIZER_JSON
from minigpt.tokenizer.settings import CONFIG, Settings

HEADER = "#version: 0.2"
_OFF = ("dropout", "continuing_subword_prefix", "fuse_unk", "byte_fallback", "ignore_merges")  # settings of a model


class Layout(NamedTuple):
    """What a `tokenizer.json` must say for one class. A part is given without the settings that change no ids."""

    kind: str  # the name of the tokenizer
    model: str  # the type of the model
    splitter: dict[str, Any]  # called pre_tokenizer in the file
    decoder: str
    suffix: str | None = None  # what is added to the last symbol of a word
    unknown: str | None = None  # the token for what the vocabulary cannot spell; None: any, for it spells all
    normalizer: dict[str, Any] | None = None


BYTES = Layout("gpt2", "BPE", {"type": "ByteLevel"}, "ByteLevel")
OF_BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
WORDS = Layout(  # as transformers writes it; its own text pipeline differs from OpenAI's, which is used here
    "gpt1",
    "BPE",
    {"type": "BertPreTokenizer"},
    "BPEDecoder",
    suffix=END_OF_WORD,
    unknown="<unk>",
    normalizer={"type": "BertNormalizer"} | OF_BERT,
)
EACH = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
CHARACTERS = Layout("char", "WordLevel", EACH, "Fuse")


# ------------------------------------------------------------------------------------------------------ tokenizer.json


def layout_of(saved: dict[str, Any]) -> Layout | None:
    """The layout that the content of a `tokenizer.json` may have, by its model; None where it can have none."""
    kind = files.model_type(saved)
    if kind == CHARACTERS.model:
        return CHARACTERS
    if kind != BYTES.model:
        return None
    return WORDS if saved["model"].get("end_of_word_suffix") == END_OF_WORD else BYTES


def check(saved: dict[str, Any], layout: Layout, path: Path) -> None:
    """Raise InputError for the first part of a file that says another thing than the layout; path: for messages."""
    for part, given, expected in _compared(saved, layout, path):
        if given != expected:
            raise InputError(f"{path}: its {part} is {shown(given)}: expected {shown(expected)}")
    settings.check_plain(files.added_in(saved, path).values(), path)


def fits(saved: dict[str, Any], layout: Layout) -> bool:
    """Does the content of a file have this layout, in every part?"""
    try:
        check(saved, layout, Path(TOKENIZER_JSON))
    except InputError:
        return False
    return True


def _compared(saved: dict[str, Any], layout: Layout, path: Path) -> Iterator[tuple[str, Any, Any]]:
    """(part, what the file says of it, what it must say): both None where a setting is off."""
    for part in ("truncation", "padding"):
        yield part, saved.get(part), None
    yield "model's type", files.model_type(saved), layout.model
    model = saved["model"]
    expected = dict.fromkeys(_OFF) | {"end_of_word_suffix": layout.suffix}
    if layout.unknown is not None:
        expected["unk_token"] = layout.unknown
    for option, value in expected.items():
        yield f"model's {option}", model.get(option) or None, value
    for option in model:
        if option not in (*expected, "type", "vocab", "merges", "unk_token"):
            yield f"model's {option}", model[option], "no such setting"
    yield "normalizer", _only(saved, "normalizer", path), layout.normalizer
    splitter = dict(_only(saved, "pre_tokenizer", path) or {})
    if layout is BYTES:
        splitter.pop("trim_offsets", None)
        prefix_space = splitter.pop("add_prefix_space", False)
        yield "pre_tokenizer's add_prefix_space", prefix_space, prefix_space is True
        yield "pre_tokenizer's use_regex", splitter.pop("use_regex", True), True
    yield "pre_tokenizer", splitter, layout.splitter
    yield "post_processor", _adding(_only(saved, "post_processor", path)), None
    decoder = _only(saved, "decoder", path) or {"type": layout.decoder}
    yield "decoder's type", decoder.get("type"), layout.decoder


def _only(saved: dict, part: str, path: Path) -> dict | None:
    """A part of the file; of a `Sequence` of one step, or of none, that step or None.

    Raises InputError for a part that is no object.
    """
    step = saved.get(part)
    if isinstance(step, dict) and step.get("type") == "Sequence":
        steps = step.get(files.LISTS[part])
        if steps == []:
            return None
        if isinstance(steps, list) and len(steps) == 1:
            step = steps[0]
    if step is not None and not isinstance(step, dict):
        raise InputError(f"{path}: its {part} is {shown(step)}: expected an object or null")
    return step


def _adding(step: dict | None) -> dict | None:
    """A post-processor that may add tokens to those of a text; None for one that adds nothing."""
    if step is None or step.get("type") == "ByteLevel":
        return None
    items = step.get("single")
    if step.get("type") == "TemplateProcessing" and isinstance(items, list) and len(items) == 1:
        if isinstance(items[0], dict) and "Sequence" in items[0]:  # the text and nothing else
            return None
    return step


# ------------------------------------------------------------------------------------------------------ byte-pair files


class Vocabulary(NamedTuple):
    """What the files of a byte-pair encoding hold."""

    tokens: list[str]  # in the order of their ids
    merges: list[Pair]  # first learnt first
    special: list[str]  # tokens that stand for no text
    prefix_space: bool  # whether a space is put before a text that begins with none


def read_bpe(folder: Path, layout: Layout, *choices: tuple[str, str], special: Sequence[str] = ()) -> Vocabulary:
    """The byte-pair encoding in a folder: in the first pair of these files that is there, in `tokenizer.json`, or both.

    layout: what `tokenizer.json` must say; special: tokens that are special by name, whatever the files say. Raises
    InputError where a file is missing, damaged or not what was saved, where one says what is not done here, and where
    the files do not belong together.
    """
    vocabulary, merges = files.find(folder, *choices)
    single = folder / TOKENIZER_JSON
    beside = settings.read(folder)
    checksums.verify_settings(folder)
    pair = None
    if vocabulary.exists() or merges.exists() or not single.exists():
        pair = _read_pair(vocabulary, merges, beside)
    found, source = pair, merges
    if single.exists():
        found, source = _read_single(single, layout, beside), single
        if pair is not None and pair[:2] != found[:2]:
            raise files.disagreement(single, vocabulary, merges)
    assert found is not None, "one of the two is read"
    known = set(found.tokens)
    for token in beside.special:
        if token not in known:
            raise InputError(f"{folder / CONFIG} names the special token {token!r}, which the vocabulary lacks")
    names = dict.fromkeys([*special, *found.special, *beside.special])
    in_vocabulary = [token for token in names if token in known]
    files.check_merges(found.tokens, found.merges, in_vocabulary, source)
    return found._replace(special=in_vocabulary)


def _read_pair(vocabulary: Path, merges: Path, beside: Settings) -> Vocabulary:
    """The same from two files, and from the small ones beside them."""
    tokens, pairs = files.read_pair(vocabulary, merges)
    return Vocabulary(_with_added(tokens, beside.added, vocabulary), pairs, [], bool(beside.prefix_space))


def _with_added(tokens: list[str], added: dict[str, int], path: Path) -> list[str]:
    """The tokens of a vocabulary, and after them those that are added. Raises InputError where their ids do not fit."""
    ids = {token: i for i, token in enumerate(tokens)}
    return files.tokens_from_ids(ids | added, path)


def _read_single(path: Path, layout: Layout, beside: Settings) -> Vocabulary:
    """The same from a `tokenizer.json`, as the `tokenizers` library writes it."""
    saved = files.read_parts(path)
    check(saved, layout, path)
    vocab, merges = saved["model"].get("vocab"), saved["model"].get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise InputError(f"{path} holds no byte-pair encoding: expected a model with a vocab and merges")
    prefix_space = (_only(saved, "pre_tokenizer", path) or {}).get("add_prefix_space", False)
    if beside.prefix_space not in (None, prefix_space):
        raise InputError(f"{path} and {CONFIG} beside it do not agree on add_prefix_space: give both the same")
    added = {one.token: i for i, one in files.added_in(saved, path).items()}
    tokens = _with_added(files.tokens_from_ids(vocab | added, path), beside.added, path)
    pairs = files.pairs_of(merges, path, "merge", 1)
    files.check_fit(tokens, pairs, path, path)
    return Vocabulary(tokens, pairs, list(added), prefix_space)


def write_bpe(
    folder: Path, names: tuple[str, str], tokens: Sequence[str], merges: Sequence[Pair], config: dict
) -> None:
    """Write a vocabulary and its merges under these names, and `tokenizer_config.json`.

    The vocabulary is `{token: id}`; the merges are a version line, then a line `left right` for each.
    """
    vocabulary_name, merges_name = names
    ids = {token: i for i, token in enumerate(tokens)}
    lines = files.lines_of(merges)
    write_json(folder / vocabulary_name, ids, indent=None)
    write_text(folder / merges_name, "\n".join([HEADER, *lines]) + "\n")
    checksums.write_config(folder, config, {vocabulary_name: list(tokens), merges_name: lines})
