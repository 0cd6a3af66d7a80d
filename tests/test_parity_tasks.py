"""The tasks of `minigpt eval` against a plain script with transformers: the same files, the same random weights.

    pytest -m parity tests/test_parity_tasks.py             (needs the extra "parity")
    pytest -m "parity and slow" tests/test_parity_tasks.py  (GPT-2 small's shape; needs MINIGPT_EVAL_DATA too)

The script reads the files itself, and takes model and tokenizer from the folder that the job opens.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import small_gpt2

from minigpt import GPT2, GPT2Config, models
from minigpt.evaluation.scoring import score_choices
from minigpt.evaluation.tasks_as_text import spaced
from minigpt.jobs.evaluate import EvaluateOptions, evaluate
from minigpt.tokenizer import GPT2Tokenizer

pytestmark = pytest.mark.parity

DIGITS = 1e-4  # relative: four digits
CLEAR = 1e-3  # the likeliest token is ahead of the next one by so much that rounding decides nothing

WORDS = "the cat sat on the mat . a dog saw the cat , and the dog ran . was it a good dog ? it was .".split()
TEXT = "\n".join(" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))) + "\n"
STORY = "The cat sat on the mat. A dog saw the cat, and the dog ran. It was a good dog."
QUESTIONS = ["Who sat on the mat?", "What did the dog do?", "Was it a good dog?"]
OPTIONS = [["the cat", "a dog", "the mat", "it"], ["sat", "ran on the mat", "saw it, and ran", "was"],
           ["no", "yes"] * 2]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A small GPT-2 with random weights far from the initial point, and a tokenizer, in a folder."""
    text = GPT2Tokenizer.train(TEXT + STORY, 320, progress=False)
    sizes = {"n_positions": 128, "n_embd": 24, "n_layer": 3, "n_head": 4}
    return saved(small_gpt2(np.float32, vocab_size=text.vocab_size, **sizes), text, tmp_path_factory)


@pytest.fixture(scope="module")
def gpt2_small(tmp_path_factory, eval_data) -> Path:
    """GPT-2 small with random weights, and the released vocabulary, in a folder."""
    model = GPT2(GPT2Config(), seed=0, dtype=np.float32)
    return saved(model, GPT2Tokenizer.load(eval_data / "gpt2_vocab"), tmp_path_factory)


