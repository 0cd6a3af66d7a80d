"""SentencePiece's BPE against the plainest way: merges, bytes, the user's pieces, training, files of llama2.c."""

import random
import struct
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minigpt.errors import InputError
from minigpt.tokenizer import bpe, llama2c, spiece
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.sentencepiece_bpe import SentencePieceBPE, learn, ranks_of
from minigpt.tokenizer.spiece import BYTES, NormalizerSpec, Piece, SentencePieceFile, TrainerSpec
from minigpt.tokenizer.spiece_members import members, tokenizer_of
from minigpt.tokenizer.spiece_text import Decoder, Normalizer

TEXT = "the cat sat on the mat. the hat of the cat: that is the one! 고양이가 앉았다 고양이는 " * 3


def model_of(merged, characters="▁abcd", kinds=(), **options):
    """A model with these pieces, the best first, after <unk>; kinds {piece: its kind}."""
    first = [Piece("<unk>", 0.0, spiece.UNKNOWN)]
    if options.get("byte_fallback"):
        first += [Piece(token, 0.0, spiece.BYTE) for token in BYTES]
    kinds = dict(kinds)
    texts = [*merged, *characters]
    learnt = [Piece(text, -float(i), kinds.get(text, spiece.NORMAL)) for i, text in enumerate(texts)]
    content = SentencePieceFile([*first, *learnt], TrainerSpec(spiece.BPE, **options), NormalizerSpec("identity"))
    return SentencePieceBPE(content)


def pieces_of(model, text):
    return [model.tokens[i] for i in model.encode(text)]


def plain_merge(word, scores):
    """Merge the two neighbours that make the best piece, the ones further left of two such, until none is left."""
    symbols = list(word)
    while True:
        found = []
        for i in range(len(symbols) - 1):
            joined = symbols[i] + symbols[i + 1]
            if joined in scores:
                found.append((-scores[joined], i))
        if not found:
            return symbols
        _, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


# --- merging ---------------------------------------------------------------------------------------------------------


part = st.text("ab▁", min_size=2, max_size=4)


@settings(deadline=None, max_examples=400)
@given(scores=st.dictionaries(part, st.sampled_from([-1.0, -2.0, -3.0, -3.5, -4.0]), max_size=9), word=st.text("ab▁x"))
@example(scores={"ab": -2.0, "ba": -2.0, "aba": -1.0}, word="ababab")
@example(scores={"bab": -1.0, "ba": -3.0, "ab": -4.0}, word="babbab")
@example(scores={"aba": -2.0, "ab": -2.0}, word="abab")
@example(scores={"aa": -1.0, "aaaa": -2.0}, word="a" * 11)
def test_the_best_pair_is_merged_first_and_the_leftmost_of_equal_ones(scores, word):
    """Also where a merge makes a better one possible, and where several pairs make the same piece."""
    ranks = ranks_of(Piece(text, score) for text, score in [*scores.items(), ("a", -9.0)])
    short, long = bpe.merge(word, ranks, True), bpe.merge_long(word, ranks, True)[0]
    assert short == long == plain_merge(word, scores)


def test_a_long_word_is_merged_as_step_by_step():
    rng = random.Random(0)
    scores = {"".join(rng.choices("abc", k=rng.randint(2, 5))): -float(i) for i in range(60)}
    word = "".join(rng.choices("abc", k=1500))
    ranks = ranks_of(Piece(*item) for item in scores.items())
    assert bpe.merge(word, ranks, best_first=True) == plain_merge(word, scores)


def test_a_better_pair_goes_before_another_place_of_the_last_one():
    """GPT-2 does all `ab` before anything else, and `ab ab` is left. Here `aba` comes before the second `ab`."""
    assert pieces_of(model_of(["aba", "ab"]), "abab") == ["aba", "b"]
    assert pieces_of(model_of(["ab", "aba"]), "abab") == ["ab", "ab"]


