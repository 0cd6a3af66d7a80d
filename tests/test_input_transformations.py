"""From a labelled example to sequences of tokens: the four layouts, cutting, padding, drawing."""

import numpy as np
import pytest

from minigpt import load_tokenizer, tokenizer
from minigpt.data.examples import Example
from minigpt.data.input_transformations import (
    DELIMITER,
    EXTRACT,
    SPECIAL,
    START,
    batch,
    draw,
    encode,
    encode_all,
    entailment,
    special_ids,
    with_special,
)
from minigpt.errors import InputError

TEXT = tokenizer.GPT1Tokenizer.train("a man ate one red pie . who ate it ? no , yes . the end", 60, pipeline="rules")
WORDS = TEXT.with_special(SPECIAL)
S, D, E = (WORDS.ids[name] for name in SPECIAL)


def ids(text: str) -> list[int]:
    return TEXT.encode(text)


LAYOUTS = [
    ("classification", Example(("a man",)), [[S, *ids("a man"), E]]),
    ("entailment", Example(("a man", "red pie")), [[S, *ids("a man"), D, *ids("red pie"), E]]),
    (
        "similarity",
        Example(("a man", "red pie")),
        [[S, *ids("a man"), D, *ids("red pie"), E], [S, *ids("red pie"), D, *ids("a man"), E]],
    ),
    (
        "choice",
        Example(("a man ate", "who ate ?"), choices=("one", "the end", "no")),
        [[S, *ids("a man ate who ate ?"), D, *ids(c), E] for c in ("one", "the end", "no")],
    ),
]


@pytest.mark.parametrize(("kind", "example", "expected"), LAYOUTS)
def test_the_four_layouts_of_figure_1(kind, example, expected):
    (encoded,) = encode_all([example], kind, WORDS, room=100)
    assert [one.ids for one in encoded] == expected
    assert all(one.cut == 0 for one in encoded)
    for one in encoded:  # the parts tile the sequence, and the special ones are where their names say
        assert one.ends[-1] == len(one.ids)
        for name, end in zip(one.names, one.ends, strict=True):
            if name in SPECIAL:
                assert one.ids[end - 1] == WORDS.ids[name]


def test_the_special_tokens_are_three_new_rows_at_the_end_in_the_order_of_openai():
    assert (S, D, E) == tuple(TEXT.vocab_size + i for i in range(3))
    assert (START, DELIMITER, EXTRACT) == ("_start_", "_delimiter_", "_classify_")
    assert not set(WORDS.encode("_start_ _delimiter_ _classify_")) & {S, D, E}, "no text gives a special token"
    assert WORDS.with_special(SPECIAL) is WORDS


@pytest.mark.parametrize("room", range(5, 30))
def test_what_is_too_long_loses_the_front_of_its_longest_text_and_never_an_end(room):
    first, second = ids("a man ate one red pie . the end"), ids("who ate it ? no , yes")
    one = encode([*entailment(Example(("a man ate one red pie . the end", "who ate it ? no , yes")))[0]],
                        WORDS, room)  # fmt: skip
    full = len(first) + len(second) + 3
    assert len(one.ids) == min(room, full)
    assert one.cut == max(0, full - room)
    assert (one.ids[0], one.ids[-1], one.ids.count(D)) == (S, E, 1)
    at = one.ids.index(D)
    kept = one.ids[1:at], one.ids[at + 1 : -1]
    for part, whole in zip(kept, (first, second), strict=True):
        assert part and whole[-len(part) :] == part, "the end of each text is there"
    if one.cut:
        untouched = [len(part) == len(whole) for part, whole in zip(kept, (first, second), strict=True)]
        assert any(untouched) or abs(len(kept[0]) - len(kept[1])) <= 1, "the longer text gives first"


def test_no_room_is_said():
    with pytest.raises(InputError, match="room"):
        encode(entailment(Example(("a man", "red pie")))[0], WORDS, 4)


def test_a_batch_is_filled_up_at_the_right():
    examples = [Example(("a man ate one red pie", "no")), Example(("yes", "no"))]
    encoded = encode_all(examples, "similarity", WORDS, room=64)
    filled, lengths = batch(encoded)
    assert filled.shape == (2, 2, lengths.max())
    for n in range(2):
        for s in range(2):
            assert filled[n, s, : lengths[n, s]].tolist() == encoded[n][s].ids
            assert not filled[n, s, lengths[n, s] :].any()
            assert filled[n, s, lengths[n, s] - 1] == E


@pytest.mark.parametrize(
    ("kind", "examples", "message"),
    [
        ("classification", [Example(("a man",)), Example(("  ",))], "example 2.*text '  ' is empty"),
        ("classification", [Example(("a man",)), Example(("\x01",))], "example 2.*has no token in this vocabulary"),
        ("choice", [Example(("a",), choices=("no", "yes")), Example(("a",), choices=("no",))], "example 2 has 1 cand"),
        ("entailment", [Example(("a man",))], "example 1"),
    ],
)
def test_bad_examples_are_named_by_their_number(kind, examples, message):
    with pytest.raises(InputError, match=message):
        encode_all(examples, kind, WORDS, room=64)


