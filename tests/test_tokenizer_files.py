"""Files of tokenizers: a part that is not done here is refused by name, and files that were changed are noticed."""

import json
import random

import numpy as np
import pytest
from test_tokenizer_gpt2 import END, TEXT, all_in_one

from minigpt.errors import InputError
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, load

GPT2 = GPT2Tokenizer.train(TEXT, 310, min_frequency=1, progress=False)
GPT1 = GPT1Tokenizer.train(TEXT, 90, pipeline="rules", progress=False)
CHARACTERS = CharTokenizer.train(TEXT)
KINDS = {"gpt2": GPT2, "gpt1": GPT1, "char": CHARACTERS}


def write(path, value) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def read(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def message_of(folder) -> str:
    """The one line that says why a folder is not opened."""
    with pytest.raises(InputError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- merges are complete ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
@pytest.mark.parametrize("checksum", [True, False])
def test_merges_that_were_cut_short_are_refused_at_any_line(kind, checksum, tmp_path):
    one = KINDS[kind]
    one.save(tmp_path)
    if not checksum:
        config = read(tmp_path / "tokenizer_config.json")
        del config["sha256"]
        write(tmp_path / "tokenizer_config.json", config)
    path = tmp_path / "merges.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for kept in (1, len(lines) // 2, len(lines) - 1):
        path.write_text("".join(lines[:kept]), encoding="utf-8")
        first, second = lines[kept].split()
        expected = "is not what was saved" if checksum else f"no merge makes the token {first + second!r}"
        assert expected in message_of(tmp_path)


def test_a_merge_in_the_middle_that_is_missing_is_named(tmp_path):
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, GPT2.merges[:20] + GPT2.merges[21:]))
    assert f"no merge makes the token {''.join(GPT2.merges[20])!r} (id {256 + 20})" in message_of(tmp_path)


def test_names_in_brackets_need_no_merge_and_other_words_do(tmp_path):
    tokens = [*GPT2.tokens, "<s>", "[SEP]", "_start_", "_extra_10_", "<|한|>"]
    write(tmp_path / "vocab.json", {token: i for i, token in enumerate(tokens)})
    merges = "\n".join(f"{left} {right}" for left, right in GPT2.merges)
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    config = {"additional_special_tokens": ["<|한|>"]}
    write(tmp_path / "tokenizer_config.json", config)
    assert load(tmp_path).tokens == tokens
    write(tmp_path / "vocab.json", {token: i for i, token in enumerate([*tokens, "plain"])})
    assert f"no merge makes the token 'plain' (id {len(tokens)})" in message_of(tmp_path)


# --- checksums -------------------------------------------------------------------------------------------------------


def test_what_was_changed_after_saving_is_refused(tmp_path):
    """Two merges in the other order, two ids, two characters, a setting: nothing else would notice them."""
    for kind, one in KINDS.items():
        one.save(tmp_path / kind)
    path = tmp_path / "gpt2" / "merges.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[4], lines[3], *lines[5:]]), encoding="utf-8")
    assert "merges.txt is not what was saved" in message_of(tmp_path / "gpt2")
    path = tmp_path / "gpt1" / "vocab.json"
    ids = read(path)
    ids["a"], ids["t"] = ids["t"], ids["a"]
    write(path, ids)
    assert "vocab.json is not what was saved" in message_of(tmp_path / "gpt1")
    path = tmp_path / "char" / "tokenizer.json"
    saved = read(path)
    vocab = saved["model"]["vocab"]
    vocab["a"], vocab["t"] = vocab["t"], vocab["a"]
    write(path, saved)
    assert "tokenizer.json is not what was saved" in message_of(tmp_path / "char")
    for kind, name, value in (("gpt2", "add_prefix_space", True), ("gpt1", "text_pipeline", "ftfy+spacy")):
        KINDS[kind].save(tmp_path / kind)
        config = read(tmp_path / kind / "tokenizer_config.json")
        write(tmp_path / kind / "tokenizer_config.json", config | {name: value})
        assert name in message_of(tmp_path / kind)
        write(tmp_path / kind / "tokenizer_config.json", config | {"sha256": 5})
        assert "sha256 is 5" in message_of(tmp_path / kind)


