"""Modules: who owns the parameters. What is computed with them stands in the operations.

A module holds no activations. `forward` returns `(out, cache)`; `backward(dout, cache)` returns the gradient of the
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
    always_wide: such a copy is never made. Gains and biases of a LayerNorm are few, and each meets every row.
    """

    def __init__(self, data: Array, grad: Array | None = None, always_wide: bool = False):
        self.data = data
        self.grad = grad
        self.low: Array | None = None
        self.always_wide = always_wide

    @property
    def value(self) -> Array:
        """What layers compute with: data, or its copy in fewer bits."""
        return self.data if self.low is None else self.low

    def __repr__(self) -> str:
        return f"Parameter({self.data.shape}, {self.data.dtype})"


def accumulate(parameter: Parameter, gradient: Array) -> None:
    """Add a gradient to a parameter's: the only place, besides `zero_grad`, that sets `.grad`.

    A parameter that is used twice gets two gradients: the first is assigned, later ones are added to it.
    """
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


class Cache(dict):
    """What the forward pass of a module leaves for its backward pass: the caches of its steps, by name.

    `keep` stores the cache of a pair (out, cache) and hands on the out; with grad=False it stores nothing. `pop` gives
    a cache back and lets go of it, so that memory falls as the backward pass proceeds. Names can be read as fields:
    `cache.attn.qkv`. owner: the module whose backward this cache is for.
    """

    def __init__(self, owner: "Module", grad: bool = True):
        super().__init__()
        self.owner = owner
        self.grad = grad

    def keep(self, name: str, pair: tuple[Array, Any]) -> Array:
        """Store the cache of this step under its name; returns the out. The name "" is for a single step."""
        out, cache = pair
        if self.grad:
            self[name] = cache
        return out

    def pop(self, name: str) -> Any:
        """The cache of this step, which is forgotten here. Raises ValueError where there is none."""
        if name not in self:
            raise ValueError("this cache has been used (or was made with grad=False): run the forward pass again")
        return super().pop(name)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if "" in self:
            return getattr(self[""], name)
        raise AttributeError(f"this cache has {', '.join(self) or 'nothing'}, and no {name}")


class Recomputed(Cache):
    """The cache of a block that keeps only its input x, and runs forward again when its backward needs the rest.

    forward(x) -> (out, cache): the same numbers each time, chance included, because a key says what is dropped
    (Chen et al. 2016).
    """

    def __init__(self, owner: "Module", forward: Callable[[Array], tuple[Array, Cache]], x: Array):
        super().__init__(owner)
        self["x"] = x
        self.forward = forward

    def pop(self, name: str) -> Any:
        """As in `Cache`; the first time the block runs again."""
        if "x" in self:
            x = super().pop("x")
            self.update(self.forward(x)[1])
        return super().pop(name)


class Module:
    """Owns parameters as attributes, directly or through other modules and lists of modules."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yields (name, parameter) in the order of the attributes: ("h.0.attn.c_attn.weight", ...).

        A parameter that several modules share comes once, under its first name.
        """
        seen = set()
        for name, parameter in self._all_parameters(prefix):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def _all_parameters(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value._all_parameters(f"{prefix}{name}.")
            elif isinstance(value, list):
                for i, module in enumerate(value):
                    yield from module._all_parameters(f"{prefix}{name}.{i}.")

    def parameters(self) -> Iterator[Parameter]:
        """Yields the parameters alone, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def own(self, cache: Cache) -> Cache:
        """The same cache. Raises ValueError for one that another module made, though it may be of the same type."""
        owner = getattr(cache, "owner", None)
        if owner is not self:
            kind = type(self).__name__
            made_by = "no module" if owner is None else f"another {type(owner).__name__}"
            raise ValueError(f"{kind}.backward was given a cache that {made_by} made: give it that of its own forward")
        return cache

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters():
            parameter.grad = None

    def compute_in(self, low: str | None) -> None:
        """Let layers compute with copies of the parameters in this dtype, "bfloat16"; None: with the parameters."""
        for parameter in self.parameters():
            if low is None or parameter.always_wide:
                parameter.low = None
            else:
                parameter.low = parameter.data.astype(named_dtype(low))

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
            parameter.data = to_device(parameter.data, device)
            parameter.grad = None
        return self


def normal(rng: np.random.Generator | None, shape: tuple[int, ...], std: float, dtype) -> Parameter:
    """Weights drawn from N(0, std), or zeros that wait to be filled where rng is None.

    Drawn in float32 for every dtype, so that all start from the same numbers.
    """
    if rng is None:
        return Parameter(np.zeros(shape, dtype))
    drawn = rng.standard_normal(shape, dtype=np.float32) * np.float32(std)
    return Parameter(drawn.astype(dtype))
