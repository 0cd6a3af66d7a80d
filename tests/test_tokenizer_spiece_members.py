"""Published members with a file of SentencePiece: ids, what they do to a text, their templates; damaged folders."""

import json

import pytest

from minigpt.errors import InputError
from minigpt.tokenizer import spiece
from minigpt.tokenizer.pipeline import Added
from minigpt.tokenizer.spiece import (
    CONTROL,
    UNKNOWN,
    USER_DEFINED,
    NormalizerSpec,
    Piece,
    SentencePieceFile,
    TrainerSpec,
)
from minigpt.tokenizer.spiece_members import NAMES, find, member_of, members, open_folder, prepared, tokenizer_of

WORDS = ["▁", "▁the", "▁cat", "s", "1", "▁2010", "▁2010,", ",", '"', "é", "e", "▁Cat"]
FIRST = {  # the pieces that stand for no text, in the order of the published files
    "albert": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
    "xlnet": ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"],
    "t5": ["<pad>", "</s>", "<unk>"],
    "mt5": ["<pad>", "</s>", "<unk>"],
    "xlm-roberta": ["<unk>", "<s>", "</s>"],
    "mbart": ["<unk>", "<s>", "</s>"],
    "deberta-v2": ["[PAD]", "[CLS]", "[SEP]", "[UNK]"],
    "llama": ["<unk>", "<s>", "</s>"],
}


def content_of(name):
    first = [Piece(token, 0.0, UNKNOWN if "unk" in token.lower() else CONTROL) for token in FIRST[name]]
    words = [Piece(word, -2.0 - i / 4) for i, word in enumerate(WORDS)]
    return SentencePieceFile([*first, *words], TrainerSpec(), NormalizerSpec("identity"))


def folder_of(tmp_path, name, **config):
    spiece.write(tmp_path / members()[name].file, content_of(name))
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def pieces_of(tokenizer, text):
    return [tokenizer.tokens[i] for i in tokenizer.encode(text)]


def test_every_member_is_here():
    assert set(members()) == set(FIRST)
    for member in members().values():
        assert member.file in NAMES and "$A" in member.single and "$B" in member.pair
        for template in (member.single, member.pair):
            tokens = [part.split(":")[0] for part in template.split()]
            known = {*FIRST[member.name], *member.appended, "$A", "$B"}
            assert set(tokens) <= known, f"{member.name}: {template}"
        assert set(member.roles.values()) <= {*FIRST[member.name], *member.appended, "<pad>"}


@pytest.mark.parametrize("name", FIRST)
def test_a_member_is_found_by_its_class_and_by_its_configuration(tmp_path, name):
    for class_name in (name for one in members()[name].classes for name in (one, f"{one}Fast")):
        folder = tmp_path / class_name
        folder.mkdir()
        assert member_of(folder_of(folder, name, tokenizer_class=class_name)).name == name
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name}), encoding="utf-8")
    parts = open_folder(folder_of(tmp_path, name))
    assert member_of(tmp_path).name == name and parts.template.single == members()[name].single
    assert {one.token for one in parts.added} >= set(members()[name].roles.values()) & set(parts.tokens)
    for one in parts.added:
        assert parts.model.tokens[parts.ids[one.token]] == one.token and one.special


