"""Labels of words and characters: files, places among tokens, measures, the head and its gradients, and the commands.

    pytest -m parity tests/test_tagging.py       (against transformers: needs the extra "parity")

Real files of KLUE (klue-ner-v1.1_dev.tsv, klue-dp-v1.1_dev.tsv) are read too where MINIGPT_EVAL_DATA has a folder klue.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import check_along, error, small_gpt1, small_gpt2, small_model
from published_files import NOTE, OTHERS, tsv
from test_classifier import C, T, Total, V, inputs

from minigpt import ops
from minigpt.cli import main
from minigpt.data import labelled_files
from minigpt.data.examples import Example, Task
from minigpt.data.input_transformations import EncodedExamples, encode_all, encode_units
from minigpt.data.units import NOWHERE, ends_of, tokens_of
from minigpt.errors import InputError
from minigpt.evaluation import metrics, tags
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.jobs.predict import PredictOptions, predict
from minigpt.models.family.bert import BERT, BERTConfig
from minigpt.models.token_classifier import TokenClassifier, places_in, token_targets, unit_answers
from minigpt.tokenizer import GPT1Tokenizer, GPT2Tokenizer, load

pytestmark = pytest.mark.usefixtures("quick_runs")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tom", "mia", "saw", "ran", "to", "pa", "##ris", "##r", "rome",
          "##s", "the", "dog", ".", "톰", "##은", "서울", "##에", "산다", "(", ")"]  # fmt: skip
NAMES = ("O", "B-P", "I-P", "B-L")


def wordpiece(folder: Path):
    """A cased BERT tokenizer with a few pieces, and its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return load(folder)


