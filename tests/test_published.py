"""Published files: each layout is recognised and read whole; bad ones get one line; large ones take no memory."""

import json
import tracemalloc
from pathlib import Path

import pytest
from published_files import (
    ARTICLE,
    CBT,
    COQA,
    FILES,
    OTHERS,
    RELATED,
    SNLI,
    SQUAD,
    STORY_OF_CNN,
    TABLES,
    lines,
    pretty,
    tsv,
)

from minigpt.cli import main
from minigpt.data import instructions, labelled_files
from minigpt.data.examples import KINDS, Example, Task
from minigpt.data.published import choices, layouts, questions, texts
from minigpt.data.published.layout import Written
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.published.recognition import recognise
from minigpt.data.tables import read_table
from minigpt.errors import InputError
from minigpt.evaluation import task_files
from minigpt.evaluation.perplexity import read_as_it_came
from minigpt.files import json_items as json_module
from minigpt.files.json_items import json_items
from minigpt.files.text_lines import lines_to_the_last, text_lines

WITHOUT_A_COLUMN = ("cola", "scitail", "cbt", "klue_ner", "klue_dp", "conll")  # whose labels have a name
TO_LEARN = [name for name in FILES if LAYOUTS[name].kind in KINDS]


@pytest.fixture
def write(tmp_path):
    """Write a file of this name; text is taken as UTF-8, bytes as they are."""

    def file(name, content) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return file


# --- every layout ----------------------------------------------------------------------------------------------------


