"""Exercise 11: short texts packed into the rows of a batch (lesson 11, sections 2 and 4).

Texts have different lengths. With one text in each row, most of a batch would be empty. So several
texts are packed into one row, one behind the other. A row in which the next text does not fit any
more is filled up with id 0. Three things must then be so, as if each text stood in a row alone:

1. *targets*: a target is the next token of the same text. The last token of a text has no target,
   and filling has none: the target there is -100, which the library leaves out of the loss.
2. *positions*: each text counts its own positions from 0.
3. *mask*: a position sees itself and earlier positions of its own text, and nothing else.

Then write `accumulated_gradient`: the batch goes through the model row by row, and each row has
given the gradient of its own mean loss. The rows have different numbers of targets.

Judge it:  python lessons/exercises/11_pretraining.py
"""

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
            ...  # your turn: targets and positions of this text
            start = stop
    mask = None  # your turn: from `number`, with all rows at once
    return ids, targets, positions, mask


def accumulated_gradient(gradients, targets):
    """gradients (B,V,C): for each row alone, that of the mean loss over its targets; targets (B,T) -> (V,C)

    The result: the gradient of the mean loss over all targets of the batch. A row without targets has the gradient 0.
    """
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def judge():
    """What is still wrong, or "" if nothing is."""
    from minigpt import GPT1, GPT1Config

    rng = np.random.default_rng(0)
    texts = [rng.integers(1, 11, size=n).tolist() for n in (5, 3, 7, 2, 4, 8, 1)]
    ids, targets, positions, mask = pack(texts, 8)
    if mask is None or (targets == NO_TARGET).all():
        return "pack returns nothing in mask or in targets yet: your turn"
    if mask.shape != (len(ids), 1, 8, 8) or mask.dtype != bool:
        return f"mask is {mask.dtype} of shape {mask.shape}, expected bool of {(len(ids), 1, 8, 8)}"
    model = GPT1(GPT1Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2), dtype=np.float64)
    for parameter in model.parameters():
        parameter.data += 0.5 * rng.normal(size=parameter.data.shape)
    expected = sum(len(one) - 1 for one in texts)
    if (found := (targets != NO_TARGET).sum()) != expected:
        return f"{found} targets; seven texts of {sum(map(len, texts))} tokens have {expected}"
    alone, together = losses(model, texts, ids, targets, positions, mask)
    if not np.isclose(alone, together, rtol=1e-12):
        return f"the loss is {together:.6f}; with every text in a row alone it is {alone:.6f}"
    gradient = accumulated_gradient(row_by_row(model, ids, targets, positions, mask), targets)
    if gradient is None:
        return "pack is right; accumulated_gradient returns nothing yet: your turn"
    if np.shape(gradient) != model.head.data.shape:
        return f"the gradient has shape {np.shape(gradient)}, expected {model.head.data.shape}"
    if not np.isfinite(gradient).all():
        return "the gradient has entries that are no numbers: one row of this batch has no target"
    error = difference(model, gradient, ids, targets, positions, mask)
    if error > 1e-6:
        return f"the gradient is {error:.1%} off (finite differences of the loss of the whole batch)"
    return ""


def row_by_row(model, ids, targets, positions, mask):
    """For each row, the gradient of the token table for the mean loss over this row's targets."""
    gradients = []
    for b in range(len(ids)):
        row = slice(b, b + 1)
        model.zero_grad()
        counted = max(1, int((targets[row] != NO_TARGET).sum()))
        _, cache = model.loss(ids[row], targets[row], normalizer=counted, positions=positions[row], mask=mask[row])
        model.loss_backward(cache)
        gradients.append(model.head.grad.copy())
    return np.array(gradients)


def losses(model, texts, ids, targets, positions, mask):
    """The summed loss of the texts, each by itself, over the number of targets; and that of the packed batch."""
    total = 0.0
    for one in texts:
        if len(one) > 1:
            given, following = np.array([one[:-1]]), np.array([one[1:]])
            total += (len(one) - 1) * float(model.loss(given, following, grad=False)[0])
    alone = total / sum(len(one) - 1 for one in texts)
    together = float(model.loss(ids, targets, grad=False, positions=positions, mask=mask)[0])
    return alone, together


def difference(model, gradient, ids, targets, positions, mask):
    """The relative error of some entries of the gradient against finite differences."""
    table = model.head.data
    largest = np.abs(gradient).max()
    worst = 0.0
    for entry in [(1, 0), (4, 3), (7, 7), (10, 2)]:
        sides = []
        for step in (1e-5, -1e-5):
            table[entry] += step
            sides.append(float(model.loss(ids, targets, grad=False, positions=positions, mask=mask)[0]))
            table[entry] -= step
        worst = max(worst, abs((sides[0] - sides[1]) / 2e-5 - gradient[entry]) / largest)
    return worst


if __name__ == "__main__":
    if wrong := judge():
        raise SystemExit(f"not yet: {wrong}")
    print("right: packed or alone, in one batch or row by row, the loss and its gradient are the same")
    raise SystemExit(0)