def test_drawing_shows_every_token_and_every_part():
    (encoded,) = encode_all([Example(("a man", "red pie"))], "similarity", WORDS, room=64)
    plain = draw(encoded, WORDS, colour=False)
    assert plain.split("\n")[0].startswith("_start_ a[") and "_delimiter_ b[" in plain and len(plain.split("\n")) == 2
    coloured = draw(encoded, WORDS)
    assert coloured.count("\x1b[0m") == sum(len(one.ids) for one in encoded)


def test_a_vocabulary_without_room_says_so():
    taken = tokenizer.GPT1Tokenizer([*TEXT.tokens, "_delimiter_"], [*TEXT.merges, ("_deli", "miter_")], "rules")
    with pytest.raises(InputError, match="_delimiter_"):
        taken.with_special(SPECIAL)


def test_special_tokens_that_a_vocabulary_has_are_used_again():
    """BERT's vocabulary has two of the three, in another sequence and before others."""
    some = TEXT.with_special(("_mask_", DELIMITER, START))
    wider = some.with_special(SPECIAL)
    assert wider.tokens == [*some.tokens, EXTRACT]
    assert wider.with_special(SPECIAL) is wider
    chars = tokenizer.CharTokenizer.train("ab_").with_special((START,))
    assert chars.with_special((DELIMITER, START)).tokens == [*chars.tokens, DELIMITER]


def test_a_byte_level_vocabulary_takes_them_too(tmp_path):
    text = tokenizer.GPT2Tokenizer.train("the cat sat on the mat " * 9, 300)
    wider = text.with_special(SPECIAL)
    wider.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.tokens[-3:] == list(SPECIAL) and again.encode("_start_") == text.encode("_start_")
    assert np.array_equal(again.encode("the cat"), text.encode("the cat"))


# --- published encoders, which learned with tokens of their own -------------------------------------------------------

BERTS = TEXT.with_special(["[CLS]", "[SEP]", "[MASK]"])
C, P = BERTS.ids["[CLS]"], BERTS.ids["[SEP]"]


def test_an_encoders_own_tokens_stand_where_it_learned_them():
    assert with_special(BERTS) is BERTS and with_special(TEXT).tokens == WORDS.tokens
    assert special_ids(BERTS) == {START: [C], DELIMITER: [P], EXTRACT: [P]}
    assert special_ids(WORDS) == {START: [S], DELIMITER: [D], EXTRACT: [E]}
    (encoded,) = encode_all([Example(("a man", "red pie"))], "entailment", BERTS, room=100)
    assert encoded[0].ids == [C, *ids("a man"), P, *ids("red pie"), P] == BERTS.wrap(ids("a man"), ids("red pie"))[0]
    (encoded,) = encode_all([Example(("a man",))], "classification", BERTS, room=100)
    assert encoded[0].ids == BERTS.wrap(ids("a man"))[0] and encoded[0].n_special == 2


class Between(tokenizer.GPT1Tokenizer):
    """Two tokens between two texts, as of RoBERTa, and nothing in front, as of T5."""

    def wrap(self, ids, pair=None):
        second = [] if pair is None else [P, *pair, P]
        return [*ids, P, *second], []


def test_two_tokens_behind_the_last_text():
    """As of XLNet, whose token for a whole text stands at the end."""

    class Behind(tokenizer.GPT1Tokenizer):
        def wrap(self, ids, pair=None):
            second = [] if pair is None else [*pair, P]
            return [*ids, P, *second, C], []

    text = Behind(BERTS.tokens, BERTS.merges, BERTS.pipeline)
    assert special_ids(text) == {START: [], DELIMITER: [P], EXTRACT: [P, C]}
    (encoded,) = encode_all([Example(("a man",))], "classification", text, room=100)
    assert encoded[0].ids == [*ids("a man"), P, C] and encoded[0].n_special == 2


def test_two_tokens_between_texts_and_none_in_front():
    text = Between(BERTS.tokens, BERTS.merges, BERTS.pipeline)
    assert special_ids(text) == {START: [], DELIMITER: [P, P], EXTRACT: [P]}
    a, b = ids("a man ate"), ids("red pie")
    (encoded,) = encode_all([Example(("a man ate", "red pie"))], "entailment", text, room=100)
    assert encoded[0].ids == [*a, P, P, *b, P] and encoded[0].n_special == 3
    assert draw(encoded, text, colour=False).startswith(f"{START} premise[")
    for room in range(5, 3 + len(a) + len(b)):
        (cut,) = encode_all([Example(("a man ate", "red pie"))], "entailment", text, room=room)
        n_a, n_b = (cut[0].ends[1], cut[0].ends[3] - cut[0].ends[2])
        assert cut[0].ids == [*a[len(a) - n_a :], P, P, *b[len(b) - n_b :], P] and len(cut[0].ids) == room
        assert n_a >= 1 and n_b >= 1 and cut[0].cut == 3 + len(a) + len(b) - room
    with pytest.raises(InputError, match="a context of 4 tokens has no room for 5 texts and special tokens"):
        encode_all([Example(("a man ate", "red pie"))], "entailment", text, room=4)
