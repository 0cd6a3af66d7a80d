"""Sources, the split, token arrays and windows."""

import hashlib

import numpy as np
import pytest

from minigpt import data, ops
from minigpt.data import stories
from minigpt.errors import InputError
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer


def whole(corpus: data.Corpus, part: str) -> str:
    return "".join(corpus.pieces(part))


def written(path, content: bytes):
    path.write_bytes(content)
    return path


def test_a_file_is_split_by_position(tmp_path):
    text = "".join(chr(97 + i % 26) for i in range(1000))
    corpus = data.load(written(tmp_path / "a.txt", text.encode()))
    assert (whole(corpus, "train"), whole(corpus, "valid")) == (text[:900], text[900:])
    assert (corpus.name, corpus.tokenizer, corpus.large) == ("a", "char", False)


def test_a_byte_order_mark_goes_and_windows_line_ends_become_plain(tmp_path):
    corpus = data.load(written(tmp_path / "a.txt", "\ufeffone\r\ntwo\r\n".encode() * 1 + b"three " * 50))
    text = whole(corpus, "train") + whole(corpus, "valid")
    assert text.startswith("one\ntwo\nthree") and "\r" not in text and "\ufeff" not in text


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"abc\0def", "byte 3 is zero"), (b"caf\xe9 au lait", r"byte 3 is b'\\xe9'")],
)
def test_files_that_are_no_text(content, words, tmp_path):
    with pytest.raises(InputError, match=words):
        data.load(written(tmp_path / "a.txt", content))


