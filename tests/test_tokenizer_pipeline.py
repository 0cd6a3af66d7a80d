"""The steps of a published tokenizer, put together: what every model of pieces has in common."""

import pytest

from minigpt.data import input_transformations
from minigpt.errors import InputError
from minigpt.models.family import encoder, encoder_decoder
from minigpt.tokenizer import pipeline, steps_before
from minigpt.tokenizer.pipeline import Added, PieceTokenizer, Template
from minigpt.tokenizer.unigram import Unigram
from minigpt.tokenizer.wordpiece import WordPiece

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = (*SPECIAL, "a", "b", "##a", "##b", "ab", "##ab", ".")
ROLES = {"pad": "[PAD]", "unknown": "[UNK]", "start": "[CLS]", "delimiter": "[SEP]", "mask": "[MASK]"}
BERT = Template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")


def split(text, first):
    return text.split()


def made(**settings):
    steps = {"splitter": split, "normalizer": str.lower, "template": BERT, "roles": ROLES}
    steps["added"] = [Added(token) for token in SPECIAL]
    return PieceTokenizer(WordPiece(PIECES), **steps | settings)


def test_a_word_is_cut_into_the_longest_pieces():
    text = made()
    assert text.encode("ABA ab . c") == [9, 7, 9, 11, 1]
    assert text.encode("") == [] and text.encode(" ") == []
    assert text.vocab_size == 12 and text.unknown_id == 1
    assert text.unknown_in("a?bc") == ["?", "c"]
    assert text.count_unknown(text.encode("c a d")) == 2


def test_tokens_stand_around_one_text_and_two():
    text = made()
    assert text.wrap([5, 6]) == ([2, 5, 6, 3], [0, 0, 0, 0])
    assert text.wrap([5], [6, 7]) == ([2, 5, 3, 6, 7, 3], [0, 0, 0, 1, 1, 1])
    assert text.encode_pair("a", "b") == text.wrap([5], [6])
    assert text.encode_pair("a", "") == ([2, 5, 3, 3], [0, 0, 0, 1])
    assert made(template=None).encode_pair("a", "b") == ([5, 6], [0, 1])
    with pytest.raises(InputError, match=r"\[BOS\].*vocabulary lacks it"):
        made(template=Template("[BOS]:0 $A:0"))
    with pytest.raises(InputError, match="needs .A and .B, each once"):
        made(template=Template("$A:0", "$A:0 [SEP]:0"))
    with pytest.raises(InputError, match="'a' in the template .* is no token with its segment"):
        made(template=Template("a $A:0"))


def test_tokens_that_are_added_are_cut_out_first():
    text = made()
    assert text.encode("a[MASK]b [MASK]") == [5, 4, 6, 4]
    assert text.encode("[mask]") == [1], "as it is written, and nothing else"
    assert text.encode("a [MASK] b", allowed_special=()) == [5, 1, 6]
    assert text.encode("a [MASK] [SEP]", allowed_special=["[SEP]"]) == [5, 1, 3]
    more = made(added=[Added("[MASK]"), Added("New"), Added("NewNew", special=False)])
    assert more.tokens[12:] == ["New", "NewNew"]
    assert more.encode("NewNewNewa") == [13, 12, 5], "the longest first"
    assert "NewNew" not in more.special and "New" in more.special


@pytest.mark.parametrize(
    ("flags", "given", "expected"),
    [
        ({}, "a  <x>  b", ["a  ", None, "  b"]),
        ({"lstrip": True}, "a  <x>  b", ["a", None, "  b"]),
        ({"rstrip": True}, "a  <x>  b", ["a  ", None, "b"]),
        ({"rstrip": True, "lstrip": True}, "<x> <x>", [None, None]),
        ({"single_word": True}, "a<x> <x>b <x> -<x>-", ["a<x> <x>b ", None, " -", None, "-"]),
        ({"single_word": True}, "<x>", [None]),
    ],
)
def test_flags_of_added_tokens(flags, given, expected):
    parts = pipeline.Finder([Added("<x>", **flags)]).split(given)
    assert [None if token else text for token, text in parts] == expected
    assert "".join(text for _, text in parts) == given, "each character once"


def test_a_token_may_be_looked_for_in_the_normalised_text():
    text = made(added=[Added("[MASK]"), Added("Word", normalized=True)])
    assert text.encode("aWORDb word") == [5, 12, 6, 12]
    text = made(added=[Added("[MASK]"), Added("Word")])
    assert text.encode("aWORDb") == [1]


def test_the_splitter_is_told_what_begins_the_whole_text():
    seen = []

    def note(text, first):
        seen.append((text, first))
        return [text]

    text = made(splitter=note, added=[Added("[MASK]"), Added("#", normalized=True)])
    text.encode("a[MASK]b")
    text.encode("a#b")
    text.encode("[MASK]a")
    assert seen == [("a", True), ("b", False), ("a", True), ("b", False), ("a", False)]


