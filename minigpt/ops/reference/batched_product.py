"""Products of several matrices at once."""

from minigpt.device.arrays import Array


def batched_product(a: Array, b: Array) -> Array:
    """The product of each matrix of a (*,M,K) with that of b (*,K,N): (*,M,N). Leading axes are broadcast.

    Not a pair: the gradients of a product are products again, dout b^T and a^T dout.
    """
    return a @ b
