"""Modules own the parameters. What is computed with them stands in `minigpt.ops`.

A module holds no activations. `forward` returns `(out, cache)`; `backward(dout, cache)` returns the gradient of the
input and adds those of the parameters to `Parameter.grad`. So one module can run forward several times before it runs
backward, each time with another cache.
"""

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from minigpt.device.arrays import Array, to_device
from minigpt.device.gpu import choose_device
from minigpt.device.memory import untouched_zeros


class Parameter:
    """An array that is learned, and the gradient of the loss with respect to it (None before the first backward).

    low: a copy in bfloat16 to compute with, or None; see models/mixed_precision.py. The optimiser updates data, and
    then the copy. always_wide: never make such a copy. Gains and biases of a LayerNorm are few, and each is used by
    every row. gradient_hook: called, without arguments, whenever a gradient has arrived.
    """

    def __init__(self, data: Array, grad: Array | None = None, always_wide: bool = False):
        self.data = data
        self.grad = grad
        self.low: Array | None = None
        self.always_wide = always_wide
        self.gradient_hook: Callable[[], None] | None = None

    @property
    def value(self) -> Array:
        """What layers compute with: data, or its copy in fewer bits."""
        return self.data if self.low is None else self.low

    def __repr__(self) -> str:
        return f"Parameter({self.data.shape}, {self.data.dtype})"


def accumulate(parameter: Parameter, gradient: Array) -> None:
    """Add a gradient to a parameter's: the only place, besides `zero_grad`, that sets `.grad`.

    A parameter that is used twice gets two gradients: the first is assigned, later ones are added to it. They have the
    dtype of the weights, also where layers compute in bfloat16.
    """
    if parameter.grad is None:
        parameter.grad = gradient.astype(parameter.data.dtype, copy=False)
    else:
        parameter.grad += gradient
    if parameter.gradient_hook is not None:
        parameter.gradient_hook()


class Cache(dict):
    """What the forward pass of a module saves for its backward pass: the caches of its steps, by name.

    `keep` stores the cache of a pair (out, cache) and returns the out; with grad=False it stores nothing. `pop` removes
    a cache and returns it, so that memory falls as the backward pass proceeds. Names can be read as fields:
    `cache.attn.qkv`. owner: the module whose backward this cache is for.
    """

    def __init__(self, owner: "Module", grad: bool = True):
        self.owner = owner
        self.grad = grad

    def keep(self, name: str, pair: tuple[Array, Any]) -> Array:
        """Store the cache of this step under its name; returns the out. A module of one step uses the name ""."""
        out, cache = pair
        if self.grad:
            self[name] = cache
        return out

    def pop(self, name: str) -> Any:
        """Remove the cache of this step and return it. Raises ValueError where there is none."""
        if name not in self:
            raise ValueError("this cache has been used (or was made with grad=False): run the forward pass again")
        return super().pop(name)

    def __repr__(self) -> str:
        return f"Cache of {type(self.owner).__name__}({', '.join(self) or 'nothing'})"

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if "" in self:
            return getattr(self[""], name)
        raise AttributeError(f"this cache has {', '.join(self) or 'nothing'}, and no {name}")


class Recomputed(Cache):
    """The cache of a block that keeps only its input x, and runs forward again when its backward needs the rest.

    forward(x) -> (out, cache): the same numbers each time, because a key determines which ones dropout sets to zero
    (Chen et al. 2016).
    """

    def __init__(self, owner: "Module", forward: Callable[[Array], tuple[Array, Cache]], x: Array):
        super().__init__(owner)
        self["x"] = x
        self.forward = forward

    def pop(self, name: str) -> Any:
        """As in `Cache`; the first call runs the block forward again."""
        if "x" in self:
            x = super().pop("x")
            _, cache = self.forward(x)
            self.update(cache)
        return super().pop(name)


class Module:
    """Owns parameters as attributes, directly or through other modules and lists of modules.

    forward(x, ...) -> (out, cache), backward(dout, cache) -> dx: every subclass has its own, with the inputs it needs.
    """

    forward: Callable
    backward: Callable

    @property
    def sizes(self) -> str:
        """What stands in the brackets of `repr`: the shape of `weight`, or how many parameters there are."""
        if isinstance(weight := vars(self).get("weight"), Parameter):
            return ", ".join(map(str, weight.data.shape))
        return f"{sum(parameter.data.size for parameter in self.parameters()):,} parameters"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sizes})"

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
        """Return the cache. Raises ValueError for one that another module made, even a module of the same type."""
        owner = getattr(cache, "owner", None)
        if owner is not self:
            kind = type(self).__name__
            made_by = "no module" if owner is None else f"another {type(owner).__name__}"
            raise ValueError(f"{kind}.backward was given a cache that {made_by} made: give it that of its own forward")
        return cache

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, device: str) -> Self:
        """Move the parameters to "cpu" or "cuda", in place, and set their gradients to None. Returns the module.

        Raises InputError where there is no such device, with the reason and what to do.
        """
        device = choose_device(device)
        for parameter in self.parameters():
            parameter.data = to_device(parameter.data, device)
            parameter.grad = None
        return self


def normal(rng: np.random.Generator | None, shape: tuple[int, ...], std: float, dtype) -> Parameter:
    """Weights (shape) drawn from N(0, std); or zeros, to be filled later, where rng is None.

    Drawn in float32 for every dtype, so that all start from the same numbers.
    """
    if rng is None:
        return Parameter(untouched_zeros(shape, dtype, in_large_pages=True))
    drawn = rng.standard_normal(shape, dtype=np.float32) * np.float32(std)
    return Parameter(drawn.astype(dtype))
