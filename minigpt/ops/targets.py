"""Targets: what a model is to predict; and whether targets and ids are in range."""

from minigpt.device.arrays import Array
from minigpt.errors import InputError

IGNORED = -100  # a target that is not predicted


def check_targets(logits: Array, targets: Array) -> None:
    """Raises InputError for targets of another shape than the rows of logits, or out of range. logits (*,V)."""
    if targets.shape != logits.shape[:-1]:
        raise InputError(
            f"targets of shape {targets.shape} do not fit logits of shape {logits.shape}: "
            "give one target for each row of logits"
        )
    if not targets.size:
        return
    y = targets.reshape(-1)
    vocabulary = logits.shape[-1]
    negative = (y < 0) & (y != IGNORED)
    too_large = int(y.max()) >= vocabulary
    if too_large or bool(negative.any()):
        given = f"{int(y.min())} to {int(y.max())}"
        raise InputError(f"targets must be -100 or 0 to {vocabulary - 1}: got {given}")


def check_ids(w: Array, ids: Array) -> None:
    """Raises InputError where an id is no row of the table w (V,C), also on a GPU, where it would wrap around."""
    if not ids.size:
        return
    for extreme in (int(ids.min()), int(ids.max())):
        if not 0 <= extreme < len(w):
            raise InputError(f"token id {extreme} is out of range: the table has {len(w)} rows")
