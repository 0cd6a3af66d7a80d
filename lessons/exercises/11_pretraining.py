"""Exercise 11: batches, and a batch that does not fit. Fill in the lines, then run this file: it judges itself."""

import numpy as np

from minigpt import GPT1, GPT1Config


def batch(tokens, batch_size, context, seed, step):
    """tokens (N,) -> ids (B,T), targets (B,T): random windows, a function of (seed, step).

    Every start that leaves room for context targets must be possible, the last one too.
    """
    rng = np.random.default_rng([seed, step])
    starts = ...  # your turn
    ids = ...  # your turn
    targets = ...  # your turn
    return ids, targets


def accumulated_gradient(model, parts):
    """parts: a list of (ids, targets) of different sizes -> the head's gradient of the mean loss over all targets."""
    model.zero_grad()
    ...  # your turn
    return model.head.grad


def judge():
    tokens = np.arange(50) % 7
    ids, targets = batch(tokens, 400, 9, 3, 1)
    if ids is ... or targets is ...:
        raise SystemExit("not yet: batch returns nothing yet")
    assert ids.shape == targets.shape == (400, 9), f"shapes {ids.shape} and {targets.shape}, expected (400, 9)"
    assert (ids[:, 1:] == targets[:, :-1]).all(), "a target is the token after the one that is seen"
    assert (targets[:, -1] == (ids[:, 0] + 9) % 7).all(), "windows must be contiguous"
    starts = {tuple(row) for row in batch(np.arange(20), 2000, 5, 0, 0)[0]}
    assert len(starts) == 15, f"{len(starts)} different windows of 5 + 1 come out of 20 tokens; there are 15"
    assert (batch(tokens, 400, 9, 3, 1)[0] == ids).all(), "the same (seed, step) must give the same batch"

    model = GPT1(GPT1Config(vocab_size=7, n_positions=9, n_embd=8, n_layer=1, n_head=2), dtype=np.float64)
    gradient = accumulated_gradient(model, [(ids[:2], targets[:2]), (ids[2:9], targets[2:9])])
    if gradient is None:
        raise SystemExit("not yet: accumulated_gradient returns nothing yet")
    gradient = gradient.copy()
    model.zero_grad()
    _, cache = model.loss(ids[:9], targets[:9])
    model.loss_backward(cache)
    ratio = np.abs(gradient - model.head.grad).max() / np.abs(model.head.grad).max()
    assert ratio < 1e-12, f"the gradient is {ratio:.1%} off: by what number does each part divide?"


if __name__ == "__main__":
    try:
        judge()
    except AssertionError as error:
        raise SystemExit(f"not yet: {error}") from None
    print("both are right")
