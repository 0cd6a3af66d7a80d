"""`minigpt finetune` and `minigpt predict`, from a file of labelled examples to answers, and what is refused."""

import csv
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers import same, snapshot

from minigpt import GPT1, GPT1Config, models, open_model, plot
from minigpt.cli import main
from minigpt.data.examples import Example, Task
from minigpt.data.input_transformations import encode_all, with_special
from minigpt.errors import InputError
from minigpt.evaluation import metrics
from minigpt.files import disk
from minigpt.files.lock import locked
from minigpt.jobs import finetune
from minigpt.jobs.finetune import FinetuneOptions, announcement, preparation
from minigpt.jobs.predict import PredictOptions, predict
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer

DRAW = plot.finetuning_curves
pytestmark = pytest.mark.usefixtures("quick_runs")

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
    assert results["metric"] in said and (out / "finetune.png").read_bytes()
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


def test_several_test_files_are_judged_after_one_training(pretrained, tmp_path, capsys):
    train = write(tmp_path / "train.csv", lines("classification", 60))
    tests = [write(tmp_path / f"{n}.csv", lines("classification", n, n)) for n in (20, 30)]
    given = ["finetune", pretrained, "--task", "classification", "--train", train, "--epochs", "1", "--seeds", "2"]
    several = [*given, "--test", tests[0], "--test", tests[1], "--out", str(tmp_path / "several")]
    assert main(several) == 0
    said = capsys.readouterr().out
    assert "54 train, 20 test, 30 test 2, 6 valid examples" in said
    found = json.loads((tmp_path / "several" / "results.json").read_text(encoding="utf-8"))
    (other,) = found.pop("others")
    assert other.pop("file") == tests[1] and other["split"] == "test 2" and other["examples"] == 30
    assert f"of {tests[1]}" in said and re.search(r"test 2 accuracy 0\.\d{4}, 0\.\d{4}: mean", said)
    for number, result in enumerate((found, other)):
        out = tmp_path / f"alone {number}"
        assert main([*given, "--test", tests[number], "--out", str(out)]) == 0
        alone = json.loads((out / "results.json").read_text(encoding="utf-8"))
        assert {**alone, "split": result["split"]} == {"task": found["task"], **result}, "as with one file"
    capsys.readouterr()
    assert main(several) == 0 and "this run is finished" in capsys.readouterr().out
    Path(tests[1]).write_text(Path(tests[0]).read_text(encoding="utf-8"), encoding="utf-8")
    assert main(several) == 2 and "the examples of --test are not what" in capsys.readouterr().err


def test_examples_take_few_times_the_memory_of_their_file(pretrained):
    """Four bytes a token, where a list has eight; and the checksum of all of them takes none."""
    _, text = models.open_both(pretrained)
    text = with_special(text)
    examples = [Example((f"tom saw the cat {number} " + "mia saw it " * 60,), number % 2) for number in range(200)]
    encode_all(examples, "classification", text, 2000)  # words are remembered
    tracemalloc.start()
    encoded = encode_all(examples, "classification", text, 2000)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    mark = disk.checksum_of_list("task", examples)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_tokens = sum(len(one.ids) for (one,) in encoded)
    assert n_tokens > 20_000 and taken < 6 * n_tokens
    assert peak - taken < 50_000 < sum(len(example.texts[0]) for example in examples)
    assert mark == disk.checksum(["task", examples]) and disk.checksum_of_list([], []) == disk.checksum([[], []])


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
    assert main(["predict", str(tmp_path / "out"), train]) == 2
    assert "out holds a model for each of 3 seeds: give one, such as" in capsys.readouterr().err


def test_a_picture_of_several_seeds(tmp_path):
    rows = [{"seed": seed, "epoch": epoch, "train_loss": 1 / epoch, "valid_loss": 0.5, "score": 0.1 * epoch}
            for seed in (0, 1) for epoch in (1, 2, 3)]  # fmt: skip
    DRAW(rows, "accuracy", tmp_path / "finetune.png")
    assert (tmp_path / "finetune.png").read_bytes().startswith(b"\x89PNG")


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


