"""GPT-2's tokenizer: published encodings, any text back again, training, streaming, files, damaged files."""

import functools
import json
import random
import unicodedata

import numpy as np
import pytest
from constants import Constants
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minigpt import load_tokenizer, tokenizer
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, prepare
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, Tokenizer, gpt1, gpt2, layouts
from minigpt.tokenizer.base import Remembered, Stream
from minigpt.tokenizer.words import words_of

TEXT = "The cat sat on the mat; the cats didn't.\n\n  It's 2019, isn't it?\n고양이가 매트 위에 앉았다. 고양이!\n" * 3
END = "<|endoftext|>"


def bytes_of(token: str) -> bytes:
    """What a token of a byte-level vocabulary stands for."""
    return bytes(gpt2.BYTE_OF[character] for character in token)


PUBLISHED = {
    "Hello world": [15496, 995],
    "hello world": [31373, 995],
    "Hello, world!": [15496, 11, 995, 0],
    "Hello   world ": [15496, 220, 220, 995, 220],
    "": [],
    " ": [220],
    "\t": [197],
    "\n": [198],
    "\n\n": [628],
    "\r\n": [201, 198],
    "\u00a0": [1849],
    "This is some text": [1212, 318, 617, 2420],
    "indivisible": [521, 452, 12843],
    "hello 👋 world 🌍": [31373, 50169, 233, 995, 12520, 234, 235],
    "Hello!! I'm Andrej Karpathy. It's 2022. w00t :D 🤗": [
        15496, 3228, 314, 1101, 10948, 73, 509, 5117, 10036, 13, 632, 338, 33160, 13, 266, 405, 83, 1058, 35, 12520, 97,
        245,
    ],
    "0": [15], "00": [405], "000": [830], "0000": [2388], "0" * 8: [8269], "0" * 16: [25645],
    "0" * 17: [8269, 10535, 830],
    "I'M": [40, 6, 44],
    "안녕하세요": [168, 243, 230, 167, 227, 243, 47991, 246, 168, 226, 116, 168, 248, 242],
    "한국어": [47991, 250, 166, 113, 255, 168, 244, 112],
    "가": [166, 108, 222],
    "GPT-2는 언어 모델입니다.": [
        38, 11571, 12, 17, 167, 232, 242, 23821, 244, 116, 168, 244, 112, 31619, 103, 101, 167, 235, 116, 168, 252, 227,
        46695, 230, 46695, 97, 13,
    ],
    "日本語": [33768, 98, 17312, 105, 45739, 252],
    "🤗": [8582, 97, 245], " 🤗": [12520, 97, 245], "👍": [41840, 235],
    "naïve café": [2616, 38776, 40304],
    "don’t": [9099, 447, 247, 83],
    "TL;DR:": [14990, 26, 7707, 25],
    "english sentence = french sentence": [39126, 6827, 796, 48718, 6827],
    "A:": [32, 25],
    "The quick brown fox jumps over the lazy dog.": [464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290, 13],
    "def f(x):\n    return x": [4299, 277, 7, 87, 2599, 198, 220, 220, 220, 1441, 2124],
    "Alan Turing theorized that computers would one day become": [
        36235, 39141, 18765, 1143, 326, 9061, 561, 530, 1110, 1716,
    ],
    END: [27, 91, 437, 1659, 5239, 91, 29],
}  # fmt: skip

any_text = st.text(max_size=60)  # every code point but surrogates
AWKWARD = ["'s", "'S", "'re", " ", "  ", "\n", "\t", "\x1c", "\x85", "\u00a0", "\u3000", "a", "É", "e\u0301", "한", "1",
           "Ⅷ", "²", "!", "…", "👋🏽", "\x00", END]  # fmt: skip
awkward_text = st.lists(st.sampled_from(AWKWARD), max_size=12).map("".join)


@pytest.fixture(scope="module")
def small():
    return GPT2Tokenizer.train(TEXT, 310, progress=False)


@pytest.fixture(scope="module")
def published(eval_data):
    return load_tokenizer(eval_data / "gpt2_vocab")


# --- encoding and decoding -------------------------------------------------------------------------------------------


def test_published_encodings(published):
    assert {raw: published.encode(raw) for raw in PUBLISHED} == PUBLISHED
    assert all(published.decode(ids) == raw for raw, ids in PUBLISHED.items())


