import numpy as np

from minigpt import ops

IGNORED = -100


def loss_in_parts(logits, targets, n_parts):
    """logits (B,T,V), targets (B,T) -> the loss of the batch (), and its gradient (B,T,V), part by part"""
    loss = 0.0
    counted = float((targets != IGNORED).sum())
    gradients = []
    for z, y in zip(np.split(logits, n_parts), np.split(targets, n_parts), strict=True):
        part, cache = ops.cross_entropy_forward(z, y, normalizer=counted)
        loss += part
        gradients.append(ops.cross_entropy_backward(1.0, cache))
    return loss, np.concatenate(gradients)
