"""minigpt: GPT-1 and GPT-2 in NumPy and CuPy, with every gradient written by hand."""

__version__ = "0.1.0"
