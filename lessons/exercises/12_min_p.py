"""Exercise 12: two rules that the lesson did not print (lesson 12, section 2).

Top-k fixes a number of tokens, the nucleus a share of the probability. Two newer rules fix something else:

* min-p (Nguyen et al. 2024): keep a token where its probability is at least `share` times the largest one.
* typical sampling (Meister et al. 2022): keep the tokens whose surprisal -ln p is nearest to the entropy. Sort by this
  distance, and keep the smallest set whose probability reaches `mass`.

Write both for a batch: logits (B,V), a row for each text, no loop over rows or tokens. What is not kept becomes -inf.
Mind the edges: equal tokens stay or go together under min-p; a logit of -inf has probability 0, and 0 ln 0 counts as 0;
rounding can leave the sum of all probabilities below a mass of 1; at least one token stays.

Judge it:  python lessons/exercises/12_min_p.py
"""

import numpy as np


def probabilities(logits):
    """logits (B,V) -> p (B,V), the softmax; a logit of -inf gives 0"""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def keep_min_p(logits, share):
    """logits (B,V) -> (B,V): less likely than `share` times the likeliest of its row becomes -inf"""
    ...  # your turn


def keep_typical(logits, mass):
    """logits (B,V) -> (B,V): outside the most typical tokens that reach `mass` together, each becomes -inf"""
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def faults_of_min_p(logits, share, kept):
    """What is wrong with the tokens that min-p has kept, by the definition; None where nothing is."""
    for row, stays in zip(probabilities(logits), kept, strict=True):
        if not stays.any():
            return "no token stays"
        for token, value in enumerate(row):
            ratio = value / row.max()
            if abs(ratio - share) > 1e-9 and (ratio > share) != stays[token]:
                return f"of {row.round(3)}, share {share}: token {token} has {ratio:.3f} of the largest"
    return None


def faults_of_typical(logits, mass, kept):
    """The same for typical sampling: three properties that only the right set has."""
    for row, stays in zip(probabilities(logits), kept, strict=True):
        if not stays.any() or row[stays].min() == 0:
            return f"of {row.round(3)}: no token stays, or one that is impossible"
        surprisal = -np.log(row[row > 0])
        distance = np.full(len(row), np.inf)
        distance[row > 0] = np.abs(surprisal - (row[row > 0] * surprisal).sum())
        farthest = distance[stays].max()
        if farthest > distance[~stays].min(initial=np.inf) + 1e-9:
            return f"of {row.round(3)}: a token stays that is less typical than one that goes"
        if row[stays].sum() < mass - 1e-9:
            return f"of {row.round(3)}: {row[stays].sum():.3f} stays together, less than {mass}"
        if mass < 1 and row[stays].sum() - row[stays & (distance == farthest)].min() >= mass + 1e-9:
            return f"of {row.round(3)}: the set reaches {mass} without its last token too"
    return None


def answer_of(name, logits, setting):
    """What the reader's function keeps."""
    return keep_min_p(logits, setting) if name == "keep_min_p" else keep_typical(logits, setting)


def judge(name, faults, settings):
    """Try a rule on random rows, on two special ones, and on one that has lost tokens already."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(40, 9)) * 3, np.zeros((1, 5)), np.array([[0.0, 50.0, 0.0, 1.0]])]
    rows.append(np.where(rng.random((20, 9)) < 0.3, -np.inf, rng.normal(size=(20, 9))))
    for logits in rows:
        for setting in settings:
            before = logits.copy()
            answer = answer_of(name, logits, setting)
            if answer is None:
                raise SystemExit(f"{name}: returns nothing yet")
            if not np.array_equal(before, logits):
                raise SystemExit(f"{name}: it changes its input")
            if np.shape(answer) != logits.shape:
                raise SystemExit(f"{name}: shape {np.shape(answer)}, but the logits have {logits.shape}")
            kept = answer > -np.inf
            if not np.array_equal(answer[kept], logits[kept]):
                raise SystemExit(f"{name}: what stays must keep its logit, and all others become -inf")
            if fault := faults(logits, setting, kept):
                raise SystemExit(f"{name}({setting}): {fault}")
    print(f"{name}: right")


if __name__ == "__main__":
    judge("keep_min_p", faults_of_min_p, (0.05, 0.3, 1.0))
    judge("keep_typical", faults_of_typical, (0.1, 0.5, 0.9, 1.0))
    print("all of it is right")
    raise SystemExit(0)
