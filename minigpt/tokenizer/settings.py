"""The small files beside a vocabulary: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`.

They tell which tokens are special and what each is for, and add some to the vocabulary. A special token is named by a
key such as `mask_token`, or stands in a list without one; the second file is what older folders have.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, is_whole, shown
from minigpt.files.disk import read_json
from minigpt.tokenizer.base import ROLES
from minigpt.tokenizer.pipeline import OUR_NAMES, Added, PieceTokenizer

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
MORE_SPECIAL = "additional_special_tokens"
OF_SENTENCES = "sentence_*_config.json"  # what sentence-transformers writes beside a model; * is bert, roberta, ...
OWN = "minigpt_special_tokens"  # in tokenizer_config.json: special tokens that no text is encoded as

KEYS = {  # {role: the keys that tell it, the first that is there counts}
    "mask": ("mask_token",),
    "start": ("cls_token", "bos_token"),
    "delimiter": ("sep_token", "eos_token"),
    "end": ("eos_token",),
    "pad": ("pad_token",),
    "unknown": ("unk_token",),
}
_LISTS = (MORE_SPECIAL, "extra_special_tokens")  # the second is how transformers 5 calls it
_NOT_DONE = ("add_bos_token", "add_eos_token")
_NOT_SAVED = (OWN, "added_tokens_decoder", "name_or_path", "special_tokens_map_file")  # as they were


class Settings(NamedTuple):
    """What the small files say to GPT-1's and GPT-2's own tokenizers. `prefix_space` is None where they do not say it.
    """

    special: list[str]
    added: dict[str, int]  # {special token: its id}
    prefix_space: bool | None


class Limit(NamedTuple):
    """How many tokens of a text count, the special ones among them, and the name of the file that says so."""

    tokens: int
    file: str


def read_limit(folder: Path) -> Limit | None:
    """The longest text that the files of a folder allow; None where they say nothing of it.

    A file of sentence-transformers takes the place of what the tokenizer says, as it does there. Raises InputError for
    a limit that is no whole number of 1 or more.
    """
    said = [(path, "max_seq_length") for path in sorted(folder.glob(OF_SENTENCES))]
    for path, key in [*said, (folder / CONFIG, "model_max_length")]:
        limit = _read(path).get(key)
        if limit is not None:
            if type(limit) not in (int, float) or not limit >= 1 or limit != limit // 1:
                raise InputError(f"{path}: {key} is {limit!r}: expected a number of tokens, 1 or more")
            return Limit(int(limit), path.name)
    return None


def read_config(folder: str | Path) -> dict[str, Any]:
    """The settings in `tokenizer_config.json`; none where there is no such file."""
    return _read(Path(folder) / CONFIG)


def class_of(config: Mapping[str, Any]) -> Any:
    """The class of transformers that a configuration names, without `Fast` at its end; None where it names none."""
    name = config.get("tokenizer_class")
    return name.removesuffix("Fast") if isinstance(name, str) else name


def model_type(folder: Path) -> str:
    """The type of the model in the `config.json` of a folder, as a text; "None" where it is not said."""
    return str(_read(folder / "config.json").get("model_type"))


def read(folder: Path) -> Settings:
    """What the small files of a folder say. Raises InputError for a setting that is damaged, or not done here."""
    config = read_config(folder)
    for name in _NOT_DONE:
        if config.get(name):
            raise InputError(f"{folder / CONFIG} sets {name}: it adds a token to every text, which is not done here")
    with_ids = by_id(config, folder / CONFIG)
    check_plain(with_ids.values(), folder / CONFIG)
    special = []
    for path, values in _both(folder, config):
        named = [*_named(values, path).values(), *more_special(values, path)]
        check_plain(named, path)
        special += named
    added = {one.token: i for i, one in with_ids.items()}
    names = list(dict.fromkeys([*(one.token for one in special), *added]))
    for token, i in added_tokens(folder).items():
        if token not in names:
            what = "texts are split at added tokens that are not special, which is not done here"
            raise InputError(f"{folder / ADDED_TOKENS}: no other file says that {token!r} is special: {what}")
        if added.setdefault(token, i) != i:
            raise InputError(f"{folder / ADDED_TOKENS}: {token!r} has the id {i}, and {added[token]} in {CONFIG}")
    return Settings(names, added, prefix_space(config, folder))


def prefix_space(config: Mapping[str, Any], folder: Path) -> bool | None:
    """Whether a space is put before a text that begins with none; None where it is not said.

    Raises InputError for another value.
    """
    value = config.get("add_prefix_space")
    if not isinstance(value, bool | None):
        raise InputError(f"{folder / CONFIG}: add_prefix_space is {shown(value)}: expected true or false")
    return value


def padding_side(config: Mapping[str, Any], usual: str, folder: Path) -> str:
    """Where a batch is filled up, "left" or "right". Raises InputError for another place."""
    side = config.get("padding_side", usual)
    if side not in ("left", "right"):
        raise InputError(f"{folder / CONFIG}: padding_side is {shown(side)}: expected left or right")
    return side


def check_plain(tokens: Iterable[Added], where: str | Path) -> None:
    """Raise InputError for an added token that texts are split at, or that takes away the space beside it."""
    for one in tokens:
        for flag in ("lstrip", "rstrip", "single_word"):
            if getattr(one, flag):
                raise InputError(f"{where}: the added token {one.token!r} has {flag}, which is not done here")
        if not one.special:
            what = "texts are split at such tokens, which is not done here"
            raise InputError(f"{where}: the added token {one.token!r} is not special: {what}")


# ------------------------------------------------------------------------------------------------------ special tokens


def named_in(folder: Path, config: Mapping[str, Any]) -> dict[str, Added]:
    """{key: token} of all special tokens that the files of a folder name by their keys, such as `mask_token`.

    config: what `tokenizer_config.json` says, which goes first. Raises InputError for what is no token.
    """
    found = {}
    for path, values in _both(folder, config):
        for key, one in _named(values, path).items():
            found.setdefault(key, one)
    return found


def _both(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The two files that name special tokens, each with what it says."""
    yield folder / CONFIG, config
    yield folder / SPECIAL_TOKENS, _read(folder / SPECIAL_TOKENS)


