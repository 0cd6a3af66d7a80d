"""Folders with vocab.json and merges.txt against transformers' own classes: ids, pairs, decoded text.

    pytest -m parity tests/test_parity_vocab_and_merges.py       (needs the extra "parity")
"""

import json
import unicodedata

import pytest
from test_parity_sentencepiece import texts  # noqa: F401 a fixture

from minigpt.tokenizer import GPT2Tokenizer, load

pytestmark = pytest.mark.parity

FIRST = {
    "RobertaTokenizer": ["<s>", "<pad>", "</s>", "<unk>"],
    "BartTokenizer": ["<s>", "<pad>", "</s>", "<unk>"],
    "DebertaTokenizer": ["[CLS]", "[PAD]", "[SEP]", "[UNK]"],
    "Qwen2Tokenizer": [],
}
LAST = {
    "RobertaTokenizer": ["madeupword0000", "<mask>"],
    "BartTokenizer": ["<mask>"],
    "DebertaTokenizer": ["[MASK]"],
    "Qwen2Tokenizer": ["<|endoftext|>"],
}
MORE = ["a <mask> b", "  <mask>", "x</s> y", "a [MASK]b", "<s>", "<|endoftext|>\n", "madeupword0000", "I'LL 1234", ""]


@pytest.fixture(scope="module")
def learnt(eval_data):
    text = (eval_data / "prose/prose_1MB.txt").read_text(encoding="utf-8")[:100_000]
    return GPT2Tokenizer.train(text, 1500, progress=False)


@pytest.mark.parametrize("prefix_space", [False, True])
@pytest.mark.parametrize("name", FIRST)
def test_ids_are_those_of_transformers(learnt, texts, tmp_path, name, prefix_space):  # noqa: F811
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed: pip install transformers')
    tokens = [*FIRST[name], *learnt.tokens[:-1], *LAST[name]]
    vocab = {token: i for i, token in enumerate(tokens)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in learnt.merges)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    config = {"tokenizer_class": name, "add_prefix_space": prefix_space}
    if name != "Qwen2Tokenizer":  # as the published files say it; transformers 5 does not say it by itself
        flags = {"lstrip": True, "rstrip": False, "normalized": False, "single_word": False, "special": True}
        config["mask_token"] = {"__type": "AddedToken", "content": LAST[name][-1]} | flags
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs = getattr(transformers, name).from_pretrained(tmp_path)
    ours = load(tmp_path)
    known = [text for text in texts[:4000] if not any(unicodedata.category(c) == "Cn" for c in text)]
    for text in [*known, *MORE]:
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text) == ids, text
        assert ours.wrap(ours.encode(text))[0] == theirs(text)["input_ids"]
        assert ours.decode(ids) == theirs.decode(ids, clean_up_tokenization_spaces=False), text
    some = known[:500]
    if name == "DebertaTokenizer":
        some = []  # transformers 5 puts [SEP] twice between two texts; Microsoft's code and transformers 4 put it once
    pairs = list(zip(some, some[1:], strict=False))
    assert [ours.encode_pair(*pair)[0] for pair in pairs] == [theirs([pair])["input_ids"][0] for pair in pairs]
    ours.save(tmp_path / "saved")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert [again(text)["input_ids"] for text in MORE] == [theirs(text)["input_ids"] for text in MORE]
