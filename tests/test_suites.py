"""The tables of the papers by one command: every column on small files in published form, going on, and bad input."""

import json
import signal
from pathlib import Path

import pytest
from helpers import each, small_gpt2
from published_files import FILES

from minigpt import GPT2Config, load_tokenizer
from minigpt.cli import main
from minigpt.evaluation import overlap
from minigpt.files.disk import write_json
from minigpt.jobs.evaluate import PIECE, EvaluateOptions, evaluate
from minigpt.jobs.finetune import FinetuneOptions, Outcome
from minigpt.jobs.suites import running, table
from minigpt.tokenizer import GPT2Tokenizer

pytestmark = pytest.mark.usefixtures("quick_runs")

ENOUGH = 12  # items in each file: with five shots, and with a tenth kept apart
WITHOUT_NAMES = ("cola", "scitail")  # tables whose first line is an example
COLUMNS = {name: table._column(name) for name in table.TABLE["columns"]}
SEGMENTS = "<doc>\n" + "".join(f'<seg id="{i}">Tom ran {i} miles.</seg>\n' for i in range(ENOUGH)) + "</doc>\n"


def many(name: str) -> str:
    """The small file of a layout, with ENOUGH items."""
    text = FILES[name].text
    if name in ("coqa", *(one for one in FILES if FILES[one].items == [])):
        return text  # one document, or one text
    if text[:1] == "{" or name not in table.LAYOUTS or table.LAYOUTS[name].read or name in WITHOUT_NAMES:
        return text * ENOUGH
    header, _, rows = text.partition("\n")
    return f"{header}\n{rows * ENOUGH}"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder with a small file for every column, under its published name."""
    folder = tmp_path_factory.mktemp("published")
    for column in COLUMNS.values():
        layout = column.options.get("layout", column.options["task"])
        for name in [name for names in column.files.values() for name in table.several(names[0])]:
            path = folder / "some" / "where" / name
            if layout in ("race", "cnn_dm"):
                path = path / FILES[layout].name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SEGMENTS if layout == "translate" else many(layout), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    text = GPT2Tokenizer.train("Tom ran, and the cat sat on the mat.\n" * 3, 270, progress=False)
    small_gpt2(vocab_size=text.vocab_size, n_positions=48).save(folder)
    text.save(folder)
    return str(folder)


def kept(path: Path) -> dict:
    """The finished columns in a file, without the times."""
    found = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    for column in found["columns"].values():
        assert column.pop("seconds") >= 0
    return found


def test_the_table_is_in_order():
    used = {name for job in ("eval", "finetune") for one in table.TABLE[job].values() for name in one["columns"]}
    assert used == set(COLUMNS), "every column is of a suite"
    for name, column in COLUMNS.items():
        options = EvaluateOptions if "file" in column.files else FinetuneOptions
        assert set(column.options) | set(column.files) <= set(options.__dataclass_fields__), name
        assert len({len(names) for names in column.files.values()}) == 1, f"{name}: names that belong together"
        assert column.get.startswith("http") and column.source.startswith("GPT-"), name
        for number in column.numbers:
            assert set(number.paper) <= {*table.TABLE["sizes"], "tuned"}, name


def test_the_papers_numbers():
    """Of GPT-2's table 3, its smallest and its largest model; of GPT-1's twelve tasks, in the sequence of the suite.

    MNLI has two numbers, on texts of the kinds that it was trained on, and on others; RACE has three.
    """
    rows = {"117M": [35.13, 45.99, 87.65, 83.4, 29.41, 65.85, 1.16, 1.17, 37.5, 75.2],
            "1542M": [8.63, 63.24, 93.3, 89.05, 18.34, 35.76, 0.93, 0.98, 17.48, 42.16]}  # fmt: skip
    for size, row in rows.items():
        columns = table.suite("eval", "gpt2-table3").columns
        assert [number.paper[size] for column in columns for number in column.numbers] == row
    tuned = [number.paper["117M"] for column in table.suite("finetune", "gpt1-table").columns
             for number in column.numbers]  # fmt: skip
    assert tuned == [89.9, 82.1, 81.4, 88.1, 56.0, 88.3, 59.0, 62.9, 57.4, 86.5, 91.3, 45.4, 82.0, 82.3, 70.3]


def test_the_number_of_the_size_or_else_the_first():
    assert table.size_of(GPT2Config()) == "117M" and table.size_of(small_gpt2().config) == ""
    perplexity, accuracy = COLUMNS["lambada"].numbers
    assert perplexity.printed("762M") == ("762M", 10.87) and perplexity.printed("") == ("117M", 35.13)
    assert COLUMNS["coqa"].numbers[0].printed("117M") == ("1542M", 55)
    assert COLUMNS["dprd"].numbers[0].printed("117M") is None and accuracy.times == 100


def test_a_file_is_found_by_any_of_its_names_and_two_by_names_that_belong_together(tmp_path):
    def there(*names):
        for name in names:
            path = tmp_path / "below" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return {name: COLUMNS[name].found_in(tmp_path) for name in ("wikitext2", "wikitext103", "wmt-en-fr")}

    assert set(there("wiki.test.tokens", "newstest2014.en", "newstest2014-fren-ref.fr.sgm").values()) == {None}
    found = there("wikitext2/test.txt", "newstest2014.fr")
    assert found["wikitext2"] == {"file": str(tmp_path / "below" / "wikitext2" / "test.txt")}
    texts = {"file": "newstest2014.en", "answers": "newstest2014.fr"}
    assert found["wmt-en-fr"] == {option: str(tmp_path / "below" / name) for option, name in texts.items()}
    found = there("wikitext-2/wiki.test.tokens", "newstest2014-fren-src.en.sgm")
    assert found["wikitext2"]["file"].endswith("tokens") and found["wmt-en-fr"]["file"].endswith("src.en.sgm")
    assert found["wikitext103"] is None


@each("name", table.names("eval"))
def test_every_column_of_an_evaluation_is_measured(name, model, data, tmp_path, capsys):
    out = tmp_path / f"{name}.json"
    assert main(["eval", model, "--suite", name, "--data", str(data), "--json", str(out)]) == 0
    said = capsys.readouterr().out
    found = kept(out)
    assert list(found["columns"]) == [column.name for column in table.suite("eval", name).columns]
    for column in found["columns"].values():
        measures = {measure["name"]: measure for measure in column["measures"]}
        for number in column["numbers"]:
            package = {"BLEU": "sacrebleu", "ROUG": "rouge_score"}.get(number["measure"][:4])
            if package and overlap.missing(package):
                continue
            times = 100 if number["measure"].startswith(("acc", "exact", "F1", "last token, no", "ROUGE")) else 1
            assert number["value"] == times * measures[number["measure"]]["value"], number
            assert number["n"] > 0 and number["name"] in said
            assert number["paper"] is None or f"{number['paper']:g} ({number['size']})" in said
    assert "not there" not in said and "none of the papers' sizes" in said


def test_a_column_is_what_the_job_alone_measures(model, data, tmp_path):
    options = EvaluateOptions(folder=model, suite="gpt2-table3", data=str(data), json_file=str(tmp_path / "a.json"))
    suite = running.evaluate_suite(options)
    for column, given in (("cbt-cn", {"task": "choice", "detokenize": "ptb"}), ("text8", {"task": "perplexity"})):
        file = suite.columns[column]["files"]["file"]
        alone = evaluate(EvaluateOptions(folder=model, file=file, **given))
        assert [measure["value"] for measure in suite.columns[column]["measures"]] == [
            measure.value for measure in alone.measures
        ]


def test_it_goes_on_where_it_was_stopped(model, data, tmp_path, capsys, monkeypatch):
    """Ctrl-C in the third column: two are kept; then the others are measured, and only they."""
    words = ["eval", model, "--suite", "gpt2-table3", "--data", str(data), "--limit", "2", "--json"]
    assert main([*words, str(tmp_path / "whole.json")]) == 0
    asked = []

    def stopping(options, opened):
        asked.append(options.file)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return evaluate(options, opened)

    monkeypatch.setattr(running, "evaluate", stopping)
    assert main([*words, str(tmp_path / "parts.json")]) == 130
    assert len(kept(tmp_path / "parts.json")["columns"]) == 2
    assert main([*words, str(tmp_path / "parts.json")]) == 0
    assert len(asked) == 10 and asked[2] == asked[3], "nine columns, one of them twice"
    assert kept(tmp_path / "parts.json") == kept(tmp_path / "whole.json")
    assert [number["n"] for number in kept(tmp_path / "parts.json")["columns"]["lambada"]["numbers"]] == [2, 2]
    asked.clear()
    assert main([*words, str(tmp_path / "parts.json")]) == 0 and asked == []
    assert capsys.readouterr().out.count("\nlambada: kept\n") == 2


def test_what_was_kept_of_another_command_is_not_taken(model, data, tmp_path, capsys):
    out = tmp_path / "out.json"
    given = ["eval", model, "--suite", "gpt2-table3", "--data", str(data), "--json", str(out), "--limit", "2"]
    assert main(given) == 0
    before = out.read_bytes()
    small_gpt2(vocab_size=270, n_positions=48, seed=1).save(tmp_path / "other")
    load_tokenizer(model).save(tmp_path / "other")
    for what, words in (
        ("limit 2, this command says 3", [*given, "--limit", "3"]),
        ("suite gpt2-table3, this command says gpt2-tasks", [*given, "--suite", "gpt2-tasks"]),
        ("weights ", ["eval", str(tmp_path / "other"), *given[2:]]),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"holds the columns of another command ({what}" in said and out.read_bytes() == before
    for other in ('{"measures": []}', '{"columns": {}}'):
        out.write_text(other, encoding="utf-8")
        assert main(given) == 2 and "no suite has written it" in capsys.readouterr().err


def test_what_is_missing_is_listed_and_a_damaged_file_stops_no_other(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ptb.test.txt").write_text(FILES["ptb"].text, encoding="utf-8")
    (tmp_path / "data" / "lambada_test.jsonl").write_text('{"text": "one"}\n', encoding="utf-8")
    assert main(["eval", model, "--suite", "gpt2-table3", "--data", "data"]) == 2
    said, wrong = capsys.readouterr()
    assert wrong.startswith("minigpt: 1 of 2 columns could not be measured: lambada: ") and wrong.count("\n") == 1
    assert "\ntext8: text8, from http://mattmahoney.net" in said and "65.85 (117M)" in said
    assert list(kept(tmp_path / "runs" / "tiny-gpt2-table3.json")["columns"]) == ["ptb"]


def test_nothing_there_is_one_line(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["eval", model, "--suite", "gpt2-tasks"], ["finetune", model, "--suite", "glue"]):
        assert main([*words, "--data", str(tmp_path)]) == 2
        said, wrong = capsys.readouterr()
        assert said == "" and wrong.count("\n") == 1 and "holds none of the files" in wrong and "https://" in wrong
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_a_text_is_of_its_characters(model, tmp_path):
    text = "Tom ran, and he sat. " * 200
    (tmp_path / "text").write_text(text, encoding="utf-8")
    given = {"folder": model, "task": "perplexity", "file": str(tmp_path / "text")}
    counts = {measure.of: measure.n for measure in evaluate(EvaluateOptions(**given, limit=2)).measures}
    assert counts["character"] == 2 * PIECE and counts["word"] == len(text[: 2 * PIECE].split())


def test_the_words_of_a_task_may_stand_between_options(model, tmp_path):
    """TASK and FILE are needed where no suite is named, so that argparse looks for them behind options too."""
    (tmp_path / "text").write_text("Tom ran, and he sat. ", encoding="utf-8")
    assert main(["eval", model, "--limit", "1", "perplexity", "--device", "cpu", str(tmp_path / "text")]) == 0


# --- fine-tuning -----------------------------------------------------------------------------------------------------


@each("name", table.names("finetune"))
def test_every_column_of_a_fine_tuning_is_measured(name, model, data, tmp_path, capsys):
    out = tmp_path / name
    given = ["--data", str(data), "--out", str(out), "--epochs", "1", "--limit", "20", "--lr", "0.001"]
    assert main(["finetune", model, "--suite", name, *given]) == 0
    said = capsys.readouterr().out
    found = kept(out / running.FILE)
    assert list(found["columns"]) == [column.name for column in table.suite("finetune", name).columns]
    for column, entry in found["columns"].items():
        result = json.loads((out / column / "results.json").read_text(encoding="utf-8"))
        results = [result, *result.get("others", [])]
        assert len(results) == {"mnli": 2, "race": 3}.get(column, 1)
        names = ["", *(f" of {Path(other['file']).name}" for other in results[1:])]
        for number, found_there, of, which in zip(entry["numbers"], results, names, range(9), strict=False):
            assert found_there["split"] == ("test" if not which else f"test {which + 1}")
            assert number["measure"] == result["metric"] + of
            assert number["value"] == 100 * found_there["scores"][0] and number["n"] == found_there["examples"] <= 20
            assert f"{number['paper']:g} (117M)" in said
    assert found["limit"] == 20 and found["epochs"] == 1


def test_a_stopped_fine_tuning_goes_on(model, data, tmp_path, capsys, monkeypatch):
    given = ["--data", str(data), "--epochs", "1", "--limit", "20", "--out"]
    words = ["finetune", model, "--suite", "glue", *given]
    assert main([*words, str(tmp_path / "whole")]) == 0
    tune = running.finetune
    asked = []

    def stopping(options, named):
        asked.append(options.task)
        outcome = tune(options, named)
        return outcome._replace(stopped_by=signal.SIGINT) if len(asked) == 2 else outcome

    monkeypatch.setattr(running, "finetune", stopping)
    assert main([*words, str(tmp_path / "parts")]) == 130
    assert list(kept(tmp_path / "parts" / running.FILE)["columns"]) == ["cola"]
    assert main([*words, str(tmp_path / "parts")]) == 0
    assert asked[:4] == ["cola", "sst2", "sst2", "mrpc"] and len(asked) == 9
    assert kept(tmp_path / "parts" / running.FILE) == kept(tmp_path / "whole" / running.FILE)
    capsys.readouterr()
    assert main([*words, str(tmp_path / "parts"), "--epochs", "2"]) == 2
    assert "another command (epochs 1, this command says 2)" in capsys.readouterr().err


def test_the_number_of_several_seeds_is_their_mean(model, data, tmp_path, monkeypatch):
    def two_seeds(options, named):
        write_json(Path(options.out) / "results.json", {"metric": "accuracy", "interval": [0.5, 0.875], "examples": 8})
        return Outcome([0.25, 0.75])

    monkeypatch.setattr(running, "finetune", two_seeds)
    words = ["finetune", model, "--suite", "glue", "--data", str(data), "--seeds", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    column = kept(tmp_path / running.FILE)["columns"]["sst2"]
    (number,) = column["numbers"]
    assert (number["value"], number["low"], number["high"], number["n"]) == (50, 50, 87.5, 8)
    assert column["notes"] == ["the mean of 2 seeds, and the interval of the last"]


def test_a_limit_of_a_fine_tuning_takes_the_first_examples(model, data, tmp_path, capsys):
    file = str(next(data.rglob("CoLA/train.tsv")))
    given = ["--task", "cola", "--train", file, "--test", file, "--limit", "10", "--epochs", "1"]
    assert main(["finetune", model, *given, "--out", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["examples"] == 10
    assert "9 train, 10 test, 1 valid examples" in capsys.readouterr().out
