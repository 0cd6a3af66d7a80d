"""GPT-1's tokenizer: published encodings, training, decoding, saving and loading, damaged files."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt import load_tokenizer
from minigpt.errors import InputError
from minigpt.tokenizer import GPT1Tokenizer, gpt1, text
from minigpt.tokenizer.base import Remembered

TEXT = "The cat sat on the mat. The cats, they didn't sit!\nA newer cat's mat; the newest 'mat'.\n" * 3

PUBLISHED = {
    "the president is": [481, 4735, 544],
    "Hello world": [3570, 1276],
    "Hello, world!": [3570, 240, 1276, 267],
    "I'm sure he is, \" said the": [249, 719, 881, 487, 544, 240, 244, 603, 481],
    "She didn't know.": [520, 626, 538, 699, 239],
    "First line.\nSecond line.": [929, 1584, 239, 40477, 1420, 1584, 239],
    "First.\n\n\nSecond.": [929, 239, 40477, 1420, 239],
    "well — maybe… ´tis": [862, 260, 1096, 749, 256, 5683],
    "unbelievably tokenization": [17111, 571, 2987, 26922],
    "naïve café": [24213, 13550],
    "3.14 $100 100%": [19243, 7765, 289, 11477, 11477, 297],
    "A man is eating pizza.": [246, 762, 544, 3658, 6856, 239],
    "antidisestablishmentarianism": [2693, 15876, 4916, 10832, 1448, 40441, 37590],
    "안녕하세요": [0, 0, 0, 0, 0],
    "<unk>": [295, 2530, 290],
    "very positive negative i . , \"": [963, 6353, 9503, 249, 239, 240, 244],
}


@pytest.fixture(scope="module")
def small():
    return GPT1Tokenizer.train(TEXT, 60, pipeline="rules", progress=False)


@pytest.fixture(scope="module")
def published(eval_data):
    return load_tokenizer(eval_data / "gpt1_vocab")


@pytest.mark.parametrize("pipeline", text.PIPELINES)
def test_published_encodings(published, pipeline):
    if pipeline == "ftfy+spacy" and not text.has_paper_pipeline():
        pytest.skip("ftfy or spaCy is not installed")
    ours = GPT1Tokenizer(published.tokens, published.merges, pipeline)
    assert {raw: ours.encode(raw) for raw in PUBLISHED} == PUBLISHED


def test_the_published_vocabulary(published):
    assert published.vocab_size == 40_478 and len(published.merges) == 40_000
    assert [published.token(i) for i in (0, 1, 477, 479, 40477)] == ["<unk>", ".", "th", "ed</w>", "\n</w>"]
    assert all(published.tokens[477 + i] == left + right for i, (left, right) in enumerate(published.merges))
    assert list(published.listing())[481] == "[th][e</w>] -> [the</w>] 481"


def test_the_published_vocabulary_is_written_as_it_was_read(published, eval_data, tmp_path):
    published.save(tmp_path, names=gpt1.OPENAI_FILES)
    vocabulary, merges = gpt1.OPENAI_FILES
    assert (tmp_path / merges).read_bytes() == (eval_data / "gpt1_vocab" / merges).read_bytes()
    theirs = json.loads((eval_data / "gpt1_vocab" / vocabulary).read_text(encoding="utf-8"))
    assert json.loads((tmp_path / vocabulary).read_text(encoding="utf-8")) == theirs


def test_a_minimal_vocabulary(tmp_path):
    tokens = [*"lowerstidn", "w</w>", "r</w>", "t</w>", "lo", "low", "er</w>", "<unk>"]
    (tmp_path / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nl o\nlo w\ne r</w>\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"text_pipeline": "rules"}', encoding="utf-8")
    small = load_tokenizer(tmp_path)
    assert small.encode("lower") == [14, 15]
    assert small.encode("lower x\nLOWER") == [14, 15, 16, 16, 14, 15], "x and the line end are unknown here"
    assert small.decode([14, 15, 16]) == "lower <unk>"


def test_the_layout_of_a_trained_vocabulary(small):
    characters = sorted(set(TEXT.lower()) - set(" \n"))
    merged = [left + right for left, right in small.merges]
    assert small.tokens == ["<unk>", *characters, *[c + "</w>" for c in characters], *merged, "\n</w>"]
    assert small.vocab_size == 60
    assert (small.unknown_id, small.newline_id) == (0, 59)


def test_training_stops_where_pairs_run_out():
    assert GPT1Tokenizer.train("ab ab cd", 100, pipeline="rules", progress=False).merges == [("a", "b</w>")]
    one = GPT1Tokenizer.train("ab ab cd", 100, pipeline="rules", min_frequency=1, progress=False)
    assert one.merges == [("a", "b</w>"), ("c", "d</w>")]


def test_training_takes_one_text_or_several(small):
    several = GPT1Tokenizer.train(TEXT.splitlines(keepends=True), 60, pipeline="rules", progress=False)
    assert several.tokens == small.tokens


def test_decoding_gives_lower_case_words_and_line_ends(small):
    ids = small.encode("The cat's mat.\n\nThey  SAT, didn't they?")
    assert small.decode(ids) == "the cat 's mat .\nthey sat , did n't they <unk>"
    assert small.decode(np.array(ids)) == small.decode(ids)
    assert small.decode([]) == ""
    assert small.count_unknown(ids) == small.count_unknown(np.array(ids)) == 1


@pytest.mark.parametrize(("ids", "message"), [([3, 60], "60"), ([-1, 3], "-1"), ([1.5], "whole"), ([[1]], "flat")])
def test_ids_that_are_not_in_the_vocabulary_are_refused(small, ids, message):
    for given_ids in (ids, np.array(ids)):
        with pytest.raises(InputError, match=message):
            small.decode(given_ids)


@settings(deadline=None)
@given(raw=st.text(st.characters(), max_size=60))
def test_any_text_can_be_encoded(small, raw):
    ids = small.encode(raw)
    assert all(0 <= i < small.vocab_size for i in ids)
    assert isinstance(small.decode(ids), str)


@settings(deadline=None)
@given(words=st.lists(st.text("acehimnorstwy", min_size=1, max_size=8), max_size=8))
def test_lower_case_words_of_known_characters_come_back(small, words):
    assert small.decode(small.encode(" ".join(words))).replace(" ", "") == "".join(words)


@pytest.mark.parametrize("names", [gpt1.HUGGING_FACE_FILES, gpt1.OPENAI_FILES])
def test_saved_and_loaded_it_gives_the_same_ids(small, tmp_path, names):
    small.save(tmp_path / "new" / "folder", names)
    again = load_tokenizer(tmp_path / "new" / "folder")
    assert isinstance(again, GPT1Tokenizer)
    assert (again.tokens, again.merges, again.pipeline) == (small.tokens, small.merges, "rules")
    assert again.encode(TEXT) == small.encode(TEXT)
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {*names, "tokenizer_config.json"}


def test_the_pipeline_is_kept_and_its_absence_warned_of(small, tmp_path, monkeypatch):
    """A vocabulary made with ftfy and spaCy works without them, says so once, and does not forget when saved again."""
    GPT1Tokenizer(small.tokens, small.merges, "ftfy+spacy").save(tmp_path)
    monkeypatch.setattr(text, "has_paper_pipeline", lambda: False)
    assert GPT1Tokenizer.train(TEXT, 60, progress=False).pipeline == "rules"
    lone = load_tokenizer(tmp_path)
    with pytest.warns(UserWarning, match="pip install ftfy spacy") as warned:
        assert lone.encode(TEXT) == small.encode(TEXT)
        lone.encode("more text")
    assert len(warned) == 1
    lone.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))["text_pipeline"] == "ftfy+spacy"


def test_with_both_installed_training_uses_the_paper_s_pipeline():
    if not text.has_paper_pipeline():
        pytest.skip("ftfy or spaCy is not installed")
    assert GPT1Tokenizer.train(TEXT, 60, progress=False).pipeline == "ftfy+spacy"


def test_explain_shows_every_merge():
    toy = GPT1Tokenizer(
        ["<unk>", "l", "o", "w", "e", "r", "r</w>", "er</w>", "lo", "low"],
        [("e", "r</w>"), ("l", "o"), ("lo", "w")], "rules",
    )
    assert toy.explain("Lower\nx").splitlines() == [
        "Lower",
        "    l o w e r</w>",
        "    l o w er</w>    merge 1: e + r</w>",
        "    lo w er</w>    merge 2: l + o",
        "    low er</w>    merge 3: lo + w",
        "    ids 9 7",
        "x",
        "    x</w>",
        "    ids 0",
    ]
    assert list(toy.listing())[7:] == ["[e][r</w>] -> [er</w>] 7", "[l][o] -> [lo] 8", "[lo][w] -> [low] 9"]


def test_the_cache_does_not_grow_for_ever(small, constants):
    constants.set(remembered_words=5)
    fresh = GPT1Tokenizer(small.tokens, small.merges, "rules")
    assert fresh.encode(TEXT) == small.encode(TEXT)
    kept = [len(results) for results in vars(fresh).values() if isinstance(results, Remembered)]
    assert len(kept) == 2 and all(1 <= size <= 5 for size in kept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GPT1Tokenizer.train(" \n ", 90, pipeline="rules"), "no words"),
        (lambda: GPT1Tokenizer.train("abc", 7, pipeline="rules"), "7 is too small.*3 characters.*choose 8 or more"),
        (lambda: GPT1Tokenizer.train("abc", 90, pipeline="nltk"), "'nltk' is not known"),
        (lambda: GPT1Tokenizer.train("abc", 90, ties="other", pipeline="rules"), "'other' is not known"),
        (lambda: GPT1Tokenizer(["a"], []), "no <unk> token"),
        (lambda: GPT1Tokenizer(["<unk>", "a", "a"], []), "'a' twice"),
    ],
)
def test_what_cannot_be_made_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.json", None, "vocab.json cannot be read \\(No such file"),
        ("merges.txt", None, "merges.txt cannot be read \\(No such file"),
        ("vocab.json", b"", "vocab.json is empty"),
        ("vocab.json", b'{"a": 0, ', "vocab.json is not JSON"),
        ("vocab.json", b"[1, 2]", "holds a list"),
        ("vocab.json", b"{}", "holds no vocabulary"),
        ("vocab.json", b'{"a": 0, "b": 0}', "'a' and 'b' have the same id 0"),
        ("vocab.json", b'{"a": 0, "b": 2}', "'b' has the id 2, expected a number from 0 to 1"),
        ("vocab.json", b'{"a": 0, "b": "1"}', "'b' has the id '1'"),
        ("vocab.json", b'{"<unk>": 0, "a": 1}', "do not belong together: merge 1,.*which the vocabulary lacks"),
        ("vocab.json", b"\xff\xfe\x00", "not UTF-8"),
        ("merges.txt", b"#version: 0.2\na t</w>\nabc\n", "merges.txt, line 3: 'abc' is not a merge"),
        ("merges.txt", b"#version: 0.2\na t h\n", "line 2: 'a t h' is not a merge"),
        ("merges.txt", b"a t\n\n", "line 2: '' is not a merge"),
        ("merges.txt", b"t h\nh e\nt h\n", "line 3: the merge 't h' stands on line 1 already"),
        ("merges.txt", b"\xff", "not UTF-8"),
        ("tokenizer_config.json", b"{", "tokenizer_config.json is not JSON"),
        ("tokenizer_config.json", b'{"tokenizer_class": "FSMTTokenizer"}', "names the tokenizer class 'FSMTTokenizer'"),
        ("tokenizer_config.json", b'{"tokenizer_class": ["x"]}', "names the tokenizer class"),
        ("tokenizer_config.json", b'{"text_pipeline": "nltk"}', "'nltk' is not known"),
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


def test_folders_without_a_tokenizer_are_named(tmp_path):
    with pytest.raises(InputError, match="holds no tokenizer: expected vocab.json and merges.txt"):
        load_tokenizer(tmp_path)
    with pytest.raises(InputError, match="nowhere is not a folder"):
        load_tokenizer(tmp_path / "nowhere")


def test_merges_without_a_version_line_and_with_windows_line_ends_are_read(small, tmp_path):
    small.save(tmp_path)
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "merges.txt").write_bytes("\r\n".join(lines[1:]).encode())
    assert load_tokenizer(tmp_path).merges == small.merges


@pytest.mark.parity
def test_transformers_opens_our_folder(small, tmp_path):
    transformers = pytest.importorskip("transformers")
    small.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__.startswith("OpenAIGPTTokenizer")
    assert theirs("The cats, they sat")["input_ids"] == small.encode("The cats, they sat")


@pytest.mark.parity
def test_both_pipelines_give_a_book_the_same_ids(published, eval_data):
    if not text.has_paper_pipeline():
        pytest.skip("ftfy or spaCy is not installed")
    raw = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    ids = published.encode(raw)
    assert GPT1Tokenizer(published.tokens, published.merges, "rules").encode(raw) == ids
    assert len(ids) > 240_000 and published.count_unknown(ids) == 0
