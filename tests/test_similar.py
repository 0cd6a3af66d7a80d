"""Vectors of texts and the nearest lines: the same as one text at a time, and kept only for what they are of."""

import io
import json

import numpy as np
import pytest
from small_family import opened

from minigpt import models
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files.tensors import load_tensors, save_tensors
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


# --- the limit that the files of a model name ------------------------------------------------------------------------

SENTENCES, TOKENIZER = "sentence_bert_config.json", "tokenizer_config.json"
LIMITS = [  # max_seq_length, model_max_length -> how many tokens count with the 2 special ones, and who says so
    (9, 12, 9, f"{SENTENCES} allows"),
    (12, 9, 12, f"{SENTENCES} allows"),  # it takes the place of the other, as in sentence-transformers
    (None, 9, 9, f"{TOKENIZER} allows"),
    (99, 9, 16, "the model sees"),
    (None, 1e30, 16, "the model sees"),
    (None, None, 16, "the model sees"),
]


def limit(folder, sentences, tokenizer, name=SENTENCES):
    """Write these limits into the files of a model's folder; None: that file does not name one."""
    (folder / name).write_text(json.dumps({"max_seq_length": sentences, "do_lower_case": False}))
    config = json.loads((folder / TOKENIZER).read_text()) if (folder / TOKENIZER).exists() else {}
    (folder / TOKENIZER).write_text(json.dumps(config | {"model_max_length": tokenizer}))


@pytest.mark.parametrize(("sentences", "tokenizer", "count", "who"), LIMITS)
def test_lines_and_questions_are_cut_where_the_files_of_the_model_say(sentences, tokenizer, count, who, bert):
    """Both are told once, with how many tokens count; the cosine is that of the two beginnings."""
    limit(bert / "bert", sentences, tokenizer)
    long, other = "the dog saw the cat . " * 3, "on the mat the cat sat . the mat on the mat the cat sat . sat ."
    (bert / "notes.txt").write_text(f"{long}\nthe dog\n{long}\n", encoding="utf-8")
    told = []
    options = SimilarOptions(folder=str(bert / "bert"), file=str(bert / "notes.txt"), question=other, top=3)
    (found,) = similar(options, write=lambda text: None, tell=told.append)
    assert told == [
        f"{options.file}: 2 of 3 lines have more tokens than {who}: only the first {count - 2} of each count",
        f"the question has more tokens than {who}: only its first {count - 2} count",
    ]
    model, text = opened("bert")
    rows = [text.wrap(text.encode(words)[: count - 2])[0] for words in (long, other)]
    a, b = text_vectors(model, rows)
    assert found[[line.number for line in found].index(1)].cosine == pytest.approx(float(a @ b), abs=1e-5)


def test_a_line_as_long_as_the_limit_is_not_cut(bert):
    limit(bert / "bert", 7, None, "sentence_xlm-roberta_config.json")
    told = []
    options = SimilarOptions(folder=str(bert / "bert"), file=str(bert / "notes.txt"), question="the cat sat on the")
    (bert / "notes.txt").write_text("the cat sat on the\n", encoding="utf-8")
    similar(options, write=lambda text: None, tell=told.append)
    assert told == []
    (bert / "notes.txt").write_text("the cat sat on the mat\n", encoding="utf-8")
    similar(options, write=lambda text: None, tell=told.append)
    assert len(told) == 1


def test_kept_vectors_of_another_limit_are_refused(bert, capsys):
    """An older file does not name its limit, which was all that the model sees."""
    path = bert / "notes.safetensors"
    assert run(bert, "--vectors", str(path)) == 0
    vectors, about = load_tensors(path)
    assert about.pop("limit") == "16"
    save_tensors(path, vectors, about)
    assert run(bert, "--vectors", str(path)) == 0
    limit(bert / "bert", 9, None)
    capsys.readouterr()
    assert run(bert, "--vectors", str(path)) == 2
    assert "holds what was made with another limit: remove it" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value", "message"), [
    (SENTENCES, "9", "max_seq_length is '9': expected a number of tokens, 1 or more"),
    (SENTENCES, 0, "max_seq_length is 0: expected"),
    (SENTENCES, True, "max_seq_length is True: expected"),
    (TOKENIZER, 7.5, "model_max_length is 7.5: expected"),
    (SENTENCES, 2, "with its special tokens no text fits into the 2 that sentence_bert_config.json allows"),
])  # fmt: skip
def test_a_limit_that_cannot_be(name, value, message, bert, capsys):
    limit(bert / "bert", *((value, None) if name == SENTENCES else (None, value)))
    capsys.readouterr()
    assert run(bert) == 2
    out, error = capsys.readouterr()
    assert message in error and error.count("\n") == 1 and not out


REFUSED = [
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
