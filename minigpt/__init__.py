"""minigpt: GPT-1 and GPT-2 in NumPy and CuPy, with every gradient written by hand."""

import os

__version__ = "0.1.0"

# When a product is done, the threads of OpenBLAS keep their cores busy in case there is soon another: for a tenth of a
# second after a product nothing else has them. 2^4 cycles are enough. It is read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
