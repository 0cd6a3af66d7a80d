"""Exercise 08: find the bug. GPT-1 without its blocks: scores = LN(tokens[ids] + positions) tokens^T, and their loss.

Its author checked every gradient, entry by entry, and all were happy. The batch had one sequence. Run this file, read
what a batch of two says, and mend the backward. (Lesson 08, section 3.)

Judge it:  python lessons/exercises/08_find_the_bug.py
"""

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
        dpositions[: len(sequence)] = sequence
    dtokens = dtokens + ops.embedding_backward(dsum, c1)
    return dtokens, dpositions, dg, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt import gradcheck

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((7, 4), (5, 4), 4, 4)]
    for batch in (1, 2):
        ids, targets = rng.integers(0, 7, size=(2, batch, 3))
        results = gradcheck.check(model_forward, model_backward, (*arrays, ids, targets))
        print(f"a batch of {batch}")
        print(gradcheck.table(results))
        wrong = [result.name for result in results if result.word != "happy"]
        if wrong:
            raise SystemExit(f"not yet: the gradient of {', '.join(wrong)} is wrong")
    print("right: all gradients, for both batches")
    raise SystemExit(0)