def test_published_vectors(published, eval_data):
    vectors = json.loads((eval_data / "token_vectors" / "gpt2.json").read_text(encoding="utf-8"))
    for vector in vectors:
        allowed = "all" if vector.get("special") else ()
        assert published.encode(vector["text"], allowed_special=allowed) == vector["ids"], vector
    assert len(vectors) >= 273


def test_the_published_vocabulary(published):
    assert published.vocab_size == 50_257 and len(published.merges) == 50_000
    assert (published.newline_id, published.end_of_text_id, published.unknown_id) == (198, 50256, None)
    assert published.tokens[:256] == list(gpt2.CHARACTER_OF.values())
    assert all(published.tokens[256 + i] == left + right for i, (left, right) in enumerate(published.merges))
    listing = list(published.listing())
    assert listing[262] == "[ t][he] -> [ the] 262" and listing[198] == "[\\n] 198" and listing[220] == "[ ] 220"
    assert listing[447] == "[\\xe2][\\x80] -> [\\xe2\\x80] 447" and listing[50256] == f"[{END}] 50256"
    broken = sum(not raw.decode(errors="ignore").encode() == raw for raw in map(bytes_of, published.tokens))
    assert (sum(token.startswith("Ġ") for token in published.tokens), broken) == (33_135, 344)


def test_the_characters_that_bytes_are_written_as():
    table = gpt2.bytes_to_unicode()
    assert sorted(table) == list(range(256)) and len(set(table.values())) == 256
    assert "".join(table[byte] for byte in b" \n\t\x00\x7f\xa0\xad!~\xff") == "ĠĊĉĀġłŃ!~ÿ"
    assert list(table) == sorted(table, key=lambda byte: ord(table[byte])), "ids go by the character"
    assert gpt2.spell(" é") == "ĠÃ©"


def test_words_are_those_of_the_pattern():
    assert list(words_of("I'm here.  Is it's 1st,\n\n ok?\n")) == [
        "I", "'m", " here", ".", " ", " Is", " it", "'s", " 1", "st", ",", "\n\n", " ok", "?", "\n",
    ]  # fmt: skip
    assert list(words_of("DON'T e\u0301\x1c\u3000x")) == ["DON", "'", "T", " e", "\u0301\x1c", "\u3000", "x"]
    assert list(words_of("IT'S")) == ["IT", "'", "S"]


@settings(deadline=None)
@given(raw=any_text | awkward_text, size=st.integers(1, 9))
def test_text_read_in_pieces_has_the_same_words(raw, size):
    with pytest.MonkeyPatch.context() as patch:
        Constants(patch).set(stretch_of_text=size)
        assert list(words_of(raw)) == gpt2.WORD.findall(raw)
    assert "".join(words_of(raw)) == raw


@settings(deadline=None)
@given(raw=any_text | awkward_text)
def test_any_text_comes_back(small, raw):
    ids = small.encode(raw)
    assert small.decode(ids) == raw and small.decode(np.array(ids, int)) == raw
    assert small.decode(small.encode(raw, allowed_special="all")) == raw
    assert small.count_unknown(ids) == 0


@settings(deadline=None)
@given(raw=any_text)
def test_any_text_comes_back_from_the_published_vocabulary(published, raw):
    assert published.decode(published.encode(raw)) == raw


@settings(deadline=None)
@given(data=st.data())
def test_decoding_never_fails_and_streaming_gives_the_same(small, data):
    ids = data.draw(st.lists(st.integers(0, small.vocab_size - 1), max_size=30))
    whole = b"".join(bytes_of(small.tokens[i]) for i in ids)
    assert small.decode(ids) == whole.decode("utf-8", errors="replace")
    stream = small.streaming()
    said = [stream.feed(i) for i in ids]
    assert "".join(said) + stream.end() == small.decode(ids)


@pytest.mark.parametrize("raw", ["\ud800", "a\udfffb", "한\ud83d", " \udc80"])
def test_half_a_surrogate_pair_is_refused(small, raw):
    half = ascii(next(c for c in raw if "\ud800" <= c < "\ue000"))
    with pytest.raises(InputError) as error:
        small.encode(raw)
    assert half in str(error.value) and "surrogate" in str(error.value) and str(error.value).isascii()
    with pytest.raises(InputError, match="surrogate"):
        GPT2Tokenizer.train(raw, 300, progress=False)


