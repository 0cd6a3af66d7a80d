import numpy as np


def perplexity_per_word(log_p, text):
    """log_p (N,): the log-probability of each of the N tokens of the text -> perplexity per word"""
    return np.exp(-log_p.sum() / len(text.split()))
