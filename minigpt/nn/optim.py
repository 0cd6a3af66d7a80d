"""Optimisers and gradient clipping: who owns the moments. The update itself is `ops.adam_update`."""

import math
from collections.abc import Iterable

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.nn.module import Parameter


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

        max_norm: clip the gradients before. Returns their norm, or 0 where max_norm is None. On a GPU it is
        an array (), for nothing waits for it. Where it is not finite nothing is changed, and on a processor that raises
        NonFiniteGradient.
        """
        learning = {name: p for name, p in self.parameters.items() if p.grad is not None}
        tensors = [(p.data, p.grad, self.m[name], self.v[name]) for name, p in learning.items()]
        rate, eps, decay = self.rule(lr, self.t + 1)
        norm = ops.adam_update(
            tensors, copies=[p.low for p in learning.values()], decays=[p.data.ndim > 1 for p in learning.values()],
            rate=rate, eps=eps, decay=decay, betas=self.betas, max_norm=max_norm,
        )  # fmt: skip
        if type(norm) is float and not math.isfinite(norm):  # not an array that a GPU may still be computing
            raise NonFiniteGradient(_first_not_finite(learning))
        self.t += 1
        return norm

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        """rate, eps and decay of update number t, counted from 1, which is p -= rate m / (sqrt(v) + eps) + decay p."""
        raise TypeError(f"{type(self).__name__} does not say how to change a parameter")

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

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        root = math.sqrt(1 - beta2**t)  # sqrt(v_hat) = sqrt(v) / root: corrected as numbers, not as arrays
        return lr * root / (1 - beta1**t), self.eps * root, lr * self.weight_decay


class GPT1Adam(Optimizer):
    """GPT-1's own rule, as in OpenAI's released training code.

    p -= lr_t (m / (sqrt(v) + eps) + decay p),   lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t). Two differences from
    AdamW: eps stands beside the uncorrected root, and the correction lr_t / lr scales the decay too.
    """

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        lr_t = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        return lr_t, self.eps, lr_t * self.weight_decay


def _first_not_finite(parameters: dict[str, Parameter]) -> str:
    """The name of the first parameter whose gradient holds NaN or infinity, or is so large that its square does."""
    for name, parameter in parameters.items():
        g = parameter.grad.reshape(-1)
        if not math.isfinite(float(g @ g)):
            return name
    return "all parameters together"


def clip_by_global_norm(named_parameters: Iterable[tuple[str, Parameter]], max_norm: float | None) -> float:
    """Scale all gradients by min(1, max_norm / norm), where norm is the length of all of them as one vector.

    Returns the norm before clipping. max_norm=None or 0 only measures. Raises NonFiniteGradient if the norm is NaN or
    infinite; then no gradient has been changed. (Pascanu, Mikolov and Bengio 2013, algorithm 1.)
    """
    with_grad = {name: p for name, p in named_parameters if p.grad is not None}
    norm = ops.clip_gradients([p.grad for p in with_grad.values()], max_norm)
    if not math.isfinite(norm):
        raise NonFiniteGradient(_first_not_finite(with_grad))
    return norm
