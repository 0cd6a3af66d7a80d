"""Every step of `tokenizer.json` that is built here, against the library `tokenizers`."""

import base64
import itertools
import json
import random
import unicodedata

import pytest
from test_parity_wordpiece import random_texts

from minigpt.tokenizer import load, steps_before, tokenizer_json
from minigpt.tokenizer.pipeline import PieceTokenizer

pytestmark = pytest.mark.parity

STRING = {"String": "ab"}
REGEX = {"Regex": r"\s+|[aeiou]+"}
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
READ_ANEW = (  # what Oniguruma reads in another way than the package regex: words, lines, sets in sets, nothing
    r"\w+|[^\w\s]+", r"\W+", r"[\W\d]+", "^a|[b.]$", r" ?[^(\s|[.,!?…。，、।۔،])]+", "[a-z&&[^aeiou]]+",
    r"(?<=a)|\d", r"(?=\d)|a*", "^|$",
)  # fmt: skip
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
NORMALIZERS = [
    *({"type": "BertNormalizer"} | settings for settings in (
        {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False},
        {"clean_text": False, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False},
        {"clean_text": True, "handle_chinese_chars": False, "strip_accents": False, "lowercase": True},
    )),
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"},
    {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\\1"},
    {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "-"},
    {"type": "Prepend", "prepend": "▁"}, {"type": "Nmt"}, {"type": "ByteLevel"},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
    {"type": "Sequence", "normalizers": []},
]  # fmt: skip
SPLITTERS = [
    {"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
    {"type": "CharDelimiterSplit", "delimiter": " "}, {"type": "Punctuation"},
    *({"type": "Punctuation", "behavior": behavior} for behavior in steps_before.BEHAVIORS),
    {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
    *({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
      for pattern in (STRING, REGEX) for behavior in steps_before.BEHAVIORS for invert in (False, True)),
    *({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
      for pattern in (LLAMA_3, *READ_ANEW)),
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    BYTES,
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False},
    *({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
      for scheme in steps_before.SCHEMES for split in (True, False)),
    {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
    {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True},
    {"type": "Metaspace", "replacement": "▁", "add_prefix_space": False, "prepend_scheme": "never"},
    {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, BYTES | {"add_prefix_space": False}]},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁"}]},
    {"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]},
    {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]},
]  # fmt: skip
DECODERS = [
    {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "WordPiece", "prefix": "", "cleanup": True},
    BYTES, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
    {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    {"type": "Strip", "content": "a", "start": 2, "stop": 0}, {"type": "Strip", "content": "a", "start": 0, "stop": 1},
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
]  # fmt: skip
TOKENS = (
    "a", "##a", "##", "▁the", "▁▁x", "▁", "b▁c", "ing</w>", "</w>", "<0xE3>", "<0x81>", "<0x82>", "<0xFF>", "<0xZZ>",
    "Ġthe", "ðŁ", "ĺ", "é", "Ã", "©", ".", "n't", "do", "not", "'s", "'", "?", "aa", "aaa", "baa", " ", "  a ", "[SEP]",
    "고",
)  # fmt: skip


def theirs(**parts):
    """The library's tokenizer with these parts."""
    import tokenizers

    vocab = {token: i for i, token in enumerate(["[UNK]", *TOKENS, "[CLS]", "<s>", "</s>"])}
    model = {"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    content = {"version": "1.0", "added_tokens": [], "model": model | {"max_input_chars_per_word": 100}}
    content |= {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None} | parts
    return content, tokenizers.Tokenizer.from_str(json.dumps(content))


def known_texts(n: int) -> list[str]:
    """Random texts of characters that Unicode 14 has: each library knows those of its own version of Unicode."""
    return [text for text in random_texts(n) if not any(unicodedata.category(one) == "Cn" for one in text)]


def name_of(settings):
    return json.dumps(settings, ensure_ascii=True).replace('"', "")[:60]


@pytest.mark.parametrize("settings", NORMALIZERS, ids=name_of)
def test_normalizers(settings):
    _, library = theirs(normalizer=settings)
    step = tokenizer_json.step("normalizer", settings, "here")
    texts = known_texts(6000) if settings["type"] == "Precompiled" else random_texts(3000)
    wrong = [text for text in texts if step(text) != library.normalizer.normalize_str(text)]
    assert wrong == []


def test_the_compiled_map_of_sentencepiece(eval_data):
    from minigpt.tokenizer import spiece

    block = spiece.read(eval_data / "sentencepiece" / "albert_v2_30k.model").normalizer.precompiled_charsmap
    settings = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(block).decode()}
    test_normalizers(settings)


@pytest.mark.parametrize("settings", SPLITTERS, ids=name_of)
def test_splitters(settings):
    _, library = theirs(pre_tokenizer=settings)
    step = tokenizer_json.step("pre_tokenizer", settings, "here")
    wrong = []
    for text in [*known_texts(6000), "xababaab aab", "a1b22 ③x", "..a.b..c", "▁▁a▁b▁", "  two  words ", "don't I'LL"]:
        expected = [word for word, _ in library.pre_tokenizer.pre_tokenize_str(text)]
        if step(text, True) != expected:
            wrong.append((text, step(text, True), expected))
    assert wrong == []


@pytest.mark.parametrize("settings", DECODERS, ids=name_of)
def test_decoders(settings):
    _, library = theirs(decoder=settings)
    step = tokenizer_json.step("decoder", settings, "here")
    draw = random.Random(0)
    wrong = []
    for _ in range(2000):
        tokens = draw.choices(TOKENS, k=draw.randint(0, 6))
        if "".join(step(tokens)) != library.decoder.decode(tokens):
            wrong.append((tokens, "".join(step(tokens)), library.decoder.decode(tokens)))
    assert wrong == []


def special(name, i):
    return {"SpecialToken": {"id": name, "type_id": i}}


def sequence(name, i):
    return {"Sequence": {"id": name, "type_id": i}}


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [sequence("A", 0), special("</s>", 0), special("[CLS]", 2)],
    "pair": [sequence("A", 0), special("</s>", 0), sequence("B", 1), special("</s>", 1), special("[CLS]", 2)],
    "special_tokens": {
        "</s>": {"id": "</s>", "ids": [37], "tokens": ["</s>"]},
        "[CLS]": {"id": "[CLS]", "ids": [35], "tokens": ["[CLS]"]},
    },
}  # fmt: skip
TEMPLATES = [
    TEMPLATE,
    {"type": "BertProcessing", "sep": ["[SEP]", 33], "cls": ["[CLS]", 35]},
    {"type": "RobertaProcessing", "sep": ["</s>", 37], "cls": ["<s>", 36], "trim_offsets": True,
     "add_prefix_space": True},
    BYTES,
    {"type": "Sequence", "processors": [BYTES, TEMPLATE]},
    None,
]  # fmt: skip


@pytest.mark.parametrize("settings", TEMPLATES, ids=name_of)
def test_templates(settings, tmp_path):
    content, library = theirs(post_processor=settings, pre_tokenizer={"type": "BertPreTokenizer"})
    ours = tokenizer_json.open_tokenizer(content, tmp_path / "tokenizer.json")
    for texts in (("a",), ("a é", "b."), ("", "a"), ("a", "")):
        encoded = library.encode(*texts)
        assert ours.encode_pair(*texts) == (encoded.ids, encoded.type_ids), texts


WORDS = ["▁the", "▁cat", "▁sat", "a", "t"]
PAIRS = [("the cat", "sat"), ("the cat", ""), ("", "sat"), ("", ""), ("the cat", "  ")]


def small_tokenizer(name):
    """One of transformers, with few tokens."""
    import transformers

    kind = getattr(transformers, name)
    if name == "BertTokenizer":
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"]
        return kind(vocab={token: i for i, token in enumerate(tokens)})
    if name == "RobertaTokenizer":
        tokens = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *"thecas", "<mask>"]
        return kind(vocab={token: i for i, token in enumerate(dict.fromkeys(tokens))}, merges=[])
    first = ["<pad>", "[CLS]", "[SEP]", "<unk>", "[MASK]"] if name == "AlbertTokenizer" else ["<pad>", "</s>", "<unk>"]
    if name == "XLNetTokenizer":
        first = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    return kind(vocab=[(piece, -float(i)) for i, piece in enumerate([*first, *WORDS])])


MEMBERS = ["BertTokenizer", "RobertaTokenizer", "AlbertTokenizer", "T5Tokenizer", "XLNetTokenizer"]


@pytest.mark.parametrize("name", MEMBERS)
def test_an_empty_text_of_a_pair(name, tmp_path):
    """As in a list of pairs there. Given one pair, transformers takes an empty second text for none, and one of spaces
    for a text.
    """
    theirs = small_tokenizer(name)
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    encoded = theirs(PAIRS, return_token_type_ids=True)
    expected = list(zip(encoded["input_ids"], encoded["token_type_ids"], strict=True))
    assert [ours.encode_pair(*pair) for pair in PAIRS] == expected
    for first, second in PAIRS:
        one = theirs(first, second)["input_ids"]
        assert ours.encode_pair(first, second or None)[0] == one
        assert (ours.encode_pair(first, second)[0] == one) == bool(second)


def test_added_tokens_and_their_flags():
    """One of each combination of flags, in texts where they stand beside words, spaces and one another."""
    import tokenizers

    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    content, _ = theirs(normalizer={"type": "Lowercase"}, pre_tokenizer={"type": "BertPreTokenizer"})
    added = []
    for k, values in enumerate(itertools.product([False, True], repeat=5)):
        token = {"id": len(content["model"]["vocab"]) + k, "content": f"<X{k}>"}
        added.append(token | dict(zip(flags, values, strict=True)))
    more = [{"content": "ab"}, {"content": "abc"}, {"content": "New York"}, {"content": "x" * 3, "single_word": True}]
    for one in more:
        added.append(dict.fromkeys(flags, False) | {"id": added[-1]["id"] + 1} | one)
    content["added_tokens"] = added
    library = tokenizers.Tokenizer.from_str(json.dumps(content))
    ours: PieceTokenizer = tokenizer_json.open_tokenizer(content, "here")
    not_skipped = [one["content"] for one in added if one["special"] and one["normalized"]]  # by the library alone
    draw = random.Random(0)
    pieces = [" ", "  ", "a", "é", ".", "\n", "\u3000", "_", "ab", "abcd", "<x3>", "고"]
    pieces += [one["content"] for one in added]
    wrong = []
    for _ in range(5000):
        text = "".join(draw.choices(pieces, k=draw.randint(1, 6)))
        expected = library.encode(text, add_special_tokens=False)
        if ours.encode(text) != expected.ids:
            wrong.append((text, ours.encode(text), expected.ids))
        for skip in (False, True):
            if skip and any(token.lower() in text.lower() for token in not_skipped):
                continue
            if ours.decode(expected.ids, skip) != library.decode(expected.ids, skip_special_tokens=skip):
                wrong.append((text, skip, ours.decode(expected.ids, skip)))
    assert wrong == []


def test_every_step_is_tried():
    tried = (NORMALIZERS, SPLITTERS, TEMPLATES[:-1], DECODERS)
    for part, settings in zip(tokenizer_json.STEPS, tried, strict=True):
        missing = set(tokenizer_json.STEPS[part].steps) - {one["type"] for one in settings} - {"Precompiled"}
        assert not missing, part
