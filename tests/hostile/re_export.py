"""The library's pair under its own name."""

from minigpt.ops import gelu_backward, gelu_forward
