"""A player of PTX: what NVIDIA's compiler made of a CUDA source runs on a processor, and every step is judged."""

from .faults import Fault
from .module import Module, address

__all__ = ["Fault", "Module", "address"]
