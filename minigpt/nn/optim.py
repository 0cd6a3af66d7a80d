"""Optimisers, learning-rate schedules and gradient clipping.

Schedules are functions of the share of the updates that are already done, so the first update is made at x = 0.
"""
import functools
import math
from collections.abc import Callable, Iterable

import numpy as np

from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.device.threads import SHARED, share
from minigpt.errors import InputError
from minigpt.nn import Parameter
from minigpt.ops.cuda import adam

PIECE = 1 << 17  # elements of a parameter that are updated together


class NonFiniteGradient(ArithmeticError):
    """A gradient holds NaN or infinity; `name` is the first such parameter."""

    def __init__(self, name: str):
        super().__init__(f"the gradient of {name} is not finite")
        self.name = name


class Optimizer:
    """Owns the moments of each parameter and the number of updates made.

    m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2   (Kingma and Ba 2015, algorithm 1). A subclass says
    what they do to the parameter. Weight decay is decoupled from the gradient (Loshchilov and Hutter 2019) and touches
    only tensors with two axes or more: no biases, no gains.
    """

    def __init__(
        self, named_parameters: Iterable[tuple[str, Parameter]], betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.01
    ):
        self.parameters = dict(named_parameters)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.t = 0
        self.m = {name: array_module(p.data).zeros_like(p.data) for name, p in self.parameters.items()}
        self.v = {name: array_module(p.data).zeros_like(p.data) for name, p in self.parameters.items()}

    def step(self, lr: float, max_norm: float | None = None) -> float | Array:
        """One update with learning rate lr. Parameters without a gradient stay as they are.

        max_norm: clip the gradients before. Returns their norm, or 0 where max_norm is None. On a GPU nobody
        waits for it: it is an array (), and if it is not finite nothing is changed; otherwise that raises
        NonFiniteGradient.
        """
        learning = {name: p for name, p in self.parameters.items() if p.grad is not None}
        tensors = [(p.data, p.grad, self.m[name], self.v[name]) for name, p in learning.items()]
        decaying, lows = [p.data.ndim > 1 for p in learning.values()], [p.low for p in learning.values()]
        together, norm = adam.takes(tensors), 0.0
        if max_norm is not None and not together:
            norm = clip_by_global_norm(learning.items(), max_norm)
        self.t += 1
        rule = rate, eps, decay = self.rule(lr)
        if together:  # on a GPU, in three launches
            return adam.update(tensors, lows, decaying, rule, self.betas, max_norm)
        for tensor, low, decays in zip(tensors, lows, decaying, strict=True):
            _in_pieces(functools.partial(self._update, rate, eps, decay if decays else 0.0), *tensor)
            if low is not None:
                low[...] = tensor[0]
        return norm

    def rule(self, lr: float) -> tuple[float, float, float]:
        """rate, eps and decay of this update, which is p -= rate m / (sqrt(v) + eps) + decay p."""
        raise TypeError(f"{type(self).__name__} does not say how to change a parameter")

    def _update(self, rate, eps, decay, p, g, m, v):
        beta1, beta2 = self.betas
        xp, a = array_module(p), array_module(p).empty_like(p)  # one array for whatever stands between two lines
        xp.subtract(g, m, out=a)
        a *= 1 - beta1
        m += a  # m += (1 - beta1) (g - m)
        xp.multiply(g, g, out=a)
        a -= v
        a *= 1 - beta2
        v += a  # v += (1 - beta2) (g^2 - v)
        xp.sqrt(v, out=a)
        a += eps
        xp.divide(m, a, out=a)
        a *= rate
        if decay:
            p *= 1 - decay
        p -= a  # p -= rate m / (sqrt(v) + eps) + decay p

    def state(self) -> dict[str, np.ndarray]:
        """The moments as named NumPy arrays, for a checkpoint: {"m.<name>": ..., "v.<name>": ...}."""
        return {f"{kind}.{name}": to_numpy(a) for kind in "mv" for name, a in getattr(self, kind).items()}

    def load_state(self, state: dict[str, np.ndarray], t: int) -> None:
        """Take moments back from `state()`, and the number of updates made.

        Raises InputError where a moment is missing or misshapen.
        """
        for kind in "mv":
            for name, moment in getattr(self, kind).items():
                saved = state.get(f"{kind}.{name}")
                if saved is None or saved.shape != moment.shape:
                    raise InputError(f"no moment {kind}.{name} of shape {moment.shape}: it is another model's state")
                moment[...] = to_device(saved, device_of(moment))
        self.t = t


class AdamW(Optimizer):
    """p -= lr (m_hat / (sqrt(v_hat) + eps) + decay p), with m_hat and v_hat corrected for their start at zero."""

    def rule(self, lr: float) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        root = math.sqrt(1 - beta2**self.t)  # sqrt(v_hat) = sqrt(v) / root: corrected as numbers, not as arrays
        return lr * root / (1 - beta1**self.t), self.eps * root, lr * self.weight_decay


class GPT1Adam(Optimizer):
    """GPT-1's own rule, as in OpenAI's released training code.

    p -= lr_t (m / (sqrt(v) + eps) + decay p),   lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t). Two differences from
    AdamW: eps stands beside the uncorrected root, and the correction lr_t / lr scales the decay too.
    """

    def rule(self, lr: float) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        lr_t = lr * math.sqrt(1 - beta2**self.t) / (1 - beta1**self.t)
        return lr_t, self.eps, lr_t * self.weight_decay


def _in_pieces(update: Callable, *arrays: Array) -> None:
    """update(*arrays), on a processor for a few rows at a time, which stay in its cache, and by all threads."""
    first = arrays[0]
    if first.ndim == 0 or array_module(first) is not np:
        return update(*arrays)
    step = max(1, PIECE * len(first) // max(1, first.size))

    def part(rows):
        for i in range(rows.start, rows.stop, step):
            update(*(array[i : min(i + step, rows.stop)] for array in arrays))

    share(part, len(first), work=first.size // PIECE * SHARED)  # less than a piece is not worth a second thread


def clip_by_global_norm(named_parameters: Iterable[tuple[str, Parameter]], max_norm: float | None) -> float:
    """Scale all gradients by min(1, max_norm / norm), where norm is the length of all of them as one vector.

    Returns the norm before clipping. max_norm=None or 0 only measures. Raises NonFiniteGradient if the norm is NaN or
    infinite; then no gradient has been changed. (Pascanu, Mikolov and Bengio 2013, algorithm 1.)
    """
    with_grad = {name: p for name, p in named_parameters if p.grad is not None}
    vectors = [p.grad.reshape(-1) for p in with_grad.values()]
    squares = to_numpy(array_module(*vectors).stack([g @ g for g in vectors])).tolist() if vectors else []
    norm = math.sqrt(sum(squares))  # all came back at once: a GPU is waited for one time
    if not math.isfinite(norm):
        raise NonFiniteGradient(next(name for name, s in zip(with_grad, squares, strict=True) if not math.isfinite(s)))
    if max_norm and norm > max_norm:
        for p in with_grad.values():
            p.grad *= max_norm / norm
    return norm
