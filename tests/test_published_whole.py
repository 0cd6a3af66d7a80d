"""Nothing of a published file is lost or doubled: against the standard library, on made files and on real ones."""

import csv
import json
import os
from pathlib import Path

import pytest
from published_files import FILES, OTHERS, TABLES, pretty

from minigpt.data import labelled_files
from minigpt.data.examples import KINDS
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.published.recognition import recognise

N = 40  # times the items of a small file
ONE_BY_ONE = ("cnn_dm", "klue_ner")  # a folder; characters, behind which no number can be put (see test_tagging.py)
WITHOUT_NAMES = ("cola", "scitail")  # tables whose first line is an example
IN_LINES = ("snli", "scitail_json")  # tables of an object a line
WORDS = {  # in each small file: a word, behind which a number is put; default: Tom
    "sst2": "film", "rte": "rains", "snli": "man", "mnli": "rains", "xnli": "비가", "xnli_mt": "비", "kornli": "비",
    "klue_nli": "비", "scitail": "Rain", "scitail_json": "Rain", "mrpc": "ran", "qqp": "Why", "question_pair": "왜",
    "stsb": "ran", "klue_sts": "비가", "nsmc": "재미", "klue_ynat": "온다", "storycloze": "Three", "klue_re": "산다",
    "cbt": "frogs", "choices": '"a', "winograd": "cat", "dprd": "cat", "lambada_lines": "tom", "squad": "ran",
    "coqa": "ran", "klue_dp": "산다", "klue_wos": "공원", "nq_open": "ran", "pairs": '"a b',
}  # fmt: skip


