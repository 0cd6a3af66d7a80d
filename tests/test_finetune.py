"""`minigpt finetune` and `minigpt predict`, from a file of labelled examples to answers, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from minigpt import GPT1, GPT1Config, open_model
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs import finetune
from minigpt.jobs.finetune import FinetuneOptions
from minigpt.jobs.predict import PredictOptions, predict
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer

ANIMALS, THINGS = ("cat", "dog", "bird", "horse"), ("ball", "kite", "drum", "doll")


def lines(kind: str, n: int, seed: int = 0) -> list[dict]:
    """Examples that a tiny model can learn: is the last word an animal?"""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        animal, thing = str(rng.choice(ANIMALS)), str(rng.choice(THINGS))
        word, label = (animal, "animal") if i % 2 else (thing, "thing")
        text = f"tom saw the {word}"
        rows.append({
            "classification": {"text": text, "label": label},
            "entailment": {"premise": text, "hypothesis": "it was an animal", "label": label},
            "similarity": {"a": text, "b": f"mia saw the {word}", "label": label},
            "score": {"a": text, "b": f"mia saw the {word}", "score": 4.5 if i % 2 else 0.5},
            "choice": {"context": "tom saw an animal", "choice1": thing if i % 2 else animal,
                       "choice2": animal if i % 2 else thing, "label": 1 + i % 2},
        }[kind])  # fmt: skip
    return rows


def write(path: Path, rows: list[dict]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    words = " ".join(ANIMALS + THINGS) + " tom mia saw the an it was animal"
    text = GPT1Tokenizer.train(words * 3, 200, pipeline="rules")
    sizes = {"n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    config = GPT1Config(vocab_size=text.vocab_size, **sizes, initializer_range=0.2)  # 0.02 learns too slowly
    GPT1(config).save(folder)
    text.save(folder)
    return str(folder)


KINDS = ("classification", "entailment", "similarity", "score", "choice")


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_model_learns_every_kind_and_answers_the_same_after_loading(pretrained, tmp_path, kind, capsys):
    train, valid = (write(tmp_path / f"{name}.tsv", lines(kind, n, seed)) for name, n, seed in
                    (("train", 160, 0), ("valid", 40, 1)))  # fmt: skip
    task = "similarity" if kind == "score" else kind
    given = ["--task", task, "--train", train, "--valid", valid, "--test", valid]
    sizes = ["--epochs", "6", "--batch", "8", "--lr", "0.01", "--lm-weight", "0.1", "--dropout", "0"]
    out = tmp_path / "out"
    assert main(["finetune", pretrained, *given, *sizes, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["scores"][0] > 0.9, said
    assert results["metric"] in said and (out / "finetune.png").stat().st_size > 1000
    assert ("answer \\ predicted" in said) == (kind not in ("choice", "score"))
    rows = list(csv.DictReader((out / "finetune.csv").open(encoding="utf-8")))
    assert [row["epoch"] for row in rows] == list("123456")
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])

    answers = predict(PredictOptions(folder=str(out), file=valid), write=lambda text: None)
    model, text = finetune.open_classifier(out)
    assert text.tokens[-3:] == ["_start_", "_delimiter_", "_classify_"]
    assert model.body.config.vocab_size == text.vocab_size
    _, examples = finetune.load(task, valid, "valid", {}, model.task)
    judged = finetune.evaluate(model, finetune.encode(examples, model.task, text, 16))
    assert np.array_equal(judged.answers, answers) and judged.score == pytest.approx(results["scores"][0])
    assert main(["predict", str(out), valid, "--out", str(tmp_path / "answers.tsv")]) == 0
    wrote = (tmp_path / "answers.tsv").read_text(encoding="utf-8").splitlines()
    assert len(wrote) == 40
    if kind == "classification":
        assert [line.split("\t")[0] for line in wrote] == [model.task.labels[i] for i in answers]


def test_several_seeds_each_have_a_folder_and_together_a_mean(pretrained, tmp_path, capsys):
    train = write(tmp_path / "train.csv", lines("classification", 60))
    given = ["--task", "classification", "--train", train, "--epochs", "1", "--seeds", "3", "--seed", "4"]
    assert main(["finetune", pretrained, *given, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    scores = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["scores"]
    assert len(scores) == 3 and f"mean {np.mean(scores):.4f}, deviation {np.std(scores, ddof=1):.4f}" in said
    weights = [finetune.open_classifier(tmp_path / "out" / f"seed-{seed}")[0].head.weight.data for seed in (4, 5, 6)]
    assert not np.array_equal(weights[0], weights[1]) and not np.array_equal(weights[1], weights[2])
    assert "54 train, 6 valid" in said, "without --valid the last tenth is kept apart"


def test_the_same_seed_gives_the_same_model(pretrained, tmp_path):
    train = write(tmp_path / "train.tsv", lines("choice", 30))
    for name in ("a", "b"):
        given = {"task": "choice", "train": train, "out": str(tmp_path / name)}
        options = FinetuneOptions(model=pretrained, **given, epochs=1, dropout=0.2)
        finetune.finetune(options)
    files = [(tmp_path / name / "classifier.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]


def test_the_story_world_and_a_model_without_pretraining(pretrained, tmp_path, capsys):
    given = ["--task", "sentiment", "--train", "stories:40:1", "--epochs", "1", "--transfer", "-1"]
    assert main(["finetune", pretrained, *given, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "40 train, 40 valid" in said
    assert "40 of 40 train examples were too long: they lost their beginnings" in said
    body = finetune.open_classifier(tmp_path / "out")[0].body
    before = open_model(pretrained)
    assert abs(body.h[0].mlp.c_fc.weight.data - before.h[0].mlp.c_fc.weight.data).max() > 0.01


def test_batches_leave_out_what_does_not_fill_one_and_keep_like_lengths_together():
    lengths = np.arange(100) % 50
    found = finetune.batches(lengths, 8, np.random.default_rng(0))
    assert [len(rows) for rows in found] == [8] * 12
    assert len(set(np.concatenate(found).tolist())) == 96
    spread = np.mean([np.ptp(lengths[rows]) for rows in found])
    assert spread < 12, "a random batch of eight spreads over 39"
    assert [len(rows) for rows in finetune.batches([3, 4, 5], 8, np.random.default_rng(0))] == [3]


BAD = [
    (["--task", "riddle"], "unknown task 'riddle'"),
    (["--columns", "text=review"], "no column 'review'"),
    (["--columns", "text"], "give pairs such as text=document"),
    (["--train", "missing.tsv"], "missing.tsv"),
    (["--epochs", "0"], "--epochs 0: give 1 or more"),
    (["--dropout", "1"], "--dropout 1.0: give a share"),
    (["--transfer", "3"], "this model has 2 layers: choose -1 (nothing) to 2"),
    (["--train", "stories:20", "--task", "riddle"], "the story world has no task 'riddle'"),
    (["--train", "stories:many", "--task", "sentiment"], "give stories: and a number"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[" ".join(change) for change, _ in BAD])
def test_bad_input_is_one_line_and_writes_nothing(pretrained, tmp_path, capsys, change, message):
    train = write(tmp_path / "train.tsv", lines("classification", 40))
    given = {"--task": "classification", "--train": train} | dict(zip(change[::2], change[1::2], strict=True))
    out = tmp_path / "out"
    words = [word for pair in given.items() for word in pair]
    assert main(["finetune", pretrained, *words, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a cat", "label": "x"}], "every label is x"),
        ([{"text": "a cat", "label": "x"}, {"text": "", "label": "y"}], "line 3: an empty text"),
    ],
)
def test_bad_files_are_named_with_their_line(pretrained, tmp_path, capsys, rows, message):
    train = write(tmp_path / "train.tsv", rows)
    given = ["--task", "classification", "--train", train, "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given]) == 2
    assert message in capsys.readouterr().err


def test_labels_of_the_validation_file_must_be_known(pretrained, tmp_path, capsys):
    train = write(tmp_path / "train.tsv", lines("classification", 40))
    valid = write(tmp_path / "valid.tsv", [{"text": "a cat", "label": "plant"}])
    given = ["--task", "classification", "--train", train, "--valid", valid, "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given]) == 2
    assert "line 2: unknown label 'plant': choose animal, thing" in capsys.readouterr().err


def test_scores_and_labels_do_not_mix(pretrained, tmp_path):
    train, valid = (write(tmp_path / f"{kind}.tsv", lines(kind, 20)) for kind in ("score", "similarity"))
    with pytest.raises(InputError, match="has the labels animal, thing, and the training examples have scores"):
        given = {"train": train, "valid": valid, "out": str(tmp_path / "out")}
        finetune.finetune(FinetuneOptions(model=pretrained, task="similarity", **given))


def test_a_character_vocabulary_has_no_room(tmp_path, capsys):
    GPT1(GPT1Config(vocab_size=3, n_positions=8, n_embd=4, n_layer=1, n_head=1)).save(tmp_path)
    CharTokenizer("abc").save(tmp_path)
    train = write(tmp_path / "train.tsv", lines("classification", 4))
    assert main(["finetune", str(tmp_path), "--task", "classification", "--train", train]) == 2
    assert "has no room for the special tokens" in capsys.readouterr().err


def test_nothing_of_the_user_is_overwritten(pretrained, tmp_path, capsys):
    train = write(tmp_path / "train.tsv", lines("classification", 20))
    given = ["finetune", pretrained, "--task", "classification", "--train", train, "--epochs", "1", "--out"]
    assert main([*given, str(tmp_path / "out")]) == 0
    assert main([*given, str(tmp_path / "out")]) == 2
    assert "already holds" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "out"), train, "--out", train]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["predict", pretrained, train]) == 2
    assert "give a model that minigpt finetune wrote" in capsys.readouterr().err


def test_several_seeds_are_not_overwritten_either(pretrained, tmp_path, capsys):
    train, out = write(tmp_path / "train.tsv", lines("classification", 20)), tmp_path / "out"
    given = ["finetune", pretrained, "--task", "classification", "--train", train, "--epochs", "1", "--out", str(out)]
    assert main([*given, "--seeds", "2"]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for again in (["--seeds", "2"], []):
        capsys.readouterr()
        assert main([*given, *again]) == 2
        error = capsys.readouterr().err
        assert "already holds a finetune.csv: give another --out" in error and "--resume" not in error
    (out / "finetune.csv").unlink()
    (out / "finetune.png").unlink()
    (out / "results.json").unlink()
    assert main([*given, "--seeds", "2", "--seed", "1"]) == 2  # seed 1 was there before
    assert all(path.read_bytes() == content for path, content in before.items() if path.exists())


def test_the_tenth_kept_apart_is_drawn_at_random(pretrained, tmp_path, capsys):
    rows = sorted(lines("classification", 40), key=lambda row: row["label"])
    given = ["--task", "classification", "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given, "--train", write(tmp_path / "sorted.tsv", rows)]) == 0
    said = capsys.readouterr().out
    assert "36 train, 4 valid" in said and "would be right for 100" not in said and "these examples chose" in said
    rare = rows[:10]
    rare[np.random.default_rng(0).permutation(10)[-1]] = rows[-1]  # the one that will be kept apart
    for few, message in ((rows[:1] + rows[-1:], "2 examples, too few to keep a tenth apart: give --valid"),
                         (rare, "only one label is left: give --valid")):  # fmt: skip
        train = write(tmp_path / "few.tsv", few)
        assert main(["finetune", pretrained, *given[:4], "--out", str(tmp_path / "no"), "--train", train]) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "no").exists()


def test_predict_keeps_to_its_kind_and_says_what_was_cut(pretrained, tmp_path, capsys):
    train = write(tmp_path / "train.tsv", lines("classification", 20))
    given = ["--task", "classification", "--train", train, "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given]) == 0
    pairs = write(tmp_path / "pairs.tsv", lines("choice", 4))
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "out"), pairs, "--task", "choice"]) == 2
    assert "--task choice lays out a choice, and" in capsys.readouterr().err
    long = write(tmp_path / "long.csv", [{"text": "tom saw the cat " * 40_000}])  # longer than csv's own limit
    assert main(["predict", str(tmp_path / "out"), long]) == 0
    said = capsys.readouterr()
    assert "1 of 1 examples were too long" in said.err and said.out.count("\n") == 1


def test_columns_need_a_file(pretrained, tmp_path, capsys):
    given = ["--task", "sentiment", "--train", "stories:20:1", "--columns", "text=words"]
    assert main(["finetune", pretrained, *given, "--out", str(tmp_path / "out")]) == 2
    assert "stories:20:1 is no file and has no columns" in capsys.readouterr().err


def test_of_two_that_begin_together_one_gets_the_folder(pretrained, tmp_path, monkeypatch, capsys):
    train, out = write(tmp_path / "train.tsv", lines("classification", 20)), tmp_path / "out"
    real = finetune.tune

    def tune(*args, **options):
        (out / finetune.CURVES).parent.mkdir()
        (out / finetune.CURVES).write_text("of somebody else", encoding="utf-8")
        return real(*args, **options)

    monkeypatch.setattr(finetune, "tune", tune)
    assert main(["finetune", pretrained, "--task", "classification", "--train", train, "--out", str(out)]) == 2
    assert "another run has just begun" in capsys.readouterr().err
    assert [path.read_text(encoding="utf-8") for path in out.iterdir()] == ["of somebody else"]
