"""Imported before NumPy: the processes of pytest-xdist share the cores, so each of them multiplies with one thread."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