def test_there_is_a_file_for_every_layout_and_a_source_for_every_published_one():
    assert list(FILES) == list(LAYOUTS)
    assert {name for name, layout in LAYOUTS.items() if not layout.source} == {"choices", "pairs"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_recognised_by_how_it_begins(write, name):
    kind = LAYOUTS[name].kind
    assert recognise(write(FILES[name].name, FILES[name].text), (kind,)) == name


@pytest.mark.parametrize("name", TO_LEARN)
def test_what_is_learned_from_opens_by_its_kind_and_by_its_name(write, name):
    file = FILES[name]
    path = write(file.name, file.text)
    said = []
    task = Task(LAYOUTS[name].kind, file.labels, file.metric)
    assert labelled_files.read(path, task.kind, say=said.append) == (task, file.items)
    assert said[0].startswith(f"{path} is read as {name}")
    assert labelled_files.read(path, name, say=said.append) == (task, file.items)


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_a_reader_of_its_own_is_read_whole(write, name):
    path = write(OTHERS[name].name, OTHERS[name].text)
    assert list(LAYOUTS[name].read(path, True)) == OTHERS[name].items


@pytest.mark.parametrize("name", [*TABLES, *OTHERS])
def test_windows_writes_the_same_files(write, name):
    file = FILES[name]
    if name != "cnn_dm_lines":
        text = "\ufeff" + file.text.removeprefix("\ufeff").replace("\n", "\r\n")
        path = write(file.name, text)
        assert recognise(path, (LAYOUTS[name].kind,)) == name
        if name in TABLES:
            assert labelled_files.read(path, name)[1] == file.items
        else:
            assert list(LAYOUTS[name].read(path, True)) == file.items


@pytest.mark.parametrize("name", [name for name in TO_LEARN if name not in WITHOUT_A_COLUMN])
def test_what_is_predicted_needs_no_answers(write, name):
    """A column of labels that is not there, or a key of answers."""
    file = FILES[name]
    if file.name.endswith(".csv"):
        text = "".join(",".join(line.split(",")[:-1]) + "\n" for line in file.text.splitlines())
        expected = 2
    elif file.text.startswith(("{", "[")):
        records = [record for _, record in json_items(write(file.name, file.text))]
        for record in records:
            for key in ("label", "gold_label", "labels", "answer", "answers"):
                record.pop(key, None)
        text = lines(*records)
        expected = len(records) if name != "race" else 2
    else:
        header, *rows = [line.split("\t") for line in file.text.splitlines()]
        column = LAYOUTS[name].columns.get("label", LAYOUTS[name].columns.get("score", "label"))
        place = [field.removeprefix("\ufeff") for field in header].index(column)
        rows = [row for row in rows if len(row) == len(header) and "" not in row]
        text = tsv(*([*row[:place], *row[place + 1 :]] for row in [header, *rows]))
        expected = len(rows)
    path = write(file.name, text)
    _, examples = labelled_files.read(path, LAYOUTS[name].kind, labelled=False)
    assert len(examples) == expected and {example.label for example in examples} == {None}


def test_race_is_a_folder_of_files(write, tmp_path):
    for place in ("high/2.txt", "high/1.txt", "middle/1.txt"):
        write(f"RACE/dev/{place}", pretty(ARTICLE | {"article": place}))
    found = list(choices.read_race(tmp_path / "RACE", True))
    assert [example.texts[0] for example in found[::2]] == ["dev/high/1.txt"[4:], "high/2.txt", "middle/1.txt"]
    assert recognise(tmp_path / "RACE", ("choice",)) == "race"
    task, examples = labelled_files.read(tmp_path / "RACE", "choice", say=lambda text: None)
    assert task == Task("choice") and len(examples) == 6


def test_cnn_is_a_folder_of_stories_of_which_some_lost_their_article(write, tmp_path):
    write("stories/b.story", STORY_OF_CNN)
    write("stories/a.story", STORY_OF_CNN[STORY_OF_CNN.index("@") :])
    found = list(texts.read_stories(tmp_path / "stories", True))
    assert found == [Written("", ("Tom ran\nHe fell",)), *OTHERS["cnn_dm"].items]


SGM = """<srcset setid="newstest2014" srclang="any"><doc docid="1"><p>
<seg id="1">Tom &amp; Mia ran.</seg>
<seg id="2">Tom
fell.</seg></p></doc></srcset>"""


def test_wmt_is_two_files_of_lines_or_of_segments(write):
    sources, answers = write("test.en", "Tom ran.\nTom fell.\n\n"), write("test.fr", "Tom a couru.\r\nTom est tombé.")
    expected = [Written("Tom ran.", ("Tom a couru.",)), Written("Tom fell.", ("Tom est tombé.",))]
    assert list(texts.read_translations(sources, answers)) == expected
    found = list(texts.read_translations(write("a.sgm", SGM), answers))
    assert [record.given for record in found] == ["Tom & Mia ran.", "Tom fell."]


def test_the_questions_of_klue_are_read_as_those_of_squad(write):
    """KLUE's MRC has more keys than SQuAD, and questions without an answer, as SQuAD 2.0."""
    asked = [{"guid": "klue-mrc-v1_dev_1", "question": "누가 뛰었나?", "question_type": 1, "is_impossible": False,
              "answers": [{"text": "톰", "answer_start": 0}, {"text": "톰이", "answer_start": 0}]},
             {"guid": "klue-mrc-v1_dev_2", "question": "왜 뛰었나?", "question_type": 3, "is_impossible": True,
              "answers": [], "plausible_answers": [{"text": "톰", "answer_start": 0}]}]  # fmt: skip
    about = {"title": "톰", "news_category": None, "source": "a"}
    article = about | {"paragraphs": [{"context": "톰이 뛰었다.", "qas": asked}]}
    path = write("klue-mrc-v1.1_dev.json", pretty({"version": "v1.1", "data": [article]}))
    assert recognise(path, ("question",)) == "squad"
    assert list(questions.read_squad(path)) == [Written("누가 뛰었나?", ("톰", "톰이"), "톰이 뛰었다."),
                                                Written("왜 뛰었나?", ("",), "톰이 뛰었다.")]  # fmt: skip


def test_a_pronoun_that_stands_there_twice_makes_two_gaps(write):
    path = write("f.txt", "Tom saw Bo because he said he was it.\nhe\nTom,Bo\nBo\n\n" * 2)
    assert [example.texts[0].count("[MASK]") for example in choices.read_pronouns(path)] == [2, 2]
    assert "the" not in "he" and "[MASK]" in next(choices.read_pronouns(path)).texts[0]
    path = write("g.txt", "The dog bit the cat because he was bad.\nhe\nThe dog,the cat\nThe dog\n")
    assert next(choices.read_pronouns(path)).texts == ("The dog bit the cat because [MASK] was bad.",)


# --- nothing is lost or doubled: against readers of the standard library ---------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 500])
def test_json_of_three_forms_has_the_items_that_the_library_finds(write, constants, n):
    constants.set(json_piece=64)
    records = [{"question": f"{i} \"[{{é\\ \n한", "answer": ["]", {"x": [i]}] * (i % 9)} for i in range(n)]
    for text in (lines(*records), json.dumps(records), pretty(records), pretty(records).replace("\n", "\r\n"),
                 json.dumps({"data": records, "version": "1.1"}), pretty({"version": 2.0, "x": "\"", "data": records})
                 if n == 7 else json.dumps({"version": None, "data": records})):  # fmt: skip
        found = list(json_items(write("f.json", text)))
        assert [record for _, record in found] == records
        for line, record in found[:: max(1, n // 7)]:
            rest = text.split("\n", line - 1)[-1]
            assert json.dumps(record)[:12] in rest.split("\n")[0] or rest.lstrip(" [,").startswith("{")


@pytest.mark.parametrize("name", ["kornli", "qqp"])
def test_tables_have_the_rows_that_a_split_finds(write, name):
    header = FILES[name].text.split("\n")[0]
    n = header.count("\t") + 1
    rows = [[f"r{i} \u2028 \"x", *["y\x85"] * (n - 2), ("neutral", "1")[name == "qqp"]] for i in range(300)]
    path = write("f.tsv", header + "\n" + tsv(*rows, rows[0][:-1]) if name == "qqp" else header + "\n" + tsv(*rows))
    said = []
    table = read_table(path, broken=name == "qqp")
    assert [list(row.values()) for _, row in table.rows] == [[field.strip() for field in row] for row in rows]
    assert table.rows.left_out == ([302] if name == "qqp" else [])
    if name == "qqp":
        with pytest.raises(InputError, match="every label is same"):
            labelled_files.read(path, "qqp", say=said.append)
        assert said == [f"{path}: left out 1 of 301 lines, which have too few or too many fields"]
        with pytest.raises(InputError, match="line 302: fields: 5, expected 6"):
            labelled_files.read(path, "qqp", labelled=False)  # each line needs an answer


# --- large files -----------------------------------------------------------------------------------------------------

TWO_TOMS = 2 * [{"answer_start": 0, "text": "Tom"}]
ITEM = '{"question": "%s", "answer": ["x"]}' % ("why " * 60)


@pytest.mark.parametrize("form", ["lines", "array", "data", "tsv", "csv"])
def test_a_large_file_takes_no_more_memory_than_an_item(tmp_path, form):
    n = 8_000  # 2 MB
    is_table = form in ("tsv", "csv")
    path = tmp_path / (f"large.{form}" if is_table else "large")
    item = {"tsv": ITEM + "\tb", "csv": '"why ""so""\n' + "why, " * 60 + '",b'}.get(form, ITEM)
    before, between, after = {"lines": ("", "\n", ""), "array": ("[", ",", "]"), "data": ('{"data": [', ", ", "]}"),
                              "tsv": ("a\tb\n", "\n", ""), "csv": ("a,b\n", "\n", "")}[form]  # fmt: skip
    with path.open("w", encoding="utf-8") as file:
        file.write(before)
        for i in range(n):
            file.write((between if i else "") + item)
        file.write(after)
    tracemalloc.start()
    try:
        assert recognise(path, ("question", "entailment")) == (None if is_table else "nq_open")
        assert len(read_as_it_came(path, 1000)) == 1000
        items = read_table(path).rows if is_table else questions.read_open_questions(path)
        count = sum(1 for _ in items)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == n and path.stat().st_size > 2_000_000 and peak < 1_000_000


def test_of_a_large_file_only_the_first_items_are_read(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(f"[{ITEM}, {ITEM}," + " " * 300_000 + "this is no JSON", encoding="utf-8")
    items = task_files.read_questions(path).items
    assert [next(items).answers, next(items).answers] == [("x",), ("x",)]
    with pytest.raises(InputError, match="line 1: expected items of JSON"):
        next(items)


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (task_files.read_sentiments, "sentence\tlabel\na\t1\nb\t-\nc\t0\nd\n"),
        (task_files.read_sentiments, "id\tdocument\tlabel\n1\ta\t1\n2\t\t0\n3\tc\t0\nd\n"),
        (task_files.read_choices, "context\tchoice1\tchoice2\tlabel\na\tb\tc\t1\nc\td\te\t2\nd\n"),
    ],
)
def test_of_a_large_table_only_the_first_items_are_read(write, read, content):
    path = write("f.tsv", content)
    found = list(read(path, limit=2).items)
    assert [item[0] for item in found] == ["a", "c"]
    with pytest.raises(InputError, match="fields: 1, expected"):
        read(path)


def test_an_item_that_never_ends_is_given_up(tmp_path, constants):
    constants.set(json_piece=64, json_longest=1000)
    path = tmp_path / "f.json"
    path.write_text('[{"a": "' + "x" * 10_000, encoding="utf-8")
    read = []
    reader = json_module.characters
    json_module.characters = lambda *given: read.append(reader(*given)) or read[-1]
    try:
        with pytest.raises(InputError, match="line 1: expected items of JSON"):
            list(json_items(path))
    finally:
        json_module.characters = reader
    assert sum(map(len, read)) < 3000


# --- bad input: one clear line, exit status 2 ------------------------------------------------------------------------

BAD = {
    "a text that is nothing known": ("choice", "f.txt", "Once upon a time.\nThe end.\n",
                                     "line 1: expected 21 numbered lines.*cbt is the nearest layout of cbt, .*race"),
    "keys that are nothing known": ("answer", "f.jsonl", lines({"story": "x", "questions": []}),
                                    "coqa is the nearest layout of coqa, squad, nq_open, pairs"),
    "a table that is nothing known": ("sentiment", "f.tsv", tsv(("sentence", "stars"), ("x", "1")),
                                      "expected columns sentence, label.*sst2 is the nearest"),
    "passages with capitals": ("lambada", "f.txt", "Tom Ran.\n", "expected a long passage a line, in small letters"),
    "a story without highlights": ("summarise", "f.story", "Tom ran.\n", "expected a folder of files .story"),
    "a summary that is empty": ("summarise", "f.story", "Tom ran.\n@highlight\n\n\n@highlight\n\nx\n",
                                "line 1: expected an article, and sentences below lines @highlight"),
    "an empty story": ("summarise", "f.story", "", "is empty"),
    "no answers": ("answer", "f.json", json.dumps(SQUAD).replace(json.dumps(TWO_TOMS), "[]"),
                   "line 1: expected a list 'answers' with something in it for 'Who\\?', got \\[\\]"),
    "an answer that is no text": ("answer", "f.json", json.dumps(SQUAD).replace('"text": "Tom"', '"text": 3'),
                                  "expected a text 'text', got 3"),
    "an answer too few": ("answer", "f.json", json.dumps(COQA).replace(', {"input_text": "Did he?", "turn_id": 2}', ""),
                          "as many answers as questions about 'Tom ran.', got '1 questions, and 2, 2'"),
    "answers that are no list": ("answer", "f.jsonl", lines({"question": "x", "answer": "y"}), "a list 'answer'"),
    "an empty answer": ("answer", "f.jsonl", lines({"question": "x", "answer": [" "]}), "texts in 'answer'"),
    "a file that is cut short": ("answer", "f.json", json.dumps(SQUAD)[:-30], "line 1: expected items of JSON"),
    "more behind the end": ("answer", "f.json", json.dumps(SQUAD) + "{}", "line 1: expected items of JSON"),
    "wrong encoding": ("answer", "f.json", json.dumps(SQUAD, ensure_ascii=False).replace("Who", "é").encode("latin1"),
                       "line 1: byte \\d+ is 0xe9, which is not UTF-8"),
    "UTF-16": ("choice", "f.txt", CBT.encode("utf-16"), "line 1: byte 0 is 0xff, which is not UTF-8"),
    "two gold labels": ("choice", "1.txt", lines(ARTICLE | {"answers": ["AB", "D"]}),
                        "line 1: expected one answer, a letter of ABCD, got 'AB'"),
    "a list of gold labels": ("choice", "1.txt", lines(ARTICLE | {"answers": [["A", "B"], "D"]}), "got \\['A', 'B'\\]"),
    "an answer that is no option": ("choice", "1.txt", lines(ARTICLE | {"answers": ["A", "E"]}), "got 'E'"),
    "an empty option": ("choice", "1.txt", pretty(ARTICLE).replace('"Mia"', '" "'), "expected texts in 'options', got"),
    "options missing": ("choice", "1.txt", lines(ARTICLE | {"options": ARTICLE["options"][:1]}),
                        "got '2 questions, 1 lists of options, 2 answers'"),
    "a sentence of CBT too few": ("choice", "f.txt", CBT.replace("5 The", "6 The", 1), "line 5: .*the number 5, got"),
    "CBT cut short": ("choice", "f.txt", CBT + "1 The end\n", "line 23: expected 21 numbered lines for each question"),
    "CBT without candidates": ("choice", "f.txt", CBT.replace("\t", " "), "line 21: expected a sentence with one XXX"),
    "a candidate that is empty": ("choice", "f.txt", CBT.replace("|king|", "||"), "line 21: .*with 'frogs' once among"),
    "two right candidates": ("choice", "f.txt", CBT.replace("|king|", "|frogs|"), "line 21: .*'frogs' once among"),
    "a right word that is no candidate": ("choice", "f.txt", CBT.replace("|frogs|", "|dogs|"), "line 21: .*once among"),
    "a right pronoun that is none of them": ("winograd", "f.txt", "It is [MASK] now.\n[MASK]\na,b\nc\n\n",
                                            "line 1: expected a text"),
    "an empty candidate": ("winograd", "f.txt", "It is [MASK] now.\n[MASK]\na,,b\na\n\n", "line 1: expected a text"),
    "relations where opinions are wanted": ("sentiment", "f.json", lines(RELATED),
                                            "expected the labels negative, positive, and the file has 30 labels"),
    "opinions of another kind": ("sentiment", "f.tsv", tsv(("document", "label"), ("x", "0"), ("y", "5")),
                                 "line 3: unknown label '5': choose negative, positive"),
    "labels of another kind": ("sentiment", "f.tsv", FILES["cola"].text, "line 1: unknown label '1': choose negative"),
    "a table with the keys of JSON": ("answer", "f.csv", "question,answer\nwho,Tom\n",
                                      'expected {"question": .*got \'question,answer\': nq_open is the nearest layout'),
    "questions for choices": ("choice", "f.json", json.dumps(SQUAD),
                              "expected columns Input.*: it is a file of squad, which minigpt eval answer takes\n"),
    "choices for questions": ("answer", "1.txt", FILES["race"].text,
                              "expected .*: it is a file of race, which minigpt finetune, or eval choice, takes\n"),
    "sentences without translations": ("translate", "a.en", "Tom ran.\n",
                                       'its translations are missing: give --answers FILE, or one file of {"input"'),
    "an empty folder": ("choice", "RACE/dev/x.md", "x", "x.md"),
    "no items": ("answer", "f.json", '{"version": "1.1", "data": []}', "expected"),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A small GPT-2 that has learnt nothing."""
    from minigpt import GPT2, GPT2Config
    from minigpt.tokenizer import GPT2Tokenizer

    folder = tmp_path_factory.mktemp("models") / "small"
    tokenizer = GPT2Tokenizer.train("the cat sat on the mat. Tom ran, and fell?\n" * 9, 300, progress=False)
    GPT2(GPT2Config(vocab_size=tokenizer.vocab_size, n_positions=512, n_embd=8, n_layer=1, n_head=2)).save(folder)
    tokenizer.save(folder)
    return str(folder)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(write, model, capsys, case):
    import re

    task, name, content, message = BAD[case]
    path = write(name, content)
    assert main(["eval", model, task, str(path), "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.err.startswith("minigpt: ")
    assert re.search(message, captured.err), captured.err
    assert str(path) in captured.err


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("choice", ["race", "race_lines", "cbt", "choices", "storycloze"]),
        ("winograd", ["winograd", "dprd"]),
        ("lambada", ["lambada", "lambada_lines"]),
        ("sentiment", ["sst2", "nsmc"]),
        ("answer", ["squad", "coqa", "nq_open", "pairs"]),
        ("summarise", ["cnn_dm", "cnn_dm_lines", "pairs"]),
        ("perplexity", ["wikitext", "ptb", "enwik8", "text8", "one_billion"]),
    ],
)
def test_every_task_takes_its_published_files(write, model, capsys, task, names):
    for name in names:
        path = write(FILES[name].name, FILES[name].text)
        more = ["--detokenize", "auto"] if task in ("perplexity", "choice", "lambada") else []
        assert main(["eval", model, task, str(path), "--device", "cpu", *more]) == 0
        shown = capsys.readouterr().out
        assert f"{task}: {path} ({name})\n" in shown, shown
        if task == "perplexity":
            assert f"{name}: what the papers print is the number per {LAYOUTS[name].unit}" in shown
            assert f"de-tokeniser: {LAYOUTS[name].detokenize}" in shown


def test_a_folder_of_race_is_learned_from_and_answered(write, model, tmp_path, capsys):
    for number in range(8):
        write(f"RACE/train/high/{number}.txt", lines(ARTICLE | {"article": f"{number} Tom ran."}))
    folder, out = str(tmp_path / "RACE" / "train"), str(tmp_path / "tuned")
    given = ["--task", "choice", "--train", folder, "--out", out, "--epochs", "1", "--device", "cpu"]
    assert main(["finetune", model, *given]) == 0
    assert f"{folder} is read as race" in capsys.readouterr().out
    assert main(["predict", out, folder, "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 16, "an answer for each question, and nothing else"
    assert f"{folder} is read as race" in captured.err


def test_relations_are_learned_and_judged_as_klue_does(write, model, tmp_path, capsys):
    records = [RELATED | {"guid": f"{i}", "label": ("no_relation", "org:members")[i % 2]} for i in range(40)]
    path, out = write("klue-re.json", pretty(records)), str(tmp_path / "tuned")
    given = ["--task", "klue_re", "--train", str(path), "--test", str(path), "--out", out, "--epochs", "1"]
    assert main(["finetune", model, *given, "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "judged by micro_f1; labels no_relation, org:dissolved" in shown and "test micro_f1 " in shown
    for record in records:
        del record["label"]
    assert main(["predict", out, str(write("new.json", pretty(records))), "--device", "cpu"]) == 0
    answers = capsys.readouterr().out.splitlines()
    assert len(answers) == 40 and {answer.split("\t")[0] for answer in answers} <= set(layouts.relations.RELATIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": ["no_relation", "per:title"]}, r"one label, such as no_relation, org:dissolved, got \['no_rel"),
        ({"label": "per:pet"}, "one label, such as no_relation, org:dissolved, got 'per:pet'"),
        ({"label": None}, "one label, such as no_relation, org:dissolved, got nothing"),
        ({"sentence": " "}, "a text 'sentence', got ' '"),
        ({"object_entity": {"start_idx": 3, "end_idx": 10}}, "object_entity with start_idx and end_idx, which lie in"),
        ({"object_entity": {"start_idx": 3, "end_idx": 2}}, "object_entity with start_idx and end_idx, which lie in"),
        ({"subject_entity": {"start_idx": True, "end_idx": 2}}, "subject_entity with start_idx and end_idx"),
        ({"subject_entity": None}, "subject_entity with start_idx and end_idx, which lie in the sentence, got nothing"),
    ],
)
def test_a_relation_that_is_not_in_form_is_refused_with_its_line(write, change, message):
    path = write("f.json", lines(RELATED, RELATED | change))
    with pytest.raises(InputError, match=f"line 2: expected {message}"):
        labelled_files.read(path, "klue_re", say=lambda text: None)


def test_the_marks_of_entities_that_touch_or_hold_one_another_are_in_sequence(write):
    apart, behind, within = [(0, 1), (2, 3)], [(2, 3), (0, 1)], [(1, 2), (0, 3)]
    records = []
    for subject, object_ in (apart, behind, within):
        places = {"subject_entity": subject, "object_entity": object_}
        entities = {key: {"start_idx": first, "end_idx": last} for key, (first, last) in places.items()}
        records.append({"sentence": "가나다라 ", "label": "no_relation"} | entities)
    found = [example.texts[0] for example in labelled_files.read(write("f.json", lines(*records)), "klue_re")[1]]
    assert found == ["<subj>가나</subj><obj>다라</obj>", "<obj>가나</obj><subj>다라</subj>",
                     "<obj>가<subj>나다</subj>라</obj>"]  # fmt: skip


def test_states_of_conversations_are_learned_as_instructions_and_judged(write, model, tmp_path, capsys):
    path = write("wos.json", OTHERS["klue_wos"].text)
    first, second = [one.messages for one in instructions.read(path)]
    assert [message["content"] for message in second] == [OTHERS["klue_wos"].items[1].given,
                                                         "관광-종류-공원; 관광-지역-서울 중앙"]  # fmt: skip
    assert first[0]["role"] == "user" and first[1]["role"] == "assistant"
    assert main(["eval", model, "state", str(path), "--device", "cpu", "--json", str(tmp_path / "r.json")]) == 0
    assert "joint goal accuracy" in capsys.readouterr().out
    names = [one["name"] for one in json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["measures"]]
    assert names == ["joint goal accuracy", "F1 of slots"]
    assert main(["finetune", model, "--train", str(path), "--task", "klue_wos"]) == 2
    assert "unknown task 'klue_wos', which minigpt eval state takes" in capsys.readouterr().err
    turn = {"role": "user", "text": "a", "state": ["a-b-c"]}
    for changed, said in (({"role": "bot"}, 'a role, "user" or "sys"'), ({"state": None}, "a list 'state'"),
                          ({"state": ["a-b"]}, "texts domain-slot-value, got 'a-b'"), ({"text": " "}, "a text 'text'")):
        records = pretty([{"guid": "x", "domains": [], "dialogue": [turn | changed]}])
        assert main(["eval", model, "state", str(write("bad.json", records)), "--device", "cpu"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "bad.json, line 2: expected" in err and said in err, err


def test_translations_are_two_files(write, model, capsys):
    sources, answers = write("test.en", "Tom ran.\nTom fell.\n"), write("test.fr", "Tom a couru.\nTom est tombé.\n")
    given = ["eval", model, "translate", str(sources), "--answers", str(answers), "--device", "cpu"]
    assert main(given) == 0 and "2 items" in capsys.readouterr().out
    answers.write_text("Tom a couru.\n", encoding="utf-8")
    assert main(given) == 2
    assert "test.en has 2 sentences and " in capsys.readouterr().err
    answers.write_text("\nTom a couru.\n", encoding="utf-8")
    assert main(given) == 2
    assert "test.fr, line 1: expected a sentence, got nothing" in capsys.readouterr().err


def test_a_layout_may_be_named(write, model, capsys):
    path = write("f.txt", "Tom ran fast.\nMia sat down.\n")
    given = ["eval", model, "lambada", str(path), "--device", "cpu"]
    assert main([*given, "--layout", "lambada_lines"]) == 0 and "2 items" in capsys.readouterr().out
    assert main([*given, "--layout", "squad"]) == 2
    assert "--layout squad holds nothing for this task: it reads lambada, lambada_lines" in capsys.readouterr().err
    assert main([*given, "--layout", "lambda"]) == 2
    said = capsys.readouterr().err
    assert "unknown layout 'lambda': choose sst2, cola" in said and "did you mean lambada?" in said


def test_what_names_the_nearest_layout_for_learning_too(write):
    path = write("f.tsv", tsv(("sentence1", "premise", "label"), ("x", "y", "1"), ("z", "y", "0")))
    with pytest.raises(InputError, match="no column 'hypothesis'.*the nearest layout that is known is "):
        labelled_files.read(path, "entailment")


def test_a_file_for_another_command_is_told_its_own(write):
    path = write("f.json", json.dumps(SQUAD))
    for task in ("classification", "qnli"):
        with pytest.raises(InputError, match="no column '.*; it is a file of squad, which minigpt eval answer takes"):
            labelled_files.read(path, task)
    with pytest.raises(InputError, match="no column 'text' .*; it is a file of qqp, which minigpt finetune takes"):
        labelled_files.read(write("f.tsv", FILES["qqp"].text), "classification")
    with pytest.raises(InputError, match="unknown task 'squad', which minigpt eval answer takes: choose a kind"):
        labelled_files.read(path, "squad")
    with pytest.raises(InputError, match="unknown task 'pairs': choose a kind"):
        labelled_files.read(path, "pairs")


def test_a_gold_label_that_is_missing_is_no_class(write):
    path = write("snli.jsonl", lines(*(SNLI | {"gold_label": label} for label in ("-", "neutral", "-", "entailment"))))
    said = []
    task, examples = labelled_files.read(path, "entailment", say=said.append)
    assert task.labels == ("contradiction", "entailment", "neutral") and len(examples) == 2
    assert said[-1] == f"{path}: left out 2 of 4 lines, which have no gold label ('-')"


def test_the_gap_of_a_book_is_filled_by_each_candidate(model, write):
    from minigpt import models
    from minigpt.evaluation.scoring import continuations
    from minigpt.evaluation.tasks_as_text import choose

    network, tokenizer = models.open_both(model)
    record = ("the cat sat . the dog saw the [MASK] and ran .", ("mat", "cat"), 1)
    report = choose(network, tokenizer, [record], detokenize="wikitext")
    pairs = [("the cat sat. the dog saw the", " mat and ran."), ("the cat sat. the dog saw the", " cat and ran.")]
    totals = [one.total for one in continuations(network, tokenizer, pairs)]
    assert report.measures[1].value == float(totals[1] > totals[0])


def test_lines_are_those_of_the_file(write):
    path = write("f.txt", b"\xef\xbb\xbfa\r\n\n b\xc2\x85c\n \n\n")
    assert list(text_lines(path)) == [(1, "a"), (2, ""), (3, " b\x85c"), (4, " "), (5, "")]
    assert list(lines_to_the_last(path)) == [(1, "a"), (2, ""), (3, " b\x85c")]
    with pytest.raises(InputError, match="is empty: give"):
        list(text_lines(write("g.txt", "\n \n")))
    assert Example(("a",)) == Example(("a",), None)
