"""The sum of a residual connection: kernel in residual.cu."""

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import accepts, launch_each


def add_supports(x: Array, y: Array) -> str | None:
    """Arrays of one shape."""
    if x.shape != y.shape:
        return f"it takes two arrays of one shape, not {x.shape} and {y.shape}"
    return accepts(x, y)


def add(x: Array, y: Array) -> Array:
    """x (*), y (*) -> x + y (*)"""
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    y = xp.ascontiguousarray(y)
    return launch_each("residual", "add", xp.empty_like(x), x, y, x.size)
