"""XLM's tokenizer against transformers': the same ids, for one text and for two, and the same text back."""

import json
from collections import Counter

import numpy as np
import pytest

from minigpt import load_tokenizer
from minigpt.data import stories
from minigpt.errors import InputError
from minigpt.tokenizer import bpe, xlm

pytestmark = pytest.mark.parity

HARD = [
    "", " ", "Hello, World! It's 3.5% (or more)…", "Crème Brûlée at the café, “naïve”", "don't can't I'll",
    "a  b\tc\nd", "http://x.org/?a=1&b=2", "«oui», dit-il. 。，！？（１２）【a】", "<s> a </s> <special3>b",
    "한국어 문장입니다.", "U.S.A. Mr. Smith vs. Dr. Who", "x\u200by\u0000z", "e\u0301 \u00e9", "--- -- - —",
    "\U0001f600 ok", "'quoted' \"twice\"",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small vocabulary in the form of XLM's files, whose merges have counts."""
    folder = tmp_path_factory.mktemp("xlm")
    words = Counter(xlm.without_accents(stories.corpus(40)).split())
    words = {(*word[:-1], word[-1] + bpe.END_OF_WORD): count for word, count in words.items()}
    merges = []
    while len(merges) < 300:
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        (best, count), = pairs.most_common(1)
        merges.append((*best, count))
        words = {joined(word, best): n for word, n in words.items()}
    letters = [chr(i) for i in range(33, 127) if not chr(i).isupper()]
    tokens = ["<s>", "</s>", "<pad>", "<unk>", *xlm.SPECIAL, *letters, *(one + bpe.END_OF_WORD for one in letters)]
    tokens += [a + b for a, b, _ in merges]
    ids = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("".join(f"{a} {b} {n}\n" for a, b, n in merges), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMTokenizer"}', encoding="utf-8")
    return folder


def joined(word, pair):
    """The word with this pair of neighbours made one."""
    found = []
    for symbol in word:
        if found and (found[-1], symbol) == pair:
            found[-1] += symbol
        else:
            found.append(symbol)
    return tuple(found)


@pytest.fixture
def theirs(folder, transformers):
    pytest.importorskip("sacremoses")
    return transformers.XLMTokenizer.from_pretrained(folder)


def texts():
    rng = np.random.default_rng(0)
    letters = np.array(list("abcXYZéüñ ,.!?'\"-()%&0123456789 \n\t한국，。’…"))
    drawn = ["".join(rng.choice(letters, size=rng.integers(1, 60))) for _ in range(1500)]
    return [*HARD, *stories.corpus(10).split("."), *drawn]


def test_the_same_ids_and_the_same_text_back(folder, theirs):
    ours = load_tokenizer(folder)
    differ = []
    for text in texts():
        ids = theirs.encode(text, add_special_tokens=False)
        if ours.encode(text) != ids:
            differ.append(text)
        elif ids and ours.decode(ids) != theirs.decode(ids, clean_up_tokenization_spaces=False):
            differ.append(f"decoded: {text}")
    assert differ == []
    assert ours.encode_pair("one text", "another one")[0] == theirs("one text", "another one")["input_ids"]
    assert ours.encode_pair("one text")[0] == theirs("one text")["input_ids"]
    assert ours.role("mask") == theirs.mask_token_id and ours.role("pad") == theirs.pad_token_id


def test_saved_and_opened_again(folder, theirs, tmp_path):
    ours = load_tokenizer(folder)
    ours.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert [again.encode(text) for text in HARD] == [ours.encode(text) for text in HARD]
    assert type(theirs).from_pretrained(tmp_path).encode("Hello there") == theirs.encode("Hello there")
    longer = ours.with_special(["_mask_", "_classify_"])
    longer.save(tmp_path)
    assert load_tokenizer(tmp_path).own == ("_classify_",) and load_tokenizer(tmp_path).tokens == longer.tokens
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "merges.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]), encoding="utf-8")
    with pytest.raises(InputError, match="merges.txt is not what was saved"):
        load_tokenizer(tmp_path)


def test_what_is_missing_is_named(folder, tmp_path, monkeypatch):
    (tmp_path / "vocab.json").write_text('{"a": 0}', encoding="utf-8")
    (tmp_path / "merges.txt").write_text("a a 1\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMTokenizer"}', encoding="utf-8")
    with pytest.raises(InputError, match="has no <unk>: is it XLM's"):
        load_tokenizer(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    with pytest.raises(InputError, match="takes its words from the package sacremoses: install it with"):
        load_tokenizer(folder)