def test_roles_give_our_names_to_published_tokens():
    text = made()
    assert text.role("mask") == 4 and text.role("start") == 2 and text.role("end") is None
    assert text.end_of_text_id is None
    names = [encoder.MASK, input_transformations.START, input_transformations.DELIMITER, encoder_decoder.PAD]
    assert {*names, encoder_decoder.END} == set(pipeline.OUR_NAMES)
    named = text.with_special(names)
    assert [named.ids[name] for name in names] == [4, 2, 3, 0] and named.vocab_size == 12
    assert encoder.MASK not in text.ids, "only where it was wanted: a task then wraps texts as the vocabulary does"
    assert input_transformations.special_ids(input_transformations.with_special(text)) == {
        input_transformations.START: [2], input_transformations.DELIMITER: [3], input_transformations.EXTRACT: [3]
    }  # fmt: skip
    assert text.encode_named("a [MASK] b", ["[MASK]"]) == [5, 4, 6]
    with pytest.raises(InputError, match="'<s>' has the role 'start'"):
        made(roles={"start": "<s>"})


def test_special_tokens_of_our_own_come_last():
    text = made()
    longer = text.with_special([encoder.MASK, input_transformations.EXTRACT, "_more_"])
    assert longer.tokens[12:] == ["_classify_", "_more_"]
    assert longer.ids["_more_"] == 13 and longer.ids[encoder.MASK] == 4
    assert text.vocab_size == 12 and "_more_" not in text.ids
    assert longer.encode("_more_") == [1], "no text is encoded as one"
    assert longer.decode([5, 13, 6]) == "a_more_b"
    assert longer.decode([5, 13, 4, 6], skip_special=True) == "ab"
    assert longer.with_special(["_last_"]).tokens[12:] == ["_classify_", "_more_", "_last_"]
    with pytest.raises(InputError, match="no room for the special token ab"):
        text.with_special(["ab"])
    with pytest.raises(InputError, match="special tokens must be a list of names"):
        text.with_special("ab")


def test_a_special_token_of_our_own_has_its_role_where_the_vocabulary_has_none_for_it():
    model = Unigram(["<unk>", "▁a", "b"], [0.0, -1.0, -2.0], [2, 1, 1], unknown_id=0)
    text = PieceTokenizer(model)
    assert text.role("mask") is None
    longer = text.with_special(["_mask_"])
    assert longer.role("mask") == longer.ids["_mask_"] == 3 and longer.role("pad") is None
    assert longer.encode_named("▁ab _mask_", ["_mask_"])[-1] == 3


def test_what_is_decoded_one_by_one_is_the_whole_text():
    known = PieceTokenizer(
        WordPiece(["[UNK]", *map(chr, range(256))]),
        decoder=lambda ids: bytes(i - 1 for i in ids).decode("utf-8", errors="replace"),
    )
    text = "고양이 cat " * 20 + "é"
    ids = [byte + 1 for byte in text.encode()]
    stream = known.streaming()
    given = [stream.feed(i) for i in ids]
    assert "".join(given) + stream.end() == text
    assert not any("\ufffd" in part for part in given)
    assert len(stream._ids) < 80
    half = known.streaming()
    assert half.feed(ids[0]) == "" and half.end() == "\ufffd"


def test_what_cannot_be_saved_says_so(tmp_path):
    with pytest.raises(InputError, match="cannot be saved"):
        made().save(tmp_path)
    written = []
    made(write=lambda text, folder: written.append((text.vocab_size, folder))).save(tmp_path)
    assert written == [(12, tmp_path)]


def test_mistakes_of_the_caller():
    with pytest.raises(InputError, match="a text must be a str"):
        made().encode(b"a")
    with pytest.raises(InputError, match="token id 12 is not in this vocabulary"):
        made().decode([12])
    with pytest.raises(InputError, match=r"the vocabulary lacks '\[UNK\]'"):
        WordPiece(["a"])


@pytest.mark.parametrize(
    ("pattern", "text", "words"),
    [
        (r"\w+", "a\u200db²", ["a", "\u200d", "b²"]),  # a joiner is no letter, and this small digit is one
        (r"[\w]+", "b²", ["b", "²"]),
        (r"\W", "a²\u200d", ["a²", "\u200d"]),
        (r"[\W\d]+", "a1 b", ["a", "1 ", "b"]),
        ("^a|b$", "aa\nab", ["a", "a\n", "a", "b"]),  # lines, not the text
        (r" ?[^(\s|[.,!])]+", "so, it is", ["so", ",", " it", " is"]),  # a set in a set
        ("[a-z&&[^b]]+", "abc", ["a", "b", "c"]),
        (r"(?<=a)|\d+", "a12", ["a", "1", "2"]),  # nothing matches before 1, and so 1 is passed over
    ],
)
def test_patterns_are_read_as_oniguruma_reads_them(pattern, text, words):
    split = steps_before.split({"Regex": pattern}, "Isolated")
    assert split(text, True) == words
