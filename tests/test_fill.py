"""Filling in words: the probabilities are those of the model, at the places that the text names."""

import io

import numpy as np
import pytest
from small_family import TEXT, opened

from minigpt import models, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.fill import FillOptions, fill, guesses
from minigpt.models.family.encoder import Encoder
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer

ENCODERS = [card for card in models.CARDS if issubclass(card.model, Encoder)]
WITH_A_MASK = [card.name for card in ENCODERS if "_mask_" in card.special_tokens]
QUIET = {"write": lambda text: None}


@pytest.fixture
def folder(tmp_path):
    """A function that gives the folder of a small model of this name."""

    def saved(name: str, **options) -> str:
        model, text = opened(name, **options)
        model.save(tmp_path / name)
        text.save(tmp_path / name)
        return str(tmp_path / name)

    return saved


def probabilities(model, ids, place: int) -> np.ndarray:
    logits, _ = model.forward(np.array([ids]), grad=False)
    p, _ = ops.softmax_forward(logits[0, place].astype(np.float64))
    return p


@pytest.mark.parametrize("name", WITH_A_MASK)
def test_every_encoder_fills_in_what_its_own_scores_say(name, folder):
    (found,) = fill(FillOptions(folder=folder(name), text="the cat _mask_ on the _mask_ .", top=3), **QUIET)
    model, text = opened(name)
    ids, _ = text.wrap(text.encode_named("the cat _mask_ on the _mask_ .", ["_mask_"]))
    places = [i for i, token in enumerate(ids) if token == text.ids["_mask_"]]
    assert len(found) == len(places) == 2
    for place, words in zip(places, found, strict=True):
        p = probabilities(model, ids, place)
        assert [one.token for one in words] == np.argsort(-p, kind="stable")[:3].tolist()
        assert np.allclose([one.probability for one in words], np.sort(p)[::-1][:3], atol=1e-7)


