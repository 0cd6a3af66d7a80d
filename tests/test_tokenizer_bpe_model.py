"""The model BPE of tokenizer.json by hand; folders with vocab.json and merges.txt of RoBERTa, BART, DeBERTa, Qwen2."""

import json
from collections import Counter

import pytest
from test_tokenizer_gpt2 import TEXT

from minigpt.errors import InputError
from minigpt.tokenizer import GPT2Tokenizer, PieceTokenizer, load, tokenizer_json, words
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.gpt2 import spell
from minigpt.tokenizer.spiece import BYTES
from minigpt.tokenizer.vocabularies import members

GPT2 = GPT2Tokenizer.train(TEXT, 300, min_frequency=1, progress=False)
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]


def settings_of(tokens, merges=(), **settings):
    vocab = {token: i for i, token in enumerate(tokens)}
    return {"type": "BPE", "vocab": vocab, "merges": list(merges), **settings}


def model_of(settings):
    return tokenizer_json.model_of({"model": settings}, "here")


def pieces_of(settings, word):
    model = model_of(settings)
    again = model_of(json.loads(json.dumps(model.to_json())))
    assert again.encode(word) == model.encode(word)
    return [model.tokens[i] for i in model.encode(word)]


# --- the model -------------------------------------------------------------------------------------------------------


def test_settings_of_the_model():
    letters = ["a", "b", "c", "ab", "abc"]
    merges = ["a b", ["ab", "c"]]
    assert pieces_of(settings_of(letters, merges), "abcab") == ["abc", "ab"]
    assert pieces_of(settings_of(letters, merges[:1]), "abc") == ["ab", "c"]
    assert pieces_of(settings_of(letters, merges[:1], ignore_merges=True), "abc") == ["abc"]
    unknown = {"unk_token": "?"}
    assert pieces_of(settings_of([*letters, "?"], merges, **unknown), "axxb") == ["a", "?", "?", "b"]
    assert pieces_of(settings_of([*letters, "?"], merges, **unknown, fuse_unk=True), "axxb") == ["a", "?", "b"]
    fallback = settings_of([*letters, "?", *BYTES], merges, **unknown, byte_fallback=True)
    assert pieces_of(fallback, "aé") == ["a", "<0xC3>", "<0xA9>"]
    assert pieces_of(fallback, "\ud800") == ["<0xEF>", "<0xBF>", "<0xBD>"], "half a surrogate pair is U+FFFD, not `?`"
    ends = settings_of(["a", "b", "a</w>", "b</w>", "ab</w>"], ["a b</w>"], end_of_word_suffix="</w>")
    assert pieces_of(ends, "aab") == ["a", "ab</w>"]
    assert pieces_of(ends, "a") == ["a</w>"] and pieces_of(ends, "") == []
    ends = settings_of(["▁", "a", "a</w>", "▁a"], ["▁ a"], end_of_word_suffix="</w>")
    assert pieces_of(ends, "▁a▁a") == ["▁a", "▁", "a</w>"], "one word has one end"
    text = settings_of(["▁", "a", "b", "▁a", "ab"], ["▁ a", "a b"])
    assert pieces_of(text, "▁ab▁ab") == ["▁a", "b", "▁a", "b"]
    assert model_of(text).parts() == {3: ("▁", "a"), 4: ("a", "b")}
    twice = settings_of(["a", "aa", "aaa"], ["a a", "aa a", "a aa"])
    assert model_of(twice).parts() == {1: ("a", "a"), 2: ("aa", "a")}, "the pair that goes first"


def test_what_cannot_be_spelled_is_left_out_where_no_piece_is_for_it():
    """As the library does it: its neighbours are neighbours then."""
    assert pieces_of(settings_of(["a", "b", "ab"], ["a b"]), "axb") == ["ab"]
    half = settings_of(["a", "b", "ab", "<0xC3>"], ["a b"], byte_fallback=True)
    assert pieces_of(half, "aéb") == ["ab"]
    with pytest.raises(InputError, match="needs the token 'b', which the vocabulary lacks"):
        model_of(settings_of(["a"], ["a b"]))


def test_training_gives_gpt2_s_own_merges():
    counts = Counter(words.words_of(TEXT))
    model = BPEModel.train(counts, 302, special=["<x>", "<y>"], min_frequency=1, progress=False)
    assert model.tokens[:2] == ["<x>", "<y>"] and len(model.tokens) == 302
    assert set(model.tokens[2:258]) == set(GPT2.tokens[:256])
    for word in counts:
        assert "".join(model.tokens[i] for i in model.encode(spell(word))) == spell(word)
    with pytest.raises(InputError, match="a vocabulary of 257 is too small: the bytes and <x> and <y> take 258"):
        BPEModel.train(counts, 257, special=["<x>", "<y>"])


# --- vocab.json and merges.txt ---------------------------------------------------------------------------------------


def folder_of(tmp_path, tokens, **config):
    vocab = {token: i for i, token in enumerate(tokens)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in GPT2.merges)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


