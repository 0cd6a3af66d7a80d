import numpy as np

MASK = 0


def fragments(text, n, seed):
    """text (B,T) int -> source (B,T), decoder input (B,n), targets (B,n), and the decoder's positions (B,n)"""
    rng = np.random.default_rng(seed)
    b, t = text.shape
    first = rng.integers(t - n + 1, size=(b, 1))
    places = first + np.arange(n)
    targets = np.take_along_axis(text, places, axis=1)
    source = text.copy()
    np.put_along_axis(source, places, MASK, axis=1)
    seen = np.concatenate([np.full((b, 1), MASK), targets[:, :-1]], axis=1)
    positions = places
    return source, seen, targets, positions