def test_another_program_may_write_the_same_content_in_its_own_way(tmp_path):
    GPT2.save(tmp_path)
    write(tmp_path / "vocab.json", dict(reversed(read(tmp_path / "vocab.json").items())))
    merges = (tmp_path / "merges.txt").read_text(encoding="utf-8").replace("#version: 0.2\n", "#version: 0.1\n")
    (tmp_path / "merges.txt").write_text(merges.rstrip("\n"), encoding="utf-8")
    assert load(tmp_path).tokens == GPT2.tokens


# --- tokenizer.json and the files beside it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", {"type": "New"}, "its normalizer is of the type 'New', which is not built: built are"),
        ("normalizer", "Lowercase", "its normalizer is of the type 'Lowercase'"),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": "yes"}, "has add_prefix_space 'yes', which is of"),
        ("pre_tokenizer", {"type": "ByteLevel", "new": 1}, "has the setting 'new', which is not known here"),
        ("post_processor", {"type": "RobertaProcessing"}, "RobertaProcessing in its post_processor lacks the setting"),
        ("post_processor", {"type": "TemplateProcessing", "single": [{"SpecialToken": {}}]}, "lacks the setting"),
        ("post_processor", {"type": "TemplateProcessing", "single": 5}, "has single 5, which is of another type"),
        ("post_processor", 5, "its post_processor is of the type 5"),
        ("decoder", {"type": "CTC"}, "its decoder is of the type 'CTC'"),
        ("decoder", [], "its decoder is of the type []"),
        ("version", "2.0", "its version is '2.0'"),
        ("new_part", {}, "its part 'new_part' is not known here"),
        ("added_tokens", [{"id": 310, "content": "word", "special": False}], "'word' has the id 310"),
        ("added_tokens", [{"id": 309, "content": "x", "special": True, "lstrip": 1}], "'x' has lstrip 1: give true"),
    ],
)
def test_a_part_that_is_not_done_here_is_named_with_its_value(part, value, message, tmp_path):
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, **{part: value}))
    assert message in message_of(tmp_path)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("dropout", 0.1, "which is not built"), ("dropout", "no", "expected a number or a whole number or null"),
        ("continuing_subword_prefix", "##", "which is not built"), ("new_option", 5, "which is not known here"),
        ("fuse_unk", "yes", "expected true or false"), ("byte_fallback", 1, "expected true or false"),
        ("end_of_word_suffix", 5, "expected a text or null"), ("unk_token", 5, "expected a text or null"),
        ("unk_token", "<unk>", "which the vocabulary lacks"), ("merges", {}, "expected a list"),
    ],
)  # fmt: skip
def test_an_option_of_the_model_that_is_not_done_here_is_named_with_its_value(option, value, message, tmp_path):
    saved = all_in_one(GPT2, normalizer={"type": "NFC"})
    saved["model"][option] = value
    write(tmp_path / "tokenizer.json", saved)
    found = message_of(tmp_path)
    assert "the BPE in its model" in found and option in found and message in found and repr(value) in found


def test_a_model_of_another_type_is_refused(tmp_path):
    saved = all_in_one(GPT2)
    saved["model"]["type"] = "WordPieces"
    write(tmp_path / "tokenizer.json", saved)
    assert "its model's type is WordPieces, which is not built: built are WordPiece, " in message_of(tmp_path)


def test_gpt1_s_file_without_an_unknown_token_leaves_out_what_it_cannot_spell(tmp_path):
    saved = all_in_one(GPT1)
    saved["model"]["unk_token"] = None
    write(tmp_path / "tokenizer.json", saved)
    assert load(tmp_path).encode("the 한") == load(tmp_path).encode("the")


OF_ROBERTA = {"type": "RobertaProcessing", "sep": [END, 309], "cls": [END, 309], "add_prefix_space": False}


def end_as(**flags):
    return {"added_tokens": [{"id": 309, "content": END, "special": True} | flags]}


@pytest.mark.parametrize(
    ("changes", "text", "same_as"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "The CAT", "the cat"),
        ({"normalizer": {"type": "NFC"}}, "e\u0301", "é"),
        ({"truncation": {"max_length": 8}, "padding": {"length": 8}}, TEXT, TEXT),
        ({"pre_tokenizer": {"type": "ByteLevel", "use_regex": False, "add_prefix_space": True}}, "a", " a"),
        ({"post_processor": OF_ROBERTA}, TEXT, TEXT),
        ({"decoder": {"type": "WordPiece"}}, TEXT, TEXT),
        (end_as(lstrip=True), "a \n" + END, "a" + END),
        (end_as(special=False, rstrip=True), END + "  a", END + "a"),
        (end_as(special=False, single_word=True), END + " a", END + " a"),
    ],
)
def test_what_gpt2_does_not_do_is_done_by_steps(changes, text, same_as, tmp_path):
    if "pre_tokenizer" not in changes:
        changes = changes | {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, **changes))
    opened = load(tmp_path)
    assert not isinstance(opened, GPT2Tokenizer)
    assert opened.encode(text) == GPT2.encode(same_as, "all")
    if "post_processor" in changes:
        assert opened.wrap([1], [2])[0] == [309, 1, 309, 309, 2, 309]


