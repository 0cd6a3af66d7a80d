"""What a mask and a bias of attention must look like: every implementation takes the same ones."""

from minigpt.device.arrays import Array

Shape = tuple[int, ...]


def problem(mask: Array | None, bias: Array | None, scores: Shape) -> str | None:
    """What is wrong with a mask or a bias for scores of this shape, in one sentence; None where both can be used.

    A mask of numbers is refused: 0 and -inf, as other libraries add them, would be read upside down as booleans.
    """
    if mask is not None and mask.dtype != bool:
        return f"a mask of {mask.dtype}: give booleans, True where a query may see a key, or give it as the bias"
    return problem_of_shape("mask", mask, scores) or problem_of_shape("bias", bias, scores)


def problem_of_shape(name: str, array: Array | None, scores: Shape) -> str | None:
    """Why this array cannot be broadcast to scores of this shape; None where it can, or where there is none."""
    if array is None or broadcasts(array.shape, scores):
        return None
    return f"a {name} of shape {array.shape} does not broadcast to {scores}: queries and keys are the last axes"


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether an array of this shape can be broadcast to another shape."""
    if len(shape) > len(to):
        return False
    missing = len(to) - len(shape)
    for n, m in zip(shape, to[missing:], strict=True):
        if n not in (1, m):
            return False
    return True