PLAIN = GPT2.tokens[:-1]
OF_FAIRSEQ = [*FAIRSEQ, *PLAIN, "madeupword0000", "<mask>"]


@pytest.mark.parametrize("class_name", ["RobertaTokenizer", "BartTokenizerFast", "LEDTokenizer"])
def test_roberta_and_bart(tmp_path, class_name):
    text = load(folder_of(tmp_path, OF_FAIRSEQ, tokenizer_class=class_name))
    assert isinstance(text, PieceTokenizer)
    plain = [i + 4 for i in GPT2.encode(TEXT)]
    assert text.encode(TEXT) == plain and text.decode(plain) == TEXT
    assert text.wrap([9], [8]) == ([0, 9, 2, 2, 8, 2], [0] * 6) and text.wrap([9])[0] == [0, 9, 2]
    roles = {name: text.role(name) for name in ("start", "delimiter", "end", "pad", "unknown", "mask")}
    mask = len(OF_FAIRSEQ) - 1
    assert roles == {"start": 0, "delimiter": 2, "end": 2, "pad": 1, "unknown": 3, "mask": mask}
    assert text.encode("the <mask> on") == [*(i + 4 for i in GPT2.encode("the")), mask, *(
        i + 4 for i in GPT2.encode(" on"))]  # fmt: skip
    assert text.encode("a</s>") == [GPT2.ids["a"] + 4, 2] and text.encode("a</s>", allowed_special=()) != [2]
    text.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.encode("x <mask>é") == text.encode("x <mask>é") and again.wrap([9], [8]) == text.wrap([9], [8])


def test_names_and_flags_of_the_folder_go_first(tmp_path):
    tokens = ["<b>", *OF_FAIRSEQ[1:]]
    mask = {"content": "<mask>", "lstrip": False}
    options = {"cls_token": "<b>", "bos_token": "<b>", "mask_token": mask, "add_prefix_space": True}
    text = load(folder_of(tmp_path, tokens, tokenizer_class="RobertaTokenizer", **options))
    assert text.wrap([9])[0] == [0, 9, 2] and text.role("start") == 0
    assert text.encode("the") == [i + 4 for i in GPT2.encode(" the")]
    assert text.encode(" <mask>") == [GPT2.ids["Ġ"] + 4, len(tokens) - 1]
    folder_of(tmp_path, tokens, tokenizer_class="RobertaTokenizer", bos_token="<b>")
    (tmp_path / "special_tokens_map.json").write_text('{"cls_token": "<b>"}', encoding="utf-8")
    assert load(tmp_path).wrap([9])[0] == [0, 9, 2]


def test_deberta_and_qwen2(tmp_path):
    tokens = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *PLAIN, "[MASK]"]
    text = load(folder_of(tmp_path, tokens, tokenizer_class="DebertaTokenizer"))
    assert text.wrap([9], [8]) == ([0, 9, 2, 8, 2], [0, 0, 0, 1, 1]) and text.role("mask") == len(tokens) - 1
    tokens = [*PLAIN, "<|endoftext|>"]
    text = load(folder_of(tmp_path, tokens, tokenizer_class="Qwen2Tokenizer"))
    assert text.role("end") == len(tokens) - 1 and text.wrap([9])[0] == [9]
    assert text.splitter("I'LL 123", True) == ["I", "'LL", "Ġ", "1", "2", "3"]
    assert text.encode("e\u0301") == text.encode("é")


def test_damaged_folders(tmp_path):
    def message():
        with pytest.raises(InputError) as error:
            load(tmp_path)
        assert "\n" not in str(error.value)
        return str(error.value)

    folder_of(tmp_path, OF_FAIRSEQ[1:], tokenizer_class="RobertaTokenizer")
    assert "vocab.json lacks the special token '<s>'" in message()
    folder_of(tmp_path, OF_FAIRSEQ, tokenizer_class="RobertaTokenizer", add_prefix_space="yes")
    assert "add_prefix_space is 'yes': expected true or false" in message()
    folder_of(tmp_path, [*OF_FAIRSEQ, "plain"], tokenizer_class="RobertaTokenizer")
    assert "no merge makes the token 'plain'" in message()
    folder_of(tmp_path, OF_FAIRSEQ, tokenizer_class="RobertaTokenizer", cls_token=5)
    assert "cls_token is 5" in message()
    folder_of(tmp_path, OF_FAIRSEQ, tokenizer_class="RobertaTokenizer")
    (tmp_path / "merges.txt").write_text("a b c\n", encoding="utf-8")
    assert "is not a merge" in message()
    (tmp_path / "merges.txt").write_text("Ġ Ġ\n한 국\n", encoding="utf-8")
    assert "do not belong together" in message()


def test_every_class_of_the_table_is_known():
    assert {"RobertaTokenizer", "BartTokenizer", "DebertaTokenizer", "Qwen2Tokenizer"} <= set(members())
    for member in members().values():
        for key in member.roles:
            assert key.endswith("_token")