def test_a_model_of_characters_is_fine_tuned_and_predicts(tmp_path, capsys):
    rows = lines("classification", 40)
    train = write(tmp_path / "train.tsv", rows)
    text = CharTokenizer.train([row["text"] for row in rows])
    GPT1(GPT1Config(vocab_size=text.vocab_size, n_positions=24, n_embd=8, n_layer=1, n_head=1)).save(tmp_path / "chars")
    text.save(tmp_path / "chars")
    out = str(tmp_path / "out")
    given = ["--task", "classification", "--train", train, "--epochs", "1", "--out", out]
    assert main(["finetune", str(tmp_path / "chars"), *given]) == 0
    model, wider = finetune.open_classifier(out)
    assert model.body.config.vocab_size == wider.vocab_size == text.vocab_size + 3
    assert wider.tokens[-3:] == ["_start_", "_delimiter_", "_classify_"]
    capsys.readouterr()
    assert main(["predict", out, train]) == 0
    assert capsys.readouterr().out.count("\n") == 40
    strange = write(tmp_path / "strange.tsv", [{"text": "a maé"}])
    assert main(["predict", out, strange]) == 2
    unknown = "example 1: the character 'é' (U+00E9), number 5 of the text"
    assert f"strange.tsv, {unknown}, is not one of the {text.vocab_size}" in capsys.readouterr().err


def test_a_finished_run_says_so_and_nothing_of_the_user_is_overwritten(pretrained, tmp_path, capsys):
    train, out = write(tmp_path / "train.tsv", lines("classification", 20)), tmp_path / "out"
    given = ["finetune", pretrained, "--task", "classification", "--train", train, "--epochs", "1", "--out", str(out)]
    assert main([*given, "--seeds", "2"]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for again in ([*given, "--seeds", "2"], ["finetune", "--resume", "--out", str(out)]):
        capsys.readouterr()
        assert main(again) == 0
        said = capsys.readouterr().out
        assert said.startswith("this run is finished: accuracy ") and str(out) in said and said.count("\n") == 1
    other = write(tmp_path / "other.tsv", lines("classification", 22))
    for change, message in (([], "holds a finished run with --seeds 2, this command says --seeds 1: give the"),
                            (["--seeds", "2", "--lr", "0.1"], "a finished run with no --lr, this command says --lr"),
                            (["--seeds", "2", "--train", other], "the examples of --train are not what the run"),
                            (["--resume", "--seeds", "3"], "says --seeds 3")):  # fmt: skip
        assert main([*given, *change]) == 2
        error = capsys.readouterr().err
        assert re.search(message, error) and error.count("\n") == 1, error
    (out / "resume.safetensors").unlink()
    for name in ("finetune.csv", "finetune.png", "results.json"):
        assert main([*given, "--seeds", "2"]) == 2
        assert f"already holds a {name}: give another --out" in capsys.readouterr().err
        (out / name).unlink()
    assert main([*given, "--seeds", "2", "--seed", "1"]) == 2  # seed 1 was there before
    assert "seed-1 already holds a model.safetensors" in capsys.readouterr().err
    assert all(path.read_bytes() == content for path, content in before.items() if path.exists())
    assert main(["predict", str(out / "seed-0"), train, "--out", train]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["predict", pretrained, train]) == 2
    assert "give a model that minigpt finetune wrote" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("valid", "test", "told"),
    [
        (range(6, 10), range(10, 14), []),
        (range(6), range(10, 14), ["6 of 6 valid examples have the texts of train examples", "is it the same file?"]),
        (range(4, 10), (1, 9, 10), [
            "2 of 6 valid examples have the texts of train examples", "",
            "1 of 3 test examples have the texts of train examples", "",
            "1 of 3 test examples have the texts of valid examples", "",
        ]),
    ],
)  # fmt: skip
def test_examples_that_stand_in_two_splits_are_counted(pretrained, tmp_path, capsys, valid, test, told):
    def file(name, numbers):
        rows = [{"text": "tom saw " * i + "the cat", "label": ("x", "y")[i % 2]} for i in numbers]
        return write(tmp_path / name, rows)

    given = ["--task", "classification", "--epochs", "1", "--batch", "2", "--out", str(tmp_path / "out")]
    files = ["--train", file("a.tsv", range(6)), "--valid", file("b.tsv", valid), "--test", file("c.tsv", test)]
    assert main(["finetune", pretrained, *given, *files]) == 0
    said = [line for line in capsys.readouterr().out.split("\n") if line.startswith("repeated ")]
    known = "what they score is known beforehand"
    assert said == [
        f"repeated {what}: {known}{end and ': '}{end}" for what, end in zip(told[::2], told[1::2], strict=True)
    ]


