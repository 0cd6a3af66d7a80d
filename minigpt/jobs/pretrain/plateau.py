"""A run that has come to rest as a table of token frequencies: noticed, and told with what helps.

A table of frequencies gives each token the share that it has among the training tokens, whatever stands before it. Its
loss on these tokens is their entropy, the *unigram entropy* -sum p ln p, in nats. Every run passes this level on its
way down. Most of all a post-LN model, such as GPT-1, can come to rest there: while it learns the frequencies its hidden
vectors become the same at every place, and hardly any gradient is left to tell them apart. New weights that are wide
enough for the width prevent it (`models.card.as_wide_as_the_paper`), a slow warm-up or a lower rate make it rarer.

All is read from the rows of loss.csv, so a run that was resumed says what it would have said.
"""

from collections.abc import Sequence

import numpy as np

from minigpt.jobs.pretrain.settings import PretrainOptions, usual_rate, usual_warmup

NEAR = 0.03  # of the unigram entropy: a loss that is no further away is near that of the table
STEADY = 0.01  # of it: a loss that is lower by more, or has fallen by more, is on its way down
SHARE = 0.1  # of the run: how long the loss stays there before it is told
LEAST = 80  # updates: a sound run, of any length, is past that level in fewer
PIECE = 1 << 24  # tokens that are counted at a time


def unigram_entropy(tokens: np.ndarray, vocab_size: int) -> float:
    """tokens (N,) integers below vocab_size -> the entropy of their frequencies, in nats.

    It is the loss of a table of frequencies on the tokens that it was counted on. On other tokens its loss is a little
    higher, and infinite if one of them was never counted; so a run compares its training loss with it.
    """
    counts = np.zeros(vocab_size, np.int64)
    for start in range(0, len(tokens), PIECE):
        counts += np.bincount(tokens[start : start + PIECE], minlength=vocab_size)
    shares = counts[counts > 0] / counts.sum()
    return float((shares * np.log(1 / shares)).sum())


def is_at_plateau(rows: Sequence[dict], entropy: float, steps: int) -> bool:
    """Has the training loss stayed at the unigram entropy for a tenth of the run, and for at least 80 updates?

    rows: of loss.csv up to now. steps: updates of the whole run. The two halves of this time are compared, each by its
    mean: neither may be more than 3 % above the entropy, nor 1 % below it, for whatever is below uses what stands
    before a token; and the loss may not fall by 1 % from one to the other. After the last update a tenth of the run is
    enough, however short, and 3 % to both sides: what is there has learned hardly more. A text of a single token, whose
    entropy is 0, has nothing more to learn.
    """
    if not rows or entropy == 0:
        return False
    now = rows[-1]["step"]
    ended = now >= steps
    lasting = SHARE * steps if ended else max(SHARE * steps, LEAST)
    begin = now - lasting
    if begin < 0:
        return False
    middle = now - lasting / 2
    first = _mean_loss(rows, begin, middle) / entropy - 1
    second = _mean_loss(rows, middle, now) / entropy - 1
    if ended:
        return max(abs(first), abs(second)) <= NEAR
    falls = first - second > STEADY
    return not falls and min(first, second) >= -STEADY and max(first, second) <= NEAR


def _mean_loss(rows: Sequence[dict], after: float, until: float) -> float:
    """The mean training loss of the rows of these steps; infinite where there are none."""
    losses = []
    for row in reversed(rows):
        if row["step"] <= after:
            break
        if row["step"] <= until and row["train_loss"] is not None:
            losses.append(row["train_loss"])
    return sum(losses) / len(losses) if losses else float("inf")


def warning(entropy: float, options: PretrainOptions) -> str:
    """What a plateau is, and what helps."""
    return (
        f"the training loss stays at {entropy:.2f}, that of a table of token frequencies: the model does not use what "
        f"stands before a token. What helps: a new run with {cure(options)}"
    )


def cure(options: PretrainOptions) -> str:
    """The options of a run that would not stay there."""
    warmup = usual_warmup(options)
    rate = usual_rate(options)
    changes = []
    if options.warmup < warmup:
        changes.append(f"--warmup {warmup}")
    if options.lr > rate:
        changes.append(f"--lr {rate:.2g}")
    return " ".join(changes) or f"--lr {options.lr / 2:.2g}, or with more --steps"
