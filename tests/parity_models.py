"""A model of transformers and ours with the same weights: what the tests of parity share."""

import functools
from pathlib import Path

import numpy as np
from helpers import error

THEIRS = Path("theirs")  # the folder that messages would name


def in_float64(theirs):
    """Their model in float64, also where T5's normalisation computes a part in float32, whatever the weights are."""
    import torch

    def normalised(module, x):
        return module.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)

    for module in theirs.modules():
        if type(module).__name__ in ("T5LayerNorm", "MT5LayerNorm"):
            module.forward = functools.partial(normalised, module)
    return theirs.eval().double()


def moved(theirs, spread=0.2):
    """Their model in float64, with random weights far from the initial point."""
    import torch

    theirs = in_float64(theirs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return theirs


def filled(ours, theirs):
    """Our model with the weights of theirs, as a file of it has them."""
    tensors = {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}
    plain = ours.from_published(tensors, THEIRS)
    for name, parameter in ours.named_parameters():
        parameter.data[...] = plain[name]
    return ours


def gradients_of(theirs, ours) -> dict[str, np.ndarray]:
    """The gradients in their model under the names of our parameters; zeros where nothing arrived."""
    gradients = {}
    for name, parameter in theirs.named_parameters():
        gradients[name] = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
    return ours.from_published(gradients, THEIRS)


def check_gradients(expected: dict[str, np.ndarray], ours) -> None:
    """Every gradient of our model is the expected one, to 1e-9."""
    for name, parameter in ours.named_parameters():
        if parameter.grad is None:
            assert not expected[name].any(), name
        elif name.endswith("key_of_distance.bias"):  # a number that all keys share moves no probability
            assert np.abs(parameter.grad).max() < 1e-12
        else:
            for part in parts_of(name, parameter):
                assert error(parameter.grad[part], expected[name][part]) < 1e-9, name


def parts_of(name, parameter) -> list[slice]:
    """The whole of a parameter; of a bias of keys, queries and values all but that of the keys, whose gradient is 0."""
    if not name.endswith("c_attn.bias"):
        return [slice(None)]
    if "cross" in name:
        return [slice(parameter.grad.size // 2, None)]
    third = parameter.grad.size // 3
    return [slice(0, third), slice(2 * third, None)]
