"""SQuAD's and CoQA's rules against the scripts' own steps; BLEU and ROUGE against their packages; stop words."""

import re
import string
from collections import Counter

import numpy as np
import pytest
from published_files import OTHERS

from minigpt.data.published.layout import Written
from minigpt.errors import InputError
from minigpt.evaluation import answers, overlap, scoring, tasks_as_text, writing
from minigpt.evaluation.stop_words import STOP_WORDS, first_tokens
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer

WORDS = ["the", "a", "an", "Tom", "tom", "ran,", "ran"]
WORDS += ["\u201cyes\u201d", "-", "...", "1,000", "the-cat", "An.", "\ud55c\uad6d", "O'Neil", ""]


def drawn(rng, n_words=6) -> str:
    return " ".join(rng.choice(WORDS, size=rng.integers(0, n_words)))


def by_steps(text: str) -> str:
    """Four steps, as both scripts have them, each written apart."""
    lower = text.lower()
    kept = "".join(character for character in lower if character not in set(string.punctuation))
    without = re.sub(r"\b(a|an|the)\b", " ", kept, flags=re.UNICODE)
    return " ".join(without.split())


def f1_by_steps(written: str, answer: str) -> float:
    given, wanted = by_steps(written).split(), by_steps(answer).split()
    if not given or not wanted:
        return float(given == wanted)
    same = sum((Counter(given) & Counter(wanted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(given), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def test_answers_agree_with_the_published_steps_on_random_draws():
    rng = np.random.default_rng(0)
    for _ in range(200):
        written, right = drawn(rng), [drawn(rng) for _ in range(rng.integers(1, 5))]
        exact = [float(by_steps(written) == by_steps(answer)) for answer in right]
        f1 = [f1_by_steps(written, answer) for answer in right]
        found = answers.judge(written, right, "squad")
        np.testing.assert_allclose(found, (max(exact), max(f1)), rtol=1e-12)
        if len(right) > 1:
            exact = [max(exact[:i] + exact[i + 1 :]) for i in range(len(right))]
            f1 = [max(f1[:i] + f1[i + 1 :]) for i in range(len(right))]
        found = answers.judge(written, right, "coqa")
        np.testing.assert_allclose(found, (np.mean(exact), np.mean(f1)), rtol=1e-12)


@pytest.mark.parametrize(
    ("written", "right", "squad", "coqa"),
    [
        ("The Broncos!", ("Denver Broncos", "broncos"), (1, 1), ((0 + 1) / 2, (1 + 2 / 3) / 2)),
        ("yes", ("no", "Yes", "yes", "maybe"), (1, 1), (1, 1)),
        ("", ("",), (1, 1), (1, 1)),
        ("the", ("a",), (1, 1), (1, 1)),
        ("Tom", ("",), (0, 0), (0, 0)),
    ],
)
def test_answers_that_were_computed_by_hand(written, right, squad, coqa):
    np.testing.assert_allclose(answers.judge(written, right, "squad"), squad)
    np.testing.assert_allclose(answers.judge(written, right, "coqa"), coqa)


def test_there_are_two_rules_and_one_answer_or_more():
    with pytest.raises(InputError, match="1 answers judged by 'bleu': give one or more, and squad or coqa"):
        answers.judge("a", ("b",), "bleu")
    with pytest.raises(InputError, match="0 answers"):
        answers.judge("a", (), "squad")


def test_bleu_is_that_of_sacrebleu_on_random_draws():
    sacrebleu = pytest.importorskip("sacrebleu", reason="sacrebleu is not installed: extra eval")
    rng = np.random.default_rng(1)
    words = np.array("the cat sat on a mat and , saw it . quite \ud55c\uad6d\uc5b4".split())
    written = [" ".join(rng.choice(words, size=rng.integers(1, 20))) for _ in range(200)]
    right = [" ".join([*one.split()[:9], *rng.choice(words, size=4)]) for one in written]
    found = overlap.bleu(written, right)
    assert found.value == sacrebleu.corpus_bleu(written, [right]).score > 1
    assert found.low < found.value < found.high and found.n == 200
    one = overlap.bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert one.value == sacrebleu.corpus_bleu(["the cat sat on the mat"], [["the cat sat on a mat"]]).score
    assert overlap.bleu(["x", "x"], ["y", "y"]).value == 0


def test_rouge_is_that_of_its_package_on_random_draws():
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is not installed: extra eval")
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    rng = np.random.default_rng(2)
    words = np.array("the cats sat on running mats and saw it quickly".split())
    written, right = [["\n".join(" ".join(rng.choice(words, size=rng.integers(1, 9))) for _ in range(3))
                       for _ in range(200)] for _ in range(2)]  # fmt: skip
    for measure, name in zip(overlap.rouge(written, right), ("rouge1", "rouge2", "rougeLsum"), strict=True):
        each = [scorer.score(wanted, one)[name].fmeasure for one, wanted in zip(written, right, strict=True)]
        np.testing.assert_allclose(measure.value, np.mean(each), rtol=1e-12)
        assert measure.low < measure.value < measure.high


def test_without_the_packages_a_note_says_what_to_install(monkeypatch):
    monkeypatch.setattr(overlap.importlib.util, "find_spec", lambda name: None)
    records = [Written("x", ("a b",))] * 2
    judged = writing.WRITTEN["translate"].measures(["a b", "a"], records)
    assert [measure.name for measure in judged.measures] == ["exact match", "F1 of words"]
    assert judged.notes == ['BLEU needs the package sacrebleu: pip install "minigpt-by-hand[eval]"']
    judged = writing.WRITTEN["summarise"].measures(["a b", "a"], records)
    assert judged.notes == ['ROUGE needs the package rouge-score: pip install "minigpt-by-hand[eval]"']
    for function in (overlap.bleu, overlap.rouge):
        with pytest.raises(InputError, match="is not installed: pip install"):
            function(["a"], ["b"])


# --- how published tasks are put to a model --------------------------------------------------------------------------


class Silent:
    """A model that remembers what it was asked, and answers nothing."""

    reads_a_source = False

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.prompts = []
        self.config = type("Config", (), {"n_positions": 400})

    def generate(self, ids, n_tokens, **options):
        self.prompts.append(self.tokenizer.decode(ids[0]).lstrip("\n"))
        return np.concatenate([ids, [self.tokenizer.encode(" Tom\n")]], axis=1)


def test_a_conversation_is_put_with_its_story_and_the_turns_before():
    records = OTHERS["coqa"].items
    text = CharTokenizer.train("".join(record.document + record.given for record in records) + "QA: Tom\nyes")
    model = Silent(text)
    report = writing.write("answer", model, text, records)
    assert model.prompts == ["Tom ran.\nQ: Who ran?\nA:", "Tom ran.\nQ: Who ran?\nA: Tom\nQ: Did he?\nA:"]
    assert [measure.value for measure in report.measures] == [0.5, 0.5]
    with pytest.raises(InputError, match="--shots 1: each question of this file has a document of its own"):
        writing.write("answer", model, text, records, shots=1)


def test_a_summary_without_an_article_is_left_out_and_counted():
    text = CharTokenizer.train("Tom ran.TL;DR: \n")
    records = [Written("", ("Tom",)), Written("Tom ran.", ("Tom",))]
    report = writing.write("summarise", Silent(text), text, records)
    assert report.notes[0] == "1 of 2 items give nothing to work on and were left out: number 1"
    assert len(report.outputs) == 1


def test_every_way_of_writing_names_its_source():
    for way in writing.WRITTEN.values():
        assert way.source.startswith(("GPT-2 section", "KLUE section"))


def test_stop_words_are_left_out_of_what_may_be_chosen():
    from helpers import small_gpt1

    tokenizer = GPT2Tokenizer.train("the cat and the dog sat on the mat of the man " * 9, 300, progress=False)
    left_out = first_tokens(tokenizer)
    assert {tokenizer.decode([token]) for token in left_out} >= {" the", " of"}
    assert all(tokenizer.decode([token]).strip().lower() in STOP_WORDS for token in left_out)
    assert first_tokens(CharTokenizer("abc")) == []
    model = small_gpt1(vocab_size=tokenizer.vocab_size, n_positions=32)
    model.head.value[left_out] += 5 * np.sign(model.head.value[left_out])  # the model loves some of them
    passages = [f"{start} mat" for start in ("a cat sat on the", "the dog and the", "the man on the", "of the", "on a")]
    plain = {measure.name: measure.value for measure in tasks_as_text.lambada(model, tokenizer, passages).measures}
    report = tasks_as_text.lambada(model, tokenizer, passages, stop_words=True)
    found = {measure.name: measure.value for measure in report.measures}
    assert plain.items() <= found.items()
    assert f"without stop words: {len(left_out)} tokens were left out of what may be chosen" in report.notes
    right = []
    for passage in passages:
        before = passage.removesuffix(" mat")
        ids = [tokenizer.start_id, *tokenizer.encode(before)]
        for token in tokenizer.encode(" mat"):
            logits = model.forward(np.array([ids]), grad=False)[0][0, -1].copy()
            logits[left_out] = -np.inf
            ids.append(int(token))
            right.append(logits.argmax() == token)
    each = np.array(right).reshape(len(passages), -1).all(axis=1)
    assert found["last word, no stop words"] == each.mean()


def test_a_token_that_is_left_out_makes_room_for_the_next():
    from helpers import small_gpt1

    model = small_gpt1()
    row = [1, 2, 3]
    second, first = np.argsort(model.forward(np.array([row]), grad=False)[0][0, -1])[-2:].tolist()
    rows = [[*row, second], [*row, first]]
    for left_out, of_second, of_first in (([], False, True), ([first], True, False), ([second], False, True)):
        found = scoring.log_probabilities(model, rows, len(row), left_out=left_out)
        assert [bool(one.greedy[0]) for one in found] == [False, True]
        assert [bool(one.greedy_left[0]) for one in found] == [of_second, of_first]
