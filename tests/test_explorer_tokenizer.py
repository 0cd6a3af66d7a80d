"""The explorer's tokenizers in JavaScript, run by node: the same ids as the package's; and how tokens are written."""

import random
import shutil
import unicodedata

import explorer_engine
import pytest
import regex

from minigpt.explorer.entries import tokenizer_entry
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer
from minigpt.tokenizer.gpt2 import END_OF_TEXT, WORD, spell

SPACES = regex.findall(r"\s", "".join(map(chr, range(0x3001))))  # all the white space that the pattern knows

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

LEARNED = (
    "Once upon a time there was a small bear. It's cold, said the bear; we're 3 friends, aren't we?\n"
    "옛날 옛적에 작은 곰이 살았습니다. 곰은 꿀을 좋아했습니다.\n\n"
    "They'll come at 10:30.  I've seen 2,048 trees, I'd say.\n"
) * 3
HARD = [
    "", " ", "  ", "\n", "\n\n", " \n ", "a", " a", "a ", "a  b   c    ", "\t\ta\t b\r\n c\r",
    "I'm he's she'd we'll they've you're don't I'M HE'S 'tis 's'' ' 't", "it\u2019s \u2018quoted\u2019",
    "12345 1 2 22 3.14 1,000 ½ Ⅷ ٣ 一二三 x2 2x", "!!! ... ?!? -- --> $5 #1 a_b _ __init__ (a)[b]{c}",
    "곰이 살았습니다. 곰은 꿀을 좋아했습니다. ㄱㄴㄷ 한\u1112\u1161\u11ab글",
    "日本語 テキスト。中文，標點！", "Ünïcödé e\u0301 ñ ß İ ı ǅ",
    "🐻 bear🐻🐻 👩‍👩‍👧 👍🏽 🇰🇷 ❤\ufe0f", "𝒜𝓁𝑔 𐍈 \U0001f9ff\U00020000",
    "a\u00a0b \u00a0 c\u2003\u2003d\u3000e \u3000f",
    "a\u0085b\u0085 c", "\ufeffa \ufeff b\ufeff", "a\u200bb \u200d \u2060", "a\u180eb \u180e",
    "\x1c\x1d\x1e\x1f a\x1cb \x1d",
    "\u2028a\u2029 b\x0b\x0c", "\x00 \x01\x7f\x80\x9f", "a\ufffd \uffff \U0010ffff", f"x{END_OF_TEXT}y {END_OF_TEXT}",
    "__proto__ constructor toString", "aaaaaaaaaaaaaaaaaaaaaaaa" * 20, "a b " * 50, "Once upon a time",
    "\u0300\u0301 a\u0300",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs calls of the engine, see `explorer_engine.run`."""
    engine = explorer_engine.copy_engine(tmp_path_factory.mktemp("engine"))
    return lambda *calls: explorer_engine.run(engine, *calls)


@pytest.fixture(scope="module")
def bytes_tokenizer():
    return GPT2Tokenizer.train(LEARNED, 480, progress=False)


def all_characters(version=unicodedata):
    """All characters of this version of Unicode, without those for private use."""
    return [chr(c) for c in range(0x110000) if version.category(chr(c)) not in ("Cn", "Cs", "Co")]


def random_texts(n_texts):
    """Texts of characters that any two versions of Unicode agree on, many of them white space, marks and digits."""
    rng = random.Random(0)
    assigned = all_characters(unicodedata.ucd_3_2_0)
    often = [*SPACES, *" \n'' 's 't 're\u200b\ufeff\u0085", *"abcdeABC019.,!?", *"한글곰", "🐻", "\u0301"]
    texts = []
    for _ in range(n_texts):
        source = rng.choice([often, assigned, LEARNED])
        texts.append("".join(rng.choices(source, k=rng.randrange(40))))
    return texts


def test_byte_level_ids_are_those_of_the_package(run, bytes_tokenizer):
    texts = [*HARD, *random_texts(1500)]
    (found,) = run(["encode", tokenizer_entry(bytes_tokenizer), texts])
    for text, one in zip(texts, found, strict=True):
        assert one == {"ids": bytes_tokenizer.encode(text), "unknown": []}, repr(text)


def test_every_character_is_split_as_in_the_package(run, bytes_tokenizer):
    """The pattern knows a letter, a digit, white space and all else: every assigned character is tried between words.

    A space stands before and after each, so that one of the wrong kind is cut off at another place.
    """
    (characters,) = run(["assigned", all_characters()])  # of both versions of Unicode, this one's and node's
    characters = [one for one in characters if not regex.match(r"\p{Cn}", one)]
    assert len(characters) > 100_000
    texts = [f"a{one}1 {one}! {one} " for one in characters]
    texts = ["|".join(texts[i : i + 500]) for i in range(0, len(texts), 500)]
    (found,) = run(["words", tokenizer_entry(bytes_tokenizer), texts])
    for text, words in zip(texts, found, strict=True):
        assert words == WORD.findall(text)


def test_labels_show_spaces_and_bytes(bytes_tokenizer):
    known = set(bytes_tokenizer.tokens)
    more = [spell("곰"), spell("곰")[1:], spell(" 곰") + spell("이")[:2], spell("\x85a\u200b")]
    tokens = [*bytes_tokenizer.tokens[:-1], *(token for token in more if token not in known), END_OF_TEXT]
    tokenizer = GPT2Tokenizer(tokens, bytes_tokenizer.merges)
    shown = {
        "Ġ": "␣", "Ċ": "⏎", "a": "a", "ĉ": "⇥", "č": "U+000D", "ê": r"\xea", "Ģ": r"\x80", "Ġt": "␣t",
        END_OF_TEXT: END_OF_TEXT, "ê³°": "곰", "³°": r"\xb3\xb0", "Ġê³°ìĿ": r"␣곰\xec\x9d",
        spell("\x85a\u200b"): "U+0085aU+200B",
    }  # fmt: skip
    labels = tokenizer_entry(tokenizer)["labels"]
    assert [labels[tokenizer.ids[token]] for token in shown] == list(shown.values())


def test_labels_of_words_show_where_a_word_ends():
    tokenizer = GPT1Tokenizer.train(LEARNED, 260, pipeline="rules", progress=False)
    labels = tokenizer_entry(tokenizer)["labels"]
    shown = {"a": "a", "a</w>": "a␣", ",</w>": ",␣", "\n</w>": "⏎", "<unk>": "<unk>"}
    assert [labels[tokenizer.ids[token]] for token in shown] == list(shown.values())
    assert all(labels)


def test_what_has_no_bytes_is_named_and_left_out(run, bytes_tokenizer):
    spec = tokenizer_entry(bytes_tokenizer)
    few = {**spec, "vocab": {token: i for token, i in spec["vocab"].items() if token not in ("z", "Ã")}}
    calls = [["encode", spec, ["a\ud83d b\ud83d\udc3b"]], ["encode", few, ["fizz a", "é"]]]
    (half,), (missing, bytes_missing) = run(*calls)
    assert half == {"ids": bytes_tokenizer.encode("a b🐻"), "unknown": ["\ud83d"]}
    assert missing == {"ids": bytes_tokenizer.encode("fi a"), "unknown": ["z"]}
    assert bytes_missing["unknown"] == [r"\xc3"]


def test_a_space_before_the_text_where_the_vocabulary_wants_one(run, bytes_tokenizer):
    texts = ["bear", " bear", "", "\nbear"]
    with_space = GPT2Tokenizer(bytes_tokenizer.tokens, bytes_tokenizer.merges, prefix_space=True)
    (found,) = run(["encode", tokenizer_entry(with_space), texts])
    assert [one["ids"] for one in found] == [with_space.encode(text) for text in texts]
    assert found[0]["ids"] != bytes_tokenizer.encode("bear")


def test_characters(run):
    tokenizer = CharTokenizer.train(LEARNED + "🐻01")
    spec = tokenizer_entry(tokenizer)
    known = ["", "bear 10", "곰이 🐻\n", "a  a"]
    unknown = ["bäär", "🦊🐻🦊", "\ud83d"]
    (found,) = run(["encode", spec, [*known, *unknown]])
    for text, one in zip(known, found, strict=False):
        assert one == {"ids": tokenizer.encode(text), "unknown": []}
    for text, one in zip(unknown, found[len(known) :], strict=True):
        assert one["unknown"] == tokenizer.unknown_in(text)
        left = "".join(character for character in text if character in tokenizer.ids)
        assert one["ids"] == tokenizer.encode(left)
    assert [spec["labels"][i] for i in tokenizer.encode(" \na곰")] == ["␣", "⏎", "a", "곰"]
