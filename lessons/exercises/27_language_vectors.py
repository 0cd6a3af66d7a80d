"""Exercise 27: the backward of XLM's input, line by line.

Three vectors are added for each token: of the word, of its position and of its language; then comes a LayerNorm
(Conneau and Lample 2019, figure 1). The positions start again in the second sentence, so a row of the table of
positions is used by both languages. The forward pass stands below. Write the backward pass. Replace every `...`.

Judge it:  python lessons/exercises/27_language_vectors.py
"""

import numpy as np

from minigpt import ops


def input_forward(tokens, places, languages, g, b, ids, positions, segments):
    """tokens (V,C), places (P,C), languages (L,C), g, b (C,), ids, positions, segments (T,) int -> out (T,C)"""
    word = tokens[ids]
    place = places[positions]
    language = languages[segments]
    x = word + place + language
    out, norm = ops.layernorm_forward(x, g, b)
    return out


def input_backward(dout, v):
    # out = layernorm(x, g, b)
    dx = ...  # your turn: (T,C); ops has it
    dg = ...  # your turn: (C,)
    db = ...  # your turn: (C,)
    # x = word + place + language
    dword = ...  # your turn: (T,C)
    dplace = ...  # your turn: (T,C)
    dlanguage = ...  # your turn: (T,C)
    # language = languages[segments]
    dlanguages = ...  # your turn: (L,C)
    # place = places[positions]
    dplaces = ...  # your turn: (P,C)
    # word = tokens[ids]
    dtokens = ...  # your turn: (V,C)
    return dtokens, dplaces, dlanguages, dg, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    V, P, C = 9, 4, 3
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((V, C), (P, C), (2, C), C, C)]
    positions = np.array([0, 1, 2, 3, 0, 1, 2])
    segments = np.array([0, 0, 0, 0, 1, 1, 1])
    results = lines.check(input_forward, input_backward, *arrays, rng.integers(V, size=7), positions, segments)
    raise SystemExit(lines.exit_status(results))
