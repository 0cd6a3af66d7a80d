"""What the pages of recorded benchmarks say: whose side is whose, ranges, ends of runs, a title for each."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from minigpt import ops
from minigpt.explorer.named_pass import named_pass
from minigpt.models.family.bert import BERT, BERTConfig

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "lessons" / "site"))

import figures  # noqa: E402
import results  # noqa: E402
import results_learning  # noqa: E402

import benchmarks  # noqa: E402

RESULTS = sorted(path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json"))


def shown(name: str, rows: dict[str, dict]) -> str:
    """The sentence of a result, and its plots in words."""
    result = results.of(name)
    return "\n".join([result.sentence(rows), *(f"{plot.title}. {plot.alt}" for plot in result.plots(rows))])


@pytest.fixture
def script(monkeypatch):
    """script(name): the module of a benchmark. Its sides are not run: they take the seconds that `times` says."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    machine = importlib.import_module("machine")

    def in_turn(sides, pairs, *_):
        return {side: [times[side]] * pairs for side in sides}

    times = {"minigpt": 4.0, "processes": 3.0, "transformers": 2.0, "PyTorch eager": 2.0, "read": 1.0}
    times["products"] = 2.0
    monkeypatch.setattr(machine, "Apart", StandIn)
    monkeypatch.setattr(machine, "in_turn", in_turn)
    monkeypatch.setattr(machine, "require", lambda *_: None)
    return importlib.import_module


class StandIn:
    """A side that is not run: its results are the same tokens as the other's; ours says half a second for each too."""

    def __init__(self, side, *_):
        self.results = [(np.arange(64), 0.5) if side.__name__ == "ours" else np.arange(64)] * 3


def test_each_side_of_a_pair_has_its_own_name(script, monkeypatch):
    """Rows as the script writes them, where ours takes twice the time: the page must say so."""
    decode = script("decode")
    monkeypatch.setattr(decode, "check_same", lambda *_: None)
    rows = decode.compare(1, {}, 1, decode.SHORT, 3) | decode.compare(1, {}, 8, decode.SHORT, 3)
    rows |= decode.compare(1, {}, 8, decode.LONG, 3)
    said = shown("decode", rows)
    assert "One text: 16.0 tokens a second here, 32.0 with transformers. 2 of 2 targets met." in said
    assert "minigpt: batch 1 16, batch 8 128, batch 8 after 896 tokens 128" in said
    assert "transformers: batch 1 32, batch 8 256, batch 8 after 896 tokens 256" in said
    assert "ratio: batch 1: transformers / minigpt 0.5, batch 8: transformers / minigpt 0.5" in said
    assert "ratio: batch 1: a token of minigpt / reading 0.5, batch 8" in said

    run, saved = script("run"), {}
    monkeypatch.setattr(run.machine, "save", lambda name, rows, *_: saved.update(rows))
    monkeypatch.setattr(sys, "argv", ["run.py", "--data", "none", "--pairs", "3", "--threads", "2"])
    monkeypatch.setattr(StandIn, "__init__", lambda self, side, *_: setattr(self, "results", [len(side.__name__)]))
    run.main()
    said = shown("run", saved)
    assert "A whole run takes 1.50 times as long as in PyTorch with a process for each core, and 2.00 times" in said
    assert "with threads; the losses at the end are 4.000 and 6.000." in said
    axis = "time of minigpt / time of PyTorch eager (lower is better)"
    assert f"{axis}. ratio: with a process for each core 1.5, with threads 2" in said