def test_a_text_is_cut_into_words_only_where_no_piece_goes_on():
    scores = ["▁a", "▁▁", "▁▁a", "ab"]
    assert pieces_of(model_of(scores), "▁▁ab▁a▁▁▁") == ["▁▁a", "b", "▁a", "▁▁", "▁"]
    assert pieces_of(model_of(["a▁", "b▁"]), "ab▁a▁b") == ["a", "b▁", "a▁", "b"]
    assert pieces_of(model_of(["a▁", "▁b", "a▁b"]), "a▁ba▁b▁b") == ["a▁b", "a▁b", "▁b"]
    rng = random.Random(3)
    for _ in range(200):
        pieces = ["".join(rng.choices("a▁", k=rng.randint(2, 3))) for _ in range(3)]
        model = model_of(dict.fromkeys(pieces), "a▁")
        scores = {token: -float(i) for i, token in enumerate(model.tokens) if len(token) < 5}
        text = "".join(rng.choices("a▁", k=9))
        assert pieces_of(model, text) == plain_merge(text, scores)


# --- characters without a piece --------------------------------------------------------------------------------------


def test_what_has_no_piece_is_unknown_once_or_bytes():
    model = model_of(["ab"])
    assert pieces_of(model, "abxyz▁xé") == ["ab", "<unk>", "▁", "<unk>"]
    model = model_of(["ab"], byte_fallback=True)
    assert pieces_of(model, "abé\n") == ["ab", "<0xC3>", "<0xA9>", "<0x0A>"]
    assert pieces_of(model, "<0x41>") == ["<0x3C>", "<0x30>", "<0x78>", "<0x34>", "<0x31>", "<0x3E>"]
    assert BPEModel(["<unk>", "a"], {}, unknown_id=0).encode("axx") == [1, 0, 0]
    assert BPEModel(["a"], {}).encode("axa") == [0, 0]
    some = BPEModel(["<unk>", "a", "<0xC3>"], {}, unknown_id=0, byte_fallback=True)
    assert some.encode("aé") == [1, 0], "half of the bytes are of no use"
    with pytest.raises(InputError, match="must be a str"):
        model.encode(b"a")


def test_two_letters_that_are_no_pieces_may_make_one():
    assert pieces_of(model_of(["xy"]), "axyx") == ["a", "xy", "<unk>"]


def test_pieces_of_the_user_are_cut_out_first_and_never_merged():
    kinds = {"bc": spiece.USER_DEFINED, "bcd": spiece.USER_DEFINED}
    model = model_of(["ab", "abc", "bc", "bcd", "da"], kinds=kinds)
    assert pieces_of(model, "abcdabc") == ["a", "bcd", "a", "bc"]
    assert pieces_of(model, "bcab") == ["bc", "ab"]


def test_pieces_that_are_not_used_are_cut_again():
    model = model_of(["ab", "abc", "cd"], "▁abc", kinds={"abc": spiece.UNUSED, "c": spiece.UNUSED})
    assert pieces_of(model, "abc") == ["ab", "<unk>"]
    model = model_of([], "ab", kinds={"b": spiece.UNUSED}, byte_fallback=True)
    assert pieces_of(model, "ab") == ["a", "<0x62>"]
    with pytest.raises(InputError, match="knows no unused or user-defined pieces"):
        model.to_json()
    model = model_of(["ab", "bc", "abc"], kinds={"abc": spiece.UNUSED, "ab": spiece.UNUSED})
    assert pieces_of(model, "abc▁ab") == ["a", "b", "c", "▁", "a", "b"]


def test_a_control_piece_with_the_text_of_another_wins():
    pieces = [Piece("<unk>", 0.0, spiece.UNKNOWN), Piece("a", -1.0), Piece("a", 0.0, spiece.CONTROL)]
    content = SentencePieceFile(pieces, TrainerSpec(spiece.BPE), NormalizerSpec("identity"))
    assert SentencePieceBPE(content).encode("a") == [2]


