"""Exercise 11: find the bug. This evaluation does not report the loss that it promises. Run the file to be judged."""

import numpy as np

from minigpt import GPT1, GPT1Config


def evaluate(model, tokens, context):
    """The mean loss over tokens[1:], each predicted once, from non-overlapping windows."""
    losses = []
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context]
        loss, _ = model.loss(window[None, :-1], window[None, 1:], grad=False)
        losses.append(float(loss))
    return np.mean(losses)


def judge():
    config = GPT1Config(vocab_size=5, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = GPT1(config, dtype=np.float64)
    for parameter in model.parameters():
        parameter.data += np.random.default_rng(1).normal(size=parameter.data.shape)
    tokens = np.random.default_rng(2).integers(5, size=8 * 6 + 4)
    total = 0.0
    for start in range(0, len(tokens) - 1, 8):
        window = tokens[None, start : start + 9]
        total += float(model.loss(window[:, :-1], window[:, 1:], normalizer=1, grad=False)[0])
    right, yours = total / (len(tokens) - 1), evaluate(model, tokens, 8)
    if not abs(yours - right) < 1e-12:
        question = "is every token but the first predicted once, and weighted alike?"
        raise SystemExit(f"not yet: yours {yours:.6f}, right {right:.6f}: {question}")


if __name__ == "__main__":
    judge()
    print("right: every token once, every token with the same weight")