def _named(values: Mapping[str, Any], where: Path) -> dict[str, Added]:
    """{key: token} of one file."""
    found = {}
    for keys in KEYS.values():
        for key in keys:
            if values.get(key) is not None:
                found[key] = token_of(values[key], f"{where}: {key}")._replace(special=True)
    return found


def more_special(config: Mapping[str, Any], where: str | Path) -> list[Added]:
    """The special tokens that a file lists without a key. Raises InputError for what is no token."""
    found = []
    for name in _LISTS:
        tokens = config.get(name) or []
        tokens = list(tokens.values()) if isinstance(tokens, dict) else tokens
        if not isinstance(tokens, list):
            raise InputError(f"{where}: {name} is {shown(tokens)}: expected a list of tokens")
        found += [token_of(token, f"{where}: {name}")._replace(special=True) for token in tokens]
    return found


def by_id(config: Mapping[str, Any], where: str | Path) -> dict[int, Added]:
    """`added_tokens_decoder`, in which tokens stand under their ids. Raises InputError for what is no token."""
    tokens = config.get("added_tokens_decoder") or {}
    where = f"{where}: added_tokens_decoder"
    if not isinstance(tokens, dict) or not all(i.isdecimal() and isinstance(one, dict) for i, one in tokens.items()):
        raise InputError(f"{where} is {shown(tokens)}: expected an object of ids and their tokens")
    return {int(i): token_of({"special": False} | token, where) for i, token in tokens.items()}


def added_tokens(folder: Path) -> dict[str, int]:
    """{token: its id} of `added_tokens.json`; none where there is no such file. Raises InputError for what is no id."""
    added = _read(folder / ADDED_TOKENS)
    for token, i in added.items():
        if not is_whole(i) or i < 0:
            raise InputError(f"{folder / ADDED_TOKENS}: {token!r} has the id {shown(i)}: expected a whole number")
    return added


def own_in(config: Mapping[str, Any], folder: Path) -> list[str]:
    """The special tokens at the end of a vocabulary that no text is encoded as. Raises InputError for another value."""
    own = config.get(OWN, [])
    if not isinstance(own, list) or not all(isinstance(name, str) for name in own):
        raise InputError(f"{folder / CONFIG}: {OWN} is {shown(own)}: expected a list of names")
    return own


def token_of(given: Any, where: str) -> Added:
    """A token: a text, or an object with its content and flags. Raises InputError for another value."""
    if isinstance(given, str):
        return Added(given)
    if not isinstance(given, dict) or not isinstance(given.get("content"), str):
        raise InputError(f"{where} is {shown(given)}: expected a text, or an object with its content")
    flags = {flag: given[flag] for flag in Added._fields[1:] if flag in given}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{where}: {given['content']!r} has {flag} {shown(value)}: give true or false")
    return Added(given["content"], **flags)


def roles_of(named: Mapping[str, Added], vocabulary: Collection[str]) -> dict[str, str]:
    """{role: token}: as the files name it; where they do not, by the names that published vocabularies use."""
    roles = {}
    for role, keys in KEYS.items():
        names = [named[key].token for key in keys if key in named]
        for name in (*names, *ROLES[role]):
            if name in vocabulary and name not in OUR_NAMES:
                roles[role] = name
                break
    return roles


def said_of(text: PieceTokenizer, config: Mapping[str, Any]) -> dict[str, Any]:
    """What `tokenizer_config.json` says of a tokenizer: what it said before, the tokens by their roles, and our own."""
    content = {key: value for key, value in config.items() if key not in _NOT_SAVED}
    for role, token in text.roles.items():
        keys = KEYS[role]
        if not any(key in content for key in keys):
            content[keys[0]] = token
    if text.own:
        content[OWN] = list(text.own)
    return content


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no such file."""
    return read_json(path) if path.exists() else {}