def test_albert_lowers_straightens_quotes_and_leaves_numbers_without_their_comma(tmp_path):
    parts = open_folder(folder_of(tmp_path, "albert", tokenizer_class="AlbertTokenizer"))
    assert pieces_of(parts, " The  CÁTS\t") == ["▁the", "▁cat", "s"] and prepared("É", members()["albert"]) == "e"
    assert prepared("``a''  b", members()["albert"]) == '"a" b'
    assert pieces_of(parts, "2010,") == ["▁2010", ","]
    assert pieces_of(open_folder(folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer")), "2010,") == ["▁2010,"]
    assert parts.decode([6, 7, 8, 3]) == "the cats"
    assert Added("[MASK]", lstrip=True) in parts.added and parts.ids["[MASK]"] == 4
    assert Added("[SEP]") in parts.added


def test_xlnet_keeps_case_and_fills_on_the_left(tmp_path):
    parts = open_folder(folder_of(tmp_path, "xlnet", tokenizer_class="XLNetTokenizer"))
    assert pieces_of(parts, "the Cats é") == ["▁the", "▁Cat", "s", "▁", "e"]
    assert parts.padding_side == "left"
    other = open_folder(folder_of(tmp_path, "xlnet", tokenizer_class="XLNetTokenizer", padding_side="right"))
    assert other.padding_side == "right"
    assert parts.template.pair == "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"


def test_settings_of_the_folder_go_first(tmp_path):
    options = {"do_lower_case": False, "keep_accents": True}
    parts = open_folder(folder_of(tmp_path, "albert", tokenizer_class="AlbertTokenizer", **options))
    assert pieces_of(parts, "the Cat é") == ["▁the", "▁Cat", "▁", "é"]


@pytest.mark.parametrize(("said", "around"), [
    ({}, ("<s> {a}", "<s> {a} <s> {b}")),
    ({"add_bos_token": None, "add_eos_token": True}, ("<s> {a} </s>", "<s> {a} </s> <s> {b} </s>")),
    ({"add_bos_token": False}, ("{a}", "{a} {b}")),
    ({"add_bos_token": False, "add_eos_token": True}, ("{a} </s>", "{a} </s> {b} </s>")),
])  # fmt: skip
def test_a_folder_of_llama_tells_which_tokens_stand_around_a_text(said, around, tmp_path):
    opened = open_folder(folder_of(tmp_path, "llama", tokenizer_class="LlamaTokenizer", **said))
    opened.save(tmp_path / "again")
    for text in (opened, open_folder(tmp_path / "again")):
        for pair, expected in zip((None, [4]), around, strict=True):
            ids, segments = text.wrap([3], pair)
            wanted = expected.format(a=text.tokens[3], b=text.tokens[4]).split()
            assert [text.tokens[i] for i in ids] == wanted
            assert segments == ([0] * len(ids) if pair is None else sorted([0, 1] * (len(ids) // 2)))


def test_the_sentinels_of_t5_are_counted_from_the_end(tmp_path):
    parts = open_folder(folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer"))
    tokens = parts.model.tokens
    n_pieces = len(FIRST["t5"]) + len(WORDS)
    assert len(tokens) == n_pieces + 100
    assert tokens[-1] == "<extra_id_0>" and tokens[n_pieces] == "<extra_id_99>"
    fewer = open_folder(folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer", extra_ids=2))
    assert fewer.model.tokens[n_pieces:] == ["<extra_id_1>", "<extra_id_0>"]
    assert len(open_folder(folder_of(tmp_path, "mt5", tokenizer_class="MT5Tokenizer")).model.tokens) == n_pieces


def test_the_ids_of_fairseq_are_shifted_by_one(tmp_path):
    parts = open_folder(folder_of(tmp_path, "xlm-roberta", tokenizer_class="XLMRobertaTokenizer"))
    assert parts.model.tokens == ["<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>"]
    assert parts.model.encode(parts.normalizer("the cats ß")) == [5, 6, 7, 4, 3]
    assert parts.decode([0, 5, 6, 7, 2]) == "the cats"
    mbart = open_folder(folder_of(tmp_path, "mbart", tokenizer_class="MBartTokenizer"))
    assert mbart.model.tokens[-26] == "ar_AR" and mbart.model.tokens[-1] == "<mask>"
    with pytest.raises(InputError, match="the first pieces of the file are"):
        tokenizer_of(members()["xlm-roberta"], content_of("t5"), {}, tmp_path / "spiece.model")


def test_the_mask_of_deberta_comes_after_the_pieces(tmp_path):
    folder = folder_of(tmp_path, "deberta-v2", tokenizer_class="DebertaV2Tokenizer")
    (folder / "added_tokens.json").write_text('{"[MASK]": 16, "[NEW]": 17}', encoding="utf-8")
    parts = open_folder(folder)
    assert parts.model.tokens[-2:] == ["[MASK]", "[NEW]"] and parts.roles["mask"] == "[MASK]"


def test_a_file_of_no_member_is_opened_as_it_is(tmp_path):
    pieces = [*content_of("t5").pieces, Piece("#", 0.0, USER_DEFINED)]
    spiece.write(tmp_path / "tokenizer.model", content_of("t5")._replace(pieces=pieces))
    parts = open_folder(tmp_path)
    assert parts.model.tokens == [*FIRST["t5"], *WORDS, "#"] and (parts.template.single, parts.added) == ("$A:0", ())
    assert pieces_of(parts, "the cat#É") == ["▁the", "▁cat", "#", "<unk>"]
    (tmp_path / "config.json").write_text('{"model_type": ["t5"]}', encoding="utf-8")
    assert open_folder(tmp_path).template.single == "$A:0"


def test_folders_that_cannot_be_opened(tmp_path):
    assert find(tmp_path) is None
    with pytest.raises(InputError, match="holds no file of SentencePiece"):
        open_folder(tmp_path)
    folder = folder_of(tmp_path, "albert", tokenizer_class="AlbertTokenizer", do_lower_case="yes")
    with pytest.raises(InputError, match="do_lower_case is 'yes': expected true or false"):
        open_folder(folder)
    folder = folder_of(tmp_path, "albert", tokenizer_class="AlbertTokenizer", sp_model_kwargs={"enable_sampling": True})
    with pytest.raises(InputError, match="sp_model_kwargs is {'enable_sampling': True}: what the package"):
        open_folder(folder)
    folder = folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer", extra_ids=-1)
    with pytest.raises(InputError, match="extra_ids is -1: expected a whole number"):
        open_folder(folder)
    folder = folder_of(tmp_path, "deberta-v2", tokenizer_class="DebertaV2Tokenizer")
    (folder / "added_tokens.json").write_text('{"[MASK]": 16, "[NEW]": "17"}', encoding="utf-8")
    with pytest.raises(InputError, match="added_tokens.json: '.NEW.' has the id '17': expected a whole number"):
        open_folder(folder)
    folder = folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer", minigpt_special_tokens=None)
    (folder / "added_tokens.json").unlink()
    with pytest.raises(InputError, match="minigpt_special_tokens is None: expected a list of names"):
        open_folder(folder)
    folder = folder_of(tmp_path, "t5", tokenizer_class="T5Tokenizer", mask_token="<hidden>")
    with pytest.raises(InputError, match="mask_token is '<hidden>', which the vocabulary lacks"):
        open_folder(folder)
    word = content_of("t5")._replace(trainer=TrainerSpec(model_type=spiece.WORD))
    with pytest.raises(InputError, match="of the type 'word'"):
        tokenizer_of(members()["t5"], word, {}, tmp_path / "spiece.model")
