import numpy as np

from minigpt import ops


def model_forward(tokens, positions, g, b, ids, targets):
    """tokens (V,C), positions (T,C), g (C,), b (C,), ids (B,T) int, targets (B,T) int -> loss ()"""
    e, c1 = ops.embedding_forward(tokens, ids)
    h, c2 = ops.layernorm_forward(e + positions[: ids.shape[1]], g, b)
    loss, c3 = ops.linear_cross_entropy_forward(h, tokens, targets)
    return loss, (c1, c2, c3, positions)


def model_backward(dloss, cache):
    """dloss () -> dtokens (V,C), dpositions (T,C), dg (C,), db (C,)"""
    c1, c2, c3, positions = cache
    dh, dtokens, _ = ops.linear_cross_entropy_backward(dloss, c3)
    dsum, dg, db = ops.layernorm_backward(dh, c2)
    dpositions = np.zeros_like(positions)
    for sequence in dsum:
        dpositions[: len(sequence)] += sequence
    dtokens = dtokens + ops.embedding_backward(dsum, c1)
    return dtokens, dpositions, dg, db
