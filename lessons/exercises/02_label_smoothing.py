"""Exercise 02: label smoothing, forward and backward (lesson 02).

The target of cross-entropy is one-hot: probability 1 for the right token, 0 for all others. Szegedy et al. 2016 (arXiv
1512.00567, section 7) smooth it, and the Transformer of Vaswani et al. 2017 (section 5.4) was trained with it. A share
epsilon of the target's probability is spread evenly over all V tokens, the right one included:

    q = (1 - epsilon) onehot(y) + epsilon / V
    loss = mean over the N rows of  - sum_v q[v] ln p[v],      p = softmax(logits)

Replace what is marked "your turn": first the forward, then the backward, one line for each line that it undoes. At the
end, collapse it on paper to one line, as in section 4 of the lesson. Run this file to see how far you are:

    python lessons/exercises/02_label_smoothing.py
"""

import numpy as np

from minigpt.learn import lines


def forward(logits, targets, *, epsilon):
    """logits (N,V), targets (N,) int -> loss ()"""
    top = logits.max(axis=-1, keepdims=True)
    s = logits - top
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    log_p = s - np.log(total)
    onehot = np.eye(logits.shape[-1])[targets]
    q = None  # your turn, (N,V): the smoothed target
    terms = None  # your turn, (N,V): what the loss adds up
    loss = None  # your turn, (): minus the sum of the terms, over N
    return loss


def backward(dloss, v):
    """dloss () -> dlogits (N,V). The values of the forward are v.q, v.e, v.total, ...; top may be a constant."""
    # loss = ...
    dterms = None  # your turn, (N,V)
    # terms = ...
    dlog_p = None  # your turn, (N,V)
    # log_p = s - np.log(total)
    ds = None  # your turn, (N,V): the direct part
    dtotal = None  # your turn, (N,1): one total serves a whole row of log_p
    # total = e.sum(axis=-1, keepdims=True)
    de = None  # your turn, (N,V)
    # e = np.exp(s)
    ds = None  # your turn: what there was, and what comes through e
    # s = logits - top
    dlogits = ds
    return dlogits


def closed_form(p, q):
    """p (N,V), q (N,V) -> dlogits (N,V), for dloss = 1"""
    return None  # your turn: one line


LOGITS = np.array([[2.0, -1.0, 0.5, 0.0], [0.3, 0.2, -0.7, 1.5], [-2.0, 1.0, 1.0, 0.0]])
TARGETS = np.array([0, 2, 1])
BY_PYTORCH = {0.0: 1.3155462, 0.1: 1.3688795, 1.0: 1.8488795}  # epsilon: the loss, by its cross_entropy


def main() -> int:
    """Judge the three, one after the other; the exit status."""
    for epsilon, expected in BY_PYTORCH.items():
        loss = forward(LOGITS, TARGETS, epsilon=epsilon)
        if loss is None:
            print("forward returns nothing yet: your turn")
            return 1
        right = np.shape(loss) == () and abs(loss - expected) < 1e-6
        verdict = "right" if right else "wrong"
        print(f"forward, epsilon {epsilon}: loss {np.round(loss, 7)}, by PyTorch {expected}: {verdict}")
        if not right:
            return 1
    v = lines.run(forward, LOGITS, TARGETS, epsilon=0.1)
    results = lines.check(forward, backward, LOGITS, TARGETS, epsilon=0.1)
    if lines.exit_status(results):
        return 1
    dlogits = closed_form(v.e / v.total, v.q)
    if dlogits is None:
        print("closed_form returns nothing yet: your turn")
        return 1
    by_lines = backward(1.0, v)
    same = np.shape(dlogits) == by_lines.shape and np.allclose(dlogits, by_lines, rtol=0, atol=1e-12)
    print(f"closed form: {'the same as your lines: solved' if same else 'not the same as your lines'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
