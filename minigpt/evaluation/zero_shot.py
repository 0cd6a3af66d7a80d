"""What a language model knows before fine-tuning: GPT-1's four heuristics (section 5), on labelled examples.

Each gives a score to every answer, from the log-probabilities of tokens; nothing is learnt, but for one threshold.
"""

import os
from collections.abc import Sequence

import numpy as np

from minigpt.data.examples import Example
from minigpt.errors import InputError
from minigpt.evaluation import metrics
from minigpt.evaluation.scoring import continuations
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


def acceptability_scores(model: LanguageModel, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """(N,): the mean log-probability per token of each text, in nats. Above a threshold it passes for English."""
    return np.array([one.mean for one in continuations(model, tokenizer, [("", text) for text in texts])])


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """The score above which to say 1, so that Matthews' correlation with the labels is highest.

    GPT-1 does not say how it chose its own: take labelled examples for this that are not those to be judged.
    """
    order = np.sort(np.unique(scores))
    if len(order) < 2:
        raise InputError(f"a threshold lies between scores, and there is only {len(order)}: give more examples")
    between = (order[1:] + order[:-1]) / 2
    return float(max(between, key=lambda t: metrics.matthews((scores > t).astype(int), labels)))


def sentiment_scores(
    model: LanguageModel, tokenizer: Tokenizer, texts: Sequence[str], words: Sequence[str] = ("negative", "positive"),
    prompt: str = " very",
) -> np.ndarray:
    """(N,K): the log-probability of each word after the text and `very`; the paper's words are the default."""
    pairs = [(text + prompt, f" {word}") for text in texts for word in words]
    scored = continuations(model, tokenizer, pairs)
    return np.array([one.total for one in scored]).reshape(len(texts), len(words))


def choice_scores(model: LanguageModel, tokenizer: Tokenizer, examples: Sequence[Example]) -> np.ndarray:
    """(N,K): the mean log-probability of each candidate's tokens, given context and question."""
    pairs = [(" ".join(example.texts), f" {candidate}") for example in examples for candidate in example.choices]
    means = [one.mean for one in continuations(model, tokenizer, pairs)]
    return np.array(means).reshape(len(examples), -1)


def pronoun_scores(model: LanguageModel, tokenizer: Tokenizer, examples: Sequence[Example]) -> np.ndarray:
    """(N,K): candidates that differ in who is meant, and end alike: the mean log-probability of what they share.

    Partial scoring: each name is substituted for the pronoun, and only the rest after it counts, so that a rare name
    is no handicap. Raises InputError for candidates that do not end with the same words.
    """
    pairs = []
    for number, (texts, _, choices) in enumerate(examples, 1):
        backwards = [choice.split(" ")[::-1] for choice in choices]
        shared = len(os.path.commonprefix(backwards))
        if shared == 0:
            raise InputError(f"example {number}: its candidates do not end with the same words: {' / '.join(choices)}")
        for words in backwards:
            head, rest = " ".join(words[shared:][::-1]), " ".join(words[:shared][::-1])
            pairs.append((" ".join([*texts, head]), f" {rest}"))
    means = [one.mean for one in continuations(model, tokenizer, pairs)]
    return np.array(means).reshape(len(examples), -1)
