"""Optimisers own the moments of the parameters; gradient clipping. The update itself is `ops.adam_update`."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from minigpt import errors, ops
from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.errors import InputError, NonFiniteGradient
from minigpt.nn.module import Parameter


class Optimizer:
    """Owns the moments m and v of each parameter, and t, the number of updates made.

    m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2   (Kingma and Ba 2015, algorithm 1). A subclass gives
    the `rule` by which they change the parameter. Weight decay is decoupled from the gradient (Loshchilov and Hutter
    2019) and changes only tensors with two axes or more: no biases, no gains. Raises InputError for what are no pairs
    (name, parameter), for none at all or a name that comes twice, and for numbers outside their range.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, Parameter]],
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        self.parameters = errors.named_pairs(named_parameters)
        errors.check_betas(betas)
        errors.check_number("eps", eps, "a number above 0", above=0)
        errors.check_number("weight_decay", weight_decay, "a number of 0 or more", least=0)
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.t = 0
        self.m = {}
        self.v = {}
        for name, parameter in self.parameters.items():
            xp = array_module(parameter.data)
            self.m[name] = xp.zeros_like(parameter.data)
            self.v[name] = xp.zeros_like(parameter.data)

    def step(self, lr: float, max_norm: float | None = None) -> float | Array:
        """One update with learning rate lr. Parameters without a gradient stay as they are.

        max_norm: clip the gradients before. Returns their norm, or 0 where max_norm is None; on a GPU an array (),
        because the processor does not wait for it. Where the norm is not finite nothing is changed, and on a processor
        NonFiniteGradient is raised. Raises InputError for a rate or a norm below 0 or not finite.
        """
        errors.check_number("lr", lr, "a learning rate of 0 or more", least=0)
        errors.check_max_norm(max_norm)
        with_gradient = _with_gradient(self.parameters.items())
        tensors, copies, decays = [], [], []
        for name, parameter in with_gradient.items():
            tensors.append((parameter.data, parameter.grad, self.m[name], self.v[name]))
            copies.append(parameter.low)
            decays.append(parameter.data.ndim > 1)
        rate, eps, decay = self.rule(lr, self.t + 1)
        norm = ops.adam_update(
            tensors,
            copies=copies,
            decays=decays,
            rate=rate,
            eps=eps,
            decay=decay,
            betas=self.betas,
            max_norm=max_norm,
        )
        on_processor = type(norm) is float  # an array may still be computed by the GPU
        if on_processor and not math.isfinite(norm):
            raise NonFiniteGradient(_first_not_finite(with_gradient))
        self.t += 1
        return norm

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        """rate, eps and decay of update number t, counted from 1, which is p -= rate m / (sqrt(v) + eps) + decay p."""
        raise TypeError(f"{type(self).__name__} does not say how to change a parameter: define its rule")

    def state(self) -> dict[str, np.ndarray]:
        """The moments as named NumPy arrays, for a checkpoint: {"m.<name>": ..., "v.<name>": ...}."""
        return {name: to_numpy(moment) for name, moment in self._moments()}

    def load_state(self, state: dict[str, np.ndarray], t: int) -> None:
        """Take moments back from `state()`, and t, the number of updates made.

        Raises InputError where a moment is missing or has another shape, and for a t that is no number of updates.
        """
        errors.check_whole("t", t, "the number of updates made, 0 or more")
        if not isinstance(state, dict):
            raise InputError(f"state is {errors.shown(state)}: give what state() returned")
        for name, moment in self._moments():
            saved = state.get(name)
            if saved is None or saved.shape != moment.shape:
                raise InputError(f"no moment {name} of shape {moment.shape}: it is another model's state")
            moment[...] = to_device(saved, device_of(moment))
        self.t = t

    def __repr__(self) -> str:
        kind = type(self).__name__
        settings = f"betas={self.betas}, eps={self.eps}, weight_decay={self.weight_decay}"
        return f"{kind}({len(self.parameters)} parameters, {settings}, {self.t} updates made)"

    def _moments(self) -> Iterator[tuple[str, Array]]:
        """Yields ("m.<name>", array) for all parameters, and then ("v.<name>", array)."""
        for name, moment in self.m.items():
            yield f"m.{name}", moment
        for name, moment in self.v.items():
            yield f"v.{name}", moment


class AdamW(Optimizer):
    """p -= lr (m_hat / (sqrt(v_hat) + eps) + decay p), with m_hat and v_hat corrected for their start at zero."""

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        # m_hat = m / (1 - beta1^t) and sqrt(v_hat) = sqrt(v) / root: numbers are corrected here, not arrays
        root = math.sqrt(1 - beta2**t)
        rate = lr * root / (1 - beta1**t)
        eps = self.eps * root
        decay = lr * self.weight_decay
        return rate, eps, decay


class GPT1Adam(Optimizer):
    """GPT-1's own rule, as in OpenAI's released training code.

    p -= lr_t (m / (sqrt(v) + eps) + decay p),   lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t). Two differences from
    AdamW: eps stands beside the uncorrected root, and the correction lr_t / lr scales the decay too.
    """

    def rule(self, lr: float, t: int) -> tuple[float, float, float]:
        beta1, beta2 = self.betas
        root = math.sqrt(1 - beta2**t)
        lr_t = lr * root / (1 - beta1**t)
        decay = lr_t * self.weight_decay
        return lr_t, self.eps, decay


def clip_by_global_norm(named_parameters: Iterable[tuple[str, Parameter]], max_norm: float | None) -> float:
    """Scale all gradients by min(1, max_norm / norm), where norm is the length of all of them as one vector.

    Returns the norm before clipping. max_norm=None or 0 only measures. Raises NonFiniteGradient if the norm is NaN or
    infinite; then no gradient has been changed. Raises InputError for a max_norm below 0, and for what are no pairs
    (name, parameter). (Pascanu, Mikolov and Bengio 2013, algorithm 1.)
    """
    errors.check_max_norm(max_norm)
    with_gradient = _with_gradient(errors.named_pairs(named_parameters).items())
    gradients = [parameter.grad for parameter in with_gradient.values()]
    norm = ops.clip_gradients(gradients, max_norm)
    if not math.isfinite(norm):
        raise NonFiniteGradient(_first_not_finite(with_gradient))
    return norm


def _with_gradient(named_parameters: Iterable[tuple[str, Parameter]]) -> dict[str, Parameter]:
    """The parameters that have a gradient, by name."""
    found = {}
    for name, parameter in named_parameters:
        if parameter.grad is not None:
            found[name] = parameter
    return found


def _first_not_finite(parameters: dict[str, Parameter]) -> str:
    """The name of the first parameter whose gradient, or the sum of its squares, is NaN or infinite."""
    for name, parameter in parameters.items():
        g = parameter.grad.reshape(-1)  # type: ignore[union-attr]  # they have one
        sum_of_squares = float(g @ g)
        if not math.isfinite(sum_of_squares):
            return name
    return "all parameters together"
