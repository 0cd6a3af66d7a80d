"""A small file in each published form, with sentences of our own, and what is in it."""

import json
from typing import Any, NamedTuple

from minigpt.data.examples import Example
from minigpt.data.published.layout import Written
from minigpt.data.published.relations import RELATIONS


class Published(NamedTuple):
    """name: of the file. items: what a reader should find in it. labels: of a classification, in their order."""

    name: str
    text: str
    items: list[Any]
    labels: tuple[str, ...] = ()
    metric: str = "accuracy"


def tsv(*rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def lines(*records) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def pretty(value) -> str:
    return json.dumps(value, ensure_ascii=False, indent=4) + "\n"


NLI = ("contradiction", "entailment", "neutral")
PARSE = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
SNLI = {"annotator_labels": ["neutral"], "captionID": "c#1", "gold_label": "neutral", "pairID": "c#1r1n",
        **dict.fromkeys(PARSE, "( A man )"), "sentence1": "A man eats.", "sentence2": "He is fat."}  # fmt: skip
MNLI = ["index", "promptID", "pairID", "genre", *PARSE, "sentence1", "sentence2", "label1", "gold_label"]
XNLI = ["language", "gold_label", *PARSE, "sentence1", "sentence2", "promptID", "pairID", "genre", "label1"]
KLUE = {"guid": "k-1", "source": "a", "author": "neutral", "label2": "neutral"}
STSB = "index genre filename year old_index source1 source2 sentence1 sentence2 score".split()
STORY = ["InputStoryid", *(f"InputSentence{i}" for i in (1, 2, 3, 4)), "RandomFifthSentenceQuiz1"]
STORY += ["RandomFifthSentenceQuiz2", "AnswerRightEnding"]
QQP = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
MRPC = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]

