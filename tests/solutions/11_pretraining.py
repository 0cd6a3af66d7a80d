import numpy as np

NO_TARGET = -100


def rows_of(texts, width):
    """The texts in their order, as many in each row as fit: a list of rows, each a list of texts."""
    rows, used = [[]], 0
    for one in texts:
        if used + len(one) > width:
            rows.append([])
            used = 0
        rows[-1].append(one)
        used += len(one)
    return rows


def pack(texts, width):
    """texts: lists of ids, each of at most `width` -> ids, targets, positions (B,T), mask (B,1,T,T)

    T is width. mask[b, 0, t, s] is True where position t of row b may see position s. (A position
    of the filling may see what you like, but it must see something: itself, for example.)
    """
    rows = rows_of(texts, width)
    shape = (len(rows), width)
    ids = np.zeros(shape, int)
    targets = np.full(shape, NO_TARGET)
    positions = np.zeros(shape, int)
    number = np.full(shape, -1)  # which text of its row a position belongs to; -1 is filling
    for b, row in enumerate(rows):
        start = 0
        for n, one in enumerate(row):
            stop = start + len(one)
            ids[b, start:stop] = one
            number[b, start:stop] = n
            targets[b, start : stop - 1] = one[1:]
            positions[b, start:stop] = np.arange(len(one))
            start = stop
    mask = ((number[:, :, None] == number[:, None, :]) & np.tri(width, dtype=bool))[:, None]
    return ids, targets, positions, mask


def accumulated_gradient(gradients, targets):
    """gradients (B,V,C): for each row alone, that of the mean loss over its targets; targets (B,T) -> (V,C)

    The result: the gradient of the mean loss over all targets of the batch. A row without targets has the gradient 0.
    """
    counts = (targets != NO_TARGET).sum(axis=1)
    return np.einsum("b,bvc->vc", counts / counts.sum(), gradients)
