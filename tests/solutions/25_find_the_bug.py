import numpy as np

from minigpt import ops

CELLS = 4
draw = np.random.default_rng(0)
TABLE = draw.normal(size=(10, 3))  # a vector for each token; token 0 fills up
W, U, B = (draw.normal(size=size) for size in ((3, 4 * CELLS), (CELLS, 4 * CELLS), 4 * CELLS))


def from_the_right(ids, lengths):
    """ids (B,T), lengths (B,) -> h (B,T,H): the state at each place, which has read from the end of its text to it"""
    x = TABLE[ids]
    places = (lengths[:, None] - 1 - np.arange(ids.shape[1])) % ids.shape[1]
    turned = np.take_along_axis(x, places[..., None], axis=1)
    out, _ = ops.lstm_forward(turned, W, U, B, np.zeros((len(x), 2 * CELLS)))
    h = np.take_along_axis(out[..., :CELLS], places[..., None], axis=1)
    return h * (np.arange(ids.shape[1]) < lengths[:, None])[..., None]
