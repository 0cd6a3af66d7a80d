"""Files of SentencePiece: the wire format, fields by name, damaged files, the compiled map of characters, decoding."""

import math
import struct

import pytest

from minigpt.errors import InputError
from minigpt.tokenizer import spiece
from minigpt.tokenizer.charsmap import CharacterMap
from minigpt.tokenizer.spiece import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    NormalizerSpec,
    Piece,
    SentencePieceFile,
    TrainerSpec,
)  # fmt: skip
from minigpt.tokenizer.spiece_text import Decoder, Normalizer

RULES = {  # as in nmt_nfkc: wide and joined letters, accents in one or two steps, what is removed, a syllable of jamo
    "Ａ": "A", "ﬁ": "fi", "\t": " ", "\x07": "", "e\u0301": "é", "e\u0301\u0323": "ẹ́", "\u3000": " ", "¨": " \u0308",
    "\u1100\u1161": "가", "\u1100\u1161\u11a8": "각", "№": "No", "가\u11a8": "각",
}  # fmt: skip


def compiled(rules: dict[str, str]) -> bytes:
    """A compiled map of these rules: a double array in which every node stands at the first place that is free."""
    texts = b""
    tree = {}
    for key, becomes in rules.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)  # no key holds the byte 0
        texts += becomes.encode() + b"\0"
    units = {0: 0}
    bases = set()

    def place(node: dict, number: int) -> None:
        base = 1
        while base in bases or any(base ^ byte in units for byte in node):
            base += 1
        bases.add(base)
        units[number] |= (base ^ number) << 10 | (0 in node) << 8
        for byte, child in node.items():
            units[base ^ byte] = child | 1 << 31 if byte == 0 else byte
        for byte, child in node.items():
            if byte:
                place(child, base ^ byte)

    place(tree, 0)
    array = [units.get(i, 0x80000000) for i in range(max(units) + 256)]
    return struct.pack("<I", 4 * len(array)) + struct.pack(f"<{len(array)}I", *array) + texts


MAP = compiled(RULES)
PIECES = [
    Piece("<unk>", 0.0, UNKNOWN), Piece("<s>", 0.0, CONTROL), Piece("▁", -2.0), Piece("▁a", -1.5), Piece("b", -3.25),
    Piece("[X]", 0.0, USER_DEFINED), Piece("▁▁b", -4.0),
]  # fmt: skip
BYTES = [Piece(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
CONTENT = SentencePieceFile(PIECES, TrainerSpec(pad_id=-1, vocab_size=7, bos_id=1), NormalizerSpec("nfkc", MAP))


# --- the file --------------------------------------------------------------------------------------------------------


def test_numbers_on_the_wire():
    """The examples of the documentation of protocol buffers: 150 in field 1, "testing" in field 2."""
    assert list(spiece.fields_of(bytes.fromhex("089601"))) == [(1, 150)]
    assert list(spiece.fields_of(bytes.fromhex("120774657374696e67"))) == [(2, b"testing")]
    fixed = bytes.fromhex("0d0000803f") + b"\x11" + bytes(8) + b"\xf8\x07\x01"
    assert list(spiece.fields_of(fixed)) == [(1, b"\x00\x00\x80\x3f"), (2, bytes(8)), (127, 1)]


def test_what_is_written_is_read_again():
    assert spiece.parse(spiece.dump(CONTENT)) == CONTENT
    other = TrainerSpec(2, 263, True, True, 0, -1, -1, 3, "?", "<u>", "<b>", "<e>", "<p>")
    content = SentencePieceFile(PIECES + BYTES, other, NormalizerSpec("x", b"", False, False, False))
    assert spiece.parse(spiece.dump(content)) == content and content.model_type == "bpe"
    assert content.pieces_of_kind(USER_DEFINED) == ["[X]"]


def test_fields_that_are_left_out_have_the_defaults_of_sentencepiece():
    bare = b"\x0a\x08\x0a\x04<unk\x18\x02" + b"\x0a\x03\x0a\x01a" + b"\x12\x00" + b"\x1a\x00" + b"\x2a\x00\x22\x00"
    content = spiece.parse(bare)
    assert content.pieces == [Piece("<unk", 0.0, UNKNOWN), Piece("a", 0.0, NORMAL)]
    assert content.trainer == TrainerSpec() and content.normalizer == NormalizerSpec()
    assert content.trainer.unk_surface == " ⁇ " and content.trainer.pad_id == -1


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "spiece.model"
    small = CONTENT._replace(normalizer=NormalizerSpec("nfkc", b"abc"))
    whole = spiece.dump(small)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"spiece\.model is no whole file of SentencePiece \(.*cut off$"):
            spiece.read(path)
    spiece.write(path, small)
    assert path.read_bytes() == whole and spiece.read(path) == small


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has 0 pieces and no trainer_spec"),
        (b'{"version": "1.0"}', "a field of the type 3"),
        (b"\x00\x00", "a field has the number 0"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "more than 64 bits"),
        (b"\x08\x01", "a number where a message is expected"),
        (b"\x0a\x02\x08\x01", "field text is of another type"),
        (b"\x0a\x05\x12\x03abc", "field score is of another type"),
        (b"\x0a\x03\x0a\x01\xff", "not UTF-8"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, content, why):
    path = tmp_path / "spm.model"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why) as caught:
        spiece.read(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("pieces", "trainer", "why"),
    [
        ([*PIECES, Piece("b")], {}, "the piece 'b' is there twice"),
        ([*PIECES, Piece("")], {}, "piece 7 is empty"),
        ([*PIECES, Piece("c", 0.0, 9)], {}, "piece 7 is of the kind 9"),
        ([*PIECES, Piece("c", math.nan)], {}, "piece 7 has the score nan"),
        (PIECES[1:], {}, "0 of its 6 pieces stand for what is unknown"),
        (PIECES, {"model_type": 7}, "its model_type is 7"),
        (PIECES, {"byte_fallback": True}, "0 pieces stand for bytes, and its byte_fallback is True"),
        (PIECES + BYTES, {}, "256 pieces stand for bytes, and its byte_fallback is False"),
    ],
)
def test_pieces_that_no_model_can_have_are_refused(pieces, trainer, why):
    content = SentencePieceFile(pieces, TrainerSpec(**trainer), NormalizerSpec())
    with pytest.raises(ValueError, match=why):
        spiece.parse(spiece.dump(content))


