"""Byte-pair encodings of `tokenizer.json` against the library `tokenizers`: patterns, added tokens, byte fallback.

    pytest -m parity tests/test_parity_bpe_model.py       (needs the extra "parity")

The vocabularies are learnt here, by the library, with the patterns of the published models.
"""

import json
import unicodedata

import pytest
from test_parity_sentencepiece import texts  # noqa: F401 a fixture

from minigpt.tokenizer import load, spiece
from minigpt.tokenizer.sentencepiece_bpe import SentencePieceBPE, learn
from minigpt.tokenizer.spiece import NormalizerSpec

pytestmark = pytest.mark.parity

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace("{1,3}", "")


def byte_level(**settings):
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **settings})


def by_regex(pattern):
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, byte_level(use_regex=False)])


def digits_alone():
    from tokenizers import pre_tokenizers

    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])


RUNS = [" " * n for n in range(24, 1, -1)]  # GPT-NeoX has tokens for runs of spaces
KINDS = {  # {published model: (splitter, normaliser, special tokens first, added tokens at the end)}
    "gpt-neox": (byte_level, "NFC", ["<|endoftext|>", "<|padding|>"], RUNS),
    "smollm2": (digits_alone, None, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], []),
    "llama-3": (lambda: by_regex(LLAMA_3), None, [], ["<|begin_of_text|>", "<|eot_id|>"]),
    "qwen2": (lambda: by_regex(QWEN_2), "NFC", [], ["<|endoftext|>", "<|im_start|>", "<tool_call>"]),
}


def trained(name, eval_data):
    """The library's tokenizer of this kind, its vocabulary learnt from English and Korean."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    splitter, normalizer, special, added = KINDS[name]
    theirs = Tokenizer(models.BPE(ignore_merges=name == "llama-3"))
    theirs.pre_tokenizer = splitter()
    theirs.decoder = decoders.ByteLevel()
    if normalizer:
        theirs.normalizer = getattr(normalizers, normalizer)()
    if name == "llama-3":
        theirs.post_processor = processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 3000)],
        )  # fmt: skip
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=3000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    english = (eval_data / "prose/prose_1MB.txt").read_text(encoding="utf-8")[:300_000]
    korean = (eval_data / "nsmc/ratings_test_5k.txt").read_text(encoding="utf-8")[:60_000]
    theirs.train_from_iterator([english, korean, "    def f(x1, y23):\n        return 4096\n" * 30], trainer)
    for token in added:
        is_special = token.startswith("<|")
        theirs.add_tokens([AddedToken(token, special=is_special, normalized=token in RUNS)])
    return theirs


def written(theirs, folder):
    folder.mkdir(exist_ok=True)
    theirs.save(str(folder / "tokenizer.json"))
    return load(folder)


@pytest.fixture(scope="module", params=KINDS)
def pair(request, eval_data, tmp_path_factory):
    pytest.importorskip("tokenizers", reason='the extra "parity" is needed: pip install tokenizers')
    theirs = trained(request.param, eval_data)
    return theirs, written(theirs, tmp_path_factory.mktemp(request.param))


def is_known(text):
    """Each library knows the characters of its own version of Unicode: Unicode 14 is common to all."""
    return not any(unicodedata.category(character) == "Cn" for character in text)


def differing(theirs, ours, many):
    found = []
    for text in many:
        ids = theirs.encode(text, add_special_tokens=False).ids
        mine = ours.encode(text)
        decoded = theirs.decode(ids, skip_special_tokens=False)
        if ids != mine or decoded != ours.decode(ids):
            found.append((text, ids, mine, decoded, ours.decode(ids)))
    return len(found), found[:2]


MORE = [
    "I'LL we'Re don't ſ'ſ 'S", "a  1234567 b", "x<|endoftext|> y", " <|im_start|> user\n", "a" + " " * 30 + "b",
    "\n\n \n", "<tool_call>x</tool_call>", "é e\u0301", "  ", "", "\r\n\r\n x", "def f():\n        return 1\n",
    "²³½ ①Ⅷ 一二",
]  # fmt: skip


def test_random_texts(pair, texts):  # noqa: F811
    theirs, ours = pair
    known = [text.replace("\ud800", "") for text in texts if is_known(text)]
    assert differing(theirs, ours, [*known, *MORE]) == (0, [])


def test_real_texts(pair, eval_data):
    theirs, ours = pair
    for path in ("prose/prose_1MB.txt", "nsmc/ratings_train_20k.txt"):
        text = (eval_data / path).read_text(encoding="utf-8")[:1_000_000]
        assert differing(theirs, ours, [text, *text[:100_000].splitlines(keepends=True)]) == (0, [])


def test_saved_here_and_opened_there(pair, texts, tmp_path):  # noqa: F811
    import tokenizers

    theirs, ours = pair
    ours.save(tmp_path)
    again = load(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    known = [text for text in texts[:2000] if is_known(text)] + MORE
    assert [again.encode(text) for text in known] == [ours.encode(text) for text in known]
    assert [library.encode(text).ids for text in known] == [theirs.encode(text).ids for text in known]
    assert [again.wrap(again.encode(text))[0] for text in known] == [theirs.encode(text).ids for text in known]


# --- SentencePiece's vocabularies in a tokenizer.json ----------------------------------------------------------------


IN_FRONT = {"type": "Prepend", "prepend": "▁"}
AS_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
STEPS = {  # of LLaMA 1 and 2, as converted at first and later
    "legacy": {"normalizer": {"type": "Sequence", "normalizers": [IN_FRONT, AS_MARK]}, "pre_tokenizer": None},
    "metaspace": {"normalizer": None, "pre_tokenizer": METASPACE},
}


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("steps", STEPS)
def test_llama_s_tokenizer_json(eval_data, texts, tmp_path, steps, byte_fallback):  # noqa: F811
    """A vocabulary learnt here, as the library reads it; and with the ids of the file of SentencePiece."""
    tokenizers = pytest.importorskip("tokenizers", reason='the extra "parity" is needed: pip install tokenizers')
    sentencepiece = pytest.importorskip("sentencepiece")
    text = (eval_data / "sentencepiece/botchan.txt").read_text(encoding="utf-8")
    identity = NormalizerSpec("identity", remove_extra_whitespaces=False)
    content = learn(text, 2000, byte_fallback=byte_fallback, normalizer=identity, progress=False)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    after = [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    saved = {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None, **STEPS[steps],
        "added_tokens": [{"id": i, "content": token} | flags for i, token in enumerate(("<unk>", "<s>", "</s>"))],
        "decoder": {"type": "Sequence", "decoders": [back, *after]},
        "model": SentencePieceBPE(content).to_json(),
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = load(tmp_path)
    prose = (eval_data / "prose/prose_1MB.txt").read_text(encoding="utf-8")
    assert differing(theirs, ours, [*texts, *MORE, prose[:300_000], *prose[:100_000].splitlines()]) == (0, [])
    spiece.write(tmp_path / "tokenizer.model", content)
    file = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    plain = [text for text in texts if not any(token in text for token in ("▁", "<unk>", "<s>", "\0"))]
    if steps == "metaspace":  # which puts no second mark in front of a space
        plain = [text for text in plain if not text.startswith(" ")]
    assert [ours.encode(text) for text in plain] == [file.encode(text) for text in plain]