def test_equal_lines_in_both_parts_of_a_random_split_are_counted(pretrained, tmp_path, capsys):
    """Of a similarity the two texts may change places: the model reads both sequences."""
    twice = [{"a": "tom saw " * i + "the cat", "b": "mia", "label": i % 2} for i in range(5)]
    turned = [row | {"a": row["b"], "b": row["a"]} for row in twice]
    train = write(tmp_path / "train.tsv", twice + turned)
    given = ["--task", "similarity", "--train", train, "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given]) == 0
    told = "repeated 1 of 1 valid examples have the texts of train examples: what they score is known beforehand\n"
    assert told in capsys.readouterr().out


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


def test_two_do_not_write_to_one_folder(pretrained, tmp_path, capsys):
    train, out = write(tmp_path / "train.tsv", lines("classification", 20)), tmp_path / "out"
    with locked(out):
        assert main(["finetune", pretrained, "--task", "classification", "--train", train, "--out", str(out)]) == 2
        assert "another process is writing to" in capsys.readouterr().err
    assert not out.exists()


def test_the_cost_is_told_before_the_work(pretrained, tmp_path, capsys, monkeypatch):
    train = write(tmp_path / "train.tsv", lines("classification", 50))
    given = ["--task", "classification", "--train", train, "--epochs", "2", "--batch", "15", "--seeds", "2"]
    model = open_model(pretrained)
    numbers = sum(p.data.size for p in model.parameters()) + 3 * 16 + 2 * 16 + 2

    def begin(*args):
        raise InputError("not now")

    monkeypatch.setattr(finetune.Tuning, "update", begin)
    assert main(["finetune", pretrained, *given, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().out
    assert f"GPT1 and a head: {numbers:,} parameters" in said
    assert re.search(r"memory   [0-9.]+ KB: weights .*, gradients .*, moments .*, activations ", said)
    assert re.search(r"12 updates of 15 examples with 2 seeds, 4 evaluations: about \d+ seconds on cpu, .* s an", said)
    assert "expect   a loss of ln 2 = 0.69 at first; always answering 'thing' has accuracy" in said
    assert "unknown" not in said


def test_measuring_the_time_changes_nothing(pretrained, tmp_path):
    train = write(tmp_path / "train.tsv", lines("similarity", 20))
    job = preparation.prepare(FinetuneOptions(model=pretrained, task="similarity", train=train, dropout=0.3))
    tuning = finetune.Tuning(job.classifier(0), job.data["train"], job.data["valid"], job.options, 0)
    before = snapshot([p.data for p in tuning.model.parameters()])
    speed = announcement.measure(tuning)
    assert same(before, snapshot([p.data for p in tuning.model.parameters()]))
    assert tuning.step == tuning.optimizer.t == 0 and 0 < speed.token < speed.update
    assert all(p.grad is None for p in tuning.model.parameters())


@pytest.mark.parametrize(("word", "share"), [("tom", None), ("ξ", "20%")])
def test_unknown_words_are_told(pretrained, tmp_path, capsys, word, share):
    rows = [row | {"text": f"{row['text']} {word}"} for row in lines("classification", 40)]
    train = write(tmp_path / "train.tsv", rows)
    given = ["--task", "classification", "--train", train, "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main(["finetune", pretrained, *given]) == 0
    said = capsys.readouterr().out
    warning = f"{share} of the tokens are unknown to the tokenizer of {pretrained}, which cannot tell them apart: take"
    assert (f"unknown  train: {warning}" in said) == (share is not None)
    assert main(["predict", str(tmp_path / "out"), train]) == 0
    warning = warning.replace(pretrained, str(tmp_path / "out"))
    assert (f"{train}: {warning}" in capsys.readouterr().err) == (share is not None)


BASELINES = [  # what always the same answer scores, in the metric of the task
    (Task("classification", ("a", "b", "c")), [0, 1, 1, 2], [1, 0, 1, 0], (1, 0.5)),
    (Task("similarity", ("a", "b"), "f1"), [0, 0, 0, 1], [1, 1, 0], (1, 0.8)),
    (Task("classification", ("a", "b"), "matthews"), [0, 0, 1], [1, 0, 0], (0, 0.0)),
    (Task("similarity", (), "pearson"), [1.0, 2.0, 4.5], [5.0, 1.0], (2.5, 0.0)),
    (Task("choice"), [0, 1, 1], [0, 0, 1], (1, 1 / 3)),
]


@pytest.mark.parametrize(("task", "train", "answers", "expected"), BASELINES)
def test_the_best_constant_answer(task, train, answers, expected):
    assert metrics.best_constant(task, train, answers) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("classification", "always answering 'thing' has accuracy 0.5000 on test"),
        ("similarity", "always answering 'thing' has f1 0.6667 on test"),
        ("score", "always the same answer has a pearson correlation of 0"),
        ("choice", r"always answering choice \d has accuracy 0.5000 on test"),
    ],
)
def test_the_score_stands_beside_that_of_a_constant(pretrained, tmp_path, capsys, kind, words):
    train, test = (write(tmp_path / f"{name}.tsv", lines(kind, 41 - i)) for i, name in enumerate(("train", "test")))
    task = "similarity" if kind == "score" else kind
    given = ["--task", task, "--train", train, "--test", test, "--valid", test, "--epochs", "1", "--lr", "0"]
    assert main(["finetune", pretrained, *given, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert re.search(f"to compare: {words}", said), said
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert ("no seed is better than that" in said) == (results["scores"][0] <= results["constant"])


def test_predict_reads_a_file_as_fine_tuning_did(pretrained, tmp_path, capsys):
    rows = [(row["label"], row["text"]) for row in lines("classification", 20)]
    train, out = tmp_path / "train.tsv", str(tmp_path / "out")
    train.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    columns = ["--columns", "text=2,label=1"]
    given = ["--task", "classification", "--train", str(train), "--epochs", "1", "--out", out]
    assert main(["finetune", pretrained, *given, *columns]) == 0
    capsys.readouterr()
    assert main(["predict", out, str(train)]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 20
    assert "is read as the examples of fine-tuning were: --task classification --columns text=2,label=1" in said.err
    named = write(tmp_path / "named.csv", [{"id": 7, "text": text} for _, text in rows])
    assert main(["predict", out, named, "--columns", "text=text"]) == 0
    again = capsys.readouterr()
    assert again.out == said.out and again.err == ""
    assert main(["predict", out, named, "--task", "classification"]) == 0
    assert capsys.readouterr().out == said.out
    assert main(["predict", out, named]) == 2
    assert "line 1: 'text' in column 2 looks like a name" in capsys.readouterr().err


def test_predict_names_the_column_that_is_missing(pretrained, tmp_path, capsys):
    rows = [{"review": row["text"], "label": row["label"]} for row in lines("classification", 20)]
    train, out = write(tmp_path / "train.csv", rows), str(tmp_path / "out")
    given = ["--task", "classification", "--train", train, "--columns", "text=review", "--epochs", "1", "--out", out]
    assert main(["finetune", pretrained, *given]) == 0
    other = write(tmp_path / "other.csv", lines("classification", 4))
    capsys.readouterr()
    assert main(["predict", out, other]) == 2
    assert "other.csv has no column 'review' for 'text': it has text, label" in capsys.readouterr().err
    assert main(["predict", out, write(tmp_path / "bare.csv", [{"review": "tom saw the cat"}])]) == 0


def test_what_is_missing_is_named(tmp_path, capsys):
    for words, message in (([], "MODEL is missing"), (["tiny"], "--task is missing"),
                           (["tiny", "--task", "rte"], "--train is missing"), (["--resume"], "name it with --out"),
                           (["--resume", "--out", str(tmp_path)], "holds no fine-tuning to go on with")):  # fmt: skip
        assert main(["finetune", *words]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "resume.safetensors").write_bytes(b"x")
    assert main(["finetune", "--resume", "--out", str(tmp_path)]) == 2
    assert "is not a whole safetensors file" in capsys.readouterr().err