def test_parts_that_change_no_ids_are_let_pass(tmp_path):
    splitter = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    changes = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [splitter]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    }  # fmt: skip
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, **changes))
    assert load(tmp_path).encode(TEXT) == GPT2.encode(TEXT)


def test_a_space_is_put_before_a_text_where_the_files_say_so(tmp_path):
    splitter = {"type": "ByteLevel", "add_prefix_space": True}
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, pre_tokenizer=splitter))
    spaced = load(tmp_path)
    assert spaced.prefix_space
    for raw in (TEXT, " " + TEXT, "\t" + TEXT, "a" + END + "b", ""):
        pieces = [piece if piece[:1] in ("", " ") else " " + piece for piece in raw.split(END)]
        expected = GPT2.encode(END.join(pieces), "all")
        assert spaced.encode(raw, "all") == expected
    spaced.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.prefix_space and again.encode("the cat") == GPT2.encode(" the cat")
    assert again.with_special(["<x>"]).prefix_space


def test_files_that_do_not_agree_are_refused(tmp_path):
    GPT2.save(tmp_path)
    write(tmp_path / "tokenizer.json", all_in_one(GPT2))
    assert load(tmp_path).encode(TEXT) == GPT2.encode(TEXT), "the same twice is no contradiction"
    other = GPT2Tokenizer.train(TEXT, 300, min_frequency=1, progress=False)
    write(tmp_path / "tokenizer.json", all_in_one(other))
    assert "holds another vocabulary than vocab.json and merges.txt" in message_of(tmp_path)
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}))
    assert "do not agree on add_prefix_space" in message_of(tmp_path)
    words = {"type": "ByteLevel", "add_prefix_space": False}
    lower = {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": words}
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, **lower))
    assert load(tmp_path).encode("THE") == GPT2.encode("the"), "transformers reads this file, not the other two"
    write(tmp_path / "tokenizer.json", all_in_one(other, **lower))
    assert "holds another vocabulary than vocab.json and merges.txt" in message_of(tmp_path)
    swapped = all_in_one(GPT2, **lower)
    vocab = swapped["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    write(tmp_path / "tokenizer.json", swapped)
    assert "holds another vocabulary than vocab.json and merges.txt" in message_of(tmp_path)
    write(tmp_path / "tokenizer.json", all_in_one(GPT2, **lower | {"pre_tokenizer": {"type": "ByteLevel"}}))
    assert "do not agree on add_prefix_space" in message_of(tmp_path)


def test_special_tokens_in_the_files_of_older_versions(tmp_path):
    GPT2.save(tmp_path)
    write(tmp_path / "added_tokens.json", {"<|x|>": 310})
    assert "no other file says that '<|x|>' is special" in message_of(tmp_path)
    write(tmp_path / "special_tokens_map.json", {"pad_token": {"content": "<|x|>", "lstrip": False}})
    opened = load(tmp_path)
    assert opened.vocab_size == 311 and opened.encode("a<|x|>", "all") == [*GPT2.encode("a"), 310]
    write(tmp_path / "added_tokens.json", {"<|x|>": 312})
    assert "'<|x|>' has the id 312" in message_of(tmp_path)
    write(tmp_path / "added_tokens.json", {"<|x|>": 310})
    write(tmp_path / "special_tokens_map.json", {"pad_token": {"content": "<|x|>", "rstrip": True}})
    assert "the added token '<|x|>' has rstrip, which is not done here" in message_of(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"add_bos_token": True}, "sets add_bos_token"),
        ({"split_special_tokens": True}, "sets split_special_tokens: a special token in a text would be cut as any"),
        ({"add_eos_token": True}, "sets add_eos_token"),
        ({"pad_token": "<|pad|>"}, "names the special token '<|pad|>', which the vocabulary lacks"),
        ({"pad_token": 5}, "pad_token is 5: expected a text"),
        ({"additional_special_tokens": 5}, "additional_special_tokens is 5"),
        ({"added_tokens_decoder": 5}, "added_tokens_decoder is 5"),
        ({"added_tokens_decoder": {"x": {"content": "a", "special": True}}}, "added_tokens_decoder is {'x': {"),
        ({"added_tokens_decoder": {"310": {"content": "word", "special": False}}}, "'word' is not special: texts are"),
        ({"added_tokens_decoder": {"311": {"content": "<a>", "special": True}}}, "has the id 311"),
        ({"added_tokens_decoder": {"310": {"content": "word"}}}, "the added token 'word' is not special"),
    ],
)
def test_a_setting_that_is_not_done_here_is_named(settings, message, tmp_path):
    GPT2.save(tmp_path)
    write(tmp_path / "tokenizer_config.json", settings)
    assert message in message_of(tmp_path)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("wrong", [None, 5, 3.5, b"text", ["text"]])
