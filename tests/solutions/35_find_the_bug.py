import numpy as np


def step(word_counts, p):
    """word_counts {word: how often}, p {piece: probability} -> (log-likelihood under p, the probabilities after it)"""
    counts = dict.fromkeys(p, 0.0)
    log_likelihood = 0.0
    for word, n in word_counts.items():
        places = len(word) + 1
        arrows = [(i, j, word[i:j]) for i in range(places) for j in range(i + 1, places) if word[i:j] in p]
        before = np.zeros(places)
        after = np.zeros(places)
        before[0] = after[-1] = 1
        for begin, end, piece in arrows:
            before[end] += before[begin] * p[piece]
        for begin, end, piece in reversed(arrows):
            after[begin] += p[piece] * after[end]
        log_likelihood += n * np.log(before[-1])
        for begin, end, piece in arrows:
            counts[piece] += n * before[begin] * p[piece] * after[end] / before[-1]
    total = sum(counts.values())
    return log_likelihood, {piece: count / total for piece, count in counts.items()}
