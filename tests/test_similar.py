"""Vectors of texts and the nearest lines: the same as one text at a time, and kept only for what they are of."""

import io

import numpy as np
import pytest
from small_family import opened

from minigpt import models
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.similar import SimilarOptions, similar
from minigpt.models import text_vectors as vectors_of
from minigpt.models.text_vectors import text_vectors

LINES = ["the cat sat", "the dog saw the cat .", "on the mat", "sat", "the cat sat on the mat . the dog", "the mat"]


@pytest.fixture
def bert(tmp_path):
    model, text = opened("bert")
    model.save(tmp_path / "bert")
    text.save(tmp_path / "bert")
    (tmp_path / "notes.txt").write_text("\n".join(LINES[:3] + ["", "  "] + LINES[3:]) + "\n", encoding="utf-8")
    return tmp_path


def run(bert, *words, question="the dog saw the cat ."):
    given = [] if question is None else [question]
    return main(["similar", str(bert / "bert"), str(bert / "notes.txt"), *given, *words])


@pytest.mark.parametrize("pool", ["mean", "first"])
@pytest.mark.parametrize("name", [card.name for card in models.CARDS])
def test_a_text_has_the_vector_that_it_has_alone(name, pool, monkeypatch):
    """Whatever stands beside it in a batch: padding counts for nothing."""
    model, text = opened(name)
    rows = [text.wrap(text.encode(line))[0] for line in LINES]
    if pool == "first" and not issubclass(card_model(name), FIRST):
        with pytest.raises(InputError, match="the first token does not stand for the text: choose mean"):
            text_vectors(model, rows, pool)
        return
    together = text_vectors(model, rows, pool)
    assert together.shape == (len(LINES), model.state_width) and together.dtype == np.float32
    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-6
    for row, vector in zip(rows, together, strict=True):
        alone = model.states(np.array([row]), np.array([len(row)]))[0]
        expected = alone.mean(axis=0) if pool == "mean" else alone[0]
        assert np.abs(vector - expected / np.linalg.norm(expected)).max() < 1e-5
    monkeypatch.setattr(vectors_of, "TOKENS", 20)
    assert np.abs(text_vectors(model, rows, pool) - together).max() < 1e-5


def card_model(name: str) -> type:
    return models.card(name).model


WITHOUT_FIRST = (
    "gpt1", "gpt2", "lstm", "elmo", "xlnet", "mass", "bart", "t5", "gpt_neox", "llama", "mistral",
)  # fmt: skip
FIRST = tuple(card_model(card.name) for card in models.CARDS if card.name not in WITHOUT_FIRST)


def test_batches_hold_texts_of_like_length_and_few_tokens(monkeypatch):
    monkeypatch.setattr(vectors_of, "TOKENS", 12)
    lengths = [3, 20, 5, 5, 1, 2, 6]
    batches = [batch.tolist() for batch in vectors_of._batches(lengths)]
    assert sorted(i for batch in batches for i in batch) == list(range(7))
    assert [max(lengths[i] for i in batch) for batch in batches] == [20, 6, 5, 2]
    assert all(len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= 12 for batch in batches)


def test_the_nearest_line_is_the_question_itself(bert, capsys):
    assert run(bert, "--top", "3") == 0
    first, *others = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert first == ["1.0000", "2", "the dog saw the cat ."] and len(others) == 2
    model, text = opened("bert")
    vectors = text_vectors(model, [text.wrap(text.encode(line))[0] for line in LINES])
    cosines = vectors @ vectors[1]
    best = np.argsort(-cosines)
    numbers = [1, 2, 3, 6, 7, 8]  # the empty lines count, as in an editor
    assert [int(number) for _, number, _ in (first, *others)] == [numbers[i] for i in best[:3]]
    assert [float(cosine) for cosine, *_ in others] == pytest.approx(cosines[best[1:3]], abs=6e-5)