@pytest.mark.parametrize(("ids", "message"), [([3, 310], "310"), ([-1], "-1"), ([1.5], "whole"), ([[1]], "flat")])
def test_ids_that_are_not_in_the_vocabulary_are_refused(small, ids, message):
    with pytest.raises(InputError, match=message):
        small.decode(ids)
    with pytest.raises(InputError):
        small.streaming().feed(ids[-1])


def test_special_tokens_are_recognised_where_asked():
    raw = f"a{END}b{END}{END}"
    two = GPT2Tokenizer([*gpt2.CHARACTER_OF.values(), END, END + "2"], [], [END, END + "2"])
    a, b = 64, 65
    plain = two.encode(END)
    assert len(plain) == len(END) and two.encode(raw) == [a, *plain, b, *plain, *plain]
    assert two.encode(raw, allowed_special=[END]) == two.encode(raw, "all") == [a, 256, b, 256, 256]
    assert two.encode(END + "2", "all") == [257], "the longest that fits"
    assert two.encode(END + "2", [END]) == [256, 17]
    assert two.decode([a, 256, 257]) == f"a{END}{END}2" and (two.end_of_text_id, two.special) == (256, (END, END + "2"))
    with pytest.raises(InputError, match="'<pad>' is not a special token here: there are <.endoftext.>"):
        two.encode(raw, allowed_special=["<pad>"])


def test_a_word_that_the_vocabulary_cannot_spell_is_named():
    words = ["Ġlow", "er", "Ġlowest", "Ġnewer", "Ġwider", "<unk>", END]
    mini = GPT2Tokenizer(
        [*"lowerstidn", "Ġ", "Ġl", "Ġn", "Ġlo", *words], [("Ġ", "l"), ("Ġl", "o"), ("Ġlo", "w"), ("e", "r")]
    )
    assert mini.encode(" lower newer") == [14, 15, 10, 9, 3, 2, 15]
    with pytest.raises(InputError, match="the vocabulary lacks 'x', which ' x' needs"):
        mini.encode("low x")


def test_the_cache_does_not_grow_for_ever(small, constants):
    constants.set(remembered_words=5)
    fresh = GPT2Tokenizer(small.tokens, small.merges)
    assert fresh.encode(TEXT) == small.encode(TEXT)
    kept = [len(results) for results in vars(fresh).values() if isinstance(results, Remembered)]
    assert kept and all(1 <= size <= 5 for size in kept)


# --- streaming -------------------------------------------------------------------------------------------------------


def test_a_character_is_given_out_when_its_last_byte_has_come(small):
    bytes_alone = GPT2Tokenizer([*gpt2.CHARACTER_OF.values(), END], [])
    stream = bytes_alone.streaming()
    assert [stream.feed(i) for i in bytes_alone.encode("a가👋")] == ["a", "", "", "가", "", "", "", "👋"]
    assert stream.end() == ""
    first, second, _ = bytes_alone.encode("가")
    assert [stream.feed(i) for i in (first, second, 256)] == ["", "", f"\N{REPLACEMENT CHARACTER}{END}"]
    assert (stream.feed(first), stream.end(), stream.end()) == ("", "\N{REPLACEMENT CHARACTER}", "")


@settings(deadline=None)
@given(raw=st.text("the cat\nsx", max_size=20))
def test_streaming_of_the_other_tokenizers_gives_their_text_and_never_takes_it_back(raw):
    for one in (CharTokenizer.train(TEXT + "x"), GPT1Tokenizer.train(TEXT, 90, pipeline="rules", progress=False)):
        ids, stream, shown = one.encode(raw), one.streaming(), ""
        for n, i in enumerate(ids, start=1):
            shown += stream.feed(i)
            assert shown == one.decode(ids[:n])
        assert stream.end() == "" and shown == one.decode(ids)


def test_what_was_given_out_stays_even_where_decoding_changes_its_mind():
    stream = Stream(lambda ids: {1: "ab", 2: "a", 3: "abc"}[len(ids)])
    assert [stream.feed(0) for _ in range(3)] + [stream.end()] == ["ab", "", "c", ""]


def test_only_byte_level_vocabularies_end_texts():
    assert CharTokenizer.train("ab").end_of_text_id is None and Tokenizer(["a"]).special == ()
    assert GPT2Tokenizer([*gpt2.CHARACTER_OF.values(), END], [], special=()).end_of_text_id is None


