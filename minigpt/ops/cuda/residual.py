"""The sum of a residual connection: kernel in residual.cu."""

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import launch_each, ours


def add(x: Array, y: Array) -> Array:
    """x (*), y (*) -> x + y (*); by a kernel, where they are CuPy's

    No operation of the table: there is nothing to keep, and the backward pass of a sum is no more than to use its
    gradient twice. Where two gradients meet they are added by this again.
    """
    if not ours(x, y) or x.shape != y.shape:
        return x + y
    xp = array_module(x)
    x, y = xp.ascontiguousarray(x), xp.ascontiguousarray(y)
    return launch_each("residual", "add", xp.empty_like(x), x, y, x.size)
