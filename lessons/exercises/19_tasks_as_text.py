"""Exercise 19: two attentions by hand, and the last word of a passage (lesson 19, sections 3 and 10).

1. `look_up`: the tiny model of lesson 19 found its two attentions by training. Build them yourself, without any
   training. Choose the queries, keys and values of two layers, so that each symbol finds the labels that belonged to
   the same symbol before. Everything that you need is one-hot: a row of zeros with a single 1.
2. `last_word`: LAMBADA is about the last word of a passage, which may be several tokens. OpenAI scored the last token.
   Compute both.

Replace what is marked "your turn". Then run this file:

    python lessons/exercises/19_tasks_as_text.py
"""

import math

import numpy as np


def attend(q, k, v):
    """q (T,D), k (T,D), v (T,E) -> out (T,E): causal attention with one head, without the factor 1/sqrt(D)"""
    if q is None or k is None or v is None:
        return None
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True) @ v


def look_up(symbols, labels, positions):
    """-> votes (T,2): at the place of a symbol, the average of the labels that followed the same symbol before

    symbols (T,K): row t is one-hot if place t has a symbol, else zeros. labels (T,2): the same for labels.
    positions (T,T): row t is one-hot, with its 1 at t. Symbols and labels take turns: symbol, label, symbol, label, ...
    """
    # layer 1: each place fetches the symbol of the place just before it
    q = None  # your turn; a score of 50 in place of 1 makes softmax choose one key
    k = None  # your turn
    v = None  # your turn
    fetched = attend(q, k, v)
    # layer 2: each symbol looks for the places that have fetched the same symbol
    q = None  # your turn
    k = None  # your turn
    v = None  # your turn
    return attend(q, k, v)


def last_word(logits, ids, n):
    """logits (T,V) of a model that has read ids (T,), whose last n tokens are the last word -> four numbers

    Is the whole word right (1 or 0): is each of its tokens the likeliest? Is the last token right? And -log P of the
    whole word, -log P of the last token, in nats: the perplexity of either is exp of its mean over the passages.
    logits[t] are the scores of token t + 1.
    """
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def judge_look_up(seed, n_symbols, n_pairs):
    """None, or what is wrong with one new document."""
    rng = np.random.default_rng(seed)
    task = rng.integers(2, size=n_symbols)
    drawn = rng.integers(n_symbols, size=n_pairs)
    symbols, labels = np.zeros((2 * n_pairs, n_symbols)), np.zeros((2 * n_pairs, 2))
    symbols[0::2], labels[1::2] = np.eye(n_symbols)[drawn], np.eye(2)[task[drawn]]
    votes = look_up(symbols, labels, np.eye(2 * n_pairs))
    if votes is None:
        return "returns nothing yet"
    if np.shape(votes) != (2 * n_pairs, 2):
        return f"has the shape {np.shape(votes)}, and not {(2 * n_pairs, 2)}"
    letters = "abcdefghijklmnop"
    for i, symbol in enumerate(drawn):
        right = task[symbol]
        lead = votes[2 * i, right] - votes[2 * i, 1 - right]
        if symbol in drawn[:i] and not lead > 0.1:
            seen = " ".join(letters[j] + "-+"[task[j]] for j in drawn[:i])
            given = f"- and + have the votes {votes[2 * i].round(2)}"
            return f"after {seen}, at {letters[symbol]}, {given}, and {'-+'[right]} is right"
    return None


def last_word_cases():
    """Yields what is computed, your answer, the right one."""
    p = np.array([[0.1, 0.6, 0.3], [0.7, 0.2, 0.1], [0.25, 0.25, 0.5], [0.2, 0.5, 0.3]])
    for ids, n, right in (
        ([0, 1, 0, 2], 2, (1, 1, -math.log(0.35), -math.log(0.5))),
        ([0, 1, 1, 2], 2, (0, 1, -math.log(0.1), -math.log(0.5))),
        ([0, 1, 1, 2], 1, (1, 1, -math.log(0.5), -math.log(0.5))),
        ([0, 2, 0, 1], 3, (0, 0, -math.log(0.3 * 0.7 * 0.25), -math.log(0.25))),
    ):
        yield f"ids {ids}, a last word of {n}", last_word(np.log(p) - 3, np.array(ids), n), right


def main() -> int:
    for seed, n_symbols, n_pairs in ((0, 8, 16), (1, 3, 12), (2, 16, 64), (3, 2, 5)):
        wrong = judge_look_up(seed, n_symbols, n_pairs)
        print(f"look_up, {n_symbols} symbols, {n_pairs} pairs: {wrong or 'right'}")
        if wrong:
            return 1
    for what, yours, right in last_word_cases():
        if yours is None:
            print(f"last_word: {what}: returns nothing yet")
            return 1
        if np.shape(yours) != (4,) or not np.allclose(np.array(yours, float), right):
            print(f"last_word: {what}:\nyours is {yours}\nright is {right}")
            return 1
        print(f"last_word: {what}: right")
    print("all of it is right")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
