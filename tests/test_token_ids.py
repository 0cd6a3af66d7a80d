"""Ids, targets, weights and positions as arrays of other libraries, and as subclasses of NumPy's."""

import numpy as np
import pytest

from minigpt import GPT2, GPT2Config
from minigpt.errors import InputError

SIZES = {"vocab_size": 13, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}


class Tensor:
    """Looks as a tensor of PyTorch does: its dtype is not one of NumPy's."""

    class dtype:
        pass

    def __init__(self, values, problem=None):
        self.values = np.asarray(values)
        self.problem = problem
        self.shape = self.values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        if self.problem:
            raise self.problem
        return self.values


@pytest.fixture(scope="module")
def model():
    return GPT2(GPT2Config(**SIZES))


IDS = np.array([[1, 2, 3], [4, 5, 6]])
CALLS = {
    "ids": lambda model, tensor: model.forward(tensor(IDS), grad=False)[0],
    "positions": lambda model, tensor: model.forward(IDS, grad=False, positions=tensor([2, 1, 0]))[0],
    "targets": lambda model, tensor: model.loss(IDS, tensor(IDS), grad=False)[0],
    "weights": lambda model, tensor: model.loss(IDS, IDS, grad=False, weights=tensor([[1, 2.0, 0], [0, 1, 3]]))[0],
    "prompts": lambda model, tensor: model.generate(tensor(IDS), 3, temperature=0),
    "prompts of different lengths": lambda model, tensor: np.concatenate(
        model.generate([tensor([1, 2]), tensor([3])], 3, temperature=0)
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_tensors_of_another_library_are_read(call, model):
    assert np.array_equal(call(model, Tensor), call(model, np.asarray))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("problem", [TypeError("can't convert cuda:0 device type\nto numpy"), RuntimeError("grad")])
def test_a_tensor_that_numpy_cannot_read_is_refused_in_one_line(call, problem, model):
    with pytest.raises(InputError, match="(Tensor|list) that NumPy cannot read .*: give a NumPy array") as raised:
        call(model, lambda values: Tensor(values, problem))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_tensor_without_any_numbers_is_refused(call, model):
    class Empty:
        dtype = "int64"
        shape = (2, 3)

    with pytest.raises(InputError):
        call(model, lambda values: Empty())


class Own(np.ndarray):
    """A subclass, as np.memmap is one."""


@pytest.mark.parametrize(
    ("call", "bad", "match"),
    [
        (lambda model, bad: model.forward(bad, grad=False), [[1, -1, 3]], "token id -1 is out of range"),
        (lambda model, bad: model.forward(bad, grad=False), [[1, 99, 3]], "token id 99 is out of range"),
        (lambda model, bad: model.loss(IDS[:1], bad), [[1, -1, 3]], "targets must be -100 or 0 to 12: got -1"),
        (lambda model, bad: model.loss(IDS[:1], IDS[:1], weights=bad), [[1, -1, 3]], "weights begin at -1"),
        (lambda model, bad: model.forward(IDS, positions=bad), [1, 2, 8], "position 8 is out of range"),
    ],
)
def test_the_range_of_a_subclass_is_checked_too(call, bad, match, model):
    with pytest.raises(InputError, match=match):
        call(model, np.array(bad).view(Own))
