"""WordPiece and the files of published tokenizers: what was recorded of the libraries, and what is refused."""

import json

import pytest

from minigpt import tokenizer
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.tokenizer import characters, load, steps_before
from minigpt.tokenizer.wordpiece import SPECIAL, WordPiece

WORDS = (
    *SPECIAL,
    "the",
    "cat",
    "##s",
    "un",
    "##aff",
    "##able",
    "!",
    "강",
    "##아지",
    "가",
    "ᄀ",
    "##ᅡ",
    "e",
    "é",
    "中",
    "日",
)


def write(folder, config=None, words=WORDS, **files):
    """A folder with a vocab.txt, unless words are None, and other files as objects."""
    folder.mkdir(exist_ok=True)
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    for name, content in ({"tokenizer_config": config} | files).items():
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_the_longest_piece_first():
    model = WordPiece(WORDS)
    assert [model.tokens[i] for i in model.encode("unaffable")] == ["un", "##aff", "##able"]
    assert model.encode("unaffablex") == [1], "one part is not found: the whole word is unknown"
    assert model.encode("cat" * 40) == [1] and WordPiece(WORDS, longest=3).encode("cats") == [1]
    long = WordPiece([*WORDS, "a", "##a"])
    assert len(long.encode("a" * 100)) == 100 and long.encode("a" * 101) == [1]


def test_the_text_of_bert_without_capitals_and_accents():
    normal = steps_before.bert_normalizer()
    assert normal("Thé\x00\ufffd C\u0301\tÀ\u00a0ΣΑΣ İ") == "the c a σασ i"
    assert normal("日本語 한中") == " 日  本  語  \u1112\u1161\u11ab 中 ", (
        "a space around Chinese characters, and Hangul in its letters"
    )
    assert steps_before.bert_normalizer(lowercase=False)("Thé 가") == "Thé 가"
    assert steps_before.bert_normalizer(lowercase=False, strip_accents=True)("Thé 가") == "The \u1100\u1161"
    assert steps_before.bert_normalizer(strip_accents=False)("THÉ") == "thé"
    assert steps_before.bert_splitter()("don't $5 a_b。x\u3000y", True) == [
        "don", "'", "t", "$", "5", "a", "_", "b", "。", "x", "y"
    ]  # fmt: skip


def test_characters_of_later_versions_of_unicode_are_as_the_library_takes_them():
    assert characters.small("\ua7cb") == "\u0264" and characters.small("\U00010d51") == "\U00010d71"
    assert characters.normal_form("NFKD", "\u32ff①") == "\u32ff1"
    assert not characters.is_punctuation("\u2e43") and characters.is_punctuation("$")
    assert not characters.is_control("\u0378"), "not assigned: no control character"
    assert characters.is_control("\ue000") and characters.is_control("\u200d")


def test_a_vocabulary_alone_is_bert(tmp_path):
    text = load(write(tmp_path / "a"))
    assert text.encode_pair("The CATS!", "cat") == ([2, 5, 6, 7, 11, 3, 6, 3], [0] * 6 + [1] * 2)
    assert text.decode([2, 5, 6, 7, 11, 3]) == "[CLS] the cats! [SEP]"
    assert text.decode([2, 5, 6, 7, 11, 3], skip_special=True) == "the cats!"
    assert text.encode("가") == [15, 16] and text.encode("é") == [17]
    cased = load(write(tmp_path / "b", {"do_lower_case": False, "tokenizer_class": "ElectraTokenizerFast"}))
    assert cased.encode("가 é 강아지 Cat") == [14, 18, 12, 13, 1]
    assert cased.encode("中日") == [19, 20]
    together = load(write(tmp_path / "c", {"tokenize_chinese_chars": False}))
    assert together.encode("中日") == [1]
    assert text.role("mask") == 4 and text.role("start") == 2 and text.role("pad") == 0