# --- training --------------------------------------------------------------------------------------------------------


def test_the_layout_of_a_trained_vocabulary(small):
    merged = [left + right for left, right in small.merges]
    assert small.tokens == [*gpt2.CHARACTER_OF.values(), *merged, END] and small.vocab_size == 310
    assert small.special == (END,) and small.end_of_text_id == 309 and small.newline_id == 198
    assert small.merges[0] == ("a", "t") and small.token(262) == "ê³ł" and small.encode("고") == [262]
    listing = list(small.listing())
    assert listing[262] == "[\\xea][\\xb3\\xa0] -> [고] 262" and listing[294] == "[ ][고양이] -> [ 고양이] 294"


def test_training_takes_one_text_or_several_and_leaves_out_ends_of_text(small):
    lines = TEXT.split("\n고")
    several = GPT2Tokenizer.train([lines[0], *("\n고" + line for line in lines[1:])], 310, progress=False)
    assert several.tokens == small.tokens
    marked = GPT2Tokenizer.train(END.join(["ab ab", "ab ab", ""]), 300, progress=False)
    assert marked.merges == [("a", "b"), ("Ġ", "ab")]
    assert GPT2Tokenizer.train("ab", 300, min_frequency=1, progress=False).merges == [("a", "b")]
    assert GPT2Tokenizer.train("xa xb", 258, progress=False, ties="subword-nmt").merges == []


def test_the_tie_rule_may_be_chosen():
    assert GPT2Tokenizer.train("xaxa xbxb", 258, progress=False).merges == [("x", "a")]
    assert GPT2Tokenizer.train("xaxa xbxb", 258, progress=False, ties="subword-nmt").merges == [("x", "b")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GPT2Tokenizer.train("", 300), "the text is empty"),
        (lambda: GPT2Tokenizer.train([END, ""], 300), "the text is empty"),
        (lambda: GPT2Tokenizer.train("abc", 256), "256 is too small: the bytes and <.endoftext.> take 257"),
        (lambda: GPT2Tokenizer.train("abc", 300, ties="other"), "'other' is not known"),
        (lambda: GPT2Tokenizer(["a", "a"], [], ()), "'a' twice"),
        (lambda: GPT2Tokenizer(["a"], []), "lacks the special token '<.endoftext.>'"),
        (lambda: GPT2Tokenizer(["a b"], [], ()), "the token 'a b' is not byte-level: ' ' stands for no byte"),
    ],
)
def test_what_cannot_be_made_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [gpt1.HUGGING_FACE_FILES, gpt2.OPENAI_FILES])
@pytest.mark.parametrize("config", [True, False])
def test_saved_and_loaded_it_gives_the_same_ids(small, tmp_path, names, config):
    folder = tmp_path / "new" / "folder"
    small.save(folder, names)
    assert {path.name for path in folder.iterdir()} == {*names, "tokenizer_config.json"}
    if not config:
        (folder / "tokenizer_config.json").unlink()
    again = load_tokenizer(folder)
    assert isinstance(again, GPT2Tokenizer)
    assert (again.tokens, again.merges, again.special) == (small.tokens, small.merges, small.special)
    assert again.encode(TEXT) == small.encode(TEXT)


def test_special_tokens_are_kept(small, tmp_path):
    tokens = [*small.tokens, "<|한국어|>"]
    GPT2Tokenizer(tokens, small.merges, [END, "<|한국어|>"]).save(tmp_path / "two")
    GPT2Tokenizer(tokens[:-1], small.merges, []).save(tmp_path / "none")
    two, none = load_tokenizer(tmp_path / "two"), load_tokenizer(tmp_path / "none")
    assert two.special == (END, "<|한국어|>") and two.encode("<|한국어|>", "all") == [310]
    assert two.decode([310]) == "<|한국어|>"
    assert none.special == (END,), "a token of that name ends texts, whoever wrote the file"


def test_the_published_files_are_written_as_they_were_read(published, eval_data, tmp_path):
    published.save(tmp_path, names=gpt2.OPENAI_FILES)
    vocabulary, merges = gpt2.OPENAI_FILES
    assert (tmp_path / merges).read_bytes() == (eval_data / "gpt2_vocab" / merges).read_bytes()
    theirs = json.loads((eval_data / "gpt2_vocab" / vocabulary).read_text(encoding="utf-8"))
    assert json.loads((tmp_path / vocabulary).read_text(encoding="utf-8")) == theirs


