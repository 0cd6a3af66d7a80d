"""Characters as tokens: round trips, and the same ids as the `tokenizers` library."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt import load_tokenizer
from minigpt.errors import InputError
from minigpt.tokenizer import CharTokenizer

TEXT = "To be, or not to be:\nthat is the question. 질문 😀\t\r\n"


def test_the_vocabulary_is_the_sorted_characters():
    chars = CharTokenizer.train("hello\nworld")
    assert chars.tokens == ["\n", "d", "e", "h", "l", "o", "r", "w"]
    assert (chars.vocab_size, chars.token(0), chars.unknown_id, chars.newline_id) == (8, "\n", None, 0)
    assert chars.encode("hello\n") == [3, 2, 4, 4, 5, 0]
    assert chars.decode([3, 2, 4, 4, 5, 0]) == "hello\n"
    assert chars.count_unknown([3, 2]) == 0
    assert list(chars.listing())[:2] == ["[\\n] 0", "[d] 1"]
    assert CharTokenizer.train(["hello\n", "world"]).tokens == chars.tokens


@settings(deadline=None)
@given(raw=st.text(min_size=1, max_size=50))
def test_any_text_comes_back(raw):
    chars = CharTokenizer.train(raw)
    ids = chars.encode(raw)
    assert len(ids) == len(raw) and all(type(i) is int for i in ids)
    assert chars.decode(ids) == chars.decode(np.array(ids)) == raw
    assert chars.vocab_size == len(set(raw))


def test_empty_text_is_no_ids():
    chars = CharTokenizer.train("ab")
    assert chars.encode("") == [] and chars.decode([]) == ""


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("aéb", r"'é' \(U\+00E9\), number 2 of the text, is not one of the 2"),
        ("ab?", r"'\?' \(U\+003F\), number 3"),
        ("😀", r"U\+1F600.*number 1"),
        ("\ud800", r"U\+D800"),
    ],
)
def test_an_unknown_character_is_named(raw, message):
    with pytest.raises(InputError, match=message):
        CharTokenizer.train("ab").encode(raw)


@pytest.mark.parametrize("ids", [[0, 2], [-1, 1], np.array([5]), [0.5], ["a"]])
def test_ids_outside_the_vocabulary_are_refused(ids):
    with pytest.raises(InputError, match="token id"):
        CharTokenizer.train("ab").decode(ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CharTokenizer.train(""), "the text is empty"),
        (lambda: CharTokenizer.train("a\ud800"), "not one character"),
        (lambda: CharTokenizer(["ab"]), "'ab' is not one character"),
        (lambda: CharTokenizer(["a", "a"]), "'a' twice"),
    ],
)
def test_what_cannot_be_a_character_vocabulary_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_saved_and_loaded_it_gives_the_same_ids(tmp_path):
    chars = CharTokenizer.train(TEXT)
    chars.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert isinstance(again, CharTokenizer) and again.tokens == chars.tokens
    (tmp_path / "tokenizer_config.json").unlink()
    assert load_tokenizer(tmp_path).encode(TEXT) == chars.encode(TEXT)


def test_special_tokens_stand_after_the_characters_and_no_text_is_one(tmp_path):
    chars = CharTokenizer.train("_start_ of it")
    wider = chars.with_special(("_start_", "_end_"))
    assert wider.tokens == [*chars.tokens, "_start_", "_end_"] and wider.special == ("_start_", "_end_")
    assert wider.encode("_start_ of it") == chars.encode("_start_ of it")
    assert wider.decode([*wider.encode("it"), wider.ids["_end_"]]) == "it_end_"
    with pytest.raises(InputError, match="is not one of the 9"):
        wider.encode("end")
    more = wider.with_special(("_more_",))
    for one in (wider, more):
        one.save(tmp_path)
        again = load_tokenizer(tmp_path)
        assert (again.tokens, again.special) == (one.tokens, one.special)
        assert again.encode("_start_") == chars.encode("_start_")


@pytest.mark.parametrize("special", [["_start_"], ["_end_"], "_end_", 7, ["_start_", "_end_", "x"] * 9])
def test_special_tokens_that_are_not_the_last_ones_are_refused(tmp_path, special):
    CharTokenizer.train("ab").with_special(("_start_", "_end_")).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"character_special_tokens": special}), encoding="utf-8")
    with pytest.raises(InputError, match="are not the last tokens|is not one character"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved.pop("model"), "type is null, which is not built: built are WordPiece, Unigram, BPE, "),
        (lambda saved: saved["model"].update(type="BPE"), "the BPE in its model lacks the setting 'merges'"),
        (lambda saved: saved["model"].update(vocab={"a": 0, "c": 1}), "not what was saved"),
        (lambda saved: saved["model"].update(vocab={}), "holds no vocabulary"),
        (lambda saved: saved["model"].update(vocab={"a": 0, "word": 1}), "'word' is not one character"),
        (lambda saved: saved["model"].update(vocab={"a": 1}), "'a' has the id 1"),
    ],
)
def test_foreign_and_damaged_files_are_named(tmp_path, change, message):
    CharTokenizer.train("ab").save(tmp_path)
    path = tmp_path / "tokenizer.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    change(saved)
    path.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(InputError, match="not JSON"):
        load_tokenizer(tmp_path)


@pytest.mark.parity
@settings(deadline=None)
@given(raw=st.text(min_size=1, max_size=50))
def test_the_tokenizers_library_agrees(tmp_path_factory, raw):
    tokenizers = pytest.importorskip("tokenizers")
    raw += "\n\n\r\n"
    folder = tmp_path_factory.mktemp("char")
    ours = CharTokenizer.train(raw)
    ours.save(folder)
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert theirs.encode(raw).ids == ours.encode(raw)
    assert theirs.decode(ours.encode(raw)) == raw
    with pytest.raises(Exception, match="Missing"):
        theirs.encode("".join(chr(c) for c in range(97, 123) if chr(c) not in raw)[0])


@pytest.mark.parity
def test_transformers_opens_our_folder_and_we_open_theirs(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = CharTokenizer.train(TEXT)
    ours.save(tmp_path / "ours")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert theirs(TEXT)["input_ids"] == ours.encode(TEXT)
    theirs.save_pretrained(tmp_path / "theirs")
    assert load_tokenizer(tmp_path / "theirs").tokens == ours.tokens


@pytest.mark.parity
def test_transformers_opens_special_tokens_after_characters(tmp_path):
    transformers = pytest.importorskip("transformers")
    wider = CharTokenizer.train(TEXT + "_start_").with_special(("_start_", "_end_"))
    wider.save(tmp_path / "first")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "first")
    assert theirs(TEXT + "_start_")["input_ids"] == wider.encode(TEXT + "_start_")
    assert len(theirs) == wider.vocab_size and theirs.convert_tokens_to_ids("_end_") == wider.ids["_end_"]
    theirs.save_pretrained(tmp_path / "second")
    assert load_tokenizer(tmp_path / "second").special == wider.special