def test_a_file_of_another_type_is_refused():
    with pytest.raises(InputError, match="'unigram' is no BPE model"):
        SentencePieceBPE(SentencePieceFile([Piece()], TrainerSpec(), NormalizerSpec()))


# --- training --------------------------------------------------------------------------------------------------------


def plain_learn(words, n, longest=16):
    """Count all pairs anew for each merge."""
    spelled = {word: list(word) for word in words}
    merges = []
    while len(merges) < n:
        counts = Counter()
        for word, symbols in spelled.items():
            for pair in zip(symbols, symbols[1:], strict=False):
                if len("".join(pair)) <= longest and "".join(pair) not in merges:
                    counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], len("".join(pair)), "".join(pair), len(pair[0])))
        merges.append("".join(best))
        for symbols in spelled.values():
            i = 0
            while i < len(symbols) - 1:
                if (symbols[i], symbols[i + 1]) == best:
                    symbols[i : i + 2] = ["".join(best)]
                i += 1
    return merges


def test_it_learns_the_pairs_that_are_seen_most():
    rng = random.Random(2)
    for _ in range(40):
        words = {"▁" + "".join(rng.choices("abcd", k=rng.randint(1, 7))): rng.randint(1, 4) for _ in range(12)}
        words = {word: n for word, n in words.items() if not any(c * 3 in word for c in "abcd")}
        content = learn(words, 40, special=("<unk>",), coverage=1.0, longest=5, progress=False)
        n_characters = len(set().union(*words))
        merges = [piece.text for piece in content.pieces[1:-n_characters]]
        assert merges == plain_learn(words, 39 - n_characters, longest=5)
        assert [piece.score for piece in content.pieces[1:]] == [-float(i) for i in range(len(content.pieces) - 1)]
        assert {piece.text for piece in content.pieces[-n_characters:]} == set().union(*words)


def test_training_by_hand():
    content = learn("ab ab abc 한a1 한a1", 16, special=("<unk>", "<s>"), user_defined=["XY"], progress=False)
    assert content.pieces[:3] == [
        Piece("<unk>", 0.0, spiece.UNKNOWN), Piece("<s>", 0.0, spiece.CONTROL), Piece("XY", 0.0, spiece.USER_DEFINED),
    ]  # fmt: skip
    texts = [piece.text for piece in content.pieces[3:]]
    assert texts == ["ab", "▁ab", "▁한", "▁abc", "a", "▁", "b", "1", "한", "c"], "no piece mixes scripts and digits"
    assert content.model_type == "bpe" and content.trainer.vocab_size == len(content.pieces)
    content = learn("an ant an", 20, special=("<unk>",), user_defined=["nt"], progress=False)
    assert [piece.text for piece in content.pieces] == ["<unk>", "nt", "▁a", "▁an", "a", "▁", "n"]
    content = learn("can tan", 20, special=("an",), progress=False)
    assert [piece.text for piece in content.pieces].count("an") == 1


def test_rare_characters_get_no_piece_and_their_bytes_do():
    text = "ab " * 5000 + "é"
    content = learn(text, 300, byte_fallback=True, progress=False)
    assert "é" not in {piece.text for piece in content.pieces}
    assert [piece.text for piece in content.pieces[3:259]] == list(BYTES)
    model = SentencePieceBPE.train(text, 300, byte_fallback=True, progress=False)
    assert pieces_of(model, "▁abé") == ["▁ab", "<0xC3>", "<0xA9>"]
    decode = Decoder(content)
    assert decode(model.encode("▁abé▁ab")) == "abé ab"
    assert decode([3 + 0xC3, 3 + 0x41, 3 + 0xED, 3 + 0xA0]) == "\ufffdA\ufffd\ufffd"


