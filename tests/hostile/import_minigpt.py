"""The reference itself."""

from minigpt.ops.reference import gelu_backward, gelu_forward
