"""Modules: who owns the parameters. What is computed with them stands in the operations.

A module holds no activations. `forward` returns `(out, cache)`, `backward(dout, cache)` returns the gradient of the
input and adds those of the parameters to `Parameter.grad`. So one module can be used several times before the
backward passes come, each time with a cache of its own.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.backend import Array, array_module, choose_device, named_dtype, to_device
from minigpt.errors import InputError
from minigpt.key import Key, fold


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


class Linear(Module):
    """out = x weight + bias, with weight (I,O): the layout of the released models, where checkpoints call it Conv1D."""

    def __init__(self, n_in: int, n_out: int, rng: np.random.Generator | None, std: float = 0.02, dtype=np.float32):
        self.weight = normal(rng, (n_in, n_out), std, dtype)
        self.bias = Parameter(np.zeros(n_out, dtype))

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x (*,I) -> out (*,O)"""
        return ops.linear_forward(x, self.weight.value, self.bias.value)

    def backward(self, dout: Array, cache: Any) -> Array:
        """dout (*,O) -> dx (*,I)"""
        dx, dw, db = ops.linear_backward(dout, cache)
        accumulate(self.weight, dw)
        accumulate(self.bias, db)
        return dx


class Embedding(Module):
    """One row for each token, or for each position: weight (V,C)."""

    def __init__(self, n_rows: int, n_embd: int, rng: np.random.Generator | None, std: float = 0.02, dtype=np.float32):
        self.weight = normal(rng, (n_rows, n_embd), std, dtype)

    def forward(self, ids: Array) -> tuple[Array, Any]:
        """ids (*) int -> out (*,C)"""
        return ops.embedding_forward(self.weight.value, ids)

    def backward(self, dout: Array, cache: Any) -> None:
        """dout (*,C) -> nothing: ids have no gradient"""
        accumulate(self.weight, ops.embedding_backward(dout, cache))


class LayerNorm(Module):
    """Layer normalisation with gain weight (C,) and bias (C,)."""

    def __init__(self, n_embd: int, eps: float = 1e-5, dtype=np.float32):
        self.weight = Parameter(np.ones(n_embd, dtype))
        self.bias = Parameter(np.zeros(n_embd, dtype))
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x (*,C) -> out (*,C). Gains are never short: there are few of them, and each meets every row."""
        return ops.layernorm_forward(x, self.weight.data, self.bias.data, eps=self.eps)

    def backward(self, dout: Array, cache: Any) -> Array:
        """dout (*,C) -> dx (*,C)"""
        dx, dg, db = ops.layernorm_backward(dout, cache)
        accumulate(self.weight, dg)
        accumulate(self.bias, db)
        return dx


class Past:
    """What one attention has read: the keys and values of earlier positions, so that nothing is read twice.

    The key-value cache of one layer. It belongs to the caller; an attention that is given one reads it and writes its
    new keys and values behind it, in place: k, v (B,NH,capacity,D), of which `length` positions are filled.
    padding: (B,), how many places at the left of each row hold nothing, where rows have different lengths; or None.
    """

    def __init__(self, capacity: int, padding: Array | None = None):
        self.capacity, self.padding, self.length = capacity, padding, 0
        self.k = self.v = None

    def read(self) -> tuple[Array, Array] | None:
        """(k, v), each (B,NH,length,D), views and no copies; None as long as nothing was read."""
        return (self.k[:, :, : self.length], self.v[:, :, : self.length]) if self.length else None

    def extend(self, k: Array, v: Array) -> None:
        """k, v (B,NH,T,D): of the T positions that follow. Raises InputError where there is no room for them."""
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise InputError(f"{end} positions do not fit into a past of {self.capacity}: give it a larger capacity")
        if self.k is None:
            shape = (*k.shape[:2], self.capacity, k.shape[3])
            self.k, self.v = (array_module(k).empty(shape, k.dtype) for _ in "kv")
        self.k[:, :, self.length : end], self.v[:, :, self.length : end] = k, v
        self.length = end

    def mask(self, t: int) -> Array | None:
        """(B,1,T,S), True where the next T positions see the S so far, themselves included; None is plain causal."""
        if self.padding is None:
            return None
        key = array_module(self.padding).arange(self.length + t)
        return (key <= key[-t:, None]) & (key >= self.padding[:, None, None, None])


class Attention(Module):
    """Causal multi-head self-attention with its packed input projection and its output projection.

    config: n_embd, n_head, attn_pdrop (dropout on the probabilities), resid_pdrop (on the output).
    proj_std: standard deviation of the output projection's initial weights.
    """

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, std = config.n_embd, config.initializer_range
        self.c_attn = Linear(c, 3 * c, rng, std, dtype)
        self.c_proj = Linear(c, c, rng, proj_std, dtype)
        self.config = config

    def forward(self, x: Array, past=None, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C). past: a Past, to which x is added; a constant for the backward."""
        cache, config = Cache(grad), self.config
        qkv = cache.keep(self.c_attn.forward(x))
        options = {"rate": config.attn_pdrop, "key": fold(key, 0), "grad": grad}
        if past is not None:
            options |= {"past": past.read(), "mask": past.mask(x.shape[1])}
        heads = cache.keep(ops.self_attention_forward(qkv, config.n_head, **options))
        if past is not None:
            c = config.n_embd
            past.extend(*(ops.split_heads(qkv[..., i : i + c], config.n_head) for i in (c, 2 * c)))
        out = cache.keep(self.c_proj.forward(heads))
        out = cache.keep(ops.dropout_forward(out, rate=config.resid_pdrop, key=fold(key, 1)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dout = ops.dropout_backward(dout, cache.pop())
        dheads = self.c_proj.backward(dout, cache.pop())
        dqkv = ops.self_attention_backward(dheads, cache.pop())
        return self.c_attn.backward(dqkv, cache.pop())


class MLP(Module):
    """The position-wise network, four times as wide inside. config, proj_std: as for Attention."""

    def __init__(self, config, rng: np.random.Generator | None, proj_std: float, dtype=np.float32):
        c, std = config.n_embd, config.initializer_range
        self.c_fc = Linear(c, 4 * c, rng, std, dtype)
        self.c_proj = Linear(4 * c, c, rng, proj_std, dtype)
        self.config = config

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        cache = Cache(grad)
        weights = [parameter.value for parameter in self.parameters()]
        out = cache.keep(ops.mlp_forward(x, *weights, grad=grad))
        out = cache.keep(ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2)))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        dout = ops.dropout_backward(dout, cache.pop())
        dx, *gradients = ops.mlp_backward(dout, cache.pop())
        for parameter, gradient in zip(self.parameters(), gradients, strict=True):
            accumulate(parameter, gradient)
        return dx