def test_a_denormalizer_is_refused_by_its_name(tmp_path):
    path = tmp_path / "spm.model"
    path.write_bytes(spiece.dump(CONTENT) + b"\x2a\x03\x12\x01x")
    with pytest.raises(InputError, match="denormalizer_spec changes texts"):
        spiece.read(path)


def test_a_folder_or_nothing_is_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "no.model"):
        with pytest.raises(InputError, match="cannot be read"):
            spiece.read(path)


# --- the map of characters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("plain ASCII, 한국어", "plain ASCII, 한국어"),
        ("ＡＡﬁx\tx\x07x", "AAfix xx"),
        ("e e\u0301 ee\u0301\u0323e", "e é eẹ́e"),
        ("e\u0323\u0301", "e\u0323\u0301"),  # in another order it is no key
        ("e\u0301\u0301", "é\u0301"),  # the longest key, and what follows stays
        ("\u0301e\u0301", "\u0301é"),
        ("\u1100\u1161\u11a8\u1100\u1161\u1100", "각가\u1100"),
        ("가\u11a8", "각"),
        ("Ａ\u0301¨", "A\u0301 \u0308"),
        ("\ud800\u0301\udc00", "\ud800\u0301\udc00"),
        ("", ""),
    ],
)
def test_the_longest_key_is_replaced(text, becomes):
    assert CharacterMap(MAP).apply(text) == becomes
    assert CharacterMap().apply(text) == text


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("ＡＡﬁx\tx\x07x", "AAfix xx"),
        ("e\u0301", "é"),
        ("e\u0301\u0323", "é"),  # 5 bytes: the shortest key stands for the whole grapheme
        ("e\u0301\u0323\u0323", "e\u0301\u0323\u0323"),  # 7 bytes: each character alone
        ("\u1100\u1161\u11a8", "\u1100\u1161\u11a8"),
        ("Ａ\u0301", "A"),
        ("\t\r\n", " \r\n"),
        ("\ud800\u0301\udc00", "\ud800\u0301\udc00"),
    ],
)
def test_the_map_on_graphemes_differs(text, becomes):
    assert CharacterMap(MAP).apply_to_graphemes(text) == becomes
    assert CharacterMap().apply_to_graphemes(text) == text


