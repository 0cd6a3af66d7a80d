import numpy as np


def stochastic(x, u):
    """x float32 -> float32 numbers whose lower 16 bits are 0

    u, as large as x: random numbers, uniform from 0 (included) to 1 (excluded).
    """
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    result = (bits + np.floor(65536 * u).astype(np.uint64)) & np.uint64(0xFFFF0000)
    if result is None:
        return None
    return result.astype(np.uint32).view(np.float32)
