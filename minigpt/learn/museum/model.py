"""A model whose two passes are functions of a file: it can be checked and trained as the library's own models are."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt.device.arrays import Array
from minigpt.models.gpt1 import GPT1, GPT1Config
from minigpt.nn import Parameter


class ModelOfFunctions:
    """A GPT-1 of one block, from `model_forward` and `model_backward` of a file (see `gpt1_in_functions`).

    file: a module, or anything else that has them as attributes. config: of one layer, with one rate of dropout.
    """

    def __init__(self, file: Any, config: GPT1Config, seed: int = 0, dtype=np.float32):
        self.file = file
        self.config = config
        self.weights = dict(GPT1(config, seed, dtype).named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters, as those of a GPT1."""
        yield from self.weights.items()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.weights.values():
            parameter.grad = None

    def loss(self, ids: Array, targets: Array, key=None) -> tuple[Any, Any]:
        """ids (B,T) int, targets (B,T) int -> loss (). key: switches dropout on."""
        weights = {name: parameter.data for name, parameter in self.weights.items()}
        return self.file.model_forward(weights, ids, targets, self.config.n_head, self.config.embd_pdrop, key)

    def loss_backward(self, cache: Any, dloss: float = 1.0) -> None:
        """The gradients arrive in the parameters. Raises KeyError for the gradient of a weight that there is not."""
        before = {name: one.grad for name, one in self.weights.items() if one.grad is not None}
        for name, gradient in self.file.model_backward(dloss, cache, before).items():
            self.weights[name].grad = gradient
