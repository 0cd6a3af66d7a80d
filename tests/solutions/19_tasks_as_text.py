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
    q = 50 * np.eye(len(positions), k=-1)
    k = positions
    v = symbols
    fetched = attend(q, k, v)
    # layer 2: each symbol looks for the places that have fetched the same symbol
    q = 50 * symbols
    k = fetched
    v = labels
    return attend(q, k, v)


def last_word(logits, ids, n):
    """logits (T,V) of a model that has read ids (T,), whose last n tokens are the last word -> four numbers

    Is the whole word right (1 or 0): is each of its tokens the likeliest? Is the last token right? And -log P of the
    whole word, -log P of the last token, in nats: the perplexity of either is exp of its mean over the passages.
    logits[t] are the scores of token t + 1.
    """
    rows = logits[-n - 1 : -1]
    word = ids[-n:]
    log_p = rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    costs = -log_p[np.arange(n), word]
    right = rows.argmax(axis=-1) == word
    return int(right.all()), int(right[-1]), costs.sum(), costs[-1]