def test_what_is_no_text_is_refused(one, wrong):
    for call in (one.encode, one.unknown_in, type(one).train):
        options = {"vocab_size": 400} if call == type(one).train and one is not CHARACTERS else {}
        if call == type(one).train and wrong == ["text"]:
            continue
        with pytest.raises(InputError, match="str"):
            call(wrong, **options)


@pytest.mark.parametrize("one", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("wrong", [None, 5, 1.5, [1.5], [None], [[1]], "ab", b"ab", np.ones(1), np.array([[1], [2]])])
def test_what_are_no_ids_are_refused(one, wrong):
    with pytest.raises(InputError, match="token ids must be whole numbers, in one flat list or array, not ") as error:
        one.decode(wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [GPT1Tokenizer, GPT2Tokenizer])
@pytest.mark.parametrize("size", ["300", 300.5, None, True])
def test_a_size_that_is_no_whole_number_is_refused(kind, size):
    with pytest.raises(InputError, match="the size of a vocabulary must be a whole number, not "):
        kind.train(TEXT, size)


def test_names_of_special_tokens_are_a_list():
    for wrong in (None, 5, "<x>", [5]):
        with pytest.raises(InputError, match="special tokens must be a list of names"):
            GPT2.with_special(wrong)
    assert GPT2.with_special([]) is GPT2


def test_what_the_vocabulary_cannot_spell_is_listed():
    assert GPT2.unknown_in("고양이 😀") == []
    assert CharTokenizer.train("abc").unknown_in("cab? éa?") == ["?", " ", "é"]
    small = GPT1Tokenizer.train("the cat sat on a mat. " * 5, 60, pipeline="rules", progress=False)
    assert small.unknown_in("The cat.") == []
    assert small.unknown_in("The 고양이 sat! 고양이") == ["고", "양", "이", "!"]
    assert small.count_unknown(small.encode("The 고양이 sat!")) == 4


# --- damage ----------------------------------------------------------------------------------------------------------


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """A file with a bit turned over, a part cut off, doubled or left out, a line moved, or another value in it."""
    i = rng.randrange(len(raw))
    j = i + rng.randint(1, 30)
    lines = raw.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(6)
    if way == 0:
        return raw[:i] + bytes([raw[i] ^ 1 << rng.randrange(8)]) + raw[i + 1 :]
    if way == 1:
        return raw[:i]
    if way == 2:
        return raw[:j] + raw[i:]
    if way == 3:
        return raw[:i] + raw[j:]
    if way == 4:
        lines[a], lines[b] = lines[b], lines[a]
        return b"\n".join(lines)
    number = str(rng.randint(0, 90)).encode()
    return raw.replace(number, rng.choice([b"-1", b"1e9", b"null", b'"x"', b"[]", b"true", b"9" * 30]), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_damaged_file_is_refused_or_means_the_same(kind, n, tmp_path):
    one = KINDS[kind]
    one.save(tmp_path)
    sound = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    rng = random.Random(n)
    refused = 0
    for _ in range(n):
        path = rng.choice(list(sound))
        path.write_bytes(damaged(sound[path], rng))
        try:
            found = load(tmp_path)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert type(found) is type(one) and vars_of(found) == vars_of(one), path
        path.write_bytes(sound[path])
    assert refused > n / 2


def vars_of(tokenizer) -> list:
    """What makes a tokenizer encode as it does."""
    names = ("tokens", "merges", "special", "pipeline", "prefix_space")
    return [getattr(tokenizer, name, None) for name in names]
