"""What a language model can do before fine-tuning: the four heuristics of GPT-1 (section 5), on labelled examples.

Each gives a score to every possible answer, from the log-probabilities of tokens. Nothing is learned, except one
threshold. The same questions as files of text, with a report for people, stand in `tasks_as_text`.
"""

import os
from collections.abc import Sequence

import numpy as np

from minigpt.data.examples import Example
from minigpt.errors import InputError
from minigpt.evaluation.metrics import matthews
from minigpt.evaluation.scoring import Pair, Scored, continuations, score_choices
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


def acceptability_scores(model: LanguageModel, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """(N,): the mean log-probability per token of each text, in nats.

    A text with a score above a threshold counts as acceptable English. Raises InputError for a text without tokens.
    """
    pairs = [("", text) for text in texts]
    scored = continuations(model, tokenizer, pairs)
    return np.array([one.mean for one in scored])


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """The threshold for which `scores > threshold` has the highest Matthews' correlation with the labels.

    scores (N,), labels (N,): 0 or 1. GPT-1 does not report how its threshold was chosen; choose it on labelled examples
    that are not used to judge the model. Raises InputError where all scores are equal.
    """
    levels = np.unique(scores)  # sorted
    if len(levels) < 2:
        raise InputError(f"a threshold lies between scores, and there is only {len(levels)}: give more examples")
    thresholds = (levels[1:] + levels[:-1]) / 2
    correlations = []
    for threshold in thresholds:
        predictions = (scores > threshold).astype(int)
        correlations.append(matthews(predictions, labels))
    best = int(np.argmax(correlations))
    return float(thresholds[best])


def sentiment_scores(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    words: Sequence[str] = ("negative", "positive"),
    prompt: str = " very",
) -> np.ndarray:
    """(N,K): the log-probability, in nats, of each of K words after the text and the prompt.

    The words and the prompt of the paper are the default. Raises InputError for a word without tokens.
    """
    questions = []
    for text in texts:
        choices = [(text + prompt, f" {word}") for word in words]
        questions.append(choices)
    scored = score_choices(model, tokenizer, questions)
    return np.array([[one.total for one in choices] for choices in scored])


def choice_scores(model: LanguageModel, tokenizer: Tokenizer, examples: Sequence[Example]) -> np.ndarray:
    """(N,K): the mean log-probability per token, in nats, of each candidate after the context and the question.

    examples: N multiple choices of K candidates. Raises InputError for a candidate without tokens.
    """
    questions = []
    for example in examples:
        context = " ".join(example.texts)
        choices = [(context, f" {candidate}") for candidate in example.choices]
        questions.append(choices)
    return _means(score_choices(model, tokenizer, questions))


def pronoun_scores(model: LanguageModel, tokenizer: Tokenizer, examples: Sequence[Example]) -> np.ndarray:
    """(N,K): the mean log-probability per token, in nats, of the words with which all candidates end.

    examples: N multiple choices of K candidates, which differ in the name that replaces a pronoun, and end alike. Only
    what follows the name is scored (partial scoring), so that a rare name is no disadvantage. Raises InputError for
    candidates that do not end with the same words.
    """
    questions = []
    for number, example in enumerate(examples, 1):
        choices = _name_and_rest(example)
        if not choices:
            shown = " / ".join(example.choices)
            raise InputError(f"example {number}: its candidates do not end with the same words: {shown}")
        questions.append(choices)
    return _means(score_choices(model, tokenizer, questions))


def _name_and_rest(example: Example) -> list[Pair]:
    """For each candidate, (the texts and its own words, the words shared by all); nothing where none are shared."""
    backwards = [candidate.split(" ")[::-1] for candidate in example.choices]
    n_shared = len(os.path.commonprefix(backwards))
    if n_shared == 0:
        return []
    pairs = []
    for words in backwards:
        own = " ".join(words[n_shared:][::-1])
        shared = " ".join(words[:n_shared][::-1])
        context = " ".join([*example.texts, own])
        pairs.append((context, f" {shared}"))
    return pairs


def _means(scored: Sequence[Sequence[Scored]]) -> np.ndarray:
    """(N,K): the mean log-probability per token of each choice."""
    return np.array([[one.mean for one in choices] for choices in scored])