def saved(model, text, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    model.save(folder)
    text.save(folder)
    return folder


SIZES = ["small", pytest.param("gpt2_small", marks=pytest.mark.slow)]


@pytest.fixture(params=SIZES)
def folder(request) -> Path:
    """The small model, and GPT-2 small where slow tests are wanted."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def script(folder, torch, transformers) -> "Script":
    """The plain script, with the model of the folder."""
    return Script(folder, torch, transformers)


class Script:
    """What one writes with transformers in an afternoon."""

    def __init__(self, folder, torch, transformers):
        self.torch = torch
        self.model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        files = str(folder / "vocab.json"), str(folder / "merges.txt")
        self.tokenizer = transformers.GPT2TokenizerFast(*files)
        self.end = self.tokenizer.convert_tokens_to_ids("<|endoftext|>")
        self.positions = self.model.config.n_positions

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def log_p(self, ids: list[int]) -> np.ndarray:
        """(T-1,V): log P of every token after each of the ids but the last."""
        with self.torch.no_grad():
            logits = self.model(self.torch.tensor([ids[:-1]])).logits[0]
        return self.torch.log_softmax(logits.double(), dim=-1).numpy()

    def of(self, context: str, continuation: str) -> np.ndarray:
        """(N,): log P of each token of a continuation, of which the oldest context is cut off where it is too long."""
        tail = self.ids(continuation)
        ids = ([self.end] + self.ids(context) + tail)[-self.positions - 1 :]
        return self.log_p(ids)[np.arange(len(ids) - 1), ids[1:]][-len(tail) :]

    def greedy(self, prompt: str, n: int, stop: str) -> str:
        """What the model writes after a prompt, token by token, up to a token `stop`."""
        ids = ([self.end] + self.ids(prompt))[-(self.positions - n) :]
        start = len(ids)
        for _ in range(n):
            log_p = self.log_p([*ids, 0])[-1]
            second, first = np.sort(log_p)[-2:]
            assert first - second > CLEAR, "rounding could decide"
            ids.append(int(log_p.argmax()))
            if ids[-1] in (self.end, *self.ids(stop)):
                break
        return self.tokenizer.decode([i for i in ids[start:] if i != self.end])


def measured(folder: Path, task: str, path: Path, **options):
    report = evaluate(EvaluateOptions(folder=str(folder), task=task, file=str(path), device="cpu", **options))
    return report, {measure.name: measure.value for measure in report.measures}


def test_the_perplexity_of_a_text(folder, script, tmp_path):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    context = min(script.positions, 100)
    ids = [script.end] + script.ids(TEXT)
    nats = 0.0
    for begin in range(0, len(ids) - 1, context):
        window = ids[begin : begin + context + 1]
        nats -= script.log_p(window)[np.arange(len(window) - 1), window[1:]].sum()
    _, found = measured(folder, "perplexity", tmp_path / "text", context=context)
    n_words = len(TEXT.split()) + TEXT.count("\n")
    assert found["perplexity per token"] == pytest.approx(math.exp(nats / (len(ids) - 1)), rel=DIGITS)
    assert found["perplexity per word and line end"] == pytest.approx(math.exp(nats / n_words), rel=DIGITS)
    assert found["bits per byte"] == pytest.approx(nats / math.log(2) / len(TEXT.encode()), rel=DIGITS)


def test_the_last_words_of_lambada(folder, script, tmp_path):
    passages = [" ".join(WORDS[:n]) for n in (6, 9, 13, 18)] + [" ".join(WORDS * 9)]
    (tmp_path / "lambada_test.jsonl").write_text(
        "".join(json.dumps({"text": passage}) + "\n" for passage in passages), encoding="utf-8"
    )
    of_words = []
    for passage in passages:
        context, word = passage.rsplit(" ", 1)
        of_words.append(script.of(context, f" {word}"))
    _, found = measured(folder, "lambada", tmp_path / "lambada_test.jsonl")
    of_word = math.exp(-np.mean([one.sum() for one in of_words]))
    of_token = math.exp(-np.mean([one[-1] for one in of_words]))
    assert found["last word, perplexity"] == pytest.approx(of_word, rel=DIGITS)
    assert found["last token, perplexity"] == pytest.approx(of_token, rel=DIGITS)


def test_the_options_of_race(folder, script, tmp_path):
    record = {"article": STORY, "questions": QUESTIONS, "options": OPTIONS, "answers": ["A", "C", "B"]}
    (tmp_path / "race.txt").write_text(json.dumps(record), encoding="utf-8")
    ours = score_choices(
        *models.open_both(folder),
        [[spaced(f"{STORY} {question}", option) for option in options]
         for question, options in zip(QUESTIONS, OPTIONS, strict=True)],
    )  # fmt: skip
    right = {"mean": [], "sum": []}
    for i, (question, options) in enumerate(zip(QUESTIONS, OPTIONS, strict=True)):
        theirs = [script.of(f"{STORY} {question}", f" {option}") for option in options]
        np.testing.assert_allclose([one.total for one in ours[i]], [one.sum() for one in theirs], rtol=DIGITS)
        np.testing.assert_allclose([one.mean for one in ours[i]], [one.mean() for one in theirs], rtol=DIGITS)
        right["mean"].append(credit([one.mean() for one in theirs], "ACB"[i]))
        right["sum"].append(credit([one.sum() for one in theirs], "ACB"[i]))
    _, found = measured(folder, "choice", tmp_path / "race.txt")
    for how, credits in right.items():
        assert found[f"accuracy, {how} of log P"] == pytest.approx(np.mean(credits))


def credit(scores: list[float], letter: str) -> float:
    """1 for the right option; a share of it where options are the same text."""
    best = np.isclose(scores, max(scores), rtol=1e-6)
    return best["ABCD".index(letter)] / best.sum()


def test_who_is_meant_by_a_pronoun(folder, script, tmp_path):
    records = [("A dog saw the cat, and [MASK] ran.", "the cat", "the dog", "the dog"),
               ("The mat was good, so [MASK] sat on it.", "the cat", "the mat", "the cat")]  # fmt: skip
    text = "".join(f"{text}\n[MASK]\n{one},{two}\n{right}\n\n" for text, one, two, right in records)
    (tmp_path / "wsc273.txt").write_text(text, encoding="utf-8")
    full, partial = [], []
    for text, one, two, right in records:
        before, after = text.split("[MASK]")
        names = (one, two)
        whole = [script.of("", before + name + after).sum() for name in names]
        rest = [script.of(before + name, after).sum() for name in names]
        full.append(names[int(np.argmax(whole))] == right)
        partial.append(names[int(np.argmax(rest))] == right)
        assert abs(whole[0] - whole[1]) > CLEAR and abs(rest[0] - rest[1]) > CLEAR
    _, found = measured(folder, "winograd", tmp_path / "wsc273.txt")
    assert found["accuracy, full scoring"] == np.mean(full)
    assert found["accuracy, partial scoring"] == np.mean(partial)


def test_the_answers_that_are_written(folder, script, tmp_path):
    """CoQA: the story, the questions and answers before, and A:; the likeliest tokens, up to the end of the line."""
    answers = ["the cat", "it ran", "yes"]
    item = {"story": STORY, "questions": [{"input_text": question} for question in QUESTIONS],
            "answers": [{"input_text": answer} for answer in answers]}  # fmt: skip
    (tmp_path / "coqa.json").write_text(json.dumps({"data": [item]}), encoding="utf-8")
    report, _ = measured(folder, "answer", tmp_path / "coqa.json")
    prompt = STORY + "\n"
    expected = []
    for question, answer in zip(QUESTIONS, answers, strict=True):
        prompt += f"Q: {question}\nA:"
        written = script.greedy(prompt, 30, "\n").strip().split("\n")[0]
        expected.append(" ".join(written.split()))
        prompt += f" {answer}\n"
    assert [" ".join(output.split()) for output in report.outputs] == expected
    assert any(expected)
