import numpy as np

MASK, IGNORED = 0, -100


def cover(ids, chance, rate=0.15):
    """ids (B,T) -> what the model sees (B,T), and targets (B,T): the covered tokens, elsewhere IGNORED

    chance (B,T): random numbers from 0 to 1; a token is covered where its number is below the rate.
    """
    chosen = chance < rate
    seen = ids.copy()
    seen[chosen] = MASK
    targets = np.where(chosen, ids, IGNORED)
    return seen, targets


def two_epochs(ids, chances):
    """Given: what `cover` gives for the same texts in two epochs, one after the other. chances (2,B,T)"""
    return [cover(ids, chance) for chance in chances]
