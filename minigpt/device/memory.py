"""How much memory this machine has, and from which size on an array is worth saving."""

import contextlib
import math
import mmap
import os
import sys

import numpy as np

PAGES = 1 << 14  # numbers: fewer are not worth pages of their own
LARGE = 1 << 20  # elements, as rows times width: from there on what few passes compute again is not kept


@contextlib.contextmanager
def counted_as_large(large: bool):
    """Inside, all arrays count as large, or none does: so that a small trial tells what a large step keeps."""
    global LARGE
    before = LARGE
    LARGE = 0 if large else sys.maxsize
    try:
        yield
    finally:
        LARGE = before


def untouched_zeros(shape: tuple[int, ...], dtype: np.dtype, in_large_pages: bool = False) -> np.ndarray:
    """Zeros of which only the pages that are written to take memory. Slower than np.zeros to write to in full.

    np.zeros takes memory that was used before, if there is any, and clears all of it. in_large_pages: for what will be
    filled, and read again and again: pages of 2 MB, if the system has them, need fewer look-ups than those of 4 KB.
    """
    numbers = math.prod(shape)
    if numbers < PAGES or not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, numbers * np.dtype(dtype).itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if in_large_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def machine_memory() -> int | None:
    """Bytes of the machine's memory, used or not; None where the system does not tell, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