def bert(folder: Path, **differs) -> str:
    """A BERT of these pieces that was never trained."""
    text = wordpiece(folder)
    sizes = {"vocab_size": text.vocab_size, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    BERT(BERTConfig(**sizes, initializer_range=0.2, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, **differs)).save(
        folder, overwrite=True
    )
    return str(folder)


@pytest.fixture
def write(tmp_path):
    def file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return file


def conll(*sentences, middle="NN ") -> str:
    """Words with their labels, two columns or, with `middle`, three."""
    return "".join("".join(f"{word} {middle}{tag}\n" for word, tag in one) + "\n" for one in sentences)


# --- files -----------------------------------------------------------------------------------------------------------

SENTENCE = ["tom", "fox", "saw", "rome", "paris", "."]
SCHEMES = {
    "IOB2": ["B-P", "I-P", "O", "B-L", "B-L", "O"],
    "IOB1": ["I-P", "I-P", "O", "I-L", "B-L", "O"],
    "IOBES": ["B-P", "E-P", "O", "S-L", "S-L", "O"],
    "BILOU": ["B-P", "L-P", "O", "U-L", "U-L", "O"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("middle", ["", "NN ", "\tNNP\tI-NP\t"])
def test_every_scheme_is_read_as_iob2_whatever_the_columns(write, scheme, middle):
    begin = "-DOCSTART- -X- -X- O\n\n"
    sentence = list(zip(SENTENCE, SCHEMES[scheme], strict=True))
    path = write("eng.train", begin + conll(sentence, [("ran", "O")], middle=middle))
    task, examples = labelled_files.read(path, "tagging")
    assert task == Task("tagging", ("B-L", "B-P", "I-P", "O"), "entity_f1")
    words = " ".join(SENTENCE).replace(" ", "| |").split("|")
    assert examples == [Example(tuple(words), tuple(SCHEMES["IOB2"])), Example(("ran",), ("O",))]
    known, others = labelled_files.read(path, "conll", labels=("O", "B-P", "I-P"), say=(said := []).append)
    assert known.labels == ("O", "B-P", "I-P") and others == examples
    assert said == [f"{path}: 1 labels are not among those of training, such as B-L: they count as missed"]
    bare = write("words.txt", "\n".join(SENTENCE) + "\n\nran\n")
    assert labelled_files.read(bare, "conll", labelled=False)[1] == [one._replace(label=None) for one in examples]


NER = f"{NOTE}## klue-ner-v1_dev_00000\t<톰:PS> 은\n"
DP = ("1", "톰은", "톰 은", "NNP+JX", "2", "NP_SBJ"), ("2", "산다.", "살 ㄴ다 .", "VV+EF", "0", "VP")
BAD = {  # layout, text, what is said
    "no such label": ("klue_ner", NER + tsv(("톰", "B-PX")), "line 3: expected a character"),
    "two characters": ("klue_ner", NER + tsv(("톰은", "O")), "line 3: expected a character"),
    "no label": ("klue_ner", NER + "톰\n", "line 3: expected a character"),
    "half an entity": ("klue_ner", NER + tsv(("톰", "O"), ("은", "I-PS")), "line 4: expected B-PS, or O, after O"),
    "another goes on": ("klue_ner", NER + tsv(("톰", "B-LC"), ("은", "I-PS")), "line 4: expected B-PS, or O, after B"),
    "only notes": ("klue_ner", NOTE, "has no examples: expected a character"),
    "blank": ("klue_ner", "\n\n", "is empty"),
    "a column less": ("conll", "tom NN B-P\nran O\n", "line 2: expected 3 columns as before"),
    "one column": ("conll", "tom\nran\n", "line 1: expected 2 columns or more, a word and, last"),
    "no scheme": ("conll", "tom NN\nran VB\n", "line 1: expected a label O, B-TYPE or I-TYPE"),
    "two schemes": ("conll", "tom B-P\nfox I-P\nran O\nrome I-L\n", "line 4: expected B-L or O, as other entities"),
    "no end": ("conll", "tom B-P\nran O\nrome S-L\n", "line 2: expected an end of P, E-P, got 'ran O'"),
    "no end of a sentence": ("conll", "rome S-L\ntom B-P\n", "line 2: expected an end of P, E-P"),
    "no beginning": ("conll", "rome S-L\ntom E-P\n", "line 2: expected a beginning, B-P, before it"),
    "five fields": ("klue_dp", tsv(DP[0][:5], DP[1]), "line 1: expected six fields between tabs"),
    "a word left out": ("klue_dp", tsv(DP[1]), "line 1: expected six fields between tabs"),
    "a head outside": ("klue_dp", tsv((*DP[0][:4], "3", "NP"), DP[1]), "line 1: expected a head, another word"),
    "its own head": ("klue_dp", tsv((*DP[0][:4], "1", "NP"), DP[1]), "line 1: expected a head, another word of 0 to 2"),
    "two roots": ("klue_dp", tsv((*DP[0][:4], "0", "NP"), DP[1]), "line 1: expected one word with head 0"),
    "nothing like it": ("tagging", "It rained all day.\n", "is the nearest layout of klue_ner, klue_dp, conll"),
    "columns": ("tagging", "tom O\n", "tagging has no columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gets_one_line(write, tmp_path, capsys, name):
    task, text, said = BAD[name]
    path, model = write("f.tsv", text), bert(tmp_path / "bert")
    capsys.readouterr()
    more = ["--columns", "text=1"] if name == "columns" else []
    assert main(["finetune", model, "--task", task, "--train", str(path), "--out", str(tmp_path / "out"), *more]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and said in err, err
    assert not (tmp_path / "out").exists()


def test_a_model_that_writes_has_no_head_for_words(write, tmp_path, capsys):
    from minigpt.models.family.t5 import T5, T5Config

    text = GPT1Tokenizer.train("tom ran to rome " * 3, 100, pipeline="rules")
    T5(T5Config(vocab_size=text.vocab_size, n_embd=8, n_layer=1, n_head=2)).save(tmp_path / "t5")
    text.save(tmp_path / "t5")
    path = write("f.txt", conll(*[[("tom", "B-P")]] * 20))
    assert main(["finetune", str(tmp_path / "t5"), "--task", "conll", "--train", str(path)]) == 2
    assert "a T5 writes its answers, and labels of words need a head" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "columns"), [("klue-ner-v1.1_dev.tsv", 2), ("klue-dp-v1.1_dev.tsv", 6)])
def test_published_files_lose_no_line_and_double_none(eval_data, name, columns):
    """Against a reader that knows nothing but empty lines and tabs."""
    path = eval_data / "klue" / name
    if not path.is_file():
        pytest.skip(f"put {name} of github.com/KLUE-benchmark/KLUE into a folder klue of MINIGPT_EVAL_DATA")
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line[:2] != "##"]
    expected = [row for row in rows if len(row) == columns and row[0] != " "]
    _, examples = labelled_files.read(path, "tagging", say=lambda text: None)
    place = 0 if columns == 2 else 1
    assert [unit for one in examples for unit in one.texts if unit != " "] == [row[place] for row in expected]
    labels = [label for one in examples for label in one.label]
    if columns == 2:
        assert labels == [row[1] for row in expected]
    else:
        heads = [head for one in examples for head in tags.heads(one.label)]
        assert heads == [(int(row[4]), row[5]) for row in expected]


# --- places among tokens ---------------------------------------------------------------------------------------------


def test_units_stand_in_the_tokens_that_spell_them(tmp_path):
    text = wordpiece(tmp_path)
    units = [*"톰은", " ", *"서울에", " ", *"산다"]
    ids, places = tokens_of(units, text)
    assert [text.tokens[i] for i in ids] == ["톰", "##은", "서울", "##에", "산다"]
    assert places.tolist() == [[0, 1, 2, 2, 3, 4, 4]] * 2
    ids, places = tokens_of(["parrs", " ", "ran"], text)
    assert [text.tokens[i] for i in ids] == ["pa", "##r", "##r", "##s", "ran"]
    assert places.tolist() == [[0, 4], [3, 4]], "a word begins in its first token and ends in its last"


@pytest.mark.parametrize(
    ("word", "pieces", "expected"), [
        ("(톰)", ["(", "톰", ")"], [1, 2, 3]),
        ("(김철)은", ["(", "[UNK]", ")", "[UNK]"], [1, 3, 4, 5]),
        ("김(철수)", ["[UNK]", "(", "[UNK]", ")"], [2, 3, 4, 5]),
        ("김철수", ["[UNK]"], [3]),
    ],
)  # fmt: skip
def test_an_unknown_token_stands_for_what_the_others_leave(tmp_path, word, pieces, expected):
    text = wordpiece(tmp_path)
    ids = [text.ids[piece] for piece in pieces]
    assert text.encode(word) == ids
    assert ends_of(word, ids, text).tolist() == expected


def test_a_letter_of_several_bytes_stands_where_its_last_one_is():
    text = GPT2Tokenizer.train("ab", 257)
    ids, places = tokens_of(["톰", "a", " ", "은"], text)
    assert len(ids) == 3 + 1 + 1 + 3
    assert places.tolist() == [[2, 3, 7]] * 2


def test_what_has_no_room_is_cut_at_the_end_and_what_has_no_token_is_nowhere(tmp_path):
    text = wordpiece(tmp_path)
    units = ["tom", " ", "saw", " ", "paris", " ", "ran"]
    one = encode_units(units, text, room=6)
    assert [text.tokens[i] for i in one.ids] == ["[CLS]", "tom", "saw", "pa", "##ris", "[SEP]"] and one.cut == 1
    assert one.places.tolist() == [[1, 2, 3, NOWHERE], [1, 2, 4, NOWHERE]]
    assert encode_units(units, text, room=5).places[:, 2].tolist() == [NOWHERE] * 2, "half a word is none"
    assert tokens_of(["\u200b", " ", "tom"], text)[1].tolist() == [[NOWHERE, 0]] * 2
    with pytest.raises(InputError, match=r"example 1: the sentence '\\u200b' has no token"):
        encode_all([Example(("\u200b",))], "tagging", text, 16)
    with pytest.raises(InputError, match="or no room"):
        encode_units(units, text, room=2)


def test_sequences_are_kept_as_numbers_and_come_back_the_same(tmp_path):
    text = wordpiece(tmp_path)
    kept = EncodedExamples()
    plain = encode_all([Example(("tom ran", "the dog"))] * 2, "similarity", text, 16)
    for example in plain:
        kept.append(example)
    assert len(kept) == len(plain) == 2 and list(kept) == list(plain) and kept[-1] == plain[1]
    with pytest.raises(IndexError):
        kept[2]
    units = encode_all([Example(("tom", " ", "ran"))], "tagging", text, 16)[0][0]
    again = encode_units(("tom", " ", "ran"), text, 16)
    assert np.array_equal(units.places, again.places) and units[:4] == again[:4]


@pytest.mark.parity
def test_the_places_are_those_of_the_package_tokenizers(eval_data, tmp_path):
    transformers = pytest.importorskip("transformers")
    vocabulary, reviews = eval_data / "wordpiece" / "koelectra_v3_vocab.txt", eval_data / "nsmc" / "ratings_test_5k.txt"
    wordpiece(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(vocabulary.read_bytes())
    ours, theirs = load(tmp_path), transformers.BertTokenizerFast(str(vocabulary), do_lower_case=False)
    texts = [" ".join(row.split("\t")[1].split()) for row in reviews.read_text(encoding="utf-8").split("\n")[1:800]]
    n = unlike = 0
    for text in filter(None, texts):
        ids, places = tokens_of(text, ours)
        there = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        assert ids == there["input_ids"]
        place_of = {i: k for k, (begin, end) in enumerate(there["offset_mapping"]) for i in range(begin, end)}
        expected = [place_of.get(i, NOWHERE) for i, character in enumerate(text) if character != " "]
        n += len(expected)
        unlike += sum(a != b for a, b in zip(places[0].tolist(), expected, strict=True))
    assert n > 10_000 and unlike < n / 500, "only in words with several unknown tokens"


# --- measures --------------------------------------------------------------------------------------------------------


def test_entities_as_conlleval_and_as_klue_find_them():
    told = ["I-A", "I-A", "B-A", "I-B", "O", "B-A", "B-A"]
    assert tags.entities(told) == {("A", 0, 1), ("A", 2, 2), ("B", 3, 3), ("A", 5, 5), ("A", 6, 6)}
    assert tags.entities(told, strict=True) == {("A", 2, 2), ("A", 5, 5), ("A", 6, 6)}


def test_the_measures_on_numbers_that_a_person_counts():
    there = [["B-A", "I-A", "O", "B-B"], ["B-A", "O"]]
    predicted = [["B-A", "I-A", "O", "O"], ["B-A", "I-A"]]
    # Entities: of A 2 there, 2 predicted, 1 right: 1/2. Of B 1 there, none predicted: 0.
    assert tags.judge("entity_f1", predicted, there) == 2 * 1 / (2 + 3)
    assert tags.judge("entity_macro_f1", predicted, there) == (1 / 2 + 0) / 2
    # B-A 2 of 2; I-A 1 right of 2 predicted and 1 there: 2/3; O 1 right of 2 and 2: 1/2; B-B 0.
    assert tags.judge("tag_macro_f1", predicted, there) == pytest.approx((1 + 2 / 3 + 1 / 2 + 0) / 4)
    names, counts = tags.counts_of("entity_f1", predicted, there)
    assert names == ["A", "B"] and counts.tolist() == [[[1, 1, 1], [0, 1, 0]], [[1, 1, 0], [0, 0, 0]]]
    assert tags.table("entity_f1", predicted, there)[1] == ["A", "0.5000", "0.5000", "0.5000", "2"]


def test_heads_and_relations_as_klue_counts_them():
    there = [["1:NP_SBJ", "0:VP", "-1:R"]]  # heads 2, 0, 2
    assert tags.heads(there[0]) == [(2, "NP_SBJ"), (0, "VP"), (2, "R")]
    assert tags.heads(["5:NP", "-1:NP", "O"]) == [(0, "NP"), (1, "NP"), (0, "")], "outside of the sentence"
    predicted = [["1:NP_OBJ", "0:VP", "-2:R"]]  # heads 2, 0, 1
    assert tags.judge("uas", predicted, there) == pytest.approx(2 / 3)
    assert tags.judge("las", predicted, there) == pytest.approx(1 / 3)
    assert tags.judge("uas_macro_f1", predicted, there) == pytest.approx((1 + 2 / 3 + 0) / 3)  # heads 0, 2 and 1
    # NP_SBJ 0, NP_OBJ 0, VP 1, the rare R 0, and a wrong head is a class that is never right.
    assert tags.judge("las_macro_f1", predicted, there) == pytest.approx(1 / 5)
    assert tags.judge("las_macro_f1", [["1:NP_SBJ", "0:VP", "-1:L"]], there) == 1, "L is as rare as R"


def test_the_measures_are_those_of_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics")
    scheme = pytest.importorskip("seqeval.scheme").IOB2
    rng = np.random.default_rng(0)
    names = ["O", "O", "O", "B-A", "I-A", "B-B", "I-B", "B-C", "I-C"]
    for _ in range(200):
        there = [rng.choice(names, n).tolist() for n in rng.integers(1, 12, 4)]
        predicted = [[tag if rng.random() < 0.7 else str(rng.choice(names)) for tag in one] for one in there]
        assert tags.judge("entity_f1", predicted, there) == pytest.approx(seqeval.f1_score(there, predicted))
        strict = seqeval.f1_score(there, predicted, average="macro", mode="strict", scheme=scheme, zero_division=0)
        assert tags.judge("entity_macro_f1", predicted, there) == pytest.approx(strict)


def test_the_interval_holds_the_score_and_what_does_not_fit_is_refused():
    task = Task("tagging", NAMES, "entity_f1")
    there = [["B-P", "O", "B-L"]] * 30
    predicted = [["B-P", "O", "O"]] * 15 + there[15:]
    low, high = metrics.interval(task, predicted, there)
    assert low < metrics.judge(task, predicted, there) < high
    assert metrics.best_constant(task, there, there) == (1, metrics.judge(task, [["B-P"] * 3] * 30, there))
    with pytest.raises(InputError, match="sentence 2 has 1 predictions for 2 answers"):
        tags.judge("uas", [["0:A"], ["0:A"]], [["0:A"], ["0:A", "0:A"]])
    with pytest.raises(InputError, match="there are no sentences"):
        tags.judge("uas", [], [])
    with pytest.raises(InputError, match="unknown metric 'accuracy': choose entity_f1"):
        metrics.judge(Task("tagging", NAMES), [], [])


# --- the head --------------------------------------------------------------------------------------------------------

TASK = Task("tagging", NAMES, "entity_f1")
LABELS = np.array([[-100, 2, 0, -100, 1, 3, -100], [-100, 0, -100, -100, -100, -100, -100], [-100] * 7])


def small_bert(dtype=np.float64, **sizes):
    sizes = {"n_layer": 2, "n_head": 2, **sizes}
    return small_model(BERT, sizes, dtype, dropout=sizes.pop("dropout", 0.0))


def token_classifier(small, dropout=0.0) -> TokenClassifier:
    body = small(np.float64, vocab_size=V, n_positions=T, n_embd=C, dropout=dropout)
    model = TokenClassifier(body, TASK, dropout)
    rng = np.random.default_rng(5)
    for parameter in model.head.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("options", [{}, {"key": ops.random_keys.Key.of(3), "normalizer": 7}], ids=["plain", "dropout"])
@pytest.mark.parametrize("small", [small_gpt1, small_gpt2, small_bert])
def test_every_gradient_of_head_and_body_together(small, options):
    ids, lengths = inputs(1)
    model = token_classifier(small, dropout=0.2 if options else 0.0)
    check_along(Total(model, lengths), ids, LABELS, **options)


@pytest.mark.parametrize("small", [small_gpt1, small_bert])
def test_the_loss_is_the_mean_over_sentences_of_the_mean_over_their_tokens(small):
    ids, lengths = inputs(1)
    model = token_classifier(small)
    p = model.probabilities(ids, lengths)
    assert p.shape == (3, T, len(NAMES))
    means = []
    for row, labels in zip(p, LABELS, strict=True):
        each = [-np.log(row[t, label]) for t, label in enumerate(labels) if label >= 0]
        means.append(np.mean(each) if each else 0.0)
    losses, _ = model.loss(ids, lengths, LABELS, lm_weight=0.0)
    assert float(losses.task) == pytest.approx(np.mean(means), abs=1e-12)
    scores, cache = model.forward(ids, lengths)
    model.zero_grad()
    model.backward(np.random.default_rng(1).standard_normal(scores.shape), cache)
    assert model.head.weight.grad.any() and model.body.embeddings[0].weight.grad.any()


def test_a_token_learns_its_first_unit_and_a_later_unit_goes_on():
    places = np.array([1, 1, 3, NOWHERE])
    assert token_targets(places, [1, 2, 0, 3], 5).tolist() == [-100, 1, -100, 0, -100]
    p = np.zeros((5, 4))
    p[1, 1] = p[3, 3] = 0.9
    names, sure = unit_answers(TASK, p, places)
    assert names == ["B-P", "I-P", "B-L", "O"] and sure.tolist() == [0.9, 0.9, 0.9, 1.0]


def test_a_model_that_sees_the_left_alone_is_asked_where_a_word_ends():
    places = np.array([[1, 3], [2, 3]])
    bodies = (small(vocab_size=V, n_positions=T, n_embd=C) for small in (small_gpt1, small_bert))
    assert [places_in(places, body).tolist() for body in bodies] == [[2, 3], [1, 3]]


# --- the commands ----------------------------------------------------------------------------------------------------


def sentences(n: int, seed: int) -> list[list[tuple[str, str]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        who, where = str(rng.choice(["tom", "mia"])), str(rng.choice(["paris", "rome"]))
        found.append([(who, "B-P"), ("ran", "O"), ("to", "O"), (where, "B-L")][:: 1 if rng.random() < 0.5 else -1])
    return found


def gpt(folder: Path) -> str:
    from minigpt import GPT1, GPT1Config

    text = GPT1Tokenizer.train("tom mia ran to paris rome " * 3, 60, pipeline="rules")
    sizes = {"n_positions": 24, "n_embd": 16, "n_layer": 1, "n_head": 2}
    GPT1(GPT1Config(vocab_size=text.vocab_size, **sizes, initializer_range=0.2)).save(folder)
    text.save(folder)
    return str(folder)


@pytest.mark.parametrize("make", [bert, gpt])
def test_words_are_learned_judged_and_answered(write, tmp_path, capsys, make):
    train, test = (str(write(f"{name}.txt", conll(*sentences(n, seed)))) for name, n, seed in
                   (("train", 120, 0), ("test", 30, 1)))  # fmt: skip
    out = str(tmp_path / "o")
    options = {"model": make(tmp_path / "model"), "task": "tagging", "train": train, "test": test, "out": out}
    finetune(FinetuneOptions(**options, epochs=8, batch=8, lr=0.02, lm_weight=0.0, dropout=0.0))
    said = capsys.readouterr().out
    results = json.loads((tmp_path / "o" / "results.json").read_text(encoding="utf-8"))
    assert results["scores"][0] > 0.95 and results["metric"] == "entity_f1" and "confusion" not in results
    assert set(results["measures"]) == {"entity_f1", "entity_macro_f1", "tag_macro_f1"}
    assert re.search(r"class +precision +recall +F1 +there\n +L +[01]\.\d{4}", said), said
    assert "test.txt is read as conll" in said and "always answering 'O' has entity_f1 0.0000 on test" in said
    model, _ = open_classifier(tmp_path / "o")
    assert type(model) is TokenClassifier and model.task == Task("tagging", ("B-L", "B-P", "O"), "entity_f1")
    wrote = []
    answers = predict(PredictOptions(folder=str(tmp_path / "o"), file=test), write=wrote.append, tell=lambda text: None)
    there = [[tag for _, tag in one] for one in sentences(30, 1)]
    assert tags.judge("entity_f1", answers, there) == pytest.approx(results["scores"][0])
    blocks = wrote[0].strip().split("\n\n")
    assert [line.split("\t")[0] for line in blocks[0].split("\n")] == [word for word, _ in sentences(30, 1)[0]]
    assert [line.split("\t")[1] for line in blocks[0].split("\n")] == answers[0] and len(blocks) == 30


def test_a_published_head_for_tokens_answers(write, tmp_path, capsys):
    folder = bert(tmp_path / "bert", form="ForTokenClassification", labels=NAMES)
    path = write("words.txt", "tom\nsaw\nparis\n\nthe\ndog\n")
    assert main(["predict", folder, str(path), "--task", "conll"]) == 0
    blocks = [block.split("\n") for block in capsys.readouterr().out.strip().split("\n\n")]
    model, text = open_classifier(folder)
    assert model.body.token_labels == NAMES and model.body.labels == ()
    for block, words in zip(blocks, (["tom", "saw", "paris"], ["the", "dog"]), strict=True):
        ids = [text.ids["[CLS]"], *text.encode(" ".join(words)), text.ids["[SEP]"]]
        best = [NAMES[i] for i in model.body.token_scores(np.array([ids]))[0].argmax(axis=-1)]
        assert block == [f"{word}\t{best[1 + i]}" for i, word in enumerate(words)]
    with pytest.raises(InputError, match="was opened as BertModel, which has no labels of tokens"):
        BERT(BERTConfig(vocab_size=9, n_embd=4, n_head=1, n_layer=1, form="Model")).token_scores(np.array([[1]]))


def test_trees_are_learned_as_labels_of_words(write, tmp_path, capsys):
    path = write("dp.tsv", OTHERS["klue_dp"].text * 12)
    options = {"model": bert(tmp_path / "bert"), "task": "klue_dp", "train": str(path), "out": str(tmp_path / "o")}
    finetune(FinetuneOptions(**options, epochs=6, batch=4, lr=0.02, dropout=0.0))
    results = json.loads((tmp_path / "o" / "results.json").read_text(encoding="utf-8"))
    assert list(results["measures"]) == ["uas", "las", "uas_macro_f1", "las_macro_f1"]
    assert results["measures"]["las"] == results["scores"][0] == 1, capsys.readouterr().out


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["Bert", "Electra", "DistilBert", "Roberta"])
def test_scores_of_tokens_are_those_of_transformers_with_padding_too(kind, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from parity_models import moved

    sizes = {"vocab_size": len(PIECES), "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
             "intermediate_size": 17, "max_position_embeddings": 11, "embedding_size": 10}  # fmt: skip
    if kind == "DistilBert":
        sizes = {"vocab_size": len(PIECES), "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 17,
                 "max_position_embeddings": 11}  # fmt: skip
    labels = {"id2label": dict(enumerate(NAMES)), "label2id": {name: i for i, name in enumerate(NAMES)}}
    torch.manual_seed(0)
    architecture = getattr(transformers, f"{kind}ForTokenClassification")
    theirs = moved(architecture(architecture.config_class(**sizes, **labels))).float().double()
    theirs.save_pretrained(tmp_path)
    from minigpt import open_model
    from minigpt.models.label_model import TokenLabelModel

    ours = TokenLabelModel(open_model(tmp_path, dtype=np.float64))
    lengths = np.array([7, 4, 1])
    ids = np.random.default_rng(0).integers(5, len(PIECES), (3, 7))
    seen = np.arange(7) < lengths[:, None]
    out = theirs(torch.from_numpy(ids), attention_mask=torch.from_numpy(seen.astype(int))).logits.detach().numpy()
    assert error(ours.scores(ids[:, None], lengths[:, None])[seen], out[seen]) < 1e-9
    assert ours.task.labels == NAMES
