import numpy as np

IGNORED = -100


def fill_in(ids, targets, p, seed):
    """ids (B,T), targets (B,T), p (B,T,V) -> seen (B,T), with a drawn word wherever there is a target"""
    rng = np.random.default_rng(seed)
    chance = rng.random(ids.shape)
    words = (p.cumsum(axis=-1) <= chance[..., None]).sum(axis=-1)
    return np.where(targets == IGNORED, ids, words)