def test_missing_files_folders_and_numbers_of_stories(tmp_path):
    for source, words in (
        (tmp_path / "none.txt", "does not exist"), (tmp_path, "is a folder"),
        ("stories:5", "10 to 9,999,999"), ("stories:many", "10 to"), ("stories:50:9", "1 to 3"),
        ("stories:99999999999999999999", "10 to 9,999,999"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            data.load(source)


def test_stories_are_whole_and_never_in_both_parts():
    corpus = data.load("stories:300")
    train, valid = (whole(corpus, part).strip().split("\n\n") for part in ("train", "valid"))
    assert (len(train), len(valid)) == (300, 30)
    assert not set(train) & set(valid)
    assert train == stories.documents(300)


@pytest.mark.slow
def test_python_docs_are_real_english_and_the_same_again():
    corpus = data.load("pydocs")
    train, valid = whole(corpus, "train"), whole(corpus, "valid")
    assert 1_000_000 < len(train) + len(valid) < 6_000_000
    assert 0.08 < len(valid) / (len(train) + len(valid)) < 0.12
    assert "The if statement is used for conditional execution" in " ".join(train.replace('"', "").split())


def large(tmp_path, constants) -> tuple:
    """A file that counts as large, of lines with characters of one to four bytes."""
    lines = [f"line {i}: h\u00e9llo \ud55c\uae00 \U0001f642 and more\n" for i in range(400)]
    path = written(tmp_path / "large.txt", "".join(lines).encode())
    constants.set(large_file=1000, file_piece=777)
    return path, "".join(lines)


def test_a_large_file_comes_in_pieces_that_are_whole_lines(tmp_path, constants):
    path, text = large(tmp_path, constants)
    corpus = data.load(path)
    pieces = list(corpus.pieces("train"))
    assert corpus.large and len(pieces) > 5 and all(piece.endswith("\n") for piece in pieces)
    assert "".join(pieces) + whole(corpus, "valid") == text
    assert 0.08 < len(whole(corpus, "valid")) / len(text) < 0.11


def test_tokens_of_a_large_file_live_on_disk_until_the_text_changes(tmp_path, monkeypatch, constants):
    path, text = large(tmp_path, constants)
    tokenizer = CharTokenizer.train(text + "!")
    encoded = []
    real = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda piece: encoded.append(piece) or real(piece))
    train, valid = data.encode(data.load(path), tokenizer, 8, tmp_path / "run")
    assert isinstance(train, np.memmap)
    assert tokenizer.decode(train) + tokenizer.decode(valid) == text
    n = len(encoded)
    data.encode(data.load(path), tokenizer, 8, tmp_path / "run")
    assert len(encoded) == n, "the second time nothing is encoded"
    path.write_bytes(path.read_bytes() + b"!\n")
    _, valid = data.encode(data.load(path), tokenizer, 8, tmp_path / "run")
    assert len(encoded) > n and tokenizer.decode(valid).endswith("!\n")
    data.encode(data.load(path), CharTokenizer.train(text + "!?"), 8, tmp_path / "run")
    assert len(encoded) > n, "another vocabulary has other ids"


def test_a_text_shorter_than_a_window(tmp_path):
    corpus = data.load(written(tmp_path / "a.txt", b"abc" * 40))
    data.encode(corpus, CharTokenizer("abc"), 11)
    with pytest.raises(InputError, match=r"the validation part has 12 tokens, fewer than one window of 12 \+ 1"):
        data.encode(corpus, CharTokenizer("abc"), 12)


def test_batches_are_windows_and_a_function_of_seed_and_step():
    tokens = np.arange(100, dtype=np.uint16)
    ids, targets = data.batch(tokens, 50, 7, seed=3, step=4)
    assert ids.shape == targets.shape == (50, 7) and ids.dtype == np.int64
    assert (ids == ids[:, :1] + np.arange(7)).all() and (targets == ids + 1).all()
    again, other, seed = (data.batch(tokens, 50, 7, *key)[0] for key in ((3, 4), (3, 5), (4, 4)))
    assert (again == ids).all() and (other != ids).any() and (seed != ids).any()


def test_batches_reach_both_ends():
    tokens = np.arange(20)
    starts = np.concatenate([data.batch(tokens, 64, 5, 0, step)[0][:, 0] for step in range(20)])
    assert set(starts) == set(range(15)), "the last start leaves room for one target"


@pytest.mark.parametrize("n", [2, 9, 10, 11, 16, 17, 33])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_windows_have_every_token_but_the_first_as_a_target_once(n, batch_size):
    tokens = np.arange(100, 100 + n, dtype=np.uint16)
    batches = list(data.windows(tokens, 5, batch_size))
    assert all(len(ids) <= batch_size and ids.shape == targets.shape for ids, targets in batches)
    ids, targets = (np.concatenate(parts).reshape(-1) for parts in zip(*batches, strict=True))
    counted = targets != ops.IGNORED
    assert (targets[counted] == tokens[1:]).all() and (ids[counted] == tokens[:-1]).all()
    assert not ids[~counted].any()


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_a_new_window_begins_at_each_start_and_nothing_is_left_out(batch_size):
    tokens, starts = np.arange(100, 130, dtype=np.uint16), np.array([4, 6, 17, 18, 29])
    batches = list(data.windows(tokens, 5, batch_size, starts))
    ids, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert (ids[:, 0] - 100).tolist() == [0, 4, 6, 11, 16, 17, 18, 23, 28]
    counted = targets != ops.IGNORED
    assert (targets[counted] == tokens[1:]).all() and (ids[counted] == tokens[:-1]).all()
    assert not ids[~counted].any() and targets.dtype == ids.dtype == np.int64


def test_a_share_of_the_windows_begins_where_it_is_told_to():
    tokens, starts = np.arange(100, 5000, dtype=np.uint16), np.array([4, 6, 17, 4000])
    ids, targets = data.batch(tokens, 4000, 5, seed=0, step=0, starts=starts, share=0.75)
    at_starts = np.isin(ids[:, 0] - 100, starts)
    assert 0.73 < at_starts.mean() < 0.77 and set(ids[at_starts, 0] - 100) == set(starts)
    assert len(np.unique(ids[~at_starts, 0])) > 800, "the others begin anywhere"
    assert (targets == ids + 1).all()
    assert (data.batch(tokens, 9, 5, 0, 0)[0] == data.batch(tokens, 9, 5, 0, 0, starts, 0.0)[0]).all()


def test_gpt2_ends_documents_with_a_token_of_its_own(tmp_path):
    corpus = data.load("stories:40:1")
    text = GPT2Tokenizer.train(corpus.pieces("train"), 400, progress=False)
    tokens, held_out = data.encode(corpus, text, 16)
    end = text.end_of_text_id
    assert (tokens == end).sum() == 39 and (held_out == end).sum() == 3, "between documents"
    assert text.decode(tokens[: list(tokens).index(end)]) == stories.documents(1, variety=1)[0]
    own = written(tmp_path / "own.txt", b"one<|endoftext|>two " * 40)
    tokens, _ = data.encode(data.load(own), text, 16)
    assert (tokens == end).sum() == 36, "in a file of one's own, where it says so"


def test_fingerprints_tell_texts_apart():
    a, b = np.arange(5, dtype=np.uint16), np.arange(3, dtype=np.uint16)
    assert data.fingerprint(a, b) == data.fingerprint(a.astype(np.uint32), b)
    assert len({data.fingerprint(a, b), data.fingerprint(b, a), data.fingerprint(a, b[:2])}) == 3
    assert data.fingerprint(a) == hashlib.sha256(a.astype("<u4").tobytes() + b"|").hexdigest()[:16]


@pytest.mark.parametrize("ends", ["", "\n"])
@pytest.mark.parametrize("letters", ["abcdefg ", "가나다 ", "a가나다 ", "ab가나다 "])
def test_a_large_file_without_line_ends(tmp_path, constants, letters, ends):
    """As text8, a hundred million letters in one line."""
    constants.set(large_file=1000, file_piece=101)
    text = letters * 301 + ends
    corpus = data.load(written(tmp_path / "one.txt", text.encode()))
    train, valid = (list(corpus.pieces(part)) for part in ("train", "valid"))
    assert "".join(train + valid) == text and max(map(len, train)) <= 202
    assert 0.08 < len("".join(valid)) / len(text) < 0.12


def test_another_tokenizer_of_the_same_size_has_tokens_of_its_own(tmp_path, constants):
    constants.set(large_file=100)
    path = written(tmp_path / "a.txt", b"ab\n" * 200)
    for characters in ("ab\n", "ba\n"):
        tokenizer = CharTokenizer(characters)
        assert tokenizer.decode(data.encode(data.load(path), tokenizer, 8, tmp_path)[0][:3]) == "ab\n"


@pytest.mark.parametrize("before", range(4))
def test_the_wrong_byte_of_one_long_line_is_named(tmp_path, constants, before):
    """A piece may end inside a letter; its first bytes are read with the next piece."""
    constants.set(large_file=100, file_piece=50)
    good = b"a" * before + "가".encode() * 100
    corpus = data.load(written(tmp_path / "one.txt", good + b"\xff" + good * 9))
    with pytest.raises(InputError, match=rf"byte {len(good)} is b'\\xff'"):
        list(corpus.pieces("train"))


def test_whole_windows_stand_one_behind_the_other_and_share_one_token():
    """By hand: 11 tokens in windows of 3 and the one behind them; what fills no window is left out."""
    first, second = data.whole_windows(np.arange(11, dtype=np.uint16), 3, 2)
    assert first.tolist() == [[0, 1, 2, 3], [3, 4, 5, 6]] and second.tolist() == [[6, 7, 8, 9]]
    assert first.dtype == np.int64
    assert list(data.whole_windows(np.arange(3), 3, 2)) == []
