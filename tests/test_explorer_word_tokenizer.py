"""The explorer's tokenizer for GPT-1 in JavaScript, run by node: the same ids as the package's."""

import shutil

import explorer_engine
import numpy as np
import pytest

from minigpt.data.stories import story
from minigpt.explorer import entries
from minigpt.tokenizer import GPT1Tokenizer

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

LEARNED = (
    "Once upon a time there was a small bear. It's cold, said the bear; we're 3 friends, aren't we?\n"
    "\"They'll come at 10:30am,\" he said. I've seen 2,048 trees... at the U.S. market!\n"
    "옛날 옛적에 작은 곰이 살았습니다. 곰은 꿀을 좋아했습니다.\n"
) * 3
HARD = [
    "",
    " ",
    "\n",
    "a\n\n\nb",
    " a  b\t c \r\n d\re ",
    "she'd've don't DON'T cannot gonna y'all who're it's its ill I'll",
    "<U.S.> '3km.' 5kg 12% 20°C 3am 10p.m. (a.m.) Mr. Smith's Ph.D. e.g. i.e. vs. Jan. 5. U.S.A. end.",
    "a--b a—b ... a...b wait.... !!! ?! ,,, (((x))) [a] {b} |c| a_b __init__ a/b *x* ~y~ +1",
    "-1 \"q\" ''r'' 's' 'em 'bout",
    "“quoted” ‘single’ „low“ «french» 「corner」 it’s rock’n’roll",
    "a:b a=b a<b a>b a&b 2^3 x^y U.S.Army end.Start A.B",
    "3$ $3 5€ ₩1000 1,000.50 ½ ² µg 3m² 100kmh 5MB 7GB",
    "ﬁne ｆｕｌｌ　ｗｉｄｔｈ ǆ ĳ \u02bcx",
    "&amp; &lt;b&gt; &quot; &#65; &#x1F600; <&amp;>",
    "é e\u0301 각 각 İstanbul ΣΑΣ ß ẞ",
    "😀 a😀b 👩‍👩‍👧 👍🏽 🇰🇷 ❤\ufe0f ©2024 ™",
    "곰이 살았습니다. 싶다.친구야 한국어!",
    "日本語。中文，標點！",
    "\x00a\x0bb\x0cc\x1cd\x7f \x85 \x91q\x92 \xa0nb\ufeff\u200b\u2028x\u2029y",
    "\ufffd \U0001f9ff \U00020000.",
    "__proto__ constructor toString </w> <unk> a</w>b",
    "x" * 300,
    "ab" * 200,
]


@pytest.fixture(scope="module")
def tokenizer():
    return GPT1Tokenizer.train(LEARNED, 260, pipeline="rules", progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer):
    """`run(texts)`: for each text its ids, and what is unknown in it, as JavaScript has them."""
    engine = explorer_engine.copy_engine(tmp_path_factory.mktemp("engine"))
    spec = entries.tokenizer_entry(tokenizer)
    return lambda texts: explorer_engine.run(engine, ["encode", spec, texts])[0]


def check(tokenizer, texts: list[str], results: list) -> None:
    for text, one in zip(texts, results, strict=True):
        assert one == {"ids": tokenizer.encode(text), "unknown": tokenizer.unknown_in(text)}, text


def test_hard_texts_have_the_same_ids(tokenizer, run):
    check(tokenizer, HARD, run(HARD))


def test_the_stories_have_the_same_ids(tokenizer, run):
    texts = [story(i, seed=5).text for i in range(100)]
    check(tokenizer, texts, run(texts))


def test_random_texts_of_marks_letters_and_digits_have_the_same_ids(tokenizer, run):
    rng = np.random.default_rng(0)
    pieces = [
        *"abcdehilmstvABIS.,;:!?'\"`()[]{}<>-_/*+=^%$&#@~|\\ \n\t0123é곰이😀…—’“",
        "'s", "n't", "'ll", "...", "a.m.", "km", "kg", "U.S.", " ", " ", "''", "&amp;", "₩", "²", "µg",
    ]  # fmt: skip
    texts = ["".join(rng.choice(pieces, rng.integers(1, 25))) for _ in range(4000)]
    check(tokenizer, texts, run(texts))
