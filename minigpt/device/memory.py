"""How much memory this machine has."""

import os


def machine_memory() -> int | None:
    """Bytes of the machine's memory, used or not; None where the system does not tell, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