def test_questions_come_from_standard_input_where_none_is_given(bert, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat sat\n\nsat\n"))
    assert run(bert, "--top", "1", question=None) == 0
    assert capsys.readouterr().out == "1.0000\t1\tthe cat sat\n\n1.0000\t6\tsat\n"


def test_kept_vectors_are_read_and_not_computed_again(bert, capsys, monkeypatch):
    path = str(bert / "notes.safetensors")
    assert run(bert, "--vectors", path) == 0
    first = capsys.readouterr().out
    before = (bert / "notes.safetensors").read_bytes()
    seen = []
    states = models.card("bert").model.states
    monkeypatch.setattr(models.card("bert").model, "states", lambda *given: seen.append(0) or states(*given))
    assert run(bert, "--vectors", path) == 0
    assert capsys.readouterr().out == first and len(seen) == 1, "the question alone"
    assert (bert / "notes.safetensors").read_bytes() == before


@pytest.mark.parametrize("changed", ["file", "model", "tokenizer", "pool"])
def test_kept_vectors_of_something_else_are_refused_and_left(changed, bert, capsys):
    path = bert / "notes.safetensors"
    assert run(bert, "--vectors", str(path)) == 0
    before = path.read_bytes()
    more = []
    if changed == "file":
        (bert / "notes.txt").write_text("the cat\n" * 6, encoding="utf-8")
    elif changed == "model":
        model, _ = opened("bert")
        model.tokens_embed.weight.data[0, 0] += 1
        model.save(bert / "bert", overwrite=True)
    elif changed == "tokenizer":
        vocabulary = bert / "bert" / "vocab.json"
        _, text = opened("bert")
        text.tokens[-1], text.tokens[-2] = text.tokens[-2], text.tokens[-1]
        text.ids = {token: i for i, token in enumerate(text.tokens)}
        vocabulary.unlink()
        text.save(bert / "bert")
    else:
        more = ["--pool", "first"]
    capsys.readouterr()
    assert run(bert, "--vectors", str(path), *more) == 2
    error = capsys.readouterr().err
    assert f"holds what was made with another {changed}: remove it" in error and error.count("\n") == 1
    assert path.read_bytes() == before


def test_a_line_that_is_too_long_counts_by_its_beginning_and_is_told(bert, capsys):
    long = "the dog saw the cat . " * 3 + "the cat sat on the mat . " * 9
    (bert / "notes.txt").write_text(f"{long}\nthe dog\n", encoding="utf-8")
    told = []
    options = SimilarOptions(folder=str(bert / "bert"), file=str(bert / "notes.txt"), question="the cat sat", top=2)
    (found,) = similar(options, write=lambda text: None, tell=told.append)
    what = "1 of 2 lines have more tokens than the model sees"
    assert told == [f"{options.file}: {what}: only the first 14 of each count"]
    model, text = opened("bert")
    rows = [text.wrap(ids)[0] for ids in (text.encode(long)[:14], text.encode("the cat sat"))]
    a, b = text_vectors(model, rows)
    assert next(line.cosine for line in found if line.number == 1) == pytest.approx(float(a @ b), abs=1e-5)


REFUSED = [
    (["the cat sat " * 9], "the question has 29 tokens, and the model sees 16: give a shorter one"),
    ([" "], "a question is empty: give some words"),
    (["cat", "--top", "0"], "--top 0: give 1 or more"),
    (["cat", "--vectors", "notes.txt"], "--vectors notes.txt: give a name that ends in .safetensors"),
    (["cat", "--pool", "max"], "'max' is none of its values: choose mean, first"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_looked_for_is_told_in_one_line(words, message, bert, capsys):
    capsys.readouterr()
    assert run(bert, *words, question=None) == 2
    out, error = capsys.readouterr()
    assert message in error and error.count("\n") == 1 and not out


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xff\xfe", None])
def test_a_file_that_cannot_be_read(content, bert, capsys):
    if content is None:
        (bert / "notes.txt").unlink()
    else:
        (bert / "notes.txt").write_bytes(content)
    capsys.readouterr()
    assert run(bert) == 2
    assert capsys.readouterr().err.count("\n") == 1
