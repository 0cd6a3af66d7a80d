"""What published tokenizers do after a text is encoded: the tokens around it, and the way back from tokens to text.

`TEMPLATES` gives what stands around one text and around two, `DECODERS` a function from tokens to what they stand for.
As in `steps_before.py`, the keys are the names of `tokenizer.json` and the arguments its settings: a new step is a
function and one line in the table.
"""

from collections.abc import Callable
from typing import Any

from minigpt.errors import InputError
from minigpt.tokenizer.gpt2 import BYTE_OF
from minigpt.tokenizer.patterns import compiled_pattern, replaced
from minigpt.tokenizer.pipeline import Pattern, Template
from minigpt.tokenizer.spiece import REPLACED, SPACE
from minigpt.tokenizer.steps_before import check_one_character, scheme_of

TokenStep = Callable[[list[str]], list[str]]

# --------------------------------------------------------------------------------------------------------- templates


def template_processing(single: list, pair: list, special_tokens: dict) -> Template:
    """Tokens and texts one after the other, each with its segment."""
    return Template(_items(single, special_tokens), _items(pair, special_tokens))


def _items(written: list, special_tokens: dict) -> Pattern:
    """The items of a template. Raises InputError for what is none."""
    items = []
    for item in written:
        kind, name, segment = _read_item(item)
        if kind == "Sequence":
            items.append((f"${name}", segment))
            continue
        described = special_tokens.get(name)
        tokens = described.get("tokens") if isinstance(described, dict) else None
        if not isinstance(tokens, list):
            raise InputError(f"the template has the token {name!r}, which its special_tokens do not describe")
        items += [(token, segment) for token in tokens]
    return tuple(items)


def _read_item(item: Any) -> tuple[str, str, int]:
    """(kind, id, segment) of `{"SpecialToken": {"id": "[CLS]", "type_id": 0}}`. Raises InputError for what is none."""
    if isinstance(item, dict):
        for kind in ("SpecialToken", "Sequence"):
            content = item.get(kind)
            if isinstance(content, dict) and isinstance(content.get("id"), str) and type(content.get("type_id")) is int:
                return kind, content["id"], content["type_id"]
    raise InputError(f"the template has {item!r}: expected a SpecialToken or a Sequence with id and type_id")


def bert_processing(sep: list, cls: list) -> Template:
    """`[CLS] a [SEP] b [SEP]`, the second text in segment 1."""
    start, end = sep_and_cls(sep, cls)
    single = ((start, 0), ("$A", 0), (end, 0))
    return Template(single, (*single, ("$B", 1), (end, 1)))


def roberta_processing(sep: list, cls: list, trim_offsets: bool = True, add_prefix_space: bool = True) -> Template:
    """`<s> a </s></s> b </s>`, all in segment 0."""
    start, end = sep_and_cls(sep, cls)
    single = ((start, 0), ("$A", 0), (end, 0))
    return Template(single, (*single, (end, 0), ("$B", 0), (end, 0)))


def sep_and_cls(sep: list, cls: list) -> tuple[str, str]:
    """The tokens that begin and end a text, each given as [token, id]. Raises InputError for what is no such pair."""
    for given in (sep, cls):
        if len(given) != 2 or not isinstance(given[0], str):
            raise InputError(f"{given!r} is no token with its id")
    return cls[0], sep[0]


def nothing_around(add_prefix_space: bool = True, trim_offsets: bool = True, use_regex: bool = True) -> Template:
    """ByteLevel: it changes where tokens are said to stand, and no ids."""
    return Template()


TEMPLATES = {
    "TemplateProcessing": template_processing,
    "BertProcessing": bert_processing,
    "RobertaProcessing": roberta_processing,
    "ByteLevel": nothing_around,
}


def the_only_one(templates: list[Template]) -> Template:
    """The template of a `Sequence`, in which one step at most adds tokens. Raises InputError for several."""
    adding = [template for template in templates if template != Template()]
    if len(adding) > 1:
        raise InputError("several steps of its Sequence add tokens around a text, which is not built")
    return adding[0] if adding else Template()


# ---------------------------------------------------------------------------------------------------------- decoders


CLEANED = {  # what the library makes of a token with the space before it
    " .": ".", " ?": "?", " !": "!", " ,": ",", " ' ": "'", " n't": "n't", " 'm": "'m", " do not": " don't",
    " 's": "'s", " 've": "'ve", " 're": "'re",
}  # fmt: skip


def wordpiece(prefix: str = "##", cleanup: bool = True) -> TokenStep:
    """A space before each token that begins a word; cleanup: none before a full stop, and the like."""

    def decoded(tokens: list[str]) -> list[str]:
        done = []
        for i, token in enumerate(tokens):
            if i > 0:
                token = token[len(prefix) :] if token.startswith(prefix) else " " + token
            done.append(cleaned(token) if cleanup else token)
        return done

    return decoded


