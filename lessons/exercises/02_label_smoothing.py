"""Exercise 02: label smoothing, forward and backward (lesson 02).

The target of cross-entropy is one-hot: probability 1 for the right token, 0 for all others. Szegedy et al. 2016 (arXiv
1512.00567, section 7) smooth it, and the Transformer of Vaswani et al. 2017 (section 5.4) was trained with it. A share
epsilon of the target's probability is spread evenly over all V tokens, the right one included:

    q = (1 - epsilon) onehot(y) + epsilon / V
    loss = mean over the N rows of  - sum_v q[v] ln p[v],      p = softmax(logits)

Replace what is marked "your turn": first the target q, then the backward, one line for each line of the forward that it
undoes. At the end, collapse it on paper to one line, as in section 4 of the lesson. Run this file to see how far you
are:

    python lessons/exercises/02_label_smoothing.py
"""

import numpy as np


def smoothed(onehot, epsilon):
    """onehot (N,V) -> q (N,V): the smoothed target"""
    return None  # your turn: one line


def forward(logits, *, q):
    """logits (N,V), q (N,V): the smoothed target -> loss ()"""
    top = logits.max(axis=-1, keepdims=True)
    s = logits - top
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    log_p = s - np.log(total)
    terms = q * log_p
    loss = -terms.sum() / len(logits)
    return loss


def backward(dloss, v):
    """dloss () -> dlogits (N,V). The values of the forward are v.q, v.e, v.total, ...; top may be a constant."""
    # loss = -terms.sum() / len(logits)
    dterms = None  # your turn, (N,V)
    # terms = q * log_p
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


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


LOGITS = np.array([[2.0, -1.0, 0.5, 0.0], [0.3, 0.2, -0.7, 1.5], [-2.0, 1.0, 1.0, 0.0]])
TARGETS = np.array([0, 2, 1])
BY_PYTORCH = {0.0: 1.3155462, 0.1: 1.3688795, 1.0: 1.8488795}  # epsilon: the loss, by its cross_entropy


def fault_of_target(epsilon: float, expected: float) -> str:
    """What is wrong with the smoothed target, or "" if nothing is; the verdict on its loss is printed."""
    q = smoothed(np.eye(4)[TARGETS], epsilon)
    if q is None:
        return "smoothed returns nothing yet: your turn"
    if np.shape(q) != (3, 4):
        return f"smoothed, epsilon {epsilon}: the shape is {np.shape(q)}, expected (3, 4)"
    if not np.allclose(q.sum(axis=-1), 1):
        return f"smoothed, epsilon {epsilon}: the rows sum to {q.sum(axis=-1).round(3)}, expected 1"
    loss = forward(LOGITS, q=q)
    right = abs(loss - expected) < 1e-6
    print(f"forward, epsilon {epsilon}: loss {loss:.7f}, by PyTorch {expected}: {'right' if right else 'wrong'}")
    return "" if right else "with your target the loss is another one than PyTorch's"


def main() -> int:
    """Judge the three, one after the other; the exit status."""
    from minigpt import gradcheck
    from minigpt.learn import lines

    for epsilon, expected in BY_PYTORCH.items():
        if fault := fault_of_target(epsilon, expected):
            print(fault)
            return 1
    q = smoothed(np.eye(4)[TARGETS], 0.1)
    if lines.exit_status(lines.check(forward, backward, LOGITS, q=q)):
        return 1
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=-1, keepdims=True)
    dlogits = closed_form(p, q)
    if dlogits is None:
        print("closed_form returns nothing yet: your turn")
        return 1
    true = gradcheck.numeric(lambda moved: forward(moved, q=q), LOGITS, np.array(1.0))
    same = np.shape(dlogits) == true.shape and np.allclose(dlogits, true, rtol=0, atol=1e-7)
    print(f"closed form: {'the same as your lines: solved' if same else 'not the same as your lines'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
