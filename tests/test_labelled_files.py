"""Labelled files: every layout and every form, the same examples from each, published files whole, and bad input."""

import csv
import io
import json

import pytest

from minigpt.data.examples import Example, Task
from minigpt.data.labelled_files import read
from minigpt.data.published.layouts import LAYOUTS
from minigpt.errors import InputError


@pytest.fixture
def write(tmp_path):
    """Write a file of this name; text is taken as UTF-8, bytes as they are."""

    def file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return file


def tsv(*rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def table(form: str, header: tuple, rows: list) -> tuple[str, str]:
    """(a file name, its content) in one of the three forms."""
    if form == "tsv":
        return "file.tsv", tsv(header, *rows)
    if form == "csv":
        text = io.StringIO(newline="")
        csv.writer(text).writerows([header, *rows])
        return "file.csv", text.getvalue()
    lines = [json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) for row in rows]
    return "file.jsonl", "\n".join(lines) + "\n"


# --- kinds and forms -------------------------------------------------------------------------------------------------

KINDS = {
    "classification": (
        ("text", "label"),
        [("a good film", "pos"), ("좋지 않다", "neg")],
        Task("classification", ("neg", "pos")),
        [Example(("a good film",), 1), Example(("좋지 않다",), 0)],
    ),
    "entailment": (
        ("label", "premise", "hypothesis"),
        [("no", "Tom slept.", "Tom ran."), ("yes", "Mia ran.", "Mia moved."), ("open", "It rained.", "Tom ran.")],
        Task("entailment", ("no", "open", "yes")),
        [Example(("Tom slept.", "Tom ran."), 0), Example(("Mia ran.", "Mia moved."), 2),
         Example(("It rained.", "Tom ran."), 1)],
    ),
    "similarity": (
        ("a", "b", "label"),
        [("one", "two", "same"), ("one", "six", "different")],
        Task("similarity", ("different", "same"), "f1"),
        [Example(("one", "two"), 1), Example(("one", "six"), 0)],
    ),
    "similarity, scores": (
        ("id", "a", "b", "score"),
        [("1", "one", "two", "4.25"), ("2", "one", "six", "0"), ("3", "one", "1", "5.000")],
        Task("similarity", (), "pearson"),
        [Example(("one", "two"), 4.25), Example(("one", "six"), 0.0), Example(("one", "1"), 5.0)],
    ),
    "choice": (
        ("context", "question", "choice1", "choice2", "choice3", "label"),
        [("Tom ran.", "Why?", "late", "sad", "wet", "3"), ("Mia slept.", "", "so", "then", "but", "1")],
        Task("choice"),
        [Example(("Tom ran.", "Why?"), 2, ("late", "sad", "wet")), Example(("Mia slept.",), 0, ("so", "then", "but"))],
    ),
    "choice, no question": (
        ("context", "choice1", "choice2", "label"),
        [("Tom ran.", "He fell.", "He slept.", "1"), ("Mia slept.", "She ran.", "She dreamt.", "2")],
        Task("choice"),
        [Example(("Tom ran.",), 0, ("He fell.", "He slept.")),
         Example(("Mia slept.",), 1, ("She ran.", "She dreamt."))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_in_every_form(write, name, form):
    header, rows, task, examples = KINDS[name]
    path = write(*table(form, header, rows))
    kind = name.split(",")[0]
    assert read(path, kind) == (task, examples)
    unlabelled = [example._replace(label=None) for example in examples]
    assert read(path, kind, labelled=False)[1] == unlabelled
    without = [i for i, column in enumerate(header) if column not in ("label", "score")]
    rows = [tuple(row[i] for i in without) for row in rows]
    assert read(write(*table(form, [header[i] for i in without], rows)), kind, labelled=False)[1] == unlabelled


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_columns_may_be_called_otherwise(write, form):
    header = ("document", "stars", "text", "note")
    path = write(*table(form, header, [("good", "5", "x", ""), ("bad", "1", "x", "")]))
    task, examples = read(path, "classification", columns={"text": "document", "label": "stars"})
    assert task.labels == ("1", "5") and examples == [Example(("good",), 1), Example(("bad",), 0)]


def test_columns_of_a_published_set_may_be_called_otherwise(write):
    path = write("f.tsv", tsv(("review", "document", "label"), ("good", "x", "1"), ("bad", "y", "0")))
    assert read(path, "nsmc", columns={"text": "review"})[1] == [Example(("good",), 1), Example(("bad",), 0)]


def test_choices_may_be_called_otherwise(write):
    path = write("f.tsv", tsv(("story", "x", "y", "z", "right"), ("Tom ran.", "a", "b", "c", "2")))
    columns = {"context": "story", "choice1": "x", "choice2": "y", "choice3": "z", "label": "right"}
    assert read(path, "choice", columns)[1] == [Example(("Tom ran.",), 1, ("a", "b", "c"))]


def test_a_column_score_or_label_decides_what_a_similarity_is(write):
    path = write("f.tsv", tsv(("a", "b", "label", "score"), ("x", "y", "no", "1.5"), ("x", "x", "yes", "4")))
    assert [e.label for e in read(path, "similarity")[1]] == [0, 1]
    task, examples = read(path, "similarity", columns={"score": "score"})
    assert task.metric == "pearson" and [e.label for e in examples] == [1.5, 4.0]


def test_the_suffix_says_the_form_in_capitals_too(write):
    assert len(read(write("f.TXT", tsv(("text", "label"), ("x", "0"), ("y", "1"))), "classification")[1]) == 2
    assert len(read(write("f.CSV", "text,label\nx,0\ny,1\n"), "classification")[1]) == 2
    assert len(read(write("f.json", '{"text": "x", "label": 0}\n{"text": "y", "label": 1}'), "classification")[1]) == 2


# --- labels ----------------------------------------------------------------------------------------------------------


def test_labels_given_by_the_caller_keep_their_order_and_may_be_missing_from_a_file(write):
    path = write("f.tsv", tsv(("text", "label"), ("x", "right"), ("y", "right")))
    task, examples = read(path, "classification", labels=("wrong", "right"))
    assert task == Task("classification", ("wrong", "right"))
    assert [example.label for example in examples] == [1, 1]


def test_a_published_set_has_names_for_its_labels_and_either_may_stand_in_a_file(write):
    path = write("f.tsv", tsv(("sentence", "label"), ("fine", "1"), ("dull", "negative")))
    task, examples = read(path, "sst2")
    assert task.labels == ("negative", "positive") and [example.label for example in examples] == [1, 0]


def test_json_values_that_are_no_strings(write):
    path = write("f.jsonl", '{"text": 12, "label": true, "more": [1]}\n{"label": false, "text": "x"}\n')
    task, examples = read(path, "classification")
    assert task.labels == ("false", "true") and examples == [Example(("12",), 1), Example(("x",), 0)]


# --- how people's files look -----------------------------------------------------------------------------------------


def test_quotes_in_tsv_are_text(write):
    path = write("f.tsv", 'text\tlabel\n"Well\t0\n""yes"" he said"\t1\n\'\t0\n')
    assert [e.texts[0] for e in read(path, "classification")[1]] == ['"Well', '""yes"" he said"', "'"]


def test_quotes_in_csv_hold_commas_quotes_and_line_ends(write):
    path = write("f.csv", 'text,label\r\n"one, ""two""\r\nthree",0\r\nfour,1\r\n')
    assert [e.texts[0] for e in read(path, "classification")[1]] == ['one, "two"\nthree', "four"]


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize("ends", ["\r\n", "\n", "\n\n\n"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_byte_order_mark_windows_line_ends_and_empty_lines_at_the_end(write, form, ends, mark):
    header, rows, *expected = KINDS["classification"]
    name, text = table(form, header, rows)
    text = text.replace("\r\n", "\n").rstrip("\n")
    windows = ends == "\r\n"
    text = mark + (text.replace("\n", "\r\n") if windows else text) + ends
    assert read(write(name, text), "classification") == tuple(expected)


def test_spaces_around_fields_are_dropped_and_other_line_separators_are_text(write):
    path = write("f.tsv", "text \t label\n x\u2028y\x85z \t0\nlast\t 1")
    assert [e.texts[0] for e in read(path, "classification")[1]] == ["x\u2028y\x85z", "last"]


# --- files that begin with an example, whose columns are counted -----------------------------------------------------

NUMBERED = {
    "a classification": ("f.tsv", "good\t1\nbad\t0\n", "classification", {"text": "1", "label": "2"},
                         [Example(("good",), 1), Example(("bad",), 0)]),
    "CSV": ("f.csv", '1,"good, or not"\n0,bad\n', "classification", {"text": "2", "label": "1"},
            [Example(("good, or not",), 1), Example(("bad",), 0)]),
    "scores": ("f.tsv", "x\t4.5\tHe ran.\tHe runs.\n", "stsb", {"a": "3", "b": "4", "score": "2"},
               [Example(("He ran.", "He runs."), 4.5)]),
    "a published layout keeps its labels": ("f.tsv", "7\tx\ty\tentailment\n8\ty\tz\tnot_entailment\n", "rte",
                                            {"premise": "2", "hypothesis": "3", "label": "4"},
                                            [Example(("x", "y"), 1), Example(("y", "z"), 0)]),
    "one that has no line of names anyway": ("f.tsv", "s\t1\t\tx\ns\t0\t*\ty\n", "cola", {"text": "4", "label": "2"},
                                             [Example(("x",), 1), Example(("y",), 0)]),
    "choices": ("f.tsv", "Tom ran.\tHe fell.\tHe slept.\t2\n", "choice",
                {"context": "1", "choice1": "2", "choice2": "3", "label": "4"},
                [Example(("Tom ran.",), 1, ("He fell.", "He slept."))]),
    "names that are numbers": ("f.csv", "0,1,2\nx,good,yes\ny,bad,no\n", "classification",
                               {"text": "1", "label": "2"}, [Example(("good",), 1), Example(("bad",), 0)]),
    "JSON has names": ("f.jsonl", '{"1": "good", "2": "b"}\n{"1": "bad", "2": "a"}\n', "classification",
                       {"text": "1", "label": "2"}, [Example(("good",), 1), Example(("bad",), 0)]),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERED)
def test_columns_without_names_are_counted_from_1(write, case):
    name, content, task, columns, examples = NUMBERED[case]
    path = write(name, content)
    assert read(path, task, columns)[1] == examples
    assert [e.texts for e in read(path, task, columns, labelled=False)[1]] == [e.texts for e in examples]


@pytest.mark.parametrize("labelled", [True, False])
def test_a_line_of_names_is_no_example(write, labelled):
    path = write("f.tsv", GOOD)
    with pytest.raises(InputError, match="line 1: 'text' in column 1 looks like a name: name the columns by it"):
        read(path, TEXT, {"text": "1", "label": "2"}, labelled=labelled)


def test_a_label_of_a_single_example_among_many_is_told(write):
    rows = [(f"text {i}", "yes" if i % 2 else "no") for i in range(60)]
    said = []
    read(write("f.tsv", tsv(("text", "label"), *rows)), TEXT, say=said.append)
    assert said == []
    rows[40] = ("text 40", "n0")
    path = write("f.tsv", tsv(("text", "label"), *rows))
    read(path, TEXT, say=said.append)
    assert said == [f"{path}, line 42: the label 'n0' stands at 1 of 60 examples, first at this one: is it meant?"]


def labelled(*counts) -> str:
    """A table of so many examples of each label, in turn."""
    names = [name for name, n in counts for _ in range(n)]
    return tsv(("text", "label"), *((f"text {i}", name) for i, name in enumerate(names)))


@pytest.mark.parametrize(
    ("counts", "rare"),
    [
        ([("a", 600), ("b", 588), ("c", 12)], []),  # 1 in 100
        ([("a", 600), ("b", 589), ("c", 11)], ["c"]),  # less
        ([(f"intent {i:03}", 9 + i % 2) for i in range(150)], []),  # each is below 1 in 100, but none much rarer
        ([("a", 19), ("b", 19), ("c", 1)], []),  # 13 of each on average: too few to say that one is rare
    ],
)
def test_a_label_that_few_examples_have_is_told_with_its_count(write, counts, rare):
    said = []
    read(write("f.tsv", labelled(*counts)), TEXT, say=said.append)
    read(write("f.tsv", labelled(*counts)), TEXT, labels=tuple(dict(counts)), say=said.append)  # these are known
    of = dict(counts)
    assert [line.split(": ")[1] for line in said] == [
        f"the label {name!r} stands at {of[name]} of {sum(of.values()):,} examples, first at this one" for name in rare
    ]


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (("Yes", "no", "No", "yes"), [("No", "no"), ("Yes", "yes")]),
        (("긍정", "\u1100\u1173\u11bc\u110c\u1165\u11bc", "부정"),
         [("\u1100\u1173\u11bc\u110c\u1165\u11bc", "긍정")]),
        (("not_entailment", "not entailment", "not-entailment", "entailment"),
         [("not entailment", "not-entailment", "not_entailment")]),
        (("+1", "-1", "1-2", "12", "+", "a_", "a"), []),
    ],
)  # fmt: skip
def test_labels_in_two_spellings_are_told_with_their_counts(write, names, alike):
    said = []
    path = write("f.tsv", labelled(*((name, 2 + i) for i, name in enumerate(names))))
    task, _ = read(path, TEXT, say=said.append)
    assert task.labels == tuple(sorted(names))  # they stay classes of their own
    counts = {name: 2 + i for i, name in enumerate(names)}
    apart = "labels that only their spelling tells apart are classes of their own"
    assert said == [
        f"{path}: {apart}: {', '.join(f'{name!r} ({counts[name]} examples)' for name in group)}: are they meant?"
        for group in alike
    ]


SNLI = "\n".join(json.dumps({"gold_label": label, "sentence1": "A man eats.", "sentence2": f"He is {i}."})
                 for i, label in enumerate(["neutral", "-", "entailment", "contradiction", "-"])) + "\n"  # fmt: skip
OF_SNLI = {"label": "gold_label", "premise": "sentence1", "hypothesis": "sentence2"}


def test_lines_without_a_gold_label_are_left_out_and_counted(write):
    path = write("snli_1.0_dev.jsonl", SNLI)
    said = []
    task, examples = read(path, "entailment", OF_SNLI, say=said.append)
    assert task.labels == ("contradiction", "entailment", "neutral")
    assert [example.texts[1] for example in examples] == ["He is 0.", "He is 2.", "He is 3."]
    told = f"{path}: left out 2 of 5 lines, which have no gold label ('-')"
    assert said == [told]
    assert read(path, "entailment", OF_SNLI, task.labels, say=said.append) == (task, examples)  # a validation file
    assert said == [told, told]
    assert len(read(path, "entailment", OF_SNLI, labelled=False)[1]) == 5  # of each line there is a prediction
    with pytest.raises(InputError, match="has no examples"):
        read(write("f.tsv", labelled(("-", 3))), TEXT, say=said.append)


def test_a_minus_may_be_a_label(write):
    said = []
    path = write("f.tsv", labelled(("+", 2), ("-", 3)))
    assert read(path, TEXT, say=said.append)[0].labels == ("+", "-") and said == []
    path = write("f.tsv", labelled(("-", 3)))
    assert len(read(path, TEXT, labels=("+", "-"), say=said.append)[1]) == 3 and said == []
    path = write("f.tsv", tsv(("a", "b", "score"), ("x", "y", "-")))
    with pytest.raises(InputError, match="line 2: score '-'"):
        read(path, "similarity")


def test_whole_numbers_are_labels(write):
    for one, two in (("0", "1"), ("0.0", "1.0"), ("-1", "1"), ("1e3", "2")):
        assert read(write("f.tsv", tsv(("text", "label"), ("x", one), ("y", two))), TEXT)[0].labels == (one, two)


# --- published layouts -----------------------------------------------------------------------------------------------

STORY = "InputStoryid InputSentence1 InputSentence2 InputSentence3 InputSentence4 RandomFifthSentenceQuiz1".split()
STORY += ["RandomFifthSentenceQuiz2", "AnswerRightEnding"]
STSB = "index genre filename year old_index source1 source2 sentence1 sentence2 score".split()
PUBLISHED = {  # in the form in which they are published, with sentences of our own
    "sst2": ("train.tsv", tsv(("sentence", "label"), ("a fine film ", "1"), ("dull ", "0")),
             ("negative", "positive"), "accuracy", [Example(("a fine film",), 1), Example(("dull",), 0)]),
    "cola": ("train.tsv", tsv(("zz01", "1", "", "Tom left."), ("zz01", "0", "*", "Left the \"Tom.")),
             ("unacceptable", "acceptable"), "matthews", [Example(("Tom left.",), 1), Example(('Left the "Tom.',), 0)]),
    "rte": ("dev.tsv", tsv(("index", "sentence1", "sentence2", "label"), ("0", "It rains.", "It is wet.", "entailment"),
                           ("1", "It rains.", "It is dry.", "not_entailment")),
            ("not_entailment", "entailment"), "accuracy",
            [Example(("It rains.", "It is wet."), 1), Example(("It rains.", "It is dry."), 0)]),
    "stsb": ("dev.tsv", tsv(STSB, [*"0abcdef", "He ran.", "He runs.", "4.600"],
                             [*"1abcdef", "He ran.", "Rain.", "0.0"]),
             (), "pearson", [Example(("He ran.", "He runs."), 4.6), Example(("He ran.", "Rain."), 0.0)]),
    "storycloze": ("val.csv", ",".join(STORY) + '\nid,One.,Two.,"Three, or",Four.,Good.,Bad.,1\n'
                   "id,A.,B.,C.,D.,E.,F.,2\n",
                   (), "accuracy", [Example(("One. Two. Three, or Four.",), 0, ("Good.", "Bad.")),
                                    Example(("A. B. C. D.",), 1, ("E.", "F."))]),
    "nsmc": ("ratings.txt", tsv(("id", "document", "label"), ("7", "재미있다", "1"), ("8", "지루하다", "0")),
             ("negative", "positive"), "accuracy", [Example(("재미있다",), 1), Example(("지루하다",), 0)]),
    "question_pair": ("train.txt", "\ufeff" + tsv(("question1", "question2", "is_duplicate"), ("왜?", "왜 그래?", "0"),
                                                  ("왜?", "언제?", "1")),
                      ("different", "same"), "f1", [Example(("왜?", "왜 그래?"), 1), Example(("왜?", "언제?"), 0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_layouts(write, name):
    file, text, labels, metric, examples = PUBLISHED[name]
    assert read(write(file, text), name) == (Task(LAYOUTS[name].kind, labels, metric), examples)


def test_cola_to_predict_has_a_header_where_cola_to_learn_has_none(write):
    path = write("test.tsv", tsv(("index", "sentence"), ("0", "Tom left."), ("1", "Tom the.")))
    assert read(path, "cola", labelled=False)[1] == [Example(("Tom left.",)), Example(("Tom the.",))]


def test_empty_reviews_are_left_out_of_nsmc_only_and_counted(write):
    rows = [("1", "x", "1"), ("2", "", "0"), ("3", " ", "1"), ("4", "y", "0")]
    path = write("r.txt", tsv(("id", "document", "label"), *rows))
    said = []
    _, examples = read(path, "nsmc", say=said.append)
    assert examples == [Example(("x",), 1), Example(("y",), 0)]
    assert len(said) == 1 and "2 of 4 lines" in said[0]
    with pytest.raises(InputError, match="line 3: an empty text in column 'document'"):
        read(path, "nsmc", labelled=False)  # a line of the file is an answer of the prediction
    with pytest.raises(InputError, match="line 3"):
        read(path, "classification", {"text": "document"})


@pytest.mark.parametrize(("file", "n", "positive"), [("train_20k", 20_000, 10_000), ("test_5k", 5_000, 2_500)])
def test_nsmc_whole(eval_data, file, n, positive):
    said = []
    task, examples = read(eval_data / "nsmc" / f"ratings_{file}.txt", "nsmc", say=said.append)
    assert task == Task("classification", ("negative", "positive"))
    assert (len(examples), sum(example.label for example in examples), said) == (n, positive, [])
    assert all(example.texts[0] == example.texts[0].strip() != "" for example in examples)


@pytest.mark.parametrize(("file", "n", "same"), [("train", 6136, 4169), ("validation", 682, 432), ("test", 758, 508)])
def test_question_pairs_whole(eval_data, file, n, same):
    task, examples = read(eval_data / "question_pair" / f"{file}.txt", "question_pair")
    assert task == Task("similarity", ("different", "same"), "f1")
    assert (len(examples), sum(example.label for example in examples)) == (n, same)
    equal = [example.label for example in examples if example.texts[0] == example.texts[1]]
    assert sum(equal) > 0.99 * len(equal) > 50  # so 0 does mean the same, but for a mistake or two


# --- bad input: one line that says where and what -------------------------------------------------------------------

GOOD = tsv(("text", "label"), ("x", "no"), ("y", "yes"))
TEXT = "classification"
CHOICE = ("context", "choice1", "choice2", "choice3", "label")
PAIR = ("a", "b", "score")
BAD = {
    "a missing column": ("f.tsv", "review\tlabel\nx\t1\n", TEXT, {}, "no column 'text'.* review, label"),
    "a missing label column": ("f.tsv", "text\tstars\nx\t1\n", TEXT, {}, "no column 'label'.* text, stars"),
    "a missing column that was named": ("f.tsv", GOOD, TEXT, {"columns": {"text": "review"}},
                                        "no column 'review' for 'text': it has text, label"),
    "a missing label that was named": ("f.tsv", tsv(PAIR, "xy1", "yz2"), "similarity", {"columns": {"label": "same"}},
                                       "no column 'same'"),
    "a missing column of JSON": ("f.jsonl", '{"a": "x", "label": 1}\n', TEXT, {}, "no column 'text'"),
    "a missing choice": ("f.tsv", "context\tchoice1\tlabel\nx\ty\t1\n", "choice", {}, "no column 'choice2'"),
    "a choice left out between": ("f.tsv", tsv(("context", "choice1", "choice3", "label"), "abc1"), "choice", {},
                                  "no column 'choice2'"),
    "no such role": ("f.tsv", GOOD, TEXT, {"columns": {"txt": "text"}}, "'txt'.* text, label"),
    "a choice of a classification": ("f.tsv", GOOD, TEXT, {"columns": {"choice1": "text"}}, "'choice1'"),
    "two columns of one name": ("f.tsv", "text\ttext\tlabel\nx\ty\t1\n", TEXT, {}, "two columns 'text'"),
    "no such task": ("f.tsv", GOOD, "sentiment", {}, "unknown task 'sentiment'.*classification.*nsmc"),
    "an unknown label": ("f.tsv", GOOD, TEXT, {"labels": ("no", "maybe")},
                         "line 3: unknown label 'yes': choose no, maybe"),
    "an unknown label of a published set": ("f.tsv", tsv(("sentence", "label"), ("x", "1"), ("y", "-1")), "sst2", {},
                                            "line 3: unknown label '-1': choose negative, positive"),
    "no label": ("f.tsv", "text\tlabel\nx\t1\ny\t\n", TEXT, {}, "line 3: unknown label ''"),
    "a JSON line without a label": ("f.jsonl", '{"text": "x", "label": 1}\n{"text": "y"}\n', TEXT, {},
                                    "line 2: unknown label ''"),
    "one label only": ("f.tsv", tsv(("text", "label"), ("x", "no"), ("y", "no")), TEXT, {},
                       "every label is no"),
    "one label only of a published set": ("f.tsv", tsv(("sentence", "label"), ("x", "1"), ("y", "1")), "sst2", {},
                                          "every label is positive"),
    "one label given": ("f.tsv", GOOD, TEXT, {"labels": ("no",)}, "line 3: unknown label"),
    "a label given twice": ("f.tsv", GOOD, TEXT, {"labels": ("no", "yes", "no")}, "different"),
    "labels for scores": ("f.tsv", tsv(PAIR, "xy1"), "similarity", {"labels": ("no", "yes")}, "numbers"),
    "labels for choices": ("f.tsv", tsv(CHOICE, "abcd1"), "choice", {"labels": ("no", "yes")}, "numbers"),
    "an empty text": ("f.tsv", "text\tlabel\nx\t1\n \t0\n", TEXT, {}, "line 3: an empty text in column 'text'"),
    "an empty hypothesis": ("f.tsv", tsv(("premise", "hypothesis", "label"), ("x", "y", "0"), ("z", "", "1")),
                            "entailment", {}, "line 3: an empty text in column 'hypothesis'"),
    "an empty context with a question": ("f.tsv", tsv(("context", "question", *CHOICE[1:]), ("", "Why?", *"abc1")),
                                         "choice", {}, "line 2: an empty text in column 'context'"),
    "a JSON line without a text": ("f.jsonl", '{"text": "x", "label": 1}\n{"label": 0, "text": null}\n',
                                   TEXT, {}, "line 2: an empty text"),
    "a story without its third sentence": ("f.csv", ",".join(STORY) + "\nid,A.,B.,,D.,E.,F.,2\n", "storycloze", {},
                                           "line 2: an empty text"),
    "fewer choices than before": ("f.tsv", tsv(CHOICE, "abcd1", ("x", "y", "z", "", "1")), "choice", {},
                                  "line 3: 2 choices; the first example has 3"),
    "more choices than before": ("f.jsonl", '{"context": "x", "choice1": "a", "choice2": "b", "label": 1}\n'
                                 '{"context": "x", "choice1": "a", "choice2": "b", "choice3": "c", "label": 1}\n',
                                 "choice", {}, "line 2: 3 choices; the first example has 2"),
    "a choice that is empty": ("f.tsv", tsv(CHOICE, ("x", "", *"bc2")), "choice", {}, "line 2: nothing in .*choice1"),
    "one choice only": ("f.tsv", tsv(CHOICE, ("x", "a", "", "", "1")), "choice", {}, "line 2: nothing in .*choice2"),
    "a choice counted from 0": ("f.tsv", tsv(CHOICE, "abcd1", "abcd0"), "choice", {}, "line 3: label '0'.*1 or 2 or 3"),
    "a choice beyond the last": ("f.tsv", tsv(CHOICE, "abcd4"), "choice", {}, "line 2: label '4'"),
    "a choice in words": ("f.tsv", tsv(CHOICE, "abcdb"), "choice", {}, "line 2: label 'b'"),
    "a score above 5": ("f.tsv", tsv(PAIR, "xy5", ("x", "y", "5.01")), "similarity", {}, "line 3: score '5.01'.* 0 to"),
    "a score below 0": ("f.tsv", tsv(PAIR, ("x", "y", "-1")), "similarity", {}, "line 2: score '-1'"),
    "a score that is no number": ("f.tsv", tsv(PAIR, ("x", "y", "high")), "similarity", {}, "line 2: score 'high'"),
    "a score of nan": ("f.jsonl", '{"a": "x", "b": "y", "score": NaN}\n', "similarity", {}, "line 1: score 'NaN'"),
    "a score with underscores": ("f.tsv", tsv(PAIR, ("x", "y", "0_1")), "similarity", {}, "line 2: score '0_1'"),
    "an empty score": ("f.tsv", tsv(PAIR, ("x", "y", "")), "similarity", {}, "line 2: score ''"),
    "too few fields": ("f.tsv", GOOD + "z\n", TEXT, {}, "line 4: fields: 1, expected 2: text, label"),
    "too many fields": ("f.tsv", GOOD + "z\tmore\tyes\n", TEXT, {}, "line 4: fields: 3, expected 2"),
    "too many fields of CSV": ("f.csv", "text,label\nx,1\ny, or z,0\n", TEXT, {}, "line 3: fields: 3"),
    "an empty line inside": ("f.tsv", "text\tlabel\nx\t1\n\ny\t0\n", TEXT, {}, "line 3: fields: 1"),
    "the line after a long record": ("f.csv", 'text,label\n"x\ny\nz",1\nw\n', TEXT, {}, "line 5: fields: 1"),
    "a quote that never ends": ("f.csv", 'text,label\nx,1\n"y,0\nz,1\n', TEXT, {}, "line 3 is not CSV"),
    "a quote inside quotes": ("f.csv", 'text,label\n"he said "no"",1\n', TEXT, {}, "line 2 is not CSV"),
    "not UTF-8": ("f.tsv", GOOD.encode() + "영화\tno\n".encode("cp949"), TEXT, {},
                  "line 4: byte 22 is 0xbf, which is not UTF-8"),
    "UTF-16": ("f.tsv", GOOD.encode("utf-16"), TEXT, {}, "line 1: byte 0 is 0xff, which is not UTF-8"),
    "a byte of nothing": ("f.tsv", GOOD.replace("y", "y\0"), TEXT, {}, "line 3 has a NUL byte"),
    "a character of nothing": ("f.jsonl", '{"text": "x\\u0000y", "label": 1}\n', TEXT, {}, "line 1 has a NUL byte"),
    "a column twice in a line of JSON": ("f.jsonl", '{"text": "x", "label": 1, "text": "y"}\n', TEXT, {},
                                         "line 1: the key 'text' stands in it twice"),
    "a quote within a field without quotes": ("f.csv", 'text,label\n5" nails,1\n', TEXT, {}, "line 2 is not CSV.*5"),
    "two of them": ("f.csv", 'text,label\n"a\nb",1\n5" by 6" nails,1\n', TEXT, {}, "line 4 is not CSV"),
    "a quote after a space": ("f.csv", 'label,text\n1, "x"\n', TEXT, {}, "line 2 is not CSV"),
    "text after a quote": ("f.csv", 'text,label\n"x"y,1\n', TEXT, {}, "line 2 is not CSV"),
    "no line of names": ("f.tsv", "good\t1\nbad\t0\n", TEXT, {},
                         "no column 'text' for 'text': it has good, 1; say which is which, with --columns "
                         "text=NAME,label=NAME; if line 1 is an example, and no names, "
                         "count the columns: --columns text=1,label=2"),
    "a long line without names": ("f.tsv", "good " * 99 + "\t1\n", TEXT, {}, r"go\.\.\., 1; say .* is an example"),
    "a number beyond the last": ("f.tsv", "good\t1\nbad\t0\n", TEXT, {"columns": {"text": "1", "label": "3"}},
                                 "no column '3' for 'label': it has 1, 2, counted: "),
    "a column that is not counted": ("f.tsv", "good\tyes\nbad\tno\n", TEXT, {"columns": {"text": "1"}},
                                     "no column 'label' for 'label': it has 1, 2, counted: say which is which, with "
                                     "--columns label=NUMBER too"),
    "a counted line with a field too few": ("f.tsv", "good\t1\nbad\n", TEXT, {"columns": {"text": "1", "label": "2"}},
                                            "line 2: fields: 1, expected 2"),
    "scores as labels": ("f.tsv", tsv(("text", "label"), ("x", "0.5"), ("y", "1.25"), ("z", "3")), TEXT, {},
                         "labels such as 0.5, 1.25 are numbers, and each would be a class of its own: give classes"),
    "scores as labels of a similarity": ("f.tsv", tsv(("a", "b", "label"), ("x", "y", "0.5"), ("y", "z", "2")),
                                         "similarity", {}, "with --columns score=label"),
    "a number written in two ways": ("f.jsonl", '{"text": "x", "label": 1}\n{"text": "y", "label": 1.0}\n', TEXT, {},
                                     "of the labels 1, 1.0 two are the same number"),
    "a label for each example": ("f.tsv", tsv(("text", "label"), *((f"x{i}", f"id{i}") for i in range(12))), TEXT, {},
                                 "12 examples have 12 different labels: is 'label' the column of"),
    "an empty file": ("f.tsv", "", TEXT, {}, "is empty"),
    "a file of line ends": ("f.jsonl", "\ufeff\r\n\r\n", TEXT, {}, "is empty"),
    "a header only": ("f.csv", "text,label\n", TEXT, {}, "no examples"),
    "nothing but empty texts": ("f.txt", "id\tdocument\tlabel\n1\t\t1\n", "nsmc", {}, "no examples"),
    "an unknown suffix": ("f.xlsx", GOOD, TEXT, {}, r"\.tsv.*\.csv.*\.jsonl"),
    "an array that is cut short": ("f.json", '[\n{"text": "x", "label": 1},\n{"text": "y"\n', TEXT, {},
                                   r"line 3: expected items of JSON, \{.*got '\{\"text"),
    "JSON that is none": ("f.jsonl", '{"text": "x", "label": 1}\n{"text": "y", \n', TEXT, {}, "line 2: expected"),
    "JSON with an empty line inside": ("f.jsonl", '{"text": "x"}\n\n{"text": "y"}\n', TEXT, {}, "line 2: expected"),
    "half a character": ("f.jsonl", '{"text": "\\ud83d", "label": 1}\n', TEXT, {}, "line 1: expected"),
    "JSON as deep as the sea": ("f.jsonl", "[" * 100_000 + "\n", TEXT, {}, "line 1: expected"),
    "a list for a text": ("f.jsonl", '{"text": ["x"], "label": 1}\n', TEXT, {}, "line 1: column 'text' holds"),
}  # fmt: skip

NO_FAULT_OF_THE_FILE = ("no such role", "a choice of a classification", "no such task", "a label given twice")


@pytest.mark.parametrize("case", BAD)
def test_bad_input(write, case):
    name, content, task, options, message = BAD[case]
    path = write(name, content)
    with pytest.raises(InputError, match=message) as caught:
        read(path, task, **options)
    assert "\n" not in str(caught.value)
    assert (str(path) in str(caught.value)) == (case not in NO_FAULT_OF_THE_FILE)


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    for name, message in (("none.tsv", "none.tsv cannot be read"), ("folder.tsv", "it is a folder")):
        (tmp_path / "folder.tsv").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            read(tmp_path / name, "classification")
