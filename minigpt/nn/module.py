"""Modules: who owns the parameters. What is computed with them stands in the operations.

A module holds no activations. `forward` returns `(out, cache)`, `backward(dout, cache)` returns the gradient of the
input and adds those of the parameters to `Parameter.grad`. So one module can be used several times before the
backward passes come, each time with a cache of its own.
"""
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minigpt.device.arrays import Array, named_dtype, to_device
from minigpt.device.gpu import choose_device


class Parameter:
    """An array that is learned, and the gradient of the loss with respect to it (None before the first backward).

    low: a copy in bfloat16 to compute with, or None. The optimiser updates data, and then the copy.
    """

    def __init__(self, data: Array, grad: Array | None = None):
        self.data = data
        self.grad = grad
        self.low: Array | None = None

    @property
    def value(self) -> Array:
        """What layers compute with: data, or its copy in fewer bits."""
        return self.data if self.low is None else self.low

    def __repr__(self) -> str:
        return f"Parameter({self.data.shape}, {self.data.dtype})"


def accumulate(parameter: Parameter, gradient: Array) -> None:
    """Add a gradient to a parameter's: the only place that touches `.grad`.

    Everyone who used the parameter is heard: the first gradient is assigned, later ones are added.
    """
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


class Cache(list):
    """What a module's forward pass leaves for its backward pass: the caches of its parts, in order.

    `keep` stores the cache of a pair (out, cache) and hands on the out; with grad=False it stores nothing. `pop` gives
    the caches back, last first, and lets go of each, so that memory falls as the backward pass proceeds.
    """

    def __init__(self, grad: bool = True):
        super().__init__()
        self.grad = grad

    def keep(self, pair: tuple[Array, Any]) -> Array:
        out, cache = pair
        if self.grad:
            self.append(cache)
        return out

    def pop(self, index: int = -1) -> Any:
        if not self:
            raise ValueError("this cache has been used (or was made with grad=False): run the forward pass again")
        return super().pop(index)


class Recomputed(Cache):
    """The cache of a part that keeps only its input x, and runs again when its backward asks for the rest.

    forward(x) -> (out, cache): the same numbers each time, chance included, because a key says what is dropped.
    """

    def __init__(self, forward: Callable[[Array], tuple[Array, Cache]], x: Array):
        super().__init__()
        self.append(x)
        self.forward = forward

    def pop(self, index: int = -1) -> Any:
        if self.forward:
            forward, self.forward = self.forward, None
            self.extend(forward(super().pop())[1])
        return super().pop(index)


class Module:
    """Owns parameters as attributes, directly or through other modules and lists of modules."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yields (name, parameter) in the order of the attributes: ("h.0.attn.c_attn.weight", ...)."""
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value.named_parameters(f"{prefix}{name}.")
            elif isinstance(value, list):
                for i, module in enumerate(value):
                    yield from module.named_parameters(f"{prefix}{name}.{i}.")

    def parameters(self) -> Iterator[Parameter]:
        """Yields the parameters alone."""
        return (parameter for _, parameter in self.named_parameters())

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters():
            parameter.grad = None

    def compute_in(self, low: str | None) -> None:
        """Let layers compute with copies of the parameters in this dtype, "bfloat16"; None: with the parameters."""
        for parameter in self.parameters():
            parameter.low = parameter.data.astype(named_dtype(low)) if low else None

    @contextlib.contextmanager
    def exact(self):
        """Inside, layers compute with the parameters themselves, whatever copies there are."""
        copies = [(parameter, parameter.low) for parameter in self.parameters() if parameter.low is not None]
        self.compute_in(None)
        try:
            yield
        finally:
            for parameter, low in copies:
                parameter.low = low

    def to(self, device: str) -> "Module":
        """Move the parameters to "cpu" or "cuda", in place; gradients are forgotten. Returns the module.

        Raises InputError with cause and cure where there is no such device.
        """
        device = choose_device(device)
        for parameter in self.parameters():
            parameter.data, parameter.grad = to_device(parameter.data, device), None
        return self


def normal(rng: np.random.Generator | None, shape: tuple[int, ...], std: float, dtype) -> Parameter:
    """Weights drawn from N(0, std), or zeros that wait to be filled where rng is None.

    Drawn in float32 for every dtype, so that all start from the same numbers.
    """
    if rng is None:
        return Parameter(np.zeros(shape, dtype))
    return Parameter((rng.standard_normal(shape, dtype=np.float32) * np.float32(std)).astype(dtype))