TABLES = {
    "sst2": Published("train.tsv", tsv(("sentence", "label"), ("a fine film ", "1"), ("dull ", "0")),
                      [Example(("a fine film",), 1), Example(("dull",), 0)], ("negative", "positive")),
    "cola": Published("train.tsv", tsv(("zz01", "1", "", "Tom left."), ("zz01", "0", "*", "Left the \"Tom.")),
                      [Example(("Tom left.",), 1), Example(('Left the "Tom.',), 0)],
                      ("unacceptable", "acceptable"), "matthews"),
    "rte": Published("dev.tsv", tsv(("index", "sentence1", "sentence2", "label"),
                                    ("0", "It rains.", "It is wet.", "entailment"),
                                    ("1", "It rains.", "It is dry.", "not_entailment")),
                     [Example(("It rains.", "It is wet."), 1), Example(("It rains.", "It is dry."), 0)],
                     ("not_entailment", "entailment")),
    "qnli": Published("dev.tsv", tsv(("index", "question", "sentence", "label"),
                                     ("0", "Who fell?", "Tom fell.", "entailment"),
                                     ("1", "Who fell?", "It rained.", "not_entailment")),
                      [Example(("Who fell?", "Tom fell."), 1), Example(("Who fell?", "It rained."), 0)],
                      ("not_entailment", "entailment")),
    "snli": Published("snli_1.0_dev.jsonl",
                      lines(SNLI, SNLI | {"gold_label": "-"}, SNLI | {"gold_label": "contradiction"}),
                      [Example(("A man eats.", "He is fat."), 2), Example(("A man eats.", "He is fat."), 0)], NLI),
    "mnli": Published("dev_matched.tsv", tsv(MNLI, [*"0123abcd", "It rains.", "It is wet.", "neutral", "entailment"],
                                             [*"1123abcd", "It rains.", "Tom ran.", "neutral", "neutral"]),
                      [Example(("It rains.", "It is wet."), 1), Example(("It rains.", "Tom ran."), 2)], NLI),
    "xnli": Published("xnli.dev.tsv", tsv(XNLI, ["ko", "neutral", *"abcd", "비가 온다.", "춥다.", *"123", "neutral"],
                                          ["ar", "contradiction", *"abcd", "مطر", "شمس", *"123", "neutral"]),
                      [Example(("비가 온다.", "춥다."), 2), Example(("مطر", "شمس"), 0)], NLI),
    "xnli_mt": Published("multinli.train.ko.tsv", tsv(("premise", "hypo", "label"), ("비", "해", "contradictory"),
                                                      ("비", "물", "entailment")),
                         [Example(("비", "해"), 0), Example(("비", "물"), 1)], ("contradiction", *NLI[1:])),
    "kornli": Published("snli_1.0_train.ko.tsv", tsv(("sentence1", "sentence2", "gold_label"),
                                                     ("그가 \"말했다", "웃었다.", "neutral"),
                                                     ("비", "물", "entailment")),
                        [Example(('그가 "말했다', "웃었다."), 2), Example(("비", "물"), 1)], NLI),
    "klue_nli": Published("klue-nli-v1.1_dev.json",
                          pretty([KLUE | {"premise": "비", "hypothesis": "물", "gold_label": "entailment"},
                                  KLUE | {"premise": "비", "hypothesis": "해", "gold_label": "contradiction"}]),
                          [Example(("비", "물"), 1), Example(("비", "해"), 0)], NLI),
    "scitail": Published("scitail_1.0_train.tsv", tsv(("Rain is water.", "Rain is \"wet.", "entails"),
                                                      ("Rain falls.", "Cats purr.", "neutral")),
                         [Example(("Rain is water.", 'Rain is "wet.'), 0), Example(("Rain falls.", "Cats purr."), 1)],
                         ("entails", "neutral")),
    "scitail_json": Published("scitail_1.0_dev.txt",
                              lines({**dict.fromkeys(PARSE, "( Rain )"), "sentence1": "Rain is water.",
                                     "sentence2": "It is wet.", "annotator_labels": ["entailment"],
                                     "gold_label": "entailment"},
                                    {**dict.fromkeys(PARSE, "( Rain )"), "sentence1": "Rain falls.",
                                     "sentence2": "Cats purr.", "annotator_labels": ["neutral"],
                                     "gold_label": "neutral"}),
                              [Example(("Rain is water.", "It is wet."), 0), Example(("Rain falls.", "Cats purr."), 1)],
                              ("entails", "neutral")),
    "mrpc": Published("msr_paraphrase_train.txt", "\ufeff" + tsv(MRPC, ("1", "5", "6", 'He "ran.', "He runs."),
                                                                 ("0", "7", "8", "He ran.", "Rain.")),
                      [Example(('He "ran.', "He runs."), 1), Example(("He ran.", "Rain."), 0)],
                      ("different", "same"), "f1"),
    "qqp": Published("train.tsv", tsv(QQP, ("0", "1", "2", "Why?", "Why so?", "1"), ("1", "3", "4", "Why?"),
                                      ("2", "5", "6", "Why?", "", "0"), ("3", "7", "8", "Why?", "When?", "0")),
                     [Example(("Why?", "Why so?"), 1), Example(("Why?", "When?"), 0)], ("different", "same"), "f1"),
    "question_pair": Published("train.txt", "\ufeff" + tsv(("question1", "question2", "is_duplicate"),
                                                           ("왜?", "왜 그래?", "0"), ("왜?", "언제?", "1")),
                               [Example(("왜?", "왜 그래?"), 1), Example(("왜?", "언제?"), 0)],
                               ("different", "same"), "f1"),
    "stsb": Published("dev.tsv", tsv(STSB, [*"0abcdef", "He ran.", "He runs.", "4.600"],
                                     [*"1abcdef", "He ran.", "Rain.", "0.0"]),
                      [Example(("He ran.", "He runs."), 4.6), Example(("He ran.", "Rain."), 0.0)], (), "pearson"),
    "klue_sts": Published("klue-sts-v1.1_dev.json", pretty([
        {"guid": "k-1", "source": "a", "sentence1": "비가 왔다.", "sentence2": "비가 온다.",
         "labels": {"label": 4.9, "real-label": 4.857142857142857, "binary-label": 1}, "annotations": {"x": "1"}},
        {"guid": "k-2", "source": "a", "sentence1": "비가 왔다.", "sentence2": "잔다.",
         "labels": {"label": 0.1, "real-label": 0.14285714285714285, "binary-label": 0}},
    ]), [Example(("비가 왔다.", "비가 온다."), 4.857142857142857),
         Example(("비가 왔다.", "잔다."), 0.14285714285714285)],
        (), "pearson"),
    "nsmc": Published("ratings.txt", tsv(("id", "document", "label"), ("7", "재미있다", "1"), ("8", "지루하다", "0")),
                      [Example(("재미있다",), 1), Example(("지루하다",), 0)], ("negative", "positive")),
    "klue_ynat": Published("ynat-v1.1_dev.json", pretty([{"guid": "y-1", "title": "비 온다", "label": "사회"},
                                                         {"guid": "y-2", "title": "골 넣다", "label": "스포츠"}]),
                           [Example(("비 온다",), 2), Example(("골 넣다",), 5)],
                           ("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"), "macro_f1"),
    "storycloze": Published("val.csv", ",".join(STORY) + '\nid,One.,Two.,"Three, or",Four.,Good.,Bad.,1\n'
                            "id,A.,B.,C.,D.,E.,F.,2\n",
                            [Example(("One. Two. Three, or Four.",), 0, ("Good.", "Bad.")),
                             Example(("A. B. C. D.",), 1, ("E.", "F."))]),
}  # fmt: skip