def cleaned(token: str) -> str:
    """A token with the space before it, without that space where none is written."""
    for written, becomes in CLEANED.items():
        token = token.replace(written, becomes)
    return token


def byte_level(add_prefix_space: bool = True, trim_offsets: bool = True, use_regex: bool = True) -> TokenStep:
    """The bytes that the characters of the tokens stand for, as one text. Other tokens are what they are."""
    return lambda tokens: [b"".join(map(_bytes_of, tokens)).decode("utf-8", "replace")]


def _bytes_of(token: str) -> bytes:
    if all(character in BYTE_OF for character in token):
        return bytes(BYTE_OF[character] for character in token)
    return token.encode("utf-8", "replace")


def metaspace(
    replacement: str = SPACE,
    prepend_scheme: str | None = None,
    split: bool = True,
    add_prefix_space: bool = True,
    str_rep: str | None = None,
) -> TokenStep:
    """Spaces for `▁`; none in the first token, where one was put in front of the text."""
    check_one_character("replacement", replacement)
    at_start = " " if scheme_of(prepend_scheme, add_prefix_space) == "never" else ""

    def decoded(tokens: list[str]) -> list[str]:
        return [token.replace(replacement, " " if i else at_start) for i, token in enumerate(tokens)]

    return decoded


def bpe_decoder(suffix: str = "</w>") -> TokenStep:
    """A space for the mark at the end of a word, but not after the last one."""

    def decoded(tokens: list[str]) -> list[str]:
        words = [token.replace(suffix, " ") for token in tokens[:-1]]
        return words + [token.replace(suffix, "") for token in tokens[-1:]]

    return decoded


def byte_fallback() -> TokenStep:
    """The text of bytes that are written as `<0xE3>`; U+FFFD for each of them where they are no text."""

    def decoded(tokens: list[str]) -> list[str]:
        done = []
        waiting = bytearray()
        for token in [*tokens, None]:
            byte = None if token is None else byte_of(token)
            if byte is not None:
                waiting.append(byte)
                continue
            if waiting:
                done.append(_text_or_marks(bytes(waiting)))
                waiting.clear()
            if token is not None:
                done.append(token)
        return done

    return decoded


def byte_of(token: str) -> int | None:
    """The byte that a token such as `<0xE3>` stands for; None for another token."""
    if len(token) != 6 or not token.startswith("<0x") or not token.endswith(">"):
        return None
    try:
        return int(token[3:5], 16)
    except ValueError:
        return None


def _text_or_marks(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return REPLACED * len(content)


def fuse() -> TokenStep:
    """All tokens as one text, so that the next step sees them so."""
    return lambda tokens: ["".join(tokens)]


def strip(content: str, start: int = 0, stop: int = 0) -> TokenStep:
    """At most so many of a character taken away at the start and at the end of each token."""

    check_one_character("content", content)

    def stripped(token: str) -> str:
        begins = len(token) - len(token.lstrip(content))
        token = token[max(0, min(start, begins)) :]
        ends = len(token) - len(token.rstrip(content))
        return token[: len(token) - max(0, min(stop, ends))]

    return lambda tokens: [stripped(token) for token in tokens]


def replace(pattern: dict, content: str) -> TokenStep:
    """One text, or all that matches a pattern, becomes another in each token."""
    compiled = compiled_pattern(pattern)
    return lambda tokens: [replaced(compiled, content, token) for token in tokens]


DECODERS = {
    "WordPiece": wordpiece,
    "ByteLevel": byte_level,
    "Metaspace": metaspace,
    "BPEDecoder": bpe_decoder,
    "ByteFallback": byte_fallback,
    "Fuse": fuse,
    "Strip": strip,
    "Replace": replace,
}


def all_steps(steps: list[TokenStep]) -> TokenStep:
    """All steps of a `Sequence` of decoders."""

    def decoded(tokens: list[str]) -> list[str]:
        for step in steps:
            tokens = step(tokens)
        return tokens

    return decoded


def with_spaces() -> TokenStep:
    """What the library does where a file names no decoder: a space between the tokens."""
    return lambda tokens: [" ".join(tokens)]


def settings_of(template: Template, ids: dict[str, int]) -> dict[str, Any]:
    """A template as `tokenizer.json` writes it."""
    written: dict[str, Any] = {"type": "TemplateProcessing"}
    names = set()
    for part, n_texts in (("single", 1), ("pair", 2)):
        items = []
        for name, segment in template.items(n_texts):
            is_text = name.startswith("$")
            kind = "Sequence" if is_text else "SpecialToken"
            items.append({kind: {"id": name.removeprefix("$") if is_text else name, "type_id": segment}})
            if not is_text:
                names.add(name)
        written[part] = items
    described = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in sorted(names)}
    return written | {"special_tokens": described}