def test_an_encoder_reads_the_special_tokens_that_it_learned_with():
    """An encoder's text stands between two; MASS's vocabulary here has neither."""
    _, text = opened("bert")
    start, delimiter = text.ids["_start_"], text.ids["_delimiter_"]
    assert text.wrap([1, 2]) == ([start, 1, 2, delimiter], [0, 0, 0, 0])
    assert text.wrap([1, 2], [3]) == ([start, 1, 2, delimiter, 3, delimiter], [0, 0, 0, 0, 1, 1])
    _, text = opened("mass")
    assert text.wrap([1, 2], [3]) == ([1, 2, 3], [0, 0, 1])


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>", "_mask_"])
def test_a_place_may_be_written_in_any_of_the_usual_ways(mask, folder, capsys):
    bert = folder("bert")
    assert main(["fill", bert, f"the {mask} sat", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    model, text = opened("bert")
    (best,) = guesses(model, text, "the _mask_ sat", 2)
    assert lines == [f"{one.probability:.4f}\t{one.word}" for one in best]
    assert len({line.split("\t")[1] for line in lines}) == 2 and all(one.word.strip("_") for one in best)


def test_a_space_before_a_place_belongs_to_the_word_that_is_missing():
    """A token of GPT-2's kind begins with the space, so that the covered token takes it along; others do not."""
    _, text = opened("roberta", kind=GPT2Tokenizer)
    mask = text.ids["_mask_"]
    assert text.encode_named("the cat _mask_ on", ["_mask_"]) == [*text.encode("the cat"), mask, *text.encode(" on")]
    _, text = opened("roberta", kind=CharTokenizer)
    mask = text.ids["_mask_"]
    assert text.encode_named("at _mask_at", ["_mask_"]) == [*text.encode("at "), mask, *text.encode("at")]


def test_roles_are_found_by_name_and_only_among_special_tokens():
    text = CharTokenizer.train("abc").with_special(["[CLS]", "_mask_", "</s>"])
    assert [text.role(name) for name in ("start", "mask", "delimiter", "end", "pad", "unknown")] == [
        text.ids["[CLS]"], text.ids["_mask_"], text.ids["</s>"], text.ids["</s>"], None, None,
    ]  # fmt: skip
    letters = GPT2Tokenizer.train(TEXT, 258)
    merged = GPT2Tokenizer([*letters.tokens, "<s", "<s>"], [*letters.merges, ("<", "s"), ("<s", ">")])
    assert "<s>" in merged.ids and merged.role("start") is None, "merges make it: it stands for text"


def test_bart_is_given_the_text_before_a_place(folder):
    model, text = opened("bart")
    mask = text.ids["_mask_"]
    ids = text.encode_named("the cat _mask_ on", ["_mask_"])
    place = ids.index(mask)
    read = [[model.config.decoder_start_token_id, *ids[:place]]]
    logits, _ = model.forward(np.array(read), grad=False, source=np.array([ids]))
    p, _ = ops.softmax_forward(logits[0, -1].astype(np.float64))
    (words,) = guesses(model, text, "the cat [MASK] on", 1)
    assert words[0].token == p.argmax() and abs(words[0].probability - p.max()) < 1e-6


def test_xlnet_hides_the_places_from_each_other_and_from_all():
    """Whatever stands at a covered place, the scores at both places are the same; with one uncovered they are not."""
    model, _ = opened("xlnet")
    ids = np.arange(1, 8)
    other = ids.copy()
    other[[2, 5]] = 9
    scores = model.scores_at(ids, [2, 5])
    assert np.abs(scores - model.scores_at(other, [2, 5])).max() < 1e-6
    assert np.abs(model.scores_at(ids, [2])[0] - model.scores_at(other, [2])[0]).max() > 1e-3


def test_each_line_of_a_file_or_of_standard_input_is_a_text(folder, tmp_path, capsys, monkeypatch):
    bert = folder("bert")
    lines = "the [MASK] sat\n\non the _mask_ .\n"
    (tmp_path / "texts.txt").write_text(lines, encoding="utf-8")
    assert main(["fill", bert, "--file", str(tmp_path / "texts.txt"), "--top", "1"]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["fill", bert, "--top", "1"]) == 0
    assert capsys.readouterr().out == from_file
    assert len(from_file.split("\n\n")) == 2


REFUSED = [
    ("bert", ["the cat sat"], "has no place to fill in: write _mask_ where a word is missing"),
    ("bert", ["the [MASK] " + "sat " * 40], "tokens with the special ones, and the model sees 16: give a shorter text"),
    ("bert", [""], "a text with [MASK] in it is empty: give some words"),
    ("bert", ["[MASK]", "--top", "0"], "--top 0: give 1 or more"),
    ("bert", ["[MASK]", "--file", "x.txt"], "is given twice"),
    ("gpt1", ["the [MASK]"], "GPT1 predicts the next token and fills in no words: minigpt sample continues a text"),
    ("elmo", ["the [MASK]"], "ELMo predicts the next token and fills in no words: take another, such as bert"),
    ("mass", ["the [MASK]"], "MASS writes what its source lacks, by tokens of its own: use minigpt sample --prompt"),
    ("t5", ["the [MASK]"], "T5 writes what its source lacks, by tokens of its own: use minigpt sample --prompt"),
    ("xlnet", ["the [MASK]"], "this model's vocabulary has no token that covers a word: take another"),
]


@pytest.mark.parametrize(("name", "words", "message"), REFUSED)
def test_what_cannot_be_filled_in_is_told_in_one_line(name, words, message, folder, capsys):
    place = folder(name)
    capsys.readouterr()
    assert main(["fill", place, *words]) == 2
    out, error = capsys.readouterr()
    assert message in error and error.count("\n") == 1 and not out


def test_a_text_is_shown_before_the_next_one_is_refused(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("the [MASK]\nthe cat\n", encoding="utf-8")
    written = []
    with pytest.raises(InputError, match="'the cat' has no place"):
        fill(FillOptions(folder=folder("bert"), file=str(tmp_path / "texts.txt"), top=1), write=written.append)
    assert "\t" in written[0]