def numbered(value, word: str, i: int):
    """The value with i behind each such word in its texts."""
    if isinstance(value, str):
        return value.replace(word, f"{word}{i}")
    if isinstance(value, tuple):
        parts = [numbered(part, word, i) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def whole(name: str) -> str:
    """N times the items of the small file of a layout, all different, as one file."""
    text = FILES[name].text.removeprefix("\ufeff")
    word = WORDS.get(name, "Tom")
    parts = [text.replace(word, f"{word}{i}") for i in range(N)]
    if text.startswith("["):
        return pretty([record for part in parts for record in json.loads(part)])
    if text.startswith('{"version'):
        return json.dumps({"version": "1.1", "data": [record for part in parts for record in json.loads(part)["data"]]})
    if name in TABLES and name not in (*WITHOUT_NAMES, *IN_LINES):
        header = text.split("\n")[0]
        return header + "\n" + "".join(part.split("\n", 1)[1] for part in parts)
    return "".join(parts)


def counted(path: Path, layout: str) -> int:
    """How many items a file has, by another way than the package reads it."""
    raw = path.read_text(encoding="utf-8-sig")
    if layout == "race":
        return sum(len(json.loads(line)["questions"]) for line in raw.splitlines())
    if layout == "squad":
        articles = json.loads(raw)["data"]
        return sum(len(paragraph["qas"]) for article in articles for paragraph in article["paragraphs"])
    if layout == "coqa":
        return sum(len(item["questions"]) for item in json.loads(raw)["data"])
    if layout == "klue_wos":
        return sum(turn["role"] == "user" for one in json.loads(raw) for turn in one["dialogue"])
    if LAYOUTS[layout].kind == "tagging":
        lines = [line for line in raw.split("\n") if not line.startswith(("##", "-DOCSTART-"))]
        return len(list(filter(None, "\n".join(lines).split("\n\n"))))
    if layout == "cbt":
        return sum(line.startswith("21 ") for line in raw.split("\n"))
    if layout in ("winograd", "dprd"):
        return len(raw.strip().split("\n\n"))
    if raw.startswith("["):
        return len(json.loads(raw))
    if raw.startswith("{"):
        records = [json.loads(line) for line in raw.rstrip("\n").split("\n")]
        return sum(record.get("gold_label") != "-" for record in records)
    if path.suffix == ".csv":
        return len(list(csv.DictReader(raw.splitlines())))
    if layout == "lambada_lines":
        return len(raw.splitlines())
    rows = list(csv.reader(raw.rstrip("\n").split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE))
    without = 0 if layout in WITHOUT_NAMES else 1
    widest = max(map(len, rows))
    gaps = layout in ("qqp", "nsmc")
    return sum(len(row) == widest and not (gaps and "" in row) for row in rows) - without


def read(path: Path, layout: str) -> list:
    kind = LAYOUTS[layout].kind
    assert recognise(path, (kind,)) == layout
    if kind in KINDS:
        return labelled_files.read(path, kind, say=lambda text: None)[1]
    return list(LAYOUTS[layout].read(path, True))


@pytest.mark.parametrize("name", [name for name in (*TABLES, *OTHERS) if name not in ONE_BY_ONE])
def test_every_item_of_a_file_is_read_once_and_in_sequence(name, tmp_path):
    path = tmp_path / FILES[name].name
    path.write_text(whole(name), encoding="utf-8", newline="\n")
    found = read(path, name)
    word = WORDS.get(name, "Tom").removeprefix('"')
    expected = [numbered(item, word, i) for i in range(N) for item in FILES[name].items]
    assert len(found) == counted(path, name) == len(expected)
    assert found == expected and len(set(map(repr, found))) >= N


def test_every_story_of_a_folder_is_read_once_and_in_sequence(tmp_path):
    for i in range(N):
        text = FILES["cnn_dm"].text.replace("Tom", f"Tom{i}")
        (tmp_path / f"{i:03}.story").write_text(text, encoding="utf-8")
    expected = [numbered(item, "Tom", i) for i in range(N) for item in FILES["cnn_dm"].items]
    assert read(tmp_path, "cnn_dm") == expected and len(expected) == len(list(tmp_path.iterdir()))


# --- real files ------------------------------------------------------------------------------------------------------

HELD_OUT = {  # in a folder that MINIGPT_PUBLISHED names: file -> (layout, items)
    "test.c.txt": ("dprd", 564),
    "train.c.txt": ("dprd", 1316),
    "winobias_dev.txt": ("winograd", 1584),
    "anti_stereotyped_2.txt": ("winograd", 396),
    "WinoGender.txt": ("winograd", 240),
    "PDP.txt": ("winograd", 60),
    "xnli.dev.ko.tsv": ("kornli", 2490),
    "xnli.test.ko.tsv": ("kornli", 5010),
    "sts-dev.tsv": ("stsb", 1500),
    "sts-train.tsv": ("stsb", 5749),
    "klue-nli.json": ("klue_nli", 3000),
    "klue-sts.json": ("klue_sts", 519),
    "klue-ner-v1.1_dev.tsv": ("klue_ner", 5000),
    "klue-dp-v1.1_dev.tsv": ("klue_dp", 2000),
    "squad-dev-v1.1.json": ("squad", 810),
    "NQ-open.dev.jsonl": ("nq_open", 3610),
    "cloze_test_val__spring2016 - cloze_test_ALL_val.csv": ("storycloze", 1871),
    "snli_1.0_dev.jsonl": ("snli", 1273),
    "CoLA/in_domain_train.tsv": ("cola", 8551),
    "RTE/train.tsv": ("rte", 2490),
    "SST-2/dev.tsv": ("sst2", 872),
}


@pytest.mark.parametrize("name", HELD_OUT)
def test_real_files_are_read_whole(name):
    layout, n = HELD_OUT[name]
    folder = os.environ.get("MINIGPT_PUBLISHED")
    if not folder or not (Path(folder) / name).is_file():
        pytest.skip(f"MINIGPT_PUBLISHED names no folder with {name}; {layout} is published at {LAYOUTS[layout].source}")
    path = Path(folder) / name
    assert len(read(path, layout)) == counted(path, layout) == n


@pytest.mark.parametrize(
    ("file", "kind", "layout"),
    [
        ("lambada/lambada_test.jsonl", "passages", "lambada"),
        ("winograd/wsc273.txt", "pronouns", "winograd"),
        ("nsmc/ratings_test_5k.txt", "classification", "nsmc"),
        ("question_pair/test.txt", "similarity", "question_pair"),
        ("wikitext2/test.txt", "text", "wikitext"),
        ("prose/prose_1MB.txt", "text", None),
    ],
)
def test_real_files_are_recognised(eval_data, file, kind, layout):
    assert recognise(eval_data / file, (kind,)) == layout
