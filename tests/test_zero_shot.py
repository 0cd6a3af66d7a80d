"""GPT-1's zero-shot heuristics, against a language model whose probabilities are known."""

import numpy as np
import pytest
from helpers import small_gpt1

from minigpt import tokenizer
from minigpt.data.examples import Example
from minigpt.errors import InputError
from minigpt.evaluation import scoring
from minigpt.evaluation.zero_shot import (
    acceptability_scores,
    best_threshold,
    choice_scores,
    pronoun_scores,
    sentiment_scores,
)

WORDS = "tom mia gave the ball to was very happy sad red and so no he . positive negative".split()
TEXT = tokenizer.GPT1Tokenizer.train(" ".join(WORDS) * 3, 200, pipeline="rules")
MODEL = small_gpt1(vocab_size=TEXT.vocab_size, n_positions=32)


def log_p(context: str, text: str) -> np.ndarray:
    """By the model's own logits, one row at a time."""
    before, after = scoring.opening(TEXT) + TEXT.encode(context), TEXT.encode(text)
    logits, _ = MODEL.forward(np.array([before + after]))
    z = logits[0] - logits[0].max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return np.array([log_p[len(before) + i - 1, token] for i, token in enumerate(after)])


def test_acceptability_is_the_mean_over_all_tokens():
    texts = ["tom gave mia the ball .", "the the so"]
    expected = [log_p("", text).mean() for text in texts]
    assert np.allclose(acceptability_scores(MODEL, TEXT, texts), expected)


def test_the_threshold_parts_what_can_be_parted():
    scores, labels = np.array([-5.0, -4.0, -2.0, -1.0]), np.array([0, 0, 1, 1])
    assert best_threshold(scores, labels) == -3.0
    assert -2 < best_threshold(scores, np.array([0, 0, 0, 1])) < -1
    with pytest.raises(InputError, match="only 1"):
        best_threshold(np.array([1.0, 1.0]), np.array([0, 1]))


def test_sentiment_compares_two_words_after_very():
    found = sentiment_scores(MODEL, TEXT, ["tom was", "mia was so"], ("sad", "happy"))
    expected = [[log_p(f"{text} very", word).sum() for word in ("sad", "happy")] for text in ("tom was", "mia was so")]
    assert np.allclose(found, expected)


def test_a_choice_is_scored_by_the_mean_of_its_own_tokens():
    example = Example(("tom gave mia", "the"), choices=("red ball .", "ball"))
    expected = [[log_p("tom gave mia the", candidate).mean() for candidate in example.choices]]
    assert np.allclose(choice_scores(MODEL, TEXT, [example]), expected)


def test_a_pronoun_is_scored_by_what_follows_it():
    example = Example(("tom gave mia the ball .",), choices=("tom was very happy .", "mia was very happy ."))
    expected = [[log_p(f"tom gave mia the ball . {who}", "was very happy .").mean() for who in ("tom", "mia")]]
    found = pronoun_scores(MODEL, TEXT, [example])
    assert np.allclose(found, expected)
    whole = choice_scores(MODEL, TEXT, [example])
    assert not np.allclose(found, whole), "partial scoring leaves the name itself out"
    with pytest.raises(InputError, match="example 1: its candidates do not end"):
        pronoun_scores(MODEL, TEXT, [Example(("a",), choices=("tom .", "mia !"))])