def all_in_one(one, merges=None, **changes) -> dict:
    """What Hugging Face writes as tokenizer.json, as far as it matters."""
    words = isinstance(one, GPT1Tokenizer)
    model = {
        "type": "BPE", "end_of_word_suffix": "</w>" if words else "", "unk_token": "<unk>" if words else None,
        "vocab": {token: i for token, i in one.ids.items() if token not in one.special},
        "merges": list(map(list, one.merges)) if merges is None else merges,
    }  # fmt: skip
    added = [{"id": one.ids[token], "content": token, "special": True} for token in one.special]
    before = {"type": "BertPreTokenizer" if words else "ByteLevel"}
    cleaning = layouts.WORDS.normalizer if words else None
    return {"added_tokens": added, "normalizer": cleaning, "pre_tokenizer": before, "model": model} | changes


@pytest.mark.parametrize("name", [None, "its own", "PreTrainedTokenizerFast", "TokenizersBackend"])
@pytest.mark.parametrize("strings", [True, False])
def test_one_file_for_all_as_newer_libraries_write(small, tmp_path, name, strings):
    for one, own in (
        (GPT2Tokenizer([*small.tokens, "<|x|>"], small.merges, [END, "<|x|>"]), "GPT2Tokenizer"),
        (GPT1Tokenizer.train(TEXT, 90, pipeline="rules", progress=False), "OpenAIGPTTokenizer"),
    ):
        folder = tmp_path / own
        folder.mkdir()
        saved = all_in_one(one, [" ".join(pair) for pair in one.merges] if strings else None)
        (folder / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
        if name:
            config = {"tokenizer_class": own if name == "its own" else name}
            (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        again = load_tokenizer(folder)
        assert type(again) is type(one) and (again.tokens, again.merges) == (one.tokens, one.merges)
        assert again.special == one.special


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": []}, "its model's type is null"),
        ({"model": {"vocab": {}, "merges": None}}, "holds no byte-pair encoding"),
        ({"model": {"vocab": {}, "merges": []}, "added_tokens": []}, "holds no vocabulary"),
        ({"added_tokens": [5]}, "expected a list of objects"),
        ({"added_tokens": 5}, "its added_tokens are 5: expected a list of objects"),
        ({"added_tokens": [{"content": ["x"], "id": 1, "special": True}]}, "expected a list of objects"),
        ({"added_tokens": [{"content": "x", "id": 5, "special": True}]}, "have the same id 5"),
        ({"merges": [["a", "t"], ["a", "t"]]}, "merge 2: the merge 'a t' stands on merge 1 already"),
        ({"merges": [["a", "t"], ["a", 1]]}, "merge 2: .* is not a merge"),
        ({"merges": [None]}, "merge 1: 'None' is not a merge"),
        ({"merges": ["x y"]}, "merge 1, 'x y', needs the token 'xy', which the vocabulary lacks"),
    ],
)
def test_damaged_files_of_newer_libraries_are_named(small, tmp_path, changes, message):
    saved = all_in_one(small, **changes)
    if "merges" in changes:
        saved["model"]["merges"] = changes["merges"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.json", None, "vocab.json cannot be read \\(No such file"),
        ("merges.txt", None, "merges.txt cannot be read \\(No such file"),
        ("vocab.json", b'{"a": 0, ', "vocab.json is not JSON"),
        ("vocab.json", b'{"a": 0, "b": 0}', "'a' and 'b' have the same id 0"),
        ("vocab.json", b'{"a": 0, "b": 2}', "'b' has the id 2, expected a number from 0 to 1"),
        ("vocab.json", b'{"t": 0, "a": 1}', "do not belong together: merge 1, 'a t', needs"),
        ("vocab.json", '{"가": 0}'.encode(), "do not belong together"),
        ("merges.txt", "#version: 0.2\nĠ t\nabc\n".encode(), "merges.txt, line 3: 'abc' is not a merge"),
        ("merges.txt", b"#version: 0.2\na t\na  t\n", "merges.txt, line 3: 'a  t' is not a merge"),
        ("merges.txt", b"a t\na t\n", "line 2: the merge 'a t' stands on line 1 already"),
        ("merges.txt", b"q q\n", "merge 1, 'q q', needs the token 'qq'"),
        ("merges.txt", b"\xff", "not UTF-8"),
        ("tokenizer_config.json", b'{"tokenizer_class": "FSMTTokenizer"}', "the tokenizer class 'FSMTTokenizer'"),
        ("tokenizer_config.json", b'{"add_prefix_space": 1}', "add_prefix_space is 1: expected true or false"),
        ("tokenizer_config.json", b'{"add_bos_token": true}', "sets add_bos_token"),
    ],
)
def test_damaged_files_are_named(small, tmp_path, file, content, message):
    small.save(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(tmp_path)
    assert "\n" not in str(error.value)


def test_the_files_of_one_kind_under_the_name_of_the_other(small, tmp_path):
    GPT1Tokenizer.train(TEXT, 90, pipeline="rules", progress=False).save(tmp_path / "gpt1")
    small.save(tmp_path / "gpt2")
    for name, other in (("gpt1", "gpt2"), ("gpt2", "gpt1")):
        (tmp_path / name / "tokenizer_config.json").write_text(json.dumps({}), encoding="utf-8")
        assert type(load_tokenizer(tmp_path / name)) is tokenizer.KINDS[name]
        own = {"gpt1": "GPT2Tokenizer", "gpt2": "OpenAIGPTTokenizer"}[name]
        (tmp_path / name / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": own}), encoding="utf-8")
        with pytest.raises(InputError, match={"gpt2": "not byte-level", "gpt1": "no <unk> token"}[other]):
            load_tokenizer(tmp_path / name)


# --- the commands ----------------------------------------------------------------------------------------------------


def test_the_commands_use_every_kind(tmp_path, capsys):
    data = tmp_path / "text.txt"
    data.write_text(TEXT * 9, encoding="utf-8")
    for kind, tokens in (("gpt2", 300), ("char", len(set(TEXT)))):
        folder = str(tmp_path / kind)
        size = ["--vocab", "300"] if kind == "gpt2" else []
        assert main(["tokenizer", "train", "--kind", kind, "--data", str(data), *size, "--out", folder]) == 0
        assert capsys.readouterr().out.startswith(f"{tokens} tokens: {folder}\nnow: minigpt train ")
        assert type(load_tokenizer(folder)) is tokenizer.KINDS[kind]
        assert main(["tokenizer", "encode", folder, "The  고양이"]) == 0
        ids = capsys.readouterr().out.split()
        assert main(["tokenizer", "decode", folder, *ids]) == 0
        assert capsys.readouterr().out == "The  고양이\n"
        assert main(["tokenizer", "list", folder]) == 0
        assert len(capsys.readouterr().out.splitlines()) == tokens
    gpt2_folder, char_folder = str(tmp_path / "gpt2"), folder
    assert main(["tokenizer", "encode", "--special", gpt2_folder, END]) == 0
    assert capsys.readouterr().out == "299\n"
    assert main(["tokenizer", "encode", gpt2_folder, END]) == 0
    assert len(capsys.readouterr().out.split()) > 1
    assert main(["tokenizer", "encode", "--special", char_folder, END]) == 2
    assert "has no special tokens" in capsys.readouterr().err
    out = str(tmp_path / "new")
    assert main(["tokenizer", "train", "--kind", "char", "--vocab", "9", "--data", str(data), "--out", out]) == 2
    assert "leave --vocab out" in capsys.readouterr().err
    assert main(["tokenizer", "encode", gpt2_folder, "a\udcff"]) == 2
    assert "surrogate" in capsys.readouterr().err


def test_gpt2_is_trained_with_bytes(tmp_path):
    sizes = {"layers": 1, "heads": 1, "embd": 4, "context": 16, "batch": 2, "steps": 1}
    text = {"data": "stories:20", "tokenizer": "bpe:300"}
    job = prepare(PretrainOptions(model="gpt2", out=str(tmp_path / "run"), device="cpu", **sizes, **text))
    assert type(job.text) is GPT2Tokenizer and job.text.vocab_size == 300


# --- against other programs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(published):
    """tiktoken, with the published vocabulary."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes_of(published.tokens[i]): i for i in range(50_256)}
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END: 50256})


PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@functools.cache
def assigned() -> list[str]:
    """Characters that Unicode has known for long: newer libraries know more letters. (Cs: surrogates.)"""
    return [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]


@pytest.mark.parity
@settings(deadline=None, max_examples=300)
@given(raw=st.text(st.deferred(lambda: st.sampled_from(assigned())), max_size=40) | awkward_text)
@example("'S 's  'll\u3000 \x1c\x85'd")
def test_tiktoken_gives_the_same_ids(published, theirs, raw):
    assert published.encode(raw) == theirs.encode_ordinary(raw)
    assert published.encode(raw, [END]) == theirs.encode(raw, allowed_special="all")


@pytest.mark.parity
@pytest.mark.parametrize("characters", ["a", "0123456789", "ACGT", " ", "\n", " \t\n", "'", "한국어", "😀", "あ漢"])
def test_tiktoken_gives_the_same_ids_for_100_000_characters_without_a_space(published, theirs, characters):
    raw = "".join(random.Random(0).choices(characters, k=100_000))
    assert published.encode(raw) == theirs.encode_ordinary(raw)


@pytest.mark.parity
@pytest.mark.slow
def test_tiktoken_gives_the_same_ids_for_ten_megabytes_of_prose(published, theirs, eval_data):
    raw = (eval_data / "prose" / "prose_10MB.txt").read_text(encoding="utf-8")
    ids = published.encode(raw)
    assert ids == theirs.encode_ordinary(raw) and len(ids) > 2_000_000
    assert published.decode(ids) == raw


@pytest.mark.parity
@pytest.mark.slow
def test_tiktoken_gives_the_same_ids_for_100_000_random_strings(published, theirs):
    rng = random.Random(0)
    ranges = [*(assigned()[:n] for n in (None, 128, 3000, 50_000)), list(" \n\t\r\u00a0\u3000\x85\x1c'stré한")]
    wrong = []
    for _ in range(100_000):
        raw = "".join(rng.choice(rng.choice(ranges)) for _ in range(rng.randrange(40)))
        if published.encode(raw) != theirs.encode_ordinary(raw):
            wrong.append(raw)
    assert wrong == []


@pytest.mark.parity
@pytest.mark.parametrize("language", ["English", "Korean"])
def test_20_000_merges_are_those_of_the_tokenizers_library(eval_data, language):
    tokenizers = pytest.importorskip("tokenizers")
    if language == "English":
        raw = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    else:
        rows = (eval_data / "nsmc" / "ratings_train_20k.txt").read_text(encoding="utf-8").splitlines()[1:]
        raw = "\n".join(row.split("\t")[1] for row in rows).encode()[:1_000_000].decode(errors="ignore")
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + 20_000, min_frequency=1, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator([raw], trainer)
    learnt = json.loads(library.to_str())["model"]
    ours = GPT2Tokenizer.train(raw, 256 + 20_000 + 1, min_frequency=1, progress=False)
    assert len(ours.merges) == 20_000 and ours.merges == list(map(tuple, learnt["merges"]))
    assert {token: i for token, i in ours.ids.items() if token != END} == learnt["vocab"]
    assert ours.encode(raw[:100_000]) == library.encode(raw[:100_000]).ids


@pytest.mark.parity
def test_transformers_opens_our_folder_and_we_open_theirs(small, published, tmp_path):
    transformers = pytest.importorskip("transformers")
    for name, ours in (("small", small), ("published", published)):
        ours.save(tmp_path / name)
        opened = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        assert type(opened).__name__.startswith("GPT2Tokenizer")
        raw = TEXT + END
        assert opened(raw)["input_ids"] == ours.encode(raw, "all") and opened.decode(ours.encode(TEXT)) == TEXT
        assert (opened.eos_token_id, len(opened)) == (ours.end_of_text_id, ours.vocab_size)
        opened.save_pretrained(tmp_path / f"{name} again")
        again = load_tokenizer(tmp_path / f"{name} again")
        assert (again.tokens, again.merges, again.special) == (ours.tokens, ours.merges, ours.special)


@pytest.mark.parity
def test_gpt1_s_folder_saved_again_by_transformers_is_opened(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = GPT1Tokenizer.train(TEXT, 90, pipeline="rules", progress=False)
    ours.save(tmp_path / "ours")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    assert not (tmp_path / "theirs" / "vocab.json").exists() or transformers.__version__ < "5"
    again = load_tokenizer(tmp_path / "theirs")
    assert isinstance(again, GPT1Tokenizer) and (again.tokens, again.merges) == (ours.tokens, ours.merges)