def test_saved_and_opened_again(tmp_path):
    text = load(write(tmp_path / "a", {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}))
    folder = tmp_path / "b"
    folder.mkdir()
    text.with_special(["_mask_", "_classify_"]).save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    again = load(folder)
    assert again.tokens == [*WORDS, "_classify_"] and again.own == ("_classify_",)
    assert again.encode_pair("Cat cat", "강아지") == text.encode_pair("Cat cat", "강아지")
    assert again.with_special(["_mask_", "_classify_"]).vocab_size == 22
    for name in ("tokenizer.json", "vocab.txt"):
        path = folder / name
        kept = path.read_text(encoding="utf-8")
        path.write_text(kept.replace("cat", "dog"), encoding="utf-8")
        with pytest.raises(InputError, match=f"{name}"):
            load(folder)
        path.write_text(kept, encoding="utf-8")
    saved = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    saved["normalizer"]["clean_text"] = False
    (folder / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(InputError, match="is not what was saved"):
        load(folder)


def described(**parts):
    """The content of a tokenizer.json for the words."""
    model = {"type": "WordPiece", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"}
    return {
        "version": "1.0",
        "model": model | parts.pop("model", {}),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
    } | parts


NAMES = [
    ({"do_lower_case": "no"}, "do_lower_case is 'no': expected true or false"),
    ({"do_basic_tokenize": False}, "do_basic_tokenize is false"),
    ({"never_split": ["cat"]}, "never_split is .'cat'.: words that are never split are not built"),
    ({"mask_token": 5}, "mask_token is 5: expected a text, or an object with its content"),
    ({"mask_token": "[NONE]"}, "names the special token '.NONE.', which the vocabulary lacks"),
    ({"additional_special_tokens": 3}, "additional_special_tokens is 3: expected a list"),
    ({"added_tokens_decoder": {"x": "a"}}, "expected an object of ids and"),
    ({"minigpt_special_tokens": "x"}, "minigpt_special_tokens is 'x': expected a list of names"),
    ({"padding_side": "top"}, "padding_side is 'top': expected left or right"),
    ({"tokenizer_class": "FSMTTokenizer"}, "names the tokenizer class 'FSMTTokenizer', known here are AlbertTokenizer"),
]


@pytest.mark.parametrize(("config", "message"), NAMES)
def test_a_setting_that_is_not_done_is_named(tmp_path, config, message):
    with pytest.raises(InputError, match=message) as raised:
        load(write(tmp_path / "a", config))
    assert "\n" not in str(raised.value) and "tokenizer_config.json" in str(raised.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["[UNK]", "[CLS]", "a"], r"vocab.txt lacks the special token '\[SEP\]': add it there"),
        ([*SPECIAL, "a", "b", "a"], "line 8: 'a' stands on line 6 already"),
        ([" "], "vocab.txt is empty"),
    ],
)
def test_a_damaged_vocabulary_is_named(tmp_path, words, message):
    with pytest.raises(InputError, match=message):
        load(write(tmp_path / "a", words=words))


WRONG = [
    (
        {"normalizer": {"type": "Lowercased"}},
        "normalizer is of the type 'Lowercased', which is not built: built are Bert",
    ),
    ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "its pre_tokenizer is of the type 'UnicodeScripts', which is not"),
    ({"decoder": {"type": "CTC"}}, "its decoder is of the type 'CTC', which is not built"),
    ({"post_processor": "x"}, "its post_processor is of the type 'x', which is not built"),
    ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Odd"}]}}, "normalizer is of the type 'Odd'"),
    ({"normalizer": {"type": "Sequence"}}, "the Sequence in its normalizer has no list 'normalizers'"),
    (
        {"normalizer": {"type": "Strip", "odd": 1}},
        "the Strip in its normalizer has the setting 'odd', which is not known",
    ),
    ({"normalizer": {"type": "Prepend"}}, "the Prepend in its normalizer lacks the setting 'prepend'"),
    ({"normalizer": {"type": "Strip", "strip_left": 1}}, "has strip_left 1, which is of another type"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "precompiled_charsmap is no base64"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "is damaged or cut off"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}}, "pattern '.' cannot be read"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": r"\ba"}, "content": ""}}, r"has .b, which is not built"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(?m:.)"}, "content": ""}}, r"has \(.m:, which is not"),
    ({"normalizer": {"type": "Replace", "pattern": {"Glob": "("}, "content": ""}}, "the pattern .* is not known"),
    (
        {"pre_tokenizer": {"type": "Punctuation", "behavior": "Odd"}},
        "the behavior 'Odd' is not known: there are Removed",
    ),
    ({"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "odd"}}, "the prepend_scheme 'odd' is not known"),
    ({"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": ""}}, "its delimiter is '': expected one character"),
    ({"pre_tokenizer": {"type": "Metaspace", "replacement": "__"}}, "its replacement is '__': expected one character"),
    ({"decoder": {"type": "Strip", "content": "ab"}}, "its content is 'ab': expected one character"),
    ({"post_processor": {"type": "BertProcessing", "sep": [], "cls": []}}, "is no token with its id"),
    (
        {"post_processor": {"type": "TemplateProcessing", "single": [1], "pair": [], "special_tokens": {}}},
        "has 1: expect",
    ),
    (
        {"post_processor": {"type": "TemplateProcessing", "single": [{"B": None}], "pair": [], "special_tokens": {}}},
        "has {'B': None}: expected a SpecialToken",
    ),
    ({"model": {"type": ["WordPiece"]}}, "its model's type is .'WordPiece'., which is not built"),
    (
        {"added_tokens": [{"content": "x", "id": 3, "special": True}]},
        "added token 'x' has the id 3: by the vocabulary it is 21",
    ),
    ({"added_tokens": [{"content": "x"}]}, "its added_tokens have .*: expected a list of objects"),
    ({"added_tokens": [{"content": "x", "id": 21, "special": True, "lstrip": 1}]}, "'x' has lstrip 1: give true"),
    ({"model": {"type": "WordLevels"}}, "WordLevels"),
    ({"model": {"odd": 1}}, "its model has the setting 'odd', which is not known here"),
    ({"model": {"unk_token": "<unk>"}}, "the vocabulary lacks '<unk>'"),
    ({"model": {"max_input_chars_per_word": "x"}}, "_chars_per_word 'x', which is .*: expected a whole"),
    ({"model": {"vocab": {"[UNK]": 0, "a": 2}}}, "token 'a' has the id 2, expected a number from 0 to 1"),
    ({"version": "2.0"}, "its version is '2.0'"),
    ({"odd": 1}, "its part 'odd' is not known here"),
]