def test_what_was_learnt_spells_its_text_and_is_read_again(tmp_path):
    content = learn(TEXT, 60, coverage=1.0, progress=False)
    normalize, model, decode = Normalizer(content.normalizer), SentencePieceBPE(content), Decoder(content)
    assert decode(model.encode(normalize(TEXT))) == TEXT.strip()
    spiece.write(tmp_path / "tokenizer.model", content)
    again = spiece.read(tmp_path / "tokenizer.model")
    assert again == content
    text = tokenizer_of(members()["llama"], again, {}, tmp_path / "tokenizer.model")
    assert text.encode(TEXT) == model.encode(normalize(TEXT))
    assert text.decode(text.model.encode("▁the▁cat")) == "the cat" and text.template.single == "<s>:0 $A:0"


@pytest.mark.parametrize(
    ("text", "size", "options", "message"),
    [
        ("", 50, {}, "the text is empty"),
        (" \n", 50, {}, "the text is empty"),
        ("abc", 5, {}, "5 pieces do not hold the 4 characters of the text: give 7 or more"),
        ("abc", "5", {}, "size of a vocabulary must be a whole number"),
        ("abc", 50, {"coverage": 2}, "coverage is 2"),
        ("abc", 50, {"longest": 0}, "longest is 0"),
    ],
)
def test_what_cannot_be_learnt_is_refused(text, size, options, message):
    with pytest.raises(InputError, match=message):
        learn(text, size, progress=False, **options)


# --- files of llama2.c -----------------------------------------------------------------------------------------------


def written(pieces, longest=None):
    pieces = [(text.encode(), score) for text, score in pieces]
    longest = longest or max(len(text) for text, _ in pieces)
    return struct.pack("<i", longest) + b"".join(struct.pack("<fi", s, len(text)) + text for text, s in pieces)


FIRST = [("<unk>", 0.0), ("\n<s>\n", 0.0), ("\n</s>\n", 0.0), *((token, 0.0) for token in BYTES)]
LEARNT = [(" t", -0.0), ("he", -1.0), (" the", -2.0), *((c, -3.0 - i) for i, c in enumerate(" the"))]


def test_a_file_of_llama2_c(tmp_path):
    path = tmp_path / "tok.bin"
    path.write_bytes(written([*FIRST, *LEARNT]))
    content = llama2c.read(path)
    model, normalize = SentencePieceBPE(content), Normalizer(content.normalizer)
    assert pieces_of(model, normalize("the  thé")) == ["▁the", "▁", "▁t", "h", "<0xC3>", "<0xA9>"]
    assert Decoder(content)(model.encode(normalize("the  thé"))) == "the  thé"
    assert [piece.text for piece in content.pieces[:3]] == ["<unk>", "<s>", "</s>"]
    spiece.write(tmp_path / "tok.model", content)
    assert spiece.read(tmp_path / "tok.model") == content


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0", written(FIRST)[:-1], written(FIRST)[:-7], written(FIRST) + b"\1", written(FIRST[1:]),
        written(FIRST[:-1]), written([*FIRST, *LEARNT], 3), written([*FIRST, *LEARNT, ("he", -9.0)]),
        written(FIRST) + struct.pack("<fi", 0.0, -1), written(FIRST) + struct.pack("<fi", 0.0, 1) + b"\xff",
        written([*FIRST, ("a", float("nan"))]), written([*FIRST, ("hat", -1.0)])[:-1], struct.pack("<i", 8),
    ],
)  # fmt: skip
def test_a_damaged_file_of_llama2_c_is_refused(tmp_path, content):
    path = tmp_path / "tok.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"tok\.bin is no whole vocabulary file of llama2\.c") as error:
        llama2c.read(path)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="cannot be read"):
        llama2c.read(tmp_path / "none.bin")


def test_the_real_file_of_512_pieces(eval_data):
    content = llama2c.read(eval_data / "stories260k/tok512.bin")
    model, normalize, decode = SentencePieceBPE(content), Normalizer(content.normalizer), Decoder(content)
    assert model.encode(normalize("Once upon a time")) == [403, 407, 261, 378]
    for text in ("Once upon a time, there was a little girl.", "  two  spaces", "한국어 é\n"):
        assert decode(model.encode(normalize(text))) == text
