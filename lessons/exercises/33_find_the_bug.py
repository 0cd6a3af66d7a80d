"""Exercise 33: find the bug (lesson 33). A batch in two parts whose loss is not that of the batch.

A batch of documents is too large for the memory, so the author goes through it in parts and adds up, as in lesson 11.
In pre-training this was right: the loss and the gradient were those of the whole batch. Since the loss counts responses
only, the training depends on how the batch is cut into parts, and some answers are learned less than others. Say which
ones, before you look for the line; mend it in `loss_in_parts`; run this file again.

Judge it:  python lessons/exercises/33_find_the_bug.py
"""

import numpy as np

from minigpt import ops

IGNORED = -100


def loss_in_parts(logits, targets, n_parts):
    """logits (B,T,V), targets (B,T) -> the loss of the batch (), and its gradient (B,T,V), part by part"""
    loss = 0.0
    gradients = []
    for z, y in zip(np.split(logits, n_parts), np.split(targets, n_parts), strict=True):
        part, cache = ops.cross_entropy_forward(z, y)
        loss += part / n_parts
        gradients.append(ops.cross_entropy_backward(1 / n_parts, cache))
    return loss, np.concatenate(gradients)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def batch(response_lengths, rng, t=12, v=7):
    """Random logits; of each row so many targets count, the last ones."""
    lengths = np.array(response_lengths)
    logits = rng.normal(size=(len(lengths), t, v))
    targets = rng.integers(v, size=(len(lengths), t))
    return logits, np.where(np.arange(t) >= t - lengths[:, None], targets, IGNORED)


def main() -> int:
    """Judge the loss in parts; the exit status."""
    wrong = 0
    for name, lengths in (("all tokens", [12] * 8), ("responses", [1, 1, 2, 1, 9, 10, 8, 11]), ("few", [0, 0, 0, 3])):
        logits, targets = batch(lengths, np.random.default_rng(len(lengths)))
        losses, weights = [], []
        for n_parts in (1, 2, 4):
            loss, gradient = loss_in_parts(logits, targets, n_parts)
            picked = np.take_along_axis(gradient, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
            p, _ = ops.softmax_forward(logits)
            of_target = np.take_along_axis(p, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
            counts = targets != IGNORED
            losses.append(float(loss))
            true = -np.log(of_target[counts]).mean()
            weights.append((picked / (of_target - 1))[counts])  # how much each token that counts has in the gradient
        even = all(np.allclose(one, 1 / counts.sum()) for one in weights)
        same = np.allclose(losses, true)
        wrong += not (even and same)
        print(f"{name:10} loss in 1, 2, 4 parts: {losses[0]:.4f} {losses[1]:.4f} {losses[2]:.4f} (true: {true:.4f}); "
              f"weights of a token in 2 parts: {weights[1].min():.4f} to {weights[1].max():.4f}")  # fmt: skip
    print("mended: each token that counts has the same weight" if not wrong else "this is not right yet")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