ARTICLE = {"article": "Tom ran.\nHe fell.", "questions": ["Who ran?", "Tom _ ."], "id": "high1.txt",
           "options": [["Tom", "Mia", "Bo", "I"], ["sat", "ate", "sang", "fell"]], "answers": ["A", "D"]}  # fmt: skip
ASKED = [Example(("Tom ran.\nHe fell.", "Who ran?"), 0, ("Tom", "Mia", "Bo", "I")),
         Example(("Tom ran.\nHe fell.", "Tom _ ."), 3, ("sat", "ate", "sang", "fell"))]  # fmt: skip
SENTENCES = [f"The {i} frogs sat , and sang ." for i in range(1, 21)]
CBT = "".join(f"{i} {sentence}\n" for i, sentence in enumerate(SENTENCES, 1))
CBT += "21 `` Now , '' said the XXXXX .\tfrogs\t\tbaby|frogs|king|day|a|b|c|d|e|f\n\n"
STORY_OF_CNN = "Tom ran .\n\nHe fell .\n\n@highlight\n\nTom ran\n\n@highlight\n\nHe fell\n"
PASSAGE = "tom ran , and tom fell , and then he sat on the mat with a cat that had seen it from the start , and did n't"
SQUAD = {"version": "1.1", "data": [{"title": "Tom", "paragraphs": [{"context": "Tom ran.", "qas": [
    {"id": "1", "question": "Who?", "answers": 2 * [{"answer_start": 0, "text": "Tom"}]},
    {"id": "2", "question": "Why?", "is_impossible": True, "answers": []}]}]}]}  # fmt: skip
TURN = {"span_start": 0, "span_end": 3, "span_text": "Tom"}
COQA = {"version": "1.0", "data": [{
    "source": "mctest", "id": "x", "filename": "f", "name": "f", "story": "Tom ran.",
    "questions": [{"input_text": "Who ran?", "turn_id": 1}, {"input_text": "Did he?", "turn_id": 2}],
    "answers": [TURN | {"input_text": "Tom", "turn_id": 1}, TURN | {"input_text": "yes", "turn_id": 2}],
    "additional_answers": {
        "0": [TURN | {"input_text": "tom", "turn_id": 1}, TURN | {"input_text": "Yes", "turn_id": 2}]},
}]}  # fmt: skip
PRONOUNS = [Example(("The cat ran because [MASK] was wet.",), 1, ("The cat", "the dog"))]
ENDINGS = [" .", " ?", " . ''", ' " .']

