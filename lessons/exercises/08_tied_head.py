"""Exercise 08: the tied head, backward.

GPT-1's last step in one: scores = h w^T, where w is the token table, and the cross-entropy of the targets. The forward
stands below. Write the backward in terms of the two backwards that you know. Mind which way round the table went in.
(Lesson 08, sections 3 and 4.)

Judge it:  minigpt check lessons/exercises/08_tied_head.py
"""

from minigpt import ops


def linear_cross_entropy_forward(h, w, targets, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int -> loss ()"""
    scores, head = ops.linear_forward(h, w.T)
    loss, cross_entropy = ops.cross_entropy_forward(scores, targets, weights=weights, normalizer=normalizer)
    return loss, (head, cross_entropy)


def linear_cross_entropy_backward(dloss, cache):
    """dloss () -> dh (*,C), dw (V,C)"""
    head, cross_entropy = cache
    # loss = cross_entropy(scores, targets)
    ...  # your turn: dscores
    # scores = linear(h, w.T)
    ...  # your turn: dh, and dw (V,C), of the shape of w
    return None  # your turn: return dh, dw


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))