def test_other_tokens_are_refused_unless_their_logits_were_equal(script, monkeypatch):
    """Greedy writing of two programs parts for good where rounding decides between two tokens."""
    decode = script("decode")
    sizes = {"n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 11, "n_positions": 16}
    model = decode.model_of(sizes)
    prompts = decode.prompt(sizes, 1, 4)
    ours = model.generate(prompts, 3, temperature=0)[:, -3:]
    decode.check_same(sizes, prompts, ours, ours.copy())
    theirs = ours.copy()
    theirs[0, 1] = (ours[0, 1] + 1) % 11
    with pytest.raises(SystemExit, match="token 1 differs"):
        decode.check_same(sizes, prompts, ours, theirs)
    model.wte.weight.data[theirs[0, 1]] = model.wte.weight.data[ours[0, 1]]  # the same logit for both
    monkeypatch.setattr(decode, "model_of", lambda sizes: model)
    decode.check_same(sizes, prompts, ours, theirs)


def test_recorded_rates_belong_to_the_side_that_was_as_fast():
    rows = benchmarks.rows_of("decode")
    for batch in (1, 8):
        times = rows[f"batch {batch}: transformers / minigpt"]
        rates = rows[f"batch {batch}: tokens per second"]
        tokens = rates["transformers"] * times["above"], rates["minigpt"] * times["below"]
        assert tokens == pytest.approx([64 * batch, 64 * batch])


RATIOS = {  # results with rows of ratios: what stands above and below in a row's name or in its script's docstring
    "decode": "ratio of times. ratio: batch 1: transformers / minigpt",
    "chat_speed": "ratio of times. ratio: minigpt / reading",
    "effects": "time of a step without it / time with all",
    "run": "time of minigpt / time of PyTorch eager",
    "train_step": "time of PyTorch / time of minigpt (above 1: minigpt is faster)",
    "bpe": "our time / their time",
    "one_thread": "time of a part / time of the products of a step",
    "two_threads": "time / time of a step with one thread",
    "threads": "time / time of a step with one thread",
}


def test_every_ratio_says_what_is_divided_by_what():
    with_ratios = {name for name in RESULTS if any("ratio" in row for row in benchmarks.rows_of(name).values())}
    assert with_ratios - {"defaults"} == set(RATIOS)  # there the ratio is that of a loss to an entropy
    for name, words in RATIOS.items():
        rows = benchmarks.rows_of(name)
        assert words in shown(name, rows), name
        for row in rows.values():
            above, below = row.get("above", row.get("seconds")), row.get("below", row.get("theirs"))
            if "ratio" in row:
                assert row["from"] <= row["ratio"] <= row["to"]
                assert row["from"] <= 1 <= row["to"] or (above > below) == (row["ratio"] > 1)


def test_every_result_has_a_title_a_sentence_and_a_place_in_the_index():
    for name in RESULTS:
        about = results.of(name)
        assert about.title != name and not about.sentence(benchmarks.rows_of(name)).endswith(" rows."), name
    assert {name for names in results.SUBJECTS.values() for name in names} >= set(RESULTS)
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert [name for name in RESULTS if f"| `{name}.py` |" not in readme] == []


def test_the_gradient_checks_of_every_operation_are_recorded():
    assert {*ops.names, "models", "all"} == set(benchmarks.rows_of("gradcheck"))


def test_what_lesson_03_says_of_twenty_trainings_is_recorded():
    rows = [row for name, row in benchmarks.rows_of("controls").items() if name.startswith("03, seed ")]
    of_toms_milk = [row["tom's milk"] for row in rows]
    assert len(rows) == 20 and all(row["new stories"] == 1 for row in rows)
    perfect = of_toms_milk.count(1)
    (path,) = (ROOT / "lessons").glob("03_*.py")
    said = " ".join(path.read_text(encoding="utf-8").replace("\n#", "").split())
    assert f"{perfect} of the 20 make no mistake; the worst answers {min(of_toms_milk):.1%}".replace("%", " %") in said


def test_a_masked_model_is_compared_within_its_exam():
    rows = benchmarks.rows_of("masked")
    assert [plot.title.split()[4] for plot in results.of("masked").plots(rows)] == ["32:", "64:", "128:"]
    for plot in results.of("masked").plots(rows):
        window = re.search(r"window \d+", plot.title)[0]
        of_window = [name for name in rows if f"{window}," in f"{name},"]
        assert plot.alt.count("roberta") == sum(name.startswith("roberta") for name in of_window)
    assert "gpt1" not in results.of("masked").sentence(rows)


def test_ranges_and_ends_are_said():
    assert "distilbert has the highest mean, 79.8 (by seed 78.9 to 80.4). The ranges of elmo overlap" in shown(
        "family", benchmarks.rows_of("family")
    )
    of_seeds = {}
    for task in results_learning.TASKS:
        of_seeds |= {f"elmo, seed {seed}, {task}": {"points": 10.0 * seed + 1} for seed in (1, 2)}
    assert results_learning._means(of_seeds) == {"elmo": figures.Point(16, 11, 21)}
    rows = benchmarks.rows_of("in_context")
    ends = [row["after 15"][-1] for name, row in rows.items() if name.startswith("1 layer")]
    assert f"one layer {min(ends):.0%} to {max(ends):.0%}" in shown("in_context", rows)
    assert "24 of 26 ranges include 1" in shown("effects", benchmarks.rows_of("effects"))
    assert "at a quarter of the rate at 1.76 without it" in shown("warmup", benchmarks.rows_of("warmup"))


def test_where_the_heads_of_a_published_bert_look(script):
    real_bert = script("real_bert")
    model = BERT(BERTConfig(vocab_size=19, n_positions=9, n_embd=8, n_layer=2, n_head=2, initializer_range=0.5), seed=0)
    ids = [3, 5, 7, 11, 2, 4, 1]
    p = real_bert.attention(model, ids)
    values = named_pass(model, ids, ids).values
    assert p.shape == (2, 2, 7, 7)
    for i in range(2):
        assert np.abs(p[i] - values[f"h.{i}.attn.p"].value).max() < 1e-6
    for i, key in enumerate(([0] * 7, [6] * 7, range(7), [0, *range(6)], [*range(1, 7), 6])):
        looks_there = np.eye(7)[list(key)][None, None]  # each query at one key
        assert real_bert.shares(looks_there)[:, 0, 0].tolist() == np.eye(5)[i].tolist(), real_bert.PLACES[i]
    rows = {f"block {n}": {"[CLS]": [0.5, 0.25 * n], "[SEP]": [0.125, 0.125]} for n in (1, 3)}
    said = shown("real_bert", rows)
    assert "50% goes to [CLS], 12% to [SEP]" in said and "[SEP]: block 1 0.125, block 3 0.125" in said


def test_a_table_of_a_paper_on_small_models():
    """What was measured, what needs a download, and the two ways to score LAMBADA."""
    row = {"ours": 40.25, "low": 30.0, "high": 50.0, "the paper's": 35.13}
    rows = {"LAMBADA PPL, small": row, "LAMBADA PPL, large": row | {"ours": 70.0}, "LAMBADA ACC, small": row}
    rows |= {"LAMBADA PPL of the word, small": row | {"ours": 9e5, "the paper's": None}}
    rows |= {"PTB PPL, needs a download": {"where": "ptb.test.txt"}, "CBT-CN, needs a download": {"where": "cbt.txt"}}
    said = shown("suites", rows)
    assert "2 of 4 numbers" in said and "the files of PTB PPL, CBT-CN." in said
    assert "the perplexity of one is 40.2 (small), beside the 35.13" in said and "last word it is 9.0e+05." in said
    assert "% right; the bar is the paper's smallest model. ours: LAMBADA ACC, small 40" in said