def entity(word: str, first: int, kind: str) -> dict[str, Any]:
    return {"word": word, "start_idx": first, "end_idx": first + len(word) - 1, "type": kind}


RELATED = {"guid": "klue-re-v1_dev_00000", "sentence": "톰은 서울에 산다.", "subject_entity": entity("톰", 0, "PER"),
           "object_entity": entity("서울", 3, "LOC"), "label": "per:place_of_residence", "source": "a"}  # fmt: skip

NOTE = "## 문장 구분자 : \\n\\n\n"  # as KLUE's files begin
TAGS = tuple(f"{prefix}-{name}" for name in ("PS", "LC", "OG", "DT", "TI", "QT") for prefix in "BI") + ("O",)
OTHERS = {
    "klue_re": Published("klue-re-v1.1_dev.json", pretty([
        RELATED, RELATED | {"subject_entity": entity("서울", 3, "LOC"), "object_entity": entity("톰", 0, "PER"),
                            "label": "no_relation"}]),
        [Example(("<subj>톰</subj>은 <obj>서울</obj>에 산다.",), 16),
         Example(("<obj>톰</obj>은 <subj>서울</subj>에 산다.",), 0)], RELATIONS, "micro_f1"),
    "klue_ner": Published("klue-ner-v1.1_dev.tsv",
                          f"{NOTE}## klue-ner-v1_dev_00000-wikitree\t<톰:PS>은 <서울:LC>에 산다.\n"
                          + tsv(("톰", "B-PS"), ("은", "O"), (" ", "O"), ("서", "B-LC"), ("울", "I-LC"))
                          + "\n## klue-ner-v1_dev_00001-wikitree\t춥다\n" + tsv(("춥", "O"), ("다", "O")),
                          [Example(("톰", "은", " ", "서", "울"), ("B-PS", "O", "B-LC", "I-LC")),
                           Example(("춥", "다"), ("O", "O"))], TAGS, "entity_macro_f1"),
    "klue_dp": Published("klue-dp-v1.1_dev.tsv",
                         f"{NOTE}## klue-dp-v1_dev_00000_wikitree\t톰은 산다.\n"
                         + tsv(("1", "톰은", "톰 은", "NNP+JX", "2", "NP_SBJ"),
                               ("2", "산다.", "살 ㄴ다 .", "VV+EF+SF", "0", "VP")) + "\n",
                         [Example(("톰은", " ", "산다."), ("1:NP_SBJ", "0:VP"))], ("0:VP", "1:NP_SBJ"), "las_macro_f1"),
    "conll": Published("eng.testa", "-DOCSTART- -X- -X- O\n\nTom NNP I-NP B-PER\nFox NNP I-NP I-PER\nran VBD I-VP O\n"
                       "\nRome NNP I-NP B-LOC\n",
                       [Example(("Tom", " ", "Fox", " ", "ran"), ("B-PER", "I-PER", "O")),
                        Example(("Rome",), ("B-LOC",))], ("B-LOC", "B-PER", "I-PER", "O"), "entity_f1"),
    "race": Published("high1.txt", lines(ARTICLE), ASKED),
    "race_lines": Published("high.jsonl", lines(*({"example_id": "high1.txt", "article": ARTICLE["article"],
                                                   "question": question, "options": options, "answer": answer}
                                                  for question, options, answer in zip(
                                                      ARTICLE["questions"], ARTICLE["options"], ARTICLE["answers"],
                                                      strict=True))), ASKED),
    "cbt": Published("cbtest_CN_valid_2000ex.txt", CBT * 2, 2 * [
        Example((" ".join(SENTENCES), "`` Now , '' said the [MASK] ."), 1,
                ("baby", "frogs", "king", "day", *"abcdef"))]),
    "choices": Published("mine.jsonl", lines({"context": "a", "choices": ["b", "c"], "label": 1}),
                         [Example(("a",), 1, ("b", "c"))]),
    "winograd": Published("wsc273.txt", "The cat ran because [MASK] was wet. \n[MASK]\nThe cat ,the dog \nthe dog \n\n",
                          PRONOUNS),
    "dprd": Published("test.c.txt", "The cat ran because it was wet.\nit\nThe cat,the dog\nthe dog\n\n", PRONOUNS),
    "lambada": Published("lambada_test.jsonl", lines({"text": "Tom ran\nand fell"}), ["Tom ran\nand fell"]),
    "lambada_lines": Published("lambada_test_plain_text.txt", f"{PASSAGE} fall\n{PASSAGE} sit\n",
                               [f"{PASSAGE} fall", f"{PASSAGE} sit"]),
    "squad": Published("dev-v1.1.json", json.dumps(SQUAD), [Written("Who?", ("Tom", "Tom"), "Tom ran."),
                                                           Written("Why?", ("",), "Tom ran.")]),
    "coqa": Published("coqa-dev-v1.0.json", json.dumps(COQA), [
        Written("Who ran?", ("Tom", "tom"), "Tom ran.", (), "coqa"),
        Written("Did he?", ("yes", "Yes"), "Tom ran.", (("Who ran?", "Tom"),), "coqa")]),
    "nq_open": Published("NQ-open.dev.jsonl", lines({"question": "who ran", "answer": ["Tom", "a cat"]}),
                         [Written("who ran", ("Tom", "a cat"))]),
    "klue_wos": Published("wos-v1.1_dev.json", pretty([{"guid": "wos-v1_dev_00000", "domains": ["관광"], "dialogue": [
        {"role": "user", "text": "공원을 찾아요.", "state": ["관광-종류-공원"]},
        {"role": "sys", "text": "어디쯤요?"},
        {"role": "user", "text": "서울 중앙.", "state": ["관광-종류-공원", "관광-지역-서울 중앙"]}]}]),
                          [Written("user: 공원을 찾아요.", ("관광-종류-공원",), metric="state"),
                           Written("user: 공원을 찾아요.\nsys: 어디쯤요?\nuser: 서울 중앙.",
                                   ("관광-종류-공원; 관광-지역-서울 중앙",), metric="state")]),
    "cnn_dm": Published("1.story", STORY_OF_CNN, [Written("Tom ran .\n\nHe fell .", ("Tom ran\nHe fell",))]),
    "cnn_dm_lines": Published("test.jsonl", lines({"id": "1", "article": "Tom ran.", "highlights": "Tom ran\nHe fell"}),
                              [Written("Tom ran.", ("Tom ran\nHe fell",))]),
    "pairs": Published("mine.jsonl", lines({"input": "a b", "output": "c"}), [Written("a b", ("c",))]),
}  # fmt: skip

TEXTS = {  # how each begins
    "wikitext": Published("wiki.test.tokens", " \n = Tom = \n \n Tom ran <unk> 1 @,@ 000 miles . \n", []),
    "ptb": Published("ptb.test.txt", " tom ran N miles \n he <unk> fell \n", []),
    "enwik8": Published("enwik8", '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/">\n  <page>\n', []),
    "text8": Published("text8", " tom ran one two miles" * 60, []),
    "one_billion": Published("news.en.heldout-00000-of-00050",
                             "".join(f"Tom ran {i} miles{end}\n" for i, end in enumerate(ENDINGS)), []),
}  # fmt: skip

FILES = TABLES | OTHERS | TEXTS
