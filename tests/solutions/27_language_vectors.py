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


def scattered(d, rows, table):
    """The gradient of table[rows]"""
    dtable = np.zeros_like(table)
    np.add.at(dtable, rows, d)
    return dtable


def input_backward(dout, v):
    # out = layernorm(x, g, b)
    dx = ops.layernorm_backward(dout, v.norm)[0]
    dg = ops.layernorm_backward(dout, v.norm)[1]
    db = ops.layernorm_backward(dout, v.norm)[2]
    # x = word + place + language
    dword = dx
    dplace = dx
    dlanguage = dx
    # language = languages[segments]
    dlanguages = scattered(dlanguage, v.segments, v.languages)
    # place = places[positions]
    dplaces = scattered(dplace, v.positions, v.places)
    # word = tokens[ids]
    dtokens = scattered(dword, v.ids, v.tokens)
    return dtokens, dplaces, dlanguages, dg, db