@pytest.mark.parametrize(("parts", "message"), WRONG)
def test_a_part_that_is_not_built_is_named(tmp_path, parts, message):
    with pytest.raises(InputError, match=message) as raised:
        load(write(tmp_path / "a", words=None, tokenizer=described(**parts)))
    assert "\n" not in str(raised.value) and "tokenizer.json" in str(raised.value)


def test_two_files_that_disagree_are_named(tmp_path):
    with pytest.raises(InputError, match="holds another vocabulary than vocab.txt beside it"):
        load(write(tmp_path / "a", tokenizer=described(), words=[*WORDS[:-1], "other"]))
    bert = {"type": "BertNormalizer", "lowercase": False}
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    with pytest.raises(InputError, match="two files disagree: do_lower_case is True in tokenizer_config.json"):
        load(write(tmp_path / "b", config, tokenizer=described(normalizer=bert)))
    assert load(write(tmp_path / "c", config | {"do_lower_case": False}, tokenizer=described(normalizer=bert)))
    added = {"content": "x", "id": 21, "special": True}
    config = {"added_tokens_decoder": {"22": {"content": "x"}}}
    with pytest.raises(InputError, match="do not agree on the added token 'x': 21 and 22"):
        load(write(tmp_path / "d", config, tokenizer=described(added_tokens=[added])))
    config = {"added_tokens_decoder": {"21": {"content": "y"}}}
    with pytest.raises(InputError, match="its added tokens 'x' and 'y' have the same id 21"):
        load(write(tmp_path / "e", config, tokenizer=described(added_tokens=[added])))


