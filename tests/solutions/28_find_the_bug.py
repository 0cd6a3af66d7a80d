import numpy as np

START, END = 1, 2


def order_rows(words, seed):
    """words (B,N) -> ids (B,N+3): start, a part, end, the other part, end; labels (B,): 1 where they are exchanged"""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=len(words))
    middle = words.shape[1] // 2
    rows = []
    for text, label in zip(words, labels, strict=True):
        cut = len(text) - middle if label else middle
        earlier, later = text[:cut], text[cut:]
        front, back = (later, earlier) if label else (earlier, later)
        rows.append([START, *front, END, *back, END])
    return np.array(rows), labels