def test_a_key_that_begins_in_the_middle_of_another_is_found():
    characters = CharacterMap(compiled({"ab": "1", "bcd": "2", "c": "3", "dd": "4"}))
    assert characters.apply("abcd") == "13d" and characters.apply("bcd") == "2"
    assert characters.apply("xbcdddd") == "x24d" and characters.apply("aab") == "a1"


def test_a_damaged_map_is_refused():
    of_other_size = b"\x05\0\0\0" + MAP[4:]
    no_text = MAP[:-3] + b"\xff\xff\0"
    for block in (MAP[:2], MAP[:700], MAP[:-1], of_other_size, b"\xff" * 40, no_text):
        with pytest.raises(InputError, match="precompiled_charsmap"):
            CharacterMap(block)


def test_damage_anywhere_in_a_map_never_hangs_and_shows_no_traceback():
    outcomes = set()
    for place in range(0, len(MAP), 7):
        damaged = MAP[:place] + bytes([MAP[place] ^ 0x55]) + MAP[place + 1 :]
        try:
            outcomes.add(type(CharacterMap(damaged).apply("e\u0301 \u1100\u1161\u11a8 Ａ")))
        except InputError:
            outcomes.add(InputError)
    assert outcomes == {str, InputError}, "some damage is seen when the map is read, and the rest gives another text"


# --- spaces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spec", "becomes"),
    [
        ("a b", {}, "▁a▁b"),
        ("  a \t b　　c \n", {}, "▁a▁b▁c▁\n"),
        ("¨", {}, "▁\u0308"),
        ("a\x07", {}, "▁a"),
        (" \t ", {}, ""),
        ("", {}, ""),
        ("a▁ ▁", {}, "▁a"),  # a written-out space at the end counts as one
        ("▁a", {}, "▁▁a"),
        (" a  b ", {"remove_extra_whitespaces": False}, "▁▁a▁▁b▁"),
        ("\x07", {"remove_extra_whitespaces": False}, "▁"),
        (" a  b ", {"add_dummy_prefix": False}, "a▁b"),
        (" a  b ", {"escape_whitespaces": False}, " a b"),
        ("\ud800a\udfff", {}, "▁\ufffda\ufffd"),
    ],
)
def test_spaces(text, spec, becomes):
    assert Normalizer(NormalizerSpec("", MAP, **spec))(text) == becomes


def test_pieces_of_the_user_stay_as_they_are():
    normalizer = Normalizer(NormalizerSpec("", MAP), ["Ａ", "ＡＡ", "[\t]"])
    assert normalizer("ＡＡＡﬁ[\t]\t") == "▁ＡＡＡfi[\t]"
    assert Normalizer(NormalizerSpec("", MAP), space_after=True)(" a b ") == "a▁b▁"
    suffix = Normalizer(NormalizerSpec("", MAP), space_after=True)
    assert (suffix(" \t"), suffix(" \x07")) == ("", "▁"), "of spaces nothing is left; of what is removed, a word"


# --- decoding --------------------------------------------------------------------------------------------------------


def decoder(**spec):
    trainer = TrainerSpec(byte_fallback=True)
    return Decoder(SentencePieceFile(PIECES + BYTES, trainer, NormalizerSpec("", b"", **spec)))


def of_bytes(content: bytes) -> list[int]:
    return [len(PIECES) + byte for byte in content]


@pytest.mark.parametrize(
    ("ids", "spec", "text"),
    [
        ([3, 4, 3], {}, "ab a"),
        ([1, 3], {}, "a"),
        ([2, 3], {}, "a"),  # all spaces in front go ...
        ([2, 3], {"remove_extra_whitespaces": False}, " a"),  # ... or only one
        ([6], {}, " b"),
        ([2, 3], {"remove_extra_whitespaces": False, "add_dummy_prefix": False}, "  a"),
        ([0, 3], {}, " ⁇  a"),
        ([5, 3], {}, "[X] a"),
        (of_bytes("é한".encode()), {}, "é한"),
        ([3, *of_bytes(b"\xed\x95"), 4], {}, "a\ufffd\ufffdb"),
        ([*of_bytes(b" "), 3], {}, "  a"),
        (of_bytes(b"\xff\xed\xa0\x80A"), {}, "\ufffd\ufffd\ufffd\ufffdA"),
        ([], {}, ""),
    ],
)
def test_pieces_become_text(ids, spec, text):
    assert decoder(**spec)(ids) == text