def test_cutting_and_filling_up_are_left_out(tmp_path):
    """Files that transformers saved after an encoding hold them; it leaves them out for one text."""
    padding = {"strategy": {"Fixed": 8}, "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    cut = described(truncation={"max_length": 2, "strategy": "LongestFirst", "stride": 0}, padding=padding)
    text = load(write(tmp_path / "a", words=None, tokenizer=cut))
    assert text.encode("the cat the cat") == [5, 6, 5, 6] and text.padding_side == "left"


def test_the_trainer_merges_the_most_frequent_pair():
    counts = {"abab": 5, "ab": 3, "cb": 2, "z": 1}
    model = WordPiece.train(counts, 14, coverage=1.0, progress=False)
    symbols = ["a", "b", "c", "z", "##a", "##b"]
    assert model.tokens == [*SPECIAL, *symbols, "ab", "##ab", "abab"]
    assert [model.tokens[i] for i in model.encode("ababab")] == ["abab", "##ab"]
    with pytest.raises(InputError, match="10 pieces do not hold the 6 signs of the text: give 11 or more"):
        WordPiece.train(counts, 10, coverage=1.0)
    with pytest.raises(InputError, match="the text is empty"):
        WordPiece.train("", 10)
    assert WordPiece.train({**counts, "": 9}, 14, coverage=1.0, progress=False).tokens == model.tokens
    rare = WordPiece.train("ab ab ab cd", 12, coverage=0.5, progress=False)
    assert "c" not in rare.tokens and "ab" in rare.tokens, "words with rare characters are left out"


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "bpe"])
def test_every_kind_is_trained_on_the_command_line(tmp_path, capsys, kind):
    data = tmp_path / "text.txt"
    data.write_text("the cat sat on the mat.\nthe dog sat on a log.\n\n" * 40, encoding="utf-8")
    folder = tmp_path / kind
    options = ["--kind", kind, "--data", str(data), "--vocab", "300" if kind == "bpe" else "60", "--out", str(folder)]
    assert main(["tokenizer", "train", *options]) == 0
    text = load(folder)
    assert isinstance(text, tokenizer.PieceTokenizer) and text.vocab_size <= 300
    assert text.decode(text.encode("the cat sat on a log.")) == "the cat sat on a log."
    assert text.role("unknown") == text.unknown_id is not None
    capsys.readouterr()
    assert main(["tokenizer", "encode", "--special", str(folder), "the cat"]) == 0
    assert capsys.readouterr().out.split() == list(map(str, text.encode("the cat")))
    assert main(["tokenizer", "train", *options]) == 0, "what is complete is left as it is"
    assert "is complete: nothing is left to do" in capsys.readouterr().out


BYTES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "ab", "Ġa")


def merges_folder(folder, config=None, model_type=None, tokens=BYTES):
    """A folder with a byte-level encoding in two files."""
    folder.mkdir()
    ids = {token: i for i, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n", encoding="utf-8")
    for name, content in {"tokenizer_config": config, "config": model_type and {"model_type": model_type}}.items():
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_two_files_of_a_class_that_adds_tokens_around_a_text(tmp_path):
    text = load(merges_folder(tmp_path / "a", {"tokenizer_class": "RobertaTokenizer"}))
    assert text.encode_pair("ab <mask>", "b") == ([0, 8, 4, 2, 2, 6, 2], [0] * 7), "the mask takes the space before it"
    assert text.decode([8, 9, 4]) == "ab a<mask>"
    again = tmp_path / "again"
    again.mkdir()
    text.save(again)
    assert load(again).encode_pair("ab <mask>", "b") == text.encode_pair("ab <mask>", "b")
    by_model = load(merges_folder(tmp_path / "b", model_type="bart"))
    assert by_model.encode_pair("ab") == ([0, 8, 2], [0, 0, 0])
    spaced = load(merges_folder(tmp_path / "c", {"tokenizer_class": "LEDTokenizer", "add_prefix_space": True}))
    assert spaced.encode("a") == [9]
    names = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *BYTES[5:]]
    deberta = load(merges_folder(tmp_path / "d", model_type="deberta", tokens=names))
    assert deberta.encode_pair("ab", "b") == ([0, 8, 2, 6, 2], [0, 0, 0, 1, 1])
    with pytest.raises(InputError, match=r"vocab.json lacks the special token '\[CLS\]'"):
        load(merges_folder(tmp_path / "e", model_type="deberta"))
    with pytest.raises(InputError, match="add_prefix_space is 1: expected true or false"):
        load(merges_folder(tmp_path / "f", {"tokenizer_class": "BartTokenizer", "add_prefix_space": 1}))


def test_a_class_whose_other_files_do_not_tell_all_needs_its_tokenizer_json(tmp_path):
    """CLIP writes small letters, and MPNet puts other tokens around them than BERT."""
    with pytest.raises(InputError, match="has none: CLIPTokenizer is opened from a tokenizer.json alone"):
        load(merges_folder(tmp_path / "a", {"tokenizer_class": "CLIPTokenizer"}))
    with pytest.raises(InputError, match="MPNetTokenizerFast is opened from a tokenizer.json alone"):
        load(write(tmp_path / "b", {"tokenizer_class": "MPNetTokenizerFast"}))
    assert load(write(tmp_path / "c", {"tokenizer_class": "MPNetTokenizer"}, words=None, tokenizer=described()))
    with pytest.raises(InputError, match=r"lacks the special token '\[CLS\]'"):
        load(write(tmp_path / "d", words=["<s>", "</s>", "[UNK]", "a"]))
